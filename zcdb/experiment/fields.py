"""Fields of the form that follow from the registry of factors: how each is read, and its schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from zcdb import factors
from zcdb.experiment.words import nearest
from zcdb.factors import FACTORS, Factor, FactorValue

LARGEST_INTEGER = 2**63 - 1

DECLARABLE = [factor for factor in FACTORS.values() if factor.is_declared and factor.name != "link"]
"""Factors that [factors], [fixed], [[exclude]] and baseline know; the link has its own table."""

SETTING_TABLES = {
    "feature": "Features of the interfaces at both ends, by the names of 'ethtool -k'.",
    "coalescing": "Interrupt coalescing of the interfaces at both ends.",
    "ring": "Descriptors of the interfaces' rings at both ends.",
    "channels": "Queues of the interfaces at both ends.",
    "sysctl": "Sysctls of both ends' network namespaces.",
    "sender": "Settings of the sender's machine alone.",
    "receiver": "Settings of the receiver's machine alone.",
}
"""Tables in which settings with dotted names stand: `ring.rx = 512`, `sender.sg = false`."""

Annotation = Any
"""A type made at run time, which type checkers cannot know."""


def as_list(value: object) -> Sequence[object]:
    """Return a value that stands alone as a list of one."""
    return value if isinstance(value, list | tuple) else [value]


def one_value(factor: Factor) -> Annotation:
    """Return the annotated type of one value of `factor`."""

    def read(value: object) -> FactorValue:
        if factor.type == "choice" and isinstance(value, str) and value not in factor.choices:
            near = nearest(value, factor.choices)
            meant = f"; did you mean {near!r}?" if near else ""
            raise ValueError(f"{value!r} is not one of {', '.join(factor.choices)}{meant}")
        known = factors.normalise(factor.name, value)
        if isinstance(known, int) and known > LARGEST_INTEGER:
            raise ValueError(f"{value!r} must be at most {LARGEST_INTEGER}")
        return known

    return Annotated[Any, BeforeValidator(read), WithJsonSchema(_value_schema(factor))]


def _value_schema(factor: Factor) -> dict[str, Any]:
    if factor.type == "choice":
        return {"enum": list(factor.choices)}
    if factor.type == "boolean":
        return {"type": "boolean"}
    if factor.type == "integer":
        schema = {"type": "integer", "minimum": factor.minimum, "maximum": factor.maximum}
        return {key: value for key, value in schema.items() if value is not None}
    if factor.name == "pinning":
        cpus = {"type": "string", "pattern": "^[0-9,-]+$"}
        table = {
            "type": "object",
            "properties": {"sender": cpus, "receiver": cpus},
            "required": ["sender", "receiver"],
            "additionalProperties": False,
        }
        return {"anyOf": [{"enum": ["none", "same", "separate"]}, table]}
    if factor.name == "working_set":
        size = {"type": ["integer", "string"]}
        counts = {"type": "integer", "minimum": 1}
        table = {
            "type": "object",
            "properties": {"files": counts, "mean_size": size, "passes": counts},
            "required": ["files", "mean_size"],
            "additionalProperties": False,
        }
        return {"anyOf": [size, table]}
    return {"type": "string"} if factor.type == "text" else {"type": ["integer", "string"]}


def _factor_help(factor: Factor) -> str:
    if factor.default is None:
        return f"{factor.help} No default: every case needs one."
    return f"{factor.help} Default: {factors.display(factor.name, factor.default)}."


def no_default(schema: dict[str, Any]) -> None:
    """Take out of a JSON Schema a default that TOML cannot state."""
    schema.pop("default", None)


def _settings_below(prefix: str, value: object) -> Iterator[tuple[str, object]]:
    """Yield dotted name and value of all that stands in a table, also in tables inside it."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{value!r} is not a table; write {prefix}.KEY = VALUE")
    for key, inner in value.items():
        name = f"{prefix}.{key}"
        if isinstance(inner, Mapping):
            yield from _settings_below(name, inner)
        elif name not in FACTORS:
            raise ValueError(f"{name!r} is not a setting that zcdb knows; see docs/settings.md")
        else:
            yield name, inner


def _setting_table(prefix: str, is_list: bool) -> Annotation:
    """Return the annotated type of a table of settings: dotted name -> value or values."""

    def one(name: str, value: object) -> FactorValue:
        try:
            return factors.normalise(name, value)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None

    def read(value: object) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, stated in _settings_below(prefix, value):
            levels = [one(name, level) for level in as_list(stated)] if is_list else []
            if is_list and not levels:
                raise ValueError(f"{name}: needs at least one value")
            found[name] = tuple(levels) if is_list else one(name, stated)
        return found

    return Annotated[Any, BeforeValidator(read), WithJsonSchema({"type": "object"})]


def factor_fields(
    annotate: Callable[[Factor], Annotation], *, is_list: bool = False
) -> dict[str, Any]:
    """Return the optional fields of a model with one field a factor, and the settings' tables."""
    return _fields_of_factors(annotate) | {
        name: (
            _setting_table(name, is_list),
            Field(default=None, description=help, json_schema_extra=no_default),
        )
        for name, help in SETTING_TABLES.items()
    }


def _fields_of_factors(annotate: Callable[[Factor], Annotation]) -> dict[str, Any]:
    return {
        factor.name: (
            annotate(factor),
            Field(
                default=None,
                title=factor.label,
                description=_factor_help(factor),
                json_schema_extra=no_default,
            ),
        )
        for factor in DECLARABLE
    }


def one_or_more(factor: Factor) -> Annotation:
    """Return the annotated type of one value or a list of values of `factor`."""
    one = _value_schema(factor)
    schema = {"anyOf": [one, {"type": "array", "items": one, "minItems": 1}]}
    value: Annotation = one_value(factor)
    return Annotated[
        tuple[value, ...],
        Field(min_length=1),
        BeforeValidator(as_list),
        WithJsonSchema(schema),
    ]
