"""Run PTX kernels on a GPU through the CUDA driver, which compiles their text and launches them, also in clusters or
cooperatively.

Parameters are bytes, as in a launch file.  After memory is allocated on the GPU, the addresses of arrays and of pointer
tables, and encoded tensor maps, are written into the parameters.  Arrays are copied to the GPU and back.
"""

from __future__ import annotations

import ctypes
import functools
import math
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.model.data import dataclass
from wsemu.model.errors import UsageError
from wsemu.model.tensor_map import MAP_ALIGNMENT, TensorMap, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from wsemu.model.launch_shape import LaunchConfiguration

POINTER = 8
"""size of an address in bytes"""
_COOPERATIVE, _CLUSTER = 2, 4
"""CU_LAUNCH_ATTRIBUTE_COOPERATIVE, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION"""
_SHARED, _ANY_CLUSTER = 8, 14
"""CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED"""
_EVERYWHERE = 8
"""maximum CTAs of a cluster that every GPU supports"""
_LOG, _LOG_SIZE = 5, 6
"""CU_JIT_ERROR_LOG_BUFFER, and its size in bytes"""
_LOG_ROOM = 4096


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute."""

    _fields_ = (("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_uint * 16))


class _Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("extents", ctypes.c_uint * 6), ("shared", ctypes.c_uint), ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)), ("count", ctypes.c_uint),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Entry:
    """A kernel in a PTX text."""

    text: str
    name: str
    """name of the kernel in PTX"""
    cooperative: bool
    """true if all its CTAs synchronize, and so must be co-resident"""
    clustered: bool
    """true if the text declares the cluster size"""
    stores: bool
    """true if launches store to variables of the text, which must be reset before each launch"""


# -- the driver --------------------------------------------------------------------------------------------------------
@functools.cache
def has_gpu() -> bool:
    """Return whether a CUDA driver finds a GPU here."""
    count = ctypes.c_int()
    try:
        cuda = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return False
    return cuda.cuInit(0) == 0 and cuda.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0


@functools.cache
def _library() -> Any:
    """Return libcuda, with the first device's context current in this process; raise UsageError without a device."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise UsageError(f"no CUDA driver here ({error}): run this on a machine with an NVIDIA GPU") from error
    context = ctypes.c_void_p()
    _check_driver_error(cuda, cuda.cuInit(0), "cuInit")
    _check_driver_error(cuda, cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), "cuDevicePrimaryCtxRetain")
    _check_driver_error(cuda, cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent")
    return cuda


def _check_driver_error(cuda: Any, error: int, what: str, said: str = "") -> None:
    """Raise UsageError if the driver returns an error."""
    if error:
        name = ctypes.c_char_p()
        cuda.cuGetErrorName(error, ctypes.byref(name))
        told = name.value.decode() if name.value else f"error {error}"
        raise UsageError(f"{what}: the CUDA driver says {told}{said and f': {said}'}")


def _call(name: str, *arguments: Any) -> None:
    cuda = _library()
    _check_driver_error(cuda, getattr(cuda, name)(*arguments), name)


def _function(entry: Entry) -> ctypes.c_void_p:
    """Return a kernel of a text, compiled by the driver."""
    return (_load_module.__wrapped__ if entry.stores else _load_module)(entry.text, entry.name)


@functools.lru_cache(maxsize=64)
def _load_module(text: str, name: str) -> ctypes.c_void_p:
    cuda, module, found = _library(), ctypes.c_void_p(), ctypes.c_void_p()
    log = ctypes.create_string_buffer(_LOG_ROOM)
    options = (ctypes.c_int * 2)(_LOG, _LOG_SIZE)
    values = (ctypes.c_void_p * 2)(ctypes.addressof(log), _LOG_ROOM)
    error = cuda.cuModuleLoadDataEx(ctypes.byref(module), text.encode() + b"\0", 2, options, values)
    _check_driver_error(cuda, error, f"`{name}` is not compiled", " ".join(log.value.decode(errors="replace").split()))
    _call("cuModuleGetFunction", ctypes.byref(found), module, name.encode())
    return found


def available() -> bool:
    """Return whether there is a GPU here that the driver can use."""
    try:
        _library()
    except UsageError:
        return False
    return True


# -- memory ------------------------------------------------------------------------------------------------------------
class _Memory:
    """The GPU memory of one launch."""

    def __init__(self) -> None:
        self.held: list[tuple[int, npt.NDArray[Any], npt.NDArray[np.uint8]]] = []
        """(GPU address, array, its initial bytes)"""
        self.kept: list[ctypes.c_uint64] = []

    def room(self, data: npt.NDArray[np.uint8] | bytes) -> int:
        """Allocate memory on the GPU, copy these bytes to it, and return its address."""
        given = np.frombuffer(data, np.uint8) if isinstance(data, bytes) else data
        pointer = ctypes.c_uint64()
        _call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(max(given.nbytes, 1)))
        self.kept.append(pointer)
        if given.nbytes:
            _call("cuMemcpyHtoD_v2", pointer, ctypes.c_void_p(given.ctypes.data), ctypes.c_size_t(given.nbytes))
        return pointer.value

    def address(self, array: npt.NDArray[Any]) -> int:
        """Return the GPU address of an array's first element; arrays that share memory share it there."""
        low, high = np.lib.array_utils.byte_bounds(array)
        first = int(array.__array_interface__["data"][0])
        for address, _, held in self.held:
            begin = int(held.ctypes.data)
            if begin <= low and high <= begin + held.nbytes:
                return address + first - begin
            if low < begin + held.nbytes and begin < high:
                raise UsageError("two arrays share a part of their memory: pass the whole one first, or copies")
        bytes_ = np.ctypeslib.as_array((ctypes.c_uint8 * (high - low)).from_address(low)) if high > low else array
        held = bytes_.view(np.uint8).reshape(-1)
        address = self.room(held)
        self.held.append((address, array, held))
        return address + first - low

    def pack_parameter(self, packed: Any) -> bytes:
        """Return a parameter: the packed bytes, with the addresses of the memory that it refers to."""
        data = bytearray(packed.data)
        for at, _, array in packed.arrays:
            data[at : at + POINTER] = self.address(array).to_bytes(POINTER, "little")
        for at, _, map_ in packed.maps:
            encoded = self.map(map_)
            data[at : at + len(encoded)] = encoded
        for at, _, block in packed.blocks:
            data[at : at + POINTER] = self.room(self.pack_parameter(block.packed)).to_bytes(POINTER, "little")
        return bytes(data)

    def map(self, map_: TensorMap) -> bytes:
        """Return a tensor map of an array on the GPU."""
        fields = map_.fields
        return encode(fields._replace(address=fields.address + self.address(map_.array)))

    def back(self) -> None:
        """Copy arrays back from the GPU."""
        for address, array, held in self.held:
            if array.flags.writeable and held.nbytes:
                there = ctypes.c_uint64(address)
                _call("cuMemcpyDtoH_v2", ctypes.c_void_p(held.ctypes.data), there, ctypes.c_size_t(held.nbytes))

    def free(self) -> None:
        for pointer in self.kept:
            _library().cuMemFree_v2(pointer)


# -- launches ----------------------------------------------------------------------------------------------------------
def ensure_compiled(entry: Entry) -> None:
    """Compile a kernel unless it is already compiled."""
    _function(entry)


def launch(entry: Entry, configuration: LaunchConfiguration, arguments: Sequence[Any]) -> None:
    """Run a kernel and wait for it; `arguments` are arrays, which are copied to the GPU and back, and packed
    parameters.  Raise UsageError if the driver rejects the launch."""
    found, memory = _function(entry), _Memory()
    try:
        values = [
            memory.address(value).to_bytes(POINTER, "little") if isinstance(value, np.ndarray)
            else memory.pack_parameter(value) for value in arguments
        ]  # fmt: skip
        buffers = [_align_parameter(value) for value in values]
        places = (ctypes.c_void_p * max(len(buffers), 1))(*(address for _, address in buffers))
        config = _make_launch_config(entry, configuration, found)
        _call("cuLaunchKernelEx", ctypes.byref(config), found, places, None)
        _call("cuCtxSynchronize")
        memory.back()
    finally:
        memory.free()


def _align_parameter(data: bytes) -> tuple[Any, int]:
    """Return a copy of a parameter that is kept in memory, and its address, aligned as a tensor map requires."""
    alignment = 2 * MAP_ALIGNMENT
    buffer = ctypes.create_string_buffer(len(data) + alignment)
    address = -(-ctypes.addressof(buffer) // alignment) * alignment
    ctypes.memmove(address, data, len(data))
    return buffer, address


def _make_launch_config(entry: Entry, configuration: LaunchConfiguration, found: ctypes.c_void_p) -> _Config:
    shared, cluster = configuration.dynamic_shared, configuration.cluster
    if shared:
        _call("cuFuncSetAttribute", found, _SHARED, shared)
    if math.prod(cluster) > _EVERYWHERE:
        _call("cuFuncSetAttribute", found, _ANY_CLUSTER, 1)
    wanted: list[tuple[int, tuple[int, ...]]] = [(_COOPERATIVE, (1,))] if entry.cooperative else []
    if cluster != (1, 1, 1) and not entry.clustered:
        wanted.append((_CLUSTER, cluster))
    attributes = (_Attribute * max(len(wanted), 1))(
        *(_Attribute(id_, 0, (ctypes.c_uint * 16)(*value)) for id_, value in wanted)
    )
    extents = (ctypes.c_uint * 6)(*configuration.grid, *configuration.block)
    return _Config(extents, shared, None, ctypes.cast(attributes, ctypes.POINTER(_Attribute)), len(wanted))


class GpuEntry:
    """A kernel in PTX for launches on the GPU: `kernel.on("gpu")[grid, block, stream, dynamic_shared, cluster]()`."""

    def __init__(self, kernel: Any, entry_of: Callable[[Sequence[Any]], Entry]) -> None:
        """`entry_of` returns the kernel for marshaled arguments."""
        self.kernel, self.entry_of = kernel, entry_of

    def __getitem__(self, parameters: Any) -> Callable[..., None]:
        """Return the launch with these parameters, within the limits of sm_90."""
        configuration = self.kernel.apply_cluster(self.kernel.configuration(parameters))

        def run(*arguments: Any) -> None:
            fitted = self.kernel.fit(arguments)
            launch(self.entry_of(fitted), configuration, fitted)

        return run

    def __repr__(self) -> str:
        return f"<{self.kernel!r} on the GPU>"
