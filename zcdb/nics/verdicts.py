"""The rules that turn abilities and measurements into one of five words.

The rules are tried in the order of `RULES`; the first that fires gives the
word.  No number is weighed against another: there is no score, and neither a
price nor anybody's opinion enters.  Overlapping intervals are a tie.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from zcdb.nics.advice_subjects import Ability, Source, Subject
from zcdb.nics.capabilities import CAPABILITIES
from zcdb.nics.matrix import LEVELS, Level
from zcdb.nics.usecases import Need, UseCase
from zcdb.units import format_size

Word = Literal["recommended", "conditions", "works", "avoid", "open"]
Tone = Literal["for", "condition", "against", "open"]

WORDS: dict[Word, str] = {
    "recommended": "Recommended",
    "conditions": "Good, with conditions",
    "works": "Works, no advantage here",
    "open": "Not enough evidence",
    "avoid": "Avoid for this use",
}
"""Verdict -> its words, in the order of pages."""

RULES: dict[str, tuple[Word, str]] = {
    "copies": ("avoid", "The driver advertises what the use needs and then copies every packet."),
    "gone": ("avoid", "A newer kernel of the catalogue has no driver for it."),
    "need-missing": ("works", "Something the use needs is not there: it works, by copying."),
    "dearer": (
        "avoid",
        "Measured: avoiding the copy costs more than copying at every size, intervals apart.",
    ),
    "tie": (
        "works",
        "Measured: the intervals of copying and not copying overlap at every size, which is a tie.",
    ),
    "need-open": (
        "open",
        "Nothing says whether something the use needs is there, or statements contradict.",
    ),
    "level": ("open", "The evidence is weaker than the reader asked for."),
    "conditions": (
        "conditions",
        "Everything needed is there, for some chips, settings or hosts; or something is missing"
        " that a card of today has.",
    ),
    "all": (
        "recommended",
        "Everything needed and expected is there, for every card of the driver.",
    ),
}
"""Rule -> its verdict and what it says, in the order they are tried."""

_ORDER: dict[Level, int] = {level: number for number, level in enumerate(LEVELS)}
_BETTER = {"yes": 0, "some": 1, "unknown": 2, "conflict": 3, "no": 4, "not_applicable": 5}


@dataclass(frozen=True, slots=True)
class Pair:
    """Two cases that differ in avoiding the copy alone, measured over a subject.

    Attributes:
        size: message size in bytes; None where the cases state none.
        copying, zero_copy: levels of the factor that differs.
        ratio: cost without the copy / cost with it; below 1 the copy was worth avoiding.
        is_apart: the intervals do not overlap; None if one of them has no interval.
        n: values behind the weaker side.
        kernel: release that the end with the card ran.
        case_ids: of the copying and the other case.
    """

    size: int | None
    copying: str
    zero_copy: str
    ratio: float
    is_apart: bool | None
    n: int
    kernel: str
    case_ids: tuple[str, str]

    @property
    def is_gain(self) -> bool:
        """Whether avoiding the copy is cheaper, and the intervals do not overlap."""
        return self.ratio < 1 and self.is_apart is True

    @property
    def is_loss(self) -> bool:
        """Whether avoiding the copy is dearer, and the intervals do not overlap."""
        return self.ratio > 1 and self.is_apart is True


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured over a subject.

    Attributes:
        sender, receiver: service demand in us/KB without the copy at the largest size; None if not
            measured.
        n: values of the best measured pair; 0 if nothing pairs.
        newest: ISO day of the newest value.
        trials: that were ok.
    """

    pairs: tuple[Pair, ...]
    sender: float | None
    receiver: float | None
    n: int
    trials: int
    hosts: int
    kernels: tuple[str, ...]
    newest: str
    case_ids: tuple[str, ...]

    @property
    def breaks_even_at(self) -> int | None:
        """The smallest size from which on every larger one gains; None if there is no such size."""
        found = None
        for pair in sorted(
            (one for one in self.pairs if one.size is not None), key=lambda one: -(one.size or 0)
        ):
            if not pair.is_gain:
                break
            found = pair.size
        return found


@dataclass(frozen=True, slots=True)
class Reason:
    """One line of a verdict.

    Attributes:
        tone: speaks for the card, is a condition, speaks against it, or is open.
        what: what it is about.
        text: what is said of it.
    """

    tone: Tone
    what: str
    text: str
    sources: tuple[Source, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the rules say of a subject for a use.

    Attributes:
        rule: key of `RULES`.
        level: strongest evidence behind it.
        reasons: those that decided first.
        liked: titles of what it also has.
        missing: what would have to be known or measured.
    """

    subject: Subject
    word: Word
    rule: str
    level: Level
    reasons: tuple[Reason, ...]
    liked: tuple[str, ...]
    missing: tuple[str, ...]
    measured: Measured | None


def best_ability(subject: Subject, need: Need) -> Ability:
    """Return the ability that meets a need best."""
    return min((subject.abilities[key] for key in need.any_of), key=lambda one: _BETTER[one.state])


def judge(
    use: UseCase,
    subject: Subject,
    measured: Measured | None = None,
    *,
    at_least: Level = "advertised",
    known: frozenset[str] = frozenset(CAPABILITIES),
) -> Verdict:
    """Return what the rules say of a subject for a use.

    Args:
        at_least: the weakest evidence that the reader accepts.
        known: capabilities that exist in the kernel at all; what nobody has is not expected.
    """
    needs = [(need, best_ability(subject, need)) for need in use.needs]
    expects = [
        (need, best_ability(subject, need)) for need in use.expects if known & set(need.any_of)
    ]
    liked = [need for need in use.likes if best_ability(subject, need).state in ("yes", "some")]
    reasons = [_reason_of_need(need, ability) for need, ability in needs]
    reasons += [_reason_of_expected(need, ability) for need, ability in expects]
    reasons += _reasons_of_measurements(measured)
    level = _level(needs, measured)
    rule = _rule(subject, needs, reasons, measured, level, at_least)
    if subject.gone_in:
        gone = f"Linux {subject.gone_in} has no driver {subject.driver}"
        reasons.append(Reason("against", "Driver", gone))
    return Verdict(
        subject=subject,
        word=RULES[rule][0],
        rule=rule,
        level=level,
        reasons=_deciding_first(rule, reasons),
        liked=tuple(need.title for need in liked),
        missing=_missing(use, needs, measured, level, at_least),
        measured=measured,
    )


def _rule(
    subject: Subject,
    needs: Sequence[tuple[Need, Ability]],
    reasons: Sequence[Reason],
    measured: Measured | None,
    level: Level,
    at_least: Level,
) -> str:
    """Return the first rule that fires."""
    abilities = [ability for _, ability in needs]
    if any(one.copies for one in abilities):
        return "copies"
    if subject.gone_in:
        return "gone"
    if any(one.state in ("no", "not_applicable") for one in abilities):
        return "need-missing"
    judged = [pair for pair in measured.pairs if pair.is_apart is not None] if measured else []
    if judged and all(pair.is_loss for pair in judged):
        return "dearer"
    if judged and not any(pair.is_apart for pair in judged):
        return "tie"
    if any(one.state in ("unknown", "conflict") for one in abilities):
        return "need-open"
    if _ORDER[level] < _ORDER[at_least]:
        return "level"
    if any(reason.tone == "condition" for reason in reasons):
        return "conditions"
    return "all"


def _level(needs: Sequence[tuple[Need, Ability]], measured: Measured | None) -> Level:
    if measured and measured.pairs:
        return "measured"
    levels = [ability.level for _, ability in needs]
    return min(levels, key=lambda level: _ORDER[level], default="advertised")


def _reason_of_need(need: Need, ability: Ability) -> Reason:
    title, sources = need.title, ability.sources
    if ability.copies:
        who = f" ({ability.condition})" if ability.condition else ""
        how = f" ({ability.why})" if ability.why and not who else ""
        text = f"advertised{who}, and then the driver copies every packet{how}"
        return Reason("against", title, text, sources)
    if ability.state in ("no", "not_applicable"):
        text = f"no ({ability.why}): {need.why}" if ability.why else f"no: {need.why}"
        return Reason("against", title, text, sources)
    if ability.state in ("unknown", "conflict"):
        return Reason("open", title, ability.why or "unknown", sources)
    return _reason_of_present(title, ability)


def _reason_of_present(title: str, ability: Ability) -> Reason:
    """Return the reason that an ability is there, with what it depends on."""
    if ability.state == "some" and not _is_met(ability):
        if ability.capability == "sriov":
            text = "some cards of the driver; 'lspci -vv' shows the capability where a card has it"
            return Reason("condition", title, text, ability.sources)
        return Reason("condition", title, ability.condition or "some cards", ability.sources)
    if ability.default == "off":
        text = "there, and off until it is switched on with 'ethtool -K'"
        return Reason("condition", title, text, ability.sources)
    return Reason("for", title, "yes", ability.sources)


def _is_met(ability: Ability) -> bool:
    """Return whether any machine that one would buy meets the condition."""
    return ability.capability == "highdma" and ability.condition_class == "dma"


def _reason_of_expected(need: Need, ability: Ability) -> Reason:
    if ability.state in ("yes", "some"):
        return _reason_of_present(need.title, ability)
    says = {"unknown": "not known", "conflict": "statements differ"}.get(ability.state, "no")
    return Reason("condition", need.title, f"{says}: {need.why}", ability.sources)


def _reasons_of_measurements(measured: Measured | None) -> list[Reason]:
    if measured is None:
        return []
    reasons = []
    for pair in measured.pairs:
        tone: Tone = "for" if pair.is_gain else "against" if pair.is_loss else "open"
        change = f"{abs(pair.ratio - 1) * 100:.0f} % {'less' if pair.ratio < 1 else 'more'} CPU"
        says = {True: "intervals apart", False: "intervals overlap: a tie", None: "no interval"}
        at = f" at {format_size(pair.size)}" if pair.size is not None else ""
        on = f" with Linux {pair.kernel}" if pair.kernel else ""
        text = f"{change} than {pair.copying}{at}{on}, n = {pair.n} ({says[pair.is_apart]})"
        sources = tuple(Source("measured", case_id, measured.newest) for case_id in pair.case_ids)
        reasons.append(Reason(tone, f"{pair.zero_copy}, measured", text, sources))
    return reasons


def _deciding_first(rule: str, reasons: Sequence[Reason]) -> tuple[Reason, ...]:
    """Return the reasons with those first whose tone made the verdict."""
    first: dict[Word, Tone] = {
        "avoid": "against",
        "works": "against",
        "open": "open",
        "conditions": "condition",
        "recommended": "for",
    }
    wanted = first[RULES[rule][0]]
    return tuple(sorted(reasons, key=lambda reason: reason.tone != wanted))


def _missing(
    use: UseCase,
    needs: Sequence[tuple[Need, Ability]],
    measured: Measured | None,
    level: Level,
    at_least: Level,
) -> tuple[str, ...]:
    """Return what would have to be known or measured."""
    missing = [
        f"whether it has {need.title}: 'zcdb nic' on a machine with the card says it"
        for need, ability in needs
        if ability.state in ("unknown", "conflict")
    ]
    if _ORDER[level] < _ORDER[at_least] and at_least == "probed":
        missing.append("a run of zcdb on a machine with the card, which records what it reports")
    if measured is None or not measured.pairs:
        if use.zero_copy:
            missing.append(
                f"a measurement of {use.zero_copy[0]} against {use.copying[0]} over this card"
            )
        else:
            missing.append("a measurement over this card")
    return tuple(missing)
