"""`wsemu debug FILE`: step manually through a launch on the reference engine, one thread at a time.

Each statement of the kernel is a stop for each thread that executes it.  The run is deterministic: to step back, the
debugger runs again from the start up to the previous stop.  The session works on copies of the arrays; the launch
itself runs afterwards.
"""

from __future__ import annotations

import linecache
import os
import struct
import sys
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from wsemu.app.breakpoints import Breakpoint, Breakpoints, evaluate_as_text, fill_in_values, format_value, holds
from wsemu.frontend.python.compile import argument_type, compile_kernel
from wsemu.launch.binding import bind
from wsemu.launch.code import Code
from wsemu.launch.compiled import as_declared, linked_files
from wsemu.model import settings
from wsemu.model.data import dataclass, field, replace
from wsemu.model.errors import UsageError
from wsemu.model.isa import FIRST_ARRAY, LOCAL, OFFSET_MASK, PRINTED, SEGMENT_SHIFT, SHARED, SHOW, STOPS
from wsemu.reference import run as reference

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from wsemu.model.launch_shape import LaunchConfiguration
    from wsemu.model.program import Program, Shown, Span, Stop
    from wsemu.reference.warp import WarpRun

LANES = 32
HELP = """\
n(ext)           the next statement of this function, or of its caller
s(tep)           the next statement, also of a function that is called
o(ut)            on to the caller of this function
c(ontinue)       on to a breakpoint, or to the end
back             the statement before
b(reak) [LINE [if EXPR]]   stop where a line begins (if EXPR is true there); without one, list them
clear LINE       no longer
p EXPR           an expression of the variables; arrays are as they are now
vars             all variables of the function
thread T [CTA]   another thread: indices as 3 or 1,2,0; from the start of the launch
w(here)          file, line, function, thread
l(ist)           the lines around
q(uit)           leave the launch: it runs, checked, to its end
"""


class Restart(Exception):
    """The run has to start again."""


class Quit(Exception):
    """The user ends the session."""


@dataclass(slots=True)
class Here:
    """The position of the selected thread."""

    stop: Stop
    span: Span
    calls: tuple[Span, ...]
    """locations of the calls that lead to it, the outermost first"""
    variables: dict[str, Any]

    @property
    def depth(self) -> int:
        return len(self.calls)


@dataclass(slots=True)
class Session:
    """One launch under the debugger: `program` has stops that show variables; `begin` returns the initial segments and
    rows."""

    program: Program
    configuration: LaunchConfiguration
    begin: Callable[[], tuple[Any, Any]]
    read: Callable[[], str]
    """reads a command; raises EOFError at the end of the input"""
    write: Callable[[str], object]
    cta: int = 0
    thread: int = 0
    breakpoints: Breakpoints = field(default_factory=Breakpoints)
    waits: str = "s"
    """condition of the next stop: s, n, o, c, or `replay`"""
    depth: int = 0
    count: int = 0
    """number of stops of the thread so far"""
    target: int = 0
    """number of the stop at which a replay ends"""
    values: list[list[int]] = field(default_factory=list)
    hits: list[int] = field(default_factory=list)
    """numbers of the stops that were at breakpoints"""

    def run(self) -> None:
        """Step through the launch until it ends or the user quits."""
        while True:
            rows, segments = self.begin()
            self.count, self.values = 0, []
            try:
                reference.run(
                    self.program, self.configuration.grid, self.configuration.block, rows, segments,
                    dynamic_shared=self.configuration.dynamic_shared, budget=settings.current().budget,
                    races=False, recycling=False, initialised=False, read_only=False, stopped=self.handle_stop,
                )  # fmt: skip
            except Restart:
                continue
            except Quit:
                return
            self.write(f"{self.program.name} has ended")
            return

    # -- called by the engine -----------------------------------------------------------------------------------------
    def handle_stop(self, run: WarpRun, fields: list[int], lanes: int) -> None:
        """Record a value that a stop shows; the last value completes the stop of each lane."""
        warp, lane = divmod(self.thread, LANES)
        if run.cta.number != self.cta or run.warp.number != warp or not lanes >> lane & 1:
            return
        if fields[6] & (1 << PRINTED) - 1 == 0:
            self.values = []
        self.values.append([run.values(fields[3], "b64")[lane]])
        stop = self.program.stops[fields[6] >> PRINTED]
        if len(self.values) < max(1, sum(_width(how) for _, how in stop.variables)):
            return
        self.count += 1
        pc = run.group.pc
        spans = self.program.spans
        span, calls = spans[self.program.span_of[pc]], self.program.stack_of[pc]
        point = self.breakpoints.at(span)
        if point is None and not stop.breaks and not self._should_pause(len(calls)):
            return
        bits = iter([value[0] & (1 << 64) - 1 for value in self.values])
        memory = _Memory(run)
        variables = {name: _value(how, bits, memory) for name, how in stop.variables}
        here = Here(stop, span, tuple(spans[number] for number in calls), variables)
        broken = stop.breaks or self._breaks(point, here)
        if broken and (not self.hits or self.hits[-1] < self.count):
            self.hits.append(self.count)
        if self._should_pause(here.depth) or (broken and self.waits != "replay"):
            self.talk(here)

    def _should_pause(self, depth: int) -> bool:
        """Return whether to stop here even without a breakpoint."""
        match self.waits:
            case "replay":
                return self.count >= self.target
            case "n":
                return depth <= self.depth
            case "o":
                return depth < self.depth
        return self.waits == "s"

    def _breaks(self, point: Breakpoint | None, here: Here) -> bool:
        if point is None or (point.condition and not holds(point.condition, here.variables)):
            return False
        if point.log and self.waits != "replay":
            self.write(fill_in_values(point.log, here.variables))
        return not point.log

    # -- commands of the user -----------------------------------------------------------------------------------------
    def talk(self, here: Here) -> None:
        """Execute commands until the thread continues."""
        self.depth = here.depth
        self._where(here)
        while True:
            try:
                words = self.read().split(maxsplit=1)
            except EOFError:
                raise Quit from None
            name, rest = (words[0], words[1] if len(words) > 1 else "") if words else ("n", "")
            if self._execute_command(name, rest, here):
                return

    def _execute_command(self, name: str, rest: str, here: Here) -> bool:
        """Execute a command; return whether the thread then continues."""
        match name:
            case "n" | "next" | "s" | "step" | "o" | "out" | "c" | "continue":
                self.waits = name[0]
                return True
            case "back":
                self.again(max(1, self.count - 1))
            case "b" | "break" | "clear":
                self._breakpoint(name, rest)
            case "p" | "print":
                self.write(evaluate_as_text(rest, here.variables))
            case "vars" | "locals":
                for variable, value in here.variables.items():
                    self.write(f"{variable} = {format_value(value)}")
            case "thread":
                self.go_to(rest)
            case "w" | "where":
                self._where(here)
            case "l" | "list":
                self._list(here.span)
            case "q" | "quit":
                raise Quit
            case "h" | "help":
                self.write(HELP.rstrip())
            case _:
                self.write(f"no command `{name}`: `h` lists them")
        return False

    def again(self, target: int) -> NoReturn:
        """Restart the launch, and run to a stop."""
        self.waits, self.target = "replay", target
        raise Restart

    def list_lines(self) -> set[int]:
        """Return the lines at which a thread can stop."""
        program, code = self.program, self.program.code
        stops = np.flatnonzero((code[:, 0] == SHOW) & (code[:, 7] == STOPS))
        return {program.spans[program.span_of[pc]].line for pc in stops.tolist()}

    def _breakpoint(self, name: str, rest: str) -> None:
        line, _, condition = rest.partition(" if ")
        if rest and not line.strip().isdecimal():
            self.write(f"`{name} {rest}`: give the number of a line")
        elif not rest:
            self.write(f"breakpoints: {self.breakpoints}")
        elif name == "clear":
            self.breakpoints.clear(int(line))
        elif int(line) not in (lines := self.list_lines()):
            self.write(describe_missing(int(line), lines))
        else:
            self.breakpoints.set(Breakpoint(int(line), condition=condition.strip()))

    def go_to(self, rest: str) -> None:
        """Select another thread, `T [CTA]`, from the start of the launch."""
        try:
            thread, *cta = rest.split()
            self.thread = linear(thread, self.configuration.block, "thread")
            self.cta = linear(cta[0], self.configuration.grid, "CTA") if cta else self.cta
            self.hits = []
        except (ValueError, UsageError) as error:
            self.write(str(error) if isinstance(error, UsageError) else "give a thread, and maybe a CTA: `thread 3 0`")
            return
        self.again(1)

    @property
    def who(self) -> str:
        """Return the name of the thread."""
        block, grid = self.configuration.block, self.configuration.grid
        return f"thread {_axes(self.thread, block)} of CTA {_axes(self.cta, grid)}"

    def _where(self, here: Here) -> None:
        self.write(f"{os.path.basename(here.span.file)}:{here.span.line} {here.stop.function}, {self.who}")
        self.write(f"-> {linecache.getline(here.span.file, here.span.line).rstrip()}")

    def _list(self, span: Span) -> None:
        for number in range(max(1, span.line - 4), span.line + 5):
            line = linecache.getline(span.file, number)
            if line:
                self.write(f"{number:4} {'->' if number == span.line else '  '} {line.rstrip()}")


class _Memory:
    """The memory that a thread can access now."""

    def __init__(self, run: WarpRun) -> None:
        self._run = run

    def array(self, address: int, dtype: np.dtype[Any], shape: Sequence[int], strides: Sequence[int]) -> Any:
        """Return a copy of an array; if it is outside of memory, a text that describes why."""
        segment, offset = address >> SEGMENT_SHIFT, address & OFFSET_MASK
        arrays = self._run.launch.arrays
        if segment == SHARED:
            data: Any = self._run.cta.shared.data
        elif segment == LOCAL:
            data = self._run.warp.local.data
        elif FIRST_ARRAY <= segment < FIRST_ARRAY + len(arrays):
            data = arrays[segment - FIRST_ARRAY].data
        else:
            return "<outside of memory>"
        try:
            view: Any = np.ndarray(tuple(shape), dtype, np.frombuffer(data, np.uint8), offset, tuple(strides))
            return view.copy()
        except (ValueError, TypeError):
            return "<outside of memory>"


def _width(how: Shown) -> int:
    """Return the number of values that a variable shows."""
    match how.kind:
        case "number":
            return 1
        case "complex":
            return 2
        case "tuple":
            return sum(map(_width, how.what))
        case "array":
            return 1 + 2 * how.dimensions
    return 0


def _value(how: Shown, bits: Iterator[int], memory: _Memory) -> Any:
    """Return the variable's value from the shown values."""
    match how.kind:
        case "number":
            return _number(how.what, next(bits))
        case "complex":
            return how.what.type(complex(_float(next(bits)), _float(next(bits))))
        case "tuple":
            return tuple(_value(item, bits, memory) for item in how.what)
        case "array":
            address = next(bits)
            shape, strides = ([_to_signed(next(bits)) for _ in range(how.dimensions)] for _ in range(2))
            return memory.array(address, how.what, shape, strides)
    return how.what


def _to_signed(bits: int) -> int:
    return bits - (1 << 64) if bits >> 63 else bits


def _float(bits: int) -> float:
    return float(struct.unpack("<d", struct.pack("<Q", bits))[0])


def _number(dtype: np.dtype[Any], bits: int) -> Any:
    if dtype.kind == "f":
        return dtype.type(_float(bits))
    return dtype.type(bits if dtype.kind == "u" else _to_signed(bits))


def _axes(index: int, extents: tuple[int, int, int]) -> str:
    place = index % extents[0], index // extents[0] % extents[1], index // (extents[0] * extents[1])
    return str(place[0]) if extents[1:] == (1, 1) else str(place)


def linear(text: str, extents: tuple[int, int, int], what: str) -> int:
    """Return the linear number of a thread or CTA written as `3` or `1,2,0`; raise UsageError if it does not exist."""
    try:
        x, y, z = (*(int(part) for part in text.strip("()").split(",")), 0, 0)[:3]
    except ValueError:
        raise UsageError(f"{what} `{text}`: write its index, `3` or `1,2,0`") from None
    if not (0 <= x < extents[0] and 0 <= y < extents[1] and 0 <= z < extents[2]):
        raise UsageError(f"{what} {text} does not exist: the launch has {' x '.join(map(str, extents))}")
    return x + extents[0] * (y + extents[1] * z)


def _line() -> str:
    sys.stdout.flush()
    return input("(wsemu) ")


@dataclass(slots=True)
class Debugger:
    """The debugger of a program's launches: it steps through the selected launches, then lets each of them run."""

    wanted: Callable[[Any], bool]
    cta: str = "0"
    thread: str = "0"
    breakpoints: frozenset[int] = frozenset()
    waits: str = "s"
    read: Callable[[], str] = _line
    write: Callable[[str], object] = print
    sessions: int = 0
    session: Callable[..., Session] = Session
    points: Breakpoints = field(init=False)
    lines: set[int] = field(default_factory=set)
    """lines at which a thread can stop, of all kernels"""

    def __post_init__(self) -> None:
        self.points = Breakpoints.at_lines(self.breakpoints)

    def __call__(
        self, kernel: Any, configuration: LaunchConfiguration, arguments: Sequence[Any], run: Callable[[], Any]
    ) -> Any:
        if not isinstance(kernel, Code) and hasattr(kernel, "py_func") and self.wanted(kernel):
            self.sessions += 1
            self.step(kernel, configuration, arguments)
        return run()

    def step(self, kernel: Any, configuration: LaunchConfiguration, arguments: Sequence[Any]) -> None:
        """Run one session."""
        arguments = as_declared(kernel, arguments)
        function = kernel.py_func
        names = function.__code__.co_varnames[: function.__code__.co_argcount]
        types = tuple(argument_type(value, name) for name, value in zip(names, arguments, strict=True))
        made = compile_kernel(
            function,
            types,
            fma=settings.current().fma,
            debug=bool(kernel.options.get("debug")),
            stepping=True,
            link=linked_files(kernel),
        )

        def begin() -> tuple[Any, Any]:
            named = [
                entry._replace(array=entry.array.copy()) if entry.live else entry
                for entry in made.program.constant_arrays
            ]
            rows, memory, _ = bind(replace(made.program, constant_arrays=named), _copy_arguments(arguments), names)
            return rows, memory.segments

        session = self.session(
            made.program, configuration, begin, self.read, self.write,
            linear(self.cta, configuration.grid, "CTA"), linear(self.thread, configuration.block, "thread"),
            self.points, self.waits,
        )  # fmt: skip
        self.lines |= session.list_lines()
        session.run()

    def describe_missing_lines(self) -> list[str]:
        """Return a sentence for each requested line at which no kernel that ran has code."""
        missing = sorted(self.breakpoints - self.lines) if self.lines else ()
        return [describe_missing(line, self.lines) for line in missing]


def describe_missing(line: int, lines: Iterable[int]) -> str:
    """Return a sentence about a line without code, with the nearest lines that have code."""
    before = [max(below)] if (below := [n for n in lines if n < line]) else []
    behind = [min(above)] if (above := [n for n in lines if n > line]) else []
    near = " and ".join(map(str, (*before, *behind)))
    return f"no code of a kernel is at line {line}: the nearest line{'s' * (len(near.split()) > 1)} with code: {near}"


def _copy_arguments(arguments: Sequence[Any]) -> tuple[Any, ...]:
    """Return the arguments with separate copies of their arrays, even if arguments share memory."""
    return tuple(
        np.array(value, order="K") if isinstance(value, np.ndarray)
        else _copy_arguments(value) if type(value) is tuple else value
        for value in arguments
    )  # fmt: skip
