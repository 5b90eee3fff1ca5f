"""Kernels that the benchmarks run on several machines: the emulator and Numba's CUDA simulator; `peers/*.cl` has them
in OpenCL.

The machine depends on the `cuda` module: WSEMU_BENCHMARK=numba selects Numba's.
"""

from __future__ import annotations

import os

from numpy import float32

if os.environ.get("WSEMU_BENCHMARK") == "numba":
    from numba import cuda
else:
    from wsemu import cuda, ptx  # type: ignore[assignment]


@cuda.jit
def empty(a, x, y, n):  # type: ignore[no-untyped-def]
    """Do nothing, to measure the cost of a launch."""


@cuda.jit
def saxpy(a, x, y, n):  # type: ignore[no-untyped-def]
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    step = cuda.gridDim.x * cuda.blockDim.x
    while i < n:
        y[i] = a * x[i] + y[i]
        i += step


@cuda.jit
def saxpy_vectors(a, x, y, n):  # type: ignore[no-untyped-def]
    """Compute SAXPY over n groups of four elements, one access each.  This kernel runs only on wsemu, because Numba has
    no vector accesses."""
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    step = cuda.gridDim.x * cuda.blockDim.x
    while i < n:
        x0, x1, x2, x3 = ptx.ld_v4(x, 4 * i)
        y0, y1, y2, y3 = ptx.ld_v4(y, 4 * i)
        ptx.st_v4(y, 4 * i, (a * x0 + y0, a * x1 + y1, a * x2 + y2, a * x3 + y3))
        i += step


@cuda.jit
def sgemv(a, x, y, n):  # type: ignore[no-untyped-def]
    """Compute y = A x for a column-major A: 128 rows per CTA, 32 columns at a time in shared memory."""
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
def staged(a, x, y, n):  # type: ignore[no-untyped-def]
    """Compute the product of `sgemv` by two roles: 128 threads fill a stage of 8 columns while 128 others use the
    previous one.

    Both roles synchronize on the barrier of the whole CTA, since not every machine here has named barriers.
    """
    tile = cuda.shared.array((2, 8, 128), float32)
    part = cuda.shared.array((2, 8), float32)
    produces = cuda.threadIdx.x < 128
    thread = cuda.threadIdx.x % 128
    row = cuda.blockIdx.x * 128 + thread
    result = float32(0)
    for column in range(0, n + 8, 8):
        stage = column // 8 % 2
        if produces:
            if column < n:
                if thread < 8:
                    part[stage, thread] = x[column + thread]
                for j in range(8):
                    tile[stage, j, thread] = a[column + j, row]
        elif column > 0:
            for j in range(8):
                result += tile[1 - stage, j, thread] * part[1 - stage, j]
        cuda.syncthreads()
    if not produces:
        y[row] = result


@cuda.jit
def exchange(x, y):  # type: ignore[no-untyped-def]
    """Pass values of 64 threads through shared memory in 8 steps."""
    tile = cuda.shared.array(64, float32)
    thread = cuda.threadIdx.x
    value = x[thread]
    for _step in range(8):
        tile[thread] = value
        cuda.syncthreads()
        value = tile[thread + 32] + tile[thread] if thread < 32 else tile[63 - thread] * float32(0.5)
        cuda.syncthreads()
    y[thread] = value
