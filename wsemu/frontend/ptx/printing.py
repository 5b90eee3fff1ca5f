"""Lower `printf` and `assert` of CUDA C++ (`vprintf`, `__assertfail`) with constant strings, for traces.

Compilers pass strings as addresses of variables of the module.  The addresses are traced back to these variables,
because the format determines which bytes of the buffer of values a call loads.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from wsemu.frontend.assemble.graph import TRUE
from wsemu.frontend.ptx.syntax import Name
from wsemu.frontend.ptx.variables import CallParameter
from wsemu.model.data import NamedTuple
from wsemu.model.isa import C_ASSERTION, C_FORMAT, PRINTED

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.frontend.assemble.graph import Instruction, Register
    from wsemu.frontend.ptx.emit import Emitter
    from wsemu.frontend.ptx.syntax import Operand

    Operands = tuple[Operand, ...]

MAX_VALUES = 32
"""maximum number of values of `printf` on a GPU (CUDA C++ Programming Guide, "Formatted Output")"""
_MAX_WIDTH = 3
"""maximum digits of a width or precision"""
_CONVERSION = re.compile(r"%(?:%|([-+ #0]*)(\*|\d*)(?:\.(\*|\d*))?(hh|h|ll|l|j|z|t|L)?([cdiouxXpeEfFgGaAs]))")
_WIDE = ("ll", "l", "j", "z", "t")
_COPIES = {"mov.b64": slice(0, 1), "selp.b64": slice(0, 2)}
"""operation -> the operands, one of which is its result"""


class Value(NamedTuple):
    """A value in the buffer of a call of `printf`."""

    size: int
    signed: bool


class Format(NamedTuple):
    """A format: its text and conversions, and the values that it takes."""

    parts: tuple[str, ...]
    values: tuple[Value, ...]


def parse_format(text: str) -> Format:
    """Split a format into text and conversions; an invalid conversion remains text."""
    parts, values, at = list[str](), list[Value](), 0
    for found in _CONVERSION.finditer(text):
        parts.append(text[at : found.start()])
        at = found.end()
        _, width, precision, length, kind = found.groups()
        if kind is None:
            parts[-1] += "%"
            continue
        if max(len(width), len(precision or "")) > _MAX_WIDTH:
            parts[-1] += found[0]
            continue
        values += [Value(4, signed=True)] * [width, precision].count("*")
        values.append(Value(8 if kind in "eEfFgGaAsp" or length in _WIDE else 4, kind in "di"))
        parts.append(f"{C_FORMAT}{found[0]}")
    parts.append(text[at:])
    if len(values) > MAX_VALUES:
        return Format((text,), ())
    return Format(tuple(filter(None, parts)), tuple(values))


def print_values(e: Emitter, results: Operands, arguments: Operands) -> None:
    """Lower `vprintf`: show the values of a call; its result is the number of values."""
    address, buffer = (read_argument(e, operand) for operand in arguments)
    found = _find_strings(e, address)
    if found is None:
        _show(e, (f"{C_FORMAT}?",), ())
        _store_result(e, results, 0)
        return
    done = e.new_block()
    for text, candidate in found:
        following = e.new_block()
        if len(found) > 1:
            inside = e.new_block()
            e.guard, e.negated = e.emit("setp.eq.b64", address, candidate), False
            e.branch(inside, following)
            e.place(inside)
            e.guard = TRUE
        chosen = parse_format(text)
        _show(e, chosen.parts, _load_values(e, buffer, chosen.values))
        _store_result(e, results, len(chosen.values))
        e.jump(done)
        e.place(following)
        e.guard, e.negated = TRUE, False
    e.jump(done)
    e.place(done)


def show_assertion(e: Emitter, arguments: Operands) -> None:
    """Lower `__assertfail`: show the message if its strings are constant."""
    message, file, line, function = (*arguments, *[None] * 4)[:4]
    texts = [_constant_string(e, operand) for operand in (file, function, message)]
    if any(text is None for text in texts):
        return
    number = read_argument(e, line, "b32") if line is not None else e.constant("b32", 0)
    where, name, condition = (text or "" for text in texts)
    _show(e, (C_ASSERTION, where, name, condition), (e.resize(number, 64),))


def _constant_string(e: Emitter, operand: Operand | None) -> str | None:
    found = _find_strings(e, read_argument(e, operand)) if operand is not None else None
    return found[0][0] if found and len(found) == 1 else None


def _show(e: Emitter, parts: tuple[str, ...], values: tuple[Register, ...]) -> None:
    number = len(e.graph.prints)
    e.graph.prints.append(parts)
    for n, value in enumerate(values or (e.constant("b64", 0),)):
        e.effect("show", (value,), immediate=number << PRINTED | n)


def _load_values(e: Emitter, buffer: Register, values: tuple[Value, ...]) -> tuple[Register, ...]:
    """Load the values of a call, each aligned to its size."""
    loaded: list[Register] = []
    at = 0
    for value in values:
        at += -at % value.size
        bits = f"b{8 * value.size}"
        (found,) = e.effect(f"ld.{bits}", (buffer,), (bits,), at)
        loaded.append(e.resize(found, 64, "s" if value.signed else "u"))
        at += value.size
    return tuple(loaded)


def read_argument(e: Emitter, operand: Operand, type_: str = "b64") -> Register:
    """Return the register of an argument."""
    found = e.lookup(operand) if isinstance(operand, Name) else None
    if isinstance(found, CallParameter):
        value = found.load(e, type_, 0)
        return e.constant(type_, 0) if value is None else value
    return e.read(operand, type_)


def _store_result(e: Emitter, results: Operands, value: int) -> None:
    for operand in results:
        found = e.lookup(operand) if isinstance(operand, Name) else None
        if isinstance(found, CallParameter):
            e.effect_into("mov.b32", (e.constant("b32", value),), (found.store(e, "b32", 0),))


def _find_strings(e: Emitter, address: Register) -> list[tuple[str, Register]] | None:
    """Return the strings that an address may refer to, with the registers of their addresses; None if it may refer to
    anything else."""
    definitions = _find_definitions(e)
    found: dict[Register, str] = {}
    waiting, seen = [address], set[int]()
    while waiting:
        register = waiting.pop()
        if register in seen:
            continue
        seen.add(register)
        array = e.graph.constant_arrays.get(register)
        if array is not None:
            data = array.array.tobytes()
            found[register] = data[: data.find(b"\0")].decode(errors="replace") if b"\0" in data else ""
            continue
        steps = definitions(register)
        if not steps or any(step.operation not in _COPIES for step in steps):
            return None
        waiting += [operand for step in steps for operand in step.operands[_COPIES[step.operation]]]
    return [(text, register) for register, text in found.items()]


def _find_definitions(e: Emitter) -> Callable[[Register], list[Instruction]]:
    found: dict[Register, list[Instruction]] = {}
    for block in e.graph.blocks:
        for instruction in block.instructions:
            for result in instruction.results:
                found.setdefault(result, []).append(instruction)
    return lambda register: found.get(register, [])
