"""Helpers for the bodies of operations, for LLVM values that are vectors of 32 lanes and for those of single lanes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from llvmlite import ir

from wsemu.model.isa import LANES, OPCODE

Builder = Any
Value = Any
Body = Callable[..., Value]
I1, I8, I16, I32, I64 = (ir.IntType(n) for n in (1, 8, 16, 32, 64))
F32, F64 = ir.FloatType(), ir.DoubleType()
ELEMENT = {"b8": I8, "b16": I16, "b32": I32, "b64": I64, "f16": I16, "f32": F32, "f64": F64}
MASK = ir.VectorType(I1, LANES)


def element(t: Any) -> Any:
    return t.element if isinstance(t, ir.VectorType) else t


def like(t: Any, scalar: Any) -> Any:
    """Return a scalar type, or a vector of it as long as `t`."""
    return ir.VectorType(scalar, t.count) if isinstance(t, ir.VectorType) else scalar


_CONSTANTS: dict[tuple[Any, int, str], Value] = {}
"""cached vector constants: to write one out takes longer than most instructions, and most are reused"""


def numbers(scalar: Any, values: Sequence[float]) -> Value:
    """Return a vector of constants."""
    key = scalar, len(values), repr(values)  # `repr` distinguishes 0.0 and -0.0
    if key not in _CONSTANTS:
        _CONSTANTS[key] = ir.Constant(ir.VectorType(scalar, len(values)), list(values))
    return _CONSTANTS[key]


def halves(n: int) -> tuple[Value, Value]:
    """Return the masks that select the first n elements of a vector, and the next n."""
    return numbers(I32, range(n)), numbers(I32, range(n, 2 * n))


def all_zero(b: Builder, v: Value) -> Value:
    """Return whether all numbers of a vector, whose length is a power of two, are 0."""
    n, width = v.type.count, v.type.element.width
    while n * width > 256:
        n //= 2
        low, high = halves(n)
        v = b.or_(b.shuffle_vector(v, v, low), b.shuffle_vector(v, v, high))
    whole = ir.IntType(n * width)
    return b.icmp_unsigned("==", b.bitcast(v, whole), ir.Constant(whole, 0))


def constant(t: Any, value: float) -> Value:
    return numbers(t.element, [value] * t.count) if isinstance(t, ir.VectorType) else ir.Constant(t, value)


def same(x: Value, value: float) -> Value:
    """Return `value` as a constant of x's type."""
    return constant(x.type, value)


def width(x: Value) -> int:
    return int(element(x.type).width)


def resize(b: Builder, x: Value, scalar: Any, signed: bool) -> Value:
    target = like(x.type, scalar)
    if target == x.type:
        return x
    if scalar.width < width(x):
        return b.trunc(x, target)
    return (b.sext if signed else b.zext)(x, target)


def splat(b: Builder, value: Value, n: int = LANES) -> Value:
    undefined = _undefined_vector(value.type, n)
    first = b.insert_element(undefined, value, I32(0))
    return b.shuffle_vector(first, undefined, numbers(I32, [0] * n))


@functools.cache
def _undefined_vector(scalar: Any, n: int) -> Value:
    return ir.Constant(ir.VectorType(scalar, n), ir.Undefined)


def pointer(b: Builder, address: Value, t: Any) -> Value:
    return b.inttoptr(address, t.as_pointer())


def mangle_type(t: Any) -> str:
    """Return the name of a type in LLVM's intrinsics."""
    if isinstance(t, ir.PointerType):
        return "p0" if t.is_opaque else f"p0{mangle_type(t.pointee)}"
    s = element(t)
    name = f"i{s.width}" if isinstance(s, ir.IntType) else {"float": "f32", "double": "f64"}[str(s)]
    return f"v{t.count}{name}" if isinstance(t, ir.VectorType) else name


def declare_function(module: Any, signature: Any, name: str) -> Any:
    """Return an external function by its name, and declare it if necessary."""
    return module.globals.get(name) or ir.Function(module, signature, name)


def llvm(b: Builder, name: str, result: Any, *args: Value, over: Iterable[Any] | None = None) -> Value:
    """Call the LLVM intrinsic `name`, overloaded on `over` (default: the first argument's type)."""
    full = ".".join([name, *(mangle_type(t) for t in (over or [args[0].type]))])
    signature = ir.FunctionType(result, [a.type for a in args])
    return b.call(declare_function(b.module, signature, full), args)


def choose_bit(b: Builder, x: Value, y: Value) -> Value:
    return b.icmp_unsigned("!=", b.and_(x, y), same(x, 0))


RELATIONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def _method(name: str) -> Body:
    return lambda b, *args: getattr(b, name)(*args)


def go_on_if(b: Builder, fine: Value, otherwise: Any) -> None:
    """Continue if `fine`, otherwise branch to a block."""
    onward = b.function.append_basic_block("fine")
    b.cbranch(fine, onward, otherwise)
    b.position_at_end(onward)


def lane_loop(b: Builder, mask: Value, body: Callable[[Value], None]) -> None:
    """Emit a loop that runs body(lane as i64) for each set bit of the i32 `mask`, from the lowest on."""
    function, before = b.function, b.block
    head, run, after = (function.append_basic_block(s) for s in ("lane", "lane_on", "lane_end"))
    b.branch(head)
    b.position_at_end(head)
    left = b.phi(I32)
    left.add_incoming(mask, before)
    b.cbranch(b.icmp_unsigned("==", left, I32(0)), after, run)
    b.position_at_end(run)
    body(b.zext(llvm(b, "llvm.cttz", I32, left, I1(1)), I64))
    left.add_incoming(b.and_(left, b.sub(left, I32(1))), b.block)
    b.branch(head)
    b.position_at_end(after)


def each_lane(b: Builder, mask: Value, body: Callable[[Value], None], *, at_once: bool = True) -> None:
    """Emit `lane_loop`; with `at_once`, also unrolled code for a full mask, which takes a third of the time."""
    if not at_once:
        lane_loop(b, mask, body)
        return
    with b.if_else(b.icmp_signed("==", mask, I32(-1)), likely=True) as (full, partial):
        with full:
            for lane in range(LANES):
                body(I64(lane))
        with partial:
            lane_loop(b, mask, body)


def load_row(b: Builder, registers: Value, offset: Value, t: str) -> Value:
    if t == "p":
        return b.bitcast(b.load(pointer(b, b.add(registers, offset), I32)), MASK)
    return b.load(pointer(b, b.add(registers, offset), ir.VectorType(ELEMENT[t], LANES)), align=64)


def store_row(b: Builder, registers: Value, offset: Value, t: str, value: Value, mask: Value) -> None:
    """Store a value in the lanes of an i32 `mask` of a row."""
    if t == "p":
        place = pointer(b, b.add(registers, offset), I32)
        kept = b.and_(b.load(place), b.not_(mask))
        b.store(b.or_(kept, b.and_(b.bitcast(value, I32), mask)), place)
        return
    place = pointer(b, b.add(registers, offset), value.type)
    # blending is expensive on a CPU without AVX-512, and nearly every mask is full
    with b.if_else(b.icmp_signed("==", mask, I32(-1)), likely=True) as (full, partial):
        with full:
            b.store(value, place, align=64)
        with partial:
            b.store(b.select(b.bitcast(mask, MASK), value, b.load(place, align=64)), place, align=64)


def switch(
    b: Builder, selector: Value, names: Iterable[str], body: Callable[[str], None], others: Callable[[], None]
) -> None:
    """Emit a switch with a case for each operation name, and one for all other opcodes."""
    end = b.function.append_basic_block("operation_end")
    other = b.function.append_basic_block("operation_other")
    choice = b.switch(selector, other)
    for name in names:
        block = b.function.append_basic_block(name)
        choice.add_case(ir.Constant(selector.type, OPCODE[name]), block)
        b.position_at_end(block)
        body(name)
        b.branch(end)
    b.position_at_end(other)
    others()
    b.branch(end)
    b.position_at_end(end)


def nothing() -> None:
    """Emit nothing, for an opcode that a switch never receives."""
