// Sums with atomics and fences: the last CTA adds up what all have published, and a chain hands on prefix sums.
extern "C" __global__ void last(const int *x, int *parts, unsigned *count, int *out, int n) {
    __shared__ int sums[64];
    __shared__ bool is_last;
    int t = threadIdx.x, sum = 0;
    for (int i = blockIdx.x * 64 + t; i < n; i += gridDim.x * 64) sum += x[i];
    sums[t] = sum;
    __syncthreads();
    if (t == 0) {
        int total = 0;
        for (int i = 0; i < 64; ++i) total += sums[i];
        parts[blockIdx.x] = total;
        __threadfence();
        is_last = atomicAdd(count, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (is_last && t == 0) {
        __threadfence();
        int total = 0;
        for (int i = 0; i < gridDim.x; ++i) total += parts[i];
        out[0] = total;
    }
}

extern "C" __global__ void chain(const int *x, int *totals, int *flags, int *y) {
    __shared__ int before;
    int t = threadIdx.x, b = blockIdx.x;
    if (t == 0) {
        int sum = 0;
        if (b > 0) {
            while (atomicAdd(&flags[b - 1], 0) == 0) {}
            __threadfence();
            sum = totals[b - 1];
        }
        before = sum;
        for (int i = 0; i < blockDim.x; ++i) sum += x[b * blockDim.x + i];
        totals[b] = sum;
        __threadfence();
        atomicExch(&flags[b], 1);
    }
    __syncthreads();
    y[b * blockDim.x + t] = x[b * blockDim.x + t] + before;
}

extern "C" __global__ void lock(const int *x, int *sum, int *mutex, int n) {
    __shared__ int parts[32];
    int t = threadIdx.x, i = blockIdx.x * 32 + t;
    parts[t] = i < n ? x[i] : 0;
    __syncthreads();
    if (t == 0) {
        int total = 0;
        for (int k = 0; k < 32; ++k) total += parts[k];
        while (atomicCAS(mutex, 0, 1) != 0) {}
        __threadfence();
        sum[0] += total;
        __threadfence();
        atomicExch(mutex, 0);
    }
}
