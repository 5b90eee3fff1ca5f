#pragma once
template <class Kernel> __global__ void entry(const float* x, float* y, int tiles) {
  Kernel kernel;
  kernel(x, y, tiles);
}
