"""Find unordered stores of the same value to one location, which leave the same bytes in every order.

The search is that of `ThreadWatch`, except that a byte may have several last stores: unordered stores that wrote the
same value.  A store joins them under two conditions: it does not change the byte, and it follows every access that the
first of the last stores had to follow.  These earlier accesses are therefore kept.  A proxy fence must also follow the
stores of this value that one of the last stores has replaced, because a store that joins later need not follow the
replacing store.  A read, an atomic, or a store of another value must follow all last stores, otherwise it is a race.
So two unordered accesses to a byte are two reads, two atomics, or two stores of one value.

Whether a store changes a byte is decided after its instruction, by comparing the byte before and after.

A `cas` that fails writes nothing (PTX ISA, `atom`: `.cas` stores if the value at the location equals the operand): here
it is an atomic that acts as a load.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.data import NamedTuple
from wsemu.model.isa import (
    ATOMIC,
    ATOMICS,
    FIRST_ARRAY,
    NAMES,
    OFFSET_MASK,
    SEGMENT_SHIFT,
    SHARED,
    SIZE,
    WRITE,
)
from wsemu.model.outcome import RawFinding
from wsemu.reference.memory.thread_shadow import Conflict, Made, ThreadWatch, Touch
from wsemu.reference.state import list_lanes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from wsemu.model.grid import Grouping
    from wsemu.model.program import Program
    from wsemu.reference.memory.bounds import Place
    from wsemu.reference.memory.shadow import Options
    from wsemu.reference.state import Segment
    from wsemu.reference.sync.thread_clocks import Clocks
    from wsemu.reference.warp import WarpRun


class Stores(NamedTuple):
    """The history of a byte: its last stores, which wrote one value; the reads and atomics since then; and the accesses
    before these stores that the next store must follow.  Stores of this value that one of the last stores has replaced
    are also kept."""

    last: tuple[Made, ...] = ()
    since: tuple[Made, ...] = ()
    before: tuple[Made, ...] = ()
    replaced: tuple[Made, ...] = ()


UNTOUCHED = Stores()
RACES = ("race", "intra-warp-race")
MOST_BEFORE = 64
"""maximum number of accesses before several last stores that a byte keeps; beyond it, a store that would join is
reported as a race"""


def list_failing_compares(run: WarpRun, places: dict[int, Place]) -> set[int]:
    """Return the lanes whose `cas` fails, if the lanes execute in ascending order."""
    fields = run.launch.code[run.group.pc]
    what, type_ = ATOMICS[NAMES[fields[0]]]
    if what != "cas":
        return set()
    failing, size = set[int](), SIZE[type_]
    stored: dict[tuple[int, int], int] = {}
    for lane, (segment, number, offset) in places.items():
        held = int.from_bytes(segment.data[offset : offset + size], "little")
        if stored.get((number, offset), held) == run.read(fields[4], type_, lane):
            stored[number, offset] = run.read(fields[5], type_, lane)
        else:
            failing.add(lane)
    return failing


class SameValueWatch(ThreadWatch):
    """The search for races that compares stored values."""

    arrays: list[Segment]
    shared: Segment
    """shared memory of the group of CTAs that runs"""

    def __init__(
        self, program: Program, options: Options, report: Callable[[RawFinding], None], groups: Grouping, warps: int
    ) -> None:
        super().__init__(program, options, report, groups, warps)
        self._asynchronous = program.asynchronous
        self._fails = False
        """true if the current access is a `cas` that fails"""
        self._states: dict[int, Stores] = {}
        self._open: list[tuple[int, int, list[Conflict]]] = []
        """entries of the current instruction: byte, old value, the stores that are unordered with it"""
        self._after_all: list[tuple[int, int, Stores, Stores]] = []
        """stores of the current instruction that follow all earlier ones: byte, old value, states before and after"""

    def start_group(self) -> None:
        super().start_group()
        self._states = {at: state for at, state in self._states.items() if at >> SEGMENT_SHIFT != SHARED}

    def end_group(self, group: int) -> None:
        self.settle()
        super().end_group(group)

    def settle(self) -> None:
        """End an instruction: report which of its unordered stores did not change their bytes."""
        for address, held, old, new in self._after_all:
            before, replaced = (*old.before, *old.since), self._seen_last((*old.replaced, *old.last))
            same = old.last and self._states[address] is new and self._content(address) == held
            if same and max(len(before), len(replaced)) <= MOST_BEFORE:  # a store that joins it need not follow them
                self._states[address] = new._replace(before=before, replaced=replaced)
        self._after_all = []
        causes: dict[tuple[str, int], list[Conflict]] = {}
        for address, held, conflicts in self._open:
            same = self._content(address) == held
            for conflict in conflicts:
                code = "same-value-store" if same else conflict.code
                causes.setdefault((code, conflict.earlier.pc), []).append(conflict)
        self._open = []
        for (code, _), conflicts in causes.items():
            first = min(conflicts, key=lambda conflict: conflict.order(self.grouping))
            now, earlier = first.now, first.earlier
            detail = {
                "address": first.address, "kind": now.kind, "other_kind": earlier.kind, "size": now.size,
                "other_cta": earlier.cta,
            }  # fmt: skip
            lanes = 0
            for conflict in conflicts:
                lanes |= 1 << conflict.lane
            self.report(RawFinding(code, now.pc, now.cta, now.warp, lanes, earlier.pc, earlier.warp, detail))

    def _content(self, address: int) -> int:
        number, offset = address >> SEGMENT_SHIFT, address & OFFSET_MASK
        if number == SHARED:
            return int(self.shared.data[offset])
        return int(self.arrays[number - FIRST_ARRAY].data[offset])

    def last_write(self, address: int) -> Made | None:
        last = self._states.get(address, UNTOUCHED).last
        return last[-1] if last else None

    def written_otherwise(self, addresses: Iterable[int]) -> bool:
        states = [self._states.get(at, UNTOUCHED) for at in addresses]
        return any(
            made.by.agent >= 0 if made.by.kind == WRITE else made.by.kind == ATOMIC
            for state in states
            for made in (*state.last, *state.since)
        )

    def touch(self, run: WarpRun, kind: int, places: dict[int, Place], size: int) -> None:
        failing = list_failing_compares(run, places) if kind == ATOMIC else set[int]()
        super().touch(run, kind, {lane: place for lane, place in places.items() if lane not in failing}, size)
        self._fails = True
        super().touch(run, kind, {lane: place for lane, place in places.items() if lane in failing}, size)
        self._fails = False

    def stands_for_load(self, run: WarpRun, kind: int) -> bool:
        return self._fails or super().stands_for_load(run, kind)

    def _make(self, now: Touch, lanes: int, addresses: Iterable[int]) -> list[Conflict]:
        actor = now.cta, now.warp
        clocks = {lane: self.order.clocks(actor, lane) for lane in list_lanes(lanes)}
        found: list[Conflict] = []
        for address in addresses:
            state = self._states.get(address, UNTOUCHED)
            ordered = self._judge_byte(now, clocks, address, state, found)
            new = self._states[address] = self._add_store(now, lanes, clocks, state, ordered)
            if ordered and now.kind == WRITE:
                self._after_all.append((address, self._content(address), state, new))
        return found

    def _judge_byte(
        self, now: Touch, clocks: dict[int, Clocks], address: int, state: Stores, found: list[Conflict]
    ) -> bool:
        """Judge an access to a byte; return whether it comes after all last stores there."""
        for earlier in state.since:
            if earlier.by.conflicts(now):
                found += self._judge(now, clocks, address, earlier, state.since)
        met = [earlier for earlier in state.last if earlier.by.conflicts(now)]
        apart = [conflict for earlier in met for conflict in self._judge(now, clocks, address, earlier, state.since)]
        unordered = [conflict for conflict in apart if conflict.code in RACES]
        found += [conflict for conflict in apart if conflict not in unordered]
        if now.kind != WRITE or not unordered:
            found += unordered
            return not unordered
        found += unordered if len(state.replaced) > MOST_BEFORE else ()
        for earlier in state.before:
            found += self._judge(now, clocks, address, earlier, state.since)
        for earlier in state.replaced:
            found += [c for c in self._judge(now, clocks, address, earlier, state.since) if c.code not in RACES]
        self._open.append((address, self._content(address), unordered))
        return False

    def _add_store(self, now: Touch, lanes: int, clocks: dict[int, Clocks], state: Stores, ordered: bool) -> Stores:
        """Return the history of a byte after an access."""
        made = Made(now, lanes)
        if now.kind != WRITE:
            return state._replace(since=(*self._accesses_since(now, lanes, clocks, state.since),))
        if ordered:
            return Stores((made,), (), (*state.last, *state.since))
        kept = tuple(m for m in state.last if not self._precedes(m, now, clocks))
        replaced = self._seen_last((*state.replaced, *(m for m in state.last if m not in kept)))
        return Stores((*kept, made), (), (*state.before, *state.since), replaced)

    def _seen_last(self, replaced: tuple[Made, ...]) -> tuple[Made, ...]:
        """Return the replaced stores that may lack a proxy fence: not bulk copies, and only the last store by the same
        lanes."""
        if not self._asynchronous:
            return ()
        lanes = {(m.by.agent, m.by.cta, m.by.warp, m.lanes): m for m in replaced if not m.by.bulk}
        return (*lanes.values(),)

    def _precedes(self, earlier: Made, now: Touch, clocks: dict[int, Clocks]) -> bool:
        if not self.together(earlier.by.cta, now.cta):
            return False
        return all(not self._unknown(earlier.by, earlier.lanes, clock, -1) for clock in clocks.values())

    def _accesses_since(
        self, now: Touch, lanes: int, clocks: dict[int, Clocks], since: tuple[Made, ...]
    ) -> Iterator[Made]:
        """Yield the reads and atomics since the last stores, followed by a new one."""
        for earlier in since:
            if earlier.by == now:
                lanes |= earlier.lanes
            elif not (now.covers(earlier.by) and self._precedes(earlier, now, clocks)):
                yield earlier
        yield Made(now, lanes)
