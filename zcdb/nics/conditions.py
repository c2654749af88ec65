"""What a condition in a driver tests, whether it counts, and what kind of thing it is about.

A capability "with conditions" must mean: another chip, firmware, function or
host would not have it.  Conditions about the moment (MTU, a loaded XDP
program, a crash kernel, what the user asked for) do not count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal

from tree_sitter import Node

from zcdb.nics.nodes import text_of
from zcdb.nics.values import ALWAYS, Condition, Conditions

ConditionClass = Literal["pf-vf", "host", "dma", "firmware", "chip", "mode", "kconfig", "other"]

_MOMENT = re.compile(
    r"\bmtu\b|_mtu\b|xdp_prog|xdp_loaded|xdp_is_|is_xdp|has_xdp|xdp_enabled|xdp_on|kdump|xsk|(?i:reset)|_recover"
    r"|wanted_features|NETREG_|reg_state|in_interrupt|^pci_num_vf$|REG_NETDEV|_REGISTERED|(?i:jumbo)"
    r"|^capable$|CAP_NET_ADMIN|net_ratelimit|unlikely|WARN_ON|BUG_ON"
)
_ERROR_NAME = re.compile(
    r"(?:err|error|ret|rc|retval|status|result|res|rv|ierr|r|reterr|ret_val)\w?"
)
_FILLER = frozenset(
    """netif_running netif_device_present netif_carrier_ok NULL true false likely unlikely BIT
    BIT_ULL test_bit READ_ONCE sizeof netdev_priv u8 u16 u32 u64 int be16_to_cpu be32_to_cpu
    le16_to_cpu le32_to_cpu le64_to_cpu""".split()  # noqa: SIM905
)

_CLASSES: tuple[tuple[ConditionClass, str], ...] = (
    ("pf-vf", r"virtfn|physfn|sriov|(?:^|_)(?:is_)?[pv]f(?:_|$)|IS_[PV]F|vport|eswitch"),
    ("host", r"virtio|hypervisor|backend|xenbus|hv_|ndis|nvsp|offloadparam"),
    ("dma", r"dma_set|pci_set_dma|using_dac|highdma|dma_mask|dma64|use_dac|dma_ok|dac"),
    ("firmware", r"fw|firmware|cap(?:s|abilit)|hwrm|_supported|supports|licen|MLX5_CAP"),
    ("chip", r"mac|chip|rev|quirk|hw|version|_ver|drv_flags|type|board|model|silicon|device$"),
    ("kconfig", r"^CONFIG_|IS_ENABLED"),
    ("mode", r"mode|enable|disable|config|flags|state|queue"),
)
"""Class -> what one of the tested names looks like; the first that fits."""


def names_of(node: Node) -> tuple[str, ...]:
    """Return the names that an expression tests: fields without their base, calls, constants."""
    return tuple(dict.fromkeys(_names(node)))


def _names(node: Node) -> Iterator[str]:
    if node.type == "field_expression":
        yield _field_path(node)
    elif node.type == "call_expression":
        function = node.child_by_field_name("function")
        if function is not None:
            if function.type == "field_expression":
                field = function.child_by_field_name("field")
                yield text_of(field) if field is not None else ""
            elif text_of(function) not in _FILLER:
                yield text_of(function)
        arguments = node.child_by_field_name("arguments")
        for argument in arguments.named_children if arguments is not None else ():
            if argument.type != "identifier" or text_of(argument).isupper():
                yield from _names(argument)
    elif node.type == "identifier":
        name = text_of(node)
        if name not in _FILLER:
            yield name
    else:
        for child in node.named_children:
            yield from _names(child)


def _identifiers(node: Node) -> Iterator[str]:
    """Yield the names of variables, not of fields or called functions."""
    if node.type == "identifier":
        yield text_of(node)
    for child in node.named_children:
        if node.type != "call_expression" or child.type == "argument_list":
            yield from _identifiers(child)


def _field_path(node: Node) -> str:
    """Return `mac.type` for `hw->mac.type`: the path without the variable it starts from."""
    parts: list[str] = []
    at: Node | None = node
    while at is not None and at.type in ("field_expression", "subscript_expression"):
        if at.type == "field_expression":
            field = at.child_by_field_name("field")
            parts.append(text_of(field) if field is not None else "")
        at = at.child_by_field_name("argument")
    return ".".join(reversed(parts[:2]))


def conditions_of(
    node: Node,
    ignored: Iterable[str] = (),
    origins: Mapping[str, tuple[str, ...]] | None = None,
) -> Conditions:
    """Return the condition that `node` states; nothing if it does not count.

    Args:
        ignored: names whose value the user chooses (module parameters, arguments).
        origins: local -> the names its value came from; they are named in its place.
    """
    names = names_of(node)
    # A driver's field may have a module parameter's name; only the parameter itself is chosen.
    ignored = set(ignored).intersection(_identifiers(node))
    if origins:
        names = tuple(
            dict.fromkeys(source for name in names for source in origins.get(name, (name,)))
        )
    if not counts(names, ignored):
        return ALWAYS
    return frozenset((Condition(names),))


def counts(names: Iterable[str], ignored: Iterable[str] = ()) -> bool:
    """Return whether a test of these names tells one card or host from another."""
    names = list(names)
    if not names or any(_MOMENT.search(name) for name in names):
        return False
    chosen = set(ignored)
    told = [name for name in names if not name.isupper()] or names
    return not all(name in chosen or name.split(".")[0] in chosen for name in told)


_RING = re.compile(
    r"(?:^|[._])(?:[rt]xq?|rings?|napi|queue|qid|q|type|state|root|node|level|action|command)(?:[._]|$)"
    r"|num_|refcnt|usage_count|INITED|_RQ$|RXQ$|_TX_RING|_RX_RING|MAX_TXQS|IFF_UP",
    re.I,
)


def is_about_a_ring(condition: Condition) -> bool:
    """Return whether a condition tells one ring of a card from another, or its moment."""
    return any(_RING.search(name) for name in condition.names)


def is_error_check(node: Node) -> bool:
    """Return whether a condition only asks if the step before went wrong."""
    names = names_of(node)
    return bool(names) and all(
        _ERROR_NAME.fullmatch(name) or re.match(r"IS_ERR|ERR_|E[A-Z0-9]+$", name) for name in names
    )


def classify(names: Iterable[str]) -> ConditionClass:
    """Return what kind of thing a condition is about, judged by the names it tests."""
    text = list(names)
    for name, pattern in _CLASSES:
        if any(re.search(pattern, word, re.IGNORECASE) for word in text):
            return name
    return "other"


class Constants:
    """Values known before a driver runs: macros, module parameters' defaults, CONFIG options."""

    def __init__(self, macros: Mapping[str, str], parameters: Mapping[str, str]) -> None:
        self.macros = macros
        self.parameters = parameters

    def value(self, node: Node | None, depth: int = 0) -> int | None:
        """Return the value of an expression; None if it is only known at run time."""
        if node is None or depth > 12:
            return None
        kind = node.type
        if kind == "number_literal":
            return _number(text_of(node))
        if kind in ("true", "false"):
            return int(kind == "true")
        if kind == "null":
            return 0
        if kind == "identifier":
            return self._named(text_of(node), depth)
        if kind in ("parenthesized_expression", "cast_expression"):
            inner = node.named_children[-1] if node.named_children else None
            return self.value(inner, depth)
        if kind == "unary_expression":
            return self._unary(node, depth)
        if kind == "binary_expression":
            return self._binary(node, depth)
        if kind == "call_expression":
            return self._call(node, depth)
        return None

    def _named(self, name: str, depth: int) -> int | None:
        text = self.parameters.get(name, self.macros.get(name))
        if text is None or depth > 8:
            return {"true": 1, "false": 0, "NULL": 0}.get(name)
        number = _number(text.strip().strip("()"))
        if number is not None:
            return number
        return self._named(text.strip().strip("()"), depth + 1)

    def _unary(self, node: Node, depth: int) -> int | None:
        value = self.value(node.child_by_field_name("argument"), depth + 1)
        operator = node.child_by_field_name("operator")
        if value is None or operator is None:
            return None
        return {"!": int(not value), "-": -value, "~": ~value}.get(text_of(operator))

    def _binary(self, node: Node, depth: int) -> int | None:
        left = self.value(node.child_by_field_name("left"), depth + 1)
        right = self.value(node.child_by_field_name("right"), depth + 1)
        operator = node.child_by_field_name("operator")
        sign = text_of(operator) if operator is not None else ""
        if sign == "&&":
            return 0 if 0 in (left, right) else (1 if left and right else None)
        if sign == "||":
            return 1 if left or right else (0 if (left, right) == (0, 0) else None)
        if left is None or right is None:
            return None
        return _COMPUTE[sign](left, right) if sign in _COMPUTE else None

    def _call(self, node: Node, depth: int) -> int | None:
        function = node.child_by_field_name("function")
        arguments = node.child_by_field_name("arguments")
        name = text_of(function) if function is not None else ""
        inner = arguments.named_children if arguments is not None else []
        if name in ("IS_ENABLED", "IS_REACHABLE", "IS_BUILTIN") and inner:
            return 1
        if name in ("likely", "unlikely") and inner:
            return self.value(inner[0], depth + 1)
        if name == "is_kdump_kernel":
            return 0
        return None


_COMPUTE: Mapping[str, Callable[[int, int], int | None]] = {
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "<": lambda a, b: int(a < b),
    ">": lambda a, b: int(a > b),
    "<=": lambda a, b: int(a <= b),
    ">=": lambda a, b: int(a >= b),
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "<<": lambda a, b: a << b if 0 <= b < 64 else None,
}


def _number(text: str) -> int | None:
    match = re.fullmatch(r"(-?)(0[xX][0-9a-fA-F]+|[0-9]+)[uUlL]*", text)
    if match is None:
        return None
    digits = match[2]
    base = 16 if digits[:2].lower() == "0x" else 8 if digits[0] == "0" and len(digits) > 1 else 10
    if base == 8 and not re.fullmatch("[0-7]+", digits):
        return None
    return int(digits, base) * (-1 if match[1] else 1)
