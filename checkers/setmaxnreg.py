"""Registers that warps give and take.

Detects: counts outside 24-256 or no multiple of 8; more given than there are, fewer asked for; parts of a warp.
Does not detect: that the pool is too small: that is a deadlock.
Reference: PTX ISA, "setmaxnreg"; measured rule L2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.checkers import words
from wsemu.model.outcome import Detail

if TYPE_CHECKING:
    from wsemu.evidence.places import Places
    from wsemu.model.finding import Finding
    from wsemu.model.outcome import RawFinding

DETAIL = {
    "setmaxnreg": Detail({
        "count": "registers a thread", "what": "0: the count, 1: the direction, 2: a part of a warp, 3: counts differ",
        "present": "registers a thread that the warp has",
    }),
}  # fmt: skip
CODES = tuple(DETAIL)


def explain(raw: RawFinding, places: Places) -> Finding:
    """The finding of a register count, or of who executes it."""
    d, who = raw.detail, places.who(raw.cta, raw.warp)
    more = words.operation(places, raw.pc).endswith("inc")
    asks = f"{'asks for' if more else 'keeps'} {d['count']} registers a thread"
    if d["what"] == 0:
        message = f"`setmaxnreg` with {d['count']}: no register count that it takes"
        note, help_ = "", "give a multiple of 8 from 24 to 256"
    elif d["what"] == 1:
        wrong = "fewer than" if more else "more than"
        message = f"{who} {asks}, {wrong} the {d['present']} that it has"
        other = words.spelled(places, raw.pc, f"setmaxnreg.{'dec' if more else 'inc'}", str(d["count"]))
        note = "PTX leaves it undefined"
        help_ = f"use {other}, if that is meant; or look at what the warp has asked for before"
    elif d["what"] == 2:
        message = f"`setmaxnreg` is executed by a part of {who}"
        note = "all threads of the warp, and all warps of its warpgroup, must execute the same one"
        help_ = "move it out of the branch, or branch by whole warpgroups of 128 threads"
    else:
        message = f"warps of a warpgroup execute `setmaxnreg` with different counts: {who} {asks}"
        note = "all warps of a warpgroup must execute the same one"
        help_ = "branch by whole warpgroups of 128 threads, each with one count"
    earlier = f"{words.other(raw, places)} executes another one" if raw.other_pc >= 0 else ""
    return words.finding(raw, places, message, f"{words.who(raw, places)} {asks}", [note], help_, earlier)
