// y = 2 * x in tiles: one producer thread with bulk copies, consumers of two warps, three stages.
#include "barriers.h"
constexpr int STAGES = 3, TILE = 128;

extern "C" __global__ void ring(const float *x, float *y, int tiles) {
    __shared__ __align__(128) float buffer[STAGES][TILE];
    __shared__ ClusterBarrier full[STAGES], empty[STAGES];
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) {
            full[i].init(1);
            empty[i].init(2);
        }
        fence_barrier_init();
    }
    __syncthreads();
    if (threadIdx.x >= 64) {
        if (threadIdx.x == 64) {
            for (int k = 0; k < tiles; ++k) {
                int stage = k % STAGES;
                empty[stage].wait((k / STAGES & 1) ^ 1);
                full[stage].expect(TILE * 4);
                bulk_load(buffer[stage], x + k * TILE, TILE * 4, full[stage]);
            }
        }
    } else {
        for (int k = 0; k < tiles; ++k) {
            int stage = k % STAGES;
            full[stage].wait(k / STAGES & 1);
            float one = buffer[stage][threadIdx.x], two = buffer[stage][threadIdx.x + 64];
            __syncwarp();
            if (threadIdx.x % 32 == 0) empty[stage].arrive();
            y[k * TILE + threadIdx.x] = 2 * one;
            y[k * TILE + threadIdx.x + 64] = 2 * two;
        }
    }
}
