// What Blackwell adds to Hopper's machine, one function for each instruction: tensor memory, its products, cluster launch control.
#pragma once
#include "../hopper/hopper.h"

// -- mbarriers of a CTA of the cluster
__device__ void expect_at(u64 *bar, u32 bytes, u32 cta) {
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %2; mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [there], %1; }" :: "r"(place(bar)), "r"(bytes), "r"(cta) : "memory");
}
__device__ void wait_cluster(u64 *bar, u32 parity) {
    asm volatile("{ .reg .pred done; AGAIN: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1; @done bra DONE; bra AGAIN; DONE: }" :: "r"(place(bar)), "r"(parity) : "memory");
}
// a tensor copy to the own CTA, which completes the mbarrier of the first CTA of the pair
__device__ void load_pair(void *to, const Map *map, int x, int y, u64 *bar) {
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %4, 0; cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::2 [%0], [%1, {%2, %3}], [there]; }" :: "r"(place(to)), "l"(map), "r"(x), "r"(y), "r"(place(bar)) : "memory");
}

// -- tensor memory of a pair
__device__ void allocate(u32 *to, u32 columns) {
    asm volatile("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], %1;" :: "r"(place(to)), "r"(columns) : "memory");
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;");
}
__device__ void release(u32 at, u32 columns) { asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, %1;" :: "r"(at), "r"(columns)); }
__device__ u64 operand(const void *p) { return (u64)((place(p) & 0x3FFFF) >> 4) | (u64)1 << 16 | (u64)64 << 32 | (u64)1 << 46 | (u64)2 << 61; }
__device__ void multiply(u32 d, u64 a, u64 b, u32 kind, int more) {
    asm volatile("{ .reg .pred more; setp.ne.b32 more, %4, 0; tcgen05.mma.cta_group::2.kind::f16 [%0], %1, %2, %3, more; }" :: "r"(d), "l"(a), "l"(b), "r"(kind), "r"(more) : "memory");
}
// an arrival on this mbarrier of both CTAs when the products so far are complete
__device__ void commit_pair(u64 *bar) {
    asm volatile("{ .reg .b16 both; mov.b16 both, 3; tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], both; }" :: "r"(place(bar)) : "memory");
}
#define R4(i) "=f"(s[i]), "=f"(s[i + 1]), "=f"(s[i + 2]), "=f"(s[i + 3])
__device__ void load32(float *s, u32 at) {
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x32.b32 {" LIST32 "}, [%32];" : R4(0), R4(4), R4(8), R4(12), R4(16), R4(20), R4(24), R4(28) : "r"(at) : "memory");
}
#define LOADED asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory")

// -- cluster launch control
__device__ void request(void *to, u64 *bar) {
    asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128 [%0], [%1];" :: "r"(place(to)), "r"(place(bar)) : "memory");
}
// the first CTA of the canceled cluster along x, -1 if there is none
__device__ int canceled(const void *response) {
    int cta;
    asm volatile("{ .reg .b128 all; .reg .pred more; ld.shared.b128 all, [%1]; clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 more, all; mov.b32 %0, -1; @more clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %0, all; }" : "=r"(cta) : "r"(place(response)) : "memory");
    return cta;
}

// -- tensor memory of one CTA
__device__ void allocate_own(u32 *to, u32 columns) {
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" :: "r"(place(to)), "r"(columns) : "memory");
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;");
}
__device__ void release_own(u32 at, u32 columns) { asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" :: "r"(at), "r"(columns)); }
__device__ void multiply_own(u32 d, u64 a, u64 b, u32 kind, int more) {
    asm volatile("{ .reg .pred more; setp.ne.b32 more, %4, 0; tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, more; }" :: "r"(d), "l"(a), "l"(b), "r"(kind), "r"(more) : "memory");
}
// a in tensor memory
__device__ void multiply_columns(u32 d, u32 a, u64 b, u32 kind, int more) {
    asm volatile("{ .reg .pred more; setp.ne.b32 more, %4, 0; tcgen05.mma.cta_group::1.kind::f16 [%0], [%1], %2, %3, more; }" :: "r"(d), "r"(a), "l"(b), "r"(kind), "r"(more) : "memory");
}
// of numbers of 4 bits, of which each 16 have a scale factor in tensor memory
__device__ void multiply_scaled(u32 d, u64 a, u64 b, u32 kind, u32 of_a, u32 of_b, int more) {
    asm volatile("{ .reg .pred more; setp.ne.b32 more, %6, 0; tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X [%0], %1, %2, %3, [%4], [%5], more; }" :: "r"(d), "l"(a), "l"(b), "r"(kind), "r"(of_a), "r"(of_b), "r"(more) : "memory");
}
// 512 bytes of scale factors, the 4 of each row, to all four quarters of 4 columns
__device__ u64 factors(const void *p) { return (u64)((place(p) & 0x3FFFF) >> 4) | (u64)1 << 16 | (u64)8 << 32 | (u64)1 << 46; }
__device__ void copy_factors(u32 to, u64 from) { asm volatile("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;" :: "r"(to), "l"(from) : "memory"); }
__device__ void commit_own(u64 *bar) {
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" :: "r"(place(bar)) : "memory");
}
#define W4(i) "r"(p[i]), "r"(p[i + 1]), "r"(p[i + 2]), "r"(p[i + 3])
__device__ void store32(u32 at, const u32 *p) {
    asm volatile("tcgen05.st.sync.aligned.32x32b.x32.b32 [%32], {" LIST32 "};" :: W4(0), W4(4), W4(8), W4(12), W4(16), W4(20), W4(24), W4(28), "r"(at) : "memory");
}
#define STORED asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory")

// -- copies without a tensor map
__device__ void load_bytes(void *to, const void *from, u32 bytes, u64 *bar) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" :: "r"(place(to)), "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(place(bar)) : "memory");
}
