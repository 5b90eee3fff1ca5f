"""Atomics of one thread return the same in all schedules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import wsemu
from wsemu import cuda

if TYPE_CHECKING:
    from wsemu.model.settings import Engine

ENGINES = ("vm", "reference")
i32 = np.int32


@cuda.jit
def tiles(count, out, total):
    shared = cuda.shared.array(1, i32)
    while True:
        if cuda.threadIdx.x == 0:
            shared[0] = cuda.atomic.add(count, 0, 1)
        cuda.syncthreads()
        tile = shared[0]
        cuda.syncthreads()
        if tile >= total:
            break
        out[tile * cuda.blockDim.x + cuda.threadIdx.x] = tile


@cuda.jit
def tiles_of_two(count, out, total):
    shared = cuda.shared.array(2, i32)
    while True:
        if cuda.threadIdx.x % 32 == 0:
            shared[cuda.threadIdx.x // 32] = cuda.atomic.add(count, 0, 1)
        cuda.syncthreads()
        tile = shared[0]
        cuda.syncthreads()
        if tile >= total:
            break
        out[tile * cuda.blockDim.x + cuda.threadIdx.x] = tile


@pytest.mark.parametrize("engine", ENGINES)
def test_a_counter_that_one_thread_draws_from_steers_nothing(engine: Engine) -> None:
    report = wsemu.check(tiles, 1, 64, (np.zeros(1, i32), np.zeros(64 * 200, i32), i32(200)), engine=engine)
    assert (report.verdict, report.notes) == ("verified", [])
    assert "all orders" not in report.proof  # one run decides


@pytest.mark.parametrize("engine", ENGINES)
def test_a_counter_that_two_threads_draw_from_steers(engine: Engine) -> None:
    report = wsemu.check(tiles_of_two, 1, 64, (np.zeros(1, i32), np.zeros(64 * 9, i32), i32(4)), engine=engine)
    assert "all orders" in report.proof


@cuda.jit
def two_counters(a, b, out, adds):
    """One thread draws from two counters, and all threads use the sum.  Another thread may add to a counter as well."""
    shared = cuda.shared.array(1, i32)
    t = cuda.threadIdx.x
    if t == 0:
        shared[0] = cuda.atomic.add(a, 0, 3) + cuda.atomic.add(b, 0, 5)
    if t == 33 and adds:
        cuda.atomic.add(b, 0, 1)
    cuda.syncthreads()
    if shared[0] + t < 40:
        out[t] = shared[0]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("adds", [False, True])
def test_each_counter_that_a_use_depends_on_belongs_to_one_thread(adds: bool, engine: Engine) -> None:
    arrays = np.zeros(1, i32), np.zeros(1, i32), np.zeros(64, i32)
    report = wsemu.check(two_counters, 1, 64, (*arrays, i32(adds)), engine=engine)
    steered = report.verdict != "verified" or "all orders" in report.proof
    assert steered == adds
