"""The control of cluster launches, in compiled code: `clusterlaunchcontrol` (PTX ISA, "try_cancel").

A request by a cluster cancels the launch of another cluster. The table `m.successors` names it: the one after the last
cluster that was canceled, or the number of clusters if none is left. The response is a copy of 16 bytes
(`agents/loads.py`).

If the table has -1, the host decides later. Until then, the copy is withheld and further requests wait.
"""

from __future__ import annotations

from wsemu.machine.lowering import compiled
from wsemu.machine.records import record_finding
from wsemu.machine.scalars import load_i64, load_u32, lowest_bit, store_i64, store_u32
from wsemu.machine.state import DONE, STANDS
from wsemu.machine.sync.lane_clocks import lane_row, time_bits
from wsemu.model.codes import CODE_NUMBERS
from wsemu.model.isa import CHECK_RESPONSE, OPCODE, REQUEST_CLUSTER

REQUEST, CHECK = OPCODE[REQUEST_CLUSTER], OPCODE[CHECK_RESPONSE]
AGAIN, REFUSED = CODE_NUMBERS["clc-after-failure"], CODE_NUMBERS["clc-no-ctaid"]


@compiled
def successor(m, number):
    """Return the cluster that is canceled after another one; the number of clusters if that was the last."""
    return load_i64(m.successors + 8 * number) if number < m.successor_count else number


@compiled
def has_seen_refusal(m, w, lane):
    """Return whether a lane has observed the response of a failed request."""
    at = m.refusal - m.agent_low
    if at < 0:
        return True
    return (load_i64(lane_row(m, w, lane) + time_bits(m) + 8 * (at >> 6)) >> (at & 63)) & 1 != 0


@compiled
def answer(m, warp, w, pc, i, mask):
    """Write the number of the canceled cluster to the register of each lane."""
    again = 0
    while mask:
        lane = lowest_bit(mask)
        mask &= mask - 1
        if m.refusal and m.clocks and has_seen_refusal(m, w, lane):
            again |= 1 << lane
        m.taken = successor(m, m.taken)
        if m.taken == m.successor_count and m.refusal == 0:
            m.refusal = m.agent_next  # number of the copy that will deliver it
        store_u32(warp.registers + i.d + 4 * lane, m.taken)
    if again:
        record_finding(m.report_entry, m.address, (AGAIN, pc, w, again, -1, -1), (0, 0, 0, 0, 0))


@compiled
def execute(m, warp, w, pc, i, mask):
    """Execute an operation; return a status, which may be STANDS."""
    if i.op == REQUEST:
        if m.withheld:
            return STANDS
        if successor(m, m.taken) < 0:
            m.withheld = w + 1
            m.withheld_pc = -1
            return DONE
        answer(m, warp, w, pc, i, mask)
        return DONE
    wrong = 0
    while mask:
        lane = lowest_bit(mask)
        mask &= mask - 1
        wrong |= (load_u32(warp.registers + i.a + 4 * lane) & 1 == 0) << lane
    if wrong:
        record_finding(m.report_entry, m.address, (REFUSED, pc, w, wrong, -1, -1), (0, 0, 0, 0, 0))
    return DONE


@compiled
def wakes(m, warp, w, pc, i, mask):
    """Continue lanes at a request if no response is withheld any longer, and return whether they do."""
    if m.withheld:
        return 0
    execute(m, warp, w, pc, i, mask)
    return 1


@compiled
def withholds(m, w, pc, registers, mask):
    """Return whether a warp's copy is a response that must be withheld; if it is, keep the copy's operands."""
    if m.withheld != w + 1 or m.withheld_pc >= 0:
        return False
    m.withheld_pc = pc
    m.withheld_mask = mask
    for q in range(m.register_bytes >> 3):
        store_i64(m.withheld_registers + 8 * q, load_i64(registers + 8 * q))
    return True
