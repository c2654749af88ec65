"""Flags of a whole run: what its readings say of the time between its start and its end."""

from __future__ import annotations

from store_support import make_run
from web_support import client_of, get_json, get_page

from zcdb.flags import RUN_FLAGS
from zcdb.report.run_flags import SHOWN, flag_text, run_flags
from zcdb.report.show import show
from zcdb.store import write

pytest_plugins = ["store_fixtures"]

SENTENCE = "sender: clock_source was tsc before and is hpet after"


def test_a_changed_host_flags_the_run_with_both_values():
    (flag,) = run_flags([{"environment_changed": [SENTENCE], "settings_not_restored": []}])

    assert flag.code == "environment-changed"
    assert flag.detail == SENTENCE
    assert flag_text(flag).endswith(f"measured on either. {SENTENCE}.")


def test_a_run_whose_hosts_stayed_as_they_were_has_no_flag():
    assert run_flags([{"environment_changed": [], "settings_not_restored": []}, {}]) == ()


def test_all_times_a_run_was_worked_on_count_and_nothing_is_said_twice():
    other = "receiver: cpu.governor was powersave before and is performance after"

    (flag,) = run_flags(
        [{"environment_changed": [SENTENCE]}, {"environment_changed": [SENTENCE, other]}]
    )

    assert flag.detail == f"{SENTENCE}; {other}"


def test_a_host_that_could_not_be_read_again_is_not_called_unchanged():
    flags = run_flags([{"environment_changed": None, "final_readings_reason": "the agent ended"}])

    assert [(flag.code, flag.detail) for flag in flags] == [
        ("environment-unchecked", "the agent ended")
    ]


def test_a_setting_that_stayed_changed_flags_the_run():
    left = "mtu of eth1: cannot be put back to 1500: Device or resource busy"

    (flag,) = run_flags([{"settings_not_restored": [left]}])

    assert (flag.code, flag.detail) == ("settings-not-restored", left)
    assert flag.code in RUN_FLAGS


def test_many_differences_are_counted_rather_than_quoted():
    changed = [f"sender: fact{n} was 0 before and is 1 after" for n in range(SHOWN + 3)]

    (flag,) = run_flags([{"environment_changed": changed}])

    assert flag.detail.count("fact") == SHOWN
    assert flag.detail.endswith("and 3 more, see the run's readings")


def test_a_changed_host_is_told_by_the_run_s_page_its_json_and_zcdb_show(sqlite_db):
    run = make_run()
    write.add_run(sqlite_db, run)
    write.finish_run(sqlite_db, run.id, "finished", {"environment_changed": [SENTENCE]})
    client = client_of(sqlite_db)

    page = get_page(client, f"/runs/{run.id}")
    flags = get_json(client, f"/runs/{run.id}.json")["flags"]
    _, text = show(sqlite_db, run.id)

    tags = [tag.text for tag in page.all("a", class_="tag--warn")]
    assert tags == ["environment-changed"]
    assert SENTENCE in page.text
    assert [(flag["code"], flag["detail"]) for flag in flags] == [("environment-changed", SENTENCE)]
    assert "environment-changed: The machine was not the same" in " ".join(text.split())
