// Calls through registers, of functions that call themselves, and memory of the stack.
#include <alloca.h>

struct Shape {
  __device__ virtual float area(float scale) const = 0;
  __device__ virtual int sides() const = 0;
};
struct Square : Shape {
  float a;
  __device__ Square(float a) : a(a) {}
  __device__ float area(float scale) const override { return a * a * scale; }
  __device__ int sides() const override { return 4; }
};
struct Triangle : Shape {
  float b, h;
  __device__ Triangle(float b, float h) : b(b), h(h) {}
  __device__ float area(float scale) const override { return 0.5f * b * h + scale; }
  __device__ int sides() const override { return 3; }
};

// Neighbouring lanes call different functions of a class, and meet again.
__global__ void virtual_calls(float *y, int all) {
  const int t = threadIdx.x;
  Square square(t);
  Triangle triangle(t, 2);
  const Shape *shape = (t & 1) ? (const Shape *)&square : (const Shape *)&triangle;
  if (all) shape = &square;
  const float area = shape->area(3.f);
  y[t] = __shfl_xor_sync(~0u, area, 1) + shape->sides();
}

typedef int (*Function)(int, int);
__device__ __noinline__ int add(int a, int b) { return a + b; }
__device__ __noinline__ int subtract(int a, int b) { return a - b; }
__device__ __noinline__ int multiply(int a, int b) { return a * b; }
__device__ Function table[3] = {add, subtract, multiply};
__constant__ Function fixed[3] = {multiply, subtract, add};
__device__ int numbers[4] = {10, 20, 30, 40};
struct Entry {
  int number;
  const int *pointer;
  Function function;
};
__device__ Entry entry = {3, numbers + 1, subtract};

// Functions from tables, and from a structure with the address of an array.
__global__ void tables(int *y) {
  const int t = threadIdx.x;
  y[t] = table[t % 3](t, 5) + 100 * fixed[t & 1](t, 2) + entry.function(entry.number, *entry.pointer);
}

// No function has this address.
__global__ void nowhere(int *y, unsigned long long address) {
  y[threadIdx.x] = ((Function)address)(1, 2);
}

__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
__device__ int odd(int n);
__device__ __noinline__ bool even(int n) { return n == 0 ? true : odd(n - 1); }
__device__ __noinline__ int odd(int n) { return n == 0 ? 0 : even(n - 1); }
__device__ __noinline__ int ackermann(int m, int n) {
  if (m == 0) return n + 1;
  return ackermann(m - 1, n == 0 ? 1 : ackermann(m, n - 1));
}

// Each lane goes to a depth of its own.
__global__ void recursive(int *y) {
  const int t = threadIdx.x;
  y[t] = fibonacci(t % 9) + 1000 * even(t) + 100000 * ackermann(t % 3, t % 4);
}

// A GPU leaves the lanes apart then: what a shuffle reads is not there.
__global__ void shuffled_apart(int *y, int n) {
  const int t = threadIdx.x;
  y[t] = __shfl_xor_sync(~0u, fibonacci(t % n), 1);
}

__device__ __noinline__ int steps(int n) { return n == 0 ? 1 : (n ^ (3 * steps(n - 1))) % 1001; }

// It does not where functions call themselves once, nor where all lanes go alike.
__global__ void shuffled_together(int *y) {
  const int t = threadIdx.x;
  y[t] = __shfl_xor_sync(~0u, steps(t % 7) + 10000 * fibonacci(5), 1);
}

struct Range {
  int from, to;
  long long sum;
};
__device__ __noinline__ Range halves(Range r, const int *x) {
  if (r.to - r.from == 1) {
    r.sum = x[r.from];
    return r;
  }
  const int middle = (r.from + r.to) / 2;
  const Range left = halves({r.from, middle, 0}, x), right = halves({middle, r.to, 0}, x);
  return {left.from, right.to, left.sum * 3 - right.sum};
}

// Structures in and out.
__global__ void divide_and_conquer(const int *x, long long *y) {
  const Range r = halves({0, (int)threadIdx.x % 7 + 1, 0}, x);
  y[threadIdx.x] = r.sum * 100 + r.to;
}

__device__ __noinline__ void permute(const int *given, int k, int n, int *out, int *count) {
  int own[4];
  for (int i = 0; i < 4; i++) own[i] = given[i];
  if (k == n) {
    int number = 0;
    for (int i = 0; i < n; i++) number = number * 10 + own[i];
    out[(*count)++] = number;
    return;
  }
  for (int i = k; i < n; i++) {
    const int first = own[k];
    own[k] = own[i];
    own[i] = first;
    permute(own, k + 1, n, out, count);
  }
}

// An array of each call.
__global__ void permutations(int *y) {
  const int t = threadIdx.x;
  const int digits[4] = {1 + t, 2, 3, 4};
  int count = 0;
  permute(digits, 0, 2 + t % 3, y + 24 * t, &count);
}

struct Node {
  __device__ virtual int value(int x) const = 0;
};
struct Variable : Node {
  __device__ int value(int x) const override { return x; }
};
struct Sum : Node {
  const Node *a, *b;
  __device__ Sum(const Node *a, const Node *b) : a(a), b(b) {}
  __device__ int value(int x) const override { return a->value(x) + b->value(x + 1); }
};
struct Product : Node {
  const Node *a, *b;
  __device__ Product(const Node *a, const Node *b) : a(a), b(b) {}
  __device__ int value(int x) const override { return a->value(x) * b->value(x - 1); }
};

// A tree of objects, whose functions call each other through registers.
__global__ void trees(int *y) {
  const int t = threadIdx.x;
  Variable x;
  Sum sum(&x, &x);
  Product product(&sum, &x), square(&product, &product);
  Sum whole(&square, &product);
  const Node *roots[4] = {&whole, &square, &sum, &x};
  y[t] = roots[t & 3]->value(t);
}

__device__ __noinline__ int endless_calls(int n) { return n < 0 ? 0 : endless_calls(n + 1) * 3 + n; }
__global__ void too_deep(int *y, int from) { y[threadIdx.x] = endless_calls(from); }

// Memory of the stack, of another size in each thread.
__global__ void on_the_stack(int *y, int n) {
  const int t = threadIdx.x;
  int sum = 0;
  for (int k = 0; k < 2; k++) {
    int *own = (int *)alloca(4 * (n + t));
    for (int i = 0; i < n + t; i++) own[i] = i * t + k;
    for (int i = 0; i < n + t; i++) sum += own[i];
  }
  y[t] = sum;
}
