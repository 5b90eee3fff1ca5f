"""Memory on both engines: bounds, alignment, bytes never written, limits, and what accesses cost."""

from __future__ import annotations

import numpy as np
import pytest

import wsemu
from wsemu import cuda, ptx
from wsemu.model.errors import KernelError, UsageError

TABLE = np.arange(1, 9, dtype=np.float32)
"""a host array that kernels name: constant memory"""


def codes(report):
    return [finding.code for finding in report.findings]


def only(report, code):
    """The one finding of a report, of that code."""
    assert codes(report) == [code]
    return report.findings[0]


# -- bounds ----------------------------------------------------------------------------------------------------------
@cuda.jit
def store_at(y, i, j):
    y[i, j] = 1


@pytest.mark.parametrize(("i", "j", "bad"), [(3, 0, 3), (0, 5, 5), (2, 10**6, 10**6), (7, 1, 7)])
def test_an_index_outside_its_dimension_is_left_out(run, line, i, j, bad):
    y = np.zeros((3, 5))
    found = only(run(store_at, 1, y, i, j), "out-of-bounds")
    assert found.message == f"index {bad} lies outside `y`"
    assert found.sites[0].line == line(store_at, "y[i, j]")
    assert "shape (3, 5)" in found.sites[0].text
    assert not y.any()


def test_bounds_hold_per_dimension_although_the_address_lies_inside(run):
    y = np.zeros((3, 5))
    assert only(run(store_at, 1, y, 0, 7), "out-of-bounds").message == "index 7 lies outside `y`"
    assert not y.any()


@pytest.mark.parametrize(("i", "j"), [(0, 0), (2, 4)])
def test_indices_inside_are_good(run, i, j):
    y = np.zeros((3, 5))
    assert run(store_at, 1, y, i, j).verdict == "verified"
    assert y[i, j] == 1


def test_a_computed_negative_index_wraps_and_is_reported(run):
    y = np.zeros((3, 5))
    found = only(run(store_at, 1, y, -1, -2), "out-of-bounds")
    assert found.message == "negative index into `y` wraps to `y[2, 3]`"
    assert y[2, 3] == 1
    assert y.sum() == 1


@pytest.mark.parametrize("i", [-4, -(10**5)])
def test_a_negative_index_before_the_start_is_outside(run, i):
    y = np.zeros((3, 5))
    assert only(run(store_at, 1, y, i, 0), "out-of-bounds").message == f"index {i} lies outside `y`"
    assert not y.any()


@cuda.jit
def last_two(x, y):
    y[0] = x[-1]
    y[1] = x[-2]


def test_a_literal_negative_index_is_meant(run):
    y = np.zeros(2)
    assert run(last_two, 1, np.arange(5.0), y).verdict == "verified"
    assert y.tolist() == [4, 3]


@cuda.jit
def neighbours(x, y):
    t = cuda.threadIdx.x
    y[t] = x[t] + x[t + 1]


def test_one_cause_is_one_finding_with_a_count(run):
    y = np.ones(96)
    report = run(neighbours, 96, np.arange(90.0), y)
    assert codes(report) == ["out-of-bounds"] * 2  # x[t], x[t + 1]
    assert sorted(found.count for found in report.findings) == [6, 7]
    assert y[88:].tolist() == [88 + 89, 89, 0, 0, 0, 0, 0, 0]


def test_a_load_outside_gives_0(run):
    y = np.ones(8)
    run(neighbours, 8, np.arange(8.0), y)
    assert y.tolist() == [1, 3, 5, 7, 9, 11, 13, 7]


@cuda.jit
def copy(x, y):
    t = cuda.threadIdx.x
    y[t] = x[t]


def test_an_empty_array_has_no_element(run):
    y = np.ones(4)
    assert only(run(copy, 4, np.zeros(0), y), "out-of-bounds").message == "index 0 lies outside `x`"
    assert not y.any()


@cuda.jit
def guarded_copy(x, y):
    t = cuda.threadIdx.x
    if t < x.shape[0]:
        y[t] = x[t]


@pytest.mark.parametrize("shape", [(0,), (0, 4), (4, 0)])
def test_empty_arrays_may_be_passed(run, shape):
    x = np.zeros(shape).reshape(-1)
    y = np.ones(4)
    assert run(guarded_copy, 4, x, y).verdict == "verified"
    assert y.all()


# -- alignment -------------------------------------------------------------------------------------------------------
@cuda.jit
def vector_of_4(x, y, i):
    a, b, c, d = ptx.ld_v4(x, i)
    ptx.st_v4(y, 0, (d, c, b, a))


@pytest.mark.parametrize("i", [0, 4])
def test_an_aligned_vector(run, i):
    x, y = np.arange(8, dtype=np.float32), np.zeros(4, np.float32)
    assert run(vector_of_4, 1, x, y, i).verdict == "verified"
    assert y.tolist() == [i + 3, i + 2, i + 1, i]


@pytest.mark.parametrize("i", [1, 2, 3])
def test_a_vector_at_an_odd_place_is_misaligned(run, line, i):
    x, y = np.arange(8, dtype=np.float32), np.zeros(4, np.float32)
    found = only(run(vector_of_4, 1, x, y, i), "misaligned")
    assert "16 bytes" in found.message
    assert found.sites[0].line == line(vector_of_4, "ld_v4")
    assert f"`x[{i}]`" in found.sites[0].text
    assert not y.any()


def test_a_vector_over_the_end_is_outside(run):
    x, y = np.arange(10, dtype=np.float32), np.zeros(4, np.float32)
    assert "index 11 lies outside `x`" in only(run(vector_of_4, 1, x, y, 8), "out-of-bounds").message


# -- bytes never written ---------------------------------------------------------------------------------------------
@cuda.jit
def shared_unwritten(y):
    tile = cuda.shared.array(64, np.int32)
    t = cuda.threadIdx.x
    if t % 2 == 0:
        tile[t] = t
    cuda.syncthreads()
    y[t] = tile[t]  # here


def test_shared_memory_is_read_after_it_was_written(run, line):
    y = np.zeros(64, np.int32)
    found = only(run(shared_unwritten, 64, y), "uninitialized-read")
    assert found.sites[0].line == line(shared_unwritten, "# here")
    assert "`tile[33]`" in found.sites[0].text  # the warp that comes last to the barrier goes on first
    assert "lanes 1, 3, 5, 7" in found.sites[0].text


@cuda.jit
def bytes_written(y, n):
    words = cuda.shared.array(1, np.int32)
    bytes_ = words.view(np.int8)
    for k in range(n):
        bytes_[k] = 1
    y[0] = words[0]


@pytest.mark.parametrize(("n", "verdict"), [(0, "failed"), (1, "failed"), (3, "failed"), (4, "verified")])
def test_initialisation_is_byte_exact(run, n, verdict):
    y = np.zeros(1, np.int32)
    assert run(bytes_written, 1, y, n).verdict == verdict
    assert y[0] == (1 << 8 * n) // 255


@cuda.jit
def vector_partly_written(y):
    tile = cuda.shared.array(4, np.float32)
    for k in range(3):
        tile[k] = 1
    a, b, c, d = ptx.ld_v4(tile, 0)
    y[0] = a + b + c + d


def test_a_vector_load_needs_all_its_bytes(run):
    y = np.zeros(1)
    only(run(vector_partly_written, 1, y), "uninitialized-read")
    assert y[0] == 3


@cuda.jit
def atomic_on_unwritten(y):
    total = cuda.shared.array(1, np.int32)
    cuda.atomic.add(total, 0, 1)
    cuda.syncthreads()
    y[0] = total[0]


def test_an_atomic_reads_and_then_has_written(run, line):
    found = only(run(atomic_on_unwritten, 32, np.zeros(1)), "uninitialized-read")
    assert found.sites[0].line == line(atomic_on_unwritten, "atomic.add")


@cuda.jit
def local_unwritten(y):
    own = cuda.local.array(2, np.int64)
    t = cuda.threadIdx.x
    if t != 7:
        own[1] = t
    y[t] = own[1]


def test_local_memory_is_the_threads_own(run):
    y = np.zeros(40, np.int64)
    found = only(run(local_unwritten, 40, y), "uninitialized-read")
    assert "lane 7" in found.sites[0].text
    assert "local" in found.message
    assert y.tolist() == [t if t != 7 else 0 for t in range(40)]


@cuda.jit
def first_cta_writes(y):
    tile = cuda.shared.array(1, np.int32)
    if cuda.blockIdx.x == 0:
        tile[0] = 5
    y[cuda.blockIdx.x] = tile[0]


def test_shared_memory_is_fresh_in_every_cta(run):
    y = np.zeros(3, np.int32)
    found = only(run(first_cta_writes, 1, y, grid=3), "uninitialized-read")
    assert found.count == 2
    assert found.sites[0].cta == (1, 0, 0)
    assert y.tolist() == [5, 0, 0]


# -- arrays of the host ----------------------------------------------------------------------------------------------
@cuda.jit
def from_table(y):
    t = cuda.threadIdx.x
    y[t] = TABLE[t] + cuda.const.array_like(TABLE)[7 - t]


def test_constant_arrays(run):
    y = np.zeros(8)
    assert run(from_table, 8, y).verdict == "verified"
    assert (y == 9).all()


def test_an_array_that_the_host_may_not_write_is_not_written(run):
    y = np.zeros(4)
    y.flags.writeable = False
    with pytest.raises(KernelError, match="`y` is read-only"):
        run(copy, 4, np.ones(4), y)
    assert not y.any()


def test_a_read_only_array_may_be_read(run):
    x, y = np.arange(4.0), np.zeros(4)
    x.flags.writeable = False
    assert run(copy, 4, x, y).verdict == "verified"
    assert (x == y).all()


@pytest.mark.parametrize(
    "view",
    [
        lambda base: base[::2, 1],
        lambda base: base[3, ::-1],
        lambda base: base.T[2, 1:5],
        lambda base: base[:, 3],
    ],
)
def test_strided_arguments(run, view):
    base = np.arange(48.0).reshape(6, 8)
    x = view(base)
    y = np.zeros(len(x))
    assert run(copy, len(x), x, y).verdict == "verified"
    assert (x == y).all()
    target = np.zeros((6, 8))
    assert run(copy, len(x), y, view(target)).verdict == "verified"
    assert (view(target) == y).all()
    assert np.count_nonzero(target) == np.count_nonzero(y)


@cuda.jit
def transpose(x, y):
    i, j = cuda.threadIdx.x, cuda.threadIdx.y
    y[j, i] = x[i, j]


@pytest.mark.parametrize("order", ["C", "F"])
def test_fortran_order(run, order):
    x = np.asarray(np.arange(15.0).reshape(3, 5), order=order)
    y = np.zeros((5, 3), order=order)
    assert run(transpose, (3, 5), x, y).verdict == "verified"
    assert (y == x.T).all()


def test_overlapping_arguments_share_their_bytes(run):
    base = np.arange(10.0)
    assert run(copy, 4, base[:4], base[6:]).verdict == "verified"
    assert base.tolist() == [0, 1, 2, 3, 4, 5, 0, 1, 2, 3]
    base = np.arange(10.0)
    run(copy, 4, base[1:5], base[:8])
    assert base[:5].tolist() == [1, 2, 3, 4, 4]


def test_a_view_of_another_array_ends_where_it_ends(run):
    base = np.arange(10.0)
    y = np.zeros(8)
    assert [finding.code for finding in run(neighbours, 5, base[:5], y).errors] == ["out-of-bounds"]
    assert y[4] == 4


@cuda.jit
def one_of_two(x, y, out):
    t = cuda.threadIdx.x
    source = x if t % 2 else y
    out[t] = source[t]


def test_one_access_may_reach_several_arrays(run):
    out = np.zeros(32)
    assert run(one_of_two, 32, np.arange(32.0), -np.arange(32.0), out).verdict == "verified"
    assert out.tolist() == [t if t % 2 else -t for t in range(32)]


@cuda.jit
def copy_between_several(x, y, a, b):
    t = cuda.threadIdx.x
    source = x if t % 2 else y
    target = a if t % 3 else b
    target[t] = source[t]


@cuda.jit
def swap_between_several(x, y, a, b):
    t = cuda.threadIdx.x
    source = x if t % 2 else y
    target = a if t % 3 else b
    first, second = ptx.ld_v2(source, 2 * t)
    ptx.st_v2(target, 2 * t, (second, first))


@pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "f4", "u8", "f8"])
def test_one_access_of_every_width_may_reach_several_arrays(run, dtype):
    t = np.arange(32)
    x, y, a, b = (np.arange(start, start + 64).astype(dtype) for start in (0, 60, 120, 180))
    expected = np.where(t % 2, x[:32], y[:32])
    untouched = np.where(t % 3, b[:32], a[:32])
    assert run(copy_between_several, 32, x, y, a, b).verdict == "verified"
    assert (np.where(t % 3, a[:32], b[:32]) == expected).all()
    assert (np.where(t % 3, b[:32], a[:32]) == untouched).all()
    pairs_of = [one.reshape(32, 2) for one in (x, y, a, b)]
    expected = np.where(t[:, None] % 2, *pairs_of[:2])[:, ::-1]
    assert run(swap_between_several, 32, x, y, a, b).verdict == "verified"
    assert (np.where(t[:, None] % 3, *pairs_of[2:]) == expected).all()


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"])
@pytest.mark.parametrize("threads", [32, 33, 5])
def test_every_width(run, dtype, threads):
    x = (np.arange(threads) * 37 - 50).astype(dtype)
    y = np.zeros(threads, dtype)
    assert run(copy, threads, x, y).verdict == "verified"
    assert (x == y).all()


@pytest.mark.parametrize("dtype", ["f2", "?", "c8", "c16"])
def test_other_element_types(run, dtype):
    x = np.arange(40).astype(dtype)
    y = np.zeros(40, dtype)
    assert run(copy, 40, x, y).verdict == "verified"
    assert (x == y).all()


@cuda.jit
def pairs(x, y):
    t = cuda.threadIdx.x
    a, b = ptx.ld_v2(x, 2 * t)
    ptx.st_v2(y, 2 * t, (b, a))


@cuda.jit
def quads(x, y):
    t = cuda.threadIdx.x
    a, b, c, d = ptx.ld_v4(x, 4 * t)
    ptx.st_v4(y, 4 * t, (d, c, b, a))


@pytest.mark.parametrize(
    ("kernel", "n", "dtypes"),
    [(pairs, 2, ("i1", "u2", "i4", "f4", "i8", "f8")), (quads, 4, ("u1", "i2", "u4", "f4"))],
)
def test_every_vector(run, kernel, n, dtypes):
    for dtype in dtypes:
        for threads in (32, 7):
            x = np.arange(n * threads).astype(dtype)
            y = np.zeros(n * threads, dtype)
            assert run(kernel, threads, x, y).verdict == "verified"
            assert (y.reshape(-1, n) == x.reshape(-1, n)[:, ::-1]).all()


# -- shared memory of a size known at launch, and limits --------------------------------------------------------------
@cuda.jit
def two_views(y):
    integers = cuda.shared.array(0, np.int32)
    floats = cuda.shared.array(0, np.float32)
    t = cuda.threadIdx.x
    floats[t] = t
    cuda.syncthreads()
    y[t] = integers[t]


def test_dynamic_arrays_are_views_of_the_same_bytes(run):
    y = np.zeros(32, np.int32)
    assert run(two_views, 32, y, dynamic_shared=128).verdict == "verified"
    assert (y.view(np.float32) == np.arange(32)).all()


def test_dynamic_arrays_have_the_size_of_the_launch(run):
    report = run(two_views, 32, np.zeros(32, np.int32), dynamic_shared=124)
    assert codes(report) == ["out-of-bounds", "out-of-bounds"]
    assert {f.message for f in report.findings} == {
        f"index 31 lies outside `{name}`" for name in ("floats", "integers")
    }


@cuda.jit
def static_and_dynamic(y):
    fixed = cuda.shared.array(3, np.int32)
    rest = cuda.shared.array(0, np.int32)
    t = cuda.threadIdx.x
    if t < 3:
        fixed[t] = 100 + t
    rest[t] = t
    cuda.syncthreads()
    y[t] = rest[t] + (fixed[t] if t < 3 else 0)


def test_static_and_dynamic_arrays_lie_apart(run):
    y = np.zeros(32)
    assert run(static_and_dynamic, 32, y, dynamic_shared=128).verdict == "verified"
    assert y.tolist() == [100, 102, 104, *range(3, 32)]


@cuda.jit
def all_static():
    tile = cuda.shared.array(48 * 1024, np.int8)
    tile[cuda.threadIdx.x] = 1


@cuda.jit
def one_too_many():
    tile = cuda.shared.array(48 * 1024, np.int8)
    more = cuda.shared.array(1, np.int8)
    tile[0] = more[0]


def test_48_kib_of_static_shared_memory(run):
    assert run(all_static, 32).verdict == "verified"
    with pytest.raises(
        UsageError, match=r"declares 49,1\d\d bytes of shared memory \(`tile`, `more`\): at most 49,152"
    ):
        run(one_too_many, 32)


def test_227_kib_together(run):
    assert run(all_static, 32, dynamic_shared=(227 - 48) * 1024).verdict == "verified"
    with pytest.raises(UsageError, match=r"232,448 together on sm_90"):
        run(all_static, 32, dynamic_shared=(227 - 48) * 1024 + 1)


# -- what accesses cost ----------------------------------------------------------------------------------------------
@cuda.jit
def shared_load(index, mask, y):
    tile = cuda.shared.array(4096, np.float32)
    t = cuda.threadIdx.x
    if (mask >> t) & 1:
        y[t] = tile[index[t]]


@cuda.jit
def shared_load_8(index, mask, y):
    tile = cuda.shared.array(4096, np.float64)
    t = cuda.threadIdx.x
    if (mask >> t) & 1:
        y[t] = tile[index[t]]


@cuda.jit
def shared_load_16(index, mask, y):
    tile = cuda.shared.array(8192, np.float32)
    t = cuda.threadIdx.x
    if (mask >> t) & 1:
        a, b, c, d = ptx.ld_v4(tile, 4 * index[t])
        y[t] = a + b + c + d


@cuda.jit
def shared_store(index, mask, y):
    tile = cuda.shared.array(4096, np.float32)
    t = cuda.threadIdx.x
    if (mask >> t) & 1:
        tile[index[t]] = 1


@cuda.jit
def shared_store_8(index, mask, y):
    tile = cuda.shared.array(4096, np.float64)
    t = cuda.threadIdx.x
    if (mask >> t) & 1:
        tile[index[t]] = 1


@cuda.jit
def shared_store_16(index, mask, y):
    tile = cuda.shared.array(8192, np.float32)
    t = cuda.threadIdx.x
    if (mask >> t) & 1:
        ptx.st_v4(tile, 4 * index[t], (np.float32(0), np.float32(1), np.float32(2), np.float32(3)))


@cuda.jit
def global_load(x, index, mask, y):
    tile = cuda.shared.array(32, np.int64)
    t = cuda.threadIdx.x
    if (mask >> t) & 1:
        tile[t] = x[index[t]]


@cuda.jit
def global_load_16(x, index, mask, y):
    tile = cuda.shared.array(32, np.int64)
    t = cuda.threadIdx.x
    if (mask >> t) & 1:
        a, b, c, d = ptx.ld_v4(x, 4 * index[t])
        tile[t] = a + b + c + d


SHARED = {
    ("load", 4): shared_load, ("load", 8): shared_load_8, ("load", 16): shared_load_16,
    ("store", 4): shared_store, ("store", 8): shared_store_8, ("store", 16): shared_store_16,
}  # fmt: skip
FULL = 0xFFFFFFFF


def shared_cost(run, kind, size, index, mask=FULL):
    """Wavefronts of one shared access; `index` counts elements of `size` bytes."""
    counters = run(SHARED[kind, size], 32, np.asarray(index), mask, np.zeros(32)).counters
    return getattr(counters, f"shared_{kind}_wavefronts")


def global_cost(run, size, index, mask=FULL):
    """Sectors of one global load, beside those of its index, which are counted apart."""
    index = np.asarray(index)
    x = np.zeros(4 * (index.max() + 1) if size == 16 else index.max() + 1, np.float64 if size == 8 else np.float32)
    kernel = global_load_16 if size == 16 else global_load
    active = [t for t in range(32) if mask >> t & 1]
    own = len({8 * t // 32 for t in active})
    return run(kernel, 32, x, index, mask, np.zeros(32)).counters.global_load_sectors - own


LANE = np.arange(32)


@pytest.mark.parametrize("kind", ["load", "store"])
@pytest.mark.parametrize("stride", range(2, 34))
def test_strided_words_conflict_by_their_common_divisor_with_32(run, kind, stride):
    assert shared_cost(run, kind, 4, LANE * stride) == np.gcd(stride, 32)


@pytest.mark.parametrize(("size", "unit"), [(4, 1), (8, 2), (16, 4)])
def test_wide_accesses_take_a_pass_for_every_128_bytes(run, size, unit):
    for kind in ("load", "store"):
        assert shared_cost(run, kind, size, LANE) == unit
        assert shared_cost(run, kind, size, LANE[::-1].copy()) == unit


@pytest.mark.parametrize(("size", "load", "store"), [(4, 1, 1), (8, 1, 2), (16, 2, 4)])
def test_a_broadcast_is_merged_for_loads_alone(run, size, load, store):
    assert shared_cost(run, "load", size, LANE * 0 + 5) == load
    assert shared_cost(run, "store", size, LANE * 0 + 5) == store


@pytest.mark.parametrize("distance", [1, 2])
def test_pairs_of_lanes_merge_in_wide_loads(run, distance):
    index = LANE // 2 if distance == 1 else LANE // 4 * 2 + LANE % 2
    assert shared_cost(run, "load", 8, index) == 1
    assert shared_cost(run, "load", 16, index) == 2
    assert shared_cost(run, "store", 8, index) == 2
    assert shared_cost(run, "store", 16, index) == 4


def test_pairs_of_mixed_distance_do_not_merge(run):
    index = np.where(LANE < 16, LANE // 2, LANE // 4 * 2 + LANE % 2)
    assert shared_cost(run, "load", 8, index) == 2
    assert shared_cost(run, "load", 16, index) == 4


@pytest.mark.parametrize(
    ("mask", "load"), [(1, 1), (0x55555555, 1), (0xAAAAAAAA, 1), (0x33333333, 1), (0x0F0F0F0F, 2), (0x0000FFFF, 1)]
)
def test_a_lane_whose_partner_is_inactive_counts_as_merged(run, mask, load):
    rank = np.array([(mask & ((1 << lane) - 1)).bit_count() for lane in LANE])
    assert shared_cost(run, "load", 8, rank, mask) == load
    assert shared_cost(run, "store", 8, rank, mask) == (1 if mask in (1, 0xFFFF) else 2)


@pytest.mark.parametrize(("stride", "sectors"), [(0, 1), (1, 4), (2, 8), (3, 12), (8, 32), (33, 32)])
def test_sectors_of_strided_words(run, stride, sectors):
    assert global_cost(run, 4, LANE * stride) == sectors


@pytest.mark.parametrize(("size", "sectors"), [(4, 5), (8, 9), (16, 17)])
def test_sectors_of_a_shifted_row(run, size, sectors):
    assert global_cost(run, size, LANE + 1) == sectors


# Hopper's hardware counters for irregular addresses: kind, bytes, mask, wavefronts or sectors, byte addresses
MEASURED = """
global 4 ffffffff 8 108 60 0 44 60 132 32 236 64 176 48 56 208 68 244 172 156 136 252 84 160 12 44 16 56 236 240 236 56 12 172 32
global 8 d82a90a4 10 888 2136 1968 4032 2696 3240 96 2696 3768 320 3456 3016 2896 1888 344 3368 3944 2888 3184 1728 3840 3376 696 912 1688 3584 3000 672 2264 3232 3408 1480
global 8 ffffffff 13 264 264 24 288 376 24 88 256 272 88 240 344 224 72 480 16 472 432 488 504 160 168 224 264 472 352 160 200 64 160 392 288
global 16 0aa147e8 13 2912 1264 5952 1040 8144 4912 4304 6880 7904 4976 4720 384 7664 3424 624 6432 7184 5152 2704 1568 3200 6128 1504 5824 5984 1984 5216 4752 4288 3168 6160 288
load 4 3b7d8212 3 556 916 756 984 616 872 340 268 204 840 104 856 944 32 196 1004 128 224 180 956 1008 692 8 396 416 256 144 40 124 640 648 696
load 4 ffffffff 6 1304 1608 2380 3660 1260 1140 3296 1676 2432 1108 1268 2624 1988 408 236 4012 768 2536 584 2796 440 748 3120 2704 2032 364 1272 3308 2788 2624 2804 3060
load 8 5b3c73ad 5 368 1808 1320 216 656 1976 1304 1304 392 344 840 848 1168 424 1536 200 1760 904 800 96 352 1864 744 504 512 152 1288 1376 1984 1184 768 600
load 8 ffffffff 7 2840 888 5928 7784 1000 8056 7752 1512 6592 7720 6592 7552 7144 7440 6112 752 120 960 2184 4048 3472 3544 2416 4936 6352 88 6504 1224 2016 1440 7504 1280
load 16 0000ffff 7 15136 7504 13712 9232 7072 12064 13856 11104 10128 16336 9856 2560 15056 13312 6048 6720 10896 12832 11520 14608 1152 16240 7984 4352 3536 7408 4944 15440 8144 15488 11024 6096
load 16 ffffffff 7 2608 2240 736 5264 2608 2240 736 5264 12560 15120 4608 10752 12560 15120 4608 10752 6480 12288 896 5632 6480 12288 896 5632 1184 8000 1120 2320 1184 8000 1120 2320
store 4 3e1093e3 3 832 856 180 716 32 704 744 380 928 1000 332 328 460 140 740 264 748 56 156 632 780 960 4 936 676 816 952 864 1020 124 508 68
store 8 73e529ba 6 1880 536 568 1592 1040 520 2008 1808 1712 1736 496 472 264 920 1048 16 1232 472 1864 1080 1920 1904 672 1424 1488 144 264 1768 1864 1040 656 64
store 16 4f4e89d9 7 1040 704 2720 3856 3744 2896 2640 3232 3456 880 3680 2672 32 1248 128 1376 1568 3376 2320 3568 304 2400 1520 672 1824 960 1760 704 224 848 3664 880
store 16 ffffffff 8 1152 1776 14544 10464 5824 13712 4912 10528 256 14688 12624 16016 3840 5392 4336 1216 9984 15568 11024 13312 7728 14640 13776 14096 15584 5680 128 6240 7136 7472 10128 4800
""".strip().splitlines()  # noqa: E501


@pytest.mark.parametrize("row", MEASURED, ids=lambda row: " ".join(row.split()[:4]))
def test_costs_equal_the_hardware_counters(run, row):
    kind, size, mask, measured, *addresses = row.split()
    index = np.array([int(address) // int(size) for address in addresses])
    if kind == "global":
        assert global_cost(run, int(size), index, int(mask, 16)) == int(measured)
    else:
        assert shared_cost(run, kind, int(size), index, int(mask, 16)) == int(measured)


def test_atomics_and_local_memory_cost_nothing_here(run):
    report = run(atomic_on_unwritten, 32, np.zeros(1))
    assert report.counters.shared_store_wavefronts == 0
    assert report.counters.shared_load_wavefronts == 1
    report = run(local_unwritten, 32, np.zeros(32, np.int64))
    assert (report.counters.global_store_sectors, report.counters.shared_load_wavefronts) == (8, 0)
    assert report.counters.accesses == 32  # the stores to the array: local memory is registers


def test_a_report_names_its_counters() -> None:
    counters = wsemu.check(copy, 1, 64, (np.zeros(64), np.zeros(64))).counters
    assert (counters.global_load_sectors, counters.global_store_sectors, counters.accesses) == (16, 16, 128)
