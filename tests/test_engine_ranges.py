"""Parts of files, large files, and files that come from disk again and again."""

from __future__ import annotations

import os
import tempfile

import pytest
from engine_support import FILE_APIS, move, running, supported, wait_until

from zcdb.engine import apis, files, probes
from zcdb.engine.endpoint import SenderOptions, start_sender
from zcdb.errors import EngineError
from zcdb.factors import display, normalise
from zcdb.factors.values import FileRange, file_range

APIS = supported(FILE_APIS)
cold = pytest.mark.skipif(
    probes.cold_cache_reason() is not None, reason=str(probes.cold_cache_reason())
)


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    "working_set",
    [
        "file=10000000;offset=4097;length=100003",
        "file=3221225472;offset=2684354561;length=131072",  # beyond what 31 and 32 bits hold
    ],
)
def test_a_part_of_a_file_is_sent_from_its_first_to_its_last_byte(api, working_set):
    length = file_range(working_set).length_bytes
    sender, receiver = move(
        5 * length + 7, api=api, message_size=9_999, working_set=working_set, verify=True
    )

    assert (sender.errors, receiver.errors) == ([], [])
    assert receiver.verify_mismatch == 0
    assert receiver.totals["payload_bytes"] == 5 * length + 7
    assert sender.totals["passes"] == 5
    assert sender.totals["calls"] == 5 * -(-length // 9_999) + 1


def test_of_a_part_only_the_part_takes_room():
    source = files.make_source("file=3221225472;offset=2684354561;length=131072", 4096)
    stat = os.fstat(source.descriptors[0])
    share = source.cached_share()
    source.files[0].close()

    assert stat.st_size == 3 << 30
    assert stat.st_blocks * 512 < 1 << 20
    assert share == 1.0


@pytest.mark.parametrize("api", APIS)
def test_the_file_set_of_2001_is_walked_through_in_passes(api):
    factors = {"working_set": "files=63;mean_size=358400;passes=10", "message_size": 65536}
    with running(api=api, verify=True, total_bytes=63 * 358_400 * 10, **factors) as (
        sender,
        receiver,
    ):
        cached = sender.effective["cached_share"]
        wait_until(lambda: receiver.has_ended)
        ends = sender.stop(), receiver.stop()

    assert cached == 1.0
    assert ends[0].totals["passes"] == 10
    assert ends[1].totals["payload_bytes"] == 63 * 358_400 * 10
    assert ends[1].verify_mismatch == 0


def test_a_file_of_100_mb_is_sent_once_and_counted_as_one_pass():
    sender, receiver = move(100 << 20, api="sendfile", working_set=100 << 20)

    assert sender.totals["passes"] == 1
    assert receiver.totals["payload_bytes"] == 100 << 20


# -- cold ------------------------------------------------------------------------------------


@cold
@pytest.mark.parametrize("api", APIS)
def test_cold_files_are_not_in_the_cache_at_the_start_and_dropped_after_each_pass(api):
    size = 4 << 20
    with running(
        api=api, working_set=size, page_cache="cold", verify=True, total_bytes=3 * size
    ) as (sender, receiver):
        cached = sender.effective["cached_share"]
        wait_until(lambda: receiver.has_ended)
        ends = sender.stop(), receiver.stop()

    assert cached == 0.0
    assert ends[1].verify_mismatch == 0
    assert ends[0].totals["passes"] == 3
    # What is still in the socket's queue cannot be dropped, and is counted.
    pages = ends[0].totals["dropped_pages"] + ends[0].totals["kept_pages"]
    assert pages == 3 * size // 4096
    assert ends[0].totals["dropped_pages"] > 0


@cold
def test_cold_parts_and_sets_are_dropped_too():
    for working_set, pages in (
        ("file=1000000;offset=4000;length=200000", 50),
        ("files=3;mean_size=8192;passes=1", 6),
    ):
        factors = {"working_set": working_set, "message_size": 4096, "page_cache": "cold"}
        with running(api="read_write", **factors) as (sender, receiver):
            wait_until(lambda: sender.reading()["passes"] >= 2)
            sender.stop()
            receiver.stop()
            reading = sender.reading()

        dropped = reading["dropped_pages"] + reading["kept_pages"]
        assert abs(dropped - reading["passes"] * pages) <= 2 * reading["passes"]


def test_a_file_system_without_a_disk_is_a_reason(monkeypatch):
    monkeypatch.setattr(apis, "cold_cache_reason", lambda: "it keeps its pages in memory")

    reason = apis.unsupported_combination(
        {"api": "sendfile", "working_set": 1 << 20, "page_cache": "cold"}
    )

    assert reason == "it keeps its pages in memory"


def test_memory_keeps_its_pages_and_says_so():
    try:
        with tempfile.TemporaryFile(dir="/dev/shm"):
            pass
    except OSError:
        pytest.skip("no file system in memory here")

    reason = probes.cold_cache_reason("/dev/shm")  # noqa: S108

    assert reason.startswith("the file system of /dev/shm keeps its pages in memory")


def test_files_that_stay_cached_end_the_sender_with_a_sentence(monkeypatch):
    monkeypatch.setattr(files.SourceFiles, "drop", lambda _self: None)

    with pytest.raises(EngineError, match="100% of the source files stayed in the page cache"):
        start_sender(
            SenderOptions(ports=(1,), api="sendfile", working_set=1 << 20, page_cache="cold")
        )


# -- spellings -------------------------------------------------------------------------------


def test_a_part_has_one_spelling_and_reads_well():
    spelled = normalise("working_set", {"file": "1G", "offset": "64M", "length": "128K"})

    assert spelled == "file=1073741824;offset=67108864;length=131072"
    assert normalise("working_set", spelled) == spelled
    assert file_range(spelled) == FileRange(1 << 30, 64 << 20, 128 << 10)
    assert display("working_set", spelled) == "128 KiB from 64 MiB of a file of 1 GiB"


def test_a_part_starts_at_the_beginning_unless_it_says_where():
    assert normalise("working_set", {"file": 100, "length": 10}) == "file=100;offset=0;length=10"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"file": "1M", "offset": "1M", "length": 1}, "ends 1 bytes after the end of its file"),
        ({"file": "1M"}, "needs file, length"),
        ({"file": "1M", "length": 1, "colour": 1}, "needs file, length"),
        ({"file": "1M", "length": 0}, "has no bytes"),
        ("file=10;offset=5;length=6", "is not a working set"),
    ],
)
def test_a_part_that_is_none_is_refused(value, said):
    with pytest.raises(ValueError, match=said):
        normalise("working_set", value)


@pytest.mark.parametrize(
    ("factors", "said"),
    [
        (
            {"api": "send", "working_set": "file=4096;offset=0;length=4096"},
            "a part of a file needs",
        ),
        ({"api": "send", "working_set": 4096, "page_cache": "cold"}, "sends from memory"),
        ({"api": "sendfile", "page_cache": "cold"}, "needs a working_set"),
        (
            {"api": "sendfile", "working_set": "file=10;offset=0;length=10"},
            "smaller than one message of 4096 bytes",
        ),
    ],
)
def test_files_that_cannot_be_sent_so_are_refused_with_a_sentence(factors, said):
    assert said in apis.unsupported_combination({"message_size": 4096, **factors})
