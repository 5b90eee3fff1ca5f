"""The state of one process of a program: its memory, its modules, and its launches."""

from __future__ import annotations

import json
import mmap
import os
import struct
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.launch import hooks
from wsemu.launch.binding import Packed
from wsemu.launch.check import launch
from wsemu.launch.result import CheckFailed
from wsemu.model import settings
from wsemu.model import tensor_map as maps
from wsemu.model.arch import arch_of
from wsemu.model.data import NamedTuple
from wsemu.model.device_memory import DeviceMemory
from wsemu.model.errors import KernelError, UnsupportedError, WsemuError
from wsemu.model.launch_shape import configure
from wsemu.model.residency import ctas_per_multiprocessor
from wsemu.native import device
from wsemu.native.images import Images
from wsemu.native.messages import (
    ALLOCATE,
    OCCUPANCY,
    REPLY,
    TENSOR_MAP,
    Action,
    ActionKind,
    Kind,
    Operation,
    pack_attributes,
    read_action,
    read_launch,
)
from wsemu.native.modules import LoadedModule
from wsemu.native.order import HostOrder
from wsemu.native.repeats import Outcome, Repeats

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence
    from pathlib import Path

    from wsemu.launch.ptx.module import PtxKernel
    from wsemu.launch.result import Report
    from wsemu.model.launch_shape import LaunchConfiguration
    from wsemu.model.settings import Settings
    from wsemu.native.messages import LaunchMessage

INVALID_VALUE, NO_BINARY, OUT_OF_RESOURCES, TOO_LARGE, INVALID_PTX, NOT_SUPPORTED = 1, 209, 701, 720, 218, 801
"""CUDA's errors"""
STICKY = {
    "out-of-bounds": 700, "misaligned": 716, "failed-assertion": 710, "deadlock": 702, "step budget": 702,
    "invalid-barrier": 715, "oversubscribed": 715, "setmaxnreg": 715, "copy-size": 715,
}  # fmt: skip
"""findings, and reasons for an incomplete launch, after which every later CUDA call of the program returns this error,
as on a GPU"""
WIDE_SWIZZLE = 4
"""`CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B`"""
PADDED_MODES = "im2col mode or interleave of 16U4_ALIGN16B and 16U6_ALIGN16B"
OTHER_SWIZZLES = {5: "128B_ATOM_32B_FLIP_8B", 6: "128B_ATOM_64B"}
"""swizzles of `CUtensorMapSwizzle` that are not modeled"""
TRAP = 719
"""error after a `trap`; its finding has the code of a failed assertion"""


MAX_KEPT_REPORTS, MAX_REPORT_TEXT = 20, 10_000
"""maximum number of reports of each verdict that are kept for a program that may query them, and maximum characters of
a report"""


MAX_READ = 256
"""maximum number of launch messages that are kept with what they request"""


class _Request(NamedTuple):
    """A launch message, read and checked."""

    message: LaunchMessage
    pending: Pending
    key: Hashable
    """key that launches of one kernel with the same shape and arguments have"""
    settings: Settings
    """the settings with which it was checked"""


class Pending(NamedTuple):
    """A launch that is about to run."""

    kernel: PtxKernel
    configuration: LaunchConfiguration
    parameters: Sequence[bytes]
    memory: DeviceMemory
    module: LoadedModule


class Watch:
    """The observer of a session, a base class of the command's observer."""

    renders_reports = True
    """true if reports for the program are rendered at their launch, because memory that they name may be freed later"""

    def note_use(self) -> None:
        """Record that the program allocates memory or loads a module."""

    def note_launch(self, pending: Pending) -> None:
        """Record a launch that is about to run."""

    def note_action(self, action: Action) -> None:
        """Record a step of the host."""

    def note_refusal(self, what: str, error: WsemuError) -> None:
        """Record a module or launch for which the program received an error."""


class Session:
    """A process of the program."""

    def __init__(self, kept: Path, watch: Watch) -> None:
        self.memory = DeviceMemory()
        self.modules: dict[int, LoadedModule] = {}
        self.watch = watch
        self._order = HostOrder(self.memory)
        self._repeats = Repeats(self.memory)
        self.process = 0
        self._unverified: list[_Unverified] = []
        """reports that the program has not queried yet"""
        self._kept = kept
        self._requests: dict[bytes, _Request] = {}
        """launches by the bytes of their messages, for modules that are still loaded"""
        self._bytes: np.ndarray[Any, np.dtype[np.uint8]] = np.empty(0, np.uint8)
        self._arch = arch_of(settings.current().arch)
        self._answers: dict[int, Callable[[bytes], bytes]] = {
            Operation.MODULE: self._load,
            Operation.BIND: self._bind,
            Operation.LAUNCH: self._launch,
            Operation.MAP: self._encode_map,
            Operation.KERNEL: self._inspect,
            Operation.OCCUPANCY: self._occupancy,
            Operation.REPORTS: self._take_reports,
        }
        self._notes: dict[int, Callable[[bytes], None]] = {
            Operation.ALLOCATE: self._allocate,
            Operation.FREE: self._free,
            Operation.UNLOAD: self._unload,
            Operation.ACTION: self._act,
        }

    def begin(self, data: bytes, file: int) -> bytes:
        """Map the memory of a process, and return the description of the device."""
        (self.process,) = struct.unpack("<Q", data)
        size = os.fstat(file).st_size
        mapped = mmap.mmap(file, size, mmap.MAP_SHARED | getattr(mmap, "MAP_NORESERVE", 0x4000))
        os.close(file)
        self._bytes = np.frombuffer(mapped, np.uint8)
        values = device.attributes(self._arch, settings.current().sms)
        return _reply(0, pack_attributes(values, device.MEMORY, f"{device.NAME} {self._arch.name}"))

    def end(self) -> None:
        """Release the memory of a process that has ended."""
        self._answers.clear()
        self._notes.clear()
        self.modules.clear()
        self._requests.clear()
        self._bytes = np.empty(0, np.uint8)
        self.memory = DeviceMemory()
        self._order = HostOrder(self.memory)
        self._repeats = Repeats(self.memory)

    def handle(self, operation: int, data: bytes) -> bytes:
        """Handle a message; return the reply, or None if it has no reply."""
        if operation in self._notes:
            self._notes[operation](data)
            return b""
        return self._answers[operation](data)

    # -- memory ------------------------------------------------------------------------------------------------------
    def _allocate(self, data: bytes) -> None:
        address, size, offset, kind, _ = ALLOCATE.unpack(data)
        part = self._bytes[offset : offset + size]
        if kind == Kind.ARENA:
            self.memory.add_arena(address, part)
            return
        self.watch.note_use()
        is_written = kind in (Kind.PINNED, Kind.MANAGED, Kind.REGISTERED)  # the host may write to this memory directly
        if self.memory.is_arena(address):
            self.memory.place(address, size, written=is_written)
        else:
            self.memory.place(address, part, written=is_written)
        self._order.note_allocation(address, size, kind)
        self.watch.note_action(Action(ActionKind.ALLOCATE, 0, writes=((address, size),)))

    def _free(self, data: bytes) -> None:
        (address,) = struct.unpack("<Q", data)
        one = self.memory.find(address)
        self._order.note_free(address, one.bytes if one else 0)
        self.memory.free(address)
        self.watch.note_action(Action(ActionKind.FREE, 0, writes=((address, one.bytes if one else 0),)))

    def _act(self, data: bytes) -> None:
        action = read_action(data)
        for address, size in action.writes:
            if self.memory.find(address) is not None:
                self.memory.mark_written(address, size)
        self._order.note(action)
        self.watch.note_action(action)

    # -- modules -----------------------------------------------------------------------------------------------------
    def _load(self, data: bytes) -> bytes:
        self.watch.note_use()
        (number,) = struct.unpack_from("<I", data)
        images = Images(self.process, self._kept, self._arch.number)
        try:
            module = LoadedModule(images.find_ptx(data[4:]), self._arch.limits)
        except WsemuError as error:
            self.watch.note_refusal("module", error)
            return _reply(INVALID_PTX if isinstance(error, KernelError) else NO_BINARY)
        self.modules[number] = module
        self._requests.clear()
        return _reply(0, module.describe())

    def _bind(self, data: bytes) -> bytes:
        words = struct.unpack(f"<{len(data) // 8}Q", data)
        self.modules[words[0]].place_variables(self.memory, words[1:])
        return _reply(0)

    def _unload(self, data: bytes) -> None:
        self.modules.pop(struct.unpack("<I", data)[0], None)
        self._requests.clear()

    def _inspect(self, data: bytes) -> bytes:
        number, kernel = struct.unpack("<II", data)
        try:
            program = self.modules[number].program(kernel)
        except WsemuError as error:
            self.watch.note_refusal("kernel", error)
            return _reply(NOT_SUPPORTED)
        return _reply(0, struct.pack("<4i", program.shared_bytes, program.registers or 32, 0, 0))

    def _occupancy(self, data: bytes) -> bytes:
        number, kernel, threads, _, dynamic = OCCUPANCY.unpack(data)
        try:
            program = self.modules[number].program(kernel)
        except WsemuError as error:
            self.watch.note_refusal("kernel", error)
            return _reply(NOT_SUPPORTED)
        if threads > self._arch.limits.threads or program.shared_bytes + dynamic > self._arch.limits.shared:
            return _reply(0, struct.pack("<i", 0))
        shared = -(-program.shared_bytes // 16) * 16 + dynamic
        return _reply(
            0, struct.pack("<i", ctas_per_multiprocessor(self._arch.name, threads, shared, program.registers)[0])
        )

    def _encode_map(self, data: bytes) -> bytes:
        f = TENSOR_MAP.unpack(data)
        rank, channels, pixels, line = f[1], f[32], f[33], f[34]
        is_padded = any(f[0] == maps.TYPE_NAMES.index(name) for name in maps.PADDED)
        if other := OTHER_SWIZZLES.get(f[4], PADDED_MODES if is_padded and (channels or f[3]) else ""):
            self.watch.note_refusal("tensor map", UnsupportedError(f"`{other}` is not modelled"))
            return _reply(NOT_SUPPORTED)
        wide = f[4] == WIDE_SWIZZLE
        corners = 1 if line else rank - 2
        im2col = maps.Im2col(f[26 : 26 + corners], f[29 : 29 + corners], channels, pixels, line) if channels else None
        try:
            fields = maps.MapFields(
                maps.TYPE_NAMES[f[0]], f[2], f[7 : 7 + rank], f[12 : 11 + rank], () if im2col else f[16 : 16 + rank],
                f[21 : 21 + rank], f[3], maps.SWIZZLES.index("128B") if wide else f[4], bool(f[6]), f[5], im2col, wide,
            )  # fmt: skip
            if maps.refuse_pixels(fields) if im2col else maps.refusal(fields):
                return _reply(INVALID_VALUE)
            return _reply(0, maps.encode(fields))
        except (IndexError, WsemuError):
            return _reply(INVALID_VALUE)

    # -- launches ----------------------------------------------------------------------------------------------------
    def _launch(self, data: bytes) -> bytes:
        message = read_launch(data)
        kernel = self.modules[message.module].kernels[message.kernel]
        try:
            request = self._read(data, message)
            self.watch.note_launch(request.pending)
            ran = self._repeat(request) or self._run(request)
        except UnsupportedError as error:
            self.watch.note_refusal(kernel.__name__, error)
            return _reply(NOT_SUPPORTED)
        except WsemuError as error:
            self.watch.note_refusal(kernel.__name__, error)
            return _reply(_launch_error(error))
        if ran.finished:
            bound, places, tracer = ran.finished[-1]
            self._order.note_launch(message.stream, bound, places, tracer)
            kernel.keep(bound.program)
        self.watch.note_action(Action(ActionKind.LAUNCH, message.stream))
        unverified = [self._keep_report(report) for report in ran.reports if report.verdict != "verified"]
        if unverified:
            self._unverified = _latest_reports([*self._unverified, *unverified])
        if ran.missing:
            return _reply(NOT_SUPPORTED)
        output = _pack_output(ran.printed, ran.asserted) if ran.printed or ran.asserted else b""
        return _reply(ran.status, output)

    def _read(self, data: bytes, message: LaunchMessage) -> _Request:
        """Return a launch that a message requests; raise an error for an invalid shape."""
        now = settings.current()
        known = self._requests.get(data)
        if known is not None and known.settings is now:
            return known
        module = self.modules[message.module]
        cluster = message.cluster if message.cluster[0] else None
        configuration = configure(message.grid, message.block, 0, message.shared, cluster)
        parameters = module.parameters(message.kernel, message.parameters)
        pending = Pending(module.kernels[message.kernel], configuration, parameters, self.memory, module)
        if len(self._requests) >= MAX_READ:
            self._requests.clear()
        request = _Request(message, pending, (module, message._replace(stream=0), now), now)
        self._requests[data] = request
        return request

    def _run(self, request: _Request) -> _Ran:
        """Run a launch and check it."""
        ran = _Ran([], [], [], [], [], [])

        def look(_: Report, places: Any, __: Any) -> None:
            ran.cut_off.append(places.outcome.status == "budget")

        def refuse(_: Any, __: Any, error: WsemuError) -> bool:
            ran.missing.append(error)
            return False

        pending = request.pending
        self._repeats.begin(request.key)
        started = time.perf_counter()
        with hooks.adding_hooks(
            (hooks.observers, ran.reports.append),
            (hooks.printing, ran.printed.append),
            (hooks.asserting, ran.asserted.append),
            (hooks.refused, refuse),
            (hooks.traceable, look),
            (hooks.finished, lambda *launch: ran.finished.append(launch)),
        ):
            launch(pending.kernel, pending.configuration, [*map(Packed, pending.parameters)], self.memory)
        self._repeats.end(request.key, time.perf_counter() - started, ran.outcome())
        return ran

    def _repeat(self, request: _Request) -> _Ran | None:
        """Return the result of an earlier launch that is equal and had the same memory; None if there is none."""
        started = time.perf_counter()
        found = self._repeats.find(request.key)
        if found is None:
            return None
        ran = _Ran([], [], [], [], [], [])
        if all(admits(request.pending.kernel.__name__) for admits in hooks.admitting):
            ran.finished.append((found.bound, found.places, found.tracer))
            report = found.report.model_copy(update={"seconds": time.perf_counter() - started})
            ran.reports.append(report)
            for look in hooks.traceable:
                look(report, found.places, found.tracer)
            for observer in hooks.observers:
                observer(report)
        return ran

    def _take_reports(self, _: bytes) -> bytes:
        """Return the verdicts and texts of the launches since the last call that were not verified."""
        taken, self._unverified = self._unverified, []
        texts = [(one.verdict, one.kernel[:1000], one.text or _report_text(one.report)) for one in taken]
        return _reply(0, json.dumps(texts).encode())

    def _keep_report(self, report: Report) -> _Unverified:
        """Keep a report for a program that may query it."""
        kept = report.drop_launch()
        text = _report_text(kept) if self.watch.renders_reports else ""
        return _Unverified(report.verdict, report.kernel, kept, text)


class _Ran(NamedTuple):
    """The results of a launch."""

    reports: list[Report]
    printed: list[str]
    asserted: list[str]
    missing: list[WsemuError]
    cut_off: list[bool]
    finished: list[Any]
    """the launch, if it ran to its end"""

    @property
    def status(self) -> int:
        """Return the error of CUDA that the launch causes, or 0.

        A verified launch whose initial run was cut off has the results of an explored interleaving.
        """
        lacks_results = any(self.cut_off) and any(report.verdict != "verified" for report in self.reports)
        return -max([STICKY["step budget"] * lacks_results, *map(_sticky, self.reports)])

    def outcome(self) -> Outcome | None:
        """Return the outcome of an equal launch on equal memory; None if it may differ, or if threads print."""
        is_repeatable = len(self.reports) == len(self.finished) == 1 and not self.status and not any(self.cut_off)
        if not is_repeatable or self.printed or self.asserted or self.missing:
            return None
        bound, places, tracer = self.finished[0]
        return Outcome(self.reports[0], bound, places, tracer) if bound.heap is None else None


class _Unverified(NamedTuple):
    """A launch that was not verified."""

    verdict: str
    kernel: str
    report: Report
    text: str
    """text of the report after the launch; empty: the report is rendered when it is queried"""


def _latest_reports(reports: Sequence[_Unverified]) -> list[_Unverified]:
    """Return the latest reports of each verdict, in order, so that incomplete launches do not displace failed ones."""
    counts: Counter[str] = Counter()
    kept: list[_Unverified] = []
    for report in reversed(reports):
        counts[report.verdict] += 1
        if counts[report.verdict] <= MAX_KEPT_REPORTS:
            kept.append(report)
    return kept[::-1]


def _report_text(report: Report) -> str:
    """Return the text of a report, truncated if it is long."""
    text = str(CheckFailed(report))
    return text if len(text) <= MAX_REPORT_TEXT else f"{text[:MAX_REPORT_TEXT]}\n... the report is longer"


def _reply(status: int, data: bytes = b"") -> bytes:
    return REPLY.pack(status, len(data)) + data


def _pack_output(printed: Sequence[str], asserted: Sequence[str]) -> bytes:
    """Return the output of threads in the form of replies: the number of bytes for stdout, these bytes, the bytes for
    stderr."""
    out, errors = ("".join(lines).encode(errors="replace") for lines in (printed, asserted))
    return struct.pack("<I", len(out)) + out + errors


def _launch_error(error: WsemuError) -> int:
    """Return CUDA's error for a launch that cannot run."""
    text = str(error)
    if "launch fewer CTAs" in text:
        return TOO_LARGE
    return OUT_OF_RESOURCES if "maxntid" in text or "shared memory" in text else INVALID_VALUE


def _sticky(report: Report) -> int:
    """Return the error that a GPU would return from every call after this launch; 0 if there is none."""
    if report.verdict == "verified":
        return 0
    if any(finding.code == "failed-assertion" and "`trap`" in finding.message for finding in report.errors):
        return TRAP
    codes = [finding.code for finding in report.errors]
    return next((STICKY[word] for word in (*codes, *report.reasons) if word in STICKY), 0)
