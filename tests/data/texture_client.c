/* A program on the driver API, for tests: an array of 4 x 2 floats as a texture and a surface. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
typedef unsigned long long Address;
typedef struct { size_t width, height; int format; unsigned channels; } Descriptor;
typedef struct { int type; union { void *array; struct { Address address; int format; unsigned channels; size_t bytes; } linear; int reserved[32]; }; unsigned flags; } Resource;
typedef struct { int modes[3], filter; unsigned flags, anisotropy; int mip; float bias, least, most, border[4]; int reserved[12]; } Texture;
typedef struct { size_t x, y; int type; void *host; Address device; void *array; size_t pitch; } End;
typedef struct { End from, to; size_t width, height; } Copy;
int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *), cuModuleLoad(void **, const char *), cuModuleGetFunction(void **, void *, const char *);
int cuMemAlloc_v2(Address *, size_t), cuMemcpyDtoH_v2(void *, Address, size_t), cuMemcpyHtoD_v2(Address, const void *, size_t), cuMemcpy2D_v2(const Copy *);
int cuArrayCreate_v2(void **, const Descriptor *), cuArrayDestroy(void *), cuTexObjectCreate(uint64_t *, const Resource *, const Texture *, const void *), cuTexObjectDestroy(uint64_t), cuSurfObjectCreate(uint64_t *, const Resource *), cuSurfObjectDestroy(uint64_t);
int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **), cuCtxSynchronize(void);
int main(int count, char **words) {
    void *context, *module, *fetch, *line, *store, *array;
    if (count < 3 || cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) || cuModuleLoad(&module, words[1])) return 9;
    const char *what = words[2];
    cuModuleGetFunction(&fetch, module, "fetch");
    cuModuleGetFunction(&line, module, "line");
    cuModuleGetFunction(&store, module, "put");
    Descriptor descriptor = {4, 2, 0x20, 1};
    float texels[8] = {0, 1, 2, 3, 10, 11, 12, 13}, out[8] = {0};
    printf("%d ", cuArrayCreate_v2(&array, &descriptor));
    Copy copy = {{0, 0, 1, texels, 0, NULL, 16}, {0, 0, 3, NULL, 0, array, 0}, 16, 2};
    if (strcmp(what, "unwritten")) printf("%d ", cuMemcpy2D_v2(&copy));
    Resource resource = {.array = array};
    Texture texture = {.modes = {1, 1, 1}};
    Address result, memory;
    cuMemAlloc_v2(&result, 32);
    cuMemAlloc_v2(&memory, 32);
    uint64_t handle = 0;
    if (!strcmp(what, "linear")) texture.filter = 1;
    if (!strcmp(what, "wrap")) texture.modes[0] = texture.modes[1] = 0, texture.flags = 2;
    if (!strcmp(what, "border")) texture.modes[0] = 3, texture.border[0] = 7;
    float x = !strcmp(what, "linear") ? 1.0f : !strcmp(what, "wrap") ? 0.25f : !strcmp(what, "border") ? 3.5f : -4, y = !strcmp(what, "wrap") ? 1.6f : 1.5f;
    void *arguments[] = {&handle, &result, &x, &y};
    if (!strcmp(what, "surface")) {
        printf("%d ", cuSurfObjectCreate(&handle, &resource));
        void *two[] = {&handle};
        printf("%d ", cuLaunchKernel(store, 1, 1, 1, 2, 1, 1, 0, NULL, two, NULL));
        Copy back = {{0, 0, 3, NULL, 0, array, 0}, {0, 0, 1, out, 0, NULL, 16}, 16, 2};
        printf("%d\n", cuMemcpy2D_v2(&back));
        printf("%g %g %g %g %g\n", out[0], out[1], out[2], out[4], out[5]);
        cuSurfObjectDestroy(handle);
        return 0;
    }
    if (!strcmp(what, "bytes")) {
        unsigned char bytes[32] = {0, 255, 51};
        cuMemcpyHtoD_v2(memory, bytes, 32);
        resource = (Resource){.type = 2, .linear = {memory, 1, 1, 32}};
        printf("%d ", cuTexObjectCreate(&handle, &resource, &texture, NULL));
        printf("%d ", cuLaunchKernel(line, 1, 1, 1, 3, 1, 1, 0, NULL, arguments, NULL));
    } else {
        printf("%d ", cuTexObjectCreate(&handle, &resource, &texture, NULL));
        if (!strcmp(what, "destroyed")) cuTexObjectDestroy(handle);
        printf("%d ", cuLaunchKernel(fetch, 1, 1, 1, 3, 1, 1, 0, NULL, arguments, NULL));
    }
    printf("%d\n", cuMemcpyDtoH_v2(out, result, 12));
    printf("%g %g %g\n", out[0], out[1], out[2]);
    return cuArrayDestroy(array);
}
