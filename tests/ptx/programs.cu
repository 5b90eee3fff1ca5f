// Whole algorithms: dynamic programming, graphs, transforms, games.

// One generation of the game of life on a torus, a CTA a tile with its border.
__global__ void life(const unsigned char *x, unsigned char *y, int width, int height) {
  __shared__ unsigned char tile[10][34];
  const int column = blockIdx.x * 32, row = blockIdx.y * 8;
  const int t = threadIdx.y * 32 + threadIdx.x;
  for (int k = t; k < 340; k += 256) {
    const int i = (row + k / 34 - 1 + height) % height;
    const int j = (column + k % 34 - 1 + width) % width;
    tile[k / 34][k % 34] = x[i * width + j];
  }
  __syncthreads();
  int around = 0;
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < 3; j++) around += tile[threadIdx.y + i][threadIdx.x + j];
  const int here = tile[threadIdx.y + 1][threadIdx.x + 1];
  y[(row + threadIdx.y) * width + column + threadIdx.x] = around == 3 || (here && around == 4);
}

// Edit distance of two words, a thread a column, by antidiagonals.
__global__ void edit_distance(const char *a, const char *b, int n, int *distance) {
  extern __shared__ int diagonals[];
  int *oldest = diagonals, *old = oldest + n + 1, *now = old + n + 1;
  const int j = threadIdx.x;
  for (int d = 0; d <= 2 * n; d++) {
    const int i = d - j;
    if (j <= n && i >= 0 && i <= n) {
      int best;
      if (i == 0)
        best = j;
      else if (j == 0)
        best = i;
      else
        best = min(min(old[j], old[j - 1]) + 1, oldest[j - 1] + (a[i - 1] != b[j - 1]));
      now[j] = best;
      if (d == 2 * n) *distance = best;
    }
    __syncthreads();
    int *kept = oldest;
    oldest = old;
    old = now;
    now = kept;
  }
}

// All shortest paths by Floyd and Warshall, a CTA for a graph in shared memory.
__global__ void shortest_paths(int *graph, int n) {
  __shared__ int length[16][17];
  const int i = threadIdx.y, j = threadIdx.x;
  int *own = graph + blockIdx.x * n * n;
  length[i][j] = own[i * n + j];
  __syncthreads();
  for (int k = 0; k < n; k++) {
    const int through = length[i][k] + length[k][j];
    __syncthreads();
    if (through < length[i][j]) length[i][j] = through;
    __syncthreads();
  }
  own[i * n + j] = length[i][j];
}

// Breadth-first levels: a barrier that tells whether anything changed.
__global__ void levels(const int *start, const int *edge, int *level, int n) {
  const int node = threadIdx.x;
  __shared__ int seen[64];
  seen[node] = node == 0 ? 0 : -1;
  __syncthreads();
  for (int depth = 0;; depth++) {
    bool found = false;
    if (node < n && seen[node] < 0)
      for (int k = start[node]; k < start[node + 1] && !found; k++) found = seen[edge[k]] == depth;
    __syncthreads();
    if (found) seen[node] = depth + 1;
    if (!__syncthreads_or(found)) break;
  }
  level[node] = seen[node];
}

// The fast Walsh-Hadamard transform of integers.
__global__ void walsh_hadamard(const int *x, int *y) {
  __shared__ int values[128];
  const int t = threadIdx.x;
  values[t] = x[t];
  values[t + 64] = x[t + 64];
  for (int step = 1; step < 128; step *= 2) {
    __syncthreads();
    const int i = t / step * 2 * step + t % step;
    const int a = values[i], b = values[i + step];
    values[i] = a + b;
    values[i + step] = a - b;
  }
  __syncthreads();
  y[t] = values[t];
  y[t + 64] = values[t + 64];
}

// The number of ways to place queens, a thread a first row, with an explicit stack of bits.
__global__ void queens(int n, int *ways) {
  const int first = threadIdx.x;
  if (first >= n) return;
  const unsigned all = (1u << n) - 1;
  unsigned columns[12], left[12], right[12], open[12];
  int row = 1, found = 0;
  columns[1] = 1u << first;
  left[1] = columns[1] << 1;
  right[1] = columns[1] >> 1;
  open[1] = all & ~(columns[1] | left[1] | right[1]);
  while (row > 0) {
    if (open[row] == 0) {
      row--;
      continue;
    }
    const unsigned place = open[row] & -open[row];
    open[row] ^= place;
    if (row == n - 1) {
      found++;
      continue;
    }
    columns[row + 1] = columns[row] | place;
    left[row + 1] = (left[row] | place) << 1;
    right[row + 1] = (right[row] | place) >> 1;
    row++;
    open[row] = all & ~(columns[row] | left[row] | right[row]);
  }
  ways[first] = found;
}
