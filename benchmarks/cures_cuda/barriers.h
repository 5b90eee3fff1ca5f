// Small wrappers of PTX, in the style of CUTLASS: a ring has full and empty mbarriers, and a state of index and phase.
#pragma once
#include <cstdint>
#include <cuda.h>
#include <cuda_fp16.h>

#define DEVICE __device__ __forceinline__

DEVICE uint32_t smem(const void *p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

struct ClusterBarrier {
    uint64_t word;
    DEVICE void init(uint32_t count) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(smem(&word)), "r"(count) : "memory");
    }
    DEVICE void wait(uint32_t phase) {
        asm volatile(
            "{\n\t"
            ".reg .pred P1;\n\t"
            "LAB_WAIT:\n\t"
            "mbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1;\n\t"
            "@P1 bra DONE;\n\t"
            "bra LAB_WAIT;\n\t"
            "DONE:\n\t"
            "}" ::"r"(smem(&word)), "r"(phase) : "memory");
    }
    DEVICE void arrive() {
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(smem(&word)) : "memory");
    }
    DEVICE void arrive(uint32_t rank) {
        asm volatile(
            "{\n\t"
            ".reg .b32 remAddr32;\n\t"
            "mapa.shared::cluster.u32 remAddr32, %0, %1;\n\t"
            "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remAddr32];\n\t"
            "}" ::"r"(smem(&word)), "r"(rank) : "memory");
    }
    DEVICE void expect(uint32_t bytes) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(smem(&word)), "r"(bytes) : "memory");
    }
};

template <int Stages> struct PipelineState {
    uint32_t index = 0, phase = 0;
    DEVICE PipelineState(uint32_t first) : phase(first) {}
    DEVICE void operator++() {
        if (++index == Stages) {
            index = 0;
            phase ^= 1;
        }
    }
};

DEVICE void fence_barrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
DEVICE void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
DEVICE void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
DEVICE void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
DEVICE void named_sync(int id, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }
DEVICE void named_arrive(int id, int threads) { asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory"); }

DEVICE void bulk_load(void *to, const void *from, uint32_t bytes, ClusterBarrier &bar) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(smem(to)),
                 "l"(from), "r"(bytes), "r"(smem(&bar.word)) : "memory");
}
DEVICE void bulk_store(void *to, const void *from, uint32_t bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(smem(from)), "r"(bytes)
                 : "memory");
}
DEVICE void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int N> DEVICE void bulk_wait() { asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory"); }
DEVICE void tma_load(void *to, const CUtensorMap *map, ClusterBarrier &bar, int x, int y) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(
            smem(to)), "l"(map), "r"(smem(&bar.word)), "r"(x), "r"(y) : "memory");
}

DEVICE void copy_async(void *to, const void *from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(smem(to)), "l"(from) : "memory");
}
DEVICE void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> DEVICE void copy_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

DEVICE uint64_t descriptor(const void *p) {
    return ((smem(p) & 0x3FFFF) >> 4) | (uint64_t)1 << 16 | (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 62;
}
DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> DEVICE void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }
DEVICE void wgmma(float (&d)[4], uint64_t a, uint64_t b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b));
}
