"""For which contents of its arrays, and values of its scalars, a verified launch speaks."""

from __future__ import annotations

import numpy as np
import pytest

import wsemu
from wsemu import cuda, ptx


def scope(kernel, *arguments, grid=1, block=32, **options):
    report = wsemu.check(kernel, grid, block, arguments, every=True, **options)
    assert report.verdict == "verified", report.notes
    return report.scope


def ints(n=32, value=0):
    return np.full(n, value, np.int32)


def floats(n=32):
    return np.ones(n, np.float32)


@cuda.jit
def saxpy(n, alpha, x, y):
    i = cuda.grid(1)
    if i < n:
        y[i] = alpha * x[i] + y[i]


def test_values_that_only_go_through_arithmetic_may_be_any():
    report = wsemu.check(saxpy, 1, 32, (20, 2.0, floats(), floats()), every=True)
    assert report.scope is not None
    assert (report.scope.contents, report.scope.values, report.scope.limits) == (["x", "y"], ["alpha"], [])
    said = "deadlock-free and race-free in every schedule, for all contents of `x`, `y` and all values of `alpha`"
    assert report.proof == said


def test_who_does_not_ask_is_told_nothing():
    report = wsemu.check(saxpy, 1, 32, (20, 2.0, floats(), floats()))
    assert report.scope is None
    assert report.proof == "deadlock-free and race-free in every schedule"


@cuda.jit
def gather(index, x, y):
    i = cuda.grid(1)
    y[i] = x[index[i]]


def test_an_address_looks_at_data():
    found = scope(gather, ints(), floats(), floats())
    assert found.contents == ["x"]
    (limit,) = found.limits
    assert "the address depends on the contents of `index`" in limit


@cuda.jit
def positive(x, y):
    i = cuda.grid(1)
    if x[i] > 0:
        y[i] = x[i]


@cuda.jit
def through_shared(x, y):
    tile = cuda.shared.array(32, np.int32)
    i = cuda.threadIdx.x
    tile[i] = x[i]
    cuda.syncthreads()
    if tile[31 - i] > 0:
        y[i] = 1


@cuda.jit
def through_global(x, y, z):
    i = cuda.threadIdx.x
    y[i] = x[i]
    cuda.syncthreads()
    if y[31 - i] > 0:
        z[i] = 1


@cuda.jit
def through_shuffle(x, y):
    i = cuda.threadIdx.x
    if cuda.shfl_sync(0xFFFFFFFF, x[i], 0) > 0:
        y[i] = 1


@cuda.jit
def through_vote(x, y):
    i = cuda.threadIdx.x
    if cuda.any_sync(0xFFFFFFFF, x[i] > 5):
        y[i] = 1


@cuda.jit
def through_a_barrier(x, y):
    i = cuda.threadIdx.x
    if cuda.syncthreads_count(x[i]) > 3:
        y[i] = 1


@cuda.jit
def through_local(x, y):
    own = cuda.local.array(4, np.int32)
    i = cuda.threadIdx.x
    for k in range(4):
        own[k] = x[i]
    if own[i % 4] > 0:
        y[i] = 1


@cuda.jit
def as_a_loop_bound(x, y):
    i = cuda.threadIdx.x
    for k in range(x[0]):
        y[i] += k


@cuda.jit
def as_a_source_lane(x, y):
    i = cuda.threadIdx.x
    y[i] = cuda.shfl_sync(0xFFFFFFFF, i, x[0])


@pytest.mark.parametrize(
    "kernel", [positive, through_shared, through_shuffle, through_vote, through_a_barrier, through_local,
               as_a_loop_bound, as_a_source_lane],
)  # fmt: skip
def test_data_that_steers_is_named(kernel):
    found = scope(kernel, ints(), ints())
    assert "x" not in found.contents
    assert any("contents of `x`" in limit for limit in found.limits)


def test_what_is_stored_and_loaded_again_is_followed():
    found = scope(through_global, ints(), ints(), ints())
    assert found.contents == []
    assert len(found.limits) == 2


@cuda.jit
def barrier_of_data(x, y):
    ptx.barrier_sync(x[0], 32)
    y[cuda.threadIdx.x] = 1


@cuda.jit
def member_mask_of_data(x, y):
    i = cuda.threadIdx.x
    y[i] = cuda.ballot_sync(x[0], 1)


@pytest.mark.parametrize(("kernel", "value"), [(barrier_of_data, 3), (member_mask_of_data, -1)])
def test_barriers_and_masks_of_data_are_named(kernel, value):
    found = scope(kernel, ints(value=value), ints())
    assert found.contents == []
    assert len(found.limits) == 1


@cuda.jit
def all_lanes_to_one(x, y):
    y[0] = x[cuda.threadIdx.x]


def test_lanes_that_store_one_value_to_one_place_store_the_same_for_these_contents_alone():
    found = scope(all_lanes_to_one, ints(), ints())
    assert found.contents == []
    assert "one value that several lanes store" in found.limits[0]


@cuda.jit
def one_constant_to_one(x, y):
    y[0] = 7
    y[1 + cuda.threadIdx.x] = x[cuda.threadIdx.x]


def test_lanes_that_store_a_constant_to_one_place_do_so_always():
    assert scope(one_constant_to_one, ints(), ints(33)).contents == ["x"]


@cuda.jit
def histogram(x, bins):
    cuda.atomic.add(bins, x[cuda.threadIdx.x], 1)


@cuda.jit
def total(x, y):
    cuda.atomic.add(y, 0, x[cuda.threadIdx.x])


def test_atomics_have_addresses_and_operands():
    assert scope(histogram, ints(), ints()).contents == ["bins"]
    assert scope(total, ints(), ints()).contents == ["x", "y"]


@cuda.jit
def times(n, alpha, y):
    i = cuda.threadIdx.x
    for k in range(n):
        y[i] += alpha * k


def test_scalars_that_steer_are_left_out():
    assert scope(times, 3, 2, ints()).values == ["alpha"]


def test_arrays_that_overlap_are_one():
    whole = ints(64)
    found = scope(positive, whole[:32], whole[16:48][16:])
    assert found.contents == []
    found = scope(through_global, whole[:48], whole[:48], ints())
    assert found.contents == []
    assert "`x`, `y`" in found.limits[0]


@cuda.jit
def select(x, y):
    i = cuda.threadIdx.x
    y[i] = x[i] if x[i] > 0 else 0


def test_a_choice_without_a_branch_steers_nothing():
    found = scope(select, ints(), ints())
    assert (found.contents == ["x"]) == (not found.limits)


def test_the_scope_is_part_of_the_json():
    report = wsemu.check(saxpy, 1, 32, (20, 2.0, floats(), floats()), every=True)
    assert wsemu.Report.model_validate_json(report.model_dump_json()) == report


@cuda.jit
def copied(x, y):
    tile = cuda.shared.array(32, np.int32)
    i = cuda.threadIdx.x
    ptx.cp_async_ca(tile, i, x, i, 4)
    ptx.cp_async_wait_all()
    if tile[i] > 0:
        y[i] = 1


def test_a_copy_carries_contents():
    found = scope(copied, ints(), ints())
    assert found.contents == []
    assert "the branch depends on the contents of `x`" in found.limits[0]


PTX = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry scale(.param .u64 x, .param .u64 y, .param .f32 alpha, .param .u32 n)
{
    .reg .pred %p<2>; .reg .b32 %r<4>; .reg .f32 %f<4>; .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.f32 %f1, [alpha]; ld.param.u32 %r2, [n];
    mov.u32 %r1, %tid.x;
    setp.ge.u32 %p1, %r1, %r2;
    @%p1 bra done;
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd4, %rd1, %rd3;
    add.s64 %rd5, %rd2, %rd3;
    ld.global.f32 %f2, [%rd4];
    mul.f32 %f3, %f2, %f1;
    st.global.f32 [%rd5], %f3;
done:
    ret;
}
"""


def test_arguments_of_ptx_have_contents_too(tmp_path):
    (tmp_path / "scale.ptx").write_text(PTX)
    kernel = wsemu.load_ptx(tmp_path / "scale.ptx")["scale"]
    found = scope(kernel, floats(), floats(), np.float32(2), np.uint32(20))
    assert (found.contents, found.values, found.limits) == (["x"], ["alpha"], [])


@cuda.jit
def by_the_other_order(count, x, a, y):
    """CTA 0 looks at x and a if it comes last, which it does not in the run that is made first."""
    if cuda.threadIdx.x == 0:
        y[cuda.blockIdx.x] = x[0]
        if cuda.atomic.add(count, 0, 1) == 1 and cuda.blockIdx.x == 0:
            if x[0] > 5:
                y[100] = 1
            y[a] = 1


def test_what_steers_in_another_order_of_atomics_is_no_contents_of_all():
    arguments = (ints(1), ints(1), 0, ints(4))
    report = wsemu.check(by_the_other_order, 2, 32, arguments, every=True)
    assert report.verdict == "verified"
    assert "in all orders of the atomics" in report.proof
    assert report.scope is not None
    assert "x" not in report.scope.contents
    assert report.scope.values == []
    for other in ((ints(1), ints(1, 9), 0, ints(4)), (ints(1), ints(1), 50, ints(4))):
        assert wsemu.check(by_the_other_order, 2, 32, other).verdict == "failed"
