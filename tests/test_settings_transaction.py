"""Settings as a transaction: set, read back, put back, also after kill -9 at any step."""

from __future__ import annotations

import errno
import os

import pytest
from settings_support import FakeBackend, Fuse, Killed, NewStart, fuse_the_journal, machine

from zcdb.host.settings import (
    SettingsError,
    Transaction,
    find_leftovers,
    journal,
    parse_setting,
    restore_leftovers,
)
from zcdb.host.settings.model import Namespace
from zcdb.host.settings.transaction import control_address

SETTINGS = [
    parse_setting("feature", "eth1", {"sg": False, "gro": True}),
    parse_setting("mtu", "eth1", 9000),
    parse_setting("feature", "eth1", {"tso": False}),
    parse_setting("qdisc", "eth1", {"kind": "tbf", "rate": "1gbit"}),
    parse_setting("sysctl", "net.ipv4.tcp_wmem", [4096, 16384, 65536]),
    parse_setting("irq_affinity", 41, "1"),
    parse_setting("governor", "all", "performance"),
    parse_setting("mtu", "eth1", 4000),
]


@pytest.fixture
def fake():
    return FakeBackend()


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "settings"


@pytest.fixture
def new_start(fake, folder, tmp_path):
    return NewStart(fake, folder, tmp_path / "root")


def transaction(fake, folder, **options):
    options = {"interfaces": ["eth0", "eth1"], "environment": {}} | options
    return Transaction(backend=fake, folder=folder, **options)


def apply_and_die(fake, folder, settings=SETTINGS):
    """Apply settings in a process that is killed right afterwards."""
    return transaction(fake, folder).apply(settings)


def test_settings_hold_inside_and_everything_is_as_before_outside(fake, folder):
    with transaction(fake, folder) as inside:
        results = inside.apply(SETTINGS)
        mtu = fake.state[("mtu", "eth1")]["mtu"].active

    assert [result.problems for result in results] == [()] * len(SETTINGS)
    assert mtu == 4000
    assert results[1].before == {"mtu": 1500}
    assert results[1].effective == {"mtu": 9000}
    assert fake.state == machine()
    assert list(folder.iterdir()) == []


def test_a_feature_that_another_one_took_along_comes_back_with_it(fake, folder):
    with transaction(fake, folder) as inside:
        inside.apply([parse_setting("feature", "eth1", {"sg": False})])
        tso = fake.state[("feature", "eth1")]["tx-tcp-segmentation"]

    assert (tso.stored, tso.active) == (True, False)
    assert fake.state[("feature", "eth1")]["tx-tcp-segmentation"].active is True


def test_a_feature_that_was_requested_but_off_is_requested_but_off_again(fake, folder):
    fake.write("feature", "eth1", {"tx-scatter-gather": False})
    before = fake.read("feature", "eth1")

    with transaction(fake, folder) as inside:
        inside.apply([parse_setting("feature", "eth1", {"tso": False})])
        inside.apply([parse_setting("feature", "eth1", {"sg": True})])

    assert fake.state[("feature", "eth1")] == before
    assert (before["tx-tcp-segmentation"].stored, before["tx-tcp-segmentation"].active) == (
        True,
        False,
    )


def test_what_holds_already_is_neither_written_nor_journalled(fake, folder):
    with transaction(fake, folder) as inside:
        (result,) = inside.apply([parse_setting("mtu", "eth1", 1500)])

    assert result.is_as_asked
    assert fake.writes == []
    assert not folder.exists()


def test_what_the_kernel_silently_changes_is_returned_as_the_effective_value(fake, folder):
    fake.bend[("rings", "eth1", "rx")] = 1024

    with transaction(fake, folder) as inside:
        (result,) = inside.apply([parse_setting("rings", "eth1", {"rx": 1000})])

    assert result.effective == {"rx": 1024}
    assert result.problems == ("ring rx of eth1 is 1024, although 1000 was asked for",)


def test_what_the_kernel_refuses_is_a_sentence_and_the_others_are_set(fake, folder):
    fake.refuse[("mtu", "eth1")] = errno.EBUSY

    with transaction(fake, folder) as inside:
        mtu, rings = inside.apply(
            [parse_setting("mtu", "eth1", 9000), parse_setting("rings", "eth1", {"tx": 64})]
        )

    assert mtu.problems == ("mtu of eth1 cannot be 9000: Device or resource busy",)
    assert mtu.effective == {"mtu": 1500}
    assert rings.effective == {"tx": 64}
    assert rings.is_as_asked


@pytest.mark.parametrize(
    ("kind", "value", "sentence"),
    [
        ("feature", {"lro": True}, "lro of eth1 cannot be on: its driver has none"),
        ("feature", {"tx-foo": True}, "tx-foo of eth1 cannot be on: its driver has none"),
        ("mtu", 9001, "mtu of eth1 can be 68 to 9000 here, not 9001"),
        ("rings", {"rx_mini": 5}, "ring rx_mini of eth1 cannot be 5: its driver has none"),
        ("channels", {"rx": 2}, "rx channels of eth1 cannot be 2: its driver has none"),
    ],
)
def test_what_this_machine_cannot_do_is_said_without_trying(fake, folder, kind, value, sentence):
    with transaction(fake, folder) as inside:
        (result,) = inside.apply([parse_setting(kind, "eth1", value)])

    assert result.problems == (sentence,)
    assert fake.writes == []


def test_a_feature_without_what_it_needs_names_it(fake, folder):
    with transaction(fake, folder) as inside:
        (result,) = inside.apply([parse_setting("feature", "eth1", {"sg": False, "gso": True})])

    assert result.problems == (
        "tx-generic-segmentation of eth1 is off, although on was asked for:"
        " it needs tx-scatter-gather, which is off",
    )


def test_nested_transactions_come_back_one_after_the_other(fake, folder):
    with transaction(fake, folder) as outer:
        outer.apply([parse_setting("qdisc", "eth1", {"kind": "tbf", "rate": "1gbit"})])
        gigabit = fake.read("qdisc", "eth1")
        with transaction(fake, folder) as inner:
            inner.apply([parse_setting("qdisc", "eth1", {"kind": "tbf", "rate": "100mbit"})])
        between = fake.read("qdisc", "eth1")

    assert between == gigabit
    assert fake.state == machine()


def test_a_failure_in_the_middle_restores_what_was_done(fake, folder):
    def measure():
        with transaction(fake, folder) as inside:
            inside.apply(SETTINGS)
            raise TimeoutError

    with pytest.raises(TimeoutError):
        measure()

    assert fake.state == machine()


def test_a_full_disk_does_not_keep_settings_from_being_put_back(fake, folder, monkeypatch):
    def full(descriptor, line):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    inside = transaction(fake, folder)
    inside.apply(SETTINGS)
    monkeypatch.setattr(journal, "append_line", full)

    results = inside.restore()

    assert {result.outcome for result in results} == {"restored"}
    assert fake.state == machine()
    assert list(folder.iterdir()) == []


def test_a_disk_that_fills_up_stops_before_the_setting_is_changed(fake, folder, monkeypatch):
    def nearly_full(descriptor, data):
        return write(descriptor, data[: len(data) // 2])

    write = os.write
    inside = transaction(fake, folder)
    inside.apply(SETTINGS[:1])
    monkeypatch.setattr(os, "write", nearly_full)

    with pytest.raises(SettingsError, match="No space left on device"):
        inside.apply(SETTINGS[1:])

    monkeypatch.undo()
    assert fake.state[("mtu", "eth1")]["mtu"].active == 1500
    assert {result.outcome for result in inside.restore()} == {"restored"}
    assert fake.state == machine()


def test_a_copy_of_the_transaction_in_a_forked_child_restores_nothing(fake, folder, monkeypatch):
    with transaction(fake, folder) as inside:
        inside.apply(SETTINGS)
        real_pid = os.getpid()

        monkeypatch.setattr(os, "getpid", lambda: real_pid + 1)
        in_child = inside.restore()
        monkeypatch.undo()

        assert in_child == []
        assert fake.state[("mtu", "eth1")]["mtu"].active == 4000


def test_a_journal_that_cannot_be_written_changes_nothing(fake, folder):
    folder.write_text("a file, not a folder")

    with pytest.raises(SettingsError, match="so the setting was not changed") as caught:
        transaction(fake, folder).apply(SETTINGS)

    assert "$ZCDB_STATE" in str(caught.value.hint)
    assert fake.writes == []


def test_an_interface_that_nobody_named_is_refused_before_anything_changes(fake, folder):
    settings = [*SETTINGS, parse_setting("mtu", "eth2", 9000)]

    with pytest.raises(SettingsError, match="settings of eth2 may not be changed"):
        transaction(fake, folder).apply(settings)

    assert fake.writes == []


def test_the_interface_of_the_default_route_is_refused_unless_allowed(fake, folder):
    fake.state[("mtu", "eth0")] = machine()[("mtu", "eth1")]
    setting = parse_setting("mtu", "eth0", 9000)

    with pytest.raises(SettingsError, match=r"eth0 .* carries the default route") as caught:
        transaction(fake, folder).apply([setting])
    with transaction(fake, folder, allow_interfaces=["eth0"]) as allowed:
        (result,) = allowed.apply([setting])

    assert caught.value.hint == "if that is what you want, say --allow-interface eth0"
    assert result.is_as_asked


def kill_at(step, folder, monkeypatch, program):
    """Run a program on a new machine and kill it at a step; returns the machine and whether."""
    fake = FakeBackend(Fuse(step))
    with monkeypatch.context() as patch:
        fuse_the_journal(patch, fake.fuse)
        try:
            program(fake)
        except Killed:
            was_killed = True
        else:
            was_killed = False
    fake.fuse = Fuse()
    return fake, was_killed


def test_kill_at_any_step_of_applying_is_undone_at_the_next_start(folder, tmp_path, monkeypatch):
    step, was_killed = 0, True
    while was_killed:
        fake, was_killed = kill_at(
            step, folder, monkeypatch, lambda fake: apply_and_die(fake, folder)
        )

        restorations = NewStart(fake, folder, tmp_path / "root").restore()

        assert fake.state == machine(), f"killed at step {step}"
        assert all(restoration.is_complete for restoration in restorations)
        assert list(folder.glob("*")) == []
        step += 1
    assert step > 6 * len(SETTINGS)


def test_kill_at_any_step_of_restoring_is_finished_at_the_next_start(folder, tmp_path, monkeypatch):
    def program(fake):
        steps, fake.fuse.kill_at = fake.fuse.kill_at, None
        inside = transaction(fake, folder)
        inside.apply(SETTINGS)
        fake.fuse.steps, fake.fuse.kill_at = 0, steps
        inside.restore()

    step, was_killed = 0, True
    while was_killed:
        fake, was_killed = kill_at(step, folder, monkeypatch, program)

        NewStart(fake, folder, tmp_path / "root").restore()

        assert fake.state == machine(), f"killed at step {step}"
        assert list(folder.glob("*")) == []
        step += 1
    assert step > 3 * len(SETTINGS)


def test_a_value_that_the_kernel_bent_before_the_kill_is_undone_too(folder, tmp_path):
    fake = FakeBackend()
    fake.bend[("rings", "eth1", "rx")] = 1024
    # Reads of the setting, of the write before and after: killed before it is read back.
    fake.fuse = Fuse(kill_at=3)
    with pytest.raises(Killed):
        apply_and_die(fake, folder, [parse_setting("rings", "eth1", {"rx": 1000})])
    fake.fuse, fake.bend = Fuse(), {}

    NewStart(fake, folder, tmp_path / "root").restore()

    assert fake.writes[0] == ("rings", "eth1", {"rx": 1000})
    assert fake.state == machine()


def test_what_somebody_changed_since_is_reported_and_left(fake, folder, new_start):
    apply_and_die(fake, folder, [parse_setting("rings", "eth1", {"rx": 64, "tx": 64})])
    fake.write("rings", "eth1", {"rx": 333})

    (restoration,) = new_start.restore()

    assert {value.key: value.outcome for value in restoration.values} == {
        "rx": "changed since",
        "tx": "restored",
    }
    assert [value.sentence for value in restoration.values] == [
        "ring rx of eth1: somebody set 333 since; left so, it was 512 before",
        "ring tx of eth1: 512 again",
    ]
    assert fake.state[("rings", "eth1")]["rx"].active == 333
    assert fake.state[("rings", "eth1")]["tx"].active == 512
    assert new_start.restore() == []


def test_a_dry_run_says_what_would_be_done_and_does_nothing(fake, folder, new_start):
    apply_and_die(fake, folder)
    before = fake.state[("mtu", "eth1")]["mtu"].active
    writes = list(fake.writes)

    (restoration,) = new_start.restore(dry_run=True)

    assert {value.outcome for value in restoration.values} == {"would restore"}
    assert [value.sentence for value in restoration.values if value.kind == "mtu"] == [
        "mtu of eth1: would be 9000 again, is 4000",
        "mtu of eth1: would be 1500 again, is 9000",
    ]
    assert fake.writes == writes
    assert fake.state[("mtu", "eth1")]["mtu"].active == before
    assert len(find_leftovers(folder, new_start.root)) == 1


def test_two_dead_owners_are_undone_newest_first(fake, folder, new_start):
    apply_and_die(fake, folder, [parse_setting("mtu", "eth1", 9000)])
    apply_and_die(fake, folder, [parse_setting("mtu", "eth1", 4000)])

    restorations = new_start.restore()

    assert [value.sentence for restoration in restorations for value in restoration.values] == [
        "mtu of eth1: 9000 again",
        "mtu of eth1: 1500 again",
    ]


def test_a_dry_run_over_two_dead_owners_knows_what_the_first_one_gives_back(
    fake, folder, new_start
):
    apply_and_die(fake, folder, [parse_setting("mtu", "eth1", 9000)])
    apply_and_die(fake, folder, [parse_setting("mtu", "eth1", 4000)])

    restorations = new_start.restore(dry_run=True)

    assert [value.sentence for restoration in restorations for value in restoration.values] == [
        "mtu of eth1: would be 9000 again, is 4000",
        "mtu of eth1: would be 1500 again, is 9000",
    ]


def test_the_journal_of_a_living_owner_is_left_alone(fake, folder):
    apply_and_die(fake, folder)
    writes = list(fake.writes)

    (restoration,) = restore_leftovers(folder, open_backend=lambda _path: fake)

    assert restoration.sentence == f"process {os.getpid()} is at work"
    assert restoration.leftover.state == "owner lives"
    assert fake.writes == writes
    assert len(list(folder.iterdir())) == 1


def test_settings_of_an_earlier_boot_are_dropped(fake, folder, new_start):
    apply_and_die(fake, folder)
    writes = list(fake.writes)
    new_start.reboot()

    (restoration,) = new_start.restore()

    assert restoration.leftover.state == "earlier boot"
    assert restoration.sentence.endswith(
        "8 changes of settings in an earlier boot; the reboot undid that"
    )
    assert fake.writes == writes
    assert list(folder.iterdir()) == []


def test_a_namespace_that_is_gone_needs_nothing_but_the_machine_does(fake, folder, new_start):
    apply_and_die(fake, folder)
    # The kernel gives the inode of a dead namespace to the next one: the cookie tells them apart.
    fake.here = Namespace(fake.here.inode, cookie=2)

    (restoration,) = new_start.restore()

    outcomes = {value.kind: value.outcome for value in restoration.values}
    assert outcomes.pop("irq_affinity") == "restored"
    assert outcomes.pop("governor") == "restored"
    assert set(outcomes.values()) == {"gone"}
    assert restoration.is_complete
    assert restoration.values[0].sentence == (
        "mtu of eth1: nothing to put back, its network namespace is gone"
    )


def test_a_new_interface_of_the_same_name_is_not_touched(fake, folder, new_start):
    apply_and_die(fake, folder, [parse_setting("mtu", "eth1", 9000)])
    fake.indexes["eth1"] = 8

    (restoration,) = new_start.restore()

    assert restoration.values[0].sentence == (
        "mtu of eth1: nothing to put back, the interface is gone"
    )
    assert fake.state[("mtu", "eth1")]["mtu"].active == 9000


def test_what_cannot_be_put_back_now_stays_for_the_next_time(fake, folder, new_start):
    apply_and_die(fake, folder)
    fake.refuse[("mtu", "eth1")] = errno.EBUSY

    (first,) = new_start.restore()
    fake.refuse.clear()
    (second,) = new_start.restore()

    assert not first.is_complete
    assert [v.sentence for v in first.values if v.outcome == "refused"] == [
        "mtu of eth1: cannot be put back to 9000: Device or resource busy",
        "mtu of eth1: cannot be put back to 1500: a later change could not be undone",
    ]
    assert {value.kind for value in second.values} == {"mtu"}
    assert second.is_complete
    assert fake.state == machine()


def test_a_value_that_is_stored_as_before_but_does_not_hold_is_reported(fake, folder, new_start):
    apply_and_die(fake, folder, [parse_setting("feature", "eth1", {"tso": False})])
    fake.write("feature", "eth1", {"tx-checksum-ip-generic": False})

    (restoration,) = new_start.restore()

    assert [v.sentence for v in restoration.values if v.outcome == "refused"] == [
        f"{name} of eth1: cannot be put back to on: it is stored as before, but off holds"
        for name in ("tx-tcp-segmentation", "tx-tcp6-segmentation")
    ]


def test_a_journal_cut_off_in_its_last_line_is_read_up_to_it(fake, folder, new_start):
    apply_and_die(fake, folder, SETTINGS[:2])
    (path,) = folder.iterdir()
    text = path.read_bytes()
    path.write_bytes(text + b'{"seq":2,"kind":"mt')

    (restoration,) = new_start.restore()

    assert restoration.is_complete
    assert fake.state == machine()


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (b"nonsense\n", "line 2 is not JSON"),
        (b"[1]\n", "line 2 is not an object"),
        (b'{"seq":3,"kind":"mtu"}\n', "line 2 makes no sense"),
    ],
)
def test_a_journal_that_makes_no_sense_is_named_and_kept(fake, folder, new_start, line, sentence):
    apply_and_die(fake, folder, SETTINGS[:1])
    (path,) = folder.iterdir()
    header = path.read_bytes().splitlines(keepends=True)[0]
    path.write_bytes(header + line)

    (restoration,) = new_start.restore()

    assert f"{path}: {sentence}" in restoration.sentence
    assert not restoration.is_complete
    assert path.exists()


def test_a_file_of_a_later_form_is_named_and_kept(folder, new_start):
    folder.mkdir()
    path = folder / f"1-1-1{journal.SUFFIX}"
    path.write_text('{"journal":2}\n')

    (restoration,) = new_start.restore()

    assert "form 2 is another version's" in restoration.sentence
    assert path.exists()


def test_an_owner_that_died_before_its_first_line_changed_nothing(folder, new_start):
    folder.mkdir()
    path = folder / f"1-1-1{journal.SUFFIX}"
    path.write_text('{"journal":')

    (restoration,) = new_start.restore()

    assert restoration.sentence == "process 1 changed nothing"
    assert not path.exists()


def test_what_was_set_can_be_checked_again_later(fake, folder):
    inside = transaction(fake, folder)
    inside.apply(SETTINGS[1:2])
    held = inside.check(SETTINGS[1:2])
    fake.state[("mtu", "eth1")]["mtu"] = machine()[("mtu", "eth1")]["mtu"]

    changed = inside.check(SETTINGS[1:2])

    assert held == [[]]
    assert changed == [["mtu of eth1 is 1500, although 9000 was asked for"]]


@pytest.mark.parametrize(
    ("connection", "address"),
    [
        ("192.0.2.7 50022 192.0.2.1 22", "192.0.2.7"),
        ("fe80::1%eth0 50022 fe80::2%eth0 22", "fe80::1%eth0"),
        ("UNKNOWN 65535 UNKNOWN 65535", None),
        ("", None),
    ],
)
def test_the_address_of_the_ssh_connection_is_told_where_there_is_one(connection, address):
    assert control_address({"SSH_CONNECTION": connection}) == address
