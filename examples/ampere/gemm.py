"""The product of `gemm.cu` for Ampere: a ring that `cp.async` fills, `ldmatrix`, `mma.sync`.

    python examples/ampere/gemm.py [m n k [KERNEL]]

Computes c = a b^T of halves, in floats, and compares it with NumPy.  `gemm.cu` describes the mistakes of the other
kernels.
"""

import sys
from pathlib import Path

import numpy as np

import wsemu

TILE, THREADS, SHARED = 64, 128, 4 * 2 * 64 * 64 * 2


def main(m, n, k, name="gemm"):
    generator = np.random.default_rng(0)
    a, b = (generator.integers(-4, 5, (rows, k)).astype(np.float16) for rows in (m, n))
    c = np.zeros((m, n), np.float32)
    file = "gemm.sm_80.ptx" if name == "gemm" else "gemm.broken.sm_80.ptx"
    kernel = wsemu.load_ptx(Path(__file__).with_name(file))[name]
    kernel[(-(-n // TILE), -(-m // TILE)), THREADS, 0, SHARED](a, b, c, *np.array([m, n, k], np.int32))
    assert np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)


if __name__ == "__main__":
    main(*(int(x) for x in sys.argv[1:4] or (100, 70, 360)), *sys.argv[4:5])
