"""The fix of `descriptor_of_wgmma`: the descriptors have version 1."""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["descriptor_of_wgmma"]
kernel[1, 128](np.zeros(128, np.uint32))
