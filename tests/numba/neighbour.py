"""What `streams.py` imports: a function for the CPU and the GPU."""

import numba


@numba.njit
def clipped(x, limit):
    return min(x, limit)
