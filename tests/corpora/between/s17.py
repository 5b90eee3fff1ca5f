import numpy as np
from kernels import add, fill

from wsemu import cuda

up, run = cuda.stream(), cuda.stream()
buffers = [cuda.device_array(64, np.float32) for _ in range(2)]
total = cuda.to_device(np.zeros(64, np.float32))
full, empty = ([cuda.event() for _ in range(2)] for _ in range(2))
for k in range(4):
    slot = k % 2
    if k > 1:  # fixed
        empty[slot].wait(up)  # fixed
    fill[2, 32, up](buffers[slot], k)  # expect: stream-race
    full[slot].record(up)
    full[slot].wait(run)
    add[2, 32, run](buffers[slot], total, total)
    empty[slot].record(run)
cuda.synchronize()
