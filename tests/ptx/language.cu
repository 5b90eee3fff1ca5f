// C++ as people write it: namespaces, functors, bit fields, tables, references, packs; and rarer atomics and types.
#include <cuda_bf16.h>

namespace tools {
namespace {
template <typename Function>
__global__ void apply(Function function, const int *x, int *y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = function(x[i], i);
}
}  // namespace

// A functor with state, by value.
struct Affine {
  int slope;
  short offset;
  __device__ int operator()(int value, int i) const { return slope * value + offset * i; }
};

template <int WIDTH>
struct Clamp {
  unsigned low : 5, high : WIDTH;
  __device__ int operator()(int value, int) const { return min(max(value, (int)low), (int)high); }
};
}  // namespace tools
template __global__ void tools::apply<tools::Affine>(tools::Affine, const int *, int *, int);
template __global__ void tools::apply<tools::Clamp<9>>(tools::Clamp<9>, const int *, int *, int);

// Bit fields in registers and in memory.
struct Packed {
  unsigned kind : 3;
  int delta : 7;
  unsigned long long rest : 40;
};

__global__ void bit_fields(const Packed *x, int *y, Packed *z) {
  Packed p = x[threadIdx.x];
  y[threadIdx.x] = p.kind * 1000 + p.delta;
  p.delta = p.delta * 3;
  p.rest = p.rest + ((unsigned long long)p.kind << 35);
  p.kind ^= 5;
  z[threadIdx.x] = p;
}

// A table that the compiler puts into memory, and one that it computes.
constexpr __device__ int squares(int n) { return n * n; }

__global__ void tables(const int *x, int *y) {
  static constexpr short primes[] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37};
  static const float thirds[4] = {0.0f, 1.0f / 3, 2.0f / 3, 1.0f};
  constexpr int nine = squares(3);
  y[threadIdx.x] = primes[x[threadIdx.x] % 12] * nine + (int)(thirds[x[threadIdx.x] & 3] * 99.0f);
}

// A class that holds a reference to shared memory; its operators.
template <typename T, int N>
class Ring {
  T (&values)[N];

 public:
  __device__ explicit Ring(T (&values)[N]) : values(values) {}
  __device__ T &operator[](int i) { return values[(i % N + N) % N]; }
};

__global__ void references(const double *x, double *y) {
  __shared__ double values[48];
  Ring<double, 48> ring(values);
  ring[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = ring[threadIdx.x - 1] + ring[threadIdx.x + 17] * 0.5;
}

// A pack of arguments, folded.
template <typename... Numbers>
__device__ int weighted(Numbers... numbers) {
  int weight = 0;
  return (0 + ... + (numbers * ++weight));
}

__global__ void packs(const int *x, int *y) {
  const int v = x[threadIdx.x];
  y[threadIdx.x] = weighted(v, v / 2, v % 7) - weighted(v) * weighted(3, v);
}

// Atomics that wrap, and those of 64 bits.
__global__ void atomics(unsigned *counters, unsigned long long *wide, const unsigned *x) {
  const int t = threadIdx.x;
  atomicInc(&counters[0], 9);
  atomicDec(&counters[1], 20);
  atomicSub(&counters[2], x[t]);
  atomicMax(&counters[3], x[t]);
  atomicMin((int *)&counters[4], (int)x[t] - 500);
  atomicAnd(&wide[0], ~(1ull << t));
  atomicOr(&wide[1], 1ull << t);
  atomicXor(&wide[2], (unsigned long long)x[t] << 30);
  atomicMin(&wide[3], (unsigned long long)x[t] << 20);
}

// bfloat16, one and two at a time.
__global__ void brain_floats(const __nv_bfloat16 *a, const __nv_bfloat16 *b, __nv_bfloat16 *c, __nv_bfloat162 *d, float *e) {
  const int t = threadIdx.x;
  c[t] = __hfma(a[t], b[t], a[t]);
  const __nv_bfloat162 both = __halves2bfloat162(a[t], b[t]);
  d[t] = __hmax2(__hadd2(both, both), __float2bfloat162_rn(-0.5f));
  e[t] = __bfloat162float(a[t]) - __bfloat162float(__float2bfloat16_rn(0.1f));
}

// A hint for the compiler and a pause: neither changes the result.
__global__ void __launch_bounds__(64, 4) hints(const int *__restrict__ x, int *__restrict__ y, int n) {
  __builtin_assume(n > 0);
  int sum = 0;
#pragma unroll 1
  for (int k = 0; k < n; k++) sum += x[(threadIdx.x + k) % 64];
  __nanosleep(100);
  if (__builtin_expect(sum < 0, 0)) sum = -sum;
  y[threadIdx.x] = sum;
}
