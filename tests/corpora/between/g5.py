import numpy as np
from kernels import fill

import wsemu

sequence = wsemu.Sequence()
x, y = np.zeros(64, np.float32), np.zeros(64, np.float32)
sequence.allocate(y, "y")  # fixed
sequence.begin_capture("s", "work")
sequence.launch(fill, 2, 32, (x, 1.0), stream="s")
sequence.allocate(y, "y")  # bad  # expect: capture-violation
sequence.end_capture("s", "work")
