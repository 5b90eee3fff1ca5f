"""What each arithmetic operation does: one LLVM body for 32 lanes at once, and the intrinsics that run them.

`BODIES` gives every ALU operation of `bytecode.OPERATIONS` a function `(builder, *operands) -> value` that works on a
vector of 32 lanes or, for operations that have no vector form (division, library functions), on one lane.  `alu` is
the switch over all of them; `load_store` and `atomic` the same for memory.  Nothing here knows of warps or programs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from wsemu.machine.arithmetic.directed_rounding import directed
from wsemu.model import isa
from wsemu.model.isa import (
    ADDRESS_OUT,
    ADDRESS_WRAPPED,
    ATOMICS,
    BINARY_FUNCTIONS,
    DIRECTIONS,
    INDEX_BIAS,
    LANES,
    OPCODE,
    OPERATIONS,
    ROW,
    SEGMENT_SHIFT,
    SIZE,
    UNARY_FUNCTIONS,
    memory_shape,
)

Builder = Any
Value = Any
Body = Callable[..., Value]

I1, I8, I16, I32, I64 = (ir.IntType(n) for n in (1, 8, 16, 32, 64))
F32, F64 = ir.FloatType(), ir.DoubleType()
# half precision is integer code: LLVM's `half` needs a CPU with F16C or a symbol that the JIT does not have
ELEMENT = {"b8": I8, "b16": I16, "b32": I32, "b64": I64, "f16": I16, "f32": F32, "f64": F64}
MASK = ir.VectorType(I1, LANES)


# -- small builders that serve vectors and single lanes alike
# ------------------------------------------------------------
def element(t: Any) -> Any:
    return t.element if isinstance(t, ir.VectorType) else t


def like(t: Any, scalar: Any) -> Any:
    """`scalar` in the shape of t."""
    return ir.VectorType(scalar, t.count) if isinstance(t, ir.VectorType) else scalar


def constant(t: Any, value: float) -> Value:
    return ir.Constant(t, [value] * t.count) if isinstance(t, ir.VectorType) else ir.Constant(t, value)


def same(x: Value, value: float) -> Value:
    """`value` as a constant of x's type."""
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
    undefined = ir.Constant(ir.VectorType(value.type, n), ir.Undefined)
    first = b.insert_element(undefined, value, I32(0))
    return b.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(I32, n), [0] * n))


def pointer(b: Builder, address: Value, t: Any) -> Value:
    return b.inttoptr(address, t.as_pointer())


def _mangled(t: Any) -> str:
    s = element(t)
    name = f"i{s.width}" if isinstance(s, ir.IntType) else {"float": "f32", "double": "f64"}[str(s)]
    return f"v{t.count}{name}" if isinstance(t, ir.VectorType) else name


def llvm(b: Builder, name: str, result: Any, *args: Value, over: Iterable[Any] | None = None) -> Value:
    """Call the LLVM intrinsic `name`, overloaded on `over` (default: the first argument's type)."""
    full = ".".join([name, *(_mangled(t) for t in (over or [args[0].type]))])
    signature = ir.FunctionType(result, [a.type for a in args])
    return b.call(cgutils.get_or_insert_function(b.module, signature, full), args)


def choose_bit(b: Builder, x: Value, y: Value) -> Value:
    return b.icmp_unsigned("!=", b.and_(x, y), same(x, 0))


# -- integer bodies
# -----------------------------------------------------------------------------------------------------
def shift_left(b: Builder, x: Value, n: Value) -> Value:
    w = width(x)
    return b.select(b.icmp_unsigned(">=", n, same(n, w)), same(x, 0), b.shl(x, n))


def shift_right(signed: bool) -> Body:
    def body(b: Builder, x: Value, n: Value) -> Value:
        w = width(x)
        beyond = b.icmp_unsigned(">=", n, same(n, w))
        if signed:
            return b.ashr(x, b.select(beyond, same(n, w - 1), n))
        return b.select(beyond, same(x, 0), b.lshr(x, n))

    return body


def min_max(relation: str, signed: bool) -> Body:
    def body(b: Builder, x: Value, y: Value) -> Value:
        return b.select((b.icmp_signed if signed else b.icmp_unsigned)(relation, x, y), x, y)

    return body


def _safe_divisor(b: Builder, x: Value, y: Value, signed: bool) -> tuple[Value, Value, Value]:
    """(y without the values that trap, y == 0, MIN / -1)"""
    zero = b.icmp_unsigned("==", y, same(y, 0))
    safe = b.select(zero, same(y, 1), y)
    overflow = ir.Constant(I1, 0)
    if signed:
        least = b.icmp_signed("==", x, same(x, -(1 << (width(x) - 1))))
        overflow = b.and_(least, b.icmp_signed("==", y, same(y, -1)))
        safe = b.select(overflow, same(y, 1), safe)
    return safe, zero, overflow


def divide(what: str, signed: bool) -> Body:
    def body(b: Builder, x: Value, y: Value) -> Value:
        safe, zero, _ = _safe_divisor(b, x, y, signed)
        if what == "div":
            return b.select(zero, same(x, -1), (b.sdiv if signed else b.udiv)(x, safe))
        return b.select(zero, same(x, -1), (b.srem if signed else b.urem)(x, safe))

    return body


def floor_divide(what: str, signed: bool) -> Body:
    def body(b: Builder, x: Value, y: Value) -> Value:
        safe, zero, overflow = _safe_divisor(b, x, y, signed)
        quotient = (b.sdiv if signed else b.udiv)(x, safe)
        remainder = b.sub(x, b.mul(quotient, safe))
        if signed:
            inexact = b.icmp_signed("!=", remainder, same(x, 0))
            opposite = b.icmp_signed("<", b.xor(remainder, safe), same(x, 0))
            adjust = b.and_(inexact, opposite)
            quotient = b.select(adjust, b.sub(quotient, same(x, 1)), quotient)
            remainder = b.select(adjust, b.add(remainder, safe), remainder)
        return b.select(b.or_(zero, overflow), same(x, 0), quotient if what == "div" else remainder)

    return body


def wide_product(signed: bool) -> Body:
    def body(b: Builder, x: Value, y: Value) -> Value:
        double = ir.IntType(2 * width(x))
        return b.mul(resize(b, x, double, signed), resize(b, y, double, signed))

    return body


def high_product(signed: bool) -> Body:
    def body(b: Builder, x: Value, y: Value) -> Value:
        product = wide_product(signed)(b, x, y)
        return b.trunc(b.lshr(product, same(product, width(x))), x.type)

    return body


def count_bits(what: str) -> Body:
    def body(b: Builder, x: Value) -> Value:
        if what == "brev":
            return llvm(b, "llvm.bitreverse", x.type, x)
        if what == "popc":
            return resize(b, llvm(b, "llvm.ctpop", x.type, x), I32, False)
        if what == "clz":
            return resize(b, llvm(b, "llvm.ctlz", x.type, x, I1(0)), I32, False)
        lowest = b.add(llvm(b, "llvm.cttz", x.type, x, I1(0)), same(x, 1))
        return resize(b, b.select(b.icmp_unsigned("==", x, same(x, 0)), same(x, 0), lowest), I32, False)

    return body


def _field(b: Builder, x: Value, *counts: Value) -> list[Value]:
    """Position and length operands: their low 8 bits, as wide as x."""
    return [resize(b, b.and_(n, same(n, 255)), element(x.type), False) for n in counts]


def _low_bits(b: Builder, x: Value, n: Value) -> Value:
    return b.sub(shift_left(b, same(x, 1), n), same(x, 1))


def extract_field(signed: bool) -> Body:
    def body(b: Builder, x: Value, position: Value, length: Value) -> Value:
        position, length = _field(b, x, position, length)
        if not signed:
            return b.and_(shift_right(False)(b, x, position), _low_bits(b, x, length))
        w = same(x, width(x))
        end = b.add(position, length)
        end = b.select(b.icmp_unsigned(">", end, w), w, end)
        up = b.sub(w, end)
        moved = shift_right(True)(b, shift_left(b, x, up), b.add(up, position))
        return b.select(b.icmp_unsigned("==", length, same(x, 0)), same(x, 0), moved)

    return body


def insert_field(b: Builder, x: Value, into: Value, position: Value, length: Value) -> Value:
    position, length = _field(b, x, position, length)
    mask = shift_left(b, _low_bits(b, x, length), position)
    return b.or_(b.and_(into, b.not_(mask)), b.and_(shift_left(b, x, position), mask))


def permute_bytes(b: Builder, x: Value, y: Value, selector: Value) -> Value:
    both = b.or_(resize(b, x, I64, False), b.shl(resize(b, y, I64, False), constant(like(x.type, I64), 32)))
    result = same(x, 0)
    for k in range(4):
        nibble = b.lshr(selector, same(x, 4 * k))
        place = resize(b, b.shl(b.and_(nibble, same(x, 7)), same(x, 3)), I64, False)
        byte = resize(b, b.lshr(both, place), I8, False)
        filled = b.select(choose_bit(b, nibble, same(x, 8)), b.ashr(byte, same(byte, 7)), byte)
        result = b.or_(result, b.shl(resize(b, filled, I32, False), same(x, 8 * k)))
    return result


def index_address(signed: bool) -> Body:
    """The address of an index that may lie outside; the usual case is `alu`'s own (`_index_case`)."""

    def body(b: Builder, index: Value, extent: Value, stride: Value, base: Value) -> Value:
        return _flagged_address(b, resize(b, index, I64, signed), extent, stride, base, signed)

    return body


def _flagged_address(b: Builder, i: Value, extent: Value, stride: Value, base: Value, signed: bool) -> Value:
    flag = same(i, 0)
    if signed:
        negative = b.icmp_signed("<", i, same(i, 0))
        i = b.select(negative, b.add(i, extent), i)
        flag = b.select(negative, same(i, ADDRESS_WRAPPED), same(i, 0))
    address = b.or_(b.add(base, b.mul(i, stride)), flag)
    original = b.select(b.icmp_unsigned("!=", flag, same(i, 0)), b.sub(i, extent), i)
    low, high = same(i, -INDEX_BIAS), same(i, INDEX_BIAS - 1)
    clamped = b.select(b.icmp_signed("<", original, low), low, original)
    clamped = b.select(b.icmp_signed(">", clamped, high), high, clamped)
    told = b.shl(b.add(clamped, same(i, INDEX_BIAS)), same(i, SEGMENT_SHIFT))
    out = b.or_(told, same(i, ADDRESS_OUT | 1 << (SEGMENT_SHIFT - 1)))
    out = b.select(b.icmp_unsigned(">=", base, same(i, ADDRESS_OUT)), base, out)  # the first index outside is told
    return b.select(b.icmp_unsigned(">=", i, extent), out, address)


# -- floating-point bodies
# ------------------------------------------------------------------------------------------------
def fused(b: Builder, x: Value, y: Value, z: Value) -> Value:
    return llvm(b, "llvm.fma", x.type, x, y, z)


def unary_intrinsic(name: str) -> Body:
    return lambda b, x: llvm(b, name, x.type, x)


CANONICAL_NAN = 0x7FFFFFFF
"""what arithmetic on f32 gives for a nan (PTX ISA, "Floating-Point Comparisons" and "Floating Point Instructions")"""


def canonical(body: Body) -> Body:
    """`body`, of which an f32 nan is the one nan that the hardware makes; f64 keeps the CPU's payloads."""

    def result(b: Builder, *operands: Value) -> Value:
        r = body(b, *operands)
        if element(r.type) != F32:
            return r
        return _with_nan(b, b.fcmp_unordered("uno", r, r), r)

    return result


def _with_nan(b: Builder, where: Value, r: Value) -> Value:
    """The usual nan or r, chosen as integers: to LLVM one nan is as good as another."""
    u = b.bitcast(r, like(r.type, I32))
    return b.bitcast(b.select(where, same(u, CANONICAL_NAN), u), r.type)


def square_root(b: Builder, x: Value) -> Value:
    r = llvm(b, "llvm.sqrt", x.type, x)
    if element(x.type) != F32:
        return r
    # asked of the bits: LLVM takes "a nan where x < 0, else the root of x" for the root
    u = b.bitcast(r, like(r.type, I32))
    return _with_nan(b, b.icmp_signed(">", b.and_(u, same(u, 0x7FFFFFFF)), same(u, 0x7F800000)), r)


def flush_subnormal(b: Builder, x: Value) -> Value:
    u = b.bitcast(x, like(x.type, I32))
    tiny = b.icmp_unsigned("==", b.and_(u, same(u, 0x7F800000)), same(u, 0))
    return b.bitcast(b.select(tiny, b.and_(u, same(u, -0x80000000)), u), x.type)


def number_min_max(relation: str) -> Body:
    """IEEE minimumNumber/maximumNumber with -0 < +0."""

    def body(b: Builder, x: Value, y: Value) -> Value:
        bits = like(x.type, I32 if element(x.type) == F32 else I64)
        r = b.select(b.fcmp_ordered(relation, x, y), x, y)
        join = b.or_ if relation == "<" else b.and_
        r = b.select(b.fcmp_ordered("==", x, y), b.bitcast(join(b.bitcast(x, bits), b.bitcast(y, bits)), x.type), r)
        r = b.select(b.fcmp_unordered("uno", x, x), y, r)
        return b.select(b.fcmp_unordered("uno", y, y), x, r)

    return body


def _python_divmod(b: Builder, x: Value, y: Value) -> tuple[Value, Value]:
    """(x // y, x % y) of Python floats, one lane, without its exception for y == 0."""
    zero = same(x, 0.0)
    mod = b.frem(x, y)
    quotient = b.fdiv(b.fsub(x, mod), y)
    nonzero = b.fcmp_unordered("!=", mod, zero)
    opposite = b.xor(b.fcmp_ordered("<", y, zero), b.fcmp_ordered("<", mod, zero))
    adjust = b.and_(nonzero, opposite)
    mod = b.select(adjust, b.fadd(mod, y), mod)
    quotient = b.select(adjust, b.fsub(quotient, same(x, 1.0)), quotient)
    mod = b.select(nonzero, mod, llvm(b, "llvm.copysign", x.type, zero, y))
    floor = llvm(b, "llvm.floor", x.type, quotient)
    up = b.fcmp_ordered(">", b.fsub(quotient, floor), same(x, 0.5))
    floor = b.select(up, b.fadd(floor, same(x, 1.0)), floor)
    signed_zero = llvm(b, "llvm.copysign", x.type, zero, b.fdiv(x, y))
    floor = b.select(b.fcmp_unordered("!=", quotient, zero), floor, signed_zero)
    by_zero = b.fcmp_ordered("==", y, zero)
    return b.select(by_zero, b.fdiv(x, y), floor), mod


def library(name: str) -> Body:
    """The C library's function in double, rounded to the operand's type."""

    def body(b: Builder, *args: Value) -> Value:
        t = args[0].type
        wide = [a if t == F64 else b.fpext(a, F64) for a in args]
        if name == "rsqrt":
            r = b.fdiv(ir.Constant(F64, 1.0), llvm(b, "llvm.sqrt", F64, *wide))
        else:
            signature = ir.FunctionType(F64, [F64] * len(args))
            r = b.call(cgutils.get_or_insert_function(b.module, signature, name), wide)
        return r if t == F64 else b.fptrunc(r, t)

    return body


def float_to_int(rounding: str, target: Any, signed: bool) -> Body:
    def body(b: Builder, x: Value) -> Value:
        number = llvm(b, rounding, x.type, x) if rounding else x
        t = like(x.type, target)
        r = llvm(b, f"llvm.fpto{'s' if signed else 'u'}i.sat", t, number, over=[t, x.type])
        if target.width < 64 and element(x.type) == F32:
            return r
        return b.select(b.fcmp_unordered("uno", x, x), same(r, -(1 << (target.width - 1))), r)

    return body


def half_to_float(b: Builder, h: Value) -> Value:
    u = resize(b, h, I32, False)
    f = like(u.type, F32)
    magnitude = b.shl(b.and_(u, same(u, 0x7FFF)), same(u, 13))
    # scaling by 2^112 moves the exponent from half's bias to float's, subnormals included
    v = b.bitcast(b.fmul(b.bitcast(magnitude, f), constant(f, 2.0**112)), u.type)
    special = b.icmp_unsigned(">=", magnitude, same(u, 0x7C00 << 13))
    v = b.select(special, b.or_(v, same(u, 0x7F800000)), v)
    return b.bitcast(b.or_(v, b.shl(b.and_(u, same(u, 0x8000)), same(u, 16))), f)


def float_to_half(b: Builder, x: Value) -> Value:
    """Round to nearest even, in integer code."""
    u = b.bitcast(x, like(x.type, I32))
    sign = b.and_(u, same(u, -0x80000000))
    a = b.xor(u, sign)
    odd = b.and_(b.lshr(a, same(u, 13)), same(u, 1))
    normal = b.lshr(b.add(b.add(a, same(u, ((15 - 127) << 23) + 0xFFF)), odd), same(u, 13))
    # adding 0.5 makes the float adder round a subnormal half's bits into place
    tiny = b.sub(b.bitcast(b.fadd(b.bitcast(a, x.type), constant(x.type, 0.5)), u.type), same(u, 0x3F000000))
    huge = b.select(b.icmp_unsigned(">", a, same(u, 0x7F800000)), same(u, 0x7E00), same(u, 0x7C00))
    r = b.select(b.icmp_unsigned(">=", a, same(u, 0x47800000)), huge, normal)
    r = b.select(b.icmp_unsigned("<", a, same(u, 0x38800000)), tiny, r)
    return resize(b, b.or_(r, b.lshr(sign, same(u, 16))), I16, False)


def single_to_half(b: Builder, x: Value) -> Value:
    """The same with the one nan that the hardware makes of f32."""
    h, u = float_to_half(b, x), b.bitcast(x, like(x.type, I32))
    nan = b.icmp_signed(">", b.and_(u, same(u, 0x7FFFFFFF)), same(u, 0x7F800000))
    return b.select(nan, same(h, 0x7FFF), h)


def double_to_odd_float(b: Builder, x: Value) -> Value:
    """Double to float rounded to odd, so that a second rounding to half is the only one that counts."""
    y = b.fptrunc(x, like(x.type, F32))
    error = b.fsub(x, b.fpext(y, x.type))
    v = b.bitcast(y, like(x.type, I32))
    even = b.icmp_unsigned("==", b.and_(v, same(v, 1)), same(v, 0))
    inexact = b.and_(b.fcmp_ordered("!=", error, same(x, 0.0)), even)
    away = b.icmp_unsigned("==", b.fcmp_ordered("<", error, same(x, 0.0)), b.icmp_signed("<", v, same(v, 0)))
    return b.bitcast(b.add(v, b.select(inexact, b.select(away, same(v, 1), same(v, -1)), same(v, 0))), y.type)


def _extend(b: Builder, x: Value) -> Value:
    return b.fpext(x, like(x.type, F64))


FLOAT_CONVERSIONS: dict[str, Body] = {
    "cvt.f32.f16": canonical(half_to_float),
    "cvt.f64.f16": lambda b, x: _extend(b, half_to_float(b, x)),
    "cvt.f16.f32": single_to_half,
    "cvt.f16.f64": lambda b, x: float_to_half(b, double_to_odd_float(b, x)),
    "cvt.f64.f32": _extend,
    "cvt.f32.f64": lambda b, x: b.fptrunc(x, like(x.type, F32)),
}

# -- the table: operation name -> body; PER_LANE names those without a vector form
# ------------------------------------------
RELATIONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
INTRINSIC_ROUNDING = {"rni": "llvm.rint", "rzi": "llvm.trunc", "rmi": "llvm.floor", "rpi": "llvm.ceil"}
BODIES: dict[str, Body] = dict(FLOAT_CONVERSIONS)
PER_LANE: set[str] = set()


def _method(name: str) -> Body:
    return lambda b, *args: getattr(b, name)(*args)


def _integer_bodies() -> None:
    for n in (8, 16, 32, 64):
        t = f"b{n}"
        for name, method in (
            ("mov", ""),
            ("neg", "neg"),
            ("not", "not_"),
            ("add", "add"),
            ("sub", "sub"),
            ("mul", "mul"),
            ("and", "and_"),
            ("or", "or_"),
            ("xor", "xor"),
        ):
            BODIES[f"{name}.{t}"] = _method(method) if method else lambda b, x: x
        BODIES[f"mad.{t}"] = lambda b, x, y, z: b.add(b.mul(x, y), z)
        BODIES[f"selp.{t}"] = lambda b, x, y, p: b.select(p, x, y)
        BODIES[f"shl.{t}"] = shift_left
        BODIES[f"abs.s{n}"] = lambda b, x: b.select(b.icmp_signed("<", x, same(x, 0)), b.neg(x), x)
        for relation in ("eq", "ne"):
            BODIES[f"setp.{relation}.{t}"] = lambda b, x, y, r=RELATIONS[relation]: b.icmp_signed(r, x, y)
        for s in "su":
            _signed_bodies(s, n)
        if n >= 32:
            BODIES[f"varying.{t}"] = lambda b, x: x
            for name in ("popc", "clz", "ffs", "brev"):
                BODIES[f"{name}.{t}"] = count_bits(name)
            BODIES[f"bfi.{t}"] = insert_field


def _signed_bodies(s: str, n: int) -> None:
    t, signed = f"{s}{n}", s == "s"
    BODIES[f"shr.{t}"] = shift_right(signed)
    BODIES[f"min.{t}"], BODIES[f"max.{t}"] = min_max("<", signed), min_max(">", signed)
    for name in ("div", "rem"):
        BODIES[f"{name}.{t}"] = divide(name, signed)
        PER_LANE.add(f"{name}.{t}")
    BODIES[f"mulhi.{t}"] = high_product(signed)
    if n == 64:
        PER_LANE.add(f"mulhi.{t}")
    else:
        BODIES[f"mulwide.{t}"] = wide_product(signed)
        BODIES[f"madwide.{t}"] = lambda b, x, y, z, product=BODIES[f"mulwide.{t}"]: b.add(product(b, x, y), z)
    if n >= 32:
        for what in ("div", "mod"):
            BODIES[f"floor{what}.{t}"] = floor_divide(what, signed)
            PER_LANE.add(f"floor{what}.{t}")
        BODIES[f"bfe.{t}"] = extract_field(signed)
        BODIES[f"index.{t}"] = index_address(signed)
    for relation in ("lt", "le", "gt", "ge"):
        BODIES[f"setp.{relation}.{t}"] = lambda b, x, y, r=RELATIONS[relation], signed=signed: (
            b.icmp_signed if signed else b.icmp_unsigned
        )(r, x, y)
    for m in (8, 16, 32, 64):
        if m > n or (m < n and signed):
            BODIES[f"cvt.b{m}.{t}"] = lambda b, x, m=m, signed=signed: resize(b, x, ir.IntType(m), signed)
    for f in ("f32", "f64"):
        BODIES[f"cvt.rn.{f}.{t}"] = lambda b, x, f=f, signed=signed: (b.sitofp if signed else b.uitofp)(
            x, like(x.type, ELEMENT[f])
        )
        for r in ("rni", "rzi"):
            rounding = "" if r == "rzi" else INTRINSIC_ROUNDING[r]
            BODIES[f"cvt.{r}.{t}.{f}"] = float_to_int(rounding, ir.IntType(n), signed)


def _float_bodies(f: str) -> None:
    for name in ("add", "sub", "mul", "div"):
        BODIES[f"{name}.{f}"] = canonical(_method(f"f{name}"))
    for what, intrinsic_name in (("fma", "fma"), ("div", "fdiv"), ("sqrt", "sqrt")):
        for direction in DIRECTIONS:
            BODIES[f"{what}.{direction}.{f}"] = canonical(directed(intrinsic_name, direction))
    BODIES[f"fma.{f}"] = canonical(fused)
    BODIES[f"neg.{f}"] = canonical(lambda b, x: b.fneg(x))
    BODIES[f"abs.{f}"] = canonical(unary_intrinsic("llvm.fabs"))
    BODIES[f"sqrt.{f}"] = square_root
    BODIES[f"rcp.{f}"] = canonical(lambda b, x: b.fdiv(same(x, 1.0), x))
    BODIES[f"min.{f}"], BODIES[f"max.{f}"] = canonical(number_min_max("<")), canonical(number_min_max(">"))
    BODIES[f"copysign.{f}"] = lambda b, x, y: llvm(b, "llvm.copysign", x.type, x, y)
    BODIES[f"floordiv.{f}"] = canonical(lambda b, x, y: _python_divmod(b, x, y)[0])
    BODIES[f"floormod.{f}"] = canonical(lambda b, x, y: _python_divmod(b, x, y)[1])
    BODIES[f"selp.{f}"] = lambda b, x, y, p: b.select(p, x, y)
    for relation, sign in RELATIONS.items():
        BODIES[f"setp.{relation}.{f}"] = lambda b, x, y, r=sign: b.fcmp_ordered(r, x, y)
        BODIES[f"setp.{relation}u.{f}"] = lambda b, x, y, r=sign: b.fcmp_unordered(r, x, y)
    for name in (*UNARY_FUNCTIONS, *BINARY_FUNCTIONS):
        BODIES[f"{name}.{f}"] = canonical(library(name))
    for r, rounding in INTRINSIC_ROUNDING.items():
        BODIES[f"cvt.{r}.{f}.{f}"] = canonical(unary_intrinsic(rounding))
    PER_LANE.update(f"{name}.{f}" for name in (*UNARY_FUNCTIONS, *BINARY_FUNCTIONS, "floordiv", "floormod"))


_integer_bodies()
_float_bodies("f32")
_float_bodies("f64")
BODIES["ftz.f32"] = flush_subnormal
BODIES["prmt.b32"] = permute_bytes
BODIES.update(
    {
        "mov.pred": lambda b, x: x,
        "not.pred": lambda b, x: b.not_(x),
        "and.pred": lambda b, x, y: b.and_(x, y),
        "or.pred": lambda b, x, y: b.or_(x, y),
        "xor.pred": lambda b, x, y: b.xor(x, y),
        "andn.pred": lambda b, x, y: b.and_(x, b.not_(y)),
        "selp.pred": lambda b, x, y, p: b.or_(b.and_(p, x), b.and_(b.not_(p), y)),
    }
)


# -- code generation: rows, masks, one switch
# ------------------------------------------------------------------------------
def lane_loop(b: Builder, mask: Value, body: Callable[[Value], None]) -> None:
    """body(lane as i64) for each set bit of the i32 `mask`, lowest first."""
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


def load_row(b: Builder, registers: Value, offset: Value, t: str) -> Value:
    if t == "p":
        return b.bitcast(b.load(pointer(b, b.add(registers, offset), I32)), MASK)
    return b.load(pointer(b, b.add(registers, offset), ir.VectorType(ELEMENT[t], LANES)), align=64)


def store_row(b: Builder, registers: Value, offset: Value, t: str, value: Value, mask: Value) -> None:
    """Write the lanes of `mask` (i32)."""
    if t == "p":
        place = pointer(b, b.add(registers, offset), I32)
        kept = b.and_(b.load(place), b.not_(mask))
        b.store(b.or_(kept, b.and_(b.bitcast(value, I32), mask)), place)
        return
    place = pointer(b, b.add(registers, offset), value.type)
    # blending is dear on a CPU without AVX-512, and nearly every mask is full
    with b.if_else(b.icmp_signed("==", mask, I32(-1)), likely=True) as (full, partial):
        with full:
            b.store(value, place, align=64)
        with partial:
            b.store(b.select(b.bitcast(mask, MASK), value, b.load(place, align=64)), place, align=64)


def switch(b: Builder, selector: Value, names: Iterable[str], body: Callable[[str], None]) -> None:
    """One case per operation name; other opcodes fall through."""
    end = b.function.append_basic_block("operation_end")
    choice = b.switch(selector, end)
    for name in names:
        block = b.function.append_basic_block(name)
        choice.add_case(ir.Constant(selector.type, OPCODE[name]), block)
        b.position_at_end(block)
        body(name)
        b.branch(end)
    b.position_at_end(end)


ALU_NAMES = tuple(name for name, op in OPERATIONS.items() if op.kind == "alu")


@intrinsic
def alu(typing, opcode, registers, d, a, b_, c, imm, mask):
    """Run one ALU operation on the lanes of `mask`; operands are byte offsets into `registers`."""

    def generate(context: Any, b: Builder, signature: Any, args: Any) -> Value:
        opcode, registers, d, *operands, mask = args
        mask = resize(b, mask, I32, False)

        def case(name: str) -> None:
            op, body = OPERATIONS[name], BODIES[name]
            if name not in PER_LANE:
                values = [load_row(b, registers, operands[i], t) for i, t in enumerate(op.operands)]
                store_row(b, registers, d, op.result, body(b, *values), mask)
                return

            def lane_place(offset: Value, t: str, lane: Value) -> Value:
                return pointer(b, b.add(b.add(registers, offset), b.mul(lane, I64(SIZE[t]))), ELEMENT[t])

            def one_lane(lane: Value) -> None:
                values = [b.load(lane_place(operands[i], t, lane)) for i, t in enumerate(op.operands)]
                b.store(body(b, *values), lane_place(d, op.result, lane))

            lane_loop(b, mask, one_lane)

        def index_case(name: str) -> None:
            """With all indices inside, an address is a product and a sum; each side of the branch loads its own
            operands,
            so that no vector lives across it."""
            op = OPERATIONS[name]
            signed = name[6] == "s"

            def load(k: int) -> Value:
                return load_row(b, registers, operands[k], op.operands[k])

            outside = b.icmp_unsigned(">=", resize(b, load(0), I64, signed), load(1))  # negative ones too
            with b.if_else(b.icmp_unsigned("==", b.bitcast(outside, I32), I32(0)), likely=True) as (inside, flagged):
                with inside:
                    address = b.add(load(3), b.mul(resize(b, load(0), I64, signed), load(2)))
                    store_row(b, registers, d, op.result, address, mask)
                with flagged:
                    store_row(b, registers, d, op.result, BODIES[name](b, *(load(k) for k in range(4))), mask)

        switch(b, opcode, ALU_NAMES, lambda name: index_case(name) if name.startswith("index.") else case(name))
        return context.get_dummy_value()

    return types.void(opcode, registers, d, a, b_, c, imm, mask), generate


# -- memory
# ------------------------------------------------------------------------------------------------------------------
BAD, UNIT, SAME, AFFINE, SCATTERED = range(5)
"""how the lanes of an access lie: out of bounds or misaligned; consecutive by all 32 lanes; one address; one stride
between all
32 lanes; anything else"""


def _first_lane(b: Builder, registers: Value, a: Value, mask: Value) -> Value:
    """Address in row `a` of the lowest lane of `mask`."""
    lane = b.zext(llvm(b, "llvm.cttz", I32, mask, I1(0)), I64)
    return b.load(pointer(b, b.add(b.add(registers, a), b.shl(lane, I64(3))), I64))


@intrinsic
def simple_pattern(typing, registers, a, mask, log_size):
    """UNIT, SAME or SCATTERED (not decided here) for the addresses in row `a`; bounds are not looked at."""

    def generate(context: Any, b: Builder, signature: Any, args: Any) -> Value:
        registers, a, mask, log_size = args
        mask = resize(b, mask, I32, False)
        v = load_row(b, registers, a, "b64")
        distance = b.sub(v, splat(b, _first_lane(b, registers, a, mask)))
        iota = ir.Constant(v.type, list(range(LANES)))
        steps = b.shl(iota, splat(b, log_size))
        unit = b.and_(b.bitcast(b.icmp_unsigned("==", distance, steps), I32), mask)
        before = b.block
        with b.if_then(b.icmp_signed("!=", unit, I32(-1))):
            equal = b.bitcast(b.icmp_unsigned("==", distance, same(distance, 0)), I32)
            one = b.icmp_signed("==", b.or_(equal, b.not_(mask)), I32(-1))
            other = b.select(one, I64(SAME), I64(SCATTERED))
            last = b.block
        result = b.phi(I64)
        result.add_incoming(I64(UNIT), before)
        result.add_incoming(other, last)
        return result

    return types.int64(registers, a, mask, log_size), generate


@intrinsic
def lane_pattern(typing, registers, a, mask, bias, limit, size):
    """BAD, AFFINE or SCATTERED for the addresses in row `a`; `bias` takes an address to its segment's offset."""

    def generate(context: Any, b: Builder, signature: Any, args: Any) -> Value:
        registers, a, mask, bias, limit, size = args
        mask = resize(b, mask, I32, False)
        v = load_row(b, registers, a, "b64")
        offset = b.add(v, splat(b, bias))
        low = b.and_(offset, splat(b, b.sub(size, I64(1))))
        wrong = b.or_(b.icmp_unsigned(">", offset, splat(b, limit)), b.icmp_unsigned("!=", low, same(low, 0)))
        bad = b.icmp_unsigned("!=", b.and_(b.bitcast(wrong, I32), mask), I32(0))
        stride = b.sub(b.extract_element(v, I32(1)), b.extract_element(v, I32(0)))
        # one stride between all neighbours: v[lane + 1] - v[lane], the last lane compared with itself
        onward = b.shuffle_vector(v, v, ir.Constant(ir.VectorType(I32, LANES), [*range(1, LANES), LANES - 1]))
        even = b.bitcast(b.icmp_unsigned("==", b.sub(onward, v), splat(b, stride)), I32)
        all_on = b.icmp_signed("==", mask, I32(-1))
        affine = b.and_(all_on, b.icmp_signed("==", b.or_(even, I32(-(1 << (LANES - 1)))), I32(-1)))
        return b.select(bad, I64(BAD), b.select(affine, I64(AFFINE), I64(SCATTERED)))

    return types.int64(registers, a, mask, bias, limit, size), generate


MEMORY_NAMES = tuple(name for name, op in OPERATIONS.items() if op.kind in ("load", "store"))


def _unit_load(b: Builder, address: Value, rows: list[Value], n: int, e: Any) -> None:
    v = b.load(pointer(b, address, ir.VectorType(e, LANES * n)), align=1)
    for j, row in enumerate(rows):
        picked = ir.Constant(ir.VectorType(I32, LANES), [lane * n + j for lane in range(LANES)])
        part = v if n == 1 else b.shuffle_vector(v, v, picked)
        b.store(part, pointer(b, row, part.type), align=64)


def _unit_store(b: Builder, address: Value, rows: list[Value], n: int, e: Any) -> None:
    parts = [b.load(pointer(b, row, ir.VectorType(e, LANES)), align=64) for row in rows]
    while len(parts) > 1:  # interleave: for four rows first (0, 2) and (1, 3), then the two results
        half, m = len(parts) // 2, parts[0].type.count
        order = ir.Constant(ir.VectorType(I32, 2 * m), [x for lane in range(m) for x in (lane, m + lane)])
        parts = [b.shuffle_vector(parts[i], parts[i + half], order) for i in range(half)]
    b.store(parts[0], pointer(b, address, parts[0].type), align=1)


@intrinsic
def load_store(typing, opcode, pattern, registers, d, a, delta, mask):
    """Move data of one access whose addresses are known to be good; host address of a lane = row a + delta."""

    def generate(context: Any, b: Builder, signature: Any, args: Any) -> Value:
        opcode, pattern, registers, d, a, delta, mask = args
        mask = resize(b, mask, I32, False)
        function = b.function

        def lane_address(lane: Value) -> Value:
            return b.add(b.load(pointer(b, b.add(b.add(registers, a), b.shl(lane, I64(3))), I64)), delta)

        def case(name: str) -> None:
            store, size, n = memory_shape(name)
            t = f"b{8 * size}"
            e = ELEMENT[t]
            rows = [b.add(registers, b.add(d, I64(j * ROW))) for j in range(n)]
            unit, one, rest, done = (function.append_basic_block(s) for s in ("unit", "one", "scattered", "moved"))
            choice = b.switch(pattern, rest)
            choice.add_case(I64(UNIT), unit)
            if not store:
                choice.add_case(I64(SAME), one)
            b.position_at_end(unit)
            (_unit_store if store else _unit_load)(b, lane_address(I64(0)), rows, n, e)
            b.branch(done)
            b.position_at_end(one)
            base = lane_address(b.zext(llvm(b, "llvm.cttz", I32, mask, I1(0)), I64))
            for j in range(0 if store else n):
                value = b.load(pointer(b, b.add(base, I64(j * size)), e), align=1)
                store_row(b, registers, b.add(d, I64(j * ROW)), t, splat(b, value), mask)
            b.branch(done)
            b.position_at_end(rest)

            def move(lane: Value) -> None:
                address = lane_address(lane)
                for j, row in enumerate(rows):
                    register = pointer(b, b.add(row, b.mul(lane, I64(size))), e)
                    memory = pointer(b, b.add(address, I64(j * size)), e)
                    if store:
                        b.store(b.load(register), memory, align=1)
                    else:
                        b.store(b.load(memory, align=1), register)

            lane_loop(b, mask, move)
            b.branch(done)
            b.position_at_end(done)

        switch(b, opcode, MEMORY_NAMES, case)
        return context.get_dummy_value()

    return types.void(opcode, pattern, registers, d, a, delta, mask), generate


def _combine(b: Builder, what: str, old: Value, operand: Value) -> Value:
    """The value an atomic writes back where LLVM's atomicrmw has no such form."""
    if what == "inc":
        return b.select(b.icmp_unsigned(">=", old, operand), same(old, 0), b.add(old, same(old, 1)))
    if what == "dec":
        wrap = b.or_(b.icmp_unsigned("==", old, same(old, 0)), b.icmp_unsigned(">", old, operand))
        return b.select(wrap, operand, b.sub(old, same(old, 1)))
    relation = ">" if what.endswith("min.f") else "<"  # min.f, nanmin.f; max.f, nanmax.f
    if not what.startswith("nan"):
        return b.select(b.fcmp_ordered(relation, old, operand), operand, old)
    number = b.fcmp_ordered("ord", operand, operand)
    return b.select(b.and_(number, b.fcmp_unordered(relation, old, operand)), operand, old)


ATOMIC_RMW = {
    "add": "add", "and": "and", "or": "or", "xor": "xor", "exch": "xchg", "add.f": "fadd",
    "min.s": "min", "max.s": "max", "min.u": "umin", "max.u": "umax",
}  # fmt: skip


def _compare_exchange_loop(b: Builder, what: str, place: Value, t: str, operand: Value) -> Value:
    """Old value of an atomic built from compare-and-swap."""
    e = ELEMENT[t]
    bits = ir.IntType(8 * SIZE[t])
    as_bits = b.bitcast(place, bits.as_pointer())
    function, before = b.function, b.block
    head, end = function.append_basic_block("swap"), function.append_basic_block("swapped")
    start = b.load(as_bits)
    b.branch(head)
    b.position_at_end(head)
    old = b.phi(bits)
    old.add_incoming(start, before)
    value = b.bitcast(old, e) if e != bits else old
    new = _combine(b, what, value, operand)
    result = b.cmpxchg(as_bits, old, b.bitcast(new, bits) if e != bits else new, "seq_cst")
    old.add_incoming(b.extract_value(result, 0), b.block)
    b.cbranch(b.extract_value(result, 1), end, head)
    b.position_at_end(end)
    return value


@intrinsic
def atomic(typing, opcode, registers, d, a, b_, c, delta, mask):
    """Atomic on good addresses, lane by lane; host address of a lane = row a + delta."""

    def generate(context: Any, b: Builder, signature: Any, args: Any) -> Value:
        opcode, registers, d, a, x, y, delta, mask = args
        mask = resize(b, mask, I32, False)

        def case(name: str) -> None:
            what, t = ATOMICS[name]
            e, size = ELEMENT[t], SIZE[t]

            def one_lane(lane: Value) -> None:
                def place(offset: Value, kind: Any, bytes_: int) -> Value:
                    return pointer(b, b.add(b.add(registers, offset), b.mul(lane, I64(bytes_))), kind)

                target = pointer(b, b.add(b.load(place(a, I64, 8)), delta), e)
                operand = b.load(place(x, e, size))
                if what == "cas":
                    old = b.extract_value(b.cmpxchg(target, operand, b.load(place(y, e, size)), "seq_cst"), 0)
                elif what in ATOMIC_RMW:
                    old = b.atomic_rmw(ATOMIC_RMW[what], target, operand, "seq_cst")
                else:
                    old = _compare_exchange_loop(b, what, target, t, operand)
                b.store(old, place(d, e, size))

            lane_loop(b, mask, one_lane)

        switch(b, opcode, tuple(ATOMICS), case)
        return context.get_dummy_value()

    return types.void(opcode, registers, d, a, b_, c, delta, mask), generate


# -- scalar helpers for the scheduler
# ---------------------------------------------------------------------------------------
def _helper(result: Any, body: Callable[[Builder, list[Value]], Value | None], n: int) -> Any:
    """An intrinsic of n int64 arguments made from `body`."""

    def typed(*args: Any) -> Any:
        def generate(context: Any, b: Builder, signature: Any, values: Any) -> Value:
            wide = [resize(b, v, I64, True) if isinstance(v.type, ir.IntType) else v for v in values]
            out = body(b, wide)
            return context.get_dummy_value() if out is None else out

        return result(*args), generate

    one = {1: lambda t, x: typed(x), 2: lambda t, x, y: typed(x, y), 3: lambda t, x, y, z: typed(x, y, z)}
    return intrinsic(one[n])


def _store(b: Builder, place: Value, value: Value) -> None:
    b.store(value, place)


def _unset_bytes(b: Builder, a: list[Value]) -> Value:
    v = b.load(pointer(b, a[0], ir.VectorType(I8, LANES)), align=1)
    zeros = b.bitcast(b.icmp_unsigned("==", v, same(v, 0)), I32)
    return b.zext(llvm(b, "llvm.ctpop", I32, zeros), I64)


def _set_bytes(b: Builder, a: list[Value]) -> None:
    ones = ir.Constant(ir.VectorType(I8, LANES), [1] * LANES)
    b.store(ones, pointer(b, a[0], ones.type), align=1)


load_u32 = _helper(types.int64, lambda b, a: b.zext(b.load(pointer(b, a[0], I32)), I64), 1)
load_i64 = _helper(types.int64, lambda b, a: b.load(pointer(b, a[0], I64)), 1)
load_u8 = _helper(types.int64, lambda b, a: b.zext(b.load(pointer(b, a[0], I8)), I64), 1)
store_u32 = _helper(types.void, lambda b, a: _store(b, pointer(b, a[0], I32), b.trunc(a[1], I32)), 2)
store_i64 = _helper(types.void, lambda b, a: _store(b, pointer(b, a[0], I64), a[1]), 2)
store_u8 = _helper(types.void, lambda b, a: _store(b, pointer(b, a[0], I8), b.trunc(a[1], I8)), 2)
add_i64 = _helper(
    types.void, lambda b, a: _store(b, pointer(b, a[0], I64), b.add(b.load(pointer(b, a[0], I64)), a[1])), 2
)
popcount = _helper(types.int64, lambda b, a: llvm(b, "llvm.ctpop", I64, a[0]), 1)
lowest_bit = _helper(types.int64, lambda b, a: llvm(b, "llvm.cttz", I64, a[0], I1(0)), 1)
unset_bytes = _helper(types.int64, _unset_bytes, 1)
"""how many of the 32 bytes at an address are 0"""
set_bytes = _helper(types.void, _set_bytes, 1)
"""write 32 ones at an unaligned address"""

assert set(BODIES) == set(ALU_NAMES), sorted(set(BODIES) ^ set(ALU_NAMES))
assert len(ALU_NAMES) == isa.N_ALU
