#pragma once
/* Types of cuBLASLt that torch's headers name, for toolkits without cuBLASLt; no function is declared. */
#include <cublas_v2.h>
typedef struct cublasLtContext *cublasLtHandle_t;
