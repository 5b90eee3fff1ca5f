"""Device arrays on a machine without a GPU: NumPy arrays with Numba's methods.

Nothing is copied anywhere but within this process's memory; what would fail on a GPU for the shape or dtype of its
arrays fails here too.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from wsemu.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

Array = npt.NDArray[Any]


class DeviceArray(np.ndarray[Any, np.dtype[Any]]):
    """An array as `to_device` and `device_array` return it: a NumPy array with Numba's methods for copying."""

    stream: object = 0
    blank: bool = False
    """whether nothing has written to it: then a launch that reads it first reads what happens to be there"""

    def __array_finalize__(self, parent: object) -> None:
        if isinstance(parent, DeviceArray):
            parent.blank = False  # the host may write through the view

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

    @property
    def alloc_size(self) -> int:
        """Bytes."""
        return self.nbytes

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
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


def to_device(obj: npt.ArrayLike, stream: object = 0, copy: bool = True, to: DeviceArray | None = None) -> DeviceArray:
    """A copy of `obj` as a device array, or `to` overwritten with it; without `copy`, the array alone."""
    host = np.asarray(obj)
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


def is_cuda_ndarray(obj: object) -> bool:
    """Whether `obj` is a device array."""
    return isinstance(obj, DeviceArray)


def as_cuda_array(obj: Any, sync: bool = True) -> DeviceArray:
    """`obj` as a device array, without a copy."""
    array: DeviceArray = np.asarray(obj).view(DeviceArray)
    return array


from_cuda_array_interface = as_cuda_array


def In(array: Array) -> Array:
    """An argument that a launch only reads: what it writes there is lost."""
    return np.array(array)


def Out(array: Array) -> Array:
    """An argument that a launch only writes."""
    return array


InOut = Out
