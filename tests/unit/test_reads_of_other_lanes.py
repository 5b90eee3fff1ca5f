"""Reads by other lanes of the same warp, before another one of its reads: they race with a later store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import wsemu
from wsemu import cuda, ptx

if TYPE_CHECKING:
    from wsemu.model.settings import Engine

F32 = np.float32
ENGINES = pytest.mark.parametrize("engine", ["vm", "reference"])


@cuda.jit
def neighbours_then_own(x, y, meet):
    t = cuda.threadIdx.x
    total = x[(t + 1) % 32]
    total += x[(t + 1) % 32]
    cuda.threadfence_block()
    if meet:
        cuda.syncwarp()
    total += x[t]
    x[t] = 1.0
    y[t] = total


@cuda.jit
def one_word(x, y, meet):
    """Lane 3 reads a word, all other lanes after it, and lane 0 stores to it."""
    t = cuda.threadIdx.x
    total = F32(0)
    if t == 3:
        total += x[0]
        total += x[0]
    cuda.threadfence_block()
    if meet:
        cuda.syncwarp()
    if t == 0:
        total += x[0]
        x[0] = 1.0
    y[t] = total


@cuda.jit
def two_warps(x, y, meet):
    """Both warps read by other lanes; warp 0 hears of warp 1's reads by a flag, reads its own words and stores."""
    flag = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    lane = t % 32
    if t == 0:
        ptx.mbarrier_init(flag, 0, 32)
    cuda.syncthreads()
    total = x[(lane + 1) % 32]
    if t >= 32:
        ptx.mbarrier_arrive(flag, 0)
    else:
        ptx.mbarrier_wait_parity(flag, 0, 0)
        if meet:
            cuda.syncwarp()
        total += x[lane]
        x[lane] = 1.0
    y[t] = total


@ENGINES
@pytest.mark.parametrize("kernel", [neighbours_then_own, one_word])
@pytest.mark.parametrize("meet", [False, True])
def test_earlier_reads_by_other_lanes_count(kernel, meet: bool, engine: Engine) -> None:
    report = wsemu.check(kernel, 1, 32, (np.ones(32, F32), np.zeros(32, F32), meet), engine=engine)
    if meet:
        assert report.verdict == "verified"
    else:
        assert [finding.code for finding in report.errors] == ["intra-warp-race"]


@ENGINES
@pytest.mark.parametrize("meet", [False, True])
def test_reads_of_two_warps(meet: bool, engine: Engine) -> None:
    report = wsemu.check(two_warps, 1, 64, (np.ones(32, F32), np.zeros(64, F32), meet), engine=engine)
    if meet:
        assert report.verdict == "verified"
    else:
        assert [finding.code for finding in report.errors] == ["intra-warp-race"]
