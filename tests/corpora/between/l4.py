import numpy as np
from kernels import fill

import wsemu

sequence = wsemu.Sequence()
x = np.zeros(64, np.float32)
sequence.declare(x, "x", "mapped")
sequence.launch(fill, 2, 32, (x, 1.0), stream="s")
sequence.synchronize("s")  # fixed
sequence.free(x)  # expect: freed-in-use
sequence.synchronize()
