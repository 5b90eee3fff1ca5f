#include <cuda_runtime.h>

__global__ void reverse_kernel(float *out, const float *in, int count) {
    __shared__ float tile[256];
    int n = threadIdx.x;
    if (n < count) tile[n] = in[n];
    if (n < count) out[n] = tile[count - 1 - n];
}

void launch_reverse(float *out, const float *in, int count, cudaStream_t stream) {
    reverse_kernel<<<1, 256, 0, stream>>>(out, in, count);
}
