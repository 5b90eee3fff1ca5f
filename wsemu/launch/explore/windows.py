"""Decide launches whose warps look back at what other CTAs publish, such as CUB's scans over several tiles.

Each strong location is written by one thread, and read by later CTAs.  A load returns the initial contents, or a value
that the location's writer stores.  If a CTA does the same whichever of these its loads return, it does so in every
schedule.  A warp that looks at 32 locations has too many combinations to try each, so `partial.py` covers many of them
in one run. docs/how.md, "Published values", has the theorem.

CTAs run in order, each with the values that earlier ones publish.  At the loads of a CTA, a tree of choices covers all
combinations: a load returns one value, or one of several.  Each path of the tree ends before further loads, or at a
barrier, at which all paths must reach the same state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.launch.explore.partial import AmbiguousError, Choice, Code, Partial, Scratch, Votes, find_vote, find_word
from wsemu.launch.explore.spending import PRICE
from wsemu.launch.explore.ways import UnfitError, check_written, is_own
from wsemu.model.control_flow import successors
from wsemu.model.data import dataclass, field
from wsemu.model.effects import effects_of
from wsemu.model.isa import (
    ADDRESS_WRAPPED,
    AS_STORE,
    ATOMICS,
    FIRST_ARRAY,
    LANES,
    LOWER_HALF,
    NAMES,
    NO_STORE,
    OFFSET_MASK,
    OPERATIONS,
    SCOPES,
    SEGMENT_SHIFT,
    SERVED,
    access_shape,
)
from wsemu.proof.liveness import live_rows
from wsemu.proof.threads import memory_effect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wsemu.launch.explore.session import Ask, Moved, Session
    from wsemu.model.bound import Bound
    from wsemu.model.outcome import RawFinding
    from wsemu.model.program import Program

MOST_RUNS = 6_000
"""The limit of paths for one unit of effort."""
MOST_AT_ONCE = 600
"""The limit of paths between two barriers of a warp."""
MOST_NODES = 200
"""The limit of states before loads, between two barriers of a warp."""
_READ, _WRITTEN, _ADDED = 1, 2, 4
"""Kinds of accesses, as bits."""
_OPERATIONS = ("add", "and", "or", "xor")
"""Atomics that count as stores if no other thread writes there."""


@dataclass(slots=True)
class Word:
    """A location that one thread writes by strong stores."""

    cta: int
    thread: tuple[int, int]
    size: int
    values: list[int] = field(default_factory=list)


class Windows:
    """The published values of one launch."""

    def __init__(
        self, bound: Bound, session: Session, ordered: frozenset[int], data: frozenset[int],
        passes: Callable[[RawFinding], bool], scratch: Scratch | None = None,
    ) -> None:  # fmt: skip
        """Prepare the decision.  Lanes stop before the strong accesses `ordered`; the strong accesses `data` count as
        plain ones.

        `passes` returns whether a finding is harmless; `scratch` are rows whose contents do not matter.
        """
        self.bound, self.session, self.ordered, self.data = bound, session, ordered, data
        self.passes = passes
        self.code = bound.program.code.tolist()
        self.plans = Code(bound, ordered, scratch)
        self.initial = [content.copy() for content, _ in bound.segments]
        self.words: dict[int, Word] = {}
        self.loaded = set[tuple[int, int]]()
        """Ends of the locations that strong loads read on some path."""
        self.stored: dict[tuple[int, int], list[tuple[int, int]]] = {}
        """Locations of the strong stores of each instruction and CTA."""
        self.looked: dict[int, tuple[int, int]] = {}
        """locations without a writer so far, each with the CTA that read it and the number of bytes"""
        self.covered = set[int]()
        """Warps of the current CTA for which all that their loads return until the next barrier has been tried."""
        self.runs = self.begun = 0
        """number of paths in total, and before the current barrier"""
        sizes = [len(content) for content, _ in bound.segments]
        self.effort = max(bound.account.left, 0.0) if bound.is_other else bound.effort
        """The whole rest of the effort, because no other method follows."""
        self.most_at_once = MOST_AT_ONCE * bound.settings.effort
        self.bases = np.cumsum([0, *sizes])
        self.kinds = np.zeros(int(self.bases[-1]), np.uint8)
        """The kinds of accesses to each byte of arrays."""
        self.owner = np.full(int(self.bases[-1]), -1, np.int32)
        """CTA that accesses each byte; -2: several CTAs"""

    def is_proven(self) -> bool:
        """Return whether each CTA does the same whatever its loads return."""
        try:
            moved = self.session.start()
            for cta in range(self.session.ctas):
                before = self.runs
                self._follow(cta, moved[cta])
                self._check_effort(self.runs + (self.runs - before) * (self.session.ctas - cta - 1))
            self._check_plain()
        except UnfitError:
            return False
        return True

    def _count_run(self) -> None:
        self.runs += 1
        self.bound.account.spend(PRICE / MOST_RUNS)
        self._check_effort(self.runs)

    def _check_effort(self, runs: int) -> None:
        """Check that the number of paths is small enough; later CTAs have no fewer than earlier ones."""
        spent = self.bound.account.is_spent
        if runs > MOST_RUNS * self.effort or self.runs - self.begun > self.most_at_once or spent:
            raise UnfitError

    # -- a CTA --------------------------------------------------------------------------------------------------------
    def _follow(self, cta: int, moved: Moved) -> None:
        self.covered.clear()
        self._record_actions(cta, moved)
        while asks := self.session.asks(cta):
            for warp in {ask.warp for ask in asks if self.code[ask.pc][7] & NO_STORE} - self.covered:
                self._explore(cta, warp)
                self.covered.add(warp)
            for ask in asks:
                moved = self.session.go(ask)
                if not self.code[ask.pc][7] & NO_STORE:
                    self._publish(ask)
                self._record_actions(cta, moved)
        if moved.status != "done":
            raise UnfitError

    def _publish(self, ask: Ask) -> None:
        """Record a strong store."""
        place, size = find_word(self.code[ask.pc], ask.place[1])
        part = ask.place[1], access_shape(NAMES[self.code[ask.pc][0]])[1]
        self.stored.setdefault((ask.pc, ask.cta), []).append(part)
        if self.code[ask.pc][7] & LOWER_HALF:  # the upper half follows
            return
        if ask.place[0] >= 0 or place in self.looked:
            raise UnfitError
        word = self.words.setdefault(place, Word(ask.cta, (ask.warp, ask.lane), size))
        if (word.cta, word.thread, word.size) != (ask.cta, (ask.warp, ask.lane), size):
            raise UnfitError
        word.values.append(self._content([content for content, _ in self.bound.segments], place, size))

    def _content(self, arrays: list[Any], place: int, size: int) -> int:
        number, offset = (place >> SEGMENT_SHIFT) - FIRST_ARRAY, place & OFFSET_MASK
        if not 0 <= number < len(arrays) or offset + size > len(arrays[number]):
            raise UnfitError
        return int.from_bytes(bytes(arrays[number][offset : offset + size]), "little")

    # -- all that loads may return ------------------------------------------------------------------------------------
    def _explore(self, cta: int, warp: int) -> None:
        """Try all values that the loads of a warp may return, up to the next barrier, where all paths must reach the
        same state."""
        first = Partial(self.plans, self.session.snapshot(cta, warp))
        together = self._find_warp_operations(first)
        if all(find_vote(name) == "ballot" for name in together):
            alone = first.copy()
            alone.votes = Votes()
            try:
                self._try_all(cta, warp, alone)
            except (AmbiguousError, UnfitError):
                if not together:
                    raise UnfitError from None
            else:
                return
        self._try_all(cta, warp, first)

    def _try_all(self, cta: int, warp: int, first: Partial) -> None:
        nodes = {first.key(): first}
        pending, last = [first], dict[bytes, bytes]()
        ends, ended, self.begun = set[bytes](), list[Partial](), self.runs
        while pending:
            node = pending.pop()
            choice = self._options(cta, warp, node)
            for taken, child in self._leaves(node, choice):
                after = b""
                if child.loads():
                    after = child.key()
                    if after not in nodes:
                        nodes[after] = child
                        pending.append(child)
                else:
                    ends.add(child.end())
                    ended.append(child)
                if all(choice[lane][-1] in values for lane, values in taken.items()):
                    last[node.key()] = after
            if len(ends) > 1 or len(nodes) > MOST_NODES:
                raise UnfitError
        self._check_progress(last)
        self._check_votes(ended)

    def _check_progress(self, last: dict[bytes, bytes]) -> None:
        """Check that a warp leaves each state once all that it looks at was published."""
        for key in last:
            seen = set[bytes]()
            while key:
                if key in seen:
                    raise UnfitError
                seen.add(key)
                key = last[key]

    def _options(self, cta: int, warp: int, node: Partial) -> Choice:
        found: Choice = {}
        for lane, pc in node.loads().items():
            place, size = find_word(self.code[pc], node.address(lane, pc))
            if is_own(place):
                raise UnfitError
            self.loaded.add((place, place + size))
            first = self._content(self.initial, place, size)
            check_written(self.bound, place, size)
            word = self.words.get(place)
            if word is None:
                self.looked[place] = cta, size
                found[lane] = (first,)
            elif word.size != size or word.cta == cta:
                raise UnfitError
            else:
                found[lane] = _order_values(first, word.values)
        return found

    def _check_votes(self, ended: list[Partial]) -> None:
        """Check that no lane waits at a vote for a lane that never reaches it: a lane whose vote was yes votes again,
        except after the last vote of all paths."""
        most, least = 0, LANES * MOST_NODES
        pcs = max((node.votes.pcs for node in ended if node.votes is not None), key=len, default=())
        for votes in (node.votes for node in ended):
            if votes is None or not votes.voted:
                continue
            if votes.voted != votes.members or votes.pcs != pcs[: len(votes.pcs)]:
                raise UnfitError
            stops = votes.going & votes.voted
            most = max(most, *votes.counts)
            least = min([least, *(count for lane, count in enumerate(votes.counts) if stops >> lane & 1)])
        if least < most:
            raise UnfitError
        for node in ended if most else ():
            self._check_locations(node)
            self._check_end(node)

    def _check_end(self, node: Partial) -> None:
        """Check that all lanes that voted wait at one barrier or have ended.  (An arrive acquires nothing.)"""
        voted = node.votes.voted if node.votes is not None else 0
        for pc, lanes in node.groups.items():
            if lanes & voted and (voted & ~lanes or effects_of(NAMES[self.code[pc][0]]).event == "arrive"):
                raise UnfitError

    def _check_locations(self, node: Partial) -> None:
        """Check that the order which votes establish does not matter: lanes share no location that one of them
        writes."""
        last_lanes: dict[int, tuple[int, bool]] = {}
        for effect in node.effects:
            if effect.what == "strong":
                continue
            size = memory_effect(self.code[effect.pc], data=False)[2]
            lanes = (lane for lane in range(LANES) if effect.lanes >> lane & 1)
            for lane, start in zip(lanes, np.frombuffer(effect.locations, np.uint64).tolist(), strict=True):
                for at in range(start, start + size):
                    other, stored = last_lanes.get(at, (lane, False))
                    stores = stored or effect.what == "store"
                    if other != lane and stores:
                        raise UnfitError
                    last_lanes[at] = lane, stores

    def _find_warp_operations(self, node: Partial) -> set[str]:
        """Return the operations that lanes perform together before the next barrier."""
        seen, pending = set[int](), [*node.groups]
        while pending:
            pc = pending.pop()
            if pc in seen or pc >= len(self.code):
                continue
            seen.add(pc)
            if OPERATIONS[NAMES[self.code[pc][0]]].kind != "barrier":
                pending += successors(pc, self.code[pc])
        names = {NAMES[self.code[pc][0]] for pc in seen if pc < len(self.code)}
        return {name for name in names if OPERATIONS[name].kind == "warp"}

    def _leaves(self, node: Partial, choice: Choice) -> Iterator[tuple[Choice, Partial]]:
        """Yield the paths of a tree that covers all combinations; if lanes run alone, yield the paths of each lane."""
        if node.votes is not None:
            yield from self._follow_each(node, choice)
            return
        first = {lane: values[0] for lane, values in choice.items()}
        sizes = {lane: find_word(self.code[pc], 0).size for lane, pc in node.loads().items()}
        pending = [choice]
        while pending:
            taken = pending.pop()
            self._count_run()
            try:
                child, left = node.follow(taken, sizes)
                if not child.loads():
                    child.end()
            except AmbiguousError:
                pending += _split(taken, first)
                continue
            if left is None:
                yield taken, child
                continue
            pending.append(left)
            is_last = all(choice[lane][-1] in values for lane, values in left.items())
            yield (dict.fromkeys(taken, ()) if is_last else taken), child

    def _follow_each(self, node: Partial, choice: Choice) -> Iterator[tuple[Choice, Partial]]:
        """Yield one path for each value of a load: the actions of a lane depend on its own loads alone."""
        for n in range(max(map(len, choice.values()))):
            self._count_run()
            taken = {lane: values[max(len(values) - 1 - n, 0)] for lane, values in choice.items()}
            child = node.copy()
            child.choose({lane: (value, 0) for lane, value in taken.items()})
            child.advance()
            yield {lane: (value,) for lane, value in taken.items()}, child

    # -- plain accesses -----------------------------------------------------------------------------------------------
    def _record_actions(self, cta: int, moved: Moved) -> None:
        """Record the actions of a CTA, whose plain accesses must not conflict with those of other CTAs."""
        if moved.status not in ("done", "stands") or not all(map(self.passes, moved.findings)):
            raise UnfitError
        for one in moved.made:
            kind = one.event.kind
            if kind in ("sync", "arrive"):
                self.covered.discard(one.event.warp)
            if kind != "access" or one.event.pc in self.ordered:
                continue
            atomic, stores, size = memory_effect(self.code[one.event.pc], data=one.event.pc in self.data)
            places = [at & ~ADDRESS_WRAPPED for _, at in one.addresses if not is_own(at)]
            if places:
                self._touch(cta, np.array(places, np.int64), size, _ADDED if atomic else _WRITTEN if stores else _READ)

    def _touch(self, cta: int, places: Any, size: int, kind: int) -> None:
        numbers = (places >> SEGMENT_SHIFT) - FIRST_ARRAY
        if (numbers < 0).any() or (numbers >= len(self.initial)).any():
            raise UnfitError
        at = (self.bases[numbers] + (places & OFFSET_MASK))[:, None] + np.arange(size)
        at = at.ravel()
        self.kinds[at] |= kind
        others = (self.owner[at] != -1) & (self.owner[at] != cta)
        self.owner[at] = np.where(others, -2, cta)

    def _check_plain(self) -> None:
        """Check that CTAs share only what they read or add to, and that strong locations are separate from all
        others."""
        if ((self.owner == -2) & ~np.isin(self.kinds, (_READ, _ADDED))).any():
            raise UnfitError
        strong = np.zeros(len(self.kinds), np.uint8)
        sized = {**{at: size for at, (_, size) in self.looked.items()}, **{at: w.size for at, w in self.words.items()}}
        for place, size in sized.items():
            start = int(self.bases[(place >> SEGMENT_SHIFT) - FIRST_ARRAY]) + (place & OFFSET_MASK)
            strong[start : start + size] += 1
        if (strong > 1).any() or (self.kinds[strong > 0] != 0).any():
            raise UnfitError


def publishes(program: Program, ordered: frozenset[int]) -> bool:
    """Return whether strong accesses are loads, stores, and atomics without results, for all CTAs."""
    live, how = live_rows(program), {pc: program.code[pc].tolist() for pc in ordered}
    fit = all(
        not one[7] & SCOPES and (one[7] & (NO_STORE) or one[7] & SERVED == AS_STORE or _adds(one, live[pc + 1]))
        for pc, one in how.items()
    )
    return fit and any(one[7] & NO_STORE for one in how.values())


def _adds(fields: list[int], live: frozenset[int]) -> bool:
    """Return whether an atomic of the only thread that writes there is a store, because its result is unused."""
    return ATOMICS[NAMES[fields[0]]][0] in _OPERATIONS and fields[2] not in live


def _order_values(first: int, values: list[int]) -> tuple[int, ...]:
    """Return the values that a load may return, each once; the last one is the final value."""
    return (*dict.fromkeys(value for value in (first, *values) if value != values[-1]), values[-1])


def _split(taken: Choice, first: dict[int, int]) -> list[Choice]:
    """Return choices that together cover the given one.

    For each lane that may read the contents from before the launch, there is a choice in which it does and no lower
    lane does; the last choice is that no lane does.  If no lane may read them, the last value takes their role.
    """
    several = [lane for lane, values in sorted(taken.items()) if len(values) > 1]
    if not several:
        raise UnfitError
    early = [lane for lane in several if first[lane] in taken[lane]]
    chosen = {lane: first[lane] for lane in early} or {lane: taken[lane][-1] for lane in several}
    found, rest = [], dict(taken)
    for lane, value in chosen.items():
        found.append({**rest, lane: (value,)})
        rest[lane] = tuple(other for other in taken[lane] if other != value)
    return [*found, rest]
