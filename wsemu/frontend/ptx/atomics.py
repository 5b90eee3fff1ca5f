"""Atomic operations of PTX (PTX ISA 9.7.13): atom and red."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.frontend.assemble.graph import Register
from wsemu.frontend.ptx.emit import Emitter, Handler
from wsemu.frontend.ptx.forms import UnhandledForm
from wsemu.frontend.ptx.memory import (
    LENGTHS,
    SCOPES,
    SPACES,
    STRONG,
    access_scope,
    element_name,
    emit_segment_number,
    fence_of_instruction,
    lower_address,
    refuse_where,
    spelling,
    state_space,
    strong_bits,
    undefined_in_local,
)
from wsemu.frontend.ptx.sizes import TYPE_BYTES
from wsemu.frontend.ptx.syntax import Instruction, Sink
from wsemu.model.isa import (
    ACQUIRES,
    ATOMICS,
    FLUSHING_ADD,
    OPERATIONS,
    RELEASES,
    SHARED,
)

if TYPE_CHECKING:
    pass


# -- atomics ---------------------------------------------------------------------------------------------------------
_BITWISE = frozenset({"and", "or", "xor", "exch", "cas"})


_COMBINES = _BITWISE | {"add", "inc", "dec", "min", "max"}


_ATOMIC = frozenset({*SPACES, *SCOPES, *STRONG, *_COMBINES, *LENGTHS, "L2::cache_hint"}) - {"mmio"}


_HALF_TYPES = frozenset({"f16", "bf16", "f16x2", "bf16x2"})


def atomic_operation(instruction: Instruction) -> str:
    """Return the atomic of the bytecode, or "" if there is none."""
    what = next((m for m in instruction.modifiers if m in _COMBINES), "")
    type_ = atomic_type(instruction)
    rest = set(instruction.modifiers) - {type_}
    if type_ in _HALF_TYPES:
        if "noftz" not in rest:
            return ""
        rest.discard("noftz")
    if not rest <= _ATOMIC or (_vector_length(instruction) > 1 and type_ not in _HALF_TYPES | {"f32"}):
        return ""
    if what in _BITWISE or (what == "add" and type_[:1] != "f"):
        type_ = f"b{type_[1:]}"
    name = f"atom.{what}.{type_}"
    if name == "atom.add.f32" and (state_space(instruction) == "global" or _vector_length(instruction) > 1):
        return FLUSHING_ADD
    narrow = type_ in ("b8", "b16") and what != "cas"
    return name if name in ATOMICS and not narrow else ""


def atomic_type(instruction: Instruction) -> str:
    """Return the type; types of vectors precede the operation."""
    return next((m for m in reversed(instruction.modifiers) if m in TYPE_BYTES), "")


def _vector_length(instruction: Instruction) -> int:
    return next((LENGTHS[m] for m in instruction.modifiers if m in LENGTHS), 1)


def _atomic_vector(e: Emitter, instruction: Instruction, operation: str) -> None:
    """Lower `atom.v2.f32.add`: adjacent elements, each of which is a separate atomic."""
    length, has_result = _vector_length(instruction), instruction.opcode == "atom"
    type_ = OPERATIONS[operation].result
    size = TYPE_BYTES[atomic_type(instruction)]
    address, offset, array = lower_address(e, instruction.operands[has_result], state_space(instruction))
    values = [e.read(item, type_) for item in e.elements(instruction.operands[has_result + 1], length)]
    order = next((m for m in instruction.modifiers if m in STRONG), "relaxed")
    if state_space(instruction) not in ("", "global") or size * length not in (4, 8, 16) or order != "relaxed":
        raise UnhandledForm
    if not state_space(instruction):
        outside = e.emit("setp.eq.b64", emit_segment_number(e, address, offset), e.constant("b64", SHARED))
        refuse_where(e, outside, f"`{spelling(instruction)}` outside of global memory")
    _must_be_aligned(e, instruction, address, offset, size * length)
    targets = e.elements(instruction.operands[0], length) if has_result else (Sink(instruction.at),) * length
    results = [e.target(target, type_) for target in targets]
    element = element_name(atomic_type(instruction))
    for n, (value, result) in enumerate(zip(values, results, strict=True)):
        place = offset + n * size
        e.effect_into(operation, (address, value), (result,), place, access_scope(instruction), array, element)
    for target, result in zip(targets, results, strict=True):
        e.write_register(target, result)


def _must_be_aligned(e: Emitter, instruction: Instruction, address: Register, offset: int, size: int) -> None:
    """End the run if a vector is not aligned to its size."""
    with e.looking_up():
        full = e.emit("add.b64", address, e.constant("b64", offset))
        wrong = e.emit("setp.ne.b64", e.emit("and.b64", full, e.constant("b64", size - 1)), e.constant("b64", 0))
    refuse_where(e, wrong, f"`{spelling(instruction)}` at no multiple of {size} bytes")


def atomic(e: Emitter, instruction: Instruction) -> None:
    """Lower `atom` and, without a result, `red`."""
    operation = atomic_operation(instruction)
    if not operation:
        e.emit_unsupported()
        return
    if _vector_length(instruction) > 1:
        _atomic_vector(e, instruction, operation)
        return
    has_result = instruction.opcode == "atom"
    operands = instruction.operands
    type_ = OPERATIONS[operation].result
    count = len(OPERATIONS[operation].operands) - 1
    wanted = has_result + 1 + count
    if len(operands) < wanted:
        raise e.error(instruction.at, f"`{spelling(instruction)}` has too few operands", f"give {wanted}")
    if len(operands) > wanted + ("L2::cache_hint" in instruction.modifiers):
        raise UnhandledForm
    destination = operands[0] if has_result else Sink(instruction.at)
    address, offset, array = lower_address(e, operands[has_result], state_space(instruction))
    undefined_in_local(e, instruction, address, offset)
    values = [e.read(operand, type_) for operand in operands[has_result + 1 : has_result + 1 + count]]
    order = next((m for m in instruction.modifiers if m in STRONG), "relaxed")
    if order in ("release", "acq_rel"):
        fence_of_instruction(e, instruction, RELEASES)
    result = e.target(destination, type_)
    element = element_name(atomic_type(instruction))
    how = strong_bits(e, instruction)
    e.effect_into(operation, (address, *values), (result,), offset, how, array=array, element=element)
    e.write_register(destination, result)
    if order in ("acquire", "acq_rel"):
        fence_of_instruction(e, instruction, ACQUIRES)


HANDLERS: dict[str, Handler] = {"atom": atomic, "red": atomic}
