"""What the two checkers of costs share: the lanes of a recorded execution, and how to tell what an access costs."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wsemu.outcome import Pattern

_MOST = 0.75
"""of the neighbouring lanes that must be equally far apart for a stride"""


def by_lane(pattern: Pattern) -> dict[int, int]:
    """Active lane -> byte offset in the segment."""
    return {lane: at for lane, at in enumerate(pattern.offsets) if pattern.lanes >> lane & 1}


def stride(offsets: dict[int, int]) -> int | None:
    """Bytes from a lane to the next one, the same for most of them; None where there is no such number.  Inactive lanes
    in between count as lanes."""
    pairs = list(itertools.pairwise(sorted(offsets.items())))
    steps = Counter((at - before) // (lane - last) for (last, before), (lane, at) in pairs)
    if not steps:
        return None
    step, times = max(steps.items(), key=lambda item: (item[1], -abs(item[0])))
    return step if times >= _MOST * steps.total() else None


def mask(lanes: set[int]) -> int:
    return sum(1 << lane for lane in lanes)


def tally(unit: str, executions: int, cost: int, ideal: int, worst: int, excess: int) -> str:
    """The note of an access: `32 executions, 1,024 wavefronts, ideal 32, worst 32: 97% of this kernel's excess`."""
    times = f"{executions:,} execution{'s' * (executions != 1)}"
    share = f"{(cost - ideal) / excess:.0%} of this kernel's excess"
    return f"{times}, {cost:,} {unit}, ideal {ideal:,}, worst {worst}: {share}"
