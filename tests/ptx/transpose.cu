// Transposes of a matrix, and what they cost.
constexpr int TILE = 32;
constexpr int ROWS = 8;

// Stores walk along columns: each one needs as many sectors as it has lanes.
__global__ void transpose_naive(const float *x, float *y, int width, int height) {
  const int column = blockIdx.x * TILE + threadIdx.x;
  const int row = blockIdx.y * TILE + threadIdx.y;
  for (int k = 0; k < TILE; k += ROWS)
    if (column < width && row + k < height) y[column * height + row + k] = x[(row + k) * width + column];
}

// Through shared memory; PAD is 0 for reads that meet in one bank, 1 for none that do.
template <typename T, int PAD>
__global__ void transpose_tile(const T *x, T *y, int width, int height) {
  __shared__ T tile[TILE][TILE + PAD];
  int column = blockIdx.x * TILE + threadIdx.x;
  int row = blockIdx.y * TILE + threadIdx.y;
  for (int k = 0; k < TILE; k += ROWS)
    if (column < width && row + k < height) tile[threadIdx.y + k][threadIdx.x] = x[(row + k) * width + column];
  __syncthreads();
  column = blockIdx.y * TILE + threadIdx.x;
  row = blockIdx.x * TILE + threadIdx.y;
  for (int k = 0; k < TILE; k += ROWS)
    if (column < height && row + k < width) y[(row + k) * height + column] = tile[threadIdx.x][threadIdx.y + k];
}
template __global__ void transpose_tile<float, 0>(const float *, float *, int, int);
template __global__ void transpose_tile<float, 1>(const float *, float *, int, int);
template __global__ void transpose_tile<double, 1>(const double *, double *, int, int);
template __global__ void transpose_tile<unsigned char, 4>(const unsigned char *, unsigned char *, int, int);

// No padding: column numbers are mixed with row numbers.
__global__ void transpose_swizzled(const int *x, int *y) {
  __shared__ int tile[TILE * TILE];
  for (int row = threadIdx.y; row < TILE; row += ROWS)
    tile[row * TILE + (threadIdx.x ^ row)] = x[row * TILE + threadIdx.x];
  __syncthreads();
  for (int row = threadIdx.y; row < TILE; row += ROWS)
    y[row * TILE + threadIdx.x] = tile[threadIdx.x * TILE + (row ^ threadIdx.x)];
}

// Four by four values a thread, in registers, by vector loads and stores.
__global__ void transpose_registers(const float4 *x, float4 *y, int side) {
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  const int pitch = side / 4;
  float4 in[4];
  for (int k = 0; k < 4; k++) in[k] = x[(4 * row + k) * pitch + column];
  y[(4 * column + 0) * pitch + row] = make_float4(in[0].x, in[1].x, in[2].x, in[3].x);
  y[(4 * column + 1) * pitch + row] = make_float4(in[0].y, in[1].y, in[2].y, in[3].y);
  y[(4 * column + 2) * pitch + row] = make_float4(in[0].z, in[1].z, in[2].z, in[3].z);
  y[(4 * column + 3) * pitch + row] = make_float4(in[0].w, in[1].w, in[2].w, in[3].w);
}
