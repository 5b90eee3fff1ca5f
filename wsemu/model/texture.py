"""Textures and surfaces: the meaning of a handle, and the description at its address.

On a GPU, a texture object is a number that the driver assigns.  Here it is the address of `BYTES` bytes in read-only
memory.  They contain the address, number and format of the texels and the mode of reading them, in the words that
`Word` names.  Dimension 0 is x, as in CUDA; a `Texture` has the axes of an array, outermost first.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt


class Word(IntEnum):
    """The 32-bit words of the description."""

    ADDRESS = 0
    """address of the first texel, 64 bits"""
    KIND = 2
    SHAPE = 3
    """number of the geometry in `GEOMETRIES`"""
    WIDTH = 4
    HEIGHT = 5
    DEPTH = 6
    LAYERS = 7
    ROW = 8
    """bytes from one row to the next, 64 bits"""
    SLICE = 10
    """bytes from one slice or layer to the next, 64 bits"""
    BITS = 12
    """bits of a channel of a texel"""
    TEXEL = 13
    """size of a texel in bytes"""
    READ = 14
    """conversion of a channel: number in `READS`"""
    LINEAR = 15
    MODE = 16
    """numbers in `MODES`, one per dimension"""
    NORMALIZED = 19
    BORDER = 20
    """border color: four channels, as bits"""


BYTES = 96
INTEGERS, FLOATS, SURFACE = 0x7E47_0001, 0x7E47_0002, 0x7E47_0003
"""values of the word KIND: a texture whose fetches return integers, a texture whose fetches return floats, a surface"""
GEOMETRIES = ("1d", "2d", "3d", "a1d", "a2d")
"""geometries, as PTX names them; `a` marks layers"""
MODES = ("clamp", "border", "wrap", "mirror")
CLAMP, BORDER, WRAP, MIRROR = range(4)
READS = ("bits", "signed", "unorm", "snorm", "half")
"""conversions of a texel: none, extended by zeros; sign-extended; a fraction of the largest value; a signed fraction of
it; f16"""
BITS, SIGNED, UNORM, SNORM, HALF = range(5)
_TYPES: dict[str, tuple[int, int | None]] = {
    "uint8": (BITS, UNORM), "uint16": (BITS, UNORM), "uint32": (BITS, None), "int8": (SIGNED, SNORM),
    "int16": (SIGNED, SNORM), "int32": (BITS, None), "float16": (HALF, HALF), "float32": (BITS, BITS),
}  # fmt: skip
"""for each dtype, the conversion without and with normalization to floats"""
_CHANNELS = (1, 2, 4)
_LONGEST = 1 << 28


class Surface:
    """A surface object of a NumPy array: pass it where a kernel takes a `cudaSurfaceObject_t`.

    `array` has an axis for each dimension, outermost first, so `array[y, x]`.  Before them is an axis of the layers if
    it is `layered`; after them, with `channels` of 2 or 4, one of the channels of a texel, as in `float4`.  Elements
    are integers of 8, 16 or 32 bits, float16 or float32.  Texels of a row are contiguous; rows need not be.

    A surface and a `Texture` of one array are the same memory: stores through one are visible through the other.  Raise
    UsageError for another array.  Source: CUDA C++ Programming Guide, "Texture and Surface Memory".
    """

    __slots__ = ("array", "channels", "layered")

    array: npt.NDArray[Any]

    def __init__(self, array: npt.NDArray[Any], *, layered: bool = False, channels: int = 1) -> None:
        if not isinstance(array, np.ndarray):
            raise UsageError(f"{self._what}: `array` is {array!r:.60}: give a NumPy array, or one of `cuda.to_device`")
        if np.ndim(channels) or channels not in _CHANNELS:
            raise UsageError(f"{self._what}: `channels` is {channels!r}: a texel has 1, 2 or 4")
        self.array, self.channels, self.layered = array, channels, layered
        self._admit()

    @property
    def _what(self) -> str:
        return type(self).__name__.lower()

    def _admit(self) -> None:
        """Raise UsageError for an array that cannot be a texture or surface."""
        shape = ",".join(map(str, self.array.shape))
        given = f"{self._what} of {self.array.dtype}[{shape}]"
        if self.array.dtype.name not in _TYPES:
            raise UsageError(f"{given}: elements can be {', '.join(_TYPES)}")
        if not self.array.dtype.isnative:
            native = self.array.dtype.newbyteorder("=")
            raise UsageError(f"{given}: a GPU has its bytes in the other order; pass `.astype(np.{native})`")
        if self.channels > 1 and (not self.array.ndim or self.array.shape[-1] != self.channels):
            raise UsageError(f"{given}: its last axis has no {self.channels} channels")
        most = 2 if self.layered else 3
        if not 1 <= len(self.extents) <= most:
            rest = " besides those of layers and channels" if self.layered or self.channels > 1 else ""
            raise UsageError(f"{given}: give an array of 1 to {most} axes{rest}")
        if not self.array.size or max(self.array.shape) >= _LONGEST:
            raise UsageError(f"{given}: each axis has 1 to {_LONGEST - 1:,} elements")
        size = self.array.dtype.itemsize * self.channels
        steps = self.array.strides[: self.array.ndim - (self.channels > 1)]
        beside = self.channels == 1 or self.array.strides[-1] == self.array.dtype.itemsize
        if not beside or (steps[-1] != size and self.extents[0] > 1) or min(steps) < 0:
            raise UsageError(f"{given}: the texels of a row do not lie side by side; pass a contiguous array")

    @property
    def extents(self) -> tuple[int, ...]:
        """Return the number of texels along x, y, z."""
        shape = self.array.shape[: self.array.ndim - (self.channels > 1)]
        return (shape[1:] if self.layered else shape)[::-1]

    @property
    def geometry(self) -> str:
        """The geometry, as PTX names it."""
        return f"{'a' if self.layered else ''}{len(self.extents)}d"

    @property
    def mapped(self) -> npt.NDArray[Any]:
        """Return the array, under the name that all arguments with an array use."""
        return self.array

    def held(self) -> list[Any]:
        """Return the fields of the description: the array, instead of its address, and numbers."""
        extents = (*self.extents, 1, 1)[:3]
        strides = self.array.strides[: self.array.ndim - (self.channels > 1)]
        row = strides[-2] if len(self.extents) > 1 else 0
        slice_ = strides[0] if self.layered or len(self.extents) > 2 else 0
        layers = self.array.shape[0] if self.layered else 1
        bits = 8 * self.array.dtype.itemsize
        words = (self._kind(), GEOMETRIES.index(self.geometry), *extents, layers)
        rest = (bits, self.array.dtype.itemsize * self.channels, *self._reading())
        wide = [np.uint64(row), np.uint64(slice_)]
        return [self.array, *map(np.uint32, words), *wide, *map(np.uint32, rest), *self._border()]

    def _kind(self) -> int:
        return SURFACE

    def _reading(self) -> tuple[int, ...]:
        """Return the words from READ to NORMALIZED."""
        return (BITS, 0, CLAMP, CLAMP, CLAMP, 0)

    def _border(self) -> list[np.generic]:
        return [np.uint32(0)] * 4

    def __repr__(self) -> str:
        shape = ",".join(map(str, self.array.shape))
        return f"{type(self).__name__}({self.array.dtype}[{shape}])"


class Texture(Surface):
    """A texture object of a NumPy array: pass it where a kernel takes a `cudaTextureObject_t`.

    See `Surface` for the array.  `Texture(x)` also works as a texture of linear memory, for `tex1Dfetch`.  `filter` is
    "point" or "linear".  `address` is the mode for coordinates outside: "clamp", "border", "wrap" or "mirror", one word
    for all dimensions or one each, x first.  As in CUDA, "wrap" and "mirror" act as "clamp" if coordinates are not
    `normalized`.  `read` is "element", or "normalized" for integers of 8 or 16 bits that are read as floats from 0 or
    -1 to 1.  `border` has the channels of texels outside, for the mode "border".

    Raise UsageError for what CUDA rejects.  Source: CUDA C++ Programming Guide, "Texture Fetching"; CUDA runtime API,
    `cudaTextureDesc`.
    """

    __slots__ = ("border", "filter", "modes", "normalized", "read")

    def __init__(
        self,
        array: npt.NDArray[Any],
        *,
        address: str | Sequence[str] = "clamp",
        filter: str = "point",  # noqa: A002 - the word of CUDA
        normalized: bool = False,
        read: str = "element",
        border: Sequence[float] = (0, 0, 0, 0),
        layered: bool = False,
        channels: int = 1,
    ) -> None:
        super().__init__(array, layered=layered, channels=channels)
        if not isinstance(normalized, (bool, np.bool_)):
            raise UsageError(f"texture: `normalized` is {normalized!r:.60}: give True or False")
        self.normalized = bool(normalized)
        self.filter = _choice("filter", filter, ("point", "linear"))
        self.read = _choice("read", read, ("element", "normalized"))
        given = (
            [address] * 3 if isinstance(address, str) else _list_items("address", address, "a word for each dimension")
        )
        if not 1 <= len(given) <= 3:
            raise UsageError(f"texture: `address` has {len(given)} words: give one for each dimension, three at most")
        modes = (*given, "clamp", "clamp", "clamp")[:3]
        self.modes = tuple([_choice("address", mode, MODES) for mode in modes])
        self.border = tuple(_list_items("border", border, "four channels, `(0, 0, 0, 0)`"))
        name = self.array.dtype.name
        if self.read == "normalized" and _TYPES[name][1] is None:
            raise UsageError(f"texture of {name}: only integers of 8 and 16 bits are read as floats; leave out `read`")
        if self.filter == "linear" and not self._floats:
            remedy = 'add `read="normalized"`' if _TYPES[name][1] is not None else "give an array of float32"
            raise UsageError(f"texture of {name}: integers are not filtered; {remedy}")
        if self.filter == "linear" and name == "int8":
            raise UsageError("texture of int8: how a GPU rounds what it filters of these is not known; give int16")
        self._check_border()

    def _check_border(self) -> None:
        numbers = all(isinstance(v, (int, float, np.integer, np.floating)) for v in self.border)
        kind = "numbers" if self._floats else "finite numbers"
        if len(self.border) != 4 or not numbers or not (self._floats or np.isfinite(self.border).all()):
            raise UsageError(f"texture: `border` is {self.border!r}: give four channels, {kind}: `(0, 0, 0, 0)`")

    @property
    def _floats(self) -> bool:
        """Return whether its fetches return floats."""
        return self.array.dtype.kind == "f" or self.read == "normalized"

    def _kind(self) -> int:
        return FLOATS if self._floats else INTEGERS

    def _reading(self) -> tuple[int, ...]:
        how = _TYPES[self.array.dtype.name][self.read == "normalized"]
        assert how is not None
        modes = [MODES.index(mode) for mode in self.modes[: len(self.extents)]]
        modes += [CLAMP] * (3 - len(modes))
        if not self.normalized:
            modes = [BORDER if mode == BORDER else CLAMP for mode in modes]
        return (how, int(self.filter == "linear"), *modes, int(self.normalized))

    def _border(self) -> list[np.generic]:
        return self._border_of(self.border)

    def _border_of(self, given: Sequence[float]) -> list[np.generic]:
        values = (*given, 0, 0, 0, 0)[:4]
        return [np.float32(v) if self._floats else np.uint32(int(v) & 0xFFFFFFFF) for v in values]


def _list_items(name: str, value: object, remedy: str) -> list[Any]:
    if not isinstance(value, (list, tuple, np.ndarray)):
        raise UsageError(f"texture: `{name}` is {value!r}: give {remedy}")
    return [*value]


def _choice(name: str, value: object, among: Sequence[str]) -> str:
    if not isinstance(value, str) or value not in among:
        raise UsageError(f"texture: `{name}` is {value!r}: one of {', '.join(among)}")
    return value
