/* What the parts of the driver share: memory, the connection to the server, handles.

   The driver has its own declarations of CUDA's documented functions and structures, no header of the toolkit. */
#ifndef WSEMU_STATE_H
#define WSEMU_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))
#define ALIAS(new_name, name) extern __typeof(name) new_name __attribute__((alias(#name), visibility("default")))

/* The function `name_suffix`, which does what `name` does, with the stream of the thread as the default stream. */
#define PER_THREAD_AS(name, suffix) \
    EXPORT void name##suffix(void); \
    EXPORT __attribute__((naked)) void name##suffix(void) { \
        __asm__("movq default_stream@gottpoff(%rip), %rax\n\tmovq $2, %fs:(%rax)\n\tjmp " #name "@PLT"); \
    }

typedef int Result;       /* CUresult and cudaError_t, whose numbers agree where this driver uses them */
typedef uint64_t Address; /* CUdeviceptr */

enum {
    SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, INVALID_CONFIGURATION = 9,
    INVALID_PITCH = 12, INVALID_SYMBOL = 13, INVALID_DIRECTION = 21, INVALID_FUNCTION = 98, NO_DEVICE = 100,
    INVALID_DEVICE = 101, INVALID_IMAGE = 200, INVALID_CONTEXT = 201, NO_BINARY = 209, UNSUPPORTED_LIMIT = 215,
    PEER_UNSUPPORTED = 217, FILE_NOT_FOUND = 301, INVALID_HANDLE = 400, ILLEGAL_STATE = 401, NOT_FOUND = 500,
    OUT_OF_RESOURCES = 701, PEER_NOT_ENABLED = 705, ALREADY_REGISTERED = 712, NOT_REGISTERED = 713,
    LAUNCH_FAILED = 719, TOO_LARGE = 720, NOT_SUPPORTED = 801, CAPTURE_UNSUPPORTED = 900, CAPTURE_UNMATCHED = 903,
    CAPTURE_UNJOINED = 904, CAPTURE_IMPLICIT = 906, UNKNOWN = 999
};

/* -- memory -- */

enum { OF_GRAPH = 1 };
enum { DEVICE, MANAGED, PINNED, REGISTERED, VARIABLE, BLANK }; /* BLANK: managed, and nothing has written it yet */

typedef struct Allocation {
    Address address;
    uint64_t bytes;
    uint64_t offset; /* of the shared file */
    int kind;
    int pool;        /* OF_GRAPH: a node of a graph allocates it */
    void *host;      /* of registered memory, its address in the program */
    int preferred[2], prefetched[2]; /* of managed memory: types and numbers of locations */
    int accessed;    /* bits: by the device, by the host */
    bool read_mostly;
} Allocation;

Result allocate_memory(Address *address, uint64_t bytes, int kind);
Result free_memory(Address address, int kind);
Allocation *find_allocation(Address address);
bool is_shared(Address address); /* whether host-visible allocations have such addresses */
void *host_memory(Address address, uint64_t bytes); /* where the program can access bytes; NULL if they are not one allocation's */
Result register_memory(void *host, uint64_t bytes);
Result unregister_memory(void *host);
Allocation *find_registered(const void *host);
uint64_t used_memory(void);

/* -- the server -- */

enum {
    OP_HELLO = 1, OP_ALLOCATE, OP_FREE, OP_MODULE, OP_BIND, OP_UNLOAD, OP_LAUNCH, OP_MAP, OP_KERNEL, OP_OCCUPANCY,
    OP_ACTION, OP_SURFACE, OP_REPORTS
};
enum { COPY = 1, FILL, RECORD, WAIT, SYNC_STREAM, SYNC_EVENT, SYNC_ALL, NEW_STREAM, HOST_CALL, HOST_WRITE, FREE_IN_STREAM, DROP, GRAPH_BEGIN, GRAPH_NODE, GRAPH_EDGE, GRAPH_END };

typedef struct Reply {
    int32_t status;
    uint32_t length;
    char *data; /* freed by the receiver */
} Reply;

void lock(void);
const void *own_stream(const void *stream); /* the handle of a stream for the server: that of the default stream for none */
void unlock(void);
Result connect_server(void);
bool is_connected(void);
void send_message(int op, const void *head, size_t head_bytes, const void *body, size_t body_bytes);
Result ask_server(int op, const void *head, size_t head_bytes, const void *body, size_t body_bytes, Reply *reply);
void send_action(int kind, const void *stream, const void *event, Address to, Address from, uint64_t bytes, unsigned flags);
void log_call(const char *format, ...);

void write_output(void); /* what kernels have printed */
bool has_output(void);

extern int attributes[160]; /* of the device, by CUdevice_attribute */
extern char device_name[256];
extern uint64_t total_memory;

extern Result sticky; /* what an earlier launch has left the device with: every call returns it */
void clear_sticky(void); /* not the loss of the connection */
extern bool runtime_used; /* the program has called the runtime: its primary context is current */
Result begin_call(void); /* connect; the error that calls return, or success */
Result unsupported(const char *name);

/* -- handles: which pointers are live objects of a kind -- */

enum { STREAM = 1, EVENT, MODULE, FUNCTION, CONTEXT, GRAPH, EXEC, NODE, ARRAY, POOL, TEXTURE, LINK, PHYSICAL, USER_OBJECT };
void add_handle(const void *handle, int kind);
bool has_handle(const void *handle, int kind);
void remove_handle(const void *handle);

typedef struct Table Table; /* pointer -> pointer */
struct Table { const void **keys; void **values; size_t used, room; };
void *table_get(Table *table, const void *key);
void table_put(Table *table, const void *key, void *value);

/* -- modules and launches -- */

typedef struct Function Function;
typedef struct Module {
    uint32_t id;
    uint32_t function_count, variable_count;
    Function *functions;
    struct Variable { char *name; Address address; uint64_t bytes; int managed; } *variables;
} Module;

struct Function {
    Module *module;
    uint32_t index;
    char *name;
    uint32_t parameter_count, parameter_bytes;
    uint32_t *offsets, *sizes;
    int max_threads, version, dynamic, any_dynamic, nonportable;
    int required_cluster[3];
    int shared_bytes, registers, local_bytes, const_bytes; /* known after `inspect_function` */
    bool inspected;
};

typedef struct Shape {
    unsigned grid[3], block[3], shared, cluster[3];
    int cooperative, dependent;
} Shape;

Result load_module(Module **module, const void *image, size_t bytes);
Function *find_function(Module *module, const char *name);
struct Variable *find_variable(Module *module, const char *name);
Result inspect_function(Function *function);
Result launch_function(Function *function, const Shape *shape, const void *stream, void **parameters, void **extra);
Result check_stream(const void *stream);

Result copy_memory(void *to, const void *from, uint64_t bytes, const void *stream, bool asynchronous);
Result fill_memory(Address to, unsigned value, unsigned width, uint64_t count, const void *stream, bool asynchronous);
Result copy_rows(Address to, uint64_t to_pitch, Address from, uint64_t from_pitch, uint64_t width, uint64_t height,
                 const void *stream, bool asynchronous);
Result occupancy_of(Function *function, int threads, uint64_t dynamic, int *blocks);

/* -- streams -- */

typedef struct Ends { struct Node **nodes; uint32_t count; } Ends; /* nodes that the next captured one comes after */
typedef struct Stream { unsigned flags; int priority; uint64_t id; struct Graph *capture; uint64_t capture_number; Ends ends; } Stream;
typedef struct Event { unsigned flags; uint64_t recorded; double time; uint64_t capture_number; Ends ends; } Event; /* recorded in a capture, after its ends */
Stream *stream_of(const void *handle); /* NULL: a default stream */

/* -- graphs -- */

typedef struct Node Node;
typedef struct Condition { Address address; unsigned value; unsigned assigned; } Condition; /* assigned: at each launch */
typedef struct Graph {
    struct Graph *parent; /* of the body of a conditional node */
    Node **nodes;
    uint32_t count, room;
    Condition *conditions;
    uint32_t condition_count;
    struct Owned *objects; /* of the program, which the graph keeps alive */
    uint32_t object_count;
    uint64_t flags; /* of its instantiation */
    uint64_t capture_number; /* of the capture into it; 0: it is not captured */
    const Stream *origin;    /* the stream in which it began */
} Graph;
Graph *capturing(const void *stream);
void begin_capture(struct Stream *stream, Graph *graph);
void come_after(Ends *ends, Node *const *nodes, size_t count);
void mark_up_to(const Graph *graph, const Ends *ends); /* as done: these nodes, and all before them */
typedef enum { NODE_KERNEL, NODE_COPY, NODE_FILL, NODE_HOST, NODE_EMPTY, NODE_GRAPH, NODE_ROWS, NODE_RECORD, NODE_WAIT, NODE_ALLOCATE, NODE_FREE, NODE_CONDITIONAL } NodeKind; /* the last three are not copied */
enum { IF, WHILE, SWITCH }; /* kinds of conditional nodes */
struct Node {
    NodeKind kind;
    Graph *graph;
    Function *function;
    Shape shape;
    void *parameters; /* bytes, as they are passed */
    Address to, from;
    uint64_t bytes, to_pitch, from_pitch, height;
    unsigned value, width;
    void (*call)(void *);
    void *data;
    Graph *child;
    Node **before; /* nodes that come before it */
    uint32_t before_count;
    Graph **bodies; /* of a conditional node */
    uint32_t body_count;
    void *copy; /* a Copy3D of the driver or the runtime, in rows, and the function that runs it */
    Result (*run_copy)(const void *copy, const void *stream);
    void **pointers; /* to the parameters, for a program that asks for them */
    const Node *origin; /* of a node of an instantiated graph the one that it was made from */
    uint64_t capture_number; /* of the capture that has to join it */
    bool disabled;
    bool done;
};
Graph *copy_graph(const Graph *graph);
enum { DRIVER_COPY_BYTES = 200 }; /* of a copy in three dimensions */
Result run_copy(const void *copy, const void *stream);        /* of the runtime */
Result run_driver_copy(const void *copy, const void *stream); /* of the driver */
void describe_copy(void *out, Address to, Address from, uint64_t bytes); /* as a copy of the driver */
Node *node_of(const Graph *copy, const Node *node); /* the node of a copy that was made from a node */
Result set_node_kernel(Node *node, Function *function, const Shape *shape, void **arguments, void **extra);
Result pack_parameters(Function *function, void **parameters, void **extra, char *bytes);
Result allocate_for_graph(Address *address, uint64_t bytes);
Node *add_node(Graph *graph, NodeKind kind);
Node *capture_node(const void *stream, NodeKind kind);
Result run_graph(Graph *graph, const void *stream);

Result launch_bytes(Function *function, const Shape *shape, const void *stream, const void *parameters);

/* -- arrays -- */

typedef struct Texel { int kind, bits, channels; } Texel; /* bits of a channel */
typedef struct Array { Texel texel; uint64_t width, height, depth; unsigned flags; uint64_t pitch, slice; Address address; } Array;

Result keep(Result result); /* an error of the runtime, for cudaGetLastError */

/* -- names of errors -- */

const char *error_name(Result code);
const char *error_text(Result code);

bool has_old_runtime(const void *caller); /* before CUDA 13 */
void *symbol_of(const char *name); /* a function of this library, or NULL */

#endif
