"""The tables of an experiment file besides its factors: link, measure, compare.

Keys that came after the first files stay out of the resolved form where a
file does not state them, so that the id of an old file stays the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from zcdb.experiment import readers
from zcdb.experiment.fields import no_default, one_value
from zcdb.experiment.points import LinkKind, Point, PointField
from zcdb.factors import FACTORS
from zcdb.ids import Json

LARGEST_SEED = 2**31 - 1
DEFAULT_METRICS = ("service_demand_sender", "throughput")
SEARCHABLE = [
    factor.name
    for factor in FACTORS.values()
    if factor.is_declared and factor.type in ("size", "integer") and factor.name != "twin"
]
"""Factors along which a crossover can be searched: those that are numbers."""

LEAST_FOR_INTERVAL = 3
"""Repetitions that an interval needs; what follows from them is `zcdb.stats`'."""

CONFIG = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

Ratio = Annotated[float, BeforeValidator(readers.ratio), readers.RATIO_SCHEMA]
MetricName = Annotated[str, BeforeValidator(readers.metric), readers.METRIC_SCHEMA]

if TYPE_CHECKING:
    Api = str
else:
    Api = one_value(FACTORS["api"])


class Host(BaseModel):
    """One end of a hosts link."""

    model_config = CONFIG

    ssh: Annotated[str, BeforeValidator(readers.ssh_name)]
    """Name that `ssh` knows the machine by; "localhost" without ssh is written as "." here."""
    interface: Annotated[str, BeforeValidator(readers.text)]
    """Interface that the data goes through."""
    address: Annotated[str, BeforeValidator(readers.text)] = ""
    """Address on that interface; its first one where it is not stated."""


class Link(BaseModel):
    """What is between the two ends."""

    model_config = CONFIG

    kind: LinkKind = "loopback"
    """loopback; veth: virtual interfaces between two network namespaces; or hosts: two machines."""
    rate_bps: Annotated[int, BeforeValidator(readers.rate)] | None = Field(
        None, alias="rate", json_schema_extra=no_default
    )
    """Rate that a token bucket holds the sender's interface to, "1gbit"; the factor link_rate."""
    mtu: Annotated[int, readers.whole(68, 2**31 - 1)] | None = Field(
        None, json_schema_extra=no_default
    )
    """Bytes of the largest packet at both ends; the factor mtu."""
    interfaces: Annotated[int, readers.whole(1, 16)] = 1
    """Interfaces of each end that the streams are spread over."""
    sender: Annotated[Host, Field(json_schema_extra=no_default)] | None = None
    """hosts: where the sender runs."""
    receiver: Annotated[Host, Field(json_schema_extra=no_default)] | None = None
    """hosts: where the receiver runs."""
    ports: Annotated[str, BeforeValidator(readers.port_range)] = ""
    """Range of the data ports, "5300-5399"; the system's choice where it is not stated."""

    def factors(self) -> Point:
        """Return what the link states as factors."""
        stated: Point = {"link": self.kind}
        if self.rate_bps is not None:
            stated["link_rate"] = self.rate_bps
        if self.mtu is not None:
            stated["mtu"] = self.mtu
        if self.interfaces != 1:
            stated["interfaces"] = self.interfaces
        return stated

    def resolved(self) -> dict[str, Json]:
        """Return what the file states beyond the defaults."""
        stated = self.model_dump(exclude_defaults=True, by_alias=True)
        return {"kind": self.kind, **stated}


class Until(BaseModel):
    """Repeat until the intervals are narrow enough: declared before, and paid for in width."""

    model_config = CONFIG

    metric: MetricName = DEFAULT_METRICS[0]
    """Metric whose intervals are watched."""
    half_width: Ratio
    """Half width that is narrow enough: of the ratio of every comparison or, where nothing is
    compared, of the mean of every case."""
    at_least: Annotated[int, readers.whole(5, 100_000)] = 6
    """Repetitions before the first look."""
    at_most: Annotated[int, readers.whole(5, 100_000)] = 30
    """Repetitions after which to stop in any case; the plan has as many."""


class Measure(BaseModel):
    """How often and how long."""

    model_config = CONFIG

    repetitions: Annotated[int, readers.whole(1, 100_000)] = 5
    """Trials of each case; three are needed for an interval."""
    until: Until | None = Field(None, json_schema_extra=no_default)
    """Instead of repetitions: go on until the intervals are narrow enough."""
    aa: Annotated[
        int, BeforeValidator(readers.twins), WithJsonSchema({"type": ["boolean", "integer"]})
    ] = Field(1, json_schema_extra={"default": True})
    """Cases that get a twin, the same case once more in every block: how often are they found to
    differ?  true is one, false is none."""
    duration_ns: Annotated[int, readers.duration("100ms"), readers.DURATION_SCHEMA] = Field(
        2 * 10**9, alias="duration", json_schema_extra={"default": "2s"}
    )
    """Length of the measuring window."""
    discard_ns: Annotated[int, readers.duration("0ms"), readers.DURATION_SCHEMA] = Field(
        300 * 10**6, alias="discard", json_schema_extra={"default": "300ms"}
    )
    """Time between the first bytes and the window: the ramp, left out of all metrics alike."""
    sample_ns: Annotated[int, readers.duration("10ms"), readers.DURATION_SCHEMA] = Field(
        100 * 10**6, alias="sample", json_schema_extra={"default": "100ms"}
    )
    """Distance of the readings inside the window."""
    bracket_ns: Annotated[int, readers.duration("50ms"), readers.DURATION_SCHEMA] = Field(
        500 * 10**6, alias="bracket", json_schema_extra={"default": "500ms"}
    )
    """Idle time before and after each trial that calibrates the CPU methods."""
    rest_ns: Annotated[int, readers.duration("0ms", "1h"), readers.DURATION_SCHEMA] = Field(
        0, alias="rest", json_schema_extra={"default": "0ms"}
    )
    """Rest before each trial, for machines and networks that remember earlier load."""
    seed: Annotated[int, readers.whole(0, LARGEST_SEED)] = Field(0, json_schema_extra=no_default)
    """Seed of the order of the trials; made from the name where it is not stated."""

    @property
    def blocks(self) -> int:
        """The number of blocks that are planned: repetitions, or the most that `until` allows."""
        return self.repetitions if self.until is None else self.until.at_most

    @property
    def twins(self) -> int:
        """The number of cases that get a twin: none where no interval can be made."""
        return self.aa if self.blocks >= LEAST_FOR_INTERVAL else 0

    def resolved(self) -> dict[str, Json]:
        """Return how the file measures."""
        stated: dict[str, Json] = self.model_dump()
        del stated["until" if self.until is None else "repetitions"]
        for key in ("aa", "rest_ns"):
            if stated[key] == type(self).model_fields[key].default:
                del stated[key]
        return stated


class Crossover(BaseModel):
    """Search where one of two APIs begins to be better: sizes are added where they tell most."""

    model_config = CONFIG

    factor: Annotated[
        str, BeforeValidator(readers.one_of(SEARCHABLE)), WithJsonSchema({"enum": SEARCHABLE})
    ] = "message_size"
    """Factor along which to search, from its smallest declared level to its largest."""
    between: tuple[Api, Api]
    """The two APIs."""
    metric: MetricName = DEFAULT_METRICS[0]
    """Metric by which one is better than the other."""
    within: Ratio = 0.1
    """Search until the two ends of what is undecided are as close as this."""
    at_most: Annotated[int, readers.whole(3, 100)] = 10
    """Levels to measure at most, the declared ones included."""


class Compare(BaseModel):
    """What the answer is about."""

    model_config = CONFIG

    baseline: PointField = Field(default_factory=dict)
    """What every other case is compared with: values of factors that vary."""
    metrics: Annotated[
        tuple[MetricName, ...],
        Field(min_length=1),
    ] = DEFAULT_METRICS
    """Metrics that get a verdict."""
    matters: Ratio = 0.02
    """Differences below this are called equivalent: a ratio (0.02) or a percentage ("2%")."""
    crossover: Crossover | None = Field(None, json_schema_extra=no_default)
    """Search the level from which on another API is the better one."""

    def resolved(self) -> dict[str, Json]:
        """Return what is compared."""
        stated: dict[str, Json] = {
            "baseline": self.baseline,
            "metrics": list(self.metrics),
            "matters": self.matters,
        }
        if self.crossover is not None:
            stated["crossover"] = self.crossover.model_dump(mode="json")
        return stated
