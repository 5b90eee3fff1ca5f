"""Functions in PTX: `cuda.declare_device` and the PTX files of `link=`.

A call passes numbers, pointers, and arrays by one of Numba's calling conventions.  In the "numba" convention, the
address of the result is the first argument, and a status is returned; in the "c" convention, the result is returned.
Functions in CUDA C++ or machine code require Numba-CUDA.
"""

from __future__ import annotations

import functools
import linecache
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.frontend.ptx import link, parse
from wsemu.frontend.ptx.linked import call, register_types
from wsemu.frontend.python import arrays, views
from wsemu.frontend.python.frames import NONE
from wsemu.frontend.python.scalars import cast, constant, register, scalar_cast
from wsemu.frontend.python.values import ArrayValue, ComplexValue, Scalar, TupleValue, Value
from wsemu.language import signatures
from wsemu.language.markers import Foreign
from wsemu.language.numbers import boolean, int8, int32, int64, uint8, uint32
from wsemu.model.program import SharedArray

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterable

    from wsemu.frontend.assemble.graph import Register
    from wsemu.frontend.ptx.module import Module
    from wsemu.frontend.ptx.syntax import Function
    from wsemu.frontend.python.walker import Walker
    from wsemu.language.numbers import NumberType

_RESULT = 16
"""size and alignment of the memory for a result, in bytes"""


def call_foreign(w: Walker, node: ast.AST, declared: Foreign, args: list[Value]) -> Value | None:
    """Return the result of a declared function; None if no linked PTX defines it."""
    if declared.path != "declare_device" or declared.made is None:
        return None
    _, (name, signature, *_), named = declared.made
    found = _function(name, (*_to_tuple(named.get("link")), *w.linked))
    if found is None:
        return None
    home, function = found
    (types,) = signatures.parse(signature, name)
    if len(args) != len(types.arguments):
        raise w.error(node, f"`{name}` takes {len(types.arguments)} arguments, not {len(args)}")
    result = signatures.number(types.result)
    in_c = named.get("abi", "numba") == "c"
    values = [
        part for value, type_ in zip(args, types.arguments, strict=True) for part in _flatten_argument(w, value, type_)
    ]
    place = None if in_c else _place(w, name)
    if place is not None:
        values.insert(0, Scalar(int64, place))
    wanted, given = register_types(function.parameters), register_types(function.results)
    if wanted is None or given is None or len(wanted) != len(values) or (in_c and bool(given) != (result is not None)):
        raise w.unsupported_error(
            node, f"`{name}` has other parameters in its PTX than by its signature", "match the two"
        )
    first, last, results = call(
        w.b.graph,
        home,
        function,
        [_as_register(w, *pair) for pair in zip(values, wanted, strict=True)],
        w.b.span,
        w.b.stack,
    )
    w.b.jump(w.b.block, first)
    w.b.jump(last, w.b.open())
    w.has_ptx = True
    if result is None:
        return NONE
    if place is not None:
        return _load_result(w, place, result, name)
    return _unpack_result(w, results[0], result)


@functools.lru_cache(maxsize=64)
def _modules(texts: tuple[tuple[str, str], ...]) -> tuple[Module, ...]:
    return link([parse(text, file) for text, file in texts])


def _to_tuple(given: Any) -> tuple[Any, ...]:
    return () if given is None else tuple(given) if isinstance(given, (list, tuple, set)) else (given,)


def _function(name: str, sources: Iterable[Any]) -> tuple[Module, Function] | None:
    """Return the function in the linked PTX, or None."""
    texts = tuple(dict.fromkeys(text for source in sources if (text := _text(source)) is not None))
    modules = _modules(texts) if texts else ()
    found = modules[0].function(name) if modules else None
    return found if found is not None and found[1].body is not None else None


def _text(source: Any) -> tuple[str, str] | None:
    """Return the PTX text and the file name to show; None for text that is not PTX, or for a missing file."""
    if isinstance(source, Foreign):
        if source.path != "PTXSource" or source.made is None or not source.made[1]:
            return None
        data = source.made[1][0]
        text = data.decode(errors="replace") if isinstance(data, bytes) else str(data)
        file = f"<{source.made[2].get('name') or 'linked.ptx'}>"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        return text, file
    if not isinstance(source, (str, os.PathLike)) or not os.fspath(source).endswith(".ptx"):
        return None
    try:
        with open(source, encoding="utf-8", errors="replace") as stream:
            return stream.read(), os.fspath(source)
    except OSError:
        return None


# -- arguments --------------------------------------------------------------------------------------------------------
def _flatten_argument(w: Walker, value: Value, type_: Any) -> list[Scalar]:
    """Return the numbers as which an argument is passed."""
    items = signatures.items(type_)
    if items is not None and isinstance(value, TupleValue):
        return [part for item, of in zip(value.items, items, strict=True) for part in _flatten_argument(w, item, of)]
    if isinstance(value, ArrayValue):
        address = Scalar(int64, value.address)
        if not hasattr(type_, "ndim"):
            return [address]
        size = views.attribute(w.b, value, "size")
        assert isinstance(size, Scalar)
        zero = constant(int64, 0)
        return [zero, zero, size, constant(int64, value.dtype.itemsize), address, *value.shape, *value.strides]
    wanted = signatures.number(type_)
    made = value if wanted is None else cast(w.b, value, wanted)
    if isinstance(made, ComplexValue):
        return [made.real, made.imag]
    if not isinstance(made, Scalar):
        raise w.unsupported_error(w.node, f"an argument of type {type_}", "pass numbers, and pointers to arrays")
    return [made]


def _as_register(w: Walker, value: Scalar, type_: str) -> Register:
    """Return a number as a register of a parameter's type: small types are sign-extended."""
    wide = {"b32": 32, "b64": 64}.get(type_, 0)
    if value.type is boolean:
        value = scalar_cast(w.b, value, uint8)
    if value.type.kind in "iu" and value.type.bits < wide == 32:
        value = scalar_cast(w.b, value, int32 if value.type.kind == "i" else uint32)
    return register(w.b, value)


# -- results ----------------------------------------------------------------------------------------------------------
def _place(w: Walker, name: str) -> Register:
    """Return the address of memory for a result."""
    graph = w.b.graph
    offset = -(-graph.local_bytes // _RESULT) * _RESULT
    graph.local_bytes = offset + _RESULT
    graph.locals.append(SharedArray(f"the result of {name}", offset, (2,), np.dtype(np.float64), w.b.span, _RESULT))
    return w.b.emit("add.b64", w.b.special("local"), w.b.constant("b64", offset))


def _load_result(w: Walker, place: Register, type_: NumberType, name: str) -> Value:
    """Return a result from its memory."""
    dtype = np.dtype(type_.name)
    bounds = Scalar(int64, place), constant(int64, _RESULT)
    one, size = constant(int64, 1), constant(int64, dtype.itemsize)
    source = ArrayValue(dtype, place, (one,), (size,), f"the result of {name}", "local", bounds, True)
    return arrays.read(w.b, dtype, place, 0, source)


def _unpack_result(w: Walker, result: Register, type_: NumberType) -> Value:
    """Return a result that the call returns: a small one is in the low bits."""
    graph = w.b.graph
    w.b.homes[result] = len(w.b.scopes) - 1
    w.b.scopes[-1].made.append(result)
    have, want = int(graph.types[result][1:]), max(8, type_.bits)
    if have > want:
        result = w.b.emit(f"cvt.b{want}.s{have}", result)
    return _number(w, result, type_)


def _number(w: Walker, bits: Register, type_: NumberType) -> Value:
    if type_ is boolean:
        return scalar_cast(w.b, Scalar(int8, bits), boolean)
    return Scalar(type_, bits)
