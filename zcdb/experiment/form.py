"""The form of an experiment file as a whole; its tables are in `sections` and `points`.

What one key may hold is in `readers` and in the registry of factors, with the
JSON Schema that follows from it.  What several keys mean together is in
`checks`, what stands on the screen when something is wrong in `problems`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationInfo,
    model_validator,
)

from zcdb import factors
from zcdb.experiment import readers
from zcdb.experiment.points import FactorsField, Point, PointField, RuleField
from zcdb.experiment.sections import (
    CONFIG,
    LARGEST_SEED,
    Compare,
    Crossover,
    Host,
    Link,
    Measure,
    Until,
)
from zcdb.factors import FACTORS
from zcdb.ids import Json, canonical_json
from zcdb.records import ExperimentText

__all__ = [
    "LARGEST_SEED",
    "Compare",
    "Crossover",
    "Experiment",
    "Host",
    "Link",
    "Measure",
    "Point",
    "Until",
    "seed_of",
]


class Experiment(BaseModel):
    """An experiment file of zcdb: a question, what varies, how it is measured and compared."""

    model_config = ConfigDict(**CONFIG, title="zcdb experiment file")

    name: Annotated[str, BeforeValidator(readers.name)]
    """Lower-case name; it becomes part of the result's address."""
    question: Annotated[str, BeforeValidator(readers.text)]
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
            "link": self.link.resolved(),
            "exclude": sorted(
                ({name: list(values) for name, values in rule.items()} for rule in self.exclude),
                key=canonical_json,
            ),
            "measure": self.measure.resolved(),
            "compare": self.compare.resolved(),
        }

    def record(self) -> ExperimentText:
        """Return the experiment as the record that is stored with every run of it."""
        return ExperimentText(
            name=self.name, question=self.question, text=self._source, resolved=self.resolved()
        )


def seed_of(name: str) -> int:
    """Return the seed of an experiment that states none: made from its name, for ever."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4]) % (LARGEST_SEED + 1)
