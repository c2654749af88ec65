"""Any command as an end: it is cut into words as a shell would, but no shell runs it.

`command` runs at the sender, `receiver_command` at the receiver.  With the
first alone the receiver is zcdb's own: it listens, takes what comes and counts
it.  With the second alone the data comes from somewhere that zcdb does not
know, a mounted file system for example.  With both, the receiver's must listen
on {port}, and the sender's is started when it does.
"""

from __future__ import annotations

import re
import shlex
import shutil
from dataclasses import dataclass
from functools import partial

from zcdb import units
from zcdb.factors import ABSENT, FACTORS, Factors
from zcdb.tools.model import Job, Meter, Tool, ToolOptions

OWN_RECEIVERS = ("rx_api", "receive_size", "rcvbuf")
"""Factors that zcdb's own receiver follows, and no command."""

_PATTERN_MARK = "pattern:"
_WORDS: dict[str, Meter] = {
    "sockets": "sockets-at",
    "written": "written",
    "interface": "interface",
}


@dataclass(frozen=True, slots=True)
class Counting:
    """How the bytes of a command are known: what the factor `command_bytes` says.

    Attributes:
        run_bytes: of each run, where they are declared.
        pattern: of the command's output, whose first group is the number of bytes of a run.
    """

    meter: Meter
    run_bytes: int | None = None
    pattern: re.Pattern[str] | None = None


def counting(factors: Factors) -> Counting:
    """Return how a command's bytes are counted.

    Raises:
        ValueError: if `command_bytes` says none of what it may say.
    """
    default = "written" if has_own_sender(factors) else "sockets"
    text = str(factors.get("command_bytes") or default)
    if text in _WORDS:
        return Counting(_WORDS[text])
    if text.startswith(_PATTERN_MARK):
        try:
            pattern = re.compile(text.removeprefix(_PATTERN_MARK), re.MULTILINE)
        except re.error as error:
            raise ValueError(f"command_bytes: {text!r} is no regular expression: {error}") from None
        if pattern.groups < 1:
            raise ValueError(f"command_bytes: {text!r} has no (group) around the number of bytes")
        return Counting("whole", pattern=pattern)
    try:
        return Counting("whole", run_bytes=units.parse_size(text))
    except ValueError:
        raise ValueError(
            f"command_bytes: {text!r} is not one of {', '.join(_WORDS)}, a size, or"
            f" '{_PATTERN_MARK}' and a regular expression"
        ) from None


def printed_bytes(pattern: re.Pattern[str], output: str) -> int | None:
    """Return the number of bytes that the last match of a pattern names, or None.

    A whole number; its thousands may be set off by commas, blanks, underscores or apostrophes,
    but not by points, which could be decimal ones.
    """
    matches = list(pattern.finditer(output))
    number = (matches[-1][1] or "").strip() if matches else ""
    if not re.fullmatch(r"[0-9]+|[0-9]{1,3}([, _'][0-9]{3})+", number):
        return None
    return int(re.sub(r"[^0-9]", "", number))


def words(command: str) -> list[str]:
    """Return a command line's words.

    Raises:
        ValueError: if it is empty, or a quotation is not closed.
    """
    found = shlex.split(command)
    if not found or "\0" in command:
        raise ValueError("it is empty, or has a null character in it")
    return found


def has_own_receiver(factors: Factors) -> bool:
    """Tell whether zcdb's own receiver takes what a command sends."""
    return factors.get("receiver_command", ABSENT) == ABSENT


def has_own_sender(factors: Factors) -> bool:
    """Tell whether nothing that zcdb starts sends."""
    return factors.get("command", ABSENT) == ABSENT


def _argv(options: ToolOptions, command: str, port: int) -> tuple[str, ...]:
    values = {
        "address": options.address,
        "port": str(port),
        "size": str(options.factors["message_size"]),
        "interface": options.interface,
    }
    argv = words(command)
    for name, value in values.items():
        argv = [word.replace(f"{{{name}}}", value) for word in argv]
    return tuple(argv)


def _file_bytes(factors: Factors, command: str) -> int:
    if "{file}" not in command:
        return 0
    working_set = factors["working_set"]
    return working_set if isinstance(working_set, int) else int(factors["message_size"])


def _receiver(options: ToolOptions, port: int) -> Job:
    """Return the receiver's command: a server, or what fetches data from elsewhere."""
    command = str(options.factors["receiver_command"])
    how = counting(options.factors)
    is_server = not has_own_sender(options.factors)
    pattern = how.pattern
    return Job(
        _argv(options, command, port),
        how.meter,
        port=port,
        sockets=int(options.factors["streams"]),
        is_server=is_server,
        is_repeated=not is_server and how.meter != "whole",
        run_bytes=how.run_bytes,
        printed_bytes=partial(printed_bytes, pattern) if pattern is not None else None,
        file_bytes=_file_bytes(options.factors, command),
    )


def _sender(options: ToolOptions, port: int) -> Job:
    """Return the sender's command; it has to outlast the window."""
    command = str(options.factors["command"])
    return Job(
        _argv(options, command, port),
        "sockets-to",
        port=port,
        sockets=int(options.factors["streams"]),
        file_bytes=_file_bytes(options.factors, command),
    )


def _refuses(factors: Factors) -> str | None:
    given = {
        name: str(factors[name])
        for name in ("command", "receiver_command")
        if factors.get(name, ABSENT) != ABSENT
    }
    if not given:
        return "tool = 'command' needs a command, a receiver_command, or both"
    for name, command in given.items():
        try:
            words(command)
        except ValueError as error:
            return f"{name} = {command!r}: {error}"
    try:
        how = counting(factors)
    except ValueError as error:
        return str(error)
    changed = [name for name in OWN_RECEIVERS if factors[name] != FACTORS[name].default]
    if "receiver_command" in given and changed:
        return f"{changed[0]} is for zcdb's own receiver; a receiver_command cannot follow it"
    if "receiver_command" not in given and "command_bytes" in factors:
        return "command_bytes is for a receiver_command; zcdb's own receiver counts by itself"
    if how.meter == "whole" and "command" in given:
        return "an amount that is known at the end only needs a receiver_command alone"
    if how.meter == "sockets-at" and "command" not in given:
        return "whose sockets to count is not known without a command at the sender"
    return None


def missing(factors: Factors, end: str) -> str | None:
    """Return which program of an end's command is not there, or None."""
    command = factors.get("command" if end == "sender" else "receiver_command", ABSENT)
    if command == ABSENT:
        return None
    program = words(str(command))[0]
    if shutil.which(program) is None:
        return f"the program {program} of the {end}'s command is not installed here"
    return None


TOOL = Tool(
    "command",
    server_end="receiver",
    apis=(),
    heeds=frozenset(
        {
            "command",
            "receiver_command",
            "command_bytes",
            "message_size",
            "working_set",
            "streams",
            "address_family",
            *OWN_RECEIVERS,
        }
    ),
    programs={"sender": (), "receiver": ()},
    server=_receiver,
    client=_sender,
    refuses=_refuses,
)
