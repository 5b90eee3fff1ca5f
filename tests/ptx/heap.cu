// Kernels that allocate memory. Those behind the line are wrong, each in one way, or hang on where blocks lie.

struct Node {
    int value;
    Node *next;
};

struct Base {
    int k;
    __device__ virtual int f(int x) { return x; }
    __device__ virtual ~Base() {}
};

struct Derived : Base {
    __device__ int f(int x) override { return x + k; }
};

#define KERNEL extern "C" __global__ void
#define THREAD (blockIdx.x * blockDim.x + threadIdx.x)

KERNEL each(int *out, int n) {
    int *p = (int *)malloc(n * sizeof(int));
    if (p == nullptr) {
        out[THREAD] = -1;
        return;
    }
    for (int i = 0; i < n; i++) p[i] = THREAD + i;
    int sum = 0;
    for (int i = 0; i < n; i++) sum += p[i];
    out[THREAD] = sum;
    free(p);
}

KERNEL of_block(int *out) {
    __shared__ int *data;
    if (threadIdx.x == 0) data = (int *)malloc(blockDim.x * 16 * sizeof(int));
    __syncthreads();
    if (data == nullptr) return;
    for (int i = 0; i < 16; i++) data[i * blockDim.x + threadIdx.x] = threadIdx.x;
    __syncthreads();
    int sum = 0;
    for (int i = 0; i < 16; i++) sum += data[threadIdx.x * 16 + i];
    out[THREAD] = sum;
    __syncthreads();
    if (threadIdx.x == 0) free(data);
}

KERNEL list(int *out, int n) {
    Node *head = nullptr;
    for (int i = 0; i < n; i++) head = new Node{i * (int)THREAD, head};
    int sum = 0;
    while (head) {
        sum += head->value;
        Node *first = head;
        head = head->next;
        delete first;
    }
    out[THREAD] = sum;
}

KERNEL objects(int *out) {
    Base *b = threadIdx.x % 2 ? new Base : new Derived;
    b->k = threadIdx.x;
    out[THREAD] = b->f(10);
    delete b;
}

__device__ int depth(int n) {
    int *p = (int *)malloc(8);
    p[0] = n;
    int below = n > 0 ? depth(n - 1) : 0;
    below += p[0];
    free(p);
    return below;
}

KERNEL recursive(int *out) { out[THREAD] = depth(threadIdx.x % 4); }

KERNEL shared_by_lanes(int *out) {
    unsigned long long p = 0;
    if (threadIdx.x == 0) p = (unsigned long long)malloc(4 * 32);
    int *q = (int *)__shfl_sync(~0u, p, 0);
    q[threadIdx.x] = threadIdx.x;
    __syncwarp();
    out[THREAD] = q[31 - threadIdx.x];
    __syncwarp();
    if (threadIdx.x == 0) free(q);
}

KERNEL push(Node **head) {
    Node *node = (Node *)malloc(sizeof(Node));
    node->value = THREAD;
    node->next = (Node *)atomicExch((unsigned long long *)head, (unsigned long long)node);
}

KERNEL counted(int *out) {
    __shared__ int *total;
    if (threadIdx.x == 0) *(total = (int *)malloc(4)) = 0;
    __syncthreads();
    atomicAdd(total, threadIdx.x);
    __syncthreads();
    out[THREAD] = *total;
}

KERNEL aligned(int *out) {
    int4 *p = (int4 *)malloc(32);
    out[THREAD] = ((unsigned long long)p & 15) == 0;
    p[1] = make_int4(1, 2, 3, 4);
    out[THREAD] += p[1].w;
    free(p);
    free(nullptr);
}

KERNEL end(int *out) {
    int *p = (int *)malloc(64), sum = 0;
    for (int *q = p; q < p + 16; q++) *q = q - p;
    for (int *q = p; q < p + 16; q++) sum += *q;
    out[THREAD] = sum;
    free(p);
}

KERNEL huge(int *out) { out[THREAD] = malloc(1ull << 40) == nullptr; }

KERNEL many(int *out, int n, int bytes) {
    int got = 0;
    for (int i = 0; i < n; i++) got += malloc(bytes) != nullptr;
    out[THREAD] = got;
}

KERNEL again(int *out, int n, int bytes) {
    int got = 0;
    for (int i = 0; i < n; i++) {
        void *p = malloc(bytes);
        got += p != nullptr;
        free(p);
    }
    out[THREAD] = got;
}

KERNEL keep(int **slot) {
    *slot = (int *)malloc(16);
    **slot = 7;
}

KERNEL take(int **slot, int *out) { *out = **slot; }

// ---------------------------------------------------------------------------------------------------------------------
KERNEL used_after_free(int *out) {
    int *p = (int *)malloc(16);
    p[0] = 3;
    free(p);
    out[THREAD] = p[0];
}

KERNEL freed_twice(int *out) {
    int *p = (int *)malloc(16);
    p[0] = 3;
    out[THREAD] = p[0];
    free(p);
    free(p);
}

KERNEL beyond(int *out, int n) {
    int *p = (int *)malloc(4 * n);
    for (int i = 0; i <= n; i++) p[i] = i;
    out[THREAD] = p[n - 1];
    free(p);
}

KERNEL before(int *out) {
    int *p = (int *)malloc(16);
    p[-1] = 1;
    out[THREAD] = 1;
    free(p);
}

KERNEL unset(int *out) {
    int *p = (int *)malloc(16);
    out[THREAD] = p[1];
    free(p);
}

KERNEL freed_inside(int *out) {
    int *p = (int *)malloc(16);
    p[0] = 1;
    out[THREAD] = p[0];
    free(p + 1);
}

KERNEL freed_array(int *out) { free(out); }

KERNEL freed_early(int *out) {
    __shared__ int *data;
    if (threadIdx.x == 0) {
        data = (int *)malloc(64 * 4);
        for (int i = 0; i < 64; i++) data[i] = i;
    }
    __syncthreads();
    out[THREAD] = data[threadIdx.x];
    if (threadIdx.x == 0) free(data);
}

KERNEL raced(int *out) {
    __shared__ int *data;
    if (threadIdx.x == 0) data = (int *)malloc(4);
    __syncthreads();
    *data = threadIdx.x;
    out[THREAD] = 0;
}

KERNEL lower(int *out) {
    int *p = (int *)malloc(16), *q = (int *)malloc(16);
    out[THREAD] = p < q;
}

KERNEL apart(long long *out) {
    int *p = (int *)malloc(16), *q = (int *)malloc(16);
    out[THREAD] = p - q;
}

KERNEL hashed(unsigned long long *out) { out[THREAD] = (unsigned long long)malloc(16) % 31; }

KERNEL nothing(int *out) { out[THREAD] = malloc(0) == nullptr; }
