"""Undefined behavior: there is a third kind of work, but the `brx.idx` has only two targets."""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx")).only()
kernel[1, 32](np.arange(32, dtype=np.uint32) % 3, np.zeros(32, np.uint32))
