"""Tensor memory of a CTA: its words, its allocations, and the accesses to it.

PTX ISA, "Tensor Memory", "Tensor Memory Consistency Model".  Each word has its last write and the reads since.  An
access must be ordered after each conflicting access: its issuer has observed the end of the earlier access, or the two
form a pipelined pair.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from wsemu.model.data import NamedTuple
from wsemu.model.outcome import RawFinding
from wsemu.model.tensor_memory import COLUMNS, GRANULE
from wsemu.reference.memory.thread_shadow import ThreadWatch
from wsemu.reference.state import list_lanes
from wsemu.reference.sync import peers
from wsemu.reference.sync.thread_clocks import HAS_WRITTEN

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wsemu.reference.run import Cta
    from wsemu.reference.sync.thread_clocks import Clocks
    from wsemu.reference.warp import WarpRun

Word = tuple[int, int]
"""(lane, column)"""
OPERAND, SUM, COPY, COPY_ROWS, LOAD, STORE, ALLOCATION, RELEASE, USE = range(9)
"""classes of accesses: an mma reads A, scale factors or metadata (`OPERAND`), and reads and writes D (`SUM`); `cp`, and
`cp` of shape 4x256b; `ld`, `st`; `alloc`, `dealloc`; use of released columns"""
_READS = (OPERAND, LOAD)
_AFTER = {
    OPERAND: (SUM, COPY, COPY_ROWS),
    COPY: (OPERAND,),
    COPY_ROWS: (OPERAND,),
    STORE: (LOAD, STORE),
    LOAD: (STORE,),
}
"""pipelined pairs: an access -> the accesses that are ordered after it if the same warp issues them later with the same
cta_group; two sums are such a pair if they have the same D and shape"""
NO_WAIT_FOR_LOADS, NO_WAIT_FOR_STORES = 2, 1
"""`missing`: the missing wait, if the issue of an access has been observed but not its end"""


class Access(NamedTuple):
    """An access by an asynchronous operation of a lane; for `ld` and `st`, of the lowest lane of the warp."""

    agent: int
    warp: int
    """number of the warp in the group of CTAs"""
    lane: int
    time: int
    pc: int
    what: int
    group: int
    key: tuple[int, ...] = ()
    """address and shape of D, for a sum"""


class History(NamedTuple):
    """The last write to a word, and the accesses to it since."""

    write: Access | None = None
    reads: tuple[Access, ...] = ()


class Allocation(NamedTuple):
    """The granules of one allocation."""

    granules: int
    pc: int
    warp: int


class Filled(NamedTuple):
    """An operand in a collector buffer, and the instruction and warp that filled it."""

    pc: int
    warp: int
    operand: tuple[int, int, bool, int, bool, bool]
    """descriptor or address, number of rows, their layout, and whether the product is sparse"""
    elements: tuple[tuple[int, ...] | None, ...]
    """a tuple for each row; None for a row with an uninitialized word"""


class TensorMemory:
    """Words, allocations and accesses of one CTA."""

    def __init__(self, cta: Cta) -> None:
        self.cta = cta
        self.words: dict[Word, int] = {}
        """values of the initialized words"""
        self.history: dict[Word, History] = {}
        self.allocations: dict[int, Allocation] = {}
        """first granule of an allocation -> the allocation"""
        self.requests = self.requested = 0
        """number of allocations so far, and the columns of all of them together"""
        self.remains: set[int] = set()
        """granules that stay allocated after a release of only the first granules of their allocation"""
        self.relinquished: tuple[int, int] | None = None
        """(instruction, warp)"""
        self.last: tuple[int, int, int] | None = None
        """(columns, instruction, warp) of the last allocation"""
        self.group: tuple[int, int, int] | None = None
        """(cta_group, instruction, warp) of the first operation"""
        self.offered: int | None = None
        """the granule that the even CTA of a pair has chosen, until the odd CTA takes it"""
        self.offer = 0
        """the asynchronous operation that chose it"""
        self.promised: set[int] = set()
        """granules that the pair has, until the odd CTA takes them"""
        self.moves: defaultdict[tuple[int, int], int] = defaultdict(int)
        """(warp, LOAD or STORE) -> epochs of the operations for which it has not waited"""
        self.issued: defaultdict[tuple[int, int], int] = defaultdict(int)
        """(warp, lane) -> epochs of all its other operations"""
        self.buffers: dict[int, Filled] = {}
        """collector buffers: 0 for A, 1 to 4 for B with `.ws`"""
        self.released: list[tuple[range, Access]] = []
        """released columns that are not allocated again, each range with its release"""

    def note_issue(self, run: WarpRun, lane: int, agent: int) -> None:
        """Record a product or copy of a lane, and what the lane had observed at the issue: the observed operations end
        before this one begins."""
        known = run.cta.order.clocks((run.cta.number, run.warp.number), lane).all.agents
        self.issued[run.warp.number, lane] |= known | 3 << 2 * agent

    # -- who owns what ------------------------------------------------------------------------------------------------
    def owned_granules(self) -> set[int]:
        """Return the allocated granules."""
        return self.remains | {first + n for first, made in self.allocations.items() for n in range(made.granules)}

    def release(self, granules: range) -> None:
        """Release only these granules; the rest of their allocations remains."""
        kept = self.owned_granules().difference(granules)
        self.allocations = {first: made for first, made in self.allocations.items() if first not in granules}
        self.remains = set()
        self.remains = kept - self.owned_granules()

    def owned_bits(self) -> int:
        return sum(1 << granule for granule in self.owned_granules())

    def lacks(self, run: WarpRun, lanes: int, column: int, count: int) -> bool:
        """Report columns that the CTA does not own; return whether there are any."""
        if column + count > COLUMNS:
            run.cta.finding("tmem-bounds", run.group.pc, run.warp.number, lanes, column=column, columns=count)
            return True
        wanted = range(column // GRANULE, (column + count - 1) // GRANULE + 1)
        if (self.owned_granules() | self.promised).issuperset(wanted):
            return False
        if self.report_released(run, lanes, range(column, column + count), USE, run.group.pc):
            return True
        rank = self.cta.launch.grouping.of(self.cta.number)[1]
        run.cta.finding(
            "tmem-unallocated", run.group.pc, run.warp.number, lanes,
            column=column, columns=count, owned=self.owned_bits(), rank=rank,
        )  # fmt: skip
        return True

    def report_released(self, run: WarpRun, lanes: int, columns: range, what: int, pc: int) -> bool:
        """Report a release of these columns that precedes this access in this run but is not ordered with it; return
        whether there is one."""
        order, actor = run.cta.order, (run.cta.number, run.warp.number)
        for released, x in self.released:
            first = max(columns.start, released.start)
            if first >= min(columns.stop, released.stop):
                continue
            if any(
                not order.clocks(actor, lane).all.includes_agent(x.agent, HAS_WRITTEN) for lane in list_lanes(lanes)
            ):
                cta, warp = run.cta.group.actor(x.warp)
                detail = {"column": first, "lane": 0, "other_what": RELEASE, "what": what, "missing": 0}
                if cta != run.cta.number:
                    detail["other_cta"] = cta
                where = pc, run.cta.number, run.warp.number
                run.launch.report(RawFinding("tmem-race", *where, lanes, x.pc, warp, detail))
                return True
        return False

    # -- who accessed what --------------------------------------------------------------------------------------------
    def touch(self, run: WarpRun, lanes: int, now: Access, words: Iterable[Word]) -> None:
        """Check and record an access that `lanes` issue."""
        watch = run.launch.watch
        assert isinstance(watch, ThreadWatch)
        if not (watch.options.races or watch.options.recycling):
            return
        found: dict[int, tuple[tuple[int, int, int], Access, tuple[str, int]]] = {}
        judged: dict[Access, tuple[str, int] | None] = {}
        for word in words:
            before = self.history.get(word, History())
            for x in (before.write, *before.reads):
                if x is None or x.agent == now.agent or (x.what in _READS and now.what in _READS):
                    continue
                if x not in judged:
                    judged[x] = self._judge(run, lanes, x, now)
                if (told := judged[x]) is not None:
                    place = x.warp, word[1], word[0] // 16 * 16
                    if x.pc not in found or place < found[x.pc][0]:
                        found[x.pc] = place, x, told
            self.history[word] = _history_after(before, now)
        for pc, ((_, column, lane), x, (code, missing)) in sorted(found.items()):
            cta, warp = run.cta.group.actor(x.warp)
            detail = {"column": column, "lane": lane, "other_what": x.what, "what": now.what, "missing": missing}
            if cta != run.cta.number:
                detail["other_cta"] = cta
            run.launch.report(
                RawFinding(code, run.group.pc, run.cta.number, run.warp.number, lanes, pc, warp, detail)
            )  # fmt: skip

    def _judge(self, run: WarpRun, lanes: int, x: Access, now: Access) -> tuple[str, int] | None:
        """Return the missing order of two conflicting accesses: a finding code, and the missing wait."""
        if _are_pipelined(x, now) or self._is_read_between(x, now):
            return None
        order, actor = run.cta.order, (run.cta.number, run.warp.number)
        clocks = [order.clocks(actor, lane) for lane in list_lanes(lanes)]
        unknown = [one for one in clocks if not one.orders_tensor(x.agent)]
        if not unknown:
            return None
        if x.what <= STORE and all(one.came.includes_agent(x.agent, HAS_WRITTEN) for one in unknown):
            return "tcgen05-fence", self._missing_wait(x, order.number(actor), unknown[0])
        missing = self._missing_wait(x, order.number(actor), unknown[0])
        return "tmem-read-unfinished" if missing == NO_WAIT_FOR_LOADS else "tmem-race", missing

    def _is_read_between(self, x: Access, now: Access) -> bool:
        """Return whether a read orders a write after an earlier write: the read is of a word that the earlier one
        wrote, and forms a pipelined pair with each of the two writes."""
        if x.what in _READS or now.what in _READS or x.warp != now.warp:
            return False
        reads = (read for before in self.history.values() if before.write == x for read in before.reads)
        return any(_are_pipelined(x, read) and _are_pipelined(read, now) for read in reads)

    def _missing_wait(self, x: Access, warp: int, clocks: Clocks) -> int:
        """Return the missing wait of an earlier `ld` or `st`, if its issue has been observed but not its end."""
        if x.what not in (LOAD, STORE) or not (x.warp == warp or clocks.all.includes_lane(x.warp, x.lane, x.time)):
            return 0
        return NO_WAIT_FOR_LOADS if x.what == LOAD else NO_WAIT_FOR_STORES

    def forget(self, column: int, count: int) -> None:
        """Mark the words of newly allocated or released columns as uninitialized."""
        inside = range(column, column + count)
        self.words = {word: value for word, value in self.words.items() if word[1] not in inside}
        self.history = {word: history for word, history in self.history.items() if word[1] not in inside}


def _are_pipelined(x: Access, now: Access) -> bool:
    if x.warp != now.warp or x.group != now.group:
        return False
    return (x.what == SUM == now.what and x.key == now.key) or now.what in _AFTER.get(x.what, ())


def _history_after(before: History, now: Access) -> History:
    if now.what not in _READS:
        return History(now)
    same = [x for x in before.reads if (x.warp, x.lane, x.what, x.group) != (now.warp, now.lane, now.what, now.group)]
    return History(before.write, (*same, now))


def reach_peer(run: WarpRun, lanes: int, agent: int, members: Sequence[Cta]) -> None:
    """Record the access of an operation of a CTA pair to the peer, which must run until the operation is complete (PTX
    ISA, "CTA Pair")."""
    for member in members:
        if member is not run.cta:
            peers.reach(run, run.launch.grouping.of(member.number)[1], lanes, agent, told=agent >= 0)
