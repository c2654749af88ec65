"""Whether the sender's bytes were really not copied, and what proves it.  Pure.

Three labels.  *proven*: something says that no byte was copied.  *copied*: the
API copies, or something says that bytes were.  *unknown*: nothing says either.
Without proof nothing is called zero-copy.

What proves it depends on the API (`engine.apis`):

- completions of MSG_ZEROCOPY, and io_uring's usage report, say for each send
  whether the kernel copied after all.  They say so when the copy is made, so a
  copy further down goes unsaid: an interface without scatter-gather has each
  packet made one piece, and one without checksum offload has packets with shared
  pages made one piece before the sum is taken (net/core/dev.c, skb_checksum_help).
  There the report is no proof;
- sendfile and splice say nothing.  The kernel hands their pages on as they are if
  the interface has scatter-gather, else it copies (net/ipv4/tcp.c,
  MSG_SPLICE_PAGES); without checksum offload it copies for the reason above.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from zcdb import units
from zcdb.engine.apis import SENDER_APIS
from zcdb.ids import Json

Label = Literal["proven", "copied", "unknown"]

REPORTS = ("completions", "usage report")
"""The methods by which the kernel itself says of each send whether it copied."""


@dataclass(frozen=True, slots=True)
class Path:
    """What the sender's interfaces do; None where it was not read."""

    sg: bool | None
    tx_checksum: bool | None

    @property
    def is_known(self) -> bool:
        """True if both were read."""
        return self.sg is not None and self.tx_checksum is not None


@dataclass(frozen=True, slots=True)
class Proof:
    """What is known about copying in a trial.

    Attributes:
        is_asked: the API is one that should not copy.
        method: what was looked at: "completions", "usage report", "offloads of the path",
            "the API", "nothing".
        bytes_completed: bytes about which something is known.
        bytes_copied: of those; None where nothing is known.
        sentence: the same for people.
    """

    label: Label
    is_asked: bool
    method: str
    bytes_completed: int
    bytes_copied: int | None
    sentence: str

    @property
    def proven_share(self) -> float | None:
        """Share of the bytes that are proven not copied; None if nothing is known."""
        if self.bytes_copied is None or not self.bytes_completed:
            return None
        return 1 - self.bytes_copied / self.bytes_completed

    def to_json(self) -> dict[str, Json]:
        """Return the form in which a trial's counts hold it."""
        return {
            "label": self.label,
            "is_asked": self.is_asked,
            "method": self.method,
            "bytes_completed": self.bytes_completed,
            "bytes_copied": self.bytes_copied,
            "sentence": self.sentence,
        }


def prove(api_name: str, sent: Mapping[str, int], path: Path) -> Proof:
    """Return what a window proves.

    Args:
        api_name: a value of the factor `api`.
        sent: growth of the sender's counters: payload_bytes, calls, completions, copied.
        path: the offloads that held at both ends of the window.
    """
    payload_bytes = sent.get("payload_bytes", 0)
    api = SENDER_APIS.get(api_name)
    if api is None:
        return _unknown("nothing", f"nothing says whether {api_name} copied")
    if api.proof == "parts":
        return _unknown("nothing", "what the parts of a mix copied is not told apart")
    if api.proof == "completions":
        return _reported(api_name, "completions", sent, path)
    if api.proof == "usage-report":
        return _reported(api_name, "usage report", sent, path)
    if api.proof == "path":
        return _by_path(api_name, payload_bytes, path)
    return Proof(
        "copied", False, "the API", payload_bytes, payload_bytes, f"{api_name} copies every byte"
    )


def _unknown(method: str, why: str) -> Proof:
    return Proof("unknown", True, method, 0, None, why)


def _reported(api_name: str, method: str, sent: Mapping[str, int], path: Path) -> Proof:
    """Judge by what the kernel said of each send."""
    completions, copied = sent.get("completions", 0), sent.get("copied", 0)
    if not completions:
        return _unknown(method, "no completion arrived within the window")
    if path.sg is False:
        return _unknown(
            method,
            "the sender's interface has scatter-gather off: packets are copied where no"
            " completion says so",
        )
    # Every call moves one message, and each completion is of one call.
    calls = max(sent.get("calls", 0), completions)
    bytes_completed = sent.get("payload_bytes", 0) * completions // calls
    bytes_copied = bytes_completed * copied // completions
    if copied:
        part = "all" if copied >= completions else units.format_ratio(copied / completions)
        sentence = (
            f"the kernel says that it copied the bytes of {part} of {completions} completions"
        )
        return Proof("copied", True, method, bytes_completed, bytes_copied, sentence)
    if not path.is_known:
        return _unknown(
            method, "no completion says that it copied, but the path's offloads were not read"
        )
    if not path.tx_checksum:
        return _unknown(
            method,
            "the sender's interface has checksum offload off: packets are copied where no"
            " completion says so",
        )
    sentence = f"none of {completions} completions of {api_name} says that the kernel copied"
    return Proof("proven", True, method, bytes_completed, 0, sentence)


def _by_path(api_name: str, payload_bytes: int, path: Path) -> Proof:
    """Judge by what the kernel does with shared pages on such a path."""
    method = "offloads of the path"
    if not path.is_known:
        return _unknown(method, "the offloads of the path were not looked at")
    missing = [
        name
        for name, is_on in (("scatter-gather", path.sg), ("checksum offload", path.tx_checksum))
        if not is_on
    ]
    if missing:
        sentence = f"without {' and '.join(missing)} the kernel copies what {api_name} sends"
        return Proof("copied", True, method, payload_bytes, payload_bytes, sentence)
    sentence = (
        f"scatter-gather and checksum offload were on: the pages of {api_name} went to the"
        " interface as they are"
    )
    return Proof("proven", True, method, payload_bytes, 0, sentence)
