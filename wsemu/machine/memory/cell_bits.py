"""What a cell of shadow memory packs into 64 bits; `shadow_cells` has the table.  Needs no compiler."""

from __future__ import annotations

SET = -(1 << 63)
ATOMIC_BIT = 1 << 62
INTERVAL_SHIFT, WARP_SHIFT, LOW_SHIFT, HIGH_SHIFT = 32, 27, 22, 17
INTERVALS = (1 << 30) - 1
"""of all warps of a launch: as many can be told apart"""
MAX_INSTRUCTIONS = 1 << HIGH_SHIFT
"""of a program"""
WHEN = (INTERVALS << INTERVAL_SHIFT) | (31 << WARP_SHIFT)
"""interval and warp"""
LANE_BITS = (31 << LOW_SHIFT) | (31 << HIGH_SHIFT)
BUT_LANES = ~LANE_BITS
SET_NUMBERS = (1 << (62 - WARP_SHIFT)) - 1
"""what a cell that refers to a set has above `WARP_SHIFT`: the number of its set"""
