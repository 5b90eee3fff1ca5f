"""The fix of `used_and_not_waited_for`: a wait ends the load before its registers are used."""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["used_and_not_waited_for"]
kernel[1, 256](np.zeros(256, np.uint32))
