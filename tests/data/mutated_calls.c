/* Random sequences of calls of the driver API: wrong order, freed handles, wild pointers, odd sizes, threads.
   `mutated_calls PTX FIRST COUNT`: each sequence runs in a child, which makes its own context.  A child that a signal
   ends, or that gets a code which is none of CUDA's, is printed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
typedef uint64_t Word;
typedef int (*Call)(Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word);
enum { POOL = 24, THREADS = 3, STEPS = 40 };
enum { NONE, ADDRESS, STREAM, EVENT, MODULE, FUNCTION, GRAPH, EXEC, NODE, OBJECT, KINDS };
static const char *ptx;
static __thread Word state;
static Word pools[KINDS][POOL]; /* of each kind: what calls have returned, freed ones among them */
static char host[4096];
static int (*error_name)(int, const char **);
static Word draw(void) { state ^= state << 13; state ^= state >> 7; state ^= state << 17; return state; }
static Word below(Word most) { return draw() % most; }
static Word odd_size(void) {
    static const Word sizes[] = {0, 1, 3, 4, 31, 128, 129, 4096, 65537, 1ull << 25, (1ull << 40) + 1, ~0ull, 1ull << 63};
    return below(3) ? 1 + below(512) : sizes[below(sizeof sizes / sizeof *sizes)];
}
static Word handle(int kind) {
    switch (below(8)) {
    case 0: return 0;
    case 1: return below(2) ? draw() : below(4096);
    case 2: return pools[1 + below(KINDS - 1)][below(POOL)];
    default: return pools[kind][below(POOL)];
    }
}
static Word address(void) { return handle(ADDRESS) + (below(4) ? 0 : odd_size()); }
static Word host_pointer(void) { return below(5) ? (Word)(host + below(64)) : below(2) ? 0 : draw(); }
static void keep(int kind, Word value) { pools[kind][below(POOL)] = value; }
static int owned;
static void disown(void *data) { __atomic_add_fetch((int *)data, 1, __ATOMIC_RELAXED); }
/* Calls about the nodes of graphs.  Structures are zero or odd where it does not matter. */
static int call_about_nodes(void) {
    enum { ADD_KERNEL, ADD_FILL, ADD_COPY, ADD_EMPTY, ADD_RECORD, ADD_WAIT, ADD_CHILD, ADD_MEMORY, ADD_FREE, ADD_HOST, ADDED, JOIN = ADDED, PART, DESTROY, EDGES, BEFORE, AFTER, TYPE, PARAMETERS, UPDATE, ENABLE, CHANGE, OBJECT_NEW, OBJECT_KEEP, OBJECT_DROP, CLONE, DOT, ALL };
    static const char *const names[ALL] = {"cuGraphAddKernelNode_v2", "cuGraphAddMemsetNode", "cuGraphAddMemcpyNode", "cuGraphAddEmptyNode", "cuGraphAddEventRecordNode", "cuGraphAddEventWaitNode",
        "cuGraphAddChildGraphNode", "cuGraphAddMemAllocNode", "cuGraphAddMemFreeNode", "cuGraphAddHostNode", "cuGraphAddDependencies", "cuGraphRemoveDependencies", "cuGraphDestroyNode", "cuGraphGetEdges",
        "cuGraphNodeGetDependencies", "cuGraphNodeGetDependentNodes", "cuGraphNodeGetType", "cuGraphKernelNodeGetParams_v2", "cuGraphExecUpdate_v2", "cuGraphNodeSetEnabled", "cuGraphExecMemsetNodeSetParams",
        "cuUserObjectCreate", "cuGraphRetainUserObject", "cuUserObjectRelease", "cuGraphClone", "cuGraphDebugDotPrint"};
    Word n = below(ALL), made = 0, before[2] = {handle(NODE), handle(NODE)}, after[2] = {handle(NODE), handle(NODE)}, many = 2, answers[8] = {0}, more[40] = {0}, a[11] = {0};
    Word values[2] = {address(), draw()}, *arguments[2] = {values, values + 1};
    struct { Word function; unsigned grid[3], block[3], shared; Word arguments, extra, kernel, context; } kernel = {handle(FUNCTION), {1, 1, below(8) != 0}, {32, 1, 1}, 0, below(6) ? (Word)arguments : 0, 0, 0, 0};
    struct { Word to, pitch; unsigned value, element; Word width, height; } fill = {address(), odd_size(), 7, (unsigned)(1u << below(4)), odd_size() % 4096, below(3)};
    struct { void (*call)(void *); void *data; } call_back = {below(4) ? disown : 0, &owned};
    Call call = (Call)(uintptr_t)dlsym(RTLD_DEFAULT, names[n]);
    if (!call) return 0;
    if (n < ADDED) {
        const Word given[] = {[ADD_KERNEL] = (Word)&kernel, [ADD_FILL] = (Word)&fill, [ADD_COPY] = (Word)more, [ADD_EMPTY] = 0, [ADD_RECORD] = handle(EVENT), [ADD_WAIT] = handle(EVENT), [ADD_CHILD] = handle(GRAPH), [ADD_MEMORY] = (Word)more, [ADD_FREE] = address(), [ADD_HOST] = (Word)&call_back};
        if (n == ADD_COPY) { more[4] = more[17] = 2; more[6] = address(); more[19] = address(); more[26 - 4] = odd_size() % 64; more[23] = more[24] = below(3); }
        if (n == ADD_MEMORY) more[13] = odd_size() % 65536;
        a[0] = below(20) ? (Word)&made : 0; a[1] = handle(GRAPH); a[2] = below(10) ? (Word)before : 0; a[3] = below(3); a[4] = below(20) ? given[n] : 0;
    } else if (n == JOIN || n == PART) { a[0] = handle(GRAPH); a[1] = (Word)before; a[2] = (Word)after; a[3] = below(3);
    } else if (n == EDGES) { a[0] = handle(GRAPH); a[1] = below(3) ? (Word)answers : 0; a[2] = a[1] ? (Word)(answers + 4) : 0; a[3] = (Word)&many;
    } else if (n == BEFORE || n == AFTER) { a[0] = handle(NODE); a[1] = below(3) ? (Word)answers : 0; a[2] = (Word)&many;
    } else if (n == UPDATE) { a[0] = handle(EXEC); a[1] = handle(GRAPH); a[2] = (Word)answers;
    } else if (n == ENABLE || n == CHANGE) { a[0] = handle(EXEC); a[1] = handle(NODE); a[2] = n == ENABLE ? below(2) : (Word)&fill;
    } else if (n == OBJECT_NEW) { a[0] = (Word)&made; a[1] = (Word)&owned; a[2] = below(10) ? (Word)disown : 0; a[3] = below(4); a[4] = 1;
    } else if (n == OBJECT_KEEP) { a[0] = handle(GRAPH); a[1] = handle(OBJECT); a[2] = below(4); a[3] = below(3);
    } else if (n == OBJECT_DROP) { a[0] = handle(OBJECT); a[1] = below(4);
    } else if (n == CLONE) { a[0] = (Word)&made; a[1] = handle(GRAPH);
    } else if (n == DOT) { a[0] = handle(GRAPH); a[1] = (Word)(below(2) ? "/dev/null" : "/no/file");
    } else { a[0] = handle(NODE); a[1] = (Word)more; }
    int result = call(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10]);
    const char *text = NULL;
    if (result && error_name(result, &text)) { fprintf(stderr, "%s returned %d, none of CUDA's codes\n", names[n], result); return 1; }
    if (!result && made) keep(n < ADDED ? NODE : n == OBJECT_NEW ? OBJECT : GRAPH, made);
    return 0;
}
static int call_once(void) {
    if (!below(3)) return call_about_nodes();
    static const struct { const char *name; int kind; } makers[] = {
        {"cuMemAlloc_v2", ADDRESS}, {"cuMemAllocManaged", ADDRESS}, {"cuMemHostAlloc", ADDRESS}, {"cuMemAllocAsync", ADDRESS},
        {"cuStreamCreate", STREAM}, {"cuEventCreate", EVENT}, {"cuModuleLoad", MODULE}, {"cuModuleGetFunction", FUNCTION},
        {"cuGraphCreate", GRAPH}, {"cuGraphInstantiateWithFlags", EXEC}, {"cuStreamEndCapture", GRAPH}};
    static const char *const others[] = {
        "cuMemFree_v2", "cuMemFreeHost", "cuMemFreeAsync", "cuStreamDestroy_v2", "cuEventDestroy_v2", "cuModuleUnload", "cuGraphDestroy",
        "cuGraphExecDestroy", "cuStreamSynchronize", "cuEventSynchronize", "cuStreamQuery", "cuEventQuery", "cuEventRecord", "cuStreamWaitEvent",
        "cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2", "cuMemcpyDtoD_v2", "cuMemcpyHtoDAsync_v2", "cuMemcpyAsync", "cuMemsetD8_v2", "cuMemsetD32Async",
        "cuCtxSynchronize", "cuStreamBeginCapture_v2", "cuGraphLaunch", "cuLaunchKernel", "cuLaunchKernel", "cuLaunchKernel", "cuFuncGetAttribute",
        "cuFuncSetAttribute", "cuPointerGetAttribute", "cuMemGetAddressRange_v2", "cuMemHostGetDevicePointer_v2", "cuOccupancyMaxActiveBlocksPerMultiprocessor",
        "cuCtxSetCurrent", "cuMemHostRegister_v2", "cuMemHostUnregister", "cuModuleGetGlobal_v2", "cuInit"};
    enum { MAKERS = sizeof makers / sizeof *makers, OTHERS = sizeof others / sizeof *others };
    Word n = below(MAKERS + OTHERS), made = 0, more[4] = {0}, a[11] = {0};
    const char *name = n < MAKERS ? makers[n].name : others[n - MAKERS];
    Call call = (Call)(uintptr_t)dlsym(RTLD_DEFAULT, name);
    if (!call) return 0;
    Word values[2] = {address(), draw()}, *arguments[2] = {values, values + 1};
    if (n < MAKERS) {
        a[0] = below(20) ? (Word)&made : 0;
        a[1] = makers[n].kind == ADDRESS ? odd_size() : n == 6 ? (Word)(below(4) ? ptx : "/no/file") : n == 7 ? handle(MODULE) : n == 9 ? handle(GRAPH) : n == 10 ? 0 : below(4);
        a[2] = n == 1 ? below(4) : n == 3 ? handle(STREAM) : n == 7 ? (Word)(below(4) ? "add" : "missing") : 0;
        if (n == 10) { a[0] = handle(STREAM); a[1] = (Word)&made; }
    } else if (!strcmp(name, "cuLaunchKernel")) {
        a[0] = handle(FUNCTION);
        for (int k = 1; k < 7; k++) a[k] = below(12) ? 1 : odd_size();
        if (below(3)) a[4] = 32;
        a[7] = below(6) ? 0 : odd_size();
        a[8] = below(3) ? 0 : handle(STREAM);
        if (!below(10)) arguments[0] = (Word *)host_pointer();
        a[9] = below(12) ? (Word)arguments : 0;
    } else if (strstr(name, "Memcpy") || strstr(name, "Memset")) {
        a[0] = strstr(name, "DtoH") || (strstr(name, "Async") && below(2)) ? host_pointer() : address();
        a[1] = strstr(name, "Memset") ? below(256) : strstr(name, "HtoD") ? host_pointer() : address();
        a[2] = odd_size() % 4096 + (below(20) ? 0 : odd_size());
        if (a[0] >= (Word)host && a[0] < (Word)host + 4096 && a[2] > 4096 - (a[0] - (Word)host)) a[2] = 16; /* our own memory */
        a[3] = below(3) ? 0 : handle(STREAM);
    } else if (strstr(name, "Get") || strstr(name, "Occupancy")) {
        a[0] = (Word)more;
        a[1] = strstr(name, "Range") ? (Word)(more + 1) : strstr(name, "Global") ? (Word)(more + 1) : strstr(name, "Host") ? host_pointer() : strstr(name, "Occupancy") ? handle(FUNCTION) : below(40);
        a[2] = strstr(name, "Global") ? handle(MODULE) : strstr(name, "Range") || strstr(name, "Pointer") ? address() : strstr(name, "Occupancy") ? odd_size() % 4096 : handle(FUNCTION);
        a[3] = strstr(name, "Global") ? (Word)(below(3) ? "factor" : "missing") : odd_size() % 65536;
    } else if (strstr(name, "Register")) {
        a[0] = (Word)host & ~4095ull;
        a[1] = odd_size() % 4096;
        if (strstr(name, "HostRegister")) return 0; /* would move pages of this program's own data */
    } else if (!strcmp(name, "cuInit")) {
        a[0] = below(3);
    } else {
        int kind = strstr(name, "Event") ? EVENT : strstr(name, "Exec") || strstr(name, "GraphLaunch") ? EXEC : strstr(name, "Graph") ? GRAPH : strstr(name, "Stream") ? STREAM : strstr(name, "Module") ? MODULE : strstr(name, "Func") ? FUNCTION : ADDRESS;
        a[0] = kind == ADDRESS ? address() : handle(strstr(name, "cuStreamWaitEvent") ? STREAM : kind);
        a[1] = strstr(name, "Wait") ? handle(EVENT) : strstr(name, "Func") ? below(20) : strstr(name, "Capture") ? below(4) : handle(STREAM);
        a[2] = strstr(name, "Func") ? odd_size() : 0;
    }
    int result = call(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10]);
    const char *text = NULL;
    if (result && error_name(result, &text)) { fprintf(stderr, "%s returned %d, none of CUDA's codes\n", name, result); return 1; }
    if (n < MAKERS && !result && made) keep(makers[n].kind, made);
    return 0;
}
static void *steps(void *seed) {
    state = (Word)seed * 0x9E3779B97F4A7C15ull + 1;
    for (int n = 0; n < STEPS; n++)
        if (call_once()) _exit(7);
    return NULL;
}
static int sequence(Word seed) {
    void *context = NULL, *module = NULL, *function = NULL;
    Call init = (Call)(uintptr_t)dlsym(RTLD_DEFAULT, "cuInit"), retain = (Call)(uintptr_t)dlsym(RTLD_DEFAULT, "cuDevicePrimaryCtxRetain"), set = (Call)(uintptr_t)dlsym(RTLD_DEFAULT, "cuCtxSetCurrent");
    Call load = (Call)(uintptr_t)dlsym(RTLD_DEFAULT, "cuModuleLoad"), get = (Call)(uintptr_t)dlsym(RTLD_DEFAULT, "cuModuleGetFunction");
    error_name = (int (*)(int, const char **))(uintptr_t)dlsym(RTLD_DEFAULT, "cuGetErrorName");
    if (seed % 8) { /* else without a context */
        init(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
        retain((Word)&context, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
        set((Word)context, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
        load((Word)&module, (Word)ptx, 0, 0, 0, 0, 0, 0, 0, 0, 0);
        get((Word)&function, (Word)module, (Word)"add", 0, 0, 0, 0, 0, 0, 0, 0);
        for (int n = 0; n < POOL; n += 2) { pools[MODULE][n] = (Word)module; pools[FUNCTION][n] = (Word)function; }
    }
    pthread_t threads[THREADS];
    int count = seed % 5 ? 0 : THREADS;
    for (int n = 0; n < count; n++) pthread_create(&threads[n], NULL, steps, (void *)(seed * 7 + n + 1));
    steps((void *)(seed * 7));
    for (int n = 0; n < count; n++) pthread_join(threads[n], NULL);
    return 0;
}
int main(int count, char **words) {
    if (count < 4) return 9;
    ptx = words[1];
    int bad = 0;
    for (Word seed = strtoull(words[2], NULL, 10), end = seed + strtoull(words[3], NULL, 10); seed < end; seed++) {
        pid_t child = fork();
        if (!child) { alarm(120); _exit(sequence(seed)); }
        int status = 0;
        waitpid(child, &status, 0);
        if (status) { printf("sequence %llu: %s %d\n", (unsigned long long)seed, WIFSIGNALED(status) ? "signal" : "exit code", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status)); bad++; }
    }
    printf("%s sequences, %d bad\n", words[3], bad);
    return bad ? 8 : 0;
}
