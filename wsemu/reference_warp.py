"""One warp of the reference interpreter: control flow, arithmetic, and how its lanes come to a barrier."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.bytecode import LANES, NAMES, OPERATIONS, TURN
from wsemu.outcome import EventKind, RawFinding
from wsemu.reference_barriers import StopError, count_warp, warp_exits
from wsemu.reference_lanes import exchange
from wsemu.reference_memory import atomic, load, store
from wsemu.reference_operations import semantics
from wsemu.reference_state import Group, Region, Warp, lanes_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.reference import Cta


class WarpRun:
    """Runs one warp until it waits or ends, or its turn is over."""

    def __init__(self, cta: Cta, warp: Warp) -> None:
        self.cta = cta
        self.warp = warp
        self.launch = cta.launch
        self.group = warp.ready[-1]

    def run(self) -> None:
        warp, turn = self.warp, TURN
        while warp.ready:
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
                if warp.ready:
                    turn -= self.launch.lengths[warp.ready[-1].pc]
                    if turn < 0:
                        return
            elif operation.kind == "barrier":
                self._barrier(name, fields, lanes)
            else:
                if lanes:
                    _EXECUTE[operation.kind](self, name, fields, lanes)
                group.pc += 1

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
        warp.alive &= ~lanes
        self.launch.watch.order.remain((self.cta.number, warp.number), warp.alive)
        group.lanes &= ~lanes
        group.pc += 1
        if not group.lanes:
            warp.ready.pop()
            self._close(group.region)
        if not warp.alive:
            warp_exits(self.cta, warp, warp.last_pc)
        elif not warp.ready:
            self._gathered()

    def _trap(self, fields: list[int], lanes: int) -> None:
        raise StopError("trap", self.group.pc, self.warp.number)

    # -- barriers -------------------------------------------------------------------------------------------------
    def _barrier(self, name: str, fields: list[int], lanes: int) -> None:
        """Lanes at a barrier: aligned forms count the warp at once, the others wait for the warp's other live lanes."""
        group, warp = self.group, self.warp
        pc = group.pc
        group.pc += 1
        if not lanes:
            return
        if lanes != group.lanes:  # a guarded barrier: the other lanes go on
            warp.ready.insert(-1, Group(group.pc, group.lanes & ~lanes, group.region))
            group.lanes = lanes
        warp.ready.pop()
        warp.parked.append(group)
        if warp.waits >= 0 and name != "bar.arrive":  # B12: other lanes of the warp wait at a barrier
            self._diverged(pc, lanes, fatal=True)
        if fields[7] or lanes == warp.alive:
            if lanes != warp.alive:
                self._diverged(pc, lanes, fatal=False)
            count_warp(self, name, fields, pc, group)
        elif not warp.ready:
            self._gathered()

    def _diverged(self, pc: int, lanes: int, fatal: bool) -> None:
        warp = self.warp
        number = self.read(self.launch.code[pc][3], "b32", next(lanes_of(lanes)))
        other = warp.parked[0].pc - 1 if fatal else -1
        self.launch.report(
            RawFinding(
                "barrier-divergence", pc, self.cta.number, warp.number, lanes, other, warp.number if fatal else -1,
                {"barrier": number, "alive": warp.alive, "members": 0},
            )
        )  # fmt: skip
        if fatal:
            raise StopError("fault", pc, warp.number)

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
        count_warp(self, NAMES[fields[0]], fields, pc, last)


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
