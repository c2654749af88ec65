"""What to call a case among others: what is stated and special about it, and nothing twice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from zcdb.factors import ABSENT, FACTORS, UNSTATED, FactorValue, display, find

_ENDS = ("sender_", "receiver_")

SPEAKING = ("api", "link", "rx_api", "test", "tool")
"""Factors whose values say by themselves what they are a value of."""

NOTHING = "none"
"""What `display` makes of a value that takes something away."""


def level_words(name: str, value: FactorValue, speaking: Iterable[str] = SPEAKING) -> str:
    """Return a factor and its value: "sendfile", "message size 64 KiB", "no pinning".

    Args:
        name: a factor's, or without its end where both ends have the value.
        speaking: factors that are left unnamed.
    """
    known = find(name) or find(f"sender_{name}")
    shown = display(name if name in FACTORS else f"sender_{name}", value)
    if name in speaking and shown != NOTHING:
        return shown
    label = known.label if known else name
    if name not in FACTORS:
        label = label.replace(" (sender)", "")
    label = in_sentence(label)
    return f"no {label}" if shown == NOTHING else f"{label} {shown}"


def told_factors(
    factors: Mapping[str, FactorValue], names: Iterable[str]
) -> list[tuple[str, FactorValue]]:
    """Return the factors that say something: there and stated, each once.

    What both ends have alike (one kernel, one CPU) is told once, by the name without an end.
    """
    told: dict[str, FactorValue] = {}
    for name in names:
        value = factors.get(name)
        if value is None or value in (UNSTATED, ABSENT):
            continue
        end = next((end for end in _ENDS if name.startswith(end)), None)
        if end is None:
            told[name] = value
            continue
        rest = name.removeprefix(end)
        other = factors.get(f"{_ENDS[1 - _ENDS.index(end)]}{rest}")
        if value == other:
            told[rest] = value
        else:
            told[name] = value
    return list(told.items())


def told_text(factors: Mapping[str, FactorValue], names: Iterable[str]) -> str:
    """Return a case's name among others that differ in `names`: "sendfile, message size 64 KiB"."""
    return ", ".join(level_words(name, value) for name, value in told_factors(factors, names))


def in_sentence(label: str) -> str:
    """Return a label as it stands inside a sentence: names like TCP_CORK keep their case."""
    return label if label[1:2].isupper() else label[:1].lower() + label[1:]


def distinguishing(cases: Sequence[Mapping[str, FactorValue]], names: Iterable[str]) -> list[str]:
    """Return few of the factors that still tell all cases apart, in the order of `names`.

    Greedy: each step takes the factor that splits what is still alike the most;
    of two that split alike the earlier one.
    """
    names = list(names)
    chosen: list[str] = []
    groups = [list(range(len(cases)))]
    while len(groups) < len(cases) and len(chosen) < len(names):
        best: list[list[int]] = groups
        best_name = ""
        for name in names:
            split = _split(groups, cases, name) if name not in chosen else groups
            if len(split) > len(best):
                best, best_name = split, name
        if not best_name:
            break
        chosen.append(best_name)
        groups = best
    return [name for name in names if name in chosen]


def _split(
    groups: Sequence[Sequence[int]], cases: Sequence[Mapping[str, FactorValue]], name: str
) -> list[list[int]]:
    """Return the groups divided by the value of a factor."""
    divided: list[list[int]] = []
    for group in groups:
        parts: dict[object, list[int]] = {}
        for place in group:
            parts.setdefault(cases[place].get(name), []).append(place)
        divided += parts.values()
    return divided
