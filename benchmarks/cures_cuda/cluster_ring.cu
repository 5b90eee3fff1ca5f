// A cluster of four: each CTA loads a quarter of a tile and multicasts it to all; CTA r writes the tile times r + 1.
#include "barriers.h"
constexpr int STAGES = 3, TILE = 128, CTAS = 4, PART = TILE / CTAS;

DEVICE uint32_t cluster_rank() {
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
DEVICE void multicast_load(void *to, const void *from, uint32_t bytes, ClusterBarrier &bar, uint16_t mask) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;"
        ::"r"(smem(to)), "l"(from), "r"(bytes), "r"(smem(&bar.word)), "h"(mask) : "memory");
}

struct Ring {
    ClusterBarrier full[STAGES];
    ClusterBarrier empty[STAGES];

    DEVICE void init() {
        for (int i = 0; i < STAGES; ++i) {
            full[i].init(1);
            empty[i].init(CTAS);
        }
        fence_barrier_init();
    }
    DEVICE void release(int stage, uint32_t thread) {
        if (thread < CTAS) empty[stage].arrive(thread);
    }
};

extern "C" __global__ void __cluster_dims__(4) cluster_ring(const float *x, float *y, int tiles) {
    __shared__ __align__(128) float tile[STAGES][TILE];
    __shared__ Ring ring;
    uint32_t rank = cluster_rank();
    uint16_t everyone = (1 << CTAS) - 1;
    if (threadIdx.x == 0) ring.init();
    cluster_arrive();
    cluster_wait();
    if (threadIdx.x >= TILE) {
        if (threadIdx.x == TILE) {
            for (int k = 0; k < tiles; ++k) {
                int stage = k % STAGES;
                if (k >= STAGES) ring.empty[stage].wait((k / STAGES - 1) & 1);
                ring.full[stage].expect(TILE * sizeof(float));
                multicast_load(&tile[stage][rank * PART], x + k * TILE + rank * PART, PART * sizeof(float),
                               ring.full[stage], everyone);
            }
        }
    } else {
        for (int k = 0; k < tiles; ++k) {
            int stage = k % STAGES;
            ring.full[stage].wait(k / STAGES & 1);
            float value = tile[stage][threadIdx.x];
            named_sync(1, TILE);
            ring.release(stage, threadIdx.x);
            y[(rank * tiles + k) * TILE + threadIdx.x] = value * (rank + 1);
        }
    }
    cluster_arrive();
    cluster_wait();
}
