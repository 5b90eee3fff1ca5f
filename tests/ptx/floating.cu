// Floating-point arithmetic; compiled without contraction, so that a * b + c rounds twice unless it says fma.

// Each kind of rounding, and what has no rounding.
__global__ void roundings(const float *a, const float *b, float *y) {
  const int i = threadIdx.x;
  const float p = a[i], q = b[i];
  float *out = y + 20 * i;
  out[0] = __fadd_rn(p, q);
  out[1] = __fadd_rz(p, q);
  out[2] = __fadd_ru(p, q);
  out[3] = __fadd_rd(p, q);
  out[4] = __fmul_rz(p, q);
  out[5] = __fmul_ru(p, q);
  out[6] = __fmaf_rn(p, q, 1.0f);
  out[7] = __fmaf_rd(p, q, -p);
  out[8] = __fdiv_rn(p, q);
  out[9] = __fdiv_rz(p, q);
  out[10] = __fsqrt_rn(fabsf(p));
  out[11] = __frcp_ru(q);
  out[12] = fminf(p, q);
  out[13] = fmaxf(p, q);
  out[14] = floorf(p);
  out[15] = ceilf(q);
  out[16] = truncf(p) + rintf(q);
  out[17] = copysignf(p, q);
  out[18] = __saturatef(p);
  out[19] = p * q + p;
}

// The same in double precision.
__global__ void double_roundings(const double *a, const double *b, double *y) {
  const int i = threadIdx.x;
  const double p = a[i], q = b[i];
  double *out = y + 12 * i;
  out[0] = __dadd_rn(p, q);
  out[1] = __dadd_ru(p, q);
  out[2] = __dmul_rd(p, q);
  out[3] = __fma_rn(p, q, 0.5);
  out[4] = __ddiv_rn(p, q);
  out[5] = __dsqrt_rn(fabs(p));
  out[6] = fmin(p, q);
  out[7] = floor(p) - ceil(q);
  out[8] = rint(p);
  out[9] = p - q * p;
  out[10] = __drcp_rn(q);
  out[11] = fabs(p) - q;
}

// Conversions: to integers of all widths, back, and between precisions.
__global__ void conversions(const float *x, const double *d, const long long *k, int *y, long long *z, float *f, double *g) {
  const int i = threadIdx.x;
  int *out = y + 8 * i;
  out[0] = (int)x[i];
  out[1] = __float2int_rn(x[i]);
  out[2] = __float2int_ru(x[i]);
  out[3] = __float2int_rd(x[i]);
  out[4] = (int)__float2uint_rz(x[i]);
  out[5] = __double2int_rn(d[i]);
  out[6] = (int)(short)__float2int_rz(fminf(fmaxf(x[i], -30000.0f), 30000.0f));
  out[7] = (int)lrintf(x[i]);
  z[2 * i] = __float2ll_rz(x[i]);
  z[2 * i + 1] = __double2ll_rn(d[i]);
  f[4 * i] = (float)d[i];
  f[4 * i + 1] = __ll2float_rn(k[i]);
  f[4 * i + 2] = __double2float_rz(d[i]);
  f[4 * i + 3] = __uint2float_ru((unsigned)k[i]);
  g[3 * i] = (double)x[i];
  g[3 * i + 1] = __ll2double_rn(k[i]);
  g[3 * i + 2] = (double)(unsigned long long)k[i];
}

// What compares, with values that are no numbers among them.
__global__ void comparisons(const float *a, const float *b, int *y) {
  const float p = a[threadIdx.x], q = b[threadIdx.x];
  int set = 0;
  if (p < q) set |= 1;
  if (p <= q) set |= 2;
  if (p == q) set |= 4;
  if (p != q) set |= 8;
  if (!(p > q)) set |= 16;
  if (!(p >= q)) set |= 32;
  if (isnan(p)) set |= 64;
  if (isinf(q)) set |= 128;
  if (signbit(p)) set |= 256;
  if (isfinite(p) && isfinite(q)) set |= 512;
  y[threadIdx.x] = set;
}

// Sums with a correction term, which contraction or another order would spoil.
__global__ void compensated_sum(const float *x, float *sum, float *plain, int n) {
  const float *at = x + threadIdx.x * n;
  float s = 0, correction = 0, p = 0;
  for (int i = 0; i < n; i++) {
    const float term = at[i] - correction;
    const float next = s + term;
    correction = (next - s) - term;
    s = next;
    p += at[i];
  }
  sum[threadIdx.x] = s;
  plain[threadIdx.x] = p;
}

// Functions of the library, within a few units in the last place.
__global__ void library(const float *x, float *y) {
  const float p = x[threadIdx.x];
  float *out = y + 8 * threadIdx.x;
  out[0] = expf(p);
  out[1] = logf(fabsf(p) + 0.5f);
  out[2] = sinf(p);
  out[3] = cosf(p);
  out[4] = rsqrtf(fabsf(p) + 1.0f);
  out[5] = powf(fabsf(p) + 0.1f, 1.5f);
  out[6] = tanhf(p);
  out[7] = atan2f(p, 2.0f);
}

// The fast ones: approximations with an instruction each.
__global__ void fast_library(const float *x, float *y) {
  const float p = x[threadIdx.x];
  float *out = y + 7 * threadIdx.x;
  out[0] = __expf(p);
  out[1] = __logf(fabsf(p) + 0.5f);
  out[2] = __sinf(p);
  out[3] = __cosf(p);
  out[4] = __fdividef(p, 3.0f);
  out[5] = __powf(fabsf(p) + 0.1f, 1.5f);
  out[6] = __frsqrt_rn(fabsf(p) + 1.0f);
}

// Double precision library functions.
__global__ void double_library(const double *x, double *y) {
  const double p = x[threadIdx.x];
  double *out = y + 5 * threadIdx.x;
  out[0] = exp(p);
  out[1] = log(fabs(p) + 0.5);
  out[2] = sin(p);
  out[3] = pow(fabs(p) + 0.1, 1.5);
  out[4] = rsqrt(fabs(p) + 1.0);
}

// Newton's method for cube roots; lanes stop when they have converged.
__global__ void cube_roots(const double *x, double *y, int *rounds) {
  const double value = x[threadIdx.x];
  double guess = value > 1 ? value : 1;
  int k = 0;
  for (; k < 100; k++) {
    const double next = (2.0 * guess + value / (guess * guess)) / 3.0;
    const double change = fabs(next - guess);
    guess = next;
    if (change <= 1e-15 * guess) break;
  }
  y[threadIdx.x] = guess;
  rounds[threadIdx.x] = k;
}
