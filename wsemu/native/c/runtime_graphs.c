/* Graphs that a program makes node by node, of the runtime: what is not the driver's own function. */
#include "runtime.h"

#include <stdlib.h>
#include <string.h>

static inline void leave(int *unused) { (void)unused; unlock(); }
#define BEGIN __attribute__((cleanup(leave))) int guard = (lock(), 0); (void)guard; log_call("%s", __func__); { Result failed = begin_call(); if (failed) return keep(failed); }
#define NEED(condition) do { if (!(condition)) return keep(INVALID_VALUE); } while (0)
#define FUNCTION_OF(host) Result found; Function *function = function_of(host, &found); if (!function) return keep(found)
#define PLACE_OF Node **out, Graph *graph, Node *const *before, size_t count
#define PLACE out, graph, before, count

typedef struct KernelParameters { void *host; Dim3 grid, block; unsigned shared; void **arguments, **extra; } KernelParameters;
typedef struct FillParameters FillParameters;
typedef struct HostParameters HostParameters;
typedef struct MemoryParameters MemoryParameters;
typedef struct UpdateResult UpdateResult;
Result cuGraphAddMemsetNode(PLACE_OF, const FillParameters *, Handle), cuGraphAddHostNode(PLACE_OF, const HostParameters *), cuGraphAddEmptyNode(PLACE_OF);
Result cuGraphAddChildGraphNode(PLACE_OF, Graph *), cuGraphAddMemAllocNode(PLACE_OF, MemoryParameters *), cuGraphAddMemFreeNode(PLACE_OF, Address);
Result cuGraphAddEventRecordNode(PLACE_OF, Handle), cuGraphAddEventWaitNode(PLACE_OF, Handle);
Result cuGraphAddDependencies(Graph *, Node *const *, Node *const *, size_t), cuGraphRemoveDependencies(Graph *, Node *const *, Node *const *, size_t);
Result cuGraphAddDependencies_v2(Graph *, Node *const *, Node *const *, const void *, size_t), cuGraphRemoveDependencies_v2(Graph *, Node *const *, Node *const *, const void *, size_t);
Result cuGraphMemAllocNodeGetParams(Node *, MemoryParameters *), cuGraphMemFreeNodeGetParams(Node *, Address *), cuDeviceGetGraphMemAttribute(int, int, uint64_t *);
Result cuDeviceSetGraphMemAttribute(int, int, const uint64_t *), cuDeviceGraphMemTrim(int), cuGraphConditionalHandleCreate(uint64_t *, Graph *, Handle, unsigned, unsigned);
Result cuGraphNodeGetType(Node *, int *), cuGraphGetRootNodes(Graph *, Node **, size_t *), cuGraphDestroyNode(Node *), cuGraphExecUpdate_v2(Graph *, Graph *, UpdateResult *);
Result cuGraphExecMemsetNodeSetParams(Graph *, Node *, const FillParameters *, Handle), cuGraphExecHostNodeSetParams(Graph *, Node *, const HostParameters *);
Result cuGraphNodeSetEnabled(Graph *, Node *, unsigned), cuGraphNodeGetEnabled(Graph *, Node *, unsigned *), cuGraphAddNode_v2(Node **, Graph *, Node *const *, const void *, size_t, void *);
Result cuGraphGetEdges_v2(Graph *, Node **, Node **, void *, size_t *), cuGraphNodeGetDependencies_v2(Node *, Node **, void *, size_t *), cuGraphNodeGetDependentNodes_v2(Node *, Node **, void *, size_t *);
Result cuGraphChildGraphNodeGetGraph(Node *, Graph **), cuGraphNodeFindInClone(Node **, const Node *, Graph *), cuGraphDebugDotPrint(Graph *, const char *, unsigned);
Result cuUserObjectCreate(Handle *, void *, void (*)(void *), unsigned, unsigned), cuUserObjectRetain(Handle, unsigned), cuUserObjectRelease(Handle, unsigned);
Result cuGraphRetainUserObject(Graph *, Handle, unsigned, unsigned), cuGraphReleaseUserObject(Graph *, Handle, unsigned);

/* A node of a kind that only the runtime fills in: it is made empty, and gets its kind with its contents. */
static Result set_kernel(Node *node, const KernelParameters *given) {
    NEED(given);
    FUNCTION_OF(given->host);
    Shape shape = shape_of_launch(given->grid, given->block, given->shared);
    memcpy(shape.cluster, node->shape.cluster, sizeof shape.cluster); /* its attributes stay */
    shape.cooperative = node->shape.cooperative;
    shape.dependent = node->shape.dependent;
    return keep(set_node_kernel(node, function, &shape, given->arguments, given->extra));
}
EXPORT Result cudaGraphAddKernelNode(PLACE_OF, const KernelParameters *given) {
    BEGIN;
    Node made = {.kind = NODE_KERNEL};
    Result result = set_kernel(&made, given);
    if (!result) result = cuGraphAddEmptyNode(PLACE);
    if (result) return keep(result);
    Node *node = *out;
    node->kind = NODE_KERNEL;
    node->function = made.function;
    node->shape = made.shape;
    node->parameters = made.parameters;
    return SUCCESS;
}
EXPORT Result cudaGraphAddMemcpyNode(PLACE_OF, const Copy3D *copy) {
    BEGIN; NEED(copy);
    Result result = cuGraphAddEmptyNode(PLACE);
    if (result) return keep(result);
    (*out)->kind = NODE_ROWS;
    (*out)->copy = malloc(sizeof *copy);
    (*out)->run_copy = run_copy;
    memcpy((*out)->copy, copy, sizeof *copy);
    return SUCCESS;
}
static void set_line(Node *node, void *to, const void *from, size_t bytes) {
    node->kind = NODE_COPY;
    node->to = (Address)to;
    node->from = (Address)from;
    node->bytes = bytes;
}
EXPORT Result cudaGraphAddMemcpyNode1D(PLACE_OF, void *to, const void *from, size_t bytes, int kind) {
    BEGIN; (void)kind;
    Result result = cuGraphAddEmptyNode(PLACE);
    if (!result) set_line(*out, to, from, bytes);
    return keep(result);
}
EXPORT Result cudaGraphAddMemsetNode(PLACE_OF, const FillParameters *given) { return keep(cuGraphAddMemsetNode(PLACE, given, NULL)); }
EXPORT Result cudaGraphAddHostNode(PLACE_OF, const HostParameters *given) { return keep(cuGraphAddHostNode(PLACE, given)); }
EXPORT Result cudaGraphAddEmptyNode(PLACE_OF) { return keep(cuGraphAddEmptyNode(PLACE)); }
EXPORT Result cudaGraphAddChildGraphNode(PLACE_OF, Graph *child) { return keep(cuGraphAddChildGraphNode(PLACE, child)); }
EXPORT Result cudaGraphAddEventRecordNode(PLACE_OF, Handle event) { return keep(cuGraphAddEventRecordNode(PLACE, event)); }
EXPORT Result cudaGraphAddEventWaitNode(PLACE_OF, Handle event) { return keep(cuGraphAddEventWaitNode(PLACE, event)); }
EXPORT Result cudaGraphAddMemAllocNode(PLACE_OF, MemoryParameters *given) { return keep(cuGraphAddMemAllocNode(PLACE, given)); }
EXPORT Result cudaGraphAddMemFreeNode(PLACE_OF, Address address) { return keep(cuGraphAddMemFreeNode(PLACE, address)); }
/* Before CUDA 13, the number of edges is where their data is now: it is smaller than any address. */
EXPORT Result cudaGraphAddDependencies(Graph *graph, Node *const *from, Node *const *to, const void *edges, size_t count) { return keep(is_number(edges) ? cuGraphAddDependencies(graph, from, to, (uintptr_t)edges) : cuGraphAddDependencies_v2(graph, from, to, edges, count)); }
EXPORT Result cudaGraphRemoveDependencies(Graph *graph, Node *const *from, Node *const *to, const void *edges, size_t count) { return keep(is_number(edges) ? cuGraphRemoveDependencies(graph, from, to, (uintptr_t)edges) : cuGraphRemoveDependencies_v2(graph, from, to, edges, count)); }
ALIAS(cudaGraphAddDependencies_v2, cudaGraphAddDependencies);
ALIAS(cudaGraphRemoveDependencies_v2, cudaGraphRemoveDependencies);
EXPORT Result cudaGraphMemAllocNodeGetParams(Node *node, MemoryParameters *out) { return keep(cuGraphMemAllocNodeGetParams(node, out)); }
EXPORT Result cudaGraphMemFreeNodeGetParams(Node *node, Address *out) { return keep(cuGraphMemFreeNodeGetParams(node, out)); }
EXPORT Result cudaDeviceGetGraphMemAttribute(int device, int attribute, uint64_t *value) { return keep(cuDeviceGetGraphMemAttribute(device, attribute, value)); }
EXPORT Result cudaDeviceSetGraphMemAttribute(int device, int attribute, const uint64_t *value) { return keep(cuDeviceSetGraphMemAttribute(device, attribute, value)); }
EXPORT Result cudaDeviceGraphMemTrim(int device) { return keep(cuDeviceGraphMemTrim(device)); }
EXPORT Result cudaGraphConditionalHandleCreate(uint64_t *handle, Graph *graph, unsigned value, unsigned flags) { return keep(cuGraphConditionalHandleCreate(handle, graph, NULL, value, flags)); }

typedef struct CopyNode { int flags, reserved[3]; Copy3D copy; } CopyNode;
typedef struct NodeParameters { int type, reserved[3]; union { long long words[29]; KernelParameters kernel; CopyNode copy; }; } NodeParameters;
enum { TYPE_KERNEL, TYPE_COPY };
EXPORT Result cudaGraphAddNode_v2(Node **out, Graph *graph, Node *const *before, const void *edges, size_t count, NodeParameters *given) {
    if (!given) return keep(INVALID_VALUE);
    if (given->type == TYPE_KERNEL) return cudaGraphAddKernelNode(PLACE, &given->kernel);
    if (given->type == TYPE_COPY) return cudaGraphAddMemcpyNode(PLACE, &given->copy.copy);
    return keep(cuGraphAddNode_v2(out, graph, before, edges, count, given));
}
EXPORT Result cudaGraphNodeGetType(Node *node, int *type) { return keep(cuGraphNodeGetType(node, type)); }
EXPORT Result cudaGraphGetRootNodes(Graph *graph, Node **nodes, size_t *count) { return keep(cuGraphGetRootNodes(graph, nodes, count)); }
EXPORT Result cudaGraphGetEdges_v2(Graph *graph, Node **from, Node **to, void *edges, size_t *count) { return keep(cuGraphGetEdges_v2(graph, from, to, edges, count)); }
EXPORT Result cudaGraphNodeGetDependencies_v2(Node *node, Node **nodes, void *edges, size_t *count) { return keep(cuGraphNodeGetDependencies_v2(node, nodes, edges, count)); }
EXPORT Result cudaGraphNodeGetDependentNodes_v2(Node *node, Node **nodes, void *edges, size_t *count) { return keep(cuGraphNodeGetDependentNodes_v2(node, nodes, edges, count)); }
/* Before CUDA 13, the parameter with the data of edges is missing, and those after it are in its place. */
#define CALLER_IS_OLD has_old_runtime(__builtin_return_address(0))
EXPORT Result cudaGraphAddNode(Node **out, Graph *graph, Node *const *before, const void *edges, size_t count, NodeParameters *given) { return CALLER_IS_OLD ? cudaGraphAddNode_v2(out, graph, before, NULL, (size_t)edges, (NodeParameters *)count) : cudaGraphAddNode_v2(out, graph, before, edges, count, given); }
EXPORT Result cudaGraphGetEdges(Graph *graph, Node **from, Node **to, void *edges, size_t *count) { return CALLER_IS_OLD ? cudaGraphGetEdges_v2(graph, from, to, NULL, edges) : cudaGraphGetEdges_v2(graph, from, to, edges, count); }
EXPORT Result cudaGraphNodeGetDependencies(Node *node, Node **nodes, void *edges, size_t *count) { return CALLER_IS_OLD ? cudaGraphNodeGetDependencies_v2(node, nodes, NULL, edges) : cudaGraphNodeGetDependencies_v2(node, nodes, edges, count); }
EXPORT Result cudaGraphNodeGetDependentNodes(Node *node, Node **nodes, void *edges, size_t *count) { return CALLER_IS_OLD ? cudaGraphNodeGetDependentNodes_v2(node, nodes, NULL, edges) : cudaGraphNodeGetDependentNodes_v2(node, nodes, edges, count); }
EXPORT Result cudaGraphDestroyNode(Node *node) { return keep(cuGraphDestroyNode(node)); }
EXPORT Result cudaGraphChildGraphNodeGetGraph(Node *node, Graph **out) { return keep(cuGraphChildGraphNodeGetGraph(node, out)); }
EXPORT Result cudaGraphNodeFindInClone(Node **out, const Node *node, Graph *clone) { return keep(cuGraphNodeFindInClone(out, node, clone)); }
EXPORT Result cudaGraphDebugDotPrint(Graph *graph, const char *path, unsigned flags) { return keep(cuGraphDebugDotPrint(graph, path, flags)); }
EXPORT Result cudaUserObjectCreate(Handle *out, void *data, void (*destroy)(void *), unsigned count, unsigned flags) { return keep(cuUserObjectCreate(out, data, destroy, count, flags)); }
EXPORT Result cudaUserObjectRetain(Handle object, unsigned count) { return keep(cuUserObjectRetain(object, count)); }
EXPORT Result cudaUserObjectRelease(Handle object, unsigned count) { return keep(cuUserObjectRelease(object, count)); }
EXPORT Result cudaGraphRetainUserObject(Graph *graph, Handle object, unsigned count, unsigned flags) { return keep(cuGraphRetainUserObject(graph, object, count, flags)); }
EXPORT Result cudaGraphReleaseUserObject(Graph *graph, Handle object, unsigned count) { return keep(cuGraphReleaseUserObject(graph, object, count)); }

/* -- changes of a graph that is instantiated -- */

#define EXEC_KIND(kind_) BEGIN; NEED(has_handle(exec, EXEC) && has_handle(node, NODE)); Node *mine = node_of(exec, node); NEED(mine && mine->kind == (kind_))
EXPORT Result cudaGraphKernelNodeSetParams(Node *node, const KernelParameters *given) { BEGIN; NEED(has_handle(node, NODE) && node->kind == NODE_KERNEL); return set_kernel(node, given); }
EXPORT Result cudaGraphExecKernelNodeSetParams(Graph *exec, Node *node, const KernelParameters *given) { EXEC_KIND(NODE_KERNEL); return set_kernel(mine, given); }
EXPORT Result cudaGraphExecMemcpyNodeSetParams1D(Graph *exec, Node *node, void *to, const void *from, size_t bytes, int kind) { (void)kind; EXEC_KIND(NODE_COPY); set_line(mine, to, from, bytes); return SUCCESS; }
EXPORT Result cudaGraphExecMemsetNodeSetParams(Graph *exec, Node *node, const FillParameters *given) { return keep(cuGraphExecMemsetNodeSetParams(exec, node, given, NULL)); }
EXPORT Result cudaGraphExecHostNodeSetParams(Graph *exec, Node *node, const HostParameters *given) { return keep(cuGraphExecHostNodeSetParams(exec, node, given)); }
EXPORT Result cudaGraphNodeSetEnabled(Graph *exec, Node *node, unsigned given) { return keep(cuGraphNodeSetEnabled(exec, node, given)); }
EXPORT Result cudaGraphNodeGetEnabled(Graph *exec, Node *node, unsigned *out) { return keep(cuGraphNodeGetEnabled(exec, node, out)); }
EXPORT Result cudaGraphExecUpdate(Graph *exec, Graph *graph, UpdateResult *out) { return keep(cuGraphExecUpdate_v2(exec, graph, out)); }
