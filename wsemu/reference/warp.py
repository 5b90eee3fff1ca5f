"""One warp of the reference interpreter: control flow, arithmetic, and how its lanes come to a barrier."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.control_flow import TURN
from wsemu.model.isa import LANES, NAMES, OPERATIONS
from wsemu.model.outcome import EventKind, RawFinding
from wsemu.reference.arithmetic import semantics
from wsemu.reference.memory.bounds import atomic, load, store
from wsemu.reference.state import Group, Region, Warp, lanes_of
from wsemu.reference.sync.named_barrier import StopError, check_operands, count_warp, operands, warp_exits
from wsemu.reference.warp_operations import exchange

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.reference.run import Cta


class WarpRun:
    """Runs one warp until it waits or ends, or its turn is over."""

    def __init__(self, cta: Cta, warp: Warp) -> None:
        self.cta = cta
        self.warp = warp
        self.launch = cta.launch
        self.group = warp.ready[-1]

    def run(self) -> None:
        turn = TURN
        while self.warp.ready:
            turn -= self.step()
            if turn < 0:
                return

    def step(self) -> int:
        """Execute one instruction; returns the length of the stretch that begins there, where control changed."""
        warp = self.warp
        self.group = group = warp.ready[-1]
        fields = self.launch.code[group.pc]
        name = NAMES[fields[0]]
        warp.last_pc = group.pc
        self.launch.step(group.pc, group.lanes)
        operation = OPERATIONS[name]
        lanes = group.lanes
        if fields[1]:
            holds = warp.predicates.get(fields[1] >> 1, 0)
            lanes &= ~holds if fields[1] & 1 else holds
        if operation.kind == "control":
            getattr(self, f"_{name}")(fields, lanes)
            if not warp.ready:
                self._gathered()
            return self.launch.lengths[warp.ready[-1].pc] if warp.ready else 0
        if operation.kind == "barrier":
            self._barrier(name, fields, lanes)
            return 0
        if lanes:
            _EXECUTE[operation.kind](self, name, fields, lanes)
        group.pc += 1
        return 0

    # -- registers ------------------------------------------------------------------------------------------------
    def read(self, row: int, type_: str, lane: int) -> int:
        """One lane of a register or predicate; a register that nobody wrote holds 0."""
        if type_ == "p":
            return bool(self.warp.predicates.get(row, 0) >> lane & 1)
        values = self.warp.registers.get(row)
        return values[lane] if values else 0

    def write(self, row: int, type_: str, lane: int, value: int) -> None:
        if type_ == "p":
            bit = 1 << lane
            old = self.warp.predicates.get(row, 0)
            self.warp.predicates[row] = old | bit if value else old & ~bit
        else:
            self.warp.registers.setdefault(row, [0] * LANES)[lane] = value

    # -- control --------------------------------------------------------------------------------------------------
    def _bra(self, fields: list[int], taken: int) -> None:
        group = self.group
        target, join = fields[6], fields[5]
        onward = group.lanes & ~taken
        if not taken:
            group.pc += 1
        elif not onward:
            group.pc = target
        else:
            self.warp.ready.pop()
            if join >= 0 and (group.region is None or group.region.join != join):
                group.region = Region(join, group.lanes, group.region)
            for pc, lanes in ((target, taken), (group.pc + 1, onward)):  # the last one pushed runs first
                if pc == join and group.region is not None:
                    group.region.waiting |= lanes
                else:
                    self.warp.ready.append(Group(pc, lanes, group.region))

    def _jump(self, fields: list[int], lanes: int) -> None:
        self.group.pc = fields[6]

    def _join(self, fields: list[int], lanes: int) -> None:
        region = self.group.region
        if region is None or region.join != self.group.pc:
            self.group.pc += 1
            return
        self.warp.ready.pop()
        region.waiting |= lanes
        self._close(region)

    def _close(self, region: Region | None) -> None:
        """Go on behind the join when nobody is missing; a region whose lanes have all exited is over as well."""
        warp = self.warp
        while region is not None and region.waiting & warp.alive == region.lanes & warp.alive:
            if region.waiting & warp.alive:
                warp.ready.append(Group(region.join + 1, region.waiting & warp.alive, region.outer))
                return
            region = region.outer

    def _exit(self, fields: list[int], lanes: int) -> None:
        warp, group = self.warp, self.group
        if fields[7] and lanes:
            self.cta.finding("failed-assertion", group.pc, warp.number, lanes)
        warp.alive &= ~lanes
        group.lanes &= ~lanes
        group.pc += 1
        if not group.lanes:
            warp.ready.pop()
            self._close(group.region)
        if not warp.alive:
            warp_exits(self.cta, warp, warp.last_pc)

    def _trap(self, fields: list[int], lanes: int) -> None:
        raise StopError("trap", self.group.pc, self.warp.number)

    # -- barriers -------------------------------------------------------------------------------------------------
    def _barrier(self, name: str, fields: list[int], lanes: int) -> None:
        """Lanes at a barrier: an arrive counts the warp and goes on, an aligned form counts it and waits, the others
        wait for the warp's other live lanes first."""
        group, warp = self.group, self.warp
        pc = group.pc
        group.pc += 1
        if not lanes:
            return
        check_operands(self, fields, pc, lanes)
        if name == "bar.arrive":
            self._count(name, fields, pc, lanes)
            return
        if lanes != group.lanes:  # a guarded barrier: the other lanes go on
            warp.ready.insert(-1, Group(group.pc, group.lanes & ~lanes, group.region))
            group.lanes = lanes
        if warp.parked:
            self._compare_parked(fields, pc, lanes)
        warp.ready.pop()
        warp.parked.append(group)
        if fields[7] or lanes == warp.alive:
            self._count(name, fields, pc, lanes)
        elif not warp.ready:
            self._gathered()

    def _count(self, name: str, fields: list[int], pc: int, lanes: int) -> None:
        if fields[7] and lanes != self.warp.alive:  # B12; the hardware counts the warp as in B3
            self._diverged(pc, lanes)
        count_warp(self, name, fields, pc, lanes)

    def _compare_parked(self, fields: list[int], pc: int, lanes: int) -> None:
        """Lanes of one warp can wait for one barrier only, all in the unaligned form (B12)."""
        warp, first = self.warp, self.warp.parked[0]
        other = self.launch.code[first.pc - 1]
        same = fields[0] == other[0] and operands(self, fields, lanes) == operands(self, other, first.lanes)
        if warp.waits >= 0 or fields[7] or not same:
            self._diverged(pc, lanes, first.pc - 1)
            raise StopError("fault", pc, warp.number)

    def _diverged(self, pc: int, lanes: int, other_pc: int = -1) -> None:
        """Report lanes at a barrier, while others of their warp may be at the one at `other_pc`."""
        warp = self.warp
        number, _ = operands(self, self.launch.code[pc], lanes)
        self.launch.report(
            RawFinding(
                "barrier-divergence", pc, self.cta.number, warp.number, lanes,
                other_pc, warp.number if other_pc >= 0 else -1,
                {"barrier": number, "alive": warp.alive, "members": 0},
            )
        )  # fmt: skip

    def _gathered(self) -> None:
        """No lanes can run: those parked at an unaligned barrier are counted if they are all there are."""
        warp = self.warp
        if not warp.parked or warp.waits >= 0:
            return
        parked = 0
        for group in warp.parked:
            parked |= group.lanes
        last = warp.parked[-1]
        pc = last.pc - 1
        if parked != warp.alive:  # the others wait at a join for these
            raise StopError("parking", pc, warp.number)
        fields = self.launch.code[pc]
        count_warp(self, NAMES[fields[0]], fields, pc, last.lanes)


def alu(run: WarpRun, name: str, fields: list[int], lanes: int) -> None:
    operation = OPERATIONS[name]
    meaning = semantics[name]
    sources = list(zip(fields[3:7], operation.operands, strict=False))
    for lane in lanes_of(lanes):
        run.write(fields[2], operation.result, lane, meaning(*(run.read(row, t, lane) for row, t in sources)))


_FENCES: dict[str, EventKind] = {"fence.cta": "fence.cta", "fence.gpu": "fence.gpu", "fence.sys": "fence.sys"}


def fence(run: WarpRun, name: str, fields: list[int], lanes: int) -> None:
    """Orders memory for the checkers; the reference has one order anyway."""
    if name in _FENCES:
        run.launch.watch.happen(_FENCES[name], run.cta.number, run.warp.number, run.group.pc, lanes)


_EXECUTE: dict[str, Callable[[WarpRun, str, list[int], int], None]] = {
    "alu": alu,
    "load": load,
    "store": store,
    "atomic": atomic,
    "warp": exchange,
    "fence": fence,
}
