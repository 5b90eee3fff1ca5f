"""Launches that atomics steer and whose copies go on by themselves: verified where they are right, and found broken in
whatever order of atomics they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wsemu
from tests.unit import steering_copies as kernels
from tests.unit.steering_kernels import variant
from wsemu import cuda, ptx

ENGINES = ("vm", "reference")
KERNELS = ("drawn_tiles", "doubled_in_place", "last_of_parts", "first_come_waits", "summed_tiles")
BROKEN = [
    ("drawn_tiles", {"EMPTY": False}, "phase-alias"),
    ("drawn_tiles", {"OFF": 1}, "out-of-bounds"),
    ("drawn_tiles", {"SPREAD": 2}, "race"),
    ("doubled_in_place", {"WAITS": False}, "race"),
    ("doubled_in_place", {"FENCE_PROXY": False}, "proxy"),
    ("doubled_in_place", {"SPREAD": 2}, "race"),
    ("last_of_parts", {"FENCE_BEFORE": False}, "race"),
    ("last_of_parts", {"FENCE_AFTER": False}, "race"),
    ("last_of_parts", {"SYNCS": False}, "race"),
    ("last_of_parts", {"EARLY": True}, "race"),
    ("last_of_parts", {"OFF": 1}, "race"),
    ("first_come_waits", {"WAITS": False}, "deadlock"),
    ("summed_tiles", {"WAITS": False}, "race"),
    ("summed_tiles", {"FENCE_PROXY": False}, "proxy"),
    ("summed_tiles", {"PLAIN": True}, "race"),
]
"""kernel, what is changed in it, and a code that is found then"""


def report(name: str, engine: Any = "vm", ctas: int = 2, tiles: int = 2, **parts: Any) -> wsemu.Report:
    kernel = variant(getattr(kernels, name), **parts)
    return wsemu.check(kernel, ctas, 64, kernels.arguments(name, ctas, tiles), engine=engine)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", KERNELS)
def test_a_correct_kernel_is_verified(name: str, engine: str) -> None:
    found = report(name, engine)
    assert found.verdict == "verified", found.notes
    assert "phases and copies included, in all orders of the atomics that steer it" in found.proof


@pytest.mark.parametrize(("name", "parts", "code"), BROKEN)
def test_what_is_broken_is_found(name: str, parts: dict[str, Any], code: str) -> None:
    found = report(name, **parts)
    assert found.verdict == "failed", found.notes
    assert code in {finding.code for finding in found.findings}


@pytest.mark.parametrize(("name", "parts", "code"), [
    ("doubled_in_place", {"SPREAD": 2}, "race"), ("last_of_parts", {"EARLY": True}, "race"),
    ("first_come_waits", {"WAITS": False}, "deadlock"),
])  # fmt: skip
def test_both_engines_say_the_same(name: str, parts: dict[str, Any], code: str) -> None:
    one, other = (report(name, engine, **parts).findings for engine in ENGINES)
    assert [finding.model_dump() for finding in one] == [finding.model_dump() for finding in other]
    assert code in {finding.code for finding in one}


def test_whoever_draws_which_tile_states_come_together() -> None:
    """A CTA that has drawn as many tiles is where another one is that has drawn others: 5 tiles go to 3 CTAs in 243
    ways, and few states."""
    found = report("drawn_tiles", ctas=3, tiles=5)
    assert found.verdict == "verified", found.notes


def test_what_lasts_in_shared_memory_tells_states_apart() -> None:
    """A tile number that was left in shared memory before the thread stands, and is read behind that."""
    assert report("doubled_twice").verdict == "verified"
    assert "race" in {finding.code for finding in report("doubled_twice", SPREAD=2).findings}


@cuda.jit
def first_or_second(count, out, dangles):
    """Who draws 1 as CTA 0 reads what another warp of it stores; CTAs may leave an arrival behind."""
    s = cuda.shared.array(4, np.int32)
    bar = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(bar, 0, 64)
        s[0] = cuda.atomic.add(count, 0, 1)
    cuda.syncthreads()
    if dangles and t < 32:
        ptx.mbarrier_arrive(bar, 0)
    if s[0] == 1 and cuda.blockIdx.x == 0:
        if t == 0:
            s[1] = 5
        if t == 32:
            out[0] = s[1]


@pytest.mark.parametrize("dangles", [0, 1])
@pytest.mark.parametrize("engine", ENGINES)
def test_each_history_is_judged_from_the_arrays_as_they_were(engine: Any, dangles: int) -> None:
    """Tickets count from what the arrays held; what is a warning in one order hides no error in another."""
    arguments = np.zeros(1, np.int32), np.zeros(1, np.int32), dangles
    found = wsemu.check(first_or_second, 2, 64, arguments, engine=engine)
    assert "race" in {finding.code for finding in found.findings}, found.notes


@cuda.jit
def told_by_a_flag(flag, x, y, writes_on):
    """CTA 1 copies what CTA 0 has told it of; CTA 0 may write there once more."""
    tile = cuda.shared.array(32, np.int32, 16)
    bar = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if cuda.blockIdx.x == 0:
        x[t] = t
        ptx.fence_proxy_async()
        cuda.syncthreads()
        if t == 0:
            cuda.threadfence()
            cuda.atomic.exch(flag, 0, 1)
            if writes_on:
                x[5] = 7
    elif t == 0:
        while cuda.atomic.add(flag, 0, 0) == 0:
            pass
        cuda.threadfence()
        ptx.fence_proxy_async()
        ptx.mbarrier_init(bar, 0, 1)
        ptx.fence_mbarrier_init()
        ptx.mbarrier_arrive_expect_tx(bar, 0, 128)
        ptx.cp_async_bulk_global_to_shared(tile, 0, x, 0, 128, bar, 0)
        ptx.mbarrier_wait_parity(bar, 0, 0)
        y[0] = tile[5]


@pytest.mark.parametrize(("writes_on", "verdict"), [(0, "incomplete"), (1, "failed")])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_copy_behind_what_an_atomic_told_of_is_no_race(engine: Any, writes_on: int, verdict: str) -> None:
    """Whether a proxy fence lies between is not followed across CTAs."""
    arguments = np.zeros(1, np.int32), np.zeros(32, np.int32), np.zeros(1, np.int32), writes_on
    found = wsemu.check(told_by_a_flag, 2, 32, arguments, engine=engine)
    assert found.verdict == verdict, found.notes
    assert {finding.code for finding in found.findings} == ({"race"} if writes_on else set())


@cuda.jit
def told_before_each_copy(flag, x, y, first):
    """Warp 1 copies twice what warp 0 has told it of; fences are there from copy `first` on."""
    tile = cuda.shared.array(32, np.int32, 16)
    bar = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(bar, 0, 1)
        ptx.fence_proxy_async()
    cuda.syncthreads()
    if t == 0:
        x[5] = 7
        ptx.fence_proxy_async()
        cuda.threadfence()
        cuda.atomic.exch(flag, 0, 1)
    elif t == 32:
        while cuda.atomic.add(flag, 0, 0) == 0:
            pass
        for k in range(2):
            if k >= first:
                cuda.threadfence()
                ptx.fence_proxy_async()
            ptx.mbarrier_arrive_expect_tx(bar, 0, 128)
            ptx.cp_async_bulk_global_to_shared(tile, 0, x, 0, 128, bar, 0)
            ptx.mbarrier_wait_parity(bar, 0, k & 1)
        y[0] = tile[5]


@pytest.mark.parametrize("first", [0, 1, 2])
@pytest.mark.parametrize("engine", ENGINES)
def test_every_copy_since_a_write_has_to_be_told_of_it(engine: Any, first: int) -> None:
    arguments = np.zeros(1, np.int32), np.zeros(32, np.int32), np.zeros(1, np.int32), first
    found = wsemu.check(told_before_each_copy, 1, 64, arguments, engine=engine)
    assert {finding.code for finding in found.findings} == ({"race"} if first else set()), found.notes


@cuda.jit
def to_and_fro(flag, x, y):
    """Warp 0 writes again when warp 1 has copied."""
    tile = cuda.shared.array(32, np.int32, 16)
    bar = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(bar, 0, 1)
        ptx.fence_proxy_async()
    cuda.syncthreads()
    if t == 0:
        for k in range(2):
            while cuda.atomic.add(flag, 0, 0) < 2 * k:
                pass
            cuda.threadfence()
            x[5] = 7 + k
            ptx.fence_proxy_async()
            cuda.threadfence()
            cuda.atomic.add(flag, 0, 1)
    elif t == 32:
        for k in range(2):
            while cuda.atomic.add(flag, 0, 0) < 2 * k + 1:
                pass
            cuda.threadfence()
            ptx.fence_proxy_async()
            ptx.mbarrier_arrive_expect_tx(bar, 0, 128)
            ptx.cp_async_bulk_global_to_shared(tile, 0, x, 0, 128, bar, 0)
            ptx.mbarrier_wait_parity(bar, 0, k & 1)
            cuda.threadfence()
            cuda.atomic.add(flag, 0, 1)
        y[0] = tile[5]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_copy_after_a_write_is_not_what_the_write_waits_for(engine: Any) -> None:
    arguments = np.zeros(1, np.int32), np.zeros(32, np.int32), np.zeros(1, np.int32)
    assert not wsemu.check(to_and_fro, 1, 64, arguments, engine=engine).findings


@cuda.jit
def added_to_what_is_copied(y):
    tile = cuda.shared.array(32, "int32", 16)
    t = cuda.threadIdx.x
    tile[t] = t
    ptx.fence_proxy_async()
    cuda.syncwarp()
    if t == 0:
        ptx.cp_async_bulk_shared_to_global(y, 0, tile, 0, 128)
        ptx.cp_async_bulk_commit_group()
        ptx.cp_async_bulk_wait_group_read(0)
    cuda.syncwarp()
    cuda.atomic.add(y, t, 1)
    if t == 0:
        ptx.cp_async_bulk_wait_group(0)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_copy_and_its_own_lane_are_not_two_lanes_that_may_meet(engine: Any) -> None:
    (found,) = wsemu.check(added_to_what_is_copied, 1, 32, (np.zeros(32, np.int32),), engine=engine).findings
    assert found.code == "race"
    assert "`ptx.cp_async_bulk_wait_group(0)` in the thread that issued (1)" in (found.help or "")


@cuda.jit
def stored_out_of_turn(count: Any, y: Any) -> None:
    """A CTA whose number is not the one that it draws leaves a store under way, which the initial run does not show."""
    part = cuda.shared.array(4, np.int32, 16)
    if cuda.threadIdx.x == 0:
        for k in range(4):
            part[k] = k
        ptx.fence_proxy_async()
        drawn = cuda.atomic.add(count, 0, 1)
        ptx.cp_async_bulk_shared_to_global(y, 4 * cuda.blockIdx.x, part, 0, 16)
        ptx.cp_async_bulk_commit_group()
        if drawn == cuda.blockIdx.x:
            ptx.cp_async_bulk_wait_group_read(0)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_warning_of_another_order_is_reported(engine: Any) -> None:
    for strict, verdict in ((False, "verified"), (True, "failed")):
        arguments = np.zeros(1, np.int32), np.zeros(8, np.int32)
        found = wsemu.check(stored_out_of_turn, 2, 32, arguments, engine=engine, strict=strict)
        assert (found.verdict, [finding.code for finding in found.findings]) == (verdict, ["store-outlives-cta"])
