"""Experiment files: what is accepted, and how mistakes are told."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zcdb import factors
from zcdb.errors import ExperimentError
from zcdb.experiment import spec
from zcdb.experiment.fields import SETTING_TABLES
from zcdb.experiment.plan import make_plan
from zcdb.experiment.positions import Position, locate

GOOD = """\
name = "good"
question = "Does it?"

[factors]
api = ["write", "sendfile"]
message_size = ["4K", "64K"]

[compare]
baseline = { api = "write" }
"""


def parse(text: str) -> spec.Experiment:
    return spec.parse(text, "some.toml")


def message_of(text: str) -> str:
    with pytest.raises(ExperimentError) as caught:
        parse(text)
    return caught.value.message


def told_about(text: str) -> str | None:
    """Return what is told about a file that may be wrong, None if nothing."""
    try:
        parse(text)
    except ExperimentError as error:
        return error.message
    return None


def test_values_are_normalised_and_defaults_filled_in():
    experiment = parse(GOOD)

    assert experiment.factors["message_size"] == ({"message_size": 4096}, {"message_size": 65536})
    assert experiment.measure.model_dump() == {
        "repetitions": 5,
        "until": None,
        "aa": 1,
        "rest_ns": 0,
        "duration_ns": 2 * 10**9,
        "discard_ns": 300 * 10**6,
        "sample_ns": 100 * 10**6,
        "bracket_ns": 500 * 10**6,
        "seed": experiment.measure.seed,
    }
    assert experiment.link.kind == "loopback"
    assert experiment.compare.baseline == {"api": "write"}
    assert experiment.compare.metrics == ("service_demand_sender", "throughput")
    assert experiment.compare.matters == 0.02


def test_the_seed_follows_from_the_name_for_ever():
    other = parse(GOOD.replace('"good"', '"other"'))

    assert parse(GOOD).measure.seed == 1997430902
    assert other.measure.seed != 1997430902
    assert parse(GOOD + "[measure]\nseed = 7\n").measure.seed == 7


def test_a_single_value_stands_for_a_list_of_one():
    one = parse(GOOD.replace('["4K", "64K"]', '"4K"'))
    listed = parse(GOOD.replace('["4K", "64K"]', '["4096"]'))

    assert one.factors == listed.factors
    assert one.record().id == listed.record().id


def test_permuted_keys_and_stated_defaults_do_not_change_the_id():
    permuted = """\
question = "Does it?"
name = "good"
compare.baseline.api = "write"
[measure]
bracket = "0.5s"
repetitions = 5
[fixed]
pinning = "separate"
rx_api = "recv"
[factors]
streams = [1]
message_size = [4096, "64KiB"]
api = ["write", "sendfile"]
[link]
kind = "loopback"
"""

    assert parse(permuted).record().id == parse(GOOD).record().id


@pytest.mark.parametrize(
    "change",
    [
        ('"4K"', '"8K"'),
        ("Does it?", "Does it really?"),
        ("[compare]", '[link]\nkind = "veth"\n[compare]'),
        ("[compare]", "[measure]\nrepetitions = 6\n[compare]"),
        ("[compare]", "[fixed]\ntcp_cork = true\n[compare]"),
        ("[compare]", '[compare]\nmatters = "1%"'),
        ("[compare]", '[[exclude]]\napi = "write"\nmessage_size = "4K"\n[compare]'),
    ],
)
def test_a_file_that_means_something_else_has_another_id(change):
    assert parse(GOOD.replace(*change)).record().id != parse(GOOD).record().id


def test_the_record_has_the_text_as_written_and_the_resolved_form():
    record = parse(GOOD).record()

    assert (record.name, record.question, record.text) == ("good", "Does it?", GOOD)
    assert list(record.resolved) == [
        "name",
        "question",
        "factors",
        "fixed",
        "link",
        "exclude",
        "measure",
        "compare",
    ]
    assert record.resolved["factors"] == {
        "api": ["write", "sendfile"],
        "message_size": [4096, 65536],
    }
    assert json.loads(json.dumps(record.resolved)) == record.resolved


def test_a_group_sets_several_factors_at_once():
    levels = '[ { sndbuf = "1M", rcvbuf = "1M" }, { sndbuf = 0, rcvbuf = 0 } ]'

    experiment = parse(GOOD.replace("[factors]", f"[factors]\nbuffers = {levels}"))

    assert experiment.factors["buffers"] == (
        {"sndbuf": 1048576, "rcvbuf": 1048576},
        {"sndbuf": 0, "rcvbuf": 0},
    )


def test_tables_are_values_of_pinning_and_working_set():
    experiment = parse(
        GOOD.replace(
            "[compare]",
            '[fixed]\npinning = { sender = "0", receiver = "1" }\n'
            'working_set = { files = 63, mean_size = "350K", passes = 10 }\n[compare]',
        )
    )

    assert experiment.fixed == {
        "pinning": "sender=0;receiver=1",
        "working_set": "files=63;mean_size=358400;passes=10",
    }


def test_every_mistake_is_told_at_once_with_line_column_and_caret():
    text = """\
name = "bad"
question = "?"
[factors]
api = ["write", "sendfil"]
mesage_size = ["4K"]
[measure]
repetitons = 20
[compare]
baseline = { api = "splice" }
metrics = ["thruput"]
"""

    assert message_of(text).split("\n") == [
        f"some.toml:4:17: factors.api.1: 'sendfil' is not one of"
        f" {', '.join(factors.FACTORS['api'].choices)}; did you mean 'sendfile'?",
        '    api = ["write", "sendfil"]',
        "                    ^",
        "some.toml:5:1: factors.mesage_size: unknown factor 'mesage_size';"
        " did you mean 'message_size'?",
        '    mesage_size = ["4K"]',
        "    ^",
        "some.toml:7:1: measure.repetitons: unknown key 'repetitons'; did you mean 'repetitions'?",
        "    repetitons = 20",
        "    ^",
        "some.toml:10:12: compare.metrics.0: unknown metric 'thruput'; did you mean 'throughput'?",
        '    metrics = ["thruput"]',
        "               ^",
    ]


def test_contradictions_are_told_together_with_mistakes_elsewhere():
    message = message_of(GOOD.replace('"write" }', '"splice" }') + "[measure]\nsed = 1\n")

    assert (
        "compare.baseline.api: 'splice' is not among the levels of api: write, sendfile" in message
    )
    assert "measure.sed: unknown key 'sed'; did you mean 'seed'?" in message


def test_without_tree_sitter_only_the_places_go(monkeypatch):
    monkeypatch.setitem(sys.modules, "tree_sitter", None)

    message = message_of(GOOD.replace('"4K"', '"4Q"'))

    assert message == (
        "some.toml: factors.message_size.0: '4Q' is not a size;"
        " write bytes, or a number with K, M or G"
    )


@pytest.mark.parametrize(
    ("section", "sentence"),
    [
        ("[measure]\nrepetitions = 0", "measure.repetitions: 0 must be at least 1"),
        ("[measure]\nrepetitions = true", "measure.repetitions: True is not a whole number"),
        ("[measure]\nrepetitions = 2.5", "measure.repetitions: 2.5 is not a whole number"),
        ('[measure]\nduration = "99ms"', "measure.duration: '99ms' must be at least 100ms"),
        ("[measure]\nduration = 2", "measure.duration: 2 is not a duration"),
        ('[measure]\nduration = "2"', "measure.duration: '2' is not a duration"),
        ('[measure]\nsample = "3s"', "measure.sample: is longer than the duration"),
        ("[measure]\nseed = -1", "measure.seed: -1 must be at least 0"),
        ("measure = 3", "measure: 3 is not a table"),
        ("[measure]\nrepetitions = 99999", "4 cases make 499995 trials, more than 100000"),
        ("[measure]\naa = 5", "measure.aa: 5 twins are more than 4 cases"),
        ("[measure]\naa = -1", "measure.aa: -1 is not true, false or a number of cases"),
        ('[measure]\nrest = "2h"', "measure.rest: '2h' must be at least 0ms and at most 1h"),
        ("[measure]\nuntil = {}", "measure.until.half_width: missing; [measure.until] has a"),
        (
            "[measure]\nuntil = { half_widht = 0.02 }",
            "unknown key 'half_widht'; did you mean 'half_width'?",
        ),
        (
            "[measure]\nrepetitions = 6\nuntil = { half_width = 0.02 }",
            "measure.repetitions: stands beside until",
        ),
        (
            "[measure]\nuntil = { half_width = 0.02, at_least = 9, at_most = 8 }",
            "measure.until.at_least: is more than at_most, 8",
        ),
        (
            "[measure]\nuntil = { half_width = 0.02, at_most = 4 }",
            "measure.until.at_most: 4 must be at least 5",
        ),
        ('[link]\nkind = "wifi"', "link.kind: 'wifi' is not one of loopback, veth, hosts"),
        ('[link]\nrate = "fast"', "link.rate: 'fast' is not a rate"),
        ("[link]\nmtu = 20", "link.mtu: 20 must be at least 68"),
        ('[link]\nports = "53"', "link.ports: '53' is not a range of ports"),
        ('[link]\nrat = "1gbit"', "link.rat: unknown key 'rat'; did you mean 'rate'?"),
        (
            '[link]\nrate = "1gbit"\n[fixed]\nlink_rate = "2gbit"',
            "link.rate: 'link_rate' is set by fixed.link_rate too",
        ),
        ('[link]\nkind = "hosts"', "link.sender: missing; a hosts link names its sender"),
        (
            '[link]\nsender = { ssh = "a", interface = "eth0" }',
            "link.sender: belongs to a hosts link, and this one is loopback",
        ),
        (
            '[link]\nkind = "hosts"\nsender = { ssh = "-oProxyCommand=x", interface = "eth0" }',
            "link.sender.ssh: '-oProxyCommand=x' is not a name of a machine",
        ),
        ("[fixed]\nrequest_size = 64", 'fixed.request_size: means nothing without test = "rr"'),
        ("[fixed]\nburst = 4", 'fixed.burst: means nothing without test = "rr" or "crr"'),
        ("[fixed]\nfragments = 4", 'fixed.fragments: means nothing without api = "sendmsg"'),
        ('[fixed]\ncommand = "true"', 'fixed.command: means nothing without tool = "command"'),
        ('[fixed]\nlink_burst = "1M"', "fixed.link_burst: means nothing without link_rate"),
        ('[fixed]\nring = { rx = "many" }', "fixed.ring: ring.rx: 'many' is not a whole number"),
        ("[fixed]\nring.tix = 4", "'ring.tix' is not a setting that zcdb knows"),
        ("[fixed]\nstreams = 257", "fixed.streams: 257 must be at least 1 and at most 256"),
        ('[fixed]\nmessage_size = "17M"', "fixed.message_size: '17M' must be at least 1"),
        ('[fixed]\napi = "write"', "fixed.api: 'api' is set by factors.api too"),
        (
            '[fixed]\nlink = "veth"',
            "fixed.link: the link is declared by 'kind' in the table [link]",
        ),
        ('[fixed]\nsender_nic = "e1000"', "'sender_nic' is read from the machine"),
        ("[fixed]\nsndbuf = 99999999999999999999", "fixed.sndbuf: 99999999999999999999 must be"),
        ("[fixed]\ntcp_cork = [true]", "fixed.tcp_cork: [True] is not true or false"),
        ('[[exclude]]\napi = "splice"', "exclude.0.api: matches no case: api never has that value"),
        ('[[exclude]]\napi = ["write", "sendfile"]', "exclude.0: leaves out every case"),
        ("[[exclude]]", "exclude.0: names no factor"),
        (
            '[[exclude]]\napi = "write"\n[[exclude]]\napi = "sendfile"',
            "exclude: all rules together leave out every case",
        ),
        ("[fixed]\nfoo = 1", "fixed.foo: unknown factor 'foo'; known are test, api, message_size"),
        ('[exclude]\napi = "write"', "exclude: is not a list of tables; write [[exclude]]"),
        ('title = "x"', "title: unknown key 'title'"),
    ],
)
def test_impossible_things_are_refused(section, sentence):
    is_table = section.startswith("[")
    text = f"{GOOD}{section}\n" if is_table else f"{section}\n{GOOD}"

    assert sentence in message_of(text)


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ("api = []\n", "factors.api: needs at least one value"),
        ('message_size = "4K"\n', "factors.api: missing; state it here or in [fixed]"),
        ('api = ["write", "write"]\n', "factors.api.1: is the same as level 0"),
        (
            'api = "write"\nmessage_size = ["64K", "65536"]\n',
            "factors.message_size.1: is the same as level 0",
        ),
        (
            'api = "write"\noffloads = [ { sgg = true }, { sgg = false } ]\n',
            "factors.offloads.0.sgg: unknown factor 'sgg' in the group 'offloads'",
        ),
        (
            'api = "write"\ng = [ { streams = 2 } ]\nstreams = [1, 2]\n',
            "factors.g: 'streams' is set by factors.streams too",
        ),
        (
            'api = "write"\noffloads = true\n',
            "unknown factor 'offloads'; known are test, api, message_size",
        ),
        (
            'api = "write"\npining = { sender = "0", receiver = "1" }\n',
            "factors.pining: unknown factor 'pining'; did you mean 'pinning'?",
        ),
        (
            'api = "write"\nsender_kernel = ["6.1", "6.12"]\n',
            "'sender_kernel' is read from the machine and cannot be declared",
        ),
        (
            'api = "write"\nsndbuf = [%s]\nrcvbuf = [%s]\n'
            % ((", ".join(map(str, range(1000))),) * 2),
            "factors: 1000000 combinations are more than 100000",
        ),
    ],
)
def test_impossible_factors_are_refused(lines, sentence):
    assert sentence in message_of(f'name = "x"\nquestion = "?"\n[factors]\n{lines}')


@pytest.mark.parametrize(
    ("compare", "sentence"),
    [
        ('baseline = { api = "splice" }', "'splice' is not among the levels of api"),
        ("baseline = { streams = 1 }", "streams does not vary"),
        ("baseline = { streams = 2 }", "'2' is not among the levels of streams: 1"),
        ('metrics = ["call_rate"]', "'call_rate' cannot be compared"),
        ('metrics = ["throughput", "throughput"]', "'throughput' stands here twice"),
        ('metrics = "throughput"', "compare.metrics: 'throughput' is not a list"),
        ("metrics = []", "compare.metrics: needs at least one value"),
        ('matters = "0%"', "'0%' must be above 0"),
        ("matters = nan", "compare.matters: nan is not between"),
        ("matters = [1]", "compare.matters: [1] is not a ratio"),
    ],
)
def test_an_impossible_comparison_is_refused(compare, sentence):
    text = GOOD.replace('baseline = { api = "write" }', compare)

    assert sentence in message_of(text)


def test_a_baseline_that_is_always_excluded_is_refused():
    text = GOOD.replace("[compare]", '[[exclude]]\napi = "write"\n\n[compare]')

    assert "compare.baseline: no case has a baseline that is measured too" in message_of(text)


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("", "some.toml: name: missing; every experiment has a name"),
        ('name = "x"\nfoo\n', "some.toml:2:4: not TOML: "),
        ('name = "x"\nname = "y"\n', "some.toml:2:11: not TOML: Cannot overwrite a value"),
        ("a = " + "[" * 5000, "some.toml: nested too deeply"),
        ("a = " + "9" * 5000, "some.toml: not TOML: "),
        ('name = "x', "some.toml: not TOML: Unterminated string"),
    ],
)
def test_text_that_is_no_experiment_is_one_sentence(text, start):
    assert message_of(text).startswith(start)


@pytest.mark.parametrize("name", ["", "Upper", "with space", "../up", "-dash", "x" * 81])
def test_a_name_has_to_fit_an_address(name):
    assert "some.toml:1:8: name: " in message_of(GOOD.replace('"good"', f'"{name}"'))


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_no_file_whatever_ends_in_a_traceback(data):
    """Lines of a good file, shuffled, dropped and with strange values, are read or refused."""
    strange = st.sampled_from(
        ["[]", "{}", "[[]]", "[{}]", "true", "-1", "1e400", "nan", '""', '"x"', "1979-05-27", "]"]
    )
    lines = data.draw(st.permutations([*GOOD.split("\n"), "[measure]", "[link]", "[[exclude]]"]))
    text = "\n".join(
        f"{line.partition('=')[0]}= {data.draw(strange)}"
        if "=" in line and data.draw(st.booleans())
        else line
        for line in lines[: data.draw(st.integers(0, len(lines)))]
    )

    assert (told_about(text) or "some.toml").startswith("some.toml")


def test_a_value_of_any_length_leaves_a_message_that_fits_a_screen():
    message = message_of(GOOD + f"[measure]\nseed = {list(range(5000))}\n")

    assert message.startswith("some.toml:11:8: measure.seed: [0, 1, 2")
    assert len(message) < 800


def test_windows_line_ends_and_a_byte_order_mark_are_read(tmp_path: Path):
    path = tmp_path / "windows.toml"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())

    assert spec.load(path).record().id == parse(GOOD).record().id


def test_files_that_cannot_be_read_are_named(tmp_path: Path):
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"name = \xff\xfe")

    with pytest.raises(ExperimentError, match=r"binary\.toml: not UTF-8 text \(byte 7\)"):
        spec.load(binary)
    with pytest.raises(ExperimentError, match=r"absent\.toml: cannot be read: No such file"):
        spec.load(tmp_path / "absent.toml")
    with pytest.raises(ExperimentError, match="cannot be read: Is a directory"):
        spec.load(tmp_path)
    with pytest.raises(ExperimentError, match="zero: larger than 1 MiB"):
        spec.load("/dev/zero")


def test_shipped_experiments_are_found_by_name_and_near_names_are_told():
    assert spec.load(spec.find_shipped("quickstart")).name == "quickstart"
    with pytest.raises(ExperimentError, match="did you mean 'quickstart'"):
        spec.find_shipped("quikstart")


def test_a_file_but_no_folder_goes_before_a_shipped_name(tmp_path: Path, monkeypatch):
    (tmp_path / "quickstart").write_text(GOOD)
    monkeypatch.chdir(tmp_path)

    assert spec.load(spec.find("quickstart")).name == "good"
    (tmp_path / "quickstart").unlink()
    (tmp_path / "quickstart").mkdir()
    assert spec.load(spec.find("quickstart")).name == "quickstart"
    with pytest.raises(ExperimentError, match="neither a file nor a shipped experiment"):
        spec.find("nowhere/at-all.toml")
    with pytest.raises(ExperimentError, match="File name too long"):
        spec.find("x" * 5000)


def test_positions_are_those_of_the_text():
    text = (
        'a.b = 1 # c\n[t] # c\n"ü k" = ["é", { x = 2 }]\n[[l]]\n[[l]]\n  y.z = 3\n[l.m]\nq = 4\n'
        "list = [ # one\n  1, # two\n  2,\n] # three\n"
    )

    found = locate(text)

    assert found.find(("a", "b")) == Position(1, 7)
    assert found.find(("t", "ü k", 0)) == Position(3, 10)
    assert found.find(("t", "ü k", 1, "x")) == Position(3, 21)
    assert found.find(("t", "ü k", 1, "x"), key=True) == Position(3, 17)
    assert found.find(("l", 1, "y", "z")) == Position(6, 9)
    assert found.find(("l", 1, "m", "q"), key=True) == Position(8, 1)
    assert found.find(("l", 0)) == Position(4, 3)
    assert found.find(("t", "absent", 3)) == Position(2, 2)
    assert found.find(("l", 1, "m", "list", 1)) == Position(11, 3)
    assert found.find(("absent",)) is None
    assert tomllib.loads(text)["l"][1]["m"]["q"] == 4


def test_the_schema_describes_every_key_that_the_form_knows():
    schema = json.loads(spec.json_schema())

    assert list(schema["properties"]) == list(spec.Experiment.model_fields)
    assert schema["required"] == ["name", "question"]
    assert schema["additionalProperties"] is False
    measure = schema["$defs"]["Measure"]["properties"]
    assert {key: value.get("default") for key, value in measure.items()} == {
        "repetitions": 5,
        "until": None,
        "aa": True,
        "rest": "0ms",
        "duration": "2s",
        "discard": "300ms",
        "sample": "100ms",
        "bracket": "500ms",
        "seed": None,
    }
    declared = [f.name for f in factors.FACTORS.values() if f.is_declared and f.name != "link"]
    assert list(schema["$defs"]["Factors"]["properties"]) == [*declared, *SETTING_TABLES]
    assert (
        "Default: 64 KiB." in schema["$defs"]["Values"]["properties"]["message_size"]["description"]
    )


def test_the_schema_accepts_the_shipped_experiment_and_refuses_wrong_ones():
    jsonschema = pytest.importorskip("jsonschema_rs", reason="jsonschema_rs is not installed")
    validator = jsonschema.Draft202012Validator(json.loads(spec.json_schema()))
    good = tomllib.loads(spec.find_shipped("quickstart").read_text())

    assert [error.message for error in validator.iter_errors(good)] == []
    assert not validator.is_valid({**good, "factors": {"api": ["wrte"]}})
    assert not validator.is_valid({**good, "factors": {"api": []}})
    assert not validator.is_valid({**good, "metrics": []})
    assert not validator.is_valid({**good, "compare": {"metrics": []}})


def documented_blocks(project_folder: Path) -> list[tuple[str, str]]:
    """Return the fenced blocks of the page about experiment files: (language, text)."""
    page = (project_folder / "docs" / "experiment-files.md").read_text()
    return re.findall(r"```(\w+)\n(.*?)```", page, flags=re.DOTALL)


def test_the_documented_examples_are_accepted_and_refused_as_documented(project_folder):
    small, large, until, crossover, mistaken, message = documented_blocks(project_folder)

    assert len(make_plan(parse(small[1])).cases) == 2
    assert len(make_plan(parse(large[1])).cases) == 10
    assert parse(GOOD + until[1]).measure.until.at_most == 30
    searched = parse(GOOD.partition("[compare]")[0] + crossover[1])
    assert searched.compare.crossover.between == ("write", "sendfile")
    with pytest.raises(ExperimentError) as caught:
        spec.parse(mistaken[1], "mistaken.toml")
    assert caught.value.message == message[1].rstrip("\n")


def test_every_key_is_documented(project_folder):
    page = (project_folder / "docs" / "experiment-files.md").read_text()
    schema = json.loads(spec.json_schema())

    for section in ("Measure", "Until", "Compare", "Crossover", "Link", "Host", "Values"):
        for key in schema["$defs"][section]["properties"]:
            assert f"`{key}`" in page
    for choice in [*factors.FACTORS["api"].choices, *factors.FACTORS["rx_api"].choices]:
        assert f"`{choice}`" in page


def test_requests_and_responses_are_sent_by_send_where_the_file_does_not_say():
    text = GOOD.replace('api = ["write", "sendfile"]', 'test = ["rr", "crr"]').replace(
        'baseline = { api = "write" }', 'baseline = { test = "rr" }'
    )

    plan = make_plan(parse(text))

    assert {case.factors["api"] for case in plan.cases} == {"send"}
    assert len(plan.cases) == 4


def test_keys_that_came_later_stay_out_of_the_id_unless_stated():
    assert parse(GOOD).record().id == parse(GOOD + '[measure]\naa = true\nrest = "0s"').record().id
    assert set(parse(GOOD).resolved()["measure"]) == {
        *("repetitions", "duration_ns", "discard_ns", "sample_ns", "bracket_ns", "seed"),
    }
    assert set(parse(GOOD).resolved()["compare"]) == {"baseline", "metrics", "matters"}


@pytest.mark.parametrize(
    "change",
    ["aa = false", 'rest = "1s"', "until = { half_width = 0.02 }"],
)
def test_stated_keys_of_the_method_make_another_experiment(change):
    assert parse(GOOD + f"[measure]\n{change}\n").record().id != parse(GOOD).record().id


def test_until_takes_the_place_of_repetitions():
    experiment = parse(GOOD + '[measure]\nuntil = { half_width = "2%", at_most = 12 }\n')

    assert experiment.measure.blocks == 12
    assert experiment.resolved()["measure"]["until"] == {
        "metric": "service_demand_sender",
        "half_width": 0.02,
        "at_least": 6,
        "at_most": 12,
    }
    assert "repetitions" not in experiment.resolved()["measure"]


CROSSOVER = 'crossover = { between = ["write", "sendfile"], at_most = 6 }'


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            ('"sendfile"], at', '"splice"], at'),
            "between.1: 'splice' is not among the levels of api",
        ),
        (('"sendfile"], at', '"write"], at'), "compare.crossover.between: names one API twice"),
        (('["4K", "64K"]', '"4K"'), "message_size needs two levels in [factors]"),
        (("at_most = 6", "at_most = 6, factor = 'api'"), "crossover.factor: 'api' is not one of"),
        (("[compare]", "[fixed]\n[compare]"), None),
        (("[compare]", "[measure]\nrepetitions = 2\n[compare]"), "needs at least 3"),
        (("[compare]", "[measure]\nuntil = {half_width=0.1}\n[compare]"), "leave until out"),
        (('["4K", "64K"]', '["4K", "64K"]\nstreams = [1, 2]'), "fixed, and streams varies"),
        (('["4K", "64K"]', "[1, 2, 3, 4, 5, 6, 7]"), "is less than the 7 levels declared"),
    ],
)
def test_a_crossover_needs_two_apis_and_a_range_and_nothing_else_that_varies(change, sentence):
    told = told_about((GOOD + CROSSOVER).replace(*change))

    assert told is None if sentence is None else sentence in told
