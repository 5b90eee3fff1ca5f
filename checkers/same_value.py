"""`same-value-store`: stores of the same value to one location by several threads.

Detects: stores that nothing orders and that write the same value, by warps, lanes or copies, in a launch whose other
accesses are race-free.
Does not detect: lanes of one store that write the same value; that is a note with `--strict`.  In launches of more than
65,536 thread instructions these stores are a `race`.
Reference: PTX ISA, "Memory Consistency Model"; docs/how.md explains why the values are equal in every schedule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.checkers import words
from wsemu.model.effects import PUTS
from wsemu.model.outcome import Detail
from wsemu.model.remedy import Cures

if TYPE_CHECKING:
    from wsemu.evidence.places import Places
    from wsemu.model.finding import Finding
    from wsemu.model.outcome import RawFinding

DETAIL = {
    "same-value-store": Detail({
        "address": "of the first byte that both write", "kind": "WRITE", "other_kind": "WRITE", "size": "bytes a lane",
        "other_cta": "CTA of (1)",
    }),
}  # fmt: skip
CODES = tuple(DETAIL)
CURES = {
    "same-value-store": Cures(470, "guard insert", inserts=("syncthreads", "syncwarp")),
}


def explain(raw: RawFinding, places: Places) -> Finding:
    """Return the finding of two unordered stores of the same value."""
    at = words.quote_element(places, raw.detail["address"], raw.pc)
    one, two = words.other(raw, places), places.who(raw.cta, raw.warp)
    did = f"{two} writes the same value twice" if one == two else f"{one} and {two} write the same value"
    copy = words.noun(places, raw.pc) if words.operation(places, raw.pc) in PUTS else "store"
    return words.finding(
        raw, places, f"{did} to {at}, and nothing orders the stores",
        f"{copy} by {words.who(raw, places)}",
        [
            (
                "PTX calls this a race; here every order leaves the same bytes, and every read of them comes after "
                "both stores"
            ),
        ],
        f"execute {places.near(raw.pc, raw.other_pc)} in one thread only, make the stores atomic, or put a barrier "
        "between (1) and (2)",
        f"{copy} by {one}",
    )  # fmt: skip
