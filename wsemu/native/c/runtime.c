/* The runtime's functions: cuda*, and those that the compiler calls for `<<<...>>>` and for variables. */
#define _GNU_SOURCE
#include "runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>


static __thread Result last;

Result keep(Result result) {
    runtime_used = true;
    if (result) last = result;
    return result;
}
static inline void leave(int *unused) { (void)unused; unlock(); }
#define GUARD __attribute__((cleanup(leave))) int guard = (lock(), 0); (void)guard
#define BEGIN GUARD; log_call("%s", __func__); runtime_used = true; { Result failed = begin_call(); if (failed) return keep(failed); }
#define NEED(condition) do { if (!(condition)) return keep(INVALID_VALUE); } while (0)
#define IS_DEVICE(device) do { if ((device) != 0) return keep(INVALID_DEVICE); } while (0)
#define PER_THREAD(name) PER_THREAD_AS(name, _ptsz)
#define PER_THREAD_SYNC(name) PER_THREAD_AS(name, _ptds)

/* Functions of the driver, declared as they are used here. */
Result cuStreamCreateWithPriority(Handle *, unsigned, int), cuStreamDestroy_v2(Handle), cuStreamSynchronize(Handle), cuStreamQuery(Handle);
Result cuStreamWaitEvent(Handle, Handle, unsigned), cuStreamGetPriority(Handle, int *), cuStreamGetFlags(Handle, unsigned *), cuStreamGetId(Handle, unsigned long long *);
Result cuStreamIsCapturing(Handle, int *), cuStreamBeginCapture_v2(Handle, int), cuStreamEndCapture(Handle, Handle *), cuStreamAddCallback(Handle, void (*)(void *, Result, void *), void *, unsigned);
Result cuStreamGetCaptureInfo_v3(Handle, int *, uint64_t *, Handle *, const void ***, const void **, size_t *);
Result cuStreamUpdateCaptureDependencies_v2(Handle, Node *const *, const void *, size_t, unsigned), cuStreamUpdateCaptureDependencies(Handle, Node *const *, size_t, unsigned);
Result cuLaunchHostFunc(Handle, void (*)(void *), void *);
Result cuEventCreate(Handle *, unsigned), cuEventRecord(Handle, Handle), cuEventSynchronize(Handle), cuEventQuery(Handle), cuEventDestroy_v2(Handle), cuEventElapsedTime_v2(float *, Handle, Handle);
Result cuMemAlloc_v2(Address *, size_t), cuMemAllocAsync(Address *, size_t, Handle), cuMemAllocFromPoolAsync(Address *, size_t, Handle, Handle), cuMemAllocManaged(Address *, size_t, unsigned);
Result cuMemHostAlloc(void **, size_t, unsigned), cuMemFree_v2(Address), cuMemFreeAsync(Address, Handle), cuMemFreeHost(void *), cuMemHostRegister_v2(void *, size_t, unsigned), cuMemHostUnregister(void *);
Result cuMemHostGetDevicePointer_v2(Address *, void *, unsigned), cuMemHostGetFlags(unsigned *, void *), cuMemGetInfo_v2(size_t *, size_t *), cuCtxSynchronize(void), cuCtxGetLimit(size_t *, int), cuCtxSetLimit(int, size_t);
Result cuDeviceGetDefaultMemPool(Handle *, int), cuDeviceGetMemPool(Handle *, int), cuDeviceSetMemPool(int, Handle), cuMemPoolCreate(Handle *, const void *), cuMemPoolDestroy(Handle), cuMemPoolTrimTo(Handle, size_t);
Result cuMemPoolSetAttribute(Handle, int, void *), cuMemPoolGetAttribute(Handle, int, void *), cuMemPoolSetAccess(Handle, const void *, size_t), cuMemPoolGetAccess(int *, Handle, void *);
Result cuModuleLoadFatBinary(Module **, const void *), cuLibraryLoadFromFile(Module **, const char *, int *, void **, unsigned, int *, void **, unsigned), cuLibraryUnload(Module *);
Result cuLibraryGetKernel(Function **, Module *, const char *), cuLibraryGetGlobal(Address *, size_t *, Module *, const char *), cuLibraryGetKernelCount(unsigned *, Module *), cuLibraryEnumerateKernels(Function **, unsigned, Module *);
Result cuFuncSetAttribute(Function *, int, int), cuFuncGetAttribute(int *, int, Function *), cuOccupancyAvailableDynamicSMemPerBlock(size_t *, Function *, int, int), cuFuncGetParamInfo(Function *, size_t, size_t *, size_t *);
Result cuMemRangeGetAttribute(int *, size_t, int, Address, size_t), cuMemRangeGetAttributes(void **, size_t *, int *, size_t, Address, size_t);
Result cuMemAdvise_v2(Address, size_t, int, uint64_t), cuMemPrefetchAsync_v2(Address, size_t, uint64_t, unsigned, Handle), cuDeviceGetPCIBusId(char *, int, int), cuDeviceGetByPCIBusId(int *, const char *);
Result cuGraphCreate(Handle *, unsigned), cuGraphDestroy(Handle), cuGraphExecDestroy(Handle), cuGraphInstantiateWithFlags(Handle *, Handle, unsigned long long), cuGraphLaunch(Handle, Handle), cuGraphUpload(Handle, Handle), cuGraphClone(Handle *, Handle), cuGraphGetNodes(Handle, Handle *, size_t *), cuStreamBeginCaptureToGraph(Handle, Graph *, Node *const *, const void *, size_t, int);
Result cuGetProcAddress_v2(const char *, void **, int, uint64_t, int *), cuPointerGetAttribute(void *, int, Address), cuThreadExchangeStreamCaptureMode(int *);

/* -- what the compiler registers -- */

typedef struct Binary { const void *image; Module *module; bool tried; Result result; } Binary;
typedef struct Symbol { Binary *binary; const char *name; Function *function; size_t bytes; void **managed; } Symbol;
static Table functions, variables;

static Module *module_of(Binary *binary) {
    if (!binary->tried) {
        binary->tried = true;
        binary->result = load_module(&binary->module, binary->image, 0);
    }
    return binary->module;
}
EXPORT Binary *__cudaRegisterFatBinary(void *wrapper) {
    Binary *binary = calloc(1, sizeof *binary);
    binary->image = wrapper;
    return binary;
}
EXPORT void __cudaRegisterFatBinaryEnd(Binary *binary) { (void)binary; }
EXPORT void __cudaUnregisterFatBinary(Binary *binary) { (void)binary; }
static Symbol *register_symbol(Table *table, const void *host, Binary *binary, const char *name, size_t bytes) {
    Symbol *symbol = calloc(1, sizeof *symbol);
    *symbol = (Symbol){binary, name, NULL, bytes, NULL};
    lock();
    table_put(table, host, symbol);
    unlock();
    return symbol;
}
EXPORT void __cudaRegisterFunction(Binary *binary, const char *host, char *device, const char *name, int limit, void *tid, void *bid, Dim3 *block, Dim3 *grid, int *size) {
    (void)device; (void)limit; (void)tid; (void)bid; (void)block; (void)grid; (void)size;
    register_symbol(&functions, host, binary, name, 0);
}
EXPORT void __cudaRegisterVar(Binary *binary, char *host, char *device, const char *name, int external, size_t bytes, int constant, int global) {
    (void)device; (void)external; (void)constant; (void)global;
    register_symbol(&variables, host, binary, name, bytes);
}
static Address variable_of(const void *host, size_t *bytes, Result *result) {
    Symbol *symbol = table_get(&variables, host);
    Module *module = symbol ? module_of(symbol->binary) : NULL;
    struct Variable *found = module ? find_variable(module, symbol->name) : NULL;
    *result = found ? SUCCESS : symbol && symbol->binary->result ? symbol->binary->result : INVALID_SYMBOL;
    if (found && bytes) *bytes = found->bytes;
    return found ? found->address : 0;
}
EXPORT void __cudaRegisterManagedVar(Binary *binary, void **host, char *device, const char *name, int external, size_t bytes, int constant, int global) {
    (void)device; (void)external; (void)constant; (void)global;
    register_symbol(&variables, host, binary, name, bytes)->managed = host;
    lock();
    Result result = begin_call();
    Address address = result ? 0 : variable_of(host, NULL, &result);
    if (address) { /* host code may use the pointer, or its address as the symbol */
        *host = (void *)address;
        table_put(&variables, *host, table_get(&variables, host));
    }
    unlock();
}
EXPORT void __cudaRegisterHostVar(Binary *binary, const char *name, char *host, size_t bytes) { (void)binary; (void)name; (void)host; (void)bytes; }
EXPORT char __cudaInitModule(Binary *binary) { (void)binary; return 1; }
EXPORT void __cudaRegisterUnifiedTable(void *a, void *b) { (void)a; (void)b; }

Function *function_of(const void *host, Result *result) {
    *result = SUCCESS;
    if (has_handle(host, FUNCTION)) return (Function *)host; /* a kernel of a library */
    Symbol *symbol = table_get(&functions, host);
    if (symbol && !symbol->function) {
        Module *module = module_of(symbol->binary);
        symbol->function = module ? find_function(module, symbol->name) : NULL;
    }
    if (symbol && symbol->function) return symbol->function;
    *result = symbol && symbol->binary->result ? symbol->binary->result : INVALID_FUNCTION;
    return NULL;
}

/* -- launches -- */

typedef struct Call { Dim3 grid, block; size_t shared; Handle stream; } Call;
static __thread Call calls[16];
static __thread int call_count;

EXPORT unsigned __cudaPushCallConfiguration(Dim3 grid, Dim3 block, size_t shared, Handle stream) {
    if (call_count == 16) return 1;
    calls[call_count++] = (Call){grid, block, shared, stream};
    return 0;
}
EXPORT Result __cudaPopCallConfiguration(Dim3 *grid, Dim3 *block, size_t *shared, Handle *stream) {
    if (!call_count) return keep(52); /* missing configuration */
    Call *call = &calls[--call_count];
    *grid = call->grid;
    *block = call->block;
    *shared = call->shared;
    *stream = call->stream;
    return SUCCESS;
}
EXPORT Result __cudaGetKernel(Handle *kernel, const void *host) { *kernel = (Handle)host; return SUCCESS; }

Shape shape_of_launch(Dim3 grid, Dim3 block, size_t shared) {
    return (Shape){{grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, shared > UINT32_MAX ? UINT32_MAX : (unsigned)shared, {0, 0, 0}, 0, 0};
}
static Result launch(const void *host, const Shape *shape, void **arguments, Handle stream) {
    Result result;
    Function *function = function_of(host, &result);
    void *none[1] = {NULL};
    return keep(function ? launch_function(function, shape, stream, arguments ? arguments : none, NULL) : result);
}
EXPORT Result cudaLaunchKernel(const void *host, Dim3 grid, Dim3 block, void **arguments, size_t shared, Handle stream) {
    BEGIN;
    Shape shape = shape_of_launch(grid, block, shared);
    return launch(host, &shape, arguments, stream);
}
PER_THREAD(cudaLaunchKernel)
EXPORT Result __cudaLaunchKernel(Handle kernel, Dim3 grid, Dim3 block, void **arguments, size_t shared, Handle stream) { return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream); }
PER_THREAD(__cudaLaunchKernel)
EXPORT Result cudaLaunchCooperativeKernel(const void *host, Dim3 grid, Dim3 block, void **arguments, size_t shared, Handle stream) {
    BEGIN;
    Shape shape = shape_of_launch(grid, block, shared);
    shape.cooperative = 1;
    return launch(host, &shape, arguments, stream);
}
PER_THREAD(cudaLaunchCooperativeKernel)
typedef struct Attribute { int id; char pad[4]; union { char bytes[64]; int number; unsigned extent[3]; } value; } Attribute;
typedef struct Configuration { Dim3 grid, block; size_t shared; Handle stream; Attribute *attributes; unsigned count; } Configuration;
static Shape configured(const Configuration *given) {
    Shape shape = shape_of_launch(given->grid, given->block, given->shared);
    for (unsigned n = 0; n < given->count && given->attributes; n++) {
        const Attribute *one = &given->attributes[n];
        if (one->id == 2) shape.cooperative = one->value.number;
        else if (one->id == 4) memcpy(shape.cluster, one->value.extent, sizeof shape.cluster);
        else if (one->id == 6) shape.dependent = one->value.number;
    }
    return shape;
}
EXPORT Result cudaLaunchKernelExC(const Configuration *given, const void *host, void **arguments) {
    BEGIN; NEED(given);
    Shape shape = configured(given);
    return launch(host, &shape, arguments, given->stream);
}
PER_THREAD(cudaLaunchKernelExC)
EXPORT Result cudaLaunchKernelEx(const Configuration *given, const void *host, void **arguments) { return cudaLaunchKernelExC(given, host, arguments); }
EXPORT Result cudaLaunchHostFunc(Handle stream, void (*call)(void *), void *data) { return keep(cuLaunchHostFunc(stream, call, data)); }
PER_THREAD(cudaLaunchHostFunc)

/* -- functions, libraries, occupancy -- */

typedef struct FunctionAttributes {
    size_t shared, constant, local;
    int max_threads, registers, ptx, binary, cache, dynamic, carveout, cluster_needed, cluster[3], policy, nonportable, reserved[16];
} FunctionAttributes;
#define FUNCTION_OF(host) Result found; Function *function = function_of(host, &found); if (!function) return keep(found)
EXPORT Result cudaFuncGetAttributes(FunctionAttributes *out, const void *host) {
    BEGIN; NEED(out); FUNCTION_OF(host);
    Result result = inspect_function(function);
    if (result) return keep(result);
    *out = (FunctionAttributes){(size_t)function->shared_bytes, (size_t)function->const_bytes, (size_t)function->local_bytes, function->max_threads,
        function->registers, function->version, function->version, 0, function->dynamic ? function->dynamic : attributes[8] - function->shared_bytes, -1,
        function->required_cluster[0] != 0, {function->required_cluster[0], function->required_cluster[1], function->required_cluster[2]}, 0, function->nonportable, {0}};
    return SUCCESS;
}
EXPORT Result cudaFuncSetAttribute(const void *host, int attribute, int value) { BEGIN; FUNCTION_OF(host); return keep(cuFuncSetAttribute(function, attribute, value)); }
EXPORT Result cudaFuncSetCacheConfig(const void *host, int config) { BEGIN; (void)config; FUNCTION_OF(host); return SUCCESS; }
EXPORT Result cudaFuncSetSharedMemConfig(const void *host, int config) { return cudaFuncSetCacheConfig(host, config); }
EXPORT Result cudaFuncGetName(const char **name, const void *host) { BEGIN; NEED(name); FUNCTION_OF(host); *name = function->name; return SUCCESS; }
EXPORT Result cudaFuncGetParamInfo(const void *host, size_t index, size_t *offset, size_t *size) { BEGIN; FUNCTION_OF(host); return keep(cuFuncGetParamInfo(function, index, offset, size)); }
EXPORT Result cudaGetFuncBySymbol(Function **out, const void *host) { BEGIN; NEED(out); FUNCTION_OF(host); *out = function; return SUCCESS; }
EXPORT Result cudaGetKernel(Function **out, const void *host) { return cudaGetFuncBySymbol(out, host); }
EXPORT Result cudaKernelSetAttributeForDevice(Function *kernel, int attribute, int value, int device) { BEGIN; IS_DEVICE(device); return keep(cuFuncSetAttribute(kernel, attribute, value)); }
EXPORT Result cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *host, int threads, size_t dynamic, unsigned flags) { BEGIN; (void)flags; FUNCTION_OF(host); return keep(occupancy_of(function, threads, dynamic, blocks)); }
EXPORT Result cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *host, int threads, size_t dynamic) { return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, host, threads, dynamic, 0); }
EXPORT Result cudaOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, const void *host, int blocks, int threads) { BEGIN; FUNCTION_OF(host); return keep(cuOccupancyAvailableDynamicSMemPerBlock(bytes, function, blocks, threads)); }
EXPORT Result cudaOccupancyMaxPotentialClusterSize(int *size, const void *host, const Configuration *given) { BEGIN; NEED(size && given); FUNCTION_OF(host); *size = function->nonportable ? 16 : 8; return SUCCESS; }
EXPORT Result cudaOccupancyMaxActiveClusters(int *clusters, const void *host, const Configuration *given) {
    BEGIN; NEED(clusters && given); FUNCTION_OF(host);
    Shape shape = configured(given);
    unsigned size = shape.cluster[0] ? shape.cluster[0] * shape.cluster[1] * shape.cluster[2] : 1;
    int blocks = 0;
    Result result = size ? occupancy_of(function, (int)(shape.block[0] * shape.block[1] * shape.block[2]), shape.shared, &blocks) : INVALID_VALUE;
    *clusters = size ? blocks * attributes[16] / (int)size : 0;
    return keep(result);
}
EXPORT Result cudaLibraryLoadData(Module **library, const void *image, int *options, void **values, unsigned count, int *library_options, void **library_values, unsigned library_count) {
    BEGIN; (void)options; (void)values; (void)count; (void)library_options; (void)library_values; (void)library_count;
    return keep(load_module(library, image, 0));
}
EXPORT Result cudaLibraryLoadFromFile(Module **library, const char *path, int *options, void **values, unsigned count, int *library_options, void **library_values, unsigned library_count) { return keep(cuLibraryLoadFromFile(library, path, options, values, count, library_options, library_values, library_count)); }
EXPORT Result cudaLibraryUnload(Module *library) { return keep(cuLibraryUnload(library)); }
EXPORT Result cudaLibraryGetKernel(Function **kernel, Module *library, const char *name) { return keep(cuLibraryGetKernel(kernel, library, name)); }
EXPORT Result cudaLibraryGetGlobal(Address *address, size_t *bytes, Module *library, const char *name) { return keep(cuLibraryGetGlobal(address, bytes, library, name)); }
EXPORT Result cudaLibraryGetManaged(Address *address, size_t *bytes, Module *library, const char *name) { return keep(cuLibraryGetGlobal(address, bytes, library, name)); }
EXPORT Result cudaLibraryGetKernelCount(unsigned *count, Module *library) { return keep(cuLibraryGetKernelCount(count, library)); }
EXPORT Result cudaLibraryEnumerateKernels(Function **kernels, unsigned count, Module *library) { return keep(cuLibraryEnumerateKernels(kernels, count, library)); }

/* -- memory -- */

EXPORT Result cudaMalloc(Address *address, size_t bytes) { BEGIN; NEED(address); if (!bytes) { *address = 0; return SUCCESS; } return keep(cuMemAlloc_v2(address, bytes)); }
EXPORT Result cudaMallocAsync(Address *address, size_t bytes, Handle stream) { return keep(cuMemAllocAsync(address, bytes, stream)); }
PER_THREAD(cudaMallocAsync)
EXPORT Result cudaMallocFromPoolAsync(Address *address, size_t bytes, Handle pool, Handle stream) { return keep(cuMemAllocFromPoolAsync(address, bytes, pool, stream)); }
PER_THREAD(cudaMallocFromPoolAsync)
EXPORT Result cudaMallocManaged(Address *address, size_t bytes, unsigned flags) { return keep(cuMemAllocManaged(address, bytes, flags)); }
EXPORT Result cudaHostAlloc(void **address, size_t bytes, unsigned flags) { BEGIN; NEED(address); if (!bytes) { *address = NULL; return SUCCESS; } return keep(cuMemHostAlloc(address, bytes, flags & 7)); }
EXPORT Result cudaMallocHost(void **address, size_t bytes) { return cudaHostAlloc(address, bytes, 0); }
EXPORT Result cudaMallocPitch(Address *address, size_t *pitch, size_t width, size_t height) {
    BEGIN; NEED(address && pitch);
    *pitch = (width + 511) / 512 * 512;
    if (!width || !height) { *address = 0; return SUCCESS; }
    return keep(allocate_memory(address, *pitch * height, DEVICE));
}
EXPORT Result cudaMalloc3D(Pitched *out, Extent extent) {
    BEGIN; NEED(out);
    *out = (Pitched){0, (extent.width + 511) / 512 * 512, extent.width, extent.height};
    size_t bytes = out->pitch * extent.height * extent.depth;
    return bytes ? keep(allocate_memory(&out->address, bytes, DEVICE)) : SUCCESS;
}
EXPORT Result cudaFree(Address address) { return keep(cuMemFree_v2(address)); }
EXPORT Result cudaFreeAsync(Address address, Handle stream) { return keep(cuMemFreeAsync(address, stream)); }
PER_THREAD(cudaFreeAsync)
EXPORT Result cudaFreeHost(void *address) { return keep(cuMemFreeHost(address)); }
EXPORT Result cudaHostRegister(void *host, size_t bytes, unsigned flags) { return keep(cuMemHostRegister_v2(host, bytes, flags)); }
EXPORT Result cudaHostUnregister(void *host) { return keep(cuMemHostUnregister(host)); }
EXPORT Result cudaHostGetDevicePointer(Address *address, void *host, unsigned flags) { return keep(cuMemHostGetDevicePointer_v2(address, host, flags)); }
EXPORT Result cudaHostGetFlags(unsigned *flags, void *host) { return keep(cuMemHostGetFlags(flags, host)); }
EXPORT Result cudaMemGetInfo(size_t *unused, size_t *total) { return keep(cuMemGetInfo_v2(unused, total)); }
#define DIRECTION(kind) do { if ((unsigned)(kind) > 4) return keep(INVALID_DIRECTION); } while (0)
EXPORT Result cudaMemcpy(void *to, const void *from, size_t bytes, int kind) { BEGIN; DIRECTION(kind); return keep(copy_memory(to, from, bytes, NULL, false)); }
PER_THREAD_SYNC(cudaMemcpy)
EXPORT Result cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, Handle stream) { BEGIN; DIRECTION(kind); return keep(copy_memory(to, from, bytes, stream, true)); }
PER_THREAD(cudaMemcpyAsync)
EXPORT Result cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device, size_t bytes) { BEGIN; IS_DEVICE(to_device); IS_DEVICE(from_device); return keep(copy_memory(to, from, bytes, NULL, false)); }
EXPORT Result cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes, Handle stream) { BEGIN; IS_DEVICE(to_device); IS_DEVICE(from_device); return keep(copy_memory(to, from, bytes, stream, true)); }
EXPORT Result cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, int kind) { BEGIN; DIRECTION(kind); return keep(copy_rows((Address)to, to_pitch, (Address)from, from_pitch, width, height, NULL, false)); }
PER_THREAD_SYNC(cudaMemcpy2D)
EXPORT Result cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, int kind, Handle stream) { BEGIN; DIRECTION(kind); return keep(copy_rows((Address)to, to_pitch, (Address)from, from_pitch, width, height, stream, true)); }
PER_THREAD(cudaMemcpy2DAsync)
typedef struct End { Address start; uint64_t pitch, slice; } End; /* one side of a copy: its first byte, and its rows and slices */
static End find_end(const Array *array, const Position *position, const Pitched *memory) {
    if (!array) {
        uint64_t slice = memory->pitch * memory->height;
        return (End){memory->address + position->z * slice + position->y * memory->pitch + position->x, memory->pitch, slice};
    }
    uint64_t texel = (uint64_t)(array->texel.bits / 8 * array->texel.channels);
    return (End){array->address + position->z * array->slice + position->y * array->pitch + position->x * texel, array->pitch, array->slice};
}
Result copy_3d(const Copy3D *copy, Handle stream, bool asynchronous) {
    NEED(copy);
    const Array *from_array = copy->from_array, *to_array = copy->to_array, *array = from_array ? from_array : to_array;
    if ((from_array && !has_handle(from_array, ARRAY)) || (to_array && !has_handle(to_array, ARRAY))) return keep(INVALID_HANDLE);
    End from = find_end(from_array, &copy->from_position, &copy->from), to = find_end(to_array, &copy->to_position, &copy->to);
    size_t width = copy->extent.width * (array ? (size_t)(array->texel.bits / 8 * array->texel.channels) : 1);
    for (size_t z = 0; z < copy->extent.depth; z++) {
        Result result = copy_rows(to.start + z * to.slice, to.pitch, from.start + z * from.slice, from.pitch, width, copy->extent.height, stream, asynchronous);
        if (result) return keep(result);
    }
    return SUCCESS;
}
Result run_copy(const void *copy, const void *stream) { return copy_3d(copy, (Handle)stream, true); }
EXPORT Result cudaMemcpy3D(const Copy3D *copy) { BEGIN; return copy_3d(copy, NULL, false); }
EXPORT Result cudaMemcpy3DAsync(const Copy3D *copy, Handle stream) { BEGIN; return copy_3d(copy, stream, true); }
EXPORT Result cudaMemset(Address to, int value, size_t bytes) { BEGIN; return keep(fill_memory(to, (unsigned char)value, 1, bytes, NULL, false)); }
PER_THREAD_SYNC(cudaMemset)
EXPORT Result cudaMemsetAsync(Address to, int value, size_t bytes, Handle stream) { BEGIN; return keep(fill_memory(to, (unsigned char)value, 1, bytes, stream, true)); }
PER_THREAD(cudaMemsetAsync)
EXPORT Result cudaMemset2DAsync(Address to, size_t pitch, int value, size_t width, size_t height, Handle stream) {
    BEGIN;
    for (size_t y = 0; y < height; y++) {
        Result result = fill_memory(to + y * pitch, (unsigned char)value, 1, width, stream, true);
        if (result) return keep(result);
    }
    return SUCCESS;
}
EXPORT Result cudaMemset2D(Address to, size_t pitch, int value, size_t width, size_t height) { return cudaMemset2DAsync(to, pitch, value, width, height, NULL); }
EXPORT Result cudaMemset3DAsync(Pitched to, int value, Extent extent, Handle stream) {
    for (size_t z = 0; z < extent.depth; z++) {
        Result result = cudaMemset2DAsync(to.address + z * to.pitch * to.height, to.pitch, value, extent.width, extent.height, stream);
        if (result) return result;
    }
    return SUCCESS;
}
EXPORT Result cudaMemset3D(Pitched to, int value, Extent extent) { return cudaMemset3DAsync(to, value, extent, NULL); }

static Result copy_symbol(void *to, const void *from, const void *symbol, bool to_symbol, size_t bytes, size_t offset, int kind, Handle stream, bool asynchronous) {
    Result result;
    size_t size = 0;
    DIRECTION(kind);
    Address address = variable_of(symbol, &size, &result);
    if (!address) return keep(result);
    NEED(offset <= size && bytes <= size - offset);
    return keep(to_symbol ? copy_memory((void *)(address + offset), from, bytes, stream, asynchronous) : copy_memory(to, (void *)(address + offset), bytes, stream, asynchronous));
}
EXPORT Result cudaMemcpyToSymbol(const void *symbol, const void *from, size_t bytes, size_t offset, int kind) { BEGIN; return copy_symbol(NULL, from, symbol, true, bytes, offset, kind, NULL, false); }
PER_THREAD_SYNC(cudaMemcpyToSymbol)
EXPORT Result cudaMemcpyToSymbolAsync(const void *symbol, const void *from, size_t bytes, size_t offset, int kind, Handle stream) { BEGIN; return copy_symbol(NULL, from, symbol, true, bytes, offset, kind, stream, true); }
PER_THREAD(cudaMemcpyToSymbolAsync)
EXPORT Result cudaMemcpyFromSymbol(void *to, const void *symbol, size_t bytes, size_t offset, int kind) { BEGIN; return copy_symbol(to, NULL, symbol, false, bytes, offset, kind, NULL, false); }
PER_THREAD_SYNC(cudaMemcpyFromSymbol)
EXPORT Result cudaMemcpyFromSymbolAsync(void *to, const void *symbol, size_t bytes, size_t offset, int kind, Handle stream) { BEGIN; return copy_symbol(to, NULL, symbol, false, bytes, offset, kind, stream, true); }
PER_THREAD(cudaMemcpyFromSymbolAsync)
EXPORT Result cudaGetSymbolAddress(Address *address, const void *symbol) { BEGIN; NEED(address); Result result; *address = variable_of(symbol, NULL, &result); return keep(result); }
EXPORT Result cudaGetSymbolSize(size_t *bytes, const void *symbol) { BEGIN; NEED(bytes); Result result; variable_of(symbol, bytes, &result); return keep(result); }

typedef struct PointerAttributes { int type, device; Address on_device, on_host; long reserved[8]; } PointerAttributes;
EXPORT Result cudaPointerGetAttributes(PointerAttributes *out, const void *pointer) {
    BEGIN; NEED(out);
    Allocation *one = find_allocation((Address)pointer), *registered = one ? NULL : find_registered(pointer);
    *out = (PointerAttributes){0, -2, 0, (Address)pointer, {0}};
    if (registered) *out = (PointerAttributes){1, 0, registered->address + (Address)((const char *)pointer - (char *)registered->host), (Address)pointer, {0}};
    else if (one) *out = (PointerAttributes){one->kind == PINNED ? 1 : one->kind == MANAGED ? 3 : 2, 0, (Address)pointer, one->kind == PINNED || one->kind == MANAGED ? (Address)pointer : 0, {0}};
    return SUCCESS;
}
EXPORT Result cudaMemAdvise(Address address, size_t bytes, int advice, uint64_t location) { return keep(cuMemAdvise_v2(address, bytes, advice, location)); }
EXPORT Result cudaMemRangeGetAttribute(int *data, size_t room, int attribute, Address address, size_t bytes) { return keep(cuMemRangeGetAttribute(data, room, attribute, address, bytes)); }
EXPORT Result cudaMemRangeGetAttributes(void **data, size_t *rooms, int *wanted, size_t count, Address address, size_t bytes) { return keep(cuMemRangeGetAttributes(data, rooms, wanted, count, address, bytes)); }
EXPORT Result cudaMemPrefetchAsync(Address address, size_t bytes, uint64_t location, unsigned flags, Handle stream) { return keep(cuMemPrefetchAsync_v2(address, bytes, location, flags, stream)); }
PER_THREAD(cudaMemPrefetchAsync)
EXPORT Result cudaDeviceGetDefaultMemPool(Handle *pool, int device) { return keep(cuDeviceGetDefaultMemPool(pool, device)); }
EXPORT Result cudaDeviceGetMemPool(Handle *pool, int device) { return keep(cuDeviceGetMemPool(pool, device)); }
EXPORT Result cudaDeviceSetMemPool(int device, Handle pool) { return keep(cuDeviceSetMemPool(device, pool)); }
EXPORT Result cudaMemPoolCreate(Handle *pool, const void *properties) { return keep(cuMemPoolCreate(pool, properties)); }
EXPORT Result cudaMemPoolDestroy(Handle pool) { return keep(cuMemPoolDestroy(pool)); }
EXPORT Result cudaMemPoolTrimTo(Handle pool, size_t bytes) { return keep(cuMemPoolTrimTo(pool, bytes)); }
EXPORT Result cudaMemPoolSetAttribute(Handle pool, int attribute, void *value) { return keep(cuMemPoolSetAttribute(pool, attribute, value)); }
EXPORT Result cudaMemPoolGetAttribute(Handle pool, int attribute, void *value) { return keep(cuMemPoolGetAttribute(pool, attribute, value)); }
EXPORT Result cudaMemPoolSetAccess(Handle pool, const void *access, size_t count) { return keep(cuMemPoolSetAccess(pool, access, count)); }
EXPORT Result cudaMemPoolGetAccess(int *flags, Handle pool, void *location) { return keep(cuMemPoolGetAccess(flags, pool, location)); }

/* -- the device -- */

EXPORT Result cudaGetDeviceCount(int *count) { BEGIN; NEED(count); *count = 1; return SUCCESS; }
EXPORT Result cudaGetDevice(int *device) { BEGIN; NEED(device); *device = 0; return SUCCESS; }
EXPORT Result cudaSetDevice(int device) { BEGIN; IS_DEVICE(device); return SUCCESS; }
EXPORT Result cudaSetValidDevices(int *devices, int count) { BEGIN; NEED(devices || !count); return SUCCESS; }
EXPORT Result cudaChooseDevice(int *device, const void *properties) { BEGIN; NEED(device && properties); *device = 0; return SUCCESS; }
EXPORT Result cudaSetDeviceFlags(unsigned flags) { BEGIN; (void)flags; return SUCCESS; }
EXPORT Result cudaGetDeviceFlags(unsigned *flags) { BEGIN; NEED(flags); *flags = 8; return SUCCESS; }
EXPORT Result cudaInitDevice(int device, unsigned device_flags, unsigned flags) { BEGIN; (void)device_flags; (void)flags; IS_DEVICE(device); return SUCCESS; }
EXPORT Result cudaDeviceGetAttribute(int *value, int attribute, int device) { BEGIN; NEED(value && attribute > 0 && attribute < 160); IS_DEVICE(device); *value = attributes[attribute]; return SUCCESS; }
EXPORT Result cudaDeviceSynchronize(void) { return keep(cuCtxSynchronize()); }
EXPORT Result cudaThreadSynchronize(void) { return cudaDeviceSynchronize(); }
EXPORT Result cudaDeviceReset(void) { BEGIN; return SUCCESS; }
EXPORT Result cudaDeviceGetLimit(size_t *value, int limit) { return keep(cuCtxGetLimit(value, limit)); }
EXPORT Result cudaDeviceSetLimit(int limit, size_t value) { return keep(cuCtxSetLimit(limit, value)); }
EXPORT Result cudaDeviceGetCacheConfig(int *config) { BEGIN; NEED(config); *config = 0; return SUCCESS; }
EXPORT Result cudaDeviceSetCacheConfig(int config) { BEGIN; (void)config; return SUCCESS; }
EXPORT Result cudaDeviceGetSharedMemConfig(int *config) { BEGIN; NEED(config); *config = 0; return SUCCESS; }
EXPORT Result cudaDeviceSetSharedMemConfig(int config) { BEGIN; (void)config; return SUCCESS; }
EXPORT Result cudaDeviceGetStreamPriorityRange(int *least, int *greatest) { BEGIN; if (least) *least = 0; if (greatest) *greatest = -5; return SUCCESS; }
EXPORT Result cudaDeviceGetPCIBusId(char *text, int length, int device) { return keep(cuDeviceGetPCIBusId(text, length, device)); }
EXPORT Result cudaDeviceGetByPCIBusId(int *device, const char *text) { return keep(cuDeviceGetByPCIBusId(device, text)); }
EXPORT Result cudaDeviceCanAccessPeer(int *can, int device, int peer) { BEGIN; NEED(can); IS_DEVICE(device); IS_DEVICE(peer); *can = 0; return SUCCESS; }
EXPORT Result cudaDeviceEnablePeerAccess(int peer, unsigned flags) { BEGIN; (void)flags; return keep(peer ? INVALID_DEVICE : PEER_UNSUPPORTED); }
EXPORT Result cudaDeviceDisablePeerAccess(int peer) { BEGIN; return keep(peer ? INVALID_DEVICE : PEER_NOT_ENABLED); }
EXPORT Result cudaDeviceGetP2PAttribute(int *value, int attribute, int device, int peer) { BEGIN; (void)attribute; NEED(value); IS_DEVICE(device); IS_DEVICE(peer); *value = 0; return SUCCESS; }
EXPORT Result cudaCtxResetPersistingL2Cache(void) { BEGIN; return SUCCESS; }
EXPORT Result cudaDriverGetVersion(int *version) { NEED(version); *version = 13000; return SUCCESS; }
EXPORT Result cudaRuntimeGetVersion(int *version) { NEED(version); *version = 13000; return SUCCESS; }
EXPORT Result cudaGetLastError(void) { Result result = sticky ? sticky : last; last = SUCCESS; return result; }
EXPORT Result cudaPeekAtLastError(void) { return sticky ? sticky : last; }
EXPORT Result cudaProfilerStart(void) { BEGIN; return SUCCESS; }
EXPORT Result cudaProfilerStop(void) { BEGIN; return SUCCESS; }

/* cudaDeviceProp, as CUDA 13 has it and, with the fields that OLD names, CUDA 12 (cudaGetDeviceProperties_v2). */
#define PROPERTIES(OLD) \
    char name[256]; char uuid[16]; char luid[8]; unsigned luid_mask; size_t total_memory, shared; int registers, warp; size_t pitch; \
    int threads, block[3], grid[3]; OLD(clock) size_t constant; int major, minor; size_t texture_alignment, texture_pitch; OLD(overlap) \
    int multiprocessors; OLD(timeout) int integrated, maps_host; OLD(compute_mode) int texture_1d, texture_1d_mip; OLD(texture_1d_linear) \
    int texture_2d[2], texture_2d_mip[2], texture_2d_linear[3], texture_2d_gather[2], texture_3d[3], texture_3d_alternate[3], texture_cube, \
        texture_1d_layered[2], texture_2d_layered[3], texture_cube_layered[2], surface_1d, surface_2d[2], surface_3d[3], surface_1d_layered[2], \
        surface_2d_layered[3], surface_cube, surface_cube_layered[2]; \
    size_t surface_alignment; int concurrent, ecc, bus, device, domain, tcc, engines, unified; OLD(memory_clock) int bus_width, l2, persisting, \
        threads_of_multiprocessor, priorities, global_l1, local_l1; size_t shared_of_multiprocessor; int registers_of_multiprocessor, managed, \
        multi_gpu, multi_gpu_group, host_atomics; OLD(double_ratio) int pageable, concurrent_managed, preemption, host_pointer, cooperative; \
    OLD(cooperative_multi) size_t shared_optin; int pageable_host, direct_managed, blocks_of_multiprocessor, window; size_t reserved_shared; \
    int registers_host, sparse, read_only_register, timeline, pools, rdma; unsigned rdma_flush; int rdma_order; unsigned pool_handles; \
    int deferred, ipc_events, cluster, unified_functions
#define FIELD(name) int name;
#define NO_FIELD(name)
typedef struct Properties { PROPERTIES(NO_FIELD); int more[63]; } Properties;
typedef struct OldProperties { PROPERTIES(FIELD); int more[63]; } OldProperties;
_Static_assert(sizeof(Properties) == 1008 && offsetof(Properties, unified_functions) == 752, "as CUDA 13 has it");
_Static_assert(sizeof(OldProperties) == 1032, "as CUDA 12 has it");
#define FILL_PROPERTIES(out) do { \
    memset(out, 0, sizeof *(out)); \
    int *a = attributes; \
    snprintf((out)->name, 256, "%s", device_name); \
    memcpy((out)->uuid, "wsemu emulator ", 16); \
    (out)->total_memory = total_memory; (out)->shared = (size_t)a[8]; (out)->registers = a[12]; (out)->warp = a[10]; (out)->pitch = (size_t)a[11]; \
    (out)->threads = a[1]; (out)->constant = (size_t)a[9]; (out)->major = a[75]; (out)->minor = a[76]; (out)->texture_alignment = (size_t)a[14]; \
    (out)->texture_pitch = (size_t)a[51]; (out)->multiprocessors = a[16]; (out)->maps_host = a[19]; (out)->surface_alignment = (size_t)a[30]; \
    for (int n = 0; n < 3; n++) { (out)->block[n] = a[2 + n]; (out)->grid[n] = a[5 + n]; (out)->texture_3d[n] = a[24 + n]; (out)->surface_3d[n] = a[58 + n]; (out)->texture_2d_layered[n] = a[27 + n]; } \
    (out)->texture_1d = a[21]; (out)->texture_2d[0] = a[22]; (out)->texture_2d[1] = a[23]; (out)->surface_1d = a[55]; (out)->surface_2d[0] = a[56]; (out)->surface_2d[1] = a[57]; \
    for (int n = 0; n < 3; n++) (out)->texture_2d_linear[n] = a[70 + n]; \
    (out)->texture_1d_layered[0] = a[42]; (out)->texture_1d_layered[1] = a[43]; \
    (out)->concurrent = a[31]; (out)->engines = a[40]; (out)->unified = a[41]; (out)->bus_width = a[37]; (out)->l2 = a[38]; (out)->threads_of_multiprocessor = a[39]; \
    (out)->priorities = a[78]; (out)->global_l1 = a[79]; (out)->local_l1 = a[80]; (out)->shared_of_multiprocessor = (size_t)a[81]; (out)->registers_of_multiprocessor = a[82]; \
    (out)->managed = a[83]; (out)->pageable = a[88]; (out)->concurrent_managed = a[89]; (out)->preemption = a[90]; (out)->host_pointer = a[91]; (out)->cooperative = a[95]; \
    (out)->shared_optin = (size_t)a[97]; (out)->blocks_of_multiprocessor = a[106]; (out)->reserved_shared = (size_t)a[111]; (out)->registers_host = a[99]; (out)->pools = a[115]; \
    (out)->cluster = a[120]; (out)->unified_functions = a[129]; } while (0)
EXPORT Result cudaGetDeviceProperties(Properties *out, int device) { BEGIN; NEED(out); IS_DEVICE(device); FILL_PROPERTIES(out); return SUCCESS; }
EXPORT Result cudaGetDeviceProperties_v2(OldProperties *out, int device) { BEGIN; NEED(out); IS_DEVICE(device); FILL_PROPERTIES(out); out->clock = attributes[13]; out->memory_clock = attributes[36]; out->overlap = 1; return SUCCESS; }

/* -- streams, events, graphs -- */

EXPORT Result cudaStreamCreateWithPriority(Handle *stream, unsigned flags, int priority) { return keep(cuStreamCreateWithPriority(stream, flags, priority)); }
EXPORT Result cudaStreamCreateWithFlags(Handle *stream, unsigned flags) { return keep(cuStreamCreateWithPriority(stream, flags, 0)); }
EXPORT Result cudaStreamCreate(Handle *stream) { return keep(cuStreamCreateWithPriority(stream, 0, 0)); }
EXPORT Result cudaStreamDestroy(Handle stream) { return keep(cuStreamDestroy_v2(stream)); }
EXPORT Result cudaStreamSynchronize(Handle stream) { return keep(cuStreamSynchronize(stream)); }
PER_THREAD(cudaStreamSynchronize)
EXPORT Result cudaStreamQuery(Handle stream) { return keep(cuStreamQuery(stream)); }
PER_THREAD(cudaStreamQuery)
EXPORT Result cudaStreamWaitEvent(Handle stream, Handle event, unsigned flags) { return keep(cuStreamWaitEvent(stream, event, flags)); }
PER_THREAD(cudaStreamWaitEvent)
EXPORT Result cudaStreamGetPriority(Handle stream, int *priority) { return keep(cuStreamGetPriority(stream, priority)); }
EXPORT Result cudaStreamGetFlags(Handle stream, unsigned *flags) { return keep(cuStreamGetFlags(stream, flags)); }
EXPORT Result cudaStreamGetId(Handle stream, unsigned long long *id) { return keep(cuStreamGetId(stream, id)); }
EXPORT Result cudaStreamGetDevice(Handle stream, int *device) { BEGIN; NEED(device); *device = 0; return keep(check_stream(stream)); }
EXPORT Result cudaStreamIsCapturing(Handle stream, int *status) { return keep(cuStreamIsCapturing(stream, status)); }
PER_THREAD(cudaStreamIsCapturing)
EXPORT Result cudaStreamBeginCapture(Handle stream, int mode) { return keep(cuStreamBeginCapture_v2(stream, mode)); }
PER_THREAD(cudaStreamBeginCapture)
/* Before CUDA 13, the number of nodes is where the edges are now: it is smaller than any address. */
EXPORT Result cudaStreamUpdateCaptureDependencies(Handle stream, Node *const *before, const void *edges, size_t count, unsigned flags) {
    if (is_number(edges)) return keep(cuStreamUpdateCaptureDependencies(stream, before, (uintptr_t)edges, (unsigned)count));
    return keep(cuStreamUpdateCaptureDependencies_v2(stream, before, edges, count, flags));
}
ALIAS(cudaStreamUpdateCaptureDependencies_v2, cudaStreamUpdateCaptureDependencies);
EXPORT Result cudaStreamBeginCaptureToGraph(Handle stream, Graph *graph, Node *const *before, const void *edges, size_t count, int mode) { return keep(cuStreamBeginCaptureToGraph(stream, graph, before, edges, count, mode)); }
EXPORT Result cudaStreamEndCapture(Handle stream, Handle *graph) { return keep(cuStreamEndCapture(stream, graph)); }
PER_THREAD(cudaStreamEndCapture)
EXPORT Result cudaStreamGetCaptureInfo(Handle stream, int *status, uint64_t *id, Handle *graph, const void ***before, const void **edges, size_t *count) { return keep(cuStreamGetCaptureInfo_v3(stream, status, id, graph, before, edges, count)); }
EXPORT Result cudaThreadExchangeStreamCaptureMode(int *mode) { return keep(cuThreadExchangeStreamCaptureMode(mode)); }
EXPORT Result cudaStreamAddCallback(Handle stream, void (*call)(void *, Result, void *), void *data, unsigned flags) { return keep(cuStreamAddCallback(stream, call, data, flags)); }
EXPORT Result cudaStreamAttachMemAsync(Handle stream, void *address, size_t length, unsigned flags) { BEGIN; (void)length; (void)flags; NEED(find_allocation((Address)address)); return keep(check_stream(stream)); }
EXPORT Result cudaStreamSetAttribute(Handle stream, int attribute, const void *value) { BEGIN; (void)attribute; NEED(value); return keep(check_stream(stream)); }
EXPORT Result cudaStreamGetAttribute(Handle stream, int attribute, void *value) { BEGIN; (void)attribute; NEED(value); memset(value, 0, 64); return keep(check_stream(stream)); }
EXPORT Result cudaEventCreateWithFlags(Handle *event, unsigned flags) { return keep(cuEventCreate(event, flags)); }
EXPORT Result cudaEventCreate(Handle *event) { return keep(cuEventCreate(event, 0)); }
EXPORT Result cudaEventRecord(Handle event, Handle stream) { return keep(cuEventRecord(event, stream)); }
PER_THREAD(cudaEventRecord)
EXPORT Result cudaEventRecordWithFlags(Handle event, Handle stream, unsigned flags) { (void)flags; return keep(cuEventRecord(event, stream)); }
EXPORT Result cudaEventSynchronize(Handle event) { return keep(cuEventSynchronize(event)); }
EXPORT Result cudaEventQuery(Handle event) { return keep(cuEventQuery(event)); }
EXPORT Result cudaEventDestroy(Handle event) { return keep(cuEventDestroy_v2(event)); }
EXPORT Result cudaEventElapsedTime(float *milliseconds, Handle start, Handle end) { return keep(cuEventElapsedTime_v2(milliseconds, start, end)); }
EXPORT Result cudaGraphCreate(Handle *graph, unsigned flags) { return keep(cuGraphCreate(graph, flags)); }
EXPORT Result cudaGraphDestroy(Handle graph) { return keep(cuGraphDestroy(graph)); }
EXPORT Result cudaGraphExecDestroy(Handle exec) { return keep(cuGraphExecDestroy(exec)); }
EXPORT Result cudaGraphInstantiate(Handle *exec, Handle graph, unsigned long long flags) { return keep(cuGraphInstantiateWithFlags(exec, graph, flags)); }
EXPORT Result cudaGraphInstantiateWithFlags(Handle *exec, Handle graph, unsigned long long flags) { return keep(cuGraphInstantiateWithFlags(exec, graph, flags)); }
EXPORT Result cudaGraphLaunch(Handle exec, Handle stream) { return keep(cuGraphLaunch(exec, stream)); }
PER_THREAD(cudaGraphLaunch)
EXPORT Result cudaGraphUpload(Handle exec, Handle stream) { return keep(cuGraphUpload(exec, stream)); }
EXPORT Result cudaGraphClone(Handle *clone, Handle graph) { return keep(cuGraphClone(clone, graph)); }
EXPORT Result cudaGraphGetNodes(Handle graph, Handle *nodes, size_t *count) { return keep(cuGraphGetNodes(graph, nodes, count)); }

EXPORT Result cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version, unsigned long long flags, int *status) {
    BEGIN; (void)flags; NEED(name && function);
    int found = 0;
    cuGetProcAddress_v2(name, function, (int)version, 0, &found);
    if (status) *status = found;
    return SUCCESS;
}
PER_THREAD(cudaGetDriverEntryPointByVersion)
EXPORT Result cudaGetDriverEntryPoint(const char *name, void **function, unsigned long long flags, int *status) { return cudaGetDriverEntryPointByVersion(name, function, 13000, flags, status); }
PER_THREAD(cudaGetDriverEntryPoint)
EXPORT Result cudaGetExportTable(const void **table, const void *id) { (void)id; if (table) *table = NULL; return keep(NOT_FOUND); }

/* -- functions of `--default-stream per-thread` that are beside no definition above -- */

PER_THREAD(cudaEventRecordWithFlags) PER_THREAD(cudaGraphUpload) PER_THREAD(cudaMemcpy2DFromArrayAsync) PER_THREAD(cudaMemcpy2DToArrayAsync)
PER_THREAD(cudaMemcpy3DAsync) PER_THREAD(cudaMemcpyFromArrayAsync) PER_THREAD(cudaMemcpyToArrayAsync) PER_THREAD(cudaMemset2DAsync)
PER_THREAD(cudaMemset3DAsync) PER_THREAD(cudaStreamAddCallback) PER_THREAD(cudaStreamAttachMemAsync)
PER_THREAD(cudaStreamBeginCaptureToGraph) PER_THREAD(cudaStreamGetAttribute) PER_THREAD(cudaStreamGetCaptureInfo)
PER_THREAD(cudaStreamGetDevice) PER_THREAD(cudaStreamGetFlags) PER_THREAD(cudaStreamGetId) PER_THREAD(cudaStreamGetPriority)
PER_THREAD(cudaStreamSetAttribute) PER_THREAD(cudaStreamUpdateCaptureDependencies) PER_THREAD_SYNC(cudaMemcpy2DFromArray)
PER_THREAD_SYNC(cudaMemcpy2DToArray) PER_THREAD_SYNC(cudaMemcpy3D) PER_THREAD_SYNC(cudaMemcpyFromArray) PER_THREAD_SYNC(cudaMemcpyToArray)
PER_THREAD_SYNC(cudaMemset2D) PER_THREAD_SYNC(cudaMemset3D)
