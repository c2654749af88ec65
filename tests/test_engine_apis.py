"""The registry of APIs: what this kernel can run, and which combinations no kernel can."""

from __future__ import annotations

import errno
import os
import socket

import pytest

from zcdb.engine import apis, probes
from zcdb.engine.native import native
from zcdb.errors import EngineError
from zcdb.factors import FACTORS


@pytest.fixture(autouse=True)
def _forget_probes():
    apis._unsupported_reason.cache_clear()
    yield
    apis._unsupported_reason.cache_clear()


class Refusing:
    """The C module with one probe answering as another kernel would."""

    def __init__(self, **answers: int) -> None:
        self._answers = answers

    def __getattr__(self, name: str) -> object:
        if name in self._answers:
            return lambda *_: self._answers[name]
        return getattr(native()[1], name)


@pytest.fixture
def probe_answers(monkeypatch):
    """Return a function that makes a probe of the C module return an error number."""

    def answer(**answers: int) -> None:
        monkeypatch.setattr(probes, "native", lambda: (native()[0], Refusing(**answers)))

    return answer


def test_the_registry_has_exactly_the_apis_that_an_experiment_may_name():
    foreign = {"nfs_read", "receive", "send_or_write"}

    assert set(apis.SENDER_APIS) == set(FACTORS["api"].choices) - foreign
    assert tuple(apis.RECEIVER_APIS) == FACTORS["rx_api"].choices
    assert all("foreign tool" in apis.unsupported_reason(name) for name in foreign)


def test_every_api_has_its_loop_in_the_c_module():
    _, lib = native()

    for api in [*apis.SENDER_APIS.values(), *apis.RECEIVER_APIS.values()]:
        assert api.name == apis.MIXED or callable(getattr(lib, api.loop)), api.name


def test_zero_copy_is_proven_by_notifications_usage_reports_or_the_path():
    proofs = {name: api.proof for name, api in apis.SENDER_APIS.items() if api.proof != "none"}

    assert proofs == {
        "sendfile": "path",
        "splice": "path",
        "msg_zerocopy": "completions",
        "io_uring_send_zc": "usage-report",
        "mixed": "parts",
    }


@pytest.mark.parametrize("name", ["write", "send", "sendmsg", "read_write", "recv"])
def test_plain_calls_are_supported_everywhere(name):
    assert apis.unsupported_reason(name) is None


def test_an_unknown_api_is_a_bug_of_the_caller():
    with pytest.raises(KeyError, match="teleport"):
        apis.unsupported_reason("teleport")


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.ENOSYS, "has no io_uring"),
        (errno.EPERM, "sysctl kernel.io_uring_disabled=0"),
        (errno.ENOMEM, "memlock"),
        (errno.EOPNOTSUPP, "Linux 5.6"),
        (errno.EMFILE, os.strerror(errno.EMFILE)),
    ],
)
@pytest.mark.parametrize("name", ["io_uring_send", "io_uring_send_zc"])
def test_missing_io_uring_is_a_reason_that_says_what_to_do(probe_answers, name, number, said):
    probe_answers(zc_probe_io_uring_send=-number)

    assert said in apis.unsupported_reason(name)


def test_send_zc_without_a_usage_report_is_unsupported(probe_answers):
    probe_answers(zc_probe_io_uring_send=0, zc_probe_io_uring_send_zc=-errno.EINVAL)

    assert "Linux 6.2" in apis.unsupported_reason("io_uring_send_zc")
    assert apis.unsupported_reason("io_uring_send") is None


def test_a_kernel_without_so_zerocopy_is_a_reason(monkeypatch):
    monkeypatch.setattr(probes, "SO_ZEROCOPY", 9999)

    assert "SO_ZEROCOPY" in apis.unsupported_reason("msg_zerocopy")


@pytest.mark.parametrize(("name", "call"), [("sendfile", "sendfile"), ("splice_null", "splice")])
def test_a_call_that_a_seccomp_profile_forbids_is_a_reason(monkeypatch, name, call):
    def forbidden(*_arguments: object) -> int:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, call, forbidden)

    assert apis.unsupported_reason(name) == (
        f"this kernel refuses {call} (Operation not permitted); a seccomp profile may forbid it"
    )


def test_without_the_c_module_nothing_is_supported_and_the_reason_says_how_to_get_it(monkeypatch):
    def missing() -> None:
        raise EngineError("the C module is not there", hint="build it")

    monkeypatch.setattr(apis, "native", missing)

    assert apis.unsupported_reason("write") == "the C module is not there; build it"


@pytest.mark.parametrize(
    ("factors", "said"),
    [
        ({"api": "send", "fragments": 2}, "needs sendmsg"),
        ({"api": "sendmsg", "fragments": 5, "message_size": 4}, "cannot be cut into 5"),
        ({"api": "write", "working_set": "files=2;mean_size=9;passes=1"}, "sends from memory"),
        (
            {"api": "sendfile", "working_set": 4095, "message_size": 4096},
            "smaller than one message",
        ),
        ({"api": "send", "verify": True, "rx_api": "recv_trunc"}, "that needs recv"),
        ({"api": "send", "verify": True, "rx_api": "splice_null"}, "that needs recv"),
    ],
)
def test_a_combination_that_makes_no_sense_is_refused_with_a_sentence(factors, said):
    assert said in apis.unsupported_combination(factors)


@pytest.mark.parametrize(
    "factors",
    [
        {"api": "send"},
        {"api": "sendmsg", "fragments": 4, "message_size": 4},
        {"api": "splice", "working_set": "files=2;mean_size=9;passes=1"},
        {"api": "msg_zerocopy", "working_set": 65536},
        {"api": "sendfile", "verify": True},
    ],
)
def test_a_combination_that_makes_sense_has_no_reason(factors):
    assert apis.unsupported_combination(factors) is None


def test_probing_leaves_no_descriptor_open():
    before = set(os.listdir("/proc/self/fd"))  # noqa: PTH208 (names alone are wanted)

    for name in [*apis.SENDER_APIS, *apis.RECEIVER_APIS]:
        apis.unsupported_reason(name)

    with socket.socket():
        pass
    assert set(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
