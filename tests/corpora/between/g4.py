import numpy as np
from kernels import fill

import wsemu

sequence = wsemu.Sequence()
x, y = np.zeros(64, np.float32), np.zeros(64, np.float32)
sequence.begin_capture("s", "work")
sequence.record("fork", stream="s")
sequence.wait("fork", stream="side")
sequence.launch(fill, 2, 32, (x, 1.0), stream="side")
sequence.launch(fill, 2, 32, (y, 1.0), stream="s")
sequence.record("join", stream="side")  # fixed
sequence.wait("join", stream="s")  # fixed
sequence.end_capture("s", "work")  # expect: capture-violation
