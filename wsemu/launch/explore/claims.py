"""Decide launches whose threads claim cells of an array, such as insertions into a hash table with open addressing.

A cell holds a first value until a `cas` that compares with it stores another one; then it never changes again.  What a
thread does depends only on what it finds in the cells: the first value, or a value that some thread may claim the cell
with.  So each thread is followed alone, with each of these values.  Two threads may share a location that one of them
writes only if both have claimed the same cell before, because at most one of them can: docs/how.md, "Claimed cells",
has the theorem.

Each thread claims with a value at most once.  So the cells in which a thread has found other values can each be
attributed to a different claim of another thread.  Without this, two threads whose keys collide would displace each
other for ever.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from wsemu.launch.explore.partial import AmbiguousError, Code, Partial, to_truths
from wsemu.launch.explore.spending import PRICE
from wsemu.launch.explore.ways import UnfitError, check_written, is_own
from wsemu.model.control_flow import successors
from wsemu.model.data import NamedTuple, dataclass, field
from wsemu.model.isa import (
    ADDRESS_WRAPPED,
    ANYWHERE,
    ATOMICS,
    FIRST_ARRAY,
    FORBIDS_SHIFT,
    HALVES_OF_VECTOR,
    IN_ARRAY,
    IN_CONSTANT,
    LANES,
    NAMES,
    NO_STORE,
    NON_COHERENT,
    OFFSET_MASK,
    OPERATIONS,
    SCOPES,
    SEGMENT_SHIFT,
    SIZE,
    UNWATCHED,
    access_shape,
)
from wsemu.proof.taint import ACTIVE, VARYING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from wsemu.launch.explore.partial import Array, Plan
    from wsemu.launch.explore.session import Moved, Session, Snapshot
    from wsemu.model.bound import Bound
    from wsemu.model.outcome import RawFinding
    from wsemu.model.program import Program

MOST_STEPS, STEPS_OF_THREAD = 1_500, 2
"""The limit of strong accesses that are followed, for one unit of effort: in total, and more for each thread."""
MOST_ACCESSES = 200_000
"""The limit of other accesses that are compared, for one unit of effort."""
MOST_THREADS = 4_096
"""maximum threads of a launch"""
READ, WRITTEN, NON_COHERENT_READ = "read", "written", "non-coherent"
"""Kinds of plain accesses; an atomic without a used result has its name as its kind."""
TOGETHER = ("barrier", "warp", "matrix", "cluster", "async")
"""kinds of operations that threads perform together"""
Thread = tuple[int, int, int]
"""(CTA, warp, lane)"""
Claim = tuple[Thread, int]
"""A thread and the value that it stores in a cell."""


class Access(NamedTuple):
    """A plain access of a thread, and the cells that the thread had claimed before."""

    kind: str
    start: int
    size: int
    claimed: frozenset[int]


class Cells(Code):
    """The program of a launch; values are also chosen for each `cas`."""

    def __init__(self, bound: Bound, ordered: frozenset[int]) -> None:
        super().__init__(bound, ordered)
        self.chosen, self.alike = frozenset(ordered), {}


class Alone(Partial):
    """Lanes that do nothing together."""

    def _addresses(self, plan: Plan, lanes: int) -> Array:
        base = self._read(plan.fields[3], "b64").bits + np.uint64(plan.fields[6] & (1 << 64) - 1)
        if (base[to_truths(lanes)] & np.uint64(ADDRESS_WRAPPED)).any():
            raise UnfitError
        return super()._addresses(plan, lanes)

    def _compute(self, plan: Plan, lanes: int, vague: int) -> None:
        if plan.name in VARYING or plan.fields[0] == ACTIVE:
            raise UnfitError
        super()._compute(plan, lanes, vague)


class Lane(Alone):
    """A thread on one of its paths."""

    met: frozenset[int] = frozenset()
    """The cells in which the thread has found the value of another one."""
    own: tuple[tuple[int, int], ...] = ()
    """The cells that the thread has claimed, each with its value."""
    made: tuple[Access, ...] = ()
    """The plain accesses since the last strong one."""

    def key(self) -> bytes:
        return super().key() + repr((sorted(self.met), self.own)).encode()

    def find_claimed(self) -> frozenset[int]:
        return frozenset(cell for cell, _ in self.own)

    def find_operands(self, lane: int, pc: int) -> tuple[int, int]:
        """Return what a `cas` compares with, and what it stores."""
        compared, stored = (self._read(row, type_) for row, type_ in self.code.plan(pc).operands[1:3])
        if compared.unknown[lane] or stored.unknown[lane]:
            raise UnfitError
        return int(compared.bits[lane]), int(stored.bits[lane])

    def _act(self, plan: Plan, pc: int, lanes: int) -> None:
        if plan.kind == "warp":
            raise UnfitError
        if plan.kind == "atomic":
            self._perform(plan, lanes)
        else:
            super()._act(plan, pc, lanes)

    def _perform(self, plan: Plan, lanes: int) -> None:
        """Perform a strong load of an array that the launch does not write, or an atomic whose result is unused."""
        if plan.fields[7] & (SCOPES | HALVES_OF_VECTOR):
            raise UnfitError
        at, size = self._addresses(plan, lanes), SIZE[ATOMICS[plan.name][1]]
        loads = bool(plan.fields[7] & NO_STORE)
        for lane in np.flatnonzero(to_truths(lanes)).tolist():
            self._keep_access(READ if loads else plan.name, plan, int(at[lane]), size)
            if loads:
                self._return(plan, 1 << lane, {lane: (int.from_bytes(self._bytes(int(at[lane]), size), "little"), 0)})

    def _note(self, what: str, pc: int, lanes: int, at: Array, values: bytes) -> None:
        plan = self.code.plan(pc)
        kind = WRITTEN if what == "store" else NON_COHERENT_READ if plan.fields[7] & NON_COHERENT else READ
        for lane in np.flatnonzero(to_truths(lanes)).tolist():
            self._keep_access(kind, plan, int(at[lane]), access_shape(plan.name)[1])

    def _keep_access(self, kind: str, plan: Plan, start: int, size: int) -> None:
        check_location(self.code.bound, plan.fields, start, size, stores=kind not in (READ, NON_COHERENT_READ))
        if kind != WRITTEN and not all(at in self.stored for at in range(start, start + size)):
            check_written(self.code.bound, start, size)
        self.made += (Access(kind, start, size, self.find_claimed()),)


@dataclass(slots=True)
class Node:
    """A thread before a strong access."""

    lane: Lane
    pc: int
    cell: int
    after: dict[int, bytes] = field(default_factory=dict)
    """For each value that the access has returned, the key of the next node; empty at the end of the thread."""


@dataclass(slots=True)
class Touch:
    """The accesses to a byte."""

    threads: set[Thread]
    kinds: set[str]
    owners: frozenset[int]
    """The cells that all threads had claimed before."""

    def conflicts(self) -> bool:
        """Return whether an access by one thread may conflict with another one."""
        writes = self.kinds - {READ, NON_COHERENT_READ}
        if len(self.kinds) > 1 and (writes - {WRITTEN} or (NON_COHERENT_READ in self.kinds and writes)):
            return True  # the effects of atomics are not followed
        return WRITTEN in writes and len(self.threads) > 1 and not self.owners


class Claims:
    """The claims of one launch."""

    def __init__(
        self, bound: Bound, session: Session, ordered: frozenset[int], passes: Callable[[RawFinding], bool]
    ) -> None:
        """`passes` returns whether a finding is harmless."""
        self.bound, self.session, self.passes = bound, session, passes
        self.code = bound.program.code.tolist()
        self.plans = Cells(bound, ordered)
        self.initial = [content.copy() for content, _ in bound.segments]
        self.nodes: dict[Thread, dict[bytes, Node]] = {}
        self.claims: dict[int, set[Claim]] = {}
        """The claims of each cell, on all paths."""
        self.watched: dict[int, set[Thread]] = {}
        """For each cell, the threads that look at it."""
        self.pending: dict[Thread, None] = {}
        """The threads that may find a new value."""
        self.sizes: dict[int, int] = {}
        self.compared: dict[int, set[int]] = {}
        """The values with which each cell is compared."""
        self.touched: dict[int, Touch] = {}
        threads = bound.configuration.ctas * math.prod(bound.configuration.block)
        most = MOST_STEPS + STEPS_OF_THREAD * threads
        self.effort, self.most, self.price = bound.effort, most * bound.effort, PRICE / most
        self.steps = self.accesses = 0

    def is_proven(self) -> bool:
        """Return whether each thread is right, whatever it finds in the cells."""
        try:
            self._begin()
            while self.pending:
                thread = next(iter(self.pending))
                del self.pending[thread]
                self._follow(thread)
            self._check_cells()
            self._check_ends()
        except (AmbiguousError, UnfitError):
            return False
        return not any(touch.conflicts() for touch in self.touched.values())

    @property
    def is_contested(self) -> bool:
        """Return whether several threads may claim one cell."""
        return any(len(claims) > 1 for claims in self.claims.values())

    # -- threads ------------------------------------------------------------------------------------------------------
    def _begin(self) -> None:
        """Run all threads to their first strong accesses."""
        for cta, moved in enumerate(self.session.start()):
            if moved.status not in ("done", "stands") or not all(map(self.passes, moved.findings)):
                raise UnfitError
            self._note_moved(moved)
            for warp, alive, _ in self.session.alive(cta):
                self._begin_warp(cta, warp, alive, self.session.snapshot(cta, warp))

    def _begin_warp(self, cta: int, warp: int, alive: int, start: Snapshot) -> None:
        first = Lane(self.plans, start)
        found = 0
        for pc, lanes in start.groups.items():
            for lane in range(LANES):
                if not lanes >> lane & 1:
                    continue
                one = first.copy()
                one.groups = {pc: 1 << lane}
                thread = cta, warp, lane
                self.nodes[thread] = {}
                one.advance()
                self._enter(thread, one)
                found |= 1 << lane
        if found != alive:
            raise UnfitError

    def _note_moved(self, moved: Moved) -> None:
        """Record the accesses of threads before their first strong access."""
        for one in moved.made:
            if one.event.kind != "access":
                continue
            fields = self.code[one.event.pc]
            name = NAMES[fields[0]]
            stores, size = access_shape(name)
            kind = WRITTEN if stores else NON_COHERENT_READ if fields[7] & NON_COHERENT else READ
            if OPERATIONS[name].kind == "atomic":
                kind = READ if fields[7] & NO_STORE else name
                if fields[7] & SCOPES:
                    raise UnfitError
            for lane, address in one.addresses:
                if not is_own(address):
                    access = Access(kind, address & ~ADDRESS_WRAPPED, size, frozenset())
                    self._touch((one.event.cta, one.event.warp, lane), access)

    def _enter(self, thread: Thread, lane: Lane) -> bytes:
        """Record a thread before its next strong access, or at its end.  Return the key of its node."""
        for access in lane.made:
            self._touch(thread, access)
        lane.made = ()
        if not lane.loads():
            if lane.groups:
                raise UnfitError
            return b""
        key, nodes = lane.key(), self.nodes[thread]
        if key not in nodes:
            ((number, pc),) = lane.loads().items()
            cell = self._find_cell(lane, number, pc)
            nodes[key] = Node(lane, pc, cell)
            self.watched.setdefault(cell, set()).add(thread)
            self.pending[thread] = None
        return key

    def _find_cell(self, lane: Lane, number: int, pc: int) -> int:
        """Return the cell of a strong access, and check that the access is one."""
        plan = self.plans.plan(pc)
        size, cell = SIZE[ATOMICS[plan.name][1]], lane.address(number, pc)
        reads = bool(plan.fields[7] & NO_STORE)
        if plan.guard or is_own(cell) or self.sizes.setdefault(cell, size) != size:
            raise UnfitError
        check_location(self.bound, plan.fields, cell, size, stores=not reads)
        check_written(self.bound, cell, size)
        if not reads:
            compared, stored = lane.find_operands(number, pc)
            if stored in (compared, self._first(cell)):
                raise UnfitError
            self.compared.setdefault(cell, set()).add(compared)
        return cell

    def _first(self, cell: int) -> int:
        """Return what a cell holds before the launch."""
        number, offset = (cell >> SEGMENT_SHIFT) - FIRST_ARRAY, cell & OFFSET_MASK
        return int.from_bytes(bytes(self.initial[number][offset : offset + self.sizes[cell]]), "little")

    # -- paths --------------------------------------------------------------------------------------------------------
    def _follow(self, thread: Thread) -> None:
        """Follow a thread with all values that it may find and has not found yet."""
        nodes = self.nodes[thread]
        work = list(nodes.values())
        while work:
            node = work.pop()
            for value in self._find_values(thread, node):
                if value in node.after:
                    continue
                self.steps += 1
                self.bound.account.spend(self.price)
                if self.steps > self.most or self.bound.account.is_spent:
                    raise UnfitError
                count = len(nodes)
                key = node.after[value] = self._enter(thread, self._step(thread, node, value))
                if len(nodes) > count:
                    work.append(nodes[key])
        self.pending.pop(thread, None)

    def _find_values(self, thread: Thread, node: Node) -> list[int]:
        """Return the values that a strong access may return."""
        lane, cell = node.lane, node.cell
        own = dict(lane.own)
        if cell in own:
            return [own[cell]]
        others = {value for claimer, value in self.claims.get(cell, ()) if claimer != thread}
        if cell in lane.met:
            return sorted(others)
        possible = [value for value in sorted(others) if self._can_meet(thread, lane.met, cell, value)]
        return [self._first(cell), *possible]

    def _can_meet(self, thread: Thread, met: frozenset[int], cell: int, value: int) -> bool:
        """Return whether different claims of other threads can account for all cells in which a thread finds other
        values."""
        options = {
            at: [claim for claim in self.claims[at] if claim[0] != thread and (at != cell or claim[1] == value)]
            for at in (cell, *met)
        }
        taken: dict[Claim, int] = {}

        def assign(at: int, seen: set[Claim]) -> bool:
            for claim in options[at]:
                if claim not in seen:
                    seen.add(claim)
                    if claim not in taken or assign(taken[claim], seen):
                        taken[claim] = at
                        return True
            return False

        return all(assign(at, set()) for at in options)

    def _step(self, thread: Thread, node: Node, value: int) -> Lane:
        """Return a thread after a strong access that returns a value."""
        lane, cell, first = node.lane.copy(), node.cell, self._first(node.cell)
        ((number, pc),) = lane.loads().items()
        if value != first and cell not in dict(lane.own):
            lane.met |= {cell}
        if not self.plans.plan(pc).fields[7] & NO_STORE:
            compared, stored = lane.find_operands(number, pc)
            if value == compared:
                self._claim(thread, lane, cell, stored, first == value)
        lane.choose({number: (value, 0)})
        lane.advance()
        return lane

    def _claim(self, thread: Thread, lane: Lane, cell: int, value: int, fits: bool) -> None:
        """Record that a thread claims a cell."""
        if not fits or cell in lane.met or any(value == other for _, other in lane.own):
            raise UnfitError
        lane.own = (*lane.own, (cell, value))
        claims = self.claims.setdefault(cell, set())
        if (thread, value) not in claims:
            claims.add((thread, value))
            self._wake(cell)

    def _wake(self, cell: int) -> None:
        """Follow the threads again that may find more: those that look at a cell, or at one after it."""
        self.pending |= dict.fromkeys(self.watched.get(cell, ()))

    # -- checks -------------------------------------------------------------------------------------------------------
    def _touch(self, thread: Thread, access: Access) -> None:
        self.accesses += 1
        if self.accesses > MOST_ACCESSES * self.effort:
            raise UnfitError
        for at in range(access.start, access.start + access.size):
            known = self.touched.get(at)
            if known is None:
                self.touched[at] = Touch({thread}, {access.kind}, access.claimed)
            else:
                known.threads.add(thread)
                known.kinds.add(access.kind)
                known.owners &= access.claimed

    def _check_cells(self) -> None:
        """Check that cells do not overlap each other or other accesses, and that each changes at most once."""
        bytes_ = [at for cell, size in self.sizes.items() for at in range(cell, cell + size)]
        if len({*bytes_}) < len(bytes_) or not self.touched.keys().isdisjoint(bytes_):
            raise UnfitError
        for cell, compared in self.compared.items():
            if compared & {value for _, value in self.claims.get(cell, ())}:
                raise UnfitError

    def _check_ends(self) -> None:
        """Check that no path of a thread returns to an earlier state, and that it executes nothing undefined."""
        if self.plans.executed & self.plans.unwritten:
            raise UnfitError
        for nodes in self.nodes.values():
            before = dict.fromkeys(nodes, 0)
            for node in nodes.values():
                for key in {*node.after.values()} - {b""}:
                    before[key] += 1
            pending = [key for key, count in before.items() if not count]
            ended = 0
            while pending:
                ended += 1
                for key in {*nodes[pending.pop()].after.values()} - {b""}:
                    before[key] -= 1
                    if not before[key]:
                        pending.append(key)
            if ended < len(nodes):
                raise UnfitError


def check_location(bound: Bound, fields: Sequence[int], start: int, size: int, *, stores: bool) -> None:
    """Check that an access is inside an array that it may access, and aligned."""
    number, offset = (start >> SEGMENT_SHIFT) - FIRST_ARRAY, start & OFFSET_MASK
    if not 0 <= number < len(bound.segments) or offset % size:
        raise UnfitError
    data, may = bound.segments[number]
    kind = IN_ARRAY if may else IN_CONSTANT
    if offset + size > len(data) or fields[7] >> FORBIDS_SHIFT & ANYWHERE & kind or may == UNWATCHED:
        raise UnfitError
    if (stores and not may) or (hasattr(may, "allows") and not may.allows(offset, size)):
        raise UnfitError


def claims_cells(program: Program, ordered: frozenset[int]) -> bool:
    """Return whether a program may claim cells: its strong accesses are loads and `cas` of all CTAs, and threads
    perform nothing together after the first one."""
    code = program.code.tolist()
    names = {pc: NAMES[code[pc][0]] for pc in ordered}
    if not any(ATOMICS[name][0] == "cas" for name in names.values()):
        return False
    fit = all(
        not code[pc][7] & (SCOPES | HALVES_OF_VECTOR) and (code[pc][7] & NO_STORE or ATOMICS[name][0] == "cas")
        for pc, name in names.items()
    )
    return fit and all(OPERATIONS[NAMES[code[pc][0]]].kind not in TOGETHER for pc in find_later(code, ordered))


def find_later(code: list[list[int]], ordered: frozenset[int]) -> Iterator[int]:
    """Yield the instructions that may run after a strong access."""
    seen, pending = set[int](), [*ordered]
    while pending:
        at = pending.pop()
        for pc in successors(at, code[at]):
            if pc not in seen and pc < len(code):
                seen.add(pc)
                yield pc
                pending.append(pc)
