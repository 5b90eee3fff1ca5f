// A cluster of two CTAs: each sends its tile to the other one, tile by tile; y of a CTA is the sum of both tiles.
#include "barriers.h"
constexpr int TILE = 32;

extern "C" __global__ void __cluster_dims__(2) pair(const float *x, float *y, int tiles) {
    __shared__ float mail[2][TILE];
    __shared__ ClusterBarrier full[2], empty[2];
    uint32_t rank = blockIdx.x % 2, other = rank ^ 1;
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; ++i) {
            full[i].init(1);
            empty[i].init(1);
        }
        fence_barrier_init();
    }
    cluster_arrive();
    cluster_wait();
    for (int k = 0; k < tiles; ++k) {
        int stage = k % 2;
        uint32_t phase = k / 2 & 1;
        float own = x[(blockIdx.x * tiles + k) * TILE + threadIdx.x], got;
        asm volatile(
            "{\n\t"
            ".reg .pred P1;\n\t"
            "LAB_WAIT:\n\t"
            "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 P1, [%0], %1;\n\t"
            "@P1 bra DONE;\n\t"
            "bra LAB_WAIT;\n\t"
            "DONE:\n\t"
            "}" ::"r"(smem(&empty[stage])), "r"(phase ^ 1) : "memory");
        asm volatile(
            "{\n\t"
            ".reg .b32 to;\n\t"
            "mapa.shared::cluster.u32 to, %0, %1;\n\t"
            "st.shared::cluster.f32 [to], %2;\n\t"
            "}" ::"r"(smem(&mail[stage][threadIdx.x])), "r"(other), "f"(own) : "memory");
        __syncwarp();
        if (threadIdx.x == 0) full[stage].arrive(other);
        asm volatile(
            "{\n\t"
            ".reg .pred P1;\n\t"
            "LAB_WAIT:\n\t"
            "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 P1, [%0], %1;\n\t"
            "@P1 bra DONE;\n\t"
            "bra LAB_WAIT;\n\t"
            "DONE:\n\t"
            "}" ::"r"(smem(&full[stage])), "r"(phase) : "memory");
        got = mail[stage][threadIdx.x];
        __syncwarp();
        if (threadIdx.x == 0) empty[stage].arrive(other);
        y[(blockIdx.x * tiles + k) * TILE + threadIdx.x] = own + got;
    }
    cluster_arrive();
    cluster_wait();
}
