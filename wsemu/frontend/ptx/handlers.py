"""All instructions: opcode -> what lowers it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.frontend.ptx import arithmetic, calls, cluster, control, copies, hints, matrix, mbarrier, memory, tensor_maps

if TYPE_CHECKING:
    from wsemu.frontend.ptx.emit import Emitter, Handler
    from wsemu.frontend.ptx.syntax import Instruction


def _or_send(opcode: str, handler: Handler) -> Handler:
    """`st` and `red`, or `st.async` and `red.async`."""

    def choose(e: Emitter, instruction: Instruction) -> None:
        sends = instruction.modifiers[:1] == ("async",)
        (cluster.SENDS[opcode] if sends else handler)(e, instruction)

    return choose


HANDLERS: dict[str, Handler] = {}
for _module in (arithmetic, memory, control, calls, mbarrier, copies, cluster, matrix, tensor_maps, hints):
    HANDLERS.update(_module.HANDLERS)
HANDLERS |= {opcode: _or_send(opcode, HANDLERS[opcode]) for opcode in cluster.SENDS}
