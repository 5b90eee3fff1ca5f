// C = A * B in 16 x 16 tiles, with three stages of cp.async and a loop that loads two tiles ahead.
#include "barriers.h"
constexpr int T = 16, STAGES = 3;

DEVICE void load_tile(float (*to)[T], const float *from, int stride) {
    int t = threadIdx.x;
    if (t < T * T / 4) copy_async(&to[t / 4][t % 4 * 4], from + t / 4 * stride + t % 4 * 4);
}

extern "C" __global__ void tiled_gemm(const float *a, const float *b, float *c, int tiles) {
    __shared__ __align__(16) float sa[STAGES][T][T], sb[STAGES][T][T];
    int row = threadIdx.x / T, column = threadIdx.x % T, depth = tiles * T;
    float sum = 0;
    for (int s = 0; s < STAGES - 1; ++s) {
        if (s < tiles) {
            load_tile(sa[s], a + s * T, depth);
            load_tile(sb[s], b + s * T * T, T);
        }
        copy_commit();
    }
    for (int k = 0; k < tiles; ++k) {
        copy_wait<1>();
        __syncthreads();
        int next = k + STAGES - 1;
        if (next < tiles) {
            load_tile(sa[next % STAGES], a + next * T, depth);
            load_tile(sb[next % STAGES], b + next * T * T, T);
        }
        copy_commit();
        for (int i = 0; i < T; ++i) sum += sa[k % STAGES][row][i] * sb[k % STAGES][i][column];
    }
    c[row * T + column] = sum;
}
