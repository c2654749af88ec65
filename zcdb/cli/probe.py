"""`zcdb probe`: what this machine is, and what it can run."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from zcdb.runner.probe import Ability, Probe

LABEL_COLUMNS = 34
MOST_LISTED = 6
"""Facts with more values than this are counted, not listed; --json has them all."""


@click.command("probe")
@click.option(
    "--interface",
    "interfaces",
    multiple=True,
    metavar="NAME",
    help="Network interface to look at; may be repeated.  [default: those that are up]",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
def probe_command(interfaces: tuple[str, ...], as_json: bool) -> None:
    """Print what this machine is and what it can and cannot run, with the reasons.

    Tries things out and takes them back: no setting is changed, no traffic
    sent.  Host name, serial number and hardware addresses are printed as hashes,
    so the output may be shown around; 'zcdb import' reads it as an environment.

    \b
    Example:
        zcdb probe --interface eth0 --json > server.json
    """
    from zcdb.errors import UsageError
    from zcdb.runner.probe import interfaces_up, probe

    known = [name for _, name in socket.if_nameindex()]
    unknown = [name for name in interfaces if name not in known]
    if unknown:
        raise UsageError(
            f"there is no interface {unknown[0]} here; there are {', '.join(known)}",
            hint="'ip link' lists the interfaces of this network namespace.",
        )
    found = probe(interfaces or interfaces_up())
    if as_json:
        click.echo(json.dumps(found.to_json(), indent=2, ensure_ascii=False))
    else:
        click.echo("\n".join(probe_lines(found)))


def probe_lines(found: Probe) -> Iterator[str]:
    """Yield the lines of the report."""
    from zcdb.runner.probe import KINDS

    yield "This machine"
    yield from _fact_lines(found.facts)
    cards = _cards(found.facts)
    for name, card in zip(found.interfaces, cards, strict=True):
        yield from _card_lines(name, card)
    yield from _reading_lines(found.readings)
    for kind, heading in KINDS.items():
        abilities = [ability for ability in found.abilities if ability.kind == kind]
        if abilities:
            yield ""
            yield heading
            yield from _ability_lines(abilities, is_short=kind == "setting")


def _line(label: str, value: object) -> str:
    return f"  {label:<{LABEL_COLUMNS}} {value}"


def _fact_lines(facts: Mapping[str, Any]) -> Iterator[str]:
    from zcdb import units

    kernel, cpu = facts["kernel"], facts["cpu"]
    topology = cpu["topology"]
    yield _line("kernel", f"{kernel['release']} {kernel['machine']}")
    yield _line("CPU", f"{cpu['model']}, {topology['cores']} cores, CPUs {topology['online']}")
    yield _line("SMT, governor, turbo", _known(topology["smt"], cpu["governor"], _turbo(cpu)))
    memory = facts["memory_bytes"]
    yield _line("memory", units.format_size(memory) if memory else "not known")
    yield _line("NUMA nodes", topology["numa_nodes"] or "not known")
    yield _line("clock source", facts["clock_source"] or "not known")
    machine = facts["virtualisation"]
    yield _line("virtual machine", "yes" if machine["hypervisor_flag"] else "no sign of it")
    off = [name for name, state in cpu["mitigations"].items() if state.startswith("Vulnerable")]
    yield _line("mitigations missing", ", ".join(off) or "none")


def _cards(facts: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [facts["interface"], *facts.get("more_interfaces", {}).values()]


def _turbo(cpu: Mapping[str, Any]) -> str | None:
    turbo = cpu["frequency"]["turbo"]
    return None if turbo is None else f"turbo {turbo}"


def _known(*values: str | None) -> str:
    return ", ".join(value for value in values if value) or "not known"


def _card_lines(name: str, card: Mapping[str, Any]) -> Iterator[str]:
    from zcdb import units

    speed = units.format_bps(card["link_speed_bps"]) if card["link_speed_bps"] else "speed unknown"
    yield _line(
        name,
        f"{_known(card['driver'], card['model'], card['firmware'])}, {speed}, MTU {card['mtu']}",
    )
    bus = card["bus"]
    if bus is not None and bus["speed"]:
        now, most = (f"{bus[f'speed{end}']} x{bus[f'width{end}']}" for end in ("", "_max"))
        yield _line("  bus", f"{now} of at most {most}")
    features = card["features"] or {}
    on = [name for name, state in features.items() if state.startswith("on")]
    if features:
        yield _line("  features", f"{len(on)} of {len(features)} on; --json lists them")


def _reading_lines(readings: Mapping[str, Any]) -> Iterator[str]:
    bandwidth = readings["memory_bandwidth"]
    if bandwidth["reason"] is None:
        read, write = (bandwidth[f"{way}_bytes_per_s"] / 1e9 for way in ("read", "write"))
        text = f"{read:.1f} GB/s read, {write:.1f} GB/s written, by one core"
    else:
        text = f"not measured: {bandwidth['reason']}"
    yield _line("memory bandwidth", text)
    yield _line(
        "load average, irqbalance", f"{readings['load_average_1min']}, {_irqbalance(readings)}"
    )


def _irqbalance(readings: Mapping[str, Any]) -> str:
    return "running" if readings["irqbalance_runs"] else "not running"


def _ability_lines(abilities: list[Ability], *, is_short: bool) -> Iterator[str]:
    if not is_short:
        for ability in abilities:
            word = "yes" if ability.reason is None else "no"
            rest = ability.note if ability.reason is None else ability.reason
            yield _line(ability.name, f"{word:<4}{rest}".rstrip())
        return
    there = sum(ability.reason is None for ability in abilities)
    yield _line("can be changed", f"{there} of {len(abilities)}")
    reasons: dict[str, list[str]] = {}
    for ability in abilities:
        if ability.reason is not None:
            named = reasons.setdefault(ability.reason, [])
            if ability.name not in named:
                named.append(ability.name)
    for reason, names in sorted(reasons.items(), key=lambda entry: -len(entry[1])):
        listed = ", ".join(names) if len(names) <= MOST_LISTED else f"{len(names)} of them"
        yield f"    {listed}: {reason}"
