"""The buying advice: the rules one by one, the founding threads' advice, presets, speeds, pairs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zcdb.experiment import spec
from zcdb.nics.advice import (
    Filters,
    advise,
    known_capabilities,
    preset_filters,
    probed_subjects,
    resolve_kernel,
    shipped_advice,
    shipped_subjects,
    subjects_of_2001,
    why_hidden,
)
from zcdb.nics.advice_measured import Figure, Observation, Observations, bare_name, measured
from zcdb.nics.advice_subjects import Ability, Subject
from zcdb.nics.capabilities import CAPABILITIES
from zcdb.nics.catalogue import load
from zcdb.nics.matrix import Cell, matrix, nearest_kernel, with_probes
from zcdb.nics.matrix_names import products
from zcdb.nics.probe import ProbedClaim
from zcdb.nics.speeds import load_speeds, media_in_name, medium_of, speeds_in_name
from zcdb.nics.usecases import (
    UseCaseError,
    load_cards,
    load_copying,
    load_use_cases,
)
from zcdb.nics.verdicts import RULES, WORDS, Measured, Pair, Verdict, judge

USES = load_use_cases()
FILE_SERVER = USES["file-server"]
THREAD = "lkml-2001-zerocopy"

CYCLONE = "drivers/net/3c59x.c:1306 drivers/net/3c59x.c:1309"
STARFIRE = "drivers/net/starfire.c:130 drivers/net/starfire.c:664"
RTL8139 = "drivers/net/8139too.c:938 drivers/net/8139too.c:1644"

HUNDRED_AND_BELOW = (10_000, 25_000, 40_000, 50_000, 100_000)

EXPECTED_2001 = {
    # card -> verdict; title of a reason -> places among its sources; topic of a remark -> its place
    "3c905c": (
        "recommended",
        {
            "Scatter-gather": {f"{THREAD}:2477-2483", f"{THREAD}:2597-2598", CYCLONE},
            "TX checksum": {f"{THREAD}:2477-2483", f"{THREAD}:2597-2598", CYCLONE},
        },
        {
            "advice": f"{THREAD}:2596-2597",
            "efficiency": f"{THREAD}:2569",
            "zerocopy_effect": f"{THREAD}:2455-2456",
        },
    ),
    "starfire": (
        "conditions",
        {
            "Scatter-gather": {f"{THREAD}:1126-1128", STARFIRE},
            "TX checksum": {f"{THREAD}:1126-1128", STARFIRE},
        },
        {
            "availability": f"{THREAD}:2606",
            "tx_csum_benefit": f"{THREAD}:1176-1177",
            "min_fragment": f"{THREAD}:1190-1192",
        },
    ),
    "8139": (
        "avoid",
        {
            "Scatter-gather": {RTL8139, f"{THREAD}:137-141"},
            "TX checksum": {RTL8139},
        },
        {
            "advice": f"{THREAD}:151-152",
            "copies": f"{THREAD}:155-157",
            "rx_copy": f"{THREAD}:2611-2612",
        },
    ),
    "tulip": (
        "works",
        {
            "Scatter-gather": {"drivers/net/tulip", f"{THREAD}:2541-2542"},
            "TX checksum": {"drivers/net/tulip", f"{THREAD}:2541-2542", f"{THREAD}:2621"},
        },
        {
            "rx_alignment": f"{THREAD}:2621-2623",
            "reputation": f"{THREAD}:2540-2541",
            "half_duplex": f"{THREAD}:2625-2627",
        },
    ),
    "pcnet32": (
        "works",
        {
            "Scatter-gather": {"drivers/net/pcnet32.c"},
            "TX checksum": {"drivers/net/pcnet32.c", f"{THREAD}:2619"},
        },
        {"half_duplex": f"{THREAD}:2625-2627"},
    ),
    "epic100": (
        "works",
        {"Scatter-gather": {"drivers/net/epic100.c"}, "TX checksum": {"drivers/net/epic100.c"}},
        {"rx_alignment": f"{THREAD}:2614-2617"},
    ),
    "sunhme": (
        "recommended",
        {"Scatter-gather": {"drivers/net/sunhme.c:2816 drivers/net/sunhme.c:3030"}},
        {"availability": f"{THREAD}:2608-2609"},
    ),
    "eepro100": (
        "works",
        {"TX checksum": {"drivers/net/eepro100.c", f"{THREAD}:1126-1128"}},
        {},
    ),
    "3c905": ("works", {"TX checksum": {"drivers/net/3c59x.c:1306"}}, {}),
    "acenic": (
        "recommended",
        {"Scatter-gather": {"drivers/net/acenic.c:622"}},
        {"zerocopy_throughput": f"{THREAD}:1936-1939"},
    ),
}


def verdicts_of(use_id: str, kernel: str, filters: Filters | None = None) -> dict[str, Verdict]:
    """Return every verdict of a use from the shipped data alone, by subject."""
    use = USES[use_id]
    chosen = resolve_kernel(load(), kernel)
    advice = advise(use, shipped_subjects(chosen), filters or preset_filters(use, chosen))
    return {one.subject.id: one for group in advice.groups.values() for one in group}


# -- the founding threads --------------------------------------------------------------------------


@pytest.mark.parametrize("card", EXPECTED_2001)
def test_the_founding_threads_advice_is_reached_by_rule_with_its_lines(card):
    word, reasons, remarks = EXPECTED_2001[card]

    verdict = verdicts_of("file-server", "2.4.16")[card]

    assert verdict.word == word
    places = {one.what: {source.place for source in one.sources} for one in verdict.reasons}
    for what, wanted in reasons.items():
        assert wanted <= places[what]
    said = {(one.topic, one.source.place) for one in verdict.subject.remarks}
    assert set(remarks.items()) <= said


def test_every_reason_about_a_card_of_2001_has_a_place_and_a_date():
    for verdict in verdicts_of("file-server", "2.4.16").values():
        for reason in verdict.reasons:
            if reason.tone != "open":
                assert reason.sources, (verdict.subject.id, reason)
            assert all(one.place and one.stated for one in reason.sources)


def test_a_starfire_needs_another_driver_than_the_kernels():
    verdict = verdicts_of("file-server", "2.4.16")["starfire"]
    condition = (
        "not with the driver of Linux 2.4.16 (needs firmware of Adaptec that could not be shipped)"
    )

    in_tree = verdicts_of("file-server", "2.4.16", Filters(in_tree_only=True))["starfire"]

    assert {one.text for one in verdict.reasons if one.tone == "condition"} == {condition}
    assert (in_tree.word, in_tree.rule) == ("works", "need-missing")


def test_what_people_advised_moves_no_verdict():
    claims = [one for one in load().claims if not {"advice", "availability"} & set(one.about)]
    silent = replace(load(), claims=tuple(claims))

    advice = advise(FILE_SERVER, subjects_of_2001(silent, "2.4.16"), Filters())

    words = {one.subject.id: one.word for group in advice.groups.values() for one in group}
    assert {card: words[card] for card in EXPECTED_2001} == {
        card: word for card, (word, _, _) in EXPECTED_2001.items()
    }


def test_no_card_had_zero_copy_in_the_first_kernel_of_2001():
    assert not {
        one.word
        for one in verdicts_of("file-server", "2.4.0").values()
        if one.subject.id == "acenic"
    } & {"recommended", "conditions"}


def test_tso_is_not_expected_of_a_kernel_that_has_none():
    titles = {one.what for one in verdicts_of("file-server", "2.4.16")["3c905c"].reasons}

    assert titles == {"Scatter-gather", "TX checksum"}


def test_every_word_that_means_a_card_stands_in_a_claim():
    said = {claim.nic for claim in load().claims}
    ids = {claim.id for claim in load().claims}

    for card in load_cards():
        assert card.names <= said, card.id
        assert card.meets <= ids, card.id


# -- the rules, one by one -------------------------------------------------------------------------


def subject(**abilities: object) -> Subject:
    """Return a driver with all that a file server needs and expects, unless said otherwise."""
    plain = {key: Ability(key, "no") for key in CAPABILITIES}
    for key in ("sg", "hw_csum", "tso", "mq_alloc"):
        plain[key] = Ability(key, "yes", default="on")
    for key, ability in abilities.items():
        plain[key] = ability if isinstance(ability, Ability) else Ability(key, ability)
    return Subject(
        id="example",
        name="example",
        driver="example",
        kernel="6.12.117",
        attached="pci",
        vendors=(),
        products=(),
        mbit=(10_000,),
        media=("rj45",),
        gone_in="",
        abilities=plain,
        remarks=(),
        measured_as=frozenset(("example",)),
    )


def pair(ratio: float, is_apart: bool | None, size: int | None = 65536) -> Pair:
    return Pair(size, "read_write", "sendfile", ratio, is_apart, 10, "6.12.1", ("a" * 32, "b" * 32))


def measurement(*pairs: Pair) -> Measured:
    return Measured(pairs, 0.1, 0.2, 10, 20, 1, ("6.12.1",), "2026-03-01", ("a" * 32, "b" * 32))


@pytest.mark.parametrize(
    ("abilities", "found", "rule"),
    [
        ({}, None, "all"),
        ({"sg": Ability("sg", "yes", default="off")}, None, "conditions"),
        ({"sg": Ability("sg", "some", condition="depends on the chip: rev")}, None, "conditions"),
        ({"tso": "no"}, None, "conditions"),
        ({"mq_alloc": "unknown"}, None, "conditions"),
        ({"sg": "no"}, None, "need-missing"),
        ({"sg": "not_applicable"}, None, "need-missing"),
        ({"sg": "unknown"}, None, "need-open"),
        ({"hw_csum": "conflict"}, None, "need-open"),
        ({"hw_csum": "unknown", "ip_csum": "yes"}, None, "all"),
        ({"hw_csum": "no", "sg": "unknown"}, None, "need-missing"),
        ({"sg": Ability("sg", "yes", copies=True)}, None, "copies"),
        ({"sg": Ability("sg", "some", copies=True)}, None, "copies"),
        ({}, measurement(pair(0.5, True)), "all"),
        ({}, measurement(pair(1.2, True)), "dearer"),
        ({}, measurement(pair(1.2, True), pair(0.9, True, 1 << 20)), "all"),
        ({}, measurement(pair(0.9, False)), "tie"),
        ({}, measurement(pair(1.3, None)), "all"),
    ],
)
def test_the_first_rule_that_fires_gives_the_verdict(abilities, found, rule):
    verdict = judge(FILE_SERVER, subject(**abilities), found)

    assert verdict.rule == rule
    assert verdict.word == RULES[rule][0]


def test_a_driver_that_a_newer_kernel_dropped_is_to_avoid():
    verdict = judge(FILE_SERVER, replace(subject(), gone_in="7.3.4"))

    assert (verdict.word, verdict.rule) == ("avoid", "gone")
    assert verdict.reasons[0].text == "Linux 7.3.4 has no driver example"


@pytest.mark.parametrize(
    ("found", "at_least", "word"),
    [
        (None, "advertised", "recommended"),
        (None, "probed", "open"),
        (measurement(pair(0.5, True)), "measured", "recommended"),
        (None, "measured", "open"),
    ],
)
def test_weaker_evidence_than_asked_for_is_not_enough(found, at_least, word):
    assert judge(FILE_SERVER, subject(), found, at_least=at_least).word == word


def test_an_undecided_verdict_says_what_is_missing():
    verdict = judge(FILE_SERVER, subject(sg="unknown"))

    assert verdict.missing == (
        "whether it has Scatter-gather: 'zcdb nic' on a machine with the card says it",
        "a measurement of sendfile against read_write over this card",
    )


def test_dma_above_4_gib_that_depends_on_the_host_is_met_by_any_host():
    highdma = Ability("highdma", "some", condition="depends on DMA", condition_class="dma")

    assert judge(USES["bulk-send"], subject(highdma=highdma)).rule == "all"


def test_a_measured_reason_gives_change_size_kernel_n_and_whether_intervals_overlap():
    verdict = judge(FILE_SERVER, subject(), measurement(pair(0.6, True), pair(0.9, False, 4096)))

    texts = [one.text for one in verdict.reasons if one.what == "sendfile, measured"]
    assert texts == [
        "40 % less CPU than read_write at 64 KiB with Linux 6.12.1, n = 10 (intervals apart)",
        "10 % less CPU than read_write at 4 KiB with Linux 6.12.1, n = 10"
        " (intervals overlap: a tie)",
    ]


def test_break_even_is_the_smallest_size_from_which_on_every_larger_one_gains():
    sizes = {4096: (1.2, True), 16384: (0.9, True), 65536: (0.7, True)}
    found = measurement(*(pair(ratio, apart, size) for size, (ratio, apart) in sizes.items()))

    assert found.breaks_even_at == 16384
    assert measurement(pair(0.9, False)).breaks_even_at is None
    assert measurement(pair(0.9, True), pair(1.1, False, 1 << 20)).breaks_even_at is None


# -- filters, groups, order ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("filters", "why"),
    [
        (Filters(), None),
        (Filters(buses=("usb",)), "attached"),
        (Filters(buses=("usb", "pci")), None),
        (Filters(slowest="25g"), "speed"),
        (Filters(fastest="1g"), "speed"),
        (Filters(slowest="10g", fastest="10g"), None),
        (Filters(medium="fibre"), "medium"),
        (Filters(must=("sg", "tso")), None),
        (Filters(must=("xdp",)), "must"),
    ],
)
def test_a_filter_hides_what_it_names_and_counts_it(filters, why):
    assert why_hidden(subject(), filters) == why
    assert advise(FILE_SERVER, [subject()], filters).hidden == ({why: 1} if why else {})


def test_an_unknown_speed_or_medium_hides_nothing():
    unknown = replace(subject(), mbit=(), media=())

    assert why_hidden(unknown, Filters(slowest="100g", medium="fibre")) is None


def test_within_a_verdict_evidence_comes_first_then_what_is_liked_then_speed():
    plain = replace(subject(), id="plain", name="plain")
    fast = replace(plain, id="fast", name="fast", mbit=(100_000,))
    liked = replace(subject(bql="yes"), id="liked", name="liked")
    tested = replace(plain, id="tested", name="tested", mbit=(1000,))

    advice = advise(
        FILE_SERVER,
        [plain, fast, liked, tested],
        Filters(),
        {"tested": measurement(pair(0.5, True))},
    )

    names = [one.subject.name for one in advice.groups["recommended"]]
    assert names == ["tested", "liked", "fast", "plain"]


def test_advice_that_is_kept_is_the_same_as_advice_made_anew():
    probes = {"igb": [ProbedClaim("driver", "igb", "igb", "sg", "no", "", "6.12.1", "x", "2026")]}
    found = {"ixgbe": measurement(pair(1.2, True))}
    filters = Filters(buses=("pci",), must=("tso",))
    kernel = "6.12.117"

    kept = shipped_advice(FILE_SERVER, kernel, filters, found, probes)

    anew = advise(
        FILE_SERVER,
        probed_subjects(kernel, probes),
        filters,
        found,
        known_capabilities(shipped_subjects(kernel)),
    )
    assert kept == anew
    words = {one.subject.id: one.word for group in kept.groups.values() for one in group}
    assert (words["igb"], words["ixgbe"]) == ("open", "avoid")


def test_every_verdict_word_is_a_group_even_without_cards():
    assert list(advise(FILE_SERVER, [], Filters()).groups) == list(WORDS)


def test_the_kernel_that_answers_is_the_newest_that_is_not_newer():
    known = ("6.1.192", "6.12.117", "7.3.4")

    assert nearest_kernel("6.12", known) == "6.12.117"
    assert nearest_kernel("6.12.200", known) == "6.12.117"
    assert nearest_kernel("6.8", known) == "6.1.192"
    assert nearest_kernel("9.0", known) == "7.3.4"
    assert nearest_kernel("5.10", known) is None
    assert resolve_kernel(load(), "2.4.20") == "2.4.16"
    assert resolve_kernel(load(), "") == load().kernels[-1]
    assert resolve_kernel(load(), "newest") is None


@pytest.mark.parametrize(
    ("use", "kernel", "driver", "word"),
    [
        ("file-server", "6.12", "igb", "recommended"),
        ("file-server", "6.12", "mlx5_core", "recommended"),
        ("file-server", "6.12", "r8169", "conditions"),
        ("file-server", "6.12", "s2io", "avoid"),
        ("tls-web", "6.12", "mlx5_core", "conditions"),
        ("tls-web", "6.12", "igb", "works"),
        ("packet", "6.12", "ixgbe", "recommended"),
        ("packet", "6.12", "igb", "works"),
        ("packet", "7.3", "igb", "recommended"),
        ("bulk-receive", "6.1", "bnxt_en", "works"),
        ("bulk-receive", "7.3", "mlx5_core", "conditions"),
        ("time-sync", "6.12", "igc", "recommended"),
        ("home-nas", "6.12", "r8152", "avoid"),
        ("home-nas", "6.12", "atlantic", "recommended"),
        ("vm-host", "6.12", "ixgbe", "conditions"),
    ],
)
def test_the_advice_for_cards_of_today_follows_the_kernels_source(use, kernel, driver, word):
    assert verdicts_of(use, kernel)[driver].word == word


def test_a_home_server_is_not_offered_a_card_of_a_hundred_gigabits():
    assert "mlx5_core" not in verdicts_of("home-nas", "6.12")


# -- presets ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("use", USES)
def test_the_experiment_that_settles_a_use_is_a_sound_one(use):
    experiment = spec.parse(USES[use].experiment_file, f"{use}-nic.toml")

    assert experiment.name == f"{use}-nic"
    assert experiment.link.kind == "hosts"


def test_the_nine_uses_are_versioned():
    assert list(USES) == [
        *("file-server", "tls-web", "bulk-send", "bulk-receive", "packet", "low-latency"),
        *("time-sync", "home-nas", "vm-host"),
    ]
    assert all(use.version >= 1 and use.needs for use in USES.values())


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('["sg", ', '["sgg", ', "unknown word 'sgg'"),
        ('slowest = "1g"', 'slowest = "1 g"', "unknown word '1 g'"),
        ("version = 1", "verson = 1", "unknown key 'verson'"),
        ('buses = ["pci"]\n', "", "lacks 'buses'"),
    ],
)
def test_a_preset_with_a_wrong_word_is_refused_by_name(old, new, says, tmp_path):
    from zcdb.nics.usecases import FOLDER

    text = (FOLDER / "presets.toml").read_text(encoding="utf-8").replace(old, new, 1)
    path = tmp_path / "presets.toml"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(UseCaseError, match=says) as error:
        load_use_cases(path)

    assert "file-server" in str(error.value)


# -- the matrix ------------------------------------------------------------------------------------


def test_no_cell_of_any_kernel_is_blank():
    for kernel in load().kernels:
        for name, row in matrix(kernel).rows.items():
            assert row.cells.keys() == CAPABILITIES.keys(), name
            for cell in row.cells.values():
                assert cell.state in ("yes", "some", "no", "not_applicable", "unknown")
                if cell.state in ("not_applicable", "unknown"):
                    assert cell.why
                if cell.is_present:
                    assert cell.since
                    assert cell.evidence, (kernel, name, cell)


def test_a_cell_knows_since_when_and_whether_an_older_kernel_was_without_it():
    igb = matrix("7.3.4").rows["igb"].cells

    assert (igb["xsk_zc"].since, igb["xsk_zc"].is_first_seen) == ("7.3.4", True)
    assert (igb["sg"].since, igb["sg"].is_first_seen) == ("6.1.192", False)


def test_a_feature_that_the_kernel_does_not_have_yet_is_not_applicable():
    cell = matrix("6.1.192").rows["igb"].cells["netmem_tx"]

    assert (cell.state, cell.why) == ("not_applicable", "no driver of Linux 6.1.192 has it")


def test_what_makes_no_sense_on_a_bus_is_not_applicable():
    assert matrix("6.12.117").rows["r8152"].cells["sriov"].state == "not_applicable"
    assert matrix("6.12.117").rows["veth"].cells["hwts_tx"].state == "not_applicable"


@pytest.mark.parametrize("driver", sorted(load_copying()))
def test_a_driver_that_copies_by_other_means_says_where(driver):
    cell = matrix("6.12.117").rows[driver].cells["sg"]

    assert cell.copies
    assert cell.copying.evidence.startswith("drivers/net/usb/")


def probe(value: str, kernel: str = "6.12.1") -> ProbedClaim:
    about = ("driver", "example", "example", "sg")
    return ProbedClaim(*about, value, "", kernel, "ethtool features", "2026-03-01")


@pytest.mark.parametrize(
    ("state", "probes", "laid_over", "level"),
    [
        ("yes", [], "yes", "advertised"),
        ("yes", [probe("yes")], "yes", "probed"),
        ("some", [probe("no")], "some", "probed"),
        ("yes", [probe("no")], "conflict", "probed"),
        ("no", [probe("yes")], "conflict", "probed"),
        ("no", [probe("yes", kernel="7.0.1")], "no", "advertised"),
        ("unknown", [probe("yes")], "yes", "probed"),
        ("unknown", [probe("yes"), probe("no")], "some", "probed"),
    ],
)
def test_a_probe_confirms_settles_or_contradicts_the_source(state, probes, laid_over, level):
    cell = with_probes(Cell("sg", state, "6.12.117"), probes)

    assert (cell.state, cell.level) == (laid_over, level)


# -- names and speeds ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "mbit", "media"),
    [
        ("BCM57454 NetXtreme-E 10Gb/25Gb/40Gb/50Gb/100Gb Ethernet", HUNDRED_AND_BELOW, ()),
        ("82598EB 10-Gigabit AT CX4 Network Connection", (10_000,), ("direct-attach",)),
        ("Ethernet Controller X710 for 10GbE SFP+", (10_000,), ("fibre",)),
        ("Ethernet Connection I354 2.5 GbE Backplane", (2500,), ("backplane",)),
        ("I210 Gigabit Network Connection", (1000,), ()),
        ("83c170 EPIC/100 Fast Ethernet Adapter", (100,), ()),
        ("3c595 100BaseTX [Vortex]", (100,), ("rj45",)),
        ("DP83820 10/100/1000 Ethernet Controller", (1000,), ()),
        ("MT27800 Family [ConnectX-5]", (), ()),
    ],
)
def test_a_name_gives_the_speeds_and_media_it_states(name, mbit, media):
    assert speeds_in_name(name) == mbit
    assert media_in_name(name) == media


def test_cards_are_named_by_their_chips_the_fastest_first():
    names = [
        "I350 Gigabit Network Connection",
        "Ethernet Controller XL710 for 40GbE QSFP+",
        "X540 Ethernet Controller Virtual Function",
        "MT27800 Family [ConnectX-5]",
        "DSC Ethernet Controller",
        "",
    ]

    assert products(names) == ("XL710", "I350", "ConnectX-5", "DSC Ethernet Controller")


def test_the_medium_of_a_link_mode_is_read_from_its_name():
    assert [medium_of(mode) for mode in ("T", "SR4", "CR2", "KR", "X_GSL")] == [
        *("rj45", "fibre", "direct-attach", "backplane", "fibre")
    ]


def test_speeds_of_the_catalogue_are_of_its_drivers_and_have_a_place():
    known = set(load().driver_names)

    for driver, one in load_speeds().items():
        assert driver in known
        assert one.kernel in load().kernels
        assert one.place.rpartition(":")[2].isdigit()


# -- measurements ----------------------------------------------------------------------------------


def observation(api: str, size: object, cost: tuple[float, float, float], **more: object):
    """Return a case over the example driver, with service demand as (mean, low, high)."""
    factors = {
        "api": api,
        "message_size": size,
        "sender_driver": "example",
        "sender_kernel": "6.12.1",
        **more,
    }
    figures = {("service_demand_sender", "soak"): Figure(10, *cost)}
    key = f"{api}-{size}-{more}"
    return Observation(key, factors, figures, trials=10, hosts=1, newest="2026-03-01")


def found_for(*observations: Observation) -> Measured | None:
    return measured(FILE_SERVER, subject(), Observations(observations))


def test_cases_that_differ_in_the_api_alone_are_a_pair():
    found = found_for(
        observation("read_write", 65536, (0.20, 0.19, 0.21)),
        observation("sendfile", 65536, (0.10, 0.09, 0.11)),
        observation("sendfile", 4096, (0.30, 0.29, 0.31)),
    )

    assert [(one.size, one.ratio, one.is_apart, one.n) for one in found.pairs] == [
        (65536, 0.5, True, 10)
    ]
    assert (found.trials, found.hosts, found.newest) == (30, 1, "2026-03-01")


def test_overlapping_intervals_are_a_tie_and_missing_ones_are_neither():
    tie = found_for(
        observation("read_write", 65536, (0.20, 0.17, 0.23)),
        observation("sendfile", 65536, (0.19, 0.16, 0.22)),
    )
    unknown = found_for(
        observation("read_write", 65536, (0.20, None, None)),
        observation("sendfile", 65536, (0.19, 0.16, 0.22)),
    )

    assert (tie.pairs[0].is_apart, unknown.pairs[0].is_apart) == (False, None)


def test_a_published_size_that_is_unstated_pairs_with_any():
    found = found_for(
        observation("write", 65536, (0.4, None, None)),
        observation("sendfile", "unstated", (0.2, None, None)),
    )

    assert [(one.size, one.copying, one.ratio) for one in found.pairs] == [(None, "write", 0.5)]


@pytest.mark.parametrize(
    "more", [{"sg": False}, {"sender.tx_checksum": False}, {"sender_kernel": "2.4.16"}]
)
def test_cases_without_offloads_or_of_another_time_do_not_count(more):
    assert found_for(observation("sendfile", 65536, (0.1, 0.1, 0.1), **more)) is None


def test_utilisation_stands_in_for_service_demand_at_the_same_throughput_only():
    def published(api: str, utilisation: float, throughput: float) -> Observation:
        figures = {
            ("throughput", ""): Figure(1, throughput, None, None),
            ("utilisation_sender", "soak_work"): Figure(1, utilisation, None, None),
        }
        factors = {"api": api, "sender_driver": "example", "sender_kernel": "6.12.1"}
        return Observation(api, factors, figures, trials=0, hosts=0, newest="2001-01-27")

    same = found_for(published("write", 0.4, 92e6), published("sendfile", 0.2, 92e6))
    other = found_for(published("write", 0.4, 92e6), published("sendfile", 0.2, 60e6))

    assert (same.pairs[0].ratio, other) == (0.5, None)


def test_what_is_said_of_a_driver_in_brackets_is_not_its_name():
    assert bare_name("starfire (modified for hw sg+csum Tx/Rx)") == "starfire"


def test_a_capability_that_nobody_has_is_not_known():
    assert "xdp" not in known_capabilities([subject()])
    assert "sg" in known_capabilities([subject()])
