// What the lanes of a warp tell each other. Needs sm_80 or later for the reductions.

// All four shuffles, with groups of 8, 16 and 32.
__global__ void shuffles(const int *x, int *y) {
  const int lane = threadIdx.x;
  const int value = x[lane];
  int *out = y + 6 * lane;
  out[0] = __shfl_sync(~0u, value, lane * 5 + 3);
  out[1] = __shfl_sync(~0u, value, 2, 8);
  out[2] = __shfl_up_sync(~0u, value, 3, 16);
  out[3] = __shfl_down_sync(~0u, value, 7);
  out[4] = __shfl_xor_sync(~0u, value, 21);
  out[5] = __shfl_sync(~0u, value, x[31 - lane] % 32, 16);
}

// 64-bit and floating-point values are shuffled in halves.
__global__ void wide_shuffles(const double *x, const long long *k, double *y, long long *z) {
  y[threadIdx.x] = __shfl_xor_sync(~0u, x[threadIdx.x], 1) - __shfl_down_sync(~0u, x[threadIdx.x], 4);
  z[threadIdx.x] = __shfl_up_sync(~0u, k[threadIdx.x], 1) ^ __shfl_sync(~0u, k[threadIdx.x], 9);
}

// Votes and matches, over the whole warp and over a part of it.
__global__ void votes(const int *x, unsigned *y) {
  const int lane = threadIdx.x % 32;
  const int value = x[threadIdx.x];
  unsigned *out = y + 8 * threadIdx.x;
  out[0] = __ballot_sync(~0u, value > 4);
  out[1] = __any_sync(~0u, value == 9) + 2 * __all_sync(~0u, value < 9);
  out[2] = __match_any_sync(~0u, value);
  int same;
  out[3] = __match_all_sync(~0u, value / 10, &same) - same;
  out[4] = out[5] = out[6] = 0;
  if (lane % 3 == 0) {
    const unsigned third = 0x49249249u;
    out[4] = __ballot_sync(third, value & 1);
    out[5] = __match_any_sync(third, value & 3);
    out[6] = __activemask();
  }
  __syncwarp();
  unsigned below;
  asm("mov.u32 %0, %%lanemask_lt;" : "=r"(below));
  out[7] = below;
}

// Reductions in one instruction.
__global__ void warp_reductions(const int *x, int *y, unsigned *z) {
  const int value = x[threadIdx.x];
  y[3 * threadIdx.x] = __reduce_add_sync(~0u, value);
  y[3 * threadIdx.x + 1] = __reduce_min_sync(~0u, value);
  y[3 * threadIdx.x + 2] = 0;
  if (threadIdx.x < 12) y[3 * threadIdx.x + 2] = __reduce_max_sync(0xfffu, value);
  z[3 * threadIdx.x] = __reduce_and_sync(~0u, (unsigned)value);
  z[3 * threadIdx.x + 1] = __reduce_or_sync(~0u, (unsigned)value);
  z[3 * threadIdx.x + 2] = __reduce_xor_sync(~0u, (unsigned)value);
}

// Neighbours through shared memory, lanes of a warp kept in step by __syncwarp alone.
__global__ void warp_exchange(const float *x, float *y, int rounds) {
  __shared__ float tile[4][32];
  float *own = tile[threadIdx.x / 32];
  const int lane = threadIdx.x % 32;
  float value = x[threadIdx.x];
  for (int k = 0; k < rounds; k++) {
    own[lane] = value;
    __syncwarp();
    value = 0.25f * own[(lane + 31) % 32] + 0.75f * own[(lane + 1) % 32];
    __syncwarp();
  }
  y[threadIdx.x] = value;
}

// The classic tree of a warp, with the barriers that independent lanes need.
__global__ void warp_tree(const int *x, int *y) {
  __shared__ int part[64];
  const int t = threadIdx.x;
  int *own = part + t / 32 * 32;
  const int lane = t % 32;
  own[lane] = x[t];
  for (int half = 16; half; half /= 2) {
    __syncwarp();
    if (lane < half) own[lane] += own[lane + half];
  }
  __syncwarp();
  y[t] = own[0] - own[lane];
}

// A bitonic sort of 32 keys by shuffles.
__global__ void warp_sort(const unsigned *x, unsigned *y) {
  const unsigned lane = threadIdx.x % 32;
  unsigned key = x[threadIdx.x];
  for (unsigned size = 2; size <= 32; size *= 2)
    for (unsigned distance = size / 2; distance; distance /= 2) {
      const unsigned other = __shfl_xor_sync(~0u, key, distance);
      const bool ascending = !(lane & size);
      const bool lower = !(lane & distance);
      key = ascending == lower ? min(key, other) : max(key, other);
    }
  y[threadIdx.x] = key;
}

// Two halves of a warp synchronise on their own, each with its mask.
__global__ void half_warps(const int *x, int *y) {
  __shared__ int tile[32];
  const int lane = threadIdx.x;
  tile[lane] = x[lane];
  int sum = 0;
  if (lane < 16) {
    __syncwarp(0x0000ffff);
    for (int k = 0; k < 16; k++) sum += tile[k];
  } else {
    __syncwarp(0xffff0000);
    for (int k = 16; k < 32; k++) sum -= tile[k];
  }
  y[lane] = sum;
}

// One lane of the active ones takes a ticket for all.
__global__ void aggregated(const int *x, int *y, unsigned *tickets) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (x[i] > 0) {
    const unsigned active = __activemask();
    const int leader = __ffs(active) - 1;
    if (threadIdx.x % 32 == leader) atomicAdd(tickets, (unsigned)__popc(active));
    y[i] = __popc(active);
  }
}
