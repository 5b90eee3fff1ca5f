// Kernels whose names, parameters and launches are the subject: what they compute is simple.

struct Pair {
    float a;
    int n;
};

template <typename T> struct View {
    T *data;
    int n;
};

struct Cell {
    char tag;
    double weight;
};

struct Record {
    short first;
    Cell cells[2];
    int *counts;
    unsigned char last;
};

__device__ float table[4] = {1.f, 2.f, 3.f, 4.f};

extern "C" __global__ void saxpy(const float *x, float *y, float a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = a * x[i] + y[i];
}

// A template, with a structure by value, a bound for the CTA and a variable of the module.
template <typename T, int N>
__global__ void __launch_bounds__(128) scale(T *out, Pair p)
{
    __shared__ T tile[N];
    int i = threadIdx.x;
    tile[i] = out[i] * p.a;
    __syncthreads();
    if (i < p.n)
        out[i] = tile[N - 1 - i] + table[i & 3];
}

template __global__ void scale<float, 64>(float *, Pair);
template __global__ void scale<double, 32>(double *, Pair);

// Two kernels of one name.
__global__ void fill(float *out) { out[threadIdx.x] = 1.5f; }
__global__ void fill(int *out) { out[threadIdx.x] = 7; }

namespace deep {
namespace inner {

// Nothing orders the stores of one warp and the loads of the other.
__global__ void reverse(int *out)
{
    __shared__ int tile[64];
    tile[threadIdx.x] = threadIdx.x;
    out[threadIdx.x] = tile[63 - threadIdx.x];
}

} // namespace inner
} // namespace deep

// A pointer in a structure by value.
__global__ void viewed(View<float> v)
{
    int i = threadIdx.x;
    if (i < v.n)
        v.data[i] *= 2.f;
}

// Each kind of number.
__global__ void numbers(double *out, signed char c, unsigned char b, short s, unsigned int u, long long l, float f,
                        double d, bool flag)
{
    out[0] = c;
    out[1] = b;
    out[2] = s;
    out[3] = u;
    out[4] = l;
    out[5] = f;
    out[6] = d;
    out[7] = flag;
}

// Fields at all kinds of offsets.
__global__ void record(double *out, Record r)
{
    out[0] = r.first;
    for (int i = 0; i < 2; ++i) {
        out[1 + 2 * i] = r.cells[i].tag;
        out[2 + 2 * i] = r.cells[i].weight;
    }
    out[5] = r.counts[1];
    out[6] = r.last;
}

// Dynamic shared memory; an instruction that is not modelled where `wanted` is set.
__global__ void turned(float *x, int wanted)
{
    extern __shared__ float buffer[];
    if (wanted)
        asm volatile("discard.global.L2 [%0], 128;" ::"l"(x) : "memory");
    buffer[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = buffer[threadIdx.x ^ 1];
}

// Barrier operands that the caller gives, to see what becomes of an endless wait.
__global__ void waits(int id, int count) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(count) : "memory"); }
