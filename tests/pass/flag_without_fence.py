"""The fix of `flag_without_fence`: two launches, the second of which begins when the first has ended.

With fences and the flag the program is right too, but a wait for a flag is beyond a proof from one run: see
`incomplete/spin_on_a_flag.py`.
"""

import numpy as np

from wsemu import cuda


@cuda.jit
def write(data):
    data[cuda.threadIdx.x] = cuda.threadIdx.x


@cuda.jit
def read(data, y):
    y[cuda.threadIdx.x] = data[cuda.threadIdx.x]


data, y = np.zeros(32, np.int32), np.zeros(32, np.int32)
write[1, 32](data)
read[1, 32](data, y)
