"""Small files of /proc and /sys: their text, or None where this machine has none."""

from __future__ import annotations

from pathlib import Path


def read_text(path: Path) -> str | None:
    """Return a small file's text without the space around it, or None where it cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None


def read_int(path: Path) -> int | None:
    """Return a file's whole number, or None where it has none."""
    text = read_text(path)
    if text is None or not text.removeprefix("-").isdecimal():
        return None
    return int(text)


def read_pairs(path: Path) -> dict[str, str]:
    """Return the first value of each `key: value` line of a file; empty if it cannot be read."""
    found: dict[str, str] = {}
    for line in (read_text(path) or "").splitlines():
        key, colon, value = line.partition(":")
        if colon:
            found.setdefault(key.strip(), value.strip())
    return found


def read_kib(pairs: dict[str, str], key: str) -> int | None:
    """Return the bytes of one line of /proc/meminfo ("12 kB"), or None if it has none."""
    words = pairs.get(key, "").split()
    return int(words[0]) * 1024 if words and words[0].isdecimal() else None
