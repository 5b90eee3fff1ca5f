"""CTAs of a group are alive at once: what a launch computes and what is found in it stay the same."""

from __future__ import annotations

import numpy as np
import pytest

import wsemu
from wsemu import cuda, ptx
from wsemu.launch.running import bind_launch
from wsemu.machine import run as machine
from wsemu.machine import tables, workers
from wsemu.model import settings
from wsemu.model.errors import UnsupportedError
from wsemu.model.grid import Grouping
from wsemu.model.launch_shape import configure
from wsemu.reference import run as reference


@cuda.jit
def reverse(x, y):
    s = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    s[t] = x[i]
    cuda.syncthreads()
    y[i] = s[63 - t]


@cuda.jit
def unsynchronised(x, y):
    s = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    s[t] = x[i]
    y[i] = s[63 - t]


@cuda.jit
def one_for_all(x, y):
    y[0] = x[cuda.blockIdx.x]


@cuda.jit
def half_meets(x, y):
    s = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    if t < 16:
        s[t] = x[i]
        ptx.bar_sync(1, 64)
        y[i] = s[t + 1]
    elif t >= 32:
        ptx.bar_sync(1, 64)
        y[i] = s[t - 32]


@cuda.jit
def too_long(x, y):
    s = cuda.shared.array(64, np.float32)
    i = cuda.grid(1)
    s[cuda.threadIdx.x + 2] = x[i]


@cuda.jit
def through_a_ring(x, y):
    s = cuda.shared.array(64, np.float32)
    full = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(full, 0, 1)
    cuda.syncthreads()
    if t == 0:
        ptx.mbarrier_arrive_expect_tx(full, 0, 256)
        ptx.cp_async_bulk_global_to_shared(s, 0, x, 64 * cuda.blockIdx.x, 256, full, 0)
    ptx.mbarrier_wait_parity(full, 0, 0)
    y[cuda.grid(1)] = s[63 - t]


@cuda.jit
def never_awaited(x, y):
    s = cuda.shared.array(64, np.float32)
    full = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(full, 0, 1)
        ptx.mbarrier_arrive_expect_tx(full, 0, 512)
        ptx.cp_async_bulk_global_to_shared(s, 0, x, 64 * cuda.blockIdx.x, 256, full, 0)


@cuda.jit
def stuck(x, y):
    if cuda.threadIdx.x < 32 and cuda.blockIdx.x == 2:
        ptx.bar_sync(1, 64)


KERNELS = [reverse, unsynchronised, one_for_all, half_meets, too_long, through_a_ring, never_awaited, stuck]
GROUPS = [(1, 1, 1), (2, 1, 1), (4, 1, 1)]


def outcome(kernel, engine, shape):
    x, y = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    bound, _ = bind_launch(kernel, configure(4, 64), (x, y), settings.current())
    engine = {"vm": machine, "reference": reference}[engine]
    found = engine.run(bound.program, (4, 1, 1), (64, 1, 1), bound.rows, bound.segments, shape=shape)
    causes = [(f.code, f.pc, f.other_pc, f.count) for f in found.findings]
    return found.status, found.cta, causes, found.warp_instructions, y.tolist()


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_a_grid_as_one_group_is_found_the_same_as_cta_by_cta(kernel, engine):
    alone = outcome(kernel, engine, GROUPS[0])
    for shape in GROUPS[1:]:
        together = outcome(kernel, engine, shape)
        if alone[0] == "deadlock":  # others have gone on
            assert together[:3] == alone[:3]
        else:
            assert together == alone


@pytest.mark.parametrize("grid", [(4, 6, 2), (8, 1, 1)])
def test_ctas_are_numbered_by_cluster_and_rank(grid):
    grouping = Grouping(grid, (2, 3, 1) if grid[1] > 1 else (4, 1, 1))
    at = [(group, member) for group in range(grouping.number) for member in range(grouping.members)]
    ctas = [grouping.cta(*place) for place in at]
    assert sorted(ctas) == list(range(grid[0] * grid[1] * grid[2]))
    assert [grouping.of(cta) for cta in ctas] == at


@cuda.jit
def where(out):
    x, y, z = cuda.blockIdx.x, cuda.blockIdx.y, cuda.blockIdx.z
    out[x, y, z] = 100 * x + 10 * y + z


@pytest.mark.parametrize("engine", [machine, reference], ids=["vm", "reference"])
def test_each_cta_of_a_group_has_its_own_index(engine):
    out = np.zeros((4, 6, 2), np.int32)
    bound, _ = bind_launch(where, configure((4, 6, 2), 1), (out,), settings.current())
    found = engine.run(bound.program, (4, 6, 2), (1, 1, 1), bound.rows, bound.segments, shape=(2, 3, 1))
    assert found.status == "done"
    assert (out == np.fromfunction(lambda x, y, z: 100 * x + 10 * y + z, out.shape)).all()


def test_a_group_that_is_too_wide_is_not_modelled():
    x = np.zeros(64 * 513, np.float32)
    bound, _ = bind_launch(reverse, configure(513, 64), (x, x.copy()), settings.current())
    with pytest.raises(UnsupportedError, match="513 CTAs of 2 warps at once: more than 1,024 warps"):
        machine.run(bound.program, (513, 1, 1), (64, 1, 1), bound.rows, bound.segments, shape=(513, 1, 1))


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
@pytest.mark.parametrize("width", [1])
def test_a_wide_machine_finds_what_a_narrow_one_does(kernel, width, monkeypatch):
    narrow = outcome(kernel, "vm", GROUPS[2])
    monkeypatch.setattr(workers, "_kept", {})
    monkeypatch.setattr(tables, "width_of", lambda groups, warps: width)
    assert outcome(kernel, "vm", GROUPS[2]) == narrow


@cuda.jit
def far_apart(x, rounds):
    b, t = cuda.blockIdx.x, cuda.threadIdx.x
    w, lane = t // 32, t % 32
    if b == 4 and w == 2:
        x[lane] = 1
    if b == 0:
        for _ in range(rounds):
            cuda.syncthreads()
        if w == 2:
            x[lane] = 2


@pytest.mark.parametrize("rounds", [1, 40])
def test_warps_whose_numbers_end_alike_are_told_apart(rounds):
    report = wsemu.check(far_apart, 8, 1024, [np.zeros(32, np.int32), rounds], cluster=8)
    assert report.verdict == "failed"
    assert "race" in {finding.code for finding in report.errors}


@cuda.jit
def none_is_reached(x, y, rounds):
    b, t = cuda.blockIdx.x, cuda.threadIdx.x
    for _ in range(rounds):
        cuda.syncthreads()
        if t < 16:
            cuda.atomic.add(x, t, 1)
        y[b * 1024 + t] = rounds


def test_a_cluster_without_asynchronous_operations_has_no_late_accesses():
    for rounds in (3, 40):
        args = [np.zeros(32, np.int32), np.zeros(8192, np.int32), rounds]
        report = wsemu.check(none_is_reached, 8, 1024, args, cluster=8)
        assert report.verdict == "verified"
        assert not report.findings
