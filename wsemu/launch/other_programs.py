"""Other programs that decide a launch: single lanes, numbered CTAs, plain accesses.

If such a program is right with the same arguments, so is the launch's: docs/how.md has a theorem for each.  The
program whose lanes stay apart only shows errors.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.model.codes import CODES
from wsemu.model.data import NamedTuple
from wsemu.model.isa import ATOMICS, FIRST_ARRAY, LANES, NAMES, NO_STORE, OFFSET_MASK, SEGMENT_SHIFT, UNWATCHED
from wsemu.proof.lanes_alone import make_single
from wsemu.proof.numbered import find_counter, find_draws, find_numbered, make_numbered
from wsemu.proof.parted_lanes import part_lanes
from wsemu.proof.path_checks import check_paths
from wsemu.proof.plain_accesses import make_plain, make_shared_plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Set

    from wsemu.launch.explore.decided import Decided
    from wsemu.launch.result import Report
    from wsemu.model.bound import Bound
    from wsemu.model.finding import Finding
    from wsemu.model.outcome import Outcome, Tracer
    from wsemu.model.program import Program

SHARE = 1 / 2
"""The effort of all other programs of a launch together, in units of its own."""
LARGE = 1_000
"""number of threads or instructions above which other programs are tried before interleavings"""
MOST_INSTRUCTIONS = 2_000_000
"""Warp instructions of a launch for which another program is run."""
BUDGETS = 4
"""factor for the budget of a program that has up to three more instructions before each of the launch's"""

APART = (
    "PTX lets lanes that took different paths stay apart where the paths join, and then `activemask` names only some "
    "of the lanes that reach it"
)
TOGETHER = (
    "name the lanes by a mask that no `activemask` determines, such as 0xffffffff: then they wait for each other; with "
    "`--lockstep` lanes meet where their paths join"
)


class Other(NamedTuple):
    """Another program, and the words that describe what it proves."""

    program: Program
    how: str
    same: bool = False
    """The proof has to show that CTAs perform the same accesses in all schedules."""
    shows: str = ""
    """The code of findings of the program that are findings of the launch."""


def decide_by_other_program(
    bound: Bound, outcome: Outcome, trace: Tracer, initial: Callable[[], list[Any]],
    judge: Callable[[Bound], Report | None], words: Set[str], *, late: bool,
) -> Decided | None:  # fmt: skip
    """Return the proof by another program.  `words` describe what influences the launch.  `judge` runs a bound program,
    and returns None if the run has errors.  `late` means that interleavings were already tried."""
    from wsemu.launch.explore.decided import Decided

    before = initial()
    if bound.heap is not None or any(data is None for data in before) or outcome.warp_instructions > MOST_INSTRUCTIONS:
        return None
    account = bound.account if bound.is_other else bound.account.part(SHARE * bound.settings.effort)
    for other in _find_programs(bound, outcome, trace, before, words, late=late):
        segments = [(np.array(data), writable) for data, (_, writable) in zip(before, bound.segments, strict=True)]
        report = judge(bound._replace(program=other.program, segments=segments, account=account, is_other=True))
        if other.shows:
            found = () if report is None else _find_shown(report, other.shows)
            if any(finding.severity == "error" for finding in found):
                return Decided(findings=found)
            if report is not None and report.verdict == "verified" and not _has_reservations(report):
                return Decided(
                    proven=True, findings=found, notes=tuple(report.notes), how=other.how, besides=frozenset()
                )
            continue
        if report is not None and report.verdict == "verified" and (not other.same or _shows_same_accesses(report)):
            return Decided(
                proven=True, notes=tuple(report.notes), how=other.how, besides=frozenset(), defined=other.same
            )
    return None


def _has_reservations(report: Report) -> bool:
    """Return whether a verdict names warnings, which other schedules need not have."""
    return any(CODES[finding.code].strict for finding in report.findings)


def _find_shown(report: Report, code: str) -> tuple[Finding, ...]:
    """Return the findings with a code of a run in which lanes stay apart, reworded for the launch."""
    return tuple(
        finding.model_copy(
            update={"holds_in": "some schedules", "steps": [], "notes": [*finding.notes, APART], "help": TOGETHER}
        )
        for finding in report.findings
        if finding.code == code
    )


def _find_programs(
    bound: Bound, outcome: Outcome, trace: Tracer, before: list[Any], words: Set[str], *, late: bool
) -> Iterator[Other]:  # fmt: skip
    if "active lanes" in words and late:
        parted = part_lanes(bound.program, strict=bound.settings.strict)
        if parted is not None:
            yield Other(parted, "whichever lanes of different paths are active together", shows="undefined-shuffle")
        return
    if "active lanes" in words:
        x, y, z = bound.configuration.block
        single = make_single(bound.program, lanes_by_x=x % LANES == 0 or y == z == 1)
        if single is not None:
            yield Other(single, "whichever lanes are active together")
        return
    if words != {"atomics"} or outcome.status != "done" or (late and find_numbered(bound.program)):
        return
    plain = make_plain(bound.program) if all(may != UNWATCHED for _, may in bound.segments) else None
    if plain is not None and late != _only_loads(bound.program, outcome):
        yield Other(plain, "strong loads read what one order of accesses determines")
    if late == _is_large(bound):
        return
    shared = None if bound.settings.lockstep else make_shared_plain(bound.program)  # lanes would all load, then store
    if shared is not None:
        yield Other(shared, "atomics in shared memory return what one order of accesses determines")
        return
    numbered = _number(bound, outcome, trace, before)
    if numbered is not None:
        yield Other(numbered, "whichever number each CTA draws", same=True)


def find_united_masks(
    bound: Bound, outcome: Outcome, initial: Callable[[], list[Any]], masks: Iterable[int]
) -> dict[int, int]:
    """Return the masks of active lanes that name lanes which took the same path from a barrier, each with the barrier:
    a run shows that no branch parted lanes that may reach them."""
    from wsemu.launch.running import ran

    checked = check_paths(bound.program, sorted(masks))
    if checked is None or bound.heap is not None or outcome.warp_instructions > MOST_INSTRUCTIONS:
        return {}
    before = initial()
    if any(data is None for data in before):
        return {}
    united, program = checked
    segments = [(np.array(data), writable) for data, (_, writable) in zip(before, bound.segments, strict=True)]
    again = ran(bound._replace(program=program, segments=segments), None, BUDGETS * bound.settings.budget)[0]
    return united if again.status == "done" else {}


def _is_large(bound: Bound) -> bool:
    """Return whether a launch has too many threads, or too long a program, for its interleavings to decide it soon."""
    return math.prod(bound.configuration.block) * bound.configuration.ctas > LARGE or len(bound.program.code) > LARGE


def _only_loads(program: Program, outcome: Outcome) -> bool:
    """Return whether all executed atomics are loads."""
    return all(
        fields[7] & NO_STORE or NAMES[fields[0]] not in ATOMICS or not outcome.executions[pc]
        for pc, fields in enumerate(program.code.tolist())
    )


def _shows_same_accesses(report: Report) -> bool:
    """Return whether one run decides a launch, or values that CTAs publish."""
    from wsemu.launch.explore.methods import WHATEVER_IS_PUBLISHED

    return "in all orders" not in report.proof or WHATEVER_IS_PUBLISHED in report.proof


def _number(bound: Bound, outcome: Outcome, trace: Tracer, before: list[Any]) -> Program | None:
    """Return the program with numbered draws; None unless each CTA draws exactly once."""
    ctas, program = math.prod(bound.configuration.grid), bound.program
    if bound.configuration.grid[0] != ctas or bound.group != (1, 1, 1) or program.asynchronous:
        return None
    accesses = frozenset(pc for pc, op in enumerate(program.code[:, 0].tolist()) if _touches(NAMES[op]))
    for pc in find_draws(program, outcome.executions, ctas):
        place = find_counter(program, pc, trace(accesses), ctas)
        amount = _find_amount(bound, pc)
        if place is None or amount is None:
            continue
        number, offset = (place >> SEGMENT_SHIFT) - FIRST_ARRAY, place & OFFSET_MASK
        size = 4 if ATOMICS[NAMES[int(program.code[pc, 0])]][1] == "b32" else 8
        if not 0 <= number < len(before):
            continue
        base = int.from_bytes(bytes(before[number][offset : offset + size]), "little")
        if base + amount * ctas < 1 << 8 * size - 1:
            return make_numbered(program, pc, base, amount)
    return None


def _find_amount(bound: Bound, pc: int) -> int | None:
    from wsemu.launch.explore.given import known_rows

    amount = known_rows(bound).get(int(bound.program.code[pc, 4]))
    return amount if amount is not None and 0 < amount < 1 << 16 else None


def _touches(name: str) -> bool:
    from wsemu.model.isa import OPERATIONS

    return OPERATIONS[name].kind in ("load", "store", "atomic")
