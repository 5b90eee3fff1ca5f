import numpy as np
from kernels import scale

import wsemu

sequence = wsemu.Sequence()
x = np.ones(64, np.float32)
sequence.stream("s", "nonblocking")
sequence.memset(x, 0)
sequence.synchronize("default")  # fixed
sequence.launch(scale, 2, 32, (x, 2.0), stream="s")  # expect: stream-race
sequence.synchronize()
