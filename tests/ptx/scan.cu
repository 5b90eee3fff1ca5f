// Prefix sums, and what is built on them.

// Hillis and Steele, with two buffers so that one barrier a step is enough.
__global__ void inclusive_scan(const int *x, int *y) {
  __shared__ int buffer[2][128];
  const int t = threadIdx.x;
  int from = 0;
  buffer[0][t] = x[blockIdx.x * 128 + t];
  for (int step = 1; step < 128; step *= 2) {
    __syncthreads();
    buffer[1 - from][t] = buffer[from][t] + (t >= step ? buffer[from][t - step] : 0);
    from = 1 - from;
  }
  y[blockIdx.x * 128 + t] = buffer[from][t];
}

// Blelloch: up and down a tree; the total goes to a second array.
__global__ void exclusive_scan(const unsigned *x, unsigned *y, unsigned *total) {
  extern __shared__ unsigned tree[];
  const int t = threadIdx.x;
  const int n = 2 * blockDim.x;
  tree[2 * t] = x[2 * t];
  tree[2 * t + 1] = x[2 * t + 1];
  int offset = 1;
  for (int d = n >> 1; d > 0; d >>= 1) {
    __syncthreads();
    if (t < d) tree[offset * (2 * t + 2) - 1] += tree[offset * (2 * t + 1) - 1];
    offset <<= 1;
  }
  if (t == 0) {
    *total = tree[n - 1];
    tree[n - 1] = 0;
  }
  for (int d = 1; d < n; d <<= 1) {
    offset >>= 1;
    __syncthreads();
    if (t < d) {
      const int low = offset * (2 * t + 1) - 1, high = offset * (2 * t + 2) - 1;
      const unsigned kept = tree[low];
      tree[low] = tree[high];
      tree[high] += kept;
    }
  }
  __syncthreads();
  y[2 * t] = tree[2 * t];
  y[2 * t + 1] = tree[2 * t + 1];
}

template <typename T>
__device__ T warp_scan(T value) {
  const int lane = threadIdx.x & 31;
  for (int step = 1; step < 32; step <<= 1) {
    const T left = __shfl_up_sync(0xffffffffu, value, step);
    if (lane >= step) value += left;
  }
  return value;
}

// Scans of warps, then a scan of their sums by one warp.
template <typename T>
__global__ void block_scan(const T *x, T *y) {
  __shared__ T sums[32];
  const int t = threadIdx.x;
  T value = warp_scan(x[t]);
  if (t % 32 == 31) sums[t / 32] = value;
  __syncthreads();
  if (t < 32) {
    T sum = t < blockDim.x / 32 ? sums[t] : T(0);
    sum = warp_scan(sum);
    __syncwarp();
    sums[t] = sum;
  }
  __syncthreads();
  if (t >= 32) value += sums[t / 32 - 1];
  y[t] = value;
}
template __global__ void block_scan<float>(const float *, float *);
template __global__ void block_scan<long long>(const long long *, long long *);
template __global__ void block_scan<double>(const double *, double *);

// A scan that starts again where `head` is set: pairs of flag and sum.
__global__ void segmented_scan(const int2 *x, int *y) {
  int2 own = x[threadIdx.x];
  const int lane = threadIdx.x % 32;
  for (int step = 1; step < 32; step *= 2) {
    const int head = __shfl_up_sync(~0u, own.x, step);
    const int sum = __shfl_up_sync(~0u, own.y, step);
    if (lane >= step) {
      if (!own.x) own.y += sum;
      own.x |= head;
    }
  }
  y[threadIdx.x] = own.y;
}

// Keeps the odd values, in their order: ballots count in the warp, shared memory over the warps.
__global__ void compact(const int *x, int *y, int *count) {
  __shared__ int starts[9];
  const int t = threadIdx.x, warp = t / 32, lane = t % 32;
  const int value = x[t];
  const bool keep = value & 1;
  const unsigned ballot = __ballot_sync(0xffffffff, keep);
  if (lane == 0) starts[warp + 1] = __popc(ballot);
  __syncthreads();
  if (t == 0) {
    starts[0] = 0;
    for (int w = 1; w <= blockDim.x / 32; w++) starts[w] += starts[w - 1];
    *count = starts[blockDim.x / 32];
  }
  __syncthreads();
  if (keep) y[starts[warp] + __popc(ballot & ((1u << lane) - 1))] = value;
}
