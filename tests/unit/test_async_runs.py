"""The asynchronous names of `wsemu.ptx` in kernels that run: what is in the arrays afterwards, and the verdict."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wsemu
from wsemu import cuda, ptx
from wsemu.language import async_names

STAGES, TILE = 3, 64


@pytest.fixture(params=["reference", "vm"])
def check(request: pytest.FixtureRequest) -> Any:
    """check(kernel, threads, *arguments): the report of a launch of one CTA."""

    def run(kernel: Any, threads: int, *arguments: Any) -> Any:
        return wsemu.check(kernel, 1, threads, arguments, engine=request.param)

    return run


# -- copies to shared memory -----------------------------------------------------------------------------------------
@cuda.jit
def ring(x, y, tiles):
    full = cuda.shared.array(STAGES, np.uint64)
    empty = cuda.shared.array(STAGES, np.int64)
    tile = cuda.shared.array((STAGES, TILE), np.float32, 16)
    t = cuda.threadIdx.x
    if t == 0:
        for s in range(STAGES):
            ptx.mbarrier_init(full, s, 1)
            ptx.mbarrier_init(empty, s, 64)
        ptx.fence_mbarrier_init()
    cuda.syncthreads()
    if t == 64:
        for i in range(tiles):
            s = i % STAGES
            ptx.mbarrier_wait_parity(empty, s, (i // STAGES & 1) ^ 1)
            ptx.fence_proxy_async_shared_cta()
            ptx.mbarrier_arrive_expect_tx(full, s, 4 * TILE)
            ptx.cp_async_bulk_prefetch_l2(x, i * TILE, 4 * TILE)
            ptx.cp_async_bulk_global_to_shared(tile, (s, 0), x, i * TILE, 4 * TILE, full, s)
    elif t < 64:
        for i in range(tiles):
            s = i % STAGES
            while not ptx.mbarrier_try_wait_parity(full, s, i // STAGES & 1):
                pass
            y[i * TILE + t] = 2 * tile[s, t]
            ptx.mbarrier_arrive(empty, s)


def test_a_ring_of_bulk_loads(check):
    x = np.arange(8 * TILE, dtype=np.float32)
    y = np.zeros_like(x)
    check(ring, 96, x, y, 8).assert_clean()
    assert (y == 2 * x).all()


@cuda.jit
def groups(x, y, some):
    a = cuda.shared.array(32, np.int32, 16)
    b = cuda.shared.array((32, 2), np.int32, 16)
    c = cuda.shared.array((2, 32, 4), np.int32, 16)
    t = cuda.threadIdx.x
    ptx.cp_async_ca(a, t, x, t, 4)
    ptx.cp_async_commit_group()
    ptx.cp_async_ca(b, (t, 0), x, 2 * t, 8, 4)
    ptx.cp_async_commit_group()
    ptx.cp_async_cg(c, (0, t, 0), x, 4 * t, 16, some[t])
    ptx.cp_async_ca_bytes(c, 512 + 16 * t, x, 16 * t, 16, 0)
    ptx.cp_async_wait_group(1)
    y[0, t] = a[t]
    ptx.cp_async_wait_group(0)
    y[1, t], y[2, t] = b[t, 0], b[t, 1]
    ptx.cp_async_wait_all()
    for k in range(4):
        y[3 + k, t], y[7 + k, t] = c[0, t, k], c[1, t, k]


def test_groups_of_copies_and_what_they_fill_with_zeros(check):
    x, t = np.arange(1, 129, dtype=np.int32), np.arange(32)
    y, some = np.full((11, 32), -1, np.int32), (t % 5 * 4).astype(np.int32)
    assert check(groups, 32, x, y, some).verdict == "verified"
    fours = np.where(np.arange(4) < (t % 5)[:, None], x.reshape(32, 4), 0)
    wanted = np.hstack([x[:32, None], x[:64:2, None], np.zeros((32, 1), int), fours, np.zeros((32, 4), int)])
    assert (wanted == y.T).all()


@cuda.jit
def read_too_early(x, y):
    a = cuda.shared.array(32, np.int32, 16)
    t = cuda.threadIdx.x
    ptx.cp_async_ca(a, t, x, t, 4)
    ptx.cp_async_commit_group()
    ptx.cp_async_wait_group(1)
    y[t] = a[t]


def test_a_group_that_may_be_under_way_still(check):
    report = check(read_too_early, 32, np.zeros(32, np.int32), np.zeros(32, np.int32))
    assert {f.code for f in report.errors} == {"race", "async-outlives-cta"}


@cuda.jit
def copied_by_many(x, y, added):
    bar = cuda.shared.array(1, np.uint64)
    tile = cuda.shared.array(64, np.float32, 16)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(bar, 0, 64)
    cuda.syncthreads()
    if t < 64:
        ptx.cp_async_ca(tile, t, x, t, 4)
        if added:
            ptx.cp_async_mbarrier_arrive(bar, 0)
            ptx.mbarrier_arrive(bar, 0)
        else:
            ptx.cp_async_mbarrier_arrive_noinc(bar, 0)
    else:
        ptx.mbarrier_wait_parity(bar, 0, 0)
        y[t - 64] = tile[127 - t]


@pytest.mark.parametrize("added", [False, True])
def test_an_mbarrier_waits_for_copies_of_its_threads(check, added):
    x = np.arange(64, dtype=np.float32)
    y = np.zeros_like(x)
    check(copied_by_many, 128, x, y, added).assert_clean()
    assert (y == x[::-1]).all()


# -- copies to global memory -----------------------------------------------------------------------------------------
@cuda.jit
def stored(x, y, tiles):
    tile = cuda.shared.array((2, TILE), np.float64, 16)
    t = cuda.threadIdx.x
    for i in range(tiles):
        if t == 0:
            ptx.cp_async_bulk_wait_group_read(1)
        cuda.syncthreads()
        tile[i % 2, t] = 3 * x[i * TILE + t]
        ptx.fence_proxy_async_shared_cta()
        cuda.syncthreads()
        if t == 0:
            if i % 2:
                ptx.cp_async_bulk_shared_to_global(y, i * TILE, tile, (1, 0), 8 * TILE)
            else:
                ptx.cp_async_bulk_shared_to_global_bytes(y, 8 * i * TILE, tile, 0, 8 * TILE)
            ptx.cp_async_bulk_commit_group()
    if t == 0:
        ptx.cp_async_bulk_wait_group(0)


def test_bulk_stores_behind_a_fence(check):
    x = np.arange(5 * TILE, dtype=np.float64)
    y = np.zeros_like(x)
    check(stored, TILE, x, y, 5).assert_clean()
    assert (y == 3 * x).all()


REDUCED: dict[str, Any] = {
    "add": lambda y, x: y + x, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "inc": lambda y, x: np.where(y >= x, 0, y + 1),
    "dec": lambda y, x: np.where((y == 0) | (y > x), x, y - 1),
}  # fmt: skip


@pytest.mark.parametrize(
    ("what", "dtype"), [(what, dtype) for what, row in async_names.REDUCTIONS.items() for dtype in row.types]
)
def test_a_bulk_reduction_is_one_of_each_element(check, what, dtype):
    reduce: Any = getattr(ptx, f"cp_reduce_async_bulk_{what}")

    @cuda.jit
    def reduced(x, y):
        tile = cuda.shared.array(32, x.dtype, 16)
        t = cuda.threadIdx.x
        tile[t] = x[t]
        ptx.fence_proxy_async()
        cuda.syncthreads()
        if t == 0:
            reduce(y, 16, tile, 0, 32 * x.itemsize)
            ptx.cp_async_bulk_commit_group()
            ptx.cp_async_bulk_wait_group(0)

    random = np.random.default_rng(3)
    x, y = (random.integers(0, 9, n).astype(dtype) for n in (32, 64))
    if np.dtype(dtype).kind != "u":
        x[::3] *= np.array(-1, dtype)
    wanted = y.copy()
    wanted[16:48] = REDUCED[what](y[16:48], x)
    check(reduced, 32, x, y).assert_clean()
    assert (y == wanted).all()


@cuda.jit
def zeroed(y):
    tile = cuda.shared.array(32, np.int64, 16)
    t = cuda.threadIdx.x
    tile[t] = t + 1
    cuda.syncwarp()
    if t == 0:
        ptx.st_bulk(tile, 2, 80)
    cuda.syncwarp()
    y[t] = tile[t]


def test_zeros_are_stored_as_plain_stores_do(check):
    y = np.zeros(32, np.int64)
    check(zeroed, 32, y).assert_clean()
    assert (y == np.where((np.arange(32) >= 2) & (np.arange(32) < 12), 0, np.arange(1, 33))).all()


# -- mbarriers -------------------------------------------------------------------------------------------------------
@cuda.jit
def by_token(x, y):
    bar = cuda.shared.array((2, 2), np.uint64)
    tile = cuda.shared.array(64, np.int32)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(bar, (1, 1), 64)
    cuda.syncthreads()
    tile[t] = x[t]
    token = ptx.mbarrier_arrive(bar, (1, 1))
    ptx.mbarrier_wait(bar, (1, 1), token)
    y[t] = tile[63 - t]
    again = ptx.mbarrier_arrive(bar, (-1, -1))
    while not ptx.mbarrier_test_wait(bar, (1, 1), again):
        cuda.nanosleep(20)
    tile[t] = y[t] + 1
    third = ptx.mbarrier_arrive(bar, (1, 1), 1)
    while not ptx.mbarrier_try_wait(bar, (1, 1), third, 1000):
        pass
    y[t] = tile[63 - t]


def test_tokens_name_the_phase_in_which_they_were_given(check):
    x, y = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    check(by_token, 64, x, y).assert_clean()
    assert (y == x + 1).all()


@cuda.jit
def dropped(y):
    bar = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    warp = t // 32
    if t == 0:
        ptx.mbarrier_init(bar, 0, 3)
    cuda.syncthreads()
    if t % 32 == 0:
        if warp == 2:
            ptx.mbarrier_arrive_drop(bar, 0)
        else:
            ptx.mbarrier_arrive(bar, 0)
            ptx.mbarrier_wait_parity(bar, 0, 0)
            ptx.mbarrier_arrive_drop_expect_tx(bar, 0, 0)
            ptx.mbarrier_wait_parity(bar, 0, 1)
            y[warp] = 1


def test_later_phases_wait_for_those_that_are_left(check):
    y = np.zeros(2, np.int32)
    check(dropped, 96, y).assert_clean()
    assert y.tolist() == [1, 1]


@cuda.jit
def counted(y):
    bar = cuda.shared.array(1, np.uint64)
    if cuda.threadIdx.x == 0:
        ptx.mbarrier_init(bar, 0, 10)
        y[0] = ptx.mbarrier_pending_count(ptx.mbarrier_arrive_no_complete(bar, 0, 3))
        y[1] = ptx.mbarrier_pending_count(ptx.mbarrier_arrive_no_complete(bar, 0, 4))
        ptx.mbarrier_arrive_relaxed(bar, 0, 3)
        ptx.mbarrier_inval(bar, 0)
        bar[0] = 7
        y[2] = bar[0]


def test_the_number_of_missing_arrivals_depends_on_the_schedule(check):
    y = np.zeros(3, np.int64)
    report = check(counted, 32, y)
    assert y.tolist() == [10, 7, 7]
    assert any(note.endswith("what is left in `y`") for note in report.notes)


@cuda.jit
def by_hand(y):
    bar = cuda.shared.array(1, np.uint64)
    tile = cuda.shared.array(32, np.int32)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(bar, 0, 32)
        ptx.mbarrier_expect_tx(bar, 0, 128)
    cuda.syncthreads()
    if t < 32:
        tile[t] = t
        ptx.mbarrier_complete_tx(bar, 0, 4)
        ptx.mbarrier_arrive(bar, 0)
    else:
        ptx.mbarrier_wait_parity(bar, 0, 0)
        y[t - 32] = tile[63 - t]


def test_bytes_that_threads_say_have_come(check):
    y = np.zeros(32, np.int32)
    check(by_hand, 64, y).assert_clean()
    assert (y == np.arange(32)[::-1]).all()


@cuda.jit
def outside(bars):
    bar = cuda.shared.array(2, np.uint64)
    if cuda.threadIdx.x == 0:
        ptx.mbarrier_init(bar, bars, 1)


def test_an_index_outside_the_array_of_mbarriers(check):
    assert {f.code for f in check(outside, 32, 2).errors} == {"out-of-bounds"}
    check(outside, 32, 1).assert_clean()


# -- one of a warp, registers ----------------------------------------------------------------------------------------
@cuda.jit
def elected(y):
    t = cuda.threadIdx.x
    if t >= 5:
        if ptx.elect_sync(0xFFFFFFE0):
            y[0] = t
        y[t] = ptx.elect_sync(-32)


def test_the_lowest_lane_that_executes_it_is_elected(check):
    y = np.full(32, -1, np.int32)
    check(elected, 32, y).assert_clean()
    assert y.tolist() == [5, -1, -1, -1, -1, 1, *[0] * 26]


@cuda.jit(max_registers=104)
def traded(y):
    if cuda.threadIdx.x < 128:
        ptx.setmaxnreg_dec(40)
    else:
        ptx.setmaxnreg_inc(168)
    ptx.griddepcontrol_wait()
    y[cuda.threadIdx.x] = 1
    ptx.griddepcontrol_launch_dependents()


@cuda.jit(max_registers=104)
def asked_for_more(y):
    if cuda.threadIdx.x < 128:
        ptx.setmaxnreg_dec(40)
    else:
        ptx.setmaxnreg_inc(176)
    y[cuda.threadIdx.x] = 1


def test_registers_that_others_have_given(check):
    y = np.zeros(256, np.int32)
    check(traded, 256, y).assert_clean()
    assert y.all()
    assert {f.code for f in check(asked_for_more, 256, y).errors} == {"deadlock"}


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize("checker", ["deadlock", "bank-conflict"])
def test_registers_change_hands_where_no_clocks_are_kept(checker, engine):
    """Without races, barriers and written bytes to look for, warps have no clocks."""
    kernel = wsemu.load_ptx(""".version 8.4
        .target sm_90a
        .address_size 64
        .visible .entry k(.param .u64 out) .maxntid 128 .minnctapersm 1
        {
            .reg .b64 %a<3>; .reg .b32 %r1;
            ld.param.u64 %a1, [out]; mov.u32 %r1, %tid.x; mul.wide.u32 %a2, %r1, 4; add.u64 %a1, %a1, %a2;
            setmaxnreg.dec.sync.aligned.u32 40;
            st.global.u32 [%a1], %r1;
            ret;
        }""").only()
    arguments = (np.zeros(128, np.int32),)
    assert wsemu.check(kernel, 1, 128, arguments, checkers=[checker], engine=engine).verdict == "verified"
