"""Where paths meet: one value out of the values that a variable has on each of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from wsemu.errors import KernelError
from wsemu.frontend import arithmetic
from wsemu.frontend.builder import Builder
from wsemu.frontend.graph import Block, Phi, Register
from wsemu.frontend.promotion import unify
from wsemu.frontend.scalars import constant, describe, register
from wsemu.frontend.values import (
    ArrayValue,
    ComplexValue,
    NumberType,
    PatternValue,
    RecordValue,
    Scalar,
    Static,
    TupleValue,
    Value,
)

Environment = dict[str, Value]
Edge = tuple[Block, Environment]


@dataclass(frozen=True, slots=True)
class Ambiguous(Value):
    """A variable whose values on different paths have no common type: an error when it is used."""

    first: Value
    second: Value


class NoCommonType(Exception):
    """Two values cannot be one variable."""


def convert_at(b: Builder, block: Block, make: Callable[[], Any]) -> Any:
    """Emit into the end of another block, unknown to value numbering."""
    kept, known, scopes = b.block, b.known, b.scopes
    b.block, b.known = block, {}
    b.scopes = [type(scopes[0])() for _ in scopes]
    try:
        return make()
    finally:
        b.block, b.known, b.scopes = kept, known, scopes


def join(b: Builder, edges: list[Edge]) -> Environment:
    """Open the block where `edges` meet; the environment in it."""
    block = b.open()
    for source, _ in edges:
        if source.end != "bra":
            b.jump(source, block)
    if len(edges) == 1:
        return dict(edges[0][1])
    names = dict.fromkeys(name for _, env in edges for name in env)
    result = {}
    for name in names:
        values = [env.get(name) for _, env in edges]
        result[name] = merged(b, block, [source for source, _ in edges], values)
    return result


def merged(b: Builder, block: Block, sources: list[Block], values: list[Value | None]) -> Value:
    """One value for a variable; None where a path does not assign it (it is zero there)."""
    there = [v for v in values if v is not None]
    first = there[0]
    if all(v is first or v == first for v in there):
        return first
    try:
        return _merge(b, block, sources, [first if v is None and not isinstance(first, Scalar) else v for v in values])
    except NoCommonType:
        other = next(v for v in there if v != first)
        return Ambiguous(first, other)


def _merge(b: Builder, block: Block, sources: list[Block], values: list[Any]) -> Value:
    there = [v for v in values if v is not None]
    first = there[0]
    if all(v == first for v in values):
        return first  # type: ignore[no-any-return]
    if all(isinstance(v, (Scalar, ComplexValue)) for v in there):
        return _merge_numbers(b, block, sources, values, there)
    kind = type(first)
    if not all(isinstance(v, kind) for v in values):
        raise NoCommonType

    def parts(get: Callable[[Any], tuple[Any, ...]]) -> tuple[Any, ...]:
        columns = [get(v) for v in values]
        if len({len(c) for c in columns}) != 1:
            raise NoCommonType
        return tuple(_merge(b, block, sources, list(items)) for items in zip(*columns, strict=True))

    if isinstance(first, TupleValue):
        return TupleValue(parts(lambda v: v.items), first.names)
    if isinstance(first, PatternValue) and all(v.cls is first.cls for v in values):
        return PatternValue(first.cls, dict(zip(first.fields, parts(lambda v: tuple(v.fields.values())), strict=True)))
    if isinstance(first, ArrayValue) and len({(v.dtype, v.ndim) for v in values}) == 1:
        address = phi(b, block, "b64", sources, [v.address for v in values])
        name = first.name if all(v.name == first.name for v in values) else " or ".join(dict.fromkeys(v.name for v in values))
        space = first.space if all(v.space == first.space for v in values) else "generic"
        writable = all(v.writable for v in values)
        shape, strides = parts(lambda v: v.shape), parts(lambda v: v.strides)
        return ArrayValue(first.dtype, address, shape, strides, name, space, writable)
    if isinstance(first, RecordValue) and len({(v.dtype, v.offset) for v in values}) == 1:
        address = phi(b, block, "b64", sources, [v.address for v in values])
        return RecordValue(first.dtype, address, first.offset, first.name, first.space, first.writable)
    raise NoCommonType


def _merge_numbers(b: Builder, block: Block, sources: list[Block], values: list[Any], there: list[Any]) -> Value:
    type_: NumberType | None = there[0].type
    for v in there[1:]:
        type_ = unify(type_, v.type) if type_ is not None else None
    if type_ is None:
        raise NoCommonType
    numbers = []
    for source, v in zip(sources, values, strict=True):
        value = constant_zero(type_) if v is None else v
        numbers.append(convert_at(b, source, lambda value=value: arithmetic.cast(b, value, type_)))
    if type_.kind == "c":
        real = _scalar_phi(b, block, sources, [n.real for n in numbers])
        return ComplexValue(type_, real, _scalar_phi(b, block, sources, [n.imag for n in numbers]))
    return _scalar_phi(b, block, sources, numbers)


def constant_zero(type_: NumberType) -> Scalar:
    from wsemu.frontend.values import int64

    return constant(int64 if type_.kind == "c" else type_, 0)


def _scalar_phi(b: Builder, block: Block, sources: list[Block], numbers: list[Scalar]) -> Scalar:
    if all(n == numbers[0] for n in numbers):
        return numbers[0]
    registers = [register(b, n) for n in numbers]
    return Scalar(numbers[0].type, phi(b, block, numbers[0].type.register, sources, registers))


def phi(b: Builder, block: Block, type_: str, sources: list[Block], registers: list[Register]) -> Register:
    """A register that holds `registers[k]` when control came from `sources[k]`."""
    if all(r == registers[0] for r in registers):
        return registers[0]
    result = b.new(type_)
    block.phis.append(Phi(result, {s.index: r for s, r in zip(sources, registers, strict=True)}))
    return result


# -- loop headers ----------------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class Carried:
    """A value that a loop carries: its phis, to be given their other ends at the back edges."""

    value: Value
    phis: list[tuple[Phi, NumberType | None]]


def carry(b: Builder, block: Block, source: Block, value: Value, wanted: NumberType | None) -> Carried:
    """Phis at a loop header for a variable that the body assigns; `wanted` is a wider type known from an earlier walk."""
    phis: list[tuple[Phi, NumberType | None]] = []

    def one(type_: str, register_: Register, number: NumberType | None) -> Register:
        made = Phi(b.new(type_), {source.index: register_})
        block.phis.append(made)
        phis.append((made, number))
        return made.result

    def scalar(x: Scalar, type_: NumberType) -> Scalar:
        number = convert_at(b, source, lambda: arithmetic.cast(b, x, type_))
        return Scalar(type_, one(type_.register, register(b, number), type_))

    def walk(v: Value) -> Value:
        if isinstance(v, (Scalar, ComplexValue)):
            type_ = v.type if wanted is None else unify(v.type, wanted) or v.type
            if type_.kind == "c":
                number = convert_at(b, source, lambda: arithmetic.cast(b, v, type_))
                return ComplexValue(type_, scalar(number.real, number.real.type), scalar(number.imag, number.imag.type))
            assert isinstance(v, Scalar)
            return scalar(v, type_)
        if isinstance(v, TupleValue):
            return TupleValue(tuple(walk(item) for item in v.items), v.names)
        if isinstance(v, PatternValue):
            return PatternValue(v.cls, {name: walk(item) for name, item in v.fields.items()})
        if isinstance(v, ArrayValue):
            address = one("b64", v.address, None)
            shape, strides = tuple(map(walk, v.shape)), tuple(map(walk, v.strides))
            return ArrayValue(v.dtype, address, shape, strides, v.name, v.space, v.writable)  # type: ignore[arg-type]
        return v

    return Carried(walk(value), phis)


def leaves(v: Value) -> list[Any]:
    """The numbers and addresses of a value, in the order in which `carry` makes phis; other values as they are."""
    if isinstance(v, Scalar):
        return [v]
    if isinstance(v, ComplexValue):
        return [v.real, v.imag]
    if isinstance(v, TupleValue):
        return [leaf for item in v.items for leaf in leaves(item)]
    if isinstance(v, PatternValue):
        return [leaf for item in v.fields.values() for leaf in leaves(item)]
    if isinstance(v, ArrayValue):
        return [v.address, *(leaf for item in (*v.shape, *v.strides) for leaf in leaves(item))]
    return []


def same_shape(a: Value, v: Value) -> bool:
    """Whether a carried value and the one at the back edge have the same form, number types aside."""
    if isinstance(a, Scalar):
        return isinstance(v, Scalar)
    if type(a) is not type(v):
        return False
    if isinstance(a, TupleValue) and isinstance(v, TupleValue):
        return len(a.items) == len(v.items) and all(same_shape(x, y) for x, y in zip(a.items, v.items, strict=True))
    if isinstance(a, PatternValue) and isinstance(v, PatternValue):
        return a.cls is v.cls
    if isinstance(a, ArrayValue) and isinstance(v, ArrayValue):
        return a.dtype == v.dtype and a.ndim == v.ndim
    if isinstance(a, (Static, Ambiguous)):
        return a == v
    return True


def used(value: Value, name: str) -> Value:
    """`value`, unless it has no single type."""
    if isinstance(value, Ambiguous):
        raise KernelError(
            f"`{name}` is {describe(value.first)} on one path and {describe(value.second)} on another",
            remedy="use two names, or convert to one type",
        )
    return value
