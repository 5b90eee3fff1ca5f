"""Tensor memory and the operations on it (`tcgen05`): shapes, flags of instructions, descriptors.

Tensor memory has 128 lanes of 512 columns of 32 bits for each CTA; bits 31:16 of an address are the lane, 15:0 the
column (PTX ISA, "Tensor Memory").  Both engines share these facts, and each implements their meaning itself.
"""

from __future__ import annotations

from wsemu.model.data import NamedTuple

ALLOC, DEALLOC, RELINQUISH, LOAD, STORE, WAIT, FENCE, COPY, MULTIPLY, COMMIT = OPERATIONS = tuple(
    f"tcgen05.{name}" for name in ("alloc", "dealloc", "relinquish", "ld", "st", "wait", "fence", "cp", "mma", "commit")
)
"""names of operations in bytecode"""

ROWS, COLUMNS, GRANULE = 128, 512, 32
"""number of lanes, number of columns, unit of allocation in columns"""
WORDS = ROWS * COLUMNS
ALLOCATION, RELEASE = 6, 7
"""classes of accesses that findings name: an allocation, a release"""
COLUMN_ERRORS = ("tmem-unallocated", "tmem-bounds", "tmem-double-free")
"""codes of accesses to columns, and releases of columns, that the CTA does not own; some occur only if allocations get
other columns"""

# -- ld and st: aux is the shape, log2 of the repetitions << 3, PACKED, the distance of 16x32bx2 << OFFSET_SHIFT -------
SHAPES = ("32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2")
REGISTERS, SPAN = (1, 1, 2, 4, 1), (1, 2, 4, 8, 1)
"""number of registers and columns of each shape, for one repetition"""
SHAPE_BITS, REPEAT_SHIFT, REPEAT_BITS, PACKED, OFFSET_SHIFT = 7, 3, 7, 64, 8
MOST_REGISTERS = 128
OF_STORES = 1
"""aux of a `tcgen05.wait`, and of a `tcgen05.fence::after_thread_sync`"""
BY_USE = 2
"""flag in the aux of a `tcgen05.wait` that an analysis inserts: registers of the loads have been used, so that lanes
pass it one by one"""
PAIR = 16
"""bit in the aux of all operations with `cta_group::2`"""
MULTICAST = 1
"""`aux` of a `tcgen05.commit` that arrives at the CTAs of a mask"""

# -- cp: aux is the shape, PAIR, and the decompression << 5 ------------------------------------------------------------
CP_SHAPES = ("128x256b", "4x256b", "128x128b", "64x128b.02_13", "64x128b.01_23", "32x128b")
CP_SHAPE_BITS, DECOMPRESS_SHIFT = 7, 5
DECOMPRESSIONS = ("", "b6x16_p32", "b4x16_p64")

# -- mma: aux ----------------------------------------------------------------------------------------------------------
KINDS = ("f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4")
KIND_BITS = 7
SCALED = 4
"""the first kind with scale factors"""
TENSOR_A, WEIGHTS, SPARSE = 8, 32, 64
"""flags: `a` is in tensor memory; `.ws`; `.sp`"""
VECTOR_SHIFT, VECTOR_BITS = 7, 3
"""position and width of log2 of the scale factors per row in a scaled kind: 0, 1 or 2"""
MASKED, ZEROED = 1 << 9, 1 << 10
"""flags: registers of a disable-lane mask follow; registers of a zero-column mask follow"""
DOWN_SHIFT, DOWN_BITS = 11, 31
"""position and width of scale-input-d plus 1; 0 if absent"""
COLLECT_SHIFT, COLLECT_BITS = 16, 7
COLLECTS = ("", "discard", "lastuse", "fill", "use")
BUFFER_SHIFT, BUFFER_BITS = 19, 7
METADATA_COLUMNS = 2
"""number of columns with the metadata of a sparse product (for f16 and tf32, of two)"""
METADATA, METADATA_OF_PAIRS = (0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b0110, 0b1110), (0b0100, 0b1110)
"""valid metadata of a chunk: two indices of four; for tf32, one of two"""
NO_FILL, OTHER_OPERAND, OVERWRITTEN = range(3)
"""values of `what` for the use of a collector buffer that does not contain its operand"""
ROWS_BEFORE_MASKS = 4
"""number of registers of an mma before masks: for D, for the scale factors of a and b, for metadata"""


def move_registers(auxiliary: int) -> int:
    """Return the number of registers per lane of a `tcgen05.ld` or `st`."""
    return REGISTERS[auxiliary & SHAPE_BITS] << (auxiliary >> REPEAT_SHIFT & REPEAT_BITS)


def product_registers(auxiliary: int) -> int:
    """Return the number of registers per lane of an mma, from the address of D on."""
    masks = (8 if auxiliary & PAIR else 4) * bool(auxiliary & MASKED) + 2 * bool(auxiliary & ZEROED)
    more = masks or auxiliary & SPARSE or auxiliary & KIND_BITS >= SCALED
    return ROWS_BEFORE_MASKS + masks if more else 1


def move_columns(auxiliary: int) -> int:
    """Return the number of columns that it accesses, starting at its address; for 16x32bx2, at each of its two
    addresses."""
    span = SPAN[auxiliary & SHAPE_BITS] << (auxiliary >> REPEAT_SHIFT & REPEAT_BITS)
    return span << bool(auxiliary & PACKED)


class Element(NamedTuple):
    """Type of the elements of A and B: bits of the exponent and the mantissa, bias, and bits of its container below the
    element.  `special`: 0: neither infinities nor nans; 1: a nan with all bits set; 2: both."""

    name: str
    container: int
    exponent: int
    mantissa: int
    bias: int
    special: int
    dropped: int = 0


F16, BF16, TF32 = (
    Element("f16", 16, 5, 10, 15, 2), Element("bf16", 16, 8, 7, 127, 2), Element("tf32", 32, 8, 10, 127, 2, 13),
)  # fmt: skip
BYTES = (
    Element("e4m3", 8, 4, 3, 7, 1), Element("e5m2", 8, 5, 2, 15, 2), None, Element("e2m3", 8, 2, 3, 1, 0, 2),
    Element("e3m2", 8, 3, 2, 3, 0, 2), Element("e2m1", 8, 2, 1, 1, 0, 4),
)  # fmt: skip
"""element types by their number in an instruction descriptor.  Types of fewer than 8 bits are in the upper bits of a
byte here"""
FLOATS = (F16, BF16, TF32, *(element for element in BYTES if element))
INTEGERS = ("u8", "s8")
