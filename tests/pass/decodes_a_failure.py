"""The fix of `decodes_a_failure`: the CTA of a response is decoded only if there is one."""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["decodes_a_failure"]
kernel[3, 64](np.zeros((3, 64), np.uint32))
