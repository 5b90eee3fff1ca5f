"""Random transfers of every pattern are verified, wrong ones are refused with their message, and patterns that kernels
build from run-time values do what NumPy does.

`benchmarks/patterns.py` does the first for any number of transfers.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

import wsemu
from wsemu import TransferCase, check_transfer, cuda, patterns
from wsemu.model.errors import UsageError
from wsemu.patterns import CudaDMAHalo, CudaDMAIndirect, CudaDMASequential, CudaDMAStrided
from wsemu.strategies import (
    Invalid,
    Launch,
    halo_transfers,
    indirect_transfers,
    invalid_halo_transfers,
    invalid_indirect_transfers,
    invalid_launches,
    invalid_sequential_transfers,
    invalid_strided_transfers,
    launches,
    sequential_transfers,
    strided_transfers,
)


def examples(count: int) -> settings:
    return settings(
        max_examples=count,
        deadline=None,
        derandomize=True,
        database=None,
        print_blob=False,
        phases=[phase for phase in Phase if phase is not Phase.explain],  # which traces each line
        suppress_health_check=list(HealthCheck),
    )


# -- each pattern ----------------------------------------------------------------------------------------------------
@examples(60)
@given(transfer=sequential_transfers())
def test_sequential_transfers(transfer: TransferCase) -> None:
    check_transfer(transfer).assert_clean()


@examples(60)
@given(transfer=strided_transfers())
def test_strided_transfers(transfer: TransferCase) -> None:
    check_transfer(transfer).assert_clean()


@examples(60)
@given(transfer=indirect_transfers())
def test_indirect_transfers(transfer: TransferCase) -> None:
    check_transfer(transfer).assert_clean()


@examples(60)
@given(transfer=halo_transfers())
def test_halo_transfers(transfer: TransferCase) -> None:
    check_transfer(transfer).assert_clean()


TRANSFERS = {
    "sequential": sequential_transfers(),
    "strided": strided_transfers(),
    "indirect": indirect_transfers(),
    "halo": halo_transfers(),
}


def drawn(strategy: Any, count: int = 200) -> list[Any]:
    """Examples of a strategy."""
    found = []

    @examples(count)
    @given(one=strategy)
    def keep(one: Any) -> None:
        found.append(one)

    keep()
    return found


@functools.cache
def transfers(name: str) -> list[TransferCase]:
    return drawn(TRANSFERS[name], 600)


@pytest.mark.parametrize("name", TRANSFERS)
def test_few_transfers_cover_the_options(name: str) -> None:
    cases = transfers(name)
    made = [case.pattern for case in cases]
    options: dict[str, set[Any]] = {
        "alignment": {4, 8, 16},
        "specialized": {False, True},
        "load": {"", "ca", "cg", "cs", "lu", "cv"},
        "store": {"", "wb", "cg", "cs", "wt"},
    }
    for field, values in options.items():
        assert values <= {getattr(pattern, field) for pattern in made}, field
    assert {pattern.bytes_per_thread // pattern.alignment for pattern in made} == set(range(1, 9))
    assert {pattern.dma_threads for pattern in made} >= {32, 64, 512}
    for field in ("src_offset", "dst_offset"):
        assert {getattr(case, field) for case in cases} == {0, 4, 8, 12}
    for field in ("two_phase", "constants"):
        assert {getattr(case, field) for case in cases} == {False, True}
    ways = {way.split()[-1] for pattern in made for way, _ in pattern.parts()}
    assert ways == ({"sequential"} if name == "sequential" else {"split", "full", "big"})


@pytest.mark.parametrize("name", TRANSFERS)
def test_a_transfer_is_the_text_that_makes_it(name: str) -> None:
    space = {"TransferCase": TransferCase, **{text: getattr(patterns, text) for text in patterns.__all__}}
    for case in transfers(name)[:50]:
        assert eval(repr(case), space) == case


SMALLEST = {
    "sequential": TransferCase(CudaDMASequential(0, 32, 32, 32, 4, bytes_per_thread=4)),
    "strided": TransferCase(CudaDMAStrided(0, 32, 32, 32, 4, 1, 4, 4, bytes_per_thread=4)),
    "indirect": TransferCase(CudaDMAIndirect(0, 32, 32, 32, 4, 1, bytes_per_thread=4), (0,)),
    "halo": TransferCase(CudaDMAHalo(0, 32, 32, 32, 4, 1, 1, 1, 12, bytes_per_thread=4)),
}


@pytest.mark.parametrize("name", TRANSFERS)
def test_transfers_shrink_to_the_smallest(name: str) -> None:
    assert find(TRANSFERS[name], lambda _: True, settings=examples(2000)) == SMALLEST[name]


def test_what_matters_is_left_when_the_rest_shrinks() -> None:
    def fails(case: TransferCase) -> bool:
        return case.pattern.elements > 5 and case.pattern.alignment > 4 and case.two_phase

    smallest = find(TRANSFERS["strided"], fails, settings=examples(2000))
    pattern = CudaDMAStrided(0, 32, 32, 32, 4, 6, 8, 8, alignment=8, bytes_per_thread=8)
    assert smallest == TransferCase(pattern, two_phase=True)


# -- what must be refused --------------------------------------------------------------------------------------------
def refused(wrong: Invalid) -> None:
    with pytest.raises(UsageError, match=re.escape(wrong.message)):
        wrong.make()


@examples(60)
@given(wrong=invalid_sequential_transfers())
def test_invalid_sequential_transfers(wrong: Invalid) -> None:
    refused(wrong)


@examples(60)
@given(wrong=invalid_strided_transfers())
def test_invalid_strided_transfers(wrong: Invalid) -> None:
    refused(wrong)


@examples(60)
@given(wrong=invalid_indirect_transfers())
def test_invalid_indirect_transfers(wrong: Invalid) -> None:
    refused(wrong)


@examples(60)
@given(wrong=invalid_halo_transfers())
def test_invalid_halo_transfers(wrong: Invalid) -> None:
    refused(wrong)


@examples(100)
@given(wrong=invalid_launches())
def test_invalid_launches(wrong: Invalid) -> None:
    refused(wrong)


def test_a_case_goes_alone() -> None:
    case = SMALLEST["strided"]
    with pytest.raises(UsageError, match="a TransferCase has its own index, offsets, phases and constants"):
        check_transfer(case, two_phase=True)
    check_transfer(dataclasses.replace(case, two_phase=True)).assert_clean()


def test_hypothesis_is_needed_for_strategies_alone() -> None:
    program = """
import sys
sys.modules["hypothesis"] = None
import wsemu
from wsemu import patterns
from wsemu.launch import transfer
try:
    wsemu.strategies
except wsemu.UsageError as error:
    print(error)
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout == "`wsemu.strategies` needs Hypothesis, which is not installed: `pip install hypothesis`\n"


# -- launches --------------------------------------------------------------------------------------------------------
@cuda.jit
def number_threads(x):
    tile = cuda.shared.array(0, np.uint8)
    block = cuda.blockDim.x * cuda.blockDim.y * cuda.blockDim.z
    cta = cuda.blockIdx.x + cuda.gridDim.x * (cuda.blockIdx.y + cuda.gridDim.y * cuda.blockIdx.z)
    thread = cuda.threadIdx.x + cuda.blockDim.x * (cuda.threadIdx.y + cuda.blockDim.y * cuda.threadIdx.z)
    x[cta * block + thread] = tile.size


@examples(100)
@given(launch=launches(dynamic_shared=4096))
def test_launches(launch: Launch) -> None:
    threads, ctas = int(np.prod(launch.block)), int(np.prod(launch.grid))
    assert 1 <= threads <= 1024
    assert 1 <= ctas <= 8
    x = np.full(ctas * threads, -1, np.int32)
    number_threads[launch](x)
    assert (x == launch.dynamic_shared).all()


def test_launches_keep_to_what_is_asked_for() -> None:
    assert {launch.block[0] % 32 for launch in drawn(launches(whole_warps=True, threads=256))} == {0}
    flat = drawn(launches(dimensions=1))
    assert {launch.grid[1:] + launch.block[1:] for launch in flat} == {(1, 1, 1, 1)}
    assert any(launch.block[0] % 32 for launch in flat)
    assert find(launches(), lambda _: True) == Launch((1, 1, 1), (1, 1, 1))
    with pytest.raises(UsageError, match="block of 2,000 threads"):
        launches(threads=2000)
    with pytest.raises(UsageError, match="dimensions is 4"):
        launches(dimensions=4)


# -- patterns that kernels build from run-time values, several tiles in each of several CTAs -------------------------
WARPS = st.sampled_from([32, 64, 96])
COUNT = st.integers(1, 9)


@cuda.jit
def copies(dma_threads, compute_threads, words, tiles, src, dst):
    dma = CudaDMASequential(1, dma_threads, compute_threads, compute_threads, 4 * words, bytes_per_thread=8)
    tile = cuda.shared.array(0, np.uint32, 16)
    first = cuda.blockIdx.x * tiles * words
    if dma.owns_this_thread():
        for i in range(tiles):
            dma.execute_dma(src[first + i * words :], tile)
    else:
        for i in range(tiles):
            dma.start_async_dma()
            dma.wait_for_dma_finish()
            for word in range(cuda.threadIdx.x, words, compute_threads):
                dst[first + i * words + word] = tile[word]


@examples(40)
@given(dma=WARPS, compute=WARPS, words=st.integers(1, 300), tiles=COUNT, ctas=COUNT)
def test_a_sequential_transfer_built_inside(dma: int, compute: int, words: int, tiles: int, ctas: int) -> None:
    src = np.arange(ctas * tiles * words, dtype=np.uint32)
    dst = np.zeros_like(src)
    arguments = (dma, compute, words, tiles, src, dst)
    report = wsemu.check(copies, ctas, dma + compute, arguments, dynamic_shared=4 * words)
    assert report.verdict == "verified"
    assert (dst == src).all()


@cuda.jit
def takes_columns(dma_threads, compute_threads, rows, words, matrix, dst):
    """Each CTA takes the columns `words * blockIdx.x` and so on of the first rows."""
    dma = CudaDMAStrided(
        2, dma_threads, compute_threads, compute_threads, 4 * words, rows,
        4 * matrix.shape[1], 4 * words, bytes_per_thread=16,
    )  # fmt: skip
    tile = cuda.shared.array(0, np.uint32, 16)
    if dma.owns_this_thread():
        registers = cuda.local.array(16, np.uint8, 16)
        source = matrix[0:, cuda.blockIdx.x * words :]
        dma.start_xfer_async(source, registers)
        dma.wait_xfer_finish(source, tile, registers)
    else:
        dma.start_async_dma()
        dma.wait_for_dma_finish()
        for word in range(cuda.threadIdx.x, rows * words, compute_threads):
            dst[cuda.blockIdx.x, word] = tile[word]


@examples(40)
@given(dma=WARPS, compute=WARPS, rows=COUNT, words=st.integers(1, 80), ctas=COUNT)
def test_a_strided_transfer_built_inside(dma: int, compute: int, rows: int, words: int, ctas: int) -> None:
    matrix = np.arange(rows * ctas * words, dtype=np.uint32).reshape(rows, ctas * words)
    dst = np.zeros((ctas, rows * words), np.uint32)
    arguments = (dma, compute, rows, words, matrix, dst)
    report = wsemu.check(takes_columns, ctas, dma + compute, arguments, dynamic_shared=4 * rows * words)
    assert report.verdict == "verified"
    assert (dst.reshape(ctas, rows, words) == matrix.reshape(rows, ctas, words).transpose(1, 0, 2)).all()


@cuda.jit
def gathers(dma_threads, compute_threads, elements, words, src, index, dst):
    """Each CTA gathers by indices of its own, which it keeps in shared memory."""
    dma = CudaDMAIndirect(3, dma_threads, compute_threads, compute_threads, 4 * words, elements)
    tile = cuda.shared.array(0, np.uint32, 16)
    chosen = cuda.shared.array(16, np.int32)
    if cuda.threadIdx.x < elements:
        chosen[cuda.threadIdx.x] = index[cuda.blockIdx.x, cuda.threadIdx.x]
    cuda.syncthreads()
    if dma.owns_this_thread():
        dma.execute_dma(src, tile, chosen)
    else:
        dma.start_async_dma()
        dma.wait_for_dma_finish()
        for word in range(cuda.threadIdx.x, elements * words, compute_threads):
            dst[cuda.blockIdx.x, word] = tile[word]


@examples(40)
@given(dma=WARPS, compute=WARPS, elements=COUNT, words=st.integers(1, 80), ctas=COUNT, seed=st.integers(0, 9))
def test_an_indirect_transfer_built_inside(
    dma: int, compute: int, elements: int, words: int, ctas: int, seed: int
) -> None:
    src = np.arange(20 * words, dtype=np.uint32)
    index = np.random.default_rng(seed).integers(0, 20, (ctas, elements)).astype(np.int32)
    dst = np.zeros((ctas, elements * words), np.uint32)
    arguments = (dma, compute, elements, words, src, index, dst)
    report = wsemu.check(gathers, ctas, dma + compute, arguments, dynamic_shared=4 * elements * words)
    assert report.verdict == "verified"
    assert (dst.reshape(ctas, elements, words) == src.reshape(20, words)[index]).all()


@cuda.jit
def borders(dma_threads, compute_threads, x, y, radius, grid, dst):
    """Each CTA has a tile of x by y elements of a row of tiles, and stores the border around it."""
    dma = CudaDMAHalo(
        4, dma_threads, compute_threads, compute_threads, 4, x, y, radius, 4 * grid.shape[1], corners=True
    )
    tile = cuda.shared.array(0, np.float32, 16)
    pitch = x + 2 * radius
    if dma.owns_this_thread():
        dma.execute_dma(grid[radius:, radius + cuda.blockIdx.x * x :], tile[radius * pitch + radius :])
    else:
        dma.start_async_dma()
        dma.wait_for_dma_finish()
        for word in range(cuda.threadIdx.x, pitch * (y + 2 * radius), compute_threads):
            row, column = word // pitch - radius, word % pitch - radius
            if not (0 <= row < y and 0 <= column < x):
                dst[cuda.blockIdx.x, word] = tile[word]


@examples(40)
@given(dma=WARPS, compute=WARPS, x=COUNT, y=COUNT, radius=st.integers(1, 8), ctas=COUNT)
def test_a_halo_transfer_built_inside(dma: int, compute: int, x: int, y: int, radius: int, ctas: int) -> None:
    rows, pitch = y + 2 * radius, x + 2 * radius
    grid = np.arange(1, rows * (ctas * x + 2 * radius) + 1, dtype=np.float32).reshape(rows, -1)
    dst = np.zeros((ctas, rows * pitch), np.float32)
    arguments = (dma, compute, x, y, radius, grid, dst)
    report = wsemu.check(borders, ctas, dma + compute, arguments, dynamic_shared=4 * rows * pitch)
    assert report.verdict == "verified"
    for cta, found in enumerate(dst.reshape(ctas, rows, pitch)):
        expected = grid[:, cta * x : cta * x + pitch].copy()
        expected[radius:-radius, radius:-radius] = 0
        assert (found == expected).all()
