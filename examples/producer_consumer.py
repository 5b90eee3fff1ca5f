"""A DMA warp fills a tile, a compute warp uses it, eight times over: the smallest warp-specialized kernel.

    python examples/producer_consumer.py             run it: it is checked
    wsemu check examples/producer_consumer.py        the same, with a report

Barrier 1 signals that the tile is full, barrier 2 that it is empty.  Each side syncs on the barrier that it needs and
arrives on the other one.  So a tile is written only after it was read, and read only after it was written.

The kernel is correct.  NVIDIA's `compute-sanitizer --tool racecheck` (CUDA 13.0, on an H200) nevertheless reports a
race in it, with 256 hazards at each site, because it does not follow the order of named barriers.
"""

import numpy as np

from wsemu import cuda, ptx

TILES = 8
FULL = 1
EMPTY = 2
THREADS = 64  # of both warps: what each of the two barriers counts


@cuda.jit
def producer_consumer(x, y):
    tile = cuda.shared.array(32, np.float32)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x >= 32:  # the DMA warp
        for i in range(TILES):
            ptx.bar_sync(EMPTY, THREADS)
            tile[lane] = x[i * 32 + lane]
            ptx.bar_arrive(FULL, THREADS)
    else:  # the compute warp
        for i in range(TILES):
            ptx.bar_arrive(EMPTY, THREADS)
            ptx.bar_sync(FULL, THREADS)
            y[i * 32 + lane] = 2 * tile[31 - lane]


def main():
    x = np.arange(TILES * 32, dtype=np.float32)
    y = np.zeros_like(x)
    producer_consumer[1, THREADS](x, y)
    assert (y == 2 * x.reshape(TILES, 32)[:, ::-1].ravel()).all()
    print(f"producer_consumer: {TILES} tiles, each turned round and doubled")


if __name__ == "__main__":
    main()
