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
Or the flag is a counter to which they add (`counters.py`).  docs/how.md, "Flags", has the theorems.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from wsemu.launch.explore.counters import (
    Did,
    Name,
    Order,
    find_counters,
    find_sums,
    is_addition,
    is_used,
    join_locations,
    make_order,
)
from wsemu.launch.explore.flag_reads import FlagReads, Past
from wsemu.launch.explore.nodes import Reached, Result
from wsemu.launch.explore.polls import find_polls, find_rows
from wsemu.launch.explore.spending import STEP
from wsemu.launch.explore.together import Together
from wsemu.launch.explore.ways import UnfitError, check_written, is_own
from wsemu.model.isa import (
    ADDRESS_WRAPPED,
    AS_STORE,
    FIRST_ARRAY,
    LANES,
    NAMES,
    NO_STORE,
    OFFSET_MASK,
    SCOPES,
    SEGMENT_SHIFT,
    SERVED,
    access_shape,
)
from wsemu.model.outcome import FENCES
from wsemu.proof.liveness import lane_bytes, live_rows
from wsemu.proof.thread_keys import WIDE
from wsemu.proof.threads import Location, Shared, memory_effect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from wsemu.launch.explore.session import Ask, Moved, Session
    from wsemu.model.bound import Bound
    from wsemu.model.outcome import Event
    from wsemu.proof.threads import Knowledge, Made, Place, Race

MOST_STEPS = 4_000
"""maximum number of ordered accesses, including those that test whether a wait continues"""
READ = 0.4
"""number of steps that an ordered access counts as: it saves no state"""
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
        self.bound, self.segments = bound, bound.segments
        self.polls = find_polls(bound.program, ordered)
        self.live, self.widths = live_rows(bound.program), lane_bytes(bound.program)
        half = session.account.left / 2 / (READ * STEP * session.weight)  # the rest is for the search
        self.most = int(min(MOST_STEPS * session.effort, half))
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
        self.ends: set[bytes] = set()
        """digests of the final arrays, one for each last ticket"""
        self.sums: frozenset[Place] = frozenset()
        """locations at which all strong accesses are atomics that commute, whose results are unused"""
        self.counters: dict[Place, int] = {}
        """locations to which several threads add, with their size in bytes"""
        self.found: dict[Place, int] = {}
        """counters of the last execution without clocks"""
        self.tickets: frozenset[Name] = frozenset()
        """additions at counters whose results are used"""
        self.last: Name | None = None
        """the ticket that is the last one"""
        self.orders: dict[Place, Order] = {}
        """the order at each counter in the execution before this one; empty in the first one with clocks"""
        self.acquired: dict[Name, frozenset[Name]] = {}
        """end of a wait for a counter -> the additions from which it acquired in the execution before this one"""
        self.known_ends: dict[tuple[object, ...], bool] = {}
        """for a loop, its registers and a value: whether it ends"""
        self.program = bound.program
        self.of_cta = begin(Shared()).of_cta

    def is_proven(self) -> bool:
        """Return whether the launch is right in all executions; the arrays hold what each of them leaves."""
        if any(self.code[pc][7] & SCOPES or ".cas." in NAMES[self.code[pc][0]] for pc in self.ordered):
            return False
        try:
            self._collect_values()
            try:
                self._judge()
            except UnfitError:
                if not self.found:
                    raise
                self._judge_counters()
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
        sums = find_sums(self.code, self.live, run.writes, run.read)
        self.values = {place: values for place, values in run.values.items() if place not in sums}
        self.writers = {place: writers for place, writers in run.writers.items() if place not in sums}
        self.found = find_counters(self.code, self.live, run.writes, sums)
        self.sums = sums

    def _judge_counters(self) -> None:
        """Judge the executions for each ticket that may be the last one.  Raise UnfitError if they are not all right,
        or if several counters have tickets."""
        self.counters = self.found
        run = _Run(self, None)
        run.finish()
        tickets = [one for one in run.did if one.is_ticket]
        if len({one.place for one in tickets}) > 1 or len({one.name[0] for one in tickets}) < len(tickets):
            raise UnfitError
        self.tickets = frozenset(one.name for one in tickets)
        for last in sorted(self.tickets) or (None,):
            self.last = last
            self._collect_values()
            while self.found.keys() > self.counters.keys():
                self.counters = self.found
                self._collect_values()
            if self.found != self.counters:
                raise UnfitError
            self._judge()

    def _judge(self) -> None:
        """Judge the executions in which `last` is the last ticket.  Raise UnfitError if they are not all right."""
        self.orders, self.acquired = {}, {}
        shared = Shared()
        while not self._run(shared):
            pass
        self.ends.add(self.session.digest_memory())

    def _run(self, shared: Shared) -> bool:
        """Run the launch with vector clocks.  Return whether `shared`, and the order at counters, were complete
        before."""
        shared.grown = False
        run = _Run(self, self.begin(shared))
        run.finish()
        if run.values != self.values or run.writers != self.writers:
            raise UnfitError
        self.met = Together(run.most_alive, run.waits)
        orders = run.find_orders()
        is_same = orders == self.orders and run.acquired == self.acquired
        self.orders, self.acquired = orders, run.acquired
        return is_same and not shared.grown

    def count_step(self) -> None:
        """Raise UnfitError if the accesses become too many."""
        self.steps += 1
        self.session.spend(READ)
        if self.steps > self.most or self.session.is_spent:
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
        self.read: set[Place] = set()
        """all locations that strong reads have accessed"""
        self.writes: defaultdict[Place, list[tuple[int, int, int]]] = defaultdict(list)
        """location -> thread, instruction and operand of each write"""
        self.did: list[Did] = []
        """additions, ends of waits, and last stores at counters"""
        self.added: dict[Name, Location] = {}
        """addition -> clocks that a read of the counter acquires from it"""
        self.acquired: dict[Name, frozenset[Name]] = {}
        """for each end of a wait, the additions from which it has acquired; see `Flags`"""
        self.unordered: set[tuple[int, int]] = set()
        """(address, bytes) of atomics that commute, whose results are unused"""

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
        if self.knowledge is None:
            return
        strong = {at for place in self.values for at in range(place[1], place[1] + len(self.values[place][0]))}
        sizes = sum(len(values[0]) for values in self.values.values())
        others = self.plain | self.unordered
        if len(strong) < sizes or any(at in strong for start, n in others for at in range(start, start + n)):
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
        """Let the lanes of a loop read their flags once, if that lets one of them continue."""
        self._note_read(*(ask.place for ask in asks))
        if any(ask.place in self.flags.counters for ask in asks):
            return bool(sum([self._await_number(ask) for ask in asks]))
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

    def _lane_state(self, ask: Ask, rows: frozenset[int] | None = None) -> list[bytes]:
        """Return the registers of a lane that are live in its loop, or only some of them."""
        block, found = self.session.snapshot(ask.cta, ask.warp).registers, []
        for row in sorted(self.flags.live[ask.pc] if rows is None else rows):
            size = self.flags.widths.get(row, 8)
            if size:
                found.append(block[row + size * ask.lane : row + size * (ask.lane + 1)].tobytes())
            else:
                found.append(b"%d" % (int(block[row : row + 4].view(np.uint32)[0]) >> ask.lane & 1))
        return found

    # -- counters ------------------------------------------------------------------------------------------------------
    def find_orders(self) -> dict[Place, Order]:
        """Return the order at each counter."""
        found = {}
        for place in self.flags.counters:
            base = int.from_bytes(self._values(place)[0], "little")
            found[place] = make_order((one for one in self.did if one.place == place), base, self.flags.last)
            if base + sum(found[place].amounts.values()) >= 1 << (8 * self.flags.counters[place] - 1):
                raise UnfitError
        return found

    def _await_number(self, ask: Ask) -> bool:
        """Let a wait for a counter end, if it is high enough."""
        place = ask.place
        if place not in self.flags.counters:
            raise UnfitError
        now = int.from_bytes(self._values(place)[-1], "little")
        if not self._ends_wait(ask, now):
            return False
        name = self._name(ask)
        sure = self.acquired[name] = self._find_sure(ask, name, now)
        self._do(ask, name, self._join(sure))
        return True

    def _find_sure(self, ask: Ask, name: Name, now: int) -> frozenset[Name]:
        """Return the additions after which a wait surely ends.  In the first execution with clocks, these are all that
        have been performed."""
        done = {one.name for one in self.did if one.amount and one.place == ask.place}
        if self.knowledge is None or self.learns_all or not self.flags.orders:
            return frozenset(done)
        order = self.flags.orders[ask.place]
        if name not in order.after:
            raise UnfitError
        values = order.list_values(name)
        ending = [value for value in values if self._ends_wait(ask, value)]
        if now not in ending or any(value >= ending[0] and value not in ending for value in values):
            raise UnfitError
        done &= self.flags.acquired[name]
        return frozenset(one for one in done if order.surely_precedes(one, name, ending[0]))

    def _count(self, ask: Ask) -> bool:
        """Let a lane add to a counter, or store there as the last one; return whether it did."""
        pc, name = ask.pc, self._name(ask)
        if not is_addition(self.flags.code, pc):
            self._store_last(ask, name)
            return True
        ticket = is_used(self.flags.code, self.flags.live, pc)
        if name == self.flags.last and not self.flags.tickets <= {name, *(one.name for one in self.did)}:
            return False
        learnt = Location()
        if ticket and self.flags.orders and self.knowledge is not None and not self.learns_all:
            self._check_ticket(ask, name)
        if name == self.flags.last:
            learnt = self._join(one.name for one in self.did if one.amount and one.place == ask.place)
        self._do(ask, name, learnt, self.session.operand(ask), is_ticket=ticket)
        return True

    def _check_ticket(self, ask: Ask, name: Name) -> None:
        """Raise UnfitError if a ticket leads to other states with other results.  The last one has one result."""
        order, reads, size = self.flags.orders[ask.place], self.flags.reads, self.flags.counters[ask.place]
        now = self._values(ask.place)[-1]
        self.alone.add(ask.cta)
        if name not in order.after or name not in self.flags.tickets:
            raise UnfitError
        if name == self.flags.last:
            if order.list_values(name) != [int.from_bytes(now, "little")]:
                raise UnfitError
            return
        values = order.list_values(name, without=self.flags.last)
        ends = [reads.read(ask, value.to_bytes(size, "little"), now) for value in values]
        found = [end for end in ends if end is not None]
        if len(found) < len(ends) or not reads.has_one_end(ask, found):
            raise UnfitError

    def _store_last(self, ask: Ask, name: Name) -> None:
        """Let a lane store to a counter after everything else there.  Raise UnfitError if something may come later."""
        order = self.flags.orders.get(ask.place)
        if order is not None and self.knowledge is not None and not self.learns_all:
            others = order.after.keys() - order.amounts.keys() - {name}
            if order.before.get(name) != order.amounts.keys() or order.earlier[name] != others:
                raise UnfitError
        self._do(ask, name, Location())

    def _do(self, ask: Ask, name: Name, learnt: Location, amount: int = 0, *, is_ticket: bool = False) -> None:
        """Let a lane access a counter, and record it."""
        place, knowledge, first = ask.place, self.knowledge, len(self.log)
        values = self._values(place)
        row = np.zeros(0, np.int32)
        if knowledge is not None:
            row = knowledge.rows[ask.cta][name[0] % self.flags.of_cta].copy()
        stores = not self.flags.code[ask.pc][7] & NO_STORE
        if stores:
            self._note_write(ask)
        after = self._perform_access(ask, None if self.learns_all else learnt)
        made = (one.event for one in self.log[first:] if one.event.pc == ask.pc and one.event.warp == ask.warp)
        event = next(made, None)
        if event is None:
            raise UnfitError
        # the last ticket acquires from other additions as well, whose columns may be higher
        column = knowledge.columns[name[0], place] if stores and knowledge is not None else 0
        count = after.observed.get(column, 0)
        self.did.append(Did(name, place, event.interval, row, amount, is_ticket, column, count))
        self.added[name] = after
        if stores:
            values.append(self._read_value(place, self.flags.counters[place]))
            self.writers[place].append((ask.cta, ask.warp, ask.lane))

    def _join(self, names: Iterable[Name]) -> Location:
        return join_locations(self.added[name] for name in names)

    def _name(self, ask: Ask) -> Name:
        thread = ask.cta * self.flags.of_cta + ask.warp * LANES + ask.lane
        return thread, sum(1 for one in self.did if one.name[0] == thread)

    def _ends_wait(self, ask: Ask, value: int) -> bool:
        """Return whether a wait for a counter ends with a value."""
        flags, data = self.flags, value.to_bytes(self.flags.counters[ask.place], "little")
        key = ask.pc, *self._lane_state(ask, find_rows(flags.program, ask.pc)), value
        if key not in flags.known_ends:
            flags.known_ends[key] = bool(self._leave([ask], {ask.place: data}))
        return flags.known_ends[key]

    def _note_read(self, *places: Place) -> None:
        self.read.update(places)
        if not self.flags.sums.isdisjoint(places):
            raise UnfitError

    def _combine(self, ask: Ask) -> None:
        """Let a lane perform an atomic that commutes with all others at its location, and orders nothing."""
        self._note_write(ask)
        self._perform_access(ask, None if self.learns_all else Location())
        self.unordered.add((ask.place[1], access_shape(NAMES[self.flags.code[ask.pc][0]])[1]))

    def _note_write(self, ask: Ask) -> None:
        thread = ask.cta * self.flags.of_cta + ask.warp * LANES + ask.lane
        is_stored = self.flags.code[ask.pc][7] & SERVED == AS_STORE
        self.writes[ask.place].append((thread, ask.pc, 0 if is_stored else self.session.operand(ask)))

    # -- other accesses ------------------------------------------------------------------------------------------------
    def _pass(self, asks: list[Ask]) -> bool:
        """Let lanes store to flags, or read them; return whether one continued."""
        moved = False
        for ask in asks:
            if self.flags.code[ask.pc][7] & NO_STORE:
                moved |= self._read(ask)
            elif ask.place in self.flags.sums:
                self._combine(ask)
                moved = True
            elif ask.place in self.flags.counters:
                moved |= self._count(ask)
            else:
                self._write(ask)
                moved = True
        return moved

    def _write(self, ask: Ask) -> None:
        """Let a lane store to a flag: the first value, or its next value when it is that writer's turn."""
        place, thread = ask.place, (ask.cta, ask.warp, ask.lane)
        values, writers = self._values(place), self.writers[place]
        before, relays = len(values) - 1, bool(writers) and writers[-1] != thread
        self._note_write(ask)
        if relays and not self.learns_all and self.knowledge is not None and self.turns.get((place, thread)) != before:
            raise UnfitError
        self._perform_access(ask, None)
        values.append(self._read_value(place, len(values[0])))
        writers.append(thread)
        self.floors[place, thread] = before + 1
        if self.knowledge is not None:
            self.after[place].append(self.knowledge.locations[place].copy())
            if relays and not _covers(self.after[place][-1], self.after[place][-2]):
                raise UnfitError

    def _read(self, ask: Ask) -> bool:
        """Let a lane read a flag outside of a polling loop; return whether its CTA continued."""
        values = self._values(ask.place)
        self._note_read(ask.place)
        if ask.place in self.flags.counters and not self.learns_all:
            raise UnfitError
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
            sizes = {access_shape(NAMES[self.flags.code[pc][0]])[1] for pc in self.flags.ordered}
            if place[0] >= 0 or is_own(place[1]) or len(sizes) != 1:
                raise UnfitError
            value = self._read_value(place, *sizes)
            check_written(self.flags.bound, place[1], len(value))
            self.values[place] = [value]
        return self.values[place]

    def _read_value(self, place: Place, size: int) -> bytes:
        number, offset = (place[1] >> SEGMENT_SHIFT) - FIRST_ARRAY, place[1] & OFFSET_MASK
        if not 0 <= number < len(self.flags.segments):
            raise UnfitError
        return bytes(self.flags.segments[number][0][offset : offset + size])

    def _perform_access(self, ask: Ask, learnt: Location | None, value: bytes = b"") -> Location:
        """Perform a lane's access.  A waiting lane acquires what the value releases and changes no clock of its flag.
        `value` is the earlier or later value that it reads.  Return the clocks of the flag after the access, as far as
        they do not come from earlier ones."""
        self.flags.count_step()
        self.asks.append(ask)
        now = self._read_value(ask.place, len(value))
        self.session.write(ask.place, int.from_bytes(value, "little"), len(value))
        moved = self.session.go(ask)
        self.session.write(ask.place, int.from_bytes(now, "little"), len(now))
        if self.knowledge is None or learnt is None:
            self._record_actions(ask.cta, moved)
            return Location()
        locations = self.knowledge.locations
        before = locations.get(ask.place)
        locations[ask.place] = learnt.copy()
        self._record_actions(ask.cta, moved)
        after = locations.pop(ask.place)
        if before is not None:
            locations[ask.place] = before
        return after

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
        """Record the bytes of a plain access, and of an atomic that commutes with all others there."""
        pc = made.event.pc
        atomic, _, size = memory_effect(self.flags.code[pc], data=pc in self.flags.data)
        if atomic and pc in self.flags.ordered:
            return
        for _, address in made.addresses:
            if not is_own(address):
                (self.unordered if atomic else self.plain).add((address & ~ADDRESS_WRAPPED, size))


def _covers(later: Location, earlier: Location) -> bool:
    """Return whether a read of a later value acquires all that a read of an earlier one does."""
    if WIDE not in earlier.given:
        return True
    row, other = earlier.given[WIDE], later.given.get(WIDE, earlier.given[WIDE][:0])
    return not (row > np.pad(other, (0, max(len(row) - len(other), 0)))[: len(row)]).any()
