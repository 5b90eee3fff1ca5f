// Kernels of clusters, as nvcc makes PTX of them: cooperative groups, distributed shared memory, libcu++'s names of PTX.
#include <cooperative_groups.h>
#include <cuda/ptx>
#include <cstdint>

namespace cg = cooperative_groups;
namespace ptx = cuda::ptx;

// A histogram whose bins are spread over the CTAs of a cluster (CUDA C++ Programming Guide, "Distributed Shared Memory").
extern "C" __global__ void __cluster_dims__(2, 1, 1) histogram(int *bins, int nbins, const int *input, int n) {
  extern __shared__ int smem[];
  cg::cluster_group cluster = cg::this_cluster();
  int per_block = nbins / cluster.num_blocks();
  for (int i = threadIdx.x; i < per_block; i += blockDim.x) smem[i] = 0;
  cluster.sync();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
    int bin = input[i];
    int *there = cluster.map_shared_rank(smem, bin / per_block);
    atomicAdd(there + bin % per_block, 1);
  }
  cluster.sync();
  int first = cluster.block_rank() * per_block;
  for (int i = threadIdx.x; i < per_block; i += blockDim.x) atomicAdd(bins + first + i, smem[i]);
}

// A sum over a cluster: each CTA reads what the others have left.
extern "C" __global__ void reduce(float *out, const float *x) {
  __shared__ float part;
  cg::cluster_group cluster = cg::this_cluster();
  float v = x[cluster.block_index().x * blockDim.x + threadIdx.x + blockIdx.x / cluster.num_blocks() * 0 +
              (blockIdx.x - cluster.block_rank()) * blockDim.x];
  for (int d = 16; d; d /= 2) v += __shfl_down_sync(0xffffffff, v, d);
  if (threadIdx.x == 0) part = v;
  cluster.sync();
  if (threadIdx.x == 0) {
    float sum = 0;
    for (unsigned r = 0; r < cluster.num_blocks(); r++) sum += *cluster.map_shared_rank(&part, r);
    out[blockIdx.x] = sum;
  }
  cluster.sync();
}

// Each CTA sends a tile to the next one: st.async, red.async, a copy between shared memories, remote arrives.
extern "C" __global__ void __cluster_dims__(2, 1, 1) pass_on(int *out, const int *x) {
  __shared__ alignas(16) int tile[64];
  __shared__ alignas(16) int received[64];
  __shared__ int count;
  __shared__ uint64_t full;
  cg::cluster_group cluster = cg::this_cluster();
  unsigned next = (cluster.block_rank() + 1) % cluster.num_blocks();
  tile[threadIdx.x] = x[blockIdx.x * 32 + threadIdx.x];
  if (threadIdx.x == 0) {
    count = 0;
    ptx::mbarrier_init(&full, 33);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full, 128 + 128 + 128);
  }
  ptx::fence_proxy_async(ptx::space_shared);
  cluster.sync();
  int *there = cluster.map_shared_rank(received, next);
  uint64_t *told = cluster.map_shared_rank(&full, next);
  if (threadIdx.x == 0) {
    ptx::cp_async_bulk(ptx::space_cluster, ptx::space_shared, there, tile, 128, told);
  }
  ptx::st_async(there + 32 + threadIdx.x, (int)threadIdx.x, told);
  ptx::red_async(ptx::op_add, cluster.map_shared_rank(&count, next), 1, told);
  ptx::mbarrier_arrive(ptx::sem_release, ptx::scope_cluster, ptx::space_cluster, told);
  while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &full, 0)) {
  }
  out[blockIdx.x * 32 + threadIdx.x] = received[threadIdx.x] + received[threadIdx.x + 32] + count;
  cluster.sync();
}

// A tile for all CTAs of a cluster, by multicast.
extern "C" __global__ void __cluster_dims__(4, 1, 1) multicast(float *out, const float *x) {
  __shared__ alignas(128) float tile[64];
  __shared__ uint64_t full;
  cg::cluster_group cluster = cg::this_cluster();
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&full, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full, sizeof tile);
  }
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
  if (threadIdx.x == 0 && cluster.block_rank() == 0)
    ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, tile, x, sizeof tile, &full, (uint16_t)15);
  while (!ptx::mbarrier_try_wait_parity(&full, 0)) {
  }
  out[blockIdx.x * 32 + threadIdx.x] = tile[threadIdx.x] + tile[threadIdx.x + 32];
  cluster.sync();
}

// What each thread is told of its cluster.
extern "C" __global__ void whereabouts(unsigned *out) {
  cg::cluster_group cluster = cg::this_cluster();
  __shared__ int cell;
  unsigned *row = out + 8 * (blockIdx.x + gridDim.x * blockIdx.y);
  if (threadIdx.x == 0) {
    row[0] = cluster.block_rank();
    row[1] = cluster.num_blocks();
    row[2] = cluster.block_index().x + 10 * cluster.block_index().y;
    row[3] = cluster.dim_blocks().x + 10 * cluster.dim_blocks().y;
    row[4] = cluster.query_shared_rank(cluster.map_shared_rank(&cell, cluster.num_blocks() - 1));
    unsigned id, many, explicit_;
    asm volatile("mov.u32 %0, %%clusterid.x;" : "=r"(id));
    asm volatile("mov.u32 %0, %%nclusterid.x;" : "=r"(many));
    asm volatile("{ .reg .pred p; mov.pred p, %%is_explicit_cluster; selp.u32 %0, 1, 0, p; }" : "=r"(explicit_));
    row[5] = id;
    row[6] = many;
    row[7] = explicit_;
  }
}

// Wrong: an arrive of CTA scope on another CTA's mbarrier (cutlass 3643), and no wait before the end.
extern "C" __global__ void __cluster_dims__(2, 1, 1) narrow(int *out, const int *x) {
  __shared__ int cell[32];
  __shared__ uint64_t full;
  cg::cluster_group cluster = cg::this_cluster();
  if (threadIdx.x == 0) ptx::mbarrier_init(&full, 32);
  cluster.sync();
  unsigned other = cluster.block_rank() ^ 1;
  cluster.map_shared_rank(cell, other)[threadIdx.x] = x[threadIdx.x];
  uint32_t told = (uint32_t)__cvta_generic_to_shared(&full), there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(told), "r"(other));
  asm volatile("mbarrier.arrive.release.cta.shared::cluster.b64 _, [%0];" ::"r"(there) : "memory");
  while (!ptx::mbarrier_try_wait_parity(&full, 0)) {
  }
  out[blockIdx.x * 32 + threadIdx.x] = cell[31 - threadIdx.x];
}
