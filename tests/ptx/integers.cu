// Integer arithmetic of 8 to 128 bits.
typedef unsigned long long u64;
typedef long long i64;

// One of each 64-bit operation, results side by side.
__global__ void wide_operations(const u64 *a, const u64 *b, u64 *y, int n) {
  const int i = threadIdx.x;
  if (i >= n) return;
  const u64 p = a[i], q = b[i];
  const i64 sp = p, sq = q;
  u64 *out = y + 20 * i;
  out[0] = p + q;
  out[1] = p - q;
  out[2] = p * q;
  out[3] = __umul64hi(p, q);
  out[4] = __mul64hi(sp, sq);
  out[5] = q ? p / q : 1;
  out[6] = q ? p % q : 2;
  out[7] = sq ? sp / sq : 3;
  out[8] = sq ? sp % sq : 4;
  out[9] = p << (q & 63);
  out[10] = p >> (q & 63);
  out[11] = sp >> (q & 63);
  out[12] = __popcll(p);
  out[13] = __clzll(p);
  out[14] = __ffsll(p);
  out[15] = __brevll(p);
  out[16] = min(sp, sq);
  out[17] = max(p, q);
  out[18] = (p & q) | (~p ^ q);
  out[19] = sp < sq ? 1 : p > q ? 2 : 3;
}

// The same of 32 bits, with those that have an instruction of their own.
__global__ void word_operations(const unsigned *a, const unsigned *b, unsigned *y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const unsigned p = a[i], q = b[i];
  const int sp = p, sq = q;
  unsigned *out = y + 24 * i;
  out[0] = p * q + 3;
  out[1] = __umulhi(p, q);
  out[2] = __mulhi(sp, sq);
  out[3] = q ? p / q : 0;
  out[4] = q ? p % q : 0;
  out[5] = sq && !(sp == (int)0x80000000 && sq == -1) ? sp / sq : 0;
  out[6] = sp % 7;
  out[7] = sp / -10;
  out[8] = __funnelshift_l(p, q, 9);
  out[9] = __funnelshift_r(p, q, p & 31);
  out[10] = __brev(p);
  out[11] = __clz(sp);
  out[12] = __popc(p ^ q);
  out[13] = __ffs(sp);
  out[14] = __byte_perm(p, q, 0x3715);
  out[15] = __sad(sp, sq, 5u);
  out[16] = __usad(p, q, 6u);
  out[17] = __mul24(sp, sq);
  out[18] = __umul24(p, q);
  out[19] = abs(sp);
  out[20] = __hadd(sp, sq);
  out[21] = __urhadd(p, q);
  out[22] = (p & q) ^ (p | 0x55555555) ^ q;
  out[23] = min(sp, sq) - max(p, q);
}

// Bytes and halfwords are computed as ints and cut when stored.
__global__ void narrow(const signed char *a, const unsigned short *b, signed char *c, unsigned short *d, short *e) {
  const int i = threadIdx.x;
  c[i] = a[i] * 3 - b[i];
  d[i] = (b[i] << 3) | (a[i] & 7);
  e[i] = (short)(a[i] * (short)b[i]) >> 2;
}

// base^exponent modulo a prime, by squaring.
__global__ void modular_power(const u64 *base, const unsigned *exponent, u64 *y, u64 modulus) {
  u64 result = 1, square = base[threadIdx.x] % modulus;
  for (unsigned e = exponent[threadIdx.x]; e; e >>= 1) {
    if (e & 1) result = result * square % modulus;
    square = square * square % modulus;
  }
  y[threadIdx.x] = result;
}

// 128-bit products and sums, low and high words.
__global__ void products_128(const u64 *a, const u64 *b, u64 *y) {
  const int i = threadIdx.x;
  unsigned __int128 product = (unsigned __int128)a[i] * b[i];
  product += ((unsigned __int128)b[i] << 64 | a[i]);
  product -= 12345;
  product = product << 5 | product >> 123;
  y[2 * i] = (u64)product;
  y[2 * i + 1] = (u64)(product >> 64);
}

// Sums of numbers of four words, by carry chains in PTX.
__global__ void long_sums(const unsigned *a, const unsigned *b, unsigned *sum, unsigned *difference) {
  const int i = 4 * threadIdx.x;
  asm("add.cc.u32 %0, %4, %8;\n\t"
      "addc.cc.u32 %1, %5, %9;\n\t"
      "addc.cc.u32 %2, %6, %10;\n\t"
      "addc.u32 %3, %7, %11;"
      : "=r"(sum[i]), "=r"(sum[i + 1]), "=r"(sum[i + 2]), "=r"(sum[i + 3])
      : "r"(a[i]), "r"(a[i + 1]), "r"(a[i + 2]), "r"(a[i + 3]), "r"(b[i]), "r"(b[i + 1]), "r"(b[i + 2]), "r"(b[i + 3]));
  asm("sub.cc.u32 %0, %4, %8;\n\t"
      "subc.cc.u32 %1, %5, %9;\n\t"
      "subc.cc.u32 %2, %6, %10;\n\t"
      "subc.u32 %3, %7, %11;"
      : "=r"(difference[i]), "=r"(difference[i + 1]), "=r"(difference[i + 2]), "=r"(difference[i + 3])
      : "r"(a[i]), "r"(a[i + 1]), "r"(a[i + 2]), "r"(a[i + 3]), "r"(b[i]), "r"(b[i + 1]), "r"(b[i + 2]), "r"(b[i + 3]));
}

// Greatest common divisors by subtraction and shifts; lanes leave the loop one by one.
__global__ void binary_gcd(const u64 *a, const u64 *b, u64 *y) {
  u64 p = a[threadIdx.x], q = b[threadIdx.x];
  if (p == 0 || q == 0) {
    y[threadIdx.x] = p | q;
    return;
  }
  const int twos = __ffsll(p | q) - 1;
  p >>= __ffsll(p) - 1;
  do {
    q >>= __ffsll(q) - 1;
    if (p > q) {
      const u64 kept = p;
      p = q;
      q = kept;
    }
    q -= p;
  } while (q);
  y[threadIdx.x] = p << twos;
}

// Checksums: CRC-32 bit by bit, and FNV-1a of 64 bits.
__global__ void checksums(const unsigned char *text, const int *length, unsigned *crc, u64 *fnv) {
  const unsigned char *at = text + 64 * threadIdx.x;
  unsigned c = 0xffffffffu;
  u64 f = 0xcbf29ce484222325ull;
  for (int i = 0; i < length[threadIdx.x]; i++) {
    c ^= at[i];
    for (int bit = 0; bit < 8; bit++) c = c & 1 ? c >> 1 ^ 0xedb88320u : c >> 1;
    f = (f ^ at[i]) * 0x100000001b3ull;
  }
  crc[threadIdx.x] = ~c;
  fnv[threadIdx.x] = f;
}

// xorshift64* and a bounded number from its high word.
__global__ void random_numbers(u64 seed, u64 *state, unsigned *y, int rounds) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  u64 s = seed + 0x9e3779b97f4a7c15ull * (i + 1);
  unsigned last = 0;
  for (int k = 0; k < rounds; k++) {
    s ^= s >> 12;
    s ^= s << 25;
    s ^= s >> 27;
    last = (unsigned)(((s * 0x2545f4914f6cdd1dull >> 32) * 1000) >> 32);
  }
  state[i] = s;
  y[i] = last;
}
