"""The state of the VM as records: compiled code works on them, and the host reads them.

A `MACHINE` runs the CTAs of a grid, group by group; most groups have one CTA. All its state is in memory that the host
allocated, so that a run can stop at any point (budget, deadlock, a full table), and the host can examine it or continue
it. Nothing in this module needs a compiler.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.machine.checked import allowing

if TYPE_CHECKING:
    import numpy.typing as npt

    from wsemu.model.outcome import EventKind

BARRIERS = 16
CTA_ROWS = 5 * BARRIERS + 1
"""rows of `lane_clocks` for each CTA"""
KEPT_GROUPS = 8
"""groups of `wgmma` for which a warpgroup keeps clocks, see matrix/warpgroup.py"""
GROUP_ROWS = KEPT_GROUPS + 5
"""rows of `lane_clocks` for each warpgroup"""
STACK = 64
"""entries of a warp's divergence stack for branches"""
STACK_ROOM = STACK + 34
"""all entries of the stack: also those for groups of lanes that were parked at barriers"""


def record(**fields: Any) -> np.dtype[Any]:
    """Return the type of a record with int64 fields, some of which are arrays."""
    return np.dtype([(name, np.int64, *(() if shape == 1 else (shape,))) for name, shape in fields.items()], align=True)


UNUSED_SHIFT = 24
"""bit of a load's `aux` at which the unused bytes begin"""
INSTRUCTION = record(op=1, guard=1, d=1, a=1, b=1, c=1, imm=1, aux=1)
SEGMENT = record(
    host=1,  # host address
    bytes=1,
    writable=1,  # 1 if stores are allowed
    covered=1,  # host address of a byte per byte: 1 if a store to it is allowed; or 0: see `writable`
    kind=1,  # kind of memory, as a bit: IN_SHARED, ...; and CLOSED if stores to some bytes are not allowed
    initialised=1,  # host address of a byte map of initialized bytes; 0: all bytes are initialized
    unwritten=1,  # number of bytes that are not initialized
    tracked=1,  # see UNTRACKED
    grain=1,  # log2 of the bytes that one cell of shadow memory covers; -1: it has no cells yet
    writes=1,  # host address of the cells with the last writes, from that of byte 0
    reads=1,  # likewise of the cells with reads and atomics
    low=1,  # the cells low .. high - 1 were touched: by the current CTA, if there is a window
    high=1,
    window_writes=1,  # host addresses of WINDOW cells that one CTA has at a time, see `shadow.note_range`; or 0
    window_reads=1,
    window=1,  # number of the segment's cell that is the first one in the window
    start=1,  # earlier CTAs touched the cells start .. passed - 1 in the window
    passed=1,
    marks=1,  # host address of a byte per byte: 1 if lanes of a warp may conflict there; or 0
    watched=1,  # host address of an int64 per cell that lane_order.py checks: 0 not watched, 1 no accesses, or the
    # number of its first LANE_ACCESS; or 0
    watched_grain=1,  # log2 of the bytes of a watched cell
    marked=1,  # host address of a byte per byte: LOADED, STORED, or both; or 0; see read_only.py
    claims=1,  # host address of int32[2][bytes]: number of the CLAIM, from 1, of the first load and the first store
    # of a byte, or 0
)
VARIABLE = record(begin=1, bytes=1, writable=1)
"""A variable of local memory, by the number in its address.

It has the offset in a thread's memory, the size in bytes, and 1 if stores are allowed. Number 0 is all local memory.
"""
STEP = 24
"""bytes of a logged step: warp << 32 | instruction; lanes; number of events that the trace had before"""
WINDOW, BEFORE = 1 << 15, 1 << 14
"""number of cells in a window; and how many of them precede the first cell that a CTA touches"""
NOWHERE = 1 << 40
"""value of `low` if no cells were touched"""
LOADED, STORED = 1, 2
"""a byte was loaded through the read-only cache; a byte was written"""
CLAIM = record(pc=1, cta=1, warp=1, lanes=1, interval=1)
"""the first access of its kind to a byte"""
UNTRACKED, READ_SO_FAR, TRACKED = range(3)
"""race checking of a segment: off; on under the assumption that nothing writes it, so that a store stops the VM; on"""
ENTRY = record(join=1, resume=1, mask=1)
"""entry of the divergence stack: the reconvergence point of some lanes (the pc of a `join`, or -1), the pc at which
they resume, and their mask"""
MIDWAY = -2
"""`join` of an entry whose lanes stopped within a stretch of code, not at a branch"""
HELD = 16
"""`waits` of a warp whose lanes wait for each other, some at a barrier and others at warp-wide operations"""
AWAITS = 17
"""`waits` of a warp if some lanes wait for an mbarrier's phase or for registers, and its other lanes cannot run"""
SCRIPTED = 18
"""`waits` of a warp that is parked before an ordered access until the host resumes a lane; see memory/ordered.py"""
STANDS = 101
"""status: lanes wait at an operation of kind `async`"""
YIELDED = 100
"""status: a warp waits, has ended, or has used its turn; `run` never returns it"""
WARP = record(
    registers=1,  # host address of its registers
    pc=1,
    mask=1,  # lanes that run now
    alive=1,  # lanes that have not exited
    depth=1,  # entries on the divergence stack
    waits=1,  # number of the barrier where it waits, HELD, AWAITS, SCRIPTED, or -1
    wait_pc=1,
    wait_mask=1,
    parked=1,  # lanes that wait at an operation for other lanes of the warp
    parked_count=1,
    midway=1,  # 1: the running lanes are within a stretch of code whose execution is counted already
    local_initialised=1,  # for its local memory, as in SEGMENT
    local_unwritten=1,
    local_map=1,  # host address of the byte map in `local_initialised` at a CTA's start; or 0
    local_host=1,
    stack=1,  # host address of ENTRY[STACK_ROOM]
    parked_entries=1,  # host address of ENTRY[STACK_ROOM]
    last_pc=1,  # the last instruction of its kind: an exit or a barrier
    clock=1,  # host address of int64[32]: the last interval of each warp that happens before now; see clocks.py
    synced=1,  # up to this interval of its own, all its lanes have observed each other
    partial=1,  # 1: later intervals that lanes have observed are in lane_clocks
    lane_clocks=1,  # host address of int64[32][32]: the last interval of lane j that lane i has observed
    leaders=1,  # host address of int64[32]: for each lane, the lane whose row of `known` holds its clock
    fenced=1,  # host address of int64[4][32]: the interval that each lane's last proxy fence ended, for shared and
    # for global memory, and its last release of tensor maps, of a scope beyond its CTA and of any scope
    held=1,  # registers of each of its threads
    member=1,  # number of its CTA in the current group, from 0
    whole=1,  # mask of its lanes at the start
    known_at=1,  # pc after the barrier at which a compiled block stopped, if rows still have the block's layout; or 0
    cluster_arrived=1,  # lanes that have arrived in the current phase of the cluster's barrier
    cluster_passed=1,  # lanes that have arrived in the previous phase and have not waited for it
    multiplied=1,  # digest of the wgmma that it executed in this CTA, with their operands; 0: none
    multiplied_pc=1,  # the last of these instructions
    grouped=1,  # digest of these, and of the fences, commits and waits of wgmma, in the order of their execution
    grouped_pc=1,  # the last fence, commit or wait; -1: none
    adjusted=1,  # digest of the setmaxnreg that it executed in this CTA; 0: none
    adjusted_pc=1,  # the last of these instructions
    adjusted_at=1,  # the interval in which it executed that
    committed=1,  # number of committed groups of wgmma
    closed=1,  # in a warpgroup's first warp: number of groups that all four warps have committed
    flying=10,  # masks of the wgmma in flight, by the number of commits since, up to OLDEST_GROUP
    unfenced=1,  # mask of the wgmma whose registers were touched since the last fence
    served=1,  # lanes that have performed the ordered access at which the warp is parked
    asks=1,  # lanes that have not performed it yet
)
CTA = record(
    live_warps=1,  # as in MACHINE, while another CTA is current
    pool=1,
    barriers=1,
    exited=1,
    first_warp=1,
    met=1,  # phases of the grid's barrier at which the CTA has arrived
)
"""state of one CTA of a group; MACHINE holds that of the CTA whose warp runs, see sync/group.py"""
BARRIER = record(
    expected=1,  # expected number of threads; 0: no operation gave a count, so the whole CTA takes part
    arrived=1,  # threads that have arrived in the current generation
    generation=1,
    syncs=1,  # warps that wait in the current generation
    first_pc=1,  # the operation that opened the generation
    first_warp=1,
    forms=1,  # forms of operations in the current generation: WITHOUT_COUNT, WITH_COUNT, GIVES, as bits
    reduces=1,  # the bar.red of the generation, or 0
    popc=1,  # count of true predicates of the bar.red
    every=1,
    some=1,
    last_warps=1,  # bit set of the warps that took part in the previous generation
    warps=1,  # bit set of the warps in the current generation
    all_met=1,  # 1: in the previous generation, all warps of the group waited, each as a whole
    clock=1,  # host address of int64[32]: joined clocks of the current generation's operations; clocks of warps that
    # wait as a whole are joined only when they are needed, see `clocks.join_waiting`
    took=1,  # host address of int64[32]: the interval that each warp's last operation in the generation ended; 0: none
    took_pc=1,
    took_before=1,  # likewise of the previous generation
    took_before_pc=1,
)
KNOWN_OPERANDS, COUNT_SHIFT = 1 << 40, 8
"""flag in a barrier operation's `imm`: the barrier's number is known and is below it, with the count or 0 from
COUNT_SHIFT on"""
MOST_COUNT = 1 << 20
WITHOUT_COUNT, WITH_COUNT, GIVES = 1, 2, 4
"""forms of barrier operations: without a thread count, with one, an arrive"""
MBARRIER = record(
    live=1,
    initializations=1,
    word=1,  # number of its 8-byte word of shared memory
    phase=1,
    pending=1,
    expected=1,
    tx=1,
    init_pc=1,
    init_warp=1,
    init_lanes=1,  # lanes of the instruction that initialized it
    init_interval=1,
    published=1,  # interval in which the initializing threads executed a fence.mbarrier_init; 0: they did not
    far_pc=1,  # an arrive of another CTA that released in the current phase, or -1
    far_warp=1,
    far_before_pc=1,  # likewise in the previous phase
    far_before_warp=1,
    inval_pc=1,
    inval_warp=1,
    inval_lane=1,
    inval_interval=1,
    wanted=1,  # bytes that expect-tx operations have added to the current phase
    brought=1,  # bytes that complete-tx operations have subtracted from it
    added=1,  # arrivals that copies have added to it
    tx_pc=1,  # last operation of the phase with a byte count, or -1
    tx_warp=1,
    last_pc=1,  # last operation that arrived in the phase
    last_warp=1,
    waiters=1,  # lanes that wait for a phase
    expecting=1,  # 1: the current phase has an expect-tx operation, and `cover` is maintained
    holding=1,  # 1: it has an arrive that must not complete it, and `followed` is maintained
    emptied=1,  # 1: an operation of size 0 belonged to no phase, and `cover` is maintained
    given=3,  # host addresses of lane_clocks rows: clock released to the current phase; to the previous one; unused
    joined=3,  # rows: last arrive of each thread and asynchronous operation, in the current phase and the two before
    joined_pc=3,  # int64[32 * warps]: the instructions of these
    used=1,  # row: last use by each thread and asynchronous operation
    used_pc=1,
    reach=1,  # int64[32 * warps]: joined clocks of the current phase's arrivals, which include these themselves;
    # intervals with the bits of `operations` below them, as in the next four
    cover=1,  # likewise of its arrive operations alone
    waited=1,  # the last wait of each thread that returned in the previous phase
    waited_first=1,
    waited_pc=1,
    expects=1,  # the last expect-tx operation of each thread in the current phase
    expects_pc=1,
    pluses=1,  # likewise of arrives on behalf of copies
    pluses_pc=1,
    empties=1,  # the last operation of size 0 of each thread that belonged to no phase, here or before
    empties_pc=1,
    held=1,  # the last arrive of each thread that must not complete the current phase
    held_pc=1,
    followed=1,  # joined clocks of the current phase's arrivals, which do not include these themselves
)
THIN_ROWS, FULL_ROWS = 18, 6
"""rows of an mbarrier: those of threads alone, and those of threads and asynchronous operations"""
AGENT = record(pc=1, warp=1, lane=1, address=1, bytes=1, what=1, group=1, next=1)
"""an asynchronous operation: `what` it does (COPIES, STORES, ARRIVES, SENDS, or READS_DONE for the reads of the next
one), its group, and the next operation of the same thread; 0: none"""
COPIES, STORES, ARRIVES, READS_DONE, SENDS, COLUMNS_TOUCHED = range(6)
TENSOR_CTA = record(
    owned=1,  # allocated granules of tensor memory, as bits
    starts=1,  # the first granule of each allocation, as bits
    sizes=16,  # number of granules of each allocation, by its first granule
    pcs=16,  # the allocating instruction, and in `warps` its warp
    warps=16,
    relinquished=1,  # 1: the CTA has given up its right to allocate
    relinquished_pc=1,
    relinquished_warp=1,
    allocations=1,  # number of allocations so far
    columns=1,  # total columns of all allocations so far
    last=1,  # columns of the last allocation; 0: there was none
    last_pc=1,
    last_warp=1,
    group=1,  # the cta_group of its operations, or 0
    group_pc=1,
    group_warp=1,
    offered=1,  # in a pair of CTAs: first granule, from 1, that the even CTA has reserved for the odd one; or 0
    offer=1,  # the asynchronous operation that reserved it
    promised=1,  # granules reserved for the odd CTA, which has not taken them yet, as bits
    taken=1,  # 1: the odd CTA has taken it, and the even one has not asked again
    filled=5,  # collector buffers (a, b0 to b3) with a usable operand: the instruction that filled each, plus 1; or 0
    filled_by=5,  # the warp that filled it
    filled_with=5,  # descriptor of the operand, or its address in tensor memory
    filled_shape=5,  # its rows and its layout
    filled_sum=5,  # a checksum of its elements
)
"""tensor memory of a CTA, see matrix/tensor_memory.py"""
PRODUCT = record(
    kind=1,  # an index of `tensor_memory.KINDS`
    rows=1,  # rows of D in one CTA
    n=1,  # columns of D
    layout=1,  # layout of rows and columns in tensor memory, see matrix/tensor_operands.py
    lane=1,  # first lane of D: 0 or 16
    column=1,
    a=1,  # descriptor, or address in tensor memory
    b=1,
    in_columns=1,  # 1: `a` is in tensor memory
    turned_a=1,  # 1: `a` is transposed in memory
    turned_b=1,
    size_a=1,  # bytes of the container of an element of `a`
    size_b=1,
    narrow_a=1,  # bits of an element of `a`, if fewer than 8; otherwise 0
    narrow_b=1,
    flip_a=1,  # mask of a register's sign bits, if `a` is negated
    flip_b=1,
    shape=1,  # index in `tensor_shapes`
    adds=1,  # 1: the product is added to D
    clamps=1,
    masked=1,  # 1: some lanes of D are not written
    left_out=8,  # for each 32 lanes, the mask of those that are not written; both CTAs of a pair
    vector=1,  # number of scale factors of a row, as a power of 2
    scale_a=1,  # columns with the scale factors of `a`
    scale_b=1,
    id_a=1,  # byte of a word of scale factors from which they are used
    id_b=1,
    fine=1,  # 1: scale factors are ue4m3; otherwise ue8m0
    pair=1,  # 1: a pair of CTAs multiplies
    sparse=1,  # 1: `a` has half of its elements
    metadata=1,  # first column of the metadata of a sparse `a`
    wrong=1,  # number, from 1, of the error in its descriptors
    value=1,
)
"""the decoded fields of one `tcgen05.mma`"""
TENSOR_ACCESS = record(
    number=1,  # number of the asynchronous operation
    warp=1,
    lane=1,
    pc=1,
    interval=1,  # interval of the warp at the issue
    member=1,  # CTA of the group whose tensor memory it is
    what=1,  # class of the access
    group=1,  # cta_group
    key=1,  # address and shape, if the class depends on them
    bands=1,  # a bit for each 16 lanes
    low=1,  # it accesses the columns low .. high - 1
    high=1,
    writes=1,
)
"""an access to tensor memory that later accesses may have to follow, see matrix/tensor_accesses.py"""
GROUPS = record(first=1, last=1, read=1, since=1, committed=1)
"""the asynchronous operations of a thread, by group: the ones it has not waited for, the first one whose reads it has
not waited for, the first one that a `cp.async.mbarrier.arrive` would cover, and the number of committed groups"""
FLOW = record(count=1, lanes=1, length=1)
"""for each pc: how often control arrived there, with how many lanes, and the instructions up to the next change of
control"""
ACCESS = record(
    executions=1, lanes=1, shared=1, ideal_shared=1, sectors=1, ideal_sectors=1, uncounted=1, pattern=1, forbids=1
)  # fmt: skip
"""for each memory access: its executions, the accesses of lanes, shared wavefronts, global sectors, and the minimum of
both; executions whose wavefronts no rule counts; the index of its pair of PATTERNs; and the kinds of memory that it
must not access"""
MOST_PIECES = 128
PLAN = record(
    steps=32,  # distance of each lane's address from the first lane's
    of=1,  # address of equal distances among the program's constants, if there is one
    count=1,  # number of pieces
    apart=1,  # 1: no two lanes share a cell
    wide=1,  # 1: a piece is four adjacent cells, not one
    low=1,  # least distance; in local memory, least deviation of a distance from the lane's own memory
    end=1,  # end of the access with the greatest distance, exclusive
    grain=1,  # log2 of the bytes of a cell
    place=1,  # SHARED, LOCAL, or FIRST_ARRAY for any array
    how=1,  # QUARTERS, ALIKE or SCATTERED, see lane_access.py
    boundary=1,  # in an array: position of the first address in its sector
    cost=1,
    ideal=1,
    pieces=MOST_PIECES,  # start of each piece, in bytes of shadow memory from the first lane's cell
    lanes=MOST_PIECES,  # lowest and highest lane of each cell, in the form of a cell
)
"""pattern of the lanes in an access by a load or store, see memory/plans.py"""
PERMIT = record(
    low=1,  # least permitted address of the first lane, with the segment's number
    span=1,  # size of the range of such addresses; 0: there is no permit
    mask=1,  # low bits that all of them share with `low`
    start=1,  # offset of `low` in the segment
    segment=1,  # host address of the segment's record
    judged=1,  # 1: accesses are checked for races
    grain=1,  # log2 of the bytes of its cells
    writes=1,  # host address of the write cells at `low`
    reads=1,
    group=1,  # the group of CTAs for which it holds
    floor=1,
    count=1,  # accesses that used the permit and are not counted elsewhere yet
    mixed=1,  # number of accesses that have to agree before cells with different contents get a permit
    shared=1,  # cost of an access, as in ACCESS
    ideal_shared=1,
    sectors=1,
    ideal_sectors=1,
)
"""cells that whole warps may access by an instruction without further checks, see tier/permits.py"""
NOTHING, FOLLOWING, NOTING = range(3)
"""treatment of a CTA's accesses to shared memory, see tier/sections.py: they are checked; compared with those of an
earlier section; checked and recorded"""
STARTS, MET, BREAKS, MAKES, MADE, CHANGES, BEATS = range(7)
"""events that sections receive: a CTA begins; all its warps have met at a barrier; something happens that sections do
not cover; the VM is about to access shared memory; the VM has accessed it; the clocks of some warps have changed; some
warps have met"""
SECTION = record(
    first=1,  # host address of its first FORESEEN
    count=1,
    following=1,  # the section that followed it the last time, or -1
    group=1,  # the group of CTAs in which it was recorded
    used=1,  # number of times that it was repeated
    failed=1,  # number of times that another section began in the same way
    uncounted=1,  # number of repetitions since the host counted its accesses
    moments=1,  # moments that checking its accesses created
    sets=1,
    elements=1,
    low=1,  # its accesses are in the range of offsets low .. high
    high=1,
)
"""the accesses to shared memory between two barriers of all warps of a CTA, in their order"""
FORESEEN = record(key=1, first=1)
"""an access of a section: a key of its warp, instruction and lanes, and the address of its first lane; the key is -1
after the last access of a section"""
NOTED = record(
    steps=1,  # host address of int64[32]: distance of each lane's address from the first lane's
    shape=1,  # in the form of `accesses.any_way`
    how=1,  # layout of the lanes
    lanes=1,  # number of lanes
    shared=1,  # its cost, as in ACCESS
    ideal_shared=1,
)
"""further data about an access, at its index in another table"""
SECTIONS = record(
    table=1,  # host address of SECTION[room]
    heads=1,  # host address of FORESEEN[room]: the first access of each section, whatever warp performs it
    count=1,
    room=1,
    foreseen=1,  # host address of FORESEEN[access_room], of all sections; the first one belongs to none
    noted=1,  # host address of NOTED[access_room]
    accesses=1,  # number of accesses of all sections, including their ends
    access_room=1,
    limit=1,  # limit of the number of a recorded access
    steps=1,  # host address of int64[step_room][32]
    step_count=1,
    step_room=1,
    latest=1,  # host address of int64[latest_mask + 1]: for each access, the index of its last steps, or 0
    latest_mask=1,
    now=1,  # the section that is compared now
    last=1,  # the section before it, or -1
    start=1,  # host address of the first FORESEEN of the compared section
    end=1,  # number of the next recorded access
    spoilt=1,  # 1: an access of the current section was in a conflict
    tries=1,  # number of recordings that were begun
    most_tries=1,
    moments=1,  # number of moments when the current recording began
    sets=1,
    elements=1,
    low=1,  # range of offsets of its accesses so far
    high=1,
    stale_low=1,  # range of offsets of repeated accesses that the cells do not contain yet
    stale_high=1,
    periods=1,  # host address of PERIOD[2], see tier/periods.py
    which=1,  # index of the period that is recorded or compared
    noted_before=1,  # 1: the other period precedes the recorded one directly
    compared=1,  # repetitions of the compared period since its accesses were checked
    change=1,  # host address of CHANGE[change_room] of the current period
    clocks=1,  # host address of int64[change_room][32]: the changed clocks
    changes=1,  # number of changes
    change_room=1,
    advance=1,  # host address of int64[32]: the number of intervals that a period has in each warp
    saved=1,  # host address of int64[33][32]: the current clocks of all warps, and their `synced`
    seen=1,  # barriers that have completed, as bits
    others=1,  # completions of other barriers since the period's barrier completed
    every=1,  # number of that barrier's completions in one period
    beats=1,  # number of its completions since the period began
    misses=1,  # number of successive periods that were not repeated
    luck=1,  # grows with each repeated period; below 0, nothing more is recorded
)
"""all sections of a machine"""
PERIOD = record(
    first=1,  # number of its first access
    count=1,  # number of its accesses
    room=1,
    changes=1,  # number of changes of clocks, which are in their order
    change=1,  # host address of CHANGE[change_room]
    clocks=1,  # host address of int64[change_room][32]: clocks as in WARP
    moments=1,  # moments that checking its accesses created
    sets=1,
    elements=1,
)
"""the accesses to shared memory between two completions of one barrier, in their order"""
CHANGE = record(at=1, warp=1, synced=1)
"""a change of a warp's clock after `at` accesses of the period; `synced` as in WARP"""
PLAN_DUE = record(ready=1, misses=1, made=1, since=1)
"""state of an instruction's PLAN: whether it exists, how many accesses have deviated since it was created, how often it
was created, and after how many executions the last time"""
PATTERN = record(cost=1, cta=1, mask=1, addresses=32)
"""the most expensive execution of an access that costs more than the minimum: in shared memory, then in global
memory"""
WEIGHED = record(mask=1, low=1, cost=1, ideal=1, steps=32)
"""cost of an instruction's last scattered access: its lanes, low bits of the first lane's address, whether that is
shared memory, and the distance of each lane from the first"""
RAW = record(code=1, pc=1, other_pc=1, cta=1, warp=1, lanes=1, other_warp=1, count=1, serial=1, apart=1, detail=12)
"""a finding; `serial` numbers the access that was counted last, and `apart` counts conflicts within a CTA whose lanes
have clocks"""
SLOT = record(key=1, number=1)
"""entry of the hash table of findings: code and instructions as one number, 0 if it is free; and the number of its RAW,
-1 if the table of RAWs was full"""
PC_BITS = 20
"""bits of an instruction in such a key"""
EVENT = record(kind=1, cta=1, warp=1, interval=1, pc=1, place=1, generation=1, lanes=1, addresses=1, amount=1)
EVENT_KINDS: tuple[EventKind, ...] = (
    "arrive", "sync", "complete", "exit", "warp", "fence.cta", "fence.gpu", "fence.sys", "atomic", "access",
    "init", "inval", "arrive_on", "expect", "credit", "await", "phase", "copy", "landed", "proxy",
    "commit",
)  # fmt: skip
ACQUIRED = record(address=1, member=1, warp=1, lane=1, interval=1, grain=1, cells=128)
"""a tensor map that a lane acquired in an interval: for each 1 << grain bytes of it the last write, as in a cell of
shadow memory, or 0 if that was not acquired"""
MEMO = record(old=1, new=1, result=1, unused=1)
"""cached result of adding an access to a cell's reads, see shadow.py"""
LANE_ACCESS = record(access=1, lanes=1, next=1)
"""an access to a watched cell, in the form of shadow_cells.py but without lanes; its lanes; the next access, 1: none"""
MULTIPLIES_FLOATS, MULTIPLIES_INTEGERS, COUNTS_XOR, COUNTS_AND, MULTIPLIES_DOUBLES = range(5)
SHAPE = record(
    what=1,  # one of MULTIPLIES_FLOATS, ...
    halves=1,  # as in `model.matrix.Mma`
    groups=1,
    parts=1,
    width=1,
    bytes=1,  # of an accumulator
    byte=1,  # 1: elements are 8-bit floats
    chunk=1,  # of a sparse multiplication; 0: `a` has all its elements
    scaled=1,  # 0, or the bits of an element of a multiplication with scale factors
    **{f"{operand}_{field}": 1 for operand in "ab" for field in (
        "mantissa", "exponents", "bias", "dropped", "infinite", "signed")},
)  # fmt: skip
"""the arithmetic of a matrix multiplication; for each operand the fields of `Format`, where `exponents` has a field of
ones"""
MACHINE = record(
    access_entry=1,  # addresses of compiled functions; this one: see scheduler.py
    collective_entry=1,
    exchange_entry=1,
    matrix_entry=1,  # see matrix/multiply.py
    group_entry=1,  # see matrix/wgmma.py
    exact_entry=1,  # see matrix/exact.py
    matrix_shapes=1,  # host address of SHAPE[multiplications]
    matrix=1,  # host address of the buffers of matrix/tiles.py
    tensor_bits=1,  # as in `model.arch.TensorCore`
    tensor_halves=1,
    tensor_byte_bits=1,
    atomic_entry=1,
    atomic_cost_entry=1,
    families=1,  # host address of int64[N_ALU]: for each operation outside the core, the address of its family
    warp_entry=1,
    blocks=1,  # host address of int64[instructions + 1]: above 0 if a compiled block can start there; below 0 if it is
    # tried again after this number of executions; or 0
    block_entry=1,  # see tier/block.py
    restless=1,  # state of the random numbers by which blocks stop in tests
    report_entry=1,
    address=1,  # host address of this record
    code=1,
    instructions=1,
    segments=1,
    segment_count=1,
    warps=1,  # host address of WARP[warp_count]
    warp_count=1,  # warps of a group
    cta_warps=1,
    block_threads=1,
    register_bytes=1,
    group=1,  # number of the current group of co-resident CTAs
    group_end=1,
    shape=3,  # number of CTAs of a group along each axis
    groups_along=3,  # number of groups along each axis of the grid
    members=1,  # number of CTAs in a group
    member=1,  # the CTA of the group whose state is current
    ctas=1,  # host address of CTA[members]
    first_warp=1,  # the first warp of the current CTA
    clusters=1,  # 1: the CTAs of a group may access each other's shared memory
    window=1,  # log2 of the bytes between the shared memories of two successive CTAs
    cta_rows=3,  # rows of ctaid.x, .y, .z, or -1
    cluster_rows=3,  # likewise of clusterid
    next_warp=1,
    live_warps=1,  # live warps of the current CTA
    group_live=1,  # live warps of the group
    running=1,  # 1 during a group, 0 between groups
    progress=1,
    budget=1,
    turn=1,  # warp instructions left in the running warp's turn; negative: the turn is over
    flow=1,
    accesses=1,
    shared_host=1,
    shared_bytes=1,  # bytes of a CTA's shared memory, rounded up to a multiple of 8
    shared_limit=1,  # bytes that a CTA may access
    shared_initialised=1,
    given_low=1,  # range of the words of shared memory that are initialized at the start
    given_high=1,
    local_bytes=1,  # bytes of local memory of a warp
    thread_bytes=1,  # bytes of local memory of a thread
    variables=1,  # host address of VARIABLE[variable_count]
    variable_count=1,
    scratch=1,  # host address of int64[SCRATCH]
    raw=1,
    raw_count=1,
    raw_capacity=1,
    slots=1,  # host address of SLOT[slot_mask + 1]
    slot_mask=1,
    slot_count=1,  # slots in use, which includes findings without a RAW
    fault_pc=1,
    fault_warp=1,
    barriers=1,  # host address of BARRIER[16]
    group_first=1,  # the first group of this run
    patience=1,  # decreases with each CTA that starts; below 0, no group starts before the host has taken a look
    group_step=1,  # 1, or -1: groups run in descending order
    clocks=1,  # 1: happens-before is tracked
    recycling=1,  # 1: barrier-recycling is checked
    lockstep=1,  # 1: the lanes of a warp execute together
    init_fences=1,  # 1: mbarrier-unfenced is checked
    converged=1,  # 1: lanes of one operation at an mbarrier count as converged, in time
    alone=1,  # n: if several lanes store the same bytes by one bulk operation, only the n-th does; 0: all do
    strict=1,  # 1: also correct uses that look like mistakes are recorded
    worn=1,  # no group starts if its intervals could exceed this
    base=1,  # all intervals of this group are greater than this
    top=1,  # the last interval of any group so far
    bases=1,  # host address of int64[]: `base` of each group, from group_first on
    exited=1,  # host address of int64[32]: joined clock of the warps that have exited
    known=1,  # host address of int64[][32 * warp_count], see lane_clocks.py
    by_lanes=1,  # 1: part of a warp executed a barrier in this group, and `known` has the clock of each lane
    apart=1,  # 1: this happened in some CTA, or in an earlier run
    shadow_entry=1,
    conflict_entry=1,
    lanes_entry=1,
    known_entry=1,
    trace_entry=1,
    serial=1,  # number of accesses so far
    resumes=1,  # 1: the next access was interrupted
    lanes_done=1,  # lanes of that access that are finished
    sharing=1,  # lanes of an access that touch one location
    lanes_scratch=1,  # host address of int64[128]
    sets=1,  # host address of (first element << 16 | number of elements) for each set of accesses
    set_count=1,
    elements=1,  # host address of cells
    element_count=1,
    set_room=1,  # below these many sets and elements, one more access is sure to fit
    element_room=1,
    suspects=1,  # 1: some bytes are marked, see SEGMENT
    records=1,  # host address of LANE_ACCESS[]
    record_count=1,
    record_free=1,  # the first free one, or 1
    record_room=1,  # below this, one more access is sure to fit
    record_needs=1,  # records that the next asynchronous operation may add
    readers=1,  # 1: READERS cells may exist, see memory/readers.py
    moments=1,  # host address of int64[moment_room + 1][32]
    moment_count=1,
    moment_room=1,
    unnamed=1,  # 1: a finding names a read that a READERS cell represents, or a section was interrupted for the host
    memo=1,  # host address of MEMO[memo_mask + 1]
    memo_mask=1,
    trace=1,  # host address of EVENT[trace_room], or 0
    trace_count=1,
    trace_room=1,
    trace_pcs=1,  # host address of a byte per instruction: 1 if its executions are logged
    trace_addresses=1,  # host address of int64[32 * trace_room]: addresses of the lanes of these executions
    trace_used=1,  # number of these addresses
    steps=1,  # host address of int64[steps_room][3], see steps.py
    steps_count=1,
    steps_room=1,
    patterns=1,  # host address of PATTERN[2 per load or store]
    weighed=1,  # host address of WEIGHED[1 per load or store]
    plans=1,  # host address of PLAN[1 per load or store]
    plans_due=1,  # host address of PLAN_DUE[1 per load or store]
    looks=1,  # how often a block may still stop so that the host examines why rows deviate from its layout
    permits=1,  # host address of PERMIT[1 per load or store], if the machine has blocks
    any_way_entry=1,  # see tier/accesses.py
    some_entry=1,  # see tier/accesses.py
    sections=1,  # host address of SECTIONS, if the machine has blocks; or 0
    section=1,  # NOTHING, FOLLOWING or NOTING
    section_entry=1,  # see tier/sections.py
    within_entry=1,  # see tier/sections.py
    beat=1,  # 1 + number of the barrier whose completions delimit a period; 0: none
    foreseen=1,  # host address of the FORESEEN with which a block compares its next access, if the machine has blocks
    ahead=1,  # host address of int64[1 per load or store][warp_count], if the machine has blocks: the host address of a
    # warp's last load, see tier/accesses.py
    planned=1,  # the first operation without plans; 0: no operation has plans
    planned_entry=1,
    plan_entry=1,
    shortcuts=1,  # operations below this one may be charged by the fast paths of scheduler.py
    banks=1,  # see limits.CostModel
    pass_lanes=1,  # a byte for each of three sizes
    requests=1,
    extra=1,
    merges=1,
    one_broadcast=1,
    atomics=1,
    line=1,  # log2 of the bytes of a line
    halves=1,
    noted_entry=1,  # see read_only.py: function that records accesses, or if that is the access_entry, performs them
    remote=1,  # 1: the access may go to shared memory of other CTAs, whose cost is unknown
    window_entry=1,  # see memory/window.py: the function that it calls
    async_entry=1,  # see asynchronous.py
    copy_entry=1,  # see agents/copies.py
    tensor_entry=1,  # see agents/tensor_copy.py
    cluster_entry=1,  # see between_ctas.py
    successors=1,  # host address of int64[groups]: see sync/cancellation.py
    successor_count=1,
    taken=1,  # the last cluster whose launch the current group has canceled; at first, the group itself
    withheld=1,  # warp whose response the host decides, from 1; or 0
    withheld_pc=1,  # the instruction that copies the response; -1: not issued yet
    withheld_mask=1,  # its lanes
    withheld_registers=1,  # host address of a copy of the warp's registers
    withheld_table=1,  # address of the table of responses
    delivers=1,  # 1: the host has decided, and the run begins by delivering the response
    refusal=1,  # number of the asynchronous operation that was refused a launch; 0: none
    cluster_phase=1,  # current phase of the cluster's barrier
    grid_phase=1,  # current phase of the grid's barrier
    grid_arrived=1,  # number of CTAs that have arrived in that phase
    cast=1,  # the CTA to which a copy goes instead of the addressed one; -1: the addressed one
    cast_done=1,  # CTAs to which a lane's copy has gone
    guarded_entry=1,  # see sync/clobber.py: the function that it calls
    asynchronous=1,  # 1: the program has asynchronous operations: each lane has its own clock from the start
    row_bytes=1,  # bytes of a row of `known`
    row_vectors=1,  # vectors of 32 intervals in a row
    row_bits=1,  # groups of 32 * 64 bits for asynchronous operations in a row, in all sets
    agent_bits=1,  # likewise in one set
    group_rows=1,  # rows of the warpgroups, see matrix/warpgroup.py
    operations=1,  # number of asynchronous operations that warps have issued
    relying=1,  # 1: a fence.proxy was executed; before that, visibility to the async proxy is not tracked
    releases=1,  # 1: rows track releases to the tensormap proxy
    tensor_memory_entry=1,  # see matrix/tensor_memory.py
    columns=1,  # host address of int32[members][512][128]: tensor memory, by lane
    columns_written=1,  # host address of a byte per word of tensor memory: 1 if it was written
    product=1,  # host address of a PRODUCT
    columns_scratch=1,  # host address of buffers for the registers of an operand
    tensor_shapes=1,  # host address of SHAPE[], see matrix/tensor_shapes.py
    tensor_ctas=1,  # host address of TENSOR_CTA[members]
    tensor_accesses=1,  # host address of TENSOR_ACCESS[tensor_room]
    tensor_count=1,
    tensor_first=1,  # granule of 32 columns at which the search for an allocation begins
    tensor_room=1,
    most_allocations=1,  # maximum number of allocations of a CTA
    most_columns=1,  # maximum of the total columns of a CTA's allocations
    tensor_fences=1,  # 1: rows track what `tcgen05.fence` publishes and orders
    group_kinds=1,  # GROUPS of each thread
    maps=1,  # host address of ACQUIRED[map_room]: see agents/map_fences.py
    map_count=1,
    map_room=1,
    proxies=1,  # 1: rows track what is visible to asynchronous operations
    agents=1,  # host address of AGENT[agent_room] of this CTA
    agent_room=1,
    agent_next=1,  # number of the next asynchronous operation
    agent_low=1,  # all threads have observed the operations below this number; its bit is the first one in rows
    groups=1,  # host address of GROUPS[3][32 * warps]: of cp.async, bulk operations and wgmma
    mbarriers=1,  # host address of MBARRIER[mbarrier_room]
    mbarrier_count=1,
    mbarriers_live=1,
    mbarrier_room=1,
    mbarrier_index=1,  # host address of int64[words of shared memory]: number of the mbarrier in a word, from 1, or 0
    mbarrier_low=1,  # range of the words with mbarriers
    mbarrier_high=1,
    registers=1,  # registers of a thread at the launch; 0: unknown
    pool=1,  # registers of a thread that warps have released
    whole=1,  # bytes of the whole access of which a piece is checked
    credited=1,  # bytes that a bulk load has completed
    outside=1,  # host address of int64[2] per operation of another family: see outside.py
    objects=1,  # host address of int64[objects_room]: memory for the objects of these families
    objects_room=1,
    wanted=1,  # bytes of the cells that an access needs if it is narrower; or the size to which a table must grow
    claims=1,  # host address of CLAIM[claim_room], or 0: accesses are recorded
    claim_count=1,
    claim_room=1,
    ordered=1,  # host address of a byte per instruction: 1 if it waits for the host; see memory/ordered.py
    ordered_entry=1,  # see memory/ordered.py: function that performs accesses
    joined=1,  # host address of int64[]: for each instruction, the start of a joined store's stores; see joined.py
    joined_entry=1,
    track_entry=1,  # see memory/joined.py: function that checks the other accesses
    turns=1,  # host address, for each segment, of the host address of a byte per byte
    windows=1,  # 1: some segments have windows
    let_go=1,  # lane of the next warp that may perform its ordered access, from 1; 0: none
)
SCRATCH = 1152
WAKES, ENDS, STARTS = -1, -2, -3
"""reasons other than an instruction to call `asynchronous`"""

DONE, DEADLOCK, BUDGET, FAULT, TRAP, STACK_OVERFLOW = range(6)
"""reasons for which the VM stopped"""
REFINE, SWEEP, WRITTEN, GROW, UNNAMED, LOOK = range(6, 12)
"""action of the host before the VM continues: give a segment finer cells; make room for sets of accesses; restart
with a segment that was assumed to be never written; restart with more room for `wanted`; restart without cells of
READERS; examine why rows deviate from the layout that a block assumes"""
GROW_AGENTS, GROW_BITS, GROW_MBARRIERS, GROW_MAPS, GROW_WINDOW = range(5)
OUTSIDE, WRAPPED, READ_ONLY, BAD_INDEX, ELSEWHERE, GAP = range(6)
"""values of detail[1] in an out-of-bounds finding"""


@allowing
def address_of(array: npt.NDArray[Any]) -> int:
    """Return the address of an array's first element."""
    if array.dtype.names is None and array.size:
        try:
            return ctypes.addressof(_BYTE.from_buffer(array))  # type: ignore[arg-type]  # a third of NumPy's own way
        except (TypeError, ValueError):  # it is read-only, or not contiguous
            pass
    return int(array.ctypes.data)


_BYTE = ctypes.c_char


def aligned_bytes(size: int) -> npt.NDArray[np.uint8]:
    """Return zeroed bytes on a 64-byte boundary: aligned vector instructions move rows of registers."""
    block = np.zeros(size + 64, np.uint8)
    start = -address_of(block) % 64
    return block[start : start + size]


def sparse_zeros(n: int, dtype: Any) -> npt.NDArray[Any]:
    """Return n zeros, few of which are accessed: NumPy would clear a table of some megabytes in memory that it reuses,
    but the system clears only what is touched."""
    size = n * np.dtype(dtype).itemsize
    if size < SPARSE or not sys.platform.startswith("linux"):
        return np.zeros(n, dtype)
    try:
        return np.frombuffer(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), dtype)
    except OSError as error:
        raise MemoryError(f"no memory for a table of {size:,} bytes") from error


SPARSE = 1 << 22
"""size in bytes from which on the system provides a sparse table"""


def table(n: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return n zeroed records; NumPy alone would write them field by field."""
    return np.zeros(n * dtype.itemsize, np.uint8).view(dtype)
