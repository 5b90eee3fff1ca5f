"""Comparison, selection and logic (PTX ISA 9.7.5 to 9.7.8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.frontend.ptx.floats import flush_subnormal, is_nan, widen_float
from wsemu.frontend.ptx.forms import (
    BITS,
    PAIRS,
    UnhandledForm,
    halves,
    join_halves,
    lower_by_form,
    lower_formula,
    plain,
)
from wsemu.frontend.ptx.syntax import Number, split_results

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.frontend.assemble.graph import Register
    from wsemu.frontend.ptx.emit import Emitter, Handler
    from wsemu.frontend.ptx.forms import Form, Lower
    from wsemu.frontend.ptx.syntax import Operand

_ORDER = ("lt", "le", "gt", "ge")
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
INTEGER_RELATIONS = ("eq", "ne", *_ORDER, *_UNSIGNED)
FLOAT_RELATIONS = ("eq", "ne", *_ORDER, "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")
_FLOATS = {"f16": "f32", "bf16": "f32", "f32": "f32", "f64": "f64"}
"""type -> type in which its values are compared"""
_COMBINING = ("and", "or", "xor")
_READ = {"f32": "f32", "f64": "f64"}


def comparison(form: Form, type_: str) -> Callable[[Emitter, Register, Register], Register]:
    """Return the function that compares two registers of `type_` by the form's relation."""
    if type_ in _FLOATS:
        return _float_comparison(form, type_)
    relation = form.find_flag(*INTEGER_RELATIONS)
    n, kind = BITS[type_], type_[0]
    if n not in (16, 32, 64) or kind not in "bus":
        raise UnhandledForm
    if relation in ("eq", "ne"):
        operation = f"setp.{relation}.b{n}"
    elif relation in _UNSIGNED and kind == "u":
        operation = f"setp.{_UNSIGNED[relation]}.u{n}"
    elif relation in _ORDER and kind != "b":
        operation = f"setp.{relation}.{kind}{n}"
    else:
        raise UnhandledForm
    return lambda e, a, b: e.emit(operation, a, b)


def _float_comparison(form: Form, type_: str) -> Callable[[Emitter, Register, Register], Register]:
    relation, wide, ftz = form.find_flag(*FLOAT_RELATIONS), _FLOATS[type_], "ftz" in form.flags
    if ftz and type_ == "f64":
        raise UnhandledForm

    def compare(e: Emitter, a: Register, b: Register) -> Register:
        if ftz:
            a, b = flush_subnormal(e, type_, a), flush_subnormal(e, type_, b)
        a, b = widen_float(e, type_, a, wide), widen_float(e, type_, b, wide)
        if relation not in ("num", "nan"):
            return e.emit(f"setp.{relation}.{wide}", a, b)
        nan = e.emit("or.pred", is_nan(e, wide, a), is_nan(e, wide, b))
        return nan if relation == "nan" else e.emit("not.pred", nan)

    return compare


def _combining(form: Form) -> str:
    found = [flag for flag in form.flags if flag in _COMBINING]
    return found[0] if found else ""


def _flags(form: Form) -> Form:
    return form.only("ftz", *_COMBINING, *INTEGER_RELATIONS, *FLOAT_RELATIONS)


def predicate_form(form: Form) -> Lower:
    """Lower setp: p = (a ? b) op c and q = !(a ? b) op c; for pairs, p and q are the results of the two halves."""
    type_, combining = _flags(form).type, _combining(form)
    if type_ in PAIRS:
        return _pair_predicate(form, PAIRS[type_], combining)
    compare, row = comparison(form, type_), _READ.get(type_, f"b{BITS[type_]}")

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        destination, a, b, *other = operands
        first, second = split_results(destination)
        c = e.read(other[0], "p") if combining else None
        holds = compare(e, e.read(a, row), e.read(b, row))
        fails = e.emit("not.pred", holds) if second is not None else None
        if c is not None:
            holds = e.emit(f"{combining}.pred", holds, c)
            fails = None if fails is None else e.emit(f"{combining}.pred", fails, c)
        e.write_register(first, holds)
        if second is not None and fails is not None:
            e.write_register(second, fails)

    return lower


def _pair_predicate(form: Form, type_: str, combining: str) -> Lower:
    compare = comparison(form, type_)

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        destination, a, b, *other = operands
        c = e.read(other[0], "p") if combining else None
        x, y = halves(e, e.read(a, "b32")), halves(e, e.read(b, "b32"))
        results = [compare(e, *pair) for pair in zip(x, y, strict=True)]
        if c is not None:
            results = [e.emit(f"{combining}.pred", result, c) for result in results]
        first, second = split_results(destination)
        e.write_register(first, results[0])
        if second is not None:
            e.write_register(second, results[1])

    return lower


_TRUE = {"u32": 0xFFFFFFFF, "s32": 0xFFFFFFFF, "f32": 0x3F800000, "u16": 0xFFFF, "s16": 0xFFFF}
_TRUE |= {"f16": 0x3C00, "bf16": 0x3F80}


def set_form(form: Form) -> Lower:
    """Lower set: a comparison whose result is a number, 1.0 or all ones for true."""
    combining = _combining(_flags(form))
    to, type_ = form.types if len(form.types) == 2 else form.types * 2
    pair = PAIRS.get(type_)
    element = PAIRS.get(to, "u16" if pair and to == "u32" else to)
    compare, yes, n = comparison(form, pair or type_), _TRUE[element], BITS[element]
    row = "b32" if pair else _READ.get(type_, f"b{BITS[type_]}")

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        destination, a, b, *other = operands
        c = e.read(other[0], "p") if combining else None
        x, y = e.read(a, row), e.read(b, row)
        parts = list(zip(halves(e, x), halves(e, y), strict=True)) if pair else [(x, y)]
        results = []
        for left, right in parts:
            holds = compare(e, left, right)
            if c is not None:
                holds = e.emit(f"{combining}.pred", holds, c)
            results.append(e.emit(f"selp.b{n}", e.constant(f"b{n}", yes), e.constant(f"b{n}", 0), holds))
        e.write_register(destination, join_halves(e, *results) if pair else results[0])

    return lower


# -- selection -------------------------------------------------------------------------------------------------------
def select_form(form: Form) -> Lower:
    n = BITS[form.only().type]
    if n not in (16, 32, 64):
        raise UnhandledForm
    type_ = _READ.get(form.type, f"b{n}")

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        destination, a, b, predicate = operands
        e.write(destination, f"selp.b{n}", e.read(a, type_), e.read(b, type_), e.read(predicate, "p"))

    return lower


def select_sign_form(form: Form) -> Lower:
    """Lower slct d, a, b, c: a if c >= 0, else b (also for a nan)."""
    to, type_ = form.only("ftz").types
    n, read = BITS[to], _READ.get(to, f"b{BITS[to]}")
    if n not in (16, 32, 64) or type_ not in ("s32", "f32"):
        raise UnhandledForm

    def formula(e: Emitter, a: Register, b: Register, c: Register) -> Register:
        if form.flags:
            c = flush_subnormal(e, "f32", c)
        return e.emit(f"selp.b{n}", a, b, e.emit(f"setp.ge.{type_}", c, e.constant("b32", 0)))

    return lower_formula((read, read, "f32" if type_ == "f32" else "b32"), formula)


# -- logic -----------------------------------------------------------------------------------------------------------
def bitwise_form(what: str) -> Callable[[Form], Lower]:
    """Lower and, or, xor, not."""

    def choose(form: Form) -> Lower:
        type_ = form.only().type
        if type_ not in ("pred", "b16", "b32", "b64"):
            raise UnhandledForm
        return plain(f"{what}.{type_}")

    return choose


def is_zero_form(form: Form) -> Lower:
    """Lower cnot: 1 for 0, else 0."""
    type_ = form.only().type
    if type_ not in ("b16", "b32", "b64"):
        raise UnhandledForm

    def formula(e: Emitter, a: Register) -> Register:
        zero = e.constant(type_, 0)
        return e.emit(f"selp.{type_}", e.constant(type_, 1), zero, e.emit(f"setp.eq.{type_}", a, zero))

    return lower_formula((type_,), formula)


_TWO = {
    1: ("or", 0, 0, 1),
    2: ("and", 1, 0, 0),
    4: ("and", 0, 1, 0),
    6: ("xor", 0, 0, 0),
    7: ("and", 0, 0, 1),
    8: ("and", 0, 0, 0),
    9: ("xor", 0, 0, 1),
    11: ("or", 1, 0, 0),
    13: ("or", 0, 1, 0),
    14: ("or", 0, 0, 0),
}
"""truth table of 4 bits, indexed by 2 b + c -> operation, and whether b, c and the result are inverted"""


def _two_bit_function(e: Emitter, table: int, b: Register, c: Register) -> Register:
    """Return the function of two bits with this truth table."""
    if table in (0, 15):
        return e.constant("b32", -(table & 1))
    if table in (3, 12):
        return b if table == 12 else e.emit("not.b32", b)
    if table in (5, 10):
        return c if table == 10 else e.emit("not.b32", c)
    operation, *inverted = _TWO[table]
    x, y = (e.emit("not.b32", v) if flip else v for v, flip in zip((b, c), inverted, strict=False))
    result = e.emit(f"{operation}.b32", x, y)
    return e.emit("not.b32", result) if inverted[2] else result


def lookup(e: Emitter, table: int, a: Register, b: Register, c: Register) -> Register:
    """Return lop3: the function of three bits with this table of 8 bits, indexed by 4 a + 2 b + c."""
    zero, one = table & 15, table >> 4
    low = _two_bit_function(e, zero, b, c)
    if zero == one:
        return low
    high = _two_bit_function(e, one, b, c)
    if zero == 0:
        return e.emit("and.b32", a, high)
    return e.emit("xor.b32", low, e.emit("and.b32", a, e.emit("xor.b32", low, high)))


def lookup_form(form: Form) -> Lower:
    """Lower lop3.b32 d, a, b, c, table; with and/or d|p, ..., q: p = (d != 0) op q."""
    combining = _combining(form.only("and", "or"))
    if form.type != "b32":
        raise UnhandledForm

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        destination, a, b, c, table, *other = operands
        if not isinstance(table, Number):
            raise e.error(table.at, "the table of `lop3` is a constant", "give a number from 0 to 255")
        result = lookup(e, table.value & 255, *(e.read(x, "b32") for x in (a, b, c)))
        first, second = split_results(destination)
        if second is not None and combining:
            holds = e.emit("setp.ne.b32", result, e.constant("b32", 0))
            holds = e.emit(f"{combining}.pred", holds, e.read(other[0], "p"))
            e.write_register(first, result)
            e.write_register(second, holds)
        else:
            e.write_register(first, result)

    return lower


HANDLERS: dict[str, Handler] = {
    name: lower_by_form(choose)
    for name, choose in {
        "setp": predicate_form,
        "set": set_form,
        "selp": select_form,
        "slct": select_sign_form,
        "and": bitwise_form("and"),
        "or": bitwise_form("or"),
        "xor": bitwise_form("xor"),
        "not": bitwise_form("not"),
        "cnot": is_zero_form,
        "lop3": lookup_form,
    }.items()
}
