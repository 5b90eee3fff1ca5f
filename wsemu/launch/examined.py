"""A launch that ran, and its findings: judged, but not yet reported."""

from __future__ import annotations

import functools
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.evidence.fingerprint import describe_arguments
from wsemu.evidence.places import Places
from wsemu.launch.binding import address_rows
from wsemu.launch.cancellation import requests_clusters
from wsemu.launch.code import Code
from wsemu.launch.explore.orders import Orders
from wsemu.launch.heap import add_heap_notes, outgrown
from wsemu.launch.hooks import keeping, starting
from wsemu.launch.running import bind_launch, ran, together
from wsemu.launch.same import keep, repeated_report, watch_uses
from wsemu.launch.used_loads import name_later_uses, name_used_loads
from wsemu.model.data import NamedTuple, replace
from wsemu.model.isa import ATOMICS, N_ATOMIC, N_MEMORY, OPCODE
from wsemu.model.tensor_memory import ALLOC
from wsemu.model.undefined import ORIGINS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence, Set

    from wsemu.launch.assignments import Assigned
    from wsemu.launch.binding_again import Binding
    from wsemu.launch.compiled import Compiled
    from wsemu.launch.explore.decided import Decided
    from wsemu.launch.failing_compares import Separate
    from wsemu.launch.moved_columns import Moved
    from wsemu.launch.result import Report
    from wsemu.launch.running import Ran
    from wsemu.launch.verdict import Methods
    from wsemu.model.bound import Bound
    from wsemu.model.device_memory import DeviceMemory
    from wsemu.model.finding import Finding
    from wsemu.model.launch_shape import LaunchConfiguration
    from wsemu.model.outcome import Outcome, RawFinding, Tracer
    from wsemu.model.program import Program
    from wsemu.model.settings import Assignment, Settings
    from wsemu.model.undefined import Followed


_COMPARES = frozenset(OPCODE[name] for name, (what, _) in ATOMICS.items() if what == "cas")


class Examined(NamedTuple):
    """A launch that ran, with its findings."""

    bound: Bound
    places: Places
    trace: Tracer
    report: Report
    before: list[Any]
    """the bytes of each segment before a launch with findings; None if they were not kept"""
    initial: Callable[[], list[Any]] | None = None
    """function that returns the initial arrays of another launch; None if they equal those of the previous one"""


def run_and_judge(
    kernel: Any,
    configuration: LaunchConfiguration,
    arguments: Sequence[Any],
    chosen: Settings,
    workers: int | None,
    uninitialized: tuple[str, ...],
    more: Callable[[Places], list[Finding]] | None = None,
    memory: DeviceMemory | None = None,
    binding: Binding | None = None,
    made: Compiled | None = None,
) -> Examined:
    """Run a launch, with arguments as the kernel declares them, and judge it without reporting it.  `binding` is that
    of equal launches in a device memory, and `made` the kernel's program if it is already compiled."""
    started = time.perf_counter() - compiling()
    bind = functools.partial(bind_launch, kernel, configuration, arguments, chosen, uninitialized, made, memory=memory)
    bound, notes = (binding.bound_launch if binding is not None else None) or bind()
    if binding is not None:
        binding.keep(arguments, bound, notes)
    for start in starting:
        start(bound)
    if chosen.corners:
        from wsemu.launch.corners import run_corners

        why = run_corners(bound, functools.partial(judge_run, kernel, bound, notes, started=started, more=more))
        if not isinstance(why, str):
            return why
        notes = (*notes, why)
    before = {} if bound.heap is None else {n: np.array(bound.segments[n][0]) for n in bound.heap.others(bound)}
    run, orders = ran_with_orders(bound, workers)
    while outgrown(bound, run[0]) and bound.heap.larger:
        for n, data in before.items():
            bound.segments[n][0][:] = data
        bound, notes = bind(part=bound.heap.larger)
        run, orders = ran_with_orders(bound, workers)
    return judge_run(kernel, bound, notes, run, started, more, orders)


def ran_with_orders(bound: Bound, workers: int | None, *, tried: bool = False) -> tuple[Ran, Orders]:
    """Run a launch.  If atomics influence it, decide it by its interleavings.  For a launch that is only `tried`, do
    not determine whether all its interleavings fail."""
    orders = Orders(bound, address_rows(bound.program, bound.rows, bound.names, bound.arrays), first=tried)
    run = ran(bound, workers, orders.patience())
    if orders.needs_full_budget(run[0], run[2]):
        run = ran(bound, workers, orders.few if orders.stays else None)
        run[0].waits = orders.stays
    return (_separate_findings(bound, run, tried=tried) if run[0].findings else run), orders


def _separate_findings(bound: Bound, run: Ran, *, tried: bool) -> Ran:
    """Return a run with findings, whose codes distinguish what the engines do not: further runs do."""
    from wsemu.launch.lane_lag import separate_lags
    from wsemu.launch.same_values import excuse_same_values

    name_used_loads(run[0], bound.program)  # so that no error is left but stores of one value
    name_later_uses(bound, run[0], run[2])
    run = excuse_same_values(bound, run, tried=tried)
    return separate_lags(bound, run) if bound.program.asynchronous else run


def _name_unpublished(outcome: Outcome, program: Program) -> None:
    """Give a race with the store of a tensor memory allocation its own code."""
    if OPCODE[ALLOC] not in program.opcodes:
        return
    for raw in outcome.findings:
        if raw.code == "race" and raw.other_pc >= 0 and program.code[raw.other_pc, 0] == OPCODE[ALLOC]:
            raw.code = "tmem-address-unpublished"


def judge_run(
    kernel: Any,
    bound: Bound,
    notes: tuple[str, ...],
    run: Ran,
    started: float,
    more: Callable[[Places], list[Finding]] | None = None,
    orders: Orders | None = None,
    *,
    tried: bool = False,
) -> Examined:
    """Return a completed launch with its report.  `started` is its start time (perf_counter), less the time spent
    compiling.  `orders` decides what a single run does not.  A launch that is only `tried` gets no witness."""
    outcome, trace, initial = run
    if outcome.findings:
        _name_unpublished(outcome, bound.program)
        name_used_loads(outcome, bound.program)
    places = _make_places(kernel, bound, outcome, orders)
    watched, has_used = watch_uses(run)
    places.find_united_masks = functools.partial(_find_united_masks, bound, outcome, watched[2])
    alone = more is None and _may_repeat(bound, orders)
    known = repeated_report(bound, outcome, notes, time.perf_counter() - started - compiling()) if alone else None
    if known is not None:
        return Examined(bound, places, trace, known, initial() if (known.findings or keeping) and not tried else [])
    from wsemu.launch.verdict import judge

    ends: list[Assignment] = []
    methods = _list_methods(kernel, bound, watched, places, orders, ends, tried)
    report = judge(bound.configuration, places, notes, watched[1], bound.settings, started + compiling(), more, methods)
    if ends and not report.errors:
        report = _judge_assigned(bound, initial(), ends[0], report)
    report = _complete_report(kernel, bound, watched, places, orders, report)
    before = initial() if (report.findings or keeping) and not tried else []
    if report.errors and not tried:
        from wsemu.evidence.fingerprint import inputs

        report = report.model_copy(update={"inputs": inputs(bound, before)})
    if alone and not has_used():
        keep(bound, outcome, notes, report)
    return Examined(bound, places, trace, report, before, initial)


def _make_places(kernel: Any, bound: Bound, outcome: Outcome, orders: Orders | None) -> Places:
    """Return the source locations of a launch."""
    program, configuration = bound.program, bound.configuration
    rows = address_rows(program, bound.rows, bound.names, bound.arrays) if orders is None else orders.segment_of
    places = Places(program, configuration.grid, configuration.block, outcome, bound.arrays, rows, bound.memory)
    declared = kernel.parameter_types if isinstance(kernel, Code) else ()
    places.describe_arguments = functools.partial(describe_arguments, bound, declared)
    return places


def _may_repeat(bound: Bound, orders: Orders | None) -> bool:
    """Return whether an equal run of the program has an equal report."""
    program = bound.program
    alone = bound.heap is None and orders is not None and not orders.may_decide()
    return alone and not program.undefined and not any(one.has_changed for one in program.constant_arrays)


def _list_methods(
    kernel: Any, bound: Bound, run: Ran, places: Places, orders: Orders | None, ends: list[Assignment], tried: bool
) -> Methods:
    """Return the further runs and analyses that apply to a launch.  `ends` receives an assignment with which it ends
    early."""
    from wsemu.launch.verdict import Methods

    outcome, trace, initial = run
    program = bound.program
    methods = Methods(
        follow=functools.partial(_follow, bound, outcome, initial, tried=tried),
        find_unordered_load=functools.partial(_find_unordered_load, bound, outcome, initial, trace),
    )
    if program.opcodes & _COMPARES:
        methods = methods._replace(
            find_failing_compares=functools.partial(_find_failing_compares, bound, outcome, initial)
        )
    if orders is None:
        return methods
    if OPCODE[ALLOC] in program.opcodes:  # without interleavings, the run may be of some CTAs alone
        methods = methods._replace(move_columns=functools.partial(_move_columns, bound, outcome, initial))
    if requests_clusters(program):
        methods = methods._replace(
            judge_assignments=functools.partial(_judge_assignments, bound, outcome, initial, ends)
        )
    return methods._replace(
        decide=functools.partial(orders.decide, places, initial),
        gives_places=functools.partial(orders.gives_places, places, trace, initial),
        decide_by_other_program=functools.partial(
            _decide_by_other_program, kernel, orders.bound, outcome, trace, initial
        ),
    )


def _complete_report(
    kernel: Any, bound: Bound, run: Ran, places: Places, orders: Orders | None, report: Report
) -> Report:
    """Return the report with its residency, its scope, and notes on the heap and on swizzled tiles."""
    outcome, trace, initial = run
    program = bound.program
    needed = together(program, bound.configuration, bound.settings.sms) or (
        orders.needed if orders is not None else None
    )
    if bound.heap is not None:
        report = add_heap_notes(report, bound.heap)
    if program.asynchronous and not report.findings:
        from wsemu.launch.swizzled_tiles import add_swizzle_notes

        report = add_swizzle_notes(report, bound, places, trace)
    if needed is not None:
        report = report.model_copy(update={"residency": needed})
    if bound.settings.every and bound.heap is None and not _has_undefined_values(bound, outcome):
        from wsemu.launch.every import add_scope

        again = functools.partial(_rerun, initial=initial())
        report = add_scope(report, places, bound, again, in_orders=orders is not None and orders.tried)
    if isinstance(kernel, Code) and kernel.is_cuda:
        from wsemu.launch.words import reword_for_cuda

        report = reword_for_cuda(report, {span.file for span in program.spans})
    return report


def _has_undefined_values(bound: Bound, outcome: Outcome) -> bool:
    """Return whether a launch may have undefined values, whose effects depend on data."""
    return bool(bound.program.undefined) or any(raw.code in ORIGINS for raw in outcome.findings)


def _follow(
    bound: Bound,
    outcome: Outcome,
    initial: Callable[[], list[Any]],
    arisen: Sequence[RawFinding],
    failed: bool,
    unread: frozenset[tuple[int, int]] = frozenset(),
    *,
    tried: bool,
) -> Followed | None:
    """Return the effects of the launch's undefined values.  `failed` means that the launch has other errors, and
    `tried` that it belongs to an edit.  `unread` are strong stores of values that nothing reads, each with its CTA."""
    from wsemu.launch.undefined import follow

    return follow(bound, outcome, initial, arisen, tried=tried, failed=failed, unread=unread)


def _find_unordered_load(
    bound: Bound, outcome: Outcome, initial: Callable[[], list[Any]], trace: Tracer
) -> tuple[int, int] | None:
    """Return a strong load of bytes that nothing has written in another order, and the first store to them."""
    if bound.program.opcodes.isdisjoint(range(N_MEMORY, N_ATOMIC)):
        return None
    from wsemu.launch.first_stores import find_unordered_load

    return find_unordered_load(bound, outcome, initial, trace)


def _find_failing_compares(
    bound: Bound, outcome: Outcome, initial: Callable[[], list[Any]], separate: Separate
) -> list[RawFinding]:
    """Return the races with a `cas` that writes nothing in this run."""
    from wsemu.launch.failing_compares import find_failing_compares

    return find_failing_compares(bound, outcome, initial, separate)


def _decide_by_other_program(
    kernel: Any,
    bound: Bound,
    outcome: Outcome,
    trace: Tracer,
    initial: Callable[[], list[Any]],
    words: Set[str],
    late: bool,
) -> Decided | None:
    """Return the result that a run of another program proves.  `words` describe what influences the launch."""
    from wsemu.launch.other_programs import decide_by_other_program
    from wsemu.launch.verdict import RACES

    def judge_bound(other: Bound) -> Report | None:
        run, orders = ran_with_orders(other, None, tried=True)
        if run[0].status != "done" or any(raw.code in RACES for raw in run[0].findings):
            return None
        return judge_run(kernel, other, (), run, time.perf_counter(), None, orders, tried=True).report

    return decide_by_other_program(bound, outcome, trace, initial, judge_bound, words, late=late)


def _find_united_masks(
    bound: Bound, outcome: Outcome, initial: Callable[[], list[Any]], masks: Iterable[int]
) -> dict[int, int]:
    """Return the masks of active lanes that name lanes which took the same path from a barrier, each with the
    barrier."""
    from wsemu.launch.other_programs import find_united_masks

    return find_united_masks(bound, outcome, initial, masks)


def _move_columns(bound: Bound, outcome: Outcome, initial: Callable[[], list[Any]], places: Places) -> Moved:
    """Return the differences of the launch if its allocations of tensor memory get other columns."""
    from wsemu.launch.moved_columns import move_columns

    return move_columns(bound, outcome, initial, places)


def _judge_assignments(
    bound: Bound, outcome: Outcome, initial: Callable[[], list[Any]], ends: list[Assignment], places: Places
) -> Assigned:
    """Return findings of the launch with other assignments of the clusters that it cancels.  `ends` receives an
    assignment with which it ends early."""
    from wsemu.launch.assignments import judge_assignments

    found = judge_assignments(bound, outcome, initial, places)
    ends += [found.shown_by] if found.shown_by else []
    return found


def _judge_assigned(bound: Bound, initial: Sequence[Any], assignment: Assignment, report: Report) -> Report:
    """Return the report of a launch with another assignment if it has errors."""
    other, _ = _rerun(bound._replace(settings=replace(bound.settings, clc=assignment)), initial)
    if not other.errors:
        return report
    notes = [*other.notes, f"seen with --clc {assignment}"]
    return other.model_copy(update={"notes": notes, "seconds": report.seconds + other.seconds})


def _rerun(bound: Bound, initial: Sequence[Any]) -> tuple[Report, Outcome]:
    """Run the launch again with its present bindings, on copies of its arrays' initial contents."""
    from wsemu.launch.verdict import judge

    segments = [(np.array(data), writable) for data, (_, writable) in zip(initial, bound.segments, strict=True)]
    bound = bound._replace(segments=segments)
    outcome, trace, _ = ran(bound, None)
    program, configuration = bound.program, bound.configuration
    rows = address_rows(program, bound.rows, bound.names, bound.arrays)
    places = Places(program, configuration.grid, configuration.block, outcome, bound.arrays, rows)
    return judge(configuration, places, (), trace, bound.settings, time.perf_counter()), outcome


def compiling() -> float:
    """Return the number of seconds in which this process has compiled parts of the VM.  This happens once per
    installation, and does not belong to a launch."""
    build = sys.modules.get("wsemu.machine.build")
    return build.seconds_spent() if build else 0.0
