"""Statements of a function, in order: declarations, labels, line information, instructions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wsemu.frontend.ptx import variables
from wsemu.frontend.ptx.agreement import check_operands
from wsemu.frontend.ptx.availability import check_available
from wsemu.frontend.ptx.combinations import check_modifiers
from wsemu.frontend.ptx.emit import AXES, COLORS, REGISTER_TYPES, Emitter, Place
from wsemu.frontend.ptx.excerpt import loc_span
from wsemu.frontend.ptx.forms import UnhandledForm
from wsemu.frontend.ptx.heap import watch
from wsemu.frontend.ptx.inlining import find_own_file
from wsemu.frontend.ptx.memory import spelling
from wsemu.frontend.ptx.recursion import check_ways
from wsemu.frontend.ptx.sizes import TYPE_BYTES, variable_size
from wsemu.frontend.ptx.syntax import (
    Block,
    Instruction,
    Label,
    Location,
    Name,
    Symbol,
    Targets,
    UnknownDirective,
    UsedBytes,
    Variable,
    Vector,
)
from wsemu.model.data import replace
from wsemu.model.errors import KernelError
from wsemu.model.input_limits import INPUT_LIMITS
from wsemu.model.toolkit import is_toolkit_header

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.frontend.assemble.graph import Block as GraphBlock
    from wsemu.frontend.assemble.graph import Register
    from wsemu.frontend.ptx.emit import Frame

_REGISTERS, _CHAIN, _BYTES = (
    INPUT_LIMITS[name].most for name in ("ptx-registers", "ptx-inlined-at", "ptx-variables-bytes")
)
_TYPED = "usf"
"""first letters of the types that are neither a bit size nor `pred`"""
_WRAPPED = frozenset(
    ("bar", "barrier", "mbarrier", "cp", "setmaxnreg", "elect", "wgmma", "ldmatrix", "stmatrix", "tcgen05")
)
"""operations for which CUDA C++ has no functions, so that programs wrap them, often in a header.  The call shows which
barrier or copy is meant; the line inside the wrapper does not"""
_TOGETHER = frozenset(("bar", "barrier", "shfl", "vote", "match", "redux", "elect"))
"""warp-wide operations, in addition to all with `.sync` or `.aligned`"""


def walk(e: Emitter, block: Block) -> None:
    """Emit a block of statements; control continues after it."""
    scope: dict[str, Register | Place] = {}
    e.names.append(scope)
    frame = e.frames[-1]
    frame.labels.append(_labels(e, block))
    for statement in block.statements:
        kind = type(statement)
        if kind is Instruction:
            _instruction(e, statement)  # type: ignore[arg-type]
        elif kind is Label:
            following = frame.labels[-1][statement.name]  # type: ignore[union-attr]
            e.jump(following)
            e.place(following)
        elif kind is Location:
            _locate(e, statement)  # type: ignore[arg-type]
        elif kind is UsedBytes:
            e.used_bytes(statement.mask)  # type: ignore[union-attr]
        elif kind is Variable:
            declare(e, statement, scope)  # type: ignore[arg-type]
        elif kind is Block:
            walk(e, statement)  # type: ignore[arg-type]
        elif isinstance(statement, Targets):
            frame.tables[statement.name] = statement
        elif isinstance(statement, UnknownDirective):
            e.refuse(statement)
    frame.labels.pop()
    e.names.pop()


def _labels(e: Emitter, block: Block) -> dict[str, GraphBlock]:
    """Return the graph's block for each label of a block of statements."""
    labels: dict[str, GraphBlock] = {}
    for statement in block.statements:
        if type(statement) is Label:
            if statement.name in labels:
                raise e.error(statement.at, f"the label `{statement.name}` is there twice", "rename one of them")
            labels[statement.name] = e.new_block()
    return labels


def _instruction(e: Emitter, instruction: Instruction) -> None:
    e.begin(instruction)
    handler = e.handlers.get(instruction.opcode)
    if handler is None:
        e.emit_unsupported()
        return
    if _names_element_twice(instruction):
        e.emit_undefined(
            f"`{spelling(instruction)}` with an element named twice",
            "PTX: all elements of a destination vector are unique; otherwise the behavior is undefined",
            "write each element to a register of its own",
        )
        return
    if e.reached.recursive and _is_together(instruction):
        check_ways(e)
    if e.reached.allocates:
        watch(e, instruction)
    place, guard = (e.span, e.stack), (e.guard, e.negated)
    if instruction.opcode in _WRAPPED and e.located:
        e.span, e.stack = e.called
    try:
        handler(e, instruction)
    except (ValueError, IndexError, KeyError, AttributeError, TypeError, UnhandledForm) as error:
        if isinstance(error, KernelError):
            raise
        e.guard, e.negated = guard
        e.emit_unsupported(f"`{'.'.join((instruction.opcode, *instruction.modifiers))}` with these operands")
    if e.modelled:
        check_available(e, instruction)
        check_modifiers(e, instruction)
        check_operands(e, instruction)
    e.span, e.stack = place


def _names_element_twice(instruction: Instruction) -> bool:
    """Return whether the destination is a vector that names a register twice."""
    destination = instruction.operands[0] if instruction.operands else None
    if type(destination) is not Vector or instruction.opcode == "call":
        return False
    names = [element.text for element in destination.items if type(element) is Name]
    return len(set(names)) < len(names)


def _is_together(instruction: Instruction) -> bool:
    return instruction.opcode in _TOGETHER or not {"sync", "aligned"}.isdisjoint(instruction.modifiers)


# -- declarations ----------------------------------------------------------------------------------------------------


def _elements(e: Emitter, variable: Variable) -> Iterator[tuple[str, Register | Place]]:
    """Yield the elements of a register of vector type: `v.x`, which is `v.r`, and so on (PTX ISA 6.4.3)."""
    for axis, color in zip(AXES[: variable.vector], COLORS, strict=False):
        element = graph_registers(e, variable)
        yield f"{variable.name}.{axis}", element
        yield f"{variable.name}.{color}", element


def declare(e: Emitter, variable: Variable, scope: dict[str, Register | Place]) -> None:
    """Add a variable, or a range of registers, to a scope."""
    check_size(e, variable)
    if variable.name in scope and not variable.count:
        raise _declared_twice(e, variable, variable.name)
    if variable.space == "reg":
        if variable.count:
            _declare_range(e, variable, scope)
        else:
            scope[variable.name] = graph_registers(e, variable) if _is_number(variable) else _unknown(variable)
            if variable.type == "b128":  # two halves, like a vector
                variable = replace(variable, type="b64", vector=2)
            if variable.vector > 1 and variable.type in REGISTER_TYPES:
                scope.update(_elements(e, variable))
    elif variable.space == "local":
        scope[variable.name] = variables.local(e, variable)
    elif variable.space == "param":
        scope[variable.name] = variables.CallParameter(variable)
    else:
        scope[variable.name] = _static(e, variable)


def _declared_twice(e: Emitter, variable: Variable, name: str) -> KernelError:
    return e.error(variable.at, f"`{name}` is declared twice", "rename it, or declare it in a block of its own")


def check_size(e: Emitter, variable: Variable) -> None:
    """Raise a KernelError for a variable larger than the memory of any GPU, or of this computer."""
    most = variables.LARGEST.get(variable.space)
    size = variable_size(variable) + (e.graph.local_bytes if variable.space == "local" else 0)
    if most is not None and size > most:
        raise e.error(
            variable.at,
            f"`{variable.name}` needs {size:,} bytes of .{variable.space}: at most {most:,}",
            "make it smaller",
        )


def _is_number(variable: Variable) -> bool:
    return variable.type in REGISTER_TYPES and variable.vector == 1


def _unknown(variable: Variable) -> Place:
    vector = f".v{variable.vector} " if variable.vector > 1 else ""
    return variables.UnknownPlace(f"`{variable.name}`, a register of type {vector}.{variable.type},")


def _declare_range(e: Emitter, variable: Variable, scope: dict[str, Register | Place]) -> None:
    count = len(e.graph.types) + variable.count
    if count > _REGISTERS:
        raise e.excess("ptx-registers", count, variable.at)
    names = [f"{variable.name}{n}" for n in range(variable.count)]
    if scope and (twice := next((name for name in names if name in scope), "")):
        raise _declared_twice(e, variable, twice)
    if not _is_number(variable):
        scope.update(dict.fromkeys(names, _unknown(variable)))
        for name in names if variable.type == "b128" else ():
            scope.update(_elements(e, replace(variable, name=name, type="b64", vector=2)))
        return
    types = e.graph.types
    first = len(types)
    e.graph.declared.append((first, variable.count, variable.name))
    types.extend([REGISTER_TYPES[variable.type]] * variable.count)
    if variable.type[0] in _TYPED:
        e.register_types.update(dict.fromkeys(range(first, first + variable.count), variable.type))
    scope.update(zip(names, range(first, first + variable.count), strict=True))


def graph_registers(e: Emitter, variable: Variable) -> Register:
    """Return the graph's register for a declared one."""
    register = e.graph.new(REGISTER_TYPES[variable.type])
    e.graph.declared.append((register, 0, variable.name))
    if variable.type[0] in _TYPED:
        e.register_types[register] = variable.type
    return register


def _static(e: Emitter, variable: Variable) -> Place:
    """Return memory for a variable that is neither a register nor local to a thread, and for the variables whose
    addresses it holds."""
    key = e.source.path, variable.at
    known = e.statics.get(key)
    if known is None:
        known = e.statics[key] = _memory(e, variable)
        if isinstance(known, variables.ModulePlace) and any(isinstance(item, Symbol) for item in variable.initial):
            addresses = _addresses(e, variable, known)
            if addresses is None:
                text = f"the initial value of `{variable.name}`, which holds an address,"
                known = e.statics[key] = variables.UnknownPlace(text)
            else:
                array = e.graph.constant_arrays[known.register]
                e.graph.constant_arrays[known.register] = array._replace(addresses=addresses)
    return known


def find_place(e: Emitter, name: str) -> Place | None:
    """Return the object of a name outside of functions, in the current file; None if it is not declared there."""
    function = e.module.function(name)
    if function is not None:
        if function[1].body is None:
            return variables.UnknownPlace(f"the address of the function `{name}`, which is defined elsewhere,")
        number = e.reached.addresses().get(id(function[1])) if not function[1].is_entry else None
        return _function_place(name) if number is None else variables.FunctionPlace(number)
    found = e.module.variable(name)
    if found is None:
        return None
    with e.within(found[0]):
        check_size(e, found[1])
        return _static(e, found[1])


def _function_place(name: str) -> Place:
    return variables.UnknownPlace(f"the address of the function `{name}`")


def _addresses(e: Emitter, variable: Variable, own: variables.ModulePlace) -> tuple[tuple[int, int, int], ...] | None:
    """Return the addresses in an initializer, as `ConstantArray` holds them; None if one is not the address of a
    module's variable.  Addresses of functions are numbers, which are put into the contents."""
    found = []
    contents = e.graph.constant_arrays[own.register].array.view(np.uint8)
    size = TYPE_BYTES.get(variable.type, 8)
    for n, item in enumerate(variable.initial):
        if isinstance(item, Symbol) and item.mask in (0, 0xFF):
            if size * n + 8 > contents.size or (size != 8 and not item.mask):
                return None
            place = find_place(e, item.name)
            if isinstance(place, variables.FunctionPlace):
                contents[size * n : size * n + 8] = np.frombuffer(np.uint64(place.number).tobytes(), np.uint8)
            elif isinstance(place, variables.ModulePlace):
                found.append((size * n, place.register, item.offset))
            else:
                return None
    return tuple(found)


def _memory(e: Emitter, variable: Variable) -> Place:
    open_ended = variable_size(variable) == 0
    if variable.space == "shared":
        return variables.DynamicPlace(variable) if open_ended else variables.allocate_shared(e.graph, variable)
    if variable.space not in ("global", "const") or variable.type not in TYPE_BYTES:
        return variables.UnknownPlace(f"`{variable.name}`, a variable of type .{variable.type},")
    if open_ended or variable.linkage == "extern":
        return variables.UnknownPlace(f"`{variable.name}`, which is defined elsewhere,")
    e.module_bytes += variable_size(variable)
    if e.module_bytes > _BYTES:
        raise e.excess("ptx-variables-bytes", e.module_bytes, variable.at)
    return variables.module(e.graph, variable)


# -- line information ------------------------------------------------------------------------------------------------
def _locate(e: Emitter, location: Location) -> None:
    """Process `.loc`: attribute the following code to that location.

    Line 0 marks code of the compiler itself, which is attributed to its surroundings.  If the source is not available,
    findings show the instructions in the PTX.
    """
    if location.line == 0:
        return
    chain = [(location.file, location.line, location.column)]
    outer = location.inlined_at
    frame = e.frames[-1]
    frame.inlined[chain[0]] = outer
    while outer is not None and outer not in chain:
        chain.append(outer)
        if len(chain) > _CHAIN:
            raise e.excess("ptx-inlined-at", len(chain), location.at)
        outer = frame.inlined.get(outer)
    found = [(place, number) for place in chain if (number := _span(e, place, len(chain) > 1)) is not None]
    spans = [number for _, number in found]
    e.located = bool(spans)
    if not spans:
        e.stack, e.origin = frame.stack, (frame, tuple(chain))
        return
    e.span, e.stack = spans[0], (*frame.stack, *reversed(spans[1:]))
    e.called = e.span, e.stack
    own = _own_frame(frame, [place for place, _ in found]) if len(found) > 1 else 0
    if own:
        shown = e.span_number(e.graph.spans[spans[own]], tuple(reversed(spans[:own])))
        e.called = shown, (*frame.stack, *reversed(spans[own + 1 :]))


def _own_frame(frame: Frame, places: list[tuple[int, int, int]]) -> int:
    """Return the number of the innermost frame in the kernel's own file; 0 if none is there."""
    if frame.own_file is None:
        assert frame.function.body is not None
        frame.own_file = find_own_file(frame.function.body) or 0
    return next((k for k, place in enumerate(places) if place[0] == frame.own_file), 0)


def _span(e: Emitter, place: tuple[int, int, int], inlined: bool) -> int | None:
    """Return the number of a location in a source that may be shown."""
    number, line, column = place
    key = e.source.path, number, line, column
    found = e.places.get(key)
    if found is None:
        path, hidden = e.module.paths.get(number), e.module.hidden.get(number)
        if hidden is not None and not is_toolkit_header(hidden):
            e.graph.hidden_sources[hidden] = None
        if path is None or (inlined and is_toolkit_header(path)):
            return None
        found = e.places[key] = e.span_number(loc_span(path, line, column))
    return found
