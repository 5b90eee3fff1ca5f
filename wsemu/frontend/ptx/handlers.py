"""All instructions: opcode -> what lowers it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.frontend.ptx import arithmetic, calls, control, memory

if TYPE_CHECKING:
    from wsemu.frontend.ptx.emit import Handler

HANDLERS: dict[str, Handler] = {}
for _module in (arithmetic, memory, control, calls):
    HANDLERS.update(_module.HANDLERS)
