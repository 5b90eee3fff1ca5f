"""Decide launches whose threads wait for flags, each written by a single thread: barriers, all-reduces, puts with
signals.

A thread waits for a flag in a loop that only reads it (`find_polls`), and that ends for a certain write of the flag and
for all later ones.  So a thread behaves alike in every execution, whenever it reads the flag, if the plain data that it
reads is the same (Kahn, "The Semantics of a Simple Language for Parallel Programming", 1974).  It is then ordered at
least after the writes released by the first flag value that ends the loop.  One execution in which each wait acquires
only that value therefore decides all executions: its data races are theirs, and without races the data is the same.
Each wait ends, since the writer reaches its write in every execution.  Weak memory changes nothing: it only lets a loop
read an older value once more.

Several threads may write a flag if each of them hands it on: it writes the next value after its wait for the last one.
docs/how.md, "Flags", has the theorem.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from wsemu.launch.explore.flag_reads import FlagReads, Past
from wsemu.launch.explore.nodes import Reached, Result
from wsemu.launch.explore.polls import find_polls
from wsemu.launch.explore.together import Together
from wsemu.launch.explore.ways import UnfitError, is_own
from wsemu.model.isa import (
    ADDRESS_WRAPPED,
    FIRST_ARRAY,
    NAMES,
    NO_STORE,
    OFFSET_MASK,
    SCOPES,
    SEGMENT_SHIFT,
    access_shape,
)
from wsemu.model.outcome import FENCES
from wsemu.proof.liveness import lane_bytes, live_rows
from wsemu.proof.thread_keys import WIDE
from wsemu.proof.threads import Location, Shared, memory_effect

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.launch.explore.session import Ask, Moved, Session
    from wsemu.model.bound import Bound
    from wsemu.model.outcome import Event
    from wsemu.proof.threads import Knowledge, Made, Place, Race

MOST_STEPS = 4_000
"""maximum number of ordered accesses, including those that test whether a wait continues"""
Thread = tuple[int, int, int]
"""CTA, warp, lane"""


class RacedError(UnfitError):
    """An execution has a data race."""

    def __init__(self, race: Race, reached: Reached) -> None:
        super().__init__()
        self.race, self.reached = race, reached


class Flags:
    """One launch."""

    def __init__(
        self, bound: Bound, session: Session, begin: Callable[[Shared], Knowledge], ordered: frozenset[int],
        data: frozenset[int],
    ) -> None:  # fmt: skip
        """`ordered` are the strong accesses before which the session stops; `data` are other strong accesses, which
        count as plain."""
        self.session, self.begin, self.ordered, self.data = session, begin, ordered, data
        self.code = bound.program.code.tolist()
        self.segments = bound.segments
        self.polls = find_polls(bound.program, ordered)
        self.live, self.widths = live_rows(bound.program), lane_bytes(bound.program)
        self.most = int(MOST_STEPS * session.effort)
        self.steps = 0
        self.reads = FlagReads(session, self.code, self.count_step)
        self.values: dict[Place, list[bytes]] = {}
        """all values of each location, in their order"""
        self.writers: dict[Place, list[Thread]] = {}
        """the threads that wrote these values, without the first one, in their order"""
        self.raced = False
        """true if there is an execution with a data race"""
        self.met: Together | None = None
        """the CTAs that wait for each other"""

    def is_proven(self) -> bool:
        """Return whether the launch is right in all executions; the arrays hold what each of them leaves."""
        if any(self.code[pc][7] & SCOPES or ".cas." in NAMES[self.code[pc][0]] for pc in self.ordered):
            return False
        try:
            self._collect_values()
            shared = Shared()
            while not self._run(shared):
                pass
        except RacedError:
            self.raced = True
            return False
        except UnfitError:
            return False
        return True

    def find_race(self) -> Result | None:
        """Return the race of an execution in which each wait acquires from the value that it reads, or None."""
        shared = Shared()
        try:
            while True:
                shared.grown = False
                _Run(self, self.begin(shared), learns_all=True).finish()
                if not shared.grown:
                    return None
        except RacedError as raced:
            return Result(race=raced.race, reached=raced.reached)
        except UnfitError:
            return None

    def has_certain_race(self, result: Result) -> bool:
        """Return whether a race remains if data accesses are strong: one side is weak, and no thread's strong load
        reads what another thread stored by a strong store, which could order the two."""
        race = result.race
        if race is None or (race.earlier.pc in self.data and race.later.pc in self.data):
            return False
        stored: defaultdict[int, set[Thread]] = defaultdict(set)
        loaded: defaultdict[int, set[Thread]] = defaultdict(set)
        for one in result.reached.made:
            pc = one.event.pc
            if one.event.kind != "access" or pc not in self.data:
                continue
            _, stores, size = memory_effect(self.code[pc], data=True)
            for lane, address in one.addresses:
                for byte in range(address, address + size):
                    (stored if stores else loaded)[byte].add((one.event.cta, one.event.warp, lane))
        return all(len(stored[byte] | threads) == 1 for byte, threads in loaded.items() if byte in stored)

    # -- executions ----------------------------------------------------------------------------------------------------
    def _collect_values(self) -> None:
        """Run the launch once, and collect what is written to each flag."""
        run = _Run(self, None)
        run.finish()
        self.values, self.writers = run.values, dict(run.writers)

    def _run(self, shared: Shared) -> bool:
        """Run the launch with vector clocks.  Return whether `shared` was complete before."""
        shared.grown = False
        run = _Run(self, self.begin(shared))
        run.finish()
        if run.values != self.values or run.writers != self.writers:
            raise UnfitError
        self.met = Together(run.most_alive, run.waits)
        return not shared.grown

    def count_step(self) -> None:
        """Raise UnfitError if the accesses become too many."""
        self.steps += 1
        if self.steps > self.most:
            raise UnfitError


class _Run:
    """One execution: CTAs begin in order, the next one when all before it wait."""

    def __init__(self, flags: Flags, knowledge: Knowledge | None, *, learns_all: bool = False) -> None:
        """Without `knowledge`, no clocks are kept.  With `learns_all`, a wait acquires everything that earlier writes
        released."""
        self.learns_all = learns_all
        self.asks: list[Ask] = []
        self.log: list[Made] = []
        """ordered accesses, and all events, in their order"""
        self.flags, self.session, self.knowledge = flags, flags.session, knowledge
        self.values: dict[Place, list[bytes]] = {}
        self.writers: defaultdict[Place, list[Thread]] = defaultdict(list)
        self.turns: dict[tuple[Place, Thread], int] = {}
        """the number of the value with which the last wait of a thread for a flag ends"""
        self.floors: defaultdict[tuple[Place, Thread], int] = defaultdict(int)
        """for each location and thread, the number of the latest flag value that the thread has surely written or read:
        it reads no earlier one"""
        self.after: defaultdict[Place, list[Location]] = defaultdict(lambda: [Location()])
        """for each location, what a read of each of its values acquires"""
        self.past: defaultdict[int, Past] = defaultdict(Past)
        """the last events of each CTA"""
        self.crowded: set[int] = set()
        """CTAs of which several lanes were once before ordered accesses at the same time"""
        self.alone: set[int] = set()
        """CTAs of which at most one lane at a time can be before an ordered access"""
        self.plain: set[tuple[int, int]] = set()
        """(address, bytes) of plain accesses to arrays"""
        self.most_alive = 1
        self.waits: Ask | None = None

    def finish(self) -> None:
        """Run to the end.  Raise UnfitError if the launch does not end, or does not fit this method."""
        for cta, moved in enumerate(self.session.start()):
            self._record_actions(cta, moved)
        begun = 1
        while True:
            while sum([self._advance(cta) for cta in range(begun)]):
                pass
            if begun == self.session.ctas:
                break
            begun += 1
            alive = sum(1 for cta in range(begun) if self.session.alive(cta) or cta == begun - 1)
            if alive > self.most_alive:
                asks = (ask for cta in range(begun) for ask in self.session.asks(cta))
                self.most_alive, self.waits = alive, next(asks, None)
        if any(self.session.alive(cta) for cta in range(self.session.ctas)) or self.alone & self.crowded:
            raise UnfitError
        strong = {at for place in self.values for at in range(place[1], place[1] + len(self.values[place][0]))}
        sizes = sum(len(values[0]) for values in self.values.values())
        if len(strong) < sizes or any(at in strong for start, n in self.plain for at in range(start, start + n)):
            raise UnfitError

    def _advance(self, cta: int) -> bool:
        """Give a turn to each lane of a CTA that is before an ordered access.  Return whether one of them continued."""
        groups: dict[tuple[int, int], list[Ask]] = {}
        for ask in self.session.asks(cta):
            groups.setdefault((ask.warp, ask.pc), []).append(ask)
        moved = False
        for (_, pc), asks in groups.items():
            if asks[0] not in self.session.asks(cta):
                continue
            moved |= self._poll(asks) if pc in self.flags.polls else self._pass(asks)
        return moved

    # -- waits ---------------------------------------------------------------------------------------------------------
    def _poll(self, asks: list[Ask]) -> bool:
        """Let the lanes of a loop read their flags once if that lets one of them continue."""
        first = self._first_values(asks)
        if not first:
            return False
        for ask in asks:
            if ask not in first:
                self._perform_access(ask, None if self.learns_all else Location())
            elif self.knowledge is None or self.learns_all or self._is_own(ask):
                self._perform_access(ask, None)
            else:
                self._learn(ask, first[ask])
        return True

    def _learn(self, ask: Ask, number: int) -> None:
        """Let the wait of a lane end, as if with a certain value of its flag."""
        place, thread = ask.place, (ask.cta, ask.warp, ask.lane)
        self.turns[place, thread] = self.floors[place, thread] = number
        learnt = self.after[place][number]
        if len({*self.flags.writers.get(place, ())}) > 1:  # the same of all later writes
            learnt = Location(given={WIDE: learnt.given[WIDE]} if WIDE in learnt.given else {})
        self._perform_access(ask, learnt)

    def _ends_its_turn(self, ask: Ask, number: int) -> bool:
        """Return whether the thread whose wait ends with a value writes the next one."""
        writers = self.flags.writers.get(ask.place, [])
        return number < len(writers) and writers[number] == (ask.cta, ask.warp, ask.lane)

    def _floor(self, ask: Ask) -> int:
        """Return the number of the first value of its flag that a lane may still read."""
        return self.floors[ask.place, (ask.cta, ask.warp, ask.lane)]

    def _first_values(self, asks: list[Ask]) -> dict[Ask, int]:
        """Return the lanes whose waits end, with the number of the first value with which they do.  UnfitError if one
        does not end with a later value."""
        now = {ask.place: len(self._values(ask.place)) - 1 for ask in asks}
        able = self._leave(asks, {place: self.values[place][number] for place, number in now.items()})
        if self.knowledge is None or not able:
            return dict.fromkeys(able, 0)
        every = self.flags.values
        if any(ask.place not in every for ask in asks):
            raise UnfitError
        first: dict[Ask, int] = {}
        for number in range(max(len(every[ask.place]) for ask in asks)):
            there = {place: every[place][min(number, len(every[place]) - 1)] for place in now}
            leave = self._leave(asks, there)
            for ask in able:
                if self._floor(ask) <= number < len(every[ask.place]) and not self._is_own(ask):
                    if ask in leave:
                        first.setdefault(ask, number)
                    elif ask in first and not self._ends_its_turn(ask, first[ask]):
                        raise UnfitError
        return {ask: first.get(ask, now[ask.place]) for ask in able}

    def _leave(self, asks: list[Ask], values: dict[Place, bytes]) -> list[Ask]:
        """Return the lanes that leave their loop if they read these values."""
        session, cta = self.session, asks[0].cta
        saved, memory = session.save(cta), session.save_memory()
        before = [self._lane_state(ask) for ask in asks]
        for place, value in values.items():
            session.write(place, int.from_bytes(value, "little"), len(value))
        made: list[Event] = []
        for ask in asks:
            self.flags.count_step()
            moved = session.go(ask)
            if moved.status not in ("stands", "done"):
                raise UnfitError
            made += [one.event for one in moved.made]
        again = {*session.asks(cta)}
        leave = [
            ask for ask, state in zip(asks, before, strict=True)
            if ask not in again or self._lane_state(ask) != state or any(self._does_more(event, ask) for event in made)
        ]  # fmt: skip
        session.load(cta, saved)
        session.load_memory(memory)
        return leave

    def _does_more(self, event: Event, ask: Ask) -> bool:
        """Return whether an event shows a lane outside of its loop."""
        if event.warp != ask.warp or event.pc == ask.pc or event.kind in FENCES:
            return False
        lanes = event.place if event.kind == "warp" else event.lanes
        return bool(lanes >> ask.lane & 1)

    def _lane_state(self, ask: Ask) -> list[bytes]:
        """Return the registers of a lane that are live in its loop."""
        block, found = self.session.snapshot(ask.cta, ask.warp).registers, []
        for row in sorted(self.flags.live[ask.pc]):
            size = self.flags.widths.get(row, 8)
            if size:
                found.append(block[row + size * ask.lane : row + size * (ask.lane + 1)].tobytes())
            else:
                found.append(b"%d" % (int(block[row : row + 4].view(np.uint32)[0]) >> ask.lane & 1))
        return found

    # -- other accesses ------------------------------------------------------------------------------------------------
    def _pass(self, asks: list[Ask]) -> bool:
        """Let lanes store to flags, or read them; return whether one continued."""
        moved = False
        for ask in asks:
            if self.flags.code[ask.pc][7] & NO_STORE:
                moved |= self._read(ask)
            else:
                self._write(ask)
                moved = True
        return moved

    def _write(self, ask: Ask) -> None:
        """Let a lane store to a flag: the first value, or its next value when it is that writer's turn."""
        place, thread = ask.place, (ask.cta, ask.warp, ask.lane)
        values, writers = self._values(place), self.writers[place]
        before, relays = len(values) - 1, bool(writers) and writers[-1] != thread
        if relays and self.knowledge is not None and self.turns.get((place, thread)) != before:
            raise UnfitError
        self._perform_access(ask, None)
        values.append(self._value_at(place, len(values[0])))
        writers.append(thread)
        self.floors[place, thread] = before + 1
        if self.knowledge is not None:
            self.after[place].append(self.knowledge.locations[place].copy())
            if relays and not _covers(self.after[place][-1], self.after[place][-2]):
                raise UnfitError

    def _read(self, ask: Ask) -> bool:
        """Let a lane read a flag outside of a polling loop; return whether its CTA continued."""
        values = self._values(ask.place)
        if self.knowledge is not None and self._is_own(ask):
            self._read_own(ask)
            return True
        reads, now = self.flags.reads, values[-1]
        if self.knowledge is None or self.learns_all:
            if reads.read(ask, now, now) is None:
                return False
            self._perform_access(ask, None)
            return True
        self.alone.add(ask.cta)
        every = self.flags.values[ask.place]
        ends = {value: reads.read(ask, value, now) for value in every}
        leave = [end for end in ends.values() if end is not None]
        if reads.has_one_end(ask, leave):
            return self._await(ask, [value for value, end in ends.items() if end is not None])
        value = reads.find_early(ask, every, ends, now, self.past[ask.cta])
        if value is None:
            raise UnfitError
        self._perform_access(ask, Location(), value)
        return True

    def _await(self, ask: Ask, ending: list[bytes]) -> bool:
        """End a wait that some values end if the flag now has one of them."""
        every = self.flags.values[ask.place]
        if self._values(ask.place)[-1] not in ending:
            return False
        floor = self._floor(ask)
        first = next(number for number, value in enumerate(every) if number >= floor and value in ending)
        if any(value not in ending for value in every[first:]) and not self._ends_its_turn(ask, first):
            raise UnfitError
        self._learn(ask, first)
        return True

    def _read_own(self, ask: Ask) -> None:
        """Let a lane read a flag that no other thread writes."""
        first = len(self.log)
        self._perform_access(ask, None)
        alone = not any(self._does_more(one.event, ask) for one in self.log[first:])
        if alone and ask in self.session.asks(ask.cta):
            raise UnfitError  # this loop waits and uses the value that it reads

    def _is_own(self, ask: Ask) -> bool:
        """Return whether a thread reads a flag that it alone writes."""
        return {*self.flags.writers.get(ask.place, ())} <= {(ask.cta, ask.warp, ask.lane)}

    def _values(self, place: Place) -> list[bytes]:
        """Return the values of a location so far."""
        if place not in self.values:
            if place[0] >= 0 or is_own(place[1]):
                raise UnfitError
            sizes = {access_shape(NAMES[self.flags.code[pc][0]])[1] for pc in self.flags.ordered}
            if len(sizes) != 1:
                raise UnfitError
            self.values[place] = [self._value_at(place, *sizes)]
        return self.values[place]

    def _value_at(self, place: Place, size: int) -> bytes:
        number, offset = (place[1] >> SEGMENT_SHIFT) - FIRST_ARRAY, place[1] & OFFSET_MASK
        if not 0 <= number < len(self.flags.segments):
            raise UnfitError
        return bytes(self.flags.segments[number][0][offset : offset + size])

    def _perform_access(self, ask: Ask, learnt: Location | None, value: bytes = b"") -> None:
        """Perform a lane's access.  A waiting lane acquires what the value releases and changes no clock of its flag.
        `value` is the earlier or later value that it reads."""
        self.flags.count_step()
        self.asks.append(ask)
        now = self._value_at(ask.place, len(value))
        self.session.write(ask.place, int.from_bytes(value, "little"), len(value))
        moved = self.session.go(ask)
        self.session.write(ask.place, int.from_bytes(now, "little"), len(now))
        if self.knowledge is None or learnt is None:
            self._record_actions(ask.cta, moved)
            return
        locations = self.knowledge.locations
        before = locations.get(ask.place)
        locations[ask.place] = learnt.copy()
        self._record_actions(ask.cta, moved)
        locations.pop(ask.place)
        if before is not None:
            locations[ask.place] = before

    def _record_actions(self, cta: int, moved: Moved) -> None:
        """Record the actions of a CTA; raise UnfitError if one of them is an error."""
        if moved.status not in ("stands", "done") or moved.findings:
            raise UnfitError
        if len(self.session.asks(cta)) > 1:
            self.crowded.add(cta)
        for one in moved.made:
            if one.event.kind == "access":
                self._note(one)
            self.past[cta].add(one)
        first, known = len(self.log), self.knowledge
        self.log += moved.made
        if known is None:
            return
        races = [*known.apply(cta, moved.made, first)]
        if races:
            raise RacedError(races[0], Reached(tuple(self.asks), tuple(self.log)))
        if known.unclear or known.loose:
            raise UnfitError

    def _note(self, made: Made) -> None:
        """Record the bytes of a plain access.  Raise UnfitError for an unordered atomic."""
        pc = made.event.pc
        atomic, _, size = memory_effect(self.flags.code[pc], data=pc in self.flags.data)
        if not atomic:
            for _, address in made.addresses:
                if not is_own(address):
                    self.plain.add((address & ~ADDRESS_WRAPPED, size))
        elif pc not in self.flags.ordered:
            raise UnfitError


def _covers(later: Location, earlier: Location) -> bool:
    """Return whether a read of a later value acquires all that a read of an earlier one does."""
    if WIDE not in earlier.given:
        return True
    row, other = earlier.given[WIDE], later.given.get(WIDE, earlier.given[WIDE][:0])
    return not (row > np.pad(other, (0, max(len(row) - len(other), 0)))[: len(row)]).any()
