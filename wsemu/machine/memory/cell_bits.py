"""Layout of a cell of shadow memory in 64 bits; `shadow_cells` has the table.  Needs no compiler.

Groups of many warps need more bits for actors, and so have fewer bits for intervals.  The parts of the VM that read
cells or clocks are compiled once for each of WIDTHS, when a launch first needs them.  A number that depends on it is a
`ByWidth`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

WIDTHS = (32, 256, 1024)
"""for each width, the maximum number of warps of a group"""


class ByWidth(int):
    """A number that depends on the width: its value for the smallest one, and all values."""

    values: tuple[int, ...]


def for_each_width(of: Callable[[int], int]) -> ByWidth:
    """Return a number that depends on the width; `of` computes it from the index in WIDTHS."""
    values = tuple(of(index) for index in range(len(WIDTHS)))
    made = ByWidth(values[0])
    made.values = values
    return made


SET = -(1 << 63)
ATOMIC_SHIFT = 62
ATOMIC_BIT = 1 << ATOMIC_SHIFT
WARP_SHIFT, LOW_SHIFT, HIGH_SHIFT = 27, 22, 17
ACTOR_BITS = (7, 10, 12)
"""bits of an actor, by width: a warp, and the kind of agent that it issued"""
INTERVAL_SHIFT = for_each_width(lambda k: WARP_SHIFT + ACTOR_BITS[k])
INTERVALS = for_each_width(lambda k: (1 << (ATOMIC_SHIFT - WARP_SHIFT - ACTOR_BITS[k])) - 1)
"""maximum number of distinct intervals of all warps of a launch"""
MAX_INSTRUCTIONS = 1 << HIGH_SHIFT
"""maximum number of instructions of a program"""
ACTORS = for_each_width(lambda k: (1 << ACTOR_BITS[k]) - 1)
"""bits of a cell's actor: a warp, or GENERIC or BULK and the warp that issued an asynchronous operation"""
GENERIC, BULK = for_each_width(lambda k: WIDTHS[k]), for_each_width(lambda k: 2 * WIDTHS[k])
"""offset added to the warp of an asynchronous operation, whose number then is the interval: of the generic proxy
(cp.async), of the asynchronous proxy"""
WIDE = for_each_width(lambda k: int(k > 0))
"""1 if clocks of warps have several vectors of 32"""
ANYONE = for_each_width(lambda k: INTERVALS.values[k] << INTERVAL_SHIFT.values[k] | WIDTHS[k] << WARP_SHIFT)
"""marker of a read by an unknown thread"""
WHEN = (INTERVALS << INTERVAL_SHIFT) | (ACTORS << WARP_SHIFT)
"""mask of the interval and actor"""
LANE_BITS = (31 << LOW_SHIFT) | (31 << HIGH_SHIFT)
BUT_LANES = ~LANE_BITS
WHO = BUT_LANES & -MAX_INSTRUCTIONS
"""mask of everything except the lanes and the instruction"""
READERS = SET | 1 << 61
"""a cell of reads by several warps, see `readers.py`"""
MOMENT_SHIFT = 32
MOMENTS = (1 << (61 - MOMENT_SHIFT)) - 1
MOMENT_BYTES = 8 * WIDTHS[0]
WARPS = (1 << WIDTHS[0]) - 1
BUT_WARPS = ~WARPS
UNNAMED = MAX_INSTRUCTIONS - 1
"""instruction of a read that a set represents; no program has so large a number"""
SET_NUMBERS = (1 << (62 - WARP_SHIFT)) - 1
"""contents of a cell above `WARP_SHIFT` if it refers to a set: the number of its set"""
