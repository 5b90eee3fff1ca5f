// Pointers that the host stores, passes by value and keeps in variables: launches in a DeviceMemory
// (tests/unit/test_device_memory.py).

struct Node {
    Node *next;
    int value;
};

struct Two {
    int *to;
    const int *from;
    int n;
};

struct Command {
    int op, k;
};

__device__ int *kept;
__device__ int values[4] = {1, 2, 3, 4};
__device__ int *third = values + 2;
__constant__ int scale[2] = {10, 20};

extern "C" __global__ void sum_table(const int *const *table, int n, int *out) {
    int i = threadIdx.x, sum = 0;
    for (int k = 0; k < n; ++k)
        sum += table[k][i];
    out[i] = sum;
}

extern "C" __global__ void scatter(int *const *table, int n) {
    for (int k = 0; k < n; ++k)
        table[k][threadIdx.x] = threadIdx.x * k;
}

extern "C" __global__ void link_nodes(Node *nodes, int n) {
    int i = threadIdx.x;
    if (i < n) {
        nodes[i].next = i + 1 < n ? nodes + i + 1 : nullptr;
        nodes[i].value = i * i;
    }
}

extern "C" __global__ void walk(const Node *node, int *out) {
    int sum = 0;
    for (; node; node = node->next)
        sum += node->value;
    if (threadIdx.x == 0)
        *out = sum;
}

extern "C" __global__ void keep(int *x) {
    if (threadIdx.x == 0)
        kept = x;
}

extern "C" __global__ void use() { kept[threadIdx.x] = threadIdx.x + 1; }

extern "C" __global__ void read_third(int *out) { *out = *third; }

extern "C" __global__ void scaled(int *out, int n) { out[threadIdx.x] = scale[n & 1] * values[threadIdx.x]; }

extern "C" __global__ void two(Two t) {
    int i = threadIdx.x;
    if (i < t.n)
        t.to[i] = t.from[i] + 1;
}

extern "C" __global__ void copy(int *to, const int *from, int n) {
    int i = threadIdx.x;
    if (i < n)
        to[i] = from[i];
}

extern "C" __global__ void count(int *const *counters, int n) { atomicAdd(counters[threadIdx.x % n], 1); }

// One thread follows, moves and stores pointers as it is told.
extern "C" __global__ void run(long long *p, const Command *commands, int n, long long *out) {
    long long sum = 0;
    for (int i = 0; i < n; ++i) {
        int k = commands[i].k;
        switch (commands[i].op) {
        case 0: p = *(long long **)p; break;
        case 1: p += k; break;
        case 2: sum += *p; break;
        case 3: *p = sum; break;
        case 4: *(long long **)p = p + k; break;
        }
    }
    *out = sum;
}

// The CTA that comes last adds up what the others have stored.
extern "C" __global__ void last(int *const *table, int *out) {
    int *counter = table[0], *slots = table[1], sum = 0;
    slots[blockIdx.x] = blockIdx.x + 1;
    __threadfence();
    if (atomicAdd(counter, 1) == gridDim.x - 1) {
        __threadfence();
        for (int i = 0; i < gridDim.x; ++i)
            sum += slots[i];
        *out = sum;
    }
}

extern "C" __global__ void spin(int *const *table, int n) {
    int *x = table[blockIdx.x];
    for (int i = 0; i < n; ++i)
        x[threadIdx.x + 32 * (i & 7)] += i;
}
