"""From bytes to clean lines that still know where they stand in the file.

Mail quoting, CR LF, ANSI colour, NUL, log prefixes, HTML and forum markup,
quoted-printable line ends and UTF-16 are taken away; what a line was made from
keeps its line numbers and byte range.  No tool's grammar is here.
"""

from __future__ import annotations

import bz2
import html
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from zcdb.importers.model import Span

UNPACKED_LIMIT_BYTES = 512 * 1024 * 1024
"""A compressed file may grow to this and no further."""


@dataclass(frozen=True, slots=True)
class Line:
    """A clean line, without markup and without blanks at the end.

    `first` and `last` differ where it was put together from several lines of the file.
    """

    text: str
    first: int
    last: int
    first_byte: int
    end_byte: int


def span(lines: Sequence[Line], first: int, last: int) -> Span:
    """Return where the lines from index `first` to index `last`, included, stand."""
    a, b = lines[first], lines[max(first, last)]
    return Span(a.first, b.last, a.first_byte, b.end_byte)


def unpack(data: bytes) -> tuple[bytes, str | None]:
    """Return the bytes inside a gzip or bzip2 file, and what was wrong with it.

    Anything else comes back as it is.  A cut file gives what could be unpacked.
    """
    if data[:2] == b"\x1f\x8b":
        unpacker = zlib.decompressobj(wbits=31)
        try:
            inside = unpacker.decompress(data, UNPACKED_LIMIT_BYTES)
        except zlib.error as error:
            return b"", f"the gzip data is damaged ({error})"
        if not unpacker.eof:
            return inside, "the gzip data is cut off or too large"
        return inside, None
    if data[:3] == b"BZh":
        bunzipper = bz2.BZ2Decompressor()
        try:
            inside = bunzipper.decompress(data, UNPACKED_LIMIT_BYTES)
        except (OSError, ValueError) as error:
            return b"", f"the bzip2 data is damaged ({error})"
        return inside, None if bunzipper.eof else "the bzip2 data is cut off or too large"
    return data, None


def decode(data: bytes) -> tuple[str, str]:
    """Return the text and its encoding; nothing is lost, bad bytes become lone surrogates."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        # What a PowerShell redirection writes.
        encoding = "utf-16-le" if data[:1] == b"\xff" else "utf-16-be"
        return data.decode(encoding, errors="replace"), encoding
    return data.decode("utf-8", errors="surrogateescape"), "utf-8"


def byte_length(text: str, encoding: str) -> int:
    """Return how many bytes of the file `text` is."""
    if encoding == "utf-8":
        if text.isascii():
            return len(text)
        return len(text.encode("utf-8", errors="surrogateescape"))
    return len(text.encode(encoding, errors="replace"))


_DIRTY = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f\ufeff\xa0&<\[*]|\^\[|^\s*[>|]|^[A-Z]+:\w+:"
    r"|^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ]|^std",
    re.M,
)
_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]")
_TYPED_KEYS = re.compile(r"\^\[\[[A-D]")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufeff]")
_QUOTE = re.compile(r"^(?:[ \t]*[>|](?=[ \t>|]|$))+[ \t]?")
_TIGHT_QUOTE = re.compile(r"^(?:> ?)+")
_LOG_PREFIX = re.compile(
    r"^\[?(?:STDOUT|STDERR|stdout|stderr)\]?:? |^(?:DEBUG|INFO|WARNING|ERROR):\w+:"
    r"|^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?Z? "
    r"(?:std(?:out|err) [FP] )?"
)
_MARKUP = re.compile(
    r"</?(?:b|i|u|p|br|em|tt|pre|code|span|font|strong)(?:\s[^<>]{0,200})?/?>"
    r"|\[/?(?:COLOR|B|I|CODE)(?:=\w{1,20})?\]|\*\*",
    re.IGNORECASE,
)
_ENTITY = re.compile(r"&(?:lt|gt|amp|quot|nbsp|#[0-9]{1,5});")


def _is_tightly_quoted(text: str) -> bool:
    """Tell whether most lines begin with ">" and no blank behind it, as old mail programs did."""
    lines = text.split("\n", 200)[:200]
    return sum(line.startswith(">") for line in lines) * 2 > sum(bool(line) for line in lines)


def _clean(text: str, quote: re.Pattern[str]) -> str:
    text = _ANSI.sub("", text)
    text = _TYPED_KEYS.sub("", text)
    text = _CONTROL.sub("", text).rstrip("\r\n")
    # A carriage return inside a line is a progress display: its last state counts.
    text = text.rsplit("\r", 1)[-1]
    text = text.replace("\xa0", " ")
    if "&" in text:
        text = _ENTITY.sub(lambda m: html.unescape(m[0]).replace("\xa0", " "), text)
    text = quote.sub("", text)
    text = _LOG_PREFIX.sub("", text)
    return _MARKUP.sub("", text)


_SOFT_END = re.compile(r"(?<![=\s])=\r?$|=20\r?$", re.M)
_PLAIN_EQUALS = re.compile(r"=(?![0-9A-F]{2}|\r?$)|^\s*[\w.]+=(?:[0-9A-F]{2})?\r?$", re.M)
_QP_BYTE = re.compile(r"=([0-9A-F]{2})")


def _is_quoted_printable(text: str) -> bool:
    if len(_SOFT_END.findall(text)) < 2:
        return False
    # In quoted-printable text every "=" is an escape; "key=0" and "a = b" are not.
    return _PLAIN_EQUALS.search(text) is None


def _unquote_printable(text: str) -> str:
    return _QP_BYTE.sub(lambda m: chr(int(m[1], 16)) if m[1] < "80" else m[0], text)


def clean_lines(text: str, encoding: str, first_line: int = 1, first_byte: int = 0) -> list[Line]:
    """Return the clean lines of a piece of a file.

    Args:
        text: the piece, as decoded.
        first_line, first_byte: where it begins in the file.
    """
    dirty = _DIRTY.search(text) is not None
    quote = _TIGHT_QUOTE if dirty and _is_tightly_quoted(text) else _QUOTE
    soft = "=" in text and _is_quoted_printable(text)
    # Of plain text every character is a byte, and nobody has to look at each line for it.
    is_plain = encoding == "utf-8" and text.isascii()
    newline = byte_length("\n", encoding)
    lines: list[Line] = []
    position = first_byte
    held: Line | None = None
    for number, raw in enumerate(text.split("\n"), first_line):
        end = position + (len(raw) if is_plain else byte_length(raw, encoding)) + newline
        clean = _clean(raw, quote) if dirty else raw
        line = Line(clean.rstrip(), number, number, position, end)
        position = end
        if soft:
            line, goes_on = _soft_line(clean, line, held)
            held = line if goes_on else None
            if goes_on:
                continue
        lines.append(line)
    if held is not None:
        lines.append(held)
    if lines:
        last = lines[-1]
        lines[-1] = Line(
            last.text,
            last.first,
            last.last,
            last.first_byte,
            max(last.first_byte, last.end_byte - newline),
        )
    return lines


def _soft_line(clean: str, line: Line, held: Line | None) -> tuple[Line, bool]:
    """Undo one quoted-printable line end; tell whether the line goes on in the next one."""
    stripped = clean.rstrip()
    goes_on = stripped.endswith(("=20", "=")) and not stripped.endswith("==")
    body = _unquote_printable(stripped[:-1] if stripped.endswith("=") else stripped)
    if not goes_on:
        body = body.rstrip()
    if held is None:
        return Line(body, line.first, line.last, line.first_byte, line.end_byte), goes_on
    if not body.strip():
        # A blank line ends the paragraph, whatever the line before said.
        return Line(
            held.text.rstrip(), held.first, held.last, held.first_byte, held.end_byte
        ), False
    joined = held.text + body
    return Line(joined, held.first, line.last, held.first_byte, line.end_byte), goes_on


_PROMPT = re.compile(
    r"^\s*(?:\[?[\w.-]{1,60}@[^$#%>]{0,80}[$#%>]|\[?[\w.-]{1,60}\]?[$#] |[$#%])\s*(?=\S)"
)


def is_prompt(text: str) -> bool:
    """Tell whether a line begins with a shell prompt."""
    return _PROMPT.match(text) is not None


def without_prompt(text: str) -> str:
    """Return a line without its shell prompt."""
    return _PROMPT.sub("", text, count=1)


def label_before(lines: Sequence[Line], index: int, stop: int) -> str | None:
    """Return the heading in the three lines above `index`, not above `stop`: "Before patch:"."""
    for i in range(index - 1, max(stop, index - 4) - 1, -1):
        text = lines[i].text.strip()
        if not text or is_prompt(text):
            continue
        heading = re.fullmatch(r"==> (\S{1,200}) <==", text)
        if heading:
            return heading[1]
        if text.endswith(":") and len(text) <= 80 and text[:1].isalnum():
            return text[:-1].rstrip()
        return None
    return None
