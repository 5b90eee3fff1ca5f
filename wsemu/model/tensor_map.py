"""Tensor maps: the description of a tile of an array for the asynchronous tensor copies of sm_90, in 128 bytes.

The fields and their limits are those of `cuTensorMapEncodeTiled` and `cuTensorMapEncodeIm2col` (CUDA driver API,
"Tensor Map Object Management").  The layout of the bytes was measured on an H100 with 3,891 tiled maps and 195 of
im2col mode, and the driver's checks with 6,456 calls.  In this module dimension 0 is the innermost one, as in the
driver; `TensorMap` has the axes of an array, outermost first.
"""

from __future__ import annotations

import ctypes
import struct
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.model.data import NamedTuple
from wsemu.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

MAP_BYTES, MAP_ALIGNMENT = 128, 64
SHARED_ALIGNMENT = 128
"""alignment of a tile in shared memory, in bytes"""
UNIT = 16
"""alignment in bytes of the innermost coordinate, and unit of the innermost row of a tile"""


class ElementType(NamedTuple):
    """A type of elements: size in bytes, code in a map, whether it is a TF32 type, and the NumPy dtype of its
    arrays."""

    bytes: int
    code: int
    rounds: bool
    dtype: str
    floats: bool


ELEMENT_TYPES = {
    "u8": ElementType(1, 0, False, "uint8", False),
    "u16": ElementType(2, 1, False, "uint16", False),
    "u32": ElementType(4, 2, False, "uint32", False),
    "s32": ElementType(4, 3, False, "int32", False),
    "u64": ElementType(8, 4, False, "uint64", False),
    "s64": ElementType(8, 5, False, "int64", False),
    "f16": ElementType(2, 6, False, "float16", True),
    "f32": ElementType(4, 7, False, "float32", True),
    "f64": ElementType(8, 9, False, "float64", True),
    "bf16": ElementType(2, 10, False, "uint16", True),
    "f32_ftz": ElementType(4, 8, False, "float32", True),
    "tf32": ElementType(4, 7, True, "float32", True),
    "tf32_ftz": ElementType(4, 8, True, "float32", True),
    "u4": ElementType(1, 11, False, "uint8", False),
    "b4x16_p64": ElementType(1, 12, False, "uint8", False),
    "b6x16_p32": ElementType(1, 13, False, "uint8", False),
}
"""element types in the order of the driver's `CUtensorMapDataType`"""
PACKED = "u4"
"""element type with two elements in a byte (16U4_ALIGN8B); its code is that of the maps that CuTe DSL 4.7 writes"""
PADDED = {"b4x16_p64": 4, "b6x16_p32": 6}
"""bits of an element of the types whose 16 elements have padding after them in shared memory (16U4_ALIGN16B,
16U6_ALIGN16B); their codes are wsemu's own, because no map of a driver with them has been seen"""
PADDED_ROW, PADDED_ALIGNMENT = 128, 32
"""elements of a row of such a tile, which are also its bytes in shared memory, and alignment of the tensor in bytes"""
BITS = {PACKED: 4, **PADDED}
"""bits of an element of the types that have less than a byte"""
TYPE_NAMES = tuple(ELEMENT_TYPES)
_CODES = {(type_.code, type_.rounds): name for name, type_ in ELEMENT_TYPES.items()}
_OF_ARRAY = {type_.dtype: name for name, type_ in reversed(ELEMENT_TYPES.items())} | {
    "int8": "u8", "int16": "u16", "bool": "u8", "float32": "f32", "uint16": "u16",
}  # fmt: skip
"""default element type for each NumPy dtype"""
SWIZZLES = (None, "32B", "64B", "128B")
INTERLEAVES = (None, "16B", "32B")
FILLS = ("zero", "nan")
PROMOTIONS = (None, "64B", "128B", "256B")
_SPANS = (0x10, 0x100, 0x200, 0x400)
"""word 18 for each swizzle"""
MOST_RANK, MOST_BOX, MOST_STEP, MOST_EXTENT = 5, 256, 8, 1 << 32
WIDE_WORD = 31
"""word of a map: bit 0 if its swizzle moves 32 bytes at once, `Im2col.line` above; the bits that a driver sets for this
are not known"""
LARGE = 1 << 21
"""bit of word 2 that newer drivers set, and that CUTLASS clears for tensors of less than 128 KiB; it affects no copy"""
SHORT, SHORT_WORDS = 2, 16
"""bit of word 2 that CuTe DSL sets in its maps, and the number of words that it writes; the other words keep the
previous contents of memory"""
MOST_PIXELS = 1024
"""maximum of pixels that a copy in im2col mode moves"""
MOST_ADDRESS, MOST_STRIDE = 1 << 57, 1 << 40
MOST_BYTES = 233_472
"""maximum bytes of a tile: the shared memory that a CTA can have"""
CORNER_BITS = {3: 16, 4: 8, 5: 5}
"""bits of a corner of im2col mode, by rank"""
LINE_BITS = 16
"""bits of a corner of a map for im2col::w, of any rank"""
LINE, LONG_LINE = 1, 2
"""`Im2col.line` of maps for im2col::w and for im2col::w::128"""


class Im2col(NamedTuple):
    """The fields that a map of im2col mode has instead of a box."""

    lower: tuple[int, ...]
    upper: tuple[int, ...]
    channels: int
    pixels: int
    line: int = 0
    """0, LINE or LONG_LINE; the corners of a line are those of dimension 1"""


class MapFields(NamedTuple):
    """The fields of a tensor map; dimension 0 is the innermost."""

    type: str
    address: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    """strides in bytes, from dimension 1 on"""
    box: tuple[int, ...]
    """extents of the box in elements, before element strides are applied"""
    steps: tuple[int, ...]
    """element strides of each dimension"""
    interleave: int = 0
    swizzle: int = 0
    nan: bool = False
    promotion: int = 0
    im2col: Im2col | None = None
    wide: bool = False
    """true if the swizzle of 128 bytes moves 32 bytes at once, not 16 (128B_ATOM_32B)"""

    @property
    def rank(self) -> int:
        return len(self.extents)

    @property
    def size(self) -> int:
        """Return the size of an element in bytes; 1 for the types of `BITS`."""
        return ELEMENT_TYPES[self.type].bytes

    def to_bytes(self, count: int) -> int:
        """Return the bytes of elements, or slices, along dimension 0."""
        return count * BITS.get(self.type, 8 * self.unit) >> 3

    @property
    def alignment(self) -> int:
        """Return the alignment of the tensor's address and strides in bytes."""
        return PADDED_ALIGNMENT if self.type in PADDED or self.interleave == 2 else UNIT

    @property
    def counts(self) -> tuple[int, ...]:
        """The number of elements in each dimension of a tile; in dimension 0 of an interleaved map, the number of
        slices.  In im2col mode: the numbers of channels and of pixels."""
        if self.im2col:
            return self.im2col.channels, self.im2col.pixels
        counts = [self.box[0], *(-(-b // s) for b, s in zip(self.box[1:], self.steps[1:], strict=True))]
        if self.interleave:
            counts[-2] = 1
        return tuple(counts)

    @property
    def unit(self) -> int:
        """Return the unit of dimension 0 in bytes: the size of an element, or of a slice."""
        return UNIT * self.interleave or self.size

    @property
    def tile_bytes(self) -> int:
        """Return the number of bytes with which a copy credits its mbarrier (measured rules T23, T28)."""
        total = self.row_bytes
        for count in self.counts[1:]:
            total *= count
        return total

    @property
    def row_bytes(self) -> int:
        """Return the number of bytes of a tile along dimension 0, without padding."""
        return self.to_bytes(self.counts[0])

    @property
    def held_bytes(self) -> int:
        """Return the number of bytes of shared memory that a row of a tile has, with padding."""
        return PADDED_ROW if self.type in PADDED else self.row_bytes

    @property
    def pitch(self) -> int:
        """Return the distance in bytes between two rows of a tile in shared memory (T22, T28)."""
        if self.type in PADDED:
            return PADDED_ROW
        return self.row_bytes if self.interleave or not self.swizzle else UNIT << self.swizzle


# -- what the driver says ----------------------------------------------------------------------------------------------


def refusal(fields: MapFields, named: Sequence[str] = ()) -> str:
    """Return the driver's reason for rejecting a tiled map, with a remedy, or an empty text if the driver accepts it.

    `named` has the names of the dimensions, innermost first.
    """
    rank = fields.rank
    names = [*named, *(f"dimension {n}" for n in range(len(named), rank))]
    if not 1 <= rank <= MOST_RANK:
        return f"it has {rank} dimensions: a tensor map has 1 to {MOST_RANK}"
    if fields.interleave and rank < 3:
        return f"it has {rank} dimensions: an interleaved tensor map has 3 to {MOST_RANK}"
    for name, box in zip(names, fields.box, strict=True):
        if not 1 <= box <= MOST_BOX:
            return f"the box has {box:,} elements in {name}: 1 to {MOST_BOX}"
    return _refused_tensor(fields, names) or _refused_tile(fields, names[0])


def refuse_pixels(fields: MapFields) -> str:
    """Return what the driver rejects in a map of im2col mode, with a remedy; an empty text if it accepts the map.

    A box without a position is also rejected.
    """
    im2col, rank = fields.im2col, fields.rank
    if fields.type in PADDED:
        return f"its elements are {fields.type}: im2col mode is not modeled for them"
    if im2col is None or rank not in CORNER_BITS:
        return f"it has {rank} dimensions: a tensor map of im2col mode has 3 to {MOST_RANK}"
    if not (1 <= im2col.channels <= MOST_BOX and 1 <= im2col.pixels <= MOST_PIXELS):
        return (
            f"it copies {im2col.pixels:,} pixels of {im2col.channels:,} channels: at most {MOST_PIXELS:,} of {MOST_BOX}"
        )
    reach = 1 << _corner_bits(rank, im2col.line) - 1
    for extent, low, high in zip(fields.extents[1:], im2col.lower, im2col.upper, strict=False):
        if not (-reach <= low < reach and -reach <= high < reach) or low > extent - 1 + high:
            return f"its box begins {low} and ends {high} beyond {extent:,} elements: give one that has a position"
    names = [f"dimension {n}" for n in range(rank)]
    if im2col.line not in (0, LINE, LONG_LINE):
        return f"its pixels are a line of kind {im2col.line}: {LINE} for im2col::w, {LONG_LINE} for im2col::w::128"
    if im2col.line and (fields.interleave or SWIZZLES[fields.swizzle] not in ("64B", "128B")):
        return "its pixels are along one dimension: only with a swizzle of 64 or 128 bytes, without interleave"
    if fields.wide and (fields.swizzle != SWIZZLES.index("128B") or fields.interleave):
        return "its swizzle moves 32 bytes at once: only that of 128 bytes does, without interleave"
    row = im2col.channels * fields.size >> (fields.type == PACKED)
    if row % UNIT:
        return f"a pixel has {row} bytes: a multiple of {UNIT}"
    if fields.swizzle and not fields.interleave and row > UNIT << fields.swizzle:
        most = UNIT << fields.swizzle
        return f"a pixel has {row} bytes: at most {most} with a swizzle of {SWIZZLES[fields.swizzle]}"
    if fields.nan and not ELEMENT_TYPES[fields.type].floats:
        return f"its elements are {fields.type}: only floats can be filled with nan"
    if row * im2col.pixels > MOST_BYTES:
        return f"its pixels have {row * im2col.pixels:,} bytes: at most {MOST_BYTES:,}, what a CTA has of shared memory"
    return _refused_tensor(fields, names)


def _refused_tensor(fields: MapFields, names: Sequence[str]) -> str:
    """Return what the driver rejects in the shape of a tensor."""
    alignment = fields.alignment
    if fields.type == PACKED and (fields.interleave or fields.extents[0] % 2):
        return f"{names[0]} has {fields.extents[0]:,} elements of 4 bits: an even number, without interleave"
    if fields.type in PADDED and (fields.interleave or fields.extents[0] % PADDED_ROW):
        return (
            f"{names[0]} has {fields.extents[0]:,} elements of {fields.type}: a multiple of {PADDED_ROW}, without "
            "interleave"
        )
    if fields.address % alignment or not 0 <= fields.address < MOST_ADDRESS:
        return f"it begins at {fields.address:#x}: a tensor map's address is a multiple of {alignment}"
    for name, extent, step in zip(names, fields.extents, fields.steps, strict=True):
        if not 1 <= extent <= MOST_EXTENT:
            return f"{name} has {extent:,} elements: a tensor map has 1 to {MOST_EXTENT:,}"
        if not 1 <= step <= MOST_STEP:
            return f"the element stride of {name} is {step}: 1 to {MOST_STEP}"
    for name, stride in zip(names[1:], fields.strides, strict=True):
        if stride % alignment or not 0 <= stride < MOST_STRIDE:
            return (
                f"the stride of {name} is {stride:,} bytes: a tensor map's strides are multiples of {alignment}; pad "
                "the rows of the array"
            )
    return ""


def _refused_tile(fields: MapFields, innermost: str) -> str:
    """Return the driver's reason for rejecting the box as a whole, with a remedy."""
    row = fields.box[0] * fields.size >> (fields.type == PACKED)
    if row % UNIT or (fields.type == PACKED and fields.box[0] % (2 * UNIT)):
        return f"the box has {row} bytes in {innermost}: a multiple of {UNIT}"
    if fields.type in PADDED and (fields.box[0] != PADDED_ROW or fields.swizzle not in (0, SWIZZLES.index("128B"))):
        return (
            f"the box has {fields.box[0]} elements of {fields.type} in {innermost}: {PADDED_ROW}, without swizzle or "
            "with one of 128B"
        )
    if fields.swizzle and not fields.interleave and row > UNIT << fields.swizzle:
        most = UNIT << fields.swizzle
        return (
            f"the box has {row} bytes in {innermost}: at most {most} with a swizzle of {SWIZZLES[fields.swizzle]}; "
            "copy several boxes"
        )
    if fields.wide and (fields.swizzle != SWIZZLES.index("128B") or fields.interleave):
        return "its swizzle moves 32 bytes at once: only that of 128 bytes does, without interleave"
    if fields.nan and not ELEMENT_TYPES[fields.type].floats:
        return f"its elements are {fields.type}: only floats can be filled with nan"
    total = _count_box_bytes(fields)
    if total > MOST_BYTES:
        return f"the box has {total:,} bytes: at most {MOST_BYTES:,}, what a CTA has of shared memory"
    return ""


def _count_box_bytes(fields: MapFields) -> int:
    """Return word 16: the bytes of the box after division by element strides, as the driver counts them."""
    total = fields.size
    for box, step in zip(fields.box, fields.steps, strict=True):
        total *= box // step
    return total >> (fields.type == PACKED)


# -- the 128 bytes -----------------------------------------------------------------------------------------------------


def encode(fields: MapFields) -> bytes:
    """Return the 128 bytes of a map, as the driver writes them."""
    words = [0] * 32
    words[0], words[1] = fields.address & 0xFFFFFFFF, fields.address >> 32
    type_ = ELEMENT_TYPES[fields.type]
    words[2] = (
        bool(fields.im2col) | fields.rank - 1 << 4 | type_.code << 7 | fields.interleave << 11 | fields.swizzle << 13
        | fields.nan << 15 | type_.rounds << 16 | fields.promotion << 17
    )  # fmt: skip
    for n, stride in enumerate(fields.strides):
        words[3 + n] = stride >> 4 & 0xFFFFFFFF
        words[7] |= (stride >> 36 & 15) << 4 * n
    for n, extent in enumerate(fields.extents):
        words[8 + n] = extent - 1
        words[13] |= fields.steps[n] - 1 << 3 * n
    words[18] = _SPANS[fields.swizzle]
    words[WIDE_WORD] = fields.wide
    if fields.im2col:
        words[WIDE_WORD] |= fields.im2col.line << 1
        _encode_corners(words, fields, fields.im2col)
    else:
        words[13] |= fields.box[0] - 1 << 24
        for n, box in enumerate(fields.box[1:]):
            words[14] |= box - 1 << 8 * n
        words[16] = _count_box_bytes(fields) & 0xFFFFFFFF
    return struct.pack("<32I", *words)


def _corner_bits(rank: int, line: int) -> int:
    return LINE_BITS if line else CORNER_BITS[rank]


def _encode_corners(words: list[int], fields: MapFields, im2col: Im2col) -> None:
    bits = _corner_bits(fields.rank, im2col.line)
    mask = (1 << bits) - 1
    words[13] |= im2col.channels - 1 << 24
    for n, (low, high) in enumerate(zip(im2col.lower, im2col.upper, strict=True)):
        words[14] |= (low & mask) << bits * n | (high & mask) << 16 + bits * n
    words[15] = im2col.pixels - 1
    words[16] = (im2col.channels * im2col.pixels * fields.size >> (fields.type == PACKED)) & 0xFFFFFFFF


_DERIVED = (16, 18)
"""words that copies do not read, and that `tensormap.replace` leaves unchanged"""


def _read(data: bytes) -> bytes:
    """Return the bytes that copies read: without strides, extents and element strides of dimensions that the map does
    not have, which `tensormap.replace` writes as well."""
    words = list(struct.unpack("<32I", data))
    rank = (words[2] >> 4 & 7) + 1
    for word in (*_DERIVED, *range(2 + rank, 7), *range(8 + rank, 8 + MOST_RANK)):
        words[word] = 0
    words[7] &= ~(0xFFFF & -1 << 4 * (rank - 1))
    words[13] &= ~(0x7FFF & -1 << 3 * rank)
    return struct.pack("<32I", *words)


def _complete(data: bytes) -> bytes:
    """Return a map as the measured driver writes it: without `LARGE`, and all words of a map of CuTe DSL."""
    words = list(struct.unpack("<32I", data))
    if words[2] & SHORT:
        words[SHORT_WORDS:] = [0] * (32 - SHORT_WORDS)
    words[2] &= ~(LARGE | SHORT)
    return struct.pack("<32I", *words)


def decode(data: bytes) -> MapFields | None:
    """Return the fields of a map's 128 bytes, or None for bytes that neither a driver, `tensormap.replace` nor CuTe DSL
    writes."""
    data = _complete(data)
    words = struct.unpack("<32I", data)
    rank, type_ = (words[2] >> 4 & 7) + 1, _CODES.get((words[2] >> 7 & 15, bool(words[2] >> 16 & 1)))
    if type_ is None or rank > MOST_RANK:
        return None
    strides = (words[3 + n] << 4 | (words[7] >> 4 * n & 15) << 36 for n in range(rank - 1))
    im2col = _corners(words, rank) if words[2] & 1 and rank in CORNER_BITS else None
    box = (words[13] >> 24, *(words[14] >> 8 * n & 255 for n in range(4)))
    fields = MapFields(
        type_, words[1] << 32 | words[0], tuple(word + 1 for word in words[8 : 8 + rank]), tuple(strides),
        () if im2col else tuple(n + 1 for n in box[:rank]), tuple((words[13] >> 3 * n & 7) + 1 for n in range(rank)),
        words[2] >> 11 & 3, words[2] >> 13 & 3, bool(words[2] >> 15 & 1), words[2] >> 17 & 3, im2col,
        bool(words[WIDE_WORD] & 1),
    )  # fmt: skip
    if fields.interleave >= len(INTERLEAVES) or _read(encode(fields)) != _read(data):
        return None
    return None if not im2col and refusal(fields) else fields


def _corners(words: Sequence[int], rank: int) -> Im2col:
    line = words[WIDE_WORD] >> 1 & 3
    bits, count = _corner_bits(rank, line), 1 if line else rank - 2

    def corner(at: int) -> tuple[int, ...]:
        values = (words[14] >> at + bits * n & (1 << bits) - 1 for n in range(count))
        return tuple(value - (value >> bits - 1 << bits) for value in values)

    return Im2col(corner(0), corner(16), (words[13] >> 24) + 1, words[15] + 1, line)


# -- maps of arrays ----------------------------------------------------------------------------------------------------


class TensorMap:
    """A tensor map of a NumPy array, for kernels that copy tiles of it: pass it where the kernel takes the map.

    `array` has 1 to 5 axes, and its elements are contiguous along the last one.  `box` is the shape of a tile, an
    extent for each axis, outermost first like the array's shape: 1 to 256 elements.  `element_strides` are steps along
    the axes, 1 to 8; `strides` replace those of the array, in bytes, for all axes but the last, outermost first.
    `swizzle` is None, "32B", "64B" or "128B", `interleave` None, "16B" or "32B"; `fill` is "zero" or "nan", the value
    of elements outside the array.  `type` is the element type if NumPy has none: "bf16" for an array of uint16, "tf32",
    "tf32_ftz", "f32_ftz" for one of float32.  With "u4", a byte of an array of uint8 holds two elements, which `box`
    counts. With "b4x16_p64" and "b6x16_p32", three bytes hold six and four elements, and a row of a tile has 128.
    `promotion` is a hint for caches, kept in the map.

    Raise UsageError, with the valid values, for a map that the CUDA driver would reject.  Source: CUDA driver API,
    `cuTensorMapEncodeTiled`, and the answers of a driver.
    """

    __slots__ = ("array", "fields")

    array: npt.NDArray[Any]
    fields: MapFields

    def __init__(
        self,
        array: npt.NDArray[Any],
        box: Sequence[int],
        *,
        strides: Sequence[int] | None = None,
        element_strides: Sequence[int] | None = None,
        swizzle: str | None = None,
        interleave: str | None = None,
        fill: str = "zero",
        type: str | None = None,  # noqa: A002 - the driver's word
        promotion: str | None = None,
    ) -> None:
        if not hasattr(array, "__array_interface__") or not hasattr(array, "ndim"):
            raise UsageError(f"tensor map: `array` is {array!r:.60}: give a NumPy array, or one of `cuda.to_device`")
        self.array = array
        rank = self.array.ndim
        if not 1 <= rank <= MOST_RANK:
            raise UsageError(f"tensor map: an array of {rank} dimensions: a tensor map has 1 to {MOST_RANK}")
        self.fields = MapFields(
            _element_type(self.array.dtype, type),
            0,
            self._extents(type),
            self._strides(strides),
            _numbers("box", box, rank),
            _numbers("element_strides", (1,) * rank if element_strides is None else element_strides, rank),
            _choice("interleave", interleave, INTERLEAVES),
            _choice("swizzle", swizzle, SWIZZLES),
            bool(_choice("fill", fill, FILLS)),
            _choice("promotion", promotion, PROMOTIONS),
        )
        why = refusal(self.fields, [f"axis {axis}" for axis in reversed(range(rank))])
        if why:
            shape = ",".join(map(str, self.array.shape))
            raise UsageError(f"tensor map of {self.array.dtype}[{shape}]: {why}")

    def _extents(self, type_: str | None) -> tuple[int, ...]:
        """Return the extents of a map, innermost first; an element of the array may be a part of a byte."""
        inner, *outer = self.array.shape[::-1]
        return (inner * 8 // BITS.get(type_ or "", 8), *outer)

    def _strides(self, given: Sequence[int] | None) -> tuple[int, ...]:
        if given is not None:
            return _numbers("strides", given, self.array.ndim - 1)
        size = self.array.dtype.itemsize
        if self.array.strides[-1] != size and self.array.shape[-1] > 1:
            raise UsageError(
                "tensor map: the elements of the array's last axis do not lie side by side; pass a contiguous array"
            )
        return self.array.strides[-2::-1]

    @classmethod
    def of(cls, array: npt.NDArray[Any], fields: MapFields) -> TensorMap:
        """Return the map with these fields, whose address counts from the first byte of the array."""
        made = cls.__new__(cls)
        made.array, made.fields = array, fields
        return made

    @classmethod
    def from_bytes(cls, data: bytes, array: npt.NDArray[Any]) -> TensorMap:
        """Return the map whose 128 bytes a CUDA driver has written, with `array` instead of the driver's memory: the
        array's first element is where that memory began.

        Raise UsageError for bytes that are not a map.
        """
        try:
            data = bytes(memoryview(data))
        except TypeError:
            raise UsageError(
                f"tensor map: `data` is {data!r:.60}: give the {MAP_BYTES} bytes of a CUtensorMap"
            ) from None
        fields = decode(data) if len(data) == MAP_BYTES else None
        if fields is None:
            raise UsageError(
                f"tensor map: {len(data)} bytes that no driver writes: give the {MAP_BYTES} of a CUtensorMap"
            )
        return cls.of(array, fields._replace(address=0))

    @property
    def mapped(self) -> npt.NDArray[Any]:
        """Return the array, under the name that all arguments with an array use."""
        return self.array

    def copied(self) -> TensorMap:
        """Return this map of a copy of the memory that the array is a view of."""
        low, high = np.lib.array_utils.byte_bounds(self.array)
        held = np.ctypeslib.as_array((ctypes.c_uint8 * (high - low)).from_address(low)).copy()
        first = self.array.__array_interface__["data"][0] - low
        array: npt.NDArray[Any] = np.ndarray(self.array.shape, self.array.dtype, held, first, self.array.strides)
        return TensorMap.of(array, self.fields)

    def admit(self, address: int, name: str) -> None:
        """Raise UsageError if the array is at an address that a map cannot have."""
        alignment = self.fields.alignment
        if address % alignment:
            raise UsageError(
                f"tensor map `{name}`: its array begins {address % alignment} bytes after a multiple of {alignment}, "
                "which a tensor map cannot: begin at an element that lies at one"
            )

    def encoded(self, address: int) -> bytes:
        """Return the 128 bytes of the map for the array at this address."""
        return encode(self.fields._replace(address=self.fields.address + address))

    def __repr__(self) -> str:
        shape = ",".join(map(str, self.array.shape))
        return f"TensorMap({self.array.dtype}[{shape}], box={[*self.fields.box[::-1]]})"


def _element_type(dtype: np.dtype[Any], given: object) -> str:
    if given is None:
        found = _OF_ARRAY.get(dtype.name)
        if found is None:
            raise UsageError(f"tensor map: an array of {dtype}; its elements can be {', '.join(ELEMENT_TYPES)}")
        return found
    if not isinstance(given, str) or given not in ELEMENT_TYPES:
        raise UsageError(f"tensor map: no type {given!r}: one of {', '.join(ELEMENT_TYPES)}")
    if ELEMENT_TYPES[given].bytes != dtype.itemsize:
        raise UsageError(
            f"tensor map: elements of {given} have {ELEMENT_TYPES[given].bytes} bytes, those of {dtype} not"
        )
    return given


def _numbers(name: str, given: Sequence[int], count: int) -> tuple[int, ...]:
    """Return integers for the axes, outermost first, in the order of a map."""
    try:
        numbers = tuple(index(n) for n in given)
    except TypeError:
        raise UsageError(f"tensor map: `{name}` is {given!r}: give a list of {count} integers") from None
    if len(numbers) != count:
        raise UsageError(f"tensor map: `{name}` has {len(numbers)} numbers: give {count}, the outermost first")
    return numbers[::-1]


def _choice(name: str, given: object, choices: Sequence[str | None]) -> int:
    if not (given is None or isinstance(given, str)) or given not in choices:
        raise UsageError(f"tensor map: `{name}` is {given!r}: one of {', '.join(map(repr, choices))}")
    return choices.index(given)
