"""Integer arithmetic and carries (PTX ISA 9.7.1, 9.7.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.frontend.ptx.forms import BITS, Form, UnhandledForm, lower_by_form, lower_formula, pairwise, plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.frontend.assemble.graph import Register
    from wsemu.frontend.ptx.emit import Emitter, Handler
    from wsemu.frontend.ptx.forms import Lower
    from wsemu.frontend.ptx.syntax import Operand

INTEGERS = frozenset(f"{s}{n}" for s in "us" for n in (16, 32, 64))
"""types on which integer arithmetic is defined"""
PAIRS = {"u16x2": "u16", "s16x2": "s16"}


def bits(e: Emitter, value: int, n: int = 32) -> Register:
    """Return a constant of n bits."""
    return e.constant(f"b{n}", value)


def integer_type(form: Form) -> tuple[str, int]:
    """Return (type, its bits) of a form of integer arithmetic."""
    if form.type not in INTEGERS:
        raise UnhandledForm
    return form.type, BITS[form.type]


# -- sums and products -----------------------------------------------------------------------------------------------
def saturated_sum(what: str) -> Callable[..., Register]:
    """Return the formula of add or sub of two s32, clamped to MININT..MAXINT."""

    def formula(e: Emitter, a: Register, b: Register) -> Register:
        wide = e.emit(f"{what}.b64", e.emit("cvt.b64.s32", a), e.emit("cvt.b64.s32", b))
        wide = e.emit("max.s64", wide, bits(e, -(1 << 31), 64))
        return e.emit("cvt.b32.s64", e.emit("min.s64", wide, bits(e, (1 << 31) - 1, 64)))

    return formula


def sum_form(what: str) -> Callable[[Form], Lower]:
    """Lower add and sub."""

    def choose(form: Form) -> Lower:
        if form.type in PAIRS:
            form.only()
            return lower_formula(("b32", "b32"), pairwise(lambda e, a, b: e.emit(f"{what}.b16", a, b)))
        type_, n = integer_type(form.only("sat"))
        if form.flags:
            if type_ != "s32":
                raise UnhandledForm
            return lower_formula(("b32", "b32"), saturated_sum(what))
        return plain(f"{what}.b{n}")

    return choose


def product_form(form: Form) -> Lower:
    type_, n = integer_type(form.only("lo", "hi", "wide"))
    part = form.find_flag("lo", "hi", "wide")
    return plain({"lo": f"mul.b{n}", "hi": f"mulhi.{type_}", "wide": f"mulwide.{type_}"}[part])


def product_sum_form(form: Form) -> Lower:
    type_, n = integer_type(form.only("lo", "hi", "wide", "sat"))
    part = form.find_flag("lo", "hi", "wide")
    if part != "hi":
        if "sat" in form.flags:
            raise UnhandledForm
        return plain(f"mad.b{n}" if part == "lo" else f"madwide.{type_}")
    row = f"b{n}"
    if "sat" in form.flags:
        if type_ != "s32":
            raise UnhandledForm
        add = saturated_sum("add")
        return lower_formula((row,) * 3, lambda e, a, b, c: add(e, e.emit("mulhi.s32", a, b), c))
    return lower_formula((row,) * 3, lambda e, a, b, c: e.emit(f"add.{row}", e.emit(f"mulhi.{type_}", a, b), c))


def product_24(e: Emitter, type_: str, part: str, a: Register, b: Register) -> Register:
    """Return the low 32 bits, or bits 16 to 47, of the product of two 24-bit numbers."""
    low, length = bits(e, 0), bits(e, 24)
    x, y = (e.emit(f"bfe.{type_}", v, low, length) for v in (a, b))
    if part == "lo":
        return e.emit("mul.b32", x, y)
    return e.emit("cvt.b32.s64", e.emit("shr.u64", e.emit(f"mulwide.{type_}", x, y), bits(e, 16, 64)))


def product_24_form(form: Form) -> Lower:
    type_, part = form.only("lo", "hi").type, form.find_flag("lo", "hi")
    if BITS[type_] != 32:
        raise UnhandledForm
    return lower_formula(("b32", "b32"), lambda e, a, b: product_24(e, type_, part, a, b))


def product_sum_24_form(form: Form) -> Lower:
    type_, part = form.only("lo", "hi", "sat").type, form.find_flag("lo", "hi")
    saturates = "sat" in form.flags
    if BITS[type_] != 32 or (saturates and (type_, part) != ("s32", "hi")):
        raise UnhandledForm
    add = saturated_sum("add") if saturates else lambda e, x, y: e.emit("add.b32", x, y)
    return lower_formula(("b32",) * 3, lambda e, a, b, c: add(e, product_24(e, type_, part, a, b), c))


def difference_form(form: Form) -> Lower:
    """Lower sad: |a - b| + c."""
    type_, n = integer_type(form.only())
    row = f"b{n}"

    def formula(e: Emitter, a: Register, b: Register, c: Register) -> Register:
        distance = e.emit(f"sub.{row}", e.emit(f"max.{type_}", a, b), e.emit(f"min.{type_}", a, b))
        return e.emit(f"add.{row}", distance, c)

    return lower_formula((row,) * 3, formula)


def typed_form(what: str) -> Callable[[Form], Lower]:
    """Lower div and rem."""

    def choose(form: Form) -> Lower:
        return plain(f"{what}.{integer_type(form.only())[0]}")

    return choose


def extreme_form(what: str) -> Callable[[Form], Lower]:
    """Lower min and max; `.relu` replaces negative results by 0."""

    def choose(form: Form) -> Lower:
        type_ = PAIRS.get(form.type, form.type)
        if type_ not in INTEGERS:
            raise UnhandledForm
        relu = "relu" in form.only("relu").flags
        n = BITS[type_]

        def formula(e: Emitter, a: Register, b: Register) -> Register:
            r = e.emit(f"{what}.{type_}", a, b)
            return e.emit(f"max.{type_}", r, bits(e, 0, n)) if relu else r

        if form.type in PAIRS:
            return lower_formula(("b32", "b32"), pairwise(formula))
        return lower_formula((f"b{n}",) * 2, formula) if relu else plain(f"{what}.{type_}")

    return choose


def absolute_form(form: Form) -> Lower:
    _, n = integer_type(form.only())
    return plain(f"abs.s{n}")


def negation_form(form: Form) -> Lower:
    _, n = integer_type(form.only())
    return plain(f"neg.b{n}")


def dot_product_form(parts: int) -> Callable[[Form], Lower]:
    """Lower dp4a, the sum of four products of bytes and c, and dp2a, the sum of two products of halves of a with the
    low or high bytes of b, and c."""

    def choose(form: Form) -> Lower:
        first, second = form.only(*(("lo", "hi") if parts == 2 else ())).types
        offset = 16 if parts == 2 and form.find_flag("lo", "hi") == "hi" else 0
        if {first, second} - {"u32", "s32"}:
            raise UnhandledForm

        def formula(e: Emitter, a: Register, b: Register, c: Register) -> Register:
            size = 32 // parts
            for k in range(parts):
                x = e.emit(f"bfe.{first}", a, bits(e, size * k), bits(e, size))
                y = e.emit(f"bfe.{second}", b, bits(e, offset + 8 * k), bits(e, 8))
                c = e.emit("mad.b32", x, y, c)
            return c

        return lower_formula(("b32",) * 3, formula)

    return choose


# -- carries (9.7.2) -------------------------------------------------------------------------------------------------
# On the GPU, the flag is the carry of an adder: a - b is a + ~b + 1, so the flag is set if nothing is borrowed.  PTX
# does not document this, but the code that nvcc generates for a 128-bit division adds the flag of a difference.
def _carry(e: Emitter) -> Register:
    """Return the register of the carry flag."""
    if e.carry is None:
        e.carry = e.graph.new("p")
    return e.carry


def _carry_number(e: Emitter, what: str, n: int) -> Register:
    """Return 1 if the flag records a carry, or for a `sub`, a borrow."""
    yes, no = (1, 0) if what == "add" else (0, 1)
    return e.emit(f"selp.b{n}", bits(e, yes, n), bits(e, no, n), _carry(e))


def _sum_with_carry(e: Emitter, what: str, n: int, a: Register, b: Register, takes: bool) -> tuple[Register, Register]:
    """Return (a + b + carry, the new carry), or (a - b - borrow, whether nothing is borrowed)."""
    row, wrapped = f"b{n}", f"setp.{'lt' if what == 'add' else 'gt'}.u{n}"
    result = e.emit(f"{what}.{row}", a, b)
    over = e.emit(wrapped, result, a)
    if takes:
        first = result
        result = e.emit(f"{what}.{row}", first, _carry_number(e, what, n))
        over = e.emit("or.pred", over, e.emit(wrapped, result, first))
    return result, over if what == "add" else e.emit("not.pred", over)


def _finish(e: Emitter, destination: Operand, result: Register, carry: Register, gives: bool) -> None:
    if gives:
        e.effect_into("mov.pred", (carry,), (_carry(e),))
    e.write_register(destination, result)


def _carried_type(form: Form) -> int:
    n = BITS[form.type]
    if form.type not in INTEGERS or n < 32:
        raise UnhandledForm
    return n


def carried_sum_form(what: str, takes: bool) -> Callable[[Form], Lower]:
    """Lower add.cc, addc, sub.cc and subc."""

    def choose(form: Form) -> Lower:
        n, gives = _carried_type(form.only("cc")), "cc" in form.flags

        def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
            destination, a, b = operands
            x, y = e.read(a, f"b{n}"), e.read(b, f"b{n}")
            _finish(e, destination, *_sum_with_carry(e, what, n, x, y, takes), gives)

        return lower

    return choose


def carried_product_form(takes: bool) -> Callable[[Form], Lower]:
    """Lower mad.cc and madc: low or high half of the product, plus c, plus carry."""

    def choose(form: Form) -> Lower:
        n, gives, part = _carried_type(form.only("lo", "hi", "cc")), "cc" in form.flags, form.find_flag("lo", "hi")
        product = f"mul.b{n}" if part == "lo" else f"mulhi.{form.type}"

        def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
            destination, *sources = operands
            x, y, z = (e.read(source, f"b{n}") for source in sources)
            _finish(e, destination, *_sum_with_carry(e, "add", n, e.emit(product, x, y), z, takes), gives)

        return lower

    return choose


HANDLERS: dict[str, Handler] = {
    name: lower_by_form(choose)
    for name, choose in {
        "addc": carried_sum_form("add", takes=True),
        "subc": carried_sum_form("sub", takes=True),
        "madc": carried_product_form(takes=True),
        "mul24": product_24_form,
        "mad24": product_sum_24_form,
        "sad": difference_form,
        "rem": typed_form("rem"),
        "dp4a": dot_product_form(4),
        "dp2a": dot_product_form(2),
    }.items()
}
"""opcodes of integers only -> handler"""


def _with_carry(usual: Callable[[Form], Lower], carried: Callable[[Form], Lower]) -> Callable[[Form], Lower]:
    return lambda form: (carried if "cc" in form.flags else usual)(form)


SHARED: dict[str, Callable[[Form], Lower]] = {
    "add": _with_carry(sum_form("add"), carried_sum_form("add", takes=False)),
    "sub": _with_carry(sum_form("sub"), carried_sum_form("sub", takes=False)),
    "mul": product_form,
    "mad": _with_carry(product_sum_form, carried_product_form(takes=False)),
    "div": typed_form("div"),
    "min": extreme_form("min"),
    "max": extreme_form("max"),
    "abs": absolute_form,
    "neg": negation_form,
}
"""opcodes that floating-point numbers also have"""
