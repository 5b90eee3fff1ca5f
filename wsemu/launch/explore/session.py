"""A launch on the VM that stops before each ordered access, so that its accesses can be performed in any order.

All CTAs are resident.  Each is a separate machine over the same arrays, and runs from one ordered access to the next.
So in each state of the launch, every warp has ended, waits for others, or is parked before an ordered access.
"""

from __future__ import annotations

import functools
import hashlib
import math
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from wsemu.launch.explore.spending import Spending
from wsemu.machine import state as layout
from wsemu.machine.readout import event_of
from wsemu.machine.state import address_of
from wsemu.machine.tables import Watch
from wsemu.machine.vm import Machine
from wsemu.model.data import NamedTuple
from wsemu.model.isa import (
    ADDRESS_WRAPPED,
    FIRST_ARRAY,
    LANES,
    NAMES,
    OFFSET_MASK,
    OPERATIONS,
    ROW,
    SEGMENT_SHIFT,
    SHARED,
    SIZE,
    access_shape,
)
from wsemu.model.isa import ATOMICS as ATOMIC_NAMES
from wsemu.model.outcome import FENCES
from wsemu.proof.liveness import lane_bytes, live_bits, live_rows
from wsemu.proof.threads import Made

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from wsemu.model.bound import Account, Bound
    from wsemu.model.outcome import RawFinding
    from wsemu.proof.names import Named

EVENTS, ASYNCHRONOUS_EVENTS = 1 << 14, 1 << 18
"""maximum events of a CTA between two ordered accesses"""


MOST_INSTRUCTIONS = 1 << 22
"""maximum instructions of a CTA between two ordered accesses"""
MOST_LIVE_PLACES = 512
"""maximum number of entries of `VmSession.live_places`, of about 100 KB each in large kernels"""


class Ask(NamedTuple):
    """A lane that is parked before an ordered access."""

    cta: int
    warp: int
    lane: int
    pc: int
    place: tuple[int, int]
    """(CTA of shared memory or -1, address)"""


class Snapshot(NamedTuple):
    """A warp with lanes at an ordered access, and its shared memory."""

    registers: Any
    groups: dict[int, int]
    """the lanes that are at each instruction"""
    shared: Any


class Moved(NamedTuple):
    """The effect of a CTA until it stopped again."""

    made: list[Made]
    findings: list[RawFinding]
    """all findings in the CTA, on the path to its position"""
    status: str
    """`stands`, `done`, or the reason why it cannot continue: `budget`, `fault`, `trap`, `stack`, `events`"""


class Session(Protocol):
    """A launch that stops before each ordered access, continues in any order, and can be restored to a saved state."""

    ctas: int
    asynchronous: bool
    effort: float
    """factor for the maximum number of accesses that may be performed to decide the launch"""
    account: Account
    """the effort that is left to decide the launch"""
    weight: float
    """number of steps that a step counts as, because it takes longer"""
    grown: bool
    """true if bytes of shared memory turned out to matter that were not part of states so far"""
    named: Named | None
    """stores to locations that belong to a CTA by its number, if CTA numbers are not part of states"""

    def start(self) -> list[Moved]:
        """Restart: run every CTA, in order, to its first ordered accesses."""

    def go(self, ask: Ask) -> Moved:
        """Let a lane perform its access, and its CTA continue."""

    def asks(self, cta: int) -> list[Ask]:
        """Return the lanes of a CTA that are parked before ordered accesses."""

    def save(self, cta: int) -> Any:
        """Return the state of a CTA."""

    def load(self, cta: int, saved: Any) -> None:
        """Restore a saved state of a CTA."""

    def save_memory(self) -> Any:
        """Return a copy of the arrays."""

    def load_memory(self, saved: Any) -> None:
        """Restore saved arrays."""

    def value(self, place: tuple[int, int], memory: Any) -> bytes:
        """Return the bytes at a location, in saved arrays."""

    def digest(self, cta: int) -> bytes:
        """Return a digest of the state that decides the CTA's further execution."""

    def digest_memory(self) -> bytes:
        """Return a digest of the arrays."""

    def alive(self, cta: int) -> list[tuple[int, int, int]]:
        """Return (warp, live lanes, lanes parked before an ordered access) of the warps that have not ended."""

    def elsewhere(self, cta: int, warp: int) -> list[int]:
        """Return the instructions at which lanes of a warp continue after they have waited for other lanes of the
        warp."""

    def snapshot(self, cta: int, warp: int) -> Snapshot:
        """Return the registers of a warp, and the position of each of its lanes."""

    def waiting_warps(self, cta: int) -> list[tuple[int, int]]:
        """Return (warp, instruction) of the warps of a CTA that wait at barriers, mbarriers or joins."""

    def operand(self, ask: Ask) -> int:
        """Return the operand of a waiting integer atomic."""

    def write(self, place: tuple[int, int], value: int, size: int) -> None:
        """Store another value at a location."""

    def tell_rounds(self, matters: Collection[int]) -> None:
        """Let digests omit histories, phases except their parity, and shared memory except these bytes."""

    def executed_instructions(self) -> int:
        """Return the number of warp instructions so far."""

    def state_bytes(self) -> int:
        """Return the size of the saved states of a CTA and of the arrays, in bytes."""

    def history(self, cta: int) -> bytes:
        """Return the history of a CTA's barriers, copies and accesses to shared memory, by which it is judged; it is
        empty for launches without asynchronous operations."""

    def suspects(self) -> Any:
        """Return the locations where lanes may conflict, for a further run that watches them; empty if this run is
        sufficient."""

    def spend(self, steps: float, made: list[Made] | None = None) -> None:
        """Draw a number of steps from the account of the launch, the last of which has these events."""

    @property
    def is_spent(self) -> bool:
        """True if the account is used up."""

    def close(self) -> None:
        """Release the memory of the session."""


class Looking(NamedTuple):
    """The checks of a session."""

    races: bool = False
    """true if all checks of an engine are enabled; CTAs are then never restored"""
    suspects: Any = None
    """locations at which an earlier session found possible conflicts of lanes"""
    tells: bool = False
    """true if accesses to shared memory are reported as well"""


TRYING = Looking()


def bytes_around(place: tuple[int, int], memory: Any) -> bytes:
    """Return the 8 bytes around an array location, or an empty value if the location is in no array."""
    number, offset = (place[1] >> SEGMENT_SHIFT) - FIRST_ARRAY, place[1] & (1 << SEGMENT_SHIFT) - 1 & ~7
    return bytes(memory[0][number][offset : offset + 8]) if 0 <= number < len(memory[0]) else b""


_KEPT = ("state", "registers", "warps", "ctas", "barriers", "stacks", "shared", "local", "segments")
_CLOCKS = ("clocks", "warp_clocks", "lane_clocks", "leaders", "bases", "known")
_OBJECTS = ("mbarriers", "mbarrier_index", "groups", "known")
"""names of further tables of a CTA with asynchronous operations"""
_OF_PHASE = ("live", "word", "phase", "pending", "expected", "tx")
_TOLD = np.array([kind not in (*FENCES, "atomic") for kind in layout.EVENT_KINDS])
"""for each kind of event, whether it belongs to the history of a CTA"""
_ACCESS, _COPY = layout.EVENT_KINDS.index("access"), layout.EVENT_KINDS.index("copy")


def _view_bytes(table: Any) -> Any:
    """Return a table of records as a table of bytes, because NumPy copies records field by field."""
    return table.view(np.uint8) if table.dtype.fields else table


class VmSession(Spending):
    """A session on the VM."""

    def __init__(
        self, bound: Bound, ordered: frozenset[int], logged: frozenset[int], looking: Looking = TRYING
    ) -> None:
        """Begin a session.  `ordered` are the instructions before which lanes stop; executions of `logged` are
        recorded."""
        configuration, chosen = bound.configuration, bound.settings
        grid = configuration.grid
        self.looking, self.asynchronous = looking, bound.program.asynchronous
        self.ctas = self._machine_count(grid)
        self.histories = [b""] * self.ctas
        self.found: list[tuple[RawFinding, ...]] = [()] * self.ctas
        """findings of each CTA on the path to its state"""
        self.grown = self.rounds = False
        self.bound, self.program = bound, bound.program
        self.effort, self.account, self.weight = bound.effort, bound.account, 1.0
        self.named: Named | None = None
        self.initial = [data.copy() for data, _ in bound.segments]
        self.budget, self.patience = chosen.budget, min(chosen.budget, MOST_INSTRUCTIONS)
        watch = Watch(
            races=looking.races, initialised="initialised" in chosen.checkers, lockstep=chosen.lockstep,
            read_only=False, uninitialized=bound.uninitialized, ordered=ordered, suspects=looking.suspects,
        )  # fmt: skip
        options = configuration.dynamic_shared, watch, configuration.arch, 1
        self.machines = [
            Machine(bound.program, grid, configuration.block, bound.rows, bound.segments, *options)
            for _ in range(self.ctas)
        ]
        self.pcs = np.zeros(len(bound.program.code) + 1, np.uint8)
        self.pcs[list(logged)] = 1
        self.room = ASYNCHRONOUS_EVENTS if self.asynchronous else EVENTS
        self.events = np.zeros(self.room, layout.EVENT)
        self.addresses = np.empty(LANES * self.room, np.int64)
        self.written = [kept.copy() for kept in self.machines[0].maps.values()]
        """for each array with uninitialized bytes: 1 for each byte that was initialized before the launch"""
        self.maps = [kept.copy() for kept in self.written]
        for machine in self.machines:
            self._share(machine)
        self.outlasting = np.zeros(len(self.machines[0].shared) // 2, bool)
        """bytes of shared memory that some CTA wrote before a stop and read after it"""
        self.parted = 0
        """number of states in which only a part of a warp had reached a barrier"""
        self.fresh = [self._arrays(cta) for cta in range(self.ctas)]

    @functools.cached_property
    def live(self) -> list[frozenset[int]]:
        return live_rows(self.program)

    @functools.cached_property
    def widths(self) -> dict[int, int]:
        return lane_bytes(self.program)

    @functools.cached_property
    def bits(self) -> list[dict[int, int]]:
        return live_bits(self.program)

    @functools.cached_property
    def live_places(self) -> dict[tuple[frozenset[int], int, int], tuple[Any, Any]]:
        """for the live rows at an instruction, and some lanes, what `_live_bytes` returns"""
        found: dict[tuple[frozenset[int], int, int], tuple[Any, Any]] = self.program.derived.setdefault("places", {})
        return found

    def _machine_count(self, grid: tuple[int, int, int]) -> int:
        """Return the number of machines: one for each CTA."""
        return math.prod(grid)

    def _number(self, cta: int) -> int:
        """Return the number of the CTA that a machine runs."""
        return cta

    def _share(self, machine: Machine) -> None:
        """Let a machine use the tables of the session: the log of events, and the initialized bytes of arrays."""
        state = machine.state[0]
        state["trace"], state["trace_room"] = 0 if self.looking.races else address_of(self.events), self.room
        state["trace_pcs"] = address_of(self.pcs)
        state["trace_addresses"] = address_of(self.addresses)
        number = 0
        for segment in machine.segments[FIRST_ARRAY:]:
            if segment["initialised"]:
                segment["initialised"] = address_of(self.maps[number])
                number += 1

    def close(self) -> None:
        """Release the memory of the session."""
        for machine in self.machines:
            machine.close()

    # -- moving -------------------------------------------------------------------------------------------------------
    def start(self) -> list[Moved]:
        self.load_memory(([data.copy() for data in self.initial], [kept.copy() for kept in self.written]))
        moved = []
        for cta, machine in enumerate(self.machines):
            self.load(cta, (self.fresh[cta], b"", ()))
            state = machine.state[0]
            number = self._number(cta)
            state["group"], state["group_end"], state["group_step"], state["group_first"] = (
                number,
                number + 1,
                1,
                number,
            )
            moved.append(self._run(cta))
        return moved

    def go(self, ask: Ask) -> Moved:
        machine = self.machines[ask.cta]
        warp, state = machine.warps[ask.warp], machine.state[0]
        warp["waits"] = -1
        state["let_go"] = ask.lane + 1
        self._resume(state, ask.warp)
        swaps = self._swaps(ask, machine)
        return self._run(ask.cta, 0 if not swaps else 1 << ask.lane)

    def _resume(self, state: Any, warp: int = 0) -> None:
        """Let a stopped machine continue with a warp."""
        state["next_warp"], state["progress"], state["turn"] = warp, 1, -1

    def _swaps(self, ask: Ask, machine: Machine) -> bool:
        """Return whether the requested access is a `cas` that will not write."""
        fields = self.program.code[ask.pc]
        name = NAMES[int(fields[0])]
        if ATOMIC_NAMES[name][0] != "cas":
            return False
        size = SIZE[ATOMIC_NAMES[name][1]]
        row = int(fields[4]) + ask.lane * size
        wanted = machine.registers[ask.warp, row : row + size].tobytes()
        return self._bytes(ask.place, size) != wanted

    def _bytes(self, place: tuple[int, int], size: int) -> bytes:
        cta, address = place
        offset = address & (1 << SEGMENT_SHIFT) - 1
        if cta >= 0:
            return bytes(self.machines[cta].shared[offset : offset + size])
        number, arrays = (address >> SEGMENT_SHIFT) - FIRST_ARRAY, self.bound.segments
        return bytes(arrays[number][0][offset : offset + size]) if 0 <= number < len(arrays) else b""

    def _run(self, cta: int, unwritten: int = 0) -> Moved:
        machine = self.machines[cta]
        state = machine.state[0]
        state["trace_count"], state["trace_used"] = 0, 0
        most = min(self.budget, self.patience)
        state["budget"], state["patience"] = most, 1 << 40
        status = machine.entry(address_of(machine.state))
        while status in (layout.REFINE, layout.SWEEP) and machine.planes:
            machine._provide(status, machine.planes)
            status = machine.entry(address_of(machine.state))
        self.budget = max(self.budget - most + int(state["budget"]), 0)
        findings = self._new_findings(cta, machine)
        word = {layout.DONE: "done", layout.DEADLOCK: "stands"}.get(status, "budget")
        if status in (layout.FAULT, layout.TRAP, layout.STACK_OVERFLOW):
            word = {layout.FAULT: "fault", layout.TRAP: "trap", layout.STACK_OVERFLOW: "stack"}[status]
        if status == layout.GROW:
            word = "room"
        if int(state["trace_count"]) > self.room:
            word = "events"
        if self.looking.races:
            return Moved([], findings, word)
        kept = self._tell_history(cta, state) if self.asynchronous else None
        moved = Moved(self._read_events(state, unwritten, kept), findings, word)
        self.events[: int(state["trace_count"])] = np.zeros((), layout.EVENT)  # some events do not set all fields
        return moved

    def _new_findings(self, cta: int, machine: Machine) -> list[RawFinding]:
        """Return the new findings of a CTA.  If the CTA may be restored, the machine forgets them."""
        state = machine.state[0]
        now = [machine._finding(raw) for raw in machine.raw[: int(state["raw_count"])]]
        if self.looking.races:
            return now
        if now:
            machine.slots[:] = 0
            state["raw_count"], state["slot_count"] = 0, 0
            known = {(raw.code, raw.pc, raw.other_pc) for raw in self.found[cta]}
            self.found[cta] += tuple(raw for raw in now if (raw.code, raw.pc, raw.other_pc) not in known)
        return [*self.found[cta]]

    def _tell_history(self, cta: int, state: Any) -> Any:
        """Add the last events of a CTA to its history, except those that concern arrays only: they do not affect the
        order within the CTA.  Return which events concern more than shared memory."""
        count = min(int(state["trace_count"]), self.room)
        rows = self.events[:count].view(np.int64).reshape(count, layout.EVENT.itemsize // 8)
        used = self.addresses[: min(int(state["trace_used"]), len(self.addresses))]
        inside = (used & ~ADDRESS_WRAPPED) >> SEGMENT_SHIFT == SHARED
        accesses = rows[:, 0] == _ACCESS
        some, all_ = np.zeros(count, bool), np.zeros(count, bool)
        if accesses.any():  # in shared memory, by some of their lanes or by all
            first = rows[accesses, 8]
            some[accesses], all_[accesses] = (made.reduceat(inside, first) for made in (np.logical_or, np.logical_and))
        told = _TOLD[rows[:, 0]] & (~accesses | some)
        own = rows[told].copy()
        own[:, [1, 3, 8]] = 0  # CTA, interval, segment of the addresses
        for column in (5, 6):  # for copies: destination and source
            away = (own[:, 0] == _COPY) & (own[:, column] >> SEGMENT_SHIFT != SHARED)
            own[away, column] = -1
        self._outlast(rows[some | (rows[:, 0] == _COPY)])
        if len(own):
            made = hashlib.blake2b(self.histories[cta], digest_size=16)
            made.update(own.tobytes())
            made.update(used[inside].tobytes())
            self.histories[cta] = made.digest()
        return None if self.looking.tells else ~all_

    def _outlast(self, rows: Any) -> None:
        """Record the bytes of shared memory that were read, before any write to them, since the last stop of the CTA:
        they are part of its state."""
        code, known = self.program.code, self.outlasting
        fresh = np.zeros(len(known), bool)
        for kind, _, _, _, pc, place, source, lanes, first, amount in rows.tolist():
            if kind == _COPY:
                sides = [(np.array([source]), amount, False), (np.array([place]), amount, True)]
            else:
                name = NAMES[int(code[pc, 0])]
                at = self.addresses[first : first + lanes.bit_count()] & ~ADDRESS_WRAPPED
                stores, size = access_shape(name)
                sides = [(at, size, stores and OPERATIONS[name].kind == "store")]
            for at, size, writes in sides:
                at = at[at >> SEGMENT_SHIFT == SHARED] & OFFSET_MASK
                bytes_ = (at[:, None] + np.arange(size)).ravel()
                bytes_ = bytes_[bytes_ < len(known)]
                if writes:
                    fresh[bytes_] = True
                elif not (known[bytes_] | fresh[bytes_]).all():
                    known[bytes_] |= ~fresh[bytes_]
                    self.grown = True

    def _read_events(self, state: Any, unwritten: int, kept: Any = None) -> list[Made]:
        count = min(int(state["trace_count"]), self.room)
        chosen = self.events[:count] if kept is None else self.events[:count][kept]
        rows = chosen.view(np.int64).reshape(-1, self.events.itemsize // 8).tolist()
        made = []
        for kind, *rest in rows:
            event = event_of(layout.EVENT_KINDS[kind], *rest)
            if event.kind != "access":
                made.append(Made(event))
                continue
            lanes = [lane for lane in range(LANES) if event.lanes >> lane & 1]
            places = self.addresses[event.addresses : event.addresses + len(lanes)].tolist()
            made.append(Made(event, tuple(zip(lanes, places, strict=True)), ~unwritten))
            unwritten = 0  # the first access is the released one
        return made

    # -- queries ------------------------------------------------------------------------------------------------------
    def asks(self, cta: int) -> list[Ask]:
        machine = self.machines[cta]
        found = []
        for w, warp in enumerate(machine.warps):
            if warp["waits"] != layout.SCRIPTED or not warp["alive"]:
                continue
            pc, lanes = int(warp["pc"]), int(warp["asks"])
            row, immediate = int(self.program.code[pc, 3]), int(self.program.code[pc, 6])
            addresses = machine.registers[w, row : row + 8 * LANES].view(np.int64)
            for lane in range(LANES):
                if lanes >> lane & 1:
                    address = (int(addresses[lane]) + immediate) & ~ADDRESS_WRAPPED
                    own = cta if address >> SEGMENT_SHIFT == SHARED else -1
                    found.append(Ask(cta, w, lane, pc, (own, address)))
        return found

    def alive(self, cta: int) -> list[tuple[int, int, int]]:
        """Return (warp, live lanes, lanes parked before an ordered access) of the warps that have not ended."""
        return [
            (w, int(warp["alive"]), int(warp["asks"]) if warp["waits"] == layout.SCRIPTED else 0)
            for w, warp in enumerate(self.machines[cta].warps)
            if warp["alive"]
        ]

    def elsewhere(self, cta: int, warp: int) -> list[int]:
        machine = self.machines[cta]
        asks = int(machine.warps[warp]["asks"])
        entries = self.stacks(machine, warp, 0, int(machine.warps[warp]["depth"]))
        return [resume for _, resume, mask in entries if mask & ~asks]

    def snapshot(self, cta: int, warp: int) -> Snapshot:
        machine = self.machines[cta]
        one = machine.warps[warp]
        entries = [self.stacks(machine, warp, 0, int(one["depth"])), self.stacks(machine, warp, 1, 0)]
        if one["parked"]:
            entries[1] = self.stacks(machine, warp, 1, int(one["parked_count"]))
        running = int(one["mask"]) & int(one["alive"])
        served = int(one["served"]) & running if int(one["waits"]) == layout.SCRIPTED else 0
        at = int(one["pc"])
        groups, rest = dict[int, int](), int(one["alive"])
        for pc, lanes in ((at + 1, served), (at, running & ~served), *self._stopped_lanes(entries)):
            if lanes & rest:
                groups[pc] = groups.get(pc, 0) | lanes & rest
            rest &= ~lanes
        return Snapshot(machine.registers[warp].copy(), groups, machine.shared.reshape(2, -1)[0].copy())

    def waiting_warps(self, cta: int) -> list[tuple[int, int]]:
        machine = self.machines[cta]
        found = []
        for w, warp in enumerate(machine.warps):
            if not warp["alive"] or warp["waits"] == layout.SCRIPTED:
                continue
            parked = self.stacks(machine, w, 1, int(warp["parked_count"])) if warp["parked"] else []
            whole = 0 <= warp["waits"] < layout.BARRIERS or not parked
            found.append((w, int(warp["wait_pc"]) if whole else parked[0][1] - 1))
        return found

    def operand(self, ask: Ask) -> int:
        fields = self.program.code[ask.pc]
        size = SIZE[ATOMIC_NAMES[NAMES[int(fields[0])]][1]]
        row = int(fields[4]) + ask.lane * size
        return int.from_bytes(self.machines[ask.cta].registers[ask.warp, row : row + size].tobytes(), "little")

    def write(self, place: tuple[int, int], value: int, size: int) -> None:
        cta, address = place
        offset, number = address & (1 << SEGMENT_SHIFT) - 1, (address >> SEGMENT_SHIFT) - FIRST_ARRAY
        data = self.machines[cta].shared if cta >= 0 else self.bound.segments[number][0]
        data[offset : offset + size] = np.frombuffer(value.to_bytes(size, "little"), np.uint8)

    def state_bytes(self) -> int:
        arrays = sum(data.nbytes for data, writable in self.bound.segments if writable)
        return int(arrays) + sum(int(table.nbytes) for _, table in self.fresh[0])

    def history(self, cta: int) -> bytes:
        return self.histories[cta]

    def suspects(self) -> Any:
        from wsemu.machine.memory.shadow_planes import merge_suspects

        return merge_suspects([machine.planes.suspects() for machine in self.machines if machine.planes])

    def tell_rounds(self, matters: Collection[int]) -> None:
        self.rounds = True
        self.outlasting[:] = False
        self.outlasting[list(matters)] = True

    def executed_instructions(self) -> int:
        return self.bound.settings.budget - self.budget

    # -- saved states
    # ------------------------------------------------------------------------------------------------------
    def _arrays(self, cta: int) -> list[Any]:
        machine = self.machines[cta]
        apart = bool(machine.state[0]["apart"])
        names = [*_KEPT, *(_CLOCKS if apart and not self.asynchronous else _CLOCKS[:-1])]
        kept = [(name, _view_bytes(getattr(machine, name)).copy()) for name in names]
        if not self.asynchronous:
            return kept
        kept += [(name, _view_bytes(getattr(machine, name)).copy()) for name in _OBJECTS]
        agents, rows = self._used(machine)
        return [*kept, ("agents", machine.agents[:agents].copy()), ("phases", machine.phases[:rows].copy())]

    def _used(self, machine: Machine) -> tuple[int, int]:
        """Return the number of a CTA's asynchronous operations, and the used part of the rows of its mbarriers."""
        state = machine.state[0]
        if not state["running"]:
            return 0, 0
        of_one = len(machine.phases) // len(machine.mbarriers)
        return int(state["agent_next"] - state["base"] - 1), int(state["mbarrier_count"]) * of_one

    def save(self, cta: int) -> Any:
        return self._arrays(cta), self.histories[cta], self.found[cta]

    def load(self, cta: int, saved: Any) -> None:
        self._put_back(cta, saved[0])
        self.histories[cta], self.found[cta] = saved[1:]

    def _put_back(self, cta: int, tables: list[Any]) -> None:
        machine = self.machines[cta]
        if self.asynchronous:
            agents, rows = self._used(machine)
            machine.agents[:agents] = 0
            machine.phases[:rows] = 0
        for name, kept in tables:
            if name in ("agents", "phases"):
                getattr(machine, name)[: len(kept)] = kept
            else:
                _view_bytes(getattr(machine, name))[...] = kept

    def save_memory(self) -> Any:
        stored = [data.copy() if writable else data for data, writable in self.bound.segments]
        return stored, [kept.copy() for kept in self.maps]

    def load_memory(self, saved: Any) -> None:
        for (data, writable), kept in zip(self.bound.segments, saved[0], strict=True):
            if writable:
                data[:] = kept
        for own, kept in zip(self.maps, saved[1], strict=True):
            own[:] = kept

    def value(self, place: tuple[int, int], memory: Any) -> bytes:
        return bytes_around(place, memory)

    def digest_memory(self) -> bytes:
        hashed = hashlib.blake2b(digest_size=16)
        apart = self.named.places if self.named else {}
        for number, (data, writable) in enumerate(self.bound.segments):
            if writable and number not in apart:
                hashed.update(data.tobytes())
        for kept in self.maps:
            hashed.update(kept.tobytes())
        return hashed.digest()

    def digest(self, cta: int) -> bytes:
        machine = self.machines[cta]
        hashed = hashlib.blake2b(digest_size=16)
        for number, by_cta in self.named.places.items() if self.named else ():
            hashed.update(self.bound.segments[number][0][by_cta[cta]].tobytes())
        alive = False
        for w, warp in enumerate(machine.warps):
            if not warp["alive"]:
                hashed.update(b"-")
                continue
            alive = True
            self._digest_warp(hashed, machine, w, warp)
        if alive:
            hashed.update(self._live_shared_bytes(machine.shared))
            self._digest_barriers(hashed, machine)
            for number, barrier in enumerate(machine.barriers):
                if barrier["arrived"]:
                    fields = ("expected", "arrived", "syncs", "forms", "reduces", "popc", "every", "some", "warps")
                    hashed.update(repr((number, [int(barrier[name]) for name in fields])).encode())
            if self.asynchronous:
                self._digest_objects(hashed, cta)
        return hashed.digest()

    def _live_shared_bytes(self, shared: Any) -> bytes:
        """Return the bytes of shared memory that may be read before they are written again."""
        if not (self.asynchronous or self.rounds):
            return bytes(shared.tobytes())
        values, written = shared.reshape(2, -1)
        return bytes(values[self.outlasting].tobytes() + written[self.outlasting].tobytes())

    def _digest_objects(self, hashed: Any, cta: int) -> None:
        """Hash the state that determines how asynchronous operations proceed and are judged."""
        machine = self.machines[cta]
        state = machine.state[0]
        live = machine.mbarriers[: int(state["mbarrier_count"])]
        told = [[int(one[name]) for name in _OF_PHASE] for one in live]
        if self.rounds:
            phase = _OF_PHASE.index("phase")
            told = [[*row[:phase], row[phase] & 1, *row[phase + 1 :]] for row in told]
            hashed.update(repr((told, int(state["pool"]), self._open_groups(machine))).encode())
            return
        hashed.update(repr((told, int(state["pool"]), self._used(machine))).encode())
        hashed.update(machine.groups.tobytes() + self.histories[cta])

    def _open_groups(self, machine: Machine) -> list[list[int]]:
        """Return the copies that each thread has not waited for yet, counted from the first of them."""
        tables = [machine.groups[name].ravel() for name in ("first", "read", "last", "since")]
        used = np.flatnonzero((tables[0] != 0) | (tables[1] != 0))
        rows = np.stack([table[used] for table in tables], 1).tolist()
        return [
            [at, *(max(one - (row[0] or row[1]) + 1, 0) for one in row)]
            for at, row in zip(used.tolist(), rows, strict=True)
        ]

    def _digest_warp(self, hashed: Any, machine: Machine, w: int, warp: Any) -> None:
        depth, parked = int(warp["depth"]), int(warp["parked_count"]) if warp["parked"] else 0
        entries = [self.stacks(machine, w, 0, depth), self.stacks(machine, w, 1, parked)]
        names = ("mask", "alive", "waits", "wait_pc", "wait_mask", "parked", "midway", "served", "asks")
        waits = 0 <= int(warp["waits"]) < layout.BARRIERS
        pc = int(warp["pc"])
        state = [int(warp[name]) for name in names if waits or not name.startswith("wait_")]
        hashed.update(repr((w, pc, state, entries)).encode())
        rest = int(warp["alive"])
        running = int(warp["mask"]) & rest
        served = int(warp["served"]) & running if int(warp["waits"]) == layout.SCRIPTED else 0
        for at, lanes in ((pc + 1, served), (pc, running & ~served), *self._stopped_lanes(entries)):
            self._digest_lanes(hashed, machine.registers[w], at, lanes & rest)
            rest &= ~lanes
        if machine.state[0]["local_bytes"]:
            room = int(machine.state[0]["local_bytes"])
            start = int(warp["local_host"]) - address_of(machine.local)
            hashed.update(machine.local[start : start + 2 * room].tobytes())

    def _digest_barriers(self, hashed: Any, machine: Machine) -> None:
        """Hash the warps' clocks of barrier operations, which show whether a barrier is reused too early."""
        if self.asynchronous:  # the history contains it
            return
        if machine.state[0]["by_lanes"]:  # clocks of lanes make every state distinct
            self.parted += 1
            hashed.update(b"parted %d" % self.parted)
        count, size = machine.warp_count, layout.BARRIERS
        used = [b for b in range(size) if machine.barriers["arrived"][b] or machine.barriers["generation"][b]]
        if not used:
            return
        opened = [count + 1 + b for b in used if machine.barriers["arrived"][b]]
        alive = np.flatnonzero(machine.warps["alive"])
        rows = np.concatenate([machine.warp_clocks[alive, :count], machine.clocks[[count, *opened], :count]])
        start, room = address_of(machine.clocks), machine.clocks.strides[0]
        for b in used:
            hashed.update(b"%d %d" % (b, machine.barriers["all_met"][b]))
            for name in ("took", "took_before"):  # each generation exchanges the two rows
                took = machine.clocks[(int(machine.barriers[name][b]) - start) // room, :count]
                hashed.update(np.packbits(rows >= took).tobytes())

    def _stopped_lanes(self, entries: list[list[tuple[int, int, int]]]) -> Iterator[tuple[int, int]]:
        """Yield (instruction, lanes) for the lanes that do not run.  Parked lanes have not read their operands yet; the
        positions of other lanes are in their topmost stack entries."""
        for _, resume, mask in entries[1]:
            yield resume - 1, mask
        for _, resume, mask in reversed(entries[0]):
            yield resume, mask

    def _digest_lanes(self, hashed: Any, block: Any, pc: int, lanes: int) -> None:
        """Hash the registers of lanes that are live at an instruction."""
        live = self.named.live if self.named else self.live
        if not lanes or pc >= len(live):
            return
        key = live[pc], pc, lanes
        found = self.live_places.get(key)
        if found is None:
            if len(self.live_places) >= MOST_LIVE_PLACES:
                self.live_places.clear()
            found = self.live_places[key] = self._live_bytes(*key)
        places, masks = found
        hashed.update((block[places] & masks).tobytes())
        hashed.update(b"%d %d" % (pc, lanes))

    def _live_bytes(self, live: frozenset[int], pc: int, lanes: int) -> tuple[Any, Any]:
        """Return where the live bytes of some lanes are in the registers of their warp, and which bits of each are
        live."""
        masks = self.bits[pc]
        chosen = np.array([lane for lane in range(LANES) if lanes >> lane & 1])
        places, bits = [np.zeros(0, np.int64)], [np.zeros(0, np.uint8)]
        for row in sorted(live):
            size = self.widths.get(row)
            if size is None:
                found, mask = np.arange(row, row + ROW), np.full(ROW, 255, np.uint8)
            elif size == 0:
                found, mask = np.arange(row, row + 4), np.frombuffer(lanes.to_bytes(4, "little"), np.uint8)
            else:
                found = (row + size * chosen[:, None] + np.arange(size)).ravel()
                own = masks.get(row, -1).to_bytes(8, "little", signed=row not in masks)[:size]
                mask = np.tile(np.frombuffer(own, np.uint8), len(chosen))
            places.append(found)
            bits.append(mask)
        return np.concatenate(places), np.concatenate(bits)

    def stacks(self, machine: Machine, w: int, which: int, count: int) -> list[tuple[int, int, int]]:
        """Return (join, next instruction, lanes) of the entries of a stack."""
        return [(int(e["join"]), int(e["resume"]), int(e["mask"])) for e in machine.stacks[w, which, :count]]
