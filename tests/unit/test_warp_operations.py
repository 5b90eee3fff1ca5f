"""Shuffles, votes, matches and atomics on both engines, in whole and in diverged warps."""

from __future__ import annotations

import numpy as np
import pytest

from wsemu import cuda

FULL = 0xFFFFFFFF
LANE = np.arange(32)


def codes(report):
    return [finding.code for finding in report.findings]


# -- shuffles --------------------------------------------------------------------------------------------------------
@cuda.jit
def by_index(x, y, k):
    t = cuda.threadIdx.x
    y[t] = cuda.shfl_sync(0xFFFFFFFF, x[t], k[t])


@cuda.jit
def up(x, y, k):
    t = cuda.threadIdx.x
    y[t] = cuda.shfl_up_sync(0xFFFFFFFF, x[t], k[t])


@cuda.jit
def down(x, y, k):
    t = cuda.threadIdx.x
    y[t] = cuda.shfl_down_sync(0xFFFFFFFF, x[t], k[t])


@cuda.jit
def crosswise(x, y, k):
    t = cuda.threadIdx.x
    y[t] = cuda.shfl_xor_sync(0xFFFFFFFF, x[t], k[t])


SHUFFLES = {
    "idx": (by_index, lambda k: k),
    "up": (up, lambda k: np.where(k <= LANE, LANE - k, LANE)),
    "down": (down, lambda k: np.where(LANE + k < 32, LANE + k, LANE)),
    "bfly": (crosswise, lambda k: LANE ^ k),
}


@pytest.mark.parametrize("dtype", ["i4", "i8", "f4", "f8"])
@pytest.mark.parametrize("mode", SHUFFLES)
@pytest.mark.parametrize("k", [0, 1, 5, 16, 31])
def test_shuffles(run, mode, dtype, k):
    kernel, source = SHUFFLES[mode]
    x = (LANE * 3 - 40).astype(dtype) * (np.dtype(dtype).type(1 << 20) if dtype != "f4" else np.float32(0.1))
    y = np.zeros(32, dtype)
    assert run(kernel, 32, x, y, np.full(32, k, np.int32)).verdict == "verified"
    assert (y == x[source(np.full(32, k))]).all()


@pytest.mark.parametrize("mode", SHUFFLES)
def test_every_lane_may_name_another_lane(run, mode):
    kernel, source = SHUFFLES[mode]
    k = LANE * 7 % 32
    x, y = LANE * 10, np.zeros(32, np.int64)
    assert run(kernel, 32, x, y, k.astype(np.int32)).verdict == "verified"
    assert (y == x[source(k)]).all()


@cuda.jit
def sum_of_warp(x, y):
    t = cuda.grid(1)
    total = x[t]
    step = 16
    while step:
        total += cuda.shfl_down_sync(0xFFFFFFFF, total, step)
        step //= 2
    if t % 32 == 0:
        y[t // 32] = total


def test_a_sum_over_each_warp(run):
    x, y = np.arange(256.0), np.zeros(8)
    assert run(sum_of_warp, 128, x, y, grid=2).verdict == "verified"
    assert (y == x.reshape(8, 32).sum(axis=1)).all()


@cuda.jit
def even_lanes(x, y):
    t = cuda.threadIdx.x
    if t % 2 == 0:
        y[t] = cuda.shfl_xor_sync(0x55555555, x[t], 2)
    else:
        y[t] = cuda.shfl_xor_sync(0xAAAAAAAA, x[t], 4)


def test_a_part_of_a_warp_shuffles_with_its_own_mask(run):
    x, y = LANE * 10, np.zeros(32, np.int64)
    assert run(even_lanes, 32, x, y).verdict == "verified"
    assert (y == 10 * np.where(LANE % 2 == 0, LANE ^ 2, LANE ^ 4)).all()


@cuda.jit
def half_with_full_mask(x, y):
    t = cuda.threadIdx.x
    if t < 16:
        y[t] = cuda.shfl_down_sync(0xFFFFFFFF, x[t], 1)  # here


def test_a_mask_that_names_absent_lanes_is_reported(run, line):
    x, y = LANE * 10, np.zeros(32, np.int64)
    report = run(half_with_full_mask, 32, x, y)
    assert codes(report) == ["barrier-divergence"]
    site = report.findings[0].sites[0]
    assert site.line == line(half_with_full_mask, "# here")
    assert site.text == "executed by lanes 0-15 of warp 0: mask 0xffffffff names lanes 16-31, absent here"
    assert y[:15].tolist() == x[1:16].tolist()


@cuda.jit
def mask_too_small(y):
    t = cuda.threadIdx.x
    y[t] = cuda.ballot_sync(0x0000FFFF, t > 3)


def test_a_mask_that_leaves_out_executing_lanes_is_reported(run):
    report = run(mask_too_small, 32, np.zeros(32, np.int64))
    assert codes(report) == ["barrier-divergence"]
    assert report.findings[0].sites[0].text.endswith("mask 0x0000ffff leaves out lanes 16-31")


@cuda.jit
def after_exit(y):
    t = cuda.threadIdx.x
    if t >= 24:
        return
    y[t] = cuda.ballot_sync(0xFFFFFFFF, True)


@pytest.mark.parametrize("threads", [24, 32])
def test_lanes_that_have_exited_or_never_were_are_not_missed(run, threads):
    y = np.zeros(32, np.int64)
    assert run(after_exit, threads, y).verdict == "verified"
    assert (y[:24] == (1 << 24) - 1).all()


# -- votes and matches -----------------------------------------------------------------------------------------------
@cuda.jit
def votes(x, out):
    t = cuda.threadIdx.x
    out[0, t] = cuda.all_sync(0xFFFFFFFF, x[t] > 0)
    out[1, t] = cuda.any_sync(0xFFFFFFFF, x[t] > 0)
    out[2, t] = cuda.eq_sync(0xFFFFFFFF, x[t] > 0)
    out[3, t] = cuda.ballot_sync(0xFFFFFFFF, x[t] > 0)


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (LANE * 0, (0, 0, 1, 0)),
        (LANE * 0 + 1, (1, 1, 1, -1)),
        (LANE % 2, (0, 1, 0, 0xAAAAAAAA - (1 << 32))),
        (LANE == 3, (0, 1, 0, 8)),
    ],
)
def test_votes(run, x, expected):
    out = np.full((4, 32), 9)
    assert run(votes, 32, np.asarray(x, np.int64), out).verdict == "verified"
    assert (out == np.array(expected)[:, None]).all()


@cuda.jit
def votes_apart(out):
    t = cuda.threadIdx.x
    if t % 4 == 0:
        out[t] = cuda.ballot_sync(0x11111111, t >= 16)
    else:
        out[t] = cuda.activemask()


def test_votes_and_activemask_in_a_diverged_warp(run):
    out = np.zeros(32, np.int64)
    assert run(votes_apart, 32, out).reasons == ["active lanes"]
    assert run(votes_apart, 32, out, lockstep=True).verdict == "verified"
    assert set(out[::4].tolist()) == {0x11110000}
    assert set(np.delete(out, LANE[::4]).tolist()) == {0xEEEEEEEE}


@cuda.jit
def matches(x, out):
    t = cuda.threadIdx.x
    out[0, t] = cuda.match_any_sync(0xFFFFFFFF, x[t])
    peers, equal = cuda.match_all_sync(0xFFFFFFFF, x[t])
    out[1, t] = peers
    out[2, t] = equal


@pytest.mark.parametrize("dtype", ["i4", "i8", "f4", "f8"])
def test_matches(run, dtype):
    out = np.zeros((3, 32), np.int64)
    x = (LANE % 3).astype(dtype)
    assert run(matches, 32, x, out).verdict == "verified"
    peers = [sum(1 << k for k in range(32) if k % 3 == lane % 3) for lane in range(32)]
    assert (out[0] & FULL).tolist() == peers
    assert not out[1:].any()
    assert run(matches, 32, x * 0, out).verdict == "verified"
    assert (out == np.array([-1, -1, 1])[:, None]).all()


@cuda.jit
def syncs_apart(y):
    t = cuda.threadIdx.x
    if t < 8:
        cuda.syncwarp(0xFF)
        y[t] = 1
    else:
        cuda.syncwarp(0xFFFFFF00)
        y[t] = 2
    cuda.syncwarp()


def test_syncwarp_of_the_lanes_that_are_there(run):
    y = np.zeros(32)
    assert run(syncs_apart, 32, y).verdict == "verified"
    assert y.tolist() == [1] * 8 + [2] * 24


@cuda.jit
def syncs_badly(y):
    if cuda.threadIdx.x < 8:
        cuda.syncwarp()
    y[cuda.threadIdx.x] = 1


def test_syncwarp_needs_the_lanes_it_names(run):
    report = run(syncs_badly, 32, np.zeros(32))
    assert codes(report) == ["barrier-divergence"]
    assert "names lanes 8-31, absent here" in report.findings[0].sites[0].text


# -- atomics ---------------------------------------------------------------------------------------------------------
@cuda.jit
def add(total, old, x):
    t = cuda.grid(1)
    old[t] = cuda.atomic.add(total, 0, x[t])


@cuda.jit
def sub(total, old, x):
    t = cuda.grid(1)
    old[t] = cuda.atomic.sub(total, 0, x[t])


@cuda.jit
def largest(total, old, x):
    t = cuda.grid(1)
    old[t] = cuda.atomic.max(total, 0, x[t])


@cuda.jit
def smallest(total, old, x):
    t = cuda.grid(1)
    old[t] = cuda.atomic.min(total, 0, x[t])


@cuda.jit
def largest_number(total, old, x):
    t = cuda.grid(1)
    old[t] = cuda.atomic.nanmax(total, 0, x[t])


@cuda.jit
def smallest_number(total, old, x):
    t = cuda.grid(1)
    old[t] = cuda.atomic.nanmin(total, 0, x[t])


@cuda.jit
def both(total, old, x):
    t = cuda.grid(1)
    old[t] = cuda.atomic.and_(total, 0, x[t])


@cuda.jit
def either(total, old, x):
    t = cuda.grid(1)
    old[t] = cuda.atomic.or_(total, 0, x[t])


@cuda.jit
def differ(total, old, x):
    t = cuda.grid(1)
    old[t] = cuda.atomic.xor(total, 0, x[t])


@cuda.jit
def exchange(total, old, x):
    t = cuda.grid(1)
    old[t] = cuda.atomic.exch(total, 0, x[t])


@cuda.jit
def increment(total, old, x):
    t = cuda.grid(1)
    old[t] = cuda.atomic.inc(total, 0, x[t])


@cuda.jit
def decrement(total, old, x):
    t = cuda.grid(1)
    old[t] = cuda.atomic.dec(total, 0, x[t])


@cuda.jit
def swap(total, old, x):
    t = cuda.grid(1)
    old[t] = cuda.atomic.cas(total, 0, x[t], x[t] + x.dtype.type(1))


def _larger(a, b):
    return b if b > a else a


def _smaller(a, b):
    return b if b < a else a


NUMBERS = ("i4", "u4", "i8", "u8", "f4", "f8")
INTEGERS = NUMBERS[:4]
ATOMICS = [
    (add, NUMBERS, lambda a, b: a + b),
    (sub, NUMBERS, lambda a, b: a - b),
    (largest, NUMBERS, _larger),
    (smallest, NUMBERS, _smaller),
    (largest_number, NUMBERS, lambda a, b: a if b != b else b if a != a else _larger(a, b)),
    (smallest_number, NUMBERS, lambda a, b: a if b != b else b if a != a else _smaller(a, b)),
    (both, INTEGERS, lambda a, b: a & b),
    (either, INTEGERS, lambda a, b: a | b),
    (differ, INTEGERS, lambda a, b: a ^ b),
    (exchange, INTEGERS, lambda a, b: b),
    (increment, ("u4", "u8"), lambda a, b: a * 0 if a >= b else a + a.dtype.type(1)),
    (decrement, ("u4", "u8"), lambda a, b: b if a == 0 or a > b else a - a.dtype.type(1)),
]  # fmt: skip


def values(dtype):
    rng = np.random.default_rng(3)
    if dtype[0] == "f":
        x = rng.standard_normal(64).astype(dtype)
        x[[5, 40]] = np.nan
        return x
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, 64, dtype=dtype, endpoint=True)


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize(
    ("kernel", "dtype", "combine"),
    [(kernel, dtype, combine) for kernel, dtypes, combine in ATOMICS for dtype in dtypes],
    ids=lambda value: getattr(getattr(value, "py_func", None), "__name__", value if isinstance(value, str) else ""),
)
@pytest.mark.parametrize("grid", [1, 2])
def test_atomics_run_lane_by_lane_and_return_what_was_there(run, kernel, dtype, combine, grid):
    x = values(dtype)
    if kernel in (add, sub):
        x = np.nan_to_num(x)
    total, old = np.array([x[0]]), np.zeros_like(x)
    expected, now = [], x.dtype.type(x[0])
    for value in x:
        expected.append(now)
        now = x.dtype.type(combine(now, value))
    assert run(kernel, 64 // grid, total, old, x, grid=grid).verdict == "verified"
    np.testing.assert_array_equal(old, np.array(expected))
    np.testing.assert_array_equal(total[0], now)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_compare_and_swap_walks_up(run, dtype):
    x, total = np.arange(40).astype(dtype), np.zeros(1, dtype)
    old = np.full(40, 99).astype(dtype)
    assert run(swap, 40, total, old, x).verdict == "verified"
    assert (old == x).all()
    assert total[0] == 40


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_max_keeps_a_nan_in_memory_and_nanmax_replaces_it(run, dtype):
    x = np.array([np.nan, 1, 2, np.nan], dtype)
    for kernel, result in ((largest, np.nan), (smallest, np.nan), (largest_number, 2), (smallest_number, 1)):
        total = np.array([np.nan], dtype)
        run(kernel, 4, total, np.zeros(4, dtype), x)
        np.testing.assert_array_equal(total[0], result)


@cuda.jit
def histogram(x, out):
    bins = cuda.shared.array((2, 4), np.int32)
    t = cuda.threadIdx.x
    if t < 8:
        bins[t // 4, t % 4] = 0
    cuda.syncthreads()
    i = cuda.grid(1)
    cuda.atomic.add(bins, (t % 2, x[i]), 1)
    cuda.syncthreads()
    if t < 4:
        cuda.atomic.add(out, t, bins[0, t] + bins[1, t])


def test_atomics_on_shared_memory_in_several_ctas(run):
    x, out = np.arange(300) % 7 % 4, np.zeros(4, np.int64)
    assert run(histogram, 100, x, out, grid=3).verdict == "verified"
    assert (out == np.bincount(x)).all()


@cuda.jit
def add_at(y, i):
    cuda.atomic.add(y, i[cuda.threadIdx.x], 1.5)


def test_an_atomic_outside_is_left_out(run):
    y = np.zeros(4, np.float32)
    report = run(add_at, 8, y, np.arange(8) // 2 * 2)
    assert codes(report) == ["out-of-bounds"]
    assert report.findings[0].count == 4
    assert y.tolist() == [3, 0, 3, 0]


# -- lanes that give different masks, and lanes that meet from two places --------------------------------------------
@cuda.jit
def halves_by_mask(x, y):
    tile = cuda.shared.array(32, np.int64)
    t = cuda.threadIdx.x
    mask = 0xFFFF << (t & 16)
    tile[t] = x[t]
    cuda.syncwarp(mask)
    y[0, t] = tile[t ^ 5]
    y[1, t] = cuda.shfl_xor_sync(mask, x[t], 3)
    y[2, t] = cuda.ballot_sync(mask, t % 3 == 0)
    y[3, t] = cuda.any_sync(mask, t < 4)
    y[4, t] = cuda.match_any_sync(mask, t % 2)


def test_lanes_that_give_different_masks_exchange_among_those_of_each(run):
    x, y = LANE * 10, np.zeros((5, 32), np.int64)
    assert run(halves_by_mask, 32, x, y).verdict == "verified"
    half = np.where(LANE < 16, 0xFFFF, 0xFFFF0000)
    thirds, evens = (sum(1 << k for k in range(0, 32, n)) for n in (3, 2))
    assert (y[0] == x[LANE ^ 5]).all()
    assert (y[1] == x[LANE ^ 3]).all()
    assert (y[2] & FULL == half & thirds).all()
    assert (y[3] == (LANE < 16)).all()
    assert (y[4] & FULL == half & np.where(LANE % 2, evens << 1, evens)).all()


@cuda.jit
def halves_read_each_other(x, y):
    tile = cuda.shared.array(32, np.int64)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    cuda.syncwarp(0xFFFF << (t & 16))
    y[t] = tile[t ^ 16]


def test_lanes_of_different_masks_are_not_ordered(run):
    assert codes(run(halves_read_each_other, 32, LANE * 10, np.zeros(32, np.int64))) == ["intra-warp-race"]


@cuda.jit
def peers(keys, y):
    t = cuda.threadIdx.x
    mask = cuda.match_any_sync(0xFFFFFFFF, keys[t])
    cuda.syncwarp(mask)
    y[t] = cuda.ballot_sync(mask, True)


def test_lanes_of_equal_keys_exchange_among_themselves(run):
    keys, y = LANE * 7 % 5, np.zeros(32, np.int64)
    assert run(peers, 32, keys, y).verdict == "verified"
    assert (y & FULL).tolist() == [sum(1 << k for k in range(32) if keys[k] == key) for key in keys]


@cuda.jit
def masks_that_disagree(y):
    t = cuda.threadIdx.x
    y[t] = cuda.ballot_sync(0xFFFFFFFF if t else 1, True)


def test_a_named_lane_that_gives_another_mask_is_missed(run):
    report = run(masks_that_disagree, 32, np.zeros(32, np.int64))
    assert codes(report) == ["barrier-divergence"]
    assert "names lane 0, absent here" in report.findings[0].sites[0].text


@cuda.jit
def meets_from_two_places(x, y):
    tile = cuda.shared.array(32, np.int64)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    if t < 16:
        cuda.syncwarp()
        y[t] = tile[t ^ 16]
    else:
        cuda.syncwarp()
        y[t] = tile[t ^ 16]


def test_lanes_that_meet_from_two_places_are_not_modelled(run):
    report = run(meets_from_two_places, 32, LANE * 10, np.zeros(32, np.int64))
    assert report.verdict == "incomplete"
    assert codes(report) == []
    assert "meet in one warp-wide operation from different places" in report.notes[0]


@cuda.jit
def some_meet_from_two_places(y):
    t = cuda.threadIdx.x
    if t < 16:
        cuda.syncwarp()
        y[t] = 1
    elif t < 24:
        cuda.syncwarp()
        y[t] = 2


def test_lanes_that_meet_nowhere_are_still_reported(run):
    assert codes(run(some_meet_from_two_places, 32, np.zeros(32))) == ["barrier-divergence"] * 2


@cuda.jit
def leave_out_the_executing_lanes(o):
    lane = cuda.laneid
    o[0, lane] = cuda.shfl_xor_sync(0xFFFF0000, lane, 16)
    o[1, lane] = cuda.ballot_sync(0xFFFF0000, lane % 2 == 0)
    o[2, lane] = cuda.match_any_sync(0xFFFF0000, lane % 2)
    if lane < 16:
        o[3, lane] = cuda.ballot_sync(0xFFFF0000, lane >= 0)
        o[4, lane] = cuda.match_all_sync(0xFFFF0000, 5)[0]


def test_lanes_that_their_mask_leaves_out_give_nothing(run):
    o = np.zeros((5, 32), np.uint32)
    report = run(leave_out_the_executing_lanes, 32, o)
    assert {finding.code for finding in report.findings} >= {"barrier-divergence"}
    lane = LANE
    assert (o[0] == np.where(lane < 16, lane + 16, lane)).all()
    assert (o[1] == 0x55550000).all()
    assert (o[2] == np.where(lane % 2, 0xAAAA0000, 0x55550000)).all()
    assert (o[3] == 0).all()
    assert (o[4] == 0).all()


@cuda.jit
def goes_on_twice(x, n):
    t = cuda.threadIdx.x
    total = 0
    for k in range(n):
        total += k
        if t == 31:
            continue
        if t < 2:
            continue
    x[t] = total


def test_lanes_meet_where_both_sides_of_a_branch_are_empty(run):
    """The last `continue` of a loop goes where the lanes without it go anyway."""
    x = np.zeros(32, np.int32)
    assert run(goes_on_twice, 32, x, 3).verdict == "verified"
    assert (x == 3).all()
