// y = x + 1 in tiles with cuda::barrier: all consumer threads arrive, the producer thread copies with memcpy_async_tx.
#include <cuda/barrier>
#include <cuda/ptx>
#include <utility>
using barrier = cuda::barrier<cuda::thread_scope_block>;
constexpr int TILE = 128, STAGES = 2;

extern "C" __global__ void libcu(const float *x, float *y, int tiles) {
    __shared__ alignas(128) float buffer[STAGES][TILE];
#pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ barrier full[STAGES], empty[STAGES];
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            init(&full[s], 33);
            init(&empty[s], 33);
        }
        cuda::device::experimental::fence_proxy_async_shared_cta();
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        for (int s = 0; s < STAGES; ++s) {
            auto token = empty[s].arrive();
            (void)token;
        }
        for (int k = 0; k < tiles; ++k) {
            int s = k % STAGES;
            full[s].arrive_and_wait();
            for (int j = threadIdx.x; j < TILE; j += 32) y[k * TILE + j] = buffer[s][j] + 1;
            auto token = empty[s].arrive();
            (void)token;
        }
    } else if (threadIdx.x == 32) {
        for (int k = 0; k < tiles; ++k) {
            int s = k % STAGES;
            empty[s].arrive_and_wait();
            cuda::device::memcpy_async_tx(buffer[s], x + k * TILE, cuda::aligned_size_t<16>(4 * TILE), full[s]);
            auto token = cuda::device::barrier_arrive_tx(full[s], 1, 4 * TILE);
            (void)token;
        }
    }
}
