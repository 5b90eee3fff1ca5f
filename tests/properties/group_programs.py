"""Random kernels in which one lane of those that are active together draws numbers for all, and all groups of lanes.

Lanes of a warp that come to an `activemask` may be active together or not.  The first lane of a group, or of the lanes
of a group that match, adds to a counter; each lane computes the location of a store from the result.  Or it combines
the counter with the values of the group, combined by `redux`.  Or the lanes take different paths, meet, and exchange
values among those that are active together.
"""

from __future__ import annotations

import functools
import operator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import wsemu

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

    from wsemu.model.settings import Engine

ROOM = 12
"""Elements of the output, and of its part for each key."""
LANES = 32


class GroupProgram(NamedTuple):
    """What lanes do."""

    warps: int
    keys: tuple[int, ...]
    """The key of each of the first lanes of a warp; lanes with a negative one do not take part."""
    matches: bool
    """Lanes of a group with one key are a group by themselves, with a counter for each key."""
    elects: str
    """The first lane is known by its number (`lane`), by its rank (`rank`), or it is the last one (`last`)."""
    added: str
    """The first lane adds the `size` of its group, or `one`."""
    times: int
    """The numbers that a lane draws at once."""
    scale: int
    """Numbers by which a lane is away from the one below it."""
    rank: str
    """A lane counts those `below` it, those `up` to it, or is known by its `lane` number."""
    source: str
    """A lane gets the result of the `first` lane of its group, of lane 0 (`zero`), or of `itself`."""
    bound: int
    """Stores at this location and above are skipped; -1: none is."""
    leaves: bool
    """The other lanes end before the first one draws."""

    def takes_part(self) -> list[tuple[int, int]]:
        """Return the (warp, lane) of all that take part."""
        return [(warp, lane) for warp in range(self.warps) for lane, key in enumerate(self.keys) if key >= 0]

    def groups(self, left: frozenset[tuple[int, int]]) -> Iterator[tuple[tuple[int, int], ...]]:
        """Yield each group that may draw next."""
        lanes = sorted(left)
        for chosen in range(1, 1 << len(lanes)):
            group = tuple(one for n, one in enumerate(lanes) if chosen >> n & 1)
            alike = {(warp, self.keys[lane] if self.matches else 0) for warp, lane in group}
            if len(alike) == 1:
                yield group

    def reads_undefined(self) -> bool:
        """Return whether a lane may use a result that no lane of its group gave it."""
        everyone = frozenset(self.takes_part())
        several = any(len(group) > 1 for group in self.groups(everyone))
        away = any(lane for _, lane in everyone)
        wrong = away if self.source == "zero" else several and (self.source == "itself" or self.elects == "last")
        return wrong and not self.leaves

    def can_fail(self) -> bool:
        """Return whether some groups, in some order, lead to a race or an access out of bounds."""
        everyone = self.takes_part()
        return bool(everyone) and self._can_fail(frozenset(everyone), (0,) * (max(self.keys) + 1), frozenset())

    def _can_fail(
        self, left: frozenset[tuple[int, int]], counters: tuple[int, ...], stored: frozenset[int]
    ) -> bool:  # fmt: skip
        for group in self.groups(left):
            key = self.keys[group[0][1]] if self.matches else 0
            size = len(group) if self.added == "size" else 1
            grown = tuple(n + size * self.times * (k == key) for k, n in enumerate(counters))
            now = {at for at in (self._place(group, n, counters[key], key) for n in range(len(group))) if at >= 0}
            wrong = any(at >= ROOM for at in now) or bool(now & stored) or len(now) < self._stores(group, counters[key])
            if not self.leaves and wrong:
                return True
            if self._can_fail(left - set(group), grown, stored | now):
                return True
        return False

    def _place(self, group: tuple[tuple[int, int], ...], n: int, base: int, key: int) -> int:
        """Return where a lane of a group stores; -1: nowhere."""
        rank = {"below": n, "up": n + 1, "lane": group[n][1]}[self.rank]
        at = base + self.scale * rank
        return -1 if 0 <= self.bound <= at else at + (ROOM // 2 * key if self.matches else 0)

    def _stores(self, group: tuple[tuple[int, int], ...], base: int) -> int:
        return sum(self._place(group, n, base, 0) >= 0 for n in range(len(group)))

    def ptx(self) -> str:
        """Return the kernel."""
        mask, counter = ("%k", "%c") if self.matches else ("%m", "%n")
        first = {
            "lane": f"brev.b32 %f, {mask}; bfind.shiftamt.u32 %f, %f; setp.ne.u32 %q, %f, %l;",
            "rank": f"mov.u32 %s, %lanemask_lt; and.b32 %s, {mask}, %s; setp.ne.u32 %q, %s, 0;",
            "last": f"bfind.u32 %f, {mask}; setp.ne.u32 %q, %f, %l;",
        }[self.elects]
        size = f"popc.b32 %s, {mask}; mul.lo.u32 %s, %s, {self.times};"
        size = size if self.added == "size" else f"mov.u32 %s, {self.times};"
        shuffle = {
            "first": f"brev.b32 %f, {mask}; bfind.shiftamt.u32 %f, %f; shfl.sync.idx.b32 %b, %b, %f, 31, {mask};",
            "zero": f"shfl.sync.idx.b32 %b, %b, 0, 31, {mask};",
            "itself": "",
        }[self.source]
        rank = {
            "below": f"mov.u32 %s, %lanemask_lt; and.b32 %s, {mask}, %s; popc.b32 %r, %s;",
            "up": f"mov.u32 %s, %lanemask_le; and.b32 %s, {mask}, %s; popc.b32 %r, %s;",
            "lane": "mov.u32 %r, %l;",
        }[self.rank]
        return f"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 n_, .param .u64 x_, .param .u64 y_)
{{
  .reg .b32 %l, %t, %v, %m, %k, %f, %s, %b, %r; .reg .b64 %n, %x, %y, %a, %c; .reg .pred %q;
  ld.param.u64 %n, [n_]; ld.param.u64 %x, [x_]; ld.param.u64 %y, [y_];
  mov.u32 %t, %tid.x; and.b32 %l, %t, 31; mad.wide.u32 %a, %t, 4, %x; ld.global.u32 %v, [%a];
  setp.lt.s32 %q, %v, 0; @%q bra DONE;
  activemask.b32 %m; mul.wide.u32 %c, %v, 4; add.u64 %c, %c, %n;
  {"match.any.sync.b32 %k, %v, %m;" if self.matches else ""}
  {first}
  {"@%q exit;" if self.leaves else "@%q bra SHARE;"}
  {size}
  atom.global.add.u32 %b, [{counter}], %s;
  {"exit;" if self.leaves else ""}
SHARE:
  {shuffle}
  {rank}
  mad.lo.u32 %r, %r, {self.scale}, %b;
  {f"setp.ge.u32 %q, %r, {self.bound}; @%q bra DONE;" if self.bound >= 0 else ""}
  {f"mad.lo.u32 %r, %v, {ROOM // 2}, %r;" if self.matches else ""}
  mad.wide.u32 %a, %r, 4, %y; st.global.u32 [%a], %t;
DONE:
  exit;
}}
"""


_COMBINE: dict[str, Callable[[int, int], int]] = {
    "add.u32": operator.add, "max.s32": max, "min.s32": min, "max.u32": max, "min.u32": min, "and.b32": operator.and_,
    "or.b32": operator.or_, "xor.b32": operator.xor,
}  # fmt: skip
"""Operations by which values are combined; all values here are small and not negative."""


class CombiningProgram(NamedTuple):
    """What lanes do that combine their values."""

    warps: int
    keys: tuple[int, ...]
    """The key of each of the first lanes of a warp; lanes with a negative one do not take part."""
    matches: bool
    """Lanes of a group with one key combine their values in the counter of the key."""
    reduces: str
    """The operation by which the values of a group are combined."""
    performs: str
    """The operation of the atomic."""
    last: bool
    """The last lane performs it, not the first one."""
    whole: bool
    """Values are combined over the lanes that are active together, also if only those that match are meant."""
    beside: int
    """Added to the combined value."""
    stores: bool
    """The lane that performs the atomic stores its result."""
    leaves: bool
    """The other lanes end before."""

    def reads_undefined(self) -> bool:
        return False

    def can_fail(self) -> bool:
        """Return whether the counters, or what is stored, depend on the groups and their order."""
        everyone = frozenset((w, lane) for w in range(self.warps) for lane, key in enumerate(self.keys) if key >= 0)
        return len(self._find_ends(everyone, (3,) * (max(self.keys) + 1), (0,) * LANES * self.warps)) > 1

    def _find_ends(
        self, left: frozenset[tuple[int, int]], counters: tuple[int, ...], stored: tuple[int, ...]
    ) -> frozenset[tuple[tuple[int, ...], tuple[int, ...]]]:  # fmt: skip
        """Return the counters and stored values after each order of groups."""
        if not left:
            return frozenset({(counters, stored)})
        found = frozenset[tuple[tuple[int, ...], tuple[int, ...]]]()
        lanes = sorted(left)
        for chosen in range(1, 1 << len(lanes)):
            group = tuple(one for n, one in enumerate(lanes) if chosen >> n & 1)
            if len({warp for warp, _ in group}) == 1:
                found |= self._find_ends(left - set(group), *self._combine_groups(group, counters, stored))
        return found

    def _combine_groups(
        self, group: tuple[tuple[int, int], ...], counters: tuple[int, ...], stored: tuple[int, ...]
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:  # fmt: skip
        """Return the counters and stored values after the lanes that are active together have combined their values."""
        for key in sorted({self.keys[lane] if self.matches else 0 for _, lane in group}):
            part = [one for one in group if not self.matches or self.keys[one[1]] == key]
            values = [self._value(*one) for one in (group if self.whole else part)]
            warp, lane = part[-1 if self.last else 0]
            old, value = counters[key], functools.reduce(_COMBINE[self.reduces], values) + self.beside
            counters = (*counters[:key], _COMBINE[self.performs](old, value), *counters[key + 1 :])
            if self.stores:
                at = LANES * warp + lane
                stored = (*stored[:at], old, *stored[at + 1 :])
        return counters, stored

    def _value(self, warp: int, lane: int) -> int:
        return (LANES * warp + lane) * 5 % 13 + 1

    def ptx(self) -> str:
        """Return the kernel."""
        mask, counter = ("%k", "%c") if self.matches else ("%m", "%n")
        elects = f"bfind.u32 %f, {mask}" if self.last else f"brev.b32 %f, {mask}; bfind.shiftamt.u32 %f, %f"
        types = {"u": "u32", "s": "s32", "b": "b32"}
        performs = f"{self.performs[:-3]}{types[self.performs[-3]]}"
        return f"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 n_, .param .u64 x_, .param .u64 y_)
{{
  .reg .b32 %l, %t, %v, %m, %k, %f, %s, %b; .reg .b64 %n, %x, %y, %a, %c; .reg .pred %q;
  ld.param.u64 %n, [n_]; ld.param.u64 %x, [x_]; ld.param.u64 %y, [y_];
  mov.u32 %t, %tid.x; and.b32 %l, %t, 31; mad.wide.u32 %a, %t, 4, %x; ld.global.u32 %v, [%a];
  setp.lt.s32 %q, %v, 0; @%q bra DONE;
  mul.lo.u32 %s, %t, 5; rem.u32 %s, %s, 13; add.u32 %s, %s, 1;
  activemask.b32 %m; mul.wide.u32 %c, %v, 4; add.u64 %c, %c, %n;
  {"match.any.sync.b32 %k, %v, %m;" if self.matches else ""}
  {elects}; setp.ne.u32 %q, %f, %l;
  redux.sync.{self.reduces} %s, %s, {"%m" if self.whole else mask};
  {f"add.u32 %s, %s, {self.beside};" if self.beside else ""}
  {"@%q exit;" if self.leaves else "@%q bra DONE;"}
  atom.global.{performs} %b, [{counter}], %s;
  {"mad.wide.u32 %a, %t, 4, %y; st.global.u32 [%a], %b;" if self.stores else ""}
DONE:
  exit;
}}
"""


class MeetingProgram(NamedTuple):
    """What lanes do that take different paths, meet, and exchange values among those that are active together."""

    warps: int
    keys: tuple[int, ...]
    """The path of each of the first lanes of a warp; lanes with a negative one do not take part."""
    exchanges: str
    """The operation by which a lane gets a value."""
    writers: int
    """The path of the lanes that store the values which they get; -1: all lanes do; -2: none does."""
    waits: bool
    """The lanes wait at a barrier before they part, so that lanes of one path stay together."""
    loops: bool
    """Paths are rounds of a loop, not sides of branches."""
    exchanges_before: str = ""
    """Before that, the lanes that are active together execute a `shfl` that names them all, or a `match`, after which
    even and odd lanes wait for each other (`halves`); empty: nothing."""
    early: bool = False
    """They do so before they take different paths, not after."""

    def _classes(self) -> list[list[int]]:
        """Return the lanes that certainly stay together."""
        everyone = [lane for lane, key in enumerate(self.keys) if key >= 0]
        if not self.waits:
            return [[lane] for lane in everyone]
        kinds = {lane: (self.keys[lane], lane % 2 * (self.exchanges_before == "halves")) for lane in everyone}
        return [[lane for lane in everyone if kinds[lane] == kind] for kind in sorted(set(kinds.values()))]

    def _stores(self, lane: int) -> bool:
        return self.writers == -1 or self.keys[lane] == self.writers

    def reads_undefined(self) -> bool:
        """Return whether a lane may store the value of a lane that need not be active with it."""
        return self._reads_beyond(self._classes())

    def _reads_beyond(self, classes: list[list[int]]) -> bool:
        return any(self._stores(lane) and self._find_source(lane) not in group for group in classes for lane in group)

    def can_fail(self) -> bool:
        """Return whether what is stored depends on which lanes are active together."""
        classes = self._classes()
        first = min((lane for group in classes for lane in group), default=0)
        depends = {
            "shfl.first": any(first not in group and any(map(self._stores, group)) for group in classes),
            "vote.ballot": len(classes) > 1 and any(self._stores(lane) for group in classes for lane in group),
        }
        return self.reads_undefined() or depends.get(self.exchanges, False)

    def shows_undefined(self) -> bool:
        """Return whether lanes that took different paths exchange a value that is stored."""
        return self._replace(waits=True, exchanges_before="").reads_undefined()

    def _find_source(self, lane: int) -> int:
        """Return the lane whose value a lane gets; itself if that is a lane of its group, whichever group that is."""
        return {"shfl.up": max(lane - 1, 0), "shfl.bfly": lane ^ 1}.get(self.exchanges, lane)

    def ptx(self) -> str:
        """Return the kernel."""
        exchange = {
            "shfl.up": "shfl.sync.up.b32 %b, %s, 1, 0, %m;",
            "shfl.bfly": "shfl.sync.bfly.b32 %b, %s, 1, 31, %m;",
            "shfl.first": "brev.b32 %f, %m; bfind.shiftamt.u32 %f, %f; shfl.sync.idx.b32 %b, %s, %f, 31, %m;",
            "vote.ballot": "setp.ne.u32 %q, %s, 99; vote.sync.ballot.b32 %b, %q, %m;",
            "none": "mov.u32 %b, %s;",
        }[self.exchanges]
        sides = """
  setp.ne.u32 %q, %v, 0; @%q bra OTHER;
  add.u32 %s, %t, 1; bra MEET;
OTHER:
  setp.ne.u32 %q, %v, 1; @%q bra MEET;
  add.u32 %s, %t, 2;"""
        rounds = """
  mov.u32 %f, %v;
LOOP:
  setp.eq.u32 %q, %f, 0; @%q bra MEET;
  add.u32 %s, %s, %t; sub.u32 %f, %f, 1; bra LOOP;"""
        part = rounds if self.loops else sides
        before = {
            "shfl": "activemask.b32 %e; shfl.sync.up.b32 %g, %t, 1, 0, %e;",
            "halves": "activemask.b32 %e; and.b32 %g, %t, 1; match.any.sync.b32 %e, %g, %e; bar.warp.sync %e;",
            "": "",
        }[self.exchanges_before]
        return f"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 n_, .param .u64 x_, .param .u64 y_)
{{
  .reg .b32 %t, %v, %m, %f, %s, %b, %e, %g; .reg .b64 %x, %y, %a; .reg .pred %q;
  ld.param.u64 %x, [x_]; ld.param.u64 %y, [y_];
  mov.u32 %t, %tid.x; mad.wide.u32 %a, %t, 4, %x; ld.global.u32 %v, [%a];
  {"bar.sync 0;" if self.waits else ""}
  setp.lt.s32 %q, %v, 0; @%q bra DONE;
  mov.u32 %s, 7;
  {before if self.early else ""}
  {part}
MEET:
  {"" if self.early else before}
  activemask.b32 %m; {exchange}
  {f"setp.ne.u32 %q, %v, {self.writers}; @%q bra DONE;" if self.writers >= 0 else ""}
  {"mad.wide.u32 %a, %t, 4, %y; st.global.u32 [%a], %b;" if self.writers > -2 else ""}
DONE:
  exit;
}}
"""


def draw_meeting(source: random.Random) -> MeetingProgram:
    """Draw a program in which lanes meet."""
    paths = source.choice(((0,), (0, -1), (0, 1), (0, 0, 1, 2, -1)))
    return MeetingProgram(
        source.choice((1, 1, 2)), tuple(source.choice(paths) for _ in range(source.randint(1, 5))),
        source.choice(("shfl.up", "shfl.up", "shfl.bfly", "shfl.first", "vote.ballot", "none")),
        source.choice((-2, -1, -1, 0, 0, 1)), source.random() < 0.8, source.random() < 0.4,
        source.choice(("", "", "shfl", "shfl", "halves")), source.random() < 0.4,
    )  # fmt: skip


def draw_combining(source: random.Random) -> CombiningProgram:
    """Draw a program, half of the time one without a mistake."""
    warps, lanes = source.choice(((1, 3), (1, 4), (2, 2)))
    right, what = source.random() < 0.5, source.choice([*_COMBINE])

    def errs(share: float) -> bool:
        return not right and source.random() < share

    return CombiningProgram(
        warps, tuple(source.choice((0, 0, 1, -1)) for _ in range(lanes)), source.random() < 0.5, what,
        source.choice([*_COMBINE]) if errs(0.4) else what, source.random() < 0.1, errs(0.3), int(errs(0.3)),
        errs(0.2), source.random() < 0.2,
    )  # fmt: skip


def draw_groups(source: random.Random) -> Program:
    """Draw a program, half of the time one without a mistake."""
    if source.random() < 0.15:
        return draw_meeting(source)
    if source.random() < 0.3:
        return draw_combining(source)
    warps, lanes = source.choice(((1, 3), (1, 4), (2, 2)))
    right, matches, times = source.random() < 0.5, source.random() < 0.4, source.choice((1, 1, 2))

    def pick(good: str, *bad: str) -> str:
        return good if right or source.random() < 0.6 else source.choice(bad)

    return GroupProgram(
        warps, tuple(source.choice((0, 0, 1, -1)) for _ in range(lanes)), matches,
        pick(source.choice(("lane", "rank")), "last"), pick("size", "one"), times,
        times if right else source.choice((1, 1, 2)), pick("below", "up", "lane"), pick("first", "zero", "itself"),
        source.choice((-1, -1, 2, 4)), source.random() < 0.2,
    )  # fmt: skip


Program = GroupProgram | CombiningProgram | MeetingProgram


class JudgedGroups(NamedTuple):
    """A program with the verdicts of engines, and what is wrong with these."""

    program: Program
    fails: bool
    verdicts: tuple[str, ...]
    complaints: tuple[str, ...]

    def __str__(self) -> str:
        return f"{'; '.join(self.complaints)}: {self.program}"


def check_groups(program: Program, engine: Engine) -> wsemu.Report:
    """Check a program."""
    x = np.full((program.warps, LANES), -1, np.int32)
    x[:, : len(program.keys)] = program.keys
    room = ROOM if isinstance(program, GroupProgram) else LANES * program.warps
    given = np.full(4, 3 if room > ROOM else 0, np.uint32), x, np.zeros(room, np.uint32)
    return wsemu.check(wsemu.load_ptx(program.ptx())["k"], 1, LANES * program.warps, given, engine=engine)


def judge_groups(program: Program, engines: tuple[Engine, ...]) -> JudgedGroups:
    """Compare wsemu's verdicts with all groups of lanes, in all orders."""
    undefined = program.reads_undefined()
    fails = undefined or program.can_fail()
    verdicts, complaints = [], []
    for engine in engines:
        report = check_groups(program, engine)
        verdicts.append(report.verdict)
        if fails and report.verdict == "verified":
            complaints.append(f"{engine}: missed")
        if not (undefined if isinstance(program, MeetingProgram) else fails) and report.verdict == "failed":
            complaints.append(f"{engine}: false alarm")
        if isinstance(program, MeetingProgram) and program.shows_undefined() and report.verdict != "failed":
            complaints.append(f"{engine}: not found")
    return JudgedGroups(program, fails, tuple(verdicts), tuple(complaints))
