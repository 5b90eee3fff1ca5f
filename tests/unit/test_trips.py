"""For which trip counts of its loops a verified launch speaks."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import wsemu
from wsemu import cuda, ptx

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.properties import ptx_loop_programs
from tests.properties.loop_programs import loaded, program, tried


def scope(kernel, *arguments, block=64, grid=1, **options):
    report = wsemu.check(kernel, grid, block, arguments, every=True, **options)
    assert report.verdict == "verified", report.notes
    return report.scope


def floats(n=64 * 40):
    return np.zeros(n, np.float32)


@cuda.jit
def ring(n, x, y):
    tile = cuda.shared.array((2, 32), np.float32)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x < 32:
        for k in range(n):
            if k >= 2:
                ptx.barrier_sync(3 + k % 2, 64)
            tile[k % 2, lane] = x[k * 32 + lane]
            ptx.barrier_arrive(1 + k % 2, 64)
    else:
        for k in range(n):
            ptx.barrier_sync(1 + k % 2, 64)
            y[k * 32 + lane] = tile[k % 2, lane]
            if k + 2 < n:
                ptx.barrier_arrive(3 + k % 2, 64)


def test_a_ring_of_named_barriers_holds_for_every_trip_count():
    report = wsemu.check(ring, 1, 64, (8, floats(), floats()), every=True)
    assert report.scope is not None
    (loops,) = report.scope.loops
    assert loops.startswith("the loops in lines ")
    assert loops.endswith("(`n`) that the arrays have room for")
    assert f"for every trip count of {loops}, the other sizes as given" in report.proof


@cuda.jit
def summed(n, x, y):
    tile = cuda.shared.array((3, 64), np.float32)
    lane = cuda.threadIdx.x
    s = 0.0
    for k in range(n):
        tile[k % 3, lane] = x[lane]
        cuda.syncthreads()
        s += tile[k % 3, 63 - lane]
    y[lane] = s


def test_a_loop_that_walks_through_no_array_needs_no_room():
    (loops,) = scope(summed, 4, floats(64), floats(64)).loops
    assert loops.endswith("(`n`)")


@cuda.jit
def phases(n, x, y):
    tile = cuda.shared.array((2, 32), np.float32)
    full = cuda.shared.array(2, np.uint64)
    empty = cuda.shared.array(2, np.uint64)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x == 0:
        for s in range(2):
            ptx.mbarrier_init(full, s, 32)
            ptx.mbarrier_init(empty, s, 32)
    cuda.syncthreads()
    if cuda.threadIdx.x < 32:
        for k in range(n):
            ptx.mbarrier_wait_parity(empty, k % 2, (k // 2 & 1) ^ 1)
            tile[k % 2, lane] = x[k * 32 + lane]
            ptx.mbarrier_arrive(full, k % 2)
    else:
        for k in range(n):
            ptx.mbarrier_wait_parity(full, k % 2, k // 2 & 1)
            y[k * 32 + lane] = tile[k % 2, lane]
            ptx.mbarrier_arrive(empty, k % 2)


@cuda.jit
def stage_by_hand(n, x, y):
    tile = cuda.shared.array((3, 32), np.float32)
    lane = cuda.threadIdx.x % 32
    stage = 0
    for k in range(n):
        tile[stage, lane] = x[k * 32 + lane]
        cuda.syncthreads()
        y[k * 32 + lane] = tile[stage, 31 - lane]
        stage += 1
        if stage == 3:
            stage = 0


@cuda.jit
def by_halves(n, x, y):
    lane = cuda.threadIdx.x
    for k in range(n // 2):
        y[k * 32 + lane] = x[k * 32 + lane]
        cuda.syncthreads()


@cuda.jit
def one_lane_leads(n, x, y):
    flag = cuda.shared.array(1, np.float32)
    lane = cuda.threadIdx.x
    for k in range(n):
        if lane == 0:
            flag[0] = x[k]
        cuda.syncthreads()
        y[k * 32 + lane] = flag[0]
        cuda.syncthreads()


@pytest.mark.parametrize(
    ("kernel", "block"), [(phases, 64), (stage_by_hand, 32), (by_halves, 32), (one_lane_leads, 32)],
)  # fmt: skip
def test_stages_parities_halves_and_leaders_are_followed(kernel, block):
    assert scope(kernel, 5, floats(), floats(), block=block).loops


@cuda.jit
def fails_at_one(n, x, y):
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x < 32:
        for k in range(n):
            x[k * 32 + lane] = 1
            ptx.barrier_arrive(1, 64)
            if k > 0:
                ptx.barrier_sync(2, 64)
        if n == 1:
            ptx.barrier_sync(2, 64)
    else:
        for k in range(n):
            ptx.barrier_sync(1, 64)
            if k > 0:
                ptx.barrier_arrive(2, 64)


def test_a_trip_count_that_fails_is_named():
    report = wsemu.check(fails_at_one, 1, 64, (4, floats(), floats()), every=True)
    assert report.scope is None or not report.scope.loops
    if report.verdict == "verified":
        assert any("with `n` = 1 the launch is failed (deadlock" in note for note in report.notes)


@cuda.jit
def until_data(n, x, y):
    lane = cuda.threadIdx.x
    for k in range(n):
        if x[k] > 0:
            y[k * 32 + lane] = 1
        cuda.syncthreads()


@cuda.jit
def index_of_data(n, x, z, y):
    lane = cuda.threadIdx.x
    for k in range(n):
        y[lane] += x[z[k * 32 + lane]]
        cuda.syncthreads()


@cuda.jit
def backwards(n, x, y):
    lane = cuda.threadIdx.x
    for k in range(n):
        y[(n - 1 - k) * 32 + lane] = x[lane]


@cuda.jit
def far_apart(n, x, y):
    """A race from 41 iterations on."""
    lane, warp = cuda.threadIdx.x % 32, cuda.threadIdx.x // 32
    for k in range(n):
        y[(k + 40 * warp) * 32 + lane] = 1


@cuda.jit
def slower(n, x, y):
    """Warp 1 writes every other place of those that warp 0 writes, later and later."""
    lane, warp = cuda.threadIdx.x % 32, cuda.threadIdx.x // 32
    for k in range(n):
        y[(k * (1 + warp) + 300 * warp) * 32 + lane] = 1


@pytest.mark.parametrize(
    ("kernel", "block", "extra", "why"),
    [
        (until_data, 32, (), "the branch depends on loaded data"),
        (index_of_data, 32, (np.zeros(2048, np.int32),), "the address depends on loaded data"),
        (backwards, 32, (), "counts"),
        (far_apart, 64, (), "rounds apart"),
        (slower, 64, (), "different strides"),
    ],
)
def test_what_is_not_followed_stays_one_launch(kernel, block, extra, why):
    found = scope(kernel, 4, floats(32 * 40), *extra, floats(32 * 400), block=block)
    assert not found.loops
    assert any(why in limit and "nothing is shown for other trip counts" in limit for limit in found.limits)


def test_arrays_without_room_are_said():
    found = scope(ring, 3, floats(96), floats(96))
    assert not found.loops
    assert any("the arrays have no room for `n` = 4" in limit for limit in found.limits)


def test_what_is_said_of_random_loops_is_so(tmp_path):
    programs = [program(seed) for seed in range(4, 12)]
    kernels = loaded(programs, tmp_path, "loops_of_a_test")
    found = [tried(made, kernel) for made, kernel in zip(programs, kernels, strict=True)]
    assert [one.contradictions for one in found if one.contradictions] == []
    assert sum(one.trips for one in found) >= 1


@cuda.jit
def looks_at_one(n, x, z, y):
    """Reads data that steers with one iteration alone."""
    lane = cuda.threadIdx.x
    for k in range(n):
        if n == 1 and z[lane] > 0:
            y[lane] = 1
        y[k * 32 + lane + 32] = x[k * 32 + lane] + z[lane]
        cuda.syncthreads()


def test_contents_that_steer_at_another_trip_count_are_left_out():
    found = scope(looks_at_one, 4, floats(), floats(), floats(), block=32)
    assert found.loops
    assert found.contents == ["x"]
    assert any("contents of `z`" in limit for limit in found.limits)


PTX = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry copies(.param .u64 x, .param .u64 y, .param .u32 n)
{
    .reg .pred %p<4>; .reg .b32 %r<10>; .reg .f32 %f<4>; .reg .b64 %rd<8>;
    .shared .align 4 .b8 tile[256];
    ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.u32 %r2, [n];
    mov.u32 %r1, %tid.x;
    setp.eq.s32 %p1, %r2, 0;
    @%p1 bra done;
    mov.u32 %r3, 0;
    mov.u32 %r7, tile;
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd4, %rd1, %rd3;
    add.s64 %rd5, %rd2, %rd3;
loop:
    ld.global.f32 %f1, [%rd4];
    and.b32 %r4, %r3, 1;
    shl.b32 %r5, %r4, 7;
    shl.b32 %r6, %r1, 2;
    add.s32 %r5, %r5, %r6;
    add.s32 %r5, %r5, %r7;
    st.shared.f32 [%r5], %f1;
    bar.sync 0;
    ld.shared.f32 %f2, [%r5];
    st.global.f32 [%rd5], %f2;
    add.s64 %rd4, %rd4, 128;
    add.s64 %rd5, %rd5, 128;
    add.s32 %r3, %r3, 1;
    setp.lt.u32 %p2, %r3, %r2;
    @%p2 bra loop;
done:
    ret;
}
"""


def test_pointers_of_ptx_move_by_strides(tmp_path):
    (tmp_path / "copies.ptx").write_text(PTX)
    kernel = wsemu.load_ptx(tmp_path / "copies.ptx")["copies"]
    found = scope(kernel, floats(), floats(), np.uint32(5), block=32)
    assert [loop.partition(" (")[2] for loop in found.loops] == ["`n`) that the arrays have room for"]


@cuda.jit
def two_loops(n, m, x):
    t = cuda.threadIdx.x
    for i in range(n):
        x[t] = i
        cuda.syncthreads()
    for j in range(m):
        x[t] = j
        cuda.syncthreads()


@cuda.jit
def one_in_the_other(n, m, x):
    t = cuda.threadIdx.x
    for i in range(n):
        for j in range(m):
            x[t] = i + j
            cuda.syncthreads()


def test_of_two_arguments_one_may_change_at_a_time():
    report = wsemu.check(two_loops, 1, 64, (3, 4, floats(64)), every=True)
    assert report.scope is not None
    first, second = report.scope.loops
    assert first.endswith("(`n`)")
    assert second.endswith("(`m`)")
    said = f"for every trip count of {first} or of {second}, one argument at a time, the other sizes as given"
    assert report.proof.endswith(said)


def test_a_loop_inside_of_another_one_is_said_to_be_left_out():
    report = wsemu.check(one_in_the_other, 1, 64, (3, 4, floats(64)), every=True)
    assert report.scope is not None
    (loop,), (limit,) = report.scope.loops, report.scope.limits
    assert loop.endswith("(`n`)")
    assert "the loop runs inside of another one: nothing is shown for other trip counts of the loop in line" in limit
    assert limit.endswith("(`m`)")
    assert limit in report.notes


@cuda.jit
def one_phase_for_all_rounds(n, x):
    bar = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(bar, 0, 2)
    cuda.syncthreads()
    for _ in range(n):
        if t == 0:
            ptx.mbarrier_expect_tx(bar, 0, 4096)
        if t == 32:
            ptx.mbarrier_complete_tx(bar, 0, 4096)
    if t % 32 == 0:
        ptx.mbarrier_arrive(bar, 0)
    ptx.mbarrier_wait_parity(bar, 0, 0)


def test_bytes_of_a_phase_that_stays_open_grow_with_the_rounds():
    report = wsemu.check(one_phase_for_all_rounds, 1, 64, (4, floats()), every=True)
    assert report.verdict == "verified"
    assert report.scope is None or not report.scope.loops
    more = wsemu.check(one_phase_for_all_rounds, 1, 64, (300, floats()))
    assert {finding.code for finding in more.findings} == {"mbarrier-range"}


@cuda.jit
def late_store(n, x):
    t = cuda.threadIdx.x
    for k in range(n):
        if t < 32:
            x[k * 32 + t] = 1
        elif k > 20:
            x[(k - 20) * 32 + t - 32] = 2


@cuda.jit
def towards_each_other(n, x):
    t = cuda.threadIdx.x
    for k in range(n):
        if t < 32:
            x[t] = 1
        else:
            x[800 - k * 32 + t - 32] = 1


@cuda.jit
def one_at_a_far_round(n, x):
    t = cuda.threadIdx.x
    for k in range(n):
        if k * 3 == 45 and t < 32:
            x[0] = 1
        elif t == 32:
            x[0] = 2


@cuda.jit
def arrives_but_once(n, x):
    t = cuda.threadIdx.x
    for k in range(n):
        if t < 32:
            x[t] = k
            ptx.bar_arrive(1, 64)
            ptx.bar_sync(2, 64)
        else:
            ptx.bar_sync(1, 64)
            if k != 17:
                ptx.bar_arrive(2, 64)


@cuda.jit
def wraps(n, x):
    t = cuda.threadIdx.x
    k = np.int32(0)
    for _ in range(n):
        if t < 32:
            x[(k >> 26) * 32 + t + 1024] = 1
        else:
            x[1024 + (k >> 27) * 32 + t - 32 + 1280] = 1
        k = np.int32(k + np.int32(1 << 26))


@pytest.mark.parametrize(
    "kernel", [late_store, towards_each_other, one_at_a_far_round, arrives_but_once, wraps], ids=lambda k: k.__name__
)
@pytest.mark.parametrize("n", [6, 12])
def test_what_comes_at_a_far_round_is_not_said_to_be_absent(kernel, n):
    assert scope(kernel, n, floats(4096)).loops == []


def test_what_is_said_of_random_loops_in_ptx_holds(tmp_path):
    programs = [ptx_loop_programs.program(seed) for seed in range(8)]
    kernels = ptx_loop_programs.loaded(programs, tmp_path, "loops_of_a_test")
    found = [tried(made, kernel, most=8, fills=1) for made, kernel in zip(programs, kernels, strict=True)]
    assert not [what for one in found for what in one.contradictions]
    assert any(one.trips for one in found)
    assert any(one.contents for one in found)


@cuda.jit
def through_local_memory(n, x):
    own = cuda.local.array(64, np.float32)
    for k in range(n):
        own[k] = k
    x[cuda.threadIdx.x] = n


@cuda.jit
def mask_that_counts(n, x):
    """Lane 10 is in the mask for the first 256 iterations."""
    t = cuda.threadIdx.x
    if t not in (0, 10):
        return
    for k in range(n):
        cuda.syncwarp(0x401 + 4 * k)
    x[t] = 1


@cuda.jit
def lane_of_the_iteration(n, x):
    v = cuda.threadIdx.x
    for k in range(n):
        v += cuda.shfl_xor_sync(0xFFFF, v, k)
    x[cuda.threadIdx.x] = v


@pytest.mark.parametrize(
    ("kernel", "block", "far", "why"),
    [
        (through_local_memory, 32, 65, "the address walks through local memory"),
        (mask_that_counts, 32, 257, "the operand differs from round to round"),
        (lane_of_the_iteration, 16, 17, "the operand differs from round to round"),
    ],
)
def test_a_threads_own_memory_masks_and_lanes_are_no_others_at_a_far_round(kernel, block, far, why):
    found = scope(kernel, 5, floats(), block=block)
    assert found.loops == []
    assert any(why in limit for limit in found.limits)
    assert wsemu.check(kernel, 1, block, (far, floats())).verdict != "verified"


@cuda.jit
def ring_of_a_thread(n, x):
    own = cuda.local.array(4, np.float32)
    for k in range(n):
        own[k % 4] = k
    x[cuda.threadIdx.x] = n


def test_places_of_local_memory_that_come_back_are_followed():
    assert len(scope(ring_of_a_thread, 5, floats(), block=32).loops) == 1
