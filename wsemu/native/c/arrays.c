/* CUDA arrays, textures and surfaces, of the runtime and of the driver.

   An array is device memory with rows one after the other.  The handle of a texture or surface is the address of a
   description in device memory, whose words are those of `model/texture.py`. */
#define _GNU_SOURCE
#include "runtime.h"

#include <stdlib.h>
#include <string.h>

static inline void leave(int *unused) { (void)unused; unlock(); }
#define GUARD __attribute__((cleanup(leave))) int guard = (lock(), 0); (void)guard
#define BEGIN GUARD; log_call("%s", __func__); { Result failed = begin_call(); if (failed) return failed; }
#define BEGIN_RUNTIME GUARD; log_call("%s", __func__); { Result failed = begin_call(); if (failed) return keep(failed); }
#define NEED(condition) do { if (!(condition)) return INVALID_VALUE; } while (0)
#define KNOWN_ARRAY(array) do { if (!has_handle(array, ARRAY)) return keep(INVALID_HANDLE); } while (0)

/* -- elements: channels of one kind and size -- */

enum { IS_SIGNED, IS_UNSIGNED, IS_FLOAT }; /* as cudaChannelFormatKind has them */
typedef struct ChannelDesc { int bits[4], kind; } ChannelDesc;
static const struct { int format, kind, bits; } FORMATS[] = {
    {0x01, IS_UNSIGNED, 8}, {0x02, IS_UNSIGNED, 16}, {0x03, IS_UNSIGNED, 32}, {0x08, IS_SIGNED, 8},
    {0x09, IS_SIGNED, 16}, {0x0a, IS_SIGNED, 32}, {0x10, IS_FLOAT, 16}, {0x20, IS_FLOAT, 32}}; /* CUarray_format */
enum { FORMAT_COUNT = sizeof FORMATS / sizeof *FORMATS };

static bool set_format(Texel *texel, int format, unsigned channels) {
    for (int n = 0; n < FORMAT_COUNT; n++)
        if (FORMATS[n].format == format) *texel = (Texel){FORMATS[n].kind, FORMATS[n].bits, (int)channels};
    return texel->bits && (channels == 1 || channels == 2 || channels == 4);
}
static int format_of(const Texel *texel) {
    for (int n = 0; n < FORMAT_COUNT; n++)
        if (FORMATS[n].kind == texel->kind && FORMATS[n].bits == texel->bits) return FORMATS[n].format;
    return 0;
}
static bool set_channels(Texel *texel, const ChannelDesc *desc) {
    int count = 0;
    while (count < 4 && desc->bits[count]) count++;
    for (int n = 1; n < count; n++)
        if (desc->bits[n] != desc->bits[0]) return false;
    *texel = (Texel){desc->kind, desc->bits[0], count};
    return (count == 1 || count == 2 || count == 4) && format_of(texel);
}
static ChannelDesc channels_of(const Texel *texel) {
    ChannelDesc desc = {{0, 0, 0, 0}, texel->kind};
    for (int n = 0; n < texel->channels; n++) desc.bits[n] = texel->bits;
    return desc;
}
EXPORT ChannelDesc cudaCreateChannelDesc(int x, int y, int z, int w, int kind) { return (ChannelDesc){{x, y, z, w}, kind}; }

/* -- arrays -- */

enum { LAYERED = 1, CUBE = 4 };

static uint64_t at_least_one(uint64_t count) { return count ? count : 1; }

static Result create_array(Array **out, const Texel *texel, uint64_t width, uint64_t height, uint64_t depth, unsigned flags) {
    if (flags & CUBE) return unsupported("cudaMalloc3DArray of a cube map");
    NEED(width && width < 1ull << 28 && height < 1ull << 28 && depth < 1ull << 28);
    Array *array = calloc(1, sizeof *array);
    uint64_t pitch = width * (uint64_t)(texel->bits / 8 * texel->channels);
    *array = (Array){*texel, width, height, depth, flags, pitch, pitch * at_least_one(height), 0};
    Result result = allocate_memory(&array->address, array->slice * at_least_one(depth), DEVICE);
    if (result) { free(array); return result; }
    add_handle(array, ARRAY);
    *out = array;
    return SUCCESS;
}
static Result destroy_array(Array *array) {
    if (!array) return SUCCESS;
    if (!has_handle(array, ARRAY)) return INVALID_HANDLE;
    remove_handle(array);
    return free_memory(array->address, DEVICE);
}

EXPORT Result cudaMalloc3DArray(Array **array, const ChannelDesc *desc, Extent extent, unsigned flags) {
    BEGIN_RUNTIME;
    Texel texel = {0};
    if (!array || !desc || !set_channels(&texel, desc)) return keep(INVALID_VALUE);
    return keep(create_array(array, &texel, extent.width, extent.height, extent.depth, flags));
}
EXPORT Result cudaMallocArray(Array **array, const ChannelDesc *desc, size_t width, size_t height, unsigned flags) { return cudaMalloc3DArray(array, desc, (Extent){width, height, 0}, flags); }
EXPORT Result cudaFreeArray(Array *array) { BEGIN_RUNTIME; return keep(destroy_array(array)); }
EXPORT Result cudaGetChannelDesc(ChannelDesc *desc, Array *array) { BEGIN_RUNTIME; KNOWN_ARRAY(array); if (!desc) return keep(INVALID_VALUE); *desc = channels_of(&array->texel); return SUCCESS; }
EXPORT Result cudaArrayGetInfo(ChannelDesc *desc, Extent *extent, unsigned *flags, Array *array) {
    BEGIN_RUNTIME; KNOWN_ARRAY(array);
    if (desc) *desc = channels_of(&array->texel);
    if (extent) *extent = (Extent){array->width, array->height, array->depth};
    if (flags) *flags = array->flags;
    return SUCCESS;
}

typedef struct ArrayDesc2D { size_t width, height; int format; unsigned channels; } ArrayDesc2D;
typedef struct ArrayDesc3D { size_t width, height, depth; int format; unsigned channels, flags; } ArrayDesc3D;
EXPORT Result cuArray3DCreate_v2(Array **array, const ArrayDesc3D *desc) {
    BEGIN; Texel texel = {0}; NEED(array && desc && set_format(&texel, desc->format, desc->channels));
    return create_array(array, &texel, desc->width, desc->height, desc->depth, desc->flags);
}
ALIAS(cuArray3DCreate, cuArray3DCreate_v2);
EXPORT Result cuArrayCreate_v2(Array **array, const ArrayDesc2D *desc) {
    BEGIN; NEED(desc);
    ArrayDesc3D deep = {desc->width, desc->height, 0, desc->format, desc->channels, 0};
    return cuArray3DCreate_v2(array, &deep);
}
ALIAS(cuArrayCreate, cuArrayCreate_v2);
EXPORT Result cuArrayDestroy(Array *array) { BEGIN; NEED(array); return destroy_array(array); }
EXPORT Result cuArray3DGetDescriptor_v2(ArrayDesc3D *desc, Array *array) {
    BEGIN; NEED(desc); if (!has_handle(array, ARRAY)) return INVALID_HANDLE;
    *desc = (ArrayDesc3D){array->width, array->height, array->depth, format_of(&array->texel), (unsigned)array->texel.channels, array->flags};
    return SUCCESS;
}
ALIAS(cuArray3DGetDescriptor, cuArray3DGetDescriptor_v2);
EXPORT Result cuArrayGetDescriptor_v2(ArrayDesc2D *desc, Array *array) {
    BEGIN; NEED(desc); if (!has_handle(array, ARRAY)) return INVALID_HANDLE;
    *desc = (ArrayDesc2D){array->width, array->height, format_of(&array->texel), (unsigned)array->texel.channels};
    return SUCCESS;
}
ALIAS(cuArrayGetDescriptor, cuArrayGetDescriptor_v2);

/* -- copies -- */

/* Copy `width` bytes of `height` rows between a place of an array and memory. */
static Result copy_part(Array *array, size_t x, size_t y, Address other, size_t pitch, size_t width, size_t height, bool into, const void *stream, bool asynchronous) {
    if (!has_handle(array, ARRAY)) return INVALID_HANDLE;
    NEED(x + width <= array->pitch && y + height <= at_least_one(array->height));
    Address own = array->address + y * array->pitch + x;
    return into ? copy_rows(own, array->pitch, other, pitch, width, height, stream, asynchronous)
                : copy_rows(other, pitch, own, array->pitch, width, height, stream, asynchronous);
}
EXPORT Result cudaMemcpy2DToArrayAsync(Array *to, size_t x, size_t y, const void *from, size_t pitch, size_t width, size_t height, int kind, void *stream) { BEGIN_RUNTIME; (void)kind; return keep(copy_part(to, x, y, (Address)from, pitch, width, height, true, stream, true)); }
EXPORT Result cudaMemcpy2DToArray(Array *to, size_t x, size_t y, const void *from, size_t pitch, size_t width, size_t height, int kind) { BEGIN_RUNTIME; (void)kind; return keep(copy_part(to, x, y, (Address)from, pitch, width, height, true, NULL, false)); }
EXPORT Result cudaMemcpy2DFromArrayAsync(void *to, size_t pitch, Array *from, size_t x, size_t y, size_t width, size_t height, int kind, void *stream) { BEGIN_RUNTIME; (void)kind; return keep(copy_part(from, x, y, (Address)to, pitch, width, height, false, stream, true)); }
EXPORT Result cudaMemcpy2DFromArray(void *to, size_t pitch, Array *from, size_t x, size_t y, size_t width, size_t height, int kind) { BEGIN_RUNTIME; (void)kind; return keep(copy_part(from, x, y, (Address)to, pitch, width, height, false, NULL, false)); }

/* Copy bytes that are one after the other in the rows of an array. */
static Result copy_line(Array *array, size_t x, size_t y, Address other, size_t bytes, bool into, const void *stream, bool asynchronous) {
    if (!has_handle(array, ARRAY)) return INVALID_HANDLE;
    size_t first = y * array->pitch + x;
    NEED(x <= array->pitch && first + bytes <= array->slice);
    Address own = array->address + first;
    return into ? copy_memory((void *)own, (const void *)other, bytes, stream, asynchronous) : copy_memory((void *)other, (const void *)own, bytes, stream, asynchronous);
}
EXPORT Result cudaMemcpyToArray(Array *to, size_t x, size_t y, const void *from, size_t bytes, int kind) { BEGIN_RUNTIME; (void)kind; return keep(copy_line(to, x, y, (Address)from, bytes, true, NULL, false)); }
EXPORT Result cudaMemcpyToArrayAsync(Array *to, size_t x, size_t y, const void *from, size_t bytes, int kind, void *stream) { BEGIN_RUNTIME; (void)kind; return keep(copy_line(to, x, y, (Address)from, bytes, true, stream, true)); }
EXPORT Result cudaMemcpyFromArray(void *to, Array *from, size_t x, size_t y, size_t bytes, int kind) { BEGIN_RUNTIME; (void)kind; return keep(copy_line(from, x, y, (Address)to, bytes, false, NULL, false)); }
EXPORT Result cudaMemcpyFromArrayAsync(void *to, Array *from, size_t x, size_t y, size_t bytes, int kind, void *stream) { BEGIN_RUNTIME; (void)kind; return keep(copy_line(from, x, y, (Address)to, bytes, false, stream, true)); }
EXPORT Result cuMemcpyHtoA_v2(Array *to, size_t offset, const void *from, size_t bytes) { BEGIN; return copy_line(to, offset, 0, (Address)from, bytes, true, NULL, false); }
ALIAS(cuMemcpyHtoA, cuMemcpyHtoA_v2);
EXPORT Result cuMemcpyHtoAAsync_v2(Array *to, size_t offset, const void *from, size_t bytes, void *stream) { BEGIN; return copy_line(to, offset, 0, (Address)from, bytes, true, stream, true); }
ALIAS(cuMemcpyHtoAAsync, cuMemcpyHtoAAsync_v2);
EXPORT Result cuMemcpyDtoA_v2(Array *to, size_t offset, Address from, size_t bytes) { BEGIN; return copy_line(to, offset, 0, from, bytes, true, NULL, false); }
ALIAS(cuMemcpyDtoA, cuMemcpyDtoA_v2);
EXPORT Result cuMemcpyAtoH_v2(void *to, Array *from, size_t offset, size_t bytes) { BEGIN; return copy_line(from, offset, 0, (Address)to, bytes, false, NULL, false); }
ALIAS(cuMemcpyAtoH, cuMemcpyAtoH_v2);
EXPORT Result cuMemcpyAtoHAsync_v2(void *to, Array *from, size_t offset, size_t bytes, void *stream) { BEGIN; return copy_line(from, offset, 0, (Address)to, bytes, false, stream, true); }
ALIAS(cuMemcpyAtoHAsync, cuMemcpyAtoHAsync_v2);
EXPORT Result cuMemcpyAtoD_v2(Address to, Array *from, size_t offset, size_t bytes) { BEGIN; return copy_line(from, offset, 0, to, bytes, false, NULL, false); }
ALIAS(cuMemcpyAtoD, cuMemcpyAtoD_v2);
EXPORT Result cuMemcpyAtoA_v2(Array *to, size_t offset, Array *from, size_t from_offset, size_t bytes) {
    BEGIN; if (!has_handle(to, ARRAY)) return INVALID_HANDLE;
    NEED(offset + bytes <= to->slice);
    return copy_line(from, from_offset, 0, to->address + offset, bytes, false, NULL, false);
}
ALIAS(cuMemcpyAtoA, cuMemcpyAtoA_v2);

/* -- textures and surfaces -- */

enum { /* words of a description */
    W_ADDRESS = 0, W_KIND = 2, W_SHAPE, W_WIDTH, W_HEIGHT, W_DEPTH, W_LAYERS, W_ROW, W_SLICE = 10, W_BITS = 12, W_TEXEL,
    W_READ, W_LINEAR, W_MODE, W_NORMALIZED = 19, W_BORDER, WORDS = 24
};
enum { INTEGERS = 0x7E470001, FLOATS, SURFACE };
enum { READ_BITS, READ_SIGNED, READ_UNORM, READ_SNORM, READ_HALF };
static const uint32_t MODES[4] = {2, 0, 3, 1}; /* wrap, clamp, mirror, border: as descriptions have them */
enum { MODE_CLAMP, MODE_BORDER };

typedef struct Source { Texel texel; Address address; uint64_t width, height, depth, row, slice; bool layered; } Source;
typedef struct Sampling { int modes[3]; bool linear, as_float, normalized; uint32_t border[4]; } Sampling;
typedef struct Object { uint64_t handle; char resource[192], texture[128]; } Object;
static Table objects; /* handle -> Object */

static void put_pair(uint32_t *words, int at, uint64_t value) { words[at] = (uint32_t)value; words[at + 1] = (uint32_t)(value >> 32); }

static void describe_source(uint32_t *words, const Source *source) {
    bool flat = source->height == 0, deep = source->depth && !source->layered;
    put_pair(words, W_ADDRESS, source->address);
    words[W_SHAPE] = source->layered ? (flat ? 3 : 4) : deep ? 2 : flat ? 0 : 1;
    words[W_WIDTH] = (uint32_t)source->width;
    words[W_HEIGHT] = (uint32_t)at_least_one(source->height);
    words[W_DEPTH] = deep ? (uint32_t)source->depth : 1;
    words[W_LAYERS] = source->layered ? (uint32_t)at_least_one(source->depth) : 1;
    put_pair(words, W_ROW, flat ? 0 : source->row);
    put_pair(words, W_SLICE, source->layered || deep ? source->slice : 0);
    words[W_BITS] = (uint32_t)source->texel.bits;
    words[W_TEXEL] = (uint32_t)(source->texel.bits / 8 * source->texel.channels);
}

static Result describe_sampling(uint32_t *words, const Source *source, const Sampling *sampling) {
    int bits = source->texel.bits, kind = source->texel.kind, axes = source->height ? source->depth && !source->layered ? 3 : 2 : 1;
    bool floats = kind == IS_FLOAT || sampling->as_float;
    if (sampling->as_float && kind != IS_FLOAT && bits == 32) return INVALID_VALUE;
    if (sampling->linear && (!floats || (kind == IS_SIGNED && bits == 8))) return floats ? unsupported("cudaCreateTextureObject with linear filtering of signed bytes") : INVALID_VALUE;
    words[W_KIND] = floats ? FLOATS : INTEGERS;
    if (kind == IS_FLOAT) words[W_READ] = bits == 16 ? READ_HALF : READ_BITS;
    else if (sampling->as_float) words[W_READ] = kind == IS_SIGNED ? READ_SNORM : READ_UNORM;
    else words[W_READ] = kind == IS_SIGNED && bits < 32 ? READ_SIGNED : READ_BITS;
    words[W_LINEAR] = sampling->linear;
    for (int n = 0; n < 3; n++) {
        uint32_t mode = n < axes ? MODES[sampling->modes[n]] : MODE_CLAMP;
        words[W_MODE + n] = sampling->normalized || mode == MODE_BORDER ? mode : MODE_CLAMP;
    }
    words[W_NORMALIZED] = sampling->normalized;
    memcpy(words + W_BORDER, sampling->border, sizeof sampling->border);
    return SUCCESS;
}

static Result create_object(uint64_t *out, const uint32_t *words, const void *resource, size_t resource_bytes, const void *texture, size_t texture_bytes) {
    Address address;
    Result result = allocate_memory(&address, 4 * WORDS, DEVICE);
    if (result) return result;
    memcpy(host_memory(address, 4 * WORDS), words, 4 * WORDS);
    send_action(HOST_WRITE, NULL, NULL, address, 0, 4 * WORDS, 0);
    Object *object = calloc(1, sizeof *object);
    object->handle = address;
    memcpy(object->resource, resource, resource_bytes);
    if (texture) memcpy(object->texture, texture, texture_bytes);
    table_put(&objects, (void *)address, object);
    *out = address;
    return SUCCESS;
}
static Result destroy_object(uint64_t handle) {
    Object *object = table_get(&objects, (void *)handle);
    if (!object) return handle ? INVALID_VALUE : SUCCESS;
    table_put(&objects, (void *)handle, NULL);
    free(object);
    return free_memory(handle, DEVICE);
}
static Result set_array(Source *source, Array *array) {
    if (!has_handle(array, ARRAY)) return INVALID_VALUE;
    *source = (Source){array->texel, array->address, array->width, array->height, array->depth, array->pitch, array->slice, array->flags & LAYERED};
    return SUCCESS;
}
static Result create_texture(uint64_t *out, const Source *source, const Sampling *sampling, const void *resource, size_t resource_bytes, const void *texture, size_t texture_bytes) {
    for (int n = 0; n < 3; n++) NEED(sampling->modes[n] >= 0 && sampling->modes[n] < 4);
    uint32_t words[WORDS] = {0};
    describe_source(words, source);
    Result result = describe_sampling(words, source, sampling);
    return result ? result : create_object(out, words, resource, resource_bytes, texture, texture_bytes);
}
static Result create_surface(uint64_t *out, const Source *source, const void *resource, size_t resource_bytes) {
    uint32_t words[WORDS] = {0};
    describe_source(words, source);
    words[W_KIND] = SURFACE;
    return create_object(out, words, resource, resource_bytes, NULL, 0);
}

/* of the runtime */
enum { OF_ARRAY, OF_MIPMAP, OF_LINEAR, OF_PITCH };
typedef struct Resource {
    int type;
    union {
        Array *array;
        struct { Address address; ChannelDesc desc; size_t bytes; } linear;
        struct { Address address; ChannelDesc desc; size_t width, height, pitch; } rows;
    };
} Resource;
typedef struct TextureDesc { int modes[3], filter, read, srgb; uint32_t border[4]; int normalized; unsigned anisotropy; int mip_filter; float mip_bias, mip_min, mip_max; int no_trilinear, seamless; } TextureDesc;

static Result read_resource(Source *source, const Resource *resource) {
    NEED(resource);
    *source = (Source){0};
    switch (resource->type) {
    case OF_ARRAY: return set_array(source, resource->array);
    case OF_LINEAR:
        NEED(set_channels(&source->texel, &resource->linear.desc) && find_allocation(resource->linear.address));
        source->address = resource->linear.address;
        source->width = resource->linear.bytes / (size_t)(source->texel.bits / 8 * source->texel.channels);
        return SUCCESS;
    case OF_PITCH:
        NEED(set_channels(&source->texel, &resource->rows.desc) && find_allocation(resource->rows.address));
        source->address = resource->rows.address;
        source->width = resource->rows.width;
        source->height = resource->rows.height;
        source->row = resource->rows.pitch;
        return SUCCESS;
    case OF_MIPMAP: return unsupported("cudaCreateTextureObject with mipmap levels");
    default: return INVALID_VALUE;
    }
}
EXPORT Result cudaCreateTextureObject(uint64_t *out, const Resource *resource, const TextureDesc *desc, const void *view) {
    BEGIN_RUNTIME;
    if (!out || !desc) return keep(INVALID_VALUE);
    if (view) return keep(unsupported("cudaCreateTextureObject with a resource view"));
    if (desc->srgb) return keep(unsupported("cudaCreateTextureObject with sRGB"));
    Source source;
    Result result = read_resource(&source, resource);
    if (result) return keep(result);
    Sampling sampling = {{desc->modes[0], desc->modes[1], desc->modes[2]}, desc->filter == 1, desc->read == 1 && source.texel.kind != IS_FLOAT, desc->normalized != 0, {0}};
    memcpy(sampling.border, desc->border, sizeof sampling.border);
    return keep(create_texture(out, &source, &sampling, resource, sizeof *resource, desc, sizeof *desc));
}
EXPORT Result cudaDestroyTextureObject(uint64_t handle) { BEGIN_RUNTIME; return keep(destroy_object(handle)); }
EXPORT Result cudaGetTextureObjectResourceDesc(Resource *out, uint64_t handle) { BEGIN_RUNTIME; Object *object = table_get(&objects, (void *)handle); if (!object || !out) return keep(INVALID_VALUE); memcpy(out, object->resource, sizeof *out); return SUCCESS; }
EXPORT Result cudaGetSurfaceObjectResourceDesc(Resource *out, uint64_t handle) { return cudaGetTextureObjectResourceDesc(out, handle); }
EXPORT Result cudaGetTextureObjectTextureDesc(TextureDesc *out, uint64_t handle) { BEGIN_RUNTIME; Object *object = table_get(&objects, (void *)handle); if (!object || !out) return keep(INVALID_VALUE); memcpy(out, object->texture, sizeof *out); return SUCCESS; }
EXPORT Result cudaCreateSurfaceObject(uint64_t *out, const Resource *resource) {
    BEGIN_RUNTIME;
    Source source;
    if (!out || !resource || resource->type != OF_ARRAY) return keep(INVALID_VALUE);
    Result result = read_resource(&source, resource);
    return keep(result ? result : create_surface(out, &source, resource, sizeof *resource));
}
EXPORT Result cudaDestroySurfaceObject(uint64_t handle) { BEGIN_RUNTIME; return keep(destroy_object(handle)); }

/* of the driver */
typedef struct DriverResource {
    int type;
    union {
        Array *array;
        struct { Address address; int format; unsigned channels; size_t bytes; } linear;
        struct { Address address; int format; unsigned channels; size_t width, height, pitch; } rows;
    };
} DriverResource;
typedef struct DriverTexture { int modes[3], filter; unsigned flags, anisotropy; int mip_filter; float mip_bias, mip_min, mip_max; uint32_t border[4]; int reserved[12]; } DriverTexture;
enum { AS_INTEGER = 1, NORMALIZED = 2, SRGB = 16 };

static Result read_driver_resource(Source *source, const DriverResource *resource) {
    NEED(resource);
    *source = (Source){0};
    if (resource->type == OF_ARRAY) return set_array(source, resource->array);
    if (resource->type == OF_MIPMAP) return unsupported("cudaCreateTextureObject with mipmap levels");
    NEED(resource->type == OF_LINEAR || resource->type == OF_PITCH);
    NEED(set_format(&source->texel, resource->linear.format, resource->linear.channels) && find_allocation(resource->linear.address));
    source->address = resource->linear.address;
    source->width = resource->type == OF_LINEAR ? resource->linear.bytes / (size_t)(source->texel.bits / 8 * source->texel.channels) : resource->rows.width;
    if (resource->type == OF_PITCH) {
        source->height = resource->rows.height;
        source->row = resource->rows.pitch;
    }
    return SUCCESS;
}
EXPORT Result cuTexObjectCreate(uint64_t *out, const DriverResource *resource, const DriverTexture *desc, const void *view) {
    BEGIN; NEED(out && desc);
    if (view) return unsupported("cuTexObjectCreate with a resource view");
    if (desc->flags & SRGB) return unsupported("cudaCreateTextureObject with sRGB");
    Source source;
    Result result = read_driver_resource(&source, resource);
    if (result) return result;
    bool as_float = !(desc->flags & AS_INTEGER) && source.texel.kind != IS_FLOAT && source.texel.bits < 32;
    Sampling sampling = {{desc->modes[0], desc->modes[1], desc->modes[2]}, desc->filter == 1, as_float, desc->flags & NORMALIZED, {0}};
    memcpy(sampling.border, desc->border, sizeof sampling.border);
    return create_texture(out, &source, &sampling, resource, sizeof *resource, desc, sizeof *desc);
}
EXPORT Result cuTexObjectDestroy(uint64_t handle) { BEGIN; return destroy_object(handle); }
EXPORT Result cuTexObjectGetResourceDesc(DriverResource *out, uint64_t handle) { BEGIN; Object *object = table_get(&objects, (void *)handle); NEED(object && out); memcpy(out, object->resource, sizeof *out); return SUCCESS; }
EXPORT Result cuTexObjectGetTextureDesc(DriverTexture *out, uint64_t handle) { BEGIN; Object *object = table_get(&objects, (void *)handle); NEED(object && out); memcpy(out, object->texture, sizeof *out); return SUCCESS; }
EXPORT Result cuSurfObjectCreate(uint64_t *out, const DriverResource *resource) {
    BEGIN; NEED(out && resource && resource->type == OF_ARRAY);
    Source source;
    Result result = read_driver_resource(&source, resource);
    return result ? result : create_surface(out, &source, resource, sizeof *resource);
}
EXPORT Result cuSurfObjectDestroy(uint64_t handle) { BEGIN; return destroy_object(handle); }
