/* A program on the driver, for tests: graphs whose nodes have no order, or have one; its second argument names which. */
#include <stdio.h>
#include <string.h>
typedef unsigned long long Address;
typedef struct { void *function; unsigned grid[3], block[3], shared; void **arguments, **extra; void *kernel, *context; } Kernel;
typedef struct { void (*call)(void *); void *data; } Host;
int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *), cuCtxSynchronize(void), cuModuleLoad(void **, const char *), cuModuleGetFunction(void **, void *, const char *);
int cuMemAlloc_v2(Address *, size_t), cuMemsetD32_v2(Address, unsigned, size_t), cuMemsetD32Async(Address, unsigned, size_t, void *), cuMemFreeAsync(Address, void *), cuMemAllocAsync(Address *, size_t, void *);
int cuStreamCreate(void **, unsigned), cuStreamWaitEvent(void *, void *, unsigned), cuEventCreate(void **, unsigned), cuEventRecord(void *, void *);
int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
int cuGraphCreate(void **, unsigned), cuGraphInstantiateWithFlags(void **, void *, unsigned long long), cuGraphLaunch(void *, void *), cuGraphGetEdges(void *, void **, void **, size_t *);
int cuGraphAddKernelNode_v2(void **, void *, void **, size_t, Kernel *), cuGraphAddChildGraphNode(void **, void *, void **, size_t, void *), cuGraphAddHostNode(void **, void *, void **, size_t, Host *);
int cuStreamBeginCapture_v2(void *, int), cuStreamEndCapture(void *, void **), cuStreamUpdateCaptureDependencies(void *, void **, size_t, unsigned);
static void *add, *nodes[8];
static void call(void *data) {}
static void *node(void *graph, Address x, void **before, size_t count) {
    void *arguments[] = {&x}, *made = NULL;
    Kernel kernel = {add, {1, 1, 1}, {32, 1, 1}, 0, arguments};
    int wrong = cuGraphAddKernelNode_v2(&made, graph, before, count, &kernel);
    if (wrong) printf("node %d\n", wrong);
    return made;
}
static void launch(Address x, void *stream) {
    void *arguments[] = {&x};
    cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, stream, arguments, NULL);
}
static void *instantiate(void *graph) {
    void *exec = NULL;
    int wrong = cuGraphInstantiateWithFlags(&exec, graph, 0);
    if (wrong) printf("instantiate %d\n", wrong);
    return exec;
}
#define IS(name) (!strcmp(what, name))
int main(int count, char **words) {
    void *context, *module, *graph, *child, *exec, *a = NULL, *b = NULL, *event, *joined;
    Address x, y;
    if (count < 3 || cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) || cuModuleLoad(&module, words[1])) return 9;
    const char *what = words[2];
    cuModuleGetFunction(&add, module, "add");
    cuMemAlloc_v2(&x, 256);
    cuMemsetD32_v2(x, 0, 64);
    if (!IS("without streams")) {
        cuStreamCreate(&a, 1);
        cuStreamCreate(&b, 1);
    }
    cuEventCreate(&event, 0);
    cuEventCreate(&joined, 0);
    cuCtxSynchronize();
    cuGraphCreate(&graph, 0);
    cuGraphCreate(&child, 0);
    if (!strncmp(what, "captured", 8)) { /* a and b fork and join */
        if (cuStreamBeginCapture_v2(a, 0)) return 8;
        if (!IS("captured in order")) cuEventRecord(event, a);
        launch(x, a);
        if (IS("captured in order")) cuEventRecord(event, a);
        cuStreamWaitEvent(b, event, 0);
        launch(IS("captured apart") ? x + 128 : x, b);
        cuEventRecord(joined, b);
        if (!IS("captured unjoined")) cuStreamWaitEvent(a, joined, 0);
        if (IS("captured apart")) launch(x + 64, a); /* reads what both have written */
        if (IS("captured released")) cuStreamUpdateCaptureDependencies(a, NULL, 0, 1);
        int wrong = cuStreamEndCapture(a, &graph);
        if (wrong) printf("ended %d %d\n", wrong, graph == NULL);
        if (wrong) return 0;
        size_t edges = 0;
        cuGraphGetEdges(graph, NULL, NULL, &edges);
        printf("edges %zu\n", edges);
    } else if (IS("edge") || IS("twice") || IS("elsewhere") || IS("afterwards") || IS("other graph")) {
        nodes[0] = node(graph, x, NULL, 0);
        node(graph, x, nodes, 1);
    } else if (IS("diamond")) {
        nodes[0] = node(graph, x, NULL, 0);
        nodes[1] = node(graph, x, nodes, 1);
        nodes[2] = node(graph, x + 128, nodes, 1);
        node(graph, x + 64, nodes + 1, 2);
    } else if (!strncmp(what, "child", 5)) { /* its nodes against a node beside it */
        nodes[0] = node(child, x, NULL, 0);
        node(child, x, nodes, 1);
        nodes[1] = node(graph, x, NULL, 0);
        cuGraphAddChildGraphNode(&nodes[2], graph, nodes + 1, IS("child in order"), child);
    } else if (IS("host")) { /* its other branch may run before it */
        Host host = {call};
        nodes[0] = node(graph, x, NULL, 0);
        cuGraphAddHostNode(&nodes[1], graph, nodes, 1, &host);
        node(graph, x, NULL, 0);
    } else {
        node(graph, x, NULL, 0);
        node(graph, IS("apart") ? x + 128 : x, NULL, 0);
    }
    exec = instantiate(graph);
    cuGraphLaunch(exec, a);
    if (IS("twice") || IS("captured apart") || IS("diamond")) cuGraphLaunch(exec, b);
    if (IS("other graph")) cuGraphLaunch(instantiate(graph), b);
    if (IS("elsewhere")) launch(x, b);
    if (IS("afterwards")) launch(x, a);
    return 0;
}
