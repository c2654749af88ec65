"""What netperf's outputs have in common: banner, units, CPU figures, errors."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from zcdb.importers import quantities as q
from zcdb.importers.commands import Command
from zcdb.importers.context import is_loopback, mark_loopback
from zcdb.importers.model import Draft
from zcdb.importers.text import Line
from zcdb.importers.vocabulary import netperf_cpu_method

BANNER_WORDS = " TEST from "
_NAME = re.compile(r"(?:^|\s)([A-Za-z0-9][A-Za-z0-9 /_-]{0,60})$")
_BANNER_REST = re.compile(r"^(?:.*? to )(\S{1,255}) \(([^)]{0,100})\) port [0-9]+ (AF_\w+)(.*)$")
_NAMES = {
    "TCP STREAM": "TCP_STREAM",
    "TCP MAERTS": "TCP_MAERTS",
    "TCP SENDFILE": "TCP_SENDFILE",
    "UDP UNIDIRECTIONAL SEND": "UDP_STREAM",
    "UDP STREAM": "UDP_STREAM",
    "TCP REQUEST/RESPONSE": "TCP_RR",
    "TCP CONNECT/REQUEST/RESPONSE": "TCP_CRR",
    "UDP REQUEST/RESPONSE": "UDP_RR",
    "SCTP 1-TO-MANY STREAM": "SCTP_STREAM_MANY",
    "SCTP REQUEST/RESPONSE": "SCTP_RR",
    "SCTP 1-TO-MANY REQUEST/RESPONSE": "SCTP_RR_MANY",
    "OMNI": "OMNI",
    "OMNI SEND": "OMNI",
    "OMNI RECEIVE": "OMNI",
}
_CONFIDENCE = re.compile(r"\+/-\s*([0-9.]{1,12})%\s*@?\s*([0-9]{1,2})% conf\.")
_BURST = re.compile(rf"first burst ({q.COUNT})")
_ERROR = re.compile(
    r"^\s*(?:establish[_ ]control\b|recv_response: |send_request: "
    r"|net(?:perf|server): .{0,120}\b(?:error|cannot|could not|failed|unable|invalid|refused)\b"
    r"|shutdown_control: |remote error [0-9]|(?:udp|tcp|sctp|omni|dg)_\w{1,40}: .*\berror\b"
    r"|send_(?:tcp|udp|omni|sctp)\w{0,40}: |recv_(?:tcp|udp|omni|sctp)\w{0,40}: |getaddrinfo: )"
)


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit of a rate column; `factor` gives bit/s, or 1/s for transactions."""

    name: str
    factor: int
    is_transactions: bool = False
    is_mislabelled: bool = False


def parse_unit(words: str) -> Unit | None:
    """Return the unit of throughput that stands in column words, or None."""
    if match := re.search(r"10\^([0-9])\s?bits\s*/s(?:ec)?", words):
        if match[1] == "0":
            # netperf -f b prints "bits" and divides by 1.0: it is bytes per second.
            return Unit(match[0], 8, is_mislabelled=True)
        return Unit(match[0], 10 ** int(match[1]))
    if match := re.search(r"\b([KMGT]?)Bytes\s*/s(?:ec)?", words):
        return Unit(" ".join(match[0].split()), q.rate_factor(match[1], "Bytes"))
    if match := re.search(r"(?<![\w^])bits\s*/s(?:ec)?", words):
        return Unit(match[0], 8, is_mislabelled=True)
    if re.search(r"\bTrans?/s|Rate\b.*\bper sec|\bper sec\b", words):
        return Unit("Trans/s", 1, is_transactions=True)
    return None


_LETTERS = {
    "k": "10^3bits/s",
    "m": "10^6bits/s",
    "g": "10^9bits/s",
    "b": "10^0bits/s",
    "K": "KBytes/s",
    "M": "MBytes/s",
    "G": "GBytes/s",
    "x": "Trans/s",
}


def unit_of_letter(letter: str | None) -> Unit | None:
    """Return the unit that the option -f asks for."""
    return parse_unit(_LETTERS.get(letter or "", ""))


@dataclass(frozen=True, slots=True)
class Banner:
    """The line that names a test.

    Attributes:
        options: what stands behind the addresses.
        is_ambiguous: True if several banners came before their results.
    """

    test: str
    peer: str | None = None
    addresses: tuple[str, ...] = ()
    family: str | None = None
    options: str = ""
    raw_name: str = ""
    start: int = 0
    end: int = 0
    is_ambiguous: bool = False

    @classmethod
    def of_command(cls, test: str) -> Banner:
        """Return what a command line says in place of a banner."""
        return cls(test)


def find_banner(lines: Sequence[Line], index: int) -> Banner | None:
    """Return the banner that begins on a line, put together if it was wrapped."""
    before, words, rest = lines[index].text.partition(BANNER_WORDS)
    match = _NAME.search(before[-100:]) if words else None
    if match is None:
        return None
    rest, end = rest[:4000].strip(), index + 1
    while _BANNER_REST.match(rest) is None and end < len(lines) and end - index < 4:
        more = lines[end].text.strip()
        if not more:
            break
        rest, end = f"{rest} {more}", end + 1
    whole = _BANNER_REST.match(rest)
    # A mail may have put other words on the same line, in front of the banner.
    name = " ".join(match[1].split()).rpartition("MIGRATED ")[2]
    test = _NAMES.get(name.upper(), name.upper().replace(" ", "_"))
    if whole is None:
        return Banner(test, raw_name=name, start=index, end=index + 1)
    addresses = tuple(x for x in (whole[1], whole[2]) if x)
    return Banner(
        test,
        peer=whole[1],
        addresses=addresses,
        family=whole[3],
        options=whole[4],
        raw_name=name,
        start=index,
        end=end,
    )


def start_draft(
    kind: str, output_format: str, banner: Banner | None, command: Command | None
) -> Draft:
    """Return a draft with what banner and command line say."""
    named = banner.test if banner else (command.option("-t") or "").upper() if command else ""
    assumed = {"stream": "STREAM", "udp": "UDP_STREAM", "rr": "RR"}.get(kind, "OMNI")
    draft = Draft("netperf", output_format, named or assumed)
    if not named:
        draft.flag("test-assumed", "no banner")
    test = draft.test
    if protocol := next((p for p in ("tcp", "udp", "sctp") if test.startswith(p.upper())), None):
        draft.factors["protocol"] = protocol
    draft.detail("direction", _direction(test, kind, banner))
    if test == "TCP_SENDFILE":
        draft.factors["api"] = "sendfile"
    elif test in ("TCP_STREAM", "TCP_MAERTS", "TCP_RR", "TCP_CRR"):
        draft.factors["api"] = "send"
    if kind in ("stream", "udp") and draft.details["direction"] != "rr":
        draft.factors["streams"] = 1
    if banner:
        _take_banner(draft, banner)
    if command:
        _take_command(draft, command)
    return draft


def _direction(test: str, kind: str, banner: Banner | None) -> str | None:
    if kind == "rr" or test.endswith(("_RR", "_CRR", "_RR_MANY", "_CC")):
        return "rr"
    if "MAERTS" in test:
        return "recv"
    name = banner.raw_name.upper() if banner else ""
    if name == "OMNI RECEIVE":
        return "recv"
    if test == "OMNI" and name != "OMNI SEND":
        return None
    return "send"


def _take_banner(draft: Draft, banner: Banner) -> None:
    draft.detail("peer", banner.peer)
    if banner.family in ("AF_INET", "AF_INET6"):
        draft.factors["address_family"] = "inet6" if banner.family == "AF_INET6" else "inet"
    if is_loopback([a for a in banner.addresses if not a.startswith("localhost.")] or [None]):
        mark_loopback(draft)
    if match := _CONFIDENCE.search(banner.options):
        draft.detail("confidence_requested", match[0])
    if match := _BURST.search(banner.options):
        draft.factors["burst"] = int(match[1])
    if "nodelay" in banner.options:
        draft.factors["tcp_nodelay"] = True
    if "cork" in banner.options:
        draft.factors["tcp_cork"] = True


def _take_command(draft: Draft, command: Command) -> None:
    draft.detail("command", command.text)
    draft.detail("fill_file", command.option("-F"))
    draft.detail("cpu_binding", command.option("-T"))
    for name, letter in (("sndbuf", "-s"), ("rcvbuf", "-S")):
        asked = q.whole((command.option(letter, local=True) or "").partition(",")[0])
        if asked is not None and asked >= 0:
            # -s is the local socket, -S the remote one; both set send and receive buffer.
            draft.detail(f"asked_{name}_bytes", asked)


def take_cpu(
    draft: Draft,
    side: str,
    end: str,
    letter: str,
    percent: str,
    demand: str,
    bps: float | None,
    rate: str,
) -> None:
    """Take one end's utilisation and service demand.

    Args:
        side: "local" or "remote".
        end: "sender" or "receiver".
        letter: netperf's CPU method; "?" if the text does not show it.
        percent, demand, rate: as printed.
        bps: the rate that netperf divided by.
    """
    share, us_per_kb = q.number(percent), q.number(demand)
    demand_name, used_name = f"service_demand_{end}", f"utilisation_{end}"
    if share is None or us_per_kb is None or (share == -1 and us_per_kb == -1):
        for name in (demand_name, used_name):
            draft.measure(name, None, "netperf prints -1: it did not measure this end")
        return
    if letter == "U":
        for name in (demand_name, used_name):
            draft.measure(name, None, "netperf's CPU method is U: unknown")
        draft.flag("cpu-method-unknown", end)
        return
    if share < 0 or us_per_kb < 0 or share > 100:
        for name in (demand_name, used_name):
            draft.measure(name, None, f"netperf prints {percent} % and {demand} us/KB")
        draft.flag("cpu-not-believable", f"{end}: {percent} %, {demand} us/KB")
        return
    method = netperf_cpu_method(letter)
    draft.detail(f"cpu_{side}_percent_of_machine", share)
    draft.detail("cpu_method_letter", letter)
    draft.measure(demand_name, us_per_kb, method=method)
    draft.derive(used_name, "service demand times rate", us_per_kb, bps, method=method)
    cpu_count(draft, end, "cpus", us_per_kb, bps, share, (demand, rate, percent))


def cpu_count(
    draft: Draft,
    end: str,
    rule: str,
    demand: float,
    rate: float | None,
    percent: float,
    printed: tuple[str, str, str],
) -> None:
    """Derive how many CPUs netperf averaged over, or flag that it is no whole number.

    netperf's utilisation is the mean of all CPUs and its service demand the
    time of all of them, so demand × rate ÷ utilisation is their number.
    """
    if not rate or not percent or not demand:
        return
    per_second = demand * rate / 1e6 if rule == "cpus of transactions" else demand * rate / 8192e6
    cpus = per_second * 100 / percent
    slack = sum(q.relative_half_unit(text) for text in printed)
    if not math.isfinite(slack) or slack > 0.5:
        return
    low, high = cpus * (1 - slack), cpus * (1 + slack)
    whole = round(cpus)
    if whole >= 1 and low <= whole <= high:
        if math.floor(high) == math.ceil(low):
            draft.derive_detail(f"cpus_{end}", rule, demand, rate, percent)
        return
    draft.flag("cpu-count-not-whole", f"{end}: {cpus:.3g} CPUs")


def is_error(text: str) -> bool:
    """Tell whether a line is netperf saying that it failed."""
    return _ERROR.match(text) is not None


def error_sentence(lines: Sequence[Line], index: int, banner: Banner | None) -> str:
    """Return one sentence about an error line."""
    text = lines[index].text.strip()
    if text.startswith(("establish control", "establish_control")):
        where = re.search(r"netserver listening on (\S+) at port ([0-9]+)", text)
        at = f" at {where[1]} port {where[2]}" if where else ""
        return f"netperf could not reach netserver{at}: nothing was measured ({text[:200]})"
    name = f"{banner.test} " if banner else ""
    return f"netperf {name}failed: {text[:200]}; no result rows"
