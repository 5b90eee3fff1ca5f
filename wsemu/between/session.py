"""The session of a program: an entry point calls it for each action of the host, and it reports conflicts.

The program runs in the order in which the host issues its work.  Each call enters one action, with the bytes that it
accesses and its source location.  Two accesses to a byte are a `Conflict` if nothing orders them and one is a write:
another legal order of the operations may give another result.

The rules for copies are those of the CUDA Runtime API, "API synchronization behavior", by the memory of both sides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from wsemu.between.blocks import Block, Blocks, Entry, clip_to_block, conflict, covers, drop_operation, enter
from wsemu.between.graphs import (
    IMPLICIT,
    ISOLATION,
    MERGE,
    UNJOINED,
    UNMATCHED,
    UNSUPPORTED,
    Capture,
    Graph,
    GraphLaunch,
    Violation,
)
from wsemu.between.operations import Access, Operation, Ranges, join_clocks
from wsemu.between.order import Event, Order, Stream
from wsemu.model.data import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from wsemu.between.blocks import BlockKind
    from wsemu.between.graphs import CaptureMode, Node
    from wsemu.between.operations import Where
    from wsemu.between.order import Actor

Memory = Literal["device", "pinned", "pageable"]
"""one side of a copy"""
MAX_ENTRIES = 512
"""maximum entries of a block: accesses that no later access covers"""
MAX_CHAIN = 16
"""maximum number of consecutive launches with programmatic serialization that may run at once"""


class Conflict(NamedTuple):
    """Two operations that access a byte without an order, or in a forbidden order."""

    code: str
    earlier: Operation
    earlier_access: Access
    later: Operation
    later_access: Access
    block: Block
    first: int
    """address of the first byte that both access"""
    end: int
    certain: bool = True
    """false if the bytes of one access are not known exactly"""
    only_fence: bool = False
    """true if only a fence and a trigger of the earlier launch order the read, which is not an error"""


class Undefined(NamedTuple):
    """A read of bytes that nothing has written since they were allocated."""

    copy: Operation
    reader: Operation | None
    block: Block
    first: int
    end: int


class Dependence(NamedTuple):
    """Waits of a launch for earlier launches, as its trace shows."""

    waits: bool
    """True if a thread waits for them"""
    waits_first: bool
    """True if a CTA waits before its first trigger"""


class Session:
    """The actions of one program, or of one list of launches."""

    def __init__(
        self, report: Callable[[Conflict], None], *, managed: Literal["concurrent", "exclusive"] = "concurrent",
        violate: Callable[[Violation], None] | None = None,
    ) -> None:  # fmt: skip
        """Begin a session.  It calls `report` with each conflict, and `violate` with each call that a capture forbids.
        `managed` states whether host and device may use managed memory at the same time (`concurrentManagedAccess`)."""
        self.order, self.blocks = Order(), Blocks()
        self._report, self._managed = report, managed
        self._violate = violate or (lambda _: None)
        self.captures: list[Capture] = []
        self._seen: set[object] = set()
        self._legacy = [self.order.add_stream("legacy", "default stream")]
        self.dependence: dict[int, Callable[[], Dependence | None]] = {}
        """operation number of a launch -> a function that returns its waits for earlier launches"""
        self._by_number: dict[int, Operation] = {}
        self.hosts = [self.order.host]
        """actors of the host threads"""
        self._fenced: list[Conflict] = []
        """reads of the current operation that only a fence before a trigger orders"""
        self._running: list[Operation] = []
        """launches that may run, if managed memory is exclusive"""

    @property
    def legacy(self) -> Stream:
        """The legacy default stream of the first device."""
        return self._legacy[0]

    def find_legacy(self, device: int) -> Stream:
        """Return the legacy default stream of a device."""
        while len(self._legacy) <= device:
            name = f"default stream of GPU {len(self._legacy)}"
            self._legacy.append(self.order.add_stream("legacy", name, len(self._legacy)))
        return self._legacy[device]

    # -- memory --------------------------------------------------------------------------------------------------------
    def allocate(
        self, first: int, end: int, kind: BlockKind, name: str, *, stream: Stream | None = None,
        host: Actor | None = None, where: Where | None = None,
    ) -> Block:  # fmt: skip
        """Enter an allocation: in a stream (`cudaMallocAsync`), by the host at a location, or before the session."""
        block = self.blocks.add(Block(first, end, kind, name))
        if (
            where is not None
            and stream is None
            and kind == "device"
            and any(one.mode == "global" for one in self.captures)
        ):
            self._forbid(UNSUPPORTED, f"`cudaMalloc` of `{name}` during a capture in global mode", where)
        if stream is not None:
            made = self.order.issue(stream, host or self.order.host, "allocate", f"allocation of `{name}`", where)
            stream.launches.clear()
            self._enter(made, Access("allocate", Ranges.single(first, end)), block)
        return block

    def free(
        self, block: Block, *, stream: Stream | None = None, host: Actor | None = None, where: Where | None = None
    ) -> Operation:
        """End an allocation, by the host or in a stream (`cudaFreeAsync`)."""
        host = host or self.order.host
        name = f"free of `{block.name}`"
        if stream is not None:
            made = self.order.issue(stream, host, "free", name, where)
            stream.launches.clear()
        else:
            made = self.order.append(host, "free", name, where)
        self.touch(made, [Access("free", Ranges.single(block.first, block.end))])
        block.freed = made
        return made

    # -- accesses ------------------------------------------------------------------------------------------------------
    def touch(self, operation: Operation, accesses: Iterable[Access]) -> None:
        """Enter the accesses of an operation, and report those that conflict with earlier ones."""
        operation.accesses.extend(accesses)
        if not self._is_decided(operation):
            return self.touch(operation, ())  # `_is_decided` has replaced these accesses by exact ones
        for access in operation.accesses:
            for block in [*self.blocks.overlapping(access.ranges.first, access.ranges.end)]:
                self._enter(operation, clip_to_block(access, block), block)
        fenced, self._fenced = self._fenced, []
        for one in fenced:
            self._report(one)
        return None

    def _is_decided(self, operation: Operation) -> bool:
        """Determine the exact bytes of accesses that may conflict; return whether the accesses of this operation are
        unchanged."""
        for access in operation.accesses:
            for block in [*self.blocks.overlapping(access.ranges.first, access.ranges.end)]:
                for earlier in [*block.log]:
                    if access.exact and earlier.access.exact:
                        continue
                    if self._conflicting(earlier, operation, access) is None:
                        continue
                    if not earlier.access.exact:
                        self._refine(earlier.operation)
                    if not access.exact and self._refine(operation):
                        return False
        return True

    def _enter(self, operation: Operation, access: Access, block: Block) -> None:
        for earlier in block.log:
            common = self._conflicting(earlier, operation, access)
            if common is not None:
                self._report_pair(earlier, operation, access, block, *common)
        if access.kind == "write":
            self._define(block, access.ranges)
        enter(block, Entry(operation, access))
        if len(block.log) > MAX_ENTRIES:
            self._refine_oldest(block)

    def _refine_oldest(self, block: Block) -> None:
        """Determine the exact bytes of the older half of a block's accesses, and replace them."""
        for entry in block.log[: MAX_ENTRIES // 2]:
            if not entry.access.exact:
                self._refine(entry.operation)
        del block.log[:-MAX_ENTRIES]

    def _conflicting(self, earlier: Entry, operation: Operation, access: Access) -> tuple[int, int] | None:
        """Return the first bytes that an earlier access and this one have in common, if nothing orders the two."""
        one, old = earlier
        if one is operation or not conflict(old, access):
            return None
        part = "before" if access.kind == "constant" else access.part
        if old.kind != "free" and one.precedes_part(operation, part):
            return None
        return old.ranges.common(access.ranges)

    def _refine(self, operation: Operation) -> bool:
        """Determine the exact accesses of an operation; return whether they were inexact and are known now."""
        refine, operation.refine = operation.refine, None
        exact = refine() if refine is not None else None
        if exact is None:
            return False
        coarse, operation.accesses = operation.accesses, [*exact]
        for access in coarse:
            for block in [*self.blocks.overlapping(access.ranges.first, access.ranges.end)]:
                if len(kept := drop_operation(block.log, operation)) == len(block.log):
                    continue
                block.log = kept
                for one in exact:
                    if one.ranges.first < block.end and block.first < one.ranges.end:
                        self._insert(block, Entry(operation, clip_to_block(one, block)))
        return True

    def _insert(self, block: Block, entry: Entry) -> None:
        """Enter an access of an earlier operation, before the accesses of later ones."""
        number = entry.operation.number
        at = next((n for n, one in enumerate(block.log) if one.operation.number > number), len(block.log))
        if not any(covers(later, entry) for later in block.log[at:]):
            block.log.insert(at, entry)

    def _report_pair(
        self, earlier: Entry, operation: Operation, access: Access, block: Block, first: int, end: int
    ) -> None:
        one, old = earlier
        code = self._code(earlier, operation, access)
        certain = (old.exact and access.exact) or "free" in (old.kind, access.kind)
        visible = old.visible == "both" or (old.visible == "generic" and not access.is_async)
        fenced = bool(operation.early) and one.number in operation.early and visible and access.kind == "read"
        key = (code, fenced, one.where, one.name, operation.where, operation.name, block.name)
        if key in self._seen:
            return
        self._seen.add(key)
        found = Conflict(code, one, old, operation, access, block, first, end, certain, fenced)
        if fenced:
            self._fenced.append(found)
        else:
            self._fenced = [one for one in self._fenced if one.earlier is not found.earlier]
            self._report(found)

    @staticmethod
    def _code(earlier: Entry, operation: Operation, access: Access) -> str:
        one, old = earlier
        if "free" in (old.kind, access.kind):
            return "freed-in-use"
        if "allocate" in (old.kind, access.kind):
            return "use-before-alloc"
        if operation.early and one.number in operation.early:
            if access.kind == "constant":
                return "pdl-nc"
            if old.visible and access.is_async and access.kind == "read":
                return "proxy"
            return "pdl-transitive" if one.number in operation.late else "missing-pdl-wait"
        return "host-race" if not (one.stream and operation.stream) else "stream-race"

    # -- bytes that nothing has written --------------------------------------------------------------------------------
    def mark_undefined(self, copy: Operation, block: Block, ranges: Ranges) -> None:
        """Record that a copy transferred uninitialized bytes to the host."""
        block.undefined.append(Entry(copy, Access("write", ranges)))

    def _define(self, block: Block, ranges: Ranges) -> None:
        left = [(one, one.access.ranges.without(ranges)) for one in block.undefined]
        block.undefined = [Entry(one.operation, Access("write", rest)) for one, rest in left if rest is not None]

    def find_undefined(self, first: int, end: int) -> tuple[Entry, int, int] | None:
        """Return a copy that wrote uninitialized bytes into this range, with the start and end of these bytes; None if
        there is none."""
        for block in self.blocks.overlapping(first, end):
            for entry in block.undefined:
                common = entry.access.ranges.common(Ranges.single(first, end))
                if common is not None:
                    return entry, *common
        return None

    # -- launches and copies -------------------------------------------------------------------------------------------
    def launch(
        self, stream: Stream, name: str, where: Where | None, accesses: Sequence[Access], *,
        host: Actor | None = None, refine: Callable[[], Sequence[Access] | None] | None = None, key: object = None,
        dependent: bool = False, dependence: Callable[[], Dependence | None] | None = None,
    ) -> Operation:  # fmt: skip
        """Enter a launch.  `dependent` means that it has programmatic stream serialization; `dependence` returns its
        waits for earlier launches."""
        if (capture := self._capture(stream, name, where)) is not None:
            capture.add(stream, "launch", name, where, [*accesses], self._accessed_blocks(accesses), refine)
            return self.order.append(self.order.make_actor(stream.name), "captured", name, where, stream.name)
        made = self.order.issue(stream, host or self.order.host, "launch", name, where)
        made.refine, made.key = refine, key
        self._by_number[made.number] = made
        if dependent and stream.launches:
            self._overlap(made, stream.launches)
        elif stream.launches:
            stream.launches.clear()
        stream.launches.append(made)
        del stream.launches[:-MAX_CHAIN]
        if dependence is not None:
            self.dependence[made.number] = dependence
        if self._managed == "exclusive":
            self._note_running(made)
        self.touch(made, accesses)
        return made

    def _overlap(self, made: Operation, before: Sequence[Operation]) -> None:
        """Determine which launches of the stream may still run when a dependent launch begins, and after its wait."""
        previous = before[-1]
        known = self.dependence.get(previous.number, lambda: None)() or Dependence(False, False)
        early, late = previous.early, previous.late
        start = {previous.number} | (late if known.waits_first else early)
        made.early = frozenset(start)
        made.late = frozenset((late if known.waits else early) & start)

    def copy(
        self, stream: Stream, source: Ranges | None, target: Ranges | None, where: Where | None, *,
        kinds: tuple[Memory, Memory], waits: bool, host: Actor | None = None, name: str = "copy",
    ) -> Operation:  # fmt: skip
        """Enter a copy, or a memset (without `source`).  `kinds` are the kinds of memory of source and target.  `waits`
        means that the call synchronizes (`cudaMemcpy`) and is in the default stream."""
        host = host or self.order.host
        if (capture := self._capture(stream, name, where)) is not None:
            both = [Access(kind, side) for kind, side in (("read", source), ("write", target)) if side is not None]  # type: ignore[arg-type]
            capture.add(stream, "copy", name, where, both, self._accessed_blocks(both))
            return self.order.append(self.order.make_actor(stream.name), "captured", name, where, stream.name)
        made = self.order.issue(stream, host, "copy", name, where)
        stream.launches.clear()
        staged = waits and kinds[0] == "pageable" and kinds[1] == "device"
        made.pageable = not waits and "pageable" in kinds
        accesses = [] if target is None else [Access("write", target)]
        if source is not None and kinds[0] == "pageable":
            self.touch(self.order.append(host, "host", name, where), [Access("read", source)])
        if source is not None and not staged:
            accesses.insert(0, Access("read", source))
        self.touch(made, accesses)
        if ("device" not in kinds) or (waits and kinds != ("device", "device") and not staged and source is not None):
            join_clocks(host.clock, stream.actor.clock)
        return made

    # -- the host ------------------------------------------------------------------------------------------------------
    def access(
        self, ranges: Ranges, kind: Literal["read", "write"], where: Where | None, *, host: Actor | None = None,
        name: str = "host",
    ) -> Operation:  # fmt: skip
        """Enter an access by host code."""
        made = self.order.append(host or self.order.host, "host", name, where)
        self.touch(made, [Access(kind, ranges)])
        if self._managed == "exclusive":
            self._check_managed(made, Access(kind, ranges))
        return made

    def record(self, event: Event, stream: Stream, where: Where | None = None, host: Actor | None = None) -> None:
        """Record an event in a stream; the overlap of dependent launches continues."""
        capture = self._capture(stream, "record", where)
        event.captured = None if capture is None else (capture, capture.ends[id(stream)])
        if capture is not None:
            return
        self.order.record(event, stream, host or self.order.host, where)

    def wait_event(self, event: Event, stream: Stream, where: Where | None = None, host: Actor | None = None) -> None:
        """Let later work of a stream wait for an event."""
        capture = self._capture(stream, "wait", where)
        if event.captured is not None:
            other, nodes = event.captured
            if capture is not None and capture is not other:
                return self._forbid(MERGE, "a wait that merges two captures", where, capture)
            other.join(stream, nodes)
            return None
        if capture is not None:
            return self._forbid(ISOLATION, f"a wait of {stream.name} for an event that is not captured", where, capture)
        self.order.wait_event(event, stream, host or self.order.host, where)
        stream.launches.clear()
        return None

    def synchronize(
        self, what: Stream | Event | None = None, host: Actor | None = None, where: Where | None = None, *,
        device: int = 0,
    ) -> None:  # fmt: skip
        """Let the host wait for a stream, an event, or a device."""
        host = host or self.order.host
        if self.captures and self._forbids_wait(what, where):
            return
        if isinstance(what, Stream):
            join_clocks(host.clock, self.order.stream_clock(what))
        elif isinstance(what, Event):
            join_clocks(host.clock, what.clock or {})
        else:
            join_clocks(host.clock, self.order.device_clock(device))
        self.order.note_wait(host, f"wait for {'the device' if what is None else what.name}", where)
        self._forget(host)

    def query(self, what: Stream | Event, host: Actor | None = None) -> bool:
        """Return whether the work is known to be complete.  The first query returns false, as it may on a GPU."""
        host = host or self.order.host
        clock = self.order.stream_clock(what) if isinstance(what, Stream) else what.clock or {}
        if self.order.is_done(clock, host):
            return True
        if isinstance(what, Event):
            what.looks += 1
            if what.looks > 1:
                self.synchronize(what, host)
                return True
        return False

    def _forget(self, host: Actor) -> None:
        """Drop all accesses that the only host thread has observed, since they happen before all later ones."""
        if len(self.hosts) > 1:
            return
        for block in self.blocks:
            block.log = [
                one for one in block.log if one.access.kind == "free" or not one.operation.precedes(host.clock)
            ]

    def begin_callback(self, stream: Stream, where: Where | None, host: Actor | None = None) -> Actor:
        """Begin a host function, and return its actor."""
        made = self.order.issue(stream, host or self.order.host, "callback", "host function", where)
        stream.launches.clear()
        actor = self.order.make_actor("host function", made.clock)
        actor.clock[made.actor] = made.count
        return actor

    def end_callback(self, stream: Stream, actor: Actor) -> None:
        """End a host function: later work of its stream happens after it."""
        join_clocks(stream.actor.clock, actor.clock)

    # -- graphs --------------------------------------------------------------------------------------------------------
    def _forbid(self, error: int, message: str, where: Where | None, capture: Capture | None = None) -> None:
        """Report a call that a capture forbids, and invalidate the capture."""
        for one in [capture] if capture is not None else self.captures:
            one.invalid = True
        self._violate(Violation(error, message, where))

    def _capture(self, stream: Stream, what: str, where: Where | None) -> Capture | None:
        """Return the capture that a stream is part of; report a use of the legacy stream during a capture."""
        found = next((one for one in self.captures if one.has(stream)), None)
        if found is None and stream.kind == "legacy":
            for one in self.captures:
                if one.origin.kind == "blocking":
                    self._forbid(
                        IMPLICIT, f"{what} in the legacy default stream, which {one.origin.name} orders", where, one
                    )
        return found

    def _forbids_wait(self, what: Stream | Event | None, where: Where | None) -> bool:
        for one in self.captures:
            if what is None or (isinstance(what, Stream) and one.has(what)):
                name = "the device" if what is None else what.name
                self._forbid(UNSUPPORTED, f"synchronization with {name} while it is captured", where, one)
                return True
            if isinstance(what, Event) and what.captured is not None and what.captured[0] is one:
                self._forbid(UNSUPPORTED, f"synchronization with {what.name}, which is captured", where, one)
                return True
        return False

    def _accessed_blocks(self, accesses: Iterable[Access]) -> list[Block]:
        return [
            block for access in accesses for block in self.blocks.overlapping(access.ranges.first, access.ranges.end)
        ]

    def begin_capture(self, stream: Stream, name: str, where: Where | None, mode: CaptureMode = "global") -> None:
        """Begin to capture a stream."""
        if stream.kind == "legacy":
            return self._forbid(UNSUPPORTED, "a capture of the legacy default stream", where)
        capture = Capture(stream, mode, Graph(name))
        capture.ends[id(stream)] = frozenset()
        self.captures.append(capture)
        return None

    def end_capture(self, stream: Stream, where: Where | None) -> Graph | None:
        """End a capture; return its graph, or None for an invalid capture."""
        capture = next((one for one in self.captures if one.has(stream)), None)
        if capture is None:
            self._forbid(UNMATCHED, f"the end of a capture of {stream.name}, which is not captured", where)
            return None
        self.captures.remove(capture)
        if capture.invalid:
            return None
        if stream is not capture.origin:
            self._forbid(
                UNMATCHED, f"the end of a capture in {stream.name}: it began in {capture.origin.name}", where, capture
            )
        elif capture.has_unjoined_work():
            self._forbid(
                UNJOINED, f"the end of a capture with work that is not joined to {stream.name}", where, capture
            )
        else:
            return capture.graph
        return None

    def launch_graph(self, graph: Graph, stream: Stream, where: Where | None, host: Actor | None = None) -> None:
        """Launch a graph: one operation of its stream; only the edges of the graph order its nodes."""
        host = host or self.order.host
        launch = self.begin_graph(graph, stream, where, host)
        for number, node in enumerate(graph.nodes):
            one = self.order.issue(self.add_node(launch, number, node.after), host, node.does, node.name, node.where)
            one.refine = node.refine
            if not self._is_stale(node, one, launch.begin):
                self.touch(one, node.accesses)
        self.end_graph(launch)

    def begin_graph(self, graph: Graph, stream: Stream, where: Where | None, host: Actor | None = None) -> GraphLaunch:
        """Begin the launch of a graph: it comes after earlier work of its stream and after its earlier launches."""
        name = f"launch of graph {graph.name}"
        made = self.order.issue(stream, host or self.order.host, "launch", name, where, [graph.last])
        stream.launches.clear()
        return GraphLaunch(graph, stream, made, {})

    def add_node(self, launch: GraphLaunch, key: object, after: Iterable[object] = ()) -> Stream:
        """Return a stream for the operations of a node, which comes after some nodes of this launch."""
        actor = launch.graph.actors.get(key)
        if actor is None:
            actor = launch.graph.actors[key] = self.order.make_actor(launch.stream.name)
        actor.name = launch.stream.name
        join_clocks(actor.clock, launch.stream.actor.clock)
        launch.nodes[key] = Stream(actor, "nonblocking", launch.stream.device, graph=launch.graph.name)
        for other in after:
            self.add_edge(launch, other, key)
        return launch.nodes[key]

    def add_edge(self, launch: GraphLaunch, earlier: object, key: object) -> None:
        """Let the operations of a node that follow come after an earlier node of this launch."""
        join_clocks(launch.nodes[key].actor.clock, launch.nodes[earlier].actor.clock)

    def end_graph(self, launch: GraphLaunch) -> None:
        """End the launch of a graph: later work of its stream comes after all its nodes."""
        for node in launch.nodes.values():
            join_clocks(launch.stream.actor.clock, node.actor.clock)
        launch.graph.last = dict(launch.stream.actor.clock)

    def _is_stale(self, node: Node, operation: Operation, launch: Operation) -> bool:
        """Return whether memory of a node was freed after the capture, and report that."""
        stale = [one for one in node.blocks if one.freed is not None or self.blocks.find(one.first) is not one]
        for block in stale:
            access = Access("free", Ranges.single(block.first, block.end))
            freed = block.freed or launch
            key = ("stale-capture", launch.where, node.where, block.name)
            if key not in self._seen:
                self._seen.add(key)
                later = Access("read", access.ranges)
                self._report(Conflict("stale-capture", freed, access, operation, later, block, block.first, block.end))
        return bool(stale)

    # -- managed memory that host and device must not use at once ------------------------------------------------------
    def _note_running(self, launch: Operation) -> None:
        self._running.append(launch)

    def _check_managed(self, operation: Operation, access: Access) -> None:
        """Report an access of the host to managed memory while any launch may run (`concurrentManagedAccess` 0)."""
        self._running = [one for one in self._running if not one.precedes(operation.clock)]
        for block in self.blocks.overlapping(access.ranges.first, access.ranges.end):
            if block.kind == "managed" and self._running:
                one = self._running[-1]
                common = access.ranges.common(Ranges.single(block.first, block.end))
                assert common is not None
                key = ("managed-access", one.where, operation.where, block.name)
                if key not in self._seen:
                    self._seen.add(key)
                    self._report(Conflict("managed-access", one, access, operation, access, block, *common))
