// One wgmma of 64 rows and 8 columns a CTA, operands in rows of 32 bytes, without a swizzle; and one of 64 columns.
#include <cstdint>
typedef uint32_t u32;
typedef uint64_t u64;
typedef uint8_t u8;

__device__ u32 place(const void *p) { return (u32)__cvta_generic_to_shared(p); }
__device__ u64 descriptor(u32 at, u32 leading, u32 stride, u32 swizzle) {
    return (u64)((at & 0x3FFFF) >> 4) | ((u64)(leading >> 4) << 16) | ((u64)(stride >> 4) << 32) | ((u64)swizzle << 62);
}
#define FENCE asm volatile("wgmma.fence.sync.aligned;" ::: "memory")
#define COMMIT asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory")
#define WAIT(n) asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(n) : "memory")
#define LIST4 "{%0, %1, %2, %3}"
#define LIST2 "{%0, %1}"

// rows of 32 bytes as groups of 8 rows of 16 bytes: 128 bytes to the next 16 of k, 256 to the next 8 rows
__device__ void put(u8 *to, const u8 *from, int rows) {
    for (int i = threadIdx.x; i < rows * 32; i += 128) {
        int r = i / 32, c = i % 32;
        to[r / 8 * 256 + c / 16 * 128 + r % 8 * 16 + c % 16] = from[i];
    }
}

#define TILE(NAME, SHAPE, TYPES, TAIL_S, TAIL_R) \
    extern "C" __global__ void __launch_bounds__(128) NAME(const u8 *a, const u8 *b, const float *c, float *d, int in_registers) { \
        __shared__ __align__(1024) u8 of_a[64 * 32], of_b[8 * 32]; \
        int t = threadIdx.x, g = t / 4 % 8, q = t % 4, row = 16 * (t / 32) + g; \
        a += blockIdx.x * 2048; b += blockIdx.x * 256; c += blockIdx.x * 512; d += blockIdx.x * 512; \
        put(of_a, a, 64); put(of_b, b, 8); \
        asm volatile("fence.proxy.async;" ::: "memory"); \
        __syncthreads(); \
        float s[4]; \
        for (int i = 0; i < 4; i++) s[i] = c[(row + i / 2 * 8) * 8 + 2 * q + i % 2]; \
        u64 da = descriptor(place(of_a), 128, 256, 0), db = descriptor(place(of_b), 128, 256, 0); \
        u32 r[4]; \
        for (int i = 0; i < 4; i++) r[i] = *(const u32 *)(a + (row + i % 2 * 8) * 32 + i / 2 * 16 + 4 * q); \
        FENCE; \
        if (in_registers) \
            asm volatile("wgmma.mma_async.sync.aligned." SHAPE "." TYPES " " LIST4 ", {%4, %5, %6, %7}, %8, 1" TAIL_R ";" \
                : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3]) : "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "l"(db)); \
        else \
            asm volatile("wgmma.mma_async.sync.aligned." SHAPE "." TYPES " " LIST4 ", %4, %5, 1" TAIL_S ";" \
                : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3]) : "l"(da), "l"(db)); \
        COMMIT; \
        WAIT(0); \
        for (int i = 0; i < 4; i++) d[(row + i / 2 * 8) * 8 + 2 * q + i % 2] = s[i]; \
    }
TILE(f16, "m64n8k16", "f32.f16.f16", ", 1, 1, 0, 0", ", 1, 1, 0")
TILE(bf16, "m64n8k16", "f32.bf16.bf16", ", 1, 1, 0, 0", ", 1, 1, 0")
TILE(tf32, "m64n8k8", "f32.tf32.tf32", ", 1, 1", ", 1, 1")
TILE(e4m3, "m64n8k32", "f32.e4m3.e4m3", ", 1, 1", ", 1, 1")

// a 64 x 64 x 64 product of f16, both operands with rows of 128 bytes and that swizzle; -a b, then + a b twice
extern "C" __global__ void __launch_bounds__(128) swizzled(const u8 *a, const u8 *b, float *d, int mode) {
    __shared__ __align__(1024) u8 of_a[64 * 128], of_b[64 * 128];
    int t = threadIdx.x, g = t / 4 % 8, q = t % 4, row = 16 * (t / 32) + g;
    for (int i = t; i < 64 * 128; i += 128) {
        int to = i ^ ((i >> 7 & 7) << 4);
        of_a[to] = a[i];
        of_b[to] = b[i];
    }
    if (mode != 1) asm volatile("fence.proxy.async;" ::: "memory");
    if (mode != 2) __syncthreads();
    float s[32];
    for (int i = 0; i < 32; i++) s[i] = 1;
    u64 da = descriptor(place(of_a), 0, 1024, 1), db = descriptor(place(of_b), 0, 1024, 1);
    FENCE;
    for (int k = 0; k < 8; k++) {
        asm volatile("{ .reg .pred p; setp.ne.u32 p, %34, 0;\n"
            "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
            "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,"
            "%29,%30,%31}, %32, %33, p, 1, 1, 0, 0; }"
            : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3]), "+f"(s[4]), "+f"(s[5]), "+f"(s[6]), "+f"(s[7]), "+f"(s[8]),
              "+f"(s[9]), "+f"(s[10]), "+f"(s[11]), "+f"(s[12]), "+f"(s[13]), "+f"(s[14]), "+f"(s[15]), "+f"(s[16]),
              "+f"(s[17]), "+f"(s[18]), "+f"(s[19]), "+f"(s[20]), "+f"(s[21]), "+f"(s[22]), "+f"(s[23]), "+f"(s[24]),
              "+f"(s[25]), "+f"(s[26]), "+f"(s[27]), "+f"(s[28]), "+f"(s[29]), "+f"(s[30]), "+f"(s[31])
            : "l"(da + 2 * (k % 4)), "l"(db + 2 * (k % 4)), "r"(k));
    }
    COMMIT;
    if (mode == 3) of_b[t] = 0;
    WAIT(0);
    if (mode == 4) of_b[t] = 0;
    for (int i = 0; i < 32; i++) d[(row + i / 2 % 2 * 8) * 64 + i / 4 * 8 + 2 * q + i % 2] = s[i];
    if (mode == 5) {
        __syncthreads();
        of_b[t] = 0;
    }
}

// one wgmma of 64 x 8 x 16 with given descriptors (but for their start, in 16 bytes) of 16 KiB
#define DESCRIBED(NAME, TAIL) \
    extern "C" __global__ void __launch_bounds__(128) NAME(const u32 *x, float *d, u64 a, u64 b, int warps) { \
        __shared__ __align__(1024) u32 all[4096]; \
        int t = threadIdx.x, g = t / 4 % 8, q = t % 4, row = 16 * (t / 32) + g; \
        for (int i = t; i < 4096; i += 128) all[i] = x[i]; \
        asm volatile("fence.proxy.async;" ::: "memory"); \
        __syncthreads(); \
        float s[4] = {0, 0, 0, 0}; \
        u64 start = place(all) >> 4; \
        if (t < 32 * warps) { \
            FENCE; \
            asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 " LIST4 ", %4, %5, 0, 1, -1, " TAIL ";" \
                : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3]) : "l"(a + start), "l"(b + start)); \
            COMMIT; \
            WAIT(0); \
        } \
        for (int i = 0; i < 4; i++) d[(row + i / 2 * 8) * 8 + 2 * q + i % 2] = s[i]; \
    }
DESCRIBED(rows, "0, 0")
DESCRIBED(columns, "1, 1")
