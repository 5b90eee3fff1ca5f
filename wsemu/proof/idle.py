"""Find loops that only wait: repeating them changes nothing as long as other threads do not change memory.  Also find
loops without an end: every round takes the same path (`has_no_end`).

In such a loop, no register carries a value from one iteration to the next, and each iteration writes the same values as
the previous one. A launch in which every running thread is in such a loop never ends. There is one exception: a
register may count the iterations, if nothing but such registers depends on it (`_only_count`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.control_flow import ENDS, loop_numbers, successors
from wsemu.model.isa import ATOMICS, NAMES, NO_STORE, OPERATIONS
from wsemu.proof.taint_steps import plain_decoder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wsemu.model.program import Program
    from wsemu.proof.taint_steps import Step

_KINDS = frozenset({"alu", "load", "atomic", "control", "fence", "warp", "barrier", "store"})
_NEAR = 4
"""maximum number of instructions between a load and the loop that its value leads to"""
_SETTLES = frozenset({"cas", "exch", "and", "or", "min.s", "min.u", "max.s", "max.u"})
"""atomics that change nothing when they are repeated with the same operands"""


def waits(program: Program, pcs: Iterable[int]) -> bool:
    """Return whether repeating these instructions has no further effect."""
    members = frozenset(pcs)
    decoder = plain_decoder(program)
    code = decoder.code
    if any(not _may_wait(code[pc]) for pc in members):
        return False
    steps = {pc: list(decoder.steps(pc)) for pc in members}
    reads, writes = dict[int, set[int]](), dict[int, set[int]]()
    for pc in members:
        used = (row for step in steps[pc] for row in (*step.reads, *step.operands, step.address))
        reads[pc] = ({code[pc][1] >> 1} - {0}) | {row for row in used if row > 0}
        writes[pc] = {row for step in steps[pc] for row in step.writes if not step.guard}
    written = {row for pc in members for step in steps[pc] for row in step.writes}
    carried = _carried_rows(members, code, reads, writes) & written
    if carried and not _only_count(carried, code, steps, reads):
        return False
    strong = {program.array_of[pc] for pc in members if _kind(code[pc]) == "atomic"} | {None}
    for pc, held in _memory_dependences(members, code, steps).items():
        kind = _kind(code[pc])
        found = set[str]().union(*(held.get(row, ()) for row in reads[pc])) if kind in ("store", "atomic") else set()
        if kind == "atomic" and found and not code[pc][7] & NO_STORE:
            return False
        if kind == "store" and ("load" in found or (found and program.array_of[pc] in strong)):
            return False
    return True


def has_no_end(program: Program, pcs: Iterable[int]) -> bool:
    """Return whether all rounds of these instructions take the same path, with the same addresses and operands.

    Then a thread that executed them once executes them forever.  Only stored values may differ between rounds.
    """
    members = frozenset(pcs)
    decoder = plain_decoder(program)
    code = decoder.code
    if any(_kind(code[pc]) not in _KINDS or (code[pc][0] in ENDS and not code[pc][1]) for pc in members):
        return False
    steps = [step for pc in members for step in decoder.steps(pc)]
    written = {row for step in steps for row in step.writes}
    steady = set[int]()
    grown = True
    while grown:  # rows that one instruction computes, each time from the same values
        makers: dict[int, list[Step]] = {}
        for step in steps:
            for row in step.writes:
                makers.setdefault(row, []).append(step)
        found = {
            row for row, own in makers.items()
            if len(own) == 1 and own[0].kind == "alu" and not own[0].guard and not _differs(code[own[0].pc])
            and not (written - steady).intersection(own[0].reads)
        }  # fmt: skip
        grown, steady = found != steady, found
    used = {row for step in steps for row in (step.guard, step.address, *step.operands) if row > 0}
    return not used & (written - steady)


def _differs(fields: list[int]) -> bool:
    return NAMES[fields[0]].startswith("varying.")


def _only_count(
    carried: set[int], code: list[list[int]], steps: dict[int, list[Step]], reads: dict[int, set[int]]
) -> bool:
    """Return whether rows that a loop carries only count its iterations.

    Only arithmetic may read them, and only arithmetic may read its results: they decide no branch, guard or address,
    and are neither written to memory nor passed to other lanes.
    """
    counts, grown = set(carried), True
    while grown:
        grown = False
        for pc, own in steps.items():
            if not reads[pc] & counts:
                continue
            if _kind(code[pc]) != "alu" or code[pc][1] >> 1 in counts:
                return False
            for step in own:
                if not counts.isdisjoint((*step.reads, *step.operands)) and not counts.issuperset(step.writes):
                    counts.update(step.writes)
                    grown = True
    return True


def _loops(program: Program) -> dict[int, set[int]]:
    """Return the instructions of each outermost loop, by the number of the loop."""
    found: dict[int, set[int]] | None = program.derived.get("loops")
    if found is None:
        found = program.derived["loops"] = {}
        for pc, number in enumerate(loop_numbers(program)):
            if number >= 0:
                found.setdefault(number, set()).add(pc)
    return found


def _kind(fields: list[int]) -> str:
    return OPERATIONS[NAMES[fields[0]]].kind


def _memory_dependences(
    members: frozenset[int], code: list[list[int]], steps: dict[int, list[Step]]
) -> dict[int, dict[int, frozenset[str]]]:
    """Return, for each instruction: row -> the kinds of access (`load`, `atomic`) in this iteration on which its value
    depends.
    """
    found: dict[int, dict[int, frozenset[str]]] = {pc: {} for pc in members}
    work = sorted(members)
    while work:
        pc = work.pop()
        held = dict(found[pc])
        for step in steps[pc]:
            kinds = frozenset({step.kind}) & {"load", "atomic"}
            kinds = kinds.union(*(held.get(row, frozenset()) for row in step.reads))
            for row in step.writes:
                held[row] = kinds | held.get(row, frozenset()) if step.guard else kinds
        for way in successors(pc, code[pc]):
            if way not in members:
                continue
            more = {row: kinds | found[way].get(row, frozenset()) for row, kinds in held.items() if kinds}
            if any(found[way].get(row) != kinds for row, kinds in more.items()):
                found[way].update(more)
                work.append(way)
    return found


def _may_wait(fields: list[int]) -> bool:
    name = NAMES[fields[0]]
    kind = OPERATIONS[name].kind
    ends = fields[0] in ENDS and not fields[1]  # a guarded exit leaves some lanes in the loop
    if kind not in _KINDS or ends or name.startswith("varying."):
        return False
    return kind != "atomic" or bool(fields[7] & NO_STORE) or ATOMICS[name][0] in _SETTLES


def _carried_rows(
    members: frozenset[int], code: list[list[int]], reads: dict[int, set[int]], writes: dict[int, set[int]]
) -> set[int]:
    """Return the rows that are live at the head of a loop: some path from the head reads them before it writes them."""
    live: dict[int, set[int]] = {pc: set() for pc in members}
    after = {pc: [way for way in successors(pc, code[pc]) if way in members] for pc in members}
    grown = True
    while grown:
        grown = False
        for pc in sorted(members, reverse=True):
            now = reads[pc] | (set[int]().union(*(live[way] for way in after[pc])) - writes[pc])
            grown |= now != live[pc]
            live[pc] = now
    heads = {way for pc in members for way in after[pc] if way <= pc}
    return set[int]().union(*(live[head] for head in heads))


def may_wait(program: Program) -> bool:
    """Return whether some loop of a program only waits, or has no end."""
    loops = _loops(program)
    if not loops:
        return False
    code = plain_decoder(program).code
    parts = (part for own in loops.values() for part in _parts(own, code))
    return any((_looks(code, part) and waits(program, part)) or has_no_end(program, part) for part in parts)


def never_ends(program: Program, pc: int) -> bool:
    """Return whether the outermost loop of an instruction has no end, whatever memory holds."""
    number = loop_numbers(program)[pc]
    return number >= 0 and has_no_end(program, _loops(program)[number])


def polls(program: Program, pc: int) -> bool:
    """Return whether a load belongs to a loop that only waits.

    A load shortly before an empty endless loop counts as well: compilers hoist a plain load out of a waiting loop.
    """
    code = plain_decoder(program).code
    number = loop_numbers(program)[pc]
    if number >= 0:
        return any(pc in part and waits(program, part) for part in _parts(_loops(program)[number], code))
    ways = [pc]
    for _ in range(_NEAR):
        ways = [after for way in ways for after in successors(way, code[way]) if after < len(code)]
        if any(successors(way, code[way]) == (way,) for way in ways):
            return True
        ways = [way for way in dict.fromkeys(ways) if _kind(code[way]) in ("alu", "control")]
    return False


def _looks(code: list[list[int]], part: Iterable[int]) -> bool:
    return any(OPERATIONS[NAMES[code[pc][0]]].kind in ("load", "atomic") for pc in part)


def _parts(own: set[int], code: list[list[int]]) -> Iterable[frozenset[int]]:
    """Yield the loop of each head in a set of instructions: the outer loop and those within it."""
    before: dict[int, set[int]] = {}
    for pc in own:
        for way in successors(pc, code[pc]):
            before.setdefault(way, set()).add(pc)
    for head in sorted({way for pc in own for way in successors(pc, code[pc]) if way in own and way <= pc}):
        found, todo = {head}, [pc for pc in before.get(head, ()) if pc >= head and pc in own]
        while todo:
            pc = todo.pop()
            if pc not in found:
                found.add(pc)
                todo += [way for way in before.get(pc, ()) if way in own]
        yield frozenset(found)
