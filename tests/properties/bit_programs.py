"""Random kernels whose threads draw numbers and lock bits, as pushes to a vector do, and all interleavings."""

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

MASK, OUTSIDE = (1 << 32) - 1, 4096
"""A word of ones; an element beyond the array."""
_SHARES: dict[str, tuple[str, ...]] = {
    "draw": ("add", "add", "add", "inc", "dec", "two", "twice", "thread"),
    "slot": ("number", "number", "number", "number", "flip", "half", "reverse", "sum"),
    "lock": ("bit", "bit", "bit", "bit", "flip", "word", "none"),
    "at": ("slot", "slot", "slot", "slot", "thread", "next", "one"),
    "unlock": ("bit", "bit", "bit", "bit", "flip", "clear", "xor", "none"),
}
"""Forms of each part of a program; several entries make a form likelier."""
_LOADS: dict[str, tuple[str, ...]] = {
    "load": ("", "", "own", "own", "early", "next"),
    "order": ("weak", "relaxed.gpu", "acquire.gpu", "volatile"),
    "steer": ("lost", "found", "found", "spin", ""),
    "when": ("other", "other", "always"),
}
"""Forms of a load that steers its thread, each of which may be right."""
Access = tuple[int, int, str]
"""(thread, location, `r` for a load or `w` for a store)"""


class BitProgram(NamedTuple):
    """Each thread draws a number, locks a bit for it, stores a value unless the slot is occupied, and unlocks the bit;
    if the bit was locked or the slot occupied, it tries again."""

    ctas: int
    threads: int
    room: int
    """The number of elements."""
    first: int
    """What the counter holds before the launch."""
    limit: int
    """The number of slots that threads use; 0: they do not look."""
    locks: int
    """The bits that are locked before the launch."""
    draw: str
    """How a thread gets its number: by an atomic, by two that count on together, by two draws, or as its own number."""
    slot: str
    """The slot of a number, or of a number and a thread."""
    lock: str
    """The bit that a thread locks: of its slot, or of another one; or it tests the whole word; or no bit."""
    occupied: bool
    """Threads set a bit for an occupied slot."""
    full: bool
    """A thread first looks whether the counter has reached the limit."""
    at: str
    """Where a thread stores its value."""
    load: str
    """What a thread loads afterwards: the element where it has stored, one where it stored before its first strong
    access, or the next element."""
    order: str
    """The order of this load."""
    steer: str
    """What a thread does depending on the value that it loads: it stores outside the array if this is its own value, or
    if it is not; or it loads until it is."""
    when: str
    """When a thread does so: always, or only if its slot has not its own number, as in few interleavings."""
    unlock: str
    """How a thread unlocks its bit."""

    def find_slot(self, thread: int, number: int) -> int:
        found = {"flip": number ^ 1, "half": number >> 1, "reverse": 31 - number & 31, "sum": number + thread}
        return found.get(self.slot, number)

    def ptx(self) -> str:
        atom = "atom.relaxed.gpu.global"
        add = f"{atom}.add.u32 %p, [%n], 1;"
        draw = {
            "inc": f"{atom}.inc.u32 %p, [%n], {self.room - 1};", "dec": f"{atom}.dec.u32 %p, [%n], {self.room - 1};",
            "two": f"{atom}.add.u32 %v, [%m], 1; setp.ge.u32 %q, %v, 9; @%q bra DONE; {add}", "twice": add + add,
            "thread": "mov.u32 %p, %i;",
        }  # fmt: skip
        slot = {
            "flip": "xor.b32 %p, %p, 1;", "half": "shr.u32 %p, %p, 1;", "reverse": "sub.u32 %p, 31, %p;",
            "sum": "add.u32 %p, %p, %i;",
        }  # fmt: skip
        locked = "xor.b32 %v, %p, 1; shl.b32 %l, 1, %v;" if self.lock == "flip" else "mov.u32 %l, %b;"
        test = "mov.u32 %v, %v;" if self.lock == "word" else "and.b32 %v, %v, %l;"
        unlock = {
            "bit": f"not.b32 %v, %l; {atom}.and.b32 %v, [%k], %v;", "clear": f"{atom}.and.b32 %v, [%k], 0;",
            "flip": f"xor.b32 %v, %p, 1; shl.b32 %v, 1, %v; not.b32 %v, %v; {atom}.and.b32 %v, [%k], %v;",
            "xor": f"{atom}.xor.b32 %v, [%k], %l;", "none": "",
        }  # fmt: skip
        lock = f"{atom}.or.b32 %v, [%k], %l; {test} setp.ne.u32 %q, %v, 0; @%q bra LOCK;"
        look = "ld.relaxed.gpu.global.u32 %v, [%o]; and.b32 %v, %v, %b; setp.ne.u32 %r, %v, 0; @%r bra UNLOCK;"
        to = {"thread": "%i", "next": "%w", "one": "0"}.get(self.at, "%p")
        from_ = {"own": "[%a]", "early": "[%e]", "next": "[%a + 4]"}.get(self.load)
        load = f"ld.{self.order}.global.u32 %v, {from_};"
        other = "setp.ne.u32 %q, %p, %i;" if self.when == "other" else "setp.eq.u32 %q, %p, %p;"
        found = f"{other} setp.{'eq' if self.steer == 'found' else 'ne'}.and.u32 %q, %v, %x, %q; @%q"
        steer = f"{found} bra LOAD;" if self.steer == "spin" else f"{found} st.global.u32 [%d + {4 * OUTSIDE}], %i;"
        return f"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 data_, .param .u64 locks_, .param .u64 counter_, .param .u64 early_)
{{
  .reg .b32 %i, %c, %t, %p, %b, %l, %v, %w, %x; .reg .b64 %d, %k, %o, %n, %m, %a, %e; .reg .pred %q, %r;
  ld.param.u64 %d, [data_]; ld.param.u64 %k, [locks_]; add.u64 %o, %k, 4; ld.param.u64 %n, [counter_];
  add.u64 %m, %n, 4; mov.u32 %i, %tid.x; mov.u32 %c, %ctaid.x; mov.u32 %t, %ntid.x; mad.lo.u32 %i, %c, %t, %i;
  add.u32 %x, %i, 1; ld.param.u64 %e, [early_]; mad.wide.u32 %e, %i, 4, %e;
  {"st.global.u32 [%e], %x;" if self.load == "early" else ""}
  {f"ld.relaxed.gpu.global.u32 %v, [%n]; setp.eq.u32 %q, %v, {self.limit}; @%q bra DONE;" if self.full else ""}
  {draw.get(self.draw, add)}
  {slot.get(self.slot, "")}
  {f"setp.ge.u32 %q, %p, {self.limit}; @%q bra DONE;" if self.limit else ""}
  and.b32 %v, %p, 31; shl.b32 %b, 1, %v; {locked} setp.ne.u32 %r, %p, %p; add.u32 %w, %p, 1;
LOCK:
  {lock if self.lock != "none" else ""}
  {look if self.occupied else ""}
  mul.wide.u32 %a, {to}, 4; add.u64 %a, %a, %d; st.global.u32 [%a], %x;
LOAD:
  {load if self.load else ""} {steer if self.load and self.steer else ""}
  {f"{atom}.or.b32 %v, [%o], %b;" if self.occupied else ""}
UNLOCK:
  {unlock[self.unlock] if self.lock != "none" else ""}
  {"@%r bra LOCK;" if self.occupied else ""}
DONE:
  exit;
}}
"""

    def can_fail(self) -> bool:
        """Return whether some interleaving has a race, leaves the array, or does not end."""
        return Enumeration(self).fails()


class Position(NamedTuple):
    """The state of a thread before a strong access."""

    step: str
    number: int = 0
    again: bool = False


class State(NamedTuple):
    """The state of a launch."""

    counter: int
    second: int
    locks: int
    occupied: int
    threads: tuple[Position, ...]
    accesses: frozenset[Access]


_END = Position("end")


class Enumeration:
    """All interleavings of a program.  Nothing orders two threads, because it has no fences."""

    def __init__(self, program: BitProgram) -> None:
        self.program = program

    def fails(self) -> bool:
        program = self.program
        begin = Position("full") if program.full else self._begin()
        start = State(program.first, 0, program.locks, 0, (begin,) * program.threads, frozenset())
        follow, pending = dict[State, list[State]](), [start]
        while pending:
            state = pending.pop()
            if state in follow:
                continue
            if self._is_wrong(state.accesses):
                return True
            follow[state] = [*self._successors(state)]
            pending += follow[state]
        ends = [state for state in follow if all(at == _END for at in state.threads)]
        return not always_ends(follow, ends)

    def _is_wrong(self, accesses: frozenset[Access]) -> bool:
        outside = any(not 0 <= at < self.program.room for _, at, _ in accesses)
        return outside or any(
            one[0] != other[0] and one[1] == other[1] and "w" in one[2] + other[2]
            for one in accesses
            for other in accesses
        )

    def _begin(self) -> Position:
        return Position({"two": "second", "thread": "slot"}.get(self.program.draw, "draw"))

    def _successors(self, state: State) -> Iterator[State]:
        for thread, at in enumerate(state.threads):
            if at.step != "end":
                held = dict(zip(("counter", "second", "locks", "occupied"), state[:4], strict=True))
                accesses = {*state.accesses}
                after = self._perform(thread, at, held, accesses)
                threads = (*state.threads[:thread], after, *state.threads[thread + 1 :])
                yield State(**held, threads=threads, accesses=frozenset(accesses))

    def _perform(self, thread: int, at: Position, held: dict[str, int], accesses: set[Access]) -> Position:
        """Perform a strong access, and what follows it up to the next one."""
        program, slot = self.program, at.number
        bit = 1 << (slot & 31)
        own = 1 << (slot ^ 1 & 31) if program.lock == "flip" else bit
        if at.step == "spin":
            return at
        if at.step == "full":
            return _END if held["counter"] == program.limit else self._begin()
        if at.step == "slot":
            return self._enter(program.find_slot(thread, thread))
        if at.step == "second":
            held["second"] += 1
            return Position("draw")
        if at.step == "draw":
            number = self._draw(held)
            if program.draw == "twice" and not at.again:
                return Position("draw", again=True)
            return self._enter(program.find_slot(thread, number))
        if at.step == "lock":
            taken = held["locks"] & (MASK if program.lock == "word" else own)
            held["locks"] |= own
            return at if taken else self._look(thread, at, accesses)
        if at.step == "look":
            return (
                at._replace(step="unlock", again=True) if held["occupied"] & bit else self._store(thread, at, accesses)
            )
        if at.step == "store":
            return self._store(thread, at, accesses)
        if at.step == "occupy":
            held["occupied"] |= bit
        if at.step == "unlock":
            held["locks"] = {
                "bit": held["locks"] & ~own, "flip": held["locks"] & ~(1 << (slot ^ 1 & 31)), "clear": 0,
                "xor": held["locks"] ^ own, "none": held["locks"],
            }[program.unlock]  # fmt: skip
            return self._enter(slot) if at.again else _END
        return Position("unlock", slot) if program.lock != "none" else _END

    def _draw(self, held: dict[str, int]) -> int:
        program, number = self.program, held["counter"]
        if program.draw == "inc":
            held["counter"] = 0 if number >= program.room - 1 else number + 1
        elif program.draw == "dec":
            held["counter"] = program.room - 1 if not number or number > program.room - 1 else number - 1
        else:
            held["counter"] = number + 1
        return number

    def _enter(self, slot: int) -> Position:
        program = self.program
        if program.limit and slot >= program.limit:
            return _END
        if program.lock != "none":
            return Position("lock", slot)
        return Position("look" if program.occupied else "store", slot)

    def _look(self, thread: int, at: Position, accesses: set[Access]) -> Position:
        return at._replace(step="look") if self.program.occupied else self._store(thread, at, accesses)

    def _store(self, thread: int, at: Position, accesses: set[Access]) -> Position:
        program = self.program
        location = {"thread": thread, "next": at.number + 1, "one": 0}.get(program.at, at.number)
        accesses.add((thread, location, "w"))
        if program.load in ("own", "next"):
            accesses.add((thread, location + (program.load == "next"), "r"))
        if program.load and (program.when == "always" or at.number != thread):
            finds = program.load != "next"
            if program.steer == ("found" if finds else "lost"):
                accesses.add((thread, OUTSIDE, "w"))
            if program.steer == "spin" and not finds:
                return Position("spin")
        if program.occupied:
            return Position("occupy", at.number)
        return Position("unlock", at.number) if program.lock != "none" else _END


def draw_bits(source: random.Random) -> BitProgram:
    """Draw a program, often one without a mistake."""
    ctas = source.choice((1, 1, 2))
    threads = ctas * source.choice((1, 2, 2, 3, 3) if ctas == 1 else (1, 1, 1, 2))
    room = source.randint(threads, 2 * threads + 2)
    simple = source.random() < 0.6
    parts = {
        part: forms[0] if simple and source.random() < 0.8 else source.choice(forms) for part, forms in _SHARES.items()
    }
    parts |= {part: source.choice(forms) for part, forms in _LOADS.items()}
    first = source.choice((0, 0, 0, 1, room - threads, room - 1))
    limit = source.choice((0, room, room, room, max(threads - 1, 1)))
    return BitProgram(
        ctas, threads, room, first, limit, locks=source.choice((0,) * 7 + (1, 2, 8)),
        occupied=source.random() < 0.6, full=bool(limit) and source.random() < 0.4, **parts,
    )  # fmt: skip


def judge_bits(program: BitProgram, engines: tuple[Engine, ...]) -> JudgedProgram:
    """Compare wsemu's verdicts with all interleavings."""
    fails, kernel = program.can_fail(), wsemu.load_ptx(program.ptx())["k"]

    def check(engine: Engine) -> Report:
        arrays = (
            np.zeros(program.room, np.uint32), np.array([program.locks, 0], np.uint32),
            np.array([program.first, 0], np.uint32), np.zeros(program.threads, np.uint32),
        )  # fmt: skip
        return wsemu.check(kernel, program.ctas, program.threads // program.ctas, arrays, engine=engine, budget=20_000)

    return judge_program(program, check, engines, fails=fails)
