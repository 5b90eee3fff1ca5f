#pragma once
/* Types of cuSOLVER that torch's headers name, for toolkits without cuSOLVER; no function is declared. */
#include <cusolver_common.h>
typedef struct cusolverDnContext *cusolverDnHandle_t;
