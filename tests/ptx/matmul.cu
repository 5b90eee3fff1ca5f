// Matrix products: C = A B, all row-major.

// A thread an element, straight from global memory.
__global__ void product_plain(const float *a, const float *b, float *c, int m, int n, int k) {
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= m || column >= n) return;
  float sum = 0;
  for (int i = 0; i < k; i++) sum += a[row * k + i] * b[i * n + column];
  c[row * n + column] = sum;
}

// Tiles in shared memory; sizes need not be multiples of a tile.
template <typename T, int SIDE>
__global__ void product_tiled(const T *a, const T *b, T *c, int m, int n, int k) {
  __shared__ T left[SIDE][SIDE];
  __shared__ T right[SIDE][SIDE];
  const int i = threadIdx.y, j = threadIdx.x;
  const int row = blockIdx.y * SIDE + i, column = blockIdx.x * SIDE + j;
  T sum = 0;
  for (int first = 0; first < k; first += SIDE) {
    left[i][j] = row < m && first + j < k ? a[row * k + first + j] : T(0);
    right[i][j] = first + i < k && column < n ? b[(first + i) * n + column] : T(0);
    __syncthreads();
    for (int s = 0; s < SIDE; s++) sum += left[i][s] * right[s][j];
    __syncthreads();
  }
  if (row < m && column < n) c[row * n + column] = sum;
}
template __global__ void product_tiled<float, 8>(const float *, const float *, float *, int, int, int);
template __global__ void product_tiled<double, 16>(const double *, const double *, double *, int, int, int);
template __global__ void product_tiled<long long, 4>(const long long *, const long long *, long long *, int, int, int);

// 32 by 32 results a CTA of 64 threads, 4 by 4 in the registers of each, operands as float4.
__global__ void product_blocked(const float *a, const float *b, float *c, int n) {
  __shared__ __align__(16) float left[8][32];
  __shared__ float4 right[8][8];
  const int t = threadIdx.x;
  const int down = t / 8, across = t % 8;
  const int row = blockIdx.y * 32, column = blockIdx.x * 32;
  float sum[4][4] = {};
  for (int first = 0; first < n; first += 8) {
    for (int k = t; k < 256; k += 64) left[k % 8][k / 8] = a[(row + k / 8) * n + first + k % 8];
    right[down][across] = *reinterpret_cast<const float4 *>(&b[(first + down) * n + column + 4 * across]);
    __syncthreads();
    for (int s = 0; s < 8; s++) {
      const float4 r = right[s][across];
      const float4 l = *reinterpret_cast<const float4 *>(&left[s][4 * down]);
      const float rs[4] = {r.x, r.y, r.z, r.w}, ls[4] = {l.x, l.y, l.z, l.w};
#pragma unroll
      for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) sum[i][j] += ls[i] * rs[j];
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 4; i++)
    *reinterpret_cast<float4 *>(&c[(row + 4 * down + i) * n + column + 4 * across]) =
        make_float4(sum[i][0], sum[i][1], sum[i][2], sum[i][3]);
}

// Bytes, four at a time: dp4a.
__global__ void product_bytes(const int *a, const int *b, int *c, unsigned *d, int n, int words) {
  const int row = blockIdx.x, column = threadIdx.x;
  int sum = 1;
  unsigned plain = 1;
  for (int k = 0; k < words; k++) {
    sum = __dp4a(a[row * words + k], b[column * words + k], sum);
    plain = __dp4a((unsigned)a[row * words + k], (unsigned)b[column * words + k], plain);
  }
  c[row * n + column] = sum;
  d[row * n + column] = plain;
}

// Powers of a small matrix in dynamic shared memory, cut in two halves that take turns.
__global__ void matrix_power(const unsigned *a, unsigned *c, int side, int power) {
  extern __shared__ unsigned both[];
  unsigned *now = both, *next = both + side * side;
  const int i = threadIdx.y, j = threadIdx.x;
  now[i * side + j] = i == j;
  for (int p = 0; p < power; p++) {
    __syncthreads();
    unsigned sum = 0;
    for (int k = 0; k < side; k++) sum += now[i * side + k] * a[k * side + j];
    next[i * side + j] = sum;
    unsigned *kept = now;
    now = next;
    next = kept;
  }
  c[i * side + j] = now[i * side + j];
}
