// A scheduler warp hands tile numbers to worker warps through a mailbox with mbarriers, until -1 says that all is done.
#include "barriers.h"

extern "C" __global__ void scheduler(const float *x, float *y, int tiles) {
    __shared__ int mailbox[2];
    __shared__ ClusterBarrier posted[2], read[2];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x == 0)
        for (int i = 0; i < 2; ++i) {
            posted[i].init(1);
            read[i].init(64);
        }
    __syncthreads();
    PipelineState<2> state(0);
    if (warp == 2) {
        if (lane == 0)
            for (int k = 0; k <= tiles; ++k) {
                read[state.index].wait(state.phase ^ 1);
                mailbox[state.index] = k < tiles ? k : -1;
                posted[state.index].arrive();
                ++state;
            }
        return;
    }
    while (true) {
        posted[state.index].wait(state.phase);
        int tile = mailbox[state.index];
        read[state.index].arrive();
        if (tile < 0) break;
        y[tile * 64 + threadIdx.x] = 3 * x[tile * 64 + threadIdx.x];
        ++state;
    }
}
