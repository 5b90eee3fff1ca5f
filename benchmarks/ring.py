"""Measure the cost of a checked ring of bulk copies: 128 threads, 4 stages, one producer.

    python benchmarks/ring.py [--tiles 4000] [--repeat 7]

The benchmark runs the same ring with tiles of 4 KB and of 16 KB, which are not read, so the difference is the cost of a
transferred byte (copied, checked against earlier accesses, and recorded).  It also runs a ring of only waits and
arrivals with the same number of rounds, for which all operations of warps on mbarriers are counted.  Figures are minima
of CPU time.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from numpy import float32, uint64

sys.path.insert(0, str(Path(__file__).parents[1]))
import wsemu
from wsemu import cuda, ptx

STAGES = 4
SMALL, LARGE = 4 * 1024, 16 * 1024
CONSUMERS = 96


@cuda.jit
def ring(x, tiles, size):
    tile = cuda.shared.array(0, float32)
    full, empty = cuda.shared.array(STAGES, uint64), cuda.shared.array(STAGES, uint64)
    if cuda.threadIdx.x == 0:
        for s in range(STAGES):
            ptx.mbarrier_init(full, s, 1)
            ptx.mbarrier_init(empty, s, CONSUMERS)
    cuda.syncthreads()
    if cuda.threadIdx.x == CONSUMERS:
        for i in range(tiles):
            ptx.mbarrier_wait_parity(empty, i % STAGES, i // STAGES & 1 ^ 1)
            ptx.mbarrier_arrive_expect_tx(full, i % STAGES, size)
            ptx.cp_async_bulk_global_to_shared(tile, i % STAGES * (LARGE // 4), x, 0, size, full, i % STAGES)
    elif cuda.threadIdx.x < CONSUMERS:
        for i in range(tiles):
            ptx.mbarrier_wait_parity(full, i % STAGES, i // STAGES & 1)
            ptx.mbarrier_arrive(empty, i % STAGES)


@cuda.jit
def handshakes(tiles):
    full, empty = cuda.shared.array(STAGES, uint64), cuda.shared.array(STAGES, uint64)
    if cuda.threadIdx.x == 0:
        for s in range(STAGES):
            ptx.mbarrier_init(full, s, 1)
            ptx.mbarrier_init(empty, s, CONSUMERS)
    cuda.syncthreads()
    if cuda.threadIdx.x == CONSUMERS:
        for i in range(tiles):
            ptx.mbarrier_wait_parity(empty, i % STAGES, i // STAGES & 1 ^ 1)
            ptx.mbarrier_arrive(full, i % STAGES)
    elif cuda.threadIdx.x < CONSUMERS:
        for i in range(tiles):
            ptx.mbarrier_wait_parity(full, i % STAGES, i // STAGES & 1)
            ptx.mbarrier_arrive(empty, i % STAGES)


def seconds(repeat: int, kernel: object, *arguments: object) -> float:
    """Return the minimum CPU time of a checked launch."""
    best = 1e9
    for _ in range(repeat + 1):
        started = time.process_time()
        report = wsemu.check(kernel, 1, 128, arguments, dynamic_shared=STAGES * LARGE)
        best = min(best, time.process_time() - started)
        assert report.verdict == "verified", report
    return best


def main() -> int:
    parser = argparse.ArgumentParser(description="What a checked ring of bulk copies costs.")
    parser.add_argument("--tiles", type=int, default=4000, help="rounds (4000)")
    parser.add_argument("--repeat", type=int, default=7, help="runs, of which the least counts (7)")
    options = parser.parse_args()
    x, tiles = np.ones(LARGE // 4, float32), options.tiles
    small, large = (seconds(options.repeat, ring, x, tiles, size) for size in (SMALL, LARGE))
    least, most = (seconds(options.repeat, handshakes, n) for n in (0, tiles))
    operations = tiles * 2 * (1 + CONSUMERS // 32)
    print(f"a byte of a bulk copy of 16 KB: {(large - small) / (tiles * (LARGE - SMALL)) * 1e9:.2f} ns")
    print(f"an operation of a warp on an mbarrier, its loop included: {(most - least) / operations * 1e6:.2f} us")
    print(f"a round of the ring, 16 KB: {large / tiles * 1e6:.1f} us")
    return 0


if __name__ == "__main__":
    sys.exit(main())
