"""Slips of the pen in other spellings: the first report names the cause, and an edit that mends it is proven."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import wsemu
from wsemu import cuda, ptx
from wsemu.patterns import Pipeline

F32, I32 = np.float32, np.int32
PLENTY = 60.0
"""seconds: so that it is the number of edits that ends a search, on any machine"""


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, F32)


# -- the bound of one role's loop --------------------------------------------------------------------------------------
@cuda.jit
def reader_begins_late(x, y, n):
    buffer = cuda.shared.array(64, F32)
    t = cuda.threadIdx.x
    if t < 64:
        for i in range(1, n):
            ptx.bar_sync(1, 96)
            y[i, t] = 2 * buffer[t]
            ptx.bar_sync(2, 96)
    else:
        for i in range(n):
            buffer[t - 64] = x[i, t - 64]
            buffer[t - 32] = x[i, t - 32]
            ptx.bar_arrive(1, 96)
            ptx.bar_sync(2, 96)


@cuda.jit
def while_once_more(x, y, n):
    ring = cuda.shared.array((2, 32), F32)
    lane = cuda.threadIdx.x % 32
    i = 0
    if cuda.threadIdx.x < 32:
        while i < n:
            if i >= 2:
                ptx.bar_sync(3 + i % 2, 64)
            ring[i % 2, lane] = x[i * 32 + lane]
            ptx.bar_arrive(1 + i % 2, 64)
            i += 1
    else:
        while i <= n:
            ptx.bar_sync(1 + i % 2, 64)
            y[i * 32 + lane] = ring[i % 2, lane]
            if i < n - 2:
                ptx.bar_arrive(3 + i % 2, 64)
            i += 1


@cuda.jit
def phases_once_more(x, y):
    tile = cuda.shared.array(32, F32)
    bars = cuda.shared.array(2, np.uint64)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x == 0:
        ptx.mbarrier_init(bars, 0, 32)
        ptx.mbarrier_init(bars, 1, 32)
    cuda.syncthreads()
    if cuda.threadIdx.x < 32:
        for i in range(4):
            ptx.mbarrier_wait_parity(bars, 1, i & 1 ^ 1)
            tile[lane] = x[i, lane]
            ptx.mbarrier_arrive(bars, 0)
    else:
        for i in range(5):
            ptx.mbarrier_wait_parity(bars, 0, i & 1)
            if i < 4:
                y[i, lane] = tile[lane]
            ptx.mbarrier_arrive(bars, 1)


# -- an index by one ---------------------------------------------------------------------------------------------------
@cuda.jit
def right_halo(x, y, n):
    tile = cuda.shared.array(34, F32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    tile[t + 1] = x[i]
    if t == 0:
        tile[0] = x[i - 1] if i > 0 else 0
    if t == 31:
        tile[34] = x[i + 1] if i + 1 < n else 0
    cuda.syncthreads()
    y[i] = tile[t] + tile[t + 1] + tile[t + 2]


@cuda.jit
def lowest_row(x, y):
    i, j = cuda.grid(2)
    h, w = x.shape
    if 0 < i < h and 0 < j < w - 1:
        y[i, j] = x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1] - 4 * x[i, j]


# -- a barrier of the warp ---------------------------------------------------------------------------------------------
@cuda.jit
def halves(x, y):
    s = cuda.shared.array(128, F32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    k = 64
    while k > 0:
        if t < k:
            s[t] += s[t + k]
        cuda.syncwarp()
        k //= 2
    if t == 0:
        y[0] = s[0]


@cuda.jit
def a_barrier_for_each_warp(x, y):
    s = cuda.shared.array(64, F32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    ptx.bar_sync(1 + t // 32, 32)
    y[t] = s[t ^ 32]


# -- a barrier in a branch ---------------------------------------------------------------------------------------------
@cuda.jit
def one_in_each_branch(x, y):
    s = cuda.shared.array(64, F32)
    t = cuda.threadIdx.x
    if t % 2 == 0:
        s[t] = x[t]
        cuda.syncthreads()
    else:
        s[t] = -x[t]
        cuda.syncthreads()
    y[t] = s[63 - t]


@cuda.jit
def in_the_last_steps(x, y):
    s = cuda.shared.array(64, F32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    k = 32
    while k > 0:
        if t < k:
            s[t] += s[t + k]
            cuda.syncthreads()
        k >>= 1
    if t == 0:
        y[0] = s[0]


# -- the count of a ring -----------------------------------------------------------------------------------------------
@cuda.jit
def writers_count_themselves(x, y):
    ring = cuda.shared.array((2, 64), F32)
    t = cuda.threadIdx.x
    if t < 64:
        for i in range(4):
            ptx.bar_sync(1 + i % 2, 96)
            y[i, t] = ring[i % 2, t]
            if i < 2:
                ptx.bar_arrive(3 + i % 2, 96)
    else:
        for i in range(4):
            if i >= 2:
                ptx.bar_sync(3 + i % 2, 96)
            ring[i % 2, t - 64] = x[i, t - 64]
            ring[i % 2, t - 32] = x[i, t - 32]
            ptx.bar_arrive(1 + i % 2, 64)


@cuda.jit
def one_arrival_is_expected(x, y):
    ring = cuda.shared.array((2, 32), F32)
    full = cuda.shared.array(2, np.uint64)
    free = cuda.shared.array(2, np.uint64)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x == 0:
        for s in range(2):
            ptx.mbarrier_init(full, s, 1)
            ptx.mbarrier_init(free, s, 32)
    cuda.syncthreads()
    if cuda.threadIdx.x < 32:
        for i in range(4):
            ptx.mbarrier_wait_parity(free, i % 2, i // 2 & 1 ^ 1)
            ring[i % 2, lane] = x[i, lane]
            ptx.mbarrier_arrive(full, i % 2)
    else:
        for i in range(4):
            ptx.mbarrier_wait_parity(full, i % 2, i // 2 & 1)
            y[i, lane] = ring[i % 2, lane]
            ptx.mbarrier_arrive(free, i % 2)


# -- two indices in the wrong order ------------------------------------------------------------------------------------
@cuda.jit
def rows_for_columns(x, y):
    i, j = cuda.grid(2)
    y[j, i] = 2 * x[j, i]


@cuda.jit
def tile_the_other_way(x, y):
    tile = cuda.shared.array((16, 8), F32)
    i, j = cuda.threadIdx.x, cuda.threadIdx.y
    tile[i, j] = x[j, i]
    cuda.syncthreads()
    y[j, i] = tile[j, i]


# -- a shuffle behind a return -----------------------------------------------------------------------------------------
@cuda.jit
def sum_of_those_who_stay(x, y, n):
    t = cuda.threadIdx.x
    if t >= n:
        return
    value = x[t]
    k = 16
    while k > 0:
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, k)
        k //= 2
    if t == 0:
        y[0] = value


@cuda.jit
def exchange_in_a_branch(x, y, n):
    t = cuda.threadIdx.x
    if t < n:
        value = x[t]
        other = cuda.shfl_xor_sync(0xFFFFFFFF, value, 1)
        y[t] = value + other


# -- a queue -----------------------------------------------------------------------------------------------------------
@cuda.jit
def ticket_by_hand(x, count, out):
    t = cuda.threadIdx.x
    if x[t] >= 0:
        k = count[0]
        count[0] += 1
        out[t] = k


# -- a vector ----------------------------------------------------------------------------------------------------------
@cuda.jit
def four_at_a_time(x, y):
    t = cuda.threadIdx.x
    a, b, c, d = ptx.ld_v4(x, 4 * t)
    ptx.st_v4(y, 4 * t + 2, (a, b, c, d))


@cuda.jit
def rows_of_five(x, y):
    s = cuda.shared.array((32, 5), F32)
    t = cuda.threadIdx.x
    for k in range(4):
        s[t, k] = x[4 * t + k]
    a, b, c, d = ptx.ld_v4(s, (t, 0))
    y[t] = a + b + c + d


# -- a wait that comes too late ----------------------------------------------------------------------------------------
@cuda.jit
def one_group_too_many(x, y):
    buffer = cuda.shared.array((2, 32), F32)
    t = cuda.threadIdx.x
    ptx.cp_async_ca(buffer, (0, t), x, t, 4)
    ptx.cp_async_commit_group()
    for i in range(4):
        if i + 1 < 4:
            ptx.cp_async_ca(buffer, ((i + 1) % 2, t), x, (i + 1) * 32 + t, 4)
        ptx.cp_async_commit_group()
        ptx.cp_async_wait_group(2)
        y[i, t] = buffer[i % 2, t]


@cuda.jit
def used_before_the_phase(x, y):
    buffer = cuda.shared.array(64, F32)
    bar = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(bar, 0, 1)
        ptx.fence_proxy_async()
    cuda.syncwarp()
    if t == 0:
        ptx.mbarrier_arrive_expect_tx(bar, 0, 256)
        ptx.cp_async_bulk_global_to_shared(buffer, 0, x, 0, 256, bar, 0)
    y[t] = buffer[t]
    y[32 + t] = buffer[32 + t]
    ptx.mbarrier_wait_parity(bar, 0, 0)


# -- what is nowhere in the kernel -------------------------------------------------------------------------------------
@cuda.jit
def buffer_never_given_back(x, y):
    ring = cuda.shared.array((2, 32), F32)
    full = cuda.shared.array(2, np.uint64)
    empty = cuda.shared.array(2, np.uint64)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x == 0:
        for s in range(2):
            ptx.mbarrier_init(full, s, 32)
            ptx.mbarrier_init(empty, s, 32)
    cuda.syncthreads()
    for i in range(4):
        s, phase = i % 2, i // 2 & 1
        if cuda.threadIdx.x < 32:
            ptx.mbarrier_wait_parity(empty, s, phase ^ 1)
            ring[s, lane] = x[i, lane]
            ptx.mbarrier_arrive(full, s)
        else:
            ptx.mbarrier_wait_parity(full, s, phase)
            y[i, lane] = ring[s, lane]


PAIR = Pipeline(2, 32, 32, engine="warps")


@cuda.jit
def tile_used_unseen(x, y):
    bars = cuda.shared.array(PAIR.barriers, np.uint64)
    ring = cuda.shared.array((2, 32), F32)
    PAIR.start(bars)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x < 32:
        for i in range(4):
            PAIR.producer_acquire(bars, i)
            ring[PAIR.stage(i), lane] = x[i, lane]
            PAIR.producer_commit(bars, i)
    else:
        for i in range(4):
            y[i, lane] = ring[PAIR.stage(i), lane]
            PAIR.consumer_release(bars, i)


@cuda.jit
def ticket_without_a_fence(x, parts, ticket, y):
    b = cuda.blockIdx.x
    parts[b] = 2 * x[b]
    if cuda.atomic.add(ticket, 0, 1) == cuda.gridDim.x - 1:
        cuda.threadfence()
        y[0] = parts[0] + parts[1]


@cuda.jit
def tile_of_a_map_unawaited(x, y):
    tile = cuda.shared.array((2, 64), F32, 16)
    full = cuda.shared.array(2, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        for s in range(2):
            ptx.mbarrier_init(full, s, 1)
        ptx.fence_proxy_async()
    cuda.syncwarp()
    for i in range(4):
        if t == 0:
            ptx.mbarrier_arrive_expect_tx(full, i % 2, 256)
            ptx.cp_async_bulk_global_to_shared(tile, (i % 2, 0), x, 64 * i, 256, full, i % 2)
        y[i, t] = tile[i % 2, t]
        ptx.fence_proxy_async()
        cuda.syncwarp()


# -- too many, too early, the wrong one --------------------------------------------------------------------------------
@cuda.jit
def two_copies_one_counted(x, y):
    a = cuda.shared.array(64, F32, 16)
    b = cuda.shared.array(64, F32, 16)
    bar = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(bar, 0, 1)
        ptx.fence_proxy_async()
    cuda.syncwarp()
    for i in range(3):
        if t == 0:
            ptx.mbarrier_arrive_expect_tx(bar, 0, 256)
            ptx.cp_async_bulk_global_to_shared(a, 0, x, 64 * i, 256, bar, 0)
            ptx.cp_async_bulk_global_to_shared(b, 0, x, 64 * i + 64, 256, bar, 0)
        ptx.mbarrier_wait_parity(bar, 0, i & 1)
        y[i, t] = a[t] + b[t]
        ptx.fence_proxy_async()
        cuda.syncwarp()


@cuda.jit
def told_before_it_is_copied(x, y):
    s = cuda.shared.array(32, F32)
    bar = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(bar, 0, 32)
    cuda.syncwarp()
    ptx.cp_async_mbarrier_arrive_noinc(bar, 0)
    ptx.cp_async_ca(s, t, x, t, 4)
    ptx.mbarrier_wait_parity(bar, 0, 0)
    y[t] = s[31 - t]


@cuda.jit
def two_groups_one_id(x, y):
    s = cuda.shared.array(128, F32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    if t < 64:
        ptx.bar_sync(1, 64)
        y[t] = s[63 - t]
    else:
        ptx.bar_sync(1, 64)
        y[t] = s[191 - t]


@cuda.jit
def given_back_too_early(x, y):
    bars = cuda.shared.array(PAIR.barriers, np.uint64)
    ring = cuda.shared.array((2, 32), F32)
    PAIR.start(bars)
    lane = cuda.threadIdx.x % 32
    for i in range(4):
        if cuda.threadIdx.x < 32:
            PAIR.producer_acquire(bars, i)
            ring[PAIR.stage(i), lane] = x[i, lane]
            PAIR.producer_commit(bars, i)
        else:
            PAIR.consumer_wait(bars, i)
            PAIR.consumer_release(bars, i)
            y[i, lane] = ring[PAIR.stage(i), 31 - lane]


@cuda.jit
def result_into_the_source(x, y):
    i = cuda.grid(1)
    if 0 < i < x.size - 1:
        x[i] = (x[i - 1] + x[i + 1]) / 2


@cuda.jit
def border_taken_in(x, y):
    i = cuda.grid(1)
    if 0 < i < x.size:
        y[i] = x[i - 1] + x[i + 1]


# -- in place ----------------------------------------------------------------------------------------------------------
@cuda.jit
def sums_in_place(x, y):
    s = cuda.shared.array(64, I32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    d = 1
    while d < 64:
        if t >= d:
            s[t] += s[t - d]
        cuda.syncthreads()
        d *= 2
    y[t] = s[t]


# -- which threads -----------------------------------------------------------------------------------------------------
@cuda.jit
def stride_of_a_block(x, y):
    for i in range(cuda.grid(1), x.size, cuda.blockDim.x):
        y[i] += x[i]


@cuda.jit
def halo_by_too_few(x, y):
    s = cuda.shared.array(70, F32)
    t = cuda.threadIdx.x
    s[t + 3] = x[t]
    if t < 2:
        s[t] = 0
        s[t + 67] = 0
    cuda.syncthreads()
    total = F32(0)
    for k in range(7):
        total += s[t + k]
    y[t] = total


@cuda.jit
def last_tile_left(x, y, n):
    s = cuda.shared.array((2, 32), F32)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x < 32:
        for i in range(n):
            if i >= 2:
                ptx.bar_sync(3 + i % 2, 64)
            s[i % 2, lane] = x[i, lane]
            ptx.bar_arrive(1 + i % 2, 64)
    else:
        for i in range(n - 1):
            ptx.bar_sync(1 + i % 2, 64)
            y[i, lane] = s[i % 2, lane]
            if i + 2 < n:
                ptx.bar_arrive(3 + i % 2, 64)


class Slip(NamedTuple):
    kernel: Any
    block: Any
    arguments: tuple[Any, ...]
    first: str
    """code of the report that is shown first"""
    cure: str
    """a part of what one of the first two cures says"""
    expected: dict[str, Any] | None = None
    grid: int = 1
    drops: bool = False
    """threads repeat each other's stores"""


ROWS = np.arange(128, dtype=F32).reshape(16, 8)
SLIPS = {slip.kernel.py_func.__name__: slip for slip in (
    Slip(reader_begins_late, 96, (zeros(6, 64), zeros(6, 64), 6), "deadlock", "`n`"),
    Slip(while_once_more, 64, (zeros(256), zeros(256), 8), "deadlock", "`i < n`"),
    Slip(phases_once_more, 64, (zeros(4, 32), zeros(4, 32)), "deadlock", "`4` in place of `5`"),
    Slip(right_halo, 32, (zeros(32), zeros(32), 32), "out-of-bounds", "`33` in place of `34`"),
    Slip(lowest_row, (8, 8), (zeros(8, 8), zeros(8, 8)), "out-of-bounds", "`h - 1` in place of `h`"),
    Slip(halves, 128, (zeros(128), zeros(1)), "race", "`cuda.syncthreads()` in place of `cuda.syncwarp()`"),
    Slip(a_barrier_for_each_warp, 64, (zeros(64), zeros(64)), "race", "`cuda.syncthreads()`"),
    Slip(one_in_each_branch, 64, (zeros(64), zeros(64)), "barrier-divergence", "after the `if`"),
    Slip(in_the_last_steps, 64, (zeros(64), zeros(1)), "barrier-divergence", "out of the `if`"),
    Slip(writers_count_themselves, 96, (zeros(4, 64), zeros(4, 64)), "count-mismatch", "`96` in place of `64`"),
    Slip(one_arrival_is_expected, 64, (zeros(4, 32), zeros(4, 32)), "over-arrival", "`32` in place of `1`"),
    Slip(rows_for_columns, (16, 8), (ROWS, zeros(16, 8)), "out-of-bounds", "`j, i` in place of `i, j`",
         {"y": 2 * ROWS}),
    Slip(tile_the_other_way, (8, 16), (ROWS, zeros(16, 8)), "out-of-bounds", "`j, i` in place of `i, j`", {"y": ROWS}),
    Slip(sum_of_those_who_stay, 32, (zeros(32), zeros(1), 20), "undefined-shuffle", "take out the early `return`"),
    Slip(exchange_in_a_branch, 32, (zeros(32), zeros(32), 21), "barrier-divergence", "out of the `if`"),
    Slip(ticket_by_hand, 64, (zeros(64), np.zeros(1, I32), zeros(64)), "race", "`cuda.atomic.add(count, 0, 1)`"),
    Slip(four_at_a_time, 32, (zeros(128), zeros(130)), "misaligned", "`4 * t` in place of `4 * t + 2`"),
    Slip(rows_of_five, 32, (zeros(128), zeros(32)), "misaligned", "`8` in place of `5`"),
    Slip(one_group_too_many, 32, (zeros(128), zeros(4, 32)), "race", "`1` in place of `2`"),
    Slip(buffer_never_given_back, 64, (zeros(4, 32), zeros(4, 32)), "deadlock",
         "insert `ptx.mbarrier_arrive(empty, s)`"),
    Slip(tile_used_unseen, 64, (zeros(4, 32), zeros(4, 32)), "uninitialized-read",
         "insert `PAIR.consumer_wait(bars, i)`"),
    Slip(ticket_without_a_fence, 1, (zeros(2), zeros(2), np.zeros(1, I32), zeros(1)), "race",
         "insert `cuda.threadfence()`", grid=2),
    Slip(sums_in_place, 64, (np.arange(64, dtype=I32), np.zeros(64, I32)), "race",
         "with `cuda.syncthreads()` in between", {"y": np.cumsum(np.arange(64))}),
    Slip(stride_of_a_block, 32, (zeros(128), zeros(128)), "race", "`cuda.gridsize(1)`", grid=2, drops=True),
    Slip(halo_by_too_few, 64, (np.ones(64, F32), zeros(64)), "uninitialized-read", "`3` in place of `2`"),
    Slip(last_tile_left, 64, (np.ones((5, 32), F32), zeros(5, 32), 5), "dangling-arrive", "`n` in place of `n - 1`"),
    Slip(tile_of_a_map_unawaited, 32, (zeros(256), zeros(4, 32)), "phase-alias",
         "insert `ptx.mbarrier_wait_parity(full, i % 2, i // 2 & 1)`"),
    Slip(two_copies_one_counted, 32, (zeros(256), zeros(3, 32)), "deadlock", "`512` in place of `256`"),
    Slip(told_before_it_is_copied, 32, (zeros(32), zeros(32)), "race", "move `ptx.cp_async"),
    Slip(two_groups_one_id, 128, (zeros(128), zeros(128)), "barrier-recycling", "write `2` in place of `1`"),
    Slip(given_back_too_early, 64, (zeros(4, 32), zeros(4, 32)), "race", "move `PAIR.consumer_release(bars, i)`"),
    Slip(result_into_the_source, 32, (zeros(64), zeros(64)), "race", "write `y` in place of `x`", grid=2),
    Slip(border_taken_in, 32, (zeros(32), zeros(32)), "out-of-bounds", "write `x.size - 1` in place of `x.size`"),
    Slip(used_before_the_phase, 32, (zeros(64), zeros(64)), "race", "move `ptx.mbarrier_wait_parity(bar, 0, 0)`"),
)}  # fmt: skip


@pytest.mark.parametrize("name", SLIPS)
def test_a_slip_is_named_and_mended(name):
    slip = SLIPS[name]
    report = wsemu.check(slip.kernel, slip.grid, slip.block, slip.arguments)
    cures = report.cures(expected=slip.expected, budget=PLENTY)
    assert any(slip.cure in cure.says for cure in cures[:2]), [cure.says for cure in cures]
    assert report.helped().findings[0].code == slip.first
    assert slip.expected is None or cures[0].expected
    assert cures[0].drops == slip.drops


def test_the_race_whose_lines_are_replaced_is_told_before_what_it_leaves_unwritten():
    """What nobody wrote comes first, but not where the edit replaces what races."""

    @cuda.jit
    def both(x, y):
        s = cuda.shared.array(64, F32)
        t = cuda.threadIdx.x
        s[t // 2] = x[t]
        cuda.syncthreads()
        y[t] = s[t]

    report = wsemu.check(both, 1, 64, (np.arange(64, dtype=F32), zeros(64)))
    assert {finding.code for finding in report.findings} >= {"uninitialized-read"}
    shown = report.helped(PLENTY)
    assert "race" in shown.findings[0].code


def test_an_edit_with_which_hardly_anything_is_stored_says_that_it_drops_stores():
    cures = wsemu.check(ticket_by_hand, 1, 64, SLIPS["ticket_by_hand"].arguments).cures(budget=PLENTY)
    assert {cure.drops for cure in cures if cure.edits[0].kind in ("compare", "bound")} <= {True}


def test_an_arrive_of_copies_that_counts_itself_is_named():
    """Without `noinc` it adds the arrival that it makes: the phase lacks as many as before."""

    @cuda.jit
    def counts_itself(x, y):
        s = cuda.shared.array(32, F32)
        bar = cuda.shared.array(1, np.uint64)
        t = cuda.threadIdx.x
        if t == 0:
            ptx.mbarrier_init(bar, 0, 32)
        cuda.syncwarp()
        ptx.cp_async_ca(s, t, x, t, 4)
        ptx.cp_async_mbarrier_arrive(bar, 0)
        ptx.mbarrier_wait_parity(bar, 0, 0)
        y[t] = s[31 - t]

    report = wsemu.check(counts_itself, 1, 32, (zeros(32), zeros(32)))
    (error,) = report.errors
    assert error.code == "deadlock"
    assert "use `ptx.cp_async_mbarrier_arrive_noinc()`, or arrive in the same thread after it" in (error.help or "")
    cures = report.cures(budget=PLENTY)
    assert "cp_async_mbarrier_arrive_noinc" in cures[0].says


def test_an_edit_that_fits_one_size_alone_comes_after_others():
    """With `n` tiles a bound of 5 is right for 5 alone."""
    cures = wsemu.check(last_tile_unasked, 1, 64, (zeros(5, 32), zeros(5, 32), 5)).cures(budget=PLENTY)
    assert "`n`" in cures[0].says
    assert "`5` in place of `4`" not in cures[0].says


@cuda.jit
def last_tile_unasked(x, y, n):
    s = cuda.shared.array(32, F32)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x < 32:
        for i in range(n):
            s[lane] = x[i, lane]
            ptx.bar_arrive(1, 64)
            ptx.bar_sync(2, 64)
    else:
        for i in range(4):
            ptx.bar_sync(1, 64)
            y[i, lane] = s[lane]
            ptx.bar_arrive(2, 64)


def test_an_index_that_dodges_the_race_is_no_fix():
    """Each thread would read what it wrote itself: a transpose that is none."""

    @cuda.jit
    def turned(x, y):
        s = cuda.shared.array((8, 9), F32)
        i, j = cuda.threadIdx.x, cuda.threadIdx.y
        s[j, i] = x[j, i]
        y[j, i] = s[i, j]

    cures = wsemu.check(turned, 1, (8, 8), (ROWS[:8].copy(), zeros(8, 8))).cures(budget=PLENTY)
    assert "insert `cuda.syncthreads()`" in cures[0].says
    assert not any(cure.edits[0].kind == "swap" for cure in cures)


def test_a_counter_that_tells_of_stores_gets_a_fence_on_both_sides():
    @cuda.jit
    def in_a_variable(x, parts, count, y):
        b = cuda.blockIdx.x
        parts[b] = 2 * x[b]
        ticket = cuda.atomic.add(count, 0, 1)
        if ticket == 1:
            y[0] = parts[0] + parts[1]

    given = (zeros(2), zeros(2), np.zeros(1, I32), zeros(1))
    cures = wsemu.check(in_a_variable, 2, 1, given).cures(budget=PLENTY)
    assert cures[0].says.startswith("insert `cuda.threadfence()` before line ")
    assert " and after line " in cures[0].says


def test_accesses_outside_of_arrays_are_kept_inside_by_one_edit():
    @cuda.jit
    def smoothed(x, y):
        s = cuda.shared.array(66, F32)
        t, i = cuda.threadIdx.x, cuda.grid(1)
        s[t + 1] = x[i]
        if t == 0:
            s[0] = x[i - 1] if i > 0 else x[i]
        if t == 63:
            s[65] = x[i + 1]
        cuda.syncthreads()
        y[i] = s[t] + s[t + 1] + s[t + 2]

    cures = wsemu.check(smoothed, 2, 64, (zeros(100), zeros(100))).cures(budget=PLENTY)
    assert "with 0 for what is loaded outside of an array, and no store there" in cures[0].says
    assert cures[0].drops


def test_an_edit_with_which_most_of_the_results_stay_away_is_none():
    """Without its loop the kernel has no race, and does nothing."""

    @cuda.jit
    def once(x, y):
        s = cuda.shared.array(64, F32)
        t = cuda.threadIdx.x
        for _ in range(1):
            s[t // 2] = x[t]
            y[t] = t + 1

    cures = wsemu.check(once, 1, 64, (zeros(64), zeros(64))).cures(budget=PLENTY)
    assert not any("range" in cure.says or "`0` in place of `1`" in cure.says for cure in cures)
