"""Two vectors added: host arrays, device arrays, and a grid that is too large."""

import numpy as np
from numba import cuda


@cuda.jit
def add(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]


def main():
    n = 1000
    x = np.arange(n, dtype=np.float32)
    y = 2 * x
    out = np.zeros_like(x)
    threads = 128
    blocks = (n + threads - 1) // threads
    add[blocks, threads](x, y, out)
    np.testing.assert_array_equal(out, x + y)

    d_x = cuda.to_device(x)
    d_y = cuda.to_device(y)
    d_out = cuda.device_array_like(d_x)
    add[blocks, threads](d_x, d_y, d_out)
    np.testing.assert_array_equal(d_out.copy_to_host(), x + y)
    add.forall(d_out.size)(d_x, d_x, d_out)
    np.testing.assert_array_equal(d_out.copy_to_host(), x + x)
    add[2, 64](d_x[100:200], d_y[:100], d_out[900:])
    np.testing.assert_array_equal(d_out[900:].copy_to_host(), x[100:200] + y[:100])
    print(f"{n} sums are right")


if __name__ == "__main__":
    main()
# expect: 1 kernel, 4 launches: 4 verified
