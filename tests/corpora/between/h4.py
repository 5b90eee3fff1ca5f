import numpy as np
from kernels import add, fill

import wsemu

sequence = wsemu.Sequence()
temporary, out = np.zeros(256, np.float32), np.zeros(256, np.float32)
sequence.allocate(temporary, "temporary", stream="first")
sequence.launch(fill, 2, 128, (temporary, 1.0), stream="first")
sequence.record("filled", stream="first")
sequence.wait("filled", stream="second")
sequence.launch(add, 2, 128, (temporary, temporary, out), stream="second")
sequence.record("used", stream="second")  # fixed
sequence.wait("used", stream="first")  # fixed
sequence.free(temporary, stream="first")  # expect: freed-in-use
sequence.synchronize()
