"""The founding tables: every cell against expected values, the arithmetic, and what is refused.

`data/history/expected.json` holds figures, units, ids, context and flags of the 167 cells and of
the authors' conclusions, in the vocabulary of the list they were collected in.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from decimal import ROUND_DOWN, Decimal
from pathlib import Path
from typing import Any

import pytest

from zcdb.factors import UNSTATED
from zcdb.flags import FLAGS, SOURCE_FLAGS
from zcdb.importers import history
from zcdb.importers.history import HistoricCell, HistoricValue, HistoryError
from zcdb.metrics import METRICS

HERE = Path(__file__).parent
FILES = {
    path.name: path.read_text(encoding="utf-8")
    for path in sorted((HERE.parent / "runs" / "history").glob("*.toml"))
}
EXPECTED = json.loads((HERE / "data" / "history" / "expected.json").read_text(encoding="utf-8"))
HISTORY = history.read(FILES)
CELLS = {cell.id: cell for cell in HISTORY.cells}
OUR_WORDS = {"workload", "pinning_detail"}
"""Context keys that hold sentences of zcdb, which are not among the expected values."""


def _figures(value: HistoricValue) -> Any:
    numbers = [float(figure) for figure in value.stated]
    return numbers[0] if len(numbers) == 1 else numbers


def _stated(cell: HistoricCell, metric: str) -> Any:
    value = cell.value(metric)
    return None if value is None else _figures(value)


def _mean_sd(cell: HistoricCell, metric: str) -> dict[str, float] | None:
    value = cell.value(metric)
    if value is None or value.sd is None:
        return None
    return {"mean": _figures(value), "stddev": float(value.sd)}


def _without_none(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if value is not None}


def _throughput(cell: HistoricCell) -> dict[str, Any] | None:
    value = cell.value("throughput")
    if value is None:
        return None
    rate = None
    elapsed = cell.value("elapsed")
    if cell.group == "morton-nfs-cp-client" and elapsed is not None:
        file_size_bytes = cell.context["file_size_bytes"]
        rate = int(Decimal(str(file_size_bytes)) * 8 / elapsed.stated[0])
    return _without_none(
        {
            "value": _figures(value),
            "unit": value.unit,
            "unit_evident": value.unit_evident if "unit-mislabelled" in cell.flags else None,
            "qualifier": value.qualifier,
            "bps": value.value,
            "bps_if_binary_prefix": value.other_low,
            "bps_of_sum": value.sum,
            "bps_from_bytes_and_time": rate,
            "occasional_value": float(value.occasional) if value.occasional else None,
            "stddev": float(value.sd) if value.sd is not None else None,
            "column": value.column,
            "column_line": value.heading_line,
            "line": value.line or cell.source.lines[0],
        }
    )


def _other(cell: HistoricCell) -> dict[str, Any] | None:
    metrics = (
        "memory_write_bandwidth",
        "memory_read_bandwidth",
        "disk_block_write",
        "average_rx_packet_size",
        "tx_frame_size",
    )
    for value in cell.values:
        if value.metric in metrics:
            rate = value.base_unit == "byte/s"
            return _without_none(
                {
                    "metric": value.metric,
                    "value": _figures(value),
                    "unit": value.unit,
                    "bytes_per_s": value.value if rate else None,
                    "bytes_per_s_if_binary_prefix": value.other_low,
                }
            )
    return None


def _perf(cell: HistoricCell) -> dict[str, Any] | None:
    counters: dict[str, Any] = {
        name: {key: float(figure) for key, figure in entry.items()}
        for name, entry in cell.counters.items()
    }
    if "seconds_elapsed" in counters:
        counters["seconds_elapsed"] = counters["seconds_elapsed"]["value"]
    return counters or None


def _as_listed(cell: HistoricCell) -> dict[str, Any]:
    """Return a cell in the shape and vocabulary of the expected values."""
    samples = [sample for value in cell.values for sample in map(float, value.samples)]
    service_demand = {end: _stated(cell, f"service_demand_{end}") for end in ("sender", "receiver")}
    cycles = {cpu: _mean_sd(cell, f"cycles_{cpu}") for cpu in ("cpu0", "cpu1")}
    latency = {p: _mean_sd(cell, f"latency_{p}") for p in ("p50", "p90", "p95", "p99")}
    change = cell.relative and [float(cell.relative.low_pct), float(cell.relative.high_pct)]
    return _without_none(
        {
            "id": cell.id,
            "kind": cell.kind,
            "group": cell.group,
            "author": cell.source.author,
            "date_iso": cell.source.date.isoformat() if cell.source.date else None,
            "date_line": cell.source.date_line,
            "subject": cell.source.subject,
            "text": HISTORY.documents[cell.source.document].text,
            "line": list(cell.source.lines),
            "context": {k: v for k, v in cell.context.items() if k not in OUR_WORDS},
            "throughput": _throughput(cell),
            "elapsed_s": _stated(cell, "elapsed"),
            "cpu_pct_sender": _stated(cell, "utilisation_sender"),
            "cpu_pct_receiver": _stated(cell, "utilisation_receiver"),
            "service_demand_us_per_kb": _without_none(service_demand) or None,
            "cycles_per_byte": _mean_sd(cell, "cycles_per_byte_sender"),
            "gcycles": _without_none(cycles) or None,
            "tps": _mean_sd(cell, "transaction_rate"),
            "latency_us": _without_none(latency) or None,
            "perf": _perf(cell),
            "interrupts_per_s": _stated(cell, "interrupt_rate"),
            "packets_per_s": _stated(cell, "packet_rate"),
            "interrupts_per_packet": _stated(cell, "interrupts_per_packet"),
            "other": _other(cell),
            "samples": samples or None,
            "change_pct_stated": float(cell.change_pct_stated) if cell.change_pct_stated else None,
            "relative": _without_none(
                {
                    "change_pct": change[0] if change[0] == change[1] else change,
                    "qualifier": cell.relative.qualifier if cell.relative else None,
                }
            )
            if change
            else None,
            "resolved": sorted(cell.resolved),
            "inferred": {k: v.value for k, v in cell.inferred.items() if k != "workload"},
            "flags": list(cell.flags),
            "relations": sorted([r.type, r.id or "", r.line or 0] for r in cell.relations),
        }
    )


@pytest.mark.parametrize("expected", EXPECTED["cells"], ids=lambda cell: cell["id"])
def test_a_cell_has_its_values_units_context_and_flags(expected):
    expected = _without_none(expected)
    expected["relations"] = sorted([a, b or "", c or 0] for a, b, c in expected["relations"])
    expected["flags"] = sorted(expected["flags"])

    listed = _as_listed(CELLS[expected["id"]])

    listed["flags"] = sorted(listed["flags"])
    assert listed == expected


def test_every_group_has_all_its_cells():
    expected = Counter(cell["group"] for cell in EXPECTED["cells"])

    found = Counter(cell.group for cell in HISTORY.cells)

    assert found == expected
    assert len(HISTORY.cells) == 167


def test_tables_come_in_the_order_of_their_documents():
    documents = [cell.source.document for cell in HISTORY.cells]
    first_lines = {}
    for cell in HISTORY.cells:
        first_lines.setdefault((cell.source.document, cell.group), cell.source.lines[0])

    assert list(dict.fromkeys(documents)) == list(HISTORY.documents)
    lines = [line for (document, _), line in first_lines.items() if document == documents[0]]
    assert lines == sorted(lines)


def test_every_flag_has_a_sentence():
    used = {flag for cell in HISTORY.cells for flag in cell.flags}

    assert used <= set(FLAGS)


def test_the_manual_lists_every_flag():
    manual = (HERE.parent / "docs" / "history.md").read_text(encoding="utf-8")

    used = {flag for cell in HISTORY.cells for flag in cell.flags}
    for code, sentence in SOURCE_FLAGS.items():
        assert code in used or code in ("withdrawn", "bimodal-throughput")
        assert f"| `{code}` | {sentence} |" in manual


def test_metrics_of_the_registry_have_its_units():
    shared = set(history.BASE_UNITS) & set(METRICS)

    assert {name: history.BASE_UNITS[name] for name in shared} == {
        name: METRICS[name].unit for name in shared
    }
    assert {"throughput", "utilisation_sender", "service_demand_receiver"} <= shared


@pytest.mark.parametrize("expected", EXPECTED["conclusions"], ids=lambda entry: entry["id"])
def test_a_conclusion_is_recomputed_from_the_cells(expected):
    conclusion = next(entry for entry in HISTORY.conclusions if entry.id == expected["id"])
    document = HISTORY.documents[conclusion.document]

    computed = history.recompute(conclusion, HISTORY.cells)

    assert (conclusion.author, list(conclusion.lines)) == (expected["author"], expected["line"])
    assert document.text == expected["text"]
    figures = [float(n) for entry in computed for n in (entry.from_stated, entry.to_stated)]
    for entry in expected["computed"]:
        if "from_id" in entry:
            found = next(
                one
                for one in computed
                if (one.comparison.from_id, one.comparison.to_id)
                == (entry["from_id"], entry["to_id"])
                and float(one.from_stated) == entry["from_value"]
            )
            assert float(found.to_stated) == entry["to_value"]
            assert round(found.change_pct, 1) == entry["change_pct"]
        elif "min_of" in entry:
            assert (computed[0].at, float(computed[0].to_stated)) == (
                entry["chunk_bytes"],
                entry["value"],
            )
        elif "pair" in entry:
            assert set(entry["values"]) <= set(figures)
        elif "difference_points" in entry:
            assert float(computed[0].difference) == entry["difference_points"]
            assert computed[0].unit == "%"
        else:
            assert figures == entry["cycles_per_byte"]
    if not expected["computed"]:
        assert computed == []


def test_ten_percent_cheaper_is_fourteen():
    entry = next(
        item
        for item in history.conclusions_as_json(HISTORY)
        if item["id"] == "sendfile-vs-rw-vanilla"
    )

    assert entry["claimed_pct"] == [-10]
    assert round(entry["cells_say"][0]["change_pct"], 1) == -14.2
    assert entry["verdict"] == "rounded"


def test_the_superseded_typo_takes_part_in_no_comparison():
    ids = {cell.id for cell in history.comparable(HISTORY.cells)}

    assert "badulescu-throughput-typo" not in ids
    assert "badulescu-throughput" in ids
    assert history.exclusion(CELLS["badulescu-throughput-typo"]) == "a later mail corrects it"
    assert CELLS["badulescu-throughput-typo"].value("throughput").value == 92_000


def test_only_cells_that_can_be_compared_are():
    left_out = Counter(
        history.exclusion(cell) for cell in HISTORY.cells if history.exclusion(cell) is not None
    )

    assert len(history.comparable(HISTORY.cells)) == 150
    assert sum(left_out.values()) == 17
    assert left_out["only a change is stated, no figure"] == 8
    assert history.exclusion(CELLS["morton-ttcp-top-reading"]).startswith("the author disowns")


def test_a_disowned_cpu_figure_is_not_compared_and_the_throughput_beside_it_is():
    cell = next(
        cell for cell in history.comparable(HISTORY.cells) if cell.id == "jamal-acenic-vanilla-nsf"
    )

    assert [value.metric for value in cell.values] == ["throughput"]
    assert CELLS[cell.id].value("utilisation_sender").stated == (Decimal(87),)


def test_a_conclusion_cannot_rest_on_a_superseded_figure():
    text = FILES["conclusions.toml"] + (
        '\n[[conclusions]]\nid = "x"\ndocument = "lkml-2001-zerocopy"\nauthor = "nobody"\n'
        'line = 1\nclaim = "The link got faster."\nverdict = "agrees"\ncompare = [{ metric ='
        ' "throughput", from = "badulescu-throughput-typo", to = "badulescu-throughput" }]\n'
    )
    tables = history.read({**FILES, "conclusions.toml": text})

    with pytest.raises(HistoryError, match="no single comparable throughput"):
        history.recompute(tables.conclusions[-1], tables.cells)


def test_a_percentage_becomes_cpus_only_where_the_cpu_count_is_stated():
    dual = CELLS["morton-3c905c-zc-send"].value("utilisation_sender")
    laptop = CELLS["morton-3ccfe575ct-zc-sendfile"].value("utilisation_sender")
    peer = CELLS["drew-myri10ge-sendfile-patch-tso"].value("utilisation_receiver")
    unknown = CELLS["morton-xfersize-8192"].value("utilisation_sender")

    assert (dual.value, dual.base_unit) == (0.482, "CPUs")
    assert (peer.value, peer.base_unit) == (1.2022, "CPUs")
    assert (laptop.value, laptop.base_unit, laptop.cpus_by_inference) == (18.2, "%", (0.182,))
    assert (unknown.value, unknown.base_unit, unknown.cpus_by_inference) == (16, "%", ())


def test_service_demands_recompute_with_1024_bytes_and_all_cpus():
    for cell in HISTORY.cells:
        for end in ("sender", "receiver"):
            demand = cell.value(f"service_demand_{end}")
            load = cell.value(f"utilisation_{end}")
            if demand is None:
                continue
            cpus = load.value if load.base_unit == "CPUs" else load.cpus_by_inference[0]
            kb_per_s = cell.value("throughput").value / 8 / 1024
            # netperf prints a load with two digits after the point: the demand is as exact as that
            tolerance = 0.0005 + 0.00005 * 24 * 1e6 / kb_per_s
            assert cpus * 1e6 / kb_per_s == pytest.approx(demand.value, abs=tolerance)
    assert sum(c.value("service_demand_sender") is not None for c in HISTORY.cells) == 7


def test_cycles_per_byte_recompute_from_both_cpus_if_the_heading_is_wrong():
    for cell in HISTORY.cells:
        if cell.group != "poirier-nocache-stream":
            continue
        cycles = [cell.value(f"cycles_{cpu}") for cpu in ("cpu0", "cpu1")]
        total = sum(value.value for value in cycles if value is not None)
        payload_bytes = cell.value("throughput").value * cell.context["duration_s"] / 8

        assert total / payload_bytes == pytest.approx(
            cell.value("cycles_per_byte_sender").value, abs=0.002
        )


def test_printed_changes_are_the_recomputed_ones_cut_off():
    cells = [cell for cell in HISTORY.cells if cell.change_pct_stated is not None]

    for cell in cells:
        pair = next(relation.id for relation in cell.relations if relation.type == "pair")
        before = CELLS[pair].value("throughput").stated[0]
        change = (cell.value("throughput").stated[0] / before - 1) * 100
        assert change.quantize(Decimal("0.01"), ROUND_DOWN) == cell.change_pct_stated
    assert len(cells) == 9


def test_a_sum_over_iterations_is_normalised_to_one_and_a_sum_over_cases_is_not():
    row = CELLS["kumar-iperf-1p-256-org"].value("throughput")
    total = CELLS["kumar-iperf-total-org"].value("throughput")

    assert (row.value, row.sum, row.sum_of) == (419_600_000, 2_098_000_000, 5)
    assert (total.value, total.sum, total.reason) == (None, 600_071_000_000, "a sum over 36 cases")


def test_a_figure_keeps_the_digits_it_was_printed_with():
    assert CELLS["drew-myri10ge-sendfile-rhel"].value("throughput").stated_text == (
        "9333.00 10^6bits/s"
    )
    assert (
        CELLS["badulescu-zcc-starfire-zc-readwrite"].value("utilisation_sender").stated_text
        == "18.3-29.6 %"
    )
    assert (
        CELLS["poirier-stream-irq0-np0-nocache-off"].value("cycles_per_byte_sender").stated_text
        == "0.80 ± 0.01 cycles/byte"
    )
    assert CELLS["beattie-udp-ttcp"].value("throughput").stated_text == "> 100 MByte/s"


def test_what_the_registry_knows_is_spelled_its_way():
    zerocopy = CELLS["morton-3ccfe575ct-zc-readwrite"].factors
    loopback = CELLS["morton-loopback-same-vanilla-send"].factors
    receiver = CELLS["morton-ttcpsf-zerocopy-receiver"].factors
    freebsd = CELLS["drew-myri10ge-sendfile-patch-tso"].factors

    assert zerocopy["api"] == "read_write"
    assert zerocopy["sender_kernel"] == "2.4.1-pre10+zerocopy"
    assert (zerocopy["message_size"], zerocopy["link"]) == (UNSTATED, "hosts")
    assert (loopback["link"], loopback["pinning"]) == ("loopback", "same")
    assert loopback["receiver_kernel"] == loopback["sender_kernel"] == "2.4.1"
    assert (receiver["receive_size"], "api" in receiver) == (32768, False)
    assert (freebsd["sndbuf"], freebsd["receiver_cpu"]) == (393216, "AMD Athlon 64 X2 3800+")
    assert (freebsd["pinning"], freebsd["tso"], freebsd["receiver.lro"]) == (UNSTATED, True, True)
    assert freebsd["sender_os"] == "FreeBSD/amd64"


def test_two_rows_with_other_kernels_differ_in_their_factors():
    rows = [CELLS[f"kumar-iperf-1p-4K-{name}"].factors for name in ("org", "new")]

    differing = {name for name in rows[0] | rows[1] if rows[0].get(name) != rows[1].get(name)}

    assert differing == {"sender_kernel"}


def test_cpu_figures_name_the_method_that_comes_nearest():
    methods = {
        cell_id: CELLS[cell_id].value("utilisation_sender").method
        for cell_id in (
            "morton-3c905c-zc-send",
            "jamal-acenic-zc-sf",
            "drew-myri10ge-sendfile-rhel",
            "morton-ttcp-top-reading",
        )
    }

    assert list(methods.values()) == ["soak_work", "rusage", "procstat", "rusage"]


def test_json_has_stated_and_normalised_values_and_keeps_inferred_ones_apart():
    listed = {item["id"]: item for item in json.loads(json.dumps(history.as_json(HISTORY)))}

    assert set(listed) == {cell["id"] for cell in EXPECTED["cells"]}
    cell = listed["morton-3ccfe575ct-vanilla-sendfile"]
    throughput, cpu = cell["values"]
    assert (throughput["stated"], throughput["unit"]) == (11.5, "mbytes/sec")
    assert (throughput["normalised"], throughput["base_unit"]) == (92_000_000, "bit/s")
    assert throughput["other_reading"] == 96_468_992
    assert (cpu["stated"], cpu["base_unit"], cpu["cpus_by_inference"]) == (29.6, "%", 0.296)
    assert "sg" not in cell["context"]
    assert cell["inferred"]["sg"]["value"] == "off"
    assert cell["source"]["date"] == "2001-01-27T16:45:43+11:00"
    assert cell["comparable"] is True
    assert listed["badulescu-throughput-typo"]["comparable"] is False
    assert listed["badulescu-throughput-typo"]["flags"] == ["typo", "superseded"]


DOCUMENTS = """
[documents.mail]
title = "A mail"
published = "a list"
text = "mail.txt"
lines = 100
sha256 = "00"
"""
TABLE = """\
group = "small"
title = "A small table"
kind = "cell"

[source]
document = "mail"
author = "Nobody"

[context]
kernel = "2.4.1"
role = "sender"
cpu_method = "cycle soaker"

[columns.throughput]
unit = "MB/s"
reading = "decimal"
why = "it is said so"

[columns.utilisation_sender]
unit = "%"

[with.write]
context = { api = "write" }

[[cells]]
id = "small-a"
line = 7
with = ["write"]
throughput = { stated = 10, normalised = 80_000_000, other_reading = 83_886_080 }
utilisation_sender = 50
inferred = { "cpu.count" = { value = 1, why = "it is small" } }

[[cells]]
id = "small-b"
line = [8, 9]
with = ["write"]
utilisation_sender = [20, 30]
flags = ["noisy"]
relations = [{ type = "retest-of", id = "small-a" }]
"""


def _read(table: str) -> history.History:
    return history.read({"documents.toml": DOCUMENTS, "runs/history/small.toml": table})


def test_a_small_table_is_read():
    tables = _read(TABLE)

    assert [cell.id for cell in tables.cells] == ["small-a", "small-b"]
    assert tables.cells[1].value("utilisation_sender").value is None
    assert tables.cells[1].value("utilisation_sender").high == 30


@pytest.mark.parametrize(
    ("old", "new", "at", "message"),
    [
        ("line = 7", "line = 7\ncolour = 1", "colour", "unknown key 'colour'"),
        ("kernel =", "kernle =", "kernle", "unknown key 'context.kernle'"),
        ('"MB/s"', '"MB"', '"MB"', "unknown unit 'MB'"),
        ('"MB/s"', '"us"', '"us"', "throughput is in bit/s, which 'us' is not"),
        ('reading = "decimal"\n', "", "[[cells]]", "reading is missing"),
        ('"decimal"', '"binary"', '"binary"', "reading is 'binary', not one of decimal"),
        ("80_000_000", "80_000_001", "80_000_001", "must be 80000000 bit/s, got 80000001"),
        ("83_886_080", "80_000_001", "80_000_001", "other_reading must be 83886080 bit/s, got"),
        (
            'unit = "MB/s"',
            'unit = "MB/s"\nsum_of = 0',
            "sum_of",
            "sum_of must be at least 1, got 0",
        ),
        (", normalised = 80_000_000", "", "83_886_080", "must be 80000000 bit/s, got 10"),
        ('"noisy"', '"loud"', '"loud"', "unknown flag 'loud'"),
        ('author = "Nobody"\n', "", "[[cells]]", "author is missing"),
        ('document = "mail"', 'document = "letter"', '"letter"', "'letter', not one of mail"),
        ("line = 7", "line = 101", "101", "line 101 is beyond the end of mail"),
        ("line = 7\n", "", "[[cells]]", "line must be a line or [first, last], got None"),
        ('with = ["write"]', 'with = ["read"]', '"read"', "there is no [with.read]"),
        ('"small-b"', '"small-a"', None, "cell small-a occurs 2 times"),
        ('id = "small-a" }]', 'id = "small-c" }]', None, "names small-c, which does not exist"),
        ('group = "small"', 'group = "large"', "large", "must stand in large.toml"),
        ('api = "write"', 'api = "writ"', '"writ"', "api is 'writ', not one of"),
        ('cpu_method = "cycle soaker"\n', "", "= 50", "needs a cpu_method in the context"),
        ("= 50", "= nan", "nan", "a finite number, got NaN"),
        ("= 50", '= "50"', '= "50"', "must be a number, got '50'"),
        ("[20, 30]", "[30, 20]", "[30, 20]", "a number or [low, high], got [30, 20]"),
        ("flags = [", "flags = 3 #", "flags", "flags must be a list, got 3"),
        ("kind =", "kind", None, "not TOML"),
    ],
)
def test_a_table_that_is_wrong_is_refused_with_file_and_line(old, new, at, message):
    assert old in TABLE
    table = TABLE.replace(old, new, 1)

    with pytest.raises(HistoryError) as caught:
        _read(table)

    assert message in caught.value.message
    if at:
        line = next(n for n, text in enumerate(table.splitlines(), 1) if at in text)
        assert caught.value.message.startswith(f"runs/history/small.toml:{line}: ")


def test_what_is_stated_cannot_be_inferred_as_well():
    table = TABLE.replace('role = "sender"', 'role = "sender"\ncpu = { count = 1 }')
    table = table.replace("utilisation_sender = 50", "", 1)

    with pytest.raises(HistoryError, match=r"cpu\.count is stated and cannot be inferred"):
        _read(table)


def test_two_sets_of_a_cell_may_not_differ():
    table = TABLE.replace("[[cells]]", '[with.send]\ncontext = { api = "send" }\n\n[[cells]]', 1)
    table = table.replace('with = ["write"]', 'with = ["write", "send"]', 1)

    with pytest.raises(HistoryError, match=r"its sets differ about context\.api"):
        _read(table)


def test_tables_without_their_documents_are_refused():
    with pytest.raises(HistoryError, match=r"documents\.toml is missing"):
        history.read({"small.toml": TABLE})


def test_the_command_line_lists_all_cells_with_their_ids_values_and_flags():
    from click.testing import CliRunner

    from zcdb.cli.list import list_command

    as_json = CliRunner().invoke(list_command, ["--history", "--json"])
    as_text = CliRunner().invoke(list_command, ["--history"])

    cells = json.loads(as_json.output)
    assert {cell["id"] for cell in cells} == set(CELLS)
    assert all(cell["id"] in as_text.output for cell in cells)
    typo = next(cell for cell in cells if "superseded" in cell["flags"])
    assert f"{typo['id']}: " in as_text.output
    assert "superseded" in as_text.output
