"""Messages between a program and the server: operation numbers and byte layout, which must match `c/state.h`.

A message has an operation, the number of following bytes, and these bytes; a reply has a status, which is one of CUDA's
errors, and bytes.  Only some operations have a reply.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import TYPE_CHECKING

from wsemu.model.data import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

HEAD = struct.Struct("<II")
REPLY = struct.Struct("<iI")
ALLOCATE = struct.Struct("<QQQQQ")
LAUNCH = struct.Struct("<II3I3II3III Q".replace(" ", ""))
ACTION = struct.Struct("<QQQQQQQ")
OCCUPANCY = struct.Struct("<IIiIQ")
TENSOR_MAP = struct.Struct("<26Q6q3Q")
MAX_MESSAGE = 1 << 30
"""maximum number of bytes of a message"""


class Operation(IntEnum):
    """The operation of a message."""

    HELLO = 1
    ALLOCATE = 2
    FREE = 3
    MODULE = 4
    BIND = 5
    UNLOAD = 6
    LAUNCH = 7
    MAP = 8
    KERNEL = 9
    OCCUPANCY = 10
    ACTION = 11
    REPORTS = 13


class Kind(IntEnum):
    """The kind of an allocation."""

    DEVICE = 0
    MANAGED = 1
    PINNED = 2
    REGISTERED = 3
    VARIABLE = 4
    BLANK = 5
    """managed memory that nothing has written yet"""
    ARENA = 99


class ActionKind(IntEnum):
    """The kind of a step of the host."""

    COPY = 1
    FILL = 2
    RECORD = 3
    WAIT = 4
    SYNC_STREAM = 5
    SYNC_EVENT = 6
    SYNC_ALL = 7
    NEW_STREAM = 8
    HOST_CALL = 9
    HOST_WRITE = 10
    FREE_IN_STREAM = 11
    DROP = 12
    """the program frees the memory next, by a package that caches memory; this implies no order in the program"""
    GRAPH_BEGIN = 13
    """the nodes of a graph, whose address is in place of an event, run next; the flag is 1 if their edges order them
    only in part"""
    GRAPH_NODE = 14
    """a node of such a graph runs next, with its address in place of an event"""
    GRAPH_EDGE = 15
    """the node comes after another one of its graph"""
    GRAPH_END = 16
    LAUNCH = 20
    ALLOCATE = 21
    FREE = 22


class Action(NamedTuple):
    """A step of the host, in the order of its calls, with the data that the check of the order between launches
    needs."""

    kind: ActionKind
    stream: int
    """handle of the stream, 0 for the default stream"""
    event: int = 0
    writes: tuple[tuple[int, int], ...] = ()
    """(address, bytes)"""
    reads: tuple[tuple[int, int], ...] = ()
    is_async: bool = False
    flags: int = 0
    launch: int = 0
    """number of the launch, from 1"""


class LaunchMessage(NamedTuple):
    """A launch as the program requests it."""

    module: int
    kernel: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    cluster: tuple[int, int, int]
    is_cooperative: bool
    stream: int
    parameters: bytes


def read_launch(data: bytes) -> LaunchMessage:
    """Return the launch that a message describes."""
    f = LAUNCH.unpack_from(data)
    return LaunchMessage(f[0], f[1], f[2:5], f[5:8], f[8], f[9:12], bool(f[12] & 1), f[14], data[LAUNCH.size :])


def read_action(data: bytes) -> Action:
    """Return the step of the host that a message describes."""
    kind, stream, event, to, from_, size, flags = ACTION.unpack_from(data)
    is_copy = kind == ActionKind.COPY
    is_write = kind in (ActionKind.COPY, ActionKind.FILL, ActionKind.HOST_WRITE)
    is_read = is_copy or kind in (ActionKind.FREE_IN_STREAM, ActionKind.DROP)
    writes, reads = ((to, size),) if is_write else (), ((from_, size),) if is_read else ()
    return Action(ActionKind(kind), stream, event, writes, reads, bool(is_write and flags), flags)


def pack_text(text: str) -> bytes:
    """Return text in the format of replies."""
    data = text.encode()
    return struct.pack("<I", len(data)) + data


def pack_attributes(values: dict[int, int], memory: int, name: str) -> bytes:
    """Return the description of the device."""
    pairs: Sequence[int] = [number for pair in values.items() for number in pair]
    return struct.pack(f"<I{len(pairs)}iQ", len(values), *pairs, memory) + name.encode() + b"\0"
