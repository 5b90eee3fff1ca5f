// y[0] = sum of x: each block writes a partial sum, the last block to finish adds them up (CUDA's threadFenceReduction).
#include <cstdint>

__device__ float block_sum(float value, float *scratch) {
    scratch[threadIdx.x] = value;
    __syncthreads();
    for (unsigned width = blockDim.x / 2; width > 0; width >>= 1) {
        if (threadIdx.x < width) scratch[threadIdx.x] += scratch[threadIdx.x + width];
        __syncthreads();
    }
    return scratch[0];
}

extern "C" __global__ void last_block(const float *x, float *partial, unsigned *retired, float *y, int n) {
    extern __shared__ float scratch[];
    __shared__ bool is_last;
    float sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += x[i];
    sum = block_sum(sum, scratch);
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sum;
        __threadfence();
        unsigned ticket = atomicInc(retired, gridDim.x);
        is_last = ticket == gridDim.x - 1;
    }
    __syncthreads();
    if (is_last) {
        __threadfence();
        sum = 0;
        for (int i = threadIdx.x; i < gridDim.x; i += blockDim.x) sum += partial[i];
        __syncthreads();
        sum = block_sum(sum, scratch);
        if (threadIdx.x == 0) {
            y[0] = sum;
            *retired = 0;
        }
    }
}
