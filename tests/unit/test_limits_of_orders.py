"""Rows of docs/limits.md about launches that atomics steer, and about costs that are not counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wsemu
from wsemu import cuda, ptx

ENGINES = pytest.mark.parametrize("engine", ["vm", "reference"])


@cuda.jit
def handed_on_beside_an_mbarrier(x: Any, flag: Any, y: Any) -> None:
    bar = cuda.shared.array(1, np.uint64)
    seen = cuda.shared.array(1, np.int32)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(bar, 0, 64)
        seen[0] = 0
    cuda.syncthreads()
    ptx.mbarrier_arrive(bar, 0)
    ptx.mbarrier_wait_parity(bar, 0, 0)
    if t == 0:
        x[0] = 1
        cuda.threadfence()
        cuda.atomic.exch(seen, 0, 1)
    if t == 32:
        while cuda.atomic.add(seen, 0, 0) == 0:
            pass
        cuda.threadfence()
        y[0] = x[0]


@ENGINES
def test_fences_and_atomics_beside_mbarriers_are_undecided(engine: Any) -> None:
    args = np.zeros(1, np.int32), np.zeros(1, np.int32), np.zeros(1, np.int32)
    report = wsemu.check(handed_on_beside_an_mbarrier, 1, 64, args, engine=engine)
    assert (report.verdict, report.reasons) == ("incomplete", ["atomics"])


@cuda.jit
def invalidated_after_a_flag(flag: Any) -> None:
    bar = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(bar, 0, 1)
    cuda.syncthreads()
    if t == 32:
        ptx.mbarrier_arrive(bar, 0)
        cuda.threadfence()
        cuda.atomic.exch(flag, 0, 1)
    if t == 0:
        while cuda.atomic.add(flag, 0, 0) == 0:
            pass
        cuda.threadfence()
        ptx.mbarrier_inval(bar, 0)


@ENGINES
def test_an_invalidation_that_only_atomics_order_is_undecided(engine: Any) -> None:
    report = wsemu.check(invalidated_after_a_flag, 1, 64, (np.zeros(1, np.int32),), engine=engine)
    assert report.verdict == "incomplete"


@cuda.jit
def steered_and_uninitialized(count: Any, y: Any) -> None:
    left = cuda.shared.array(32, np.int32)
    t = cuda.threadIdx.x
    if t == 0 and cuda.atomic.add(count, 0, 1) == 0:
        y[1] = 1
    if t == 1:
        y[0] = left[1] * 0


@ENGINES
def test_a_steered_launch_that_reads_what_nobody_wrote_is_never_verified(engine: Any) -> None:
    args = np.zeros(1, np.int32), np.zeros(2, np.int32)
    assert wsemu.check(steered_and_uninitialized, 2, 32, args, engine=engine).verdict != "verified"


@cuda.jit
def reads_a_column_of_the_other_cta(y: Any) -> None:
    tile = cuda.shared.array((32, 32), np.int32)
    t = cuda.threadIdx.x
    for i in range(32):
        tile[i, t] = i
    ptx.cluster_sync()
    y[32 * cuda.blockIdx.x + t] = ptx.mapa(tile, 1 - ptx.cluster_ctarank())[t, 0]
    ptx.cluster_sync()


@cuda.jit
def reads_a_column(y: Any) -> None:
    tile = cuda.shared.array((32, 32), np.int32)
    t = cuda.threadIdx.x
    for i in range(32):
        tile[i, t] = i
    cuda.syncthreads()
    y[32 * cuda.blockIdx.x + t] = tile[t, 0]


@ENGINES
def test_accesses_to_the_memory_of_another_cta_have_no_costs(engine: Any) -> None:
    far = wsemu.check(reads_a_column_of_the_other_cta, 2, 32, (np.zeros(64, np.int32),), cluster=2, engine=engine)
    near = wsemu.check(reads_a_column, 2, 32, (np.zeros(64, np.int32),), engine=engine)
    assert "bank-conflict" in {finding.code for finding in near.findings}
    assert "bank-conflict" not in {finding.code for finding in far.findings}
    assert far.verdict == near.verdict == "verified"


@cuda.jit
def copies_alone(x: Any, y: Any) -> None:
    tile = cuda.shared.array(32, np.float32, 16)
    bar = cuda.shared.array(1, np.uint64)
    if cuda.threadIdx.x == 0:
        ptx.mbarrier_init(bar, 0, 1)
        ptx.fence_proxy_async()
        ptx.mbarrier_arrive_expect_tx(bar, 0, 128)
        ptx.cp_async_bulk_global_to_shared(tile, 0, x, 0, 128, bar, 0)
        ptx.mbarrier_wait_parity(bar, 0, 0)
        ptx.cp_async_bulk_shared_to_global(y, 0, tile, 0, 128)
        ptx.cp_async_bulk_commit_group()
        ptx.cp_async_bulk_wait_group(0)


@ENGINES
def test_copies_have_no_sectors(engine: Any) -> None:
    args = np.zeros(32, np.float32), np.zeros(32, np.float32)
    report = wsemu.check(copies_alone, 1, 32, args, engine=engine)
    assert report.verdict == "verified"
    assert report.counters.global_load_sectors == report.counters.global_store_sectors == 0
