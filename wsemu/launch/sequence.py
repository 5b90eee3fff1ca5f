"""`wsemu.Sequence`: launches, copies and waits of several streams, checked as a whole.  An example:

    sequence = wsemu.Sequence()
    sequence.launch(produce, 2, 64, (x, 128), stream="s")
    sequence.launch(consume, 2, 64, (x, y, 128), stream="s", pdl=True)
    sequence.copy(y, host, stream="s")
    sequence.synchronize("s")
    sequence.assert_clean()

Streams, events and graphs have names.  Work runs at once, in this order.  There is a report for each launch, and one
for each finding between them.  Arrays are memory of the device unless `declare` gives another kind.
"""

from __future__ import annotations

import sys
from itertools import islice
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from numpy.lib.array_utils import byte_bounds

from wsemu.between.graphs import CaptureMode
from wsemu.between.operations import Access, Ranges, Where
from wsemu.between.order import Event
from wsemu.between.session import Dependence, Session
from wsemu.launch.between import report_conflict, report_violation
from wsemu.launch.check import check
from wsemu.launch.footprint import Footprint, possible_accesses
from wsemu.launch.hooks import adding_hook, finished, observers
from wsemu.launch.result import CheckFailed, Report
from wsemu.model import settings
from wsemu.model.device_array import memory_owner
from wsemu.model.errors import UsageError
from wsemu.model.isa import FIRST_ARRAY
from wsemu.model.own import is_own

if TYPE_CHECKING:
    from collections.abc import Sequence as Items

    from wsemu.between.blocks import Block, BlockKind
    from wsemu.between.graphs import Graph
    from wsemu.between.order import Stream, StreamKind
    from wsemu.between.session import Memory
    from wsemu.model.launch_shape import Size

    Array = np.ndarray[Any, np.dtype[Any]]

DEFAULT_STREAMS = ("", "default", "legacy")
"""names of the legacy default stream"""
_SIDES: dict[str, Memory] = {"device": "device", "pool": "device", "pageable": "pageable"}


class Sequence:
    """Launches, copies, waits and accesses of the host, in the order in which the host issues them."""

    def __init__(self, *, managed: settings.Managed | None = None, **options: Any) -> None:
        """Prepare a sequence.  `options` are those of `wsemu.check`, for each launch.  `managed` selects whether host
        and device may use managed memory at the same time (`concurrent`) or not (`exclusive`)."""
        self.reports: list[Report] = []
        """reports of the launches, and findings between them"""
        self._options = options
        self._session = Session(
            report_conflict, managed=managed or settings.current().managed, violate=report_violation
        )
        self._streams: dict[str, Stream] = {}
        self._events: dict[str, Event] = {}
        self._graphs: dict[str, Graph | None] = {}
        self._names: dict[int, str] = {}
        self._destroyed: dict[str, str] = {}
        """destroyed stream -> the line that destroyed it"""
        self._kept: list[Array] = []
        """memory in use: its addresses must not be reused"""
        self.where: Where | None = None
        """source location of the steps; None: the lines of the calling program"""

    # -- names ---------------------------------------------------------------------------------------------------------
    def stream(self, name: str, kind: StreamKind = "blocking", *, device: int = 0) -> None:
        """Declare a stream of a device.  An undeclared stream is a blocking stream of the first device, as
        `cudaStreamCreate` returns it."""
        if name in self._streams or name in DEFAULT_STREAMS:
            raise UsageError(f"stream {name!r} exists already: declare its kind before it is used")
        if kind not in ("blocking", "nonblocking"):
            raise UsageError(f"stream {name!r} of kind {kind!r}: give `blocking` or `nonblocking`")
        self._streams[name] = self._session.order.add_stream(kind, f"stream {name}", device)

    def destroy(self, stream: str) -> None:
        """Destroy a stream (`cudaStreamDestroy`).  Its work still runs; a later use raises UsageError, since CUDA
        returns an error."""
        if stream in DEFAULT_STREAMS:
            raise UsageError(f"stream {stream!r}: a default stream cannot be destroyed")
        self._stream(stream)
        where = self._where()
        self._destroyed[stream] = f"line {where.line}" if where is not None else "an earlier step"

    def declare(self, array: Array, name: str = "", kind: BlockKind = "device") -> None:
        """Declare the name and the kind of memory of an array, before it is used."""
        self._enter(array, name, kind)

    def allocate(self, array: Array, name: str = "", *, stream: str | None = None) -> None:
        """Allocate an array in the memory pool of a stream (`cudaMallocAsync`), or by `cudaMalloc`."""
        self._enter(array, name, "device" if stream is None else "pool", stream, self._where())

    def free(self, array: Array, *, stream: str | None = None) -> None:
        """Free an array from the host, or in a stream (`cudaFreeAsync`)."""
        with self._collecting():
            self._session.free(
                self._block(array), stream=None if stream is None else self._stream(stream), where=self._where()
            )

    # -- work ----------------------------------------------------------------------------------------------------------
    def launch(
        self, kernel: Any, grid: Size, block: Size, args: Items[Any] = (), *, stream: str = "", pdl: bool = False,
        **options: Any,
    ) -> Report:  # fmt: skip
        """Check a launch, and record it.  With `pdl`, it has the attribute of programmatic stream serialization."""
        where, chosen, entered = self._where(), self._stream(stream), []

        def enter(bound: Any, places: Any, tracer: Any) -> None:
            entered.append((bound, places, Footprint(bound, places, tracer)))

        with self._collecting():
            with adding_hook(finished, enter):
                report = check(kernel, grid, block, args, **{**self._options, **options})
            if not observers:
                self.reports.append(report)
            if entered:
                self._enter_launch(*entered[-1], chosen, where, pdl=pdl)
        return report

    def _enter_launch(
        self, bound: Any, places: Any, footprint: Footprint, stream: Stream, where: Where | None, *, pdl: bool
    ) -> None:
        segments = {n: data for n, (data, _) in enumerate(bound.segments, FIRST_ARRAY) if data.size}
        base = {n: int(data.__array_interface__["data"][0]) for n, data in segments.items()}
        for array in bound.arrays:
            if array.segment in base and self._session.blocks.find(base[array.segment]) is None:
                data = segments[array.segment]
                self._kept.append(data)
                self._session.allocate(base[array.segment], base[array.segment] + data.size, "device", array.name)
        coarse = [
            Access(kind, Ranges.single(base[n], base[n] + segments[n].size), exact=False)  # type: ignore[arg-type]
            for n, kinds in possible_accesses(bound, places).items() if n in base for kind in sorted(kinds)
        ]  # fmt: skip

        def refine() -> Items[Access] | None:
            found = footprint.accesses()
            return None if found is None else [
                Access(
                    one.kind, Ranges(one.starts, one.ends).shift(base[one.segment]), one.part if pdl else "", True,  # type: ignore[arg-type]
                    one.at, one.visible, one.is_async,
                )
                for one in found if one.segment in base
            ]  # fmt: skip

        def dependence() -> Dependence | None:
            found = footprint.dependents()
            return None if found is None else Dependence(found.waits and pdl, found.waits_first and pdl)

        accesses = refine() if pdl else coarse
        self._session.launch(
            stream, f"launch of `{places.program.name}`", where, coarse if accesses is None else accesses,
            refine=None if pdl and accesses is not None else refine, dependent=pdl, dependence=dependence,
        )  # fmt: skip

    def copy(self, source: Array, target: Array, *, stream: str | None = None) -> None:
        """Copy an array: by `cudaMemcpyAsync` in a stream; without a stream by `cudaMemcpy`, for which the host
        waits."""
        self._copy(source, target, stream)

    def memset(self, target: Array, value: int = 0, *, stream: str | None = None) -> None:
        """Set all bytes of an array to the low byte of a value."""
        self._enter(target)
        target.reshape(-1).view(np.uint8)[:] = value & 0xFF
        self._copy(None, target, stream)

    def _copy(self, source: Array | None, target: Array, stream: str | None) -> None:
        blocks = [self._enter(one) for one in (source, target) if one is not None]
        kinds = [_SIDES.get(block.kind, "pinned") for block in blocks]
        where = self._where()
        if source is not None:
            if source.nbytes != target.nbytes:
                raise UsageError(f"a copy of {source.nbytes:,} bytes to an array of {target.nbytes:,}")
            target[...] = source.reshape(target.shape)
        with self._collecting():
            self._session.copy(
                self._stream(stream or ""), None if source is None else Ranges.single(*byte_bounds(source)),
                Ranges.single(*byte_bounds(target)), where,
                kinds=(kinds[0] if source is not None else "device", kinds[-1]),
                waits=stream is None, name="copy" if source is not None else "memset",
            )  # fmt: skip

    # -- order ---------------------------------------------------------------------------------------------------------
    def record(self, event: str, *, stream: str = "") -> None:
        """Record an event in a stream."""
        with self._collecting():
            self._session.record(self._event(event), self._stream(stream), self._where())

    def wait(self, event: str, *, stream: str = "") -> None:
        """Let later work of a stream wait for an event."""
        with self._collecting():
            self._session.wait_event(self._event(event), self._stream(stream), self._where())

    def synchronize(self, what: str | None = None, *, device: int = 0) -> None:
        """Let the host wait for a stream or an event of this name, or, without a name, for the device."""
        with self._collecting():
            if what is None:
                self._session.synchronize(where=self._where(), device=device)
            elif what in self._events:
                self._session.synchronize(self._events[what], where=self._where())
            else:
                self._session.synchronize(self._stream(what), where=self._where())

    # -- the host ------------------------------------------------------------------------------------------------------
    def read(self, array: Array) -> None:
        """Record that the host reads an array."""
        self._access(array, "read")

    def write(self, array: Array, values: Any = None) -> None:
        """Record that the host writes an array, with these values if they are given."""
        self._access(array, "write")
        if values is not None:
            array[...] = values

    def _access(self, array: Array, kind: Any) -> None:
        self._enter(array, kind="pageable")
        with self._collecting():
            self._session.access(Ranges.single(*byte_bounds(array)), kind, self._where())

    # -- graphs --------------------------------------------------------------------------------------------------------
    def begin_capture(self, stream: str, graph: str, mode: CaptureMode = "global") -> None:
        """Capture the work of a stream, and of streams that join it, as a graph with this name."""
        if mode not in get_args(CaptureMode):
            raise UsageError(f"capture of mode {mode!r}: give one of {', '.join(get_args(CaptureMode))}")
        with self._collecting():
            self._session.begin_capture(self._stream(stream), graph, self._where(), mode)

    def end_capture(self, stream: str, graph: str) -> None:
        """End the capture of a stream."""
        with self._collecting():
            self._graphs[graph] = self._session.end_capture(self._stream(stream), self._where())

    def launch_graph(self, graph: str, *, stream: str = "") -> None:
        """Launch a graph."""
        if graph not in self._graphs:
            raise UsageError(f"graph {graph!r} was not captured; captured graphs: {', '.join(self._graphs) or 'none'}")
        found = self._graphs[graph]
        with self._collecting():
            if found is not None:
                self._session.launch_graph(found, self._stream(stream), self._where())

    # -- results -------------------------------------------------------------------------------------------------------
    @property
    def verdict(self) -> str:
        """Return `failed` if one report is failed, otherwise `incomplete` if one is incomplete, otherwise
        `verified`."""
        verdicts = {report.verdict for report in self.reports}
        return next((one for one in ("failed", "incomplete") if one in verdicts), "verified")

    def assert_clean(self) -> None:
        """Raise CheckFailed unless every launch is verified, and nothing between them is wrong."""
        __tracebackhide__ = True
        for report in self.reports:
            if report.verdict != "verified":
                raise CheckFailed(report)

    def _collecting(self) -> Any:
        return adding_hook(observers, self.reports.append)

    def _stream(self, name: str) -> Stream:
        if name in DEFAULT_STREAMS:
            return self._session.legacy
        if name in self._destroyed:
            raise UsageError(
                f"stream {name!r} was destroyed at {self._destroyed[name]}: CUDA returns error 400 (invalid resource "
                "handle); destroy it after its last use"
            )
        if name not in self._streams:
            self.stream(name)
        return self._streams[name]

    def _event(self, name: str) -> Event:
        return self._events.setdefault(name, Event(f"event {name}"))

    def _block(self, array: Array) -> Block:
        return self._enter(array)

    def _enter(
        self, array: Array, name: str = "", kind: BlockKind = "device", stream: str | None = None,
        where: Where | None = None,
    ) -> Block:  # fmt: skip
        """Return the block of an array, which is recorded on first use.  If `where` is given, it counts as the location
        of the allocation."""
        owner = memory_owner(array)
        first, end = byte_bounds(owner)
        known = self._session.blocks.find(first)
        if known is not None and where is None:
            known.name = name or known.name
            return known
        self._kept.append(owner)
        with self._collecting():
            return self._session.allocate(
                first, end, kind, name or _variable_name(owner),
                stream=None if stream is None else self._stream(stream), where=where,
            )  # fmt: skip

    def _where(self) -> Where | None:
        if self.where is not None:
            return self.where
        frame: Any = sys._getframe(1)
        while frame is not None and is_own(frame.f_code.co_filename):
            frame = frame.f_back
        if frame is None:
            return None
        line, end, column, last = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None))
        return Where(frame.f_code.co_filename, line or frame.f_lineno, column or 0, end or 0, last or 0)


def _variable_name(owner: Array) -> str:
    """Return the name of a variable of the caller that holds an array."""
    frame: Any = sys._getframe(1)
    while frame is not None and is_own(frame.f_code.co_filename):
        frame = frame.f_back
    names = {} if frame is None else {**frame.f_globals, **frame.f_locals}
    found = (name for name, value in names.items() if isinstance(value, np.ndarray) and memory_owner(value) is owner)
    return next((name for name in found if not name.startswith("_")), "array")
