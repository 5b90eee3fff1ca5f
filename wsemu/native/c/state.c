/* Memory that program and server share, and the connection between them. */
#define _GNU_SOURCE
#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { SHIFT = 40, WINDOWS = 1 << 14, FIRST = 16, LOW_END = 84, PAGE = 4096, ROOM = 256 };
/* A window is 2**40 addresses; those from FIRST to before LOW_END are below the places where Linux maps programs and
   libraries.  Allocations of a host-visible arena are ROOM bytes apart at least. */
static const uint64_t FILE_BYTES = 1ull << 40; /* sparse */
static const uint64_t ARENA_BYTES = 1ull << 36;

int attributes[160];
char device_name[256];
uint64_t total_memory;
Result sticky;

typedef struct Window {
    Allocation **list; /* by address */
    uint32_t count, room;
    uint64_t offset; /* of an arena, of the shared file */
    bool arena;
} Window;

static Window windows[WINDOWS];
static unsigned next_window = FIRST;
static unsigned *freed_windows;
static size_t freed_count, freed_first, freed_room;
static unsigned arena_window;
static uint64_t arena_top;
static uint64_t in_use;

static pthread_mutex_t mutex;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int connection = -1, shared_file = -1;
static char *alias; /* the shared file, mapped whole */
static uint64_t file_top = PAGE;
static bool forked, gone;

static char *pending;
static size_t pending_used, pending_room;

/* -- calls -- */

static void after_fork(void) {
    if (connection >= 0) forked = true; /* as in CUDA: a child cannot use the parent's context */
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&mutex, &kind);
}

static void start(void) {
    after_fork();
    pthread_atfork(NULL, NULL, after_fork);
}

/* Functions of programs with `--default-stream per-thread` (`..._ptsz`) set it, to the handle of that stream, for one call. */
__attribute__((tls_model("initial-exec"))) __thread uint64_t default_stream;
static __thread unsigned lock_depth;

void lock(void) {
    pthread_once(&once, start);
    pthread_mutex_lock(&mutex);
    lock_depth++;
}

void unlock(void) {
    if (!--lock_depth) default_stream = 0;
    pthread_mutex_unlock(&mutex);
}

const void *own_stream(const void *stream) { return stream ? stream : (const void *)default_stream; }

void log_call(const char *format, ...) {
    static FILE *file;
    static bool looked;
    if (!looked) {
        const char *name = getenv("WSEMU_LOG_CALLS");
        file = name ? fopen(name, "a") : NULL;
        if (file) setvbuf(file, NULL, _IOLBF, 0);
        looked = true;
    }
    if (!file) return;
    va_list list;
    va_start(list, format);
    vfprintf(file, format, list);
    va_end(list);
    fputc('\n', file);
}

Result begin_call(void) {
    Result result = connect_server();
    if (sticky) write_output();
    return result ? result : sticky;
}

Result unsupported(const char *name) {
    static Table seen;
    lock();
    log_call("%s: not supported", name);
    if (!table_get(&seen, name)) {
        table_put(&seen, name, (void *)1);
        fprintf(stderr, "wsemu: the program calls `%s`, which wsemu does not model: it returns error 801 (not supported)\n", name);
    }
    unlock();
    return NOT_SUPPORTED;
}

/* -- the connection -- */

static void lose(void) {
    if (!gone) fprintf(stderr, "wsemu: the connection to the emulator is lost: CUDA calls return error 999 from now on\n");
    gone = true;
    sticky = UNKNOWN;
}

void clear_sticky(void) {
    if (!gone) sticky = SUCCESS;
}

static void write_all(const void *data, size_t bytes) {
    const char *from = data;
    while (bytes && !gone) {
        ssize_t done = send(connection, from, bytes, MSG_NOSIGNAL);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) { lose(); return; }
        from += done;
        bytes -= (size_t)done;
    }
}

static void read_all(void *data, size_t bytes) {
    char *to = data;
    while (bytes && !gone) {
        ssize_t done = read(connection, to, bytes);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) { lose(); break; }
        to += done;
        bytes -= (size_t)done;
    }
    if (gone) memset(to, 0, bytes);
}

static void flush_pending(void) {
    write_all(pending, pending_used);
    pending_used = 0;
}

void send_message(int op, const void *head, size_t head_bytes, const void *body, size_t body_bytes) {
    if (forked) return; /* the connection is that of the parent */
    uint32_t start[2] = {(uint32_t)op, (uint32_t)(head_bytes + body_bytes)};
    size_t all = sizeof start + head_bytes;
    if (pending_used + all > pending_room) {
        if (pending_used) flush_pending();
        if (all > pending_room) {
            pending_room = all > 65536 ? all : 65536;
            pending = realloc(pending, pending_room);
        }
    }
    memcpy(pending + pending_used, start, sizeof start);
    if (head_bytes) memcpy(pending + pending_used + sizeof start, head, head_bytes);
    pending_used += all;
    if (body_bytes) {
        flush_pending();
        write_all(body, body_bytes);
    }
}

Result ask_server(int op, const void *head, size_t head_bytes, const void *body, size_t body_bytes, Reply *reply) {
    uint32_t start[2] = {UNKNOWN, 0};
    send_message(op, head, head_bytes, body, body_bytes);
    flush_pending();
    if (!forked) read_all(start, sizeof start);
    reply->status = gone ? UNKNOWN : (int32_t)start[0];
    reply->length = gone ? 0 : start[1];
    reply->data = calloc(1, (size_t)reply->length + 1);
    read_all(reply->data, reply->length);
    return reply->status;
}

void send_action(int kind, const void *stream, const void *event, Address to, Address from, uint64_t bytes, unsigned flags) {
    uint64_t words[7] = {(uint64_t)kind, (uint64_t)own_stream(stream), (uint64_t)event, to, from, bytes, flags};
    if (connection >= 0) send_message(OP_ACTION, words, sizeof words, NULL, 0);
    bool waits = kind == SYNC_STREAM || kind == SYNC_EVENT || kind == SYNC_ALL || kind == HOST_CALL || (kind == COPY && !flags);
    if (waits) write_output();
}

static bool send_file(void) {
    struct { uint32_t op, length; uint64_t pid; } hello = {OP_HELLO, 8, (uint64_t)getpid()};
    struct iovec part = {&hello, sizeof hello};
    union { char bytes[CMSG_SPACE(sizeof(int))]; struct cmsghdr head; } control;
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(head), &shared_file, sizeof(int));
    return sendmsg(connection, &message, MSG_NOSIGNAL) == (ssize_t)sizeof hello;
}

Result connect_server(void) {
    if (forked) return NOT_INITIALIZED;
    if (connection >= 0) return SUCCESS;
    lock();
    if (connection >= 0) { unlock(); return SUCCESS; }
    const char *path = getenv("WSEMU_SERVER");
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    if (!path || strlen(path) >= sizeof name.sun_path) { unlock(); return NO_DEVICE; }
    strcpy(name.sun_path, path);
    int handle = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    shared_file = memfd_create("wsemu", MFD_CLOEXEC);
    void *mapped = MAP_FAILED;
    if (handle >= 0 && shared_file >= 0 && !ftruncate(shared_file, (off_t)FILE_BYTES))
        mapped = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, shared_file, 0);
    if (mapped == MAP_FAILED || connect(handle, (struct sockaddr *)&name, sizeof name)) {
        fprintf(stderr, "wsemu: no connection to the emulator at `%s`: %s\n", path, strerror(errno));
        if (handle >= 0) close(handle);
        unlock();
        return NO_DEVICE;
    }
    connection = handle;
    alias = mapped;
    if (!send_file()) lose();
    uint32_t start[2];
    read_all(start, sizeof start);
    char *data = calloc(1, gone ? 1 : (size_t)start[1] + 1);
    if (!gone) read_all(data, start[1]);
    if (!gone) { /* number of attributes, pairs of them, memory, name */
        uint32_t count;
        memcpy(&count, data, 4);
        const int32_t *pairs = (const int32_t *)(data + 4);
        for (uint32_t n = 0; n < count; n++)
            if (pairs[2 * n] >= 0 && pairs[2 * n] < 160) attributes[pairs[2 * n]] = pairs[2 * n + 1];
        memcpy(&total_memory, data + 4 + 8 * (size_t)count, 8);
        snprintf(device_name, sizeof device_name, "%s", data + 12 + 8 * (size_t)count);
    }
    free(data);
    unlock();
    return gone ? UNKNOWN : SUCCESS;
}

__attribute__((destructor)) static void finish(void) { /* what the program did last, that nothing waits for */
    if (is_connected() && pending_used) flush_pending();
    if (!forked && has_output()) fprintf(stderr, "wsemu: output of kernels is lost: the program ends without waiting for them\n");
}

bool is_connected(void) { return connection >= 0 && !forked && !gone; }

/* -- memory -- */

static uint64_t round_up(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

static Allocation *last_before(Window *window, Address address) {
    uint32_t low = 0, high = window->count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (window->list[middle]->address <= address) low = middle + 1; else high = middle;
    }
    return low ? window->list[low - 1] : NULL;
}

Allocation *find_allocation(Address address) {
    uint64_t number = address >> SHIFT;
    if (number >= WINDOWS) return NULL;
    Allocation *found = last_before(&windows[number], address);
    return found && address < found->address + found->bytes ? found : NULL;
}

Allocation *find_registered(const void *host) {
    for (unsigned number = FIRST; number < LOW_END; number++)
        for (uint32_t n = 0; n < windows[number].count; n++) {
            Allocation *one = windows[number].list[n];
            if (one->kind == REGISTERED && (const char *)host >= (char *)one->host && (const char *)host < (char *)one->host + one->bytes)
                return one;
        }
    return NULL;
}

bool is_shared(Address address) { return address >> SHIFT >= FIRST && address >> SHIFT < LOW_END; }

void *host_memory(Address address, uint64_t bytes) {
    Allocation *one = find_allocation(address);
    if (!one || bytes > one->bytes - (address - one->address)) return NULL;
    return alias + one->offset + (address - one->address);
}

static void insert_allocation(Window *window, Allocation *one) {
    if (window->count == window->room) {
        window->room = window->room ? 2 * window->room : 1;
        window->list = realloc(window->list, window->room * sizeof *window->list);
    }
    uint32_t at = window->count++;
    while (at && window->list[at - 1]->address > one->address) { window->list[at] = window->list[at - 1]; at--; }
    window->list[at] = one;
}

/* -- extents of the shared file, which are used again -- */

typedef struct Extent { uint64_t offset, bytes; } Extent;
static Extent *extents;
static size_t extent_count, extent_room;

static uint64_t take_extent(uint64_t bytes) {
    for (size_t n = extent_count; n-- > 0;)
        if (extents[n].bytes == bytes) {
            uint64_t offset = extents[n].offset;
            extents[n] = extents[--extent_count];
            return offset;
        }
    if (file_top + bytes > FILE_BYTES) return 0;
    file_top += bytes;
    return file_top - bytes;
}

static void give_extent(uint64_t offset, uint64_t bytes) {
    fallocate(shared_file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)bytes);
    if (extent_count == extent_room) {
        extent_room = extent_room ? 2 * extent_room : 64;
        extents = realloc(extents, extent_room * sizeof *extents);
    }
    extents[extent_count++] = (Extent){offset, bytes};
}

static unsigned take_window(bool low) {
    unsigned end = low ? LOW_END : WINDOWS;
    while (next_window < end && (windows[next_window].count || next_window == LOW_END - 1)) next_window++; /* the last low one is the arena's */
    if (next_window < LOW_END) return next_window++;
    for (size_t n = freed_first; n < freed_count; n++) {
        unsigned number = freed_windows[n];
        if (low && number >= LOW_END) continue;
        memmove(freed_windows + freed_first + 1, freed_windows + freed_first, (n - freed_first) * sizeof *freed_windows);
        freed_first++;
        return number;
    }
    return !low && next_window < end ? next_window++ : 0;
}

static void announce(const Allocation *one) {
    uint64_t words[5] = {one->address, one->bytes, one->offset, (uint64_t)one->kind, 0};
    send_message(OP_ALLOCATE, words, sizeof words, NULL, 0);
}

static Result enter(Address address, uint64_t bytes, uint64_t offset, int kind, void *host, Window *window) {
    Allocation *one = calloc(1, sizeof *one);
    *one = (Allocation){address, bytes, offset, kind, 0, host};
    insert_allocation(window, one);
    in_use += kind == PINNED || kind == REGISTERED ? 0 : bytes;
    announce(one);
    return SUCCESS;
}

/* Freed places of the arena by their bytes, those of one size in one list. */
typedef struct Places { uint64_t bytes; Address *list; size_t count, room; } Places;
static Places *places;
static size_t place_sizes, place_room;

static Places *places_of(uint64_t bytes) {
    size_t low = 0, high = place_sizes;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (places[middle].bytes < bytes) low = middle + 1; else high = middle;
    }
    if (low < place_sizes && places[low].bytes == bytes) return &places[low];
    if (place_sizes == place_room) {
        place_room = place_room ? 2 * place_room : 64;
        places = realloc(places, place_room * sizeof *places);
    }
    memmove(places + low + 1, places + low, (place_sizes++ - low) * sizeof *places);
    places[low] = (Places){bytes, NULL, 0, 0};
    return &places[low];
}

static Address take_place(uint64_t bytes) {
    Places *of = places_of(bytes);
    return of->count ? of->list[--of->count] : 0;
}

enum { PUNCHED = 1 << 16 };
/* bytes from which on the pages of a freed place are given back */

static void give_place(Address address, uint64_t bytes) {
    if (bytes >= PUNCHED) {
        uint64_t first = round_up(address, PAGE), last = (address + bytes) / PAGE * PAGE;
        Window *window = &windows[arena_window];
        uint64_t offset = window->offset + (first - ((Address)arena_window << SHIFT));
        if (last > first) fallocate(shared_file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)(last - first));
    }
    Places *of = places_of(bytes);
    if (of->count == of->room) {
        of->room = of->room ? 2 * of->room : 8;
        of->list = realloc(of->list, of->room * sizeof *of->list);
    }
    of->list[of->count++] = address;
}

/* Host-visible memory beyond the low windows: one arena, mapped where its addresses are. */
static Result allocate_in_arena(Address *address, uint64_t bytes, int kind) {
    uint64_t size = round_up(bytes, ROOM) + ROOM;
    if (!arena_window) {
        uint64_t offset = take_extent(ARENA_BYTES);
        Address base = (Address)(LOW_END - 1) << SHIFT;
        if (!offset || mmap((void *)base, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE | MAP_NORESERVE,
                            shared_file, (off_t)offset) != (void *)base)
            return OUT_OF_MEMORY;
        arena_window = LOW_END - 1;
        windows[arena_window].arena = true;
        windows[arena_window].offset = offset;
        uint64_t words[5] = {base, ARENA_BYTES, offset, 99, 0};
        send_message(OP_ALLOCATE, words, sizeof words, NULL, 0);
    }
    Window *window = &windows[arena_window];
    Address base = (Address)arena_window << SHIFT, at = take_place(size);
    if (at) {
        /* a place that was freed */
    } else if (arena_top + size <= ARENA_BYTES) {
        at = base + arena_top;
        arena_top += size;
    } else {
        for (size_t n = 0; n < place_sizes; n++) places[n].count = 0; /* what is free is found among allocations */
        Address end = base;
        for (uint32_t n = 0; n <= window->count && !at; n++) {
            Address next = n < window->count ? window->list[n]->address : base + ARENA_BYTES;
            if (next >= end + size) at = end;
            if (n < window->count) end = round_up(next + window->list[n]->bytes, ROOM) + ROOM;
        }
        if (!at) return OUT_OF_MEMORY;
    }
    *address = at;
    return enter(at, bytes, window->offset + (at - base), kind, NULL, window);
}

enum { KEPT_LOW = 20 };
/* low windows that host-visible allocations leave to device memory */

Result allocate_memory(Address *address, uint64_t bytes, int kind) {
    if (bytes > total_memory - in_use || bytes >> SHIFT) return OUT_OF_MEMORY;
    bool visible = kind == MANAGED || kind == PINNED || kind == BLANK;
    unsigned number = !visible ? take_window(false) : next_window < LOW_END - 1 - KEPT_LOW ? take_window(true) : 0;
    if (!number) return visible ? allocate_in_arena(address, bytes, kind) : OUT_OF_MEMORY;
    uint64_t size = round_up(bytes, PAGE), offset = take_extent(size);
    if (!offset) return OUT_OF_MEMORY;
    *address = (Address)number << SHIFT;
    if (visible && mmap((void *)*address, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE | MAP_NORESERVE, shared_file,
                        (off_t)offset) != (void *)*address) {
        give_extent(offset, size);
        return allocate_in_arena(address, bytes, kind);
    }
    return enter(*address, bytes, offset, kind, NULL, &windows[number]);
}

static void drop(Window *window, Allocation *one) {
    uint32_t at = 0;
    while (window->list[at] != one) at++;
    memmove(window->list + at, window->list + at + 1, (--window->count - at) * sizeof *window->list);
    in_use -= one->kind == PINNED || one->kind == REGISTERED ? 0 : one->bytes;
    send_message(OP_FREE, &one->address, sizeof one->address, NULL, 0);
}

static void keep_window(unsigned number) {
    if (freed_count == freed_room) {
        freed_room = freed_room ? 2 * freed_room : 64;
        freed_windows = realloc(freed_windows, freed_room * sizeof *freed_windows);
    }
    freed_windows[freed_count++] = number;
}

Result free_memory(Address address, int kind) {
    Allocation *one = find_allocation(address);
    if (!one || one->address != address || one->kind == VARIABLE || one->kind == REGISTERED) return INVALID_VALUE;
    if ((one->kind == PINNED) != (kind == PINNED)) return INVALID_VALUE;
    Window *window = &windows[address >> SHIFT];
    drop(window, one);
    uint64_t size = round_up(one->bytes, PAGE);
    if (!window->arena) {
        if (one->kind != DEVICE) munmap((void *)address, size);
        give_extent(one->offset, size);
        keep_window((unsigned)(address >> SHIFT));
    } else {
        give_place(address, round_up(one->bytes, ROOM) + ROOM);
    }
    free(one);
    return SUCCESS;
}

/* Memory of the program that it registers: its pages become pages of the shared file, at the same place. */
Result register_memory(void *host, uint64_t bytes) {
    if (!host || !bytes) return INVALID_VALUE;
    if (find_registered(host)) return ALREADY_REGISTERED;
    uint64_t first = (uint64_t)host / PAGE * PAGE, size = round_up((uint64_t)host + bytes, PAGE) - first;
    unsigned number = take_window(true);
    uint64_t offset = number ? take_extent(size) : 0;
    if (!offset) return OUT_OF_MEMORY;
    if (pwrite(shared_file, (void *)first, size, (off_t)offset) != (ssize_t)size) return INVALID_VALUE;
    if (mmap((void *)first, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, shared_file, (off_t)offset) == MAP_FAILED)
        return OUT_OF_MEMORY;
    return enter((Address)number << SHIFT, bytes, offset + ((uint64_t)host - first), REGISTERED, host, &windows[number]);
}

Result unregister_memory(void *host) {
    Allocation *one = find_registered(host);
    if (!one || one->host != host) return NOT_REGISTERED;
    unsigned number = (unsigned)(one->address >> SHIFT);
    drop(&windows[number], one); /* the pages stay where they are, and the program's */
    keep_window(number);
    free(one);
    return SUCCESS;
}

uint64_t used_memory(void) { return in_use; }

/* -- tables -- */

static size_t slot(Table *table, const void *key) {
    size_t at = ((uintptr_t)key * 0x9E3779B97F4A7C15ull >> 20) & (table->room - 1);
    while (table->keys[at] && table->keys[at] != key) at = (at + 1) & (table->room - 1);
    return at;
}

void *table_get(Table *table, const void *key) {
    return table->room ? table->values[slot(table, key)] : NULL;
}

void table_put(Table *table, const void *key, void *value) {
    if (4 * (table->used + 1) > 3 * table->room) {
        Table old = *table;
        table->room = old.room ? 2 * old.room : 64;
        table->keys = calloc(table->room, sizeof *table->keys);
        table->values = calloc(table->room, sizeof *table->values);
        for (size_t n = 0; n < old.room; n++)
            if (old.keys[n]) {
                size_t at = slot(table, old.keys[n]);
                table->keys[at] = old.keys[n];
                table->values[at] = old.values[n];
            }
        free(old.keys);
        free(old.values);
    }
    size_t at = slot(table, key);
    if (!table->keys[at]) table->used++;
    table->keys[at] = key;
    table->values[at] = value;
}

static Table handles;

void add_handle(const void *handle, int kind) { table_put(&handles, handle, (void *)(intptr_t)kind); }
bool has_handle(const void *handle, int kind) { return handle && (intptr_t)table_get(&handles, handle) == kind; }
void remove_handle(const void *handle) { table_put(&handles, handle, NULL); }
