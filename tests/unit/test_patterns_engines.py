"""Transfers whose bytes go past the registers: `engine="cp.async"` and `engine="bulk"`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import wsemu
import wsemu.strategies
from wsemu import cuda, ptx
from wsemu.launch import transfer
from wsemu.model.errors import UsageError
from wsemu.model.isa import NAMES
from wsemu.patterns import (
    Buffers,
    CudaDMAHalo,
    CudaDMAIndirect,
    CudaDMASequential,
    CudaDMAStrided,
    CudaDMATile,
    Pipeline,
    block_size,
)

ROLES = (1, 64, 64, 64)
TRANSFERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "sequential": (CudaDMASequential(*ROLES, 1040, alignment=16), {"dst_offset": 16}),
    "strided": (CudaDMAStrided(*ROLES, 64, 9, 96, 80, alignment=16), {"two_phase": True}),
    "gather": (CudaDMAIndirect(*ROLES, 64, 5, alignment=16), {"index": [4, 2, 4, 0, 1], "constants": True}),
    "halo": (CudaDMAHalo(*ROLES, 4, 8, 8, 4, 112, corners=True, alignment=16), {}),
    "not specialized": (CudaDMAStrided.unspecialized(128, 64, 9, 96, 80, alignment=16), {}),
}
COPIED: dict[str, tuple[Any, dict[str, Any]]] = {
    "ends": (CudaDMAStrided(*ROLES, 52, 5, 64, 64, alignment=16, engine="cp.async"), {}),
    "words": (CudaDMAHalo(*ROLES, 4, 9, 8, 4, 100, engine="cp.async"), {"two_phase": True}),
    "past the L1 cache": (CudaDMASequential(*ROLES, 1004, alignment=16, engine="cp.async", load="cg"), {}),
    "scatter": (CudaDMAIndirect(*ROLES, 64, 3, scatter=True, engine="bulk"), {"index": [4, 2, 0]}),
}


def operations(case: transfer.TransferCase) -> set[str]:
    from wsemu.launch.compiled import compile_for_types

    run = transfer.fill(transfer.job(case))
    code = compile_for_types(run.job.kernel, run.arguments(), True).program.code
    return {NAMES[op] for op in code[:, 0].tolist()}


@pytest.mark.parametrize("engine", ["cp.async", "bulk"])
@pytest.mark.parametrize("name", TRANSFERS)
def test_every_byte_is_copied_once(name, engine):
    pattern, options = TRANSFERS[name]
    case = transfer.TransferCase(replace(pattern, engine=engine), **options)
    assert wsemu.check_transfer(case).verdict == "verified"
    used = operations(case)
    assert "bulk.load" in used if engine == "bulk" else "cp.async.b128" in used


@pytest.mark.parametrize("name", COPIED)
def test_ends_words_and_scatters(name):
    pattern, options = COPIED[name]
    assert wsemu.check_transfer(pattern, **options).verdict == "verified"


def test_indices_that_a_scatter_has_twice():
    pattern = CudaDMAIndirect(*ROLES, 64, 3, scatter=True, engine="bulk")
    report = wsemu.check_transfer(pattern, index=[4, 2, 4])
    assert "transfer-duplicated" in {f.code for f in report.errors}


REFUSED: dict[str, tuple[Any, tuple[int, ...], dict[str, Any]]] = {
    "engine is 'tma': give one of 'warps', 'cp.async', 'bulk'": (CudaDMASequential, (64,), {"engine": "tma"}),
    "element_bytes is 52: give a positive multiple of 16": (CudaDMASequential, (52,), {"engine": "bulk"}),
    "element_bytes is 36: give": (CudaDMAStrided, (36, 2, 64, 64), {"engine": "bulk"}),
    "src_stride is 72: give": (CudaDMAStrided, (32, 2, 72, 64), {"engine": "bulk"}),
    "element_bytes is 8: give": (CudaDMAIndirect, (8, 2), {"engine": "bulk"}),
    "give alignment=": (CudaDMAHalo, (4, 8, 8, 2, 64), {"engine": "bulk"}),
    "which copies to shared memory only": (CudaDMAIndirect, (64, 2), {"engine": "cp.async", "scatter": True}),
    "store is 'cs', but engine 'bulk' has no stores": (CudaDMASequential, (64,), {"engine": "bulk", "store": "cs"}),
    "load is 'cg': with engine 'cp.async' and 8-byte accesses give '' or 'ca'": (
        CudaDMASequential, (64,), {"engine": "cp.async", "load": "cg", "alignment": 8}
    ),
    "row_bytes is 24: give": (CudaDMATile, (8, 24), {}),
    "rows is 257: give 1 to 256": (CudaDMATile, (257, 32), {}),
    "rows with swizzle '64B' have its width": (CudaDMATile, (8, 32), {"swizzle": "64B"}),
    "swizzle is '16B': give one of '', '32B'": (CudaDMATile, (8, 32), {"swizzle": "16B"}),
    "load is 'nc': with engine 'bulk'": (CudaDMASequential, (64,), {"engine": "bulk", "load": "nc"}),
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSED)
def test_what_an_engine_cannot_do(message):
    cls, sizes, options = REFUSED[message]
    with pytest.raises(UsageError) as caught:
        cls(*ROLES, *sizes, **options)
    assert message in str(caught.value)


TILE, TILES = 64, 5


@cuda.jit
def through_buffers(buffers, x, y):
    tile = cuda.shared.array((2, TILE), np.float32, 16)
    t = cuda.threadIdx.x
    if t < 64:
        buffers.start()
        for i in range(TILES):
            buffers.wait_for_dma_finish(i)
            y[i * TILE + t] = 2 * tile[buffers.buffer(i), t]
            buffers.start_async_dma(i, TILES)
    elif buffers.owns_this_thread():
        for i in range(buffers.first_tile(), TILES, buffers.tile_step()):
            buffers.execute_dma(i, TILES, x[i * TILE :], tile[buffers.buffer(i)])
        buffers.finish()


@pytest.mark.parametrize("engine", ["cp.async", "bulk"])
@pytest.mark.parametrize("buffering", [Buffers.double, Buffers.manual_double])
def test_buffers_take_any_engine(buffering, engine):
    buffers = buffering(CudaDMASequential(1, 32, 64, 64, 4 * TILE, engine=engine))
    x = np.arange(TILE * TILES, dtype=np.float32)
    y = np.zeros_like(x)
    report = wsemu.check(through_buffers, 1, block_size(buffers), (buffers, x, y))
    assert report.verdict == "verified"
    assert (y == 2 * x).all()


# -- plans and strategies --------------------------------------------------------------------------------------------
def test_plans_count_copies():
    rows = CudaDMAStrided(*ROLES, 1024, 4, 2048, 1024, alignment=16)
    loads, copies = rows.plan(), replace(rows, engine="cp.async").plan()
    assert (copies.copies, copies.loads, copies.stores) == (loads.loads, {}, {})
    assert (copies.parts, copies.sectors, copies.wavefronts) == (loads.parts, loads.sectors, loads.wavefronts)
    assert "16-byte copies" in str(copies)
    bulk = replace(rows, engine="bulk").plan()
    assert (bulk.copies, bulk.sectors, bulk.ideal_sectors, bulk.steps) == ({1024: 4}, 128, 128, 1)
    assert "4 of 1,024 bytes, by one thread" in str(bulk)
    halo = CudaDMAHalo(*ROLES, 4, 8, 8, 4, 112, corners=True, engine="bulk").plan()
    assert halo.copies == {64: 8, 16: 16}


STRATEGIES = ["sequential", "strided", "indirect", "halo"]


@pytest.mark.parametrize("engine", ["cp.async", "bulk"])
@pytest.mark.parametrize("name", STRATEGIES)
def test_drawn_transfers_have_the_engine(name, engine):
    drawn: list[Any] = []

    @settings(max_examples=5, deadline=None, derandomize=True, database=None)
    @given(getattr(wsemu.strategies, f"{name}_transfers")(engine))
    def collect(case):
        assert case.pattern.engine == engine
        drawn.append(case)

    collect()
    small = min(drawn, key=lambda case: case.pattern.plan().sectors)
    assert wsemu.check_transfer(small).verdict == "verified"


# -- pipelines -------------------------------------------------------------------------------------------------------
def by_hand(ring: Pipeline, together: int) -> Any:
    """A kernel of one producer, and of 64 consumers that share each tile, or two groups of 64 that take turns."""

    @cuda.jit
    def kernel(x, y):
        bars = cuda.shared.array(ring.barriers, np.uint64)
        tile = cuda.shared.array((ring.stages, TILE), np.float32, 16)
        t = cuda.threadIdx.x
        ring.start(bars)
        if t == 128:
            for i in range(TILES):
                ring.producer_acquire(bars, i)
                for half in range(2):
                    at = 32 * half
                    ptx.cp_async_bulk_global_to_shared(
                        tile, (ring.stage(i), at), x, i * TILE + at, 128, bars, ring.full(i)
                    )
                ring.producer_commit(bars, i, 4 * TILE)
        elif t < 128:
            for i in range(t // TILE * (2 - together), TILES, 3 - together):
                ring.consumer_wait(bars, i)
                if t // TILE == i % 2:
                    y[i * TILE + t % TILE] = 2 * tile[ring.stage(i), 63 - t % TILE]
                ring.consumer_release(bars, i)

    return kernel


@pytest.mark.parametrize(("stages", "together"), [(1, 2), (3, 2), (2, 1), (4, 1)])
def test_a_ring_of_any_number_of_stages_and_consumers(stages, together):
    x = np.arange(TILE * TILES, dtype=np.float32)
    y = np.zeros_like(x)
    ring = Pipeline(stages, 1, 64 * together)
    report = wsemu.check(by_hand(ring, together), 1, 160, (x, y))
    assert report.verdict == "verified"
    assert (y.reshape(TILES, TILE) == 2 * x.reshape(TILES, TILE)[:, ::-1]).all()


def of_a_pattern(ring: Pipeline, pattern: Any) -> Any:
    @cuda.jit
    def kernel(x, y):
        bars = cuda.shared.array(ring.barriers, np.uint64)
        tile = cuda.shared.array((ring.stages, TILE), np.float32, 16)
        t = cuda.threadIdx.x
        ring.start(bars)
        if t < 64:
            for i in range(TILES):
                ring.consumer_wait(bars, i)
                y[i * TILE + t] = 2 * tile[ring.stage(i), t]
                ring.consumer_release(bars, i)
        elif pattern.owns_this_thread():
            for i in range(TILES):
                ring.execute_dma(bars, i, pattern, x[i * TILE :], tile[ring.stage(i)])

    return kernel


@pytest.mark.parametrize("engine", ["warps", "cp.async", "bulk"])
def test_a_pattern_fills_a_ring_with_any_engine(engine):
    pattern = CudaDMASequential(1, 32, 64, 64, 4 * TILE, engine=engine)
    x = np.arange(TILE * TILES, dtype=np.float32)
    y = np.zeros_like(x)
    kernel = of_a_pattern(Pipeline.of(pattern, 3), pattern)
    report = wsemu.check(kernel, 1, block_size(pattern), (x, y))
    assert report.verdict == "verified"
    assert (y == 2 * x).all()


def test_a_consumer_that_releases_before_it_has_read():
    ring = Pipeline(2, 1, 64)

    @cuda.jit
    def kernel(x, y):
        bars = cuda.shared.array(ring.barriers, np.uint64)
        tile = cuda.shared.array((ring.stages, TILE), np.float32, 16)
        t = cuda.threadIdx.x
        ring.start(bars)
        if t == 64:
            for i in range(TILES):
                ring.producer_acquire(bars, i)
                ptx.cp_async_bulk_global_to_shared(tile, (ring.stage(i), 0), x, i * TILE, 256, bars, ring.full(i))
                ring.producer_commit(bars, i, 256)
        elif t < 64:
            for i in range(TILES):
                ring.consumer_wait(bars, i)
                ring.consumer_release(bars, i)
                y[i * TILE + t] = tile[ring.stage(i), t]

    x = np.arange(TILE * TILES, dtype=np.float32)
    report = wsemu.check(kernel, 1, 96, (x, np.zeros_like(x)))
    assert {f.code for f in report.errors} == {"race"}


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: Pipeline(0, 1, 64), "stages is 0: give 1 to 1024"),
        (lambda: Pipeline(2, 1, 2048), "consumers is 2048"),
        (lambda: Pipeline(2, 1, 64, engine="tma"), "engine is 'tma'"),
        (lambda: Pipeline.of(3, 2), "pattern is a int"),
        (lambda: Pipeline.of(CudaDMASequential.unspecialized(64, 64), 2), "pattern is not specialized"),
        (lambda: Pipeline.of(CudaDMAIndirect(*ROLES, 64, 3, scatter=True, engine="bulk"), 2), "pattern is a scatter"),
    ],
)
def test_what_a_pipeline_cannot_be(made, message):
    with pytest.raises(UsageError) as caught:
        made()
    assert message in str(caught.value)


def test_sides_of_a_pattern_that_never_run_are_walked_only_for_types(monkeypatch: pytest.MonkeyPatch) -> None:
    # a transfer through registers: the other engines are in branches that Numba does not drop
    from wsemu.frontend.python.walker import Walker

    walked: list[str] = []
    enter = Walker.enter

    def noted(walker: Walker, frame: Any, env: Any, body: Any, node: Any) -> Any:
        if walker.b.block.dead:
            walked.append(body.name)
        return enter(walker, frame, env, body, node)

    monkeypatch.setattr(Walker, "enter", noted)
    assert operations(transfer.TransferCase(TRANSFERS["strided"][0]))
    assert not {"copy_in_bulk", "issue", "issue_bulk", "load_step"} & set(walked)
