"""`cvt` and `mov`: conversions between types, copies, packing and unpacking (PTX ISA 9.7.9)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.frontend.ptx.floats import (
    NAN,
    clamp_negative,
    flush_subnormal,
    is_nan,
    narrow_float,
    number,
    saturate,
    widen_float,
)
from wsemu.frontend.ptx.forms import BITS, UnhandledForm, halves, join_halves, lower_by_form
from wsemu.frontend.ptx.syntax import Sink, Vector
from wsemu.model.data import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.frontend.assemble.graph import Register
    from wsemu.frontend.ptx.emit import Emitter, Handler
    from wsemu.frontend.ptx.forms import Form, Lower
    from wsemu.frontend.ptx.syntax import Operand

    Formula = Callable[[Emitter, Register], Register]

INTEGERS = frozenset(f"{s}{n}" for s in "us" for n in (8, 16, 32, 64))
FLOATS = frozenset({"f16", "bf16", "f32", "f64"})
INTEGRAL = frozenset({"rni", "rzi", "rmi", "rpi"})


# -- integers --------------------------------------------------------------------------------------------------------
def bounds(type_: str) -> tuple[int, int]:
    """Return the smallest and largest value of an integer type."""
    n = BITS[type_]
    return (-(1 << (n - 1)), (1 << (n - 1)) - 1) if type_[0] == "s" else (0, (1 << n) - 1)


def clamp_to_type(e: Emitter, x: Register, source: str, to: str) -> Register:
    """Return a number of type `source`, limited to the range of type `to` but still of type `source`."""
    row, (low, high), (least, most) = f"b{BITS[source]}", bounds(to), bounds(source)
    if low > least:
        x = e.emit(f"max.{source}", x, e.constant(row, low))
    if high < most:
        x = e.emit(f"min.{source}", x, e.constant(row, high))
    return x


def _integer_to_integer(form: Form, to: str, source: str) -> Formula:
    if form.only("sat").rounding:
        raise UnhandledForm

    def formula(e: Emitter, x: Register) -> Register:
        if form.flags:
            x = clamp_to_type(e, x, source, to)
        return e.resize(x, BITS[to], source[0])

    return formula


# -- integers and floats ---------------------------------------------------------------------------------------------
def _float_to_integer(form: Form, to: str, source: str) -> Formula:
    """Return the formula of a float to integer conversion, which saturates.  A nan gives 0, or only the sign bit if one
    of the types has 64 bits (PTX ISA, "cvt")."""
    form.only("ftz", "sat")
    rounding = form.rounding
    wide = "f64" if source == "f64" else "f32"
    if rounding not in INTEGRAL:
        raise UnhandledForm

    def formula(e: Emitter, x: Register) -> Register:
        if "ftz" in form.flags:
            x = flush_subnormal(e, source, x)
        x = widen_float(e, source, x, wide)
        if rounding in ("rmi", "rpi"):
            x = e.emit(f"cvt.{rounding}.{wide}.{wide}", x)
        return e.emit(f"cvt.{'rni' if rounding == 'rni' else 'rzi'}.{to}.{wide}", x)

    return formula


def _double_of_integer(e: Emitter, x: Register, source: str, rounding: str) -> Register:
    """Return an integer as f64: exact up to 32 bits, otherwise the sum of its halves, rounded once."""
    if BITS[source] < 64 or rounding == "rn":
        return e.emit(f"cvt.rn.f64.{source}", x)
    low = e.emit("cvt.rn.f64.u32", e.emit("cvt.b32.s64", x))
    upper = e.emit("cvt.b32.s64", e.emit("shr.u64", x, e.constant("b64", 32)))
    high = e.emit(f"cvt.rn.f64.{source[0]}32", upper)
    return e.emit(f"fma.{rounding}.f64", high, number(e, "f64", 0x41F0000000000000), low)  # 2^32


def _odd_double_of_integer(e: Emitter, x: Register, source: str) -> Register:
    """Return an integer as an f64 that rounds to f32 and narrower types as the integer does: if bits are lost, the last
    bit becomes one (round to odd)."""
    if BITS[source] < 64:
        return e.emit(f"cvt.rn.f64.{source}", x)
    low = e.emit("and.b64", x, e.constant("b64", 0xFFF))
    sticky = e.emit("or.b64", e.emit("xor.b64", x, low), e.constant("b64", 0x800))
    size = e.emit("abs.s64", x) if source[0] == "s" else x
    lossy = e.emit("setp.gt.u64", size, e.constant("b64", 1 << 53))
    inexact = e.emit("and.pred", lossy, e.emit("setp.ne.b64", low, e.constant("b64", 0)))
    return e.emit(f"cvt.rn.f64.{source}", e.emit("selp.b64", sticky, x, inexact))


def _integer_to_float(form: Form, to: str, source: str) -> Formula:
    form.only("sat", "ftz")
    rounding = form.rounding
    if rounding not in ("rn", "rz", "rm", "rp") or ("sat" in form.flags and to not in ("f32", "f64")):
        raise UnhandledForm

    def formula(e: Emitter, x: Register) -> Register:
        if to == "f64":
            result = _double_of_integer(e, x, source, rounding)
        elif to == "f32" and (rounding == "rn" or BITS[source] < 32):
            result = e.emit(f"cvt.rn.f32.{source}", x)
        else:
            result = narrow_float(e, "f64", _odd_double_of_integer(e, x, source), to, rounding)
        return saturate(e, to, result) if "sat" in form.flags else result

    return formula


# -- floats ----------------------------------------------------------------------------------------------------------
def _float_to_float(form: Form, to: str, source: str) -> Formula:
    """Return the formula of a float conversion: widening is exact; `.rni` and similar modifiers round to an integral
    value of the same type."""
    form.only("ftz", "sat", "relu", "satfinite")
    ftz, sat, relu, finite = (flag in form.flags for flag in ("ftz", "sat", "relu", "satfinite"))
    rounding = form.rounding
    if finite and (source != "f32" or to not in _HALVES):
        raise UnhandledForm
    narrows = BITS[to] < BITS[source] or (to != source and BITS[to] == BITS[source])
    if (rounding in INTEGRAL and to != source) or rounding == "rna" or (narrows and not rounding):
        raise UnhandledForm
    wide = "f64" if "f64" in (to, source) else "f32"

    def formula(e: Emitter, x: Register) -> Register:
        if ftz and source != "bf16":
            x = flush_subnormal(e, source, x)
        x = widen_float(e, source, x, wide)
        if rounding in INTEGRAL:
            x = e.emit(f"cvt.{rounding}.{wide}.{wide}", x)
        if sat:
            x = saturate(e, wide, x)
        if relu:
            x = clamp_negative(e, wide, x)
        if finite:
            x = _clamp_finite(e, x, to)
        if to == source == "f32" and not (rounding or sat):
            x = e.emit("selp.b32", number(e, to, NAN[to]), x, is_nan(e, to, x))
        result = narrow_float(e, wide, x, to, rounding or "rn")
        return flush_subnormal(e, to, result) if ftz and to == "f32" else result

    return formula


class _Half(NamedTuple):
    """A float of 16 bits: fraction bits, the exponent of the smallest normal number, and the largest number."""

    mantissa: int
    least: int
    most: int
    wide: int
    """the largest number as an f32"""


_HALVES = {"f16": _Half(10, -14, 0x7BFF, 0x477FE000), "bf16": _Half(7, -126, 0x7F7F, 0x7F7F0000)}


def _clamp_finite(e: Emitter, x: Register, to: str) -> Register:
    """Return an f32, or the largest f16 or bf16 with its sign if it is out of range; a nan is unchanged."""
    size = e.emit("and.b32", x, e.constant("b32", 0x7FFFFFFF))
    sign = e.emit("and.b32", x, e.constant("b32", 1 << 31))
    most = e.constant("b32", _HALVES[to].wide)
    clamped = e.emit("or.b32", e.emit("min.u32", size, most), sign)
    return e.emit("selp.b32", x, clamped, is_nan(e, "f32", x))


_KINDS: dict[tuple[bool, bool], Callable[[Form, str, str], Formula]] = {
    (True, True): _integer_to_integer,
    (True, False): _float_to_integer,
    (False, True): _integer_to_float,
    (False, False): _float_to_float,
}
"""(to an integer, from an integer) -> function that returns the formula"""


def convert_form(form: Form) -> Lower:
    if "pack" in form.flags:
        return _pack_form(form)
    to, source = form.types
    if to in ("f16x2", "bf16x2") and source == "f32":
        return _random_pair_form(form, to[:-2]) if "rs" in form.flags else _pair_form(form, to[:-2])
    if to == "tf32" and source == "f32":
        return _tensor_float_form(form)
    if to in BYTES and source in ("f32", "f16x2", "bf16x2"):
        return _to_bytes_form(form, BYTES[to], source)
    if source in BYTES and to == "f16x2":
        return _from_bytes_form(form, BYTES[source])
    if (to, source) == ("bf16x2", "ue8m0x2"):
        return _from_exponents_form(form)
    if to == "ue8m0x2" and source in ("f32", "bf16x2"):
        return _to_exponents_form(form, source)
    if not {to, source} <= INTEGERS | FLOATS:
        raise UnhandledForm
    formula = _KINDS[to in INTEGERS, source in INTEGERS](form, to, source)
    row = f"b{BITS[source]}" if source not in ("f32", "f64") else source

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        destination, operand = operands
        e.write_register(destination, formula(e, e.read(operand, row)), to[0])

    return lower


def _pair_form(form: Form, to: str) -> Lower:
    """Lower cvt.rn.f16x2.f32 d, a, b: a becomes the upper half."""
    formula = _float_to_float(form, to, "f32")
    if form.rounding not in ("rn", "rz"):
        raise UnhandledForm

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        destination, *sources = operands
        upper, low = (formula(e, e.read(source, "f32")) for source in sources)
        e.write_register(destination, join_halves(e, low, upper))

    return lower


def _randomly_rounded(e: Emitter, x: Register, random: Register, to: str, *, finite: bool) -> Register:
    """Return an f32 as an f16 or bf16 in a b32: random bits are added to the bits that will be dropped, and the sum is
    truncated.  The random bits are the low 16 bits of a b32, of which f16 uses 13."""
    half = _HALVES[to]
    dropped = 23 - half.mantissa
    bits = e.emit("and.b32", random, e.constant("b32", (1 << dropped) - 1))
    size = e.emit("and.b32", x, e.constant("b32", 0x7FFFFFFF))
    rounded = e.emit("shr.u32", e.emit("add.b32", size, bits), e.constant("b32", dropped))
    if to == "f16":
        normal = e.emit("sub.b32", rounded, e.constant("b32", 127 - 15 << half.mantissa))
        # as fixed point with 13 bits after the last one of a subnormal number
        unit = e.constant("b32", 127 + 24 + dropped << 23)
        fixed = e.emit("cvt.rzi.u32.f32", e.emit("mul.f32", size, unit))
        small = e.emit("shr.u32", e.emit("add.b32", fixed, bits), e.constant("b32", dropped))
        below = e.emit("setp.lt.u32", size, e.constant("b32", 127 + half.least << 23))
        rounded = e.emit("selp.b32", small, normal, below)
        large = e.emit("setp.ge.u32", size, e.constant("b32", 127 + 16 << 23))
        rounded = e.emit("selp.b32", e.constant("b32", half.most + 1), rounded, large)
    infinite = e.emit("setp.eq.b32", size, e.constant("b32", 0x7F800000))
    rounded = e.emit("selp.b32", e.constant("b32", half.most + 1), rounded, infinite)
    rounded = e.emit("min.u32", rounded, e.constant("b32", half.most + 1 - finite))
    sign = e.emit("and.b32", e.emit("shr.u32", x, e.constant("b32", 16)), e.constant("b32", 0x8000))
    signed = e.emit("or.b32", rounded, sign)
    return e.emit("selp.b32", e.constant("b32", 0x7FFF), signed, is_nan(e, "f32", x))


def _random_pair_form(form: Form, to: str) -> Lower:
    """Lower cvt.rs{.relu}{.satfinite}.f16x2.f32 d, a, b, random bits: a becomes the upper half, by the upper half of
    the random bits."""
    if form.only("rs", "relu", "satfinite").rounding:
        raise UnhandledForm
    relu, finite = "relu" in form.flags, "satfinite" in form.flags

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        destination, *sources, random = operands
        upper, low = (e.read(source, "f32") for source in sources)
        if relu:
            upper, low = (clamp_negative(e, "f32", x) for x in (upper, low))
        bits = e.read(random, "b32")
        shift = e.constant("b32", 16)
        upper = _randomly_rounded(e, upper, e.emit("shr.u32", bits, shift), to, finite=finite)
        low = _randomly_rounded(e, low, bits, to, finite=finite)
        e.write_register(destination, e.emit("or.b32", e.emit("shl.b32", upper, shift), low))

    return lower


def _tensor_float_form(form: Form) -> Lower:
    """Lower cvt.rna.tf32.f32: round to 10 fraction bits, ties away from zero, or to nearest even."""
    if form.only("relu").rounding not in ("rna", "rn", "rz"):
        raise UnhandledForm

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        destination, source = operands
        x = e.read(source, "f32")
        kept = clamp_negative(e, "f32", x) if form.flags else x
        half = e.constant("b32", {"rna": 0x1000, "rn": 0xFFF, "rz": 0}[form.rounding])
        sum_ = e.emit("add.b32", kept, half)
        if form.rounding == "rn":
            sum_ = e.emit("add.b32", sum_, e.emit("bfe.u32", kept, e.constant("b32", 13), e.constant("b32", 1)))
        kept_bits = e.constant("b32", 0xFFFFE000)
        cut, special_cut = e.emit("and.b32", sum_, kept_bits), e.emit("and.b32", kept, kept_bits)
        size = e.emit("and.b32", x, e.constant("b32", 0x7FFFFFFF))
        special = e.emit("setp.ge.u32", size, e.constant("b32", 0x7F800000))
        if form.rounding != "rna":  # `rna` keeps the bits of a nan that fit
            special_cut = e.emit("selp.b32", e.constant("b32", 0x7FFFE000), special_cut, is_nan(e, "f32", x))
        e.write_register(destination, e.emit("selp.b32", special_cut, cut, special))

    return lower


class _Byte(NamedTuple):
    """A float of 8 bits or fewer."""

    mantissa: int
    bias: int
    most: int
    """bits of the largest finite number"""
    sign: int = 7
    """number of the sign bit; types with fewer than 8 bits have neither nan nor infinity"""

    @property
    def distance(self) -> int:
        """Return the distance in bits between the two floats of a pair: 4-bit floats share a byte."""
        return 4 if self.sign == 3 else 8


BYTES = {
    "e4m3x2": _Byte(3, 7, 0x7E), "e5m2x2": _Byte(2, 15, 0x7B), "e2m1x2": _Byte(1, 1, 7, 3),
    "e2m3x2": _Byte(3, 1, 0x1F, 5), "e3m2x2": _Byte(2, 3, 0x1F, 5),
}  # fmt: skip
_BYTE_NAN = 0x7F


def _byte(e: Emitter, x: Register, to: _Byte) -> Register:
    """Return an f32 as a float of at most 8 bits in a b32, rounded to nearest even; a number out of range becomes the
    largest one.  A nan becomes the positive largest number if the type has no nan (PTX ISA, "cvt")."""
    size = e.emit("and.b32", x, e.constant("b32", 0x7FFFFFFF))
    dropped = 23 - to.mantissa
    odd = e.emit("bfe.u32", size, e.constant("b32", dropped), e.constant("b32", 1))
    sum_ = e.emit("add.b32", e.emit("add.b32", size, e.constant("b32", (1 << dropped - 1) - 1)), odd)
    normal = e.emit("shr.u32", sum_, e.constant("b32", dropped))
    normal = e.emit("sub.b32", normal, e.constant("b32", 127 - to.bias << to.mantissa))
    # adding a number whose last bit has the weight of a subnormal's rounds the sum to that bit
    unit = e.constant("b32", 127 + 23 + 1 - to.bias - to.mantissa << 23)
    small = e.emit("sub.b32", e.emit("add.f32", size, unit), unit)
    least = e.constant("b32", 128 - to.bias << 23)
    bits = e.emit("selp.b32", small, normal, e.emit("setp.lt.u32", size, least))
    # rounding may have produced a number beyond the largest one, or bits outside of the type
    large = e.constant(
        "b32", (to.most >> to.mantissa) + 127 - to.bias << 23 | (to.most & (1 << to.mantissa) - 1) << dropped
    )
    bits = e.emit("selp.b32", e.constant("b32", to.most), bits, e.emit("setp.gt.u32", size, large))
    sign = e.emit("and.b32", e.emit("shr.u32", x, e.constant("b32", 31 - to.sign)), e.constant("b32", 1 << to.sign))
    nan = e.constant("b32", _BYTE_NAN if to.sign == 7 else to.most)
    return e.emit("selp.b32", nan, e.emit("or.b32", bits, sign), is_nan(e, "f32", x))


def _to_bytes_form(form: Form, to: _Byte, source: str) -> Lower:
    """Lower cvt.rn.satfinite{.relu}.e4m3x2.f32 d, a, b: a becomes the upper byte; of .f16x2 or .bf16x2, each half
    becomes a byte."""
    if form.only("satfinite", "relu").rounding != "rn" or "satfinite" not in form.flags:
        raise UnhandledForm
    relu = "relu" in form.flags

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        destination, *sources = operands
        if source == "f32":
            upper, low = (e.read(operand, "f32") for operand in sources)
        else:
            half = source.removesuffix("x2")
            low, upper = (widen_float(e, half, part, "f32") for part in halves(e, e.read(sources[0], "b32")))
        low, upper = (_byte(e, clamp_negative(e, "f32", x) if relu else x, to) for x in (low, upper))
        both = e.emit("or.b32", e.emit("shl.b32", upper, e.constant("b32", to.distance)), low)
        e.write_register(destination, e.emit(f"cvt.b{2 * to.distance}.s32", both))

    return lower


def _from_exponents_form(form: Form) -> Lower:
    """Lower cvt.rn.bf16x2.ue8m0x2: two powers of 2; 255 is nan, 0 a subnormal."""
    if form.only().rounding != "rn":
        raise UnhandledForm

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        destination, operand = operands
        both = e.emit("cvt.b32.u16", e.read(operand, "b16"))
        low, high = (_power(e, part) for part in (both, e.emit("shr.u32", both, e.constant("b32", 8))))
        e.write_register(destination, join_halves(e, low, high))

    return lower


def _to_exponents_form(form: Form, source: str) -> Lower:
    """Lower cvt.rp{.satfinite}.ue8m0x2.f32 d, a, b: a becomes the upper byte; of .bf16x2, each half becomes a byte."""
    if form.only("satfinite").rounding not in ("rz", "rp"):
        raise UnhandledForm

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        destination, *sources = operands
        if source == "f32":
            upper, low = (e.read(operand, "f32") for operand in sources)
        else:
            low, upper = (widen_float(e, "bf16", half, "f32") for half in halves(e, e.read(sources[0], "b32")))
        low, upper = (_exponent(e, x, up=form.rounding == "rp", finite="satfinite" in form.flags) for x in (low, upper))
        both = e.emit("or.b32", e.emit("shl.b32", upper, e.constant("b32", 8)), low)
        e.write_register(destination, e.emit("cvt.b16.s32", both))

    return lower


def _exponent(e: Emitter, x: Register, *, up: bool, finite: bool) -> Register:
    """Return the exponent of the power of 2 next to the magnitude of an f32; 255 stands for nan, and 0 for the smallest
    power and everything below."""
    size = e.emit("and.b32", x, e.constant("b32", 0x7FFFFFFF))
    moved = e.emit("add.b32", size, e.constant("b32", 0x7FFFFF)) if up else size
    bits = e.emit("shr.u32", moved, e.constant("b32", 23))
    if up:
        least = e.emit("setp.le.u32", size, e.constant("b32", 0x400000))  # 2^-127
        bits = e.emit("selp.b32", e.constant("b32", 0), bits, least)
    if finite:
        bits = e.emit("min.u32", bits, e.constant("b32", 0xFE))
    return e.emit("selp.b32", e.constant("b32", 0xFF), bits, is_nan(e, "f32", x))


def _power(e: Emitter, bits: Register) -> Register:
    """Return the bf16 that is 2 to the power of (8 bits of a b32, minus 127)."""
    exponent = e.emit("and.b32", bits, e.constant("b32", 0xFF))
    moved = e.emit("shl.b32", exponent, e.constant("b32", 7))
    small = e.emit("setp.eq.b32", exponent, e.constant("b32", 0))
    nan = e.emit("setp.eq.b32", exponent, e.constant("b32", 0xFF))
    result = e.emit("selp.b32", e.constant("b32", 0x40), moved, small)
    return e.emit("cvt.b16.s32", e.emit("selp.b32", e.constant("b32", NAN["bf16"]), result, nan))


def _from_byte(e: Emitter, bits: Register, source: _Byte) -> Register:
    """Return 8 bits of a b32 as f16, exactly."""
    size = e.emit("and.b32", bits, e.constant("b32", (1 << source.sign) - 1))
    sign = e.emit("and.b32", bits, e.constant("b32", 1 << source.sign))
    sign = e.emit("shl.b32", sign, e.constant("b32", 15 - source.sign))
    moved = e.emit("shl.b32", size, e.constant("b32", 10 - source.mantissa))
    scale = e.constant("b32", 127 + 15 - source.bias << 23)
    wide = e.emit("mul.f32", widen_float(e, "f16", e.emit("cvt.b16.s32", moved), "f32"), scale)
    exact = e.emit("cvt.b32.u16", narrow_float(e, "f32", wide, "f16"))
    signed = e.emit("or.b32", exact, sign)
    if source.sign < 7:
        return e.emit("cvt.b16.s32", signed)
    above = 0x7C if source.mantissa == 2 else _BYTE_NAN - 1
    nan = e.emit("setp.gt.u32", size, e.constant("b32", above))
    return e.emit("cvt.b16.s32", e.emit("selp.b32", e.constant("b32", NAN["f16"]), signed, nan))


def _from_bytes_form(form: Form, source: _Byte) -> Lower:
    """Lower cvt.rn{.relu}.f16x2.e4m3x2."""
    if form.only("relu").rounding != "rn":
        raise UnhandledForm

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        destination, operand = operands
        width = 2 * source.distance
        both = e.emit(f"cvt.b32.u{width}", e.read(operand, f"b{width}"))
        parts = (both, e.emit("shr.u32", both, e.constant("b32", source.distance)))
        low, high = (_from_byte(e, part, source) for part in parts)
        if form.flags:
            low, high = (
                narrow_float(e, "f32", clamp_negative(e, "f32", widen_float(e, "f16", x, "f32")), "f16")
                for x in (low, high)
            )
        e.write_register(destination, join_halves(e, low, high))

    return lower


_PACKED = {"u8": 8, "s8": 8, "u16": 16, "s16": 16}


def _pack_form(form: Form) -> Lower:
    """Lower cvt.pack.sat: two s32 are saturated and packed, a above b; the low bits of c, if given, come above them."""
    to, source, *rest = form.only("pack", "sat").types
    if "sat" not in form.flags or source != "s32" or to not in _PACKED or rest != (["b32"] if BITS[to] == 8 else []):
        raise UnhandledForm
    n = BITS[to]

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        destination, *sources = operands
        a, b, *c = (e.read(operand, "b32") for operand in sources)
        mask, amount = e.constant("b32", (1 << n) - 1), e.constant("b32", n)
        high, low = (e.emit("and.b32", clamp_to_type(e, x, "s32", to), mask) for x in (a, b))
        result = e.emit("or.b32", e.emit("shl.b32", high, amount), low)
        if c:
            result = e.emit("or.b32", e.emit("shl.b32", c[0], e.constant("b32", 16)), result)
        e.write_register(destination, result)

    return lower


# -- mov -------------------------------------------------------------------------------------------------------------
_LENGTHS = {"v2": 2, "v4": 4}


def move_form(form: Form) -> Lower:
    if form.flags == ("b128",) and not form.types:
        return _move_halves
    if form.flags:
        return _vector_move(form, _LENGTHS[form.only(*_LENGTHS).find_flag(*_LENGTHS)])
    n = BITS[form.type]
    row = "p" if n == 1 else f"b{n}"
    type_ = form.type if form.type in ("f32", "f64") else row
    operation = "mov.pred" if n == 1 else f"mov.{row}"

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        destination, source = operands
        if isinstance(source, Vector):
            e.write_register(destination, _pack_vector(e, source, n))
        elif isinstance(destination, Vector):
            _unpack(e, destination, e.read(source, row), n)
        else:
            e.write(destination, operation, e.read(source, type_))

    return lower


def _move_halves(e: Emitter, operands: tuple[Operand, ...]) -> None:
    """Lower mov.b128 between registers of 128 bits and pairs of 64."""
    destination, source = operands
    values = [e.emit("mov.b64", e.read(item, "b64")) for item in e.elements(source, 2)]
    for target, value in zip(e.elements(destination, 2), values, strict=True):
        e.write_register(target, value)


def _vector_move(form: Form, length: int) -> Lower:
    """Lower mov.v4 from a special register such as %tid, or between registers of vector type; all elements are read
    first."""
    row = f"b{BITS[form.type]}"

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        destination, source = operands
        values = [e.emit(f"mov.{row}", e.read(item, row)) for item in e.elements(source, length)]
        for target, value in zip(e.elements(destination, length), values, strict=True):
            e.write_register(target, value)

    return lower


def _pack_vector(e: Emitter, vector: Vector, n: int) -> Register:
    """Return the elements of a vector in one register of n bits, the first one lowest."""
    size = n // len(vector.items)
    result = e.resize(e.read(vector.items[0], f"b{size}"), n)
    for k, item in enumerate(vector.items[1:], 1):
        upper = e.resize(e.read(item, f"b{size}"), n)
        result = e.emit(f"or.b{n}", result, e.emit(f"shl.b{n}", upper, e.constant(f"b{n}", size * k)))
    return result


def _unpack(e: Emitter, vector: Vector, whole: Register, n: int) -> None:
    """Write the parts of a register; all parts are extracted before one is written."""
    size = n // len(vector.items)
    parts = []
    for k, item in enumerate(vector.items):
        if not isinstance(item, Sink):
            moved = e.emit(f"shr.u{n}", whole, e.constant(f"b{n}", size * k)) if k else whole
            parts.append((item, e.emit(f"cvt.b{size}.s{n}", moved)))
    for item, part in parts:
        e.write_register(item, part)


HANDLERS: dict[str, Handler] = {"cvt": lower_by_form(convert_form), "mov": lower_by_form(move_form)}
