// A ring of tiles in a struct in dynamic shared memory, behind the template of an entry: nvcc -ptx -lineinfo -DBUG_...
#include "barriers.h"
#include "entry.h"
constexpr int STAGES = 2, TILE = 32;
struct Shared {
  float tile[STAGES][TILE];
  uint64_t full[STAGES], empty[STAGES];
};
struct Ring {
  __device__ void produce(Shared& s, const float* x, int tiles) const {
    for (int k = 0; k < tiles; k++) {
      int stage = k % STAGES, turn = k / STAGES;
#ifndef BUG_NO_WAIT
      wait(&s.empty[stage], turn & 1 ^ 1);
#endif
      expect(&s.full[stage], TILE * 4);
      copy(s.tile[stage], x + k * TILE, TILE * 4, &s.full[stage]);
    }
  }
  __device__ void consume(Shared& s, float* y, int tiles) const {
    for (int k = 0; k < tiles; k++) {
      int stage = k % STAGES, turn = k / STAGES;
      wait(&s.full[stage], turn & 1);
      y[k * TILE + threadIdx.x % 32] = 2 * s.tile[stage][threadIdx.x % 32];
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      arrive(&s.empty[stage]);
    }
  }
  __device__ void operator()(const float* x, float* y, int tiles) const {
    extern __shared__ __align__(128) unsigned char memory[];
    Shared& s = *reinterpret_cast<Shared*>(memory);
    if (threadIdx.x == 0) {
      for (int i = 0; i < STAGES; i++) {
        init_barrier(&s.full[i], 1);
#ifdef BUG_COUNT
        init_barrier(&s.empty[i], 64);
#else
        init_barrier(&s.empty[i], 32);
#endif
      }
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
#ifndef BUG_NO_SYNC
    __syncthreads();
#endif
    if (threadIdx.x >= 32) {
      consume(s, y, tiles);
    } else if (threadIdx.x == 0) {
      produce(s, x, tiles);
    }
  }
};
template __global__ void entry<Ring>(const float*, float*, int);
