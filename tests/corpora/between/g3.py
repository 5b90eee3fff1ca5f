import numpy as np
from kernels import fill

import wsemu

sequence = wsemu.Sequence()
x = np.zeros(64, np.float32)
sequence.begin_capture("s", "work")
sequence.launch(fill, 2, 32, (x, 1.0), stream="s")  # expect: stale-capture
sequence.end_capture("s", "work")
sequence.launch_graph("work", stream="s")
sequence.free(x, stream="s")  # bad
sequence.launch_graph("work", stream="s")
sequence.synchronize("s")
