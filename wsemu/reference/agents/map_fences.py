"""Fences that a tensor map needs between a change of it in this launch and a copy that uses it.

PTX ISA, "membar, fence" (`fence.proxy.tensormap::generic`), "tensormap.cp_fenceproxy", "Causality order": tensor copies
read their map through the tensormap proxy.  A change is visible to a copy under three conditions.  First, a thread that
observed the change has released it.  Second, a thread of the copy's CTA that observed this release has acquired the
map.  Third, the thread that issues the copy has observed this acquire.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.data import NamedTuple
from wsemu.model.isa import OF_CTA_ALONE, PUBLISHED, PUBLISHED_IN_CTA, SEGMENT_SHIFT
from wsemu.model.outcome import RawFinding
from wsemu.model.tensor_map import MAP_ALIGNMENT, MAP_BYTES
from wsemu.reference.memory.bounds import locate
from wsemu.reference.memory.thread_shadow import ThreadWatch
from wsemu.reference.state import list_lanes
from wsemu.reference.sync.named_barrier import StopError
from wsemu.reference.sync.thread_clocks import ALL_CTAS

if TYPE_CHECKING:
    from wsemu.reference.memory.thread_shadow import Made
    from wsemu.reference.sync.thread_clocks import Clocks, Known
    from wsemu.reference.warp import WarpRun

NOT_RELEASED, NOT_ACQUIRED = range(2)
"""`what` of a tensormap-proxy finding"""


class Acquired(NamedTuple):
    """An acquire of a map by a lane: for each byte, the last write that was released to the lane, or None."""

    cta: int
    warp: int
    lane: int
    time: int
    writes: tuple[Made | None, ...]


def release(run: WarpRun, name: str, fields: list[int], lanes: int) -> None:
    """Release to later acquires what the lanes have observed and done."""
    cta, warp = run.cta, run.warp.number
    cta.order.release_maps((cta.number, warp), lanes, widely=fields[7] != OF_CTA_ALONE)
    run.launch.watch.happen("proxy", cta.number, warp, run.group.pc, lanes=lanes)
    cta.order.begin_interval((cta.number, warp))


def acquire(run: WarpRun, name: str, fields: list[int], lanes: int) -> None:
    """Let lanes acquire the map at `a` in global memory."""
    watch = _watch(run)
    for lane in list_lanes(lanes):
        place = locate(
            run, run.read(fields[3], "b64", lane), lane, MAP_BYTES, writes=False, alignment=MAP_ALIGNMENT, shared=False
        )
        if place is None:
            raise StopError("fault", run.group.pc, run.warp.number)
        address = (place[1] << SEGMENT_SHIFT) + place[2]
        clocks = _clocks(run, lane)
        writes = tuple(
            made if made and _was_released(run, clocks, made, wide=fields[7] != OF_CTA_ALONE) else None
            for made in _last_writes(run, address)
        )
        if any(writes):
            time = watch.order.time((run.cta.number, run.warp.number))
            acquired = Acquired(run.cta.number, run.warp.number, lane, time, writes)
            watch.acquired.setdefault(address, []).append(acquired)


def written_otherwise(run: WarpRun, address: int) -> bool:
    """Return whether an asynchronous operation or an atomic has written to a map."""
    return _watch(run).written_otherwise(range(address, address + MAP_BYTES))


def judge(run: WarpRun, lane: int, address: int) -> None:
    """Report the first write to a map that a lane's copy may miss.  A write that is unordered with the copy is a race,
    which other code reports."""
    watch, clocks = _watch(run), _clocks(run, lane)
    seen = [
        acquired
        for acquired in watch.acquired.get(address, ())
        if acquired.cta == run.cta.number
        and clocks.all.includes_lane(watch.order.number((acquired.cta, acquired.warp)), acquired.lane, acquired.time)
    ]
    for q, made in enumerate(_last_writes(run, address)):
        if made is None or not _has_observed(run, clocks.all, made) or any(made == by.writes[q] for by in seen):
            continue
        what = NOT_ACQUIRED if _was_released(run, clocks, made, wide=True) else NOT_RELEASED
        cta, warp, pc = run.cta.number, run.warp.number, run.group.pc
        detail = {"address": address, "what": what}
        if made.by.cta != cta:
            detail["other_cta"] = made.by.cta
        run.launch.report(RawFinding("tensormap-proxy", pc, cta, warp, 1 << lane, made.by.pc, made.by.warp, detail))
        return


# -- writes ------------------------------------------------------------------------------------------------------------


def _watch(run: WarpRun) -> ThreadWatch:
    watch = run.launch.watch
    assert isinstance(watch, ThreadWatch)
    return watch


def _clocks(run: WarpRun, lane: int) -> Clocks:
    return _watch(run).order.clocks((run.cta.number, run.warp.number), lane)


def _last_writes(run: WarpRun, address: int) -> list[Made | None]:
    """Return the last write of each byte of a map by the CTAs that run now."""
    watch = _watch(run)
    made = [watch.last_write(at) for at in range(address, address + MAP_BYTES)]
    return [one if one and watch.together(one.by.cta, run.cta.number) else None for one in made]


def _has_observed(run: WarpRun, known: Known, made: Made) -> bool:
    warp = _watch(run).order.number((made.by.cta, made.by.warp))
    return all(known.includes_lane(warp, lane, made.by.time) for lane in list_lanes(made.lanes))


def _was_released(run: WarpRun, clocks: Clocks, made: Made, *, wide: bool) -> bool:
    """Return whether a lane has observed a release of a write, and this release matches an acquire by the lane: each
    has the CTA of the other in its scope.  A `wide` acquire has all CTAs in its scope."""
    own = made.by.cta == run.cta.number
    flags = run.launch.code[made.by.pc][7]
    if (flags & PUBLISHED and (wide or own)) or (flags & PUBLISHED_IN_CTA and own):
        return _has_observed(run, clocks.all, made)
    goals = (run.cta.number, ALL_CTAS) if wide else (run.cta.number,)
    known = (clocks.released[goal] for goal in goals if goal in clocks.released)
    return any(_has_observed(run, one, made) for one in known)
