/* The stencil of 8th order in three dimensions, as `reference` of examples/stencil.py has it: tiles of 32 x 16 with a
   halo of 4, slice by slice; rows of the volume have 8 points more on each side. */
#define RADIUS 4
#define MARGIN 8
#define TILE_X 32
#define TILE_Y 16
#define C0 (-205.0f / 24)
#define C1 (8.0f / 5)
#define C2 (-1.0f / 5)
#define C3 (8.0f / 315)
#define C4 (-1.0f / 560)
#define AROUND(d) ((points[y][x - d] + points[y][x + d]) + (points[y - d][x] + points[y + d][x]))

kernel void stencil(global const float *volume, global float *result, int slices)
{
    local float points[TILE_Y + 2 * RADIUS][TILE_X + 2 * RADIUS];
    int x = (get_local_id(0) & TILE_X - 1) + RADIUS, y = (get_local_id(0) >> 5) + RADIUS;
    int columns = get_num_groups(0) * TILE_X, rows = get_num_groups(1) * TILE_Y;
    int pitch = columns + 2 * MARGIN, slice = pitch * (rows + 2 * RADIUS);
    int to_x = get_group_id(0) * TILE_X + x - RADIUS, to_y = get_group_id(1) * TILE_Y + y - RADIUS;
    global const float *line = volume + (to_y + RADIUS) * pitch + to_x + MARGIN;
    float behind4 = line[0], behind3 = line[slice], behind2 = line[2 * slice], behind1 = line[3 * slice];
    float current = line[4 * slice], ahead1 = line[5 * slice], ahead2 = line[6 * slice], ahead3 = line[7 * slice];
    for (int z = 0; z < slices; z++) {
        global const float *here = line + (z + RADIUS) * slice;
        float ahead4 = here[RADIUS * slice];
        barrier(CLK_LOCAL_MEM_FENCE);
        points[y][x] = current;
        if (y < 2 * RADIUS) {
            points[y - RADIUS][x] = here[-RADIUS * pitch];
            points[y + TILE_Y][x] = here[TILE_Y * pitch];
        }
        if (x < 2 * RADIUS) {
            points[y][x - RADIUS] = here[-RADIUS];
            points[y][x + TILE_X] = here[TILE_X];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        float total = C0 * current;
        total = fma(C1, AROUND(1) + (behind1 + ahead1), total);
        total = fma(C2, AROUND(2) + (behind2 + ahead2), total);
        total = fma(C3, AROUND(3) + (behind3 + ahead3), total);
        result[(z * rows + to_y) * columns + to_x] = fma(C4, AROUND(4) + (behind4 + ahead4), total);
        behind4 = behind3, behind3 = behind2, behind2 = behind1, behind1 = current;
        current = ahead1, ahead1 = ahead2, ahead2 = ahead3, ahead3 = ahead4;
    }
}

kernel void empty(global const float *volume, global float *result, int slices)
{
}
