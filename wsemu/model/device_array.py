"""Device arrays on a machine without a GPU: NumPy arrays with Numba's methods.

All copies stay within this process's memory.  A call that fails on a GPU because of the shape or dtype of its arrays
also fails here.
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


class Observer(Protocol):
    """An object that is notified of each copy."""

    def enter_copy(self, source: Array | None, target: Array, stream: object, *, fresh: bool = False) -> None:
        """Record a copy, or a fill without a source, in a stream.  `fresh` is true if the target was allocated for the
        result."""

    def undefined_copy(self, source: Array, target: Array, starts: Array, ends: Array) -> None:
        """Record uninitialized bytes of a copy to the host, as offsets in the target."""

    def declare(self, array: Array, kind: Any) -> None:
        """Record the kind of memory of an array."""

    def unregister(self, array: Array, kind: str) -> None:
        """Record the end of a block in which host memory was `mapped` or `pinned`."""


observers: list[Observer] = []
"""the recorder of the program's streams, or nothing"""


class Written:
    """The set of bytes of an array's memory that hold a value.  All views of the memory share it."""

    __slots__ = ("__weakref__", "launched", "marks", "nothing")

    def __init__(self) -> None:
        self.nothing = False
        """True if none of the bytes holds a value"""
        self.marks: npt.NDArray[np.uint8] | None = None
        """a 1 for each byte that is initialized; None if all bytes are, or if none is"""
        self.launched = False
        """True after the first launch with the memory"""

    @property
    def partial(self) -> bool:
        """True if some bytes hold no value."""
        return self.nothing or self.marks is not None

    def fill(self) -> None:
        """Record that all bytes hold a value."""
        self.nothing, self.marks = False, None

    def enter(self, marks: npt.NDArray[np.uint8], at: int, size: int) -> None:
        """Record which bytes hold a value in a part that begins at an offset of memory of this size."""
        if not self.partial:
            return
        if self.marks is None:
            self.marks = np.zeros(size, np.uint8)
        self.nothing = False
        self.marks[at : at + len(marks)] |= marks
        if self.marks.all():
            self.marks = None

    def part(self, at: int, end: int) -> npt.NDArray[np.uint8]:
        """Return a 1 for each byte of a part that holds a value.  `partial` must be true."""
        return np.zeros(end - at, np.uint8) if self.marks is None else self.marks[at:end]


class DeviceArray(np.ndarray[Any, np.dtype[Any]]):
    """An array as `to_device` and `device_array` return it: a NumPy array with Numba's methods for copying."""

    stream: object = 0
    written: Written
    """the initialized bytes; all views of the memory share this object"""

    if TYPE_CHECKING:  # NumPy then returns plain arrays from these

        def reshape(self, *shape: Any, order: Any = "C", copy: bool | None = None) -> DeviceArray:
            """Return the elements in another shape."""

        def ravel(self, order: Any = "C") -> DeviceArray:
            """Return the elements in one dimension."""

    def __array_finalize__(self, parent: object) -> None:
        shares = isinstance(parent, DeviceArray) and np.may_share_memory(self, parent)
        self.written = parent.written if shares else Written()  # type: ignore[attr-defined]
        self.stream = parent.stream if shares else 0  # type: ignore[attr-defined]

    @property
    def blank(self) -> bool:
        """Return whether some bytes of its memory are uninitialized: a launch that reads them gets arbitrary values.
        If the host stores or copies to some elements, all of the memory counts as initialized."""
        return self.written.partial

    @blank.setter
    def blank(self, value: bool) -> None:
        self.written.fill()
        self.written.nothing = value

    def __setitem__(self, key: Any, value: Any) -> None:
        self.written.fill()
        super().__setitem__(key, value)

    def copy_to_host(self, ary: Array | None = None, stream: object = 0) -> Array:
        """Return a copy as a NumPy array, or copy into `ary` of the same shape and dtype.  With a stream, the copy may
        still be in progress."""
        if ary is None:
            target = np.array(self, copy=True, subok=False)
        else:
            target = ary
            _match(self, ary, "copy_to_host: an array of")
            ary[...] = self.reshape(ary.shape)
        for observer in observers:
            observer.enter_copy(self, target, stream or self.stream, fresh=ary is None)
            if self.written.partial:
                self._note_undefined(target, observer)
        return target

    def _note_undefined(self, target: Array, observer: Observer) -> None:
        """Report the uninitialized bytes that a copy reads."""
        if not (self.flags.c_contiguous or self.flags.f_contiguous) or target.strides != self.strides:
            return
        edges = np.diff(1 - self._marks().astype(np.int8), prepend=0, append=0)
        starts = np.flatnonzero(edges == 1)
        if starts.size:
            observer.undefined_copy(self, target, starts, np.flatnonzero(edges == -1))

    def _offsets(self) -> tuple[int, int, int]:
        """Return the offsets at which the array's bytes begin and end in its memory, and the size of the memory in
        bytes."""
        low, high = byte_bounds(self)
        first, end = byte_bounds(memory_owner(self))
        return low - first, high - first, end - first

    def _marks(self) -> npt.NDArray[np.uint8]:
        """Return a 1 for each byte that holds a value."""
        low, high, _ = self._offsets()
        return self.written.part(low, high)

    def copy_to_device(self, ary: Array, stream: object = 0) -> None:
        """Overwrite the elements with the elements of `ary`, which has the same shape and dtype."""
        source = np.asarray(ary)
        _match(source, self, "copy_to_device: an array of")
        if (
            isinstance(ary, DeviceArray)
            and ary.written.partial
            and self.written.partial
            and bool(ary.nbytes == self.nbytes)
        ):
            low, _, size = self._offsets()
            self.written.enter(ary._marks(), low, size)
        else:
            self.written.fill()
        super().__setitem__(..., source.reshape(self.shape))
        for observer in observers:
            observer.enter_copy(source if type(ary) is not DeviceArray else ary, self, stream or self.stream)

    def split(self, section: int, stream: object = 0) -> Iterator[DeviceArray]:
        """Yield parts of `section` elements of a 1-D array.  The last part may be smaller."""
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
        """Return the array with another default stream for its copies."""
        made = self.view(DeviceArray)
        made.stream = stream
        return made

    def get_ipc_handle(self) -> NoReturn:
        """Raise UnsupportedError: other processes cannot access the memory of the emulated device."""
        raise UnsupportedError(
            "an IPC handle of a device array is not modelled",
            remedy="hand its copy to the other process: `array.copy_to_host()`, or `multiprocessing.shared_memory`",
        )

    @property
    def alloc_size(self) -> int:
        """Return the size in bytes."""
        return self.nbytes

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        owner = memory_owner(self)
        _lent[byte_bounds(owner)[0]], _lent_written[byte_bounds(owner)[0]] = owner, self.written
        return {**self.__array_interface__, "version": 3, "stream": None}

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Let NumPy's functions accept device arrays like host arrays, and return host arrays."""
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
    """Raise UsageError unless one array can be copied into the other.  As in Numba, dimensions of extent 1 do not
    count."""
    if [n for n in source.shape if n != 1] != [n for n in target.shape if n != 1]:
        raise UsageError(f"{what} shape {source.shape} does not fit into one of shape {target.shape}")
    if source.dtype != target.dtype:
        raise UsageError(f"{what} {source.dtype} does not fit into one of {target.dtype}: convert it with `astype`")


def to_device(
    obj: npt.ArrayLike | SupportsDLPack, stream: object = 0, copy: bool = True, to: DeviceArray | None = None
) -> DeviceArray:
    """Return a device array with a copy of `obj`, or `to` overwritten with `obj`.  If `copy` is false, only allocate
    the array."""
    host = lent_array(obj) if is_lent(obj) else np.asarray(obj)
    if to is not None:
        if copy:
            to.copy_to_device(host, stream)
        return to
    made: DeviceArray = np.array(host, copy=True, order="K", subok=False).view(DeviceArray)
    made.stream = stream
    for observer in observers:
        observer.declare(made, "device")
        if copy:
            observer.enter_copy(host, made, stream)
    return made


Shape = int | tuple[int, ...]


def device_array(
    shape: Shape, dtype: npt.DTypeLike = np.float64, strides: object = None, order: Any = "C", stream: object = 0
) -> DeviceArray:
    """Return a device array of this shape and dtype.  Its elements are 0 here and arbitrary on a GPU, so a launch must
    not read them before writing them."""
    array: DeviceArray = _declare(_zeros(shape, dtype, strides, order), "device").view(DeviceArray)
    array.blank, array.stream = True, stream
    return array


def device_array_like(ary: Array, stream: object = 0) -> DeviceArray:
    """Return a device array with the shape and dtype of `ary`."""
    array: DeviceArray = _declare(np.zeros_like(ary, subok=False), "device").view(DeviceArray)
    array.blank, array.stream = True, stream
    return array


def _zeros(shape: Shape, dtype: npt.DTypeLike, strides: object, order: Any) -> Array:
    if strides is not None:
        raise UsageError("`strides` is not supported: give `order`, or take a view of a larger array")
    return np.zeros(shape, np.dtype(dtype), order)


def _declare(array: Array, kind: str) -> Array:
    """Return an array whose memory is of this kind."""
    for observer in observers:
        observer.declare(array, kind)
    return array


def pinned_array(shape: Shape, dtype: npt.DTypeLike = np.float64, strides: object = None, order: Any = "C") -> Array:
    """Return a host array of this shape and dtype."""
    return _declare(_zeros(shape, dtype, strides, order), "pinned")


def pinned_array_like(ary: Array) -> Array:
    """Return a host array with the shape and dtype of `ary`."""
    return _declare(np.zeros_like(ary, subok=False), "pinned")


def mapped_array(
    shape: Shape, dtype: npt.DTypeLike = np.float64, strides: object = None, order: Any = "C", stream: object = 0,
    portable: bool = False, wc: bool = False,
) -> DeviceArray:  # fmt: skip
    """Return an array that host and kernels share, as all arrays here are."""
    made: DeviceArray = _declare(_zeros(shape, dtype, strides, order), "mapped").view(DeviceArray)
    return made


def mapped_array_like(ary: Array, stream: object = 0, portable: bool = False, wc: bool = False) -> DeviceArray:
    """Return a `mapped_array` with the shape and dtype of `ary`."""
    made: DeviceArray = _declare(np.zeros_like(ary, subok=False), "mapped").view(DeviceArray)
    return made


def managed_array(
    shape: Shape, dtype: npt.DTypeLike = np.float64, strides: object = None, order: Any = "C",
    stream: object = 0, attach_global: bool = True,
) -> DeviceArray:  # fmt: skip
    """Return an array in managed memory, which host and kernels share."""
    made: DeviceArray = _declare(_zeros(shape, dtype, strides, order), "managed").view(DeviceArray)
    return made


@contextlib.contextmanager
def mapped(*arrays: Array, stream: object = 0) -> Iterator[DeviceArray | list[DeviceArray]]:
    """Return host arrays as device arrays, without a copy.  The end of the block unregisters their memory
    immediately."""
    views: list[DeviceArray] = [_declare(array, "mapped").view(DeviceArray) for array in arrays]
    yield views[0] if len(views) == 1 else views
    for observer in observers:
        for array in arrays:
            observer.unregister(array, "mapped")


@contextlib.contextmanager
def pinning(*arrays: Array) -> Iterator[None]:
    """Return host arrays in pinned memory.  The end of the block unregisters it immediately."""
    for array in arrays:
        _declare(array, "pinned")
    yield
    for observer in observers:
        for array in arrays:
            observer.unregister(array, "pinned")


def is_cuda_array(obj: object) -> bool:
    """Return whether `obj` has the CUDA array interface."""
    return hasattr(obj, "__cuda_array_interface__")


def is_foreign(obj: object) -> bool:
    """Return whether `obj` has the CUDA array interface and none of NumPy's."""
    return not hasattr(obj, "__array_interface__") and is_cuda_array(obj)


def is_lent(obj: object) -> bool:
    """Return whether `obj` is an array of another library that supports DLPack, but neither NumPy's nor CUDA's
    interface."""
    return hasattr(obj, "__dlpack__") and not hasattr(obj, "__array_interface__") and not is_cuda_array(obj)


def lent_array(obj: Any) -> Array:
    """Return an array of another library by DLPack, without a copy.

    Raise UsageError for memory of a device, and for arrays that the library cannot export.  The array is writable
    unless its library declares it as read-only, which libraries older than DLPack 1.0 cannot do
    (`DLPACK_FLAG_BITMASK_READ_ONLY`).
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
    except TypeError:  # a library that predates versions
        return obj.__dlpack__()


def record_array(record: np.void) -> Array:
    """Return a record as an array of no dimensions that shares the record's memory, so that launches can write to
    it."""
    return np.asarray(record)


def is_cuda_ndarray(obj: object) -> bool:
    """Return whether `obj` is a device array."""
    return isinstance(obj, DeviceArray)


_lent: weakref.WeakValueDictionary[int, Array] = weakref.WeakValueDictionary()
"""memory of device arrays whose interface was requested, by address"""
_lent_written: weakref.WeakValueDictionary[int, Written] = weakref.WeakValueDictionary()
"""their bytes that hold a value, by address"""


def memory_owner(array: Array) -> Array:
    """Return the array that an array is a view of."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def device_offset(array: Array, part: Array) -> tuple[int, int]:
    """Return the offset of a part of an array's memory, and the size of the memory, in bytes."""
    first, end = byte_bounds(memory_owner(array))
    return int(part.__array_interface__["data"][0]) - first, end - first


class _Part:
    """Memory of an array, described by an interface."""

    def __init__(self, interface: dict[str, Any], owner: Array) -> None:
        self.__array_interface__ = interface
        self.owner = owner


def as_cuda_array(obj: Any, sync: bool = True) -> DeviceArray:
    """Return `obj`, an array or an object with the CUDA array interface or DLPack, as a device array, without a copy.

    Raise UsageError for anything else, and for memory that no device array of this process owns: it may belong to a
    GPU.
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
    """Return the device array that `desc`, a CUDA array interface, describes.  Errors are those of `as_cuda_array`."""
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
            written = _lent_written.get(first)
            if written is not None:
                written.fill()  # without an owning array, the position of a part in the memory is unknown
            return made
    if low == high:
        return device_array(desc["shape"], desc["typestr"])
    raise UsageError(
        f"the CUDA array interface {whose}names memory that no device array here has, maybe a GPU's: "
        "wsemu runs on the CPU; pass a NumPy array, or the interface of what `cuda.to_device` returned"
    )


def _extent(fields: dict[str, Any]) -> tuple[int, int]:
    """Return the addresses of the first byte of an array, and of the byte after its last."""
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
    """Return `obj` as a device array, and whether that array is new.  With `copy`, a new array contains a copy of the
    elements."""
    if isinstance(obj, DeviceArray) or is_foreign(obj):
        return as_cuda_array(obj), False
    array = np.asarray(obj)
    if copy and not (array.flags.c_contiguous or array.flags.f_contiguous or 0 in array.strides):
        raise UsageError(
            f"an array of strides {array.strides} has gaps: give a contiguous copy, `np.ascontiguousarray`"
        )
    return (to_device(array) if copy else device_array_like(array)), True


def In(array: Array) -> Array:
    """An argument that a launch only reads: values that the launch stores there are lost."""
    return np.array(array)


def Out(array: Array) -> Array:
    """An argument that a launch only writes."""
    return array


InOut = Out


def wrap_arg(value: Any, default: Any = InOut) -> Any:
    """Return `value` wrapped as `default` wraps it."""
    return default(value) if isinstance(value, np.ndarray) else value
