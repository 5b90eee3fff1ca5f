"""The fix of `releases_its_neighbour`: the release has the address of the allocation."""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["releases_its_neighbour"]
kernel[1, 128](np.zeros(128, np.uint32))
