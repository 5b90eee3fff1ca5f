// c = a b^T for Hopper, warp-specialized: a of m x k, b of n x k, c of m x n halves, all row by row.
//
// A CTA of three warpgroups makes a tile of 128 x 128. One thread of the first one is the producer: it fills a ring of four
// stages with tiles of 128 x 64 of a and of b, by tensor copies that complete the mbarrier `full` of the stage. The
// other two multiply 64 rows each by wgmma with operands in shared memory, and give a stage back by an arrival of each
// warp on `empty`, one step later: then the wgmma that read it have been waited for. Sums go to shared memory as halves,
// and from there by tensor stores to c. The producer's registers go to the consumers.
//
// What a macro leaves out, or has elsewhere, makes the broken kernels of the same file:
//   early       the stage is given back before the wait that covers its wgmma
//   unfenced    no fence.proxy.async between the stores of the sums and the tensor store
//   one_stage   the consumers reckon the phase of a stage by the step before
//   untouched   the sums are converted before the last wait
#include <cuda_fp16.h>
#include <cstdint>
typedef uint32_t u32;
typedef uint64_t u64;

constexpr int ROWS = 128, COLUMNS = 128, SLICE = 64, STAGES = 4;
struct alignas(64) Map { u64 words[16]; };

struct Shared {
    alignas(1024) __half a[STAGES][ROWS * SLICE];
    alignas(1024) __half b[STAGES][COLUMNS * SLICE];
    alignas(1024) __half c[2][2][64 * 64];  // of each warpgroup, 64 columns each
    u64 full[STAGES], empty[STAGES];
};

__device__ u32 place(const void *p) { return (u32)__cvta_generic_to_shared(p); }
__device__ void init(u64 *bar, u32 count) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(place(bar)), "r"(count) : "memory"); }
__device__ void arrive(u64 *bar) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(place(bar)) : "memory"); }
__device__ void expect(u64 *bar, u32 bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(place(bar)), "r"(bytes) : "memory"); }
__device__ void wait(u64 *bar, u32 parity) {
    asm volatile("{ .reg .pred done; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; @done bra DONE; bra AGAIN; DONE: }" :: "r"(place(bar)), "r"(parity) : "memory");
}
__device__ void load(void *to, const Map *map, int x, int y, u64 *bar) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" :: "r"(place(to)), "l"(map), "r"(x), "r"(y), "r"(place(bar)) : "memory");
}
__device__ void store(const Map *map, int x, int y, const void *from) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" :: "l"(map), "r"(x), "r"(y), "r"(place(from)) : "memory");
}
// rows of 128 bytes with that swizzle, 1024 bytes to the next eight
__device__ u64 descriptor(const void *p) { return (u64)((place(p) & 0x3FFFF) >> 4) | (u64)1 << 16 | (u64)64 << 32 | (u64)1 << 62; }

#define OUT4(i) "+f"(s[i]), "+f"(s[i + 1]), "+f"(s[i + 2]), "+f"(s[i + 3])
#define OUT16(i) OUT4(i), OUT4(i + 4), OUT4(i + 8), OUT4(i + 12)
__device__ void multiply(float *s, u64 a, u64 b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, %64, %65, 1, 1, 1, 0, 0;"
        : OUT16(0), OUT16(16), OUT16(32), OUT16(48) : "l"(a), "l"(b));
}
#define FENCE asm volatile("wgmma.fence.sync.aligned;" ::: "memory")
#define COMMIT asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory")
#define WAIT(n) asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(n) : "memory")

enum { RIGHT, EARLY, UNFENCED, ONE_STAGE, UNTOUCHED };

template <int WRONG> __device__ void tile(const Map *a, const Map *b, const Map *c, int k) {
    extern __shared__ __align__(1024) char raw[];
    Shared &m = *(Shared *)raw;
    int group = threadIdx.x / 128, lane = threadIdx.x % 32, steps = k / SLICE;
    int row = blockIdx.y * ROWS, column = blockIdx.x * COLUMNS;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) { init(&m.full[i], 1); init(&m.empty[i], 8); }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0) for (int i = 0; i < steps; i++) {
            int stage = i % STAGES;
            wait(&m.empty[stage], i / STAGES % 2 ^ 1);
            expect(&m.full[stage], (ROWS + COLUMNS) * SLICE * 2);
            load(m.a[stage], a, i * SLICE, row, &m.full[stage]);
            load(m.b[stage], b, i * SLICE, column, &m.full[stage]);
        }
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    int own = group - 1;
    float s[64];
    for (int i = 0; i < 64; i++) s[i] = 0;
    for (int i = 0; i < steps; i++) {
        int stage = i % STAGES;
        wait(&m.full[stage], (WRONG == ONE_STAGE ? (i + STAGES - 1) : i) / STAGES % 2);
        u64 of_a = descriptor(m.a[stage] + own * 64 * SLICE), of_b = descriptor(m.b[stage]);
        FENCE;
        for (int j = 0; j < SLICE / 16; j++) multiply(s, of_a + 2 * j, of_b + 2 * j);
        COMMIT;
        WAIT(1);
        if (WRONG == EARLY) { if (lane == 0) arrive(&m.empty[stage]); }
        else if (i && lane == 0) arrive(&m.empty[(i - 1) % STAGES]);
    }
    if (WRONG != UNTOUCHED) WAIT(0);
    int line = threadIdx.x % 128 / 32 * 16 + lane / 4;
    for (int i = 0; i < 64; i += 2) {
        int at = line + i / 2 % 2 * 8, x = i / 4 * 8 + lane % 4 * 2;
        u32 byte = at * 128 + x % 64 * 2;
        byte ^= (at & 7) << 4;
        *(__half2 *)((char *)m.c[own][x / 64] + byte) = __floats2half2_rn(s[i], s[i + 1]);
    }
    if (WRONG == UNTOUCHED) WAIT(0);
    if (WRONG != UNFENCED) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("bar.sync %0, 128;" :: "r"(own + 1) : "memory");
    if (threadIdx.x % 128 == 0) {
        for (int i = 0; i < 2; i++) store(c, column + i * 64, row + own * 64, m.c[own][i]);
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
}

#define KERNEL(NAME, WRONG) \
    extern "C" __global__ void __launch_bounds__(384, 1) NAME(const __grid_constant__ Map a, const __grid_constant__ Map b, const __grid_constant__ Map c, int k) { tile<WRONG>(&a, &b, &c, k); }
KERNEL(gemm, RIGHT)
KERNEL(gemm_early, EARLY)
KERNEL(gemm_unfenced, UNFENCED)
KERNEL(gemm_one_stage, ONE_STAGE)
KERNEL(gemm_untouched, UNTOUCHED)
