"""Reads of flags in CTAs of which never more than one lane is before a strong access.  They are waits whose loops
contain barriers of the CTA, as that of CUTLASS's `Semaphore`, and first looks before such a loop.

The CTA continues with each value that the flag has at any time.  In a *wait*, some values lead back to the same state,
and all others to one other state.  An *early look* leads to such a wait with some values.  With each other value it
leads to the state after the wait, by the same accesses.
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
"""kinds of events of a round that leads back: they only order more"""
Told = tuple[object, ...]
"""the parts of an event that matter"""
Last = dict[int, Told]
"""for each warp of a CTA, its last event"""


class End(NamedTuple):
    """The state in which a CTA stops again after a read."""

    state: tuple[bytes, bytes]
    """digests of the CTA and of the arrays"""
    made: list[Made]
    asks: list[Ask]


class FlagReads:
    """The reads of one session."""

    def __init__(self, session: Session, code: list[list[int]], count_step: Callable[[], None]) -> None:
        self.session, self.code, self.count_step = session, code, count_step
        self.known: dict[tuple[object, ...], End | None] = {}
        """for a lane, a value that it reads and a state: the end"""

    def read(self, ask: Ask, value: bytes, old: bytes) -> End | None:
        """Return the state in which a CTA stops if a lane reads a value, or None if it is the same as before.  The CTA
        does not move; `old` is the value now."""
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
        self, ask: Ask, values: list[bytes], ends: dict[bytes, End | None], old: bytes, last: Last
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
            if all(self._is_early(ask, stale, ends[other], after[other], last) for other in values):
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
        """Return whether a round consists of the read, barriers and fences."""
        return all(
            one.event.pc == ask.pc and all(address == ask.place[1] for _, address in one.addresses)
            if one.event.kind in ("access", "atomic")
            else one.event.kind in (*_SYNCS, "complete")
            for one in made
        )

    def _is_same_look(self, early: Ask, late: Ask) -> bool:
        """Return whether a lane reads one flag by two instructions that acquire alike."""
        same = early[:3] == late[:3] and early.place == late.place and early.pc != late.pc
        one, other = self.code[early.pc], self.code[late.pc]
        return same and (one[0], one[7]) == (other[0], other[7]) and self._fence(early.pc) == self._fence(late.pc)

    def _fence(self, pc: int) -> tuple[int, ...]:
        """Return the fence that is a part of a read that acquires: the number of instructions after the read, its
        operation and its kind."""
        after = 2 if OPERATIONS[NAMES[self.code[pc + 1][0]]].kind == "alu" else 1  # a guarded result is moved
        fields = self.code[pc + after]
        is_part = NAMES[fields[0]] in FENCES and fields[7] == ACQUIRES
        return (after, fields[0], fields[7]) if is_part else ()

    def _is_early(self, ask: Ask, stale: End, end: End | None, later: End | None, last: Last) -> bool:
        """Return whether a look with a value leads to the wait, or to the end of the wait with this value."""
        late = stale.asks[0]
        reads = {pc + n for pc in (ask.pc, late.pc) for n in (0, *self._fence(pc)[:1])}
        if end is None:
            return False
        if end.state == stale.state:
            return tell(end.made, reads, last) == tell(stale.made, reads, last)
        return (
            later is not None
            and end.state == later.state
            and tell(end.made, reads, last) == tell([*stale.made, *later.made], reads, last)
        )

    def has_one_end(self, ask: Ask, ends: Iterable[End]) -> bool:
        """Return whether a CTA stops in one state, after the same events."""
        return len({(end.state, tuple(sorted(tell(end.made, {ask.pc}, {}).items()))) for end in ends}) == 1


def tell(made: Iterable[Made], skipped: set[int], last: Last) -> dict[int, tuple[Told, ...]]:
    """Return the events of each warp, except at some instructions.  A barrier that a warp meets twice, with nothing in
    between, counts once."""
    told: dict[int, list[Told]] = {warp: [one] for warp, one in last.items()}
    for one in made:
        event = one.event
        if event.kind == "complete" or event.pc in skipped:
            continue
        entry, own = tell_event(one), told.setdefault(event.warp, [])
        if not (event.kind == "sync" and own and own[-1] == entry):
            own.append(entry)
    return {warp: tuple(own) for warp, own in told.items()}


def tell_event(made: Made) -> Told:
    """Return an event without its times."""
    event: Any = made.event
    place = -1 if event.kind == "access" else event.place
    return event.kind, event.pc, place, event.lanes, event.amount, made.addresses, made.wrote
