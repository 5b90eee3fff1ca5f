"""Certificates: the trace of a verified launch, which an independent checker examines.

A certificate is text: the objects that the launch synchronizes through, and one operation of a process in each line, in
the order of the run.  A process is a warp or an asynchronous copy.  `proofs/README.md` has the format, and the theorem
about accepted certificates.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

from wsemu.launch.tracing import accessed_instructions
from wsemu.model.data import NamedTuple
from wsemu.model.effects import effects_of
from wsemu.model.isa import (
    ADDRESS_WRAPPED,
    DROP,
    LANES,
    LOCAL,
    NAMES,
    NO_COMPLETE,
    NOINC,
    ONLY_READ,
    OPERATIONS,
    SEGMENT_SHIFT,
    SHARED,
)
from wsemu.model.isa import ALL as WITH_LOOSE
from wsemu.model.outcome import ALL_LANES, FENCES
from wsemu.proof.phase_edges import relaxed_operations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from wsemu.evidence.places import Places
    from wsemu.launch.result import Report
    from wsemu.model.effects import Effects
    from wsemu.model.outcome import Event, Trace, Tracer

HEADER: Final = "wsemu-certificate 1"
"""first line of each certificate"""
MOST_OPERATIONS: Final = 200_000
"""maximum operations of a certificate"""
_GROUPS: Final = ("", "cp.async", "bulk")
"""groups of asynchronous operations that the theorem's model has"""
_SILENT: Final = frozenset({"warp", "proxy", "atomic", *FENCES})
"""events without an operation in a certificate; launches with atomics have no certificate"""


class BeyondTheoremError(Exception):
    """Raised if a verified launch has no certificate.  The message has the source location and the reason."""


class Copy(NamedTuple):
    """The two processes of an asynchronous copy: one ends when the copy has read its source, the other when it has
    written its destination."""

    read: int
    written: int


class _Copies:
    """The asynchronous copies of a thread: those of each committed group, oldest first, and those not yet committed."""

    def __init__(self) -> None:
        self.groups: list[list[Copy]] = []
        self.loose: list[Copy] = []

    def commit(self) -> None:
        self.groups.append(self.loose)
        self.loose = []

    def older_than(self, left: int) -> list[Copy]:
        """Return the copies of all groups but the last `left`."""
        return [copy for group in self.groups[: max(0, len(self.groups) - left)] for copy in group]

    def forget(self, left: int) -> None:
        del self.groups[: max(0, len(self.groups) - left)]


class _Meeting:
    """The phases of a cluster barrier.  An exit counts at the current one, but it orders no memory."""

    def __init__(self, warps: int) -> None:
        self._warps = self._pending = warps
        self._phase = 0
        self.exits: set[int] = set()
        """phases at which an exit has counted"""

    def count_arrival(self) -> None:
        self._pending -= 1
        if not self._pending:
            self._phase, self._pending = self._phase + 1, self._warps

    def count_exit(self) -> None:
        self.exits.add(self._phase)
        self._warps -= 1
        self.count_arrival()


def write_certificate(report: Report, places: Places, trace_of: Tracer) -> str:
    """Return the certificate of a verified launch; raise BeyondTheoremError if the theorem does not cover it."""
    _refuse_uncovered(report, places)
    trace = trace_of(accessed_instructions(places))
    if not trace.complete:
        raise BeyondTheoremError("the run has more events than a trace holds; check a smaller launch")
    return _Writer(report, places, trace).text()


def _refuse_uncovered(report: Report, places: Places) -> None:
    """Raise BeyondTheoremError if the launch has operations that the theorem's model lacks, or accepted findings."""
    program = places.program
    for finding in report.findings:
        if finding.code == "same-value-store":
            raise BeyondTheoremError("warps store one value to the same bytes, which is a race in the theorem")
    if any(one.finding.severity == "error" for one in report.suppressed):
        raise BeyondTheoremError("it has accepted findings")
    if program.cooperative:
        raise BeyondTheoremError("the launch is cooperative")
    relaxed = relaxed_operations(program)
    for pc, executions in enumerate(places.outcome.executions):
        name = NAMES[int(program.code[pc, 0])]
        if executions and pc in relaxed:
            what = f"a relaxed `{places.operation(pc)}`, which orders no memory"
            raise BeyondTheoremError(f"{places.where(pc)}: the theorem does not cover {what}")
        kind = OPERATIONS[name].kind
        if not executions or (kind not in ("atomic", "async") or _is_covered(effects_of(name))):
            continue
        what = f"`{places.operation(pc)}`" if kind == "async" else "atomic and strong accesses"
        raise BeyondTheoremError(f"{places.where(pc)}: the theorem does not cover {what}")


def _is_covered(row: Effects) -> bool:
    """Return whether the theorem's model has an asynchronous operation."""
    if row.event in ("copy", ""):
        return row.moves.unit == "bytes" and not row.moves.combines and row.group in _GROUPS
    return row.event in _RULES and row.group in _GROUPS and row.meets != "grid"


class _Writer:
    """Translates the events of a trace to the operations of a certificate."""

    def __init__(self, report: Report, places: Places, trace: Trace) -> None:
        self.places, self.trace, self.report = places, trace, report
        x, y, z = places.grid
        threads = math.prod(places.block)
        self.warps = -(-threads // LANES)
        self.last_lanes = (1 << (threads - 1) % LANES + 1) - 1
        self.ctas = x * y * z
        self.members = math.prod(places.outcome.group)
        self.processes = self.ctas * self.warps
        self.kinds: list[str] = []
        self.lines: list[str] = []
        self.objects: dict[tuple[object, ...], int] = {}
        self.waiting: dict[int, tuple[int, int]] = {}
        """the named barrier or group, and its generation, at which each process waits"""
        self.expected: dict[int, int] = {}
        """number of bytes that a process's arrive expects, by process"""
        self.issued: defaultdict[tuple[int, int], list[tuple[int, Event]]] = defaultdict(list)
        """copies whose bytes were not credited yet, by (process, instruction)"""
        self.copies: defaultdict[tuple[int, int, str], _Copies] = defaultdict(_Copies)
        """copies by (process, lane, kind of group)"""
        self.met: dict[int, int] = {}
        """phase of the cluster barrier at which a process has arrived and not yet waited, by process"""
        self.leaving: defaultdict[tuple[int, int], list[tuple[int, int, str]]] = defaultdict(list)
        """processes that leave after a phase, by (cluster barrier, phase)"""
        self.meetings: dict[int, _Meeting] = {}
        """phases of each cluster barrier"""
        self.counts = self._counts()
        self.groups = self._groups()
        for event in trace.events:
            self._apply(event)
        for process in sorted(self.waiting):
            self._pass(process, "")

    def text(self) -> str:
        """Return the certificate."""
        places = self.places
        head = [HEADER, f"# {self.report.kernel}: grid {places.grid}, block {places.block}, {self.report.arch}"]
        head += [f"processes {self.ctas * self.warps}", *(f"object {n} {kind}" for n, kind in enumerate(self.kinds))]
        return "\n".join([*head, *self.lines, "end", ""])

    # -- objects ------------------------------------------------------------------------------------------------------

    def _counts(self) -> dict[tuple[int, int, int], int]:
        """Return the number of warps that took part in each (CTA, barrier, generation), plus one if the generation did
        not complete."""
        arrived: Counter[tuple[int, int, int]] = Counter()
        complete = set()
        for event in self.trace.events:
            key = event.cta, event.place, event.generation
            if event.kind in ("arrive", "sync"):
                arrived[key] += 1
            elif event.kind == "complete":
                complete.add(key)
        return {key: number + (key not in complete) for key, number in arrived.items()}

    def _groups(self) -> dict[int, list[int]]:
        """Create the barriers of whole CTAs and clusters; return the barriers of each CTA."""
        uncounted: dict[tuple[int, int], bool] = {}
        of_cta: defaultdict[int, list[int]] = defaultdict(list)
        for event in self.trace.events:
            if event.kind in ("arrive", "sync"):
                whole = self.places.program.code[event.pc, 4] == 0
                if uncounted.setdefault((event.cta, event.place), whole) != whole:
                    raise self._beyond_theorem(event, "a barrier that has generations with a count and without one")
            elif event.kind == "arrive_on" and event.place < 0:
                self._cluster(event.cta, of_cta)
        for (cta, number), whole in uncounted.items():
            if whole:
                of_cta[cta].append(self._object(("bar", cta, number), f"group {self.warps}"))
        return dict(of_cta)

    def _cluster(self, cta: int, of_cta: defaultdict[int, list[int]]) -> None:
        cluster = self.places.cluster_index(cta)
        if ("cluster", cluster) in self.objects:
            return
        made = self._object(("cluster", cluster), f"group {self.members * self.warps}")
        self.meetings[made] = _Meeting(self.members * self.warps)
        for one in range(self.ctas):
            if self.places.cluster_index(one) == cluster:
                of_cta[one].append(made)

    def _object(self, key: tuple[object, ...], kind: str) -> int:
        if key not in self.objects:
            self.objects[key] = len(self.kinds)
            self.kinds.append(kind)
        return self.objects[key]

    def _counter(self, event: Event) -> int:
        """Return the object at the address of an event, which counts arrivals and bytes."""
        found = self.objects.get(("at", self.places.cluster_index(event.cta), event.place))
        if found is None:
            raise self._beyond_theorem(event, "an object that the launch does not initialize")
        return found

    def _new_copy_object(self) -> int:
        """Make an object for the end of a copy, or of its reads."""
        self.kinds.append("copy")
        return len(self.kinds) - 1

    # -- operations ---------------------------------------------------------------------------------------------------

    def _beyond_theorem(self, event: Event, what: str) -> BeyondTheoremError:
        return BeyondTheoremError(f"{self.places.where(event.pc)}: the theorem does not cover {what}")

    def _effects(self, event: Event) -> Effects:
        return effects_of(NAMES[int(self.places.program.code[event.pc, 0])])

    def _write(self, process: int, text: str, where: str) -> None:
        if len(self.lines) >= MOST_OPERATIONS:
            raise BeyondTheoremError(f"the run has more than {MOST_OPERATIONS:,} operations; check a smaller launch")
        self.lines.append(f"{process} {text}; {_make_printable(where)}" if where else f"{process} {text}")

    def _apply(self, event: Event) -> None:
        process = event.cta * self.warps + event.warp
        if event.kind in _RULES:
            where = self.places.where(event.pc) if event.pc >= 0 else ""
            if event.kind != "phase":
                self._pass(process, where)
            _RULES[event.kind](self, event, process, where)
        elif event.kind not in (*_SILENT, "complete"):
            raise self._beyond_theorem(event, f"`{self.places.operation(event.pc)}`")

    def _pass(self, process: int, where: str) -> None:
        """Let a process pass the barrier at which it waits, before its next operation."""
        if process in self.waiting:
            barrier, generation = self.waiting.pop(process)
            self._write(process, f"passed {barrier} {generation}", where)

    def _agent(self, process: int, where: str) -> int:
        """Start a process and return its number."""
        self._write(process, f"start {self.processes}", where)
        self.processes += 1
        return self.processes - 1

    def _move(self, process: int, verb: str, event: Event, address: int, size: int, where: str) -> None:
        """Let a process read or write bytes at an address."""
        address &= ~ADDRESS_WRAPPED
        if address >> SEGMENT_SHIFT == LOCAL:
            return
        space = f"shared{self.places.cluster_index(event.cta)}" if address >> SEGMENT_SHIFT == SHARED else "global"
        self._write(process, f"{verb} {space} {address} {size}", where)

    def _access(self, event: Event, process: int, where: str) -> None:
        name = NAMES[int(self.places.program.code[event.pc, 0])]
        verb = {"load": "read", "store": "write"}[OPERATIONS[name].kind]
        starts = (at & ~ADDRESS_WRAPPED for at in self.trace.lane_addresses(event).values())
        for start, size in _merge_ranges(starts, self.places.size(event.pc)):
            self._move(process, verb, event, start, size, where)

    def _barrier(self, event: Event, process: int, where: str) -> None:
        if event.lanes != ALL_LANES:
            raise self._beyond_theorem(event, "a part of a warp at a barrier")
        if ("bar", event.cta, event.place) not in self.objects:
            self._object(("bar", event.cta, event.place), "named")
        barrier = self.objects["bar", event.cta, event.place]
        if self.kinds[barrier] == "named":
            count = self.counts[event.cta, event.place, event.generation]
            self._write(process, f"bar {barrier} {count}", where)
        else:
            self._write(process, f"join {barrier}", where)
        if event.kind == "sync":
            self.waiting[process] = barrier, event.generation

    def _exit(self, event: Event, process: int, where: str) -> None:
        cluster = self.objects.get(("cluster", self.places.cluster_index(event.cta)))
        for group in self.groups.get(event.cta, ()):
            if group == cluster and (met := self.met.pop(process, -1)) >= 0:
                agent = self._agent(process, where)
                self.leaving[group, met].append((agent, process, where))
            else:
                self._leave(process, group, process, where)

    def _leave(self, process: int, group: int, left: int, where: str) -> None:
        """Let a process count the exit of a warp in a group."""
        self._write(process, f"leave {group} {left}", where)
        if group in self.meetings:
            self.meetings[group].count_exit()

    # -- phases -------------------------------------------------------------------------------------------------------

    def _init(self, event: Event, process: int, where: str) -> None:
        key = "at", self.places.cluster_index(event.cta), event.place
        if key in self.objects:
            raise self._beyond_theorem(event, "a second initialization at one address")
        made = self._object(key, f"{self._effects(event).meets} 0")
        self._write(process, f"init {made} {event.amount}", where)

    def _arrive(self, event: Event, process: int, where: str) -> None:
        auxiliary = int(self.places.program.code[event.pc, 7])
        if event.place < 0:
            self._arrive_at_cluster(event, process, where)
        elif self._effects(event).group:
            self._arrive_after_copies(event, process, where, counted=bool(auxiliary & NOINC))
        elif auxiliary & NO_COMPLETE:
            raise self._beyond_theorem(event, "an arrive that must not complete a phase")
        else:
            drops = event.amount if auxiliary & DROP else 0
            self._count(process, self._counter(event), event.amount, drops, self.expected.pop(process, 0), 0, where)

    def _count(
        self, process: int, counter: int, arrivals: int, drops: int, expected: int, completed: int, where: str
    ) -> None:
        if arrivals or expected or completed:
            self._write(process, f"count {counter} {arrivals} {drops} {expected} {completed}", where)

    def _arrive_at_cluster(self, event: Event, process: int, where: str) -> None:
        whole = ALL_LANES & 0xFFFFFFFF if event.warp < self.warps - 1 else self.last_lanes
        if event.lanes & 0xFFFFFFFF != whole:
            raise self._beyond_theorem(event, "a part of a warp at the cluster's barrier")
        cluster = self.objects["cluster", self.places.cluster_index(event.cta)]
        self._write(process, f"join {cluster}", where)
        self.meetings[cluster].count_arrival()
        self.met[process] = event.generation

    def _expect(self, event: Event, process: int, where: str) -> None:
        if self._effects(event).event != event.kind:  # that of an arrive, which follows
            self.expected[process] = event.amount
        else:
            self._count(process, self._counter(event), 0, 0, event.amount, 0, where)

    def _credit(self, event: Event, process: int, where: str) -> None:
        copies = self.issued.get((process, event.pc))
        if copies is None:
            raise self._beyond_theorem(event, f"`{self.places.operation(event.pc)}`, which orders no memory")
        for n, (agent, copy) in enumerate(copies):
            if copy.lanes == event.lanes and self._rank(copy.place) == self._rank(event.place):
                del copies[n]
                self._count(agent, self._counter(event), 0, 0, 0, event.amount, where)
                return
        raise self._beyond_theorem(event, "a copy that credits another CTA than it writes to")

    def _rank(self, address: int) -> int:
        """Return the CTA of a cluster, by rank, whose shared memory has an address."""
        return (address & (1 << SEGMENT_SHIFT) - 1) >> self.places.outcome.window

    def _await(self, event: Event, process: int, where: str) -> None:
        if event.place < 0:
            cluster = self.objects["cluster", self.places.cluster_index(event.cta)]
            if event.generation in self.meetings[cluster].exits:
                raise self._beyond_theorem(event, "a wait for a phase at which an exit counts, which orders no memory")
            self._write(process, f"passed {cluster} {event.generation}", where)
            self.met.pop(process, None)
        else:
            self._write(process, f"parity {self._counter(event)} {event.generation & 1}", where)

    def _phase(self, event: Event, process: int, where: str) -> None:
        if event.place < 0:
            cluster = self.objects["cluster", self.places.cluster_index(event.cta)]
            for agent, left, there in self.leaving.pop((cluster, event.generation), ()):
                self._write(agent, f"passed {cluster} {event.generation}", there)
                self._leave(agent, cluster, left, there)

    # -- asynchronous copies ------------------------------------------------------------------------------------------

    def _copy(self, event: Event, process: int, where: str) -> None:
        row = self._effects(event)
        agent = self._agent(process, where)
        if event.generation >= 0:
            self._move(agent, "read", event, event.generation, event.amount, where)
        if row.moves.credits:
            self._move(agent, "write", event, event.place, event.amount, where)
            self.issued[process, event.pc].append((agent, event))
            return
        copy = Copy(self._new_copy_object(), self._new_copy_object())
        self._count(agent, copy.read, 1, 0, 0, 0, where)
        self._move(agent, "write", event, event.place, event.amount, where)
        self._count(agent, copy.written, 1, 0, 0, 0, where)
        for lane in _lanes(event.lanes):
            self.copies[process, lane, row.group].loose.append(copy)

    def _commit(self, event: Event, process: int, where: str) -> None:
        group = self._effects(event).group
        for lane in _lanes(event.lanes):
            self.copies[process, lane, group].commit()

    def _wait_for_groups(self, event: Event, process: int, where: str) -> None:
        group = self._effects(event).group
        auxiliary = int(self.places.program.code[event.pc, 7])
        only_read = group == "bulk" and bool(auxiliary & ONLY_READ)
        for lane in _lanes(event.lanes):
            copies = self.copies[process, lane, group]
            if group == "cp.async" and auxiliary & WITH_LOOSE:
                copies.commit()
            for copy in copies.older_than(event.generation):
                self._write(process, f"parity {copy.read if only_read else copy.written} 0", where)
            if not only_read:
                copies.forget(event.generation)

    def _arrive_after_copies(self, event: Event, process: int, where: str, *, counted: bool) -> None:
        """Let an agent of each lane wait for its copies, and arrive."""
        counter = self._counter(event)
        for lane in _lanes(event.lanes):
            copies = self.copies[process, lane, "cp.async"]
            if not counted:
                self._count(process, counter, 0, 0, 1, 0, where)
            agent = self._agent(process, where)
            for copy in (*copies.older_than(0), *copies.loose):
                self._write(agent, f"parity {copy.written} 0", where)
            self._count(agent, counter, int(counted), 0, 0, int(not counted), where)


_RULES: Final[dict[str, Callable[[_Writer, Event, int, str], None]]] = {
    "access": _Writer._access, "arrive": _Writer._barrier, "sync": _Writer._barrier, "exit": _Writer._exit,
    "init": _Writer._init, "arrive_on": _Writer._arrive, "expect": _Writer._expect, "credit": _Writer._credit,
    "await": _Writer._await, "phase": _Writer._phase, "copy": _Writer._copy, "commit": _Writer._commit,
    "landed": _Writer._wait_for_groups,
}  # fmt: skip
"""the method that writes the operations of an event, by event kind"""


def _make_printable(where: str) -> str:
    """Return a source location without line ends, and without the parts of a file name that are not UTF-8."""
    return where if where.isprintable() else "".join(c if c.isprintable() else "?" for c in where)


def _lanes(mask: int) -> Iterator[int]:
    """Yield the lanes of a mask."""
    return (lane for lane in range(LANES) if mask >> lane & 1)


def _merge_ranges(starts: Iterable[int], size: int) -> list[tuple[int, int]]:
    """Return the ranges, as start and number of bytes, that accesses of one size touch."""
    found: list[tuple[int, int]] = []
    for start in sorted(set(starts)):
        if found and start <= found[-1][0] + found[-1][1]:
            first, _ = found[-1]
            found[-1] = first, start + size - first
        else:
            found.append((start, size))
    return found
