"""Tcgen05 descriptor: an instruction descriptor, or a descriptor of a matrix in shared memory, has bits that the
operation does not allow.

Hardware: The behavior is undefined; the product may use other data.
"""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["descriptor_of_wgmma"]
kernel[1, 128](np.zeros(128, np.uint32))
