"""How long compiled code runs before it looks at the outside world."""

from __future__ import annotations

SLICES = (20_000_000, 4_000_000, 1_000_000)
"""warp instructions between two looks at the outside world (about a tenth of a second), by width: as many intervals may
begin meanwhile"""
SLICE = SLICES[0]
FIRST_SLICE = 1_000_000
"""the same as long as a program may get a block, see tier/hot.py"""
PATIENCE = 1_000_000
"""the same for starting CTAs, see `scheduler.start_cta`"""
