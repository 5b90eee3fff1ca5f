"""Happens-before between operations, as vector clocks of host threads, streams, host functions and graph nodes.

Each of these actors has a clock.  An operation that is issued to a stream happens after the work of its stream, and
after whatever the host thread has observed.  An event has the clock of its stream at its last record.  A waiting host
joins the clock that it waits for.

The legacy stream and the blocking streams order each other: the one that gets an operation *pulls* the clocks of the
others at that moment.  Pushing would be wrong: an idle blocking stream does not wait for the legacy stream's kernel.

Reference: CUDA programming guide, "Explicit Synchronization", "Default Stream", "Events"; CUDA Driver API, "Stream
synchronization behavior", `cuStreamWaitEvent`, `cuLaunchHostFunc`.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Literal

from wsemu.between.operations import Clock, Operation, join_clocks
from wsemu.model.data import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from wsemu.between.operations import Where

watchers: list[Callable[[Operation], None]] = []
"""functions that are called with each operation, and with each wait of the host, in the order of issue"""
StreamKind = Literal["legacy", "blocking", "nonblocking"]
"""a per-thread default stream is a blocking one"""


@dataclass(slots=True)
class Actor:
    """A host thread, stream, host function or graph node, whose operations are totally ordered."""

    number: int
    name: str
    clock: Clock = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Return the number of its operations so far."""
        return self.clock.get(self.number, 0)

    def advance(self) -> int:
        """Begin the next operation, and return its number."""
        self.clock[self.number] = count = self.count + 1
        return count


@dataclass(slots=True, eq=False)
class Stream:
    """A stream of one device."""

    actor: Actor
    kind: StreamKind
    device: int = 0
    launches: list[Operation] = field(default_factory=list)
    """the last launches, if no other operation came after the first of them: a launch with programmatic serialization
    may overlap them"""
    graph: str = ""
    """name of a graph if the stream has the operations of one of its nodes"""

    @property
    def name(self) -> str:
        """Return its name in reports."""
        return self.actor.name


@dataclass(slots=True, eq=False)
class Event:
    """The last record of an event."""

    name: str = "event"
    clock: Clock | None = None
    """None: the event was never recorded"""
    looks: int = 0
    """number of queries since the record that returned false"""
    captured: Any = None
    """the capture in which it was recorded last, and the nodes that it comes after; None: outside of captures"""


@contextlib.contextmanager
def watching_operations(look: Callable[[Operation], None]) -> Iterator[None]:
    """Call a function with each operation inside the block."""
    watchers.append(look)
    try:
        yield
    finally:
        watchers.remove(look)


class Order:
    """The clocks of a program."""

    def __init__(self) -> None:
        self._actors = 0
        self._operations = 0
        self.streams: list[Stream] = []
        self.host = self.make_actor("host")
        self._work: Clock = {}
        """actor -> its last operation that takes time, which is a launch or a copy"""

    def make_actor(self, name: str, clock: Clock | None = None) -> Actor:
        """Return a new actor, which has observed what a clock contains."""
        self._actors += 1
        return Actor(self._actors, name, dict(clock or {}))

    def add_stream(self, kind: StreamKind, name: str, device: int = 0) -> Stream:
        """Create a stream."""
        stream = Stream(self.make_actor(name), kind, device)
        self.streams.append(stream)
        return stream

    def remove_stream(self, stream: Stream) -> None:
        """Remove a stream that has no pending work that anything could wait for."""
        if stream in self.streams:
            self.streams.remove(stream)

    # -- operations ----------------------------------------------------------------------------------------------------
    def issue(
        self, stream: Stream, host: Actor, does: str, name: str, where: Where | None, after: Iterable[Clock] = ()
    ) -> Operation:
        """Add an operation to a stream; `after` are further clocks that it happens after."""
        host.advance()
        clock = stream.actor.clock
        join_clocks(clock, host.clock)
        for other in self._implied_streams(stream):
            join_clocks(clock, other.actor.clock)
        for more in after:
            join_clocks(clock, more)
        named = f"{name} in graph {stream.graph}" if stream.graph else name
        made = self.append(stream.actor, does, named, where, stream.name)
        made.graph = stream.graph
        return made

    def append(self, actor: Actor, does: str, name: str, where: Where | None, stream: str = "") -> Operation:
        """Add the next operation of an actor."""
        self._operations += 1
        clock = dict(actor.clock)
        made = Operation(self._operations, actor.number, actor.advance(), clock, does, name, where, stream)
        if does in ("launch", "copy"):
            self._work[actor.number] = made.count
        for watch in watchers:
            watch(made)
        return made

    def note_wait(self, host: Actor, name: str, where: Where | None) -> None:
        """Notify the watchers of a wait by a host thread, whose clock already includes what it waited for."""
        if watchers:
            made = Operation(self._operations, host.number, host.count, dict(host.clock), "synchronize", name, where)
            for watch in watchers:
                watch(made)

    def _implied_streams(self, stream: Stream) -> list[Stream]:
        """Return the streams whose work so far an operation of this one waits for by itself."""
        if stream.kind == "nonblocking":
            return []
        wanted = "blocking" if stream.kind == "legacy" else "legacy"
        return [other for other in self.streams if other.kind == wanted and other.device == stream.device]

    # -- waits ---------------------------------------------------------------------------------------------------------
    def record(self, event: Event, stream: Stream, host: Actor, where: Where | None) -> Operation:
        """Record an event in a stream; its earlier record no longer counts."""
        made = self.issue(stream, host, "record", f"record of {event.name}", where)
        event.clock, event.looks = dict(stream.actor.clock), 0
        return made

    def wait_event(self, event: Event, stream: Stream, host: Actor, where: Where | None) -> Operation:
        """Let a stream wait for the last record of an event; do nothing if it was never recorded."""
        return self.issue(stream, host, "wait", f"wait for {event.name}", where, [event.clock or {}])

    def stream_clock(self, stream: Stream) -> Clock:
        """Return the clock that synchronizing with a stream joins."""
        clock = dict(stream.actor.clock)
        if stream.kind == "legacy":
            for other in self._implied_streams(stream):
                join_clocks(clock, other.actor.clock)
        return clock

    def device_clock(self, device: int = 0) -> Clock:
        """Return the clock that synchronizing with a device joins."""
        clock: Clock = {}
        for stream in self.streams:
            if stream.device == device:
                join_clocks(clock, stream.actor.clock)
        return clock

    def is_done(self, clock: Clock, host: Actor) -> bool:
        """Return whether a host thread has observed all launches and copies of a clock."""
        needed = ((actor, min(count, self._work.get(actor, 0))) for actor, count in clock.items())
        return all(host.clock.get(actor, 0) >= count for actor, count in needed)
