import numpy as np
from kernels import add, fill

import wsemu

sequence = wsemu.Sequence()
stash, a, b = (np.zeros(64, np.float32) for _ in range(3))
sequence.allocate(stash, "stash", stream="s0")
sequence.launch(fill, 2, 32, (stash, 1.0), stream="s0")
sequence.record("filled", stream="s0")
for stream, out in (("s1", a), ("s2", b)):
    sequence.wait("filled", stream=stream)
    sequence.launch(add, 2, 32, (stash, stash, out), stream=stream)
    sequence.record(f"used in {stream}", stream=stream)
sequence.wait("used in s1", stream="s0")
sequence.wait("used in s2", stream="s0")  # fixed
sequence.free(stash, stream="s0")  # expect: freed-in-use
sequence.synchronize()
