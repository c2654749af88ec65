"""Fields of the form that follow from the registry of factors: how each is read, and its schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from zcdb import factors
from zcdb.experiment.words import nearest
from zcdb.factors import FACTORS, Factor, FactorValue

LARGEST_INTEGER = 2**63 - 1

DECLARABLE = [factor for factor in FACTORS.values() if factor.is_declared and factor.name != "link"]
"""Factors that [factors], [fixed], [[exclude]] and baseline know; the link has its own table."""

Annotation = Any
"""A type made at run time, which type checkers cannot know."""


def as_list(value: object) -> object:
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


def factor_fields(annotate: Callable[[Factor], Annotation]) -> dict[str, Any]:
    """Return the optional fields of a model with one field a factor."""
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
