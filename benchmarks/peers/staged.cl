/* The same product as sgemv.cl by 128 producers and 128 consumers, as `kernels.staged` has it.  OpenCL has no named
   barriers, so both roles meet at one barrier of the work-group between two stages. */
kernel void staged(global const float *a, global const float *x, global float *y, int n)
{
    local float tile[2][8][128];
    local float part[2][8];
    int produces = get_local_id(0) < 128;
    int thread = get_local_id(0) % 128;
    int row = get_group_id(0) * 128 + thread;
    float result = 0;
    for (int column = 0; column < n + 8; column += 8) {
        int stage = column / 8 % 2;
        if (produces) {
            if (column < n) {
                if (thread < 8)
                    part[stage][thread] = x[column + thread];
                for (int j = 0; j < 8; j++)
                    tile[stage][j][thread] = a[(column + j) * n + row];
            }
        } else if (column > 0) {
            for (int j = 0; j < 8; j++)
                result += tile[1 - stage][j][thread] * part[1 - stage][j];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (!produces)
        y[row] = result;
}

kernel void empty(global const float *a, global const float *x, global float *y, int n)
{
}
