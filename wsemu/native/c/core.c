/* Modules, launches, copies, streams and graphs, as the driver's and the runtime's functions use them. */
#define _GNU_SOURCE
#include "state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

/* -- modules -- */

enum { WRAPPER = 0x466243b1, FAT_BINARY = 0xba55ed50u, ELF = 0x464c457f };

static uint64_t word(const unsigned char *data, size_t at, size_t bytes) {
    uint64_t value = 0;
    memcpy(&value, data + at, bytes);
    return value;
}

/* The bytes of an image: a fat binary, a cubin, or text that ends with 0. */
static const void *image_of(const void *image, size_t *bytes) {
    const unsigned char *data = image;
    uint32_t magic = (uint32_t)word(data, 0, 4);
    if (magic == WRAPPER) return image_of((const void *)word(data, 8, 8), bytes);
    if (magic == FAT_BINARY) {
        *bytes = word(data, 8, 8) + word(data, 6, 2);
    } else if (magic == ELF) {
        size_t programs = word(data, 0x20, 8) + word(data, 0x36, 2) * word(data, 0x38, 2);
        size_t sections = word(data, 0x28, 8) + word(data, 0x3a, 2) * word(data, 0x3c, 2);
        *bytes = programs > sections ? programs : sections;
    } else {
        *bytes = strlen(image) + 1;
    }
    return image;
}

typedef struct Reader { const char *data, *end; } Reader;

static uint64_t read_number(Reader *reader, size_t bytes) {
    uint64_t value = 0;
    if ((size_t)(reader->end - reader->data) >= bytes) memcpy(&value, reader->data, bytes);
    reader->data += bytes;
    return value;
}

static char *read_text(Reader *reader) {
    size_t length = (size_t)read_number(reader, 4);
    char *text = calloc(1, length + 1);
    memcpy(text, reader->data, length);
    reader->data += length;
    return text;
}

static void read_function(Reader *reader, Function *function, Module *module, uint32_t index) {
    function->module = module;
    function->index = index;
    function->name = read_text(reader);
    function->parameter_count = (uint32_t)read_number(reader, 4);
    function->offsets = calloc(function->parameter_count + 1, sizeof(uint32_t));
    function->sizes = calloc(function->parameter_count + 1, sizeof(uint32_t));
    for (uint32_t n = 0; n < function->parameter_count; n++) {
        function->offsets[n] = (uint32_t)read_number(reader, 4);
        function->sizes[n] = (uint32_t)read_number(reader, 4);
        function->parameter_bytes = function->offsets[n] + function->sizes[n];
    }
    function->max_threads = (int)read_number(reader, 4);
    function->version = (int)read_number(reader, 4);
    for (int n = 0; n < 3; n++) function->required_cluster[n] = (int)read_number(reader, 4);
    add_handle(function, FUNCTION);
}

static Result place_variables(Module *module) {
    uint64_t words[module->variable_count + 1];
    words[0] = module->id;
    for (uint32_t n = 0; n < module->variable_count; n++) {
        struct Variable *one = &module->variables[n];
        Result result = allocate_memory(&one->address, one->bytes ? one->bytes : 1, one->managed ? MANAGED : DEVICE);
        if (result) return result;
        find_allocation(one->address)->kind = VARIABLE;
        words[n + 1] = one->address;
    }
    Reply reply; /* the server writes their first contents: the program may write next */
    Result result = ask_server(OP_BIND, words, sizeof words, NULL, 0, &reply);
    free(reply.data);
    return result;
}

Result load_module(Module **out, const void *image, size_t bytes) {
    static uint32_t next_id;
    if (!out || !image) return INVALID_VALUE;
    if (!bytes) image = image_of(image, &bytes);
    uint32_t id = ++next_id;
    write_output();
    Reply reply;
    Result result = ask_server(OP_MODULE, &id, sizeof id, image, bytes, &reply);
    if (result) { free(reply.data); return result; }
    Module *module = calloc(1, sizeof *module);
    Reader reader = {reply.data, reply.data + reply.length};
    module->id = id;
    module->function_count = (uint32_t)read_number(&reader, 4);
    module->variable_count = (uint32_t)read_number(&reader, 4);
    module->functions = calloc(module->function_count + 1, sizeof *module->functions);
    module->variables = calloc(module->variable_count + 1, sizeof *module->variables);
    for (uint32_t n = 0; n < module->function_count; n++) read_function(&reader, &module->functions[n], module, n);
    for (uint32_t n = 0; n < module->variable_count; n++) {
        module->variables[n].name = read_text(&reader);
        module->variables[n].bytes = read_number(&reader, 8);
        module->variables[n].managed = (int)read_number(&reader, 4);
    }
    free(reply.data);
    result = place_variables(module);
    if (!result) { add_handle(module, MODULE); *out = module; }
    return result;
}

Function *find_function(Module *module, const char *name) {
    for (uint32_t n = 0; name && n < module->function_count; n++)
        if (!strcmp(module->functions[n].name, name)) return &module->functions[n];
    return NULL;
}

struct Variable *find_variable(Module *module, const char *name) {
    for (uint32_t n = 0; name && n < module->variable_count; n++)
        if (!strcmp(module->variables[n].name, name)) return &module->variables[n];
    return NULL;
}

Result inspect_function(Function *function) {
    if (function->inspected) return SUCCESS;
    uint32_t words[2] = {function->module->id, function->index};
    Reply reply;
    Result result = ask_server(OP_KERNEL, words, sizeof words, NULL, 0, &reply);
    if (!result && reply.length >= 16) {
        memcpy(&function->shared_bytes, reply.data, 4);
        memcpy(&function->registers, reply.data + 4, 4);
        memcpy(&function->local_bytes, reply.data + 8, 4);
        memcpy(&function->const_bytes, reply.data + 12, 4);
        function->inspected = true;
    }
    free(reply.data);
    return result;
}

Result occupancy_of(Function *function, int threads, uint64_t dynamic, int *blocks) {
    struct { uint32_t module, index; int32_t threads, unused; uint64_t dynamic; } head = {function->module->id, function->index, threads, 0, dynamic};
    if (!blocks || threads <= 0) return INVALID_VALUE;
    Reply reply;
    Result result = ask_server(OP_OCCUPANCY, &head, sizeof head, NULL, 0, &reply);
    if (!result && reply.length >= 4) memcpy(blocks, reply.data, 4);
    free(reply.data);
    return result;
}

/* -- streams -- */

static bool is_default(const void *stream) { return (uintptr_t)stream <= 2; } /* 0, cudaStreamLegacy, cudaStreamPerThread */

Result check_stream(const void *stream) { return is_default(stream) || has_handle(stream, STREAM) ? SUCCESS : INVALID_HANDLE; }

Stream *stream_of(const void *stream) { return is_default(stream) ? NULL : (Stream *)stream; }

Graph *capturing(const void *stream) {
    Stream *one = has_handle(stream, STREAM) ? stream_of(stream) : NULL;
    return one && one->capture && one->capture->capture_number == one->capture_number ? one->capture : NULL;
}
/* A stream captures into a graph: streams that join it later end with it, because they keep its number. */
void begin_capture(Stream *stream, Graph *graph) {
    static uint64_t captures;
    if (!graph->capture_number) {
        graph->capture_number = ++captures;
        graph->origin = stream;
    }
    stream->capture = graph;
    stream->capture_number = graph->capture_number;
    stream->ends.count = 0;
}

/* -- copies -- */

/* Copy, with an error instead of a crash for a host address that is none. */
static Result copy_checked(void *to, bool to_host, const void *from, bool from_host, uint64_t bytes) {
    if (!to_host && !from_host) { memmove(to, from, bytes); return SUCCESS; }
    char *target = to;
    const char *source = from;
    while (bytes) {
        struct iovec here = {to_host ? (void *)source : target, bytes}, there = {to_host ? target : (void *)source, bytes};
        ssize_t done = to_host ? process_vm_writev(getpid(), &here, 1, &there, 1, 0) : process_vm_readv(getpid(), &here, 1, &there, 1, 0);
        if (done <= 0) {
            static int usable = -1; /* whether the system lets a process do so */
            if (usable < 0) {
                char a = 1, b = 0;
                struct iovec one = {&b, 1}, other = {&a, 1};
                usable = process_vm_readv(getpid(), &one, 1, &other, 1, 0) == 1;
            }
            if (usable) return INVALID_VALUE;
            memmove(target, source, bytes);
            return SUCCESS;
        }
        target += done;
        source += done;
        bytes -= (uint64_t)done;
    }
    return SUCCESS;
}

Result copy_memory(void *to, const void *from, uint64_t bytes, const void *stream, bool asynchronous) {
    Result result = check_stream(stream);
    if (result || !bytes) return result;
    Graph *graph = asynchronous ? capturing(stream) : NULL;
    if (graph) {
        Node *node = capture_node(stream, NODE_COPY);
        node->to = (Address)to;
        node->from = (Address)from;
        node->bytes = bytes;
        return SUCCESS;
    }
    bool to_device = find_allocation((Address)to), from_device = find_allocation((Address)from);
    void *target = to_device ? host_memory((Address)to, bytes) : to;
    const void *source = from_device ? host_memory((Address)from, bytes) : from;
    if (!target || !source) return INVALID_VALUE;
    result = copy_checked(target, !to_device, source, !from_device, bytes);
    if (!result) send_action(COPY, stream, NULL, (Address)to, (Address)from, bytes, asynchronous);
    return result;
}

Result copy_rows(Address to, uint64_t to_pitch, Address from, uint64_t from_pitch, uint64_t width, uint64_t height,
                 const void *stream, bool asynchronous) {
    if (height > 1 && (width > to_pitch || width > from_pitch)) return INVALID_PITCH;
    if (to_pitch == width && from_pitch == width) return copy_memory((void *)to, (const void *)from, width * height, stream, asynchronous);
    for (uint64_t y = 0; y < height; y++) {
        Result result = copy_memory((void *)(to + y * to_pitch), (const void *)(from + y * from_pitch), width, stream, asynchronous);
        if (result) return result;
    }
    return SUCCESS;
}

Result fill_memory(Address to, unsigned value, unsigned width, uint64_t count, const void *stream, bool asynchronous) {
    Result result = check_stream(stream);
    if (result || !count) return result;
    if (to % width || count > UINT64_MAX / width) return INVALID_VALUE;
    Graph *graph = asynchronous ? capturing(stream) : NULL;
    if (graph) {
        Node *node = capture_node(stream, NODE_FILL);
        node->to = to;
        node->value = value;
        node->width = width;
        node->bytes = count;
        return SUCCESS;
    }
    Allocation *registered = find_allocation(to) ? NULL : find_registered((void *)to);
    if (registered) to = registered->address + (to - (Address)registered->host);
    char *target = host_memory(to, count * width);
    if (!target) return INVALID_VALUE;
    if (width == 1) memset(target, (int)value, count);
    else for (uint64_t n = 0; n < count; n++) memcpy(target + n * width, &value, width);
    send_action(FILL, stream, NULL, to, 0, count * width, asynchronous);
    return SUCCESS;
}

/* -- launches -- */

static Result check_shape(Function *function, const Shape *shape) {
    uint64_t threads = 1;
    for (int n = 0; n < 3; n++) {
        threads *= shape->block[n];
        if (!shape->block[n] || !shape->grid[n]) return INVALID_CONFIGURATION;
        if (shape->block[n] > (unsigned)attributes[2 + n] || shape->grid[n] > (unsigned)attributes[5 + n]) return INVALID_CONFIGURATION;
    }
    if (threads > (uint64_t)attributes[1]) return INVALID_CONFIGURATION;
    if (threads > (uint64_t)function->max_threads) return OUT_OF_RESOURCES;
    unsigned most = function->any_dynamic ? (unsigned)attributes[97] : function->dynamic ? (unsigned)function->dynamic : (unsigned)attributes[8];
    return shape->shared > most ? INVALID_VALUE : SUCCESS;
}

/* Print, once for a kernel and an error, why a launch does not run: its program may not look. */
static Result refuse_shape(Function *function, const Shape *shape, Result result) {
    static Table seen;
    lock();
    if (table_get(&seen, function) != (void *)(uintptr_t)result) {
        table_put(&seen, function, (void *)(uintptr_t)result);
        const unsigned *grid = shape->grid, *block = shape->block;
        fprintf(stderr, "wsemu: the launch of `%s` does not run: %s: grid %u x %u x %u, block %u x %u x %u, %u bytes of dynamic shared memory\n", function->name, error_text(result), grid[0], grid[1], grid[2], block[0], block[1], block[2], shape->shared);
    }
    unlock();
    return result;
}

/* -- what kernels print: it is written when the host waits, as by CUDA -- */

typedef struct Text { char *data; size_t used, room; } Text;
static Text printed[2]; /* for stdout and stderr */

static void append(Text *text, const char *data, size_t length) {
    if (text->used + length > text->room) {
        text->room = 2 * (text->used + length);
        text->data = realloc(text->data, text->room);
    }
    memcpy(text->data + text->used, data, length);
    text->used += length;
}

/* A reply to a launch: the bytes for stdout, their number before them, and those for stderr. */
static void keep_output(const Reply *reply) {
    uint32_t length;
    if (reply->length < sizeof length) return;
    memcpy(&length, reply->data, sizeof length);
    append(&printed[0], reply->data + sizeof length, length);
    append(&printed[1], reply->data + sizeof length + length, reply->length - sizeof length - length);
}

void write_output(void) {
    FILE *files[2] = {stdout, stderr};
    for (int n = 0; n < 2; n++) {
        if (!printed[n].used) continue;
        fwrite(printed[n].data, 1, printed[n].used, files[n]);
        fflush(files[n]);
        printed[n].used = 0;
    }
}

bool has_output(void) { return printed[0].used || printed[1].used; }

Result launch_bytes(Function *function, const Shape *shape, const void *stream, const void *parameters) {
    Graph *graph = capturing(stream);
    if (graph) {
        Node *node = capture_node(stream, NODE_KERNEL);
        node->function = function;
        node->shape = *shape;
        node->parameters = malloc(function->parameter_bytes + 1);
        memcpy(node->parameters, parameters, function->parameter_bytes);
        return SUCCESS;
    }
    write_output();
    struct { uint32_t module, index, grid[3], block[3], shared, cluster[3], flags, unused; uint64_t stream; } head = {
        function->module->id, function->index, {shape->grid[0], shape->grid[1], shape->grid[2]},
        {shape->block[0], shape->block[1], shape->block[2]}, shape->shared,
        {shape->cluster[0], shape->cluster[1], shape->cluster[2]},
        (uint32_t)((shape->cooperative ? 1 : 0) | (shape->dependent ? 2 : 0)), 0, (uint64_t)own_stream(stream)};
    Reply reply;
    char all[sizeof head + 4096];
    memcpy(all, &head, sizeof head);
    bool small = function->parameter_bytes <= 4096;
    if (small) memcpy(all + sizeof head, parameters, function->parameter_bytes);
    ask_server(OP_LAUNCH, all, sizeof head + (small ? function->parameter_bytes : 0), small ? NULL : parameters,
               small ? 0 : function->parameter_bytes, &reply);
    keep_output(&reply);
    free(reply.data);
    if (reply.status < 0) { /* what only later calls return */
        sticky = -reply.status;
        return SUCCESS;
    }
    return reply.status;
}

Result pack_parameters(Function *function, void **parameters, void **extra, char *bytes) {
    if (parameters) {
        for (uint32_t n = 0; n < function->parameter_count; n++) {
            Result result = parameters[n] ? copy_checked(bytes + function->offsets[n], false, parameters[n], true, function->sizes[n]) : INVALID_VALUE;
            if (result) return result;
        }
        return SUCCESS;
    }
    if (!extra) return function->parameter_count ? INVALID_VALUE : SUCCESS;
    const void *buffer = NULL; /* pairs of a kind (1: the buffer, 2: a pointer to its bytes) and a pointer, up to 0 */
    size_t size = 0;
    for (int n = 0; extra[n]; n += 2) {
        if (extra[n] == (void *)1) buffer = extra[n + 1];
        else if (extra[n] == (void *)2) size = *(size_t *)extra[n + 1];
        else return INVALID_VALUE;
    }
    if (!buffer) return function->parameter_bytes ? INVALID_VALUE : SUCCESS;
    memcpy(bytes, buffer, size < function->parameter_bytes ? size : function->parameter_bytes);
    return SUCCESS;
}

Result launch_function(Function *function, const Shape *shape, const void *stream, void **parameters, void **extra) {
    if (!has_handle(function, FUNCTION)) return INVALID_HANDLE;
    Result result = check_stream(stream);
    if (result) return result;
    result = check_shape(function, shape);
    if (result) return refuse_shape(function, shape, result);
    char *bytes = calloc(1, function->parameter_bytes + 1);
    result = pack_parameters(function, parameters, extra, bytes);
    if (!result) result = launch_bytes(function, shape, stream, bytes);
    free(bytes);
    return result;
}

/* -- graphs -- */

Node *add_node(Graph *graph, NodeKind kind) {
    Node *node = calloc(1, sizeof *node);
    node->kind = kind;
    node->graph = graph;
    if (graph->count == graph->room) {
        graph->room = graph->room ? 2 * graph->room : 8;
        graph->nodes = realloc(graph->nodes, graph->room * sizeof(Node *));
    }
    graph->nodes[graph->count++] = node;
    add_handle(node, NODE);
    return node;
}

void come_after(Ends *ends, Node *const *nodes, size_t count) {
    ends->nodes = realloc(ends->nodes, (ends->count + count + 1) * sizeof(Node *));
    for (size_t n = 0; n < count; n++) {
        uint32_t k = 0;
        while (k < ends->count && ends->nodes[k] != nodes[n]) k++;
        if (k == ends->count && has_handle(nodes[n], NODE)) ends->nodes[ends->count++] = nodes[n];
    }
}

void mark_up_to(const Graph *graph, const Ends *ends) {
    for (uint32_t n = 0; n < graph->count; n++) graph->nodes[n]->done = false;
    for (uint32_t n = 0; n < ends->count; n++) ends->nodes[n]->done = true;
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t n = graph->count; n-- > 0;) { /* in most graphs, a node is made after those before it */
            const Node *node = graph->nodes[n];
            for (uint32_t k = 0; node->done && k < node->before_count; k++) {
                moved = moved || !node->before[k]->done;
                node->before[k]->done = true;
            }
        }
    }
}

/* A captured node comes after what its stream captured before, and after the events that it has waited for. */
Node *capture_node(const void *stream, NodeKind kind) {
    Stream *one = stream_of(stream);
    Node *node = add_node(one->capture, kind);
    Ends before = {NULL, 0};
    come_after(&before, one->ends.nodes, one->ends.count); /* without those that were destroyed */
    node->before = before.nodes;
    node->before_count = before.count;
    node->capture_number = one->capture_number;
    one->ends.count = 0;
    come_after(&one->ends, &node, 1);
    return node;
}

static unsigned condition_of(const Node *node) {
    unsigned value = 0;
    const void *place = host_memory(node->to, sizeof value);
    if (place) memcpy(&value, place, sizeof value);
    return value;
}

static Result run_conditional(const Node *node, const void *stream) {
    unsigned value = condition_of(node);
    if (node->value == WHILE) {
        for (Result result; !sticky && condition_of(node);)
            if ((result = run_graph(node->bodies[0], stream))) return result;
        return SUCCESS;
    }
    unsigned chosen = node->value == IF ? !value : value;
    return chosen < node->body_count ? run_graph(node->bodies[chosen], stream) : SUCCESS;
}

static Result launch_node(const Node *node, const void *stream) {
    if (!has_handle(node->function, FUNCTION)) return INVALID_HANDLE;
    Result result = check_shape(node->function, &node->shape);
    if (!result) return launch_bytes(node->function, &node->shape, stream, node->parameters);
    refuse_shape(node->function, &node->shape, result);
    return result == INVALID_CONFIGURATION ? INVALID_VALUE : result; /* as CUDA's graphs */
}

Result cuEventRecord(void *, void *), cuStreamWaitEvent(void *, void *, unsigned);
static Result run_node(Node *node, const void *stream) {
    switch (node->kind) {
    case NODE_KERNEL: return launch_node(node, stream);
    case NODE_COPY: return copy_memory((void *)node->to, (const void *)node->from, node->bytes, stream, true);
    case NODE_ROWS: return node->run_copy(node->copy, stream);
    case NODE_FILL:
        for (uint64_t y = 0; y < (node->height ? node->height : 1); y++) {
            Result result = fill_memory(node->to + y * node->to_pitch, node->value, node->width, node->bytes, stream, true);
            if (result) return result;
        }
        return SUCCESS;
    case NODE_HOST:
        send_action(HOST_CALL, stream, NULL, 0, 0, 0, 0);
        node->call(node->data);
        return SUCCESS;
    case NODE_GRAPH: return run_graph(node->child, stream);
    case NODE_FREE: {
        Allocation *one = find_allocation(node->to);
        if (!one || one->pool == OF_GRAPH) return SUCCESS;
        if (one->address == node->to) send_action(FREE_IN_STREAM, stream, NULL, 0, node->to, 0, 0);
        return free_memory(node->to, DEVICE);
    }
    case NODE_CONDITIONAL: return run_conditional(node, stream);
    case NODE_RECORD: return has_handle(node->data, EVENT) ? cuEventRecord(node->data, (void *)stream) : SUCCESS;
    case NODE_WAIT: return has_handle(node->data, EVENT) ? cuStreamWaitEvent((void *)stream, node->data, 0) : SUCCESS;
    default: return SUCCESS;
    }
}

static bool is_ready(const Node *node) {
    for (uint32_t n = 0; n < node->before_count; n++)
        if (!node->before[n]->done) return false;
    return !node->done;
}

/* Whether each node comes right after the one that was made before it: then all of them have the order of the stream. */
static bool is_chain(const Graph *graph) {
    for (uint32_t n = 1; n < graph->count; n++) {
        const Node *node = graph->nodes[n];
        uint32_t k = 0;
        while (k < node->before_count && node->before[k] != graph->nodes[n - 1]) k++;
        if (k == node->before_count) return false;
    }
    return true;
}

static void begin_node(const Node *node, const void *stream) {
    send_action(GRAPH_NODE, stream, node, 0, 0, 0, 0);
    for (uint32_t n = 0; n < node->before_count; n++) send_action(GRAPH_EDGE, stream, node->before[n], 0, 0, 0, 0);
}

static Result run_nodes(Graph *graph, const void *stream, bool branches) {
    for (uint32_t n = 0; n < graph->count; n++) graph->nodes[n]->done = false;
    for (uint32_t n = 0; n < graph->condition_count; n++) {
        const Condition *one = &graph->conditions[n];
        Result result = one->assigned ? fill_memory(one->address, one->value, 4, 1, stream, true) : SUCCESS;
        if (result) return result;
    }
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t n = 0; n < graph->count; n++) {
            Node *node = graph->nodes[n];
            if (!is_ready(node)) continue;
            if (sticky) return SUCCESS; /* no node runs after a failure, which later calls return */
            if (branches) begin_node(node, stream);
            Result result = node->disabled ? SUCCESS : run_node(node, stream);
            if (result) return result;
            node->done = moved = true;
        }
    }
    return SUCCESS;
}

Result run_graph(Graph *graph, const void *stream) {
    bool branches = !is_chain(graph);
    send_action(GRAPH_BEGIN, stream, graph, 0, 0, 0, branches);
    Result result = run_nodes(graph, stream, branches);
    send_action(GRAPH_END, stream, graph, 0, 0, 0, 0);
    return result;
}

/* Return the bytes of a text about launches since the last call that were not verified, and as many of it as have room. */
EXPORT size_t wsemu_take_reports(char *text, size_t room) {
    if (!is_connected()) return 0;
    Reply reply;
    lock();
    ask_server(OP_REPORTS, NULL, 0, NULL, 0, &reply);
    unlock();
    size_t length = reply.length;
    memcpy(text, reply.data, length < room ? length : room);
    free(reply.data);
    return length;
}

/* Forget the error that a launch has left the device with, for a program that goes on with something independent. */
EXPORT void wsemu_clear_error(void) {
    lock();
    clear_sticky();
    unlock();
}
