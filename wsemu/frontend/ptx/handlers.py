"""All instructions: opcode -> function that lowers it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.frontend.ptx import (
    arithmetic,
    atomics,
    calls,
    cluster,
    cluster_launch,
    control,
    copies,
    fragments,
    hints,
    matrix,
    mbarrier,
    memory,
    multimem,
    surfaces,
    tensor_maps,
    tensor_memory,
    textures,
    warpgroup,
)

if TYPE_CHECKING:
    from wsemu.frontend.ptx.emit import Emitter, Handler
    from wsemu.frontend.ptx.syntax import Instruction


def _or_send(opcode: str, handler: Handler) -> Handler:
    """Lower `st` and `red`, or `st.async` and `red.async`."""

    def choose(e: Emitter, instruction: Instruction) -> None:
        sends = instruction.modifiers[:1] == ("async",)
        (cluster.SENDS[opcode] if sends else handler)(e, instruction)

    return choose


_MODULES = (
    arithmetic, memory, atomics, control, calls, mbarrier, copies, cluster, cluster_launch,
    matrix, fragments, warpgroup, tensor_maps, tensor_memory, textures, surfaces, hints,
    multimem,
)  # fmt: skip
HANDLERS: dict[str, Handler] = {}
for _module in _MODULES:
    HANDLERS.update(_module.HANDLERS)
HANDLERS |= {opcode: _or_send(opcode, HANDLERS[opcode]) for opcode in cluster.SENDS}
