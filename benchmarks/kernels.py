"""Kernels that the benchmarks run on several machines: the emulator, Numba's CUDA simulator.

The machine is whatever `cuda` is: WSEMU_BENCHMARK=numba takes Numba's.
"""

from __future__ import annotations

import os

from numpy import float32

if os.environ.get("WSEMU_BENCHMARK") == "numba":
    from numba import cuda
else:
    from wsemu import cuda  # type: ignore[assignment]


@cuda.jit
def saxpy(a, x, y, n):  # type: ignore[no-untyped-def]
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    step = cuda.gridDim.x * cuda.blockDim.x
    while i < n:
        y[i] = a * x[i] + y[i]
        i += step


@cuda.jit
def sgemv(a, x, y, n):  # type: ignore[no-untyped-def]
    """y = A x, A column-major: 128 rows a CTA, 32 columns staged in shared memory at a time."""
    tile = cuda.shared.array((32, 128), float32)
    part = cuda.shared.array(32, float32)
    thread = cuda.threadIdx.x
    row = cuda.blockIdx.x * 128 + thread
    result = float32(0)
    for column in range(0, n, 32):
        if thread < 32:
            part[thread] = x[column + thread]
        for j in range(32):
            tile[j, thread] = a[column + j, row]
        cuda.syncthreads()
        for j in range(32):
            result += tile[j, thread] * part[j]
        cuda.syncthreads()
    y[row] = result


@cuda.jit
def exchange(x, y):  # type: ignore[no-untyped-def]
    """64 threads pass values through shared memory in 8 steps."""
    tile = cuda.shared.array(64, float32)
    thread = cuda.threadIdx.x
    value = x[thread]
    for _step in range(8):
        tile[thread] = value
        cuda.syncthreads()
        value = tile[thread + 32] + tile[thread] if thread < 32 else tile[63 - thread] * float32(0.5)
        cuda.syncthreads()
    y[thread] = value
