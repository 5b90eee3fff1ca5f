"""The attention of `flash.cu` for Hopper: two warpgroups take turns at the tensor cores and at their softmax.

    python examples/hopper/flash.py [heads length [KERNEL]]

Computes o = softmax(q k^T / 8) v of each head, in halves, and compares it with NumPy.  `flash.cu` describes the
mistakes of the other kernels.
"""

import sys
from pathlib import Path

import numpy as np

import wsemu

WIDTH, ROWS, TILE, THREADS = 64, 128, 64, 384
SHARED = 6 * TILE * WIDTH * 2 + 9 * 8


def main(heads, length, name="flash"):
    generator = np.random.default_rng(0)
    q, k, v = (generator.standard_normal((heads * length, WIDTH)).astype(np.float16) for _ in range(3))
    o = np.zeros((heads * length, WIDTH), np.float16)
    scale = np.float32(WIDTH**-0.5)
    file = "flash.sm_90a.ptx" if name == "flash" else "flash.broken.sm_90a.ptx"
    kernel = wsemu.load_ptx(Path(__file__).with_name(file))[name]
    maps = [wsemu.TensorMap(x, [TILE, WIDTH], swizzle="128B") for x in (q, k, v, o)]
    kernel[(length // ROWS, heads), THREADS, 0, SHARED](*maps, np.int32(length), scale)
    of_q, of_k, of_v, result = (x.reshape(heads, length, WIDTH).astype(np.float32) for x in (q, k, v, o))
    p = np.exp(scale * of_q @ of_k.swapaxes(1, 2))
    assert np.allclose(result, p @ of_v / p.sum(2, keepdims=True), atol=2e-3)


if __name__ == "__main__":
    main(*(int(x) for x in sys.argv[1:3] or (1, 256)), *sys.argv[3:4])
