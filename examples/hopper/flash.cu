// Attention's forward pass for Hopper, o = softmax(q k^T scale) v of each head, with the ping-pong schedule of FlashAttention-3.
//
// q, k, v and o are [heads, length, 64] halves. A CTA of three warpgroups makes 128 rows of o for one head. One thread of
// the first warpgroup is the producer: it brings q, and then k and v in tiles of 64 rows, each through a ring of two stages.
// The other two warpgroups, of 64 rows each, take turns: while one multiplies, the other is at its softmax. Whose turn it
// is say two named barriers; a warpgroup waits on its own, issues q k^T of this tile and p v of the last one, and arrives on
// the other's. Scores, p and sums stay in registers. exp2 is a polynomial on the FMA units.
//
// With BROKEN defined, kernels of other names, each with one mistake:
//   one_id      both warpgroups take their turns on one barrier
//   no_start    nobody gives the first turn
//   early       v is given back when q k^T is done, with p v under way
//   untouched   the softmax begins before the wait for the scores
//   unfenced    no fence.proxy.async between the stores of o and its tensor store
//   greedy      consumers want more registers than the producer gives
//   one_ring    the stage of v has the phase of the tile, not that of its ring
#include "hopper.h"

enum { RIGHT, ONE_ID, NO_START, EARLY, UNTOUCHED, UNFENCED, GREEDY, ONE_RING };

constexpr int WIDTH = 64, ROWS = 64, TILE = 64, STAGES = 2, GROUPS = 2, BYTES = TILE * WIDTH * 2;
constexpr int TURN = 1, OWN = 1 + GROUPS;  // barriers, the first one of each kind

struct Shared {
    alignas(1024) __half q[GROUPS][ROWS * WIDTH];  // and o in the end
    alignas(1024) __half k[STAGES][TILE * WIDTH];
    alignas(1024) __half v[STAGES][TILE * WIDTH];
    u64 q_full, k_full[STAGES], k_empty[STAGES], v_full[STAGES], v_empty[STAGES];
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
// of the four lanes that have a row
__device__ float largest(float x) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffff, x, 2));
}
__device__ float sum_of(float x) {
    x += __shfl_xor_sync(0xffffffff, x, 1);
    return x + __shfl_xor_sync(0xffffffff, x, 2);
}

// Scores become p, and the sums and maxima of the thread's two rows follow; `less` is what earlier sums are multiplied with.
__device__ void softmax(float *s, float scale, float *top, float *sum, float *less) {
    for (int r = 0; r < 2; r++) {
        float most = top[r];
        for (int i = 2 * r; i < 32; i += 4) most = fmaxf(most, fmaxf(s[i], s[i + 1]));
        most = largest(most);
        less[r] = power((top[r] - most) * scale);
        top[r] = most;
        sum[r] *= less[r];
        for (int i = 2 * r; i < 32; i += 4) for (int j = i; j < i + 2; j++) {
            s[j] = power(fmaf(s[j], scale, -most * scale));
            sum[r] += s[j];
        }
    }
}
__device__ u32 pair(float x, float y) {
    __half2 both = __floats2half2_rn(x, y);
    return *(u32 *)&both;
}

template <int WRONG> __device__ void produce(Shared &m, const Map *q, const Map *k, const Map *v, int length) {
    int first = blockIdx.y * length, row = first + blockIdx.x * GROUPS * ROWS;
    expect(&m.q_full, GROUPS * BYTES);
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

template <int WRONG> __device__ void consume(Shared &m, const Map *out, int length, float scale) {
    int own = threadIdx.x / 128 - 1, thread = threadIdx.x % 128, lane = threadIdx.x % 32, tiles = length / TILE;
    float s[32], o[32], top[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0}, less[2];
    u32 p[16];
    for (int i = 0; i < 32; i++) o[i] = 0;
    u64 of_q = descriptor(m.q[own]);
    auto scores = [&](int i) {  // s = q k^T
        wait(&m.k_full[i % STAGES], i / STAGES % 2);
        u64 of_k = descriptor(m.k[i % STAGES]);
        FENCE;
        for (int j = 0; j < WIDTH / 16; j++) multiply64(s, of_q + 2 * j, of_k + 2 * j, j);
        COMMIT;
    };
    auto values = [&](int i) {  // o += p v
        wait(&m.v_full[i % STAGES], (WRONG == ONE_RING ? i + 1 : i) / STAGES % 2);
        u64 of_v = descriptor(m.v[i % STAGES]);
        FENCE;
        for (int j = 0; j < TILE / 16; j++) multiply64(o, p + 4 * j, of_v + 128 * j);
        COMMIT;
    };
    auto give = [&](u64 *empty, int i) { if (lane == 0) arrive(&empty[i % STAGES]); };
    auto turn = [&] { sync(WRONG == ONE_ID ? TURN : TURN + own, 256); };
    auto next = [&](int i) { if (!own || i + 1 < tiles) pass(WRONG == ONE_ID ? TURN : TURN + (own ^ 1), 256); };
    auto convert = [&] { for (int j = 0; j < 16; j++) p[j] = pair(s[2 * j], s[2 * j + 1]); };

    wait(&m.q_full, 0);
    if (own && WRONG != NO_START) pass(TURN, 256);  // the first turn is the other one's
    turn();
    scores(0);
    next(0);
    WAIT(0);
    give(m.k_empty, 0);
    softmax(s, scale, top, sum, less);
    convert();
    for (int i = 1; i < tiles; i++) {
        turn();
        scores(i);
        values(i - 1);
        next(i);
        if (WRONG != UNTOUCHED) WAIT(1);
        give(m.k_empty, i);
        if (WRONG == EARLY) give(m.v_empty, i - 1);
        softmax(s, scale, top, sum, less);
        WAIT(0);
        if (WRONG != EARLY) give(m.v_empty, i - 1);
        for (int j = 0; j < 32; j++) o[j] *= less[j / 2 % 2];
        convert();
    }
    values(tiles - 1);
    WAIT(0);
    for (int r = 0; r < 2; r++) less[r] = __frcp_rn(sum_of(sum[r]));
    for (int i = 0; i < 32; i += 2) {
        int row = thread / 32 * 16 + lane / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + lane % 4 * 2;
        *(u32 *)((char *)m.q[own] + swizzled(row, column)) = pair(o[i] * less[i / 2 % 2], o[i + 1] * less[i / 2 % 2]);
    }
    if (WRONG != UNFENCED) PROXY_FENCE;
    sync(OWN + own, 128);
    if (thread == 0) {
        store(out, 0, blockIdx.y * length + (blockIdx.x * GROUPS + own) * ROWS, m.q[own]);
        store_done();
    }
}

template <int WRONG> __device__ void attention(const Map *q, const Map *k, const Map *v, const Map *o, int length, float scale) {
    extern __shared__ __align__(1024) char raw[];
    Shared &m = *(Shared *)raw;
    if (threadIdx.x == 0) {
        init(&m.q_full, 1);
        for (int i = 0; i < STAGES; i++) {
            init(&m.k_full[i], 1); init(&m.k_empty[i], 4 * GROUPS);
            init(&m.v_full[i], 1); init(&m.v_empty[i], 4 * GROUPS);
        }
        INIT_FENCE;
    }
    __syncthreads();
    if (threadIdx.x < 128) {
        FEWER_REGISTERS(40);
        if (threadIdx.x == 0) produce<WRONG>(m, q, k, v, length);
    } else {
        MORE_REGISTERS(WRONG == GREEDY ? 240 : 232);
        consume<WRONG>(m, o, length, scale * 1.4426950408889634f);
    }
}

#define KERNEL(NAME, WRONG) \
    extern "C" __global__ void __launch_bounds__(384, 1) NAME(const __grid_constant__ Map q, const __grid_constant__ Map k, const __grid_constant__ Map v, const __grid_constant__ Map o, int length, float scale) { attention<WRONG>(&q, &k, &v, &o, length, scale); }
#ifdef BROKEN
KERNEL(flash_one_id, ONE_ID)
KERNEL(flash_no_start, NO_START)
KERNEL(flash_early, EARLY)
KERNEL(flash_untouched, UNTOUCHED)
KERNEL(flash_unfenced, UNFENCED)
KERNEL(flash_greedy, GREEDY)
KERNEL(flash_one_ring, ONE_RING)
#else
KERNEL(flash, RIGHT)
#endif
