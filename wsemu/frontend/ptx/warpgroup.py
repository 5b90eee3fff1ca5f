"""wgmma: products of a warpgroup (PTX ISA 9.7.15)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from wsemu.frontend.ptx.copies import integer_constant
from wsemu.frontend.ptx.forms import UnhandledForm
from wsemu.frontend.ptx.matrix import check_metadata, read_all, targets, write_all
from wsemu.frontend.ptx.syntax import Number, Vector
from wsemu.model.matrix import (
    CLAMPS,
    GROUP_SELECTOR_SHIFT,
    NEGATES_A,
    NEGATES_B,
    TURNS_A,
    TURNS_B,
    WGMMA,
    vector_counts,
)

if TYPE_CHECKING:
    from wsemu.frontend.assemble.graph import Register
    from wsemu.frontend.ptx.emit import Emitter, Handler
    from wsemu.frontend.ptx.syntax import Instruction, Operand


_OF_TYPES = {
    (
        f"k{found.part.k}",
        found.part.d,
        found.part.a,
        found.part.b,
        "sp" if found.part.sparse else found.part.combine,
        found.shared,
    ): found
    for found in WGMMA.values()
}


_ONES = {"s8", "u8", "b1"}
"""types with a coarser step of the column count, and without scales"""


_TURNED = {"f16", "bf16"}
"""types that may have either orientation in shared memory"""


def _columns(shape: str, type_: str) -> tuple[int, str]:
    """Return (n, `k16`) of m64n128k16."""
    found = re.fullmatch(r"m64n(\d+)(k\d+)", shape)
    n = int(found[1]) if found else 0
    if found is None or n % 8 or not 8 <= n <= 256 or (type_ in _ONES and n > 32 and n % 16) or str(n) != found[1]:
        raise UnhandledForm
    return n, found[2]


def _group_multiply(
    e: Emitter, modifiers: tuple[str, ...], operands: tuple[Operand, ...], *, sparse: bool = False
) -> None:
    """Lower wgmma.mma_async{.sp}.sync.aligned.shape{.satfinite}.d.a.b{.and.popc} d, a, b{, metadata, selector},
    scale-d{, scales{, turns}}."""
    shape, *rest = modifiers
    clamped = rest[0] == "satfinite"
    d_type, a_type, b_type, *how = rest[clamped:]
    if tuple(how) not in ((), ("and", "popc")) or (clamped and d_type != "s32") or (how and sparse):
        raise UnhandledForm
    n, k = _columns(shape, a_type)
    d, a, b, *more = operands
    shared = type(a) is not Vector
    found = _OF_TYPES[k, d_type, a_type, b_type, "sp" if sparse else how[0] if how else "mul", shared]
    selected: tuple[Register, ...] = ()
    selector = 0
    if sparse:
        metadata, constant, *more = more
        selected, selector = (e.read(metadata, "b32"),), integer_constant(constant)
        check_metadata(e, found.part, selected[0], selector, ordered=False)
        if shared:  # registers of a vector have one width
            selected = (e.emit("cvt.b64.u32", selected[0]),)
    uses, auxiliary = _flags(e, a_type, more, shared=shared)
    auxiliary |= n // 8 | CLAMPS * clamped | selector << GROUP_SELECTOR_SHIFT
    count = vector_counts(found.name, auxiliary)[0]
    of_a = (e.read(a, "b64"),) if shared else read_all(e, a, 4, "b32")
    sums = read_all(e, d, count, "b32")
    results = targets(e, d, count, "b32")
    e.effect_into(found.name, (*of_a, *selected, e.read(b, "b64"), *sums, uses), results, auxiliary=auxiliary)
    write_all(e, d, results)


def _flags(e: Emitter, type_: str, more: list[Operand], *, shared: bool) -> tuple[Register, int]:
    """Return whether the accumulator is used; signs and layouts as aux."""
    uses, *constants = more
    used = e.constant("p", bool(uses.value)) if isinstance(uses, Number) else e.read(uses, "p")
    values = [integer_constant(constant) for constant in constants]
    turns = 1 + shared if type_ in _TURNED else 0
    if len(values) != (0 if type_ in _ONES else 2 + turns):
        raise UnhandledForm
    auxiliary = 0
    for value, bit in zip(values[:2], (NEGATES_A, NEGATES_B), strict=False):
        auxiliary |= bit * {1: False, -1: True}[_to_signed(value)]
    for value, bit in zip(values[2:], (TURNS_A, TURNS_B) if shared else (TURNS_B,), strict=False):
        auxiliary |= bit * {0: False, 1: True}[value]
    return used, auxiliary


def _to_signed(value: int) -> int:
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def group(e: Emitter, instruction: Instruction) -> None:
    match instruction.modifiers:
        case ("mma_async", "sync", "aligned", *rest):
            _group_multiply(e, tuple(rest), instruction.operands)
        case ("mma_async", "sp", "sync", "aligned", *rest):
            _group_multiply(e, tuple(rest), instruction.operands, sparse=True)
        case ("fence", "sync", "aligned"):
            () = instruction.operands
            e.effect("wgmma.fence")
        case ("commit_group", "sync", "aligned"):
            () = instruction.operands
            e.effect("wgmma.commit")
        case ("wait_group", "sync", "aligned"):
            (number,) = instruction.operands
            e.effect("wgmma.wait", immediate=integer_constant(number))
        case _:
            raise UnhandledForm


HANDLERS: dict[str, Handler] = {"wgmma": group}
