"""Forms of PTX instructions, each with what it computes on bit patterns."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import NamedTuple

from tests.unit import ptx_exact as exact
from tests.unit.ptx_exact import FORMATS, NAN, decode, encode, flush, is_nan, signed, value

BITS = {**{f"{k}{n}": n for k in "bus" for n in (8, 16, 32, 64)}, "f16": 16, "bf16": 16, "f32": 32, "f64": 64}
BITS |= {"p": 1, "f16x2": 32, "bf16x2": 32, "u16x2": 32, "s16x2": 32}
MODES = ("rn", "rz", "rm", "rp")


class Form(NamedTuple):
    """`text` with {d}, {a}, {b}, {c} for registers; types of the operands and of the result; the meaning."""

    text: str
    operands: tuple[str, ...]
    result: str
    meaning: Callable[..., int]
    ulps: int = 0
    """by how many units in the last place a result may be off"""

    @property
    def name(self) -> str:
        return self.text.split("\n")[0]


def form(opcode: str, operands: str, result: str, meaning: Callable[..., int], ulps: int = 0) -> Form:
    """An instruction whose operands are registers only."""
    types = tuple(operands.split())
    return Form(
        f"{opcode} {{d}}, " + ", ".join(f"{{{'abc'[k]}}}" for k in range(len(types))) + ";",
        types,
        result,
        meaning,
        ulps,
    )


# -- integers --------------------------------------------------------------------------------------------------------
def _divide(x: int, y: int) -> int:
    return -1 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def _limits(t: str) -> tuple[int, int]:
    n = BITS[t]
    return (-(1 << (n - 1)), (1 << (n - 1)) - 1) if t[0] == "s" else (0, (1 << n) - 1)


def _clamp(x: int, t: str) -> int:
    low, high = _limits(t)
    return max(low, min(x, high))


def _of(t: str, f: Callable[..., int]) -> Callable[..., int]:
    """f on the numbers of type t."""
    return lambda *x: f(*(value(v, t) for v in x))


def integer_forms() -> Iterator[Form]:
    for t in ("u16", "s16", "u32", "s32", "u64", "s64"):
        n = BITS[t]
        two, three = f"{t} {t}", f"{t} {t} {t}"
        yield form(f"add.{t}", two, t, lambda a, b: a + b)
        yield form(f"sub.{t}", two, t, lambda a, b: a - b)
        yield form(f"mul.lo.{t}", two, t, lambda a, b: a * b)
        yield form(f"mul.hi.{t}", two, t, _of(t, lambda a, b, n=n: a * b >> n))
        yield form(f"mad.lo.{t}", three, t, lambda a, b, c: a * b + c)
        yield form(f"mad.hi.{t}", three, t, _of(t, lambda a, b, c, n=n: (a * b >> n) + c))
        yield form(f"div.{t}", two, t, _of(t, _divide))
        yield form(f"rem.{t}", two, t, _of(t, lambda a, b: -1 if b == 0 else a - b * _divide(a, b)))
        yield form(f"min.{t}", two, t, _of(t, min))
        yield form(f"max.{t}", two, t, _of(t, max))
        yield form(f"sad.{t}", three, t, _of(t, lambda a, b, c: abs(a - b) + c))
        if n < 64:
            w = f"{t[0]}{2 * n}"
            yield form(f"mul.wide.{t}", two, w, _of(t, lambda a, b: a * b))
            yield form(f"mad.wide.{t}", f"{t} {t} {w}", w, lambda a, b, c, t=t: value(a, t) * value(b, t) + c)
        if t[0] == "s":
            yield form(f"abs.{t}", t, t, _of(t, abs))
            yield form(f"neg.{t}", t, t, lambda a: -a)
        if n > 16:
            yield form(f"bfind.{t}", t, "u32", _of(t, lambda a: (~a if a < 0 else a).bit_length() - 1))
            yield form(f"bfind.shiftamt.{t}", t, "u32", _of(t, lambda a, n=n: _shift_amount(~a if a < 0 else a, n)))
            yield form(f"bfe.{t}", f"{t} field field", t, lambda a, b, c, t=t: _bfe(a, b & 255, c & 255, t))
    for what, sign in (("add", 1), ("sub", -1)):
        yield form(f"{what}.sat.s32", "s32 s32", "s32", _of("s32", lambda a, b, s=sign: _clamp(a + s * b, "s32")))
    for t in ("u16x2", "s16x2"):
        yield form(f"add.{t}", "b32 b32", "b32", _pair(lambda a, b: a + b))
    for what, f in (("min", min), ("max", max)):
        yield form(f"{what}.s16x2", "b32 b32", "b32", _pair(_of("s16", f)))
        yield form(f"{what}.u16x2", "b32 b32", "b32", _pair(_of("u16", f)))
        yield form(f"{what}.relu.s32", "s32 s32", "s32", _of("s32", lambda a, b, f=f: max(f(a, b), 0)))
    yield form("mad.hi.sat.s32", "s32 s32 s32", "s32", _of("s32", lambda a, b, c: _clamp((a * b >> 32) + c, "s32")))
    for t in ("u32", "s32"):
        s = f"{t[0]}24"
        for part, shift in (("lo", 0), ("hi", 16)):
            yield form(f"mul24.{part}.{t}", f"{t} {t}", t, _of(s, lambda a, b, k=shift: a * b >> k))
            yield form(
                f"mad24.{part}.{t}",
                f"{t} {t} {t}",
                t,
                lambda a, b, c, k=shift, s=s: (value(a, s) * value(b, s) >> k) + c,
            )
    yield form("mad24.hi.sat.s32", "s32 s32 s32", "s32", _saturated_24)
    yield from _bit_forms()
    yield from _carry_forms()


def _saturated_24(a: int, b: int, c: int) -> int:
    return _clamp((signed(a, 24) * signed(b, 24) >> 16) + signed(c, 32), "s32")


def _shift_amount(a: int, n: int) -> int:
    return n - a.bit_length() if a else -1


def _bfe(a: int, position: int, length: int, t: str) -> int:
    n = BITS[t]
    fill = a >> min(position + length - 1, n - 1) & 1 if t[0] == "s" and length else 0
    return sum((a >> (position + k) & 1 if k < length and position + k < n else fill) << k for k in range(n))


def _bfi(a: int, into: int, position: int, length: int, n: int) -> int:
    for k in range(min(length & 255, n)):
        if (position & 255) + k < n:
            into = into & ~(1 << ((position & 255) + k)) | (a >> k & 1) << ((position & 255) + k)
    return into


def _fns(mask: int, base: int, offset: int) -> int:
    base, offset = base & 31, signed(offset, 32)
    if offset == 0:
        return base if mask >> base & 1 else -1
    places = range(base, 32) if offset > 0 else range(base, -1, -1)
    found = [k for k in places if mask >> k & 1]
    return found[abs(offset) - 1] if abs(offset) <= len(found) else -1


def _pair(f: Callable[..., int]) -> Callable[..., int]:
    """f on the low and the high halves."""
    return lambda *x: f(*(v & 0xFFFF for v in x)) & 0xFFFF | (f(*(v >> 16 & 0xFFFF for v in x)) & 0xFFFF) << 16


def _prmt(a: int, b: int, selector: int) -> int:
    both, result = a | b << 32, 0
    for k in range(4):
        nibble = selector >> 4 * k & 15
        byte = both >> 8 * (nibble & 7) & 255
        result |= (255 * (byte >> 7) if nibble & 8 else byte) << 8 * k
    return result


def _prmt_mode(mode: str, c: int) -> int:
    """Which bytes, lowest first, a mode takes for c."""
    k = c & 3
    bytes_ = {
        "f4e": [k, k + 1, k + 2, k + 3],
        "b4e": [k, (k - 1) % 8, (k - 2) % 8, (k - 3) % 8],
        "rc8": [k] * 4,
        "ecl": [max(j, k) for j in range(4)],
        "ecr": [min(j, k) for j in range(4)],
        "rc16": [2 * (k & 1), 2 * (k & 1) + 1] * 2,
    }[mode]
    return sum(byte << 4 * j for j, byte in enumerate(bytes_))


def _amount(b: int, how: str) -> int:
    return b & 31 if how == "wrap" else min(b, 32)


def _dot(parts: int, first: str, second: str, offset: int) -> Callable[..., int]:
    size = 32 // parts
    a_type, b_type = f"{first[0]}{size}", f"{second[0]}8"
    return lambda a, b, c: (
        c + sum(value(a >> size * k, a_type) * value(b >> (offset + 8 * k), b_type) for k in range(parts))
    )


def _bit_forms() -> Iterator[Form]:
    for n in (32, 64):
        t = f"b{n}"
        yield form(f"popc.{t}", t, "u32", lambda a: a.bit_count())
        yield form(f"clz.{t}", t, "u32", lambda a, n=n: n - a.bit_length())
        yield form(f"brev.{t}", t, t, lambda a, n=n: int(f"{a:0{n}b}"[::-1], 2))
        yield Form(
            f"bfi.{t} {{d}}, {{a}}, {{b}}, {{c}}, 7;", (t, t, "field"), t, lambda a, b, c, n=n: _bfi(a, b, c, 7, n)
        )
        yield Form(
            f"bfi.{t} {{d}}, {{a}}, {{b}}, 3, {{c}};", (t, t, "field"), t, lambda a, b, c, n=n: _bfi(a, b, 3, c, n)
        )
    for n in (16, 32, 64):
        t = f"b{n}"
        for what, f in (("and", int.__and__), ("or", int.__or__), ("xor", int.__xor__)):
            yield form(f"{what}.{t}", f"{t} {t}", t, f)
        yield form(f"not.{t}", t, t, lambda a: ~a)
        yield form(f"cnot.{t}", t, t, lambda a: a == 0)
        yield form(f"shl.{t}", f"{t} u32", t, lambda a, b, n=n: a << min(b, n))
        for s in "us":
            yield form(f"shr.{s}{n}", f"{s}{n} u32", t, lambda a, b, t=f"{s}{n}": value(a, t) >> min(b, 64))
        yield form(f"shr.{t}", f"{t} u32", t, lambda a, b: a >> min(b, 64))
        for amount in (0, 5, n - 1, n, 70):
            yield Form(f"shl.{t} {{d}}, {{a}}, {amount};", (t,), t, lambda a, k=amount, n=n: a << min(k, n))
            yield Form(f"shr.s{n} {{d}}, {{a}}, {amount};", (f"s{n}",), t, lambda a, k=amount, n=n: signed(a, n) >> k)
    for how in ("wrap", "clamp"):
        yield form(f"bmsk.{how}.b32", "u32 u32", "b32", lambda a, b, h=how: ((1 << _amount(b, h)) - 1) << _amount(a, h))
        for t in ("u32", "s32"):
            yield form(f"szext.{how}.{t}", f"{t} u32", t, lambda a, b, h=how, t=t: _bfe(a, 0, _amount(b, h), t))
        yield form(
            f"shf.l.{how}.b32", "b32 b32 u32", "b32", lambda a, b, c, h=how: ((b << 32 | a) << _amount(c, h)) >> 32
        )
        yield form(f"shf.r.{how}.b32", "b32 b32 u32", "b32", lambda a, b, c, h=how: (b << 32 | a) >> _amount(c, h))
    yield Form("fns.b32 {d}, {a}, {b}, {c};", ("b32", "place", "count"), "b32", _fns)
    for x, y in itertools.product(("u32", "s32"), repeat=2):
        yield form(f"dp4a.{x}.{y}", "b32 b32 b32", "b32", _dot(4, x, y, 0))
        yield form(f"dp2a.lo.{x}.{y}", "b32 b32 b32", "b32", _dot(2, x, y, 0))
        yield form(f"dp2a.hi.{x}.{y}", "b32 b32 b32", "b32", _dot(2, x, y, 16))
    yield form("prmt.b32", "b32 b32 b32", "b32", _prmt)
    for mode in ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16"):
        yield form(f"prmt.b32.{mode}", "b32 b32 b32", "b32", lambda a, b, c, m=mode: _prmt(a, b, _prmt_mode(m, c)))
    for table in range(256):
        text = f"lop3.b32 {{d}}, {{a}}, {{b}}, {{c}}, {table};"
        yield Form(text, ("b32",) * 3, "b32", lambda a, b, c, t=table: _lookup(t, a, b, c))


def _lookup(table: int, a: int, b: int, c: int) -> int:
    """Bit by bit, the entry 4 a + 2 b + c of the table."""
    places = [4 * (a >> k & 1) + 2 * (b >> k & 1) + (c >> k & 1) for k in range(32)]
    return sum((table >> place & 1) << k for k, place in enumerate(places))


def _carry_forms() -> Iterator[Form]:
    """Chains of two words: low words a and b, then the carry into a sum of constants.  A difference sets the carry
    where nothing is borrowed."""
    for n in (32, 64):
        t, s = f"u{n}", f"s{n}"
        one = 1 << n
        chain = f"add.cc.{t} {{d}}, {{a}}, {{b}};\naddc.{t} {{d}}, {{d}}, {{c}};"
        yield Form(chain, (t,) * 3, t, lambda a, b, c, m=one: a + b + c + (a + b >= m))
        chain = f"add.cc.{s} {{d}}, {{a}}, {{b}};\naddc.cc.{t} {{d}}, {{a}}, {{c}};\naddc.{t} {{d}}, 0, 0;"
        yield Form(chain, (t,) * 3, t, lambda a, b, c, m=one: a + c + (a + b >= m) >= m)
        chain = f"sub.cc.{t} {{d}}, {{a}}, {{b}};\nsubc.{t} {{d}}, {{d}}, {{c}};"
        yield Form(chain, (t,) * 3, t, lambda a, b, c: a - b - c - (a < b))
        chain = f"sub.cc.{t} {{d}}, {{a}}, {{b}};\nsubc.cc.{t} {{d}}, {{a}}, {{c}};\nsubc.{t} {{d}}, 0, 0;"
        yield Form(chain, (t,) * 3, t, lambda a, b, c: -(a - c - (a < b) < 0))
        chain = f"sub.cc.{t} {{d}}, {{a}}, {{b}};\naddc.{t} {{d}}, {{c}}, 0;"
        yield Form(chain, (t,) * 3, t, lambda a, b, c: c + (a >= b))
        chain = f"add.cc.{t} {{d}}, {{a}}, {{b}};\nsubc.{t} {{d}}, {{c}}, 0;"
        yield Form(chain, (t,) * 3, t, lambda a, b, c, m=one: c - (a + b < m))
        for part in ("lo", "hi"):
            chain = f"mad.{part}.cc.{t} {{d}}, {{a}}, {{b}}, {{c}};\nmadc.{part}.{s} {{d}}, {{a}}, {{b}}, {{c}};"
            yield Form(chain, (t,) * 3, t, lambda a, b, c, n=n, p=part: _mad_chain(a, b, c, n, p))


def _mad_chain(a: int, b: int, c: int, n: int, part: str) -> int:
    first = (a * b >> (n if part == "hi" else 0)) & ((1 << n) - 1)
    second = signed(a, n) * signed(b, n) >> (n if part == "hi" else 0)
    return second + c + (first + c >= 1 << n)


# -- floating point --------------------------------------------------------------------------------------------------
def _ftz(t: str, f: Callable[..., int]) -> Callable[..., int]:
    return lambda *x: flush(f(*(flush(v, t) for v in x)), t)


def _floats(t: str, f: Callable[..., int]) -> Callable[..., int]:
    return lambda *x: f(*(decode(v, t) for v in x))


def _arithmetic(t: str, mode: str) -> dict[str, tuple[int, Callable[..., int]]]:
    """opcode -> (operands, meaning)"""
    return {
        "add": (2, _floats(t, lambda a, b: exact.fma(a, 1.0, b, t, mode))),
        "sub": (2, _floats(t, lambda a, b: exact.fma(a, 1.0, -b, t, mode))),
        "mul": (2, _floats(t, lambda a, b: exact.product(a, b, t, mode))),
        "fma": (3, _floats(t, lambda a, b, c: exact.fma(a, b, c, t, mode))),
        "div": (2, _floats(t, lambda a, b: exact.quotient(a, b, t, mode))),
        "rcp": (1, _floats(t, lambda a: exact.quotient(1.0, a, t, mode))),
        "sqrt": (1, _floats(t, lambda a: exact.root(a, t, mode))),
    }


def _spread(t: str, count: int) -> str:
    return " ".join([t] * count)


def float_forms() -> Iterator[Form]:
    for t, mode in itertools.product(("f32", "f64"), MODES):
        for what, (count, f) in _arithmetic(t, mode).items():
            yield form(f"{what}.{mode}.{t}", _spread(t, count), t, f)
            if t == "f32":
                yield form(f"{what}.{mode}.ftz.f32", _spread(t, count), t, _ftz(t, f))
                if what in ("add", "sub", "mul", "fma"):
                    yield form(
                        f"{what}.{mode}.sat.f32", _spread(t, count), t, lambda *x, f=f: exact.saturate(f(*x), "f32")
                    )
    for t in ("f16", "bf16"):
        for what in ("add", "sub", "mul", "fma"):
            count, f = _arithmetic(t, "rn")[what]
            rn = "" if what != "fma" else ".rn"
            yield form(f"{what}{rn}.{t}", _spread(t, count), t, f)
            yield form(f"{what}{rn}.{t}x2", _spread("b32", count), "b32", _pair(f))
            if t == "f16":
                yield form(f"{what}{rn}.ftz.f16", _spread(t, count), t, _ftz(t, f))
                yield form(f"{what}{rn}.sat.f16", _spread(t, count), t, lambda *x, f=f: exact.saturate(f(*x), "f16"))
            if what == "fma":
                yield form(f"fma.rn.relu.{t}", _spread(t, 3), t, lambda *x, f=f, t=t: _relu(f(*x), t))
    for t in ("f16", "bf16", "f32", "f64"):
        for what in ("min", "max"):
            f = lambda a, b, w=what, t=t: exact.extreme(w, a, b, t)  # noqa: E731
            yield form(f"{what}.{t}", f"{t} {t}", t, f)
            if t != "f64":
                yield form(
                    f"{what}.NaN.{t}",
                    f"{t} {t}",
                    t,
                    lambda a, b, f=f, t=t: NAN[t] if is_nan(a, t) or is_nan(b, t) else f(a, b),
                )
                yield form(f"{what}.xorsign.abs.{t}", f"{t} {t}", t, lambda a, b, f=f, t=t: _xorsign(f, a, b, t))
            if t in ("f16", "bf16"):
                yield form(f"{what}.{t}x2", "b32 b32", "b32", _pair(f))
        sign = FORMATS[t].sign
        yield form(f"neg.{t}", t, t, lambda a, s=sign, t=t: NAN[t] if is_nan(a, t) else a ^ s)
        yield form(f"abs.{t}", t, t, lambda a, s=sign, t=t: NAN[t] if is_nan(a, t) else a & ~s)
    for t in ("f32", "f64"):
        sign = FORMATS[t].sign
        yield form(f"copysign.{t}", f"{t} {t}", t, lambda a, b, s=sign: b & ~s | a & s)
        yield from _class_forms(t)
    yield from _approximations()


def _relu(x: int, t: str) -> int:
    return x if is_nan(x, t) or not x & FORMATS[t].sign else 0


def _xorsign(f: Callable[..., int], a: int, b: int, t: str) -> int:
    s = FORMATS[t].sign
    r = f(a & ~s, b & ~s)
    return r if is_nan(r, t) else r | (a ^ b) & s


def _class_forms(t: str) -> Iterator[Form]:
    f = FORMATS[t]
    one = 1 << (f.precision - 1)
    classes: dict[str, Callable[[int], bool]] = {
        "finite": lambda m: m < f.infinity,
        "infinite": lambda m: m == f.infinity,
        "number": lambda m: m <= f.infinity,
        "notanumber": lambda m: m > f.infinity,
        "normal": lambda m: m == 0 or one <= m < f.infinity,
        "subnormal": lambda m: 0 < m < one,
    }
    for what, holds in classes.items():
        yield form(f"testp.{what}.{t}", t, "p", lambda a, h=holds: h(a & ~f.sign))


def _guarded(f: Callable[[float], float], a: float) -> float:
    try:
        return f(a)
    except OverflowError:
        return math.inf
    except ValueError:
        return -math.inf if a == 0 else math.nan


FUNCTIONS: dict[str, Callable[[float], float]] = {
    "sin": math.sin,
    "cos": math.cos,
    "lg2": math.log2,
    "ex2": lambda a: 2.0**a,
    "tanh": math.tanh,
    "rsqrt": lambda a: math.copysign(math.inf, a) if a == 0 else 0.0 if a == math.inf else 1 / math.sqrt(a),
    "sqrt": math.sqrt,
    "rcp": lambda a: math.copysign(math.inf, a) if a == 0 else 1 / a,
}


def _approximations() -> Iterator[Form]:
    for what, f in FUNCTIONS.items():

        def meaning(a: int, f: Callable[[float], float] = f) -> int:
            v = decode(a, "f32")
            r = _guarded(f, v)
            return encode(r, "f32", zero=r)

        yield form(f"{what}.approx.f32", "f32", "f32", meaning, 1)
        if what != "tanh":
            yield form(f"{what}.approx.ftz.f32", "f32", "f32", _ftz("f32", meaning), 1)
    whole = _floats("f32", lambda a, b: exact.quotient(a, b, "f32", "rn"))
    quotients: dict[str, Callable[..., int]] = {"full": whole, "approx": lambda a, b: _fast_quotient(a, b, whole)}
    for what, quotient in quotients.items():
        yield form(f"div.{what}.f32", "f32 f32", "f32", quotient)
        yield form(f"div.{what}.ftz.f32", "f32 f32", "f32", _ftz("f32", quotient))


def _fast_quotient(a: int, b: int, f: Callable[..., int]) -> int:
    size = b & 0x7FFFFFFF
    if not 0x7E800000 < size < 0x7F800000:
        return f(a, b)
    return NAN["f32"] if a & 0x7FFFFFFF >= 0x7F800000 else (a ^ b) & 0x80000000


# -- comparisons -----------------------------------------------------------------------------------------------------
RELATIONS: dict[str, Callable[[float, float], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
COMBINE: dict[str, Callable[[int, int], int]] = {"and": int.__and__, "or": int.__or__, "xor": int.__xor__}


Relation = Callable[[int, int], bool]


def _on_numbers(f: Callable[[float, float], bool], t: str) -> Relation:
    return lambda a, b: f(value(a, t), value(b, t))


def _ordered(f: Callable[[float, float], bool], t: str, unordered: bool) -> Relation:
    """f on floats; `unordered` is what a nan gives."""
    return lambda a, b: unordered if is_nan(a, t) or is_nan(b, t) else f(decode(a, t), decode(b, t))


def _relations(t: str) -> dict[str, Relation]:
    """relation -> meaning, for one type"""
    if t[0] != "f" and t != "bf16":
        rows = {r: _on_numbers(f, t) for r, f in RELATIONS.items() if t[0] != "b" or r in ("eq", "ne")}
        if t[0] == "u":
            rows |= {new: rows[old] for new, old in (("lo", "lt"), ("ls", "le"), ("hi", "gt"), ("hs", "ge"))}
        return rows
    rows = {"nan": lambda a, b: is_nan(a, t) or is_nan(b, t), "num": lambda a, b: not is_nan(a, t) and not is_nan(b, t)}
    for r, f in RELATIONS.items():
        rows |= {r: _ordered(f, t, False), f"{r}u": _ordered(f, t, True)}
    return rows


def comparison_forms() -> Iterator[Form]:
    for t in ("b16", "b32", "b64", "u16", "s16", "u32", "s32", "u64", "s64", "f16", "bf16", "f32", "f64"):
        for r, f in _relations(t).items():
            yield form(f"setp.{r}.{t}", f"{t} {t}", "p", f)
            if t in ("u32", "s32", "f32", "f64"):
                yield form(f"set.{r}.u32.{t}", f"{t} {t}", "u32", lambda a, b, f=f: -f(a, b))
                yield form(f"set.{r}.f32.{t}", f"{t} {t}", "f32", lambda a, b, f=f: 0x3F800000 * f(a, b))
            if t == "f32":
                yield form(f"setp.{r}.ftz.f32", f"{t} {t}", "p", lambda a, b, f=f: f(flush(a, "f32"), flush(b, "f32")))
    for (op, g), t in itertools.product(COMBINE.items(), ("s32", "f64")):
        less = _relations(t)["lt"]
        both = f"setp.lt.{op}.{t} p|q, {{a}}, {{b}}, {{c}};\nselp.u32 {{d}}, 1, 0, p;\n@q add.u32 {{d}}, {{d}}, 2;"
        yield Form(
            both, (t, t, "p"), "u32", lambda a, b, c, g=g, f=less: g(int(f(a, b)), c) + 2 * g(int(not f(a, b)), c)
        )
        both = f"setp.lt.{op}.{t} p, {{a}}, {{b}}, !{{c}};\nselp.u32 {{d}}, 1, 0, p;"
        yield Form(both, (t, t, "p"), "u32", lambda a, b, c, g=g, f=less: g(int(f(a, b)), 1 - c))
    for n in (16, 32, 64):
        yield form(f"selp.b{n}", f"b{n} b{n} p", f"b{n}", lambda a, b, c: a if c else b)
        yield form(f"slct.u{n}.s32", f"u{n} u{n} s32", f"u{n}", lambda a, b, c: b if c >> 31 else a)
        yield form(f"slct.s{n}.f32", f"s{n} s{n} f32", f"s{n}", lambda a, b, c: a if decode(c, "f32") >= 0 else b)
    for op, g in COMBINE.items():
        yield form(f"{op}.pred", "p p", "p", g)
    yield form("not.pred", "p", "p", lambda a: 1 - a)


# -- conversions -----------------------------------------------------------------------------------------------------
INTEGERS = tuple(f"{s}{n}" for s in "us" for n in (8, 16, 32, 64))


def conversion_forms() -> Iterator[Form]:
    for to, source in itertools.product(INTEGERS, repeat=2):
        result = f"{to}>b32" if BITS[to] == 8 else to  # the register of an 8-bit result is wider: extended as its type
        yield form(f"cvt.{to}.{source}", source, result, lambda a, t=to, s=source: value(value(a, s), t))
        if any(_clamp(limit, to) != limit for limit in _limits(source)):
            yield form(f"cvt.sat.{to}.{source}", source, result, lambda a, t=to, s=source: _clamp(value(a, s), t))
    for to, source, r in itertools.product(INTEGERS, ("f16", "f32", "f64"), ("rni", "rzi", "rmi", "rpi")):
        if BITS[to] > 8:
            yield form(
                f"cvt.{r}.{to}.{source}",
                source,
                to,
                lambda a, t=to, s=source, r=r: exact.to_integer(decode(a, s), t, r, s),
            )
    yield form(
        "cvt.rpi.ftz.s32.f32",
        "f32",
        "s32",
        lambda a: exact.to_integer(decode(flush(a, "f32"), "f32"), "s32", "rpi", "f32"),
    )
    for to, source, r in itertools.product(("f16", "f32", "f64"), INTEGERS, MODES):
        yield form(
            f"cvt.{r}.{to}.{source}", source, to, lambda a, t=to, s=source, r=r: encode(Fraction(value(a, s)), t, r)
        )
    for source in ("u16", "s32", "u64", "s64"):
        yield form(f"cvt.rn.bf16.{source}", source, "bf16", lambda a, s=source: encode(Fraction(value(a, s)), "bf16"))
    yield from _float_conversions()


def _round(a: int, source: str, to: str, mode: str) -> int:
    """A nan of f64 keeps its sign and the bits that fit, and becomes quiet; f16 keeps the sign, bf16 becomes f32."""
    v = decode(a, source)
    if source == "bf16":
        return a << 16
    if source == "f64" and math.isnan(v):
        single = a >> 63 << 31 | 0x7FC00000 | a >> 29 & 0x3FFFFF
        return {"f32": single, "bf16": single >> 16, "f16": a >> 63 << 15 | 0x7E00}[to]
    return encode(v, to, mode, v)


def _float_conversions() -> Iterator[Form]:
    for to, source in (("f32", "f64"), ("f16", "f32"), ("f16", "f64")):
        for r in MODES:
            yield form(f"cvt.{r}.{to}.{source}", source, to, lambda a, t=to, s=source, r=r: _round(a, s, t, r))
            if to == "f32":
                yield form(f"cvt.{r}.ftz.f32.f64", source, to, lambda a, r=r: flush(_round(a, "f64", "f32", r), "f32"))
    for to, source in (("f64", "f32"), ("f32", "f16"), ("f64", "f16"), ("f32", "bf16")):
        yield form(f"cvt.{to}.{source}", source, to, lambda a, t=to, s=source: _round(a, s, t, "rn"))
    for r in ("rn", "rz"):
        yield form(f"cvt.{r}.bf16.f32", "f32", "bf16", lambda a, r=r: _round(a, "f32", "bf16", r))
        yield form(f"cvt.{r}.relu.f16.f32", "f32", "f16", lambda a, r=r: _relu(_round(a, "f32", "f16", r), "f16"))
        for t in ("f16", "bf16"):
            yield form(
                f"cvt.{r}.{t}x2.f32",
                "f32 f32",
                "b32",
                lambda a, b, r=r, t=t: _round(a, "f32", t, r) << 16 | _round(b, "f32", t, r),
            )
    for r in ("rm", "rp"):
        yield form(f"cvt.{r}.bf16.f32", "f32", "bf16", lambda a, r=r: _round(a, "f32", "bf16", r))
        yield form(f"cvt.{r}.bf16.f64", "f64", "bf16", lambda a, r=r: _round(a, "f64", "bf16", r))
        for s in ("s32", "u64"):
            yield form(f"cvt.{r}.bf16.{s}", s, "bf16", lambda a, r=r, s=s: encode(Fraction(value(a, s)), "bf16", r))
    yield form("cvt.rn.bf16.f64", "f64", "bf16", lambda a: _round(a, "f64", "bf16", "rn"))
    yield form("cvt.sat.f32.f32", "f32", "f32", lambda a: exact.saturate(a, "f32"))
    yield form("cvt.rn.sat.f32.f64", "f64", "f32", lambda a: exact.saturate(_round(a, "f64", "f32", "rn"), "f32"))
    yield form("cvt.ftz.f32.f32", "f32", "f32", lambda a: NAN["f32"] if is_nan(a, "f32") else flush(a, "f32"))
    yield form("cvt.rna.tf32.f32", "f32", "b32", _tf32)
    for t, r in itertools.product(("f16", "f32", "f64"), ("rni", "rzi", "rmi", "rpi")):
        yield form(f"cvt.{r}.{t}.{t}", t, t, lambda a, t=t, r=r: _integral(a, t, r))
    for to in ("u8", "s8"):
        yield form(
            f"cvt.pack.sat.{to}.s32.b32",
            "s32 s32 b32",
            "b32",
            lambda a, b, c, t=to: c << 16 | (_clamp(signed(a, 32), t) & 255) << 8 | _clamp(signed(b, 32), t) & 255,
        )
    for to in ("u16", "s16"):
        yield form(
            f"cvt.pack.sat.{to}.s32",
            "s32 s32",
            "b32",
            lambda a, b, t=to: (_clamp(signed(a, 32), t) & 0xFFFF) << 16 | _clamp(signed(b, 32), t) & 0xFFFF,
        )
    yield Form("mov.b64 {{lo, hi}}, {a};\nmov.b64 {d}, {{hi, lo}};", ("b64",), "b64", lambda a: a >> 32 | a << 32)
    yield Form("mov.b32 {{h0, h1}}, {a};\nmov.b32 {d}, {{h1, h0}};", ("b32",), "b32", lambda a: a >> 16 | a << 16)
    yield Form(
        "mov.b64 {{h0, h1, _, h2}}, {a};\nmov.b64 {d}, {{h2, h0, h0, h1}};",
        ("b64",),
        "b64",
        lambda a: a >> 48 | (a & 0xFFFF) << 16 | (a & 0xFFFF) << 32 | (a >> 16 & 0xFFFF) << 48,
    )


def _integral(a: int, t: str, rounding: str) -> int:
    v = exact.integral(decode(a, t), rounding)
    return encode(v, t, zero=v)


def _tf32(a: int) -> int:
    """Infinities and nans lose the bits that do not fit."""
    return (a if a & 0x7F800000 == 0x7F800000 else a + 0x1000) & 0xFFFFE000


# -- parts of a register ---------------------------------------------------------------------------------------------
_VIDEO: dict[str, Callable[[int, int], int]] = {
    "vadd": lambda a, b: a + b,
    "vsub": lambda a, b: a - b,
    "vmin": min,
    "vmax": max,
    "vabsdiff": lambda a, b: abs(a - b),
}
_SECOND = {"add": operator.add, "min": min, "max": max}
_FIELDS = {"": (0, 32), ".b0": (0, 8), ".b2": (16, 8), ".b3": (24, 8), ".h0": (0, 16), ".h1": (16, 16)}
"""what an operand selects -> its lowest bit, and how many"""


def video_forms() -> Iterator[Form]:
    three = "b32 b32 b32"
    for count, to, source in itertools.product((2, 4), ("u32", "s32"), ("u32", "s32")):
        for what, f in {**_VIDEO, "vavrg": _average}.items():
            name = f"{what}{count}.{to}.{source}.{source}"
            part, result = f"{source[0]}{32 // count}", f"{to[0]}{32 // count}"
            yield form(name, three, "b32", lambda a, b, c, f=f, p=part: _side_by_side(_parts(f, a, b, p)))
            yield form(
                f"{name}.sat", three, "b32",
                lambda a, b, c, f=f, p=part, r=result: _side_by_side([_clamp(x, r) for x in _parts(f, a, b, p)]),
            )  # fmt: skip
            yield form(f"{name}.add", three, "b32", lambda a, b, c, f=f, p=part: c + sum(_parts(f, a, b, p)))
    for count, source, (r, holds) in itertools.product((2, 4), ("u32", "s32"), RELATIONS.items()):
        name, part = f"vset{count}.{source}.{source}.{r}", f"{source[0]}{32 // count}"
        f = holds
        yield form(name, "b32 b32 b32", "b32", lambda a, b, c, f=f, p=part: _side_by_side(_parts(f, a, b, p)))
        yield form(f"{name}.add", "b32 b32 b32", "b32", lambda a, b, c, f=f, p=part: c + sum(_parts(f, a, b, p)))
    yield from _selecting_forms()
    yield from _one_number_forms()


def _average(a: int, b: int) -> int:
    return a + b + (a + b >= 0) >> 1


def _chosen(a: int, b: int, digits: str, n: int) -> list[int]:
    """The parts of n bits that digits name, in a or above it in b, the lowest first."""
    return [(b << 32 | a) >> n * int(digit) & ((1 << n) - 1) for digit in reversed(digits)]


def _selecting_forms() -> Iterator[Form]:
    """Parts in another order, of either operand, of which only some are replaced or added."""
    three = ("b32", "b32", "b32")
    for n, mask, of_a, of_b in (
        (8, "20", "7041", "3333"),
        (8, "3", "0123", "4567"),
        (16, "1", "01", "32"),
        (16, "0", "30", "22"),
    ):
        kind, count = ("b", 4) if n == 8 else ("h", 2)
        name = f"{{d}}.{kind}{mask}, {{a}}.{kind}{of_a}, {{b}}.{kind}{of_b}, {{c}};"
        places = [int(digit) for digit in mask]

        def put(a: int, b: int, c: int, n: int = n, x: str = of_a, y: str = of_b, k: list[int] = places) -> int:
            for place in k:
                one, other = signed(_chosen(a, b, x, n)[place], n), _chosen(a, b, y, n)[place]
                c = c & ~(((1 << n) - 1) << n * place) | (one - other & ((1 << n) - 1)) << n * place
            return c

        def added(a: int, b: int, c: int, n: int = n, x: str = of_a, y: str = of_b, k: list[int] = places) -> int:
            return c + sum(abs(_chosen(a, b, x, n)[place] - _chosen(a, b, y, n)[place]) for place in k)

        yield Form(f"vsub{count}.u32.s32.u32 {name}", three, "b32", put)
        yield Form(f"vabsdiff{count}.u32.u32.u32.add {name}", three, "b32", added)


def _field(number: int, selector: str, t: str) -> int:
    at, n = _FIELDS[selector]
    part = number >> at & ((1 << n) - 1)
    return signed(part, n) if t[0] == "s" else part


def _one_number(f: Callable[[int, int], int], types: tuple[str, str], parts: tuple[str, str]) -> Callable[..., int]:
    return lambda a, b: f(_field(a, parts[0], types[0]), _field(b, parts[1], types[1]))


def _one_number_forms() -> Iterator[Form]:
    for what, f in _VIDEO.items():
        for to, x, y in itertools.product(("u32", "s32"), repeat=3):
            for parts in (("", ""), (".b2", ".h1"), (".h0", "")):
                yield from _of_one_number(what, f"{what}.{to}.{x}.{y}", to, _one_number(f, (x, y), parts), parts)
    for what, f in (("vshl", operator.lshift), ("vshr", operator.rshift)):
        for to, x, mode in itertools.product(("u32", "s32"), ("u32", "s32"), ("clamp", "wrap")):

            def shifted(a: int, b: int, f: Callable[[int, int], int] = f, mode: str = mode) -> int:
                return f(a, min(b, 32) if mode == "clamp" else b & 31)

            for parts in (("", ""), (".b3", ".b0")):
                first = _one_number(shifted, (x, "u32"), parts)
                yield from _of_one_number(what, f"{what}.{to}.{x}.u32.{mode}", to, first, parts)
    for x, y, (r, holds) in itertools.product(("u32", "s32"), ("u32", "s32"), RELATIONS.items()):
        first = _one_number(holds, (x, y), (".b0", ""))
        yield from _of_one_number("vset", f"vset.{x}.{y}.{r}", "u32", first, (".b0", ""))
    for x, y, parts in itertools.product(("u32", "s32"), ("u32", "s32"), (("", ""), (".h1", ".b2"))):
        to, product = "s32" if "s32" in (x, y) else "u32", _one_number(operator.mul, (x, y), parts)
        a, b = (f"{{{name}}}{part}" for name, part in zip("ab", parts, strict=True))
        three = ("b32", "b32", "b32")
        yield Form(f"vmad.{to}.{x}.{y} {{d}}, {a}, {b}, {{c}};", three, "b32", lambda a, b, c, f=product: f(a, b) + c)
        yield Form(
            f"vmad.{to}.{x}.{y}.po {{d}}, {a}, {b}, {{c}};", three, "b32", lambda a, b, c, f=product: f(a, b) + c + 1
        )
        yield Form(f"vmad.s32.{x}.{y} {{d}}, -{a}, {b}, {{c}};", three, "b32", lambda a, b, c, f=product: c - f(a, b))
        yield Form(f"vmad.s32.{x}.{y} {{d}}, {a}, {b}, -{{c}};", three, "b32", lambda a, b, c, f=product: f(a, b) - c)


def _of_one_number(
    what: str, name: str, to: str, first: Callable[[int, int], int], parts: tuple[str, str]
) -> Iterator[Form]:
    """Those that are modelled: alone, combined with a third number, in place of a part of it, clamped."""
    a, b = (f"{{{name}}}{part}" for name, part in zip("ab", parts, strict=True))
    two, three = ("b32", "b32"), ("b32", "b32", "b32")

    def clamped(a: int, b: int) -> int:
        return _clamp(first(a, b), to)

    yield Form(f"{name} {{d}}, {a}, {b};", two, "b32", first)
    yield Form(f"{name}.add {{d}}, {a}, {b}, {{c}};", three, "b32", lambda a, b, c: first(a, b) + c)
    for part, (at, n) in _FIELDS.items():
        if part not in ("", ".h1"):
            mask = (1 << n) - 1
            yield Form(
                f"{name} {{d}}{part}, {a}, {b}, {{c}};", three, "b32",
                lambda a, b, c, at=at, mask=mask: c & ~(mask << at) | (first(a, b) & mask) << at,
            )  # fmt: skip
    if what in ("vmin", "vmax", "vshr") or (what in ("vadd", "vsub") and to == "s32"):
        yield Form(f"{name}.sat {{d}}, {a}, {b};", two, "b32", clamped)
        yield Form(f"{name}.sat.add {{d}}, {a}, {b}, {{c}};", three, "b32", lambda a, b, c: clamped(a, b) + c)
    if what in ("vmin", "vmax"):
        yield Form(
            f"{name}.sat.max {{d}}, {a}, {b}, {{c}};", three, "b32", lambda a, b, c: max(clamped(a, b), value(c, to))
        )
    if what == "vabsdiff":
        yield Form(f"{name}.min {{d}}, {a}, {b}, {{c}};", three, "b32", lambda a, b, c: min(first(a, b), value(c, to)))


def _parts(f: Callable[[int, int], int], a: int, b: int, t: str) -> list[int]:
    n = BITS[t]
    return [int(f(value(a >> k, t), value(b >> k, t))) for k in range(0, 32, n)]


def _side_by_side(parts: list[int]) -> int:
    n = 32 // len(parts)
    return sum((x & ((1 << n) - 1)) << n * k for k, x in enumerate(parts))


ALL: list[Form] = [*video_forms(), *integer_forms(), *float_forms(), *comparison_forms(), *conversion_forms()]
