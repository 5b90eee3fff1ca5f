"""Arithmetic on two or four numbers in a register, `vadd4`, `vabsdiff2`, `vset4`, ... (PTX ISA 9.7.19), as nvcc makes
them for `__vsadu4` and its like: of all parts in order, without selectors."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from wsemu.frontend.ptx.forms import UnhandledForm, chosen
from wsemu.frontend.ptx.syntax import Name

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.frontend.assemble.graph import Register
    from wsemu.frontend.ptx.emit import Emitter, Handler
    from wsemu.frontend.ptx.forms import Form, Lower
    from wsemu.frontend.ptx.syntax import Instruction, Operand

    Part = Callable[[Emitter, Register, Register], Register]


def _distance(e: Emitter, a: Register, b: Register) -> Register:
    return e.emit("abs.s32", e.emit("sub.b32", a, b))


# parts have at most 17 bits with their sign: as s32 nothing overflows
_PARTS: dict[str, Part] = {
    "vadd": lambda e, a, b: e.emit("add.b32", a, b),
    "vsub": lambda e, a, b: e.emit("sub.b32", a, b),
    "vmin": lambda e, a, b: e.emit("min.s32", a, b),
    "vmax": lambda e, a, b: e.emit("max.s32", a, b),
    "vabsdiff": _distance,
}
_RELATIONS = ("eq", "ne", "lt", "le", "gt", "ge")


def _lower(n: int, types: tuple[str, str], part: Part, limits: tuple[int, int] | None, adds: bool) -> Lower:
    """`part` on each of the 32 / n parts of a and b; the results side by side, or (`adds`) summed up with c, uncut."""

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        destination, *sources = operands
        a, b, c = (e.read(source, "b32") for source in sources)
        length, result = e.constant("b32", n), c if adds else e.constant("b32", 0)
        for k in range(32 // n):
            at = e.constant("b32", n * k)
            r = part(e, e.emit(f"bfe.{types[0]}", a, at, length), e.emit(f"bfe.{types[1]}", b, at, length))
            if limits is not None:
                low, high = (e.constant("b32", limit) for limit in limits)
                r = e.emit("min.s32", e.emit("max.s32", r, low), high)
            if adds:
                result = e.emit("add.b32", result, r)
            else:
                result = e.emit("bfi.b32", r, result, at, length)
        e.write_register(destination, result)

    return lower


def arithmetic_form(what: str, n: int) -> Callable[[Form], Lower]:
    """vadd, vsub, vmin, vmax, vabsdiff"""

    def choose(form: Form) -> Lower:
        to, *sources = form.only("sat", "add").types
        if len(sources) != 2 or {to, *sources} - {"u32", "s32"} or len(form.flags) > 1:
            raise UnhandledForm
        limits = None
        if "sat" in form.flags:
            limits = (-(1 << (n - 1)), (1 << (n - 1)) - 1) if to == "s32" else (0, (1 << n) - 1)
        return _lower(n, (sources[0], sources[1]), _PARTS[what], limits, "add" in form.flags)

    return choose


def comparison_form(n: int) -> Callable[[Form], Lower]:
    """vset: 1 for true"""

    def choose(form: Form) -> Lower:
        first, second = form.only("add", *_RELATIONS).types
        relation = form.one_of(*_RELATIONS)
        if {first, second} - {"u32", "s32"}:
            raise UnhandledForm
        operation = f"setp.{relation}.{'b32' if relation in ('eq', 'ne') else 's32'}"

        def part(e: Emitter, a: Register, b: Register) -> Register:
            return e.emit("selp.b32", e.constant("b32", 1), e.constant("b32", 0), e.emit(operation, a, b))

        return _lower(n, (first, second), part, None, "add" in form.flags)

    return choose


_SELECTOR = re.compile(r".*\.(b[0-7]{1,4}|h[0-3]{1,2})")
"""parts of a register that an operand names"""


def _of_all_parts(handler: Handler) -> Handler:
    """Leaves selectors out."""

    def handle(e: Emitter, instruction: Instruction) -> None:
        if any(isinstance(operand, Name) and _SELECTOR.fullmatch(operand.text) for operand in instruction.operands):
            e.unsupported()
        else:
            handler(e, instruction)

    return handle


HANDLERS: dict[str, Handler] = {
    **{
        f"{what}{count}": _of_all_parts(chosen(arithmetic_form(what, 32 // count)))
        for what in _PARTS
        for count in (2, 4)
    },
    **{f"vset{count}": _of_all_parts(chosen(comparison_form(32 // count))) for count in (2, 4)},
}
