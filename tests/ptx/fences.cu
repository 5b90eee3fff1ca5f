// Messages between CTAs by fences and atomics: all orders of these are tried.

// The CTA that comes last adds up the parts of all.
__device__ unsigned arrived;

__global__ void last_block(const int *x, int *part, int *total) {
  __shared__ bool last;
  const int sum = __syncthreads_count(x[blockIdx.x * blockDim.x + threadIdx.x] > 0);
  if (threadIdx.x == 0) {
    part[blockIdx.x] = sum;
    __threadfence();
    last = atomicAdd(&arrived, 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    __threadfence();
    int all = 0;
    for (int b = 0; b < gridDim.x; b++) all += part[b];
    *total = all;
  }
}

// Block 0 writes a message and sets a flag, block 1 waits for the flag.
__global__ void message(int *flag, int *text, int *y) {
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 0) {
    *text = 42;
    __threadfence();
    atomicExch(flag, 1);
  } else {
    while (atomicAdd(flag, 0) == 0) {
    }
    __threadfence();
    *y = *text + 1;
  }
}

// A lock that one lane of each warp takes.
__global__ void lock(int *mutex, int *counter) {
  if (threadIdx.x % 32) return;
  while (atomicCAS(mutex, 0, 1) != 0) {
  }
  __threadfence();
  *(volatile int *)counter += 1;
  __threadfence();
  atomicExch(mutex, 0);
}

// Fences around stores of the thread's own: nothing is shared, so this is proved.
__global__ void fences_only(const int *x, int *y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i];
  __threadfence_block();
  y[i] += 1;
  __threadfence();
  y[i] *= 2;
  __threadfence_system();
  y[i] -= 3;
}
