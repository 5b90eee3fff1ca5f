"""Happens-before between single threads, by the synchronization rules of the PTX memory model, and the races it leaves.

`happens_before.py` judges whole warps after a run: there, a fence or an atomic of one lane counts for all lanes. Here
each thread has its own vector clock, and only synchronization that PTX ISA, "Memory Consistency Model", guarantees
counts:

`release`      A fence followed by a strong write of the same thread; or a release write followed by strong writes of
               the thread to the same location.
`acquire`      A strong read followed by a fence of the same thread; or an acquire read, which also acquires for earlier
               strong reads of its location.
`observe`      A strong read observes the write whose value it returns.  If atomics produced that value, it also
               observes the earlier writes in their chain.
`synchronize`  An acquire that observed a release joins the release's clock, if the scope of each includes the
               other thread.
`sequential`   Two `fence.sc` whose scopes include the other thread are ordered consistently with all observations.  If
               the first fence precedes an access, and a later conflicting access precedes the second fence, then the
               second fence joins the clock of the first.  Program order, barriers and acquired releases all count as
               preceding.
`cause`        An observed write precedes everything after the read.  Earlier accesses of the writing thread do not,
               unless a release covers them.

A clock has one column per thread. The column holds an interval of the thread's warp, as the engines count intervals:
the clock's owner has observed everything that the thread did up to the end of this interval. Each series of atomic
writes has a further column, because observing such a write does not imply observing what came before it.

Barriers, exits and warp-wide operations release and acquire as in `happens_before.py`.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from wsemu.model.data import NamedTuple, dataclass, field
from wsemu.model.effects import effects_of
from wsemu.model.isa import (
    ACQUIRES,
    ADDRESS_WRAPPED,
    ALL,
    AS_STORE,
    ATOMIC,
    BOTH_WAYS,
    FIRST_ARRAY,
    LANES,
    LOCAL,
    NAMES,
    NO_STORE,
    OF_CLUSTER,
    OF_CTA,
    ONLY_READ,
    OPERATIONS,
    PARTS_SHIFT,
    READ,
    RELEASES,
    SCOPES,
    SEGMENT_SHIFT,
    SEQUENTIAL,
    SERVED,
    SHARED,
    WRITE,
    access_shape,
    is_cluster_fence,
)
from wsemu.model.outcome import ALL_LANES, CTA_FENCE, FENCES
from wsemu.proof.mixed_vectors import find_mixed_vectors
from wsemu.proof.robust import EVERYWHERE, IN_CLUSTER, IN_CTA, NOWHERE, Before, Pair, Strong, Waits, make_whole
from wsemu.proof.thread_keys import BEHIND, FORCED, WIDE, Key, fence_name, parts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence

    from wsemu.model.effects import Group
    from wsemu.model.outcome import Event
    from wsemu.model.program import Program

Rows = np.ndarray[Any, np.dtype[np.int32]]
"""one clock or several, one a row: the observed interval of each column"""
Reached = dict[int, Rows]
"""keys of a scope (`WIDE`, a CTA's number, or -2 minus a cluster's number) -> the clock released to it"""
Fences = tuple[Reached, Reached]
"""clocks of earlier `fence.sc`: of fences that already precede this point, and of fences that the next `fence.sc` joins
"""
Thread = int
"""number of a thread: CTA * threads of a CTA + index in its CTA"""
Place = tuple[int, int]
"""a memory location: (CTA if it is in shared memory, otherwise -1; address)"""
_NOTHING: frozenset[Before] = frozenset()
_REDUCES, _COPIES = -2, -3
"""stand for a thread in `_Touch`: all reducing copies, and all other copies"""
_NEVER = 1 << 30
"""interval of an asynchronous copy: no clock ever reaches it"""
_OF_CTA, _OF_CLUSTER, _OF_ALL = range(3)
"""scope of a fence or a strong access"""
_FAR = {_OF_CTA: IN_CTA, _OF_CLUSTER: IN_CLUSTER, _OF_ALL: EVERYWHERE}
_SCOPED = {OF_CTA: _OF_CTA, OF_CLUSTER: _OF_CLUSTER, 0: _OF_ALL}
"""scope of each code of a strong access"""
_NO_ROW: Rows = np.zeros(0, np.int32)
_NO_REACH: Reached = {}
_NO_FENCES: Fences = {}, {}


class Made(NamedTuple):
    """An event of the trace; for an access, also the address of each lane."""

    event: Event
    addresses: tuple[tuple[int, int], ...] = ()
    """pairs of a lane and its address"""
    wrote: int = ALL_LANES
    """mask of the lanes whose atomic changed memory: a `cas` that fails does not"""


class Entry(NamedTuple):
    """A recorded access: a later conflicting access must be ordered after it."""

    thread: Thread
    mark: int
    kind: int
    column: int
    """column of the clock for this write, if threads observe the write by itself; otherwise 0"""
    written: int
    """number of this write within its column"""
    number: int
    """number of its event in the trace"""
    size: int
    reach: int
    """scope, if it is an atomic access"""
    pc: int
    agent: bool = False
    """true if an asynchronous copy performed it: threads observe it only through its column"""

    def is_same_width(self, other: Entry) -> bool:
        """Return whether both accesses are atomics of one width, so that they may be atomic with each other."""
        alike = self.size == other.size and self.agent == other.agent
        return self.kind == other.kind == ATOMIC and alike

    def covers(self, earlier: Entry) -> bool:
        """Return whether this access makes an earlier one of its thread redundant in race checks.

        Whatever is ordered after this access, or atomic with it, has the same relation to the earlier one.
        """
        same = self.thread == earlier.thread and self.kind == earlier.kind
        return (
            same
            and not (self.agent or earlier.agent)
            and (
                self.kind == READ
                or (self.column == earlier.column and self.size == earlier.size and self.reach <= earlier.reach)
            )
        )


class MemoryEffect(NamedTuple):
    """The memory effect of an access."""

    atomic: bool
    stores: bool
    """true if it writes and is not an atomic"""
    size: int


def memory_effect(fields: Sequence[int], *, data: bool) -> MemoryEffect:
    """Return the memory effect of an instruction; with `data`, a strong load or store counts as a plain one."""
    name = NAMES[fields[0]]
    store, size = access_shape(name)
    if not data:
        return MemoryEffect(OPERATIONS[name].kind == "atomic", store, size)
    return MemoryEffect(False, fields[7] & SERVED == AS_STORE, size)


class Imagined(NamedTuple):
    """Fences that the program lacks: a comparison with them present shows what their absence causes."""

    behind: Container[int] = ()
    """instructions of strong reads that such a fence follows"""
    before: Container[int] = ()
    """instructions of strong writes that such a fence precedes"""


NONE = Imagined()


class Race(NamedTuple):
    """Two conflicting accesses that nothing orders."""

    earlier: Entry
    later: Entry
    address: int


class Excused(NamedTuple):
    """A race that only a missing fence causes; `missing.py` turns it into a warning."""

    race: Race
    found: bool
    """true if only the reader's fence is missing: known hardware then returns the written value"""


Cell = tuple[tuple[Entry, ...], tuple[Entry, ...]]
"""(writes, reads) of one location that later accesses must be ordered after"""


@dataclass(slots=True)
class Location:
    """The clocks that a strong read of a location can acquire."""

    observed: dict[int, int] = field(default_factory=dict)
    """column -> how many of its writes a read observes"""
    given: dict[int, Rows] = field(default_factory=dict)
    """scope key (see `Reached`) -> released clock; `fence_name` of a scope key -> clock that a `fence.sc` released"""

    written: Reached = field(default_factory=dict)
    """clocks of each `fence.sc` that precedes a write to the location, or a read before such a write"""
    read: Reached = field(default_factory=dict)
    """clocks of each `fence.sc` that precedes a read of the location"""

    def copy(self) -> Location:
        return Location(dict(self.observed), dict(self.given), self.written, self.read)


class Shared:
    """Facts about a launch that its explored interleavings collect together."""

    def __init__(self) -> None:
        self.common: set[Place] = set()
        """locations with a possible conflict: in some interleaving, two threads or two steps access them. Their
        accesses are recorded with clocks; of other locations, only the fact of an access is recorded"""
        self.grown = False
        """true if `common` or `places` grew so that recorded states are obsolete; the caller resets it"""
        self.pairs: set[Pair] = set()
        """pairs of strong accesses to different locations, the first of which precedes the second"""
        self.strong: set[Strong] = set()
        self.places: set[Place] = set()
        """all locations that strong accesses touch"""
        self.waits: Waits | None = None
        """for each read, the writes whose values it returned; None: strong accesses are not counted"""
        self.excused: dict[tuple[int, int], Excused] = {}
        """pairs of instructions that race only because of a missing fence, which is a warning (`missing.py`)"""

    def follow(self, access: Strong) -> None:
        """Record a strong access."""
        self.strong.add(access)
        if access.place not in self.places:
            self.places.add(access.place)
            self.grown |= len(self.places) == 2


class _Touch(NamedTuple):
    """The accesses so far to a location that is not in `Shared.common`."""

    thread: Thread
    """the accessing thread; -1: several threads, none of which writes"""
    step: int
    writes: bool
    plain: bool
    """true if one of them is a plain access, or if they are atomics of several widths"""
    size: int
    """width of the last one"""


_TABLES = (
    "rows", "fenced", "pending", "own", "seen", "last", "columns", "counts", "given", "exited", "behind", "forced",
    "meeting", "cells", "touched", "touched_keys", "before", "gathered", "loads", "groups",
    "numbers", "writers",
)  # fmt: skip
"""names of the tables that `Knowledge.copy` duplicates"""


@dataclass
class _Vector:
    """A strong access of a vector, which counts as one access."""

    known: frozenset[Before]
    """the strong accesses that precede it"""
    elements: list[Strong] = field(default_factory=list)
    """elements that have been recorded"""


class Knowledge:
    """The vector clocks of all threads of a launch, and the accesses that later ones must be ordered after."""

    def __init__(
        self, program: Program, ctas: int, threads: int, shared: Shared, *, lockstep: bool, uncounted: Iterable[int],
        ordered: Container[int], cluster_of: Callable[[int], int] = int, others: bool = False,
        data: Container[int] = (), imagined: Imagined = NONE, unwatched: Container[int] = (),
        equal: Collection[tuple[int, int]] = (),
    ) -> None:  # fmt: skip
        """Begin a launch of `ctas` CTAs with `threads` threads each.

        With `lockstep`, a warp counts as one thread. `uncounted` are barrier operations without a thread count.
        `ordered` are the strong accesses whose interleavings are explored; others order nothing. `cluster_of` returns
        the cluster of a CTA. `others`: the launch has further CTAs, which are not followed. `data` are strong loads and
        stores that are judged as plain ones, and `unwatched` are memory segments without race checks. `equal` are
        pairs of plain stores that write the same value.
        """
        self.data, self.imagined, self.unwatched, self.equal = data, imagined, unwatched, equal
        self.joined = frozenset(pc for pair in equal for pc in pair)
        """plain stores that need not be ordered with some others"""
        self.clusters = {c: -2 - cluster_of(c) for c in range(ctas)}
        self.program, self.lockstep, self.uncounted = program, lockstep, frozenset(uncounted)
        self.ordered, self.shared = ordered, shared
        self.mixed = find_mixed_vectors(program, ordered)
        self.warps = -(-threads // LANES)
        self.of_cta = self.warps * LANES
        self.total = self.width = ctas * self.of_cta
        self._read_code()
        self._find_scopes(ctas, others)
        self._make_clocks(ctas)
        self._make_accesses()
        self._make_copies()
        self.step = 0
        self.state = b""
        """digest of the CTA's state before the current operations"""
        self.in_vain = False
        """true while a poll fails and its loop repeats"""
        self._rules: dict[str, Callable[[Made], None]] = {
            "arrive": self._arrive, "sync": self._sync, "complete": self._complete, "exit": self._exit,
            "warp": self._warp, **dict.fromkeys(FENCES, self._fence),
            "arrive_on": self._arrive_on, "await": self._await, "init": self._init,
            "credit": self._credit, "commit": self._commit, "landed": self._land,
        }  # fmt: skip

    def _read_code(self) -> None:
        """Read from the program which fences and operations it has."""
        self.code = self.program.code.tolist()
        self.sequential = any(NAMES[fields[0]] in FENCES and fields[7] == SEQUENTIAL for fields in self.code)
        self.acquires = any(NAMES[fields[0]] in FENCES and fields[7] == ACQUIRES for fields in self.code)
        self.grain = min((_element(NAMES[fields[0]]) for fields in self.code if _accesses(fields[0])), default=4)
        self.asynchronous = self.program.asynchronous
        """true if the program has asynchronous operations: an engine then checks accesses to shared memory for races,
        see `launch/explore/replays.py`"""

    def _make_clocks(self, ctas: int) -> None:
        """Create the clocks of threads, and those that fences, barriers and exits pass on."""
        self.rows: dict[int, Rows] = {c: np.zeros((self.of_cta, self.width), np.int32) for c in range(ctas)}
        self.fenced: dict[Thread, dict[int, Rows]] = {}
        """thread -> the clock that its next strong writes release"""
        self.pending: dict[Thread, dict[int, Rows]] = {}
        """thread -> the clock that only its next strong write releases, with later writes to the same location"""
        self.own: dict[tuple[Thread, Place], dict[int, Rows]] = {}
        """(thread, location) -> the clock that its later writes there release, because an earlier one there released it
        """
        self.seen: dict[tuple[Thread, Place], dict[int, Rows]] = {}
        """(thread, location) -> the clock that a fence of the thread would acquire after its reads there"""
        self.behind: dict[Thread, Reached] = {}
        """thread -> clocks of each `fence.sc` that precedes it, not counting observed writes"""
        self.forced: dict[Thread, Reached] = {}
        """thread -> clocks that its next `fence.sc` joins: of each `fence.sc` that must precede it, if the scope of
        each includes the other's thread"""
        self.meeting: dict[tuple[int, int], Fences] = {}
        """(CTA, barrier) -> both tables, `behind` and `forced`, joined over the arrivals of the current generation"""
        self.given: dict[tuple[int, int], tuple[Rows, tuple[tuple[int, ...], ...], bool]] = {}
        """(CTA, barrier) -> of the current generation: the released clock, the threads of each sync, and whether an
        operation has no thread count"""
        self.exited: dict[int, Rows] = {}
        self.gone: set[tuple[int, int]] = set()
        self.counts: dict[int, int] = {}
        self.columns: dict[tuple[Thread, Place], int] = {}

    def _make_accesses(self) -> None:
        """Create the tables of accesses that later ones must be ordered after."""
        self.last: dict[Thread, Place] = {}
        """thread -> location of its last strong access"""
        self.locations: dict[Place, Location] = {}
        self.cells: dict[Place, Cell] = {}
        self.touched: dict[Place, _Touch] = {}
        self.touched_keys: dict[int, int] = {}
        """CTA of shared memory, or -1 -> hash of all its touches, which distinguishes states"""
        self.before: dict[Thread, frozenset[Before]] = {}
        """thread -> strong accesses that precede it, by program order and barriers"""
        self.gathered: dict[tuple[int, int], frozenset[Before]] = {}
        """(CTA, barrier) -> strong accesses that precede the arrivals of the current generation"""
        self.vector: _Vector | None = None
        """the access of a vector that is being recorded"""
        self.numbers: dict[Thread, int] = {}
        """thread -> number of its strong accesses so far, if they are counted"""
        self.writers: dict[Place, Strong] = {}
        """location -> its last strong write, if these are counted"""
        self.apart: frozenset[int] = frozenset()
        """arrays in which each CTA accesses its own locations, determined by its number"""
        self.unclear: tuple[int, ...] = ()
        """stores of which several lanes write the same location"""

    def _find_scopes(self, ctas: int, others: bool) -> None:
        """Find which scopes of operations differ in this launch."""
        one = len(set(self.clusters.values())) == 1
        self.everywhere = _OF_ALL if others or not one else _OF_CTA if ctas == 1 else _OF_CLUSTER
        """narrowest scope that includes all threads of the launch"""
        self.by_clusters = len(set(self.clusters.values())) < ctas and any(
            is_cluster_fence(fields) or (OPERATIONS[NAMES[fields[0]]].kind == "atomic" and fields[7] & OF_CLUSTER)
            for fields in self.code
        )
        """true if some scope is a cluster, so that membership in a cluster matters"""
        sequential = [fields for fields in self.code if NAMES[fields[0]] in FENCES and fields[7] == SEQUENTIAL]
        self.one_reach = len({self._extent(fields) for fields in sequential}) == 1
        """true if every `fence.sc` has the same scope: one key then identifies it"""

    def _make_copies(self) -> None:
        """Create the tables of asynchronous copies that are not complete."""
        self.loads: dict[tuple[Thread, int], tuple[int, ...]] = {}
        """(thread, instruction) -> the columns of its last copies, whose completion a phase counts"""
        self.groups: dict[tuple[Thread, Group], tuple[tuple[int, ...], ...]] = {}
        """(thread, kind of group) -> the columns of its pending copies, group by group; the last entry has the copies
        that are not committed yet"""
        self.told: frozenset[int] = frozenset()
        """columns of copies that a phase tracks by `cp.async.arrive`; who observes their completion is not followed
        """
        self.loose: tuple[int, ...] = ()
        """instructions of an access and of a copy, if their order could not be decided"""

    def copy(self) -> Self:
        """Return a copy to continue from; the two share only data that never changes in place."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        for name in _TABLES:
            setattr(made, name, dict(getattr(self, name)))
        made.locations = {place: location.copy() for place, location in self.locations.items()}
        made.gone = set(self.gone)
        made._rules = {  # bound to the copy
            kind: getattr(made, rule.__name__) for kind, rule in self._rules.items()
        }
        return made

    def apply(self, cta: int, made: Iterable[Made], first: int) -> Iterator[Race]:
        """Process operations of one CTA, whose events are numbered from `first` on, and yield the races."""
        self.rows[cta] = self.rows[cta].copy()
        self.step += 1
        for number, one in enumerate(made, first):
            if one.event.kind == "access":
                yield from self._access(one, number)
            elif one.event.kind == "copy":
                yield from self._copy(one.event, number)
            elif one.event.kind in self._rules:
                self._rules[one.event.kind](one)

    # -- rows ----------------------------------------------------------------------------------------------------------
    def _threads(self, event: Event, lanes: int) -> list[Thread]:
        first = event.cta * self.of_cta + event.warp * LANES
        if self.lockstep:
            lanes = ALL_LANES
        return [first + lane for lane in range(LANES) if lanes >> lane & 1]

    def _at(self, cta: int, threads: list[Thread]) -> list[int]:
        return [thread - cta * self.of_cta for thread in threads]

    def _giving(self, event: Event, threads: list[Thread]) -> Rows:
        """Return the clocks of a warp's threads, one a row; each includes the past accesses of its own thread."""
        rows: Rows = self._wide(event.cta, self.width)[self._at(event.cta, threads), : self.width]
        rows[np.arange(len(threads)), threads] = event.interval
        return rows

    def _take(self, cta: int, threads: list[Thread], row: Rows) -> None:
        at, width = self._at(cta, threads), len(row)
        own = self._wide(cta, width)
        own[at, :width] = np.maximum(own[at, :width], row)

    def _wide(self, cta: int, width: int) -> Rows:
        """Return the clocks of a CTA's threads, padded to at least `width` columns."""
        rows = self.rows[cta]
        if rows.shape[1] < width:
            self.rows[cta] = rows = np.pad(rows, ((0, 0), (0, width - rows.shape[1] + 16)))
        return rows

    # -- barriers and lanes --------------------------------------------------------------------------------------------
    def _give(self, event: Event, waits: bool) -> None:
        key = event.cta, event.place
        threads = self._threads(event, event.lanes)
        row = self._giving(event, threads).max(0)
        if self.sequential:
            self.meeting[key] = self._fences_of(threads, *self.meeting.get(key, _NO_FENCES))
        given, syncs, uncounted = self.given.get(key, (np.zeros(0, np.int32), (), False))
        self.gathered[key] = self.gathered.get(key, _NOTHING).union(*(self.before.get(t, _NOTHING) for t in threads))
        self.given[key] = (
            _join_rows(given, row), (*syncs, tuple(threads)) if waits else syncs,
            uncounted or event.pc in self.uncounted,
        )  # fmt: skip

    def _arrive(self, made: Made) -> None:
        self._give(made.event, waits=False)

    def _sync(self, made: Made) -> None:
        self._give(made.event, waits=True)

    def _complete(self, made: Made) -> None:
        event = made.event
        given, syncs, uncounted = self.given.pop((event.cta, event.place), (np.zeros(0, np.int32), (), False))
        if (uncounted or (event.cta, event.warp) in self.gone) and event.cta in self.exited:
            given = _join_rows(given, self.exited[event.cta])
        fences = self.meeting.pop((event.cta, event.place), _NO_FENCES)
        gathered = self.gathered.pop((event.cta, event.place), _NOTHING)
        for threads in syncs:
            self._take(event.cta, list(threads), given)
            self._meet(threads, gathered)
            self._know_fences(threads, *fences)

    def _fences_of(self, threads: Iterable[Thread], behind: Reached, forced: Reached) -> Fences:
        """Join the `fence.sc` clocks of some threads to the given ones."""
        for thread in threads:
            behind = _join_reached(behind, self.behind.get(thread, _NO_REACH))
            forced = _join_reached(forced, self.forced.get(thread, _NO_REACH))
        return behind, forced

    def _know_fences(self, threads: Iterable[Thread], behind: Reached, forced: Reached) -> None:
        for table, known in ((self.behind, behind), (self.forced, forced)):
            if known:
                table.update({thread: _join_reached(known, table.get(thread, _NO_REACH)) for thread in threads})

    def _exit(self, made: Made) -> None:
        event = made.event
        self.gone.add((event.cta, event.warp))
        threads = self._threads(event, ALL_LANES)
        row = self._giving(event, threads).max(0)
        self.exited[event.cta] = _join_rows(self.exited.get(event.cta, np.zeros(0, np.int32)), row)
        for thread in threads:
            self._forget(thread)
        there = set(threads)
        for table in (self.own, self.seen):
            for key in [key for key in table if key[0] in there]:
                del table[key]

    def _forget(self, thread: Thread) -> None:
        """Drop the state of a thread that has exited."""
        own: tuple[dict[Thread, Any], ...] = (
            self.fenced, self.pending, self.last, self.before, self.behind, self.forced,
        )  # fmt: skip
        for table in own:
            table.pop(thread, None)

    def _warp(self, made: Made) -> None:
        event = made.event
        threads = self._threads(event, event.place & ALL_LANES)
        self._take(event.cta, threads, self._giving(event, threads).max(0))
        self._meet(threads, _NOTHING.union(*(self.before.get(t, _NOTHING) for t in threads)))
        if self.sequential:
            self._know_fences(threads, *self._fences_of(threads, *_NO_FENCES))

    def _meet(self, threads: Iterable[Thread], gathered: frozenset[Before]) -> None:
        if gathered:
            for thread in threads:
                self.before[thread] = self.before.get(thread, _NOTHING) | gathered

    # -- fences and strong accesses ------------------------------------------------------------------------------------
    def _fence(self, made: Made) -> None:
        event = made.event
        part, reach = self.code[event.pc][7], self._reach(event)
        threads = self._threads(event, event.place & ALL_LANES)
        for thread in threads:
            if part != RELEASES:
                self._acquire(event, thread, reach, self._places_of(thread, part))
        if part in (SEQUENTIAL, BOTH_WAYS):
            far = _FAR[self._extent(self.code[event.pc])]
            fully = far if part == SEQUENTIAL else NOWHERE
            for thread in threads:
                known = self.before.get(thread, _NOTHING)
                self.before[thread] = frozenset(
                    b._replace(fence=max(b.fence, far), sequential=max(b.sequential, fully)) for b in known
                )
        elif part == ACQUIRES:
            for thread in threads:
                known = self.before.get(thread, _NOTHING)
                own = thread, self.last.get(thread)
                self.before[thread] = frozenset(
                    b._replace(acquired=b.acquired or (b.access.thread, b.access.place) == own) for b in known
                )
        if part == ACQUIRES:
            return
        ends = self._ends(event) if part == SEQUENTIAL else ()
        for thread in threads if ends else ():
            forced = self.forced.get(thread, _NO_REACH)
            for to in ends:
                if to in forced:
                    self._take(event.cta, [thread], forced[to])
        rows = self._giving(event, threads)
        if self.lockstep:
            rows[:] = rows.max(0)
        for thread, row in zip(threads, rows, strict=True) if ends else ():
            self.behind[thread] = _join_reached(self.behind.get(thread, _NO_REACH), dict.fromkeys(ends, row))
        within = self._within(event.cta, reach)
        for thread, row in zip(threads, rows, strict=True):
            table = self.pending if part == RELEASES else self.fenced
            given = dict.fromkeys(within, row)
            for kind, fences in ((BEHIND, self.behind), (FORCED, self.forced)):
                ended = fences.get(thread, _NO_REACH).items()
                given.update({fence_name(to, kind, end): knew for end, knew in ended for to in within})
            table[thread] = _join_reached(table.get(thread, _NO_REACH), given)

    def _extent(self, fields: Sequence[int]) -> int:
        """Return the scope of a fence, widened to all CTAs if it includes every thread of this launch."""
        reach = _OF_ALL
        if NAMES[fields[0]] == CTA_FENCE:
            reach = _OF_CLUSTER if is_cluster_fence(fields) and self.by_clusters else _OF_CTA
        return _OF_ALL if reach >= self.everywhere else reach

    def spread(self, threads: Iterable[Thread]) -> int:
        """Return the narrowest scope of a fence that orders the given threads."""
        ctas = {thread // self.of_cta for thread in threads}
        reach = _OF_CTA if len(ctas) == 1 else _OF_CLUSTER if len({self.clusters[c] for c in ctas}) == 1 else _OF_ALL
        return _FAR[reach]

    def _ends(self, event: Event) -> tuple[int, ...]:
        """Return the keys of a `fence.sc`: two fences share a key if their scopes include each other's threads."""
        reach = self._extent(self.code[event.pc])
        if not self.one_reach:
            return self._within(event.cta, reach)
        return ((event.cta,), (self.clusters[event.cta],), (WIDE,))[reach]

    def _acquire_after(self, event: Event, thread: Thread, place: Place) -> None:
        """Acquire for an acquire read, including what earlier strong reads of its location observed."""
        reach = self._acquiring_reach(event)
        if reach is None or place not in self.locations:
            return
        threads = self._threads(event, ALL_LANES) if self.lockstep else [thread]
        self._take_given(event.cta, threads, reach, self.locations[place].given)
        self._acquire(event, thread, reach, [place])

    def _acquiring_reach(self, event: Event) -> int | None:
        """Return the scope of an acquire access, or None for others; the program represents it by a fence after it."""
        fence = self.code[event.pc + 1] if event.pc + 1 < len(self.code) else None
        if fence is None or NAMES[fence[0]] not in FENCES or fence[7] != ACQUIRES:
            return None
        return self._reach(event._replace(kind=NAMES[fence[0]], pc=event.pc + 1))

    def _add_acquired(self, event: Event, pending: Reached, seen: Reached) -> Reached:
        """Return the clock that a release access releases, including what it acquires itself.

        An access that does both ends an acquire pattern and begins a release pattern.
        """
        reach = self._acquiring_reach(event)
        if reach is None:
            return pending
        within = self._within(event.cta, reach)
        released = [to for to in pending if not parts(to)[1]]
        for row in (seen[to] for to in within if to in seen):
            pending = _join_reached(pending, dict.fromkeys(released, row))
        for kind, fences in zip((BEHIND, FORCED), _fences_to(within, seen), strict=True):
            for end, row in fences.items():
                pending = _join_reached(pending, {fence_name(to, kind, end): row for to in released})
        return pending

    def _places_of(self, thread: Thread, part: int) -> tuple[Place, ...]:
        """Return the locations whose earlier reads become acquires because of this fence."""
        if part == ACQUIRES:
            return (self.last[thread],) if thread in self.last else ()
        return tuple(place for own, place in self.seen if own == thread)

    def _reach(self, event: Event) -> int:
        """Return the scope of a fence."""
        if event.kind != CTA_FENCE:
            return _OF_ALL
        return _OF_CLUSTER if is_cluster_fence(self.code[event.pc]) else _OF_CTA

    def _within(self, cta: int, reach: int) -> tuple[int, ...]:
        """Return the scope keys under which a thread of a CTA releases and acquires."""
        if not self.by_clusters:  # a key per cluster would distinguish symmetric states
            return (cta, WIDE) if reach == _OF_ALL else (cta,)
        return (cta, self.clusters[cta], WIDE)[: reach + 1]

    def _acquire(self, event: Event, thread: Thread, reach: int, places: Iterable[Place]) -> None:
        for place in places:
            self._take_given(event.cta, [thread], reach, self.seen.get((thread, place), {}))

    def _take_given(self, cta: int, threads: list[Thread], reach: int, given: dict[int, Rows]) -> None:
        """Join released clocks to those of threads, and the `fence.sc` clocks released with them."""
        for to in self._within(cta, reach):
            if to in given:
                self._take(cta, threads, given[to])
        if self.sequential:
            self._know_fences(threads, *_fences_to(self._within(cta, reach), given))

    def _strong(self, event: Event, thread: Thread, place: Place, wrote: bool) -> tuple[int, int]:
        """Record a strong access of a thread, and return (column, count) of its write."""
        fields = self.code[event.pc]
        location = self.locations.setdefault(place, Location())
        stores = fields[7] & SERVED == AS_STORE
        threads = self._threads(event, ALL_LANES) if self.lockstep else [thread]
        if not stores:
            at = self._at(event.cta, threads)
            rows = self._wide(event.cta, self.width)
            for column, count in location.observed.items():
                rows[at, column] = np.maximum(rows[at, column], count)
            for one in threads:
                self.seen[one, place] = _join_reached(self.seen.get((one, place), {}), location.given)
            if event.pc in self.imagined.behind:
                self._take_given(event.cta, threads, _OF_ALL, location.given)
        if self.sequential:
            self._meet_fences(threads, location, not stores, wrote and not fields[7] & NO_STORE)
        self._follow(event, thread, place, not stores, wrote and not fields[7] & NO_STORE)
        for one in threads:
            self.last[one] = place
        if not wrote or fields[7] & NO_STORE:
            for one in threads:  # a `cas` that fails releases nothing, nor do later writes through it
                self.pending.pop(one, None)
            return 0, 0
        released: dict[int, Rows] = {}
        own_scope: dict[Thread, tuple[int, ...]] = {}
        if event.pc in self.imagined.before:
            row = self._giving(event, threads).max(0)
            released = dict.fromkeys(self._within(event.cta, _OF_ALL), row)
        for one in threads:
            pending = self.pending.pop(one, {})
            if pending:
                pending = self._add_acquired(event, pending, self.seen.get((one, place), _NO_REACH))
                self.own[one, place] = _join_reached(self.own.get((one, place), {}), pending)
                own_scope[one] = tuple(to for to in pending if not parts(to)[1])
            for more in (self.fenced.get(one, {}), self.own.get((one, place), {})):
                released = _join_reached(released, more)
        if stores:
            location = Location({}, {}, location.written, location.read)
        broken = place in self.shared.common and self.columns.get((thread, place)) not in location.observed
        if (thread, place) not in self.columns or broken:  # a reader observes no earlier write of the thread
            self.columns[thread, place] = self.width
            self.width += 1
        column = self.columns[thread, place]
        self.counts[column] = self.counts.get(column, 0) + 1
        for one, scope in own_scope.items():  # a later strong write there releases this write as well
            made = np.zeros(column + 1, np.int32)
            made[column] = self.counts[column]
            self.own[one, place] = _join_reached(self.own[one, place], dict.fromkeys(scope, made))
        self.locations[place] = Location(
            {**location.observed, column: self.counts[column]}, _join_reached(location.given, released),
            location.written, location.read,
        )  # fmt: skip
        return column, self.counts[column]

    def _meet_fences(self, threads: Iterable[Thread], location: Location, reads: bool, writes: bool) -> None:
        """Record the `fence.sc` around a strong access.

        For two conflicting accesses, a `fence.sc` before the first one precedes a `fence.sc` after the second one.
        """
        for thread in threads:
            met = _join_reached(location.written, location.read) if writes else location.written
            if met:
                self.forced[thread] = _join_reached(met, self.forced.get(thread, _NO_REACH))
            behind = self.behind.get(thread, _NO_REACH)
            if behind and reads:
                location.read = _join_reached(location.read, behind)
            if writes:  # whoever observes this write comes after the earlier reads
                location.written = reduce(_join_reached, (location.written, location.read, behind))

    def _follow(self, event: Event, thread: Thread, place: Place, reads: bool, writes: bool) -> None:
        """Record a strong access, and pair it with the strong accesses that precede it."""
        access = Strong(thread, place, reads, writes, event.pc)
        if self.shared.waits is not None:
            access = self._count(access, self.shared.waits)
        released = EVERYWHERE if writes and thread in self.pending else NOWHERE
        known = self.before.get(thread, _NOTHING)
        self.shared.pairs.update(
            Pair(b.access, access, EVERYWHERE if b.acquired else b.fence, max(b.fence, released), b.sequential)
            for b in (known if self.vector is None else self.vector.known)
            if b.access.place != place
        )
        if self.vector is not None:
            for other in self.vector.elements:
                self.shared.pairs |= {make_whole(other, access), make_whole(access, other)}
            self.vector.elements.append(access)
        self.shared.follow(access)
        self.before[thread] = known | {Before(access)}

    def _count(self, access: Strong, waits: Waits) -> Strong:
        """Return an access with its number within its thread, and record which write it reads."""
        number = self.numbers.get(access.thread, 0)
        self.numbers[access.thread] = number + 1
        access = access._replace(number=number)
        if access.reads:
            waits.note(access, self.writers.get(access.place), self.state, in_vain=self.in_vain)
        if access.writes:
            self.writers[access.place] = access
        return access

    # -- accesses ------------------------------------------------------------------------------------------------------
    def _access(self, made: Made, number: int) -> Iterator[Race]:
        event = made.event
        fields = self.code[event.pc]
        atomic, store, size = memory_effect(fields, data=event.pc in self.data)
        strong = atomic and event.pc in self.ordered
        reach = _SCOPED[fields[7] & SCOPES] if atomic else _OF_CTA
        width = size >> (fields[7] >> PARTS_SHIFT & 3) if atomic else size  # of an element: a vector goes with scalars
        first = event.cta * self.of_cta + event.warp * LANES
        touched: dict[Place, Thread] = {}
        for lane, address in made.addresses:
            address &= ~ADDRESS_WRAPPED
            segment = address >> SEGMENT_SHIFT
            if segment == LOCAL or (segment == SHARED and self.asynchronous) or segment in self.unwatched:
                continue
            thread = first + lane
            own = event.cta if segment == SHARED else -1
            wrote = bool(made.wrote >> lane & 1) and not (atomic and fields[7] & NO_STORE)
            writes = wrote if atomic else store
            kind = ATOMIC if atomic else WRITE if store else READ
            entry = Entry(thread, event.interval, kind, 0, 0, number, size, reach, event.pc)
            places = [
                (own, start) for start in range(address, address + size, self.grain)
                if self._matters((own, start), thread, writes, not atomic or reach < self.everywhere, width)
            ]  # fmt: skip
            step = width if event.pc in self.mixed else size
            elements = [(own, start) for start in range(address, address + size, step)]
            for place in places:
                if store and not atomic and touched.setdefault(place, thread) != thread:
                    self.unclear = (*self.unclear, event.pc)
                if strong and place in elements:
                    self._acquire_after(event, thread, place)
                yield from self._check(event.cta, place, entry, writes)
            marks: list[tuple[int, int]] = []
            if strong:  # recorded after the checks of all its locations
                marks = self._record_elements(event, thread, elements, wrote)
            for place in places:
                column, count = marks[(place[1] - address) // step] if marks else (0, 0)
                self._remember(place, entry._replace(column=column, written=count), writes)

    def _record_elements(
        self, event: Event, thread: Thread, elements: list[Place], wrote: bool
    ) -> list[tuple[int, int]]:
        """Record a strong access of some elements, and return (column, count) of each write.  It releases the same
        clock at each of them."""
        threads = self._threads(event, ALL_LANES) if self.lockstep else [thread]
        pending = {one: self.pending[one] for one in threads if one in self.pending}
        if len(elements) > 1:
            self.vector = _Vector(self.before.get(thread, _NOTHING))
        marks = []
        for place in elements:
            self.pending.update(pending)
            marks.append(self._strong(event, thread, place, wrote))
        self.vector = None
        return marks

    def _matters(self, place: Place, thread: Thread, writes: bool, plain: bool, size: int) -> bool:
        """Return whether an access must be recorded and checked against earlier ones: not while its location has no
        conflict.
        """
        if place in self.shared.common:
            return True
        before = self.touched.get(place)
        touch = _Touch(thread, self.step, writes, plain, size)
        if before is not None:
            plain = plain or before.plain or size != before.size
            touch = _Touch(thread if before.thread == thread else -1, self.step, writes or before.writes, plain, size)
            again = before.thread != thread or before.step != self.step or thread == _COPIES
            if again and touch.writes and (touch.plain or (before.thread == _REDUCES != thread)):
                self.shared.common.add(place)
                self.shared.grown = True
                return True
            if before == touch:
                return False
            self._turn(place, before)
        self._turn(place, touch)
        self.touched[place] = touch
        return False

    def _turn(self, place: Place, touch: _Touch) -> None:
        """Add a touch to the hash of all touches of its CTA, or remove it: both are an exclusive or."""
        if (place[1] >> SEGMENT_SHIFT) - FIRST_ARRAY in self.apart:
            return
        now = hash((place[1], touch.writes, touch.plain, touch.size))
        self.touched_keys[place[0]] = self.touched_keys.get(place[0], 0) ^ now

    def _has_observed(self, cta: int, entry: Entry, thread: Thread) -> bool:
        own = entry.thread == thread or (self.lockstep and entry.thread // LANES == thread // LANES)
        if own and not entry.agent:
            return True
        row = self.rows[cta][thread - cta * self.of_cta]
        observed = entry.column and entry.column < len(row) and entry.written <= row[entry.column]
        return bool(entry.mark <= row[entry.thread] or observed)

    def _check(self, cta: int, place: Place, entry: Entry, writes: bool) -> Iterator[Race]:
        """Check an access against the recorded ones, and yield the races."""
        written, read = self.cells.get(place, ((), ()))
        against = (*written, *read) if writes else written
        for other in against:
            apart = other.number != entry.number and not (entry.is_same_width(other) and self._include(entry, other))
            if not apart:
                continue
            if not self._has_observed(cta, other, entry.thread):
                if (other.pc, entry.pc) in self.equal:
                    continue
                if other.column in self.told:
                    self.loose = other.pc, entry.pc
                else:
                    yield Race(other, entry, place[1])
            elif entry.agent > other.agent:  # proxy fences are not followed
                self.loose = other.pc, entry.pc

    def _include(self, one: Entry, other: Entry) -> bool:
        """Return whether each access has the other's thread in its scope (PTX ISA, "Morally strong operations")."""
        cta, beside = one.thread // self.of_cta, other.thread // self.of_cta
        apart = _OF_CTA if cta == beside else _OF_CLUSTER if self.clusters[cta] == self.clusters[beside] else _OF_ALL
        return min(one.reach, other.reach) >= apart

    def weight(self) -> int:
        """Return a measure of memory use: the number of threads times the number of recorded accesses."""
        return len(self.rows) * self.of_cta * sum(len(written) + len(read) for written, read in self.cells.values())

    def _remember(self, place: Place, entry: Entry, writes: bool) -> None:
        """Record an access, and drop the records that it makes redundant."""
        written, read = self.cells.get(place, ((), ()))
        thread = entry.thread  # compared before the call: many threads may read one location
        if not writes:
            self.cells[place] = written, (*[e for e in read if e.thread != thread or not entry.covers(e)], entry)
        elif entry.kind == ATOMIC or entry.pc in self.joined:
            # A store of the same value need not follow this one: it must follow the earlier accesses itself.
            self.cells[place] = (*[e for e in written if e.thread != thread or not entry.covers(e)], entry), read
        else:
            self.cells[place] = (entry,), ()

    # -- phases and copies ---------------------------------------------------------------------------------------------
    def _phase(self, event: Event) -> tuple[int, int]:
        """Return the key of an object's phase in `given`, `gathered` and `meeting`."""
        return event.cta, event.place << 32 | event.generation

    def _arrive_on(self, made: Made) -> None:
        event = made.event
        if NAMES[self.code[event.pc][0]] == "cp.async.arrive":  # it releases only copies
            for thread in self._threads(event, event.lanes):
                self.told |= {c for group in self.groups.get((thread, "cp.async"), ()) for c in group}
            return
        if not event.amount:  # an arrive with count 0 does not register
            return
        for table in (self.given, self.gathered, self.meeting):
            table.pop((event.cta, event.place << 32 | event.generation - 2), None)
        self._give(event._replace(place=self._phase(event)[1]), waits=False)

    def _await(self, made: Made) -> None:
        event = made.event
        key, threads = self._phase(event), self._threads(event, event.lanes)
        if key in self.given:
            self._take(event.cta, threads, self.given[key][0])
            self._meet(threads, self.gathered.get(key, _NOTHING))
            self._know_fences(threads, *self.meeting.get(key, _NO_FENCES))

    def _init(self, made: Made) -> None:
        """Drop the clocks of an earlier object at the location where one is initialized."""
        cta, place = made.event.cta, made.event.place
        for table in (self.given, self.gathered, self.meeting):
            for key in [key for key in table if key[0] == cta and key[1] >> 32 == place]:
                del table[key]

    def _copy(self, event: Event, number: int) -> Iterator[Race]:
        """Issue a copy, and check its accesses to arrays against the clock of the issuing thread."""
        name = NAMES[self.code[event.pc][0]]
        kind = ATOMIC if effects_of(name).moves.combines else WRITE
        for thread in self._threads(event, event.lanes):
            for start, does in ((event.generation, READ), (event.place, kind)):
                if start >> SEGMENT_SHIFT < FIRST_ARRAY:
                    continue
                column = 0
                for at in range(start - start % self.grain, start + event.amount, self.grain):
                    place = -1, at
                    if not self._matters_to_copy(place, does):
                        continue
                    column = column or self._copies(name, thread, event.pc)
                    entry = Entry(thread, _NEVER, does, column, 1, number, 0, _OF_ALL, event.pc, agent=True)
                    yield from self._check(event.cta, place, entry, does != READ)
                    written, read = self.cells.get(place, ((), ()))
                    self.cells[place] = (written, (*read, entry)) if does == READ else ((*written, entry), read)

    def _copies(self, name: str, thread: Thread, pc: int) -> int:
        """Return a new column for a thread's copy, and record where its completion is observed."""
        self.width += 1
        column = self.width - 1
        if effects_of(name).moves.credits:
            self.loads[thread, pc] = (*self.loads.get((thread, pc), ()), column)
        else:
            key = thread, effects_of(name).group
            *groups, loose = self.groups.get(key, ((),))
            self.groups[key] = (*groups, (*loose, column))
        return column

    def _matters_to_copy(self, place: Place, kind: int) -> bool:
        """Return whether a copy must be checked against earlier accesses, like `_matters`; reductions are atomic only
        with each other.
        """
        before = self.touched.get(place)
        reduces = kind == ATOMIC and (before is None or before.thread == _REDUCES)
        if reduces:
            return self._matters(place, _REDUCES, writes=True, plain=False, size=0)
        return self._matters(place, _COPIES, kind != READ, plain=True, size=0)

    def _credit(self, made: Made) -> None:
        """Release completed copies to their phase; nothing else of the issuing thread is released."""
        event = made.event
        columns = [c for thread in self._threads(event, event.lanes) for c in self.loads.pop((thread, event.pc), ())]
        if columns:
            row = np.zeros(self.width, np.int32)
            row[columns] = 1
            given, syncs, uncounted = self.given.get(self._phase(event), (_NO_ROW, (), False))
            self.given[self._phase(event)] = _join_rows(given, row), syncs, uncounted

    def _commit(self, made: Made) -> None:
        """Close the current group of copies: later copies belong to the next group."""
        kind = effects_of(NAMES[self.code[made.event.pc][0]]).group
        for thread in self._threads(made.event, made.event.lanes):
            if (thread, kind) in self.groups:
                self.groups[thread, kind] = (*self.groups[thread, kind], ())

    def _land(self, made: Made) -> None:
        """Let threads observe the copies of all groups that the wait completes: all but the last ones."""
        event = made.event
        fields = self.code[event.pc]
        kind = effects_of(NAMES[fields[0]]).group
        if kind == "bulk" and fields[7] & ONLY_READ:  # it waits only until the copies have read shared memory
            return
        for thread in self._threads(event, event.lanes):
            *groups, loose = self.groups.pop((thread, kind), ((),))
            if kind == "cp.async" and fields[7] & ALL:
                groups, loose = [*groups, loose], ()
            kept = groups[len(groups) - event.generation :] if event.generation < len(groups) else groups
            kept = [] if not event.generation else kept
            columns = [column for group in groups[: len(groups) - len(kept)] for column in group]
            self.groups[thread, kind] = (*kept, loose)
            if columns:
                row = np.zeros(self.width, np.int32)
                row[columns] = 1
                self._take(event.cta, [thread], row)

    # -- comparing -----------------------------------------------------------------------------------------------------
    def key(self, alike: Sequence[bytes] | None = None) -> bytes:
        """Return a digest of the clocks that matter to later accesses; two histories with the same clocks have the same
        one.

        `alike` has the state of each CTA without its clocks, if the numbers of CTAs do not matter.
        """
        if not self.living():
            return b""
        key, order = Key(self), list(self.rows)
        if alike is not None:
            order.sort(key=lambda cta: alike[cta])
            if len({alike[cta] for cta in key.living}) < len(key.living):
                order = key.distinguish_ctas(alike)
        return key.digest_bytes(order)

    def cta_rows(self, cta: int) -> tuple[Sequence[object], Rows]:
        """Return all clocks of a CTA: those of its threads, then others, and the names of the others."""
        key = Key(self)
        names, others = key.names, key.held
        rows = self._wide(cta, self.width)[:, : self.width]
        table = np.zeros((len(others), self.width), np.int32)
        for n, row in enumerate(others):
            table[n, : len(row)] = row
        return names, np.concatenate([rows, table])

    def living(self) -> set[int]:
        """Return the CTAs that still run."""
        return {cta for cta in self.rows if any((cta, w) not in self.gone for w in range(self.warps))}


def _join_rows(one: Rows, other: Rows) -> Rows:
    """Return the maximum of two clocks, column by column; one may have fewer columns."""
    if len(one) > len(other):
        one, other = other, one
    made = other.copy()
    made[: len(one)] = np.maximum(made[: len(one)], one)
    return made


def _join_reached(one: Reached, other: Reached) -> Reached:
    """Join two tables of clocks by scope key; a clock that does not change is not copied."""
    if not one or not other:
        return one or other
    made = dict(one)
    for to, row in other.items():
        made[to] = _join_rows(made[to], row) if to in made else row
    return made


def _fences_to(within: Sequence[int], given: Reached) -> Fences:
    """Return the `fence.sc` clocks among released ones that are released to the given scope keys."""
    found: Fences = {}, {}
    for key, row in given.items():
        to, kind, end = parts(key)
        if kind and to in within:
            one = found[kind == FORCED]
            one[end] = _join_rows(one[end], row) if end in one else row
    return found


def _accesses(opcode: int) -> bool:
    return OPERATIONS[NAMES[opcode]].kind in ("load", "store", "atomic")


def _element(name: str) -> int:
    """Return the size of an element of an access, in bytes: its minimum alignment."""
    parts = name.split(".")
    return access_shape(name)[1] // (int(parts[1][1:]) if parts[1][:1] == "v" else 1)
