"""Keys of the vector clocks of `threads.py`, by which an exploration recognizes states that it has seen before.

Two histories have equal keys if they leave the same clocks, whichever threads caused them. If CTAs are interchangeable,
the key does not depend on their numbers either.
"""

from __future__ import annotations

import functools
import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.model.data import NamedTuple
from wsemu.model.isa import LANES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from wsemu.proof.robust import Before
    from wsemu.proof.threads import Knowledge, Place, Rows, Thread

WIDE = -1
"""scope key of a release that all CTAs may acquire"""
BEHIND, FORCED = 1, 2
"""kinds of `fence.sc` clocks in a release: of fences before it, and of those that the next `fence.sc` joins"""
_ENDS = 1 << 32
"""more than the number of scope keys, both below 0 and above"""
_ROWS = (
    "fenced", "pending", "own", "seen", "behind", "forced", "meeting", "exited", "barrier", "given", "places",
    "observed", "copies",
)  # fmt: skip
"""names of the clocks that do not belong to a thread"""
_OF_THREADS = frozenset(("fenced", "pending", "behind", "forced"))
"""names of tables whose clocks belong to one thread each"""
_Name = tuple[str, Any, int]
"""the name of a table of clocks, a key of the table, and the scope key or number of the clock"""
_ROUNDS = 8
"""maximum number of refinement rounds that distinguish CTAs"""
_ALL_BITS = (1 << 64) - 1


def fence_name(to: int, kind: int, end: int) -> int:
    """Encode as one number: a release to the scope `to` carries a `fence.sc` clock of a kind, with the key `end`."""
    return to + _ENDS * (kind + 3 * (end + _ENDS // 2))


@functools.lru_cache(maxsize=1 << 12)
def parts(name: int) -> tuple[int, int, int]:
    """Decode `fence_name` into scope, kind and key of the `fence.sc`; a kind of 0 is the released clock itself."""
    rest, to = divmod(name + _ENDS // 2, _ENDS)
    end, kind = divmod(rest, 3)
    return to - _ENDS // 2, kind, end - _ENDS // 2 if kind else 0


class _Ranks(dict[int, int]):
    """Maps a scope key to its rank in the order of CTAs, and an encoded `fence_name` to the one with these ranks."""

    def __missing__(self, name: int) -> int:
        to, kind, end = parts(name)
        self[name] = fence_name(self[to], kind, self[end])
        return self[name]


class _Entries(NamedTuple):
    """The recorded accesses of all locations.  Accesses that the same clocks have observed count as one *mark*."""

    marks: Any
    """one row for each mark: thread, interval, column, number within the column"""
    of_mark: Any
    """for each access, its mark"""
    whats: Any
    """for each access, a number for its location, kind, size and scope"""
    owners: list[int]
    """for each access, the CTA in whose shared memory it is, or -1"""


class Key:
    """The contents of a `Knowledge` in a form that can be hashed, with the CTAs in any order."""

    def __init__(self, known: Knowledge) -> None:
        self.known = known
        self.alive = [(cta, w) for cta in known.rows for w in range(known.warps) if (cta, w) not in known.gone]
        self.running = list(dict.fromkeys(cta for cta, _ in self.alive))
        self.living = {*self.running}
        self.names, self.held = self.special()

    def digest_bytes(self, order: Sequence[int]) -> bytes:
        """Return a digest in which the numbers of CTAs are their ranks in an order."""
        known = self.known
        rank = self.rank = _Ranks({cta: number for number, cta in enumerate(order)})
        rank |= {WIDE: WIDE, **{cluster: cluster for cluster in known.clusters.values()}}
        names = [self._rename(name) for name in self.names]
        several = len(known.shared.places) > 1  # with one location, no two strong accesses make a pair
        before = self._befores(known.before.items(), self._thread) if several else []
        gathered = self._befores(known.gathered.items(), self._barrier) if several else []
        last = sorted((self._thread(t), self._place(p)) for t, p in known.last.items()) if known.acquires else []
        alive = sorted((rank[cta], w) for cta, w in self.alive)
        touched = sorted((rank[own], key) for own, key in known.touched_keys.items() if own < 0 or own in self.living)
        counted = [sorted(known.numbers.items()), sorted(known.writers.items())] if known.numbers else []
        told = repr((sorted(names), alive, last, before, gathered, touched, counted))
        hashed = hashlib.blake2b(told.encode(), digest_size=16)
        self._hash_cells(hashed, names)
        return hashed.digest()

    def distinguish_ctas(self, alike: Sequence[bytes]) -> list[int]:
        """Return the CTAs in an order that depends on their state alone, not on their numbers.

        CTAs are distinguished by the accesses that they have observed, and by the CTAs that have observed theirs. Each
        round refines this by the differences found so far (color refinement, as for graph isomorphism).
        """
        known, ctas = self.known, len(self.known.rows)
        colours = {cta: hash(alike[cta]) for cta in self.living}
        if self._entries.owners:
            marks, of_mark = self._entries.marks, self._entries.of_mark
            by_owner = np.zeros((ctas + 1, len(marks)), np.uint64)
            by_owner[self.running] = self._known_by_cta
            owned = [self._owner(name) for name in self.names]
            rows = [ctas if owner is None else owner for owner, _ in owned]
            np.add.at(by_owner, rows, self._known_by_others * _mix_list([number for _, number in owned])[:, None])
            threads = marks[:, 0]
            made = np.zeros((ctas + 1, len(marks)), np.uint64)
            made[threads // known.of_cta, range(len(marks))] = 1
            whats = np.zeros(len(marks), np.uint64)
            lanes = (threads % known.of_cta).astype(np.uint64)[of_mark]
            np.add.at(whats, of_mark, _mix_numbers(self._entries.whats + _mix_numbers(lanes)))
            for _ in range(min(len(self.living), _ROUNDS)):
                own = _mix_list([colours.get(cta, 0) for cta in range(ctas + 1)])[:, None]
                whole = _mix_numbers(by_owner + own).sum(0) + (made * own).sum(0) + whats
                signs = _mix_numbers(by_owner + _mix_numbers(made + _mix_numbers(whole)[None, :])).sum(1)
                later = {cta: hash((colour, int(signs[cta]))) for cta, colour in colours.items()}
                distinct, before = len(set(later.values())), len(set(colours.values()))
                if distinct == before:
                    break
                colours = later
                if distinct == len(colours):
                    break
        return sorted(known.rows, key=lambda cta: (alike[cta], colours.get(cta, 0)))

    def _owner(self, name: _Name) -> tuple[int | None, int]:
        """Return the CTA to which a named clock belongs, and a number for its name that depends on no CTA's number."""
        what, key, to = name
        of_cta, kind = self.known.of_cta, _ROWS.index(what)
        if what in _OF_THREADS:
            return key // of_cta, hash((kind, key % of_cta, _nameless(to)))
        if what == "copies":
            return key[0] // of_cta, hash((kind, key[0] % of_cta, key[1], to))
        if what in ("own", "seen"):
            return key[0] // of_cta, hash((kind, key[0] % of_cta, key[1][1], _nameless(to)))
        if what == "exited":
            return key, kind
        if what == "meeting":
            return key[0], hash((kind, key[1], _nameless(to)))
        if what == "barrier":
            return key[0][0], hash((kind, key[0][1]))
        own = key[0] if key[0] >= 0 else None
        if what == "given":
            whom = parts(to)[0]
            return (whom if whom >= 0 else own), hash((kind, key[1], _nameless(to)))
        return own, hash((kind, key[1], _nameless(to)))

    def _rename(self, name: _Name) -> tuple[int, Any, int]:
        """Return the name of a clock with the ranks of CTAs instead of their numbers."""
        what, key, to = name
        kind, rank, thread = _ROWS.index(what), self.rank, self._thread
        if what in _OF_THREADS:
            return kind, thread(key), rank[to]
        if what == "copies":
            return kind, (thread(key[0]), key[1]), to
        if what in ("own", "seen"):
            return kind, (thread(key[0]), self._place(key[1])), rank[to]
        if what == "exited":
            return kind, rank[key], to
        if what == "meeting":
            return kind, self._barrier(key), self._rename_end(to)
        if what == "barrier":
            return kind, (self._barrier(key[0]), tuple(tuple(map(thread, sync)) for sync in key[1])), to
        if what == "given":
            return kind, self._place(key), rank[to]
        return kind, self._place(key), self._rename_end(to) if what == "places" else to

    def _rename_end(self, name: int) -> int:
        """Return a `fence_name` that names no scope, with the rank of the CTA that it ends with."""
        _, kind, end = parts(name)
        return fence_name(0, kind, self.rank[end])

    # -- other numbers -------------------------------------------------------------------------------------------------
    def _thread(self, thread: Thread) -> Thread:
        size = self.known.of_cta
        return self.rank[thread // size] * size + thread % size

    def _place(self, place: Place) -> Place:
        return self.rank[place[0]], place[1]

    def _barrier(self, key: tuple[int, int]) -> tuple[int, int]:
        return self.rank[key[0]], key[1]

    def _befores(self, items: Collection[tuple[Any, frozenset[Before]]], number: Callable[[Any], Any]) -> list[Any]:
        told = {found: "" for _, found in items}  # threads that met at a barrier share one set
        for found in told:
            told[found] = repr(sorted(map(self._before, found)))
        return sorted((number(key), told[found]) for key, found in items)

    def _before(self, before: Before) -> tuple[Any, ...]:
        """Return an earlier access as plain tuples, which are much faster to hash and compare."""
        (thread, place, *access), *between = before
        return (self._thread(thread), self._place(place), *access), *between

    # -- other clocks --------------------------------------------------------------------------------------------------
    def special(self) -> tuple[list[_Name], list[Rows]]:
        """Return the clocks that do not belong to a thread, and a name for each."""
        names: list[_Name] = []
        held: list[Rows] = []
        for what, table in sorted(self._tables().items()):
            for key, to in sorted(table):
                names.append((what, key, to))
                held.append(table[key, to])
        return names, held

    def _tables(self) -> dict[str, dict[tuple[Any, int], Rows]]:
        known = self.known
        by_key: dict[str, dict[Any, Any]] = {
            "fenced": known.fenced, "pending": known.pending, "own": known.own, "seen": known.seen,
        }  # fmt: skip
        there = {
            WIDE,
            *self.living,
            *(known.clusters[cta] for cta in self.living),
        }  # nothing can acquire what was released to a CTA that has ended

        def is_held(name: int) -> bool:
            if name in there or not known.sequential:
                return name in there
            to, kind, end = parts(name)
            return bool(kind) and to in there and end in there

        tables: dict[str, dict[tuple[Any, int], Rows]] = {
            **{name: {(key, to): row for key, rows in table.items() for to, row in rows.items() if is_held(to)}
               for name, table in by_key.items()},
            **{name: {(t, end): row for t, rows in table.items() for end, row in rows.items() if end in there}
               for name, table in (("behind", known.behind), ("forced", known.forced))},
            "meeting": {(key, fence_name(0, n, end)): row
                        for key, both in known.meeting.items() if key[0] in self.living
                        for n, rows in enumerate(both, 1) for end, row in rows.items() if end in there},
            "exited": {(cta, 0): row for cta, row in known.exited.items() if cta in self.living},
            "barrier": {((key, syncs), 0): row
                        for key, (row, syncs, _) in known.given.items() if key[0] in self.living},
        }  # fmt: skip
        tables["copies"] = {
            (key, n): self._row(columns) for key, groups in known.groups.items()
            for n, columns in enumerate(groups) if key[0] // known.of_cta in self.living
        }  # fmt: skip
        given, places, observed = {}, {}, {}
        for at, location in known.locations.items():
            if at[0] >= 0 and at[0] not in self.living:
                continue
            given.update({(at, to): row for to, row in location.given.items() if is_held(to)})
            for n, fences in enumerate((location.written, location.read), 1):
                places.update({(at, fence_name(0, n, end)): row for end, row in fences.items() if end in there})
            row = np.zeros(known.width, np.int32)
            row[list(location.observed)] = list(location.observed.values())
            observed[at, 0] = row
        return {**tables, "given": given, "places": places, "observed": observed}

    def _row(self, columns: Iterable[int]) -> Rows:
        row = np.zeros(self.known.width, np.int32)
        row[list(columns)] = 1
        return row

    # -- accesses ------------------------------------------------------------------------------------------------------
    @functools.cached_property
    def _entries(self) -> _Entries:
        number: dict[tuple[int, int, int, int], int] = {}
        of_mark, whats, owners = list[int](), list[int](), list[int]()
        compares = bool(self.known.equal)  # which stores may be equal depends on their instructions
        for (own, at), cell in self.known.cells.items():
            if own >= 0 and own not in self.living:
                continue
            for part, entries in enumerate(cell):
                for e in entries:
                    mark = e.thread, e.mark, e.column, e.written
                    of_mark.append(number.setdefault(mark, len(number)))
                    whats.append(hash((at, part, e.kind, e.size, e.reach, compares * e.pc)) & _ALL_BITS)
                    owners.append(own)
        return _Entries(np.array([*number]), np.array(of_mark), np.array(whats, np.uint64), owners)

    @functools.cached_property
    def _known_by_cta(self) -> Any:
        """For each running CTA, a number for each mark: it depends on which of its threads have observed the mark."""
        known = self.known
        knows = {cta: _knows(known._wide(cta, known.width), self._entries.marks) for cta in self.running}
        bits = np.packbits(np.concatenate([knows[cta][w * LANES : (w + 1) * LANES] for cta, w in self.alive]), axis=0)
        words = np.ascontiguousarray(bits.T).view(np.uint32).astype(np.uint64)  # one for each mark and warp
        mixed = _mix_numbers(words + _mix_numbers(np.array([w for _, w in self.alive], np.uint64)))
        starts = [n for n, (cta, _) in enumerate(self.alive) if not n or cta != self.alive[n - 1][0]]
        return np.add.reduceat(mixed, starts, axis=1).T

    @functools.cached_property
    def _known_by_others(self) -> Any:
        """For each clock that belongs to no thread, a 1 for each mark that it has observed."""
        table = np.zeros((len(self.held), self.known.width), np.int32)
        for n, row in enumerate(self.held):
            table[n, : len(row)] = row
        return _knows(table, self._entries.marks).astype(np.uint64)

    def _hash_cells(self, hashed: Any, names: Sequence[tuple[int, Any, int]]) -> None:
        """Hash which owners of clocks have observed each recorded access.  `names` has the names of other clocks."""
        entries, rank, warps = self._entries, self.rank, self.known.warps
        if not entries.owners:
            return
        ranks = np.array([rank[cta] for cta in self.running], np.uint64)
        told = _mix_numbers(self._known_by_cta + _mix_numbers(ranks)[:, None]).sum(0)
        told += (self._known_by_others * _mix_list(map(_hash_name, names))[:, None]).sum(0)
        running = np.zeros(self.known.total // LANES + 1, np.uint64)  # the last one is no running warp
        for cta, w in self.alive:
            running[cta * warps + w] = rank[cta] * warps + w + 1
        threads = entries.marks[:, 0]
        warp = running[np.where((threads >= 0) & (threads < self.known.total), threads // LANES, -1)]
        told += _mix_numbers(warp * np.uint64(LANES) + np.where(warp > 0, threads % LANES, 0).astype(np.uint64))
        owners = np.array([rank[own] + 1 if own >= 0 else 0 for own in entries.owners], np.uint64)
        made = np.unique(_mix_numbers(told[entries.of_mark] + _mix_numbers(entries.whats + _mix_numbers(owners))))
        hashed.update(made.tobytes())


@functools.lru_cache(maxsize=1 << 12)
def _nameless(to: int) -> int:
    """Return a scope key, or an encoded `fence_name`, with every CTA replaced by 0."""
    whom, kind, end = parts(to)
    return fence_name(min(whom, 0), kind, min(end, 0)) if kind else min(whom, 0)


def _knows(table: Rows, marks: Any) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return a table: whether the clock in a row has observed the mark of a column."""
    threads, intervals, columns, counts = marks.T
    known: np.ndarray[Any, np.dtype[np.bool_]] = table[:, threads] >= intervals
    of_columns = np.flatnonzero(columns > 0)
    if len(of_columns):
        known[:, of_columns] |= table[:, columns[of_columns]] >= counts[of_columns]
    return known


@functools.lru_cache(maxsize=1 << 14)
def _hash_name(name: Any) -> int:
    """Return a hash of the name of a clock.  Python's own is equal for -1 and -2, which are the widest scope and the
    first cluster."""
    return int.from_bytes(hashlib.blake2b(repr(name).encode(), digest_size=8).digest(), "little")


def _mix_list(numbers: Iterable[int]) -> Any:
    return _mix_numbers(np.array([number & _ALL_BITS for number in numbers], np.uint64))


def _mix_numbers(numbers: Any) -> Any:
    """Return 64-bit numbers that mix the bits of the given ones (Steele, Lea, Flood, "Fast Splittable Pseudorandom
    Number Generators", 2014)."""
    mixed = numbers + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
