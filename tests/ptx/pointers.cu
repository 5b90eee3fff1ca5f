// Pointers in memory: in arrays, structures and bytes (tests/unit/test_addresses_in_memory.py).  holds_*: what every
// launch has in common of them; leaves_*: what is left of them for others; differs_*: numbers that depend on where memory
// lies.
#include <cstdint>
#include <cstring>

#define KERNEL extern "C" __global__ void
#define T threadIdx.x

struct Item {
    int *p;
    long long n;
};
struct Three {
    int *p;
    long long n, m;
};

KERNEL holds_item(int *o, int *a, int n) {
    Item x{a, n}, y[2] = {x, x};
    o[T] = y[T & 1].n + y[(T + 1) & 1].p[T];
}
KERNEL holds_numbers_beside(int *o, int *a, int n) {
    Three x[2] = {{a, n, n + 1}, {o, 2, 3}};
    int s = 0;
    for (int i = 0; i < n; ++i) s += x[i & 1].n + x[(i + T) & 1].p[T];
    if (s != 77) o[T] = s;
}
KERNEL holds_shared_items(int *o, int *a, int n) {
    __shared__ Three x[64];
    x[T] = Three{a + T, n, T};
    __syncthreads();
    Three y = x[63 - T];
    o[T] = *y.p + y.n + y.m;
}
KERNEL holds_bytes_beside(int *o, int *a, int n) {
    int *p = a + T;
    unsigned char buffer[16];
    for (int i = 0; i < 16; ++i) buffer[i] = i + n;
    int s = 0;
    for (int i = 0; i < n; ++i) s += buffer[i & 15];
    o[T] = s + *p;
}
KERNEL holds_turned_twice(int *o, int *a) {
    int *p = a + T, *q;
    unsigned char b[8];
    memcpy(b, &p, 8);
    for (int k = 0; k < 2; ++k)
        for (int i = 0; i < 4; ++i) {
            unsigned char t = b[i];
            b[i] = b[7 - i];
            b[7 - i] = t;
        }
    memcpy(&q, b, 8);
    o[T] = *q;
}
KERNEL leaves_item(Item *items, int *a, int n) {
    Item x;
    x.p = a + T;
    x.n = n;
    items[T] = x;
}
KERNEL leaves_three(Three *items, int *a, int n) {
    Three x{a + T, n, n + 1};
    items[T] = x;
}
KERNEL differs_sorted(int *o, int *a, int *b) {
    int *p[3] = {a, o, b};
    for (int i = 0; i < 3; ++i)
        for (int j = i + 1; j < 3; ++j)
            if (p[j] < p[i]) {
                int *t = p[i];
                p[i] = p[j];
                p[j] = t;
            }
    o[T] = p[0] == a;
}
KERNEL differs_inserted(int *o, int *a, int *b) {
    int *p[3] = {a, o, b};
    for (int i = 1; i < 3; ++i) {
        int *x = p[i];
        int j = i;
        for (; j > 0 && x < p[j - 1]; --j) p[j] = p[j - 1];
        p[j] = x;
    }
    o[T] = p[0] == a;
}
KERNEL differs_bytes(int *o, int *a, int *b) {
    unsigned char x[8], y[8];
    memcpy(x, &a, 8);
    memcpy(y, &b, 8);
    int less = 0;
    for (int i = 7; i >= 0; --i)
        if (x[i] != y[i]) {
            less = x[i] < y[i];
            break;
        }
    o[T] = less;
}
KERNEL differs_sum_of_bytes(int *o, int *a) {
    unsigned char x[8];
    memcpy(x, &a, 8);
    int sum = 0;
    for (int i = 0; i < 8; ++i) sum += x[i];
    o[T] = sum;
}
KERNEL differs_union(int *o, int *a) {
    union {
        int *p;
        unsigned short s[4];
    } u;
    u.s[T & 3] = 1;
    u.p = a;
    o[T] = u.s[T & 3];
}
KERNEL differs_items(int *o, int *a) {
    Item y[2] = {{o, 2}, {a, 3}};
    o[T] = y[T & 1].p < y[(T + 1) & 1].p;
}
