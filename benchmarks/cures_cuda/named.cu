// A producer warp and two consumer warps that meet at named barriers, with two buffers; y is x reversed in each tile.
#include "barriers.h"
constexpr int TILE = 64;

extern "C" __global__ void named(const float *x, float *y, int tiles) {
    __shared__ float buffer[2][TILE];
    if (threadIdx.x >= 64) {
        int lane = threadIdx.x - 64;
        for (int k = 0; k < tiles; ++k) {
            if (k >= 2) named_sync(3 + k % 2, 96);
            for (int i = lane; i < TILE; i += 32) buffer[k % 2][i] = x[k * TILE + i];
            named_arrive(1 + k % 2, 96);
        }
    } else {
        for (int k = 0; k < tiles; ++k) {
            named_sync(1 + k % 2, 96);
            y[k * TILE + threadIdx.x] = buffer[k % 2][TILE - 1 - threadIdx.x];
            if (k + 2 < tiles) named_arrive(3 + k % 2, 96);
        }
    }
}
