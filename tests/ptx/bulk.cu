// Bulk copies between global and shared memory, with the barriers of sm_90: spelled as CUTLASS and as cuda::ptx do.
#include <cstdint>
#include <cuda/barrier>
#include <cuda/ptx>

namespace ptx = cuda::ptx;

__device__ __forceinline__ uint32_t shared_address(const void *pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void init(uint64_t *bar, uint32_t count) {
  asm volatile("{\n\tmbarrier.init.shared::cta.b64 [%1], %0; \n}" ::"r"(count), "r"(shared_address(bar)) : "memory");
}

__device__ __forceinline__ void arrive(uint64_t *bar) {
  asm volatile("{\n\tmbarrier.arrive.shared::cta.b64 _, [%0];\n\t}" ::"r"(shared_address(bar)) : "memory");
}

__device__ __forceinline__ void arrive_and_expect(uint64_t *bar, uint32_t bytes) {
  asm volatile("{\n\tmbarrier.arrive.expect_tx.shared::cta.b64 _, [%1], %0; \n\t}" ::"r"(bytes), "r"(shared_address(bar))
               : "memory");
}

__device__ __forceinline__ void wait(uint64_t *bar, uint32_t parity) {
  asm volatile(
      "{\n\t.reg .pred P1; \n\t"
      "LAB_WAIT: \n\t"
      "mbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1, %2; \n\t"
      "@P1 bra DONE; \n\t"
      "bra LAB_WAIT; \n\t"
      "DONE: \n\t}" ::"r"(shared_address(bar)),
      "r"(parity), "r"(10000000)
      : "memory");
}

__device__ __forceinline__ bool try_wait(uint64_t *bar, uint32_t parity) {
  uint32_t done;
  asm volatile(
      "{\n\t.reg .pred P1; \n\t"
      "mbarrier.try_wait.parity.shared::cta.b64 P1, [%1], %2; \n\t"
      "selp.b32 %0, 1, 0, P1; \n\t}"
      : "=r"(done)
      : "r"(shared_address(bar)), "r"(parity)
      : "memory");
  return done;
}

__device__ __forceinline__ void load(void *to, const void *from, uint32_t bytes, uint64_t *bar) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];\n" ::"r"(
                   shared_address(to)),
               "l"(from), "r"(bytes), "r"(shared_address(bar))
               : "memory");
}

__device__ __forceinline__ bool elected() {
  uint32_t chosen = 0;
  asm volatile(
      "{\n.reg .b32 %%rx;\n.reg .pred %%px;\n"
      " elect.sync %%rx|%%px, %1;\n"
      "@%%px mov.s32 %0, 1;\n}"
      : "+r"(chosen)
      : "r"(0xffffffff));
  return chosen;
}

constexpr int STAGES = 2, TILE = 64;

struct Ring {
  alignas(128) float tile[STAGES][TILE];
  alignas(8) uint64_t full[STAGES], empty[STAGES];
};

__device__ void open(Ring &ring) {
  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; s++) {
      init(&ring.full[s], 1);
      init(&ring.empty[s], 1);
    }
    asm volatile("fence.mbarrier_init.release.cluster; \n");
  }
  __syncthreads();
}

__device__ void consume(const Ring &ring, int s, float *y) {
  const int lane = threadIdx.x % 32;
  y[lane] = 2 * ring.tile[s][lane];
  y[lane + 32] = ring.tile[s][lane + 32];
}

// A producer warp of one thread, a consumer warp: each waits for the other.
__global__ void ring(const float *x, float *y, int tiles) {
  __shared__ Ring r;
  open(r);
  if (threadIdx.x < 32) {
    if (elected()) {
#pragma unroll 1
      for (int k = 0; k < tiles; k++) {
        const int s = k % STAGES;
        wait(&r.empty[s], k / STAGES & 1 ^ 1);
        arrive_and_expect(&r.full[s], sizeof r.tile[s]);
        load(r.tile[s], x + TILE * k, sizeof r.tile[s], &r.full[s]);
      }
    }
  } else {
#pragma unroll 1
    for (int k = 0; k < tiles; k++) {
      const int s = k % STAGES;
      wait(&r.full[s], k / STAGES & 1);
      consume(r, s, y + TILE * k);
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      __syncwarp();
      if (threadIdx.x == 32) arrive(&r.empty[s]);
    }
  }
}

// The same; each looks once whether the next stage is ready, and waits only if it was not.
__global__ void ring_with_peeks(const float *x, float *y, int tiles) {
  __shared__ Ring r;
  open(r);
  int s = 0;
  if (threadIdx.x < 32) {
    uint32_t parity = 1;
    bool ready = try_wait(&r.empty[s], parity);
#pragma unroll 1
    for (int k = 0; k < tiles && threadIdx.x == 0; k++) {
      if (!ready) wait(&r.empty[s], parity);
      arrive_and_expect(&r.full[s], sizeof r.tile[s]);
      load(r.tile[s], x + TILE * k, sizeof r.tile[s], &r.full[s]);
      if (++s == STAGES) s = 0, parity ^= 1;
      if (k + 1 < tiles) ready = try_wait(&r.empty[s], parity);
    }
  } else {
    uint32_t parity = 0;
    bool ready = try_wait(&r.full[s], parity);
#pragma unroll 1
    for (int k = 0; k < tiles; k++) {
      if (!ready) wait(&r.full[s], parity);
      consume(r, s, y + TILE * k);
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      __syncwarp();
      if (threadIdx.x == 32) arrive(&r.empty[s]);
      if (++s == STAGES) s = 0, parity ^= 1;
      ready = k + 1 == tiles || try_wait(&r.full[s], parity);
    }
  }
}

// Work is done while nothing has come yet: how much, hangs on the schedule.
__global__ void polls(const float *x, float *y) {
  __shared__ alignas(128) float tile[TILE];
  __shared__ uint64_t bar;
  int turns = 0;
  if (threadIdx.x == 0) {
    init(&bar, 1);
    arrive_and_expect(&bar, sizeof tile);
    load(tile, x, sizeof tile, &bar);
    while (!try_wait(&bar, 0)) turns++;
    y[0] = turns;
  }
}

// Doubled in shared memory, then stored by one thread.
__global__ void doubled(const float *x, float *y) {
  __shared__ alignas(128) float tile[TILE];
  __shared__ uint64_t bar;
  const int t = threadIdx.x;
  if (t == 0) {
    ptx::mbarrier_init(&bar, blockDim.x);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
  }
  __syncthreads();
  uint64_t state;
  if (t == 0) {
    ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, tile, x, sizeof tile, &bar);
    state = ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar, sizeof tile);
  } else
    state = ptx::mbarrier_arrive(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar);
  while (!ptx::mbarrier_try_wait(ptx::sem_acquire, ptx::scope_cta, &bar, state)) {
  }
  tile[t] *= 2;
  ptx::fence_proxy_async(ptx::space_shared);
  __syncthreads();
  if (t == 0) {
    ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, y, tile, sizeof tile);
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
  }
}

// All warps add to the same elements.
__global__ void sums(const int *x, int *y) {
  __shared__ alignas(16) int tile[2][32];
  const int t = threadIdx.x, warp = t / 32;
  tile[warp][t % 32] = x[t];
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncwarp();
  if (t % 32 == 0) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.s32 [%0], [%1], 128;" ::"l"(y),
                 "r"(shared_address(tile[warp]))
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
}

// libcu++
__global__ void memcpy_to_barrier(const float *x, float *y) {
  using barrier = cuda::barrier<cuda::thread_scope_block>;
#pragma nv_diag_suppress static_var_with_dynamic_init
  __shared__ barrier bar;
  __shared__ alignas(128) float tile[TILE];
  if (threadIdx.x == 0) {
    init(&bar, blockDim.x);
    cuda::device::experimental::fence_proxy_async_shared_cta();
  }
  __syncthreads();
  barrier::arrival_token token;
  if (threadIdx.x == 0) {
    cuda::memcpy_async(tile, x, cuda::aligned_size_t<16>(sizeof tile), bar);
    token = cuda::device::barrier_arrive_tx(bar, 1, 0);
  } else
    token = bar.arrive();
  bar.wait(std::move(token));
  y[threadIdx.x] = tile[63 - threadIdx.x];
}

// Registers from the first warpgroup to the second one, which waits for them.
__global__ void __launch_bounds__(256, 2) registers(float *y) {
  if (threadIdx.x < 128)
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
  else
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
  y[threadIdx.x] = threadIdx.x;
}
