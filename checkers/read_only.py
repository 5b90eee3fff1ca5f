"""`read-only-written`: bytes that are both loaded through the read-only cache and written in the same launch.

Detects: byte by byte, a load with `.nc` of global memory that a store or an atomic of any thread writes.  Such loads
are `ptx.ld_nc`, `ld.global.nc` and `ldu`; `__ldg` and `const __restrict__` become such loads.  The writer may be in any
CTA, before or after the load, in any order.
Does not detect: concurrent writes by the host or another kernel; a value that the compiler keeps in a register instead
of loading it, as `const __restrict__` allows.  An atomic counts as a write even if it leaves the old value.
Reference: PTX ISA, "ld.global.nc": the memory must be read-only for the duration of the kernel.  The compiled test is
`read_only.note`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.checkers.conflict import ACCESSES
from wsemu.evidence.places import lanes_text
from wsemu.evidence.readings import around, format_steps, reading
from wsemu.evidence.schedule import Access
from wsemu.model.finding import Finding
from wsemu.model.isa import ATOMIC
from wsemu.model.outcome import Detail
from wsemu.model.remedy import Cures

if TYPE_CHECKING:
    from wsemu.evidence.places import Places
    from wsemu.evidence.schedule import Witness
    from wsemu.model.finding import Step
    from wsemu.model.outcome import Event, RawFinding, Trace

CODES = ("read-only-written",)
CURES = {
    "read-only-written": Cures(420, "call move insert"),
}
DETAIL = {
    "read-only-written": Detail(
        {
            **ACCESSES,
            "bytes": "number of bytes that are loaded and written",
            "later": "1: the load came after the store",
        }
    )
}
"""`pc`, `warp` and `lanes` belong to the load, `other_pc` and `other_warp` to the write.  Each is the first load
or the first write of the bytes."""
TRACED = True


def explain(raw: RawFinding, places: Places, trace: Trace | None = None) -> Finding:
    """Return the finding of a load and of the write of its bytes; a trace adds iterations and a schedule."""
    d = raw.detail
    load = Access(raw.cta, raw.warp, d["interval"], raw.pc, d["address"])
    store = Access(d["other_cta"], raw.other_warp, d["other_interval"], raw.other_pc, d["address"])
    witness = None if trace is None else reading(places, trace, around(places, load.cta, store.cta))
    steps = _schedule(load, store, witness) if witness else []
    element, size = places.element(d["address"], raw.pc), d["bytes"]
    verb = "updated atomically" if d["other_kind"] == ATOMIC else "stored"
    array = places.array_name(raw.pc)
    sites = [
        places.site(
            raw.pc, f"`{element}` loaded as read-only by {places.who(load.cta, load.warp)}, {lanes_text(raw.lanes)}",
            cta=load.cta, warp=load.warp,
        ),
        places.site(
            raw.other_pc, f"{verb} by {places.who(store.cta, store.warp)}", cta=store.cta, warp=store.warp,
            primary=False,
        ),
    ]  # fmt: skip
    for call in (*places.callers(raw.pc), *places.callers(raw.other_pc)):
        sites += [call] if call not in sites else []
    more = f"{size} bytes in all, the first at `{element}`; " if size > d["size"] else ""
    return Finding(
        code=raw.code,
        message=f"{array} is loaded through the read-only cache, and written in the same launch",
        sites=sites,
        notes=[f"{more}the load may give the old value, whatever barrier or fence is between the two"],
        help=f"load {array} without `ptx.ld_nc`, or write to another array",
        count=raw.count,
        schedule=format_steps(steps),
        schedule_steps=len(steps),
        steps=steps,
    )


def _schedule(load: Access, store: Access, witness: Witness) -> list[Step]:
    """Return the two accesses in the order of this run, or nothing if the trace ends before the second."""
    found = {witness.first(access): access for access in (load, store)}
    first, second = sorted(found)
    if second == len(witness.events):
        return []
    named = {n: witness.places.access_text(found[n].pc, found[n].address) for n in (first, second)}
    actors = {(access.cta, access.warp) for access in (load, store)}

    def is_actor_event(event: Event) -> bool:
        return (event.cta, event.warp) in actors

    return witness.as_run(first, second, named, is_actor_event)
