"""Hints for caches, other grids and registers (PTX ISA 9.7.9.15 to 18, 9.7.13.13, 9.7.19.5).  They do not affect
results; an unknown hint is rejected with an error that names it.

`discard` is not a hint in this sense: it writes an unpredictable value.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from wsemu.frontend.ptx.copies import integer_constant
from wsemu.frontend.ptx.forms import UnhandledForm, lower_by_form, pick_flags
from wsemu.frontend.ptx.memory import emit_misaligned_test, full_address, undefined_outside_global, undefined_where
from wsemu.frontend.ptx.syntax import Name, Number
from wsemu.model.isa import GRID_TRIGGER, GRID_WAIT

if TYPE_CHECKING:
    from wsemu.frontend.ptx.emit import Emitter, Handler
    from wsemu.frontend.ptx.forms import Form, Lower
    from wsemu.frontend.ptx.syntax import Operand

_PRIORITIES = frozenset(f"L2::evict_{what}" for what in ("last", "normal", "first", "unchanged"))
_SECOND = frozenset({"L2::evict_first", "L2::evict_unchanged"})
_TENSORMAPS = {("tensormap",), ("const", "tensormap"), ("param", "tensormap")}
_GLOBAL = frozenset({"global"})


_ONE = 0x3F800000
"""1.0, as an f32"""
_LINE = 128
"""number of bytes to which `applypriority` applies"""


def _effectless_form(operands: int) -> Lower:
    """Lower an instruction without effect."""

    def lower(e: Emitter, given: tuple[Operand, ...]) -> None:
        if len(given) != operands:
            raise UnhandledForm

    return lower


# -- caches ----------------------------------------------------------------------------------------------------------
def prefetch_form(form: Form) -> Lower:
    """Lower prefetch{.global,.local}.{L1,L2}, .L2::evict_last, .L2::evict_normal; .tensormap [a]."""
    if form.types:
        raise UnhandledForm
    if form.flags not in _TENSORMAPS:
        levels = frozenset({"L1", "L2", "L2::evict_last", "L2::evict_normal"})
        _, level = pick_flags(form.flags, frozenset({"global", "local"}), levels)
        if not level:
            raise UnhandledForm
    return _effectless_form(1)


def uniform_prefetch_form(form: Form) -> Lower:
    """Lower prefetchu.L1 [a]."""
    if form.types or form.flags != ("L1",):
        raise UnhandledForm
    return _effectless_form(1)


def priority_form(form: Form) -> Lower:
    """Lower applypriority{.global}.L2::evict_normal [a], 128."""
    _, priority = pick_flags(form.flags, _GLOBAL, frozenset({"L2::evict_normal"}))
    if form.types or not priority:
        raise UnhandledForm

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        address, size = operands
        if integer_constant(size) != _LINE:
            raise UnhandledForm
        place = full_address(e, address, "global" if "global" in form.flags else "")
        undefined_outside_global(e, place, "applypriority")
        undefined_where(
            e,
            emit_misaligned_test(e, place, _LINE),
            f"`applypriority` of an address that is no multiple of {_LINE}",
            "PTX: the address is aligned to 128 bytes; otherwise the behavior is undefined",
            f"round the address down to a multiple of {_LINE}",
        )

    return lower


_POLICIES = {"range": (4, 4), "fractional": (1, 2), "cvt": (2, 2)}
"""kind of a policy -> minimum and maximum number of operands"""


def _check_fraction(e: Emitter, operand: Operand) -> None:
    """Raise a KernelError for a constant that is not a fraction above 0; for a register, report `undefined-behavior` in
    the lanes with other contents."""
    if isinstance(operand, Name):
        value = e.read(operand, "f32")
        above = e.emit("setp.gt.f32", value, e.constant("b32", 0))
        most = e.emit("setp.le.f32", value, e.constant("b32", _ONE))
        undefined_where(
            e,
            e.emit("not.pred", e.emit("and.pred", above, most)),
            "`createpolicy.fractional` of no fraction above 0, and at most 1",
            "PTX: the fraction is above 0, and at most 1",
            "give such a fraction",
        )
        return
    if not isinstance(operand, Number) or not operand.is_float_bits:
        raise UnhandledForm
    size = operand.is_float_bits // 8
    (fraction,) = struct.unpack({4: "<f", 8: "<d"}[size], operand.value.to_bytes(size, "little"))
    if not 0 < fraction <= 1:
        raise e.error(
            operand.at, f"`createpolicy.fractional` of {fraction:g}", "give a fraction above 0, and at most 1"
        )


def _check_sizes(e: Emitter, primary: Operand, total: Operand) -> None:
    """Check that the primary size of a range is at most the total size."""
    if (
        isinstance(primary, Number)
        and isinstance(total, Number)
        and integer_constant(primary) <= integer_constant(total)
    ):
        return
    undefined_where(
        e,
        e.emit("setp.gt.u32", e.read(primary, "b32"), e.read(total, "b32")),
        "`createpolicy.range` with a primary size above the total size",
        "PTX: the primary size is at most the total size; otherwise the behavior is undefined",
        "lower the primary size, or raise the total size",
    )


def policy_form(form: Form) -> Lower:
    """Lower createpolicy.{range{.global},fractional}.primary{.secondary}.b64 and createpolicy.cvt.L2.b64: the policy is
    opaque, and 0 here."""
    kind, *others = form.flags
    if form.type != "b64":
        raise UnhandledForm
    flags = tuple(others)
    if kind == "cvt":
        if flags != ("L2",):
            raise UnhandledForm
    else:
        pick_flags(tuple([f for f in flags if f not in _PRIORITIES]), _GLOBAL if kind == "range" else frozenset())
        _, *second = (f for f in flags if f in _PRIORITIES)
        if len(second) > 1 or not _SECOND.issuperset(second):
            raise UnhandledForm
    least, most = _POLICIES[kind]

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        if not least <= len(operands) <= most:
            raise UnhandledForm
        if kind == "fractional" and len(operands) == 2:
            _check_fraction(e, operands[1])
        if kind == "range":
            place = full_address(e, operands[1], "global" if "global" in flags else "")
            undefined_outside_global(e, place, "createpolicy.range")
            _check_sizes(e, *operands[2:])
        e.write_register(operands[0], e.constant("b64", 0))

    return lower


# -- grids and registers ---------------------------------------------------------------------------------------------
def dependents_form(form: Form) -> Lower:
    """Lower griddepcontrol.{wait,launch_dependents} to a mark for traces; a launch here begins after earlier launches
    have ended."""
    if form.types or form.flags not in (("wait",), ("launch_dependents",)):
        raise UnhandledForm
    which = GRID_WAIT if form.flags == ("wait",) else GRID_TRIGGER

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        e.effect("show", (e.constant("b64", 0),), auxiliary=which)

    return lower


def registers_form(form: Form) -> Lower:
    """Lower setmaxnreg.{inc,dec}.sync.aligned.u32 number."""
    names = (frozenset({name}) for name in ("sync", "aligned"))
    what, sync, aligned = pick_flags(form.flags, frozenset({"inc", "dec"}), *names)
    if form.type != "u32" or not (what and sync and aligned):
        raise UnhandledForm

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        (number,) = operands
        e.effect(f"setmaxnreg.{what}", immediate=integer_constant(number))

    return lower


def event_form(form: Form) -> Lower:
    """Lower pmevent{.mask} number, an event for a profiler."""
    (mask,) = pick_flags(form.flags, frozenset({"mask"}))
    most = 0xFFFF if mask else 15

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        (number,) = operands
        if not 0 <= integer_constant(number) <= most:
            raise e.error(number.at, f"`pmevent` of {integer_constant(number)}", f"give a number from 0 to {most:,}")

    return lower


HANDLERS: dict[str, Handler] = {
    name: lower_by_form(choose)
    for name, choose in {
        "prefetch": prefetch_form,
        "prefetchu": uniform_prefetch_form,
        "applypriority": priority_form,
        "createpolicy": policy_form,
        "griddepcontrol": dependents_form,
        "setmaxnreg": registers_form,
        "pmevent": event_form,
    }.items()
}
