"""The rhythm in which a case hands over its bytes, and whether samples can show it.  Pure.

A case without a rate to keep and without a set of files has none: its calls follow
each other.  Foreign work is not looked at here, its samples are left out as disturbed.
"""

from __future__ import annotations

from zcdb.factors import Factors, file_set
from zcdb.stats.patterns import alias_risk


def burst_ns(factors: Factors, rate_bps: float) -> int | None:
    """Return how often a stream bursts, None where nothing makes it.

    A stream that keeps a rate sleeps before its calls, so a message is a burst; a stream that
    sends a set of files opens one after the other, so a file is.

    Args:
        factors: all declared factors, defaults filled in.
        rate_bps: of all streams together, positive.
    """
    bursts_bytes = []
    if int(factors["target_rate"]):
        bursts_bytes.append(int(factors["message_size"]))
    files = file_set(factors["working_set"])
    if files is not None:
        bursts_bytes.append(files.mean_size_bytes)
    if not bursts_bytes:
        return None
    return round(max(bursts_bytes) * 8e9 * int(factors["streams"]) / rate_bps)


def sampling_alias(factors: Factors, rate_bps: float, sample_ns: float) -> str | None:
    """Return why a trial's samples may show a rhythm that is not there, None if they cannot."""
    if rate_bps <= 0 or sample_ns <= 0:
        return None
    every_ns = burst_ns(factors, rate_bps)
    return alias_risk(round(sample_ns), every_ns) if every_ns else None
