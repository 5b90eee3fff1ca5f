"""Judge a run: let checkers explain its raw findings, and determine the verdict.

failed       at least one error
incomplete   no error, but the proof does not apply: for example, the run stopped early, or control flow depends on the
             order of atomics
verified     no error, and the property `proof` is proven
"""

from __future__ import annotations

import functools
import math
import operator
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.checkers import registry
from wsemu.evidence.places import Places, lanes_text
from wsemu.evidence.suppressions import apply_suppressions
from wsemu.evidence.unreached import find_unreached, unreached_note
from wsemu.launch.ranks import name_scopes
from wsemu.launch.result import Report
from wsemu.model.codes import CHECKER_OF, CHECKERS, CODES, SCHEDULES
from wsemu.model.control_flow import STEERS, loop_numbers
from wsemu.model.data import NamedTuple, replace
from wsemu.model.effects import COMBINES, effects_of, find_opcodes
from wsemu.model.finding import Counters, Finding, HoldsIn, Suppressed, Unused, Verdict
from wsemu.model.isa import (
    ABORTS,
    ADDRESS_WRAPPED,
    ASSERTS,
    ATOMIC,
    ATOMICS,
    FIRST_STORE,
    HALVES_OF_VECTOR,
    LANES,
    LOCAL,
    MOST_COUNT,
    N_CONTROL,
    N_MEMORY,
    NAMES,
    OPCODE,
    OPERATIONS,
    PARTS_SHIFT,
    SEGMENT_SHIFT,
    SHARED,
    access_shape,
)
from wsemu.model.outcome import MOST_FINDINGS, MOST_SAME_VALUES
from wsemu.model.program import UNDEFINED, Program
from wsemu.model.tensor_memory import ALLOC
from wsemu.model.undefined import ORIGINS
from wsemu.proof.reaching_stores import NOTHING, LastWriters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence, Set

    from wsemu.launch.assignments import Assigned
    from wsemu.launch.explore.decided import Decided
    from wsemu.launch.failing_compares import Separate
    from wsemu.launch.moved_columns import Moved
    from wsemu.launch.unread import Unread
    from wsemu.model.launch_shape import LaunchConfiguration
    from wsemu.model.outcome import Event, FindingKey, Outcome, RawFinding, Trace, Tracer
    from wsemu.model.settings import Settings
    from wsemu.model.undefined import Followed
    from wsemu.proof.reaching_stores import Reaching
    from wsemu.proof.taint import Influence

    Follow = Callable[..., Followed | None]


EVERY_SCHEDULE = "deadlock-free and race-free in every schedule"
"""proven property of a `verified` launch with all checkers of `SCHEDULES`"""
STOPPED = {"budget": "step budget", "deadlock": "deadlock not looked for", "fault": "fault not looked for"}
"""the reason in one or two words for each status of a launch that ended early"""
RACES = ("race", "intra-warp-race")
AT_ONCE = (5, 6)
"""`what` of an `mbarrier-range` finding that occurs only if a whole phase is pending at once: bytes, arrivals"""
DECIDED = ("deadlock", *RACES)
"""codes of findings that state the schedules in which they hold"""


STEERING = "clocks", "placement", "active lanes", "polls"
"""possible influences on control flow besides atomics: clocks, placement by the hardware, active lanes, results of
waits"""


AROUND = {
    "atomics": "use the result of an atomic in no branch and no address, or check fewer CTAs or threads",
    "active lanes": "use a full mask after a `cuda.syncwarp()` instead of the mask of active lanes",
    "polls": "wait in a loop, and use neither the answer of a single test nor the token of an arrival",
    "clocks": "replace the clock by a constant, or use it only in what is stored",
    "placement": "use the index of the CTA or thread instead",
}
"""workaround for each influence on control flow"""


class _Doubts(NamedTuple):
    """The reasons why a run proves nothing, as texts, by kind."""

    stopped: list[str]
    unmodelled: list[str]
    undefined: list[str]
    asserted: list[str]
    orders: list[str]
    """interleavings of atomics on which findings depend"""
    loads: list[str]
    """possible excess at an mbarrier"""
    steered: dict[str, str]
    """kind of order on which each use of a value depends"""
    tried: Sequence[str] = ()
    """why the exploration of interleavings decided nothing"""
    unpromised: Sequence[str] = ()
    """behavior that is only observed on hardware"""
    placed: Sequence[str] = ()
    """facts that depend on the location of memory"""
    columns: Sequence[str] = ()
    """why an allocation of tensor memory may not end"""
    assigned: Sequence[str] = ()
    """why the launch is not decided for all assignments of canceled clusters"""
    unequal: dict[str, str] = {}
    """for each store of equal values by several lanes that may differ in another order, the word for what decides the
    values"""

    def reasons(self) -> list[str]:
        return [text for kind in self for text in kind]

    def words(self, status: str) -> list[str]:
        """Return the reasons in a word or two for each kind."""
        words = [STOPPED.get(status, "not modelled")] if self.stopped else []
        words += ["not modelled"] if self.unmodelled and "not modelled" not in words else []
        words += ["undefined value"] if self.undefined else []
        words += ["failed assertion"] if self.asserted else []
        words += ["bytes outstanding"] if self.loads else []
        words += ["hardware alone"] if self.unpromised else []
        words += ["addresses"] if self.placed else []
        words += ["tensor memory"] if self.columns else []
        words += ["canceled clusters"] if self.assigned else []
        influences = {*self.steered.values(), *self.unequal.values()}
        words += ["atomics"] if self.orders or "atomics" in influences else []
        return words + [word for word in STEERING if word in influences]


class _Findings(NamedTuple):
    """The findings: those kept, those that a suppression accepts, unused suppressions, and the number of unreported
    ones."""

    kept: list[Finding]
    suppressed: list[Suppressed]
    unused: list[Unused]
    costliest: list[Finding]
    untold: int

    @property
    def has_errors(self) -> bool:
        return any(finding.severity == "error" for finding in self.kept)


class Methods(NamedTuple):
    """Further runs and analyses for a verdict; None for each that does not apply to the launch."""

    decide: Callable[[], Decided | None] | None = None
    """explores the interleavings of the atomics that influence the launch"""
    gives_places: Callable[[Influence], bool] | None = None
    """returns whether these atomics only allocate slots"""
    follow: Follow | None = None
    """finds the effects of undefined values"""
    find_unordered_load: Callable[[], tuple[int, int] | None] | None = None
    """finds a strong load that another interleaving executes before the first store to its bytes"""
    move_columns: Callable[[Places], Moved] | None = None
    """runs the launch with its tensor memory allocations at other columns"""
    judge_assignments: Callable[[Places], Assigned] | None = None
    """runs the launch with other assignments of canceled clusters"""
    find_failing_compares: Callable[[Separate], list[RawFinding]] | None = None
    """finds the races with a `cas` that writes nothing"""
    decide_by_other_program: Callable[[Set[str], bool], Decided | None] | None = None
    """runs another program that decides this one, given the words for what influences this one: first the programs that
    are quicker than interleavings, then, if its argument is True, the others"""


def judge(
    configuration: LaunchConfiguration,
    places: Places,
    notes: tuple[str, ...],
    trace_of: Tracer,
    settings: Settings,
    started: float,
    more: Callable[[Places], list[Finding]] | None = None,
    methods: Methods | None = None,
) -> Report:
    """Return the report of a run.  `trace_of` runs it again for its events, `started` is its start time (perf_counter),
    and `more` performs checks specific to this launch."""
    one = _Judgment(configuration, places, trace_of, settings, methods or Methods())
    one.follow_undefined_values()
    one.find_influences()
    one.separate_undecided()
    one.run_variants()
    one.explain_findings(more)
    one.collect_doubts()
    one.decide_interleavings()
    one.doubt_undefined_values()
    one.admit_failed_assertions()
    one.doubt_addresses()
    one.doubt_stored_values()
    return one.report(notes, started)


class _Judgment:
    """The steps from the raw findings of a run to its verdict, in the order in which `judge` performs them."""

    found: _Findings
    doubts: _Doubts

    def __init__(
        self, configuration: LaunchConfiguration, places: Places, trace_of: Tracer, settings: Settings, methods: Methods
    ) -> None:
        self.configuration, self.places, self.trace_of = configuration, places, trace_of
        self.settings, self.methods = settings, methods
        self.program, self.outcome = places.program, places.outcome
        wanted = [raw for raw in places.outcome.findings if CHECKER_OF.get(raw.code) in settings.checkers]
        wanted, self.apart = _separate_meetings(wanted, places)
        self.wanted, self.mixed = _separate_vector_parts(wanted, places)
        """raw findings that hold in every schedule"""
        self.arisen = [raw for raw in self.outcome.findings if raw.code in ORIGINS] if not self.apart else []
        self.undefined: list[str] = []
        self.unread: Unread | None = None
        self.loads: list[str] = []
        self.columns: list[str] = []
        self.orders: list[str] = []
        self.assigned: Sequence[str] = ()
        self.failing: list[RawFinding] = []
        """failed assertions that depend on the schedule"""
        self.equal_here: dict[str, str] = {}
        """races of stores of one value that polls may change"""
        self.alike: Decided | None = None
        """the result of a program that is quicker than the interleavings"""
        self.decided: Decided | None = None

    def follow_undefined_values(self) -> None:
        """Find what undefined values reach."""
        if not (self.arisen or (self.program.undefined and not self.apart)):
            return
        from wsemu.launch.undefined import settle
        from wsemu.launch.unread import separate_unread

        followed = _follow_undefined(self.wanted, self.arisen, self.methods.follow)
        self.wanted, self.undefined = settle(self.wanted, self.arisen, self.places, self.settings.checkers, followed)
        self.wanted, self.unread = separate_unread(self.wanted, self.places, self.trace_of)

    def find_influences(self) -> None:
        """Find what atomics, clocks and masks of active lanes influence."""
        analysis = self.analysis = _analysis(self.places, self.settings, self.trace_of)
        gives_places = None if self.wanted else self.methods.gives_places
        self.given = False
        """true if atomics only allocate slots"""
        if gives_places is not None and analysis is not None and _only_atomics_influence(analysis, self.program):
            self.given = gives_places(analysis)
        self.steered, self.loose = _order_dependent(self.places, analysis, self.given)
        if self.methods.decide_by_other_program is not None and self.steered and not self.wanted:
            self.alike = self.methods.decide_by_other_program({*self.steered.values()}, False)
        if self.alike is not None:
            self.steered, self.loose = {}, [*self.alike.notes]

    def separate_undecided(self) -> None:
        """Remove findings that the proof does not decide, and keep their reasons."""
        places, depends = self.places, bool(self.steered)
        of_parts = functools.partial(_split_vectors, self.program, self.trace_of) if self.mixed else self.trace_of
        self.wanted, self.orders = _separate_atomics(self.wanted, places, of_parts, depends)
        find = self.methods.find_failing_compares
        if find is not None and any(raw.code in RACES for raw in self.wanted):
            compared = find(lambda left: _separate_atomics(left, places, of_parts, depends)[0])
            self.wanted, failing_compares = _separate_compares(self.wanted, places, compared)
            self.orders += failing_compares
        self.wanted, self.loads = _separate_phase_loads(self.wanted, places, self.trace_of)
        self.wanted, self.columns = _separate_reuse(self.wanted, places, self.configuration)
        self.wanted, self.failing = _separate_assertions(self.wanted, depends)
        self.wanted, self.equal_here = _separate_equal_stores(self.wanted, places)

    def run_variants(self) -> None:
        """Run the launch with other columns of tensor memory and other assignments of clusters."""
        if self.equal_here:  # these runs would report the stores
            return
        if self.methods.move_columns is not None and not _has_errors(self.wanted):
            moved = self.methods.move_columns(self.places)
            self.wanted, self.columns = [*self.wanted, *moved.findings], [*self.columns, *moved.reasons]
            self.loose = [*self.loose, *moved.notes]
        if self.methods.judge_assignments is not None and not _has_errors(self.wanted):
            other = self.methods.judge_assignments(self.places)
            self.wanted, self.assigned = [*self.wanted, *other.findings], other.reasons
            self.loose = [*self.loose, *other.notes]

    def explain_findings(self, more: Callable[[Places], list[Finding]] | None) -> None:
        """Let the checkers explain the remaining raw findings."""
        self.found = _judge_findings(self.wanted, self.places, self.trace_of, self.settings, bool(self.steered), more)

    def collect_doubts(self) -> None:
        """Collect the reasons for which the initial run proves nothing."""
        has_errors, untold = self.found.has_errors, self.found.untold
        stopped = _stop_reasons(self.places, self.settings, has_errors)
        if untold and not has_errors:  # all kept findings are accepted, but the omitted ones need not be
            stopped.append(_too_many(untold))
        self.doubts = _Doubts(
            stopped, [*self.program.unmodelled, *self.apart, *self.mixed], self.undefined,
            [] if has_errors else _assertion_texts(self.places, self.failing), self.orders, self.loads, self.steered,
            columns=self.columns, assigned=self.assigned,
        )  # fmt: skip

    def decide_interleavings(self) -> None:
        """Decide the launch for the interleavings of its atomics."""
        decided: Decided | None = None
        if self.methods.decide is not None and not self.arisen:  # others may cause other undefined values
            decided = _decide_orders(self.found, self.doubts, self.places, self.settings, self.methods.decide)
        if decided is not None and not decided.proven and _has_parts(self.program):
            decided = None  # with elements of vectors, the exploration can prove, but not report
        open_ = decided is None or not (decided.proven or decided.findings)
        quiet = not self.found.has_errors and all(raw.code == "undefined-shuffle" for raw in self.wanted)
        if open_ and self.doubts.steered and quiet and self.methods.decide_by_other_program is not None:
            decided = self.methods.decide_by_other_program({*self.doubts.steered.values()}, True) or decided
        if decided is not None:
            self.found, self.doubts = _apply_decision(self.found, self.doubts, self.places, self.settings, decided)
            self.loose = [*decided.notes, *(() if decided.proven else self.loose)]
        self.decided = decided

    def doubt_undefined_values(self) -> None:
        """Add what undefined values may reach in interleavings that were not explored."""
        decided, quiet = self.decided, not self.found.has_errors
        if self.program.undefined and quiet:
            proven = decided is not None and decided.proven and decided.besides is None
            if (self.given and not self.doubts.undefined) or proven:
                self._add_undefined(_unwritten(self.places))
            if decided is None and self.alike is None:
                self._add_undefined(_store_doubts(self.places, self.analysis, self.trace_of))
        self.decided = decided = decided or self.alike
        unread = self.unread
        if unread is not None and unread.reasons and quiet and not _stays_unread(unread, decided, self.methods.follow):
            self._add_undefined(unread.reasons)

    def _add_undefined(self, reasons: Sequence[str]) -> None:
        self.doubts = self.doubts._replace(undefined=[*self.doubts.undefined, *reasons])

    def admit_failed_assertions(self) -> None:
        """Count failed assertions as findings if nothing but atomics decides whether they occur."""
        if not self.failing or self.found.has_errors or _may_poll(self.program):
            return
        if _is_up_to_atomics(self.outcome, self.doubts):
            self.found = _with_assertions(self.found, self.failing, self.places, self.settings)
            self.doubts = self.doubts._replace(stopped=[], asserted=[], orders=[], steered={}, tried=())

    def doubt_addresses(self) -> None:
        """Add what depends on the location of memory, and on local memory that other warps may access."""
        is_one_warp = math.prod(self.configuration.block) <= LANES  # each lane of a warp is checked
        placed, addresses = _memory_placement_doubts(self.places, self.trace_of, self.decided)
        self.loose = [*self.loose, *addresses]
        self.doubts = self.doubts._replace(unpromised=[] if is_one_warp else self.program.shared_locals, placed=placed)

    def doubt_stored_values(self) -> None:
        """Add loads that another interleaving executes before the first store, and stores of unequal values."""
        if self.found.has_errors:
            return
        find = self.methods.find_unordered_load
        if find is not None and not any(self.doubts) and not (self.decided and self.decided.proven):
            self.doubts = self.doubts._replace(undefined=_load_doubts(self.places, find()))
        unequal = {} if self.analysis is None else _unequal_values(self.places, self.analysis)
        self.doubts = self.doubts._replace(unequal=unequal | self.equal_here)

    def report(self, notes: tuple[str, ...], started: float) -> Report:
        """Return the report with the verdict."""
        found, doubts, places, settings = self.found, self.doubts, self.places, self.settings
        verdict: Verdict = "failed" if found.has_errors else "incomplete" if any(doubts) else "verified"
        proof = _proof(places, settings, found, self.decided, self.given) if verdict == "verified" else ""
        notes = tuple(dict.fromkeys((*notes, *_notes(places, settings, found, doubts, self.loose))))
        found = found._replace(kept=name_scopes(found.kept, settings.ranks))
        reasons = doubts.words(self.outcome.status) if verdict == "incomplete" else []
        seconds = time.perf_counter() - started
        return _build_report(self.configuration, places, found, verdict, proof, notes, reasons, seconds)


def _has_errors(wanted: list[RawFinding]) -> bool:
    """Return whether some of the raw findings are errors."""
    return any(CODES[raw.code].severity == "error" for raw in wanted if raw.code in CODES)


def _build_report(
    configuration: LaunchConfiguration,
    places: Places,
    found: _Findings,
    verdict: Verdict,
    proof: str,
    notes: Sequence[str],
    reasons: list[str],
    seconds: float,
) -> Report:
    """Return the report of a launch that was judged."""
    unreached = find_unreached(places)
    return Report.build(
        kernel=places.program.name,
        grid=configuration.grid,
        block=configuration.block,
        verdict=verdict,
        arch=configuration.arch,
        dynamic_shared=configuration.dynamic_shared,
        findings=found.kept,
        suppressed=found.suppressed,
        unused=found.unused,
        untold=found.untold,
        costliest=found.costliest,
        counters=count(places.program, places.outcome),
        unreached=unreached,
        notes=[*notes, *([unreached_note(unreached)] if unreached and verdict != "failed" else [])],
        reasons=reasons,
        proof=proof,
        seconds=seconds,
    )


def _follow_undefined(wanted: list[RawFinding], arisen: list[RawFinding], follow: Follow | None) -> Followed | None:
    """Return the effects of undefined values.  `arisen` are those that the run recorded."""
    if follow is None:
        return None
    failed = any(CODES[raw.code].severity == "error" and raw.code not in ORIGINS for raw in wanted)
    return follow(arisen, failed)


def _stays_unread(unread: Unread, decided: Decided | None, follow: Follow | None) -> bool:
    """Return whether no order reads the undefined values that no thread reads in this run, and whether undefined values
    reach nothing else."""
    if decided is None or not decided.proven or decided.defined:
        return decided is not None and decided.proven
    stores = unread.find_unread(decided.loaded) if decided.loaded is not None else frozenset()
    if follow is None or not unread.stores <= stores:
        return False
    followed = follow([], False, stores)
    return followed is not None and followed.complete and not followed.reached


def _load_doubts(places: Places, accesses: tuple[int, int] | None) -> list[str]:
    """Return why the proof does not apply if another interleaving loads bytes before the first store to them."""
    if accesses is None:
        return []
    load, store = map(places.where, accesses)
    why = f"nothing orders this strong access after the first store to its bytes, {store}"
    return [f"{load}: {why}: in another order it reads bytes that nothing has written; initialize them before"]


def _store_doubts(places: Places, analysis: Influence | None, trace_of: Tracer) -> list[str]:
    """Return why another order of atomics may store an undefined register where this run stored another value."""
    sources = set() if analysis is None else {pc for pc, _ in analysis.order_dependent}
    reasons = _unwritten(places, values=True) if sources else []
    if reasons and sources <= _atomics_of_one_thread(sources, places, trace_of):
        return []
    return reasons


def _unwritten(places: Places, *, values: bool = False) -> list[str]:
    """Return why the proof does not cover other orders of atomics in which an undefined register may reach something,
    or only a stored value (`values`): registers are followed only in the initial run."""
    from wsemu.proof.unwritten import find_reached

    reached = find_reached(places.program, places.segment_of.get, values=values)
    if reached is None:
        return []
    where, what = places.where(reached[0]), reached[1]
    why = f"{where}: on some path the {what} depends on a register that nothing has written"
    return [f"{why}, which is followed in the initial run, not in other orders of the atomics: initialize it"]


def _judge_findings(
    wanted: list[RawFinding],
    places: Places,
    trace_of: Tracer,
    settings: Settings,
    steered: bool,
    more: Callable[[Places], list[Finding]] | None,
) -> _Findings:
    """Return the explained findings with those of further checks, without suppressed ones."""
    if wanted:
        places.keep_sources()
    trace = _trace(wanted, places, trace_of)
    folded = registry.drop_duplicates(wanted, places, trace)
    findings = _explain_findings(folded, places, trace)
    untold = _count_overflow(places, wanted, settings)
    examined, costliest = registry.examine(places, settings, trace_of)
    findings += examined
    if more is not None:
        findings += more(places)
    certain = _certain(wanted, places, settings) if findings and not steered else ()
    findings = [_finish_finding(finding, certain, settings) for finding in findings]
    findings.sort(key=lambda finding: finding.severity != "error")
    findings, suppressed, unused = apply_suppressions(findings, places, settings)
    accepted_races = [e for e in suppressed if e.finding.code == "race" and e.kind != "baseline"]
    if len(folded) < len(wanted) and accepted_races:
        # only the race is accepted, not the uninitialized bytes that it leaves
        reads = [raw for raw in wanted if raw.code == "uninitialized-read"]
        apart = [_finish_finding(finding, certain, settings) for finding in _explain_findings(reads, places, trace)]
        kept = [finding for finding in findings if finding.code != "uninitialized-read"]
        findings, more_suppressed, _ = apply_suppressions([*apart, *kept], places, settings)
        suppressed = [*(entry for entry in suppressed if entry.finding.code != "uninitialized-read"), *more_suppressed]
    return _Findings(findings, suppressed, unused, costliest, untold)


def _notes(places: Places, settings: Settings, found: _Findings, doubts: _Doubts, loose: list[str]) -> Iterator[str]:
    """Yield the notes of a report."""
    if found.untold and found.has_errors:
        yield _too_many(found.untold)
    yield from doubts._replace(steered={}).reasons() if found.has_errors else doubts.reasons()
    if not (found.has_errors or doubts.tried):
        yield from (f"to have the launch decided, {AROUND[word]}" for word in dict.fromkeys(doubts.steered.values()))
    if found.has_errors and doubts.steered:
        yield _steering_note(doubts.steered)
    yield from _exception_notes(places, settings)
    yield from loose
    yield from _lucky_alignment_notes(places)
    yield from _mask_notes(places, settings)
    if found.kept and places.program.sources_note:
        yield places.program.sources_note
    yield from (*places.program.doubts, *_same_values(places)) if settings.strict else ()
    wrong = any(f.severity == "error" and f.code not in _promoted_warnings(settings) for f in found.kept)
    if wrong and _wrote_arrays(places.program, places.outcome):
        what = "this run stored" if places.outcome.status == "done" else "was stored until then"
        yield f"the arrays hold what {what}: they are not valid results"


def _steering_note(steered: dict[str, str]) -> str:
    """Return one note of a failed launch for all that its schedule decides."""
    first, *more = steered
    return f"{first} ({len(more)} more like it)" if more else first


def _mask_notes(places: Places, settings: Settings) -> Iterator[str]:
    """Yield a note for each mask of active lanes that is as on hardware, but that PTX does not promise."""
    from wsemu.proof.parted_lanes import masks_of_paths
    from wsemu.proof.together import masks_after_barriers

    if settings.strict or settings.lockstep:
        return
    whole, of_paths = masks_after_barriers(places.program) | places.united, masks_of_paths(places.program)
    for found, which in (
        (whole, "are all lanes of the warp that reach it"), (of_paths, "include all lanes that take the same path"),
    ):  # fmt: skip
        executed = [mask for mask in found if places.outcome.executions[mask]]
        for where, line in dict.fromkeys((places.where(mask), places.line(found[mask])) for mask in executed):
            yield (
                f"{where}: the active lanes {which} from the barrier on line {line}, as on hardware; PTX does not "
                "promise it: `--strict` takes no mask for granted"
            )


def _count_overflow(places: Places, wanted: list[RawFinding], settings: Settings) -> int:
    """Return the number of findings at source locations beyond those that a launch keeps."""
    known = {_source_key(raw, places) for raw in wanted}
    chosen = (raw for raw in places.outcome.overflow if CHECKER_OF.get(raw.code) in settings.checkers)
    return len({_source_key(raw, places) for raw in chosen} - known)


def _source_key(raw: RawFinding | FindingKey, places: Places) -> tuple[Any, ...]:
    return raw.code, places.origin(raw.pc), places.origin(raw.other_pc) if raw.other_pc >= 0 else None


def _too_many(untold: int) -> str:
    kept = f"a launch keeps its first {MOST_FINDINGS:,} findings"
    return f"{kept}: {untold:,} more, at other places, are counted and no more"


def _may_be_fenced(program: Program, findings: list[Finding]) -> bool:
    """Return whether all errors are races in a program with strong accesses and fences, which may order the accesses
    after all."""
    kinds = {OPERATIONS[NAMES[op]].kind for op in program.code[:, 0].tolist()}
    errors = {finding.code for finding in findings if finding.severity == "error"}
    return errors == {"race"} and {"atomic", "fence"} <= kinds


def _is_up_to_atomics(outcome: Outcome, doubts: _Doubts) -> bool:
    """Return whether only the order of atomics is missing for a proof."""
    atomics = sum(word == "atomics" for word in doubts.steered.values())
    ended = outcome.status == "budget" or (outcome.is_trap and bool(doubts.asserted))
    endless = len(doubts.stopped) if ended else 0
    hangs = atomics + len(doubts.orders)
    return (hangs > 0 or outcome.waits) and len(doubts.reasons()) == hangs + endless + len(doubts.asserted) + len(
        doubts.tried
    )


def _decide_orders(
    found: _Findings, doubts: _Doubts, places: Places, settings: Settings, decide: Callable[[], Decided | None]
) -> Decided | None:
    """Return the decision from all interleavings of strong accesses, if one run does not decide for all, or may report
    false errors."""
    if not found.has_errors:
        return decide() if _is_up_to_atomics(places.outcome, doubts) else None
    if found.untold or _stop_reasons(places, settings, False) or not _may_be_fenced(places.program, found.kept):
        return None
    decided = decide()
    return decided if decided is not None and decided.proven else None


def _apply_decision(
    found: _Findings, doubts: _Doubts, places: Places, settings: Settings, decided: Decided
) -> tuple[_Findings, _Doubts]:
    """Return the findings and doubts, updated by the exploration of all interleavings, which also follows single lanes
    and `fence.sc`."""
    kept = [finding for finding in found.kept if not (decided.proven and finding.code == "race")]
    told = [finding for finding in decided.findings if CHECKER_OF[finding.code] in settings.checkers]
    told += registry.examine_others(places, settings, decided.besides) if decided.proven else []
    more, suppressed, _ = apply_suppressions([_promoted_to(finding, settings) for finding in told], places, settings)
    found = found._replace(kept=[*more, *kept], suppressed=[*found.suppressed, *suppressed])
    if found.has_errors:
        return found, doubts._replace(stopped=[], orders=[], steered={}, asserted=[])
    if decided.proven:
        return found, doubts._replace(stopped=[], orders=[], steered={})
    tried = list(decided.reasons)
    if any(finding.severity == "error" for finding in decided.findings) and not found.has_errors:
        tried.append("an order of atomics fails in a way that is accepted or not looked for: the rest is not tried")
    return found, doubts._replace(tried=tried)


def _proof(places: Places, settings: Settings, found: _Findings, tried: Decided | None, given: bool) -> str:
    """Return what the selected checkers prove if they find nothing, and what is missing for a full proof.

    `tried` is the decision for all interleavings of atomics; `given` means that these only allocate slots.
    """
    counts = Counter(finding.code for finding in (*found.kept, *(entry.finding for entry in found.suppressed)))
    reservations = [f"{n:,} {code}" for code, n in counts.items() if CODES[code].strict]
    in_all = ", in all orders of the atomics that steer it" if tried is not None else ""
    in_all += f": {tried.how}" if tried is not None and tried.how else ""
    in_all = ", whatever the order in which atomics give out places" if given and tried is None else in_all
    shown = _disabled_text(places, settings, found.suppressed) + in_all
    rests_on = [CODES[code].rests_on for code in counts if CODES[code].rests_on]
    shown += f", if {_join_with_and(rests_on)}" if rests_on else ""
    return f"{shown}, but {_join_with_and(reservations)}" if reservations else shown


def _join_with_and(texts: Sequence[str]) -> str:
    """Return `a, b and c`."""
    *others, last = texts
    return f"{', '.join(others)} and {last}" if others else last


def _disabled_text(places: Places, settings: Settings, suppressed: list[Suppressed]) -> str:
    promoted = _promoted_warnings(settings)  # a cost that counts as an error does not depend on schedules
    if any(entry.finding.severity == "error" and entry.finding.code not in promoted for entry in suppressed):
        return "no error in this schedule besides the suppressed ones"
    off = [name for name in CHECKERS if name not in settings.checkers]
    included = "the barrier of the grid" if places.program.meets_alone else "phases and copies"
    proven = f"{EVERY_SCHEDULE}, {included} included" if places.asynchronous() else EVERY_SCHEDULE
    if not off:
        return proven
    if not any(name in off for name in SCHEDULES):
        return f"{proven}; not looked for: {', '.join(off)}"
    on = [name for name in CHECKERS if name in settings.checkers]
    if len(on) < len(off):
        return f"looked for {', '.join(on) or 'nothing'} alone, no error in this schedule"
    return f"no error in this schedule; not looked for: {', '.join(off)}"


def _explain_findings(wanted: list[RawFinding], places: Places, trace: Trace | None) -> list[Finding]:
    """Return the findings for raw findings; its checker creates each one on first use."""
    wanted = _drop_repeats(wanted, places)
    return [
        Finding.later(
            raw.code,
            functools.partial(registry.explain, raw, places, trace),
            functools.partial(registry.explain, raw, places, None),
            raw.count,
            registry.severity(raw, places),
        )
        for raw in registry.sort_by_rank(wanted, places, trace)
    ]


def _drop_repeats(wanted: list[RawFinding], places: Places) -> list[RawFinding]:
    """Return only one of several findings with the same source locations, which come from an unrolled loop or a
    repeated pattern."""
    first: dict[tuple[Any, ...], RawFinding] = {}
    for raw in wanted:
        key = (*_source_key(raw, places), raw.detail.get("barrier"))
        known = first.get(key)
        first[key] = _merge_findings(known, raw) if known else raw
    return list(first.values())


def _merge_findings(first: RawFinding, other: RawFinding) -> RawFinding:
    """Merge two findings: return the first one, unless only the value of the other is known to reach something."""
    if _weight(other) > _weight(first):
        first, other = other, first
    unwritten = {name: 1 for name in ("unwritten",) if name in other.detail}
    return replace(first, count=first.count + other.count, detail=first.detail | unwritten)


def _weight(raw: RawFinding) -> int:
    """Return a rank for how much is known about the locations that the value of a finding reaches."""
    return 2 * ("sink" in raw.detail) + ("undecided" not in raw.detail)


def _trace(wanted: list[RawFinding], places: Places, trace_of: Tracer) -> Trace | None:
    """Return the events for the findings that need them: of the CTA that all concern, if there is one."""
    asked = registry.instructions_to_trace(wanted, places)
    if asked is None:
        return None
    ctas = {cta for raw in wanted for cta in (raw.cta, raw.detail.get("other_cta", raw.cta))}
    alone = len(ctas) == 1 and places.outcome.group == (1, 1, 1) and not places.depends_on_races()
    return trace_of(asked, ctas.pop() if alone else None)


def _separate_meetings(wanted: list[RawFinding], places: Places) -> tuple[list[RawFinding], list[str]]:
    """Remove findings that exist because lanes of a warp meet in one warp-wide operation from two call sites, each of
    which runs alone here, and give a reason for each.  Neither the operation nor the warp's later operations are
    decided."""
    alone: dict[tuple[Any, ...], list[RawFinding]] = {}
    for raw in wanted:
        if raw.code == "barrier-divergence" and raw.detail["barrier"] < 0:
            there = raw.detail["members"] & raw.detail["alive"]
            key = (int(places.program.code[raw.pc, 0]), raw.cta, raw.warp, there, raw.count)
            alone.setdefault(key, []).append(raw)
    met = [
        group
        for (*_, there, _), group in alone.items()
        if len(group) > 1
        and sum(raw.lanes for raw in group) == there  # the masks are disjoint
        and functools.reduce(operator.or_, (raw.lanes for raw in group)) == there
    ]
    if not met:
        return wanted, []
    out = [id(raw) for group in met for raw in group]
    follows = ("intra-warp-race", "uninitialized-read", "undefined-shuffle")
    kept = [raw for raw in wanted if id(raw) not in out and raw.code not in follows]
    return kept, [
        f"{places.where(group[0].pc)} and line {', '.join(str(places.line(raw.pc)) for raw in group[1:])}: lanes of a "
        "warp meet in one warp-wide operation from different places, which is not modelled: execute it once, after the "
        "branches"
        for group in met
    ]


def _has_parts(program: Program) -> bool:
    """Return whether the launch has strong accesses of vectors and others of the size of one of their elements, or
    strong accesses to halves of a vector."""
    atomics = [pc for pc, op in enumerate(program.code[:, 0].tolist()) if NAMES[op] in ATOMICS]
    whole = {_bytes(program, pc) for pc in atomics}
    halves = any(int(program.code[pc, 7]) & HALVES_OF_VECTOR for pc in atomics)
    return halves or any(parts > 1 and (size // parts, 1) in whole for size, parts in whole)


def _is_atomic(program: Program, pc: int) -> bool:
    """Return whether an instruction is an atomic of a lane, not a reduction by a copy."""
    return pc >= 0 and NAMES[int(program.code[pc, 0])] in ATOMICS


def _bytes(program: Program, pc: int) -> tuple[int, int]:
    """Return (bytes of an atomic, elements of the vector that it represents)."""
    op, auxiliary = int(program.code[pc, 0]), int(program.code[pc, 7])
    return access_shape(NAMES[op])[1], 1 << (auxiliary >> PARTS_SHIFT & 3)


def _separate_vector_parts(wanted: list[RawFinding], places: Places) -> tuple[list[RawFinding], list[str]]:
    """Remove races between a strong access of a vector and one of an element, and give a reason for each.  In PTX they
    are atomic with each other, but an order that they establish among the lanes of a warp is not detected here."""
    met = [raw for raw in wanted if meets_a_part(places.program, raw)]
    if not met:
        return wanted, []
    reasons = [
        f"{places.where(raw.other_pc)} and line {places.line(raw.pc)}: a strong access of a vector meets one of an "
        "element, which is not modelled: access the location in one size"
        for raw in met
    ]
    out = {id(raw) for raw in met} | {id(raw) for raw in wanted if raw.code in ("intra-warp-race", "missing-fence")}
    return [raw for raw in wanted if id(raw) not in out], list(dict.fromkeys(reasons))


def meets_a_part(program: Program, raw: RawFinding) -> bool:
    """Return whether a finding is a race between a strong access of a vector and one of its elements."""
    if raw.code not in RACES or not (_is_atomic(program, raw.pc) and _is_atomic(program, raw.other_pc)):
        return False
    if not raw.detail["kind"] == raw.detail["other_kind"] == ATOMIC:
        return False
    (size, parts), (other, others) = _bytes(program, raw.pc), _bytes(program, raw.other_pc)
    return parts != others and size // parts == other // others


def _split_vectors(program: Program, trace_of: Tracer, accesses: frozenset[int]) -> Trace:
    """Return a trace in which each strong access of a vector is split into its elements."""
    trace = trace_of(accesses)
    events: list[Event] = []
    for event in trace.events:
        atomic = event.kind == "atomic" and _is_atomic(program, event.pc)
        size, parts = _bytes(program, event.pc) if atomic else (0, 1)
        events += [event._replace(place=event.place + size // parts * n) for n in range(parts)]
    return replace(trace, events=events, readings={})


def _marks(outcome: Outcome, code: str) -> list[RawFinding]:
    return [raw for raw in outcome.findings if raw.code == code]


def _memory_placement_doubts(
    places: Places, trace_of: Tracer, decided: Decided | None
) -> tuple[list[str], list[str]]:  # fmt: skip
    """Return why the proof does not apply if behavior or results depend on where memory is located, and notes on
    addresses that the launch leaves for the host.  `decided` is the result for all interleavings of the atomics, which
    may execute code that the initial run does not."""
    from wsemu.proof.addresses import LEFT, NUMBER, depends_on_places

    names = {array.segment: f"`{array.name}`" for array in reversed(places.arrays)}
    proven = decided is not None and decided.proven and decided.besides is None
    besides = decided.besides if decided is not None and decided.besides is not None else frozenset[int]()
    executed = [int(proven or count or pc in besides) for pc, count in enumerate(places.outcome.executions)]
    examined = functools.partial(
        depends_on_places, places.program, executed, places.segment_of, lambda segment: names.get(segment, "an array")
    )
    found, strays = examined()
    if strays and not proven and places.outcome.status == "done" and any(one.what != LEFT for one in found):
        reached = _accessed_addresses(trace_of(strays), strays, places) if _is_alone(places) else None
        if reached is not None:
            found, examined = examined(reached).found, functools.partial(examined, reached=reached)
    if {one.what for one in found} - {LEFT} == {NUMBER} and decided is None and _reads_stores_of_run(places):
        reaching = _trace_stores(places, trace_of)
        found = found if reaching is None else examined(reaching=reaching).found
    reasons, notes = [], []
    for one in found:
        where, of = places.where(one.pc), " and ".join(one.of)
        if one.what == LEFT:
            lies = f"an address in {of} is left in memory, which differs by run"
            notes.append(f"{where}: {lies}: who reads it later is not followed")
            continue
        if one.what == NUMBER:
            why = "a number is used as an address of shared memory, whose start differs by GPU"
            reasons.append(f"{where}: {why}: compute it from the address of an array")
            continue
        what = "the value that is stored" if one.what == "value" else f"the {one.what}"
        lie = "lies" if len(one.of) == 1 else "lie"
        reasons.append(
            f"{where}: {what} depends on where in memory {of} {lie}, which differs by run: only distances in one "
            "array are the same: use an offset instead"
        )
    return list(dict.fromkeys(reasons)), list(dict.fromkeys(notes))


_ENDS_THREAD = "and end there, as in Numba's code without `debug`"


def _assertion_texts(places: Places, failing: list[RawFinding]) -> list[str]:
    """Return one text for each failed assertion or executed `trap`, which would end the launch on a GPU.  `failing` are
    further ones, in a launch whose schedule decides which instructions run."""
    marks = _marks(places.outcome, "failed-assertion")
    aborting = [raw for raw in marks if places.program.code[raw.pc, 7] == ABORTS]
    what = "fail an assertion, and end there; on a GPU the launch would end with an error"
    others = [raw for raw in failing if raw not in aborting]
    return _texts_by_place(aborting, what, places) + _texts_by_place(
        others, f"fail an assertion, {_ENDS_THREAD}", places
    )


def _exception_notes(places: Places, settings: Settings) -> list[str]:
    """Return one note for each location at which threads end by an exception, or by an assertion that is not
    checked."""
    notes = _texts_by_place(_marks(places.outcome, "raised-exception"), f"raise an exception, {_ENDS_THREAD}", places)
    if CHECKER_OF["failed-assertion"] in settings.checkers:
        return notes
    failed = _marks(places.outcome, "failed-assertion")
    marks = [raw for raw in failed if places.program.code[raw.pc, 7] == ASSERTS]
    return [*notes, *_texts_by_place(marks, f"fail an assertion, {_ENDS_THREAD}", places)]


def _texts_by_place(marks: list[RawFinding], what: str, places: Places) -> list[str]:
    """Return one text for each source line of some marks, which names the first warp there."""
    said = {
        places.where(raw.pc): f"{places.who(raw.cta, raw.warp)}: {lanes_text(raw.lanes)} {what}"
        for raw in reversed(marks)
    }
    return [f"{where}: {text}" for where, text in reversed(said.items())]


def _separate_assertions(wanted: list[RawFinding], steered: bool) -> tuple[list[RawFinding], list[RawFinding]]:
    """Separate failed assertions from other raw findings if the schedule decides which instructions run: all orders of
    the atomics are explored before these assertions are judged."""
    failing = [raw for raw in wanted if steered and raw.code == "failed-assertion"]
    return [raw for raw in wanted if raw not in failing], failing


def _may_poll(program: Program) -> bool:
    """Return whether a loop contains a strong access: an assertion may then limit its iterations, and fail only in this
    run."""
    loops = loop_numbers(program)
    return any(loops[pc] >= 0 and NAMES[op] in ATOMICS for pc, op in enumerate(program.code[:, 0].tolist()))


def _with_assertions(found: _Findings, failing: list[RawFinding], places: Places, settings: Settings) -> _Findings:
    """Add the assertions that fail in the initial run, which is one of the schedules."""
    told = [_promoted_to(registry.explain(raw, places, None), settings) for raw in _drop_repeats(failing, places)]
    note = "it fails in the initial run, in which each CTA runs to its end before the next one begins"
    told = [f.model_copy(update={"holds_in": "some schedules", "notes": [*f.notes, note]}) for f in told]
    more, suppressed, _ = apply_suppressions(told, places, settings)
    return found._replace(kept=[*more, *found.kept], suppressed=[*found.suppressed, *suppressed])


_ORDERS = frozenset(
    "race barrier-recycling mbarrier-lifetime mbarrier-uninitialized dsmem-after-exit dsmem-relaxed-exit".split()
)
"""codes of findings about two unordered operations"""
_IN_TIME = frozenset(("phase-alias", "uncovered-expectation"))
"""codes of findings about two operations on an mbarrier that may execute in the wrong order"""


def _separate_atomics(
    wanted: list[RawFinding], places: Places, trace_of: Tracer, steered: bool
) -> tuple[list[RawFinding], list[str]]:
    """Remove findings about operations that atomics and fences order in this run, and give a reason why each is
    undecided: in another schedule, the atomic may return another value.  `steered` means that the results of atomics
    influence the launch.  Only then are races between lanes of one warp considered, because otherwise lanes perform the
    same accesses in every order."""
    lanes = [raw for raw in wanted if raw.code == "intra-warp-race"] if steered else []
    phases = [raw for raw in wanted if raw.code in _IN_TIME] if steered else []
    if not lanes and not phases and not any(raw.code in _ORDERS for raw in wanted):
        return wanted, []
    from wsemu.launch.explore.describe import describe_phase_order
    from wsemu.proof.happens_before import ordered_by_atomics, uncounted_barriers
    from wsemu.proof.lane_edges import lanes_ordered_by_atomics, list_acquires, strong
    from wsemu.proof.phase_edges import (
        EXITS,
        asynchronous,
        cluster_wide,
        exits_ordered_by_atomics,
        fences_may_order,
        lives_ordered_by_atomics,
        phases_ordered_by_atomics,
    )

    if not fences_may_order(places.program):
        return wanted, []
    program, cluster_of = places.program, places.cluster_index
    after = frozenset(raw.pc for raw in wanted if raw.code == "race" and raw.detail["other_kind"] == ATOMIC)
    looked_at = strong(program) if lanes else frozenset()
    operations = enumerate(NAMES[op] for op in program.code[:, 0].tolist())
    compares = {pc for pc, name in operations if name in ATOMICS and ATOMICS[name][0] == "cas"} if after else set[int]()
    trace = trace_of(after | looked_at | {raw.pc for raw in wanted if raw.code in EXITS})
    more = asynchronous(program, cluster_of) if program.asynchronous else None
    ordered = ordered_by_atomics(
        trace, wanted, uncounted_barriers(program), observed=steered, more=more, cluster_of=cluster_of,
        wide=cluster_wide(program), compares=compares, acquires=list_acquires(program),
    )  # fmt: skip
    ordered += lives_ordered_by_atomics(trace, wanted, program, cluster_of)
    ordered += exits_ordered_by_atomics(trace, wanted, program, cluster_of)
    ordered += lanes_ordered_by_atomics(trace, lanes, program)
    in_time = phases_ordered_by_atomics(trace, phases, program, cluster_of)
    kept, reasons = [], []
    for raw in wanted:
        if raw in in_time:
            reasons.append(describe_phase_order(places, raw))
        elif raw in ordered:
            reasons.append(
                f"{places.where(raw.other_pc)} and line {places.line(raw.pc)} are ordered by atomics and fences alone: "
                "that holds in this schedule, and is not decided for others: put a barrier between the two"
            )
        else:
            kept.append(raw)
    return kept, list(dict.fromkeys(reasons))


def _separate_compares(
    wanted: list[RawFinding], places: Places, failing: list[RawFinding]
) -> tuple[list[RawFinding], list[str]]:
    """Remove races with a `cas` that writes nothing in this run, and give a reason why each is undecided."""
    reasons = [
        f"{places.where(raw.other_pc)} and line {places.line(raw.pc)}: nothing orders a read and a `cas` that fails "
        "here and writes nothing: whether it writes in another order is not decided: read by an atomic, or after a "
        "barrier"
        for raw in wanted
        if raw in failing
    ]
    return [raw for raw in wanted if raw not in failing], list(dict.fromkeys(reasons))


def _separate_equal_stores(wanted: list[RawFinding], places: Places) -> tuple[list[RawFinding], dict[str, str]]:
    """Remove races of stores that write the same value in this run, and that polls may change; give a reason for each,
    with the word for its source."""
    equal = [raw for raw in wanted if raw.code in RACES and "poll" in raw.detail]
    reasons = [
        f"{places.where(raw.other_pc)} and line {places.line(raw.pc)}: nothing orders these stores, which write the "
        f"same value in this run; whether they do in another one depends on {_source(places, raw.detail['poll'])[1]}: "
        "store it by one lane"
        for raw in equal
    ]
    return [raw for raw in wanted if raw not in equal], dict.fromkeys(reasons, "polls")


def _separate_phase_loads(
    wanted: list[RawFinding], places: Places, trace_of: Tracer
) -> tuple[list[RawFinding], list[str]]:
    """Remove findings that occur only if a whole phase of an mbarrier is pending at once, and give a reason for each;
    keep the findings for which such an order is known."""
    asking = [raw for raw in wanted if raw.code == "mbarrier-range" and raw.detail["what"] in AT_ONCE]
    if not asking:
        return wanted, []
    from wsemu.proof.outstanding import too_much

    trace = trace_of(frozenset())
    loose = [id(raw) for raw in asking if not too_much(trace, raw, places.program, places.cluster_index)]
    reasons = [
        f"{places.where(raw.pc)}: {places.element(raw.detail['address'], raw.pc)} gets {raw.detail['value']:,} "
        f"{'bytes' if raw.detail['what'] == AT_ONCE[0] else 'arrivals'} in a phase, and holds {MOST_COUNT:,} at once: "
        "whether in some schedule there are is not decided: wait between them, or use a second mbarrier"
        for raw in asking
        if id(raw) in loose
    ]
    return [raw for raw in wanted if id(raw) not in loose], reasons


def _separate_reuse(
    wanted: list[RawFinding], places: Places, configuration: LaunchConfiguration
) -> tuple[list[RawFinding], list[str]]:
    """Remove findings about allocations of tensor memory that the proof does not decide, and give a reason for each."""
    if OPCODE[ALLOC] not in places.program.opcodes:
        return wanted, []
    from wsemu.launch.columns import space_doubts, split_reuse

    wanted, reasons = split_reuse(wanted, places)
    return wanted, [*reasons, *space_doubts(places, configuration)]


def _analysis(places: Places, settings: Settings, trace_of: Tracer) -> Influence | None:
    """Return the influence of atomics, clocks and masks of active lanes; None if the program has none of these.

    If only masks of lanes that took the same path influence the launch, these are known.
    """
    from wsemu.proof.taint import ACTIVE
    from wsemu.proof.together import known_masks

    known = known_masks(places.program, strict=settings.strict)
    analysis = _examine(places, settings, trace_of, known)
    if analysis is None or settings.strict or settings.lockstep or places.outcome.status != "done":
        return analysis
    sources = {t.source for t in analysis.find_tainted} | {pc for pc, _ in analysis.order_dependent}
    masks = [pc for pc in sources if places.program.code[pc, 0] == ACTIVE]
    united = places.find_united_masks(masks) if masks else {}
    if not united:
        return analysis
    better = _examine(places, settings, trace_of, known | united.keys())
    if better is not None and better.find_tainted:  # other schedules may take other branches
        return analysis
    places.united = united
    return better


def _examine(places: Places, settings: Settings, trace_of: Tracer, known: frozenset[int]) -> Influence | None:
    """Return the influence of atomics, clocks and masks of active lanes that are not known.

    If the influence depends on which array in shared or local memory an access reaches, a second run determines that.
    """
    from wsemu.proof.taint import examine

    x, y, z = places.block
    examined = functools.partial(
        examine, places.program, places.outcome.executions, places.segment_of.get, lockstep=settings.lockstep,
        lanes_by_x=x % LANES == 0 or y == z == 1,
    )  # fmt: skip
    analysis = examined(settled=known)
    if analysis is None or places.outcome.status != "done" or not analysis.find_tainted:
        return analysis
    analysis, settled = _settle(examined, known, places, trace_of)
    if analysis is None or not analysis.find_tainted or not _is_alone(places):
        return analysis
    strays = analysis.strays
    if strays and not _has_influence(examined(settled=settled, reached=dict.fromkeys(strays, ()))):
        reached = _accessed_addresses(trace_of(strays), strays, places)
        better = None if reached is None else examined(settled=settled, reached=reached)
        if not _has_influence(better):
            return better
    if not _may_follow_stores(analysis, places):
        return analysis
    settle = functools.partial(_settle, settled=settled, places=places, trace_of=trace_of)
    found = settle(functools.partial(examined, reaching=NOTHING))[0]
    reaching = None if found is not None and found.find_tainted else _trace_stores(places, trace_of)
    if reaching is None:
        return analysis
    found = settle(functools.partial(examined, reaching=reaching))[0]
    return analysis if found is not None and found.find_tainted else found


def _settle(
    examined: Callable[..., Influence | None], settled: frozenset[int], places: Places, trace_of: Tracer
) -> tuple[Influence | None, frozenset[int]]:
    """Return the influence of all but the settled sources and the atomics of one thread, and all of these."""
    while (analysis := examined(settled=settled)) is not None and analysis.find_tainted:
        sources = {t.source for t in analysis.find_tainted}  # a use that depends on several atomics names one of them
        more = _atomics_of_one_thread(sources - settled, places, trace_of)
        if not more:
            break
        settled |= more
    return analysis, settled


def _reads_stores_of_run(places: Places) -> bool:
    """Return whether the loads of a launch read from the same stores as in the run, wherever its memory is located.
    Stores of the same value need not have the same value there."""
    meets = any(raw.code in (*RACES, "same-value-store") for raw in places.outcome.findings)
    return places.outcome.status == "done" and not meets and _is_alone(places) and not _holds_others(places.program)


def _holds_others(program: Program) -> bool:
    """Return whether instructions other than loads, stores and atomics may write to memory."""
    return program.asynchronous or any(array.heap for array in program.constant_arrays)


def _may_follow_stores(analysis: Influence, places: Places) -> bool:
    """Return whether values may be followed from each store to the loads that read from it."""
    from wsemu.proof.taint import ACTIVE

    program = places.program
    return not _holds_others(program) and not any(program.code[pc, 0] == ACTIVE for pc in analysis.sources)


def _trace_stores(places: Places, trace_of: Tracer) -> Reaching | None:
    """Return the stores from which the loads of a run read, or None if that is too much to follow."""
    writers = LastWriters(places.program)
    executed = frozenset(pc for pc in writers.kinds if places.outcome.executions[pc])
    if sum(places.outcome.executions[pc] for pc in executed) > MOST_ATOMICS:
        return None
    trace = trace_of(executed)
    for event in trace.events:
        if event.kind == "access" and event.pc in executed:
            writers.add(event.cta, event.warp, event.pc, trace.lane_addresses(event).items())
    return writers.reaching if trace.complete else None


MOST_ATOMICS = 1 << 16
"""maximum warp instructions of atomics for which threads are determined, and of accesses whose stores are"""


def _atomics_of_one_thread(sources: Set[int], places: Places, trace_of: Tracer) -> frozenset[int]:
    """Return the atomics among the sources whose locations no other thread's atomics access: these return the same in
    all schedules."""
    program, executions = places.program, places.outcome.executions
    kinds = enumerate(OPERATIONS[NAMES[op]].kind for op in program.code[:, 0].tolist())
    atomics = frozenset(pc for pc, kind in kinds if kind == "atomic" and executions[pc])
    wanted = atomics & sources
    if not wanted or sum(executions[pc] for pc in atomics) > MOST_ATOMICS or _reduces(program, executions):
        return frozenset()
    trace = trace_of(atomics)
    if not trace.complete:
        return frozenset()
    threads: dict[tuple[int, int], tuple[int, int, int]] = {}
    """(cluster of shared memory or -1, word) -> the only thread whose atomics access it"""
    touched: dict[int, set[tuple[int, int]]] = {pc: set() for pc in wanted}
    several: set[tuple[int, int]] = set()
    for event in trace.events:
        if event.kind != "access" or event.pc not in atomics:
            continue
        size = places.size(event.pc)
        for lane, address in trace.lane_addresses(event).items():
            start = address & ~ADDRESS_WRAPPED
            own = places.cluster_index(event.cta) if start >> SEGMENT_SHIFT == SHARED else -1
            thread = event.cta, event.warp, lane
            for word in range(start >> 2, (start + size - 1 >> 2) + 1):
                if threads.setdefault((own, word), thread) != thread:
                    several.add((own, word))
                if event.pc in touched:
                    touched[event.pc].add((own, word))
    return frozenset(pc for pc, words in touched.items() if words and not words & several)


def _reduces(program: Program, executions: Sequence[int]) -> bool:
    """Return whether a bulk or tensor reduction was executed: no thread performs its accesses."""
    operations = program.code[:, 0].tolist()
    return any(executions[pc] and op in COMBINES for pc, op in enumerate(operations))


def _is_alone(places: Places) -> bool:
    """Return whether CTAs run one at a time, so that an address in shared memory identifies its location."""
    return places.outcome.group == (1, 1, 1) and "window" not in places.program.specials


def _has_influence(analysis: Influence | None) -> bool:
    """Return whether something influences control flow, or that is unknown."""
    return analysis is None or bool(analysis.find_tainted)


def _accessed_addresses(trace: Trace, pcs: frozenset[int], places: Places) -> dict[int, set[int]] | None:
    """Return the addresses in shared and local memory of accesses that reached no other memory; None if not all are
    known."""
    found: dict[int, set[int]] = {pc: set() for pc in pcs}
    for event in trace.events:
        if event.kind == "access" and event.pc in found:
            for address in trace.lane_addresses(event).values():
                found[event.pc] |= {
                    address & ~ADDRESS_WRAPPED,
                    (address & ~ADDRESS_WRAPPED) + places.size(event.pc) - 1,
                }
    inside = {pc: at for pc, at in found.items() if at and {a >> SEGMENT_SHIFT for a in at} <= {SHARED, LOCAL}}
    return inside if trace.complete else None


def _only_atomics_influence(analysis: Influence, program: Program) -> bool:
    """Return whether something influences control flow, and only atomics do."""
    sources = {t.source for t in analysis.find_tainted}
    return bool(sources) and all(NAMES[int(program.code[pc, 0])] in ATOMICS for pc in sources)


def _order_dependent(places: Places, analysis: Influence | None, given: bool) -> tuple[dict[str, str], list[str]]:
    """Return why the proof does not apply if atomics, clocks or masks of active lanes influence the launch, or if such
    a mask decides what is stored; each reason has the word for its source.  Also return notes on values that depend on
    the order of atomics, or on clocks.  `given` means that atomics only select at which of their own locations threads
    store."""
    from wsemu.proof.taint import ACTIVE

    if analysis is None:
        return {}, []
    steered = {}
    for t in () if given else analysis.find_tainted:
        word, source = _source(places, t.source)
        steered[f"{places.where(t.pc)}: the {t.what} depends on {source}: one run decides nothing for the others"] = (
            word
        )
    loose = []
    for pc, why in analysis.order_dependent:
        said = f"{places.where(pc)}: {why}"
        if places.program.code[pc, 0] == ACTIVE:
            steered[said] = "active lanes"
        elif OPERATIONS[NAMES[int(places.program.code[pc, 0])]].result and places.program.code[pc, 0] >= N_CONTROL:
            steered[said] = "polls"
        else:
            loose.append(said)
    noted = {pc for pc, _ in analysis.order_dependent}
    for t in analysis.find_tainted if given else ():
        if t.what in STEERS.values() and t.source not in noted:
            _, source = _source(places, t.source)
            loose.append(f"{places.where(t.pc)}: the {t.what} depends on {source}, and so may what is left in arrays")
    return steered, list(dict.fromkeys(loose))


def _source(places: Places, pc: int) -> tuple[str, str]:
    """Return the kind and the description of a value that differs by schedule or by run."""
    from wsemu.proof.taint import CLOCK, LOAD, atomic_source_name

    line = places.line(pc)
    name = NAMES[int(places.program.code[pc, 0])]
    if name in ATOMICS:
        if atomic_source_name(places.program, pc) == LOAD:
            return "atomics", f"what the {LOAD} on line {line} sees, which differs by schedule"
        if ATOMICS[name][0] == "add.f":
            return "atomics", (
                f"a floating-point sum by the atomic on line {line}, whose rounding differs by schedule "
                "(store the parts, and add them in one order)"
            )
        return "atomics", f"the result of the atomic on line {line}, which differs by schedule"
    if name == "activemask":
        return "active lanes", f"which lanes are active together on line {line}, which differs by schedule"
    if OPERATIONS[name].kind == "async":
        what = "token of the arrival" if name == "mbarrier.arrive" else "answer of the wait"
        return "polls", f"the {what} on line {line}, which differs by schedule"
    if name == CLOCK:
        return "clocks", f"the clock read on line {line}, which differs by run"
    return (
        "placement",
        f"the number of a multiprocessor, or of a place for a warp, read on line {line}: it differs by run",
    )


def _certain(wanted: list[RawFinding], places: Places, settings: Settings) -> tuple[str, ...]:
    """Return the codes of findings that hold in every schedule.  If barriers are well-synchronized, they have the same
    generations in all schedules, and a race is one in all.  All schedules do the same, up to a deadlock, unless racing
    values influence them."""
    found = {raw.code for raw in wanted}
    # a count-mismatch before another schedule would end
    early = {"barrier-recycling", "count-mismatch", *CHECKERS["mbarrier"], *CHECKERS["phase"]} - {"dangling-phase"}
    needed = {"race", "recycling"} | ({"mbarrier", "phase"} if places.asynchronous() else set())
    if not needed <= settings.checkers or found & early:
        return ()
    if not found.isdisjoint(("proxy", "tensormap-proxy")):
        return RACES
    certain = RACES if _is_steered_by_races(places) else DECIDED
    return tuple(code for code in certain if code != "deadlock" or _always_stuck(places))


def _is_steered_by_races(places: Places) -> bool:
    """Return whether racing values may influence control flow or addresses."""
    from wsemu.proof.taint import may_be_influenced

    outcome = places.outcome
    racing = {pc for raw in outcome.findings if raw.code in RACES for pc in (raw.pc, raw.other_pc) if pc >= 0}
    if outcome.status != "deadlock" or not racing:
        return bool(racing)
    return bool(outcome.overflow) or may_be_influenced(
        places.program, outcome.executions, racing, places.segment_of.get
    )


def _always_stuck(places: Places) -> bool:
    """Return whether a deadlock occurs in every schedule, judged by pending phases of mbarriers and by registers.  In
    another order, byte counts may balance before more bytes arrive, expect-tx operations may follow all arrivals, and
    registers may go to other warps."""
    code, executions = places.program.code, places.outcome.executions
    executed = {NAMES[op] for op in code[np.flatnonzero(executions), 0].tolist()}
    loose = bool(executed & {"mbarrier.expect_tx", "mbarrier.complete_tx", "cp.async.arrive"})
    open_ = [phase for phase in places.outcome.phases if not phase.pending]
    if any(wait.phase > 0 for wait in places.outcome.phase_waits):  # the bytes may arrive in time for an earlier phase
        return False
    return "setmaxnreg.inc" not in executed and not any(phase.tx < 0 or (phase.tx and loose) for phase in open_)


def _promoted_warnings(settings: Settings) -> set[str]:
    """Return the codes of warnings that count as errors."""
    return {*settings.fail_on, *(code for code, entry in CODES.items() if entry.strict and settings.strict)}


def _promoted_to(finding: Finding, settings: Settings) -> Finding:
    return finding.model_copy(update={"severity": "error"}) if finding.code in _promoted_warnings(settings) else finding


def _finish_finding(finding: Finding, certain: tuple[str, ...], settings: Settings) -> Finding:
    """Return a finding with its severity, and with the schedules in which it holds."""
    changes: dict[str, Any] = {}
    if finding.code in _promoted_warnings(settings):
        changes["severity"] = "error"
    if finding.code in (*DECIDED, "barrier-recycling"):
        holds: HoldsIn = "every schedule" if finding.code in certain else "some schedules"
        changes["holds_in"] = holds
    return finding.model_copy(update=changes) if changes else finding


def _lucky_alignment_notes(places: Places) -> list[str]:
    """Return notes on shared arrays that are accessed wider than their declaration guarantees, but are aligned for that
    here."""
    declared = {array.name: array for array in places.program.shared}
    widest: dict[str, int] = {}
    for pc in places.outcome.accesses:
        name = places.program.array_of[pc]
        if name in declared and places.size(pc) > declared[name].alignment:
            widest[name] = max(places.size(pc), widest.get(name, 0))
    return [
        f"`{name}` is accessed {size} bytes at a time, and its declaration asks for {declared[name].alignment}: on a "
        f"GPU it may lie elsewhere, declare it with `alignment={size}`"
        for name, size in widest.items()
    ]


def _same_values(places: Places) -> list[str]:
    """Return notes on stores with which several lanes write one value to one location, if requested."""
    marks = _marks(places.outcome, "same-value")
    found = {(places.where(raw.pc), places.array_name(raw.pc)) for raw in marks}
    return [
        f"{where}: several lanes of one store write the same value to one element of {what}"
        for where, what in sorted(found)
    ]


def _unequal_values(places: Places, analysis: Influence) -> dict[str, str]:
    """Return stores by which lanes write equal values to one element, perhaps only in this order of the atomics.  Each
    comes with the word for what decides the values."""
    from wsemu.proof.uniform import stores_one_value

    marks = {raw.pc for raw in _marks(places.outcome, "same-value")}
    if len(places.outcome.findings) + len(places.outcome.overflow) >= MOST_SAME_VALUES:
        marks = {pc for pc, op in enumerate(places.program.code[:, 0].tolist()) if FIRST_STORE <= op < N_MEMORY}
    found = {}
    for pc, source in sorted(analysis.find_stored(marks).items()):
        if not stores_one_value(places.program, pc):
            word, of = _source(places, source)
            found[
                f"{places.where(pc)}: lanes of this store write the same value to one element of "
                f"{places.array_name(pc)} in this run, and it depends on {of}: store it by one lane"
            ] = word
    return found


def _wrote_arrays(program: Program, outcome: Outcome) -> bool:
    """Return whether a store or atomic was executed that may have written to an argument."""
    for pc, access in outcome.accesses.items():
        kind = OPERATIONS[NAMES[int(program.code[pc, 0])]].kind
        if kind == "atomic" or (kind == "store" and access.sectors):
            return True
    return False


def _stop_reasons(places: Places, settings: Settings, failed: bool) -> list[str]:
    """Return why the run ended before the kernel did, if that is not a finding."""
    outcome = places.outcome
    if outcome.status == "done":
        return []
    where = f" at {places.where(outcome.fault_pc)}" if outcome.fault_pc >= 0 else ""
    if outcome.is_trap and NAMES[int(places.program.code[outcome.fault_pc, 0])] != "trap":
        if effects_of(NAMES[int(places.program.code[outcome.fault_pc, 0])]).moves.unit == "tile":
            what = (
                "of another mode than its copy, interleaved with element strides, written by an atomic or a copy of "
                "the launch, or of pixels that do not begin in its box"
            )
            return [f"a tensor map {what}, is not modelled{where}: copy by threads or by bulk copies there"]
        if effects_of(NAMES[int(places.program.code[outcome.fault_pc, 0])]).moves.unit == "columns":
            what = (
                "of K = 96, or a sparse one with fewer than 128 rows in a CTA, a selector above 1, metadata at an odd "
                "column, or rows of b swizzled by 32 bytes,"
            )
            return [f"a `tcgen05.mma` {what} is not modelled{where}: use another shape or layout"]
        most = f"more live mbarriers in a CTA than the {len(outcome.phases) - 1:,} that are modelled{where}"
        return [f"{most}: invalidate unused ones"]
    if outcome.is_trap and failed and int(places.program.code[outcome.fault_pc, 7]) == ABORTS:
        return []
    if outcome.is_trap:
        why = places.program.traps[int(places.program.code[outcome.fault_pc, 6])]
        if why.startswith(UNDEFINED):
            why = f"{why.removeprefix(UNDEFINED).splitlines()[0]}; its checker is off, or it is suppressed"
            return [] if failed else [why + where]
        return [why if where and why.endswith(f"({where.removeprefix(' at ')})") else why + where]
    if outcome.status in ("deadlock", "fault") and not failed:
        return [f"the launch ended in a {outcome.status}{where}; its checker is off, or it is suppressed: turn it on"]
    if outcome.status == "budget":
        held = "".join(_held_back(places))
        if outcome.waits:
            return [_waits(places)]
        if outcome.repeats:
            return [_repeats(places)]
        most = f"step budget of {settings.budget:,} warp instructions used up"
        return [f"{most}: an endless loop, or raise it with `budget=` (`--budget`){held}"]
    if outcome.status == "stack":
        return [f"branches diverge more than 64 levels deep{where}, which is not modelled: nest fewer branches"]
    return []


def _waits(places: Places) -> str:
    """Return the note on a run that was ended because only loops that wait were running."""
    from wsemu.proof.idle import never_ends

    running = [warp.pc for warp in places.outcome.warps if warp.alive and warp.waits < 0]
    where = sorted({places.where(pc) for pc in running})
    at = f"{where[0]}: " if where else ""
    what = "a loop waits for memory to change, and no thread that runs before it ends changes it"
    if running and all(never_ends(places.program, pc) for pc in running):
        what = "a loop has no end: every round takes the same path"
    after = f"ended after {places.outcome.warp_instructions:,} warp instructions"
    around = "write it in a running thread and poll with a volatile or atomic load, or limit the rounds"
    return f"{at}{what}: {after}{''.join(_held_back(places))}: {around}"


def _repeats(places: Places) -> str:
    """Return the note on a run that was ended because all its warps returned to earlier states."""
    numbers = loop_numbers(places.program)
    running = {numbers[warp.pc] for warp in places.outcome.warps if warp.alive and warp.waits < 0} - {-1}
    at = f"{places.where(numbers.index(min(running)))}: " if running else ""
    unless = ""
    if places.outcome.cta + 1 < math.prod(places.grid) and _loads(places.program, numbers, running):
        unless = ", unless a CTA that has not started ends it"
    what = f"a loop has no end{unless}: registers and memory return to the values of an earlier round"
    return f"{at}{what}{''.join(_held_back(places))}: limit the rounds"


def _loads(program: Program, numbers: Sequence[int], loops: Set[int]) -> bool:
    """Return whether instructions of these loops load from memory."""
    kinds = (OPERATIONS[NAMES[op]].kind for op in program.code[:, 0].tolist())
    return any(number in loops and kind in ("load", "atomic") for number, kind in zip(numbers, kinds, strict=True))


def _held_back(places: Places) -> Iterator[str]:
    """Yield the lanes that wait for others of their warp, which do not arrive (B14)."""
    from wsemu.checkers import held_back

    held = held_back.held_warps(places)
    yield from (f"; {held_back.message(places, warp)}" for warp in held)
    for warp in (w for w in places.outcome.warps if w not in held):
        standing = sum(lanes for _, lanes in warp.standing)
        for pc, lanes in warp.standing:
            yield (
                f"; {places.where(pc)}: {lanes_text(lanes)} of {places.who(places.outcome.cta, warp.warp)} wait for "
                f"{lanes_text(warp.alive & ~standing)}, which come to no warp-wide operation"
            )


_OF_TILES = find_opcodes(lambda row: row.counter == "tiles")
"""operations that access tiles in shared memory, whose bank conflicts are not counted"""


def count(program: Program, outcome: Outcome) -> Counters:
    """Return the counters of a report from an outcome."""
    mix: dict[str, int] = {}
    costs: Any = Counter()
    numbers = program.code[:, 0].tolist()
    executions: dict[int, int] = {}
    for op, times in zip(numbers, outcome.executions, strict=False):
        if times:
            executions[op] = executions.get(op, 0) + times
    own = {array.name for array in program.locals} - {array.name for array in program.shared}
    barriers = 0
    for op, n in executions.items():
        operation = OPERATIONS[NAMES[op]]
        mix[operation.group] = mix.get(operation.group, 0) + n
        barriers += n if operation.kind == "barrier" else 0
        costs["uncounted_tiles"] += n if op in _OF_TILES else 0
    for pc, access in outcome.accesses.items():
        kind = OPERATIONS[NAMES[numbers[pc]]].kind
        costs[f"shared_{kind}_wavefronts"] += access.wavefronts
        costs[f"ideal_shared_{kind}_wavefronts"] += access.ideal_wavefronts
        costs["uncounted_atomics"] += access.uncounted
        if kind != "atomic":
            costs[f"global_{kind}_sectors"] += access.sectors
            costs[f"ideal_global_{kind}_sectors"] += access.ideal_sectors
    return Counters.build(
        warp_instructions=outcome.warp_instructions,
        thread_operations=outcome.thread_operations,
        accesses=sum(access.lanes for pc, access in outcome.accesses.items() if program.array_of[pc] not in own),
        barrier_operations=barriers,
        instruction_mix=dict(sorted(mix.items())),
        **costs,
    )
