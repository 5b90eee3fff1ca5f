// Floating-point arithmetic as nvcc compiles it by default: a * b + c has one rounding.

__global__ void axpy(float a, const float *x, float *y, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) y[i] = a * x[i] + y[i];
}

// Horner's scheme, coefficients in the code.
__global__ void polynomial(const double *x, double *y) {
  const double t = x[threadIdx.x];
  y[threadIdx.x] = (((0.125 * t - 1.75) * t + 3.0) * t - 0.1) * t + 7.0;
}

struct Complex {
  float re, im;
};

__device__ Complex operator*(Complex a, Complex b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }

// Products of complex numbers along a row.
__global__ void complex_products(const Complex *x, Complex *y, int n) {
  Complex product = {1.0f, 0.0f};
  for (int k = 0; k < n; k++) product = product * x[threadIdx.x * n + k];
  y[threadIdx.x] = product;
}

// Forces between bodies, positions by tiles in shared memory, with the fast reciprocal square root.
__global__ void forces(const float4 *body, float4 *force, int n) {
  __shared__ float4 tile[32];
  const float4 own = body[blockIdx.x * 32 + threadIdx.x];
  float fx = 0, fy = 0, fz = 0;
  for (int first = 0; first < n; first += 32) {
    tile[threadIdx.x] = body[first + threadIdx.x];
    __syncthreads();
    for (int k = 0; k < 32; k++) {
      const float dx = tile[k].x - own.x, dy = tile[k].y - own.y, dz = tile[k].z - own.z;
      const float square = dx * dx + dy * dy + dz * dz + 0.01f;
      const float inverse = rsqrtf(square);
      const float strength = tile[k].w * inverse * inverse * inverse;
      fx += dx * strength;
      fy += dy * strength;
      fz += dz * strength;
    }
    __syncthreads();
  }
  force[blockIdx.x * 32 + threadIdx.x] = make_float4(fx, fy, fz, 0.0f);
}

// Seven points of a 3-D grid, the planes held in registers on the way up.
__global__ void seven_points(const float *x, float *y, int side) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x + 1;
  const int j = blockIdx.y * blockDim.y + threadIdx.y + 1;
  if (i >= side - 1 || j >= side - 1) return;
  const int plane = side * side;
  int at = j * side + i;
  float below = x[at], here = x[at + plane];
  for (int k = 1; k < side - 1; k++) {
    at += plane;
    const float above = x[at + plane];
    y[at] = 0.4f * here + 0.1f * (below + above + x[at - 1] + x[at + 1] + x[at - side] + x[at + side]);
    below = here;
    here = above;
  }
}
