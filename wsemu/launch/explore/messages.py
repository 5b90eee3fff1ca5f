"""Launches whose CTAs publish values at locations that only one CTA writes: flags, look-backs, chains.

Such a launch has many interleavings, since a CTA may read a flag before or after it is set, and then behaves
differently.  But the behavior of one CTA depends only on what it reads from others.  So each CTA is followed alone.  An
ordered access returns the initial value, or any value that another CTA may ever write there; each of these is tried.
The values that a CTA writes are *messages* that the others may read.  The search continues until it finds no new
message.  In any interleaving, and with weaker memory, each CTA takes one of these paths (thread-modular reasoning:
Flanagan, Qadeer, "Thread-Modular Model Checking", SPIN 2003).

A message is a location and a value.  It carries what its writer has released: the bytes that the writer had written,
and what it knew from earlier messages.  If several paths lead to one message, it carries only what all of them release.

A launch is proven if

* Only one CTA writes each location of ordered accesses.  Only one CTA writes each other byte that CTAs share, and only
  once.
* A CTA that reads a byte of another CTA knows, from messages, that it was written.
* No path fails, and none returns to an earlier state.
* CTAs can be ordered so that each waits only for earlier ones, whose final values let it proceed from any state.

If values of shared bytes differ between paths, they must not influence control flow or addresses (`proof/contents.py`).

CTAs that begin alike and whose first ordered access draws a number are followed as if they drew their numbers in the
order of the CTAs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.launch.explore.ways import MOST_MESSAGES, Message, Own, State, UnfitError, is_own
from wsemu.model.isa import (
    ADDRESS_WRAPPED,
    ATOMICS,
    FIRST_ARRAY,
    NAMES,
    NO_STORE,
    SCOPES,
    SEGMENT_SHIFT,
    access_shape,
)
from wsemu.proof.robust import weak
from wsemu.proof.threads import Location, Shared, memory_effect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from wsemu.launch.explore.session import Ask, Moved, Session
    from wsemu.model.bound import Bound
    from wsemu.proof.threads import Made, Place

MOST_STEPS = 500
"""maximum number of ordered accesses for one unit of effort"""
CLOCKS = 1 << 17
"""number of entries of a CTA's vector clocks for which a step counts as one more step"""
MOST_KEPT = 1 << 30
"""maximum size of the saved states, in bytes"""
MOST_BYTES = 1 << 21
"""maximum total size of the arrays, in bytes"""
_OFFSET = (1 << SEGMENT_SHIFT) - 1
_WIDE = -1


class Messages:
    """One launch."""

    def __init__(
        self, bound: Bound, session: Session, begin: Callable[[Shared], Own],
        apart: Callable[[int, list[Ask]], bool], steering: Callable[[], frozenset[int]],
        data: frozenset[int] = frozenset(),
    ) -> None:  # fmt: skip
        """`apart` returns whether some lanes of a CTA may run ahead of others, `steering` which arrays influence
        control flow or addresses; `data` are strong accesses that count as plain ones."""
        self.data = data
        self.bound, self.session, self.begin = bound, session, begin
        self.apart, self.steering = apart, steering
        self.code = bound.program.code.tolist()
        self.bases = np.cumsum([0, *(len(data) for data, _ in bound.segments)]).tolist()
        self.initial = [data.copy() for data, _ in bound.segments]
        self.shared = [Shared() for _ in range(session.ctas)]
        self.states: list[dict[bytes, State]] = [{} for _ in range(session.ctas)]
        self.messages: dict[Place, dict[bytes, Message]] = {}
        self.count = 0
        self.writer: dict[Place, int] = {}
        self.sizes: dict[Place, int] = {}
        self.content = np.concatenate([np.zeros(0, np.uint8), *self.initial])
        """contents of all arrays, with the plain stores of CTAs"""
        self.owner = np.full(len(self.content), -1, np.int16)
        """for each byte, the CTA that has written it"""
        self.twice: set[int] = set()
        """bytes that a CTA writes again on some path"""
        self.differs: set[int] = set()
        """arrays whose contents differ by path"""
        self.reads: list[dict[bytes, set[tuple[int, int]]]] = [{} for _ in range(session.ctas)]
        self.unordered: set[tuple[int, int]] = set()
        self.steps = 0
        self.spent = 0.0
        """number of steps; those of a step that takes long count more than once"""
        self.spare: Place | None = None
        """location from which CTAs draw their numbers"""

    def is_proven(self) -> bool:
        """Return whether the launch is right in all orders."""
        if self.bound.uninitialized or self.session.ctas == 1 or len(self.content) > MOST_BYTES:
            return False
        try:
            self._explore()
            self._check_bytes()
            self._check_interleavings()
            self._check_ways()
            return self._makes_progress() and not (self.differs and self.differs & self.steering())
        except UnfitError:
            return False

    @property
    def one_result(self) -> bool:
        """Return whether all paths leave the same values."""
        ends = [{b"".join(d.tobytes() for d in s.image) for s in own.values() if s.status == "done"}
                for own in self.states]  # fmt: skip
        return all(len(end) == 1 for end in ends) and self.spare is None

    def _flat(self, address: int) -> int:
        return int(self.bases[self._number(address)]) + (address & _OFFSET)

    def _number(self, address: int) -> int:
        """Return the number of an address's array."""
        number = ((address & ~ADDRESS_WRAPPED) >> SEGMENT_SHIFT) - FIRST_ARRAY
        if not 0 <= number < len(self.initial):
            raise UnfitError
        return number

    # -- all ways of all CTAs ------------------------------------------------------------------------------------------
    def _explore(self) -> None:
        while True:
            before = self.count, self.steps
            news = False
            for cta in range(self.session.ctas):
                news |= self._explore_one(cta)
            if not news and self.count == before[0] and self.steps == before[1]:
                return

    def _explore_one(self, cta: int) -> bool:
        """Follow a CTA as far as the known messages allow.  Return whether something new was found."""
        news = False
        while not self.states[cta] or self.shared[cta].grown:
            self.shared[cta].grown = False
            self.states[cta] = {}
            self._begin_all(cta)
            news = True
        work = list(self.states[cta].values())
        while work:
            state = work.pop()
            for ask in state.asks:
                for value, message in self._options(state, ask):
                    if (ask, value) in state.moves:
                        continue
                    news = True
                    child = self._step(state, ask, value, message)
                    if self.shared[cta].grown:
                        return self._explore_one(cta) or True
                    if child is not None:
                        work.append(child)
        return news

    def _begin_all(self, cta: int) -> None:
        """Run a CTA to its first ordered accesses."""
        session = self.session
        moved = session.start()
        if self.spare is not None or (cta == 0 and self._draws(moved)):
            self._draw_tickets(moved)
        start = [data.copy() for data, _ in self.bound.segments]
        own = self._knowledge(cta)
        made = moved[cta].made
        image = self._image(self.initial, made, start)
        state = State(
            cta, session.save(cta), image, session.digest(cta), moved[cta].status, session.asks(cta), own, len(made)
        )
        self._record_state(state, moved[cta])

    def _draws(self, moved: list[Moved]) -> bool:
        """Return whether CTAs begin alike and draw numbers: all of them are before an `add` of one to the same
        location."""
        session = self.session
        asks = [session.asks(cta) for cta in range(session.ctas)]
        digests = {session.digest(cta) for cta in range(session.ctas)}
        if len(digests) > 1 or session.ctas == 1 or any(len(a) != 1 for a in asks):
            return False
        if any(not is_own(address) for m in moved for one in m.made for _, address in one.addresses):
            return False
        places = {a[0].place for a in asks}
        name = NAMES[self.code[asks[0][0].pc][0]]
        if len(places) != 1 or asks[0][0].place[0] >= 0 or ATOMICS[name][0] != "add" or ATOMICS[name][1][0] == "f":
            return False
        if any(session.operand(a[0]) == 0 or self.code[a[0].pc][7] & SCOPES for a in asks):
            return False
        self.spare = asks[0][0].place
        return True

    def _draw_tickets(self, moved: list[Moved]) -> None:
        """Let every CTA draw its number, in their order."""
        for cta in range(self.session.ctas):
            (ask,) = self.session.asks(cta)
            one = self.session.go(ask)
            moved[cta] = one._replace(made=[*moved[cta].made, *one.made])

    def _knowledge(self, cta: int) -> Own:
        own = self.begin(self.shared[cta])
        own.of(cta, self._flat, self.reads[cta])
        return own

    def _options(self, state: State, ask: Ask) -> list[tuple[bytes, Message | None]]:
        """Return the values that an access may read."""
        place = ask.place
        if place == self.spare:
            raise UnfitError
        if place[0] >= 0:
            return [(b"own", None)]
        size = access_shape(NAMES[self.code[ask.pc][0]])[1]
        if self.code[ask.pc][7] & SCOPES:
            raise UnfitError  # it does not have to be atomic with those of others
        if self.sizes.setdefault(place, size) != size:
            raise UnfitError
        if self.writer.get(place) == state.cta:
            return [(b"own", None)]
        first = self._read_value(self.initial, place)
        return [(first, None), *((m.value, m) for m in self.messages.get(place, {}).values())]

    def _read_value(self, image: list[Any], place: Place) -> bytes:
        number, offset = self._number(place[1]), place[1] & _OFFSET
        return bytes(image[number][offset : offset + self.sizes[place]])

    # -- one step ------------------------------------------------------------------------------------------------------
    def _step(self, state: State, ask: Ask, value: bytes, message: Message | None) -> State | None:
        session, cta = self.session, state.cta
        self.steps += 1
        cost = 1 + state.knowledge.of_cta * state.knowledge.width / CLOCKS
        self.spent += cost
        if self.spent > MOST_STEPS * session.effort or session.is_spent:
            raise UnfitError
        if self.steps * session.state_bytes() > MOST_KEPT:
            raise UnfitError
        knowledge = state.knowledge.copy()
        session.load(cta, state.saved)
        self._prepare_memory(state, ask.place, value)
        if value != b"own":
            row = np.zeros(knowledge.width, np.int32)
            if message is not None:
                row[knowledge.total + message.number] = 1
            knowledge.locations[ask.place] = Location({}, {_WIDE: row} if message is not None else {})
        moved = session.go(ask)
        session.spend(cost, moved.made)
        wrote = self._writes(ask, moved.made)
        if wrote and ask.place[0] < 0 and self.writer.setdefault(ask.place, cta) != cta:
            raise UnfitError
        if wrote and value != b"own" and message is not None:
            raise UnfitError  # it was another's
        now = [data.copy() for data, _ in self.bound.segments]
        image = self._image(state.image, moved.made, now)
        if wrote and ask.place[0] < 0:
            _store_value(image, ask.place, self._read_value(now, ask.place))
        child = State(
            cta, session.save(cta), image, session.digest(cta), moved.status, session.asks(cta), knowledge,
            state.number + len(moved.made),
        )  # fmt: skip
        same = child.digest == state.digest and moved.status == state.status and _equal(image, state.image)
        state.moves[ask, value] = not same
        if same:
            if any(one.event.kind == "access" and one.event.pc != ask.pc for one in moved.made):
                raise UnfitError
            if list(knowledge.apply(cta, moved.made, state.number)):  # a polled location is written by a plain store
                raise UnfitError
            return None
        found = self._record_state(child, moved)
        if wrote and ask.place[0] < 0:
            self._record_write(ask.place, self._read_value(image, ask.place), child)
        if found is None:
            return None
        state.after.add(found[0])
        return found[1]

    def _prepare_memory(self, state: State, place: Place, value: bytes) -> None:
        """Prepare memory as a CTA sees it: values written by others, its own values, and the value that it is about to
        read."""
        flat, own = self.content.copy(), _flat(state.image)
        mine = self.owner == state.cta
        for at, cta in self.writer.items():
            if cta == state.cta:
                mine[self._flat(at[1]) : self._flat(at[1]) + self.sizes[at]] = True
        flat[mine] = own[mine]
        for (data, writable), start in zip(self.bound.segments, self.bases, strict=False):
            if writable:
                data[:] = flat[start : start + len(data)]
        if place[0] < 0 and value != b"own":
            _store_value([data for data, _ in self.bound.segments], place, value)

    def _writes(self, ask: Ask, made: Iterable[Made]) -> bool:
        """Return whether the access that was let go has written."""
        first = next((one for one in made if one.event.kind == "access"), None)
        if first is None or first.event.pc != ask.pc:
            raise UnfitError
        return bool(first.wrote >> ask.lane & 1) and not self.code[ask.pc][7] & NO_STORE

    def _image(self, before: list[Any], made: Iterable[Made], now: list[Any]) -> list[Any]:
        """Return a CTA's memory, including its latest plain stores."""
        image = [data.copy() for data in before]
        for one in made:
            if one.event.kind != "access":
                continue
            atomic, stores, size = memory_effect(self.code[one.event.pc], data=one.event.pc in self.data)
            if atomic or not stores:
                continue
            for _, address in one.addresses:
                if is_own(address):
                    continue
                number, offset = self._number(address), address & _OFFSET
                end = offset + size
                image[number][offset:end] = now[number][offset:end]
        return image

    def _record_state(self, state: State, moved: Moved) -> tuple[bytes, State] | None:
        """Record a state that a CTA has reached.  Return its key, and the state if it is new; None to restart."""
        cta, knowledge = state.cta, state.knowledge
        before = len(knowledge.wrote)
        races = list(knowledge.apply(cta, moved.made, state.number - len(moved.made)))
        if self.shared[cta].grown:
            return None
        if races or moved.findings or moved.status not in ("done", "stands") or knowledge.unclear:
            raise UnfitError
        if (moved.status == "stands" and not state.asks) or self.apart(cta, state.asks):
            raise UnfitError
        self._note(state, before)
        key = state.key()
        known = self.states[cta].get(key)
        if known is not None:
            return key, known
        self.states[cta][key] = state
        return key, state

    def _note(self, state: State, before: int) -> None:
        """Publish the values that a CTA has written to the other CTAs."""
        wrote, flat = state.knowledge.wrote, _flat(state.image)
        own = {at for w in wrote[:before] for at in range(w.start, w.start + w.size)}
        for w in wrote[before:]:
            there = slice(w.start, w.start + w.size)
            if not np.isin(self.owner[there], (-1, state.cta)).all():
                raise UnfitError
            if (self.owner[there] == state.cta).any() and (self.content[there] != flat[there]).any():
                self.differs.add(int(np.searchsorted(self.bases, w.start, "right")) - 1)
            else:
                self.content[there] = flat[there]
            self.owner[there] = state.cta
            bytes_ = set(range(w.start, w.start + w.size))
            self.twice |= own & bytes_
            own |= bytes_
        self.unordered.update(state.knowledge.unordered)

    def _record_write(self, place: Place, value: bytes, state: State) -> None:
        """Record that a CTA has written at a location of ordered accesses."""
        knowledge = state.knowledge
        location = knowledge.locations.get(place)
        row = location.given.get(_WIDE) if location else None
        if row is None:
            row = np.zeros(knowledge.width, np.int32)
        there = self.messages.setdefault(place, {})
        if value not in there:
            if self.count >= MOST_MESSAGES:
                raise UnfitError
            there[value] = Message(place, value, state.cta, self.count)
            self.count += 1
        row = np.pad(row, (0, max(knowledge.width - len(row), 0)))
        there[value].variants.add((knowledge.messages(row).tobytes(), knowledge.released_bytes(row)))

    # -- what is asked of all ways -------------------------------------------------------------------------------------
    def _check_bytes(self) -> None:
        """Check that each reader of another CTA's write has observed it, and that strong locations and shared bytes are
        disjoint."""
        masks = self._masks()
        strong = {at for p, size in self.sizes.items() for at in range(self._flat(p[1]), self._flat(p[1]) + size)}
        if len(strong) < sum(self.sizes.values()):
            raise UnfitError
        summed = {at for start, size in self.unordered for at in range(start, start + size)}
        written = set(np.flatnonzero(self.owner >= 0).tolist())
        if strong & written or summed & (strong | written):
            raise UnfitError
        drawn = (
            set[int]() if self.spare is None else set(range(self._flat(self.spare[1]), self._flat(self.spare[1]) + 8))
        )
        if drawn & (written | summed | strong):
            raise UnfitError
        for cta, own in enumerate(self.reads):
            for known, reads in own.items():
                at = {b for start, size in reads for b in range(start, start + size)}
                if at & (strong | summed | drawn):
                    raise UnfitError
                others = {b for b in at if self.owner[b] not in (-1, cta)}
                if others & self.twice or others - _published_bytes(known, masks):
                    raise UnfitError

    def _masks(self) -> list[set[int]]:
        """Return, for each message, the bytes whose writes its reader has observed: those that every path to the
        message releases."""
        every = [m for there in self.messages.values() for m in there.values()]
        masks: list[set[int]] = [set() for _ in every]
        while True:
            grown = False
            for message in every:
                parts = [
                    {b for start, size in released for b in range(start, start + size)} | _published_bytes(known, masks)
                    for known, released in message.variants
                ]
                mask = set.intersection(*parts)
                grown |= mask != masks[message.number]
                masks[message.number] = mask
            if not grown:
                return masks

    def _check_interleavings(self) -> None:
        """Raise UnfitError if threads of a CTA exchange values that no interleaving of them shows.

        Values that pass through other CTAs have been tried at every time.
        """
        for shared in self.shared:
            if weak(shared.pairs, shared.strong, self.begin(shared).spread) is not None:
                raise UnfitError

    def _check_ways(self) -> None:
        """Check that no path returns to an earlier state."""
        for own in self.states:
            before = dict.fromkeys(own, 0)
            for state in own.values():
                for key in state.after:
                    before[key] += 1
            todo = [key for key, count in before.items() if not count]
            done = 0
            while todo:
                key = todo.pop()
                done += 1
                for later in own[key].after:
                    before[later] -= 1
                    if not before[later]:
                        todo.append(later)
            if done < len(own):
                raise UnfitError

    def _makes_progress(self) -> bool:
        """Return whether CTAs can be ordered so that each waits only for earlier ones."""
        ends: dict[Place, set[bytes]] = {}
        for place, cta in self.writer.items():
            done = [state for state in self.states[cta].values() if state.status == "done"]
            ends[place] = {self._read_value(state.image, place) for state in done}
        finished, left = set[int](), set(range(self.session.ctas))
        while left:
            able = {cta for cta in left if all(self._leaves(s, ends, finished) for s in self.states[cta].values())}
            if not able:
                return False
            finished |= able
            left -= able
        return True

    def _leaves(self, state: State, ends: dict[Place, set[bytes]], finished: set[int]) -> bool:
        """Return whether a CTA continues from a state once others have ended."""
        if state.status == "done":
            return True
        for ask in state.asks:
            writer = self.writer.get(ask.place)
            if ask.place[0] >= 0 or writer == state.cta:
                values = {b"own"}
            elif writer is None:
                values = {self._read_value(self.initial, ask.place)}
            elif writer in finished:
                values = ends[ask.place]
            else:
                continue
            if all(state.moves.get((ask, value)) for value in values):
                return True
        return False


def _published_bytes(known: bytes, masks: list[set[int]]) -> set[int]:
    """Return the bytes that some messages, a bit each, publish."""
    bits = np.flatnonzero(np.unpackbits(np.frombuffer(known, np.uint8)))
    return set[int]().union(*(masks[n] for n in bits.tolist()))


def _flat(image: list[Any]) -> Any:
    """Return the bytes of all arrays, which may be none."""
    return np.concatenate([np.zeros(0, np.uint8), *image])


def _equal(one: list[Any], other: list[Any]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def _store_value(image: list[Any], place: Place, value: bytes) -> None:
    number, offset = (place[1] >> SEGMENT_SHIFT) - FIRST_ARRAY, place[1] & _OFFSET
    image[number][offset : offset + len(value)] = np.frombuffer(value, np.uint8)
