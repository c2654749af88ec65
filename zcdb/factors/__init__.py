"""Factors: what can vary between cases, the spelling of each value, and the names of cases.

A case is named by the hash of its factors.  A factor at its default does not
enter the hash, so a factor added later never changes the id of an old case;
therefore a default here is for ever, and a rename is an alias.
"""

from zcdb.factors.keys import (
    case_id,
    pairing_hash,
    plan_key,
    varying,
    with_defaults,
    without_defaults,
)
from zcdb.factors.model import ABSENT, UNSTATED, Factor, Factors, FactorValue
from zcdb.factors.registry import FACTORS, MESSAGE_SIZE_LIMIT_BYTES, find
from zcdb.factors.settings import SettingName, setting_name
from zcdb.factors.values import FileSet, display, file_set, normalise, normalise_published

__all__ = [
    "ABSENT",
    "FACTORS",
    "MESSAGE_SIZE_LIMIT_BYTES",
    "UNSTATED",
    "Factor",
    "FactorValue",
    "Factors",
    "FileSet",
    "SettingName",
    "case_id",
    "display",
    "file_set",
    "find",
    "normalise",
    "normalise_published",
    "pairing_hash",
    "plan_key",
    "setting_name",
    "varying",
    "with_defaults",
    "without_defaults",
]
