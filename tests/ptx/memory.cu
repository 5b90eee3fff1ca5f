// Kinds of memory and of arguments.
#include <cuda_fp16.h>

// Three arrays of different types in one piece of dynamic shared memory.
__global__ void carved(const double *x, const int *k, const unsigned char *b, double *y, int n) {
  extern __shared__ __align__(16) unsigned char raw[];
  double *doubles = reinterpret_cast<double *>(raw);
  int *ints = reinterpret_cast<int *>(doubles + n);
  unsigned char *bytes = reinterpret_cast<unsigned char *>(ints + n);
  const int t = threadIdx.x;
  doubles[t] = x[t];
  ints[t] = k[t];
  bytes[t] = b[t];
  __syncthreads();
  const int other = (t + 1) % n;
  y[t] = doubles[other] + ints[(t + 2) % n] * 0.5 + bytes[n - 1 - t];
}

// Static and dynamic shared memory together.
__global__ void both_kinds(const int *x, int *y) {
  __shared__ int fixed[32];
  __shared__ short small[3];
  extern __shared__ int sized[];
  const int t = threadIdx.x;
  fixed[t] = x[t];
  sized[t] = x[t] * 2;
  if (t < 3) small[t] = x[t] % 100;
  __syncthreads();
  y[t] = fixed[31 - t] + sized[(t + 5) % 32] + small[t % 3];
}

// A local array whose index is known at run time only.
__global__ void local_array(const int *x, int *y) {
  int counts[10] = {};
  for (int i = 0; i < 40; i++) counts[x[(threadIdx.x * 7 + i * 3) % 64] % 10]++;
  int best = 0;
  for (int d = 1; d < 10; d++)
    if (counts[d] > counts[best]) best = d;
  y[threadIdx.x] = best * 100 + counts[best];
}

// A struct by value, with members of all widths, and an array in it.
struct Settings {
  signed char sign;
  short offset;
  int scale;
  long long big;
  float factor;
  double wide;
  unsigned char table[6];
};

__global__ void by_value(Settings s, const int *x, double *y) {
  const int t = threadIdx.x;
  y[t] = s.sign * (x[t] * s.scale + s.offset) + s.table[t % 6] * (double)s.factor + s.wide + (double)s.big;
}

// Pointers inside the struct.
struct Image {
  const float *pixels;
  int width, height;
};

__global__ void image_rows(Image image, float *y) {
  const int row = threadIdx.x;
  if (row >= image.height) return;
  float largest = image.pixels[row * image.width];
  for (int k = 1; k < image.width; k++) largest = fmaxf(largest, image.pixels[row * image.width + k]);
  y[row] = largest;
}

// Constants with initial values; variables of the module with and without.
__constant__ float weights[5] = {0.0625f, 0.25f, 0.375f, 0.25f, 0.0625f};
__constant__ struct {
  int first;
  short steps[3];
} layout = {-7, {1, 2, 5}};
__device__ int table[8] = {10, 20, 30, 40, 50};
__device__ unsigned counter;
__device__ int scratch[256];

__global__ void constants(const float *x, float *y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i + 4 >= n) return;
  float sum = 0;
  for (int k = 0; k < 5; k++) sum += weights[k] * x[i + k];
  y[i] = sum + layout.steps[i % 3] + layout.first;
}

__global__ void module_variables(const int *x, int *y, unsigned *seen) {
  const int t = threadIdx.x;
  scratch[t] = x[t] + table[t % 8];
  atomicAdd(&counter, t);
  __syncthreads();
  y[t] = scratch[blockDim.x - 1 - t];
  if (t == 0) *seen = counter;
}

// Vectors of 2 and 4 elements, of 1 to 8 bytes.
__global__ void vectors(const float4 *f, const int2 *i, const uchar4 *b, const short2 *s, const double2 *d, float4 *y,
                        ushort4 *z, longlong2 *w) {
  const int t = threadIdx.x;
  const float4 p = f[t];
  const int2 q = i[t];
  const uchar4 r = b[t];
  const short2 u = s[t];
  const double2 v = d[t];
  y[t] = make_float4(p.w + q.x, p.z - q.y, p.y * r.x, p.x + (float)v.y);
  z[t] = make_ushort4(r.w + 1, r.z * 2, (unsigned short)u.x, (unsigned short)(u.y >> 1));
  w[t] = make_longlong2((long long)v.x, (long long)q.x << 33);
}

// The bits of one type read as another.
union Bits {
  float f;
  unsigned u;
  unsigned char bytes[4];
};

__global__ void bits(const float *x, unsigned *y, float *z, double *w) {
  const int t = threadIdx.x;
  Bits value;
  value.f = x[t];
  value.bytes[t % 4] ^= 0x10;
  y[t] = value.u;
  z[t] = __uint_as_float((__float_as_uint(x[t]) & 0x7fffffff) | 0x3f800000);
  w[t] = __hiloint2double(__double2hiint((double)x[t]) + 0x00100000, t);
}

// Halfs, one and two at a time.
__global__ void halfs(const __half *a, const __half *b, __half *c, __half2 *d, float *e) {
  const int t = threadIdx.x;
  c[t] = __hfma(a[t], b[t], __float2half(0.25f));
  const __half2 both = __halves2half2(a[t], b[t]);
  d[t] = __hadd2(__hmul2(both, both), __float2half2_rn(1.0f));
  e[t] = __half2float(a[t]) + (__hlt(a[t], b[t]) ? 1.0f : 0.0f);
}

// A pointer that may lead to shared or to global memory.
__global__ void either_memory(int *x, int *y, int *kind) {
  __shared__ int tile[64];
  const int t = threadIdx.x;
  tile[t] = x[t] * 2;
  __syncthreads();
  int *where = x[t] % 2 ? &tile[63 - t] : &x[63 - t];
  y[t] = *where;
  kind[t] = __isShared(where) * 1 + __isGlobal(where) * 2 + __isLocal(&where) * 4;
  __syncthreads();
  atomicAdd(where, 1);
  __syncthreads();
  y[t] = y[t] * 1000 + tile[t];
}

// Grids and blocks of three dimensions.
__global__ void indices(int *y, int *z) {
  const int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const int i = block * blockDim.x * blockDim.y * blockDim.z + thread;
  y[i] = threadIdx.x + 10 * threadIdx.y + 100 * threadIdx.z + 1000 * blockIdx.x + 10000 * blockIdx.y + 100000 * blockIdx.z;
  z[i] = gridDim.z * 1000 + blockDim.z * 100 + (thread & 31) * warpSize;
}

// Loads through the read-only path, streaming and volatile accesses.
__global__ void qualifiers(const int *__restrict__ x, const int *a, volatile int *v, int *y) {
  const int t = threadIdx.x;
  v[t] = __ldg(&x[t]) + 1;
  const int again = v[t];
  __stcs(&y[t], again + __ldcg(&a[t]) * 10 + __ldcs(&a[63 - t]) * 100);
  __stwt(&y[t + 64], __ldca(&x[63 - t]) + __ldlu(&x[t]));
}
