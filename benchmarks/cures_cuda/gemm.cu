// C[64, 8] = A[64, K] * B[8, K]^T for each CTA's rows: a producer warp with TMA, a consumer warpgroup with wgmma.
#include "barriers.h"
constexpr int STAGES = 2, BM = 64, BN = 8, BK = 64;
constexpr uint32_t A_BYTES = BM * BK * 2, B_BYTES = BN * BK * 2;

struct __align__(1024) Shared {
    __half a[STAGES][BM * BK];
    __half b[STAGES][BN * BK];
    ClusterBarrier full[STAGES];
    ClusterBarrier empty[STAGES];
};

extern "C" __global__ void __launch_bounds__(160)
gemm(const __grid_constant__ CUtensorMap ta, const __grid_constant__ CUtensorMap tb, float *c, int tiles) {
    extern __shared__ __align__(1024) unsigned char raw[];
    Shared &s = *reinterpret_cast<Shared *>(raw);
    int warp = threadIdx.x / 32;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) {
            s.full[i].init(1);
            s.empty[i].init(4);
        }
        fence_barrier_init();
    }
    __syncthreads();
    if (warp == 4) {
        if (threadIdx.x % 32 == 0) {
            PipelineState<STAGES> state(1);
            for (int k = 0; k < tiles; ++k) {
                s.empty[state.index].wait(state.phase);
                s.full[state.index].expect(A_BYTES + B_BYTES);
                tma_load(s.a[state.index], &ta, s.full[state.index], k * BK, blockIdx.x * BM);
                tma_load(s.b[state.index], &tb, s.full[state.index], k * BK, 0);
                ++state;
            }
        }
    } else {
        PipelineState<STAGES> state(0);
        float acc[4] = {0, 0, 0, 0};
        for (int k = 0; k < tiles; ++k) {
            s.full[state.index].wait(state.phase);
            wgmma_fence();
            for (int i = 0; i < BK / 16; ++i)
                wgmma(acc, descriptor(&s.a[state.index][i * 16]), descriptor(&s.b[state.index][i * 16]));
            wgmma_commit();
            wgmma_wait<0>();
            if (threadIdx.x % 32 == 0) s.empty[state.index].arrive();
            ++state;
        }
        int row = blockIdx.x * BM + warp * 16 + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
        c[row * BN + column] = acc[0];
        c[row * BN + column + 1] = acc[1];
        c[(row + 8) * BN + column] = acc[2];
        c[(row + 8) * BN + column + 1] = acc[3];
    }
}
