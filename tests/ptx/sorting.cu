// Sorts and searches of a CTA.

// Bitonic, keys and values in shared memory.
__global__ void bitonic_sort(const int *key, const short *value, int *sorted, short *moved) {
  __shared__ int keys[128];
  __shared__ short values[128];
  const int t = threadIdx.x;
  keys[t] = key[t];
  keys[t + 64] = key[t + 64];
  values[t] = value[t];
  values[t + 64] = value[t + 64];
  for (int size = 2; size <= 128; size <<= 1)
    for (int distance = size >> 1; distance > 0; distance >>= 1) {
      __syncthreads();
      const int i = 2 * t - (t & (distance - 1)), j = i + distance;
      const bool up = (i & size) == 0;
      if ((keys[i] > keys[j]) == up) {
        const int k = keys[i];
        keys[i] = keys[j];
        keys[j] = k;
        const short v = values[i];
        values[i] = values[j];
        values[j] = v;
      }
    }
  __syncthreads();
  for (int k = t; k < 128; k += 64) {
    sorted[k] = keys[k];
    moved[k] = values[k];
  }
}

// Odd-even transposition until a round changes nothing.
template <typename T>
__global__ void odd_even_sort(T *x, int n, int *rounds) {
  const int t = threadIdx.x;
  int round = 0;
  for (bool changed = true; changed; round++) {
    bool own = false;
    for (int phase = 0; phase < 2; phase++) {
      const int i = 2 * t + phase;
      if (i + 1 < n && x[i + 1] < x[i]) {
        const T kept = x[i];
        x[i] = x[i + 1];
        x[i + 1] = kept;
        own = true;
      }
      __syncthreads();
    }
    changed = __syncthreads_or(own);
  }
  if (t == 0) *rounds = round;
}
template __global__ void odd_even_sort<float>(float *, int, int *);
template __global__ void odd_even_sort<long long>(long long *, int, int *);

// A least-significant-digit radix sort, two bits a round, ranks by ballots.
__global__ void radix_sort(const unsigned *x, unsigned *y, int bits) {
  __shared__ unsigned keys[128];
  __shared__ int counts[4][4];
  const int t = threadIdx.x, lane = t % 32, warp = t / 32;
  unsigned key = x[t];
  for (int shift = 0; shift < bits; shift += 2) {
    const int digit = key >> shift & 3;
    int rank = 0;
    for (int d = 0; d < 4; d++) {
      const unsigned ballot = __ballot_sync(~0u, digit == d);
      if (lane == 0) counts[d][warp] = __popc(ballot);
      if (digit == d) rank = __popc(ballot & ((1u << lane) - 1));
    }
    __syncthreads();
    int start = 0;
    for (int d = 0; d < 4; d++)
      for (int w = 0; w < 4; w++)
        if (d < digit || (d == digit && w < warp)) start += counts[d][w];
    keys[start + rank] = key;
    __syncthreads();
    key = keys[t];
    __syncthreads();
  }
  y[t] = key;
}

// Ranks by counting: each thread compares its key with all of the others.
__global__ void rank_sort(const double *x, double *y, int n) {
  extern __shared__ double values[];
  const int i = threadIdx.x;
  if (i < n) values[i] = x[i];
  __syncthreads();
  if (i >= n) return;
  int rank = 0;
  for (int k = 0; k < n; k++) rank += values[k] < values[i] || (values[k] == values[i] && k < i);
  y[rank] = values[i];
}
