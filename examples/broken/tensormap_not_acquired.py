"""Tensormap-proxy: `tensormap.cp_fenceproxy` releases the map that it copies, and no thread acquires it.

Hardware: undefined; the copy may use the previous map.
"""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx")).only()
a, b = np.zeros((4, 32), np.float32), np.arange(256, dtype=np.float32).reshape(8, 32)
room, out = np.zeros(16, np.uint64), np.zeros((2, 32), np.float32)
kernel[1, 32](wsemu.TensorMap(a, [1, 32]), room, b, out)
assert np.array_equal(out[0], b[0])
