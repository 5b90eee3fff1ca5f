// y[k] = a[k] * b[k] summed over pairs of warps' halves, with a pipeline as CUTLASS's PipelineTmaAsync: shared storage in
// a struct in dynamic shared memory, parameters, a state with a count, two consumer warps that release by one lane.
#include "barriers.h"
constexpr int STAGES = 4, TILE = 64;

struct State {
    int index = 0;
    uint32_t phase = 0;
    int count = 0;
    DEVICE void advance() {
        ++count;
        if (++index == STAGES) {
            index = 0;
            phase ^= 1;
        }
    }
};

DEVICE State producer_start() {
    State state;
    state.phase = 1;
    return state;
}

struct PipelineTmaAsync {
    struct SharedStorage {
        ClusterBarrier full_barrier[STAGES], empty_barrier[STAGES];
    };
    struct Params {
        uint32_t transaction_bytes;
        bool is_leader;
        uint32_t num_consumers;
    };
    SharedStorage &storage;
    Params params;

    DEVICE PipelineTmaAsync(SharedStorage &storage, Params params) : storage(storage), params(params) {
        if (threadIdx.x == 0) {
            uint32_t warps = params.num_consumers / 32;
            for (int i = 0; i < STAGES; ++i) {
                storage.full_barrier[i].init(1);
                storage.empty_barrier[i].init(warps);
            }
        }
        fence_barrier_init();
    }
    DEVICE void producer_acquire(State state) {
        storage.empty_barrier[state.index].wait(state.phase);
        if (params.is_leader) storage.full_barrier[state.index].expect(params.transaction_bytes);
    }
    DEVICE ClusterBarrier &producer_get_barrier(State state) { return storage.full_barrier[state.index]; }
    DEVICE void producer_tail(State state) {
        for (int i = 0; i < STAGES; ++i) {
            storage.empty_barrier[state.index].wait(state.phase);
            state.advance();
        }
    }
    DEVICE void consumer_wait(State state) { storage.full_barrier[state.index].wait(state.phase); }
    DEVICE void consumer_release(State state) {
        __syncwarp();
        if (threadIdx.x % 32 == 0) storage.empty_barrier[state.index].arrive();
    }
};

struct SharedStorage {
    alignas(128) float a[STAGES][TILE];
    alignas(128) float b[STAGES][TILE];
    PipelineTmaAsync::SharedStorage pipeline;
};

extern "C" __global__ void __launch_bounds__(96)
pipeline_class(const float *a, const float *b, float *y, int tiles) {
    extern __shared__ __align__(128) char memory[];
    SharedStorage &shared = *reinterpret_cast<SharedStorage *>(memory);
    int warp = threadIdx.x / 32;
    PipelineTmaAsync::Params params;
    params.transaction_bytes = 2 * TILE * sizeof(float);
    params.is_leader = threadIdx.x == 64;
    params.num_consumers = 64;
    PipelineTmaAsync pipeline(shared.pipeline, params);
    __syncthreads();
    if (warp == 2) {
        if (threadIdx.x == 64) {
            State write = producer_start();
            for (int k = 0; k < tiles; ++k) {
                pipeline.producer_acquire(write);
                ClusterBarrier &barrier = pipeline.producer_get_barrier(write);
                bulk_load(shared.a[write.index], a + k * TILE, TILE * sizeof(float), barrier);
                bulk_load(shared.b[write.index], b + k * TILE, TILE * sizeof(float), barrier);
                write.advance();
            }
            pipeline.producer_tail(write);
        }
    } else {
        State read;
        for (int k = 0; k < tiles; ++k) {
            pipeline.consumer_wait(read);
            float value = shared.a[read.index][threadIdx.x] * shared.b[read.index][threadIdx.x];
            pipeline.consumer_release(read);
            y[k * TILE + threadIdx.x] = value;
            read.advance();
        }
    }
}
