"""Read arrays from `.npy` files as data: never pickled, and with exactly the size that their headers declare."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib import format as npy

from wsemu.model.errors import UsageError
from wsemu.model.own_files import open_regular

if TYPE_CHECKING:
    import os
    from typing import BinaryIO

    import numpy.typing as npt

_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
_MAX_HEADER_BYTES = 1 << 16


def read_array(path: str | os.PathLike[str], limit: int) -> npt.NDArray[Any]:
    """Read the array of a `.npy` file of at most `limit` bytes.  Raise UsageError if the file cannot be read, or if
    `numpy.save` does not write such files with `allow_pickle=False`."""
    with open_regular(path, limit + _MAX_HEADER_BYTES) as stream:
        try:
            return _read(stream)
        except (Exception, RecursionError):  # NumPy reports a wrong header in many ways
            raise UsageError(f"`{path}` is no array of numbers as `numpy.save` writes it") from None


def _read(stream: BinaryIO) -> npt.NDArray[Any]:
    version = npy.read_magic(stream)
    shape, is_fortran, dtype = _HEADERS[version](stream)
    start, end = stream.tell(), stream.seek(0, 2)
    if dtype.hasobject or not dtype.itemsize or math.prod(shape) * dtype.itemsize != end - start:
        raise ValueError
    stream.seek(start)
    flat = np.fromfile(stream, dtype, math.prod(shape))
    return flat.reshape(shape[::-1]).T if is_fortran else flat.reshape(shape)
