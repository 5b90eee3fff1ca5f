"""Tcgen05 issued by many: `tcgen05.mma` and `tcgen05.cp` are instructions of one thread.

Hardware: The assembler emits a loop over the active lanes.  A product that adds to its accumulator is added once for
each lane.
"""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["sixteen_lanes_multiply"]
kernel[1, 128](np.zeros(128, np.uint32))
