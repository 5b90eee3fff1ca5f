"""The product of `gemm.cu` for Blackwell: pairs of CTAs, sums in tensor memory, tiles by cluster launch control.

    python examples/blackwell/gemm.py [m n k [KERNEL]]

Computes c = a b^T of halves and compares it with NumPy.  KERNEL is `gemm`, or one of those with a mistake that
`gemm.cu` lists.
"""

import sys
from pathlib import Path

import numpy as np

import wsemu

ROWS, COLUMNS, SLICE, THREADS = 128, 128, 64, 256
SHARED = 3 * (ROWS + COLUMNS // 2) * SLICE * 2 + 16 + 12 * 8 + 8


def main(m, n, k, name="gemm"):
    generator = np.random.default_rng(0)
    a, b = (generator.integers(-4, 5, (rows, k)).astype(np.float16) for rows in (m, n))
    c = np.zeros((m, n), np.float16)
    file = "gemm.sm_100a.ptx" if name == "gemm" else "gemm.broken.sm_100a.ptx"
    kernel = wsemu.load_ptx(Path(__file__).with_name(file))[name]
    maps = [wsemu.TensorMap(x, [rows, SLICE], swizzle="128B") for x, rows in ((a, ROWS), (b, COLUMNS // 2))]
    tiles = m // (2 * ROWS) * (n // COLUMNS)
    kernel[2 * tiles, THREADS, 0, SHARED](*maps, c, np.int32(m), np.int32(n), np.int32(k))
    assert np.array_equal(c, (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float16))


if __name__ == "__main__":
    main(*(int(x) for x in sys.argv[1:4] or (512, 256, 128)), *sys.argv[4:5])
