"""Code shared by the two checkers of costs: which lanes of a recorded execution access what, and whether an access is
costly."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING, Any

from wsemu.model.outcome import AccessCount

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from wsemu.evidence.places import Places
    from wsemu.model.outcome import Pattern

_MOST = 0.75
"""fraction of neighboring lanes that must have equal distances for a stride"""


def access_counts(places: Places) -> dict[int, AccessCount]:
    """Return the accesses of a launch, one per source location.

    An unrolled loop contains copies of an access.  They count as one access, which is represented by the copy with the
    worst execution, or by the first copy.
    """
    if "by_place" not in places.derived:
        places.derived["by_place"] = _merge_copies(places)
    found: dict[int, AccessCount] = places.derived["by_place"]
    return found


def _merge_copies(places: Places) -> dict[int, AccessCount]:
    copies: dict[tuple[Any, ...], list[int]] = {}
    program = places.program
    for pc in places.outcome.accesses:
        verb = places.verb(pc)
        key = program.span_of[pc], program.stack_of[pc], program.array_of[pc], verb, places.size(pc)
        copies.setdefault((*key, places.service(pc) if verb == "atomic" else 0), []).append(pc)
    counts = places.outcome.accesses
    return {_worst(pcs, counts): _sum([counts[pc] for pc in pcs]) for pcs in copies.values()}


def costliest_first(found: Iterable[int], excess: Mapping[int, int]) -> list[int]:
    """Return the accesses in the order of their excess cost."""
    return sorted(found, key=lambda pc: (-excess[pc], pc))


def _worst(pcs: list[int], counts: dict[int, AccessCount]) -> int:
    return max(pcs, key=lambda pc: (_cost(counts[pc].worst_wavefronts), _cost(counts[pc].worst_sectors), -pc))


def _cost(pattern: Pattern | None) -> int:
    return pattern.cost if pattern else 0


def _sum(counts: list[AccessCount]) -> AccessCount:
    if len(counts) == 1:
        return counts[0]
    total = AccessCount()
    for count in counts:
        for name in ("executions", "lanes", "wavefronts", "ideal_wavefronts", "sectors", "ideal_sectors"):
            setattr(total, name, getattr(total, name) + getattr(count, name))
    total.worst_wavefronts = max((c.worst_wavefronts for c in counts), key=_cost)
    total.worst_sectors = max((c.worst_sectors for c in counts), key=_cost)
    return total


def offsets_by_lane(pattern: Pattern) -> dict[int, int]:
    """Return the byte offset in the segment for each active lane."""
    return {lane: at for lane, at in enumerate(pattern.offsets) if pattern.lanes >> lane & 1}


def stride(offsets: dict[int, int]) -> int | None:
    """Return the distance from one lane to the next in bytes if it is the same for most lanes, otherwise None.
    Inactive lanes in between count as lanes."""
    pairs = list(itertools.pairwise(sorted(offsets.items())))
    steps = Counter((at - before) // (lane - last) for (last, before), (lane, at) in pairs)
    if not steps:
        return None
    step, times = max(steps.items(), key=lambda item: (item[1], -abs(item[0])))
    return step if times >= _MOST * steps.total() else None


def mask(lanes: set[int]) -> int:
    return sum(1 << lane for lane in lanes)


def tally(unit: str, executions: int, cost: int, ideal: int, worst: int, excess: int) -> str:
    """Return the note on an access: `32 executions, 1,024 wavefronts, ideal 32, worst 32: 97% of this kernel's
    excess`."""
    times = f"{executions:,} execution{'s' * (executions != 1)}"
    share = f"{(cost - ideal) / excess:.0%} of this kernel's excess"
    return f"{times}, {cost:,} {unit}, ideal {ideal:,}, worst {worst}: {share}"
