// Moving sums of a tile and its neighbours, with cp.async in a ring of three stages.
#include "barriers.h"
constexpr int STAGES = 3, TILE = 256;

extern "C" __global__ void stages(const float *x, float *y, int tiles) {
    __shared__ __align__(16) float buffer[STAGES][TILE];
    int t = threadIdx.x;
    for (int k = 0; k < STAGES - 1; ++k) {
        if (k < tiles) copy_async(&buffer[k][4 * t], x + k * TILE + 4 * t);
        copy_commit();
    }
    for (int k = 0; k < tiles; ++k) {
        copy_wait<STAGES - 2>();
        __syncthreads();
        int next = k + STAGES - 1;
        if (next < tiles) copy_async(&buffer[next % STAGES][4 * t], x + next * TILE + 4 * t);
        copy_commit();
        const float *tile = buffer[k % STAGES];
        for (int j = 0; j < 4; ++j) {
            int i = 64 * j + t;
            y[k * TILE + i] = tile[i] + tile[(i + 1) % TILE] + tile[(i + TILE - 1) % TILE];
        }
    }
}
