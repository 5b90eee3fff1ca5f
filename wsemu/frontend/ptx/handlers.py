"""All instructions: opcode -> what lowers it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.frontend.ptx import arithmetic, calls, cluster, control, copies, hints, mbarrier, memory

if TYPE_CHECKING:
    from wsemu.frontend.ptx.emit import Handler

HANDLERS: dict[str, Handler] = {}
for _module in (arithmetic, memory, control, calls, mbarrier, copies, cluster, hints):
    HANDLERS.update(_module.HANDLERS)
