import numpy as np

from wsemu import cuda

a, b = (cuda.to_device(np.ones(64, np.float32)) for _ in range(2))
x, y = (cuda.pinned_array(64, np.float32) for _ in range(2))
first, second = cuda.stream(), cuda.stream()
a.copy_to_host(x, stream=first)
b.copy_to_host(y, stream=second)
first.synchronize()
second.synchronize()  # fixed
print(x.sum())
print(y.sum())  # expect: host-race
