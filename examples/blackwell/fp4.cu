// c = a b^T for Blackwell, of numbers of 4 bits (e2m1) with a scale factor (ue4m3) for each 16 of a row (NVFP4): c of m x n halves.
//
// a and b are m x k and n x k, two numbers in a byte. The factors of 128 rows and 64 columns are 512 contiguous bytes, in the
// order in which tcgen05.cp spreads them: byte 16 (row % 32) + 4 (row / 32) + column / 16.
//
// A CTA makes tiles of 128 x 128, and takes each gridDim.x-th tile. One thread is the producer: it fills a ring of stages,
// which have 256 columns of a and b and their factors. Another thread copies the factors of a stage to tensor memory, and
// multiplies: its commits free the stage (`empty`), and pass on the sums (`ready`), of which tensor memory has two. Four warps
// load them, give them back (`spare`), and store halves to c through shared memory.
//
// With BROKEN defined, kernels of other names, each with one mistake:
//   bytes     the bytes of the factors are not expected
//   early     the stage is given back before its factors are copied and its products are issued
//   apart     the factors are copied by another warp than the one that multiplies, which waits for the issue alone
//   few       two of the four copies of factors of b are left out
//   one_sum   the second tile is multiplied into the sums that are being loaded
//   unready   the sums are passed on by an arrival, not by a commit
//   parity    the phase of the sums does not change when their ring begins again
//   many      all lanes of the warp multiply
//   kept      tensor memory is not released
//   unfenced  no fence.proxy.async between the stores of halves and their tensor store
#include "blackwell.h"

enum { RIGHT, BYTES, EARLY, APART, FEW, ONE_SUM, UNREADY, PARITY, MANY, KEPT, UNFENCED };

constexpr int ROWS = 128, COLUMNS = 128, SLICE = 256, STAGES = 3, SUMS = 2, STEP = 64, STEPS = SLICE / STEP;
constexpr int TILE = ROWS * SLICE / 2, FACTORS = STEPS * 512;  // bytes in a stage: ROWS is COLUMNS
constexpr u32 OF_A = SUMS * COLUMNS, OF_B = OF_A + 4 * STEPS, ALLOCATED = 512;  // columns of tensor memory
constexpr u32 KIND = 1 << 7 | 1 << 10 | COLUMNS / 8 << 17 | ROWS / 16 << 24;

struct Shared {
    alignas(1024) char a[STAGES][TILE];
    alignas(1024) char b[STAGES][TILE];
    alignas(1024) __half c[2][ROWS * 64];
    alignas(128) char of_a[STAGES][FACTORS];
    alignas(128) char of_b[STAGES][FACTORS];
    u64 full[STAGES], empty[STAGES], ready[SUMS], spare[SUMS], copied;
    u32 sums;
};

struct Work { const char *of_a, *of_b; int down, tiles, slices; };

template <int WRONG> __device__ void produce(Shared &m, const Map *a, const Map *b, const Work &w) {
    int i = 0;
    for (int tile = blockIdx.x; tile < w.tiles; tile += gridDim.x) {
        int row = tile % w.down, column = tile / w.down;
        for (int j = 0; j < w.slices; j++, i++) {
            int stage = i % STAGES;
            wait(&m.empty[stage], i / STAGES % 2 ^ 1);
            expect(&m.full[stage], 2 * TILE + (WRONG == BYTES ? 0 : 2 * FACTORS));
            load(m.a[stage], a, j * SLICE / 2, row * ROWS, &m.full[stage]);
            load(m.b[stage], b, j * SLICE / 2, column * COLUMNS, &m.full[stage]);
            load_bytes(m.of_a[stage], w.of_a + (row * w.slices + j) * FACTORS, FACTORS, &m.full[stage]);
            load_bytes(m.of_b[stage], w.of_b + (column * w.slices + j) * FACTORS, FACTORS, &m.full[stage]);
        }
    }
}

template <int WRONG> __device__ void copy_stage(Shared &m, int stage) {
    for (int q = 0; q < STEPS; q++) copy_factors(m.sums + OF_A + 4 * q, factors(m.of_a[stage] + 512 * q));
    for (int q = 0; q < (WRONG == FEW ? 2 : STEPS); q++) copy_factors(m.sums + OF_B + 4 * q, factors(m.of_b[stage] + 512 * q));
}

template <int WRONG> __device__ void multiply_tiles(Shared &m, const Work &w) {
    u32 sums = m.sums;
    for (int round = 0, i = 0; blockIdx.x + round * gridDim.x < w.tiles; round++) {
        int sum = WRONG == ONE_SUM ? 0 : round % SUMS;
        wait(&m.spare[round % SUMS], (WRONG == PARITY ? round : round / SUMS) % 2 ^ 1);
        for (int j = 0; j < w.slices; j++, i++) {
            int stage = i % STAGES;
            u64 of_a = operand(m.a[stage]), of_b = operand(m.b[stage]);
            if (WRONG == APART) wait(&m.copied, i % 2); else wait(&m.full[stage], i / STAGES % 2);
            if (WRONG == EARLY) commit_own(&m.empty[stage]);
            if (WRONG != APART) copy_stage<WRONG>(m, stage);
            for (int q = 0; q < STEPS; q++) multiply_scaled(sums + sum * COLUMNS, of_a + 2 * q, of_b + 2 * q, KIND, sums + OF_A + 4 * q, sums + OF_B + 4 * q, j + q);
            if (WRONG != EARLY) commit_own(&m.empty[stage]);
        }
        if (WRONG == UNREADY) arrive(&m.ready[round % SUMS]); else commit_own(&m.ready[round % SUMS]);
    }
}

// of the warp that only copies, in the kernel where another multiplies
template <int WRONG> __device__ void copy_apart(Shared &m, const Work &w) {
    for (int i = 0, tile = blockIdx.x; tile < w.tiles; tile += gridDim.x)
        for (int j = 0; j < w.slices; j++, i++) {
            wait(&m.full[i % STAGES], i / STAGES % 2);
            copy_stage<WRONG>(m, i % STAGES);
            arrive(&m.copied);
        }
}

template <int WRONG> __device__ void finish(Shared &m, const Map *c, const Work &w) {
    int thread = threadIdx.x % 128, quarter = thread / 32;
    u32 sums = m.sums + (quarter << 21);
    for (int round = 0, tile = blockIdx.x; tile < w.tiles; round++, tile += gridDim.x) {
        int sum = round % SUMS;
        wait(&m.ready[sum], round / SUMS % 2);
        float s[COLUMNS];
        for (int j = 0; j < COLUMNS; j += 32) load32(s + j, sums + (WRONG == ONE_SUM ? 0 : sum) * COLUMNS + j);
        LOADED;
        __syncwarp();
        if (thread % 32 == 0) arrive(&m.spare[sum]);
        for (int j = 0; j < COLUMNS; j += 8) {
            __half2 h[4];
            for (int q = 0; q < 4; q++) h[q] = __floats2half2_rn(s[j + 2 * q], s[j + 2 * q + 1]);
            *(uint4 *)((char *)m.c[j / 64] + swizzled(thread, j % 64)) = *(uint4 *)h;
        }
        if (WRONG != UNFENCED) PROXY_FENCE;
        sync(1, 128);
        if (thread == 0) {
            for (int half = 0; half < 2; half++) store(c, tile / w.down * COLUMNS + half * 64, tile % w.down * ROWS, m.c[half]);
            store_done();
        }
        sync(1, 128);
    }
}

template <int WRONG> __device__ void gemm_scaled(const Map *a, const Map *b, const Map *c, const char *of_a, const char *of_b, int m_, int n, int k) {
    extern __shared__ __align__(1024) char raw[];
    Shared &m = *(Shared *)raw;
    int warp = threadIdx.x / 32, first = threadIdx.x % 32 == 0;
    Work w = {of_a, of_b, m_ / ROWS, m_ / ROWS * (n / COLUMNS), k / SLICE};
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) { init(&m.full[i], 1); init(&m.empty[i], 1); }
        for (int i = 0; i < SUMS; i++) { init(&m.ready[i], 1); init(&m.spare[i], 4); }
        init(&m.copied, 1);
        INIT_FENCE;
    }
    if (warp == 1) allocate_own(&m.sums, ALLOCATED);
    __syncthreads();
    if (warp >= 4) finish<WRONG>(m, c, w);
    else if (warp == 0) { if (first) produce<WRONG>(m, a, b, w); }
    else if (warp == 1) { if (first || WRONG == MANY) multiply_tiles<WRONG>(m, w); }
    else if (warp == 2) { if (first && WRONG == APART) copy_apart<WRONG>(m, w); }
    __syncthreads();
    if (warp == 1 && WRONG != KEPT) release_own(m.sums, ALLOCATED);
}

#define KERNEL(NAME, WRONG) \
    extern "C" __global__ void __launch_bounds__(256, 1) NAME(const __grid_constant__ Map a, const __grid_constant__ Map b, const __grid_constant__ Map c, const char *of_a, const char *of_b, int m, int n, int k) { gemm_scaled<WRONG>(&a, &b, &c, of_a, of_b, m, n, k); }
#ifdef BROKEN
KERNEL(fp4_bytes, BYTES)
KERNEL(fp4_early, EARLY)
KERNEL(fp4_apart, APART)
KERNEL(fp4_few, FEW)
KERNEL(fp4_one_sum, ONE_SUM)
KERNEL(fp4_unready, UNREADY)
KERNEL(fp4_parity, PARITY)
KERNEL(fp4_many, MANY)
KERNEL(fp4_kept, KEPT)
KERNEL(fp4_unfenced, UNFENCED)
#else
KERNEL(fp4, RIGHT)
#endif
