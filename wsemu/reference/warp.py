"""One warp of the reference interpreter: control flow, arithmetic, and how its lanes reach a barrier."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from wsemu.model.control_flow import TURN
from wsemu.model.isa import ERRORS, LANES, LOCAL_SHIFT, NAMES, OPERATIONS, PROXIES, READ, STOPS
from wsemu.model.outcome import FENCES, EventKind, RawFinding
from wsemu.reference.arithmetic import semantics
from wsemu.reference.asynchronous import STANDING, execute
from wsemu.reference.matrix import multiply
from wsemu.reference.memory.bounds import atomic, load, store
from wsemu.reference.state import Group, Region, Warp, chain, list_lanes
from wsemu.reference.sync import cluster_barrier, mbarrier
from wsemu.reference.sync.named_barrier import (
    ARRIVE,
    StopError,
    TrapError,
    check_operands,
    count_warp,
    operands,
    warp_exits,
)
from wsemu.reference.warp_operations import exchange, names_absent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wsemu.reference.run import Cta

_WIDE = ("warp", "matrix")
"""kinds of operations that all named lanes execute together"""
_UNWRITTEN = (0,) * LANES
ALL_LANES = (1 << LANES) - 1


@functools.lru_cache(maxsize=4096)
def _lane_bools(bits: int) -> tuple[bool, ...]:
    """Return a predicate, lane by lane."""
    return tuple(bool(bits >> lane & 1) for lane in range(LANES))


class WarpRun:
    """Runs one warp until it waits or ends, or its turn is over."""

    def __init__(self, cta: Cta, warp: Warp) -> None:
        self.cta = cta
        self.warp = warp
        self.launch = cta.launch
        self.group = warp.ready[-1] if warp.ready else Group(warp.last_pc, warp.alive, None)
        self.turn = TURN
        """number of instructions left in the warp's turn; it is reduced at the beginning of each stretch of code"""

    def run(self) -> None:
        self.resume()
        while self.warp.ready:
            if self.step() and self.turn < 0:
                return

    def resume(self) -> None:
        """Let the waiting lanes that may continue do so, if no other lanes run."""
        if not self.warp.ready:
            self._release()

    def step(self) -> bool:
        """Execute one instruction; return whether the turn may end, because control changed and a stretch of code
        begins."""
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
        if self.launch.undefined is not None:
            self.launch.undefined.before(self, name, operation, fields, lanes)
        if operation.kind == "control":
            group.midway = False
            getattr(self, f"_{name}")(fields, lanes)
            if not warp.ready:
                self._resolve_parked()
            return self._begin_stretch()
        if operation.kind == "barrier":
            self._barrier(name, fields, lanes)
            return False
        if operation.kind == "async":
            stands = bool(lanes) and execute(self, name, fields, lanes)
            group.pc += 1
            if stands:
                self._park(lanes)
            return False
        if operation.kind in _WIDE and names_absent(self, name, fields, lanes):
            group.pc += 1
            self._park(lanes)
            return False
        if lanes:
            _EXECUTE[operation.kind](self, name, fields, lanes)
        group.pc += 1
        return False

    def _begin_stretch(self) -> bool:
        """Subtract the length of the next stretch of code from the turn; return whether one begins."""
        ready = self.warp.ready
        if not ready or ready[-1].midway:
            return False
        self.turn -= self.launch.lengths[ready[-1].pc]
        return True

    # -- registers ------------------------------------------------------------------------------------------------
    def read(self, row: int, type_: str, lane: int) -> int:
        """Return one lane of a register or predicate; an unwritten register holds 0."""
        if type_ == "p":
            return bool(self.warp.predicates.get(row, 0) >> lane & 1)
        values = self.warp.registers.get(row)
        return values[lane] if values else 0

    def values(self, row: int, type_: str) -> Sequence[int]:
        """Return all lanes of a register or predicate, as `read` does; writes during the iteration may be visible."""
        if type_ == "p":
            return _lane_bools(self.warp.predicates.get(row, 0))
        return self.warp.registers.get(row) or _UNWRITTEN

    def write(self, row: int, type_: str, lane: int, value: int) -> None:
        if type_ == "p":
            bit = 1 << lane
            old = self.warp.predicates.get(row, 0)
            self.warp.predicates[row] = old | bit if value else old & ~bit
        else:
            self.warp.registers.setdefault(row, [0] * LANES)[lane] = value

    def write_lanes(self, row: int, type_: str, lanes: int, values: Sequence[int]) -> None:
        """Write some lanes of a register or predicate; `values` has all 32."""
        if type_ == "p":
            true = sum(1 << lane for lane in list_lanes(lanes) if values[lane])
            self.warp.predicates[row] = self.warp.predicates.get(row, 0) & ~lanes | true
        elif lanes == ALL_LANES:
            self.warp.registers[row] = list(values)
        else:
            held = self.warp.registers.setdefault(row, [0] * LANES)
            for lane in list_lanes(lanes):
                held[lane] = values[lane]

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
                self.warp.regions += 1
                group.region = Region(join, group.lanes, group.region, self.warp.regions)
            # the last group pushed runs first, at least to the join, because one side has to close the region
            for pc, lanes in ((target, taken), (group.pc + 1, onward)):
                if pc == join and group.region is not None and (lanes == onward or group.pc + 1 != join):
                    group.region.waiting |= lanes
                else:
                    self.warp.ready.append(Group(pc, lanes, group.region, since=self.warp.regions))

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
        """If no lane is missing at the join, make its lanes ready.  They run later than lanes that became ready since
        the divergence.  A region whose lanes have all exited is closed as well."""
        warp = self.warp
        while region is not None and region.waiting & warp.alive == region.lanes & warp.alive:
            if region.waiting & warp.alive:
                earlier = sum(group.since < region.number for group in warp.ready)
                group = Group(region.join + 1, region.waiting & warp.alive, region.outer, since=region.number)
                warp.ready.insert(earlier, group)
                return
            region = region.outer

    def _exit(self, fields: list[int], lanes: int) -> None:
        warp, group = self.warp, self.group
        if fields[7] and lanes:
            code = "failed-assertion" if fields[7] & ERRORS else "raised-exception"
            self.cta.finding(code, group.pc, warp.number, lanes)
        warp.alive &= ~lanes
        if lanes and self.launch.program.asynchronous:
            cluster_barrier.exits(self, group.pc)
        group.lanes &= ~lanes
        group.pc += 1
        if not group.lanes:
            warp.ready.pop()
            self._close(group.region)
        if not warp.alive:
            warp_exits(self.cta, warp, warp.last_pc)

    def _trap(self, fields: list[int], lanes: int) -> None:
        if fields[7]:
            self.cta.finding("failed-assertion", self.group.pc, self.warp.number, lanes)
        raise TrapError(self.group.pc, self.warp.number)

    # -- barriers -------------------------------------------------------------------------------------------------
    def _barrier(self, name: str, fields: list[int], lanes: int) -> None:
        """Execute a barrier operation.  A whole warp is counted; part of a warp waits for the other lanes (B14)."""
        group, warp = self.group, self.warp
        pc = group.pc
        group.pc += 1
        if not lanes:
            return
        check_operands(self, fields, pc, lanes)
        if lanes != warp.alive:
            self._park(lanes)
            return
        if name != ARRIVE:
            warp.ready.pop()
            warp.parked.append(group)
            group.midway = True
        self._count(pc, lanes, lanes)

    def _count(self, pc: int, lanes: int, own: int) -> None:
        """Count the warp, whose lanes `own` are at `pc`."""
        fields = self.launch.code[pc]
        if fields[7] and lanes != self.warp.alive:  # B12; the hardware counts the warp as in B3
            self._report_divergence(pc, lanes)
        count_warp(self, pc, lanes, operands(self, fields, own))

    def _park(self, lanes: int) -> None:
        """Park a part of a warp at an operation, while the other lanes run; its group has already advanced past the
        operation."""
        group, warp = self.group, self.warp
        if lanes != group.lanes:  # the operation is guarded: the other lanes continue
            warp.ready.insert(-1, Group(group.pc, group.lanes & ~lanes, group.region, midway=True))
            group.lanes = lanes
        warp.ready.pop()
        warp.parked.append(group)
        group.midway = True
        if not warp.ready:
            self._resolve_parked()
        self._begin_stretch()

    def _resolve_parked(self) -> None:
        """Release parked lanes if no lane can run.  Lanes at warp-wide operations that do not wait for lanes at
        barriers go first.  Then the warp is counted if all its lanes are at barriers.  Otherwise lanes at a barrier and
        other lanes wait for each other, and the warp never continues."""
        warp = self.warp
        if not warp.parked or warp.waits >= 0:
            return
        warp.parked.sort(key=lambda group: group.lanes & -group.lanes)  # in an order that does not depend on arrival
        standing = self._standing_groups()
        if standing and self._release():
            return
        at_barriers = [group for group in warp.parked if self._kind(group) != "warp"]
        unaligned = any(self._kind(group) in ("arrive", "sync") for group in at_barriers)
        if unaligned and not standing and self._continue_past(warp.parked):
            return
        held = self._held_back(at_barriers, self._lagging_lanes(standing))
        free = [group for group in warp.parked if group not in held]
        if free:
            self._exchange_divergent(free)
        elif standing:
            return  # other warps may release these lanes
        elif len(held) == len(at_barriers):
            self._count_all()
        else:
            self._report_mutual_wait(at_barriers)

    # -- waits at other operations ------------------------------------------------------------------------------------
    def _standing_groups(self) -> list[Group]:
        """Return the groups that wait at operations which other warps release, as at an mbarrier."""
        return [group for group in self.warp.parked if self._kind(group) == "stands"]

    def able(self) -> bool:
        """Return whether some lanes of the warp can continue."""
        warp = self.warp
        return bool(warp.ready) or (
            warp.waits < 0 and any(self._may_continue(group) for group in self._standing_groups())
        )

    def _may_continue(self, group: Group) -> bool:
        return STANDING[self.launch.operation_name(group.pc - 1)].may_go(self, group)

    def _release(self) -> bool:
        """Release all groups that may continue, the lowest lanes first."""
        warp = self.warp
        going = [group for group in self._standing_groups() if self._may_continue(group)]
        going.sort(key=lambda group: group.lanes & -group.lanes)
        for group in going:
            self.group = Group(group.pc - 1, group.lanes, group.region)
            STANDING[self.launch.operation_name(group.pc - 1)].go(self, group)
        warp.parked = [group for group in warp.parked if group not in going]
        warp.make_ready(going)
        return bool(going)

    def _lagging_lanes(self, standing: list[Group]) -> int:
        """Return the lanes at a join that wait for some of these waiting groups."""
        lanes = 0
        for group in standing:
            for region in chain(group.region):
                lanes |= region.waiting & self.warp.alive
        return lanes

    def goes_past_standing(self) -> bool:
        """Let lanes at a join that wait for parked ones continue without them, because no warp can run; return whether
        there are any."""
        standing = self._standing_groups()
        return bool(standing) and not self.warp.ready and self._continue_past(standing)

    # -- lanes at barriers and warp-wide operations -------------------------------------------------------------------
    def _held_back(self, at_barriers: list[Group], behind: int = 0) -> list[Group]:
        """Return the groups at barriers, and the groups at warp-wide operations that wait, directly or indirectly, for
        groups at barriers or for the lanes of `behind`, which lag at a join."""
        held = list(at_barriers)
        while True:
            lanes = behind | sum(group.lanes for group in held)
            more = [group for group in self.warp.parked if group not in held and self._members(group) & lanes]
            if not more:
                return held
            held += more

    def _members(self, group: Group) -> int:
        """Return all lanes that the lanes of a group at a warp-wide operation name."""
        row, members = self.launch.code[group.pc - 1][5], 0
        for lane in list_lanes(group.lanes):
            members |= self.read(row, "b32", lane)
        return members

    def _report_mutual_wait(self, at_barriers: list[Group]) -> None:
        """Handle lanes at barriers and other lanes of the warp that wait for each other.  If a barrier is aligned,
        report it and stop; otherwise nothing is done."""
        aligned = [group for group in at_barriers if "aligned" in self._kind(group)]
        for group in aligned:
            self._report_divergence(group.pc - 1, group.lanes)
        if aligned:
            raise StopError("fault", aligned[-1].pc - 1, self.warp.number)

    def _kind(self, group: Group) -> str:
        """Return the kind of operation at which a parked group waits: `warp` for a warp-wide one, and `arrive` or
        `sync` for a barrier, with `aligned ` before it if the barrier is aligned.  `stands` is an operation from which
        other warps release the group."""
        name, fields = self.launch.operation_name(group.pc - 1), self.launch.code[group.pc - 1]
        if name in STANDING:
            return "stands"
        if OPERATIONS[name].kind in _WIDE:
            return "warp"
        return ("aligned " if fields[7] else "") + ("arrive" if name == ARRIVE else "sync")

    def _continue_past(self, groups: list[Group]) -> bool:
        """Let lanes at a join that wait for parked ones continue without them, because PTX guarantees no reconvergence
        point."""
        warp = self.warp
        waiting = [r for group in groups for r in chain(group.region) if r.waiting & warp.alive]
        if not waiting:
            return False
        region = max(waiting, key=lambda r: r.number)
        free = region.waiting & warp.alive
        region.lanes &= ~free
        region.waiting = 0
        missing = region.lanes & warp.alive
        for group in warp.parked:
            kind, pc = self._kind(group), group.pc - 1
            if not group.lanes & missing:
                continue
            if kind == "warp":
                members = self.read(self.launch.code[pc][5], "b32", list_lanes(group.lanes)[0])
                if members & free:
                    self.cta.finding(
                        "barrier-divergence", pc, warp.number, group.lanes,
                        barrier=-1, alive=warp.alive, members=members,
                    )  # fmt: skip
            elif "aligned" in kind:
                self._report_divergence(pc, group.lanes)
        warp.ready.append(Group(region.join + 1, free, region.outer))
        return True

    def _exchange_divergent(self, free: list[Group]) -> None:
        """Let groups that wait at warp-wide operations execute these with the lanes that are there."""
        done: set[int] = set()
        for group in free:
            if group.pc not in done:
                done.add(group.pc)
                self._exchange(group.pc - 1, sum(other.lanes for other in free if other.pc == group.pc))
        self.warp.parked = [group for group in self.warp.parked if group not in free]
        self.warp.make_ready(free)

    def _exchange(self, pc: int, lanes: int) -> None:
        self.group = Group(pc, lanes, None)
        name = self.launch.operation_name(pc)
        _EXECUTE[OPERATIONS[name].kind](self, name, self.launch.code[pc], lanes)

    def _count_all(self) -> None:
        """Count the warp once: all its live lanes are at barriers.  Their operations must be the same (B12, B14),
        otherwise they are reported.  So are lanes at a join that wait for lanes at an aligned barrier."""
        warp, groups = self.warp, list(self.warp.parked)
        first = groups[0]
        one = all(group.pc == first.pc and self._wait_alike(group, first) for group in groups)
        if not one:
            self._compare(*groups)
        if self._kind(first).endswith("arrive"):
            warp.parked = []
        counted = groups[0 if one else -1]
        self._count(counted.pc - 1, sum(group.lanes for group in groups), counted.lanes)
        if self._kind(first).endswith("arrive"):
            warp.make_ready(groups)

    def _wait_alike(self, group: Group, other: Group) -> bool:
        """Return whether two groups wait at the same kind of operation of the same barrier, with the same count."""
        one, two = (self.launch.code[g.pc - 1] for g in (group, other))
        return one[0] == two[0] and operands(self, one, group.lanes) == operands(self, two, other.lanes)

    def _compare(self, first: Group, *others: Group) -> None:
        """Check that lanes of one warp at different instructions wait for the same barrier, in the unaligned form
        (B12)."""
        if "aligned" in self._kind(first):
            self._report_divergence(first.pc - 1, first.lanes)
        for group in others:
            if "aligned" in self._kind(first) + self._kind(group) or not self._wait_alike(group, first):
                self._report_divergence(group.pc - 1, group.lanes, first.pc - 1)
                raise StopError("fault", group.pc - 1, self.warp.number)

    def _report_divergence(self, pc: int, lanes: int, other_pc: int = -1) -> None:
        """Report lanes at a barrier while other lanes of their warp may be at the instruction `other_pc`."""
        warp = self.warp
        number, _ = operands(self, self.launch.code[pc], lanes)
        self.launch.report(
            RawFinding(
                "barrier-divergence", pc, self.cta.number, warp.number, lanes,
                other_pc, warp.number if other_pc >= 0 else -1,
                {"barrier": number, "alive": warp.alive, "members": 0},
            )
        )  # fmt: skip


def alu(run: WarpRun, name: str, fields: list[int], lanes: int) -> None:
    operation = OPERATIONS[name]
    meaning = semantics[name]
    sources = list(zip(fields[3:7], operation.operands, strict=False))
    rows = list(zip(*[run.values(row, type_) for row, type_ in sources], strict=True)) or [()] * LANES
    distinct = {*rows} if lanes == ALL_LANES else {rows[lane] for lane in list_lanes(lanes)}  # often only a few
    results = {given: meaning(*given) for given in distinct}
    values = [results.get(row, 0) for row in rows]
    run.write_lanes(fields[2], operation.result, lanes, values)


_SCOPES: dict[str, EventKind] = {kind: kind for kind in FENCES}


def fence(run: WarpRun, name: str, fields: list[int], lanes: int) -> None:
    """Order memory for the checkers; the values do not change, because this interpreter runs in one order."""
    if name in _SCOPES:
        run.launch.watch.happen(_SCOPES[name], run.cta.number, run.warp.number, run.group.pc, lanes)
    elif name in _OTHER_FENCES:
        _OTHER_FENCES[name](run, fields, lanes)


def _show(run: WarpRun, fields: list[int], lanes: int) -> None:
    """Pass printed values to the trace, or stop for a debugger."""
    if fields[7] != STOPS:
        values = run.values(fields[3], "b64")
        run.launch.watch.executes(run, READ, {lane: values[lane] for lane in list_lanes(lanes)})
    elif run.launch.stopped is not None:
        run.launch.stopped(run, fields, lanes)


def _forget(run: WarpRun, fields: list[int], lanes: int) -> None:
    """Make bytes of local memory uninitialized again."""
    local, thread = run.warp.local, run.launch.program.local_bytes
    written = local.written
    if written is None:
        return
    addresses, counts = run.values(fields[3], "b64"), run.values(fields[4], "b64")
    for lane in list_lanes(lanes):
        first = addresses[lane] % (1 << LOCAL_SHIFT)
        for offset in range(first, min(first + counts[lane], (lane + 1) * thread)):
            written[offset] = 0
            local.undefined.pop(offset, None)


def _publish_mbarriers(run: WarpRun, fields: list[int], lanes: int) -> None:
    if run.launch.program.asynchronous:
        mbarrier.publish(run, lanes)


def _fence_proxy(run: WarpRun, fields: list[int], lanes: int) -> None:
    if run.launch.program.asynchronous:
        cta, warp = run.cta, run.warp.number
        cta.order.fence_proxy((cta.number, warp), lanes, PROXIES[fields[6]])
        run.launch.watch.happen("proxy", cta.number, warp, run.group.pc, lanes=lanes)
        cta.order.begin_interval((cta.number, warp))


_OTHER_FENCES: dict[str, Callable[[WarpRun, list[int], int], None]] = {
    "show": _show,
    "forget": _forget,
    "fence.mbarrier_init": _publish_mbarriers,
    "fence.proxy": _fence_proxy,
}


_EXECUTE: dict[str, Callable[[WarpRun, str, list[int], int], None]] = {
    "alu": alu,
    "load": load,
    "store": store,
    "atomic": atomic,
    "warp": exchange,
    "matrix": multiply.execute,
    "fence": fence,
}
