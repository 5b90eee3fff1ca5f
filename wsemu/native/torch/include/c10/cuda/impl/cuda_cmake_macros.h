#pragma once
/* torch's build generates this header; the CPU wheel has none. */
#define C10_CUDA_BUILD_SHARED_LIBS
