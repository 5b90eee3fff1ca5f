"""setmaxnreg in compiled code: warps release registers to the pool of their CTA, and take registers from the pool
(rule L2 of docs/semantics.md).

When the CTA ends, the warps of a warpgroup are compared by the counts and directions of the setmaxnreg operations that
they executed.  Positions of instructions do not matter, because a compiler may put one instruction into two branches.
"""

from __future__ import annotations

from wsemu.machine.lowering import compiled
from wsemu.machine.records import instruction_at, record_finding, warp_at
from wsemu.machine.scalars import load_i64
from wsemu.machine.state import DONE, STANDS
from wsemu.model.codes import CODE_NUMBERS
from wsemu.model.isa import LANES, opcodes

INC, DEC = opcodes("setmaxnreg", "inc", "dec")
MISUSE, REPEATED = CODE_NUMBERS["setmaxnreg"], CODE_NUMBERS["setmaxnreg-repeated"]
BAD_COUNT, DIRECTION, PART, DIFFERENT, AT_ONCE = range(5)
"""values of detail[1] in a finding of MISUSE or REPEATED: the rule that a setmaxnreg breaks"""
MIX = 0x2545F4914F6CDD1D


@compiled
def judge_count(m, warp, w, pc, i, mask):
    """Return whether a warp may request, or keep, the number of registers of a setmaxnreg; report errors."""
    wrong = -1
    if i.imm < 24 or i.imm > 256 or i.imm & 7:
        wrong = BAD_COUNT
    elif mask != warp.alive:
        wrong = PART
    elif warp.held and (i.imm < warp.held if i.op == INC else i.imm > warp.held):
        wrong = DIRECTION
    if wrong >= 0:
        record_finding(m.report_entry, m.address, (MISUSE, pc, w, mask, -1, -1), (i.imm, wrong, warp.held, 0, 0))
        return False
    follow(m, warp, w, pc, i, mask)
    return warp.held != 0


@compiled
def follow(m, warp, w, pc, i, mask):
    """Record that a warp executes a setmaxnreg.  Report it if the warp has not synchronized since its previous
    setmaxnreg: as REPEATED if both have the same count, otherwise as MISUSE."""
    now = load_i64(warp.clock + 8 * w) if m.clocks else -1
    if m.clocks and warp.adjusted and warp.adjusted_at == now:
        earlier = warp.adjusted_pc
        code = REPEATED if instruction_at(m.code, earlier).imm == i.imm else MISUSE
        record_finding(m.report_entry, m.address, (code, pc, w, mask, earlier, w), (i.imm, AT_ONCE, warp.held, 0, 0))
    warp.adjusted = (warp.adjusted ^ (i.imm + (512 if i.op == INC else 1024))) * MIX + 1
    warp.adjusted_pc = pc
    warp.adjusted_at = now


@compiled
def end(m):
    """Report, once for each warpgroup, that its warps have executed different setmaxnreg operations."""
    told = -1
    for w in range(m.warp_count):
        first = w - ((w % m.cta_warps) & 3)
        own = warp_at(m.warps, w)
        other = warp_at(m.warps, first)
        if told != first and own.adjusted != other.adjusted:
            if own.adjusted:
                tell_different(m, w, first)
            else:
                tell_different(m, first, w)
            told = first


@compiled
def tell_different(m, w, other):
    """Report that warp `w` has executed other setmaxnreg operations than warp `other`, which may have executed none."""
    warp = warp_at(m.warps, w)
    its = warp_at(m.warps, other)
    lanes = (1 << LANES) - 1
    earlier = its.adjusted_pc if its.adjusted else -1
    pc = warp.adjusted_pc
    held = warp.held
    count = instruction_at(m.code, pc).imm
    record_finding(m.report_entry, m.address, (MISUSE, pc, w, lanes, earlier, other), (count, DIFFERENT, held, 0, 0))


@compiled
def has(m, warp, i):
    """Return whether the pool has the registers that a warp requests."""
    return i.imm - warp.held <= m.pool


@compiled
def take(m, warp, i):
    m.pool -= i.imm - warp.held
    warp.held = i.imm


@compiled
def execute(m, warp, w, pc, i, mask):
    """Release or take registers.  Return the status: STANDS if the warp has to wait for registers."""
    if not judge_count(m, warp, w, pc, i, mask):
        return DONE
    if i.op == DEC:
        m.pool += warp.held - i.imm
        warp.held = i.imm
        return DONE
    if not has(m, warp, i):
        return STANDS
    take(m, warp, i)
    return DONE


@compiled
def wakes(m, warp, i):
    """Take the registers that a warp waits for, and return whether the pool has them."""
    if not has(m, warp, i):
        return False
    take(m, warp, i)
    return True


@compiled
def start(m):
    """Give each warp the registers of the launch; the pool is empty."""
    for w in range(m.warp_count):
        warp_at(m.warps, w).held = m.registers
        warp_at(m.warps, w).adjusted = 0
