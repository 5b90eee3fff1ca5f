// y = x + x reversed in each tile: each thread has a cuda::pipeline of two stages of its own, and shares what it copied.
#include <cuda/pipeline>
constexpr int STAGES = 2, TILE = 64;

extern "C" __global__ void block_pipeline(const float *x, float *y, int tiles) {
    __shared__ alignas(16) float buffer[STAGES][TILE];
    auto pipe = cuda::make_pipeline();
    int t = threadIdx.x;
    pipe.producer_acquire();
    cuda::memcpy_async(&buffer[0][t], x + t, sizeof(float), pipe);
    pipe.producer_commit();
    for (int k = 0; k < tiles; ++k) {
        if (k + 1 < tiles) {
            pipe.producer_acquire();
            cuda::memcpy_async(&buffer[(k + 1) % STAGES][t], x + (k + 1) * TILE + t, sizeof(float), pipe);
        }
        pipe.producer_commit();
        cuda::pipeline_consumer_wait_prior<1>(pipe);
        __syncthreads();
        y[k * TILE + t] = buffer[k % STAGES][t] + buffer[k % STAGES][TILE - 1 - t];
        __syncthreads();
        pipe.consumer_release();
    }
}
