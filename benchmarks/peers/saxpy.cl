/* y = a x + y over elements of 4, 8 or 16 bytes (REAL); the mapping of `kernels.saxpy` and `kernels.saxpy_vectors`. */
#ifndef REAL
#define REAL float
#endif

kernel void saxpy(REAL a, global const REAL *x, global REAL *y, int n)
{
    int step = get_global_size(0);
    for (int i = get_global_id(0); i < n; i += step)
        y[i] = a * x[i] + y[i];
}

kernel void empty(REAL a, global const REAL *x, global REAL *y, int n)
{
}
