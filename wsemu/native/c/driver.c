/* The driver's functions: cu*.  Names without a suffix are those of the newest interface that CUDA 13 has. */
#define _GNU_SOURCE
#include "names.h"
#include "state.h"
#include "versions.h"

#include <dlfcn.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

static inline void leave(int *unused) { (void)unused; unlock(); }
#define GUARD __attribute__((cleanup(leave))) int guard = (lock(), 0); (void)guard
#define BEGIN GUARD; log_call("%s", __func__); { Result failed = begin_call(); if (failed) return failed; }
#define NEED(condition) do { if (!(condition)) return INVALID_VALUE; } while (0)
#define HANDLE(handle, kind) do { if (!has_handle(handle, kind)) return INVALID_HANDLE; } while (0)
#define IS_DEVICE(device) do { if ((device) != 0) return INVALID_DEVICE; } while (0)

typedef void *Context;
static char primary[16];
static __thread void *stack[64];
static __thread int depth;

bool runtime_used;

static void *current(void) {
    if (!depth && runtime_used) add_handle(primary, CONTEXT);
    return depth ? stack[depth - 1] : runtime_used ? primary : NULL;
}

/* -- start and device -- */

EXPORT Result cuInit(unsigned flags) { BEGIN; NEED(!flags); add_handle(primary, CONTEXT); return SUCCESS; }
EXPORT Result cuDriverGetVersion(int *version) { NEED(version); *version = 13000; return SUCCESS; }
EXPORT Result cuDeviceGetCount(int *count) { BEGIN; NEED(count); *count = 1; return SUCCESS; }
EXPORT Result cuDeviceGet(int *device, int ordinal) { BEGIN; NEED(device); IS_DEVICE(ordinal); *device = 0; return SUCCESS; }
EXPORT Result cuDeviceGetName(char *name, int length, int device) {
    BEGIN; NEED(name && length > 0); IS_DEVICE(device);
    snprintf(name, (size_t)length, "%s", device_name);
    return SUCCESS;
}
EXPORT Result cuDeviceTotalMem_v2(size_t *bytes, int device) { BEGIN; NEED(bytes); IS_DEVICE(device); *bytes = total_memory; return SUCCESS; }
ALIAS(cuDeviceTotalMem, cuDeviceTotalMem_v2);
EXPORT Result cuDeviceGetAttribute(int *value, int attribute, int device) {
    BEGIN; NEED(value && attribute > 0 && attribute < 160); IS_DEVICE(device);
    *value = attributes[attribute];
    return SUCCESS;
}
EXPORT Result cuDeviceComputeCapability(int *major, int *minor, int device) {
    BEGIN; NEED(major && minor); IS_DEVICE(device);
    *major = attributes[75];
    *minor = attributes[76];
    return SUCCESS;
}
EXPORT Result cuDeviceGetUuid_v2(void *uuid, int device) { BEGIN; NEED(uuid); IS_DEVICE(device); memcpy(uuid, "wsemu emulator ", 16); return SUCCESS; }
ALIAS(cuDeviceGetUuid, cuDeviceGetUuid_v2);
EXPORT Result cuDeviceGetPCIBusId(char *text, int length, int device) { BEGIN; NEED(text && length > 12); IS_DEVICE(device); snprintf(text, (size_t)length, "0000:00:00.0"); return SUCCESS; }
EXPORT Result cuDeviceGetByPCIBusId(int *device, const char *text) { BEGIN; NEED(device && text); if (strcmp(text, "0000:00:00.0")) return INVALID_DEVICE; *device = 0; return SUCCESS; }
EXPORT Result cuDeviceGetLuid(char *luid, unsigned *mask, int device) { BEGIN; IS_DEVICE(device); if (luid) memset(luid, 0, 8); if (mask) *mask = 0; return SUCCESS; }
EXPORT Result cuDeviceCanAccessPeer(int *can, int device, int peer) { BEGIN; NEED(can); IS_DEVICE(device); IS_DEVICE(peer); *can = 0; return SUCCESS; }
EXPORT Result cuDeviceGetP2PAttribute(int *value, int attribute, int device, int peer) { BEGIN; (void)attribute; NEED(value); IS_DEVICE(device); if (peer) return INVALID_DEVICE; *value = 0; return SUCCESS; }
EXPORT Result cuCtxEnablePeerAccess(void *peer, unsigned flags) { BEGIN; (void)flags; HANDLE(peer, CONTEXT); return PEER_UNSUPPORTED; }
EXPORT Result cuCtxDisablePeerAccess(void *peer) { BEGIN; HANDLE(peer, CONTEXT); return PEER_NOT_ENABLED; }

/* -- contexts -- */

EXPORT Result cuDevicePrimaryCtxRetain(Context *context, int device) { BEGIN; NEED(context); IS_DEVICE(device); add_handle(primary, CONTEXT); *context = primary; return SUCCESS; }
EXPORT Result cuDevicePrimaryCtxRelease_v2(int device) { BEGIN; IS_DEVICE(device); return SUCCESS; }
ALIAS(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2);
EXPORT Result cuDevicePrimaryCtxReset_v2(int device) { BEGIN; IS_DEVICE(device); return SUCCESS; }
ALIAS(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2);
EXPORT Result cuDevicePrimaryCtxSetFlags_v2(int device, unsigned flags) { BEGIN; (void)flags; IS_DEVICE(device); return SUCCESS; }
ALIAS(cuDevicePrimaryCtxSetFlags, cuDevicePrimaryCtxSetFlags_v2);
EXPORT Result cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) { BEGIN; IS_DEVICE(device); if (flags) *flags = 0; if (active) *active = 1; return SUCCESS; }
static Result push(void *context) {
    if (depth == 64) return OUT_OF_MEMORY;
    stack[depth++] = context;
    return SUCCESS;
}
EXPORT Result cuCtxCreate_v2(Context *context, unsigned flags, int device) {
    BEGIN; (void)flags; NEED(context); IS_DEVICE(device);
    *context = calloc(1, 16);
    add_handle(*context, CONTEXT);
    return push(*context);
}
EXPORT Result cuCtxCreate_v3(Context *context, void *affinity, int count, unsigned flags, int device) { (void)affinity; (void)count; return cuCtxCreate_v2(context, flags, device); }
EXPORT Result cuCtxCreate_v4(Context *context, void *parameters, unsigned flags, int device) { (void)parameters; return cuCtxCreate_v2(context, flags, device); }
ALIAS(cuCtxCreate, cuCtxCreate_v2);
EXPORT Result cuCtxDestroy_v2(Context context) {
    BEGIN; if (!has_handle(context, CONTEXT)) return INVALID_CONTEXT;
    if (depth && stack[depth - 1] == context) depth--;
    if (context != primary) { remove_handle(context); free(context); }
    return SUCCESS;
}
ALIAS(cuCtxDestroy, cuCtxDestroy_v2);
EXPORT Result cuCtxGetCurrent(Context *context) { BEGIN; NEED(context); *context = current(); return SUCCESS; }
EXPORT Result cuCtxSetCurrent(Context context) {
    BEGIN; if (context && !has_handle(context, CONTEXT)) return INVALID_CONTEXT;
    if (depth) depth--;
    return context ? push(context) : SUCCESS;
}
EXPORT Result cuCtxPushCurrent_v2(Context context) { BEGIN; if (!has_handle(context, CONTEXT)) return INVALID_CONTEXT; return push(context); }
ALIAS(cuCtxPushCurrent, cuCtxPushCurrent_v2);
EXPORT Result cuCtxPopCurrent_v2(Context *context) { BEGIN; if (!depth) return INVALID_CONTEXT; depth--; if (context) *context = stack[depth]; return SUCCESS; }
ALIAS(cuCtxPopCurrent, cuCtxPopCurrent_v2);
EXPORT Result cuCtxGetDevice(int *device) { BEGIN; NEED(device); if (!current()) return INVALID_CONTEXT; *device = 0; return SUCCESS; }
EXPORT Result cuCtxGetDevice_v2(int *device, Context context) { BEGIN; (void)context; NEED(device); *device = 0; return SUCCESS; }
EXPORT Result cuCtxGetFlags(unsigned *flags) { BEGIN; NEED(flags); *flags = 0; return SUCCESS; }
EXPORT Result cuCtxSetFlags(unsigned flags) { BEGIN; (void)flags; return SUCCESS; }
EXPORT Result cuCtxGetId(Context context, unsigned long long *id) { BEGIN; NEED(id); *id = context && context != primary ? (uintptr_t)context : 1; return SUCCESS; }
EXPORT Result cuCtxGetApiVersion(Context context, unsigned *version) { BEGIN; (void)context; NEED(version); *version = 3020; return SUCCESS; }
EXPORT Result cuCtxSynchronize(void) { BEGIN; send_action(SYNC_ALL, NULL, NULL, 0, 0, 0, 0); return SUCCESS; }
EXPORT Result cuCtxSynchronize_v2(Context context) { (void)context; return cuCtxSynchronize(); }
EXPORT Result cuCtxGetStreamPriorityRange(int *least, int *greatest) { BEGIN; if (least) *least = 0; if (greatest) *greatest = -5; return SUCCESS; }
EXPORT Result cuCtxGetCacheConfig(int *config) { BEGIN; NEED(config); *config = 0; return SUCCESS; }
EXPORT Result cuCtxSetCacheConfig(int config) { BEGIN; (void)config; return SUCCESS; }
EXPORT Result cuCtxGetSharedMemConfig(int *config) { BEGIN; NEED(config); *config = 0; return SUCCESS; }
EXPORT Result cuCtxSetSharedMemConfig(int config) { BEGIN; (void)config; return SUCCESS; }
EXPORT Result cuCtxResetPersistingL2Cache(void) { BEGIN; return SUCCESS; }
static size_t limits[16] = {1024, 1 << 20, 8 << 20, 2, 2048, 128, 0};
EXPORT Result cuCtxGetLimit(size_t *value, int limit) { BEGIN; NEED(value); if (limit < 0 || limit > 8) return UNSUPPORTED_LIMIT; *value = limits[limit]; return SUCCESS; }
EXPORT Result cuCtxSetLimit(int limit, size_t value) { BEGIN; if (limit < 0 || limit > 8) return UNSUPPORTED_LIMIT; limits[limit] = value; return SUCCESS; }

/* -- modules -- */

/* Open a file of machine code, or the PTX of the same compilation: the file of that name beside it, unless it is older. */
static FILE *open_code(const char *path) {
    size_t length = strlen(path), stem = length - strlen(".cubin");
    struct stat code, text;
    if (length > strlen(".cubin") && !strcmp(path + stem, ".cubin")) {
        char *beside = malloc(length + 1);
        sprintf(beside, "%.*s.ptx", (int)stem, path);
        int is_current = !stat(path, &code) && !stat(beside, &text) && text.st_mtime >= code.st_mtime;
        FILE *file = is_current ? fopen(beside, "rb") : NULL;
        free(beside);
        if (file) return file;
    }
    return fopen(path, "rb");
}
static Result load_file(Module **module, const char *path) {
    NEED(path);
    FILE *file = open_code(path);
    if (!file) return FILE_NOT_FOUND;
    size_t used = 0, room = 1 << 16, done;
    char *data = malloc(room);
    while ((done = fread(data + used, 1, room - used - 1, file)) > 0)
        if ((used += done) == room - 1) data = realloc(data, room *= 2);
    fclose(file);
    data[used] = 0;
    Result result = load_module(module, data, used + 1);
    free(data);
    return result;
}
static Result unload(Module *module) {
    HANDLE(module, MODULE);
    for (uint32_t n = 0; n < module->function_count; n++) remove_handle(&module->functions[n]);
    for (uint32_t n = 0; n < module->variable_count; n++) {
        Allocation *one = find_allocation(module->variables[n].address);
        if (!one) continue;
        one->kind = module->variables[n].managed ? MANAGED : DEVICE;
        free_memory(one->address, one->kind);
    }
    send_message(OP_UNLOAD, &module->id, sizeof module->id, NULL, 0);
    remove_handle(module);
    return SUCCESS;
}
static Result get_function(Function **function, Module *module, const char *name) {
    NEED(function && name);
    HANDLE(module, MODULE);
    Function *found = find_function(module, name);
    if (!found) return NOT_FOUND;
    *function = found;
    return SUCCESS;
}
static Result get_variable(Address *address, size_t *bytes, Module *module, const char *name) {
    NEED(name);
    HANDLE(module, MODULE);
    struct Variable *found = find_variable(module, name);
    if (!found) return NOT_FOUND;
    if (address) *address = found->address;
    if (bytes) *bytes = found->bytes;
    return SUCCESS;
}
EXPORT Result cuModuleLoadData(Module **module, const void *image) { BEGIN; return load_module(module, image, 0); }
EXPORT Result cuModuleLoadDataEx(Module **module, const void *image, unsigned count, int *options, void **values) { BEGIN; (void)count; (void)options; (void)values; return load_module(module, image, 0); }
EXPORT Result cuModuleLoadFatBinary(Module **module, const void *image) { BEGIN; return load_module(module, image, 0); }
EXPORT Result cuModuleLoad(Module **module, const char *path) { BEGIN; return load_file(module, path); }
EXPORT Result cuModuleUnload(Module *module) { BEGIN; return unload(module); }
EXPORT Result cuModuleGetLoadingMode(int *mode) { BEGIN; NEED(mode); *mode = 1; return SUCCESS; }
EXPORT Result cuModuleGetFunction(Function **function, Module *module, const char *name) { BEGIN; return get_function(function, module, name); }
EXPORT Result cuModuleGetFunctionCount(unsigned *count, Module *module) { BEGIN; NEED(count); HANDLE(module, MODULE); *count = module->function_count; return SUCCESS; }
EXPORT Result cuModuleEnumerateFunctions(Function **functions, unsigned count, Module *module) {
    BEGIN; NEED(functions); HANDLE(module, MODULE);
    for (unsigned n = 0; n < count && n < module->function_count; n++) functions[n] = &module->functions[n];
    return SUCCESS;
}
EXPORT Result cuModuleGetGlobal_v2(Address *address, size_t *bytes, Module *module, const char *name) { BEGIN; return get_variable(address, bytes, module, name); }
ALIAS(cuModuleGetGlobal, cuModuleGetGlobal_v2);
EXPORT Result cuLibraryLoadData(Module **library, const void *image, int *options, void **values, unsigned count, int *library_options, void **library_values, unsigned library_count) {
    BEGIN; (void)options; (void)values; (void)count; (void)library_options; (void)library_values; (void)library_count;
    return load_module(library, image, 0);
}
EXPORT Result cuLibraryLoadFromFile(Module **library, const char *path, int *options, void **values, unsigned count, int *library_options, void **library_values, unsigned library_count) {
    BEGIN; (void)options; (void)values; (void)count; (void)library_options; (void)library_values; (void)library_count;
    return load_file(library, path);
}
EXPORT Result cuLibraryUnload(Module *library) { BEGIN; return unload(library); }
EXPORT Result cuLibraryGetKernel(Function **kernel, Module *library, const char *name) { BEGIN; return get_function(kernel, library, name); }
EXPORT Result cuLibraryGetKernelCount(unsigned *count, Module *library) { return cuModuleGetFunctionCount(count, library); }
EXPORT Result cuLibraryEnumerateKernels(Function **kernels, unsigned count, Module *library) { return cuModuleEnumerateFunctions(kernels, count, library); }
EXPORT Result cuLibraryGetModule(Module **module, Module *library) { BEGIN; NEED(module); HANDLE(library, MODULE); *module = library; return SUCCESS; }
EXPORT Result cuLibraryGetGlobal(Address *address, size_t *bytes, Module *library, const char *name) { BEGIN; return get_variable(address, bytes, library, name); }
EXPORT Result cuLibraryGetManaged(Address *address, size_t *bytes, Module *library, const char *name) { BEGIN; return get_variable(address, bytes, library, name); }
EXPORT Result cuKernelGetFunction(Function **function, Function *kernel) { BEGIN; NEED(function); HANDLE(kernel, FUNCTION); *function = kernel; return SUCCESS; }
EXPORT Result cuKernelGetLibrary(Module **library, Function *kernel) { BEGIN; NEED(library); HANDLE(kernel, FUNCTION); *library = kernel->module; return SUCCESS; }
EXPORT Result cuFuncGetModule(Module **module, Function *function) { BEGIN; NEED(module); HANDLE(function, FUNCTION); *module = function->module; return SUCCESS; }
EXPORT Result cuKernelGetName(const char **name, Function *kernel) { BEGIN; NEED(name); HANDLE(kernel, FUNCTION); *name = kernel->name; return SUCCESS; }
EXPORT Result cuFuncGetName(const char **name, Function *function) { return cuKernelGetName(name, function); }
EXPORT Result cuFuncIsLoaded(int *state, Function *function) { BEGIN; NEED(state); HANDLE(function, FUNCTION); *state = 1; return SUCCESS; }
EXPORT Result cuFuncLoad(Function *function) { BEGIN; HANDLE(function, FUNCTION); return SUCCESS; }
EXPORT Result cuFuncGetParamInfo(Function *function, size_t index, size_t *offset, size_t *size) {
    BEGIN; HANDLE(function, FUNCTION);
    NEED(index < function->parameter_count);
    if (offset) *offset = function->offsets[index];
    if (size) *size = function->sizes[index];
    return SUCCESS;
}
EXPORT Result cuKernelGetParamInfo(Function *kernel, size_t index, size_t *offset, size_t *size) { return cuFuncGetParamInfo(kernel, index, offset, size); }
static Result get_attribute(int *value, int attribute, Function *function) {
    NEED(value);
    HANDLE(function, FUNCTION);
    if (attribute >= 1 && attribute <= 4) {
        Result result = inspect_function(function);
        if (result) return result;
    }
    switch (attribute) {
    case 0: *value = function->max_threads; break;
    case 1: *value = function->shared_bytes; break;
    case 2: *value = function->const_bytes; break;
    case 3: *value = function->local_bytes; break;
    case 4: *value = function->registers; break;
    case 5: case 6: *value = function->version; break;
    case 7: *value = 0; break;
    case 8: *value = function->dynamic ? function->dynamic : attributes[8]; break;
    case 9: *value = -1; break;
    case 10: *value = function->required_cluster[0] != 0; break;
    case 11: case 12: case 13: *value = function->required_cluster[attribute - 11]; break;
    case 14: *value = function->nonportable; break;
    case 15: case 16: case 17: *value = 0; break;
    default: return INVALID_VALUE;
    }
    return SUCCESS;
}
static Result set_attribute(Function *function, int attribute, int value) {
    HANDLE(function, FUNCTION);
    NEED(attribute >= 0 && attribute < 18);
    if (attribute == 8) {
        NEED(value >= 0 && value <= attributes[97]);
        function->dynamic = value;
    } else if (attribute == 14) {
        function->nonportable = value;
    } else if (attribute == 17) {
        function->any_dynamic = value;
    }
    return SUCCESS;
}
EXPORT Result cuFuncGetAttribute(int *value, int attribute, Function *function) { BEGIN; return get_attribute(value, attribute, function); }
EXPORT Result cuKernelGetAttribute(int *value, int attribute, Function *kernel, int device) { BEGIN; IS_DEVICE(device); return get_attribute(value, attribute, kernel); }
EXPORT Result cuFuncSetAttribute(Function *function, int attribute, int value) { BEGIN; return set_attribute(function, attribute, value); }
EXPORT Result cuKernelSetAttribute(int attribute, int value, Function *kernel, int device) { BEGIN; IS_DEVICE(device); return set_attribute(kernel, attribute, value); }
EXPORT Result cuFuncSetCacheConfig(Function *function, int config) { BEGIN; (void)config; HANDLE(function, FUNCTION); return SUCCESS; }
EXPORT Result cuFuncSetSharedMemConfig(Function *function, int config) { return cuFuncSetCacheConfig(function, config); }
EXPORT Result cuKernelSetCacheConfig(Function *kernel, int config, int device) { (void)device; return cuFuncSetCacheConfig(kernel, config); }

/* -- launches -- */

typedef struct Attribute { int id; char pad[4]; union { char bytes[64]; int number; unsigned extent[3]; } value; } Attribute;
typedef struct Configuration { unsigned grid[3], block[3], shared; void *stream; Attribute *attributes; unsigned count; } Configuration;

static Result as_driver(Result result) { return result == INVALID_CONFIGURATION ? INVALID_VALUE : result; }

EXPORT Result cuLaunchKernel(Function *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *stream, void **parameters, void **extra) {
    BEGIN;
    Shape shape = {{gx, gy, gz}, {bx, by, bz}, shared, {0, 0, 0}, 0, 0};
    return as_driver(launch_function(function, &shape, stream, parameters, extra));
}
EXPORT Result cuLaunchCooperativeKernel(Function *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *stream, void **parameters) {
    BEGIN;
    Shape shape = {{gx, gy, gz}, {bx, by, bz}, shared, {0, 0, 0}, 1, 0};
    return as_driver(launch_function(function, &shape, stream, parameters, NULL));
}
static Shape shape_of(const Configuration *given) {
    Shape shape = {.shared = given->shared};
    memcpy(shape.grid, given->grid, sizeof shape.grid);
    memcpy(shape.block, given->block, sizeof shape.block);
    for (unsigned n = 0; n < given->count && given->attributes; n++) {
        const Attribute *one = &given->attributes[n];
        if (one->id == 2) shape.cooperative = one->value.number;
        else if (one->id == 4) memcpy(shape.cluster, one->value.extent, sizeof shape.cluster);
        else if (one->id == 6) shape.dependent = one->value.number;
    }
    return shape;
}
EXPORT Result cuLaunchKernelEx(const Configuration *configuration, Function *function, void **parameters, void **extra) {
    BEGIN; NEED(configuration);
    Shape shape = shape_of(configuration);
    return as_driver(launch_function(function, &shape, configuration->stream, parameters, extra));
}
static Result call_host(void *stream, void (*call)(void *), void *data) {
    NEED(call);
    Result result = check_stream(stream);
    if (result) return result;
    Graph *graph = capturing(stream);
    if (graph) {
        Node *node = capture_node(stream, NODE_HOST);
        node->call = call;
        node->data = data;
        return SUCCESS;
    }
    send_action(HOST_CALL, stream, NULL, 0, 0, 0, 0);
    call(data);
    return SUCCESS;
}
EXPORT Result cuLaunchHostFunc(void *stream, void (*call)(void *), void *data) { BEGIN; return call_host(stream, call, data); }
EXPORT Result cuStreamAddCallback(void *stream, void (*call)(void *, Result, void *), void *data, unsigned flags) {
    BEGIN; NEED(call && !flags);
    Result result = check_stream(stream);
    if (result) return result;
    if (capturing(stream)) return CAPTURE_UNSUPPORTED;
    send_action(HOST_CALL, stream, NULL, 0, 0, 0, 0);
    call(stream, SUCCESS, data);
    return SUCCESS;
}

/* -- memory -- */

EXPORT Result cuMemAlloc_v2(Address *address, size_t bytes) { BEGIN; NEED(address && bytes); return allocate_memory(address, bytes, DEVICE); }
ALIAS(cuMemAlloc, cuMemAlloc_v2);
static Result allocate_from_pool(Address *address, size_t bytes, const void *stream) {
    NEED(address);
    Result result = check_stream(stream);
    if (result) return result;
    Graph *graph = capturing(stream);
    if (!graph) return allocate_memory(address, bytes ? bytes : 1, DEVICE);
    result = allocate_for_graph(address, bytes);
    if (!result) capture_node(stream, NODE_ALLOCATE)->to = *address;
    return result;
}
EXPORT Result cuMemAllocAsync(Address *address, size_t bytes, void *stream) { BEGIN; return allocate_from_pool(address, bytes, stream); }
EXPORT Result cuMemAllocFromPoolAsync(Address *address, size_t bytes, void *pool, void *stream) { BEGIN; HANDLE(pool, POOL); return allocate_from_pool(address, bytes, stream); }
EXPORT Result cuMemAllocManaged(Address *address, size_t bytes, unsigned flags) { BEGIN; NEED(address && bytes && (flags == 1 || flags == 2)); return allocate_memory(address, bytes, MANAGED); }
EXPORT Result cuMemAllocHost_v2(void **address, size_t bytes) { BEGIN; NEED(address && bytes); return allocate_memory((Address *)address, bytes, PINNED); }
ALIAS(cuMemAllocHost, cuMemAllocHost_v2);
EXPORT Result cuMemHostAlloc(void **address, size_t bytes, unsigned flags) { BEGIN; NEED(address && bytes && flags < 8); return allocate_memory((Address *)address, bytes, PINNED); }
EXPORT Result cuMemAllocPitch_v2(Address *address, size_t *pitch, size_t width, size_t height, unsigned element) {
    BEGIN; NEED(address && pitch && width && height && (element == 4 || element == 8 || element == 16));
    *pitch = (width + 511) / 512 * 512;
    return allocate_memory(address, *pitch * height, DEVICE);
}
ALIAS(cuMemAllocPitch, cuMemAllocPitch_v2);
EXPORT Result cuMemFree_v2(Address address) {
    BEGIN;
    Allocation *one = find_allocation(address);
    if (one && one->address == address && one->pool == OF_GRAPH) return SUCCESS; /* the graph may run again */
    return address ? free_memory(address, DEVICE) : SUCCESS;
}
ALIAS(cuMemFree, cuMemFree_v2);
EXPORT Result cuMemFreeAsync(Address address, void *stream) {
    BEGIN;
    Result result = check_stream(stream);
    if (result) return result;
    if (!address) return SUCCESS;
    Graph *graph = capturing(stream);
    Allocation *one = find_allocation(address);
    if (graph && !one) return INVALID_VALUE;
    if (graph) { capture_node(stream, NODE_FREE)->to = address; return SUCCESS; }
    if (one && one->pool == OF_GRAPH) return SUCCESS;
    if (one && one->address == address) send_action(FREE_IN_STREAM, stream, NULL, 0, address, 0, 0);
    return free_memory(address, DEVICE);
}
EXPORT Result cuMemFreeHost(void *address) { BEGIN; return address ? free_memory((Address)address, PINNED) : SUCCESS; }
EXPORT Result cuMemHostRegister_v2(void *host, size_t bytes, unsigned flags) { BEGIN; (void)flags; return register_memory(host, bytes); }
ALIAS(cuMemHostRegister, cuMemHostRegister_v2);
EXPORT Result cuMemHostUnregister(void *host) { BEGIN; NEED(host); return unregister_memory(host); }
EXPORT Result cuMemHostGetDevicePointer_v2(Address *address, void *host, unsigned flags) {
    BEGIN; NEED(address && !flags);
    Allocation *registered = find_registered(host), *pinned = find_allocation((Address)host);
    if (registered) *address = registered->address + (Address)((char *)host - (char *)registered->host);
    else if (pinned && (pinned->kind == PINNED || pinned->kind == MANAGED)) *address = (Address)host;
    else return INVALID_VALUE;
    return SUCCESS;
}
ALIAS(cuMemHostGetDevicePointer, cuMemHostGetDevicePointer_v2);
EXPORT Result cuMemHostGetFlags(unsigned *flags, void *host) { BEGIN; NEED(flags && find_allocation((Address)host)); *flags = 2; return SUCCESS; }
EXPORT Result cuMemGetInfo_v2(size_t *unused, size_t *total) { BEGIN; if (unused) *unused = total_memory - used_memory(); if (total) *total = total_memory; return SUCCESS; }
ALIAS(cuMemGetInfo, cuMemGetInfo_v2);
EXPORT Result cuMemGetAddressRange_v2(Address *base, size_t *bytes, Address address) {
    BEGIN;
    Allocation *one = find_allocation(address);
    if (!one) return NOT_FOUND;
    if (base) *base = one->address;
    if (bytes) *bytes = one->bytes;
    return SUCCESS;
}
ALIAS(cuMemGetAddressRange, cuMemGetAddressRange_v2);

static Result to_device(Address to, const void *from, size_t bytes, const void *stream, bool asynchronous) {
    if (bytes && !find_allocation(to) && !find_registered((void *)to)) return INVALID_VALUE;
    return copy_memory((void *)to, from, bytes, stream, asynchronous);
}
static Result from_device(void *to, Address from, size_t bytes, const void *stream, bool asynchronous) {
    if (bytes && !find_allocation(from) && !find_registered((void *)from)) return INVALID_VALUE;
    return copy_memory(to, (const void *)from, bytes, stream, asynchronous);
}
EXPORT Result cuMemcpy(Address to, Address from, size_t bytes) { BEGIN; return copy_memory((void *)to, (const void *)from, bytes, NULL, false); }
EXPORT Result cuMemcpyAsync(Address to, Address from, size_t bytes, void *stream) { BEGIN; return copy_memory((void *)to, (const void *)from, bytes, stream, true); }
EXPORT Result cuMemcpyHtoD_v2(Address to, const void *from, size_t bytes) { BEGIN; return to_device(to, from, bytes, NULL, false); }
ALIAS(cuMemcpyHtoD, cuMemcpyHtoD_v2);
EXPORT Result cuMemcpyHtoDAsync_v2(Address to, const void *from, size_t bytes, void *stream) { BEGIN; return to_device(to, from, bytes, stream, true); }
ALIAS(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2);
EXPORT Result cuMemcpyDtoH_v2(void *to, Address from, size_t bytes) { BEGIN; return from_device(to, from, bytes, NULL, false); }
ALIAS(cuMemcpyDtoH, cuMemcpyDtoH_v2);
EXPORT Result cuMemcpyDtoHAsync_v2(void *to, Address from, size_t bytes, void *stream) { BEGIN; return from_device(to, from, bytes, stream, true); }
ALIAS(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2);
EXPORT Result cuMemcpyDtoD_v2(Address to, Address from, size_t bytes) { BEGIN; return to_device(to, (const void *)from, bytes, NULL, false); }
ALIAS(cuMemcpyDtoD, cuMemcpyDtoD_v2);
EXPORT Result cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, void *stream) { BEGIN; return to_device(to, (const void *)from, bytes, stream, true); }
ALIAS(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2);
EXPORT Result cuMemcpyPeer(Address to, void *to_context, Address from, void *from_context, size_t bytes) { BEGIN; (void)to_context; (void)from_context; return copy_memory((void *)to, (const void *)from, bytes, NULL, false); }
EXPORT Result cuMemcpyPeerAsync(Address to, void *to_context, Address from, void *from_context, size_t bytes, void *stream) { BEGIN; (void)to_context; (void)from_context; return copy_memory((void *)to, (const void *)from, bytes, stream, true); }

/* Virtual memory: a reserved range is one allocation, and each handle is mapped at one place. */
typedef struct Physical { uint64_t bytes; Address mapped; char properties[64]; } Physical;
enum { GRANULARITY = 2 << 20, PROPERTY_BYTES = 32 };
EXPORT Result cuMemGetAllocationGranularity(size_t *bytes, const void *properties, int option) { BEGIN; (void)option; NEED(bytes && properties); *bytes = GRANULARITY; return SUCCESS; }
EXPORT Result cuMemAddressReserve(Address *address, size_t bytes, size_t alignment, Address wanted, unsigned long long flags) {
    BEGIN; (void)alignment; (void)wanted; NEED(address && bytes && bytes % 4096 == 0 && !flags);
    return allocate_memory(address, bytes, DEVICE);
}
EXPORT Result cuMemAddressFree(Address address, size_t bytes) {
    BEGIN;
    Allocation *one = find_allocation(address);
    NEED(one && one->address == address && one->bytes == bytes);
    return free_memory(address, DEVICE);
}
EXPORT Result cuMemCreate(Physical **handle, size_t bytes, const void *properties, unsigned long long flags) {
    BEGIN; NEED(handle && properties && bytes && bytes % GRANULARITY == 0 && !flags);
    if (bytes > total_memory - used_memory()) return OUT_OF_MEMORY;
    *handle = calloc(1, sizeof **handle);
    (*handle)->bytes = bytes;
    memcpy((*handle)->properties, properties, PROPERTY_BYTES);
    add_handle(*handle, PHYSICAL);
    return SUCCESS;
}
EXPORT Result cuMemRelease(Physical *handle) { BEGIN; NEED(has_handle(handle, PHYSICAL)); remove_handle(handle); return SUCCESS; }
EXPORT Result cuMemMap(Address address, size_t bytes, size_t offset, Physical *handle, unsigned long long flags) {
    BEGIN; NEED(has_handle(handle, PHYSICAL) && !flags && offset + bytes <= handle->bytes && host_memory(address, bytes));
    if (handle->mapped) return unsupported("cuMemMap of memory that is mapped already");
    handle->mapped = address;
    return SUCCESS;
}
EXPORT Result cuMemUnmap(Address address, size_t bytes) { BEGIN; NEED(host_memory(address, bytes)); return SUCCESS; }
EXPORT Result cuMemSetAccess(Address address, size_t bytes, const void *access, size_t count) { BEGIN; NEED(access && count && host_memory(address, bytes)); return SUCCESS; }
EXPORT Result cuMemGetAccess(unsigned long long *flags, const void *location, Address address) { BEGIN; NEED(flags && location && find_allocation(address)); *flags = 3; return SUCCESS; }
EXPORT Result cuMemGetAllocationPropertiesFromHandle(void *properties, Physical *handle) { BEGIN; NEED(properties && has_handle(handle, PHYSICAL)); memcpy(properties, handle->properties, PROPERTY_BYTES); return SUCCESS; }
EXPORT Result cuMemRetainAllocationHandle(void **handle, void *address) { BEGIN; (void)handle; (void)address; return unsupported("cuMemRetainAllocationHandle"); }

typedef struct End2D { size_t x, y; int type; void *host; Address device; void *array; size_t pitch; } End2D;
typedef struct Copy2D { End2D from, to; size_t width, height; } Copy2D;
typedef struct End3D { size_t x, y, z, level; int type; void *host; Address device; void *array; void *reserved; size_t pitch, height; } End3D;
typedef struct Copy3D { End3D from, to; size_t width, height, depth; } Copy3D;

enum { HOST_TYPE = 1, ARRAY_TYPE = 3, UNIFIED_TYPE = 4 };
typedef struct Rows { Address start; uint64_t pitch, slice; } Rows; /* one side of a copy: its first byte, and its rows and slices */
static bool find_rows(Rows *rows, int type, void *host, Address device, void *array, size_t x, size_t y, size_t z, size_t pitch, size_t height) {
    if (type == ARRAY_TYPE) {
        if (!has_handle(array, ARRAY)) return false;
        Array *one = array;
        *rows = (Rows){one->address, one->pitch, one->slice};
    } else {
        *rows = (Rows){type == HOST_TYPE ? (Address)host : device, pitch, pitch * height};
    }
    rows->start += z * rows->slice + y * rows->pitch + x;
    return true;
}
static Result copy_2d(const Copy2D *copy, const void *stream, bool asynchronous) {
    NEED(copy);
    const End2D *f = &copy->from, *t = &copy->to;
    Rows from, to;
    if (!find_rows(&from, f->type, f->host, f->device, f->array, f->x, f->y, 0, f->pitch ? f->pitch : copy->width, 0)) return INVALID_HANDLE;
    if (!find_rows(&to, t->type, t->host, t->device, t->array, t->x, t->y, 0, t->pitch ? t->pitch : copy->width, 0)) return INVALID_HANDLE;
    return copy_rows(to.start, to.pitch, from.start, from.pitch, copy->width, copy->height, stream, asynchronous);
}
EXPORT Result cuMemcpy2D_v2(const Copy2D *copy) { BEGIN; return copy_2d(copy, NULL, false); }
ALIAS(cuMemcpy2D, cuMemcpy2D_v2);
ALIAS(cuMemcpy2DUnaligned_v2, cuMemcpy2D_v2);
ALIAS(cuMemcpy2DUnaligned, cuMemcpy2D_v2);
EXPORT Result cuMemcpy2DAsync_v2(const Copy2D *copy, void *stream) { BEGIN; return copy_2d(copy, stream, true); }
ALIAS(cuMemcpy2DAsync, cuMemcpy2DAsync_v2);
static Result copy_3d(const Copy3D *copy, const void *stream, bool asynchronous) {
    NEED(copy);
    const End3D *f = &copy->from, *t = &copy->to;
    Rows from, to;
    if (!find_rows(&from, f->type, f->host, f->device, f->array, f->x, f->y, f->z, f->pitch ? f->pitch : copy->width, f->height ? f->height : copy->height)) return INVALID_HANDLE;
    if (!find_rows(&to, t->type, t->host, t->device, t->array, t->x, t->y, t->z, t->pitch ? t->pitch : copy->width, t->height ? t->height : copy->height)) return INVALID_HANDLE;
    for (size_t z = 0; z < copy->depth; z++) {
        Result result = copy_rows(to.start + z * to.slice, to.pitch, from.start + z * from.slice, from.pitch, copy->width, copy->height, stream, asynchronous);
        if (result) return result;
    }
    return SUCCESS;
}
_Static_assert(sizeof(Copy3D) == DRIVER_COPY_BYTES, "the structure of a copy");
Result run_driver_copy(const void *copy, const void *stream) { return copy_3d(copy, stream, true); }
void describe_copy(void *out, Address to, Address from, uint64_t bytes) {
    Copy3D copy = {.from = {.type = UNIFIED_TYPE, .device = from}, .to = {.type = UNIFIED_TYPE, .device = to}, .width = bytes, .height = 1, .depth = 1};
    memcpy(out, &copy, sizeof copy);
}
EXPORT Result cuMemcpy3D_v2(const Copy3D *copy) { BEGIN; return copy_3d(copy, NULL, false); }
ALIAS(cuMemcpy3D, cuMemcpy3D_v2);
EXPORT Result cuMemcpy3DAsync_v2(const Copy3D *copy, void *stream) { BEGIN; return copy_3d(copy, stream, true); }
ALIAS(cuMemcpy3DAsync, cuMemcpy3DAsync_v2);

#define MEMSET(name, type, width) \
    EXPORT Result name##_v2(Address to, type value, size_t count) { BEGIN; return fill_memory(to, value, width, count, NULL, false); } \
    ALIAS(name, name##_v2); \
    EXPORT Result name##Async(Address to, type value, size_t count, void *stream) { BEGIN; return fill_memory(to, value, width, count, stream, true); }
MEMSET(cuMemsetD8, unsigned char, 1)
MEMSET(cuMemsetD16, unsigned short, 2)
MEMSET(cuMemsetD32, unsigned, 4)
static Result fill_rows(Address to, size_t pitch, unsigned value, unsigned element, size_t width, size_t height, const void *stream, bool asynchronous) {
    for (size_t y = 0; y < height; y++) {
        Result result = fill_memory(to + y * pitch, value, element, width, stream, asynchronous);
        if (result) return result;
    }
    return SUCCESS;
}
#define MEMSET2D(name, type, element) \
    EXPORT Result name##_v2(Address to, size_t pitch, type value, size_t width, size_t height) { BEGIN; return fill_rows(to, pitch, value, element, width, height, NULL, false); } \
    ALIAS(name, name##_v2); \
    EXPORT Result name##Async(Address to, size_t pitch, type value, size_t width, size_t height, void *stream) { BEGIN; return fill_rows(to, pitch, value, element, width, height, stream, true); }
MEMSET2D(cuMemsetD2D8, unsigned char, 1)
MEMSET2D(cuMemsetD2D16, unsigned short, 2)
MEMSET2D(cuMemsetD2D32, unsigned, 4)

static Result pointer_attribute(void *data, int attribute, Address address) {
    Allocation *one = find_allocation(address), *registered = one ? NULL : find_registered((void *)address);
    if (!one) one = registered;
    if (!one) return INVALID_VALUE;
    Address device = registered ? one->address + (address - (Address)one->host) : address;
    switch (attribute) {
    case 1: *(void **)data = primary; break;
    case 2: *(int *)data = one->kind == PINNED || one->kind == REGISTERED ? 1 : 2; break;
    case 3: *(Address *)data = device; break;
    case 4:
        if (one->kind == DEVICE || one->kind == VARIABLE) return INVALID_VALUE;
        *(Address *)data = address;
        break;
    case 6: *(int *)data = 0; break;
    case 7: *(uint64_t *)data = one->address >> 8; break;
    case 8: *(int *)data = one->kind == MANAGED; break;
    case 9: *(int *)data = 0; break;
    case 10: *(int *)data = 0; break;
    case 11: *(Address *)data = one->address; break;
    case 12: *(size_t *)data = one->bytes; break;
    case 13: *(int *)data = 1; break;
    case 14: *(uint64_t *)data = 0; break;
    case 15: *(int *)data = 0; break;
    case 16: *(int *)data = 3; break;
    case 17: *(void **)data = NULL; break;
    case 18: *(size_t *)data = one->bytes; break;
    case 19: *(Address *)data = one->address; break;
    case 20: *(uint64_t *)data = one->address >> 8; break;
    default: return INVALID_VALUE;
    }
    return SUCCESS;
}
EXPORT Result cuPointerGetAttribute(void *data, int attribute, Address address) { BEGIN; NEED(data); return pointer_attribute(data, attribute, address); }
EXPORT Result cuPointerGetAttributes(unsigned count, int *wanted, void **data, Address address) {
    BEGIN; NEED(wanted && data);
    bool known = find_allocation(address) || find_registered((void *)address);
    for (unsigned n = 0; n < count; n++) {
        if (!data[n]) return INVALID_VALUE;
        bool is_word = wanted[n] == 1 || wanted[n] == 3 || wanted[n] == 4 || wanted[n] == 7 || wanted[n] == 11 || wanted[n] == 12 || wanted[n] == 17 || wanted[n] == 18 || wanted[n] == 19;
        if (!known || pointer_attribute(data[n], wanted[n], address)) memset(data[n], 0, is_word ? 8 : 4);
        if (!known && wanted[n] == 9) *(int *)data[n] = -2;
    }
    return SUCCESS;
}
EXPORT Result cuPointerSetAttribute(const void *value, int attribute, Address address) { BEGIN; NEED(value && attribute == 6 && find_allocation(address)); return SUCCESS; }

static char default_pool[16];
static void *pool(void) { add_handle(default_pool, POOL); return default_pool; }
EXPORT Result cuDeviceGetDefaultMemPool(void **out, int device) { BEGIN; NEED(out); IS_DEVICE(device); *out = pool(); return SUCCESS; }
EXPORT Result cuDeviceGetMemPool(void **out, int device) { BEGIN; NEED(out); IS_DEVICE(device); *out = pool(); return SUCCESS; }
EXPORT Result cuDeviceSetMemPool(int device, void *one) { BEGIN; IS_DEVICE(device); HANDLE(one, POOL); return SUCCESS; }
EXPORT Result cuMemPoolCreate(void **out, const void *properties) { BEGIN; NEED(out && properties); *out = calloc(1, 16); add_handle(*out, POOL); return SUCCESS; }
EXPORT Result cuMemPoolDestroy(void *one) { BEGIN; HANDLE(one, POOL); if (one != default_pool) remove_handle(one); return SUCCESS; }
EXPORT Result cuMemPoolTrimTo(void *one, size_t bytes) { BEGIN; (void)bytes; HANDLE(one, POOL); return SUCCESS; }
EXPORT Result cuMemPoolSetAttribute(void *one, int attribute, void *value) { BEGIN; (void)attribute; HANDLE(one, POOL); NEED(value); return SUCCESS; }
EXPORT Result cuMemPoolGetAttribute(void *one, int attribute, void *value) {
    BEGIN; HANDLE(one, POOL); NEED(value);
    if (attribute <= 3) *(int *)value = 1;
    else *(uint64_t *)value = attribute == 4 ? 0 : used_memory();
    return SUCCESS;
}
EXPORT Result cuMemPoolSetAccess(void *one, const void *access, size_t count) { BEGIN; (void)access; (void)count; HANDLE(one, POOL); return SUCCESS; }
EXPORT Result cuMemPoolGetAccess(int *flags, void *one, void *location) { BEGIN; (void)location; HANDLE(one, POOL); NEED(flags); *flags = 3; return SUCCESS; }

/* -- advice about managed memory: it is kept, for a program that asks for it, of whole allocations -- */

typedef struct Location { int type, id; } Location; /* passed by value, in one register */
enum { AT_DEVICE = 1, AT_HOST, AT_NODE, AT_OWN_NODE, NOWHERE = -2, HOST_ID = -1 };
static Location location_of(int device) { return device == HOST_ID ? (Location){AT_HOST, 0} : (Location){AT_DEVICE, device}; }
static Result check_location(Location location) { NEED(location.type >= AT_DEVICE && location.type <= AT_OWN_NODE && (location.type != AT_DEVICE || !location.id)); return SUCCESS; }
static bool is_managed(const Allocation *one) { return one && (one->kind == MANAGED || one->kind == BLANK || one->kind == VARIABLE); } /* a variable may be */
EXPORT Result cuMemAdvise_v2(Address address, size_t bytes, int advice, Location location) {
    BEGIN; NEED(bytes && host_memory(address, bytes) && advice >= 1 && advice <= 6);
    Allocation *one = find_allocation(address);
    NEED(is_managed(one));
    int *preferred = one->preferred, bit = location.type == AT_DEVICE ? 1 : 2;
    Result wrong = advice == 3 || advice >= 5 ? check_location(location) : SUCCESS;
    if (wrong) return wrong;
    switch (advice) {
    case 1: one->read_mostly = true; break;
    case 2: one->read_mostly = false; break;
    case 3: preferred[0] = location.type, preferred[1] = location.id; break;
    case 4: preferred[0] = preferred[1] = 0; break;
    case 5: one->accessed |= bit; break;
    default: one->accessed &= ~bit;
    }
    return SUCCESS;
}
EXPORT Result cuMemAdvise(Address address, size_t bytes, int advice, int device) { return cuMemAdvise_v2(address, bytes, advice, location_of(device)); }
EXPORT Result cuMemPrefetchAsync_v2(Address address, size_t bytes, Location location, unsigned flags, void *stream) {
    BEGIN; NEED(bytes && host_memory(address, bytes) && !flags);
    Result wrong = check_location(location);
    if (wrong) return wrong;
    Allocation *one = find_allocation(address);
    NEED(is_managed(one));
    one->prefetched[0] = location.type, one->prefetched[1] = location.id;
    return check_stream(stream);
}
EXPORT Result cuMemPrefetchAsync(Address address, size_t bytes, int device, void *stream) { return cuMemPrefetchAsync_v2(address, bytes, location_of(device), 0, stream); }
static int place_of(const int *location) { return location[0] == AT_DEVICE ? location[1] : location[0] ? HOST_ID : NOWHERE; }
EXPORT Result cuMemRangeGetAttribute(int *data, size_t room, int attribute, Address address, size_t bytes) {
    BEGIN; NEED(data && room >= sizeof(int) && room % sizeof(int) == 0 && bytes && host_memory(address, bytes) && attribute >= 1 && attribute <= 8);
    const Allocation *one = find_allocation(address);
    NEED(is_managed(one));
    NEED(attribute == 3 || room == sizeof(int));
    switch (attribute) {
    case 1: *data = one->read_mostly; break;
    case 2: *data = place_of(one->preferred); break;
    case 3: {
        size_t found = 0, all = room / sizeof(int);
        if (one->accessed & 1) data[found++] = 0;
        if (one->accessed & 2 && found < all) data[found++] = HOST_ID;
        while (found < all) data[found++] = NOWHERE;
        break;
    }
    case 4: *data = place_of(one->prefetched); break;
    case 5: case 6: *data = one->preferred[attribute - 5]; break;
    default: *data = one->prefetched[attribute - 7];
    }
    return SUCCESS;
}
EXPORT Result cuMemRangeGetAttributes(void **data, size_t *rooms, int *wanted, size_t count, Address address, size_t bytes) {
    NEED(data && rooms && wanted && count);
    for (size_t n = 0; n < count; n++) {
        Result result = cuMemRangeGetAttribute(data[n], rooms[n], wanted[n], address, bytes);
        if (result) return result;
    }
    return SUCCESS;
}

/* -- streams and events -- */

static uint64_t stream_ids = 1;
EXPORT Result cuStreamCreateWithPriority(void **stream, unsigned flags, int priority) {
    BEGIN; NEED(stream && flags <= 1);
    Stream *made = calloc(1, sizeof *made);
    *made = (Stream){flags, priority < -5 ? -5 : priority > 0 ? 0 : priority, ++stream_ids, NULL};
    add_handle(made, STREAM);
    send_action(NEW_STREAM, made, NULL, 0, 0, 0, flags);
    *stream = made;
    return SUCCESS;
}
EXPORT Result cuStreamCreate(void **stream, unsigned flags) { return cuStreamCreateWithPriority(stream, flags, 0); }
EXPORT Result cuStreamDestroy_v2(void *stream) { BEGIN; HANDLE(stream, STREAM); remove_handle(stream); return SUCCESS; }
ALIAS(cuStreamDestroy, cuStreamDestroy_v2);
static Result check_idle(const void *stream) {
    Result result = check_stream(stream);
    return result ? result : capturing(stream) ? CAPTURE_UNSUPPORTED : SUCCESS;
}
EXPORT Result cuStreamSynchronize(void *stream) { BEGIN; Result result = check_idle(stream); if (!result) send_action(SYNC_STREAM, stream, NULL, 0, 0, 0, 0); return result; }
EXPORT Result cuStreamQuery(void *stream) { return cuStreamSynchronize(stream); } /* all work has ended, and the program knows it now */
EXPORT Result cuStreamWaitEvent(void *stream, void *event, unsigned flags) {
    BEGIN; (void)flags; HANDLE(event, EVENT);
    Result result = check_stream(stream);
    if (result) return result;
    Stream *one = stream_of(stream);
    const Event *waited = event;
    Graph *recorded = (Graph *)(uintptr_t)waited->recorded;
    if (!one || !recorded || !has_handle(recorded, GRAPH) || !recorded->capture_number || recorded->capture_number != waited->capture_number) {
        send_action(WAIT, stream, event, 0, 0, 0, 0);
        return SUCCESS;
    }
    if (!capturing(stream)) begin_capture(one, recorded); /* it joins the capture */
    if (one->capture == recorded) come_after(&one->ends, waited->ends.nodes, waited->ends.count);
    return SUCCESS;
}
EXPORT Result cuStreamGetPriority(void *stream, int *priority) { BEGIN; NEED(priority); Result result = check_stream(stream); if (result) return result; Stream *one = stream_of(stream); *priority = one ? one->priority : 0; return SUCCESS; }
EXPORT Result cuStreamGetFlags(void *stream, unsigned *flags) { BEGIN; NEED(flags); Result result = check_stream(stream); if (result) return result; Stream *one = stream_of(stream); *flags = one ? one->flags : 0; return SUCCESS; }
EXPORT Result cuStreamGetId(void *stream, unsigned long long *id) { BEGIN; NEED(id); Result result = check_stream(stream); if (result) return result; Stream *one = stream_of(stream); *id = one ? one->id : 1; return SUCCESS; }
EXPORT Result cuStreamGetCtx(void *stream, void **context) { BEGIN; NEED(context); *context = primary; return check_stream(stream); }
EXPORT Result cuStreamGetDevice(void *stream, int *device) { BEGIN; NEED(device); *device = 0; return check_stream(stream); }
EXPORT Result cuStreamIsCapturing(void *stream, int *status) { BEGIN; NEED(status); Result result = check_stream(stream); *status = capturing(stream) != NULL; return result; }
EXPORT Result cuStreamGetCaptureInfo_v2(void *stream, int *status, uint64_t *id, void **graph, const void ***before, size_t *count) {
    BEGIN; NEED(status);
    Result result = check_stream(stream);
    if (result) return result;
    Graph *found = capturing(stream);
    *status = found != NULL;
    if (id) *id = (uintptr_t)found;
    if (graph) *graph = found;
    const Ends none = {NULL, 0}, *ends = found ? &stream_of(stream)->ends : &none;
    if (before) *before = ends->count ? (const void **)ends->nodes : NULL;
    if (count) *count = ends->count;
    return SUCCESS;
}
EXPORT Result cuStreamGetCaptureInfo_v3(void *stream, int *status, uint64_t *id, void **graph, const void ***before, const void **edges, size_t *count) {
    static const uint64_t plain_edge;
    if (edges) *edges = &plain_edge;
    return cuStreamGetCaptureInfo_v2(stream, status, id, graph, before, count);
}
EXPORT Result cuStreamAttachMemAsync(void *stream, Address address, size_t length, unsigned flags) { BEGIN; (void)length; (void)flags; NEED(find_allocation(address)); return check_stream(stream); }
EXPORT Result cuStreamCopyAttributes(void *to, void *from) { BEGIN; Result result = check_stream(to); return result ? result : check_stream(from); }
EXPORT Result cuStreamSetAttribute(void *stream, int attribute, const void *value) { BEGIN; (void)attribute; NEED(value); return check_stream(stream); }
EXPORT Result cuStreamGetAttribute(void *stream, int attribute, void *value) { BEGIN; (void)attribute; NEED(value); memset(value, 0, 64); return check_stream(stream); }
EXPORT Result cuThreadExchangeStreamCaptureMode(int *mode) { BEGIN; NEED(mode && *mode >= 0 && *mode <= 2); return SUCCESS; }

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}
EXPORT Result cuEventCreate(void **event, unsigned flags) {
    BEGIN; NEED(event && flags <= 7);
    Event *made = calloc(1, sizeof *made);
    made->flags = flags;
    add_handle(made, EVENT);
    *event = made;
    return SUCCESS;
}
static Result record(Event *event, void *stream) {
    HANDLE(event, EVENT);
    Result result = check_stream(stream);
    if (result) return result;
    Graph *graph = capturing(stream);
    event->recorded = graph ? (uintptr_t)graph : 1;
    event->time = now();
    event->ends.count = 0;
    if (graph) {
        event->capture_number = graph->capture_number;
        come_after(&event->ends, stream_of(stream)->ends.nodes, stream_of(stream)->ends.count);
    }
    if (!graph) send_action(RECORD, stream, event, 0, 0, 0, 0);
    return SUCCESS;
}
EXPORT Result cuEventRecord(void *event, void *stream) { BEGIN; return record(event, stream); }
EXPORT Result cuEventRecordWithFlags(void *event, void *stream, unsigned flags) { BEGIN; (void)flags; return record(event, stream); }
EXPORT Result cuEventSynchronize(void *event) { BEGIN; HANDLE(event, EVENT); send_action(SYNC_EVENT, NULL, event, 0, 0, 0, 0); return SUCCESS; }
EXPORT Result cuEventQuery(void *event) { BEGIN; HANDLE(event, EVENT); send_action(SYNC_EVENT, NULL, event, 0, 0, 0, 0); return SUCCESS; }
EXPORT Result cuEventDestroy_v2(void *event) { BEGIN; HANDLE(event, EVENT); remove_handle(event); return SUCCESS; }
ALIAS(cuEventDestroy, cuEventDestroy_v2);
EXPORT Result cuEventElapsedTime_v2(float *milliseconds, Event *start, Event *end) {
    BEGIN; NEED(milliseconds); HANDLE(start, EVENT); HANDLE(end, EVENT);
    if ((start->flags | end->flags) & 2 || !start->recorded || !end->recorded) return INVALID_HANDLE; /* timing disabled, or not recorded */
    *milliseconds = (float)(end->time - start->time);
    return SUCCESS;
}
ALIAS(cuEventElapsedTime, cuEventElapsedTime_v2);

/* -- occupancy -- */

EXPORT Result cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, Function *function, int threads, size_t dynamic, unsigned flags) { BEGIN; (void)flags; NEED(blocks); HANDLE(function, FUNCTION); return occupancy_of(function, threads, dynamic, blocks); }
EXPORT Result cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, Function *function, int threads, size_t dynamic) { return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, dynamic, 0); }
EXPORT Result cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, Function *function, size_t (*shared)(int), size_t dynamic, int limit, unsigned flags) {
    BEGIN; (void)flags; NEED(grid && block); HANDLE(function, FUNCTION);
    int most = limit > 0 && limit < function->max_threads ? limit : function->max_threads, best = 0;
    for (int threads = most; threads > 0; threads = threads % 32 ? threads / 32 * 32 : threads - 32) {
        int blocks = 0;
        Result result = occupancy_of(function, threads, shared ? shared(threads) : dynamic, &blocks);
        if (result) return result;
        if (blocks * threads > best) { best = blocks * threads; *block = threads; *grid = blocks * attributes[16]; }
        if (best == attributes[39]) break;
    }
    return best ? SUCCESS : INVALID_VALUE;
}
EXPORT Result cuOccupancyMaxPotentialBlockSize(int *grid, int *block, Function *function, size_t (*shared)(int), size_t dynamic, int limit) { return cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, function, shared, dynamic, limit, 0); }
EXPORT Result cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, Function *function, int blocks, int threads) {
    BEGIN; (void)threads; NEED(bytes && blocks > 0); HANDLE(function, FUNCTION);
    Result result = inspect_function(function);
    size_t each = (size_t)attributes[81] / (size_t)blocks / 128 * 128, own = (size_t)attributes[111] + (size_t)function->shared_bytes;
    size_t most = (size_t)(function->dynamic ? function->dynamic : attributes[8] - function->shared_bytes), left = each > own ? each - own : 0;
    *bytes = left < most ? left : most;
    return result;
}
EXPORT Result cuOccupancyMaxActiveClusters(int *clusters, Function *function, const Configuration *given) {
    BEGIN; NEED(clusters && given); HANDLE(function, FUNCTION);
    Shape shape = shape_of(given);
    unsigned size = shape.cluster[0] ? shape.cluster[0] * shape.cluster[1] * shape.cluster[2] : 1;
    NEED(size);
    int blocks = 0;
    Result result = occupancy_of(function, (int)(shape.block[0] * shape.block[1] * shape.block[2]), shape.shared, &blocks);
    *clusters = blocks * attributes[16] / (int)size;
    return result;
}
EXPORT Result cuOccupancyMaxPotentialClusterSize(int *size, Function *function, const Configuration *given) { BEGIN; NEED(size && given); HANDLE(function, FUNCTION); *size = function->nonportable ? 16 : 8; return SUCCESS; }

/* -- tensor maps -- */

typedef struct {
    int type, interleave, swizzle, promotion, fill;
    uint32_t rank;
    void *address;
    const uint64_t *extents, *strides;
    const uint32_t *steps;
} Tensor;

/* 26 words of a tiled map; with those of im2col mode, 35. `line`: 0, or 1 for im2col::w and 2 for im2col::w::128. */
static Result encode_map(void *map, const Tensor *t, const uint32_t *box, const int *lower, const int *upper, uint32_t channels, uint32_t pixels, int line) {
    uint64_t words[7 + 5 + 4 + 5 + 5 + 9] = {(uint64_t)t->type, t->rank, (uint64_t)t->address, (uint64_t)t->interleave, (uint64_t)t->swizzle, (uint64_t)t->promotion, (uint64_t)t->fill};
    for (uint32_t n = 0; n < t->rank; n++) {
        words[7 + n] = t->extents[n];
        if (n + 1 < t->rank) words[12 + n] = t->strides[n];
        if (box) words[16 + n] = box[n];
        words[21 + n] = t->steps[n];
    }
    for (uint32_t n = 0; lower && n < (line ? 1 : t->rank - 2); n++) {
        words[26 + n] = (uint64_t)(int64_t)lower[n];
        words[29 + n] = (uint64_t)(int64_t)upper[n];
    }
    words[32] = channels;
    words[33] = pixels;
    words[34] = (uint64_t)line;
    Reply reply;
    Result result = ask_server(OP_MAP, words, sizeof words, NULL, 0, &reply);
    if (!result && reply.length == 128) memcpy(map, reply.data, 128);
    free(reply.data);
    return result;
}

EXPORT Result cuTensorMapEncodeTiled(void *map, int type, uint32_t rank, void *address, const uint64_t *extents, const uint64_t *strides, const uint32_t *box, const uint32_t *steps, int interleave, int swizzle, int promotion, int fill) {
    BEGIN; NEED(map && rank >= 1 && rank <= 5 && extents && box && steps && (strides || rank == 1));
    Tensor t = {type, interleave, swizzle, promotion, fill, rank, address, extents, strides, steps};
    return encode_map(map, &t, box, NULL, NULL, 0, 0, 0);
}
EXPORT Result cuTensorMapEncodeIm2col(void *map, int type, uint32_t rank, void *address, const uint64_t *extents, const uint64_t *strides, const int *lower, const int *upper, uint32_t channels, uint32_t pixels, const uint32_t *steps, int interleave, int swizzle, int promotion, int fill) {
    BEGIN; NEED(map && rank >= 3 && rank <= 5 && extents && strides && lower && upper && channels && pixels && steps);
    Tensor t = {type, interleave, swizzle, promotion, fill, rank, address, extents, strides, steps};
    return encode_map(map, &t, NULL, lower, upper, channels, pixels, 0);
}
/* Mode 1 ignores the number of pixels: a copy has 128. */
EXPORT Result cuTensorMapEncodeIm2colWide(void *map, int type, uint32_t rank, void *address, const uint64_t *extents, const uint64_t *strides, int lower, int upper, uint32_t channels, uint32_t pixels, const uint32_t *steps, int interleave, int mode, int swizzle, int promotion, int fill) {
    BEGIN; NEED(map && rank >= 3 && rank <= 5 && extents && strides && channels && (pixels || mode == 1) && steps && (mode == 0 || mode == 1));
    Tensor t = {type, interleave, swizzle, promotion, fill, rank, address, extents, strides, steps};
    return encode_map(map, &t, NULL, &lower, &upper, channels, mode ? 128 : pixels, mode + 1);
}
EXPORT Result cuTensorMapReplaceAddress(void *map, void *address) { BEGIN; NEED(map); memcpy(map, &address, 8); return SUCCESS; }

/* -- captures -- */

EXPORT Result cuStreamBeginCapture_v2(void *stream, int mode) {
    BEGIN; NEED(mode >= 0 && mode <= 2);
    if (!has_handle(stream, STREAM)) return check_stream(stream) ? INVALID_HANDLE : CAPTURE_UNSUPPORTED;
    if (capturing(stream)) return ILLEGAL_STATE;
    Graph *graph = calloc(1, sizeof *graph);
    add_handle(graph, GRAPH);
    begin_capture(stream_of(stream), graph);
    return SUCCESS;
}
ALIAS(cuStreamBeginCapture, cuStreamBeginCapture_v2);
/* Whether all that was captured comes before the end of the stream in which the capture began. */
static bool is_joined(const Graph *graph, const Ends *ends) {
    mark_up_to(graph, ends);
    for (uint32_t n = 0; n < graph->count; n++)
        if (graph->nodes[n]->capture_number == graph->capture_number && !graph->nodes[n]->done) return false;
    return true;
}
EXPORT Result cuStreamEndCapture(void *stream, void **graph) {
    BEGIN;
    HANDLE(stream, STREAM);
    Graph *found = capturing(stream);
    if (!found) return ILLEGAL_STATE;
    if (found->origin != stream_of(stream)) return CAPTURE_UNMATCHED;
    bool joined = is_joined(found, &stream_of(stream)->ends);
    stream_of(stream)->capture = NULL;
    found->capture_number = 0;
    if (graph) *graph = joined ? found : NULL;
    return joined ? SUCCESS : CAPTURE_UNJOINED;
}

/* -- the rest -- */

EXPORT Result cuProfilerStart(void) { BEGIN; return SUCCESS; }
EXPORT Result cuProfilerStop(void) { BEGIN; return SUCCESS; }
EXPORT Result cuGetErrorString(Result code, const char **text) { NEED(text); *text = error_text(code); return *text ? SUCCESS : INVALID_VALUE; }
EXPORT Result cuGetErrorName(Result code, const char **text) { NEED(text); *text = error_name(code); return *text ? SUCCESS : INVALID_VALUE; }
/* Private tables of NVIDIA's driver: there are none.  A linked-in runtime is replaced at its documented functions. */
EXPORT Result cuGetExportTable(const void **table, const void *id) { (void)id; if (table) *table = NULL; return NOT_FOUND; }

static const struct { const char *name; int since; const char *symbol; } VERSION_TABLE[] = {
#define ROW(name, since, symbol) {name, since, symbol},
    VERSIONS(ROW)
};

/* A function of this library, by its own tables: `dlsym` cannot be called while the loader loads a program. */
extern const Elf64_Dyn _DYNAMIC[] __attribute__((visibility("hidden")));
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
static uint32_t hash_of(const char *name) {
    uint32_t hash = 0;
    for (; *name; name++) {
        hash = (hash << 4) + (unsigned char)*name;
        hash = (hash ^ (hash >> 24 & 0xf0)) & 0x0fffffff;
    }
    return hash;
}
void *symbol_of(const char *name) {
    size_t base = (size_t)__ehdr_start;
    const Elf64_Sym *symbols = NULL;
    const char *names = NULL;
    const uint32_t *table = NULL;
    for (const Elf64_Dyn *entry = _DYNAMIC; entry->d_tag != DT_NULL; entry++) {
        size_t value = entry->d_un.d_ptr < base ? base + entry->d_un.d_ptr : entry->d_un.d_ptr; /* some loaders relocate it */
        if (entry->d_tag == DT_SYMTAB) symbols = (const void *)value;
        else if (entry->d_tag == DT_STRTAB) names = (const char *)value;
        else if (entry->d_tag == DT_HASH) table = (const void *)value;
    }
    if (!symbols || !names || !table) return NULL;
    const uint32_t *chains = table + 2 + table[0];
    for (uint32_t n = table[2 + hash_of(name) % table[0]]; n; n = chains[n])
        if (symbols[n].st_shndx && !strcmp(names + symbols[n].st_name, name)) return (void *)(base + symbols[n].st_value);
    return NULL;
}

static Result find_symbol(const char *name, void **function, int version, int *status) {
    NEED(name && function);
    const char *symbol = name;
    int since = -1;
    for (size_t n = 0; n < sizeof VERSION_TABLE / sizeof *VERSION_TABLE; n++)
        if (!strcmp(VERSION_TABLE[n].name, name) && VERSION_TABLE[n].since <= version && VERSION_TABLE[n].since > since) {
            since = VERSION_TABLE[n].since;
            symbol = VERSION_TABLE[n].symbol;
        }
    *function = symbol_of(symbol);
    if (status) *status = *function ? 0 : 1;
    return *function ? SUCCESS : NOT_FOUND;
}
EXPORT Result cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status) { (void)flags; return find_symbol(name, function, version, status); }
EXPORT Result cuGetProcAddress(const char *name, void **function, int version, uint64_t flags) { (void)flags; return find_symbol(name, function, version, NULL); }
