// y[r] = sum of a row of x, a row in tiles: cp.async with four stages in dynamic shared memory, then a tree in shared memory.
#include "barriers.h"
constexpr int STAGES = 4, TILE = 128, THREADS = 32 * 2;

DEVICE void load_tile(float *stage, const float *x, int k, int tiles) {
    if (k < tiles) {
        if (threadIdx.x < TILE / 4) copy_async(stage + 4 * threadIdx.x, x + k * TILE + 4 * threadIdx.x);
    }
    copy_commit();
}

extern "C" __global__ void __launch_bounds__(THREADS) row_sums(const float *x, float *y, int tiles) {
    extern __shared__ __align__(16) float memory[];
    float *partial = memory + STAGES * TILE;
    x += blockIdx.x * tiles * TILE;
    for (int s = 0; s < STAGES - 1; ++s) load_tile(memory + s * TILE, x, s, tiles);
    float sum = 0;
    for (int k = 0; k < tiles; ++k) {
        copy_wait<STAGES - 2>();
        __syncthreads();
        const float *stage = memory + k % STAGES * TILE;
        for (int i = threadIdx.x; i < TILE; i += THREADS) sum += stage[i];
        int next = k + STAGES - 1;
        load_tile(memory + next % STAGES * TILE, x, next, tiles);
    }
    partial[threadIdx.x] = sum;
    __syncthreads();
    for (int width = THREADS / 2; width > 0; width /= 2) {
        if (threadIdx.x < width) partial[threadIdx.x] += partial[threadIdx.x + width];
        __syncthreads();
    }
    if (threadIdx.x == 0) y[blockIdx.x] = partial[0];
}
