/* What the parts of the runtime share. */
#ifndef WSEMU_RUNTIME_H
#define WSEMU_RUNTIME_H
#include "state.h"

typedef struct Dim3 { unsigned x, y, z; } Dim3;
typedef void *Handle;
typedef struct Pitched { Address address; size_t pitch, width, height; } Pitched;
typedef struct Extent { size_t width, height, depth; } Extent;
typedef struct Position { size_t x, y, z; } Position;
typedef struct Copy3D { Handle from_array; Position from_position; Pitched from; Handle to_array; Position to_position; Pitched to; Extent extent; int kind; } Copy3D;

static inline bool is_number(const void *value) { return (uintptr_t)value - 1 < 4095; } /* it is no address */
Function *function_of(const void *host, Result *result); /* the kernel that a host function stands for */
Shape shape_of_launch(Dim3 grid, Dim3 block, size_t shared);
Result copy_3d(const Copy3D *copy, Handle stream, bool asynchronous);

#endif
