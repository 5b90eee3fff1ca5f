"""Tcgen05 fence: a relaxed wait orders no operation on tensor memory without `tcgen05.fence`.

Hardware: The fence emits no machine instruction: a compiler may move the load before the wait.
"""

from pathlib import Path

import numpy as np

import wsemu

kernel = wsemu.load_ptx(Path(__file__).with_suffix(".ptx"))["waits_without_a_fence"]
kernel[1, 256](np.zeros(256, np.uint32))
