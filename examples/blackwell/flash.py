"""The attention of `flash.cu` for Blackwell: warpgroups for the softmax and the correction, p and o in tensor memory.

    python examples/blackwell/flash.py [heads length [KERNEL]]

Computes o = softmax(q k^T / 8) v of each head, in halves, and compares it with NumPy.  `flash.cu` describes the
mistakes of the other kernels.
"""

import sys
from pathlib import Path

import numpy as np

import wsemu

WIDTH, ROWS, TILE, THREADS = 64, 128, 64, 512
SHARED = (2 * ROWS + 4 * TILE) * WIDTH * 2 + 2 * ROWS * 4 + 19 * 8 + 8


def main(heads, length, name="flash"):
    generator = np.random.default_rng(0)
    q, k, v = (generator.standard_normal((heads * length, WIDTH)).astype(np.float16) for _ in range(3))
    o = np.zeros((heads * length, WIDTH), np.float16)
    scale = np.float32(WIDTH**-0.5)
    file = "flash.sm_100a.ptx" if name == "flash" else "flash.broken.sm_100a.ptx"
    kernel = wsemu.load_ptx(Path(__file__).with_name(file))[name]
    boxes = (ROWS, TILE, TILE, ROWS)
    maps = [wsemu.TensorMap(x, [rows, WIDTH], swizzle="128B") for x, rows in zip((q, k, v, o), boxes, strict=True)]
    kernel[(length // (2 * ROWS), heads), THREADS, 0, SHARED](*maps, np.int32(length), scale)
    of_q, of_k, of_v, result = (x.reshape(heads, length, WIDTH).astype(np.float32) for x in (q, k, v, o))
    p = np.exp(scale * of_q @ of_k.swapaxes(1, 2))
    assert np.allclose(result, p @ of_v / p.sum(2, keepdims=True), atol=2e-3)


if __name__ == "__main__":
    main(*(int(x) for x in sys.argv[1:3] or (1, 256)), *sys.argv[3:4])
