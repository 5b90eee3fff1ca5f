"""What a cell of shadow memory packs into 64 bits; `shadow_cells` has the table.  Needs no compiler."""

from __future__ import annotations

SET = -(1 << 63)
ATOMIC_BIT = 1 << 62
INTERVAL_SHIFT, WARP_SHIFT, LOW_SHIFT, HIGH_SHIFT = 34, 27, 22, 17
INTERVALS = (1 << 28) - 1
"""of all warps of a launch: as many can be told apart"""
MAX_INSTRUCTIONS = 1 << HIGH_SHIFT
"""of a program"""
ACTORS = 127
"""bits of a cell's actor: a warp, or GENERIC or BULK and the warp that issued an asynchronous operation"""
GENERIC, BULK = 32, 64
"""what is added to the warp for an asynchronous operation, whose number then is the interval: of the generic proxy
(cp.async), of the asynchronous one"""
WHEN = (INTERVALS << INTERVAL_SHIFT) | (ACTORS << WARP_SHIFT)
"""interval and actor"""
LANE_BITS = (31 << LOW_SHIFT) | (31 << HIGH_SHIFT)
BUT_LANES = ~LANE_BITS
SET_NUMBERS = (1 << (62 - WARP_SHIFT)) - 1
"""what a cell that refers to a set has above `WARP_SHIFT`: the number of its set"""
