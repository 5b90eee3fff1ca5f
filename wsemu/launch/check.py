"""Check a launch: from a kernel, a launch shape and arguments to a `Report`.

compile (`compiled`)  ->  bind, run (`running`)  ->  judge (`run_and_judge`, `verdict`, checkers)  ->  Report
"""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import TYPE_CHECKING, Any

from wsemu.launch import passed
from wsemu.launch.arguments import captured_arrays, prepare_arguments, unwritten
from wsemu.launch.binding_again import Binding
from wsemu.launch.code import Code
from wsemu.launch.compiled import compile_for_types
from wsemu.launch.examined import run_and_judge
from wsemu.launch.hooks import (
    Ready,
    admitting,
    around,
    finished,
    keeping,
    observers,
    passed_over,
    refused,
    traceable,
    undecided,
)
from wsemu.launch.hypothesis_example import leaving_out_launch
from wsemu.launch.result import CheckFailed
from wsemu.model import settings
from wsemu.model.codes import checkers_named, finding_codes
from wsemu.model.data import replace
from wsemu.model.device_array import device_offset
from wsemu.model.errors import UnsupportedError, UsageError, WsemuError, check_int, hide_internal_frames
from wsemu.model.file_names import short
from wsemu.model.isa import FIRST_ARRAY
from wsemu.model.launch_shape import configure
from wsemu.model.own import is_own
from wsemu.model.program import TOO_DEEP, Span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from wsemu.evidence.places import Places
    from wsemu.launch.compiled import Compiled
    from wsemu.launch.examined import Examined
    from wsemu.launch.kernel import Launchable
    from wsemu.launch.result import Report
    from wsemu.launch.second_way import Way
    from wsemu.model.device_memory import DeviceMemory
    from wsemu.model.finding import Finding
    from wsemu.model.launch_shape import LaunchConfiguration, Size
    from wsemu.model.program import Program
    from wsemu.model.settings import Settings


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
    corners: bool | None = None,
    fail_on: Iterable[str] | None = None,
    uninitialized: Iterable[str] = (),
    cluster: int | tuple[int, ...] | None = None,
    sms: int | None = None,
    clc: settings.Assignment | None = None,
    ranks: int | None = None,
    heap: int | None = None,
    effort: int | None = None,
    memory: DeviceMemory | None = None,
) -> Report:
    """Run `kernel[grid, block](*args)` on the emulator with all checks, and return the report; the arrays in `args` are
    used in place.

    Launch: `grid` counts CTAs, `block` threads (an int or up to three); `dynamic_shared` is in bytes.  `cluster` counts
    the CTAs of a cluster (an int or up to three), which divides the grid; without it each CTA is its own cluster.
    `memory` is a `DeviceMemory` to launch in: numbers that are addresses in it, in arguments or in memory, are
    pointers.  `uninitialized` names array arguments whose contents count as uninitialized.

    Target: `arch` selects the limits and the memory cost model.  `sms` is the number of multiprocessors of the GPU, for
    CTAs that must be co-resident (`Report.residency`).  `clc` selects which clusters take over the work of canceled
    ones.  With "robin", all running clusters take turns.  With "one", the first cluster takes all of them in order, and
    with "reverse" from the last one on.  `ranks` is the number of GPUs of one host that share the CTAs; `.gpu` scope
    then covers only one of them.  `heap` is the number of bytes that kernels may allocate (`malloc`,
    cudaLimitMallocHeapSize).  `lockstep` runs the lanes of a warp together, as before sm_70.  `fma` contracts a * b + c
    as the compiler does.  `mma` is "hardware" or "exact": sums of matrix instructions as the tensor cores of `arch`
    compute them, or rounded once.

    Checks: `checkers` are the enabled ones (names of `codes.CHECKERS` or finding codes; default: all).  `fail_on` lists
    codes of warnings that count as errors.  `strict` adds notes on correct code that looks like a mistake (several
    lanes of one store that write the same value).  `every` reports which other launches a verified one covers
    (`Report.scope`).  `corners` runs only representative CTAs of a large grid, if they provably cover all; the arrays
    then contain only what the representatives stored.

    Effort: `budget` is in warp instructions.  `effort` multiplies the limits of two searches, beyond which a launch is
    `incomplete`: the number of explored interleavings of atomics, and the number of instructions through which
    undefined values are followed.  `engine` is "vm" or the slow "reference"; `workers` threads share the CTAs.

    Raise UsageError or KernelError for an invalid call or source.  A launch that needs something that is not modeled is
    `incomplete` and does not run; the report's notes name the location and the remedy.
    """
    chosen = _override_settings(
        fma=fma, mma=mma, sms=sms, clc=clc, ranks=ranks, heap=heap, effort=effort, budget=budget, engine=engine,
        lockstep=lockstep, strict=strict, every=every, corners=corners,
        checkers=None if checkers is None else checkers_named(_names(checkers, "checkers")),
        fail_on=None if fail_on is None else finding_codes(_names(fail_on, "fail_on")),
    )  # fmt: skip
    if workers is not None:
        check_int(workers, "workers")
    configuration = configure(grid, block, 0, dynamic_shared, cluster, arch=arch)
    return _examine_or_give_up(kernel, configuration, args, chosen, workers, uninitialized, memory)


def _examine_or_give_up(
    kernel: Any,
    configuration: LaunchConfiguration,
    arguments: Sequence[Any],
    chosen: Settings,
    workers: int | None,
    uninitialized: Iterable[str],
    memory: DeviceMemory | None,
) -> Report:
    """Return the report of a launch; that of one that does not run, if it needs something that is not modeled."""
    try:
        blank = _names(uninitialized, "uninitialized")
        return examine(kernel, configuration, arguments, chosen, workers, blank, memory=memory)
    except UnsupportedError as error:
        report = not_run(kernel, configuration, _locate_error(error))
    for observer in observers:
        observer(report)
    return report


def _override_settings(**given: Any) -> Settings:
    """Return the current settings with the given values; None keeps the current one."""
    chosen = {name: value for name, value in given.items() if value is not None}
    return replace(settings.current(), **chosen) if chosen else settings.current()


def _names(given: Iterable[str], parameter: str) -> tuple[str, ...]:
    """Return names as a tuple; raise UsageError for a bare string, which is probably a mistake."""
    if isinstance(given, str):
        raise UsageError(f'{parameter}="{given}" is a string: give a list, `{parameter}=["{given}"]`')
    return tuple(given)


def not_run(kernel: Any, configuration: LaunchConfiguration, error: UnsupportedError) -> Report:
    """Return the report of a launch that did not run, because it needs something that is not modeled."""
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


def _locate_error(error: UnsupportedError) -> UnsupportedError:
    """Return the error with a location: in the kernel, or else the launching line, which is the innermost one outside
    of wsemu."""
    frame = sys._getframe()
    while error.span is None and frame.f_back is not None:
        frame = frame.f_back
        if not is_own(frame.f_code.co_filename) and os.path.isfile(frame.f_code.co_filename):
            line, end, column, end_column = [*frame.f_code.co_positions()][frame.f_lasti // 2]
            line = line or frame.f_lineno
            error.span = Span(frame.f_code.co_filename, line, column or 0, end or line, end_column or 0)
    return error


def launch(
    kernel: Any, configuration: LaunchConfiguration, arguments: Sequence[Any], memory: DeviceMemory | None = None
) -> None:
    """Implement `kernel[grid, block](*arguments)`: check the launch, notify the observers, and raise CheckFailed on an
    error.  The launch runs in the device `memory` if there is one.

    Raise UnsupportedError for an unsupported feature unless a hook handles the launch: otherwise the program would
    continue with arrays that the launch should have written.
    """
    chosen = settings.current()
    if not chosen.wants(kernel.__name__):
        chosen = replace(chosen, checkers=frozenset())
        passed_over[kernel.__name__] = None
    elif not all(admits(kernel.__name__) for admits in admitting):
        chosen = replace(chosen, checkers=frozenset(), kernels=settings.NO_KERNELS)

    raised: list[BaseException] = []

    def run() -> Report:
        return examine(kernel, configuration, arguments, chosen, raised=raised, memory=memory)

    try:
        report = around[-1](kernel, configuration, arguments, Ready(run, memory)) if around else run()
    except WsemuError as error:
        if isinstance(error, UnsupportedError):
            _locate_error(error)
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
        for note in undecided or (_tell_incomplete,):
            note(report)


_told: set[tuple[str, ...]] = set()
"""reasons that `_tell_incomplete` has reported in this process"""


def _tell_incomplete(report: Report) -> None:
    """Print a line on standard error for an `incomplete` launch, once for each reason, unless an observer reports
    it."""
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
    memory: DeviceMemory | None = None,
) -> Report:
    """Run a launch and return its report.  `more` performs additional checks of this launch; `raised` receives
    exceptions of threads."""
    try:
        with leaving_out_launch():
            return _examine(kernel, configuration, arguments, chosen, workers, uninitialized, more, raised, memory)
    except MemoryError:
        size = sum(getattr(value, "nbytes", 0) for value in arguments)
        raise UsageError(
            f"`{kernel.__name__}` with {size:,} bytes of arrays takes more memory than there is: use smaller arrays "
            "or a smaller grid"
        ) from None


def _examine(
    kernel: Any,
    configuration: LaunchConfiguration,
    arguments: Sequence[Any],
    chosen: Settings,
    workers: int | None,
    uninitialized: tuple[str, ...],
    more: Callable[[Places], list[Finding]] | None,
    raised: list[BaseException] | None,
    memory: DeviceMemory | None,
) -> Report:
    """Run a launch and return its report; the caller handles MemoryError."""
    binding, arguments = _prepare(kernel, configuration, arguments, chosen, uninitialized, memory)
    fresh = unwritten(kernel, arguments)
    blank = (*uninitialized, *fresh)
    done: Examined | None = None
    try:
        made = _compile_python(kernel, arguments, chosen)
        way = None if made is None else _unlimited_depth_code(kernel, arguments, chosen, made.program)
        if way is None:
            done = run_and_judge(kernel, configuration, arguments, chosen, workers, blank, more, memory, binding, made)
    except UnsupportedError as error:
        way = _second_way(kernel, arguments, chosen, error)
        if way is None:
            raise
    if done is None:
        assert way is not None
        return _examine(way.kernel, configuration, way.arguments, chosen, workers, uninitialized, more, raised, memory)
    _write_output(done, raised)
    named = captured_arrays(done.bound.program)
    report = _enter_written(done.report, done, fresh)
    if report.verdict == "failed" and more is None and memory is None:
        from wsemu.launch.leftover import name_leftover

        report = name_leftover(report, kernel, arguments, done)
    for array in named:
        array.blank = False
    if more is None:
        _keep_launch(report, kernel, arguments, blank, named, done, memory)
    if memory is not None:
        memory.enter_written(done.places.outcome.written, done.bound.uninitialized)
        if done.places.outcome.status != "done":
            memory.mark_all_written()
    _notify(report, kernel, chosen, done, memory)
    return report


def _prepare(
    kernel: Any,
    configuration: LaunchConfiguration,
    arguments: Sequence[Any],
    chosen: Settings,
    uninitialized: tuple[str, ...],
    memory: DeviceMemory | None,
) -> tuple[Binding | None, Sequence[Any]]:
    """Return the binding that equal launches in a device memory share, and the arguments as the kernel declares
    them."""
    if memory is None or not isinstance(kernel, Code):
        return None, prepare_arguments(kernel, arguments)
    binding = None if uninitialized else Binding(kernel, configuration, arguments, chosen, memory)
    if binding is not None and binding.arguments is not None:
        return binding, binding.arguments
    return binding, kernel.with_pointers(prepare_arguments(kernel, arguments), memory)


def _keep_launch(
    report: Report,
    kernel: Any,
    arguments: Sequence[Any],
    blank: tuple[str, ...],
    named: list[Any],
    done: Examined,
    memory: DeviceMemory | None,
) -> None:
    """Keep what is needed to run a launch again: for its report, for observers, and for edits that are tried later."""
    helped = report.findings if memory is None else report.errors  # only errors justify a copy of the memory
    if helped or (keeping and memory is None):
        from wsemu.launch.attempts import Launched

        launched = Launched.of(kernel, arguments, blank, named, done)
        report._launched = launched if helped else None
        if launched is not None and memory is None:
            for keep in keeping:
                keep(report, launched)
    if report.verdict == "verified" and done.initial is not None and memory is None:
        passed.keep(kernel, arguments, blank, named, done)


def _notify(report: Report, kernel: Any, chosen: Settings, done: Examined, memory: DeviceMemory | None) -> None:
    """Keep the program of a launch, and pass its report to the observers."""
    is_done = done.places.outcome.status == "done"
    unwanted = is_done and not chosen.wants(report.kernel)
    ended = is_done or report.verdict == "verified"  # its initial run may be cut off
    keeps_later = memory is not None and finished and ended and not unwanted  # its session keeps more results
    if isinstance(kernel, Code) and not keeps_later:
        kernel.keep(done.bound.program)
    if unwanted:
        return
    for look in traceable:
        look(report, done.places, done.trace)
    for observer in observers:
        observer(report)
    if ended:
        for enter in finished:
            enter(done.bound, done.places, done.trace)


def _enter_written(report: Report, done: Examined, fresh: dict[str, Any]) -> Report:
    """Mark the bytes of device arrays that are initialized after a launch, and give reads of bytes that earlier
    launches left uninitialized a code of their own."""
    bound, outcome = done.bound, done.places.outcome
    of_name = {array.name: array for array in bound.arrays}
    left = {name for name, array in fresh.items() if getattr(array, "written", None) and array.written.launched}
    for name, array in fresh.items():
        marks = outcome.written.get(of_name[name].segment) if name in of_name else None
        if marks is None or outcome.status != "done" or report.verdict == "failed":
            array.blank = False
            continue
        offset, size = device_offset(array, bound.segments[of_name[name].segment - FIRST_ARRAY][0])
        array.written.enter(marks, offset, size)
        array.written.launched = True
    if not left or not any(one.code == "uninitialized-read" for one in report.findings):
        return report
    findings = [
        one.model_copy(update={"code": "uninitialised-device-read"})
        if one.code == "uninitialized-read" and any(site.array in left for site in one.places) else one
        for one in report.findings
    ]  # fmt: skip
    return report.model_copy(update={"findings": findings})


def _compile_python(kernel: Any, arguments: Sequence[Any], chosen: Settings) -> Compiled | None:
    """Return the program of a Python kernel whose recursive functions may have no depth limit as PTX; None for other
    kernels."""
    if not chosen.numba_ptx or isinstance(kernel, Code) or not hasattr(kernel, "py_func"):
        return None
    return compile_for_types(kernel, arguments, chosen.fma)


def _unlimited_depth_code(kernel: Any, arguments: Sequence[Any], chosen: Settings, program: Program) -> Way | None:
    """Return the Numba-CUDA PTX of a kernel with recursive functions, which has no depth limit; None if it cannot be
    compiled."""
    why = next((trap for trap in program.traps if trap.startswith(TOO_DEEP)), None)
    return None if why is None else _second_way(kernel, arguments, chosen, UnsupportedError(why))


def _second_way(kernel: Any, arguments: Sequence[Any], chosen: Settings, error: UnsupportedError) -> Way | None:
    """Return the kernel and its arguments in the form of Numba-CUDA's PTX, if that is requested and possible."""
    if not chosen.numba_ptx or isinstance(kernel, Code) or importlib.util.find_spec("numba_cuda") is None:
        return None
    from wsemu.launch.second_way import open_to

    return open_to(kernel, arguments, error)


def _write_output(done: Examined, raised: list[BaseException] | None) -> None:
    """Write the output of the threads; record their exceptions for the host."""
    program = done.bound.program
    if not program.prints and not program.raises:
        return
    from wsemu.launch import thread_output

    thread_output.show(done.bound, done.trace)
    error = thread_output.exception(done.bound, done.places.outcome)
    if error is not None and raised is not None:
        raised.append(error)
