"""Costs of a launch's accesses, counted access by access from the definitions of `model.memory_cost`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.arch import ARCHS
from wsemu.model.isa import LANES, LOCAL, SEGMENT_SHIFT, SHARED, UNCOUNTED
from wsemu.model.memory_cost import Offsets, sectors, wavefronts
from wsemu.model.outcome import AccessCount, Pattern
from wsemu.reference.sync import peers

if TYPE_CHECKING:
    from wsemu.reference.memory.bounds import Place
    from wsemu.reference.warp import WarpRun


def charge(run: WarpRun, places: dict[int, Place], size: int, kind: str, service: int) -> None:
    """Count one access of a warp: `places` of its lanes, bytes per lane, `load`, `store` or `atomic`, and the method by
    which the hardware serves it.

    The cost of global atomics is not modeled.
    """
    if not places:
        return
    outcome = run.launch.outcome
    count = outcome.accesses.setdefault(run.group.pc, AccessCount())
    count.executions += 1
    count.lanes += len(places)
    if peers.go_far(run, places):  # the cost of accesses to other CTAs is unknown
        return
    model = ARCHS[outcome.arch].costs
    addresses = {lane: (number << SEGMENT_SHIFT) + offset for lane, (_, number, offset) in places.items()}
    shared = {lane: at for lane, at in addresses.items() if at >> SEGMENT_SHIFT == SHARED}
    if shared and kind == "atomic" and (service == UNCOUNTED or not model.atomics):
        count.uncounted += 1
    elif shared:
        cost, ideal = wavefronts(shared, size, service, model)
        count.wavefronts += cost
        count.ideal_wavefronts += ideal
        if cost > ideal:
            count.worst_wavefronts = _costlier_pattern(run, count.worst_wavefronts, cost, shared)
    arrays = {lane: at for lane, at in addresses.items() if at >> SEGMENT_SHIFT not in (SHARED, LOCAL)}
    if arrays and kind != "atomic":
        cost, ideal = sectors(arrays, size, model)
        count.sectors += cost
        count.ideal_sectors += ideal
        if cost > ideal:
            count.worst_sectors = _costlier_pattern(run, count.worst_sectors, cost, arrays)


def _costlier_pattern(run: WarpRun, known: Pattern | None, cost: int, addresses: Offsets) -> Pattern:
    """Return the pattern of this execution if it costs more than the recorded one, or costs the same in an earlier CTA;
    otherwise the recorded one."""
    of, cta = run.launch.grouping.of, run.cta.number
    if known is not None and (known.cost > cost or (known.cost == cost and of(known.cta) <= of(cta))):
        return known
    lanes = sum(1 << lane for lane in addresses)
    segment = max(addresses.values()) >> SEGMENT_SHIFT
    bits = run.launch.window if segment == SHARED else SEGMENT_SHIFT
    offsets = tuple(addresses.get(lane, 0) & (1 << bits) - 1 for lane in range(LANES))
    return Pattern(cost, cta, segment, lanes, offsets)
