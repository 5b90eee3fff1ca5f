"""Graphs: work that is captured from streams once, and launched many times.

A node keeps the addresses, arguments and sizes of the capture.  In a launch of the graph, only its edges order its
nodes.  The launch comes after earlier work of its stream and after earlier launches of the same executable graph.
Reference: CUDA programming guide, "CUDA Graphs"; CUDA Driver API, `cuStreamBeginCapture` and its errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from wsemu.model.data import NamedTuple, dataclass, field

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wsemu.between.blocks import Block
    from wsemu.between.operations import Access, Clock, Operation, Where
    from wsemu.between.order import Actor, Stream

CaptureMode = Literal["global", "thread-local", "relaxed"]


@dataclass(slots=True, eq=False)
class Node:
    """An operation of a graph."""

    does: str
    name: str
    where: Where | None
    accesses: Sequence[Access]
    refine: Callable[[], Sequence[Access] | None] | None
    after: frozenset[int]
    """numbers of the nodes from which edges lead to this node"""
    blocks: list[Block]
    """blocks of memory that the operation accesses"""


@dataclass(slots=True, eq=False)
class Graph:
    """An executable graph."""

    name: str
    nodes: list[Node] = field(default_factory=list)
    last: Clock = field(default_factory=dict)
    """clock of the end of its last launch"""
    actors: dict[object, Actor] = field(default_factory=dict)
    """a node, by any key -> its actor; launches of a graph have an order, and so have the operations of a node"""


class GraphLaunch(NamedTuple):
    """A launch of a graph whose nodes are being entered."""

    graph: Graph
    stream: Stream
    begin: Operation
    nodes: dict[object, Stream]
    """a node, by any key -> the stream that has only its operations"""


@dataclass(slots=True, eq=False)
class Capture:
    """A capture in progress."""

    origin: Stream
    mode: CaptureMode
    graph: Graph
    ends: dict[int, frozenset[int]] = field(default_factory=dict)
    """id of a participating stream -> its last nodes"""
    invalid: bool = False

    def has(self, stream: Stream) -> bool:
        """Return whether a stream participates."""
        return id(stream) in self.ends

    def add(
        self, stream: Stream, does: str, name: str, where: Where | None, accesses: Sequence[Access],
        blocks: list[Block], refine: Callable[[], Sequence[Access] | None] | None = None,
    ) -> None:  # fmt: skip
        """Add an operation of a stream as a node."""
        nodes = self.graph.nodes
        nodes.append(Node(does, name, where, accesses, refine, self.ends[id(stream)], blocks))
        self.ends[id(stream)] = frozenset({len(nodes) - 1})

    def join(self, stream: Stream, nodes: frozenset[int]) -> None:
        """Order later work of a stream, which may not participate yet, after some nodes."""
        self.ends[id(stream)] = self.ends.get(id(stream), frozenset()) | nodes

    def has_unjoined_work(self) -> bool:
        """Return whether a stream has work that does not lead to the end of the origin."""
        reached, pending = set(self.ends[id(self.origin)]), [*self.ends[id(self.origin)]]
        while pending:
            for number in self.graph.nodes[pending.pop()].after - reached:
                reached.add(number)
                pending.append(number)
        return any(not nodes <= reached for nodes in self.ends.values())


class Violation(NamedTuple):
    """A call that CUDA forbids during a capture."""

    error: int
    """number of the CUDA error"""
    message: str
    where: Where | None


UNSUPPORTED, INVALIDATED, MERGE, UNMATCHED, UNJOINED, ISOLATION, IMPLICIT = 900, 901, 902, 903, 904, 905, 906
