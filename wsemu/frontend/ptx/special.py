"""Special registers (PTX ISA, chapter 10): name -> how to compute the value.

In a launch without clusters, each CTA is a cluster of its own, as PTX specifies.  Clocks vary between runs, and so do
the registers that identify hardware resources: %smid, %warpid ("its value may change during execution") and %nwarpid.
All of them have a value, but a launch is `incomplete` if its control flow depends on one (`taint.py`).  Performance
counters, and sizes that the driver or ptxas chooses, are not modeled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.frontend.ptx import variables
from wsemu.frontend.ptx.syntax import Variable
from wsemu.model.addresses import WORKSPACE
from wsemu.model.program import SYSTEM

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.frontend.assemble.graph import Register
    from wsemu.frontend.ptx.emit import Emitter

    Special = Callable[[Emitter], Register]

_WARPS_OF_MULTIPROCESSOR = 64
"""value of %nwarpid, as on an H100"""


def _read_special(name: str) -> Special:
    return lambda e: e.special(name)


def _constant(type_: str, value: int) -> Special:
    return lambda e: e.constant(type_, value)


def _own_bit(e: Emitter) -> Register:
    return e.emit("shl.b32", e.constant("b32", 1), e.special("laneid"))


def _lower_lanes(e: Emitter) -> Register:
    """Return a mask of the lanes before this one."""
    return e.emit("sub.b32", _own_bit(e), e.constant("b32", 1))


def _own_and_higher_lanes(e: Emitter) -> Register:
    return e.emit("shl.b32", e.constant("b32", -1), e.special("laneid"))


def _own_and_lower_lanes(e: Emitter) -> Register:
    return e.emit("or.b32", _lower_lanes(e), _own_bit(e))


def _warp(e: Emitter) -> Register:
    """Return the number of the warp in its CTA, as the value of %warpid; on a GPU, %warpid names a slot of the
    multiprocessor."""
    row = e.emit("mad.b32", e.special("ntid.y"), e.special("tid.z"), e.special("tid.y"))
    thread = e.emit("mad.b32", e.special("ntid.x"), row, e.special("tid.x"))
    return e.emit("varying.b32", e.emit("shr.u32", thread, e.constant("b32", 5)))


def _dynamic_bytes(e: Emitter) -> Register:
    return e.emit("cvt.b32.s64", e.special("dynamic_bytes"))


_TICKS = "CLOCK.TICKS"
_STEP = 1024
"""increment of a clock at each reading, large enough for kernels that wait until a time has passed"""


def _clock(e: Emitter) -> Register:
    """Read the thread's clock, which increases with each reading of any clock register."""
    ticks = e.names[0].get(_TICKS)
    if not isinstance(ticks, int):
        ticks = e.names[0][_TICKS] = e.graph.new("b64")
        e.graph.zeros.add(ticks)
    e.assign(ticks, "add.b64", ticks, e.constant("b64", _STEP))
    return e.emit("varying.b64", ticks)


def _clock_low(e: Emitter) -> Register:
    return e.emit("cvt.b32.s64", _clock(e))


def _clock_high(e: Emitter) -> Register:
    return e.emit("cvt.b32.s64", e.emit("shr.u64", _clock(e), e.constant("b64", 32)))


def _varying(value: int) -> Special:
    """Return a special register whose value the hardware chooses; here it is `value`."""
    return lambda e: e.emit("varying.b32", e.constant("b32", value))


def _not_modelled(name: str, type_: str) -> Special:
    """Return a special register that ends the run when it is read."""

    def special(e: Emitter) -> Register:
        e.emit_unsupported(f"`{name}`")
        return e.constant(type_, 0)

    return special


def _workspace(half: int) -> Special:
    """Return a special register: half of the address of the grid's workspace, in which the CUDA runtime keeps the
    barrier of a cooperative launch.  The address names no memory: see `grid.py`."""

    def special(e: Emitter) -> Register:
        register = e.emit("mov.b32", e.constant("b32", WORKSPACE >> 32 * half & 0xFFFFFFFF))
        e.workspace.add(register)
        return register

    return special


def _reserved_shared_offset(number: str) -> Special:
    """Return a special register: the start of a part of shared memory that the system reserves (PTX ISA,
    "%reserved_smem_offset_"), for barriers of tiles of several warps."""
    name = f"{SYSTEM}{number}"

    def special(e: Emitter) -> Register:
        place = e.names[0].get(name)
        if place is None:
            place = e.names[0][name] = variables.allocate_shared(
                e.graph, Variable("shared", "b32", name, 0, shape=(4,), alignment=16)
            )
        assert isinstance(place, variables.SharedPlace)
        return e.emit("cvt.b32.s64", place.address(e))

    return special


def _is_explicit_cluster(e: Emitter) -> Register:
    """Return whether the kernel or the launch requests clusters."""
    if e.clusters not in ("none", "of some"):
        return e.constant("p", True)
    return e.emit("setp.ne.b32", e.special("cluster_nctarank"), e.constant("b32", 1))


SPECIALS: dict[str, Special] = {
    "%laneid": _read_special("laneid"),
    "WARP_SZ": _constant("b32", 32),
    "%lanemask_eq": _own_bit,
    "%lanemask_lt": _lower_lanes,
    "%lanemask_le": _own_and_lower_lanes,
    "%lanemask_ge": _own_and_higher_lanes,
    "%lanemask_gt": lambda e: e.emit("not.b32", _own_and_lower_lanes(e)),
    "%warpid": _warp,
    "%nwarpid": _varying(_WARPS_OF_MULTIPROCESSOR),
    "%dynamic_smem_size": _dynamic_bytes,
    **dict.fromkeys(("%clock64", "%globaltimer"), _clock),
    **dict.fromkeys(("%clock", "%globaltimer_lo"), _clock_low),
    **dict.fromkeys(("%clock_hi", "%globaltimer_hi"), _clock_high),
    "%smid": _varying(0),
    "%is_explicit_cluster": _is_explicit_cluster,
    "%cluster_ctarank": _read_special("cluster_ctarank"),
    "%cluster_nctarank": _read_special("cluster_nctarank"),
    "%reserved_smem_offset_0": _reserved_shared_offset("0"),
    "%reserved_smem_offset_1": _reserved_shared_offset("1"),
    "%envreg1": _workspace(1),
    "%envreg2": _workspace(0),
}
for _axis in "xyz":
    for _name in ("tid", "ntid", "ctaid", "nctaid"):
        SPECIALS[f"%{_name}.{_axis}"] = _read_special(f"{_name}.{_axis}")
    for _name in ("clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid"):
        SPECIALS[f"%{_name}.{_axis}"] = _read_special(f"{_name}.{_axis}")
SPECIALS.update({f"%{name}.w": _constant("b32", 0) for name in ("tid", "ntid", "ctaid", "nctaid")})
for _name in ("clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid"):
    SPECIALS[f"%{_name}.w"] = _constant("b32", 0)
_VARYING = {
    "b32": (
        *("%nsmid", "%total_smem_size", "%aggr_smem_size"),
        *(f"%reserved_smem_offset_{part}" for part in ("begin", "end", "cap")),
        *(f"%envreg{n}" for n in range(32) if n not in (1, 2)),
        *(f"%pm{n}" for n in range(8)),
    ),
    "b64": ("%gridid", "%current_graph_exec", *(f"%pm{n}_64" for n in range(8))),
}
for _type, _names in _VARYING.items():
    SPECIALS.update({name: _not_modelled(name, _type) for name in _names})
