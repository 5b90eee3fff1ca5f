/* y = a x + y, tile by tile through local memory, as `staged` of examples/saxpy.py has it. */
#define TILE 512

kernel void saxpy_staged(int n, float a, global const float *x, global float *y, int intensity)
{
    local float x_tile[TILE], y_tile[TILE];
    int thread = get_local_id(0);
    for (int first = get_group_id(0) * TILE; first < n; first += get_num_groups(0) * TILE) {
        x_tile[thread] = x[first + thread];
        y_tile[thread] = y[first + thread];
        barrier(CLK_LOCAL_MEM_FENCE);
        float value = a * x_tile[thread] + y_tile[thread];
        for (int i = 0; i < intensity; i++)
            value = 0.5f * value + x_tile[thread];
        y[first + thread] = value;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

kernel void empty(int n, float a, global const float *x, global float *y, int intensity)
{
}
