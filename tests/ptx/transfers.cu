// Transfer objects with register buffers: strided rows, gathers and halos, in programs that buffer once to four times.
#include "named_barrier.h"

// The barriers of a transfer: the DMA threads wait for EMPTY and arrive on FULL, the compute threads the other way.
struct Handshake {
  int full, empty, count;
  __device__ Handshake(int id, int threads) : full(2 * id), empty(2 * id + 1), count(threads) {}
  __device__ void start() const { bar_arrive(empty, count); }
  __device__ void wait_finish() const { bar_sync(full, count); }
  __device__ void wait_start() const { bar_sync(empty, count); }
  __device__ void finish() const { bar_arrive(full, count); }
};

// Moves ROWS rows of ROW_BYTES bytes in words of type T; a thread keeps up to DEPTH words in registers.
template <typename T, int DEPTH, int ROW_BYTES, int ROWS>
class Strided {
  static constexpr int WORDS = ROW_BYTES / sizeof(T);
  static constexpr int ALL = WORDS * ROWS;
  T held[DEPTH];
  const char *next;
  int source_stride, target_stride, lane, threads;

  __device__ void load(int first) {
#pragma unroll
    for (int d = 0; d < DEPTH; d++) {
      const int k = first + d * threads;
      if (k < ALL) held[d] = *reinterpret_cast<const T *>(next + k / WORDS * source_stride + k % WORDS * sizeof(T));
    }
  }
  __device__ void store(void *target, int first) {
#pragma unroll
    for (int d = 0; d < DEPTH; d++) {
      const int k = first + d * threads;
      if (k < ALL)
        *reinterpret_cast<T *>(static_cast<char *>(target) + k / WORDS * target_stride + k % WORDS * sizeof(T)) = held[d];
    }
  }

 public:
  __device__ Strided(int lane, int threads, int source_stride, int target_stride)
      : source_stride(source_stride), target_stride(target_stride), lane(lane), threads(threads) {}

  // The first loads, before the buffer is known to be empty.
  __device__ void begin(const void *source) {
    next = static_cast<const char *>(source);
    load(lane);
  }
  // The rest, once it is.
  __device__ void complete(void *target) {
    store(target, lane);
    for (int first = lane + DEPTH * threads; first < ALL; first += DEPTH * threads) {
      load(first);
      store(target, first);
    }
  }
};

// Tiles of 12 rows out of a wide matrix, two buffers, one set of two DMA warps; sums of columns.
template <typename T, int DEPTH>
__global__ void column_sums(const float *x, float *y, int pitch, int tiles) {
  constexpr int COLUMNS = 32, ROWS = 12, COMPUTE = 32, DMA = 64;
  __shared__ __align__(16) float tile[2][ROWS][COLUMNS + 4];
  const int t = threadIdx.x;
  const Handshake hands[2] = {Handshake(1, COMPUTE + DMA), Handshake(2, COMPUTE + DMA)};
  if (t < COMPUTE) {
    float sum = 0;
    hands[0].start();
    hands[1].start();
    for (int i = 0; i < tiles; i++) {
      hands[i & 1].wait_finish();
      for (int r = 0; r < ROWS; r++) sum += tile[i & 1][r][t];
      if (i + 2 < tiles) hands[i & 1].start();
    }
    y[t] = sum;
  } else {
    Strided<T, DEPTH, COLUMNS * 4, ROWS> rows(t - COMPUTE, DMA, pitch * 4, sizeof(tile[0][0]));
    for (int i = 0; i < tiles; i++) {
      rows.begin(x + i * ROWS * pitch);
      hands[i & 1].wait_start();
      rows.complete(tile[i & 1]);
      hands[i & 1].finish();
    }
  }
}
template __global__ void column_sums<float, 1>(const float *, float *, int, int);
template __global__ void column_sums<float2, 2>(const float *, float *, int, int);
template __global__ void column_sums<float4, 4>(const float *, float *, int, int);

// Sparse rows times a vector: the DMA warp gathers the elements that the indices name; indices wait in shared memory.
__global__ void sparse_rows(const float *value, const int *column, const float *x, float *y, int width, int rounds) {
  constexpr int COMPUTE = 64, DMA = 32;
  __shared__ int index[COMPUTE];
  __shared__ float gathered[COMPUTE];
  const Handshake indices(1, COMPUTE + DMA), elements(2, COMPUTE + DMA);
  const int t = threadIdx.x;
  if (t < COMPUTE) {
    float sum = 0;
    for (int i = 0; i < rounds; i++) {
      index[t] = column[(blockIdx.x * COMPUTE + t) * width + i];
      indices.finish();
      elements.wait_finish();
      sum += value[(blockIdx.x * COMPUTE + t) * width + i] * gathered[t];
      if (i + 1 < rounds) elements.start();
    }
    y[blockIdx.x * COMPUTE + t] = sum;
  } else {
    for (int i = 0; i < rounds; i++) {
      indices.wait_finish();
      if (i > 0) elements.wait_start();
      for (int k = t - COMPUTE; k < COMPUTE; k += DMA) gathered[k] = x[index[k]];
      elements.finish();
    }
  }
}

// A stencil of any radius; a DMA warp for the rows above and below, one for the columns at the sides.
template <int RADIUS>
__global__ void cross_stencil(const float *x, float *y, int pitch, int planes, int plane) {
  constexpr int SIDE = 8, FULL = SIDE + 2 * RADIUS, COMPUTE = SIDE * SIDE;
  __shared__ float tile[FULL][FULL];
  const Handshake hands(1, COMPUTE + 64);
  const int t = threadIdx.x;
  const float *origin = x + (blockIdx.y * SIDE + RADIUS) * pitch + blockIdx.x * SIDE + RADIUS;
  if (t < COMPUTE) {
    const int i = t / SIDE, j = t % SIDE;
    for (int p = 0; p < planes; p++) {
      const float *own = origin + p * plane;
      if (p) bar_sync(4, COMPUTE);
      tile[i + RADIUS][j + RADIUS] = own[i * pitch + j];
      bar_sync(4, COMPUTE);
      hands.start();
      hands.wait_finish();
      float sum = 0;
#pragma unroll
      for (int r = 1; r <= RADIUS; r++)
        sum += tile[i + RADIUS - r][j + RADIUS] + tile[i + RADIUS + r][j + RADIUS] + tile[i + RADIUS][j + RADIUS - r] +
               tile[i + RADIUS][j + RADIUS + r];
      y[p * gridDim.y * gridDim.x * COMPUTE + (blockIdx.y * SIDE + i) * gridDim.x * SIDE + blockIdx.x * SIDE + j] = sum;
    }
  } else {
    const int lane = t % 32;
    const bool sides = t >= COMPUTE + 32;
    for (int p = 0; p < planes; p++) {
      const float *own = origin + p * plane;
      hands.wait_start();
      for (int k = lane; k < 2 * RADIUS * SIDE; k += 32) {
        const int depth = k / SIDE, along = k % SIDE;
        const int out = depth < RADIUS ? depth - RADIUS : SIDE + depth - RADIUS;
        const int i = sides ? along : out, j = sides ? out : along;
        tile[i + RADIUS][j + RADIUS] = own[i * pitch + j];
      }
      hands.finish();
    }
  }
}
template __global__ void cross_stencil<1>(const float *, float *, int, int, int);
template __global__ void cross_stencil<3>(const float *, float *, int, int, int);

// a x + y with two streams and two buffers each: four tiles, four DMA warps on four pairs of barriers.
__global__ void staged_axpy(float a, const float2 *x, float2 *y, int tiles) {
  constexpr int COMPUTE = 64;
  __shared__ float2 xs[2][COMPUTE], ys[2][COMPUTE];
  const int t = threadIdx.x;
  const int warp = t / 32 - 2;  // of the DMA warps
  if (t < COMPUTE) {
    for (int s = 0; s < 4; s++) Handshake(s, COMPUTE + 32).start();
    for (int i = 0; i < tiles; i++) {
      const int b = i % 2;
      const Handshake of_x(b, COMPUTE + 32), of_y(b + 2, COMPUTE + 32);
      of_x.wait_finish();
      of_y.wait_finish();
      const float2 p = xs[b][t], q = ys[b][t];
      if (i + 2 < tiles) {
        of_x.start();
        of_y.start();
      }
      y[i * COMPUTE + t] = make_float2(a * p.x + q.x, a * p.y + q.y);
    }
  } else {
    const int b = warp % 2;
    const float2 *source = warp < 2 ? x : y;
    float2 *target = warp < 2 ? xs[b] : ys[b];
    const Handshake hands(warp, COMPUTE + 32);
    for (int i = b; i < tiles; i += 2) {
      const float2 first = source[i * COMPUTE + t % 32], second = source[i * COMPUTE + t % 32 + 32];
      hands.wait_start();
      target[t % 32] = first;
      target[t % 32 + 32] = second;
      hands.finish();
    }
  }
}

// No specialization: all threads move the next tile into registers while they work on this one.
__global__ void unspecialized(const int4 *x, int *y, int tiles) {
  __shared__ int4 tile[64];
  const int t = threadIdx.x;
  int4 next = x[t];
  int sum = 0;
  for (int i = 0; i < tiles; i++) {
    tile[t] = next;
    __syncthreads();
    if (i + 1 < tiles) next = x[(i + 1) * 64 + t];
    const int4 other = tile[(t * 5 + i) % 64];
    sum = sum * 3 + other.x - other.y * other.z + (other.w >> 2);
    __syncthreads();
  }
  y[t] = sum;
}
