"""Keys of the vector clocks of `threads.py`, by which an exploration recognizes states that it has seen before.

Two histories have equal keys if they leave the same clocks, whichever threads caused them. If CTAs are interchangeable,
the key does not depend on their numbers either.
"""

from __future__ import annotations

import functools
import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

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
_NONE: frozenset[Any] = frozenset()
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


class Key:
    """The contents of a `Knowledge` in a form that can be hashed, with the CTAs in a given order."""

    def __init__(self, known: Knowledge, order: Sequence[int]) -> None:
        self.known = known
        self.rank = _Ranks({cta: rank for rank, cta in enumerate(order)})
        self.rank |= {WIDE: WIDE, **{cluster: cluster for cluster in known.clusters.values()}}
        self.alive = [(cta, w) for cta in order for w in range(known.warps) if (cta, w) not in known.gone]
        self.living = {cta for cta, _ in self.alive}

    def digest_bytes(self) -> bytes:
        known = self.known
        names, held = self.special()
        several = len(known.shared.places) > 1  # with one location, no two strong accesses make a pair
        before = self._befores(known.before.items(), self._thread) if several else []
        gathered = self._befores(known.gathered.items(), self._barrier) if several else []
        last = sorted((self._thread(t), self._place(p)) for t, p in known.last.items()) if known.acquires else []
        alive = [(self.rank[cta], w) for cta, w in self.alive]
        touched = sorted(
            (self.rank[own], key) for own, key in known.touched_keys.items() if own < 0 or own in self.living
        )
        counted = [sorted(known.numbers.items()), sorted(known.writers.items())] if known.numbers else []
        told = repr((names, alive, last, before, gathered, touched, counted))
        hashed = hashlib.blake2b(told.encode(), digest_size=16)
        width = known.width
        blocks = [known._wide(cta, width)[w * LANES : (w + 1) * LANES, :width] for cta, w in self.alive]
        table = np.zeros((len(held), width), np.int32)
        for n, row in enumerate(held):
            table[n, : len(row)] = row
        self._hash_cells(hashed, np.concatenate([*blocks, table]))
        return hashed.digest()

    def distinguish_ctas(self, alike: Sequence[bytes]) -> list[int]:
        """Return the CTAs in an order that depends on their state alone, not on their numbers.

        CTAs are distinguished by the accesses that they have observed, and by the CTAs that have observed theirs. Each
        round refines this by the differences found so far (color refinement, as for graph isomorphism).
        """
        known, ctas, of_cta = self.known, len(self.known.rows), self.known.of_cta
        entries: dict[tuple[int, int, int, int], int] = {}
        for place, cell in known.cells.items():
            if place[0] >= 0 and place[0] not in self.living:
                continue
            at = place[1]
            for n, part in enumerate(cell):
                for e in part:
                    key = e.thread, e.mark, e.column, e.written
                    entries[key] = entries.get(key, 0) + hash((at, n, e.kind, e.size, e.thread % of_cta))
        colours = {cta: hash(tuple(alike[cta])) for cta in self.living}
        if entries:
            rows, owners, weights = self._owned_rows()
            bits = _knows(rows, entries).astype(np.uint64)
            by_owner = np.zeros((ctas + 1, len(entries)), np.uint64)
            starts = np.flatnonzero(np.diff(owners, prepend=-1))
            for start, summed in zip(
                starts, np.add.reduceat(bits * _mix_numbers(weights)[:, None], starts), strict=True
            ):
                by_owner[owners[start]] += summed
            made = np.zeros((ctas + 1, len(entries)), np.uint64)
            made[[key[0] // of_cta for key in entries], range(len(entries))] = 1
            whats = np.array([what & _ALL_BITS for what in entries.values()], np.uint64)
            for _ in range(min(len(self.living), _ROUNDS)):
                own = np.zeros(ctas + 1, np.uint64)
                own[list(colours)] = [colour & _ALL_BITS for colour in colours.values()]
                whole = (
                    _mix_numbers(by_owner + _mix_numbers(own)[:, None]).sum(0)
                    + (made * _mix_numbers(own)[:, None]).sum(0)
                    + whats
                )
                signs = _mix_numbers(by_owner + _mix_numbers(made + _mix_numbers(whole)[None, :])).sum(1)
                later = {cta: hash((colour, int(signs[cta]))) for cta, colour in colours.items()}
                if len(set(later.values())) == len(set(colours.values())):
                    break
                colours = later
        return sorted(known.rows, key=lambda cta: (alike[cta], colours.get(cta, 0)))

    def _owned_rows(self) -> tuple[Rows, list[int], Any]:
        """Return the clocks of all running threads and all other clocks, one a row.

        Each row comes with the CTA that it belongs to, or the number of CTAs if it belongs to none, and with a number
        that distinguishes the rows of one CTA.
        """
        known, last = self.known, len(self.known.rows)
        blocks, owners, numbers = [], list[int](), list[int]()
        for cta, w in self.alive:
            blocks.append(known._wide(cta, known.width)[w * LANES : (w + 1) * LANES, : known.width])
            owners += [cta] * LANES
            numbers += range(w * LANES, (w + 1) * LANES)
        table = np.zeros((0, known.width), np.int32)
        back = {rank: cta for cta, rank in self.rank.items()}
        names, held = self.special()
        if held:
            table = np.zeros((len(held), known.width), np.int32)
        for n, (name, row) in enumerate(zip(names, held, strict=True)):
            table[n, : len(row)] = row
            owner, number = self._owner(name)
            owners.append(last if owner is None else back[owner])
            numbers.append(number)
        return np.concatenate([*blocks, table]), owners, np.array(numbers, np.int64).astype(np.uint64)

    def _owner(self, name: Any) -> tuple[int | None, int]:
        """Return the CTA, by its rank, to which a named clock belongs, and a number for its name."""
        what, key, to = name
        of_cta, kind = self.known.of_cta, _ROWS.index(what)
        if what in ("fenced", "pending", "behind", "forced"):
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
    def special(self) -> tuple[list[object], list[Rows]]:
        """Return the clocks that do not belong to a thread, and a name for each."""
        names: list[object] = []
        held: list[Rows] = []
        tables = self._tables()
        for name in sorted(tables):
            for key, to in sorted(tables[name]):
                names.append((name, key, to))
                held.append(tables[name][key, to])
        return names, held

    def _tables(self) -> dict[str, dict[tuple[Any, int], Rows]]:
        known, rank, thread, place = self.known, self.rank, self._thread, self._place
        by_thread = {"fenced": known.fenced, "pending": known.pending}
        by_both = {"own": known.own, "seen": known.seen}
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
            **{name: {(thread(t), rank[to]): row
                      for t, rows in table.items() for to, row in rows.items() if is_held(to)}
               for name, table in by_thread.items()},
            **{name: {((thread(t), place(p)), rank[to]): row
                      for (t, p), rows in table.items() for to, row in rows.items() if is_held(to)}
               for name, table in by_both.items()},
            **{name: {(thread(t), rank[end]): row
                      for t, rows in table.items() for end, row in rows.items() if end in there}
               for name, table in (("behind", known.behind), ("forced", known.forced))},
            "meeting": {(self._barrier(key), fence_name(0, n, rank[end])): row
                        for key, both in known.meeting.items() if key[0] in self.living
                        for n, rows in enumerate(both, 1) for end, row in rows.items() if end in there},
            "exited": {(rank[cta], 0): row for cta, row in known.exited.items() if cta in self.living},
            "barrier": {((self._barrier(key), tuple(tuple(map(thread, s)) for s in syncs)), 0): row
                        for key, (row, syncs, _) in known.given.items() if key[0] in self.living},
        }  # fmt: skip
        tables["copies"] = {
            ((thread(t), bulk), n): self._row(columns) for (t, bulk), groups in known.groups.items()
            for n, columns in enumerate(groups) if t // known.of_cta in self.living
        }  # fmt: skip
        given, places, observed = {}, {}, {}
        for at, location in known.locations.items():
            if at[0] >= 0 and at[0] not in self.living:
                continue
            given.update({(place(at), rank[to]): row for to, row in location.given.items() if is_held(to)})
            for n, fences in enumerate((location.written, location.read), 1):
                named = {fence_name(0, n, rank[end]): row for end, row in fences.items() if end in there}
                places.update({(place(at), name): row for name, row in named.items()})
            row = np.zeros(known.width, np.int32)
            row[list(location.observed)] = list(location.observed.values())
            observed[place(at), 0] = row
        return {**tables, "given": given, "places": places, "observed": observed}

    def _row(self, columns: Iterable[int]) -> Rows:
        row = np.zeros(self.known.width, np.int32)
        row[list(columns)] = 1
        return row

    def _hash_cells(self, hashed: Any, table: Rows) -> None:
        """Hash which owners of the table's clocks have observed each recorded access."""
        known, rank = self.known, self.rank
        cells = [(p, cell) for p, cell in known.cells.items() if p[0] < 0 or p[0] in self.living]
        keys = [(e.thread, e.mark, e.column, e.written) for _, cell in cells for entries in cell for e in entries]
        if not keys:
            return
        number = dict.fromkeys(keys)
        packed = np.packbits(_knows(table, number), axis=0).T.tobytes()
        size = len(packed) // len(number)
        warps = known.of_cta // LANES
        names = {cta * warps + w: (rank[cta], w) for cta, w in self.alive}
        digests = {
            key: hash((packed[n * size : n * size + size], (w := names.get(key[0] // LANES)) and (w, key[0] % LANES)))
            for n, key in enumerate(number)
        }
        told, of_entry = 0, map(digests.__getitem__, keys)
        for place, cell in cells:
            of_parts = [
                frozenset([(next(of_entry), e.kind, e.size, e.reach) for e in part]) if part else _NONE for part in cell
            ]
            told ^= hash(((rank[place[0]], place[1]), *of_parts))
        hashed.update(repr((len(cells), told)).encode())


def _nameless(to: int) -> int:
    """Return a scope key, or an encoded `fence_name`, with every CTA replaced by 0."""
    whom, kind, end = parts(to)
    return fence_name(min(whom, 0), kind, min(end, 0)) if kind else min(whom, 0)


def _knows(table: Rows, entries: Iterable[tuple[int, int, int, int]]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return a table: whether the clock in a row has observed an access (thread, mark, column, written) in a column."""
    threads, marks, columns, counts = np.array(list(entries)).T
    known: np.ndarray[Any, np.dtype[np.bool_]] = (table[:, threads] >= marks) | (
        (columns > 0) & (table[:, columns] >= counts)
    )
    return known


def _mix_numbers(numbers: Any) -> Any:
    """Return 64-bit numbers that mix the bits of the given ones (Steele, Lea, Flood, "Fast Splittable Pseudorandom
    Number Generators", 2014)."""
    mixed = numbers + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
