// Kernels of fresh launches: the rings of rings.cu in other sizes, and rings, sums and clusters of other kinds.
// `nvcc -ptx -arch=sm_90a -std=c++17 fresh.cu -o fresh.sm_90a.ptx` makes what `time_launches.py` collects.
#define TEMPLATES_ONLY
#include "rings.cu"

#define KERNEL(THREADS, NAME) \
  extern "C" __global__ void __launch_bounds__(THREADS) NAME(const float *x, float *y, int tiles, int it)

__device__ __forceinline__ void init(u32 barrier, int count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(count));
}
__device__ __forceinline__ void arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void expect(u32 barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ __forceinline__ void load(u32 to, const void *from, int bytes, u32 barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               ::"r"(to), "l"(from), "r"(bytes), "r"(barrier) : "memory");
}

// DMA warps that copy BYTES a lane by way of registers; mbarriers.
template <int STAGES, int DMA, int BYTES> __device__ void phased(const float *x, float *y, int tiles, int it) {
  typedef typename Vector<BYTES>::T T;
  extern __shared__ __align__(128) char m[];
  constexpr int COMPUTE = 256, TILE = 4096, PER = TILE / (32 * DMA * BYTES);
  u32 full = shared_address(m) + STAGES * TILE, empty = full + 8 * STAGES;
  if (threadIdx.x == 0)
    for (int i = 0; i < STAGES; i++) {
      init(full + 8 * i, DMA);
      init(empty + 8 * i, COMPUTE / 32);
    }
  __syncthreads();
  int s = 0, parity = 0, step = gridDim.x;
  for (int t = blockIdx.x; t < tiles; t += step) {
    if (threadIdx.x < COMPUTE) {
      wait(full + 8 * s, parity);
      float4 v = *(float4 *)(m + s * TILE + threadIdx.x * 16);
      __syncwarp();
      if (threadIdx.x % 32 == 0) arrive(empty + 8 * s);
      *(float4 *)(y + (size_t)t * (TILE / 4) + threadIdx.x * 4) = work(v, it);
    } else {
      int p = threadIdx.x - COMPUTE;
      T r[PER];
      const T *g = (const T *)(x + (size_t)t * (TILE / 4)) + p;
#pragma unroll
      for (int i = 0; i < PER; i++) r[i] = g[i * 32 * DMA];
      wait(empty + 8 * s, parity ^ 1);
      T *q = (T *)(m + s * TILE) + p;
#pragma unroll
      for (int i = 0; i < PER; i++) q[i * 32 * DMA] = r[i];
      __syncwarp();
      if (threadIdx.x % 32 == 0) arrive(full + 8 * s);
    }
    if (++s == STAGES) {
      s = 0;
      parity ^= 1;
    }
  }
}

// DMA warps that copy by cp.async, whose end is an arrival at an mbarrier.
template <int STAGES, int DMA> __device__ void lanes(const float *x, float *y, int tiles, int it) {
  extern __shared__ __align__(128) char m[];
  constexpr int COMPUTE = 256, TILE = 4096, PER = TILE / (32 * DMA * 16);
  u32 full = shared_address(m) + STAGES * TILE, empty = full + 8 * STAGES;
  if (threadIdx.x == 0)
    for (int i = 0; i < STAGES; i++) {
      init(full + 8 * i, 32 * DMA);
      init(empty + 8 * i, COMPUTE / 32);
    }
  __syncthreads();
  int s = 0, parity = 0, step = gridDim.x;
  for (int t = blockIdx.x; t < tiles; t += step) {
    if (threadIdx.x < COMPUTE) {
      wait(full + 8 * s, parity);
      float4 v = *(float4 *)(m + s * TILE + threadIdx.x * 16);
      __syncwarp();
      if (threadIdx.x % 32 == 0) arrive(empty + 8 * s);
      *(float4 *)(y + (size_t)t * (TILE / 4) + threadIdx.x * 4) = work(v, it);
    } else {
      int p = threadIdx.x - COMPUTE;
      wait(empty + 8 * s, parity ^ 1);
#pragma unroll
      for (int i = 0; i < PER; i++)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                     ::"r"(shared_address(m) + s * TILE + (i * 32 * DMA + p) * 16),
                     "l"((const char *)x + (size_t)t * TILE + (i * 32 * DMA + p) * 16) : "memory");
      asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(full + 8 * s) : "memory");
    }
    if (++s == STAGES) {
      s = 0;
      parity ^= 1;
    }
  }
}

// Bulk copies in both directions: the compute warps work in place.
template <int STAGES, int SIZE> __device__ void both(const float *x, float *y, int tiles, int it) {
  constexpr int COMPUTE = 256, EACH = SIZE / (16 * COMPUTE);
  extern __shared__ __align__(128) char m[];
  u32 full = shared_address(m) + STAGES * SIZE, empty = full + 8 * STAGES;
  if (threadIdx.x == 0)
    for (int i = 0; i < STAGES; i++) {
      init(full + 8 * i, 1);
      init(empty + 8 * i, 1);
    }
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  __syncthreads();
  int s = 0, parity = 0, step = gridDim.x, before = -1;
  if (threadIdx.x < COMPUTE) {
    for (int t = blockIdx.x; t < tiles; t += step) {
      wait(full + 8 * s, parity);
#pragma unroll
      for (int i = 0; i < EACH; i++) {
        float4 *p = (float4 *)(m + s * SIZE + i * 16 * COMPUTE + threadIdx.x * 16);
        *p = work(*p, it);
      }
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      asm volatile("bar.sync 1, %0;" ::"n"(COMPUTE) : "memory");
      if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                     ::"l"((char *)y + (size_t)t * SIZE), "r"(shared_address(m) + s * SIZE), "n"(SIZE) : "memory");
        asm volatile("cp.async.bulk.commit_group;");
        asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
        if (before >= 0) arrive(empty + 8 * before);
      }
      before = s;
      if (++s == STAGES) {
        s = 0;
        parity ^= 1;
      }
    }
    if (threadIdx.x == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  } else if (threadIdx.x == COMPUTE) {
    for (int t = blockIdx.x; t < tiles; t += step) {
      wait(empty + 8 * s, parity ^ 1);
      expect(full + 8 * s, SIZE);
      load(shared_address(m) + s * SIZE, (const char *)x + (size_t)t * SIZE, SIZE, full + 8 * s);
      if (++s == STAGES) {
        s = 0;
        parity ^= 1;
      }
    }
  }
}

// A tile of x and one of y for each stage, by bulk copies: y = x / 2 + y, or one sum for each warp, after the tiles.
template <int STAGES, int SIZE, bool SUM> __device__ void two(const float *x, float *y, int tiles, int it) {
  constexpr int COMPUTE = 256, EACH = SIZE / (16 * COMPUTE);
  extern __shared__ __align__(128) char m[];
  u32 full = shared_address(m) + STAGES * 2 * SIZE, empty = full + 8 * STAGES;
  if (threadIdx.x == 0)
    for (int i = 0; i < STAGES; i++) {
      init(full + 8 * i, 1);
      init(empty + 8 * i, COMPUTE / 32);
    }
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  __syncthreads();
  int s = 0, parity = 0, step = gridDim.x;
  float sum = 0;
  if (threadIdx.x < COMPUTE) {
    for (int t = blockIdx.x; t < tiles; t += step) {
      wait(full + 8 * s, parity);
      float4 v[EACH], w[EACH];
#pragma unroll
      for (int i = 0; i < EACH; i++) {
        v[i] = *(float4 *)(m + 2 * s * SIZE + i * 16 * COMPUTE + threadIdx.x * 16);
        w[i] = *(float4 *)(m + (2 * s + 1) * SIZE + i * 16 * COMPUTE + threadIdx.x * 16);
      }
      __syncwarp();
      if (threadIdx.x % 32 == 0) arrive(empty + 8 * s);
#pragma unroll
      for (int i = 0; i < EACH; i++) {
        float4 a = work(v[i], it);
        a.x = 0.5f * a.x + w[i].x;
        a.y = 0.5f * a.y + w[i].y;
        a.z = 0.5f * a.z + w[i].z;
        a.w = 0.5f * a.w + w[i].w;
        if (SUM) sum += a.x + a.y + a.z + a.w;
        else *(float4 *)(y + (size_t)t * (SIZE / 4) + i * 4 * COMPUTE + threadIdx.x * 4) = a;
      }
      if (++s == STAGES) {
        s = 0;
        parity ^= 1;
      }
    }
    if (SUM) {
      for (int d = 16; d; d >>= 1) sum += __shfl_xor_sync(~0u, sum, d);
      if (threadIdx.x % 32 == 0) y[(size_t)tiles * (SIZE / 4) + blockIdx.x * 8 + threadIdx.x / 32] = sum;
    }
  } else if (threadIdx.x == COMPUTE) {
    for (int t = blockIdx.x; t < tiles; t += step) {
      wait(empty + 8 * s, parity ^ 1);
      expect(full + 8 * s, 2 * SIZE);
      load(shared_address(m) + 2 * s * SIZE, (const char *)x + (size_t)t * SIZE, SIZE, full + 8 * s);
      load(shared_address(m) + (2 * s + 1) * SIZE, (const char *)y + (size_t)t * SIZE, SIZE, full + 8 * s);
      if (++s == STAGES) {
        s = 0;
        parity ^= 1;
      }
    }
  }
}

// All threads load the tile after next into registers, and exchange tiles in shared memory.
template <int AHEAD> __device__ void ahead(const float *x, float *y, int tiles, int it) {
  __shared__ float4 m[2][256];
  float4 next[AHEAD];
  int step = gridDim.x, t = blockIdx.x, s = 0;
#pragma unroll
  for (int i = 0; i < AHEAD; i++)
    if (t + i * step < tiles) next[i] = ((const float4 *)x)[(size_t)(t + i * step) * 256 + threadIdx.x];
  for (; t < tiles; t += step) {
    m[s][threadIdx.x] = next[0];
#pragma unroll
    for (int i = 0; i + 1 < AHEAD; i++) next[i] = next[i + 1];
    if (t + AHEAD * step < tiles) next[AHEAD - 1] = ((const float4 *)x)[(size_t)(t + AHEAD * step) * 256 + threadIdx.x];
    __syncthreads();
    ((float4 *)y)[(size_t)t * 256 + threadIdx.x] = work(m[s][threadIdx.x ^ 1], it);
    s ^= 1;
  }
}

// Kernels for every number of threads; `tiles` of 4,096 bytes.
KERNEL(1024, any_copy) {
  size_t n = (size_t)tiles * 256, step = (size_t)gridDim.x * blockDim.x;
  for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)
    ((float4 *)y)[i] = work(((const float4 *)x)[i], it);
}
KERNEL(1024, any_words) {
  size_t n = (size_t)tiles * 1024, step = (size_t)gridDim.x * blockDim.x;
  for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
    float v = x[i];
    for (int k = 0; k < it; k++) v = 0.5f * v + 1.f;
    y[i] = v;
  }
}
KERNEL(1024, any_sum) {
  __shared__ float m[1024];
  float sum = 0;
  for (int t = blockIdx.x; t < tiles; t += gridDim.x) {
    for (int i = threadIdx.x; i < 256; i += blockDim.x) {
      float4 v = work(((const float4 *)x)[(size_t)t * 256 + i], it);
      sum += v.x + v.y + v.z + v.w;
    }
    m[threadIdx.x] = sum;
    __syncthreads();
    for (int d = blockDim.x / 2; d; d >>= 1) {
      if (threadIdx.x < d) m[threadIdx.x] += m[threadIdx.x + d];
      __syncthreads();
    }
    if (threadIdx.x == 0) y[t] = m[0];
  }
}

// Clusters of two CTAs: each copies half of a tile to both, or reads the tile of the other.
template <int STAGES, int SIZE> __device__ void multicast(const float *x, float *y, int tiles, int it) {
  constexpr int COMPUTE = 256, EACH = SIZE / (16 * COMPUTE);
  extern __shared__ __align__(128) char m[];
  u32 full = shared_address(m) + STAGES * SIZE, empty = full + 8 * STAGES, rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  if (threadIdx.x == 0)
    for (int i = 0; i < STAGES; i++) {
      init(full + 8 * i, 1);
      init(empty + 8 * i, 2 * (COMPUTE / 32));
    }
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory");
  int s = 0, parity = 0, pairs = gridDim.x / 2;
  if (threadIdx.x < COMPUTE) {
    for (int t = blockIdx.x / 2; t < tiles; t += pairs) {
      wait(full + 8 * s, parity);
      float4 v[EACH];
#pragma unroll
      for (int i = 0; i < EACH; i++) v[i] = *(float4 *)(m + s * SIZE + i * 16 * COMPUTE + threadIdx.x * 16);
      __syncwarp();
      if (threadIdx.x % 32 < 2) {
        u32 far;
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(far) : "r"(empty + 8 * s), "r"(threadIdx.x % 32));
        asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(far) : "memory");
      }
#pragma unroll
      for (int i = 0; i < EACH; i++)
        *(float4 *)(y + ((size_t)t * 2 + rank) * (SIZE / 4) + i * 4 * COMPUTE + threadIdx.x * 4) = work(v[i], it);
      if (++s == STAGES) {
        s = 0;
        parity ^= 1;
      }
    }
  } else if (threadIdx.x == COMPUTE) {
    for (int t = blockIdx.x / 2; t < tiles; t += pairs) {
      asm volatile("{\n.reg .pred p;\nL: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1;\n"
                   "@p bra E;\nbra L;\nE:\n}" ::"r"(empty + 8 * s), "r"(parity ^ 1) : "memory");
      expect(full + 8 * s, SIZE);
      asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                   "[%0], [%1], %2, [%3], %4;"
                   ::"r"(shared_address(m) + s * SIZE + rank * (SIZE / 2)),
                   "l"((const char *)x + (size_t)t * SIZE + rank * (SIZE / 2)), "n"(SIZE / 2), "r"(full + 8 * s),
                   "h"((unsigned short)3) : "memory");
      if (++s == STAGES) {
        s = 0;
        parity ^= 1;
      }
    }
  }
  asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory");
}

__device__ void exchange(const float *x, float *y, int tiles, int it) {
  __shared__ float4 m[256];
  u32 rank, far;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(far)
               : "r"(shared_address(m) + 16 * (threadIdx.x ^ 1)), "r"(rank ^ 1));
  int sizes = (tiles + gridDim.x - 1) / gridDim.x;
  for (int k = 0; k < sizes; k++) {
    int t = blockIdx.x + k * gridDim.x;
    m[threadIdx.x] = ((const float4 *)x)[(size_t)t * 256 + threadIdx.x];
    asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory");
    float4 v;
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(far) : "memory");
    asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory");
    ((float4 *)y)[(size_t)t * 256 + threadIdx.x] = work(v, it);
  }
}
#define CLUSTER(THREADS, NAME) \
  extern "C" __global__ void __cluster_dims__(2) __launch_bounds__(THREADS) \
  NAME(const float *x, float *y, int tiles, int it)

#define PHASED(S, D, B) KERNEL(256 + 32 * D, phased_##S##_##D##_##B) { phased<S, D, B>(x, y, tiles, it); }
#define LANES(S, D) KERNEL(256 + 32 * D, lanes_##S##_##D) { lanes<S, D>(x, y, tiles, it); }
#define BOTH(S, Z) KERNEL(288, both_##S##_##Z) { both<S, Z>(x, y, tiles, it); }
#define AXPY(S, Z) KERNEL(288, axpy_##S##_##Z) { two<S, Z, false>(x, y, tiles, it); }
#define DOT(S, Z) KERNEL(288, dot_##S##_##Z) { two<S, Z, true>(x, y, tiles, it); }
#define AHEAD(A) KERNEL(256, ahead_##A) { ahead<A>(x, y, tiles, it); }
#define MULTICAST(S, Z) CLUSTER(288, multicast_##S##_##Z) { multicast<S, Z>(x, y, tiles, it); }

#ifndef NO_INSTANCES
NAMED(5, 1, 16) NAMED(5, 2, 16) NAMED(5, 4, 16) NAMED(5, 8, 16) NAMED(3, 2, 4) NAMED(3, 2, 8) NAMED(3, 4, 4)
NARROW(3, 1, 16) NARROW(3, 2, 16) NARROW(6, 1, 8) NARROW(1, 4, 16)
LARGE(1, 4, 16) LARGE(3, 2, 16) LARGE(3, 4, 16) LARGE(3, 8, 16)
BULK(5, 4096) BULK(7, 4096) BULK(5, 8192) BULK(6, 16384)
SLIM(1, 4096) SLIM(3, 4096) SLIM(4, 4096) SLIM(6, 2048) SLIM(2, 8192)
CPASYNC(9) CPASYNC(10)
PHASED(1, 2, 16) PHASED(2, 2, 16) PHASED(3, 2, 16) PHASED(4, 2, 16) PHASED(2, 1, 16) PHASED(2, 4, 16) PHASED(2, 4, 8)
PHASED(2, 4, 4)
LANES(1, 1) LANES(2, 1) LANES(3, 1) LANES(4, 1) LANES(6, 1) LANES(3, 2) LANES(3, 4)
BOTH(2, 4096) BOTH(3, 4096) BOTH(4, 4096) BOTH(6, 4096) BOTH(3, 8192)
AXPY(1, 4096) AXPY(2, 4096) AXPY(3, 4096) AXPY(4, 4096) AXPY(6, 4096) AXPY(2, 8192)
DOT(1, 4096) DOT(2, 4096) DOT(3, 4096) DOT(4, 4096) DOT(6, 4096) DOT(2, 8192)
AHEAD(1) AHEAD(2) AHEAD(4)
MULTICAST(1, 8192) MULTICAST(2, 8192) MULTICAST(3, 8192) MULTICAST(4, 8192) MULTICAST(3, 4096)
CLUSTER(256, exchange_tiles) { exchange(x, y, tiles, it); }
#endif
