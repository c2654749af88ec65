"""Standing questions, break-even, on/off settings and the calculator: what they answer."""

from __future__ import annotations

import csv
import io
import math
import re

import pytest
from site_support import KERNELS, ZEROCOPY_RATIOS, write_site
from store_support import StatementCount
from web_support import client_of, get_json, get_page

from zcdb.store import queries
from zcdb.store.queries import explore as exploring
from zcdb.store.queries.explore import Asked
from zcdb.store.queries.questions import groups
from zcdb.store.session import open_database
from zcdb.webapp.present import calculator as computing
from zcdb.webapp.present.break_even import crossing
from zcdb.webapp.present.question_list import QUESTIONS, release_order

pytest_plugins = ["store_fixtures"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    db = open_database(tmp_path_factory.mktemp("site") / "site.sqlite", with_history=False)
    ids = write_site(db)
    yield db, ids
    db.dispose()


@pytest.fixture(scope="module")
def client(made):
    return client_of(made[0])


def answers(client, name, query=""):
    return {
        one["title"]: one for one in get_json(client, f"/questions/{name}.json{query}")["answers"]
    }


def rows_of(answer, metric):
    (found,) = [one for one in answer["metrics"] if one["metric"] == metric]
    return found["rows"]


def test_only_a_proven_case_counts_as_zero_copy(client):
    found = answers(client, "zero-copy")

    proven = found["Zero copy against copying, proven"]
    others = found["Asked for zero copy, but copied or not proven"]
    assert {row["sides"] for row in rows_of(proven, "service_demand_sender")} == {
        "write → msg_zerocopy"
    }
    assert {row["proof"] for row in rows_of(proven, "service_demand_sender")} == {"proven"}
    assert "copied" in {
        row["proof"]
        for row in rows_of(others, "service_demand_sender")
        if row["name"].startswith("message size 64 KiB")
    }


def test_each_pair_of_a_question_has_its_verdict_interval_and_n(client):
    rows = rows_of(answers(client, "zero-copy")["Zero copy against copying, proven"],
                   "service_demand_sender")  # fmt: skip

    by_name = {row["name"]: row for row in rows}
    for size, text in ((1024, "1 KiB"), (4096, "4 KiB"), (16384, "16 KiB"), (65536, "64 KiB")):
        row = by_name[f"message size {text}"]
        assert row["ratio"] == pytest.approx(ZEROCOPY_RATIOS[size], rel=0.02)
        assert row["low"] < row["ratio"] < row["high"]
        assert row["word"] == ("better" if ZEROCOPY_RATIOS[size] < 1 else "worse")
        assert row["n"] == 5


def test_checksum_and_scatter_gather_that_change_together_are_compared_together(client):
    found = answers(client, "checksum")

    (title,) = found
    assert title == "Scatter-gather and checksum offload together: measured here"
    by_api = {row["name"]: row for row in rows_of(found[title], "service_demand_sender")}
    assert by_api["sendfile"]["ratio"] == pytest.approx(0.5 / 0.6, rel=0.02)
    assert by_api["write"]["word"] == "equivalent"


def test_pinning_is_compared_with_ends_left_to_the_scheduler(client):
    (answer,) = answers(client, "pinning").values()

    ratios = {row["sides"]: row["ratio"] for row in rows_of(answer, "service_demand_sender")}
    assert ratios["none → same"] == pytest.approx(0.7, rel=0.02)
    assert ratios["none → separate"] == pytest.approx(1.2, rel=0.02)


def test_more_streams_are_compared_with_the_fewest(client):
    (answer,) = answers(client, "streams").values()

    ratios = {row["sides"]: row["ratio"] for row in rows_of(answer, "service_demand_sender")}
    assert ratios == {
        "1 → 4": pytest.approx(1.4 / 1.1, rel=0.02),
        "1 → 16": pytest.approx(2.6 / 1.1, rel=0.02),
    }


def test_write_is_compared_on_a_kernel_with_and_without_the_path(client):
    found = answers(client, "write-path")

    kernel = found["A kernel with the zero-copy path against the same without: measured here"]
    (row,) = rows_of(kernel, "service_demand_sender")
    assert row["sides"] == "2.4.1 → 2.4.1+zerocopy"
    assert row["ratio"] == pytest.approx(1.1, rel=0.02)
    assert "Scatter-gather on against off, copying APIs: measured here" in found


def test_each_kernel_is_compared_with_the_one_before_it_at_both_ends(client):
    (answer,) = answers(client, "kernels").values()

    rows = [row for row in rows_of(answer, "service_demand_sender") if row["name"] == "write"]
    assert {row["sides"] for row in rows} == {
        "2.4.1 → 2.4.1+zerocopy",
        "2.4.1+zerocopy → 6.9.0",
        "6.9.0 → 6.12.0",
    }


def test_kernel_releases_sort_as_people_count():
    ordered = [
        "2.4.0-pre3",
        "2.4.0",
        "2.4.1-pre10",
        "2.4.1-pre10+zerocopy",
        "2.4.1",
        "6.9.0",
        "6.12.0",
    ]

    assert sorted(sorted(ordered), key=release_order) == ordered


def test_then_and_now_sets_published_ratios_beside_measured_ones(tmp_path):
    db = open_database(tmp_path / "history.sqlite")
    write_site(db)

    found = answers(client_of(db), "then-and-now")
    db.dispose()

    origins = {one["origin"] for one in found.values()}
    assert origins == {"measured", "published"}
    published = next(one for one in found.values() if one["origin"] == "published")
    metric = next(m for m in published["metrics"] if m["metric"] == "machine_utilisation_sender")
    assert all(row["low"] is None for row in metric["rows"]), "a single figure has no interval"
    assert any(row["ratio"] < 0.7 for row in metric["rows"])


def test_how_sure_counts_trials_runs_hosts_and_flags_and_names_what_is_missing(client):
    sure = get_json(client, "/questions/pinning.json")["sure"]

    assert (sure["trials"], sure["runs"], sure["hosts"], sure["entries"]) == (15, 1, 1, 0)
    assert sure["flags"] == [["ends-share-host", 15]]
    assert (sure["least_n"], sure["most_n"]) == (5, 5)
    assert sure["missing"][0].startswith("One host only")
    page = get_page(client, "/questions/pinning")
    assert "zcdb run quickstart" in page.text


def test_a_filter_narrows_a_question(client):
    rows = rows_of(
        answers(client, "zero-copy", "?message_size=4096")["Zero copy against copying, proven"],
        "service_demand_sender",
    )

    assert [row["ratio"] for row in rows] == [pytest.approx(1.2, rel=0.02)]


def test_page_json_and_csv_of_a_question_say_the_same(client):
    found = get_json(client, "/questions/streams.json")
    page = get_page(client, "/questions/streams")
    lines = list(csv.DictReader(io.StringIO(client.get("/questions/streams.csv").text)))

    rows = [(m["metric"], row) for a in found["answers"] for m in a["metrics"] for row in m["rows"]]
    assert len(rows) == len(lines)
    for (metric, row), line in zip(rows, lines, strict=True):
        assert line["metric"] == metric
        assert float(line["ratio"]) == row["ratio"]
        assert f"{row['change']} {row['interval']}".strip() in page.text


def test_a_question_without_data_names_the_experiment_that_answers_it(sqlite_db):
    client = client_of(sqlite_db)

    for question in QUESTIONS.values():
        page = get_page(client, f"/questions/{question.name}")
        assert "No answer yet" in page.text
        assert f"zcdb run {question.experiment}" in page.text


@pytest.mark.parametrize("name", list(QUESTIONS))
def test_the_experiments_that_settle_questions_are_shipped(name, project_folder):
    assert (project_folder / "runs" / f"{QUESTIONS[name].experiment}.toml").exists()


def test_an_unknown_question_names_those_there_are(client):
    page = get_page(client, "/questions/price", status=404)

    assert "zero-copy, checksum, pinning" in page.text


# -- break-even ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("points", "word", "size"),
    [
        ([(1024, 0.9), (4096, 0.5)], "everywhere", None),
        ([(1024, 1.5), (4096, 1.1)], "nowhere", None),
        # Straight on log scales: 2 and 1/2 meet 1 in the middle of 1 and 4 KiB.
        ([(1024, 2.0), (4096, 0.5)], "from", 2048.0),
        # log 1.2 against log 0.8: 0.1823 / (0.1823 + 0.2231) of two octaves above 4 KiB.
        ([(1024, 1.6), (4096, 1.2), (16384, 0.8)], "from", 4096 * 4 ** (0.18232 / 0.40546)),
        ([(1024, 0.9), (4096, 1.1)], "changing", None),
        ([(1024, 1.1), (4096, 0.9), (16384, 1.2)], "changing", None),
    ],
)
def test_the_crossing_is_where_the_ratio_falls_below_one_for_good(points, word, size):
    found = crossing(points)

    assert found.word == word
    assert found.size_bytes == (None if size is None else pytest.approx(size, rel=1e-4))


def test_a_curve_without_points_is_refused():
    with pytest.raises(ValueError, match="needs a point"):
        crossing([])


def test_break_even_is_between_the_sizes_with_an_interval_from_the_ratios(client):
    rows = {row["api"]: row for row in get_json(client, "/break-even.json")["rows"]}

    zerocopy = rows["msg_zerocopy"]
    expected = 4096 * 4 ** (math.log(1.2) / (math.log(1.2) - math.log(0.8)))
    assert zerocopy["word"] == "from"
    assert zerocopy["size_bytes"] == pytest.approx(expected, rel=0.05)
    assert zerocopy["low_bytes"] < zerocopy["size_bytes"] < zerocopy["high_bytes"]
    assert re.fullmatch(r"from 7\.\d\d KiB on", zerocopy["says"])
    assert (zerocopy["baseline"], zerocopy["proof"], zerocopy["least_n"]) == ("write", "proven", 5)
    assert rows["sendfile"]["word"] == "everywhere"
    assert rows["sendfile"]["proof"] == "not proven"


def test_break_even_can_be_asked_for_a_kernel_and_another_cost(client):
    of_kernel = get_json(client, "/break-even.json?sender_kernel=6.12.0")
    elsewhere = get_json(client, "/break-even.json?sender_kernel=2.4.1")
    receiver = get_json(client, "/break-even.json?m=service_demand_receiver")

    assert len(of_kernel["rows"]) == 2
    assert elsewhere["rows"] == []
    assert receiver["metric"] == "service_demand_receiver"


@pytest.mark.parametrize("query", ["m=throughput", "method=guess", "message_size=huge"])
def test_break_even_refuses_what_it_cannot_be_about(query, client):
    assert client.get(f"/break-even?{query}").status_code == 400


# -- on/off settings -----------------------------------------------------------------------------


def test_on_off_settings_alone_and_together(client):
    designs = get_json(client, "/flags.json")["designs"]

    (design,) = [one for one in designs if one["metric"] == "service_demand_sender"]
    effects = {row["name"]: row["estimate"] for row in design["rows"]}
    assert design["off"] == "write, scatter-gather off, transmit checksum off"
    assert effects["sendfile alone"] == pytest.approx(-0.4, abs=0.02)
    assert effects["Scatter-gather and Transmit checksum alone"] == pytest.approx(0.0, abs=0.02)
    together = next(value for name, value in effects.items() if "beyond" in name)
    assert together == pytest.approx(-0.1, abs=0.02)
    assert all(row["low"] < row["estimate"] < row["high"] for row in design["rows"])
    assert design["blocks"] == 5


def test_settings_that_need_each_other_are_taken_two_states_at_a_time(tmp_path):
    db = open_database(tmp_path / "history.sqlite")
    client = client_of(db)

    designs = get_json(client, "/flags.json")["designs"]
    db.dispose()

    offs = {one["off"] for one in designs if one["metric"] == "machine_utilisation_sender"}
    assert offs == {
        "read_write, scatter-gather off",
        "read_write, transmit checksum off",
        "read_write, scatter-gather off, transmit checksum off",
    }
    assert all(one["is_published"] for one in designs)


# -- the calculator ------------------------------------------------------------------------------


def test_cpus_at_a_rate_follow_from_the_service_demand():
    # 100 Gbit/s are 12 207 031.25 KB a second; at 0.2 us each that is 2.44 CPUs.
    assert computing.cpus_for(0.2, 100e9) == pytest.approx(2.44140625)


def test_the_calculator_gives_cpus_and_what_is_left_with_intervals(client, made):
    address = f"/calculator.json?case={made[1]['write 64 KiB']}&rate=40gbit&cpus=4"

    sender, receiver, left = get_json(client, address)["rate"]

    assert sender["value"] == pytest.approx(40e9 / 8 / 1024 * 0.2e-6, rel=0.02)
    assert receiver["value"] == pytest.approx(40e9 / 8 / 1024 * 0.2e-6, rel=0.02)
    assert left["value"] == pytest.approx(4 - sender["value"])
    assert (left["low"], left["high"]) == (
        pytest.approx(4 - sender["high"]),
        pytest.approx(4 - sender["low"]),
    )


def test_the_share_of_sendfile_is_what_write_pays_over_both_changes(client, made):
    ids = made[1]
    query = (
        f"write_off={ids['write 2.4.1']}&write_on={ids['write 2.4.1+zerocopy']}"
        f"&file_off={ids['sendfile 2.4.1']}&file_on={ids['sendfile 2.4.1+zerocopy']}"
    )

    pays, saves, share = get_json(client, f"/calculator.json?{query}")["share"]

    assert pays["value"] == pytest.approx(0.1, abs=0.02)
    assert saves["value"] == pytest.approx(0.3, abs=0.02)
    assert share["value"] == pytest.approx(100 * pays["value"] / (pays["value"] + saves["value"]))
    assert share["low"] < 25 < share["high"]
    page = get_page(client, f"/calculator?{query}")
    assert share["text"] in page.text


def test_the_calculator_offers_cases_that_can_tell(client, made):
    found = get_json(client, "/calculator.json")

    assert made[1]["write 64 KiB"] in {one["address"] for one in found["case_presets"]}
    addresses = [one["address"] for one in found["share_presets"]]
    assert addresses
    for address in addresses:
        assert get_json(client, address.replace("?", ".json?"))["share"]


@pytest.mark.parametrize(
    "query",
    ["rate=fast", "rate=0", "cpus=0", "cpus=many", "cpus=99999999", "case=abc", "write_on=1"],
)
def test_the_calculator_refuses_what_makes_no_sense(query, client):
    assert client.get(f"/calculator?{query}").status_code == 400


def test_the_calculator_says_which_cases_are_missing(client, made):
    page = get_page(client, f"/calculator?write_off={made[1]['write 2.4.1']}")

    assert "needs all of write_off, write_on, file_off, file_on" in page.text


# -- twins ---------------------------------------------------------------------------------------


def test_twins_are_in_no_group_and_in_no_list_unless_asked_for(made):
    db = made[0]
    asked = {"words": (), "rows": "", "columns": "", "metric": "throughput", "method": ""}

    plain = exploring.explore(db, Asked(filters={}, **asked))
    twins = exploring.explore(db, Asked(filters={"twin": (1, 2)}, **asked))
    listed = queries.case_list(db, limit=200).cases
    everything = queries.case_list(db, limit=200, with_twins=True).cases

    assert (plain.twins, plain.matching) == (2, plain.total - 2)
    assert twins.matching == 2
    assert len(everything) - len(listed) == 2
    assert not any(case.factors.get("twin") for case in listed)
    members = [m for group in groups(db, ("twin",)).groups for m in group]
    assert members == []


def test_the_page_says_how_many_twins_are_left_out(client):
    page = get_page(client, "/explore")

    assert "2 twins of these cases are left out" in page.text


# -- cost ----------------------------------------------------------------------------------------


def test_questions_ask_as_many_statements_of_a_larger_database(made, tmp_path):
    larger = open_database(tmp_path / "larger.sqlite", with_history=False)
    write_site(larger, more_runs=3)
    addresses = [*(f"/questions/{name}" for name in QUESTIONS), "/break-even", "/flags",
                 "/calculator"]  # fmt: skip

    for address in addresses:
        counts = []
        for database in (made[0], larger):
            client = client_of(database)
            with StatementCount(database) as count:
                get_page(client, address)
            counts.append(len(count))
        assert counts[0] == counts[1] <= 30, address
    larger.dispose()


def test_kernels_are_those_that_were_made(client):
    rows = get_json(client, "/kernels.json")["kernels"]

    assert [row["release"] for row in rows] == sorted(KERNELS, key=release_order, reverse=True)
