/* Graphs that a program makes node by node, of the runtime; those of captures are made in core.c. */
#define _GNU_SOURCE
#include "runtime.h"

#include <stdlib.h>
#include <string.h>

static inline void leave(int *unused) { (void)unused; unlock(); }
#define GUARD __attribute__((cleanup(leave))) int guard = (lock(), 0); (void)guard
#define BEGIN GUARD; log_call("%s", __func__); { Result failed = begin_call(); if (failed) return keep(failed); }
#define NEED(condition) do { if (!(condition)) return keep(INVALID_VALUE); } while (0)
#define FUNCTION_OF(host) Result found; Function *function = function_of(host, &found); if (!function) return keep(found)
Result cuGraphClone(Handle *, Handle);

static Result join(Graph *graph, Node *node, Node *const *before, size_t count, Node **out) {
    (void)graph;
    node->before = calloc(count + 1, sizeof(Node *));
    node->before_count = (uint32_t)count;
    for (size_t n = 0; n < count; n++) node->before[n] = before[n];
    if (out) *out = node;
    return SUCCESS;
}
#define GRAPH_NODE(kind) \
    BEGIN; NEED(out && (before || !count)); if (!has_handle(graph, GRAPH)) return keep(INVALID_VALUE); \
    for (size_t n = 0; n < count; n++) NEED(has_handle(before[n], NODE)); \
    Node *node = add_node(graph, kind)
typedef struct KernelParameters { void *host; Dim3 grid, block; unsigned shared; void **arguments, **extra; } KernelParameters;
static Result set_kernel(Node *node, const KernelParameters *given) {
    FUNCTION_OF(given->host);
    NEED(given->arguments || !function->parameter_count);
    node->function = function;
    node->shape = shape_of_launch(given->grid, given->block, given->shared);
    node->parameters = calloc(1, function->parameter_bytes + 1);
    for (uint32_t n = 0; n < function->parameter_count; n++) memcpy((char *)node->parameters + function->offsets[n], given->arguments[n], function->sizes[n]);
    return SUCCESS;
}
EXPORT Result cudaGraphAddKernelNode(Node **out, Graph *graph, Node *const *before, size_t count, const KernelParameters *given) {
    GRAPH_NODE(NODE_KERNEL); NEED(given);
    Result result = set_kernel(node, given);
    return result ? result : join(graph, node, before, count, out);
}
EXPORT Result cudaGraphAddMemcpyNode(Node **out, Graph *graph, Node *const *before, size_t count, const Copy3D *copy) {
    GRAPH_NODE(NODE_ROWS); NEED(copy);
    node->copy = malloc(sizeof *copy);
    memcpy(node->copy, copy, sizeof *copy);
    return join(graph, node, before, count, out);
}
EXPORT Result cudaGraphAddMemcpyNode1D(Node **out, Graph *graph, Node *const *before, size_t count, void *to, const void *from, size_t bytes, int kind) {
    GRAPH_NODE(NODE_COPY); (void)kind;
    node->to = (Address)to;
    node->from = (Address)from;
    node->bytes = bytes;
    return join(graph, node, before, count, out);
}
typedef struct FillParameters { Address to; size_t pitch; unsigned value, element; size_t width, height; } FillParameters;
static void set_fill(Node *node, const FillParameters *given) {
    node->to = given->to;
    node->to_pitch = given->pitch;
    node->value = given->value;
    node->width = given->element;
    node->bytes = given->width;
    node->height = given->height;
}
EXPORT Result cudaGraphAddMemsetNode(Node **out, Graph *graph, Node *const *before, size_t count, const FillParameters *given) {
    GRAPH_NODE(NODE_FILL); NEED(given);
    set_fill(node, given);
    return join(graph, node, before, count, out);
}
typedef struct HostParameters { void (*call)(void *); void *data; } HostParameters;
EXPORT Result cudaGraphAddHostNode(Node **out, Graph *graph, Node *const *before, size_t count, const HostParameters *given) {
    GRAPH_NODE(NODE_HOST); NEED(given && given->call);
    node->call = given->call;
    node->data = given->data;
    return join(graph, node, before, count, out);
}
EXPORT Result cudaGraphAddEmptyNode(Node **out, Graph *graph, Node *const *before, size_t count) { GRAPH_NODE(NODE_EMPTY); return join(graph, node, before, count, out); }
EXPORT Result cudaGraphAddChildGraphNode(Node **out, Graph *graph, Node *const *before, size_t count, Graph *child) {
    GRAPH_NODE(NODE_GRAPH);
    Handle copy;
    Result result = cuGraphClone(&copy, child);
    node->child = copy;
    return result ? keep(result) : join(graph, node, before, count, out);
}
EXPORT Result cudaGraphAddDependencies(Graph *graph, Node *const *from, Node *const *to, const void *edges, size_t count) {
    BEGIN; (void)edges; if (!has_handle(graph, GRAPH)) return keep(INVALID_VALUE);
    for (size_t n = 0; n < count; n++) {
        NEED(has_handle(from[n], NODE) && has_handle(to[n], NODE));
        to[n]->before = realloc(to[n]->before, (to[n]->before_count + 1) * sizeof(Node *));
        to[n]->before[to[n]->before_count++] = from[n];
    }
    return SUCCESS;
}

/* -- memory of graphs: it has its address from the making of the node on, and is kept as long as the program runs -- */

typedef struct MemoryParameters { char pool[88]; const void *access; size_t access_count, bytes; Address address; } MemoryParameters;
static size_t memory_bytes, memory_high;

Result allocate_for_graph(Address *address, uint64_t bytes) {
    Result result = allocate_memory(address, bytes ? bytes : 1, DEVICE);
    if (result) return result;
    find_allocation(*address)->pool = OF_GRAPH;
    memory_bytes += bytes;
    if (memory_bytes > memory_high) memory_high = memory_bytes;
    return SUCCESS;
}
EXPORT Result cudaGraphAddMemAllocNode(Node **out, Graph *graph, Node *const *before, size_t count, MemoryParameters *given) {
    GRAPH_NODE(NODE_ALLOCATE); NEED(given && given->bytes);
    Result result = allocate_for_graph(&given->address, given->bytes);
    node->to = given->address;
    return result ? keep(result) : join(graph, node, before, count, out);
}
EXPORT Result cudaGraphAddMemFreeNode(Node **out, Graph *graph, Node *const *before, size_t count, Address address) {
    GRAPH_NODE(NODE_FREE); NEED(find_allocation(address));
    node->to = address;
    return join(graph, node, before, count, out);
}
EXPORT Result cudaGraphMemAllocNodeGetParams(Node *node, MemoryParameters *out) {
    BEGIN; NEED(has_handle(node, NODE) && node->kind == NODE_ALLOCATE && out && find_allocation(node->to));
    memset(out, 0, sizeof *out);
    out->address = node->to;
    out->bytes = find_allocation(node->to)->bytes;
    return SUCCESS;
}
EXPORT Result cudaGraphMemFreeNodeGetParams(Node *node, Address *out) { BEGIN; NEED(has_handle(node, NODE) && node->kind == NODE_FREE && out); *out = node->to; return SUCCESS; }
EXPORT Result cudaDeviceGetGraphMemAttribute(int device, int attribute, uint64_t *value) { BEGIN; NEED(!device && value && attribute >= 0 && attribute < 4); *value = attribute & 1 ? memory_high : memory_bytes; return SUCCESS; }
EXPORT Result cudaDeviceSetGraphMemAttribute(int device, int attribute, const uint64_t *value) { BEGIN; NEED(!device && value && !*value && (attribute == 1 || attribute == 3)); memory_high = memory_bytes; return SUCCESS; }
EXPORT Result cudaDeviceGraphMemTrim(int device) { BEGIN; NEED(!device); return SUCCESS; }

/* -- conditional nodes: the value of a handle is a word of device memory, which kernels write -- */

enum { ASSIGN_DEFAULT = 1, MAX_BODIES = 1 << 16 };
EXPORT Result cudaGraphConditionalHandleCreate(uint64_t *handle, Graph *graph, unsigned value, unsigned flags) {
    BEGIN; NEED(handle && has_handle(graph, GRAPH) && !(flags & ~ASSIGN_DEFAULT));
    Address address;
    Result result = allocate_memory(&address, 8, DEVICE);
    if (result) return keep(result);
    graph->conditions = realloc(graph->conditions, (graph->condition_count + 1) * sizeof *graph->conditions);
    graph->conditions[graph->condition_count++] = (Condition){address, value, flags & ASSIGN_DEFAULT};
    *handle = address;
    return SUCCESS;
}
typedef struct ConditionalParameters { uint64_t handle; int type; unsigned size; Graph **bodies; } ConditionalParameters;
static Result set_conditional(Node *node, ConditionalParameters *given) {
    NEED(given->size && given->size < MAX_BODIES && given->type >= IF && given->type <= SWITCH && host_memory(given->handle, 4));
    node->to = given->handle;
    node->value = (unsigned)given->type;
    node->body_count = given->size;
    node->bodies = calloc(given->size, sizeof(Graph *));
    for (unsigned n = 0; n < given->size; n++) {
        node->bodies[n] = calloc(1, sizeof(Graph));
        add_handle(node->bodies[n], GRAPH);
    }
    given->bodies = node->bodies;
    return SUCCESS;
}

/* -- nodes of any kind -- */

enum { TYPE_KERNEL, TYPE_COPY, TYPE_FILL, TYPE_HOST, TYPE_GRAPH, TYPE_EMPTY, TYPE_WAIT, TYPE_RECORD, TYPE_ALLOCATE = 10, TYPE_FREE, TYPE_CONDITIONAL = 13 };
static const int TYPES[] = {[NODE_KERNEL] = TYPE_KERNEL, [NODE_COPY] = TYPE_COPY, [NODE_FILL] = TYPE_FILL, [NODE_HOST] = TYPE_HOST,
    [NODE_EMPTY] = TYPE_EMPTY, [NODE_GRAPH] = TYPE_GRAPH, [NODE_ROWS] = TYPE_COPY, [NODE_RECORD] = TYPE_RECORD, [NODE_WAIT] = TYPE_WAIT,
    [NODE_ALLOCATE] = TYPE_ALLOCATE, [NODE_FREE] = TYPE_FREE, [NODE_CONDITIONAL] = TYPE_CONDITIONAL};
typedef struct CopyNode { int flags, reserved[3]; Copy3D copy; } CopyNode;
typedef struct NodeParameters {
    int type, reserved[3];
    union {
        long long words[29]; KernelParameters kernel; CopyNode copy; FillParameters fill; HostParameters host; Graph *graph; Handle event;
        MemoryParameters memory; Address address; ConditionalParameters conditional;
    };
} NodeParameters;
EXPORT Result cudaGraphAddNode(Node **out, Graph *graph, Node *const *before, const void *edges, size_t count, NodeParameters *given) {
    (void)edges;
    if (!given) return keep(INVALID_VALUE);
    switch (given->type) {
    case TYPE_KERNEL: return cudaGraphAddKernelNode(out, graph, before, count, &given->kernel);
    case TYPE_COPY: return cudaGraphAddMemcpyNode(out, graph, before, count, &given->copy.copy);
    case TYPE_FILL: return cudaGraphAddMemsetNode(out, graph, before, count, &given->fill);
    case TYPE_HOST: return cudaGraphAddHostNode(out, graph, before, count, &given->host);
    case TYPE_GRAPH: return cudaGraphAddChildGraphNode(out, graph, before, count, given->graph);
    case TYPE_EMPTY: return cudaGraphAddEmptyNode(out, graph, before, count);
    case TYPE_ALLOCATE: return cudaGraphAddMemAllocNode(out, graph, before, count, &given->memory);
    case TYPE_FREE: return cudaGraphAddMemFreeNode(out, graph, before, count, given->address);
    case TYPE_CONDITIONAL: {
        GRAPH_NODE(NODE_CONDITIONAL);
        Result result = set_conditional(node, &given->conditional);
        return result ? result : join(graph, node, before, count, out);
    }
    default: return keep(unsupported("cudaGraphAddNode of events or semaphores"));
    }
}
ALIAS(cudaGraphAddNode_v2, cudaGraphAddNode);
EXPORT Result cudaGraphAddDependencies_v2(Graph *graph, Node *const *from, Node *const *to, const void *edges, size_t count) { return cudaGraphAddDependencies(graph, from, to, edges, count); }
EXPORT Result cudaGraphNodeGetType(Node *node, int *type) { BEGIN; NEED(has_handle(node, NODE) && type); *type = TYPES[node->kind]; return SUCCESS; }
EXPORT Result cudaGraphGetRootNodes(Graph *graph, Node **nodes, size_t *count) {
    BEGIN; NEED(has_handle(graph, GRAPH) && count);
    size_t found = 0;
    for (uint32_t n = 0; n < graph->count; n++) {
        if (graph->nodes[n]->before_count) continue;
        if (nodes && found < *count) nodes[found] = graph->nodes[n];
        found++;
    }
    if (!nodes || *count > found) *count = found;
    return SUCCESS;
}
EXPORT Result cudaGraphDestroyNode(Node *node) {
    BEGIN; NEED(has_handle(node, NODE));
    node->kind = NODE_EMPTY; /* what comes after it is after what was before it */
    remove_handle(node);
    return SUCCESS;
}

/* -- changes of a graph that is instantiated -- */

static Node *node_of(Graph *exec, const Node *node) {
    for (uint32_t n = 0; n < exec->count; n++)
        if (exec->nodes[n]->origin == node) return exec->nodes[n];
    return NULL;
}
#define EXEC_NODE(kind_) \
    BEGIN; NEED(has_handle(exec, EXEC) && has_handle(node, NODE) && given); \
    Node *own = node_of(exec, node); NEED(own && own->kind == (kind_))
EXPORT Result cudaGraphKernelNodeSetParams(Node *node, const KernelParameters *given) { BEGIN; NEED(has_handle(node, NODE) && node->kind == NODE_KERNEL && given); return set_kernel(node, given); }
EXPORT Result cudaGraphExecKernelNodeSetParams(Graph *exec, Node *node, const KernelParameters *given) { EXEC_NODE(NODE_KERNEL); return set_kernel(own, given); }
EXPORT Result cudaGraphExecMemcpyNodeSetParams1D(Graph *exec, Node *node, void *to, const void *given, size_t bytes, int kind) {
    (void)kind; EXEC_NODE(NODE_COPY);
    own->to = (Address)to;
    own->from = (Address)given;
    own->bytes = bytes;
    return SUCCESS;
}
EXPORT Result cudaGraphExecMemsetNodeSetParams(Graph *exec, Node *node, const FillParameters *given) { EXEC_NODE(NODE_FILL); set_fill(own, given); return SUCCESS; }
EXPORT Result cudaGraphExecHostNodeSetParams(Graph *exec, Node *node, const HostParameters *given) { EXEC_NODE(NODE_HOST); own->call = given->call; own->data = given->data; return SUCCESS; }
EXPORT Result cudaGraphNodeSetEnabled(Graph *exec, Node *node, unsigned given) {
    BEGIN; NEED(has_handle(exec, EXEC) && has_handle(node, NODE));
    Node *own = node_of(exec, node);
    NEED(own);
    own->disabled = !given;
    return SUCCESS;
}
EXPORT Result cudaGraphNodeGetEnabled(Graph *exec, Node *node, unsigned *out) {
    BEGIN; NEED(has_handle(exec, EXEC) && has_handle(node, NODE) && out);
    Node *own = node_of(exec, node);
    NEED(own);
    *out = !own->disabled;
    return SUCCESS;
}
typedef struct UpdateResult { int result; Node *node, *from; } UpdateResult;
EXPORT Result cudaGraphExecUpdate(Graph *exec, Graph *graph, UpdateResult *out) {
    BEGIN; NEED(has_handle(exec, EXEC) && has_handle(graph, GRAPH) && out);
    bool equal = exec->count == graph->count;
    for (uint32_t n = 0; equal && n < graph->count; n++)
        equal = exec->nodes[n]->kind == graph->nodes[n]->kind && exec->nodes[n]->before_count == graph->nodes[n]->before_count;
    *out = (UpdateResult){equal ? 0 : 2, NULL, NULL}; /* 2: the topology has changed */
    if (!equal) return keep(910);
    Graph *made = copy_graph(graph);
    for (uint32_t n = 0; n < made->count; n++) made->nodes[n]->origin = exec->nodes[n]->origin;
    *exec = *made;
    return SUCCESS;
}
