"""What a finding points to where no edit is a cure: the likeliest mistake, named at its line."""

from __future__ import annotations

import numpy as np
import pytest

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
    assert "`ptx.cp_async_wait_group(n)` if n groups" in races[0]
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


@cuda.jit
def counts_on_lockstep(x, y):
    lane = cuda.threadIdx.x
    x[lane] = lane
    y[lane] = x[31 - lane]


@pytest.mark.parametrize(("arch", "said"), [
    ("sm_20", "`--arch sm_20` only chooses limits and costs"), ("sm_70", "lanes of a warp execute independently"),
])  # fmt: skip
def test_an_older_architecture_does_not_imply_lockstep_and_says_so(arch, said):
    arrays = np.zeros(32, np.int32), np.zeros(32, np.int32)
    report = wsemu.check(counts_on_lockstep, 1, 32, arrays, arch=arch)
    (finding,) = report.errors
    assert finding.code == "intra-warp-race"
    assert any(note.startswith(said) and "--lockstep" in note for note in finding.notes)
    assert wsemu.check(counts_on_lockstep, 1, 32, arrays, arch=arch, lockstep=True).verdict == "verified"


# -- hints that name the cause ----------------------------------------------------------------------------------------
@cuda.jit
def polls_plainly(flag, x, y):
    t = cuda.threadIdx.x
    if t < 32:
        x[t] = t
        cuda.threadfence()
        cuda.syncwarp()
        if t == 0:
            flag[0] = 1
    else:
        while flag[0] == 0:
            pass
        y[t - 32] = x[t - 32]


def test_a_flag_that_is_polled_by_plain_loads():
    report = wsemu.check(polls_plainly, 1, 64, (np.zeros(1, np.int32), zeros(32), zeros(32)))
    finding = report.errors[0]
    line = line_of(polls_plainly, "while flag[0] == 0")
    assert f"line {line} waits in a loop with a plain load: a compiler may load once, and loop forever" in finding.notes
    assert finding.help is not None
    assert finding.help.startswith("wait with an atomic that adds 0")


@cuda.jit
def looks_once(flag, y):
    t = cuda.threadIdx.x
    if t == 0:
        flag[0] = 1
    for i in range(3):
        y[t + i] = flag[0]


def test_a_load_in_a_loop_that_goes_on_waits_for_nothing():
    report = wsemu.check(looks_once, 1, 64, (zeros(1), zeros(67)))
    assert not any("waits in a loop" in note for finding in report.errors for note in finding.notes)


@cuda.jit
def some_return(x, y, n):
    s = cuda.shared.array(64, F32)
    t = cuda.grid(1)
    if t >= n:
        return
    s[cuda.threadIdx.x] = x[t]
    cuda.syncthreads()
    y[t] = s[63 - cuda.threadIdx.x]


def test_an_unwritten_read_says_how_many_threads_store():
    report = wsemu.check(some_return, 2, 64, (zeros(100), zeros(100), 100))
    (finding,) = report.errors
    line = line_of(some_return, "] = x[t]")
    assert f"line {line}, the only store to `s`, is executed by 100 of the 128 threads" in finding.notes


@cuda.jit
def dynamic(x, y):
    d = cuda.shared.array(0, F32)
    t = cuda.threadIdx.x
    d[t] = x[t]
    cuda.syncthreads()
    y[t] = d[63 - t]


def test_dynamic_shared_memory_that_is_too_small():
    report = wsemu.check(dynamic, 1, 64, (zeros(64), zeros(64)), dynamic_shared=128)
    assert report.errors[0].code == "out-of-bounds"
    assert report.errors[0].help is not None
    assert report.errors[0].help.startswith("launch with more bytes of dynamic shared memory; or ")
    assert wsemu.check(dynamic, 1, 64, (zeros(64), zeros(64)), dynamic_shared=256).verdict == "verified"


SMALL = """\
.version 9.0
.target sm_90
.address_size 64
.extern .shared .align 16 .b8 d[];
.visible .entry k(.param .u64 y)
{
.reg .b32 %r<4>;
.reg .b64 %rd<5>;
mov.u32 %r1, %tid.x;
mov.u32 %r2, d;
shl.b32 %r3, %r1, 2;
add.u32 %r3, %r2, %r3;
st.shared.u32 [%r3], %r1;
ret;
}
"""


def test_dynamic_shared_memory_that_is_too_small_in_ptx():
    kernel = wsemu.load_ptx(SMALL)["k"]
    report = wsemu.check(kernel, 1, 64, (np.zeros(1, np.uint32),), dynamic_shared=128)
    (finding,) = report.errors
    assert (finding.help or "").startswith("launch with more bytes of dynamic shared memory: `--dynamic-shared BYTES`")
    assert finding.notes[0].startswith("this launch has 128 bytes of dynamic shared memory: the address is byte 128")


@cuda.jit
def each_cta_stores_all(x, y):
    for i in range(cuda.threadIdx.x, x.size, cuda.blockDim.x):
        y[i] = x[i] + cuda.blockIdx.x


def test_ctas_that_store_the_same_elements():
    report = wsemu.check(each_cta_stores_all, 2, 32, (zeros(128), zeros(128)))
    assert report.errors[0].code == "race"
    assert "all CTAs store to the same elements: include `cuda.blockIdx` in the index" in str(report.errors[0].help)


@cuda.jit
def votes_by_trips(x, y):
    t = cuda.threadIdx.x
    n = 0
    for _ in range(t % 4):
        n += cuda.ballot_sync(0xFFFFFFFF, x[t] > 0)
    y[t] = n


def test_a_vote_in_a_loop_whose_trips_differ_by_lane():
    report = wsemu.check(votes_by_trips, 1, 32, (zeros(32), np.zeros(32, np.int64)))
    help_ = [finding.help for finding in report.errors if finding.code == "barrier-divergence"]
    assert help_
    assert str(help_[0]).endswith("; or make all lanes execute the same number of iterations of the loop around it")


@cuda.jit
def used_before_it_is_one(x):
    full = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(full, 0, 32)
    ptx.mbarrier_arrive(full, 0)
    x[t] = 1


def test_several_lanes_arrive():
    report = wsemu.check(used_before_it_is_one, 1, 32, (zeros(32),))
    finding = next(finding for finding in report.errors if finding.code == "mbarrier-uninitialized")
    assert any("lanes 1-31 arrive on `full[0]`" in site.text for site in finding.sites)
