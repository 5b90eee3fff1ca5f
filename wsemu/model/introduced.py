"""The check that an architecture has all instructions of a program.

The row of each operation names the first architecture that has it, and a later one that lacks it again (`effects.py`).
Source: PTX ISA, "Target ISA Notes" of each instruction.  Instructions of PTX text have been compared with the target of
their file before (`frontend/ptx/availability.py`).  `mma` and `wmma` are not checked: for them the architecture only
determines how sums are rounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wsemu.model.arch import LATEST, number_of
from wsemu.model.effects import EFFECTS, Family
from wsemu.model.errors import KernelError
from wsemu.model.isa import EXPECT, OPCODE, PROXIES

if TYPE_CHECKING:
    from wsemu.model.program import Program

_NEEDS: Final = {OPCODE[name]: row.family for name, row in EFFECTS.items() if row.family.since}
_OLD: Final = Family(0, "")
_EXPECTS, _ASYNC_PROXY = Family(90, "expectations of bytes"), Family(90, "`fence.proxy.async`")
"""forms that are newer than their operation"""
_ARRIVE, _PROXY = OPCODE["mbarrier.arrive"], OPCODE["fence.proxy"]


def _agree(called: str) -> str:
    """Return the verb after the name of operations; the name of one instruction is singular."""
    return "needs" if called.startswith("`") and " and " not in called else "need"


def check_instructions(program: Program, arch: str) -> None:
    """Raise a KernelError for the first instruction of a program that `arch` does not have."""
    given, latest = number_of(arch), number_of(LATEST)
    for pc, fields in enumerate(program.code.tolist()):
        family = _NEEDS.get(fields[0], _OLD)
        if fields[0] == _ARRIVE and fields[7] & EXPECT:
            family = _EXPECTS
        elif fields[0] == _PROXY and PROXIES[fields[6]].startswith("async"):
            family = _ASYNC_PROXY
        if given >= family.until:
            raise KernelError(
                f"{arch} has no {family.called}, which sm_{family.since} has",
                program.spans[program.span_of[pc]], f"use {family.instead}",
            )  # fmt: skip
        if family.since > given:
            raise KernelError(
                f"{family.called} {_agree(family.called)} sm_{family.since} or later, and this launch is for {arch}",
                program.spans[program.span_of[pc]],
                "leave out `--arch`" if family.since > latest else f"choose a later one, such as `--arch {LATEST}`",
            )
