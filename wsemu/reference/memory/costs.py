"""What a launch's accesses cost, counted access by access from the definitions of `model.memory_cost`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.isa import LANES, LOCAL, SEGMENT_SHIFT, SHARED, UNCOUNTED
from wsemu.model.limits import COSTS
from wsemu.model.memory_cost import Offsets, sectors, wavefronts
from wsemu.model.outcome import AccessCount, Pattern

if TYPE_CHECKING:
    from wsemu.reference.memory.bounds import Place
    from wsemu.reference.warp import WarpRun


def charge(run: WarpRun, places: dict[int, Place], size: int, kind: str, service: int) -> None:
    """Count one access of a warp: `places` of its lanes, bytes a lane, `load`, `store` or `atomic`, how it is served.

    What an atomic costs in global memory is not modelled.
    """
    if not places:
        return
    outcome = run.launch.outcome
    count = outcome.accesses.setdefault(run.group.pc, AccessCount())
    count.executions += 1
    count.lanes += len(places)
    model, cta = COSTS[outcome.arch], run.cta.number
    addresses = {lane: (number << SEGMENT_SHIFT) + offset for lane, (_, number, offset) in places.items()}
    shared = {lane: at for lane, at in addresses.items() if at >> SEGMENT_SHIFT == SHARED}
    if shared and kind == "atomic" and (service == UNCOUNTED or not model.atomics):
        count.uncounted += 1
    elif shared:
        cost, ideal = wavefronts(shared, size, service, model)
        count.wavefronts += cost
        count.ideal_wavefronts += ideal
        if cost > ideal:
            count.worst_wavefronts = _worse(count.worst_wavefronts, cost, cta, shared)
    arrays = {lane: at for lane, at in addresses.items() if at >> SEGMENT_SHIFT not in (SHARED, LOCAL)}
    if arrays and kind != "atomic":
        cost, ideal = sectors(arrays, size, model)
        count.sectors += cost
        count.ideal_sectors += ideal
        if cost > ideal:
            count.worst_sectors = _worse(count.worst_sectors, cost, cta, arrays)


def _worse(known: Pattern | None, cost: int, cta: int, addresses: Offsets) -> Pattern:
    """The pattern of this execution if it costs more than the one that is known."""
    if known is not None and known.cost >= cost:
        return known
    lanes = sum(1 << lane for lane in addresses)
    offsets = tuple(addresses.get(lane, 0) & (1 << SEGMENT_SHIFT) - 1 for lane in range(LANES))
    return Pattern(cost, cta, max(addresses.values()) >> SEGMENT_SHIFT, lanes, offsets)
