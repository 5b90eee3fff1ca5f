"""Records what a Numba program does between launches: its streams, events, copies, launches and host functions.

Everything runs at once, in the order in which the program issues it; `wsemu.between` determines which operations
nothing orders.  Recording begins with the first stream, or the first array that host and device share.  Until then all
work is in the default stream; the last steps for which the host has not waited are kept, and recorded first.

All host threads count as one: the order of their calls is the order of this run.
"""

from __future__ import annotations

import contextlib
import sys
import weakref
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from wsemu.between.operations import Access, Ranges, Where
from wsemu.between.order import watchers
from wsemu.launch.arguments import find_arrays
from wsemu.launch.configured import current_launch_config
from wsemu.launch.hooks import finished
from wsemu.launch.result import CheckFailed
from wsemu.model import settings
from wsemu.model.data import NamedTuple
from wsemu.model.device_array import DeviceArray, memory_owner
from wsemu.model.isa import FIRST_ARRAY
from wsemu.model.own import is_library, is_own

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import FrameType

    from wsemu.between.blocks import Block, BlockKind
    from wsemu.between.order import Actor, Event, Stream, StreamKind
    from wsemu.between.session import Memory, Session
    from wsemu.evidence.places import Places
    from wsemu.launch.footprint import Footprint
    from wsemu.model.bound import Bound
    from wsemu.model.outcome import Tracer

    Array = np.ndarray[Any, np.dtype[Any]]


MAX_EARLIER = 64
"""maximum number of steps that are kept until recording begins"""
MAX_EARLIER_BYTES = 256 << 20
"""maximum bytes of the arrays of launches that are kept, to determine their accesses"""


MAX_FRAMES, MAX_ITEMS = 4, 64
"""maximum frames, and items of a list, that are searched for the name of an array"""
UNNAMED = "array"


def _make_finder(owner: Array) -> Callable[[tuple[str, Any]], str | None]:
    """Return a function that returns the name of a variable if it holds an array, or a list that contains it."""

    def variable_name(item: tuple[str, Any]) -> str | None:
        name, value = item
        if name.startswith("__"):
            return None
        if isinstance(value, np.ndarray):
            return name if memory_owner(value) is owner else None
        if isinstance(value, (list, tuple)):
            for number, one in enumerate(value[:MAX_ITEMS]):
                if isinstance(one, np.ndarray) and memory_owner(one) is owner:
                    return f"{name}[{number}]"
        return None

    return variable_name


_HELPERS = (contextlib.__file__, weakref.__file__)
"""files of Python's library that call wsemu on behalf of a program"""


def user_frame() -> FrameType | None:
    """Return the innermost frame outside of wsemu."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and (is_own(frame.f_code.co_filename) or frame.f_code.co_filename in _HELPERS):
        frame = frame.f_back
    return frame


def frame_location(frame: FrameType | None) -> Where | None:
    """Return the source location that a frame executes."""
    if frame is None:
        return None
    code = frame.f_code
    line, end, column, end_column = next(islice(code.co_positions(), frame.f_lasti // 2, None))
    return Where(code.co_filename, line or frame.f_lineno, column or 0, end or frame.f_lineno, end_column or 0)


def array_extent(array: Array) -> Ranges:
    """Return the bytes from the first to the last element of an array."""
    return Ranges.single(*byte_bounds(np.asarray(array)))


class Earlier(NamedTuple):
    """A step in the default stream before recording begins."""

    enter: Callable[[], object]
    size: int
    """bytes of arrays that the step keeps alive"""


class Recorder:
    """The recording of the current program."""

    def __init__(self) -> None:
        self.armed = False
        self.epoch = object()
        """identity of this program; streams of an earlier program have another epoch"""
        self.pending_changed: list[Callable[[], None]] = []
        """called when the device begins or ends to use host memory"""
        self.resolve_stream: Callable[[Any], Any] | None = None
        """function that returns the stream object of an argument"""
        self._session: Session | None = None
        self._kinds: dict[int, BlockKind] = {}
        """id of an array that owns memory -> kind of the memory"""
        self._host_blocks: set[Block] = set()
        self._actor: Actor | None = None
        self._before: list[Earlier] = []
        """the last steps in the default stream before recording began"""
        self._late: CheckFailed | None = None
        """error found at the end of an array's lifetime, where no exception can be raised"""

    @property
    def session(self) -> Session:
        """Return the session, which the first call creates."""
        if self._session is None:
            from wsemu.between.session import Session
            from wsemu.launch.between import report_conflict

            self._session = Session(report_conflict, managed=settings.current().managed)
        return self._session

    @property
    def host(self) -> Actor:
        """Return the current actor: the host, or a host function."""
        return self._actor or self.session.order.host

    def reset(self) -> None:
        """Begin a new program."""
        self.armed, self.epoch = False, object()
        self._session = self._actor = None
        self._kinds.clear()
        self._host_blocks.clear()
        self._before.clear()
        self._late = None
        self.notify()

    def arm(self) -> None:
        """Begin to record."""
        if self.armed:
            return
        self.armed = True
        from wsemu.host.line_accesses import watcher

        watcher.attach(self)
        before, self._before = self._before, []
        for step in before:
            step.enter()

    def _keep(self, enter: Callable[[], object], size: int = 0) -> None:
        """Keep a step that precedes the recording."""
        self._before = [*self._before[1 - MAX_EARLIER :], Earlier(enter, size)]

    def _enter_earlier(
        self, source: weakref.ref[Array] | None, target: weakref.ref[Array], where: Where | None
    ) -> None:
        """Record a copy in the default stream that was performed before recording began."""
        there = target()
        if there is not None and there.size:
            self._copy(None if source is None else source(), there, self.stream(0), where, waits=True)

    # -- streams and events --------------------------------------------------------------------------------------------
    def make_stream(self, kind: StreamKind, name: str, device: int) -> Stream:
        """Return the session's stream for a stream of the program."""
        if kind == "legacy":
            return self.session.find_legacy(device)
        streams = self.session.order.streams
        name = name or f"stream {sum(one.kind != 'legacy' for one in streams) + 1}"
        return self.session.order.add_stream(kind, name, device)

    def stream(self, given: Any) -> Stream:
        """Return the stream that an argument of a host function names."""
        assert self.resolve_stream is not None
        found: Stream = self.resolve_stream(given).order
        return found

    def synchronize(self, what: Stream | Event | None, device: int = 0) -> None:
        """Record a wait of the host: for a stream, an event, or all work of a device."""
        self._raise_late()
        where = frame_location(user_frame()) if watchers else None
        self.session.synchronize(what, self.host, where, device=device)
        self.notify()

    def record(self, event: Event, stream: Any) -> None:
        """Record that a stream records an event."""
        where = frame_location(user_frame())
        if self.armed:
            self.session.record(event, self.stream(stream), where, self.host)
        else:
            self._keep(lambda: self.session.record(event, self.stream(stream), where, self.host))

    def synchronize_early(self, event: Event) -> None:
        """Record a wait of the host for an event that was recorded before recording began."""
        self._keep(lambda: self.session.synchronize(event, self.host))

    def wait_early(self) -> None:
        """Drop the kept steps, because the host has waited for them."""
        self._before.clear()

    def wait(self, event: Event, stream: Any) -> None:
        """Record the wait of a stream for an event."""
        self.session.wait_event(event, self.stream(stream), frame_location(user_frame()), self.host)

    def query(self, event: Event) -> bool:
        """Answer whether an event is complete."""
        done = self.session.query(event, self.host)
        self.notify()
        return done

    @contextlib.contextmanager
    def host_function(self, stream: Stream) -> Iterator[None]:
        """Run a host function of a stream inside the block."""
        from wsemu.host.line_accesses import watcher

        outer, actor = self._actor, self.session.begin_callback(stream, frame_location(user_frame()), self.host)
        self._actor, watcher.everything = actor, True
        self.notify()
        try:
            yield
        finally:
            self._actor, watcher.everything = outer, False
            self.session.end_callback(stream, actor)
            self.notify()

    # -- arrays --------------------------------------------------------------------------------------------------------
    def declare(self, array: Array, kind: BlockKind) -> None:
        """Record the memory kind of an array."""
        owner = memory_owner(array)
        if id(owner) not in self._kinds:
            weakref.finalize(owner, self._kinds.pop, id(owner), None)
        self._kinds[id(owner)] = kind
        if kind == "device":
            return
        self.arm()
        known = self.session.blocks.find(byte_bounds(owner)[0])
        if known is not None:
            known.kind = kind

    def unregister(self, array: Array, kind: str) -> None:
        """Record the end of a mapping of host memory: the device must no longer access it.

        In practice, the end of pinning waits for copies, so it is recorded only with `strict`.
        """
        block = self.block(array)
        if block is not None and (kind == "mapped" or settings.current().strict):
            made = self.session.order.append(self.host, "free", f"unregistering of `{block.name}`",
                                             frame_location(user_frame()))  # fmt: skip
            self.session.touch(made, [Access("free", Ranges.single(block.first, block.end))])
            block.log = [one for one in block.log if one.access.kind != "free"]
        if block is not None:
            block.kind = self._kinds[id(memory_owner(array))] = "pageable"

    def block(self, array: Array, frame: FrameType | None = None) -> Block | None:
        """Return the block of an array, which the first call creates."""
        owner = memory_owner(array)
        first, end = byte_bounds(owner)
        if first == end:
            return None
        known = self.session.blocks.find(first)
        if known is not None and known.first == first and known.end == end:
            if known.name == UNNAMED:
                known.name = self._name(owner, frame)
            return known
        made = self.session.allocate(first, end, self.memory_kind(array), self._name(owner, frame))
        weakref.finalize(owner, self._forget, made, self.session)
        if made.is_on_host:
            self._host_blocks.add(made)
        return made

    def _forget(self, block: Block, session: Session) -> None:
        if session is self._session and block.kind == "pinned" and block.log:
            self._free(block)
        session.blocks.remove(block)
        self._host_blocks.discard(block)
        if session is self._session and (block.log or block.undefined):
            self.notify()

    def _free(self, block: Block) -> None:
        """Record the end of the life of pinned memory, unless the program ends.

        Numba-CUDA frees arrays of kernels later, in batches.
        """
        frame = user_frame()
        if frame is None or sys.is_finalizing() or is_library(frame.f_code.co_filename):
            return
        try:
            self.session.free(block, host=self.host, where=frame_location(frame))
        except CheckFailed as failed:
            self._late = failed

    def _raise_late(self) -> None:
        if self._late is not None:
            late, self._late = self._late, None
            raise late

    def uses_host_memory(self) -> bool:
        """Return whether lines of the program may access memory that an operation in flight touches."""
        if not self.armed:
            return False
        clock = self.host.clock
        return any(
            block.undefined or any(not one.operation.precedes(clock) for one in block.log)
            for block in [*self._host_blocks]
        )

    def _name(self, owner: Array, frame: FrameType | None) -> str:
        """Return the name of a variable that holds an array, or a description of it."""
        frame = frame or user_frame()
        for _ in range(MAX_FRAMES):
            if frame is None:
                break
            for names in (frame.f_locals, frame.f_globals):
                found = next((text for text in map(_make_finder(owner), [*names.items()]) if text), None)
                if found is not None:
                    return found
            frame = frame.f_back
        return UNNAMED

    def memory_kind(self, array: Array) -> BlockKind:
        """Return the kind of memory of an array."""
        found = self._kinds.get(id(memory_owner(array)))
        return found or ("device" if isinstance(array, DeviceArray) else "pageable")

    def _side(self, array: Array) -> Memory:
        kind = self.memory_kind(array)
        return "device" if kind in ("device", "pool") else "pageable" if kind == "pageable" else "pinned"

    # -- copies --------------------------------------------------------------------------------------------------------
    def enter_copy(self, source: Array | None, target: Array, stream: Any, *, fresh: bool = False) -> None:
        """Record a copy between two arrays, or a fill of one.

        `fresh`: the target was created for the result.  Drivers finish such a copy before they return, so a line that
        uses the result at once is reported only with `strict`.
        """
        frame = user_frame()
        where = frame_location(frame)
        if not self.armed:
            weak, there = None if source is None else weakref.ref(source), weakref.ref(target)
            self._keep(lambda: self._enter_earlier(weak, there, where))
            return
        self._raise_late()
        self._copy(source, target, self.stream(stream), where, waits=not stream, frame=frame)
        if stream and not isinstance(target, DeviceArray) and (settings.current().strict or not fresh):
            self._use_result(target, frame, where)
        self.notify()

    def _copy(
        self, source: Array | None, target: Array, stream: Stream, where: Where | None, *, waits: bool,
        frame: FrameType | None = None,
    ) -> None:  # fmt: skip
        for array in (source, target):
            if array is not None:
                self.block(array, frame)
        kinds = ("device" if source is None else self._side(source)), self._side(target)
        ranges = None if source is None or not source.size else array_extent(source)
        if target.size:
            self.session.copy(stream, ranges, array_extent(target), where, kinds=kinds, waits=waits, host=self.host)

    def _use_result(
        self, target: Array, frame: FrameType | None, where: Where | None, *, undefined: bool = False
    ) -> None:
        """Record the access to the result of a copy by the line that performs the copy.  `undefined` means to search
        only for uninitialized bytes."""
        from wsemu.host.line_accesses import array_ranges, index_result, watcher

        used, index = watcher.result_use(frame, where)
        if used and frame is not None:
            ranges = array_ranges(index_result(target, index, frame))
            if undefined:
                watcher.check_defined(ranges, self.session.order.append(self.host, "host", "host", where))
            else:
                watcher.access(ranges, "read", where)

    def undefined_copy(self, source: Array, target: Array, starts: Any, ends: Any) -> None:
        """Record that a copy to the host transferred uninitialized bytes; the offsets are in the target."""
        self.arm()
        frame = user_frame()
        block = self.block(target, frame)
        if block is None:
            return
        made = self.session.order.append(self.host, "copy", f"copy of `{self._name(memory_owner(source), frame)}`",
                                         frame_location(frame))  # fmt: skip
        first = byte_bounds(target)[0]
        self.session.mark_undefined(made, block, Ranges(first + starts, first + ends))
        self._use_result(target, frame, made.where, undefined=True)
        self.notify()

    def notify(self) -> None:
        """Notify the observers of host memory."""
        for call in self.pending_changed:
            call()

    # -- launches ------------------------------------------------------------------------------------------------------
    def enter_launch(self, bound: Bound, places: Places, tracer: Tracer) -> None:
        """Record a launch `kernel[grid, block, stream](...)` that has run."""
        config = current_launch_config()
        if config is None:
            return
        frame = user_frame()
        where = frame_location(frame)
        if self.armed:
            self._raise_late()
            self._launch(bound, places, tracer, config.args or (), config.stream, where, frame)
        elif any(type(a) is np.ndarray and a.size for a in config.args or ()):
            self.wait_early()  # for the copies back to the host
        else:
            size = sum(data.nbytes for data, _ in bound.segments)
            if size <= MAX_EARLIER_BYTES - sum(one.size for one in self._before):
                args = config.args or ()
                self._keep(lambda: self._launch(bound, places, tracer, args, 0, where, None, early=True), size)

    def _launch(
        self, bound: Bound, places: Places, tracer: Tracer, args: Sequence[Any], given: Any,
        where: Where | None, frame: FrameType | None, *, early: bool = False,
    ) -> None:  # fmt: skip
        """Record a launch.  `early` means that its arrays may have changed since."""
        from wsemu.launch.footprint import depends_on_contents, possible_accesses, shared_footprint

        stream, waits = self.stream(given), not given
        host_arrays = [
            a for a in args
            if type(a) is np.ndarray and a.size and self.memory_kind(a) in ("pageable", "pinned")
        ]  # fmt: skip
        private = {byte_bounds(a)[0] for a in host_arrays}
        for value in args:
            for _, array in find_arrays(value):
                if isinstance(array, np.ndarray) and array.size:
                    self.block(array, frame)
        for array in host_arrays:
            self.session.copy(
                stream, array_extent(array), None, where, kinds=(self._side(array), "device"), waits=waits,
                host=self.host, name=f"copy of `{self._name(memory_owner(array), frame)}` to the device",
            )  # fmt: skip
        is_known = not early or not depends_on_contents(places)
        footprint, key = shared_footprint(bound, places, tracer) if is_known else (None, None)
        base = {
            n: data.ctypes.data for n, (data, _) in enumerate(bound.segments, FIRST_ARRAY)
            if data.size and data.ctypes.data not in private
        }  # fmt: skip
        coarse = [
            Access(kind, Ranges.single(base[n], base[n] + bound.segments[n - FIRST_ARRAY][0].size), exact=False)  # type: ignore[arg-type]
            for n, kinds in possible_accesses(bound, places).items() if n in base for kind in sorted(kinds)
        ]  # fmt: skip
        self.session.launch(
            stream, f"launch of `{places.program.name}`", where, coarse, host=self.host,
            refine=None if footprint is None else lambda: _exact(footprint, base),
            key=(key, tuple(base.values())) if key else None,
        )  # fmt: skip
        for array in host_arrays:
            self.session.copy(
                stream, None, array_extent(array), where, kinds=("device", self._side(array)), waits=waits,
                host=self.host, name=f"copy of `{self._name(memory_owner(array), frame)}` back to the host",
            )  # fmt: skip
        if host_arrays and waits:
            self.session.synchronize(stream, self.host)
        self.notify()


def _exact(footprint: Footprint, base: dict[int, int]) -> Sequence[Access] | None:
    """Return the exact accesses of a launch at the addresses of its arrays."""
    found = footprint.accesses()
    if found is None:
        return None
    return [
        Access(one.kind, Ranges(one.starts, one.ends).shift(base[one.segment]), at=one.at)  # type: ignore[arg-type]
        for one in found if one.segment in base
    ]  # fmt: skip


recorder = Recorder()
finished.append(recorder.enter_launch)
