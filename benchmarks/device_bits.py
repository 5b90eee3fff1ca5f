"""Compares the bits of matrix instructions, small floats and tensor copies with a GPU's.

    python benchmarks/device_bits.py record FILE.npz [--tiles N] [--maps N] [--values N] [--only TEXT]
    python benchmarks/device_bits.py compare FILE.npz [--blocks N] [--only TEXT]

The kernels are those of `device_cases.py` and `device_maps.py`.  `record` runs them on a GPU: it needs a driver for an
sm_90a, NumPy, and nothing else that wsemu needs, as the driver compiles PTX.  A file holds a checksum of each block of
tiles, and of the memory behind each tensor copy.  `compare` runs the same kernels on the emulator, anywhere, and prints
a table; exit code 1 where a bit differs.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import device_cases, device_maps
from benchmarks.device_cases import Case

BLOCK = 200
"""tiles of a checksum"""
BATCH = 20_000
"""tiles of a launch"""


def cases(tiles: int, only: str) -> list[Case]:
    """All of them, as asked for."""
    found = [*device_cases.multiplications(tiles), *device_cases.groups(tiles), *device_cases.singles(tiles)]
    return [case for case in found if any(text in case.name for text in only.split(","))]


def checksums(case: Case, results: Any) -> list[int]:
    """One of each block of tiles."""
    words = results.reshape(-1, case.words)
    if case.result == "f64":
        floats = words.view(np.float64)
        floats[np.isnan(floats)] = np.nan
    return [zlib.crc32(words[first : first + BLOCK].tobytes()) for first in range(0, len(words), BLOCK)]


# -- on a GPU ----------------------------------------------------------------------------------------------------------


class Gpu:
    """The driver, and what is in its memory."""

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
        """Of the GPU, and the version of the driver."""
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
        """A kernel; OSError where the driver does not take its text."""
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


def record(path: Path, tiles: int, maps: int, only: str, values: int) -> None:
    """Run everything on the GPU of this machine."""
    gpu = Gpu()
    found: dict[str, Any] = {}
    pools: dict[str, int] = {}
    chosen = cases(tiles, only)
    started, room = time.perf_counter(), gpu.room(max([1, *(4 * case.words * case.tiles for case in chosen)]))
    for case in chosen:
        for format_ in case.pools:
            if format_ not in pools:
                pools[format_] = gpu.room(4 * device_cases.POOL)
                gpu.put(pools[format_], device_cases.pool(format_))
        try:
            function = gpu.function(case.text, "k")
        except OSError as error:
            print(f"{case.name}: {error}", flush=True)
            continue
        addresses = [ctypes.c_uint64(n) for n in (*(pools[format_] for format_ in case.pools), room)]
        gpu.launch(function, case.tiles // case.per_cta, case.threads, 0, addresses)
        results = np.empty(case.words * case.tiles, np.uint32)
        gpu.get(results, room)
        found[case.name] = np.array(checksums(case, results), np.uint32)
        if values:
            found[f"{case.name}/values"] = results[: case.words * values]
    print(f"{len(found)} of {len(chosen)} kernels, {time.perf_counter() - started:.1f} s", flush=True)
    np.savez_compressed(path, name=gpu.name(), tiles=tiles, maps=0, **found)
    if maps and not only:
        found["/maps"] = device_maps.record(gpu, maps)
        np.savez_compressed(path, name=gpu.name(), tiles=tiles, maps=maps, **found)
    print(f"{time.perf_counter() - started:.1f} s in all", flush=True)


# -- on the emulator ---------------------------------------------------------------------------------------------------


def emulated(case: Case, blocks: int) -> list[int]:
    """The same, of so many blocks of tiles."""
    import wsemu

    kernel = wsemu.load_ptx(case.text)["k"]
    tiles = min(case.tiles, blocks * BLOCK)
    results = np.zeros(case.words * tiles, np.uint32)
    pools = [device_cases.pool(format_) for format_ in case.pools]
    report = wsemu.check(
        kernel, tiles // case.per_cta, case.threads, (*pools, results), checkers=["bounds"], workers=1, budget=1 << 40
    )
    if report.verdict == "failed":
        raise SystemExit(f"{case.name}: {report}")
    return checksums(case, results) if report.verdict == "verified" else []


def compare(path: Path, blocks: int, only: str, engine_maps: int) -> int:
    """Print how many tiles of each kernel are the same."""
    differ = 0
    with np.load(path) as file:
        print(f"{file['name']}")
        for case in cases(int(file["tiles"]), only):
            if case.name not in file:
                print(f"| {case.name} | not compared: the driver does not take it |")
                continue
            started = time.perf_counter()
            mine = np.array(emulated(case, blocks), np.uint32)
            theirs = file[case.name][: len(mine)]
            wrong = int((mine != theirs).sum())
            differ += wrong
            count = min(case.tiles, len(mine) * BLOCK)
            said = f"{wrong} of {len(mine)} blocks differ" if wrong else "no bit differs"
            said = said if len(mine) else "not modelled"
            print(f"| {case.name} | {count:,} tiles | {said} | {time.perf_counter() - started:.1f} s |", flush=True)
        if "/maps" in file and not only:
            differ += device_maps.compare(file["/maps"][:engine_maps])
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
    options = parser.parse_args()
    if options.what == "record":
        record(options.file, options.tiles, options.maps, options.only, options.values)
        return 0
    return compare(options.file, options.blocks, options.only, options.maps)


if __name__ == "__main__":
    sys.exit(main())
