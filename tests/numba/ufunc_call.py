"""NumPy's functions inside kernels: on numbers, and on whole arrays of which a thread has its own row."""

import numpy as np
from numba import cuda


@cuda.jit
def trigonometry(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = np.maximum(np.sin(x[i]), np.cos(x[i]))


@cuda.jit
def whole(x, out):
    np.sin(x, out)


@cuda.jit
def rows(x, scale, out):
    i = cuda.grid(1)
    if i < x.shape[0]:
        np.hypot(x[i], scale, out[i])
        np.maximum(out[i], 0.5, out[i])


x = np.linspace(0, 6, 50)
out = np.zeros_like(x)
trigonometry.forall(x.size, tpb=64)(x, out)
np.testing.assert_allclose(out, np.maximum(np.sin(x), np.cos(x)), rtol=1e-12)
whole[1, 1](x, out)
np.testing.assert_allclose(out, np.sin(x), rtol=1e-12)
table, result = x.reshape(10, 5), np.zeros((10, 5))
rows[1, 32](table, np.arange(5.0), result)
np.testing.assert_allclose(result, np.maximum(np.hypot(table, np.arange(5.0)), 0.5), rtol=1e-12)
# expect: 3 kernels, 3 launches: 3 verified
