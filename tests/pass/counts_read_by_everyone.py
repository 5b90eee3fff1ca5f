"""No false alarm: all warps and CTAs read the same words, and each writes its own."""

import numpy as np

from wsemu import cuda


@cuda.jit
def counts_read_by_everyone(table, y):
    i = cuda.grid(1)
    total = np.int64(0)
    for k in range(table.shape[0]):
        total += table[k]
    y[i] = total


counts_read_by_everyone[3, 64](np.arange(8), np.zeros(192, np.int64))
