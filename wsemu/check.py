"""Composition: a kernel, a launch shape and arguments in; a `Report` out.

compile (frontend)  ->  bind (binding)  ->  run (execution or reference)  ->  explain (checkers)  ->  Report
"""

from __future__ import annotations

import time
import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

from wsemu import settings
from wsemu.bytecode import NAMES, OPERATIONS, Program
from wsemu.errors import CheckFailed, UsageError
from wsemu.finding import Counters, Finding, Report
from wsemu.kernel import LaunchConfiguration, configure
from wsemu.limits import limits
from wsemu.places import Places

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wsemu.outcome import Outcome, RawFinding

observers: list[Callable[[Report], None]] = []
"""called with the report of every launch; while there are any, a failed launch does not raise"""

PROOF = "deadlock-free in this schedule; races are not checked yet"
"""what a `verified` launch was shown to be"""


class Compiled(NamedTuple):
    """A kernel compiled for argument types."""

    program: Program
    names: tuple[str, ...]
    notes: tuple[str, ...]


_cache: weakref.WeakKeyDictionary[Any, dict[Any, Compiled]] = weakref.WeakKeyDictionary()


def compiled(kernel: Any, arguments: Sequence[Any], fma: bool) -> Compiled:
    """The program of `kernel` for arguments of these types; compiled once, as Numba does (globals are frozen then)."""
    from wsemu.frontend.python import argument_type, compile_kernel

    function = getattr(kernel, "py_func", kernel)
    if getattr(function, "__code__", None) is None:
        raise UsageError(f"`{kernel!r}` is no kernel: give a function decorated with `@cuda.jit`")
    names = _match_arguments(function, arguments)
    types = tuple(argument_type(value, name) for name, value in zip(names, arguments, strict=True))
    programs = _cache.setdefault(function, {})
    key = (types, fma)
    result = programs.get(key)
    if result is None:
        made = compile_kernel(function, types, fma=fma)
        result = programs[key] = Compiled(made.program, names, tuple(made.notes))
    return result


def _match_arguments(function: Any, arguments: Sequence[Any]) -> tuple[str, ...]:
    code = function.__code__
    names: tuple[str, ...] = code.co_varnames[: code.co_argcount]
    name = function.__name__
    if len(arguments) < len(names):
        raise UsageError(
            f"`{name}` got {len(arguments)} arguments of {len(names)}: missing `{'`, `'.join(names[len(arguments) :])}`"
        )
    if len(arguments) > len(names):
        raise UsageError(f"`{name}` takes {len(names)} arguments ({', '.join(names)}), not {len(arguments)}")
    return names


def check(
    kernel: Any,
    grid: Any,
    block: Any,
    args: Sequence[Any] = (),
    *,
    arch: str | None = None,
    dynamic_shared: int = 0,
    fma: bool | None = None,
    budget: int | None = None,
    engine: settings.Engine | None = None,
    workers: int | None = None,
) -> Report:
    """Run `kernel[grid, block](*args)` on the emulator and report what was found; the arrays in `args` are used in
    place.

    `grid` counts CTAs, `block` threads (an int or up to three); `dynamic_shared` is in bytes; `arch` names the limits
    that hold;
    `fma` contracts a * b + c as the compiler does; `budget` is in warp instructions; `engine` is "vm" or the slow
    "reference";
    `workers` threads share the CTAs.  UsageError and KernelError say what is wrong with the call or the source.
    """
    chosen = settings.current()
    configuration = configure(grid, block, 0, dynamic_shared, arch=arch)
    return _examine(
        kernel,
        configuration,
        args,
        chosen.fma if fma is None else fma,
        chosen.budget if budget is None else budget,
        chosen.engine if engine is None else engine,
        workers,
    )


def launch(kernel: Any, configuration: LaunchConfiguration, arguments: Sequence[Any]) -> None:
    """What `kernel[grid, block](*arguments)` does: check, tell the observers, or raise CheckFailed on an error."""
    chosen = settings.current()
    report = _examine(kernel, configuration, arguments, chosen.fma, chosen.budget, chosen.engine, None)
    if report.verdict == "failed" and not observers:
        raise CheckFailed(report)


def _examine(
    kernel: Any,
    configuration: LaunchConfiguration,
    arguments: Sequence[Any],
    fma: bool,
    budget: int,
    engine: str,
    workers: int | None,
) -> Report:
    from wsemu.binding import bind

    if isinstance(arguments, (str, bytes)) or not hasattr(arguments, "__len__"):
        raise UsageError(f"args is {type(arguments).__name__}: give a tuple of the kernel's arguments")
    if budget < 1:
        raise UsageError(f"budget of {budget:,} warp instructions: give 1 or more")
    program, names, notes = compiled(kernel, arguments, fma)
    _check_shared(program, configuration)
    if engine == "vm":
        from wsemu import native

        native.compiled()  # once per installation it takes seconds, which are not this launch's
    started = time.perf_counter()
    rows, memory, bound = bind(program, arguments, names)
    outcome = _run(engine, program, configuration, rows, memory.segments, budget, workers)
    places = Places(program, configuration.grid, configuration.block, outcome, bound)
    report = _report(program, configuration, outcome, places, notes, budget, time.perf_counter() - started)
    for observer in observers:
        observer(report)
    return report


def _run(
    engine: str,
    program: Program,
    configuration: LaunchConfiguration,
    rows: Any,
    segments: Any,
    budget: int,
    workers: int | None,
) -> Outcome:
    if engine == "vm":
        from wsemu import execution

        return execution.run(
            program, configuration.grid, configuration.block, rows, segments,
            dynamic_shared=configuration.dynamic_shared, budget=budget, workers=workers,
        )  # fmt: skip
    if engine == "reference":
        from wsemu import reference

        return reference.run(
            program, configuration.grid, configuration.block, rows, segments,
            dynamic_shared=configuration.dynamic_shared, budget=budget,
        )  # fmt: skip
    raise UsageError(f'no engine {engine!r}: "vm" or "reference"')


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


def _report(
    program: Program,
    configuration: LaunchConfiguration,
    outcome: Outcome,
    places: Places,
    notes: tuple[str, ...],
    budget: int,
    seconds: float,
) -> Report:
    findings = [_explain(raw, places) for raw in outcome.findings]
    if outcome.status == "deadlock":
        from wsemu.checkers import deadlock

        findings += deadlock.explain(places)
    findings.sort(key=lambda finding: finding.severity != "error")
    failed = any(finding.severity == "error" for finding in findings)
    reasons = _incomplete(program, outcome, places, budget)
    said = [*notes, *reasons]
    if failed and _wrote_arrays(program, outcome):
        said.append("the arrays hold what was stored until then: do not use them")
    return Report(
        kernel=program.name,
        grid=configuration.grid,
        block=configuration.block,
        verdict="failed" if failed else "incomplete" if reasons else "verified",
        arch=configuration.arch,
        dynamic_shared=configuration.dynamic_shared,
        findings=findings,
        counters=count(program, outcome),
        notes=said,
        proof=PROOF,
        seconds=seconds,
    )


def _wrote_arrays(program: Program, outcome: Outcome) -> bool:
    """Whether any store or atomic was made that may have gone to an argument."""
    for pc, access in outcome.accesses.items():
        kind = OPERATIONS[NAMES[int(program.code[pc, 0])]].kind
        if kind == "atomic" or (kind == "store" and access.sectors):
            return True
    return False


def _explain(raw: RawFinding, places: Places) -> Finding:
    from wsemu.checkers import barrier_misuse, bounds, initialised

    room: dict[str, Any] = {"out-of-bounds": bounds, "misaligned": bounds, "uninitialized-read": initialised}
    explain: Callable[[RawFinding, Places], Finding] = room.get(raw.code, barrier_misuse).explain
    return explain(raw, places)


def _incomplete(program: Program, outcome: Outcome, places: Places, budget: int) -> list[str]:
    """Why nothing can be said for sure, one line each."""
    where = ""
    if outcome.fault_pc >= 0:
        span = places.span(outcome.fault_pc)
        where = f" at {span.file}:{span.line}"
    if outcome.status == "budget":
        return [f"step budget of {budget:,} warp instructions used up: an endless loop, or raise it with `budget=`"]
    if outcome.status == "trap":
        return [program.traps[int(program.code[outcome.fault_pc, 6])] + where]
    if outcome.status == "parking":
        return [f"lanes of a warp wait at an unaligned barrier inside nested branches{where}: not modelled"]
    if outcome.status == "stack":
        return [f"branches diverge more than 64 levels deep{where}: not modelled"]
    return []


def count(program: Program, outcome: Outcome) -> Counters:
    """A report's counters from an outcome."""
    mix: dict[str, int] = {}
    costs = {
        "shared_load_wavefronts": 0,
        "shared_store_wavefronts": 0,
        "global_load_sectors": 0,
        "global_store_sectors": 0,
    }
    operations = [OPERATIONS[NAMES[op]] for op in program.code[:, 0].tolist()]
    barriers = 0
    for operation, n in zip(operations, outcome.executions, strict=False):
        if n:
            mix[operation.group] = mix.get(operation.group, 0) + n
            barriers += n if operation.kind == "barrier" else 0
    for pc, access in outcome.accesses.items():
        kind = operations[pc].kind
        if kind != "atomic":
            costs[f"shared_{kind}_wavefronts"] += access.wavefronts
            costs[f"global_{kind}_sectors"] += access.sectors
    return Counters(
        warp_instructions=outcome.warp_instructions,
        thread_operations=outcome.thread_operations,
        accesses=sum(access.lanes for access in outcome.accesses.values()),
        barrier_operations=barriers,
        instruction_mix=dict(sorted(mix.items())),
        **costs,
    )
