"""Combinations of factor values in an experiment file: models made from the registry of factors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    create_model,
)

from zcdb.experiment.fields import SETTING_TABLES, factor_fields, one_or_more, one_value
from zcdb.factors import FACTORS, FactorValue

Point = dict[str, FactorValue]
"""Values of some factors, spelled as `zcdb.factors.normalise` spells them."""


class _StatedFactors(BaseModel):
    """A model with one optional field a factor, and one a family of settings."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def stated(self) -> dict[str, Any]:
        """Return what the file states, in the order of the registry; dotted names last."""
        stated: dict[str, Any] = {}
        dotted: dict[str, Any] = {}
        for name in type(self).model_fields:
            value = getattr(self, name)
            if name in SETTING_TABLES:
                dotted |= value or {}
            elif value is not None:
                stated[name] = value
        return stated | dict(sorted(dotted.items()))


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
        create_model(
            "Exclusion", __base__=_StatedFactors, **factor_fields(one_or_more, is_list=True)
        ),
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
        create_model("Factors", __base__=_FactorsForm, **factor_fields(one_or_more, is_list=True)),
        AfterValidator(_FactorsForm.axes),
        _AS_IT_IS,
    ]
