// Kernels of cooperative groups, as nvcc makes PTX of them: the barrier of the grid, tiles of several warps.
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

// Steps of a stencil; all CTAs meet between two of them.
extern "C" __global__ void stencil(float *a, float *b, int n, int steps) {
  cg::grid_group grid = cg::this_grid();
  int i = grid.thread_rank();
  for (int s = 0; s < steps; s++) {
    if (i > 0 && i < n - 1) b[i] = a[i - 1] + a[i] + a[i + 1];
    grid.sync();
    float *t = a;
    a = b;
    b = t;
  }
}

// The last step's barrier is missing.
extern "C" __global__ void unsynchronised(float *a, float *b, int n) {
  cg::grid_group grid = cg::this_grid();
  int i = grid.thread_rank();
  a[i] = i;
  if (n < 0) grid.sync();
  b[i] = a[(i + blockDim.x) % n];
}

// A CTA leaves before the others meet.
extern "C" __global__ void leaves(float *a, int last) {
  cg::grid_group grid = cg::this_grid();
  if (blockIdx.x > last) return;
  a[grid.thread_rank()] = 1;
  grid.sync();
}

// Work between an arrive and the wait.
extern "C" __global__ void split(int *a, int *out) {
  cg::grid_group grid = cg::this_grid();
  int i = grid.thread_rank();
  a[i] = i;
  auto token = grid.barrier_arrive();
  int own = 2 * i;
  grid.barrier_wait(std::move(token));
  out[i] = own + a[(i + blockDim.x) % grid.size()] + grid.is_valid();
}

// Two warps exchange values and meet in a tile; its barrier lies in shared memory that the system keeps to itself.
extern "C" __global__ void tiles(int *a, int *out) {
  __shared__ cg::block_tile_memory<64> memory;
  auto block = cg::this_thread_block(memory);
  auto tile = cg::tiled_partition<64>(block);
  a[threadIdx.x] = threadIdx.x;
  tile.sync();
  out[threadIdx.x] = a[(threadIdx.x + 40) % 64];
}
