"""A small abstract interpreter of C: which capability bits a driver's net_device ends up with.

Functions are followed from the driver's entry points through calls and ops
tables; both sides of every branch are taken and joined.  What the driver has
when it registers its net_device is what counts, so a condition that guards
the registration itself never makes a capability conditional.

Deliberately not here: pointers (all net_devices of a unit are one), numbers,
loops (a body runs once), anything about time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tree_sitter import Node

from zcdb.nics.conditions import conditions_of, is_error_check
from zcdb.nics.expressions import Expressions
from zcdb.nics.frames import Exit, Frame, OutOfSteps, called_by_kernel
from zcdb.nics.nodes import declared_name, text_of
from zcdb.nics.source import Function
from zcdb.nics.values import ALWAYS, EMPTY, UNKNOWN, Bits, Conditions, State, join_bits, join_states

_ERROR_LABEL = re.compile(
    r"err|fail|free|unwind|release|disable|unreg|undo|clean|abort|bail|unmap|destroy|remove|rollback"
    r"|no_|bad|put|teardown|exit"
)
_ERROR_RETURN = re.compile(
    r"-\s*E[A-Z0-9]+|.*(?:PTR_ERR|ERR_PTR|ERR_CAST|dev_err_probe)\b.*|NULL", re.DOTALL
)
_NOT_SUPPORTED = re.compile(r"-\s*(?:EOPNOTSUPP|ENOTSUPP)")
_MAX_STEPS = 60_000


class Interpreter(Expressions):
    """Runs functions of one unit: statements, branches, ways out."""

    def run(
        self, function: Function, state: State, arguments: dict[str, Bits] | None = None
    ) -> tuple[State, Bits]:
        """Run a function as an entry point; return the state after it and its value.

        Raises:
            OutOfSteps: if it is too large to follow.
        """
        self._steps = 0
        return self._run(function, state, arguments or {}, {})

    def _run(
        self,
        function: Function,
        state: State,
        arguments: dict[str, Bits],
        aliases: dict[str, str],
    ) -> tuple[State, Bits]:
        body = function.body
        if body is None:
            return state, UNKNOWN
        self._frames += 1
        frame = Frame(function, self._frames, aliases)
        before = dict(state)
        state = dict(state)
        for name, bits in arguments.items():
            state[f"L.{frame.number}.{name}"] = bits
        self._stack.append(frame)
        try:
            end = self._statement(body, state)
        finally:
            self._stack.pop()
        return self._leave(frame, end, before)

    def _leave(self, frame: Frame, end: State | None, before: State) -> tuple[State, Bits]:
        """Join every way out of a function."""
        exits = frame.exits
        if end is None and not exits:
            exits = frame.errors[-1:]
            if not exits:
                return before, UNKNOWN
        value: Bits | None = None
        for one in reversed(exits):
            joined = join_states(end, one.state, one.conditions)
            value = one.value if value is None else join_bits(value, one.value, one.conditions)
            end = joined
        assert end is not None  # noqa: S101
        prefix = f"L.{frame.number}."
        return {k: v for k, v in end.items() if not k.startswith(prefix)}, value or UNKNOWN

    # -- statements ----------------------------------------------------------------------------

    def _statement(self, node: Node, state: State) -> State | None:
        self._steps += 1
        if self._steps > _MAX_STEPS:
            raise OutOfSteps
        kind = node.type
        if kind == "compound_statement":
            return self._block(node.named_children, state)
        if kind == "expression_statement":
            for child in node.named_children:
                self._value(child, state)
            return state
        if kind == "declaration":
            self._declaration(node, state)
            return state
        if kind == "if_statement":
            return self._if(node, state)
        if kind == "else_clause":
            return self._block(node.named_children, state)
        if kind in ("for_statement", "while_statement", "do_statement"):
            return self._loop(node, state)
        if kind == "switch_statement":
            return self._switch(node, state)
        if kind == "return_statement":
            self._return(node, state)
            return None
        if kind == "goto_statement":
            self._goto(node, state)
            return None
        if kind == "labeled_statement":
            return self._label(node, state)
        if kind in ("break_statement", "continue_statement"):
            frame = self._stack[-1]
            if frame.breaks:
                frame.breaks[-1].append(state)
                return None
            return state
        if kind.endswith("expression") or kind == "ERROR":
            for child in node.named_children if kind == "ERROR" else [node]:
                if child.type.endswith("expression"):
                    self._value(child, state)
            return state
        return state

    def _block(self, nodes: Iterable[Node], state: State | None) -> State | None:
        for node in nodes:
            if state is None:
                if self._has_label(node):
                    state = self._revive(node)
                continue
            state = self._statement(node, state)
        return state

    def _has_label(self, node: Node) -> bool:
        return node.type == "labeled_statement" and bool(
            self._stack[-1].jumps.get(text_of(node.child_by_field_name("label")))
        )

    def _revive(self, node: Node) -> State | None:
        jumps = self._stack[-1].jumps.pop(text_of(node.child_by_field_name("label")))
        state: State | None = None
        for jump in jumps:
            state = join_states(state, jump.state, jump.conditions)
        return self._block(_label_body(node), state)

    def _label(self, node: Node, state: State) -> State | None:
        jumps = self._stack[-1].jumps.pop(text_of(node.child_by_field_name("label")), [])
        joined: State | None = state
        for jump in jumps:
            joined = join_states(joined, jump.state, jump.conditions)
        return self._block(_label_body(node), joined)

    def _declaration(self, node: Node, state: State) -> None:
        for child in node.named_children:
            if child.type != "init_declarator":
                continue
            value = child.child_by_field_name("value")
            if value is None:
                continue
            bits = self._value(value, state)
            name = declared_name(child.child_by_field_name("declarator"))
            if name and (bits.have or bits.is_complement):
                state[f"L.{self._stack[-1].number}.{name}"] = bits
            target = self._address(value)
            if name and target is not None:
                self._stack[-1].aliases[name] = target
            self._remember_origin(name, value)

    def _if(self, node: Node, state: State) -> State | None:
        condition = node.child_by_field_name("condition")
        then = node.child_by_field_name("consequence")
        other = node.child_by_field_name("alternative")
        if condition is None or then is None:
            return state
        self._value(condition, state)
        truth = self.constants.value(condition)
        if truth is not None:
            branch = then if truth else other
            return self._statement(branch, state) if branch is not None else state
        conditions = self._conditions(condition)
        path = self._stack[-1].path
        path.append((conditions, is_error_check(condition)))
        frame = self._stack[-1]
        failures = len(frame.errors)
        first = self._statement(then, dict(state))
        second = self._statement(other, dict(state)) if other is not None else state
        path.pop()
        if (first is None or second is None) and len(frame.errors) == failures:
            frame.passed |= conditions
        return join_states(first, second, conditions)

    def _conditions(self, node: Node) -> Conditions:
        """Return what a condition states.

        Whether there is a net_device at all does not count, nor whether a callback is set: the
        tables that set it say so.
        """
        tested = node.named_children[0] if node.type == "parenthesized_expression" else node
        if tested.type == "unary_expression":
            tested = tested.child_by_field_name("argument") or tested
        if tested.type in ("identifier", "field_expression") and self.is_net_device(tested):
            return ALWAYS
        if tested.type == "field_expression":
            name = text_of(tested.child_by_field_name("field"))
            if any(
                not called_by_kernel(struct) for struct, _, _ in self.index.candidates.get(name, ())
            ):
                return ALWAYS
        return conditions_of(node, self.ignored, self._stack[-1].origins)

    def _loop(self, node: Node, state: State) -> State | None:
        for name in ("initializer", "condition"):
            part = node.child_by_field_name(name)
            if part is not None:
                if part.type == "declaration":
                    self._declaration(part, state)
                else:
                    self._value(part, state)
        body = node.child_by_field_name("body")
        if body is None:
            return state
        frame = self._stack[-1]
        frame.breaks.append([])
        end = self._statement(body, dict(state))
        for early in frame.breaks.pop():
            end = join_states(end, early, ALWAYS)
        return join_states(end, state, ALWAYS)

    def _switch(self, node: Node, state: State) -> State | None:
        condition = node.child_by_field_name("condition")
        body = node.child_by_field_name("body")
        if condition is None or body is None:
            return state
        self._value(condition, state)
        cases = [child for child in body.named_children if child.type == "case_statement"]
        defaults = [case for case in cases if case.child_by_field_name("value") is None]
        if len(cases) == 2 and len(defaults) == 1:
            # A switch with one case beside the default tests the only kind there is.
            cases = [case for case in cases if case not in defaults]
            defaults = cases
        conditions = conditions_of(condition, self.ignored)
        frame = self._stack[-1]
        frame.breaks.append([])
        frame.path.append((conditions, False))
        falling: State | None = None
        for case in cases:
            value = case.child_by_field_name("value")
            entry = join_states(falling, dict(state), conditions)
            falling = self._block([c for c in case.named_children if c != value], entry)
        frame.path.pop()
        ends = [*frame.breaks.pop(), *([falling] if falling is not None else [])]
        joined: State | None = None if defaults else state
        for end in ends:
            joined = join_states(joined, end, conditions)
        return joined

    def _return(self, node: Node, state: State) -> None:
        frame = self._stack[-1]
        value = node.named_children[0] if node.named_children else None
        bits = self._value(value, state) if value is not None else EMPTY
        leaving = Exit(state, frame.conditions(), bits)
        text = text_of(value).strip() if value is not None else ""
        is_error = bool(_ERROR_RETURN.fullmatch(text)) and not _NOT_SUPPORTED.fullmatch(text)
        if (
            frame.in_error_branch()
            and re.fullmatch(r"\w+", text)
            and text not in ("0", "true", "false")
        ):
            is_error = True
        (frame.errors if is_error else frame.exits).append(leaving)

    def _goto(self, node: Node, state: State) -> None:
        frame = self._stack[-1]
        label = text_of(node.child_by_field_name("label"))
        leaving = Exit(state, frame.conditions(), UNKNOWN)
        if _ERROR_LABEL.search(label) or frame.in_error_branch():
            frame.errors.append(leaving)
        else:
            frame.jumps.setdefault(label, []).append(leaving)


def _label_body(node: Node) -> list[Node]:
    label = node.child_by_field_name("label")
    return [child for child in node.named_children if child != label]
