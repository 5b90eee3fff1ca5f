"""Copies of tiles that tensor maps describe, in compiled code: cp.async.bulk.tensor, cp.reduce.async.bulk.tensor.

A tile consists of rows along dimension 0. A range of bytes of each row is inside the tensor. In shared memory, a row is
one run of bytes, or one run for each 16 bytes that the swizzle moves. Rules T20 to T29 were measured; PTX ISA,
"Tensors". `model/tensor_map.py` defines the words of a map.
"""

from __future__ import annotations

from wsemu.machine.agents.agents import enter_group, new_agent, room
from wsemu.machine.agents.copies import access_cell, move, nth_bit, store_marks
from wsemu.machine.agents.map_fences import ACQUIRE, RELEASE, acquire, judge_map, release, written_otherwise
from wsemu.machine.agents.ranges import OWN, host_place, note_written, prepare, touch_range
from wsemu.machine.agents.reductions import combine_elements
from wsemu.machine.lowering import compiled
from wsemu.machine.memory.bounds import UNINITIALIZED
from wsemu.machine.memory.cell_bits import ATOMIC_BIT, BULK, GENERIC, WARP_SHIFT
from wsemu.machine.memory.window import cast_to
from wsemu.machine.records import instruction_at, machine_at, record_finding, segment_at, warp_at
from wsemu.machine.scalars import load_i64, load_u8, load_u32, lowest_bit, popcount, store_i64, store_u8, store_u32
from wsemu.machine.state import COPIES, DONE, EVENT_KINDS, FAULT, READS_DONE, STORES, TRAP, UNUSED_SHIFT
from wsemu.machine.sync.clobber import clobbers, find_touched, objects_live
from wsemu.machine.sync.events import log, note_operand
from wsemu.model.codes import CODE_NUMBERS
from wsemu.model.isa import (
    ADDRESS_WRAPPED,
    ATOMIC,
    BULK_REDUCTIONS,
    LINE_HALOS,
    LINE_MODE,
    LINE_OFFSETS,
    LONG_LINE_MODE,
    LONG_LINE_PIXELS,
    NAMED_ROWS,
    OFFSET_BITS,
    OFFSET_MASK,
    OWN_TILE,
    PIXELS_MODE,
    READ,
    ROW,
    ROWS_MODE,
    SEGMENT_SHIFT,
    SHARED,
    TENSOR_RANK,
    TENSOR_REDUCTIONS,
    TILE_MODE_SHIFT,
    TILE_MODES,
    WRITE,
    opcodes,
)
from wsemu.model.tensor_map import (
    CORNER_BITS,
    ELEMENT_TYPES,
    LARGE,
    LINE_BITS,
    LONG_LINE,
    MAP_ALIGNMENT,
    MAP_BYTES,
    MOST_ADDRESS,
    MOST_BYTES,
    MOST_PIXELS,
    MOST_RANK,
    PACKED,
    PADDED_ALIGNMENT,
    PADDED_ROW,
    SHARED_ALIGNMENT,
    SHORT,
    SWIZZLES,
    UNIT,
    WIDE_WORD,
)

LOAD, STORE, REDUCE, PREFETCH, MULTICAST = opcodes("tensor", "load", "store", "reduce", "prefetch", "multicast")
NO_MAP = CODE_NUMBERS["tensor-map"]
NOT_THERE, RANK, INNER, NEGATIVE, TYPE, WHOLE_ROW = range(6)
"""`what` of a tensor-map finding"""
COPIED = EVENT_KINDS.index("copy")
PREPARE, CLOBBERS, JUDGE, NOTE, TOUCH_READ, TOUCH_WRITE, TOUCH_ATOMIC, PLACE, MARK = range(9)
"""actions for each run of bytes"""
SIZES = sum((type_.bytes.bit_length() - 1) << 2 * type_.code for type_ in ELEMENT_TYPES.values() if not type_.rounds)
"""two bits for each type: log2 of its bytes"""
CODE = {name: type_.code for name, type_ in ELEMENT_TYPES.items()}
U32, S64, F16, F32, FLUSHED, F64, BF16 = (CODE[t] for t in ("u32", "s64", "f16", "f32", "f32_ftz", "f64", "bf16"))
U64, HALF_BYTES = CODE["u64"], CODE[PACKED]
PADDED_HALF, PADDED_SIX = CODE["b4x16_p64"], CODE["b6x16_p32"]
WIDE_SWIZZLE, LEAST_LINE_SWIZZLE = SWIZZLES.index("128B"), SWIZZLES.index("64B")
CORNERS = sum(bits << 8 * rank for rank, bits in CORNER_BITS.items())
OFFSETS = sum(bits << 8 * rank for rank, bits in enumerate(OFFSET_BITS))
"""a byte for each rank: the bits of a corner of im2col mode, and of an offset in its row of registers"""
ADD, MIN, MAX, INC, DEC, AND, _, XOR = range(len(TENSOR_REDUCTIONS))
ADD_U32, AND_B32, INC_U32, DEC_U32 = (
    BULK_REDUCTIONS.index(which) for which in (("add", "u32"), ("and", "b32"), ("inc", "u32"), ("dec", "u32"))
)
ADD_F16, ADD_BF16, ADD_F32, ADD_F64 = (BULK_REDUCTIONS.index(("add", t)) for t in ("f16", "bf16", "f32", "f64"))
MIN_F16, MIN_BF16 = (BULK_REDUCTIONS.index(("min", t)) for t in ("f16", "bf16"))
FILLER = 0x7FF77FF77FF77FF7


# -- what a map says: p is the host address of its bytes ---------------------------------------------------------------


@compiled
def word(p, n):
    return load_u32(p + 4 * n)


@compiled
def rank_of(p):
    return ((word(p, 2) >> 4) & 7) + 1


@compiled
def code_of(p):
    return (word(p, 2) >> 7) & 15


@compiled
def element_size(p):
    return 1 << ((SIZES >> (2 * code_of(p))) & 3)


@compiled
def interleave_of(p):
    return (word(p, 2) >> 11) & 3


@compiled
def swizzle_of(p):
    return (word(p, 2) >> 13) & 3


@compiled
def step_of(p, n):
    return ((word(p, 13) >> (3 * n)) & 7) + 1


@compiled
def box_of(p, n):
    if n == 0:
        return (word(p, 13) >> 24) + 1
    return ((word(p, 14) >> (8 * n - 8)) & 255) + 1


@compiled
def stride_of(p, n):
    return (word(p, 2 + n) | ((word(p, 7) >> (4 * n - 4)) & 15) << 32) << 4


@compiled
def count_of(p, n):
    """Return the number of elements of a tile in a dimension (T20, T28)."""
    if n == 0:
        return box_of(p, n)
    if interleave_of(p) and n == rank_of(p) - 2:
        return 1
    return (box_of(p, n) + step_of(p, n) - 1) // step_of(p, n)


@compiled
def unit_of(p):
    """Return the bytes of an element of dimension 0."""
    if interleave_of(p):
        return UNIT * interleave_of(p)
    return element_size(p)


@compiled
def to_bytes(p, count):
    """Return the bytes of elements along dimension 0."""
    code = code_of(p)
    if code == HALF_BYTES or code == PADDED_HALF:  # noqa: SIM109 (a list does not compile)
        return count >> 1
    if code == PADDED_SIX:
        return (3 * count) >> 2
    return count * unit_of(p)


@compiled
def is_padded(p):
    """Return whether 16 elements have padding after them in shared memory."""
    return code_of(p) > HALF_BYTES


@compiled
def length_of(p):
    """Return the bytes of a row."""
    return to_bytes(p, count_of(p, 0))


@compiled
def pitch_of(p):
    """Return the distance from one row in shared memory to the next."""
    if is_padded(p):
        return PADDED_ROW
    if swizzle_of(p) == 0 or interleave_of(p):
        return length_of(p)
    return UNIT << swizzle_of(p)


@compiled
def find_mode(i):
    return (i.aux >> (UNUSED_SHIFT + TILE_MODE_SHIFT)) & TILE_MODES


@compiled
def rows_of(p, registers, i, lane):
    """Return the number of rows of a copy; in im2col mode, of pixels."""
    mode = find_mode(i)
    if mode == ROWS_MODE:
        return NAMED_ROWS
    if mode == PIXELS_MODE:
        return word(p, 15) + 1
    if mode >= LINE_MODE:
        return line_pixels(p, mode) + halo_pixels(p, registers, i, lane)
    rows = 1
    for n in range(1, rank_of(p)):
        rows *= count_of(p, n)
    return rows


@compiled
def is_short(p):
    """Return whether only the first words of a map are written."""
    return word(p, 2) & SHORT != 0


@compiled
def is_wide(p):
    return word(p, WIDE_WORD) & 1 != 0 and not is_short(p)


@compiled
def line_kind(p):
    """Return `Im2col.line` of a map."""
    if is_short(p):
        return 0
    return word(p, WIDE_WORD) >> 1


@compiled
def line_pixels(p, mode):
    """Return the number of pixels of a copy along one dimension, without its halo."""
    return LONG_LINE_PIXELS if mode == LONG_LINE_MODE else word(p, 15) + 1


@compiled
def swizzle_address(p, address):
    """Return the location of 16 bytes of shared memory (T22)."""
    if is_wide(p):
        return address ^ (((address >> 7) & 3) << 5)
    return address ^ (((address >> 7) & ((1 << swizzle_of(p)) - 1)) << 4)


@compiled
def clean(p):
    """Return whether all unused fields of a map are 0.

    Fields of dimensions that the map does not have are excepted: grouped kernels of CUTLASS write strides there
    (`tensormap.replace`), whatever the rank.
    """
    rank, w2 = rank_of(p), word(p, 2)
    if rank > MOST_RANK or w2 & (0xFFF8000E & ~(LARGE | SHORT)) or interleave_of(p) == 3:
        return False
    if code_of(p) > PADDED_SIX or (code_of(p) == HALF_BYTES and (interleave_of(p) or word(p, 8) & 1 == 0)):
        return False
    if (w2 >> 16) & 1 and code_of(p) != F32 and code_of(p) != FLUSHED:
        return False
    left = word(p, 7) >> (4 * MOST_RANK - 4) | (word(p, 13) & 0xFFFFFF) >> (3 * MOST_RANK)
    if is_short(p):
        return left == 0
    left |= word(p, 17)
    for n in range(19, WIDE_WORD):
        left |= word(p, n)
    if line_kind(p) and (line_kind(p) > LONG_LINE or w2 & 1 == 0):
        return False
    if word(p, WIDE_WORD) & 1 and (swizzle_of(p) != WIDE_SWIZZLE or interleave_of(p)):
        return False
    return left == 0


@compiled
def is_im2col(p):
    """Return whether these are the bytes of a map of im2col mode."""
    rank = rank_of(p)
    if word(p, 2) & 1 == 0 or rank < 3 or not clean(p):
        return False
    return rank < 5 or line_kind(p) or word(p, 14) & 0x80008000 == 0


@compiled
def is_tiled(p):
    """Return whether these are bytes of a tiled map, as the driver or CuTe DSL writes them; words 16 and 18 are not
    read."""
    if word(p, 2) & 1 or word(p, 15) or not clean(p):
        return False
    rank = rank_of(p)
    if interleave_of(p) and rank < 3:
        return False
    if rank < 5 and word(p, 14) >> (8 * rank - 8):
        return False
    total = element_size(p)
    for n in range(rank):
        total *= box_of(p, n) // step_of(p, n)
    return has_sound_rows(p) and total >> (code_of(p) == HALF_BYTES) <= MOST_BYTES


@compiled
def has_sound_rows(p):
    """Return whether a map has an address, strides and rows as the driver accepts them."""
    alignment = PADDED_ALIGNMENT if interleave_of(p) == 2 or is_padded(p) else UNIT
    address = load_i64(p)
    if address & (alignment - 1) or address < 0 or address >= MOST_ADDRESS:
        return False
    for n in range(1, rank_of(p)):
        if stride_of(p, n) & (alignment - 1):
            return False
    if is_padded(p) and (
        interleave_of(p)
        or word(p, 8) & (PADDED_ROW - 1) != PADDED_ROW - 1
        or box_of(p, 0) != PADDED_ROW
        or (swizzle_of(p) and swizzle_of(p) != WIDE_SWIZZLE)
    ):
        return False
    packed = code_of(p) == HALF_BYTES
    row = (box_of(p, 0) * element_size(p)) >> packed
    if (
        (packed and box_of(p, 0) & 1)
        or row & (UNIT - 1)
        or (swizzle_of(p) and interleave_of(p) == 0 and row > UNIT << swizzle_of(p))
    ):
        return False
    return (word(p, 2) >> 15) & 1 == 0 or (code_of(p) >= F16 and code_of(p) < HALF_BYTES)


@compiled
def has_pixels(p):
    """Return whether copies of pixels by a map of im2col mode are modeled: its box must not be empty, nor the map
    interleaved."""
    if not is_im2col(p) or interleave_of(p) or is_padded(p) or not has_sound_rows(p) or word(p, 15) >= MOST_PIXELS:
        return False
    if line_kind(p) and swizzle_of(p) < LEAST_LINE_SWIZZLE:
        return False
    for n in range(1, 2 if line_kind(p) else rank_of(p) - 1):
        if low_corner(p, n) > high_corner(p, n):
            return False
    return (word(p, 15) + 1) * to_bytes(p, box_of(p, 0)) <= MOST_BYTES


# -- tiles -------------------------------------------------------------------------------------------------------------


@compiled
def coordinate(registers, i, lane, n):
    return (load_u32(registers + i.d + ROW * n + 4 * lane) ^ 0x80000000) - 0x80000000


@compiled
def row_at(p, registers, i, lane, r):
    """Return the address of a row's first byte in the tensor, and whether the row is inside, apart from dimension 0."""
    address = load_i64(p) + to_bytes(p, coordinate(registers, i, lane, 0))
    there = 1
    if find_mode(i) == ROWS_MODE:
        y = coordinate(registers, i, lane, 1 + r)
        return address + y * stride_of(p, 1), 1 if y >= 0 and y <= word(p, 9) else 0
    if find_mode(i) == PIXELS_MODE:
        return place_pixel(p, registers, i, lane, r, address)
    if find_mode(i) >= LINE_MODE:
        return place_line_pixel(p, registers, i, lane, r, address)
    rest = r
    for n in range(1, rank_of(p)):
        count = count_of(p, n)
        x = coordinate(registers, i, lane, n) + (rest % count) * step_of(p, n)
        rest = rest // count
        if x < 0 or x > word(p, 8 + n):
            there = 0
        address += x * stride_of(p, n)
    return address, there


@compiled
def corner_bits(p):
    if line_kind(p):
        return LINE_BITS
    return (CORNERS >> (8 * rank_of(p))) & 255


@compiled
def low_corner(p, n):
    """Return the first position of the box of a map of im2col mode in a dimension."""
    bits = corner_bits(p)
    value = (word(p, 14) >> (bits * (n - 1))) & ((1 << bits) - 1)
    return value - ((value >> (bits - 1)) << bits)


@compiled
def high_corner(p, n):
    """Return the last position of the box of a map of im2col mode in a dimension."""
    bits = corner_bits(p)
    value = (word(p, 14) >> (16 + bits * (n - 1))) & ((1 << bits) - 1)
    return word(p, 8 + n) + value - ((value >> (bits - 1)) << bits)


@compiled
def find_offset(p, registers, i, lane, n):
    """Return by how much pixels are moved in a dimension."""
    bits = (OFFSETS >> (8 * rank_of(p))) & 255
    joined = coordinate(registers, i, lane, rank_of(p))
    return (joined >> (bits * (n - 1))) & ((1 << bits) - 1)


@compiled
def place_pixel(p, registers, i, lane, r, address):
    """Return the same as `row_at`, for a pixel.

    Pixels are inside the box, at multiples of the element strides from the first one, and continue at the start of the
    box in the next dimension.
    """
    last, rest, there = rank_of(p) - 1, r, 1
    for n in range(1, last):
        first, low, high, step = coordinate(registers, i, lane, n), low_corner(p, n), high_corner(p, n), step_of(p, n)
        before = (high - first) // step + 1
        x = first + rest * step
        if rest >= before:
            count = (high - low) // step + 1
            x = low + (rest - before) % count * step
            rest = 1 + (rest - before) // count
        else:
            rest = 0
        x += find_offset(p, registers, i, lane, n)
        if x < 0 or x > word(p, 8 + n):
            there = 0
        address += x * stride_of(p, n)
    image = coordinate(registers, i, lane, last) + rest
    if image < 0 or image > word(p, 8 + last):
        there = 0
    return address + image * stride_of(p, last), there


@compiled
def halo_pixels(p, registers, i, lane):
    """Return how many pixels a copy along one dimension loads after the others."""
    return coordinate(registers, i, lane, rank_of(p)) & 0xFFFF


@compiled
def line_offset(p, registers, i, lane):
    """Return by how much a copy along one dimension moves the box and its first pixel."""
    return (coordinate(registers, i, lane, rank_of(p)) >> 16) & 0xFFFF


@compiled
def step_line(p, registers, i, lane, r):
    """Return the position of a pixel in dimension 1, without the offset, and how many images come before its own.

    The box has one position in the other dimensions, so the line continues in the next image.
    """
    first, low, high, step = coordinate(registers, i, lane, 1), low_corner(p, 1), high_corner(p, 1), step_of(p, 1)
    before = (high - first) // step + 1
    if r < before:
        return first + r * step, 0
    count = (high - low) // step + 1
    return low + (r - before) % count * step, 1 + (r - before) // count


@compiled
def place_line_pixel(p, registers, i, lane, r, address):
    """Return the same as `row_at`, for a pixel of a line."""
    last, there = rank_of(p) - 1, 1
    x, images = step_line(p, registers, i, lane, r)
    for n in range(1, last + 1):
        if n > 1:
            x = coordinate(registers, i, lane, n) + (images if n == last else 0)
        else:
            x += line_offset(p, registers, i, lane)
        if x < 0 or x > word(p, 8 + n):
            there = 0
        address += x * stride_of(p, n)
    return address, there


@compiled
def is_line(p, registers, i, lane, mode):
    """Return whether a copy along one dimension is modeled: it does not begin past the box, its offset is valid, and
    its halo is in the image of the last other pixel.

    PTX ISA has the location of the halo in another image, and of the halos of LONG_LINE_MODE, in figures only.
    """
    halo = halo_pixels(p, registers, i, lane)
    if coordinate(registers, i, lane, 1) > high_corner(p, 1) or line_offset(p, registers, i, lane) >= LINE_OFFSETS:
        return False
    if halo == 0:
        return True
    if mode == LONG_LINE_MODE or halo >= LINE_HALOS:
        return False
    pixels = line_pixels(p, mode)
    _, image = step_line(p, registers, i, lane, pixels - 1)
    _, end = step_line(p, registers, i, lane, pixels - 1 + halo)
    return image == end


@compiled
def are_pixels(p, registers, i, lane):
    """Return whether a copy of pixels begins in the box of its map, with offsets that fit into the instruction."""
    rank = rank_of(p)
    bits = (CORNERS >> (8 * rank)) & 255
    for n in range(1, rank - 1):
        x = coordinate(registers, i, lane, n)
        if x < low_corner(p, n) or x > high_corner(p, n) or find_offset(p, registers, i, lane, n) >> bits:
            return False
    return True


@compiled
def stretch(p, registers, i, lane):
    """Return the range (first, end) of a row's bytes that are inside the tensor; stores round up (T26)."""
    length = length_of(p)
    end = to_bytes(p, word(p, 8) + 1)
    if not loads(i):
        end = (end + UNIT - 1) & -UNIT
    first = to_bytes(p, coordinate(registers, i, lane, 0))
    return min(max(-first, 0), length), max(min(end - first, length), 0)


@compiled
def to_of(m, registers, i, lane):
    return cast_to(m, load_i64(registers + i.a + 8 * lane))


@compiled
def loads(i):
    return i.op == LOAD or i.op == MULTICAST


@compiled
def map_host(m, w, pc, registers, i, lane, report):
    """Return the host address of a lane's map, or 0."""
    address = load_i64(registers + i.b + 8 * lane)
    return host_place(m, w, pc, lane, address, MAP_BYTES, MAP_ALIGNMENT, False, False, report)


@compiled
def reject_copy(m, w, pc, lane, address, what, value):
    bit = 1 << lane
    record_finding(m.report_entry, m.address, (NO_MAP, pc, w, bit, -1, -1), (address, what, value, 0, 0))
    return FAULT


@compiled
def reduces(what, code, rounds):
    """Return whether a reduction is defined for elements of a type (T27)."""
    if what >= AND:
        return code >= U32 and code <= U64 and rounds == 0
    if what >= INC and what <= DEC:
        return code == U32
    if what == ADD:
        return code >= U32 and code != S64 and code != HALF_BYTES
    return (code >= U32 and code <= F16) or code == BF16


@compiled
def check_copy(m, w, pc, registers, i, lane):
    """Return DONE, or why the copy is invalid."""
    p = map_host(m, w, pc, registers, i, lane, True)
    if p == 0:
        return FAULT
    address = load_i64(registers + i.b + 8 * lane) & ~ADDRESS_WRAPPED
    if written_otherwise(m, address):
        return TRAP
    tiled, mode = is_tiled(p), find_mode(i)
    if not tiled and not is_im2col(p):
        return reject_copy(m, w, pc, lane, address, NOT_THERE, 0)
    rank, lowest = rank_of(p), coordinate(registers, i, lane, 0)
    rows = (i.aux >> UNUSED_SHIFT) & TENSOR_RANK
    if mode == ROWS_MODE:
        if not tiled or interleave_of(p) or is_padded(p) or (rank == 2 and box_of(p, 1) != 1):
            return TRAP
        named = 2
    elif mode == PIXELS_MODE:
        named = rows - 1
        if not has_pixels(p) or line_kind(p) or (rank == named and not are_pixels(p, registers, i, lane)):
            return TRAP
    elif mode >= LINE_MODE:
        named = rows - 1
        if not has_pixels(p) or line_kind(p) != mode - LINE_MODE + 1:
            return TRAP
        if rank == named and not is_line(p, registers, i, lane, mode):
            return TRAP
    else:
        named = rows
        if not tiled or (interleave_of(p) and word(p, 13) & 0x7FFF):
            return TRAP
        if is_padded(p) and (i.op == STORE or i.op == REDUCE):
            return TRAP
    if rank != named:
        return reject_copy(m, w, pc, lane, address, RANK, rank)
    if is_padded(p) and lowest & (PADDED_ROW - 1):
        return reject_copy(m, w, pc, lane, address, WHOLE_ROW, lowest)
    if interleave_of(p) == 0 and lowest * element_size(p) & ((UNIT << (code_of(p) == HALF_BYTES)) - 1):
        return reject_copy(m, w, pc, lane, address, INNER, lowest)
    if i.op == STORE or i.op == REDUCE:
        for n in range(1, 1 if mode == PIXELS_MODE else rows):
            lowest = min(lowest, coordinate(registers, i, lane, n))
        if lowest < 0:
            return reject_copy(m, w, pc, lane, address, NEGATIVE, lowest)
    if i.op == REDUCE and not reduces((i.aux >> (UNUSED_SHIFT + 3)) & 7, code_of(p), (word(p, 2) >> 16) & 1):
        return reject_copy(m, w, pc, lane, address, TYPE, code_of(p))
    return DONE


# -- runs of bytes -----------------------------------------------------------------------------------------------------


@compiled
def unwritten(m, address, size):
    initialised = segment_at(m.segments, address >> SEGMENT_SHIFT).initialised
    if initialised:
        offset = address & OFFSET_MASK
        for q in range(offset, offset + size):
            if load_u8(initialised + q) == 0:
                return True
    return False


@compiled
def act(m, w, pc, registers, i, lane, action, base, address, size):
    """Perform an action on a run of bytes; a result other than 0 ends the copy."""
    if action == PREPARE:
        return prepare(m, pc, address, size, (loads(i)) == (address >> SEGMENT_SHIFT == SHARED))
    if action == PLACE:
        return host_place(m, w, pc, lane, address, size, 1, not loads(i), False, base) == 0
    if action == JUDGE:
        if not unwritten(m, address, size):
            return 0
        bit = 1 << lane
        number = address >> SEGMENT_SHIFT
        record_finding(m.report_entry, m.address, (UNINITIALIZED, pc, w, bit, -1, -1), (address, 0, size, number, 0))
        return 1
    if action == CLOBBERS:
        if find_touched(m, address, size) == 0:
            return 0
        imm = address - to_of(m, registers, i, lane)
        clobbers(m, w, pc, registers, i.a, imm, 1 << lane, size, 0, WRITE)
        return 1
    if action == NOTE:
        note_written(m, address >> SEGMENT_SHIFT, address & OFFSET_MASK, size)
    elif action == MARK:
        store_marks(m, w, pc, lane, address, size)
    elif action == TOUCH_READ:
        touch_range(m, w, lane, pc, address, size, READ, base, True)
    elif action == TOUCH_WRITE:
        touch_range(m, w, lane, pc, address, size, WRITE, base, True)
    else:
        touch_range(m, w, lane, pc, address, size, ATOMIC, base | ATOMIC_BIT, True)
    return 0


@compiled
def inner_runs(m, w, pc, registers, i, lane, p, action, base):
    """Perform an action on each run of bytes that a lane accesses in shared memory: all that it loads, or the part of a
    store that is inside the tensor."""
    to, rows = to_of(m, registers, i, lane) & ~ADDRESS_WRAPPED, rows_of(p, registers, i, lane)
    if is_padded(p):  # a load changes the padding too, and a swizzle only permutes the bytes of a row
        return act(m, w, pc, registers, i, lane, action, base, to, PADDED_ROW * rows)
    length, pitch = length_of(p), pitch_of(p)
    swizzled = swizzle_of(p)
    apart = swizzled and (pitch != length or interleave_of(p))
    if loads(i) and pitch == length and not apart:
        return act(m, w, pc, registers, i, lane, action, base, to, length * rows)
    low, high = 0, length
    if not loads(i):
        low, high = stretch(p, registers, i, lane)
    for r in range(rows):
        there = 1
        if not loads(i):
            _, there = row_at(p, registers, i, lane, r)
        if there == 0 or high <= low:
            continue
        inside = to + r * pitch
        if swizzled == 0 or (high - low == length and not apart):
            found = act(m, w, pc, registers, i, lane, action, base, inside + low, high - low)
            if found:
                return found
            continue
        q = low
        while q < high:
            found = act(m, w, pc, registers, i, lane, action, base, swizzle_address(p, inside + q), UNIT)
            if found:
                return found
            q += UNIT
    return 0


@compiled
def outer_runs(m, w, pc, registers, i, lane, p, action, base):
    """Perform an action on each run of bytes that a lane accesses in the tensor."""
    low, high = stretch(p, registers, i, lane)
    if high <= low:
        return 0
    for r in range(rows_of(p, registers, i, lane)):
        address, there = row_at(p, registers, i, lane, r)
        if there:
            found = act(m, w, pc, registers, i, lane, action, base, address + low, high - low)
            if found:
                return found
    return 0


@compiled
def span_of(p, registers, i, lane, to):
    """Return the bytes of shared memory from the start of a tile to its end, with all places to which a swizzle may
    move the last row."""
    last = to + (rows_of(p, registers, i, lane) - 1) * pitch_of(p)
    length = PADDED_ROW if is_padded(p) else length_of(p)
    q = max(0, length - 8 * UNIT)
    most = 0
    while q < length:
        most = max(most, swizzle_address(p, last + q))
        q += UNIT
    return most + UNIT - to


@compiled
def inner_place(m, w, pc, registers, i, lane, p, report):
    """Return the host address of a lane's tile in shared memory, or 0."""
    to = to_of(m, registers, i, lane)
    span = span_of(p, registers, i, lane, to & ~ADDRESS_WRAPPED)
    own = loads(i) == 0 or (i.aux >> UNUSED_SHIFT) & OWN_TILE
    return host_place(m, w, pc, lane, to, span, SHARED_ALIGNMENT, loads(i), OWN if own else 1, report)


@compiled
def ready(m, w, pc, registers, i, lane, p):
    """Return DONE if shadow memory is ready for a lane's copy, or if the copy is invalid."""
    if inner_place(m, w, pc, registers, i, lane, p, False) == 0:
        return DONE
    if outer_runs(m, w, pc, registers, i, lane, p, PLACE, 0):
        return DONE
    status = prepare(m, pc, load_i64(registers + i.b + 8 * lane), MAP_BYTES, False)
    if status == DONE:
        status = inner_runs(m, w, pc, registers, i, lane, p, PREPARE, 0)
    if status == DONE:
        status = outer_runs(m, w, pc, registers, i, lane, p, PREPARE, 0)
    return status


# -- copies ------------------------------------------------------------------------------------------------------------


@compiled
def tile_bytes(p, registers, i, lane):
    """Return the bytes that a tile completes (T23)."""
    return length_of(p) * rows_of(p, registers, i, lane)


@compiled
def load_lane(m, w, pc, registers, i, lane):
    """Execute the tensor load of a lane, with its completed bytes in `m.credited`, and return a status."""
    p = map_host(m, w, pc, registers, i, lane, False)
    status = room(m, 1)
    if status == DONE:
        status = ready(m, w, pc, registers, i, lane, p)
    if status != DONE:
        return status
    size = tile_bytes(p, registers, i, lane)
    m.credited = size
    host = inner_place(m, w, pc, registers, i, lane, p, True)
    made = 0
    if host:
        made = outer_runs(m, w, pc, registers, i, lane, p, PLACE, 1) == 0
    to, number = to_of(m, registers, i, lane) & ~ADDRESS_WRAPPED, 0
    if m.clocks:
        number = new_agent(m, w, lane, pc, COPIES, to, size if made else 0)
    if not made:
        return DONE
    log(m, COPIED, w, pc, to, -1, 1 << lane, size)
    if objects_live(m):
        inner_runs(m, w, pc, registers, i, lane, p, CLOBBERS, 0)
    outer_runs(m, w, pc, registers, i, lane, p, JUDGE, 0)
    if m.clocks:
        base = access_cell(number, BULK + w, lane, pc)
        touch_map(m, w, pc, registers, i, lane, base)
        outer_runs(m, w, pc, registers, i, lane, p, TOUCH_READ, base)
        inner_runs(m, w, pc, registers, i, lane, p, TOUCH_WRITE, base)
    inner_runs(m, w, pc, registers, i, lane, p, NOTE, 0)
    if is_padded(p):
        forget_padding(m, p, to, rows_of(p, registers, i, lane))
    fill(m, registers, i, lane, p, host - to, to)
    return DONE


@compiled
def forget_padding(m, p, to, rows):
    """Mark the padding after each 16 elements of a tile in shared memory as uninitialized."""
    if m.shared_initialised == 0:
        return
    segment = segment_at(m.segments, SHARED)
    segment.initialised = m.shared_initialised  # it is 0 if all bytes were initialized
    used, lost = to_bytes(p, UNIT), 0
    for n in range(rows * (PADDED_ROW // UNIT)):
        place = segment.initialised + (swizzle_address(p, to + n * UNIT) & OFFSET_MASK)
        for q in range(used, UNIT):
            lost += load_u8(place + q) != 0
            store_u8(place + q, 0)
    segment.unwritten += lost


@compiled
def touch_map(m, w, pc, registers, i, lane, base):
    """Record that a copy reads its map; only order is checked, because the map has another proxy than the copied
    data."""
    address = load_i64(registers + i.b + 8 * lane) & ~ADDRESS_WRAPPED
    judge_map(m, w, pc, lane, address)
    base -= (BULK - GENERIC) << WARP_SHIFT
    touch_range(m, w, lane, pc, address, MAP_BYTES, READ, base, False)


@compiled
def fill(m, registers, i, lane, p, shift, to):
    """Copy a tile to shared memory; `shift` is the difference of host and virtual addresses there."""
    low, high = stretch(p, registers, i, lane)
    length, pitch = length_of(p), pitch_of(p)
    nan, rounds = (word(p, 2) >> 15) & 1, (word(p, 2) >> 16) & 1
    filler = FILLER * nan
    for r in range(rows_of(p, registers, i, lane)):
        address, there = row_at(p, registers, i, lane, r)
        end = high if there else low
        inside = to + r * pitch
        source = 0
        if end > low:
            segment = segment_at(m.segments, (address + low) >> SEGMENT_SHIFT)
            source = segment.host + ((address + low) & OFFSET_MASK) - low
        if is_padded(p):
            fill_padded(p, inside, shift, source, end > low)
            continue
        q = 0
        while q < length:
            at = swizzle_address(p, inside + q) + shift
            have = min(end - q, UNIT) if q >= low else 0
            if have < UNIT:
                store_i64(at, filler)
                store_i64(at + 8, filler)
            if have > 0:
                move(at, source + q, have)
                if rounds:
                    round_elements(at, have)
            q += UNIT


@compiled
def fill_padded(p, inside, shift, source, there):
    """Copy a row, 16 elements at once, without the padding after them."""
    size = to_bytes(p, UNIT)
    for n in range(PADDED_ROW // UNIT):
        at = swizzle_address(p, inside + n * UNIT) + shift
        if there:
            move(at, source + n * size, size)
        else:
            store_i64(at, 0)
            if size > 8:
                store_u32(at + 8, 0)


@compiled
def round_elements(at, size):
    """Round elements of TF32 (T25)."""
    q = 0
    while q + 4 <= size:
        v = load_u32(at + q)
        if (v >> 23) & 255 != 255:
            v = (v + 0xFFF + ((v >> 13) & 1)) & 0xFFFFE000
        elif v & 0x7FFFFF:
            v = 0x7FFFE000
        store_u32(at + q, v)
        q += 4


@compiled
def store_all(m, w, pc, registers, i, mask):
    """Execute a tensor store or reduction lane by lane, and return a status."""
    status = room(m, 2 * popcount(mask))
    rest = mask
    while rest and status == DONE:
        lane = lowest_bit(rest)
        rest &= rest - 1
        p = map_host(m, w, pc, registers, i, lane, False)
        if i.op == REDUCE:  # as `run.py` does for reductions whose elements are known in advance
            i.aux = (i.aux >> UNUSED_SHIFT) << UNUSED_SHIFT | 16 * element_size(p)
        status = ready(m, w, pc, registers, i, lane, p)
    if status != DONE:
        return status
    m.serial += 1
    if m.alone and i.op != REDUCE:
        mask = one_of_each(m, w, pc, registers, i, mask)
    while mask:
        store_lane(m, w, pc, registers, i, lowest_bit(mask))
        mask &= mask - 1
    return DONE


@compiled
def one_of_each(m, w, pc, registers, i, mask):
    """Return the lanes that perform a copy: one lane for all that store the same tile to the same location."""
    chosen = 0
    while mask:
        first = lowest_bit(mask)
        group = 0
        rest = mask
        while rest:
            if stores_alike(m, w, pc, registers, i, first, lowest_bit(rest)):
                group |= rest & -rest
            rest &= rest - 1
        mask &= ~group
        chosen |= nth_bit(group, m.alone)
    return chosen


@compiled
def stores_alike(m, w, pc, registers, i, lane, other):
    if load_i64(registers + i.a + 8 * lane) != load_i64(registers + i.a + 8 * other):
        return False
    if load_i64(registers + i.b + 8 * lane) != load_i64(registers + i.b + 8 * other):
        return False
    for n in range((i.aux >> UNUSED_SHIFT) & TENSOR_RANK):
        if coordinate(registers, i, lane, n) != coordinate(registers, i, other, n):
            return False
    return True


@compiled
def store_lane(m, w, pc, registers, i, lane):
    p = map_host(m, w, pc, registers, i, lane, False)
    host = inner_place(m, w, pc, registers, i, lane, p, True)
    if host == 0 or outer_runs(m, w, pc, registers, i, lane, p, PLACE, 1):
        return
    to, size = to_of(m, registers, i, lane) & ~ADDRESS_WRAPPED, tile_bytes(p, registers, i, lane)
    log(m, COPIED, w, pc, load_i64(p), -1, 1 << lane, size)
    note_operand(m, to)
    inner_runs(m, w, pc, registers, i, lane, p, JUDGE, 0)
    if m.clocks:
        some = is_copy_needed(p, registers, i, lane)
        reads = new_agent(m, w, lane, pc, READS_DONE, to, size)
        writes = new_agent(m, w, lane, pc, STORES, to, size if some else 0)
        base = access_cell(reads, BULK + w, lane, pc)
        touch_map(m, w, pc, registers, i, lane, base)
        inner_runs(m, w, pc, registers, i, lane, p, TOUCH_READ, base)
        base = access_cell(writes, BULK + w, lane, pc)
        action = TOUCH_ATOMIC if i.op == REDUCE else TOUCH_WRITE
        outer_runs(m, w, pc, registers, i, lane, p, action, base)
        enter_group(m, w, lane, 1, writes)
    outer_runs(m, w, pc, registers, i, lane, p, MARK, 0)
    if i.op == REDUCE:
        outer_runs(m, w, pc, registers, i, lane, p, JUDGE, 0)
    bring(m, registers, i, lane, p, host - to, to)
    outer_runs(m, w, pc, registers, i, lane, p, NOTE, 0)


@compiled
def is_copy_needed(p, registers, i, lane):
    """Return whether part of a tile is inside the tensor."""
    low, high = stretch(p, registers, i, lane)
    if high > low:
        for r in range(rows_of(p, registers, i, lane)):
            _, there = row_at(p, registers, i, lane, r)
            if there:
                return True
    return False


@compiled
def bring(m, registers, i, lane, p, shift, to):
    """Copy a tile to the tensor, or combine it with the tensor."""
    low, high = stretch(p, registers, i, lane)
    pitch, size, flushes = pitch_of(p), element_size(p), code_of(p) == FLUSHED
    number = reduction((i.aux >> (UNUSED_SHIFT + 3)) & 7, code_of(p))
    if high <= low:
        return
    for r in range(rows_of(p, registers, i, lane)):
        address, there = row_at(p, registers, i, lane, r)
        if there == 0:
            continue
        segment = segment_at(m.segments, (address + low) >> SEGMENT_SHIFT)
        target = segment.host + ((address + low) & OFFSET_MASK) - low
        q = low
        while q < high:
            source = swizzle_address(p, to + r * pitch + q) + shift
            if i.op == REDUCE:
                combine(target + q, source, number, size, flushes)
            else:
                move(target + q, source, UNIT)
            q += UNIT


@compiled
def reduction(what, code):
    """Return the number of a reduction among BULK_REDUCTIONS."""
    if what >= INC and what <= DEC:
        return INC_U32 if what == INC else DEC_U32
    if what >= AND:
        return AND_B32 + 2 * (what - AND) + (code == U64)
    if code < F16:
        return ADD_U32 + 4 * what + code - U32
    if what != ADD:
        return (MIN_F16 if code == F16 else MIN_BF16) + 2 * (what - MIN)
    if code == F16 or code == BF16:  # noqa: SIM109 (a list does not compile)
        return ADD_F16 if code == F16 else ADD_BF16
    return ADD_F64 if code == F64 else ADD_F32


@compiled
def element(place, size):
    if size == 8:
        return load_i64(place)
    if size == 4:
        return load_u32(place)
    return load_u8(place) | load_u8(place + 1) << 8


@compiled
def combine(target, source, number, size, flushes):
    """Combine 16 bytes, element by element."""
    q = 0
    while q < UNIT:
        old, new = element(target + q, size), element(source + q, size)
        if flushes:  # f32: subnormal operands are +0 (T27)
            old = old if old & 0x7F800000 else 0
            new = new if new & 0x7F800000 else 0
        result = combine_elements(number, old, new)
        if size == 8:
            store_i64(target + q, result)
        elif size == 4:
            store_u32(target + q, result)
        else:
            store_u8(target + q, result)
            store_u8(target + q + 1, result >> 8)
        q += size


def tensor_operation(address, w, pc, mask):
    """Execute a tile copy, or a fence of the tensormap proxy, for lanes, and return a status. Called by address.

    With -1 - pc, check the copies of these lanes, and return DONE if all are valid.
    """
    m = machine_at(address, 0)
    registers = warp_at(m.warps, w).registers
    if pc < 0:
        i = instruction_at(m.code, -1 - pc)
        while mask:
            status = check_copy(m, w, -1 - pc, registers, i, lowest_bit(mask))
            if status != DONE:
                return status
            mask &= mask - 1
        return DONE
    i = instruction_at(m.code, pc)
    if i.op == ACQUIRE:
        return acquire(m, w, pc, registers, i, mask)
    if i.op == RELEASE:
        if m.clocks:
            release(m, w, pc, i, mask)
        return DONE
    if loads(i):
        return load_lane(m, w, pc, registers, i, lowest_bit(mask))
    if i.op == PREFETCH:
        return DONE
    return store_all(m, w, pc, registers, i, mask)
