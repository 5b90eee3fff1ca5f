"""The state of the VM as records: what compiled code works on and the host reads.

One `MACHINE` runs groups of CTAs one after another, most of them of one CTA.  Everything it needs lies in memory that
the host allocated, so that a run can stop anywhere (budget, deadlock, a full table) and be looked at or continued.
Nothing here needs a compiler.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.machine.checked import allowing

if TYPE_CHECKING:
    import numpy.typing as npt

    from wsemu.model.outcome import EventKind

BARRIERS = 16
CTA_ROWS = 5 * BARRIERS + 1
"""rows of `lane_clocks` that belong to one CTA"""
KEPT_GROUPS = 8
"""groups of `wgmma` of a warpgroup of which it is kept what came before, see matrix/warpgroup.py"""
GROUP_ROWS = KEPT_GROUPS + 5
"""rows of `lane_clocks` that belong to one warpgroup"""
STACK = 64
"""entries of a warp's divergence stack that branches may fill"""
STACK_ROOM = STACK + 34
"""and with the groups of lanes that come from barriers"""


def record(**fields: Any) -> np.dtype[Any]:
    """A record of int64 fields, some of them arrays."""
    return np.dtype([(name, np.int64, *(() if shape == 1 else (shape,))) for name, shape in fields.items()], align=True)


UNUSED_SHIFT = 24
"""position in `aux` of a load at which the bytes begin that are unused"""
INSTRUCTION = record(op=1, guard=1, d=1, a=1, b=1, c=1, imm=1, aux=1)
SEGMENT = record(
    host=1,  # host address
    bytes=1,
    writable=1,  # 1 if stores are allowed
    open=1,  # 1 if they are, wherever they go
    covered=1,  # else host address of a byte for each byte: 1 where they are; 0: nowhere, or at all of them
    kind=1,  # of memory, a bit: IN_SHARED, ...
    initialised=1,  # address of a byte map of what was written (0: everything is)
    unwritten=1,  # bytes not yet written
    tracked=1,  # see UNTRACKED
    grain=1,  # log2 of the bytes that a cell of shadow memory stands for; -1: no cells yet
    writes=1,  # host address of the cell of byte 0, for the last write
    reads=1,  # the same for reads and atomics
    low=1,  # cells touched, from low to high - 1; where there is a window, by the CTA at hand
    high=1,
    window_writes=1,  # host addresses of WINDOW cells, which a CTA at a time has: see `shadow.note_range`; or 0
    window_reads=1,
    window=1,  # the cell that is the first one there
    start=1,  # cells that CTAs before had there, from `start` to `passed` - 1
    passed=1,
    marks=1,  # host address of a byte for each byte: 1 where lanes of a warp may conflict; or 0
    watched=1,  # host address of an int64 for each cell that lane_order.py judges: 0 not watched, 1 no accesses, or the
    # number of the first LANE_ACCESS; or 0
    watched_grain=1,  # log2 of the bytes of these cells
    marked=1,  # host address of a byte for each byte: LOADED, STORED, or both; or 0; see read_only.py
    claims=1,  # host address of int32[2][bytes]: of the first load, and store, of such a byte the number of its CLAIM,
    # from 1, or 0
)
VARIABLE = record(begin=1, bytes=1, writable=1)
"""the variable of local memory whose number an address has: where it begins in a thread's memory, its bytes, and 1 if
stores are allowed; number 0 is all of that memory"""
STEP = 24
"""bytes of a logged step: warp << 32 | instruction; its lanes; how many events the trace has had before"""
WINDOW, BEFORE = 1 << 15, 1 << 14
"""cells of a window, and those before the one that a CTA touches first"""
NOWHERE = 1 << 40
"""`low` of no cells"""
LOADED, STORED = 1, 2
"""a byte was loaded through the read-only cache; was written"""
CLAIM = record(pc=1, cta=1, warp=1, lanes=1, interval=1)
"""an access by a warp that was the first of its kind to a byte"""
UNTRACKED, READ_SO_FAR, TRACKED = range(3)
"""race checking of a segment: READ_SO_FAR assumes that it is never written, and a store stops the VM"""
ENTRY = record(join=1, resume=1, mask=1)
"""entry of the divergence stack: the reconvergence point of its lanes (a `join`, or -1), where they continue, which
lanes"""
MIDWAY = -2
"""`join` of an entry whose lanes wait in the midst of a stretch of code, not at a branch"""
HELD = 16
"""`waits` of a warp whose lanes wait for each other, some at a barrier and others at warp-wide operations"""
AWAITS = 17
"""`waits` of a warp of which some lanes wait for a phase of an mbarrier or for registers, and no others can run"""
SCRIPTED = 18
"""`waits` of a warp that is parked before an ordered access until the host resumes a lane; see memory/ordered.py"""
STANDS = 101
"""lanes wait at an operation of kind `async`"""
YIELDED = 100
"""a warp waits, has ended, or its turn is over; never leaves `run`"""
WARP = record(
    registers=1,  # host address of the register block
    pc=1,
    mask=1,  # lanes that run now
    alive=1,  # lanes that have not exited
    depth=1,  # entries on the stack
    waits=1,  # barrier it waits at, HELD, or -1
    wait_pc=1,
    wait_mask=1,
    parked=1,  # lanes that stand at an operation that waits for others of the warp
    parked_count=1,
    midway=1,  # 1: the lanes that run go on in the midst of a stretch of code that was counted before
    local_initialised=1,  # of its local memory, see SEGMENT
    local_unwritten=1,
    local_map=1,  # host address of the bytes that `local_initialised` is at a CTA's start; or 0
    local_host=1,
    stack=1,  # host address of ENTRY[STACK_ROOM]
    parked_entries=1,  # the same
    last_pc=1,  # the last instruction that ended (an exit, a barrier)
    clock=1,  # host address of int64[32]: for each warp, the last interval known to happen before now; see clocks.py
    synced=1,  # up to this interval of its own, all lanes know of each other
    partial=1,  # 1: lane_clocks tells more
    lane_clocks=1,  # host address of int64[32][32]: what lane i knows of lane j, an interval
    leaders=1,  # host address of int64[32]: the lane that has the row of `known` in which stands what this lane knows
    fenced=1,  # host address of int64[4][32]: of each lane the interval that its last proxy fence ended, for shared and
    # for global memory, and that its last release of tensor maps did, of a scope beyond its CTA, and of any
    held=1,  # registers of a thread
    member=1,  # its CTA in the group that runs, from 0
    whole=1,  # the lanes that it has at its start
    known_at=1,  # behind the barrier that a compiled block has left for: there its rows lie as that takes them; or 0
    cluster_arrived=1,  # lanes that have arrived in the open phase of the cluster's barrier
    cluster_passed=1,  # the same of the phase before, if they have not waited
    multiplied=1,  # what tells the wgmma that it has executed in this CTA, with their operands, from others; 0: none
    multiplied_pc=1,  # the last of them
    adjusted=1,  # what tells the setmaxnreg that it has executed in this CTA from others; 0: none
    adjusted_pc=1,  # the last of them
    adjusted_at=1,  # and its interval
    committed=1,  # groups of wgmma
    closed=1,  # of the first warp of a warpgroup: groups that all four have committed
    flying=10,  # by commits since, up to OLDEST_GROUP: which wgmma of those with a mark are under way
    unfenced=1,  # which wgmma, of those with a mark, have registers that were touched since the last fence
    served=1,  # lanes that have made the ordered access before which the warp stands
    asks=1,  # lanes that have not
)
CTA = record(
    live_warps=1,  # as of MACHINE, while another CTA's are at hand
    pool=1,
    barriers=1,
    exited=1,
    first_warp=1,
    met=1,  # phases of the grid's barrier at which it has arrived
)
"""state of one CTA of a group; MACHINE has that of the CTA whose warp runs, see sync/group.py"""
BARRIER = record(
    expected=1,  # threads; 0: no count given, the whole CTA
    arrived=1,  # threads, in the open generation
    generation=1,
    syncs=1,  # warps that wait in the open generation
    first_pc=1,  # operation that opened the generation
    first_warp=1,
    forms=1,  # bit set of WITHOUT_COUNT, WITH_COUNT, GIVES: what took part in the open generation
    reduces=1,  # the bar.red that it consists of, or 0
    popc=1,  # of the predicates given to bar.red
    every=1,
    some=1,
    last_warps=1,  # bit set of the warps that took part in the generation before
    warps=1,  # bit set of those in the open one
    all_met=1,  # 1: in the generation before all warps of the group waited as a whole
    clock=1,  # host address of int64[32]: what the operations of the open generation have given; what warps that wait
    # as a whole give is there when it is needed: see `clocks.join_waiting`
    took=1,  # host address of int64[32]: the interval that each warp's last operation in it ended, 0: none
    took_pc=1,
    took_before=1,  # of the generation before
    took_before_pc=1,
)
KNOWN_OPERANDS, COUNT_SHIFT = 1 << 40, 8
"""in `imm` of a barrier operation: beside it are the barrier's number and, from that bit on, the count or 0"""
MOST_COUNT = 1 << 20
WITHOUT_COUNT, WITH_COUNT, GIVES = 1, 2, 4
"""an operation that gives no count, one that gives one, an arrive"""
MBARRIER = record(
    live=1,
    word=1,  # of shared memory, of 8 bytes
    phase=1,
    pending=1,
    expected=1,
    tx=1,
    init_pc=1,
    init_warp=1,
    init_lanes=1,  # of one instruction
    init_interval=1,
    published=1,  # when the threads that made it executed a fence.mbarrier_init; 0: they did not
    far_pc=1,  # of an arrival of another CTA in the open phase that gave something, or -1
    far_warp=1,
    far_before_pc=1,  # the same of the phase before
    far_before_warp=1,
    inval_pc=1,
    inval_warp=1,
    inval_lane=1,
    inval_interval=1,
    wanted=1,  # bytes that the open phase was to wait for so far
    brought=1,  # bytes of it that have come
    added=1,  # arrivals that copies have added to it
    tx_pc=1,  # last operation of the phase that named bytes, or -1
    tx_warp=1,
    last_pc=1,  # last registrant of the phase
    last_warp=1,
    waiters=1,  # lanes that stand there
    expecting=1,  # 1: the open phase has an expectation, and `cover` is kept
    holding=1,  # 1: it has an arrival that must not complete it, and `followed` is kept
    emptied=1,  # 1: an operation of size 0 has been in no phase, and `cover` is kept
    given=3,  # host addresses of rows as of lane_clocks.py: what was given to the open phase, to the one before; unused
    joined=3,  # rows: the last registrant of each thread, and the asynchronous ones, in the open phase and two before
    joined_pc=3,  # int64[32 * warps]: their instructions
    used=1,  # row: the last use by each thread, and asynchronous ones
    used_pc=1,
    reach=1,  # int64[32 * warps]: what the registrants of the open phase know, and they themselves; intervals
    # with `operations` below them, as in the next four
    cover=1,  # the same of its arrivals
    waited=1,  # the last wait of each thread that saw the phase before
    waited_first=1,
    waited_pc=1,
    expects=1,  # the last expectation of bytes of each thread in the open phase
    expects_pc=1,
    pluses=1,  # the same of arrivals for copies
    pluses_pc=1,
    empties=1,  # the last operation of size 0 of each thread that was in no phase, of this one and those before
    empties_pc=1,
    held=1,  # the last arrival of each thread that must not complete the open phase
    held_pc=1,
    followed=1,  # what the registrants come after, themselves excepted
)
THIN_ROWS, FULL_ROWS = 18, 6
"""rows of an mbarrier: of threads alone, and of threads and asynchronous operations"""
AGENT = record(pc=1, warp=1, lane=1, address=1, bytes=1, what=1, group=1, next=1)
"""an asynchronous operation: what: COPIES, STORES, ARRIVES, READS_DONE of the one after, or SENDS; its group, and the
next one of the same thread, 0: none"""
COPIES, STORES, ARRIVES, READS_DONE, SENDS, COLUMNS_TOUCHED = range(6)
TENSOR_CTA = record(
    owned=1,  # granules of tensor memory, a bit each
    starts=1,  # those at which an allocation begins
    sizes=16,  # of each such allocation its granules
    pcs=16,  # and the instruction and warp that made it
    warps=16,
    relinquished=1,  # 1: it has given up the permit to allocate
    relinquished_pc=1,
    relinquished_warp=1,
    last=1,  # columns of the last allocation; 0: there was none
    last_pc=1,
    last_warp=1,
    group=1,  # the cta_group of its operations, or 0
    group_pc=1,
    group_warp=1,
    offered=1,  # of a pair: granules that the even CTA has found for the odd one, from 1, or 0
    taken=1,  # 1: the odd one has them, and the even one has not asked again
    filled=5,  # collector buffers (a, b0 to b3) whose operand may be used: the instruction that filled it and 1, or 0
    filled_by=5,  # the warp that did
    filled_with=5,  # descriptor, or address in tensor memory, of that operand
    filled_shape=5,  # its rows, and how they lie
    filled_sum=5,  # a checksum of its elements
)
"""tensor memory of a CTA, see matrix/tensor_memory.py"""
PRODUCT = record(
    kind=1,  # an index of `tensor_memory.KINDS`
    rows=1,  # of a CTA
    n=1,  # columns of D
    layout=1,  # how rows and columns lie in tensor memory, see matrix/tensor_operands.py
    lane=1,  # the first one of D: 0 or 16
    column=1,
    a=1,  # descriptor, or address in tensor memory
    b=1,
    in_columns=1,  # 1: `a` lies in tensor memory
    turned_a=1,  # 1: rows, columns lie side by side in memory
    turned_b=1,
    size_a=1,  # bytes of a container of an element
    size_b=1,
    narrow_a=1,  # bits of an element of less than 8 bits, or 0
    narrow_b=1,
    flip_a=1,  # sign bits of a register, where they are flipped
    flip_b=1,
    shape=1,  # in `tensor_shapes`
    adds=1,  # 1: to what D holds
    clamps=1,
    masked=1,  # 1: lanes of D may be left out
    left_out=8,  # of each 32 lanes a mask, of both CTAs of a pair
    vector=1,  # factors of a row, as a power of 2
    scale_a=1,  # columns of factors
    scale_b=1,
    id_a=1,  # the first byte of a word that counts
    id_b=1,
    fine=1,  # 1: factors are ue4m3, else ue8m0
    pair=1,  # 1: two CTAs
    wrong=1,  # what is wrong with its descriptors, from 1
    value=1,
)
"""the decoded fields of one `tcgen05.mma`"""
TENSOR_ACCESS = record(
    number=1,  # of the asynchronous operation
    warp=1,
    lane=1,
    pc=1,
    interval=1,  # of the warp when it was issued
    member=1,  # whose tensor memory
    what=1,  # a class of accesses
    group=1,  # cta_group
    key=1,  # address and shape, where these decide
    bands=1,  # a bit for each 16 lanes
    low=1,  # columns, from low to high - 1
    high=1,
    writes=1,
)
"""an access to tensor memory that others may have to come after, see matrix/tensor_accesses.py"""
GROUPS = record(first=1, last=1, read=1, since=1, committed=1)
"""groups of a thread: its asynchronous operations that it has not waited for, the first one whose reads it has not
waited for, the first one that a `cp.async.mbarrier.arrive` would cover, and how many groups it has committed"""
FLOW = record(count=1, lanes=1, length=1)
"""per pc: how often control came here, with how many lanes, and the instructions up to the next change of control"""
ACCESS = record(
    executions=1, lanes=1, shared=1, ideal_shared=1, sectors=1, ideal_sectors=1, uncounted=1, pattern=1, forbids=1
)  # fmt: skip
"""per pc of a memory access: executions, lane accesses, shared wavefronts, global sectors, the minimum of these;
executions whose wavefronts no rule covers; which pair of PATTERNs is its own; and the kinds of memory that it must not
reach"""
MOST_PIECES = 128
PLAN = record(
    steps=32,  # of each lane's address from the first one's
    of=1,  # where constants lie that are the same, if one knows
    count=1,  # of pieces
    apart=1,  # 1: no two lanes share a cell
    wide=1,  # 1: a piece is four cells side by side, not one
    low=1,  # the least of the steps; in local memory, of what these are beyond the step from lane to lane
    end=1,  # the byte behind the greatest
    grain=1,  # log2 of the bytes of a cell
    place=1,  # SHARED, LOCAL, or FIRST_ARRAY for any array
    how=1,  # QUARTERS, ALIKE or SCATTERED, see lane_access.py
    boundary=1,  # of an access to an array: where in a sector the first address lies
    cost=1,
    ideal=1,
    pieces=MOST_PIECES,  # where they begin, in bytes of shadow memory from the first lane's cell
    lanes=MOST_PIECES,  # of each cell the lowest lane and the highest, as a cell has them
)
"""pattern of the accesses of a load or store, see memory/plans.py"""
PERMIT = record(
    low=1,  # the least address of a first lane, with the segment's number
    span=1,  # of such addresses; 0: there is no permit
    mask=1,  # low bits that they have in common with `low`
    start=1,  # where that is in the segment
    segment=1,  # host address of its record
    judged=1,  # 1: races are looked for
    grain=1,  # of its cells
    writes=1,  # those at `low`
    reads=1,
    group=1,  # of CTAs
    floor=1,
    count=1,  # accesses that were made by it and are not counted elsewhere yet
    mixed=1,  # how many accesses side by side are taken to find cells of which others did differently
    shared=1,  # what an access costs, as ACCESS has it
    ideal_shared=1,
    sectors=1,
    ideal_sectors=1,
)
"""cells for which accesses of an instruction by whole warps need no closer look, see tier/permits.py"""
NOTHING, FOLLOWING, NOTING = range(3)
"""treatment of a CTA's accesses to shared memory, see tier/sections.py: they are judged; compared with those of an
earlier section; judged and recorded"""
STARTS, MET, BREAKS, MAKES, MADE, CHANGES, BEATS = range(7)
"""events that sections receive: a CTA begins; all its warps have met at a barrier; something happens that they do not
cover; the VM is about to access shared memory; it has accessed it; the knowledge of some warps has changed; some have
met"""
SECTION = record(
    first=1,  # host address of its first FORESEEN
    count=1,
    following=1,  # the section that came after it the last time, or -1
    group=1,  # of CTAs, in which it was noted
    used=1,  # how often it was met again
    failed=1,  # how often another one began like it
    uncounted=1,  # how often it was met again since the host has counted its accesses
    moments=1,  # that its accesses have made when they were judged
    sets=1,
    elements=1,
    low=1,  # where its accesses begin, and end, as offsets
    high=1,
)
"""accesses to shared memory between two barriers of all warps of a CTA, in order"""
FORESEEN = record(key=1, first=1)
"""one of them: a key of its warp, instruction and lanes, and the address of the first of these; after the last one of a
section, and if there is none, the key is -1"""
NOTED = record(
    steps=1,  # host address of int64[32]: how far each lane's address is from the first one's
    shape=1,  # as `accesses.any_way` has it
    how=1,  # the lanes lie
    lanes=1,  # how many
    shared=1,  # what it costs, as ACCESS has it
    ideal_shared=1,
)
"""further data about it, at the same index of another table"""
SECTIONS = record(
    table=1,  # host address of SECTION[room]
    heads=1,  # host address of FORESEEN[room]: how each of them begins, whoever made that access
    count=1,
    room=1,
    foreseen=1,  # host address of FORESEEN[access_room], of all sections: the first one is that of no section
    noted=1,  # host address of NOTED[access_room]
    accesses=1,  # of the sections that there are, and the ends of these
    access_room=1,
    limit=1,  # of the number of an access that is noted
    steps=1,  # host address of int64[step_room][32]
    step_count=1,
    step_room=1,
    latest=1,  # host address of int64[latest_mask + 1]: by access, where its last steps are, or 0
    latest_mask=1,
    now=1,  # the section that is followed
    last=1,  # the one before it, or -1
    start=1,  # host address of the first FORESEEN of that which is followed
    end=1,  # number of the next access that is noted
    spoilt=1,  # 1: since it began some access was in a conflict
    tries=1,  # how often one was noted, to its end or not
    most_tries=1,
    moments=1,  # how many there were when that began which is noted
    sets=1,
    elements=1,
    low=1,  # where its accesses begin so far, and end
    high=1,
    stale_low=1,  # where those of sections begin, and end, that cells do not tell of
    stale_high=1,
    periods=1,  # host address of PERIOD[2], see tier/periods.py
    which=1,  # the one that is noted or followed
    noted_before=1,  # 1: the other one has come just before that which is noted
    compared=1,  # how often the one that is followed has come since its accesses were judged
    change=1,  # host address of CHANGE[change_room], of the period at hand
    clocks=1,  # and of int64[32], what the warp knows then
    changes=1,  # how many there are
    change_room=1,
    advance=1,  # host address of int64[32]: how many intervals of each warp a period has
    saved=1,  # host address of int64[33][32]: what warps know now, and up to where their lanes know of each other
    seen=1,  # barriers that have completed, as bits
    others=1,  # how many of others have since the one between whose completions periods lie
    every=1,  # how many completions of that a period has
    beats=1,  # how many there were since it began
    misses=1,  # periods in a row that did not come again
    luck=1,  # grows with each period that was as foreseen; below 0: no more is noted
)
"""the sections that a machine knows"""
PERIOD = record(
    first=1,  # number of its first access
    count=1,  # of its accesses
    room=1,
    changes=1,  # of what warps know, in order
    change=1,  # host address of CHANGE[change_room]
    clocks=1,  # host address of int64[change_room][32]: as WARP.clock
    moments=1,  # that its accesses have made when they were judged
    sets=1,
    elements=1,
)
"""accesses to shared memory between two completions of one barrier, in order"""
CHANGE = record(at=1, warp=1, synced=1)
"""knowledge of a warp from the access on that has this many predecessors in the period; `synced` as in WARP"""
PLAN_DUE = record(ready=1, misses=1, made=1, since=1)
"""state of an instruction's PLAN: whether there is one, how many accesses deviated since it was created, how often one
was created, and after how many executions the last time"""
PATTERN = record(cost=1, cta=1, mask=1, addresses=32)
"""the worst execution of an access that costs more than it must; of shared memory, then of global memory"""
WEIGHED = record(mask=1, low=1, cost=1, ideal=1, steps=32)
"""cost of the last scattered access by an instruction: its lanes, the low bits of the first one's address and whether
that is shared memory, the distance of each lane from it"""
RAW = record(code=1, pc=1, other_pc=1, cta=1, warp=1, lanes=1, other_warp=1, count=1, serial=1, apart=1, detail=12)
"""serial: of the access that counted last; apart: the same of conflicts with the same CTA where lanes have clocks"""
SLOT = record(key=1, number=1)
"""entry of the hash table of findings: code and instructions in one number, 0 if it is free; the number of its RAW, -1
if none was left for it"""
PC_BITS = 20
"""bits of an instruction in such a key"""
EVENT = record(kind=1, cta=1, warp=1, interval=1, pc=1, place=1, generation=1, lanes=1, addresses=1, amount=1)
EVENT_KINDS: tuple[EventKind, ...] = (
    "arrive", "sync", "complete", "exit", "warp", "fence.cta", "fence.gpu", "fence.sys", "atomic", "access",
    "init", "inval", "arrive_on", "expect", "credit", "await", "phase", "copy", "landed", "proxy",
    "commit",
)  # fmt: skip
ACQUIRED = record(address=1, member=1, warp=1, lane=1, interval=1, grain=1, cells=128)
"""a tensor map that a lane has acquired in an interval: of the bytes at multiples of 1 << grain the last write, as the
cells of shadow memory have it, or 0 where it was not acquired"""
MEMO = record(old=1, new=1, result=1, unused=1)
"""memo of the result of adding an access to a cell's reads, see shadow.py"""
LANE_ACCESS = record(access=1, lanes=1, next=1)
"""an access to a watched cell, in the form of shadow_cells.py without lanes; its lanes; the next one, 1: none"""
MULTIPLIES_FLOATS, MULTIPLIES_INTEGERS, COUNTS_XOR, COUNTS_AND, MULTIPLIES_DOUBLES = range(5)
SHAPE = record(
    what=1,  # one of these
    halves=1,  # as of `model.matrix.Mma`
    groups=1,
    parts=1,
    width=1,
    bytes=1,  # of an accumulator
    byte=1,  # 1: elements are floats of 8 bits
    **{f"{operand}_{field}": 1 for operand in "ab" for field in (
        "mantissa", "exponents", "bias", "dropped", "infinite", "signed")},
)  # fmt: skip
"""a multiplication of matrices; for each operand the fields of `Format`, `exponents` a field of all ones"""
MACHINE = record(
    access_entry=1,  # addresses of compiled functions, see scheduler.py
    collective_entry=1,
    exchange_entry=1,
    matrix_entry=1,  # see matrix/multiply.py
    group_entry=1,  # see matrix/wgmma.py
    exact_entry=1,  # see matrix/exact.py
    matrix_shapes=1,  # host address of SHAPE[multiplications]
    matrix=1,  # host address of the bytes that matrix/tiles.py says
    tensor_bits=1,  # as of `model.arch.TensorCore`
    tensor_halves=1,
    tensor_byte_bits=1,
    atomic_entry=1,
    atomic_cost_entry=1,
    families=1,  # host address of int64[N_ALU]: for each operation outside the core, the address of its family
    warp_entry=1,
    blocks=1,  # host address of int64[instructions + 1]: above 0 where the code at block_entry can go on, below where
    # it will be tried again as many times later; or 0
    block_entry=1,  # see tier/block.py
    restless=1,  # of blocks that leave at random: what the next number is made of
    report_entry=1,
    address=1,  # of this record
    code=1,
    instructions=1,
    segments=1,
    segment_count=1,
    warps=1,  # host address of WARP[warp_count]
    warp_count=1,  # of a group
    cta_warps=1,
    block_threads=1,
    register_bytes=1,
    group=1,  # of CTAs that are alive at once: the one that runs, by number
    group_end=1,
    shape=3,  # CTAs of a group along each axis
    groups_along=3,  # groups along each axis of the grid
    members=1,  # CTAs of a group
    member=1,  # the CTA of it whose state is at hand
    ctas=1,  # host address of CTA[members]
    first_warp=1,  # of that CTA
    clusters=1,  # 1: the CTAs of a group may access each other's shared memory
    window=1,  # log2 of the bytes from one CTA's shared memory to the next one's
    cta_rows=3,  # rows of ctaid.x, .y, .z, or -1
    cluster_rows=3,  # the same of clusterid
    next_warp=1,
    live_warps=1,  # of the CTA
    group_live=1,  # of the group
    running=1,  # 1 inside a group, 0 between groups
    progress=1,
    budget=1,
    turn=1,  # warp instructions left in the turn of the running warp; negative: its turn is over
    flow=1,
    accesses=1,
    shared_host=1,
    shared_bytes=1,  # of a CTA, and up to a multiple of 8
    shared_limit=1,  # of a CTA
    shared_initialised=1,
    given_low=1,  # words of the CTA's shared memory that hold values from the start
    given_high=1,
    local_bytes=1,  # of a warp
    thread_bytes=1,  # of local memory of a thread
    variables=1,  # host address of VARIABLE[variable_count]
    variable_count=1,
    scratch=1,  # host address of int64[SCRATCH]
    raw=1,
    raw_count=1,
    raw_capacity=1,
    slots=1,  # host address of SLOT[slot_mask + 1]
    slot_mask=1,
    slot_count=1,  # in use: findings, those without a RAW too
    fault_pc=1,
    fault_warp=1,
    barriers=1,  # host address of BARRIER[16]
    group_first=1,  # of this run
    patience=1,  # CTAs may start until this is used up, then the host looks up
    group_step=1,  # 1, or -1: groups in descending order
    clocks=1,  # 1: happens-before is tracked
    recycling=1,  # 1: barrier-recycling is looked for
    lockstep=1,  # 1: the lanes of a warp run together
    init_fences=1,  # 1: mbarrier-unfenced is looked for
    converged=1,  # 1: lanes of an operation at an mbarrier are taken together, in time
    alone=1,  # n: of lanes that store the same bytes by one bulk operation, only the n-th does; 0: all do
    strict=1,  # 1: note what is right, and looks like a mistake
    worn=1,  # no group starts whose intervals would be greater
    base=1,  # intervals of this group are greater
    top=1,  # the last interval of any group so far
    bases=1,  # host address of int64[]: base of each group, from group_first on
    exited=1,  # host address of int64[32]: clock of the warps that have exited
    known=1,  # host address of int64[][32 * warp_count], see lane_clocks.py
    by_lanes=1,  # 1: in this group a part of a warp has met a barrier, and `known` tells what each lane knows
    apart=1,  # 1: so it was in some CTA, or in a run before this one
    shadow_entry=1,
    conflict_entry=1,
    lanes_entry=1,
    known_entry=1,
    trace_entry=1,
    serial=1,  # accesses so far
    resumes=1,  # 1: the next access was interrupted
    lanes_done=1,  # of it
    sharing=1,  # lanes of an access to one place
    lanes_scratch=1,  # host address of int64[128]
    sets=1,  # host address: first element << 16 | number of elements, of each set of accesses
    set_count=1,
    elements=1,  # host address of cells
    element_count=1,
    set_room=1,  # below this many sets and elements there is room for one more access
    element_room=1,
    suspects=1,  # 1: some bytes are marked
    records=1,  # host address of LANE_ACCESS[]
    record_count=1,
    record_free=1,  # the first one that is free again, or 1
    record_room=1,  # below this there is room for one more access
    record_needs=1,  # that an asynchronous operation may add, which begins next
    readers=1,  # 1: there may be cells of READERS, see memory/readers.py
    moments=1,  # host address of int64[moment_room + 1][32]
    moment_count=1,
    moment_room=1,
    unnamed=1,  # 1: a finding names a read that such a cell stood for, or the host was needed in the midst of a section
    memo=1,  # host address of MEMO[memo_mask + 1]
    memo_mask=1,
    trace=1,  # host address of EVENT[trace_room], or 0
    trace_count=1,
    trace_room=1,
    trace_pcs=1,  # host address of a byte for each instruction: 1 if its executions are logged
    trace_addresses=1,  # host address of int64[32 * trace_room]: of the lanes of those executions
    trace_used=1,  # of them
    steps=1,  # host address of int64[steps_room][3], see steps.py
    steps_count=1,
    steps_room=1,
    patterns=1,  # host address of PATTERN[2 for each load or store]
    weighed=1,  # host address of WEIGHED[1 for each load or store]
    plans=1,  # host address of PLAN[1 for each load or store]
    plans_due=1,  # host address of PLAN_DUE[1 for each load or store]
    looks=1,  # how often a block may stop for the host to look why rows lie otherwise than it takes them to
    permits=1,  # host address of PERMIT[1 for each load or store], in a machine that has a block
    any_way_entry=1,  # see tier/accesses.py
    some_entry=1,  # there, too
    sections=1,  # host address of SECTIONS, in such a machine, or 0
    section=1,  # NOTHING, FOLLOWING or NOTING
    section_entry=1,  # see tier/sections.py
    within_entry=1,  # there, too
    beat=1,  # number of the barrier between whose completions a period lies, and 1; 0: there is none
    foreseen=1,  # host address of the FORESEEN with which a block compares its next access, in such a machine
    ahead=1,  # host address of int64[1 for each load or store][warp_count], in such a machine: the host address of a
    # warp's last load, see tier/accesses.py
    planned=1,  # the first operation that plans are not for; 0: they are for none
    planned_entry=1,
    plan_entry=1,
    shortcuts=1,  # operations below this one may be charged by the short ways of scheduler.py
    banks=1,  # see limits.CostModel
    pass_lanes=1,  # a byte for each of the three
    requests=1,
    extra=1,
    merges=1,
    one_broadcast=1,
    atomics=1,
    line=1,  # log2 of its bytes
    halves=1,
    noted_entry=1,  # see read_only.py: what notes accesses, or where that is the access_entry, what makes them
    remote=1,  # 1: the access goes to shared memory of other CTAs, too, of which no cost is known
    window_entry=1,  # see memory/window.py: what it calls
    async_entry=1,  # see asynchronous.py
    copy_entry=1,  # see agents/copies.py
    tensor_entry=1,  # see agents/tensor_copy.py
    cluster_entry=1,  # see between_ctas.py
    successors=1,  # host address of int64[groups]: see sync/cancellation.py
    successor_count=1,
    taken=1,  # the last cluster whose launch the group at hand has canceled, first itself
    withheld=1,  # warp whose response the host decides, from 1, or 0
    withheld_pc=1,  # the copy of the response; -1: not issued yet
    withheld_mask=1,  # its lanes
    withheld_registers=1,  # host address of the registers that the warp had
    withheld_table=1,  # address of the table of responses
    delivers=1,  # 1: the host has decided, and the run begins with that response
    refusal=1,  # number of the asynchronous operation that has refused one; 0: none
    cluster_phase=1,  # the open one of the cluster's barrier
    grid_phase=1,  # the same of the grid's barrier
    grid_arrived=1,  # CTAs that have arrived in it
    cast=1,  # the CTA that a copy goes to instead of the one that its address names; -1: that one
    cast_done=1,  # CTAs that the copy of a lane has gone to
    guarded_entry=1,  # see sync/clobber.py: what it calls
    asynchronous=1,  # 1: the program has asynchronous operations: in each CTA each lane has a clock from the start
    row_bytes=1,  # of a row of `known`
    row_vectors=1,  # of 32 intervals in it
    row_bits=1,  # of 32 * 64 asynchronous operations, in all sets
    agent_bits=1,  # in one set
    group_rows=1,  # rows that belong to warpgroups, see matrix/warpgroup.py
    operations=1,  # asynchronous ones so far, by warps
    relying=1,  # 1: there was a fence.proxy: until then nobody relies on anything, and that is not joined
    releases=1,  # 1: rows have what was released to the tensormap proxy
    tensor_memory_entry=1,  # see matrix/tensor_memory.py
    columns=1,  # host address of int32[members][512][128]: tensor memory, lane by lane
    columns_written=1,  # the same of bytes: 1 where a word was written
    product=1,  # host address of a PRODUCT
    columns_scratch=1,  # host address of registers of an operand
    tensor_shapes=1,  # host address of SHAPE[], see matrix/tensor_shapes.py
    tensor_ctas=1,  # host address of TENSOR_CTA[members]
    tensor_accesses=1,  # host address of TENSOR_ACCESS[tensor_room]
    tensor_count=1,
    tensor_first=1,  # granule of 32 columns from which an allocation is searched for
    tensor_room=1,
    tensor_fences=1,  # 1: rows have what `tcgen05.fence` publishes and orders
    group_kinds=1,  # GROUPS of each thread
    maps=1,  # host address of ACQUIRED[map_room]: see agents/map_fences.py
    map_count=1,
    map_room=1,
    proxies=1,  # 1: rows have what asynchronous operations may rely on
    agents=1,  # host address of AGENT[agent_room], of this CTA
    agent_room=1,
    agent_next=1,  # number of the next one
    agent_low=1,  # those below it are known to all threads; its bit is the first one in rows
    groups=1,  # host address of GROUPS[3][32 * warps]: of cp.async, of bulk operations, of wgmma
    mbarriers=1,  # host address of MBARRIER[mbarrier_room]
    mbarrier_count=1,
    mbarriers_live=1,
    mbarrier_room=1,
    mbarrier_index=1,  # host address of int64[words of shared memory]: number of the mbarrier there, from 1, or 0
    mbarrier_low=1,  # words of all of them
    mbarrier_high=1,
    registers=1,  # of a thread at the launch; 0: unknown
    pool=1,  # registers of a thread that warps have given
    whole=1,  # bytes of the access of which a piece is judged
    credited=1,  # bytes that a bulk load has brought
    outside=1,  # host address of int64[2] for each operation from outside: see outside.py
    objects=1,  # host address of int64[objects_room]: the memory of their objects
    objects_room=1,
    wanted=1,  # bytes of cells that an access needs, where it is not as wide as they; what has to grow
    claims=1,  # host address of CLAIM[claim_room], or 0: accesses are marked
    claim_count=1,
    claim_room=1,
    ordered=1,  # host address of a byte for each instruction: 1 if it waits for the host; see memory/ordered.py
    ordered_entry=1,  # there, what makes accesses
    joined=1,  # host address of int64[] by instruction: of a joined store where its own begin; see memory/joined.py
    joined_entry=1,
    track_entry=1,  # there, what judges the other accesses
    turns=1,  # host address, by segment, of that of a byte for each of its bytes
    windows=1,  # 1: some segments have windows
    let_go=1,  # the lane that may make the ordered access of the warp that runs next, from 1; 0: none
)
SCRATCH = 1152
WAKES, ENDS, STARTS = -1, -2, -3
"""reasons to call `asynchronous` apart from instructions"""

DONE, DEADLOCK, BUDGET, FAULT, TRAP, STACK_OVERFLOW = range(6)
"""reason for which the VM returned"""
REFINE, SWEEP, WRITTEN, GROW, UNNAMED, LOOK = range(6, 12)
"""action of the host before the VM continues: give a segment finer cells, make room for sets of accesses, restart with
a segment that was assumed to be never written, restart with more room for `wanted`, restart without cells of READERS,
examine why rows deviate from what a block assumes"""
GROW_AGENTS, GROW_BITS, GROW_MBARRIERS, GROW_MAPS, GROW_WINDOW = range(5)
OUTSIDE, WRAPPED, READ_ONLY, BAD_INDEX, ELSEWHERE, GAP = range(6)
"""detail[1] of an out-of-bounds finding"""


@allowing
def address_of(array: npt.NDArray[Any]) -> int:
    """Return the address of an array's memory, which begins with its first element."""
    if array.dtype.names is None and array.size:
        try:
            return ctypes.addressof(_BYTE.from_buffer(array))  # type: ignore[arg-type]  # a third of NumPy's own way
        except (TypeError, ValueError):  # it is read-only, or not contiguous
            pass
    return int(array.ctypes.data)


_BYTE = ctypes.c_char


def aligned_bytes(size: int) -> npt.NDArray[np.uint8]:
    """Zeroed bytes on a 64-byte boundary: rows of registers are moved by aligned vector instructions."""
    block = np.zeros(size + 64, np.uint8)
    start = -address_of(block) % 64
    return block[start : start + size]


def table(n: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """n zeroed records; NumPy would write their fields one by one."""
    return np.zeros(n * dtype.itemsize, np.uint8).view(dtype)
