import numpy as np
from cuda.core import Device, LaunchConfig, LegacyPinnedMemoryResource, Program, ProgramOptions, launch

CODE = r"""
extern "C" __global__ void add(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n) y[i] += x[i];
}
"""
device = Device()
device.set_current()
stream = device.create_stream()
options = ProgramOptions(std="c++17", arch=f"sm_{device.arch}", lineinfo=True)
add = Program(CODE, code_type="c++", options=options).compile("cubin").get_kernel("add")

pinned = LegacyPinnedMemoryResource()
buffers = [pinned.allocate(4 * 1000) for _ in range(2)]
x, y = (np.from_dlpack(buffer).view(np.float32) for buffer in buffers)
x[:], y[:] = np.arange(1000), 1
launch(stream, LaunchConfig(grid=4, block=256), add, *buffers, np.int32(1000))
