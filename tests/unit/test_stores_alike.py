"""Bulk stores of the same bytes by several lanes, in launches too large for the reference engine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wsemu
from wsemu import cuda, ptx
from wsemu.launch import same_values


@cuda.jit
def stored_by_all(y: Any, rounds: int, apart: int) -> None:
    tile = cuda.shared.array(96, np.float32, 16)
    t = cuda.threadIdx.x
    tile[t] = t
    ptx.fence_proxy_async()
    cuda.syncthreads()
    if t < 32:
        for _ in range(rounds):
            ptx.cp_async_bulk_shared_to_global(y, 0, tile, apart * (t & 7), 256)
            ptx.cp_async_bulk_commit_group()
            ptx.cp_async_bulk_wait_group(0)


@cuda.jit
def stored_by_two_warps(y: Any) -> None:
    tile = cuda.shared.array(64, np.float32, 16)
    t = cuda.threadIdx.x
    tile[t] = t
    ptx.fence_proxy_async()
    cuda.syncthreads()
    ptx.cp_async_bulk_shared_to_global(y, 0, tile, 0, 256)
    ptx.cp_async_bulk_commit_group()
    ptx.cp_async_bulk_wait_group(0)


@cuda.jit
def tile_stored_by_all(a: Any) -> None:
    tile = cuda.shared.array((8, 8), np.float32, 128)
    t = cuda.threadIdx.x
    tile[t // 8, t % 8] = t
    ptx.fence_proxy_async()
    cuda.syncthreads()
    if t < 32:
        ptx.cp_async_bulk_tensor_shared_to_global(a, (0, 0), tile, (0, 0))
        ptx.cp_async_bulk_commit_group()
        ptx.cp_async_bulk_wait_group_read(0)


@pytest.fixture(autouse=True)
def _large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(same_values, "MOST", 0)
    monkeypatch.setattr(same_values, "MOST_TRIED", 0)


def checked(kernel: Any, threads: int, *args: Any) -> tuple[str, set[str]]:
    report = wsemu.check(kernel, 1, threads, args)
    return report.verdict, {finding.code for finding in report.findings if finding.code != "bank-conflict"}


def floats() -> Any:
    return np.zeros(64, np.float32)


def test_lanes_store_the_same_bytes_once() -> None:
    y = floats()
    assert checked(stored_by_all, 96, y, np.int32(1), np.int32(0)) == ("verified", {"same-value-store"})
    assert (y == np.arange(64)).all()


def test_a_lane_may_store_while_another_stores_again() -> None:
    assert checked(stored_by_all, 96, floats(), np.int32(2), np.int32(0)) == ("failed", {"race"})


def test_lanes_store_different_bytes() -> None:
    assert checked(stored_by_all, 96, floats(), np.int32(1), np.int32(4)) == ("failed", {"race"})


def test_two_warps_store_the_same_bytes() -> None:
    assert checked(stored_by_two_warps, 64, floats()) == ("failed", {"race"})


def test_lanes_store_the_same_tile() -> None:
    a = np.zeros((8, 8), np.float32)
    found = checked(tile_stored_by_all, 64, wsemu.TensorMap(a, [8, 8]))
    assert found == ("verified", {"same-value-store"})
    assert (a == np.arange(64).reshape(8, 8)).all()
