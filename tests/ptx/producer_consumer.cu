// Warp specialization with named barriers: DMA warps fill shared memory, compute warps use it.
// A buffer has two barriers: FULL, on which the DMA warps arrive, and EMPTY, on which the compute warps arrive.
#include "named_barrier.h"

constexpr int COMPUTE = 64;
constexpr int DMA = 32;
constexpr int ALL = COMPUTE + DMA;

// One buffer, one DMA warp: y = sum over tiles of a * x.
__global__ void single_buffer(const float *x, float *y, int tiles, float a) {
  __shared__ float tile[COMPUTE];
  const int t = threadIdx.x;
  x += blockIdx.x * tiles * COMPUTE;
  if (t < COMPUTE) {
    float sum = 0;
    bar_arrive<2, ALL>();
    for (int i = 0; i < tiles; i++) {
      bar_sync<1, ALL>();
      sum += a * tile[t];
      if (i + 1 < tiles) bar_arrive<2, ALL>();
    }
    y[blockIdx.x * COMPUTE + t] = sum;
  } else {
    for (int i = 0; i < tiles; i++) {
      bar_sync<2, ALL>();
      for (int k = t - COMPUTE; k < COMPUTE; k += DMA) tile[k] = x[i * COMPUTE + k];
      bar_arrive<1, ALL>();
    }
  }
}

// Two buffers filled by turns by one DMA warp; the barriers are numbers in registers.
__global__ void double_buffer(const float *x, float *y, int tiles) {
  __shared__ float tile[2][COMPUTE];
  const int t = threadIdx.x;
  if (t < COMPUTE) {
    float sum = 0;
    for (int b = 0; b < 2; b++) bar_arrive(2 * b + 2, ALL);
    for (int i = 0; i < tiles; i++) {
      const int b = i % 2;
      bar_sync(2 * b + 1, ALL);
      sum = 0.5f * sum + tile[b][t];
      if (i + 2 < tiles) bar_arrive(2 * b + 2, ALL);
    }
    y[blockIdx.x * COMPUTE + t] = sum;
  } else {
    for (int i = 0; i < tiles; i++) {
      const int b = i % 2;
      bar_sync(2 * b + 2, ALL);
      for (int k = t - COMPUTE; k < COMPUTE; k += DMA) tile[b][k] = x[(blockIdx.x * tiles + i) * COMPUTE + k];
      bar_arrive(2 * b + 1, ALL);
    }
  }
}

// Two buffers, each with a DMA warp of its own; `tiles` is even.
__global__ void two_producers(const int *x, int *y, int tiles) {
  __shared__ int even[COMPUTE], odd[COMPUTE];
  const int t = threadIdx.x;
  if (t < COMPUTE) {
    int sum = 0;
    bar_arrive<2, ALL>();
    bar_arrive<4, ALL>();
    for (int i = 0; i < tiles; i += 2) {
      bar_sync<1, ALL>();
      sum = sum * 3 + even[COMPUTE - 1 - t];
      if (i + 2 < tiles) bar_arrive<2, ALL>();
      bar_sync<3, ALL>();
      sum = sum * 5 + odd[COMPUTE - 1 - t];
      if (i + 2 < tiles) bar_arrive<4, ALL>();
    }
    y[t] = sum;
  } else if (t < COMPUTE + DMA) {
    for (int i = 0; i < tiles; i += 2) {
      bar_sync<2, ALL>();
      for (int k = t - COMPUTE; k < COMPUTE; k += DMA) even[k] = x[i * COMPUTE + k];
      bar_arrive<1, ALL>();
    }
  } else {
    for (int i = 1; i < tiles; i += 2) {
      bar_sync<4, ALL>();
      for (int k = t - COMPUTE - DMA; k < COMPUTE; k += DMA) odd[k] = x[i * COMPUTE + k];
      bar_arrive<3, ALL>();
    }
  }
}

// A ring of STAGES buffers.
template <typename T, int STAGES>
__global__ void ring(const T *x, T *y, int tiles) {
  __shared__ T tile[STAGES][COMPUTE];
  const int t = threadIdx.x;
  if (t < COMPUTE) {
    T sum = 0;
    for (int s = 0; s < STAGES; s++) bar_arrive(STAGES + s + 1, ALL);
    int stage = 0;
    for (int i = 0; i < tiles; i++) {
      bar_sync(stage + 1, ALL);
      sum = sum * 7 + tile[stage][t];
      if (i + STAGES < tiles) bar_arrive(STAGES + stage + 1, ALL);
      stage = stage + 1 == STAGES ? 0 : stage + 1;
    }
    y[t] = sum;
  } else {
    for (int i = 0; i < tiles; i++) {
      const int stage = i % STAGES;
      bar_sync(STAGES + stage + 1, ALL);
      for (int k = t - COMPUTE; k < COMPUTE; k += DMA) tile[stage][k] = x[i * COMPUTE + k];
      bar_arrive(stage + 1, ALL);
    }
  }
}
template __global__ void ring<unsigned int, 3>(const unsigned int *, unsigned int *, int);
template __global__ void ring<unsigned long long, 4>(const unsigned long long *, unsigned long long *, int);

// Matrix times vector: one DMA warp for the vector, two for the matrix, two compute warps with a row a thread.
constexpr int CHUNK = 16;

__global__ void matrix_vector(const float *a, const float *x, float *y, int columns) {
  __shared__ float vector[CHUNK];
  __shared__ float matrix[COMPUTE][CHUNK + 1];
  const int t = threadIdx.x;
  const int first = blockIdx.x * COMPUTE;
  if (t < COMPUTE) {
    float sum = 0;
    bar_arrive<2, COMPUTE + 32>();
    bar_arrive<4, COMPUTE + 64>();
    for (int c = 0; c < columns; c += CHUNK) {
      bar_sync<1, COMPUTE + 32>();
      bar_sync<3, COMPUTE + 64>();
      for (int k = 0; k < CHUNK; k++) sum += matrix[t][k] * vector[k];
      if (c + CHUNK < columns) {
        bar_arrive<2, COMPUTE + 32>();
        bar_arrive<4, COMPUTE + 64>();
      }
    }
    y[first + t] = sum;
  } else if (t < COMPUTE + 32) {
    for (int c = 0; c < columns; c += CHUNK) {
      bar_sync<2, COMPUTE + 32>();
      const int k = t - COMPUTE;
      if (k < CHUNK) vector[k] = x[c + k];
      bar_arrive<1, COMPUTE + 32>();
    }
  } else {
    for (int c = 0; c < columns; c += CHUNK) {
      bar_sync<4, COMPUTE + 64>();
      for (int k = t - COMPUTE - 32; k < COMPUTE * CHUNK; k += 64)
        matrix[k / CHUNK][k % CHUNK] = a[(first + k / CHUNK) * columns + c + k % CHUNK];
      bar_arrive<3, COMPUTE + 64>();
    }
  }
}

// Rows of 16 floats, `stride` floats apart, moved as float4 and packed in shared memory.
__global__ void strided_rows(const float4 *x, float *y, int rows, int stride) {
  extern __shared__ float4 packed[];
  const int t = threadIdx.x;
  if (t < COMPUTE) {
    bar_sync(1, ALL);
    const float *values = reinterpret_cast<const float *>(packed);
    for (int k = t; k < rows * 16; k += COMPUTE) y[k] = values[k] + 1.0f;
  } else {
    for (int k = t - COMPUTE; k < rows * 4; k += DMA) packed[k] = x[k / 4 * (stride / 4) + k % 4];
    bar_arrive(1, ALL);
  }
}

// Gather: the DMA warp follows an index list in global memory.
__global__ void gather(const double *x, const int *index, double *y, int steps) {
  __shared__ double tile[COMPUTE];
  const int t = threadIdx.x;
  if (t < COMPUTE) {
    for (int i = 0; i < steps; i++) {
      bar_arrive(2, ALL);
      bar_sync(1, ALL);
      y[i * COMPUTE + t] = -tile[t];
    }
  } else {
    for (int i = 0; i < steps; i++) {
      bar_sync(2, ALL);
      for (int k = t - COMPUTE; k < COMPUTE; k += DMA) tile[k] = x[index[i * COMPUTE + k]];
      bar_arrive(1, ALL);
    }
  }
}

// Scatter: compute warps make a tile, the DMA warp stores it by an index list that it keeps in shared memory.
__global__ void scatter(const short *x, const unsigned char *index, short *y) {
  __shared__ short tile[COMPUTE];
  __shared__ unsigned char where[COMPUTE];
  const int t = threadIdx.x;
  if (t < COMPUTE) {
    tile[t] = x[t] * x[t];
    bar_arrive(1, ALL);
  } else {
    const int lane = t - COMPUTE;
    where[lane] = index[lane];
    where[lane + 32] = index[lane + 32];
    bar_sync(1, ALL);
    for (int k = lane; k < COMPUTE; k += DMA) y[where[k]] = tile[k];
  }
}

// A tile with a halo of one: DMA warps load the border, compute warps the inside; both meet before the stencil.
constexpr int SIDE = 8;

__global__ void halo(const float *x, float *y, int pitch) {
  __shared__ float tile[SIDE + 2][SIDE + 2];
  const int t = threadIdx.x;
  const int column = blockIdx.x * SIDE;
  const int row = blockIdx.y * SIDE;
  if (t < COMPUTE) {
    const int i = t / SIDE + 1, j = t % SIDE + 1;
    tile[i][j] = x[(row + i) * pitch + column + j];
    bar_sync(1, ALL);
    const float sides = tile[i - 1][j] + tile[i + 1][j] + tile[i][j - 1] + tile[i][j + 1];
    y[(row + i - 1) * (pitch - 2) + column + j - 1] = 4.0f * tile[i][j] - sides;
  } else {
    for (int k = t - COMPUTE; k < 4 * (SIDE + 1); k += DMA) {
      const int side = k / (SIDE + 1), at = k % (SIDE + 1);
      const int i = side == 0 ? 0 : side == 1 ? SIDE + 1 : side == 2 ? at + 1 : at;
      const int j = side == 0 ? at : side == 1 ? at + 1 : side == 2 ? 0 : SIDE + 1;
      tile[i][j] = x[(row + i) * pitch + column + j];
    }
    bar_arrive(1, ALL);
  }
}

// Load, change, store: three kinds of warps in a chain, with two buffers.
__global__ void chain(const int *x, int *y, int tiles) {
  __shared__ int in[32], out[32];
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  if (warp == 0) {
    for (int i = 0; i < tiles; i++) {
      if (i > 0) bar_sync(2, 64);
      in[lane] = x[i * 32 + lane];
      bar_arrive(1, 64);
    }
  } else if (warp == 1) {
    for (int i = 0; i < tiles; i++) {
      bar_sync(1, 64);
      const int value = in[31 - lane];
      if (i + 1 < tiles) bar_arrive(2, 64);
      if (i > 0) bar_sync(4, 64);
      out[lane] = value ^ i;
      bar_arrive(3, 64);
    }
  } else {
    for (int i = 0; i < tiles; i++) {
      bar_sync(3, 64);
      y[i * 32 + lane] = out[lane ^ 1];
      if (i + 1 < tiles) bar_arrive(4, 64);
    }
  }
}

// The producer counts with bar.red how many values of a tile are positive; the consumers learn it at the same barrier.
__global__ void counted(const float *x, int *y, int tiles) {
  __shared__ float tile[96];
  const int t = threadIdx.x;
  for (int i = 0; i < tiles; i++) {
    tile[t] = x[i * 96 + t];
    const int positive = bar_red_popc(1, 96, tile[t] > 0);
    if (t < 64) {
      y[i * 64 + t] = tile[t + 32] > 0 ? positive : -positive;
      bar_arrive(2, 96);
    } else {
      bar_sync(2, 96);
    }
    bar_sync(3, 96);
  }
}

// Loads go into registers before the buffer is known to be empty.
__global__ void prefetch(const float4 *x, float *y, int tiles) {
  __shared__ __align__(16) float tile[128];
  const int t = threadIdx.x;
  if (t < COMPUTE) {
    float low = 0, high = 0;
    bar_arrive(1, ALL);
    for (int i = 0; i < tiles; i++) {
      bar_sync(0, ALL);
      low += tile[t];
      high += tile[t + 64] * tile[t];
      if (i + 1 < tiles) bar_arrive(1, ALL);
    }
    y[t] = low;
    y[t + 64] = high;
  } else {
    const int lane = t - COMPUTE;
    float4 next = x[lane];
    for (int i = 0; i < tiles; i++) {
      const float4 now = next;
      if (i + 1 < tiles) next = x[(i + 1) * 32 + lane];
      bar_sync(1, ALL);
      reinterpret_cast<float4 *>(tile)[lane] = now;
      bar_arrive(0, ALL);
    }
  }
}

// A transfer as an object: the base class has the barriers, the derived one the copy.
class Transfer {
 public:
  __device__ Transfer(int id, int dma_threads, int compute_threads, int first)
      : full(2 * id), empty(2 * id + 1), count(dma_threads + compute_threads), threads(dma_threads), first(first) {}
  __device__ bool owns_this_thread() const { return first <= (int)threadIdx.x && (int)threadIdx.x < first + threads; }
  __device__ void start_async_dma() const { bar_arrive(empty, count); }
  __device__ void wait_for_dma_finish() const { bar_sync(full, count); }

 protected:
  __device__ void wait_for_dma_start() const { bar_sync(empty, count); }
  __device__ void finish_async_dma() const { bar_arrive(full, count); }
  int full, empty, count, threads, first;
};

template <int BYTES>
class Sequential : public Transfer {
 public:
  __device__ Sequential(int id, int dma_threads, int compute_threads, int first)
      : Transfer(id, dma_threads, compute_threads, first) {}

  __device__ void execute(const void *source, void *target) const {
    const int lane = threadIdx.x - first;
    wait_for_dma_start();
    const int4 *from = static_cast<const int4 *>(source);
    int4 *to = static_cast<int4 *>(target);
#pragma unroll 2
    for (int k = lane; k < BYTES / 16; k += threads) to[k] = from[k];
    const int rest = BYTES / 16 * 16 + 4 * lane;
    if (rest < BYTES) static_cast<int *>(target)[rest / 4] = static_cast<const int *>(source)[rest / 4];
    finish_async_dma();
  }
};

__global__ void objects(const float *x, const float *w, float *y, int tiles) {
  __shared__ __align__(16) float first_tile[100], second_tile[100];
  const Sequential<400> first(1, 32, 128, 128);
  const Sequential<396> second(2, 64, 128, 160);
  if (first.owns_this_thread()) {
    for (int i = 0; i < tiles; i++) first.execute(x + i * 100, first_tile);
  } else if (second.owns_this_thread()) {
    for (int i = 0; i < tiles; i++) second.execute(w + i * 100, second_tile);
  } else {
    float sum = 0;
    for (int i = 0; i < tiles; i++) {
      first.start_async_dma();
      second.start_async_dma();
      first.wait_for_dma_finish();
      second.wait_for_dma_finish();
      if (threadIdx.x < 99) sum += first_tile[threadIdx.x] * second_tile[threadIdx.x];
    }
    if (threadIdx.x < 99) y[threadIdx.x] = sum;
  }
}

// Each warp hands a word on to the next one around the CTA: barrier w is between warps w and w + 1.
__global__ void relay(unsigned *y, int warps) {
  __shared__ unsigned word;
  const int warp = threadIdx.x / 32;
  if (warp == 0) {
    if (threadIdx.x == 0) word = 1;
    __syncwarp();
  } else {
    bar_sync(warp - 1, 64);
    if (threadIdx.x % 32 == 0) word = word * 10 + warp;
    __syncwarp();
  }
  y[threadIdx.x] = word;
  __syncwarp();
  if (warp + 1 < warps) bar_arrive(warp, 64);
}

// barrier.sync may be reached by the lanes of a warp from different branches.
__global__ void unaligned(const int *x, int *y) {
  __shared__ int tile[64];
  const int t = threadIdx.x;
  tile[t] = x[t];
  if (t % 2)
    asm volatile("barrier.sync 5, 64;  // odd lanes" ::: "memory");
  else
    asm volatile("barrier.sync 5, 64;  // even lanes" ::: "memory");
  y[t] = tile[63 - t];
}
