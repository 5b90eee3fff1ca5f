// Kernels with one bug each, for the words of their findings: nvcc -ptx -lineinfo -arch=sm_90 words.cu

__global__ void quarters(const float *x, float *y)
{
    float v = x[threadIdx.x];
    unsigned mask = 0xff;
    v += __shfl_xor_sync(mask, v, 4);
    v += __shfl_xor_sync(mask, v, 2);
    y[threadIdx.x] = v;
}

__global__ void spin_lock(int *lock, int *sum)
{
    while (atomicExch(lock, 1) != 0);
    *sum = *sum + 1;
    atomicExch(lock, 0);
}

__global__ void largest(float *x, float by)
{
    int *bits = (int *)x;
    float old = *(volatile float *)x, assumed;
    do {
        assumed = old;
        old = __int_as_float(atomicCAS(bits, __float_as_int(assumed), __float_as_int(assumed * by)));
    } while (assumed != old);
}

__global__ void row_major(float *x, int rows, int step)
{
    int i = (rows + (int)blockIdx.x) * rows + (int)threadIdx.x * step;
    x[i] = 1;
}

extern __shared__ float pool[];
__global__ void pooled(float *x)
{
    pool[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = pool[31 - threadIdx.x];
}

__global__ void halves(float *x)
{
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];
    if (threadIdx.x < 40)
        __syncthreads();
    x[threadIdx.x] = s[63 - threadIdx.x];
}

struct Tensor { float *data; int n; };
template <class T> __device__ T *buffer() { static __shared__ T tile[64]; return tile; }
__device__ __forceinline__ void put(float *t, int i, float v) { t[i] = v; }

__global__ void unrolled(Tensor x, int)
{
    float *t = buffer<float>();
    int *u = buffer<int>();
    int n = threadIdx.x;
    u[n] = 1;
    put(t, n / 2, x.data[n / 2]);
    put(t, n / 2 + 32, x.data[n / 2 + 32]);
    float s = t[31 - n / 2];
    s += t[63 - n / 2];
    x.data[n] = s + u[n];
}
