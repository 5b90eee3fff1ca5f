"""Abstract programs of mbarriers, copies and named barriers, and every interleaving of one.

A program has 1 to 3 threads and up to 4 mbarriers, which are initialized before any thread starts.  It is written as in
`2 1 | t0: x(0,16) T(0,1) | t1: w(0,0) R(1) a(1)`: the arrivals that each mbarrier waits for, then what each thread
does.

    a(b)  d(b)  x(b,n)  e(b,n)   arrive, arrive_drop, arrive.expect_tx and expect_tx of n bytes on mbarrier b
    w(b,p)  p(b,p)               wait for the phase of parity p of b; the same after a try that only guards it
    T(b,v)                       bulk load of 16 bytes into variable v, which credits b
    V(b,n)                       bulk copy from variable n % 3 to n // 3, in two CTAs, which credits b
    g(v)  i(b)  n(b)  C(k)       cp.async into v, cp.async.mbarrier.arrive without and with .noinc, wait_group k
    O(v)  G(k)  Q(k)             bulk store of v, a group of its own; wait_group k, wait_group.read k
    R(v)  W(v)  P                plain read and write of v; fence.proxy.async
    k(b,p)  u(b,p)               test the phase of parity p of b and keep the result; wait unless that result is true
    t(b,n)  v(b,n)  c(n,how)     arrive on b and keep the token as number n; wait for the phase of token n; change token
                                 n: add 1 (how = 0), change its parity (1), or set it to 0 (2)
    D(b)  B(b,c)                 inval; init with count c
    S(b,c)  A(b,c)  Z(b,c)       named barrier b of c warps: sync, arrive, a sync that gives nothing but its time

Semantics, from the PTX ISA: arrivals count down, bytes that were expected and have not come keep the phase open, and a
phase completes when neither is missing, whatever came last.  A wait polls: it goes on at some moment at which the phase
that it names has completed, and may miss one.  Copies come at any time after their issue.  A copy's completion orders
its own accesses alone before a wait that sees it; an arrival and what comes before it in its thread, likewise.  Plain
accesses and asynchronous ones need a proxy fence between them besides (not plain reads before asynchronous reads).  A
write that plain reads have returned is performed before an asynchronous one that comes after these reads.

Where each thread is a CTA of a cluster, what it does in the memory of another one has to be over before that one's
thread ends, and a copy out of its own memory before it ends itself.  A bulk store may outlive its
thread, with a warning.

This file knows nothing of clocks or rules and imports nothing of wsemu: it is what their verdicts are judged by.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

DEADLOCK, OVER, PHASES, BYTES, LIFETIME = "deadlock", "over-arrival", "phases", "bytes", "lifetime"
NO_TOKEN = "no-token"
"""a wait for the phase of a number that is no token of its mbarrier: what follows is undefined"""
RACE, PROXY, OUTLIVES, MISMATCH, TOO_LATE = (
    "race",
    "proxy",
    "async-outlives-cta",
    "count-mismatch",
    "dsmem-after-exit",
)
VARIABLES: Final = 3
SIZE: Final = 16
"""bytes of a variable, and of a copy"""
ARRIVALS: Final = frozenset("adxt")
WAITS: Final = frozenset("wpuv")
CREDITS: Final = frozenset("TV")
"""bulk copies, whose bytes an mbarrier gets"""
MEETINGS: Final = frozenset("SAZ")
MOST_STATES: Final = 40_000
NO_PHASE: Final = -2
"""what an expectation of no bytes meets that does nothing"""
UNTESTED: Final = -1, NO_PHASE, False
LIFE: Final = 1 << 16
"""first phase of an mbarrier after its second initialization; twice as much after the third"""


class Step(NamedTuple):
    """One operation of a thread."""

    kind: str
    place: int = 0
    number: int = 0

    def __str__(self) -> str:
        if self.kind == "P":
            return "P"
        if self.kind in "xewpkutvcBSAZTV":
            return f"{self.kind}({self.place},{self.number})"
        return f"{self.kind}({self.place})"


class Program(NamedTuple):
    """Counts of the mbarriers, and the steps of each thread."""

    counts: tuple[int, ...]
    threads: tuple[tuple[Step, ...], ...]

    def __str__(self) -> str:
        threads = " | ".join(f"t{t}: {' '.join(map(str, steps))}" for t, steps in enumerate(self.threads))
        return f"{' '.join(map(str, self.counts))} | {threads}"


_STEP = re.compile(r"([a-zA-Z])(?:\((\d+)(?:,(\d+))?\))?")


def parse(line: str) -> Program:
    """The program that `str` wrote."""
    counts, *threads = line.split("|")
    steps = (
        tuple(Step(k, int(a or 0), int(b or 0)) for k, a, b in _STEP.findall(t.partition(":")[2])) for t in threads
    )
    return Program(tuple(map(int, counts.split())), tuple(steps))


class Mbarrier(NamedTuple):
    """What an mbarrier counts."""

    phase: int
    pending: int
    expected: int
    tx: int
    live: bool = True

    def settled(self) -> Mbarrier:
        """After the phase has completed, if it does."""
        if self.pending or self.tx:
            return self
        return Mbarrier(self.phase + 1, self.expected, self.expected, 0)

    def asked(self, parity: int) -> int:
        """The phase that a wait by parity is for."""
        return self.phase - (self.phase & 1 != parity & 1)


class Named(NamedTuple):
    """A named barrier: generation, arrived, expected, who waits."""

    generation: int
    arrived: int
    expected: int
    waiting: tuple[int, ...]


class State(NamedTuple):
    """Where each thread is, the barriers, and the (thread, step) of what is under way, in the order of issue."""

    at: tuple[int, ...]
    mbarriers: tuple[Mbarrier, ...]
    named: tuple[Named, ...]
    under_way: tuple[tuple[int, int], ...]
    kept: tuple[tuple[int, int, bool], ...] = ()
    """for each thread, the mbarrier and the phase of its last kept test, and whether the phase was complete"""
    tokens: tuple[tuple[int, int, tuple[int, int]], ...] = ()
    """(thread, number of a token, its mbarrier and phase), sorted"""


class FaultError(Exception):
    """An interleaving ends here."""


class Explorer:
    """Visits every state that some interleaving reaches."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.used = sorted({s.place for steps in program.threads for s in steps if s.kind in MEETINGS})
        self.phase: dict[tuple[int, int], int] = {}
        """(thread, step) -> the phase, or generation, in which it was first met"""
        self.faults: set[str] = set()
        self.completes = False
        self.differs = self.replaces = False
        """whether a kept result may guard a wait for another phase, and whether it may replace such a wait"""
        self.known = True
        """False: there are too many states"""

    def start(self) -> State:
        made = tuple(Mbarrier(0, n, n, 0) for n in self.program.counts)
        threads = len(self.program.threads)
        return State((0,) * threads, made, tuple(Named(0, 0, 0, ()) for _ in self.used), (), (UNTESTED,) * threads)

    def explore(self) -> set[str]:
        """What goes wrong in some interleaving, of the barriers."""
        start = self.start()
        seen, todo = {start}, [start]
        while todo:
            state = todo.pop()
            stuck = True
            for following in self.onward(state):
                stuck = False
                if following not in seen:
                    seen.add(following)
                    todo.append(following)
            if stuck:
                self._ended(state)
            if len(seen) > MOST_STATES:
                self.known = False
                break
        return self.faults

    def _ended(self, state: State) -> None:
        if not state.mbarriers:
            return  # it ended in a fault
        waiting = any(named.waiting for named in state.named)
        if waiting or any(at < len(steps) for at, steps in zip(state.at, self.program.threads, strict=True)):
            self.faults.add(DEADLOCK)
            return
        self.completes = True
        if any(m.tx for m in state.mbarriers):
            self.faults.add(BYTES)

    def onward(self, state: State) -> Iterator[State]:
        """The states that one step leads to, of a thread or of what is under way."""
        for thread, at in enumerate(state.at):
            if at < len(self.program.threads[thread]) and not any(thread in named.waiting for named in state.named):
                try:
                    following = self.step(state, thread, at)
                except FaultError as fault:
                    self.faults.add(str(fault))
                    following = self._dead(state)
                if following is not None:
                    yield following
        for who in state.under_way:
            if self._may_land(state, who):
                try:
                    yield self._land(state, who)
                except FaultError as fault:
                    self.faults.add(str(fault))
                    yield self._dead(state)

    def _dead(self, state: State) -> State:
        """A state in which the launch has ended: nothing is left to do."""
        ends = tuple(len(steps) for steps in self.program.threads)
        return State(ends, (), (), ())

    def _meets(self, who: tuple[int, int], phase: int) -> None:
        if self.phase.setdefault(who, phase) != phase:
            self.faults.add(PHASES)

    def step(self, state: State, thread: int, at: int) -> State | None:
        """A thread's next step; None while it has to wait."""
        kind, place, number = self.program.threads[thread][at]
        who = (thread, at)
        after = state._replace(at=(*state.at[:thread], at + 1, *state.at[thread + 1 :]))
        if kind in "DB":
            return self._renewed(after, place, number, live=kind == "B")
        if kind == "c":
            return _with_token(after, thread, place, (place, NO_PHASE))
        if kind == "u" and self._is_replaced(state, who):
            return after
        if kind in "adxewpktuvTVin" and not state.mbarriers[place].live:
            raise FaultError(LIFETIME)
        if kind == "k":
            return self._tested(after, thread, who)
        if kind == "v":
            return self._awaited(after, who)
        if kind in WAITS:
            phase = state.mbarriers[place].phase
            if phase & 1 == number & 1:
                return None
            self._meets(who, phase - 1)
            return after
        if kind in MEETINGS:
            return self._named(after, thread, who, kind, place, number)
        if kind == "t":
            after = _with_token(after, thread, number, (place, state.mbarriers[place].phase))
        if kind in "adxeit":
            old = state.mbarriers[place]
            empty = kind == "e" and not number and bool(old.pending or old.tx)
            self._meets(who, NO_PHASE if empty else old.phase)
        if kind in "TVgin":
            after = after._replace(under_way=(*state.under_way, who))
        if kind == "i":
            old = state.mbarriers[place]
            return _with(after, place, old._replace(pending=old.pending + 1))
        if kind in "xe":
            old = after.mbarriers[place]
            changed = old._replace(tx=old.tx + number)
            after = _with(after, place, changed.settled() if kind == "e" else changed)
        if kind == "d":
            old = after.mbarriers[place]
            after = _with(after, place, old._replace(expected=old.expected - 1))
        return self._arrived(after, place) if kind in ARRIVALS else after

    def _renewed(self, state: State, place: int, count: int, *, live: bool) -> State:
        """After an inval, or after an init (`live`)."""
        old = state.mbarriers[place]
        if old.live == live or (old.live and old.tx):
            raise FaultError(LIFETIME)
        base = old.phase // LIFE * LIFE
        return _with(state, place, Mbarrier(base + LIFE, count, count, 0) if live else old._replace(live=False))

    def _tested(self, state: State, thread: int, who: tuple[int, int]) -> State:
        """After a test whose result is kept."""
        step = self.program.threads[thread][who[1]]
        mbarrier = state.mbarriers[step.place]
        asked = mbarrier.asked(step.number)
        self.differs |= self.phase.setdefault(who, asked) != asked
        kept = step.place, asked, asked < mbarrier.phase
        return state._replace(kept=(*state.kept[:thread], kept, *state.kept[thread + 1 :]))

    def _is_replaced(self, state: State, who: tuple[int, int]) -> bool:
        """Whether the success of a kept test replaces a wait."""
        thread, at = who
        step, (place, phase, done) = self.program.threads[thread][at], state.kept[thread]
        mbarrier = state.mbarriers[step.place]
        same = mbarrier.live and (place, phase) == (step.place, mbarrier.asked(step.number))
        self.differs |= place >= 0 and not same
        self.replaces |= done and not same
        if done:
            self._meets(who, phase)
        return done

    def _awaited(self, state: State, who: tuple[int, int]) -> State | None:
        """After a wait for the phase of a token; None while it has to wait."""
        thread, at = who
        step = self.program.threads[thread][at]
        place, asked = next((token for t, n, token in state.tokens if (t, n) == (thread, step.number)), (-1, NO_PHASE))
        phase = state.mbarriers[step.place].phase
        if place != step.place or asked not in (phase, phase - 1) or asked // LIFE != phase // LIFE:
            raise FaultError(NO_TOKEN)
        if asked == phase:
            return None
        self._meets(who, asked)
        return state

    def _arrived(self, state: State, place: int) -> State:
        old = state.mbarriers[place]
        if not old.pending:
            raise FaultError(OVER)
        return _with(state, place, old._replace(pending=old.pending - 1).settled())

    def _may_land(self, state: State, who: tuple[int, int]) -> bool:
        """An arrival of copies comes after the thread's copies before it."""
        thread, at = who
        if self.program.threads[thread][at].kind not in "in":
            return True
        return not any(t == thread and k < at and self.program.threads[t][k].kind == "g" for t, k in state.under_way)

    def _land(self, state: State, who: tuple[int, int]) -> State:
        kind, place, _ = self.program.threads[who[0]][who[1]]
        after = state._replace(under_way=tuple(other for other in state.under_way if other != who))
        if kind == "g":
            return after
        thread, at = who
        self._meets((thread, ~at), state.mbarriers[place].phase)
        if kind in CREDITS:
            old = state.mbarriers[place]
            return _with(after, place, old._replace(tx=old.tx - SIZE).settled())
        return self._arrived(after, place)

    def _named(self, state: State, thread: int, who: tuple[int, int], kind: str, place: int, number: int) -> State:
        at = self.used.index(place)
        old = state.named[at]
        if old.arrived and old.expected != number:
            raise FaultError(MISMATCH)
        self._meets(who, old.generation)
        waiting = (*old.waiting, thread) if kind in "SZ" else old.waiting
        new = Named(old.generation, old.arrived + 1, number, tuple(sorted(waiting)))
        if new.arrived == number:
            if not waiting:
                self.faults.add("all-arrive")
            new = Named(old.generation + 1, 0, 0, ())
        return state._replace(named=(*state.named[:at], new, *state.named[at + 1 :]))


def _with(state: State, place: int, mbarrier: Mbarrier) -> State:
    return state._replace(mbarriers=(*state.mbarriers[:place], mbarrier, *state.mbarriers[place + 1 :]))


def _with_token(state: State, thread: int, number: int, token: tuple[int, int]) -> State:
    others = (other for other in state.tokens if other[:2] != (thread, number))
    return state._replace(tokens=tuple(sorted((*others, (thread, number, token)))))


class Outlook(NamedTuple):
    """What the interleavings of a program show."""

    faults: frozenset[str]
    completes: bool
    known: bool
    war: bool
    """an asynchronous write after a plain read, ordered but without a fence: a warning"""
    unobserved: bool = False
    """an arrival before which nobody has seen the phase before complete: a warning"""
    stored: bool = False
    """a bulk store that its CTA does not wait for: a warning"""
    requested: bool = False
    """an access to another CTA's memory of which nothing but its request comes before the end there: a warning"""
    same: bool = False
    """stores that nothing orders, all of one value: a warning"""
    differs: bool = False
    """a kept result may guard a wait for another phase, which wsemu may leave undecided"""
    replaces: bool = False
    """a kept success may replace a wait for another phase, which is never verified"""


class Where(NamedTuple):
    """In which CTAs mbarriers and variables are, where each thread is one."""

    mbarriers: tuple[int, ...]
    variables: tuple[int, ...]


def outlook(program: Program, where: Where | None = None) -> Outlook:
    """What can go wrong.  Where the barriers do the same in every schedule, so is the order of accesses."""
    program = without_empty(program)
    explorer = Explorer(program)
    faults = explorer.explore()
    kept = {"differs": explorer.differs, "replaces": explorer.replaces}
    if not explorer.known or faults or explorer.differs:
        return Outlook(frozenset(faults), explorer.completes, explorer.known, war=False, **kept)
    order = Order(program, explorer.phase)
    found, war = order.faults()
    late, requested, stored = order.at_the_end(where)
    return Outlook(
        frozenset(found | late), explorer.completes, True, war, order.is_unobserved(), stored, requested, order.same
    )


def without_empty(program: Program) -> Program:
    """A program without expectations of no bytes, which do nothing, in whatever phase they come; but on an mbarrier
    that all who arrive may leave they complete the phase."""
    left = {
        b for b, count in enumerate(program.counts)
        if sum(s.kind == "d" and s.place == b for steps in program.threads for s in steps) >= count
    }  # fmt: skip
    threads = (tuple(s for s in steps if s.kind != "e" or s.number or s.place in left) for steps in program.threads)
    return program._replace(threads=tuple(threads))


Node = tuple[int, int]
"""(thread, step): a point in a thread"""


class Order:
    """What comes before what, in a program whose barriers do the same in every schedule."""

    def __init__(self, program: Program, phase: dict[tuple[int, int], int]) -> None:
        self.threads = program.threads
        self.phase = phase
        self.nodes = [(t, k) for t, steps in enumerate(program.threads) for k in range(len(steps) + 1)]
        self.after = self._closed(self._edges())
        """node -> those that come after it"""
        self.later = self._closed([*self._edges(), *self._in_time()])
        """the same in time, whether or not memory is in order too"""
        self.accesses = [a for node in self.nodes for a in self._accesses(node)]
        self.same = False
        """whether two stores that nothing orders write one value: `faults` finds out"""

    def kind(self, node: Node) -> str:
        t, k = node
        return self.threads[t][k].kind if k < len(self.threads[t]) else "end"

    def _edges(self) -> Iterator[tuple[Node, Node]]:
        """(before, after): what is done up to `before`, itself included, comes before what follows `after`."""
        for t, k in self.nodes:
            if k:
                yield (t, k - 1), (t, k)
        steps = [(node, self.threads[node[0]][node[1]]) for node in self.nodes if self.kind(node) != "end"]
        for node, step in steps:
            for other, later in steps:
                if later.place != step.place:
                    continue
                gives = step.kind in ARRIVALS and later.kind in WAITS
                meets = step.kind in "SA" and later.kind in "SZ" and node != other
                if (gives or meets) and self.phase[node] == self.phase[other]:
                    yield node, (other[0], other[1] + 1)

    def _in_time(self) -> Iterator[tuple[Node, Node]]:
        """Bytes are expected, and copies issued, before a wait that sees the phase which they are of; who meets comes
        before who goes on."""
        for t, k in self.nodes:
            kind = self.kind((t, k))
            if kind == "Z":
                for other in self.nodes:
                    if self.kind(other) in ("S", "Z") and self.phase[other] == self.phase[t, k]:
                        yield (t, k), (other[0], other[1] + 1)
            if kind in ("e", "T", "V", "i", "n"):
                place, phase = self.threads[t][k].place, self.phase[(t, k) if kind == "e" else (t, ~k)]
                for w in self.nodes:
                    if self.kind(w) in WAITS and (self.threads[w[0]][w[1]].place, self.phase[w]) == (place, phase):
                        yield (t, k), (w[0], w[1] + 1)

    def _closed(self, edges: Iterable[tuple[Node, Node]]) -> dict[Node, set[Node]]:
        result = {}
        direct: dict[Node, set[Node]] = {node: set() for node in self.nodes}
        for before, after in edges:
            direct[before].add(after)
        for node in self.nodes:
            found: set[Node] = set()
            todo = [node]
            while todo:
                for following in direct[todo.pop()]:
                    if following not in found:
                        found.add(following)
                        todo.append(following)
            result[node] = found
        return result

    def before(self, one: Node, other: Node) -> bool:
        """Whether what a thread does at one point comes before what another does at another point."""
        return one == other or other in self.after[one]

    def joins(self, issue: Node, *, reads: bool) -> Iterator[Node]:
        """The points behind which a copy is over: its reads, or all of it."""
        t, k = issue
        step = self.threads[t][k]
        for node in self.nodes:
            kind = self.kind(node)
            if kind in WAITS:
                place = self.threads[node[0]][node[1]].place
                if any(b == place and phase == self.phase[node] for b, phase in self._signals(issue)):
                    yield node[0], node[1] + 1
            elif node[0] == t and node[1] > k and kind in "CGQ" and (kind == "C") == (step.kind == "g"):
                if step.kind in CREDITS or (kind == "Q" and not reads):
                    continue
                later = sum(s.kind == step.kind for s in self.threads[t][k + 1 : node[1]])
                if later >= self.threads[t][node[1]].place:
                    yield t, node[1] + 1

    def _signals(self, issue: Node) -> Iterator[tuple[int, int]]:
        """(mbarrier, phase) that a copy's completion is told by."""
        t, k = issue
        step = self.threads[t][k]
        if step.kind in CREDITS:
            yield step.place, self.phase[t, ~k]
        elif step.kind == "g":
            for later, other in enumerate(self.threads[t][k + 1 :], k + 1):
                if other.kind in "in":
                    yield other.place, self.phase[t, ~later]

    def faults(self) -> tuple[set[str], bool]:
        """What goes wrong between accesses; and whether a plain read lacks a fence before an asynchronous write."""
        found: set[str] = set()
        war = False
        for n, one in enumerate(self.accesses):
            for other in self.accesses[n + 1 :]:
                if one.variable != other.variable or not (one.writes or other.writes):
                    continue
                if one.node == other.node:
                    continue
                ordered = [(a, b) for a, b in ((one, other), (other, one)) if self._ordered(a, b)]
                if not ordered:
                    same = one.writes and other.writes and self._store_the_same(one, other)
                    self.same |= same
                    found |= set() if same else {RACE}
                    continue
                earlier, later = ordered[0]
                if later.bulk and not earlier.bulk and not self._fenced(earlier, later):
                    if earlier.writes and not self._is_read_back(earlier, later):
                        found.add(PROXY)
                    else:
                        war = True
        return found, war

    def _accesses(self, node: Node) -> Iterator[Access]:
        kind = self.kind(node)
        if kind == "end":
            return
        t, k = node
        step = self.threads[t][k]
        if kind in "RW":
            yield Access(node, step.place, kind == "W", agent=False, bulk=False)
        elif kind == "T":
            yield Access(node, step.number, True, agent=True, bulk=True)
        elif kind == "V":
            yield Access(node, step.number % VARIABLES, False, agent=True, bulk=True)
            yield Access(node, step.number // VARIABLES, True, agent=True, bulk=True)
        elif kind == "g":
            yield Access(node, step.place, True, agent=True, bulk=False)
        elif kind == "O":
            yield Access(node, step.place, False, agent=True, bulk=True)
            yield Access(node, ~(VARIABLES * t + step.place), True, agent=True, bulk=True)

    def _ordered(self, one: Access, other: Access) -> bool:
        if self._in_order(one, other):
            return True
        written = (a for a in self.accesses if a.agent and a.writes and a.variable == one.variable)
        return any(self._in_order(one, a) and self._in_order(a, other) for a in written)  # it is overwritten until then

    def _store_the_same(self, one: Access, other: Access) -> bool:
        """Whether two stores leave the same bytes.  What they store is one value each, if every two accesses that
        nothing orders are two such stores; else there is a race, whatever they store."""
        words = range(min(one.words, other.words))
        return all(self._stored(one, word) == self._stored(other, word) for word in words)

    def _stored(self, store: Access, word: int) -> float:
        """What it stores there: a plain one the number of its step, a load ones, other copies what they have read."""
        t, k = store.node
        kind, _, number = self.threads[t][k]
        if kind not in "VO":
            return float(k) if kind == "W" else 1.0
        source = number % VARIABLES if kind == "V" else self.threads[t][k].place
        before = [
            a for a in self.accesses
            if a.writes and a.variable == source and word < a.words and self._ordered(a, store)
        ]  # fmt: skip
        last = [a for a in before if not any(self._ordered(a, b) for b in before if b is not a)]
        return self._stored(last[0], word) if last else 0.0

    def _in_order(self, one: Access, other: Access) -> bool:
        if not one.agent:
            return self.before((one.node[0], one.node[1]), other.node)
        return any(self.before(j, other.node) for j in self.joins(one.node, reads=not one.writes))

    def _fenced(self, one: Access, other: Access) -> bool:
        fences = [node for node in self.nodes if self.kind(node) == "P"]
        return any(self._ordered(one, one._replace(node=fence)) and self.before(fence, other.node) for fence in fences)

    def _is_read_back(self, write: Access, copy: Access) -> bool:
        """Whether plain reads before a copy that overwrites a variable have returned all that was written there: the
        write is performed, and of those reads each lacks the fence itself (docs/semantics.md, "Proxies")."""
        return copy.writes and any(
            not one.agent and not one.writes and one.variable == write.variable and one.words >= write.words
            and self._ordered(write, one) and self._ordered(one, copy)
            for one in self.accesses
        )  # fmt: skip

    def at_the_end(self, where: Where | None) -> tuple[set[str], bool, bool]:
        """What may be under way when a thread ends that has to be over then, or all threads; whether what is sure
        to be requested is not sure to be over; and whether a bulk store may be under way then."""
        found: set[str] = set()
        requested = stored = False
        for node in self.nodes:
            kind = self.kind(node)
            if kind in ("T", "V", "g", "O"):
                known = [*self.joins(node, reads=kind == "O")]
                if not (self._ends_behind(node[0], known) if kind == "V" else known):
                    stored |= kind == "O"
                    found |= set() if kind == "O" else {OUTLIVES}
                cta = self._target(node, where) if where and kind in CREDITS else node[0]
                if cta != node[0] and not self._ends_behind(cta, known):
                    found.add(TOO_LATE)
            elif where and kind in ("R", "W", "a", "d", "x", "e"):
                cta = self._target(node, where)
                end = cta, len(self.threads[cta])
                if cta != node[0] and end not in self.later[node]:
                    found.add(TOO_LATE)
                elif cta != node[0] and end not in self.after[node]:
                    requested |= not (kind == "e" and self._is_seen(node))
        return found, requested, stored

    def _is_seen(self, node: Node) -> bool:
        """Whether a wait has seen the phase, of an operation on an mbarrier, or a later one."""
        place = self.threads[node[0]][node[1]].place
        waits = (w for w in self.nodes if self.kind(w) in WAITS and self.threads[w[0]][w[1]].place == place)
        return any(self.phase[w] >= self.phase[node] for w in waits)

    def _target(self, node: Node, where: Where) -> int:
        """The CTA whose memory a step writes, or where its mbarrier is."""
        step = self.threads[node[0]][node[1]]
        if step.kind in "adxe":
            return where.mbarriers[step.place]
        return where.variables[{"T": step.number, "V": step.number // VARIABLES}.get(step.kind, step.place)]

    def _ends_behind(self, thread: int, points: list[Node]) -> bool:
        """Whether a thread ends behind one of some points, in every schedule."""
        end = thread, len(self.threads[thread])
        return any(point == end or end in self.later[point] for point in points)

    def is_unobserved(self) -> bool:
        """Whether before some arrival nobody has seen the phase before complete (PTX ISA, "Phase of the mbarrier
        object")."""
        for node in self.nodes:
            kind = self.kind(node)
            if kind not in ("a", "d", "x", "i", "n", "t"):
                continue
            t, k = node
            place = self.threads[t][k].place
            phase = self.phase[(t, ~k) if kind == "n" else node]
            seen = any(
                self.kind(w) in WAITS
                and self.threads[w[0]][w[1]].place == place
                and self.phase[w] == phase - 1
                and ((w[0], w[1] + 1) == node or node in self.later[w[0], w[1] + 1])
                for w in self.nodes
            )
            if phase % LIFE and not seen:
                return True
        return False


class Access(NamedTuple):
    """What a step does to a variable."""

    node: Node
    variable: int
    """below 0: where a thread's bulk stores of one go"""
    writes: bool
    agent: bool
    """a copy"""
    bulk: bool
    """in the asynchronous proxy"""

    @property
    def words(self) -> int:
        """How many of a variable's it is of, from the first on."""
        return SIZE // 4 if self.agent else 1
