// y = 3 * x in tiles: a producer warp fills a ring with cp.async, which arrives on the full barriers when its data is there.
#include "barriers.h"
constexpr int STAGES = 2, TILE = 128;

DEVICE bool elect_one() {
    uint32_t elected;
    asm volatile("{\n\t.reg .pred p;\n\telect.sync _|p, 0xffffffff;\n\tselp.u32 %0, 1, 0, p;\n\t}" : "=r"(elected));
    return elected;
}

DEVICE void arrive_on_copies(ClusterBarrier &bar) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(smem(&bar.word)) : "memory");
}

extern "C" __global__ void noinc(const float *x, float *y, int tiles) {
    __shared__ __align__(16) float buffer[STAGES][TILE];
    __shared__ ClusterBarrier full[STAGES], empty[STAGES];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) {
            full[i].init(32);
            empty[i].init(4);
        }
        fence_barrier_init();
    }
    __syncthreads();
    if (warp == 4) {
        PipelineState<STAGES> state(1);
        for (int k = 0; k < tiles; ++k) {
            empty[state.index].wait(state.phase);
            copy_async(&buffer[state.index][4 * lane], x + k * TILE + 4 * lane);
            arrive_on_copies(full[state.index]);
            ++state;
        }
    } else {
        PipelineState<STAGES> state(0);
        for (int k = 0; k < tiles; ++k) {
            full[state.index].wait(state.phase);
            float value = buffer[state.index][threadIdx.x];
            __syncwarp();
            if (elect_one()) empty[state.index].arrive();
            y[k * TILE + threadIdx.x] = 3 * value;
            ++state;
        }
    }
}
