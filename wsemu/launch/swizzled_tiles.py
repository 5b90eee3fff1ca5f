"""Notes on tiles of tensor copies whose swizzle does not begin with the tile.

A swizzle permutes units of 16 bytes by the address in shared memory: its pattern repeats every 256, 512 or 1,024 bytes.
A kernel that computes with offsets in the tile reads other elements if the tile begins elsewhere.
Reference: PTX ISA, "Swizzling Modes".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.isa import FIRST_ARRAY, OFFSET_MASK, OPCODE, SEGMENT_SHIFT
from wsemu.model.tensor_map import MAP_BYTES, decode

if TYPE_CHECKING:
    from wsemu.evidence.places import Places
    from wsemu.launch.result import Report
    from wsemu.model.bound import Bound
    from wsemu.model.outcome import Tracer

MOST_INSTRUCTIONS = 20_000
"""maximum warp instructions of a launch that is traced for this"""
_COPIES = frozenset(OPCODE[f"tensor.{what}"] for what in ("load", "store", "reduce", "multicast"))
_MAP = 4
"""field of an instruction with the row of the map's address"""
_ROW = 128
"""distance in bytes after which the pattern of a swizzle changes"""


def add_swizzle_notes(report: Report, bound: Bound, places: Places, trace_of: Tracer) -> Report:
    """Return a report with a note for each copy whose tile begins between two repetitions of its swizzle."""
    repeats = _find_repeats(bound)
    if not repeats or places.outcome.warp_instructions > MOST_INSTRUCTIONS:
        return report
    notes: dict[str, str] = {}
    for event in trace_of(frozenset()).events:
        if event.kind != "copy" or event.pc not in repeats:
            continue
        repeat = repeats[event.pc]
        rest = (event.place & OFFSET_MASK) % repeat
        if rest:
            notes.setdefault(
                places.where(event.pc),
                f"the tile begins {rest} bytes after a multiple of {repeat:,}, at which its swizzle of "
                f"{repeat // 8} bytes begins: the swizzle is that of addresses, not of offsets in the tile",
            )
    more = [f"{where}: {text}" for where, text in notes.items()]
    return report.model_copy(update={"notes": [*report.notes, *more]}) if more else report


def _find_repeats(bound: Bound) -> dict[int, int]:
    """Return the tensor copies with a swizzle, and the bytes after which it repeats, of maps that are parameters."""
    found = {}
    for pc, fields in enumerate(bound.program.code.tolist()):
        if fields[0] not in _COPIES or fields[_MAP] not in bound.rows:
            continue
        address = int(bound.rows[fields[_MAP]][1])
        number, offset = (address >> SEGMENT_SHIFT) - FIRST_ARRAY, address & OFFSET_MASK
        if not 0 <= number < len(bound.segments):
            continue
        decoded = decode(bytes(bound.segments[number][0][offset : offset + MAP_BYTES]))
        if decoded is not None and decoded.swizzle and not decoded.interleave:
            found[pc] = _ROW << decoded.swizzle
    return found
