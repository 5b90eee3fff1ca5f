"""`uninitialized-read`: shared or local memory read before anything wrote it.

Detects: byte by byte, a load or atomic of shared memory that no warp of the CTA has stored to, and of local memory
that this thread has not stored to; of an array that the launch is told to take as `uninitialized`, what no warp of the
launch has stored to.
Does not detect: reads of other global memory (arguments count as initialised); a store that some other schedule would
order after the read, which is a race; what an atomic exchange returns, since it is also a way to set memory up.
Reference: CUDA C++ Programming Guide, "Shared Memory": contents are undefined at the start of a CTA.  The compiled test
is `memory.track_initialised`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.evidence.places import Places, lanes_text
from wsemu.model.finding import Finding

if TYPE_CHECKING:
    from wsemu.model.outcome import RawFinding


def explain(raw: RawFinding, places: Places) -> Finding:
    """The finding of a read of bytes that nothing has written."""
    space = places.space(raw.detail["segment"])
    element = places.element(raw.detail["address"], raw.pc)
    label = f"`{element}` read by {places.who(raw.cta, raw.warp)}, {lanes_text(raw.lanes)}, never written"
    note, help_ = _ADVICE[space]
    return Finding(
        code=raw.code,
        message=f"{space} {places.array_name(raw.pc)} is read before it is written",
        sites=[places.site(raw.pc, label, cta=raw.cta, warp=raw.warp), *places.callers(raw.pc)],
        notes=[note.format(array=places.array_name(raw.pc))],
        help=help_.format(element=element),
        count=raw.count,
    )


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
