"""The number of co-resident CTAs by architecture.  CTAs that wait for each other must be co-resident.

The limits of a multiprocessor are in the architecture's row (`arch.py`).  The allocation units of registers and shared
memory are from the CUDA occupancy calculator.  If the user does not specify the number of multiprocessors, it is that
of the largest GPU of the architecture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.arch import ARCHS, WARP
from wsemu.model.finding import Residency

if TYPE_CHECKING:
    from wsemu.model.launch_shape import LaunchConfiguration
    from wsemu.model.program import Program


_UNIT, _REGISTERS = 128, 8
"""allocation units: bytes of shared memory, registers per thread"""


def ctas_per_multiprocessor(arch: str, threads: int, shared: int, registers: int = 0) -> tuple[int, str]:
    """Return the number of CTAs that fit on a multiprocessor, and the resource that limits it.  A CTA has this many
    threads, bytes of shared memory, and registers per thread (0: unknown)."""
    has = ARCHS[arch].multiprocessor
    warps = -(-threads // WARP)
    bytes_ = -(-(shared + has.reserved) // _UNIT) * _UNIT
    limits = [(has.threads // WARP // warps, "threads"), (has.ctas, "CTAs")]
    if bytes_:
        limits.append((has.shared // bytes_, "shared memory"))
    if registers:
        limits.append((has.registers // (-(-registers // _REGISTERS) * _REGISTERS * WARP * warps), "registers"))
    return min(limits, key=lambda limit: limit[0])


def residency(program: Program, configuration: LaunchConfiguration, ctas: int, what: str, sms: int) -> Residency:
    """Return the requirement of a launch in which `ctas` CTAs must be co-resident, and the limit.

    `what` is the group that the CTAs form.  `sms` is the number of multiprocessors, or 0 for that of the largest GPU of
    the architecture.
    """
    arch, most = configuration.arch, ARCHS[configuration.arch].multiprocessor.most
    shared = -(-program.shared_bytes // 16) * 16 + configuration.dynamic_shared
    each, by = ctas_per_multiprocessor(arch, configuration.threads, shared, program.registers)
    return Residency(
        ctas=ctas, of=what, each=each, limited_by=by, multiprocessors=sms or most, known=sms > 0
    )  # fmt: skip
