"""Numba-CUDA's names inside kernels: indices and dimensions, barriers, fences, shuffles, votes, atomics, arrays.

This module only defines the names; `wsemu.cuda` exports them, together with `jit` and the functions of the host.
"""

from __future__ import annotations

import enum
from typing import Any

from wsemu.language import libdevice as libdevice_table
from wsemu.language.markers import (
    Foreign,
    KernelFunction,
    KernelValue,
    Namespace,
    NumbaTypes,
    ScalarType,
    functions,
    unknown,
)

_AXES = "xyz"


def _dim3(name: str, doc: str) -> Namespace:
    members = {axis: KernelValue(f"cuda.{name}.{axis}", f"{doc} int32.") for axis in _AXES}
    return Namespace(f"cuda.{name}", f"{doc} Parts .x, .y, .z, each int32.", members)


threadIdx = _dim3("threadIdx", "Index of the thread in its CTA.")
blockIdx = _dim3("blockIdx", "Index of the CTA in the grid.")
blockDim = _dim3("blockDim", "Threads of a CTA.")
gridDim = _dim3("gridDim", "CTAs of the grid.")
laneid = KernelValue("cuda.laneid", "Lane of the thread in its warp, 0 to 31; int32.")
warpsize = KernelValue("cuda.warpsize", "Threads of a warp, 32; int32.")

FUNCTIONS = functions("cuda", "", {
    "grid(ndim)": "Index of the thread in the whole grid: an int64, or a tuple of `ndim`.",
    "gridsize(ndim)": "Threads of the whole grid: an int64, or a tuple of `ndim`.",
    "syncthreads()": "Wait for all threads of the CTA (barrier 0); orders shared and global memory among them.",
    "syncthreads_count(predicate)": "syncthreads; returns how many threads had a predicate other than 0.",
    "syncthreads_and(predicate)": "syncthreads; returns 1 if every predicate was other than 0, else 0.",
    "syncthreads_or(predicate)": "syncthreads; returns 1 if any predicate was other than 0, else 0.",
    "syncwarp(mask=-1)": "Wait for the lanes of `mask`; orders memory among them.",
    "threadfence()": "Memory fence for the device.",
    "threadfence_block()": "Memory fence for the CTA.",
    "threadfence_system()": "Memory fence for the system.",
    "nanosleep(ns)": "Pause for about `ns` nanoseconds; no effect in the emulator.",
    "shfl_sync(mask, value, src_lane)": "`value` of lane `src_lane` modulo 32; int32, int64, float32 or float64.",
    "shfl_up_sync(mask, value, delta)": "`value` of the lane `delta` below; the own one where there is none.",
    "shfl_down_sync(mask, value, delta)": "`value` of the lane `delta` above; the own one where there is none.",
    "shfl_xor_sync(mask, value, lane_mask)": "`value` of lane `laneid ^ lane_mask`.",
    "all_sync(mask, predicate)": "Whether the predicate holds in all lanes of `mask`.",
    "any_sync(mask, predicate)": "Whether the predicate holds in any lane of `mask`.",
    "eq_sync(mask, predicate)": "Whether the predicate is the same in all lanes of `mask`.",
    "ballot_sync(mask, predicate)": "Mask of the lanes of `mask` whose predicate holds; int32.",
    "match_any_sync(mask, value)": "Mask of the lanes of `mask` with the same `value`; int32.",
    "match_all_sync(mask, value)": "(mask, True) if all lanes of `mask` have the same `value`, else (0, False).",
    "activemask()": "Mask of the lanes that execute this together; uint32.",
    "lanemask_lt()": "Mask of the lanes below this one; uint32.",
    "popc(x)": "Bits set in x.",
    "brev(x)": "x with its bits in reverse order.",
    "clz(x)": "Leading zero bits of x.",
    "ffs(x)": "Position of the lowest set bit, from 1; 0 if none.",
    "selp(test, a, b)": "a if test, else b; both of one type.",
    "fma(a, b, c)": "a * b + c with one rounding.",
    "cbrt(a)": "Cube root.",
    "ldca(array, i)": "array[i], cached at all levels (ld.global.ca).",
    "ldcg(array, i)": "array[i], cached in L2 (ld.global.cg).",
    "ldcs(array, i)": "array[i], likely read once (ld.global.cs).",
    "ldlu(array, i)": "array[i], last use (ld.global.lu).",
    "ldcv(array, i)": "array[i], not cached (ld.global.cv).",
    "stcg(array, i, value)": "array[i] = value, cached in L2 (st.global.cg).",
    "stcs(array, i, value)": "array[i] = value, likely accessed once (st.global.cs).",
    "stwb(array, i, value)": "array[i] = value, written back (st.global.wb).",
    "stwt(array, i, value)": "array[i] = value, written through (st.global.wt).",
})  # fmt: skip

shared = Namespace("cuda.shared", "Memory that the threads of a CTA share.", functions("cuda", "shared", {
    "array(shape, dtype, alignment=None)": "A shared array, one per CTA; shape 0: dynamic shared memory.",
}))  # fmt: skip
local = Namespace("cuda.local", "Memory of a thread.", functions("cuda", "local", {
    "array(shape, dtype, alignment=None)": "An array of the thread's own.",
}))  # fmt: skip
const = Namespace("cuda.const", "Constant memory.", functions("cuda", "const", {
    "array_like(ndarray)": "A read-only copy of a host array.",
}))  # fmt: skip
atomic = Namespace("cuda.atomic", "Atomic operations; each returns the old element.", functions("cuda", "atomic", {
    "add(ary, idx, val)": "ary[idx] += val",
    "sub(ary, idx, val)": "ary[idx] -= val",
    "and_(ary, idx, val)": "ary[idx] &= val",
    "or_(ary, idx, val)": "ary[idx] |= val",
    "xor(ary, idx, val)": "ary[idx] ^= val",
    "inc(ary, idx, val)": "ary[idx] = 0 if ary[idx] >= val else ary[idx] + 1",
    "dec(ary, idx, val)": "ary[idx] = val if ary[idx] == 0 or ary[idx] > val else ary[idx] - 1",
    "exch(ary, idx, val)": "ary[idx] = val",
    "max(ary, idx, val)": "ary[idx] = max(ary[idx], val); unchanged if either is nan",
    "min(ary, idx, val)": "ary[idx] = min(ary[idx], val); unchanged if either is nan",
    "nanmax(ary, idx, val)": "ary[idx] = max(ary[idx], val); the number, if one is nan",
    "nanmin(ary, idx, val)": "ary[idx] = min(ary[idx], val); the number, if one is nan",
    "compare_and_swap(ary, old, val)": "ary[0] = val if ary[0] == old",
    "cas(ary, idx, old, val)": "ary[idx] = val if ary[idx] == old",
}))  # fmt: skip

_HALF = {f"h{name}({parameters})": f"float16: {name}({parameters})" for parameters, names in {
    "a, b": "add sub mul div eq ne lt le gt ge max min",
    "a": "neg abs sin cos log log2 log10 exp exp2 exp10 floor ceil trunc rint sqrt rsqrt rcp",
    "a, b, c": "fma",
}.items() for name in names.split()}  # fmt: skip
fp16 = Namespace("cuda.fp16", "Operations on float16.", functions("cuda", "fp16", _HALF))

_MODES = {"rn": "to nearest even", "rz": "toward zero", "rd": "down", "ru": "up"}
INTEGERS_OF_BFLOAT16 = tuple(f"{sign}int{bits}" for bits in (8, 16, 32, 64) for sign in ("", "u"))
_BFLOAT16 = {
    **{signature: doc.replace("float16", "bfloat16") for signature, doc in _HALF.items()},
    **{f"h{name}({parameters})": f"bfloat16: {name}({parameters})" for parameters, names in {
        "a, b": "add_rn sub_rn mul_rn add_sat sub_sat mul_sat equ neu ltu leu gtu geu max_nan min_nan",
        "a": "tanh tanh_approx isnan isinf",
        "a, b, c": "fma_sat fma_relu",
    }.items() for name in names.split()},
    **{f"bfloat16_to_{name}_{mode}(a)": f"{name} of a bfloat16, rounded {how}."
       for name in INTEGERS_OF_BFLOAT16 for mode, how in _MODES.items() if mode == "rz" or not name.endswith("int8")},
    **{f"{name}_to_bfloat16_{mode}(a)": f"bfloat16 of a {name}, rounded {how}."
       for name in (*INTEGERS_OF_BFLOAT16[2:], "float32") for mode, how in _MODES.items()},
    **{f"bfloat16_as_{name}(a)": f"The bits of a bfloat16 as {name}." for name in ("int16", "uint16")},
    **{f"{name}_as_bfloat16(a)": f"The bits of {name} as a bfloat16." for name in ("int16", "uint16")},
    "float32_to_bfloat16(a)": "bfloat16 of a float32, rounded to nearest even.",
    "float64_to_bfloat16(a)": "bfloat16 of a float64, rounded to nearest even.",
    "bfloat16_to_float32(a)": "float32 of a bfloat16.",
}  # fmt: skip
bf16 = Namespace("cuda.bf16", "Operations on bfloat16.", {
    **functions("cuda", "bf16", _BFLOAT16), "bfloat16": ScalarType("bfloat16"),
})  # fmt: skip


class saturation_t(enum.IntEnum):
    """The handling of numbers out of range in a conversion."""

    NOSAT = 0
    SATFINITE = 1


class fp8_interpretation_t(enum.IntEnum):
    """The formats of an 8-bit float."""

    E4M3 = 0
    E5M2 = 1


cuda_fp8 = Namespace("cuda.fp8", "Floats of 8 bits.", {
    **functions("cuda", "fp8", {
        f"cvt_{name}_to_fp8(x, saturate, fp8_interpretation)": f"The 8 bits of a {name}, as uint8."
        for name in ("float", "double")
    }),
    **{name: ScalarType(name) for name in ("fp8_e4m3", "fp8_e5m2")},
    "saturation_t": saturation_t, "fp8_interpretation_t": fp8_interpretation_t,
    **{name: Foreign(f"_internal.cuda_fp8.{name}") for name in (
        "fp8_e8m0", *(f"fp8x{n}_{form}" for n in (2, 4) for form in ("e4m3", "e5m2", "e8m0")),
        *(f"cvt_{name}" for name in (
            "double2_to_fp8x2 float2_to_fp8x2 bfloat16raw_to_fp8 bfloat16raw_to_e8m0 float_to_e8m0 float2_to_e8m0x2 "
            "double_to_e8m0 double2_to_e8m0x2 e8m0_to_bf16raw"
        ).split()),
    )},
})  # fmt: skip
"""`numba.cuda._internal.cuda_fp8`"""


def _libdevice_operation_name(operation: str) -> str:
    """Return an operation of the table of libdevice by name."""
    return operation.lstrip("=@").partition(":")[0].removeprefix("math.")


_LIBDEVICE = {
    f"{name}({f.parameters})": (
        f"{_libdevice_operation_name(f.operation)} of {', '.join(f.operands)}, as {f.result.replace(' ', ' and ')}."
    )
    for name, f in libdevice_table.TABLE.items()
}
GRID_GROUP = Namespace("cuda.cg.GridGroup", "The group of all threads of the grid.", functions("cuda", "cg.GridGroup", {
    "sync()": "Wait for all threads of the grid, whose CTAs all run at once; orders their memory.",
}))  # fmt: skip
cg = Namespace("cuda.cg", "Cooperative groups.", functions("cuda", "cg", {
    "this_grid()": "The group of all threads of the grid: `this_grid().sync()` makes the launch a cooperative one.",
}))  # fmt: skip

libdevice = Namespace("cuda.libdevice", "NVIDIA's device library.", functions("cuda", "libdevice", _LIBDEVICE))

TYPES = {
    name: ScalarType(name.replace("boolean", "bool")) for name in (
        "boolean", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
        "float16", "float32", "float64", "complex64", "complex128",
    )
} | {"bfloat16": bf16.bfloat16}  # fmt: skip
types = NumbaTypes("cuda.types", "Number types by Numba's names; any other of Numba's types.", TYPES)

TYPE_NAMES = frozenset(
    """
    b1 bool_ byte c16 c8 char deferred_type double f2 f4 f8 ffi ffi_forced_object i1 i2 i4 i8 int_ intc intp long_
    longlong none optional pyobject short size_t ssize_t string u1 u2 u4 u8 uchar uint uintc uintp ulong ulonglong
    ushort void voidptr
    """.split()
)
"""further type names of `numba.cuda`, for signatures and conversions"""

_PREFIXES = {
    **{
        f"{sign}int{bits}": (f"{sign}int{bits}", f"{sign}{c_name}") for sign in ("", "u")
        for bits, c_name in ((8, "char"), (16, "short"), (32, "int"), (64, "long"))
    },
    "float32": ("float32", "float"),
    "float64": ("float64", "double"),
}  # fmt: skip
VECTOR_TYPES: dict[str, tuple[str, int]] = {}
"""name -> (element type, number of elements), including the names of CUDA C++: float32x4, float4"""
for _element, (_name, _c_name) in _PREFIXES.items():
    for _count in (1, 2, 3, 4):
        VECTOR_TYPES[f"{_name}x{_count}"] = VECTOR_TYPES[f"{_c_name}{_count}"] = (_element, _count)
        if _c_name.endswith("long"):
            VECTOR_TYPES[f"{_c_name}long{_count}"] = (_element, _count)
VECTORS = {
    name: KernelFunction("cuda", f"{name}({', '.join('xyzw'[:count])})", f"A vector of {count} {element}.")
    for name, (element, count) in VECTOR_TYPES.items()
}


VALUES = (
    "threadIdx blockIdx blockDim gridDim laneid warpsize shared local const atomic bf16 fp16 cg libdevice types".split()
)
"""names of this module that are values, not functions"""


def __getattr__(name: str) -> Any:
    for table in (FUNCTIONS, VECTORS, TYPES):
        if name in table:
            return table[name]
    if name.startswith("__"):
        raise AttributeError(name)
    if name in TYPE_NAMES:
        return getattr(types, name)
    raise AttributeError(unknown("module `wsemu.cuda`", name, __dir__()))


def __dir__() -> list[str]:
    return sorted({*FUNCTIONS, *VECTORS, *TYPES, *TYPE_NAMES, *VALUES})
