"""Settings as factors: what a case asks of each end, how it is held, and put back at any step."""

from __future__ import annotations

import pytest
from settings_support import FakeBackend, Fuse, Killed, NewStart, fuse_the_journal, machine

from zcdb.agent import settings as agent_settings
from zcdb.agent.settings import AgentSettings
from zcdb.errors import HostError, UsageError
from zcdb.host.settings.model import SettingError
from zcdb.records import Environment
from zcdb.runner.case_settings import conflict, touches_network, wanted_settings
from zcdb.runner.hosts import Host
from zcdb.runner.settings import CaseSettings


def asked(factors, end="sender", interfaces=("eth1",)):
    return [(w.kind, w.target, w.value) for w in wanted_settings(factors, end, interfaces)]


# -- what a case asks for ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("factors", "settings"),
    [
        ({"sg": False}, [("feature", "eth1", {"sg": False})]),
        ({"mtu": 9000}, [("mtu", "eth1", 9000)]),
        ({"tcp_wmem": "4096 16384 65536"}, [("sysctl", "net.ipv4.tcp_wmem", "4096 16384 65536")]),
        ({"sysctl.net.core.somaxconn": "9"}, [("sysctl", "net.core.somaxconn", "9")]),
        (
            {"feature.tx-udp-segmentation": True},
            [("feature", "eth1", {"tx-udp-segmentation": True})],
        ),
        ({"ring.rx": 512}, [("rings", "eth1", {"rx": 512})]),
        ({"channels.combined": 2}, [("channels", "eth1", {"combined": 2})]),
        ({"coalescing.adaptive_rx": False}, [("coalescing", "eth1", {"adaptive_rx": False})]),
        ({"coalescing.rx_usecs": 50}, [("coalescing", "eth1", {"rx_usecs": 50})]),
        ({"irq_placement": "0-1"}, [("irq_affinity", "eth1", "0-1")]),
        ({"governor": "performance"}, [("governor", "all", "performance")]),
        ({"link_rate": 10**9}, [("qdisc", "eth1", {"kind": "tbf", "rate": 10**9})]),
        (
            {"link_rate": 10**9, "link_burst": 65536},
            [("qdisc", "eth1", {"kind": "tbf", "rate": 10**9, "burst": 65536})],
        ),
        ({"api": "write", "sndbuf": 65536, "mtu": ""}, []),
    ],
)
def test_each_setting_factor_becomes_a_setting_of_its_kind(factors, settings):
    assert asked(factors) == settings


def test_a_name_with_an_end_is_for_that_end_and_beats_the_one_for_both():
    factors = {"mtu": 1500, "sender.mtu": 9000, "receiver.sg": False}

    assert asked(factors, "sender") == [("mtu", "eth1", 9000)]
    assert asked(factors, "receiver") == [("feature", "eth1", {"sg": False}), ("mtu", "eth1", 1500)]


def test_the_links_rate_is_held_where_the_data_leaves():
    assert asked({"link_rate": 10**8}, "receiver") == []
    assert asked({"receiver.link_rate": 10**8}, "receiver") != []


def test_what_others_need_is_set_first_whatever_the_order_in_the_file():
    names = [
        w.name
        for w in wanted_settings({"tso": True, "tx_checksum": True, "sg": True}, "sender", ["eth1"])
    ]

    assert names == ["sg", "tx_checksum", "tso"]


def test_several_interfaces_are_set_alike_and_a_sysctl_once():
    wanted = asked({"mtu": 9000, "tcp_rmem": "1 2 3"}, interfaces=("eth1", "eth2"))

    assert [target for _, target, _ in wanted] == ["eth1", "eth2", "net.ipv4.tcp_rmem"]


def test_ends_that_share_an_interface_cannot_want_different_values():
    factors = {"sender.mtu": 1500, "receiver.mtu": 9000}
    sender, receiver = (wanted_settings(factors, end, ["lo"]) for end in ("sender", "receiver"))

    assert conflict(sender, receiver) == (
        "sender.mtu and receiver.mtu differ, but both ends share lo"
    )
    assert conflict(sender, sender) is None


@pytest.mark.parametrize(
    ("factors", "is_network"),
    [({"sg": True}, True), ({"governor": "performance"}, False), ({"api": "write"}, False)],
)
def test_only_some_settings_belong_to_a_network_namespace(factors, is_network):
    assert touches_network(factors) is is_network


# -- holding them on agents -------------------------------------------------------------------


class Agent:
    """An agent on a machine of dictionaries."""

    def __init__(self, fake):
        self.settings = AgentSettings(lambda: fake)
        self.hello = {"boot_id": "b", "cores": [[0]]}
        self.applied = 0

    def request(self, op, timeout_s=0.0, **arguments):
        if op == "apply_settings":
            self.applied += 1
            return self.settings.apply(**arguments)
        return {"check_settings": self.settings.check, "restore_settings": self.settings.restore}[
            op
        ]()


def host(agent, interface="eth1"):
    return Host(agent, (interface,), {"inet": ("10.0.0.1",)}, Environment({}), {})


@pytest.fixture
def fake(tmp_path, monkeypatch):
    monkeypatch.setenv("ZCDB_STATE", str(tmp_path))
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    monkeypatch.setattr(agent_settings, "interface_irqs", lambda interface: [41])
    return FakeBackend()


@pytest.fixture
def agent(fake):
    return Agent(fake)


@pytest.fixture
def held(agent):
    """Settings of cases whose both ends are one agent, as on a loopback link."""
    return CaseSettings({"sender": host(agent), "receiver": host(agent)}, (), lambda text: None)


def test_a_case_gets_its_settings_and_the_record_says_what_was_before(held, fake):
    records = held.apply({"mtu": 9000, "sg": False}).records

    assert fake.state[("mtu", "eth1")]["mtu"].active == 9000
    assert records["sender"]["mtu"] == {
        "asked": 9000,
        "target": "eth1",
        "before": {"mtu": 1500},
        "effective": {"mtu": 9000},
    }
    assert records["sender"]["sg"]["effective"] == {"tx-scatter-gather": False}
    assert records["receiver"] == {}
    held.restore()
    assert fake.state == machine()


def test_the_next_case_with_the_same_settings_keeps_them(held, agent):
    first = held.apply({"api": "write", "mtu": 9000})
    second = held.apply({"api": "send", "mtu": 9000})

    assert second.records == first.records
    assert agent.applied == 1


def test_the_next_case_without_them_finds_the_machine_as_it_was(held, fake):
    held.apply({"mtu": 9000})
    held.apply({"sg": False})

    assert fake.state[("mtu", "eth1")]["mtu"].active == 1500
    held.apply({"api": "write"})
    assert fake.state == machine()


def test_a_value_that_somebody_changed_meanwhile_fails_the_next_trial(held, fake):
    held.apply({"mtu": 9000})
    fake.state[("mtu", "eth1")]["mtu"] = machine()[("mtu", "eth1")]["mtu"]

    with pytest.raises(HostError, match="mtu of eth1 is 1500, although 9000 was asked for"):
        held.apply({"mtu": 9000})


def test_a_refused_value_makes_the_case_unsupported_and_leaves_nothing(held, fake):
    fake.refuse[("mtu", "eth1")] = 16

    reason = held.unsupported({"mtu": 9000, "sg": False})

    assert reason == "mtu of eth1 cannot be 9000: Device or resource busy"
    assert fake.state == machine()


def test_a_value_that_the_kernel_changes_makes_the_case_unsupported(held, fake):
    fake.bend[("rings", "eth1", "rx")] = 1024

    assert held.unsupported({"ring.rx": 1000}) == (
        "ring rx of eth1 is 1024, although 1000 was asked for"
    )


def test_values_that_undo_each_other_make_the_case_unsupported(held):
    reason = held.unsupported({"tso": True, "sg": False})

    assert "it needs tx-scatter-gather, which is off" in reason


def test_each_set_of_settings_is_tried_once(held, agent):
    for api in ("write", "send"):
        assert held.unsupported({"api": api, "mtu": 9000}) is None

    assert agent.applied == 1


def test_the_interface_of_the_default_route_is_refused_unless_allowed(agent, fake):
    fake.state[("mtu", "eth0")] = machine()[("mtu", "eth1")]
    ends = {"sender": host(agent, "eth0"), "receiver": host(agent, "eth0")}

    with pytest.raises(HostError, match="it carries the default route") as caught:
        CaseSettings(ends, (), lambda text: None).unsupported({"mtu": 9000})
    allowed = CaseSettings(ends, ("eth0",), lambda text: None).unsupported({"mtu": 9000})

    assert "--allow-interface eth0" in caught.value.hint
    assert allowed is None


def test_a_value_that_makes_no_sense_is_the_users_error(held):
    with pytest.raises(SettingError, match="'soon' is not a CPU list") as caught:
        held.unsupported({"irq_placement": "soon"})

    assert isinstance(caught.value, UsageError)


def test_an_interface_without_interrupts_says_so(held, monkeypatch):
    monkeypatch.setattr(agent_settings, "interface_irqs", lambda interface: [])

    assert held.unsupported({"irq_placement": "0"}) == (
        "eth1 has no interrupts of its own that could be placed"
    )


def test_all_interrupts_of_the_interface_are_placed(held, fake):
    records = held.apply({"irq_placement": "1"}).records

    assert records["sender"]["irq_placement"]["before"] == {"41": "0-1"}
    assert fake.state[("irq_affinity", "41")]["cpus"].active == "1"


def test_a_rate_that_no_qdisc_can_hold_is_held_by_pacing_and_said(held, fake):
    fake.refuse[("qdisc", "eth1")] = 95

    result = held.apply({"link_rate": 10**9, "mtu": 9000})

    assert result.pacing_bps == 10**9
    record = result.records["sender"]["link_rate"]
    assert (record["effective"], record["by"]) == (None, "pacing")
    assert "Operation not supported" in record["reason"]
    assert held.apply({"link_rate": 10**9, "mtu": 9000}).pacing_bps == 10**9
    held.restore()
    assert fake.state == machine()


def test_a_governor_changes_what_idle_is_and_an_mtu_does_not(held):
    assert not held.apply({"mtu": 9000}).changes_idle
    assert held.apply({"governor": "performance"}).changes_idle
    assert not held.apply({"governor": "performance"}).changes_idle
    assert held.apply({"mtu": 9000}).changes_idle


def test_what_could_not_be_put_back_fails_the_next_case_and_is_kept_for_the_record(held, fake):
    held.apply({"mtu": 9000})
    fake.refuse[("mtu", "eth1")] = 16

    with pytest.raises(HostError, match="settings of the case before are still changed"):
        held.apply({"sg": False})

    assert held.not_restored == ["mtu of eth1: cannot be put back to 1500: Device or resource busy"]


def test_the_run_records_what_was_changed_and_not_what_was_refused(held, fake):
    fake.refuse[("mtu", "eth1")] = 16
    held.unsupported({"mtu": 9000})
    held.unsupported({"sg": False})

    assert [list(one["sender"]) for one in held.readings()] == [["sg"]]


def two_ends(fake, other):
    return CaseSettings(
        {"sender": host(Agent(fake)), "receiver": host(Agent(other))}, (), lambda text: None
    )


def test_both_ends_are_set_and_put_back(fake):
    other = FakeBackend()
    ends = two_ends(fake, other)

    records = ends.apply({"mtu": 9000, "receiver.gro": True}).records

    assert other.state[("mtu", "eth1")]["mtu"].active == 9000
    assert set(records["receiver"]) == {"mtu", "gro"}
    ends.restore()
    assert (fake.state, other.state) == (machine(), machine())


def test_if_one_end_refuses_the_other_is_put_back(fake):
    other = FakeBackend()
    other.refuse[("mtu", "eth1")] = 16

    with pytest.raises(HostError, match="cannot be 9000"):
        two_ends(fake, other).apply({"mtu": 9000})

    assert fake.state == machine()


def test_two_ends_on_one_machine_that_undo_each_other_are_found_out(fake):
    reason = two_ends(fake, fake).unsupported({"sender.mtu": 9000, "receiver.mtu": 4000})

    assert reason == "mtu of eth1 is 4000, although 9000 was asked for"
    assert fake.state == machine()


# -- killed at any step -----------------------------------------------------------------------

CASES = [
    {"sg": False, "tx_checksum": False, "mtu": 9000},
    {"link_rate": 10**9, "mtu": 9000},
    {"tcp_wmem": "4096 16384 65536", "irq_placement": "1", "governor": "performance"},
]


def run_of_cases(fake):
    held = CaseSettings(
        {"sender": host(agent := Agent(fake)), "receiver": host(agent)}, (), lambda text: None
    )
    for case in CASES:
        held.unsupported(case)
    for case in CASES * 2:
        held.apply(case)
    held.restore()


def steps_of_a_run(fake, monkeypatch):
    with monkeypatch.context() as patch:
        fuse_the_journal(patch, fake.fuse)
        run_of_cases(fake)
    steps, fake.fuse = fake.fuse.steps, Fuse()
    return steps


def test_a_run_that_is_killed_at_any_step_leaves_what_the_next_start_undoes(
    fake, tmp_path, monkeypatch
):
    new_start = NewStart(fake, tmp_path / "settings", tmp_path / "root")
    steps = steps_of_a_run(fake, monkeypatch)
    assert fake.state == machine()

    for step in range(0, steps, 5):
        fake.fuse = Fuse(step)
        with monkeypatch.context() as patch:
            fuse_the_journal(patch, fake.fuse)
            with pytest.raises(Killed):
                run_of_cases(fake)
        fake.fuse = Fuse()
        new_start.restore()
        assert fake.state == machine(), f"killed at step {step} of {steps}"
        assert list((tmp_path / "settings").iterdir()) == [], f"killed at step {step}"
