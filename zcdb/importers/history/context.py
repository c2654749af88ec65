"""The circumstances of a historic cell: stated, deduced, and in the words of the registry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zcdb import factors
from zcdb.ids import Json
from zcdb.importers.history.place import Place, Table
from zcdb.importers.history.records import Inferred
from zcdb.importers.history.vocabulary import (
    API_FACTORS,
    CONTEXT_TYPES,
    CPU_METHODS,
    ENDS_OF_ROLE,
    SUBTABLES,
    SWITCHES,
    End,
)


def read_context(place: Place, table: Table) -> dict[str, Json]:
    """Return what is stated about a cell, checked against the known keys and words."""
    place.check_keys(table, (*CONTEXT_TYPES, *SWITCHES), "context")
    for key in table:
        if key in SWITCHES:
            place.choice(table, key, ("on", "off"))
        else:
            place.take(table, key, CONTEXT_TYPES[key])
        if key in SUBTABLES:
            _subtable(place, key, table[key])
    for key, words in (("api", API_FACTORS), ("cpu_method", CPU_METHODS), ("role", ENDS_OF_ROLE)):
        if key in table:
            place.choice(table, key, words)
    return dict(table)


def _subtable(place: Place, name: str, table: Table) -> None:
    place.check_keys(table, SUBTABLES[name], name)
    for key in table:
        place.take(table, key, SUBTABLES[name][key])
    if name == "peer" and "cpu" in table:
        _subtable(place, "cpu", table["cpu"])


def read_inferred(place: Place, table: Table, context: Mapping[str, Json]) -> dict[str, Inferred]:
    """Return what was deduced about a cell; nothing that is stated may be inferred as well."""
    place.check_keys(table, (*CONTEXT_TYPES, *SWITCHES, "cpu.count"), "inferred")
    found = {}
    for key, entry in table.items():
        place.check_keys(entry, ("value", "undecided", "why"), f"inferred.{key}")
        if ("value" in entry) == (entry.get("undecided") is True):
            place.fail(f"inferred.{key} needs a value or undecided = true", key)
        name, _, part = key.partition(".")
        stated = context.get(name)
        if (stated.get(part) if part and isinstance(stated, dict) else stated) is not None:
            place.fail(f"{key} is stated and cannot be inferred as well", key)
        if "value" in entry and not part:
            read_context(place, {key: entry["value"]})
        elif "value" in entry:
            place.take(entry, "value", int)
        found[key] = Inferred(entry.get("value"), place.take(entry, "why", str))
    return found


def registry_factors(
    place: Place, context: Mapping[str, Json], stated: Mapping[str, Any]
) -> dict[str, factors.FactorValue]:
    """Return what the registry of factors knows of a context, in its spelling.

    A patched kernel is another kernel: its patch is part of the name.  Pinning is a factor only
    where both ends share a host; elsewhere the documents mean the NIC's interrupts.
    """
    ends: tuple[End, ...] = ENDS_OF_ROLE.get(str(context.get("role")), ())
    found: dict[str, Any] = dict(stated)
    api = API_FACTORS.get(str(context.get("api")))
    if api:
        found["api"] = api
    if "chunk_bytes" in context:
        found["receive_size" if ends == ("receiver",) else "message_size"] = context["chunk_bytes"]
    if "streams" in context:
        found["streams"] = context["streams"]
    if context.get("tcp_cork"):
        found["tcp_cork"] = context["tcp_cork"] == "on"
    if context.get("link") == "loopback":
        found["link"] = "loopback"
        if "pinning" in context:
            found["pinning"] = context["pinning"]
    for end in ends:
        found |= _machine(end, context)
    peer = context.get("peer")
    if isinstance(peer, Mapping) and len(ends) == 1:
        found |= _machine("sender" if ends == ("receiver",) else "receiver", peer)
    spelled: dict[str, factors.FactorValue] = {}
    for name in factors.FACTORS:
        if name in found:
            try:
                spelled[name] = factors.normalise(name, found[name])
            except ValueError as error:
                place.fail(f"{name}: {error}", name)
    if unknown := set(found) - set(spelled):
        place.fail(f"unknown factor {sorted(unknown)[0]!r}", "factors")
    return spelled


def _machine(end: End, context: Mapping[str, Json]) -> dict[str, Any]:
    found = {key: context[key] for key in ("nic", "driver") if key in context}
    patch = context.get("patch", "vanilla")
    kernel = context.get("kernel", "" if patch == "vanilla" else "unstated")
    if kernel:
        found["kernel"] = kernel if patch == "vanilla" else f"{kernel}+{patch}"
    cpu = context.get("cpu")
    if isinstance(cpu, Mapping) and "model" in cpu:
        found["cpu"] = cpu["model"]
    return {f"{end}_{key}": value for key, value in found.items()}
