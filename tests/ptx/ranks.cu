// Two GPUs of one host: collectives by flags in the memory of peers.  `first` is the number of the launch's first rank:
// a launch of one GPU has its CTAs alone, one with `ranks=2` those of both.  `*_wrong` have a bug each.
#include <cstdint>

constexpr int CTAS = 2;  // of a rank
#define KERNEL extern "C" __global__ void

__device__ uint32_t load_acquire(uint32_t *p) {
  uint32_t v;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}

__device__ void store_release(uint32_t *p, uint32_t v) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

__device__ void store_relaxed(uint32_t *p, uint32_t v) {
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

template <typename T> struct Both {
  T *of[2];
  __device__ T *operator[](int rank) const { return rank ? of[1] : of[0]; }
};

// CTA `b` of each rank signals that of each rank, and waits for all: a lane for each.
__device__ void barrier(Both<uint32_t> flags, int rank, int b, uint32_t epoch, bool releases = true) {
  __syncthreads();
  if (threadIdx.x < 2) {
    const int peer = threadIdx.x;
    uint32_t *there = flags[peer] + 2 * b + rank, *here = flags[rank] + 2 * b + peer;
    if (releases) store_release(there, epoch);
    else store_relaxed(there, epoch);
    while (load_acquire(here) < epoch) {}
  }
  __syncthreads();
}

__device__ void one_shot_all_reduce(Both<float> x, Both<uint32_t> flags, Both<float> out, int first, int epochs,
                                    bool ends) {
  const int rank = first + blockIdx.x / CTAS, b = blockIdx.x % CTAS, i = b * blockDim.x + threadIdx.x;
  uint32_t met = 0;
  for (int epoch = 1; epoch <= epochs; epoch++) {
    x[rank][i] += epoch;
    barrier(flags, rank, b, ++met);
    out[rank][i] = x[0][i] + x[1][i];
    if (ends) barrier(flags, rank, b, ++met);  // or `x` changes while the peer reads it
  }
}

KERNEL one_shot(float *x0, float *x1, uint32_t *f0, uint32_t *f1, float *o0, float *o1, int first, int epochs) {
  one_shot_all_reduce({x0, x1}, {f0, f1}, {o0, o1}, first, epochs, true);
}

KERNEL one_shot_wrong(float *x0, float *x1, uint32_t *f0, uint32_t *f1, float *o0, float *o1, int first, int epochs) {
  one_shot_all_reduce({x0, x1}, {f0, f1}, {o0, o1}, first, epochs, false);
}

// A rank reduces its half of the elements, and gathers the other one.
__device__ void two_shot_all_reduce(Both<float> x, Both<float> sums, Both<uint32_t> flags, Both<float> out, int first,
                                    bool releases) {
  const int rank = first + blockIdx.x / CTAS, b = blockIdx.x % CTAS, half = CTAS * blockDim.x;
  const int part = b * blockDim.x + threadIdx.x, i = rank * half + part;
  for (int k = 0; k < 2; k++) x[rank][k * half + part] += 1;
  barrier(flags, rank, b, 1);
  sums[rank][part] = x[0][i] + x[1][i];
  barrier(flags, rank, b, 2, releases);
  for (int k = 0; k < 2; k++) out[rank][k * half + part] = sums[k][part];
  barrier(flags, rank, b, 3);
}

KERNEL two_shot(float *x0, float *x1, float *s0, float *s1, uint32_t *f0, uint32_t *f1, float *o0, float *o1,
                int first) {
  two_shot_all_reduce({x0, x1}, {s0, s1}, {f0, f1}, {o0, o1}, first, true);
}

KERNEL two_shot_wrong(float *x0, float *x1, float *s0, float *s1, uint32_t *f0, uint32_t *f1, float *o0, float *o1,
                      int first) {
  two_shot_all_reduce({x0, x1}, {s0, s1}, {f0, f1}, {o0, o1}, first, false);
}

// Rank 0 puts chunks into the memory of rank 1, with a signal after each.
__device__ void put_with_signal(const float *x, float *there, uint32_t *signal, float *out, int first, int chunks,
                                bool in_order) {
  const int rank = first + blockIdx.x, t = threadIdx.x, n = blockDim.x;
  for (int c = 0; c < chunks; c++) {
    if (rank == 0) {
      there[c * n + t] = x[c * n + t];
      if (in_order) __syncthreads();
      if (t == 0) asm volatile("red.release.sys.global.add.u32 [%0], 1;" ::"l"(signal) : "memory");
    } else {
      if (t == 0) while (load_acquire(signal) <= c) {}
      __syncthreads();
      out[c * n + t] = 2 * there[c * n + t];
    }
  }
}

KERNEL put(const float *x, float *there, uint32_t *signal, float *out, int first, int chunks) {
  put_with_signal(x, there, signal, out, first, chunks, true);
}

KERNEL put_wrong(const float *x, float *there, uint32_t *signal, float *out, int first, int chunks) {
  put_with_signal(x, there, signal, out, first, chunks, false);
}
