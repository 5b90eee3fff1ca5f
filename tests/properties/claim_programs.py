"""Random kernels whose threads claim cells of a table, as insertions into a hash table do, and all interleavings."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import wsemu
from tests.properties.enumerated import JudgedProgram, always_ends, judge_program

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    from wsemu.launch.result import Report
    from wsemu.model.settings import Engine

EMPTY, MORE, OUTSIDE = 0, 10, 99
"""The value of an empty cell; the difference between the two keys of a thread; a location beyond the arrays."""
_SHARES: dict[str, tuple[str, ...]] = {
    "look": ("", "", "", "strong", "plain"),
    "value": ("slot", "slot", "slot", "thread", "next", "early", "one"),
    "hit": ("leave", "leave", "store", "load"),
    "then": ("", "", "", "again", "again", "free", "wait"),
    "counter": ("", "", "", "add", "read"),
}
"""Forms of each part of a program; several entries make a form likelier."""
Location = tuple[str, int]
Access = tuple[int, Location, str]
"""(thread, location, `r` for a load or `w` for a store, `R` for a strong access that writes nothing or `W` for one that
does)"""

Effect = tuple[str, frozenset[tuple[str, str]]]
"""(step, what it does to which arrays)"""
Path = tuple[Effect, ...]


class ClaimProgram(NamedTuple):
    """Each thread looks for a cell for its key: it claims the first empty one, or finds its own key."""

    ctas: int
    keys: tuple[int, ...]
    """The key of each thread."""
    starts: tuple[int, ...]
    """The cell in which each thread looks first."""
    first: tuple[int, ...]
    """What the cells hold before the launch."""
    stride: int
    limit: int
    """The number of cells in which a thread looks; 0: it does not stop."""
    expected: int
    """What an empty cell should hold."""
    look: str
    """How a thread loads a cell before its `cas`; empty: it does not."""
    value: str
    """Where a thread stores its value: at its cell, at its own number, at the next cell, at its cell before the `cas`,
    or at one location for all threads."""
    hit: str
    """What a thread does when it finds its key: nothing, or a store or a load of the value."""
    then: str
    """What a thread does after it has claimed a cell: insert another key, free the cell, or wait for the next cell."""
    counter: str
    """The counter of claims: none, one to which threads add, or one that they also load."""
    scope: str
    same: bool
    """All threads store one value."""

    @property
    def threads(self) -> int:
        return len(self.keys)

    @property
    def room(self) -> int:
        return len(self.first)

    @property
    def meets_before_store(self) -> bool:
        """Return whether lanes return unless they claim a cell, and then store once."""
        returns = self.hit == "leave" and self.counter != "read"
        return returns and self.value != "early" and self.then != "again"

    def store_location(self, thread: int, slot: int) -> int:
        """Return the element at which a thread stores its value."""
        if self.value == "thread":
            return thread
        if self.value == "next":
            return slot + 1
        return 0 if self.value == "one" else slot

    def ptx(self) -> str:
        order = f".relaxed{self.scope or '.gpu'}.global"
        load = {"strong": f"ld{order}.u32", "plain": "ld.global.u32"}.get(self.look, "")
        look = f"{load} %v, [%a]; setp.eq.u32 %q, %v, %k; @%q bra HIT; setp.ne.u32 %q, %v, 0; @%q bra NEXT;"
        at = {"thread": "%i", "next": "%w", "one": "%z"}.get(self.value, "%s")
        hit = {"store": "st.global.u32 [%b], %x;", "load": "ld.global.u32 %v, [%b]; st.global.u32 [%o], %v;"}
        then = {
            "free": f"atom{order}.exch.b32 %v, [%a], 0;",
            "again": f"@%r bra DONE; setp.eq.u32 %r, %z, 0; add.u32 %k, %k, {MORE}; bra BEGIN;",
            "wait": f"WAIT: ld{order}.u32 %v, [%n]; setp.eq.u32 %q, %v, 0; @%q bra WAIT;",
        }
        return f"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 cells_, .param .u64 values_, .param .u64 counter_, .param .u64 given_, .param .u64 out_)
{{
  .reg .b32 %i, %c, %t, %k, %f, %s, %w, %z, %p, %v, %x; .reg .b64 %e, %l, %m, %g, %o, %a, %b, %n; .reg .pred %q, %r;
  ld.param.u64 %e, [cells_]; ld.param.u64 %l, [values_]; ld.param.u64 %m, [counter_]; ld.param.u64 %g, [given_];
  ld.param.u64 %o, [out_];
  mov.u32 %i, %tid.x; mov.u32 %c, %ctaid.x; mov.u32 %t, %ntid.x; mad.lo.u32 %i, %c, %t, %i; mov.u32 %z, 0;
  mad.wide.u32 %g, %i, 8, %g; ld.global.u32 %k, [%g]; ld.global.u32 %f, [%g + 4]; mad.wide.u32 %o, %i, 4, %o;
  {"mov.u32 %x, 7;" if self.same else "add.u32 %x, %i, 1;"} setp.ne.u32 %r, %z, 0;
BEGIN:
  mov.u32 %s, %f; mov.u32 %p, 0;
LOOP:
  add.u32 %w, %s, 1; mad.wide.u32 %a, %s, 4, %e; mad.wide.u32 %b, %s, 4, %l;
  {look if load else ""}
  {"st.global.u32 [%b], %x;" if self.value == "early" else ""}
  atom{order}.cas.b32 %v, [%a], {self.expected}, %k;
  setp.eq.u32 %q, %v, {self.expected}; @%q bra WON;
  setp.eq.u32 %q, %v, %k; @%q bra HIT;
NEXT:
  add.u32 %s, %s, {self.stride}; rem.u32 %s, %s, {self.room}; add.u32 %p, %p, 1;
  {f"setp.ge.u32 %q, %p, {self.limit}; @%q bra DONE;" if self.limit else ""}
  bra LOOP;
WON:
  mad.wide.u32 %b, {at}, 4, %l; {"" if self.value == "early" else "st.global.u32 [%b], %x;"}
  {"red.relaxed.gpu.global.add.u32 [%m], 1;" if self.counter else ""}
  rem.u32 %w, %w, {self.room}; mad.wide.u32 %n, %w, 4, %e;
  {then.get(self.then, "")}
  bra DONE;
HIT:
  {hit.get(self.hit, "")}
DONE:
  {"ld.global.u32 %v, [%m]; st.global.u32 [%o], %v;" if self.counter == "read" else ""}
  exit;
}}
"""

    def can_fail(self) -> bool:
        """Return whether some interleaving has a race, leaves an array, or does not end."""
        return Enumeration(self).fails()


class Position(NamedTuple):
    """The state of a thread before a strong access."""

    step: str
    slot: int
    probes: int
    again: bool


class State(NamedTuple):
    """The state of a launch."""

    cells: tuple[int, ...]
    threads: tuple[Position, ...]
    accesses: frozenset[Access]


_END = Position("end", 0, 0, False)


class Enumeration:
    """All interleavings of a program.  Nothing orders two threads, because it has no fences.  `together`: lanes of one
    warp may store one value to one location if they have the same key and the same first cell, take the same path in
    every interleaving, or meet before the store, because lanes that do not come there return."""

    def __init__(self, program: ClaimProgram, *, together: bool = False) -> None:
        self.program, self.together = program, together
        self.paths = self._find_paths() if together else [None] * program.threads

    def _start(self) -> State:
        program = self.program
        before = {at for thread in range(program.threads) for at in self._before_cas(thread, program.starts[thread])}
        step = "load" if program.look else "cas"
        return State(program.first, tuple(Position(step, slot, 0, False) for slot in program.starts), frozenset(before))

    def _find_paths(self) -> list[Path | None]:
        """Return what each thread executes in every interleaving; None if that depends on the interleaving."""
        start = self._start()
        seen, pending = {start}, [start]
        found: list[dict[Position, set[tuple[Effect, Position]]]] = [{} for _ in start.threads]
        while pending:
            state = pending.pop()
            for thread, at in enumerate(state.threads):
                if at.step != "end":
                    accesses = set[Access]()
                    after = self._perform(thread, at, [*state.cells], accesses)
                    effect = at.step, frozenset((array, kind) for _, (array, _), kind in accesses)
                    found[thread].setdefault(at, set()).add((effect, after))
            fresh = {*self._successors(state)} - seen
            seen |= fresh
            pending += fresh
        return [_follow(at, steps) for at, steps in zip(start.threads, found, strict=True)]

    def fails(self) -> bool:
        program, start = self.program, self._start()
        follow, pending = dict[State, list[State]](), [start]
        while pending:
            state = pending.pop()
            if state in follow:
                continue
            if any(at >= program.room for _, (_, at), _ in state.accesses) or self._has_race(state.accesses):
                return True
            follow[state] = [*self._successors(state)]
            pending += follow[state]
        ends = [state for state in follow if all(at == _END for at in state.threads)]
        return not always_ends(follow, ends)

    def _before_cas(self, thread: int, slot: int) -> Iterator[Access]:
        """Yield the plain accesses of a thread before its first strong access to a cell."""
        if self.program.value == "early" and not self.program.look:
            yield thread, ("values", slot), "w"

    def _successors(self, state: State) -> Iterator[State]:
        for thread, at in enumerate(state.threads):
            if at.step != "end":
                cells, accesses = [*state.cells], {*state.accesses}
                after = self._perform(thread, at, cells, accesses)
                threads = (*state.threads[:thread], after, *state.threads[thread + 1 :])
                yield State(tuple(cells), threads, frozenset(accesses))

    def _key(self, thread: int, at: Position) -> int:
        return self.program.keys[thread] + MORE * at.again

    def _perform(self, thread: int, at: Position, cells: list[int], accesses: set[Access]) -> Position:
        """Perform a strong access, and what follows it up to the next one."""
        program, cell, key = self.program, cells[at.slot], self._key(thread, at)
        if at.step == "wait":
            after = (at.slot + 1) % program.room
            accesses.add((thread, ("cells", after), "R"))
            return at if cells[after] == EMPTY else self._end(thread, accesses)
        if at.step == "free":
            cells[at.slot] = EMPTY
            accesses.add((thread, ("cells", at.slot), "W"))
            return self._end(thread, accesses)
        if at.step == "load":
            accesses.add((thread, ("cells", at.slot), "r" if program.look == "plain" else "R"))
            if cell == key:
                return self._hit(thread, at, accesses)
            if cell != EMPTY:
                return self._move_on(thread, at, accesses)
            if program.value == "early":
                accesses.add((thread, ("values", at.slot), "w"))
            return at._replace(step="cas")
        accesses.add((thread, ("cells", at.slot), "R" if cell != program.expected else "W"))
        if cell != program.expected:
            return self._hit(thread, at, accesses) if cell == key else self._move_on(thread, at, accesses)
        cells[at.slot] = key
        if program.value != "early":
            accesses.add((thread, ("values", program.store_location(thread, at.slot)), "w"))
        if program.counter:
            accesses.add((thread, ("counter", 0), "W"))
        if program.then in ("free", "wait"):
            return at._replace(step=program.then)
        if program.then == "again" and not at.again:
            return self._look(thread, Position("", program.starts[thread], 0, True), accesses)
        return self._end(thread, accesses)

    def _move_on(self, thread: int, at: Position, accesses: set[Access]) -> Position:
        program = self.program
        after = at._replace(slot=(at.slot + program.stride) % program.room, probes=at.probes + 1)
        if program.limit and after.probes >= program.limit:
            return self._end(thread, accesses)
        return self._look(thread, after if program.limit else after._replace(probes=0), accesses)

    def _look(self, thread: int, at: Position, accesses: set[Access]) -> Position:
        accesses |= {*self._before_cas(thread, at.slot)}
        return at._replace(step="load" if self.program.look else "cas")

    def _hit(self, thread: int, at: Position, accesses: set[Access]) -> Position:
        if self.program.hit != "leave":
            accesses.add((thread, ("values", at.slot), "w" if self.program.hit == "store" else "r"))
        return self._end(thread, accesses)

    def _end(self, thread: int, accesses: set[Access]) -> Position:
        if self.program.counter == "read":
            accesses.add((thread, ("counter", 0), "r"))
        return _END

    def _has_race(self, accesses: frozenset[Access]) -> bool:
        """Return whether two threads access one location, one of them writes, and they are not atomic with each
        other."""
        return any(self._conflict(one, other) for one in accesses for other in accesses)

    def _conflict(self, one: Access, other: Access) -> bool:
        in_one_cta = (
            one[0] * self.program.ctas // self.program.threads == other[0] * self.program.ctas // self.program.threads
        )
        atomic = (one[2] + other[2]).isupper() and (in_one_cta or not self.program.scope or one[1][0] == "counter")
        writes = "W" in (one[2] + other[2]).upper()
        excused = self.together and in_one_cta and self.program.same and one[2] == other[2] == "w"
        if excused and self._is_twin(one[0], other[0]):
            return False
        return one[0] != other[0] and one[1] == other[1] and writes and not atomic

    def _is_twin(self, one: int, other: int) -> bool:
        keys, starts, paths = self.program.keys, self.program.starts, self.paths
        if (keys[one], starts[one]) == (keys[other], starts[other]) or self.program.meets_before_store:
            return True
        return paths[one] is not None and paths[one] == paths[other]


def _follow(at: Position, steps: dict[Position, set[tuple[Effect, Position]]]) -> Path | None:
    """Return the only path of a thread to its end, None if it has several or does not end."""
    path = list[Effect]()
    while at != _END:
        if len(steps[at]) != 1 or len(path) > len(steps):
            return None
        ((effect, at),) = steps[at]
        path.append(effect)
    return tuple(path)


def draw_claims(source: random.Random) -> ClaimProgram:
    """Draw a program, often one without a mistake."""
    ctas = source.choice((1, 1, 2))
    threads = ctas * source.randint(1, 4 // ctas)
    room = source.randint(max(threads - 1, 1), 5)
    keys = tuple(source.sample(range(1, 6), threads))
    if source.random() < 0.3:
        keys = tuple(source.choice(keys) for _ in keys)
    first = tuple(source.choice((EMPTY, EMPTY, EMPTY, EMPTY, 8, keys[0])) for _ in range(room))
    starts = tuple(source.randrange(min(room, source.choice((1, 2, 5)))) for _ in keys)
    simple = source.random() < 0.5
    parts = {
        part: forms[0] if simple and source.random() < 0.8 else source.choice(forms) for part, forms in _SHARES.items()
    }
    return ClaimProgram(
        ctas, keys, starts, first, source.choice((1, 1, 1, 2)), source.choice((0, 0, 1, 2, room)),
        source.choice((EMPTY,) * 9 + (8,)), scope=source.choice(("",) * 9 + (".cta",)), same=source.random() < 0.1,
        **parts,
    )  # fmt: skip


def judge_claims(program: ClaimProgram, engines: tuple[Engine, ...]) -> JudgedProgram:
    """Compare wsemu's verdicts with all interleavings.  A store of one value by lanes that execute one instruction
    together is no race, and needs no warning."""
    fails, kernel = program.can_fail(), wsemu.load_ptx(program.ptx())["k"]

    def check(engine: Engine) -> Report:
        given = np.array([*zip(program.keys, program.starts, strict=True)], np.uint32)
        arrays = (
            np.array(program.first, np.uint32), np.zeros(program.room, np.uint32), np.zeros(1, np.uint32),
            given.ravel(), np.zeros(program.threads, np.uint32),
        )  # fmt: skip
        return wsemu.check(kernel, program.ctas, program.threads // program.ctas, arrays, engine=engine, budget=20_000)

    judged = judge_program(program, check, engines, fails=fails, shown="same-value-store")
    if fails and judged.complaints and not Enumeration(program, together=True).fails():
        return judged._replace(complaints=())
    return judged
