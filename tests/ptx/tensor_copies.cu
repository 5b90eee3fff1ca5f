// Copies of tiles by tensor maps: spelled as CUTLASS and as cuda::ptx do, with maps of their own and in a structure.
#include <cstdint>
#include <cuda.h>
#include <cuda/barrier>
#include <cuda/ptx>

namespace ptx = cuda::ptx;

__device__ __forceinline__ uint32_t shared_address(const void *pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void wait(uint64_t *bar, uint32_t parity) {
  while (!ptx::mbarrier_try_wait_parity(bar, parity)) {
  }
}

constexpr int ROWS = 16, COLUMNS = 32;

// cuda::ptx; rows of 128 bytes, swizzled: element (row, 4 chunk + i) lies in chunk ^ (row % 8).
extern "C" __global__ void through_cuda_ptx(const __grid_constant__ CUtensorMap in, const __grid_constant__ CUtensorMap out,
                                            float *sums) {
  __shared__ alignas(1024) float tile[ROWS][COLUMNS];
  __shared__ alignas(1024) float plain[ROWS][COLUMNS];
  __shared__ uint64_t full;
  int lane = threadIdx.x;
  if (lane == 0) {
    ptx::mbarrier_init(&full, 1), ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    asm volatile("prefetch.tensormap [%0];" ::"l"(&in) : "memory");
  }
  __syncthreads();
  if (lane == 0) {
    int at[2] = {0, static_cast<int>(blockIdx.x) * ROWS};
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full, sizeof tile);
    ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, tile, &in, at, &full);
  }
  wait(&full, 0);
  float sum = 0;
  for (int row = 0; row < ROWS; row++) {
    float x = tile[row][(lane / 4 ^ row % 8) * 4 + lane % 4];
    plain[row][lane] = 2 * x;
    sum += x;
  }
  atomicAdd(&sums[lane], sum);
  ptx::fence_proxy_async(ptx::space_shared);
  __syncthreads();
  if (lane == 0) {
    int at[2] = {0, static_cast<int>(blockIdx.x) * ROWS};
    ptx::cp_async_bulk_tensor(ptx::space_global, ptx::space_shared, &out, at, plain);
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
  }
}

struct Parameters {
  float scale;
  CUtensorMap in, total;
  int tiles;
};

// As CUTLASS has it: maps in the kernel's structure, dynamic shared memory, a cache hint, three dimensions; the reduction.
extern "C" __global__ void in_a_structure(const __grid_constant__ Parameters p) {
  extern __shared__ __align__(1024) unsigned char memory[];
  float *tile = reinterpret_cast<float *>(memory);
  __shared__ uint64_t full;
  int lane = threadIdx.x;
  if (lane == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&full)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  for (int n = 0; n < p.tiles; n++) {
    if (lane == 0) {
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&full)), "r"(2048)
                   : "memory");
      asm volatile(
          "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
          " [%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(shared_address(tile)),
          "l"(reinterpret_cast<uint64_t>(&p.in)), "r"(shared_address(&full)), "r"(0), "r"(-1), "r"(n),
          "l"(0x1000000000000000ull)
          : "memory");
    }
    wait(&full, n & 1);
    for (int row = 0; row < 16; row++) {
      tile[row * 32 + lane] *= p.scale;
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncwarp();
    if (lane == 0) {
      asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%0, {%2, %3}], [%1];" ::"l"(
                       reinterpret_cast<uint64_t>(&p.total)),
                   "r"(shared_address(tile)), "r"(0), "r"(0)
                   : "memory");
      asm volatile("cp.async.bulk.commit_group;" ::: "memory");
      asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
    __syncwarp();
  }
}

// The reader waits for nothing.
extern "C" __global__ void without_wait(const __grid_constant__ CUtensorMap in, float *out) {
  __shared__ alignas(128) float tile[ROWS][COLUMNS];
  __shared__ uint64_t full;
  int lane = threadIdx.x;
  if (lane == 0) {
    ptx::mbarrier_init(&full, 1), ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
  }
  __syncthreads();
  if (lane == 0) {
    int at[2] = {0, 0};
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full, sizeof tile);
    ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, tile, &in, at, &full);
  }
  __syncthreads();
  out[lane] = tile[0][lane];
  wait(&full, 0);
}

// A map that the kernel changes.
extern "C" __global__ void replaced(CUtensorMap *map, const __grid_constant__ CUtensorMap in, float *out) {
  __shared__ alignas(128) float tile[ROWS][COLUMNS];
  __shared__ alignas(128) CUtensorMap own;
  __shared__ uint64_t full;
  int lane = threadIdx.x;
  reinterpret_cast<uint32_t *>(&own)[lane] = reinterpret_cast<const uint32_t *>(&in)[lane];
  if (lane == 0) {
    ptx::mbarrier_init(&full, 1), ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
  }
  __syncwarp();
  if (lane == 0) {
    asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" ::"r"(shared_address(&own)),
                 "l"(out)
                 : "memory");
  }
  __syncwarp();
  asm volatile(
      "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;" ::"l"(map),
      "r"(shared_address(&own))
      : "memory");
  asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory");
  if (lane == 0) {
    int at[2] = {0, 0};
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full, sizeof tile);
    ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, tile, map, at, &full);
  }
  wait(&full, 0);
  out[lane + 1024] = tile[0][lane];
}
