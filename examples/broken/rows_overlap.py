"""Transfer duplicated: each thread of a strided transfer copies one word too many, which is the first of the next row.

The result is correct, because both threads store the same value.  But they race, and waste time.
"""

from dataclasses import dataclass

import wsemu
from wsemu.patterns import CudaDMACustom

ROWS = 32
COLUMNS = 8


@dataclass(frozen=True)
class Rows(CudaDMACustom):
    def transfer(self, thread, src, dst):
        for column in range(COLUMNS + (thread < ROWS - 1)):  # should be range(COLUMNS)
            dst[thread * COLUMNS + column] = src[thread * COLUMNS + column]

    def moves(self):
        return [(0, 0, 4 * ROWS * COLUMNS)]


print(wsemu.check_transfer(Rows(1, ROWS, 32, 32)))
