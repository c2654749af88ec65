"""Command lines that stand beside an output: what the output itself does not say.

A command is found in the lines above a result (behind a shell prompt, in a
job log) or given by the person who imports.  Only options are read here;
what they mean is the formats' business.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field

from zcdb.importers.text import Line, without_prompt

_LONGEST = 2000


@dataclass(frozen=True, slots=True)
class Command:
    """A command line, cut into words behind the program's name.

    Attributes:
        globals: words before a "--" of its own.
        locals: words behind it (netperf's options of the test).
    """

    text: str
    globals: tuple[str, ...] = ()
    locals: tuple[str, ...] = field(default=())

    def option(self, *names: str, local: bool = False) -> str | None:
        """Return the value of an option: "-t X", "-tX", "--time X", "--time=X"; else None."""
        words = self.locals if local else self.globals
        found = None
        for i, word in enumerate(words):
            for name in names:
                if word == name:
                    found = words[i + 1] if i + 1 < len(words) else None
                elif name.startswith("--") and word.startswith(name + "="):
                    found = word[len(name) + 1 :]
                elif not name.startswith("--") and word.startswith(name) and len(word) > len(name):
                    found = word[len(name) :]
        return found

    def has(self, *names: str, local: bool = False) -> bool:
        """Tell whether a switch is there, alone or in a group of letters ("-cC")."""
        words = self.locals if local else self.globals
        for word in words:
            for name in names:
                if word == name:
                    return True
                if (
                    len(name) == 2
                    and re.fullmatch(r"-[A-Za-z]+", word)
                    and name[1] in word[1:]
                    and not name.startswith("--")
                ):
                    return True
        return False


def parse_command(text: str, program: str) -> Command | None:
    """Return the command line of `program` in `text`, or None.

    Args:
        program: a regex for the program's base name: "netperf", "iperf3?".
    """
    if len(text) > _LONGEST:
        text = text[:_LONGEST]
    match = re.search(rf"(?:^|[\s/;&|'\"(]){program}[\w.-]*(?=\s+\S|$)(?!.*TEST from)", text)
    if match is None:
        return None
    rest = re.split(r"\s(?:[|;&>]|2>)", text[match.end() :], maxsplit=1)[0]
    words = _words(rest)
    if "--" in words:
        cut = words.index("--")
        return Command(text.strip(), tuple(words[:cut]), tuple(words[cut + 1 :]))
    return Command(text.strip(), tuple(words))


_LAUNCHERS = (
    r"(?:(?:sudo|time|nice|env|numactl|taskset|chrt|timeout|perf|ip|ssh|docker|kubectl|cyclesoak)"
    r"\s.{0,200}?)?"
)


def printed_command(text: str, program: str) -> Command | None:
    """Return the command line that a line of text is, not a sentence that names the program."""
    line = without_prompt(text).strip()
    if re.match(rf"{_LAUNCHERS}(?:\S{{0,200}}/)?{program}[\w.-]{{0,20}}(?:\s|$)", line) is None:
        return None
    return parse_command(line, program)


def _words(text: str) -> list[str]:
    if "'" not in text and '"' not in text and "\\" not in text:
        return text.split()
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def command_above(
    lines: Sequence[Line], index: int, stop: int, program: str, given: str | None
) -> Command | None:
    """Return the command line that belongs to a result beginning at `index`.

    The nearest line above, not above index `stop`, that calls the program wins
    over the one that was given for the whole file.
    """
    for i in range(min(index, len(lines) - 1), max(stop, 0) - 1, -1):
        if "-" in lines[i].text:
            command = printed_command(lines[i].text, program)
            if command is not None and (command.globals or command.locals):
                return command
    return parse_command(given, program) if given else None
