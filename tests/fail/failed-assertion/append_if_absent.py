"""Failed assertion: two threads append a key to a list unless it is there; in some orders of the atomics both find an
empty list.

Hardware: the assertion fails in few runs; without `debug` the thread ends silently.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def append_if_absent(keys, size):
    there = False
    n = cuda.atomic.add(size, 0, 0)
    for i in range(n):
        if cuda.atomic.add(keys, i, 0) == 7:
            there = True
    if not there:
        at = cuda.atomic.add(size, 0, 1)
        assert at == 0, "the key is there twice"  # expect: failed-assertion
        cuda.atomic.exch(keys, at, 7)


append_if_absent[2, 1](np.zeros(4, np.int32), np.zeros(1, np.int32))
