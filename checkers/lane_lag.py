"""Report phases that only a lagging lane can miss: one that executes an instruction later than the other lanes do.

Detects: phases of mbarriers that only such a lane can miss, or reach too early (rules R1-R3, R5), if nothing else
fails.
Does not detect: such lanes in launches whose control flow depends on atomics, or that fail for another reason: there
the code is `phase-alias`.
Reference: PTX ISA, "mbarrier"; docs/how.md, "Lanes that are taken together".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.checkers import words
from wsemu.model.outcome import Detail
from wsemu.model.remedy import Cures

if TYPE_CHECKING:
    from wsemu.evidence.places import Places
    from wsemu.model.finding import Finding
    from wsemu.model.outcome import RawFinding

DETAIL = {
    "lane-lag": Detail({
        "address": "of the mbarrier", "phase": "that is open, from 0",
        "other_lane": "lane of (1), or of an expectation; -1: there is none",
        "rule": "1 to 3: as of phase-alias, 5: phase-unobserved, 6: uncovered-expectation",
    }, {"unobserved": "1: some schedule has this arrive before the wait that sees the phase before complete"}),
}  # fmt: skip
CODES = tuple(DETAIL)
CURES = {
    "lane-lag": Cures(480, "insert move", inserts=("syncwarp",), ptx=("bar.warp.sync -1;",)),
}
_LAGS = {
    1: "the {noun} of {second} can be counted a phase early, if {first} lags",
    2: "the wait of {second} can come a phase early, if {first} lags",
    3: "{first} can miss {seen}, which it waits for, if it lags",
    5: "{second} can arrive before any thread has observed phase {before} complete, if a lane lags",
    6: "phase {phase} can complete before the bytes of this expectation, if {first} lags",
}
"""message for each `rule` of a lane-lag"""
_LATE = (
    "PTX requires that a wait observes the previous phase before each arrive; here a wait observes it before this "
    "phase completes, but in some schedules after this arrive"
)


def explain(raw: RawFinding, places: Places) -> Finding:
    d, name = raw.detail, words.mbarrier(raw, places)
    phase, lane = d["phase"], d["other_lane"]
    lone = raw.other_pc < 0
    first = f"lane {lane} of {places.who(raw.cta, raw.warp) if lone else words.other(raw, places)}"
    happens = _LAGS[d["rule"]].format(
        noun=words.noun(places, raw.pc), first=first, second=places.who(raw.cta, raw.warp), phase=phase,
        before=phase - 1, seen=f"phase {phase - 1}" if phase else "the phase before the first",
    )  # fmt: skip
    late = first if lane >= 0 else "a lane of this warp"
    meet = words.spell_instruction(places, raw.pc, "bar.warp.sync")
    at = raw.pc if lone else raw.other_pc
    return words.finding(
        raw, places, f"{name}: {happens} behind the lanes of its instruction",
        f"{words.noun(places, raw.pc)} by {words.who(raw, places)}, phase {phase}",
        [
            (
                f"PTX lets the lanes of a warp proceed at different times; if {late} proceeds together with the other "
                "lanes of its instruction, no phase is missed"
            ),
            _LATE if "unobserved" in d else "",
        ],
        f"add {meet} {places.after(at, raw.pc)}, before a lane continues",
        "" if lone else f"{words.noun(places, raw.other_pc)} by {first}",
    )  # fmt: skip
