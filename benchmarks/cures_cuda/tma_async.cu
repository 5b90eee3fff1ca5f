// C[64, 8] = A[64, K] * B[8, K]^T with a pipeline class as CUTLASS's PipelineTmaAsync: one wgmma group stays in flight.
#include "barriers.h"
constexpr int STAGES = 3, BM = 64, BN = 8, BK = 64;
constexpr uint32_t STAGE_BYTES = (BM + BN) * BK * 2;

struct TmaPipeline {
    ClusterBarrier full[STAGES];
    ClusterBarrier empty[STAGES];

    DEVICE void init(uint32_t consumers) {
        for (int i = 0; i < STAGES; ++i) {
            full[i].init(1);
            empty[i].init(consumers);
        }
        fence_barrier_init();
    }
    DEVICE void producer_acquire(const PipelineState<STAGES> &state) {
        empty[state.index].wait(state.phase);
        full[state.index].expect(STAGE_BYTES);
    }
    DEVICE void consumer_wait(const PipelineState<STAGES> &state) { full[state.index].wait(state.phase); }
    DEVICE void consumer_release(const PipelineState<STAGES> &state) { empty[state.index].arrive(); }
};

struct __align__(1024) Shared {
    __half a[STAGES][BM * BK];
    __half b[STAGES][BN * BK];
    TmaPipeline pipe;
};

extern "C" __global__ void __launch_bounds__(256)
tma_async(const __grid_constant__ CUtensorMap ta, const __grid_constant__ CUtensorMap tb, float *c, int tiles) {
    extern __shared__ __align__(1024) unsigned char raw[];
    Shared &s = *reinterpret_cast<Shared *>(raw);
    int group = threadIdx.x / 128, lane = threadIdx.x % 128;
    if (threadIdx.x == 0) s.pipe.init(128);
    __syncthreads();
    if (group == 0) {
        if (lane == 0) {
            PipelineState<STAGES> write(1);
            for (int k = 0; k < tiles; ++k) {
                s.pipe.producer_acquire(write);
                tma_load(s.a[write.index], &ta, s.pipe.full[write.index], k * BK, blockIdx.x * BM);
                tma_load(s.b[write.index], &tb, s.pipe.full[write.index], k * BK, 0);
                ++write;
            }
        }
    } else {
        PipelineState<STAGES> read(0), release(0);
        float acc[4] = {0, 0, 0, 0};
        for (int k = 0; k < tiles; ++k) {
            s.pipe.consumer_wait(read);
            wgmma_fence();
            for (int i = 0; i < BK / 16; ++i)
                wgmma(acc, descriptor(&s.a[read.index][i * 16]), descriptor(&s.b[read.index][i * 16]));
            wgmma_commit();
            wgmma_wait<1>();
            if (k > 0) {
                s.pipe.consumer_release(release);
                ++release;
            }
            ++read;
        }
        wgmma_wait<0>();
        int row = blockIdx.x * BM + lane / 32 * 16 + lane % 32 / 4, column = lane % 4 * 2;
        c[row * BN + column] = acc[0];
        c[row * BN + column + 1] = acc[1];
        c[(row + 8) * BN + column] = acc[2];
        c[(row + 8) * BN + column + 1] = acc[3];
    }
}
