"""The order of a program's launches, copies and waits, entered into a session of `between` as the driver reports them.

Recording begins when a program creates its first stream: until then, all its work is in the default stream.  Work for
which the host has not waited by then is kept, and recorded first.  Accesses by host code itself are not seen; all host
threads count as one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wsemu.between.graphs import Graph
from wsemu.between.operations import Access, Ranges, join_clocks
from wsemu.between.order import Event
from wsemu.between.session import Session
from wsemu.launch.between import report_conflict
from wsemu.launch.footprint import depends_on_contents, launch_key, possible_accesses, shared_footprint
from wsemu.model import settings
from wsemu.model.data import NamedTuple
from wsemu.model.isa import FIRST_ARRAY, SEGMENT_SHIFT
from wsemu.native.messages import ActionKind, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wsemu.between.blocks import BlockKind
    from wsemu.between.graphs import GraphLaunch
    from wsemu.between.operations import Clock
    from wsemu.between.order import Stream
    from wsemu.between.session import Memory
    from wsemu.model.bound import Bound
    from wsemu.model.device_memory import DeviceMemory
    from wsemu.model.outcome import Tracer
    from wsemu.native.messages import Action

LEGACY, PER_THREAD = (0, 1), 2
"""handles of the default streams"""
NON_BLOCKING = 1
_BLOCKS: dict[int, BlockKind] = {Kind.PINNED: "mapped", Kind.REGISTERED: "mapped"}
"""kinds of blocks that are not `device`.  Managed memory counts as the device's: host accesses to it are not seen."""


MAX_EARLY = 256
"""maximum number of different launches and copies before the first stream that are kept"""
MAX_EARLY_BYTES = 256 << 20
"""maximum bytes of arrays that launches before the first stream keep, to determine their accesses"""


_WAITS = (ActionKind.SYNC_ALL, ActionKind.SYNC_STREAM, ActionKind.HOST_CALL)
"""steps after which the host may have observed all work in the default stream"""


class RunningGraph:
    """A launch of a graph whose nodes run."""

    def __init__(self, address: int, handle: int, launch: GraphLaunch) -> None:
        self.address, self.handle, self.launch = address, handle, launch
        self.node: int | None = None
        """address of the node that runs; None if the nodes have the order of the stream"""
        self.host_calls: list[Clock] = []
        """clocks of the host functions"""

    @property
    def stream(self) -> Stream:
        """The stream that has what runs now."""
        return self.launch.stream if self.node is None else self.launch.nodes[self.node]


class EarlyLaunch(NamedTuple):
    """A launch before the first stream is created."""

    number: int
    bound: Bound
    places: Any
    tracer: Tracer | None
    """None: only the arrays that it accesses are known"""


class EarlyWork:
    """Work in the default stream that the host has not waited for, before the first stream."""

    def __init__(self) -> None:
        self._kept: dict[object, EarlyLaunch | Action] = {}
        """work in the order of the calls, with the ends of graphs; of equal work, only the last item is kept"""
        self._bytes: dict[object, int] = {}
        """number of bytes that launches keep, by their keys; 0 if a launch keeps nothing"""

    def keep_launch(self, launch: EarlyLaunch) -> None:
        """Keep a launch, instead of an equal one."""
        key = launch_key(launch.bound, launch.places)
        if key not in self._bytes:
            room = MAX_EARLY_BYTES - sum(self._bytes.values())
            size = self._written_bytes(launch)
            self._bytes[key] = size if size <= room and not depends_on_contents(launch.places) else 0
        self._keep(key, launch if self._bytes[key] else launch._replace(tracer=None))

    def _written_bytes(self, launch: EarlyLaunch) -> int:
        """Return the bytes of the arrays whose contents a launch keeps to run again."""
        found = possible_accesses(launch.bound, launch.places)
        written = [n for n, kinds in found.items() if kinds & {"write", "atomic"}]
        sizes: list[int] = [launch.bound.segments[n - FIRST_ARRAY][0].nbytes for n in written]
        return 1 + sum(sizes)

    def keep(self, action: Action) -> None:
        """Keep a copy, a fill or the record of an event; drop work for which the host has waited."""
        if action.kind in _WAITS or _waits_in_practice(action):
            self.clear()
        elif action.kind == ActionKind.SYNC_EVENT:
            self._drop_to_record(action.event)
        elif action.kind != ActionKind.GRAPH_BEGIN:
            self._keep(action, action)

    def _keep(self, key: object, work: EarlyLaunch | Action) -> None:
        self._kept.pop(key, None)
        self._kept[key] = work
        if len(self._kept) > MAX_EARLY:
            oldest = next(iter(self._kept))
            del self._kept[oldest]
            self._bytes.pop(oldest, None)

    def _drop_to_record(self, event: int) -> None:
        """Drop the work before the last record of an event, because the host has waited for it."""
        kept = [*self._kept.items()]
        records = [
            n for n, (_, one) in enumerate(kept) if not isinstance(one, EarlyLaunch)
            and (one.kind, one.event) == (ActionKind.RECORD, event)
        ]  # fmt: skip
        for key, _ in kept[: records[-1]] if records else ():
            del self._kept[key]
            self._bytes.pop(key, None)

    def clear(self) -> None:
        """Drop everything."""
        self._kept.clear()
        self._bytes.clear()

    def take(self) -> list[EarlyLaunch | Action]:
        """Return the kept work in order, and drop it."""
        taken = [*self._kept.values()]
        self.clear()
        return taken


class HostOrder:
    """The operations that one process of a program issues to its streams."""

    def __init__(self, memory: DeviceMemory) -> None:
        self._memory = memory
        self._kinds: dict[int, int] = {}
        """kinds of allocations by address"""
        self._session: Session | None = None
        self._streams: dict[int, Stream] = {}
        self._events: dict[int, Event] = {}
        self._freeing: dict[int, int | None] = {}
        """address -> the stream in which it is about to be freed; None: the order of the free is not checked"""
        self._launches = 0
        self._early = EarlyWork()
        self._graphs: dict[int, Graph] = {}
        self._running: list[RunningGraph] = []
        """launches of graphs whose nodes run, each but the first in a node of the one before it"""
        self._enter: dict[int, Callable[[Session, Action], None]] = {
            ActionKind.COPY: self._copy,
            ActionKind.FILL: self._copy,
            ActionKind.RECORD: lambda session, one: session.record(self._event(one.event), self._stream(one.stream)),
            ActionKind.WAIT: lambda session, one: session.wait_event(self._event(one.event), self._stream(one.stream)),
            ActionKind.SYNC_STREAM: lambda session, one: session.synchronize(self._stream(one.stream)),
            ActionKind.SYNC_EVENT: lambda session, one: session.synchronize(self._event(one.event)),
            ActionKind.SYNC_ALL: lambda session, _: session.synchronize(),
            ActionKind.HOST_CALL: self._call_host,
            ActionKind.GRAPH_BEGIN: self._begin_graph,
            ActionKind.GRAPH_NODE: self._add_node,
            ActionKind.GRAPH_EDGE: self._add_edge,
            ActionKind.GRAPH_END: self._end_graph,
        }

    def note_allocation(self, address: int, size: int, kind: int) -> None:
        """Record an allocation."""
        self._kinds[address] = kind
        if self._session is not None:
            self._allocate(self._session, address, size)

    def note_free(self, address: int, size: int) -> None:
        """Record the end of an allocation, before it happens."""
        self._kinds.pop(address, None)
        if self._session is None and self._freeing.pop(address, 0) == 0:
            self._early.clear()  # because drivers wait for the device
        block = self._session.blocks.find(address) if self._session is not None else None
        if self._session is None or block is None or not size:
            return
        stream = self._freeing.pop(address, 0)
        if stream is None:
            self._session.blocks.remove(block)
        else:
            self._session.free(block, stream=self._stream(stream) if stream else None)

    def note(self, action: Action) -> None:
        """Record a step of the host."""
        if action.kind == ActionKind.NEW_STREAM:
            self._add_stream(action)
        elif action.kind in (ActionKind.FREE_IN_STREAM, ActionKind.DROP):
            self._freeing[action.reads[0][0]] = action.stream if action.kind == ActionKind.FREE_IN_STREAM else None
        elif action.kind not in self._enter:
            return
        elif self._is_early(action.stream) and not (action.kind == ActionKind.GRAPH_BEGIN and action.flags):
            self._early.keep(action)
        else:
            session = self._session or self._begin()
            self._enter[action.kind](session, action)

    def note_launch(self, stream: int, bound: Bound, places: Any, tracer: Tracer) -> None:
        """Record a launch that has run to its end."""
        self._launches += 1
        launch = EarlyLaunch(self._launches, bound, places, tracer)
        if self._is_early(stream):
            self._early.keep_launch(launch)
        else:
            self._enter_launch(self._session or self._begin(), stream, launch)

    # -- implementation ------------------------------------------------------------------------------------------------
    def _is_early(self, stream: int) -> bool:
        return self._session is None and stream in LEGACY

    def _begin(self) -> Session:
        """Begin recording, with the existing allocations and the earlier work that may still run."""
        self._session = session = Session(report_conflict, managed=settings.current().managed)
        for one in self._memory:
            self._allocate(session, one.address, one.bytes)
        for work in self._early.take():
            if isinstance(work, EarlyLaunch):
                self._enter_launch(session, 0, work)
            else:
                self._enter[work.kind](session, work)
        return session

    def _enter_launch(self, session: Session, stream: int, launch: EarlyLaunch) -> None:
        _, bound, places, tracer = launch
        kinds = possible_accesses(bound, places)
        coarse = [
            Access(kind, Ranges.single(n << SEGMENT_SHIFT, n + 1 << SEGMENT_SHIFT), exact=False)  # type: ignore[arg-type]
            for n in kinds if self._memory.has_segment(n) for kind in sorted(kinds[n])
        ]  # fmt: skip
        footprint, key = (None, None) if tracer is None else shared_footprint(bound, places, tracer)

        def refine() -> Sequence[Access] | None:
            found = None if footprint is None else footprint.accesses()
            return None if found is None else [
                Access(one.kind, Ranges(one.starts, one.ends).shift(one.segment << SEGMENT_SHIFT), at=one.at)  # type: ignore[arg-type]
                for one in found if self._memory.has_segment(one.segment)
            ]  # fmt: skip

        name = f"launch of `{places.program.name}` ({launch.number:,})"
        session.launch(self._stream(stream), name, None, coarse, refine=refine, key=(key, stream) if key else None)

    def _allocate(self, session: Session, address: int, size: int) -> None:
        kind = _BLOCKS.get(self._kinds.get(address, Kind.DEVICE), "device")
        one = self._memory.find(address)
        session.allocate(address, address + size, kind, one.name if one is not None else f"{address:#x}")

    def _add_stream(self, action: Action) -> None:
        session = self._session or self._begin()
        kind = "nonblocking" if action.flags & NON_BLOCKING else "blocking"
        self._streams[action.stream] = session.order.add_stream(kind, f"stream {len(self._streams) + 1}")  # type: ignore[arg-type]

    def _stream(self, handle: int) -> Stream:
        assert self._session is not None
        if self._running and self._running[-1].handle == handle:
            return self._running[-1].stream
        if handle in LEGACY:
            return self._session.legacy
        if handle not in self._streams:
            name = "per-thread stream" if handle == PER_THREAD else f"stream {len(self._streams) + 1}"
            self._streams[handle] = self._session.order.add_stream("blocking", name)
        return self._streams[handle]

    def _event(self, handle: int) -> Event:
        if handle not in self._events:
            self._events[handle] = Event(f"event {len(self._events) + 1}")
        return self._events[handle]

    def _side(self, address: int) -> Memory:
        if self._memory.find(address) is None:
            return "pageable"
        is_pinned = _BLOCKS.get(self._kinds.get(self._start(address), Kind.DEVICE)) == "mapped"
        return "pinned" if is_pinned else "device"

    def _start(self, address: int) -> int:
        one = self._memory.find(address)
        return one.address if one is not None else address

    def _copy(self, session: Session, action: Action) -> None:
        (to, size), source = action.writes[0], action.reads[0] if action.reads else None
        kinds = (self._side(source[0]) if source else "device"), self._side(to)
        session.copy(
            self._stream(action.stream),
            Ranges.single(source[0], source[0] + size) if source else None,
            Ranges.single(to, to + size),
            None,
            kinds=kinds,
            waits=not action.is_async and source is not None,
            name="copy" if source else "fill",
        )
        if _waits_in_practice(action):
            session.synchronize(self._stream(action.stream))

    def _call_host(self, session: Session, action: Action) -> None:
        stream = self._stream(action.stream)
        session.end_callback(stream, session.begin_callback(stream, None))
        if self._running:
            self._running[-1].host_calls.append(dict(stream.actor.clock))
        else:
            session.synchronize(stream)  # any host thread may observe from its effects that the host function has run

    def _begin_graph(self, session: Session, action: Action) -> None:
        graph = self._graphs.get(action.event)
        if graph is None:
            within = self._running[-1].launch.graph.name if self._running else str(len(self._graphs) + 1)
            graph = self._graphs[action.event] = Graph(within)
        launch = session.begin_graph(graph, self._stream(action.stream), None)
        self._running.append(RunningGraph(action.event, action.stream, launch))

    def _add_node(self, session: Session, action: Action) -> None:
        running = self._running[-1]
        session.add_node(running.launch, action.event)
        running.node = action.event

    def _add_edge(self, session: Session, action: Action) -> None:
        running = self._running[-1]
        session.add_edge(running.launch, action.event, running.node)

    def _end_graph(self, session: Session, action: Action) -> None:
        if not self._running or self._running[-1].address != action.event:  # it began before the first stream
            stream = self._stream(action.stream)
            self._graphs.setdefault(action.event, Graph(str(len(self._graphs) + 1))).last = dict(stream.actor.clock)
            return
        running = self._running.pop()
        session.end_graph(running.launch)
        if self._running:
            self._running[-1].host_calls += running.host_calls
            return
        for clock in running.host_calls:  # only now, because the nodes that follow may run before a host function
            join_clocks(session.order.host.clock, clock)


def _waits_in_practice(action: Action) -> bool:
    """Return whether drivers make the host wait for the end of a copy, although CUDA does not guarantee it."""
    return action.kind == ActionKind.COPY and not action.is_async and not settings.current().strict
