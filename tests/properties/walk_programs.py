"""Random kernels whose threads walk back over what earlier CTAs publish, each by itself, and all that they may read.

Each thread has a column of words, one for each CTA: nothing, the sum of a CTA, or the sum up to a CTA.  CTAs get their
numbers from `blockIdx`, or draw them.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import wsemu

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    from wsemu.model.settings import Engine

ROOM = 16
"""Elements of the output of a thread."""
NOTHING, OWN, WHOLE = range(3)
"""The low two bits of a word."""


class WalkProgram(NamedTuple):
    """What threads do."""

    ctas: int
    threads: tuple[int, ...]
    """The threads that walk."""
    sums: tuple[int, ...]
    """The sum of each CTA."""
    draws: bool
    """CTAs draw their numbers."""
    by_block: bool
    """The sum of a CTA is that of its `blockIdx`, also if it draws."""
    waits: bool
    """A thread reads a word again until it has something."""
    stops: str
    """A thread stops at the first `whole` sum, at `any` word, or `never`."""
    mask: int
    """The location of the store is the sum, exclusive-or this."""
    publishes: str
    """A sum is stored by `st`, by an exchange (`exch`), by additions (`add`), or `late`, after the walk alone."""
    reads_later: bool
    """A thread also looks at the word of the CTA after it, and adds what it finds."""
    votes: str = ""
    """Lanes vote at each word on who goes on: where they have no whole sum (`goes`), or `always`.  `counts` adds the
    votes for going on to the sum."""
    adds_to_others: bool = False
    """The last thread adds 1 to the sum of the first one, with publishes `add`."""

    def may_add(self, cta: int, whole: tuple[int, ...], sums: tuple[int, ...]) -> set[int]:
        """Return what a thread of a CTA may have added up; earlier CTAs publish `whole`."""
        later = {0}
        if self.reads_later and cta + 1 < self.ctas:
            later |= {sums[cta + 1], -1}  # -1: its whole sum, which differs from all else
        return {a + b for a in self._walk(cta - 1, whole, sums) for b in later}

    def _walk(self, at: int, whole: tuple[int, ...], sums: tuple[int, ...]) -> Iterator[int]:
        if at < 0:
            yield 0
            return
        found = [(WHOLE, whole[at])]
        if self.publishes != "late" and at:
            found.append((OWN, sums[at]))
        if not self.waits:
            found.append((NOTHING, 0))
        if self.adds_to_others:
            found += [(state, value + 1) for state, value in found]
        for state, value in found:
            counts = self._counts(at, goes=state != WHOLE)
            if self.stops == "any" or (self.stops == "whole" and state == WHOLE) or at == 0:
                yield from (value + count for count in counts)
            else:
                yield from (value + rest for rest in self._walk(at - 1, whole, sums))

    def _counts(self, at: int, *, goes: bool) -> range:
        """Return how many lanes may have voted for going on at a word."""
        if self.votes != "counts":
            return range(1)
        others = self.most_lanes() - 1 if self._may_differ(at) else 0
        return range(goes, goes + others + 1)

    def _may_differ(self, at: int) -> bool:
        """Return whether a word may have no whole sum."""
        return not self.waits or (self.publishes != "late" and at > 0)

    def most_lanes(self) -> int:
        """Return the most lanes of one warp that walk."""
        return max(len(self.lanes_with(thread)) for thread in self.threads)

    def lanes_with(self, thread: int) -> list[int]:
        """Return the lanes that walk in the warp of a thread."""
        return [other % 32 for other in self.threads if other // 32 == thread // 32]

    def may_miss_a_vote(self) -> bool:
        """Return whether a lane may vote without being named, or wait for one that does not vote."""
        if not self.votes or self.ctas < 3 or self.stops == "any":
            return False
        if self.stops == "never":  # a lane with a whole sum goes on, and may not be named
            return self.votes != "always"
        return self.votes == "always" and self.most_lanes() > 1 and self._may_differ(1)

    def can_fail(self) -> bool:
        """Return whether some CTA may store out of bounds, two to one location, or a lane may miss a vote."""
        if self.may_miss_a_vote():
            return True
        mixed = self.draws and self.by_block
        orders = itertools.permutations(self.sums) if mixed else [self.sums]
        return any(self._can_fail(tuple(sums), (), frozenset()) for sums in orders)

    def _can_fail(self, sums: tuple[int, ...], whole: tuple[int, ...], stored: frozenset[int]) -> bool:
        cta = len(whole)
        if cta == self.ctas:
            return False
        for total in self.may_add(cta, whole, sums):
            at = total ^ self.mask if total >= 0 else ROOM
            if at >= ROOM or at in stored or self._can_fail(sums, (*whole, total + sums[cta]), stored | {at}):
                return True
        return False

    def ptx(self) -> str:
        """Return the kernel."""
        sums = " ".join(f"setp.eq.u32 %q, %k, {n}; @%q mov.u32 %o, {value};" for n, value in enumerate(self.sums))
        walks = " ".join(f"setp.eq.u32 %q, %l, {thread}; @%q bra WALK;" for thread in self.threads)
        draw = """
  setp.ne.u32 %q, %l, 0; @%q bra DRAWN; atom.global.add.u32 %t, [%n], 1; st.shared.u32 [tile], %t;
DRAWN: bar.sync 0; ld.shared.u32 %t, [tile];"""
        number = draw if self.draws else "mov.u32 %t, %ctaid.x;"
        key = "mov.u32 %k, %ctaid.x;" if self.by_block else "mov.u32 %k, %t;"
        stop = {"whole": f"setp.eq.u32 %q, %u, {WHOLE}; @%q bra END;", "any": "bra END;", "never": ""}[self.stops]
        store = {"exch": "atom.global.exch.b32 %u, [%m], %d;", "add": "red.relaxed.gpu.global.add.u32 [%m], %d;"}.get(
            self.publishes, "st.relaxed.gpu.global.u32 [%m], %d;"
        )
        whole = f"add.u32 %d, %e, %o; shl.b32 %d, %d, 2; or.b32 %d, %d, {WHOLE};"
        if self.publishes == "add":
            whole += f" setp.ne.u32 %q, %t, 0; @%q shl.b32 %d, %e, 2; @%q add.u32 %d, %d, {WHOLE - OWN};"
        early = "" if self.publishes == "late" else f"shl.b32 %d, %o, 2; or.b32 %d, %d, {OWN}; {store}"
        width = max(self.threads) + 1
        masks = (
            "mov.u32 %b, 0; "
            + " ".join(  # written on all paths: moves under a guard alone leave it undefined on some
                f"setp.eq.u32 %q, %l, {thread}; @%q mov.u32 %b, {sum(1 << lane for lane in self.lanes_with(thread))};"
                for thread in self.threads
            )
        )
        goes = "setp.eq.u32 %g, %l, %l;" if self.votes == "always" else f"setp.ne.u32 %g, %u, {WHOLE};"
        counts = "popc.b32 %v, %b; setp.ne.u32 %g, %t, 0; @%g add.u32 %e, %e, %v;" if self.votes == "counts" else ""
        rogue = f"""setp.ne.u32 %q, %l, {self.threads[-1]}; @%q bra KEPT;
  mad.lo.u32 %u, %t, {width}, {self.threads[0]}; mad.wide.u32 %a, %u, 4, %w;
  red.relaxed.gpu.global.add.u32 [%a], 4;
KEPT:"""
        later = f"ld.relaxed.gpu.global.u32 %v, [%m + {4 * width}]; shr.u32 %v, %v, 2; add.u32 %e, %e, %v;"
        return f"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 n_, .param .u64 w_, .param .u64 y_)
{{
  .reg .b32 %l, %t, %k, %o, %i, %v, %u, %e, %d, %b; .reg .b64 %n, %w, %y, %a, %m; .reg .pred %q, %g;
  .shared .b32 tile;
  ld.param.u64 %n, [n_]; ld.param.u64 %w, [w_]; ld.param.u64 %y, [y_];
  mov.u32 %l, %tid.x; mov.u32 %o, 0; mov.u32 %e, 0;
  {number}
  {key}
  {sums}
  {walks}
  exit;
WALK:
  mad.lo.u32 %i, %t, {width}, %l; mad.wide.u32 %m, %i, 4, %w;
  setp.eq.u32 %q, %t, 0; @%q bra END;
  {early}
  sub.u32 %i, %t, 1;
  {masks if self.votes else ""}
NEXT:
  mad.lo.u32 %u, %i, {width}, %l; mad.wide.u32 %a, %u, 4, %w;
POLL:
  ld.relaxed.gpu.global.u32 %v, [%a];
  and.b32 %u, %v, 3;
  {f"setp.eq.u32 %q, %u, {NOTHING}; @%q bra POLL;" if self.waits else ""}
  shr.u32 %v, %v, 2; add.u32 %e, %e, %v;
  {f"{goes} vote.sync.ballot.b32 %b, %g, %b;" if self.votes else ""}
  {stop}
  sub.u32 %i, %i, 1; setp.ge.s32 %q, %i, 0; @%q bra NEXT;
END:
  {counts}
  {later if self.reads_later else ""}
  {whole}
  {store}
  {rogue if self.adds_to_others else ""}
  xor.b32 %u, %e, {self.mask}; mad.lo.u32 %u, %l, {ROOM}, %u;
  mad.wide.u32 %a, %u, 4, %y; st.global.u32 [%a], %o;
  exit;
}}
"""


def draw_walks(source: random.Random) -> WalkProgram:
    """Draw a program, half of the time one without a mistake."""
    ctas, right = source.choice((2, 3, 3, 4)), source.random() < 0.5
    draws = source.random() < 0.5
    threads = source.choice(((0,), (0, 1), (0, 3), (0, 32), (1, 33, 34)))
    publishes = source.choice(("st", "exch", "add", "late"))
    votes = "goes" if right else source.choice(("goes", "goes", "always", "counts"))
    return WalkProgram(
        ctas, threads,
        tuple(source.choice((1, 1, 2, 3)) for _ in range(ctas)), draws,
        not draws or (not right and source.random() < 0.5),
        right or source.random() < 0.6, "whole" if right else source.choice(("whole", "any", "never")),
        source.choice((0, 0, 4, 8)), publishes, not right and source.random() < 0.2,
        votes if source.random() < 0.6 else "",
        publishes == "add" and len(threads) > 1 and not right and source.random() < 0.3,
    )  # fmt: skip


class JudgedWalks(NamedTuple):
    """A program with the verdicts of engines, and what is wrong with these."""

    program: WalkProgram
    fails: bool
    verdicts: tuple[str, ...]
    complaints: tuple[str, ...]

    def __str__(self) -> str:
        return f"{'; '.join(self.complaints)}: {self.program}"


def check_walks(program: WalkProgram, engine: Engine) -> wsemu.Report:
    """Check a program."""
    width = max(program.threads) + 1
    given = np.zeros(1, np.uint32), np.zeros(width * (program.ctas + 1), np.uint32), np.zeros(ROOM * width, np.uint32)
    block = 64 if width > 32 else 32
    return wsemu.check(wsemu.load_ptx(program.ptx())["k"], program.ctas, block, given, engine=engine)


def judge_walks(program: WalkProgram, engines: tuple[Engine, ...]) -> JudgedWalks:
    """Compare wsemu's verdicts with all that loads may return."""
    fails = program.can_fail()
    verdicts, complaints = [], []
    for engine in engines:
        report = check_walks(program, engine)
        verdicts.append(report.verdict)
        if fails and report.verdict == "verified":
            complaints.append(f"{engine}: missed")
        if not fails and report.verdict == "failed" and not program.reads_later:
            complaints.append(f"{engine}: false alarm")
    return JudgedWalks(program, fails, tuple(verdicts), tuple(complaints))
