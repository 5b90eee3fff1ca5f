"""Describe barrier operations that part of a warp executes after the other lanes have exited (B14): such an operation
releases and acquires for its own lanes only.  A helper of `race`, not a checker of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.evidence.places import lanes_text
from wsemu.model.isa import LANES
from wsemu.model.outcome import ALL_LANES

if TYPE_CHECKING:
    from wsemu.checkers.conflict import Conflict, Side
    from wsemu.evidence.schedule import Witness
    from wsemu.model.outcome import Event


def remedy(found: Conflict, witness: Witness) -> str:
    """Return the edit that makes all lanes reach the operations that order the two accesses.  Return an empty text if
    the cause is not a partial warp."""
    # in a run with phases, each lane arrives and waits for itself: a partial warp is not the cause
    if not witness.has_partial_barriers or witness.asynchronous:
        return ""
    for before, after in ((found.first, found.second), (found.second, found.first)):
        gives = witness.next_barrier(before.access.cta, before.access.warp, before.access.interval)
        if gives is None:
            continue
        left_out = bool(_lanes(before, witness) & ~gives.lanes)
        if _is_known(before, after.access.interval, after, witness):
            return _all_give(found, before, gives, witness) if left_out and before is found.first else ""
        taken = _taken_by_others(before, after, witness)
        if taken is not None:
            asked = _all_come(found, taken, "before", after)
            return f"{_all_come(found, gives, 'after', before)}; and {asked}" if left_out else asked
    return ""


def _lanes(side: Side, witness: Witness) -> int:
    """Return the lanes that performed an access at its address."""
    lanes = side.access.lanes
    return lanes if side.position is None else lanes & witness.events[side.position].lanes


def _is_known(before: Side, interval: int, after: Side, witness: Witness) -> bool:
    """Return whether some lane of the second side's warp has synchronized, by `interval`, with the access of the first
    side.  `before` is the first side, `after` the second one."""
    one, two = before.access, after.access
    return witness.clock_at(two.cta, two.warp, interval).get(one.warp, 0) >= one.interval


def _taken_by_others(before: Side, after: Side, witness: Witness) -> Event | None:
    """Return the sync that orders the warp of the second access after the first access, but that none of the accessing
    lanes executed; None if there is none."""
    access, lanes = after.access, _lanes(after, witness)
    interval = access.interval
    while (event := witness.next_barrier(access.cta, access.warp, interval)) is not None:
        interval = event.interval + 1
        if event.kind == "sync" and not event.lanes & lanes and _is_known(before, interval + 1, after, witness):
            return event
    return None


def _all_give(found: Conflict, before: Side, gives: Event, witness: Witness) -> str:
    text = _all_come(found, gives, "after", before)
    access = before.access
    executions = witness.executions(access.cta, access.warp, access.pc)
    if all(witness.events[n].lanes == _whole(found, access.warp) for n in executions):
        text += f"; or add `cuda.syncwarp()` {found.places.after(access.pc, gives.pc)}"
    return text


def _whole(found: Conflict, warp: int) -> int:
    """Return all lanes of a warp."""
    x, y, z = found.places.block
    return ALL_LANES >> max(LANES * (warp + 1) - x * y * z, 0)


def _all_come(found: Conflict, event: Event, when: str, side: Side) -> str:
    """Return help such as `only lane 5 of warp 1 arrives on line 20: let all its lanes arrive there, after line 18`."""
    places, pc = found.places, side.access.pc
    verb = "arrive" if event.kind == "arrive" else "sync"
    verb += "s" * (event.lanes.bit_count() == 1)
    where = places.after(pc, event.pc) if when == "after" else f"{when} {places.near(pc, event.pc)}"
    who = places.who(event.cta, event.warp, side.role)
    only = f"only {lanes_text(event.lanes)} of {who} {verb} on {places.near(event.pc, pc)}"
    return f"{only}: let all its lanes come there, {where}"
