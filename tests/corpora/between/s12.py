import numpy as np
from kernels import fill

import wsemu

sequence = wsemu.Sequence()
sequence.stream("gpu0")
sequence.stream("gpu1", device=1)
x, y = np.zeros(64, np.float32), np.zeros(64, np.float32)
sequence.launch(fill, 2, 32, (x, 1.0), stream="gpu0")
sequence.record("filled", stream="gpu0")  # fixed
sequence.wait("filled", stream="gpu1")  # fixed
sequence.copy(x, y, stream="gpu1")  # expect: stream-race
sequence.synchronize("gpu1")
sequence.synchronize()
