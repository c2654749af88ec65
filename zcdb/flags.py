"""The registry of flags: codes that warn beside a number, each with its sentence.

A flag never removes a number; it says what to know before believing it.
"""

from __future__ import annotations

TRIAL_FLAGS: dict[str, str] = {
    "ends-share-host": "Sender and receiver share one host: an end is the CPUs it is pinned to,"
    " and receive work may run on the sender's CPU.",
    "ends-share-core": "Sender and receiver run on two threads of one core and slow each other"
    " down.",
    "copied": "Zero copy was asked for, but the kernel says it copied bytes.",
    "proof-unknown": "Nothing on this path proves whether bytes were copied.",
    "steal": "The hypervisor took CPU time during the window; disturbed samples were left out"
    " of the CPU figures.",
    "foreign-load": "Other work took CPU time during the window; disturbed samples were left out"
    " of the CPU figures.",
    "contaminated": "Too few undisturbed samples were left: the CPU figures use all of them.",
    "bracket-drift": "The idle calibration before and after the trial differ by more than"
    " 2 % of the work rate or 0.5 points of the gap share.",
    "mean-median-differ": "Mean and median of the window's samples differ by more than one point:"
    " the load was not steady, or something else ran.",
    "cpu-methods-disagree": "Soaking and /proc/stat differ by more than 5 % and more than"
    " the resolution of the kernel's ticks.",
    "effective-differs": "The kernel changed a value that was asked for; the effective one is"
    " stored.",
    "fewer-passes-than-declared": "The window ended before the declared passes over the file set"
    " were done.",
    "clock-step": "The wall clock was stepped during the trial.",
    "retransmits": "TCP sent segments again during the window.",
    "no-between-boot-estimate": "All trials come from one boot of the machine.",
    "few-repetitions": "Fewer than three repetitions: no interval can be given.",
    "soaker-perturbs": "Throughput with and without the soakers differs by more than 2 %.",
    "verify-failed": "The receiver read bytes that differ from what was sent.",
    "rate-by-pacing": "No token bucket could be made here: the sender's sockets kept the"
    " link's rate themselves.",
    "clock-offset": "The windows of the two hosts may lie more than 1 % of their length apart.",
    "tool-disagrees": "The foreign tool's own figure differs by more than 2 % from what went"
    " through its sockets.",
    "headers-included": "Bytes were counted at the interface: packet headers and whatever else"
    " came through are in them.",
    "throttled": "A core was throttled for its heat during the window: it ran slower than before.",
    "sampling-alias": "Samples are too short for the rhythm in which bytes came: a period in them"
    " may be that of the sampling. Figures of the whole window are not affected.",
    "link-limited": "The link carried its rate: compare what it cost, the throughput says nothing"
    " about the case.",
}
"""Raised by a trial of zcdb's own."""

RUN_FLAGS: dict[str, str] = {
    "environment-changed": "The machine was not the same before and after the run: trials may have"
    " been measured on either.",
    "environment-unchecked": "Whether the machine was the same after the run could not be looked"
    " at.",
    "settings-not-restored": "A setting that the run changed could not be put back.",
}
"""Of a run as a whole, from its readings."""

IMPORT_FLAGS: dict[str, str] = {
    "measured-at-sender": "The tool printed only the sender's own figure: what was handed to the"
    " kernel in the time, not what arrived.",
    "end-unknown": "The text does not say which end printed this figure.",
    "incomplete": "The run did not end by itself, or the text is cut.",
    "confidence-not-met": "The confidence that was asked for was not reached.",
    "cpu-not-believable": "A CPU figure is impossible (negative, or more than the machine has):"
    " left out.",
    "cpu-method-unknown": "The tool does not know how it measured CPU time: the figure is left"
    " out.",
    "cpu-count-not-whole": "Service demand and utilisation do not give a whole number of CPUs:"
    " an interval ended early, or something else ran.",
    "process-cpu": "CPU time of the tool's own process only: no service demand can be made"
    " from it.",
    "unit-mislabelled": "The unit the tool prints is not the unit of the number; the real one"
    " was used.",
    "unit-from-command": "The text gives no unit; it was taken from the command line.",
    "rate-contradicts": "The printed rate and the printed amount over the printed time differ by"
    " more than rounding.",
    "sum-row-wrong": "The printed sum is not the sum of its rows: the rows were used.",
    "both-directions": "The figure adds both directions.",
    "columns-differ": "A row has more or fewer values than there are column names.",
    "columns-assumed": "The column names are cut off: the usual order was assumed.",
    "banner-unknown": "Several tests were announced before their results: which result belongs"
    " to which peer is not known.",
    "test-assumed": "The text does not name the test: it was told from the columns.",
    "streams-assumed": "Rows of one moment were taken as streams of one run; the text does not"
    " say so.",
    "duplicate-keys": "A key occurs more than once in one object: the last value was taken.",
    "not-a-number": "A value is nan or inf: read as not measured.",
    "foreign-text": "Other text stands inside or around the output.",
    "tool-warning": "The tool itself warned.",
    "received-exceeds-sent": "More bytes arrived than were sent in the window: omitted seconds"
    " straggle into the receiver's count.",
    "loss-impossible": "More datagrams lost than sent: the loss and what follows from it are"
    " left out.",
    "jitter-not-believable": "A jitter of many seconds is an uninitialised start value.",
    "datagrams-contradict": "The printed count of datagrams does not fit the printed bytes.",
    "few-observations": "Too few observations for the higher percentiles: they are left out.",
    "rate-rising": "The rate was still rising at the end: the start-up is inside the average.",
    "clock-missing": "The tool wrote no time of day.",
    "multiplexed": "Counters shared the hardware and were scaled up: estimates.",
    "counts-vary": "Repeated runs differ by more than a tenth.",
    "since-boot": "Averages since boot, not of a test.",
    "interface-unknown": "The text does not name the interface.",
    "api-unknown": "The text does not say which call moved the bytes; the command line would.",
    "locale": "Numbers use another country's separators.",
}
"""Raised by reading the output of another tool."""

SOURCE_FLAGS: dict[str, str] = {
    "approximate": "The author gives the figure as approximate.",
    "best-of-sweep": "The author names this value as the best of the sweep.",
    "bimodal-throughput": "The throughput jumped between two values.",
    "contested-combination": "Whether this combination of settings takes effect was disputed.",
    "cpu-bogus": "The author disowns the CPU figure: it misses most of the network work.",
    "from-memory": "The author quotes the figure from memory.",
    "high-variance": "The author reports a range and wonders about its width.",
    "implausible-as-stated": "The figure cannot be right as it is stated.",
    "internal-inconsistency": "Figures of one statement do not fit each other.",
    "kernel-name-odd": "The kernel's name matches no known release.",
    "lower-bound": "The figure is a lower bound.",
    "machine-inferred": "The machine is not named; it was deduced.",
    "machine-unstated": "The machine is not named.",
    "maximum-observed": "The figure is the highest that was seen.",
    "noisy": "The author calls the figure noisy.",
    "periodic-2-slow-1-fast": "The samples repeat: two slow ones and a fast one.",
    "receiver-drops-most": "The receiver dropped most of what was sent.",
    "role-unstated": "Which end was measured is not said.",
    "sum-of-iterations": "The stated figure is a sum over iterations.",
    "superseded": "A later mail corrects this figure; it takes part in no comparison.",
    "table-elided": "The document shows only some of the rows that this figure covers.",
    "throughput-contested": "Others could not reproduce the throughput.",
    "typo": "The document has a typing error here.",
    "unit-unstated": "The unit is not stated.",
    "upper-bound": "The figure is an upper bound.",
    "withdrawn": "The author has withdrawn the figure.",
}
"""Beside figures of published documents."""

FLAGS: dict[str, str] = {**TRIAL_FLAGS, **RUN_FLAGS, **IMPORT_FLAGS, **SOURCE_FLAGS}
"""Code -> sentence, of every flag there is."""


def sentence(code: str) -> str:
    """Return what a flag says.

    Raises:
        KeyError: if the code is not registered.
    """
    return FLAGS[code]
