import cupy as cp

total = cp.RawKernel(
    r"""
extern "C" __global__ void total(const float *x, float *out) {
    __shared__ float part[128];
    int t = threadIdx.x;
    part[t] = x[blockIdx.x * 128 + t];
    for (int half = 64; half; half /= 2) {
        __syncthreads();
        if (t < half) part[t] += part[t + half];
    }
    if (t == 0) out[blockIdx.x] = part[0];
}
""",
    "total",
    options=("-lineinfo",),
)

x = cp.arange(512, dtype=cp.float32)
out = cp.empty(4, cp.float32)
total((4,), (128,), (x, out))
assert out.get().sum() == x.get().sum()
