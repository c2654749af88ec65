"""The form of an experiment file: pydantic models, built from the registry of factors.

What one key may hold is here, with the JSON Schema that follows from it.
What several keys mean together is in `checks`, what stands on the screen
when something is wrong in `problems`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PrivateAttr,
    ValidationInfo,
    WithJsonSchema,
    create_model,
    model_validator,
)

from zcdb import factors, units
from zcdb.experiment.fields import factor_fields, no_default, one_or_more, one_value
from zcdb.experiment.words import did_you_mean
from zcdb.factors import FACTORS, FactorValue
from zcdb.ids import Json, canonical_json
from zcdb.metrics import METRICS
from zcdb.records import ExperimentText

LARGEST_SEED = 2**31 - 1
DEFAULT_METRICS = ("service_demand_sender", "throughput")

Point = dict[str, FactorValue]
"""Values of some factors, spelled as `zcdb.factors.normalise` spells them."""

_CONFIG = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a text; put it in quotes")
    if not value.strip():
        raise ValueError("must not be empty")
    return value.strip()


def _name(value: object) -> str:
    name = _text(value)
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,79}", name):
        raise ValueError(
            f"{value!r} is not a name; write lower-case letters, digits, '-', '_' or '.',"
            " at most 80, for it becomes part of an address"
        )
    return name


def _whole(minimum: int, maximum: int) -> BeforeValidator:
    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"{value!r} is not a whole number")
        if not minimum <= value <= maximum:
            raise ValueError(f"{value!r} must be at least {minimum} and at most {maximum}")
        return value

    return BeforeValidator(read)


def _duration(shortest: str, longest: str = "24h") -> BeforeValidator:
    def read(value: object) -> int:
        if not isinstance(value, str):
            raise ValueError(f"{value!r} is not a duration; write a number with ms, s, m or h")
        duration_ns = units.parse_duration(value)
        if not units.parse_duration(shortest) <= duration_ns <= units.parse_duration(longest):
            raise ValueError(f"{value!r} must be at least {shortest} and at most {longest}")
        return duration_ns

    return BeforeValidator(read)


def _ratio(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"{value!r} is not a ratio; write 0.02 or '2%'")
    ratio = units.parse_ratio(value)
    if not 0 < ratio < 1:
        raise ValueError(f"{value!r} must be above 0 and below 1 (100 %)")
    return ratio


def _metric(value: object) -> str:
    if not isinstance(value, str) or value not in METRICS:
        raise ValueError(f"unknown metric {value!r}" + did_you_mean(str(value), METRICS))
    if METRICS[value].better == "neither":
        raise ValueError(f"{value!r} cannot be compared: neither more nor less of it is better")
    return value


class _StatedFactors(BaseModel):
    """A model with one optional field a factor."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def stated(self) -> dict[str, Any]:
        """Return what the file states, in the order of the registry."""
        values = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: value for name, value in values.items() if value is not None}


_AS_IT_IS = PlainSerializer(lambda value: value)

if TYPE_CHECKING:
    LinkKind = str
    PointField = Point
    RuleField = dict[str, tuple[FactorValue, ...]]
    FactorsField = dict[str, tuple[Point, ...]]
else:
    LinkKind = one_value(FACTORS["link"])
    PointField = Annotated[
        create_model("Values", __base__=_StatedFactors, **factor_fields(one_value)),
        AfterValidator(_StatedFactors.stated),
        _AS_IT_IS,
    ]
    RuleField = Annotated[
        create_model("Exclusion", __base__=_StatedFactors, **factor_fields(one_or_more)),
        AfterValidator(_StatedFactors.stated),
        _AS_IT_IS,
    ]

    class _FactorsForm(_StatedFactors):
        """Factors with their levels, and groups: levels that set several factors at once."""

        model_config = ConfigDict(extra="allow", frozen=True)
        __pydantic_extra__: dict[
            str,
            Annotated[tuple[PointField, ...], Field(min_length=1)],
        ]

        def axes(self) -> dict[str, tuple[Point, ...]]:
            """Return what varies: factors in the order of the registry, then groups by name."""
            stated = {
                name: tuple({name: level} for level in levels)
                for name, levels in self.stated().items()
            }
            return stated | dict(sorted(self.__pydantic_extra__.items()))

    FactorsField = Annotated[
        create_model("Factors", __base__=_FactorsForm, **factor_fields(one_or_more)),
        AfterValidator(_FactorsForm.axes),
        _AS_IT_IS,
    ]


_DURATION_SCHEMA = WithJsonSchema(
    {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?\s*(ns|us|µs|ms|s|m|min|h)$"}
)


class Link(BaseModel):
    """What is between the two ends."""

    model_config = _CONFIG

    kind: LinkKind = "loopback"
    """loopback, or veth: a pair of virtual interfaces between two network namespaces."""


class Measure(BaseModel):
    """How often and how long."""

    model_config = _CONFIG

    repetitions: Annotated[int, _whole(1, 100_000)] = 5
    """Trials of each case; three are needed for an interval."""
    duration_ns: Annotated[int, _duration("100ms"), _DURATION_SCHEMA] = Field(
        2 * 10**9, alias="duration", json_schema_extra={"default": "2s"}
    )
    """Length of the measuring window."""
    discard_ns: Annotated[int, _duration("0ms"), _DURATION_SCHEMA] = Field(
        300 * 10**6, alias="discard", json_schema_extra={"default": "300ms"}
    )
    """Time between the first bytes and the window: the ramp, left out of all metrics alike."""
    sample_ns: Annotated[int, _duration("10ms"), _DURATION_SCHEMA] = Field(
        100 * 10**6, alias="sample", json_schema_extra={"default": "100ms"}
    )
    """Distance of the readings inside the window."""
    bracket_ns: Annotated[int, _duration("50ms"), _DURATION_SCHEMA] = Field(
        500 * 10**6, alias="bracket", json_schema_extra={"default": "500ms"}
    )
    """Idle time before and after each trial that calibrates the CPU methods."""
    seed: Annotated[int, _whole(0, LARGEST_SEED)] = Field(0, json_schema_extra=no_default)
    """Seed of the order of the trials; made from the name where it is not stated."""


class Compare(BaseModel):
    """What the answer is about."""

    model_config = _CONFIG

    baseline: PointField = Field(default_factory=dict)
    """What every other case is compared with: values of factors that vary."""
    metrics: Annotated[
        tuple[
            Annotated[str, BeforeValidator(_metric), WithJsonSchema({"enum": sorted(METRICS)})], ...
        ],
        Field(min_length=1),
    ] = DEFAULT_METRICS
    """Metrics that get a verdict."""
    matters: Annotated[
        float, BeforeValidator(_ratio), WithJsonSchema({"type": ["string", "number"]})
    ] = 0.02
    """Differences below this are called equivalent: a ratio (0.02) or a percentage ("2%")."""


class Experiment(BaseModel):
    """An experiment file of zcdb: a question, what varies, how it is measured and compared."""

    model_config = ConfigDict(**_CONFIG, title="zcdb experiment file")

    name: Annotated[str, BeforeValidator(_name)]
    """Lower-case name; it becomes part of the result's address."""
    question: Annotated[str, BeforeValidator(_text)]
    """What the experiment asks, in one sentence."""
    factors: FactorsField = Field(default_factory=dict)
    """What varies: every combination of the levels is a case."""
    fixed: PointField = Field(default_factory=dict)
    """Constants: factors with one value in all cases."""
    link: Link = Field(default_factory=lambda: Link.model_validate({}))
    """What is between sender and receiver."""
    exclude: tuple[RuleField, ...] = ()
    """Combinations to leave out."""
    measure: Measure = Field(default_factory=lambda: Measure.model_validate({}))
    """How often and how long."""
    compare: Compare = Field(default_factory=lambda: Compare.model_validate({}))
    """What the answer is about."""

    _source: str = PrivateAttr("")

    @model_validator(mode="before")
    @classmethod
    def _seed_from_name(cls, data: Any) -> Any:
        """State the seed that follows from the name where the file has none."""
        if not isinstance(data, Mapping) or not isinstance(data.get("name"), str):
            return data
        measure = data.get("measure", {})
        if not isinstance(measure, Mapping):
            return data
        return {**data, "measure": {"seed": seed_of(data["name"]), **measure}}

    @model_validator(mode="after")
    def _keep_source(self, info: ValidationInfo) -> Experiment:
        self._source = (info.context or {}).get("source", "")
        return self

    def resolved(self) -> dict[str, Json]:
        """Return the file as understood, so that files that mean the same are the same.

        A factor with one level is a constant.  Constants at the default of
        the registry are left out, as they are from ids: a factor added to
        the registry later does not change what an old file means.
        """
        constants = dict(self.fixed)
        for levels in self.factors.values():
            if len(levels) == 1:
                constants |= levels[0]
        return {
            "name": self.name,
            "question": self.question,
            "factors": {
                axis: [level[axis] if axis in FACTORS else level for level in levels]
                for axis, levels in self.factors.items()
                if len(levels) > 1
            },
            "fixed": factors.without_defaults(constants),
            "link": {"kind": self.link.kind},
            "exclude": sorted(
                ({name: list(values) for name, values in rule.items()} for rule in self.exclude),
                key=canonical_json,
            ),
            "measure": self.measure.model_dump(),
            "compare": {
                "baseline": self.compare.baseline,
                "metrics": list(self.compare.metrics),
                "matters": self.compare.matters,
            },
        }

    def record(self) -> ExperimentText:
        """Return the experiment as the record that is stored with every run of it."""
        return ExperimentText(
            name=self.name, question=self.question, text=self._source, resolved=self.resolved()
        )


def seed_of(name: str) -> int:
    """Return the seed of an experiment that states none: made from its name, for ever."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4]) % (LARGEST_SEED + 1)
