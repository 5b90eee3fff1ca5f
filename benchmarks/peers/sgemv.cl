/* y = A x, A column-major, as `kernels.sgemv` has it: 128 rows a work-group, 32 columns staged in local memory. */
kernel void sgemv(global const float *a, global const float *x, global float *y, int n)
{
    local float tile[32][128];
    local float part[32];
    int thread = get_local_id(0);
    int row = get_group_id(0) * 128 + thread;
    float result = 0;
    for (int column = 0; column < n; column += 32) {
        if (thread < 32)
            part[thread] = x[column + thread];
        for (int j = 0; j < 32; j++)
            tile[j][thread] = a[(column + j) * n + row];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int j = 0; j < 32; j++)
            result += tile[j][thread] * part[j];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    y[row] = result;
}

kernel void empty(global const float *a, global const float *x, global float *y, int n)
{
}
