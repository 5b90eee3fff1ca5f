"""Calls (PTX ISA 9.7.12.5): functions are inlined where they are called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.frontend.assemble.graph import TRUE, Register
from wsemu.frontend.ptx.body import registers_of, walk
from wsemu.frontend.ptx.emit import REGISTER_TYPES, Emitter, Frame, Place
from wsemu.frontend.ptx.syntax import Function, Instruction, Name, Operand, Sink, Variable, Vector
from wsemu.frontend.ptx.variables import CallParameter
from wsemu.model.isa import ABORTS

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_REGISTERS = 1 << 20
"""or blocks, of a kernel with everything that it calls: beyond it, the bytecode is too long for the machine"""


def call(e: Emitter, instruction: Instruction) -> None:
    """`call (result), function, (arguments);`"""
    results, target, arguments = _parts(e, instruction)
    name = target.text
    function = e.module.file.functions.get(name)
    if function is None and isinstance(e.lookup(target), int):
        e.unsupported("a call through a register")
    elif name in EXTERNAL:
        EXTERNAL[name](e, results)
    elif function is None or function.body is None:
        e.unsupported(f"the call of `{name}`, which is defined elsewhere,")
    elif any(frame.function is function for frame in e.frames):
        e.unsupported(f"the recursive call of `{name}`")
    else:
        _guarded(e, lambda: _inline(e, function, results, arguments))


def _parts(e: Emitter, instruction: Instruction) -> tuple[tuple[Operand, ...], Name, tuple[Operand, ...]]:
    """Results, function, arguments; a prototype after them says nothing new."""
    operands = list(instruction.operands)
    results = operands.pop(0).items if operands and isinstance(operands[0], Vector) else ()  # type: ignore[union-attr]
    target = operands.pop(0) if operands else None
    if not isinstance(target, Name):
        raise e.error(instruction.at, "`call` names no function", "write `call (result), function, (arguments);`")
    arguments = operands[0].items if operands and isinstance(operands[0], Vector) else ()
    return results, target, arguments


def _guarded(e: Emitter, emit: Callable[[], None]) -> None:
    """Code that runs where the guard holds."""
    if e.guard == TRUE:
        emit()
        return
    inside, after = e.new_block(), e.new_block()
    e.branch(inside, after)
    e.place(inside)
    e.guard, e.negated = TRUE, False
    try:
        emit()
    finally:
        e.jump(after)
        e.place(after)


def _inline(e: Emitter, function: Function, results: tuple[Operand, ...], arguments: tuple[Operand, ...]) -> None:
    """The function's body here, with its parameters bound."""
    assert e.instruction is not None
    for what, given, declared in (
        ("arguments", arguments, function.parameters),
        ("results", results, function.results),
    ):
        if len(given) != len(declared):
            raise e.error(
                e.instruction.at,
                f"`{function.name}` has {len(declared)} {what}, not {len(given)}",
                "match its declaration",
            )
    names: dict[str, Register | Place] = {}
    for variable, operand in zip(function.parameters, arguments, strict=True):
        names[variable.name] = _argument(e, variable, operand)
    for variable, operand in zip(function.results, results, strict=True):
        names[variable.name] = _result(e, variable, operand)
    kept = e.names, e.span, e.stack, e.located
    after = e.new_block()
    e.frames.append(Frame(function, after, (*e.stack, e.span)))
    e.names = [e.names[0], names]
    e.stack, e.located = (*e.stack, e.span), False
    assert function.body is not None
    walk(e, function.body)
    e.names, e.span, e.stack, e.located = kept
    e.frames.pop()
    e.jump(after)
    e.place(after)
    e.guard, e.negated = TRUE, False
    for variable, operand in zip(function.results, results, strict=True):
        made = names[variable.name]
        if isinstance(made, int):
            e.write_register(operand, made)
    if max(len(e.graph.types), len(e.graph.blocks)) > MOST_REGISTERS:
        raise e.error(
            function.at, f"`{e.graph.name}` with the functions that it calls is too long", "call fewer, or write loops"
        )


def _argument(e: Emitter, variable: Variable, operand: Operand) -> Register | Place:
    """What a parameter's name means in the function."""
    if isinstance(operand, Name):
        found = e.lookup(operand)
        if isinstance(found, CallParameter):
            return found
    type_ = REGISTER_TYPES[variable.type]
    value = e.read(operand, type_)
    if variable.space == "reg":
        register = registers_of(e, variable)
        e.effect_into("mov.pred" if type_ == "p" else f"mov.{type_}", (value,), (register,))
        return register
    parameter = CallParameter(variable)
    e.effect_into(f"mov.{type_}", (value,), (parameter.store(e, type_, 0),))
    return parameter


def _result(e: Emitter, variable: Variable, operand: Operand) -> Register | Place:
    """What a result's name means in the function."""
    if variable.space == "reg":
        return registers_of(e, variable)
    if isinstance(operand, Sink):
        return CallParameter(variable)
    found = e.lookup(operand) if isinstance(operand, Name) else None
    if not isinstance(found, CallParameter):
        raise e.error(operand.at, "the result of a call goes to a `.param` variable", "declare one before the call")
    return found


# -- functions of the system -----------------------------------------------------------------------------------------
def _vprintf(e: Emitter, results: tuple[Operand, ...]) -> None:
    """Nothing is printed; the result, how many arguments there were, is 0."""
    for operand in results:
        found = e.lookup(operand) if isinstance(operand, Name) else None
        if isinstance(found, CallParameter):
            e.effect_into("mov.b32", (e.constant("b32", 0),), (found.store(e, "b32", 0),))


def _assertion(e: Emitter, results: tuple[Operand, ...]) -> None:
    """A thread whose assertion fails ends, and says so: a GPU would end the whole launch."""
    e.leave("exit", ABORTS)


def _result_of(e: Emitter, results: tuple[Operand, ...], type_: str, value: int) -> None:
    """A call's result, where it is wanted."""
    for operand in results:
        found = e.lookup(operand) if isinstance(operand, Name) else None
        if isinstance(found, CallParameter):
            e.effect_into(f"mov.{type_}", (e.constant(type_, value),), (found.store(e, type_, 0),))


def _grid_handle(e: Emitter, results: tuple[Operand, ...]) -> None:
    """`cudaCGGetIntrinsicHandle`: not null in a cooperative launch."""
    _result_of(e, results, "b64", 1)


def _grid_sync(e: Emitter, results: tuple[Operand, ...]) -> None:
    """`cudaCGSynchronize`: one thread of each CTA meets those of the others, between two barriers of the CTA."""

    def emit() -> None:
        zero = e.constant("b32", 0)
        x, y, z = (e.special(f"tid.{axis}") for axis in "xyz")
        first = e.emit("setp.eq.b32", e.emit("or.b32", x, e.emit("or.b32", y, z)), zero)
        e.effect("bar.sync", (zero,))
        e.guard = first
        for operation in ("grid.arrive", "grid.wait"):
            e.effect(operation, results=("b32",))
        e.guard = TRUE
        e.effect("bar.sync", (zero,))
        _result_of(e, results, "b32", 0)

    _guarded(e, emit)


EXTERNAL: dict[str, Callable[[Emitter, tuple[Operand, ...]], None]] = {
    "vprintf": _vprintf,
    "__assertfail": _assertion,
    "__assert_fail": _assertion,
    "cudaCGGetIntrinsicHandle": _grid_handle,
    "cudaCGSynchronize": _grid_sync,
}

HANDLERS: dict[str, Callable[[Emitter, Instruction], None]] = {"call": call}
