"""What an engine hands back after a launch: how it ended, what it found, what it counted.  Data only, shared by both
engines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Status = Literal["done", "deadlock", "budget", "fault", "trap", "parking", "stack"]
"""`fault`: the hardware would raise an illegal instruction; `trap`: an unsupported operation was reached (`fault_pc`);
`parking`: lanes of a warp wait at an unaligned barrier for others that wait for them; `stack`: divergence nested too
deeply"""


@dataclass(slots=True)
class RawFinding:
    """One cause: the same code at the same one or two instructions.  The fields tell the first occurrence.

    `detail` by code: out-of-bounds and misaligned: address, size, segment (and `wrapped` or `readonly`);
    uninitialized-read: address, size, segment; barrier codes: barrier, generation, arrived, expected, count, kind.
    """

    code: str
    pc: int
    cta: int
    warp: int
    lanes: int = 0
    other_pc: int = -1
    other_warp: int = -1
    detail: dict[str, int] = field(default_factory=dict)
    count: int = 1


@dataclass(slots=True)
class WarpState:
    """A warp when a run stopped: `waits` is the barrier it waits at, or -1; `pc` the barrier operation it waits in,
    else the
    last instruction it executed (an exit, for a warp without live lanes)."""

    warp: int
    pc: int
    alive: int
    waits: int = -1


@dataclass(slots=True)
class BarrierState:
    """A named barrier when a run stopped; `expected` 0 means that no operation gave a count."""

    barrier: int
    generation: int
    arrived: int
    expected: int
    participants: list[int] = field(default_factory=list)
    """warps that took part in the open generation"""
    previous: list[int] = field(default_factory=list)
    """warps that took part in the generation before"""


@dataclass(slots=True)
class AccessCount:
    """What one load or store did: executions by warps, accesses by lanes, shared wavefronts, global sectors."""

    executions: int = 0
    lanes: int = 0
    wavefronts: int = 0
    sectors: int = 0


@dataclass(slots=True)
class Outcome:
    """A launch that ran."""

    status: Status
    findings: list[RawFinding] = field(default_factory=list)
    warp_instructions: int = 0
    thread_operations: int = 0
    executions: list[int] = field(default_factory=list)
    """per instruction, by warps"""
    accesses: dict[int, AccessCount] = field(default_factory=dict)
    """pc -> what it cost"""
    cta: int = -1
    """the CTA in which the run stopped, by linear index"""
    fault_pc: int = -1
    fault_warp: int = -1
    warps: list[WarpState] = field(default_factory=list)
    """of that CTA"""
    barriers: list[BarrierState] = field(default_factory=list)
    """those with an open generation"""
