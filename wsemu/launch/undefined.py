"""Find the effects of a launch's undefined values by a second run, which follows these values.

The first run records where a value was undefined: a load of uninitialized bytes, or a shuffle that reads an inactive
lane.  The program shows which registers some path reads before any write.  The second run decides what these values
affect:

    If a value reaches something observable, the finding is an error.
    If it reaches only memory, a load gets `undefined-copy`, and a shuffle keeps its warning.
    If it reaches nothing, a load or a register gets no finding, and a shuffle keeps its warning.

The second run is an instrumented program (`proof.shadow_program`), if that decides the effects.  Otherwise it is a run
on the slow reference engine, which follows only the beginning of a long launch, for about 2 seconds per unit of
`--effort`.  A value that reaches nothing in that time is undecided, and the launch is `incomplete`, unless it has other
errors.  For undefined registers of a long launch there is a third method: runs with other contents of these registers,
whose results are compared.  If such a register may influence control flow, it stays undecided, since two contents may
take the same path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.evidence.places import lanes_text
from wsemu.model.codes import CHECKER_OF, CODES, MARKS
from wsemu.model.data import NamedTuple, replace
from wsemu.model.errors import UnsupportedError
from wsemu.model.isa import (
    FIRST_ARRAY,
    LOCAL,
    N_OPERATIONS,
    NAMES,
    OPERATIONS,
    SEGMENT_SHIFT,
    SHARED,
)
from wsemu.model.matrix import MMA, WGMMA
from wsemu.model.outcome import RawFinding
from wsemu.model.undefined import ORIGINS, SINKS, Arisen, Followed, Reach, Source
from wsemu.proof.shadow_program import make_shadow_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from wsemu.evidence.places import Places
    from wsemu.model.bound import Bound
    from wsemu.model.outcome import Outcome
    from wsemu.model.program import Program
    from wsemu.proof.shadow_program import Shadowed

Unread = frozenset[tuple[int, int]]
MAX_FOLLOWED = 20_000
"""warp instructions of a launch that the reference engine follows for one unit of effort: about 2 seconds"""
_MORE = "`--effort` follows more"
MAX_FOLLOWED_EDIT = 5_000
"""warp instructions of an edit that is tried and followed"""
MULTIPLIES = 50
"""factor by which a matrix multiply takes longer on the reference engine"""
_PRODUCTS = np.array([name in MMA or name in WGMMA for name in NAMES])
MOST_NAMED = 16
"""maximum number of undefined registers and loads that are followed separately, once one of them reaches something"""
_KEEP_SCHEDULE = frozenset(("recycling", "initialised"))
"""checkers that stay enabled in the second run, because they keep the clocks and the written bytes"""
_OTHER_CONTENTS: tuple[dict[str, int | float | bool], ...] = (
    {"p": True, "b8": 0x5A, "b16": 0x5AA5, "b32": 0x5AA5C33C, "b64": 0x5AA5C33C_69960FF0, "f32": -7.5e9, "f64": -7.5e9},
    {"p": True, "b8": 0xA5, "b16": 0xFB5A, "b32": 0xFF7A3CC3, "b64": 0xFFEA3CC3_9669F00F, "f32": 7.5e9, "f64": 7.5e9},
)
"""contents of undefined registers: one set of large and one of small values, since a minimum or a maximum keeps only
one of two values"""


def follow(
    bound: Bound,
    outcome: Outcome,
    initial: Callable[[], list[Any]],
    findings: Sequence[RawFinding],
    *,
    tried: bool = False,
    failed: bool = False,
    unread: Unread = frozenset(),
) -> Followed | None:
    """Return what the undefined values of a launch reach.  Return None if the launch is too long, or if no enabled
    check keeps the initial contents of arrays.  `tried` means that the launch tries an edit, and `failed` that it has
    other errors.  `unread` are strong stores, with their CTAs, of values that nothing reads; only the instrumented
    program can exclude them, so the result is None if it does not decide."""
    if any(data is None for data in initial()) or (unread and bound.configuration.grid[0] != bound.configuration.ctas):
        return None
    followed = _follow_compiled(bound, outcome, initial, findings, failed, unread)
    if unread:
        return followed
    most = _affordable(bound, outcome, MAX_FOLLOWED_EDIT if tried else MAX_FOLLOWED)
    affordable = outcome.warp_instructions <= most
    if followed is not None and not (failed and affordable and _may_have_passed(outcome, followed)):
        return followed
    if affordable:
        return _follow_slowly(bound, outcome, initial, findings, most)
    if findings:
        return None if tried or failed else _follow_slowly(bound, outcome, initial, findings, most)
    if outcome.status != "done":  # a run that was cut off cannot be compared
        return _follow_slowly(bound, outcome, initial, findings, most)
    steered = -1 if failed else _first_influenced(bound, outcome)
    if steered < 0:
        return _compare_contents(bound, outcome, initial)
    followed = None if tried else _follow_slowly(bound, outcome, initial, findings, most)
    return followed if followed is not None and followed.reached else Followed({}, {}, {}, steered=steered, most=most)


def _may_have_passed(outcome: Outcome, followed: Followed) -> bool:
    """Return whether some undefined value may not have occurred in the second run: if warps race or miss phases, the
    additional instructions of the second run change their interleaving."""
    unordered = any(raw.code in MARKS or CODES[raw.code].proves for raw in outcome.findings)
    return unordered and not followed.reached.keys() >= followed.arisen.keys()


def _affordable(bound: Bound, outcome: Outcome, most: int) -> int:
    """Return the number of warp instructions that the reference engine may execute: `most`, or fewer for a launch with
    matrix multiplies, which take longer."""
    operations = np.minimum(bound.program.code[:, 0], N_OPERATIONS - 1)
    products = int(np.asarray(outcome.executions)[_PRODUCTS[operations]].sum()) if outcome.executions else 0
    done = max(outcome.warp_instructions, 1)
    return most * bound.settings.effort * done // (done + MULTIPLIES * products)


def _follow_compiled(
    bound: Bound,
    outcome: Outcome,
    initial: Callable[[], list[Any]],
    findings: Sequence[RawFinding],
    failed: bool,
    unread: Unread,
) -> Followed | None:
    """Return what the undefined values of a launch reach, found by an instrumented program; None if it does not decide.

    Copies in shared memory are followed if some value is copied there.
    """
    from wsemu.machine.memory.cell_bits import MAX_INSTRUCTIONS

    arisen = _observe_arising(bound, findings)
    if bound.settings.engine != "vm" or outcome.status != "done" or arisen is None or outcome.overflow:
        return None
    nothing = Followed(arisen, {}, {}, complete=True)
    sources = frozenset(source.place for source in arisen)
    for executions in (outcome.executions, [1] * len(bound.program.code)):
        made = _shadow_program(bound, executions, sources, unread=unread)
        if not made.sinks and not bound.settings.corners:  # with representative CTAs, other CTAs may take other paths
            return nothing
        if len(made.program.code) > MAX_INSTRUCTIONS:
            return None
        shown = _run_shadow(bound, made, made.program, initial)
        if not shown.left_out:
            break
    copied: dict[Source, int] = {}
    if shown.reach is not None and not shown.sure and shown.reach.sink == "store" and not failed:
        found = _copies_in_memory(bound, made, initial)
        if found is None:
            return None
        copied = found
        made = _shadow_program(bound, executions, sources, beside=_shared_bytes(bound), unread=unread)
        if len(made.program.code) > MAX_INSTRUCTIONS:
            return None
        shown = _run_shadow(bound, made, made.program, initial)
    if shown.reach is None:
        return None if shown.left_out else nothing._replace(copied=copied)
    if not shown.sure:
        return None
    reached: dict[Source, Reach] = {}
    for source in list(made.gates)[:MOST_NAMED]:
        alone = shown if len(made.gates) == 1 else _run_alone(bound, made, source, initial)
        if alone.reach is not None:
            if not alone.sure:
                return None
            reached[source] = alone.reach
    whole = len(made.gates) <= MOST_NAMED
    return nothing._replace(reached=reached or {next(iter(made.gates)): shown.reach}, copied=copied, complete=whole)


def _copies_in_memory(bound: Bound, made: Shadowed, initial: Callable[[], list[Any]]) -> dict[Source, int] | None:
    """Return the instructions that first store loaded values to shared or local memory; None if these are uncertain, or
    if the method does not apply to the launch."""
    loads = [source for source in made.gates if source.kind == "load"]
    if _is_size_visible(bound) or len(loads) > MOST_NAMED or (loads and not made.exact):
        return None
    alone = {source: _run_alone(bound, made, source, initial).reach for source in loads}
    return {source: reach.pc for source, reach in alone.items() if reach is not None and reach.sink == "store"}


def instrument(bound: Bound, unread: Unread) -> tuple[Bound, Shadowed] | None:
    """Return a launch of the instrumented program that follows undefined registers on every path; None if that is too
    long.  `unread`: strong stores, with their CTAs, of values that nothing reads."""
    from wsemu.machine.memory.cell_bits import MAX_INSTRUCTIONS

    beside = 0 if _is_size_visible(bound) else _shared_bytes(bound)
    everything = [1] * len(bound.program.code)
    made = _shadow_program(bound, everything, frozenset(), beside=beside, unread=unread, ends_at_votes=True)
    return None if len(made.program.code) > MAX_INSTRUCTIONS else (_with_masks(bound, made, made.program), made)


def _with_masks(bound: Bound, made: Shadowed, program: Program) -> Bound:
    """Return a launch of an instrumented program, with room for the masks of shared memory."""
    shape = bound.configuration
    if made.beside:
        dynamic = made.beside + _shared_bytes(bound) - -(-bound.program.shared_bytes // 16) * 16
        shape = replace(shape, dynamic_shared=dynamic)
    return bound._replace(program=program, configuration=shape)


def _is_size_visible(bound: Bound) -> bool:
    """Return whether a launch may depend on the size of shared memory, so that it has no room for masks."""
    return "dynamic_bytes" in bound.program.specials or bound.group != (1, 1, 1)


def _shared_bytes(bound: Bound) -> int:
    """Return the bytes of shared memory of a CTA, up to a multiple of 16."""
    return -(-bound.program.shared_bytes // 16) * 16 + -(-bound.configuration.dynamic_shared // 16) * 16


def _observe_arising(bound: Bound, findings: Sequence[RawFinding]) -> dict[Source, Arisen] | None:
    """Return where the first run recorded undefined values; None if an instrumented program cannot follow one of
    them."""
    from wsemu.proof.unwritten import only_returns

    arisen: dict[Source, Arisen] = {}
    for raw in findings:
        kind, reads = OPERATIONS[NAMES[int(bound.program.code[raw.pc, 0])]].kind, raw.code == "uninitialized-read"
        if kind == "async" and reads:  # an operand, which the program does not follow
            continue
        if (reads and bound.group != (1, 1, 1)) or not only_returns(bound.program, raw.pc):
            return None
        lane = (raw.lanes & -raw.lanes).bit_length() - 1
        place = (raw.detail["address"], raw.detail["size"]) if reads else ()
        arisen[Source(ORIGINS[raw.code], raw.pc)] = Arisen(raw.cta, raw.warp, lane, *place)
    return arisen


def _shadow_program(
    bound: Bound, executions: Sequence[int], others: frozenset[int], beside: int = 0, unread: Unread = frozenset(),
    *, ends_at_votes: bool = False,
) -> Shadowed:  # fmt: skip
    """Return the instrumented program that follows undefined values, reused from an earlier launch that executed the
    same instructions.  `beside` is the distance in bytes to the masks of copies in shared memory; 0 if these are not
    followed."""
    from wsemu.launch.binding import address_rows

    rows = address_rows(bound.program, bound.rows, bound.names, bound.arrays)
    maps = {number: array for array, number in _maps(bound)} if others else {}
    key = (
        tuple(count > 0 for count in executions),
        tuple(sorted(rows.items())),
        others,
        tuple(maps.items()),
        beside,
        unread,
    )
    name = "shadowed_of_paths" if ends_at_votes else "shadowed_beside" if beside else "shadowed"
    kept = bound.program.derived.get(name)
    if kept is None or kept[0] != key:
        made = make_shadow_program(
            bound.program, executions, rows.get, others, maps, beside, unread, ends_at_votes=ends_at_votes
        )
        kept = bound.program.derived[name] = key, made
    found: Shadowed = kept[1]
    return found


def _maps(bound: Bound) -> tuple[tuple[int, int], ...]:
    """Return the additional arrays that show which bytes are written, each with the segment that it describes."""
    numbers = (SHARED, LOCAL, *sorted(bound.uninitialized))
    return tuple((FIRST_ARRAY + len(bound.segments) + n, number) for n, number in enumerate(numbers))


class _Shown(NamedTuple):
    """The results of a run that follows undefined values."""

    reach: Reach | None = None
    """the first use that one of the values reaches"""
    sure: bool = False
    """true if the value certainly reaches it"""
    left_out: bool = False
    """true if the run did not end, or reached instructions through which values are not followed"""


def _run_shadow(bound: Bound, made: Shadowed, program: Program, initial: Callable[[], list[Any]]) -> _Shown:
    """Run an instrumented program, and return its results."""
    from wsemu.launch.running import ran

    settings = replace(bound.settings, checkers=_KEEP_SCHEDULE, strict=False, every=False)
    maps = _maps(bound) if any(source.kind == "load" for source in made.gates) else ()
    segments = [*_copies(bound, initial), *((np.zeros(16, np.uint8), False) for _ in maps)]
    launch = _with_masks(bound, made, program)._replace(segments=segments, settings=settings)
    outcome, *_ = ran(launch, None, maps=maps)
    sink = made.sinks.get(outcome.fault_pc) if outcome.is_trap else None
    if sink is None:
        return _Shown(left_out=outcome.status != "done" or made.leaves_out(outcome))
    lanes = next((raw.lanes for raw in outcome.findings if raw.pc == outcome.fault_pc), 1)
    lane = (lanes & -lanes).bit_length() - 1
    return _Shown(Reach(sink.kind, sink.pc, outcome.cta, outcome.fault_warp, lane), sink.sure)


def _run_alone(bound: Bound, made: Shadowed, source: Source, initial: Callable[[], list[Any]]) -> _Shown:
    """Run the instrumented program for the values of one source.  It runs only once, so no block is compiled for it."""
    from wsemu.machine.tier.hot import run_once

    with run_once():
        return _run_shadow(bound, made, made.for_source(source), initial)


def _follow_slowly(
    bound: Bound, outcome: Outcome, initial: Callable[[], list[Any]], findings: Sequence[RawFinding], most: int
) -> Followed | None:
    """Return what undefined values reach within the first `most` warp instructions, by the reference engine; None if it
    does not support the launch."""
    from wsemu.reference import run as reference
    from wsemu.reference.undefined import Undefined

    configuration = bound.configuration
    until = frozenset() if bound.program.undefined else frozenset(filter(None, map(_source, findings)))
    undefined = Undefined(bound.program, until)
    sizes: dict[str, Any] = {"dynamic_shared": configuration.dynamic_shared, "arch": configuration.arch}
    if bound.group != (1, 1, 1):
        sizes |= {"shape": bound.group, "clusters": configuration.cluster != (1, 1, 1)}
    try:
        ended = reference.run(
            bound.program, configuration.grid, configuration.block, bound.rows, _copies(bound, initial), **sizes,
            budget=min(most, bound.settings.budget), races=False, recycling=False, read_only=False,
            lockstep=bound.settings.lockstep, uninitialized=bound.uninitialized, undefined=undefined,
        )  # fmt: skip
    except UnsupportedError:
        return None
    followed = undefined.find_followed()
    settled = bool(until) and until <= followed.reached.keys()
    cut = ended.status == "budget" and outcome.status == "done" and not settled
    return followed._replace(cut=cut, complete=ended.status == outcome.status == "done", most=most)


def _copies(bound: Bound, initial: Callable[[], list[Any]]) -> list[tuple[Any, bool]]:
    """Return copies of the segments of a launch from before it."""
    return [(np.array(data), writable) for data, (_, writable) in zip(initial(), bound.segments, strict=True)]


def _compare_contents(bound: Bound, outcome: Outcome, initial: Callable[[], list[Any]]) -> Followed:
    """Return the results that change if undefined registers have other contents, in two or three runs."""
    from wsemu.launch.running import ran

    program = bound.program
    rows = {row for row, *_ in program.undefined}
    predicates = {type_ for _, type_, _ in program.undefined} > {"p"}
    for contents in (*_OTHER_CONTENTS, *([_OTHER_CONTENTS[0] | {"p": False}] if predicates else [])):
        constants = [c._replace(value=contents[c.type]) if c.row in rows else c for c in program.constants]
        segments = _copies(bound, initial)
        other, *_ = ran(bound._replace(program=replace(program, constants=constants), segments=segments), None)
        same = other.executions == outcome.executions and all(
            np.array_equal(mine, own) for (mine, _), (own, _) in zip(segments, bound.segments, strict=True)
        )
        if not same:
            pc = _first_read(bound, rows)
            reached = {Source("register", row): Reach("store", pc, 0, 0, 0) for row in sorted(rows)[:1]}
            return Followed({}, reached, {}, compared=True)
    return Followed({}, {}, {})


def _first_influenced(bound: Bound, outcome: Outcome) -> int:
    """Return the first executed instruction whose control flow, address or operands may depend on an undefined
    register, or -1."""
    from wsemu.launch.binding import address_rows
    from wsemu.proof.unwritten import Unwritten

    segment_of = address_rows(bound.program, bound.rows, bound.names, bound.arrays)
    steered = Unwritten(bound.program, outcome.executions, segment_of.get).find_tainted
    return steered[0].pc if steered else -1


def _first_read(bound: Bound, rows: set[int]) -> int:
    """Return the first instruction that reads one of some registers, or 0."""
    code = bound.program.code
    return next((pc for pc, fields in enumerate(code[:, 3:7].tolist()) if not rows.isdisjoint(fields)), 0)


def settle(
    wanted: list[RawFinding],
    arisen: Sequence[RawFinding],
    places: Places,
    checkers: frozenset[str],
    followed: Followed | None,
) -> tuple[list[RawFinding], list[str]]:
    """Return the findings of a launch with the effects of their values, and the reasons why the proof does not apply if
    an effect is unknown.  `arisen` are all findings of undefined values."""
    if followed is None:
        return wanted, list(_reasons(arisen, places))
    kept = [settled for raw in wanted if (settled := _refine_finding(raw, places, followed)) is not None]
    reported = {_source(raw) for raw in kept if "sink" in raw.detail}
    unknown = [
        raw for raw in arisen
        if _source(raw) not in reported and (not followed.complete or _source(raw) in followed.reached)
    ]  # fmt: skip
    known = {_source(raw) for raw in arisen}
    new = [
        _unrecorded_finding(source, reach, followed)
        for source, reach in followed.reached.items()
        if source not in known
    ]
    reasons = list(_reasons(unknown, places, followed))
    if followed.steered >= 0:
        reasons.append(
            f"{places.where(followed.steered)}: on some path what this does depends on a register that nothing has "
            f"written, and reaches nothing in the first {followed.most:,} warp instructions; {_MORE}"
        )
    elif followed.cut and places.program.undefined and not any(s.kind == "register" for s in followed.reached):
        reasons.append(
            "registers that nothing has written on some path reach nothing in the first "
            f"{followed.most:,} warp instructions; {_MORE}"
        )
    return [*kept, *(raw for raw in new if CHECKER_OF[raw.code] in checkers)], reasons


def _source(raw: RawFinding) -> Source | None:
    return Source(ORIGINS[raw.code], raw.pc) if raw.code in ORIGINS else None


def _refine_finding(raw: RawFinding, places: Places, followed: Followed) -> RawFinding | None:
    """Return a finding with the first use of its undefined value, or as a copy, or as undecided; None if the value
    reaches nothing."""
    source = _source(raw)
    if source is None or places.verb(raw.pc) == "async":  # the source of a copy is an operand, which is not followed
        return raw
    if reach := followed.reached.get(source):
        return replace(raw, detail=raw.detail | _detail(reach))
    if source.kind == "load" and followed.cut:
        return replace(raw, detail=raw.detail | {"undecided": 1})
    if source.kind == "shuffle" or not followed.complete or source not in followed.arisen:
        return raw
    if source in followed.copied:
        return replace(raw, code="undefined-copy", other_pc=followed.copied[source], other_warp=raw.warp)
    return None


def _detail(reach: Reach) -> dict[str, int]:
    return {
        "sink": SINKS.index(reach.sink), "sink_pc": reach.pc, "sink_cta": reach.cta, "sink_warp": reach.warp,
        "sink_lane": reach.lane,
    }  # fmt: skip


def _unrecorded_finding(source: Source, reach: Reach, followed: Followed) -> RawFinding:
    """Return the finding for a source that the engines do not record: a register, or the result of an exchange."""
    if source.kind == "register":
        detail = {"row": source.place} | _detail(reach) | ({"compared": 1} if followed.compared else {})
        return RawFinding("undefined-register", reach.pc, reach.cta, reach.warp, 1 << reach.lane, detail=detail)
    cta, warp, lane, address, size = followed.arisen[source]
    if source.kind == "shuffle":  # the engine's table of findings was full
        return RawFinding(
            "undefined-shuffle", source.place, cta, warp, 1 << lane, detail={"source": lane} | _detail(reach)
        )
    detail = {"address": address, "size": size, "segment": address >> SEGMENT_SHIFT} | _detail(reach)
    return RawFinding("uninitialized-read", source.place, cta, warp, 1 << lane, detail=detail)


def _reasons(findings: Sequence[RawFinding], places: Places, followed: Followed | None = None) -> Iterator[str]:
    """Yield the reasons why the proof does not apply, for undefined values with unknown effects."""
    said = {}
    for raw in reversed(findings):
        who = f"{places.who(raw.cta, raw.warp)}: {lanes_text(raw.lanes)}"
        if raw.code == "undefined-shuffle":
            said[places.where(raw.pc)] = (
                f"{who} shuffle from a lane that takes no part, such as {raw.detail['source']}: on a GPU the value is "
                "undefined, here it is the reader's own: read from a lane of the mask that takes part"
            )
        elif followed is not None and followed.cut:
            said[places.where(raw.pc)] = (
                f"{who} read bytes that nothing has written: their value reaches nothing in the first "
                f"{followed.most:,} warp instructions; {_MORE}"
            )
    return (f"{where}: {what}" for where, what in reversed(said.items()))
