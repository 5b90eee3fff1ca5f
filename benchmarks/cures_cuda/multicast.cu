// y = x and 2 * x in a cluster of two: each CTA multicasts a half of each tile to both, and multiplies with its factor.
#include "barriers.h"
constexpr int STAGES = 2, TILE = 64;

DEVICE void bulk_multicast(void *to, const void *from, uint32_t bytes, ClusterBarrier &bar, uint16_t mask) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;"
        ::"r"(smem(to)), "l"(from), "r"(bytes), "r"(smem(&bar.word)), "h"(mask) : "memory");
}

extern "C" __global__ void __cluster_dims__(2) multicast(const float *x, float *y, int tiles) {
    __shared__ __align__(128) float buffer[STAGES][TILE];
    __shared__ ClusterBarrier full[STAGES], empty[STAGES];
    uint32_t rank = blockIdx.x % 2;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) {
            full[i].init(1);
            empty[i].init(4);
        }
        fence_barrier_init();
    }
    cluster_arrive();
    cluster_wait();
    if (threadIdx.x == 64) {
        PipelineState<STAGES> state(1);
        for (int k = 0; k < tiles; ++k) {
            empty[state.index].wait(state.phase);
            full[state.index].expect(TILE * 4);
            int half = rank * TILE / 2;
            bulk_multicast(&buffer[state.index][half], x + k * TILE + half, TILE * 2, full[state.index], 3);
            ++state;
        }
    } else if (threadIdx.x < 64) {
        PipelineState<STAGES> state(0);
        for (int k = 0; k < tiles; ++k) {
            full[state.index].wait(state.phase);
            float value = buffer[state.index][threadIdx.x];
            __syncwarp();
            if (threadIdx.x % 32 < 2) empty[state.index].arrive(threadIdx.x % 32);
            y[(rank * tiles + k) * TILE + threadIdx.x] = value * (rank + 1);
            ++state;
        }
    }
    cluster_arrive();
    cluster_wait();
}
