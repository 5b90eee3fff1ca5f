/* Graphs, of the driver: their nodes, copies and changes.  Those of captures are filled in core.c. */
#define _GNU_SOURCE
#include "state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void leave(int *unused) { (void)unused; unlock(); }
#define GUARD __attribute__((cleanup(leave))) int guard = (lock(), 0); (void)guard
#define BEGIN GUARD; log_call("%s", __func__); { Result failed = begin_call(); if (failed) return failed; }
#define NEED(condition) do { if (!(condition)) return INVALID_VALUE; } while (0)
#define HANDLE(handle, kind) do { if (!has_handle(handle, kind)) return INVALID_HANDLE; } while (0)
Result cuEventRecord(void *, void *), cuStreamWaitEvent(void *, void *, unsigned), cuStreamBeginCapture_v2(void *, int);

/* -- objects of the program that graphs own: the last reference that goes has the object destroyed, after the call -- */

typedef struct UserObject { void *data; void (*destroy)(void *); unsigned count; struct UserObject *next; } UserObject;
struct Owned { UserObject *object; unsigned count; };
static UserObject *dead;

static void destroy_dead(int *unused) {
    (void)unused;
    for (;;) {
        lock();
        UserObject *one = dead;
        if (one) dead = one->next;
        unlock();
        if (!one) return;
        one->destroy(one->data);
        free(one);
    }
}
#define DESTROYS __attribute__((cleanup(destroy_dead))) int destroys = 0; (void)destroys /* before BEGIN: it ends after the lock */

static void release(UserObject *object, unsigned count) {
    object->count -= count < object->count ? count : object->count;
    if (object->count) return;
    remove_handle(object);
    object->next = dead;
    dead = object;
}
static void own(Graph *graph, UserObject *object, unsigned count) {
    for (uint32_t n = 0; n < graph->object_count; n++)
        if (graph->objects[n].object == object) { graph->objects[n].count += count; return; }
    graph->objects = realloc(graph->objects, (graph->object_count + 1) * sizeof *graph->objects);
    graph->objects[graph->object_count++] = (struct Owned){object, count};
}
static void drop_objects(Graph *graph) {
    for (uint32_t n = 0; n < graph->object_count; n++)
        if (graph->objects[n].count) release(graph->objects[n].object, graph->objects[n].count);
    graph->object_count = 0;
    for (uint32_t n = 0; n < graph->count; n++) {
        Node *node = graph->nodes[n];
        if (node->child) drop_objects(node->child);
        for (uint32_t k = 0; k < node->body_count; k++) drop_objects(node->bodies[k]);
    }
}
EXPORT Result cuUserObjectCreate(UserObject **out, void *data, void (*destroy)(void *), unsigned count, unsigned flags) {
    BEGIN; NEED(out && destroy && count && count <= INT32_MAX && flags == 1);
    *out = calloc(1, sizeof **out);
    **out = (UserObject){data, destroy, count, NULL};
    add_handle(*out, USER_OBJECT);
    return SUCCESS;
}
EXPORT Result cuUserObjectRetain(UserObject *object, unsigned count) { BEGIN; NEED(has_handle(object, USER_OBJECT) && count && count <= INT32_MAX - object->count); object->count += count; return SUCCESS; }
EXPORT Result cuUserObjectRelease(UserObject *object, unsigned count) { DESTROYS; BEGIN; NEED(has_handle(object, USER_OBJECT) && count && count <= object->count); release(object, count); return SUCCESS; }
enum { MOVE = 1 };
EXPORT Result cuGraphRetainUserObject(Graph *graph, UserObject *object, unsigned count, unsigned flags) {
    BEGIN; NEED(has_handle(graph, GRAPH) && has_handle(object, USER_OBJECT) && count && count <= INT32_MAX - object->count && !(flags & ~(unsigned)MOVE));
    NEED(!(flags & MOVE) || count <= object->count);
    if (!(flags & MOVE)) object->count += count;
    own(graph, object, count);
    return SUCCESS;
}
EXPORT Result cuGraphReleaseUserObject(Graph *graph, UserObject *object, unsigned count) {
    DESTROYS; BEGIN; NEED(has_handle(graph, GRAPH) && has_handle(object, USER_OBJECT) && count);
    for (uint32_t n = 0; n < graph->object_count; n++) {
        if (graph->objects[n].object != object || graph->objects[n].count < count) continue;
        graph->objects[n].count -= count;
        release(object, count);
        return SUCCESS;
    }
    return INVALID_VALUE;
}

/* -- graphs as a whole -- */

EXPORT Result cuGraphCreate(Graph **graph, unsigned flags) { BEGIN; NEED(graph && !flags); *graph = calloc(1, sizeof(Graph)); add_handle(*graph, GRAPH); return SUCCESS; }
EXPORT Result cuGraphDestroy(Graph *graph) { DESTROYS; BEGIN; HANDLE(graph, GRAPH); remove_handle(graph); drop_objects(graph); return SUCCESS; }
EXPORT Result cuGraphExecDestroy(Graph *exec) { DESTROYS; BEGIN; HANDLE(exec, EXEC); remove_handle(exec); drop_objects(exec); return SUCCESS; }

/* Copies of child graphs and bodies are handles, too: a program asks nodes for them. */
static Graph *copy_inner(const Graph *graph) {
    Graph *made = copy_graph(graph);
    add_handle(made, GRAPH);
    return made;
}
Graph *copy_graph(const Graph *graph) {
    Graph *made = calloc(1, sizeof *made);
    made->condition_count = graph->condition_count;
    made->conditions = calloc(graph->condition_count + 1, sizeof *made->conditions);
    if (graph->condition_count) memcpy(made->conditions, graph->conditions, graph->condition_count * sizeof *made->conditions);
    for (uint32_t n = 0; n < graph->object_count; n++) {
        if (!graph->objects[n].count) continue;
        graph->objects[n].object->count += graph->objects[n].count;
        own(made, graph->objects[n].object, graph->objects[n].count);
    }
    for (uint32_t n = 0; n < graph->count; n++) {
        Node *node = add_node(made, graph->nodes[n]->kind), *old = graph->nodes[n];
        *node = *old;
        node->graph = made;
        node->origin = old;
        node->pointers = NULL;
        if (old->bodies) {
            node->bodies = calloc(old->body_count, sizeof(Graph *));
            for (uint32_t k = 0; k < old->body_count; k++) {
                node->bodies[k] = copy_inner(old->bodies[k]);
                node->bodies[k]->parent = made;
            }
        }
        if (old->kind == NODE_KERNEL) {
            node->parameters = malloc(old->function->parameter_bytes + 1);
            memcpy(node->parameters, old->parameters, old->function->parameter_bytes);
        }
        if (old->child) node->child = copy_inner(old->child);
        node->before = calloc(old->before_count + 1, sizeof(Node *));
        for (uint32_t k = 0; k < old->before_count; k++)
            for (uint32_t m = 0; m < graph->count; m++)
                if (graph->nodes[m] == old->before[k]) node->before[k] = (Node *)(uintptr_t)(m + 1);
    }
    for (uint32_t n = 0; n < made->count; n++)
        for (uint32_t k = 0; k < made->nodes[n]->before_count; k++)
            made->nodes[n]->before[k] = made->nodes[(uintptr_t)made->nodes[n]->before[k] - 1];
    return made;
}
/* CUDA copies no graph that allocates or frees memory or has conditional nodes, except to instantiate it. */
static Result check_copy(const Graph *graph) {
    for (uint32_t n = 0; n < graph->count; n++)
        if (graph->nodes[n]->kind >= NODE_ALLOCATE) return NOT_SUPPORTED;
    return SUCCESS;
}
EXPORT Result cuGraphClone(Graph **clone, Graph *graph) {
    BEGIN; NEED(clone); HANDLE(graph, GRAPH);
    Result wrong = check_copy(graph);
    if (!wrong) *clone = copy_inner(graph);
    return wrong;
}

/* Whether each node comes after the nodes before it in some order, in inner graphs, too. */
static bool has_order(Graph *graph) {
    uint32_t left = graph->count;
    for (uint32_t n = 0; n < graph->count; n++) {
        Node *node = graph->nodes[n];
        node->done = false;
        if (node->child && !has_order(node->child)) return false;
        for (uint32_t k = 0; k < node->body_count; k++)
            if (!has_order(node->bodies[k])) return false;
    }
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t n = 0; n < graph->count; n++) {
            Node *node = graph->nodes[n];
            bool ready = !node->done;
            for (uint32_t k = 0; ready && k < node->before_count; k++) ready = node->before[k]->done;
            if (!ready) continue;
            node->done = moved = true;
            left--;
        }
    }
    return !left;
}
enum { INSTANTIATE_FLAGS = 15 };
static Result instantiate(Graph **exec, Graph *graph, uint64_t flags) {
    NEED(exec && !(flags & ~(uint64_t)INSTANTIATE_FLAGS));
    HANDLE(graph, GRAPH);
    NEED(has_order(graph));
    *exec = copy_graph(graph);
    (*exec)->flags = flags;
    add_handle(*exec, EXEC);
    return SUCCESS;
}
EXPORT Result cuGraphInstantiateWithFlags(Graph **exec, Graph *graph, unsigned long long flags) { BEGIN; return instantiate(exec, graph, flags); }
typedef struct Instantiation { uint64_t flags; void *stream; Node *node; int result; } Instantiation;
EXPORT Result cuGraphInstantiateWithParams(Graph **exec, Graph *graph, Instantiation *given) {
    BEGIN; NEED(given);
    Result result = instantiate(exec, graph, given->flags);
    given->node = NULL;
    given->result = result != SUCCESS;
    return result;
}
EXPORT Result cuGraphInstantiate_v2(Graph **exec, Graph *graph, Node **node, char *log, size_t bytes) { BEGIN; if (node) *node = NULL; if (log && bytes) *log = 0; return instantiate(exec, graph, 0); }
ALIAS(cuGraphInstantiate, cuGraphInstantiate_v2);
EXPORT Result cuGraphExecGetFlags(Graph *exec, uint64_t *flags) { BEGIN; NEED(flags); HANDLE(exec, EXEC); *flags = exec->flags; return SUCCESS; }
EXPORT Result cuGraphLaunch(Graph *exec, void *stream) {
    BEGIN; HANDLE(exec, EXEC);
    Result result = check_stream(stream);
    if (result) return result;
    Graph *graph = capturing(stream);
    if (graph) { capture_node(stream, NODE_GRAPH)->child = copy_inner(exec); return SUCCESS; }
    return run_graph(exec, stream);
}
EXPORT Result cuGraphUpload(Graph *exec, void *stream) { BEGIN; HANDLE(exec, EXEC); return check_stream(stream); }

/* -- nodes and their edges -- */

enum { EDGE_BYTES = 8 };
/* Nodes wait for the whole of the nodes before them: an edge that lets a kernel start before, or a port, is refused. */
static Result check_plain(const void *edges, size_t count) {
    for (size_t n = 0; edges && n < EDGE_BYTES * count; n++)
        if (((const char *)edges)[n]) return unsupported("cuGraphAddDependencies_v2 of edges that are programmatic or have ports");
    return SUCCESS;
}
static Result check_place(Graph *graph, Node *const *before, const void *edges, size_t count) {
    NEED(has_handle(graph, GRAPH) && (before || !count));
    for (size_t n = 0; n < count; n++) {
        NEED(has_handle(before[n], NODE) && before[n]->graph == graph);
        for (size_t k = 0; k < n; k++) NEED(before[k] != before[n]);
    }
    return check_plain(edges, count);
}
#define PLACE BEGIN; NEED(out); { Result wrong = check_place(graph, before, NULL, count); if (wrong) return wrong; }
static Node *place(Node **out, Graph *graph, Node *const *before, size_t count, NodeKind kind) {
    Node *node = add_node(graph, kind);
    node->before = calloc(count + 1, sizeof(Node *));
    node->before_count = (uint32_t)count;
    for (size_t n = 0; n < count; n++) node->before[n] = before[n];
    *out = node;
    return node;
}
EXPORT Result cuStreamBeginCaptureToGraph(void *stream, Graph *graph, Node *const *before, const void *edges, size_t count, int mode) {
    BEGIN;
    Result result = check_place(graph, before, edges, count);
    if (!result) result = graph->capture_number ? ILLEGAL_STATE : cuStreamBeginCapture_v2(stream, mode);
    if (result) return result;
    begin_capture(stream_of(stream), graph);
    come_after(&stream_of(stream)->ends, before, count);
    return SUCCESS;
}
/* What a program takes out of the nodes that the next one comes after needs no join at the end of the capture. */
static void release_capture(const Graph *graph, Ends *ends) {
    mark_up_to(graph, ends);
    for (uint32_t n = 0; n < graph->count; n++)
        if (graph->nodes[n]->done) graph->nodes[n]->capture_number = 0;
    ends->count = 0;
}
enum { ADD, REPLACE };
static Result update_capture(void *stream, Node *const *before, const void *edges, size_t count, unsigned flags) {
    BEGIN; NEED(flags <= 1);
    Result result = check_stream(stream);
    if (result) return result;
    Graph *graph = capturing(stream);
    if (!graph) return ILLEGAL_STATE;
    result = check_place(graph, before, edges, count);
    if (result) return result;
    Ends *ends = &stream_of(stream)->ends;
    if (flags == REPLACE) release_capture(graph, ends);
    come_after(ends, before, count);
    return SUCCESS;
}
EXPORT Result cuStreamUpdateCaptureDependencies(void *stream, Node *const *before, size_t count, unsigned flags) { return update_capture(stream, before, NULL, count, flags); }
EXPORT Result cuStreamUpdateCaptureDependencies_v2(void *stream, Node *const *before, const void *edges, size_t count, unsigned flags) { return update_capture(stream, before, edges, count, flags); }
static uint32_t find_edge(const Node *from, const Node *to) {
    uint32_t n = 0;
    while (n < to->before_count && to->before[n] != from) n++;
    return n;
}
static void remove_edge(Node *to, uint32_t n) {
    to->before_count--;
    memmove(to->before + n, to->before + n + 1, (to->before_count - n) * sizeof(Node *));
}
static Result check_edges(Graph *graph, Node *const *from, Node *const *to, size_t count, bool are_there) {
    NEED(has_handle(graph, GRAPH) && ((from && to) || !count));
    for (size_t n = 0; n < count; n++) {
        NEED(has_handle(from[n], NODE) && has_handle(to[n], NODE) && from[n]->graph == graph && to[n]->graph == graph && from[n] != to[n]);
        NEED((find_edge(from[n], to[n]) < to[n]->before_count) == are_there);
        for (size_t k = 0; k < n; k++) NEED(from[k] != from[n] || to[k] != to[n]);
    }
    return SUCCESS;
}
EXPORT Result cuGraphAddDependencies(Graph *graph, Node *const *from, Node *const *to, size_t count) {
    BEGIN;
    Result wrong = check_edges(graph, from, to, count, false);
    for (size_t n = 0; !wrong && n < count; n++) {
        to[n]->before = realloc(to[n]->before, (to[n]->before_count + 1) * sizeof(Node *));
        to[n]->before[to[n]->before_count++] = from[n];
    }
    return wrong;
}
/* CUDA refuses to take nodes and edges out of graphs that allocate or free memory. */
static bool has_memory(const Graph *graph) {
    for (uint32_t n = 0; n < graph->count; n++)
        if (graph->nodes[n]->kind == NODE_ALLOCATE || graph->nodes[n]->kind == NODE_FREE) return true;
    return false;
}
EXPORT Result cuGraphRemoveDependencies(Graph *graph, Node *const *from, Node *const *to, size_t count) {
    BEGIN;
    Result wrong = check_edges(graph, from, to, count, true);
    if (!wrong && count && has_memory(graph)) return NOT_SUPPORTED;
    for (size_t n = 0; !wrong && n < count; n++) {
        uint32_t found = find_edge(from[n], to[n]);
        if (found < to[n]->before_count) remove_edge(to[n], found);
    }
    return wrong;
}
EXPORT Result cuGraphAddDependencies_v2(Graph *graph, Node *const *from, Node *const *to, const void *edges, size_t count) { Result wrong = check_plain(edges, count); return wrong ? wrong : cuGraphAddDependencies(graph, from, to, count); }
EXPORT Result cuGraphRemoveDependencies_v2(Graph *graph, Node *const *from, Node *const *to, const void *edges, size_t count) { Result wrong = check_plain(edges, count); return wrong ? wrong : cuGraphRemoveDependencies(graph, from, to, count); }

/* An array that a program gives for answers, and its room; it is told how many there are. */
typedef struct Answers { Node **first, **second; char *edges; size_t room, found; } Answers;
static void answer(Answers *all, Node *first, Node *second) {
    if (all->found < all->room) {
        if (all->first) all->first[all->found] = first;
        if (all->second) all->second[all->found] = second;
        if (all->edges) memset(all->edges + EDGE_BYTES * all->found, 0, EDGE_BYTES);
    }
    all->found++;
}
static Result finish(Answers *all, size_t *count) {
    for (size_t n = all->found; n < all->room && all->first; n++) all->first[n] = NULL;
    for (size_t n = all->found; n < all->room && all->second; n++) all->second[n] = NULL;
    if (!(all->first || all->second) || *count > all->found) *count = all->found;
    return SUCCESS;
}
EXPORT Result cuGraphGetNodes(Graph *graph, Node **nodes, size_t *count) {
    BEGIN; HANDLE(graph, GRAPH); NEED(count);
    Answers all = {nodes, NULL, NULL, nodes ? *count : 0, 0};
    for (uint32_t n = 0; n < graph->count; n++) answer(&all, graph->nodes[n], NULL);
    return finish(&all, count);
}
EXPORT Result cuGraphGetRootNodes(Graph *graph, Node **nodes, size_t *count) {
    BEGIN; HANDLE(graph, GRAPH); NEED(count);
    Answers all = {nodes, NULL, NULL, nodes ? *count : 0, 0};
    for (uint32_t n = 0; n < graph->count; n++)
        if (!graph->nodes[n]->before_count) answer(&all, graph->nodes[n], NULL);
    return finish(&all, count);
}
EXPORT Result cuGraphGetEdges_v2(Graph *graph, Node **from, Node **to, void *edges, size_t *count) {
    BEGIN; HANDLE(graph, GRAPH); NEED(count && !from == !to);
    Answers all = {from, to, edges, from ? *count : 0, 0};
    for (uint32_t n = 0; n < graph->count; n++)
        for (uint32_t k = 0; k < graph->nodes[n]->before_count; k++) answer(&all, graph->nodes[n]->before[k], graph->nodes[n]);
    return finish(&all, count);
}
EXPORT Result cuGraphGetEdges(Graph *graph, Node **from, Node **to, size_t *count) { return cuGraphGetEdges_v2(graph, from, to, NULL, count); }
EXPORT Result cuGraphNodeGetDependencies_v2(Node *node, Node **nodes, void *edges, size_t *count) {
    BEGIN; NEED(has_handle(node, NODE) && count);
    Answers all = {nodes, NULL, edges, nodes ? *count : 0, 0};
    for (uint32_t n = 0; n < node->before_count; n++) answer(&all, node->before[n], NULL);
    return finish(&all, count);
}
EXPORT Result cuGraphNodeGetDependencies(Node *node, Node **nodes, size_t *count) { return cuGraphNodeGetDependencies_v2(node, nodes, NULL, count); }
EXPORT Result cuGraphNodeGetDependentNodes_v2(Node *node, Node **nodes, void *edges, size_t *count) {
    BEGIN; NEED(has_handle(node, NODE) && count);
    const Graph *graph = node->graph;
    Answers all = {nodes, NULL, edges, nodes ? *count : 0, 0};
    for (uint32_t n = 0; n < graph->count; n++)
        if (find_edge(node, graph->nodes[n]) < graph->nodes[n]->before_count) answer(&all, graph->nodes[n], NULL);
    return finish(&all, count);
}
EXPORT Result cuGraphNodeGetDependentNodes(Node *node, Node **nodes, size_t *count) { return cuGraphNodeGetDependentNodes_v2(node, nodes, NULL, count); }
EXPORT Result cuGraphDestroyNode(Node *node) {
    DESTROYS; BEGIN; NEED(has_handle(node, NODE));
    Graph *graph = node->graph;
    if (has_memory(graph)) return NOT_SUPPORTED;
    for (uint32_t n = 0, kept = 0, all = graph->count; n < all; n++) {
        Node *one = graph->nodes[n];
        uint32_t edge = find_edge(node, one);
        if (edge < one->before_count) remove_edge(one, edge);
        if (one == node) graph->count--;
        else graph->nodes[kept++] = one;
    }
    if (node->child) drop_objects(node->child);
    for (uint32_t k = 0; k < node->body_count; k++) drop_objects(node->bodies[k]);
    remove_handle(node);
    return SUCCESS;
}
EXPORT Result cuGraphNodeFindInClone(Node **out, const Node *node, Graph *clone) {
    BEGIN; NEED(out && has_handle(node, NODE) && has_handle(clone, GRAPH));
    *out = node_of(clone, node);
    return *out ? SUCCESS : INVALID_VALUE;
}

/* -- kinds of nodes -- */

typedef struct KernelParameters { Function *function; unsigned grid[3], block[3], shared; void **arguments, **extra; Function *kernel; void *context; } KernelParameters;
typedef struct FillParameters { Address to; size_t pitch; unsigned value, element; size_t width, height; } FillParameters;
typedef struct HostParameters { void (*call)(void *); void *data; } HostParameters;
typedef struct MemoryParameters { int type, handles, place, number; char rest[72]; const void *access; size_t access_count, bytes; Address address; } MemoryParameters;

Result set_node_kernel(Node *node, Function *function, const Shape *shape, void **arguments, void **extra) {
    if (!has_handle(function, FUNCTION)) return INVALID_VALUE;
    char *bytes = calloc(1, function->parameter_bytes + 1);
    Result result = pack_parameters(function, arguments, extra, bytes);
    if (result) { free(bytes); return result; }
    free(node->pointers);
    free(node->parameters);
    node->pointers = NULL;
    node->function = function;
    node->shape = *shape;
    node->parameters = bytes;
    return SUCCESS;
}
static Result set_kernel(Node *node, const KernelParameters *given, bool has_kernel) {
    NEED(given);
    Shape shape = node->shape; /* its attributes stay */
    memcpy(shape.grid, given->grid, sizeof shape.grid);
    memcpy(shape.block, given->block, sizeof shape.block);
    shape.shared = given->shared;
    for (int n = 0; n < 3; n++) NEED(shape.grid[n] && shape.block[n]);
    return set_node_kernel(node, given->function || !has_kernel ? given->function : given->kernel, &shape, given->arguments, given->extra);
}
static Result set_fill(Node *node, const FillParameters *given) {
    NEED(given && (given->element == 1 || given->element == 2 || given->element == 4) && given->width && given->height);
    NEED(given->height == 1 || given->pitch / given->element >= given->width);
    node->to = given->to;
    node->to_pitch = given->pitch;
    node->value = given->value;
    node->width = given->element;
    node->bytes = given->width;
    node->height = given->height;
    return SUCCESS;
}
static Result set_host(Node *node, const HostParameters *given) {
    NEED(given && given->call);
    node->call = given->call;
    node->data = given->data;
    return SUCCESS;
}
static Result set_event(Node *node, void *event) { NEED(has_handle(event, EVENT)); node->data = event; return SUCCESS; }
static Result set_copy(Node *node, const void *copy) {
    NEED(copy);
    node->kind = NODE_ROWS;
    node->copy = malloc(DRIVER_COPY_BYTES);
    memcpy(node->copy, copy, DRIVER_COPY_BYTES);
    node->run_copy = run_driver_copy;
    return SUCCESS;
}
static Result set_child(Node *node, Graph *child) {
    NEED(has_handle(child, GRAPH));
    Graph *old = node->child;
    Result wrong = check_copy(child);
    if (wrong) return wrong;
    node->child = copy_inner(child);
    if (old) drop_objects(old);
    return SUCCESS;
}
#define ADD(kind_, set) \
    Node made = {.kind = (kind_)}; \
    PLACE; \
    Result result = set; \
    if (result) return result; \
    Node *node = place(out, graph, before, count, made.kind); \
    made.before = node->before; made.before_count = node->before_count; made.graph = node->graph; \
    *node = made; \
    return SUCCESS
#define PLACE_OF Node **out, Graph *graph, Node *const *before, size_t count
EXPORT Result cuGraphAddKernelNode(PLACE_OF, const KernelParameters *given) { ADD(NODE_KERNEL, set_kernel(&made, given, false)); }
EXPORT Result cuGraphAddKernelNode_v2(PLACE_OF, const KernelParameters *given) { ADD(NODE_KERNEL, set_kernel(&made, given, true)); }
EXPORT Result cuGraphAddMemcpyNode(PLACE_OF, const void *copy, void *context) { (void)context; ADD(NODE_ROWS, set_copy(&made, copy)); }
EXPORT Result cuGraphAddMemsetNode(PLACE_OF, const FillParameters *given, void *context) { (void)context; ADD(NODE_FILL, set_fill(&made, given)); }
EXPORT Result cuGraphAddHostNode(PLACE_OF, const HostParameters *given) { ADD(NODE_HOST, set_host(&made, given)); }
EXPORT Result cuGraphAddEmptyNode(PLACE_OF) { ADD(NODE_EMPTY, SUCCESS); }
EXPORT Result cuGraphAddEventRecordNode(PLACE_OF, void *event) { ADD(NODE_RECORD, set_event(&made, event)); }
EXPORT Result cuGraphAddEventWaitNode(PLACE_OF, void *event) { ADD(NODE_WAIT, set_event(&made, event)); }
EXPORT Result cuGraphAddChildGraphNode(PLACE_OF, Graph *child) { ADD(NODE_GRAPH, set_child(&made, child)); }

/* -- memory of graphs: it has its address from the making of the node on, and is kept as long as the program runs -- */

static size_t memory_bytes, memory_high;

Result allocate_for_graph(Address *address, uint64_t bytes) {
    Result result = allocate_memory(address, bytes ? bytes : 1, DEVICE);
    if (result) return result;
    find_allocation(*address)->pool = OF_GRAPH;
    memory_bytes += bytes;
    if (memory_bytes > memory_high) memory_high = memory_bytes;
    return SUCCESS;
}
enum { PINNED_TYPE = 1, DEVICE_PLACE = 1 }; /* memory of the device, pinned */
static Result set_allocation(Node *node, MemoryParameters *given) {
    NEED(given && given->bytes && given->type <= PINNED_TYPE && given->place <= DEVICE_PLACE && !given->number);
    Result result = allocate_for_graph(&given->address, given->bytes);
    node->to = given->address;
    node->bytes = given->bytes;
    return result;
}
static Result set_free(Node *node, Address address) { NEED(find_allocation(address)); node->to = address; return SUCCESS; }
EXPORT Result cuGraphAddMemAllocNode(PLACE_OF, MemoryParameters *given) { ADD(NODE_ALLOCATE, set_allocation(&made, given)); }
EXPORT Result cuGraphAddMemFreeNode(PLACE_OF, Address address) { ADD(NODE_FREE, set_free(&made, address)); }
EXPORT Result cuGraphMemAllocNodeGetParams(Node *node, MemoryParameters *out) {
    BEGIN; NEED(has_handle(node, NODE) && node->kind == NODE_ALLOCATE && out);
    memset(out, 0, sizeof *out);
    out->type = PINNED_TYPE;
    out->place = DEVICE_PLACE;
    out->address = node->to;
    out->bytes = node->bytes;
    return SUCCESS;
}
EXPORT Result cuGraphMemFreeNodeGetParams(Node *node, Address *out) { BEGIN; NEED(has_handle(node, NODE) && node->kind == NODE_FREE && out); *out = node->to; return SUCCESS; }
EXPORT Result cuDeviceGetGraphMemAttribute(int device, int attribute, uint64_t *value) { BEGIN; NEED(!device && value && attribute >= 0 && attribute < 4); *value = attribute & 1 ? memory_high : memory_bytes; return SUCCESS; }
EXPORT Result cuDeviceSetGraphMemAttribute(int device, int attribute, const uint64_t *value) { BEGIN; NEED(!device && value && !*value && (attribute == 1 || attribute == 3)); memory_high = memory_bytes; return SUCCESS; }
EXPORT Result cuDeviceGraphMemTrim(int device) { BEGIN; NEED(!device); return SUCCESS; }

/* -- conditional nodes: the value of a handle is a word of device memory, which kernels write -- */

enum { ASSIGN_DEFAULT = 1, MAX_BODIES = 1 << 16 };
EXPORT Result cuGraphConditionalHandleCreate(uint64_t *handle, Graph *graph, void *context, unsigned value, unsigned flags) {
    BEGIN; (void)context; NEED(handle && has_handle(graph, GRAPH) && !(flags & ~(unsigned)ASSIGN_DEFAULT));
    Address address;
    Result result = allocate_memory(&address, 8, DEVICE);
    if (result) return result;
    graph->conditions = realloc(graph->conditions, (graph->condition_count + 1) * sizeof *graph->conditions);
    graph->conditions[graph->condition_count++] = (Condition){address, value, flags & ASSIGN_DEFAULT};
    *handle = address;
    return SUCCESS;
}
typedef struct ConditionalParameters { uint64_t handle; int type; unsigned size; Graph **bodies; } ConditionalParameters;
/* Whether a handle is of a graph, or of one around it. */
static bool owns_condition(const Graph *graph, uint64_t handle) {
    for (; graph; graph = graph->parent)
        for (uint32_t n = 0; n < graph->condition_count; n++)
            if (graph->conditions[n].address == handle) return true;
    return false;
}
static Result set_conditional(Node *node, Graph *graph, ConditionalParameters *given) {
    NEED(has_handle(graph, GRAPH) && owns_condition(graph, given->handle));
    NEED(given->size && given->size < MAX_BODIES && given->type >= IF && given->type <= SWITCH && host_memory(given->handle, 4));
    NEED(given->type != IF || given->size <= 2);
    NEED(given->type != WHILE || given->size == 1);
    node->to = given->handle;
    node->value = (unsigned)given->type;
    node->body_count = given->size;
    node->bodies = calloc(given->size, sizeof(Graph *));
    for (unsigned n = 0; n < given->size; n++) {
        node->bodies[n] = calloc(1, sizeof(Graph));
        node->bodies[n]->parent = graph;
        add_handle(node->bodies[n], GRAPH);
    }
    given->bodies = node->bodies;
    return SUCCESS;
}

/* -- nodes of any kind -- */

enum { TYPE_KERNEL, TYPE_COPY, TYPE_FILL, TYPE_HOST, TYPE_GRAPH, TYPE_EMPTY, TYPE_WAIT, TYPE_RECORD, TYPE_ALLOCATE = 10, TYPE_FREE, TYPE_CONDITIONAL = 13 };
static const struct { int type; const char *name; } KINDS[] = {
    [NODE_KERNEL] = {TYPE_KERNEL, "KERNEL"}, [NODE_COPY] = {TYPE_COPY, "MEMCPY"}, [NODE_ROWS] = {TYPE_COPY, "MEMCPY"},
    [NODE_FILL] = {TYPE_FILL, "MEMSET"}, [NODE_HOST] = {TYPE_HOST, "HOST"}, [NODE_EMPTY] = {TYPE_EMPTY, "EMPTY"},
    [NODE_GRAPH] = {TYPE_GRAPH, "GRAPH"}, [NODE_RECORD] = {TYPE_RECORD, "EVENT_RECORD"}, [NODE_WAIT] = {TYPE_WAIT, "EVENT_WAIT"},
    [NODE_ALLOCATE] = {TYPE_ALLOCATE, "MEM_ALLOC"}, [NODE_FREE] = {TYPE_FREE, "MEM_FREE"}, [NODE_CONDITIONAL] = {TYPE_CONDITIONAL, "CONDITIONAL"}};
EXPORT Result cuGraphNodeGetType(Node *node, int *type) { BEGIN; NEED(has_handle(node, NODE) && type); *type = KINDS[node->kind].type; return SUCCESS; }
typedef struct CopyNode { int flags, reserved; void *context; char copy[DRIVER_COPY_BYTES]; } CopyNode;
typedef struct NodeParameters {
    int type, reserved[3];
    union {
        long long words[29]; KernelParameters kernel; CopyNode copy; FillParameters fill; HostParameters host; void *event;
        struct { Graph *graph; int is_moved; } child;
        MemoryParameters memory; Address address; ConditionalParameters conditional;
    };
} NodeParameters;
EXPORT Result cuGraphAddNode_v2(Node **out, Graph *graph, Node *const *before, const void *edges, size_t count, NodeParameters *given) {
    NEED(given);
    Result wrong = check_plain(edges, count);
    if (wrong) return wrong;
    switch (given->type) {
    case TYPE_KERNEL: return cuGraphAddKernelNode_v2(out, graph, before, count, &given->kernel);
    case TYPE_COPY: return cuGraphAddMemcpyNode(out, graph, before, count, given->copy.copy, NULL);
    case TYPE_FILL: return cuGraphAddMemsetNode(out, graph, before, count, &given->fill, NULL);
    case TYPE_HOST: return cuGraphAddHostNode(out, graph, before, count, &given->host);
    case TYPE_GRAPH: return given->child.is_moved ? unsupported("cuGraphAddNode of a child graph that is moved") : cuGraphAddChildGraphNode(out, graph, before, count, given->child.graph);
    case TYPE_EMPTY: return cuGraphAddEmptyNode(out, graph, before, count);
    case TYPE_WAIT: return cuGraphAddEventWaitNode(out, graph, before, count, given->event);
    case TYPE_RECORD: return cuGraphAddEventRecordNode(out, graph, before, count, given->event);
    case TYPE_ALLOCATE: return cuGraphAddMemAllocNode(out, graph, before, count, &given->memory);
    case TYPE_FREE: return cuGraphAddMemFreeNode(out, graph, before, count, given->address);
    case TYPE_CONDITIONAL: { ADD(NODE_CONDITIONAL, set_conditional(&made, graph, &given->conditional)); }
    default: return unsupported("cuGraphAddNode of semaphores or batches of operations");
    }
}
EXPORT Result cuGraphAddNode(Node **out, Graph *graph, Node *const *before, size_t count, NodeParameters *given) { return cuGraphAddNode_v2(out, graph, before, NULL, count, given); }

static Result set_node(Node *node, NodeParameters *given) {
    NEED(given && given->type == KINDS[node->kind].type);
    switch (given->type) {
    case TYPE_KERNEL: return set_kernel(node, &given->kernel, true);
    case TYPE_COPY: return set_copy(node, given->copy.copy);
    case TYPE_FILL: return set_fill(node, &given->fill);
    case TYPE_HOST: return set_host(node, &given->host);
    case TYPE_GRAPH: return set_child(node, given->child.graph);
    case TYPE_WAIT:
    case TYPE_RECORD: return set_event(node, given->event);
    default: return INVALID_VALUE;
    }
}
#define OF_KIND(kind_) BEGIN; NEED(has_handle(node, NODE) && node->kind == (kind_))
EXPORT Result cuGraphNodeSetParams(Node *node, NodeParameters *given) { DESTROYS; BEGIN; NEED(has_handle(node, NODE)); return set_node(node, given); }
EXPORT Result cuGraphKernelNodeSetParams(Node *node, const KernelParameters *given) { OF_KIND(NODE_KERNEL); return set_kernel(node, given, false); }
EXPORT Result cuGraphKernelNodeSetParams_v2(Node *node, const KernelParameters *given) { OF_KIND(NODE_KERNEL); return set_kernel(node, given, true); }
EXPORT Result cuGraphMemcpyNodeSetParams(Node *node, const void *copy) { BEGIN; NEED(has_handle(node, NODE) && (node->kind == NODE_ROWS || node->kind == NODE_COPY)); return set_copy(node, copy); }
EXPORT Result cuGraphMemsetNodeSetParams(Node *node, const FillParameters *given) { OF_KIND(NODE_FILL); return set_fill(node, given); }
EXPORT Result cuGraphHostNodeSetParams(Node *node, const HostParameters *given) { OF_KIND(NODE_HOST); return set_host(node, given); }
EXPORT Result cuGraphEventRecordNodeSetEvent(Node *node, void *event) { OF_KIND(NODE_RECORD); return set_event(node, event); }
EXPORT Result cuGraphEventWaitNodeSetEvent(Node *node, void *event) { OF_KIND(NODE_WAIT); return set_event(node, event); }
EXPORT Result cuGraphEventRecordNodeGetEvent(Node *node, void **out) { OF_KIND(NODE_RECORD); NEED(out); *out = node->data; return SUCCESS; }
EXPORT Result cuGraphEventWaitNodeGetEvent(Node *node, void **out) { OF_KIND(NODE_WAIT); NEED(out); *out = node->data; return SUCCESS; }
EXPORT Result cuGraphChildGraphNodeGetGraph(Node *node, Graph **out) { OF_KIND(NODE_GRAPH); NEED(out); *out = node->child; return SUCCESS; }
EXPORT Result cuGraphHostNodeGetParams(Node *node, HostParameters *out) { OF_KIND(NODE_HOST); NEED(out); *out = (HostParameters){node->call, node->data}; return SUCCESS; }
EXPORT Result cuGraphMemsetNodeGetParams(Node *node, FillParameters *out) {
    OF_KIND(NODE_FILL); NEED(out);
    *out = (FillParameters){node->to, node->to_pitch, node->value, node->width, node->bytes, node->height ? node->height : 1};
    return SUCCESS;
}
EXPORT Result cuGraphMemcpyNodeGetParams(Node *node, void *out) {
    BEGIN; NEED(has_handle(node, NODE) && out);
    if (node->kind == NODE_COPY) { describe_copy(out, node->to, node->from, node->bytes); return SUCCESS; }
    NEED(node->kind == NODE_ROWS);
    if (node->run_copy != run_driver_copy) return unsupported("cuGraphMemcpyNodeGetParams of a node of the runtime");
    memcpy(out, node->copy, DRIVER_COPY_BYTES);
    return SUCCESS;
}
static Result get_kernel(Node *node, KernelParameters *out) {
    NEED(out);
    Function *function = node->function;
    if (!node->pointers) node->pointers = calloc(function->parameter_count + 1, sizeof(void *));
    for (uint32_t n = 0; n < function->parameter_count; n++) node->pointers[n] = (char *)node->parameters + function->offsets[n];
    out->function = function;
    memcpy(out->grid, node->shape.grid, sizeof out->grid);
    memcpy(out->block, node->shape.block, sizeof out->block);
    out->shared = node->shape.shared;
    out->arguments = node->pointers;
    out->extra = NULL;
    return SUCCESS;
}
EXPORT Result cuGraphKernelNodeGetParams(Node *node, KernelParameters *out) { OF_KIND(NODE_KERNEL); return get_kernel(node, out); }
EXPORT Result cuGraphKernelNodeGetParams_v2(Node *node, KernelParameters *out) { OF_KIND(NODE_KERNEL); if (out) out->kernel = out->context = NULL; return get_kernel(node, out); }

enum { COOPERATIVE = 2, CLUSTER = 4, DEPENDENT = 6, ATTRIBUTE_BYTES = 64, HINTS = 0x1cf2b }; /* HINTS: bits of attributes that change only the time */
EXPORT Result cuGraphKernelNodeSetAttribute(Node *node, int attribute, const void *value) {
    OF_KIND(NODE_KERNEL); NEED(value);
    if (attribute == COOPERATIVE) memcpy(&node->shape.cooperative, value, sizeof node->shape.cooperative);
    else if (attribute == CLUSTER) memcpy(node->shape.cluster, value, sizeof node->shape.cluster);
    else if (attribute == DEPENDENT) memcpy(&node->shape.dependent, value, sizeof node->shape.dependent);
    else if (attribute < 0 || attribute >= 32 || !(HINTS >> attribute & 1)) return unsupported("cuGraphKernelNodeSetAttribute of events or updates by kernels");
    return SUCCESS;
}
EXPORT Result cuGraphKernelNodeGetAttribute(Node *node, int attribute, void *value) {
    OF_KIND(NODE_KERNEL); NEED(value);
    memset(value, 0, ATTRIBUTE_BYTES);
    if (attribute == COOPERATIVE) memcpy(value, &node->shape.cooperative, sizeof node->shape.cooperative);
    if (attribute == CLUSTER) memcpy(value, node->shape.cluster, sizeof node->shape.cluster);
    if (attribute == DEPENDENT) memcpy(value, &node->shape.dependent, sizeof node->shape.dependent);
    return SUCCESS;
}
EXPORT Result cuGraphDebugDotPrint(Graph *graph, const char *path, unsigned flags) {
    BEGIN; (void)flags; NEED(has_handle(graph, GRAPH) && path);
    FILE *file = fopen(path, "w");
    if (!file) return INVALID_VALUE;
    fprintf(file, "digraph dot {\n");
    for (uint32_t n = 0; n < graph->count; n++) {
        Node *node = graph->nodes[n];
        fprintf(file, "  \"%p\" [label=\"%s%s%s\"];\n", (void *)node, KINDS[node->kind].name, node->function ? " " : "", node->function ? node->function->name : "");
        for (uint32_t k = 0; k < node->before_count; k++) fprintf(file, "  \"%p\" -> \"%p\";\n", (void *)node->before[k], (void *)node);
    }
    fprintf(file, "}\n");
    return fclose(file) ? INVALID_VALUE : SUCCESS;
}

/* -- changes of a graph that is instantiated -- */

Node *node_of(const Graph *copy, const Node *node) {
    for (uint32_t n = 0; n < copy->count; n++)
        if (copy->nodes[n]->origin == node) return copy->nodes[n];
    return NULL;
}
#define EXEC_NODE BEGIN; NEED(has_handle(exec, EXEC) && has_handle(node, NODE)); Node *mine = node_of(exec, node); NEED(mine)
#define EXEC_KIND(kind_) EXEC_NODE; NEED(mine->kind == (kind_))
EXPORT Result cuGraphExecKernelNodeSetParams(Graph *exec, Node *node, const KernelParameters *given) { EXEC_KIND(NODE_KERNEL); return set_kernel(mine, given, false); }
EXPORT Result cuGraphExecKernelNodeSetParams_v2(Graph *exec, Node *node, const KernelParameters *given) { EXEC_KIND(NODE_KERNEL); return set_kernel(mine, given, true); }
EXPORT Result cuGraphExecMemcpyNodeSetParams(Graph *exec, Node *node, const void *copy, void *context) { (void)context; EXEC_NODE; NEED(mine->kind == NODE_ROWS || mine->kind == NODE_COPY); return set_copy(mine, copy); }
EXPORT Result cuGraphExecMemsetNodeSetParams(Graph *exec, Node *node, const FillParameters *given, void *context) { (void)context; EXEC_KIND(NODE_FILL); return set_fill(mine, given); }
EXPORT Result cuGraphExecHostNodeSetParams(Graph *exec, Node *node, const HostParameters *given) { EXEC_KIND(NODE_HOST); return set_host(mine, given); }
EXPORT Result cuGraphExecEventRecordNodeSetEvent(Graph *exec, Node *node, void *event) { EXEC_KIND(NODE_RECORD); return set_event(mine, event); }
EXPORT Result cuGraphExecEventWaitNodeSetEvent(Graph *exec, Node *node, void *event) { EXEC_KIND(NODE_WAIT); return set_event(mine, event); }
EXPORT Result cuGraphNodeSetEnabled(Graph *exec, Node *node, unsigned given) { EXEC_NODE; NEED(KINDS[mine->kind].type <= TYPE_FILL); mine->disabled = !given; return SUCCESS; }
EXPORT Result cuGraphNodeGetEnabled(Graph *exec, Node *node, unsigned *out) { EXEC_NODE; NEED(out && KINDS[mine->kind].type <= TYPE_FILL); *out = !mine->disabled; return SUCCESS; }

enum { TOPOLOGY = 2, KIND = 3, UPDATE_FAILED = 910 };
typedef struct UpdateResult { int result; Node *node, *from; } UpdateResult;
static bool has_edges_of(const Graph *graph, const Node *mine, const Node *other) {
    if (mine->before_count != other->before_count) return false;
    for (uint32_t k = 0; k < other->before_count; k++) {
        uint32_t n = 0;
        while (other->graph->nodes[n] != other->before[k]) n++;
        if (find_edge(graph->nodes[n], mine) == mine->before_count) return false;
    }
    return true;
}
/* Compare the nodes of two graphs, in the order in which they were made, their edges and their inner graphs. */
static UpdateResult compare_graphs(const Graph *graph, const Graph *other) {
    UpdateResult found = {graph->count == other->count ? 0 : TOPOLOGY, NULL, NULL};
    for (uint32_t n = 0; !found.result && n < other->count; n++) {
        Node *mine = graph->nodes[n], *theirs = other->nodes[n];
        if (KINDS[mine->kind].type != KINDS[theirs->kind].type) found.result = KIND;
        else if (!has_edges_of(graph, mine, theirs) || mine->body_count != theirs->body_count || (mine->body_count && mine->value != theirs->value)) found.result = TOPOLOGY;
        else if (mine->child) found = compare_graphs(mine->child, theirs->child);
        for (uint32_t k = 0; !found.result && k < mine->body_count; k++) found = compare_graphs(mine->bodies[k], theirs->bodies[k]);
        if (found.result && !found.node) found.node = theirs;
    }
    return found;
}
EXPORT Result cuGraphExecUpdate_v2(Graph *exec, Graph *graph, UpdateResult *out) {
    DESTROYS; BEGIN; NEED(has_handle(exec, EXEC) && has_handle(graph, GRAPH) && out);
    *out = compare_graphs(exec, graph);
    if (out->result) return UPDATE_FAILED;
    Graph *made = copy_graph(graph);
    made->flags = exec->flags;
    for (uint32_t n = 0; n < made->count; n++) made->nodes[n]->origin = exec->nodes[n]->origin;
    drop_objects(exec);
    *exec = *made;
    for (uint32_t n = 0; n < exec->count; n++) exec->nodes[n]->graph = exec;
    return SUCCESS;
}
static Result replace_child(Node *node, Graph *child) { NEED(has_handle(child, GRAPH) && !compare_graphs(node->child, child).result); return set_child(node, child); }
EXPORT Result cuGraphExecChildGraphNodeSetParams(Graph *exec, Node *node, Graph *child) { DESTROYS; EXEC_KIND(NODE_GRAPH); return replace_child(mine, child); }
EXPORT Result cuGraphExecNodeSetParams(Graph *exec, Node *node, NodeParameters *given) {
    DESTROYS; EXEC_NODE; NEED(given);
    return mine->kind == NODE_GRAPH && given->type == TYPE_GRAPH ? replace_child(mine, given->child.graph) : set_node(mine, given);
}
EXPORT Result cuGraphExecUpdate(Graph *exec, Graph *graph, Node **node, int *result) {
    UpdateResult found = {0, NULL, NULL};
    Result returned = cuGraphExecUpdate_v2(exec, graph, &found);
    if (node) *node = found.node;
    if (result) *result = found.result;
    return returned;
}
