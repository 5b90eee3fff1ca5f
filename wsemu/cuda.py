"""The names that kernels import from Numba-CUDA.

    from wsemu import cuda

    @cuda.jit
    def scale(x, a):
        i = cuda.grid(1)
        if i < x.size:
            x[i] *= a

Inside a kernel, indices and dimensions, barriers, fences, shuffles, votes, atomics, shared and local arrays have the
same meaning as in Numba-CUDA.  `jit` and the host functions (`to_device`, `synchronize`, ...) run on the CPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wsemu.language import cuda_names as _names
from wsemu.language.markers import Foreign, NotModelled

if TYPE_CHECKING:
    from wsemu.language.cuda_signatures import *  # noqa: F403
    from wsemu.launch.kernel import Kernel as Kernel
    from wsemu.launch.kernel import jit as jit
else:
    from wsemu.language.cuda_names import atomic as atomic
    from wsemu.language.cuda_names import blockDim as blockDim
    from wsemu.language.cuda_names import blockIdx as blockIdx
    from wsemu.language.cuda_names import cg as cg
    from wsemu.language.cuda_names import const as const
    from wsemu.language.cuda_names import fp16 as fp16
    from wsemu.language.cuda_names import gridDim as gridDim
    from wsemu.language.cuda_names import laneid as laneid
    from wsemu.language.cuda_names import libdevice as libdevice
    from wsemu.language.cuda_names import local as local
    from wsemu.language.cuda_names import shared as shared
    from wsemu.language.cuda_names import threadIdx as threadIdx
    from wsemu.language.cuda_names import types as types
    from wsemu.language.cuda_names import warpsize as warpsize

    def jit(signature: Any = None, /, **options: Any) -> Any:
        """Declare a kernel, or with `device=True` a function that kernels call: `@cuda.jit` or `@cuda.jit(...)`."""
        from wsemu.launch import (
            kernel,
        )  # part of the host's side, which this module must not load for users of the names alone

        return kernel.jit(signature, **options)


def declare_device(name: str, sig: Any, link: Any = None, use_cooperative: bool = False, abi: str = "numba") -> Any:
    """Declare a function that is not written in Python.  If it is linked as PTX, wsemu runs it; otherwise Numba-CUDA
    has to compile the kernel that calls it."""
    given = {"link": link} if link is not None else {}
    given |= {"abi": abi} if abi != "numba" else {}
    return Foreign("declare_device")(name, sig, **given)


def vectorize(*arguments: Any, **options: Any) -> Any:
    """Make a function on arrays from a function on numbers: `@cuda.vectorize(["float32(float32)"])`."""
    from wsemu.host import vectorize as host

    return host.vectorize(*arguments, **options)


def guvectorize(*arguments: Any, **options: Any) -> Any:
    """Make a function with loop dimensions from a function on arrays: `@cuda.guvectorize(["void(f4[:], f4[:])"],
    "(n)->(n)")`."""
    from wsemu.host import vectorize as host

    return host.guvectorize(*arguments, **options)


HOST = frozenset(
    """
    CudaAPIError CudaDriverError CudaSupportError In InOut Out as_cuda_array close config current_context default_stream
    defer_cleanup detect device_array device_array_like devicearray driver_is_available event event_elapsed_time
    external_stream from_cuda_array_interface get_current_device gpus is_available is_bfloat16_supported is_cuda_array
    is_float16_supported is_fp8_supported KernelRuntimeError
    is_supported_version legacy_default_stream list_devices managed_array mapped mapped_array mapped_array_like
    per_thread_default_stream pinned pinned_array pinned_array_like profile_start profile_stop profiling runtime
    select_device stream synchronize to_device
    """.split()
)
"""names that `wsemu.host.driver` provides"""


_NOT_MODELLED = frozenset(
    """
    BaseCUDAMemoryManager Dim3 GetIpcHandleMixin GridGroup HostOnlyCUDAMemoryManager IpcHandle MappedMemory MemoryInfo
    MemoryPointer PinnedMemory alias api_util cache_hints cext cgutils codegen cpython cuda_error cuda_paths datamodel
    debuginfo descriptor device_init deviceufunc dim3 dispatcher flags grid_group initialize intrinsics itanium_mangler
    literal locks lowering mathimpl memory_management misc models nvvm nvvmutils open_ipc_array
    prepare_shape_strides_dtype require_context serialize set_memory_manager simulator stubs target typeconv typing
    ufuncs utils
    """.split()
)
"""names of Numba-CUDA that are not implemented here, except for names that `takeover` adds"""


_PARTS = frozenset("api args compiler core cudadrv decorators devices driver errors kernels vectorizers".split())
"""modules of Numba-CUDA that are available without a separate import"""


_COMPILING = frozenset(
    "compile compile_all compile_for_current_device compile_ptx compile_ptx_for_current_device".split()
)
"""names that Numba-CUDA itself provides if it is installed"""


FOREIGN = frozenset("Archive CUSource Cubin Fatbin LTOIR LinkableCode Object PTXSource fp8".split())
"""names of Numba-CUDA that kernels use and that only its own compiler supports"""


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in HOST:
            from wsemu.host import driver

            return getattr(driver, name)
        if name == "Kernel":  # the result of `jit`, for annotations
            from wsemu.launch.kernel import Kernel

            return Kernel
        if name in ("reduce", "Reduce"):
            from wsemu.host.reduction import Reduce

            return Reduce
        if name == "HAS_NUMBA":
            return True
        if name == "literal_unroll":
            from wsemu.model.numba_library import load_numba

            return load_numba("numba").literal_unroll
        if name == "random":
            from wsemu.host import xoroshiro

            return xoroshiro
        if name == "extending":
            from wsemu.host import extending

            return extending
        if name == "launchconfig":
            from wsemu.launch import configured

            return configured
        if name in FOREIGN:
            return Foreign(name)
        if name in _COMPILING:
            from wsemu.launch.second_way import asking

            return asking(name)
        if name in _PARTS:
            from wsemu.host import takeover

            return takeover.part(name)
        if name in _NOT_MODELLED:
            return NotModelled(f"cuda.{name}")
        return getattr(_names, name)


def __dir__() -> list[str]:
    own = ("declare_device", "guvectorize", "jit", "vectorize")
    return sorted(
        {
            *dir(_names),
            *own,
            *HOST,
            *FOREIGN,
            "HAS_NUMBA",
            "Reduce",
            "extending",
            "launchconfig",
            "literal_unroll",
            "random",
            "reduce",
        }
    )
