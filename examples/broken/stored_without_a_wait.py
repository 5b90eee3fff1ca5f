"""Tmem race: two accesses to tensor memory overlap, at least one of them writes, and nothing orders them.

Hardware: The value that is read depends on the timing of the launch: nothing in the hardware waits.
"""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["stored_without_a_wait"]
kernel[1, 256](np.zeros(256, np.uint32))
