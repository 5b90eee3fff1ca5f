"""Decide launches whose clusters take over the work of canceled clusters: prove that each cluster is correct with every
assignment.

No two requests cancel the same cluster.  A response arrives when all warps of the requesting cluster wait.  A *segment*
is a cluster's work from one response to the next.  The launch is correct for every assignment under three conditions.

First, after n segments a cluster is always in the same state, whichever clusters it has taken, and all its next
segments perform the same operations on shared memory, tensor memory and barriers.  Second, a segment reads no bytes
that an earlier segment wrote, except bytes that belong to the state.  Third, no segment of another cluster accesses an
array byte that a segment writes, and the byte's value depends only on the segment's cluster.

docs/how.md, "Taken clusters", has the theorem.  Before each segment, the bytes of shared, tensor and global memory are
marked as uninitialized, so the engine's checks find the segments that read them.
"""

from __future__ import annotations

import functools
import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.launch.explore.accesses import ACCESSES, find_kinds
from wsemu.launch.explore.dropped_values import find_overwriting
from wsemu.launch.explore.session import TRYING, VmSession
from wsemu.machine import state as layout
from wsemu.machine.memory.shadow_planes import find_marked
from wsemu.machine.state import address_of
from wsemu.machine.tables import Rooms, Watch
from wsemu.machine.vm import Machine
from wsemu.model.codes import CODES
from wsemu.model.grid import Grouping
from wsemu.model.isa import ADDRESS_WRAPPED, FIRST_ARRAY, LANES, OFFSET_MASK, SEGMENT_SHIFT, SHARED
from wsemu.model.outcome import FENCES
from wsemu.model.program import RESPONSES
from wsemu.proof.liveness import live_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from wsemu.model.bound import Bound
    from wsemu.model.outcome import Outcome, RawFinding

MOST_CLUSTERS = 512
"""maximum number of clusters of a launch that this method decides"""
MOST_STATES = 40
"""maximum number of states of a cluster, one after each segment"""
MOST_INSTRUCTIONS = 30_000_000
"""maximum warp instructions of all runs, for one unit of effort"""
MOST_BYTES = 1 << 28
"""maximum bytes of the written arrays, times the number of clusters"""
MOST_CARRIED = 32
"""maximum number of runs that find bytes which a segment passes to the next one"""
MOST_EVENTS = 1 << 17
"""maximum number of events of a segment"""
EXTRA = 6
"""number of segments after the first repeated state in judged runs"""
_OF_SHAPES = [
    layout.EVENT_KINDS.index(kind)
    for kind in (
        "arrive", "sync", "warp", *FENCES, "init", "inval", "arrive_on", "expect", "credit", "await", "copy", "landed",
        "proxy", "commit",
    )
]  # fmt: skip
"""events that may order accesses, and copies"""
_OF_PHASES = [layout.EVENT_KINDS.index(kind) for kind in ("arrive_on", "expect", "credit", "await")]
_OF_BARRIERS = [layout.EVENT_KINDS.index(kind) for kind in ("arrive", "sync")]
_ACCESS, _COPY = layout.EVENT_KINDS.index("access"), layout.EVENT_KINDS.index("copy")
_UNWRITTEN = ("uninitialized-read", "tmem-uninitialized")


class _RefusedError(Exception):
    """The launch violates a condition, which the text names."""


class _Retry(Exception):
    """A table was too small, or further bytes pass between segments: the method starts again."""


class _Log:
    """Memory for the events of one segment, which all clusters share."""

    def __init__(self, bound: Bound) -> None:
        self.events = np.zeros(MOST_EVENTS, layout.EVENT)
        self.addresses = np.empty(LANES * MOST_EVENTS, np.int64)
        self.pcs = np.zeros(len(bound.program.code) + 1, np.uint8)
        self.pcs[find_kinds(bound, ACCESSES)] = 1


class _Cluster(VmSession):
    """A cluster on the VM; when all its warps wait, the host decides the response to its request."""

    def __init__(
        self, bound: Bound, written: frozenset[int], rooms: Rooms, carried: set[int], owners: dict[int, Any] | None,
        log: _Log,
    ) -> None:  # fmt: skip
        # replaces VmSession.__init__, which creates a machine for each CTA: here one machine runs the whole cluster
        self.bound, self.program, self.looking = bound, bound.program, TRYING
        self.asynchronous, self.named, self.rounds = True, None, True
        configuration, chosen = bound.configuration, bound.settings
        self.segments = [
            (data.copy() if n in written else data, may) for n, (data, may) in enumerate(bound.segments, FIRST_ARRAY)
        ]
        self.chosen: list[int] = sorted(written)
        self.carried, self.owners = carried, owners
        watch = Watch(
            lockstep=chosen.lockstep, read_only=False, init_fences=True, uninitialized=bound.uninitialized | written,
            successors=(-1,) * Grouping(configuration.grid, configuration.cluster).number,
        )  # fmt: skip
        self.machine = Machine(
            bound.program, configuration.grid, configuration.block, bound.rows, self.segments,
            configuration.dynamic_shared, watch, configuration.arch, 1, rooms, configuration.cluster,
            configuration.cluster != (1, 1, 1),
        )  # fmt: skip
        self.machines = [self.machine]
        self.rooms, self.executed = rooms, 0
        self.withheld = np.zeros(bound.program.register_bytes // 8 + 1, np.int64)
        state = self.machine.state[0]
        state["withheld_registers"] = address_of(self.withheld)
        table = next(array for array in bound.program.constant_arrays if array.made == RESPONSES)
        state["withheld_table"] = int(bound.rows[table.row][1])
        self.room, self.events, self.addresses, self.pcs = MOST_EVENTS, log.events, log.addresses, log.pcs
        state["trace"], state["trace_room"] = address_of(self.events), self.room
        state["trace_pcs"], state["trace_addresses"] = address_of(self.pcs), address_of(self.addresses)

    def begin(self, cluster: int) -> int:
        """Run a cluster until it waits for its first response; return the status."""
        state = self.machine.state[0]
        state["group"], state["group_end"], state["group_step"], state["group_first"] = cluster, cluster + 1, 1, cluster
        self.machine.alone = {}
        self._reset_arrays(cluster)
        return self.proceed()

    def take(self, cluster: int, *, known: bool = False) -> int:
        """Answer a request with a cluster (with a failure if `cluster` is the number of clusters), and run until the
        next request.  If the next segment is `known`, its reads are not examined."""
        machine = self.machine
        state = machine.state[0]
        if not known:
            self._forget_shared()
            self._reset_arrays(cluster)
        machine.successors[int(state["taken"])] = cluster
        state["delivers"] = 1
        self._resume(state)
        return self.proceed()

    def proceed(self) -> int:
        machine = self.machine
        state = machine.state[0]
        self._clear_events()
        most = 1 << 26
        state["budget"], state["patience"] = most, 1 << 40
        status = machine.entry(address_of(machine.state))
        while status in (layout.REFINE, layout.SWEEP) and machine.planes:
            machine._provide(status, machine.planes)
            status = machine.entry(address_of(machine.state))
        self.executed += most - int(state["budget"])
        if status == layout.GROW:
            self.rooms = self.rooms.more(int(state["wanted"]), 1 << 20)
            raise _Retry
        if int(state["trace_count"]) > self.room or state["raw_count"] >= len(machine.raw):
            raise _RefusedError("a segment has too many events")
        return int(status)

    def _clear_events(self) -> None:
        """Remove the events of the last segment: some events do not set all fields."""
        state = self.machine.state[0]
        self.events[: int(state["trace_count"])] = np.zeros((), layout.EVENT)
        state["trace_count"], state["trace_used"] = 0, 0

    def _forget_shared(self) -> None:
        """Mark shared and tensor memory as uninitialized, except the bytes that pass from one segment to the next."""
        machine, state = self.machine, self.machine.state[0]
        if state["shared_initialised"]:
            marks = machine.shared.reshape(2, -1)[1]
            carried = sorted(self.carried)
            kept, last = marks[carried].copy(), len(machine.ctas) - 1
            room = len(marks) - (last << machine.window)
            for cta in range(last + 1):
                start = cta << machine.window
                marks[start : start + room] = 0
            marks[carried] = kept
            segment = machine.segments[SHARED]
            segment["initialised"], segment["unwritten"] = state["shared_initialised"], 1 << 40
        if state["columns"]:
            machine.columns_written[:] = 0

    def _reset_arrays(self, cluster: int) -> None:
        """Mark all bytes of arrays as uninitialized; if their owners are known, only those of other clusters."""
        for number in self.chosen:
            owners = None if self.owners is None else self.owners[number]
            marks: Any = self.machine.maps[number]
            marks[:] = 0
            if owners is not None:
                marks[: len(owners)] = (owners == -1) | (owners == cluster)
            segment = self.machine.segments[number]
            segment["initialised"], segment["unwritten"] = address_of(self.machine.maps[number]), 1 << 40

    @functools.cached_property
    def live(self) -> list[frozenset[int]]:
        return live_rows(self.program, overwriting=find_overwriting(self.program))

    def requests(self) -> bool:
        """Return whether a response of one thread is withheld."""
        state = self.machine.state[0]
        return bool(state["withheld"]) and state["withheld_pc"] >= 0 and int(state["withheld_mask"]).bit_count() == 1

    def findings(self) -> list[RawFinding]:
        machine = self.machine
        return [machine._finding(raw) for raw in machine.raw[: int(machine.state[0]["raw_count"])]]

    def may_conflict_in_arrays(self) -> bool:
        """Return whether accesses to one location of an array may conflict, in the run so far."""
        planes = self.machine.planes
        found = planes.suspects() if planes else {}
        return any(one.marks.any() for number, one in found.items() if number >= FIRST_ARRAY)

    def touches_shared(self, pcs: Collection[int]) -> bool:
        """Return whether one of these instructions has accessed shared memory in the segment."""
        rows = self.events[: int(self.machine.state[0]["trace_count"])]
        chosen = rows[(rows["kind"] == _ACCESS) & np.isin(rows["pc"], list(pcs))]
        return any(
            ((self.addresses[first : first + lanes.bit_count()] & ~ADDRESS_WRAPPED) >> SEGMENT_SHIFT == SHARED).any()
            for first, lanes in zip(chosen["addresses"].tolist(), chosen["lanes"].tolist(), strict=True)
        )

    def list_stores(self) -> Iterator[tuple[int, Any, Any]]:
        """Yield each array that the segment has written: its number, and the offsets and values of the bytes."""
        for number in self.chosen:
            data = self.segments[number - FIRST_ARRAY][0]
            offsets = find_marked(self.machine.maps[number][: data.nbytes])
            if len(offsets):
                yield number, offsets, data[offsets]

    def key(self) -> bytes:
        """Return a digest of the state that decides the further execution of the cluster."""
        machine, state = self.machine, self.machine.state[0]
        hashed = hashlib.blake2b(digest_size=16)
        for w, warp in enumerate(machine.warps):
            if not warp["alive"]:
                hashed.update(b"-")
                continue
            self._digest_warp(hashed, machine, w, warp)
            hashed.update(b"%d %d %d" % (warp["cluster_arrived"], warp["cluster_passed"], warp["held"]))
        values, marks = machine.shared.reshape(2, -1)
        kept = sorted(self.carried)
        hashed.update(values[kept].tobytes() + marks[kept].tobytes())
        for number, barrier in enumerate(machine.barriers):
            if barrier["arrived"]:
                fields = ("expected", "arrived", "syncs", "forms", "reduces", "popc", "every", "some", "warps")
                hashed.update(repr((number, [int(barrier[name]) for name in fields])).encode())
        self._digest_objects(hashed, 0)
        pools = [int(cta["pool"]) for cta in machine.ctas]
        hashed.update(repr((int(state["cluster_phase"]) & 1, pools)).encode())
        if state["columns"]:
            names = ("owned", "starts", "sizes", "relinquished", "last", "group", "offered", "taken")
            hashed.update(b"".join(np.asarray(cta[name]).tobytes() for cta in machine.tensor_ctas for name in names))
        return hashed.digest()

    def shape(self) -> bytes:
        """Return a digest of the operations of the segment's warps on barriers, and on shared and tensor memory."""
        count = int(self.machine.state[0]["trace_count"])
        rows = self.events[:count].view(np.int64).reshape(count, layout.EVENT.itemsize // 8).copy()
        used = self.addresses[: int(self.machine.state[0]["trace_used"])] & ~ADDRESS_WRAPPED
        inside = used >> SEGMENT_SHIFT == SHARED
        some = np.zeros(count, bool)
        accesses = np.flatnonzero(rows[:, 0] == _ACCESS)
        if len(accesses):
            some[accesses] = np.logical_or.reduceat(inside, rows[accesses, 8])
        for column in (5, 6):
            away = (rows[:, 0] == _COPY) & (rows[:, column] >> SEGMENT_SHIFT != SHARED)
            rows[away, column] = -1
        rows[np.isin(rows[:, 0], _OF_PHASES), 6] &= 1
        rows[np.isin(rows[:, 0], _OF_BARRIERS), 6] = 0
        kept = np.flatnonzero(np.isin(rows[:, 0], _OF_SHAPES) | some)
        kept = kept[np.argsort(rows[kept, 2], kind="stable")]  # warp by warp
        found = rows[kept][:, (0, 2, 4, 5, 6, 7, 8, 9)]
        is_access = found[:, 0] == _ACCESS
        counts = np.bitwise_count(found[is_access, 5])
        starts = np.repeat(found[is_access, 6] - np.cumsum(counts, dtype=np.int64) + counts, counts)
        places = starts + np.arange(len(starts))
        found[found[:, 0] != _COPY, 6] = 0
        whole = hashlib.blake2b(b"%d " % len(found) + found.tobytes(), digest_size=16)
        whole.update(np.where(inside[places], used[places], -1).tobytes())
        return whole.digest() + self._columns_digest()

    def _columns_digest(self) -> bytes:
        """Return a digest of the accesses to tensor memory that later accesses may have to wait for."""
        state = self.machine.state[0]
        if not state["columns"]:
            return b""
        made = self.machine.tensor_accesses[: int(state["tensor_count"])]
        names = ("warp", "lane", "pc", "member", "what", "key", "bands", "low", "high", "writes")
        found = np.unique(np.stack([made[name] for name in names], 1), axis=0)
        return hashlib.blake2b(found.tobytes(), digest_size=16).digest()

    def close(self) -> None:
        self._clear_events()
        self.machine.close()


class TakenClusters:
    """The decision of a launch whose clusters take over the work of canceled clusters."""

    def __init__(
        self,
        bound: Bound,
        written: frozenset[int],
        judge: Callable[[int, Sequence[int]], Outcome | None],
        equal: frozenset[int] = frozenset(),
    ) -> None:
        """Prepare the decision.  `written` are the segments of arrays that the launch may write.  `judge` runs a
        cluster that takes others, with all checks, and returns the outcome if it has an error.  `equal` are stores of
        which the launch executed some that nothing orders, with equal values.  Arrays must hold their contents from
        before the launch."""
        self.bound, self.judge, self.arrays, self.equal = bound, judge, written, equal
        grouping = Grouping(bound.configuration.grid, bound.configuration.cluster)
        self.count = grouping.number
        self.rooms, self.carried = Rooms(), set[int]()
        self.reads = set[int]()
        """arrays with bytes that a segment reads and has not written"""
        self.hides = False
        """true if reads of these bytes may hide reads of shared memory: an instruction has one finding"""
        self.refused = ""
        """the reason why the launch is not proven; an empty text if it is proven"""
        self.failed: tuple[int, tuple[int, ...], Outcome] | None = None
        """a cluster, the clusters that it takes over, and the outcome of a run that has an error"""
        self.known: dict[int, Any] | None = None
        """array -> the cluster that writes each byte; None until these clusters are known"""
        self.left = MOST_INSTRUCTIONS * bound.settings.effort

    @functools.cached_property
    def log(self) -> _Log:
        return _Log(self.bound)

    def decide(self) -> None:
        """Decide the launch for all assignments, and set `refused` if it is not proven."""
        size = sum(len(self.bound.segments[n - FIRST_ARRAY][0]) for n in self.arrays)
        if self.count == 1:
            return
        if self.count > MOST_CLUSTERS:
            self.refused = f"the launch has {self.count} clusters, and at most {MOST_CLUSTERS} are decided"
        elif size * self.count > MOST_BYTES:
            self.refused = "the arrays that it writes are large"
        elif find_kinds(self.bound, ("atomic",)):
            self.refused = "it has atomic or strong accesses"
        else:
            self.refused = self._refuse()

    def _refuse(self) -> str:
        """Return why the launch is not proven; an empty text if it is."""
        for _ in range(MOST_CARRIED):
            try:
                self._prove()
            except _Retry:
                continue
            except _RefusedError as why:
                return str(why)
            return ""
        return "too much passes from the work of one cluster to that of the next one"

    def _prove(self) -> None:
        self.states: list[bytes] = []
        self.shapes: dict[bytes, bytes] = {}
        """state -> the shape of all segments that start there"""
        self.ends: dict[bytes, bytes] = {}
        """state -> the shape of the end that is reached from there"""
        self.first = b""
        self.held: dict[int, dict[int, tuple[Any, Any]]] = {}
        """cluster -> for each array that its work writes, the offsets and values of the bytes"""
        self.owners = {n: np.full(len(self.bound.segments[n - FIRST_ARRAY][0]), -1, np.int32) for n in self.arrays}
        self.reads, self.hides = set(), False
        self.followed: set[tuple[int, ...]] = set()
        """for each run so far, the cluster that starts and the clusters that it takes over"""
        self.judged: set[tuple[int, ...]] = set()
        self._follow(0, ())  # the first that reads after a failed request what is carried there
        steps = self._find_steps()
        for number in range(self.count):  # each cluster starts once, and is taken once in each state
            self._follow(number, [(number + k + 1) % self.count for k in range(steps)])
        for length in range(min(steps + EXTRA, self.count - 1) + 1):
            self._run(0, range(1, length + 1))
        stored = {number for number, owners in self.owners.items() if (owners != -1).any()}
        if self.known is None and (self.hides or self.reads & stored):
            self.known = self.owners
            raise _Retry

    def _find_steps(self) -> int:
        """Return the number of segments after which a state repeats."""
        self._run(0, range(1, min(self.count, MOST_STATES)))
        known: list[bytes] = []
        for n, state in enumerate(self.states):
            if state in known:
                return n
            known.append(state)
        if self.count > MOST_STATES:
            raise _RefusedError("a cluster is in another state after each one that it takes")
        return self.count - 1

    def _run(self, start: int, clusters: Sequence[int]) -> None:
        """Run a cluster that takes over `clusters`, segment by segment, and judge the whole run."""
        self._follow(start, clusters)
        self._judge_run(start, clusters)

    def _judge_run(self, start: int, clusters: Sequence[int]) -> None:
        """Run a cluster that takes over `clusters`, with all checks, and judge it; each sequence runs only once."""
        if (start, *clusters) in self.judged:
            return
        self.judged.add((start, *clusters))
        if self.known is None and (outcome := self.judge(start, clusters)) is not None:
            self.failed = start, tuple(clusters), outcome
            raise _RefusedError("a run with other clusters fails")

    def _follow(self, start: int, clusters: Sequence[int]) -> None:
        """Run a cluster that takes over `clusters`, segment by segment, and check each segment; each sequence runs only
        once.  If accesses to arrays may conflict, the whole run is judged as well: segments that are alike elsewhere
        may access different bytes of arrays."""
        if (start, *clusters) in self.followed:
            return
        known = self._count_known(start, clusters)
        one = _Cluster(self.bound, self.arrays, self.rooms, self.carried, self.known, self.log)
        try:
            status, states = one.begin(start), self.states[:known]
            if not known:
                self._check(one, start, status, states, b"")
            for n, cluster in enumerate([*clusters, self.count], 1):
                if status == layout.DONE:
                    raise _RefusedError("a cluster ends without a request that fails")
                if n < known:
                    status = one.take(cluster, known=True)
                    continue
                state = states[n - 1]
                status = one.take(cluster)
                self._check(one, cluster, status, states, state)
                if cluster == self.count and status != layout.DONE:
                    raise _RefusedError("a cluster does not end after a request that fails")
            if len(states) > len(self.states):
                self.states = states
            self.followed.add((start, *clusters))
            conflicts = bool(self.equal) or one.may_conflict_in_arrays()
        except _Retry:
            self.rooms = one.rooms
            raise
        finally:
            self.left -= one.executed
            one.close()
        if self.left < 0:
            raise _RefusedError("too many instructions: raise the effort")
        if conflicts:
            self.left -= 3 * one.executed
            self._judge_run(start, clusters)

    def _count_known(self, start: int, clusters: Sequence[int]) -> int:
        """Return the number of segments of a run if a longer run has begun with all of them, otherwise 0."""
        whole = (start, *clusters)
        return len(whole) if any(run[: len(whole)] == whole for run in self.followed) else 0

    def _check(self, one: _Cluster, cluster: int, status: int, states: list[bytes], before: bytes) -> None:
        """Judge a segment, and compare it with the other segments from the same state."""
        self._judge(one)
        if status not in (layout.DONE, layout.DEADLOCK):
            raise _RefusedError("a run with other clusters stops")
        stands = status == layout.DEADLOCK
        shape, state = one.shape(), b""
        if stands:
            if not one.requests():
                raise _RefusedError("a cluster waits, and not for a request alone")
            state = one.key()
            if len(states) < len(self.states) and self.states[len(states)] != state:
                raise _RefusedError("what a cluster does next depends on which clusters it has taken")
            states.append(state)
        known = self.ends if not stands else self.shapes
        if known.setdefault(before, shape + state) != shape + state:
            raise _RefusedError("the work of clusters differs in its synchronization, or in shared memory")
        self._note_stores(one, cluster)

    def _judge(self, one: _Cluster) -> None:
        carried = False
        of_arrays = set[int]()
        for raw in one.findings():
            if raw.code in _UNWRITTEN:
                carried |= self._carry(raw, one)
                if raw.code in _UNWRITTEN[:1] and raw.detail["address"] >> SEGMENT_SHIFT in self.arrays:
                    of_arrays.add(raw.pc)
            elif raw.code in CODES and CODES[raw.code].severity == "error":
                raise _RefusedError(f"a run with other clusters finds {raw.code}")
        if carried:
            self.known = None
            raise _Retry
        if self.equal and one.touches_shared(self.equal):
            raise _RefusedError("stores that nothing orders write the same value to shared memory")
        self.hides |= bool(of_arrays) and one.touches_shared(of_arrays)

    def _carry(self, raw: RawFinding, one: _Cluster) -> bool:
        """Mark bytes of shared memory as carried from one segment to the next; return whether any of these bytes is
        new."""
        if raw.code == "tmem-uninitialized":
            raise _RefusedError("tensor memory passes from the work of one cluster to that of the next one")
        address, size = raw.detail["address"], raw.detail["size"]
        segment = address >> SEGMENT_SHIFT
        if segment != SHARED:
            if segment not in self.arrays:
                return False
            if self.known is not None:
                raise _RefusedError("the work of a cluster reads what that of another one writes")
            self.reads.add(segment)
            return False
        start = address & OFFSET_MASK
        room = len(one.machine.shared) // 2
        before = len(self.carried)
        self.carried.update(range(start, min(start + size * max(raw.lanes.bit_count(), 1), room)))
        return len(self.carried) > before

    def _note_stores(self, one: _Cluster, cluster: int) -> None:
        """Compare the stores of a segment with those of other segments."""
        if self.known is not None:
            return
        if cluster == self.count:
            if any(True for _ in one.list_stores()):
                raise _RefusedError("a cluster stores to an array after a request has failed")
            return
        found = {number: (offsets, values) for number, offsets, values in one.list_stores()}
        for number, (offsets, _) in found.items():
            owners = self.owners[number]
            if ((owners[offsets] != -1) & (owners[offsets] != cluster)).any():
                raise _RefusedError("the work of two clusters writes to the same bytes")
            owners[offsets] = cluster
        known = self.held.setdefault(cluster, found)
        same = known.keys() == found.keys() and all(
            np.array_equal(known[number][part], found[number][part]) for number in found for part in (0, 1)
        )
        if not same:
            raise _RefusedError("what a cluster's work stores depends on what was done before")
