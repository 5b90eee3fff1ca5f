"""Numba-CUDA's host functions on a machine without a GPU: device arrays are NumPy arrays, streams run in order.

They are here so that ordinary scripts run unchanged; nothing is copied anywhere but within this process's memory.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from wsemu.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

Array = npt.NDArray[Any]


class DeviceArray(np.ndarray[Any, np.dtype[Any]]):
    """An array as `to_device` and `device_array` return it: a NumPy array with Numba's methods for copying."""

    def copy_to_host(self, ary: Array | None = None, stream: object = 0) -> Array:
        """A copy as a NumPy array, or into `ary`, of the same shape."""
        if ary is None:
            return np.array(self, copy=True, subok=False)
        if ary.shape != self.shape:
            raise UsageError(f"copy_to_host: an array of shape {self.shape} does not fit into one of shape {ary.shape}")
        ary[...] = self
        return ary

    def copy_to_device(self, ary: Array, stream: object = 0) -> None:
        """Overwrite the elements with those of `ary`, of the same shape."""
        if np.shape(ary) != self.shape:
            raise UsageError(
                f"copy_to_device: an array of shape {np.shape(ary)} does not fit into one of shape {self.shape}"
            )
        self[...] = ary

    def is_c_contiguous(self) -> bool:
        return self.flags.c_contiguous

    def is_f_contiguous(self) -> bool:
        return self.flags.f_contiguous


def to_device(obj: npt.ArrayLike, stream: object = 0, copy: bool = True, to: DeviceArray | None = None) -> DeviceArray:
    """A copy of `obj` as a device array, or `to` overwritten with it."""
    host = np.asarray(obj)
    if to is not None:
        to.copy_to_device(host)
        return to
    return np.array(host, copy=True, order="K").view(DeviceArray)


def device_array(
    shape: int | tuple[int, ...],
    dtype: npt.DTypeLike = np.float64,
    strides: object = None,
    order: Any = "C",
    stream: object = 0,
) -> DeviceArray:
    """A device array of this shape and dtype; its elements are 0 here and anything on a GPU."""
    if strides is not None:
        raise UsageError("device_array: `strides` is not supported: give `order`, or take a view of a larger array")
    return np.zeros(shape, dtype, order).view(DeviceArray)


def device_array_like(ary: Array, stream: object = 0) -> DeviceArray:
    """A device array of the shape and dtype of `ary`."""
    return np.zeros_like(ary, subok=False).view(DeviceArray)


pinned_array = mapped_array = device_array
pinned_array_like = mapped_array_like = device_array_like


def managed_array(
    shape: int | tuple[int, ...], dtype: npt.DTypeLike = np.float64, strides: object = None, order: Any = "C",
    stream: object = 0, attach_global: bool = True,
) -> DeviceArray:  # fmt: skip
    """`device_array`: all memory is managed here."""
    return device_array(shape, dtype, strides, order, stream)


def is_cuda_array(obj: object) -> bool:
    """Whether `obj` lies where kernels can reach it."""
    return isinstance(obj, DeviceArray)


def as_cuda_array(obj: Any, sync: bool = True) -> DeviceArray:
    """`obj` as a device array, without a copy."""
    array: DeviceArray = np.asarray(obj).view(DeviceArray)
    return array


class Stream:
    """Work in order: launches are over when they return."""

    handle = 0

    def synchronize(self) -> None:
        """Nothing to wait for."""

    @contextlib.contextmanager
    def auto_synchronize(self) -> Iterator[Stream]:
        yield self

    def __bool__(self) -> bool:
        return True


class Event:
    """A moment, taken by `record`."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def record(self, stream: object = 0) -> None:
        self.seconds = time.perf_counter()

    def synchronize(self) -> None:
        """Nothing to wait for."""

    wait = query = record

    def elapsed_time(self, later: Event) -> float:
        """Milliseconds of this machine between two events: the emulator's time, not a GPU's."""
        return 1000 * (later.seconds - self.seconds)


def stream() -> Stream:
    return Stream()


default_stream = stream


def event(timing: bool = True) -> Event:
    return Event()


def event_elapsed_time(start: Event, end: Event) -> float:
    """Milliseconds between two events."""
    return start.elapsed_time(end)


def synchronize() -> None:
    """Nothing to wait for: a launch is over when it returns."""


close = profile_start = profile_stop = synchronize


class Device:
    """The emulated GPU, as far as scripts ask for it."""

    id = 0
    name = b"wsemu"
    WARP_SIZE = 32
    MAX_THREADS_PER_BLOCK = 1024
    MAX_SHARED_MEMORY_PER_BLOCK = 48 * 1024
    MULTIPROCESSOR_COUNT = 132

    @property
    def compute_capability(self) -> tuple[int, int]:
        """Of the `arch` in the settings: (9, 0) for sm_90."""
        from wsemu import settings

        digits = settings.current().arch.removeprefix("sm_").rstrip("af")
        return int(digits[:-1]), int(digits[-1])

    def reset(self) -> None:
        """Nothing is held."""

    synchronize = reset

    def get_memory_info(self) -> tuple[int, int]:
        """Bytes free and bytes in total, of an H200."""
        return 141 * 10**9, 141 * 10**9


_DEVICE = Device()
gpus = (_DEVICE,)


def get_current_device() -> Device:
    return _DEVICE


current_context = get_current_device


def select_device(device_id: int) -> Device:
    """The one device there is."""
    if device_id != 0:
        raise UsageError(f"device {device_id} does not exist: the emulator is device 0")
    return _DEVICE


def is_available() -> bool:
    """True: kernels run, in the emulator."""
    return True


def detect() -> bool:
    """Say which device there is."""
    print("Found 1 CUDA devices\nid 0: wsemu, an emulator")
    return True


@contextlib.contextmanager
def _nothing(*_: object) -> Iterator[None]:
    yield


pinned = profiling = defer_cleanup = _nothing
