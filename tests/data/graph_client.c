/* A program on the runtime, for tests: graphs that are made node by node. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
typedef struct { unsigned x, y, z; } Dim3;
typedef struct { void *function; Dim3 grid, block; unsigned shared; void **arguments, **extra; } Kernel;
typedef struct { uint64_t handle; int type; unsigned size; void **bodies; } Conditional;
typedef struct { int type, reserved[3]; union { long long words[29]; Kernel kernel; Conditional conditional; }; long long reserved2; } Node;
typedef struct { char pool[88]; void *access; size_t count, bytes; void *address; } Memory;
int cudaLibraryLoadFromFile(void **, const char *, int *, void **, unsigned, int *, void **, unsigned), cudaLibraryGetKernel(void **, void *, const char *);
int cudaMalloc(void **, size_t), cudaMemset(void *, int, size_t), cudaMemcpy(void *, const void *, size_t, int), cudaFree(void *), cudaDeviceSynchronize(void);
int cudaGraphCreate(void **, unsigned), cudaGraphConditionalHandleCreate(uint64_t *, void *, unsigned, unsigned), cudaGraphInstantiate(void **, void *, unsigned long long), cudaGraphLaunch(void *, void *);
int cudaGraphAddNode(void **, void *, void **, const void *, size_t, Node *), cudaGraphAddKernelNode(void **, void *, void **, size_t, const Kernel *), cudaGraphAddMemAllocNode(void **, void *, void **, size_t, Memory *), cudaGraphAddMemFreeNode(void **, void *, void **, size_t, void *);
int cudaGraphExecKernelNodeSetParams(void *, void *, const Kernel *), cudaGraphNodeSetEnabled(void *, void *, unsigned), cudaGraphExecUpdate(void *, void *, void *), cudaStreamCreate(void **), cudaStreamBeginCaptureToGraph(void *, void *, void *, void *, size_t, int), cudaStreamEndCapture(void *, void **);
int cudaLaunchKernel_ptsz(void *, Dim3, Dim3, void **, size_t, void *), cudaLaunchKernel(void *, Dim3, Dim3, void **, size_t, void *);
static int step(const char *what, int result) {
    if (result) printf("%s %d\n", what, result);
    return result;
}
int main(int count, char **words) {
    void *library, *add, *decide, *graph, *exec, *node, *x, *update[3], *stream;
    if (count < 3 || cudaLibraryLoadFromFile(&library, words[1], 0, 0, 0, 0, 0, 0)) return 9;
    const char *what = words[2];
    cudaLibraryGetKernel(&add, library, "add");
    cudaLibraryGetKernel(&decide, library, "decide");
    cudaMalloc(&x, 4);
    cudaMemset(x, 0, 4);
    if (!strcmp(what, "per thread") || !strcmp(what, "legacy")) { /* the default stream, as in a program of `--default-stream per-thread` */
        Dim3 single = {1, 1, 1};
        unsigned increment = 1;
        void *adds[] = {&x, &increment};
        cudaStreamCreate(&stream);
        cudaDeviceSynchronize();
        step("launch", cudaLaunchKernel(add, single, single, adds, 0, stream));
        step("launch", (!strcmp(what, "legacy") ? cudaLaunchKernel : cudaLaunchKernel_ptsz)(add, single, single, adds, 0, NULL));
        step("launch", cudaLaunchKernel(add, single, single, adds, 0, NULL));
        return 0;
    }
    step("create", cudaGraphCreate(&graph, 0));
    uint64_t handle = 0;
    unsigned limit = 3, one = 1, two = 2;
    void *deciding[] = {&x, &handle, &limit}, *adding[] = {&x, &one}, *more[] = {&x, &two};
    Kernel kernel = {add, {1, 1, 1}, {1, 1, 1}, 0, adding, 0};
    if (!strcmp(what, "while") || !strcmp(what, "switch") || !strcmp(what, "captured")) {
        int is_switch = !strcmp(what, "switch");
        step("handle", cudaGraphConditionalHandleCreate(&handle, graph, is_switch ? 1 : 1, 1));
        Node parameters = {.type = 13, .conditional = {handle, is_switch ? 2 : 1, is_switch ? 2 : 1, 0}};
        step("node", cudaGraphAddNode(&node, graph, 0, 0, 0, &parameters));
        kernel.function = decide;
        kernel.arguments = deciding;
        if (!strcmp(what, "captured")) {
            cudaStreamCreate(&stream);
            step("begin", cudaStreamBeginCaptureToGraph(stream, parameters.conditional.bodies[0], 0, 0, 0, 0));
            step("launch", cudaLaunchKernel(decide, kernel.grid, kernel.block, deciding, 0, stream));
            step("end", cudaStreamEndCapture(stream, 0));
        } else {
            Node inner = {.type = 0, .kernel = kernel};
            step("inner", cudaGraphAddNode(&node, parameters.conditional.bodies[is_switch], 0, 0, 0, &inner));
        }
    } else if (!strcmp(what, "memory")) {
        Memory memory = {.bytes = 4};
        void *first, *second;
        step("allocate", cudaGraphAddMemAllocNode(&first, graph, 0, 0, &memory));
        void *inside[] = {&memory.address, &one};
        kernel.arguments = inside;
        step("kernel", cudaGraphAddKernelNode(&second, graph, &first, 1, &kernel));
        step("free", cudaGraphAddMemFreeNode(&node, graph, &second, 1, memory.address));
    } else {
        step("kernel", cudaGraphAddKernelNode(&node, graph, 0, 0, &kernel));
    }
    step("instantiate", cudaGraphInstantiate(&exec, graph, 0));
    step("launch", cudaGraphLaunch(exec, 0));
    kernel.arguments = more;
    if (!strcmp(what, "parameters")) step("parameters", cudaGraphExecKernelNodeSetParams(exec, node, &kernel));
    if (!strcmp(what, "disabled")) step("disable", cudaGraphNodeSetEnabled(exec, node, 0));
    if (!strcmp(what, "update")) {
        cudaGraphCreate(&graph, 0);
        step("kernel", cudaGraphAddKernelNode(&node, graph, 0, 0, &kernel));
        step("update", cudaGraphExecUpdate(exec, graph, update));
    }
    step("launch", cudaGraphLaunch(exec, 0));
    cudaDeviceSynchronize();
    unsigned result = 99;
    step("copy", cudaMemcpy(&result, x, 4, 2));
    printf("x = %u\n", result);
    return 0;
}
