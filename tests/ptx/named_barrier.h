// PTX's named barriers, for which CUDA C++ has no function. Counts are in threads, multiples of 32.
#pragma once

__device__ __forceinline__ void bar_sync(int id, int count) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(count) : "memory");
}

__device__ __forceinline__ void bar_arrive(int id, int count) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(count) : "memory");
}

// The same with operands that the assembler knows.
template <int ID, int COUNT>
__device__ __forceinline__ void bar_sync() {
  asm volatile("bar.sync %0, %1;" ::"n"(ID), "n"(COUNT) : "memory");
}

template <int ID, int COUNT>
__device__ __forceinline__ void bar_arrive() {
  asm volatile("bar.arrive %0, %1;" ::"n"(ID), "n"(COUNT) : "memory");
}

// How many of the threads at the barrier have `predicate`.
__device__ __forceinline__ int bar_red_popc(int id, int count, bool predicate) {
  int result;
  asm volatile(
      "{ .reg .pred p; setp.ne.u32 p, %3, 0; bar.red.popc.u32 %0, %1, %2, p; }"
      : "=r"(result)
      : "r"(id), "r"(count), "r"((int)predicate)
      : "memory");
  return result;
}
