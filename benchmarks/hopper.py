"""Measure how long it takes to check the examples for Hopper: `python benchmarks/hopper.py`, on one core.

Prints the seconds of processor time for a product of 512 x 512 x 512 and for attention of 4 heads x 512 x 64: those of
the first check of a process, and the minimum of later checks, with reading the PTX and without.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import wsemu

HOPPER = Path(__file__).parents[1] / "examples" / "hopper"
AGAIN = 5


def halves(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float16)


def product(n: int = 512) -> tuple[Any, ...]:
    """Return a launch: grid, arguments, bytes of shared memory."""
    maps = [wsemu.TensorMap(halves(n, n), [128, 64], swizzle="128B") for _ in range(2)]
    maps.append(wsemu.TensorMap(np.zeros((n, n), np.float16), [64, 64], swizzle="128B"))
    return (n // 128, n // 128), (*maps, np.int32(n)), 4 * 2 * 128 * 64 * 2 + 128 * 128 * 2 + 64


def attention(heads: int = 4, length: int = 512) -> tuple[Any, ...]:
    maps = [wsemu.TensorMap(halves(heads * length, 64), [64, 64], swizzle="128B") for _ in range(4)]
    return (length // 128, heads), (*maps, np.int32(length), np.float32(0.125)), 6 * 8192 + 72


def seconds(name: str, launch: Callable[[], tuple[Any, ...]]) -> tuple[float, float]:
    """Return the processor time to read and compile the PTX and check the launch, and the time to check it alone."""
    grid, arguments, shared = launch()
    start = time.process_time()
    kernel = wsemu.load_ptx(HOPPER / f"{name}.sm_90a.ptx")[name]
    read = time.process_time()
    report = wsemu.check(kernel, grid, 384, arguments, dynamic_shared=shared, workers=1)
    assert report.verdict == "verified"
    end = time.process_time()
    return end - start, end - read


def main() -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    for name, launch in (("gemm", product), ("flash", attention)):
        first, *others = (seconds(name, launch) for _ in range(1 + AGAIN))
        whole, alone = (min(found) for found in zip(*others, strict=True))
        print(f"{name}: first {first[0]:.2f} s ({first[1]:.2f} s), then {whole:.2f} s ({alone:.2f} s without reading)")


if __name__ == "__main__":
    main()
