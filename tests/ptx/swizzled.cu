// A tile with a swizzle of 128 bytes, whose elements are read by their offsets in the tile: right if it begins at a
// multiple of 1,024 bytes.
#include <cstdint>
#include <cuda.h>

template <int AT> __device__ void load_tile(const CUtensorMap &map, uint16_t *out) {
  __shared__ __align__(1024) unsigned char memory[2048];
  __shared__ __align__(8) uint64_t full;
  unsigned char *tile = memory + AT;
  const unsigned bar = (unsigned)__cvta_generic_to_shared(&full), to = (unsigned)__cvta_generic_to_shared(tile);
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 1024;" ::"r"(bar) : "memory");
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %3}], [%2];"
                 ::"r"(to), "l"(&map), "r"(bar), "r"(0) : "memory");
  }
  asm volatile("{.reg .pred p; W: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra W;}" ::"r"(bar) : "memory");
  for (int e = threadIdx.x; e < 512; e += 32) {
    const int byte = 2 * e;
    out[e] = *(uint16_t *)(tile + (byte ^ (byte >> 7 & 7) << 4));
  }
}

extern "C" __global__ void aligned(const __grid_constant__ CUtensorMap map, uint16_t *out) { load_tile<1024>(map, out); }
extern "C" __global__ void shifted(const __grid_constant__ CUtensorMap map, uint16_t *out) { load_tile<128>(map, out); }
