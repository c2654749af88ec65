"""What a reader of the NIC pages asked for: the words of an address, checked, and their form.

An unknown word is an error with a sentence that names the known ones; what is
not asked for stays out of the address, so that one state has one address.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar
from urllib.parse import urlencode

from zcdb.nics.advice import Filters, historic_kernels, is_historic, resolve_kernel
from zcdb.nics.capabilities import CAPABILITIES
from zcdb.nics.catalogue import load
from zcdb.nics.matrix import LEVELS
from zcdb.nics.speeds import MEDIA
from zcdb.nics.usecases import ATTACHED, SPEEDS, load_distributions
from zcdb.webapp.present.nic_cells import short_kernel, speed_words

PARAMETERS = ("kernel", "bus", "speed", "upto", "medium", "must", "evidence", "tree")
"""The parameters of a filter, in canonical order."""

ANY = "any"


class UnknownWord(ValueError):
    """A word of an address that nothing knows; the message is a sentence for the reader."""


@dataclass(frozen=True, slots=True)
class Option:
    """A choice of a form."""

    value: str
    label: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class Form:
    """The choices of the filters' form."""

    kernels: tuple[Option, ...]
    buses: tuple[Option, ...]
    slowest: tuple[Option, ...]
    fastest: tuple[Option, ...]
    media: tuple[Option, ...]
    must: tuple[Option, ...]
    evidence: tuple[Option, ...]
    in_tree_only: bool


@dataclass(frozen=True, slots=True)
class Asked:
    """What the reader asked for.

    Attributes:
        kernel: of the catalogue, that answers for `wanted_kernel`.
        wanted_kernel: as written; a version or a distribution.
        filters: with what a use presets, unless the reader asked for something else.
        stated: the parameters that were stated, in canonical order.
        note: what the reader should know about the kernel; "" if it was found as asked.
    """

    kernel: str
    wanted_kernel: str
    filters: Filters
    stated: tuple[tuple[str, str], ...]
    note: str

    @property
    def is_historic(self) -> bool:
        """Whether cards of 2001 answer."""
        return is_historic(self.kernel)


def query_of(pairs: Sequence[tuple[str, str]]) -> str:
    """Return "?name=value&..." of pairs; "" of none."""
    return f"?{urlencode(pairs, safe=':')}" if pairs else ""


Word = TypeVar("Word", bound=str)


def _word(name: str, word: str, known: Iterable[Word]) -> Word:
    """Return a word as one of those known."""
    words = list(known)
    for one in words:
        if one == word:
            return one
    raise UnknownWord(f"{word!r} is no {name} that this page knows: {', '.join(words)}.")


def asked(arguments: Mapping[str, Sequence[str]], preset: Filters | None = None) -> Asked:
    """Return what the parameters of an address ask for.

    Args:
        arguments: name -> values; empty values count as not stated.
        preset: what holds where the reader states nothing; it is left out for kernels of 2001,
            unless the kernel is stated with other filters.

    Raises:
        UnknownWord: for a word that nothing knows.
    """
    stated = {
        name: [value.strip().lower() for value in arguments.get(name, ()) if value.strip()]
        for name in PARAMETERS
    }
    wanted = (stated["kernel"] or [""])[0]
    kernel, note = _kernel(wanted)
    filters = preset if preset and not is_historic(kernel) else Filters()
    if stated["bus"]:
        words = [word for word in stated["bus"] if word != ANY]
        buses = tuple(_word("way to attach a card", word, ATTACHED) for word in words)
        filters = replace(filters, buses=buses if words else ())
    if stated["speed"]:
        word = _word("speed", stated["speed"][0], [*SPEEDS, ANY])
        filters = replace(filters, slowest="" if word == ANY else word)
    if stated["upto"]:
        word = _word("speed", stated["upto"][0], [*SPEEDS, ANY])
        filters = replace(filters, fastest="" if word == ANY else word)
    if stated["medium"]:
        word = stated["medium"][0]
        filters = replace(filters, medium="" if word == ANY else _word("medium", word, MEDIA))
    must = tuple(dict.fromkeys(_word("capability", word, CAPABILITIES) for word in stated["must"]))
    level = _word("evidence", (stated["evidence"] or ["advertised"])[0], LEVELS)
    in_tree = bool(stated["tree"]) and _word("tree", stated["tree"][0], ["in", ANY]) == "in"
    filters = replace(filters, must=must, at_least=level, in_tree_only=in_tree)
    pairs = [(name, value) for name in PARAMETERS for value in dict.fromkeys(stated[name])]
    return Asked(kernel, wanted, filters, tuple(pairs), note)


def _kernel(wanted: str) -> tuple[str, str]:
    """Return the kernel that answers for a version or a distribution, and a note if they differ."""
    catalogue, distributions = load(), load_distributions()
    version = distributions[wanted].kernel if wanted in distributions else wanted
    found = resolve_kernel(catalogue, version)
    if found is None:
        known = [*map(short_kernel, catalogue.kernels), *historic_kernels(catalogue)]
        raise UnknownWord(
            f"{wanted!r} is no kernel that the catalogue can answer for; it has"
            f" {', '.join(known)}, and knows the distributions {', '.join(distributions)}."
        )
    if version and not found.startswith(version) and not version.startswith(short_kernel(found)):
        return found, (
            f"Linux {version} is not in the catalogue; {short_kernel(found)} is the newest in it"
            " that is not newer, so what came in between is missing here."
        )
    return found, ""


def form(state: Asked) -> Form:
    """Return the choices of the filters' form."""
    filters = state.filters
    return Form(
        kernels=_kernels(state),
        buses=(
            Option(ANY, "Any way", not filters.buses),
            *(
                Option(word, label[:1].upper() + label[1:], word in filters.buses)
                for word, label in ATTACHED.items()
            ),
        ),
        slowest=_speeds(filters.slowest, "any speed", "at least"),
        fastest=_speeds(filters.fastest, "no limit", "at most"),
        media=(
            Option(ANY, "any medium", not filters.medium),
            *(Option(word, label, word == filters.medium) for word, label in MEDIA.items()),
        ),
        must=tuple(
            Option(key, one.title, key in filters.must) for key, one in CAPABILITIES.items()
        ),
        evidence=tuple(
            Option(level, f"{level}: {says}", level == filters.at_least)
            for level, says in LEVELS.items()
        ),
        in_tree_only=filters.in_tree_only,
    )


def _kernels(state: Asked) -> tuple[Option, ...]:
    catalogue, distributions = load(), load_distributions()
    names = {short_kernel(kernel): f"Linux {short_kernel(kernel)}" for kernel in catalogue.kernels}
    chosen = state.wanted_kernel or short_kernel(state.kernel)
    if chosen not in names and chosen not in distributions:
        chosen = short_kernel(state.kernel)
    options = [(word, label) for word, label in reversed(names.items())]
    options += [(one.id, f"{one.name}: Linux {one.kernel}") for one in distributions.values()]
    options += [
        (kernel, f"Linux {kernel}: cards of 2001")
        for kernel in reversed(historic_kernels(catalogue))
    ]
    return tuple(Option(word, label, word == chosen) for word, label in options)


def _speeds(chosen: str, none: str, prefix: str) -> tuple[Option, ...]:
    return (
        Option(ANY, none, not chosen),
        *(
            Option(word, f"{prefix} {speed_words([mbit])}", word == chosen)
            for word, mbit in SPEEDS.items()
        ),
    )
