"""Tensor maps for Numba-CUDA: a kernel receives the address of 128 bytes in global memory.

The driver encodes the map if its Python bindings are installed; otherwise `model/tensor_map.py` does, with the same
bytes as on an H100.  Only `numba_cuda` imports this module, and only if Numba-CUDA is installed.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types
from numba.cuda.extending import models, register_model, typeof_impl

from wsemu.model.errors import UsageError
from wsemu.model.tensor_map import MAP_BYTES, TYPE_NAMES, MapFields, TensorMap, encode

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt


class TensorMapType(types.Type):  # type: ignore[misc]
    """The type of a tensor map with this number of dimensions."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        super().__init__(name=f"TensorMap({rank}d)")


@register_model(TensorMapType)
class Model(models.PrimitiveModel):  # type: ignore[misc]
    """An address."""

    def __init__(self, manager: Any, type_: Any) -> None:
        super().__init__(manager, type_, manager.lookup(types.uint64).get_value_type())


@typeof_impl.register(TensorMap)
def infer_type(value: TensorMap, context: Any) -> TensorMapType:
    return TensorMapType(value.fields.rank)


class _OnDevice:
    """The memory of a map's array on the GPU, for one launch; it is called when the launch has ended."""

    def __init__(self, array: npt.NDArray[Any]) -> None:
        from numba import cuda

        self.low, high = np.lib.array_utils.byte_bounds(array)
        held = (ctypes.c_uint8 * (high - self.low)).from_address(self.low)
        self._host = np.ctypeslib.as_array(held)
        self._array = array
        self._device = cuda.to_device(self._host)
        self.maps: list[Any] = []
        """tensor maps, kept while the launch runs"""

    def address(self, array: npt.NDArray[Any]) -> int:
        """Return the address of an array's first element in this memory."""
        first: int = array.__array_interface__["data"][0] - self.low
        return first + int(self._device.device_ctypes_pointer.value)

    def holds(self, array: npt.NDArray[Any]) -> bool:
        low, high = np.lib.array_utils.byte_bounds(array)
        return bool(self.low <= low and high <= self.low + len(self._host))

    def __call__(self) -> None:
        if self._array.flags.writeable:
            self._device.copy_to_host(self._host)


def lower_tensor_map_argument(value: TensorMap, retrieve: list[Any]) -> tuple[Any, int]:
    """Return the type and value that Numba-CUDA passes for a map; functions in `retrieve` are called after the
    launch."""
    from numba import cuda

    memory = next((m for m in retrieve if isinstance(m, _OnDevice) and m.holds(value.array)), None)
    if memory is None:
        memory = _OnDevice(value.array)
        retrieve.append(memory)
    fields = value.fields
    address = fields.address + memory.address(value.array)
    data = driver_bytes(fields._replace(address=address)) or encode(fields._replace(address=address))
    map_ = cuda.to_device(np.frombuffer(data, np.uint8))
    memory.maps.append(map_)
    return types.uint64, int(map_.device_ctypes_pointer.value)


def driver_bytes(fields: MapFields) -> bytes:
    """Return the bytes that `cuTensorMapEncodeTiled` writes.  Return None without the driver's Python bindings, for a
    map of im2col mode, and for a swizzle that moves 32 bytes at once."""
    if fields.im2col or fields.wide:
        return b""
    try:
        from cuda.bindings import driver
    except ImportError:
        return b""
    count = fields.rank
    error, made = driver.cuTensorMapEncodeTiled(
        driver.CUtensorMapDataType(TYPE_NAMES.index(fields.type)), count, fields.address,
        [driver.cuuint64_t(n) for n in fields.extents], [driver.cuuint64_t(n) for n in fields.strides],
        [driver.cuuint32_t(n) for n in fields.box], [driver.cuuint32_t(n) for n in fields.steps],
        driver.CUtensorMapInterleave(fields.interleave), driver.CUtensorMapSwizzle(fields.swizzle),
        driver.CUtensorMapL2promotion(fields.promotion), driver.CUtensorMapFloatOOBfill(int(fields.nan)),
    )  # fmt: skip
    if int(error):
        raise UsageError(f"the driver refuses the tensor map {fields}: {error}")
    return ctypes.string_at(made.getPtr(), MAP_BYTES)


def apart(arguments: Sequence[Any]) -> None:
    """Raise UsageError if the array of a map is also passed as an argument: each would get its own memory on the
    GPU."""
    maps = [value for value in arguments if isinstance(value, TensorMap)]
    for array in arguments:
        if isinstance(array, np.ndarray) and any(np.may_share_memory(array, map_.array) for map_ in maps):
            raise UsageError("an array and a tensor map of it are passed to one launch on the GPU: pass one of them")
