"""Floating-point arithmetic of .f16, .bf16, .f32 and .f64 (PTX ISA 9.7.3, 9.7.4).

Approximate instructions (`.approx`) return the result of the host's mathematical library, which is within the error
bound of the PTX ISA.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.frontend.assemble.compound import COMPOUND
from wsemu.frontend.ptx.expand import change_sign, odd_fma
from wsemu.frontend.ptx.floats import (
    INFINITY,
    LEAST_NORMAL,
    NAN,
    ONE,
    ROW,
    SIGN,
    clamp_negative,
    flush_subnormal,
    is_nan,
    narrow_float,
    number,
    saturate,
    widen_float,
)
from wsemu.frontend.ptx.forms import PAIRS, UnhandledForm, both_words, lower_by_form, lower_formula, pairwise, plain
from wsemu.frontend.ptx.steps import RESULT

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.frontend.assemble.graph import Register
    from wsemu.frontend.ptx.emit import Emitter, Handler
    from wsemu.frontend.ptx.forms import Form, Lower

    Formula = Callable[..., Register]
    """(e, type, rounding, *operands) -> result, for f32 and f64"""


# -- formulas for f32 and f64 ----------------------------------------------------------------------------------------
def _add(e: Emitter, t: str, r: str, a: Register, b: Register) -> Register:
    return e.emit(f"add.{t}", a, b) if r == "rn" else e.emit(f"fma.{r}.{t}", a, number(e, t, ONE[t]), b)


def _sub(e: Emitter, t: str, r: str, a: Register, b: Register) -> Register:
    if r == "rn":
        return e.emit(f"sub.{t}", a, b)
    return e.emit(f"fma.{r}.{t}", b, number(e, t, ONE[t] | SIGN[t]), a)


def _mul(e: Emitter, t: str, r: str, a: Register, b: Register) -> Register:
    """Multiply by fma with a zero; its sign, which depends on the rounding, preserves the sign of a zero product."""
    if r == "rn":
        return e.emit(f"mul.{t}", a, b)
    return e.emit(f"fma.{r}.{t}", a, b, number(e, t, 0 if r == "rm" else SIGN[t]))


def _rounded_formula(what: str) -> Formula:
    def formula(e: Emitter, t: str, r: str, *x: Register) -> Register:
        return e.emit(f"{what}.{t}" if r == "rn" else f"{what}.{r}.{t}", *x)

    return formula


def _reciprocal(e: Emitter, t: str, r: str, a: Register) -> Register:
    return e.emit(f"rcp.{t}", a) if r == "rn" else e.emit(f"div.{r}.{t}", number(e, t, ONE[t]), a)


ROUNDED: dict[str, Formula] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "fma": _rounded_formula("fma"),
    "div": _rounded_formula("div"),
    "sqrt": _rounded_formula("sqrt"),
    "rcp": _reciprocal,
}
COUNT = {"fma": 3, "sqrt": 1, "rcp": 1}
"""number of operands of instructions that do not have two"""


def single(t: str, form: Form, count: int, formula: Callable[..., Register]) -> Lower:
    """Return the lowering of an instruction on f32 or f64, with `.ftz` and `.sat`."""
    ftz, sat, relu = (flag in form.flags for flag in ("ftz", "sat", "relu"))
    if t == "f64" and (ftz or sat or relu):
        raise UnhandledForm

    def full(e: Emitter, *x: Register) -> Register:
        if ftz:
            x = tuple([e.emit("ftz.f32", v) for v in x])
        result = formula(e, *x)
        if ftz:
            result = e.emit("ftz.f32", result)
        return saturate(e, t, result) if sat else result

    return lower_formula((t,) * count, full)


def half(t: str, form: Form, count: int, formula: Callable[..., Register], wide: str = "f32") -> Lower:
    """Return the lowering of an instruction on f16, bf16 or pairs: it computes in the type `wide`, then rounds."""
    type_ = PAIRS.get(t, t)
    ftz, sat, relu = (flag in form.flags for flag in ("ftz", "sat", "relu"))

    def full(e: Emitter, *x: Register) -> Register:
        if ftz:
            x = tuple([flush_subnormal(e, type_, v) for v in x])
        result = formula(e, *[widen_float(e, type_, v, wide) for v in x])
        if sat:
            result = saturate(e, wide, result)
        if relu:
            result = clamp_negative(e, wide, result)
        short = narrow_float(e, wide, result, type_)
        if wide == "f64":  # the conversion from f64 keeps the sign of a nan: replace it by the canonical nan
            short = e.emit("selp.b16", number(e, type_, NAN[type_]), short, is_nan(e, wide, result))
        return flush_subnormal(e, type_, short) if ftz else short

    if t in PAIRS:
        return lower_formula(("b32",) * count, pairwise(full))
    return lower_formula(("b16",) * count, full)


_CONTRACTED = frozenset({"add", "sub", "mul"})


def _contractible(what: str, form: Form) -> Lower:
    """Return the lowering of a product or sum as one operation, which can still be contracted to an fma; `.sat` is a
    separate step."""
    t = form.type
    operation = f"{what}.{'ftz.' if 'ftz' in form.flags else ''}{t}"
    type_ = PAIRS.get(t, t)
    wide = "f64" if t == "f64" else "f32"

    def saturate_result(e: Emitter, x: Register) -> Register:
        return narrow_float(e, wide, saturate(e, wide, widen_float(e, type_, x, wide)), type_)

    if "sat" not in form.flags:
        return plain(operation)
    whole = pairwise(saturate_result) if t in PAIRS else saturate_result
    return lower_formula((RESULT[operation],) * 2, lambda e, a, b: whole(e, e.emit(operation, a, b)))


def rounded_form(what: str) -> Callable[[Form], Lower]:
    """Return the lowering of add, sub, mul and fma, and of div, sqrt and rcp with a rounding mode."""
    count, formula = COUNT.get(what, 2), ROUNDED[what]

    def choose(form: Form) -> Lower:
        t, r = form.type, form.rounding or "rn"
        if t in ("f32", "f64"):
            if r == "rn" and not form.flags:
                return plain(f"{what}.{t}")
            form.only("ftz", "sat")
            if what in _CONTRACTED and not form.rounding:
                return _contractible(what, form)
            return single(t, form, count, lambda e, *x: formula(e, t, r, *x))
        if t == "f32x2":
            return _words_form(what, form, count)
        form.only("ftz", "sat", "relu")
        if r != "rn" or what not in ("add", "sub", "mul", "fma"):
            raise UnhandledForm
        if what in _CONTRACTED and not form.rounding and "relu" not in form.flags:
            return _contractible(what, form)
        if what != "fma":
            return half(t, form, count, lambda e, *x: formula(e, "f32", "rn", *x))
        if t in ("bf16", "bf16x2"):
            return half(t, form, count, odd_fma)
        # one rounding, as in hardware: the f64 result is exact, or the smaller summand is too small to affect an f16
        return half(t, form, count, lambda e, *x: e.emit("fma.f64", *x), "f64")

    return choose


def _words_form(what: str, form: Form, count: int) -> Lower:
    """Return the lowering of add, sub, mul and fma on pairs of f32; without a rounding mode they may be contracted."""
    ftz, formula = bool(form.only("ftz").flags), ROUNDED[what]
    if what not in ("add", "sub", "mul", "fma") or (what == "fma" and not form.rounding):
        raise UnhandledForm
    if not form.rounding:
        return plain(f"{what}.{'ftz.' if ftz else ''}f32x2")

    def one(e: Emitter, *x: Register) -> Register:
        values = [e.emit("ftz.f32", v) for v in x] if ftz else x
        result = formula(e, "f32", form.rounding, *values)
        return e.emit("ftz.f32", result) if ftz else result

    return lower_formula(("b64",) * count, both_words(one))


# -- approximations --------------------------------------------------------------------------------------------------
FUNCTIONS = {
    "sin": "sin",
    "cos": "cos",
    "lg2": "log2",
    "ex2": "exp2",
    "tanh": "tanh",
    "rsqrt": "rsqrt",
    "sqrt": "sqrt",
    "rcp": "rcp",
}
"""table: instruction -> its operation"""
_UPPER = 0xFFFFFFFF00000000


def _approximate_form(operation: str) -> Lower:
    """Return the lowering of rcp and rsqrt with `.approx.ftz.f64`, which use only the upper halves of their
    operands."""

    def formula(e: Emitter, a: Register) -> Register:
        upper = e.constant("b64", _UPPER)
        x = flush_subnormal(e, "f64", e.emit("and.b64", a, upper))
        return flush_subnormal(e, "f64", e.emit("and.b64", e.emit(f"{operation}.f64", x), upper))

    return lower_formula(("f64",), formula)


def approximate_form(what: str) -> Callable[[Form], Lower]:
    def choose(form: Form) -> Lower:
        t, operation = form.type, FUNCTIONS[what]
        form.only("approx", "ftz")
        if form.rounding or "approx" not in form.flags:
            raise UnhandledForm
        if t == "f64":
            return _approximate_form(operation) if "ftz" in form.flags else plain(f"{operation}.f64")
        if t == "f32":
            return single(t, form, 1, lambda e, a: e.emit(f"{operation}.f32", a))
        if what not in ("ex2", "tanh"):
            raise UnhandledForm
        return half(t, form, 1, lambda e, a: e.emit(f"{operation}.f32", a))

    return choose


def either(exact: Callable[[Form], Lower], approximate: Callable[[Form], Lower]) -> Callable[[Form], Lower]:
    return lambda form: (approximate if "approx" in form.flags or "full" in form.flags else exact)(form)


def _fast_quotient(e: Emitter, a: Register, b: Register) -> Register:
    """Divide as div.approx.f32 does: the reciprocal of a divisor beyond 2^126 in magnitude is 0."""
    size = e.emit("abs.f32", b)
    huge = e.emit("setp.gt.f32", size, e.constant("b32", 0x7E800000))
    zero = e.emit("copysign.f32", e.constant("b32", 0), b)
    return e.emit("selp.b32", e.emit("mul.f32", a, zero), e.emit("div.f32", a, b), huge)


def quotient_form(form: Form) -> Lower:
    """Return the lowering of div.approx and div.full."""
    if form.only("approx", "full", "ftz").type != "f32" or form.rounding:
        raise UnhandledForm
    approx = form.find_flag("approx", "full") == "approx"
    return single("f32", form, 2, _fast_quotient if approx else lambda e, a, b: e.emit("div.f32", a, b))


# -- signs, extremes, classes ----------------------------------------------------------------------------------------
def sign_form(what: str) -> Callable[[Form], Lower]:
    """Return the lowering of neg and abs, which change only the sign bit; a nan of fewer than 64 bits becomes
    canonical."""

    def choose(form: Form) -> Lower:
        t = form.only("ftz").type
        compound = f"{what}.{'ftz.' if form.flags else ''}{t}"
        if what == "neg" and compound in COMPOUND and t != "bf16x2":  # ptxas does not contract neg.bf16x2
            return plain(compound)
        if t in ("f32", "f64"):
            operation = f"{what}.{t}"
            return single(t, form, 1, lambda e, a: e.emit(operation, a)) if form.flags else plain(operation)
        type_, ftz = PAIRS.get(t, t), bool(form.flags)

        def formula(e: Emitter, a: Register) -> Register:
            return change_sign(e, what, type_, flush_subnormal(e, type_, a) if ftz else a)

        return lower_formula(("b32",), pairwise(formula)) if t in PAIRS else lower_formula(("b16",), formula)

    return choose


def _extreme(e: Emitter, what: str, t: str, form: Form, a: Register, b: Register) -> Register:
    """Return min or max of two f32 or f64; `.abs` compares magnitudes, and with `.NaN` the result is nan if an operand
    is."""
    if "abs" in form.flags:
        a, b = e.emit(f"abs.{t}", a), e.emit(f"abs.{t}", b)
    result = e.emit(f"{what}.{t}", a, b)
    if "NaN" not in form.flags:
        return result
    nan = e.emit("or.pred", is_nan(e, t, a), is_nan(e, t, b))
    return e.emit(f"selp.{ROW[t]}", number(e, t, NAN[t]), result, nan)


def _xorsign(e: Emitter, t: str, result: Register, a: Register, b: Register) -> Register:
    """Give a result the product of the signs of a and b; a nan stays."""
    row = ROW[t]
    sign = e.emit(f"and.{row}", e.emit(f"xor.{row}", a, b), number(e, t, SIGN[t]))
    return e.emit(
        f"selp.{row}", result, e.emit(f"or.{row}", result, sign), e.emit(f"setp.eq.{row}", result, number(e, t, NAN[t]))
    )


def extreme_form(what: str) -> Callable[[Form], Lower]:
    """Return the lowering of min and max."""

    def choose(form: Form) -> Lower:
        t = form.only("ftz", "NaN", "xorsign", "abs").type
        if (t == "f64" and form.flags) or ("xorsign" in form.flags) != ("abs" in form.flags):
            raise UnhandledForm
        two = plain(f"{what}.{t}") if t in ("f32", "f64") and not form.flags else None
        type_ = PAIRS.get(t, t)
        wide, ftz = "f64" if type_ == "f64" else "f32", "ftz" in form.flags

        def formula(e: Emitter, *x: Register) -> Register:
            a, b = (flush_subnormal(e, type_, v) if ftz else v for v in x)
            larger = _extreme(e, what, wide, form, widen_float(e, type_, a, wide), widen_float(e, type_, b, wide))
            result = narrow_float(e, wide, larger, type_)
            return _xorsign(e, type_, result, a, b) if "xorsign" in form.flags else result

        row = "b32" if t in PAIRS else ROW[type_]
        whole = pairwise(formula) if t in PAIRS else formula
        pair = two or lower_formula((row if type_ != "f32" else "f32",) * 2, whole)
        if t != "f32":
            return pair
        three = lower_formula(("f32",) * 3, lambda e, a, b, c: formula(e, formula(e, a, b), c))
        return lambda e, operands: (three if len(operands) == 4 else pair)(e, operands)

    return choose


def copysign_form(form: Form) -> Lower:
    """Return the lowering of copysign d, a, b: the magnitude of b with the sign of a."""
    t = form.only().type
    operation = f"copysign.{t}"
    if t not in ("f32", "f64"):
        raise UnhandledForm
    return lower_formula((t, t), lambda e, a, b: e.emit(operation, b, a))


def _class(e: Emitter, what: str, t: str, a: Register) -> Register:
    """Return the result of testp, from the bits of the magnitude."""
    row = ROW[t]
    u = f"u{row[1:]}"
    size, infinity = e.emit(f"and.{row}", a, number(e, t, SIGN[t] - 1)), number(e, t, INFINITY[t])
    if what in ("finite", "infinite", "number", "notanumber"):
        relation = {"finite": f"lt.{u}", "infinite": f"eq.{row}", "number": f"le.{u}", "notanumber": f"gt.{u}"}[what]
        return e.emit(f"setp.{relation}", size, infinity)
    zero = e.emit(f"setp.eq.{row}", size, number(e, t, 0))
    small = e.emit(f"setp.lt.{u}", size, number(e, t, LEAST_NORMAL[t]))
    if what == "subnormal":
        return e.emit("andn.pred", small, zero)
    usual = e.emit("andn.pred", e.emit(f"setp.lt.{u}", size, infinity), small)
    return e.emit("or.pred", usual, zero)  # zeros count as normal


def class_form(form: Form) -> Lower:
    classes = ("finite", "infinite", "number", "notanumber", "normal", "subnormal")
    t, what = form.only(*classes).type, form.find_flag(*classes)
    if t not in ("f32", "f64"):
        raise UnhandledForm
    return lower_formula((t,), lambda e, a: _class(e, what, t, a))


HANDLERS: dict[str, Handler] = {
    name: lower_by_form(choose)
    for name, choose in {
        "fma": rounded_form("fma"),
        "sqrt": either(rounded_form("sqrt"), approximate_form("sqrt")),
        "rcp": either(rounded_form("rcp"), approximate_form("rcp")),
        **{name: approximate_form(name) for name in ("rsqrt", "sin", "cos", "lg2", "ex2", "tanh")},
        "copysign": copysign_form,
        "testp": class_form,
    }.items()
}
"""opcodes of floating-point types only"""
SHARED: dict[str, Callable[[Form], Lower]] = {
    "add": rounded_form("add"),
    "sub": rounded_form("sub"),
    "mul": rounded_form("mul"),
    "mad": rounded_form("fma"),
    "div": either(rounded_form("div"), quotient_form),
    "min": extreme_form("min"),
    "max": extreme_form("max"),
    "abs": sign_form("abs"),
    "neg": sign_form("neg"),
}
"""opcodes that integers also have"""
