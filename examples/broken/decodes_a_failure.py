"""Clc no ctaid: a kernel decodes the response to a failed request.

Hardware: PTX leaves the result undefined; nothing uses it here.
"""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["decodes_a_failure"]
kernel[3, 64](np.zeros((3, 64), np.uint32))
