"""Device arrays on a machine without a GPU: NumPy arrays with Numba's methods.

Nothing is copied anywhere but within this process's memory; what would fail on a GPU for the shape or dtype of its
arrays fails here too.
"""

from __future__ import annotations

import contextlib
import math
import weakref
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np
from numpy.lib.array_utils import byte_bounds

from wsemu.model.errors import UnsupportedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    Array = npt.NDArray[Any]


class SupportsDLPack(Protocol):
    """An array of another library."""

    def __dlpack__(self, **options: Any) -> Any: ...
    def __dlpack_device__(self) -> Any: ...


class DeviceArray(np.ndarray[Any, np.dtype[Any]]):
    """An array as `to_device` and `device_array` return it: a NumPy array with Numba's methods for copying."""

    stream: object = 0
    _unwritten: list[bool]
    """one for all views of its memory"""

    if TYPE_CHECKING:  # NumPy says that these give plain arrays

        def reshape(self, *shape: Any, order: Any = "C", copy: bool | None = None) -> DeviceArray:
            """The same elements in another shape."""

        def ravel(self, order: Any = "C") -> DeviceArray:
            """The same elements in one dimension."""

    def __array_finalize__(self, parent: object) -> None:
        shares = isinstance(parent, DeviceArray) and np.may_share_memory(self, parent)
        self._unwritten = parent._unwritten if shares else [False]  # type: ignore[attr-defined]

    @property
    def blank(self) -> bool:
        """Whether nothing has written to its memory: then a launch that reads it first reads what happens to be
        there.  What is written through a view counts for all of the memory."""
        return self._unwritten[0]

    @blank.setter
    def blank(self, value: bool) -> None:
        self._unwritten[0] = value

    def __setitem__(self, key: Any, value: Any) -> None:
        self.blank = False
        super().__setitem__(key, value)

    def copy_to_host(self, ary: Array | None = None, stream: object = 0) -> Array:
        """A copy as a NumPy array, or into `ary`, of the same shape and dtype."""
        if ary is None:
            return np.array(self, copy=True, subok=False)
        _match(self, ary, "copy_to_host: an array of")
        ary[...] = self.reshape(ary.shape)
        return ary

    def copy_to_device(self, ary: Array, stream: object = 0) -> None:
        """Overwrite the elements with those of `ary`, of the same shape and dtype."""
        source = np.asarray(ary)
        _match(source, self, "copy_to_device: an array of")
        self[...] = source.reshape(self.shape)

    def split(self, section: int, stream: object = 0) -> Iterator[DeviceArray]:
        """Parts of `section` elements of a 1-D array, the last one maybe smaller."""
        if self.ndim != 1:
            raise UsageError(f"split: an array of {self.ndim} dimensions; take `ravel()` of it")
        for begin in range(0, self.size, section):
            yield self[begin : begin + section].view(DeviceArray)

    def getitem(self, item: Any, stream: object = 0) -> Any:
        """`self[item]`"""
        return self[item]

    def setitem(self, key: Any, value: Any, stream: object = 0) -> None:
        """`self[key] = value`"""
        self[key] = value

    def bind(self, stream: object = 0) -> DeviceArray:
        """The same array; work is done in order on every stream."""
        return self

    def get_ipc_handle(self) -> NoReturn:
        """Memory for other processes, which the emulated device has not: UnsupportedError."""
        raise UnsupportedError(
            "an IPC handle of a device array is not modelled",
            remedy="hand its copy to the other process: `array.copy_to_host()`, or `multiprocessing.shared_memory`",
        )

    @property
    def alloc_size(self) -> int:
        """Bytes."""
        return self.nbytes

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        owner = _owner(self)
        _lent[byte_bounds(owner)[0]] = owner
        return {**self.__array_interface__, "version": 3, "stream": None}

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """NumPy's functions take device arrays as host arrays, and give host arrays."""
        plain = [x.view(np.ndarray) if isinstance(x, DeviceArray) else x for x in inputs]
        if "out" in options:
            options["out"] = tuple(x.view(np.ndarray) if isinstance(x, DeviceArray) else x for x in options["out"])
        return getattr(ufunc, method)(*plain, **options)

    def is_c_contiguous(self) -> bool:
        return self.flags.c_contiguous

    def is_f_contiguous(self) -> bool:
        return self.flags.f_contiguous


DeviceNDArray = DeviceArray
"""Numba's name"""


def _match(source: Array, target: Array, what: str) -> None:
    """UsageError unless one can be copied into the other: as Numba does, extents of 1 do not count."""
    if [n for n in source.shape if n != 1] != [n for n in target.shape if n != 1]:
        raise UsageError(f"{what} shape {source.shape} does not fit into one of shape {target.shape}")
    if source.dtype != target.dtype:
        raise UsageError(f"{what} {source.dtype} does not fit into one of {target.dtype}: convert it with `astype`")


def to_device(
    obj: npt.ArrayLike | SupportsDLPack, stream: object = 0, copy: bool = True, to: DeviceArray | None = None
) -> DeviceArray:
    """A copy of `obj` as a device array, or `to` overwritten with it; without `copy`, the array alone."""
    host = lent_array(obj) if is_lent(obj) else np.asarray(obj)
    if to is not None:
        if copy:
            to.copy_to_device(host)
        return to
    return np.array(host, copy=True, order="K").view(DeviceArray)


Shape = int | tuple[int, ...]


def device_array(
    shape: Shape, dtype: npt.DTypeLike = np.float64, strides: object = None, order: Any = "C", stream: object = 0
) -> DeviceArray:
    """A device array of this shape and dtype.  Its elements are 0 here and anything on a GPU: the first launch that
    gets it must not read them."""
    array: DeviceArray = pinned_array(shape, dtype, strides, order).view(DeviceArray)
    array.blank = True
    return array


def device_array_like(ary: Array, stream: object = 0) -> DeviceArray:
    """A device array of the shape and dtype of `ary`."""
    array: DeviceArray = pinned_array_like(ary).view(DeviceArray)
    array.blank = True
    return array


def pinned_array(shape: Shape, dtype: npt.DTypeLike = np.float64, strides: object = None, order: Any = "C") -> Array:
    """A host array of this shape and dtype."""
    if strides is not None:
        raise UsageError("`strides` is not supported: give `order`, or take a view of a larger array")
    return np.zeros(shape, np.dtype(dtype), order)


def pinned_array_like(ary: Array) -> Array:
    """A host array of the shape and dtype of `ary`."""
    return np.zeros_like(ary, subok=False)


def mapped_array(
    shape: Shape, dtype: npt.DTypeLike = np.float64, strides: object = None, order: Any = "C", stream: object = 0,
    portable: bool = False, wc: bool = False,
) -> DeviceArray:  # fmt: skip
    """An array that host and kernels share, as all are here."""
    return pinned_array(shape, dtype, strides, order).view(DeviceArray)


def mapped_array_like(ary: Array, stream: object = 0, portable: bool = False, wc: bool = False) -> DeviceArray:
    """`mapped_array` of the shape and dtype of `ary`."""
    return pinned_array_like(ary).view(DeviceArray)


def managed_array(
    shape: Shape, dtype: npt.DTypeLike = np.float64, strides: object = None, order: Any = "C",
    stream: object = 0, attach_global: bool = True,
) -> DeviceArray:  # fmt: skip
    """`mapped_array`: all memory is managed here."""
    return mapped_array(shape, dtype, strides, order)


@contextlib.contextmanager
def mapped(*arrays: Array, stream: object = 0) -> Iterator[DeviceArray | list[DeviceArray]]:
    """Host arrays as device arrays, without a copy."""
    views: list[DeviceArray] = [array.view(DeviceArray) for array in arrays]
    yield views[0] if len(views) == 1 else views


def is_cuda_array(obj: object) -> bool:
    """Whether `obj` has the CUDA array interface."""
    return hasattr(obj, "__cuda_array_interface__")


def is_foreign(obj: object) -> bool:
    """Whether `obj` has the CUDA array interface and none of NumPy's."""
    return not hasattr(obj, "__array_interface__") and is_cuda_array(obj)


def is_lent(obj: object) -> bool:
    """Whether `obj` is an array of another library, which speaks DLPack and none of NumPy's or CUDA's interfaces."""
    return hasattr(obj, "__dlpack__") and not hasattr(obj, "__array_interface__") and not is_cuda_array(obj)


def lent_array(obj: Any) -> Array:
    """The array of `obj`, of another library, by DLPack: the same memory, without a copy.

    UsageError for memory of a device, and for what its library does not lend.  Its elements are written to unless the
    library says that they are not to be, which older ones cannot (DLPack 1.0, `DLPACK_FLAG_BITMASK_READ_ONLY`).
    """
    kind = type(obj).__name__
    try:
        array = np.from_dlpack(obj)
        capsule = repr(_capsule(obj))
    except (BufferError, RuntimeError, ValueError, TypeError) as error:
        raise UsageError(
            f"a {kind} does not lend its elements: {error}; wsemu runs on the CPU: pass an array of the host that "
            "needs no gradient, or a NumPy array"
        ) from error
    if array.flags.writeable or "versioned" in capsule:
        return array
    interface = {**array.__array_interface__, "data": (array.__array_interface__["data"][0], False)}
    return np.asarray(_Part(interface, array))


def _capsule(obj: Any) -> object:
    try:
        return obj.__dlpack__(max_version=(1, 0))
    except TypeError:  # of a library that came before versions
        return obj.__dlpack__()


def record_array(record: np.void) -> Array:
    """A record as an array of no dimensions: of the record's own memory, which launches write to."""
    return np.asarray(record)


def is_cuda_ndarray(obj: object) -> bool:
    """Whether `obj` is a device array."""
    return isinstance(obj, DeviceArray)


_lent: weakref.WeakValueDictionary[int, Array] = weakref.WeakValueDictionary()
"""address -> the memory of a device array whose interface somebody has asked for"""


def _owner(array: Array) -> Array:
    """The array that an array is a view of."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


class _Part:
    """Memory of an array, described by an interface."""

    def __init__(self, interface: dict[str, Any], owner: Array) -> None:
        self.__array_interface__ = interface
        self.owner = owner


def as_cuda_array(obj: Any, sync: bool = True) -> DeviceArray:
    """`obj`, an array or something with the CUDA array interface or DLPack, as a device array, without a copy.

    UsageError for anything else, and for memory that no device array of this process has: it may be a GPU's.
    """
    if isinstance(obj, DeviceArray):
        return obj
    if is_foreign(obj):
        return from_cuda_array_interface(obj.__cuda_array_interface__, obj)
    array = lent_array(obj) if is_lent(obj) else np.asarray(obj)
    if not isinstance(obj, np.ndarray) and array.dtype.kind in "OSU":
        kind = type(obj).__name__
        raise UsageError(f"as_cuda_array: a {kind} has no CUDA array interface: give an array of numbers")
    device: DeviceArray = array.view(DeviceArray)
    return device


def from_cuda_array_interface(desc: dict[str, Any], owner: object = None, sync: bool = True) -> DeviceArray:
    """The device array that `desc`, a CUDA array interface, describes; errors as of `as_cuda_array`."""
    whose = f"of a {type(owner).__name__} " * (owner is not None)
    if desc.get("mask") is not None:
        raise UsageError(f"the CUDA array interface {whose}has a mask: give an array without one")
    fields: dict[str, Any] = {
        name: desc[name] for name in ("shape", "typestr", "data", "strides", "descr") if name in desc
    }
    low, high = _extent(fields)
    for memory in list(_lent.values()):
        first, end = byte_bounds(memory)
        if first <= low and high <= end:
            made: DeviceArray = np.asarray(_Part({**fields, "version": 3}, memory)).view(DeviceArray)
            return made
    if low == high:
        return device_array(desc["shape"], desc["typestr"])
    raise UsageError(
        f"the CUDA array interface {whose}names memory that no device array here has, maybe a GPU's: "
        "wsemu runs on the CPU; pass a NumPy array, or the interface of what `cuda.to_device` returned"
    )


def _extent(fields: dict[str, Any]) -> tuple[int, int]:
    """The addresses of the first byte of an array and of the one after its last."""
    dtype, first = np.dtype(fields["typestr"]), int(fields["data"][0])
    if 0 in fields["shape"]:
        return first, first
    if fields.get("strides") is None:
        return first, first + math.prod(fields["shape"]) * dtype.itemsize
    steps = [(extent - 1) * stride for extent, stride in zip(fields["shape"], fields["strides"], strict=True)]
    return first + sum(s for s in steps if s < 0), first + sum(s for s in steps if s > 0) + dtype.itemsize


def auto_device(
    obj: Any, stream: object = 0, copy: bool = True, user_explicit: bool = False
) -> tuple[DeviceArray, bool]:
    """`obj` as a device array, and whether it was made for that: with `copy`, of a copy of its elements."""
    if isinstance(obj, DeviceArray) or is_foreign(obj):
        return as_cuda_array(obj), False
    array = np.asarray(obj)
    if copy and not (array.flags.c_contiguous or array.flags.f_contiguous or 0 in array.strides):
        raise UsageError(
            f"an array of strides {array.strides} has gaps: give a contiguous copy, `np.ascontiguousarray`"
        )
    return (to_device(array) if copy else device_array_like(array)), True


def In(array: Array) -> Array:
    """An argument that a launch only reads: what it writes there is lost."""
    return np.array(array)


def Out(array: Array) -> Array:
    """An argument that a launch only writes."""
    return array


InOut = Out


def wrap_arg(value: Any, default: Any = InOut) -> Any:
    """`value` as `default` passes it."""
    return default(value) if isinstance(value, np.ndarray) else value
