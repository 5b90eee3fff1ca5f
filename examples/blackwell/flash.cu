// Attention's forward pass for Blackwell, o = softmax(q k^T scale) v of each head, with the roles of FlashAttention-4.
//
// q, k, v and o are [heads, length, 64] halves. A CTA makes 256 rows of o for one head, in two groups of 128. One thread is
// the producer: it loads q, and then k and v in tiles of 64 rows, each by a ring of two stages. Another multiplies, for both
// groups in turn: scores s = q k^T, and o += p v, where p has taken the columns of the scores in tensor memory. Two warpgroups
// compute the softmax: a thread loads a row of scores, and stores it as p. A third warpgroup corrects: if the maximum of a row
// grows, it multiplies the row of o, which stays in tensor memory, with the factor that the thread of that row has left in
// shared memory. In the end it divides by the sum of the row, and stores o.
//
// Mbarriers of each group: `scores` (a commit: the scores are complete, and so is p v of the tile before), `told` (the factor
// is there), `read` (it has been read), `ready` (p is stored, and o is corrected), `done` (a commit: o is complete).
//
// With BROKEN defined, kernels of other names, each with one mistake:
//   unstored   p is passed on before tcgen05.wait::st
//   hasty      a factor replaces one that may not have been read
//   over       the next scores are multiplied into the columns of p before p v is issued
//   early      v is given back before p v is issued
//   started    o is corrected before p v of the tile before is complete: the factor is not awaited
//   unready    p v does not wait for p and the correction
//   turned     correcting warps have each other's lanes
//   one_ring   the stage of v has the phase of the tile, not that of its ring
//   unfenced   no fence.proxy.async between the stores of o and its tensor store
//   kept       the first p v adds to what is in the columns of o
#include "blackwell.h"

enum { RIGHT, UNSTORED, HASTY, OVER, EARLY, STARTED, UNREADY, TURNED, ONE_RING, UNFENCED, KEPT };

constexpr int WIDTH = 64, ROWS = 128, TILE = 64, STAGES = 2, GROUPS = 2, BYTES = TILE * WIDTH * 2;
constexpr u32 OF_O = GROUPS * TILE, ALLOCATED = 256;  // columns of tensor memory: scores or p of each group, then o
constexpr u32 SCORES = 1 << 4 | TILE / 8 << 17 | ROWS / 16 << 24;               // halves, sums of f32
constexpr u32 VALUES = 1 << 4 | 1 << 16 | WIDTH / 8 << 17 | ROWS / 16 << 24;  // v is row by row

struct Shared {
    alignas(1024) __half q[GROUPS][ROWS * WIDTH];  // and o in the end
    alignas(1024) __half k[STAGES][TILE * WIDTH];
    alignas(1024) __half v[STAGES][TILE * WIDTH];
    float factor[GROUPS][ROWS];
    u64 q_full, k_full[STAGES], k_empty[STAGES], v_full[STAGES], v_empty[STAGES];
    u64 scores[GROUPS], told[GROUPS], read[GROUPS], ready[GROUPS], done[GROUPS];
    u32 columns;
};

// 2^x of x <= 0 by rounding to an integer, which goes to the exponent, and a polynomial of what is left
__device__ float power(float x) {
    x = fmaxf(x, -126.f);
    float whole = __fadd_rn(x, 12582912.f), rest = __fsub_rn(x, __fsub_rn(whole, 12582912.f));
    float p = 1.32647270e-3f;
    p = fmaf(p, rest, 9.67151276e-3f);
    p = fmaf(p, rest, 5.55073374e-2f);
    p = fmaf(p, rest, 2.40222421e-1f);
    p = fmaf(p, rest, 6.93146978e-1f);
    p = fmaf(p, rest, 1.f);
    return __int_as_float(__float_as_int(p) + (__float_as_int(whole) << 23));
}
__device__ u32 pair(float x, float y) {
    __half2 both = __floats2half2_rn(x, y);
    return *(u32 *)&both;
}
__device__ void arrive_warp(u64 *bar) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) arrive(bar);
}
__device__ u32 lanes() { return threadIdx.x / 32 % 4 << 21; }

template <int WRONG> __device__ void produce(Shared &m, const Map *q, const Map *k, const Map *v, int length) {
    int first = blockIdx.y * length, row = first + blockIdx.x * GROUPS * ROWS;
    expect(&m.q_full, GROUPS * ROWS * WIDTH * 2);
    for (int g = 0; g < GROUPS; g++) load(m.q[g], q, 0, row + g * ROWS, &m.q_full);
#pragma unroll 1
    for (int i = 0; i < length / TILE; i++) {
        int stage = i % STAGES, phase = i / STAGES % 2;
        wait(&m.k_empty[stage], phase ^ 1);
        expect(&m.k_full[stage], BYTES);
        load(m.k[stage], k, 0, first + i * TILE, &m.k_full[stage]);
        wait(&m.v_empty[stage], phase ^ 1);
        expect(&m.v_full[stage], BYTES);
        load(m.v[stage], v, 0, first + i * TILE, &m.v_full[stage]);
    }
}

template <int WRONG> __device__ void multiply_tiles(Shared &m, int tiles) {
    u32 columns = m.columns;
    auto scores = [&](int i, int g) {  // s = q k^T
        if (g == 0) wait(&m.k_full[i % STAGES], i / STAGES % 2);
        u64 of_q = operand(m.q[g]), of_k = operand(m.k[i % STAGES]);
        for (int j = 0; j < WIDTH / 16; j++) multiply_own(columns + g * TILE, of_q + 2 * j, of_k + 2 * j, SCORES, j);
        commit_own(&m.scores[g]);
        if (g == GROUPS - 1) commit_own(&m.k_empty[i % STAGES]);
    };
    auto values = [&](int i, int g) {  // o += p v
        if (g == 0) wait(&m.v_full[i % STAGES], (WRONG == ONE_RING ? i + 1 : i) / STAGES % 2);
        if (WRONG == EARLY && g == GROUPS - 1) commit_own(&m.v_empty[i % STAGES]);
        if (WRONG != UNREADY) wait(&m.ready[g], i % 2);
        u64 of_v = operand(m.v[i % STAGES]);
        for (int j = 0; j < TILE / 16; j++) multiply_columns(columns + OF_O + g * WIDTH, columns + g * TILE + 8 * j, of_v + 128 * j, VALUES, WRONG == KEPT ? 1 : i + j);
        if (WRONG != EARLY && g == GROUPS - 1) commit_own(&m.v_empty[i % STAGES]);
    };
    wait(&m.q_full, 0);
    for (int g = 0; g < GROUPS; g++) scores(0, g);
#pragma unroll 1
    for (int i = 0; i < tiles; i++)
        for (int g = 0; g < GROUPS; g++) {
            if (WRONG == OVER && i + 1 < tiles) scores(i + 1, g);
            values(i, g);
            if (i + 1 == tiles) commit_own(&m.done[g]);
            else if (WRONG != OVER) scores(i + 1, g);
        }
}

template <int WRONG> __device__ void soften(Shared &m, int g, int tiles, float scale) {
    u32 columns = m.columns + g * TILE + lanes();
    float top = -INFINITY, sum = 0, *factor = &m.factor[g][threadIdx.x % ROWS];
#pragma unroll 1
    for (int i = 0; i < tiles; i++) {
        float s[TILE];
        u32 p[TILE / 2];
        wait(&m.scores[g], i % 2);
        for (int j = 0; j < TILE; j += 32) load32(s + j, columns + j);
        LOADED;
        float most = top;
        for (int j = 0; j < TILE; j++) most = fmaxf(most, s[j]);
        float less = power((top - most) * scale);
        if (WRONG != HASTY) wait(&m.read[g], i % 2 ^ 1);
        *factor = less;
        arrive_warp(&m.told[g]);
        sum *= less;
        top = most;
        for (int j = 0; j < TILE; j++) {
            s[j] = power(fmaf(s[j], scale, -most * scale));
            sum += s[j];
        }
        for (int j = 0; j < TILE / 2; j++) p[j] = pair(s[2 * j], s[2 * j + 1]);
        store32(columns, p);
        if (WRONG != UNSTORED) STORED;
        arrive_warp(&m.ready[g]);
        if (WRONG == UNSTORED) STORED;
    }
    if (WRONG != HASTY) wait(&m.read[g], tiles % 2 ^ 1);
    *factor = sum;
    arrive_warp(&m.told[g]);
}

template <int WRONG> __device__ void correct(Shared &m, const Map *out, int length) {
    int tiles = length / TILE, thread = threadIdx.x % ROWS;
    u32 columns = m.columns + OF_O + (WRONG == TURNED ? lanes() ^ 1 << 21 : lanes());
#pragma unroll 1
    for (int i = 0; i < tiles; i++)
#pragma unroll 1
        for (int g = 0; g < GROUPS; g++) {
            if (WRONG != STARTED) wait(&m.told[g], i % 2);
            float less = m.factor[g][thread];
            arrive_warp(&m.read[g]);
            if (i && __any_sync(0xffffffff, less < 1)) {
                for (int j = 0; j < WIDTH; j += 32) {
                    float o[32];
                    load32(o, columns + g * WIDTH + j);
                    LOADED;
                    for (int x = 0; x < 32; x++) o[x] *= less;
                    store32(columns + g * WIDTH + j, (u32 *)o);
                }
                STORED;
            }
            arrive_warp(&m.ready[g]);
        }
#pragma unroll 1
    for (int g = 0; g < GROUPS; g++) {
        wait(&m.told[g], tiles % 2);
        float part = __frcp_rn(m.factor[g][thread]);
        wait(&m.done[g], 0);
        for (int j = 0; j < WIDTH; j += 32) {
            float o[32];
            u32 h[16];
            load32(o, columns + g * WIDTH + j);
            LOADED;
            for (int x = 0; x < 16; x++) h[x] = pair(o[2 * x] * part, o[2 * x + 1] * part);
            for (int x = 0; x < 16; x += 4) *(uint4 *)((char *)m.q[g] + swizzled(thread, j + 2 * x)) = *(uint4 *)(h + x);
        }
        if (WRONG != UNFENCED) PROXY_FENCE;
        sync(1, ROWS);
        if (thread == 0) store(out, 0, blockIdx.y * length + (blockIdx.x * GROUPS + g) * ROWS, m.q[g]);
    }
    if (thread == 0) store_done();
}

template <int WRONG> __device__ void attention(const Map *q, const Map *k, const Map *v, const Map *o, int length, float scale) {
    extern __shared__ __align__(1024) char raw[];
    Shared &m = *(Shared *)raw;
    int warp = threadIdx.x / 32, first = threadIdx.x % 32 == 0;
    if (threadIdx.x == 0) {
        init(&m.q_full, 1);
        for (int i = 0; i < STAGES; i++) {
            init(&m.k_full[i], 1); init(&m.k_empty[i], 1);
            init(&m.v_full[i], 1); init(&m.v_empty[i], 1);
        }
        for (int g = 0; g < GROUPS; g++) {
            init(&m.scores[g], 1); init(&m.done[g], 1);
            init(&m.told[g], 4); init(&m.read[g], 4); init(&m.ready[g], 8);  // warps of a warpgroup, or of two
        }
        INIT_FENCE;
    }
    if (warp == 12) allocate_own(&m.columns, ALLOCATED);
    __syncthreads();
    if (warp < 8) {
        MORE_REGISTERS(192);
        soften<WRONG>(m, warp / 4, length / TILE, scale * 1.4426950408889634f);
    } else if (warp < 12) {
        FEWER_REGISTERS(80);
        correct<WRONG>(m, o, length);
    } else {
        FEWER_REGISTERS(48);
        if (warp == 12 && first) multiply_tiles<WRONG>(m, length / TILE);
        if (warp == 13 && first) produce<WRONG>(m, q, k, v, length);
    }
    __syncthreads();
    if (warp == 12) release_own(m.columns, ALLOCATED);
}

#define KERNEL(NAME, WRONG) \
    extern "C" __global__ void __launch_bounds__(512, 1) NAME(const __grid_constant__ Map q, const __grid_constant__ Map k, const __grid_constant__ Map v, const __grid_constant__ Map o, int length, float scale) { attention<WRONG>(&q, &k, &v, &o, length, scale); }
#ifdef BROKEN
KERNEL(flash_unstored, UNSTORED)
KERNEL(flash_hasty, HASTY)
KERNEL(flash_over, OVER)
KERNEL(flash_early, EARLY)
KERNEL(flash_started, STARTED)
KERNEL(flash_unready, UNREADY)
KERNEL(flash_turned, TURNED)
KERNEL(flash_one_ring, ONE_RING)
KERNEL(flash_unfenced, UNFENCED)
KERNEL(flash_kept, KEPT)
#else
KERNEL(flash, RIGHT)
#endif
