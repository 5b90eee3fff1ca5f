"""The product of `gemm.cu` for Hopper: tensor copies, an mbarrier ring, two warpgroups with wgmma, tensor stores.

    python examples/hopper/gemm.py [m n k [KERNEL]]

Computes c = a b^T of halves and compares it with NumPy.  KERNEL is `gemm`, `gemm_pair` (clusters of two CTAs), or one
of the kernels with a mistake that `gemm.cu` describes.
"""

import sys
from pathlib import Path

import numpy as np

import wsemu

TILE, SLICE, THREADS = 128, 64, 384
SHARED = 4 * 2 * TILE * SLICE * 2 + TILE * TILE * 2 + 64


def main(m, n, k, name="gemm"):
    generator = np.random.default_rng(0)
    a, b = (generator.integers(-4, 5, (rows, k)).astype(np.float16) for rows in (m, n))
    c = np.zeros((m, n), np.float16)
    file = "gemm.sm_90a.ptx" if name in ("gemm", "gemm_pair") else "gemm.broken.sm_90a.ptx"
    kernel = wsemu.load_ptx(Path(__file__).with_name(file))[name]
    of_b = TILE // 2 if "pair" in name else TILE
    maps = [wsemu.TensorMap(x, [rows, SLICE], swizzle="128B") for x, rows in ((a, TILE), (b, of_b))]
    maps.append(wsemu.TensorMap(c, [64, 64], swizzle="128B"))
    kernel[(n // TILE, m // TILE), THREADS, 0, SHARED](*maps, np.int32(k))
    assert np.array_equal(c, (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float16))


if __name__ == "__main__":
    main(*(int(x) for x in sys.argv[1:4] or (128, 256, 256)), *sys.argv[4:5])
