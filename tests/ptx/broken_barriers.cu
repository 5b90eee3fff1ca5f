// Producers and consumers with a bug each; `expect` marks where it must be found.
#include "named_barrier.h"

constexpr int COMPUTE = 64;
constexpr int ALL = COMPUTE + 32;

// The producer does not wait until the tile is empty.
__global__ void no_empty_wait(const float *x, float *y, int tiles) {
  __shared__ float tile[32];
  const int lane = threadIdx.x % 32;
  if (threadIdx.x < 32) {
    float sum = 0;
    for (int i = 0; i < tiles; i++) {
      bar_sync(1, 64);  // expect: barrier-recycling, deadlock
      sum += tile[lane];  // expect: race
    }
    y[lane] = sum;
  } else {
    for (int i = 0; i < tiles; i++) {
      tile[lane] = x[i * 32 + lane];
      bar_arrive(1, 64);  // expect: all-arrive, barrier-recycling
    }
  }
}

// The consumers do not wait until the tile is full.
__global__ void no_full_wait(const int *x, int *y) {
  __shared__ int tile[COMPUTE];
  const int t = threadIdx.x;
  if (t < COMPUTE) {
    tile[t] = 0;
    bar_sync<1, ALL>();
    y[t] = tile[t] + 1;  // expect: race
  } else {
    bar_sync<1, ALL>();
    tile[t - COMPUTE] = x[t];
  }
}

// One compute warp leaves its share of the count out.
__global__ void other_count(const int *x, int *y) {
  __shared__ int tile[32];
  const int t = threadIdx.x;
  if (t < 32) {
    bar_sync(1, 64);
    y[t] = tile[t];
  } else {
    tile[t - 32] = x[t];
    bar_arrive(1, 96);  // expect: count-mismatch, oversubscribed
  }
}

// Full and empty are taken for each other: both sides wait first.
__global__ void both_wait(const int *x, int *y) {
  __shared__ int tile[32];
  const int t = threadIdx.x;
  if (t < 32) {
    bar_sync(1, 64);  // expect: deadlock
    y[t] = tile[t];
    bar_arrive(2, 64);
  } else {
    bar_sync(2, 64);  // expect: deadlock
    tile[t - 32] = x[t];
    bar_arrive(1, 64);
  }
}

// A warp that has no work returns, and is counted on.
__global__ void early_return(const int *x, int *y, int n) {
  __shared__ int tile[96];
  const int t = threadIdx.x;
  if (t / 32 * 32 >= n) return;
  tile[t] = x[t];
  bar_sync(1, 96);  // expect: deadlock
  y[t] = tile[n - 1 - t];
}

// The last arrive is one that nobody waits for: harmless, and worth a warning.
__global__ void arrive_left_over(const int *x, int *y, int tiles) {
  __shared__ int tile[32];
  const int lane = threadIdx.x % 32;
  if (threadIdx.x < 32) {
    bar_arrive(2, 64);
    for (int i = 0; i < tiles; i++) {
      bar_sync(1, 64);
      y[i * 32 + lane] = tile[lane];
      bar_arrive(2, 64);  // expect: dangling-arrive
    }
  } else {
    for (int i = 0; i < tiles; i++) {
      bar_sync(2, 64);
      tile[lane] = x[i * 32 + lane];
      bar_arrive(1, 64);
    }
  }
}

// Everybody arrives, nobody waits.
__global__ void nobody_waits(int *y) {
  bar_arrive(3, 64);  // expect: all-arrive
  y[threadIdx.x] = threadIdx.x;
}

// Two producers arrive on a barrier that counts one of them.
__global__ void one_producer_too_many(const int *x, int *y) {
  __shared__ int tile[64];
  const int t = threadIdx.x;
  if (t < 64) {
    tile[t] = x[t];
    bar_arrive(1, 64);  // expect: all-arrive
  } else {
    bar_sync(1, 64);  // expect: barrier-recycling
    y[t - 64] = tile[t - 64];  // expect: race
  }
}

// A barrier behind a condition on which the lanes differ.
__global__ void in_a_branch(const int *x, int *y) {
  int value = x[threadIdx.x];
  if (value > 10) {
    bar_sync(1, 64);  // expect: barrier-divergence
    value -= 10;
  }
  y[threadIdx.x] = value;
}

// Buffers of a ring have a barrier each, and there are more buffers than barriers.
__global__ void too_many_buffers(int *y, int buffers) {
  for (int b = 0; b < buffers; b++) bar_sync(b + 1, 64);  // expect: invalid-barrier
  y[threadIdx.x] = 1;
}

// A count in warps, where PTX wants threads.
__global__ void count_in_warps(int *y, int warps) {
  bar_sync(1, warps);  // expect: invalid-barrier
  y[threadIdx.x] = 1;
}

// Two tiles have one barrier: its generations follow each other without anything between them.
__global__ void one_barrier_for_two(const int *x, int *y) {
  __shared__ int first[32], second[32];
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  if (warp == 0) {
    bar_sync(1, 64);
    bar_sync(1, 64);
    y[lane] = first[lane] - second[lane];
  } else if (warp == 1) {
    first[lane] = x[lane];
    bar_arrive(1, 64);
  } else {
    second[lane] = x[32 + lane];
    bar_arrive(1, 64);  // expect: barrier-recycling
  }
}
