"""The backstop: whether a capability that no rule found may be called *no*.

*No* is said only if the name that would set the capability stands nowhere in
the driver where it could set it, under any configuration of the kernel.
Everything else that was not found is *unknown*: a scanner that is blind for a
new idiom must say so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from zcdb.nics.capabilities import Capability
from zcdb.nics.flags import Primary
from zcdb.nics.preprocess import Macro, macros
from zcdb.nics.source import Function, Index, SourceFile, Table
from zcdb.nics.values import Place

OLD_XDP = {"xdp": "ndo_bpf", "xsk_zc": "ndo_xsk_wakeup"}
"""Capability -> the callback that stood for it before kernels had net_device.xdp_features."""

_ONLY_KNOWN_ALLOCATION = re.compile(
    r"\b(?!(?:devm_)?alloc_(?:etherdev|netdev)_mqs?\b)\w*alloc\w*_mqs?\s*\("
)
_SINKS = "(?:vlan|mpls|hw_enc|gso_partial|lower)_features"
_MASKED = re.compile(r"&=?\s*~?\s*\(*\s*(?:\w+\s*\|\s*)*$")
_OTHER_SINK = re.compile(rf"{_SINKS}\s*\|?=[^;=]*$")
_SINK_READ = re.compile(rf"(\w+)\s*\|?=(?!=)[^;=]*(?:->|\.){_SINKS}\b")
_TESTED = re.compile(r"^\s*(?:\|\s*\w+\s*)*\)?\s*\)?\s*&(?!&)")
_SETS_FEATURES = re.compile(r"\bfeatures\s*\|?=(?!=)([^;]*)$|\bhw_features\s*\|?=(?!=)([^;]*)$")
_WORD = re.compile(r"[A-Za-z_]\w*")
_DEFINE_HEAD = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(\()?")


@dataclass(frozen=True, slots=True)
class Suspicion:
    """Why a capability that was not found may be there all the same."""

    place: Place
    reason: str


class Backstop:
    """Looks for names that could set what no rule found.

    Args:
        index: the unit's source.
        primary: tells the unit's own net_devices from secondary ones.
        has_xdp_features: whether this kernel has net_device.xdp_features.
    """

    def __init__(self, index: Index, primary: Primary, has_xdp_features: bool) -> None:
        self.index = index
        self.primary = primary
        self.has_xdp_features = has_xdp_features

    def suspicion(self, capability: Capability) -> Suspicion | None:
        """Return the first place where the driver may set a capability; None if there is none."""
        pattern = self._pattern(capability)
        is_flag = capability.kind in ("feature", "xdp")
        for file in self.index.files:
            text = file.any_text
            for match in pattern.finditer(text):
                line = text.count("\n", 0, match.start()) + 1
                if is_flag and self._is_harmless(text, match.start(), match.end()):
                    continue
                if self._is_unused_macro(text, match.start(), is_flag):
                    continue
                if not self._belongs_elsewhere(file, line):
                    return Suspicion((file.path, line), self._reason(capability, file, line))
        return None

    @staticmethod
    def _reason(capability: Capability, file: SourceFile, line: int) -> str:
        if file.live.split("\n")[line - 1].strip():
            return f"{capability.token} is named in the driver, and no rule says what for"
        return f"{capability.token} is named where a distribution's configuration does not reach"

    def _belongs_elsewhere(self, file: SourceFile, line: int) -> bool:
        """Return whether a line is a secondary net_device's, or a library's own affair."""
        blocks: list[Function | Table] = [*file.functions, *file.tables]
        for block in blocks:
            if block.line <= line < block.line + block.text.count("\n") + 1:
                if file.is_library and block.name not in self._reached_in_libraries:
                    return True
                return self.primary.is_secondary(block)
        return False

    @cached_property
    def _reached_in_libraries(self) -> set[str]:
        """Functions and tables of helper libraries that may be the driver's too.

        They are exported, or the driver names them, or one of those names them.
        """
        names_in: dict[str, set[str]] = {}
        for file in self.index.files:
            if file.is_library:
                for function in file.functions:
                    names_in.setdefault(function.name, set()).update(function.names)
                for table in file.tables:
                    names_in.setdefault(table.name, set()).update(_WORD.findall(table.text))
        own = "\n".join(file.any_text for file in self.index.files if not file.is_library)
        pending = names_in.keys() & (self.index.exported | set(_WORD.findall(own)))
        reached: set[str] = set()
        while pending:
            reached |= pending
            named = set().union(*(names_in[name] for name in pending))
            pending = (names_in.keys() & named) - reached
        return reached

    def _is_unused_macro(self, text: str, start: int, is_flag: bool) -> bool:
        """Return whether a name stands in a macro whose use says no more than the macro's name.

        The flags of a plain macro count where the macro is used; any other
        macro counts if anybody uses it.
        """
        begin = text.rfind("\n", 0, start) + 1
        while begin >= 2 and text[begin - 2] == "\\":
            begin = text.rfind("\n", 0, begin - 1) + 1
        head = _DEFINE_HEAD.match(text[begin:])
        if head is None:
            return False
        if is_flag and head[2] is None:
            return True
        used = re.compile(rf"\b{head[1]}\b(?!\()" if head[2] is None else rf"\b{head[1]}\s*\(")
        return not any(used.search(file.text) for file in self.index.files)

    def _is_harmless(self, text: str, start: int, end: int) -> bool:
        """Return whether a name stands where it cannot set anything.

        It stands behind `&` (a mask or a test), in `~`, or is stored in a field
        that only says what VLANs or tunnels may use and that nobody reads back.
        """
        statement = max(text.rfind(mark, 0, start) for mark in ";{}")
        before, after = text[statement + 1 : start], text[end : end + 80]
        if _OTHER_SINK.search(before):
            return not self._sinks_are_read
        stored = _SETS_FEATURES.search(before)
        if _MASKED.search(before):
            # What a mask lets through from something that is no flags of a net_device is set here.
            source = (stored[1] or stored[2] or "") if stored else ""
            return stored is None or "features" in source or "~" in source
        return _TESTED.match(after) is not None and stored is None

    @cached_property
    def _sinks_are_read(self) -> bool:
        """Whether the driver copies the flags for VLANs or tunnels into its own."""
        return any(
            not re.fullmatch(_SINKS, match[1])
            for file in self.index.files
            for match in _SINK_READ.finditer(file.text)
        )

    def _pattern(self, capability: Capability) -> re.Pattern[str]:
        if capability.kind == "queues":
            return _ONLY_KNOWN_ALLOCATION
        if capability.key == "bql":
            return re.compile(r"\b(?:_*netdev_(?:tx_)?sent_queue|dql_queued)\s*\(")
        if capability.kind == "ops" and not capability.token.startswith("ETHTOOL"):
            return re.compile(rf"(?:\.|->){capability.token}\s*=(?!\s*NULL\b)")
        if capability.key == "page_pool":
            return re.compile(r"\bpage_pool_create\w*\s*\(")
        if capability.key in ("queue_mgmt", "netmem_tx"):
            return re.compile(rf"\b{capability.token}\s*=(?!=)")
        if capability.kind == "xdp" and not self.has_xdp_features:
            return re.compile(rf"\.{OLD_XDP[capability.key]}\s*=(?!\s*NULL\b)")
        words = sorted(self._holders(capability.token))
        return re.compile(r"\b(?:" + "|".join(words) + r")(?:_BIT)?\b")

    def _holders(self, token: str) -> set[str]:
        """Return a token and the plain macros that hold it, through any number of macros."""
        holders = {token}
        grown = True
        while grown:
            new = {
                macro.name
                for macro in self._plain_macros
                if macro.name not in holders and macro.names & holders
            }
            grown = bool(new)
            holders |= new
        return holders

    @cached_property
    def _plain_macros(self) -> list[Macro]:
        return [macro for macro in self._macros() if macro.parameters is None and macro.names]

    def _macros(self) -> Iterator[Macro]:
        yield from self.index.macros.values()
        for file in self.index.files:
            yield from macros(file.any_text, file.path)
