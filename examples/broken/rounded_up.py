"""Transfer spilled: 120 words are copied in whole rounds of 32 threads, 8 words too many."""

from dataclasses import dataclass

import wsemu
from wsemu.patterns import CudaDMACustom

WORDS = 120


@dataclass(frozen=True)
class Rounded(CudaDMACustom):
    def transfer(self, thread, src, dst):
        for i in range((WORDS + 31) // 32):
            word = i * 32 + thread
            dst[word] = src[word]  # belongs under `if word < WORDS`

    def moves(self):
        return [(0, 0, 4 * WORDS)]


print(wsemu.check_transfer(Rounded(1, 32, 32, 32)))
