// Two consumer groups that take turns with named barriers, as FlashAttention-3's warpgroups: y[k] = y[k - 1] + x[k].
#include "barriers.h"
constexpr int FIRST = 1;

extern "C" __global__ void ordered(const float *x, float *y, int tiles) {
    __shared__ float total[32];
    int group = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x < 32) total[lane] = 0;
    __syncthreads();
    if (group == 1) named_arrive(FIRST, 64);
    for (int k = group; k < tiles; k += 2) {
        named_sync(FIRST + group, 64);
        float value = total[31 - lane] + x[k * 32 + lane];
        __syncwarp();
        total[lane] = value;
        y[k * 32 + lane] = value;
        if (k + 1 < tiles) named_arrive(FIRST + 1 - group, 64);
    }
}
