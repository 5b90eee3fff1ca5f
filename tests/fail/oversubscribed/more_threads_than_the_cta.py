"""Oversubscribed: a kernel written for five warps is launched with four.

Reported: cutlass 2418 and others, a pipeline's number of arrivals fixed apart from the launch.
Hardware: hangs in every run.
"""

import numpy as np

from wsemu import cuda, ptx


@cuda.jit
def more_threads_than_the_cta(y):
    ptx.bar_sync(1, 160)  # expect: oversubscribed, deadlock
    y[cuda.threadIdx.x] = 1


more_threads_than_the_cta[1, 128](np.zeros(128, np.int32))
