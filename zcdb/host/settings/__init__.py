"""Settings of this machine as a transaction: journalled, read back, put back.

    wanted = [parse_setting("feature", "eth1", {"sg": False}), parse_setting("mtu", "eth1", 9000)]
    with Transaction(interfaces=["eth1"]) as transaction:
        for effective in transaction.apply(wanted):
            print(effective.effective, effective.problems)

`kinds` says which settings there are, `transaction` applies them, `journal` keeps
what was there before, `undo` plays it backwards, `leftovers` finds what a killed
owner left, `probe` says what can be changed here, `irqs` which interrupts are an
interface's.  Only `backend`'s helper process touches the machine.  This room must
not know experiments or cases.
"""

from zcdb.host.settings.irqs import interface_irqs
from zcdb.host.settings.kinds import KINDS, SHORT_FEATURES, parse_setting
from zcdb.host.settings.leftovers import find_leftovers, restore_leftovers
from zcdb.host.settings.model import (
    Effective,
    Restored,
    Setting,
    SettingError,
    SettingsError,
)
from zcdb.host.settings.probe import probe_settings
from zcdb.host.settings.transaction import Transaction

__all__ = [
    "KINDS",
    "SHORT_FEATURES",
    "Effective",
    "Restored",
    "Setting",
    "SettingError",
    "SettingsError",
    "Transaction",
    "find_leftovers",
    "interface_irqs",
    "parse_setting",
    "probe_settings",
    "restore_leftovers",
]
