#pragma once
/* Types of cuBLAS that torch's headers name, for toolkits without cuBLAS; no function is declared. */
typedef struct cublasContext *cublasHandle_t;
typedef enum { CUBLAS_STATUS_SUCCESS = 0 } cublasStatus_t;
