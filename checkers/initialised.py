"""`uninitialized-read`: shared or local memory read before anything wrote it.

Detects: byte by byte, a load or atomic of shared memory that no warp of the CTA has stored to, and of local memory
that this thread has not stored to; of an array that the launch is told to take as `uninitialized`, what no warp of the
launch has stored to.
A read that races with what writes these bytes later is told by that race.
Does not detect: reads of other global memory (arguments count as initialised); a store that some other schedule would
order after the read, which is a race; what an atomic exchange returns, since it is also a way to set memory up.
Reference: CUDA C++ Programming Guide, "Shared Memory": contents are undefined at the start of a CTA.  The compiled test
is `memory.track_initialised`.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from wsemu.bytecode import FIRST_ARRAY, LOCAL
from wsemu.finding import Finding
from wsemu.places import Places, lanes_text
from wsemu.witness import reading

if TYPE_CHECKING:
    from wsemu.outcome import Event, RawFinding, Trace
    from wsemu.witness import Witness


def explain(raw: RawFinding, places: Places, trace: Trace | None = None) -> Finding:
    """The finding of a read of bytes that nothing has written; a trace tells whether something does so later."""
    space = places.space(raw.detail["segment"])
    element = places.element(raw.detail["address"], raw.pc)
    later = None if trace is None else written_later(raw, places, trace)
    never = "never" if trace is not None and trace.complete and places.outcome.status == "done" else "not yet"
    label = f"`{element}` read by {places.who(raw.cta, raw.warp)}, {lanes_text(raw.lanes)}, "
    label += f"{never if later is None else 'not yet'} written"
    note, help_ = _ADVICE[space]
    notes = [note.format(array=places.array_name(raw.pc))]
    if later is not None:
        by = places.who(later.cta, later.warp)
        notes.append(f"{by} writes `{element}` on {places.near(later.pc, raw.pc)} only after this read")
    return Finding(
        code=raw.code,
        message=f"{space} {places.array_name(raw.pc)} is read before it is written",
        sites=[places.site(raw.pc, label, cta=raw.cta, warp=raw.warp), *places.callers(raw.pc)],
        notes=notes,
        help=help_.format(element=element),
        count=raw.count,
    )


def written_later(raw: RawFinding, places: Places, trace: Trace) -> Event | None:
    """The first write, after a read of bytes that nothing had written, to the first of these bytes."""
    segment, address = raw.detail["segment"], raw.detail["address"]
    witness = reading(places, trace, range(prod(places.grid)) if segment >= FIRST_ARRAY else (raw.cta,))
    read = next((n for n in witness.executions(raw.cta, raw.warp, raw.pc) if reached(witness, n, raw)), None)
    if read is None:
        return None
    warps = [raw.warp] if segment == LOCAL else None
    found = (witness.next_to(address, pc, read, warps) for pc in places.writers(raw.pc))
    return witness.events[min(later)] if (later := [n for n in found if n is not None]) else None


def reached(witness: Witness, position: int, raw: RawFinding) -> bool:
    """Whether an execution of the read is one that its finding may be about."""
    return witness.reaches(witness.events[position], raw.detail["address"], raw.lanes & -raw.lanes)


_ADVICE = {
    "shared": (
        "shared memory holds arbitrary values when a CTA starts; 0 was read here",
        "store to `{element}` first, and order that store before this read with a barrier",
    ),
    "local": (
        "local memory is the thread's own and holds arbitrary values at first; 0 was read here",
        "assign `{element}` in this thread before it is read, on every path that leads here",
    ),
    "global": (
        "nothing has written to {array} before this launch; what it held was read here",
        "store to `{element}` earlier in this launch, or fill the array before it, as `cuda.to_device` does",
    ),
}
"""note and help by memory"""
