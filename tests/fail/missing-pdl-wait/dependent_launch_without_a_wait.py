"""Missing pdl wait: a launch with programmatic stream serialization reads what the launch before it writes, without a
wait.

Hardware: the read gives the old value if the launches overlap.
"""

import numpy as np

import wsemu
from wsemu import cuda


@cuda.jit
def produce(x):
    i = cuda.grid(1)
    x[i] = i


@cuda.jit
def consume(x, y):
    i = cuda.grid(1)
    y[i] = 2 * x[i]  # expect: missing-pdl-wait


x, y = np.zeros(64, np.float32), np.zeros(64, np.float32)
sequence = wsemu.Sequence()
sequence.launch(produce, 2, 32, (x,), stream="s")
sequence.launch(consume, 2, 32, (x, y), stream="s", pdl=True)  # expect: missing-pdl-wait
