// c = a b^T for Blackwell, by pairs of CTAs: a of m x k, b of n x k, c of m x n halves, all row by row.
//
// A pair makes tiles of 256 x 128: each CTA has 128 rows of a, and half of the rows of b. One thread of each CTA is the
// producer: it fills a ring of stages by tensor copies that complete the mbarrier `full` of the first CTA. There one thread
// multiplies, for both: its commits free the stage in both CTAs (`empty`), and pass on the sums (`ready`), of which tensor
// memory has two. Four warps of each CTA load them, give them back (`spare`), and store halves to c.
//
// Persistent: a pair begins with its own tile, and takes those of pairs that have not started, as long as there are any. A
// thread of the first CTA requests them; the response goes to both CTAs (`told`), and all roles give it back (`heard`).
//
// With BROKEN defined, kernels of other names, each with one mistake:
//   early     the stage is given back before the products that read it are issued
//   unwaited  the only sums are given back while their load may be in flight
//   bytes     the first CTA expects its own bytes alone
//   deaf      the response is given back before it is read
//   parity    the phase of the sums does not change when their ring begins again
//   gone      a CTA releases tensor memory while its peer may use it
#include "blackwell.h"

enum { RIGHT, EARLY, UNWAITED, BYTES, DEAF, PARITY, GONE };

constexpr int ROWS = 128, COLUMNS = 128, SLICE = 64, STAGES = 3, SUMS = 2;
constexpr u32 KIND = 1 << 4 | COLUMNS / 8 << 17 | 2 * ROWS / 16 << 24;  // halves, sums of f32

struct Shared {
    alignas(1024) __half a[STAGES][ROWS * SLICE];
    alignas(1024) __half b[STAGES][COLUMNS / 2 * SLICE];
    alignas(16) u32 response[4];
    u64 full[STAGES], empty[STAGES], ready[SUMS], spare[SUMS], told, heard;
    u32 sums;
};

// The number of sums that take turns.
template <int WRONG> constexpr int RING = WRONG == UNWAITED ? 1 : SUMS;

// The next tile of the pair, or -1, for one thread or all of a warp.
template <int WRONG, bool WARP = false> __device__ int next(Shared &m, int round) {
    wait_cluster(&m.told, round % 2);
    if (WRONG == DEAF) { if (threadIdx.x % 32 == 0) arrive_at(&m.heard, 0); }
    int cta = canceled(m.response);
    PROXY_FENCE;
    if (WARP) __syncwarp();
    if (WRONG != DEAF && threadIdx.x % 32 == 0) arrive_at(&m.heard, 0);
    return cta < 0 ? -1 : cta / 2;
}

template <int WRONG> __device__ void produce(Shared &m, const Map *a, const Map *b, int tile, int down, int steps) {
    int part = rank(), i = 0;
    for (int round = 0; tile >= 0; tile = next<WRONG>(m, round++)) {
        int row = tile % down * 2 * ROWS + part * ROWS, column = tile / down * COLUMNS + part * COLUMNS / 2;
        for (int j = 0; j < steps; j++, i++) {
            int stage = i % STAGES;
            wait_cluster(&m.empty[stage], i / STAGES % 2 ^ 1);
            if (part == 0) expect(&m.full[stage], (WRONG == BYTES ? 1 : 2) * (ROWS + COLUMNS / 2) * SLICE * 2);
            load_pair(m.a[stage], a, j * SLICE, row, &m.full[stage]);
            load_pair(m.b[stage], b, j * SLICE, column, &m.full[stage]);
        }
    }
}

template <int WRONG> __device__ void multiply_tiles(Shared &m, int tile, int steps) {
    u32 sums = m.sums;
    for (int round = 0, i = 0; tile >= 0; tile = next<WRONG>(m, round++)) {
        int sum = round % RING<WRONG>;
        wait_cluster(&m.spare[sum], (WRONG == PARITY ? round : round / RING<WRONG>) % 2 ^ 1);
        for (int j = 0; j < steps; j++, i++) {
            int stage = i % STAGES;
            wait_cluster(&m.full[stage], i / STAGES % 2);
            u64 of_a = operand(m.a[stage]), of_b = operand(m.b[stage]);
            if (WRONG == EARLY) commit_pair(&m.empty[stage]);
            for (int q = 0; q < SLICE / 16; q++) multiply(sums + sum * COLUMNS, of_a + 2 * q, of_b + 2 * q, KIND, j + q);
            if (WRONG != EARLY) commit_pair(&m.empty[stage]);
        }
        commit_pair(&m.ready[sum]);
    }
}

template <int WRONG> __device__ void schedule(Shared &m) {
    for (int round = 0, tile = 0; tile >= 0; tile = next<WRONG>(m, round++)) {
        wait_cluster(&m.heard, round % 2 ^ 1);
        for (int cta = 0; cta < 2; cta++) expect_at(&m.told, 16, cta);
        request(m.response, &m.told);
    }
}

template <int WRONG> __device__ void finish(Shared &m, __half *c, int tile, int down, int n) {
    int quarter = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    u32 sums = m.sums + (quarter << 21);
    for (int round = 0; tile >= 0; tile = next<WRONG, true>(m, round++)) {
        int sum = round % RING<WRONG>, row = tile % down * 2 * ROWS + rank() * ROWS + quarter * 32 + lane;
        __half *to = c + (size_t)row * n + tile / down * COLUMNS;
        wait_cluster(&m.ready[sum], round / RING<WRONG> % 2);
        float s[COLUMNS];
        for (int j = 0; j < COLUMNS; j += 32) load32(s + j, sums + sum * COLUMNS + j);
        if (WRONG != UNWAITED) LOADED;
        __syncwarp();
        if (lane == 0) arrive_at(&m.spare[sum], 0);
        if (WRONG == UNWAITED) LOADED;
        for (int j = 0; j < COLUMNS; j += 8) {
            __half2 h[4];
            for (int q = 0; q < 4; q++) h[q] = __floats2half2_rn(s[j + 2 * q], s[j + 2 * q + 1]);
            *(uint4 *)(to + j) = *(uint4 *)h;
        }
    }
}

template <int WRONG> __device__ void gemm_pairs(const Map *a, const Map *b, __half *c, int m_, int n, int k) {
    extern __shared__ __align__(1024) char raw[];
    Shared &m = *(Shared *)raw;
    int warp = threadIdx.x / 32, first = threadIdx.x % 32 == 0, tile = blockIdx.x / 2, down = m_ / (2 * ROWS), steps = k / SLICE;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) { init(&m.full[i], 1); init(&m.empty[i], 1); }
        for (int i = 0; i < SUMS; i++) { init(&m.ready[i], 1); init(&m.spare[i], 8); }
        init(&m.told, 1);
        init(&m.heard, 12);  // producers, four warps of each CTA, the multiplying and the requesting thread
        INIT_FENCE;
    }
    cluster_sync();
    if (warp == 1) allocate(&m.sums, SUMS * COLUMNS);
    cluster_sync();
    if (warp >= 4) finish<WRONG>(m, c, tile, down, n);
    else if (warp == 0) { if (first) produce<WRONG>(m, a, b, tile, down, steps); }
    else if (warp == 1) { if (first && rank() == 0) multiply_tiles<WRONG>(m, tile, steps); }
    else if (warp == 2) { if (first && rank() == 0) schedule<WRONG>(m); }
    __syncwarp();
    if (WRONG == GONE) __syncthreads(); else cluster_sync();
    if (warp == 1) release(m.sums, SUMS * COLUMNS);
}

#define KERNEL(NAME, WRONG) \
    extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(256, 1) NAME(const __grid_constant__ Map a, const __grid_constant__ Map b, __half *c, int m, int n, int k) { gemm_pairs<WRONG>(&a, &b, c, m, n, k); }
#ifdef BROKEN
KERNEL(gemm_early, EARLY)
KERNEL(gemm_unwaited, UNWAITED)
KERNEL(gemm_bytes, BYTES)
KERNEL(gemm_deaf, DEAF)
KERNEL(gemm_parity, PARITY)
KERNEL(gemm_gone, GONE)
#else
KERNEL(gemm, RIGHT)
#endif
