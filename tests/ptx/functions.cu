// Calls that stay calls: values, structs and pointers go in and out of functions that are not inlined.

struct Pair {
  int low, high;
};

struct Vector {
  float x, y, z;
};

__device__ __noinline__ int collapse(int a, int b) { return a * 31 + (b ^ 0x1234); }

__device__ __noinline__ Pair ordered(int a, int b) {
  Pair result;
  result.low = a < b ? a : b;
  result.high = a < b ? b : a;
  return result;
}

__device__ __noinline__ Vector cross(Vector a, Vector b) {
  return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}

__device__ __noinline__ void divide(int a, int b, int *quotient, int &remainder) {
  *quotient = a / b;
  remainder = a % b;
}

__device__ __noinline__ int sum_of(const int *values, int n) {
  int sum = 0;
  for (int i = 0; i < n; i++) sum += values[i];
  return sum;
}

__device__ __noinline__ long long twice(long long value) { return 2 * value + collapse((int)value, 1); }
__device__ __noinline__ double half_of(double value, bool negative) { return negative ? -0.5 * value : 0.5 * value; }

__device__ __noinline__ bool is_prime(unsigned n) {
  if (n < 2) return false;
  for (unsigned k = 2; k * k <= n; k++)
    if (n % k == 0) return false;
  return true;
}

// Two call sites of one function, one of them in a branch.
__global__ void calls(const int *x, int *y) {
  const int i = threadIdx.x;
  int value = collapse(x[i], i);
  if (value & 1) value = collapse(value, -i);
  const Pair pair = ordered(value, x[i]);
  y[2 * i] = pair.low;
  y[2 * i + 1] = pair.high;
}

// Functions that call functions; arguments of 64 bits, of a byte.
__global__ void deep_calls(const int *x, long long *y, double *z) {
  const int i = threadIdx.x;
  y[i] = twice(twice(x[i]) - i);
  z[i] = half_of(half_of(x[i], i & 1), i & 2);
}

// Structs in and out.
__global__ void cross_products(const Vector *a, const Vector *b, Vector *c) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  c[i] = cross(cross(a[i], b[i]), b[i]);
}

// Results through pointers to local variables.
__global__ void quotients(const int *a, const int *b, int *y) {
  const int i = threadIdx.x;
  int quotient = -1, remainder = -1;
  if (b[i]) divide(a[i], b[i], &quotient, remainder);
  y[i] = quotient * 100 + remainder;
}

// One function reads global, shared and local memory.
__global__ void any_memory(const int *x, int *y) {
  __shared__ int tile[64];
  const int t = threadIdx.x;
  int own[4];
  tile[t] = x[t] + 1;
  for (int k = 0; k < 4; k++) own[k] = x[t] * (k + t % 2);
  __syncthreads();
  const int *where = t % 3 == 0 ? x + t / 4 : t % 3 == 1 ? tile + t / 4 : own;
  y[t] = sum_of(where, 4) + sum_of(tile + t % 8, t % 5);
}

// A loop of divergent length inside the function, a divergent call around it.
__global__ void primes(const unsigned *x, int *y, int *count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  int found = 0;
  for (unsigned n = x[i]; n < x[i] + i % 7; n++)
    if (is_prime(n)) found++;
  y[i] = found;
  const int all = __syncthreads_count(found > 0);
  if (threadIdx.x == 0) count[blockIdx.x] = all;
}

// A barrier in a function.
__device__ __noinline__ int exchanged(int *tile, int value, int from) {
  tile[threadIdx.x] = value;
  __syncthreads();
  const int result = tile[from];
  __syncthreads();
  return result;
}

__global__ void barrier_in_function(const int *x, int *y) {
  __shared__ int tile[96];
  int value = x[threadIdx.x];
  for (int step = 1; step < 50; step *= 3) value += exchanged(tile, value, (threadIdx.x + step) % 96);
  y[threadIdx.x] = value;
}
