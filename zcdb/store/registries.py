"""The tables `factors` and `metrics`, written from the registries in the code.

Names only widen: a name that this zcdb does not know stays, because rows of
another version may refer to it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, select
from sqlalchemy.orm import Session

from zcdb.factors import ABSENT, FACTORS, Factor
from zcdb.metrics import METRICS
from zcdb.store.models import FactorRow, MetricRow
from zcdb.store.upsert import insert_new, upsert

_POSITION_OF_SETTINGS = 10_000
"""Place of settings with a dotted name: behind all that the registry lists."""


def _factor_row(factor: Factor, position: int) -> dict[str, Any]:
    return {
        "name": factor.name,
        "position": position,
        "kind": factor.kind,
        "type": factor.type,
        "label": factor.label,
        "help": factor.help,
        "default_json": json.dumps(factor.default),
        "follows": factor.follows,
        "aliases_json": json.dumps(factor.aliases),
    }


def _factor_rows() -> list[dict[str, Any]]:
    return [_factor_row(factor, position) for position, factor in enumerate(FACTORS.values())]


def add_settings(db: Session, names: Iterable[str]) -> None:
    """Write those of the factors `names` that the registry knows by rule and does not list."""
    listed = dict.fromkeys(FACTORS)
    rows = [
        _factor_row(FACTORS[name], _POSITION_OF_SETTINGS) for name in names if name not in listed
    ]
    insert_new(db, FactorRow, rows)


def _metric_rows() -> list[dict[str, Any]]:
    return [
        {
            "name": metric.name,
            "position": position,
            "label": metric.label,
            "unit": metric.unit,
            "better": metric.better,
            "has_method": metric.has_method,
            "end": metric.end,
            "help": metric.help,
            "formula": metric.formula,
        }
        for position, metric in enumerate(METRICS.values())
    ]


def _stored(
    connection: Connection, row_class: type[FactorRow | MetricRow]
) -> list[Mapping[str, Any]]:
    return [dict(row) for row in connection.execute(select(row_class.__table__)).mappings()]


def are_current(connection: Connection) -> bool:
    """Return whether every factor and metric of the code stands in its table as it is now."""
    factors, metrics = _stored(connection, FactorRow), _stored(connection, MetricRow)
    return all(row in factors for row in _factor_rows()) and all(
        row in metrics for row in _metric_rows()
    )


def write(connection: Connection) -> bool:
    """Write the registries of the code over what the tables hold.

    Returns:
        whether what is derived of the stored cases is out of date: a factor that old cases have
        at its default is new, or a comparison along a factor leaves out other ones.
    """
    before = {row["name"]: row for row in _stored(connection, FactorRow)}
    rows = _factor_rows()
    upsert(connection, FactorRow, rows)
    upsert(connection, MetricRow, _metric_rows())
    return bool(before) and any(
        (row["default_json"], row["follows"]) != _meaning(before.get(row["name"])) for row in rows
    )


def _meaning(row: Mapping[str, Any] | None) -> tuple[str | None, str | None]:
    """Return the default and the leader of a stored factor; of an unknown one: absent."""
    return (row["default_json"], row["follows"]) if row else (json.dumps(ABSENT), None)
