#pragma once
/* Types of cuSOLVER that torch's headers name, for toolkits without cuSOLVER; no function is declared. */
typedef enum { CUSOLVER_STATUS_SUCCESS = 0 } cusolverStatus_t;
