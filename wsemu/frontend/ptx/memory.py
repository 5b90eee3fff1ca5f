"""Loads, stores, and conversions of addresses between state spaces (PTX ISA 9.7.9, 9.7.13).

Cache operators have no effect here, except for `.nc`: such a load, and `ldu`, requires bytes that no thread writes
during the launch.  A relaxed, acquire or release access is strong: it is ordered with other strong accesses to its
location.  In the model these are atomics, so a load becomes an `or` with 0 and a store an `exch`.  A volatile access of
a number in global memory is a relaxed one of the scope `sys` (PTX ISA, "ld").  A volatile access of shared memory is
also relaxed if some loop of the kernel polls a volatile load of shared memory.

Other volatile accesses are plain: they order nothing, and may race.  An instruction with a modifier that is not listed
here is not modeled: the run ends if a lane reaches it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.frontend.assemble.graph import TRUE, Register
from wsemu.frontend.ptx.emit import Emitter
from wsemu.frontend.ptx.forms import UnhandledForm, pick_flags
from wsemu.frontend.ptx.heap import heap_place
from wsemu.frontend.ptx.short_addresses import SPACES as SMALL
from wsemu.frontend.ptx.short_addresses import extend_address
from wsemu.frontend.ptx.sizes import TYPE_BYTES, variable_size
from wsemu.frontend.ptx.syntax import Address, Instruction, Name, Number, Operand
from wsemu.frontend.ptx.variables import WINDOW, CallParameter, EntryParameter, FramePlace, LocalPlace
from wsemu.model.data import NamedTuple
from wsemu.model.grid import FARTHEST
from wsemu.model.isa import (
    ACQUIRES,
    ANYWHERE,
    AS_LOAD,
    AS_STORE,
    CLUSTER_WIDE,
    FORBIDS_SHIFT,
    FRESH,
    IN_ARRAY,
    IN_CONSTANT,
    IN_LOCAL,
    IN_SHARED,
    LOCAL,
    LOWER_HALF,
    NO_STORE,
    NON_COHERENT,
    OF_CLUSTER,
    OF_CTA,
    OF_GPU,
    OFFSET_MASK,
    OWN_SHARED,
    PARTS_SHIFT,
    RELEASES,
    SEGMENT_SHIFT,
    SHARED,
    UPPER_HALF,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

SPACES = {
    "param": "param", "param::entry": "param", "param::func": "param",
    "shared": "shared", "shared::cta": "shared", "shared::cluster": "shared",
    "global": "global", "const": "const", "local": "local",
}  # fmt: skip
"""state spaces of an access; an access without one has a generic address"""
FENCES = {"cta": "fence.cta", "cluster": "fence.cta", "gpu": "fence.gpu", "gl": "fence.gpu", "sys": "fence.sys"}
"""fence of each scope; without clusters each CTA is its own cluster, and with them CLUSTER_WIDE distinguishes the
two"""
STRONG = frozenset({"relaxed", "acquire", "release", "acq_rel", "mmio"})
_ORDERS = STRONG - {"mmio"}
_EXCLUSIVE = frozenset({"weak", "volatile", *_ORDERS})
_CACHES = frozenset({"ca", "cg", "cs", "cv", "lu", "wb", "wt"})
"""cache operators of loads and stores"""
SCOPES = frozenset({"cta", "cluster", "gpu", "sys"})
_NARROW = {"cta": OF_CTA, "cluster": OF_CLUSTER, "gpu": OF_GPU}
"""scopes that exclude other CTAs or other GPUs"""
LENGTHS = {"v2": 2, "v4": 4, "v8": 8}
_HINTS = frozenset(
    {
        *(f"L{n}::evict_{what}" for n in (1, 2) for what in ("normal", "unchanged", "first", "last")),
        *("L1::no_allocate", "L2::cache_hint", "L2::64B", "L2::128B", "L2::256B"),
    }
)
"""cache hints, which do not affect results"""
_PLACE = frozenset({*SPACES, *LENGTHS, *_HINTS})
_FRESH = frozenset({"cg", "cv", "volatile"})
"""modifiers of loads that bypass the cache of a multiprocessor"""
_ORDERED = frozenset({"weak", "volatile", "relaxed", "mmio", *SCOPES})
_KNOWN = {
    "ld": _PLACE | _ORDERED | {"acquire", "ca", "cg", "cs", "lu", "cv", "nc"},
    "ldu": frozenset({"global", *LENGTHS}),
    "st": _PLACE | _ORDERED | {"release", "wb", "cg", "cs", "wt"},
    "cvta": frozenset({*SPACES, "to"}),
}
"""opcode -> valid modifiers besides the type, which is last"""
_ONE_ACCESS = (4, 8, 16)
"""sizes in bytes of vectors whose strong access is a single access, as on hardware; CUB relies on that"""
_ATOMIC_BITS = 64
"""maximum bits of an atomic of the bytecode"""
_ELEMENTS = {"f": "float", "s": "int", "u": "uint", "b": "uint"}


def element_name(type_: str) -> str:
    """Return NumPy's name of a PTX type, for reports."""
    if type_ in ("f16x2", "bf16x2", "bf16"):
        return f"uint{8 * TYPE_BYTES[type_]}"
    return _ELEMENTS[type_[0]] + str(8 * TYPE_BYTES[type_])


def state_space(instruction: Instruction) -> str:
    """Return the state space of an access: shared, global, local, const, param or "" for a generic address."""
    return next((SPACES[m] for m in instruction.modifiers if m in SPACES), "")


_OWN = frozenset({"shared", "shared::cta"})


FORBIDDEN = {
    "shared": ANYWHERE & ~IN_SHARED,
    "local": ANYWHERE & ~IN_LOCAL,
    "global": IN_SHARED | IN_LOCAL,
    "const": ANYWHERE & ~IN_CONSTANT,
    "param": IN_SHARED | IN_ARRAY,
}
"""state space of an access -> kinds of memory that it must not access; parameters are in local memory, or read-only"""


def space_bits(e: Emitter, modifiers: Iterable[str]) -> int:
    """Return the constraints of an access on its memory (PTX ISA, "State spaces": `.shared` is `.shared::cta`).  These
    are the kinds of memory that it excludes, and OWN_SHARED if it goes to the CTA's own shared memory in a program that
    has addresses of other CTAs."""
    names = [m for m in modifiers if m in SPACES]
    own = OWN_SHARED if e.reached.maps_addresses and not _OWN.isdisjoint(names) else 0
    return own | (FORBIDDEN[SPACES[names[0]]] << FORBIDS_SHIFT if names else 0)


def access_scope(instruction: Instruction) -> int:
    """Return the scope of a strong access, as the bytecode encodes it: 0 for `.sys`; an atomic without a scope has
    `.gpu`."""
    default = OF_GPU if instruction.opcode in ("atom", "red") and "sys" not in instruction.modifiers else 0
    return next((_NARROW[m] for m in instruction.modifiers if m in _NARROW), default)


def strong_bits(e: Emitter, instruction: Instruction) -> int:
    """Return the bits for the space and the scope of a strong access."""
    return space_bits(e, instruction.modifiers) | access_scope(instruction)


def lower_address(
    e: Emitter, operand: Operand, space: str, size: Register | None = None
) -> tuple[Register, int, str | None]:
    """Return register and constant offset of an address, and the variable if it is named.  `size`: the bytes of a copy
    there (b32)."""
    register, offset, name = _compute_address(e, operand, space)
    if name is None and space in ("", "global") and e.reached.allocates:
        at = e.emit("add.b64", register, e.constant("b64", offset)) if offset else register
        return heap_place(e, at, size), 0, None
    return register, (offset + (1 << 63)) % (1 << 64) - (1 << 63), name  # address arithmetic wraps


def _compute_address(e: Emitter, operand: Operand, space: str) -> tuple[Register, int, str | None]:
    if type(operand) is not Address:
        raise e.error(operand.at, "an address belongs here", "write it in brackets: `[%rd1+16]`")
    base = operand.base
    if isinstance(base, Number):
        start = WINDOW if space == "shared" else 0
        return e.constant("b64", start + base.value + operand.offset), 0, None
    found = e.lookup(base)
    if not isinstance(found, int):
        if isinstance(found, (LocalPlace, FramePlace)):
            return found.at(e, operand.offset)
        register, offset, name = found.direct(e)
        return register, offset + operand.offset, name or None
    bits = e.bits(found)
    if space in SMALL and e.reached.short_names:
        return extend_address(e, e.resize(found, 64)), operand.offset, None
    if space != "shared" and bits != 64:
        if space != "local":
            raise e.error(base.at, f"`{base.text}` has {bits} bits: no address of this space", "use a register of 64")
        return e.resize(found, 64), (LOCAL << SEGMENT_SHIFT) + operand.offset, None
    if space == "shared":
        if bits < 32:
            raise e.error(base.at, f"`{base.text}` has {bits} bits: no address", "use a register of 32 or 64")
        return (found if bits == 64 else e.sign_extend(found)), WINDOW + operand.offset, None
    return found, operand.offset, None


def full_address(e: Emitter, operand: Operand, space: str, size: Register | None = None) -> Register:
    """Return an address with its offset in one register.  `size`: the bytes of a copy there (b32)."""
    base, offset, _ = lower_address(e, operand, space, size)
    return e.emit("add.b64", base, e.constant("b64", offset)) if offset else base


# -- loads and stores ------------------------------------------------------------------------------------------------
def load(e: Emitter, instruction: Instruction) -> None:
    """Lower `ld` and `ldu`, to one register or a vector."""
    type_, length, space = _shape(e, instruction)
    if not type_:
        return
    if "nc" in instruction.modifiers and "global" not in instruction.modifiers:
        raise e.error(instruction.at, "`.nc` requires `.global`: ptxas refuses it", "write `ld.global.nc`")
    destination, source = _two_operands(e, instruction)
    targets = e.elements(destination, length)
    if space == "param" and _load_parameter(e, instruction, type_, targets, source):
        return
    address, offset, array = lower_address(e, source, space)
    bits = 8 * TYPE_BYTES[type_]
    strong = _strong(e, instruction, space, length, bits)
    if not _ORDERS.isdisjoint(instruction.modifiers):
        undefined_in_local(e, instruction, address, offset)
    if strong:
        where = Strong(address, offset, array, element_name(type_), AS_LOAD | NO_STORE | strong_bits(e, instruction))
        for target, part in zip(targets, load_parts(e, where, length, bits), strict=True):
            e.write_register(target, part, _sign(type_))
    else:
        registers = tuple([e.target(target, f"b{bits}") for target in targets])
        element = element_name(type_)
        constant = NON_COHERENT if instruction.opcode == "ldu" or "nc" in instruction.modifiers else 0
        fresh = 0 if _FRESH.isdisjoint(instruction.modifiers) else FRESH
        auxiliary = e.unused | constant | fresh | space_bits(e, instruction.modifiers)
        for base, at, some in _halves(e, instruction, address, offset, registers, bits):
            operation = f"ld.b{bits}" if length == 1 else f"ld.v{len(some)}.b{bits}"
            e.effect_into(operation, (base,), some, at, auxiliary=auxiliary, array=array, element=element)
        for target, register in zip(targets, registers, strict=True):
            e.write_register(target, register, _sign(type_))
    if "acquire" in strong:
        fence_of_instruction(e, instruction, ACQUIRES)


def store(e: Emitter, instruction: Instruction) -> None:
    """Lower `st`, from one register or a vector, and `st.bulk`."""
    if instruction.modifiers[:1] == ("bulk",):
        _fill(e, instruction)
        return
    type_, length, space = _shape(e, instruction)
    if not type_:
        return
    destination, source = _two_operands(e, instruction)
    width = f"b{8 * TYPE_BYTES[type_]}"
    values = tuple([e.read(item, _stored_type(width, item, type_)) for item in e.elements(source, length)])
    if space == "param" and _store_parameter(e, type_, values, destination):
        return
    address, offset, array = lower_address(e, destination, space)
    strong = _strong(e, instruction, space, length, int(width[1:]))
    if not _ORDERS.isdisjoint(instruction.modifiers):
        undefined_in_local(e, instruction, address, offset)
    if "release" in strong:
        fence_of_instruction(e, instruction, RELEASES)
    if strong:
        where = Strong(address, offset, array, element_name(type_), AS_STORE | strong_bits(e, instruction))
        store_parts(e, where, values)
        return
    how = space_bits(e, instruction.modifiers)
    for base, at, some in _halves(e, instruction, address, offset, values, int(width[1:])):
        operation = f"st.{width}" if length == 1 else f"st.v{len(some)}.{width}"
        e.effect(operation, (base, *some), (), at, how, array=array, element=element_name(type_))


class Strong(NamedTuple):
    """The properties of a strong access that both halves of a 128-bit vector share."""

    address: Register
    offset: int
    array: str | None
    element: str
    how: int


def load_parts(e: Emitter, where: Strong, length: int, bits: int) -> list[Register]:
    """Emit a strong load, in halves if it has 128 bits; return the elements."""
    if bits * length > _ATOMIC_BITS:
        _check_alignment(e, where)
        upper = load_parts(e, _half(where, UPPER_HALF), length // 2, bits)
        return [*load_parts(e, _half(where, LOWER_HALF), length // 2, bits), *upper]
    width = f"b{bits * length}"
    (value,) = e.effect(
        f"atom.or.{width}", (where.address, e.constant(width, 0)), (width,), where.offset,
        auxiliary=where.how | _parts(length), array=where.array, element=where.element,
    )  # fmt: skip
    shifts = [e.constant(width, n * bits) for n in range(length)]
    return [e.resize(e.emit(f"shr.u{width[1:]}", value, by) if n else value, bits) for n, by in enumerate(shifts)]


def store_parts(e: Emitter, where: Strong, values: tuple[Register, ...]) -> None:
    """Emit a strong store, in halves if it has 128 bits."""
    length = len(values)
    if e.bits(values[0]) * length > _ATOMIC_BITS:
        _check_alignment(e, where)
        store_parts(e, _half(where, LOWER_HALF), values[: length // 2])
        store_parts(e, _half(where, UPPER_HALF), values[length // 2 :])
        return
    whole, how = _join_vector(e, values), where.how | _parts(length)
    width = f"b{e.bits(whole)}"
    operands = where.address, whole
    e.effect(f"atom.exch.{width}", operands, (width,), where.offset, how, array=where.array, element=where.element)


def _half(where: Strong, which: int) -> Strong:
    offset = where.offset + (_ATOMIC_BITS // 8 if which == UPPER_HALF else 0)
    return where._replace(offset=offset, how=where.how | which)


def _check_alignment(e: Emitter, where: Strong) -> None:
    """End the run in lanes whose 128-bit vector is misaligned, because its halves alone would only have to be aligned
    to 8."""
    at = e.emit("add.b64", where.address, e.constant("b64", where.offset)) if where.offset else where.address
    undefined_where(
        e,
        emit_misaligned_test(e, at, 16),
        "a strong access of 16 bytes at no multiple of 16",
        "PTX: the address of an access is a multiple of its size; otherwise the behavior is undefined",
        "align the vector to 16 bytes",
    )


_MOST_NARROW = 4
"""maximum number of elements of a vector with elements of less than 32 bits"""
_MOST_BITS, _WIDE_BITS = 128, 256
"""maximum bits of an access of the bytecode, and of the widest vector"""


def _halves(
    e: Emitter, instruction: Instruction, address: Register, offset: int, values: tuple[Register, ...], bits: int
) -> list[tuple[Register, int, tuple[Register, ...]]]:
    """Return address, offset and elements of each access of a vector: one of 256 bits is two of 128."""
    if bits * len(values) <= _MOST_BITS:
        return [(address, offset, values)]
    moved = e.emit("add.b64", address, e.constant("b64", offset))  # the first half may load into `address`
    undefined_where(
        e,
        emit_misaligned_test(e, moved, _WIDE_BITS // 8),
        f"`{spelling(instruction)}` at an address that is not a multiple of 32",
        "PTX: the address of a vector is a multiple of its size; otherwise the behavior is undefined",
        "align the address, or use two accesses of 128 bits",
    )
    half = len(values) // 2
    return [(moved, 0, values[:half]), (moved, _MOST_BITS // 8, values[half:])]


def _parts(length: int) -> int:
    return length.bit_length() - 1 << PARTS_SHIFT


def _join_vector(e: Emitter, values: tuple[Register, ...]) -> Register:
    """Return the elements of a vector in one register, the first one lowest."""
    bits = e.bits(values[0])
    width = bits * len(values)
    whole, *others = (e.resize(value, width) for value in values)
    for n, value in enumerate(others, 1):
        whole = e.emit(f"or.b{width}", whole, e.emit(f"shl.b{width}", value, e.constant(f"b{width}", n * bits)))
    return whole


def _fill(e: Emitter, instruction: Instruction) -> None:
    """Lower `st.bulk{.weak}{.shared::cta} [a], bytes, 0`, which stores zeros."""
    pick_flags(instruction.modifiers[1:], frozenset({"weak"}), frozenset({"shared::cta"}))
    destination, size, value = instruction.operands
    if type(value) is not Number or value.value:
        raise UnhandledForm
    address, offset, array = lower_address(e, destination, state_space(instruction))
    e.effect("bulk.zero", (address, e.read(size, "b32")), (), offset, array=array)


def _strong(e: Emitter, instruction: Instruction, space: str, length: int, bits: int) -> frozenset[str]:
    """Return the modifiers that make an access strong; none for a weak one."""
    known = space == "global" or (space == "shared" and e.reached.polls_shared)
    volatile = "volatile" in instruction.modifiers and known and length == 1 and bits >= 32
    return frozenset({"volatile"}) if volatile else STRONG.intersection(instruction.modifiers)


def _stored_type(width: str, operand: Operand, type_: str) -> str:
    """Return the type as which a stored operand is read: a decimal literal must be a floating-point number."""
    return type_ if type(operand) is Number and type_ in ("f32", "f64") else width


def _shape(e: Emitter, instruction: Instruction) -> tuple[str, int, str]:
    """Return (type, elements, state space); no type for an access that is not modeled, which ends the run here."""
    modifiers = instruction.modifiers
    type_ = modifiers[-1] if modifiers else ""
    if not _has_known_modifiers(instruction):
        e.emit_unsupported()
        return "", 1, ""
    if type_ not in TYPE_BYTES:
        raise e.error(instruction.at, f"`{spelling(instruction)}` names no type", "end it with a type such as .f32")
    _check_order(e, instruction)
    length = next((LENGTHS[m] for m in modifiers if m in LENGTHS), 1)
    strong = not STRONG.isdisjoint(modifiers)
    if type_ == "b128" and length == 1 and not strong:
        type_, length = "b64", 2
    size = TYPE_BYTES[type_]
    wide = size * length == _WIDE_BITS // 8 and not strong and state_space(instruction) in ("", "global")
    strange = length > _MOST_NARROW and size < 4  # ptxas accepts these vectors, although PTX does not define them
    strange |= strong and length > 1 and size * length not in _ONE_ACCESS
    if (size * length > 16 and not wide) or size > 8 or strange:
        e.emit_unsupported()
        type_ = ""
    return type_, length, state_space(instruction)


def _check_order(e: Emitter, instruction: Instruction) -> None:
    """Raise a KernelError for memory orders that ptxas refuses (PTX ISA, "ld" and "st")."""
    given = frozenset(instruction.modifiers)
    strong = given & _ORDERS
    wrong = (
        (len(given & _EXCLUSIVE) > 1, "give one of `.weak`, `.volatile`, `.relaxed`, `.acquire` and `.release`"),
        ("mmio" in given and not given >= {"relaxed", "sys"}, "write `.mmio.relaxed.sys`"),
        (bool(strong or "volatile" in given) and not given.isdisjoint(_CACHES), "leave the cache operator out"),
        (bool(strong) and state_space(instruction) in ("local", "const", "param"), "use a plain access"),
    )
    for refused, remedy in wrong:
        if refused:
            raise e.error(instruction.at, f"`{spelling(instruction)}`: ptxas refuses these modifiers together", remedy)


def _has_known_modifiers(instruction: Instruction) -> bool:
    """Return whether all modifiers besides the type are known."""
    modifiers = instruction.modifiers
    if modifiers and modifiers[-1] in TYPE_BYTES:
        modifiers = modifiers[:-1]
    return _KNOWN[instruction.opcode].issuperset(modifiers)


def spelling(instruction: Instruction) -> str:
    return ".".join((instruction.opcode, *instruction.modifiers))


def _two_operands(e: Emitter, instruction: Instruction) -> tuple[Operand, Operand]:
    """Return the two operands; a cache policy after them is ignored."""
    most = 3 if "L2::cache_hint" in instruction.modifiers else 2
    if len(instruction.operands) > most:
        raise UnhandledForm
    if len(instruction.operands) < 2:
        raise e.error(
            instruction.at, f"`{spelling(instruction)}` has too few operands", "give a register and an address"
        )
    return instruction.operands[0], instruction.operands[1]


def _sign(type_: str) -> str:
    return "s" if type_[0] == "s" else "u"


def emit_fence(e: Emitter, scope: str, auxiliary: int) -> None:
    """Emit a fence of a scope."""
    e.effect(FENCES[scope], immediate=CLUSTER_WIDE if scope == "cluster" else 0, auxiliary=auxiliary)


def fence_of_instruction(e: Emitter, instruction: Instruction, auxiliary: int) -> None:
    """Emit the fence of the instruction's scope; without a scope, of the whole system."""
    emit_fence(e, next((m for m in instruction.modifiers if m in FENCES), "sys"), auxiliary)


def emit_cta_rank(e: Emitter, address: Register) -> Register:
    """Return the rank of the CTA that contains an address, b64."""
    with e.looking_up():
        inside = e.emit("and.b64", address, e.constant("b64", OFFSET_MASK))
        return e.emit("shr.u64", inside, e.emit("cvt.b64.u32", e.special("window")))


def emit_segment_number(e: Emitter, address: Register, offset: int) -> Register:
    """Return the number of the segment of an address."""
    with e.looking_up():
        there = e.emit("add.b64", address, e.constant("b64", offset))
        return e.emit("shr.u64", there, e.constant("b64", SEGMENT_SHIFT))


def refuse_unless_shared(e: Emitter, instruction: Instruction, address: Register, offset: int) -> None:
    """End the run if a generic address is outside of shared memory."""
    if not state_space(instruction):
        outside = e.emit("setp.ne.b64", emit_segment_number(e, address, offset), e.constant("b64", SHARED))
        refuse_where(e, outside, f"`{spelling(instruction)}` outside of shared memory")


def refuse_where(e: Emitter, condition: Register, what: str) -> None:
    """End the run, as not modeled, in lanes that execute this instruction and for which a condition is true."""
    if e.guard != TRUE:
        condition = e.emit("andn.pred" if e.negated else "and.pred", condition, e.guard)
    kept = e.guard, e.negated
    e.guard, e.negated = condition, False
    e.emit_unsupported(what, partly=True)
    e.guard, e.negated = kept


def undefined_where(e: Emitter, condition: Register, message: str, note: str, remedy: str) -> None:
    """End the run with `undefined-behavior` in lanes that execute this instruction and for which a condition is
    true."""
    if e.guard != TRUE:
        condition = e.emit("andn.pred" if e.negated else "and.pred", condition, e.guard)
    kept = e.guard, e.negated
    e.guard, e.negated = condition, False
    e.emit_undefined(message, note, remedy)
    e.guard, e.negated = kept


def undefined_outside_global(e: Emitter, address: Register, what: str) -> None:
    """End the run with `undefined-behavior` in lanes whose generic address is not in global memory."""
    undefined_where(
        e,
        e.emit("setp.le.u64", emit_segment_number(e, address, 0), e.constant("b64", LOCAL)),
        f"`{what}` of an address that is not in global memory",
        "PTX: the behavior is undefined if the address does not lie in global memory",
        "give an address of global memory",
    )


def undefined_in_local(e: Emitter, instruction: Instruction, address: Register, offset: int) -> None:
    """End the run with `undefined-behavior` in lanes whose strong access, at a generic address, is in local memory;
    without local memory in the file, no address is there."""
    if state_space(instruction) or ".local" not in e.module.file.text:
        return
    undefined_where(
        e,
        e.emit("setp.eq.b64", emit_segment_number(e, address, offset), e.constant("b64", LOCAL)),
        f"`{spelling(instruction)}` in local memory",
        "PTX: a generic address of a strong access is in global or shared memory; otherwise the behavior is undefined",
        "use a plain operation: no other thread reaches the variable",
    )


def emit_misaligned_test(e: Emitter, address: Register, bytes_: int) -> Register:
    """Emit a test of whether an address is misaligned for a number of bytes, a power of 2."""
    with e.looking_up():
        rest = e.emit("and.b64", address, e.constant("b64", bytes_ - 1))
        return e.emit("setp.ne.b64", rest, e.constant("b64", 0))


# -- parameters ------------------------------------------------------------------------------------------------------
def _parameter(e: Emitter, operand: Operand) -> tuple[EntryParameter | CallParameter, int] | None:
    """Return the parameter that an address names, and the offset in it; None for a register."""
    if type(operand) is Address and type(operand.base) is Name:
        found = e.lookup(operand.base)
        if isinstance(found, (EntryParameter, CallParameter)):
            return found, operand.offset
    return None


def _load_parameter(
    e: Emitter, instruction: Instruction, type_: str, targets: tuple[Operand, ...], source: Operand
) -> bool:
    """Return whether the load names bytes of a parameter; a load through a register is a load from memory."""
    named = _parameter(e, source)
    if named is None:
        return False
    parameter, offset = named
    _check_unguarded(e, source)
    size = TYPE_BYTES[type_]
    if _leaves(parameter, offset, size * len(targets)):
        return False
    for k, target in enumerate(targets):
        value = parameter.load(e, f"b{8 * size}", offset + k * size)
        if value is None:
            e.emit_unsupported(f"`{spelling(instruction)}` of a part of `{parameter.variable.name}`")
            return True
        e.write_register(target, value, _sign(type_))
    return True


def _check_unguarded(e: Emitter, operand: Operand) -> None:
    """Raise a KernelError for a guarded access to an argument or result of a call that the function makes."""
    instruction, function = e.instruction, e.frames[-1].function
    assert instruction is not None
    assert type(operand) is Address
    assert type(operand.base) is Name
    name = operand.base.text
    if instruction.guard is None or name in [own.name for own in (*function.parameters, *function.results)]:
        return
    raise e.error(
        instruction.at,
        f"`{spelling(instruction)}` of `{name}` has a guard: ptxas refuses it",
        "access it without a guard, and select the value",
    )


def _leaves(parameter: EntryParameter | CallParameter, offset: int, size: int) -> bool:
    """Return whether an access exceeds the bytes of a parameter; such an access is lowered as a memory access, which
    reports the error."""
    whole = variable_size(parameter.variable)
    return bool(whole) and not 0 <= offset <= whole - size


def _store_parameter(e: Emitter, type_: str, values: tuple[Register, ...], destination: Operand) -> bool:
    named = _parameter(e, destination)
    if named is None:
        return False
    parameter, offset = named
    _check_unguarded(e, destination)
    if isinstance(parameter, EntryParameter):
        raise e.error(destination.at, f"`{parameter.variable.name}` is read-only", "store to memory")
    size = TYPE_BYTES[type_]
    if _leaves(parameter, offset, size * len(values)):
        return False
    for k, value in enumerate(values):
        into = parameter.store(e, f"b{8 * size}", offset + k * size)
        e.effect_into(f"mov.b{8 * size}", (value,), (into,))
    return True


# -- addresses -------------------------------------------------------------------------------------------------------
def convert_address(e: Emitter, instruction: Instruction) -> None:
    """Lower `cvta`: addresses in shared memory have two forms here; addresses in other spaces may be short.  If a
    generic address is in another space, `cvta.to.shared` returns an address outside of shared memory."""
    if not _has_known_modifiers(instruction):
        e.emit_unsupported()
        return
    destination, source = _two_operands(e, instruction)
    value, space, to = e.read(source, "b64"), state_space(instruction), "to" in instruction.modifiers
    if space == "global":  # both forms of such an address are one number
        e.write_register(destination, value)
        return
    result = _convert(e, value, space, to=to)
    if to:
        e.relative.append(result)
    else:
        e.generic.add(result)
    e.write_register(destination, result)


def _convert(e: Emitter, value: Register, space: str, *, to: bool) -> Register:
    """Return a new register with the result of `cvta`, or of `cvta.to`."""
    if space != "shared":
        return e.emit("mov.b64", extend_address(e, value) if space in SMALL else value)
    if not to:
        return e.emit("or.b64", value, e.constant("b64", WINDOW))
    with e.looking_up():
        number = e.emit("shr.u64", value, e.constant("b64", SEGMENT_SHIFT))
        inside = e.emit("setp.eq.b64", number, e.constant("b64", SHARED))
    offset = e.emit("and.b64", value, e.constant("b64", OFFSET_MASK))
    # a sum keeps the address in its variable (`confine.py`)
    away = e.emit("selp.b64", e.constant("b64", 0), e.constant("b64", 1 << FARTHEST), inside)
    return e.emit("add.b64", offset, away)


_SEGMENTS: dict[str, Callable[[Emitter, Register], Register]] = {
    "shared::cluster": lambda e, n: e.emit("setp.eq.b64", n, e.constant("b64", SHARED)),
    "local": lambda e, n: e.emit("setp.eq.b64", n, e.constant("b64", LOCAL)),
    "global": lambda e, n: e.emit("setp.gt.u64", n, e.constant("b64", LOCAL)),
}
"""state space -> test of whether a segment is in it; variables in constant memory and parameters have no window here"""


def is_space(e: Emitter, instruction: Instruction) -> None:
    """Lower `isspacep`: constant memory counts as global memory here."""
    (space,) = instruction.modifiers or ("",)
    if space in ("shared", "shared::cta"):
        _is_own(e, instruction)
        return
    if space not in _SEGMENTS:
        e.emit_unsupported()
        return
    destination, source = _two_operands(e, instruction)
    address = e.read(source, "b64")
    with e.looking_up():
        number = e.emit("shr.u64", address, e.constant("b64", SEGMENT_SHIFT))
    if space == "global":
        refuse_where(e, e.emit("setp.eq.b64", number, e.constant("b64", 0)), "`isspacep.global` of no address")
    if e.reached.names_parameters and space in ("global", "local"):
        local = e.emit("setp.eq.b64", number, e.constant("b64", LOCAL))
        refuse_where(e, local, f"`isspacep.{space}` of an address that may be a parameter's")
    e.write_register(destination, _SEGMENTS[space](e, number))


def _is_own(e: Emitter, instruction: Instruction) -> None:
    """Lower a test of whether an address is in the shared memory of the CTA."""
    destination, source = _two_operands(e, instruction)
    window = e.emit("cvt.b64.u32", e.special("window"))
    address = e.read(source, "b64")
    with e.looking_up():
        own, place = (e.emit("shr.u64", one, window) for one in (e.special("shared"), address))
    e.write_register(destination, e.emit("setp.eq.b64", own, place))


HANDLERS: dict[str, Callable[[Emitter, Instruction], None]] = {
    "ld": load,
    "ldu": load,
    "st": store,
    "cvta": convert_address,
    "isspacep": is_space,
}
