"""100 words in whole rounds of 32 threads: the last 4 words stay behind."""

from dataclasses import dataclass

import wsemu
from wsemu.patterns import CudaDMACustom


@dataclass(frozen=True)
class WholeRounds(CudaDMACustom):
    words: int

    def transfer(self, thread, src, dst):
        for i in range(self.words // self.dma_threads):
            word = i * self.dma_threads + thread
            dst[word] = src[word]

    def moves(self):
        return [(0, 0, 4 * self.words)]


wsemu.check_transfer(WholeRounds(1, 32, 32, 32, 100))
