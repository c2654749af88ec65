"""The buying advice as pages say it: uses, and the grouped verdicts for one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from zcdb import units
from zcdb.nics.advice import HIDDEN, Advice, preset_filters, shipped_advice, shipped_subjects
from zcdb.nics.advice_measured import Observations
from zcdb.nics.advice_subjects import Remark, Source, Subject
from zcdb.nics.catalogue import load
from zcdb.nics.claims import TOPICS
from zcdb.nics.probe import ProbedClaim
from zcdb.nics.speeds import MEDIA
from zcdb.nics.usecases import ATTACHED, Need, UseCase, load_use_cases
from zcdb.nics.verdicts import RULES, WORDS, Measured, Verdict, Word
from zcdb.webapp.present.nic_asked import Asked, Form, form
from zcdb.webapp.present.nic_cells import driver_address, short_kernel, speed_words
from zcdb.webapp.present.nic_measured import measured_by_subject

Probes = Mapping[str, Sequence[ProbedClaim]]
"""Driver of the catalogue -> what machines showed about it."""

PRODUCTS_SHOWN = 8
FIRST_SHOWN = 5

PRINTED_WHOLE = ("recommended", "conditions", "open")
"""Groups whose cards are shown with all reasons; the others are a table with the deciding one."""


@dataclass(frozen=True, slots=True)
class SourceView:
    """Where a reason stands.

    Attributes:
        address: of a page that shows it; "" if none does.
    """

    kind: str
    place: str
    stated: str
    author: str
    address: str


@dataclass(frozen=True, slots=True)
class ReasonView:
    """One line of a verdict."""

    tone: str
    what: str
    text: str
    sources: tuple[SourceView, ...]


@dataclass(frozen=True, slots=True)
class RemarkView:
    """What people said of a card; no rule uses it."""

    topic: str
    value: str
    status: str
    is_hedged: bool
    source: SourceView


@dataclass(frozen=True, slots=True)
class MeasuredView:
    """What was measured over a card, in numbers.

    Attributes:
        is_published: by a document, and not measured with zcdb.
        gain: CPU saved by avoiding the copy at the largest size, as a ratio of costs; None if
            nothing pairs.
        breaks_even_at: bytes; None if no size gains.
    """

    is_published: bool
    gain: float | None
    gain_words: str
    breaks_even_at: int | None
    breaks_even_words: str
    sender: float | None
    receiver: float | None
    n: int
    trials: int
    hosts: int
    kernels: tuple[str, ...]
    newest: str


@dataclass(frozen=True, slots=True)
class VerdictView:
    """A card's verdict.

    Attributes:
        vendor: of most of its devices; "" if names do not tell.
        deciding: the reason that decided.
    """

    id: str
    name: str
    driver: str
    address: str
    vendor: str
    products: tuple[str, ...]
    more_products: int
    speed: str
    media: tuple[str, ...]
    attached: str
    level: str
    rule: str
    rule_says: str
    reasons: tuple[ReasonView, ...]
    deciding: str
    liked: tuple[str, ...]
    missing: tuple[str, ...]
    remarks: tuple[RemarkView, ...]
    measured: MeasuredView | None


@dataclass(frozen=True, slots=True)
class Group:
    """The cards with one verdict."""

    word: str
    title: str
    is_whole: bool
    verdicts: tuple[VerdictView, ...]


@dataclass(frozen=True, slots=True)
class NeedView:
    """Something that a use asks for."""

    title: str
    capabilities: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True)
class RuleView:
    """A rule, in the order tried."""

    rule: str
    verdict: str
    says: str


@dataclass(frozen=True, slots=True)
class UseContent:
    """All that /buy/<use> says.

    Attributes:
        answer: the short answer: what comes first in the best group, `answer_more` more are in it.
        hidden: (why, how many) of what the filters leave out.
        measured: cards with a measurement.
    """

    use: str
    version: int
    title: str
    question: str
    summary: str
    kernel: str
    source: str
    note: str
    is_historic: bool
    needs: tuple[NeedView, ...]
    expects: tuple[NeedView, ...]
    likes: tuple[NeedView, ...]
    answer: tuple[VerdictView, ...]
    answer_group: str
    answer_word: str
    answer_more: int
    groups: tuple[Group, ...]
    hidden: tuple[tuple[str, int], ...]
    hidden_words: str
    measured: int
    rules: tuple[RuleView, ...]
    experiment: str
    form: Form


@dataclass(frozen=True, slots=True)
class UseLine:
    """A use on the first page of the advice."""

    use: str
    title: str
    question: str
    address: str
    counts: tuple[tuple[str, str, int], ...]
    first: tuple[str, ...]
    first_word: str


@dataclass(frozen=True, slots=True)
class BuyContent:
    """All that /buy says."""

    kernel: str
    source: str
    note: str
    is_historic: bool
    uses: tuple[UseLine, ...]
    measured: int
    form: Form


def source_words(kernel: str) -> str:
    """Return what the advice for a kernel was read from."""
    package = load().packages.get(kernel)
    if package:
        return f"the source of Linux {kernel} ({package})"
    return f"claims about cards of 2001 and the source of Linux {kernel}"


def buy_content(state: Asked, query: str, observations: Observations, probes: Probes) -> BuyContent:
    """Return the uses, each with how many cards have which verdict."""
    subjects = shipped_subjects(state.kernel)
    lines = []
    measured: set[str] = set()
    for use in load_use_cases().values():
        filters = preset_filters(use, state.kernel)
        found = measured_by_subject(use, subjects, observations)
        measured.update(found)
        advice = shipped_advice(use, state.kernel, filters, found, probes)
        lines.append(_use_line(advice, query))
    return BuyContent(
        kernel=state.kernel,
        source=source_words(state.kernel),
        note=state.note,
        is_historic=state.is_historic,
        uses=tuple(lines),
        measured=len(measured),
        form=form(state),
    )


def _use_line(advice: Advice, query: str) -> UseLine:
    use = advice.use
    best, word = _first(advice)
    return UseLine(
        use=use.id,
        title=use.title,
        question=use.question,
        address=f"/buy/{use.id}{query}",
        counts=tuple((one, WORDS[one], len(found)) for one, found in advice.groups.items()),
        first=tuple(_name_and_vendor(verdict.subject) for verdict in best[:FIRST_SHOWN]),
        first_word=WORDS[word] if word else "",
    )


def _name_and_vendor(subject: Subject) -> str:
    return f"{subject.name} ({subject.vendors[0]})" if subject.vendors else subject.name


def _first(advice: Advice) -> tuple[tuple[Verdict, ...], Word | Literal[""]]:
    """Return the verdicts of the best group that has any, and its word."""
    words: tuple[Word, ...] = ("recommended", "conditions")
    for word in words:
        if advice.groups[word]:
            return advice.groups[word], word
    return (), ""


def use_content(
    use: UseCase, state: Asked, observations: Observations, probes: Probes
) -> UseContent:
    """Return the grouped verdicts for a use."""
    found = measured_by_subject(use, shipped_subjects(state.kernel), observations)
    advice = shipped_advice(use, state.kernel, state.filters, found, probes)
    best, word = _first(advice)
    return UseContent(
        use=use.id,
        version=use.version,
        title=use.title,
        question=use.question,
        summary=use.summary,
        kernel=state.kernel,
        source=source_words(state.kernel),
        note=state.note,
        is_historic=state.is_historic,
        needs=tuple(map(_need_view, use.needs)),
        expects=tuple(map(_need_view, use.expects)),
        likes=tuple(map(_need_view, use.likes)),
        answer=tuple(_verdict_view(one) for one in best[:FIRST_SHOWN]),
        answer_group=word,
        answer_word=WORDS[word] if word else "",
        answer_more=max(0, len(best) - FIRST_SHOWN),
        groups=tuple(
            Group(
                one,
                title,
                one in PRINTED_WHOLE,
                tuple(map(_verdict_view, advice.groups[one])),
            )
            for one, title in WORDS.items()
        ),
        hidden=tuple((HIDDEN[why], count) for why, count in sorted(advice.hidden.items())),
        hidden_words="; ".join(
            f"{count} {HIDDEN[why]}" for why, count in sorted(advice.hidden.items())
        ),
        measured=sum(one.measured is not None for group in advice.groups.values() for one in group),
        rules=tuple(RuleView(rule, WORDS[word], says) for rule, (word, says) in RULES.items()),
        experiment=use.experiment_file,
        form=form(state),
    )


def _need_view(need: Need) -> NeedView:
    return NeedView(need.title, need.any_of, need.why)


def _source_view(source: Source) -> SourceView:
    address = f"/cases/{source.place}" if source.kind == "measured" else ""
    return SourceView(source.kind, source.place, source.stated, source.author, address)


def _verdict_view(verdict: Verdict) -> VerdictView:
    subject = verdict.subject
    reasons = tuple(
        ReasonView(
            one.tone,
            one.what,
            one.text,
            tuple(_source_view(source) for source in one.sources),
        )
        for one in verdict.reasons
    )
    return VerdictView(
        id=subject.id,
        name=subject.name,
        driver=subject.driver,
        address=_address(subject),
        vendor=next(iter(subject.vendors), ""),
        products=subject.products[:PRODUCTS_SHOWN],
        more_products=max(0, len(subject.products) - PRODUCTS_SHOWN),
        speed=speed_words(subject.mbit),
        media=tuple(MEDIA[one] for one in subject.media),
        attached=ATTACHED[subject.attached],
        level=verdict.level,
        rule=verdict.rule,
        rule_says=RULES[verdict.rule][1],
        reasons=reasons,
        deciding=f"{reasons[0].what}: {reasons[0].text}" if reasons else "",
        liked=verdict.liked,
        missing=verdict.missing,
        remarks=tuple(_remark_view(one) for one in subject.remarks),
        measured=_measured_view(verdict.measured) if verdict.measured else None,
    )


def _address(subject: Subject) -> str:
    """Return the page of a subject's driver; "" for drivers that no scanned kernel has."""
    return driver_address(subject.driver) if load().driver(subject.driver) else ""


def _remark_view(remark: Remark) -> RemarkView:
    return RemarkView(
        TOPICS.get(remark.topic, remark.topic),
        remark.value,
        remark.status,
        remark.is_hedged,
        _source_view(remark.source),
    )


def _measured_view(found: Measured) -> MeasuredView:
    largest = found.pairs[-1] if found.pairs else None
    words = ""
    if largest is not None:
        less = "less" if largest.ratio < 1 else "more"
        words = f"{abs(1 - largest.ratio) * 100:.0f} % {less} CPU than {largest.copying}"
        if largest.size is not None:
            words += f" at {units.format_size(largest.size)}"
    return MeasuredView(
        is_published=not found.trials,
        gain=largest.ratio if largest else None,
        gain_words=words,
        breaks_even_at=found.breaks_even_at,
        breaks_even_words=units.format_size(found.breaks_even_at) if found.breaks_even_at else "",
        sender=found.sender,
        receiver=found.receiver,
        n=found.n,
        trials=found.trials,
        hosts=found.hosts,
        kernels=found.kernels,
        newest=found.newest[:10],
    )


def kernel_words(state: Asked) -> str:
    """Return the kernel of a title: "Linux 6.12"."""
    return f"Linux {short_kernel(state.kernel)}"
