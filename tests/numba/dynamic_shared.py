"""Shared memory whose size the launch decides, used for two arrays of different types."""

import numba
import numpy as np
from numba import cuda


@cuda.jit
def reverse_two(ints, floats):
    n = ints.size
    whole = cuda.shared.array(0, dtype=numba.int32)
    first = whole[:n]
    second = cuda.shared.array(0, dtype=numba.float32)[n : 2 * n]
    i = cuda.threadIdx.x
    first[i] = ints[i]
    second[i] = floats[i]
    cuda.syncthreads()
    ints[i] = first[n - 1 - i]
    floats[i] = second[n - 1 - i]


n = 64
ints, floats = np.arange(n, dtype=np.int32), np.linspace(0, 1, n, dtype=np.float32)
d_ints, d_floats = cuda.to_device(ints), cuda.to_device(floats)
reverse_two[1, n, 0, 8 * n](d_ints, d_floats)
np.testing.assert_array_equal(d_ints.copy_to_host(), ints[::-1])
np.testing.assert_array_equal(d_floats.copy_to_host(), floats[::-1])
configured = reverse_two.configure(1, n, 0, 8 * n)
configured(d_ints, d_floats)
np.testing.assert_array_equal(d_ints.copy_to_host(), ints)
# expect: 1 kernel, 2 launches: 2 verified
