"""Arrays of other libraries: the CUDA array interface, and DLPack for arrays of the host."""

import numpy as np
from numba import cuda


class OnTheDevice:
    """What another library's device array shows."""

    def __init__(self, array):
        self._array = array

    @property
    def __cuda_array_interface__(self):
        return self._array.__cuda_array_interface__


class OnTheHost:
    """What another library's host array shows."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **options):
        return self._array.__dlpack__()

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


@cuda.jit
def add(x, y, out):
    for i in range(cuda.grid(1), x.shape[0], cuda.gridsize(1)):
        out[i] = x[i] + y[i]


a = cuda.to_device(np.arange(10))
out = cuda.device_array_like(a)
add[1, 32](OnTheDevice(a), OnTheDevice(a), OnTheDevice(out))
assert (out.copy_to_host() == 2 * np.arange(10)).all()
view = cuda.as_cuda_array(OnTheDevice(out))
assert cuda.is_cuda_array(view)
assert view.copy_to_host()[3] == 6

sums = np.zeros(10, dtype=np.int64)
add[1, 32](OnTheHost(np.arange(10)), np.ones(10, np.int64), OnTheHost(sums))
assert (sums == np.arange(10) + 1).all()
assert cuda.to_device(OnTheHost(sums)).copy_to_host().sum() == sums.sum()
# expect: 1 kernel, 2 launches: 2 verified
