"""Launches that never read the first data of their asynchronous copies.

An edit that lets threads wait for later copies alone may remove the race of a read from the wrong stage: then the
kernel skips the first tile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.effects import find_opcodes
from wsemu.model.isa import NAMES, OPERATIONS, memory_shape

if TYPE_CHECKING:
    from wsemu.model.outcome import Event, Trace
    from wsemu.model.program import Program

_COPIES = find_opcodes(
    lambda row: row.moves.agent and row.moves.unit == "bytes" and row.moves.writes == "shared" and row.reach == "cta"
)
"""operations that copy bytes into shared memory of their own CTA"""
_UNSEEN = find_opcodes(
    lambda row: row.moves.reads == "shared" or (row.moves.writes == "shared" and row.reach != "cta")
) | find_opcodes(lambda row: row.moves.unit in ("tile", "columns"))
"""operations that read shared memory without an access of a thread, or copy to other CTAs"""


def has_simple_copies(program: Program) -> bool:
    """Return whether a program copies asynchronously into shared memory and only loads of threads read the copied
    bytes."""
    return not _COPIES.isdisjoint(program.opcodes) and _UNSEEN.isdisjoint(program.opcodes)


def find_reads(program: Program) -> dict[int, int]:
    """Return the loads and atomics of a program, and their bytes."""
    found = {}
    for pc, row in enumerate(program.code):
        name = NAMES[int(row[0])]
        if OPERATIONS[name].kind in ("load", "atomic"):
            found[pc] = int(memory_shape(name)[1])
    return found


def skips_first_copy(program: Program, trace: Trace) -> bool:
    """Return whether a CTA never reads the bytes of its first copy before another copy replaces them."""
    reads = find_reads(program)
    first: dict[int, Event] = {}
    open_: set[int] = set()
    for event in trace.events:
        if event.kind == "copy":
            known = first.get(event.cta)
            if known is None:
                first[event.cta] = event
                open_.add(event.cta)
            elif event.cta in open_ and _overlap(known, event.place, event.amount):
                return True
        elif event.cta in open_ and event.pc in reads and event.addresses >= 0:
            size, copy = reads[event.pc], first[event.cta]
            if any(_overlap(copy, address, size) for address in trace.lane_addresses(event).values()):
                open_.discard(event.cta)
    return bool(open_) and trace.complete


def _overlap(copy: Event, address: int, size: int) -> bool:
    """Return whether bytes overlap the destination of a copy."""
    return copy.place < address + size and address < copy.place + copy.amount
