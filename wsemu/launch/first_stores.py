"""Find strong loads that read uninitialized bytes in some other order of the strong operations.

A strong load and the first strong store to its bytes do not race, so possibly nothing else orders them: the load may
come first.  If strong operations influence control flow, all their orders are explored anyway.  Otherwise every order
executes the same instructions, but some loads may return undefined values.  Two runs look for such loads of shared
memory and of uninitialized arrays.  In the first run, strong stores also load the previous value; a store that finds
uninitialized bytes is the first one to these bytes.  In the second run, these first stores are plain; a strong load
that races with one of them is not ordered after it.  A load is excluded if its own thread has stored to all of its
bytes before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.launch.running import ran
from wsemu.model.data import replace
from wsemu.model.isa import (
    ADDRESS_WRAPPED,
    ATOMICS,
    NAMES,
    NO_STORE,
    OPCODE,
    OPERATIONS,
    USES_OLD,
    access_shape,
)
from wsemu.proof.liveness import live_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeAlias

    from wsemu.model.bound import Bound
    from wsemu.model.outcome import Outcome, RawFinding, Tracer
    from wsemu.model.program import Program

    Initial: TypeAlias = Callable[[], list[Any]]

UNWRITTEN = "uninitialized-read"
RACES = ("race", "intra-warp-race")


def find_unordered_load(bound: Bound, outcome: Outcome, initial: Initial, trace_of: Tracer) -> tuple[int, int] | None:
    """Return a strong load whose value is used, and the first strong store to one of its bytes, if nothing orders the
    store before the load; None if there are none."""
    program = bound.program
    if not {"initialised", "race", "intra-warp"} <= bound.settings.checkers or outcome.status != "done":
        return None
    if not (program.shared_bytes or program.uses_dynamic_shared or bound.uninitialized):
        return None
    atomics = {
        pc: ATOMICS[NAMES[op]][0] for pc, op in enumerate(program.code[:, 0].tolist())
        if NAMES[op] in ATOMICS and outcome.executions[pc] and (bound.uninitialized or not _is_global(outcome, pc))
    }  # fmt: skip
    live = live_rows(program)
    stores = {pc for pc, what in atomics.items() if what == "exch"}
    loads = {pc for pc in atomics if int(program.code[pc, 2]) in live[pc + 1]}
    if not loads or not stores or any(data is None for data in initial()):
        return None
    first = stores & {raw.pc for raw in _run(bound, _with_loads(program, stores), initial) if raw.code == UNWRITTEN}
    if not first:
        return None
    races = [raw for raw in _run(bound, _with_plain_stores(program, first), initial) if raw.code in RACES]
    pairs = {pair for raw in races for pair in ((raw.pc, raw.other_pc), (raw.other_pc, raw.pc))}
    pairs = {pair for pair in pairs if pair[0] in loads and pair[1] in first}
    own = _find_loads_of_own(program, frozenset(load for load, _ in pairs), trace_of) if pairs else frozenset[int]()
    return min((pair for pair in pairs if pair[0] not in own), default=None)


def _find_loads_of_own(program: Program, loads: frozenset[int], trace_of: Tracer) -> frozenset[int]:
    """Return those of the given loads whose own thread had stored to all loaded bytes before, in every execution."""
    shapes, stores = {}, set[int]()
    for pc, fields in enumerate(program.code.tolist()):
        kind = OPERATIONS[NAMES[fields[0]]].kind
        if kind == "store" or (
            kind == "atomic" and not fields[7] & NO_STORE and ATOMICS[NAMES[fields[0]]][0] == "exch"
        ):
            stores.add(pc)
        if pc in loads or pc in stores:
            shapes[pc] = access_shape(NAMES[fields[0]])[1]
    trace = trace_of(loads | stores)
    if not trace.complete:
        return frozenset()
    written: set[tuple[int, int, int, int]] = set()
    """(CTA, warp, lane, byte)"""
    found = set(loads)
    for event in trace.events:
        if event.kind != "access" or event.pc not in shapes:
            continue
        for lane, address in trace.lane_addresses(event).items():
            start = address & ~ADDRESS_WRAPPED
            own = {(event.cta, event.warp, lane, start + q) for q in range(shapes[event.pc])}
            if event.pc in loads and not own <= written:
                found.discard(event.pc)
            if event.pc in stores:
                written |= own
    return frozenset(found)


def _is_global(outcome: Outcome, pc: int) -> bool:
    """Return whether an atomic never accessed shared memory, where each access costs wavefronts or is not counted."""
    count = outcome.accesses.get(pc)
    return count is not None and not (count.wavefronts or count.uncounted)


def _with_loads(program: Program, stores: Iterable[int]) -> Program:
    """Return a program whose strong stores, and exchanges with unused results, also load the previous value."""
    code = program.code.copy()
    code[sorted(stores), 7] |= USES_OLD
    return replace(program, code=code)


def _with_plain_stores(program: Program, stores: Iterable[int]) -> Program:
    code = program.code.copy()
    for pc in stores:
        type_ = ATOMICS[NAMES[int(code[pc, 0])]][1]
        code[pc, 0], code[pc, 2], code[pc, 4], code[pc, 7] = OPCODE[f"st.{type_}"], code[pc, 4], 0, 0
    return replace(program, code=code)


def _run(bound: Bound, program: Program, initial: Initial) -> list[RawFinding]:
    segments = [(np.array(data), writable) for data, (_, writable) in zip(initial(), bound.segments, strict=True)]
    return ran(bound._replace(program=program, segments=segments), None, bound.settings.budget)[0].findings
