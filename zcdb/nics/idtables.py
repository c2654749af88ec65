"""Device ids and description of a driver, from the tables it exports to module tools.

Macros around an entry are expanded as text, as far as constants and macros of
the driver and of the kernel's id headers go.  An entry that cannot be
resolved is counted, never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from zcdb.nics.conditions import Constants
from zcdb.nics.facts import DeviceId
from zcdb.nics.nodes import parse_expression
from zcdb.nics.preprocess import Macro, blank_defines, macros, strip_comments
from zcdb.nics.source import Index, Table

ID_HEADERS = ("include/linux/pci_ids.h",)
_EXPORTED = re.compile(r"\bMODULE_DEVICE_TABLE\s*\(\s*(pci|usb|of)\s*,\s*(\w+)\s*\)")
_DESCRIPTION = re.compile(r'\bMODULE_DESCRIPTION\s*\(\s*((?:"(?:\\.|[^"\\])*"\s*|\w+\s*)+)\)')
_ENUM = re.compile(r"\benum\b[^;{}()]*\{([^}]*)\}")
_ENUMERATOR = re.compile(r"\b([A-Za-z_]\w*)\s*=\s*(0[xX][0-9a-fA-F]+|[0-9]+)\s*(?=,|$)")
_INCLUDED = re.compile(r"^[ \t]*#[ \t]*include[ \t]+<(linux/[^>\n]+)>", re.MULTILINE)
_MACRO_CALL = re.compile(r"^[ \t]*[A-Z][A-Z0-9_]*[ \t]*\((?:[^()]|\([^()]*\))*\)", re.MULTILINE)
_QUOTED_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"\n]+)"')
_STRING = re.compile(r'"((?:\\.|[^"\\])*)"')
_WORD = re.compile(r"[A-Za-z_]\w*")
_COMPATIBLE = re.compile(r'\.compatible\s*=\s*"([^"]+)"')
_ARITHMETIC = re.compile(r"[|+]|<<")
_ANY = 0xFFFFFFFF
_KNOWN_CALLS = frozenset(
    """PCI_DEVICE PCI_VDEVICE PCI_DEVICE_SUB PCI_VDEVICE_SUB PCI_DEVICE_DATA PCI_DEVICE_CLASS
    USB_DEVICE USB_DEVICE_VER USB_DEVICE_INTERFACE_CLASS USB_DEVICE_INTERFACE_NUMBER
    USB_DEVICE_INTERFACE_PROTOCOL USB_DEVICE_AND_INTERFACE_INFO USB_VENDOR_AND_INTERFACE_INFO
    USB_INTERFACE_INFO USB_DEVICE_INFO""".split()  # noqa: SIM905
)


@dataclass(slots=True)
class Ids:
    """What id tables say.

    Attributes:
        unresolved: entries that could not be turned into numbers.
    """

    found: list[DeviceId] = field(default_factory=list)
    unresolved: int = 0


def id_macros(root: Path) -> list[Macro]:
    """Return the macros of the kernel's id headers."""
    found: list[Macro] = []
    for path in ID_HEADERS:
        if (root / path).is_file():
            text = (root / path).read_text(encoding="utf-8", errors="replace")
            found += macros(strip_comments(text), path)
    return found


def driver_ids(index: Index, kernel: Mapping[str, Macro], root: Path) -> Ids:
    """Return the ids of every table that the unit exports.

    Args:
        kernel: macros of the kernel's id headers.
        root: top of the tree; where an entry needs them, headers under include/ are read too.
    """
    anywhere = {
        macro.name: macro for file in index.files for macro in macros(file.any_text, file.path)
    }
    known = {**kernel, **_enumerators(index), **anywhere, **index.macros}
    ids = _read_tables(index, _Reader(known))
    if ids.unresolved:
        ids = _read_tables(index, _Reader({**_included_macros(index, root), **known}))
    return ids


def _read_tables(index: Index, reader: _Reader) -> Ids:
    ids = Ids()
    wanted = {
        (match[1], match[2])
        for file in index.files
        if not file.is_library
        for match in _EXPORTED.finditer(file.text)
    }
    for bus, name in sorted(wanted):
        tables = [table for table in index.tables if table.name == name and not table.is_library]
        texts = [_with_includes(index, table) for table in tables]
        texts = texts or [reader.expand(text) for text in _tables_of_macros(index, name)]
        if not texts:
            ids.unresolved += 1
        for text in texts:
            reader.read(bus, text[text.find("{") :], ids)
    ids.found = list(dict.fromkeys(ids.found))
    return ids


def _enumerators(index: Index) -> dict[str, Macro]:
    """Return the enumerators that the unit gives a number, as macros of that number."""
    return {
        match[1]: Macro(match[1], None, match[2], file.path, 1)
        for file in index.files
        for block in _ENUM.finditer(file.text)
        for match in _ENUMERATOR.finditer(block[1])
    }


def _included_macros(index: Index, root: Path) -> dict[str, Macro]:
    """Return the macros of the headers under include/linux that the unit's own files include."""
    paths = {
        f"include/{match[1]}"
        for file in index.files
        if not file.is_library
        for match in _INCLUDED.finditer(file.raw)
    }
    found: dict[str, Macro] = {}
    for path in sorted(paths):
        if (root / path).is_file():
            text = (root / path).read_text(encoding="utf-8", errors="replace")
            found.update({macro.name: macro for macro in macros(strip_comments(text), path)})
    return found


def _with_includes(index: Index, table: Table) -> str:
    """Return a table's text, the macro calls of files that it includes inside spliced in."""
    (file,) = (one for one in index.files if one.path == table.path)
    lines = table.text.split("\n")
    live = file.live.split("\n")[table.line - 1 :]
    for number, line in enumerate(live[: len(lines)]):
        found = _QUOTED_INCLUDE.match(line)
        if found:
            lines[number] = "\n".join(
                f"{call[0]},"
                for one in index.files
                if Path(one.path).name == Path(found[1]).name
                for call in _MACRO_CALL.finditer(blank_defines(one.any_text))
            )
    return "\n".join(lines)


def _tables_of_macros(index: Index, name: str) -> list[str]:
    """Return the texts of a table whose declaration stands in a macro that a header uses."""
    openers = [
        macro.name
        for macro in index.macros.values()
        if macro.parameters is None
        and "device_id" in macro.body
        and re.search(rf"\b{name}\s*\[", macro.body)
    ]
    return [
        match[0]
        for opener in openers
        for file in index.files
        for match in re.finditer(rf"^[ \t]*{opener}\b[^;]*;", file.text, re.MULTILINE)
    ]


def description(index: Index) -> str:
    """Return the first MODULE_DESCRIPTION of the unit; "" if it has none."""
    for file in index.files:
        match = None if file.is_library else _DESCRIPTION.search(file.text)
        if match:
            text = match[1]
            for word in _WORD.findall(_STRING.sub(" ", text)):
                macro = index.macros.get(word)
                text = text.replace(word, macro.body if macro else "")
            return " ".join("".join(_STRING.findall(text)).split())
    return ""


class _Reader:
    """Turns the text of tables into ids."""

    def __init__(self, known: Mapping[str, Macro]) -> None:
        self.macros = known
        numbers = {m.name: m.body for m in known.values() if m.parameters is None}
        self._constants = Constants(numbers, {})

    def expand(self, text: str) -> str:
        """Return `text` with the driver's own macros expanded that stand for table entries."""
        return self._expand(text, 0)

    def read(self, bus: str, text: str, ids: Ids) -> None:
        if bus == "of":
            expanded = self._expand(text, 0) if ".compatible" not in text else text
            ids.found += [DeviceId("of", compatible=name) for name in _COMPATIBLE.findall(expanded)]
            return
        for entry in _entries(self._expand(text, 0)):
            if _is_terminator(entry):
                continue
            found = self._pci(entry) if bus == "pci" else self._usb(entry)
            if found is None:
                ids.unresolved += 1
            else:
                ids.found.append(found)

    def _expand(self, text: str, depth: int) -> str:
        """Expand the driver's own macros that stand for whole entries or parts of them."""
        if depth > 6:
            return text
        pieces: list[str] = []
        position, changed = 0, False
        for match in _WORD.finditer(text):
            if match.start() < position or match[0] in _KNOWN_CALLS:
                continue
            macro = self.macros.get(match[0])
            if macro is None or (macro.parameters is None and not re.search(r"[({,]", macro.body)):
                continue
            end = match.end()
            body = macro.body
            if macro.parameters is not None:
                arguments, end = _arguments(text, match.end())
                if arguments is None:
                    continue
                body = _substitute(body, macro.parameters, arguments)
            pieces += [text[position : match.start()], body]
            position, changed = end, True
        if not changed:
            return text
        return self._expand("".join([*pieces, text[position:]]), depth + 1)

    def _pci(self, entry: str) -> DeviceId | None:
        call = _call(entry)
        if call is not None:
            name, given = call
            if name == "PCI_DEVICE_DATA":
                given = [f"PCI_VENDOR_ID_{given[0]}", f"PCI_DEVICE_ID_{given[0]}_{given[1]}"]
            if name in ("PCI_VDEVICE", "PCI_VDEVICE_SUB"):
                given = [f"PCI_VENDOR_ID_{given[0]}", *given[1:]]
            if name == "PCI_DEVICE_CLASS":
                return DeviceId("pci")
            return self._numbers("pci", given[:4])
        named = dict(re.findall(r"\.(vendor|device|subvendor|subdevice)\s*=\s*([^,}]+)", entry))
        if named:
            return self._numbers(
                "pci",
                [
                    named.get(key, "PCI_ANY_ID")
                    for key in ("vendor", "device", "subvendor", "subdevice")
                ],
            )
        return self._numbers("pci", [part.strip() for part in entry.split(",")][:4])

    def _usb(self, entry: str) -> DeviceId | None:
        call = _call(entry)
        if call is not None:
            name, given = call
            if name in ("USB_INTERFACE_INFO", "USB_DEVICE_INFO"):
                return DeviceId("usb")
            return self._numbers("usb", given[:1] if name.startswith("USB_VENDOR") else given[:2])
        named = dict(re.findall(r"\.(idVendor|idProduct)\s*=\s*([^,}]+)", entry))
        if "idVendor" not in named:
            return DeviceId("usb") if "bInterfaceClass" in entry else None
        return self._numbers(
            "usb", [named[key] for key in ("idVendor", "idProduct") if key in named]
        )

    def _numbers(self, bus: str, words: list[str]) -> DeviceId | None:
        numbers = [self.number(word) for word in words]
        if None in numbers or len(numbers) < (2 if bus == "pci" else 1):
            return None
        ids = [None if number in (_ANY, 0xFFFF) else number for number in numbers] + [None] * 4
        if bus == "usb":
            return DeviceId("usb", ids[0], ids[1])
        sub = ids[2:4] if len(numbers) >= 4 else [None, None]
        return DeviceId("pci", ids[0], ids[1], sub[0], sub[1])

    def number(self, text: str, depth: int = 0) -> int | None:
        """Return the value of a constant; None if it cannot be resolved."""
        text = text.strip()
        while _in_parentheses(text):
            text = text[1:-1].strip()
        if re.fullmatch(r"0[xX][0-9a-fA-F]+|[0-9]+", text.rstrip("uUlL")):
            return int(text.rstrip("uUlL"), 0)
        if text in ("PCI_ANY_ID", "~0", "~0U"):
            return _ANY
        macro = self.macros.get(text)
        if macro is not None and macro.parameters is None and depth <= 6:
            return self.number(macro.body, depth + 1)
        return self._constants.value(parse_expression(text)) if _ARITHMETIC.search(text) else None


def _in_parentheses(text: str) -> bool:
    """Return whether one pair of parentheses stands around the whole text."""
    return text.startswith("(") and _arguments(text, 0)[1] == len(text)


def _arguments(text: str, start: int) -> tuple[list[str] | None, int]:
    """Return the arguments of a call whose name ends at `start`, and where it ends."""
    while start < len(text) and text[start].isspace():
        start += 1
    if start >= len(text) or text[start] != "(":
        return None, start
    depth, position, last = 0, start, start + 1
    arguments: list[str] = []
    while position < len(text):
        letter = text[position]
        depth += letter in "({"
        depth -= letter in ")}"
        if depth == 0 or (depth == 1 and letter == ","):
            arguments.append(text[last:position].strip())
            last = position + 1
        position += 1
        if depth == 0:
            return arguments, position
    return None, position


def _substitute(body: str, parameters: tuple[str, ...], arguments: list[str]) -> str:
    values = dict(zip(parameters, arguments, strict=False))
    if parameters and parameters[-1] == "...":
        values["__VA_ARGS__"] = ", ".join(arguments[len(parameters) - 1 :])
    body = re.sub(r"[A-Za-z_]\w*", lambda match: values.get(match[0], match[0]), body)
    return re.sub(r"\s*##\s*", "", body)


def _entries(text: str) -> Iterator[str]:
    """Yield the inside of each element of an initialiser list."""
    depth, start = 0, 0
    outer = text.find("{")
    position = outer + 1
    loose = position
    while outer >= 0 and position < len(text):
        letter = text[position]
        if letter == "{":
            if depth == 0:
                start = position + 1
            depth += 1
        elif letter == "}":
            depth -= 1
            if depth < 0:
                return
            if depth == 0:
                yield text[start:position].strip()
                loose = position + 1
        elif letter == "(" and depth == 0:
            arguments, end = _arguments(text, position)
            if arguments is not None:
                word = text[loose:position].strip(" ,\n\t")
                if word in _KNOWN_CALLS:
                    yield f"{word}({', '.join(arguments)})"
                position = end - 1
                loose = end
        position += 1


def _is_terminator(entry: str) -> bool:
    return re.fullmatch(r"[0,\s]*|\.\w+\s*=\s*0\s*,?\s*", entry) is not None


def _call(entry: str) -> tuple[str, list[str]] | None:
    for match in _WORD.finditer(entry):
        if match[0] in _KNOWN_CALLS:
            arguments, _ = _arguments(entry, match.end())
            if arguments is not None:
                return match[0], arguments
    return None
