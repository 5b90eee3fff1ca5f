// Histograms, and other counting with atomics.

// Bins in shared memory, then in global memory.
__global__ void shared_bins(const unsigned char *x, unsigned *bins, int n) {
  __shared__ unsigned own[256];
  for (int b = threadIdx.x; b < 256; b += blockDim.x) own[b] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&own[x[i]], 1u);
  __syncthreads();
  for (int b = threadIdx.x; b < 256; b += blockDim.x)
    if (own[b]) atomicAdd(&bins[b], own[b]);
}

// Bins of 8 bits for each thread, a column of shared memory, added up at the end.
__global__ void private_bins(const unsigned char *x, int *bins, int n) {
  __shared__ unsigned char own[16][64];
  const int t = threadIdx.x;
  for (int b = 0; b < 16; b++) own[b][t] = 0;
  for (int i = t; i < n; i += 64) own[x[i] >> 4][t]++;
  __syncthreads();
  if (t < 16) {
    int sum = 0;
    for (int k = 0; k < 64; k++) sum += own[t][(k + t) % 64];
    bins[t] = sum;
  }
}

// Wide bins in global memory: sums of 64-bit weights, and the largest weight of each.
__global__ void weighted(const unsigned *key, const long long *weight, unsigned long long *sum, long long *largest) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(&sum[key[i] % 8], (unsigned long long)weight[i]);
  atomicMax(&largest[key[i] % 8], weight[i]);
}

// Lanes with equal keys elect one that adds for all.
__global__ void matched(const unsigned *key, unsigned *bins) {
  const unsigned k = key[blockIdx.x * blockDim.x + threadIdx.x];
  const unsigned peers = __match_any_sync(0xffffffff, k);
  if (__ffs(peers) - 1 == threadIdx.x % 32) atomicAdd(&bins[k], (unsigned)__popc(peers));
}

// Sums of floats that are multiples of 1/4: exact, whatever the order.
__global__ void float_sums(const float *x, float *sums, double *total, int n) {
  __shared__ float part;
  if (threadIdx.x == 0) part = 0;
  __syncthreads();
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    atomicAdd(&part, x[i]);
    atomicAdd(total, (double)x[i]);
  }
  __syncthreads();
  if (threadIdx.x == 0) sums[blockIdx.x] = part;
}

// A maximum of floats by compare and swap in a loop: the loop's length hangs on the order of the warps.
__global__ void swap_max(const float *x, unsigned *result) {
  const float value = x[threadIdx.x];
  unsigned seen = 0;
  while (__uint_as_float(seen) < value) {
    const unsigned before = atomicCAS(result, seen, __float_as_uint(value));
    if (before == seen) break;
    seen = before;
  }
}
