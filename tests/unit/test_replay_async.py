"""Witnesses of races with asynchronous operations replay: tensor copies, multicasts, `st.async`, `wgmma`, and schedules
that step over them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import wsemu
from wsemu import cuda, ptx
from wsemu.launch.hooks import starting
from wsemu.launch.replay.run import follow
from wsemu.model.bound import Bound

PTX = Path(__file__).parents[1] / "ptx"
X = np.arange(128, dtype=np.float32).reshape(8, 16)


def replays(kernel, grid, block, args, **options):
    """Of each error of a launch its code, and the values of both orders where it has them."""
    bound: list[Bound] = []

    def keep(launch):
        bound[:] = [launch._replace(segments=[(data.copy(), writable) for data, writable in launch.segments])]

    starting.append(keep)
    try:
        report = wsemu.check(kernel, grid, block, args, **options)
    finally:
        starting.remove(keep)
    found = []
    for finding in report.errors:
        witness = report.witness(finding)
        replay = follow(bound[0], witness.code, witness.steps)
        orders = [[(made.mark, made.does, made.value) for made in order.made] for order in replay.orders]
        assert [order.marks for order in replay.orders][1:] == [order.marks[::-1] for order in replay.orders[:1]]
        found.append((finding.code, orders))
    return found


def of_tile(kernel, grid=1, block=32, cluster=1):
    arguments = wsemu.TensorMap(X.copy(), (4, 16)), np.zeros(64, np.float32)
    return replays(kernel, grid, block, arguments, cluster=cluster)


@cuda.jit
def read_early(tmap, y):
    tile = cuda.shared.array(64, np.float32, 128)
    full = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(full, 0, 1)
    cuda.syncthreads()
    if t == 0:
        ptx.mbarrier_arrive_expect_tx(full, 0, 256)
        ptx.cp_async_bulk_tensor_global_to_shared(tile, 0, tmap, (0, 2), full, 0)
    y[t] = tile[t]
    ptx.mbarrier_wait_parity(full, 0, 0)


def test_a_tile_that_is_read_early():
    ((code, orders),) = of_tile(read_early)
    assert code == "race"
    assert orders[0] == [("(1)", "store", "32.0"), ("(2)", "load", "32.0")]
    assert orders[1] == [("(2)", "load", "0.0"), ("(1)", "store", "32.0")]


@cuda.jit
def written_early(tmap, y):
    tile = cuda.shared.array(64, np.float32, 128)
    t = cuda.threadIdx.x
    tile[t] = 1
    tile[t + 32] = 2
    ptx.fence_proxy_async()
    cuda.syncthreads()
    if t == 0:
        ptx.cp_async_bulk_tensor_shared_to_global(tmap, (0, 2), tile, 0)
        ptx.cp_async_bulk_commit_group()
    cuda.syncthreads()
    tile[t] = 3
    if t == 0:
        ptx.cp_async_bulk_wait_group(0)


def test_a_tile_that_is_written_before_it_was_stored():
    ((code, orders),) = of_tile(written_early)
    assert code == "race"
    assert orders[0] == [("(1)", "load", "1.0"), ("(2)", "store", "3.0")]


@cuda.jit
def two_tiles(tmap, y):
    tile = cuda.shared.array(64, np.float32, 128)
    full = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(full, 0, 1)
    cuda.syncthreads()
    if t == 0:
        ptx.mbarrier_arrive_expect_tx(full, 0, 512)
        ptx.cp_async_bulk_tensor_global_to_shared(tile, 0, tmap, (0, 2), full, 0)
        ptx.cp_async_bulk_tensor_global_to_shared(tile, 0, tmap, (0, 4), full, 0)
    ptx.mbarrier_wait_parity(full, 0, 0)
    y[t] = tile[t]


def test_two_tiles_to_one_place():
    ((code, orders),) = of_tile(two_tiles)
    assert code == "race"
    assert orders[0] == [("(1)", "store", "32.0"), ("(2)", "store", "64.0")]


@cuda.jit
def read_behind_a_tile(tmap, y):
    tile = cuda.shared.array(64, np.float32, 128)
    full = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(full, 0, 1)
    cuda.syncthreads()
    if t == 0:
        ptx.mbarrier_arrive_expect_tx(full, 0, 256)
        ptx.cp_async_bulk_tensor_global_to_shared(tile, 0, tmap, (0, 2), full, 0)
    ptx.mbarrier_wait_parity(full, 0, 0)
    tile[t] = 1
    y[t] = tile[(t + 32) % 64]


def test_a_schedule_steps_over_a_tile():
    found = of_tile(read_behind_a_tile, block=64)
    assert {code for code, _ in found} == {"race"}


# -- clusters ----------------------------------------------------------------------------------------------------------
@cuda.jit
def awaited_in_the_other_cta(x, y):
    tile = cuda.shared.array(64, np.float32, 16)
    full = cuda.shared.array(1, np.uint64)
    t, rank = cuda.threadIdx.x, ptx.cluster_ctarank()
    if t == 0:
        ptx.mbarrier_init(full, 0, 1)
        ptx.mbarrier_arrive_expect_tx(full, 0, 256)
    ptx.cluster_sync()
    if t == 0 and rank == 0:
        ptx.cp_async_bulk_global_to_shared_multicast(tile, 0, x, 0, 256, full, 0, 3)
    if rank == 0:
        ptx.mbarrier_wait_parity(full, 0, 0)
    ptx.cluster_sync()
    y[cuda.grid(1)] = tile[t]
    ptx.cluster_sync()


@cuda.jit
def tile_awaited_in_the_other_cta(tmap, y):
    tile = cuda.shared.array(64, np.float32, 128)
    full = cuda.shared.array(1, np.uint64)
    t, rank = cuda.threadIdx.x, ptx.cluster_ctarank()
    if t == 0:
        ptx.mbarrier_init(full, 0, 1)
        ptx.mbarrier_arrive_expect_tx(full, 0, 256)
    ptx.cluster_sync()
    if t == 0 and rank == 0:
        ptx.cp_async_bulk_tensor_global_to_shared_multicast(tile, 0, tmap, (0, 2), full, 0, 3)
    if rank == 0:
        ptx.mbarrier_wait_parity(full, 0, 0)
    ptx.cluster_sync()
    y[cuda.grid(1)] = tile[t]
    ptx.cluster_sync()


def test_a_multicast_races_in_the_cta_that_did_not_wait():
    plain = np.full(64, 7, np.float32), np.zeros(64, np.float32)
    for found in (
        replays(awaited_in_the_other_cta, 2, 32, plain, cluster=2),
        of_tile(tile_awaited_in_the_other_cta, 2, cluster=2),
    ):
        (orders,) = [orders for code, orders in found if code == "race"]
        assert [does for _, does, _ in orders[0]] == ["store", "load"]
        assert orders[1][0] == ("(2)", "load", "0.0")


@cuda.jit
def read_before_the_phase(x, y):
    tile = cuda.shared.array(32, np.float32, 16)
    got = cuda.shared.array(64, np.float32, 16)
    full = cuda.shared.array(1, np.uint64)
    t, other = cuda.threadIdx.x, ptx.cluster_ctarank() ^ 1
    if t == 0:
        ptx.mbarrier_init(full, 0, 1)
        ptx.mbarrier_arrive_expect_tx(full, 0, 256)
    tile[t] = x[t]
    ptx.fence_proxy_async()
    ptx.cluster_sync()
    if t == 0:
        ptx.cp_async_bulk_shared_to_cluster(ptx.mapa(got, other), 0, tile, 0, 128, ptx.mapa(full, other), 0)
    ptx.st_async(ptx.mapa(got, other), 32 + t, x[t], ptx.mapa(full, other), 0)
    y[cuda.grid(1)] = got[t] + got[32 + t]
    ptx.mbarrier_wait_parity(full, 0, 0)
    ptx.cluster_sync()


def test_values_of_another_cta_that_are_read_early():
    found = replays(read_before_the_phase, 2, 32, (np.ones(32, np.float32), np.zeros(64, np.float32)), cluster=2)
    assert {code for code, _ in found} == {"race"}
    assert len(found) == 4


# -- products ----------------------------------------------------------------------------------------------------------
def test_an_operand_of_wgmma_that_is_written_early():
    tiles = [np.ones((64, 64), np.float16).view(np.uint8) for _ in "ab"]
    kernel = wsemu.load_ptx(PTX / "wgmma.sm_90a.ptx")["swizzled"]
    found = replays(kernel, 1, 128, (*tiles, np.zeros((64, 64), np.float32), 3))
    assert {code for code, _ in found} == {"race"}
    assert all({does for _, does, _ in orders[0]} == {"load", "store"} for _, orders in found)
