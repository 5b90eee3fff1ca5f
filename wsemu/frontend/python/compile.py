"""The Python front end: from a function in the Numba-CUDA dialect to a `Program`."""

from __future__ import annotations

import dataclasses
import enum
import sys
from collections.abc import Sequence
from types import FunctionType
from typing import Any

import numpy as np

from wsemu.frontend.assemble.encode import assemble
from wsemu.frontend.assemble.graph import Graph
from wsemu.frontend.python.builder import Builder
from wsemu.frontend.python.lifetimes import drop_single_ends
from wsemu.frontend.python.names import is_pattern
from wsemu.frontend.python.recursion import Regions, Ways, has_together
from wsemu.frontend.python.scalars import part_type
from wsemu.frontend.python.values import (
    ArrayValue,
    ComplexValue,
    PatternValue,
    RecordValue,
    Scalar,
    Static,
    TensorMapValue,
    TupleValue,
    TypedVariable,
    Value,
)
from wsemu.frontend.python.walker import Walker
from wsemu.language.numbers import NumberType, boolean, complex128, float64, int64, uint64
from wsemu.language.promotion import number_type
from wsemu.model.data import dataclass, field
from wsemu.model.errors import UnsupportedError, UsageError
from wsemu.model.program import Parameter, Program
from wsemu.model.tensor_map import TensorMap


@dataclass(frozen=True, slots=True)
class ArrayType:
    """The type of an array argument: elements, dimensions, layout (C, F or A), and whether it is writable."""

    dtype: np.dtype[Any]
    ndim: int
    layout: str
    writable: bool


@dataclass(frozen=True, slots=True)
class StaticType:
    """The type of an argument that is a compile-time object, compared by identity."""

    object: Any

    def __hash__(self) -> int:
        return id(self.object)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StaticType) and other.object is self.object


@dataclass(frozen=True, slots=True)
class KnownType:
    """The type of a part of an argument that is known at compile time, compared by value."""

    type: type
    """type of the value, without which True and 1 would be equal"""
    value: Any


@dataclass(frozen=True, slots=True)
class TupleType:
    items: tuple[Any, ...]
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MemberType:
    """The type of an argument that is a member of an integer enumeration: int64, whose class `is` compares."""

    cls: enum.EnumMeta


@dataclass(frozen=True, slots=True)
class TensorMapType:
    """The type of an argument that is a tensor map."""

    rank: int


@dataclass(frozen=True, slots=True)
class PatternType:
    """The type of an argument that is a frozen dataclass with kernel methods, such as a transfer pattern.

    Each launch passes the values of its positional fields, like other arguments; its keyword-only fields are
    compile-time constants.
    """

    cls: type
    fields: tuple[tuple[str, Any], ...]


DEPTH = 12_000
"""maximum interpreter frames of a compilation, because recursive functions are inlined"""
ArgumentType = NumberType | MemberType | ArrayType | TupleType | PatternType | TensorMapType | StaticType


@dataclass(frozen=True, slots=True)
class Compiled:
    """A kernel's program, the inferred types of its variables, and notes for the report."""

    program: Program
    variables: list[TypedVariable]
    notes: list[str] = field(default_factory=list)


def argument_type(value: Any, name: str = "argument") -> ArgumentType:
    """Return the type of a host argument; raise UsageError, which names the argument, if it cannot be passed."""
    if isinstance(value, np.ndarray):
        if number_type(value.dtype) is None and value.dtype.names is None and value.dtype.kind not in "SU":
            what = f"argument `{name}` is an array of {value.dtype}"
            if value.dtype.kind in "Mm":
                raise UnsupportedError(what, remedy="pass numbers of up to 64 bits, such as `array.view(np.int64)`")
            raise UsageError(f"{what}: kernels hold numbers of up to 64 bits, and records")
        layout = "C" if value.flags.c_contiguous else "F" if value.flags.f_contiguous else "A"
        return ArrayType(value.dtype, value.ndim, layout, bool(value.flags.writeable))
    if isinstance(value, bool):
        return boolean
    if isinstance(value, int) and not isinstance(value, np.generic):
        if not -(1 << 63) <= value < 1 << 64:
            raise UsageError(f"argument `{name}` is {value}, which does not fit into 64 bits")
        if isinstance(value, enum.IntEnum):
            return MemberType(type(value))
        return int64 if value < 1 << 63 else uint64
    if isinstance(value, np.generic):
        found = number_type(value.dtype)
        if found is None and isinstance(value, np.void):
            raise UnsupportedError(
                f"argument `{name}` is {_single(value)}",
                remedy="pass an array of one element, or its numbers one by one",
            )
        if found is None:
            raise UsageError(f"argument `{name}` is {value!r} of dtype {value.dtype}: pass a number of up to 64 bits")
        return found
    if isinstance(value, float):
        return float64
    if isinstance(value, complex):
        return complex128
    if isinstance(value, tuple):
        items = tuple(argument_type(item, f"{name}[{n}]") for n, item in enumerate(value))
        return TupleType(items, tuple(getattr(value, "_fields", ())))
    if isinstance(value, (list, set, dict, str, bytes)) or value is None:
        what = "None" if value is None else f"a {type(value).__name__}"
        remedy = "pass np.asarray(...)" if isinstance(value, list) else "pass a number or a NumPy array"
        raise UsageError(f"argument `{name}` is {what}: {remedy}")
    if isinstance(value, TensorMap):
        return TensorMapType(value.fields.rank)
    if hasattr(value, "__array_interface__"):
        return argument_type(np.asarray(value), name)
    if dataclasses.is_dataclass(value) and is_pattern(value):
        return _pattern_type(value, name)
    return StaticType(value)


def _single(value: np.generic) -> str:
    return "a single record" if isinstance(value, np.void) else f"a {type(value).__name__}"


def _pattern_type(value: Any, name: str) -> PatternType:
    """Return the type of a pattern: for each positional field its type, for each keyword-only field its value."""
    fields: list[tuple[str, Any]] = []
    for part in dataclasses.fields(value):
        item = getattr(value, part.name)
        known = part.kw_only and item.__hash__ is not None
        fields.append((part.name, KnownType(type(item), item) if known else argument_type(item, f"{name}.{part.name}")))
    return PatternType(type(value), tuple(fields))


def compile_kernel(
    function: FunctionType,
    types: tuple[ArgumentType, ...],
    *,
    fma: bool = True,
    registers: int = 0,
    debug: bool = False,
    stepping: bool = False,
    link: Sequence[Any] = (),
) -> Compiled:
    """Compile a kernel for arguments of these types.  `registers` is the number of registers of a thread at launch, 0
    if unknown.

    With `debug`, exceptions reach the host; with `stepping`, each statement shows its variables.  `link` has PTX files.
    KernelError and UnsupportedError describe errors in the kernel.
    """
    walker = _walk_function(function, types, registers, debug, stepping, link)
    if walker.recursive and has_together(walker.b.graph):
        regions = tuple(frozenset(region) for region in walker.recursive)
        walker = _walk_function(function, types, registers, debug, stepping, link, regions)
    made = assemble(walker.b.graph, fma=fma, expand=_expansion(walker))
    return Compiled(made, walker.variables, walker.notes)


def _walk_function(
    function: FunctionType,
    types: tuple[ArgumentType, ...],
    registers: int,
    debug: bool,
    stepping: bool,
    link: Sequence[Any],
    regions: Regions = (),
) -> Walker:
    """Walk a kernel, and return the walker; `regions` are mutually recursive functions that are not inlined."""
    graph = Graph(function.__name__, registers=registers)
    builder = Builder(graph)
    walker = Walker(builder, debug=debug, stepping=stepping)
    walker.linked = tuple(link)
    if regions:
        walker.ways = Ways(builder, regions)
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    values = [
        _argument(builder, walker, n, name, type_, ()) for n, (name, type_) in enumerate(zip(names, types, strict=True))
    ]
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, DEPTH))
    try:
        walker.run_kernel(function, values)
    except RecursionError as error:
        too_deep = UnsupportedError(
            f"kernel `{function.__name__}` nests expressions or calls too deeply", remedy="split it up"
        )
        raise walker.locate(too_deep, walker.node) from error
    finally:
        sys.setrecursionlimit(limit)
    drop_single_ends(graph)
    return walker


def _expansion(walker: Walker) -> Any:
    """Return the function that expands compound operations of PTX, or None if there are none."""
    if not walker.has_ptx:
        return None
    from wsemu.frontend.ptx.expand import expand

    return expand


def _argument(b: Builder, walker: Walker, n: int, name: str, type_: ArgumentType, path: tuple[int | str, ...]) -> Value:
    """Return the value of an argument, or of its part at `path`, in the kernel."""

    def parameter(register_type: str, part: str, axis: int = 0) -> int:
        register = b.graph.new(register_type)
        b.graph.parameters[register] = Parameter(0, register_type, n, path, part, axis)
        return register

    match type_:
        case NumberType(kind="c"):
            part = part_type(type_)
            return ComplexValue(type_, *(Scalar(part, parameter(part.register, "value", axis)) for axis in range(2)))
        case NumberType():
            return Scalar(type_, parameter(type_.register, "value"))
        case MemberType():
            return Scalar(int64, parameter("b64", "value"), enumeration=type_.cls)
        case ArrayType():
            return _array(type_, name, parameter)
        case TupleType():
            items = (_argument(b, walker, n, f"{name}[{k}]", item, (*path, k)) for k, item in enumerate(type_.items))
            return TupleValue(tuple(items), type_.names)
        case PatternType():
            fields = {
                key: walker.host_value(item.value, f"{name}.{key}")
                if isinstance(item, KnownType)
                else _argument(b, walker, n, f"{name}.{key}", item, (*path, key))
                for key, item in type_.fields
            }
            return PatternValue(type_.cls, fields)
        case TensorMapType():
            return TensorMapValue(parameter("b64", "memory"), type_.rank, name)
        case StaticType():
            return Static(type_.object)
    raise AssertionError(type_)


def _array(type_: ArrayType, name: str, parameter: Any) -> Value:
    address = parameter("b64", "address")
    shape = tuple(Scalar(int64, parameter("b64", "shape", axis)) for axis in range(type_.ndim))
    inner = {"C": type_.ndim - 1, "F": 0}.get(type_.layout, -1)
    strides = tuple(
        Scalar(int64, None, type_.dtype.itemsize) if axis == inner else Scalar(int64, parameter("b64", "stride", axis))
        for axis in range(type_.ndim)
    )
    if type_.ndim == 0 and type_.dtype.names:
        return RecordValue(type_.dtype, address, 0, name, "global", type_.writable)
    first = address if type_.layout in ("C", "F") else parameter("b64", "first")
    bounds = Scalar(int64, first), Scalar(int64, parameter("b64", "size"))
    return ArrayValue(type_.dtype, address, shape, strides, name, "global", bounds, type_.writable)
