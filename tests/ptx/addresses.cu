// Addresses: what every launch has in common of them (holds_*), what is left of them for others (leaves_*), and numbers
// that depend on where memory lies (differs_*).
#include <cstdint>

#define KERNEL extern "C" __global__ void
#define T threadIdx.x

struct Node {
    Node *next;
    long key;
};
struct Range {
    int *begin, *end;
};
typedef int (*Function)(int);
__device__ int plus_one(int x) { return x + 1; }
__device__ int twice(int x) { return x * 2; }
__device__ Function functions[2] = {plus_one, twice};
__device__ int left[64], right[64];
__constant__ int numbers[8] = {1, 2, 3, 4, 5, 6, 7, 8};
__device__ unsigned window(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

KERNEL holds_end(int *o, int n) {
    int *end = o + n;
    for (int *p = o + T; p < end; p += blockDim.x) *p = 1;
}
KERNEL holds_distance(int *o, int n) { o[T] = (int)(o + T * n - o); }
KERNEL holds_null(int *o, int *a) { o[T] = a ? a[T] : 0; }
KERNEL holds_equal(int *o, int *a) {
    if (a != o) o[T] = a[T];
}
KERNEL holds_alignment(int *o) {
    if (((uintptr_t)o & 15) == 0) reinterpret_cast<int2 *>(o)[T] = make_int2(1, 2);
    else o[T] = 1;
}
KERNEL holds_list(int *o) {
    __shared__ Node nodes[64];
    nodes[T].key = T;
    nodes[T].next = T < 63 ? &nodes[T + 1] : nullptr;
    __syncthreads();
    long sum = 0;
    for (Node *p = &nodes[T]; p; p = p->next) sum += p->key > 5 ? p->key : 0;
    o[T] = sum;
}
KERNEL holds_global_list(int *o, Node *nodes) {
    nodes[T].key = T;
    nodes[T].next = T < 63 ? &nodes[T + 1] : nullptr;
    __syncthreads();
    long sum = 0;
    for (Node *p = &nodes[T]; p; p = p->next) sum += p->key > 5 ? p->key : 0;
    o[T] = sum;
}
KERNEL holds_table(int *o, int *a, int *b) {
    __shared__ int *table[2];
    if (T == 0) table[0] = a, table[1] = b;
    __syncthreads();
    o[T] = table[T & 1][T];
}
KERNEL holds_calls(int *o) {
    Function f = functions[T & 1];
    o[T] = f == plus_one ? 3 : f(T);
}
KERNEL holds_swizzle(int *o) {
    extern __shared__ __align__(1024) char room[];
    const unsigned base = (window(room) + 1023) & ~1023u;
    unsigned to = base + T * 16, from = base + (63 - T) * 16;
    to ^= (to & 0x380) >> 3;
    from ^= (from >> 3) & 0x70;
    int value;
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(T) : "memory");
    __syncthreads();
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(from) : "memory");
    o[T] = value;
}
KERNEL holds_multiple(int *o) {
    extern __shared__ __align__(1024) char room[];
    if (window(room) % 1024) __trap();
    room[T] = T;
    o[T] = room[T];
}
KERNEL holds_space(int *o) {
    __shared__ int s[64];
    s[T] = T;
    o[T] = __isShared(T & 1 ? s : o) ? s[T] : 5;
}
KERNEL holds_choice(int *o, int *a, int *b, int k) {
    int *p = k ? a : b;
    for (int i = 0; i < 4; ++i) o[T] += p[T + i];
}
KERNEL holds_mbarriers(int *o) {
    __shared__ uint64_t bars[4];
    const unsigned at = window(bars);
    if (T < 4) asm volatile("mbarrier.init.shared.b64 [%0], 64;" ::"r"(at + T * 8));
    __syncthreads();
    for (int i = 0; i < 4; ++i) {
        asm volatile("{.reg .b64 t; mbarrier.arrive.shared.b64 t, [%0];}" ::"r"(at + i * 8) : "memory");
        asm volatile("{.reg .pred p; W: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @!p bra W;}" ::"r"(at + i * 8)
                     : "memory");
    }
    o[T] = 1;
}
KERNEL holds_halves(int *o) {
    const uint64_t a = (uint64_t)(o + T);
    const uint32_t low = __shfl_xor_sync(~0u, (uint32_t)a, 1), high = __shfl_xor_sync(~0u, (uint32_t)(a >> 32), 1);
    *(int *)((uint64_t)high << 32 | low) = T;
}
KERNEL holds_exchange(int *o, unsigned long long *heads, Node *nodes) {
    nodes[T].key = 1;
    atomicExch(heads + T, (unsigned long long)&nodes[T]);
    o[T] = ((Node *)heads[T])->key;
}
KERNEL holds_search(int *o, int *keys, int n) {
    int *low = keys, *high = keys + n;
    while (low < high) {
        int *middle = low + (high - low) / 2;
        if (*middle < (int)T) low = middle + 1;
        else high = middle;
    }
    o[T] = low - keys;
}
KERNEL holds_range(int *o, Range r) {
    for (int *p = r.begin + T; p < r.end; p += 64) *p = T;
    o[T] = 2;
}
KERNEL holds_local(int *o) {
    int room[8], *p = room, sum = 0;
    for (int i = 0; i < 8; ++i) *p++ = i + T;
    for (int *q = room; q < p; ++q) sum += *q;
    o[T] = sum;
}
KERNEL holds_two_buffers(int *o) {
    __shared__ int a[64], b[64];
    int *x = a, *y = b;
    x[T] = T;
    __syncthreads();
    for (int i = 0; i < 3; ++i) {
        y[T] = x[63 - T];
        __syncthreads();
        int *before = x;
        x = y, y = before;
    }
    o[T] = x[T];
}
KERNEL holds_blocks(int *o) {
    Node *head = nullptr;
    for (int i = 0; i < 4; ++i) {
        Node *made = new Node;
        made->next = head, made->key = i, head = made;
    }
    int sum = 0;
    while (head) {
        sum += head->key;
        Node *next = head->next;
        delete head;
        head = next;
    }
    o[T] = sum;
}

struct Item {
    int *p;
    long long n;
};
KERNEL holds_floats_beside(int *o, int n) {
    double weights[4];
    int *of[4], values[4];
    for (int i = 0; i < n / 16; ++i) weights[i] = i, values[i] = i, of[i] = &values[(i + T) & 3];
    double sum = 0;
    for (int i = 0; i < n / 16; ++i) sum += weights[*of[i]];
    o[T] = (int)sum;
}

KERNEL leaves_table(int **table, int *a, int *b) { table[T] = T & 1 ? a + T : b + T; }
KERNEL leaves_items(Item *items, int *a) { items[T] = Item{a + T, T}; }
KERNEL leaves_links(Node *nodes) { nodes[T].next = &nodes[(T + 1) & 63]; }
KERNEL leaves_constant(unsigned long long *o) { o[T] = (unsigned long long)&numbers[T & 7]; }
KERNEL leaves_itself(unsigned long long *o) { o[T] = (unsigned long long)o; }

KERNEL differs_order(int *o, int *a) {
    if (a < o) o[T] = 1;
    else o[T] = 2;
}
KERNEL differs_choice(int *o, int *a) { o[T] = a < o ? 1 : 2; }
KERNEL differs_distance(int *o, int *a) { o[T] = (int)(o - a); }
KERNEL differs_far(int *o, int *a) {
    if (o - a > 100) o[T] = 1;
}
KERNEL differs_half(int *o) { o[T] = (int)(uintptr_t)o; }
KERNEL differs_index(int *o, int *a) { atomicAdd(o + (((uintptr_t)a >> 9) & 63), 1); }
KERNEL differs_hash(int *o) { o[T] = ((uintptr_t)o * 2654435761u >> 7) & 3; }
KERNEL differs_high(int *o) {
    if ((uintptr_t)o & 0x1000) o[T] = 1;
}
KERNEL differs_float(float *o, int *a) { o[T] = (float)(uintptr_t)a; }
KERNEL differs_least(int *o, int *a) {
    int *p = a < o ? a : o;
    p[T] = 1;
}
KERNEL differs_turned(int *o, int *a, int *b) {
    int *p = a, *q = b;
    for (int i = 0; i < (int)T; ++i) {
        int *before = p;
        p = q, q = before;
    }
    if (p < q) o[T] = 1;
}
KERNEL differs_in_memory(int *o, int *a, int *b) {
    __shared__ int *table[2];
    if (T == 0) table[0] = a, table[1] = b;
    __syncthreads();
    int *volatile *t = table;
    if (t[0] < t[1]) o[T] = 1;
    else o[T] = 2;
}
KERNEL differs_by_shared(int *o, int *a) {
    __shared__ int s[64];
    s[T] = (int)((uintptr_t)a >> 8);
    __syncthreads();
    o[T] = s[63 - T];
}
KERNEL differs_ballot(int *o, int *a) { o[T] = __ballot_sync(~0u, a < o); }
KERNEL differs_range(int *o, Range r) {
    o[T] = r.begin < r.end;
    r.begin[T] = 1;
}
KERNEL differs_variables(int *o) {
    o[T] = left < right;
    left[T] = 1, right[T] = 2;
}
KERNEL differs_function(unsigned long long *o) { o[T] = (unsigned long long)functions[T & 1]; }
KERNEL differs_functions(int *o) {
    if ((uintptr_t)functions[0] < (uintptr_t)functions[1]) o[T] = 1;
    else o[T] = functions[0](1);
}
KERNEL differs_local(int *o) {
    volatile int x[4];
    x[T & 3] = 1;
    o[T] = (int)(uintptr_t)&x[1];
}
KERNEL differs_shared(int *o) {
    __shared__ int s[64];
    s[T] = 1;
    if (window(s) > 100) o[T] = s[T];
}
KERNEL differs_shared_index(int *o) {
    __shared__ int s[64];
    s[T] = 1;
    atomicAdd(o + ((window(s) >> 2) & 63), s[T]);
}
KERNEL differs_shared_value(int *o) {
    __shared__ int s[64];
    s[T] = 1;
    o[T] = window(s) + s[T];
}
KERNEL differs_generic(unsigned long long *o) {
    __shared__ int s[64];
    s[T] = 1;
    o[T] = (unsigned long long)&s[T] + s[T];
}
KERNEL differs_two_shared(int *o, int k) {
    __shared__ int a[64], b[64];
    a[T] = b[T] = 1;
    o[T] = ((uintptr_t)(k ? a : b) < (uintptr_t)(k ? b : a)) + (k ? a : b)[T];
}
KERNEL differs_mapped(int *o) {
    __shared__ int s[64];
    s[T] = 1;
    unsigned there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(window(s)), "r"(0));
    o[T] = there + s[T];
}
KERNEL differs_block(int *o) {
    int *p = new int[4];
    p[0] = 1;
    o[T] = (p < (int *)o) + p[0];
    delete[] p;
}
KERNEL differs_block_order(int *o) {
    int *p = new int[4];
    p[0] = T;
    if (p < o) o[T] = p[0];
    delete[] p;
}
KERNEL differs_sorted(int *o, int *a, int *b) {
    int *p[2] = {a, b};
    if (p[0] > p[1]) p[0] = b, p[1] = a;
    o[T] = p[0][T];
}
KERNEL differs_bucket(int *o, int *a) {
    unsigned long long h = (unsigned long long)(a + T);
    h ^= h >> 33, h *= 0xff51afd7ed558ccdull, h ^= h >> 33;
    atomicAdd(o + (h & 63), 1);
}
KERNEL differs_least_number(int *o, int *a, int *b) { o[T] = min((unsigned long long)a, (unsigned long long)b) == (unsigned long long)a; }
KERNEL differs_remainder(int *o, int *a) { o[T] = (uintptr_t)a % 61; }
KERNEL differs_turned_bits(unsigned long long *o, int *a) { o[T] = (uintptr_t)a ^ 0x9E3779B97F4A7C15ull; }
KERNEL differs_two_turned(unsigned long long *o, int *a, int *b) { o[T] = (uintptr_t)a ^ (uintptr_t)b; }
KERNEL differs_sum(unsigned long long *o, int *a, int *b) { o[T] = (uintptr_t)a + (uintptr_t)b; }
KERNEL differs_three_ways(int *o, int *a, int *b) { o[T] = a < b ? -1 : a > b; }
KERNEL differs_between(int *o, int *a, int *b) { o[T] = o >= a && o < b; }
KERNEL differs_atomic_order(unsigned long long *o, int *a, int *b) { atomicMin(o, (unsigned long long)(T & 1 ? a : b)); }
KERNEL differs_half_in_shared(int *o, int *a) {
    __shared__ unsigned long long s[64];
    s[T] = (unsigned long long)a;
    __syncthreads();
    o[T] = ((unsigned *)s)[2 * (63 - T)];
}
KERNEL differs_half_in_global(int *o, unsigned long long *g, int *a) {
    g[T] = (unsigned long long)a;
    __syncthreads();
    o[T] = ((unsigned *)g)[2 * (63 - T)];
}
KERNEL differs_half_in_local(int *o, int *a) {
    volatile uint64_t x = (uint64_t)a;
    volatile uint32_t *h = (volatile uint32_t *)&x;
    o[T] = h[0] ^ h[1];
}
KERNEL differs_loop(int *o, int *a) {
    const int n = (uintptr_t)(a + o[0]) >> 10 & 3;
    for (int i = 0; i < n; ++i) o[T + 1] += i;
}
