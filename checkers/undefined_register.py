"""`undefined-register`: a value that depends on a register before anything has written it.

Detects: registers of PTX that the thread has not written on its path, and whose bits reach something observable: global
memory, control flow, an address, an operand.  A second run follows undefined values bit by bit.
Does not detect: registers that are read only by instructions that discard the value.  In a launch that is too long for
the reference engine to follow undefined values: registers for which other contents give the same results.  Variables of
a Python kernel are 0 before their assignment, as in Numba-CUDA.
Reference: PTX ISA, "Register State Space": registers are not initialized.  The rule is in `reference.undefined`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.checkers import observed
from wsemu.evidence.places import lanes_text
from wsemu.evidence.readings import culprit
from wsemu.model.finding import Finding
from wsemu.model.outcome import Detail
from wsemu.model.remedy import Cures

if TYPE_CHECKING:
    from wsemu.evidence.places import Places
    from wsemu.model.outcome import RawFinding

CODES = ("undefined-register",)
CURES = {
    "undefined-register": Cures(160, "insert move guard unguard"),
}
DETAIL = {
    "undefined-register": Detail(
        {"row": "of the register", **observed.FIELDS}, {"compared": "1: two runs with other contents differ"}
    )
}


def explain(raw: RawFinding, places: Places) -> Finding:
    """Return the finding of a register and of the locations that its value reaches."""
    named = {row: name for row, _, name in places.program.undefined}
    register = f"`{named[raw.detail['row']]}`" if named.get(raw.detail["row"]) else "a register"
    label = f"{observed.text(raw, places)}: {places.who(raw.cta, raw.warp)}, {lanes_text(raw.lanes)}"
    return Finding(
        code=raw.code,
        message=f"{register} is used before anything writes it",
        sites=[places.site(raw.pc, label, cta=raw.cta, warp=raw.warp), *places.callers(raw.pc)],
        notes=["a register holds an arbitrary value until an instruction writes it; 0 was used here"],
        help=f"write {register} on every path that leads here",
        count=raw.count,
        steps=[] if raw.detail.get("compared") else [culprit(raw, places)],
    )
