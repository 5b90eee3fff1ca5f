"""Knowledge of the threads of one CTA, which represents all CTAs that synchronize alike (`crowds.py`).

For its own CTA, a thread keeps intervals, as in `threads.py`.  For other CTAs it keeps what it has acquired: one column
for each *share*, the set of everything acquired together so far.  Three more columns represent the location of the next
access: what was released there, and what was known to the `fence.sc` before its writes and before its reads.  The
search determines what a share contains; this module only tracks which threads have it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.launch.explore.ways import UnfitError
from wsemu.model.data import NamedTuple
from wsemu.model.isa import LANES
from wsemu.proof.positions import Position, Positions, Touch, Touches, unknown_lanes
from wsemu.proof.thread_keys import WIDE
from wsemu.proof.threads import Knowledge, Location, memory_effect

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from wsemu.launch.explore.session import Ask
    from wsemu.proof.threads import Made, Rows, Thread

MOST_SHARES = 48
"""maximum shares that are distinguished in a CTA"""
_ENDS = frozenset("arrive sync exit warp fence.cta fence.gpu fence.sys".split())
"""kinds of events that end an interval of a warp"""
OF_PLACE = 3
NOTHING = -1
"""entry for unknown knowledge: all positions are unknown"""
Share = int
"""set of acquired shares, as bits: a thread that has a share is ordered after everything in it"""


class Did(NamedTuple):
    """The effect of a CTA between two ordered accesses, as others observe it."""

    made: int
    """set of positions, a bit each"""
    accesses: tuple[tuple[int, frozenset[Share]], ...]
    """accessed positions, each with the shares that lanes had there; the position of the ordered access comes first"""
    rows: tuple[Share, ...]
    """for each new share, the previous shares that it consists of"""
    own: tuple[tuple[int, int, Rows, frozenset[Share]], ...]
    """(later, earlier, unknown lanes, shares): positions of its own that are known only through shares"""
    left: tuple[tuple[Share, int] | None, ...]
    """published contents of the location: knowledge of other CTAs, and positions of its own; None: nothing"""


class Kin(Knowledge):
    """The threads of a CTA, which is called 0."""

    positions: Positions
    ctas: Sequence[int]
    shares: int
    """number of columns after those of threads; one more column follows them for what the access acquires"""
    past: dict[int, int]
    """for each position, the last interval in which its warp accessed it and that some thread has not observed"""

    def begin(self, positions: Positions, ctas: Sequence[int]) -> None:
        """Represent one of several CTAs that have not begun."""
        self.positions, self.ctas, self.shares, self.past = positions, ctas, 1, {}
        self.width = self.of_cta + 1 + OF_PLACE
        self.rows[0] = np.zeros((self.of_cta, self.width), np.int32)
        self.rows[0][:, self.of_cta] = 1

    # -- on the way ----------------------------------------------------------------------------------------------------
    def go(
        self, made: Iterable[Made], touched: Mapping[tuple[int, int], Mapping[int, Touches]], ask: Ask | None
    ) -> tuple[Did, object]:
        """Continue a CTA after an access.  `touched` maps (warp, interval) to the positions that each CTA accessed
        then.  Return what the CTA did, and a key that distinguishes its knowledge from that in other states."""
        self.past = dict(self.past)
        self.rows[0] = self.rows[0].copy()
        self.locations = {}
        if ask is not None:
            tells = np.zeros((OF_PLACE, self.width), np.int32)
            tells[np.arange(OF_PLACE), self.of_cta + self.shares + np.arange(OF_PLACE)] = 1
            given, written, read = ({WIDE: row} for row in tells)
            self.locations[ask.place] = Location({}, given, *((written, read) if self.sequential else ({}, {})))
        self.open = dict(sorted(touched.items()))
        self.accesses: list[tuple[int, frozenset[Share]]] = []
        self.of_own: list[tuple[int, int, Rows, frozenset[Share]]] = []
        self.news = self.later = 0
        self.then: dict[int, int] = {}
        """`past` at the ordered access"""
        for one in made:
            event = one.event._replace(cta=0)
            if event.kind == "access":
                self._let_go(one._replace(event=event))
                continue
            if event.kind in _ENDS:
                self._close(event.warp, event.interval)
            if event.kind in self._rules:
                self._rules[event.kind](one._replace(event=event))
            if event.kind == "complete":
                self._forget_known()
        for warp in range(self.warps):
            self._close(warp, 1 << 40)
        return self._fold_shares(ask)

    def _let_go(self, made: Made) -> None:
        event = made.event
        atomic = memory_effect(self.code[event.pc], data=event.pc in self.data).atomic
        if not (atomic and event.pc in self.ordered):
            return
        for lane, address in made.addresses:
            thread, place = event.warp * LANES + lane, (-1, address)
            touch = (Touch(lane, address, event.pc),)
            self._visit(self.positions.at(event.warp, dict.fromkeys(self.ctas, touch), strong=True), event.interval)
            self._acquire_after(event, thread, place)
            self._strong(event, thread, place, bool(made.wrote >> lane & 1))
        self.then, self.later = dict(self.past), 0

    def _close(self, warp: int, interval: int) -> None:
        """Record the positions that a warp has accessed up to the end of an interval."""
        for key in [key for key in self.open if key[0] == warp and key[1] <= interval]:
            self._visit(self.positions.at(warp, self.open.pop(key)), key[1])

    def _visit(self, position: Position, interval: int) -> None:
        """Enter a position, and record which other positions no thread has observed there."""
        rows = self.rows[0]
        shares = frozenset(self._share(rows[self._columns(position)]))
        self.accesses.append((position.number, shares))
        for number, mark in self.past.items():
            earlier = self.positions.all[number]
            unknown = unknown_lanes(rows, position, earlier, mark, lockstep=self.lockstep)
            if unknown is not None:
                self.of_own.append((position.number, number, unknown, shares))
        self.past[position.number] = interval
        self.news |= 1 << position.number
        self.later |= 1 << position.number

    def _forget_known(self) -> None:
        _, rows = self._collect_rows()
        self.past = {n: mark for n, mark in self.past.items() if not self._observed_table(rows, n, mark).all()}

    def _columns(self, position: Position) -> list[int]:
        return [position.warp * LANES + lane for lane in position.lanes]

    def _observed_table(self, rows: Rows, number: int, mark: int) -> Any:
        """Return, for each row and lane of a position, whether it is observed up to an interval."""
        return rows[:, self._columns(self.positions.all[number])] >= mark

    def _share(self, rows: Rows) -> list[Share]:
        """Return the shares in each row."""
        count = self.shares + OF_PLACE
        there = rows[:, self.of_cta : self.of_cta + count] > 0
        found: list[int] = (there @ (1 << np.arange(count, dtype=np.int64))).tolist()
        return found

    # -- where it stands -----------------------------------------------------------------------------------------------
    def _fold_shares(self, ask: Ask | None) -> tuple[Did, object]:
        """Renumber the remaining shares.  A share is dropped if its thread has observed the contents anyway."""
        left = self._remaining_shares(ask)
        names, table = self._collect_rows()
        masks = self._share(table)
        kinds = list(dict.fromkeys(masks))
        if len(kinds) > MOST_SHARES:
            raise UnfitError
        known = {n: self._observed_table(table, n, mark) for n, mark in self.past.items()}
        self.past = {n: self.past[n] for n, there in known.items() if not there.all()}
        told = tuple((n, np.packbits(known[n]).tobytes()) for n in sorted(self.past))
        shape = tuple(zip(names, map(kinds.index, masks), strict=True)), told
        self._rename_rows(names, table, [kinds.index(mask) for mask in masks], max(len(kinds), 1))
        return Did(self.news, tuple(self.accesses), tuple(kinds or [0]), tuple(self.of_own), left), shape

    def _remaining_shares(self, ask: Ask | None) -> tuple[tuple[Share, int] | None, ...]:
        """Return the shares that the location of a released access still publishes."""
        if ask is None:
            return ()
        location, found = self.locations[ask.place], list[tuple[Share, int] | None]()
        for tells in (location.given, location.written, location.read):
            row = tells.get(WIDE)
            if row is None:
                found.append(None)
                continue
            whole = self._pad_rows(row)[None]
            (share,) = self._share(whole)
            untold = (
                sum(1 << n for n, mark in self.then.items() if not self._observed_table(whole, n, mark).all())
                | self.later
            )
            if not whole[0, : self.of_cta].any():  # the access belongs to none of its threads
                untold = NOTHING
            found.append((share, untold))
        if found[0] is not None and self.counts:  # a thread that observes a write also knows of that one
            found[0] = found[0][0], found[0][1] & ~(1 << self.accesses[0][0])
        return tuple(found)

    def _pad_rows(self, row: Rows) -> Rows:
        made = np.zeros(self.width, np.int32)
        made[: len(row)] = row[: self.width]
        return made

    def _collect_rows(self) -> tuple[list[Any], Rows]:
        """Return the knowledge that matters from here on, each row with a name."""
        rows = self.rows[0]
        alive = [w * LANES + lane for w in range(self.warps) if (0, w) not in self.gone for lane in range(LANES)]
        if not alive:
            return [], np.zeros((0, self.width), np.int32)
        found: list[tuple[Any, Rows]] = [(("thread", t), rows[t]) for t in alive]
        for name in ("fenced", "pending"):
            fenced: dict[Thread, dict[int, Rows]] = getattr(self, name)
            found += [((name, t), given[WIDE]) for t, given in sorted(fenced.items()) if WIDE in given]
        for (t, place), given in sorted(self.seen.items()):
            if WIDE in given:
                seen, own = self._share(np.stack([self._pad_rows(given[WIDE]), self._pad_rows(rows[t])]))
                found += [(("seen", t, place), given[WIDE])] if seen & ~own else []
        for name in ("behind", "forced") if self.sequential else ():
            table: dict[Thread, dict[int, Rows]] = getattr(self, name)
            found += [((name, t), reached[WIDE]) for t, reached in sorted(table.items())
                      if WIDE in reached and self._adds(name, reached[WIDE], rows[t])]  # fmt: skip
        found += [(("meeting", bar, n), reached[WIDE]) for (_, bar), both in sorted(self.meeting.items())
                  for n, reached in enumerate(both) if WIDE in reached]  # fmt: skip
        found += [(("exited",), row) for row in self.exited.values()]
        found += [(("given", bar, syncs, uncounted), row)
                  for (_, bar), (row, syncs, uncounted) in sorted(self.given.items())]  # fmt: skip
        return [name for name, _ in found], np.stack([self._pad_rows(row) for _, row in found])

    def _adds(self, name: str, row: Rows, known: Rows) -> bool:
        """Return whether the next `fence.sc` of a thread acquires anything that the thread does not know yet."""
        if name != "forced":
            return True
        taken, own = self._share(np.stack([self._pad_rows(row), self._pad_rows(known)]))
        more = (self._pad_rows(row)[: self.of_cta] > known[: self.of_cta]).any()
        return bool(taken & ~own or more)

    def _rename_rows(self, names: list[Any], table: Rows, shares: list[int], count: int) -> None:
        """Keep only these rows, which consist of these shares."""
        self.shares, self.width = count, self.of_cta + count + OF_PLACE
        made = np.zeros((len(names), self.width), np.int32)
        made[:, : self.of_cta] = table[:, : self.of_cta]
        made[np.arange(len(names)), [self.of_cta + share for share in shares]] = 1
        self.rows[0] = np.zeros((self.of_cta, self.width), np.int32)
        self.fenced, self.pending, self.own, self.seen = {}, {}, {}, {}
        self.exited, self.given, self.locations, self.columns, self.counts, self.last = {}, {}, {}, {}, {}, {}
        self.behind, self.forced, self.meeting = {}, {}, {}
        for name, row in zip(names, made, strict=True):
            self._store_row(name, row)

    def _store_row(self, name: tuple[Any, ...], row: Rows) -> None:
        if name[0] == "thread":
            self.rows[0][name[1]] = row
        elif name[0] in ("fenced", "pending"):
            getattr(self, name[0])[name[1]] = {WIDE: row}
        elif name[0] == "seen":
            self.seen[name[1:]] = {WIDE: row}
        elif name[0] in ("behind", "forced"):
            getattr(self, name[0])[name[1]] = {WIDE: row}
        elif name[0] == "meeting":
            self.meeting.setdefault((0, name[1]), ({}, {}))[name[2]][WIDE] = row
        elif name[0] == "exited":
            self.exited[0] = row
        else:
            self.given[0, name[1]] = row, name[2], name[3]
