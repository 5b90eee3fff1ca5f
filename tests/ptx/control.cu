// Control flow on which the lanes of a warp differ.

// Loops in loops, left and continued in the middle.
__global__ void nested_loops(const int *x, int *y) {
  const int start = x[threadIdx.x];
  int sum = 0;
  for (int i = 0; i < 20; i++) {
    if ((i + start) % 5 == 0) continue;
    for (int j = i;; j++) {
      if (j > start) break;
      if ((j & 3) == 3) continue;
      sum += i * j;
      if (sum > 5000) goto done;
    }
    if (sum % 11 == 7) break;
  }
done:
  y[threadIdx.x] = sum;
}

// Steps until 1 is reached: each lane has a number of its own.
__global__ void collatz(const unsigned *x, unsigned *y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned value = x[i], steps = 0;
  while (value != 1) {
    value = value % 2 ? 3 * value + 1 : value / 2;
    steps++;
  }
  y[i] = steps;
}

// A dense switch with fall-through.
__global__ void dense_switch(const int *x, int *y) {
  int value = x[threadIdx.x];
  int result = 100;
  switch (value & 15) {
    case 0: result = value; break;
    case 1: result += 5;
    case 2: result *= 2; break;
    case 3: result = -value; break;
    case 4: result = value << 3; break;
    case 5: result = value >> 1;
    case 6: result ^= 0x55;
    case 7: result -= 1; break;
    case 8: result = value * value; break;
    case 9: result = value % 13; break;
    case 10: for (int k = 0; k < value; k++) result += k; break;
    case 11: result = ~value; break;
    default: result = 1000 - value;
  }
  y[threadIdx.x] = result;
}

// A sparse one in a loop: a machine with states that are far apart.
__global__ void state_machine(const char *text, int *words, int *numbers, int length) {
  enum { OUTSIDE = -1000, WORD = 7, NUMBER = 90000 };
  const char *at = text + threadIdx.x * length;
  int state = OUTSIDE, w = 0, n = 0;
  for (int i = 0; i < length; i++) {
    const char c = at[i];
    const bool letter = c >= 'a' && c <= 'z', digit = c >= '0' && c <= '9';
    switch (state) {
      case OUTSIDE:
        if (letter) state = WORD, w++;
        else if (digit) state = NUMBER, n++;
        break;
      case WORD:
        if (!letter && !digit) state = OUTSIDE;
        break;
      case NUMBER:
        if (letter) state = WORD, n--, w++;
        else if (!digit) state = OUTSIDE;
        break;
    }
  }
  words[threadIdx.x] = w;
  numbers[threadIdx.x] = n;
}

// A jump into a loop: the loop has two entries.
__global__ void two_entries(const int *x, int *y, int limit) {
  int value = x[threadIdx.x], rounds = 0;
  if (value & 1) goto middle;
top:
  value += 3;
  rounds += 100;
  if (value > limit) goto out;
middle:
  value = value * 2 - 1;
  rounds++;
  if (value < limit) goto top;
out:
  y[threadIdx.x] = value * 1000 + rounds;
}

// Returns at several depths.
__global__ void early_returns(const int *x, int *y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const int value = x[i];
  y[i] = -1;
  if (value < 0) return;
  for (int k = 2; k * k <= value; k++)
    if (value % k == 0) {
      y[i] = k;
      if (k > 5) return;
      y[i] = k * 10;
      return;
    }
  if (value < 2) return;
  y[i] = 0;
}

// Conditions that are cut short, and side effects that must not happen then.
__global__ void short_circuit(const int *x, const int *bound, int *y) {
  const int i = threadIdx.x;
  int calls = 0;
  const bool both = i < 20 && x[bound[i]] > 50 && ++calls;
  const bool either = (i % 3 == 0) || x[i] < 30 || (++calls, x[i] == 99);
  y[i] = both * 4 + either * 2 + calls * 8 + (both != either);
}

// Bisection: the number of rounds is the same, the branches differ.
__global__ void lower_bound(const int *sorted, int n, const int *wanted, int *place) {
  const int value = wanted[threadIdx.x];
  int low = 0, high = n;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (sorted[middle] < value)
      low = middle + 1;
    else
      high = middle;
  }
  place[threadIdx.x] = low;
}

// Depth-first walk over a tree of a thread's own, with a stack in local memory.
__global__ void tree_walk(const int *left, const int *right, const int *value, const int *root, int *y) {
  int stack[16], depth = 0, sum = 0, order = 1;
  stack[depth++] = root[threadIdx.x];
  do {
    const int node = stack[--depth];
    sum += value[node] * order++;
    if (right[node] >= 0) stack[depth++] = right[node];
    if (left[node] >= 0) stack[depth++] = left[node];
  } while (depth);
  y[threadIdx.x] = sum;
}

// Escape times of the Mandelbrot set.
__global__ void escape_time(int *y, int width, float scale, int limit) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  const float a = column * scale - 2.0f, b = row * scale - 1.0f;
  float re = 0, im = 0;
  int k = 0;
  for (; k < limit && re * re + im * im < 4.0f; k++) {
    const float next = re * re - im * im + a;
    im = 2.0f * re * im + b;
    re = next;
  }
  y[row * width + column] = k;
}
