"""What a finding points to where no edit is a cure: the likeliest mistake, named at its line."""

from __future__ import annotations

import numpy as np

import wsemu
from wsemu import cuda, ptx
from wsemu.patterns import Pipeline

F32 = np.float32
PLENTY = 60.0
"""seconds: so that it is the number of edits that ends a search, on any machine"""


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, F32)


def line_of(kernel, text: str) -> int:
    """The line of a kernel that has this text."""
    import inspect

    lines, first = inspect.getsourcelines(kernel.py_func)
    return first + next(n for n, line in enumerate(lines) if text in line)


@cuda.jit
def parity_of_each_tile(x, y):
    ring = cuda.shared.array((2, 32), F32)
    full = cuda.shared.array(2, np.uint64)
    empty = cuda.shared.array(2, np.uint64)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x == 0:
        for s in range(2):
            ptx.mbarrier_init(full, s, 32)
            ptx.mbarrier_init(empty, s, 32)
    cuda.syncthreads()
    if cuda.threadIdx.x < 32:
        for i in range(6):
            ptx.mbarrier_wait_parity(empty, i % 2, (i // 2 & 1) ^ 1)
            ring[i % 2, lane] = x[i, lane]
            ptx.mbarrier_arrive(full, i % 2)
    else:
        for i in range(6):
            ptx.mbarrier_wait_parity(full, i % 2, i & 1)
            y[i, lane] = ring[i % 2, lane]
            ptx.mbarrier_arrive(empty, i % 2)


def test_a_wait_that_is_a_phase_ahead_is_told_as_that():
    """Not as an arrive that is missing, or on another mbarrier."""
    (error,) = wsemu.check(parity_of_each_tile, 1, 64, (zeros(6, 32), zeros(6, 32))).errors
    line = line_of(parity_of_each_tile, "(full, i % 2, i & 1)")
    assert error.help is not None
    assert error.help.startswith(
        f"warp 1 waits on line {line} for phase 1 of `full[1]`, and has not waited for phase 0, which is complete"
    )


@cuda.jit
def neighbours(x, y):
    s = cuda.shared.array(64, F32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    y[t] = s[t ^ 1] + s[63 - t]


def test_lanes_that_race_where_warps_do_too_get_a_barrier_of_the_cta():
    @cuda.jit
    def within(x, y):
        s = cuda.shared.array(64, F32)
        t = cuda.threadIdx.x
        s[t] = x[t]
        y[t] = s[t ^ 1]

    def lanes(kernel) -> str:
        found = wsemu.check(kernel, 1, 64, (zeros(64), zeros(64))).errors
        return next(finding.help or "" for finding in found if finding.code == "intra-warp-race")

    assert "`cuda.syncwarp()`" in lanes(within)
    assert "`cuda.syncthreads()`" in lanes(neighbours)
    assert "syncwarp" not in lanes(neighbours)


@cuda.jit
def ahead_by_two(x, y):
    buffer = cuda.shared.array((3, 32), F32)
    t = cuda.threadIdx.x
    for s in range(2):
        ptx.cp_async_ca(buffer, (s, t), x, s * 32 + t, 4)
        ptx.cp_async_commit_group()
    for i in range(6):
        y[i, t] = buffer[i % 3, t]
        if i + 2 < 6:
            ptx.cp_async_ca(buffer, ((i + 2) % 3, t), x, (i + 2) * 32 + t, 4)
        ptx.cp_async_commit_group()


def test_as_many_groups_as_may_stay_under_way():
    """A wait for all of them is right, too, and ends what the ring is for."""
    report = wsemu.check(ahead_by_two, 1, 32, (zeros(192), zeros(6, 32)))
    races = [error.help or "" for error in report.errors if error.code == "race"]
    assert "`ptx.cp_async_wait_group(n)` where n groups" in races[0]
    assert "insert `ptx.cp_async_wait_group(1)`" in report.cures(budget=PLENTY)[0].says


def test_an_arrive_that_copies_raise_too_late_changes_places():
    @cuda.jit
    def counted_late(x, y):
        s = cuda.shared.array(32, F32)
        bar = cuda.shared.array(1, np.uint64)
        t = cuda.threadIdx.x
        if t == 0:
            ptx.mbarrier_init(bar, 0, 32)
        cuda.syncwarp()
        ptx.cp_async_ca(s, t, x, t, 4)
        ptx.mbarrier_arrive(bar, 0)
        ptx.cp_async_mbarrier_arrive(bar, 0)
        ptx.mbarrier_wait_parity(bar, 0, 0)
        y[t] = s[31 - t]

    report = wsemu.check(counted_late, 1, 32, (zeros(32), zeros(32)))
    line = line_of(counted_late, "cp_async_mbarrier_arrive")
    told = next(error.help or "" for error in report.errors if error.code == "phase-alias")
    assert told.startswith(f"put line {line} before the arrive on line {line - 1}")
    assert "move `ptx.mbarrier_arrive(bar, 0)`" in report.cures(budget=PLENTY)[0].says


RING = Pipeline(2, 32, 64, engine="warps")


def test_a_deadlock_of_a_pipeline_names_its_buffers():
    @cuda.jit
    def too_few_consumers(x, y):
        bars = cuda.shared.array(RING.barriers, np.uint64)
        tile = cuda.shared.array((2, 32), F32)
        RING.start(bars)
        lane = cuda.threadIdx.x % 32
        for i in range(4):
            if cuda.threadIdx.x < 32:
                RING.producer_acquire(bars, i)
                tile[RING.stage(i), lane] = x[i, lane]
                RING.producer_commit(bars, i)
            else:
                RING.consumer_wait(bars, i)
                y[i, lane] = tile[RING.stage(i), lane]
                RING.consumer_release(bars, i)

    (error,) = wsemu.check(too_few_consumers, 1, 64, (zeros(4, 32), zeros(4, 32))).errors
    assert "`bars[2]` (buffer 0 empty) phase 0" in error.message
    assert "`bars[0]` (buffer 0 full) phase 1" in error.message
