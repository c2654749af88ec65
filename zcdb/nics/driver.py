"""Every fact about one driver, from its source: flags, callbacks, and the backstop.

The backstop: *no* is said only if the name that would set a capability stands
nowhere in the driver where it could set it.  Everything else that was not
found is *unknown*.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from zcdb.nics.backstop import OLD_XDP, Backstop
from zcdb.nics.callbacks import COALESCE_MEMBERS, Callbacks
from zcdb.nics.capabilities import CAPABILITIES, Capability
from zcdb.nics.conditions import Constants, classify, is_about_a_ring
from zcdb.nics.facts import Evidence, Fact
from zcdb.nics.flags import Flag, Primary, Relevance, bit_names, is_bit, net_device_flags
from zcdb.nics.frames import OutOfSteps
from zcdb.nics.interpreter import Interpreter
from zcdb.nics.preprocess import Macro, macros, strip_comments
from zcdb.nics.queues import queues
from zcdb.nics.source import build_index
from zcdb.nics.values import EMPTY, Presence

CORE_HEADERS = ("include/linux/netdev_features.h", "include/linux/ethtool.h")
_XDP = frozenset(("NETDEV_XDP_ACT_BASIC", "NETDEV_XDP_ACT_XSK_ZEROCOPY"))
_ALL_XDP = " | ".join(sorted(_XDP))
_MODULE_PARAMETER = re.compile(
    r"\bmodule_param(?:_array|_hw|_unsafe|_cb)?\s*\(\s*(\w+)|\bmodule_param(?:_array)?_named\s*\(\s*\w+\s*,\s*(\w+)"
)
_COPY_CALL = re.compile(r"\bskb_copy_and_csum_dev\s*\(")
_COPIED = frozenset(("sg", "ip_csum", "ipv6_csum", "hw_csum"))


def core_macros(root: Path) -> list[Macro]:
    """Return the macros of the kernel's own headers that name several capabilities at once."""
    found: list[Macro] = []
    for path in CORE_HEADERS:
        if (root / path).is_file():
            text = (root / path).read_text(encoding="utf-8", errors="replace")
            found += macros(strip_comments(text), path)
    # The kernel makes these from bit numbers; the scanner reads names.
    return [
        *found,
        Macro("NETDEV_XDP_ACT_MASK", None, _ALL_XDP, "include/uapi/linux/netdev.h", 1, _XDP),
        Macro(
            "ETHTOOL_COALESCE_ALL_PARAMS",
            None,
            " | ".join(COALESCE_MEMBERS),
            "include/linux/ethtool.h",
            1,
            frozenset(COALESCE_MEMBERS),
        ),
    ]


class DriverScan:
    """Works out the facts of one driver.

    Args:
        texts: (path, raw text, is a helper library's) of each file.
        core: macros of the kernel's headers.
        has_xdp_features: whether this kernel has net_device.xdp_features (since 6.3); before,
            the callbacks alone say what XDP can do.
    """

    def __init__(
        self,
        texts: Sequence[tuple[str, str, bool]],
        core: Iterable[Macro],
        *,
        has_xdp_features: bool = True,
    ) -> None:
        self.has_xdp_features = has_xdp_features
        self.raw = {path: text for path, text, _ in texts}
        self.index = build_index(texts, core)
        parameters = self._module_parameters()
        numbers = {
            m.name: m.body
            for m in self.index.macros.values()
            if m.parameters is None and len(m.body) < 40
        }
        self.constants = Constants(numbers, parameters)
        self.ignored = set(parameters)
        self.names = bit_names(self.index)
        self.primary = Primary(self.index)
        self.relevance = Relevance(self.index, self.names)
        self.relevance.find()
        self.interpreter = self._interpreter(self.relevance.functions)
        self.interpreter.bit_fields = self.relevance.bit_fields
        self.callbacks = Callbacks(self.index, self.interpreter)
        self.backstop = Backstop(self.index, self.primary, has_xdp_features)

    def _interpreter(self, functions: set[str]) -> Interpreter:
        return Interpreter(
            self.index, is_bit, self.constants, self.primary.is_secondary, functions, self.ignored
        )

    def _module_parameters(self) -> dict[str, str]:
        """Return each module parameter and its default."""
        found: dict[str, str] = {}
        for file in self.index.files:
            for match in _MODULE_PARAMETER.finditer(file.text):
                name = match[1] or match[2]
                value = re.search(rf"\b{name}\s*=\s*(-?\w+)\s*[,;]", file.text)
                array = re.search(rf"\b{name}\s*\[", file.text)
                is_open = array or self._is_assigned(name)
                found[name] = "?" if is_open else value[1] if value else "0"
        return found

    def _is_assigned(self, name: str) -> bool:
        """Return whether a function stores to a variable: then its initialiser decides nothing."""
        stored = re.compile(rf"(?<![\w.>]){name}\s*=(?!=)")
        return any(
            stored.search(function.text)
            for functions in self.index.functions.values()
            for function in functions
        )

    def facts(self) -> dict[str, Fact]:
        """Return a fact for each capability, in the registry's order."""
        found = self._found()
        copies = bool(_COPY_CALL.search(self.index.text))
        return {
            key: self._fact(capability, found.get(key), copies)
            for key, capability in CAPABILITIES.items()
        }

    def _found(self) -> dict[str, Flag]:
        by_token: dict[str, Flag] = dict(net_device_flags(self.interpreter, self.relevance))
        for bits in (
            self.callbacks.coalesce(),
            self.callbacks.timestamps(),
            self.callbacks.data_split(),
        ):
            by_token.update({bit: Flag(presence, None) for bit, presence in bits.have.items()})
        self._require_bpf(by_token)
        found = {key: by_token[c.token] for key, c in CAPABILITIES.items() if c.token in by_token}
        others: Mapping[str, Presence | None] = {
            "rss_indir": self.callbacks.rss_table(),
            "ring_set": self.callbacks.field("ethtool_ops", "set_ringparam"),
            "sriov": self.callbacks.sriov(),
            "bql": self.callbacks.queue_limits(),
            "mq_alloc": queues(
                self.index,
                self.interpreter,
                self.callbacks.field("rtnl_link_ops", "get_num_tx_queues"),
            ),
            "page_pool": self._page_pool(),
        }
        found.update({key: Flag(presence, None) for key, presence in others.items() if presence})
        return found

    def _require_bpf(self, by_token: dict[str, Flag]) -> None:
        """XDP also needs ndo_bpf, which the net_device_ops of some devices may lack."""
        bpf = self.callbacks.field("net_device_ops", "ndo_bpf")
        if not self.has_xdp_features:
            for key, callback in OLD_XDP.items():
                presence = self.callbacks.field("net_device_ops", callback)
                if presence is not None and "XDP_SETUP_PROG" in self.index.text:
                    by_token[CAPABILITIES[key].token] = Flag(presence, None)
            return
        for token in ("NETDEV_XDP_ACT_BASIC", "NETDEV_XDP_ACT_XSK_ZEROCOPY"):
            flag = by_token.pop(token, None)
            if flag is not None and bpf is not None:
                by_token[token] = Flag(flag.presence.under(bpf.conditions), None)

    def _page_pool(self) -> Presence | None:
        """Return how page pools are created, from the entry points down to the call."""
        calls = dict.fromkeys(("page_pool_create", "page_pool_create_percpu"), "page_pool")
        relevance = Relevance(self.index, set())
        relevance.functions = {
            name
            for name, functions in self.index.functions.items()
            if any(f.called & calls.keys() for f in functions)
        }
        if not relevance.functions:
            return None
        relevance.close()
        interpreter = self._interpreter(relevance.functions)
        interpreter.call_bits = calls
        best: Presence | None = None
        for root in relevance.roots(self.primary.is_secondary):
            if root.is_library:
                continue
            try:
                state, _ = interpreter.run(root, {})
            except OutOfSteps:
                continue
            presence = state.get("N.calls", EMPTY).have.get("page_pool")
            if presence:
                told = frozenset(c for c in presence.conditions if not is_about_a_ring(c))
                presence = Presence(told, presence.places)
            if presence and (best is None or len(presence.conditions) < len(best.conditions)):
                best = presence
        return best

    # -- facts -----------------------------------------------------------------------------------

    def _fact(self, capability: Capability, flag: Flag | None, copies: bool) -> Fact:
        if flag is None:
            return self._absent(capability)
        conditions = flag.presence.conditions
        names = sorted({name for condition in conditions for name in condition.names if name})
        return Fact(
            value="some" if conditions else "yes",
            default=flag.default,
            conditions=tuple(names[:8]),
            condition_class=classify(names) if names else "",
            copies=copies and capability.key in _COPIED,
            evidence=tuple(self._evidence(place) for place in sorted(flag.presence.places)[:4]),
        )

    def _evidence(self, place: tuple[str, int]) -> Evidence:
        path, line = place
        lines = self.raw.get(path, "").splitlines()
        text = " ".join(lines[line - 1].split()) if 0 < line <= len(lines) else ""
        return Evidence(path, line, hashlib.sha256(text.encode()).hexdigest()[:8] if text else "")

    def _absent(self, capability: Capability) -> Fact:
        if capability.token in self.callbacks.unread_coalesce():
            return Fact("no", note="declared settable, and its value is never read")
        suspicion = self.backstop.suspicion(capability)
        if suspicion is None:
            return Fact("no")
        return Fact(
            "unknown",
            evidence=(self._evidence(suspicion.place),),
            note=suspicion.reason,
        )
