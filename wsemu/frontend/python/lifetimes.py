"""The end of local arrays with the device function that makes them.

Numba-CUDA refuses a function that returns its own local array, but accepts the array in a tuple.  The memory is the
function's, so that an access by the caller is out of bounds.  As in PTX, the address then names no variable
(`frontend/ptx/lifetimes.py`).  The arrays of a nested function, or of a function with `inline="always"`, last longer:
Numba-CUDA inlines its source, so that they are arrays of the function around it, or of the caller.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from wsemu.frontend.assemble.flow import repeated_blocks
from wsemu.frontend.python.arrays import add_offset
from wsemu.frontend.python.scalars import register
from wsemu.frontend.python.values import (
    ArrayValue,
    Bound,
    Closure,
    FlatValue,
    PatternValue,
    RecordValue,
    Scalar,
    Static,
    TupleValue,
)
from wsemu.language.numbers import int64
from wsemu.model.data import replace
from wsemu.model.isa import LOCAL_SHIFT, ON_STACK

if TYPE_CHECKING:
    from wsemu.frontend.assemble.graph import Graph, Register
    from wsemu.frontend.python.builder import Builder
    from wsemu.frontend.python.frames import Frame
    from wsemu.frontend.python.values import Value

ENDED = ON_STACK << LOCAL_SHIFT
"""added to an address in local memory, makes it name a variable that has ended"""
_SPACES = ("local", "generic")


def is_own(frame: Frame, array: ArrayValue) -> bool:
    """Return whether an array is a local array that ends with this call of a function, or a view of it."""
    return array.bounds[0].register in frame.made


def find_inlining(caller: Frame, function: Any) -> Frame | None:
    """Return the caller if Numba-CUDA inlines the source of a device function there.  It inlines no function that the
    caller was passed.  A cost model (a function as `inline=`) counts as "never" here."""
    options = getattr(function, "options", None) or getattr(function, "targetoptions", {})  # the latter are Numba's
    chosen = options.get("inline")
    given = any(isinstance(value, Static) and value.object is function for value in caller.arguments.values())
    return caller if chosen in ("always", True) and not given else None


def end_arrays(b: Builder, frame: Frame, value: Value) -> Value:
    """Return what a function returns as its caller gets it: each access to the function's own arrays is out of
    bounds.  The next call of the function finds them uninitialized."""
    if not frame.made:
        return value
    for offset, size in dict.fromkeys(frame.made.values()):
        b.effect("forget", (add_offset(b, b.special("local"), offset), b.constant("b64", size)), immediate=offset)
    result = _end(b, frame, value)
    if id(value) in b.partial:  # some paths do not assign it
        b.partial[id(result)] = b.partial[id(value)][0], result
    return result


def drop_single_ends(graph: Graph) -> None:
    """Remove the instructions that end arrays of functions which run once."""
    ends = [code for block in graph.blocks for code in block.instructions if code.operation == "forget"]
    if not ends:
        return
    times = Counter(code.immediate for code in ends)
    repeated = repeated_blocks(graph.blocks)
    for block in graph.blocks:
        if block.index not in repeated:
            block.instructions[:] = [
                code for code in block.instructions if code.operation != "forget" or times[code.immediate] > 1
            ]


def _end(b: Builder, frame: Frame, value: Value) -> Value:
    match value:
        case TupleValue():
            return replace(value, items=tuple(_end(b, frame, item) for item in value.items))
        case PatternValue():
            return replace(value, fields={name: _end(b, frame, item) for name, item in value.fields.items()})
        case FlatValue():
            return replace(value, array=_end_array(b, frame, value.array))
        case Bound():
            return replace(value, receiver=_end(b, frame, value.receiver))
        case Closure(scope=(maker, _, _)) if maker.home is frame:
            return _end_captured(b, frame, value)
        case ArrayValue():
            return _end_array(b, frame, value)
        case RecordValue() if value.space in _SPACES:
            return replace(value, address=_end_address(b, frame, value.address))
    return value


def _end_array(b: Builder, frame: Frame, array: ArrayValue) -> ArrayValue:
    if array.space not in _SPACES:
        return array
    first, size = array.bounds
    start = Scalar(int64, _end_address(b, frame, register(b, first)))
    return replace(array, address=_end_address(b, frame, array.address), bounds=(start, size))


def _end_captured(b: Builder, frame: Frame, closure: Closure) -> Closure:
    """Return a nested function with the variables of its function, which has returned."""
    maker, variables, _ = closure.scope
    known: dict[str, Value] = {}

    def move(nested: Closure) -> Closure:
        defaults = nested.scope[2]
        return replace(nested, scope=(maker, known, {name: _end(b, frame, x) for name, x in defaults.items()}))

    for name, item in variables.items():
        beside = isinstance(item, Closure) and item.scope[0] is maker
        known[name] = move(item) if beside else _end(b, frame, item)
    return move(closure)


def _end_address(b: Builder, frame: Frame, address: Register) -> Register:
    """Return an address that names no variable if it is in one of the function's arrays."""
    ended, zero = b.constant("b64", ENDED), b.constant("b64", 0)
    result = address
    for offset, size in dict.fromkeys(frame.made.values()):
        distance = b.emit("sub.b64", address, add_offset(b, b.special("local"), offset))
        inside = b.emit("setp.lt.u64", distance, b.constant("b64", size))
        result = b.emit("add.b64", result, b.emit("selp.b64", ended, zero, inside))
    return result
