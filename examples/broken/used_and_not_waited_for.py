"""Tmem read unwaited: a load from tensor memory ends only by the use of its registers.

Hardware: It waits for the load before the store; PTX promises that only for `tcgen05.wait::ld`.
"""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["used_and_not_waited_for"]
kernel[1, 256](np.zeros(256, np.uint32))
