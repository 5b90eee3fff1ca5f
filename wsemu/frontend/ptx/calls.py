"""Calls (PTX ISA 9.7.12.5): functions are inlined at their calls, except recursive ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.frontend.assemble.graph import TRUE, Register
from wsemu.frontend.ptx.body import graph_registers, walk
from wsemu.frontend.ptx.emit import REGISTER_TYPES, Emitter, Frame, Place
from wsemu.frontend.ptx.heap import allocate as allocate_block
from wsemu.frontend.ptx.heap import release as release_block
from wsemu.frontend.ptx.lifetimes import Lifetime
from wsemu.frontend.ptx.printing import print_values, read_argument, show_assertion
from wsemu.frontend.ptx.reach import candidates
from wsemu.frontend.ptx.recursion import again, allocate, allocates, enter, pieces, release, stack
from wsemu.frontend.ptx.sizes import variable_size
from wsemu.frontend.ptx.steps import BITS
from wsemu.frontend.ptx.syntax import Function, Instruction, Name, Number, Operand, Sink, Variable, Vector
from wsemu.frontend.ptx.variables import CallParameter
from wsemu.model.input_limits import INPUT_LIMITS
from wsemu.model.isa import ABORTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.frontend.ptx.module import Module

_REGISTERS, _CALLS, _DEPTH = (INPUT_LIMITS[name].most for name in ("ptx-registers", "ptx-calls", "ptx-call-depth"))

_MOST_ALIGNED = 1 << 23
"""maximum alignment of `alloca` in bytes"""


def call(e: Emitter, instruction: Instruction) -> None:
    """Lower `call (result), function, (arguments);`.  A call does not preserve the carry flag (PTX ISA 9.7.2)."""
    e.carry = None
    results, target, arguments, form = _parts(e, instruction)
    name = target.text
    found = e.module.function(name)
    if found is None and isinstance(value := e.lookup(target), int):
        _emit_under_guard(e, lambda: _indirect(e, value, form, results, arguments))
    elif name in EXTERNAL:
        EXTERNAL[name](e, results, arguments)
    elif name in ON_HEAP and (found is None or found[1].body is None):
        _emit_under_guard(e, lambda: ON_HEAP[name](e, results, arguments))
    elif found is None or found[1].body is None:
        e.emit_unsupported(f"the call of `{name}`, which is defined elsewhere,")
    else:
        home, function = found
        if function.is_entry:
            raise e.error(target.at, f"`{name}` is a kernel", "call a device function, or launch it from the host")
        _emit_under_guard(e, lambda: _direct(e, home, function, results, arguments))
    e.carry = None


Operands = tuple[Operand, ...]


def _direct(e: Emitter, home: Module, function: Function, results: Operands, arguments: Operands) -> None:
    """Lower a call of a known function."""
    e.carry = None
    _check_count(e, function, results, arguments)
    region = e.frames[-1].region
    if region is not None and e.reached.together(region.function, function):
        given, places = _bind_call_places(e, function, results, arguments)
        again(e, home, function, given, places)
        _write(e, results, places)
    elif e.reached.together(function, function):
        given, places = _bind_call_places(e, function, results, arguments)
        enter(e, home, function, given, places, _body)
        _write(e, results, places)
    else:
        _inline(e, home, function, results, arguments)


def _indirect(e: Emitter, value: Register, form: Operand | None, results: Operands, arguments: Operands) -> None:
    """Lower a call through a register: for each function that it may hold, the lanes that hold its address call it."""
    targets = e.frames[-1].tables.get(form.text) if isinstance(form, Name) else None
    if targets is None:
        e.emit_unsupported("a call through a register without `.callprototype` or `.calltargets`")
        return
    done = e.new_block()
    named = (e.lookup(operand) for operand in results if isinstance(operand, Name))
    places = [place for place in named if isinstance(place, CallParameter)]
    for address, home, function in candidates(e.reached, targets):
        inside, following = e.new_block(), e.new_block()
        with e.looking_up():
            e.guard, e.negated = e.emit("setp.eq.b64", value, e.constant("b64", address)), False
        e.branch(inside, following)
        e.place(inside)
        e.guard = TRUE
        own = {place.variable.name: CallParameter(place.variable) for place in places}
        e.names.append({**own})
        _direct(e, home, function, results, arguments)
        e.names.pop()
        for place in places:
            _copy(e, own[place.variable.name], place)
        e.jump(done)
        e.place(following)
        e.guard, e.negated = TRUE, False
    e.stop("a call through a register that holds the address of no function with these parameters")
    e.jump(done)
    e.place(done)


def _copy(e: Emitter, given: CallParameter, into: CallParameter) -> None:
    """Copy a result into the pieces that all candidate functions share, however each stores it."""
    for at, type_ in pieces(into.variable):
        value = given.load(e, type_, at)
        assert value is not None
        e.assign(into.store(e, type_, at), f"mov.{type_}", value)


def _check_count(e: Emitter, function: Function, results: Operands, arguments: Operands) -> None:
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
        for operand, variable in zip(given, declared, strict=True):
            _check_size(e, function, operand, variable)


def _check_size(e: Emitter, function: Function, operand: Operand, variable: Variable) -> None:
    """Raise a KernelError if a variable or register that a call passes differs in size from the parameter or result."""
    found = e.lookup(operand) if isinstance(operand, Name) else None
    if isinstance(found, int) and isinstance(operand, Name) and variable.space == "reg" and _is_scalar(variable):
        bits = BITS[REGISTER_TYPES[variable.type]]
        if e.bits(found) != bits:
            raise e.error(
                operand.at,
                f"`{operand.text}` has {e.bits(found)} bits, `{variable.name}` of `{function.name}` {bits}",
                "declare both with the same type",
            )
    if isinstance(found, CallParameter) and variable.space != "reg":
        passed, declared = variable_size(found.variable), variable_size(variable)
        if passed != declared:
            raise e.error(
                operand.at,
                f"`{found.variable.name}` has {passed:,} bytes, `{variable.name}` of `{function.name}` {declared:,}",
                "declare both with the same type",
            )


def _is_scalar(variable: Variable) -> bool:
    return variable.vector == 1 and variable.type in REGISTER_TYPES


def _bind_call_places(
    e: Emitter, function: Function, results: Operands, arguments: Operands
) -> tuple[list[Place | Register], list[Place | Register]]:
    """Return the locations of arguments and results of a call that is not inlined."""
    values = [_argument(e, v, operand) for v, operand in zip(function.parameters, arguments, strict=True)]
    places = [_result(e, v, operand) for v, operand in zip(function.results, results, strict=True)]
    return values, places


def _write(e: Emitter, results: Operands, places: list[Place | Register]) -> None:
    """Copy results from registers to their destinations."""
    for operand, place in zip(results, places, strict=True):
        if isinstance(place, int):
            e.write_register(operand, place)


def _body(e: Emitter, function: Function) -> None:
    assert function.body is not None
    walk(e, function.body)


def _parts(e: Emitter, instruction: Instruction) -> tuple[Operands, Name, Operands, Operand | None]:
    """Return results, function, arguments, and the prototype or list of functions after them."""
    operands = list(instruction.operands)
    results = operands.pop(0).items if operands and isinstance(operands[0], Vector) else ()  # type: ignore[union-attr]
    target = operands.pop(0) if operands else None
    if not isinstance(target, Name):
        raise e.error(instruction.at, "`call` names no function", "write `call (result), function, (arguments);`")
    arguments = operands.pop(0).items if operands and isinstance(operands[0], Vector) else ()  # type: ignore[union-attr]
    return results, target, arguments, operands[0] if operands else None


def _emit_under_guard(e: Emitter, emit: Callable[[], None]) -> None:
    """Emit code that runs if the guard holds."""
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


def _inline(e: Emitter, home: Module, function: Function, results: Operands, arguments: Operands) -> None:
    """Emit the function's body instead of its call, with its parameters bound."""
    e.calls += 1
    if e.calls > _CALLS:
        raise e.excess("ptx-calls", e.calls, function.at)
    if len(e.frames) > _DEPTH:
        raise e.excess("ptx-call-depth", len(e.frames), function.at)
    names: dict[str, Register | Place] = {}
    for variable, operand in zip(function.parameters, arguments, strict=True):
        names[variable.name] = _argument(e, variable, operand)
    for variable, operand in zip(function.results, results, strict=True):
        names[variable.name] = _result(e, variable, operand)
    kept = e.names, e.span, e.stack, e.located
    first = len(e.graph.types)
    top = _save_stack_pointer(e, home, function)
    after = e.new_block()
    e.frames.append(Frame(function, after, (*e.stack, e.span)))
    e.names = [e.scopes[home.source.path], names]
    e.stack, e.located = (*e.stack, e.span), False
    with e.within(home):
        _body(e, function)
    e.names, e.span, e.stack, e.located = kept
    frame = e.frames.pop()
    if frame.variables:
        e.lifetimes.append(Lifetime(range(first, len(e.graph.types)), after, frame.variables))
    e.jump(after)
    e.place(after)
    e.guard, e.negated = TRUE, False
    if top is not None:
        release(e, top)
    for variable, operand in zip(function.results, results, strict=True):
        made = names[variable.name]
        if isinstance(made, int):
            e.write_register(operand, made)
    if len(e.graph.types) > _REGISTERS:
        raise e.excess("ptx-registers", len(e.graph.types), function.at)


def _argument(e: Emitter, variable: Variable, operand: Operand) -> Register | Place:
    """Return the meaning of a parameter's name in the function."""
    if isinstance(operand, Name):
        found = e.lookup(operand)
        if isinstance(found, CallParameter):
            return found
    type_ = REGISTER_TYPES[variable.type]
    value = e.read(operand, type_)
    if variable.space == "reg":
        register = graph_registers(e, variable)
        e.effect_into("mov.pred" if type_ == "p" else f"mov.{type_}", (value,), (register,))
        return register
    parameter = CallParameter(variable)
    e.effect_into(f"mov.{type_}", (value,), (parameter.store(e, type_, 0),))
    return parameter


def _result(e: Emitter, variable: Variable, operand: Operand) -> Register | Place:
    """Return the meaning of a result's name in the function."""
    if variable.space == "reg":
        return graph_registers(e, variable)
    if isinstance(operand, Sink):
        return CallParameter(variable)
    found = e.lookup(operand) if isinstance(operand, Name) else None
    if not isinstance(found, CallParameter):
        raise e.error(operand.at, "the result of a call goes to a `.param` variable", "declare one before the call")
    return found


# -- the stack ---------------------------------------------------------------------------------------------------------
def _save_stack_pointer(e: Emitter, home: Module, function: Function) -> Register | None:
    """Return the current end of the stack before a function that allocates on it and frees that memory at its end; None
    for other functions."""
    if not allocates(home, function):
        return None
    return e.emit("mov.b64", stack(e).top)


def alloca(e: Emitter, instruction: Instruction) -> None:
    """Lower `alloca.u64 address, size{, alignment}`."""
    if instruction.modifiers != ("u64",) or len(instruction.operands) not in (2, 3):
        e.emit_unsupported()
        return
    alignment = instruction.operands[2] if len(instruction.operands) == 3 else None
    aligned = alignment.value if isinstance(alignment, Number) else 1
    if aligned < 1 or aligned & (aligned - 1) or aligned > _MOST_ALIGNED:
        raise e.error(
            instruction.at, f"`alloca` with an alignment of {aligned:,}", f"give a power of 2 up to {_MOST_ALIGNED:,}"
        )
    begin = allocate(e, e.read(instruction.operands[1], "b64"), aligned)
    e.write_register(instruction.operands[0], begin)


def stack_save(e: Emitter, instruction: Instruction) -> None:
    """Lower `stacksave.u64 place`."""
    e.write(instruction.operands[0], "mov.b64", stack(e).top)


def stack_restore(e: Emitter, instruction: Instruction) -> None:
    """Lower `stackrestore.u64 place`."""
    top = e.read(instruction.operands[0], "b64")
    stack(e).restored[top] = instruction.at
    _emit_under_guard(e, lambda: release(e, top))


# -- functions of the system -----------------------------------------------------------------------------------------
def _print(e: Emitter, results: Operands, arguments: Operands) -> None:
    """Lower a call of `vprintf`."""
    _emit_under_guard(e, lambda: print_values(e, results, arguments))


def _assertion(e: Emitter, results: Operands, arguments: Operands) -> None:
    """Emit the end of a thread whose assertion fails, and its report: a GPU would end the whole launch."""
    show_assertion(e, arguments)
    e.leave("exit", ABORTS)


def _store_call_result(e: Emitter, results: tuple[Operand, ...], type_: str, value: int) -> None:
    """Store a call's result in its destination."""
    for operand in results:
        found = e.lookup(operand) if isinstance(operand, Name) else None
        if isinstance(found, CallParameter):
            e.effect_into(f"mov.{type_}", (e.constant(type_, value),), (found.store(e, type_, 0),))


def _grid_handle(e: Emitter, results: Operands, arguments: Operands) -> None:
    """Lower `cudaCGGetIntrinsicHandle`: the result is nonzero in a cooperative launch."""
    _store_call_result(e, results, "b64", 1)


def _grid_sync(e: Emitter, results: Operands, arguments: Operands) -> None:
    """Lower `cudaCGSynchronize`: one thread of each CTA synchronizes with those of the other CTAs, between two barriers
    of the CTA."""

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
        _store_call_result(e, results, "b32", 0)

    _emit_under_guard(e, emit)


def _set_condition(e: Emitter, results: Operands, arguments: Operands) -> None:
    """Lower `cudaGraphSetConditional`; a handle is the address of the condition's value."""
    handle, value = read_argument(e, arguments[0]), read_argument(e, arguments[1], "b32")
    e.effect("st.b32", (handle, value))


EXTERNAL: dict[str, Callable[[Emitter, Operands, Operands], None]] = {
    "vprintf": _print,
    "__assertfail": _assertion,
    "__assert_fail": _assertion,
    "cudaCGGetIntrinsicHandle": _grid_handle,
    "cudaCGSynchronize": _grid_sync,
    "cudaGraphSetConditional": _set_condition,
}

ON_HEAP: dict[str, Callable[[Emitter, Operands, Operands], None]] = {"malloc": allocate_block, "free": release_block}

HANDLERS: dict[str, Callable[[Emitter, Instruction], None]] = {
    "call": call,
    "alloca": alloca,
    "stacksave": stack_save,
    "stackrestore": stack_restore,
}
