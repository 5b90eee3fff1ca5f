#pragma once
/* Types of cuSPARSE that torch's headers name, for toolkits without cuSPARSE. */
typedef struct cusparseContext *cusparseHandle_t;
typedef enum { CUSPARSE_STATUS_SUCCESS = 0 } cusparseStatus_t;
extern "C" const char *cusparseGetErrorString(cusparseStatus_t status);
