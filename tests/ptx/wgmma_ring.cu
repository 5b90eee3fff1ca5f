// A ring of two stages: a producer warp fills them by bulk copies, a warpgroup multiplies, and gives them back: each warp
// after its wait (mode 0), before it (mode 1), or one step later (mode 2).  From mode 3 on one thread gives them back for
// all four warps: after its wait (3), one step later (4), before its wait (5), after a wait for the step before (6).
// Mode 7: warp 3 waits for thread 0 to have waited, before it multiplies.  Mode 8: warp 3 reads `word` before it
// multiplies, thread 0 writes it after its wait.
#include <cstdint>
typedef uint32_t u32;
typedef uint64_t u64;
typedef uint8_t u8;

__device__ u32 place(const void *p) { return (u32)__cvta_generic_to_shared(p); }
__device__ u64 descriptor(u32 at, u32 leading, u32 stride, u32 swizzle) {
    return (u64)((at & 0x3FFFF) >> 4) | ((u64)(leading >> 4) << 16) | ((u64)(stride >> 4) << 32) | ((u64)swizzle << 62);
}
#define FENCE asm volatile("wgmma.fence.sync.aligned;" ::: "memory")
#define COMMIT asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory")
#define WAIT(n) asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(n) : "memory")
#define LIST4 "{%0, %1, %2, %3}"
#define LIST2 "{%0, %1}"

// rows of 32 bytes as groups of 8 rows of 16 bytes: 128 bytes to the next 16 of k, 256 to the next 8 rows
__device__ void put(u8 *to, const u8 *from, int rows) {
    for (int i = threadIdx.x; i < rows * 32; i += 128) {
        int r = i / 32, c = i % 32;
        to[r / 8 * 256 + c / 16 * 128 + r % 8 * 16 + c % 16] = from[i];
    }
}

#define GIVE(bar) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(place(&bar)) : "memory")

__device__ void wait_for(u64 *bar, u32 parity) {
    asm volatile("{ .reg .pred P1; LAB_WAIT: mbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1; @P1 bra DONE; bra LAB_WAIT; DONE: }" :: "r"(place(bar)), "r"(parity) : "memory");
}
extern "C" __global__ void __launch_bounds__(160) ring(const u8 *x, float *d, int steps, int mode) {
    __shared__ __align__(1024) u8 a[2][8192], b[2][8192];
    __shared__ u64 full[2], empty[2];
    int t = threadIdx.x;
    if (t == 0) for (int i = 0; i < 2; i++) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(place(&full[i])) : "memory");
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(place(&empty[i])), "r"(mode < 3 ? 4 : 1) : "memory");
    }
    __shared__ u64 late;
    __shared__ volatile u32 word;
    if (t == 0) {
        word = 1;
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(place(&late)) : "memory");
    }
    __syncthreads();
    if (t >= 128) {
        if (t == 128) for (int k = 0; k < steps; k++) {
            int s = k % 2;
            wait_for(&empty[s], (k / 2 + 1) % 2);
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 16384;" :: "r"(place(&full[s])) : "memory");
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 8192, [%2];" :: "r"(place(a[s])), "l"(x + k * 8192), "r"(place(&full[s])) : "memory");
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 8192, [%2];" :: "r"(place(b[s])), "l"(x + k * 8192), "r"(place(&full[s])) : "memory");
        }
        return;
    }
    float s[32];
    for (int i = 0; i < 32; i++) s[i] = 0;
    for (int k = 0; k < steps; k++) {
        int st = k % 2;
        wait_for(&full[st], k / 2 % 2);
        u64 da = descriptor(place(a[st]), 0, 1024, 1), db = descriptor(place(b[st]), 0, 1024, 1);
        if (mode == 7 && k == 1 && t >= 96) wait_for(&late, 0);
        if (mode == 8 && t == 96) d[4096] = word;
        FENCE;
        for (int j = 0; j < 4; j++)
            asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, %32, %33, 1, 1, 1, 0, 0;" : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3]), "+f"(s[4]), "+f"(s[5]), "+f"(s[6]), "+f"(s[7]), "+f"(s[8]), "+f"(s[9]), "+f"(s[10]), "+f"(s[11]), "+f"(s[12]), "+f"(s[13]), "+f"(s[14]), "+f"(s[15]), "+f"(s[16]), "+f"(s[17]), "+f"(s[18]), "+f"(s[19]), "+f"(s[20]), "+f"(s[21]), "+f"(s[22]), "+f"(s[23]), "+f"(s[24]), "+f"(s[25]), "+f"(s[26]), "+f"(s[27]), "+f"(s[28]), "+f"(s[29]), "+f"(s[30]), "+f"(s[31]) : "l"(da + 2 * j), "l"(db + 2 * j));
        COMMIT;
        if (mode == 1) { if (t % 32 == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(place(&empty[st])) : "memory"); WAIT(0); }
        else if (mode == 2) { WAIT(1); if (k && t % 32 == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(place(&empty[1 - st])) : "memory"); }
        else if (mode == 5) { if (t == 0) GIVE(empty[st]); WAIT(0); }
        else if (mode == 4 || mode == 6) { WAIT(1); if (t == 0 && (mode == 6 || k)) GIVE(empty[mode == 6 ? st : 1 - st]); }
        else if (mode >= 3) {
            WAIT(0);
            if (t == 0) GIVE(empty[st]);
            if (mode == 7 && k == 1 && t == 0) GIVE(late);
            if (mode == 8 && t == 0) word = k;
        }
        else { WAIT(0); if (t % 32 == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(place(&empty[st])) : "memory"); }
    }
    WAIT(0);
    for (int i = 0; i < 32; i++) d[t + 128 * i] = s[i];
}
