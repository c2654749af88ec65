"""What a query asks for: filters, metrics and factors, read as experiment files are.

What no name or value can hold is refused before any page looks at it: PostgreSQL takes no NUL in a
text, and SQLite would find nothing.
"""

from __future__ import annotations

from flask import Flask, request
from werkzeug.exceptions import BadRequest

from zcdb import factors
from zcdb.factors import FactorValue
from zcdb.metrics import CPU_METHODS, HEADLINE_CPU_METHOD, METRICS


def _refuse_nul() -> None:
    for name, text in [("the path", request.path), *request.values.items(multi=True)]:
        if "\0" in f"{name}{text}":
            raise BadRequest(f"{name!r} holds a NUL character, which no name or value has.")


def init_app(app: Flask) -> None:
    """Hook the check into an application."""
    app.before_request(_refuse_nul)


def filter_names() -> tuple[str, ...]:
    """Return the factors that the query names, and all that have a name of their own."""
    return tuple(dict.fromkeys([*factors.FACTORS, *(n for n in request.args if factors.find(n))]))


def read_filters() -> dict[str, tuple[FactorValue, ...]]:
    """Return factor -> values of the query.

    Raises:
        BadRequest: for a value that its factor does not take.
    """
    found: dict[str, tuple[FactorValue, ...]] = {}
    for name in filter_names():
        values = [text for text in request.args.getlist(name) if text]
        if values:
            found[name] = tuple(dict.fromkeys(_value(name, text) for text in values))
    return found


def _value(name: str, text: str) -> FactorValue:
    try:
        return factors.normalise_published(name, text)
    except ValueError as error:
        raise BadRequest(f"{name}: {error}.") from None


def read_metric(text: str) -> tuple[str, str]:
    """Return metric and method of "service_demand_sender:soak".

    Raises:
        BadRequest: if there is no such metric or method.
    """
    name, _, method = text.partition(":")
    if name not in METRICS:
        raise BadRequest(f"There is no metric {name!r}.")
    if not METRICS[name].has_method:
        return name, ""
    if method and method not in CPU_METHODS:
        raise BadRequest(f"There is no CPU method {method!r}.")
    return name, method or HEADLINE_CPU_METHOD


def read_factor(name: str) -> str:
    """Return the name of a factor, or "" if none is named.

    Raises:
        BadRequest: if there is no such factor.
    """
    if name and factors.find(name) is None:
        raise BadRequest(f"There is no factor {name!r}.")
    return name
