"""The registry of flags: codes that warn beside a number, each with its sentence.

A flag never removes a number; it says what to know before believing it.
"""

from __future__ import annotations

FLAGS: dict[str, str] = {
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
}


def sentence(code: str) -> str:
    """Return what a flag says.

    Raises:
        KeyError: if the code is not registered.
    """
    return FLAGS[code]
