import numpy as np
from kernels import scale

import wsemu

sequence = wsemu.Sequence()
x, local = np.zeros(64, np.float32), np.ones(64, np.float32)
sequence.declare(local, "local", "pinned")
sequence.begin_capture("s", "work")
sequence.copy(local, x, stream="s")  # expect: stale-capture
sequence.launch(scale, 2, 32, (x, 2.0), stream="s")
sequence.end_capture("s", "work")
sequence.free(local)  # bad
sequence.launch_graph("work", stream="s")
sequence.synchronize("s")
