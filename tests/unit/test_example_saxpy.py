"""`examples/saxpy.py` against NumPy, and what the CudaDMA paper says about its micro-benchmark, section by section."""

from __future__ import annotations

import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wsemu
from tests.commands import python
from wsemu import cuda

PATH = Path(__file__).parents[2] / "examples" / "saxpy.py"
EXAMPLE = runpy.run_path(str(PATH))
KERNELS = {kernel.py_func.__name__: (kernel, threads) for kernel, threads in EXAMPLE["KERNELS"]}
TILE, TILE_BYTES = EXAMPLE["TILE"], EXAMPLE["TILE_BYTES"]
PATTERNS = {"x": EXAMPLE["X"], "y": EXAMPLE["Y"], "x of two buffers": EXAMPLE["X_BUFFERS"].pattern}
kernels = pytest.mark.parametrize("name", KERNELS)
IN_BULK = ("bulk", "pipeline")
"""whose tiles are brought by copies, which are no accesses of warps"""
loading = pytest.mark.parametrize("name", [name for name in KERNELS if name not in IN_BULK])


def check(name: str, n: int, intensity: int = 0, grid: int = 4, **options: Any) -> wsemu.Report:
    """The report of a launch, whose result must be NumPy's, bit for bit."""
    kernel, threads = KERNELS[name]
    random = np.random.default_rng(n + intensity)
    x, y = random.standard_normal(n, np.float32), random.standard_normal(n, np.float32)
    a = np.float32(-4)
    right = EXAMPLE["expected"](a, x, y, intensity)
    report = wsemu.check(kernel, grid, threads, (n, a, x, y, intensity), **options)
    assert y.tobytes() == right.tobytes()
    return report


@kernels
@pytest.mark.parametrize("n", [2048, 6144, 16384])
@pytest.mark.parametrize("intensity", [0, 5])
def test_every_kernel_is_verified_and_equal_to_numpy(name, n, intensity):
    report = check(name, n, intensity)
    assert (report.verdict, report.findings) == ("verified", [])


@kernels
@pytest.mark.parametrize("grid", [1, 3, 7])
def test_ctas_may_have_different_numbers_of_tiles_or_none(name, grid):
    assert check(name, 4096, grid=grid).verdict == "verified"


def test_a_ring_that_is_filled_more_than_once_on_both_engines() -> None:
    """7 tiles in 5 buffers; all kernels run there with one tile, in tests/test_programs.py."""
    n = 7 * EXAMPLE["RING_TILE"]
    reports = [check("pipeline", n, grid=1, engine=engine) for engine in ("vm", "reference")]
    assert reports[0].model_dump(exclude={"seconds"}) == reports[1].model_dump(exclude={"seconds"})
    assert (reports[0].verdict, reports[0].findings) == ("verified", [])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["1000"], "n is 1000: give a positive multiple of 2048, a tile for each of 4 CTAs, such as 2048\n"),
        (["0"], "n is 0: give a positive multiple of 2048, a tile for each of 4 CTAs, such as 2048\n"),
        (["many"], "many: give n and an intensity, such as 16384 10\n"),
        (["2048", "1", "1"], "2048 1 1: give n and an intensity, such as 16384 10\n"),
    ],
)
def test_the_program_says_what_it_takes(given, message):
    done = python(PATH, *given)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", message)


def test_the_program_takes_an_intensity() -> None:
    done = python(PATH, "2048", "3")
    assert done.stdout == "saxpy: 2048 elements, all 7 kernels equal to NumPy's float32, bit for bit\n"


# -- the paper's numbers ----------------------------------------------------------------------------------------------
def test_section_5_warps_and_bytes_of_a_tile() -> None:
    """The baseline has 16 warps that transfer 4 bytes a thread, 2 KB; CudaDMA has 16 compute and 4 DMA warps."""
    assert TILE_BYTES == 2048
    warps = {name: threads // 32 for name, (_, threads) in KERNELS.items()}
    assert warps["saxpy"] == warps["staged"] == 16
    assert warps["cudadma"] == 16 + 4


def test_section_4_3_double_buffering_has_twice_as_many_dma_warps() -> None:
    assert KERNELS["cudadma_double"][1] // 32 == 16 + 2 * 4


@loading
@pytest.mark.parametrize(("intensity", "ratio"), [(0, 6), (1, 3), (11, 0.5)])
def test_section_5_bytes_for_each_operation(name, intensity, ratio):
    """Figure 9 is of a saxpy with 6 bytes per floating-point operation; each multiply-add more counts two."""
    counters = check(name, 8192, intensity).counters
    moved = 32 * (counters.global_load_sectors + counters.global_store_sectors)
    assert moved / (2 * 32 * counters.instruction_mix["f32"]) == ratio


@loading
def test_section_5_all_accesses_are_coalesced(name):
    counters = check(name, 8192).counters
    assert counters.coalesced == 1
    assert counters.global_load_sectors == 2 * counters.global_store_sectors == 2 * 8192 * 4 // 32


@loading
@pytest.mark.parametrize("arch", ["sm_90", "sm_20"])
def test_section_4_1_no_bank_conflicts(name, arch):
    """On the paper's own machine accesses of 16 bytes alone take twice their ideal, whatever the addresses."""
    counters = check(name, 8192, arch=arch).counters
    assert counters.shared_load_wavefronts == counters.ideal_shared_load_wavefronts
    wide = name in ("staged_float4", "cudadma", "cudadma_double") and arch == "sm_20"
    assert counters.shared_store_wavefronts == (2 if wide else 1) * counters.ideal_shared_store_wavefronts


@pytest.mark.parametrize("name", IN_BULK)
def test_section_4_1_threads_load_from_shared_memory_alone(name):
    """What copies bring is not counted; each thread loads its x and y there, and stores its result."""
    n = 8192
    counters = check(name, n).counters
    assert (counters.global_load_sectors, counters.global_store_sectors) == (0, 4 * n // 32)
    assert (counters.shared_load_wavefronts, counters.shared_store_wavefronts) == (2 * n // 32, 0)


@pytest.mark.parametrize("alignment", [4, 8, 16])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_section_3_2_sequential_transfers_move_nothing_twice(pattern, alignment):
    """A sector for every 32 bytes, a wavefront for every 128: one for each access of 4 bytes of a warp."""
    dma = replace(PATTERNS[pattern], alignment=alignment, bytes_per_thread=0)

    @cuda.jit
    def transfer(x):
        tile = cuda.shared.array(TILE, np.float32, 16)
        if dma.owns_this_thread():
            dma.execute_dma_no_sync(x, tile)

    report = wsemu.check(transfer, 1, 768, (np.ones(TILE, np.float32),))
    counters = report.counters
    assert report.verdict == "verified"
    assert counters.global_load_sectors == counters.ideal_global_load_sectors == TILE_BYTES // 32
    assert counters.shared_store_wavefronts == counters.ideal_shared_store_wavefronts == TILE_BYTES // 128
