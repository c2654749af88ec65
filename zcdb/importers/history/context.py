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
    SWITCH_FACTORS,
    SWITCHES,
    End,
)
from zcdb.importers.published import published_factors


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
    where both ends share a host; elsewhere the documents mean the NIC's interrupts.  What the
    source is silent about is "unstated", never zcdb's default.
    """
    ends: tuple[End, ...] = ENDS_OF_ROLE.get(str(context.get("role")), ())
    found: dict[str, Any] = {**_workload(ends, context), **_tuning(context), **stated}
    for end in ends:
        found |= _machine(end, context)
        if "link_bps" in context:
            found[f"{end}_link_speed"] = context["link_bps"]
    peer = context.get("peer")
    if isinstance(peer, Mapping) and len(ends) == 1:
        found |= _machine("sender" if ends == ("receiver",) else "receiver", peer)
    spelled: dict[str, factors.FactorValue] = {}
    for name, value in found.items():
        if name not in factors.FACTORS:
            place.fail(f"unknown factor {name!r}", "factors")
        try:
            spelled[name] = factors.normalise(name, value)
        except ValueError as error:
            place.fail(f"{name}: {error}", name)
    return published_factors(spelled)


def _workload(ends: tuple[End, ...], context: Mapping[str, Json]) -> dict[str, Any]:
    found: dict[str, Any] = {
        name: context[key]
        for key, name in (("streams", "streams"), ("rsize", "rsize"), ("wsize", "wsize"))
        if key in context
    }
    api = str(context.get("api"))
    if API_FACTORS.get(api):
        found["api"] = API_FACTORS[api]
    if api == "request-response":
        found["test"] = "rr"
    if "chunk_bytes" in context:
        found["receive_size" if ends == ("receiver",) else "message_size"] = context["chunk_bytes"]
    if "tool" in context:
        found["tool"] = context["tool"]
    if "protocol" in context:
        found["protocol"] = "udp" if "UDP" in str(context["protocol"]) else None
        found["protocol"] = found["protocol"] or ("tcp" if context["protocol"] == "TCP" else None)
    if context.get("link") == "loopback":
        found["link"] = "loopback"
        if "pinning" in context:
            found["pinning"] = context["pinning"]
    elif "link" in context or "link_bps" in context:
        found["link"] = "hosts"
    return {name: value for name, value in found.items() if value is not None}


def _tuning(context: Mapping[str, Json]) -> dict[str, Any]:
    found: dict[str, Any] = {
        SWITCH_FACTORS[key]: context[key] for key in SWITCHES if key in context
    }
    if "tcp_cork" in found:
        found["tcp_cork"] = found["tcp_cork"] == "on"
    if str(context.get("lro", "")).startswith("on"):
        found["receiver.lro" if "receiver" in str(context["lro"]) else "lro"] = "on"
    for key in ("mtu", "irq_placement"):
        if key in context:
            found[key] = context[key]
    buffers = context.get("socket_buf")
    if isinstance(buffers, Mapping):
        found |= {
            name: buffers[key]
            for key, name in (("send", "sndbuf"), ("recv", "rcvbuf"))
            if key in buffers
        }
    sysctls = context.get("sysctls")
    if isinstance(sysctls, Mapping):
        for key, value in sysctls.items():
            found |= _sysctl_factors(str(key), value)
    return found


def _sysctl_factors(key: str, value: Json) -> dict[str, Any]:
    """Return a sysctl as factors; `*mem_max/default` is how one document writes four of them."""
    if key == "net.core.*mem_max/default":
        names = [f"net.core.{way}mem_{which}" for way in "rw" for which in ("max", "default")]
        return {f"sysctl.{name}": str(value) for name in names}
    short = key.removeprefix("net.ipv4.")
    return {short if short in ("tcp_wmem", "tcp_rmem") else f"sysctl.{key}": str(value)}


def _machine(end: End, context: Mapping[str, Json]) -> dict[str, Any]:
    found = {key: context[key] for key in ("nic", "driver") if key in context}
    patch = context.get("patch", "vanilla")
    kernel = context.get("kernel", "" if patch == "vanilla" else "unstated")
    if kernel:
        found["kernel"] = kernel if patch == "vanilla" else f"{kernel}+{patch}"
    if "os" in context and not str(context["os"]).startswith("Linux"):
        found["os"] = context["os"]
    cpu = context.get("cpu")
    if isinstance(cpu, Mapping):
        found |= {
            name: cpu[key] for key, name in (("model", "cpu"), ("count", "cpus")) if key in cpu
        }
    if "ram" in context:
        found["memory"] = context["ram"]
    return {f"{end}_{key}": value for key, value in found.items()}
