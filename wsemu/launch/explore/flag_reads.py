"""Reads of flags outside of polling loops, in CTAs that have at most one lane at a time before a strong access.  Such a
read is either a *wait*, in a loop with barriers of the CTA, as in CUTLASS's `Semaphore`, or an *early look* before such
a loop.

For each value that the flag may ever have, the analysis follows the CTA after it reads that value.  In a wait, some
values lead back to the same state, and all others lead to one other state.  In an early look, some values lead to such
a wait; each other value leads to the state after the wait, through the same accesses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wsemu.launch.explore.ways import UnfitError
from wsemu.model.data import NamedTuple
from wsemu.model.isa import ACQUIRES, NAMES, OPERATIONS
from wsemu.model.outcome import FENCES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from wsemu.launch.explore.session import Ask, Session
    from wsemu.proof.threads import Made

_SYNCS = "sync", "warp", *FENCES
"""kinds of events in a round that leads back to the same state: they only add order"""
Told = tuple[object, ...]
"""the parts of an event that matter"""
Meeting = tuple[int, int]
"""The barrier and the generation."""


class End(NamedTuple):
    """The state in which a CTA stops again after a read."""

    state: tuple[bytes, bytes]
    """digests of the CTA and of the arrays"""
    made: list[Made]
    asks: list[Ask]


class Past:
    """The last two events of each warp of a CTA, and the warps of the last two generations of each barrier."""

    def __init__(self) -> None:
        self.last: dict[int, list[Made]] = {}
        self.members: dict[Meeting, set[int]] = {}

    def add(self, made: Made) -> None:
        """Add the next event."""
        event = made.event
        if event.kind == "complete":
            return
        self.last[event.warp] = [*self.last.get(event.warp, ())[-1:], made]
        if event.kind == "sync":
            self.members.setdefault(_meeting(made), set()).add(event.warp)
            self.members.pop((event.place, event.generation - 2), None)


class FlagReads:
    """The reads of one session."""

    def __init__(self, session: Session, code: list[list[int]], count_step: Callable[[], None]) -> None:
        self.session, self.code, self.count_step = session, code, count_step
        self.known: dict[tuple[object, ...], End | None] = {}
        """for each (lane, value that it reads, state): the state in which the CTA stops"""

    def read(self, ask: Ask, value: bytes, old: bytes) -> End | None:
        """Return the state in which a CTA stops if a lane reads a value, or None if that is its present state.  The CTA
        itself does not move; `old` is the present value."""
        session, cta = self.session, ask.cta
        before = session.digest(cta), session.digest_memory()
        key = ask, value, before
        if key not in self.known:
            saved, memory = session.save(cta), session.save_memory()
            end = self._go(ask, value, old)
            session.load(cta, saved)
            session.load_memory(memory)
            stays = end.state == before and self._does_nothing(end.made, ask)
            self.known[key] = None if stays else end
        return self.known[key]

    def find_early(
        self, ask: Ask, values: list[bytes], ends: dict[bytes, End | None], old: bytes, past: Past
    ) -> bytes | None:  # fmt: skip
        """Return a value with which an early look of a lane leads to its wait, or None."""
        for value, stale in ends.items():
            if (
                stale is None
                or len(stale.asks) != 1
                or stale.asks == [ask]
                or not self._is_same_look(ask, stale.asks[0])
            ):
                continue
            session, cta, late = self.session, ask.cta, stale.asks[0]
            saved, memory = session.save(cta), session.save_memory()
            self._go(ask, value, old)
            after = {other: self.read(late, other, old) for other in values}
            session.load(cta, saved)
            session.load_memory(memory)
            if all(self._is_early(ask, stale, ends[other], after[other], past) for other in values):
                return value
        return None

    def _go(self, ask: Ask, value: bytes, old: bytes) -> End:
        session, cta = self.session, ask.cta
        session.write(ask.place, int.from_bytes(value, "little"), len(value))
        self.count_step()
        moved = session.go(ask)
        session.write(ask.place, int.from_bytes(old, "little"), len(old))
        if moved.status not in ("stands", "done") or moved.findings:
            raise UnfitError
        return End((session.digest(cta), session.digest_memory()), moved.made, session.asks(cta))

    def _does_nothing(self, made: list[Made], ask: Ask) -> bool:
        """Return whether a round consists only of the read, barriers and fences."""
        return all(
            one.event.pc == ask.pc and all(address == ask.place[1] for _, address in one.addresses)
            if one.event.kind in ("access", "atomic")
            else one.event.kind in (*_SYNCS, "complete")
            for one in made
        )

    def _is_same_look(self, early: Ask, late: Ask) -> bool:
        """Return whether a lane reads one flag by two instructions with the same acquire semantics."""
        same = early[:3] == late[:3] and early.place == late.place and early.pc != late.pc
        one, other = self.code[early.pc], self.code[late.pc]
        return same and (one[0], one[7]) == (other[0], other[7]) and self._fence(early.pc) == self._fence(late.pc)

    def _fence(self, pc: int) -> tuple[int, ...]:
        """Return the fence that is a part of a read that acquires: the number of instructions after the read, its
        operation and its kind."""
        # if the read is guarded, a move of its result comes first
        after = 2 if OPERATIONS[NAMES[self.code[pc + 1][0]]].kind == "alu" else 1
        fields = self.code[pc + after]
        is_part = NAMES[fields[0]] in FENCES and fields[7] == ACQUIRES
        return (after, fields[0], fields[7]) if is_part else ()

    def _is_early(self, ask: Ask, stale: End, end: End | None, later: End | None, past: Past) -> bool:
        """Return whether a look with a value leads to the wait, or to the end of the wait with this value."""
        late = stale.asks[0]
        reads = {pc + n for pc in (ask.pc, late.pc) for n in (0, *self._fence(pc)[:1])}
        if end is None:
            return False
        if end.state == stale.state:
            return tell(end.made, reads, past) == tell(stale.made, reads, past)
        return (
            later is not None
            and end.state == later.state
            and tell(end.made, reads, past) == tell([*stale.made, *later.made], reads, past)
        )

    def has_one_end(self, ask: Ask, ends: Iterable[End]) -> bool:
        """Return whether a CTA stops in one state, after the same events."""
        return len({(end.state, tuple(sorted(tell(end.made, {ask.pc}, Past()).items()))) for end in ends}) == 1


def tell(made: Iterable[Made], skipped: set[int], past: Past) -> dict[int, tuple[Told, ...]]:
    """Return the events of each warp, except those of some instructions.  A barrier that all its warps meet twice, with
    nothing in between, counts once."""
    own = {warp: [*events] for warp, events in past.last.items()}
    members = {meeting: set(warps) for meeting, warps in past.members.items()}
    arrivals = set[Meeting]()
    for one in made:
        event = one.event
        if event.kind == "complete" or event.pc in skipped:
            continue
        own.setdefault(event.warp, []).append(one)
        if event.kind == "sync":
            members.setdefault(_meeting(one), set()).add(event.warp)
        elif event.kind == "arrive":
            arrivals.add(_meeting(one))
    _remove_repeated(own, members, arrivals)
    kept = sorted({_meeting(one) for events in own.values() for one in events if one.event.generation >= 0})
    return {warp: tuple((tell_event(one), _number(one, kept)) for one in events) for warp, events in own.items()}


def _remove_repeated(own: dict[int, list[Made]], members: dict[Meeting, set[int]], arrivals: set[Meeting]) -> None:
    """Remove each generation of a barrier whose warps met in the generation before, and did nothing in between."""
    for meeting in sorted(members):
        places = [(warp, n) for warp in members[meeting] for n, one in enumerate(own.get(warp, ()))
                  if one.event.kind == "sync" and _meeting(one) == meeting]  # fmt: skip
        if meeting in arrivals or len(places) != len(members[meeting]) or any(not n for _, n in places):
            continue
        pairs = [own[warp][n - 1 : n + 1] for warp, n in places]
        before = {_meeting(one) for one, _ in pairs}
        alike = all(tell_event(one) == tell_event(other) for one, other in pairs)
        if alike and len(before) == 1 and members.get(before.pop()) == members[meeting]:
            for warp, n in places:
                del own[warp][n]


def _number(made: Made, kept: list[Meeting]) -> int:
    """Return the number of earlier generations of the same barrier, or -1 if the event has none."""
    place, generation = _meeting(made)
    return sum(1 for other, earlier in kept if other == place and earlier < generation) if generation >= 0 else -1


def _meeting(made: Made) -> Meeting:
    return made.event.place, made.event.generation


def tell_event(made: Made) -> Told:
    """Return an event without its times."""
    event: Any = made.event
    place = -1 if event.kind == "access" else event.place
    return event.kind, event.pc, place, event.lanes, event.amount, made.addresses, made.wrote
