"""Read the outcome of a VM that has stopped: findings, counters, and the waiting warps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.machine import state as layout
from wsemu.machine.state import BAD_INDEX, ELSEWHERE, GAP, PC_BITS, READ_ONLY, WRAPPED
from wsemu.machine.tables import Tables
from wsemu.model.bound import Allocated
from wsemu.model.codes import CODE_NAMES
from wsemu.model.isa import (
    ADDRESS_WRAPPED,
    FIRST_ARRAY,
    LANES,
    N_OPERATIONS,
    NAMES,
    OFFSET_MASK,
    OPCODE,
    SEGMENT_SHIFT,
    SHARED,
    TOKEN_SPAN,
    TOKEN_STEP,
    WAITS,
    opcodes,
)
from wsemu.model.outcome import (
    MOST_FINDINGS,
    WARPGROUP,
    BarrierState,
    Event,
    FindingKey,
    ObjectWait,
    Outcome,
    PhaseState,
    PhaseWait,
    RawFinding,
    Status,
    WarpState,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from wsemu.model.outcome import EventKind

STATUS: dict[int, Status] = {
    layout.DONE: "done",
    layout.DEADLOCK: "deadlock",
    layout.BUDGET: "budget",
    layout.FAULT: "fault",
    layout.TRAP: "trap",
    layout.STACK_OVERFLOW: "stack",
}


class Readout(Tables):
    """Tables of a VM, with methods that read the outcome after it has stopped."""

    def unfinished_groups(self, status: Status) -> Iterator[tuple[int, int]]:
        """Yield (instruction, lanes) of groups of lanes that stopped within a straight-line stretch, whose start counts
        all of it."""
        for w, warp in enumerate(self.warps):
            pc, mask, parked = (int(warp[name]) for name in ("pc", "mask", "parked"))
            entries = self.stacks[w, 1, : int(warp["parked_count"])] if parked else ()
            yield from ((int(entry["resume"]), int(entry["mask"])) for entry in entries)
            waiting = self.stacks[w, 0, : int(warp["depth"])]
            yield from ((int(e["resume"]), int(e["mask"])) for e in waiting[waiting["join"] == layout.MIDWAY])
            running = mask and warp["alive"]
            ended = status in ("trap", "stack") and w == int(self.state[0]["fault_warp"])
            if running and not ended:
                yield pc, mask

    def _finding(self, raw: Any) -> RawFinding:
        code = CODE_NAMES[int(raw["code"])]
        values = raw["detail"].tolist()
        detail = {name: value for name, value in zip(_DETAIL[code], values, strict=False) if name}
        if code in _OF_PHASES and not self.watch.other_lanes:
            del detail["other_lane"]
        group, other_group = int(raw["cta"]), int(raw["cta"])
        cta, warp = self.actor(group, int(raw["warp"]))
        _index_detail(code, detail)
        if "other_interval" in detail and code != "barrier-recycling":
            other_group = self._place_intervals(group, detail)
            detail["other_cta"] = -1
            _hide_agents(detail, int(raw["detail"][9]))
            if code == "race" and not raw["detail"][8]:
                del detail["other_lane"], detail["other_last"]
        other_cta, other_warp = self.actor(other_group, int(raw["other_warp"]))
        if "other_cta" in detail or other_cta not in (cta, -1):
            detail["other_cta"] = other_cta
        return RawFinding(
            code, self._written_as(int(raw["pc"])), cta, warp, int(raw["lanes"]),
            self._written_as(int(raw["other_pc"])), other_warp, detail, int(raw["count"]),
        )  # fmt: skip

    def _written_as(self, pc: int) -> int:
        """Return the instruction of the program that an instruction of a joined store represents."""
        beyond = pc - len(self.image.code)
        return pc if beyond < 0 else sorted(self.watch.joined)[beyond // 2]

    def actor(self, group: int, warp: int) -> tuple[int, int]:
        """Return the CTA of a warp of a group, and the warp's number in it; a number below 0 stands for no warp."""
        if warp < 0:
            return (-1, warp) if self.grouping.members > 1 else (group, warp)
        member, number = divmod(warp, self.cta_warps)
        return self.grouping.cta(group, member), number

    def _place_intervals(self, group: int, detail: dict[str, int]) -> int:
        """Convert the intervals of a finding to those of their groups; return the group of the earlier access."""
        groups, bases = self._until(group)
        other = (int(np.searchsorted(bases, detail["other_interval"])) or len(bases)) - 1
        detail["interval"] -= int(bases[-1])
        detail["other_interval"] -= int(bases[other])
        return groups[other]

    def _until(self, group: int) -> tuple[Sequence[int], npt.NDArray[np.int64]]:
        """Return the groups that have run up to this one, and the first interval of each."""
        if self.alone:
            groups = [*self.alone][: [*self.alone].index(group) + 1]
            return groups, np.array([self.alone[each] for each in groups])
        first, step = int(self.state[0]["group_first"]), int(self.state[0]["group_step"])
        return range(first, group + step, step), self.bases[: (group - first) * step + 1]

    def _overflow(self) -> list[FindingKey]:
        """Return, in order, the findings for which the table had no room."""
        without = self.slots["key"][(self.slots["key"] != 0) & (self.slots["number"] < 0)].tolist()
        pc = (1 << PC_BITS) - 1
        return sorted(
            FindingKey(CODE_NAMES[(key >> 2 * PC_BITS) - 1], (key >> PC_BITS & pc) - 1, (key & pc) - 1)
            for key in without
        )

    def _stopped_cta(self, status: int) -> int:
        """Return the CTA of a group at which a run stopped.

        If no CTA can continue, it is the first waiting one, preferably one that does not merely wait at the barrier of
        its cluster or grid.
        """
        alive = np.flatnonzero(self.warps["alive"]).tolist()
        if status == layout.DEADLOCK and alive:
            meeting = {w for w, _, _, row in self._parked_groups() if row[0] == _CLUSTER_WAIT}
            stand = self.ctas["met"] > self.state[0]["grid_phase"]
            alone = (w for w in alive if w not in meeting and not stand[w // self.cta_warps])
            return next(alone, alive[0]) // self.cta_warps
        return int(self.state[0]["member"])

    def _phases(self) -> list[PhaseState]:
        """Return the live mbarriers, by address."""
        live = [b for b in self.mbarriers[: int(self.state[0]["mbarrier_count"])] if b["live"]]
        return [
            PhaseState(
                SHARED << SEGMENT_SHIFT | int(b["word"]) << 3,
                *(int(b[name]) for name in ("phase", "pending", "expected", "tx", "init_pc")),
            )
            for b in sorted(live, key=lambda b: int(b["word"]))
        ]

    def _mbarrier_initializations(self) -> dict[int, tuple[int, int]]:
        """Return, for the last group: address of an mbarrier -> the instruction of its init, and its count."""
        made = self.mbarriers[: int(self.state[0]["mbarrier_count"])]
        return {SHARED << SEGMENT_SHIFT | int(b["word"]) << 3: (int(b["init_pc"]), int(b["expected"])) for b in made}

    def _parked_groups(self) -> Iterator[tuple[int, int, int, list[int]]]:
        """Yield warp, instruction, lanes and the instruction's fields of each parked group."""
        for w, warp in enumerate(self.warps):
            for entry in self.stacks[w, 1, : int(warp["parked_count"])] if warp["parked"] else ():
                pc = int(entry["resume"]) - 1
                yield w, pc, int(entry["mask"]), self.program.code[pc].tolist()

    def _phase_waits(self) -> list[PhaseWait]:
        """Return the lanes that wait at mbarriers."""
        phases = {phase.address: phase for phase in self._phases()}
        waits: list[PhaseWait] = []
        for w, pc, mask, row in self._parked_groups():
            if row[0] in _WAITS:
                waits += self._phase_waits_at(w, pc, mask, row, phases)
        return sorted(waits, key=lambda wait: (wait.warp, wait.lanes & -wait.lanes))

    def _object_waits(self) -> list[ObjectWait]:
        """Return the lanes that wait at objects of other families."""
        at = (
            self.objects.wait(row, w, pc, mask) for w, pc, mask, row in self._parked_groups() if row[0] >= N_OPERATIONS
        )
        return sorted((wait for wait in at if wait), key=lambda wait: (wait.warp, wait.lanes & -wait.lanes))

    def _cluster_waits(self) -> Iterator[ObjectWait]:
        """Yield the lanes that wait at the barrier of their cluster."""
        alive = self.warps["alive"]
        arrived = sum((int(a) & int(b)).bit_count() for a, b in zip(alive, self.warps["cluster_arrived"], strict=True))
        threads = sum(int(mask).bit_count() for mask in alive)
        for w, pc, mask, row in self._parked_groups():
            if row[0] == _CLUSTER_WAIT:
                yield ObjectWait(w, mask, pc, "cluster barrier", -1, arrived, threads)

    def _grid_waits(self) -> Iterator[ObjectWait]:
        """Yield the lanes that wait at the barrier of the grid."""
        members, group = self.grouping.members, int(self.state[0]["group"])
        missing = np.flatnonzero(self.ctas["met"] <= self.state[0]["grid_phase"]).tolist()
        ctas = tuple(self.grouping.cta(group, member) for member in missing)
        for w, pc, mask, row in self._parked_groups():
            if row[0] == _GRID_WAIT:
                yield ObjectWait(w, mask, pc, "barrier of the grid", -1, members - len(missing), members, ctas)

    def _warpgroup_waits(self) -> Iterator[ObjectWait]:
        """Yield the warps that wait at a `wgmma.commit_group` which others of their warpgroup have not executed."""
        for w, pc, mask, row in self._parked_groups():
            if row[0] == _COMMIT:
                first = w - w % self.cta_warps % 4
                committed = [int(n) for n in self.warps["committed"][first : first + 4]]
                yield ObjectWait(w, mask, pc, WARPGROUP, -1, sum(n >= committed[w - first] for n in committed), 4)

    def _elsewhere(self, member: int) -> list[tuple[int, int, int]]:
        """Return (CTA, warp, instruction) of the warps that wait in the other CTAs of the group."""
        group = int(self.state[0]["group"])
        found = []
        for w, warp in enumerate(self.warps):
            if warp["alive"] and warp["member"] != member:
                pc = int(self.stacks[w, 1, 0]["resume"]) - 1 if warp["parked"] else int(warp["wait_pc"])
                found.append((*self.actor(group, w), pc))
        return found

    def _phase_waits_at(
        self, w: int, pc: int, mask: int, row: list[int], phases: dict[int, PhaseState]
    ) -> Iterator[PhaseWait]:
        """Yield the phases that the lanes of a group wait for."""
        op, _, _, a, b, _, imm, _ = row
        type_ = np.uint64 if NAMES[op] == WAITS[0] else np.uint32
        addresses = self.registers[w, a : a + 8 * LANES].view(np.int64)
        asked = self.registers[w, b : b + LANES * np.dtype(type_).itemsize].view(type_)
        groups: dict[tuple[int, int], int] = {}
        for lane in _bits(mask):
            address = (int(addresses[lane]) + imm) & ~ADDRESS_WRAPPED
            token, phase = int(asked[lane]), -1
            if address in phases:
                odd = token >> 63 if type_ is np.uint64 else token & 1
                phase = phases[address].phase
                phase -= odd != phase & 1  # this phase is already complete
                now = phases[address].phase
                age = now + 1 + ((address & OFFSET_MASK) // 8 + 1) * TOKEN_STEP - token & 0xFFFFFFFF
                if type_ is np.uint64 and age < TOKEN_SPAN:
                    phase = now - age
            groups[address, phase] = groups.get((address, phase), 0) | 1 << lane
        for (address, phase), lanes in groups.items():
            yield PhaseWait(w, lanes, pc, address, phase)

    def outcome(self, status: int) -> Outcome:
        state = self.state[0]
        result = Outcome(STATUS[status], [self._finding(r) for r in self.raw[: int(state["raw_count"])]])
        result.findings.sort(key=lambda f: (f.code, f.pc, f.other_pc))
        result.repeats = status == layout.BUDGET and bool(self.repeats and self.repeats.found)
        result.window = self.window or SEGMENT_SHIFT
        result.group = self.grouping.shape if self.clusters or self.program.cooperative else (1, 1, 1)
        result.allocations = int(state["most_allocations"]), int(state["most_columns"])
        if state["slot_count"] > MOST_FINDINGS:
            result.overflow = self._overflow()
        result.written = {
            number: marks[: int(self.segments[number]["bytes"])]
            for number, marks in self.maps.items()
            if isinstance(self._keep[number - FIRST_ARRAY][1], Allocated)
        }
        if self.image.asynchronous:
            result.mbarriers = self._mbarrier_initializations()
        if status != layout.DONE:
            member = self._stopped_cta(status)
            group = int(state["group"])
            result.cta = self.grouping.cta(group, member)
            result.fault_pc, result.fault_warp = int(state["fault_pc"]), int(state["fault_warp"])
            result.fault_warp %= self.cta_warps
            first = member * self.cta_warps

            def own(warp: int) -> bool:
                return warp // self.cta_warps == member

            cut_off = status == layout.BUDGET
            result.warps = [
                _warp_state(w, self.warps[first + w], self.stacks[first + w, 1], cut_off=cut_off)
                for w in range(self.cta_warps)
            ]
            barriers = self.barriers[member * layout.BARRIERS :][: layout.BARRIERS]
            result.barriers = [_barrier_state(n, b) for n, b in enumerate(barriers) if b["arrived"]]
            if self.image.asynchronous:
                result.phases = self._phases()
                result.phase_waits = [w._replace(warp=w.warp - first) for w in self._phase_waits() if own(w.warp)]
                waits = [*self._object_waits(), *self._cluster_waits(), *self._grid_waits(), *self._warpgroup_waits()]
                result.object_waits = [w._replace(warp=w.warp - first) for w in waits if own(w.warp)]
            result.elsewhere = self._elsewhere(member)
        return result


def _hide_agents(detail: dict[str, int], agents: int) -> None:
    """Remove the interval of an asynchronous operation from a finding: it has none.

    Bit 0 of `agents` marks the later access as such an operation, bit 1 the earlier one.
    """
    for bit, side, interval in ((1, "async", "interval"), (2, "other_async", "other_interval")):
        if agents & bit:
            detail[side], detail[interval] = 1, 0


def _index_detail(code: str, detail: dict[str, int]) -> None:
    """Replace the kind of an index or address error in a finding's details by flags."""
    if code == "out-of-bounds":
        kind = detail.pop("kind")
        detail["wrapped"], detail["readonly"] = int(kind == WRAPPED), int(kind == READ_ONLY)
        if kind == ELSEWHERE:
            detail["elsewhere"] = 1
        elif kind == GAP:
            detail["gap"] = 1
        if kind == BAD_INDEX:
            detail["index"] = detail.pop("address")


def _warp_state(number: int, warp: Any, parked: Any, *, cut_off: bool) -> WarpState:
    waits = int(warp["waits"]) if warp["alive"] and warp["waits"] not in _APART else -1
    entries = parked[: int(warp["parked_count"])] if waits < 0 else ()
    standing = tuple((int(entry["resume"]) - 1, int(entry["mask"])) for entry in entries)
    runs = cut_off and warp["alive"] and warp["waits"] < 0 and warp["mask"] and not standing
    pc = int(warp["wait_pc"] if waits >= 0 else warp["pc"] if runs else warp["last_pc"])
    return WarpState(number, pc, int(warp["alive"]), waits, standing)


def _barrier_state(number: int, barrier: Any) -> BarrierState:
    generation, arrived, expected = (int(barrier[name]) for name in ("generation", "arrived", "expected"))
    now, before = (int(barrier[name]) for name in ("warps", "last_warps"))
    return BarrierState(number, generation, arrived, expected, _bits(now), _bits(before))


def _bits(mask: int) -> list[int]:
    return [n for n in range(64) if mask >> n & 1]


_APART = (layout.HELD, layout.AWAITS)


_WAITS = tuple(OPCODE[name] for name in WAITS)


(_COMMIT,), (_CLUSTER_WAIT,), (_GRID_WAIT,) = (
    opcodes("wgmma", "commit"),
    opcodes("cluster", "wait"),
    opcodes("grid", "wait"),
)


_CONFLICT = ("address", "kind", "other_kind", "size", "interval", "other_interval", "other_lane", "other_last")


_OF_PHASES = frozenset(("phase-alias", "uncovered-expectation", "mbarrier-lifetime", "commit-order"))


_DETAIL = {
    "out-of-bounds": ("address", "kind", "size", "segment", "bytes"),
    "misaligned": ("address", "alignment", "size", "segment"),
    "uninitialized-read": ("address", "", "size", "segment"),
    "count-mismatch": ("barrier", "generation", "expected", "count", "arrived"),
    "all-arrive": ("barrier", "generation", "arrived"),
    "oversubscribed": ("barrier", "count", "threads"),
    "invalid-barrier": ("barrier", "count", "kind"),
    "barrier-divergence": ("barrier", "alive", "members"),
    "dangling-arrive": ("barrier", "generation", "arrived", "expected"),
    "barrier-recycling": ("barrier", "generation", "interval", "other_interval"),
    "undefined-shuffle": ("source",),
    "failed-assertion": (),
    "raised-exception": (),
    "same-value": (),
    "race": _CONFLICT,
    "intra-warp-race": _CONFLICT,
    "proxy": _CONFLICT,
    "proxy-war": _CONFLICT,
    "mbarrier-uninitialized": ("address", "ordered", "dead"),
    "mbarrier-reinit": ("address",),
    "same-value-init": ("address",),
    "mbarrier-unfenced": ("address",),
    "mbarrier-clobber": ("address", "at", "kind", "size", "asynchronous"),
    "mbarrier-lifetime": ("address", "phase", "what", "other_lane"),
    "commit-order": ("address", "phase", "", "other_lane"),
    "mbarrier-range": ("address", "value", "what"),
    "over-arrival": ("address", "phase", "pending", "count"),
    "phase-alias": ("address", "phase", "rule", "other_lane"),
    "phase-unobserved": ("address", "phase"),
    "uncovered-expectation": ("address", "phase", "what", "other_lane"),
    "tx-mismatch": ("address", "phase", "bytes", "pending"),
    "dangling-phase": ("address", "phase", "pending", "expected"),
    "async-outlives-cta": ("address", "bytes", "what"),
    "store-outlives-cta": ("address", "bytes"),
    "copy-size": ("bytes", "what"),
    "tensor-map": ("address", "what", "value"),
    "tensormap-proxy": ("address", "what"),
    "setmaxnreg-repeated": ("count",),
    "setmaxnreg": ("count", "what", "present"),
    "wgmma-register": ("mark",),
    "wgmma-unfenced": ("mark",),
    "wgmma-divergence": ("what",),
    "tmem-race": ("column", "lane", "other_what", "what", "missing"),
    "tmem-read-unfinished": ("column", "lane", "other_what", "what", "missing"),
    "tcgen05-fence": ("column", "lane", "other_what", "what", "missing"),
    "tmem-unallocated": ("column", "columns", "owned", "rank"),
    "tmem-bounds": ("column", "columns"),
    "tmem-uninitialized": ("column", "lane"),
    "tmem-wrong-quarter": ("quarter", "own"),
    "tmem-misaligned-lane": ("lane", "shape"),
    "tmem-leak": ("column", "columns"),
    "tmem-double-free": ("column", "columns", "what", "owned"),
    "tmem-columns": ("columns", "frees"),
    "tmem-alloc-after-relinquish": ("columns",),
    "tmem-grow": ("columns", "before"),
    "tmem-cta-group-mixed": ("group", "before"),
    "tcgen05-issued-by-many": (),
    "tcgen05-descriptor": ("what", "value", "kind"),
    "collector-without-fill": ("what", "buffer"),
    "clc-after-failure": (),
    "clc-no-ctaid": (),
    "dsmem-before-start": ("rank",),
    "dsmem-after-exit": ("rank",),
    "dsmem-relaxed-exit": ("rank",),
    "cluster-barrier": ("what",),
    "remote-mbarrier": ("address", "rank", "goal"),
    "scope": ("address", "what"),
}


_ASYNCHRONOUS = frozenset(layout.EVENT_KINDS[layout.EVENT_KINDS.index("init") :])


def event_of(kind: EventKind, *fields: int) -> Event:
    """Return an event of the VM's log; for a barrier operation, `place` contains the lanes as well."""
    cta, warp, interval, pc, place, generation, lanes, addresses, amount = fields
    if kind in ("arrive", "sync"):
        return Event(kind, cta, warp, interval, pc, place & 0xFF, generation, place >> 8)
    if kind in _ASYNCHRONOUS:
        return Event(kind, cta, warp, interval, pc, place, generation, lanes, -1, amount)
    return Event(kind, cta, warp, interval, pc, place, generation, lanes, addresses if lanes else -1)
