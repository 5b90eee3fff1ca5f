"""Tmem alloc after relinquish: `tcgen05.relinquish_alloc_permit` promises that the CTA allocates no more tensor
memory.

Hardware: With `-g` the assembler adds a check that stops the launch.  Without it, the multiprocessor may already have
started another CTA, relying on the promise.
"""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["allocates_after_the_permit"]
kernel[1, 128](np.zeros(128, np.uint32))
