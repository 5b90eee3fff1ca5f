"""Warnings of what rests on convention: named beside what is proven, errors with `strict`, with a proven cure."""

from __future__ import annotations

import numpy as np
import pytest

import wsemu
from wsemu import cuda, ptx
from wsemu.model.codes import CODES
from wsemu.model.settings import Engine

X = np.arange(64, dtype=np.float32)


@cuda.jit
def filled_by_one_lane(x, y):
    slot = cuda.shared.array(1, np.float32)
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
        for i in range(4):
            ptx.mbarrier_wait_parity(full, 0, i & 1)
            y[i] = slot[0]
            ptx.mbarrier_arrive(empty, 0)


@cuda.jit
def waits_apart(x, y):
    """As `filled_by_one_lane`, but the lane that fills waits in a branch of its own."""
    slot = cuda.shared.array(1, np.float32)
    full = cuda.shared.array(1, np.uint64)
    empty = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(full, 0, 1)
        ptx.mbarrier_init(empty, 0, 1)
    cuda.syncthreads()
    if t < 32:
        for i in range(4):
            if t == 0:
                ptx.mbarrier_wait_parity(empty, 0, i & 1 ^ 1)
                slot[0] = x[i]
                ptx.mbarrier_arrive(full, 0)
            else:
                ptx.mbarrier_wait_parity(empty, 0, i & 1 ^ 1)
    elif t == 32:
        for i in range(4):
            ptx.mbarrier_wait_parity(full, 0, i & 1)
            y[i] = slot[0]
            ptx.mbarrier_arrive(empty, 0)


@cuda.jit
def loaded_without_a_fence(x, y):
    tile = cuda.shared.array(64, np.float32, 16)
    full = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(full, 0, 1)
        ptx.mbarrier_arrive_expect_tx(full, 0, 256)
        ptx.cp_async_bulk_global_to_shared(tile, 0, x, 0, 256, full, 0)
    cuda.syncthreads()
    ptx.mbarrier_wait_parity(full, 0, 0)
    y[t] = tile[t]


@cuda.jit
def scaled(x, y):
    scale = cuda.shared.array(1, np.float32)
    t = cuda.threadIdx.x
    scale[0] = x[5]
    cuda.syncthreads()
    y[t] = x[t] * scale[0]


@cuda.jit
def same_bulk_store(x, y):
    """One lane of each warp stores the same tile to the same place."""
    tile = cuda.shared.array(64, np.float32, 16)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    ptx.fence_proxy_async()
    cuda.syncthreads()
    if t % 32 == 0:
        ptx.cp_async_bulk_shared_to_global(y, 0, tile, 0, 256)
        ptx.cp_async_bulk_commit_group()
        ptx.cp_async_bulk_wait_group(0)


@cuda.jit
def stored_twice(x, y):
    tile = cuda.shared.array(64, np.float32, 16)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    ptx.fence_proxy_async()
    cuda.syncthreads()
    if t == 32:
        ptx.cp_async_bulk_shared_to_global(y, 0, tile, 0, 256)
        ptx.cp_async_bulk_shared_to_global(y, 0, tile, 0, 256)
        ptx.cp_async_bulk_commit_group()
        ptx.cp_async_bulk_wait_group(0)


@cuda.jit
def replicated(x, y):
    """Two warps store what is one value only if `x` repeats."""
    y[cuda.threadIdx.x % 32] = x[cuda.threadIdx.x]


@cuda.jit
def tickets(counter, y):
    """Two warps store the same in this order of the atomics, not in the other one."""
    t = cuda.threadIdx.x
    if t == 0:
        y[0] = cuda.atomic.add(counter, 0, 1)
    elif t == 32:
        y[0] = cuda.atomic.add(counter, 0, 2) >> 1


@cuda.jit
def counted_besides(counter, y):
    t = cuda.threadIdx.x
    if t % 32 == 0:
        cuda.atomic.add(counter, 0, 1)
        y[0] = 7


WARNED = {
    "lane-lag": (filled_by_one_lane, "if lanes that wait together go on together, but 1 lane-lag"),
    "mbarrier-unfenced": (loaded_without_a_fence, "phases and copies included, but 1 mbarrier-unfenced"),
    "same-value-store": (scaled, "if stores of one value to one place leave that value, but 1 same-value-store"),
}


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize("code", WARNED)
def test_the_verdict_names_what_it_rests_on(code: str, engine: Engine) -> None:
    kernel, proof = WARNED[code]
    report = wsemu.check(kernel, 1, 64, (X, np.zeros_like(X)), engine=engine)
    assert (report.verdict, [f.code for f in report.findings], report.errors) == ("verified", [code], [])
    assert report.proof.endswith(proof)
    assert CODES[code].strict


@pytest.mark.parametrize("code", WARNED)
def test_strict_makes_it_an_error(code: str) -> None:
    report = wsemu.check(WARNED[code][0], 1, 64, (X, np.zeros_like(X)), strict=True)
    assert (report.verdict, [f.code for f in report.errors]) == ("failed", [code])


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_one_bulk_store_by_several_warps(engine: Engine) -> None:
    report = wsemu.check(same_bulk_store, 1, 64, (X, np.zeros_like(X)), engine=engine)
    assert (report.verdict, [f.code for f in report.findings]) == ("verified", ["same-value-store"])


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_one_lane_that_stores_the_same_bytes_twice_is_not_called_lanes(engine: Engine) -> None:
    report = wsemu.check(stored_twice, 1, 64, (X, np.zeros_like(X)), engine=engine)
    assert (report.verdict, [f.code for f in report.findings]) == ("verified", ["same-value-store"])
    assert report.findings[0].message.startswith("warp 1 writes the same value twice to `y[0]`, and nothing orders")


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_values_that_depend_on_the_order_of_atomics_are_equal_by_chance(engine: Engine) -> None:
    arguments = np.zeros(1, np.int32), np.zeros(1, np.int32)
    report = wsemu.check(tickets, 1, 64, arguments, engine=engine)
    assert (report.verdict, [f.code for f in report.findings]) == ("failed", ["race"])
    report = wsemu.check(counted_besides, 1, 64, arguments, engine=engine)
    assert (report.verdict, [f.code for f in report.findings]) == ("verified", ["same-value-store"])


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_lanes_that_wait_in_branches_of_their_own_are_not_taken_together(engine: Engine) -> None:
    report = wsemu.check(waits_apart, 1, 64, (X, np.zeros_like(X)), engine=engine)
    assert report.verdict == "failed"
    assert "phase-alias" in [finding.code for finding in report.errors]


@cuda.jit
def published_by_a_fence_each(x, y):
    tile = cuda.shared.array(64, np.float32, 16)
    full = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t < 2:
        ptx.mbarrier_init(full, 0, 1)
        if t == 1:
            ptx.fence_proxy_async()
        cuda.syncwarp(3)
        ptx.fence_mbarrier_init()
        if t == 0:
            ptx.mbarrier_arrive_expect_tx(full, 0, 256)
            ptx.cp_async_bulk_global_to_shared(tile, 0, x, 0, 256, full, 0)
            ptx.mbarrier_wait_parity(full, 0, 0)
            y[0] = tile[0]


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_each_lane_that_initializes_may_have_a_fence_of_its_own(engine: Engine) -> None:
    report = wsemu.check(published_by_a_fence_each, 1, 32, (X, np.zeros(1, "f4")), engine=engine)
    assert [finding.code for finding in report.findings] == ["same-value-init"]


def test_in_lockstep_no_lane_lags() -> None:
    report = wsemu.check(filled_by_one_lane, 1, 64, (X, np.zeros_like(X)), lockstep=True)
    assert (report.verdict, report.findings) == ("verified", [])


def test_other_contents_may_have_other_values() -> None:
    report = wsemu.check(replicated, 1, 64, (np.ones(64, np.float32), np.zeros(64, np.float32)), every=True)
    assert report.verdict == "verified"
    assert any("several lanes store depends on the contents of `x`" in note for note in report.notes)


@cuda.jit
def tickets_capped(x, y):
    """Warps 1 and 2 store one value in the initial run, in which warp 0 comes first."""
    t = cuda.threadIdx.x
    if t % 32 == 0:
        ticket = cuda.atomic.add(y, 1, 1.0)
        if t > 0:
            y[0] = min(ticket, 1.0)


@cuda.jit
def votes_counted(x, y):
    """As `tickets_capped`, through memory."""
    last = cuda.shared.array(3, np.float32)
    t = cuda.threadIdx.x
    if t % 32 == 0:
        last[t // 32] = min(cuda.atomic.add(y, 1, 1.0), 1.0)
    cuda.syncthreads()
    if t == 32 or t == 64:
        y[0] = last[t // 32]


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize("kernel", [tickets_capped, votes_counted])
def test_values_that_the_order_of_atomics_decides_are_no_one_value(kernel, engine: Engine) -> None:
    report = wsemu.check(kernel, 1, 96, (X, np.zeros(64, np.float32)), engine=engine)
    assert (report.verdict, [f.code for f in report.findings]) == ("failed", ["race"])


@cuda.jit
def bulk_store_after_rounds(x, y, rounds):
    """As `same_bulk_store`, of two warps, in a launch as long as one likes."""
    tile = cuda.shared.array(64, np.float32, 16)
    t = cuda.threadIdx.x
    total = np.float32(0)
    for i in range(rounds):
        total += x[i % 4]
    tile[t] = total
    ptx.fence_proxy_async()
    cuda.syncthreads()
    if t % 32 == 0:
        ptx.cp_async_bulk_shared_to_global(y, 0, tile, 0, 256)
        ptx.cp_async_bulk_commit_group()
        ptx.cp_async_bulk_wait_group(0)


def test_a_race_of_a_long_launch_tells_that_values_are_not_compared() -> None:
    report = wsemu.check(bulk_store_after_rounds, 1, 64, (X, np.zeros_like(X), 300))
    assert [finding.code for finding in report.errors] == ["race"]
    assert any("values are not compared in a launch of" in note for note in report.errors[0].notes)
    report = wsemu.check(bulk_store_after_rounds, 1, 64, (X, np.zeros_like(X), 1))
    assert (report.verdict, [finding.code for finding in report.findings]) == ("verified", ["same-value-store"])
    report = wsemu.check(replicated, 1, 64, (X, np.zeros(64, np.float32)))
    assert [finding.code for finding in report.errors] == ["race"]
    assert not any("is not compared" in note for note in report.errors[0].notes)


UNROLLED = """.version 8.0
.target sm_90
.address_size 64
.file 1 "not_there.cu"
.visible .entry k(.param .u64 out)
{
    .reg .b32 %v; .reg .b64 %o;
    ld.param.u64 %o, [out];
    .loc 1 4 5
    mov.u32 %v, 7; st.global.u32 [%o], %v;
    .loc 1 4 5
    st.global.u32 [%o+4], %v;
    .loc 1 5 5
    st.global.u32 [%o+8], %v;
    ret;
}
"""
"""a loop that the compiler has unrolled, and another line, of a source that is not there"""


def test_copies_of_a_line_are_one_finding_where_the_source_is_not_shown() -> None:
    report = wsemu.check(wsemu.load_ptx(UNROLLED).only(), 2, 1, (np.zeros(3, np.uint32),))
    assert [(finding.code, finding.count) for finding in report.findings] == [("same-value-store", n) for n in (2, 1)]
