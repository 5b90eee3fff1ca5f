"""Operations between the lanes of a warp (PTX ISA 9.7.9.6, 9.7.13): shfl, vote, match, redux, activemask, elect."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from wsemu.frontend.ptx.forms import UnhandledForm, lower_by_form
from wsemu.frontend.ptx.syntax import Number, split_results
from wsemu.model.isa import CONVERGED

if TYPE_CHECKING:
    from wsemu.frontend.assemble.graph import Register
    from wsemu.frontend.ptx.emit import Emitter, Handler
    from wsemu.frontend.ptx.forms import Form, Lower
    from wsemu.frontend.ptx.syntax import Operand


_INDEPENDENT = 70
"""first architecture whose lanes are scheduled independently; earlier ones run them in lockstep"""


def _architecture(target: str) -> int:
    """Return the number of a target's architecture, such as 90 for `sm_90a`; the newest architecture if the target has
    no number."""
    found = re.search(r"\d+", target)
    return int(found[0]) if found else _INDEPENDENT


def _active(e: Emitter) -> Register:
    """Return the mask of the lanes that execute the instruction together."""
    converged = _architecture(e.module.file.target) < _INDEPENDENT
    (mask,) = e.effect("activemask", results=("b32",), auxiliary=CONVERGED * converged)
    return mask


def _members(e: Emitter, form: Form, operands: list[Operand]) -> Register:
    """Return the member mask, the last operand; without `.sync`, the lanes that execute the instruction together."""
    if "sync" in form.flags:
        return e.read(operands.pop(), "b32")
    return _active(e)


def _write(e: Emitter, pairs: list[tuple[Operand | None, Register]]) -> None:
    for destination, register in pairs:
        if destination is not None:
            e.write_register(destination, register)


# -- shuffle ---------------------------------------------------------------------------------------------------------
_MODES = ("idx", "up", "down", "bfly")


def shuffle_form(form: Form) -> Lower:
    """Lower shfl{.sync}.mode.b32 d|p, a, b, c{, members}."""
    mode = form.only("sync", *_MODES).find_flag(*_MODES)
    if form.type != "b32":
        raise UnhandledForm

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        destination, *sources = operands
        members = _members(e, form, sources)
        a, b, c = sources
        value, lane = e.read(a, "b32"), e.read(b, "b32")
        first, second = split_results(destination)
        results = ("b32",) if second is None else ("b32", "p")
        if isinstance(c, Number):
            made = e.effect(f"shfl.{mode}.b32", (value, lane, members), results, c.value & 0x1F1F)
        else:
            source, inside = _source_lane(e, mode, lane, e.read(c, "b32"))
            made = (*e.effect("shfl.idx.b32", (value, source, members), ("b32",), 31), inside)
        _write(e, list(zip((first, second), made, strict=False)))

    return lower


def _source_lane(e: Emitter, mode: str, b: Register, c: Register) -> tuple[Register, Register]:
    """Return (lane to read, whether the requested one is in range) for a clamp and segment mask in a register: PTX ISA,
    "shfl.sync"."""

    def number(value: int) -> Register:
        return e.constant("b32", value)

    lane, five = e.special("laneid"), number(31)
    b, clamp = e.emit("and.b32", b, five), e.emit("and.b32", c, five)
    segment = e.emit("bfe.u32", c, number(8), number(5))
    within = e.emit("not.b32", segment)
    first = e.emit("and.b32", lane, segment)
    last = e.emit("or.b32", first, e.emit("and.b32", clamp, within))
    if mode == "idx":
        selected = e.emit("or.b32", first, e.emit("and.b32", b, within))
    else:
        selected = e.emit({"up": "sub.b32", "down": "add.b32", "bfly": "xor.b32"}[mode], lane, b)
    inside = e.emit(f"setp.{'ge' if mode == 'up' else 'le'}.s32", selected, last)
    return e.emit("selp.b32", selected, lane, inside), inside


# -- vote, match, redux ----------------------------------------------------------------------------------------------
def vote_form(form: Form) -> Lower:
    """Lower vote{.sync}.{all,any,uni}.pred and .ballot.b32."""
    mode = form.only("sync", "all", "any", "uni", "ballot").find_flag("all", "any", "uni", "ballot")
    result = "b32" if mode == "ballot" else "p"
    if form.type != ("b32" if mode == "ballot" else "pred"):
        raise UnhandledForm

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        destination, *sources = operands
        members = _members(e, form, sources)
        (predicate,) = sources
        made = e.effect(f"vote.{mode}", (e.read(predicate, "p"), members), (result,))
        e.write_register(destination, made[0])

    return lower


def match_form(form: Form) -> Lower:
    """Lower match.any.sync d, a, members and match.all.sync d|p, a, members."""
    mode = form.only("sync", "any", "all").find_flag("any", "all")
    type_ = form.type
    if type_ not in ("b32", "b64"):
        raise UnhandledForm

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        destination, a, members = operands
        first, second = split_results(destination)
        results = ("b32",) if second is None else ("b32", "p")
        made = e.effect(f"match.{mode}.{type_}", (e.read(a, type_), e.read(members, "b32")), results)
        _write(e, list(zip((first, second), made, strict=False)))

    return lower


def reduction_form(form: Form) -> Lower:
    """Lower redux.sync.{add,min,max}.{u32,s32}, .{and,or,xor}.b32, {min,max}{.abs}{.NaN}.f32."""
    if form.types == ("f32",):
        return _float_reduction(form)
    whats = ("add", "min", "max", "and", "or", "xor")
    what = form.only("sync", *whats).find_flag(*whats)
    if form.type not in (("b32",) if what in ("and", "or", "xor") else ("u32", "s32")):
        raise UnhandledForm
    operation = f"redux.{what}.{form.type if what in ('min', 'max') else 'b32'}"

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        destination, a, members = operands
        (result,) = e.effect(operation, (e.read(a, "b32"), e.read(members, "b32")), ("b32",))
        e.write_register(destination, result)

    return lower


def _float_reduction(form: Form) -> Lower:
    """Lower redux.sync.{min,max}{.abs}{.NaN}.f32 to a reduction of integers in the same order.

    A nan becomes the largest or smallest integer: it loses, or wins with `.NaN`.
    """
    what = form.only("sync", "min", "max", "abs", "NaN").find_flag("min", "max")
    absolute, keeps = "abs" in form.flags, "NaN" in form.flags
    marker = _LARGEST if (what == "max") == keeps else _SMALLEST

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        destination, a, members = operands
        value, magnitude = e.read(a, "b32"), e.constant("b32", _LARGEST)
        without_sign = e.emit("and.b32", value, magnitude)
        value = without_sign if absolute else value
        flipped = e.emit("and.b32", e.emit("shr.s32", value, e.constant("b32", 31)), magnitude)
        nan = e.emit("setp.gt.u32", without_sign, e.constant("b32", _INFINITY))
        key = e.emit("selp.b32", e.constant("b32", marker), e.emit("xor.b32", value, flipped), nan)
        (found,) = e.effect(f"redux.{what}.s32", (key, e.read(members, "b32")), ("b32",))
        turned = e.emit("and.b32", e.emit("shr.s32", found, e.constant("b32", 31)), magnitude)
        result = e.emit("xor.b32", found, turned)
        is_nan = e.emit("setp.eq.b32", found, e.constant("b32", marker))
        e.write_register(destination, e.emit("selp.b32", magnitude, result, is_nan))

    return lower


_LARGEST, _SMALLEST, _INFINITY = 0x7FFFFFFF, 0x80000000, 0x7F800000
"""the integers that represent a nan, the first of which is the canonical nan; and the bits of infinity"""


def active_form(form: Form) -> Lower:
    if form.only().type != "b32":
        raise UnhandledForm

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        (destination,) = operands
        e.write_register(destination, _active(e))

    return lower


def elect_form(form: Form) -> Lower:
    """Lower elect.sync d|p, members: the lowest participating lane is elected."""
    form.only("sync")
    if form.types:
        raise UnhandledForm

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        destination, members = operands
        first, second = split_results(destination)
        if second is None:
            raise UnhandledForm
        (leader,) = e.effect("elect.sync", (e.read(members, "b32"),), ("b32",))
        _write(e, [(first, leader), (second, e.emit("setp.eq.b32", leader, e.special("laneid")))])

    return lower


HANDLERS: dict[str, Handler] = {
    name: lower_by_form(choose)
    for name, choose in {
        "shfl": shuffle_form,
        "vote": vote_form,
        "match": match_form,
        "redux": reduction_form,
        "activemask": active_form,
        "elect": elect_form,
    }.items()
}
