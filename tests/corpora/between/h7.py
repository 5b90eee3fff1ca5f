import numpy as np

import wsemu

sequence = wsemu.Sequence()
d, old, new = (np.ones(64, np.float32) for _ in range(3))
sequence.declare(old, "old", "pinned")
sequence.declare(new, "new", "pinned")
sequence.copy(d, old, stream="s")
sequence.synchronize("s")  # fixed
sequence.free(old)  # expect: freed-in-use
sequence.copy(d, new, stream="s")
sequence.synchronize("s")
