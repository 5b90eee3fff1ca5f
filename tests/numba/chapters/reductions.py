"""`cuda.reduce`: a function of two as one of an array, on the host's arrays and on the device's."""

import numpy as np
from numba import cuda


@cuda.reduce
def total(a, b):
    return a + b


largest = cuda.reduce(lambda a, b: max(a, b))

for dtype in (np.float64, np.float32, np.int64):
    values = (np.arange(1234) % 97).astype(dtype)
    assert total(values) == values.sum()
    assert total(values, init=5) == values.sum() + 5
    assert largest(values) == values.max()
there = cuda.to_device(np.arange(100.0))
result = cuda.device_array(1)
total(there, res=result)
assert result.copy_to_host()[0] == 4950
# expect: 2 kernels, 28 launches: 28 verified
