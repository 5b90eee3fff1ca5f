"""Work on several streams, each with its part of an array; constant memory; a module beside the program."""

import neighbour
import numpy as np
from numba import cuda

WEIGHTS = np.array([0.25, 0.5, 0.25], dtype=np.float32)


@cuda.jit
def smooth(x, out):
    weights = cuda.const.array_like(WEIGHTS)
    i = cuda.grid(1) + 1
    if i < x.size - 1:
        total = np.float32(0)
        for k in range(3):
            total += weights[k] * x[i - 1 + k]
        out[i] = neighbour.clipped(total, np.float32(0.75))


n, parts = 512, 4
host = np.random.default_rng(4).random(n, dtype=np.float32)
streams = [cuda.stream() for _ in range(parts)]
results = []
with cuda.pinned(host), cuda.defer_cleanup():
    for part, stream in zip(np.split(host, parts), streams, strict=True):
        d_part = cuda.to_device(part, stream=stream)
        d_out = cuda.device_array_like(part, stream=stream)
        d_out.copy_to_device(part, stream=stream)
        smooth[1, 128, stream](d_part, d_out)
        results.append(d_out.copy_to_host(stream=stream))
cuda.synchronize()
for part, result in zip(np.split(host, parts), results, strict=True):
    wanted = np.minimum(np.convolve(part, WEIGHTS, "valid"), 0.75)
    np.testing.assert_allclose(result[1:-1], wanted, rtol=1e-6)
# expect: 1 kernel, 4 launches: 4 verified
