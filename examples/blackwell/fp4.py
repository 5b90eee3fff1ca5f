"""The product of `fp4.cu` for Blackwell: numbers of 4 bits with a scale factor for each 16 (NVFP4).

    python examples/blackwell/fp4.py [m n k [KERNEL]]

Computes c = a b^T and compares it with NumPy.  KERNEL is `fp4`, or one of those with a mistake that `fp4.cu` lists.
"""

import sys
from pathlib import Path

import numpy as np

import wsemu

TILE, SLICE, STAGES, THREADS = 128, 256, 3, 256
SHARED = STAGES * (2 * TILE * SLICE // 2 + 2 * SLICE // 64 * 512) + TILE * TILE * 2 + 11 * 8 + 8
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)
FACTORS = {0x28: 0.25, 0x30: 0.5, 0x38: 1.0, 0x3C: 1.5, 0x40: 2.0}
"""a few numbers of the type ue4m3, by their bits"""


def random_matrix(generator, rows, columns):
    """Return the packed numbers, the factors in blocks, and the matrix that they represent."""
    numbers = generator.integers(0, 16, (rows, columns), np.uint8)
    factors = generator.choice(np.array([*FACTORS], np.uint8), (rows, columns // 16))
    packed = numbers[:, ::2] | numbers[:, 1::2] << 4
    blocks = factors.reshape(rows // 128, 4, 32, columns // 64, 4).transpose(0, 3, 2, 1, 4)
    values = np.vectorize(FACTORS.get)(factors).astype(np.float32)
    return packed, np.ascontiguousarray(blocks), E2M1[numbers] * values.repeat(16, 1)


def main(m, n, k, name="fp4"):
    generator = np.random.default_rng(0)
    (a, of_a, left), (b, of_b, right) = (random_matrix(generator, rows, k) for rows in (m, n))
    c = np.zeros((m, n), np.float16)
    file = "fp4.sm_100a.ptx" if name == "fp4" else "fp4.broken.sm_100a.ptx"
    kernel = wsemu.load_ptx(Path(__file__).with_name(file))[name]
    maps = [wsemu.TensorMap(x, box, swizzle="128B") for x, box in ((a, [TILE, 128]), (b, [TILE, 128]), (c, [TILE, 64]))]
    ctas = max(1, m // TILE * (n // TILE) // 3)
    kernel[ctas, THREADS, 0, SHARED](*maps, of_a, of_b, np.int32(m), np.int32(n), np.int32(k))
    assert np.array_equal(c, (left @ right.T).astype(np.float16))


if __name__ == "__main__":
    main(*(int(x) for x in sys.argv[1:4] or (384, 256, 512)), *sys.argv[4:5])
