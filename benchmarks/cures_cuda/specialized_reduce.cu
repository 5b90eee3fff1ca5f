// y[k] = sum of a tile: one warp loads tiles into two buffers, two warps add them up, with named barriers.
#include "barriers.h"
constexpr int TILE = 128, CONSUMERS = 64, ALL = CONSUMERS + 32;

enum Barrier { FILLED = 1, DRAINED = 3, REDUCED = 5 };

struct Buffers {
    float tile[2][TILE];
    float warp_sum[2];
};

DEVICE float add_lanes(float value) {
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffff, value, offset);
    return value;
}

DEVICE void produce(Buffers &shared, const float *x, int tiles, int lane) {
    for (int k = 0; k < tiles; ++k) {
        int b = k & 1;
        if (k >= 2) named_sync(DRAINED + b, ALL);
        for (int i = lane; i < TILE; i += 32) shared.tile[b][i] = x[k * TILE + i];
        named_arrive(FILLED + b, ALL);
    }
}

DEVICE void consume(Buffers &shared, float *y, int tiles, int thread) {
    for (int k = 0; k < tiles; ++k) {
        int b = k & 1;
        named_sync(FILLED + b, ALL);
        float sum = shared.tile[b][thread] + shared.tile[b][thread + CONSUMERS];
        if (k + 2 < tiles) named_arrive(DRAINED + b, ALL);
        sum = add_lanes(sum);
        if (thread % 32 == 0) shared.warp_sum[thread / 32] = sum;
        named_sync(REDUCED, CONSUMERS);
        if (thread == 0) y[k] = shared.warp_sum[0] + shared.warp_sum[1];
        named_sync(REDUCED, CONSUMERS);
    }
}

extern "C" __global__ void __launch_bounds__(ALL) specialized_reduce(const float *x, float *y, int tiles) {
    __shared__ Buffers shared;
    if (threadIdx.x < CONSUMERS)
        consume(shared, y, tiles, threadIdx.x);
    else
        produce(shared, x, tiles, threadIdx.x - CONSUMERS);
}
