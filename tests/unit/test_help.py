"""What a finding says is to be done: it names what is missing, and not what stands there already."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wsemu
from wsemu import cuda, ptx
from wsemu.patterns import Buffers, CudaDMAHalo, CudaDMASequential

DMA = CudaDMASequential(1, 32, 32, 32, 128)
HALO = CudaDMAHalo(1, 32, 32, 32, 4, 16, 8, 2, 4 * 32)
TWO = Buffers.manual_double(DMA)
TILES = 4


def findings(kernel: Any, grid: int = 1) -> list[wsemu.Finding]:
    x = np.arange(64 * TILES, dtype=np.float32)
    return wsemu.check(cuda.jit(kernel), grid, 64, (x, np.zeros_like(x))).errors


def of(code: str, kernel: Any, grid: int = 1) -> wsemu.Finding:
    return next(finding for finding in findings(kernel, grid) if finding.code == code)


def line(kernel: Any, offset: int) -> int:
    """The number of a line of a kernel, 0 for that of its `def`."""
    return int(kernel.__code__.co_firstlineno + offset)


# -- calls of patterns ------------------------------------------------------------------------------------------------
def nobody_starts(x, y):
    tile = cuda.shared.array(32, np.float32)
    if cuda.threadIdx.x < 32:
        for _ in range(TILES):
            DMA.wait_for_dma_finish()
    else:
        for i in range(TILES):
            DMA.execute_dma(x[i * 32 :], tile)


def starts_once(x, y):
    tile = cuda.shared.array((2, 32), np.float32)
    if cuda.threadIdx.x < 32:
        TWO.start()
        for i in range(TILES):
            TWO.wait_for_dma_finish(i)
            y[i * 32 + cuda.threadIdx.x] = tile[TWO.buffer(i), cuda.threadIdx.x]
    else:
        for i in range(TWO.first_tile(), TILES, TWO.tile_step()):
            TWO.execute_dma(i, TILES, x[i * 32 :], tile[TWO.buffer(i)])
        TWO.finish()


@pytest.mark.parametrize("kernel", [nobody_starts, starts_once])
def test_a_deadlock_names_the_call_that_lacks(kernel: Any) -> None:
    help_ = of("deadlock", kernel).help
    assert help_ is not None
    assert help_.startswith("call `start_async_dma()` in the compute warps as often as `wait_for_")


def test_two_calls_on_one_line_are_told_apart() -> None:
    text = next(site.text for site in of("deadlock", nobody_starts).sites if "would release" in site.text)
    assert text == "warp 1 would release warp 0 with `finish_async_dma()`, but waits at `wait_for_dma_start()`"


def never_waits(x, y):
    tile = cuda.shared.array((2, 32), np.float32)
    if cuda.threadIdx.x < 32:
        TWO.start()
        for i in range(TILES):
            y[i * 32 + cuda.threadIdx.x] = tile[TWO.buffer(i), cuda.threadIdx.x]
            TWO.start_async_dma(i, TILES)
    else:
        for i in range(TWO.first_tile(), TILES, TWO.tile_step()):
            TWO.execute_dma(i, TILES, x[i * 32 :], tile[TWO.buffer(i)])
        TWO.finish()


def test_who_runs_ahead_is_told_to_wait() -> None:
    assert of("all-arrive", never_waits).help == (
        "call `wait_for_dma_finish()` in the compute warps between two `start_async_dma()`, once for each"
    )
    recycling = of("barrier-recycling", never_waits)
    assert recycling.message.endswith("warp 1 (DMA) does not wait for warp 0 (compute)")
    assert recycling.help == (
        "let warp 0 (compute) call `wait_for_dma_finish()` between two `start_async_dma()`, once for each"
    )


def empty_unheard(x, y):
    tile = cuda.shared.array(32, np.float32)
    if cuda.threadIdx.x < 32:
        for i in range(TILES):
            DMA.start_async_dma()
            DMA.wait_for_dma_finish()
            y[i * 32 + cuda.threadIdx.x] = tile[cuda.threadIdx.x]
    else:
        for i in range(TILES):
            DMA.execute_dma_no_sync(x[i * 32 :], tile)
            DMA.finish_async_dma()


def test_only_the_call_that_is_missing_is_named() -> None:
    assert of("all-arrive", empty_unheard).help == (
        "call `wait_for_dma_start()` in the DMA warps, once for each `start_async_dma()`"
    )
    assert (
        of("race", empty_unheard).help == f"warp 1 (DMA): `wait_for_dma_start()` before line {line(empty_unheard, 9)}"
    )
    finish = line(empty_unheard, 10)
    assert of("barrier-recycling", empty_unheard).help == (
        f"let warp 1 (DMA) call `wait_for_dma_start()` before line {finish}"
    )


def given_back_early(x, y):
    tile = cuda.shared.array((2, 32), np.float32)
    if cuda.threadIdx.x < 32:
        TWO.start()
        for i in range(TILES):
            TWO.wait_for_dma_finish(i)
            TWO.start_async_dma(i, TILES)
            y[i * 32 + cuda.threadIdx.x] = tile[TWO.buffer(i), cuda.threadIdx.x]
    else:
        for i in range(TWO.first_tile(), TILES, TWO.tile_step()):
            TWO.execute_dma(i, TILES, x[i * 32 :], tile[TWO.buffer(i)])
        TWO.finish()


def test_a_call_that_comes_too_early_is_moved() -> None:
    kernel = given_back_early
    assert of("race", kernel).help == (
        f"warp 0 (compute): `start_async_dma()` after line {line(kernel, 7)}, not before it on line {line(kernel, 6)}"
    )


def wrong_buffer(x, y):
    tile = cuda.shared.array((2, 32), np.float32)
    if cuda.threadIdx.x < 32:
        TWO.start()
        for i in range(TILES):
            TWO.wait_for_dma_finish(i)
            y[i * 32 + cuda.threadIdx.x] = tile[TWO.buffer(i), cuda.threadIdx.x]
            TWO.start_async_dma(i, TILES)
    else:
        for i in range(TWO.first_tile(), TILES, TWO.tile_step()):
            TWO.execute_dma(i, TILES, x[i * 32 :], tile[0])
        TWO.finish()


def test_a_wait_inside_the_same_call_is_no_late_one() -> None:
    help_ = of("race", wrong_buffer).help
    assert help_ is not None
    assert help_.endswith("or one of the two accesses names the wrong buffer")


# -- barriers of the whole CTA ----------------------------------------------------------------------------------------
def no_barrier(x, y):
    tile = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    for i in range(TILES):
        tile[t] = x[i * 64 + t]
        y[i * 64 + t] = tile[63 - t]


def barrier_at_the_end(x, y):
    tile = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    for i in range(TILES):
        tile[t] = x[i * 64 + t]
        y[i * 64 + t] = tile[63 - t]
        cuda.syncthreads()


def barrier_at_the_start(x, y):
    tile = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    for i in range(TILES):
        cuda.syncthreads()
        tile[t] = x[i * 64 + t]
        y[i * 64 + t] = tile[63 - t]


def barrier_in_the_middle(x, y):
    tile = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    for i in range(TILES):
        tile[t] = x[i * 64 + t]
        cuda.syncthreads()
        y[i * 64 + t] = tile[63 - t]


@pytest.mark.parametrize(
    ("kernel", "after", "before"),
    [
        (no_barrier, 4, "5"),
        (barrier_at_the_end, 4, "5"),
        (barrier_at_the_start, 5, "6"),
        (barrier_in_the_middle, 6, "4"),
    ],
)
def test_a_barrier_is_asked_for_where_none_stands(kernel: Any, after: int, before: str) -> None:
    races = [finding for finding in findings(kernel) if finding.code == "race"]
    again = " runs again" * (int(before) < after)
    help_ = f"add `cuda.syncthreads()` after line {line(kernel, after)}, where every thread passes, before line "
    assert races[0].help == f"{help_}{line(kernel, int(before))}{again}"
    if kernel is not no_barrier:  # where there is none at all, two are missing
        assert {race.help for race in races} == {races[0].help}
    hazard = "write-after-read" if again else "read-after-write"
    assert races[0].message.startswith(hazard)


def two_branches(x, y):
    tile = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    cuda.syncthreads()
    if t < 32:
        y[t] = tile[63 - t]
    else:
        tile[t] = 0


def test_two_branches_are_put_behind_each_other() -> None:
    assert of("race", two_branches).help == (
        f"put line {line(two_branches, 8)} into an `if` of its own after that of line {line(two_branches, 6)}, and "
        "`cuda.syncthreads()` between the two"
    )


def test_one_of_several_ctas_is_named() -> None:
    assert "32 lanes of CTA (0, 0, 0), same words" in of("race", two_branches, 2).notes[0]
    assert of("barrier-recycling", empty_unheard, 2).message.startswith("barrier 2 of CTA (0, 0, 0): arrive of")


# -- places in arrays -------------------------------------------------------------------------------------------------
def bytes_beyond(x, y):
    words = ptx.ld_bytes(x, cuda.threadIdx.x * 16 + 512, 16)
    ptx.st_bytes(y, cuda.threadIdx.x * 16 - 64, words)


def part_of_an_array(x, y):
    part = x[8:]
    y[cuda.threadIdx.x] = part[cuda.threadIdx.x + 192]


def test_bytes_outside_an_array_are_told_with_their_offset(run) -> None:
    x = np.zeros(256, np.float32)
    first, second = run(cuda.jit(bytes_beyond), 64, x, np.zeros_like(x)).errors
    assert first.message == "load of 16 bytes outside `x`, at byte 1,024 of 1,024"
    assert first.help == "guard the access: `if cuda.threadIdx.x * 16 + 512 <= 1008:`"
    assert second.message == "store of 16 bytes outside `y`, at byte -64 of 1,024"
    assert second.help == "guard the access: `if cuda.threadIdx.x * 16 - 64 >= 0:`"
    assert second.steps[0].what == "byte -64 of y"  # not of x, which lies before it


def test_an_index_into_a_part_of_an_array_is_held_against_that_part() -> None:
    found = of("out-of-bounds", part_of_an_array)
    assert found.sites[0].text.endswith(": index 248")
    assert found.help == "guard the access: `if cuda.threadIdx.x + 192 < part.shape[0]:`"


def vectors_in_a_tile(x, y):
    tile = cuda.shared.array(256, np.float32)
    ptx.st_bytes(tile, cuda.threadIdx.x * 16, ptx.ld_bytes(x, cuda.threadIdx.x * 16, 16))
    cuda.syncthreads()
    y[cuda.threadIdx.x] = tile[cuda.threadIdx.x]


def vectors_in_an_aligned_tile(x, y):
    tile = cuda.shared.array(256, np.float32, 16)
    ptx.st_bytes(tile, cuda.threadIdx.x * 16, ptx.ld_bytes(x, cuda.threadIdx.x * 16, 16))
    cuda.syncthreads()
    y[cuda.threadIdx.x] = tile[cuda.threadIdx.x]


@pytest.mark.parametrize(("kernel", "told"), [(vectors_in_a_tile, 1), (vectors_in_an_aligned_tile, 0)])
def test_alignment_by_luck_is_noted(run, kernel: Any, told: int) -> None:
    x = np.zeros(256, np.float32)
    report = run(cuda.jit(kernel), 64, x, np.zeros_like(x))
    report.assert_clean()
    assert [note.partition(": on")[0] for note in report.notes] == [
        "`tile` is accessed 16 bytes at a time, and its declaration asks for 4"
    ] * told


def border(x):
    tile = cuda.shared.array((12, 20), np.float32)
    if cuda.threadIdx.x < 32:
        HALO.start_async_dma()
        HALO.wait_for_dma_finish()
        x[0, 0, cuda.threadIdx.x] = tile[0, 2]
    else:
        HALO.execute_dma(x[1, 2:, 2:], tile[2:, 2:])


def test_the_border_of_a_tile_is_not_to_be_sorted() -> None:
    (found,) = wsemu.check(
        cuda.jit(border), 1, 64, (np.zeros((2, 32, 32), np.float32),), checkers=["coalescing"]
    ).findings
    assert "rows together with their borders, by one `CudaDMAStrided`" in str(found.help)


def full_unheard(x, y):
    tile = cuda.shared.array(32, np.float32)
    if cuda.threadIdx.x < 32:
        y[cuda.threadIdx.x] = tile[31 - cuda.threadIdx.x]
    else:
        tile[cuda.threadIdx.x - 32] = x[cuda.threadIdx.x]
        ptx.bar_arrive(1, 64)


def other_id(x, y):
    if cuda.threadIdx.x < 32:
        ptx.bar_sync(2, 64)
    else:
        ptx.bar_arrive(1, 64)


def test_what_is_read_before_anything_is_there_waits_for_it() -> None:
    found = of("race", full_unheard)
    assert found.message.startswith("read-after-write")
    assert found.help == (
        f"warp 1: arrive on a full-buffer barrier after line {line(full_unheard, 5)}; warp 0: sync on it before line "
        f"{line(full_unheard, 3)}"
    )


def test_two_sides_with_different_ids() -> None:
    assert of("deadlock", other_id).help == (
        "warp 1 arrived on barrier 1, on which no warp waits: use the same id on both sides if barrier 2 is meant"
    )


def test_a_namespace_is_called_as_it_is_written() -> None:
    def whole(x, y):
        x[cuda.threadIdx] = y[0]

    with pytest.raises(wsemu.KernelError, match=r"`cuda\.threadIdx`"):
        findings(whole)


# -- counts -----------------------------------------------------------------------------------------------------------
def last_is_wrong():
    if cuda.threadIdx.x < 64:
        ptx.bar_sync(1, 96)
    else:
        ptx.bar_arrive(1, 64)


def first_is_wrong():
    if cuda.threadIdx.x < 32:
        ptx.bar_arrive(1, 64)
    else:
        ptx.bar_sync(1, 96)


def second_is_wrong():
    if cuda.threadIdx.x < 32:
        ptx.bar_arrive(1, 96)
    elif cuda.threadIdx.x < 64:
        ptx.bar_arrive(1, 64)
    else:
        ptx.bar_sync(1, 96)


def third_warp_may_come():
    if cuda.threadIdx.x < 32:
        ptx.bar_arrive(1, 96)
    elif cuda.threadIdx.x < 64:
        ptx.bar_sync(1, 64)


def both_are_wrong():
    if cuda.threadIdx.x < 32:
        ptx.bar_arrive(1, 64)
    else:
        ptx.bar_sync(1, 32)


def one_comes_twice():
    if cuda.threadIdx.x < 32:
        ptx.bar_arrive(1, 96)
        ptx.bar_arrive(1, 96)
    elif cuda.threadIdx.x < 64:
        ptx.bar_sync(1, 64)


SAME = "give every operation of this barrier the same count: all threads that arrive plus all that sync"


@pytest.mark.parametrize(
    ("kernel", "wrong", "help_"),
    [
        (last_is_wrong, 4, "change the count on line {} from 64 to 96: 3 warps use barrier 1"),
        (first_is_wrong, 2, "change the count on line {} from 64 to 96: 3 warps use barrier 1"),
        (second_is_wrong, 4, "change the count on line {} from 64 to 96: 3 warps use barrier 1"),
        (third_warp_may_come, 0, "use one count everywhere: 96 if warp 2 also reaches barrier 1, otherwise 64"),
        (both_are_wrong, 0, SAME),
        (one_comes_twice, 0, SAME),
    ],
)
def test_the_wrong_one_of_two_counts_is_named(kernel: Any, wrong: int, help_: str) -> None:
    found = {finding.code: finding for finding in wsemu.check(cuda.jit(kernel), 1, 96).errors}
    assert found["count-mismatch"].help == help_.format(line(kernel, wrong))
