"""Tmem read unfinished: a load from tensor memory is not waited for.

Hardware: The assembler waits before a register of the load is used, but not before an arrival or a barrier.  If all
registers were used before, the load happens to be complete; PTX does not promise it.
"""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["overwritten_while_it_is_read"]
kernel[1, 256](np.zeros(256, np.uint32))
