"""`examples/sgemv.py` against NumPy, and what the CudaDMA paper says about it, section by section."""

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
from wsemu.patterns import CudaDMAStrided

PATH = Path(__file__).parents[2] / "examples" / "sgemv.py"
EXAMPLE = runpy.run_path(str(PATH))
VERSIONS = EXAMPLE["VERSIONS"]
BOTH = ["both-single", "both-double", "both-manual"]
IN_BULK = ["both-bulk", "both-pipeline"]
"""whose tiles are brought by copies, which are no accesses of warps"""
TILE, ROWS, COLUMN_BYTES = EXAMPLE["TILE"], EXAMPLE["COMPUTE_THREADS"], EXAMPLE["COLUMN_BYTES"]
versions = pytest.mark.parametrize("version", VERSIONS)
loading = pytest.mark.parametrize("version", [version for version in VERSIONS if version not in IN_BULK])


def check(version: str, n: int, **options: Any) -> wsemu.Report:
    """The report of a launch, whose result must be NumPy's in the kernel's order, bit for bit."""
    kernel, threads = VERSIONS[version]
    random = np.random.default_rng(n)
    matrix = np.asfortranarray(random.standard_normal((n, n), np.float32))
    x, y = random.standard_normal(n, np.float32), np.zeros(n, np.float32)
    alpha = np.float32(-1.25)
    report = wsemu.check(kernel, n // ROWS, threads, (n, alpha, matrix, x, y), **options)
    assert y.tobytes() == EXAMPLE["expected"](alpha, matrix, x).tobytes()
    return report


@versions
@pytest.mark.parametrize("n", [256, 768])
def test_every_version_is_verified_and_equal_to_numpy(version, n):
    report = check(version, n)
    assert (report.verdict, report.findings) == ("verified", [])


@pytest.mark.parametrize("version", ["reference", "vec-double", "both-manual", "both-pipeline"])
def test_both_engines_agree(version):
    """Each way of buffering, none, and a ring: `both-single` runs on both as an example, in tests/test_programs.py."""
    report = check(version, 128, engine="reference")
    assert report.counters == check(version, 128).counters
    assert report.verdict == "verified"


def test_the_versions_are_the_paper_s_and_two_of_bulk_copies() -> None:
    names = {f"{what}-{how}" for what in ("vec", "both") for how in ("single", "double", "manual")}
    assert set(VERSIONS) == {"reference", *names, *IN_BULK}
    assert next(iter(VERSIONS)) == "both-single"
    assert VERSIONS["both-single"][0].py_func.__name__ == "sgemv"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["many"], "n is many: give a positive multiple of 128, such as 1024\n"),
        (["100"], "n is 100: give a positive multiple of 128, such as 1024\n"),
        (["128", "all"], "n is 128: give a positive multiple of 256, such as 1024\n"),
        (["128", "none"], "none: give one version: both-single, reference, vec-single, "),
        (["128", "all", "all"], "all all: give one version: both-single, "),
    ],
)
def test_the_program_says_what_it_takes(given, message):
    done = python(PATH, *given)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(message)


def test_the_program_runs_one_version_or_all() -> None:
    said = {}
    for version in ("vec-manual", "all"):
        done = python(PATH, "256", version)
        said[version] = [line.partition(":")[0] for line in done.stdout.splitlines()]
    assert said["vec-manual"] == ["vec_manual"]
    assert said["all"] == [kernel.py_func.__name__ for kernel, _ in VERSIONS.values()]


# -- the paper's numbers ----------------------------------------------------------------------------------------------
def test_section_3_1_objects_of_figure_4() -> None:
    """One warp for the vector, then those of the matrix; a barrier of the vector counts its DMA and compute threads."""
    vector = EXAMPLE["VECTOR"]
    assert (vector.dma_id, vector.first_dma_thread, vector.element_bytes) == (1, ROWS, 4 * TILE)
    assert EXAMPLE["FIRST_MATRIX_THREAD"] == ROWS + vector.dma_threads
    assert VERSIONS["both-single"][1] == ROWS + vector.dma_threads + EXAMPLE["MATRIX_DMA_THREADS"]


VECTOR_DMA, MATRIX_DMA = 1, 4
"""warps of a set"""


@pytest.mark.parametrize(
    ("version", "objects"),
    [
        ("vec-single", [(VECTOR_DMA, 4)]),
        ("vec-double", [(VECTOR_DMA, 2)] * 2),
        ("vec-manual", [(VECTOR_DMA, 2)] * 2),
        ("both-single", [(VECTOR_DMA, 4), (MATRIX_DMA, 4)]),
        ("both-double", [(VECTOR_DMA, 4), (MATRIX_DMA, 4)] * 2),  # tiles are half as large
        ("both-manual", [(VECTOR_DMA, 4), (MATRIX_DMA, 4)] * 2),
    ],
)
def test_section_4_2_two_barriers_for_each_object(version, objects):
    """For each tile of an object every warp that it concerns calls once at each of its two barriers; a start and its
    answer come on top.  `objects`: DMA warps, tiles."""
    in_a_cta = sum((ROWS // 32 + warps) * (2 * tiles + 1) for warps, tiles in objects)
    n = 4 * TILE
    assert check(version, n).counters.barrier_operations == n // ROWS * in_a_cta


@pytest.mark.parametrize(
    ("version", "dma"),
    [
        ("vec-single", VECTOR_DMA),
        ("vec-double", 2 * VECTOR_DMA),
        ("vec-manual", VECTOR_DMA),
        ("both-single", VECTOR_DMA + MATRIX_DMA),
        ("both-double", 2 * (VECTOR_DMA + MATRIX_DMA)),
        ("both-manual", VECTOR_DMA + MATRIX_DMA),
    ],
)
def test_section_4_3_dma_warps_of_each_way_of_buffering(version, dma):
    assert VERSIONS[version][1] == ROWS + 32 * dma


@loading
def test_section_6_1_the_matrix_is_read_once_and_the_vector_by_every_cta(version):
    n = 512
    counters = check(version, n).counters
    assert counters.global_load_sectors * 32 == 4 * (n * n + n // ROWS * n)
    assert counters.global_store_sectors * 32 == 4 * n


@pytest.mark.parametrize("version", IN_BULK)
def test_section_6_1_threads_load_from_shared_memory_alone(version):
    """What copies bring is not counted; for each warp and column one load of the matrix, and one of the vector."""
    n = 256
    counters = check(version, n).counters
    assert (counters.global_load_sectors, counters.global_store_sectors) == (0, 4 * n // 32)
    assert (counters.shared_load_wavefronts, counters.shared_store_wavefronts) == (2 * n * n // 32, 0)


@pytest.mark.parametrize("version", BOTH)
def test_section_6_1_staging_the_matrix_is_for_communication_alone(version):
    """What goes through shared memory once more is the matrix: written once and read once."""
    n = 256
    both, vec = (check(v, n).counters for v in (version, "vec-single"))
    assert both.shared_store_wavefronts - vec.shared_store_wavefronts == n * n * 4 // 128
    assert both.shared_load_wavefronts - vec.shared_load_wavefronts == n * n * 4 // 128


@versions
def test_sections_3_2_and_5_all_accesses_are_coalesced_and_without_conflicts(version):
    counters = check(version, 256).counters
    assert counters.coalesced == 1
    assert counters.bank_conflicts == 0


@pytest.mark.parametrize("alignment", [4, 8, 16])
def test_section_3_2_sequential_transfers_of_the_vector_move_nothing_twice(alignment):
    dma = replace(EXAMPLE["VECTOR"], alignment=alignment, bytes_per_thread=0)

    @cuda.jit
    def transfer(x):
        tile = cuda.shared.array(TILE, np.float32, 16)
        if dma.owns_this_thread():
            dma.execute_dma_no_sync(x, tile)

    moves_nothing_twice(wsemu.check(transfer, 1, 160, (np.ones(TILE, np.float32),)), 4 * TILE)


@pytest.mark.parametrize("alignment", [4, 8, 16])
def test_section_3_2_strided_transfers_of_the_matrix_move_nothing_twice(alignment):
    """Elements of 256 bytes, far apart at the source, side by side in shared memory."""
    n = 384
    dma = CudaDMAStrided(2, 128, ROWS, ROWS, COLUMN_BYTES, TILE, 4 * n, COLUMN_BYTES, alignment=alignment)

    @cuda.jit
    def transfer(matrix):
        tile = cuda.shared.array((TILE, ROWS), np.float32, 16)
        if dma.owns_this_thread():
            dma.execute_dma_no_sync(matrix[ROWS:, TILE:], tile)

    moves_nothing_twice(wsemu.check(transfer, 1, 256, (np.ones((n, n), np.float32, order="F"),)), COLUMN_BYTES * TILE)


def moves_nothing_twice(report: wsemu.Report, size: int) -> None:
    """A sector for every 32 bytes, a wavefront for every 128: one for each access of 4 bytes of a warp."""
    counters = report.counters
    assert report.verdict == "verified"
    assert counters.global_load_sectors == counters.ideal_global_load_sectors == size // 32
    assert counters.shared_store_wavefronts == counters.ideal_shared_store_wavefronts == size // 128
