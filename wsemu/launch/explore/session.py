"""A launch on the VM whose CTAs are alive at once, and stop before each ordered access until one is let go.

Each CTA is a machine of its own over the same arrays.  What a CTA does between two ordered accesses is one run of it:
so a state of the launch is one in which every warp has ended, waits for others, or stands before an ordered access.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from wsemu.machine import state as layout
from wsemu.machine.run import Machine, Watch, _event
from wsemu.machine.state import address_of
from wsemu.model.isa import ADDRESS_WRAPPED, FIRST_ARRAY, LANES, NAMES, ROW, SEGMENT_SHIFT, SHARED, SIZE
from wsemu.model.isa import ATOMICS as ATOMIC_NAMES
from wsemu.proof.liveness import lane_bytes, live_rows
from wsemu.proof.threads import Made

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.model.bound import Bound
    from wsemu.model.outcome import RawFinding
    from wsemu.proof.names import Named

EVENTS = 1 << 14
"""that a CTA may make between two ordered accesses"""


MOST_INSTRUCTIONS = 1 << 22
"""of a CTA between two ordered accesses"""


class Ask(NamedTuple):
    """A lane that stands before an ordered access."""

    cta: int
    warp: int
    lane: int
    pc: int
    place: tuple[int, int]
    """(CTA of shared memory or -1, address)"""


class Moved(NamedTuple):
    """What a CTA did until it stood still again."""

    made: list[Made]
    findings: list[RawFinding]
    status: str
    """`stands`, `done`, or why it cannot go on: `budget`, `fault`, `trap`, `stack`, `events`"""


class Session(Protocol):
    """A launch that can be stopped before each ordered access, gone on with in any order, and put back."""

    ctas: int
    named: Named | None
    """stores to places that belong to CTAs by their numbers, where these do not tell CTAs apart"""

    def start(self) -> list[Moved]:
        """Begin anew: every CTA runs to its first ordered accesses, in order."""

    def go(self, ask: Ask) -> Moved:
        """Let a lane make its access, and its CTA go on."""

    def asks(self, cta: int) -> list[Ask]:
        """The lanes of a CTA that stand before ordered accesses."""

    def save(self, cta: int) -> Any:
        """A CTA as it is."""

    def load(self, cta: int, saved: Any) -> None:
        """Put a CTA back."""

    def save_memory(self) -> Any:
        """The arrays as they are."""

    def load_memory(self, saved: Any) -> None:
        """Put them back."""

    def value(self, place: tuple[int, int], memory: Any) -> bytes:
        """What stands at a place of an array, of saved arrays."""

    def digest(self, cta: int) -> bytes:
        """What of a CTA decides what it will do."""

    def digest_memory(self) -> bytes:
        """The same of the arrays."""

    def alive(self, cta: int) -> list[tuple[int, int, int]]:
        """(warp, lanes alive, lanes that stand before an ordered access) of the warps that have not ended."""

    def elsewhere(self, cta: int, warp: int) -> list[int]:
        """Where lanes of a warp would go on that wait for others to meet them."""

    def operand(self, ask: Ask) -> int:
        """What an integer atomic that stands adds, or combines with."""

    def write(self, place: tuple[int, int], value: int, size: int) -> None:
        """Let something else stand at a place."""

    def executed(self) -> int:
        """Warp instructions so far."""

    def close(self) -> None:
        """Give memory back."""


def value_at(place: tuple[int, int], memory: Any) -> bytes:
    """The 8 bytes around a place of an array; nothing where there is none."""
    number, offset = (place[1] >> SEGMENT_SHIFT) - FIRST_ARRAY, place[1] & (1 << SEGMENT_SHIFT) - 1 & ~7
    return bytes(memory[0][number][offset : offset + 8]) if 0 <= number < len(memory[0]) else b""


_KEPT = ("state", "registers", "warps", "ctas", "barriers", "stacks", "shared", "local", "segments")
_CLOCKS = ("clocks", "warp_clocks", "lane_clocks", "leaders", "bases", "known")


class VmSession:
    """The same on the VM."""

    def __init__(self, bound: Bound, ordered: frozenset[int], logged: frozenset[int]) -> None:
        """`ordered` are the instructions that wait, `logged` those whose executions are wanted."""
        configuration, chosen = bound.configuration, bound.settings
        grid = configuration.grid
        self.bound, self.program = bound, bound.program
        self.ctas = grid[0] * grid[1] * grid[2]
        self.named: Named | None = None
        self.live, self.widths = live_rows(bound.program), lane_bytes(bound.program)
        self.initial = [data.copy() for data, _ in bound.segments]
        self.budget, self.patience = chosen.budget, min(chosen.budget, MOST_INSTRUCTIONS)
        watch = Watch(
            races=False, initialised="initialised" in chosen.checkers, lockstep=chosen.lockstep, read_only=False,
            uninitialized=bound.uninitialized, ordered=ordered,
        )  # fmt: skip
        options = configuration.dynamic_shared, watch, configuration.arch, 1
        self.machines = [
            Machine(bound.program, grid, configuration.block, bound.rows, bound.segments, *options)
            for _ in range(self.ctas)
        ]
        self.pcs = np.zeros(len(bound.program.code) + 1, np.uint8)
        self.pcs[list(logged)] = 1
        self.events = np.zeros(EVENTS, layout.EVENT)
        self.addresses = np.empty(LANES * EVENTS, np.int64)
        self.maps = [np.zeros(len(kept), np.uint8) for kept in self.machines[0].maps]
        for machine in self.machines:
            self._share(machine)
        self.parted = 0
        """states in which parts of warps had met barriers"""
        self.fresh = [self._arrays(cta) for cta in range(self.ctas)]

    def _share(self, machine: Machine) -> None:
        """Let a machine log into our tables, and know what others have written."""
        state = machine.state[0]
        state["trace"], state["trace_room"], state["trace_pcs"] = address_of(self.events), EVENTS, address_of(self.pcs)
        state["trace_addresses"] = address_of(self.addresses)
        number = 0
        for segment in machine.segments[FIRST_ARRAY:]:
            if segment["initialised"]:
                segment["initialised"] = address_of(self.maps[number])
                number += 1

    def close(self) -> None:
        """Give memory back."""
        for machine in self.machines:
            machine.close()

    # -- moving -------------------------------------------------------------------------------------------------------
    def start(self) -> list[Moved]:
        self.load_memory(([data.copy() for data in self.initial], [np.zeros_like(kept) for kept in self.maps]))
        moved = []
        for cta, machine in enumerate(self.machines):
            self.load(cta, self.fresh[cta])
            state = machine.state[0]
            state["group"], state["group_end"], state["group_step"], state["group_first"] = cta, cta + 1, 1, cta
            moved.append(self._run(cta))
        return moved

    def go(self, ask: Ask) -> Moved:
        machine = self.machines[ask.cta]
        warp, state = machine.warps[ask.warp], machine.state[0]
        warp["waits"] = -1
        state["let_go"], state["next_warp"], state["progress"], state["turn"] = ask.lane + 1, ask.warp, 1, -1
        swaps = self._swaps(ask, machine)
        return self._run(ask.cta, 0 if not swaps else 1 << ask.lane)

    def _swaps(self, ask: Ask, machine: Machine) -> bool:
        """Whether what is asked is a `cas` that will leave memory alone."""
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
        self.budget = max(self.budget - most + int(state["budget"]), 0)
        findings = [machine._finding(raw) for raw in machine.raw[: int(state["raw_count"])]]
        word = {layout.DONE: "done", layout.DEADLOCK: "stands"}.get(status, "budget")
        if status in (layout.FAULT, layout.TRAP, layout.STACK_OVERFLOW):
            word = {layout.FAULT: "fault", layout.TRAP: "trap", layout.STACK_OVERFLOW: "stack"}[status]
        if int(state["trace_count"]) > EVENTS:
            word = "events"
        return Moved(self._made(state, unwritten), findings, word)

    def _made(self, state: Any, unwritten: int) -> list[Made]:
        count = min(int(state["trace_count"]), EVENTS)
        rows = self.events[:count].view(np.int64).reshape(-1, self.events.itemsize // 8).tolist()
        made = []
        for kind, *rest in rows:
            event = _event(layout.EVENT_KINDS[kind], *rest)
            if event.kind != "access":
                made.append(Made(event))
                continue
            lanes = [lane for lane in range(LANES) if event.lanes >> lane & 1]
            places = self.addresses[event.addresses : event.addresses + len(lanes)].tolist()
            made.append(Made(event, tuple(zip(lanes, places, strict=True)), ~unwritten))
            unwritten = 0  # the first access is the one that was let go
        return made

    # -- looking ------------------------------------------------------------------------------------------------------
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
        """(warp, lanes alive, lanes that stand before an ordered access) of the warps that have not ended."""
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

    def executed(self) -> int:
        return self.bound.settings.budget - self.budget

    # -- keeping ------------------------------------------------------------------------------------------------------
    def _arrays(self, cta: int) -> list[Any]:
        machine = self.machines[cta]
        apart = bool(machine.state[0]["apart"])
        names = [*_KEPT, *(_CLOCKS if apart else _CLOCKS[:-1])]
        return [(name, getattr(machine, name).copy()) for name in names]

    def save(self, cta: int) -> Any:
        return self._arrays(cta)

    def load(self, cta: int, saved: Any) -> None:
        machine = self.machines[cta]
        for name, kept in saved:
            getattr(machine, name)[...] = kept

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
        return value_at(place, memory)

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
            hashed.update(machine.shared.tobytes())
            self._digest_barriers(hashed, machine)
            for number, barrier in enumerate(machine.barriers):
                if barrier["arrived"]:
                    fields = ("expected", "arrived", "syncs", "forms", "reduces", "popc", "every", "some", "warps")
                    hashed.update(repr((number, [int(barrier[name]) for name in fields])).encode())
        return hashed.digest()

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
        for at, lanes in ((pc + 1, served), (pc, running & ~served), *self._elsewhere(entries)):
            self._digest_lanes(hashed, machine.registers[w], at, lanes & rest)
            rest &= ~lanes
        if machine.state[0]["local_bytes"]:
            room = int(machine.state[0]["local_bytes"])
            start = int(warp["local_host"]) - address_of(machine.local)
            hashed.update(machine.local[start : start + 2 * room].tobytes())

    def _digest_barriers(self, hashed: Any, machine: Machine) -> None:
        """Who knows of which operations of barriers: so it is judged whether one is used again too early."""
        if machine.state[0]["by_lanes"]:  # no two are held for one state
            self.parted += 1
            hashed.update(b"parted %d" % self.parted)
        count, size = machine.warp_count, layout.BARRIERS
        used = [b for b in range(size) if machine.barriers["arrived"][b] or machine.barriers["generation"][b]]
        if not used:
            return
        opened = [count + 1 + b for b in used if machine.barriers["arrived"][b]]
        alive = np.flatnonzero(machine.warps["alive"])
        rows = np.concatenate([machine.warp_clocks[alive, :count], machine.clocks[[count, *opened], :count]])
        for b in used:
            for first in (1, 3):  # of the open generation, of the one before
                took = machine.clocks[count + 1 + first * size + b, :count]
                hashed.update(b"%d %d" % (b, first) + np.packbits(rows >= took).tobytes())

    def _elsewhere(self, entries: list[list[tuple[int, int, int]]]) -> Iterator[tuple[int, int]]:
        """(instruction, lanes) of those that do not run: what stands somewhere has yet to read its operands; the
        topmost entry of the others tells where a lane goes on."""
        for _, resume, mask in entries[1]:
            yield resume - 1, mask
        for _, resume, mask in reversed(entries[0]):
            yield resume, mask

    def _digest_lanes(self, hashed: Any, block: Any, pc: int, lanes: int) -> None:
        """What lanes hold that still matters to them at an instruction."""
        live = self.named.live if self.named else self.live
        if not lanes or pc >= len(live):
            return
        chosen = np.flatnonzero(np.array([lanes >> lane & 1 for lane in range(LANES)]))
        for row in sorted(live[pc]):
            size = self.widths.get(row)
            if size is None:
                hashed.update(block[row : row + ROW].tobytes())
            elif size == 0:
                hashed.update(b"%d" % (int(block[row : row + 4].view(np.uint32)[0]) & lanes))
            else:
                hashed.update(block[row : row + size * LANES].reshape(LANES, size)[chosen].tobytes())
        hashed.update(b"%d %d" % (pc, lanes))

    def stacks(self, machine: Machine, w: int, which: int, count: int) -> list[tuple[int, int, int]]:
        """(join, where lanes go on, lanes) of the entries of a stack."""
        return [(int(e["join"]), int(e["resume"]), int(e["mask"])) for e in machine.stacks[w, which, :count]]
