// c = a b^T for Ampere: a of m x k, b of n x k halves, c of m x n floats, all row by row; k is a multiple of 8, n of 2.
//
// A CTA of four warps makes a tile of 64 x 64. Slices of 64 k come through a ring of four stages that cp.async fills, 16
// bytes a thread, while the tensor cores work on another one; what lies outside of a and b is filled with zeros. The 16-byte
// pieces of a row change places with its number: then the eight pieces that ldmatrix reads at once lie in different banks.
//
// With BROKEN defined, kernels of other names, each with one mistake:
//   late         the wait leaves one group too many under way
//   unshared     no barrier behind the wait: it is for the thread's own copies alone
//   uncommitted  there is a group only for a slice that is loaded: the last waits count other groups
//   hasty        the next slice is loaded before the barrier, over the stage that others still read
#include <cuda_fp16.h>
#include <cstdint>
typedef uint32_t u32;

enum { RIGHT, LATE, UNSHARED, UNCOMMITTED, HASTY };

constexpr int TILE = 64, SLICE = 64, STAGES = 4, THREADS = 128;

__device__ u32 place(const void *p) { return (u32)__cvta_generic_to_shared(p); }
__device__ void copy(u32 to, const void *from, int bytes) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(from), "r"(bytes) : "memory"); }
#define COMMIT asm volatile("cp.async.commit_group;" ::: "memory")
#define WAIT(n) asm volatile("cp.async.wait_group %0;" :: "n"(n) : "memory")
__device__ void matrices(u32 *to, u32 from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(from) : "memory");
}
__device__ void multiply(float *s, const u32 *a, const u32 *b) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// bytes from the start of a stage to 16 bytes of a row
__device__ u32 piece(int row, int number) { return row * SLICE * 2 + (number ^ row & 7) * 16; }

// a slice of 64 rows of x, as far as they are there
__device__ void slice(u32 to, const __half *x, int row, int column, int rows, int k) {
#pragma unroll
    for (int i = threadIdx.x; i < TILE * SLICE / 8; i += THREADS) {
        int line = i / (SLICE / 8), at = column + i % (SLICE / 8) * 8;
        bool there = row + line < rows && at < k;
        copy(to + piece(line, i % (SLICE / 8)), there ? x + (size_t)(row + line) * k + at : x, there ? 16 : 0);
    }
}

template <int WRONG> __device__ void gemm(const __half *a, const __half *b, float *c, int m, int n, int k) {
    extern __shared__ __align__(128) __half tiles[];
    int row = blockIdx.y * TILE, column = blockIdx.x * TILE, slices = (k + SLICE - 1) / SLICE;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, first = warp / 2 * 32, across = warp % 2 * 32;  // of its 32 x 32
    auto of_a = [&](int i) { return place(tiles) + i % STAGES * 2 * TILE * SLICE * 2; };
    auto of_b = [&](int i) { return of_a(i) + TILE * SLICE * 2; };
    auto fill = [&](int i) {
        if (i < slices) {
            slice(of_a(i), a, row, i * SLICE, m, k);
            slice(of_b(i), b, column, i * SLICE, n, k);
            if (WRONG == UNCOMMITTED) COMMIT;
        }
        if (WRONG != UNCOMMITTED) COMMIT;
    };
    float s[2][4][4] = {};
#pragma unroll 1
    for (int i = 0; i < STAGES - 1; i++) fill(i);
#pragma unroll 1
    for (int i = 0; i < slices; i++) {
        WAIT(WRONG == LATE ? STAGES - 1 : STAGES - 2);
        if (WRONG == HASTY) fill(i + STAGES - 1);
        if (WRONG != UNSHARED) __syncthreads();  // the slice is there for all, and all are through with the stage that comes next
        if (WRONG != HASTY) fill(i + STAGES - 1);
        for (int step = 0; step < SLICE / 16; step++) {
            u32 x[2][4], y[2][4];
            for (int j = 0; j < 2; j++) {
                matrices(x[j], of_a(i) + piece(first + 16 * j + lane % 16, 2 * step + lane / 16));
                matrices(y[j], of_b(i) + piece(across + 16 * j + lane / 16 * 8 + lane % 8, 2 * step + lane / 8 % 2));
            }
            for (int p = 0; p < 2; p++) for (int q = 0; q < 4; q++) multiply(s[p][q], x[p], &y[q / 2][q % 2 * 2]);
        }
    }
    for (int p = 0; p < 2; p++) for (int q = 0; q < 4; q++) for (int h = 0; h < 2; h++) {
        int at = row + first + 16 * p + 8 * h + lane / 4, to = column + across + 8 * q + lane % 4 * 2;
        if (at < m && to < n) *(float2 *)&c[(size_t)at * n + to] = make_float2(s[p][q][2 * h], s[p][q][2 * h + 1]);
    }
}

#define KERNEL(NAME, WRONG) \
    extern "C" __global__ void __launch_bounds__(THREADS) NAME(const __half *a, const __half *b, float *c, int m, int n, int k) { gemm<WRONG>(a, b, c, m, n, k); }
#ifdef BROKEN
KERNEL(gemm_late, LATE)
KERNEL(gemm_unshared, UNSHARED)
KERNEL(gemm_uncommitted, UNCOMMITTED)
KERNEL(gemm_hasty, HASTY)
#else
KERNEL(gemm, RIGHT)
#endif
