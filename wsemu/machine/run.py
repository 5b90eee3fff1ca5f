"""A launch on the VM: one machine, or several at once, run its groups of CTAs, and their outcomes are merged."""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.machine import build, slices
from wsemu.machine import state as layout
from wsemu.machine.counts import merge_outcomes
from wsemu.machine.image import (
    Rows,
    grouping_of,
    image_of,
)
from wsemu.machine.memory.cell_bits import INTERVALS, MAX_INSTRUCTIONS, WIDTHS
from wsemu.machine.memory.read_only_claims import Claims, written_bytes
from wsemu.machine.memory.shadow_planes import WINDOWS_FROM, collide, covers, merge_suspects, overlapping
from wsemu.machine.readout import event_of
from wsemu.machine.state import (
    STEP,
    address_of,
)
from wsemu.machine.tables import MAX_EVENTS, Rooms, Watch
from wsemu.machine.tier import hot
from wsemu.machine.vm import Machine
from wsemu.machine.workers import (
    MOST_REMEMBERED,
    MUCH,
    ROOMS,
    call_at_once,
    copy_data,
    cores,
    leave_machine,
    next_share,
    share_groups,
    take_machine,
    tell_sum,
)
from wsemu.model.arch import DEFAULT
from wsemu.model.control_flow import CTA_COST
from wsemu.model.data import NamedTuple, replace
from wsemu.model.errors import UnsupportedError, UsageError
from wsemu.model.isa import (
    FIRST_ARRAY,
    LANES,
    OPCODE,
    REQUEST_CLUSTER,
    ROW,
)
from wsemu.model.outcome import (
    Outcome,
    RawFinding,
    Trace,
)
from wsemu.model.program import Program
from wsemu.model.tensor_memory import ALLOC

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from wsemu.machine.image import Bytes
    from wsemu.machine.memory.shadow_planes import Suspects

MOST_CTAS = 1 << 27
"""maximum number of CTAs that a launch may start; each needs 8 bytes"""
PARALLEL_THREADS = 1 << 16
"""number of threads of a launch from which on its CTAs are spread over the cores"""
_VARYING = frozenset((OPCODE[ALLOC], OPCODE[REQUEST_CLUSTER]))
"""operations whose results differ by run"""


def most_ctas(ctas: int, budget: int) -> int:
    """Return how many CTAs of a grid may start within a budget; UsageError if they are too many to distinguish."""
    slack = budget // slices.SLICE + 3  # each slice may overdraw by one CTA
    most = min(ctas, budget // (CTA_COST + 1) + slack)
    if most > MOST_CTAS:
        raise UsageError(
            f"a grid of {ctas:,} CTAs within a budget of {budget:,} warp instructions takes {8 * most / 1e9:,.1f} GB "
            f"to tell CTAs apart: at most {MOST_CTAS:,} CTAs may start; launch fewer, or lower `budget=` (`--budget`)"
        )
    return most


class Launch:
    """A launch on the VM, which can be run again: the initial contents of its arrays are kept."""

    def __init__(
        self,
        program: Program,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        rows: Rows,
        segments: list[tuple[Bytes, bool]],
        *,
        dynamic_shared: int = 0,
        budget: int = 1_000_000_000,
        workers: int | None = None,
        descending: bool = False,
        watch: Watch | None = None,
        arch: str = DEFAULT,
        shape: tuple[int, int, int] = (1, 1, 1),
        clusters: bool = False,
        only: tuple[int, ...] = (),
        each: Callable[[int, int], None] | None = None,
    ) -> None:
        """`rows` are the parameter rows, `segments` the bytes of each array with whether it may be written, `budget`
        the warp instructions after which the run ends; `arch` determines the costs of accesses.  A large launch without
        atomics spreads its CTAs over `workers` threads (default: the cores); `descending` runs the last CTA first.
        Neither changes the outcome.  The CTAs of a group are alive at once; groups have this `shape`, which divides the
        grid; if they are `clusters`, their CTAs access each other's shared memory.  `only` has the CTAs to run, in this
        order; empty: all CTAs.  `each` is called now and then with the number of CTAs that have run, and of all CTAs.
        """
        if len(program.code) > MAX_INSTRUCTIONS:
            raise UsageError(f"`{program.name}` has {len(program.code):,} instructions: at most {MAX_INSTRUCTIONS:,}")
        self.program, self.grid, self.block, self.rows = program, grid, block, rows
        self.segments, self.dynamic, self.budget = segments, dynamic_shared, budget
        self.watch = watch or Watch()
        self.ctas = grid[0] * grid[1] * grid[2]
        self.most = most_ctas(self.ctas, budget)
        self.starting = self.watch.starting or grouping_of(grid, shape).number
        """number of groups of CTAs that start by themselves: the first groups of the grid"""
        self.workers, self.descending, self.arch, self.only = workers, descending, arch, only
        self.each = each
        self.tier = hot.tier_of(program)
        self.grouping, self.clusters = grouping_of(grid, shape), clusters
        self._check_groups()
        self.image = image_of(program)
        self.read_only = self.watch.read_only and self.image.has_read_only_loads
        repeats = self._keeps_contents or self.read_only or descending or self._workers() > 1
        self.pristine = self._copies() if repeats else {}
        if self._can_window():
            self.watch = replace(self.watch, windowed=True)
        self.rooms = Rooms()
        self.anew = False
        """true if the launch needs new machines, on which nothing was run before"""
        self.written: dict[int, npt.NDArray[np.int64]] = {}
        """offsets of the bytes that were loaded as read-only and written, by segment"""

    def _can_window(self) -> bool:
        """Return whether large written arrays may have windows instead of planes of shadow memory (`shadow_planes`): if
        CTAs do not communicate, and in earlier launches each CTA wrote beyond the locations of its predecessors."""
        watch = self.watch
        if not (watch.races and watch.stored) or watch.suspects is not None or watch.ordered or self.only:
            return False
        if not any(self.segments[n - FIRST_ARRAY][0].nbytes >= WINDOWS_FROM for n in watch.stored):
            return False
        if self.image.has_atomics or self.image.asynchronous or self.descending or self.grouping.members > 1:
            return False
        return self._shape not in self.program.derived.get("interleaved", ())

    @property
    def _shape(self) -> Any:
        return self.grid, self.block

    def _disable_windows(self) -> None:
        self.watch = replace(self.watch, windowed=False)
        self.program.derived.setdefault("interleaved", set()).add(self._shape)

    def _check_groups(self) -> None:
        """Raise UnsupportedError if too many warps would be alive at once."""
        members, most = self.grouping.members, WIDTHS[-1]
        warps = -(-self.block[0] * self.block[1] * self.block[2] // LANES)
        if members > 1 and members * warps > most:
            raise UnsupportedError(
                f"{members} CTAs of {warps} warps at once: more than {most:,} warps that meet are not modelled",
                remedy=f"launch at most {most // members or 1} warps a CTA, or fewer CTAs at once",
            )

    def _copies(self) -> dict[int, Bytes]:
        # only race checks notice a store to an array that is not in `stored`; without them, copy all writable arrays
        stored = self.watch.stored if self.watch.races else None
        numbered = enumerate(self.segments, FIRST_ARRAY)
        wanted = {n: data for n, (data, writable) in numbered if writable and (stored is None or n in stored)}
        workers = self._workers()
        return {n: copy_data(data, workers) for n, data in wanted.items()}

    def _ready(self, number: int, workers: int) -> Machine:
        """Return a machine for a share of the launch: if possible, one that has run a launch of the same kind."""
        share = min(self.most, -(-self.starting // workers))
        key = self._kind(share)
        kept = self._take_kept_machine(key, number)
        if kept is not None:
            return kept
        machine = self._machine(most=share)
        if key and machine.remember():
            machine.key, machine.number = key, number
        return machine

    def _take_kept_machine(self, key: Any, number: int) -> Machine | None:
        """Return a machine that an earlier launch of this kind has left, ready to run; None if there is none."""
        kept = take_machine(key, number)
        if kept is not None:
            kept.again(self.rows, self.segments)
            kept.tier = self.tier
        return kept

    def _kind(self, share: int) -> Any:
        """Return the properties that a machine's tables depend on besides the values and addresses of the arguments;
        None if they depend on anything else."""
        watch = self.watch
        if watch.suspects is not None or watch.uninitialized or self.rooms != ROOMS or share > MOST_REMEMBERED:
            return None
        if self.anew or watch.joined or watch.maps:
            return None
        return (
            self.image, self.grid, self.block, self.dynamic, watch, self.arch, share,
            self.grouping.shape, self.clusters, (*self.rows,), (*(writable for _, writable in self.segments),),
        )  # fmt: skip

    def _machine(
        self, segments: list[tuple[Bytes, bool]] | None = None, watch: Watch | None = None, most: int | None = None
    ) -> Machine:
        machine = Machine(
            self.program, self.grid, self.block, self.rows, segments or self.segments, self.dynamic,
            watch or self.watch, self.arch, most or self.most, self.rooms, self.grouping.shape, self.clusters,
        )  # fmt: skip
        machine.tier = self.tier
        if self.watch.joined:
            hot.drop(machine)
        return machine

    def run(self) -> Outcome:
        """Run the launch.  If several machines, or another order of CTAs, find something, the launch runs again on one
        machine in order, so that the outcome does not depend on the machines or on the order."""
        outcome, certain = self._run_once()
        while not certain:  # repeated at most once for each reason
            self._restore()
            outcome, certain = self._run_once()
        if self.written:
            outcome.findings += self._claims()
            outcome.findings.sort(key=lambda f: (f.code, f.pc, f.other_pc))
        return outcome

    def _claims(self) -> list[RawFinding]:
        """Run the launch again, and return findings about the first load and the first store of each byte that was both
        loaded as read-only and written."""
        machine = self._machine(self._initial_arrays(), Watch(races=False, initialised=False))
        hot.drop(machine)  # compiled blocks mark bytes, but do not record which access did so first
        claims = Claims(machine, self.written)
        machine.run(0, self.starting, self.budget)
        return claims.findings()

    @property
    def _keeps_contents(self) -> bool:
        """Return whether the initial contents of the arrays are kept: a second run may explain findings, or get other
        columns of tensor memory or other clusters."""
        checked = self.watch.races or self.watch.recycling or self.watch.initialised
        return checked or not _VARYING.isdisjoint(self.image.opcodes)

    def _initial_arrays(self) -> list[tuple[Bytes, bool]]:
        """Return the arrays, or copies of their contents before the launch."""
        return [
            (self.pristine[n].copy() if n in self.pristine else data, writable)
            for n, (data, writable) in enumerate(self.segments, FIRST_ARRAY)
        ]

    def _restore(self) -> None:
        for number, data in self.pristine.items():
            self.segments[number - FIRST_ARRAY][0][:] = data

    def _run_once(self) -> tuple[Outcome, bool]:
        """Run the launch once.  Return the outcome, and whether it is final; if not, the option that made it unusable
        is changed for the next run."""
        workers = self._workers()
        machines, statuses = self._run_on_machines(workers)
        if self._change_options(machines, statuses):
            return Outcome("done"), False
        plain = workers == 1 and not self.descending
        budget = self.budget - CTA_COST * (self.ctas - 1)
        kept = machines[0] if plain and machines[0].key and statuses == [layout.DONE] else None
        known = kept.repeated_outcome(budget) if kept else None
        if kept and known:
            leave_machine(kept)
            return known, True
        self.written = written_bytes([m.marks for m in machines])
        astray = not plain and (
            any(status != layout.DONE or m.state[0]["raw_count"] for m, status in zip(machines, statuses, strict=True))
            or bool(self.written)
            or (self.watch.races and self._collide(machines))
        )
        suspects = merge_suspects([m.planes.suspects() for m in machines if m.planes])
        apart = any(m.state[0]["apart"] for m in machines)
        if self.watch.tentative:
            if not self._expects(suspects, machines, apart=apart):
                self.watch = replace(self.watch, suspects=None, apart=False, tentative=False)
                astray = True
        elif suspects:
            self.watch = replace(self.watch, suspects=suspects, apart=apart)
            astray = True
        if astray:
            self._go_alone()
        outcomes = [Outcome("done") if astray else m.outcome(s) for m, s in zip(machines, statuses, strict=True)]
        merged = merge_outcomes(self.program, machines, outcomes, budget)
        merged.arch = self.arch
        # each machine was within the budget, all together were not: a run on one machine finds where the budget ends
        if merged.status == "budget" and not plain and not astray:
            astray = True
            self._go_alone()
        if kept and not astray and merged.status == "done" and not merged.findings:
            kept.tell(merged)
        leaving: list[Callable[[], None]] = [functools.partial(leave_machine, m) for m in machines]
        if workers > 1 and any(m.planes and m.planes.nbytes >= MUCH for m in machines):
            call_at_once(leaving)
        else:
            for leave in leaving:
                leave()
        return merged, not astray

    def _change_options(self, machines: list[Machine], statuses: list[int]) -> bool:
        """Return whether a run is unusable, and change the option that made it so."""
        if layout.WRITTEN in statuses:
            self.watch = replace(self.watch, stored=None)
            # arrays that were not expected to be written still have their initial contents: the run stopped before
            self.pristine = self._copies() | self.pristine
            return True
        if layout.UNNAMED in statuses:
            self.watch = replace(self.watch, named=True)
        elif layout.GROW in statuses:
            machine = machines[statuses.index(layout.GROW)]
            if int(machine.state[0]["wanted"]) == layout.GROW_WINDOW:
                self._disable_windows()
            else:
                self._grow(machine)
        else:
            # a reused machine continues the counters of earlier launches; findings need counts from this launch's
            # beginning
            if not any(m.goes_on and not m.ended_well() for m in machines):
                return False
            self.anew = True
            for machine in machines:
                machine.close()
            return True
        for machine in machines:
            if machine.planes:
                machine.planes.close()
        return True

    def _expects(self, suspects: Suspects, machines: list[Machine], *, apart: bool) -> bool:
        """Return whether a run with the suspects of another launch was exact at all its own suspects.  Its cells must
        not be smaller than those of the other launch."""
        known = self.watch.suspects or {}
        grains = [(int(m.segments[number]["grain"]), one.grain) for m in machines for number, one in known.items()]
        alike = all(own < 0 or own >= grain for own, grain in grains)
        return alike and apart <= self.watch.apart and covers(known, suspects)

    def _grow(self, machine: Machine) -> None:
        """Enlarge the table that was full in a machine."""
        most = min(1 << 24, INTERVALS.values[machine.width] >> 3)
        self.rooms = self.rooms.more(int(machine.state[0]["wanted"]), most)

    def _go_alone(self) -> None:
        """From now on one machine runs all CTAs in order, without windows."""
        self.workers, self.descending = 1, False
        if self.watch.windowed:
            self._disable_windows()

    def _workers(self) -> int:
        """Return the number of threads over which the CTAs are spread."""
        if self.only or self.descending:
            return 1
        if self.image.has_atomics or self.watch.uninitialized:
            return 1
        if self.workers is None:
            large = self.ctas * self.block[0] * self.block[1] * self.block[2] >= PARALLEL_THREADS
            return min(cores(), self.starting) if large else 1
        return max(1, min(self.workers, self.starting))

    def _run_on_machines(self, workers: int) -> tuple[list[Machine], list[int]]:
        """Run the CTAs, spread over machines; return the machines, and the status with which each stopped."""
        groups = self.starting
        first = self._ready(0, workers)
        if self.only:
            return [first], [first.run_each(self.only, self.budget)]
        told = self._progress_callbacks(workers)
        if workers == 1:
            bounds = (groups - 1, -1) if self.descending else (0, groups)
            return [first], [first.run(*bounds, self.budget, step=-1 if self.descending else 1, each=told[0])]
        stop = threading.Event()
        # this thread takes the machines before the workers begin, which would wait for each other if each took its own
        kept = [first, *(self._take_kept_machine(first.key, number) for number in range(1, workers))]

        shares = share_groups(groups, workers)

        def one(number: int) -> tuple[Machine, int]:
            machine = kept[number] or self._ready(number, workers)
            left, ran, end, status = self.budget, 0, -1, layout.DONE
            while status == layout.DONE and not stop.is_set() and (share := next_share(shares, number)):
                if end not in (-1, share[0]):
                    machine.move()
                tell = told[number]
                each = functools.partial(tell_sum, tell, ran) if tell else None
                status = machine.run(*share, left, stop, each=each)
                left, ran, end = machine.left, ran + share[1] - share[0], share[1]
            if status != layout.DONE:
                shares.clear()  # the work of the other machines is not needed any more
            return machine, status

        ran = call_at_once([functools.partial(one, number) for number in range(workers)], stop)
        return [machine for machine, _ in ran], [status for _, status in ran]

    def _progress_callbacks(self, workers: int) -> list[Callable[[int], None] | None]:
        """Return, for each worker, a callback that takes the number of groups it has run; the first worker's callback
        passes on the sum."""
        each, done = self.each, [0] * workers
        if each is None:
            return [None] * workers

        def tell(number: int, groups: int) -> None:
            done[number] = groups
            if number == 0:
                each(sum(done) * self.grouping.members, self.ctas)

        return [functools.partial(tell, number) for number in range(workers)]

    def _collide(self, machines: list[Machine]) -> bool:
        numbers = range(FIRST_ARRAY, FIRST_ARRAY + len(self.segments))
        planes = [m.planes for m in machines if m.planes]
        return any(collide(a, b, n, *bytes_) for n in numbers for a, b, *bytes_ in overlapping(planes, n))

    def initial(self) -> list[Bytes | None]:
        """Return the initial contents of the arrays, segment by segment; None for an array that was not kept."""
        return [
            self.pristine.get(n, data if self._keeps_contents or not writable else None)
            for n, (data, writable) in enumerate(self.segments, FIRST_ARRAY)
        ]

    def trace(self, accesses: frozenset[int], cta: int | None = None) -> Trace:
        """Run the launch again on copies of the arrays, with the same result, and return the events: up to the end of
        `cta`, if one is given.  `accesses` are the instructions whose executions are requested."""
        machine = self._machine(self._initial_arrays(), Watch(races=False, initialised=False, read_only=False))
        logged = np.zeros(len(machine.image.code) + 1, np.uint8)
        logged[list(accesses)] = 1
        events = np.zeros(MAX_EVENTS, layout.EVENT)
        state = machine.state[0]
        group = None if cta is None else self.grouping.of(cta)[0]
        first, last = (0, self.starting) if group is None else (group, group + 1)
        if first and machine.run(0, first, self.budget) != layout.DONE:
            return Trace()  # the run stops before this group
        addresses = np.empty(LANES * MAX_EVENTS, np.int64)  # untouched parts take no memory
        state["trace"], state["trace_room"], state["trace_pcs"] = address_of(events), MAX_EVENTS, address_of(logged)
        state["trace_addresses"] = address_of(addresses)
        hot.drop(machine)
        machine.run(first, last, self.budget)
        count = int(state["trace_count"])
        found = events[:count].view(np.int64).reshape(-1, events.itemsize // 8).tolist()
        made = [
            event_of(layout.EVENT_KINDS[kind], *machine.actor(group, warp), *rest) for kind, group, warp, *rest in found
        ]
        if cta is not None and self.grouping.members > 1:
            made = [event for event in made if event.cta == cta]
        return Trace(made, count <= MAX_EVENTS, addresses=addresses[: int(state["trace_used"])].copy())

    def steps(self, accesses: frozenset[int], cta: int, room: int, *, in_place: bool = False) -> Steps:
        """Return the instructions that the warps of one CTA's group execute, unchecked.

        `accesses` are the instructions whose addresses are logged, `room` is the length of the log; the run uses
        copies of the arrays, unless it runs `in_place`."""
        while True:
            segments = self.segments if in_place else self._as_copies()
            machine = self._machine(segments, Watch(races=False, initialised=False, read_only=False))
            found = self._log_steps(machine, accesses, cta, room)
            if found.status != layout.GROW:
                return found
            self._grow(machine)

    def _log_steps(self, machine: Machine, accesses: frozenset[int], cta: int, room: int) -> Steps:
        """Log the steps of the group of a CTA on a machine, up to the group's end or until a table is full."""
        build.load_parts(("logged_entry",), machine.width)
        logged = np.zeros(len(machine.image.code) + 1, np.uint8)
        logged[list(accesses)] = 1
        most = 4 * room
        events, addresses = np.empty(most, layout.EVENT), np.empty(LANES * most, np.int64)
        steps = np.empty((room, STEP // 8), np.int64)
        state = machine.state[0]
        state["trace"], state["trace_room"], state["trace_pcs"] = address_of(events), most, address_of(logged)
        state["trace_addresses"] = address_of(addresses)
        state["steps"], state["steps_room"] = address_of(steps), room
        state["warp_entry"] = build.address("logged_entry", machine.width)
        hot.drop(machine)
        group = self.grouping.of(cta)[0]
        status = machine.run(group, group + 1, self.budget)
        total, count = int(state["steps_count"]), min(int(state["trace_count"]), most)
        found = events[:count].view(np.int64).reshape(-1, events.itemsize // 8)
        return Steps(steps[: min(total, room)], total, found, addresses[: int(state["trace_used"])], status)

    def _as_copies(self) -> list[tuple[Bytes, bool]]:
        """Return the arrays: copies of arrays that may be written, the others themselves."""
        stored = self.watch.stored
        return [
            (data.copy() if writable and (stored is None or n in stored) else data, writable)
            for n, (data, writable) in enumerate(self.segments, FIRST_ARRAY)
        ]


class Steps(NamedTuple):
    """Log of the instructions that the warps of a group executed."""

    steps: npt.NDArray[np.int64]
    """rows of: warp << 32 | instruction, the lanes that execute it, the number of events before it"""
    total: int
    """number of executed instructions, including those for which the log had no room"""
    events: npt.NDArray[np.int64]
    """rows of `state.EVENT`, in the order of the run"""
    addresses: npt.NDArray[np.int64]
    """addresses of the logged accesses, lane by lane"""
    status: int


def run(
    program: Program,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    rows: Rows,
    segments: list[tuple[Bytes, bool]],
    **options: Any,
) -> Outcome:
    """Run a launch on the VM; parameters as of `Launch`."""
    return Launch(program, grid, block, rows, segments, **options).run()


assert ROW == LANES * 8
