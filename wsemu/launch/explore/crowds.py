"""Counter abstraction: decide launches whose CTAs are symmetric by the number of CTAs in each state.

Which CTA has reached a barrier of the grid, or holds a lock, does not matter to the others as long as no data depends
on it.  So a state of the launch consists of the number of CTAs at each position and the values at the locations of
ordered accesses.  N CTAs then reach a barrier through N states instead of N! orders.  (Pnueli, Xu, Zuck, "Liveness with
(0,1,infinity)-Counter Abstraction", CAV 2002; the numbers here are exact.)

CTAs are *alike* as long as equal results of equal accesses lead them to the same synchronization.  If some turn out to
differ, the search restarts with more groups.  Each CTA runs on the initial arrays, in which only the location of its
ordered access changes.  So a plain load from an array that the launch writes must not influence control flow or
addresses.

The search first finds the groups and the states, which do not depend on clocks, then follows the clocks, each state
after all that lead to it.  So a launch with too many states costs little.

The clocks of a state hold on every path that leads to it.  For each access, the search finds the earlier accesses of
other CTAs that it has not observed on some path.  No two such accesses may touch one location, whichever CTAs perform
them (`positions.py`).  The launch is then correct in every interleaving; otherwise it is undecided.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wsemu.launch.explore.arrays import copy_arrays, put_back
from wsemu.launch.explore.kin import NOTHING, Did, Kin
from wsemu.launch.explore.search import is_warning
from wsemu.launch.explore.session import Ask
from wsemu.launch.explore.ways import UnfitError
from wsemu.model.data import NamedTuple, dataclass, field
from wsemu.model.isa import (
    AS_STORE,
    ATOMICS,
    FIRST_ARRAY,
    LANES,
    NAMES,
    NO_STORE,
    OPERATIONS,
    SCOPES,
    SEGMENT_SHIFT,
    SERVED,
    access_shape,
)
from wsemu.proof.positions import Position, Positions, Touch
from wsemu.proof.robust import Pair, Strong, weak
from wsemu.proof.threads import Shared, memory_effect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from wsemu.launch.explore.session import Moved, Session
    from wsemu.model.bound import Bound
    from wsemu.proof.threads import Made, MemoryEffect, Place

MOST_MOVES, MOST_STATES = 500, 2_000
"""maximum number of moves of single CTAs, each with one result of its access; maximum number of states of the launch"""
MOVE = 1.5
"""number of steps that a move counts as"""
MOST_GROUPS = 24
"""maximum number of groups of symmetric CTAs; the search restarts with each further group"""
MOST_KEPT = 1 << 30
"""maximum bytes of saved states of single CTAs"""
MOST_BYTES = 1 << 21
"""maximum total size of the arrays, in bytes"""
_OFFSET = (1 << SEGMENT_SHIFT) - 1

Step = tuple[int, int, int, bytes]
"""(warp, lane and instruction of an ordered access, the value that it finds)"""


_Name = tuple[int, int, int, tuple[int, int]]
"""group, thread of a CTA, instruction and location of an ordered access"""


class _SplitError(Exception):
    """CTAs of one group turned out to differ."""

    def __init__(self, groups: list[list[int]]) -> None:
        super().__init__()
        self.groups = groups


class Ran(NamedTuple):
    """The effect of one step of a CTA."""

    saved: Any
    digest: bytes
    status: str
    asks: tuple[Ask, ...]
    made: tuple[Made, ...]
    value: bytes
    """value at the location of its access at that time"""

    def shape(self) -> object:
        """Return the facts that symmetric CTAs have in common."""
        asks = tuple((*ask[1:4], ask.place) for ask in self.asks)
        return self.status, asks, self.value


@dataclass(slots=True)
class Local:
    """The local state of a CTA, within a group."""

    number: int
    group: int
    path: tuple[Step, ...]
    """path that leads to the state"""
    ran: dict[int, Ran]
    """run of each CTA from here"""
    asks: tuple[Ask, ...]
    """accesses of the first CTA of the group"""
    kin: Kin
    shares: int
    moves: dict[tuple[Ask, bytes], Move | None] = field(default_factory=dict)
    """for each (access, value found), the step; None if the CTA waits"""

    @property
    def is_done(self) -> bool:
        return next(iter(self.ran.values())).status == "done"


class Move(NamedTuple):
    """A step of a CTA."""

    to: Local
    place: Place
    value: bytes
    did: Did
    made: tuple[Made, ...]


_NOTHING_DONE = Did(0, (), (), (), ())

Row = tuple[int, int]
"""positions of other CTAs that an observer may not have observed, a bit each, by their local state"""
Unknown = dict[tuple[Row, int], int]
"""observer -> local state of other CTAs -> bit mask of their positions that the observer may not have observed"""


OWN = -2
"""key that replaces a local state of others: the observer's own CTA, whose accesses others may publish"""


class Config(NamedTuple):
    """The number of CTAs in each local state, and the locations that have changed."""

    counts: tuple[tuple[int, int], ...]
    held: tuple[tuple[Place, bytes], ...]


class Advance(NamedTuple):
    """The move of one CTA from a configuration to the next one."""

    to: Config
    local: Local
    move: Move


class Crowds:
    """The search for one launch."""

    def __init__(
        self, bound: Bound, session: Session, begin: Callable[[Shared], Kin], apart: Callable[[int, list[Ask]], bool],
        steering: Callable[[], frozenset[int]],
    ) -> None:  # fmt: skip
        """Prepare the search.  `apart` returns whether some lanes of a CTA may run ahead of others; `steering` returns
        the arrays that influence control flow or addresses."""
        self.bound, self.session, self.begin = bound, session, begin
        self.apart, self.steering = apart, steering
        self.code = bound.program.code.tolist()
        self.initial = copy_arrays(bound)
        self.known: dict[tuple[int, tuple[Step, ...]], Ran] = {}
        self.sizes: dict[Place, int] = {}
        self.numbered: dict[Place, int] = {}
        self.compares: set[int] = set()
        """arrays that a `cas` writes if its comparison succeeds"""
        self.groups = [list(range(session.ctas))]
        self.follows = False
        """true if the clocks of CTAs are followed"""

    def is_proven(self) -> bool:
        """Return whether the launch is correct in all interleavings."""
        held = sum(len(data) for data in self.initial)
        scoped = any(OPERATIONS[NAMES[fields[0]]].kind == "atomic" and fields[7] & SCOPES for fields in self.code)
        if self.bound.uninitialized or self.session.ctas == 1 or held > MOST_BYTES or scoped:
            return False
        try:
            while True:
                try:
                    self._explore(self._begin_attempt(follows=False)[0])
                    return self._attempt()
                except _SplitError as split:
                    self.groups = split.groups
                    if len(self.groups) > MOST_GROUPS * self.session.effort:
                        return False
        except UnfitError:
            return False

    def _attempt(self) -> bool:
        root, unknown = self._begin_attempt(follows=True)
        self._explore(root)
        order = self._order()
        if order is None:
            return False
        self._follow_knowledge(order, root, unknown)
        return self._bytes_fit() and not self.positions.race() and self._strong()

    def _begin_attempt(self, *, follows: bool) -> tuple[Config, Unknown]:
        """Begin with the present groups.  If `follows` is false, clocks are not followed: that is faster, and shows
        which CTAs differ."""
        self.follows, self.shared = follows, Shared()
        kin = self.blank = self.begin(self.shared)
        kin.begin(Positions(kin.grain, self._memory_effect), ())
        self.data, self.ordered, self.threads = kin.data, kin.ordered, kin.of_cta
        self.positions = Positions(kin.grain, self._memory_effect)
        self.locals: list[Local] = []
        self.numbers: dict[object, int] = {}
        self.after: dict[Config, list[Advance]] = {}
        roots = [(self._root(n), len(group)) for n, group in enumerate(self.groups)]
        return self._initial_configuration(roots)

    def _memory_effect(self, pc: int) -> MemoryEffect:
        found = memory_effect(self.code[pc], data=pc in self.data)
        return found._replace(stores=not self.code[pc][7] & NO_STORE) if found.atomic else found

    # -- one CTA -------------------------------------------------------------------------------------------------------
    def _root(self, group: int) -> tuple[Local, Did]:
        ctas = self.groups[group]
        if (0, ()) not in self.known:
            for cta, moved in enumerate(self.session.start()):
                self.known[cta, ()] = self._run_group(cta, moved, b"")
        ran = {cta: self.known[cta, ()] for cta in ctas}
        self._check_same(group, ran)
        if not self.follows:
            return self._local(group, (), ran, self.blank, ()), _NOTHING_DONE
        kin = self.begin(self.shared)
        kin.begin(self.positions, ctas)
        did, shape = kin.go(ran[ctas[0]].made, self._accesses_by_interval(ran), None)
        return self._local(group, (), ran, kin, shape), did

    def _local(self, group: int, path: tuple[Step, ...], ran: dict[int, Ran], kin: Kin, shape: object) -> Local:
        digests = tuple(one.digest for one in ran.values())
        key = group, digests, next(iter(ran.values())).shape()[:2], shape  # type: ignore[index]
        if key not in self.numbers:
            self.numbers[key] = len(self.locals)
            asks = next(iter(ran.values())).asks
            self.locals.append(Local(len(self.locals), group, path, ran, asks, kin, kin.shares))
        local = self.locals[self.numbers[key]]
        _merge(local.kin.before, kin.before)
        _merge(local.kin.gathered, kin.gathered)
        return local

    def _run_group(self, cta: int, moved: Moved, value: bytes) -> Ran:
        asks = self.session.asks(cta)
        failing = [raw for raw in moved.findings if not is_warning(raw) or raw.code == "dangling-arrive"]
        if failing or moved.status not in ("done", "stands"):
            raise UnfitError
        if (moved.status == "stands" and not asks) or any(ask.place[0] >= 0 for ask in asks) or self.apart(cta, asks):
            raise UnfitError
        plain = tuple(one._replace(event=one.event._replace(addresses=-1)) for one in moved.made)
        session = self.session
        return Ran(session.save(cta), session.digest(cta), moved.status, tuple(asks), plain, value)

    def _check_same(self, group: int, ran: dict[int, Ran]) -> None:
        """Restart if CTAs of a group do not behave alike."""
        shapes: dict[object, list[int]] = {}
        for cta, one in ran.items():
            shapes.setdefault((one.shape(), self._synchronization_signature(one.made)), []).append(cta)
        if len(shapes) > 1:
            raise _SplitError([*self.groups[:group], *shapes.values(), *self.groups[group + 1 :]])

    def _synchronization_signature(self, made: Iterable[Made]) -> object:
        """Return the events of a path other than plain accesses."""
        told: list[object] = []
        for one in made:
            if one.event.kind != "access":
                if one.event.kind != "atomic":
                    told.append(one.event._replace(cta=0))
            elif self._is_strong(one.event.pc):
                told.append((one.event._replace(cta=0), one.addresses, one.wrote & one.event.lanes))
        return tuple(told)

    def _is_strong(self, pc: int) -> bool:
        return pc in self.ordered and pc not in self.data

    def _accesses_by_interval(self, ran: dict[int, Ran]) -> dict[tuple[int, int], dict[int, tuple[Touch, ...]]]:
        """Return, by warp and interval, the accesses of each CTA."""
        found: dict[tuple[int, int], dict[int, tuple[Touch, ...]]] = {}
        for cta, one in ran.items():
            lists: dict[tuple[int, int], dict[Touch, None]] = {}
            for made in one.made:
                event = made.event
                if event.kind == "access" and not self._is_strong(event.pc):
                    there = lists.setdefault((event.warp, event.interval), {})
                    there.update(dict.fromkeys(Touch(lane, at, event.pc) for lane, at in made.addresses))
            for key, touches in lists.items():
                found.setdefault(key, {})[cta] = tuple(touches)
        return found

    def _move(self, local: Local, ask: Ask, value: bytes) -> Move | None:
        """Return a step of all CTAs of a group; None if they wait."""
        step = (ask.warp, ask.lane, ask.pc, value)
        path = (*local.path, step)
        ran = {cta: self._step(cta, local, ask, value, path) for cta in local.ran}
        self._check_same(local.group, ran)
        first = next(iter(ran.values()))
        same = {cta for cta, one in ran.items() if one.digest == local.ran[cta].digest}
        if first.value == value and first.status == "stands" and same:
            self._waits(local, ask, first, same)
            return None
        if not self.follows:
            to = self._local(local.group, path, ran, self.blank, ())
            return Move(to, ask.place, first.value, _NOTHING_DONE, first.made)
        kin = local.kin.copy()
        did, shape = kin.go(first.made, self._accesses_by_interval(ran), ask)
        to = self._local(local.group, path, ran, kin, shape)
        return Move(to, ask.place, first.value, did, first.made)

    def _waits(self, local: Local, ask: Ask, first: Ran, same: set[int]) -> None:
        """Check that the CTAs of a group only wait; restart or give up otherwise."""
        if len(same) < len(local.ran):
            rest = [cta for cta in local.ran if cta not in same]
            before, after = self.groups[: local.group], self.groups[local.group + 1 :]
            raise _SplitError([*before, sorted(same), rest, *after])
        stores = self.code[ask.pc][7] & SERVED == AS_STORE and self._writes(ask, first.made)
        if stores or any(one.event.kind == "access" and one.event.pc != ask.pc for one in first.made):
            raise UnfitError

    def _step(self, cta: int, local: Local, ask: Ask, value: bytes, path: tuple[Step, ...]) -> Ran:
        if (cta, path) not in self.known:
            if len(self.known) >= MOST_MOVES * self.session.effort or self._is_full() or self.session.is_spent:
                raise UnfitError
            session, size = self.session, self._size(ask)
            session.load(cta, local.ran[cta].saved)
            put_back(self.bound, self.initial)
            session.write(ask.place, int.from_bytes(value, "little"), size)
            moved = session.go(ask._replace(cta=cta))
            session.spend(MOVE, moved.made)
            self.known[cta, path] = self._run_group(
                cta, moved, self._read_value([d for d, _ in self.bound.segments], ask.place)
            )
        return self.known[cta, path]

    def _is_full(self) -> bool:
        """Return whether the saved states of CTAs exceed their memory limit."""
        return len(self.known) * self.session.state_bytes() > MOST_KEPT

    def _writes(self, ask: Ask, made: Iterable[Made]) -> bool:
        """Return whether the released access has written."""
        first = next((one for one in made if one.event.kind == "access"), None)
        if first is None or first.event.pc != ask.pc:
            raise UnfitError
        return bool(first.wrote >> ask.lane & 1) and not self.code[ask.pc][7] & NO_STORE

    def _size(self, ask: Ask) -> int:
        """Return the number of bytes of an access to an array."""
        place, size = ask.place, access_shape(NAMES[self.code[ask.pc][0]])[1]
        number = (place[1] >> SEGMENT_SHIFT) - FIRST_ARRAY
        if not 0 <= number < len(self.initial) or (place[1] & _OFFSET) + size > len(self.initial[number]):
            raise UnfitError
        if self.sizes.setdefault(place, size) != size:
            raise UnfitError
        if ATOMICS[NAMES[self.code[ask.pc][0]]][0] == "cas":
            self.compares.add(number)
        return size

    def place_number(self, place: Place) -> int:
        """Return the number of a location in the tables of knowledge."""
        return self.numbered.setdefault(place, len(self.numbered))

    def _read_value(self, image: list[Any], place: Place) -> bytes:
        number, offset = (place[1] >> SEGMENT_SHIFT) - FIRST_ARRAY, place[1] & _OFFSET
        return bytes(image[number][offset : offset + self.sizes[place]])

    # -- all of them ---------------------------------------------------------------------------------------------------
    def _initial_configuration(self, roots: list[tuple[tuple[Local, Did], int]]) -> tuple[Config, Unknown]:
        """Return the initial configuration: CTAs act independently up to their first ordered access."""
        counts = tuple(sorted((local.number, count) for (local, _), count in roots))
        unknown: Unknown = {}
        for (local, did), count in roots:
            for later, earlier, lanes, _ in did.own:  # nothing is acquired so far
                self.positions.note_own(self.positions.all[later], self.positions.all[earlier], lanes)
            for (other, theirs), _ in roots:
                if other is local and count == 1:
                    continue
                for share in range(local.shares):
                    unknown[(local.number, share), other.number] = theirs.made
                for number, _ in did.accesses:
                    self.positions.across[number] = self.positions.across.get(number, 0) | theirs.made
        return Config(counts, ()), unknown

    def _explore(self, root: Config) -> None:
        """Find all configurations.  What threads have observed does not influence them."""
        self.after = {root: []}
        todo = [root]
        while todo:
            config = todo.pop()
            for advance in self._advances(config):
                self.after[config].append(advance)
                if advance.to not in self.after:
                    if len(self.after) >= MOST_STATES * self.session.effort:
                        raise UnfitError
                    self.after[advance.to] = []
                    todo.append(advance.to)

    def _advances(self, config: Config) -> Iterator[Advance]:
        held = dict(config.held)
        moves = False
        for number, _ in config.counts:
            local = self.locals[number]
            for ask in local.asks:
                self._size(ask)
                value = held.get(ask.place) or self._read_value(self.initial, ask.place)
                if (ask, value) not in local.moves:
                    local.moves[ask, value] = self._move(local, ask, value)
                move = local.moves[ask, value]
                if move is not None:
                    moves = True
                    yield Advance(self._next_configuration(config, local, move), local, move)
        if not moves and not all(self.locals[number].is_done for number, _ in config.counts):
            raise UnfitError  # a deadlock

    def _next_configuration(self, config: Config, local: Local, move: Move) -> Config:
        counts = _others(config, local)
        counts[move.to.number] = counts.get(move.to.number, 0) + 1
        held = dict(config.held)
        held[move.place] = move.value
        if move.value == self._read_value(self.initial, move.place):
            del held[move.place]
        return Config(tuple(sorted(counts.items())), tuple(sorted(held.items())))

    def _order(self) -> list[Config] | None:
        """Return the configurations, each after all that lead to it; None if one repeats, so that the launch may not
        end."""
        before = dict.fromkeys(self.after, 0)
        for advances in self.after.values():
            for advance in advances:
                before[advance.to] += 1
        order = [config for config, count in before.items() if not count]
        for config in order:
            for advance in self.after[config]:
                before[advance.to] -= 1
                if not before[advance.to]:
                    order.append(advance.to)
        return order if len(order) == len(before) else None

    def _follow_knowledge(self, order: list[Config], root: Config, unknown: Unknown) -> None:
        """Find what threads have observed in each configuration, whichever path leads to it."""
        found: dict[Config, Unknown] = {root: unknown}
        for config in order:
            known = found.pop(config)
            for to, local, move in self.after[config]:
                told = _Told(self, known, local, _others(config, local), move).unknown()
                found[to] = _join_unknown(found[to], told) if to in found else told

    # -- conditions for all paths -------------------------------------------------------------------------------------
    def _bytes_fit(self) -> bool:
        """Return whether locations of ordered accesses overlap neither each other nor other accesses, and whether only
        they receive values that influence control flow or addresses."""
        units = [unit for (_, at), size in self.sizes.items() for unit in range(at, at + size)]
        places = [(at, size) for (_, at), size in self.sizes.items()]
        if len(set(units)) < len(units) or self.positions.touch(places):
            return False
        steering = self.steering()
        return self.compares <= steering and not self.positions.write(steering)

    def _strong(self) -> bool:
        """Return whether the ordered accesses have only executions that are interleavings.

        An access counts as a plain one if acquired clocks order it before or after all conflicting accesses.
        """
        if len(self.shared.places) < 2:
            return True
        self._find_followers()
        kept = set[tuple[bool, frozenset[_Name]]]()
        for one, other, apart in self.positions.conflicting_pairs():
            kept.add((apart, frozenset((self._name(one), self._name(other)))))
        named = set[_Name]().union(*(names for _, names in kept))
        pairs, strong = set[Pair](), set[Strong]()
        group_of = {cta: number for number, ctas in enumerate(self.groups) for cta in ctas}

        def name(access: Strong) -> _Name:
            cta, thread = divmod(access.thread, self.threads)
            return group_of[cta], thread, access.pc, access.place

        def meet(one: Strong, other: Strong) -> bool:
            apart = one.thread // self.threads != other.thread // self.threads
            return (apart, frozenset((name(one), name(other)))) in kept

        for number, group in enumerate(self.groups):
            of_group = self.followed[number]
            own = {a for a in of_group.strong if (number, a.thread, a.pc, a.place) in named}
            both = {pair for pair in of_group.pairs if {pair.first, pair.second} <= own}
            for cta in group[: 3 * len(self.shared.places)]:
                pairs |= {
                    p._replace(first=self._with_thread(p.first, cta), second=self._with_thread(p.second, cta))
                    for p in both
                }
                strong |= {self._with_thread(access, cta) for access in own}
        return weak(pairs, strong, meet=meet) is None

    def _name(self, position: Position) -> _Name:
        """Return the name of an ordered access's position."""
        cta, ((lane, address, pc),) = next(iter(position.places.items()))
        group = next(n for n, ctas in enumerate(self.groups) if cta in ctas)
        return group, position.warp * LANES + lane, pc, (-1, address)

    def _with_thread(self, access: Strong, cta: int) -> Strong:
        return access._replace(thread=cta * self.threads + access.thread)

    def _find_followers(self) -> None:
        """Find the strong accesses of a CTA that follow each other, on all of its paths."""
        self.followed = [Shared() for _ in self.groups]
        todo = list(self.locals)
        while todo:
            local = todo.pop()
            for (ask, _), move in local.moves.items():
                if move is None:
                    continue
                kin = local.kin.copy()
                kin.shared = self.followed[local.group]
                kin.go(move.made, {}, ask)
                to = move.to.kin
                if _merge(to.before, kin.before) | _merge(to.gathered, kin.gathered):
                    todo.append(move.to)


class _Told:
    """Everything that CTAs have observed of the others after one of them has moved."""

    MOVER = -1
    """the CTA that moves, among observers and local states"""

    def __init__(self, crowds: Crowds, before: Unknown, local: Local, others: dict[int, int], move: Move) -> None:
        self.crowds, self.before, self.local, self.others, self.move = crowds, before, local, others, move
        self.places = {row for row, _ in before if row[0] < 0}
        self.place = -2 - crowds.place_number(move.place)

    def _unknown_positions(self, share: int, other: int) -> int:
        """Return the positions of CTAs that are unknown to a thread with these shares of the CTA that moves."""
        unknown, n = NOTHING, 0
        while share >> n:
            if share >> n & 1:
                row, least = (self.local.number, n), 0 if other != OWN else NOTHING
                if n >= self.local.shares:
                    row, least = (self.place, n - self.local.shares), NOTHING
                about = self.local.number if other == OWN and row[0] < 0 else other
                unknown &= self.before.get((row, about), least)
            n += 1
        return unknown

    def unknown(self) -> Unknown:
        found = self._collect_unknown()
        for n, share in enumerate(self.move.did.rows):
            for other in self.others:
                found[(self.MOVER, n), other] = self._unknown_positions(share, other)
            found[(self.MOVER, n), OWN] = self._unknown_positions(share, OWN) | self.move.did.made
        self._note()
        self._leave(found)
        return self._join_at_place(found)

    def _collect_unknown(self) -> Unknown:
        """Return which positions of each other and of the moving CTA the other CTAs and locations have not observed."""
        found: Unknown = {}
        made, crowds = self.move.did.made, self.crowds
        rows = [(o, share) for o in self.others for share in range(crowds.locals[o].shares)]
        for row in (*rows, *self.places):
            for other, count in (*self.others.items(), (OWN, 1)):
                if (row, other) in self.before and (row[0] != other or count > 1):
                    found[row, other] = self.before[row, other]
            found[row, self.MOVER] = self.before.get((row, self.local.number), NOTHING if row[0] < 0 else 0) | made
        return found

    def _note(self) -> None:
        positions = self.crowds.positions
        for number, shares in self.move.did.accesses:
            for other in self.others:
                for share in shares:
                    positions.across[number] = positions.across.get(number, 0) | self._unknown_positions(share, other)
        for later, earlier, unknown, shares in self.move.did.own:
            if any(self._unknown_positions(share, OWN) >> earlier & 1 for share in shares):
                positions.note_own(positions.all[later], positions.all[earlier], unknown)

    def _leave(self, found: Unknown) -> None:
        """Update the knowledge at the location of the access."""
        for n, left in enumerate(self.move.did.left):
            row = self.place, n
            if left is None:
                for key in [key for key in found if key[0] == row]:
                    del found[key]
                continue
            share, untold = left
            for other in self.others:
                found[row, other] = self._unknown_positions(share, other)
            found[row, self.MOVER] = (self._unknown_positions(share, OWN) | self.move.did.made) & untold

    def _join_at_place(self, found: Unknown) -> Unknown:
        """Add the CTA that has moved to the CTAs at its new position."""
        to, beside = self.move.to.number, self.move.to.number in self.others
        met: Unknown = {}
        for (row, other), mask in found.items():
            key = (to, row[1]) if row[0] == self.MOVER else row, to if other == self.MOVER else other
            met[key] = met.get(key, 0) | mask
        if not beside:
            for n in range(self.move.to.shares):
                met.pop(((to, n), to), None)
        return met


def _others(config: Config, local: Local) -> dict[int, int]:
    """Return the number of CTAs in each local state without the one that moves from `local`."""
    others = dict(config.counts)
    others[local.number] -= 1
    if not others[local.number]:
        del others[local.number]
    return others


def _merge(into: dict[Any, frozenset[Any]], more: dict[Any, frozenset[Any]]) -> bool:
    """Merge sets into a table.  Return whether the table has grown."""
    grown = False
    for key, found in more.items():
        if not found <= into.get(key, frozenset()):
            into[key] = into.get(key, frozenset()) | found
            grown = True
    return grown


def _join_unknown(known: Unknown, more: Unknown) -> Unknown:
    """Merge the clocks of two paths; a location that only one of them has written publishes nothing."""
    none = {key: NOTHING if key[0][0] < 0 or key[1] == OWN else 0 for key in (*known, *more)}
    return {key: known.get(key, least) | more.get(key, least) for key, least in none.items()}
