"""Semantics of each operation, one value at a time, in exact arithmetic: the reference that the VM is tested against.

`semantics[name]` takes and returns bit patterns: a register of n bits is a Python integer from 0 to 2^n - 1 (floats
too, as their IEEE 754 encoding), a predicate is a bool.  Nothing here is shared with the VM, and nothing is fast.

Rounding: a sum, product, quotient or square root of two f32 is correct when computed in double and rounded once more
(Figueroa, "When is double rounding innocuous?", 1995).  Fma, conversions, and every operation that rounds toward zero,
down or up, round an exact fraction.  Arithmetic returns 0x7fffffff for an f32 nan.  An f64 nan is the nan of an
operand, or 0xfff8000000000000.  If a library function returns a nan, its bits are unspecified.  Library functions are
those of the C library in double, called through Python's `math` if it has them.
"""

from __future__ import annotations

import ctypes
import math
import struct
import sys
from collections.abc import Callable, Sequence
from fractions import Fraction

from wsemu.model.data import NamedTuple
from wsemu.model.isa import (
    ADDRESS_OUT,
    ADDRESS_WRAPPED,
    BINARY_FUNCTIONS,
    DIRECTIONS,
    INDEX_BIAS,
    OPERATIONS,
    SEGMENT_SHIFT,
    UNARY_FUNCTIONS,
)

Bits = int
Meaning = Callable[..., int]

# -- encodings ----------------------------------------------------------------------------------------------------


class Format(NamedTuple):
    """A binary floating-point format: `precision` in bits with the hidden bit, smallest and largest exponent of normal
    numbers."""

    code: str
    bits: int
    precision: int
    least: int
    greatest: int


FORMATS = {
    "f16": Format("e", 16, 11, -14, 15),
    "f32": Format("f", 32, 24, -126, 127),
    "f64": Format("d", 64, 53, -1022, 1023),
}


def to_unsigned(value: int, bits: int) -> Bits:
    """Return the low `bits` bits."""
    return value & ((1 << bits) - 1)


def to_signed(value: Bits, bits: int) -> int:
    """Return the two's complement value of a bit pattern."""
    return value - (1 << bits) if value >> (bits - 1) else value


def to_float(value: Bits, type_: str) -> float:
    """Return the number that a bit pattern encodes."""
    f = FORMATS[type_]
    return float(struct.unpack("<" + f.code, value.to_bytes(f.bits // 8, "little"))[0])


def from_float(value: float, type_: str) -> Bits:
    """Return the bit pattern of `value` rounded to nearest even."""
    code = "<" + FORMATS[type_].code
    if math.isfinite(value) and not _holds(value, code):
        value = _round_fraction(*value.as_integer_ratio(), type_, math.copysign(1.0, value) < 0)
    return int.from_bytes(struct.pack(code, value), "little")


def _holds(value: float, code: str) -> bool:
    """Return whether a format has this finite number, so that it needs no rounding."""
    try:
        return bool(struct.unpack(code, struct.pack(code, value))[0] == value)
    except OverflowError:
        return False


def round_to_nearest(value: Fraction, type_: str, negative_zero: bool = False) -> float:
    """Round `value` to nearest even in a format, with subnormals and overflow."""
    return _round_fraction(value.numerator, value.denominator, type_, negative_zero)


def _round_fraction(numerator: int, below: int, type_: str, negative_zero: bool) -> float:
    """Round a fraction, reduced or not, to nearest even; its denominator is positive."""
    f = FORMATS[type_]
    if numerator == 0:
        return -0.0 if negative_zero else 0.0
    above = abs(numerator)
    exponent = above.bit_length() - below.bit_length()
    if _scale_by_power(below, exponent) > _scale_by_power(above, -exponent):
        exponent -= 1
    unit = max(exponent, f.least) - f.precision + 1
    below = _scale_by_power(below, unit)
    steps, rest = divmod(_scale_by_power(above, -unit), below)
    steps += 2 * rest > below or (2 * rest == below and steps % 2)  # half to even
    overflows = steps.bit_length() + unit > f.greatest + 1
    result = math.inf if overflows else math.ldexp(steps, unit)
    return -result if numerator < 0 else result


def _scale_by_power(value: int, exponent: int) -> int:
    """Return value * 2^exponent.  If the exponent is negative, return the value unchanged: the caller then scales the
    other side of a fraction."""
    return value << exponent if exponent > 0 else value


def round_directed(value: Fraction, type_: str, how: str) -> float:
    """Round a nonzero value toward zero (rz), down (rm) or up (rp)."""
    f = FORMATS[type_]
    size, negative = abs(value), value < 0
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > size
    unit = max(exponent, f.least) - f.precision + 1
    steps = size / Fraction(2) ** unit
    away = how == ("rm" if negative else "rp")
    whole = math.ceil(steps) if away else math.floor(steps)
    if whole.bit_length() + unit > f.greatest + 1:  # overflow toward zero gives the largest finite number
        result = math.inf if away else math.ldexp((1 << f.precision) - 1, f.greatest - f.precision + 1)
    else:
        result = math.ldexp(whole, unit)
    return -result if negative else result


# -- integers -----------------------------------------------------------------------------------------------------
def _divide(a: int, b: int) -> int:
    """Return a / b rounded toward zero."""
    quotient = abs(a) // abs(b)
    return -quotient if (a < 0) != (b < 0) else quotient


def _div(a: int, b: int) -> int:
    return -1 if b == 0 else _divide(a, b)


def _rem(a: int, b: int) -> int:
    return -1 if b == 0 else a - b * _divide(a, b)


def _bit_field(a: Bits, position: Bits, length: Bits, bits: int, is_signed: bool) -> Bits:
    """Extract a bit field, bit by bit (PTX ISA, "bfe")."""
    position, length = position & 255, length & 255
    sign = a >> min(position + length - 1, bits - 1) & 1 if is_signed and length else 0
    return sum((a >> (position + i) & 1 if i < length and position + i < bits else sign) << i for i in range(bits))


def _permute(a: Bits, b: Bits, selector: Bits) -> Bits:
    """Select bytes (PTX ISA, "prmt", default mode)."""
    source = (a | b << 32).to_bytes(8, "little")
    result = 0
    for k in range(4):
        nibble = selector >> 4 * k & 15
        byte = source[nibble & 7]
        result |= (0xFF * (byte >> 7) if nibble & 8 else byte) << 8 * k
    return result


def _insert_field(a: Bits, into: Bits, position: Bits, length: Bits, bits: int) -> Bits:
    """Insert a bit field, bit by bit (PTX ISA, "bfi")."""
    position, length = position & 255, length & 255
    for i in range(bits):
        if i < length and position + i < bits:
            into = into & ~(1 << (position + i)) | (a >> i & 1) << (position + i)
    return into


def _index(index: Bits, extent: Bits, stride: Bits, base: Bits, bits: int, is_signed: bool) -> Bits:
    """Return the address of an element; see isa.ADDRESS_OUT and ADDRESS_WRAPPED."""
    wanted = to_signed(index, bits) if is_signed else index
    place, flag = wanted, 0
    if wanted < 0:
        place, flag = wanted + to_signed(extent, 64), ADDRESS_WRAPPED
    if to_unsigned(place, 64) < extent:
        return to_unsigned(base + place * stride, 64) | flag
    if base >= ADDRESS_OUT:  # the index of an earlier dimension is out of range
        return base
    told = max(-INDEX_BIAS, min(to_signed(to_unsigned(wanted, 64), 64), INDEX_BIAS - 1))
    return ADDRESS_OUT | (told + INDEX_BIAS) << SEGMENT_SHIFT | 1 << (SEGMENT_SHIFT - 1)


def _floor(what: str, limit: int) -> Callable[[int, int], int]:
    """Return Python's // or %, with result 0 if the machine's division overflows; `limit` is the most negative
    value."""

    def meaning(a: int, b: int) -> int:
        if b == 0 or (a == limit and b == -1 and limit < 0):
            return 0
        return a // b if what == "div" else a % b

    return meaning


COMPARE: dict[str, Callable[[float, float], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
semantics: dict[str, Meaning] = {}
"""ALU operation -> its meaning"""


def _typed_integers(s: str, n: int) -> None:
    """Enter the operations on n-bit integers that depend on signedness (`s`: signed, `u`: unsigned)."""
    t, is_signed = f"{s}{n}", s == "s"

    def value(x: Bits) -> int:
        return to_signed(x, n) if is_signed else x

    def enter(name: str, result_bits: int, f: Callable[..., int]) -> None:
        semantics[f"{name}.{t}"] = lambda *x: to_unsigned(f(*(value(v) for v in x)), result_bits)

    semantics[f"shr.{t}"] = lambda a, b: to_unsigned(value(a) >> min(b, n), n)
    enter("min", n, min)
    enter("max", n, max)
    enter("div", n, _div)
    enter("rem", n, _rem)
    enter("mulhi", n, lambda a, b: a * b >> n)
    if n < 64:
        enter("mulwide", 2 * n, lambda a, b: a * b)
        semantics[f"madwide.{t}"] = lambda a, b, c: to_unsigned(value(a) * value(b) + c, 2 * n)
    if n >= 32:
        limit = -(1 << (n - 1)) if is_signed else 0
        enter("floordiv", n, _floor("div", limit))
        enter("floormod", n, _floor("mod", limit))
        semantics[f"bfe.{t}"] = lambda a, b, c: _bit_field(a, b, c, n, is_signed)
        semantics[f"index.{t}"] = lambda a, b, c, d: _index(a, b, c, d, n, is_signed)
    for relation in ("lt", "le", "gt", "ge"):
        semantics[f"setp.{relation}.{t}"] = lambda a, b, r=COMPARE[relation]: r(value(a), value(b))
    for m in (8, 16, 32, 64):
        semantics[f"cvt.b{m}.{t}"] = lambda a, m=m: to_unsigned(value(a), m)
    for f in ("f32", "f64"):
        semantics[f"cvt.rn.{f}.{t}"] = lambda a, f=f: from_float_exact(Fraction(value(a)), f)


def from_float_exact(value: Fraction, type_: str) -> Bits:
    """Return the bit pattern of an exact number rounded to nearest even."""
    return from_float(round_to_nearest(value, type_), type_)


def _untyped_integers(n: int) -> None:
    """Enter the operations on n-bit integers that do not depend on signedness."""
    t = f"b{n}"
    plain: dict[str, Meaning] = {
        "mov": lambda a: a,
        "neg": lambda a: -a,
        "not": lambda a: ~a,
        "add": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "mul": lambda a, b: a * b,
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "xor": lambda a, b: a ^ b,
        "mad": lambda a, b, c: a * b + c,
        "selp": lambda a, b, c: a if c else b,
        "shl": lambda a, b: a << b if b < n else 0,
    }
    if n >= 32:
        plain["varying"] = lambda a: a
    for name, f in plain.items():
        semantics[f"{name}.{t}"] = lambda *x, f=f: to_unsigned(f(*x), n)
    semantics[f"abs.s{n}"] = lambda a: to_unsigned(abs(to_signed(a, n)), n)
    semantics[f"setp.eq.{t}"] = lambda a, b: a == b
    semantics[f"setp.ne.{t}"] = lambda a, b: a != b
    if n >= 32:
        semantics[f"popc.{t}"] = lambda a: a.bit_count()
        semantics[f"clz.{t}"] = lambda a: n - a.bit_length()
        semantics[f"ffs.{t}"] = lambda a: (a & -a).bit_length()
        semantics[f"brev.{t}"] = lambda a: int(f"{a:0{n}b}"[::-1], 2)
        semantics[f"bfi.{t}"] = lambda a, b, c, d: _insert_field(a, b, c, d, n)


# -- floating point -----------------------------------------------------------------------------------------------
def _quotient(a: float, b: float) -> float:
    if b:
        return a / b
    if a == 0 or math.isnan(a):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def _fma(a: float, b: float, c: float, type_: str) -> float:
    """Return a * b + c, rounded once."""
    if not (math.isfinite(a) and math.isfinite(b)):
        return a * b + c  # inf or nan, which no rounding changes
    if not math.isfinite(c):
        return c
    (a_above, a_below), (b_above, b_below), (c_above, c_below) = (x.as_integer_ratio() for x in (a, b, c))
    product, below = a_above * b_above, a_below * b_below
    exact = product * c_below + c_above * below
    both_negative = math.copysign(1.0, a) * math.copysign(1.0, b) < 0 and math.copysign(1.0, c) < 0
    return _round_fraction(exact, below * c_below, type_, both_negative and product == 0)


def _zero(how: str, *signs: float) -> float:
    """Return the zero that is the exact sum of numbers with these signs: their common sign if all agree, else -0 if
    rounding down, else +0."""
    if len({math.copysign(1.0, sign) for sign in signs}) == 1:
        return math.copysign(0.0, signs[0])
    return -0.0 if how == "rm" else 0.0


def _directed_fma(a: float, b: float, c: float, type_: str, how: str) -> float:
    if not all(math.isfinite(x) for x in (a, b, c)):
        return _fma(a, b, c, type_)
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    return round_directed(exact, type_, how) if exact else _zero(how, math.copysign(1.0, a) * math.copysign(1.0, b), c)


def _directed_quotient(a: float, b: float, type_: str, how: str) -> float:
    if a and b and math.isfinite(a) and math.isfinite(b):
        return round_directed(Fraction(a) / Fraction(b), type_, how)
    return _quotient(a, b)


def _directed_root(a: float, type_: str, how: str) -> float:
    """Return the square root rounded in one direction: its floor or ceiling in units of the last place, by integers."""
    if not (math.isfinite(a) and a > 0):
        return _square_root(a)
    precision = FORMATS[type_].precision
    shift = 2 * (precision + 600)  # enough bits for the smallest subnormal
    scaled = int(Fraction(a) * 2**shift)  # exact
    root = math.isqrt(scaled)
    sticky = root * root != scaled
    return round_directed(Fraction(2 * root + sticky, 2) / Fraction(2) ** (shift // 2), type_, how)


def _lesser(a: float, b: float) -> float:
    """Return the smaller number (IEEE 754 minimumNumber: a number rather than a nan, -0 below +0)."""
    if math.isnan(a):
        return b
    if math.isnan(b):
        return a
    if a == b:
        return a if math.copysign(1.0, a) < 0 else b
    return min(a, b)


def _greater(a: float, b: float) -> float:
    """Return the larger number (IEEE 754 maximumNumber)."""
    return -_lesser(-a, -b)


def _square_root(a: float) -> float:
    return math.sqrt(a) if a >= 0 else math.nan


def _fmod(a: float, b: float) -> float:
    return math.nan if math.isinf(a) or b == 0 else math.fmod(a, b)


def _python_division(a: float, b: float, type_: str) -> tuple[float, float]:
    """Return (a // b, a % b) as CPython computes them for floats, each step rounded to the type; for a zero divisor,
    return (a / b, nan)."""

    def step(x: float) -> float:
        return to_float(from_float(x, type_), type_)

    if b == 0:
        return step(_quotient(a, b)), math.nan
    modulus = _fmod(a, b)
    quotient = step(step(a - modulus) / b)
    if modulus:
        if (b < 0) != (modulus < 0):
            modulus = step(modulus + b)
            quotient = step(quotient - 1.0)
    else:
        modulus = math.copysign(0.0, b)
    if not math.isfinite(quotient):
        return quotient, modulus
    if quotient == 0:
        return math.copysign(0.0, a / b), modulus
    floor = float(math.floor(quotient))
    return (step(floor + 1.0) if quotient - floor > 0.5 else floor), modulus


ROUND: dict[str, Callable[[float], int]] = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}


def _integral(a: float, how: str) -> float:
    """Round `a` to an integral value that keeps the sign of zero."""
    return math.copysign(float(ROUND[how](a)), a) if math.isfinite(a) else a


def _to_integer(a: float, how: str, s: str, n: int, source: str) -> Bits:
    """Round `a` to an integer; a value out of range saturates.  PTX ISA, "cvt": nan gives 0, or only the sign bit."""
    if math.isnan(a):
        return 1 << (n - 1) if source == "f64" or n == 64 else 0
    least, most = (-(1 << (n - 1)), (1 << (n - 1)) - 1) if s == "s" else (0, (1 << n) - 1)
    if math.isinf(a):
        return to_unsigned(most if a > 0 else least, n)
    return to_unsigned(max(least, min(ROUND[how](a), most)), n)


def _predicates() -> None:
    meanings: dict[str, Callable[..., bool]] = {
        "mov": lambda a: a,
        "not": lambda a: not a,
        "and": lambda a, b: a and b,
        "or": lambda a, b: a or b,
        "xor": lambda a, b: a != b,
        "andn": lambda a, b: a and not b,
        "selp": lambda a, b, c: a if c else b,
    }
    semantics.update({f"{name}.pred": meaning for name, meaning in meanings.items()})


def _floats(f: str) -> None:
    """Enter the operations on one float type."""
    top = 1 << (FORMATS[f].bits - 1)

    def value(x: Bits) -> float:
        return to_float(x, f)

    arithmetic: dict[str, Callable[..., float]] = {
        "add": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "mul": lambda a, b: a * b,
        "div": _quotient,
        "fma": lambda a, b, c: _fma(a, b, c, f),
        "sqrt": _square_root,
        "rcp": lambda a: _quotient(1.0, a),
        "min": _lesser,
        "max": _greater,
        "floordiv": lambda a, b: _python_division(a, b, f)[0],
        "floormod": lambda a, b: _python_division(a, b, f)[1],
    }
    for how in DIRECTIONS:
        arithmetic[f"fma.{how}"] = lambda a, b, c, how=how: _directed_fma(a, b, c, f, how)
        arithmetic[f"div.{how}"] = lambda a, b, how=how: _directed_quotient(a, b, f, how)
        arithmetic[f"sqrt.{how}"] = lambda a, how=how: _directed_root(a, f, how)
    for name, meaning in {**arithmetic, **LIBRARY}.items():
        through = _THROUGH.get(name.partition(".")[0], ())
        semantics[f"{name}.{f}"] = lambda *x, m=meaning, t=through: _to_bits(
            m(*(value(v) for v in x)), f, [x[n] for n in t]
        )
    semantics[f"neg.{f}"] = lambda a: _to_bits(-value(a), f, [a])
    semantics[f"abs.{f}"] = lambda a: _to_bits(abs(value(a)), f, [a])
    semantics[f"copysign.{f}"] = lambda a, b: a & ~top | b & top
    semantics[f"selp.{f}"] = lambda a, b, c: a if c else b
    for relation, holds in COMPARE.items():
        semantics[f"setp.{relation}.{f}"] = lambda a, b, h=holds: (
            not _is_unordered(value(a), value(b)) and h(value(a), value(b))
        )
        semantics[f"setp.{relation}u.{f}"] = lambda a, b, h=holds: (
            _is_unordered(value(a), value(b)) or h(value(a), value(b))
        )
    for how in ROUND:
        semantics[f"cvt.{how}.{f}.{f}"] = lambda a, h=how: _to_bits(_integral(value(a), h), f, [a])
        for n in (8, 16, 32, 64):
            for s in "su":
                semantics[f"cvt.{how}.{s}{n}.{f}"] = lambda a, h=how, s=s, n=n: _to_integer(value(a), h, s, n, f)
    for other in FORMATS:
        semantics[f"cvt.{other}.{f}"] = lambda a, other=other: _convert_bits(a, f, other)
        semantics[f"cvt.{f}.{other}"] = lambda a, other=other: _convert_bits(a, other, f)


_THROUGH = {
    "add": (1, 0), "sub": (1, 0), "mul": (1, 0), "min": (1, 0), "max": (1, 0), "fma": (1, 2, 0), "div": (0, 1),
    "sqrt": (0,), "rcp": (0,), "rsqrt": (0,),
}  # fmt: skip
"""operation -> its operands in the order in which an H200 searches them for an f64 nan to return"""


def _to_bits(result: float, type_: str, given: Sequence[Bits] = ()) -> Bits:
    """Return the bits of a result.  An f32 nan is 0x7fffffff (PTX ISA, "Floating Point Instructions").  An f64 nan is
    the first nan of the operands `given`, made quiet, or the default nan if no operand is a nan."""
    if not math.isnan(result):
        return from_float(result, type_)
    if type_ == "f32" or not given:
        return 0x7FFFFFFF if type_ == "f32" else from_float(result, type_)
    return next((x | 1 << 51 for x in given if math.isnan(to_float(x, type_))), 0xFFF8 << 48)


_NANS = {("f32", "f16"): 0x7FFF, ("f16", "f32"): 0x7FFFFFFF, ("f64", "f16"): 0x7E00, ("f64", "f32"): 0x7FC00000}
"""(from, to) -> the resulting nan, as measured on an H200; an f64 nan keeps its sign"""


def _convert_bits(a: Bits, source: str, to: str) -> Bits:
    value = to_float(a, source)
    if math.isnan(value) and (source, to) in _NANS:
        sign = a >> 63 << (FORMATS[to].bits - 1) if source == "f64" else 0
        payload = a >> 29 & 0x3FFFFF if (source, to) == ("f64", "f32") else 0
        return _NANS[source, to] | sign | payload
    return from_float(value, to)


def _flush(a: Bits) -> Bits:
    return a if a & 0x7F800000 else a & 0x80000000


def _is_unordered(a: float, b: float) -> bool:
    return math.isnan(a) or math.isnan(b)


# -- library functions --------------------------------------------------------------------------------------------
def _with_special_cases(function: Callable[..., float], special: Callable[..., float]) -> Callable[..., float]:
    """Return `function`, extended by `special` for arguments for which Python raises and C returns a value."""

    def meaning(*x: float) -> float:
        if any(math.isnan(v) for v in x) and function is not math.pow:
            return math.nan
        try:
            return function(*x)
        except (ValueError, OverflowError):
            return special(*x)

    return meaning


def _pow_special(a: float, b: float) -> float:
    """Return pow of zero to a negative power, of a negative number to a fraction, or of an overflow."""
    odd = math.isfinite(b) and b == int(b) and int(b) % 2 == 1
    if a == 0:
        return math.copysign(math.inf, a) if odd else math.inf
    if a < 0 and math.isfinite(b) and b != int(b):
        return math.nan
    return -math.inf if a < 0 and odd else math.inf


def _c_function(name: str, count: int) -> Callable[..., float]:
    """Return a function of the C library on `count` doubles.  Python has its own algorithms for these functions, with
    other last bits."""
    function = getattr(ctypes.CDLL("ucrtbase" if sys.platform == "win32" else None), name)
    function.argtypes, function.restype = [ctypes.c_double] * count, ctypes.c_double
    meaning: Callable[..., float] = function
    return meaning


def _not_a_number(*_: float) -> float:
    return math.nan


LIBRARY: dict[str, Callable[..., float]] = {
    **{
        name: _with_special_cases(getattr(math, name), _not_a_number)
        for name in [
            "sin",
            "cos",
            "tan",
            "asin",
            "acos",
            "atan",
            "tanh",
            "asinh",
            "acosh",
            "erf",
            "erfc",
            "cbrt",
            "atan2",
        ]
    },
    **{name: _with_special_cases(getattr(math, name), lambda a: math.inf) for name in ["exp", "exp2", "expm1", "cosh"]},
    "sinh": _with_special_cases(math.sinh, lambda a: math.copysign(math.inf, a)),
    "atanh": _with_special_cases(math.atanh, lambda a: math.copysign(math.inf, a) if abs(a) == 1 else math.nan),
    **{
        name: _with_special_cases(getattr(math, name), lambda a: -math.inf if a == 0 else math.nan)
        for name in ["log", "log2", "log10"]
    },
    "log1p": _with_special_cases(math.log1p, lambda a: -math.inf if a == -1 else math.nan),
    **{name: _c_function(name, count) for name, count in {"hypot": 2, "lgamma": 1, "tgamma": 1}.items()},
    "rsqrt": lambda a: _quotient(1.0, a if a == 0 else _square_root(a)),
    "pow": _with_special_cases(math.pow, _pow_special),
    "fmod": _fmod,
}
assert set(LIBRARY) == {*UNARY_FUNCTIONS, *BINARY_FUNCTIONS}

for _n in (8, 16, 32, 64):
    _untyped_integers(_n)
    _typed_integers("s", _n)
    _typed_integers("u", _n)
for _f in ("f32", "f64"):
    _floats(_f)
_predicates()
semantics.update(
    {
        "ftz.f32": _flush,
        "prmt.b32": _permute,
    }
)
semantics = {name: semantics[name] for name, operation in OPERATIONS.items() if operation.kind == "alu"}
