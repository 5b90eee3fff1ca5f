"""`frozen-array`: a global array that the host changed after the kernel was compiled.

Detects: NumPy arrays that a kernel uses as global variables, if their bytes at the launch differ from the bytes that
the compiler copied.
Does not detect: changed numbers and tuples, which are compiled in as well; changes that were undone before the launch.
Reference: Numba CUDA, "Global variables and closure variables": these variables are constants, copied when the kernel
is compiled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.finding import Finding, Site
from wsemu.model.remedy import Cures

if TYPE_CHECKING:
    from wsemu.evidence.places import Places
    from wsemu.model.program import ConstantArray
    from wsemu.model.settings import Settings

CODES = ("frozen-array",)
CURES = {"frozen-array": Cures(580)}


def examine(places: Places, settings: Settings) -> list[Finding]:
    """Return a finding for each copied array that no longer equals its origin."""
    return [_describe(one) for one in places.program.constant_arrays if one.has_changed]


def _describe(one: ConstantArray) -> Finding:
    label = "reads the values from when the kernel was compiled"
    return Finding(
        code="frozen-array",
        message=f"`{one.name}` changed after the kernel was compiled, and the kernel still reads the old values",
        sites=[] if one.named_at is None else [Site.at(one.named_at, label, primary=True)],
        notes=["a global array is copied into the kernel as a constant at its first launch"],
        help=f"pass `{one.name}` as an argument",
    )
