"""What a launch may ask for, by architecture.

Source: CUDA C++ Programming Guide, "Compute Capabilities", table of technical specifications; for sm_13 the edition of
CUDA 6.5, the last that has it.
"""

from __future__ import annotations

from typing import NamedTuple

from wsemu.errors import UsageError

KIB = 1024
WARP = 32
"""threads of a warp"""


class Limits(NamedTuple):
    """One line of the table.  Shared memory in bytes per CTA."""

    threads: int
    """threads of a CTA"""
    block: tuple[int, int, int]
    grid: tuple[int, int, int]
    static_shared: int
    """declared in the kernel"""
    shared: int
    """static and dynamic together, where the launch opts in"""
    barriers: int
    """named barriers of a CTA"""

    @property
    def warps(self) -> int:
        """Warps of a CTA."""
        return self.threads // WARP


_GRID = (2**31 - 1, 65535, 65535)
_BLOCK = (1024, 1024, 64)
LIMITS: dict[str, Limits] = {
    #               threads  block           grid                   static    static + dynamic  barriers
    "sm_13": Limits(512, (512, 512, 64), (65535, 65535, 1), 16 * KIB, 16 * KIB, 16),
    "sm_20": Limits(1024, _BLOCK, (65535, 65535, 65535), 48 * KIB, 48 * KIB, 16),
    "sm_70": Limits(1024, _BLOCK, _GRID, 48 * KIB, 96 * KIB, 16),
    "sm_75": Limits(1024, _BLOCK, _GRID, 48 * KIB, 64 * KIB, 16),
    "sm_80": Limits(1024, _BLOCK, _GRID, 48 * KIB, 163 * KIB, 16),
    "sm_86": Limits(1024, _BLOCK, _GRID, 48 * KIB, 99 * KIB, 16),
    "sm_89": Limits(1024, _BLOCK, _GRID, 48 * KIB, 99 * KIB, 16),
    "sm_90": Limits(1024, _BLOCK, _GRID, 48 * KIB, 227 * KIB, 16),
}


def limits(arch: str) -> Limits:
    """The limits of `arch`; UsageError for one that the table lacks."""
    found = LIMITS.get(arch)
    if found is None:
        raise UsageError(f"unknown arch {arch!r}: use one of {', '.join(LIMITS)}")
    return found
