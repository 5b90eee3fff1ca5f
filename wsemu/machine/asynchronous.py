"""Asynchronous operations and `fence.proxy` in compiled code: each is passed to the module of its object or agent.

Such a module has these functions, as far as they apply:

    `start(m)`                                Set the initial state when a CTA starts.
    `execute(m, w, pc, registers, i, mask)`   Execute an operation of some lanes; return a status, STANDS if they wait.
    `wakes(m, w, pc, registers, i, mask)`     Continue lanes at an operation if they can, and return whether they do.
    `end(m)`                                  Report misuse when the CTA exits.

A module that is compiled as a part of its own (`parts.py`), or that is from another family (`outside.py`), is called by
address instead.
"""

from __future__ import annotations

from wsemu.machine.agents import agents, loads
from wsemu.machine.lowering import compiled
from wsemu.machine.matrix import warpgroup
from wsemu.machine.records import call, entry_at, instruction_at, machine_at, warp_at
from wsemu.machine.scalars import load_i64, store_i64
from wsemu.machine.state import DONE, ENDS, STARTS, WAKES
from wsemu.machine.sync import mbarrier, proxies, register_pool
from wsemu.machine.sync.lane_clocks import converge, time_of
from wsemu.model import tensor_memory
from wsemu.model.isa import CHECK_RESPONSE, FIRST_GROUP_OPERATION, N_OPERATIONS, OPCODE, opcodes

PROXY, INIT_FENCE = opcodes("fence", "proxy", "mbarrier_init")
(FIRST_BETWEEN,), (LAST_BETWEEN,) = opcodes("cluster", "arrive"), (OPCODE[CHECK_RESPONSE],)
(TENSOR_PREFETCH,), (GROUP_COMMIT,) = opcodes("tensor", "prefetch"), opcodes("wgmma", "commit")
MAP_RELEASE, MAP_ACQUIRE = opcodes("map", "release", "acquire")
ALLOC = OPCODE[tensor_memory.ALLOC]
"""the first operation on tensor memory, and the only one that waits"""


def asynchronous(address, w, pc, mask):
    """Execute an operation for the lanes of `mask`, and return a status, which may be STANDS. Called by address.

    With WAKES, return the lanes of a warp whose waits end. ENDS: check what is pending when a CTA exits. STARTS: a CTA
    starts.
    """
    m = machine_at(address, 0)
    if pc == WAKES:
        return take_woken_lanes(m, w)
    if pc == ENDS:
        return end(m)
    if pc == STARTS:
        return start(m)
    m.operations += 1
    if m.converged == 0 or mask == 0:
        return execute(m, w, pc, mask)
    op = instruction_at(m.code, pc).op
    if op in (mbarrier.WAIT, mbarrier.WAIT_PARITY):  # lanes that observe one phase complete continue together
        converge(m, w, mask, time_of(m, w) - 1)
        return execute(m, w, pc, mask)
    converge(m, w, mask, time_of(m, w))
    status = execute(m, w, pc, mask)
    converge(m, w, mask, time_of(m, w))
    return status


@compiled
def execute(m, w, pc, mask):
    warp = warp_at(m.warps, w)
    registers = warp.registers
    i = instruction_at(m.code, pc)
    op = i.op
    if (op >= mbarrier.INIT and op <= mbarrier.PHASE) or op == mbarrier.ASYNC_ARRIVE:
        return mbarrier.execute(m, w, pc, registers, i, mask)
    if op >= N_OPERATIONS:
        return outside(m, w, pc, mask, 0)
    if op == PROXY:
        proxies.execute(m, w, pc, i, mask)
        return DONE
    if op in (register_pool.INC, register_pool.DEC):
        return register_pool.execute(m, warp, w, pc, i, mask)
    if op == INIT_FENCE:
        mbarrier.publish(m, w, mask)
        return DONE
    if op in (loads.BULK_LOAD, loads.BULK_SEND, loads.BULK_SEND_REDUCE, loads.BULK_MULTICAST):
        return loads.load_bulk(m, w, pc, registers, i, mask)
    if op >= FIRST_GROUP_OPERATION:
        return call(m.group_entry, m.address, w, pc, mask)
    if op >= ALLOC:
        return call(m.tensor_memory_entry, m.address, w, pc, mask)
    if op in (MAP_RELEASE, MAP_ACQUIRE):
        return call(m.tensor_entry, m.address, w, pc, mask)
    if op in (loads.TENSOR_LOAD, loads.TENSOR_MULTICAST):
        return loads.load_tiles(m, w, pc, registers, i, mask)
    if op >= FIRST_BETWEEN and op <= LAST_BETWEEN:
        return call(m.cluster_entry, m.address, w, pc, mask, 0)
    if op > loads.TENSOR_LOAD and op <= TENSOR_PREFETCH:
        return loads.move_tiles(m, w, pc, mask)
    return call(m.copy_entry, m.address, w, pc, mask)


@compiled
def take_woken_lanes(m, w):
    """Complete the operations of a warp's waiting lanes that can continue, and return these lanes."""
    warp = warp_at(m.warps, w)
    lanes = 0
    for e in range(warp.parked_count):
        entry = entry_at(warp.parked_entries, e)
        if wakes(m, warp, w, entry.resume - 1, entry.mask):
            lanes |= entry.mask
    return lanes


@compiled
def wakes(m, warp, w, pc, mask):
    i = instruction_at(m.code, pc)
    if i.op in (mbarrier.WAIT, mbarrier.WAIT_PARITY):
        return mbarrier.wakes(m, w, pc, warp.registers, i, mask)
    if i.op == register_pool.INC:
        return register_pool.wakes(m, warp, i)
    if i.op == GROUP_COMMIT:
        return call(m.group_entry, m.address, w, pc, 0)
    if i.op >= FIRST_BETWEEN and i.op <= LAST_BETWEEN:
        return call(m.cluster_entry, m.address, w, pc, mask, 1)
    if i.op == ALLOC:
        return call(m.tensor_memory_entry, m.address, w, -4 - pc, mask)
    if i.op >= N_OPERATIONS:
        return outside(m, w, pc, mask, 1)
    return 0


@compiled
def outside(m, w, pc, mask, again):
    """Execute an operation of another family, and return a status, which may be STANDS.

    With `again`, continue the lanes that wait there if they can, and return whether they do.
    """
    place = m.outside + 16 * (instruction_at(m.code, pc).op - N_OPERATIONS)
    return call(load_i64(place), m.address, w, pc, mask, load_i64(place + 8), again)


@compiled
def start(m):
    mbarrier.start(m)
    agents.start(m)
    register_pool.start(m)
    warpgroup.start(m)
    m.taken = m.group
    m.refusal = 0
    m.withheld = 0
    if m.columns:  # otherwise the part may be loaded for another launch only
        call(m.tensor_memory_entry, m.address, 0, STARTS, 0)
    for n in range(m.objects_room):  # the memory of objects of other families
        store_i64(m.objects + 8 * n, 0)
    return 0


@compiled
def end(m):
    if m.group_entry:
        call(m.group_entry, m.address, 0, -1, 0)
    if m.columns:  # otherwise the part may be loaded for another launch only
        call(m.tensor_memory_entry, m.address, 0, ENDS, 0)
    register_pool.end(m)
    mbarrier.end(m)
    if m.clocks:
        call(m.copy_entry, m.address, 0, -2, 0)
    return 0
