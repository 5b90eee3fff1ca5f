"""Intra-warp race: a transfer reverses its tile in place, and no `syncwarp` prevents a lane from overwriting a word
that another lane has yet to load."""

from dataclasses import dataclass

import numpy as np

from wsemu import cuda
from wsemu.patterns import CudaDMACustom, block_size


@dataclass(frozen=True)
class Reversed(CudaDMACustom):
    def transfer(self, thread, src, dst):
        dst[thread] = src[thread]
        dst[thread] = dst[31 - thread]  # from `src[31 - thread]` at once, there would be no second step


REVERSED = Reversed(1, 32, 32, 32)


@cuda.jit
def reversed_in_place(x, y):
    tile = cuda.shared.array(32, np.float32)
    if REVERSED.owns_this_thread():
        REVERSED.execute_dma(x, tile)
    else:
        REVERSED.start_async_dma()
        REVERSED.wait_for_dma_finish()
        y[cuda.threadIdx.x] = tile[cuda.threadIdx.x]


reversed_in_place[1, block_size(REVERSED)](np.arange(32, dtype=np.float32), np.zeros(32, np.float32))
