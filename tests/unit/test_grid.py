"""Cooperative launches: the barrier of the grid, in Python and in PTX, on both engines, narrow and wide."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest

import wsemu
from wsemu import cuda
from wsemu.launch.replay.run import follow
from wsemu.launch.running import bind_launch
from wsemu.machine import tables
from wsemu.model import settings
from wsemu.model.grid import Grouping
from wsemu.model.launch_shape import configure

PTX = Path(__file__).parents[1] / "ptx" / "cooperative.sm_90.ptx"
ENGINES = pytest.mark.parametrize("engine", ["vm", "reference"])


@cuda.jit
def stencil(a, b, steps):
    grid = cuda.cg.this_grid()
    i = cuda.grid(1)
    for _ in range(steps):
        if 0 < i < a.size - 1:
            b[i] = a[i - 1] + a[i] + a[i + 1]
        grid.sync()
        if 0 < i < a.size - 1:
            a[i] = b[i]
        grid.sync()


@cuda.jit
def one_sync_a_step(a, b, steps):
    grid = cuda.cg.this_grid()
    i = cuda.grid(1)
    for _ in range(steps):
        if 0 < i < a.size - 1:
            b[i] = a[i - 1] + a[i] + a[i + 1]
        grid.sync()
        if 0 < i < a.size - 1:
            a[i] = b[i]


@cuda.jit
def barrier_of_the_cta_alone(a, b, steps):
    i = cuda.grid(1)
    a[i] = i
    cuda.cg.this_grid().sync()
    b[i] = a[(i + cuda.blockDim.x) % a.size]
    cuda.syncthreads()
    a[i] = 0


@cuda.jit
def a_cta_leaves(a, b, steps):
    if cuda.blockIdx.x != 1:
        cuda.cg.this_grid().sync()


@cuda.jit
def thread_0_leaves(a, b, steps):
    if cuda.grid(1) != 0:
        cuda.cg.this_grid().sync()


@cuda.jit
def one_more_round(a, b, steps):
    for _ in range(steps + cuda.blockIdx.x // 2):
        cuda.cg.this_grid().sync()


def arrays(ctas=3, threads=64):
    a = np.arange(ctas * threads, dtype=np.float32)
    return a, np.zeros_like(a), 2


def codes(report):
    return {finding.code for finding in report.findings}


def after(a, steps):
    for _ in range(steps):
        a[1:-1] = a[:-2] + a[1:-1] + a[2:]
    return a


@ENGINES
def test_a_stencil_of_a_whole_grid_is_verified(engine):
    a, b, steps = arrays()
    report = wsemu.check(stencil, 3, 64, (a, b, steps), engine=engine)
    assert report.verdict == "verified"
    assert a.tolist() == after(arrays()[0], steps).tolist()


@ENGINES
@pytest.mark.parametrize("kernel", [one_sync_a_step, barrier_of_the_cta_alone])
def test_a_missing_barrier_of_the_grid_is_a_race_between_ctas(kernel, engine):
    report = wsemu.check(kernel, 3, 64, arrays(), engine=engine)
    assert report.verdict == "failed"
    assert "race" in codes(report)


def test_the_help_for_a_race_between_ctas_that_meet_names_their_barrier():
    report = wsemu.check(barrier_of_the_cta_alone, 2, 32, arrays(2, 32), engine="vm")
    assert "cuda.cg.this_grid().sync()" in str(report.findings[0].help)


@ENGINES
@pytest.mark.parametrize(
    ("kernel", "missing"),
    [(a_cta_leaves, "(1, 0, 0) has ended"), (thread_0_leaves, "(0, 0, 0)"), (one_more_round, "(0, 0, 0) has ended")],
)
def test_a_cta_that_does_not_come_is_a_deadlock_that_names_it(kernel, missing, engine):
    report = wsemu.check(kernel, 3, 64, arrays(), engine=engine)
    assert codes(report) == {"deadlock"}
    message = report.findings[0].message
    assert "waits for the barrier of the grid" in message
    assert "of 3 CTAs have arrived" in message
    assert missing in message


def test_both_engines_say_the_same_of_a_grid():
    for kernel in (one_sync_a_step, barrier_of_the_cta_alone, a_cta_leaves, thread_0_leaves, one_more_round):
        found = [wsemu.check(kernel, 3, 64, arrays(), engine=engine).findings for engine in ("vm", "reference")]
        assert [str(f) for f in found[0]] == [str(f) for f in found[1]]


def test_a_race_of_a_grid_replays():
    for kernel, code in ((barrier_of_the_cta_alone, "race"), (a_cta_leaves, "deadlock")):
        bound, _ = bind_launch(kernel, configure(3, 64), arrays(), settings.current())
        report = wsemu.check(kernel, 3, 64, arrays())
        found = next(f for f in report.findings if f.code == code)
        assert follow(bound, code, found.steps).steps == found.steps


@ENGINES
def test_an_ordinary_launch_runs_its_ctas_one_by_one(engine):
    report = wsemu.check(a_cta_leaves, 1, 64, arrays(1), engine=engine)
    assert report.verdict == "verified"


# -- wide groups -------------------------------------------------------------------------------------------------------


def test_a_machine_is_as_wide_as_its_group():
    widths = [tables.width_of(Grouping((n, 1, 1), (n, 1, 1)), 2) for n in (1, 16, 17, 128, 129, 512)]
    assert widths == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize(("kernel", "verdict"), [(stencil, "verified"), (barrier_of_the_cta_alone, "failed")])
def test_more_than_32_warps_meet(kernel, verdict):
    report = wsemu.check(kernel, 20, 64, arrays(20))
    assert report.verdict == verdict
    assert codes(report) <= {"race", "intra-warp-race"}


def test_both_engines_say_the_same_of_a_wide_group():
    found = [wsemu.check(barrier_of_the_cta_alone, 18, 64, arrays(18), engine=e).findings for e in ("vm", "reference")]
    assert [str(f) for f in found[0]] == [str(f) for f in found[1]]


def test_more_than_1024_warps_are_not_modelled():
    report = wsemu.check(stencil, 513, 64, arrays(513))
    assert report.verdict == "incomplete"
    assert "513 CTAs of 2 warps at once: more than 1,024 warps that meet are not modelled" in report.notes[0]


def test_the_reference_engine_refuses_groups_that_are_too_wide_for_it():
    report = wsemu.check(stencil, 65, 64, arrays(65), engine="reference")
    assert report.verdict == "incomplete"
    assert "130 warps at once on the reference engine: at most 128 that meet" in report.notes[0]


# -- PTX of CUDA C++ ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def module():
    return wsemu.load_ptx(PTX)


@ENGINES
def test_the_barrier_that_nvcc_makes_is_that_of_the_grid(module, engine):
    a, b, _ = arrays()
    report = wsemu.check(module["stencil"], 3, 64, (a, b, a.size, 2), engine=engine)
    assert report.verdict == "verified"
    wanted = np.zeros_like(a)
    wanted[1:-1] = 3 * np.arange(a.size, dtype=np.float32)[1:-1]
    assert b.tolist() == wanted.tolist()


@ENGINES
def test_without_the_barrier_ptx_races_between_ctas(module, engine):
    a, b, _ = arrays()
    report = wsemu.check(module["unsynchronised"], 3, 64, (a, b, a.size), engine=engine)
    assert codes(report) == {"race"}


@ENGINES
def test_a_cta_that_leaves_is_a_deadlock_in_ptx(module, engine):
    report = wsemu.check(module["leaves"], 3, 64, (arrays()[0], 1), engine=engine)
    assert codes(report) == {"deadlock"}
    assert "2 of 3 CTAs have arrived: (2, 0, 0) has ended" in report.findings[0].message


@ENGINES
def test_an_arrive_and_a_wait_of_the_grid_lie_apart(module, engine):
    a, out = np.zeros(192, np.int32), np.zeros(192, np.int32)
    report = wsemu.check(module["split"], 3, 64, (a, out), engine=engine)
    assert report.verdict == "verified"
    i = np.arange(192)
    assert out.tolist() == (2 * i + (i + 64) % 192 + 1).tolist()


@ENGINES
def test_a_tile_of_two_warps_meets_in_memory_of_the_system(module, engine):
    a, out = np.zeros(64, np.int32), np.zeros(64, np.int32)
    report = wsemu.check(module["tiles"], 1, 64, (a, out), engine=engine)
    assert report.verdict == "verified", report.notes
    assert out.tolist() == ((np.arange(64) + 40) % 64).tolist()


CALLS = """
.version 8.0
.target sm_90
.address_size 64
.extern .func (.param .b64 result) cudaCGGetIntrinsicHandle (.param .b32 scope);
.extern .func (.param .b32 result) cudaCGSynchronize (.param .b64 handle, .param .b32 flags);
.visible .entry meets(.param .u64 p)
{
  .reg .b64 %rd<7>; .reg .b32 %r<8>;
  ld.param.u64 %rd1, [p];
  { .param .b32 p0; st.param.b32 [p0], 1; .param .b64 r0; call.uni (r0), cudaCGGetIntrinsicHandle, (p0);
    ld.param.b64 %rd2, [r0]; }
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.s32 %r4, %r1, %r2, %r3;
  mul.wide.u32 %rd3, %r4, 4; add.s64 %rd4, %rd1, %rd3;
  st.global.u32 [%rd4], %r4;
  { .param .b64 p0; .param .b32 p1; st.param.b64 [p0], %rd2; st.param.b32 [p1], 0; .param .b32 r0;
    call.uni (r0), cudaCGSynchronize, (p0, p1); ld.param.b32 %r6, [r0]; }
  xor.b32 %r5, %r4, 64; mul.wide.u32 %rd5, %r5, 4; add.s64 %rd6, %rd1, %rd5; ld.global.u32 %r7, [%rd6];
  add.u32 %r7, %r7, %r6;
  st.global.u32 [%rd4+512], %r7;
  ret;
}
"""


@ENGINES
def test_the_runtimes_call_that_numba_cuda_makes_is_the_barrier_of_the_grid(tmp_path, engine):
    path = tmp_path / "meets.ptx"
    path.write_text(CALLS)
    x = np.zeros(256, np.int32)
    report = wsemu.check(wsemu.load_ptx(path)["meets"], 2, 64, (x,), engine=engine)
    assert report.verdict == "verified"
    assert x[128:].tolist() == [i ^ 64 for i in range(128)]


def test_a_kernel_that_meets_in_clusters_too_is_refused_by_name():
    report = wsemu.check(stencil, 4, 32, arrays(4, 32), cluster=2)
    assert report.verdict == "incomplete"
    assert "cooperative launches in clusters are not modelled" in report.notes[0]
    lines, first = inspect.getsourcelines(stencil.py_func)
    meets = first + next(n for n, text in enumerate(lines) if "sync()" in text)
    assert f":{meets}: " in report.notes[0]
    assert "help: launch it without clusters" in report.notes[0]
