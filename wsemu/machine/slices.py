"""Length of a run of compiled code before it returns to the host."""

from __future__ import annotations

SLICES = (20_000_000, 4_000_000, 1_000_000)
"""warp instructions between two returns to the host (about a tenth of a second), by width: each may begin an
interval"""
SLICE = SLICES[0]
FIRST_SLICE = 1_000_000
"""likewise while a program may still get a block, see tier/hot.py"""
PATIENCE = 1_000_000
"""likewise for starting CTAs, see `scheduler.start_cta`"""
