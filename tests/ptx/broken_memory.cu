// Accesses with a bug each; `expect` marks where it must be found.

// The tree of reduction.cu without the barrier in its loop.
__global__ void tree_without_barrier(const float *x, float *y) {
  __shared__ float part[128];
  const int t = threadIdx.x;
  part[t] = x[t];
  __syncthreads();
  for (int half = 64; half > 0; half /= 2)
    if (t < half) part[t] += part[t + half];  // expect: race, intra-warp-race
  if (t == 0) y[0] = part[0];
}

// Lanes are taken to run in step.
__global__ void warp_without_sync(const int *x, int *y) {
  __shared__ volatile int part[32];
  const int lane = threadIdx.x;
  part[lane] = x[lane];
  y[lane] = part[31 - lane];  // expect: intra-warp-race
}

// The scan of scan.cu with one buffer.
__global__ void scan_in_place(const int *x, int *y) {
  __shared__ int values[64];
  const int t = threadIdx.x;
  values[t] = x[t];
  for (int step = 1; step < 64; step *= 2) {
    __syncthreads();
    if (t >= step) values[t] += values[t - step];  // expect: race, intra-warp-race
  }
  y[t] = values[t];
}

// Bins without atomics.
__global__ void plain_histogram(const unsigned char *x, int *bins) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  bins[x[i] % 8] += 1;  // expect: race, intra-warp-race
}

// CTAs read what their neighbours write.
__global__ void neighbours(const int *x, int *y) {
  const int t = threadIdx.x;
  y[blockIdx.x * 32 + t] = x[blockIdx.x * 32 + t];
  __syncthreads();
  if (blockIdx.x > 0 && t == 0) y[blockIdx.x * 32] += y[blockIdx.x * 32 - 32];  // expect: race
}

// The last CTA has threads without an element.
__global__ void no_bound(const float *x, float *y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = 2.0f * x[i];  // expect: out-of-bounds
}

// One more element than the array in shared memory has.
__global__ void shared_overrun(const int *x, int *y, int n) {
  __shared__ int tile[32];
  for (int k = threadIdx.x; k <= n; k += 32) tile[k] = x[k];  // expect: out-of-bounds
  __syncthreads();
  y[threadIdx.x] = tile[31 - threadIdx.x];
}

// More dynamic shared memory is used than the launch gives.
__global__ void dynamic_overrun(const int *x, int *y) {
  extern __shared__ int sized[];
  sized[threadIdx.x] = x[threadIdx.x];  // expect: out-of-bounds
  __syncthreads();
  y[threadIdx.x] = sized[threadIdx.x ^ 1];  // expect: out-of-bounds
}

// float4 at an odd element.
__global__ void odd_vector(const float *x, float4 *y, int first) {
  y[threadIdx.x] = *reinterpret_cast<const float4 *>(x + first + 4 * threadIdx.x);  // expect: misaligned
}

// Half of the tile is never filled.
__global__ void half_filled(const int *x, int *y) {
  __shared__ int tile[64];
  const int t = threadIdx.x;
  if (t < 32) tile[t] = x[t];
  __syncthreads();
  y[t] = tile[63 - t];  // expect: uninitialized-read
}

// __syncthreads where half of the warp has gone another way.
__global__ void divergent_barrier(const int *x, int *y) {
  __shared__ int tile[32];
  const int t = threadIdx.x;
  if (t < 16) {
    tile[t] = x[t];
    __syncthreads();  // expect: barrier-divergence
  } else {
    tile[t] = -x[t];
    __syncthreads();  // expect: barrier-divergence
    tile[t] += 1;
  }
  y[t] = tile[31 - t];
}

// A walk along the columns of a tile without padding.
__global__ void column_walk(const float *x, float *y) {
  __shared__ float tile[32][32];
  const int lane = threadIdx.x;
  for (int row = 0; row < 32; row++) tile[row][lane] = x[row * 32 + lane];
  __syncthreads();
  float sum = 0;
  for (int k = 0; k < 32; k++) sum += tile[lane][k];  // expect: bank-conflict
  y[lane] = sum;
}

// Rows of 64 floats, a thread a row.
__global__ void strided_loads(const float *x, float *y) {
  float sum = 0;
  for (int k = 0; k < 4; k++) sum += x[threadIdx.x * 64 + k];  // expect: uncoalesced
  y[threadIdx.x] = sum;
}

// A mask without a lane that takes part.
__global__ void wrong_mask(const int *x, int *y) {
  int value = x[threadIdx.x];
  if (threadIdx.x < 16) value += __shfl_down_sync(0x0000ffffu, value, 1);
  y[threadIdx.x] = __shfl_sync(0x0000ffffu, value, 3);  // expect: barrier-divergence
}
