"""`undefined-behavior`: an instruction whose operands make it undefined in PTX, and for which no other code exists.

Detects: an index of `brx.idx` beyond its targets; lanes that differ at a guarded `bra.uni` or `ret.uni`; a `.noreturn`
function that returns.
Also detects: a strong access in local memory; a destination vector that names an element twice; an unaligned `wmma`
matrix.  Also detects operands of `applypriority`, `createpolicy`, `getctarank`, `tensormap` and
`fence.proxy.tensormap`.  The launch ends at the instruction.
Does not detect: values that PTX leaves unspecified; the table of docs/undefined.md lists how each is treated.
Reference: PTX ISA, the description of the instruction.  The front end emits the test, which ends the run in a trap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.finding import Finding
from wsemu.model.isa import NAMES
from wsemu.model.program import UNDEFINED
from wsemu.model.remedy import Cures

if TYPE_CHECKING:
    from wsemu.evidence.places import Places
    from wsemu.model.settings import Settings

CODES = ("undefined-behavior",)
CURES = {
    "undefined-behavior": Cures(140, "argument constant"),
}


def examine(places: Places, settings: Settings) -> list[Finding]:
    """Return the finding of a launch that ended at undefined behavior.  Operations that are not modeled give no
    finding."""
    outcome, program = places.outcome, places.program
    fields = program.code[outcome.fault_pc]
    if NAMES[int(fields[0])] != "trap" or not program.traps[int(fields[6])].startswith(UNDEFINED):
        return []
    message, note, remedy = program.traps[int(fields[6])].removeprefix(UNDEFINED).split("\n")
    pc, cta, warp = outcome.fault_pc, outcome.cta, outcome.fault_warp
    label = f"executed by {places.who(cta, warp)}"
    return [
        Finding(
            code="undefined-behavior",
            message=message,
            sites=[places.site(pc, label, cta=cta, warp=warp), *places.callers(pc)],
            notes=[note, "this run stopped here"],
            help=remedy,
        )
    ]
