"""The state of the VM as records: what compiled code works on and the host reads.

One `MACHINE` runs CTAs one after another.  Everything it needs lies in memory that the host allocated, so that a run
can stop
anywhere (budget, deadlock, a full table) and be looked at or continued.  Nothing here needs a compiler.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

BARRIERS = 16
STACK = 64
"""entries of a warp's divergence stack"""


def record(**fields: Any) -> np.dtype[Any]:
    """A record of int64 fields, some of them arrays."""
    return np.dtype([(name, np.int64, *(() if shape == 1 else (shape,))) for name, shape in fields.items()], align=True)


INSTRUCTION = record(op=1, guard=1, d=1, a=1, b=1, c=1, imm=1, aux=1)
SEGMENT = record(host=1, bytes=1, writable=1, initialised=1, unwritten=1)
"""host address, size, 1 if stores are allowed, address of a byte map of what was written (0: everything is),
bytes not yet written"""
ENTRY = record(join=1, resume=1, mask=1)
"""where lanes meet (a `join`, or -1), where these lanes go on, which lanes"""
WARP = record(
    registers=1,  # host address of the register block
    pc=1,
    mask=1,  # lanes that run now
    alive=1,  # lanes that have not exited
    depth=1,  # entries on the stack
    waits=1,  # barrier it waits at, or -1
    wait_pc=1,
    wait_mask=1,
    parked=1,  # lanes at an unaligned barrier while others of the warp still run
    parked_count=1,
    local_initialised=1,  # of its local memory, see SEGMENT
    local_host=1,
    stack=1,  # host address of ENTRY[STACK]
    parked_entries=1,  # host address of ENTRY[STACK]
    last_pc=1,  # the last instruction that ended (an exit, a barrier)
)
BARRIER = record(
    expected=1,  # threads; 0: no count given, the whole CTA
    arrived=1,  # threads, in the open generation
    generation=1,
    syncs=1,  # warps that wait in the open generation
    first_pc=1,  # operation that opened the generation
    first_warp=1,
    popc=1,  # of the predicates given to bar.red
    every=1,
    some=1,
    last_warps=1,  # bit set of the warps that took part in the generation before
    warps=1,  # bit set (first 64 warps) of those in the open one
)
FLOW = record(count=1, lanes=1, length=1)
"""per pc: how often control came here, with how many lanes, and the instructions up to the next change of control"""
ACCESS = record(executions=1, lanes=1, shared=1, sectors=1)
"""per pc of a memory access: executions, lane accesses, shared wavefronts, global sectors"""
RAW = record(code=1, pc=1, other_pc=1, cta=1, warp=1, lanes=1, other_warp=1, count=1, detail=8)
MACHINE = record(
    access_entry=1,  # addresses of compiled functions, see vm.py
    collective_entry=1,
    warp_entry=1,
    report_entry=1,
    address=1,  # of this record
    code=1,
    instructions=1,
    segments=1,
    segment_count=1,
    warps=1,  # host address of WARP[warp_count]
    warp_count=1,
    block_threads=1,
    register_bytes=1,
    cta=1,
    cta_end=1,
    grid=3,
    cta_rows=3,  # rows of ctaid.x, .y, .z, or -1
    next_warp=1,
    live_warps=1,
    running=1,  # 1 inside a CTA, 0 between CTAs
    progress=1,
    budget=1,
    turn=1,  # warp instructions left in the turn of the running warp; negative: its turn is over
    flow=1,
    accesses=1,
    shared_host=1,
    shared_bytes=1,
    shared_initialised=1,
    local_bytes=1,  # of a warp
    scratch=1,  # host address of int64[SCRATCH]
    stamp=1,  # see memory.py's distinct-value table
    raw=1,
    raw_count=1,
    raw_capacity=1,
    fault_pc=1,
    fault_warp=1,
    barriers=1,  # host address of BARRIER[16]
)
SCRATCH = 256

DONE, DEADLOCK, BUDGET, FAULT, TRAP, PARKING, STACK_OVERFLOW = range(7)
"""why the VM returned"""
OUTSIDE, WRAPPED, READ_ONLY, BAD_INDEX = range(4)
"""detail[1] of an out-of-bounds finding"""


def address_of(array: npt.NDArray[Any]) -> int:
    return int(array.ctypes.data)


def aligned(size: int) -> npt.NDArray[np.uint8]:
    """Zeroed bytes on a 64-byte boundary: rows of registers are moved by aligned vector instructions."""
    block = np.zeros(size + 64, np.uint8)
    start = -block.ctypes.data % 64
    return block[start : start + size]
