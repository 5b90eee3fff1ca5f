"""Tmem bounds: tensor memory has 512 columns.

Hardware: The behavior is undefined. With `-g` the assembler adds a check that stops the launch.
"""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["loads_past_the_last_column"]
kernel[1, 128](np.zeros(128, np.uint32))
