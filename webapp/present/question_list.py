"""The questions that people come with: what each compares, and the experiment that settles it.

A part of a question takes a group of cases that share everything but the
factors that move, and says which of them are baseline and candidate.  Nothing
is answered here.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from zcdb.factors import UNSTATED, FactorValue
from zcdb.store.queries.questions import Member

BASELINE_APIS = ("write", "send", "read_write", "send_or_write")
"""APIs that copy, the preferred baseline first."""

ZERO_COPY_APIS = ("sendfile", "splice", "msg_zerocopy", "io_uring_send_zc")
KERNEL_FACTORS = ("sender_kernel", "receiver_kernel")
PATCH = "+zerocopy"
"""What the founding tables call the kernels of 2001 that had the zero-copy path."""

Group = Sequence[Member]
Pairing = Callable[[Group], list[tuple[Member, Member]]]


@dataclass(frozen=True, slots=True)
class Part:
    """One comparison of a question.

    Attributes:
        factor: the factor whose level names each side.
        moving: factors that may differ between the sides.
        baseline, candidates: words for the two sides.
        needs_proof: only cases whose bytes are proven not to have been copied are judged as
            zero copy; all others stand apart.
        where: factor -> values that every case must have.
    """

    title: str
    factor: str
    moving: tuple[str, ...]
    baseline: str
    candidates: str
    pairing: Pairing
    needs_proof: bool = False
    where: Mapping[str, tuple[FactorValue, ...]] | None = None


@dataclass(frozen=True, slots=True)
class StandingQuestion:
    """A question with a page of its own.

    Attributes:
        lead: how it is answered.
        short: what a link to it says.
        experiment: the shipped file that measures it; "" where none does by itself.
        settle: what to do where something is missing.
        deeper: (address, what it shows) of pages that go deeper.
    """

    name: str
    title: str
    short: str
    lead: str
    parts: tuple[Part, ...]
    experiment: str
    settle: str
    deeper: tuple[tuple[str, str], ...] = ()


def _by_preference(factor: str, baselines: Sequence[FactorValue]) -> Pairing:
    """Return pairs of the first baseline that a group has with every level that is none."""

    def pair(group: Group) -> list[tuple[Member, Member]]:
        by_level = {m.values[factor]: m for m in group if factor in m.values}
        base = next((by_level[level] for level in baselines if level in by_level), None)
        if base is None:
            return []
        others = [m for level, m in by_level.items() if level not in baselines and level != ""]
        return [(base, other) for other in others]

    return pair


def _apis(group: Group) -> list[tuple[Member, Member]]:
    pairs = _by_preference("api", BASELINE_APIS)(group)
    return [(a, b) for a, b in pairs if b.values["api"] in ZERO_COPY_APIS]


def _pinnings(group: Group) -> list[tuple[Member, Member]]:
    by_level = {str(member.values.get("pinning", UNSTATED)): member for member in group}
    by_level.pop(UNSTATED, None)
    base = next((by_level.pop(word) for word in ("none", "separate") if word in by_level), None)
    return [] if base is None else [(base, other) for other in by_level.values()]


def _numbers(factor: str) -> Pairing:
    """Return pairs of the smallest number of a factor with each larger one."""

    def pair(group: Group) -> list[tuple[Member, Member]]:
        numbered = [m for m in group if isinstance(m.values.get(factor), int)]
        ordered = sorted(numbered, key=lambda member: int(member.values[factor]))
        return [(ordered[0], other) for other in ordered[1:]]

    return pair


def kernel_of(member: Member) -> str | None:
    """Return the kernel of a case; None where its ends had different ones, or it is not known."""
    known = {
        str(member.values[name])
        for name in KERNEL_FACTORS
        if member.values.get(name, UNSTATED) not in ("", UNSTATED)
    }
    return known.pop() if len(known) == 1 else None


def release_order(release: str) -> tuple[tuple[int, int | str], ...]:
    """Return what sorts kernel releases by their numbers; a release with something added is later.

    A release candidate or pre-release comes before the release itself.
    """
    text = re.sub(r"-(?=pre|rc)", "~", release)
    parts: list[tuple[int, int | str]] = []
    for piece in re.findall(r"[0-9]+|[a-zA-Z]+|[~+_-]", text):
        if piece.isdecimal():
            parts.append((3, int(piece)))
        elif piece == "~":
            parts.append((0, piece))
        else:
            parts.append((2, piece))
    return (*parts, (1, ""))


def _kernels(group: Group) -> list[tuple[Member, Member]]:
    """Pair each kernel of a group with the next one."""
    by_release = {release: member for member in group if (release := kernel_of(member))}
    ordered = sorted(by_release, key=release_order)
    return [(by_release[a], by_release[b]) for a, b in itertools.pairwise(ordered)]


def _patched(group: Group) -> list[tuple[Member, Member]]:
    """Pair a kernel with the same one that has the zero-copy path."""
    by_release = {release: member for member in group if (release := kernel_of(member))}
    return [
        (by_release[release.removesuffix(PATCH)], member)
        for release, member in by_release.items()
        if release.endswith(PATCH) and release.removesuffix(PATCH) in by_release
    ]


_COPYING = {"api": BASELINE_APIS}
_OFFLOADS = ("sg", "tx_checksum", "tso", "gso")


def _on_off(factor: str) -> Pairing:
    def pair(group: Group) -> list[tuple[Member, Member]]:
        off = [m for m in group if m.values.get(factor) is False]
        on = [m for m in group if m.values.get(factor) is True]
        return [(off[0], on[0])] if off and on else []

    return pair


_ZERO_COPY = Part(
    "Zero copy against copying",
    "api",
    ("api",),
    "copying",
    "zero copy",
    _apis,
    needs_proof=True,
)

QUESTIONS: dict[str, StandingQuestion] = {
    question.name: question
    for question in (
        StandingQuestion(
            "zero-copy",
            "Does zero copy pay here, and from which size on?",
            "Does zero copy pay?",
            "Each zero-copy API against a copying one, everything else equal. Only a case whose"
            " bytes are proven not to have been copied by the sender counts as zero copy.",
            (_ZERO_COPY,),
            "quickstart",
            "Loopback and veth copy every MSG_ZEROCOPY send. Two hosts with a card between them"
            " can prove more.",
            (("/break-even", "the size from which on each API pays"),),
        ),
        StandingQuestion(
            "checksum",
            "What does checksum offload save?",
            "What does checksum offload save?",
            "Cases with the checksum of what is sent computed by the card against the same cases"
            " with it computed by the CPU. A copying API sums while it copies, so that it saves"
            " little; one that does not copy has to read the bytes for the sum alone.",
            (
                Part(
                    "Checksum offload on against off",
                    "tx_checksum",
                    ("tx_checksum",),
                    "off",
                    "on",
                    _on_off("tx_checksum"),
                ),
                Part(
                    "Scatter-gather and checksum offload together",
                    "tx_checksum",
                    ("tx_checksum", "sg"),
                    "both off",
                    "both on",
                    _on_off("tx_checksum"),
                ),
            ),
            "sendfile-sg-checksum",
            "Checksum offload needs scatter-gather to be of use to sendfile: vary both.",
            (("/flags", "what on/off settings do alone and together"),),
        ),
        StandingQuestion(
            "pinning",
            "What does pinning change?",
            "What does pinning change?",
            "The same case with its two ends left to the scheduler, on one CPU, and on a CPU each.",
            (
                Part(
                    "Pinning",
                    "pinning",
                    ("pinning",),
                    "left to the scheduler",
                    "pinned",
                    _pinnings,
                ),
            ),
            "quickstart",
            'Give the quickstart pinning = ["none", "same", "separate"] under [factors].',
        ),
        StandingQuestion(
            "streams",
            "How does it scale with streams?",
            "How does it scale?",
            "The same case with one connection against more of them at once.",
            (
                Part(
                    "More streams against the fewest",
                    "streams",
                    ("streams",),
                    "the fewest",
                    "more",
                    _numbers("streams"),
                ),
            ),
            "stream-scaling",
            "It varies the number of connections and the message size.",
        ),
        StandingQuestion(
            "write-path",
            "What does write() pay for the zero-copy path?",
            "What does write() pay for it?",
            "The question of 2001: a kernel that can send without copying gathers fragments and"
            " sums differently, also for programs that never ask for it. Copying APIs on a kernel"
            " with the path against the same kernel without, and with scatter-gather on against"
            " off.",
            (
                Part(
                    "A kernel with the zero-copy path against the same without",
                    "sender_kernel",
                    KERNEL_FACTORS,
                    "without",
                    "with the zero-copy path",
                    _patched,
                    where=_COPYING,
                ),
                Part(
                    "Scatter-gather on against off, copying APIs",
                    "sg",
                    ("sg", "tx_checksum"),
                    "off",
                    "on",
                    _on_off("sg"),
                    where=_COPYING,
                ),
            ),
            "sendfile-sg-checksum",
            "It measures send with and without scatter-gather.",
            (("/calculator", "the share of sendfile traffic at which a server gains"),),
        ),
        StandingQuestion(
            "kernels",
            "How did a case change from kernel to kernel?",
            "What did the kernel change?",
            "The same case on one kernel and on the next one that measured it, both ends alike.",
            (
                Part(
                    "Each kernel against the one before it",
                    "sender_kernel",
                    KERNEL_FACTORS,
                    "the earlier kernel",
                    "the later one",
                    _kernels,
                ),
            ),
            "quickstart",
            "Run the same file again after booting another kernel: equal cases find each other.",
            (("/kernels", "all kernels"),),
        ),
        StandingQuestion(
            "then-and-now",
            "Is it still true? 2001 against today",
            "2001 against today",
            "What zero copy saved in the tables of 2001 and the years after, beside what it saves"
            " in this database. Machines differ by orders of magnitude, so ratios are set side by"
            " side, never absolute figures.",
            (
                Part(
                    "Zero copy against copying",
                    "api",
                    ("api",),
                    "copying",
                    "sendfile and its kind",
                    _apis,
                ),
            ),
            "sendfile-sg-checksum",
            "It asks the experiment of 2001 again, on a saturated link between two namespaces.",
            (("/history", "the founding tables"),),
        ),
    )
}
