// Warp 1 fetches tiles of 32 numbers, warp 0 adds them up.

__device__ void bar_sync(int id) { asm volatile("bar.sync %0, 64;" ::"r"(id) : "memory"); }
__device__ void bar_arrive(int id) { asm volatile("bar.arrive %0, 64;" ::"r"(id) : "memory"); }

enum { FULL = 1, EMPTY = 2 };

template <bool WAITS>
__global__ void sums(const float *x, float *y, int tiles)
{
    __shared__ float tile[32];
    int lane = threadIdx.x % 32;
    if (threadIdx.x >= 32) {
        for (int i = 0; i < tiles; ++i) {
            if (WAITS && i > 0)
                bar_sync(EMPTY);
            tile[lane] = x[i * 32 + lane];
            bar_arrive(FULL);
        }
    } else {
        float sum = 0;
        for (int i = 0; i < tiles; ++i) {
            bar_sync(FULL);
            sum += tile[lane];
            if (WAITS && i < tiles - 1)
                bar_arrive(EMPTY);
        }
        y[lane] = sum;
    }
}

template __global__ void sums<true>(const float *, float *, int);
template __global__ void sums<false>(const float *, float *, int);
