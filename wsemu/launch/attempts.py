"""Repeat a launch that has findings with other source, on its original arguments and without output.

For this, the report keeps the kernel, the arguments, and the original contents of the arrays to which the launch
stored.  Launches of edits use the same memory, because arguments may share it; the memory is restored afterwards.  If
the launch is in a device memory, they use a copy of it, because its owner may continue to use the original.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib.util
import linecache
import math
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.launch import copied_data
from wsemu.launch.binding import Packed
from wsemu.launch.code import Code
from wsemu.launch.compiled import compile_for_types, compiled_anew
from wsemu.launch.examined import compiling, judge_run, ran_with_orders
from wsemu.launch.hooks import expecting
from wsemu.launch.passed import launches, site
from wsemu.launch.running import bind_launch, ran
from wsemu.machine.tier import hot
from wsemu.model.codes import CODES
from wsemu.model.data import NamedTuple, dataclass, field, replace
from wsemu.model.errors import UsageError, WsemuError
from wsemu.model.isa import FIRST_ARRAY, NAMES, NO_STORE, OPERATIONS, memory_shape
from wsemu.model.launch_shape import configure
from wsemu.model.own import is_own
from wsemu.model.tensor_map import TensorMap
from wsemu.repair.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    import numpy.typing as npt

    from wsemu.launch.compiled import Compiled
    from wsemu.launch.examined import Examined
    from wsemu.launch.result import Report
    from wsemu.model.bound import Bound
    from wsemu.model.cure import Cure
    from wsemu.model.device_memory import DeviceMemory
    from wsemu.model.finding import Index
    from wsemu.model.launch_shape import LaunchConfiguration
    from wsemu.model.outcome import Outcome, Trace, Tracer
    from wsemu.model.program import Program
    from wsemu.model.settings import Engine, Settings
    from wsemu.repair.search import Accesses

MOST_KEPT = 64 << 20
"""maximum number of bytes of original array contents that a report keeps; if the arrays are larger, no edit is tried"""
LARGEST_SIZE = 4096
"""the largest number that is taken for a size"""
_LONGER = 20
"""times the warp instructions of the launch that one with an edit may execute"""
_TRACED = 100_000
"""maximum number of warp instructions of a launch whose reads of copied data are traced"""
_AT_LEAST = 500_000


class Attempted(NamedTuple):
    """The outcome of a launch with edited source."""

    report: Report
    results: tuple[tuple[str, npt.NDArray[Any]], ...]
    """the arrays that the launch stored to, by name, as copies"""
    stores: int
    """stores of threads to shared and global memory"""
    accesses: Accesses
    result_of_use: Any = None
    """result of the function that used the report while its source was available"""
    elsewhere: int = 0
    """number of changed elements in arrays that the unedited kernel does not use"""
    skips_data: bool = False
    """true if a CTA never reads the first data that it copies to shared memory"""


@dataclass(slots=True, eq=False)
class Launched:
    """The launch that a report describes."""

    kernel: Any
    arguments: Sequence[Any]
    uninitialized: tuple[str, ...]
    captured: list[Any]
    """arrays that the kernel names, which nothing had written"""
    bound: Bound
    before: list[npt.NDArray[np.uint8] | None]
    """contents of each segment before the launch"""
    instructions: int
    """number of executed warp instructions, estimated as if each CTA could execute what the first one did"""
    site: tuple[str, int] | None
    """the file and line of the user's that launches"""
    amiss: int
    """locations of errors, as the machine recorded them"""
    suppressed: bool
    """true if some findings are accepted"""
    checking: bool = False
    """true if the original launch is repeated"""
    expected: dict[str, Any] = field(default_factory=dict)
    """expected contents of arrays after the launch, by name, if known"""
    _known: dict[bytes, Attempted | None] = field(default_factory=dict)
    _other: tuple[LaunchConfiguration, Sequence[Any]] | None = None
    """configuration and arguments of the tried launch, if they differ from the original"""
    only: tuple[int, ...] = ()
    """CTAs that are run instead of all"""
    transferred: tuple[int, ...] = ()
    """bytes that copies transfer for each expect-tx operation of the original launch"""
    overlaps: bool = False
    """true if stores of different data to the same bytes race: of other sizes, or without a load in between"""

    @classmethod
    def of(
        cls, kernel: Any, arguments: Sequence[Any], uninitialized: tuple[str, ...], captured: list[Any], ran: Examined
    ) -> Launched | None:
        """Return the data of a launch that are kept, or None if they are too large or unknown."""
        if ran.bound.memory is not None:
            copied = _copy_memory(kernel, arguments, uninitialized, ran, ran.bound.memory)
            if copied is None:
                return None
            kernel, arguments, ran = copied
        pairs = [(now, before) for (now, _), before in zip(ran.bound.segments, ran.before, strict=True)]
        if any(before is None for _, before in pairs):
            return None
        if sum(before.nbytes for now, before in pairs if before is not now) > MOST_KEPT:
            return None
        x, y, z = ran.report.grid
        done = ran.report.counters.warp_instructions
        stopped = ran.places.outcome.status != "done"
        return cls(
            kernel, arguments, uninitialized, captured, ran.bound, ran.before, done * x * y * z if stopped else done,
            site(), _count_error_locations(ran.bound.program, ran.places.outcome), bool(ran.report.suppressed),
            expected=_expected_arrays(ran.bound),
        )  # fmt: skip

    def __reduce__(self) -> Any:
        return type(None), ()  # a report without them can be sent elsewhere

    @property
    def settings(self) -> Settings:
        return self.bound.settings

    def arguments_given(self) -> Sequence[Any]:
        """Return the arguments."""
        return self.arguments

    def launch(self) -> tuple[str, int, str] | None:
        """Return the text, the line number and the file of the launch.  Return None if they are unknown, and for
        PTX."""
        if self.site is None or isinstance(self.kernel, Code):
            return None
        text = "".join(linecache.getlines(self.site[0]))
        return (text, self.site[1], self.site[0]) if text else None

    def attempt_launch(
        self, grid: tuple[int, int, int], block: tuple[int, int, int], arguments: tuple[Any, ...],
        texts: dict[str, tuple[Any, str]] | None = None,
    ) -> Attempted | None:  # fmt: skip
        """Run another launch, inside `again`, perhaps with other source.  Return None if it cannot run."""
        now = self.bound.configuration
        if math.prod(grid) > math.prod(now.grid) + 1:
            return None
        try:
            other = configure(grid, block, 0, now.dynamic_shared, now.cluster, arch=now.arch)
            other = replace(other, arch_chosen=now.arch_chosen)
        except UsageError:
            return None
        self._other = other, arguments
        try:
            return self.attempt(texts or {}, lambda _: None)
        finally:
            self._other = None

    def sources(self) -> dict[str, tuple[str, frozenset[int]]]:
        """Return the user's files that contain the code of a Python kernel, with its lines."""
        if isinstance(self.kernel, Code):
            return {}
        lines: dict[str, set[int]] = {}
        for span in self.bound.program.spans:
            if not is_own(span.file):
                lines.setdefault(span.file, set()).add(span.line)
        texts = {file: "".join(linecache.getlines(file)) for file in lines}
        return {file: (texts[file], frozenset(lines[file])) for file in lines if texts[file]}

    def expect(self, arrays: dict[str, Any]) -> None:
        """Record the expected final contents of arrays, by name.  Raise UsageError for an array that the launch does
        not have."""
        known = {array.name: array for array in self.bound.arrays}
        for name, value in arrays.items():
            if name not in known:
                raise UsageError(f"expected names {name!r}: the kernel's arrays are {', '.join(known) or 'none'}")
            if np.shape(value) != known[name].shape:
                shape, wanted = np.shape(value), known[name].shape
                raise UsageError(f"expected `{name}` is of shape {shape}: the launch had one of shape {wanted}")
        self.expected = {name: np.array(value) for name, value in arrays.items()}  # edits change shared memory

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        """Allow launches inside the `with` block; at its end, all arrays have their previous contents again."""
        # an edited kernel may store to other locations than the original
        before, self.before = self.before, self.keep_arrays().before
        held = [(now, now.copy()) for now, _ in self._stored_segments()]
        try:
            yield
        finally:
            self.before = before
            for now, data in held:
                now[:] = data
            for array in self.captured:
                array.blank = False

    @contextlib.contextmanager
    def other_contents(self) -> Iterator[None]:
        """Launch with other array contents, inside `again`: floating-point elements are random, and the integers of
        each array are shuffled."""
        before, known = self.before, self._known
        random = np.random.default_rng(1)
        pairs = zip(self.bound.segments, before, strict=True)
        self.before = [data if data is None or data is now else data.copy() for (now, _), data in pairs]
        self._known = {}
        for array in self.bound.arrays:
            data = self.before[array.segment - FIRST_ARRAY]
            if data is None or data is before[array.segment - FIRST_ARRAY] or 0 in array.shape:
                continue
            values = np.ndarray(array.shape, array.dtype, data.data, array.offset, array.strides)
            if array.dtype.kind in "iu":
                values[...] = random.permutation(values.reshape(-1)).reshape(values.shape)
            elif array.dtype.kind in "fc":
                values[...] = random.uniform(0.25, 1.0, values.shape)
        try:
            yield
        finally:
            self.before, self._known = before, known

    def keep_arrays(self) -> Launched:
        """Return the launch with the original contents of all its arrays.  Arrays that it only loads from are not
        copied."""
        pairs = zip(self.bound.segments, self.before, strict=True)
        before = [data.copy() if data is now and writable else data for (now, writable), data in pairs]
        return replace(self, before=before, _known={})

    def part(self, ctas: Iterable[Index]) -> Launched | None:
        """Return the launch with only these CTAs, the first one and the last.  Return None if these are all, or if they
        may depend on others."""
        from wsemu.launch.explore.orders import Orders

        bound, (x, y, _) = self.bound, self.bound.configuration.grid
        alone = bound.group == (1, 1, 1) and bound.configuration.cluster == (1, 1, 1) and bound.heap is None
        if not alone or bound.program.cooperative or not self._is_plain() or Orders(bound, {}).influences_control():
            return None
        only = {0, bound.configuration.ctas - 1, *(i + x * (j + y * k) for i, j, k in ctas)}
        if len(only) == bound.configuration.ctas:
            return None
        return replace(self, only=tuple(sorted(only)), expected={}, _known={})

    def _is_plain(self) -> bool:
        """Return whether its CTAs run once each, in order."""
        settings = self.settings
        return settings.engine == "vm" and settings.cta_order != "descending" and not settings.every

    def earlier_verified(self) -> Sequence[Launched]:
        """Return earlier verified launches of this kernel, and of other kernels in the same files."""
        return [
            Launched(**parts, amiss=0, suppressed=False).keep_arrays()
            for parts in launches(self.kernel, self._is_near)
            if parts["bound"] is not self.bound
        ]

    def _is_near(self, program: Program) -> bool:
        """Return whether some code of a program is from the files that this kernel's is from."""
        own = {span.file for span in self.bound.program.spans if not is_own(span.file)}
        return any(span.file in own for span in program.spans)

    def repeat_alone(self, texts: dict[str, tuple[Any, str]], code: str = "") -> Attempted | None:
        """Run the original launch, perhaps with other source or PTX.  Afterwards all arrays have their current contents
        again."""
        with self.again():
            return self.attempt_code(code) if code else self.attempt(texts, lambda _: None)

    def _stored_segments(self) -> Iterator[tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]]:
        """Yield the segments to which the launch stored: their current and their original contents."""
        for (now, _), before in zip(self.bound.segments, self.before, strict=True):
            if before is not None and before is not now:
                yield now, before

    def is_verified_with(self, cure: Cure) -> bool:
        """Return whether the launch is verified with these edits."""
        if cure.patch:
            return self._is_verified_with_patch(cure)
        source = "".join(linecache.getlines(cure.file))
        if not cure.changes:
            return False
        with self.again():
            try:
                done = self.attempt({cure.file: (ast.parse(source), cure.applied(source))}, lambda _: None)
            except (SyntaxError, ValueError):
                return False
        return done is not None and done.report.verdict == "verified"

    def _is_verified_with_patch(self, cure: Cure) -> bool:
        """Return whether the launch is verified with a patch of its PTX; False for a patch of another text."""
        known = self.code()
        if known is None or (known[1] != cure.file and known[0] != "".join(linecache.getlines(cure.file))):
            return False
        try:
            text = cure.patch_ptx(known[0])
        except ValueError:
            return False
        done = self.repeat_alone({}, text)
        return done is not None and done.report.verdict == "verified"

    def breaks(self, cure: Cure) -> bool:
        """Return whether a launch that was verified, perhaps after this one, is not with these edits."""
        if any(edit.kind == "launch" for edit in cure.edits):
            return any(other.site == self.site for other in self.earlier_verified())
        verified = [
            o for o in self.earlier_verified() if (done := o.repeat_alone({})) and done.report.verdict == "verified"
        ]
        return not all(other.is_verified_with(cure) for other in verified)

    def arrays_before(self) -> tuple[tuple[str, npt.NDArray[Any]], ...]:
        """Return the contents, before the launch, of the arrays to which it stored, inside `again`."""
        for now, before in self._stored_segments():
            now[:] = before
        return self._results(self.bound)

    def rerun_unchanged(self) -> Attempted | None:
        """Repeat the original launch, inside `again`."""
        self.checking = True
        try:
            return self.attempt({}, lambda _: None)
        finally:
            self.checking = False
            self._known.clear()

    def attempt(self, texts: dict[str, tuple[Any, str]], look: Callable[[Report], Any]) -> Attempted | None:
        """Run the launch with other source, inside `again`.  The source maps each file to its current syntax tree and
        its new text.  `look` receives the report while the new source is in place.  Return None if the source does not
        compile, the launch cannot run, or the result is not better."""
        from wsemu.frontend.python.source import editing_source

        with contextlib.ExitStack() as stack:
            try:
                for file, (tree, text) in texts.items():
                    source = "".join(linecache.getlines(file))
                    assigned = stack.enter_context(editing_source(file, tree, text))
                    if assigned:
                        stack.enter_context(self._rebound(Text(file, source, tree), assigned))
                return self._attempt(look)
            except (WsemuError, SyntaxError, ValueError, ArithmeticError, RecursionError):
                return None

    def _rebound(self, text: Text, assigned: Sequence[tuple[ast.Assign, ast.Assign]]) -> AbstractContextManager[None]:
        """Evaluate changed values at the top of the kernel's file inside the `with` block."""
        from wsemu.frontend.python.source import find_source
        from wsemu.launch.constants import rebound

        function = getattr(self.kernel, "py_func", self.kernel)
        if find_source(function).file != text.file:
            raise ValueError("another module's values")
        return rebound(function.__globals__, text, assigned)

    @property
    def is_ptx(self) -> bool:
        return isinstance(self.kernel, Code)

    def code(self) -> tuple[str, str, int, int, dict[int, str]] | None:
        """Return the text and path of a PTX kernel's file, its first and last line, and the source files by number.
        Return None for other kernels, and if several files are linked."""
        known = self.kernel.text() if isinstance(self.kernel, Code) else None
        if known is None:
            return None
        text, files = known
        path, first, last = self.kernel.source()
        return text, path, first, last, files

    def attempt_code(self, text: str) -> Attempted | None:
        """Return the launch with other PTX, inside `again`; None if it does not compile, cannot run, or its result is
        not better."""
        try:
            return self._attempt(lambda _: None, self.kernel.with_text(text))
        except (WsemuError, ValueError, LookupError, ArithmeticError, RecursionError):
            return None

    def other_sizes(self) -> Iterator[tuple[LaunchConfiguration, Sequence[Any]]]:
        """Yield launches of neighboring sizes: each small number that is passed one less and one more, and a CTA
        less."""
        now = self.bound.configuration
        for n, given in enumerate(self.arguments):
            for other in _neighbors(given):
                yield now, (*self.arguments[:n], other, *self.arguments[n + 1 :])
        x, *others = now.grid
        if x > 1 and now.cluster == (1, 1, 1):
            with contextlib.suppress(UsageError):
                less = configure((x - 1, *others), now.block, 0, now.dynamic_shared, now.cluster, arch=now.arch)
                yield replace(less, arch_chosen=now.arch_chosen), self.arguments

    @contextlib.contextmanager
    def resize_launches(self, size: tuple[LaunchConfiguration, Sequence[Any]]) -> Iterator[None]:
        """Make launches of another size, inside `again`."""
        self._other = size
        try:
            yield
        finally:
            self._other = None

    def _attempt(self, look: Callable[[Report], Any], kernel: Any = None) -> Attempted | None:
        for now, before in self._stored_segments():
            now[:] = before
        for array in self.captured:
            array.blank = True
        kernel = kernel or self.kernel
        anew = compile_for_types if isinstance(kernel, Code) else compiled_anew
        made = anew(kernel, self._other[1] if self._other else self.arguments, self.settings.fma)
        most = max(_LONGER * self.instructions, _AT_LEAST)
        chosen = replace(
            self.settings, engine=_engine_of_attempts(self.settings), budget=min(self.settings.budget, most)
        )
        if self._other:
            return self._run(kernel, made, chosen, look)
        key = program_digest(made.program)
        if key not in self._known:
            self._known[key] = self._run(kernel, made, chosen, look)
        return self._known[key]

    def _run(self, kernel: Any, made: Compiled, chosen: Settings, look: Callable[[Report], Any]) -> Attempted | None:
        """Launch a program; return None if its result is not better."""
        started = time.perf_counter() - compiling()
        configuration, arguments = self._other or (self.bound.configuration, self.arguments)
        launch = (kernel, configuration, arguments, chosen, self.uninitialized)
        bound, notes = bind_launch(*launch, made, memory=self.bound.memory)
        only = tuple(cta for cta in self.only if cta < configuration.ctas)
        unused = self._copy_unused(bound)
        try:
            return self._run_bound(kernel, bound, notes, only, started, look, unused)
        finally:
            for values, before in unused:
                values[...] = before

    def _copy_unused(self, bound: Bound) -> list[tuple[npt.NDArray[Any], npt.NDArray[Any]]]:
        """Return the arrays to which an edited kernel may store although the original does not use them, with
        copies."""
        known = {now.ctypes.data for now, _ in self.bound.segments}
        values = [
            np.ndarray(array.shape, array.dtype, data.data, array.offset, array.strides)
            for array in bound.arrays
            for data, writable in (bound.segments[array.segment - FIRST_ARRAY],)
            if writable and 0 not in array.shape and data.ctypes.data not in known
        ]
        return [(array, array.copy()) for array in values]

    def _run_bound(
        self, kernel: Any, bound: Bound, notes: Any, only: tuple[int, ...], started: float,
        look: Callable[[Report], Any], unused: list[tuple[npt.NDArray[Any], npt.NDArray[Any]]],
    ) -> Attempted | None:  # fmt: skip
        """Run a bound launch; return None unless it has fewer errors."""
        with hot.run_once():
            run, orders = (ran(bound, 1, only=only), None) if only else ran_with_orders(bound, 1, tried=True)
        elsewhere = sum(int(np.count_nonzero(values != before)) for values, before in unused)
        amiss = _count_error_locations(bound.program, run[0])
        if only and self.checking:
            self.amiss = amiss
        if self.checking and not self._other and isinstance(kernel, Code) and bound.program.asynchronous:
            self.transferred = _bytes_per_expectation(run[1](frozenset()))
        if self.checking and not self._other:
            self.overlaps = self.overlaps or _has_overlapping_stores(bound.program, run[0])
        steered = orders is not None and orders.influences_control()
        if 0 < self.amiss <= amiss and not (self.suppressed or self.checking or self._other or steered):
            return None
        with hot.run_once():
            done = judge_run(kernel, bound, notes, run, started, orders=orders, tried=True)
        results = self._results(bound)
        skips = self._skips_data(bound, done, run[1])
        return Attempted(done.report, results, _stores(done), _accesses(done), look(done.report), elsewhere, skips)

    def _skips_data(self, bound: Bound, done: Examined, trace: Tracer) -> bool:
        """Return whether a verified launch never reads the first data that it copies."""
        program = bound.program
        if done.report.verdict != "verified" or not program.asynchronous or bound.configuration.cluster != (1, 1, 1):
            return False
        if self.instructions > _TRACED or not copied_data.has_simple_copies(program):
            return False
        return copied_data.skips_first_copy(program, trace(frozenset(copied_data.find_reads(program))))

    def _results(self, bound: Bound) -> tuple[tuple[str, npt.NDArray[Any]], ...]:
        """Return copies of the arrays to which the launch may have stored."""
        pairs = zip(self.bound.segments, self.before, strict=True)
        stored = {n for n, ((now, _), before) in enumerate(pairs, FIRST_ARRAY) if before is not now}
        names = {array.name for array in self.bound.arrays if array.segment in stored}
        return tuple(
            (a.name, np.ndarray(a.shape, a.dtype, data.data, a.offset, a.strides).copy())
            for a in bound.arrays
            if a.name in names and 0 not in a.shape
            for data in (bound.segments[a.segment - FIRST_ARRAY][0],)
        )


def _copy_memory(
    kernel: Any, arguments: Sequence[Any], uninitialized: tuple[str, ...], ran: Examined, memory: DeviceMemory
) -> tuple[Any, Sequence[Any], Examined] | None:
    """Return a launch in a copy of its device memory as it was before; None if that is too large or unknown."""
    bound, contents = ran.bound, ran.before
    if bound.heap is not None or bound.settings.ranks > 1 or any(data is None for data in contents):
        return None
    if sum(data.nbytes for data, _ in memory.layout().segments) > MOST_KEPT:
        return None
    copy = memory.replicate(contents)

    def move(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return memory.find_counterpart(array, copy)

    kernel = kernel.move_arrays(move) if isinstance(kernel, Code) else kernel
    arguments = [_move_argument(value, move) for value in arguments]
    other, _ = bind_launch(kernel, bound.configuration, arguments, bound.settings, uninitialized, memory=copy)
    if [(one.segment, one.offset) for one in other.arrays] != [(one.segment, one.offset) for one in bound.arrays]:
        return None  # some array does not move
    pairs = zip(bound.segments, contents, other.segments, strict=True)
    before = [data if now is not data else new for (now, _), data, (new, _) in pairs]
    return kernel, arguments, ran._replace(bound=bound._replace(segments=other.segments, memory=copy), before=before)


def _move_argument(value: Any, move: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]) -> Any:
    """Return an argument with its arrays replaced by `move`."""
    if isinstance(value, Packed):
        return value.move_arrays(move)
    if isinstance(value, TensorMap):
        return TensorMap.of(move(value.array), value.fields)
    return move(value) if isinstance(value, np.ndarray) else value


def _engine_of_attempts(settings: Settings) -> Engine:
    """Return the VM, or the launch's own engine if the VM's compiler is not installed."""
    return "vm" if importlib.util.find_spec("llvmlite") else settings.engine


def _expected_arrays(bound: Bound) -> dict[str, Any]:
    """Return what arrays of a launch should hold after it, by name."""
    names = {array.name for array in bound.arrays}
    return {name: value for hook in expecting for name, value in hook().items() if name in names}


def _count_error_locations(program: Program, outcome: Outcome) -> int:
    """Return the number of locations at which a machine recorded errors.  A launch that did not end counts as one."""
    spans = {
        (raw.code, program.span_of[raw.pc], program.span_of[raw.other_pc] if raw.other_pc >= 0 else -1)
        for raw in outcome.findings
        if raw.code in CODES and CODES[raw.code].severity == "error"
    }
    return len(spans) + (outcome.status != "done")


def _has_overlapping_stores(program: Program, outcome: Outcome) -> bool:
    """Return whether stores to overlapping parts of memory race: their elements differ in size, or they belong to two
    statements and no load of their data races."""
    races = [raw for raw in outcome.findings if raw.code in ("race", "intra-warp-race")]
    loaded = {raw.pc for raw in races if not _size_of_store(program, raw.other_pc)}
    loaded |= {raw.other_pc for raw in races if not _size_of_store(program, raw.pc)}
    constants = {constant.row for constant in program.constants}
    for raw in races:
        pair = raw.pc, raw.other_pc
        sizes = {_size_of_store(program, pc) for pc in pair}
        if 0 in sizes:
            continue
        lines = {program.spans[program.span_of[pc]][:2] for pc in pair}
        filled = any(int(program.code[pc, 2]) in constants for pc in pair)
        if len(sizes) > 1 or (len(lines) > 1 and not filled and not loaded.intersection(pair)):
            return True
    return False


def _size_of_store(program: Program, pc: int) -> int:
    """Return the size in bytes of the elements that a store writes; 0 for other instructions and for -1."""
    if pc < 0:
        return 0
    name = NAMES[int(program.code[pc, 0])]
    return memory_shape(name)[1] if OPERATIONS[name].kind == "store" else 0


def _bytes_per_expectation(trace: Trace) -> tuple[int, ...]:
    """Return the bytes that copies transfer for each expect-tx operation, if that is a whole number."""
    expected: Counter[tuple[int, int]] = Counter()
    transferred: Counter[tuple[int, int]] = Counter()
    for event in trace.events:
        if event.kind == "expect":
            expected[event.cta, event.place] += 1
        elif event.kind == "credit":
            transferred[event.cta, event.place] += event.amount
    totals = [(transferred[key], count) for key, count in expected.items()]
    return tuple(sorted({total // count for total, count in totals if total and not total % count}, reverse=True))


def _neighbors(given: Any) -> Iterator[Any]:
    """Yield one less and one more of an argument that may be a size."""
    if isinstance(given, Packed):
        if given.kind == "number" and len(given.data) in (4, 8):
            value = int.from_bytes(given.data, "little")
            others = (value - 1, value + 1) if 1 < value <= LARGEST_SIZE else ()
            yield from (Packed(other.to_bytes(len(given.data), "little")) for other in others)
    elif isinstance(given, (int, np.integer)) and not isinstance(given, bool) and 1 < given <= LARGEST_SIZE:
        yield from (type(given)(int(given) - 1), type(given)(int(given) + 1))


def program_digest(program: Any) -> bytes:
    """Return a digest that differs for programs that run differently; source locations do not count."""
    data = (program.constants, program.parameters, program.specials, program.shared, program.locals)
    return hashlib.blake2b(program.code.tobytes() + repr(data).encode()).digest()


def _stores(ran: Examined) -> int:
    """Return the number of stores by threads.  An atomic that represents a load does not count, and an atomic in a
    waiting loop counts once."""
    code = ran.places.program.code[:, [0, 7]].tolist()
    counts = ran.places.outcome.accesses.items()
    return sum(count.lanes for pc, count in counts if _is_store(*code[pc]))


_WORDS = {"load": "loads", "store": "stores", "atomic": "atomics"}
_POLLS = ("atom.cas", "atom.exch")


def _accesses(ran: Examined) -> Accesses:
    """Return the accesses of threads inside their arrays, except accesses that are repeated until a flag is set or a
    lock is free."""
    found: Accesses = {}
    program, outcome = ran.places.program, ran.places.outcome
    wrapped = {raw.pc: raw.count for raw in outcome.findings if raw.detail.get("wrapped")}
    for pc, count in outcome.accesses.items():
        operation, auxiliary = program.code[pc, [0, 7]].tolist()
        what = _WORDS.get(OPERATIONS[NAMES[operation]].kind)
        polls = what == "atomics" and (auxiliary & NO_STORE or NAMES[operation].startswith(_POLLS))
        if what is not None and not polls:
            key = program.array_of[pc] or "", what
            found[key] = found.get(key, 0) + max(count.lanes - wrapped.get(pc, 0), 0)
    return found


def _is_store(operation: int, auxiliary: int) -> bool:
    kind = OPERATIONS[NAMES[operation]].kind
    return kind == "store" or (kind == "atomic" and not auxiliary & NO_STORE)
