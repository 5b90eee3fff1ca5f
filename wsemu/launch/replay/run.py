"""Replay: a launch executed again under the schedule of a finding, step by step, on the reference interpreter.

A schedule names operations at which warps change, each as the n-th execution of an instruction by a warp; a warp runs
until it has executed its own.  What only those warps do is run: other CTAs, and warps that nothing waits for, have not
begun yet, which is a schedule too.

`race`, `intra-warp-race`   The two accesses in both orders, with the values that each yields.
`barrier-recycling`         The swapped operations, and the rest of the CTA in order.
`read-only-written`         The load and the store in both orders.
`deadlock`                  The CTA in order, to its end.
`others`                    The CTA in order, until the wrong operation is executed.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict

from wsemu.evidence.schedule import Witness as ScheduleWitness
from wsemu.launch.replay.access import (
    AccessRecord,
    AccessValue,
    conflicting_sides,
    element_values,
    exchange_accesses,
    look,
    shared_elements,
    split_lanes,
)
from wsemu.launch.replay.machine import Machine, ReplayError, linear
from wsemu.model import settings
from wsemu.model.codes import CHECKERS
from wsemu.model.data import dataclass, replace
from wsemu.model.finding import Step
from wsemu.model.isa import LANES, NAMES, OPERATIONS, step_word
from wsemu.model.tensor_memory import COLUMN_ERRORS, COLUMNS, GRANULE
from wsemu.reference.run import BudgetError, Cta
from wsemu.reference.sync.named_barrier import StopError
from wsemu.reference.undefined import Undefined
from wsemu.reference.warp import WarpRun

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Sequence

    from wsemu.evidence.places import Places
    from wsemu.launch.replay.witness_file import Witness
    from wsemu.model.bound import Bound
    from wsemu.model.outcome import PhaseWait

BUDGET = 2_000_000
"""warp instructions of a replay: the reference interpreter makes some 10,000 to 100,000 a second"""
_PATIENCE = 10_000
"""maximum number of instructions, beyond those of the finding's own order, that the opposite order may execute before
replay assumes that a warp waits in a loop"""

_AT_BARRIERS = ("arrive", "sync")


class FaultError(ReplayError):
    """Raised if a step of the schedule raises an illegal instruction; `steps` are the steps executed so far."""

    def __init__(self, message: str, steps: list[Step]) -> None:
        super().__init__(message)
        self.steps = steps


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Order(_Data):
    """Two accesses in one order."""

    marks: tuple[str, str]
    """`(2)`, `(1)`: in which order"""
    made: list[AccessValue] = []
    left: str = ""
    """value of the element afterwards"""
    why_not: str = ""
    """why the emulator cannot execute this order: its stores are visible immediately.  Hardware may delay them, and the
    values are those of such a delay"""


class Waiting(_Data):
    """A warp at the end of a replay that cannot continue."""

    warp: int
    line: int
    barrier: int
    generation: int
    arrived: int
    expected: int


class WaitingForPhase(_Data):
    """Lanes of a warp at the end of a replay that wait for a phase."""

    warp: int
    line: int
    place: str
    """`full[1] phase 2`"""

    @classmethod
    def of(cls, wait: PhaseWait, places: Places) -> WaitingForPhase:
        return cls(warp=wait.warp, line=places.line(wait.pc), place=places.phase(wait.address, wait.phase, wait.pc))


class Replay(_Data):
    """The result of a replay."""

    steps: list[Step]
    """steps in the order of execution"""
    orders: list[Order] = []
    """both orders of a race: that of the schedule first"""
    element: str = ""
    """element that the two accesses of a race share, such as `tile[0]`; empty if they share none"""
    end: Literal["", "done", "deadlock", "fault", "budget", "trap", "stack"] = ""
    """end of the CTA, if it ran on"""
    codes: list[str] = []
    """codes of the findings in the replay that are errors in themselves"""
    waiting: list[Waiting] = []
    phases: list[WaitingForPhase] = []
    held: list[int] = []
    """warps whose lanes wait for each other at the end (B14)"""
    path: list[Step] = []
    """barrier operations of a CTA that ran on to a deadlock or a fault; only the last ones are shown"""


@dataclass(slots=True)
class _Run:
    """One execution of a schedule."""

    steps: list[Step]
    seen: list[AccessRecord]
    """accesses marked (1) and (2), in their order"""
    machine: Machine


def replay(witness: Witness | str | os.PathLike[str], kernel: Any, args: Sequence[Any], budget: int = BUDGET) -> Replay:
    """Execute the launch of a witness, or of a witness file, under its schedule; `args` are copied.

    Raise WitnessError if the file is not a witness, or source or arguments have changed; raise ReplayError if the
    launch does not follow the schedule within `budget` warp instructions.
    """
    from wsemu.launch.compiled import as_declared
    from wsemu.launch.replay.witness_file import Witness, load
    from wsemu.launch.running import bind_launch
    from wsemu.model.launch_shape import configure

    found = witness if isinstance(witness, Witness) else load(witness)
    chosen = replace(settings.current(), fma=found.inputs.fma, mma=found.inputs.mma)
    configuration = configure(found.grid, found.block, 0, found.dynamic_shared, arch=found.arch)
    configuration = replace(configuration, arch_chosen=False)  # the launch was accepted when the witness was created
    given = as_declared(kernel, args)
    bound, _ = bind_launch(kernel, configuration, given, chosen, tuple(found.inputs.uninitialized))
    found.check(bound)
    return follow(bound, found.code, found.steps, budget)


def follow(bound: Bound, code: str, steps: Sequence[Step], budget: int = BUDGET) -> Replay:
    """Execute the schedule of a finding with this code.  Raise ReplayError if the launch does not follow it."""
    _check(bound, steps)
    if any(step.lane is not None for step in steps):
        return _replay_atomics(bound, code, steps, budget)
    room = _replay_deadlock if all(step.mark == "waits" for step in steps) else _ROOMS.get(code, _replay_until_reported)
    first = min(linear(step, bound.configuration.grid) for step in steps)
    for earlier in dict.fromkeys((0, first)):  # alone, then after all CTAs before it
        try:
            return room(bound, code, steps, budget, range(earlier))
        except ReplayError:
            if earlier == first:
                raise
        except BudgetError:
            raise ReplayError(
                f"the replay's {budget:,} warp instructions are used up: it is slow; raise them with `--budget`"
            ) from None
    raise AssertionError


def _check(bound: Bound, steps: Sequence[Step]) -> None:
    """Raise ReplayError if a step does not belong to this launch."""
    if not steps:
        raise ReplayError("the witness has no steps: nothing to replay")
    for number, step in enumerate(steps, 1):
        inside = all(index < extent for index, extent in zip(step.cta, bound.configuration.grid, strict=True))
        known = step.warp < bound.configuration.warps and step.does == _instruction_word(bound, step.instruction)
        known &= step.barrier is None or step.does in _AT_BARRIERS
        if not inside or not known or min(step.cta) < 0:
            raise ReplayError(f"step {number} of the witness is none of this launch: check the program anew")


def _instruction_word(bound: Bound, instruction: int) -> str:
    """Return the word for a step at an instruction; empty if the program does not contain the instruction."""
    if instruction >= len(bound.program.code):
        return ""
    return step_word(NAMES[int(bound.program.code[instruction, 0])])


def _follow(bound: Bound, steps: Sequence[Step], budget: int, earlier: range, more: Sequence[Step] = ()) -> _Run:
    """Execute all steps, one after another.  `more` are executed later."""
    machine = Machine(bound, [*steps, *more], budget)
    for number in earlier:
        machine.run_in_order(machine.begin_cta(number))
    made: list[Step] = []
    seen: list[AccessRecord] = []
    for number, step in enumerate(steps, 1):
        try:
            done, sees = machine.until(step)
        except ReplayError as error:
            raise ReplayError(f"step {number} of {len(steps)}: {error}") from None
        except StopError as stop:
            where = f"warp {stop.warp} stops in a fault at line {machine.places.line(stop.pc)}"
            raise FaultError(f"step {number} of {len(steps)}: {where}", [*made, _faulty(step)]) from None
        made.append(done)
        if sees and step.mark:
            seen.append(sees)
    return _Run(made, seen, machine)


def _faulty(step: Step) -> Step:
    """Return a step that no generation or phase counted."""
    return step.model_copy(update={"arrived": None, "expected": 0, "mark": f"{step.mark}  fault".strip()})


def _both_orders(bound: Bound, code: str, steps: Sequence[Step], budget: int, earlier: range) -> Replay:
    """Replay a race of two warps: in the order of the schedule, and with the two accesses in the opposite order."""
    run = _follow(bound, steps, budget, earlier)
    marked = [n for n, step in enumerate(steps) if step.mark]
    if len(marked) != 2 or len(run.seen) != 2:
        raise ReplayError("the witness of a race marks no two accesses: check the program anew")
    marks = steps[marked[0]].mark, steps[marked[1]].mark
    run.seen[:] = conflicting_sides(run.seen[0], run.seen[1], run.machine.launch.program)
    if any(_kind(bound, steps[n]) == "async" for n in marked):
        return _with_copies(run, [steps[n] for n in marked])
    swapped = [*steps[: marked[0]], steps[marked[1]], steps[marked[0]]]
    most = run.machine.launch.outcome.warp_instructions + _PATIENCE
    try:
        seen, why = _follow(bound, swapped, min(most, budget), earlier).seen, ""
    except BudgetError:
        seen, why = [], f"{_warp_text(swapped[-2], swapped)} waits in a loop for {_warp_text(swapped[-1], swapped)}"
    except ReplayError as error:
        seen, why = [], str(error).partition(": ")[2]
    other = seen or exchange_accesses(*run.seen)[::-1]
    orders = [list(zip(marks, run.seen, strict=True)), list(zip(marks[::-1], other, strict=True))]
    element, made = _compare_orders(orders, run.machine)
    made[1] = made[1].model_copy(update={"why_not": why})
    return Replay(steps=run.steps, orders=made, element=element)


def _with_copies(run: _Run, marked: Sequence[Step]) -> Replay:
    """Replay a race with an asynchronous copy.  Replay performs the copy when it is issued, so the opposite order is
    computed."""
    marks, seen = (marked[0].mark, marked[1].mark), run.seen
    other = exchange_accesses(seen[0], seen[1])[::-1]
    orders = [list(zip(marks, seen, strict=True)), list(zip(marks[::-1], other, strict=True))]
    element, made = _compare_orders(orders, run.machine, wanted={step.what for step in marked})
    made[1] = made[1].model_copy(update={"why_not": "a copy is made at its issue"})
    return Replay(steps=run.steps, orders=made, element=element)


def _kind(bound: Bound, step: Step) -> str:
    return OPERATIONS[NAMES[int(bound.program.code[step.instruction, 0])]].kind


def _warp_text(step: Step, steps: Sequence[Step]) -> str:
    return f"warp {step.warp}" + (f" of CTA {step.cta}" if len({s.cta for s in steps}) > 1 else "")


def _within_a_warp(bound: Bound, code: str, steps: Sequence[Step], budget: int, earlier: range) -> Replay:
    """Replay a race between two lanes of a warp.  The emulator runs them together, so the opposite order is
    computed."""
    if sum(bool(step.mark) for step in steps) == 1 and steps[-1].mark:
        run = _follow(bound, steps[:-1], budget, earlier, steps[-1:])
        done, pair = _lanes_disagree(run.machine, steps[-1])
        element, made = _compare_orders([pair, pair[::-1]], run.machine)
        return Replay(steps=[*run.steps, done], orders=made, element=element)
    marked = [n for n, step in enumerate(steps) if step.mark]
    if len(marked) != 2 or any(steps[n].does in _AT_BARRIERS for n in marked):
        raise ReplayError("the witness of a race marks no two accesses: check the program anew")
    run = _follow(bound, steps[: marked[0]], budget, earlier, steps[marked[0] :])
    first, second = (steps[n] for n in marked)
    early, late = _two_lanes(run.machine, first, second)
    other = exchange_accesses(early, late)
    orders = [[(first.mark, early), (second.mark, late)], [(second.mark, other[1]), (first.mark, other[0])]]
    element, made = _compare_orders(orders, run.machine, apart=True)
    return Replay(steps=[*run.steps, *steps[marked[0] :]], orders=made, element=element)


def _replay_atomics(bound: Bound, code: str, steps: Sequence[Step], budget: int) -> Replay:
    """Return the result of an interleaving of atomics: a race, lanes that wait forever, or an error of an
    instruction."""
    from wsemu.launch.replay.orders import Followed, follow_order, racing_accesses

    grid, marked = bound.configuration.grid, [step for step in steps if step.mark]
    if code in ("race", "intra-warp-race") and len(marked) == 2:
        found, _ = follow_order(bound, steps, budget, lambda followed: racing_accesses(followed, marked, grid))
        marks = marked[0].mark, marked[1].mark
        orders = [[*zip(marks, found[0], strict=True)], [*zip(marks[::-1], found[1][::-1], strict=True)]]
        apart = (linear(marked[0], grid), marked[0].warp) == (linear(marked[1], grid), marked[1].warp)
        element, made = _compare_orders(orders, Machine(bound, steps, budget), apart)
        made[1] = made[1].model_copy(update={"why_not": "the order of atomics has them as above"})
        return Replay(steps=[*steps], orders=made, element=element)
    if code == "deadlock":
        stuck, followed = follow_order(bound, steps, budget, Followed.stuck_warps)
        waiting = [
            WaitingForPhase(warp=warp, line=followed.places.line(pc), place=what)
            for warp, pc, what in dict.fromkeys(stuck)
        ]
        return Replay(steps=[*steps], end="deadlock", phases=waiting)

    def check_reached(followed: Followed) -> bool | None:
        at = {(raw.code, raw.pc, raw.cta, raw.warp) for raw in followed.findings}
        where = steps[-1].instruction, linear(steps[-1], grid), steps[-1].warp
        own = ("raised-exception", code) if code == "failed-assertion" else (code,)
        return True if any((name, *where) in at for name in own) else None

    follow_order(bound, steps, budget, check_reached)
    return Replay(steps=[*steps], codes=[code])


def _lanes_disagree(machine: Machine, step: Step) -> tuple[Step, list[tuple[str, AccessRecord]]]:
    """Run a warp until it has executed a store whose lanes store different values to one address."""
    while True:
        try:
            done, seen = machine.until(step)
        except ReplayError:
            raise ReplayError("the lanes of the store agree: the launch does not follow the schedule") from None
        pair = split_lanes(seen) if seen else None
        if pair is not None:
            return done, pair


def _two_lanes(machine: Machine, first: Step, second: Step) -> tuple[AccessRecord, AccessRecord]:
    """Run a warp until it has executed two accesses of different lanes to one element."""
    cta = machine.cta(first)
    warp = cta.warps[first.warp]
    before: list[AccessRecord] = []
    while WarpRun(cta, warp).able():
        WarpRun(cta, warp).resume()
        pc = warp.ready[-1].pc
        sees = look(WarpRun(cta, warp)) if pc in (first.instruction, second.instruction) else None
        machine.advance(cta, warp)
        if sees is None:
            continue
        now, nth = sees(), machine.execution_count(cta, warp, pc)
        if pc == second.instruction and second.nth in (0, nth):
            for seen in reversed(before):
                if any(shared_elements(seen, now, machine.launch.program, apart=True)):
                    return seen, now
        if pc == first.instruction and first.nth in (0, nth):
            before.append(now)
    raise ReplayError("no two lanes of the warp touch a common element: the launch does not follow the schedule")


def _compare_orders(
    orders: list[list[tuple[str, AccessRecord]]],
    machine: Machine,
    apart: bool = False,
    wanted: Collection[str] = (),
) -> tuple[str, list[Order]]:
    """Return the accesses in each order, at the element that is requested by name, or else the first element on which
    the orders differ, or else the first shared element."""
    program, places = machine.launch.program, machine.places
    one, other = (seen for _, seen in orders[0])
    elements = list(shared_elements(one, other, program, apart))
    if not elements:
        raise ReplayError("the two accesses touch no common element: the launch does not follow the schedule")

    def outcome(place: tuple[int, int], order: list[tuple[str, AccessRecord]]) -> tuple[str, ...]:
        made, left = element_values(order, *place, program)
        return (*sorted(f"{access.mark} {access.value}" for access in made), left)

    named = [p for p in elements if places.element(p[0], other.pc) in wanted]
    place = next(
        (p for p in named or elements if len({outcome(p, order) for order in orders}) > 1), (named or elements)[0]
    )
    found = []
    for order in orders:
        made, left = element_values(order, *place, program)
        found.append(Order(marks=(order[0][0], order[1][0]), made=made, left=left))
    return places.element(place[0], other.pc), found


def _replay_recycling(bound: Bound, code: str, steps: Sequence[Step], budget: int, earlier: range) -> Replay:
    """Replay barrier recycling: the swapped operations, then the rest in order.  If their counts differ, the swap
    itself may be a fault."""
    try:
        run = _follow(bound, steps, budget, earlier)
    except FaultError as fault:
        if not fault.steps[-1].mark:
            raise
        return Replay(steps=fault.steps, end="fault", codes=["count-mismatch"])
    return _run_to_end(run.machine, run.machine.cta(steps[-1]), run.steps)


def _replay_deadlock(bound: Bound, code: str, steps: Sequence[Step], budget: int, earlier: range) -> Replay:
    """Replay a deadlock: each step of the schedule is a warp that waits at the end."""
    machine = Machine(bound, steps, budget)
    for number in earlier:
        machine.run_in_order(machine.begin_cta(number))
    cta = machine.cta(steps[-1])
    result = _run_to_end(machine, cta, list(steps))
    waits = {(w.warp, w.barrier, w.generation, w.arrived) for w in result.waiting}
    for step in steps:
        if step.barrier is None and step.warp not in (*result.held, *(wait.warp for wait in result.phases)):
            raise ReplayError(f"the lanes of warp {step.warp} do not wait for each other at the end")
        if step.barrier is not None and (step.warp, step.barrier, step.generation, step.arrived) not in waits:
            raise ReplayError(f"warp {step.warp} does not wait for barrier {step.barrier} at the end")
    return result


def _replay_columns(bound: Bound, code: str, steps: Sequence[Step], budget: int, earlier: range) -> Replay:
    """Replay an error that may occur only if tensor memory is allocated at other columns: try all columns."""
    for first in (0, *reversed(range(1, COLUMNS // GRANULE))):
        with contextlib.suppress(ReplayError):
            return _replay_until_reported(bound, code, steps, budget, earlier, first)
    raise ReplayError(f"warp {steps[-1].warp} comes through line {steps[-1].line} without `{code}`")


def _replay_until_reported(
    bound: Bound, code: str, steps: Sequence[Step], budget: int, earlier: range, first_granule: int = 0
) -> Replay:
    """Replay an operation that is wrong by itself: run the CTA in order until the operation is reported."""
    machine = Machine(bound, steps, budget, races=code in _ORDERED)
    machine.launch.first_granule = first_granule
    for number in earlier:
        machine.run_in_order(machine.begin_cta(number))
    step, cta = steps[-1], machine.cta(steps[-1])
    result = _run_to_end(machine, cta, list(steps))
    raw = _RAW_CODES.get(code, code)
    found = [f for f in machine.launch.outcome.findings if (f.code, f.pc) == (raw, step.instruction)]
    if not any((f.cta, f.warp) == (cta.number, step.warp) for f in found):
        raise ReplayError(f"warp {step.warp} comes through line {step.line} without `{code}`")
    return result.model_copy(update={"codes": [code]})


def _used(bound: Bound, code: str, steps: Sequence[Step], budget: int, earlier: range) -> Replay:
    """Run the CTA in order, until an undefined register reaches the instruction of the step."""
    undefined = Undefined(bound.program)
    machine = Machine(bound, steps, budget, undefined=undefined)
    for number in earlier:
        machine.run_in_order(machine.begin_cta(number))
    step, cta = steps[-1], machine.cta(steps[-1])
    result = _run_to_end(machine, cta, list(steps))
    if (step.instruction, cta.number, step.warp) not in undefined.places:
        raise ReplayError(f"warp {step.warp} comes through line {step.line} without `{code}`")
    return result.model_copy(update={"codes": [code]})


def _run_to_end(machine: Machine, cta: Cta, steps: list[Step]) -> Replay:
    """Run a CTA to its end, and return how it ended."""
    status, trace = machine.run_in_order(cta)
    if status == "budget":
        raise BudgetError
    places = machine.places
    places.outcome.add_initializations(trace.events)
    waiting = []
    for warp in cta.warps if status == "deadlock" else ():
        if warp.waits >= 0 and warp.alive:
            barrier = cta.barriers[warp.waits]
            waiting.append(
                Waiting(
                    warp=warp.number, line=places.line(warp.wait_pc), barrier=barrier.number,
                    generation=barrier.generation, arrived=barrier.arrived,
                    expected=barrier.expected or LANES * cta.live_warps,
                )
            )  # fmt: skip
    outcome = machine.launch.outcome
    stands = [w.number for w in cta.warps if status == "deadlock" and w.alive and w.waits < 0]
    phases = [WaitingForPhase.of(wait, places) for wait in outcome.phase_waits] if status == "deadlock" else []
    held = [warp for warp in stands if warp not in {wait.warp for wait in phases}]
    codes = [f.code for f in machine.launch.outcome.findings if f.pc == machine.launch.outcome.fault_pc]
    path: list[Step] = []
    if status in ("deadlock", "fault"):
        happened = ScheduleWitness(places, trace, {cta.number})
        kinds = ("arrive", "sync", "arrive_on", "await")
        barriers = [n for n, event in enumerate(happened.events) if event.kind in kinds]
        path = happened.steps(barriers, lambda _: True, {})
    codes = codes if status == "fault" else []
    return Replay(steps=steps, end=status, waiting=waiting, phases=phases, held=held, codes=codes, path=path)


_ROOMS = {
    "race": _both_orders,
    "read-only-written": _both_orders,
    "intra-warp-race": _within_a_warp,
    "barrier-recycling": _replay_recycling,
    "deadlock": _replay_deadlock,
    "undefined-register": _used,
    **dict.fromkeys(COLUMN_ERRORS, _replay_columns),
}
_ORDERED = (*CHECKERS["proxy"], *CHECKERS["tensor-memory"])
"""codes of accesses that are wrong in themselves, and are found only with clocks"""
_RAW_CODES = {"tmem-address-unpublished": "race", "tmem-read-unwaited": "tmem-read-unfinished"}
"""raw code of the engines for each finding code that has another name there"""
