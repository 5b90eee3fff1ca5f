import numpy as np
from kernels import fill

import wsemu

sequence = wsemu.Sequence(managed="exclusive")
idle, x = np.zeros(64, np.float32), np.zeros(64, np.float32)
sequence.declare(idle, "idle", "managed")
sequence.launch(fill, 2, 32, (x, 1.0), stream="s")
sequence.synchronize("s")  # fixed
sequence.read(idle)  # expect: managed-access
