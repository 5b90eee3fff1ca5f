"""Histogram with atomics: in global memory, and first in shared memory for each block."""

import numpy as np
from numba import cuda, int32

BINS = 64


@cuda.jit
def simple_histogram(data, bins):
    start = cuda.grid(1)
    for i in range(start, data.size, cuda.gridsize(1)):
        cuda.atomic.add(bins, data[i], 1)


@cuda.jit
def shared_histogram(data, bins):
    local = cuda.shared.array(BINS, int32)
    for b in range(cuda.threadIdx.x, BINS, cuda.blockDim.x):
        local[b] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), data.size, cuda.gridsize(1)):
        cuda.atomic.add(local, data[i], 1)
    cuda.syncthreads()
    for b in range(cuda.threadIdx.x, BINS, cuda.blockDim.x):
        cuda.atomic.add(bins, b, local[b])


data = np.random.default_rng(1).integers(0, BINS, 4000).astype(np.int32)
expected = np.bincount(data, minlength=BINS)
for kernel in (simple_histogram, shared_histogram):
    bins = cuda.to_device(np.zeros(BINS, np.int32))
    kernel[4, 96](cuda.to_device(data), bins)
    np.testing.assert_array_equal(bins.copy_to_host(), expected)
# expect: 2 kernels, 2 launches: 2 verified
