// What wsemu does not model, or drops: launched once so that it is reached, and once so that it is not.
#include <cassert>
#include <cstdio>

__device__ __forceinline__ unsigned shared_address(const void *pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// Sparse matrix products of a warp, of elements of 4 bits.
__global__ void tensor_cores(const unsigned *x, float *y, int use) {
  int c[4] = {1, 2, 3, 4};
  if (use)
    asm volatile(
        "mma.sp.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32 {%0, %1, %2, %3}, {%4, %5}, {%6, %6}, {%0, %1, %2, %3}, %4, 0;"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(x[0]), "r"(x[1]), "r"(x[2]));
  y[threadIdx.x] = c[0] + c[3];
}

// Textures.
__global__ void texture(cudaTextureObject_t source, float *y, int use) {
  y[threadIdx.x] = use ? tex1Dfetch<float>(source, threadIdx.x) : -1.0f;
}

// Atomics of 16 bits.
__global__ void narrow_atomic(unsigned short *y, int use) {
  y[threadIdx.x] = threadIdx.x;
  if (use) atomicCAS(&y[threadIdx.x], (unsigned short)3, (unsigned short)300);
}

// Text for the host is dropped; the arguments are computed all the same.
__global__ void printing(const int *x, int *y) {
  const int value = x[threadIdx.x];
  if (value % 5 == 0) printf("thread %d has %d, %f\n", threadIdx.x, value, value * 0.5);
  y[threadIdx.x] = value + 1;
}

// An assertion that holds for some.
__global__ void asserting(const int *x, int *y, int bound) {
  const int value = x[threadIdx.x];
  assert(value < bound);
  y[threadIdx.x] = value;
}

// A trap.
__global__ void trapping(const int *x, int *y, int bound) {
  const int value = x[threadIdx.x];
  if (value >= bound) __trap();
  y[threadIdx.x] = value;
}

// Clocks only go forward.
__global__ void clocks(int *y) {
  const long long start = clock64();
  const unsigned first = clock();
  __syncthreads();
  unsigned long long time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  y[threadIdx.x] = (clock64() >= start) + 2 * (clock() - first < 1u << 30) + 4 * (time > 0);
}
