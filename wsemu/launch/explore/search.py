"""Explore all interleavings of the strong accesses that influence a launch's control flow or addresses.

In a state, every warp has ended, waits for others, or is parked before an ordered access.  From each state the search
resumes every parked lane, one after another, and explores the result: depth first, and no state twice.  The actions of
a CTA between two ordered accesses are a single run, which decides plain accesses and barriers for all interleavings.
In a launch without races, a CTA does the same there whatever others do.

Two states are the same if they have equal arrays, shared memory, live registers and knowledge of threads about each
other's accesses (`Knowledge.key`).  So it does not matter in which order N CTAs have released a lock.  This is a
reduction by value, with states instead of traces (Agarwal et al., "Stateless Model Checking Under a Reads-Value-From
Equivalence", CAV 2021).

A lane *waits* if its access changes nothing and leads back to its position: it need not run before another thread
writes there.  A state in which all lanes wait is a deadlock.

Only relevant interleavings are explored.  The search chooses a persistent set of the parked lanes: other lanes cannot
affect its ordered accesses before one of its lanes has proceeded.  (Godefroid, "Partial-Order Methods for the
Verification of Concurrent Systems", 1996.)  Two accesses that only read do not affect each other.  A lane that waits
counts as one that cannot continue; if no lane of a set can continue, the next set is tried.  The search learns the
locations that each lane touches, and restarts if there are new ones.  No path contains a state twice (that would be a
`circle`), so no lane is left out.

If all CTAs begin alike, their numbers do not matter: states that differ only in these numbers are equal, and any CTA
may touch the array locations that one of them touches.

The shared memory of CTAs with asynchronous operations is checked separately, once for each history of a CTA:
`replays.py`.  `Knowledge` checks races in each state; `proof/robust.py` checks that interleavings cover all executions.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

from wsemu.launch.explore.nodes import Node, Result
from wsemu.launch.explore.samples import Samples
from wsemu.launch.explore.session import Ask, Moved, Session
from wsemu.model.isa import ADDRESS_WRAPPED, FIRST_ARRAY, SEGMENT_SHIFT
from wsemu.proof.mixed_vectors import BLOCK
from wsemu.proof.robust import Pair, Strong, Waits, weak
from wsemu.proof.threads import Knowledge, Made, Shared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from wsemu.model.outcome import RawFinding
    from wsemu.proof.names import Named

MOST_STEPS = 1_100
"""ordered accesses that a search performs for one unit of effort"""
WEIGHT = 200_000
"""product of the number of threads and the number of accesses that some of them may have observed for which a step
counts as one more step, because it takes longer"""
CLOCKS = 4_000_000
"""number of entries of all vector clocks for which a step counts as one more step"""
FEW_THREADS = 512
"""number of threads up to which a step with asynchronous copies counts once; each further such number of threads counts
once more"""
MOST_MORE, DONE_BY_THEN = 1.75, 0.1
"""factor of the steps that it performs if it has tried this part of all interleavings by then"""
MOST_BYTES = 1 << 30
"""maximum bytes of states to which a search may return"""
_ANY = -1
"""value that stands for every CTA if all CTAs are symmetric"""
MOST_LANES = 6
"""maximum lanes of a warp before ordered accesses to written locations that other threads touch: more have too many
interleavings"""


class _NewsError(Exception):
    """A location of one CTA is accessed by another CTA."""


class _NamesError(Exception):
    """It matters which number a CTA has."""


class Search:
    """The orders of one launch."""

    def __init__(
        self,
        session: Session,
        begin: Callable[[Shared], Knowledge],
        *,
        named: Named | None = None,
        apart: Callable[[int, list[Ask]], bool] = lambda cta, asks: False,
        reads: Callable[[int], bool] = lambda pc: False,
        samples: bool = True,
        idle: Callable[[RawFinding], bool] = lambda raw: False,
    ) -> None:
        """Prepare a search.  `apart` returns whether lanes of a CTA in its present state may run ahead of others,
        `reads` whether an ordered access never writes, and `idle` whether a finding concerns an undefined value without
        effect.  `named` are stores whose location depends on the number of a CTA.  With `samples`, some interleavings
        are sampled if there are too many to explore."""
        self.session, self.begin, self.most = session, begin, int(MOST_STEPS * session.effort)
        self.all, self.effort = self.most, session.effort
        self.spent = 0.0
        """number of ordered accesses; those of a step that takes long count more than once"""
        self.more: float = MOST_MORE
        self.paused: tuple[list[Node], list[bytes]] | None = None
        """the path, and its keys, of a search that has used up its steps"""
        self.apart, self.reads, self.named = apart, reads, named
        self.asynchronous, self.samples, self.idle = session.asynchronous, samples, idle
        self.shared = Shared()
        self.block = 1
        """number of bytes of which all accesses may conflict with each other"""
        self.users: dict[tuple[int, int], dict[tuple[int, int, int], bool]] = {}
        """for each block, the lanes with ordered accesses to it, as (CTA or `_ANY`, warp, lane), and whether they
        may write"""
        self.result = Result()
        self.threads = 0
        """number of threads of a CTA"""
        self.alike = False
        """true if all CTAs are symmetric at the start"""
        self.begun: dict[int, Any] = {}
        """initial states of CTAs without an access before their first ordered one"""
        self.seen: dict[bytes, frozenset[Ask]] = {}
        """states by their keys, each with its sleep set"""
        self.dice = random.Random(0)
        self.wanders = False
        """true if only the locations that each touches are recorded"""
        self.state_bytes = 0
        """bytes of a state on the path of the search"""
        self.hangs: Callable[[list[Ask]], bool] | None = None
        """function that returns whether a state in which all lanes wait is final; None: such a state ends the search"""
        self.warned: dict[tuple[str, int], RawFinding] = {}
        """warnings by code and instruction"""
        self.waits: set[tuple[bytes, Ask, bytes, object, object]] = set()
        """waits: a CTA, a lane, the value that it read, and the last accesses to that location"""

    def run(self) -> Result:
        while True:
            if self.paused is None:
                self.steps = self.result.steps
                self.result = Result(steps=self.steps, excused=self.result.excused)
            self.shared.grown = False
            try:
                if self._learns():
                    continue
            except _NamesError:
                self.named = None
                continue
            if self.samples and self.result.why in ("steps", "lanes"):
                self._sample()
            if self.result.is_decided:
                found = self._find_weak()
                if found is not None and self._counts_accesses():
                    continue
                if found is not None:
                    self.result.why, self.result.at = "weak", self._name_pair(found)
            self.result.warned += self.warned.values()
            return self.result

    def _find_weak(self) -> Pair | bool | None:
        """Return a pair of accesses in a cycle that the interleavings lack."""
        pairs, strong = self._pairs()
        spread = self.begin(self.shared).spread
        if self.shared.waits is None:
            return weak(pairs, strong, spread)
        return weak(pairs, strong, spread, misses=self.shared.waits.misses(strong))

    def _name_pair(self, found: Pair | bool) -> tuple[int, ...]:
        """Return the instructions of a pair of accesses, or of all strong accesses if no single pair is to blame."""
        if isinstance(found, Pair):
            return found.first.pc, found.second.pc
        return tuple(sorted({access.pc for access in self.shared.strong}))

    def _counts_accesses(self) -> bool:
        """Restart with a count of the strong accesses of each thread if some threads wait; return whether that
        helps."""
        if self.shared.waits is not None or self.alike or not self.waits:
            return False
        common, places = self.shared.common, self.shared.places
        self.shared = Shared()
        self.shared.waits, self.shared.common, self.shared.places = Waits(), common, places
        self.seen, self.waits = {}, set()
        return True

    def _learns(self) -> bool:
        """Explore all interleavings.  Return whether new locations were found, which require another exploration."""
        try:
            self._attempt()
        except _NewsError:
            self._collect_locations()
            return not (self.result.race or self.result.findings)
        return False

    def _pairs(self) -> tuple[set[Pair], set[Strong]]:
        """Return consecutive strong accesses, and all strong accesses.  If CTAs represent each other, include as many
        CTAs as a cycle may need, which has at most three accesses to a location."""
        pairs, strong = self.shared.pairs, self.shared.strong
        if not self.alike:
            return pairs, strong
        size = self.threads
        ctas = range(min(self.session.ctas, 3 * len(self.shared.places)))

        def name_access(access: Strong, cta: int) -> Strong:
            place = (cta if access.place[0] >= 0 else -1, access.place[1])
            return access._replace(thread=cta * size + access.thread % size, place=place)

        of_all = {
            p._replace(first=name_access(p.first, c), second=name_access(p.second, c)) for p in pairs for c in ctas
        }
        return of_all, {name_access(access, c) for access in strong for c in ctas}

    # -- who meets whom -----------------------------------------------------------------------------------------------
    def _touches(self, asks: Iterable[Ask]) -> None:
        """Record the locations of parked lanes.  Return whether two lanes meet at a location for the first time and one
        of them writes it."""
        for ask in asks:
            own = ask.place[0] >= 0 or not self.alike
            thread = (ask.cta if own else _ANY, ask.warp, ask.lane)
            users = self.users.setdefault(self._find_block(ask), {})
            writes = not self.reads(ask.pc)
            if writes <= users.get(thread, False) and thread in users:
                continue
            users[thread] = writes
            others = [at_all for other, at_all in users.items() if other != thread or thread[0] == _ANY]
            if others and (writes or any(others)):
                self.shared.grown = True

    def _find_block(self, ask: Ask) -> tuple[int, int]:
        """Return the block that an ordered access touches."""
        return ask.place[0], ask.place[1] & -self.block

    def _common(self, ask: Ask) -> bool:
        """Return whether another thread touches a location as well, and some thread may write it."""
        users = self.users[self._find_block(ask)]
        return any(users.values()) and (len(users) > 1 or any(cta == _ANY for cta, _, _ in users))

    def _persistent_sets(self, node: Node) -> list[list[Ask]]:
        """Return sets of runnable lanes, the smallest first, of which the search has to try one."""
        standing: dict[tuple[int, int, int], Ask] = {ask[:3]: ask for own in node.asks for ask in own}
        known: dict[tuple[tuple[int, int], bool], frozenset[Ask]] = {}
        sets: dict[frozenset[Ask], None] = {}
        for ask in standing.values():
            touch = self._find_block(ask), not self.reads(ask.pc)
            if touch not in known:
                known[touch] = self._close_set(touch, standing, node)
            sets[known[touch] | {ask}] = None
        return [sorted(found) for found in sorted(sets, key=lambda found: (len(found), min(found)))]

    def _close_set(
        self, touch: tuple[tuple[int, int], bool], standing: dict[tuple[int, int, int], Ask], node: Node
    ) -> frozenset[Ask]:
        """Return the parked lanes whose accesses can affect a (location, whether it may be written) before the given
        lanes touch it.  Such a lane may touch the location itself, with one of the two writing, or has to proceed
        before a lane that touches it."""
        chosen, seen, todo = set[Ask](), {touch}, [touch]
        while todo:
            place, writes = todo.pop()
            there = set[Ask]()
            for thread, others_write in self.users[place].items():
                if not (writes or others_write):
                    continue
                for cta in range(self.session.ctas) if thread[0] == _ANY else (thread[0],):
                    at = cta, thread[1], thread[2]
                    there.update([standing[at]] if at in standing else node.asks[cta])
            there -= chosen
            chosen |= there
            more = {(self._find_block(ask), not self.reads(ask.pc)) for ask in there} - seen
            seen |= more
            todo += more
        return frozenset(chosen)

    # -- the search ---------------------------------------------------------------------------------------------------
    def _attempt(self) -> None:
        begun = self._begin_search()
        if begun is None:
            return
        alike, (stack, keys) = self.alike, begun
        while stack:
            node = stack[-1]
            if not node.todo and not self._try_next_group(node):
                if node.moves or all(status == "done" for status in node.status):
                    if not node.moves:
                        self.result.ends.add(node.end())
                        self.result.uneven |= alike and len(set(node.digests)) > 1
                        self.result.end = self.result.end or node.memory
                    stack.pop()
                    keys.pop()
                    continue
                self.stand_still(node)
                if not self._continues_after_deadlock():
                    return
                stack.pop()
                keys.pop()
                continue
            ask = node.todo.pop(0)
            if self._is_spent(stack):
                self.result.why, self.result.left = "steps", sum(1 + len(n.todo) for n in stack)
                self.result.reached = node.reached_state()
                node.todo.insert(0, ask)
                self.paused = stack, keys
                return
            child = self.step(node, ask)
            if child is None:
                if self.result.is_decided:
                    continue
                return
            if not alike:
                child.asleep = frozenset(one for one in node.asleep if self._apart_from(one, ask))
                node.asleep |= {ask}
            key = child.key(alike)
            if key in keys:
                self._comes_round(stack[keys.index(key) :], child)
                if not self._continues_after_deadlock():
                    return
                continue
            if self._is_news(child, key):
                stack.append(child)
                keys.append(key)

    def _begin_search(self) -> tuple[list[Node], list[bytes]] | None:
        """Return the path of a search that is resumed or begins, or None if the launch fails before."""
        if self.paused is not None:
            begun, self.paused = self.paused, None
            self.session.named, self.result.why, self.result.left = self.named, "", 0
            return begun
        root = self.root()
        if root is None:
            return None
        key = root.key(self.alike)
        self.seen = {key: root.asleep}
        self.result.states = 1
        return [root], [key]

    def resume(self) -> Result:
        """Continue a search that has exhausted its small initial number of steps."""
        self.most, self.more = self.all, MOST_MORE
        return self.run()

    def _is_spent(self, stack: list[Node]) -> bool:
        """Return whether the search has used up its steps, the account of the launch, or the memory for states on its
        path.  A search that generalizes a deadlock to every schedule has its own few steps."""
        if len(stack) * self.state_bytes > MOST_BYTES or (self.session.is_spent and self.hangs is None):
            return True
        if self.spent < self.most:
            return False
        return self.spent >= self.more * self.most or _done_part(stack) < DONE_BY_THEN

    def sample(self) -> Result:
        """Sample interleavings after a search that did not explore all of them."""
        if self.result.why in ("steps", "lanes"):
            self._sample()
        return self.result

    def _sample(self) -> None:
        """Try some of the remaining interleavings: the result has their failure, otherwise it is unchanged."""
        before = self.result
        self.result, self.wanders = Result(steps=before.steps, excused=before.excused), True
        sampled = Samples(self).run()
        self.wanders = False
        if not (self.result.race or self.result.findings or self.result.stuck):
            self.result = before
            before.sampled = sampled

    def _continues_after_deadlock(self) -> bool:
        """Return whether other interleavings are explored after one in which all wait."""
        result = self.result
        if self.hangs is None or result.why not in ("", "barriers") or not self.hangs(result.stuck):
            return False
        result.stuck, result.why = [], ""
        return True

    def _comes_round(self, way: list[Node], last: Node) -> None:
        """Handle a state that occurs again: either threads may loop forever, or all of them only wait, as lanes do that
        wait in turn at one instruction."""
        for node in (*way, last):
            if self.all_wait(node):
                self.stand_still(node)
                return
        self.result.why, self.result.reached = "circle", last.reached_state()

    def all_wait(self, node: Node) -> bool:
        """Return whether no lane can ever do anything else: the lanes of each instruction, resumed one after another,
        change nothing and return there."""
        session = self.session
        groups = {ask[:2]: [one for one in own if one.warp == ask.warp] for own in node.asks for ask in own}
        for (cta, _), lanes in groups.items():
            session.load(cta, node.saved[cta])
            session.load_memory(node.memory)
            for ask in lanes:
                self.result.steps += 1
                self.spent += 1
                session.spend(1)
                if not all(map(self._passes, session.go(ask).findings)) or session.digest_memory() != node.digest:
                    return False
            if session.digest(cta) != node.digests[cta]:
                return False
        return bool(groups)

    def _collect_locations(self) -> None:
        """Find the locations that are accessed on some path to the end, or find that it fails."""
        self.result = Result(steps=self.result.steps, excused=self.result.excused)
        self.wanders = True
        try:
            node, been = self.root(), set[tuple[bytes, ...]]()
            while node is not None and (key := (*node.digests, node.digest)) not in been:  # comparing clocks takes long
                been.add(key)
                asks = [ask for own in node.asks for ask in own]
                self.dice.shuffle(asks)
                after = None
                while asks and after is None and self.result.is_decided and self.spent < self.most:
                    after = self.step(node, asks.pop())
                node = after
        finally:
            self.wanders = False

    def _apart_from(self, one: Ask, other: Ask) -> bool:
        """Return whether the order of two lanes does not matter."""
        reads = self.reads(one.pc) and self.reads(other.pc)
        return one.cta != other.cta and (reads or self._find_block(one) != self._find_block(other))

    def _is_news(self, node: Node, key: bytes) -> bool:
        """Return whether a state has not occurred yet, or has more runnable lanes than then (Godefroid, sleep sets and
        state caching)."""
        before = self.seen.get(key)
        if before is None:
            self.seen[key] = node.asleep
            self.result.states += 1
            return True
        if before <= node.asleep:
            return False
        self.seen[key] = node.asleep = before & node.asleep
        return True

    def _try_next_group(self, node: Node) -> bool:
        """Continue with the next group of a node if no lane of the previous groups could run."""
        if node.moves or not node.groups:
            return False
        chosen = node.groups.pop(0)
        node.todo = [ask for ask in chosen if ask not in node.asleep]
        node.moves |= len(node.todo) < len(chosen)
        node.todo = self._apart_of_alike(node, node.todo)
        node.width = len(node.todo)
        return bool(node.todo)

    def _apart_of_alike(self, node: Node, asks: list[Ask]) -> list[Ask]:
        """Return the accesses of only one of several symmetric CTAs that have not moved: moving another one leads to
        the same node with the two CTAs exchanged."""
        if not self.alike:
            return asks
        kept: dict[tuple[object, ...], Ask] = {}
        for ask in asks:
            fresh = ask.cta in self.begun and node.saved[ask.cta] is self.begun[ask.cta]
            kept.setdefault((_ANY, *ask[1:]) if fresh else ask, ask)
        return [*kept.values()]

    def stand_still(self, node: Node) -> None:
        """Restore the launch to a state in which all lanes wait, to explain what they wait for."""
        for cta, saved in enumerate(node.saved):
            self.session.load(cta, saved)
        self.session.load_memory(node.memory)
        self.result.stuck = [ask for own in node.asks for ask in own]
        self.result.why = "" if self.result.stuck else "barriers"
        self.result.reached = node.reached_state()

    def root(self) -> Node | None:
        """Return the node at the start of the launch; None if the launch fails before."""
        session = self.session
        session.named = self.named
        moved = session.start()
        knowledge = self.begin(self.shared)
        knowledge.apart = frozenset(self.named.places if self.named else ())
        self.block = BLOCK if knowledge.mixed else 1
        self.threads = knowledge.of_cta
        number = 0
        node = Node([], None, [], b"", [], [], knowledge, 0)
        for cta, one in enumerate(moved):
            node.made += one.made
            if not self._judge(node, cta, one, number):
                return None
            number += len(one.made)
        node.saved = [session.save(cta) for cta in range(session.ctas)]
        node.memory, node.digest = session.save_memory(), session.digest_memory()
        self.state_bytes = session.state_bytes()
        node.digests = [session.digest(cta) for cta in range(session.ctas)]
        node.status = [one.status for one in moved]
        node.asks = [session.asks(cta) for cta in range(session.ctas)]
        node.number = number
        self.alike = len(set(node.digests)) == 1 and len(node.digests) > 1 and not knowledge.by_clusters
        if self.named and not self.alike:
            raise _NamesError
        self.begun = {
            cta: node.saved[cta] for cta, one in enumerate(moved)
            if not any(made.event.kind in ("access", "copy") for made in one.made)
        }  # fmt: skip
        for asks in node.asks:
            self._touches(asks)
        self._begin(node, range(session.ctas))
        return node if self.result.is_decided else None

    def _begin(self, node: Node, moved: Iterable[int]) -> None:
        if self.shared.grown and not self.wanders:
            raise _NewsError
        for asks in node.asks if not self.wanders else ():
            met = Counter(ask.warp for ask in asks if self._common(ask))
            if met and max(met.values()) > MOST_LANES:
                warp = max(met, key=met.__getitem__)
                self._give_up(node, "lanes", [ask for ask in asks if ask.warp == warp])
                return
        if self.asynchronous:
            if shared := [ask for asks in node.asks for ask in asks if ask.place[0] >= 0]:
                self.result.why, self.result.at = "shared", _list_instructions(shared)
            for cta in moved:
                if node.status[cta] == "done" and self.session.history(cta) not in self.result.ended:
                    self.result.ended[self.session.history(cta)] = node.reached_state().asks
        if any(self.apart(cta, node.asks[cta]) for cta in moved):
            parked = [ask for cta in moved if self.apart(cta, node.asks[cta]) for ask in node.asks[cta]]
            self._give_up(node, "apart", parked)
            self.result.reached = node.reached_state()
        if not self.wanders:
            node.groups = self._persistent_sets(node)

    def _give_up(self, node: Node, why: str, asks: Iterable[Ask]) -> None:
        """End the search at a state with too many successors, unless all lanes wait there forever.  `asks` are the
        accesses before which lanes have them."""
        if not self.wanders and self.all_wait(node):
            self.stand_still(node)
        else:
            self.result.why, self.result.at = why, _list_instructions(asks)

    def _judge(self, node: Node, cta: int, moved: Moved, first: int) -> bool:
        """Return whether the launch continues after a CTA's actions; if it does not, store the reason in the result."""
        races = list(node.knowledge.apply(cta, moved.made, first))
        for one in list(self.shared.excused.values())[len(self.result.excused) :]:
            self.result.excused.append((one, node.reached_state()))
        self.shared.grown |= self.session.grown
        self.session.grown = False
        result = self.result
        for raw in moved.findings:
            if is_warning(raw) or (raw.code == "undefined-shuffle" and self.idle(raw)):
                self.warned.setdefault((raw.code, raw.pc), raw)
        if self.named and (self._meets_others(moved.made) or self._shares()):
            raise _NamesError
        if self.shared.grown and not self.wanders:
            raise _NewsError
        if races:
            result.race = races[0]
        elif errors := [raw for raw in moved.findings if not self._passes(raw)]:
            result.findings = errors
        elif moved.status not in ("done", "stands"):
            result.why = moved.status
        elif node.knowledge.loose:
            result.why, result.at = "copies", node.knowledge.loose
        elif node.knowledge.unclear:
            result.why, result.at = "unclear", node.knowledge.unclear
        else:
            return True
        result.reached = node.reached_state()
        return False

    def _passes(self, raw: RawFinding) -> bool:
        """Return whether a finding does not end the search."""
        return is_warning(raw) or self.idle(raw)

    def _meets_others(self, made: Iterable[Made]) -> bool:
        """Return whether something else touches arrays in which CTAs have locations by their numbers."""
        assert self.named
        return any(
            one.event.pc not in self.named.stores and _array(address) in self.named.places
            for one in made for _, address in one.addresses
        )  # fmt: skip

    def _shares(self) -> bool:
        """Return whether a location of a named array is touched more than once."""
        assert self.named
        return self.shared.grown and any(_array(address) in self.named.places for _, address in self.shared.common)

    def _cost(self, known: Knowledge) -> float:
        """Return the number of steps that a step from this node counts as.  It grows with the number of threads, with
        their clocks, and with the accesses that they may have observed, which all take time."""
        threads = len(known.rows) * known.of_cta
        beyond = max(threads - FEW_THREADS, 0) / FEW_THREADS if self.asynchronous else 0
        return 1 + known.weight() / WEIGHT + threads * known.width / CLOCKS + beyond

    def step(self, node: Node, ask: Ask) -> Node | None:
        """Return the node after one lane's access; None if the lane waits or the search ends."""
        session, cta = self.session, ask.cta
        known, place = node.knowledge, ask.place
        seen = session.value(place, node.memory) if place[0] < 0 else b""
        own, start = self._find_block(ask)
        grains = [(own, at) for at in range(start, start + self.block, known.grain)] if self.block > 1 else [place]
        cells, touched = tuple(map(known.cells.get, grains)), tuple(map(known.touched.get, grains))
        waiting = node.digests[cta], ask, seen, cells, touched
        if waiting in self.waits:
            return None
        session.load(cta, node.saved[cta])
        session.load_memory(node.memory)
        moved = session.go(ask)
        self.result.steps += 1
        cost = self._cost(known)
        self.spent += cost
        session.spend(cost, moved.made)
        digest, memory = session.digest(cta), session.digest_memory()
        same = digest == node.digests[cta] and memory == node.digest and moved.status == node.status[cta]
        child = Node(
            list(node.saved), node.memory, list(node.digests), memory, list(node.status), list(node.asks),
            node.knowledge.copy(), node.number + len(moved.made), node, ask, moved.made,
        )  # fmt: skip
        child.knowledge.state = node.digests[cta]
        same &= all(map(self._passes, moved.findings))
        polls = all(one.event.kind != "access" or one.event.pc == ask.pc for one in moved.made)
        # the lane waits; what it has acquired until now does no harm
        if same and polls:
            child.knowledge.in_vain = True
            if not self._judge(child, cta, moved, node.number):  # a polled location may be written by a plain store
                return None
            if ask.place[0] < 0 and all(at == ask.place[1] for one in moved.made for _, at in one.addresses):
                self.waits.add(waiting)
            return None
        if same and self.asynchronous:  # shared memory is judged by the histories of CTAs, not here
            self.result.why, self.result.at, self.result.reached = "rounds", (ask.pc,), node.reached_state()
            return None
        child.memory = session.save_memory()
        if not self._judge(child, cta, moved, node.number):
            return None
        # a round of a wait that accesses other memory is a step like any other, until not even clocks change
        if same and child.key(self.alike) == node.key(self.alike):
            return None
        node.moves = True
        child.saved[cta], child.digests[cta], child.status[cta] = session.save(cta), digest, moved.status
        child.asks[cta] = session.asks(cta)
        self._touches(child.asks[cta])
        self._begin(child, (cta,))
        return child if self.result.is_decided else None


def _done_part(stack: Iterable[Node]) -> float:
    """Estimate the fraction of all interleavings that the search has tried.  The estimate assumes that all moves from a
    state lead to equally many interleavings."""
    part, weight = 0.0, 1.0
    for node in stack:
        if not node.width:
            continue
        weight /= node.width
        part += weight * max(node.width - len(node.todo) - 1, 0)
    return part


def _list_instructions(asks: Iterable[Ask]) -> tuple[int, ...]:
    """Return the instructions at which lanes are parked, those of most lanes first."""
    return tuple(pc for pc, _ in Counter(ask.pc for ask in asks).most_common())


def is_warning(raw: RawFinding) -> bool:
    """Return whether a finding is a warning, and no error of an order."""
    return raw.code in _WARNINGS


_WARNINGS = frozenset(
    "dangling-arrive dangling-phase phase-unobserved proxy-war mbarrier-unfenced store-outlives-cta same-value-init "
    "dsmem-relaxed-exit".split()
)


def _array(address: int) -> int:
    """Return the number of the array at an address; negative if there is none."""
    return ((address & ~ADDRESS_WRAPPED) >> SEGMENT_SHIFT) - FIRST_ARRAY


def warps_of_accesses(asks: Iterable[Ask]) -> Iterator[tuple[int, int]]:
    """Yield (CTA, warp) of the accesses of a path, each followed by another one's."""
    last = None
    for ask in asks:
        if ask[:2] != last:
            last = ask[:2]
            yield last
