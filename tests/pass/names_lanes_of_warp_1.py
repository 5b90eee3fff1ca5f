"""The fix of `names_lanes_of_warp_1`: each warp loads its own lanes."""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["names_lanes_of_warp_1"]
kernel[1, 128](np.zeros(128, np.uint32))
