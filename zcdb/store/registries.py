"""The tables `factors` and `metrics`, written from the registries in the code.

Names only widen: a name that this zcdb does not know stays, because rows of
another version may refer to it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, select

from zcdb.factors import FACTORS
from zcdb.metrics import METRICS
from zcdb.store.models import FactorRow, MetricRow
from zcdb.store.upsert import upsert


def _factor_rows() -> list[dict[str, Any]]:
    return [
        {
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
        for position, factor in enumerate(FACTORS.values())
    ]


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


def write(connection: Connection) -> None:
    """Write the registries of the code over what the tables hold."""
    upsert(connection, FactorRow, _factor_rows())
    upsert(connection, MetricRow, _metric_rows())
