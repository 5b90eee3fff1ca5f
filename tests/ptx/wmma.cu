#include <mma.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
using namespace nvcuda;
template <int M, int N, int K, class A, class C, class LA, class LB>
__device__ void multiply(const A *a, const A *b, const C *c, C *d, int la, int lb, wmma::layout_t lc, int ldc) {
    wmma::fragment<wmma::matrix_a, M, N, K, A, LA> fa;
    wmma::fragment<wmma::matrix_b, M, N, K, A, LB> fb;
    wmma::fragment<wmma::accumulator, M, N, K, C> fc;
    wmma::load_matrix_sync(fa, a, la);
    wmma::load_matrix_sync(fb, b, lb);
    wmma::load_matrix_sync(fc, c, ldc, lc);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(d, fc, ldc, lc);
}
#define KERNEL(name, M, N, K, A, C, LA, LB, la, lb, lc, ldc) \
    extern "C" __global__ void name(const A *a, const A *b, const C *c, C *d) { \
        multiply<M, N, K, A, C, wmma::LA, wmma::LB>(a, b, c, d, la, lb, wmma::lc, ldc); }
KERNEL(half_16, 16, 16, 16, half, float, row_major, col_major, 16, 24, mem_row_major, 16)
KERNEL(half_32_8, 32, 8, 16, half, half, col_major, row_major, 40, 8, mem_col_major, 32)
KERNEL(half_8_32, 8, 32, 16, half, float, row_major, row_major, 16, 32, mem_col_major, 8)
KERNEL(bfloat_16, 16, 16, 16, __nv_bfloat16, float, col_major, col_major, 16, 16, mem_row_major, 20)
KERNEL(bytes_8_32, 8, 32, 16, signed char, int, row_major, col_major, 16, 16, mem_row_major, 32)
KERNEL(bytes_16, 16, 16, 16, unsigned char, int, col_major, row_major, 16, 16, mem_row_major, 16)
KERNEL(doubles, 8, 8, 4, double, double, row_major, col_major, 4, 4, mem_row_major, 8)
