"""The flags that the CPU books raise, each with the figures behind it.

Pure.  What a flag says is in `zcdb.flags`; here is when it is raised.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zcdb.engine.account import FOREIGN_LIMIT, Account
from zcdb.records import End, Flag

WORK_DRIFT_LIMIT = 0.02
GAP_DRIFT_LIMIT = 0.005
MEDIAN_LIMIT = 0.01
DISAGREE_LIMIT = 0.05
LATE_TICKS = 3


def account_flags(accounts: Sequence[Account]) -> list[Flag]:
    """Return what some CPUs' samples and calibrations give cause to."""
    raised = [
        _steal(accounts),
        _foreign(accounts),
        _contaminated(accounts),
        _drift(accounts),
        _median(accounts),
    ]
    return [flag for flag in raised if flag is not None]


def sharing_flag(cpus_of_end: Mapping[End, Sequence[int]]) -> list[Flag]:
    """Return the flag of two ends on one host whose CPUs are told apart."""
    if len(cpus_of_end) < 2:
        return []
    names = (f"{end}: CPU {', '.join(map(str, cpus))}" for end, cpus in cpus_of_end.items())
    return [Flag("ends-share-host", "; ".join(names))]


def disagreement_flag(
    by_soak_and_ticks: Mapping[str, tuple[int | None, int | None]], window_ns: int, tick_ns: int
) -> list[Flag]:
    """Compare soaking with the kernel's ticks where both have a figure.

    Args:
        by_soak_and_ticks: whose CPU time -> ns by soaking, ns by /proc/stat.
        tick_ns: one tick; of the CPU time of n CPUs in s seconds it is 1/(HZ x s x n).
    """
    details = [
        f"{name}: soak {soak / window_ns:.3f} CPUs, /proc/stat {ticks / window_ns:.3f} CPUs"
        for name, (soak, ticks) in by_soak_and_ticks.items()
        if soak is not None
        and ticks is not None
        and abs(soak - ticks) > max(DISAGREE_LIMIT * max(soak, ticks), tick_ns)
    ]
    return [Flag("cpu-methods-disagree", "; ".join(details))] if details else []


def unmeasured_foreign_flag(
    accounts_and_rusage: Mapping[str, tuple[Sequence[Account], int | None]],
    window_ns: int,
    tick_ns: int,
) -> list[Flag]:
    """Look for other work where no control group measures it: in the CPU clocks.

    What is neither the soakers', the sampler's nor the endpoint's was other work's.
    The clocks may be a kernel tick late, so this is of the whole window, and no
    sample can be left out because of it.

    Args:
        accounts_and_rusage: whose CPUs -> their accounts, CPU time of the endpoint there.
    """
    details = []
    for name, (accounts, rusage_ns) in accounts_and_rusage.items():
        if rusage_ns is None or any(account.foreign_share is not None for account in accounts):
            continue
        not_ours = [account.not_ours_ns() for account in accounts if account.kept is not None]
        known = [time_ns for time_ns in not_ours if time_ns is not None]
        other_ns = sum(known) - rusage_ns
        whole_ns = window_ns * len(known)
        is_known = len(known) == len(accounts) > 0
        if is_known and other_ns > max(FOREIGN_LIMIT * whole_ns, LATE_TICKS * tick_ns * len(known)):
            details.append(f"{name}: {_percent(other_ns / whole_ns)} of its CPUs, by CPU clocks")
    if not details:
        return []
    return [Flag("foreign-load", f"{'; '.join(details)}; no sample could be left out")]


def _steal(accounts: Sequence[Account]) -> Flag | None:
    stolen = [account for account in accounts if account.kept and account.kept.stolen]
    if not stolen:
        return None
    worst = max(stolen, key=lambda account: account.steal_share or 0)
    count = worst.kept.stolen if worst.kept else 0
    ticks = worst.ticks()
    witness = f"; /proc/stat counted {ticks.steal} ticks" if ticks is not None else ""
    return Flag(
        "steal",
        f"{_names(worst, stolen)}: {count} of {len(worst.samples)} samples,"
        f" {_percent(worst.steal_share)} of the window{witness}",
    )


def _foreign(accounts: Sequence[Account]) -> Flag | None:
    disturbed = [account for account in accounts if account.kept and account.kept.foreign]
    if not disturbed:
        return None
    worst = max(disturbed, key=lambda account: account.foreign_share or 0)
    count = worst.kept.foreign if worst.kept else 0
    return Flag(
        "foreign-load",
        f"{_names(worst, disturbed)}: {count} of {len(worst.samples)} samples,"
        f" {_percent(worst.foreign_share)} of the window",
    )


def _contaminated(accounts: Sequence[Account]) -> Flag | None:
    in_window = [account for account in accounts if account.kept and account.kept.is_contaminated]
    if in_window:
        return Flag("contaminated", f"{_names(in_window[0], in_window)} in the window")
    in_bracket = [
        account for account in accounts if any(idle.is_contaminated for idle in account.idles)
    ]
    if in_bracket:
        return Flag("contaminated", f"{_names(in_bracket[0], in_bracket)} in an idle bracket")
    return None


def _drift(accounts: Sequence[Account]) -> Flag | None:
    drifted = [
        account
        for account in accounts
        if abs(account.work_drift or 0) > WORK_DRIFT_LIMIT
        or abs(account.gap_drift or 0) > GAP_DRIFT_LIMIT
    ]
    if not drifted:
        return None
    worst = max(drifted, key=lambda account: abs(account.work_drift or 0))
    return Flag(
        "bracket-drift",
        f"{_names(worst, drifted)}: work rate {100 * (worst.work_drift or 0):+.2f} %,"
        f" gap share {100 * (worst.gap_drift or 0):+.2f} points",
    )


def _median(accounts: Sequence[Account]) -> Flag | None:
    differing = [account for account in accounts if _skew(account) > MEDIAN_LIMIT]
    if not differing:
        return None
    worst = max(differing, key=_skew)
    return Flag(
        "mean-median-differ",
        f"{_names(worst, differing)}: mean {_percent(worst.soak_share)},"
        f" median {_percent(worst.soak_median_share)}",
    )


def _skew(account: Account) -> float:
    return abs((account.soak_share or 0) - (account.soak_median_share or 0))


def _names(worst: Account, accounts: Sequence[Account]) -> str:
    more = f" and {len(accounts) - 1} more" if len(accounts) > 1 else ""
    return f"CPU {worst.cpu}{more}"


def _percent(share: float | None) -> str:
    return f"{100 * (share or 0):.2f} %"
