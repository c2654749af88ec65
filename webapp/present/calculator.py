"""The calculator: what a measured cost means for a server, each figure with its interval.

Everything follows from service demands in us/KB (KB = 1024 bytes) of chosen
cases; nothing is assumed but that cost per byte stays the same at another rate.
The share at which a server gains uses the delta method on four independent
means, with Student's t for the smallest number of repetitions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from zcdb import units
from zcdb.factors import display, varying
from zcdb.metrics import CPU_METHODS
from zcdb.report.naming import told_text
from zcdb.stats.distributions import t_critical
from zcdb.store.queries.questions import CaseFigures, Member
from zcdb.store.results import Statistic
from zcdb.units import KB_BYTES
from zcdb.webapp.labels import case_name
from zcdb.webapp.present.question_list import BASELINE_APIS, PATCH, kernel_of

LEVEL = 0.95
DEFAULT_RATE_BPS = 100_000_000_000
DEFAULT_CPUS = 16
CPUS_LIMIT = 4096
PLACES = ("write_off", "write_on", "file_off", "file_on")
"""The four cases of the share: a copying API and sendfile, without and with the path."""

ENDS = ("sender", "receiver")


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure with its interval at 95 %; `text` says both."""

    label: str
    value: float | None
    low: float | None
    high: float | None
    unit: str
    text: str
    formula: str


@dataclass(frozen=True, slots=True)
class ChosenCase:
    """A case that figures come from; `n` is of its sender's service demand."""

    place: str
    case_id: str
    name: str
    method: str
    n: int


@dataclass(frozen=True, slots=True)
class Preset:
    """Four cases that answer the question of the share, or one that has a cost."""

    name: str
    address: str


@dataclass(frozen=True, slots=True)
class CalculatorContent:
    """All that the page says.

    Attributes:
        share: words on the share of sendfile traffic; "" without four cases.
    """

    case: ChosenCase | None
    four: tuple[ChosenCase, ...]
    rate_text: str
    cpus: int
    rate: tuple[Figure, ...]
    share: tuple[Figure, ...]
    share_says: str
    case_presets: tuple[Preset, ...]
    share_presets: tuple[Preset, ...]
    problem: str
    revision: int


def demand(case: CaseFigures, end: str) -> Statistic | None:
    """Return a case's service demand at one end, by the headline method where it has that one."""
    for method in CPU_METHODS:
        found = case.find(f"service_demand_{end}", method)
        if found is not None and found.mean is not None:
            return found
    return None


def chosen(place: str, case: CaseFigures, among: Sequence[CaseFigures] = ()) -> ChosenCase:
    """Return what to say of a case that was chosen, told apart from those it is `among`."""
    found = demand(case, "sender")
    return ChosenCase(
        place,
        case.case_id,
        told_text(case.factors, ("api", "message_size", *_differing(among)))
        if among
        else case_name(case.factors),
        found.method if found else "",
        found.n if found else 0,
    )


def _differing(cases: Sequence[CaseFigures]) -> list[str]:
    return [name for name in varying([case.factors for case in cases]) if name != "api"]


def preset_name(cases: Sequence[CaseFigures], switched: str) -> str:
    """Return what to call four cases: "sendfile and write, message size 8 KiB: with …"."""
    copying, file = cases[0].factors, cases[2].factors
    apis = f"{display('api', file['api'])} and {display('api', copying['api'])}"
    shared = told_text(copying, ("message_size", "link", "sender_cpu"))
    return f"{apis}, {shared}: with {switched} and without"


def cpus_for(demand_us_per_kb: float, rate_bps: float) -> float:
    """Return how many CPUs a cost keeps busy at a rate: bytes a second times time a byte."""
    return rate_bps / 8 / KB_BYTES * demand_us_per_kb / 1e6


def rate_figures(case: CaseFigures, rate_bps: int, cpus: int) -> tuple[Figure, ...]:
    """Return CPUs needed at each end, and what is left of the sender's machine."""
    rate = units.format_bps(rate_bps)
    figures = []
    for end in ENDS:
        found = demand(case, end)
        label = f"CPUs of the {end} at {rate}"
        formula = f"{rate} ÷ 8 ÷ 1024 × service demand of the {end}"
        values = [] if found is None else [found.mean, found.low, found.high]
        used = [None if value is None else cpus_for(value, rate_bps) for value in values]
        mean, low, high = used or (None, None, None)
        figures.append(_figure(label, mean, low, high, "CPUs", formula))
    sender = figures[0]
    left, least, most = (
        None if value is None else cpus - value for value in (sender.value, sender.high, sender.low)
    )
    formula = f"{cpus} CPUs − CPUs of the sender; below 0 the rate cannot be reached"
    figures.append(_figure("Left for the application", left, least, most, "CPUs", formula))
    return tuple(figures)


def _figure(
    label: str,
    value: float | None,
    low: float | None,
    high: float | None,
    unit: str,
    formula: str,
) -> Figure:
    if value is None:
        text = "not measured"
    else:
        text = f"{units.format_number(value)} {unit}"
        if low is not None and high is not None:
            text += f" [{units.format_number(low)}, {units.format_number(high)}]"
        else:
            text += ", without an interval"
    return Figure(label, value, low, high, unit, text, formula)


def share_figures(cases: Sequence[CaseFigures]) -> tuple[tuple[Figure, ...], str]:
    """Return the share of traffic by sendfile at which the zero-copy path pays, and words on it.

    Args:
        cases: in the order of `PLACES`.
    """
    found = [demand(case, "sender") for case in cases]
    if any(one is None or one.mean is None for one in found):
        return (), "One of the four cases has no service demand of the sender."
    means = [one.mean for one in found if one is not None and one.mean is not None]
    write_off, write_on, file_off, file_on = means
    pays, saves = write_on - write_off, file_off - file_on
    errors = [_error(one) for one in found if one is not None]
    figures = [
        _difference("write() pays", pays, errors[:2], found[:2]),
        _difference("sendfile saves", saves, errors[2:], found[2:]),
    ]
    if saves <= 0:
        return tuple(figures), "sendfile saves nothing with the path: no share of it gains."
    if pays <= 0:
        return tuple(figures), "Copying costs no more with the path: any share of sendfile gains."
    share = pays / (pays + saves)
    low, high = _share_interval(pays, saves, errors, found)
    figures.append(
        _figure(
            "Share of sendfile traffic from which on a server gains",
            share * 100,
            None if low is None else low * 100,
            None if high is None else high * 100,
            "%",
            "what write() pays ÷ (what write() pays + what sendfile saves)",
        )
    )
    return tuple(figures), (
        f"A server gains once {share * 100:.3g} % of its bytes go through sendfile."
    )


def _error(one: Statistic) -> float | None:
    if one.sd is None or one.n < 3:
        return None
    return one.sd / math.sqrt(one.n)


def _critical(found: Sequence[Statistic | None]) -> float:
    return t_critical(LEVEL, min(one.n for one in found if one is not None) - 1)


def _difference(
    label: str, value: float, errors: Sequence[float | None], found: Sequence[Statistic | None]
) -> Figure:
    low = high = None
    known = [error for error in errors if error is not None]
    if len(known) == len(errors):
        half = _critical(found) * math.hypot(*known)
        low, high = value - half, value + half
    return _figure(label, value, low, high, "us/KB", "difference of two service demands")


def _share_interval(
    pays: float,
    saves: float,
    errors: Sequence[float | None],
    found: Sequence[Statistic | None],
) -> tuple[float | None, float | None]:
    """Return the interval of the share by the delta method, within 0 and 1."""
    known = [error for error in errors if error is not None]
    if len(known) < len(errors):
        return None, None
    of_pays, of_saves = math.hypot(*known[:2]), math.hypot(*known[2:])
    total = pays + saves
    # d(share)/d(pays) = saves/total², d(share)/d(saves) = −pays/total².
    error = math.hypot(saves * of_pays, pays * of_saves) / total**2
    half = _critical(found) * error
    share = pays / total
    return max(0.0, share - half), min(1.0, share + half)


def fours(group: Sequence[Member]) -> list[tuple[str, tuple[int, ...]]]:
    """Return (what is switched, keys in the order of `PLACES`) of the quadruples of a group.

    A group shares all but the API, the kernel of both ends and scatter-gather with
    checksum offload.
    """
    files = [member for member in group if member.values.get("api") == "sendfile"]
    found = []
    for api in BASELINE_APIS:
        copies = [member for member in group if member.values.get("api") == api]
        for switched, is_on in (
            ("the zero-copy kernel", _has_patch),
            ("scatter-gather and checksum offload", _has_offloads),
        ):
            quadruple = [
                next((m for m in some if is_on(m) is state), None)
                for some in (copies, files)
                for state in (False, True)
            ]
            keys = tuple(member.key for member in quadruple if member is not None)
            if len(keys) == len(PLACES):
                found.append((switched, keys))
    return found


def _has_patch(member: Member) -> bool | None:
    kernel = kernel_of(member)
    return None if kernel is None else kernel.endswith(PATCH)


def _has_offloads(member: Member) -> bool | None:
    sg = member.values.get("sg")
    return sg if isinstance(sg, bool) else None
