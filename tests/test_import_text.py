"""Cleaning, numbers, documents, commands: what all formats stand on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from zcdb import importers
from zcdb.flags import FLAGS, IMPORT_FLAGS
from zcdb.importers import quantities, read
from zcdb.importers.check import PrintedNumbers, unfounded
from zcdb.importers.commands import parse_command
from zcdb.importers.documents import find_documents
from zcdb.importers.model import RULES, Draft, Span
from zcdb.importers.text import clean_lines, decode
from zcdb.importers.vocabulary import percentile_metric

PACKAGE = Path(importers.__file__).parent


def texts(data: bytes) -> list[str]:
    text, encoding = decode(data)
    return [line.text for line in clean_lines(text, encoding)]


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        (b"> > a  1\r\n", "a  1"),
        (b">>> a", "a"),
        (b"\x1b[2;35mTotal 14\x1b[0m;", "Total 14;"),
        (b"a\x00b", "ab"),
        (b"^[[A^[[Bx", "x"),
        (b"[STDOUT] sockperf: x", "sockperf: x"),
        (b"2023-05-01T10:00:00.123456789Z stdout F Recv   Send", "Recv   Send"),
        (b"DEBUG:root:minflt=1", "minflt=1"),
        (b"<b>Offload ON:</b>", "Offload ON:"),
        (b"= **9265.0703 Mbps**", "= 9265.0703 Mbps"),
        (b"&lt;not counted&gt;", "<not counted>"),
        (b"<not counted>", "<not counted>"),
        (b"10 %\r 50 %\r100 %", "100 %"),
        (b">100_SECS: 0", ">100_SECS: 0"),
    ],
)
def test_markup_of_mails_and_terminals_is_taken_off(raw, clean):
    # A line without marks around it: most lines of a mail are not all quoted.
    assert texts(b"words\nwords\n" + raw)[2] == clean


def test_every_line_knows_its_bytes_whatever_was_taken_off():
    data = "é\n> ttcp\x1b[0m-t: x\r\nlast".encode()
    text, encoding = decode(data)

    lines = clean_lines(text, encoding)

    assert [data[line.first_byte : line.end_byte] for line in lines] == [
        "é\n".encode(),
        b"> ttcp\x1b[0m-t: x\r\n",
        b"last",
    ]


def test_quoted_printable_line_ends_are_joined_and_keys_with_values_are_not():
    mail = b"Recv   Service=20\nDemand\n% S   us/KB  =20\nus/KB\n\nend\n"
    keys = b"test_length=20\nlog_rtt=\nnum_flows=20\n"

    assert texts(mail)[:2] == ["Recv   Service Demand", "% S   us/KB   us/KB"]
    assert texts(keys)[:3] == ["test_length=20", "log_rtt=", "num_flows=20"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("9.40", 9.4),
        ("-1.00", -1.0),
        ("1.176e+10", 1.176e10),
        ("", None),
        ("9.4.0", None),
        ("1e999", None),
        ("٣", None),
        ("9" * 5000, None),
    ],
)
def test_numbers_are_numbers_or_nothing(text, value):
    assert quantities.number(text) == value


def test_scaling_leaves_no_binary_dust():
    assert quantities.scaled("2997.84", 10**6) == 2997840000.0
    assert quantities.micro("207.840") == 0.00020784


@pytest.mark.parametrize(
    ("printed", "half"), [("9.40", 0.005), ("10", 0.5), ("1.05e+03", 5.0), ("0.0244", 0.00005)]
)
def test_half_a_unit_of_the_last_digit(printed, half):
    assert quantities.half_unit(printed) == pytest.approx(half)


@pytest.mark.parametrize(
    ("printed", "metric"),
    [("99", "latency_p99"), ("99.900", "latency_p99_9"), ("99.999", "latency_p99_999")],
)
def test_percentiles_have_one_name(printed, metric):
    assert percentile_metric(printed) == metric


def test_documents_are_found_between_other_text_and_without_separators():
    found = list(find_documents('words {x} [5] {"a": 1}{"a": 2}\n[{"b": 3}] end'))

    assert [d.value for d in found] == [{"a": 1}, {"a": 2}, [{"b": 3}]]


def test_a_cut_document_keeps_only_complete_values():
    text = '{"start": {"version": "iperf 3.12", "mss": 1448}, "intervals": [{"bytes": 12345'

    (document,) = find_documents(text)

    assert document.is_cut
    assert document.value == {"start": {"version": "iperf 3.12", "mss": 1448}}


def test_documents_behind_a_broken_one_are_found():
    text = '{"start": {"version": "iperf 3.12", "cookie": "x"\n{"start": {"a": 1}}\n'

    values = [d.value for d in find_documents(text)]

    assert {"start": {"a": 1}} in values


@pytest.mark.parametrize(
    "hostile",
    [
        b'[{"a":' * 50_000,
        b"[" * 200_000,
        b'{"a":' + b"9" * 10_000 + b"}",
        b'{"intervals":[' + b'{"sum":' * 2000,
        b"(" * 100_000,
        b" " * 200_000 + b"TEST from",
        b"\x1b[" * 50_000,
        b"1 " * 100_000,
        b'{"start":{},"intervals":{"sum":[1]},"end":[[]]}',
    ],
)
def test_hostile_input_is_read_without_an_exception(hostile):
    reading = read(hostile, "x")

    assert reading.results == ()


def test_bytes_that_are_no_text_end_as_replacement_characters():
    table = b"netperf: cannot \xff\xfe do it\n"
    document = b'{"start": {"version": "\\ud800\xff"}, "intervals": [], "end": {}, "error": "\xff"}'

    reasons = [r.reason for r in read(table + document, "x").refused]

    assert len(reasons) == 2
    assert all(reason.encode() for reason in reasons)
    assert "cannot ?? do it" in reasons[0]


def test_an_empty_file_and_a_file_of_nothing_known_say_so():
    assert read(b"", "x").refused[0].reason == "the file is empty"
    assert read(b"hello\n", "x").refused[0].reason == "no output of a known tool was recognised"


@pytest.mark.parametrize(
    ("line", "option", "value"),
    [
        ("$ netperf -H rx -t TCP_RR -- -r 742,1", "-t", "TCP_RR"),
        ("root@a:~# netperf -tTCP_SENDFILE -H rx", "-t", "TCP_SENDFILE"),
        ("netperf --test='a b'", "--test", "a b"),
        ("netperf -l 10 | tee log -t X", "-t", None),
        ("netperf -t 'unclosed", "-t", "'unclosed"),
    ],
)
def test_options_of_a_command_line(line, option, value):
    command = parse_command(line, "netperf")

    assert command is not None
    assert command.option(option) == value


def test_a_sentence_about_a_tool_is_no_command():
    assert parse_command("I like netperf", "netperf") is not None
    assert parse_command("mynetperfish -t x", "netperf") is None


def test_rules_that_are_undefined_give_nothing():
    draft = Draft("t", "f", "x")

    assert draft.derive("throughput", "bits over time", 100.0, 0.0) is None
    assert draft.derive("loss", "share", None, 5.0) is None
    result = draft.done(Span(1, 1, 0, 1))
    assert result.metrics == {}
    assert {m.reason for m in result.measurements} == {"what it is made from is not in the text"}


def test_the_check_finds_a_number_that_is_not_in_the_text():
    draft = Draft("t", "f", "x")
    draft.measure("throughput", 9.41e9)
    draft.measure("sent_throughput", 9.40e9)
    draft.derive("loss", "share", 3.0, 7.0)
    result = draft.done(Span(1, 1, 0, 1))

    problems = unfounded(result, PrintedNumbers(b"9.40 Gbits/sec 3/100"))

    assert len(problems) == 2
    assert problems[0].startswith("loss: share")
    assert problems[1].startswith("throughput: ")


def test_every_word_the_importers_use_is_in_a_registry():
    source = "\n".join(path.read_text() for path in PACKAGE.glob("*.py"))
    flags = set(re.findall(r'\.flag\(\s*"([a-z0-9-]+)"', source))
    rules = set(re.findall(r'\.derive(?:_detail)?\(\s*[^,()]+,\s*"([a-z ]+)"', source))

    assert flags <= set(FLAGS)
    assert rules <= set(RULES)
    assert len(flags) > 25
    assert len(rules) > 5


def test_no_flag_is_registered_that_nothing_raises():
    source = "\n".join(
        path.read_text() for path in PACKAGE.glob("*.py") if path.name != "vocabulary.py"
    )

    assert [code for code in IMPORT_FLAGS if f'"{code}"' not in source] == []
