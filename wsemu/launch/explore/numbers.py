"""Decide launches whose threads draw numbers and then work at locations of these numbers, such as bits of a bitset.

The behavior of a thread depends only on the number that it draws: it reads nothing that a thread with another number
writes.  So each thread is followed alone, with each number that it may get.  A location that a
thread writes may belong to several threads only if a single number leads to it, because one execution gives this number
to one thread: docs/how.md, "Bits
of numbers", has the theorem.

Words of a bitset are shared, but not their bits: what an `and`, `or` or `xor` returns is known only in the bits that no
other thread with another number changes.  So a lock in a bit is free for the thread that draws its number.

Assumptions about other threads are guessed from one round of numbers, and then checked against all rounds.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

import numpy as np

from wsemu.launch.explore.claims import (
    NON_COHERENT_READ,
    READ,
    TOGETHER,
    WRITTEN,
    Alone,
    Thread,
    check_location,
    find_later,
)
from wsemu.launch.explore.partial import ELEMENTS, AmbiguousError, Code, make_value
from wsemu.launch.explore.spending import PRICE
from wsemu.launch.explore.ways import UnfitError, check_written, is_own
from wsemu.model.data import NamedTuple, dataclass, field
from wsemu.model.isa import (
    ADDRESS_WRAPPED,
    ATOMICS,
    FIRST_ARRAY,
    HALVES_OF_VECTOR,
    LANES,
    LOCAL,
    LOCAL_SHIFT,
    NAMES,
    NO_STORE,
    NON_COHERENT,
    OFFSET_MASK,
    OPERATIONS,
    ROW,
    SCOPES,
    SEGMENT_SHIFT,
    SIZE,
    access_shape,
)
from wsemu.proof.liveness import live_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wsemu.launch.explore.partial import Array, Plan
    from wsemu.launch.explore.session import Moved, Session, Snapshot
    from wsemu.model.bound import Bound
    from wsemu.model.outcome import RawFinding
    from wsemu.model.program import Program

MOST_ACCESSES = 250_000
"""The limit of accesses that are followed, for one unit of effort."""
MOST_THREADS = 1_024
"""maximum threads of a launch"""
_MOST_GUESSES = 12
"""attempts from which assumptions are guessed"""
_MOST_OF_LANES = 512
"""The limit of strong accesses that lanes perform in turn."""
_FEW_VALUES = 16
"""values of a counter that are tried one by one"""
_COUNTS, _BITS = ("add", "inc", "dec"), ("and", "or", "xor")
Number = tuple[int, int]
"""A counter, and a number that it gave out."""
Range = tuple[int, int]
"""Bits of a value, and its unknown bits."""


class Owner(NamedTuple):
    """A thread, and the number that it has drawn so far."""

    thread: Thread
    number: Number | None


class Way(NamedTuple):
    """A change of a counter by draws."""

    what: str
    operand: int
    size: int


@dataclass(slots=True)
class Owners:
    """The owners of accesses to a location."""

    threads: set[Thread] = field(default_factory=set)
    numbers: set[Number | None] = field(default_factory=set)
    kinds: set[str] = field(default_factory=set)

    def add(self, owner: Owner, kind: str) -> None:
        self.threads.add(owner.thread)
        self.numbers.add(owner.number)
        self.kinds.add(kind)

    def merge(self, other: Owners) -> None:
        self.threads |= other.threads
        self.numbers |= other.numbers
        self.kinds |= other.kinds

    def are_one(self) -> bool:
        """Return whether at most one of these owners occurs in an execution."""
        return len(self.threads) == 1 or (len(self.numbers) == 1 and None not in self.numbers)

    def conflict(self) -> bool:
        writes = self.kinds - {READ, NON_COHERENT_READ}
        if len(self.kinds) > 1 and (writes - {WRITTEN} or (NON_COHERENT_READ in self.kinds and writes)):
            return True  # the effects of atomics are not followed
        return WRITTEN in writes and not self.are_one()


@dataclass(slots=True)
class Masks:
    """The bits of a word that some accesses change, by the thread or number that alone changes them."""

    of_thread: dict[Thread, int] = field(default_factory=dict)
    of_number: dict[Number, int] = field(default_factory=dict)
    all: int = 0

    def find_own(self, owner: Owner) -> int:
        """Return the bits that no thread with another number changes."""
        number = 0 if owner.number is None else self.of_number.get(owner.number, 0)
        return ~self.all | self.of_thread.get(owner.thread, 0) | number


class Record:
    """Everything that threads did in some rounds."""

    def __init__(self) -> None:
        self.ways: dict[int, Way] = {}
        """The draws from each counter."""
        self.counts: dict[int, dict[Thread, int]] = {}
        """The greatest number of draws of each thread from each counter."""
        self.words: dict[int, int] = {}
        """The size of each word whose bits are changed."""
        self.changed: dict[int, dict[Owner, int]] = {}
        """The bits of each word that each owner changes."""
        self.relied: dict[int, dict[Owner, int]] = {}
        """The bits of each word whose values each owner relied on."""
        self.loaded: set[int] = set()
        """The locations of strong loads that are neither counters nor words of bits."""
        self.touched: dict[tuple[int, int], Owners] = {}
        self._masks: dict[int, Masks] = {}

    def find_masks(self, word: int) -> Masks:
        if word not in self._masks:
            owners: dict[int, Owners] = {}
            for owner, mask in self.changed.get(word, {}).items():
                for bit in range(mask.bit_length()):
                    if mask >> bit & 1:
                        owners.setdefault(bit, Owners()).add(owner, WRITTEN)
            found = self._masks[word] = Masks()
            for bit, those in owners.items():
                found.all |= 1 << bit
                if len(those.threads) == 1:
                    (thread,) = those.threads
                    found.of_thread[thread] = found.of_thread.get(thread, 0) | 1 << bit
                if len(those.numbers) == 1 and None not in those.numbers:
                    (number,) = those.numbers
                    assert number is not None
                    found.of_number[number] = found.of_number.get(number, 0) | 1 << bit
        return self._masks[word]

    def is_like(self, guess: Record) -> bool:
        """Return whether the same counters and words were used."""
        return self.ways == guess.ways and self.counts == guess.counts and self.words == guess.words

    def satisfies(self, guess: Record) -> bool:
        """Return whether the threads did what was assumed of each other."""
        if not self.is_like(guess) or not self.loaded.isdisjoint((*self.ways, *self.words)):
            return False
        return not any(
            known & ~self.find_masks(word).find_own(owner)
            for word, relied in self.relied.items()
            for owner, known in relied.items()
        )

    def are_separate(self) -> bool:
        """Return whether no accesses of two threads conflict."""
        strong = [*((at, way.size) for at, way in self.ways.items()), *self.words.items()]
        cells = [byte for at, size in strong for byte in range(at, at + size)]
        bytes_: dict[int, Owners] = {}
        for (start, size), owners in self.touched.items():
            for at in range(start, start + size):
                bytes_.setdefault(at, Owners()).merge(owners)
        once = len({*cells}) == len(cells) and bytes_.keys().isdisjoint(cells)
        return once and not any(owners.conflict() for owners in bytes_.values())


class Strong(Code):
    """The program of a launch; each atomic whose result is used waits for its values."""

    def __init__(self, bound: Bound, atomics: frozenset[int]) -> None:
        super().__init__(bound, atomics)
        self.chosen = frozenset(pc for pc in atomics if self.fields[pc][2] in self.live[pc + 1])
        self.alike = {}


class Lanes(Alone):
    """The lanes of a warp, each with the number that it gets."""

    def __init__(self, code: Code, start: Snapshot, numbers: Numbers, warp: tuple[int, int]) -> None:
        super().__init__(code, start)
        self.numbers, self.warp = numbers, warp
        self.performed = 0
        """The number of strong accesses."""
        self.drawn: dict[int, Number] = {}
        """The number of each lane."""
        self.local: dict[tuple[int, int], Range] = {}
        """The bytes of local memory that each lane has stored."""
        self.own: dict[tuple[int, int], Range] = {}
        """For each lane and word, the values of the bits that it has changed, and these bits."""
        self.sums: dict[tuple[int, int], tuple[int, int]] = {}
        """For each lane and counter, how often it has drawn, and the sum of its operands."""

    def copy(self) -> Lanes:
        other = super().copy()
        other.drawn, other.own, other.sums = dict(self.drawn), dict(self.own), dict(self.sums)
        other.local = dict(self.local)
        return other

    def unite(self, others: list[Lanes]) -> Lanes | None:
        did = self.drawn, self.own, self.sums, self.local
        if any((one.drawn, one.own, one.sums, one.local) != did for one in others) or self._unite([*others]) is None:
            return None
        return self

    def find_owner(self, lane: int) -> Owner:
        return Owner((*self.warp, lane), self.drawn.get(lane))

    def find_options(self) -> dict[int, list[Range]]:
        """Perform the atomics before which lanes wait, and return the values that they may return."""
        self.performed += 1
        if self.performed > _MOST_OF_LANES:
            raise UnfitError  # a lock that stays taken
        found: dict[int, list[Range]] = {}
        for pc, lanes in self.groups.items():
            if pc in self.code.chosen:
                found |= self._perform(pc, lanes)
        return found

    def _perform(self, pc: int, lanes: int) -> dict[int, list[Range]]:
        """Perform an atomic, and return the values that it may return to each lane."""
        plan = self.code.plan(pc)
        locations, value = self._addresses(plan, lanes), None
        if not plan.fields[7] & NO_STORE:
            value = self._read(*plan.operands[1])
        found = {}
        for lane in list_lanes(lanes):
            operand = None if value is None or value.unknown[lane] else int(value.bits[lane])
            found[lane] = self.numbers.perform(self, lane, pc, int(locations[lane]), operand)
        return found

    def _act(self, plan: Plan, pc: int, lanes: int) -> None:
        if plan.kind == "warp":
            raise UnfitError
        if plan.kind == "atomic":
            self._perform(pc, lanes)
        elif plan.name in ELEMENTS and self._is_local(plan, lanes):
            self._access_local(plan, lanes)
        else:
            super()._act(plan, pc, lanes)

    def _is_local(self, plan: Plan, lanes: int) -> bool:
        chosen = list(list_lanes(lanes))
        return bool((self._addresses(plan, lanes)[chosen] >> np.uint64(SEGMENT_SHIFT) == LOCAL).all())

    def _access_local(self, plan: Plan, lanes: int) -> None:
        """Load or store local memory, in which each lane has its own bytes."""
        size, count = ELEMENTS[plan.name]
        found = self._addresses(plan, lanes)
        starts = {lane: self._find_offset(lane, int(found[lane]), size * count) for lane in list_lanes(lanes)}
        for n in range(count):
            row, kind = plan.fields[2] + n * ROW, f"b{8 * size}"
            if plan.kind == "load":
                values = {lane: self._load_local(lane, start + n * size, size) for lane, start in starts.items()}
                self._write(row, make_value(values, size), lanes)
                continue
            value = self._read(row, kind)
            for lane, start in starts.items():
                bits, unknown = (int(part[lane]).to_bytes(size, "little") for part in value)
                for k, byte in enumerate(zip(bits, unknown, strict=True)):
                    self.local[lane, start + n * size + k] = byte

    def _find_offset(self, lane: int, address: int, size: int) -> int:
        """Return where an access is in the local memory of its lane; it has to stay in its variable."""
        program, offset = self.code.bound.program, address & (1 << LOCAL_SHIFT) - 1
        variable = (address & OFFSET_MASK) >> LOCAL_SHIFT
        offset -= lane * program.local_bytes
        start, extent = 0, program.local_bytes
        if variable:
            if variable > len(program.locals):
                raise UnfitError
            named = program.locals[variable - 1]
            start, extent = named.offset, math.prod(named.shape) * named.dtype.itemsize
        if offset < start or offset + size > start + extent or offset % size:
            raise UnfitError
        return offset

    def _load_local(self, lane: int, at: int, size: int) -> Range:
        found = [self.local.get((lane, byte)) for byte in range(at, at + size)]
        if None in found:
            raise UnfitError
        bits, unknown = zip(*[byte for byte in found if byte is not None], strict=True)
        return int.from_bytes(bits, "little"), int.from_bytes(unknown, "little")

    def _note(self, what: str, pc: int, lanes: int, at: Array, values: bytes) -> None:
        plan = self.code.plan(pc)
        kind = WRITTEN if what == "store" else NON_COHERENT_READ if plan.fields[7] & NON_COHERENT else READ
        for lane in list_lanes(lanes):
            self.touch(lane, kind, pc, int(at[lane]), access_shape(plan.name)[1])

    def touch(self, lane: int, kind: str, pc: int, start: int, size: int) -> None:
        written = kind == WRITTEN or all(at in self.stored for at in range(start, start + size))
        self.numbers.check(pc, start, size, written=written)
        self.numbers.touch(self.find_owner(lane), kind, start, size)


class Numbers:
    """The numbers that the threads of one launch draw."""

    def __init__(
        self, bound: Bound, session: Session, atomics: frozenset[int], passes: Callable[[RawFinding], bool]
    ) -> None:
        """`passes` returns whether a finding is harmless."""
        self.bound, self.session, self.passes = bound, session, passes
        self.code = bound.program.code.tolist()
        self.plans, self.most = Strong(bound, atomics), MOST_ACCESSES * bound.effort
        self.initial = [content.copy() for content, _ in bound.segments]
        self.starts: dict[tuple[int, int], Snapshot] = {}
        """Each warp before its first strong access."""
        self.before: list[tuple[Owner, str, int, int]] = []
        """The accesses before the first strong access of each thread."""
        self.tracked: set[int] = set()
        """The counters whose numbers are distinguished; for others, the range of the results suffices."""
        self.guess, self.record = Record(), Record()
        self.latest: int | None = None
        """The counter that was drawn from last, and whose numbers are not distinguished."""
        self.sequences: dict[int, list[int]] = {}
        self.ranks: dict[int, dict[Thread, int]] = {}
        self.shift = self.accesses = self.of_round = 0
        self.checked: set[tuple[int, int, bool]] = set()

    def is_proven(self) -> bool:
        """Return whether each thread is right, whichever number it draws."""
        try:
            self._begin()
            proven = self._guesses() and self._holds()
            return proven and not self.plans.executed & self.plans.unwritten and self.record.are_separate()
        except (AmbiguousError, UnfitError):
            return False

    # -- threads ------------------------------------------------------------------------------------------------------
    def _begin(self) -> None:
        """Run all threads to their first strong accesses."""
        for cta, moved in enumerate(self.session.start()):
            if moved.status not in ("done", "stands") or not all(map(self.passes, moved.findings)):
                raise UnfitError
            self._note_moved(moved)
            for warp, alive, _ in self.session.alive(cta):
                start = self.starts[cta, warp] = self.session.snapshot(cta, warp)
                if sum(start.groups.values()) != alive:
                    raise UnfitError

    def _note_moved(self, moved: Moved) -> None:
        """Record the accesses of threads before their first strong access."""
        for one in moved.made:
            if one.event.kind != "access":
                continue
            fields = self.code[one.event.pc]
            name = NAMES[fields[0]]
            if OPERATIONS[name].kind == "atomic":
                raise UnfitError
            stores, size = access_shape(name)
            kind = WRITTEN if stores else NON_COHERENT_READ if fields[7] & NON_COHERENT else READ
            for lane, address in one.addresses:
                if not is_own(address):
                    owner = Owner((one.event.cta, one.event.warp, lane), None)
                    self.before.append((owner, kind, address & ~ADDRESS_WRAPPED, size))

    def _guesses(self) -> bool:
        """Guess what threads do, until a round of numbers confirms it.  Two rounds show whether bits belong to a number
        or to a thread."""
        for _ in range(_MOST_GUESSES):
            try:
                self._follow_rounds(2 if self.tracked else 1)
            except AmbiguousError:
                if not self._distinguish():
                    raise
                continue
            if self.record.satisfies(self.guess) and self.record.are_separate():
                return True
            settled = self.record.is_like(self.guess) and self.record.changed == self.guess.changed
            self.guess = self.record
            if settled and not self._distinguish():
                return False
        return False

    def _distinguish(self) -> bool:
        """Distinguish the numbers of another counter from now on.  Return whether there is one."""
        if self.latest is None:
            return False
        self.tracked.add(self.latest)
        self.guess, self.latest = Record(), None
        return True

    def _holds(self) -> bool:
        """Return whether all rounds of numbers confirm the guess."""
        rounds = max((len(self._list_numbers(counter)) for counter in self.tracked), default=1)
        if rounds == 1:
            return True
        if self.accesses + rounds * self.of_round > self.most:
            return False
        self._follow_rounds(rounds)
        return self.record.satisfies(self.guess)

    def _follow_rounds(self, rounds: int) -> None:
        """Follow each warp; in each round, each of its lanes gets another number."""
        self.record, self.sequences, before = Record(), {}, self.accesses
        self.ranks = {at: {one: n for n, one in enumerate(of)} for at, of in self.guess.counts.items()}
        for access in self.before:
            self.touch(*access)
        for shift in range(rounds):
            self.shift = shift
            for warp, start in self.starts.items():
                self._follow(Lanes(self.plans, start, self, warp))
        self.of_round = (self.accesses - before) // rounds

    def _follow(self, first: Lanes) -> None:
        work = [first]
        while work:
            lanes = work.pop()
            lanes.advance()
            options = lanes.find_options()
            if not options:
                if lanes.groups:
                    raise UnfitError
                continue
            copies = []
            for n in range(max(map(len, options.values()))):
                one = lanes.copy()
                one.choose({lane: found[min(n, len(found) - 1)] for lane, found in options.items()})
                copies.append(one)
            if len(copies) > 1:
                for one in copies:
                    one.advance()
                united = copies[0].unite(copies[1:])
                copies = copies if united is None else [united]
            work += copies

    # -- strong accesses ----------------------------------------------------------------------------------------------
    def perform(self, lanes: Lanes, lane: int, pc: int, at: int, operand: int | None) -> list[Range]:
        """Perform a strong access of a lane, and return the values that it may return."""
        plan = self.plans.plan(pc)
        what, type_ = ATOMICS[plan.name]
        size, loads = SIZE[type_], bool(plan.fields[7] & NO_STORE)
        self.count()
        if plan.fields[7] & (SCOPES | HALVES_OF_VECTOR):
            raise UnfitError
        used = plan.fields[2] in self.plans.live[pc + 1]
        if not loads and what not in (*_COUNTS, *_BITS):
            if used:
                raise UnfitError
            lanes.touch(lane, plan.name, pc, at, size)
            return [(0, 0)]
        self.check(pc, at, size)
        if loads:
            return self._load(lanes, lane, pc, at, size)
        if operand is None:
            raise AmbiguousError
        if what in _COUNTS:
            return self._draw(lanes, lane, at, Way(what, operand, size))
        if self.record.words.setdefault(at, size) != size:
            raise UnfitError
        changes = ~operand & (1 << 8 * size) - 1 if what == "and" else operand
        return [self._change(lanes, lane, at, what, changes)]

    def _load(self, lanes: Lanes, lane: int, pc: int, at: int, size: int) -> list[Range]:
        if at in self.guess.ways:
            if self.guess.ways[at].size != size:
                raise UnfitError
            return self._find_sums(lanes, lane, at)
        if at in self.guess.words:
            if self.guess.words[at] != size:
                raise UnfitError
            return [self._read_bits(lanes, lane, at, 0)]
        self.record.loaded.add(at)
        lanes.touch(lane, READ, pc, at, size)
        return [(int.from_bytes(lanes._bytes(at, size), "little"), 0)]

    def _first(self, at: int, size: int) -> int:
        """Return what a location holds before the launch."""
        number, offset = (at >> SEGMENT_SHIFT) - FIRST_ARRAY, at & OFFSET_MASK
        return int.from_bytes(bytes(self.initial[number][offset : offset + size]), "little")

    # -- bits ---------------------------------------------------------------------------------------------------------
    def _read_bits(self, lanes: Lanes, lane: int, at: int, changes: int) -> Range:
        """Return what a thread finds in a word, and the bits that are unknown because others may change them."""
        owner, size = lanes.find_owner(lane), self.guess.words.get(at) or self.record.words[at]
        everything = (1 << 8 * size) - 1
        known = (self.guess.find_masks(at).find_own(owner) | changes) & everything
        relied = self.record.relied.setdefault(at, {})
        relied[owner] = relied.get(owner, 0) | known
        values, mask = lanes.own.get((lane, at), (0, 0))
        return (self._first(at, size) & ~mask | values) & known, everything & ~known

    def _change(self, lanes: Lanes, lane: int, at: int, what: str, changes: int) -> Range:
        bits, unknown = self._read_bits(lanes, lane, at, changes)
        owner, changed = lanes.find_owner(lane), self.record.changed.setdefault(at, {})
        changed[owner] = changed.get(owner, 0) | changes
        values, mask = lanes.own.get((lane, at), (0, 0))
        new = {"or": changes, "and": 0, "xor": ~bits & changes}[what]
        lanes.own[lane, at] = values & ~changes | new, mask | changes
        return bits, unknown

    # -- counters -----------------------------------------------------------------------------------------------------
    def _draw(self, lanes: Lanes, lane: int, at: int, way: Way) -> list[Range]:
        known = self.record.ways.setdefault(at, way)
        if known != way:
            raise UnfitError
        thread = (*lanes.warp, lane)
        if at in self.tracked:
            values = [(self._draw_number(lanes, lane, at), 0)]
        else:
            self.latest = at
            values = self._find_sums(lanes, lane, at)
        times, total = lanes.sums.get((lane, at), (0, 0))
        lanes.sums[lane, at] = times + 1, total + way.operand
        counts = self.record.counts.setdefault(at, {})
        counts[thread] = max(counts.get(thread, 0), times + 1)
        return values

    def _draw_number(self, lanes: Lanes, lane: int, at: int) -> int:
        """Let a lane draw the number of this round."""
        if lane in lanes.drawn:
            raise UnfitError
        numbers = self._list_numbers(at)
        rank = self.ranks.get(at, {}).get((*lanes.warp, lane), 0)
        number = numbers[(rank + self.shift) % len(numbers)]
        lanes.drawn[lane] = at, number
        return number

    def _list_numbers(self, at: int) -> list[int]:
        """Return the numbers that a counter gives out, in their order."""
        found = self.sequences.get(at)
        if found is None:
            way = self.guess.ways.get(at) or self.record.ways[at]
            number, found = self._first(at, way.size), []
            for _ in range(max(sum(self.guess.counts.get(at, {}).values()), 1)):
                found.append(number)
                number = _add_draw(way, number)
            if len({*found}) < len(found):
                raise UnfitError
            self.sequences[at] = found
        return found

    def _find_sums(self, lanes: Lanes, lane: int, at: int) -> list[Range]:
        """Return the values that a thread may find in a counter."""
        way = self.guess.ways.get(at) or self.record.ways[at]
        first, limit = self._first(at, way.size), 1 << 8 * way.size
        if way.what != "add":
            return [*_split(0, min(max(first, way.operand), limit - 1))]
        counts = self.guess.counts.get(at, {})
        others = sum(counts.values()) - counts.get((*lanes.warp, lane), 0)
        step = way.operand - limit if way.operand >> 8 * way.size - 1 else way.operand
        own = first + step * lanes.sums.get((lane, at), (0, 0))[0]
        least, most = sorted((own, own + step * others))
        return [*_split(least, most)] if least >= 0 and most < limit else [(0, limit - 1)]

    # -- records ------------------------------------------------------------------------------------------------------
    def touch(self, owner: Owner, kind: str, start: int, size: int) -> None:
        self.count()
        self.record.touched.setdefault((start, size), Owners()).add(owner, kind)

    def check(self, pc: int, start: int, size: int, *, written: bool = False) -> None:
        """Check that an access stays in its array, and that it reads only what was written: before the launch, or by
        its thread (`written`)."""
        key = pc, start, written
        if key in self.checked:
            return
        fields = self.code[pc]
        stores = access_shape(NAMES[fields[0]])[0] and not fields[7] & NO_STORE
        check_location(self.bound, fields, start, size, stores=stores)
        if not written:
            check_written(self.bound, start, size)
        self.checked.add(key)

    def count(self) -> None:
        self.accesses += 1
        self.bound.account.spend(PRICE / MOST_ACCESSES)
        if self.accesses > self.most or self.bound.account.is_spent:
            raise UnfitError


@functools.lru_cache(maxsize=4096)
def list_lanes(lanes: int) -> tuple[int, ...]:
    return tuple(lane for lane in range(LANES) if lanes >> lane & 1)


def _add_draw(way: Way, number: int) -> int:
    """Return what a counter holds after a draw."""
    if way.what == "inc":
        return 0 if number >= way.operand else number + 1
    if way.what == "dec":
        return way.operand if not number or number > way.operand else number - 1
    return (number + way.operand) % (1 << 8 * way.size)


def _split(least: int, most: int) -> Iterator[Range]:
    """Yield all values from `least` to `most`: a few values one at a time, many as ranges of values that differ only in
    their last bits."""
    few = most - least < _FEW_VALUES
    while least <= most:
        size = 1 if few else least & -least or 1 << most.bit_length()
        while least + size - 1 > most:
            size >>= 1
        yield least, size - 1
        least += size


def draws_bits(program: Program, atomics: frozenset[int]) -> bool:
    """Return whether threads may work at bits of words: they use what an `and`, `or` or `xor` returns, and perform
    nothing together after their first strong access."""
    code, live = program.code.tolist(), live_rows(program)
    names = {pc: ATOMICS[NAMES[code[pc][0]]][0] for pc in atomics}
    if not any(
        what in _BITS and code[pc][2] in live[pc + 1] and not code[pc][7] & NO_STORE for pc, what in names.items()
    ):
        return False
    fit = not any(code[pc][7] & (SCOPES | HALVES_OF_VECTOR) for pc in atomics)
    return fit and all(OPERATIONS[NAMES[code[pc][0]]].kind not in TOGETHER for pc in find_later(code, atomics))
