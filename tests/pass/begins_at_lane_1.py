"""The fix of `begins_at_lane_1`: the load begins at the first lane."""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["begins_at_lane_1"]
kernel[1, 128](np.zeros(128, np.uint32))
