"""Data that depends only on a program: its code in the VM's format, and the initial contents of a warp's registers."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.machine import state as layout
from wsemu.machine.state import UNUSED_SHIFT, aligned_bytes
from wsemu.model.control_flow import flow_lengths
from wsemu.model.data import dataclass
from wsemu.model.effects import COMBINES, find_opcodes
from wsemu.model.grid import Grouping
from wsemu.model.isa import (
    ANYWHERE,
    BULK_REDUCTIONS,
    CLOSED,
    FIRST_GROUP_OPERATION,
    FIRST_MATRIX,
    FORBIDS_SHIFT,
    IN_PIECES,
    LANES,
    LOCAL,
    N_OPERATIONS,
    N_WARP,
    OPCODE,
    OPERATIONS,
    REQUEST_CLUSTER,
    SEGMENT_SHIFT,
    SHARED,
    SIZE,
    access_numbers,
    access_shape,
    memory_shape,
    opcodes,
)
from wsemu.model.program import Program
from wsemu.model.read_only import loads_read_only
from wsemu.model.sums import rounds_once
from wsemu.model.tensor_memory import FENCE

if TYPE_CHECKING:
    import numpy.typing as npt

    from wsemu.model.grid import Extent

    Bytes = npt.NDArray[np.uint8]

Rows = dict[int, tuple[str, int | float | bool]]
"""register row -> (type, value) of the parameters of a launch"""


_DTYPE = {"b8": "u1", "b16": "u2", "b32": "u4", "b64": "u8", "f16": "f2", "f32": "f4", "f64": "f8"}


def _auxiliary() -> npt.NDArray[np.int64]:
    """Return opcode -> `aux` of a memory operation, or -1 for other operations.

    `aux` has the bytes per lane, elements << 8, and log2 of the bytes << 16; the bits from `UNUSED_SHIFT` on differ
    between instructions.
    """
    table = np.full(N_OPERATIONS, -1, np.int64)
    for name, operation in OPERATIONS.items():
        if operation.kind in ("load", "store", "atomic"):
            n = memory_shape(name)[2] if operation.kind != "atomic" else 1
            size = access_shape(name)[1]
            table[OPCODE[name]] = size | n << 8 | (size.bit_length() - 1) << 16
    return table


_AUXILIARY = _auxiliary()
_STORES = np.array([op.kind in ("store", "atomic") for op in OPERATIONS.values()])


_REDUCTION_WIDTHS = np.array([2 * int(type_.lstrip("busf")) for _, type_ in BULK_REDUCTIONS])
"""16 times the bytes of an element, as the width of a bulk reduction: other atomics are narrower, and any two of these
differ in a bit"""


MAP_ACQUIRE, MAP_RELEASE = opcodes("map", "acquire", "release")
CLC_REQUEST = OPCODE[REQUEST_CLUSTER]


_TILES = find_opcodes(lambda row: row.moves.unit == "tile")


_REDUCTIONS = COMBINES - _TILES


OF_WARPGROUPS = frozenset(range(FIRST_GROUP_OPERATION, N_OPERATIONS))


TENSOR_FENCE = OPCODE[FENCE]
TENSOR_MEMORY = find_opcodes(lambda row: row.family.called == "`tcgen05`")


grouping_of = functools.lru_cache(maxsize=256)(Grouping)


_BARRIERS = [OPCODE[name] for name, operation in OPERATIONS.items() if operation.kind == "barrier"]


ATOMIC_NUMBERS = [OPCODE[name] for name, operation in OPERATIONS.items() if operation.kind == "atomic"]


_CONTENDED = COMBINES.union(ATOMIC_NUMBERS)
"""operations by which several CTAs may change one location"""


@dataclass(frozen=True, slots=True, eq=False)
class Image:
    """Data that depends on the program alone: its code as the VM reads it, segment lengths, a warp's register block.
    An image equals only itself, so it is a key for what depends on the program."""

    code: npt.NDArray[np.int64]
    flow: npt.NDArray[Any]
    accesses: npt.NDArray[Any]
    registers: Bytes
    has_atomics: bool
    has_read_only_loads: bool
    opcodes: frozenset[int]
    asynchronous: bool
    multiplies: bool
    """true if the program has matrix operations"""
    sums: bool
    """true if the sums of some matrix operation are rounded once"""
    access_bytes: int
    """size of a lane's access in bytes, if all accesses have the same size; otherwise, or without accesses, 0"""


def bits(type_: str, value: int | float | bool) -> np.generic:
    """Return a value as an element of a register row of this type; integers wrap."""
    if type_[0] == "b":
        value = int(value) & ((1 << 8 * SIZE[type_]) - 1)
    result: np.generic = np.dtype(_DTYPE[type_]).type(value)
    return result


def fill(block: Bytes, row: int, type_: str, value: int | float | bool) -> None:
    """Store a value in all lanes of a row, in a block of one warp or several (last axis: bytes)."""
    if type_ == "p":
        block[..., row : row + 4] = 255 if value else 0
        return
    block[..., row : row + LANES * SIZE[type_]].view(_DTYPE[type_])[...] = bits(type_, value)


def local_variables(program: Program) -> npt.NDArray[Any]:
    """Return the extents of a thread's local memory and of each variable in it."""
    found = layout.table(1 + len(program.locals), layout.VARIABLE)
    found[0] = 0, program.local_bytes, 1
    for number, array in enumerate(program.locals, 1):
        found[number] = array.offset, math.prod(array.shape) * array.dtype.itemsize, array.writable
    return found


def image_of(program: Program) -> Image:
    """Return the image of a program, which is made once."""
    found: Image | None = program.derived.get("image")
    return found or program.derived.setdefault("image", _make_image(program))


def _make_image(program: Program) -> Image:
    code = np.ascontiguousarray(program.code, np.int64).copy()
    auxiliary = _AUXILIARY[np.minimum(code[:, 0], N_OPERATIONS - 1)]
    code[:, 7] = np.where(auxiliary >= 0, auxiliary | code[:, 7] << UNUSED_SHIFT, code[:, 7])
    opcodes = program.opcodes
    for reduce in opcodes & _REDUCTIONS:
        rows = code[:, 0] == reduce
        code[rows, 7] = code[rows, 7] << UNUSED_SHIFT | _REDUCTION_WIDTHS[code[rows, 7]]
    for tiles in opcodes & _TILES:
        code[code[:, 0] == tiles, 7] <<= UNUSED_SHIFT
    _name_barriers(program, code)
    n = len(code)
    flow = np.zeros(n + 1, layout.FLOW)
    flow["length"][:n] = flow_lengths(code)
    registers = aligned_bytes(program.register_bytes)
    registers[:4] = 255
    for row, type_, value in program.constants:
        fill(registers, row, type_, value)
    accesses = np.zeros(n + 1, layout.ACCESS)
    accesses["pattern"][:n] = access_numbers(code[:, 0].tolist())
    forbids = program.code[:, 7] >> FORBIDS_SHIFT & ANYWHERE | IN_PIECES
    forbids |= np.where(_STORES[np.minimum(code[:, 0], N_OPERATIONS - 1)], CLOSED, 0)
    accesses["forbids"][:n] = np.where(auxiliary >= 0, forbids, 0)
    has_atomics = not opcodes.isdisjoint(_CONTENDED)
    asynchronous = program.asynchronous
    multiplies = any(
        FIRST_MATRIX <= opcode < N_WARP or FIRST_GROUP_OPERATION <= opcode < N_OPERATIONS for opcode in opcodes
    )
    read_only = loads_read_only(program)
    sums = multiplies and rounds_once(program)
    sizes = {size & 255 for size in auxiliary.tolist() if size >= 0}
    size = sizes.pop() if len(sizes) == 1 else 0
    return Image(code, flow, accesses, registers, has_atomics, read_only, opcodes, asynchronous, multiplies, sums, size)


def _name_barriers(program: Program, code: npt.NDArray[np.int64]) -> None:
    """Store the constant operands of barrier operations in their code, see `named_barrier.operands`."""
    numbers = {row: int(value) for row, type_, value in program.constants if type_ == "b32"}
    for at in np.flatnonzero(np.isin(code[:, 0], _BARRIERS)).tolist():
        number, count = numbers.get(int(code[at, 3]), -1), numbers.get(int(code[at, 4]), -1)
        if not code[at, 4]:
            count = 0
        if 0 <= number < layout.BARRIERS and 0 <= count < layout.MOST_COUNT and (count or not code[at, 4]):
            code[at, 6] = layout.KNOWN_OPERANDS | count << layout.COUNT_SHIFT | number


@functools.lru_cache(maxsize=256)
def special_values(
    memory: tuple[int, int, int], grid: Extent, shape: Extent, block: tuple[int, ...], window: int
) -> dict[str, Any]:
    """Return, for each special register, its value in each thread of a group, or one value for all.

    ctaid and clusterid are not included. `memory` has the bytes of static and dynamic shared memory, and of local
    memory.
    """
    static, dynamic, local = memory
    groups = grouping_of(grid, shape)
    threads = block[0] * block[1] * block[2]
    cta_threads = -(-threads // LANES) * LANES
    member, thread = np.divmod(np.arange(groups.members * cta_threads), cta_threads)
    shared = (SHARED << SEGMENT_SHIFT) + (member << window if groups.members > 1 else 0)
    values: dict[str, Any] = {
        "tid.x": thread % block[0],
        "tid.y": thread // block[0] % block[1],
        "tid.z": thread // (block[0] * block[1]),
        "laneid": thread % LANES,
        "shared": shared,
        "dynamic": shared + -(-static // 16) * 16,
        "dynamic_bytes": dynamic,
        "local": (LOCAL << SEGMENT_SHIFT) + thread % LANES * local,
        "local_map": thread // LANES * 2 * (-(-local * LANES // 8) * 8),
    }
    for axis, (blocks, extent) in enumerate(zip(groups.grid, block, strict=True)):
        values[f"nctaid.{'xyz'[axis]}"] = blocks
        values[f"ntid.{'xyz'[axis]}"] = extent
    return values | _cluster_fields(groups, member, window)


def _cluster_fields(groups: Grouping, member: npt.NDArray[np.int64], window: int) -> dict[str, Any]:
    """Return the values of the special registers of clusters; `member` is the rank of the CTA of each thread."""
    x, y, _ = groups.shape
    values: dict[str, Any] = {
        "cluster_ctarank": member,
        "cluster_nctarank": groups.members,
        "window": window or SEGMENT_SHIFT,
    }
    for axis, inside in enumerate((member % x, member // x % y, member // (x * y))):
        values[f"cluster_ctaid.{'xyz'[axis]}"] = inside
        values[f"cluster_nctaid.{'xyz'[axis]}"] = groups.shape[axis]
        values[f"nclusterid.{'xyz'[axis]}"] = groups.along[axis]
    return values
