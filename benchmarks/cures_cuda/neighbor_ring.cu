// A ring of four CTAs: each stores its tile into the shared memory of the next one, which adds what it received.
#include "barriers.h"
constexpr int RANKS = 4, TILE = 32;

DEVICE uint32_t mapped(const void *p, uint32_t rank) {
    uint32_t there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(smem(p)), "r"(rank));
    return there;
}
DEVICE void store_there(uint32_t there, float value) {
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there), "f"(value) : "memory");
}
DEVICE void wait_cluster(ClusterBarrier &bar, uint32_t phase) {
    asm volatile(
        "{\n\t"
        ".reg .pred P1;\n\t"
        "AGAIN:\n\t"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 P1, [%0], %1;\n\t"
        "@!P1 bra AGAIN;\n\t"
        "}" ::"r"(smem(&bar.word)), "r"(phase) : "memory");
}

extern "C" __global__ void __cluster_dims__(RANKS) neighbor_ring(const float *x, float *y, int steps) {
    __shared__ float inbox[TILE];
    __shared__ ClusterBarrier arrived, taken;
    uint32_t rank = blockIdx.x % RANKS, next = (rank + 1) % RANKS, before = (rank + RANKS - 1) % RANKS;
    int t = threadIdx.x;
    if (t == 0) {
        arrived.init(TILE);
        taken.init(TILE);
        fence_barrier_init();
    }
    cluster_arrive();
    cluster_wait();
    float value = x[blockIdx.x * TILE + t], sum = value;
    for (int s = 0; s < steps; ++s) {
        if (s > 0) wait_cluster(taken, (s - 1) & 1);
        store_there(mapped(&inbox[t], next), value);
        arrived.arrive(next);
        wait_cluster(arrived, s & 1);
        value = inbox[TILE - 1 - t];
        taken.arrive(before);
        sum += value;
    }
    y[blockIdx.x * TILE + t] = sum;
    cluster_arrive();
    cluster_wait();
}
