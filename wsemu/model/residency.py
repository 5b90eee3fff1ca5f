"""How many CTAs a GPU holds at once, by architecture: those that wait for each other have to be alive together.

Sources: CUDA C++ Programming Guide, "Compute Capabilities", table of technical specifications per compute capability
(sm_13: edition of CUDA 6.5); "Shared Memory" of the chapters on 8.x and 9.0 for what the system reserves of each CTA;
CUDA occupancy calculator for the units in which registers and shared memory are given out.  The number of
multiprocessors is a GPU's: without one asked for, that of the largest GPU of the architecture (NVIDIA's whitepapers).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.data import NamedTuple
from wsemu.model.finding import Residency
from wsemu.model.limits import KIB, WARP

if TYPE_CHECKING:
    from wsemu.model.launch_shape import LaunchConfiguration
    from wsemu.model.program import Program


class Multiprocessor(NamedTuple):
    """What one holds at once."""

    threads: int
    ctas: int
    shared: int
    """bytes"""
    registers: int
    reserved: int
    """bytes of shared memory that the system takes for itself from each CTA"""
    most: int
    """multiprocessors of the largest GPU"""
    gpu: str
    """that one"""


MULTIPROCESSORS: dict[str, Multiprocessor] = {
    #                        threads CTAs shared     registers   reserved most
    "sm_13": Multiprocessor(1024, 8, 16 * KIB, 16 * KIB, 0, 30, "GTX 285"),
    "sm_20": Multiprocessor(1536, 8, 48 * KIB, 32 * KIB, 0, 16, "GTX 580"),
    "sm_70": Multiprocessor(2048, 32, 96 * KIB, 64 * KIB, 0, 80, "V100"),
    "sm_75": Multiprocessor(1024, 16, 64 * KIB, 64 * KIB, 0, 72, "RTX 8000"),
    "sm_80": Multiprocessor(2048, 32, 164 * KIB, 64 * KIB, KIB, 108, "A100"),
    "sm_86": Multiprocessor(1536, 16, 100 * KIB, 64 * KIB, KIB, 84, "A40"),
    "sm_89": Multiprocessor(1536, 24, 100 * KIB, 64 * KIB, KIB, 142, "L40"),
    "sm_90": Multiprocessor(2048, 32, 228 * KIB, 64 * KIB, KIB, 132, "H100"),
}
_UNIT, _REGISTERS = 128, 8
"""bytes of shared memory, registers of a thread, that are given out at a time"""


def held(arch: str, threads: int, shared: int, registers: int = 0) -> tuple[int, str]:
    """CTAs of so many threads, bytes of shared memory and registers a thread (0: unknown) that a multiprocessor holds
    at once, and what there is not more of."""
    has = MULTIPROCESSORS[arch]
    warps = -(-threads // WARP)
    bytes_ = -(-(shared + has.reserved) // _UNIT) * _UNIT
    limits = [(has.threads // WARP // warps, "threads"), (has.ctas, "CTAs")]
    if bytes_:
        limits.append((has.shared // bytes_, "shared memory"))
    if registers:
        limits.append((has.registers // (-(-registers // _REGISTERS) * _REGISTERS * WARP * warps), "registers"))
    return min(limits, key=lambda limit: limit[0])


def residency(program: Program, configuration: LaunchConfiguration, ctas: int, what: str, sms: int) -> Residency:
    """What a launch needs of which so many CTAs have to run at once, and what there is: `what` they are of, `sms`
    multiprocessors, or 0 for those of the largest GPU of the architecture."""
    arch = configuration.arch
    shared = -(-program.shared_bytes // 16) * 16 + configuration.dynamic_shared
    each, by = held(arch, configuration.threads, shared, program.registers)
    return Residency(
        ctas=ctas, of=what, each=each, limited_by=by, multiprocessors=sms or MULTIPROCESSORS[arch].most, known=sms > 0
    )
