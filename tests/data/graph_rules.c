/* A program on the driver, for tests: in which order the nodes of graphs run, when they do not, and which calls are refused. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
typedef struct { void *function; unsigned grid[3], block[3], shared; void **arguments, **extra; void *kernel, *context; } Kernel;
typedef struct { uint64_t to; size_t pitch; unsigned value, element; size_t width, height; } Fill;
typedef struct { void (*call)(void *); void *data; } Host;
typedef struct { uint64_t handle; int type; unsigned size; void **bodies; } Conditional;
typedef struct { void *graph; int is_moved; } Child;
typedef struct { int type, handles, place, number; char rest[72]; void *access; size_t count, bytes; uint64_t address; } Memory;
typedef struct { int type, reserved[3]; union { long long words[29]; Conditional conditional; Child child; }; long long reserved2; } Node;
int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *), cuModuleLoad(void **, const char *), cuModuleUnload(void *), cuModuleGetFunction(void **, void *, const char *);
int cuMemAlloc_v2(uint64_t *, size_t), cuMemcpyDtoH_v2(void *, uint64_t, size_t), cuMemcpyDtoHAsync_v2(void *, uint64_t, size_t, void *), cuMemsetD32_v2(uint64_t, unsigned, size_t), cuStreamCreate(void **, unsigned), cuStreamWaitEvent(void *, void *, unsigned), cuEventCreate(void **, unsigned), cuEventRecord(void *, void *), cuStreamSynchronize(void *);
int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **), cuStreamBeginCapture_v2(void *, int), cuStreamBeginCaptureToGraph(void *, void *, void **, void *, size_t, int), cuStreamEndCapture(void *, void **), cuStreamIsCapturing(void *, int *);
int cuGraphCreate(void **, unsigned), cuGraphDestroy(void *), cuGraphExecDestroy(void *), cuGraphInstantiateWithFlags(void **, void *, unsigned long long), cuGraphLaunch(void *, void *), cuGraphClone(void **, void *), cuGraphAddDependencies(void *, void **, void **, size_t), cuGraphGetNodes(void *, void **, size_t *), cuGraphGetEdges(void *, void **, void **, size_t *);
int cuGraphAddKernelNode_v2(void **, void *, void **, size_t, Kernel *), cuGraphAddMemsetNode(void **, void *, void **, size_t, Fill *, void *), cuGraphAddHostNode(void **, void *, void **, size_t, Host *), cuGraphAddEventRecordNode(void **, void *, void **, size_t, void *), cuGraphAddChildGraphNode(void **, void *, void **, size_t, void *), cuGraphAddEmptyNode(void **, void *, void **, size_t), cuGraphAddMemAllocNode(void **, void *, void **, size_t, Memory *), cuGraphAddNode_v2(void **, void *, void **, void *, size_t, Node *);
int cuGraphNodeSetEnabled(void *, void *, unsigned), cuGraphMemcpyNodeSetParams(void *, void *), cuGraphExecChildGraphNodeSetParams(void *, void *, void *), cuGraphExecUpdate_v2(void *, void *, void *), cuGraphKernelNodeSetAttribute(void *, int, void *), cuGraphConditionalHandleCreate(uint64_t *, void *, void *, unsigned, unsigned), cuUserObjectCreate(void **, void *, void (*)(void *), unsigned, unsigned), cuGraphRetainUserObject(void *, void *, unsigned, unsigned);
typedef struct { int type, id; } Location;
int cuMemAdvise_v2(uint64_t, size_t, int, Location);
void wsemu_clear_error(void);
static int destroyed;
static void destroy(void *data) { destroyed += *(int *)data; }
static void call(void *data) { printf("a host node runs\n"); }
#define CALL(call) do { int result = call; if (result) { printf("%s: %d\n", #call, result); return 3; } } while (0)
#define LAUNCH(graph) do { CALL(cuGraphInstantiateWithFlags(&exec, graph, 0)); CALL(cuGraphLaunch(exec, stream)); } while (0)
static uint64_t x;
static unsigned value(void) { unsigned found = 0; cuMemcpyDtoH_v2(&found, x, 4); return found; }
int main(int count, char **words) {
    void *context, *module, *again, *add, *decide, *graph, *other, *exec, *copy, *nodes[8], *stream, *joined, *event, *object;
    unsigned one = 1, limit = 3, back = 0, update[6], text[16] = {1};
    int is_capturing = 0, number = 7;
    uint64_t handle, wrong = 8;
    size_t many = 0;
    if (count < 2) return 9;
    CALL(cuInit(0)); CALL(cuDevicePrimaryCtxRetain(&context, 0)); CALL(cuCtxSetCurrent(context)); CALL(cuModuleLoad(&module, words[1])); CALL(cuModuleLoad(&again, words[1]));
    CALL(cuModuleGetFunction(&add, module, "add")); CALL(cuModuleGetFunction(&decide, module, "decide"));
    CALL(cuMemAlloc_v2(&x, 4)); CALL(cuStreamCreate(&stream, 0)); CALL(cuStreamCreate(&joined, 0)); CALL(cuEventCreate(&event, 0));
    void *adding[] = {&x, &one}, *deciding[] = {&x, &handle, &limit}, *failing[] = {&wrong, &one};
    Kernel kernel = {add, {1, 1, 1}, {1, 1, 1}, 0, adding}, bad = kernel;
    Fill five = {x, 0, 5, 4, 1, 1}, zero = {x, 0, 0, 4, 1, 1};
    /* a disabled node keeps the order of the nodes around it */
    CALL(cuMemsetD32_v2(x, 0, 1)); CALL(cuGraphCreate(&graph, 0));
    CALL(cuGraphAddKernelNode_v2(&nodes[0], graph, 0, 0, &kernel)); CALL(cuGraphAddMemsetNode(&nodes[1], graph, 0, 0, &zero, context)); CALL(cuGraphAddMemsetNode(&nodes[2], graph, 0, 0, &five, context));
    CALL(cuGraphAddDependencies(graph, &nodes[2], &nodes[1], 1)); CALL(cuGraphAddDependencies(graph, &nodes[1], &nodes[0], 1));
    CALL(cuGraphInstantiateWithFlags(&exec, graph, 0)); CALL(cuGraphNodeSetEnabled(exec, nodes[1], 0)); CALL(cuGraphLaunch(exec, stream)); printf("disabled %u\n", value());
    /* captured nodes come after the nodes that they are captured behind */
    CALL(cuGraphCreate(&graph, 0)); CALL(cuGraphAddKernelNode_v2(&nodes[0], graph, 0, 0, &kernel)); CALL(cuGraphAddMemsetNode(&nodes[1], graph, 0, 0, &five, context)); CALL(cuGraphAddDependencies(graph, &nodes[1], &nodes[0], 1));
    CALL(cuStreamBeginCaptureToGraph(stream, graph, nodes, 0, 1, 0)); CALL(cuMemcpyDtoHAsync_v2(&back, x, 4, stream));
    printf("begun twice %d\n", cuStreamBeginCaptureToGraph(joined, graph, nodes, 0, 1, 0));
    /* a stream that joins a capture leaves it at the end */
    CALL(cuEventRecord(event, stream)); CALL(cuStreamWaitEvent(joined, event, 0)); printf("ended elsewhere %d\n", cuStreamEndCapture(joined, &graph)); CALL(cuStreamEndCapture(stream, &graph));
    LAUNCH(graph); printf("captured %u\n", back); CALL(cuGraphGetEdges(graph, 0, 0, &many)); printf("edges %zu\n", many);
    CALL(cuStreamSynchronize(stream)); CALL(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, joined, adding, 0)); printf("joined %u\n", value());
    CALL(cuStreamWaitEvent(joined, event, 0)); CALL(cuStreamIsCapturing(joined, &is_capturing)); printf("capturing %d\n", is_capturing);
    /* a graph that is launched in a capture is copied, with its objects */
    CALL(cuGraphCreate(&graph, 0)); CALL(cuGraphAddEmptyNode(nodes, graph, 0, 0)); CALL(cuUserObjectCreate(&object, &number, destroy, 1, 1)); CALL(cuGraphRetainUserObject(graph, object, 1, 1));
    CALL(cuGraphInstantiateWithFlags(&exec, graph, 0)); CALL(cuGraphDestroy(graph));
    CALL(cuStreamBeginCapture_v2(stream, 0)); CALL(cuGraphLaunch(exec, stream)); CALL(cuStreamEndCapture(stream, &graph));
    CALL(cuGraphDestroy(graph)); printf("destroyed %d", destroyed); CALL(cuGraphExecDestroy(exec)); printf(", then %d\n", destroyed);
    /* what is refused */
    CALL(cuGraphCreate(&graph, 0)); CALL(cuGraphAddKernelNode_v2(&nodes[0], graph, 0, 0, &kernel)); CALL(cuGraphAddKernelNode_v2(&nodes[1], graph, nodes, 1, &kernel));
    void *twice[] = {nodes[0], nodes[0]}, *to[] = {nodes[2] = 0, 0};
    char programmatic[8] = {1, 0, 1};
    Node empty = {.type = 5}, moved = {.type = 4};
    printf("twice before %d\n", cuGraphAddEmptyNode(&nodes[2], graph, twice, 2));
    CALL(cuGraphAddEmptyNode(&nodes[2], graph, 0, 0)); to[0] = to[1] = nodes[2]; printf("edge twice %d\n", cuGraphAddDependencies(graph, twice, to, 2));
    printf("programmatic edge %d\n", cuGraphAddNode_v2(&nodes[3], graph, nodes, programmatic, 1, &empty));
    printf("updated by kernels %d\n", cuGraphKernelNodeSetAttribute(nodes[0], 13, text));
    CALL(cuGraphAddEventRecordNode(&nodes[3], graph, 0, 0, event)); CALL(cuGraphInstantiateWithFlags(&exec, graph, 0)); printf("disabled event %d\n", cuGraphNodeSetEnabled(exec, nodes[3], 0));
    CALL(cuGraphCreate(&other, 0)); CALL(cuGraphAddKernelNode_v2(&nodes[4], other, 0, 0, &kernel)); CALL(cuGraphAddKernelNode_v2(&nodes[5], other, &nodes[4], 1, &kernel)); CALL(cuGraphAddEmptyNode(&nodes[6], other, &nodes[4], 1));
    CALL(cuGraphAddDependencies(graph, nodes, &nodes[2], 1)); CALL(cuGraphAddEventRecordNode(&nodes[7], other, 0, 0, event)); CALL(cuGraphInstantiateWithFlags(&exec, graph, 0)); printf("same edges %d", cuGraphExecUpdate_v2(exec, other, update));
    CALL(cuGraphCreate(&other, 0)); CALL(cuGraphAddKernelNode_v2(&nodes[4], other, 0, 0, &kernel)); CALL(cuGraphAddKernelNode_v2(&nodes[5], other, &nodes[4], 1, &kernel)); CALL(cuGraphAddEmptyNode(&nodes[6], other, &nodes[5], 1)); CALL(cuGraphAddEventRecordNode(&nodes[7], other, 0, 0, event));
    printf(", other edges %d\n", cuGraphExecUpdate_v2(exec, other, update));
    moved.child = (Child){other, 1}; CALL(cuGraphCreate(&graph, 0)); printf("moved child %d\n", cuGraphAddNode_v2(nodes, graph, 0, 0, 0, &moved));
    CALL(cuGraphAddChildGraphNode(nodes, graph, 0, 0, other)); CALL(cuGraphInstantiateWithFlags(&exec, graph, 0)); CALL(cuGraphCreate(&copy, 0)); printf("another child %d\n", cuGraphExecChildGraphNodeSetParams(exec, nodes[0], copy));
    CALL(cuGraphAddDependencies(other, &nodes[6], &nodes[4], 1)); CALL(cuGraphCreate(&graph, 0)); CALL(cuGraphAddChildGraphNode(nodes, graph, 0, 0, other)); printf("circle in a child %d\n", cuGraphInstantiateWithFlags(&exec, graph, 0));
    Memory memory = {.type = 1, .place = 2, .bytes = 64}; CALL(cuGraphCreate(&graph, 0)); printf("memory of the host %d", cuGraphAddMemAllocNode(nodes, graph, 0, 0, &memory));
    memory.place = 1; CALL(cuGraphAddMemAllocNode(nodes, graph, 0, 0, &memory)); printf(", clone %d\n", cuGraphClone(&copy, graph));
    printf("advice about device memory %d\n", cuMemAdvise_v2(x, 4, 1, (Location){1, 0}));
    /* launches are checked as outside a graph */
    CALL(cuStreamBeginCapture_v2(stream, 0)); CALL(cuMemcpyDtoHAsync_v2(&back, x, 4, stream)); CALL(cuStreamEndCapture(stream, &graph)); many = 1; CALL(cuGraphGetNodes(graph, nodes, &many));
    printf("no copy %d\n", cuGraphMemcpyNodeSetParams(nodes[0], 0)); LAUNCH(graph);
    bad.block[0] = 2048; CALL(cuGraphCreate(&graph, 0)); CALL(cuGraphAddKernelNode_v2(nodes, graph, 0, 0, &bad)); CALL(cuGraphInstantiateWithFlags(&exec, graph, 0)); printf("2048 threads %d\n", cuGraphLaunch(exec, stream));
    CALL(cuModuleGetFunction(&kernel.function, again, "add")); CALL(cuGraphCreate(&graph, 0)); CALL(cuGraphAddKernelNode_v2(nodes, graph, 0, 0, &kernel)); CALL(cuGraphInstantiateWithFlags(&exec, graph, 0)); CALL(cuModuleUnload(again)); printf("unloaded %d\n", cuGraphLaunch(exec, stream));
    /* nothing runs after a kernel that fails */
    fflush(stdout);
    Host host = {call};
    kernel = (Kernel){add, {1, 1, 1}, {1, 1, 1}, 0, failing}; CALL(cuGraphCreate(&graph, 0)); CALL(cuGraphAddKernelNode_v2(nodes, graph, 0, 0, &kernel)); CALL(cuGraphAddHostNode(&nodes[1], graph, nodes, 1, &host)); LAUNCH(graph); wsemu_clear_error();
    CALL(cuGraphCreate(&graph, 0)); CALL(cuGraphConditionalHandleCreate(&handle, graph, context, 1, 1));
    Node loop = {.type = 13, .conditional = {handle, 1, 1}}; CALL(cuGraphAddNode_v2(nodes, graph, 0, 0, 0, &loop)); CALL(cuGraphAddKernelNode_v2(&nodes[1], loop.conditional.bodies[0], 0, 0, &kernel)); LAUNCH(graph); wsemu_clear_error();
    printf("ended %d\n", value() == 6 + one);
    return 0;
}
