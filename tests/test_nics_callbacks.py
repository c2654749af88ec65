"""The rules for ops tables, callbacks and calls, each on a driver made for it."""

from __future__ import annotations

import pytest
from nics_support import driver_source, facts_of, line_of, probe_facts


def ethtool(fields: str, name: str = "card_ethtool_ops") -> str:
    return f"static const struct ethtool_ops {name} = {{\n{fields}}};\n"


SET_COALESCE = """
static int card_set_coalesce(struct net_device *dev, struct ethtool_coalesce *ec)
{
	struct card *card = netdev_priv(dev);

	%s
	card->rx = ec->rx_coalesce_usecs;
	card->tx = ec->tx_coalesce_usecs;
	return 0;
}
"""


def test_a_callback_in_every_table_is_there_for_every_device():
    source = driver_source(before=ethtool("\t.set_ringparam = card_set_ringparam,\n"))

    facts = facts_of(source)

    assert facts["ring_set"].value == "yes"
    assert facts["ring_set"].evidence[0].line == line_of(source, ".set_ringparam")


def test_a_callback_in_one_of_two_tables_is_there_for_some():
    facts = probe_facts(
        "",
        before=ethtool("\t.get_rxfh = card_get_rxfh,\n")
        + ethtool("\t.get_link = card_get_link,\n", "card_vf_ethtool_ops"),
    )

    assert facts["rss_indir"].value == "some"
    assert facts["rss_indir"].conditions == ("get_rxfh",)


def test_tables_of_representors_are_left_out():
    facts = probe_facts(
        "",
        before=ethtool("\t.get_rxfh = card_get_rxfh,\n")
        + ethtool("\t.get_link = card_get_link,\n", "card_rep_ethtool_ops"),
    )

    assert facts["rss_indir"].value == "yes"


def test_a_callback_set_to_null_is_none():
    facts = probe_facts("", before=ethtool("\t.set_ringparam = NULL,\n"))

    assert facts["ring_set"].value == "no"


def test_declared_parameters_that_are_read_can_be_set():
    facts = probe_facts(
        "",
        before=SET_COALESCE % ""
        + ethtool(
            "\t.supported_coalesce_params = ETHTOOL_COALESCE_USECS |\n"
            "\t\tETHTOOL_COALESCE_USE_ADAPTIVE_RX,\n\t.set_coalesce = card_set_coalesce,\n"
        ),
    )

    assert facts["coal_rx_usecs"].value == "yes"
    assert facts["coal_tx_usecs"].value == "yes"
    assert facts["coal_adaptive_rx"].value == "no"
    assert "never read" in facts["coal_adaptive_rx"].note


def test_parameters_that_are_kept_as_a_whole_can_be_set():
    ops = (
        "static int card_set(struct net_device *dev, struct ethtool_coalesce *coal)\n{\n"
        "\tmemcpy(&priv->coal, coal, sizeof(*coal));\n\treturn 0;\n}\n"
        "static const struct ethtool_ops card_ops = {\n"
        "\t.supported_coalesce_params = ETHTOOL_COALESCE_USE_ADAPTIVE_RX,\n"
        "\t.set_coalesce = card_set,\n};\n"
    )

    assert facts_of(driver_source(before=ops))["coal_adaptive_rx"].value == "yes"


def test_a_declaration_without_the_callback_sets_nothing():
    facts = probe_facts(
        "", before=ethtool("\t.supported_coalesce_params = ETHTOOL_COALESCE_RX_USECS,\n")
    )

    assert facts["coal_rx_usecs"].value == "unknown"


@pytest.mark.parametrize(
    ("guard", "value"),
    [
        ("if (card->rev < CARD_REV_2)\n\t\treturn -EOPNOTSUPP;", "some"),
        ("if (ec->rx_coalesce_usecs > 100)\n\t\treturn -EOPNOTSUPP;", "yes"),
        ("if (card->rev < CARD_REV_2)\n\t\treturn -EIO;", "yes"),
        (
            "switch (card->rev) {\n\tcase 1:\n\t\treturn -EOPNOTSUPP;\n\tdefault:\n\t\tbreak;\n\t}",
            "some",
        ),
    ],
)
def test_a_callback_that_refuses_some_devices_makes_some(guard, value):
    facts = probe_facts(
        "",
        before=SET_COALESCE % guard
        + ethtool(
            "\t.supported_coalesce_params = ETHTOOL_COALESCE_USECS,\n"
            "\t.set_coalesce = card_set_coalesce,\n"
        ),
    )

    assert facts["coal_rx_usecs"].value == value


def test_software_time_stamps_are_no_hardware_time_stamps():
    facts = probe_facts("", before=ethtool("\t.get_ts_info = ethtool_op_get_ts_info,\n"))

    assert (facts["hwts_tx"].value, facts["hwts_rx"].value) == ("no", "no")


def test_time_stamps_that_need_a_clock_are_conditional():
    facts = probe_facts(
        "",
        before=(
            "static int card_ts_info(struct net_device *dev,"
            " struct kernel_ethtool_ts_info *info)\n{\n"
            "\tstruct card *card = netdev_priv(dev);\n\n"
            "\tinfo->so_timestamping = SOF_TIMESTAMPING_TX_SOFTWARE;\n"
            "\tif (!card->ptp_clock)\n\t\treturn 0;\n"
            "\tinfo->so_timestamping |= SOF_TIMESTAMPING_TX_HARDWARE;\n\treturn 0;\n}\n"
        )
        + ethtool("\t.get_ts_info = card_ts_info,\n"),
    )

    assert facts["hwts_tx"].value == "some"
    assert facts["hwts_tx"].conditions == ("ptp_clock",)
    assert facts["hwts_rx"].value == "no"


def test_an_rss_table_of_no_entries_is_none():
    facts = probe_facts(
        "",
        before=(
            "static u32 card_rxfh_size(struct net_device *dev)\n{\n"
            "\tstruct card *card = netdev_priv(dev);\n\tu32 size = 0;\n\n"
            "\tif (card->caps & CARD_CAP_MSIX)\n\t\tsize = 128;\n\treturn size;\n}\n"
        )
        + ethtool("\t.get_rxfh = card_get_rxfh,\n\t.get_rxfh_indir_size = card_rxfh_size,\n"),
    )

    assert facts["rss_indir"].value == "some"


def test_header_split_is_what_the_ring_parameters_declare():
    facts = probe_facts(
        "",
        before=ethtool(
            "\t.supported_ring_params = ETHTOOL_RING_USE_TCP_DATA_SPLIT,\n"
            "\t.set_ringparam = card_set_ringparam,\n"
        ),
    )

    assert facts["tcp_data_split"].value == "yes"


def test_sriov_depends_on_the_card():
    facts = probe_facts("", driver=".sriov_configure = card_sriov,")

    assert facts["sriov"].value == "some"


def test_byte_queue_limits_are_a_call():
    source = driver_source(
        before="static void card_xmit(struct netdev_queue *q)\n{\n"
        "\tnetdev_tx_sent_queue(q, 1);\n}\n"
    )

    facts = facts_of(source)

    assert facts["bql"].value == "yes"
    assert facts["bql"].evidence[0].line == line_of(source, "netdev_tx_sent_queue")


def test_a_call_in_a_library_counts_if_the_driver_leads_there():
    library = "void helper_xmit(struct netdev_queue *q)\n{\n\tnetdev_tx_sent_queue(q, 1);\n}\n"
    uses = driver_source(
        before="static void card_xmit(struct netdev_queue *q)\n{\n\thelper_xmit(q);\n}\n"
    )

    assert facts_of(uses, ("drivers/net/h.c", library, True))["bql"].value == "yes"
    assert facts_of(driver_source(), ("drivers/net/h.c", library, True))["bql"].value == "no"


def test_page_pools_of_some_modes_are_conditional():
    facts = probe_facts(
        "",
        before=(
            "static int card_ring_init(struct card *card)\n{\n\tif (card->buffer_manager)\n"
            "\t\treturn 0;\n\tcard->pool = page_pool_create(&card->params);\n"
            "\treturn PTR_ERR_OR_ZERO(card->pool);\n}\n"
            "static int card_open(struct net_device *dev)\n{\n"
            "\treturn card_ring_init(netdev_priv(dev));\n}\n"
            "static const struct net_device_ops card_netdev_ops = {\n\t.ndo_open = card_open,\n};\n"
        ),
    )

    assert facts["page_pool"].value == "some"
    assert facts["page_pool"].conditions == ("buffer_manager",)


@pytest.mark.parametrize(
    ("allocation", "value"),
    [
        ("alloc_etherdev_mq(sizeof(*card), CARD_QUEUES)", "yes"),
        ("alloc_etherdev_mq(sizeof(*card), 1)", "no"),
        ("alloc_etherdev_mqs(sizeof(*card), 1, 8)", "yes"),
        ("alloc_etherdev_mq(sizeof(*card), queues)", "some"),
    ],
)
def test_queue_counts_that_may_be_one_are_conditional(allocation, value):
    source = driver_source(before="#define CARD_QUEUES 8\n").replace(
        "netdev = alloc_etherdev(sizeof(*card));",
        f"int queues = 1;\n\n\tif (id->driver_data)\n\t\tqueues = 8;\n\tnetdev = {allocation};",
    )

    assert facts_of(source)["mq_alloc"].value == value
