"""Kernels that atomics steer, each with what goes wrong if a part of it is changed.

The parts are globals of the module, which are constants of a kernel: `variant` makes a kernel with other ones.
"""

from __future__ import annotations

import types
from typing import Any

import numpy as np

from wsemu import cuda

FENCE_BEFORE, FENCE_AFTER = True, True
OFF = 0
"""added to the count that tells the last one, a bound, or a turn"""
UNLOCKS, CHECKS_AGAIN, SYNCS = True, True, True
SPREAD = 1
"""tasks by this are those that write"""


def last_block(x: Any, partial: Any, count: Any, y: Any) -> None:
    """A reduction in one pass: the CTA that comes last adds up what all have left."""
    last = cuda.shared.array(1, np.int32)
    t = cuda.threadIdx.x
    if t == 0:
        total = 0
        for k in range(4):
            total += x[4 * cuda.blockIdx.x + k]
        partial[cuda.blockIdx.x] = total
        if FENCE_BEFORE:
            cuda.threadfence()
        last[0] = cuda.atomic.add(count, 0, 1) == cuda.gridDim.x - 1 - OFF
        if FENCE_AFTER:
            cuda.threadfence()
    cuda.syncthreads()
    if last[0] and t < cuda.gridDim.x:
        cuda.atomic.add(y, 0, partial[t])
        if t == 0:
            count[0] = 0


def spin_lock(mutex: Any, counter: Any) -> None:
    """One thread of each CTA at a time adds to a counter."""
    if cuda.threadIdx.x == 0:
        while cuda.atomic.cas(mutex, 0, 0, 1) != 0:
            pass
        if FENCE_AFTER:
            cuda.threadfence()
        counter[0] += 1
        if FENCE_BEFORE:
            cuda.threadfence()
        if UNLOCKS:
            cuda.atomic.exch(mutex, 0, 0)


def ticket_lock(lock: Any, counter: Any) -> None:
    """The same in the order of tickets."""
    if cuda.threadIdx.x == 0:
        mine = cuda.atomic.add(lock, 0, 1)
        while cuda.atomic.add(lock, 1, 0) != mine + OFF:
            pass
        if FENCE_AFTER:
            cuda.threadfence()
        counter[0] += 1
        if FENCE_BEFORE:
            cuda.threadfence()
        if UNLOCKS:
            cuda.atomic.add(lock, 1, 1)


def work_queue(count: Any, x: Any, y: Any) -> None:
    """Warps take one task after another."""
    lane = cuda.threadIdx.x % 32
    while True:
        task = 0
        if lane == 0:
            task = cuda.atomic.add(count, 0, 1)
        task = cuda.shfl_sync(0xFFFFFFFF, task, 0)
        if task >= x.shape[0] + OFF:
            break
        y[task // SPREAD, lane] = 2 * x[task, lane]


def tile_scheduler(count: Any, x: Any, y: Any) -> None:
    """CTAs take one tile after another, and tell all their threads through shared memory."""
    tile = cuda.shared.array(1, np.int32)
    t = cuda.threadIdx.x
    while True:
        if t == 0:
            tile[0] = cuda.atomic.add(count, 0, 1)
        cuda.syncthreads()
        mine = tile[0]
        if SYNCS:
            cuda.syncthreads()
        if mine >= x.shape[0] + OFF:
            break
        y[mine // SPREAD, t] = 2 * x[mine, t]


def stream_k(flags: Any, partial: Any, y: Any) -> None:
    """All CTAs but the first leave a part of a tile, which the first one waits for and adds up."""
    t = cuda.threadIdx.x
    if cuda.blockIdx.x > 0:
        partial[cuda.blockIdx.x, t] = cuda.blockIdx.x + t
        cuda.syncthreads()
        if t == 0:
            if FENCE_BEFORE:
                cuda.threadfence()
            cuda.atomic.exch(flags, cuda.blockIdx.x, 1)
    else:
        total = 0
        for k in range(1, cuda.gridDim.x + OFF):
            if t == 0:
                while cuda.atomic.add(flags, k, 0) == 0:
                    pass
                if FENCE_AFTER:
                    cuda.threadfence()
            cuda.syncthreads()
            total += partial[k, t]
        y[t] = total


def split_k(semaphore: Any, y: Any) -> None:
    """CTAs add to one tile in turn, as Triton's lock for split-K does."""
    t = cuda.threadIdx.x
    if t == 0:
        while cuda.atomic.add(semaphore, 0, 0) != cuda.blockIdx.x + OFF:
            pass
        if FENCE_AFTER:
            cuda.threadfence()
    cuda.syncthreads()
    y[t] += cuda.blockIdx.x + 1
    cuda.syncthreads()
    if t == 0:
        if FENCE_BEFORE:
            cuda.threadfence()
        cuda.atomic.exch(semaphore, 0, cuda.blockIdx.x + 1)


def look_back(status: Any, values: Any, x: Any, y: Any) -> None:
    """A prefix sum: each CTA leaves its sum, and looks back over its predecessors up to one that has its prefix."""
    if cuda.threadIdx.x == 0:
        mine = cuda.blockIdx.x
        total = x[mine]
        if mine > 0:
            values[mine, 0] = total
            if FENCE_BEFORE:
                cuda.threadfence()
            cuda.atomic.exch(status, mine, 1)
        before = 0
        at = mine - 1
        while at >= OFF:
            seen = cuda.atomic.add(status, at, 0)
            if seen == 0:
                continue
            if FENCE_AFTER:
                cuda.threadfence()
            before += values[at, seen - 1]
            if seen == 2:
                break
            at -= 1
        values[mine, 1] = before + total
        if FENCE_BEFORE:
            cuda.threadfence()
        cuda.atomic.exch(status, mine, 2)
        y[mine] = before + total


def checked_twice(flag: Any, mutex: Any, table: Any, y: Any) -> None:
    """The first that comes fills a table; who sees that it is filled does without the lock."""
    if cuda.threadIdx.x == 0:
        if cuda.atomic.add(flag, 0, 0) == 0:
            cuda.threadfence()
            while cuda.atomic.cas(mutex, 0, 0, 1) != 0:
                pass
            cuda.threadfence()
            if not CHECKS_AGAIN or cuda.atomic.add(flag, 0, 0) == 0:
                table[0] = 7
                if FENCE_BEFORE:
                    cuda.threadfence()
                cuda.atomic.exch(flag, 0, 1)
            cuda.threadfence()
            if UNLOCKS:
                cuda.atomic.exch(mutex, 0, 0)
        if FENCE_AFTER:
            cuda.threadfence()
        y[cuda.blockIdx.x] = table[0]


def variant(function: Any, **parts: Any) -> Any:
    """A kernel with other values of its module's globals."""
    names = {**function.__globals__, **parts}
    changed = types.FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, function.__closure__
    )
    return cuda.jit(changed)


def ints(*shape: int) -> Any:
    """An array of zeros."""
    return np.zeros(shape, np.int32)


def arguments(name: str, ctas: int) -> tuple[Any, ...]:
    """What a kernel is launched with on so many CTAs."""
    return {
        "last_block": lambda: (np.ones(4 * ctas, np.int32), ints(ctas), ints(1), ints(1)),
        "spin_lock": lambda: (ints(1), ints(1)),
        "ticket_lock": lambda: (ints(2), ints(1)),
        "work_queue": lambda: (ints(1), np.ones((6, 32), np.int32), ints(6, 32)),
        "tile_scheduler": lambda: (ints(1), np.ones((4, 64), np.int32), ints(4, 64)),
        "stream_k": lambda: (ints(ctas), ints(ctas, 64), ints(64)),
        "split_k": lambda: (ints(1), ints(64)),
        "look_back": lambda: (ints(ctas), ints(ctas, 2), np.ones(ctas, np.int32), ints(ctas)),
        "checked_twice": lambda: (ints(1), ints(1), ints(1), ints(ctas)),
    }[name]()
