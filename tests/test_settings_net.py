"""Settings of a real veth pair, changed, its owner killed, and looked at from outside."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap

import pytest

pytestmark = [
    pytest.mark.net,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(
        any(shutil.which(tool) is None for tool in ("ip", "ethtool", "tc", "sysctl", "unshare")),
        reason="needs iproute2, ethtool, procps and util-linux",
    ),
]

SETTINGS = """
    from zcdb.host.settings import parse_setting
    SETTINGS = [
        parse_setting("feature", "za", {"sg": False, "tx_checksum": False}),
        parse_setting("mtu", "za", 9000),
        parse_setting("feature", "za", {"tso": False, "gro": True, "tx-udp-segmentation": False}),
        parse_setting("channels", "za", {"tx": 2}),
        parse_setting("qdisc", "za", {"kind": "tbf", "rate": "1gbit"}),
        parse_setting("sysctl", "net.ipv4.tcp_wmem", [4096, 16384, 65536]),
        parse_setting("sysctl", "net.ipv4.conf.za.rp_filter", 2),
        parse_setting("mtu", "za", 4000),
    ]
"""


class World:
    """A network namespace with a veth pair "za" and "zb", which lives as long as its holder."""

    def __init__(self) -> None:
        self.holder = subprocess.Popen(
            ["unshare", "-n", "sh", "-c", "echo ready; exec sleep 300"], stdout=subprocess.PIPE
        )
        assert self.holder.stdout is not None
        assert self.holder.stdout.readline() == b"ready\n"
        self.run("ip link add za type veth peer name zb")
        for name in ("lo", "za", "zb"):
            self.run(f"ip link set {name} up")
        self.run("ip addr add 10.77.1.1/24 dev za")

    def command(self, *words: str) -> list[str]:
        return ["nsenter", f"--net=/proc/{self.holder.pid}/ns/net", *words]

    def run(self, line: str) -> str:
        done = subprocess.run(
            self.command(*line.split()), capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def python(self, script: str) -> object:
        """Run a script in the namespace and return what it prints as JSON."""
        done = subprocess.run(
            self.command(sys.executable, "-c", textwrap.dedent(SETTINGS) + textwrap.dedent(script)),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def outside_view(self) -> dict[str, str]:
        """What the standard tools say, without counters."""
        return {
            "features": self.run("ethtool -k za"),
            "channels": self.run("ethtool -l za"),
            "link": self.run("ip -o link show za").replace(" state UP", ""),
            "qdisc": self.run("tc -d qdisc show dev za").partition(" direct_packets")[0],
            "sysctls": self.run("sysctl net.ipv4.tcp_wmem net.ipv4.conf.za.rp_filter"),
        }

    def end(self) -> None:
        """Let the namespace go.  Idempotent."""
        if self.holder.returncode is None:
            self.holder.kill()
            self.holder.communicate()


@pytest.fixture
def world():
    world = World()
    yield world
    world.end()


KILL_AT_LINE = """
    import os, signal, time
    from zcdb.host.settings import Transaction, journal
    write_line = journal.append_line
    written = 0
    def append_line(descriptor, line):
        global written
        write_line(descriptor, line)
        written += 1
        if written == {lines}:
            os.kill(os.getpid(), signal.SIGKILL)
    journal.append_line = append_line
"""


def apply_and_be_killed(world: World, lines: int | None = None) -> dict[str, str]:
    """Apply settings in the namespace, kill -9 the owner; returns what held meanwhile.

    Args:
        lines: kill when the journal has that many lines; None: when all is applied.
    """
    script = f"""
    {KILL_AT_LINE.format(lines=lines)}
    results = Transaction(["za"]).apply(SETTINGS)
    assert not any(result.problems for result in results), results
    print("applied", flush=True)
    time.sleep(60)
    """
    command = world.command(
        sys.executable, "-c", textwrap.dedent(SETTINGS) + textwrap.dedent(script)
    )
    with subprocess.Popen(command, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        said = owner.stdout.readline()
        meanwhile = world.outside_view()
        owner.kill()
        assert owner.wait(timeout=60) == -signal.SIGKILL
    assert said == (b"applied\n" if lines is None else b"")
    return meanwhile


RESTORE = """
    import json
    from zcdb.host.settings import restore_leftovers
    print(json.dumps([[value.outcome for value in restoration.values]
                      for restoration in restore_leftovers()]))
"""


def restore_from_outside() -> list[dict]:
    """Run `zcdb restore --json` in the machine's own namespace."""
    script = "from zcdb.cli.restore import restore_command; restore_command()"
    done = subprocess.run(
        [sys.executable, "-c", script, "--json"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_everything_is_as_before_after_a_transaction(world):
    before = world.outside_view()

    during = world.python("""
    import json, subprocess
    from zcdb.host.settings import Transaction
    with Transaction(["za"]) as inside:
        results = inside.apply(SETTINGS)
        shown = subprocess.run(["ethtool", "-k", "za"], capture_output=True, text=True).stdout
        qdisc = subprocess.run(["tc", "qdisc", "show", "dev", "za"], capture_output=True, text=True)
    print(json.dumps({"problems": [list(result.problems) for result in results],
                      "features": shown, "qdisc": qdisc.stdout}))
    """)

    assert during["problems"] == [[]] * 8
    assert "\ttx-scatter-gather: off\n" in during["features"]
    assert "rate 1Gbit" in during["qdisc"]
    assert world.outside_view() == before


def test_after_kill_9_restore_in_the_namespace_puts_everything_back(world):
    before = world.outside_view()
    meanwhile = apply_and_be_killed(world)
    left = world.outside_view()

    (outcomes,) = world.python(RESTORE)

    assert left == meanwhile
    assert all(left[name] != before[name] for name in before)
    assert set(outcomes) == {"restored"}
    assert world.outside_view() == before


def test_after_kill_9_restore_reaches_into_the_namespace_from_outside(world):
    before = world.outside_view()
    apply_and_be_killed(world)

    (journal,) = restore_from_outside()

    assert {value["outcome"] for value in journal["values"]} == {"restored"}
    assert world.outside_view() == before


@pytest.mark.parametrize("lines", [3, 4, 9, 14, 17])
def test_kill_9_in_the_middle_of_applying_is_undone(world, lines):
    before = world.outside_view()
    apply_and_be_killed(world, lines)

    restore_from_outside()

    assert world.outside_view() == before
    assert restore_from_outside() == []


@pytest.mark.parametrize("lines", [31, 45, 60])
def test_kill_9_during_a_row_of_trials_is_undone(world, lines):
    before = world.outside_view()
    script = f"""
    {KILL_AT_LINE.format(lines=lines)}
    for trial in range(50):
        with Transaction(["za"]) as inside:
            results = inside.apply(SETTINGS)
            assert not any(result.problems for result in results), results
    """
    killed = subprocess.run(
        world.command(sys.executable, "-c", textwrap.dedent(SETTINGS) + textwrap.dedent(script)),
        timeout=120,
        check=False,
    )

    restore_from_outside()

    assert killed.returncode == -signal.SIGKILL
    assert world.outside_view() == before


def test_a_namespace_that_ended_with_its_processes_needs_nothing(world):
    apply_and_be_killed(world)
    world.end()

    (journal,) = restore_from_outside()

    assert {value["outcome"] for value in journal["values"]} == {"gone"}
    assert restore_from_outside() == []


def test_features_that_were_requested_but_off_are_so_again(world):
    world.run("ethtool -K za sg off")
    before = world.outside_view()
    assert "tx-tcp-segmentation: off [requested on]" in before["features"]
    apply_and_be_killed(world)

    restore_from_outside()

    assert world.outside_view() == before


def test_a_token_bucket_of_somebody_else_is_put_back_exactly(world):
    world.run("tc qdisc add dev za root handle 7: tbf rate 123mbit burst 33333 latency 17ms")
    before = world.outside_view()
    apply_and_be_killed(world)

    restore_from_outside()

    assert world.outside_view() == before


def test_a_qdisc_that_could_not_be_put_back_is_left_alone(world):
    world.run("tc qdisc add dev za root handle 7: htb")
    before = world.outside_view()

    (problems, *_) = world.python("""
    import json
    from zcdb.host.settings import Transaction, parse_setting
    with Transaction(["za"]) as inside:
        (result,) = inside.apply([parse_setting("qdisc", "za", {"kind": "tbf", "rate": "1gbit"})])
    print(json.dumps([result.problems]))
    """)

    assert problems == [
        "qdisc of za stays htb: it has the qdisc htb, which zcdb could not put back"
    ]
    assert world.outside_view() == before


def test_an_mtu_that_would_cost_ipv6_addresses_is_refused(world):
    world.run("ip addr add fd00:77::1/64 dev za nodad")
    # Its own link-local address may still be looking for a duplicate of itself.
    before = world.run("ip -o addr show za").replace(" tentative", "")

    (problems,) = world.python("""
    import json
    from zcdb.host.settings import Transaction, parse_setting
    with Transaction(["za"]) as inside:
        (result,) = inside.apply([parse_setting("mtu", "za", 1000)])
    print(json.dumps([result.problems]))
    """)

    assert problems == [
        "mtu of za cannot be 1000:"
        " below 1280 the kernel removes the interface's IPv6 addresses for good"
    ]
    assert world.run("ip -o addr show za").replace(" tentative", "") == before


def test_a_small_mtu_gives_the_link_local_address_back(world):
    before = world.run("ip -br -6 addr show za")

    world.python("""
    from zcdb.host.settings import Transaction, parse_setting
    with Transaction(["za"]) as inside:
        (result,) = inside.apply([parse_setting("mtu", "za", 576)])
    print(int(result.is_as_asked))
    """)

    assert "fe80:" in before
    assert world.run("ip -br -6 addr show za") == before


GUARD = """
    import json
    from zcdb.host.settings import SettingsError, Transaction, parse_setting
    names = ["za", "zb"]
    environment = {"SSH_CONNECTION": "10.77.9.9 50000 10.77.9.1 22"}
    said = {}
    for name in names:
        try:
            with Transaction(names, environment=environment) as inside:
                inside.apply([parse_setting("mtu", name, 1400)])
                said[name] = None
        except SettingsError as error:
            said[name] = error.message
    print(json.dumps(said))
"""


@pytest.mark.parametrize(
    ("preparation", "reason"),
    [
        ("ip route add default via 10.77.1.9", "the default route"),
        ("ip -6 route add default dev za metric 5", "the default route"),
        ("ip route add 10.77.9.0/24 via 10.77.1.9", "the control connection ($SSH_CONNECTION)"),
        (
            "ip link add mv0 link za type macvlan; ip link set mv0 up;"
            " ip route add default dev mv0",
            "the default route",
        ),
        (
            "ip link add br0 type bridge; ip link set za master br0; ip link set br0 up;"
            " ip route add default dev br0",
            "the default route",
        ),
        (
            "ip route add default nexthop via 10.77.1.8 nexthop via 10.77.1.9",
            "the default route",
        ),
    ],
)
def test_an_interface_that_carries_the_way_here_is_refused(world, preparation, reason):
    for line in preparation.split(";"):
        try:
            world.run(line)
        except AssertionError as error:
            if "not supported" in str(error) or "Unknown device type" in str(error):
                pytest.skip(f"this kernel cannot: {line}")
            raise

    said = world.python(GUARD)

    assert said == {
        "za": f"settings of za may not be changed: it carries {reason}",
        "zb": None,
    }
