"""CUDA C++ programs with one mistake each, and their expected results: `benchmarks/cures.py --cuda` runs them.

The kernels are in benchmarks/cures_cuda: rings of mbarriers with TMA, bulk copies and `wgmma` in the style of CUTLASS,
`cuda::barrier`, a cluster of two CTAs, cp.async, named barriers, and atomics with fences.  nvcc compiles each mutant.
A NumPy function, which `wsemu` does not see, computes the result that a kernel should have.
"""

from __future__ import annotations

import linecache
import re
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import wsemu
from wsemu.launch.hooks import observers
from wsemu.model import settings
from wsemu.model.errors import WsemuError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wsemu.launch.result import Report
    from wsemu.model.cure import Cure

FOLDER = Path(__file__).with_name("cures_cuda")
BUDGET = 400_000
"""warp instructions of a launch: a mutant may not end"""
RIGHT, MEDIAN = 0.85, 2.0
"""minimum share of the mutants whose first fix computes what the model does; maximum median of the CPU seconds of a
search"""
SIZES = (-1, 0, 1)
"""numbers of tiles, relative to the launch with the mistake, with which a fix is tried"""


class Launch(NamedTuple):
    """A launch of a kernel: its shape, its arguments, and the expected output."""

    grid: int
    block: int
    arguments: tuple[Any, ...]
    out: Any
    expected: Any
    shared: int = 0


class Kernel(NamedTuple):
    """A kernel of a file, and its launches by a number of tiles."""

    file: str
    entry: str
    tiles: int
    launch: Callable[[int], Launch]


class Mutant(NamedTuple):
    """One mistake: in the C++ text, or in the PTX that nvcc makes of it."""

    kernel: str
    old: str
    new: str
    in_ptx: bool = False

    @property
    def name(self) -> str:
        """The kernel's name, and the text that the mutant replaces."""
        old, new = (" ".join(text.split()) for text in (self.old, self.new))
        return f"{self.kernel}{' (PTX)' * self.in_ptx}: {old[:50]} -> {new[:50] or 'nothing'}"


class Judged(NamedTuple):
    """What became of a mutant."""

    mutant: Mutant
    codes: tuple[str, ...]
    cure: Cure | None
    verified: bool
    """true if the launch is verified after the printed edit was applied to the text"""
    right: bool
    """true if the result agrees with the model, also with one tile less and one more"""
    seconds: float
    tried: int


def _floats(*shape: int) -> Any:
    return np.random.default_rng(7).integers(-8, 9, shape).astype(np.float32)


def _gemm(tiles: int) -> Launch:
    a, b = _floats(128, 64 * tiles).astype(np.float16), _floats(8, 64 * tiles).astype(np.float16)
    maps = [wsemu.TensorMap(m, box=(rows, 64), swizzle="128B") for m, rows in ((a, 64), (b, 8))]
    c = np.zeros((128, 8), np.float32)
    return Launch(2, 160, (*maps, c, np.int32(tiles)), c, a.astype(np.float32) @ b.astype(np.float32).T, 22 << 10)


def _tiled(block: int, tile: int, compute: Callable[[Any], Any]) -> Callable[[int], Launch]:
    def launch(tiles: int) -> Launch:
        x = _floats(tiles, tile)
        y = np.zeros_like(x)
        return Launch(1, block, (x, y, np.int32(tiles)), y, compute(x))

    return launch


def _pair(tiles: int) -> Launch:
    x = _floats(2, tiles, 32)
    y = np.zeros_like(x)
    return Launch(2, 32, (x, y, np.int32(tiles)), y, x + x[::-1])


def _last(tiles: int) -> Launch:
    x = np.arange(100 * tiles, dtype=np.int32)
    out = np.zeros(1, np.int32)
    parts, count = np.zeros(4, np.int32), np.zeros(1, np.uint32)
    return Launch(4, 64, (x, parts, count, out, np.int32(x.size)), out, x.sum(keepdims=True))


def _chain(tiles: int) -> Launch:
    x = np.arange(32 * tiles, dtype=np.int32)
    y = np.zeros_like(x)
    before = np.repeat(np.cumsum(x.reshape(tiles, 32).sum(1)) - x.reshape(tiles, 32).sum(1), 32)
    return Launch(tiles, 32, (x, np.zeros(tiles, np.int32), np.zeros(tiles, np.int32), y), y, x + before)


def _multicast(tiles: int) -> Launch:
    x = _floats(tiles, 64)
    y = np.zeros((2, tiles, 64), np.float32)
    return Launch(2, 96, (x, y, np.int32(tiles)), y, np.stack([x, 2 * x]))


def _lock(tiles: int) -> Launch:
    x = np.arange(32 * tiles, dtype=np.int32)
    total = np.zeros(1, np.int32)
    return Launch(tiles, 32, (x, total, np.zeros(1, np.int32), np.int32(x.size)), total, x.sum(keepdims=True))


def _tma_async(tiles: int) -> Launch:
    made = _gemm(tiles)
    return made._replace(block=256, shared=30 << 10)


def _tiled_gemm(tiles: int) -> Launch:
    a, b = _floats(16, 16 * tiles), _floats(16 * tiles, 16)
    c = np.zeros((16, 16), np.float32)
    return Launch(1, 256, (a, b, c, np.int32(tiles)), c, a @ b)


def _stream_k(tiles: int) -> Launch:
    x, out = _floats(64, 3 * tiles), np.zeros(64, np.float32)
    sums = x.sum(1)
    rest = np.zeros((4, 64), np.float32), np.zeros(4, np.int32)
    return Launch(3, 64, (x, *rest, out, np.int32(3 * tiles)), out, sums + sums[::-1])


def _ordered(tiles: int) -> Launch:
    x = _floats(tiles, 32)
    y, expected = np.zeros_like(x), np.zeros_like(x)
    for k in range(tiles):
        expected[k] = x[k] + (expected[k - 1][::-1] if k else 0)
    return Launch(1, 64, (x, y, np.int32(tiles)), y, expected)


def _neighbor_ring(steps: int) -> Launch:
    x = _floats(4, 32)
    y, value = np.zeros_like(x), x
    expected = x.copy()
    for _ in range(steps):
        value = np.roll(value, 1, 0)[:, ::-1]
        expected += value
    return Launch(4, 32, (x, y, np.int32(steps)), y, expected)


def _pipeline_class(tiles: int) -> Launch:
    a, b = _floats(tiles, 64), _floats(64, tiles).T.copy()
    y = np.zeros_like(a)
    return Launch(1, 96, (a, b, y, np.int32(tiles)), y, a * b, 3 << 10)


def _cluster_ring(tiles: int) -> Launch:
    x = _floats(tiles, 128)
    y = np.zeros((4, tiles, 128), np.float32)
    return Launch(4, 160, (x, y, np.int32(tiles)), y, x * np.arange(1, 5, dtype=np.float32)[:, None, None])


def _row_sums(tiles: int) -> Launch:
    x, y = _floats(2, 128 * tiles), np.zeros(2, np.float32)
    return Launch(2, 64, (x, y, np.int32(tiles)), y, x.sum(1), 4 * (4 * 128 + 64))


def _specialized_reduce(tiles: int) -> Launch:
    x, y = _floats(tiles, 128), np.zeros(tiles, np.float32)
    return Launch(1, 96, (x, y, np.int32(tiles)), y, x.sum(1))


def _last_block(blocks: int) -> Launch:
    x, y = _floats(150 * blocks), np.zeros(1, np.float32)
    rest = np.zeros(blocks, np.float32), np.zeros(1, np.uint32)
    return Launch(blocks, 64, (x, *rest, y, np.int32(x.size)), y, x.sum(keepdims=True), 4 * 64)


def _neighbours(x: Any) -> Any:
    return x + np.roll(x, 1, 1) + np.roll(x, -1, 1)


KERNELS = {
    "gemm": Kernel("gemm", "gemm", 5, _gemm),
    "ring": Kernel("ring", "ring", 8, _tiled(96, 128, lambda x: 2 * x)),
    "libcu": Kernel("libcu", "libcu", 5, _tiled(64, 128, lambda x: x + 1)),
    "pair": Kernel("pair", "pair", 5, _pair),
    "stages": Kernel("stages", "stages", 6, _tiled(64, 256, _neighbours)),
    "last": Kernel("flags", "last", 4, _last),
    "chain": Kernel("flags", "chain", 5, _chain),
    "noinc": Kernel("noinc", "noinc", 5, _tiled(160, 128, lambda x: 3 * x)),
    "multicast": Kernel("multicast", "multicast", 5, _multicast),
    "lock": Kernel("flags", "lock", 3, _lock),
    "named": Kernel("named", "named", 6, _tiled(96, 64, lambda x: x[:, ::-1])),
    "tma_async": Kernel("tma_async", "tma_async", 7, _tma_async),
    "block_pipeline": Kernel("block_pipeline", "block_pipeline", 5, _tiled(64, 64, lambda x: x + x[:, ::-1])),
    "tiled_gemm": Kernel("tiled_gemm", "tiled_gemm", 6, _tiled_gemm),
    "stream_k": Kernel("stream_k", "stream_k", 4, _stream_k),
    "ordered": Kernel("ordered", "ordered", 6, _ordered),
    "neighbor_ring": Kernel("neighbor_ring", "neighbor_ring", 5, _neighbor_ring),
    "scheduler": Kernel("scheduler", "scheduler", 5, _tiled(96, 64, lambda x: 3 * x)),
    "pipeline_class": Kernel("pipeline_class", "pipeline_class", 7, _pipeline_class),
    "cluster_ring": Kernel("cluster_ring", "cluster_ring", 5, _cluster_ring),
    "row_sums": Kernel("row_sums", "row_sums", 6, _row_sums),
    "specialized_reduce": Kernel("specialized_reduce", "specialized_reduce", 5, _specialized_reduce),
    "last_block": Kernel("last_block", "last_block", 4, _last_block),
    "epilogue": Kernel("epilogue", "epilogue", 5, _tiled(128, 128, lambda x: x * x)),
}


def read_mutants() -> Iterator[Mutant]:
    """Yield the mutants of mistakes.txt."""
    kernel = ""
    for line in (FOLDER / "mistakes.txt").read_text(encoding="utf-8").splitlines():
        old, arrow, new = line.partition(" =>")
        if line.startswith("["):
            kernel = line.strip("[]")
        elif arrow:
            yield Mutant(kernel, old.removeprefix("ptx: "), new.strip(), in_ptx=old.startswith("ptx: "))


def compiled(mutant: Mutant, folder: Path) -> Path | None:
    """Write the PTX of a mutant; return None if its text does not occur, or does not compile."""
    source = FOLDER / f"{KERNELS[mutant.kernel].file}.cu"
    text = source.read_text(encoding="utf-8")
    start = text.index(f" {KERNELS[mutant.kernel].entry}(") if KERNELS[mutant.kernel].file == "flags" else 0
    old, new = (part.replace("\\n", "\n") for part in (mutant.old, mutant.new))
    if not mutant.in_ptx:
        if old not in text[start:]:
            return None
        text = text[:start] + text[start:].replace(old, new, 1)
    file, made = folder / source.name, folder / f"{source.stem}.ptx"
    file.write_text(text, encoding="utf-8")
    shutil.copy(FOLDER / "barriers.h", folder)  # wsemu reads sources in the folder of the PTX alone
    linecache.checkcache()
    command = ["nvcc", "-ptx", "-lineinfo", "-arch=sm_90a", "-o", str(made), str(file)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        return None
    if mutant.in_ptx:
        ptx = made.read_text(encoding="utf-8")
        if re.search(old, ptx) is None:
            return None
        made.write_text(re.sub(old, new, ptx, count=1), encoding="utf-8")
    return made


def launched(file: Path, kernel: Kernel, tiles: int) -> tuple[Report | None, bool]:
    """Launch a kernel of a file; return its report, and whether it computed what the model does."""
    reports: list[Report] = []
    launch = kernel.launch(tiles)
    observers.append(reports.append)
    try:
        with settings.using(settings.Settings(budget=BUDGET)):
            entry = wsemu.load_ptx(file)[kernel.entry]
            entry[launch.grid, launch.block, 0, launch.shared](*launch.arguments)
    except WsemuError:
        pass
    finally:
        observers.remove(reports.append)
    report = reports[-1] if reports else None
    return report, report is not None and bool(np.array_equal(launch.out, launch.expected))


def judged(mutant: Mutant, folder: Path, seconds: float) -> Judged | None:
    """Search for fixes of a mutant, and judge the first one; return None if nothing is wrong with the mutant."""
    kernel, file = KERNELS[mutant.kernel], compiled(mutant, folder)
    if file is None:
        raise ValueError(f"{mutant.name}: does not compile, or is not there")
    report, _ = launched(file, kernel, kernel.tiles)
    if report is None or not report.errors:
        return None
    codes = tuple(finding.code for finding in report.errors)
    started = time.process_time()
    trials = report.helped(seconds).trials
    took = time.process_time() - started
    cure = trials.cure if trials is not None else None
    tried = trials.tried if trials is not None else 0
    if cure is None:
        return Judged(mutant, codes, None, False, False, took, tried)
    cured = folder / f"cured_{file.name}"
    cured.write_text(cure.patch_ptx(file.read_text(encoding="utf-8")), encoding="utf-8")
    done = [launched(cured, kernel, kernel.tiles + more) for more in SIZES]
    verified = all(r is not None and r.verdict == "verified" for r, _ in done)
    return Judged(mutant, codes, cure, verified, all(right for _, right in done), took, tried)


def run_mutants(seconds: float, only: str = "") -> list[Judged]:
    """Search for fixes of all mutants, or of those whose name contains a text, and print each result."""
    results: list[Judged] = []
    with tempfile.TemporaryDirectory() as name:
        for mutant in read_mutants():
            done = judged(mutant, Path(name), seconds) if only in mutant.name else None
            if done is not None:
                results.append(done)
                print_result(done)
            elif only in mutant.name:
                print(f"quiet             {mutant.name}", flush=True)
    return results


def print_result(result: Judged) -> None:
    """Print a mutant, and its cure."""
    state = (
        "none" if result.cure is None else "UNVERIFIED" if not result.verified else "right" if result.right else "WRONG"
    )
    print(
        f"{state:10}{result.tried:4} {result.seconds:5.1f} s  {result.mutant.name[:110]}  {', '.join(result.codes[:2])}"
    )
    if result.cure is not None:
        print(f"{'':23}{result.cure.says[:130]}", flush=True)


def print_sum(results: list[Judged]) -> int:
    """Print the summary of the results; return the number of goals that they miss."""
    cured = [r for r in results if r.cure is not None]
    right, verified = sum(r.right for r in cured), sum(r.verified for r in cured)
    median = statistics.median(r.seconds for r in results) if results else 0.0
    slowest = max(r.seconds for r in results)
    print(f"C++ mutants: {len(results)}, cured {len(cured)}, right {right} ({right / len(results):.0%}), verified as "
          f"applied {verified} of {len(cured)}, median {median:.1f} s, slowest {slowest:.1f} s")  # fmt: skip
    return (right < RIGHT * len(results)) + (verified < len(cured)) + (right < len(cured)) + (median > MEDIAN)
