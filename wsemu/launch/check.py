"""Composition: a kernel, a launch shape and arguments in; a `Report` out.

compile (frontend)  ->  bind (binding)  ->  run (execution or reference)  ->  judge (verdict, checkers)  ->  Report
"""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
import time
import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wsemu.evidence.places import Places
from wsemu.launch.hooks import around, keeping, observers, passed_over, refused, starting, traceable
from wsemu.launch.kernel import CodeKernel
from wsemu.launch.result import CheckFailed
from wsemu.model import settings
from wsemu.model.bound import Bound, BoundArray
from wsemu.model.codes import checkers_named, finding_codes
from wsemu.model.data import replace
from wsemu.model.errors import UnsupportedError, UsageError, WsemuError, check_int, hide_internal_frames
from wsemu.model.file_names import short
from wsemu.model.isa import SEGMENT_SHIFT
from wsemu.model.launch_shape import LaunchConfiguration, configure
from wsemu.model.limits import LATEST, limits
from wsemu.model.own import is_own
from wsemu.model.program import Program, Span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from wsemu.launch.explore.orders import Orders
    from wsemu.launch.kernel import Launchable
    from wsemu.launch.result import Report
    from wsemu.launch.second_way import Way
    from wsemu.model.finding import Finding
    from wsemu.model.launch_shape import Size
    from wsemu.model.outcome import Outcome, Tracer
    from wsemu.model.settings import Settings


class Compiled(NamedTuple):
    """A kernel compiled for argument types."""

    program: Program
    names: tuple[str, ...]
    notes: tuple[str, ...]


_cache: weakref.WeakKeyDictionary[Any, dict[Any, Compiled]] = weakref.WeakKeyDictionary()


def compiled(kernel: Any, arguments: Sequence[Any], fma: bool) -> Compiled:
    """The program of `kernel` for arguments of these types; compiled once, as Numba does (globals are frozen then)."""
    if isinstance(kernel, CodeKernel):
        return Compiled(kernel.program(arguments, fma), kernel.names(arguments), kernel.notes)
    from wsemu.frontend.python.compile import argument_type

    function = getattr(kernel, "py_func", kernel)
    if getattr(function, "__code__", None) is None:
        raise UsageError(f"`{kernel!r}` is no kernel: give a function decorated with `@cuda.jit`")
    names = _match_arguments(kernel, arguments)
    types = tuple(argument_type(value, name) for name, value in zip(names, arguments, strict=True))
    programs = _cache.setdefault(function, {})
    key = (types, fma, getattr(kernel, "registers", 0), _debug(kernel))
    result = programs.get(key)
    if result is None:
        result = programs[key] = compiled_anew(kernel, arguments, fma)
    return result


def compiled_anew(kernel: Any, arguments: Sequence[Any], fma: bool) -> Compiled:
    """The program of a Python function for arguments of these types, from its source as it reads now."""
    from wsemu.frontend.python.compile import argument_type, compile_kernel

    names = _match_arguments(kernel, arguments)
    types = tuple(argument_type(value, name) for name, value in zip(names, arguments, strict=True))
    registers = getattr(kernel, "registers", 0)
    function = getattr(kernel, "py_func", kernel)
    made = compile_kernel(function, types, fma=fma, registers=registers, debug=_debug(kernel))
    return Compiled(made.program, names, tuple(made.notes))


def _debug(kernel: Any) -> bool:
    """Whether a kernel was made with `debug=True`."""
    return bool(getattr(kernel, "options", {}).get("debug"))


def _match_arguments(kernel: Any, arguments: Sequence[Any]) -> tuple[str, ...]:
    """The names of the parameters; UsageError where the arguments are too many or too few."""
    if isinstance(kernel, CodeKernel):
        return kernel.names(arguments)
    function = getattr(kernel, "py_func", kernel)
    code = function.__code__
    names: tuple[str, ...] = code.co_varnames[: code.co_argcount]
    name = function.__name__
    if len(arguments) < len(names):
        raise UsageError(
            f"`{name}` got {len(arguments)} of {len(names)} arguments: missing `{'`, `'.join(names[len(arguments) :])}`"
        )
    if len(arguments) > len(names):
        raise UsageError(f"`{name}` takes {len(names)} arguments ({', '.join(names)}), not {len(arguments)}")
    return names


@hide_internal_frames
def check(
    kernel: Launchable | Callable[..., object],
    grid: Size,
    block: Size,
    args: Sequence[Any] = (),
    *,
    arch: str | None = None,
    dynamic_shared: int = 0,
    fma: bool | None = None,
    mma: settings.Sums | None = None,
    budget: int | None = None,
    engine: settings.Engine | None = None,
    workers: int | None = None,
    checkers: Iterable[str] | None = None,
    lockstep: bool | None = None,
    strict: bool | None = None,
    every: bool | None = None,
    fail_on: Iterable[str] | None = None,
    uninitialized: Iterable[str] = (),
    cluster: int | tuple[int, ...] | None = None,
) -> Report:
    """Run `kernel[grid, block](*args)` on the emulator and report what was found; the arrays in `args` are used
    in place.

    `grid` counts CTAs, `block` threads (an int or up to three); `dynamic_shared` is in bytes; `arch` names the limits
    and the memory cost model that hold; `fma` contracts a * b + c as the compiler does; `mma` is "hardware" or "exact":
    sums of matrix instructions as the tensor cores of `arch` make them, or rounded once; `budget` is in warp
    instructions; `engine` is "vm" or the slow "reference"; `workers` threads share the CTAs.
    `checkers` are those that look (names of `codes.CHECKERS` or finding codes; default: all), `lockstep` says that the
    lanes of a warp run together as before sm_70, `strict` asks for notes on what is right and looks like a mistake
    (several lanes of one store that write the same value), `every` asks for which other launches a verified one speaks
    (`Report.scope`), `fail_on` has the codes of warnings that count as errors,
    and `uninitialized` the names of array arguments whose contents count as not yet written.  `cluster` counts the CTAs
    of a cluster (an int or up to three), which divides the grid; without it a CTA is a cluster of its own.
    UsageError and KernelError say what is wrong with the call or the source.  A launch that needs what is not modelled
    is `incomplete` and does not run; the report's notes have the place and the remedy.
    """
    given: dict[str, Any] = {
        "fma": fma,
        "mma": mma,
        "budget": budget,
        "engine": engine,
        "lockstep": lockstep,
        "strict": strict,
        "every": every,
        "checkers": None if checkers is None else checkers_named(_names(checkers, "checkers")),
        "fail_on": None if fail_on is None else finding_codes(_names(fail_on, "fail_on")),
    }
    chosen = replace(settings.current(), **{name: value for name, value in given.items() if value is not None})
    if workers is not None:
        check_int(workers, "workers")
    configuration = configure(grid, block, 0, dynamic_shared, cluster, arch=arch)
    try:
        return examine(kernel, configuration, args, chosen, workers, _names(uninitialized, "uninitialized"))
    except UnsupportedError as error:
        report = not_run(kernel, configuration, _located(error))
    for observer in observers:
        observer(report)
    return report


def not_run(kernel: Any, configuration: LaunchConfiguration, error: UnsupportedError) -> Report:
    """The report of a launch that needs what is not modelled."""
    from wsemu.launch.result import Report

    place = f"{short(error.span.file)}:{error.span.line}: " if error.span else ""
    what = error.message if "not modelled" in error.message else f"{error.message}: not modelled"
    remedy = f" (help: {error.remedy})" if error.remedy else ""
    return Report(
        kernel=kernel.__name__,
        grid=configuration.grid,
        block=configuration.block,
        verdict="incomplete",
        arch=configuration.arch,
        dynamic_shared=configuration.dynamic_shared,
        notes=[f"{place}{what}{remedy}", "it was not run: its arrays are as they were"],
        reasons=[error.subject],
    )


def _located(error: UnsupportedError) -> UnsupportedError:
    """The error with a place: where it has none in a kernel, the innermost line outside of wsemu, which launches."""
    frame = sys._getframe()
    while error.span is None and frame.f_back is not None:
        frame = frame.f_back
        if not is_own(frame.f_code.co_filename) and os.path.isfile(frame.f_code.co_filename):
            line, end, column, end_column = [*frame.f_code.co_positions()][frame.f_lasti // 2]
            line = line or frame.f_lineno
            error.span = Span(frame.f_code.co_filename, line, column or 0, end or line, end_column or 0)
    return error


def as_declared(kernel: Any, arguments: Sequence[Any]) -> Sequence[Any]:
    """The arguments as the signatures of the kernel, or its code, want them."""
    if isinstance(kernel, CodeKernel):
        return kernel.fit(arguments)
    declared = getattr(kernel, "declared", ())
    if not declared:
        return arguments
    from wsemu.language.signatures import fit

    return fit(declared, arguments, kernel.__name__, _match_arguments(kernel, arguments))


def _names(given: Iterable[str], parameter: str) -> tuple[str, ...]:
    """Names as a tuple; a bare string is taken for a mistake."""
    if isinstance(given, str):
        raise UsageError(f'{parameter}="{given}" is a string: give a list, `{parameter}=["{given}"]`')
    return tuple(given)


def launch(kernel: Any, configuration: LaunchConfiguration, arguments: Sequence[Any]) -> None:
    """What `kernel[grid, block](*arguments)` does: check, tell the observers, or raise CheckFailed on an error.

    What is not modelled raises UnsupportedError where nobody answers for it: the program would go on with arrays that
    the launch should have written.
    """
    chosen = settings.current()
    if not chosen.wants(kernel.__name__):
        chosen = replace(chosen, checkers=frozenset())
        passed_over[kernel.__name__] = None

    raised: list[BaseException] = []

    def run() -> Report:
        return examine(kernel, configuration, arguments, chosen, raised=raised)

    try:
        report = around[-1](kernel, configuration, arguments, run) if around else run()
    except WsemuError as error:
        if isinstance(error, UnsupportedError):
            _located(error)
        answers = [tell(kernel, configuration, error) for tell in refused]
        if not any(answers):
            raise
        return
    if raised:
        raise raised[0]
    if observers:
        return
    if report.verdict == "failed":
        raise CheckFailed(report)
    if report.verdict == "incomplete" and chosen.wants(report.kernel):
        _tell_incomplete(report)


_told: set[tuple[str, ...]] = set()
"""what `_tell_incomplete` has said in this process"""


def _tell_incomplete(report: Report) -> None:
    """One line on standard error for a launch of which nothing is proved, where nobody else tells of it; said once."""
    what = report.kernel, *report.reasons
    if what not in _told and sys.stderr is not None:
        _told.add(what)
        why = ", ".join(report.reasons)
        print(f"wsemu: `{report.kernel}` is incomplete ({why}): `wsemu check` says why", file=sys.stderr)


def examine(
    kernel: Any,
    configuration: LaunchConfiguration,
    arguments: Sequence[Any],
    chosen: Settings,
    workers: int | None = None,
    uninitialized: tuple[str, ...] = (),
    more: Callable[[Places], list[Finding]] | None = None,
    raised: list[BaseException] | None = None,
) -> Report:
    """Run a launch and report; `more` looks for what only this launch should do, `raised` gets what a thread raises."""
    try:
        return _examine(kernel, configuration, arguments, chosen, workers, uninitialized, more, raised)
    except MemoryError:
        size = sum(getattr(value, "nbytes", 0) for value in arguments)
        raise UsageError(
            f"`{kernel.__name__}` with {size:,} bytes of arrays takes more memory than there is: use smaller arrays "
            "or a smaller grid"
        ) from None


def _compiling() -> float:
    """Seconds that this process has compiled parts of the VM: once per installation, and not a launch's own."""
    build = sys.modules.get("wsemu.machine.build")
    return build.seconds_spent() if build else 0.0


def _examine(
    kernel: Any,
    configuration: LaunchConfiguration,
    arguments: Sequence[Any],
    chosen: Settings,
    workers: int | None,
    uninitialized: tuple[str, ...],
    more: Callable[[Places], list[Finding]] | None,
    raised: list[BaseException] | None,
) -> Report:
    """The same, where memory suffices."""
    arguments = _arguments(kernel, arguments)
    unwritten = _unwritten(kernel, arguments)
    blank = (*uninitialized, *unwritten)
    try:
        done = examined(kernel, configuration, arguments, chosen, workers, blank, more)
    except UnsupportedError as error:
        way = _second_way(kernel, arguments, chosen, error)
        if way is None:
            raise
        return _examine(way.kernel, configuration, way.arguments, chosen, workers, uninitialized, more, raised)
    _tell(done, raised)
    report, places, trace = done.report, done.places, done.trace
    for name, value in zip(done.bound.names, arguments, strict=True):
        if name in unwritten:
            _memory(value).blank = False
    captured = [c.array for c in done.bound.program.constant_arrays if _is_blank(c.array)]
    for array in captured:
        array.blank = False  # type: ignore[attr-defined]
    if (report.findings or keeping) and more is None and not isinstance(kernel, CodeKernel):
        from wsemu.launch.attempts import Launched

        launched = Launched.of(kernel, arguments, blank, captured, done)
        report._launched = launched if report.findings else None
        for keep in keeping:
            if launched is not None:
                keep(report, launched)
    if places.outcome.status == "done" and not chosen.wants(report.kernel):
        return report  # nobody asked for it, and it did what others need
    for look in traceable:
        look(report, places, trace)
    for observer in observers:
        observer(report)
    return report


def _second_way(kernel: Any, arguments: Sequence[Any], chosen: Settings, error: UnsupportedError) -> Way | None:
    """The kernel and its arguments as Numba-CUDA's PTX takes them, where that is wanted and can be."""
    if not chosen.numba_ptx or isinstance(kernel, CodeKernel) or importlib.util.find_spec("numba_cuda") is None:
        return None
    from wsemu.launch.second_way import open_to

    return open_to(kernel, arguments, error)


def _tell(done: Examined, raised: list[BaseException] | None) -> None:
    """Write what the threads print; keep what they raise for the host."""
    program = done.bound.program
    if not program.prints and not program.raises:
        return
    from wsemu.launch import thread_output

    thread_output.show(program, done.trace)
    error = thread_output.exception(done.bound, done.places.outcome)
    if error is not None and raised is not None:
        raised.append(error)


class Examined(NamedTuple):
    """A launch that ran, and what was found."""

    bound: Bound
    places: Places
    trace: Tracer
    report: Report
    before: list[Any]
    """the bytes of each segment before it, None where they were not kept; of a launch with findings"""


def examined(
    kernel: Any,
    configuration: LaunchConfiguration,
    arguments: Sequence[Any],
    chosen: Settings,
    workers: int | None,
    uninitialized: tuple[str, ...],
    more: Callable[[Places], list[Finding]] | None = None,
) -> Examined:
    """Run a launch, of arguments as the kernel declares them, and judge it; nobody is told."""
    from wsemu.launch.binding import address_rows
    from wsemu.launch.explore.orders import Orders

    started = time.perf_counter() - _compiling()
    bound, notes = bind_launch(kernel, configuration, arguments, chosen, uninitialized)
    for start in starting:
        start(bound)
    orders = Orders(bound, address_rows(bound.program, bound.rows, bound.names, bound.arrays))
    run = ran(bound, workers, orders.patience())
    if orders.goes_on(run[0], run[2]):
        run = ran(bound, workers)
    return judged(kernel, bound, notes, run, started, more, orders)


Ran = tuple["Outcome", "Tracer", "Callable[[], list[Any]]"]
"""the outcome, how to get a trace of the same run with the executions of some instructions, and how to get what the
arrays held before"""


def judged(
    kernel: Any,
    bound: Bound,
    notes: tuple[str, ...],
    run: Ran,
    started: float,
    more: Callable[[Places], list[Finding]] | None = None,
    orders: Orders | None = None,
) -> Examined:
    """A launch that ran, with its report; `started` is when it began (perf_counter), less what was spent compiling;
    `orders` decide what one run does not."""
    from wsemu.evidence.fingerprint import inputs
    from wsemu.launch.binding import address_rows
    from wsemu.launch.verdict import judge

    outcome, trace, initial = run
    program, configuration = bound.program, bound.configuration
    rows = address_rows(program, bound.rows, bound.names, bound.arrays)
    places = Places(program, configuration.grid, configuration.block, outcome, bound.arrays, rows)
    decide = None
    if orders is not None:
        decide = functools.partial(orders.decide, places, initial)
    report = judge(configuration, places, notes, trace, bound.settings, started + _compiling(), more, decide)
    if bound.settings.every:
        from wsemu.launch.every import extended

        report = extended(report, places, bound, functools.partial(_again, initial=initial()))
    if isinstance(kernel, CodeKernel) and kernel.is_cuda:
        from wsemu.launch.words import in_cuda

        report = in_cuda(report, {span.file for span in program.spans})
    before = initial() if report.findings or keeping else []
    if report.errors:
        report = report.model_copy(update={"inputs": inputs(bound, before)})
    return Examined(bound, places, trace, report, before)


def _again(bound: Bound, initial: Sequence[Any]) -> tuple[Report, Outcome]:
    """The launch once more, on copies of what its arrays held, as it is bound now."""
    from wsemu.launch.binding import address_rows
    from wsemu.launch.verdict import judge

    segments = [(np.array(data), writable) for data, (_, writable) in zip(initial, bound.segments, strict=True)]
    bound = bound._replace(segments=segments)
    outcome, trace, _ = ran(bound, None)
    program, configuration = bound.program, bound.configuration
    rows = address_rows(program, bound.rows, bound.names, bound.arrays)
    places = Places(program, configuration.grid, configuration.block, outcome, bound.arrays, rows)
    return judge(configuration, places, (), trace, bound.settings, time.perf_counter()), outcome


def _arguments(kernel: Any, arguments: Sequence[Any]) -> Sequence[Any]:
    """The arguments of a launch as the kernel wants them."""
    if isinstance(arguments, (str, bytes)) or not hasattr(arguments, "__len__"):
        raise UsageError(f"args is {type(arguments).__name__}: give a tuple of the kernel's arguments")
    return as_declared(kernel, _own_arrays(_extended(kernel, arguments)))


def _extended(kernel: Any, arguments: Sequence[Any]) -> Sequence[Any]:
    """The arguments as the kernel's `extensions` prepare them, the last extension first, as in Numba-CUDA."""
    extensions = getattr(kernel, "extensions", ())
    if not extensions:
        return arguments
    from numba import typeof

    prepared = list(arguments)
    for n, value in enumerate(prepared):
        type_: Any = typeof(value)
        for extension in reversed(extensions):
            type_, value = extension.prepare_args(type_, value, stream=0, retr=[])
        prepared[n] = value
    return tuple(prepared)


_PLAIN = (np.ndarray, int, float, bool)


def _own_arrays(arguments: Sequence[Any]) -> Sequence[Any]:
    """The arguments, with arrays of ours for those of other libraries, and for records."""
    if all(type(value) in _PLAIN for value in arguments):
        return arguments
    return tuple(map(_own_array, arguments))


def _own_array(value: Any) -> Any:
    """An argument as an array of ours, where it is one of another library; a record as that of its memory."""
    from wsemu.model.device_array import as_cuda_array, is_foreign, is_lent, lent_array, record_array

    if isinstance(value, np.void):
        return record_array(value)
    if is_foreign(value):
        return as_cuda_array(value)
    return lent_array(value) if is_lent(value) and not isinstance(value, np.generic) else value


def _unwritten(kernel: Any, arguments: Sequence[Any]) -> tuple[str, ...]:
    """The arguments that are device arrays which nothing has written yet."""
    blank = [_is_blank(value) for value in arguments]
    if not any(blank):
        return ()
    names = _match_arguments(kernel, arguments)
    return tuple(name for name, is_blank in zip(names, blank, strict=True) if is_blank)


def _memory(value: Any) -> Any:
    """The array of a tensor map, any other argument as it is."""
    return getattr(value, "mapped", value)


def _is_blank(value: Any) -> bool:
    return getattr(_memory(value), "blank", False) is True


def bind_launch(
    kernel: Any,
    configuration: LaunchConfiguration,
    arguments: Sequence[Any],
    chosen: Settings,
    uninitialized: tuple[str, ...] = (),
    made: Compiled | None = None,
) -> tuple[Bound, tuple[str, ...]]:
    """A launch ready to run, of the kernel as it is `made`, and what the front end has to say of it."""
    from wsemu.launch.binding import bind

    if check_int(chosen.budget, "budget") < 1:
        raise UsageError(f"budget of {chosen.budget:,} warp instructions: give 1 or more")
    source = None
    if isinstance(kernel, CodeKernel):
        kernel.admit(configuration)
        configuration = kernel.clustered(configuration)
        source = kernel.source()
    program, names, notes = made or compiled(kernel, arguments, chosen.fma)
    if chosen.mma != "hardware":
        program, more = _with_sums(program, chosen.mma)
        notes = (*notes, *more)
    _check_shared(program, configuration)
    if configuration.arch != LATEST:
        from wsemu.model.introduced import check_instructions

        check_instructions(program, configuration.arch)
    rows, memory, arrays = bind(program, arguments, names)
    unused = {name for name, value in zip(names, arguments, strict=True) if hasattr(value, "__array_interface__")}
    blank = _segments(uninitialized, arrays, unused - {array.name for array in arrays})
    blank |= {int(rows[c.row][1]) >> SEGMENT_SHIFT for c in program.constant_arrays if _is_blank(c.array)}
    return Bound(program, configuration, names, rows, memory.segments, arrays, blank, chosen, source), notes


def _with_sums(program: Program, wanted: str) -> tuple[Program, tuple[str, ...]]:
    """The program with sums of matrices as they are asked for, and what a report says of them."""
    from wsemu.model.sums import rounding_once

    if wanted != "exact":
        raise UsageError(f'no sums {wanted!r} of matrix instructions: mma="hardware" or mma="exact"')
    made = rounding_once(program)
    note = "sums of matrix instructions are rounded once (mma exact): those of a GPU may have other last bits"
    return made, () if made is program else (note,)


def _segments(names: tuple[str, ...], bound: list[BoundArray], unused: set[str]) -> frozenset[int]:
    """The segments of the arrays with these names; the kernel does nothing with `unused` ones, which have none."""
    known = {array.name: array.segment for array in bound}
    for name in names:
        if name not in known and name not in unused:
            arrays = ", ".join([*known, *sorted(unused)])
            raise UsageError(f"uninitialized names {name!r}: the kernel's arrays are {arrays or 'none'}")
    return frozenset(known[name] for name in names if name in known)


def ran(bound: Bound, workers: int | None, budget: int | None = None) -> Ran:
    """Run a launch; `budget`: another one than was asked for."""
    program, configuration, chosen = bound.program, bound.configuration, bound.settings
    launch_ = (program, configuration.grid, configuration.block, bound.rows, bound.segments)
    found: dict[str, Any] = {
        "races": bool(chosen.checkers & ({"race", "intra-warp"} | ({"proxy"} if program.asynchronous else set()))),
        "recycling": "recycling" in chosen.checkers,
        "initialised": "initialised" in chosen.checkers,
        "read_only": "read-only" in chosen.checkers,
        "lockstep": chosen.lockstep,
        "strict": chosen.strict or chosen.every,  # where several lanes store one value, other contents may differ
        "uninitialized": bound.uninitialized,
    }
    sizes: dict[str, Any] = {
        "dynamic_shared": configuration.dynamic_shared,
        "budget": budget or chosen.budget,
        "arch": configuration.arch,
    }
    if configuration.cluster != (1, 1, 1):
        sizes |= {"shape": configuration.cluster, "clusters": True}
    if chosen.engine == "vm":
        from wsemu.launch.binding import stored_segments
        from wsemu.machine.run import Launch, Watch

        watch = Watch(stored=stored_segments(program, bound.arrays), **found)
        spread = _workers(bound) if workers is None else workers
        options = {**sizes, "workers": spread, "descending": chosen.cta_order == "descending", "watch": watch}
        run = Launch(*launch_, **options)
        outcome = run.run()
        program.derived["work"] = outcome.warp_instructions // configuration.ctas
        return outcome, run.trace, run.initial
    if chosen.engine == "reference":
        from wsemu.model.outcome import Trace, TraceRequest
        from wsemu.reference import run as reference

        everything = TraceRequest(frozenset(range(len(program.code))))
        options = {**sizes, **found, "trace": everything}
        before = [data.copy() for data, _ in bound.segments]
        outcome = reference.run(*launch_, **options)
        whole = outcome.trace or Trace()
        return outcome, whole.part, lambda: before
    raise UsageError(f'no engine {chosen.engine!r}: "vm" or "reference"')


MUCH_WORK, MUCH_MEMORY = 400_000, 1 << 23
"""warp instructions, and bytes of arrays, of a launch whose CTAs are spread over the cores: some 20 ms"""


def _workers(bound: Bound) -> int | None:
    """How many cores share the CTAs of a launch that works much: as much as the kernel's last launch did, CTA by CTA,
    or where there was none, as large as its arrays are.  None: the engine decides, by the threads."""
    ctas = bound.configuration.ctas
    if ctas == 1:
        return None
    work = bound.program.derived.get("work")
    large = sum(data.nbytes for data, _ in bound.segments) >= MUCH_MEMORY if work is None else work * ctas >= MUCH_WORK
    if not large:
        return None
    from wsemu.machine.run import cores

    return min(cores(), ctas)


def _check_shared(program: Program, configuration: LaunchConfiguration) -> None:
    limit = limits(configuration.arch)
    static, dynamic = program.shared_bytes, configuration.dynamic_shared
    if static > limit.static_shared:
        arrays = ", ".join(f"`{a.name}`" for a in program.shared)
        raise UsageError(
            f"`{program.name}` declares {static:,} bytes of shared memory ({arrays}): at most "
            f"{limit.static_shared:,} on {configuration.arch}; make the arrays smaller, or use dynamic shared memory: "
            "`cuda.shared.array(0, dtype)`"
        )
    if static + dynamic > limit.shared:
        raise UsageError(
            f"{static:,} bytes of static and {dynamic:,} of dynamic shared memory: at most "
            f"{limit.shared:,} together on {configuration.arch}"
        )
