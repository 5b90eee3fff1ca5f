import numpy as np
from kernels import fill

import wsemu

sequence = wsemu.Sequence()
tensor, h = np.zeros(64, np.float32), np.zeros(64, np.float32)
sequence.declare(h, "h", "pinned")
sequence.allocate(tensor, "tensor", stream="main")
sequence.launch(fill, 2, 32, (tensor, 1.0), stream="main")
sequence.record("made", stream="main")
sequence.wait("made", stream="side")
sequence.copy(tensor, h, stream="side")
sequence.record("copied", stream="side")  # fixed
sequence.wait("copied", stream="main")  # fixed
sequence.free(tensor, stream="main")  # expect: freed-in-use
sequence.synchronize()
