import numpy as np

import wsemu

sequence = wsemu.Sequence()
sequence.stream("gpu0")
sequence.stream("gpu1", device=1)
x, block = np.ones(64, np.float32), np.zeros(64, np.float32)
sequence.allocate(block, "block", stream="gpu1")
sequence.record("allocated", stream="gpu1")  # fixed
sequence.wait("allocated", stream="gpu0")  # fixed
sequence.copy(x, block, stream="gpu0")  # expect: use-before-alloc
sequence.synchronize("gpu0")
sequence.synchronize("gpu1")
