"""Kernels that atomics steer, with mbarriers and asynchronous copies, each with what goes wrong if a part is changed.

The parts are globals of the module, as in `steering_kernels.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.unit.steering_kernels import ints
from wsemu import cuda, ptx

TILE, STAGES = 64, 2
OFF = 0
"""added to the number of tiles"""
SPREAD = 1
"""tiles by this are those that are written"""
EMPTY, FENCE_BEFORE, FENCE_AFTER, WAITS, FENCE_PROXY, SYNCS = True, True, True, True, True, True
EARLY, PLAIN = False, False


def drawn_tiles(count: Any, x: Any, y: Any, n: int) -> None:
    """A producer warp draws tiles and loads them through a ring; a consumer warp doubles them."""
    ring = cuda.shared.array((STAGES, TILE), np.float32)
    drawn = cuda.shared.array(STAGES, np.int32)
    full = cuda.shared.array(STAGES, np.uint64)
    empty = cuda.shared.array(STAGES, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        for s in range(STAGES):
            ptx.mbarrier_init(full, s, 1)
            ptx.mbarrier_init(empty, s, 32)
    cuda.syncthreads()
    k = 0
    if t == 32:
        while True:
            s = k % STAGES
            if EMPTY:
                ptx.mbarrier_wait_parity(empty, s, (k // STAGES + 1) % 2)
            tile = cuda.atomic.add(count, 0, 1)
            drawn[s] = tile
            if tile >= n + OFF:
                ptx.mbarrier_arrive(full, s)
                break
            ptx.mbarrier_arrive_expect_tx(full, s, TILE * 4)
            ptx.cp_async_bulk_global_to_shared(ring, (s, 0), x, tile * TILE, TILE * 4, full, s)
            k += 1
    elif t < 32:
        while True:
            s = k % STAGES
            ptx.mbarrier_wait_parity(full, s, (k // STAGES) % 2)
            tile = drawn[s]
            if tile >= n + OFF:
                break
            for i in range(TILE // 32):
                y[tile // SPREAD * TILE + i * 32 + t] = 2 * ring[s, i * 32 + t]
            ptx.mbarrier_arrive(empty, s)
            k += 1


def doubled_in_place(count: Any, y: Any, n: int) -> None:
    """Tiles that one thread draws, loads, and stores where they were."""
    ring = cuda.shared.array(TILE, np.float32)
    drawn = cuda.shared.array(1, np.int32)
    full = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(full, 0, 1)
    cuda.syncthreads()
    parity = 0
    while True:
        if t == 0:
            drawn[0] = cuda.atomic.add(count, 0, 1)
            if drawn[0] < n + OFF:
                ptx.mbarrier_arrive_expect_tx(full, 0, TILE * 4)
                ptx.cp_async_bulk_global_to_shared(ring, 0, y, drawn[0] * TILE, TILE * 4, full, 0)
        cuda.syncthreads()
        tile = drawn[0]
        if tile >= n + OFF:
            break
        if WAITS:
            ptx.mbarrier_wait_parity(full, 0, parity)
        ring[t] = 2 * ring[t]
        if FENCE_PROXY:
            ptx.fence_proxy_async()
        cuda.syncthreads()
        if t == 0:
            ptx.cp_async_bulk_shared_to_global(y, tile // SPREAD * TILE, ring, 0, TILE * 4)
            ptx.cp_async_bulk_commit_group()
            ptx.cp_async_bulk_wait_group(0)
        cuda.syncthreads()
        parity ^= 1


def last_of_parts(count: Any, x: Any, partial: Any, y: Any) -> None:
    """Each CTA loads its part and leaves sums, of which an mbarrier tells; the last one adds all up."""
    part = cuda.shared.array(TILE, np.float32)
    full = cuda.shared.array(2, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(full, 0, 1)
        ptx.mbarrier_init(full, 1, 32)
    cuda.syncthreads()
    if t >= 32:
        if t == 32:
            ptx.mbarrier_arrive_expect_tx(full, 0, TILE * 4)
            ptx.cp_async_bulk_global_to_shared(part, 0, x, cuda.blockIdx.x * TILE, TILE * 4, full, 0)
            if SYNCS:
                ptx.mbarrier_wait_parity(full, 1, 0)
            if FENCE_BEFORE:
                cuda.threadfence()
            if cuda.atomic.add(count, 0, 1) == cuda.gridDim.x - 1 - OFF:
                if FENCE_AFTER:
                    cuda.threadfence()
                total = np.float32(0)
                for k in range(cuda.gridDim.x):
                    for lane in range(32):
                        total += partial[k, lane]
                y[0] = total
            if not SYNCS:
                ptx.mbarrier_wait_parity(full, 1, 0)
    else:
        ptx.mbarrier_wait_parity(full, 0, 0)
        if EARLY:
            ptx.mbarrier_arrive(full, 1)
        partial[cuda.blockIdx.x, t] = part[t] + part[t + 32]
        if not EARLY:
            ptx.mbarrier_arrive(full, 1)


def summed_tiles(count: Any, total: Any, n: int) -> None:
    """Tiles that are drawn, and added to one sum by the copy engine."""
    part = cuda.shared.array(TILE, np.int32)
    drawn = cuda.shared.array(1, np.int32)
    t = cuda.threadIdx.x
    while True:
        if t == 0:
            drawn[0] = cuda.atomic.add(count, 0, 1)
        cuda.syncthreads()
        tile = drawn[0]
        if tile >= n:
            break
        part[t] = tile + t
        if FENCE_PROXY:
            ptx.fence_proxy_async()
        cuda.syncthreads()
        if t == 0:
            ptx.cp_reduce_async_bulk_add(total, 0, part, 0, TILE * 4)
            if PLAIN:
                cuda.atomic.add(total, 0, 1)
            ptx.cp_async_bulk_commit_group()
            if WAITS:
                ptx.cp_async_bulk_wait_group(0)
        cuda.syncthreads()


def first_come_waits(count: Any, y: Any) -> None:
    """Who comes first waits for the others of its CTA, who do not come if it is not their CTA that was first."""
    met = cuda.shared.array(1, np.uint64)
    drawn = cuda.shared.array(1, np.int32)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(met, 0, 2)
        drawn[0] = cuda.atomic.add(count, 0, 1)
    cuda.syncthreads()
    if t == 0:
        ptx.mbarrier_arrive(met, 0)
        if drawn[0] == cuda.blockIdx.x + OFF or not WAITS:
            ptx.mbarrier_wait_parity(met, 0, 0)
        y[cuda.blockIdx.x] = 1
    if t == 32 and (drawn[0] == cuda.blockIdx.x or WAITS):
        ptx.mbarrier_arrive(met, 0)


def doubled_twice(count: Any, y: Any, n: int) -> None:
    """As `doubled_in_place`, of two tiles at a time, whose numbers are kept while the second is drawn."""
    ring = cuda.shared.array(2 * TILE, np.float32)
    drawn = cuda.shared.array(2, np.int32)
    full = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(full, 0, 1)
        drawn[0] = cuda.atomic.add(count, 0, 1)
        drawn[1] = cuda.atomic.add(count, 0, 1)
        ptx.mbarrier_arrive_expect_tx(full, 0, 2 * TILE * 4)
        for k in range(2):
            ptx.cp_async_bulk_global_to_shared(ring, k * TILE, y, drawn[k] * TILE, TILE * 4, full, 0)
    cuda.syncthreads()
    ptx.mbarrier_wait_parity(full, 0, 0)
    for k in range(2):
        y[drawn[k] // SPREAD * TILE + t] = 2 * ring[k * TILE + t]


def arguments(name: str, ctas: int, tiles: int) -> tuple[Any, ...]:
    """What a kernel is launched with on so many CTAs, with so many tiles to draw."""
    floats = np.arange(tiles * TILE, dtype=np.float32)
    return {
        "drawn_tiles": lambda: (ints(1), floats, np.zeros_like(floats), tiles),
        "doubled_in_place": lambda: (ints(1), floats, tiles),
        "doubled_twice": lambda: (ints(1), np.ones(2 * ctas * TILE, np.float32), tiles),
        "last_of_parts": lambda: (
            ints(1), np.ones(ctas * TILE, np.float32), np.zeros((ctas, 32), np.float32), np.zeros(1, np.float32),
        ),
        "first_come_waits": lambda: (ints(1), ints(ctas)),
        "summed_tiles": lambda: (ints(1), ints(TILE), tiles),
    }[name]()  # fmt: skip
