"""What kernels import: Numba-CUDA's names.

    from wsemu import cuda

    @cuda.jit
    def scale(x, a):
        i = cuda.grid(1)
        if i < x.size:
            x[i] *= a

Indices and dimensions, barriers, fences, shuffles, votes, atomics, shared and local arrays mean inside a kernel what
they mean in Numba-CUDA.  `jit` and the host functions (`to_device`, `synchronize`, ...) run on the CPU.
"""

from __future__ import annotations

from typing import Any

from wsemu import libdevice as libdevice_table
from wsemu.marker import KernelFunction, KernelValue, Namespace, ScalarType, functions, unknown

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

_FUNCTIONS = functions("cuda", "", {
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

_LIBDEVICE = {
    f"{name}({f.parameters})": f"{f.operation.lstrip('=')} of {', '.join(f.operands)}, as {f.result}."
    for name, f in libdevice_table.TABLE.items()
}
cg = Namespace("cuda.cg", "Cooperative groups: not modelled.", functions("cuda", "cg", {
    "this_grid()": "The group of all threads of the grid.",
}))  # fmt: skip

libdevice = Namespace("cuda.libdevice", "NVIDIA's device library.", functions("cuda", "libdevice", _LIBDEVICE))

_TYPES = {
    name: ScalarType(name.replace("boolean", "bool")) for name in (
        "boolean", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
        "float16", "float32", "float64", "complex64", "complex128",
    )
}  # fmt: skip
types = Namespace("cuda.types", "Number types by Numba's names.", _TYPES)

_PREFIXES = {
    **{
        f"{sign}int{bits}": (f"{sign}int{bits}", f"{sign}{c_name}") for sign in ("", "u")
        for bits, c_name in ((8, "char"), (16, "short"), (32, "int"), (64, "long"))
    },
    "float32": ("float32", "float"),
    "float64": ("float64", "double"),
}  # fmt: skip
VECTOR_TYPES: dict[str, tuple[str, int]] = {}
"""name -> (element type, elements), C's names included: float32x4, float4"""
for _element, (_name, _c_name) in _PREFIXES.items():
    for _count in (1, 2, 3, 4):
        VECTOR_TYPES[f"{_name}x{_count}"] = VECTOR_TYPES[f"{_c_name}{_count}"] = (_element, _count)
        if _c_name.endswith("long"):
            VECTOR_TYPES[f"{_c_name}long{_count}"] = (_element, _count)
VECTORS = {
    name: KernelFunction("cuda", f"{name}({', '.join('xyzw'[:count])})", f"A vector of {count} {element}.")
    for name, (element, count) in VECTOR_TYPES.items()
}


def jit(signature: Any = None, /, **options: Any) -> Any:
    """Declare a kernel, or with `device=True` a function that kernels call: `@cuda.jit` or `@cuda.jit(...)`."""
    from wsemu import kernel  # the host's side, which this module must not load for those who only name things

    return kernel.jit(signature, **options)


def declare_device(name: str, sig: Any, link: Any = None, use_cooperative: bool = False, abi: str = "numba") -> Any:
    """A function that is not Python: a kernel that calls it is not modelled."""
    return KernelFunction("declare_device", f"{name}(*arguments)", "A function in CUDA C++ or PTX.")


def vectorize(*arguments: Any, **options: Any) -> Any:
    """Not modelled: raises UnsupportedError."""
    from wsemu import takeover

    return takeover.refuse_vectorize(*arguments, **options)


guvectorize = vectorize


HOST = frozenset(
    """
    CudaAPIError CudaDriverError CudaSupportError In InOut Out as_cuda_array close current_context default_stream
    defer_cleanup detect device_array device_array_like event event_elapsed_time external_stream
    from_cuda_array_interface get_current_device gpus is_available is_cuda_array is_float16_supported
    is_supported_version legacy_default_stream list_devices managed_array mapped mapped_array mapped_array_like
    per_thread_default_stream pinned pinned_array pinned_array_like profile_start profile_stop profiling runtime
    select_device stream synchronize to_device
    """.split()
)
"""names that `wsemu.host` provides"""


_NOT_MODELLED = frozenset(
    """
    Archive BaseCUDAMemoryManager CUSource Cubin Fatbin GetIpcHandleMixin HostOnlyCUDAMemoryManager IpcHandle
    KernelRuntimeError LTOIR LinkableCode MappedMemory MemoryInfo MemoryPointer Object PTXSource PinnedMemory bf16
    compile compile_all compile_for_current_device compile_ptx compile_ptx_for_current_device config cuda_error
    cudadrv devicearray driver_is_available extending fp8 is_bfloat16_supported literal literal_unroll nvvm
    open_ipc_array set_memory_manager
    """.split()
)
"""names of Numba-CUDA that have no meaning here, but for those that imports bring (`takeover`)"""


def __getattr__(name: str) -> Any:
    if name in _FUNCTIONS:
        return _FUNCTIONS[name]
    if name in VECTORS:
        return VECTORS[name]
    if name in HOST:
        from wsemu import host

        return getattr(host, name)
    if name in ("reduce", "Reduce"):
        from wsemu.reduction import Reduce

        return Reduce
    if name == "random":
        from wsemu import xoroshiro

        return xoroshiro
    if name in _TYPES:
        return _TYPES[name]
    if name.startswith("__"):
        raise AttributeError(name)
    if name in _NOT_MODELLED:
        from wsemu.errors import MissingName

        raise MissingName(f"`cuda.{name}` is not modelled", remedy="do without it, or ask for it with `hasattr`")
    raise AttributeError(unknown("module `wsemu.cuda`", name, __dir__()))


def __dir__() -> list[str]:
    public = (name for name in globals() if not name.startswith("_") and name[0].islower())
    plumbing = {"annotations", "functions", "libdevice_table", "unknown"}
    lazy = {"Reduce", "reduce", "random", *_TYPES}
    return sorted({*_FUNCTIONS, *VECTORS, *HOST, *public, *lazy} - plumbing)
