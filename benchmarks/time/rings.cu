// Producers and consumers of y = f(x): tiles in a ring of shared memory, and plain kernels beside them.
// `nvcc -ptx -arch=sm_90a -std=c++17 rings.cu -o rings.sm_90a.ptx` makes what the benchmarks launch.
#include <cstdint>

using u32 = uint32_t;

__device__ __forceinline__ u32 shared_address(const void *p) { return (u32)__cvta_generic_to_shared(p); }

template <int N> struct Vector;
template <> struct Vector<4> { typedef float T; };
template <> struct Vector<8> { typedef float2 T; };
template <> struct Vector<16> { typedef float4 T; };

__device__ __forceinline__ float4 work(float4 v, int it) {
  for (int i = 0; i < it; i++) {
    v.x = 0.5f * v.x + 1.f;
    v.y = 0.5f * v.y + 1.f;
    v.z = 0.5f * v.z + 1.f;
    v.w = 0.5f * v.w + 1.f;
  }
  return v;
}

// STAGES of TILE bytes, DMA warps that copy BYTES a lane by way of registers; named barriers.
template <int STAGES, int DMA, int BYTES, int COMPUTE = 256, int TILE = 4096>
__device__ void named(const float *x, float *y, int tiles, int it) {
  typedef typename Vector<BYTES>::T T;
  extern __shared__ __align__(128) char m[];
  constexpr int ALL = COMPUTE + 32 * DMA, PER = TILE / (32 * DMA * BYTES), EACH = TILE / (16 * COMPUTE);
  int step = gridDim.x;
  if (threadIdx.x < COMPUTE) {
    for (int s = 0; s < STAGES; s++) asm volatile("bar.arrive %0, %1;" ::"r"(1 + s), "n"(ALL) : "memory");
    int s = 0;
    for (int t = blockIdx.x; t < tiles; t += step) {
      asm volatile("bar.sync %0, %1;" ::"r"(8 + s), "n"(ALL) : "memory");
      float4 v[EACH];
#pragma unroll
      for (int i = 0; i < EACH; i++) v[i] = *(float4 *)(m + s * TILE + i * 16 * COMPUTE + threadIdx.x * 16);
      asm volatile("bar.arrive %0, %1;" ::"r"(1 + s), "n"(ALL) : "memory");
#pragma unroll
      for (int i = 0; i < EACH; i++)
        *(float4 *)(y + (size_t)t * (TILE / 4) + i * 4 * COMPUTE + threadIdx.x * 4) = work(v[i], it);
      s = s + 1 == STAGES ? 0 : s + 1;
    }
  } else {
    int p = threadIdx.x - COMPUTE, s = 0;
    for (int t = blockIdx.x; t < tiles; t += step) {
      T r[PER];
      const T *g = (const T *)(x + (size_t)t * (TILE / 4)) + p;
#pragma unroll
      for (int i = 0; i < PER; i++) r[i] = g[i * 32 * DMA];
      asm volatile("bar.sync %0, %1;" ::"r"(1 + s), "n"(ALL) : "memory");
      T *q = (T *)(m + s * TILE) + p;
#pragma unroll
      for (int i = 0; i < PER; i++) q[i * 32 * DMA] = r[i];
      asm volatile("bar.arrive %0, %1;" ::"r"(8 + s), "n"(ALL) : "memory");
      s = s + 1 == STAGES ? 0 : s + 1;
    }
    for (int k = 0; k < STAGES; k++) {
      asm volatile("bar.sync %0, %1;" ::"r"(1 + s), "n"(ALL) : "memory");
      s = s + 1 == STAGES ? 0 : s + 1;
    }
  }
}

__device__ __forceinline__ void wait(u32 b, u32 parity) {
  asm volatile("{\n.reg .pred p;\nL: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra E;\nbra L;\nE:\n}"
               ::"r"(b), "r"(parity) : "memory");
}

// One thread fills STAGES by bulk copies of SIZE bytes.
template <int STAGES, int SIZE, int COMPUTE = 256> __device__ void bulk(const float *x, float *y, int tiles, int it) {
  extern __shared__ __align__(128) char m[];
  u32 full = shared_address(m) + STAGES * SIZE, empty = full + 8 * STAGES;
  constexpr int EACH = SIZE / (16 * COMPUTE);
  int step = gridDim.x;
  if (threadIdx.x == 0)
    for (int i = 0; i < STAGES; i++) {
      asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(full + 8 * i));
      asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(empty + 8 * i), "n"(COMPUTE / 32));
    }
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  __syncthreads();
  if (threadIdx.x < COMPUTE) {
    int s = 0, parity = 0;
    for (int t = blockIdx.x; t < tiles; t += step) {
      wait(full + 8 * s, parity);
      float4 v[EACH];
#pragma unroll
      for (int i = 0; i < EACH; i++) v[i] = *(float4 *)(m + s * SIZE + i * 16 * COMPUTE + threadIdx.x * 16);
      __syncwarp();
      if (threadIdx.x % 32 == 0)
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(empty + 8 * s) : "memory");
#pragma unroll
      for (int i = 0; i < EACH; i++)
        *(float4 *)(y + (size_t)t * (SIZE / 4) + i * 4 * COMPUTE + threadIdx.x * 4) = work(v[i], it);
      if (++s == STAGES) {
        s = 0;
        parity ^= 1;
      }
    }
  } else if (threadIdx.x == COMPUTE) {
    int s = 0, parity = 1;
    for (int t = blockIdx.x; t < tiles; t += step) {
      wait(empty + 8 * s, parity);
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(full + 8 * s), "n"(SIZE) : "memory");
      asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                   ::"r"(shared_address(m) + s * SIZE), "l"((const char *)x + (size_t)t * SIZE), "n"(SIZE),
                   "r"(full + 8 * s) : "memory");
      if (++s == STAGES) {
        s = 0;
        parity ^= 1;
      }
    }
  }
}

// All threads copy by cp.async, STAGES - 1 groups ahead; 4,096 bytes a tile.
template <int STAGES> __device__ void cpasync(const float *x, float *y, int tiles, int it) {
  constexpr int TILE = 4096;
  extern __shared__ __align__(128) char m[];
  int step = gridDim.x, t0 = blockIdx.x;
#pragma unroll
  for (int s = 0; s < STAGES - 1; s++) {
    int t = t0 + s * step;
    if (t < tiles)
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(m) + s * TILE + threadIdx.x * 16),
                   "l"((const char *)x + (size_t)t * TILE + threadIdx.x * 16));
    asm volatile("cp.async.commit_group;");
  }
  int s = 0;
  for (int t = t0; t < tiles; t += step) {
    int n = t + (STAGES - 1) * step, q = s + STAGES - 1 >= STAGES ? s - 1 : s + STAGES - 1;
    if (n < tiles)
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(m) + q * TILE + threadIdx.x * 16),
                   "l"((const char *)x + (size_t)n * TILE + threadIdx.x * 16));
    asm volatile("cp.async.commit_group;");
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 1) : "memory");
    __syncthreads();
    float4 v = *(float4 *)(m + s * TILE + (threadIdx.x ^ 1) * 16);
    __syncthreads();
    *(float4 *)(y + (size_t)t * (TILE / 4) + threadIdx.x * 4) = work(v, it);
    s = s + 1 == STAGES ? 0 : s + 1;
  }
}

#ifndef TEMPLATES_ONLY
// Kernels without DMA warps; `tiles` of 4,096 bytes, 256 threads.
#define PLAIN(NAME) extern "C" __global__ void __launch_bounds__(256) NAME(const float *x, float *y, int tiles, int it)

PLAIN(plain_copy) {
  for (int t = blockIdx.x; t < tiles; t += gridDim.x)
    ((float4 *)y)[(size_t)t * 256 + threadIdx.x] = work(((const float4 *)x)[(size_t)t * 256 + threadIdx.x], it);
}

PLAIN(plain_words) {
  for (int t = blockIdx.x; t < tiles; t += gridDim.x)
    for (int i = 0; i < 4; i++) {
      size_t at = (size_t)t * 1024 + i * 256 + threadIdx.x;
      float v = x[at];
      for (int k = 0; k < it; k++) v = 0.5f * v + 1.f;
      y[at] = v;
    }
}

PLAIN(plain_sums) {
  float sum = 0;
  for (int t = blockIdx.x; t < tiles; t += gridDim.x) {
    float4 v = work(((const float4 *)x)[(size_t)t * 256 + threadIdx.x], it);
    sum += v.x + v.y + v.z + v.w;
  }
  for (int d = 16; d; d >>= 1) sum += __shfl_xor_sync(~0u, sum, d);
  if (threadIdx.x % 32 == 0) y[(size_t)blockIdx.x * 8 + threadIdx.x / 32] = sum;
}

template <int PAD> __device__ void turn(const float *x, float *y, int tiles, int it) {
  __shared__ float m[32][32 + PAD];
  int column = threadIdx.x % 32, row = threadIdx.x / 32;
  for (int t = blockIdx.x; t < tiles; t += gridDim.x) {
    for (int i = 0; i < 32; i += 8) m[row + i][column] = x[(size_t)t * 1024 + (row + i) * 32 + column];
    __syncthreads();
    for (int i = 0; i < 32; i += 8) {
      float v = m[column][row + i];
      for (int k = 0; k < it; k++) v = 0.5f * v + 1.f;
      y[(size_t)t * 1024 + (row + i) * 32 + column] = v;
    }
    __syncthreads();
  }
}
PLAIN(plain_turn) { turn<0>(x, y, tiles, it); }
PLAIN(plain_turn_padded) { turn<1>(x, y, tiles, it); }

PLAIN(plain_neighbors) {
  __shared__ float m[1024 + 8];
  for (int t = blockIdx.x; t < tiles; t += gridDim.x) {
    for (int i = threadIdx.x; i < 1024; i += 256) m[i + 4] = x[(size_t)t * 1024 + i];
    __syncthreads();
    for (int i = threadIdx.x; i < 1024; i += 256) {
      float v = 0;
#pragma unroll
      for (int k = 0; k < 9; k++) v += m[i + k] * (k + 1);
      for (int k = 0; k < it; k++) v = 0.5f * v + 1.f;
      y[(size_t)t * 1024 + i] = v;
    }
    __syncthreads();
  }
}
#endif

#define NAMED(S, D, B) extern "C" __global__ void __launch_bounds__(256 + 32 * D) \
  named_##S##_##D##_##B(const float *x, float *y, int tiles, int it) { named<S, D, B>(x, y, tiles, it); }
#define NARROW(S, D, B) extern "C" __global__ void __launch_bounds__(128 + 32 * D) \
  narrow_##S##_##D##_##B(const float *x, float *y, int tiles, int it) { named<S, D, B, 128>(x, y, tiles, it); }
#define LARGE(S, D, B) extern "C" __global__ void __launch_bounds__(256 + 32 * D) \
  large_##S##_##D##_##B(const float *x, float *y, int tiles, int it) { named<S, D, B, 256, 8192>(x, y, tiles, it); }
#define BULK(S, Z) extern "C" __global__ void __launch_bounds__(288) \
  bulk_##S##_##Z(const float *x, float *y, int tiles, int it) { bulk<S, Z>(x, y, tiles, it); }
#define SLIM(S, Z) extern "C" __global__ void __launch_bounds__(160) \
  slim_##S##_##Z(const float *x, float *y, int tiles, int it) { bulk<S, Z, 128>(x, y, tiles, it); }
#define CPASYNC(S) extern "C" __global__ void __launch_bounds__(256) \
  cpasync_##S(const float *x, float *y, int tiles, int it) { cpasync<S>(x, y, tiles, it); }

#ifndef TEMPLATES_ONLY
// of the recorded launches
NAMED(1, 1, 16) NAMED(1, 2, 16) NAMED(1, 4, 16) NAMED(1, 8, 16) NAMED(2, 1, 16) NAMED(2, 2, 16) NAMED(2, 4, 16)
NAMED(2, 8, 16) NAMED(3, 2, 16) NAMED(3, 4, 16) NAMED(4, 1, 16) NAMED(4, 2, 16) NAMED(4, 4, 16) NAMED(4, 8, 16)
NAMED(2, 4, 4) NAMED(2, 4, 8) NAMED(4, 4, 4) NAMED(4, 4, 8) NAMED(1, 4, 4)
BULK(1, 4096) BULK(2, 4096) BULK(3, 4096) BULK(4, 4096) BULK(8, 4096) BULK(1, 8192) BULK(2, 8192) BULK(4, 8192)
BULK(2, 16384) BULK(4, 16384)
CPASYNC(2) CPASYNC(3) CPASYNC(4) CPASYNC(6) CPASYNC(8)
// of fresh ones
NAMED(3, 1, 16) NAMED(3, 8, 16) NAMED(6, 2, 16) NAMED(2, 2, 8) NAMED(3, 4, 8) NAMED(1, 8, 4)
NARROW(1, 1, 16) NARROW(2, 1, 16) NARROW(2, 2, 16) NARROW(3, 2, 8) NARROW(4, 4, 16)
LARGE(1, 2, 16) LARGE(2, 4, 16) LARGE(3, 4, 8) LARGE(2, 8, 16)
BULK(6, 4096) BULK(3, 8192) BULK(6, 8192) BULK(1, 16384) BULK(3, 16384)
SLIM(1, 2048) SLIM(2, 2048) SLIM(4, 2048) SLIM(2, 4096) SLIM(5, 4096) SLIM(3, 8192)
CPASYNC(5) CPASYNC(7)
#endif
