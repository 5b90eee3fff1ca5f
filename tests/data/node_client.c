/* A program on the driver, for tests: graphs made node by node, what a program asks about them, and what they own. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
typedef struct { void *function; unsigned grid[3], block[3], shared; void **arguments, **extra; void *kernel, *context; } Kernel;
typedef struct { uint64_t to; size_t pitch; unsigned value, element; size_t width, height; } Fill;
typedef struct { size_t x, y, z, level; int type; void *host; uint64_t device; void *array, *reserved; size_t pitch, height; } End;
typedef struct { End from, to; size_t width, height, depth; } Copy;
typedef struct { uint64_t handle; int type; unsigned size; void **bodies; } Conditional;
typedef struct { int type, reserved[3]; union { long long words[29]; Kernel kernel; Conditional conditional; }; long long reserved2; } Node;
typedef struct { int type, id; } Location;
int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *), cuModuleLoad(void **, const char *), cuModuleGetFunction(void **, void *, const char *);
int cuMemAlloc_v2(uint64_t *, size_t), cuMemAllocManaged(uint64_t *, size_t, unsigned), cuMemcpyDtoH_v2(void *, uint64_t, size_t), cuStreamCreate(void **, unsigned), cuStreamSynchronize(void *), cuEventCreate(void **, unsigned), cuEventQuery(void *);
int cuGraphCreate(void **, unsigned), cuGraphDestroy(void *), cuGraphExecDestroy(void *), cuGraphInstantiateWithFlags(void **, void *, unsigned long long), cuGraphLaunch(void *, void *), cuGraphAddDependencies(void *, void **, void **, size_t), cuGraphRemoveDependencies(void *, void **, void **, size_t);
int cuGraphAddKernelNode_v2(void **, void *, void **, size_t, Kernel *), cuGraphAddMemsetNode(void **, void *, void **, size_t, Fill *, void *), cuGraphAddMemcpyNode(void **, void *, void **, size_t, Copy *, void *), cuGraphAddEventRecordNode(void **, void *, void **, size_t, void *), cuGraphAddChildGraphNode(void **, void *, void **, size_t, void *), cuGraphAddEmptyNode(void **, void *, void **, size_t);
int cuGraphNodeGetType(void *, int *), cuGraphGetEdges(void *, void **, void **, size_t *), cuGraphNodeGetDependentNodes(void *, void **, size_t *), cuGraphGetNodes(void *, void **, size_t *), cuGraphDestroyNode(void *), cuGraphKernelNodeGetParams_v2(void *, Kernel *), cuGraphExecUpdate_v2(void *, void *, void *), cuGraphExecKernelNodeSetParams_v2(void *, void *, Kernel *);
int cuUserObjectCreate(void **, void *, void (*)(void *), unsigned, unsigned), cuGraphRetainUserObject(void *, void *, unsigned, unsigned), cuGraphConditionalHandleCreate(uint64_t *, void *, void *, unsigned, unsigned), cuGraphAddNode_v2(void **, void *, void **, void *, size_t, Node *), cuGraphAddMemAllocNode(void **, void *, void **, size_t, void *);
int cuMemAdvise_v2(uint64_t, size_t, int, Location), cuMemRangeGetAttribute(void *, size_t, int, uint64_t, size_t);
static int destroyed;
static void destroy(void *data) { destroyed += *(int *)data; }
#define CALL(call) do { int result = call; if (result) { printf("%s: %d\n", #call, result); return 3; } } while (0)
int main(int count, char **words) {
    void *context, *module, *add, *decide, *graph, *other, *exec, *nodes[8], *stream, *event, *object, *found[8], *from[8], *to[8], *body;
    uint64_t x, handle, managed;
    unsigned one = 1, limit = 3, value = 0, back = 0;
    int type, number = 7, update[6], asked[3];
    size_t many = 8;
    if (count < 2) return 9;
    CALL(cuInit(0)); CALL(cuDevicePrimaryCtxRetain(&context, 0)); CALL(cuCtxSetCurrent(context)); CALL(cuModuleLoad(&module, words[1]));
    CALL(cuModuleGetFunction(&add, module, "add")); CALL(cuModuleGetFunction(&decide, module, "decide"));
    CALL(cuMemAlloc_v2(&x, 4)); CALL(cuStreamCreate(&stream, 1)); CALL(cuEventCreate(&event, 0));
    /* x = 5; x += 1; a copy of x; the event; a child that adds 1 */
    CALL(cuGraphCreate(&graph, 0)); CALL(cuGraphCreate(&other, 0));
    Fill fill = {x, 0, 5, 4, 1, 1};
    void *adding[] = {&x, &one};
    Kernel kernel = {add, {1, 1, 1}, {1, 1, 1}, 0, adding, 0, 0, 0};
    Copy copy = {.from = {.type = 2, .device = x}, .to = {.type = 1, .host = &back}, .width = 4, .height = 1, .depth = 1};
    CALL(cuGraphAddMemsetNode(&nodes[0], graph, 0, 0, &fill, context));
    CALL(cuGraphAddKernelNode_v2(&nodes[1], graph, nodes, 1, &kernel));
    CALL(cuGraphAddMemcpyNode(&nodes[2], graph, &nodes[1], 1, &copy, context));
    CALL(cuGraphAddEventRecordNode(&nodes[3], graph, &nodes[2], 1, event));
    CALL(cuGraphAddKernelNode_v2(&body, other, 0, 0, &kernel));
    CALL(cuGraphAddChildGraphNode(&nodes[4], graph, &nodes[3], 1, other));
    CALL(cuGraphAddEmptyNode(&nodes[5], graph, 0, 0));
    CALL(cuGraphGetEdges(graph, 0, 0, &many)); printf("edges %zu\n", many);
    CALL(cuGraphGetEdges(graph, from, to, &many)); printf("first %d %d\n", from[0] == nodes[0], to[0] == nodes[1]);
    many = 8; CALL(cuGraphNodeGetDependentNodes(nodes[1], found, &many)); printf("dependent %zu %d\n", many, found[0] == nodes[2]);
    CALL(cuGraphNodeGetType(nodes[4], &type)); printf("type %d\n", type);
    CALL(cuGraphDestroyNode(nodes[5])); CALL(cuGraphGetNodes(graph, 0, &many)); printf("nodes %zu\n", many);
    Kernel asked_kernel;
    CALL(cuGraphKernelNodeGetParams_v2(nodes[1], &asked_kernel)); printf("parameter %u\n", *(unsigned *)asked_kernel.arguments[1]);
    printf("circle %d\n", cuGraphAddDependencies(graph, &nodes[4], &nodes[0], 1) || cuGraphInstantiateWithFlags(&exec, graph, 0));
    CALL(cuGraphRemoveDependencies(graph, &nodes[4], &nodes[0], 1));
    printf("missing edge %d\n", cuGraphRemoveDependencies(graph, &nodes[4], &nodes[0], 1));
    /* an object that graph and copy own: it goes with the last of them */
    CALL(cuUserObjectCreate(&object, &number, destroy, 1, 1)); CALL(cuGraphRetainUserObject(graph, object, 1, 1));
    CALL(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CALL(cuGraphLaunch(exec, stream)); CALL(cuStreamSynchronize(stream)); CALL(cuEventQuery(event));
    CALL(cuMemcpyDtoH_v2(&value, x, 4)); printf("x %u, copied %u\n", value, back);
    one = 10; CALL(cuGraphExecKernelNodeSetParams_v2(exec, nodes[1], &kernel)); CALL(cuGraphLaunch(exec, stream)); CALL(cuStreamSynchronize(stream));
    CALL(cuMemcpyDtoH_v2(&value, x, 4)); printf("x %u, copied %u\n", value, back);
    CALL(cuGraphExecUpdate_v2(exec, graph, update)); CALL(cuGraphLaunch(exec, stream)); CALL(cuStreamSynchronize(stream));
    CALL(cuMemcpyDtoH_v2(&value, x, 4)); printf("x %u, copied %u\n", value, back);
    printf("another topology %d\n", cuGraphExecUpdate_v2(exec, other, update));
    CALL(cuGraphDestroy(graph)); printf("destroyed %d", destroyed); CALL(cuGraphExecDestroy(exec)); printf(", then %d\n", destroyed);
    /* a loop, whose handle is of its own graph */
    CALL(cuGraphCreate(&graph, 0)); CALL(cuGraphConditionalHandleCreate(&handle, graph, context, 1, 1));
    Node loop = {.type = 13, .conditional = {handle, 1, 1, 0}};
    printf("foreign handle %d\n", cuGraphAddNode_v2(&nodes[0], other, 0, 0, 0, &loop));
    CALL(cuGraphAddNode_v2(&nodes[0], graph, 0, 0, 0, &loop));
    void *deciding[] = {&x, &handle, &limit};
    kernel.function = decide; kernel.arguments = deciding; limit = value + 3;
    CALL(cuGraphAddKernelNode_v2(&nodes[1], loop.conditional.bodies[0], 0, 0, &kernel));
    CALL(cuGraphInstantiateWithFlags(&exec, graph, 0)); CALL(cuGraphLaunch(exec, stream)); CALL(cuStreamSynchronize(stream));
    CALL(cuMemcpyDtoH_v2(&value, x, 4)); printf("looped to %u\n", value);
    /* advice about managed memory */
    CALL(cuMemAllocManaged(&managed, 64, 1)); CALL(cuMemAdvise_v2(managed, 64, 3, (Location){1, 0})); CALL(cuMemAdvise_v2(managed, 64, 5, (Location){2, 0}));
    CALL(cuMemRangeGetAttribute(asked, 4, 2, managed, 64)); CALL(cuMemRangeGetAttribute(asked + 1, 8, 3, managed, 64)); printf("advice %d %d %d\n", asked[0], asked[1], asked[2]);
    return 0;
}
