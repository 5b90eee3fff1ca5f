"""CTAs that draw numbers from one counter: each by itself is right, whatever numbers it draws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
import pytest

import wsemu
from tests.unit import steering_copies
from tests.unit.steering_kernels import variant
from wsemu import cuda, ptx
from wsemu.launch.explore import decide

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.model.settings import Engine

ENGINES = ("vm", "reference")
HOW = "whatever numbers each CTA draws"
i32, f32 = np.int32, np.float32
OFF = 0
"""added to the place that a tile is stored at"""
SYNCS = True
TILE = 32


@pytest.fixture(autouse=True)
def _at_once() -> Iterator[None]:
    """Try few orders before."""
    with mock.patch.object(decide, "FEW_STEPS", 1), mock.patch.object(decide, "FEW_COPYING_STEPS", 1):
        yield


def tiles(count: Any, out: Any, total: int) -> None:
    shared = cuda.shared.array(1, i32)
    while True:
        if cuda.threadIdx.x == 0:
            shared[0] = cuda.atomic.add(count, 0, 1)
        cuda.syncthreads()
        tile = shared[0]
        if SYNCS:
            cuda.syncthreads()
        if tile >= total:
            break
        out[tile * (cuda.blockDim.x - OFF) + cuda.threadIdx.x] = tile


def causal(count: Any, x: Any, y: Any, total: int) -> None:
    """A producer warp draws tiles, first its own number, and loads as many blocks as the number of a tile says."""
    ring = cuda.shared.array((2, TILE), f32)
    drawn = cuda.shared.array(1, i32)
    full = cuda.shared.array(2, np.uint64)
    empty = cuda.shared.array(2, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        for s in range(2):
            ptx.mbarrier_init(full, s, 1)
            ptx.mbarrier_init(empty, s, 32)
        ptx.fence_mbarrier_init()
    cuda.syncthreads()
    stage, phase, tile = 0, 0, cuda.blockIdx.x
    if t >= 32:
        while tile < total:
            for block in range(tile % 2 + 1):
                if t == 32:
                    ptx.mbarrier_wait_parity(empty, stage, phase ^ 1)
                    ptx.mbarrier_arrive_expect_tx(full, stage, TILE * 4)
                    ptx.cp_async_bulk_global_to_shared(ring, (stage, 0), x, block * TILE, TILE * 4, full, stage)
                stage ^= 1
                phase ^= stage == 0
            ptx.bar_sync(1, 64)
            if t == 32:
                drawn[0] = cuda.atomic.add(count, 0, 1) + cuda.gridDim.x
            ptx.bar_sync(2, 64)
            tile = drawn[0]
    else:
        while tile < total:
            total_ = f32(0)
            for _ in range(tile % 2 + 1):
                ptx.mbarrier_wait_parity(full, stage, phase)
                total_ += ring[stage, t]
                ptx.mbarrier_arrive(empty, stage)
                stage ^= 1
                phase ^= stage == 0
            y[(tile + OFF) // (1 + OFF) * TILE + t] = total_
            ptx.bar_sync(1, 64)
            ptx.bar_sync(2, 64)
            tile = drawn[0]


def tile_arguments(total: int) -> tuple[Any, ...]:
    return np.zeros(1, i32), np.zeros(64 * total, i32), i32(total)


def causal_arguments(total: int) -> tuple[Any, ...]:
    return np.zeros(1, i32), np.ones(2 * TILE, f32), np.zeros(total * TILE, f32), i32(total)


@pytest.mark.parametrize("engine", ENGINES)
def test_tiles_of_one_counter(engine: Engine) -> None:
    total = 12 if engine == "vm" else 4
    report = wsemu.check(variant(tiles), 3, 64, tile_arguments(total), engine=engine)
    assert (report.verdict, report.notes) == ("verified", [])
    assert HOW in report.proof


@pytest.mark.parametrize("part", [{"OFF": 1}, {"SYNCS": False}], ids=["overlap", "no barrier"])
@pytest.mark.parametrize("total", [2, 6])
def test_tiles_that_meet(part: dict[str, Any], total: int) -> None:
    report = wsemu.check(variant(tiles, **part), 3, 64, tile_arguments(total))
    assert report.verdict == "failed"


@pytest.mark.parametrize("engine", ENGINES)
def test_tiles_with_other_numbers_of_blocks(engine: Engine) -> None:
    total = 9 if engine == "vm" else 4
    report = wsemu.check(variant(causal), 2, 64, causal_arguments(total), engine=engine)
    assert (report.verdict, report.errors, report.notes) == ("verified", [], [])
    assert HOW in report.proof


def test_tiles_with_other_numbers_of_blocks_that_meet() -> None:
    report = wsemu.check(variant(causal, OFF=1), 2, 64, causal_arguments(9))
    assert report.verdict in ("failed", "incomplete")
    assert HOW not in report.proof


@pytest.mark.parametrize("name", ["drawn_tiles", "doubled_in_place", "summed_tiles", "doubled_twice"])
def test_tiles_that_are_copied(name: str) -> None:
    report = wsemu.check(variant(getattr(steering_copies, name)), 2, 64, steering_copies.arguments(name, 2, 6))
    assert report.verdict == "verified"
    assert HOW in report.proof


@pytest.mark.parametrize(
    ("name", "part"),
    [("drawn_tiles", {"EMPTY": False}), ("drawn_tiles", {"SPREAD": 2}), ("doubled_in_place", {"WAITS": False}),
     ("doubled_in_place", {"SPREAD": 2}), ("summed_tiles", {"WAITS": False}), ("summed_tiles", {"PLAIN": True})],
)  # fmt: skip
def test_tiles_that_are_copied_wrongly(name: str, part: dict[str, Any]) -> None:
    kernel = variant(getattr(steering_copies, name), **part)
    report = wsemu.check(kernel, 2, 64, steering_copies.arguments(name, 2, 6))
    assert report.verdict == "failed"


def test_many_ctas_draw_tiles() -> None:
    report = wsemu.check(variant(tiles), 70, 32, tile_arguments(10))
    assert report.verdict == "verified"
    assert HOW in report.proof


@pytest.mark.parametrize("engine", ENGINES)
def test_results_that_depend_on_the_cta_are_noted(engine: Engine) -> None:
    @cuda.jit
    def owned(count: Any, out: Any, total: int) -> None:
        tile = cuda.atomic.add(count, 0, 1)
        while tile < total:
            out[tile] = cuda.blockIdx.x
            tile = cuda.atomic.add(count, 0, 1)

    report = wsemu.check(owned, 2, 1, (np.zeros(1, i32), np.zeros(4, i32), i32(4)), engine=engine)
    assert report.verdict == "verified"
    assert any("depend on the order" in note for note in report.notes), report.notes


ADDS = False
"""whether a CTA adds its numbers in `seen`, instead of storing the last one"""
BAD = 5


def remembering(count: Any, out: Any, seen: Any, total: int) -> None:
    """Each CTA keeps in an array what it has drawn: the store beside `out` needs 3 and 5 as successive numbers."""
    tile = cuda.atomic.add(count, 0, 1)
    while tile < total:
        before = seen[cuda.blockIdx.x]
        if ADDS:
            cuda.atomic.add(seen, cuda.blockIdx.x, tile)
            before = seen[cuda.blockIdx.x] - tile
        else:
            seen[cuda.blockIdx.x] = tile
        out[1000 if before == 3 and tile == BAD else tile] += 1
        tile = cuda.atomic.add(count, 0, 1)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("adds", [False, True])
def test_an_array_may_distinguish_ctas_that_draw(adds: bool, engine: Engine) -> None:
    arguments = np.zeros(1, i32), np.zeros(6, i32), np.zeros(3, i32), i32(6)
    report = wsemu.check(variant(remembering, ADDS=adds), 3, 1, arguments, engine=engine)
    assert (report.verdict, [finding.code for finding in report.errors]) == ("failed", ["out-of-bounds"])


def test_results_of_an_array_that_is_added_to_need_no_states() -> None:
    @cuda.jit
    def added(count: Any, out: Any, total: int) -> None:
        tile = cuda.atomic.add(count, 0, 1)
        while tile < total:
            out[tile] += tile
            tile = cuda.atomic.add(count, 0, 1)

    report = wsemu.check(added, 3, 1, (np.zeros(1, i32), np.zeros(100, i32), i32(100)))
    assert (report.verdict, report.notes) == ("verified", [])
    assert HOW in report.proof


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("bad", "verdict"), [(3, "failed"), (4, "verified")])
def test_numbers_beyond_those_tried_are_tried_next(bad: int, verdict: str, engine: Engine) -> None:
    @cuda.jit
    def again(count: Any, out: Any) -> None:
        first = cuda.atomic.add(count, 0, 1)
        if first == 1:
            out[0] = cuda.atomic.add(count, 0, 1)
        if first != 0:
            out[1000 if cuda.atomic.add(count, 0, 1) == bad else 1] = 1

    assert wsemu.check(again, 2, 1, (np.zeros(1, i32), np.zeros(2, i32)), engine=engine).verdict == verdict


@pytest.mark.parametrize("engine", ENGINES)
def test_a_counter_that_is_read_is_not_only_drawn_from(engine: Engine) -> None:
    @cuda.jit
    def read(count: Any, out: Any) -> None:
        if cuda.atomic.add(count, 0, 1) == 0:
            out[cuda.blockIdx.x] = count[0]

    report = wsemu.check(read, 2, 1, (np.zeros(1, i32), np.zeros(2, i32)), engine=engine)
    assert report.verdict == "failed"


@cuda.jit
def add_for_the_first_number(counter: Any, out: Any) -> None:
    if cuda.atomic.add(counter, 0, 1) == 0:
        cuda.atomic.add(out, 0, cuda.blockIdx.x)


@cuda.jit
def draw_twice_without_the_last_number(counter: Any, out: Any) -> None:
    if cuda.atomic.add(counter, 0, 1) != 2:
        cuda.atomic.add(counter, 0, 1)


@cuda.jit
def store_for_the_own_number(counter: Any, out: Any) -> None:
    old = cuda.atomic.add(counter, 0, 1)
    if old == cuda.blockIdx.x:
        out[old] = 1


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "kernel", [add_for_the_first_number, draw_twice_without_the_last_number, store_for_the_own_number]
)
def test_results_that_depend_on_who_draws_a_number_are_noted(kernel: Any, engine: Engine) -> None:
    report = wsemu.check(kernel, 3, 1, (np.zeros(1, i32), np.zeros(4, i32)), engine=engine)
    assert (report.verdict, report.proof.endswith(HOW)) == ("verified", True)
    assert any("depend on the order" in note for note in report.notes), report.notes
