"""`out-of-bounds` and `misaligned`.

Detects: an index outside its dimension (also where the address would still lie inside the array), an address outside
every
array of the launch, a store to a constant or read-only array, a computed negative index that wraps to the array's end
as Numba
lets it, an address that is no multiple of the access's size (16 bytes for a `v4` of float32).
Does not detect: pointer arithmetic that lands inside another part of the same array.
Reference: PTX ISA, "Alignment"; Numba's wraparound indexing.  The compiled tests are `operations.index_address`,
`operations.lane_pattern` and `memory.careful_lane`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wsemu.finding import Finding
from wsemu.places import Places, lanes_text

if TYPE_CHECKING:
    from wsemu.outcome import RawFinding


def explain(raw: RawFinding, places: Places) -> Finding:
    """The finding of an access that had no place in memory, or a place it should not have."""
    if raw.code == "misaligned":
        return _misaligned(raw, places)
    name, verb = places.array_name(raw.pc), places.verb(raw.pc)
    detail = raw.detail
    label = f"{verb} by warp {raw.warp}, {lanes_text(raw.lanes)}"
    help_ = f"guard the access: `if i < {name.strip('`')}.shape[0]:`"
    notes = []
    if detail["readonly"]:
        message = f"store to {name}, which is read-only"
        help_ = "pass a writable array, or store to another one"
        notes.append("the store was left out")
    elif detail["wrapped"]:
        element = places.element(detail["address"], raw.pc)
        message = f"negative index into {name} wraps to `{element}`"
        help_ = "guard the index with `if i >= 0:`, or write a literal negative index if the wrap is meant"
        notes.append("the access was made there, as Numba's code does")
    elif "index" in detail:
        message = f"index {detail['index']} lies outside {name}"
        extent = _extent(raw, places)
        label += f": index {detail['index']}" + (f" of {extent}" if extent else "")
        notes.append(f"the {verb} was left out" + (" and gave 0" if verb == "load" else ""))
    else:
        message = f"{verb} of {detail['size']} bytes outside {name}"
        notes.append(f"the {verb} was left out" + (" and gave 0" if verb == "load" else ""))
    site = places.site(raw.pc, label, cta=raw.cta, warp=raw.warp, index=str(detail.get("index", "")) or None)
    return Finding(
        code=raw.code, message=message, sites=[site, *places.callers(raw.pc)], notes=notes, help=help_, count=raw.count
    )


def _extent(raw: RawFinding, places: Places) -> str:
    """The shape of the array that the access names, for the label."""
    name = places.program.array_of[raw.pc]
    arrays: list[Any] = [*places.arrays, *places.program.shared, *places.program.locals]
    for array in arrays:
        if array.name == name:
            return f"shape {tuple(array.shape)}" if len(array.shape) != 1 else f"{array.shape[0]} elements"
    return ""


def _misaligned(raw: RawFinding, places: Places) -> Finding:
    size = raw.detail["size"]
    element = places.element(raw.detail["address"], raw.pc)
    label = f"{places.verb(raw.pc)} of {size} bytes at `{element}` by warp {raw.warp}, {lanes_text(raw.lanes)}"
    return Finding(
        code=raw.code,
        message=f"access of {size} bytes to {places.array_name(raw.pc)} at an address that is no multiple of {size}",
        sites=[places.site(raw.pc, label, cta=raw.cta, warp=raw.warp), *places.callers(raw.pc)],
        notes=["the hardware raises a misaligned address error"],
        help=f"make the index a multiple of the vector's length, or use narrower accesses than {size} bytes",
        count=raw.count,
    )
