"""The file that a server serves: the meaning of `working_set` for NFS and FTP."""

from __future__ import annotations

from zcdb.factors import Factors

HOT_FILE_BYTES = 256 << 20
"""'hot': one file that is read again and again, long enough that its opening costs little."""


def file_bytes(factors: Factors) -> int:
    """Return the size of the served file."""
    working_set = factors["working_set"]
    return working_set if isinstance(working_set, int) else HOT_FILE_BYTES


def refuse_file_sets(factors: Factors) -> str | None:
    """Return why a working set cannot be served, or None."""
    working_set = factors["working_set"]
    if working_set == "hot" or isinstance(working_set, int):
        return None
    return f"{factors['tool']} serves one file; write working_set = 'hot' or a size"
