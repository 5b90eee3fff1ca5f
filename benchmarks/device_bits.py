"""Compare the bits of matrix instructions, small floats and tensor copies with those of a GPU.

    python benchmarks/device_bits.py record FILE.npz [--tiles N] [--maps N] [--values N] [--only TEXT] [--but TEXT]
    python benchmarks/device_bits.py compare FILE.npz [--blocks N] [--only TEXT] [--but TEXT]

The kernels are those of `device_cases.py` and `device_maps.py`.  `record` runs them on a GPU.  It needs a driver for an
sm_90a, which compiles the PTX, and NumPy, but no other requirement of wsemu.  A file has a checksum of each block of
tiles, and of memory after each tensor copy.  `compare` runs the same kernels on the emulator, on any machine, and
prints a table; the exit code is 1 if a bit differs.  Both use `--workers` processes.
"""

from __future__ import annotations

import argparse
import ctypes
import multiprocessing
import sys
import time
import zlib
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import device_cases, device_maps
from benchmarks.device_cases import Case

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BLOCK = 200
"""tiles of a checksum"""
WIDE = 10_000
"""divisor of the number of blocks for `wgmma` with 16 to 256 columns, except 128"""
MOST_WORDS = 1 << 24
"""maximum number of words of results of a launch"""
UNREAD = 1000
"""tensor copies by maps with parts that are thought not to be read"""


def cases(tiles: int, only: str, but: str = "") -> list[Case]:
    """Return all requested cases."""
    found = [*device_cases.multiplications(tiles), *device_cases.groups(tiles), *device_cases.singles(tiles)]
    found += device_cases.other_groups(max(tiles // WIDE * BLOCK, BLOCK))
    left_out = but.split(",") if but else []
    return [
        case for case in found
        if any(text in case.name for text in only.split(",")) and not any(text in case.name for text in left_out)
    ]  # fmt: skip


def batches(case: Case, tiles: int) -> list[tuple[int, int]]:
    """Return (first tile, number of tiles) of each launch."""
    step = max(MOST_WORDS // case.words // BLOCK, 1) * BLOCK
    return [(first, min(step, tiles - first)) for first in range(0, tiles, step)]


def shared_out(work: Callable[[Any], Any], items: list[Any], workers: int) -> Iterator[Any]:
    """Yield the results of `work` for all items, in order, from several processes."""
    if workers == 1:
        yield from map(work, items)
        return
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        yield from pool.imap(work, items)


def checksums(case: Case, results: Any) -> list[int]:
    """Return the checksum of each block of tiles."""
    words = results.reshape(-1, case.words)
    if case.result == "f64":
        floats = words.view(np.float64)
        floats[np.isnan(floats)] = np.nan
    return [zlib.crc32(words[first : first + BLOCK].tobytes()) for first in range(0, len(words), BLOCK)]


# -- on a GPU ----------------------------------------------------------------------------------------------------------


class Gpu:
    """The driver, and the contents of the GPU's memory."""

    def __init__(self) -> None:
        self.driver = ctypes.CDLL("libcuda.so.1")
        context = ctypes.c_void_p()
        self.done(self.driver.cuInit(0))
        self.done(self.driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
        self.done(self.driver.cuCtxSetCurrent(context))

    def done(self, error: int) -> None:
        if error:
            raise OSError(f"CUDA driver error {error}")

    def name(self) -> str:
        """The name of the GPU, and the version of the driver."""
        text, version = ctypes.create_string_buffer(100), ctypes.c_int()
        self.done(self.driver.cuDeviceGetName(text, 100, 0))
        self.done(self.driver.cuDriverGetVersion(ctypes.byref(version)))
        return f"{text.value.decode()}, CUDA {version.value // 1000}.{version.value % 1000 // 10}"

    def room(self, bytes_: int) -> int:
        pointer = ctypes.c_uint64()
        self.done(self.driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(bytes_)))
        return pointer.value

    def put(self, to: int, array: Any) -> None:
        size = ctypes.c_size_t(array.nbytes)
        self.done(self.driver.cuMemcpyHtoD_v2(ctypes.c_uint64(to), ctypes.c_void_p(array.ctypes.data), size))

    def get(self, array: Any, from_: int) -> None:
        size = ctypes.c_size_t(array.nbytes)
        self.done(self.driver.cuMemcpyDtoH_v2(ctypes.c_void_p(array.ctypes.data), ctypes.c_uint64(from_), size))

    def function(self, text: str, name: str) -> Any:
        """Return a kernel; raise OSError if the driver does not accept its text."""
        module, found = ctypes.c_void_p(), ctypes.c_void_p()
        self.done(self.driver.cuModuleLoadData(ctypes.byref(module), text.encode()))
        self.done(self.driver.cuModuleGetFunction(ctypes.byref(found), module, name.encode()))
        return found

    def launch(
        self, function: Any, grid: int | tuple[int, int], block: int, shared: int, parameters: list[Any]
    ) -> None:  # fmt: skip
        ctas = grid if isinstance(grid, tuple) else (grid, 1)
        pointers = (ctypes.c_void_p * len(parameters))(*map(ctypes.addressof, parameters))
        shape = [ctypes.c_uint(n) for n in (*ctas, 1, block, 1, 1, shared)]
        self.done(self.driver.cuLaunchKernel(function, *shape, None, pointers, None))
        self.done(self.driver.cuCtxSynchronize())


@cache
def the_gpu() -> tuple[Gpu, int, dict[str, int]]:
    """Return this process's GPU: the driver, memory for the results of a launch, and pools of numbers."""
    gpu = Gpu()
    return gpu, gpu.room(4 * (MOST_WORDS + BLOCK * 256 * 128)), {}


def recorded(case: Case, values: int) -> tuple[str, list[int], Any]:
    """Return the error, if any, the checksums, and the results of some tiles on the GPU of this machine."""
    gpu, room, pools = the_gpu()
    for format_ in case.pools:
        if format_ not in pools:
            pools[format_] = gpu.room(4 * device_cases.POOL)
            gpu.put(pools[format_], device_cases.pool(format_))
    try:
        function = gpu.function(case.text, "k")
    except OSError as error:
        return f"{case.name}: {error}", [], None
    found, kept = [], np.empty(0, np.uint32)
    for first, tiles in batches(case, case.tiles):
        addresses: list[Any] = [ctypes.c_uint64(n) for n in (*(pools[format_] for format_ in case.pools), room)]
        gpu.launch(function, tiles // case.per_cta, case.threads, 0, [*addresses, ctypes.c_uint32(first)])
        results = np.empty(case.words * tiles, np.uint32)
        gpu.get(results, room)
        kept = results[: case.words * values].copy() if not first else kept
        found += checksums(case, results)
    return "", found, kept


def record(path: Path, options: argparse.Namespace) -> None:
    """Run everything on the GPU of this machine."""
    started, found = time.perf_counter(), dict[str, Any]()
    chosen = cases(options.tiles, options.only, options.but)
    work = partial(recorded, values=options.values)
    for case, (wrong, sums, values) in zip(chosen, shared_out(work, chosen, options.workers), strict=True):
        if wrong:
            print(wrong, flush=True)
            continue
        found[case.name] = np.array(sums, np.uint32)
        if options.values:
            found[f"{case.name}/values"] = values
    print(f"{len(found)} of {len(chosen)} kernels, {time.perf_counter() - started:.1f} s", flush=True)
    gpu, maps = Gpu(), options.maps * (not options.only)
    if maps:
        found["/maps"] = device_maps.record(gpu, maps)
    np.savez_compressed(path, name=gpu.name(), tiles=options.tiles, maps=maps, **found)
    print(f"{time.perf_counter() - started:.1f} s in all", flush=True)
    if maps:
        device_maps.unread(gpu, found["/maps"][:UNREAD])


# -- on the emulator ---------------------------------------------------------------------------------------------------


def emulated(case: Case, blocks: int) -> list[int]:
    """Return the checksums of the first blocks of tiles; empty for an instruction that is not modeled."""
    return [sum_ for batch in batches(case, min(case.tiles, blocks * BLOCK)) for sum_ in made(case, *batch)]


def made(case: Case, first: int, tiles: int) -> list[int]:
    """Return the checksums and results of some tiles, computed in one launch."""
    import wsemu

    kernel = wsemu.load_ptx(case.text)["k"]
    results = np.zeros(case.words * tiles, np.uint32)
    arguments = (*(device_cases.pool(format_) for format_ in case.pools), results, np.uint32(first))
    report = wsemu.check(
        kernel, tiles // case.per_cta, case.threads, arguments, checkers=["bounds"], workers=1, budget=1 << 40
    )
    if report.verdict == "failed":
        raise SystemExit(f"{case.name}: {report}")
    return checksums(case, results) if report.verdict == "verified" else []


def timed(batch: tuple[Case, int, int]) -> tuple[list[int], float]:
    """Return the checksums of a batch of tiles, and the seconds that the batch took."""
    started = time.perf_counter()
    return made(*batch), time.perf_counter() - started


def compare(path: Path, options: argparse.Namespace) -> int:
    """Print how many tiles of each kernel are the same."""
    differ = 0
    with np.load(path) as file:
        print(f"{file['name']}")
        every = cases(int(file["tiles"]), options.only, options.but)
        known = [(case, batches(case, min(case.tiles, options.blocks * BLOCK))) for case in every if case.name in file]
        work = [(case, *batch) for case, parts in known for batch in parts]
        results = shared_out(timed, work, options.workers)
        for case, parts in known:
            mine, seconds = list[int](), 0.0
            for _ in parts:
                sums, took = next(results)
                mine, seconds = mine + sums, seconds + took
            theirs = file[case.name][: len(mine)]
            wrong = int((np.array(mine, np.uint32) != theirs).sum())
            differ += wrong
            said = f"{wrong} of {len(mine)} blocks differ" if wrong else "no bit differs" if mine else "not modelled"
            count = min(case.tiles, len(mine) * BLOCK)
            print(f"| {case.name} | {count:,} tiles | {said} | {seconds:.1f} s |", flush=True)
        for case in every:
            if case.name not in file:
                print(f"| {case.name} | not compared: the driver does not take it |")
        print(f"{differ} blocks differ in {len(known)} kernels")
        if "/maps" in file and not options.only:
            differ += device_maps.compare(file["/maps"][: options.maps])
    return int(differ > 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("record", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--tiles", type=int, default=100_000)
    parser.add_argument("--maps", type=int, default=10_000)
    parser.add_argument("--values", type=int, default=0, help="keep the results of so many tiles, too")
    parser.add_argument("--blocks", type=int, default=1 << 30, help="compare so many blocks of 200 tiles of each")
    parser.add_argument("--only", default="", help="kernels whose names have one of these texts, by commas")
    parser.add_argument("--but", default="", help="leave out kernels whose names have one of these")
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    if options.what == "record":
        record(options.file, options)
        return 0
    return compare(options.file, options)


if __name__ == "__main__":
    sys.exit(main())
