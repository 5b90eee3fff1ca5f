"""Modifiers of an instruction (types, rounding, flags), which select its handler."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from wsemu.frontend.assemble.compound import COMPOUND
from wsemu.model.data import NamedTuple
from wsemu.model.isa import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.frontend.assemble.graph import Register
    from wsemu.frontend.ptx.emit import Emitter, Handler
    from wsemu.frontend.ptx.steps import Steps
    from wsemu.frontend.ptx.syntax import Instruction, Operand

    Lower = Callable[[Emitter, tuple[Operand, ...]], None]
    """function that lowers one form of an instruction, given its operands"""

BITS = {
    **{f"{kind}{bits}": bits for kind in "bus" for bits in (8, 16, 32, 64)},
    "f16": 16,
    "bf16": 16,
    "f32": 32,
    "f64": 64,
    "tf32": 32,
    "pred": 1,
    "u16x2": 32,
    "s16x2": 32,
    "f16x2": 32,
    "bf16x2": 32,
    "f32x2": 64,
    "e4m3x2": 16,
    "e2m1x2": 8,
    "e2m3x2": 16,
    "e3m2x2": 16,
    "ue8m0x2": 16,
    "e5m2x2": 16,
}
"""type -> bits (PTX ISA 5.2)"""
PAIRS = {"f16x2": "f16", "bf16x2": "bf16"}
"""type of a pair -> type of its halves"""
ROUNDINGS = frozenset({"rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi"})


class UnhandledForm(Exception):
    """The form of a known instruction is not supported."""


class Form(NamedTuple):
    """The modifiers of an instruction, sorted by meaning."""

    types: tuple[str, ...]
    rounding: str
    """`""` where none is given"""
    flags: tuple[str, ...]
    """all other modifiers, in their order"""

    def only(self, *allowed: str) -> Form:
        """Return this form if it has no other flags."""
        if not set(self.flags) <= set(allowed):
            raise UnhandledForm
        return self

    @property
    def type(self) -> str:
        """Return the single type."""
        if len(self.types) != 1:
            raise UnhandledForm
        return self.types[0]

    def find_flag(self, *flags: str) -> str:
        """Return which of `flags` is present."""
        found = [flag for flag in self.flags if flag in flags]
        if len(found) != 1:
            raise UnhandledForm
        return found[0]


@functools.cache
def parse_form(modifiers: tuple[str, ...]) -> Form:
    """Sort modifiers; raise UnhandledForm for two roundings."""
    types = tuple(m for m in modifiers if m in BITS)
    roundings = [m for m in modifiers if m in ROUNDINGS]
    if len(roundings) > 1:
        raise UnhandledForm
    flags = tuple(m for m in modifiers if m not in BITS and m not in ROUNDINGS)
    return Form(types, roundings[0] if roundings else "", flags)


def pick_flags(flags: tuple[str, ...], *groups: frozenset[str]) -> tuple[str, ...]:
    """Return the flag of each group, "" if there is none; raise UnhandledForm for two flags of a group and for a flag
    of no group."""
    found = [[flag for flag in flags if flag in group] for group in groups]
    if sum(map(len, found)) != len(flags) or any(len(some) > 1 for some in found):
        raise UnhandledForm
    return tuple([some[0] if some else "" for some in found])


def lower_by_form(choose: Callable[[Form], Lower]) -> Handler:
    """Return a handler that lowers by the result of `choose` for the form; an unknown form is not modeled."""

    @functools.cache
    def lowering(modifiers: tuple[str, ...]) -> Lower | None:
        try:
            return choose(parse_form(modifiers))
        except (UnhandledForm, KeyError, ValueError):
            return None

    def handler(e: Emitter, instruction: Instruction) -> None:
        lower = lowering(instruction.modifiers)
        if lower is None:
            e.emit_unsupported()
        else:
            lower(e, instruction.operands)

    return handler


def plain(operation: str) -> Lower:
    """Lower an instruction to a single operation of the bytecode."""
    # a KeyError means that the form does not exist
    row = COMPOUND.get(operation)
    count = 1 if operation.startswith("neg.") else 2
    types = (row,) * count if row else OPERATIONS[operation].operands

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        destination, *sources = operands
        registers = [e.read(source, type_) for source, type_ in zip(sources, types, strict=True)]
        e.write(destination, operation, *registers)

    return lower


def lower_formula(types: tuple[str, ...], formula: Callable[..., Register]) -> Lower:
    """Lower an instruction whose result is `formula(e, *registers)`, with its sources read as `types`."""

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        destination, *sources = operands
        registers = [e.read(source, type_) for source, type_ in zip(sources, types, strict=True)]
        e.write_register(destination, formula(e, *registers))

    return lower


def halves(e: Steps, pair: Register) -> tuple[Register, Register]:
    """Return the low and the high 16 bits of a b32 register."""
    return e.emit("cvt.b16.s32", pair), e.emit("cvt.b16.s32", e.emit("shr.u32", pair, e.constant("b32", 16)))


def join_halves(e: Steps, low: Register, high: Register) -> Register:
    """Return two b16 registers as one b32."""
    upper = e.emit("shl.b32", e.emit("cvt.b32.u16", high), e.constant("b32", 16))
    return e.emit("or.b32", e.emit("cvt.b32.u16", low), upper)


def both_words(formula: Callable[..., Register]) -> Callable[..., Register]:
    """Return a formula on pairs of f32 in b64 registers, made from a formula on f32."""

    def both(e: Steps, *pairs: Register) -> Register:
        half = e.constant("b64", 32)
        low = formula(e, *(e.emit("cvt.b32.s64", pair) for pair in pairs))
        high = formula(e, *(e.emit("cvt.b32.s64", e.emit("shr.u64", pair, half)) for pair in pairs))
        upper = e.emit("shl.b64", e.emit("cvt.b64.u32", high), half)
        return e.emit("or.b64", e.emit("cvt.b64.u32", low), upper)

    return both


def pairwise(formula: Callable[..., Register]) -> Callable[..., Register]:
    """Return a formula on two halves, made from a formula on 16 bits."""

    def both(e: Steps, *pairs: Register) -> Register:
        split = [halves(e, pair) for pair in pairs]
        return join_halves(e, formula(e, *(low for low, _ in split)), formula(e, *(high for _, high in split)))

    return both
