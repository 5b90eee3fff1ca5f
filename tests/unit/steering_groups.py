"""Kernels whose CTAs meet in clusters or in the grid, each with what goes wrong if a part is changed.

The parts are globals of the module, as in `steering_kernels.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.unit.steering_kernels import ints
from wsemu import cuda, ptx

STARTS, MEETS, STAYS, WAITS = True, True, True, True
ATOMIC = True
BYTES = 256
ROUNDS = 4


def grid_stencil(x: Any, y: Any) -> None:
    """A stencil in steps, between which the grid meets."""
    grid = cuda.cg.this_grid()
    i = cuda.grid(1)
    last = x.shape[0] - 1
    for step in range(ROUNDS):
        if 0 < i < last:
            if step % 2 == 0:
                y[i] = x[i - 1] + x[i + 1]
            else:
                x[i] = y[i - 1] + y[i + 1]
        if MEETS or step % 2:
            grid.sync()
        if not STAYS and cuda.blockIdx.x == 0:
            return


def cluster_histogram(x: Any, bins: Any) -> None:
    """Each CTA of a cluster has some of the bins in its shared memory, and counts in those of all."""
    own = cuda.shared.array(16, np.int32)
    t, size = cuda.threadIdx.x, ptx.cluster_nctarank()
    if t < 16:
        own[t] = 0
    if STARTS:
        ptx.cluster_sync()
    else:
        cuda.syncthreads()
    value = x[cuda.grid(1)]
    there = ptx.mapa(own, value // 16 % size)
    if ATOMIC:
        cuda.atomic.add(there, value % 16, 1)
    else:
        there[value % 16] += 1
    if MEETS:
        ptx.cluster_sync()
    if t < 16:
        cuda.atomic.add(bins, 16 * ptx.cluster_ctarank() + t, own[t])


def cluster_reduce(x: Any, y: Any) -> None:
    """The first CTA of a cluster adds up what all have in their shared memory."""
    part = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    part[t] = x[cuda.grid(1)]
    if MEETS:
        ptx.cluster_sync()
    if ptx.cluster_ctarank() == 0:
        total = np.float32(0)
        for rank in range(ptx.cluster_nctarank()):
            total += ptx.mapa(part, rank)[t]
        y[cuda.grid(1) // ptx.cluster_nctarank() // 64, t] = total
    if STAYS:
        ptx.cluster_sync()


def multicast_ring(x: Any, y: Any) -> None:
    """The first CTA of a cluster loads tiles for all of it, through two stages."""
    ring = cuda.shared.array((2, 64), np.float32, 16)
    full = cuda.shared.array(2, np.uint64)
    empty = cuda.shared.array(2, np.uint64)
    t, rank, size = cuda.threadIdx.x, ptx.cluster_ctarank(), ptx.cluster_nctarank()
    if t == 0:
        for s in range(2):
            ptx.mbarrier_init(full, s, 1)
            ptx.mbarrier_init(empty, s, 32 * size if rank == 0 else 32)
        ptx.fence_mbarrier_init()
    ptx.cluster_sync()
    total = np.float32(0)
    if t == 32:
        for k in range(2 * ROUNDS):
            s = k % 2
            if WAITS or rank:
                ptx.mbarrier_wait_parity(empty, s, (k // 2 + 1) % 2)
            ptx.mbarrier_arrive_expect_tx(full, s, BYTES)
            if rank == 0:
                ptx.cp_async_bulk_global_to_shared_multicast(ring, (s, 0), x, 64 * k, 256, full, s, (1 << size) - 1)
    elif t < 32:
        for k in range(2 * ROUNDS):
            s = k % 2
            ptx.mbarrier_wait_parity(full, s, k // 2 % 2)
            total += ring[s, t] + ring[s, t + 32]
            ptx.fence_proxy_async()
            ptx.mbarrier_arrive_cluster(ptx.mapa(empty, 0), s)
            if rank > 0:
                ptx.mbarrier_arrive(empty, s)
        y[cuda.blockIdx.x, t] = total
    if STAYS:
        ptx.cluster_sync()


CLUSTERS = {"grid_stencil": 0, "cluster_histogram": 4, "cluster_reduce": 4, "multicast_ring": 4}
"""kernel -> CTAs of a cluster it is launched with"""


def arguments(name: str, ctas: int) -> tuple[Any, ...]:
    """What a kernel is launched with on so many CTAs of 64 threads."""
    threads = 64 * ctas
    return {
        "grid_stencil": lambda: (np.ones(threads, np.float32), np.ones(threads, np.float32)),
        "cluster_histogram": lambda: (np.arange(threads, dtype=np.int32) * 7, ints(64)),
        "cluster_reduce": lambda: (np.ones(threads, np.float32), np.zeros((ctas, 64), np.float32)),
        "multicast_ring": lambda: (np.ones(128 * ROUNDS, np.float32), np.zeros((ctas, 32), np.float32)),
    }[name]()
