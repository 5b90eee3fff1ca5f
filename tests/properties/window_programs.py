"""Random kernels whose warps look back at what CTAs before them publish, and all that their loads may return."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import wsemu
from tests.properties.enumerated import JudgedProgram, judge_program

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator
    from typing import Any

    from numpy.typing import NDArray

    from wsemu.launch.result import Report
    from wsemu.model.settings import Engine

ROOM = 24
"""Elements of the output."""
PADDING = 8
"""Words before that of the first CTA: each holds a sum of 0."""
NOTHING, OWN, WHOLE = range(3)
"""What a word says in its low two bits: nothing, the sum of a CTA, or the sum up to a CTA."""


class WindowProgram(NamedTuple):
    """Lanes look at words, each at one, until none says nothing; they add up to the first one with a whole sum."""

    ctas: int
    lanes: int
    sums: tuple[int, ...]
    """The sum of each CTA."""
    kept: str
    """Lanes that add: up to the first whole sum (`le`), before it (`lt`), or `all`."""
    waits: str
    """A round is repeated while `any` word says nothing, while `all` do, or `never`."""
    counts: bool
    """The number of whole sums is added to the location of the store."""
    mask: int
    """The location of the store is the sum, exclusive-or this."""
    bound: int
    """The greatest location of a store that a thread makes; others are skipped.  -1: it makes all."""
    form: str = "packed"
    """A word is one integer (`packed`), a vector of 128 bits (`vector`), or two integers (`apart`)."""
    state: int = 0
    """The element of a vector, or the integer of two, that says what the other one is."""
    undefined: int = -1
    """The CTA that adds a register which nothing writes to the sum that it publishes first; only the last one publishes
    it to nobody.  -1: none."""
    written: str = ""
    """A register is written by lanes that see a `whole` sum, or `some` sum.  Empty: there is no such register."""
    used: str = "store"
    """The first lane adds that register to the location of its `store`, or to the whole sum that it `publishes`, or
    adds none of its bits (`masked`)."""

    def rounds(
        self, whole: tuple[int, ...], first: int, total: int, is_written: bool = False
    ) -> Iterator[tuple[int, int, bool]]:
        """Yield what a CTA may add up from a lane's first CTA on, how many whole sums it saw, and whether its first
        lane has written the register."""
        there = [self._choices(first - lane, whole) for lane in range(self.lanes)]
        for seen in itertools.product(*there):
            says = [one for one, _ in seen]
            if (self.waits == "any" and NOTHING in says) or (self.waits == "all" and {*says} == {NOTHING}):
                continue
            count, writes = says.count(WHOLE), is_written or says[0] in self._writing()
            last = says.index(WHOLE) if count else self.lanes - 1
            added = total + sum(value for lane, (_, value) in enumerate(seen) if self._adds(lane, last))
            if count:
                yield added, count, writes
            else:
                yield from self.rounds(whole, first - self.lanes, added, writes)

    def _writing(self) -> tuple[int, ...]:
        return {"whole": (WHOLE,), "some": (OWN, WHOLE), "": (NOTHING, OWN, WHOLE)}[self.written]

    def _choices(self, cta: int, whole: tuple[int, ...]) -> list[tuple[int, int]]:
        if cta < 0:
            return [(WHOLE, 0)]
        own = [] if cta == 0 else [(OWN, self.sums[cta])]
        found = [(NOTHING, 0), *own, (WHOLE, whole[cta])]
        if self.form != "apart":
            return found
        says, values = zip(*found, strict=True)
        return list(dict.fromkeys(itertools.product(says, values)))

    def _adds(self, lane: int, last: int) -> bool:
        return self.kept == "all" or lane < last or (self.kept == "le" and lane == last)

    def can_fail(self, whole: tuple[int, ...] = (), stored: frozenset[int] = frozenset()) -> bool:
        """Return whether some CTA may store out of bounds, or two to one location; of the first CTAs it is known what
        they publish and store."""
        cta = len(whole)
        if cta == self.ctas:
            return False
        for total, count, written in {*self.rounds(whole, cta - 1, 0)} if cta else {(0, 0, True)}:
            if not written and (self.used == "store" or (self.used == "publishes" and cta < self.ctas - 1)):
                return True
            at = (total ^ self.mask) + (count if self.counts else 0)
            stores = frozenset[int]() if 0 <= self.bound < at else frozenset({at})
            if stores & stored or any(at >= ROOM for at in stores):
                return True
            if self.can_fail((*whole, total + self.sums[cta]), stored | stores):
                return True
        return False

    def words(self) -> NDArray[Any]:
        """Return the words before the launch."""
        count = PADDING + self.ctas
        if self.form == "packed":
            words = np.zeros(count, np.uint32)
            words[:PADDING] = WHOLE
            return words
        vectors = np.zeros((count, 2), np.uint64)
        vectors[:PADDING, self.state] = WHOLE
        return vectors.reshape(-1)

    def _elements(self) -> list[str]:
        """Return the registers of two elements: `%z` says what the sum in `%x` is."""
        return ["%z", "%x"] if self.state == 0 else ["%x", "%z"]

    def _load(self) -> str:
        """Return instructions that read a word: what it says into `%u`, the sum into `%v`."""
        if self.form == "packed":
            return "ld.relaxed.gpu.global.u32 %v, [%a]; and.b32 %u, %v, 3; shr.u32 %v, %v, 2;"
        elements = self._elements()
        if self.form == "vector":
            loads = f"ld.relaxed.gpu.global.v2.u64 {{{', '.join(elements)}}}, [%a];"
        else:
            loads = " ".join(f"ld.relaxed.gpu.global.u64 {one}, [%a+{8 * n}];" for n, one in enumerate(elements))
        return f"{loads} cvt.u32.u64 %u, %z; cvt.u32.u64 %v, %x;"

    def _store(self, says: int) -> str:
        """Return instructions by which the first lane publishes the sum in `%d`."""
        if self.form == "packed":
            return f"shl.b32 %s, %d, 2; or.b32 %s, %s, {says}; @%f st.relaxed.gpu.global.u32 [%m], %s;"
        elements = self._elements()
        if self.form == "vector":
            stores = f"@%f st.relaxed.gpu.global.v2.u64 [%m], {{{', '.join(elements)}}};"
        else:
            stores = " ".join(f"@%f st.relaxed.gpu.global.u64 [%m+{8 * n}], {one};" for n, one in enumerate(elements))
        return f"cvt.u64.u32 %x, %d; mov.u64 %z, {says}; {stores}"

    def ptx(self) -> str:
        """Return the kernel."""
        members, steps = (1 << self.lanes) - 1, [1 << k for k in range(self.lanes.bit_length() - 1)]
        adds = " ".join(
            f"shfl.sync.bfly.b32 %u, %v, {step}, 31, {members}; add.u32 %v, %v, %u;" for step in steps
        )  # fmt: skip
        polls = {"any": f"vote.sync.any.pred %q, %q, {members}; @%q bra POLL;",
                 "all": f"vote.sync.all.pred %q, %q, {members}; @%q bra POLL;", "never": ""}[self.waits]  # fmt: skip
        keeps = {"le": "setp.le.u32 %q, %l, %s;", "lt": "setp.lt.u32 %q, %l, %s;", "all": "setp.ge.u32 %q, %l, 0;"}
        sums = " ".join(f"setp.eq.u32 %q, %t, {n}; @%q mov.u32 %o, {value};" for n, value in enumerate(self.sums))
        size = 4 if self.form == "packed" else 16
        return f"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 w_, .param .u64 y_)
{{
  .reg .b32 %l, %t, %o, %i, %v, %u, %s, %b, %e, %c, %d, %n, %h; .reg .b64 %w, %y, %a, %m, %x, %z; .reg .pred %q, %p, %f;
  ld.param.u64 %w, [w_]; ld.param.u64 %y, [y_];
  mov.u32 %l, %tid.x; mov.u32 %t, %ctaid.x; mov.u32 %o, 0; mov.u32 %e, 0; mov.u32 %c, 0;
  setp.eq.u32 %f, %l, 0;
  {sums}
  mad.wide.u32 %m, %t, {size}, %w; add.u64 %m, %m, {size * PADDING};
  setp.eq.u32 %q, %t, 0; @%q mov.u32 %h, 0; @%q bra PUBLISH;
  mov.u32 %d, %o;
  {f"setp.eq.u32 %q, %t, {self.undefined}; @%q add.u32 %d, %d, %n;" if self.undefined > 0 else ""}
  {self._store(OWN)}
  sub.u32 %i, %t, 1; sub.u32 %i, %i, %l;
WINDOW:
  mul.wide.s32 %a, %i, {size}; add.u64 %a, %a, %w; add.u64 %a, %a, {size * PADDING};
POLL:
  {self._load()}
  setp.eq.u32 %q, %u, {NOTHING};
  {polls}
  {f"setp.ne.u32 %q, %u, {NOTHING}; @%q mov.u32 %h, 0;" if self.written == "some" else ""}
  setp.eq.u32 %p, %u, {WHOLE};
  {"@%p mov.u32 %h, 0;" if self.written == "whole" else ""}
  vote.sync.ballot.b32 %b, %p, {members};
  or.b32 %s, %b, {1 << self.lanes - 1}; brev.b32 %s, %s; clz.b32 %s, %s;
  {keeps[self.kept]}
  selp.b32 %v, %v, 0, %q;
  {adds}
  add.u32 %e, %e, %v;
  popc.b32 %c, %b; sub.u32 %i, %i, {self.lanes};
  setp.eq.u32 %q, %b, 0; @%q bra WINDOW;
PUBLISH:
  add.u32 %d, %e, %o;
  {"add.u32 %d, %d, %h;" if self.written and self.used == "publishes" else ""}
  {self._store(WHOLE)}
  @!%f exit;
  xor.b32 %s, %e, {self.mask};
  {"and.b32 %h, %h, 0;" if self.used == "masked" else ""}
  {"add.u32 %s, %s, %h;" if self.written and self.used != "publishes" else ""}
  {"add.u32 %s, %s, %c;" if self.counts else ""}
  {f"setp.gt.u32 %q, %s, {self.bound}; @%q exit;" if self.bound >= 0 else ""}
  mad.wide.u32 %a, %s, 4, %y; st.global.u32 [%a], %o;
  exit;
}}
"""


def draw_windows(source: random.Random) -> WindowProgram:
    """Draw a program, half of the time one without a mistake."""
    ctas = source.choice((2, 3, 3, 4))
    right = source.random() < 0.5
    drawn = WindowProgram(
        ctas, source.choice((2, 2, 4)), tuple(source.choice((1, 1, 2, 3)) for _ in range(ctas)),
        "le" if right else source.choice(("le", "lt", "all")),
        "any" if right else source.choice(("any", "any", "all", "never")),
        not right and source.random() < 0.4, source.choice((0, 0, 4, 16)), source.choice((-1, -1, 2, 8)),
        source.choice(("packed", "vector") if right else ("packed", "vector", "vector", "apart")),
        source.choice((0, 1)),
    )  # fmt: skip
    undefined = source.choice((-1, -1, -1, -1, ctas - 1, ctas - 1, source.randrange(1, ctas)))
    written = source.choice(("", "", "whole", "some"))
    used = source.choice(("store", "publishes", "masked")) if written else "store"
    return drawn._replace(undefined=undefined, written=written, used=used)


def judge_windows(program: WindowProgram, engines: tuple[Engine, ...]) -> JudgedProgram:
    """Compare wsemu's verdicts with all that loads may return."""
    reads = 0 <= program.undefined < program.ctas - 1  # the next CTA may add it to the location of its store
    fails, kernel = reads or program.can_fail(), wsemu.load_ptx(program.ptx())["k"]

    def check(engine: Engine) -> Report:
        return wsemu.check(
            kernel, program.ctas, program.lanes, (program.words(), np.zeros(ROOM, np.uint32)), engine=engine
        )

    return judge_program(program, check, engines, fails=fails)
