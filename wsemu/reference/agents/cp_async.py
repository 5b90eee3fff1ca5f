"""`cp.async`: a lane's small copies from global to shared memory, in the generic proxy.

PTX ISA, "Data Movement and Conversion Instructions: Asynchronous copy"; measured rules C1 to C10.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.isa import ALL, CP_ASYNC
from wsemu.reference.agents.copy import Copies, Issued, Side
from wsemu.reference.arithmetic import to_unsigned
from wsemu.reference.memory.bounds import locate
from wsemu.reference.state import list_lanes

if TYPE_CHECKING:
    from wsemu.reference.warp import WarpRun

TOO_MANY = 1
"""`what` of a copy-size finding"""


def copy(run: WarpRun, name: str, fields: list[int], lanes: int) -> None:
    """Copy `c` bytes of each lane from `b` to shared `a`, and fill up to the operation's size with zeros."""
    size = CP_ASYNC[name]
    copies = Copies(run, bulk=False)
    for lane in list_lanes(lanes):
        count = run.read(fields[5], "b32", lane)
        if count > size:
            run.cta.finding("copy-size", run.group.pc, run.warp.number, 1 << lane, bytes=count, what=TOO_MANY)
            count = (count - 1) % size + 1  # C1
        _copy(run, copies, fields, lane, size, count)
    copies.tell()
    run.cta.order.tick((run.cta.number, run.warp.number))


def _copy(run: WarpRun, copies: Copies, fields: list[int], lane: int, size: int, count: int) -> None:
    source = None
    if count:
        place = locate(run, run.read(fields[4], "b64", lane), lane, count, writes=False, alignment=size, shared=False)
        source = place and Side(place, count, range(count))
    to = to_unsigned(run.read(fields[3], "b64", lane) + fields[6], 64)
    target = locate(run, to, lane, size, writes=True, shared=True, own=True)
    if target is None or (count and source is None):
        return
    side = Side(target, size, range(size))
    agent = copies.make(lane, source, side)
    run.cta.copies[run.warp.number, lane].loose |= 3 << 2 * agent
    run.cta.issued.append(Issued(run.group.pc, run.warp.number, lane, agent, side.address, size, reads=False))


def commit(run: WarpRun, name: str, fields: list[int], lanes: int) -> None:
    for lane in list_lanes(lanes):
        run.cta.copies[run.warp.number, lane].commit()
    run.launch.watch.happen("commit", run.cta.number, run.warp.number, run.group.pc, lanes=lanes)


def wait(run: WarpRun, name: str, fields: list[int], lanes: int) -> None:
    """Wait for groups only (`cp.async.wait_group`, C6), or also for copies outside of groups (`cp.async.wait_all`)."""
    cta, warp = run.cta, run.warp.number
    everything = fields[7] & ALL
    for lane in list_lanes(lanes):
        groups = cta.copies[warp, lane]
        if everything:
            groups.commit()
        cta.order.complete_agents((cta.number, warp), lane, groups.wait(0 if everything else fields[6]))
    left = 0 if everything else fields[6]
    run.launch.watch.happen("landed", cta.number, warp, run.group.pc, -1, left, lanes)
    cta.order.begin_interval((cta.number, warp))
