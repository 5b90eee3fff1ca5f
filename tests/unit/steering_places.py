"""Kernels whose atomics commute or give out places, each with what goes wrong if a part is changed.

The parts are globals of the module, as in `steering_kernels.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.unit.steering_kernels import ints
from wsemu import cuda

ATOMIC, COUNTS_ALL, SYNCS = True, True, True
BINS, SPREAD = 16, 1
"""bins that are counted in; values by this go to one place"""
OFF = 0
"""added to a place"""


def histogram(x: Any, bins: Any) -> None:
    """Counts by atomics whose results nobody uses."""
    bin_ = x[cuda.grid(1)] % BINS
    if ATOMIC:
        cuda.atomic.add(bins, bin_, 1)
    else:
        bins[bin_] += 1


def slots(count: Any, x: Any, y: Any) -> None:
    """A histogram whose slots are returned: each value goes to a place of its own."""
    i = cuda.grid(1)
    y[cuda.atomic.add(count, 0, 1) // SPREAD + OFF] = x[i]


def compaction(count: Any, x: Any, y: Any) -> None:
    """Positive values, packed: a warp gets as many places as it needs by one atomic."""
    i = cuda.grid(1)
    lane = cuda.threadIdx.x % 32
    keeps = x[i] > 0
    votes = cuda.ballot_sync(0xFFFFFFFF, keeps)
    first = 0
    if lane == 0:
        first = cuda.atomic.add(count, 0, cuda.popc(votes) if COUNTS_ALL else 1)
    first = cuda.shfl_sync(0xFFFFFFFF, first, 0)
    if keeps:
        y[first + cuda.popc(votes & ((1 << lane) - 1)) // SPREAD] = x[i]


BROKEN: dict[str, list[tuple[dict[str, Any], str]]] = {
    "histogram": [({"ATOMIC": False}, "race"), ({"BINS": 32}, "out-of-bounds")],
    "slots": [({"SPREAD": 2}, "intra-warp-race"), ({"OFF": 1}, "out-of-bounds")],
    "compaction": [({"COUNTS_ALL": False}, "race"), ({"SPREAD": 2}, "intra-warp-race")],
}
"""kernel -> what is changed in it, and a code of what is found then"""


def arguments(name: str, ctas: int) -> tuple[Any, ...]:
    """What a kernel is launched with on so many CTAs of 64 threads."""
    x = np.arange(64 * ctas, dtype=np.int32) % 23 - 2
    return (np.abs(x), ints(16)) if name == "histogram" else (ints(1), x, ints(64 * ctas))
