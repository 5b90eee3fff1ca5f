// Collectives of two GPUs by multicast addresses: `x` is one of the arrays `x0` and `x1`, and so on.  `rank` is the
// launch's first rank, as in ranks.cu.  `*_wrong` have a bug each.
#include <cstdint>

#define KERNEL extern "C" __global__ void

// Each rank stores its flag to both, and waits for those of both: a lane for each.
__device__ void barrier(uint32_t *all, uint32_t *own, int rank, uint32_t epoch, bool releases = true) {
  __syncthreads();
  if (threadIdx.x == rank) {
    if (releases) asm volatile("multimem.st.release.sys.global.u32 [%0], %1;" ::"l"(all + rank), "r"(epoch) : "memory");
    else asm volatile("multimem.st.relaxed.sys.global.u32 [%0], %1;" ::"l"(all + rank), "r"(epoch) : "memory");
  }
  if (threadIdx.x < 2) {
    uint32_t v;
    do asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(own + threadIdx.x) : "memory");
    while (v < epoch);
  }
  __syncthreads();
}

__device__ float load_sum(float *all) {
  float v;
  asm volatile("multimem.ld_reduce.relaxed.sys.global.add.f32 %0, [%1];" : "=f"(v) : "l"(all) : "memory");
  return v;
}

__device__ void one_shot_all_reduce(float *x, float *x0, float *x1, uint32_t *flag, uint32_t *f0, uint32_t *f1,
                                    float *o0, float *o1, int first, bool releases, bool ends) {
  const int rank = first + blockIdx.x, i = threadIdx.x;
  float *own = rank ? x1 : x0, *out = rank ? o1 : o0;
  uint32_t *count = rank ? f1 : f0;
  own[i] += 1;
  barrier(flag, count, rank, 1, releases);
  out[i] = load_sum(x + i);
  if (ends) barrier(flag, count, rank, 2);
  own[i] = 0;  // or the peer reads this
}

#define ARGUMENTS \
  float *x, float *x0, float *x1, uint32_t *flag, uint32_t *f0, uint32_t *f1, float *o0, float *o1, int first

KERNEL one_shot(ARGUMENTS) { one_shot_all_reduce(x, x0, x1, flag, f0, f1, o0, o1, first, true, true); }
KERNEL one_shot_relaxed_wrong(ARGUMENTS) { one_shot_all_reduce(x, x0, x1, flag, f0, f1, o0, o1, first, false, true); }
KERNEL one_shot_refill_wrong(ARGUMENTS) { one_shot_all_reduce(x, x0, x1, flag, f0, f1, o0, o1, first, true, false); }

// Each rank reduces half of the elements, and stores the sums to both.
__device__ void two_shot_all_reduce(float *x, float *x0, float *x1, uint32_t *flag, uint32_t *f0, uint32_t *f1,
                                    float *o0, float *o1, int first, bool waits) {
  const int rank = first + blockIdx.x, i = 4 * (rank * blockDim.x + threadIdx.x);
  uint32_t *count = rank ? f1 : f0;
  barrier(flag, count, rank, 1);
  float a, b, c, d;
  asm volatile("multimem.ld_reduce.relaxed.sys.global.add.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(a), "=f"(b), "=f"(c), "=f"(d) : "l"(x + i) : "memory");
  asm volatile("multimem.st.relaxed.sys.global.v4.f32 [%0], {%1, %2, %3, %4};"
               ::"l"(x + i), "f"(a), "f"(b), "f"(c), "f"(d) : "memory");
  if (waits) barrier(flag, count, rank, 2);
  else __syncthreads();
  float *own = rank ? x1 : x0, *out = rank ? o1 : o0;
  for (int k = threadIdx.x; k < 8 * blockDim.x; k += blockDim.x) out[k] = own[k];
}

KERNEL two_shot(ARGUMENTS) { two_shot_all_reduce(x, x0, x1, flag, f0, f1, o0, o1, first, true); }
KERNEL two_shot_wrong(ARGUMENTS) { two_shot_all_reduce(x, x0, x1, flag, f0, f1, o0, o1, first, false); }

// A barrier by counters at both ranks, to which both add.
KERNEL counted(ARGUMENTS) {
  const int rank = first + blockIdx.x, i = threadIdx.x;
  float *own = rank ? x1 : x0, *out = rank ? o1 : o0;
  own[i] += 1;
  __syncthreads();
  if (i == 0) {
    asm volatile("multimem.red.release.sys.global.add.u32 [%0], 1;" ::"l"(flag) : "memory");
    uint32_t v;
    do asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(rank ? f1 : f0) : "memory");
    while (v < 2);
  }
  __syncthreads();
  out[i] = load_sum(x + i);
}

// Weak accesses: rank 0 stores to both.
KERNEL broadcast(float *y, const float *x) {
  if (blockIdx.x == 0) asm volatile("multimem.st.weak.global.f32 [%0], %1;" ::"l"(y + threadIdx.x), "f"(x[threadIdx.x]));
}
KERNEL broadcast_wrong(float *y, const float *x) {
  const float v = x[threadIdx.x] + blockIdx.x;
  asm volatile("multimem.st.weak.global.f32 [%0], %1;" ::"l"(y + threadIdx.x), "f"(v));
}

// One element per lane: the choice of the address is unknown when the kernel is compiled.
KERNEL reduce_chosen(uint32_t *a, uint32_t *b, uint32_t *y) {
  uint32_t *p = (threadIdx.x & 1 ? a : b) + threadIdx.x, v;
  asm volatile("multimem.ld_reduce.weak.global.max.u32 %0, [%1];" : "=r"(v) : "l"(p));
  y[threadIdx.x] = v;
}

struct Pair { uint32_t *x; int n; uint32_t *all; };
KERNEL add_to_all(Pair given) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < given.n) asm volatile("multimem.red.relaxed.sys.global.add.u32 [%0], %1;" ::"l"(given.all + i % 4), "r"(given.x[i]));
}

// An access by another instruction than multimem, and a multimem at another address.
KERNEL loads_multicast_wrong(float *x, float *y) { y[threadIdx.x] = x[threadIdx.x]; }
KERNEL reduces_array_wrong(float *x, float *y) { y[threadIdx.x] = load_sum(x + threadIdx.x); }
