/* C = A B, as `algorithm_1` of examples/dgemm.py has it: a work-group computes 64 x 64 numbers of C, a work-item 4 x 4. */
#define BLOCK 64
#define DEPTH 16

kernel void dgemm(global const double *a, global const double *b, global double *c, int n)
{
    local double a_tile[DEPTH][BLOCK], b_tile[DEPTH][BLOCK];
    int thread = get_local_id(0), i = thread & 63, k = thread >> 6, x = thread & 15, y = thread >> 4;
    int row = get_group_id(0) * BLOCK, column = get_group_id(1) * BLOCK;
    double sums[4][4] = {{0}};
    for (int first = 0; first < n; first += DEPTH) {
        for (int j = k; j < DEPTH; j += 4) {
            a_tile[j][i] = a[(first + j) * n + row + i];
            b_tile[j][i] = b[(first + j) * n + column + i];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int j = 0; j < DEPTH; j++) {
            double of_a[4], of_b[4];
            for (int p = 0; p < 4; p++) {
                of_a[p] = a_tile[j][x + 16 * p];
                of_b[p] = b_tile[j][y + 16 * p];
            }
            for (int p = 0; p < 4; p++)
                for (int q = 0; q < 4; q++)
                    sums[p][q] += of_a[p] * of_b[q];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (int q = 0; q < 4; q++)
        for (int p = 0; p < 4; p++)
            c[(column + y + 16 * q) * n + row + x + 16 * p] = sums[p][q];
}

kernel void empty(global const double *a, global const double *b, global double *c, int n)
{
}
