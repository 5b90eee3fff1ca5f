"""Transfer missed: 100 words are copied in whole rounds of 32 threads, so the last 4 words are missing."""

from dataclasses import dataclass

import wsemu
from wsemu.patterns import CudaDMACustom

WORDS = 100


@dataclass(frozen=True)
class WholeRounds(CudaDMACustom):
    def transfer(self, thread, src, dst):
        for i in range(WORDS // self.dma_threads):  # should round up, and skip what is beyond the end
            dst[i * self.dma_threads + thread] = src[i * self.dma_threads + thread]

    def moves(self):
        return [(0, 0, 4 * WORDS)]


print(wsemu.check_transfer(WholeRounds(1, 32, 32, 32)))
