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

#include <cstdint>
struct Ring { float slot[2][32]; uint64_t full[2], empty[2]; };
__device__ __forceinline__ uint32_t address(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void init(uint64_t *b, int n)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address(b)), "r"(n) : "memory");
}
__device__ __forceinline__ void arrive(uint64_t *b)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address(b)) : "memory");
}
__device__ __forceinline__ void wait(uint64_t *b, int parity)
{
    asm volatile("{\n.reg .pred P;\nL:\nmbarrier.try_wait.parity.shared::cta.b64 P, [%0], %1;\n@P bra D;\nbra L;\nD:\n}"
                 ::"r"(address(b)), "r"(parity) : "memory");
}
__global__ void one_parity(const float *x, float *y, int n)
{
    __shared__ Ring r;
    if (threadIdx.x == 0) for (int i = 0; i < 2; i++) { init(&r.full[i], 32); init(&r.empty[i], 32); }
    __syncthreads();
    int lane = threadIdx.x % 32;
    for (int k = 0; k < n; k++) {
        if (threadIdx.x < 32) {
            wait(&r.empty[k % 2], (k / 2 + 1) & 1);
            r.slot[k % 2][lane] = x[k * 32 + lane];
            arrive(&r.full[k % 2]);
        } else {
            wait(&r.full[k % 2], 0);
            y[k * 32 + lane] = 2 * r.slot[k % 2][lane];
            arrive(&r.empty[k % 2]);
        }
    }
}

__global__ void pooled_barrier()
{
    if (threadIdx.x == 0) init((uint64_t *)pool + 4, 1);
}
