"""Agreement of operands with the types of their instruction (PTX ISA 9.4), as ptxas 13.0 requires it.

A register agrees with a type of its size: a bit-size register with every type, an integer with integer and bit-size
types, a floating-point register with its own type and with bit-size types.  `ld`, `st` and `cvt` accept wider registers
(9.4.1).  Sources: PTX ISA 9.4, tables 27 and 28; the diagnostics of ptxas for each type of instruction and register.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from wsemu.frontend.ptx.forms import BITS
from wsemu.frontend.ptx.syntax import Address, Name, Number, Sink, Vector, split_results
from wsemu.model.data import NamedTuple

if TYPE_CHECKING:
    from wsemu.frontend.ptx.emit import Emitter
    from wsemu.frontend.ptx.syntax import Instruction, Operand
    from wsemu.model.errors import KernelError


class Expectation(NamedTuple):
    """The requirement on an operand."""

    type: str
    """type with which the operand agrees; empty: any operand"""
    wider: bool = False
    """true if wider registers agree too"""


_TWO, _THREE, _FOUR, _FIVE = ("t " * n for n in (2, 3, 4, 5))
_SHAPES = {
    **dict.fromkeys("add sub div rem mul mul24 and or xor copysign addc subc".split(), _THREE),
    **dict.fromkeys("abs neg not cnot brev rcp sqrt rsqrt sin cos lg2 ex2 tanh".split(), _TWO),
    **dict.fromkeys("mad mad24 madc fma sad prmt lop3 min max".split(), _FOUR),
    "mul.wide": "w t t",
    "mad.wide": "w t t w",
    **dict.fromkeys(("shl", "shr"), "t t u32"),
    "shf": "t t t u32",
    **dict.fromkeys(("popc", "clz", "bfind"), "u32 t"),
    "bfe": "t t u32 u32",
    "bfi": "t t t u32 u32",
    **dict.fromkeys(("dp4a", "dp2a"), "u32 u32 u32 u32"),
    **dict.fromkeys(("bmsk", "szext"), "u32 u32 u32"),
    "selp": _THREE,
    "setp": "- t t",
    "testp": "- t",
    "set": "first t t",
    "slct": "first first first t",
    "cvt": "~first ~t",
    "mov": _TWO,
    **dict.fromkeys(("ld", "ldu"), "~t"),
    "st": "- ~t",
    "st.async": "- t",
    "atom": "t - t t",
    **dict.fromkeys(("red", "red.async"), "- t"),
    "shfl": "t t b32 b32",
    "redux": "t t u32",
    "match": "u32 t u32",
    "mapa": "t t u32",
    **dict.fromkeys(("getctarank", "elect"), "u32"),
    "activemask": "b32",
    "cvta": _TWO,
    "createpolicy": "u64",
    "nanosleep": "u32",
    "mbarrier.init": "- u32",
    "mbarrier.pending_count": "u32 u64",
    "mbarrier.parity": "- - u32",
    **dict.fromkeys(("mbarrier.test_wait", "mbarrier.try_wait"), "- - u64"),
    **dict.fromkeys(("mbarrier.arrive", "mbarrier.arrive_drop"), "u64 - u32"),
}
"""opcode, or opcode and modifier -> its operands: `t` is the last type of the instruction, `first` the first one, `w`
twice `t`; `~` permits wider registers, `-` any operand"""
_VARIANTS = {
    **dict.fromkeys(("mul", "mad"), ("wide",)),
    **dict.fromkeys(("st", "red"), ("async",)),
    "mbarrier": ("init", "pending_count", "parity", "test_wait", "try_wait", "arrive", "arrive_drop"),
}
"""opcode -> modifiers with a shape of their own"""
_TWO_TYPES = frozenset(("set", "slct", "cvt", "dp4a", "dp2a"))
"""instructions with a type for the result and one for the source"""
_INTEGERS = frozenset(f"{kind}{bits}" for kind in "bus" for bits in (8, 16, 32, 64))
_CONVERTED = _INTEGERS | {"f16", "f32", "f64"}
_MEMORY_TYPES = _INTEGERS | {"b128", "f32", "f64"}
_TYPES = {
    **dict.fromkeys(("ld", "ldu", "st"), _MEMORY_TYPES),
    "selp": _MEMORY_TYPES - {"b8", "u8", "s8", "b128"},
    "mov": _MEMORY_TYPES - {"b8", "u8", "s8"} | {"pred"},
}
"""opcode -> the types that it has"""
_NAMES = frozenset(("mov", "cvt", "cvta", "mapa"))
"""instructions that also read special registers or addresses of variables"""
_DISCARDS = frozenset(("atom", "shfl", "match", "mbarrier", "elect"))
"""instructions whose result may be `_`"""
_INTEGER_KINDS = "us"
_PAIR = "f16x2"
"""the floating-point type whose registers ptxas also accepts as integers"""
_OPERANDS_OF_CAS, _POLICY = 4, (Expectation("u64"),)
"""operands of `atom.cas`, one more than those of the other operations; then a cache policy may follow"""
_ADDRESSED = frozenset(("ld", "st", "ldu", "atom", "red", "prefetch", "prefetchu", "mbarrier", "cp"))
"""instructions whose operands in brackets are registers or variables"""


@functools.cache
def expectations(opcode: str, modifiers: tuple[str, ...]) -> tuple[Expectation, ...]:
    """Return the requirements on the operands of an instruction, in order; empty for an instruction that is checked
    elsewhere."""
    variant = next((m for m in _VARIANTS.get(opcode, ()) if m in modifiers), "")
    shape = _SHAPES.get(f"{opcode}.{variant}" if variant else opcode)
    types = tuple(m for m in modifiers if m in BITS or m == "b128")
    if shape is None or "bulk" in modifiers or "pred" in types or "b128" in types:
        return ()
    if opcode == "cvt" and (len(types) != 2 or not set(types) <= _CONVERTED or "pack" in modifiers):
        return ()
    if opcode not in _TWO_TYPES and len(types) > 1:  # the sources have types of their own
        return ()
    last, first = (types[-1], types[0]) if types else ("", "")
    if not types and any(token.lstrip("~") in ("t", "first", "w") for token in shape.split()):
        return ()
    known = {"t": last, "first": first, "w": f"{last[:1]}{2 * BITS.get(last, 0)}", "-": ""}
    expected = [Expectation(known.get(name := token.lstrip("~"), name), token[0] == "~") for token in shape.split()]
    if opcode == "atom":
        expected[_OPERANDS_OF_CAS if "cas" in modifiers else _OPERANDS_OF_CAS - 1 :] = _POLICY
    return tuple(expected)


def check_operands(e: Emitter, instruction: Instruction) -> None:
    """Raise a KernelError for an operand that does not agree with the instruction: ptxas rejects it."""
    if instruction.opcode in _ADDRESSED:
        _check_addresses(e, instruction)
    allowed = _TYPES.get(instruction.opcode)
    if allowed is not None and (wrong := [m for m in instruction.modifiers if m in BITS and m not in allowed]):
        message = f"`{_spelling(instruction)}` has no type .{wrong[0]}"
        raise e.error(instruction.at, message, f"write .b{max(16, BITS[wrong[0]])}")
    if instruction.opcode != "call":
        for operand in instruction.operands:
            if type(operand) is Vector:
                _check_elements(e, instruction, operand)
    expected = expectations(instruction.opcode, instruction.modifiers)
    for operand, expectation in zip(instruction.operands, expected, strict=False):
        if not expectation.type:
            continue
        single = split_results(operand)[0]
        for item in single.items if type(single) is Vector else (single,):
            if type(single) is not Vector or instruction.opcode != "mov":
                _check_operand(e, instruction, item, expectation)


def _register(e: Emitter, name: str) -> int | None:
    """Return the register that a name refers to; None for anything else."""
    found = next((scope[name] for scope in reversed(e.names) if name in scope), None)
    return found if isinstance(found, int) else None


def _check_elements(e: Emitter, instruction: Instruction, vector: Vector) -> None:
    """Raise a KernelError for a vector whose registers have different sizes."""
    first = 0
    for element in vector.items:
        register = _register(e, element.text) if type(element) is Name else None
        if register is None:
            continue
        first = first or e.bits(register)
        if e.bits(register) != first:
            assert isinstance(element, Name)
            message = f"`{element.text}` has {e.bits(register)} bits, and an element before it has {first}"
            remedy = f"give elements of one size to `{_spelling(instruction)}`"
            raise e.error(element.at, message, remedy)


def _check_addresses(e: Emitter, instruction: Instruction) -> None:
    """Raise a KernelError for a floating-point literal or register in brackets."""
    for operand in instruction.operands:
        if type(operand) is not Address:
            continue
        if isinstance(operand.base, Number):
            if operand.base.is_float_bits:
                message = f"`{_spelling(instruction)}` takes an integer or a register as address"
                raise e.error(operand.at, message, "put the address into a register")
            continue
        register = _register(e, operand.base.text)
        if register is not None and e.register_types.get(register, "")[:1] == "f":
            message = f"`{operand.base.text}` has type .{e.register_types[register]}, which holds no address"
            raise e.error(operand.at, message, "use an integer register, or one of a bit-size type")


def _check_operand(e: Emitter, instruction: Instruction, operand: Operand, expected: Expectation) -> None:
    if type(operand) is Number:
        if not _fits_literal(operand, expected.type):
            raise _literal_error(e, instruction, operand, expected.type)
    elif type(operand) is Name:
        register = _register(e, operand.text)
        if register is not None:
            if not _agrees(e.bits(register), e.register_types.get(register, ""), expected):
                raise _register_error(e, instruction, operand, expected)
        elif instruction.opcode not in _NAMES and not _is_vector(e, operand):
            raise _name_error(e, instruction, operand)
    elif type(operand) is Address and instruction.opcode not in _NAMES | _ADDRESSED:
        raise _name_error(e, instruction, operand)
    elif type(operand) is Sink and instruction.opcode not in _DISCARDS and operand is instruction.operands[0]:
        message = f"`{_spelling(instruction)}` does not discard its result"
        raise e.error(operand.at, message, "write it to a register")


def _is_vector(e: Emitter, name: Name) -> bool:
    """Return whether a name belongs to a register of vector type (5.4.2)."""
    return any(f"{name.text}.x" in scope for scope in e.names)


def _agrees(bits: int, declared: str, expected: Expectation) -> bool:
    """Return whether a register agrees; `declared` is its type unless that is a bit-size type."""
    type_ = expected.type
    if bits < BITS[type_] or (bits > BITS[type_] and not expected.wider):
        return False
    if not declared or declared == type_ or (type_[0] == "b" and not type_.startswith("bf")):
        return True
    return type_[0] in _INTEGER_KINDS and (declared[0] in _INTEGER_KINDS or declared == _PAIR)


def _fits_literal(number: Number, type_: str) -> bool:
    """Return whether a literal may be a source operand: no literal has half precision."""
    if type_ in ("f32", "f64"):
        return bool(number.is_float_bits)
    if type_ not in _INTEGERS:
        return False
    return not number.is_float_bits or (type_[0] == "b" and number.is_float_bits == BITS[type_])


def _spelling(instruction: Instruction) -> str:
    return ".".join((instruction.opcode, *instruction.modifiers))


def _register_error(e: Emitter, instruction: Instruction, operand: Name, expected: Expectation) -> KernelError:
    register = e.lookup(operand)
    assert isinstance(register, int)
    declared = e.register_types.get(register) or ("pred" if e.bits(register) == 1 else f"b{e.bits(register)}")
    message = f"`{operand.text}` has type .{declared}, which does not agree with .{expected.type}"
    return e.error(operand.at, f"{message} of `{_spelling(instruction)}`", _remedy(expected.type))


def _remedy(type_: str) -> str:
    return f"use a register of type .{type_} or .b{BITS[type_]}"


def _literal_error(e: Emitter, instruction: Instruction, operand: Number, type_: str) -> KernelError:
    kind = "a floating-point literal" if operand.is_float_bits else "an integer literal"
    if type_ in ("f32", "f64"):
        remedy = "write it with a decimal point, or as `0f3F800000`"
    else:
        remedy = "write an integer" if type_ in _INTEGERS else "put it into a register first"
    return e.error(operand.at, f"{kind} does not agree with .{type_} of `{_spelling(instruction)}`", remedy)


def _name_error(e: Emitter, instruction: Instruction, operand: Name | Address) -> KernelError:
    name = operand.base if isinstance(operand, Address) else operand
    text = f"`{name.text}`" if isinstance(name, Name) else "an address"
    message = f"{text} does not go into `{_spelling(instruction)}`"
    return e.error(operand.at, message, "read it into a register by `mov` first")
