"""The fix of `two_groups`: one value of `cta_group`."""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["two_groups"]
kernel[1, 128](np.zeros(128, np.uint32))
