// Sums, extrema and counts over threads: in shared memory, with shuffles, with atomics.

// A tree in shared memory, a CTA a result.
__global__ void tree_sum(const float *x, float *y, int n) {
  __shared__ float part[256];
  const int t = threadIdx.x;
  const int i = blockIdx.x * 256 + t;
  part[t] = i < n ? x[i] : 0.0f;
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (t < half) part[t] += part[t + half];
    __syncthreads();
  }
  if (t == 0) y[blockIdx.x] = part[0];
}

__device__ float warp_sum(float value) {
  for (int offset = 16; offset > 0; offset >>= 1) value += __shfl_down_sync(0xffffffff, value, offset);
  return value;
}

// Shuffles inside the warps, shared memory between them.
__global__ void shuffle_sum(const float *x, float *y, int n) {
  __shared__ float part[32];
  float sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += x[i];
  sum = warp_sum(sum);
  const int lane = threadIdx.x % 32;
  if (lane == 0) part[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x < 32) {
    sum = lane < blockDim.x / 32 ? part[lane] : 0.0f;
    sum = warp_sum(sum);
    if (lane == 0) y[blockIdx.x] = sum;
  }
}

// Every lane of a warp ends with the extremum of its group of 8.
__global__ void butterfly_max(const int *x, int *y) {
  int value = x[threadIdx.x];
  for (int mask = 4; mask > 0; mask >>= 1) value = max(value, __shfl_xor_sync(0xffffffff, value, mask, 8));
  y[threadIdx.x] = value;
}

// Integer atomics commute: the result is the same in every order.
__global__ void atomic_sums(const int *x, int *sum, unsigned *smallest, unsigned long long *wide, unsigned *bits, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  atomicAdd(sum, x[i]);
  atomicMin(smallest, (unsigned)x[i]);
  atomicAdd(wide, (unsigned long long)x[i] << 20);
  atomicXor(&bits[0], x[i]);
  atomicOr(&bits[1], x[i] & 0x0f0f);
  atomicAnd(&bits[2], x[i] | 0xff);
  atomicMax((int *)&bits[3], x[i]);
}

// The place of the least element: value and index in one 64-bit word.
__global__ void argmin(const unsigned *x, unsigned long long *best, int n) {
  __shared__ unsigned long long least;
  if (threadIdx.x == 0) least = ~0ull;
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) atomicMin(&least, (unsigned long long)x[i] << 32 | i);
  __syncthreads();
  if (threadIdx.x == 0) best[blockIdx.x] = least;
}

// A dot product in double precision, with a tree over a run-time number of threads.
__global__ void dot(const double *x, const double *y, double *result, int n) {
  extern __shared__ double products[];
  double sum = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += x[i] * y[i];
  products[threadIdx.x] = sum;
  for (int half = blockDim.x / 2; half; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) products[threadIdx.x] += products[threadIdx.x + half];
  }
  if (threadIdx.x == 0) *result = products[0];
}

// The barriers that reduce a predicate.
__global__ void counting_barriers(const int *x, int *y) {
  const int value = x[blockIdx.x * blockDim.x + threadIdx.x];
  const int even = __syncthreads_count(value % 2 == 0);
  const int all = __syncthreads_and(value < 1000);
  const int any = __syncthreads_or(value == 77);
  if (threadIdx.x == 0) {
    y[3 * blockIdx.x] = even;
    y[3 * blockIdx.x + 1] = all ? 1 : 0;
    y[3 * blockIdx.x + 2] = any ? 1 : 0;
  }
}

// Mean and variance together, as a struct that is shuffled word by word.
struct Moments {
  float count, mean, squares;
};

__device__ Moments join(Moments a, Moments b) {
  const float count = a.count + b.count;
  const float delta = b.mean - a.mean;
  const float share = b.count / count;
  return {count, a.mean + delta * share, a.squares + b.squares + delta * delta * a.count * share};
}

__global__ void moments(const float *x, float *y) {
  Moments own = {1.0f, x[blockIdx.x * 32 + threadIdx.x], 0.0f};
  for (int offset = 1; offset < 32; offset *= 2) {
    Moments other;
    other.count = __shfl_down_sync(~0u, own.count, offset);
    other.mean = __shfl_down_sync(~0u, own.mean, offset);
    other.squares = __shfl_down_sync(~0u, own.squares, offset);
    own = join(own, other);
  }
  if (threadIdx.x == 0) {
    y[2 * blockIdx.x] = own.mean;
    y[2 * blockIdx.x + 1] = own.squares / own.count;
  }
}
