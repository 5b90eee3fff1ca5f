import numpy as np
from kernels import fill

import wsemu

sequence = wsemu.Sequence()
x = np.zeros(64, np.float32)
sequence.allocate(x, "x", stream="owner")
sequence.record("allocated", stream="owner")  # fixed
sequence.wait("allocated", stream="user")  # fixed
sequence.launch(fill, 2, 32, (x, 1.0), stream="user")  # expect: use-before-alloc
sequence.synchronize("user")
sequence.free(x, stream="owner")
sequence.synchronize()
