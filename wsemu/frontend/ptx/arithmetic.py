"""Handlers of all opcodes of arithmetic, logic, conversion and exchange between lanes.

For an opcode that integers and floating-point numbers share, the type selects the module: `add.s32` is in `integer`,
`add.f32` in `floating`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.frontend.ptx import bits, conversion, floating, integer, logic, video, warp
from wsemu.frontend.ptx.forms import lower_by_form

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.frontend.ptx.emit import Handler
    from wsemu.frontend.ptx.forms import Form, Lower

_OF_INTEGERS = integer.INTEGERS | set(integer.PAIRS)


def _select_by_type(opcode: str) -> Callable[[Form], Lower]:
    def choose(form: Form) -> Lower:
        group = integer.SHARED if set(form.types) <= _OF_INTEGERS else floating.SHARED
        return group[opcode](form)

    return choose


HANDLERS: dict[str, Handler] = {
    **integer.HANDLERS,
    **bits.HANDLERS,
    **floating.HANDLERS,
    **conversion.HANDLERS,
    **logic.HANDLERS,
    **video.HANDLERS,
    **warp.HANDLERS,
    **{opcode: lower_by_form(_select_by_type(opcode)) for opcode in integer.SHARED},
}
