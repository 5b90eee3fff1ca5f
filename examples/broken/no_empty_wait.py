"""Race: the DMA warp refills the tile while the compute warp still reads it; nothing signals "empty"."""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def no_empty_wait(a, x, y):
    tile = cuda.shared.array(32, np.float32)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x < 32:  # the compute warp
        acc = np.float32(0)
        for _ in range(2):
            ptx.bar_sync(1, 64)
            acc += a * tile[lane]
        y[lane] = acc

    else:  # the DMA warp
        for i in range(2):
            tile[lane] = x[i * 32 + lane]
            ptx.bar_arrive(1, 64)


x = np.arange(64, dtype=np.float32)
no_empty_wait[1, 64](np.float32(2), x, np.zeros(32, np.float32))
