// Kernels whose CTAs tell each other something by atomics, in the spellings that CUDA C++ has for it. NAME_0 is right, in
// NAME_1 and NAME_2 something is missing.
#include <cuda/atomic>
#include <cooperative_groups.h>

namespace cg = cooperative_groups;
using u32 = unsigned;
using u64 = unsigned long long;
using cuda::memory_order_acq_rel;
using cuda::memory_order_acquire;
using cuda::memory_order_relaxed;
using cuda::memory_order_release;
template <typename T> using ref = cuda::atomic_ref<T, cuda::thread_scope_device>;

#define HAS(n) if constexpr (D != n)
#define MAKE(name, params, args)                                      \
  extern "C" __global__ void name##_0 params { name<0> args; }        \
  extern "C" __global__ void name##_1 params { name<1> args; }        \
  extern "C" __global__ void name##_2 params { name<2> args; }
#define MAKE_CLUSTER(name, params, args)                                                      \
  extern "C" __global__ void __cluster_dims__(2, 1, 1) name##_0 params { name<0> args; }      \
  extern "C" __global__ void __cluster_dims__(2, 1, 1) name##_1 params { name<1> args; }      \
  extern "C" __global__ void __cluster_dims__(2, 1, 1) name##_2 params { name<2> args; }

__device__ __forceinline__ int block_sum(const int *x) {
  __shared__ int s[64];
  int t = threadIdx.x;
  s[t] = x[blockIdx.x * 64 + t];
  for (int h = 32; h; h /= 2) { __syncthreads(); if (t < h) s[t] += s[t + h]; }
  return s[0];
}

template <int D> __device__ void red_wrap(const int *x, int *part, u32 *count, int *y) {
  __shared__ bool last;
  int sum = block_sum(x);
  if (threadIdx.x == 0) {
    part[blockIdx.x] = sum;
    HAS(1) __threadfence();
    last = atomicInc(count, gridDim.x - 1) == gridDim.x - 1;
    HAS(2) __threadfence();
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    int all = 0;
    for (int i = 0; i < gridDim.x; i++) all += part[i];
    *y = all;
  }
}
MAKE(red_wrap, (const int *x, int *part, u32 *count, int *y), (x, part, count, y))

template <int D> __device__ void red_asm(const int *x, int *part, u32 *count, int *y) {
  int sum = block_sum(x);
  u32 old = 0;
  if (threadIdx.x == 0) {
    part[blockIdx.x] = sum;
    if constexpr (D == 0) asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(old) : "l"(count) : "memory");
    if constexpr (D == 1) asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], 1;" : "=r"(old) : "l"(count) : "memory");
    if constexpr (D == 2) asm volatile("atom.acq_rel.cta.global.add.u32 %0, [%1], 1;" : "=r"(old) : "l"(count) : "memory");
  }
  if (__syncthreads_or(old == gridDim.x - 1)) {
    if (threadIdx.x < 32) {
      int all = threadIdx.x < gridDim.x ? part[threadIdx.x] : 0;
      all = __reduce_add_sync(~0u, all);
      if (threadIdx.x == 0) *y = all;
    }
  }
}
MAKE(red_asm, (const int *x, int *part, u32 *count, int *y), (x, part, count, y))

template <int D> __device__ void spin_exch(int *lock, int *c) {
  if (threadIdx.x == 0) {
    while (atomicExch(lock, 1) != 0) __nanosleep(32);
    HAS(1) __threadfence();
    *c += 1;
    HAS(2) __threadfence();
    atomicExch(lock, 0);
  }
}
MAKE(spin_exch, (int *lock, int *c), (lock, c))

template <int D> __device__ void spin_vol(int *lock, int *c) {
  if (threadIdx.x == 0) {
    while (atomicCAS(lock, 0, 1) != 0) { }
    HAS(1) __threadfence();
    *c += 1;
    HAS(2) __threadfence();
    *(volatile int *)lock = 0;
  }
}
MAKE(spin_vol, (int *lock, int *c), (lock, c))

template <int D> __device__ void spin_ttas(int *lock, int *c) {
  if (threadIdx.x == 0) {
    ref<int> l(*lock);
    while (true) {
      if (l.exchange(1, D == 1 ? memory_order_relaxed : memory_order_acquire) == 0) break;
      while (l.load(memory_order_relaxed)) { }
    }
    *c += 1;
    l.store(0, D == 2 ? memory_order_relaxed : memory_order_release);
  }
}
MAKE(spin_ttas, (int *lock, int *c), (lock, c))

template <int D> __device__ void spin_asm(int *lock, int *c) {
  __syncthreads();
  if (threadIdx.x == 0) {
    int old;
    do {
      if constexpr (D == 1) asm volatile("atom.global.relaxed.gpu.cas.b32 %0, [%1], 0, 1;" : "=r"(old) : "l"(lock) : "memory");
      else asm volatile("atom.global.acquire.gpu.cas.b32 %0, [%1], 0, 1;" : "=r"(old) : "l"(lock) : "memory");
    } while (old);
  }
  __syncthreads();
  c[threadIdx.x] += 1;
  __syncthreads();
  if (threadIdx.x == 0) {
    if constexpr (D == 2) asm volatile("st.global.relaxed.gpu.b32 [%0], 0;" ::"l"(lock) : "memory");
    else asm volatile("st.global.release.gpu.b32 [%0], 0;" ::"l"(lock) : "memory");
  }
}
MAKE(spin_asm, (int *lock, int *c), (lock, c))

template <int D> __device__ void ticket_vol(int *lock, int *c) {
  if (threadIdx.x == 0) {
    int mine = atomicAdd(&lock[0], 1);
    while (((volatile int *)lock)[1] != mine) { }
    HAS(1) __threadfence();
    *c += 1;
    HAS(2) __threadfence();
    ((volatile int *)lock)[1] = mine + 1;
  }
}
MAKE(ticket_vol, (int *lock, int *c), (lock, c))

template <int D> __device__ void ticket_ref(u32 *lock, int *c) {
  if (threadIdx.x == 0) {
    ref<u32> next(lock[0]), serving(lock[1]);
    u32 mine = next.fetch_add(1, memory_order_relaxed);
    while (serving.load(D == 1 ? memory_order_relaxed : memory_order_acquire) != mine) __nanosleep(20);
    *c += 1;
    HAS(2) serving.fetch_add(1, memory_order_release);
  }
}
MAKE(ticket_ref, (u32 *lock, int *c), (lock, c))

template <int D> __device__ void ticket_cta(u32 *lock, int *c) {
  if (threadIdx.x == 0) {
    u32 mine = atomicAdd(&lock[0], 1);
    u32 now;
    do { asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(lock + 1) : "memory"); } while (now != mine);
  }
  HAS(1) __syncthreads();
  c[threadIdx.x] += 1;
  HAS(2) __syncthreads();
  if (threadIdx.x == 0) asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(lock + 1) : "memory");
}
MAKE(ticket_cta, (u32 *lock, int *c), (lock, c))

template <int D> __device__ void lb_plain(u32 *flag, int *agg, int *pre, const int *x, int *y) {
  if (threadIdx.x) return;
  int b = blockIdx.x, own = x[b], before = 0;
  cuda::memory_order rel = D == 1 ? memory_order_relaxed : memory_order_release, acq = D == 2 ? memory_order_relaxed : memory_order_acquire;
  ref<u32> mine(flag[b]);
  if (b > 0) {
    agg[b] = own;
    mine.store(1, rel);
    for (int at = b - 1; at >= 0; at--) {
      ref<u32> other(flag[at]);
      u32 f;
      do f = other.load(acq); while (f == 0);
      before += f == 2 ? pre[at] : agg[at];
      if (f == 2) break;
    }
  }
  pre[b] = before + own;
  mine.store(2, rel);
  y[b] = before + own;
}
MAKE(lb_plain, (u32 *f, int *agg, int *pre, const int *x, int *y), (f, agg, pre, x, y))

template <int D> __device__ void fixup(int *flag, int *ws, int *y) {
  int t = threadIdx.x;
  if (blockIdx.x + 1 < gridDim.x) {
    ws[blockIdx.x * 64 + t] = blockIdx.x + t;
    HAS(1) __syncthreads();
    if (t == 0) asm volatile("red.release.gpu.global.add.s32 [%0], %1;\n" : : "l"(flag), "r"(1) : "memory");
  } else {
    if (t == 0) {
      int s = 0;
      while (s != (int)gridDim.x - 1) {
        if constexpr (D == 2) asm volatile("ld.volatile.global.b32 %0, [%1];\n" : "=r"(s) : "l"(flag) : "memory");
        else asm volatile("ld.global.acquire.gpu.b32 %0, [%1];\n" : "=r"(s) : "l"(flag) : "memory");
      }
    }
    __syncthreads();
    int all = 0;
    for (int k = 0; k + 1 < gridDim.x; k++) all += ws[k * 64 + t];
    y[t] = all;
  }
}
MAKE(fixup, (int *flag, int *ws, int *y), (flag, ws, y))

template <int D> __device__ void fixup2(int *flag, int *ws, int *y) {
  int t = threadIdx.x;
  if (blockIdx.x > 0) {
    ws[blockIdx.x * 64 + t] = blockIdx.x + t;
    __threadfence();
    HAS(1) __syncthreads();
    if (t == 0) atomicAdd(flag, 1);
  } else {
    if (t == 0) while (atomicAdd(flag, 0) < gridDim.x - 1) { }
    __syncthreads();
    HAS(2) __threadfence();
    int all = 0;
    for (int k = 1; k < gridDim.x; k++) all += ws[k * 64 + t];
    y[t] = all;
  }
}
MAKE(fixup2, (int *flag, int *ws, int *y), (flag, ws, y))

template <int D> __device__ void once(int *state, int *table, int *y) {
  if (threadIdx.x) return;
  int s = atomicCAS(state, 0, 1);
  if (s == 0) {
    *table = 7;
    HAS(1) __threadfence();
    atomicExch(state, 2);
  } else {
    while (*(volatile int *)state != 2) { }
    HAS(2) __threadfence();
  }
  y[blockIdx.x] = *table;
}
MAKE(once, (int *state, int *table, int *y), (state, table, y))

template <int D> __device__ void sched(int *next, const int *x, int *y, int tasks) {
  __shared__ int task;
  int mine = blockIdx.x;
  while (mine < tasks) {
    y[mine * 64 + threadIdx.x] = 2 * x[mine * 64 + threadIdx.x];
    if (threadIdx.x == 0) task = atomicAdd(next, 1) + (D == 2 ? gridDim.x - 1 : gridDim.x);
    __syncthreads();
    mine = task;
    HAS(1) __syncthreads();
  }
}
MAKE(sched, (int *n, const int *x, int *y, int tasks), (n, x, y, tasks))

template <int D> __device__ void clreduce(const int *x, int *y) {
  __shared__ int part;
  auto c = cg::this_cluster();
  int v = x[blockIdx.x * 64 + threadIdx.x];
  if (threadIdx.x == 0) part = 0;
  __syncthreads();
  atomicAdd(&part, v);
  HAS(1) c.sync(); else __syncthreads();
  if (c.block_rank() == 0 && threadIdx.x == 0) {
    int all = 0;
    for (int r = 0; r < c.num_blocks(); r++) all += *c.map_shared_rank(&part, r);
    y[blockIdx.x / 2] = all;
  }
  HAS(2) c.sync();
}
MAKE_CLUSTER(clreduce, (const int *x, int *y), (x, y))

template <int D> __device__ void semaphore(int *lock, int *y) {
  int t = threadIdx.x, state = -1;
  // fetch + wait
  do {
    if (t == 0) {
      if constexpr (D == 1) asm volatile("ld.global.relaxed.gpu.b32 %0, [%1];" : "=r"(state) : "l"(lock) : "memory");
      else asm volatile("ld.global.acquire.gpu.b32 %0, [%1];" : "=r"(state) : "l"(lock) : "memory");
    } else state = blockIdx.x;
  } while (__syncthreads_and(state != blockIdx.x) || __syncthreads_or(t == 0 && state != blockIdx.x));
  y[t] += blockIdx.x + 1;
  __syncthreads();
  if (t == 0) {
    if constexpr (D == 2) asm volatile("st.global.relaxed.gpu.b32 [%0], %1;" ::"l"(lock), "r"(blockIdx.x + 1) : "memory");
    else asm volatile("st.global.release.gpu.b32 [%0], %1;" ::"l"(lock), "r"(blockIdx.x + 1) : "memory");
  }
}
MAKE(semaphore, (int *lock, int *y), (lock, y))

template <int D> __device__ void gsync(int *a, int *b) {
  cg::grid_group g = cg::this_grid();
  int i = g.thread_rank(), n = g.size();
  for (int s = 0; s < 2; s++) {
    int *src = s & 1 ? b : a, *dst = s & 1 ? a : b;
    if (i > 0 && i < n - 1) dst[i] = src[i - 1] + src[i + 1];
    if (D == 1 ? s : 1) g.sync();
    if (D == 2 && blockIdx.x == 1) return;
  }
}
MAKE(gsync, (int *a, int *b), (a, b))
