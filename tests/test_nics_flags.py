"""The rules for flags of the net_device, each on a driver made for it."""

from __future__ import annotations

import pytest
from nics_support import driver_source, facts_of, line_of, probe_facts


def test_flags_set_before_registration_are_there_for_every_device():
    source = driver_source(
        "netdev->hw_features = NETIF_F_SG | NETIF_F_TSO;\n"
        "\tnetdev->features = netdev->hw_features | NETIF_F_HIGHDMA;"
    )

    facts = facts_of(source)

    assert [(facts[key].value, facts[key].default) for key in ("sg", "tso", "highdma")] == [
        ("yes", "on"),
        ("yes", "on"),
        ("yes", "fixed"),
    ]
    assert facts["sg"].evidence[0].line == line_of(source, "NETIF_F_SG")
    assert facts["sg"].evidence[0].path == "drivers/net/ethernet/acme/card.c"
    assert len(facts["sg"].evidence[0].line_hash) == 8
    assert facts["lro"].value == "no"


def test_a_flag_only_in_hw_features_is_off_until_switched_on():
    facts = probe_facts("netdev->hw_features = NETIF_F_RXCSUM;")

    assert (facts["rxcsum"].value, facts["rxcsum"].default) == ("yes", "off")


def test_features_copied_before_the_flag_was_added_leave_it_off():
    facts = probe_facts(
        "netdev->hw_features = NETIF_F_SG;\n"
        "\tnetdev->features |= netdev->hw_features;\n"
        "\tnetdev->hw_features |= NETIF_F_RXCSUM;"
    )

    assert (facts["sg"].default, facts["rxcsum"].default) == ("on", "off")


def test_a_condition_on_the_chip_makes_some_and_names_what_it_tests():
    facts = probe_facts("if (card->rev >= CARD_REV_2)\n\t\tnetdev->features |= NETIF_F_TSO;")

    assert facts["tso"].value == "some"
    assert facts["tso"].conditions == ("CARD_REV_2", "rev")
    assert facts["tso"].condition_class == "chip"


def test_both_branches_setting_a_flag_make_it_unconditional():
    facts = probe_facts(
        "if (card->rev > 1)\n\t\tnetdev->features = NETIF_F_SG | NETIF_F_TSO;\n"
        "\telse\n\t\tnetdev->features = NETIF_F_SG;"
    )

    assert (facts["sg"].value, facts["tso"].value) == ("yes", "some")


def test_a_later_clear_takes_a_flag_from_some_devices():
    facts = probe_facts(
        "netdev->features = NETIF_F_SG | NETIF_F_RXCSUM;\n"
        "\tif (card->caps & CARD_RX_BROKEN)\n"
        "\t\tnetdev->features &= ~NETIF_F_RXCSUM;"
    )

    assert (facts["sg"].value, facts["rxcsum"].value) == ("yes", "some")
    assert facts["rxcsum"].conditions == ("CARD_RX_BROKEN", "caps")


def test_an_unconditional_clear_takes_a_flag_from_all_devices():
    facts = probe_facts(
        "netdev->features = NETIF_F_SG | NETIF_F_ALL_TSO;\n\tnetdev->features &= ~NETIF_F_TSO_ECN;"
    )

    assert (facts["tso"].value, facts["tso_ecn"].value) == ("yes", "unknown")


def test_overwriting_forgets_what_was_there():
    facts = probe_facts("netdev->features = NETIF_F_HIGHDMA;\n\tnetdev->features = NETIF_F_SG;")

    assert facts["sg"].value == "yes"
    assert facts["highdma"].value == "unknown"


def test_a_mask_sets_nothing():
    facts = probe_facts(
        "netdev->features = NETIF_F_SG | NETIF_F_TSO;\n"
        "\tnetdev->features &= NETIF_F_SG | NETIF_F_LRO;"
    )

    assert facts["sg"].value == "yes"
    assert facts["lro"].value == "no"


def test_code_in_if_0_is_not_there_at_all():
    facts = probe_facts(
        "#if 0\n\tnetdev->features |= NETIF_F_IP_CSUM;\n#endif\n\tnetdev->features |= NETIF_F_SG;"
    )

    assert (facts["sg"].value, facts["ip_csum"].value) == ("yes", "no")


def test_code_under_a_name_that_nothing_defines_is_dead():
    facts = probe_facts("#ifdef CARD_TX_CHECKSUM\n\tnetdev->features |= NETIF_F_IP_CSUM;\n#endif")

    assert facts["ip_csum"].value == "no"


def test_code_under_a_config_option_counts():
    facts = probe_facts(
        "#ifdef CONFIG_CARD_TSO\n\tnetdev->features |= NETIF_F_TSO;\n#endif\n"
        "\tif (IS_ENABLED(CONFIG_CARD_TLS))\n"
        "\t\tnetdev->features |= NETIF_F_HW_TLS_TX;"
    )

    assert (facts["tso"].value, facts["tls_tx"].value) == ("yes", "yes")


@pytest.mark.parametrize("condition", ["ifndef CONFIG_CARD", "ifdef CONFIG_SPARC"])
def test_code_of_another_configuration_is_unknown_and_never_no(condition):
    facts = probe_facts(f"#{condition}\n\tnetdev->features |= NETIF_F_LRO;\n#endif")

    assert facts["lro"].value == "unknown"
    assert "configuration does not reach" in facts["lro"].note


def test_code_under_a_name_that_the_driver_defines_is_read_as_the_driver_is_built():
    facts = probe_facts(
        "#ifndef CARD_OLD\n\tnetdev->features |= NETIF_F_SG;\n"
        "#else\n\tnetdev->features |= NETIF_F_LRO;\n#endif",
        before="#define CARD_OLD 1",
    )

    assert (facts["lro"].value, facts["sg"].value) == ("yes", "unknown")


def test_a_comment_sets_nothing():
    facts = probe_facts("/* NETIF_F_LRO would be nice */ // NETIF_F_GRO_HW\n\t;")

    assert (facts["lro"].value, facts["gro_hw"].value) == ("no", "no")


def test_macros_of_driver_and_kernel_are_followed():
    facts = probe_facts(
        "netdev->features = CARD_OFFLOADS;",
        before="#define CARD_OFFLOADS (CARD_CSUM | \\\n\tNETIF_F_ALL_TSO)\n"
        "#define CARD_CSUM NETIF_F_HW_CSUM\n",
    )

    present = [key for key in ("hw_csum", "tso", "tso6", "tso_ecn") if facts[key].value == "yes"]

    assert present == ["hw_csum", "tso", "tso6", "tso_ecn"]


def test_an_accumulator_carries_flags_with_their_conditions():
    facts = probe_facts(
        "netdev_features_t wanted = NETIF_F_SG;\n\n"
        "\tif (card->caps & CARD_CAP_TSO)\n\t\twanted |= NETIF_F_TSO;\n"
        "\tnetdev->hw_features |= wanted;"
    )

    assert (facts["sg"].value, facts["tso"].value) == ("yes", "some")


def test_the_conditional_operator_is_a_branch():
    facts = probe_facts("netdev->features |= card->rev ? NETIF_F_HW_CSUM : NETIF_F_IP_CSUM;")

    assert (facts["hw_csum"].value, facts["ip_csum"].value) == ("some", "some")


def test_a_called_function_sets_flags_through_its_own_pointer():
    facts = probe_facts(
        "card_offloads(card, &netdev->hw_features);",
        before="static void card_offloads(struct card *card, netdev_features_t *to)"
        "\n{\n\tif (card->rev < 2)\n\t\treturn;\n\t*to |= NETIF_F_TSO;\n}\n",
    )

    assert facts["tso"].value == "some"
    assert facts["tso"].conditions == ("rev",)


def test_a_field_of_the_drivers_own_takes_flags_from_its_tables():
    facts = probe_facts(
        "netdev->features |= card->type->offloads;",
        before="struct card_type { netdev_features_t offloads; };\n"
        "static const struct card_type card_old = {\n\t.offloads = NETIF_F_SG,\n};\n"
        "static const struct card_type card_new = {\n"
        "\t.offloads = NETIF_F_SG | NETIF_F_TSO,\n};\n",
    )

    assert (facts["sg"].value, facts["tso"].value) == ("yes", "some")


def test_a_field_set_in_another_function_is_known():
    facts = probe_facts(
        "netdev->features |= card->offloads;",
        before="static void card_caps(struct card *card)\n{\n\tcard->offloads = NETIF_F_SG;\n}\n",
    )

    assert facts["sg"].value == "yes"


def test_a_private_field_called_features_is_no_net_device():
    facts = probe_facts("card->features = NETIF_F_LRO;", before="struct card2 { u64 features; };\n")

    assert facts["lro"].value == "unknown"


def test_a_condition_that_guards_registration_too_does_not_count():
    source = driver_source().replace(
        "netdev = alloc_etherdev(sizeof(*card));",
        "if (id->driver_data & CARD_IS_BRIDGE)\n\t\treturn 0;\n"
        "\tnetdev = alloc_etherdev(sizeof(*card));\n\tnetdev->features = NETIF_F_SG;",
    )

    facts = facts_of(source)

    assert facts["sg"].value == "yes"


def test_error_checks_do_not_make_a_flag_conditional():
    facts = probe_facts(
        "err = card_reset(card);\n\tif (err)\n\t\tgoto err_free;\n"
        "\tif (!card->caps)\n\t\treturn -EIO;\n"
        "\tnetdev->features |= NETIF_F_SG;"
    )

    assert facts["sg"].value == "yes"


def test_a_failed_step_that_the_driver_survives_is_a_condition():
    facts = probe_facts(
        "err = dma_set_mask(&pdev->dev, DMA_BIT_MASK(64));\n"
        "\tif (!err)\n\t\tnetdev->features |= NETIF_F_HIGHDMA;"
    )

    assert facts["highdma"].value == "some"
    assert facts["highdma"].condition_class == "dma"


@pytest.mark.parametrize("condition", ["netdev->mtu > 1500", "card->xdp_prog", "is_kdump_kernel()"])
def test_conditions_of_the_moment_do_not_count(condition):
    facts = probe_facts(
        "netdev->features = NETIF_F_SG | NETIF_F_LRO;\n"
        f"\tif ({condition})\n\t\tnetdev->features &= ~NETIF_F_LRO;"
    )

    assert facts["lro"].value == "yes"


def test_module_parameters_have_their_defaults():
    facts = probe_facts(
        "if (use_lro)\n\t\tnetdev->features |= NETIF_F_LRO;\n"
        "\tif (no_tso)\n\t\tnetdev->features &= ~NETIF_F_TSO;\n"
        "\telse\n\t\tnetdev->features |= NETIF_F_TSO;",
        before="static bool use_lro = true, no_tso;\n"
        "module_param(use_lro, bool, 0444);\n"
        "module_param(no_tso, bool, 0444);\n",
    )

    assert (facts["lro"].value, facts["tso"].value) == ("yes", "yes")


def test_a_switch_over_chips_makes_some():
    facts = probe_facts(
        "switch (card->rev) {\n\tcase CARD_A:\n\tcase CARD_B:\n"
        "\t\tnetdev->features |= NETIF_F_SG;\n\t\tbreak;\n\tcase CARD_C:\n"
        "\t\tnetdev->features |= NETIF_F_SG | NETIF_F_TSO;\n\t\tbreak;\n\t"
        "default:\n\t\tbreak;\n\t}"
    )

    assert (facts["sg"].value, facts["tso"].value) == ("some", "some")
    assert facts["tso"].conditions == ("rev",)


def test_ndo_fix_features_takes_flags_from_some_devices():
    facts = probe_facts(
        "netdev->hw_features = NETIF_F_HW_CSUM | NETIF_F_SG;",
        before="static netdev_features_t card_fix(struct net_device *dev, netdev_features_t f)\n"
        "{\n\tstruct card *card = netdev_priv(dev);\n\n\tif (!card->tx_engine)\n"
        "\t\tf &= ~NETIF_F_CSUM_MASK;\n\tif (f & NETIF_F_LRO)\n\t\tf &= ~NETIF_F_SG;\n"
        "\treturn f;\n}\n"
        "static const struct net_device_ops card_netdev_ops = {\n"
        "\t.ndo_fix_features = card_fix,\n};\n",
    )

    assert (facts["hw_csum"].value, facts["sg"].value) == ("some", "yes")
    assert facts["hw_csum"].conditions == ("tx_engine",)


def test_alternatives_behind_an_ops_pointer_make_some():
    facts = probe_facts(
        "card->ops->init(netdev);",
        before="struct card_ops { void (*init)(struct net_device *netdev); };\n"
        "static void card_init_a(struct net_device *netdev)\n{\n"
        "\tnetdev->features = NETIF_F_SG;\n}\n"
        "static void card_init_b(struct net_device *netdev)\n{\n"
        "\tnetdev->features = NETIF_F_SG | NETIF_F_TSO;\n}\n"
        "static const struct card_ops card_a = {\n\t.init = card_init_a,\n};\n"
        "static const struct card_ops card_b = {\n\t.init = card_init_b,\n};\n",
    )

    assert (facts["sg"].value, facts["tso"].value) == ("yes", "some")


def test_pf_and_vf_of_one_driver_are_two_kinds_of_device():
    vf = driver_source("netdev->features = NETIF_F_SG;").replace("card_", "cardvf_")
    facts = facts_of(
        driver_source("netdev->features = NETIF_F_SG | NETIF_F_HW_TC;"),
        ("drivers/net/ethernet/acme/vf.c", vf, False),
    )

    assert (facts["sg"].value, facts["hw_tc"].value) == ("yes", "some")


def test_representors_are_not_the_card():
    facts = probe_facts(
        "netdev->features = NETIF_F_SG;",
        before="static int card_rep_probe(struct pci_dev *pdev)\n{\n"
        "\tstruct net_device *netdev = card_rep_alloc(pdev);\n\n"
        "\tnetdev->features = NETIF_F_HW_TC;\n"
        "\treturn register_netdev(netdev);\n}\n",
    )

    assert (facts["sg"].value, facts["hw_tc"].value) == ("yes", "no")


def test_flags_set_after_registration_count():
    facts = probe_facts(
        "netdev->features = NETIF_F_SG;", after="netdev->features |= NETIF_F_HIGHDMA;"
    )

    assert (facts["highdma"].value, facts["highdma"].default) == ("yes", "fixed")


def test_ndo_init_runs_within_registration():
    facts = probe_facts(
        "netdev->netdev_ops = &card_netdev_ops;",
        before="static int card_init(struct net_device *dev)\n{\n"
        "\tdev->features |= NETIF_F_SG;\n\treturn 0;\n}\n"
        "static const struct net_device_ops card_netdev_ops = {\n"
        "\t.ndo_init = card_init,\n};\n",
    )

    assert facts["sg"].value == "yes"


def test_a_helper_library_calls_back_into_the_driver():
    library = (
        "struct helper_info { int (*bind)(struct net_device *net); };\n"
        "int helper_probe(struct usb_interface *intf, const struct usb_device_id *id)\n{\n"
        "\tstruct helper_info *info = (void *)id->driver_info;\n"
        "\tstruct net_device *net = alloc_etherdev(8);\n\n"
        "\tif (info->bind)\n\t\tinfo->bind(net);\n\treturn register_netdev(net);\n}\n"
    )
    driver = (
        "static int stick_bind(struct net_device *net)\n{\n"
        "\tnet->features |= NETIF_F_SG;\n\treturn 0;\n}\n"
        "static const struct helper_info stick_info = {\n\t.bind = stick_bind,\n};\n"
        "static struct usb_driver stick_driver = {\n\t.probe = helper_probe,\n};\n"
        "module_usb_driver(stick_driver);\n"
    )

    facts = facts_of(driver, ("drivers/net/usb/helper.c", library, True))

    assert facts["sg"].value == "yes"


def test_vlan_features_are_not_the_cards():
    facts = probe_facts("netdev->vlan_features = NETIF_F_HIGHDMA;")

    assert facts["highdma"].value == "no"


def test_a_driver_that_copies_every_packet_is_marked():
    facts = probe_facts(
        "netdev->features = NETIF_F_SG | NETIF_F_HW_CSUM | NETIF_F_HIGHDMA;",
        before="static void card_xmit(struct sk_buff *skb, void *buf)\n{\n"
        "\tskb_copy_and_csum_dev(skb, buf);\n}\n",
    )

    assert [facts[key].copies for key in ("sg", "hw_csum", "highdma")] == [True, True, False]


def test_a_flag_set_where_no_rule_looks_is_unknown_and_never_no():
    facts = probe_facts("", before="static u64 card_odd = NETIF_F_LRO;\n")

    assert facts["lro"].value == "unknown"
    assert "NETIF_F_LRO" in facts["lro"].note
    assert facts["lro"].evidence[0].line > 1


def test_xdp_needs_the_bit_and_the_callback():
    bit = "netdev->xdp_features = NETDEV_XDP_ACT_BASIC;"
    ops = (
        "static const struct net_device_ops card_netdev_ops = {\n"
        "\t.ndo_bpf = card_bpf,\n\t.ndo_xsk_wakeup = card_wakeup,\n};\n"
    )

    assert probe_facts(bit, before=ops)["xdp"].value == "yes"
    assert probe_facts(bit)["xdp"].value != "yes"
    assert probe_facts(bit, before=ops)["xsk_zc"].value == "no"


def test_before_xdp_features_the_callbacks_say_what_xdp_can_do():
    source = driver_source(
        before="static const struct net_device_ops card_netdev_ops = {\n"
        "\t.ndo_bpf = card_bpf,\n\t.ndo_xsk_wakeup = card_wakeup,\n};\n"
        "static int card_bpf(int c)\n{\n\treturn c == XDP_SETUP_PROG;\n}\n"
    )

    facts = facts_of(source, has_xdp_features=False)

    assert (facts["xdp"].value, facts["xsk_zc"].value) == ("yes", "yes")


def test_queue_management_ops_may_be_a_table_that_refuses():
    some = probe_facts(
        "if (card->caps & CARD_CAP_QUEUES)\n"
        "\t\tnetdev->queue_mgmt_ops = &card_queue_ops;\n\telse\n"
        "\t\tnetdev->queue_mgmt_ops = &card_queue_ops_unsupp;"
    )

    assert some["queue_mgmt"].value == "some"


def test_a_driver_of_nothing_but_representors_has_them_as_its_own():
    source = driver_source("netdev->features = NETIF_F_SG;").replace("card_", "card_rep_")

    facts = facts_of(source)

    assert facts["sg"].value == "yes"


def test_a_link_has_flags_of_the_device_below_it():
    facts = facts_of(
        "static int card_init(struct net_device *dev)\n{\n"
        "\tstruct net_device *real_dev = card_priv(dev)->real_dev;\n"
        "\tdev->features = real_dev->features & (NETIF_F_SG | NETIF_F_HIGHDMA);\n"
        "\treturn 0;\n}\n"
        "static const struct net_device_ops card_ops = {\n\t.ndo_init = card_init,\n};\n"
        "static int card_newlink(struct net_device *dev)\n{\n"
        "\treturn register_netdevice(dev);\n}\n"
        "static struct rtnl_link_ops card_link = {\n\t.newlink = card_newlink,\n};\n"
    )

    assert (facts["sg"].value, facts["highdma"].value, facts["lro"].value) == ("some", "some", "no")
    assert facts["sg"].conditions == ("features",)


def test_a_macro_that_somebody_uses_may_set_a_flag_and_one_that_nobody_uses_does_not():
    macro = "#define card_say(card) card_report((card), NETIF_F_LRO)\n"

    used = probe_facts("card_say(card);", before=macro)
    unused = probe_facts("", before=macro)

    assert (used["lro"].value, unused["lro"].value) == ("unknown", "no")


def test_flags_for_vlans_that_a_driver_reads_back_may_be_its_own():
    facts = probe_facts(
        "card_vlan(netdev);\n\tcard->caps = netdev->vlan_features;",
        before="void card_other(struct net_device *d)\n{\n\td->vlan_features |= NETIF_F_LRO;\n}\n",
    )

    assert facts["lro"].value == "unknown"


def test_what_a_helper_library_starts_by_itself_is_not_the_drivers():
    library = (
        "static void other_setup(struct net_device *dev)\n{\n"
        "\tdev->features = NETIF_F_LRO;\n\tregister_netdev(dev);\n}\n"
        "void helper(struct net_device *dev)\n{\n\tdev->mtu = 1;\n}\n"
    )
    source = driver_source("netdev->features = NETIF_F_SG;\n\thelper(netdev);")

    facts = facts_of(source, ("drivers/net/helper.c", library, True))

    assert (facts["sg"].value, facts["lro"].value) == ("yes", "no")


def test_what_a_helper_library_exports_may_be_called_through_a_header_that_is_not_read():
    library = (
        "void __helper_flags(struct net_device *dev)\n{\n"
        "\tdev->features |= NETIF_F_LRO;\n}\nEXPORT_SYMBOL_GPL(__helper_flags);\n"
    )
    source = driver_source("netdev->features = NETIF_F_SG;\n\thelper_flags(netdev);")

    facts = facts_of(source, ("drivers/net/helper.c", library, True))

    assert facts["lro"].value != "no"


def test_a_module_parameter_that_the_driver_sets_decides_nothing():
    facts = probe_facts(
        "if (!max_queues)\n\t\tmax_queues = num_online_cpus();\n"
        "\tother = alloc_etherdev_mq(8, max_queues);",
        before="static unsigned int max_queues;\nmodule_param(max_queues, uint, 0);\n"
        "static struct net_device *other;",
    )

    assert facts["mq_alloc"].value in ("yes", "some")


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("if (netdev->features & NETIF_F_LRO)\n\t\tcard->rev = 1;", "no"),
        ("netdev->features &= ~(NETIF_F_SG | NETIF_F_LRO);", "no"),
        ("card->rev = (NETIF_F_LRO | NETIF_F_SG) & netdev->features;", "no"),
        ("if (card->caps & CARD_LRO)\n\t\tcard_switch_on(NETIF_F_LRO);", "unknown"),
        ("if (card->caps & CARD_LRO)\n\t\treturn NETIF_F_LRO;", "unknown"),
        ("netdev->vlan_features |= NETIF_F_LRO;", "no"),
        ("set_bit(NETIF_F_LRO_BIT, card->flags);", "unknown"),
    ],
)
def test_no_is_said_only_where_a_name_can_set_nothing(line, value):
    assert probe_facts(line)["lro"].value == value
