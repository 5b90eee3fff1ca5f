"""Video instructions: arithmetic on registers or on parts of registers (PTX ISA 9.7.18).  `vadd`, `vmad`, `vset`, ...
operate on one byte, half or word of each operand.  `vadd4`, `vabsdiff2`, `vset4`, ... operate on two halves or four
bytes at once; nvcc emits them for intrinsics such as `__vsadu4`.

An operand may select some of its parts (`%r1.b0`, `%r2.h32`).  Results are computed with extra bits and, with `.sat`,
clamped to the range of the result's type.  Then they are added to a third operand, compared with it, or inserted in
place of some of its parts.

For instructions on one number, the code that ptxas generates for an H100 computes results that differ from the text of
the PTX ISA.  Examples: `.sat` does not clamp a sum of `u32`; a destination `.h1` becomes 0; scaled products differ.
`_ALIKE` has the forms whose results agreed on all tested numbers; other forms are not modeled.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

from wsemu.frontend.ptx.forms import UnhandledForm, parse_form
from wsemu.frontend.ptx.syntax import Minus, Name
from wsemu.model.data import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wsemu.frontend.assemble.graph import Register
    from wsemu.frontend.ptx.emit import Emitter, Handler
    from wsemu.frontend.ptx.forms import Form
    from wsemu.frontend.ptx.syntax import Instruction, Operand

    Binary = Callable[[Emitter, Register, Register], Register]
    Lower = Callable[[Emitter, tuple[Operand, ...]], None]

_TYPES = frozenset(("u32", "s32"))
_RELATIONS = ("eq", "ne", "lt", "le", "gt", "ge")
_SELECTED = re.compile(r"(.*)\.([bh])([0-7]{1,4})")
"""a register, and the parts that an operand selects: bytes or halves, the highest first"""


class Part(NamedTuple):
    """Bits of a register."""

    at: int
    length: int


_WORD, _HIGH = Part(0, 32), Part(16, 16)


# -- operands --------------------------------------------------------------------------------------------------------
def _parse_selector(operand: Operand) -> tuple[Operand, str, tuple[int, ...]]:
    """Return the operand without its selector; the kind of the selector, which is `b`, `h` or empty; and the numbers of
    the selected parts, lowest first."""
    found = _SELECTED.fullmatch(operand.text) if isinstance(operand, Name) else None
    if found is None:
        return operand, "", ()
    return Name(found[1], operand.at), found[2], tuple(int(digit) for digit in reversed(found[3]))


def _part(operand: Operand) -> tuple[Operand, Part]:
    """Return an operand and the single part that it selects; the whole register by default."""
    operand, kind, numbers = _parse_selector(operand)
    length = {"": 32, "b": 8, "h": 16}[kind]
    if len(numbers) > 1 or any(number * length >= 32 for number in numbers):
        raise UnhandledForm
    return operand, Part(numbers[0] * length if numbers else 0, length)


def _parts(operand: Operand, count: int, usual: range, most: int) -> tuple[Operand, tuple[int, ...]]:
    """Return an operand and the numbers of the parts that it selects, by default `usual`; each number must be below
    `most`."""
    operand, kind, numbers = _parse_selector(operand)
    if kind not in ("", {2: "h", 4: "b"}[count]) or any(number >= most for number in numbers):
        raise UnhandledForm
    return operand, numbers or tuple(usual)


def _widen_operand(e: Emitter, operand: Operand, type_: str) -> Register:
    """Return a number, or the part of it that the operand selects, with 64 bits."""
    operand, part = _part(operand)
    read = e.read(operand, "b32")
    if part != _WORD:
        read = e.emit(f"bfe.{type_}", read, e.constant("b32", part.at), e.constant("b32", part.length))
    return e.emit(f"cvt.b64.{type_}", read)


def _limits(type_: str, length: int) -> tuple[int, int]:
    return (-(1 << length - 1), (1 << length - 1) - 1) if type_[0] == "s" else (0, (1 << length) - 1)


def _clamp_result(e: Emitter, number: Register, type_: str, length: int, row: str = "64") -> Register:
    low, high = (e.constant(f"b{row}", limit) for limit in _limits(type_, length))
    return e.emit(f"min.s{row}", e.emit(f"max.s{row}", number, low), high)


# -- one number ------------------------------------------------------------------------------------------------------
def _plain_operation(what: str) -> Binary:
    return lambda e, a, b: e.emit(what, a, b)


def _distance(row: str) -> Binary:
    return lambda e, a, b: e.emit(f"abs.s{row}", e.emit(f"sub.b{row}", a, b))


_ARITHMETIC: dict[str, Callable[[str], Binary]] = {
    "vadd": lambda row: _plain_operation(f"add.b{row}"),
    "vsub": lambda row: _plain_operation(f"sub.b{row}"),
    "vmin": lambda row: _plain_operation(f"min.s{row}"),
    "vmax": lambda row: _plain_operation(f"max.s{row}"),
    "vabsdiff": _distance,
}
"""name -> its operation on numbers of `row` bits, which include space for the sign and the carry"""
_SECOND = {"add": "add.b64", "min": "min.s64", "max": "max.s64"}
"""secondary operation -> operation of the bytecode"""
_PLAIN = frozenset(("", "add", "part"))
_CLAMPED = frozenset(("sat", "sat add"))
_SIGNED = frozenset(f"sat{second} s32" for second in ("", " add", " min", " max"))
_EXTREMES = _PLAIN | _CLAMPED | {"sat min", "sat max"}
_ALIKE = {
    "vadd": _PLAIN | _SIGNED, "vsub": _PLAIN | _SIGNED, "vabsdiff": _PLAIN | {"min", "max"},
    "vmin": _EXTREMES, "vmax": _EXTREMES, "vshl": _PLAIN, "vshr": _PLAIN | _CLAMPED, "vset": _PLAIN,
}  # fmt: skip
"""name -> the forms whose results agree with ptxas.  The words of a form: `sat` if the result is clamped; a secondary
operation (`add`, `min`, `max`), or `part` if the result is inserted into a part; `s32` if only results of this type
agree"""


def _compare_formula(relation: str, row: str) -> Binary:
    """Return a formula that is 1 if a relation holds."""
    operation = f"setp.{relation}.{f'b{row}' if relation in ('eq', 'ne') else f's{row}'}"

    def formula(e: Emitter, a: Register, b: Register) -> Register:
        return e.emit(f"selp.b{row}", e.constant(f"b{row}", 1), e.constant(f"b{row}", 0), e.emit(operation, a, b))

    return formula


def _shift_formula(what: str, mode: str) -> Binary:
    """Return the formula of vshl and vshr: a signed 32-bit number, shifted by at most 32 positions."""

    def formula(e: Emitter, a: Register, b: Register) -> Register:
        if mode == "clamp":
            b = e.emit("min.u64", b, e.constant("b64", 32))
        else:
            b = e.emit("and.b64", b, e.constant("b64", 31))
        return e.emit("shl.b64" if what == "vshl" else "shr.s64", a, b)

    return formula


def _scalar(what: str, types: Sequence[str], first: Binary, flags: tuple[str, ...]) -> Lower:
    """Apply `first` to a part of a and a part of b, and combine the result with c."""
    to, *sources = types
    seconds = [flag for flag in flags if flag in _SECOND]
    if len(sources) != 2 or {to, *sources} - _TYPES or len(seconds) > 1:
        raise UnhandledForm
    saturates, second = "sat" in flags, "".join(seconds)

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        destination, a, b, *more = operands
        destination, into = _part(destination)
        merges = into != _WORD
        form = f"{'sat ' * saturates}{second}{'part' * merges}".strip()
        if _ALIKE[what].isdisjoint((form, f"{form} {to}")) or into == _HIGH or len(more) != int(bool(second) or merges):
            raise UnhandledForm
        result = first(e, _widen_operand(e, a, sources[0]), _widen_operand(e, b, sources[1]))
        result = _clamp_result(e, result, to, 32) if saturates else result
        if second:
            result = e.emit(_SECOND[second], result, _widen_operand(e, more[0], to))
        low = e.emit("cvt.b32.s64", result)
        if merges:
            at, length = e.constant("b32", into.at), e.constant("b32", into.length)
            low = e.emit("bfi.b32", low, e.read(more[0], "b32"), at, length)
        e.write_register(destination, low)

    return lower


def arithmetic_form(what: str) -> Callable[[Form], Lower]:
    """Lower vadd, vsub, vmin, vmax, vabsdiff."""

    def choose(form: Form) -> Lower:
        return _scalar(what, form.types, _ARITHMETIC[what]("64"), form.only("sat", *_SECOND).flags)

    return choose


def shift_form(what: str) -> Callable[[Form], Lower]:
    """Lower vshl, vshr."""

    def choose(form: Form) -> Lower:
        mode = form.only("sat", "clamp", "wrap", *_SECOND).find_flag("clamp", "wrap")
        if form.types[2:] != ("u32",):
            raise UnhandledForm
        return _scalar(what, form.types, _shift_formula(what, mode), form.flags)

    return choose


def comparison_form(form: Form) -> Lower:
    """Lower vset: 1 for true."""
    relation = form.only(*_RELATIONS, *_SECOND).find_flag(*_RELATIONS)
    return _scalar("vset", ("u32", *form.types), _compare_formula(relation, "64"), form.flags)


def product_form(form: Form) -> Lower:
    """Lower vmad: a * b + c, optionally plus 1, or with one of them negated."""
    to, *sources = form.only("po").types
    if len(sources) != 2 or {to, *sources} - _TYPES:
        raise UnhandledForm

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        destination, *given = operands
        negative = [isinstance(operand, Minus) for operand in given]
        a, b, c = (operand.name if isinstance(operand, Minus) else operand for operand in given)
        if sum(negative) > ("po" not in form.flags):
            raise UnhandledForm
        # 32-bit factors are enough, because the result is the product modulo 2**32
        x, y = (e.emit("cvt.b32.s64", _widen_operand(e, *one)) for one in zip((a, b), sources, strict=True))
        product, z = e.emit("mul.b32", x, y), e.read(c, "b32")
        if negative[2]:
            result = e.emit("sub.b32", product, z)
        else:
            result = e.emit("sub.b32", z, product) if any(negative) else e.emit("add.b32", product, z)
        result = e.emit("add.b32", result, e.constant("b32", 1)) if form.flags else result
        e.write_register(destination, result)

    return lower


# -- several numbers in a register -----------------------------------------------------------------------------------
def _average(e: Emitter, a: Register, b: Register) -> Register:
    """Return half of a sum, rounded up if it is positive, and down if it is negative."""
    one, zero = e.constant("b32", 1), e.constant("b32", 0)
    total = e.emit("add.b32", a, b)
    up = e.emit("selp.b32", one, zero, e.emit("setp.ge.s32", total, zero))
    return e.emit("shr.s32", e.emit("add.b32", total, up), one)


_PARTS: dict[str, Binary] = {**{name: made("32") for name, made in _ARITHMETIC.items()}, "vavrg": _average}
"""operations on parts; a part has at most 17 bits including its sign, so an s32 does not overflow"""


def _several_form(n: int, types: tuple[str, ...], first: Binary, clamps: str, adds: bool) -> Lower:
    """Apply `first` to n parts of a and b, and clamp the results to the range of a type if one is given.  The results
    replace parts of c, or are added to c (`adds`)."""
    if len(types) != 2 or set(types) - _TYPES:
        raise UnhandledForm
    size = 32 // n

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        destination, first_, second, third = operands
        destination, into = _parts(destination, n, range(n), n)
        a, of_a = _parts(first_, n, range(n), 2 * n)
        b, of_b = _parts(second, n, range(n, 2 * n), 2 * n)
        if len(of_a) != n or len(of_b) != n or sorted(set(into)) != list(into):
            raise UnhandledForm
        both, result = (e.read(a, "b32"), e.read(b, "b32")), e.read(third, "b32")
        length = e.constant("b32", size)
        for k in into:
            x, y = (
                e.emit(f"bfe.{type_}", both[numbers[k] // n], e.constant("b32", numbers[k] % n * size), length)
                for type_, numbers in zip(types, (of_a, of_b), strict=True)
            )
            r = first(e, x, y)
            r = _clamp_result(e, r, clamps, size, "32") if clamps else r
            if adds:
                result = e.emit("add.b32", result, r)
            else:
                result = e.emit("bfi.b32", r, result, e.constant("b32", size * k), length)
        e.write_register(destination, result)

    return lower


def parts_form(what: str, n: int) -> Callable[[Form], Lower]:
    """Lower vadd2, vadd4, ..."""

    def choose(form: Form) -> Lower:
        to, *sources = form.only("sat", "add").types
        if to not in _TYPES or len(form.flags) > 1:
            raise UnhandledForm
        return _several_form(n, tuple(sources), _PARTS[what], to if "sat" in form.flags else "", "add" in form.flags)

    return choose


def parts_comparison_form(n: int) -> Callable[[Form], Lower]:
    """Lower vset2 and vset4: 1 for true."""

    def choose(form: Form) -> Lower:
        relation = form.only("add", *_RELATIONS).find_flag(*_RELATIONS)
        return _several_form(n, form.types, _compare_formula(relation, "32"), "", "add" in form.flags)

    return choose


def _video(choose: Callable[[Form], Lower]) -> Handler:
    """Return a handler that lowers by the result of `choose` for the form; an unknown selector is not modeled."""

    @functools.cache
    def lowering(modifiers: tuple[str, ...]) -> Lower | None:
        try:
            return choose(parse_form(modifiers))
        except (UnhandledForm, ValueError):
            return None

    def handle(e: Emitter, instruction: Instruction) -> None:
        lower = lowering(instruction.modifiers)
        try:
            if lower is not None:
                lower(e, instruction.operands)
        except (UnhandledForm, ValueError):
            lower = None
        if lower is None:
            e.emit_unsupported()

    return handle


HANDLERS: dict[str, Handler] = {
    **{what: _video(arithmetic_form(what)) for what in _ARITHMETIC},
    **{what: _video(shift_form(what)) for what in ("vshl", "vshr")},
    "vset": _video(comparison_form),
    "vmad": _video(product_form),
    **{f"{what}{count}": _video(parts_form(what, count)) for what in _PARTS for count in (2, 4)},
    **{f"vset{count}": _video(parts_comparison_form(count)) for count in (2, 4)},
}
