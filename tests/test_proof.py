"""Zero-copy proof: what each API's evidence allows to say, and what it does not."""

from __future__ import annotations

import pytest

from zcdb.runner.proof import Path, prove

GOOD = Path(sg=True, tx_checksum=True)
SENT = {"payload_bytes": 1_000_000, "calls": 100, "completions": 80, "copied": 0}


def test_completions_that_never_say_copied_prove_it_on_a_path_that_gathers():
    found = prove("msg_zerocopy", SENT, GOOD)

    assert (found.label, found.method) == ("proven", "completions")
    # Only the bytes of calls that were completed are known about.
    assert (found.bytes_completed, found.bytes_copied) == (800_000, 0)
    assert found.proven_share == 1.0


def test_completions_that_say_copied_are_believed():
    found = prove("msg_zerocopy", {**SENT, "copied": 80}, GOOD)

    assert (found.label, found.bytes_copied, found.proven_share) == ("copied", 800_000, 0.0)
    assert "bytes of all of 80 completions" in found.sentence


def test_partly_copied_is_copied_with_its_share():
    found = prove("io_uring_send_zc", {**SENT, "copied": 20}, GOOD)

    assert (found.label, found.method) == ("copied", "usage report")
    assert found.bytes_copied == 200_000
    assert found.proven_share == pytest.approx(0.75)
    assert "25.0 %" in found.sentence


@pytest.mark.parametrize("copied", [0, 40, 80])
def test_without_scatter_gather_the_kernel_s_report_proves_nothing(copied):
    found = prove("msg_zerocopy", {**SENT, "copied": copied}, Path(sg=False, tx_checksum=True))

    assert found.label == "unknown"
    assert found.proven_share is None
    assert "scatter-gather off" in found.sentence


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (Path(sg=True, tx_checksum=False), "checksum offload off"),
        (Path(sg=None, tx_checksum=None), "offloads were not read"),
    ],
)
def test_no_report_of_a_copy_is_no_proof_where_the_path_may_copy(path, words):
    found = prove("msg_zerocopy", SENT, path)

    assert found.label == "unknown"
    assert words in found.sentence


def test_without_a_completion_nothing_is_known():
    found = prove("msg_zerocopy", {**SENT, "completions": 0}, GOOD)

    assert (found.label, found.bytes_copied) == ("unknown", None)


@pytest.mark.parametrize("api", ["sendfile", "splice"])
def test_file_apis_are_judged_by_the_offloads_of_the_path(api):
    proven = prove(api, SENT, GOOD)
    copied = prove(api, SENT, Path(sg=False, tx_checksum=False))
    unread = prove(api, SENT, Path(sg=None, tx_checksum=None))

    assert (proven.label, proven.bytes_completed, proven.bytes_copied) == ("proven", 10**6, 0)
    assert (copied.label, copied.proven_share) == ("copied", 0.0)
    assert "without scatter-gather and checksum offload" in copied.sentence
    assert (unread.label, unread.proven_share) == ("unknown", None)


def test_an_api_that_always_copies_is_copied_and_not_reproached_with_it():
    found = prove("write", SENT, GOOD)

    assert (found.label, found.is_asked, found.proven_share) == ("copied", False, 0.0)
    assert found.to_json()["method"] == "the API"


def test_of_an_api_that_zcdb_does_not_know_nothing_is_said():
    assert prove("nfs_read", SENT, GOOD).label == "unknown"


def test_a_mix_of_apis_has_no_proof():
    assert prove("mixed", SENT, GOOD).label == "unknown"
