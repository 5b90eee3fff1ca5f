"""Stores that nothing orders and that all write the same value: `same-value-store`.

The search for races compares accesses, not values.  If the only failure consists of two stores to one location, the
launch runs again in a mode that compares the values.  If that run has no race, any two accesses that nothing orders
write the same value, so no schedule shows which was first.  The value must be the same in every schedule; a value that
depends on the order of atomics, a clock, or the placement of a warp may not be.

In most cases the VM decides.  It runs again with the racing plain stores *joined*: they conflict with every access,
except that two of them may store the same value (`machine/memory/joined.py`).  If another plain store races in that
run, it is joined as well.  Once no race is left, the values are proven equal.  Bulk stores by several lanes of one
instruction store the same values if they have the same source and destination.  The launch then runs once for each such
lane, and only that lane performs the store.  If no run has a race, and none stores twice to one location of global
memory without a plain store in between, each of these stores is ordered with every access except the equal stores.

The remaining launches, if they are small enough, are decided by the reference engine: for each byte it keeps all stores
that nothing orders, and compares their values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wsemu.launch.binding import address_rows
from wsemu.launch.lane_lag import RULES
from wsemu.launch.running import ran
from wsemu.launch.verdict import meets_a_part
from wsemu.model.codes import CODES
from wsemu.model.data import replace
from wsemu.model.effects import PUTS
from wsemu.model.errors import UnsupportedError
from wsemu.model.isa import ATOMIC, FIRST_STORE, LANES, N_ATOMIC, N_MEMORY, NAMES, OPERATIONS, WRITE, access_shape
from wsemu.model.outcome import COMPARED
from wsemu.proof.taint import examine
from wsemu.proof.together import known_masks

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from wsemu.launch.running import Ran
    from wsemu.model.bound import Bound
    from wsemu.model.outcome import Outcome, RawFinding
    from wsemu.model.program import Program

RACES = ("race", "intra-warp-race")
WATCHED = (*RACES, "same-value-store", "proxy", "proxy-war")
"""codes that a race of two stores hides for the first of them, in the run that keeps the last store alone"""
MOST, MOST_TRIED = COMPARED, 1 << 12
"""maximum number of thread instructions of a launch that the reference engine repeats, which takes a few seconds; the
maximum for an edit that is tried"""
MOST_RUN = 1 << 28
"""maximum thread instructions of all VM runs that decide one launch"""
MOST_JOINED = 4
"""times that more stores are joined"""
MOST_PAIRED = 256
"""maximum number of compared stores of which all pairs are known to be equal"""
DETAIL = ("address", "kind", "other_kind", "size", "other_cta")


class _Compared(NamedTuple):
    """The result of a run that compares values."""

    findings: list[RawFinding]
    stores: frozenset[int] = frozenset()
    """stores of which any two that nothing orders were compared, if the run has no race"""
    joined: frozenset[int] = frozenset()
    """stores of one value that the VM found to race, although it reports only the last store at each location"""


def excuse_same_values(bound: Bound, run: Ran, *, tried: bool = False, how: Mapping[str, Any] | None = None) -> Ran:
    """Return a run whose findings distinguish stores of one value from other races.  `tried` means that it is one of
    many.  `how` has the options of a run on the VM that executes only some clusters."""
    outcome, trace, initial = run
    errors = [raw for raw in outcome.findings if raw.code in CODES and CODES[raw.code].severity == "error"]
    races = _races(bound.program, errors)
    racing = [raw for raw in races if _are_stores(raw)]
    others = [raw for raw in errors if raw.code not in RACES and raw.code not in RULES]
    if not racing or others or outcome.status != "done":
        return run
    left = [raw for raw in races if not _are_stores(raw)]
    if any(ATOMIC not in (raw.detail["kind"], raw.detail["other_kind"]) for raw in left):
        return run
    aside = frozenset(map(_pair, left))  # atomics may order them: the verdict decides
    if outcome.overflow or not {"race", "intra-warp", "same-value"} <= bound.settings.checkers:
        return run
    before = initial()
    if any(kept is None for kept in before):
        return run
    segments = [(np.array(data), writable) for data, (_, writable) in zip(before, bound.segments, strict=True)]
    compared = _compare_values(bound._replace(segments=segments), outcome, racing, aside, tried=tried, how=how)
    if compared is None:
        return run if tried else _note_uncompared(run)
    told = compared.findings
    if _races(bound.program, told, aside):
        return run
    gone = {id(raw) for raw in racing}
    findings = [raw for raw in outcome.findings if id(raw) not in gone]
    known = {_key(raw) for raw in findings}
    more = [raw for raw in told if raw.code in WATCHED and raw.code not in RACES and _key(raw) not in known]
    if any(CODES[raw.code].severity == "error" for raw in more):
        return run
    racers = {pc for raw in (*racing, *more) for pc in (raw.pc, raw.other_pc)} | compared.joined
    sources, varying = _find_influences(bound, outcome, racers, compared.stores)
    if sources:
        return _note_polls(bound.program, run, sources)
    findings = sorted([*findings, *more], key=_key)
    equal = _list_equal(racing, frozenset() if how else compared.stores - varying)
    return replace(outcome, findings=findings, equal_stores=equal), trace, initial


def _list_equal(racing: list[RawFinding], stores: frozenset[int]) -> frozenset[tuple[int, int]]:
    """Return the pairs of stores that write the same value wherever nothing orders them.

    Instructions suffice, without locations: the run without a race has compared every two executions of these stores at
    one location that no barrier orders, because the search for races ignores atomics.  Nothing influences addresses or
    control flow, or `excuse_same_values` returns early, so every schedule has these accesses and these barriers.  In
    other orders of the atomics, however, other pairs are unordered than those that were reported here.
    """
    equal = {pair for raw in racing for pair in ((raw.pc, raw.other_pc), (raw.other_pc, raw.pc))}
    if len(stores) <= MOST_PAIRED:
        equal.update((one, other) for one in stores for other in stores)
    return frozenset(equal)


def _compare_values(
    again: Bound,
    outcome: Outcome,
    racing: list[RawFinding],
    aside: frozenset[frozenset[int]],
    *,
    tried: bool,
    how: Mapping[str, Any] | None,
) -> _Compared | None:
    """Return the findings if values are compared; None if they are not.  `aside` are the pairs of accesses whose races
    are judged later.

    The reference engine can also decide races that the VM finds only because cells of shadow memory were wider before.
    """
    told = None
    if how is not None:
        return _compare_on_vm(again, outcome, racing, aside, MOST_RUN, how)
    if again.settings.engine == "vm":
        told = _compare_on_vm(again, outcome, racing, aside, MOST_RUN >> 8 if tried else MOST_RUN)
        if told is not None and not (_races(again.program, told.findings, aside) and _mixes_widths(again, outcome)):
            return told
    elif not tried:
        return _compare_on_reference(again, outcome)
    return (
        _compare_on_reference(again, outcome) if outcome.thread_operations <= (MOST_TRIED if tried else MOST) else told
    )


def _races(
    program: Program, found: list[RawFinding], aside: frozenset[frozenset[int]] = frozenset()
) -> list[RawFinding]:
    """Return the races among findings, except those between pairs of accesses that are set aside, and those that are
    not modeled (see `verdict.meets_a_part`)."""
    races = [raw for raw in found if raw.code in RACES and _pair(raw) not in aside]
    return [raw for raw in races if not meets_a_part(program, raw)]


def _mixes_widths(bound: Bound, outcome: Outcome) -> bool:
    """Return whether a launch has loads or stores of different widths."""
    code = bound.program.code
    return len({access_shape(NAMES[int(code[pc, 0])])[1] for pc in outcome.accesses}) > 1


def _compare_on_reference(again: Bound, outcome: Outcome) -> _Compared | None:
    """Return the findings of the reference engine, which compares values; None if it cannot run the launch."""
    again = again._replace(settings=replace(again.settings, engine="reference"))
    try:
        slow = ran(again, 1, again.settings.budget, values=True)[0]
    except UnsupportedError:  # more simultaneous warps than the reference engine supports
        return None
    if slow.status != "done" or slow.executions != outcome.executions or slow.overflow:
        return None
    code = again.program.code[:, 0].tolist()
    stores = {pc for pc, count in enumerate(slow.executions) if count and FIRST_STORE <= code[pc] < N_MEMORY}
    return _Compared(slow.findings, frozenset(stores))


def _compare_on_vm(
    again: Bound,
    outcome: Outcome,
    racing: list[RawFinding],
    aside: frozenset[frozenset[int]],
    most: int,
    how: Mapping[str, Any] | None = None,
) -> _Compared | None:
    """Return the findings of the VM other than stores of one value, found within a number of thread instructions; None
    if it cannot decide."""
    code = again.program.code[:, 0].tolist()
    by_copies = [raw for raw in racing if raw.pc == raw.other_pc and NAMES[code[raw.pc]] in PUTS]
    plain = {pc for raw in racing if raw not in by_copies for pc in (raw.pc, raw.other_pc)}
    if not all(FIRST_STORE <= code[pc] < N_MEMORY for pc in plain):
        return None
    runs = range(1, LANES + 1) if by_copies else range(1)
    for _ in range(MOST_JOINED):
        most -= len(runs) * outcome.thread_operations
        found = _with_stores_joined(again, outcome, frozenset(plain), aside, runs, how or {}) if most >= 0 else None
        if found is None:
            return None
        races = _races(again.program, found, aside)
        more = {pc for raw in races for pc in (raw.pc, raw.other_pc)}
        if not races:
            same = [
                replace(raw, code="same-value-store", detail={name: raw.detail[name] for name in DETAIL})
                for raw in racing
            ]
            return _Compared([*same, *found], frozenset(plain), frozenset(plain))
        if any(code[pc] >= N_ATOMIC for pc in more):  # a copy may bring the same bytes
            return None
        if not more - plain or not all(FIRST_STORE <= code[pc] < N_MEMORY for pc in more):
            return _Compared(found)
        plain |= more
    return None


def _with_stores_joined(
    again: Bound,
    outcome: Outcome,
    joined: frozenset[int],
    aside: frozenset[frozenset[int]],
    runs: Iterable[int],
    how: Mapping[str, Any],
) -> list[RawFinding] | None:
    """Return the findings with these stores joined, up to the first run with a race; None if the launch then behaves
    differently.  If several lanes store the same bytes by a bulk operation, there is one run for each of them, in which
    only that lane stores."""
    found: dict[tuple[str, int, int], RawFinding] = {}
    for lane in runs:
        segments = [(data.copy(), writable) for data, writable in again.segments]
        bound = again._replace(segments=segments)
        one = ran(bound, 1, again.settings.budget, alone=lane, joined=joined, **how)[0]
        if one.status != "done" or one.executions != outcome.executions or one.overflow:
            return None
        found = {_key(raw): raw for raw in one.findings if raw.code in WATCHED} | found
        if _races(again.program, [*found.values()], aside):
            break
    return [*found.values()]


def _find_influences(
    bound: Bound, outcome: Outcome, racers: set[int], stores: frozenset[int]
) -> tuple[set[int], set[int]]:
    """Return the sources by which another schedule, or another run, may have other paths, or other values for one of
    the stores `racers`; and those of `stores` that may then have other values.

    If they are atomics, all interleavings are explored; in them the stores may be ordered, or may race.
    """
    x, y, z = bound.configuration.block
    analysis = examine(
        bound.program, outcome.executions, address_rows(bound.program, bound.rows, bound.names, bound.arrays).get,
        lockstep=bound.settings.lockstep, lanes_by_x=x % LANES == 0 or y == z == 1,
        settled=known_masks(bound.program, strict=bound.settings.strict),
    )  # fmt: skip
    if analysis is None:
        return set(), set()
    sources = {tainted.source for tainted in analysis.find_tainted} | {*analysis.find_stored(racers).values()}
    return sources, set(analysis.find_stored(stores))


def _note_polls(program: Program, run: Ran, sources: set[int]) -> Ran:
    """Return the run with a poll in the detail of each race of stores if polls alone influence the launch.  The stores
    write the same value in this run, so it shows no race."""
    if any(OPERATIONS[NAMES[int(program.code[pc, 0])]].kind != "async" for pc in sources):
        return run
    outcome, trace, initial = run
    poll = {"poll": min(sources)}
    findings = [
        replace(raw, detail=raw.detail | poll) if raw.code in RACES and _are_stores(raw) else raw
        for raw in outcome.findings
    ]
    return replace(outcome, findings=findings), trace, initial


def _note_uncompared(run: Ran) -> Ran:
    """Return the run with the size of the launch in the detail of each race, because the launch is too long to compare
    values."""
    outcome, trace, initial = run
    size = {"uncompared": outcome.thread_operations}
    findings = [replace(raw, detail=raw.detail | size) if raw.code in RACES else raw for raw in outcome.findings]
    return replace(outcome, findings=findings), trace, initial


def _key(raw: RawFinding) -> tuple[str, int, int]:
    return raw.code, raw.pc, raw.other_pc


def _pair(raw: RawFinding) -> frozenset[int]:
    return frozenset((raw.pc, raw.other_pc))


def _are_stores(raw: RawFinding) -> bool:
    return raw.other_pc >= 0 and raw.detail["kind"] == raw.detail["other_kind"] == WRITE
