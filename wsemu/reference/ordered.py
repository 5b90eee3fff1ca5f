"""The reference interpreter for the exploration of interleavings: all CTAs are alive, and each stops before strong
accesses.

Each CTA is a separate launch over the same arrays, so that it can be copied.  The lanes of one instruction perform
their strong accesses one at a time.
"""

from __future__ import annotations

import io
import pickle
from typing import TYPE_CHECKING, Any

from wsemu.model.isa import NAMES
from wsemu.model.outcome import Trace
from wsemu.proof.liveness import live_bits
from wsemu.reference.agents.copy import report_outliving
from wsemu.reference.memory.bounds import atomic
from wsemu.reference.run import BudgetError, Cta, CtaGroup, Launch
from wsemu.reference.state import Group, Region, Warp, chain
from wsemu.reference.sync.named_barrier import StopError
from wsemu.reference.warp import WarpRun

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.model.outcome import RawFinding

    Look = Callable[["OrderedWarp", int], Callable[[], None] | None]
    """called before an instruction with the lanes that execute it; the function that it returns is called after the
    instruction"""

_KEPT = ("program", "code", "lengths", "arrays", "outcome", "fixed", "grid", "block")
"""attributes of a launch that its copies share"""


class OrderedWarp(WarpRun):
    """Runs a warp up to a strong access, or lets one lane perform the strong access."""

    def __init__(self, cta: OrderedCta, warp: Warp, lane: int = -1) -> None:
        super().__init__(cta, warp)
        self.own, self.lane = cta, lane

    def run(self) -> None:
        """Run until the warp waits, has ended, or is about to perform a strong access."""
        self.resume()
        while self.warp.ready and not self._stops():
            seen = self.own.look(self, -1) if self.own.look else None
            self.step()
            if seen:
                seen()

    def asks(self) -> int:
        """Return the lanes of the running group that are about to perform a strong access."""
        if not self.warp.ready:
            return 0
        group = self.warp.ready[-1]
        if group.pc not in self.own.ordered:
            return 0
        fields, lanes = self.launch.code[group.pc], group.lanes
        if fields[1]:
            holds = self.warp.predicates.get(fields[1] >> 1, 0)
            lanes &= ~holds if fields[1] & 1 else holds
        return lanes & ~self.own.served.get(self.warp.number, 0)

    def _stops(self) -> bool:
        """Return whether the warp stops before this instruction; perform the access of a lane that was released."""
        lanes = self.asks()
        if not lanes:
            return False
        if self.lane < 0:
            return True
        self.group = self.warp.ready[-1]
        fields = self.launch.code[self.group.pc]
        seen = self.own.look(self, 1 << self.lane) if self.own.look else None
        atomic(self, NAMES[fields[0]], fields, 1 << self.lane)
        if seen:
            seen()
        rest, self.lane = lanes & ~(1 << self.lane), -1
        served = self.own.served
        served[self.warp.number] = served.get(self.warp.number, 0) | (lanes & ~rest)
        if rest:
            return True
        del served[self.warp.number]
        self.launch.step(self.group.pc, self.group.lanes)
        self.warp.last_pc = self.group.pc
        self.group.pc += 1
        return self._stops()


class OrderedCta(Cta):
    """A CTA that stops before strong accesses."""

    def __init__(self, launch: Launch, number: int, ordered: frozenset[int], look: Look | None = None) -> None:
        super().__init__(CtaGroup(launch, number), number)
        self.group.ctas = [self]
        self.ordered, self.look = ordered, look
        self.served: dict[int, int] = {}
        """warp -> lanes that have performed the access at which the warp is stopped"""

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the observer: a copy is a state to restore, and nothing observes it."""
        return {**vars(self), "look": None}

    def run_until_stuck(self, warp: int = -1, lane: int = -1) -> str:
        """Release a lane of a warp, and run all warps until none can continue.  Return `done`, `stands` (before a
        strong access), or the reason why the run stopped."""
        try:
            if warp >= 0:
                OrderedWarp(self, self.warps[warp], lane).run()
            while any(w.alive for w in self.warps):
                able = False
                for w in self.warps:
                    run = OrderedWarp(self, w)
                    if run.able() and not run.asks():
                        able = True
                        run.run()
                asked = any(OrderedWarp(self, w).asks() for w in self.warps if w.alive)
                if not able and (asked or not self.goes_past_standing()):
                    return "stands"
        except BudgetError:
            return "budget"
        except StopError as stop:
            return stop.status
        self.end()
        if self.launch.program.asynchronous:
            self.group.mbarriers.report_left()
            report_outliving(self.group)
        return "done"


class OrderedRun:
    """All CTAs of a launch."""

    def __init__(self, make: Callable[[], Launch], ordered: frozenset[int]) -> None:
        """Prepare launches for the exploration.  `make` creates a launch; it is called for each CTA."""
        self.make, self.ordered = make, ordered
        first = make()
        self.total = first.grid[0] * first.grid[1] * first.grid[2]
        self.numbers = [*range(self.total)]
        """the number of each CTA in the launch"""
        self.arrays = first.arrays
        self.ctas: list[OrderedCta] = []
        self.look: Look | None = None
        """observer of the accesses in a replayed launch"""
        self.parted = 0
        """number of states in which parts of warps had reached barriers"""

    def start(self) -> None:
        """Create all CTAs again, before their first instruction."""
        self.ctas = []
        for number in self.numbers:
            launch = self.make()
            launch.arrays = self.arrays
            self.ctas.append(OrderedCta(launch, number, self.ordered, self.look))

    def trace(self, cta: int) -> Trace:
        """Return the events of a CTA since the last call."""
        watch = self.ctas[cta].launch.watch
        made = watch.trace
        assert made is not None
        watch._addresses = []
        watch.trace = Trace(addresses=watch._addresses)
        return made

    def findings(self, cta: int) -> list[RawFinding]:
        return [*self.ctas[cta].launch.found.values()]

    def executed_instructions(self) -> int:
        return sum(cta.launch.outcome.warp_instructions for cta in self.ctas)

    def save(self, cta: int) -> Saved:
        """Save the state of a CTA."""
        return Saved(self.ctas[cta])

    def load(self, cta: int, saved: Saved) -> None:
        self.ctas[cta] = saved.restore()

    def asks(self, cta: int) -> list[tuple[int, int, int]]:
        """Return (warp, instruction, lanes) of the lanes that are about to perform strong accesses."""
        own = self.ctas[cta]
        found = ((w, OrderedWarp(own, warp).asks()) for w, warp in enumerate(own.warps) if warp.alive)
        return [(w, own.warps[w].ready[-1].pc, lanes) for w, lanes in found if lanes]

    def elsewhere(self, cta: int, warp: int) -> list[int]:
        """Return the instructions at which lanes of a warp continue that wait at a join or for their turn."""
        own = self.ctas[cta].warps[warp]
        regions = {region.number: region for group in own.ready for region in chain(group.region)}
        waiting = [region.join + 1 for region in regions.values() if region.waiting & own.alive]
        return [*waiting, *(group.pc for group in own.ready[:-1])]

    def lanes_by_instruction(self, cta: int, warp: int) -> dict[int, int]:
        """Return the instruction at which each lane of a warp continues."""
        own = self.ctas[cta]
        one, found = own.warps[warp], dict[int, int]()
        served, rest = own.served.get(warp, 0), one.alive
        regions = [region for group in (*one.ready, *one.parked) for region in chain(group.region)]
        places = [
            *((group.pc, group.lanes & ~served) for group in one.ready),
            *((group.pc + 1, group.lanes & served) for group in one.ready),
            *((group.pc - 1, group.lanes) for group in one.parked),
            *((region.join + 1, region.waiting) for region in regions),
        ]
        for pc, lanes in places:
            if lanes & rest:
                found[pc] = found.get(pc, 0) | lanes & rest
            rest &= ~lanes
        return found

    def state(self, cta: int, live: list[frozenset[int]], bytes_: list[int] | None = None) -> tuple[Any, ...]:
        """Return the state that decides a CTA's further execution.

        `live` has the live rows at each instruction.  `bytes_` selects the state that counts: only these bytes of
        shared memory, and only the parity of phases.
        """
        own = self.ctas[cta]
        if not own.live_warps:
            return ()
        barriers = [
            (b.number, b.expected, b.arrived, sorted(b.forms), b.reduction,
             [(p.warp, p.waits, p.lanes, p.votes, p.voters) for p in b.participants])
            for b in own.barriers if b.arrived
        ]  # fmt: skip
        order, alive = own.launch.watch.order, [w for w in own.warps if w.alive]
        parted, known = 0, list[Any]()
        # observations depend only on performed operations, which are in the state anyway
        if own.launch.program.asynchronous:
            known = [_objects(own, rounds=bytes_ is not None)]
        elif order.has_lane_clocks(cta):  # no two states with clocks for each lane are merged
            self.parted += 1
            parted = self.parted
        else:
            known = [
                [order.before((cta, p.warp, p.interval), (cta, w.number)) for w in alive]
                for b in own.barriers for p in (*b.before, *b.participants)
            ]  # fmt: skip
        shared, bits = (bytes(own.shared.data), bytes(own.shared.written or b"")), live_bits(own.launch.program)
        if bytes_ is not None:
            shared = bytes(shared[0][at] for at in bytes_), bytes(shared[1][at] for at in bytes_ if shared[1])
        return (
            parted,
            known,
            shared,
            barriers,
            [_warp_state(warp, own.served.get(warp.number, 0), live, bits) for warp in own.warps],
        )


class Saved:
    """A saved CTA in packed form, which takes a tenth of the time of a copy; `restore()` returns a new CTA."""

    def __init__(self, cta: OrderedCta) -> None:
        packed = io.BytesIO()
        pickler = pickle.Pickler(packed, pickle.HIGHEST_PROTOCOL)
        pickler.dispatch_table = {Launch: _drop_kept_state}
        pickler.dump(cta)
        self._packed = packed.getbuffer()
        self._kept = {name: getattr(cta.launch, name) for name in _KEPT}

    def __len__(self) -> int:
        return len(self._packed)

    def restore(self) -> OrderedCta:
        cta: OrderedCta = pickle.loads(self._packed)
        vars(cta.launch).update(self._kept)
        return cta


def _drop_kept_state(launch: Launch) -> tuple[Any, ...]:
    state = {name: value for name, value in vars(launch).items() if name not in _KEPT}
    return Launch.__new__, (Launch,), state


def _objects(cta: OrderedCta, *, rounds: bool) -> tuple[Any, ...]:
    """Return the state that decides how asynchronous operations of a CTA continue; with `rounds`, only the parity of
    phases."""
    mbarriers = [
        (b.address, b.phase & 1 if rounds else b.phase, b.pending, b.expected, b.tx)
        for b in cta.mbarriers.live.values()
    ]
    return sorted(mbarriers), vars(cta.registers), [cta.copies, cta.bulk]


def _warp_state(warp: Warp, served: int, live: list[frozenset[int]], bits: list[dict[int, int]]) -> tuple[Any, ...]:
    if not warp.alive:
        return ()
    groups = [_group(warp, group) for group in warp.ready], [_group(warp, group) for group in warp.parked]
    left, rows = warp.alive, []
    made = [(warp.ready[-1].pc + 1, served & warp.ready[-1].lanes)] if served and warp.ready else []
    held = [*made, *((g.pc, g.lanes) for g in reversed(warp.ready)), *((g.pc - 1, g.lanes) for g in warp.parked)]
    regions: list[Region] = []
    for group in (*warp.ready, *warp.parked):
        regions += [region for region in chain(group.region) if region not in regions]
    held += [(region.join + 1, region.waiting) for region in sorted(regions, key=lambda r: -r.number)]
    for pc, lanes in held:
        lanes &= left
        left &= ~lanes
        for row in sorted(live[pc]) if lanes and pc < len(live) else ():
            values = warp.registers.get(row)
            chosen = [values[k] for k in range(32) if lanes >> k & 1] if values else []
            if row in bits[pc]:
                chosen = [value & bits[pc][row] for value in chosen]
            rows.append((row, chosen if any(chosen) else 0, warp.predicates.get(row, 0) & lanes))
    local = bytes(warp.local.data), bytes(warp.local.written or b"")
    return warp.alive, served, warp.waits, groups, rows, local


def _group(warp: Warp, group: Group) -> tuple[Any, ...]:
    earlier = [sum(other.since < region.number for other in warp.ready[:-1]) for region in chain(group.region)]
    return group.pc, group.lanes, earlier, [(r.join, r.lanes, r.waiting) for r in chain(group.region)]
