"""All instructions: opcode -> what lowers it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.frontend.ptx import arithmetic, calls, control, copies, hints, mbarrier, memory

if TYPE_CHECKING:
    from wsemu.frontend.ptx.emit import Handler

HANDLERS: dict[str, Handler] = {}
for _module in (arithmetic, memory, control, calls, mbarrier, copies, hints):
    HANDLERS.update(_module.HANDLERS)
