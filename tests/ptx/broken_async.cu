// Asynchronous copies and mbarriers with a bug each; `expect:` says what must be found, on its line.
#include <cstdint>

__device__ __forceinline__ uint32_t shared_address(const void *pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

#define INIT(bar, count) \
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(bar)), "r"(count) : "memory")
#define ARRIVE(bar) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(bar)) : "memory")
#define EXPECT(bar, bytes)                                                                                           \
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(bar)), "r"((int)(bytes)) \
               : "memory")
#define WAIT(bar, parity)                                          \
  asm volatile(                                                    \
      "{\n.reg .pred done;\n"                                      \
      "again:\n"                                                   \
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n" \
      "@!done bra again;\n}" ::"r"(shared_address(bar)),           \
      "r"((int)(parity))                                           \
      : "memory")
#define COPY(to, from) \
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(to)), "l"(from) : "memory")
#define WAIT_ALL() asm volatile("cp.async.wait_all;" ::: "memory")
#define LOAD(to, from, bar)                                                                                   \
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"( \
                   shared_address(to)),                                                                       \
               "l"(from), "r"((int)sizeof(to)), "r"(shared_address(bar))                                      \
               : "memory")
#define STORE(to, from)                                                                     \
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n"              \
               "cp.async.bulk.commit_group;" ::"l"(to),                                     \
               "r"(shared_address(from)), "r"((int)sizeof(from))                            \
               : "memory")
#define STORED() asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory")
#define FENCE() asm volatile("fence.proxy.async.shared::cta;" ::: "memory")

// Read before it has come.
__global__ void copy_not_waited_for(const int *x, int *y) {
  __shared__ int tile[32];
  const int t = threadIdx.x;
  COPY(&tile[t], x + t);
  y[t] = tile[t];  // expect: race
  WAIT_ALL();
}

// A wait is for the thread's own copies: a barrier has to follow it.
__global__ void wait_after_barrier(const int *x, int *y) {
  __shared__ int tile[64];
  const int t = threadIdx.x;
  COPY(&tile[t], x + t);
  __syncthreads();
  WAIT_ALL();
  y[t] = tile[63 - t];  // expect: race
}

// The copy may be still under way when the CTA ends.
__global__ void left_alone(const int *x, int *y) {
  __shared__ int tile[32];
  const int t = threadIdx.x;
  COPY(&tile[t], x + t);  // expect: async-outlives-cta
  y[t] = t;
}

__global__ void store_left_alone(const int *x, int *y) {
  __shared__ alignas(16) int tile[32];
  const int t = threadIdx.x;
  tile[t] = x[t];
  FENCE();
  __syncwarp();
  if (t == 0) STORE(y, tile);  // expect: store-outlives-cta
}

// Stores to shared memory that the bulk copy may not see.
__global__ void store_without_fence(const int *x, int *y) {
  __shared__ alignas(16) int tile[64];
  const int t = threadIdx.x;
  tile[t] = x[t];
  __syncthreads();
  if (t == 0) {
    STORE(y, tile);  // expect: proxy
    STORED();
  }
}

// The source changes while it is read.
__global__ void source_written_again(const int *x, int *y) {
  __shared__ alignas(16) int tile[32];
  const int t = threadIdx.x;
  tile[t] = x[t];
  FENCE();
  __syncwarp();
  if (t == 0) STORE(y, tile);
  tile[t] = 0;  // expect: race
  if (t == 0) STORED();
}

// The barrier may not be there yet.
__global__ void no_barrier_after_init(int *y) {
  __shared__ uint64_t bar;
  if (threadIdx.x == 0) INIT(&bar, 64);
  ARRIVE(&bar);  // expect: mbarrier-uninitialized
  WAIT(&bar, 0);  // expect: mbarrier-uninitialized
  y[threadIdx.x] = threadIdx.x;
}

// Twice as many arrivals as it waits for.
__global__ void all_lanes_arrive(int *y) {
  __shared__ uint64_t bar;
  if (threadIdx.x == 0) INIT(&bar, 16);
  __syncwarp();
  ARRIVE(&bar);  // expect: over-arrival
  y[threadIdx.x] = threadIdx.x;
}

// Waits for bytes that nobody sends.
__global__ void bytes_that_never_come(const int *x, int *y) {
  __shared__ alignas(16) int tile[32];
  __shared__ uint64_t bar;
  if (threadIdx.x == 0) {
    INIT(&bar, 1);
    EXPECT(&bar, 2 * sizeof tile);
    LOAD(tile, x, &bar);
  }
  __syncwarp();
  WAIT(&bar, 0);  // expect: deadlock
  y[threadIdx.x] = tile[threadIdx.x];
}

// The producer does not wait until the stage is free.
__global__ void stage_not_free(const int *x, int *y, int tiles) {
  __shared__ alignas(16) int tile[32];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) INIT(&full, 1);
  __syncthreads();
#pragma unroll 1
  for (int k = 0; k < tiles; k++) {
    if (threadIdx.x == 32) {
      EXPECT(&full, sizeof tile);     // expect: phase-unobserved, phase-alias
      LOAD(tile, x + 32 * k, &full);  // expect: race, phase-alias
    }
    if (threadIdx.x < 32) {
      WAIT(&full, k & 1);  // expect: deadlock
      y[32 * k + threadIdx.x] = tile[threadIdx.x];
    }
  }
}
