"""Small concurrent programs, and every execution of one that the PTX memory consistency model allows.

A program has 2 to 4 threads, each of a CTA, with loads, stores, atomics and fences; an operation may be made only where
a register has a value that was loaded before.  In a line, as `P0@0: W x 1; F sc gpu; R f relaxed gpu -> a | ...`:

    W place value [order scope]         a store: weak (the default), relaxed, release; volatile is relaxed sys
    R place [order scope] -> register   a load: weak, relaxed, acquire
    A what place value [order scope] -> register
                                        an atomic: add, exch, cas (of 0 with the value), max; relaxed, acquire,
                                        release, acq_rel
    F acq_rel|sc scope                  a fence
    B                                   a barrier of all threads of the CTA
    ?register=value, ?register!value    before an operation: it is made only if that holds
    until value                         behind a read or a `cas`: it is made again until it reads that
    s[register]                         for a place: the one that the register counts from s0 on
    W x 1 & W y 2                       one access of a vector: to PTX one of each element, in no order; one that is
                                        volatile is a plain one here: weak volatile

A thread is of a CTA, `P0@1`, and that of a cluster, `P0@1/0`; without one each CTA is a cluster by itself.

What is enumerated: for each read the write that it reads from, for each place the order of its writes, for `fence.sc`
their order.  An execution is allowed if it keeps the axioms of the PTX ISA, "Memory Consistency Model": coherence,
Fence-SC, atomicity, no thin air, SC per location, causality (Lustig, Sahasrabuddhe, Giroux, "A Formal Analysis of the
NVIDIA PTX Memory Consistency Model", ASPLOS 2019).  It has a *data race* if two operations on one place, one of which
writes, are neither morally strong nor ordered by causality.  If both are weak stores, of one value in every execution,
that shows nowhere, and is counted apart (`same`).  It *hangs* if a thread reads for ever what stays there,
and waits for another value.

This file knows nothing of clocks or schedules and imports nothing of wsemu: it is what their verdicts are judged by.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cached_property
from itertools import combinations, permutations, product
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

WEAK, RELAXED, ACQUIRE, RELEASE, ACQ_REL, SC = "weak", "relaxed", "acquire", "release", "acq_rel", "sc"
READ, WRITE, ATOMIC, FENCE, BARRIER = "RWAFB"
SCOPES = ("cta", "cluster", "gpu", "sys")
NARROW = SCOPES[:2]


class Operation(NamedTuple):
    """One step of a thread."""

    kind: str
    place: str = ""
    value: int = 0
    order: str = WEAK
    scope: str = "gpu"
    result: str = ""
    """the register that gets what was read"""
    what: str = ""
    """of an atomic: add, exch, cas, max"""
    guard: tuple[str, int, bool] | None = None
    """(register, value, whether it has to be equal)"""
    until: int = -1
    """of a read or a `cas`: it is made again until it reads that"""
    counted: str = ""
    """the register that tells which of several places it is"""
    volatile: bool = False
    """how a relaxed access of scope sys is written, and a weak one of a vector"""
    joined: bool = False
    """whether it is an element of a vector, and not its last one"""


class Thread(NamedTuple):
    cta: int
    operations: tuple[Operation, ...]
    cluster: int = -1
    """-1: each CTA is one"""


Program = tuple[Thread, ...]


class Event(NamedTuple):
    """An operation in an execution."""

    thread: int
    at: int
    """in the thread: twice its step, one less for a try before the last one; -1 of initial writes"""
    operation: Operation
    read: int = 0
    written: int = 0
    needs: frozenset[int] = frozenset()
    """the events of its thread on whose results it depends"""
    waits: bool = False
    """whether it is made for ever, and nothing after it"""

    @property
    def reads(self) -> bool:
        return self.operation.kind in (READ, ATOMIC)

    @property
    def writes(self) -> bool:
        operation = self.operation
        return operation.kind == WRITE or (operation.kind == ATOMIC and not (operation.what == "cas" and self.read))


# -- notation ---------------------------------------------------------------------------------------------------------
_WORDS = re.compile(r"\S+")


def parse(line: str) -> Program:
    """The program that `notation` wrote."""
    return tuple(_thread(part) for part in line.split("|"))


def _thread(text: str) -> Thread:
    head, _, body = text.partition(":")
    cta, _, cluster = head.partition("@")[2].strip().partition("/")
    return Thread(
        int(cta or 0),
        tuple(
            _operation(part)._replace(joined=n > 0)
            for whole in body.split(";")
            if whole.strip()
            for n, part in reversed([*enumerate(reversed(whole.split("&")))])
        ),
        int(cluster or -1),
    )


def _operation(text: str) -> Operation:
    words = _WORDS.findall(text)
    guard = None
    if words[0].startswith("?"):
        register, sign, value = re.fullmatch(r"\?(\w+)([=!])(\d+)", words.pop(0)).groups()  # type: ignore[union-attr]
        guard = register, int(value), sign == "="
    result = ""
    if "->" in words:
        result = words[-1]
        words = words[: words.index("->")]
    until = -1
    if "until" in words:
        until = int(words[-1])
        words = words[: words.index("until")]
    kind, *rest = words
    if kind == FENCE:
        return Operation(FENCE, order=rest[0], scope=rest[1], guard=guard)
    if kind == BARRIER:
        return Operation(BARRIER, guard=guard)
    what = rest.pop(0) if kind == ATOMIC else ""
    place, _, index = rest.pop(0).rstrip("]").partition("[")
    value = int(rest.pop(0)) if kind in (WRITE, ATOMIC) else 0
    order, scope = (*rest, "", "")[:2]
    volatile = "volatile" in (order, scope)
    if order == WEAK:
        scope = ""
    elif volatile:
        order, scope = RELAXED, "sys"
    order = order or (RELAXED if kind == ATOMIC else WEAK)
    return Operation(kind, place, value, order, scope or "gpu", result, what, guard, until, index, volatile)


def notation(program: Program) -> str:
    """The program in one line."""
    return " | ".join(
        f"P{n}@{thread.cta}{'' if thread.cluster < 0 else f'/{thread.cluster}'}: "
        + "".join(_text(o) + (" & " if o.joined else "; ") for o in thread.operations).removesuffix("; ")
        for n, thread in enumerate(program)
    )


def _text(o: Operation) -> str:
    guard = f"?{o.guard[0]}{'=' if o.guard[2] else '!'}{o.guard[1]} " if o.guard else ""
    if o.kind == BARRIER:
        return guard + BARRIER
    if o.kind == FENCE:
        return f"{guard}F {o.order} {o.scope}"
    value = f" {o.value}" if o.kind != READ else ""
    what = f" {o.what}" if o.what else ""
    order = " weak" * o.volatile if o.order == WEAK else ""
    order += " volatile" if o.volatile else "" if o.order == WEAK else f" {o.order} {o.scope}"
    place = f"{o.place}[{o.counted}]" if o.counted else o.place
    until = f" until {o.until}" if o.until >= 0 else ""
    return f"{guard}{o.kind}{what} {place}{value}{order}{until}" + (f" -> {o.result}" if o.result else "")


# -- candidates -------------------------------------------------------------------------------------------------------
def _new_value(operation: Operation, old: int) -> int:
    value = operation.value
    return {"add": old + value, "exch": value, "cas": old if old else value, "max": max(old, value)}[operation.what]


def _paths(number: int, thread: Thread, values: dict[str, set[int]]) -> Iterator[tuple[Event, ...]]:
    """What a thread may do, whatever it reads."""

    def go(
        step: int, registers: dict[str, tuple[int, int]], left: frozenset[int], done: tuple[Event, ...]
    ) -> Iterator[tuple[Event, ...]]:
        """`registers`: (value, event that read it); `left`: the loops that have been left, which all depends on."""
        if step == len(thread.operations):
            yield done
            return
        operation, at, needs = thread.operations[step], 2 * step, left
        if operation.guard:
            register, value, equal = operation.guard
            held, made = registers.get(register, (0, -1))
            # control goes on depending on it: a compiler may not store before the branch
            needs |= {made} - {-1}
            if (held == value) != equal:
                yield from go(step + 1, registers, left, done)
                return
        if operation.counted:
            held, made = registers.get(operation.counted, (0, -1))
            operation, needs = operation._replace(place=f"{operation.place}{held}"), needs | {made} - {-1}
        if operation.kind not in (READ, ATOMIC):
            yield from go(step + 1, registers, left, (*done, Event(number, at, operation, 0, operation.value, needs)))
            return
        reads = sorted(values[operation.place])
        tries = [done]
        if operation.until >= 0:
            others = [read for read in reads if read != operation.until]
            reads, left = [operation.until], left | {at}
            tries += [(*done, Event(number, at - 1, operation, read, 0, needs)) for read in others]
            for read in others:
                yield (*done, Event(number, at, operation, read, 0, needs, waits=True))
        for read, before in product(reads, tries):
            written = _new_value(operation, read) if operation.kind == ATOMIC else 0
            more = {**registers, operation.result: (read, at)} if operation.result else registers
            yield from go(step + 1, more, left, (*before, Event(number, at, operation, read, written, needs)))

    yield from go(0, {}, frozenset(), ())


def _values(program: Program) -> dict[str, set[int]]:
    """What may stand in each place: what is stored, and what atomics make of that, each of them once."""
    values: dict[str, set[int]] = {}
    atomics: dict[str, list[Operation]] = {}
    for thread in program:
        for operation in thread.operations:
            if operation.place and not operation.counted:
                held = values.setdefault(operation.place, {0})
                if operation.kind == WRITE:
                    held.add(operation.value)
                if operation.kind == ATOMIC:
                    atomics.setdefault(operation.place, []).append(operation)
    for place, made in atomics.items():
        for _ in made:
            values[place] |= {_new_value(operation, old) for operation in made for old in list(values[place])}
    for thread in program:
        of = {o.result: values[o.place] for o in thread.operations if o.result and not o.counted}
        for o in thread.operations:
            for number in of.get(o.counted, {0}) if o.counted else ():
                values.setdefault(f"{o.place}{number}", {0}).update([o.value] if o.kind == WRITE else [])
    return values


class Outcome(NamedTuple):
    """What one execution leaves: what each thread's registers hold, and memory."""

    registers: tuple[tuple[tuple[str, int], ...], ...]
    memory: tuple[tuple[str, int], ...]


class Found(NamedTuple):
    """The allowed executions of a program."""

    outcomes: frozenset[Outcome]
    racing: bool
    """whether some has a data race that may show"""
    races: frozenset[tuple[tuple[int, int], tuple[int, int]]] = frozenset()
    """(thread, step) of both sides"""
    hanging: bool = False
    """whether some thread may wait for ever"""
    whole: bool = True
    """whether these are all"""
    same: bool = False
    """whether some has a data race of two weak stores of one value, which counts as none in `racing`"""

    @property
    def known(self) -> bool:
        """Whether it is known that some execution goes wrong, or that none does."""
        return self.wrong or self.whole

    @property
    def wrong(self) -> bool:
        return self.racing or self.hanging


class TooManyError(Exception):
    """More candidates than are looked at."""


MOST_CANDIDATES = 400_000
"""paths of all threads together, and steps in which orders of writes are made; an execution counts for `_EXECUTION`"""
_EXECUTION = 40


def explore(
    program: Program,
    most: int = MOST_CANDIDATES,
    *,
    up_to_wrong: bool = False,
    vectors_are_one: bool = False,
    places_in_order: bool = False,
) -> Found:
    """Every execution that the axioms allow, or those among so many candidates; `up_to_wrong`: up to the first one that
    goes wrong; `vectors_are_one`: those alone in which each strong access of a vector is one access, as in hardware;
    `places_in_order`: those alone in which each thread performs its accesses to one place in program order, as in
    hardware."""
    outcomes: set[Outcome] = set()
    races: set[tuple[tuple[int, int], tuple[int, int]]] = set()
    hanging, whole, same = False, True, False
    try:
        for execution in _allowed(program, _Effort(most), alike=up_to_wrong):
            if vectors_are_one and execution.tears():
                continue
            if places_in_order and not execution.is_in_order():
                continue
            outcomes.add(execution.outcome())
            racing = execution.races()
            races |= {pair for pair, alike in racing.items() if not alike}
            same |= any(racing.values())
            hanging |= any(event.waits for event in execution.events)
            if up_to_wrong and (races or hanging):
                whole = False
                break
    except TooManyError:
        whole = False
    return Found(frozenset(outcomes), bool(races), frozenset(races), hanging, whole, same)


class _Effort:
    """Counts candidates."""

    def __init__(self, most: int) -> None:
        self.left = most

    def spend(self, cost: int = 1) -> None:
        self.left -= cost
        if self.left < 0:
            raise TooManyError


def _twins(program: Program) -> list[int]:
    """For each thread the last one before it that it may change places with, -1 if none: they do the same, in the same
    CTA, or alone in CTAs of one cluster."""

    def place(thread: Thread) -> tuple[bool, int]:
        shared = sum(other.cta == thread.cta for other in program) > 1
        return shared, thread.cta if shared else thread.cluster

    keys = [(thread.operations, place(thread)) for thread in program]
    return [max((m for m in range(n) if keys[m] == key), default=-1) for n, key in enumerate(keys)]


def _allowed(program: Program, effort: _Effort, *, alike: bool = False) -> Iterator[_Execution]:
    """`alike`: of executions in which only threads that do the same change places, one."""
    values = _values(program)
    initial = [Event(-1, -1, Operation(WRITE, place), 0, 0) for place in sorted(values)]
    local = _Places(program, effort)
    places = sorted(values)
    threads = [[(path, local.parts(path, places)) for path in _paths(n, t, values)] for n, t in enumerate(program)]
    twins = [(twin, n) for n, twin in enumerate(_twins(program)) if alike and twin >= 0]
    for chosen in product(*map(range, map(len, threads))):
        if any(chosen[one] > chosen[other] for one, other in twins):
            continue
        effort.spend()
        paths = [of[k] for of, k in zip(threads, chosen, strict=True)]
        found: list[list[_Order]] = []
        for k, place in enumerate(places):
            orders = local.orders(place, tuple([parts[k] for _, parts in paths]))
            if not orders:
                break
            found.append(orders)
        else:
            yield from _executions(program, [*initial, *(event for path, _ in paths for event in path)], found, effort)


_Order = tuple[tuple[tuple[Event, Event], ...], tuple[Event, ...]]
"""(read, write that it reads from) for each read of a place, and its writes in their order"""


class _Places:
    """What the axioms that speak of one place alone allow there: coherence with program order, atomicity, SC per
    location.  Many executions have the same there."""

    def __init__(self, program: Program, effort: _Effort) -> None:
        self.program, self.effort = program, effort
        self.numbers: dict[tuple[Event, ...], int] = {}
        self.made: list[tuple[Event, ...]] = []
        self.known: dict[tuple[str | int, ...], list[_Order]] = {}

    def parts(self, path: Sequence[Event], places: Sequence[str]) -> list[int]:
        """A thread's accesses to each of some places, as a number: -1 of none."""
        found: dict[str, list[Event]] = {}
        for event in path:
            if event.operation.place:
                found.setdefault(event.operation.place, []).append(event)
        return [self._number(tuple(found[place])) if place in found else -1 for place in places]

    def _number(self, events: tuple[Event, ...]) -> int:
        if events not in self.numbers:
            self.numbers[events] = len(self.made)
            self.made.append(events)
        return self.numbers[events]

    def orders(self, place: str, numbers: tuple[int, ...]) -> list[_Order]:
        """What may be at a place with these accesses of each thread, -1 of none."""
        key: tuple[str | int, ...] = (place, *numbers)
        if key not in self.known:
            self.known[key] = list(self._orders(place, [self.made[n] for n in numbers if n >= 0]))
        return self.known[key]

    def _orders(self, place: str, made: Sequence[tuple[Event, ...]]) -> Iterator[_Order]:
        events = [Event(-1, -1, Operation(WRITE, place), 0, 0), *(event for part in made for event in part)]
        writes = [n for n, event in enumerate(events) if event.writes]
        reads = [n for n, event in enumerate(events) if event.reads]
        sources = [[w for w in writes if events[w].written == events[n].read and w != n] for n in reads]
        if not all(sources) or not self._enough(events):
            return
        base = _Base(self.program, events)
        for order in self._coherent(base, writes):
            at = {write: k for k, write in enumerate(order)}
            fitting = [
                [w for w in of if self._atomic(base, n, order[at[w] :])]
                if n in at
                else [w for w in of if w == order[-1] or not events[n].waits]
                for n, of in zip(reads, sources, strict=True)
            ]
            for chosen in product(*fitting):
                self.effort.spend()
                rf = dict(zip(reads, chosen, strict=True))
                if _per_location(base, rf, (order,)):
                    yield tuple((events[n], events[w]) for n, w in rf.items()), tuple(events[w] for w in order)

    def _enough(self, events: list[Event]) -> bool:
        """Whether atomics that all are morally strong with each other may each have read another write."""
        if any(e.operation.order == WEAK or e.operation.scope in NARROW for e in events if e.thread >= 0):
            return True
        written = Counter(event.written for event in events if event.writes)
        read = Counter(event.read for event in events if event.reads and event.writes)
        return read <= written

    def _atomic(self, base: _Base, atomic: int, order: Sequence[int]) -> bool:
        """Between what an atomic reads, the first of these writes, and what it writes there is no write that is morally
        strong with it."""
        if atomic not in order:
            return False
        return not any(base.strong(atomic, between) for between in order[1 : order.index(atomic)])

    def _coherent(self, base: _Base, writes: list[int]) -> Iterator[tuple[int, ...]]:
        """The orders of writes in which those of a thread come in its order, and what some atomic reads may have been
        left right before it."""
        events = base.events

        def go(done: tuple[int, ...], left: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
            self.effort.spend()
            if not left:
                yield done
            for n in left:
                if any(base.po[other] >> n & 1 for other in left):
                    continue
                event = events[n]
                if event.reads and not any(
                    events[w].written == event.read and self._atomic(base, n, (*done[k:], n))
                    for k, w in enumerate(done)
                ):
                    continue
                yield from go((*done, n), tuple(other for other in left if other != n))

        yield from go((writes[0],), tuple(writes[1:]))


def _executions(
    program: Program, events: list[Event], found: list[list[_Order]], effort: _Effort
) -> Iterator[_Execution]:
    base = _Base(program, events)
    number = {event if event.thread >= 0 else event.operation.place: n for n, event in enumerate(events)}

    def of(event: Event) -> int:
        return number[event if event.thread >= 0 else event.operation.place]

    for chosen in product(*found):
        effort.spend()
        rf = {of(read): of(write) for reads, _ in chosen for read, write in reads}
        if not base.no_thin_air(rf):
            continue
        effort.spend(_EXECUTION)
        shared = _Shared(base, rf, tuple(tuple(map(of, order)) for _, order in chosen))
        for closed in shared.with_fences(effort):
            execution = _Execution(shared, closed, shared.observed)
            if execution.allowed():
                yield execution


class _Base:
    """What all executions of the same events share."""

    def __init__(self, program: Program, events: list[Event]) -> None:
        self.program, self.events = program, events
        n = len(events)
        self.po = [0] * n
        """relations are lists of bit sets: which events follow one"""
        for a, first in enumerate(events):
            for b, second in enumerate(events):
                same = first.thread == second.thread >= 0 and first.at < second.at and not self._of_one(first, second)
                if same or (first.thread < 0 <= second.thread):  # initial writes come before all
                    self.po[a] |= 1 << b
        self.bars = self._barriers()

    def _of_one(self, first: Event, second: Event) -> bool:
        """Whether two are elements of one vector, which are accessed in no order."""
        between = self.program[first.thread].operations[(first.at + 1) // 2 : (second.at + 1) // 2]
        return bool(between) and all(operation.joined for operation in between)

    @cached_property
    def patterns(self) -> _Patterns:
        return _Patterns(self)

    def _barriers(self) -> list[tuple[int, int]]:
        """Pairs of operations of one barrier, both ways: each synchronises with all."""
        by: dict[tuple[int, int], list[int]] = {}
        counts: dict[int, int] = {}
        for n, event in enumerate(self.events):
            if event.operation.kind == BARRIER:
                counts[event.thread] = counts.get(event.thread, 0) + 1
                by.setdefault((self.program[event.thread].cta, counts[event.thread]), []).append(n)
        return [(a, b) for group in by.values() for a, b in permutations(group, 2)]

    def includes(self, a: int, b: int) -> bool:
        """Whether the scopes of two operations of different threads include each other."""
        one, two = self.events[a], self.events[b]
        if min(one.thread, two.thread) < 0 or one.thread == two.thread:
            return True
        first, second = self.program[one.thread], self.program[two.thread]
        if first.cta == second.cta:
            return True
        apart = NARROW if first.cluster < 0 or first.cluster != second.cluster else NARROW[:1]
        return one.operation.scope not in apart and two.operation.scope not in apart

    def strong(self, a: int, b: int) -> bool:
        """Whether two operations are morally strong."""
        one, two = self.events[a], self.events[b]
        if one.thread == two.thread or min(one.thread, two.thread) < 0:
            return True
        return WEAK not in (one.operation.order, two.operation.order) and self.includes(a, b)

    def no_thin_air(self, rf: dict[int, int]) -> bool:
        """Reading and depending have no circle: values are constants here, so that only control depends."""
        follows = [0] * len(self.events)
        for read, write in rf.items():
            follows[write] |= 1 << read
        for n, event in enumerate(self.events):
            for m, other in enumerate(self.events):
                if other.thread == event.thread and other.at in event.needs:
                    follows[m] |= 1 << n
        return _acyclic(_closed(follows))


class _Patterns:
    """What the same events synchronise by, whoever reads from whom: synchronisation through barriers, release and
    acquire patterns whose scopes include each other, and the `fence.sc`."""

    def __init__(self, base: _Base) -> None:
        events = base.events
        self.ordered = list(base.po)
        for a, b in base.bars:  # what is before one is before what is after the other
            self.ordered[a] |= base.po[b]
        self.atomics = [n for n, event in enumerate(events) if event.operation.kind == ATOMIC and event.writes]
        releases, acquires = self._patterns(events)
        self.pairs = [
            (first, write, read, last)
            for first, write in releases
            for read, last in acquires
            if base.includes(first, last)
        ]
        self.fences = [n for n, e in enumerate(events) if e.operation.kind == FENCE and e.operation.order == SC]
        self.met = {(a, b) for a, b in permutations(self.fences, 2) if base.includes(a, b)}

    def _patterns(self, events: list[Event]) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """(first, write) of release patterns, (read, last) of acquire patterns."""
        releases, acquires = [], []
        for n, event in enumerate(events):
            order = event.operation.order
            if event.thread < 0 or event.operation.kind in (FENCE, BARRIER) or order == WEAK:
                continue
            if event.writes:
                if order in (RELEASE, ACQ_REL):
                    releases.append((n, n))
                for m, other in enumerate(events):
                    if other.thread != event.thread or other.at >= event.at:
                        continue
                    fence = other.operation.kind == FENCE
                    own = other.writes and other.operation.place == event.operation.place
                    if fence or (own and other.operation.order in (RELEASE, ACQ_REL)):
                        releases.append((m, n))
            if event.reads:
                if order in (ACQUIRE, ACQ_REL):
                    acquires.append((n, n))
                for m, other in enumerate(events):
                    if other.thread != event.thread or other.at <= event.at:
                        continue
                    fence = other.operation.kind == FENCE
                    own = other.reads and other.operation.place == event.operation.place
                    if fence or (own and other.operation.order in (ACQUIRE, ACQ_REL)):
                        acquires.append((n, m))
        return releases, acquires


class _Shared:
    """Who reads from whom, and in which order writes come: what all orders of the `fence.sc` share."""

    def __init__(self, base: _Base, rf: dict[int, int], co: tuple[tuple[int, ...], ...]) -> None:
        self.base, self.rf, self.co = base, rf, co
        self.patterns = base.patterns
        self.observed = self._observation()
        causes = list(self.patterns.ordered)
        for first, write, read, last in self.patterns.pairs:
            if self.observed[write] >> read & 1:
                causes[first] |= 1 << last
        self.closed = _closed(causes)

    def _observation(self) -> list[int]:
        """Which reads observe a write, through atomics too."""
        found = [0] * len(self.base.events)
        for read, write in self.rf.items():
            if self.base.strong(read, write) and self.base.events[write].thread >= 0:
                found[write] |= 1 << read
        return _through(found, self.patterns.atomics)

    def with_fences(self, effort: _Effort) -> Iterator[list[int]]:
        """What follows each event by causality without observation, for each order of the `fence.sc` whose scopes
        include each other: those of others have none."""
        if not _acyclic(self.closed):
            return
        fences, met = self.patterns.fences, self.patterns.met
        seen: set[frozenset[tuple[int, int]]] = set()

        def orders(done: tuple[int, ...], left: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
            if not left:
                yield done
            for n in left:
                if not any((m, n) in met and self.closed[m] >> n & 1 for m in left):
                    yield from orders((*done, n), tuple(m for m in left if m != n))

        for order in orders((), tuple(fences)):
            pairs = frozenset(pair for pair in combinations(order, 2) if pair in met)
            effort.spend()
            if pairs in seen:
                continue
            seen.add(pairs)
            causes = list(self.closed)
            for a, b in pairs:
                causes[a] |= 1 << b
            closed = _through(causes, fences)
            if _acyclic(closed):
                effort.spend(_EXECUTION)
                yield closed


class _Execution:
    """Events with who reads from whom, and in which order writes and fences come."""

    def __init__(self, shared: _Shared, closed: list[int], observed: list[int]) -> None:
        self.shared, self.closed = shared, closed
        self.base, self.rf, self.co = shared.base, shared.rf, shared.co
        self.events = self.base.events
        self.cause = [now | _union(closed[b] for b in _bits(observed[a])) for a, now in enumerate(closed)]

    def allowed(self) -> bool:
        """Whether the axioms hold."""
        return self._coherent() and self._causal()

    def _coherent(self) -> bool:
        return not any(
            self.cause[later] >> earlier & 1 for order in self.co for earlier, later in combinations(order, 2)
        )

    def _causal(self) -> bool:
        """Nobody reads from what comes after it, or what was overwritten before it."""
        for read, write in self.rf.items():
            if self.cause[read] >> write & 1:
                return False
            order = next(order for order in self.co if write in order)
            if any(self.cause[w] >> read & 1 for w in order[order.index(write) + 1 :] if w != read):
                return False
        return True

    def is_in_order(self) -> bool:
        """Return whether each thread's accesses to one place come in program order.

        PTX promises that only of accesses that are morally strong with each other.
        """
        return _per_location(self.base, self.rf, self.co, lambda one, other: True)

    def tears(self) -> bool:
        """Whether two strong accesses of vectors come one after the other at one element, and not at another one, or
        what comes after an element by causality comes before another one of its access."""
        vectors: dict[tuple[int, int], dict[str, int]] = {}
        for n, event in enumerate(self.events):
            if event.thread >= 0 and event.operation.place and event.operation.order != WEAK:
                operations, step = self.base.program[event.thread].operations, (event.at + 1) // 2
                while step and operations[step - 1].joined:
                    step -= 1
                vectors.setdefault((event.thread, step), {})[event.operation.place] = n
        return not self._joined([sum(1 << n for n in vector.values()) for vector in vectors.values()]) or any(
            len({self._comes_before(one[place], other[place]) for place in one.keys() & other.keys()} - {None}) > 1
            for one, other in combinations(vectors.values(), 2)
        )

    def _joined(self, vectors: list[int]) -> bool:
        """Whether the axioms hold, too, where the elements of each vector are one event."""
        causes, observed = list(self.closed), list(self.shared.observed)
        for vector in vectors:
            causes = [now | vector if now & vector and not vector >> n & 1 else now for n, now in enumerate(causes)]
        for vector in vectors:
            causes, observed = _alike(causes, vector), _alike(observed, vector)
        whole = _Execution(self.shared, _closed(causes), observed)
        return _acyclic(whole.closed) and whole.allowed()

    def _comes_before(self, one: int, other: int) -> bool | None:
        """Whether one of two accesses to a place comes before the other there; None: both read one write, or later."""
        order = next(
            order for order in self.co if self.events[order[0]].operation.place == self.events[one].operation.place
        )
        first, second = (order.index(n if self.events[n].writes else self.rf[n]) for n in (one, other))
        if self.events[one].writes == self.events[other].writes:
            return first < second if self.events[one].writes else None
        return first <= second if self.events[one].writes else first < second

    def races(self) -> dict[tuple[tuple[int, int], tuple[int, int]], bool]:
        """(thread, step) of both sides -> whether they are two weak stores of one value."""
        found: dict[tuple[tuple[int, int], tuple[int, int]], bool] = {}
        for a, b in combinations(range(len(self.events)), 2):
            one, two = self.events[a], self.events[b]
            if not one.operation.place or one.operation.place != two.operation.place or one.thread == two.thread:
                continue
            if min(one.thread, two.thread) < 0 or self.base.strong(a, b):
                continue
            if not (one.writes or two.writes):
                continue
            if not (self.cause[a] >> b & 1 or self.cause[b] >> a & 1):
                pair = (one.thread, (one.at + 1) // 2), (two.thread, (two.at + 1) // 2)
                stores = all((o.kind, o.order) == (WRITE, WEAK) for o in (one.operation, two.operation))
                found[pair] = found.get(pair, True) and stores and one.written == two.written
        return found

    def outcome(self) -> Outcome:
        registers: list[dict[str, int]] = [{} for _ in self.base.program]
        for event in self.events:
            if event.reads and event.operation.result:
                registers[event.thread][event.operation.result] = event.read
        memory = {self.events[order[0]].operation.place: self.events[order[-1]].written for order in self.co}
        return Outcome(tuple(tuple(sorted(r.items())) for r in registers), tuple(sorted(memory.items())))


def _per_location(
    base: _Base,
    rf: dict[int, int],
    co: tuple[tuple[int, ...], ...],
    counts: Callable[[int, int], bool] | None = None,
) -> bool:
    """Return whether communication on a place and program order have no cycle.

    Only pairs of operations that count are communication: those that are morally strong, unless `counts` is given.
    """
    counts = counts or base.strong
    n = len(base.events)
    follows = [0] * n

    def add(a: int, b: int) -> None:
        if a != b and counts(a, b):
            follows[a] |= 1 << b

    for order in co:
        for a, b in combinations(order, 2):
            add(a, b)
    for read, write in rf.items():
        add(write, read)
        order = next(order for order in co if write in order)
        for w in order[order.index(write) + 1 :]:
            add(read, w)
    for a in range(n):
        for b in _bits(base.po[a]):
            if base.events[a].operation.place and base.events[a].operation.place == base.events[b].operation.place:
                follows[a] |= 1 << b
    return _acyclic(_closed(follows))


# -- relations as bit sets --------------------------------------------------------------------------------------------
def _bits(mask: int) -> Iterator[int]:
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def _union(masks: Iterable[int]) -> int:
    found = 0
    for mask in masks:
        found |= mask
    return found


def _alike(follows: list[int], nodes: int) -> list[int]:
    """The same, where what follows one of these nodes follows each of them."""
    all_of_them = _union(follows[n] for n in _bits(nodes))
    return [all_of_them if nodes >> n & 1 else now for n, now in enumerate(follows)]


def _closed(follows: list[int]) -> list[int]:
    return _through(follows, range(len(follows)))


def _through(follows: list[int], nodes: Iterable[int]) -> list[int]:
    """Where ways lead all whose stops are among these nodes."""
    closed = list(follows)
    for k in nodes:
        through = closed[k]
        for a in range(len(closed)):
            if closed[a] >> k & 1:
                closed[a] |= through
    return closed


def _acyclic(closed: list[int]) -> bool:
    return not any(closed[a] >> a & 1 for a in range(len(closed)))
