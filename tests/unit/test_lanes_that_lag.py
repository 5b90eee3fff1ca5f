"""Lanes that lag behind their own instruction, in launches that fail otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wsemu
from wsemu import cuda, ptx
from wsemu.model.settings import Engine


@cuda.jit
def filled_by_one_lane(x: Any, y: Any, z: Any) -> None:
    slot = cuda.shared.array(4, np.float32, 16)
    full = cuda.shared.array(1, np.uint64)
    empty = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(full, 0, 1)
        ptx.mbarrier_init(empty, 0, 1)
    cuda.syncthreads()
    if t < 32:
        for i in range(4):
            ptx.mbarrier_wait_parity(empty, 0, i & 1 ^ 1)
            if t == 0:
                slot[0] = x[i]
                ptx.mbarrier_arrive(full, 0)
    elif t == 32:
        slot[1] = slot[2] = slot[3] = 0
        for i in range(4):
            ptx.mbarrier_wait_parity(full, 0, i & 1)
            y[i] = slot[0]
            if i == 3:
                ptx.fence_proxy_async()
                ptx.cp_async_bulk_shared_to_global(z, 0, slot, 0, 16)
                ptx.cp_async_bulk_commit_group()
            ptx.mbarrier_arrive(empty, 0)


def test_a_store_that_nobody_waits_for_hides_no_lag() -> None:
    report = wsemu.check(filled_by_one_lane, 1, 64, [np.ones(4, np.float32) for _ in range(3)])
    assert report.verdict == "verified"
    assert [f.code for f in report.findings if f.severity == "error"] == []
    assert {f.code for f in report.findings} >= {"store-outlives-cta", "lane-lag"}


@cuda.jit
def completed_by_the_other_lanes(x: Any, y: Any) -> None:
    """A ring whose filling lane goes on at once; beside it a lane waits for what others of its warp do next."""
    slot = cuda.shared.array(1, np.float32)
    full = cuda.shared.array(1, np.uint64)
    empty = cuda.shared.array(1, np.uint64)
    go = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(full, 0, 1)
        ptx.mbarrier_init(empty, 0, 1)
        ptx.mbarrier_init(go, 0, 31)
    cuda.syncthreads()
    if t < 32:
        for i in range(4):
            ptx.mbarrier_wait_parity(empty, 0, i & 1 ^ 1)
            if t == 0:
                slot[0] = x[i]
                ptx.mbarrier_arrive(full, 0)
    elif t == 32:
        for i in range(4):
            ptx.mbarrier_wait_parity(full, 0, i & 1)
            y[i] = slot[0]
            ptx.mbarrier_arrive(empty, 0)
    elif t >= 64:
        if t == 64:
            ptx.mbarrier_wait_parity(go, 0, 0)
        ptx.mbarrier_arrive(go, 0)


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_no_lag_where_lanes_that_stay_together_wait_for_each_other(engine: Engine) -> None:
    arrays = np.ones(4, np.float32), np.zeros(4, np.float32)
    report = wsemu.check(completed_by_the_other_lanes, 1, 96, arrays, engine=engine)
    assert report.verdict == "failed"
    assert {finding.code for finding in report.errors} == {"phase-alias"}
    assert "lane-lag" not in {finding.code for finding in report.findings}
