"""Plain stores of one value by several warps, in launches of any size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wsemu
from wsemu import cuda, ptx
from wsemu.launch import same_values

ROUNDS = 8
X = np.arange(256, dtype=np.float32)


@pytest.fixture(autouse=True)
def _large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take each launch for one that is too large for the reference engine."""
    monkeypatch.setattr(same_values, "MOST", 0)


@cuda.jit
def scaled_in_rounds(x: Any, y: Any, rounds: int, odd_one: int) -> None:
    """All threads store one value a round, but for a warp in one round, where `odd_one` is one."""
    scale = cuda.shared.array(1, np.float32)
    t = cuda.threadIdx.x
    for i in range(rounds):
        cuda.syncthreads()
        scale[0] = x[i] if i != odd_one or t // 32 != 3 else x[i + 1]
        cuda.syncthreads()
        y[cuda.grid(1)] += x[t] * scale[0]


@cuda.jit
def read_too_early(x: Any, y: Any, rounds: int) -> None:
    """As `scaled_in_rounds`, and the last warp reads before the others have stored."""
    scale = cuda.shared.array(1, np.float32)
    t = cuda.threadIdx.x
    for i in range(rounds):
        cuda.syncthreads()
        scale[0] = x[i]
        if t >= 224:
            y[t] += scale[0]
        cuda.syncthreads()
        y[t] += x[t] * scale[0]


@cuda.jit
def overwritten_between(x: Any, y: Any, rounds: int) -> None:
    """Warp 0 stores 1, warp 1 stores 2 behind it, and warp 2 stores 2: it is the last value that is the same."""
    place = cuda.shared.array(1, np.float32)
    t = cuda.threadIdx.x
    for _ in range(rounds):
        cuda.syncthreads()
        if t < 32:
            place[0] = 1
            ptx.barrier_sync(1, 64)
        elif t < 64:
            ptx.barrier_sync(1, 64)
            place[0] = 2
        elif t < 96:
            place[0] = 2
        cuda.syncthreads()
        y[t] += place[0]


@cuda.jit
def flagged(x: Any, y: Any) -> None:
    """All CTAs store one value to one place of an array."""
    i = cuda.grid(1)
    total = np.float32(0)
    for k in range(8):
        total += x[(i + k) % 256]
    if i > 0:
        y[i] = total
    y[0] = 7


@cuda.jit
def read_by_another_cta(x: Any, y: Any) -> None:
    """CTAs store one value, and one reads it, which nothing orders behind the stores of others."""
    i = cuda.grid(1)
    total = np.float32(0)
    for k in range(8):
        total += x[k]
    y[i] = total
    if cuda.threadIdx.x == 0:
        y[0] = 140
        if cuda.blockIdx.x == cuda.gridDim.x - 1:
            y[i] = y[0]


@cuda.jit
def replicated_tile(x: Any, y: Any, rounds: int) -> None:
    """Two halves of the warps store one tile, as Triton's layouts do, in vectors."""
    tile = cuda.shared.array(512, np.float32, 16)
    t = cuda.threadIdx.x
    for i in range(rounds):
        cuda.syncthreads()
        at = 4 * (t % 128)
        for k in range(4):
            tile[at + k] = x[(at + k + i) % 256]
        cuda.syncthreads()
        y[t] += tile[t] + tile[t + 256]


@cuda.jit
def added_besides(x: Any, y: Any, rounds: int) -> None:
    """As `scaled_in_rounds`, and an atomic that nothing orders with the stores of others."""
    place = cuda.shared.array(1, np.float32)
    t = cuda.threadIdx.x
    for i in range(rounds):
        cuda.syncthreads()
        place[0] = x[i]
        if t == 255:
            cuda.atomic.add(place, 0, 1)
        cuda.syncthreads()
        y[t] += x[t]


@cuda.jit
def sent_away(x: Any, y: Any, rounds: int, all_fence: int) -> None:
    """All warps store one tile, and one sends it: each of them needs a fence between."""
    tile = cuda.shared.array(64, np.float32, 16)
    t = cuda.threadIdx.x
    total = np.float32(0)
    for i in range(rounds):
        total += x[i]
    tile[t % 64] = total
    if all_fence or t >= 64:
        ptx.fence_proxy_async()
    cuda.syncthreads()
    if t == 64:
        ptx.cp_async_bulk_shared_to_global(y, 0, tile, 0, 256)
        ptx.cp_async_bulk_commit_group()
        ptx.cp_async_bulk_wait_group(0)


@cuda.jit
def counted_by_lanes(x: Any, y: Any, last: int) -> None:
    """One lane stores 1, 2 and 3; behind it one of its warp stores 3, and one of another warp `last`."""
    place = cuda.shared.array(1, np.float32)
    t = cuda.threadIdx.x
    if t == 5:
        place[0] = 1
        place[0] = 2
        place[0] = 3
    cuda.syncthreads()
    if t == 9 or t == 40:
        place[0] = last if t == 40 else 3
    cuda.syncthreads()
    y[t] = place[0]


def checked(kernel: Any, *args: Any, grid: int = 1, block: int = 256, cluster: int | None = None) -> wsemu.Report:
    y = np.zeros(grid * block, np.float32)
    return wsemu.check(kernel, grid, block, (X, y, *args), cluster=cluster)


def told(report: wsemu.Report) -> tuple[str, set[str]]:
    return report.verdict, {finding.code for finding in report.findings} - {"bank-conflict", "uncoalesced"}


SAME = ("verified", {"same-value-store"})
RACE = ("failed", {"race"})


def test_a_value_that_all_warps_store_in_each_round() -> None:
    assert told(checked(scaled_in_rounds, ROUNDS, -1)) == SAME
    assert told(checked(scaled_in_rounds, ROUNDS, 5)) == RACE


def test_whoever_reads_comes_behind_all_of_them() -> None:
    assert told(checked(read_too_early, ROUNDS))[0] == "failed"


def test_a_value_that_was_another_one_in_between() -> None:
    assert told(checked(overwritten_between, ROUNDS)) == RACE


def test_stores_by_all_ctas() -> None:
    assert told(checked(flagged, grid=40)) == SAME
    assert told(checked(read_by_another_cta, grid=40)) == RACE


def test_a_tile_that_warps_store_twice() -> None:
    assert told(checked(replicated_tile, ROUNDS)) == SAME


def test_atomics_are_no_such_stores() -> None:
    verdict, codes = told(checked(added_besides, ROUNDS))
    assert (verdict, "same-value-store" in codes) == ("failed", False)


def test_each_of_them_needs_its_fence() -> None:
    assert told(checked(sent_away, ROUNDS, 1, block=128)) == SAME
    verdict, codes = told(checked(sent_away, ROUNDS, 0, block=128))
    assert (verdict, "same-value-store" in codes) == ("failed", False)


def test_values_of_a_cluster_are_compared() -> None:
    assert told(checked(scaled_in_rounds, ROUNDS, -1, grid=2, cluster=2)) == SAME


def test_one_lane_may_store_several_values() -> None:
    assert told(checked(counted_by_lanes, 3, block=64)) == SAME
    assert told(checked(counted_by_lanes, 1, block=64)) == RACE


def test_a_launch_that_is_too_large_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(same_values, "MOST_RUN", 10_000)
    report = checked(scaled_in_rounds, ROUNDS, -1)
    assert told(report) == RACE
    assert any("values are not compared" in note for note in report.errors[0].notes)


def test_a_large_launch_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    report = checked(scaled_in_rounds, 100, -1)
    assert report.counters.thread_operations > same_values.MOST
    assert told(report) == SAME
