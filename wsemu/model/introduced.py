"""From which architecture on there are the instructions of a program.

Source: PTX ISA, "Target ISA Notes" of each instruction.  Instructions of PTX text are compared with the target of their
file before (`frontend/ptx/availability.py`).  `mma` and `wmma` are not asked: there the architecture says
how sums are rounded, whichever types it has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wsemu.model.errors import KernelError
from wsemu.model.isa import EXPECT, NAMES, OPCODE, PROXIES
from wsemu.model.limits import LATEST

if TYPE_CHECKING:
    from wsemu.model.program import Program

_FAMILIES: Final = (
    ("mbarrier.expect_tx", 90, "expectations of bytes"),
    ("mbarrier.complete_tx", 90, "expectations of bytes"),
    ("mbarrier.", 80, "mbarriers"),
    ("cp.async.", 80, "`cp.async`"),
    ("bulk.", 90, "bulk copies"),
    ("tensor.", 90, "tensor copies"),
    ("map.", 90, "fences of the tensormap proxy"),
    ("elect.sync", 90, "`elect.sync`"),
    ("setmaxnreg.", 90, "`setmaxnreg`"),
    ("wgmma.", 90, "`wgmma`"),
    ("fence.mbarrier_init", 90, "`fence.mbarrier_init`"),
    ("cluster.", 90, "barriers of clusters"),
    ("async.", 90, "`st.async` and `red.async`"),
    ("collect.", 90, "`stmatrix`"),
    ("redux.", 80, "`redux.sync`"),
    ("match.", 70, "`match.sync`"),
    ("nanosleep", 70, "`nanosleep`"),
)
"""how operations begin, the compute capability that they need, what they are called"""


def _needs(name: str) -> tuple[int, str]:
    """The compute capability that an operation needs, and how it is called; 0: it is old enough."""
    return next(((since, called) for start, since, called in _FAMILIES if name.startswith(start)), (0, ""))


_NEEDS: Final = {number: _needs(name) for number, name in enumerate(NAMES) if _needs(name)[0]}
_ARRIVE, _PROXY = OPCODE["mbarrier.arrive"], OPCODE["fence.proxy"]


def check_instructions(program: Program, arch: str) -> None:
    """KernelError for the first instruction of a program that `arch` does not have."""
    given = int(arch.partition("_")[2])
    for pc, fields in enumerate(program.code.tolist()):
        since, called = _NEEDS.get(fields[0], (0, ""))
        if fields[0] == _ARRIVE and fields[7] & EXPECT:
            since, called = 90, "expectations of bytes"
        elif fields[0] == _PROXY and PROXIES[fields[6]].startswith("async"):
            since, called = 90, "`fence.proxy.async`"
        if since > given:
            raise KernelError(
                f"{called} need sm_{since} or later, and this launch is for {arch}",
                program.spans[program.span_of[pc]],
                f"choose one that has them, such as `--arch {LATEST}`",
            )
