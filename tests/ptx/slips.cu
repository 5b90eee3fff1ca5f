// Slips of the pen, one in each kernel: the first report names the cause.
#include "named_barrier.h"

// The bound of one role's loop: one round more than the other role makes.
__global__ void one_round_more(const int *x, int *y, int tiles) {
  __shared__ int tile[32];
  const int lane = threadIdx.x % 32;
  if (threadIdx.x < 32) {
    for (int i = 0; i < tiles; i++) {
      tile[lane] = x[i * 32 + lane];
      bar_arrive<1, 64>();
      bar_sync<2, 64>();
    }
  } else {
    for (int i = 0; i <= tiles; i++) {
      bar_sync<1, 64>();  // expect: deadlock
      if (i < tiles) y[i * 32 + lane] = tile[lane];
      bar_arrive<2, 64>();
    }
  }
}

// An index by one.
__global__ void stencil(const int *x, int *y, int n) {
  const int i = threadIdx.x;
  if (i > 0 && i < n) y[i] = x[i - 1] + x[i + 1];  // expect: out-of-bounds
}

// A barrier of the warp where the block has to meet.
__global__ void warp_for_block(const int *x, int *y) {
  __shared__ int tile[64];
  const int t = threadIdx.x;
  tile[t] = x[t];
  __syncwarp();
  y[t] = tile[63 - t];  // expect: race
}

// A barrier in a branch that not all threads take.
__global__ void barrier_in_a_branch(const int *x, int *y, int n) {
  __shared__ int tile[64];
  const int t = threadIdx.x;
  if (t < n) {
    tile[t] = x[t];
    __syncthreads();  // expect: barrier-divergence
  }
  __syncwarp();
  y[t] = t < n ? tile[n - 1 - t] : 0;
}

// A count that one side of a ring does not have.
__global__ void count_of_a_ring(const int *x, int *y) {
  __shared__ int ring[2][32];
  const int lane = threadIdx.x % 32;
  for (int i = 0; i < 2; i++) {
    if (threadIdx.x < 32) {
      bar_sync(1 + i, 64);
      y[i * 32 + lane] = ring[i][lane];
    } else {
      ring[i][lane] = x[i * 32 + lane];
      bar_arrive(1 + i, 96);  // expect: count-mismatch
    }
  }
}

// Two indices in the wrong order.
__global__ void swapped(const int *x, int *y, int rows, int columns) {
  const int i = threadIdx.x, j = threadIdx.y;
  y[i * columns + j] = x[j * columns + i];  // expect: out-of-bounds
}

// A shuffle behind an early return.
__global__ void shuffle_behind_a_return(const int *x, int *y, int n) {
  const int t = threadIdx.x;
  if (t >= n) return;
  const int value = x[t];
  y[t] = value + __shfl_down_sync(0xffffffffu, value, 1);  // expect: undefined-shuffle
}

// A queue that is drained before all have written.
__global__ void drained_at_once(const int *x, int *y) {
  __shared__ int queue[64];
  const int t = threadIdx.x;
  queue[t] = x[t];
  if (t == 0) {
    int total = 0;
    for (int k = 0; k < 64; k++) total += queue[k];  // expect: race
    y[0] = total;
  }
}

// A vector at an odd word.
__global__ void odd_word(const int *x, int2 *y) {
  y[threadIdx.x] = *reinterpret_cast<const int2 *>(x + 2 * threadIdx.x + 1);  // expect: misaligned
}

// A wait behind the use.
__global__ void wait_behind_the_use(const int *x, int *y) {
  __shared__ int tile[32];
  const int t = threadIdx.x;
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"((unsigned)__cvta_generic_to_shared(&tile[t])), "l"(x + t)
               : "memory");
  y[t] = tile[t];  // expect: race
  asm volatile("cp.async.wait_all;" ::: "memory");
}

// A barrier that each round of an unrolled loop lacks.
__global__ void rounds_without_a_barrier(const int *x, int *y) {
  __shared__ int sums[128];
  const int t = threadIdx.x;
  sums[t] = x[t];
  __syncthreads();
  for (int k = 64; k; k /= 2) {
    if (t < k) sums[t] += sums[t + k];  // expect: race
  }
  if (!t) y[0] = sums[0];
}

// A prefix sum in place: the loads of a round and its stores meet.
__global__ void scan_in_place(const int *x, int *y) {
  __shared__ int sums[64];
  const int t = threadIdx.x;
  sums[t] = x[t];
  __syncthreads();
  for (int d = 1; d < 64; d *= 2) {
    if (t >= d) sums[t] += sums[t - d];  // expect: race
    __syncthreads();
  }
  y[t] = sums[t];
}

// The same with two lines under a condition, and no barrier at all.
__global__ void scan_without_barriers(const int *x, int *y) {
  __shared__ int sums[64];
  const int t = threadIdx.x;
  sums[t] = x[t];
  __syncthreads();
#pragma unroll 1
  for (int d = 1; d < 64; d *= 2) {
    if (t >= d) {
      const int other = sums[t - d];
      sums[t] = sums[t] + other;  // expect: race
    }
  }
  y[t] = sums[t];
}

// Neighbours in one warp.
__global__ void shift_in_place(int *y) {
  __shared__ int ring[32];
  const int t = threadIdx.x;
  ring[t] = y[t];
  __syncwarp();
  ring[t] = ring[(t + 1) % 32] + 1;  // expect: intra-warp-race
  __syncwarp();
  y[t] = ring[t];
}

// Three warps sync on a barrier of two, in both places.
__global__ void two_of_three_warps(const int *x, int *y, int n) {
  __shared__ int parts[3][32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int k = 0; k < n; k++) {
    parts[warp][lane] = x[k * 96 + threadIdx.x];
    asm volatile("bar.sync 5, 64;" ::: "memory");  // expect: barrier-recycling
    if (warp == k % 3) y[k * 32 + lane] = parts[0][lane] + parts[1][lane] + parts[2][lane];
    asm volatile("bar.sync 5, 64;" ::: "memory");
  }
}

// Copies of a pipeline whose last rounds commit no group.
__global__ void commit_under_a_condition(const int *x, int *y, int n) {
  __shared__ int ring[3][32];
  const int t = threadIdx.x;
  for (int k = 0; k < 2; k++) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"((unsigned)__cvta_generic_to_shared(&ring[k][t])),
                 "l"(x + k * 32 + t)
                 : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
#pragma unroll 1
  for (int k = 0; k < n; k++) {
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    y[k * 32 + t] = ring[k % 3][t];  // expect: race
    if (k + 2 < n) {
      asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"((unsigned)__cvta_generic_to_shared(&ring[(k + 2) % 3][t])),
                   "l"(x + (k + 2) * 32 + t)
                   : "memory");
      asm volatile("cp.async.commit_group;" ::: "memory");
    }
  }
}
