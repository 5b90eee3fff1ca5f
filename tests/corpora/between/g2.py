import numpy as np

import wsemu

sequence = wsemu.Sequence()
x, staging = np.zeros(64, np.float32), np.ones(64, np.float32)
sequence.declare(staging, "staging", "pinned")
sequence.begin_capture("s", "work")
sequence.copy(staging, x, stream="s")
sequence.end_capture("s", "work")
sequence.launch_graph("work", stream="s")
sequence.synchronize("s")  # fixed
sequence.write(staging, 5.0)  # expect: host-race
sequence.launch_graph("work", stream="s")
sequence.synchronize("s")
