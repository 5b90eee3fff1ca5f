"""Bits of integers: counting, fields, bytes, shifts (PTX ISA 9.7.1, 9.7.8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.frontend.ptx.forms import BITS, Form, UnhandledForm, lower_by_form, lower_formula, plain
from wsemu.frontend.ptx.integer import bits, integer_type
from wsemu.frontend.ptx.memory import undefined_where
from wsemu.frontend.ptx.syntax import Number

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.frontend.assemble.graph import Register
    from wsemu.frontend.ptx.emit import Emitter, Handler
    from wsemu.frontend.ptx.forms import Lower
    from wsemu.frontend.ptx.syntax import Operand


# -- counts and fields -----------------------------------------------------------------------------------------------
def counted_form(what: str) -> Callable[[Form], Lower]:
    """Lower popc, clz and brev of .b32 and .b64."""

    def choose(form: Form) -> Lower:
        if form.only().type not in ("b32", "b64"):
            raise UnhandledForm
        return plain(f"{what}.{form.type}")

    return choose


def find_form(form: Form) -> Lower:
    """Lower bfind: the position of the highest bit that is not a copy of the sign, ~0 if none; `.shiftamt` counts from
    the top."""
    type_, n = integer_type(form.only("shiftamt"))
    if n < 32:
        raise UnhandledForm

    def formula(e: Emitter, a: Register) -> Register:
        if type_[0] == "s":
            a = e.emit(f"xor.b{n}", a, e.emit(f"shr.s{n}", a, bits(e, n - 1, n)))
        zeros = e.emit(f"clz.b{n}", a)
        if not form.flags:
            return e.emit("sub.b32", bits(e, n - 1), zeros)
        return e.emit("selp.b32", bits(e, -1), zeros, e.emit(f"setp.eq.b{n}", a, bits(e, 0, n)))

    return lower_formula((f"b{n}",), formula)


def _nth_set_bit(e: Emitter, a: Register, n: Register) -> Register:
    """Return the position of set bit n, counted from the lowest one and from 0; ~0 if there are fewer."""
    none = e.emit("setp.ge.u32", n, e.emit("popc.b32", a))
    place = bits(e, 0)
    for width in (16, 8, 4, 2, 1):
        low = e.emit("bfe.u32", a, place, bits(e, width))
        count = e.emit("popc.b32", low)
        up = e.emit("setp.ge.u32", n, count)
        n = e.emit("selp.b32", e.emit("sub.b32", n, count), n, up)
        place = e.emit("selp.b32", e.emit("add.b32", place, bits(e, width)), place, up)
    return e.emit("selp.b32", bits(e, -1), place, none)


def nth_form(form: Form) -> Lower:
    """Lower fns: find the position of the |offset|-th set bit of a mask, counted up or down from a base bit."""
    if form.only().type != "b32":
        raise UnhandledForm

    def formula(e: Emitter, mask: Register, base: Register, offset: Register) -> Register:
        undefined_where(
            e,
            e.emit("setp.gt.u32", base, bits(e, 31)),
            "`fns` with a base above 31",
            "PTX: the base is at most 31; otherwise the behavior is undefined",
            "give a base from 0 to 31",
        )
        none, one = bits(e, -1), bits(e, 1)
        upward = e.emit("and.b32", mask, e.emit("shl.b32", none, base))
        flipped_base = e.emit("sub.b32", bits(e, 31), base)
        downward = e.emit("and.b32", e.emit("brev.b32", mask), e.emit("shl.b32", none, flipped_base))
        down = e.emit("setp.lt.s32", offset, bits(e, 0))
        number = e.emit("sub.b32", e.emit("abs.s32", offset), one)
        found = _nth_set_bit(e, e.emit("selp.b32", downward, upward, down), number)
        missing = e.emit("setp.eq.b32", found, none)
        flipped = e.emit("selp.b32", none, e.emit("sub.b32", bits(e, 31), found), missing)
        found = e.emit("selp.b32", flipped, found, down)
        bit = e.emit("and.b32", e.emit("shr.u32", mask, base), one)
        here = e.emit("selp.b32", base, none, e.emit("setp.ne.b32", bit, bits(e, 0)))
        return e.emit("selp.b32", here, found, e.emit("setp.eq.b32", offset, bits(e, 0)))

    return lower_formula(("b32",) * 3, formula)


def extract_form(form: Form) -> Lower:
    type_, n = integer_type(form.only())
    if n < 32:
        raise UnhandledForm
    return plain(f"bfe.{type_}")


def insert_form(form: Form) -> Lower:
    """Lower bfi."""
    if form.only().type not in ("b32", "b64"):
        raise UnhandledForm
    return plain(f"bfi.{form.type}")


def _wrap_or_clamp(e: Emitter, form: Form, n: Register) -> Register:
    """Return an amount modulo 32 (`.wrap`), or limited to 32 (`.clamp`)."""
    if form.find_flag("wrap", "clamp") == "wrap":
        return e.emit("and.b32", n, bits(e, 31))
    return e.emit("min.u32", n, bits(e, 32))


def mask_form(form: Form) -> Lower:
    """Lower bmsk: `length` ones from bit `position` on."""
    if form.only("wrap", "clamp").type != "b32":
        raise UnhandledForm

    def formula(e: Emitter, position: Register, length: Register) -> Register:
        position, length = _wrap_or_clamp(e, form, position), _wrap_or_clamp(e, form, length)
        ones = e.emit("sub.b32", e.emit("shl.b32", bits(e, 1), length), bits(e, 1))
        return e.emit("shl.b32", ones, position)

    return lower_formula(("b32", "b32"), formula)


def extend_form(form: Form) -> Lower:
    """Lower szext: the low n bits, extended by sign or zeros."""
    type_ = form.only("wrap", "clamp").type
    if type_ not in ("u32", "s32"):
        raise UnhandledForm

    def formula(e: Emitter, a: Register, n: Register) -> Register:
        return e.emit(f"bfe.{type_}", a, bits(e, 0), _wrap_or_clamp(e, form, n))

    return lower_formula(("b32", "b32"), formula)


# -- bytes -----------------------------------------------------------------------------------------------------------
_SELECTORS = {
    "f4e": (0x3210, 0x4321, 0x5432, 0x6543),
    "b4e": (0x5670, 0x6701, 0x7012, 0x0123),
    "rc8": (0x0000, 0x1111, 0x2222, 0x3333),
    "ecl": (0x3210, 0x3211, 0x3222, 0x3333),
    "ecr": (0x0000, 0x1110, 0x2210, 0x3210),
    "rc16": (0x1010, 0x3232, 0x1010, 0x3232),
}
"""prmt mode -> equivalent selectors of the default mode, indexed by the low two bits of c (PTX ISA, "prmt")"""


def permute_form(form: Form) -> Lower:
    if form.only(*_SELECTORS).type != "b32":
        raise UnhandledForm
    if not form.flags:
        return plain("prmt.b32")
    selectors = _SELECTORS[form.find_flag(*_SELECTORS)]
    table = sum(selector << 16 * k for k, selector in enumerate(selectors))

    def formula(e: Emitter, a: Register, b: Register, c: Register) -> Register:
        place = e.emit("shl.b32", e.emit("and.b32", c, bits(e, 3)), bits(e, 4))
        selector = e.emit("shr.u64", bits(e, table, 64), e.emit("cvt.b64.u32", place))
        return e.emit("prmt.b32", a, b, e.emit("and.b32", e.emit("cvt.b32.s64", selector), bits(e, 0xFFFF)))

    return lower_formula(("b32",) * 3, formula)


# -- shifts ----------------------------------------------------------------------------------------------------------
def _shift_amount(e: Emitter, operand: Operand, n: int) -> Register:
    """Return an amount, a .u32, with the width of the shifted value; all amounts beyond the width are equivalent."""
    if isinstance(operand, Number):
        return bits(e, min(operand.value & 0xFFFFFFFF, n), n)
    amount = e.read(operand, "b32")
    return amount if n == 32 else e.resize(e.emit("min.u32", amount, bits(e, n)) if n < 32 else amount, n)


def shift_form(left: bool) -> Callable[[Form], Lower]:
    """Lower shl and shr."""

    def choose(form: Form) -> Lower:
        n = BITS[form.only().type]
        kind = form.type[0]
        if n not in (16, 32, 64) or kind not in "bus" or (left and kind != "b"):
            raise UnhandledForm
        operation = f"shl.b{n}" if left else f"shr.{'s' if kind == 's' else 'u'}{n}"

        def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
            destination, a, amount = operands
            e.write(destination, operation, e.read(a, f"b{n}"), _shift_amount(e, amount, n))

        return lower

    return choose


def funnel_form(form: Form) -> Lower:
    """Lower shf: shift b:a; `.l` returns the high half, `.r` the low half."""
    if form.only("l", "r", "wrap", "clamp").type != "b32":
        raise UnhandledForm
    left = form.find_flag("l", "r") == "l"

    def formula(e: Emitter, a: Register, b: Register, n: Register) -> Register:
        n = _wrap_or_clamp(e, form, n)
        rest = e.emit("sub.b32", bits(e, 32), n)
        high, low = (n, rest) if left else (rest, n)
        return e.emit("or.b32", e.emit("shl.b32", b, high), e.emit("shr.u32", a, low))

    return lower_formula(("b32",) * 3, formula)


HANDLERS: dict[str, Handler] = {
    name: lower_by_form(choose)
    for name, choose in {
        "popc": counted_form("popc"),
        "clz": counted_form("clz"),
        "brev": counted_form("brev"),
        "bfind": find_form,
        "fns": nth_form,
        "bfe": extract_form,
        "bfi": insert_form,
        "bmsk": mask_form,
        "szext": extend_form,
        "prmt": permute_form,
        "shl": shift_form(left=True),
        "shr": shift_form(left=False),
        "shf": funnel_form,
    }.items()
}
