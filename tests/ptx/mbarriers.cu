// Barriers in shared memory and copies of a thread, as written for sm_80 on: by hand and with libcu++.
#include <cstdint>
#include <cuda/barrier>
#include <cuda/pipeline>

__device__ __forceinline__ uint32_t shared_address(const void *pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void init(uint64_t *bar, uint32_t count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(bar)), "r"(count) : "memory");
}

__device__ __forceinline__ uint64_t arrive(uint64_t *bar) {
  uint64_t state;
  asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(shared_address(bar)) : "memory");
  return state;
}

__device__ __forceinline__ void wait(uint64_t *bar, uint64_t state) {
  asm volatile(
      "{\n"
      ".reg .pred complete;\n"
      "wait_again:\n"
      "mbarrier.test_wait.shared.b64 complete, [%0], %1;\n"
      "@!complete bra wait_again;\n"
      "}" ::"r"(shared_address(bar)),
      "l"(state)
      : "memory");
}

// Each thread copies 28 bytes, in all three sizes; of the last 4 only `valid` bytes, the others become zeros.
__global__ void copied(const int *x, int *y, int valid, int skipped) {
  __shared__ alignas(16) int tile[64 * 8];
  const int t = threadIdx.x;
  const uint32_t to = shared_address(&tile[8 * t]);
  const int *from = x + 8 * t;
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
  asm volatile("cp.async.commit_group;" ::: "memory");
  asm volatile("cp.async.ca.shared.global [%0], [%1+16], 8;" ::"r"(to + 16), "l"(from) : "memory");
  asm volatile("cp.async.ca.shared.global [%0+24], [%1+24], 4, %2;" ::"r"(to), "l"(from), "r"(valid) : "memory");
  asm volatile(
      "{\n.reg .pred none;\nsetp.ne.s32 none, %2, 0;\n"
      "cp.async.ca.shared.global [%0+28], [%1+28], 4, none;\n}" ::"r"(to),
      "l"(from), "r"(skipped)
      : "memory");
  asm volatile("cp.async.commit_group;" ::: "memory");
  asm volatile("cp.async.wait_group 1;" ::: "memory");
  const int own = tile[8 * t];
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();
  for (int k = 0; k < 8; k++) y[8 * t + k] = tile[8 * (t ^ 1) + k] + own;
}

// The barrier waits for the copies: by arrivals that it counts, or by such as it does not.
template <bool counted>
__device__ void copies_arrive(const int *x, int *y) {
  __shared__ int tile[64];
  __shared__ uint64_t bar;
  const int t = threadIdx.x;
  if (t == 0) init(&bar, counted ? 128 : 64);
  __syncthreads();
  for (int round = 0; round < 2; round++) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(&tile[t])), "l"(x + 64 * round + t)
                 : "memory");
    if (counted)
      asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(&bar)) : "memory");
    else
      asm volatile("cp.async.mbarrier.arrive.shared.b64 [%0];" ::"r"(shared_address(&bar)) : "memory");
    wait(&bar, arrive(&bar));
    y[64 * round + t] = tile[63 - t];
    __syncthreads();
  }
}

__global__ void counted_copies(const int *x, int *y) { copies_arrive<true>(x, y); }
__global__ void copies_in_between(const int *x, int *y) { copies_arrive<false>(x, y); }

// libcu++
__global__ void barrier_object(int *y) {
  using barrier = cuda::barrier<cuda::thread_scope_block>;
#pragma nv_diag_suppress static_var_with_dynamic_init
  __shared__ barrier bar;
  __shared__ int tile[64];
  if (threadIdx.x == 0) init(&bar, blockDim.x);
  __syncthreads();
  for (int round = 0; round < 3; round++) {
    tile[threadIdx.x] = threadIdx.x + round;
    bar.arrive_and_wait();
    y[64 * round + threadIdx.x] = tile[63 - threadIdx.x];
    bar.wait(bar.arrive());
  }
}

__global__ void pipeline_of_threads(const int *x, int *y, int tiles) {
  __shared__ int tile[2][64];
  auto pipe = cuda::make_pipeline();
  const int t = threadIdx.x;
#pragma unroll 1
  for (int k = 0; k <= tiles; k++) {
    if (k < tiles) {
      pipe.producer_acquire();
      cuda::memcpy_async(&tile[k & 1][t], x + 64 * k + t, cuda::aligned_size_t<4>(4), pipe);
      pipe.producer_commit();
    }
    if (k == 0) continue;
    if (k < tiles)
      cuda::pipeline_consumer_wait_prior<1>(pipe);
    else
      cuda::pipeline_consumer_wait_prior<0>(pipe);
    __syncthreads();
    y[64 * (k - 1) + t] = tile[(k - 1) & 1][63 - t];
    __syncthreads();
    pipe.consumer_release();
  }
}
