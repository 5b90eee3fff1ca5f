"""Nodes of a search through interleavings, and its result (`search.py`)."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from wsemu.launch.explore.samples import Sampled
from wsemu.launch.explore.session import Ask
from wsemu.model.data import NamedTuple, dataclass, field
from wsemu.proof.threads import Excused, Knowledge, Made, Race

if TYPE_CHECKING:
    from wsemu.model.outcome import RawFinding


class Reached(NamedTuple):
    """A path of a launch: its ordered accesses in order, and all events."""

    asks: tuple[Ask, ...]
    made: tuple[Made, ...]


@dataclass(slots=True)
class Result:
    """The result of a search."""

    states: int = 0
    steps: int = 0
    left: int = 0
    """number of states that were found but not explored when the budget was exhausted"""
    ends: set[bytes] = field(default_factory=set)
    """contents that the arrays may have at the end"""
    uneven: bool = False
    """true if symmetric CTAs leave different values, so that it is undecided which CTA leaves which"""
    end: Any = None
    """contents of the arrays after an interleaving that ends"""
    sampled: Sampled | None = None
    """interleavings that were sampled, if there were too many to explore all"""
    race: Race | None = None
    findings: list[RawFinding] = field(default_factory=list)
    stuck: list[Ask] = field(default_factory=list)
    """lanes that wait for ever"""
    why: str = ""
    """the reason why nothing is decided: a status of `Moved`; `steps`, `lanes`, `weak` or `unclear`; `rounds`: a
    waiting loop accesses other memory, in a launch with phases or copies; `circle`: threads may loop forever; `apart`:
    lanes of a warp may run ahead of others; `barriers`: in some interleaving all remaining warps wait at barriers;
    `copies`: a copy and other accesses touch the same array in a way that is not tracked; `shared`: the launch has
    ordered accesses to shared memory as well as phases or copies"""
    ended: dict[bytes, tuple[Ask, ...]] = field(default_factory=dict)
    """history of a CTA with asynchronous operations -> an interleaving with that history"""
    excused: list[tuple[Excused, Reached]] = field(default_factory=list)
    """races that only the lack of a fence causes, which do not count as errors, with their first occurrence"""
    warned: list[RawFinding] = field(default_factory=list)
    """warnings of orders, also those that the initial run has"""
    at: tuple[int, ...] = ()
    """the instructions to which `why` applies; empty: the last access of the path"""
    reached: Reached = field(default_factory=lambda: Reached((), ()))

    @property
    def is_decided(self) -> bool:
        return not (self.why or self.race or self.findings or self.stuck)


@dataclass(slots=True)
class Node:
    """A state, with the data that restore it."""

    saved: list[Any]
    memory: Any
    digests: list[bytes]
    digest: bytes
    """digest of the arrays' contents here"""
    status: list[str]
    asks: list[list[Ask]]
    knowledge: Knowledge
    number: int
    """number of the next event"""
    before: Node | None = None
    ask: Ask | None = None
    made: list[Made] = field(default_factory=list)
    """accesses since the previous node"""
    todo: list[Ask] = field(default_factory=list)
    groups: list[list[Ask]] = field(default_factory=list)
    asleep: frozenset[Ask] = frozenset()
    """lanes that need not run here: another path had them run before the one that led here"""
    width: int = 0
    """width of the group that is tried, at its start"""
    moves: bool = False
    """true if an access that was resumed here has led elsewhere"""

    def key(self, alike: bool) -> bytes:
        """Return a key that distinguishes states.  With `alike`, the key does not depend on which of several CTAs is in
        which state."""
        digests = sorted(self.digests) if alike else self.digests
        made = hashlib.blake2b(digest_size=16)
        for part in (*digests, self.digest, self.knowledge.key(self.digests if alike else None)):
            made.update(part)
        return made.digest()

    def end(self) -> bytes:
        """Return a digest of the final arrays, independent of CTA numbers if CTAs have locations by their numbers."""
        return hashlib.blake2b(b"".join((*sorted(self.digests), self.digest)), digest_size=16).digest()

    def reached_state(self) -> Reached:
        asks: list[Ask] = []
        made: list[list[Made]] = []
        node: Node | None = self
        while node is not None:
            made.append(node.made)
            if node.ask is not None:
                asks.append(node.ask)
            node = node.before
        return Reached(tuple(reversed(asks)), tuple(one for part in reversed(made) for one in part))
