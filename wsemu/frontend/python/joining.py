"""Joins of control-flow paths: one value for each variable that differs between them."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np

from wsemu.frontend.assemble.graph import Block, Phi, Register
from wsemu.frontend.python import arithmetic, enumerations
from wsemu.frontend.python.builder import Builder
from wsemu.frontend.python.scalars import constant, describe, part_type, register
from wsemu.frontend.python.values import (
    ArrayValue,
    Bound,
    Closure,
    ComplexValue,
    EnumValue,
    PatternValue,
    RecordValue,
    Scalar,
    Static,
    TupleValue,
    Unread,
    Value,
)
from wsemu.language.numbers import NumberType
from wsemu.language.promotion import unify
from wsemu.model.data import dataclass, replace
from wsemu.model.errors import KernelError, UnsupportedError

Environment = dict[str, Value]
Edge = tuple[Block, Environment]


@dataclass(frozen=True, slots=True)
class Ambiguous(Value):
    """A variable whose values on different paths have no common type: using it is an error."""

    first: Value
    second: Value


A = TypeVar("A", ArrayValue, RecordValue)


class NoCommonType(Exception):
    """Two values cannot be merged into one variable."""


def convert_in_block(b: Builder, block: Block, value: Any, type_: NumberType) -> Any:
    """Convert a number at the end of another block, outside of value numbering."""
    if value.type is type_:
        return value
    with b.elsewhere(block):
        return arithmetic.cast(b, value, type_)


def join(b: Builder, edges: list[Edge]) -> Environment:
    """Open the block in which `edges` meet; return its environment."""
    block = b.open()
    block.dead = all(source.dead for source, _ in edges)
    for source, _ in edges:
        if source.end != "bra":
            b.jump(source, block)
    if len(edges) == 1:
        return dict(edges[0][1])
    sources, environments = [source for source, _ in edges], [env for _, env in edges]
    result = dict(environments[0])  # most variables are the same on every path
    names = {name: None for env in environments[1:] for name, value in env.items() if result.get(name) is not value}
    names.update({name: None for name in result if any(name not in env for env in environments)})
    for name in names:
        values = [env.get(name) for env in environments]
        result[name] = merge_values(b, block, sources, values)
        if any(
            (v is None and not source.dead) or id(v) in b.partial for source, v in zip(sources, values, strict=True)
        ):
            b.partial[id(result[name])] = name, result[name]
    return result


def merge_values(b: Builder, block: Block, sources: list[Block], values: list[Value | None]) -> Value:
    """Return one value for a variable; None if a path does not assign it (it is zero there).

    Edges from unreachable blocks only influence its type.
    """
    first = next(v for v in values if v is not None)
    if all(v is first for v in values):
        return first
    edges = list(zip(sources, values, strict=True))
    live = [(source, v) for source, v in edges if source.dead is block.dead]
    known = [v for _, v in live if v is not None]
    if not known:
        return blank(b, first)
    unread = next((v for v in known if isinstance(v, Unread)), None)
    if unread is not None:
        return unread
    result = known[0]
    try:
        if not all(v is result for _, v in live):
            whole = [blank(b, result) if v is None else v for _, v in live]
            result = _merge(b, block, [source for source, _ in live], whole)
        for source, v in edges:
            if source.dead is not block.dead and v is not None:
                result = typed_as(b, result, v)
    except NoCommonType:
        other = next((v for v in values if v is not None and not same_value(v, first)), first)
        return Ambiguous(first, other)
    if isinstance(result, Scalar) and (result.fixed or result.dropped):
        return replace(result, fixed=False, dropped=False)
    return result


def typed_as(b: Builder, value: Value, other: Value) -> Value:
    """Return `value`, in the type of a variable that holds it or `other`."""
    match value, other:
        case (Unread(), _) | (_, Unread()):
            return value if isinstance(value, Unread) else other
        case (Ambiguous(), _) | (_, Ambiguous()):
            return value if isinstance(value, Ambiguous) else other
        case Scalar() | ComplexValue(), Scalar() | ComplexValue():
            type_ = _common([value.type, other.type])
            return value if value.type is type_ else arithmetic.cast(b, value, type_)
        case TupleValue(), TupleValue() if len(value.items) == len(other.items):
            pairs = zip(value.items, other.items, strict=True)
            return TupleValue(tuple(typed_as(b, v, o) for v, o in pairs), value.names)
        case PatternValue(), PatternValue() if value.cls is other.cls and value.fields.keys() == other.fields.keys():
            return PatternValue(value.cls, {n: typed_as(b, v, other.fields[n]) for n, v in value.fields.items()})
        case ArrayValue(), ArrayValue() if value.dtype == other.dtype and value.ndim == other.ndim:
            return value
        case RecordValue(), RecordValue() if value.dtype == other.dtype and value.offset == other.offset:
            return value
    nothing = Static(None)
    if same_value(value, other) or same_value(value, nothing) or same_value(other, nothing):
        return value  # a variable that may be `None` is an optional, which has the type of its value
    raise NoCommonType


def same_value(a: Any, v: Any) -> bool:
    """Return whether two values are one: the same register, the same bits, the same host object."""
    if a is v:
        return True
    if type(a) is not type(v):
        return False
    match a:
        case Scalar():
            alike = a.register == v.register and a.type is v.type and a.literal == v.literal
            alike = alike and a.enumeration is v.enumeration
            return alike and (a.type.kind != "f" or repr(a.literal) == repr(v.literal))  # -0.0 is not 0.0
        case ComplexValue():
            return same_value(a.real, v.real) and same_value(a.imag, v.imag)
        case TupleValue():
            return len(a.items) == len(v.items) and all(map(same_value, a.items, v.items))
        case Static():
            # compare only within one kind, because in NumPy `np.dtype("float64") == None`
            plain = (str, bytes, np.dtype)
            alike = isinstance(a.object, plain) and isinstance(v.object, type(a.object))
            return a.object is v.object or (alike and bool(a.object == v.object))
        case Closure():
            return a.node is v.node and a.scope[0] is v.scope[0]
        case PatternValue():
            return (
                a.cls is v.cls
                and a.fields.keys() == v.fields.keys()
                and all(same_value(item, v.fields[name]) for name, item in a.fields.items())
            )
        case Bound():
            return a.name == v.name and same_value(a.receiver, v.receiver)
    return bool(a == v)


def blank(b: Builder, value: Value) -> Value:
    """Return the value of a variable like `value` before its first assignment: zeros."""
    match value:
        case Scalar():
            return replace(constant(value.type, 0), enumeration=value.enumeration)
        case ComplexValue():
            return ComplexValue(value.type, constant(value.real.type, 0), constant(value.imag.type, 0))
        case TupleValue():
            return TupleValue(tuple(blank(b, item) for item in value.items), value.names)
        case PatternValue():
            return PatternValue(value.cls, {name: blank(b, item) for name, item in value.fields.items()})
        case ArrayValue():
            shape, strides, bounds = (
                tuple(constant(x.type, x.literal or 0) for x in part)
                for part in (value.shape, value.strides, value.bounds)
            )
            return replace(value, address=b.constant("b64", 0), shape=shape, strides=strides, bounds=bounds)
        case RecordValue():
            return replace(value, address=b.constant("b64", 0))
    return value


def _merge(b: Builder, block: Block, sources: list[Block], values: list[Any]) -> Value:
    first: Value = values[0]
    if all(same_value(v, first) for v in values):
        return first
    if all(isinstance(v, (Scalar, ComplexValue)) for v in values):
        return _merge_numbers(b, block, sources, values)
    members = enumerations.common_class(values)
    if members is not None:
        index = _scalar_phi(b, block, sources, [enumerations.place(v) for v in values])
        return EnumValue(members, index)
    kind = type(first)
    if not all(type(v) is kind for v in values):
        raise NoCommonType

    def parts(get: Callable[[Any], tuple[Any, ...]]) -> tuple[Any, ...]:
        columns = [get(v) for v in values]
        if len({len(c) for c in columns}) != 1:
            raise NoCommonType
        return tuple(_merge(b, block, sources, list(items)) for items in zip(*columns, strict=True))

    match first:
        case TupleValue():
            return TupleValue(parts(lambda v: v.items), first.names)
        case PatternValue() if all(v.cls is first.cls and v.fields.keys() == first.fields.keys() for v in values):
            names = tuple(first.fields)
            return PatternValue(
                first.cls, dict(zip(names, parts(lambda v: tuple(v.fields[n] for n in names)), strict=True))
            )
        case ArrayValue() if all(v.dtype == first.dtype and v.ndim == first.ndim for v in values):
            array: ArrayValue = merge_descriptions(values)
            address = phi(b, block, "b64", sources, [v.address for v in values])
            shape, strides, bounds = (parts(get) for get in (_shape, _strides, _bounds))
            return replace(array, address=address, shape=shape, strides=strides, bounds=bounds)
        case RecordValue() if all(v.dtype == first.dtype and v.offset == first.offset for v in values):
            address = phi(b, block, "b64", sources, [v.address for v in values])
            record: RecordValue = merge_descriptions(values)
            return replace(record, address=address)
    raise NoCommonType


_shape, _strides, _bounds = (attrgetter(name) for name in ("shape", "strides", "bounds"))


def merge_descriptions(values: list[A]) -> A:
    """Return the first of some arrays or records, with the name, space and access that fit all of them."""
    first = values[0]
    names = dict.fromkeys(part for v in values for part in v.name.split(" or "))
    name = first.name if len(names) == 1 else " or ".join(sorted(names))
    space = first.space if all(v.space == first.space for v in values) else "generic"
    return replace(first, name=name, space=space, writable=all(v.writable for v in values))


def _common(types: list[NumberType]) -> NumberType:
    result: NumberType | None = types[0]
    for type_ in types[1:]:
        result = result and unify(result, type_)
    if result is None:
        raise NoCommonType
    return result


def _merge_numbers(b: Builder, block: Block, sources: list[Block], values: list[Any]) -> Value:
    type_ = _common([v.type for v in values])
    numbers = [convert_in_block(b, source, v, type_) for source, v in zip(sources, values, strict=True)]
    if type_.kind == "c":
        real = _scalar_phi(b, block, sources, [n.real for n in numbers])
        return ComplexValue(type_, real, _scalar_phi(b, block, sources, [n.imag for n in numbers]))
    return _scalar_phi(b, block, sources, numbers)


def _scalar_phi(b: Builder, block: Block, sources: list[Block], numbers: list[Scalar]) -> Scalar:
    if all(same_value(n, numbers[0]) for n in numbers):
        return numbers[0]
    registers = [register(b, n) for n in numbers]
    members = enumerations.common_integer_class(numbers)
    type_ = numbers[0].type
    return Scalar(type_, phi(b, block, type_.register, sources, registers), enumeration=members)


def phi(b: Builder, block: Block, type_: str, sources: list[Block], registers: list[Register]) -> Register:
    """Return a register that holds `registers[k]` when control came from `sources[k]`."""
    if all(r == registers[0] for r in registers):
        return registers[0]
    result = b.new(type_)
    block.phis.append(Phi(result, {s.index: r for s, r in zip(sources, registers, strict=True)}))
    return result


# -- loop headers ----------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class Carried:
    """A value that a loop carries: its phis, whose back-edge operands are set later."""

    value: Value
    phis: list[tuple[Phi, NumberType | None]]


def carry(b: Builder, block: Block, source: Block, value: Value, seed: Value | None) -> Carried:
    """Return phis at a loop header for a variable that the body assigns; `seed` has the types that an earlier walk
    found necessary."""
    unread = next((v for v in (value, seed) if isinstance(v, Unread)), None)
    if unread is not None:
        return Carried(unread, [])
    if isinstance(seed, Ambiguous) or (seed is not None and widest(value, seed) is None):
        return Carried(Ambiguous(value, seed), [])
    phis: list[tuple[Phi, NumberType | None]] = []

    def one(type_: str, register_: Register, number: NumberType | None) -> Register:
        made = Phi(b.new(type_), {source.index: register_})
        block.phis.append(made)
        phis.append((made, number))
        return made.result

    def scalar(x: Scalar) -> Scalar:
        return Scalar(x.type, one(x.type.register, register(b, x), x.type))

    def numbers(parts: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
        return tuple(scalar(x) for x in parts)

    def walk(v: Value, wanted: Value) -> Value:
        if isinstance(v, (Scalar, ComplexValue)):
            assert isinstance(wanted, (Scalar, ComplexValue))
            number = v if v.type is wanted.type else convert_in_block(b, source, v, _common([v.type, wanted.type]))
            if isinstance(number, ComplexValue):
                return ComplexValue(number.type, scalar(number.real), scalar(number.imag))
            return replace(scalar(number), enumeration=enumerations.common_integer_class([v, wanted]))
        match v, wanted:
            case TupleValue(), TupleValue():
                return TupleValue(tuple(map(walk, v.items, wanted.items)), v.names)
            case PatternValue(), PatternValue():
                return PatternValue(v.cls, {name: walk(item, wanted.fields[name]) for name, item in v.fields.items()})
            case ArrayValue(), ArrayValue():
                address = one("b64", v.address, None)
                shape, strides, bounds = numbers(v.shape), numbers(v.strides), numbers(v.bounds)
                return replace(
                    merge_descriptions([v, wanted]), address=address, shape=shape, strides=strides, bounds=bounds
                )
            case RecordValue(), RecordValue():
                return replace(merge_descriptions([v, wanted]), address=one("b64", v.address, None))
        return v

    return Carried(walk(value, value if seed is None else seed), phis)


def leaves(v: Value) -> list[Any]:
    """Return the numbers and addresses of a value, in the order in which `carry` creates phis."""
    match v:
        case Scalar():
            return [v]
        case ComplexValue():
            return [v.real, v.imag]
        case TupleValue():
            return [leaf for item in v.items for leaf in leaves(item)]
        case PatternValue():
            return [leaf for item in v.fields.values() for leaf in leaves(item)]
        case ArrayValue():
            return [v.address, *v.shape, *v.strides, *v.bounds]
        case RecordValue():
            return [v.address]
    return []


def widest(a: Value, v: Value) -> Value | None:
    """Return a value with the form and types that a variable needs to hold both values; None if there is none."""
    try:
        return _widest(a, v)
    except NoCommonType:
        return None


def _widest(a: Value, v: Value) -> Value:
    match a, v:
        case (Unread() as unread, _) | (_, Unread() as unread):
            return unread
        case Scalar() | ComplexValue(), Scalar() | ComplexValue():
            type_ = _common([a.type, v.type])
            wide = a if type_ is a.type else v if type_ is v.type else zero_constant(type_)
            return (
                replace(wide, enumeration=enumerations.common_integer_class([a, v]))
                if isinstance(wide, Scalar)
                else wide
            )
        case TupleValue(), TupleValue() if len(a.items) == len(v.items):
            return TupleValue(tuple(map(_widest, a.items, v.items)), a.names)
        case PatternValue(), PatternValue() if a.cls is v.cls and a.fields.keys() == v.fields.keys():
            return PatternValue(a.cls, {name: _widest(item, v.fields[name]) for name, item in a.fields.items()})
        case ArrayValue(), ArrayValue() if a.dtype == v.dtype and a.ndim == v.ndim:
            return merge_descriptions([a, v])
        case RecordValue(), RecordValue() if a.dtype == v.dtype and a.offset == v.offset:
            return merge_descriptions([a, v])
    if same_value(a, v):
        return a
    raise NoCommonType


def zero_constant(type_: NumberType) -> Value:
    """Return the zero of a type, real or complex."""
    if type_.kind == "c":
        part = constant(part_type(type_), 0)
        return ComplexValue(type_, part, part)
    return constant(type_, 0)


def same_types(a: Value, v: Value) -> bool:
    """Return whether two values of one form have the same types."""
    match a, v:
        case Scalar(), Scalar():
            return a.type is v.type and a.enumeration is v.enumeration
        case ComplexValue(), ComplexValue():
            return a.type is v.type
        case TupleValue(), TupleValue():
            return all(map(same_types, a.items, v.items))
        case PatternValue(), PatternValue():
            return all(same_types(item, v.fields[name]) for name, item in a.fields.items())
        case ArrayValue() | RecordValue(), ArrayValue() | RecordValue():
            return (a.name, a.space, a.writable) == (v.name, v.space, v.writable)
    return same_value(a, v)


def alike(a: Value, v: Value) -> bool:
    """Return whether two values have the same types; arrays may differ in identity."""
    match a, v:
        case TupleValue(), TupleValue() if len(a.items) == len(v.items):
            return all(map(alike, a.items, v.items))
        case PatternValue(), PatternValue() if a.fields.keys() == v.fields.keys():
            return all(alike(item, v.fields[name]) for name, item in a.fields.items())
        case ArrayValue(), ArrayValue():
            return a.dtype == v.dtype and a.ndim == v.ndim
        case RecordValue(), RecordValue():
            return a.dtype == v.dtype
        case Scalar(), Scalar():
            return a.type is v.type
    return same_types(a, v)


def _two_types(value: Ambiguous) -> tuple[Value, Value]:
    """Return two values of a variable without a common type, each of one type."""
    second = value.second
    while isinstance(second, Ambiguous):
        second = second.second
    first = value.first
    while isinstance(first, Ambiguous):
        first = first.first
    return first, second


def used(value: Value, name: str) -> Value:
    """Return `value`; raise an error if it has no single type."""
    if isinstance(value, Unread):
        error = value.error
        place = f" (line {error.span.line})" if error.span is not None else ""
        what = f"{error.message}{place}: it never runs, but Numba takes the type of `{name}` from it"
        if "it never runs, but Numba" in error.message:  # the value came through another variable
            what = error.message
        raise UnsupportedError(what, remedy=error.remedy)
    if isinstance(value, Ambiguous):
        both = _two_types(value)
        # Numba treats None and a number as one optional type
        objects = any(isinstance(one, (Static, Closure)) for one in both)
        raise (UnsupportedError if objects else KernelError)(
            f"`{name}` is {describe(both[0])} on one path and {describe(both[1])} on another",
            remedy="use two names, or convert to one type",
        )
    return value
