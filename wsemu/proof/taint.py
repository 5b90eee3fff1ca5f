"""Find values that depend on the order of atomics, by a data-flow analysis of the bytecode.

The proof of a launch rests on warps that execute the same instructions at the same addresses in every schedule.  Races
are reported, so only an atomic's result can bring the order of threads into a register: a plain load that sees another
thread's store is either ordered by a barrier, or a race.  The analysis follows those results to where they would
influence the behavior of the launch (`find_tainted`).  It also names the atomics that may leave different values in
memory if they execute in another order (`order_dependent`).

**Registers.** A register row is used again for unrelated values, so each program point has its own map from rows to
their possible contents.  Only the lanes that execute a write change their part of a row.  So a lane's part changes on
the path of this lane only, although the machine runs the sides of a branch one after another over the same rows.  The
paths of a lane are the paths of the control-flow graph: an unguarded write replaces the contents of a row, a guarded
write adds to the contents, and a join takes the union.  Lanes exchange values at one instruction, at which the map
already has the union over all lanes.

**Memory.** Other threads may be anywhere, so memory has one state for the whole launch, array by array.  The same
analysis finds the arrays that an access may touch: an address carries the arrays that it was computed from.  An array
is order-dependent if its atomics do not commute, or if a program stores to it a value, or at an address, that depends
on the order.  Atomics commute when all are the same integer operation (add, min, max, and, or, xor) or
floating-point minimum or maximum (up to the sign of a zero), or all apply one function with constant operands.

**Control.** A branch that depends on the order is reported itself, so the analysis does not follow its effects on
control; for the same reason only executed instructions count.

**Phases.** The analysis follows two more results.  One is the result of a wait for an mbarrier, unless the wait blocks
or only guards a wait that blocks.  The other is the token of an arrival if the token is used for anything but a wait,
because a token contains the number of pending arrivals.  So does the count that `mbarrier.pending_count` takes out of a
token, or of any other number, for which PTX defines none.

**Clocks.** A `varying` value, such as that of a clock in PTX, is followed like the result of an atomic.

**Active lanes.** The analysis also follows the mask that `activemask` returns, because lanes that could run together
need not do so (CUDA C++ Programming Guide, "Warp Vote Functions").  The mask may contain any subset of the lanes that
reach the instruction, with the lane itself.  There is only one possible mask if the lanes of a warp run in lockstep.
If one lane adds for all active lanes, the sum is equal for all masks (`election.py`).  The choice of this lane has no
effect if only atomics touch the array.

Detects: branches, exits, guards, addresses, barrier operands and member masks that may depend on the order of atomics;
values in memory that depend on the order.  An address may lead to any array of the caller if its origin is unknown, or
if it may be a number on some path.  It also leads to shared or local arrays if an address in this space was stored or
passed to other lanes.  An offset in shared or local memory leads to all of that space, and so does a sum that may leave
its array there.
Does not detect: that a value such as `x ^ x` does not depend on the order, or that only some elements of an array do.
In both cases the analysis may report too much, never too little.
Reference: A.  Sabelfeld, A.  Myers, "Language-based information-flow security", IEEE JSAC 21(1), 2003 (explicit flows).
"""

from __future__ import annotations

import functools
import heapq
import operator
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from wsemu.model.control_flow import BRA, ENDS, EXIT, JOIN, JUMPS, STEERS, TRAP, successors
from wsemu.model.data import dataclass
from wsemu.model.effects import COMBINES, EFFECTS, find_opcodes
from wsemu.model.isa import (
    AS_LOAD,
    AS_STORE,
    ATOMICS,
    BLOCKS,
    BULK_REDUCTIONS,
    CONVERGED,
    N_ATOMIC,
    N_MEMORY,
    NAMES,
    NO_STORE,
    OPCODE,
    PEEK,
    SCOPES,
    SERVED,
    TENSOR_REDUCTIONS,
    opcodes,
)
from wsemu.model.program import GIVES_UP, Program
from wsemu.proof.election import Election, elections
from wsemu.proof.liveness import live_rows
from wsemu.proof.reaching_stores import Reaching
from wsemu.proof.taint_steps import Bits, Decoder, Reached, Regions, SegmentOf, State, Step, segment_pattern

GUARDED = {
    "load": "guard of a load",
    "store": "guard of a store",
    "atomic": "guard of an atomic",
    "barrier": "guard of a barrier",
    "warp": "guard of a warp operation",
    "async": "guard of an asynchronous operation",
    "fence": "guard of a fence",
}
COMMUTING = frozenset(
    f"{what}{sign}" for what, signs in {
        "add": ("",), "and": ("",), "or": ("",), "xor": ("",), "min": (".s", ".u", ".f"), "max": (".s", ".u", ".f"),
        "nanmin": (".f",), "nanmax": (".f",),
    }.items() for sign in signs
)  # fmt: skip
"""kinds of atomics that leave the same value in any order, if an array has only atomics of this kind"""
REASONS = {
    "exch": "which thread's {} comes last depends on the order",
    "cas": "which thread's {} succeeds depends on the order",
    "add.f": "floating-point additions round, so their sum depends on the order",
    "inc": "where {} with different limits wraps depends on the order",
    "dec": "where {} with different limits wraps depends on the order",
}
LOAD, STORE = "volatile or atomic load", "volatile or atomic store"

CLOCK, PLACEMENT = "varying.b64", "varying.b32"
"""sources whose values differ between runs: a clock, and the placement of a warp on the hardware"""
VARYING = (CLOCK, PLACEMENT)
WAITS = tuple(find_opcodes(lambda row: row.waits == "phase"))
TOKENS, REDUCES = opcodes("mbarrier", "arrive", "pending_count"), COMBINES
_OPERANDS = {
    "barrier": "barrier operand", "warp": "member mask", "async": "operand of an mbarrier operation or wait",
    "load": "coordinate of a tensor copy", "store": "size of an asynchronous copy",
    "atomic": "size of an asynchronous copy",
}  # fmt: skip
_SOURCE = np.array([
    N_MEMORY <= op < N_ATOMIC or name in VARYING or op in (*TOKENS, *REDUCES) for op, name in enumerate(NAMES)
])  # fmt: skip
"""opcode -> whether the result may depend on the order of threads"""
ACTIVE = OPCODE["activemask"]


@dataclass(frozen=True, slots=True)
class Tainted:
    """An executed instruction that may behave differently in another schedule."""

    pc: int
    source: int
    """pc of the first source on which the instruction depends"""
    what: str
    """dependent use: branch, exit, address, barrier operand, member mask, or a `GUARDED`"""


def find_tainted(program: Program, executions: Sequence[int], segment_of: SegmentOf | None = None) -> list[Tainted]:
    """Return executed instructions whose flow, address or operands depend on an executed atomic, sorted by pc.

    `executions`: number of executions of each instruction.  `segment_of` returns the memory segment of an array
    argument from the row of its address (`Parameter.part == "address"`).  Without `segment_of`, all array arguments may
    be in one segment.
    """
    found = examine(program, executions, segment_of)
    return [] if found is None else found.find_tainted


def order_dependent(
    program: Program, executions: Sequence[int], segment_of: SegmentOf | None = None
) -> list[tuple[int, str]]:
    """Return (pc, reason) of executed atomics that may leave other values in memory in another order, sorted by pc.

    This includes an atomic whose result is stored, because the old value depends on the order of the threads.
    """
    found = examine(program, executions, segment_of)
    return [] if found is None else found.order_dependent


def examine(
    program: Program,
    executions: Sequence[int],
    segment_of: SegmentOf | None = None,
    *,
    lockstep: bool = False,
    lanes_by_x: bool = False,
    reached: Reached | None = None,
    reaching: Reaching | None = None,
    settled: Container[int] = (),
) -> Influence | None:
    """Return the influence from which `find_tainted` and `order_dependent` are read; None if no source was executed.

    `settled`: atomics that return the same values in all schedules.  `lockstep`: the lanes of a warp run together.
    `lanes_by_x`: a lane is tid.x modulo 32.  `reached`: accesses with the addresses in shared and local memory that
    they used in this run.  If nothing is tainted, they use the same addresses in all schedules.  `reaching`: the stores
    from which loads read in this run.  If nothing is tainted, they read from the same ones in all schedules.
    """
    executed = [pc for pc in list_sources(program, lockstep) if executions[pc]]
    if not executed:
        return None

    def find_sources() -> list[int]:
        return [pc for pc in _written_sources(program, segment_of, executed) if pc not in settled]

    def analyze(sources: Sequence[int]) -> Analysis:
        elected = {
            pc: made for pc in sources if program.code[pc, 0] == ACTIVE
            if (made := elections(program, pc, lanes_by_x=lanes_by_x))
        }  # fmt: skip
        analysis = Analysis(program, executions, sources, segment_of, elected, reached=reached, reaching=reaching)
        if analysis.elections_hold:
            return analysis
        return Analysis(program, executions, sources, segment_of, reached=reached, reaching=reaching)

    ran, stays = (np.asarray(executions) != 0).tobytes(), tuple(pc for pc in executed if pc in settled)
    key = ran, segment_pattern(program, segment_of), lanes_by_x, tuple(executed), stays
    observed = reached is not None or reaching is not None
    answers: dict[Hashable, Any] = {} if observed else program.remember("influence", key, dict)
    influence = Influence(find_sources, analyze, answers)
    return influence if influence.sources else None


def _written_sources(program: Program, segment_of: SegmentOf | None, sources: list[int]) -> list[int]:
    """Return the sources without strong loads of arrays that no instruction of the program writes."""
    loads = {pc for pc in sources if is_strong_load(program, pc)}
    unwritten = read_only(program, segment_of, sources) if loads else set()
    return [pc for pc in sources if pc not in unwritten]


def is_strong_load(program: Program, pc: int) -> bool:
    """Return whether an instruction is an atomic that writes nothing."""
    return bool(N_MEMORY <= program.code[pc, 0] < N_ATOMIC and program.code[pc, 7] & NO_STORE)


def read_only(program: Program, segment_of: SegmentOf | None, atomics: Iterable[int]) -> set[int]:
    """Return the atomics that only access arrays that no instruction writes."""
    wanted = sorted(atomics)
    if not any(is_strong_load(program, pc) for pc in wanted):
        return set()
    everywhere = [pc for pc in range(len(program.code)) if _is_atomic(int(program.code[pc, 0]))]
    analysis = Analysis(program, [1] * len(program.code), everywhere, segment_of)
    written = 0
    touched: dict[int, Bits] = {}
    for step, state in analysis._states():
        if step.kind in ("store", "atomic"):
            arrays = analysis._arrays(step, state)
            if step.kind == "atomic" and is_strong_load(program, step.pc):
                touched[step.pc] = touched.get(step.pc, 0) | arrays
            else:
                written |= arrays
    return {pc for pc in wanted if pc in touched and not touched[pc] & written}


def like_data(program: Program, atomics: Iterable[int], segment_of: SegmentOf | None = None) -> frozenset[int]:
    """Return the atomics that are strong loads and stores, that access only arrays without other atomics, and whose
    results do not influence the behavior of the launch."""
    everywhere = sorted(atomics)
    plain = {pc for pc in everywhere if _is_access(program, pc)}
    if not plain:
        return frozenset()
    executions = [1] * len(program.code)
    analysis = Analysis(program, executions, everywhere, segment_of)
    touched = dict.fromkeys(everywhere, 0)
    for step, state in analysis._states():
        if step.kind == "atomic" and step.pc in touched:
            touched[step.pc] |= analysis._arrays(step, state)
    while True:
        others = functools.reduce(operator.or_, (touched[pc] for pc in everywhere if pc not in plain), 0)
        kept = {pc for pc in plain if touched[pc] and not touched[pc] & others}
        loads = sorted(pc for pc in kept if is_strong_load(program, pc))
        if loads:
            kept -= {t.source for t in Analysis(program, executions, loads, segment_of).find_tainted}
        if kept == plain:
            return frozenset(plain)
        plain = kept


def _is_access(program: Program, pc: int) -> bool:
    """Return whether an atomic is a strong load or store of the widest scope."""
    auxiliary = int(program.code[pc, 7])
    return bool((auxiliary & NO_STORE or auxiliary & SERVED == AS_STORE) and not auxiliary & SCOPES)


def list_sources(program: Program, lockstep: bool) -> list[int]:
    """Return the instructions whose results may depend on the order of threads."""
    key = f"sources, {'lockstep' if lockstep else 'lanes'}"
    if key not in program.derived:
        operations = program.code[:, 0]
        found = _SOURCE[operations]
        if program.asynchronous:
            found = found | np.isin(operations, WAITS) & (program.code[:, 7] & (BLOCKS | PEEK) == 0)
        if not lockstep:
            found |= (operations == ACTIVE) & (program.code[:, 7] != CONVERGED)
        program.derived[key] = np.flatnonzero(found).tolist()
    sources: list[int] = program.derived[key]
    return sources


def commuting_unused(program: Program, atomics: Iterable[int], segment_of: SegmentOf | None = None) -> frozenset[int]:
    """Return the pcs of atomics whose order is unobservable: all atomics that may touch their arrays are of one kind
    that commutes, and their results are unused.  A `cas` is not among them, because the order decides which ones
    write."""
    sources = sorted(atomics)
    analysis = Analysis(program, [1] * len(program.code), sources, segment_of)
    live = live_rows(program)
    used = {pc for pc in sources if pc + 1 < len(live) and int(program.code[pc, 2]) in live[pc + 1]}
    used |= {pc for pc in sources if _combines(program, pc) == "cas"}
    return frozenset(pc for group, pcs in analysis.meeting().items() if not used & group
                     and not _why_order_matters(program, sorted(group)) for pc in pcs)  # fmt: skip


def is_influenced(
    program: Program, executions: Sequence[int], racing: Iterable[int], segment_of: SegmentOf | None = None
) -> bool:
    """Return whether the values that racing accesses load or store may influence the behavior of the launch.  `racing`:
    pcs of these accesses."""
    sources = sorted(set(racing))
    return bool(sources) and bool(Analysis(program, executions, sources, segment_of, racing=True).find_tainted)


def may_be_influenced(
    program: Program, executions: Sequence[int], racing: Iterable[int], segment_of: SegmentOf | None = None
) -> bool:
    """Return whether values that any access to the arrays of racing accesses loads or stores may influence the launch.
    Shadow memory names one race of a byte, but another access to the array may also be part of a race."""
    sources = sorted(set(racing))
    if not sources:
        return False
    beside = Analysis(program, executions, sources, segment_of, racing=True).beside(sources)
    return bool(Analysis(program, executions, beside, segment_of, racing=True).find_tainted)


# -- flow ------------------------------------------------------------------------------------------------------------
class Block:
    """A basic block: instructions that run one after another."""

    __slots__ = ("reads_memory", "start", "state", "steps", "successors")

    def __init__(self, start: int, steps: list[Step], successors: list[int]) -> None:
        self.start = start
        self.steps = steps
        self.successors = successors
        self.state: State | None = None
        """contents of the rows at the start of the block; None until control reaches the block"""
        self.reads_memory = any(step.kind in ("load", "atomic", "barrier") and step.writes for step in steps)


def blocks_of(program: Program, executions: Sequence[int], decoder: Decoder) -> dict[int, Block]:
    """Return executed blocks by their first pc.  Lanes that wait at a join continue after the join, as if they had
    executed it."""
    length = len(decoder.code)
    ran = [bool(count) for count in executions]
    following: dict[int, tuple[int, ...]] = {}
    for pc in reversed(range(length)):
        op = decoder.code[pc][0]
        if op in JUMPS or op in ENDS:
            following[pc] = successors(pc, decoder.code[pc])
        elif op == JOIN:  # not counted if the lanes that would execute it have exited
            ran[pc] |= ran[pc + 1]
    starts = {0, *(pc + 1 for pc in following), *(target for targets in following.values() for target in targets)}
    ordered = sorted(start for start in starts if start < length)
    blocks = {}
    for start, end in zip(ordered, [*ordered[1:], length], strict=True):
        if ran[start]:
            steps = [step for pc in range(start, end) if ran[pc] for step in decoder.steps(pc)]
            targets = [t for t in following.get(end - 1, [end]) if t < length and ran[t]]
            blocks[start] = Block(start, steps, targets)
    return blocks


def _addressing(steps: Sequence[Step]) -> set[int]:
    """Return the rows from which addresses of accesses may be computed."""
    found = {step.address for step in steps}
    carriers: dict[int, set[int]] = {}
    for step in steps:
        if step.carries:
            carriers.setdefault(step.writes[0], set()).update(step.carries)
    work = [*found]
    while work:
        more = carriers.get(work.pop(), set()) - found
        found |= more
        work += more
    return found


class Influence:
    """The answers of an analysis of the influence of executed sources, which is performed for the first question
    without a known answer."""

    def __init__(
        self,
        find_sources: Callable[[], list[int]],
        analyze: Callable[[Sequence[int]], Analysis],
        answers: dict[Hashable, Any],
    ) -> None:
        """`answers` are the known ones; more are entered there."""
        self._find_sources, self._analyze, self._answers = find_sources, analyze, answers

    def _answer(self, question: Hashable, find: Callable[[], Any]) -> Any:
        if question not in self._answers:
            self._answers[question] = find()
        return self._answers[question]

    @property
    def sources(self) -> list[int]:
        """Return the executed sources."""
        found: list[int] = self._answer("sources", self._find_sources)
        return found

    @cached_property
    def analysis(self) -> Analysis:
        """The analysis itself."""
        return self._analyze(self.sources)

    @property
    def find_tainted(self) -> list[Tainted]:
        """Return instructions that may behave differently in another order."""
        found: list[Tainted] = self._answer("tainted", lambda: self.analysis.find_tainted)
        return found

    @property
    def order_dependent(self) -> list[tuple[int, str]]:
        """Return atomics that leave other values in arrays of the caller in another order, with the reasons."""
        found: list[tuple[int, str]] = self._answer("order dependent", lambda: self.analysis.order_dependent)
        return found

    @property
    def strays(self) -> frozenset[int]:
        """Return accesses that, as far as is known, may touch all of shared or local memory."""
        found: frozenset[int] = self._answer("strays", lambda: self.analysis.strays)
        return found

    def find_stored(self, pcs: Iterable[int]) -> dict[int, int]:
        """Return stores that may write another value in another order, as `Analysis.find_stored` does."""
        wanted = frozenset(pcs)
        found: dict[int, int] = self._answer(("stored", wanted), lambda: self.analysis.find_stored(wanted))
        return found


class Analysis:
    """The influence of executed sources on registers, memory and control.  `sources`: their pcs."""

    def __init__(
        self,
        program: Program,
        executions: Sequence[int],
        sources: Sequence[int],
        segment_of: SegmentOf | None,
        elected: Mapping[int, Sequence[Election]] | None = None,
        *,
        racing: bool = False,
        reached: Reached | None = None,
        reaching: Reaching | None = None,
    ) -> None:
        """`elected`: pc of an `activemask` -> the additions for which the choice of active lanes has no effect.
        `racing`: the sources are accesses whose loaded and stored values depend on the schedule.  `reached`: access ->
        the addresses that it uses.  `reaching`: the stores from which loads read; the contents of memory are then
        distinguished by the store that wrote them, instead of by arrays."""
        self._program = program
        self._racing = racing
        self._sources = sources
        self._bit = {pc: 1 << n for n, pc in enumerate(sources)}
        self._taint: Bits = (1 << len(sources)) - 1
        self._regions = Regions(program, len(sources), segment_of)
        self._places = {pc: self._regions.regions_at(places) for pc, places in (reached or {}).items()}
        """access -> the arrays that it touches, if they are known"""
        self._found: dict[int, Bits] | None = None
        """load or atomic -> the contents that it finds, if they are known by the store that wrote them"""
        if reaching is not None:
            self._places, self._found = self._regions.add_stores(reaching)
        self._memory: list[Bits] = [0] * len(self._regions.list)
        """array -> the sources on which its contents depend"""
        self._targets: dict[int, Bits] = {pc: 0 for pc in sources if pc >= 0 and _is_atomic(int(program.code[pc, 0]))}
        """atomic -> the arrays that it may touch"""
        self._reasons: dict[int, str] = {}
        """atomic that does not commute with the other atomics on its array -> the reason"""
        self._settled: dict[int, Bits] = {}
        """atomic of an election -> the masks that do not change the sum of its additions"""
        self._passed: dict[int, Bits] = {}
        """branch or atomic -> the masks that select one lane to pass it for all"""
        self._inside: dict[int, Bits] = {}
        """instruction that only one lane executes -> the masks that select this lane, on which its result depends"""
        for source, found in (elected or {}).items():
            for election in found:
                self._settled[election.atomic] = self._passed[election.steered] = self._bit[source]
                self._inside.update(dict.fromkeys(election.region, self._bit[source]))
        clocks = sum(bit for pc, bit in self._bit.items() if pc >= 0 and NAMES[int(program.code[pc, 0])] == CLOCK)
        for pc in _watching(program) if clocks else ():
            self._passed[pc] = self._passed.get(pc, 0) | clocks
        self._grown = False
        """true if an array depends on more sources than when the blocks that read memory were last processed"""
        self._seed()
        self._blocks = blocks_of(program, executions, Decoder(program, self._regions, self._bit))
        self._addressing = _addressing([step for block in self._blocks.values() for step in block.steps])
        """rows from which addresses may be computed"""
        self._settle()

    def _seed(self) -> None:
        """Set the sources of rows and arrays before the first instruction."""

    @cached_property
    def find_tainted(self) -> list[Tainted]:
        """Instructions that may behave differently in another order."""
        found = {
            (step.pc, what): self._sources[(bits & -bits).bit_length() - 1]
            for step, state in self._states()
            for what, rows in self._influenced_rows(step)
            if (bits := _union(state, rows) & self._taint & ~self._influencing_masks(step.pc, what))
        }
        return [Tainted(pc, source, what) for (pc, what), source in sorted(found.items())]

    def _influenced_rows(self, step: Step) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Yield the uses in an instruction that must not depend on the sources, with their rows."""
        return _influenced_rows(step)

    def _influencing_masks(self, pc: int, what: str) -> Bits:
        """Return the masks whose influence on a use (`what`) in an instruction has no effect."""
        steers = self._settled if what == "address" else self._passed if what in ("branch", GUARDED["atomic"]) else {}
        return steers.get(pc, 0)

    def meeting(self) -> dict[frozenset[int], list[int]]:
        """Group atomics: all that may touch a common array, directly or through others -> the members of the group."""
        found: dict[frozenset[int], list[int]] = {}
        for pc, arrays in self._targets.items():
            group = {pc}
            while more := {other for other, own in self._targets.items() if own & arrays} - group:
                group |= more
                for other in more:
                    arrays |= self._targets[other]
            found.setdefault(frozenset(group), []).append(pc)
        return found

    @property
    def elections_hold(self) -> bool:
        """Return whether only atomics touch the arrays of elections: a plain access of the lane that adds in this run
        would conflict with the addition of another lane."""
        arrays = 0
        for pc in self._settled:
            arrays |= self._targets.get(pc, 0)
        return not arrays or not any(
            self._arrays(step, state) & arrays for step, state in self._states() if step.kind in ("load", "store")
        )

    @property
    def strays(self) -> frozenset[int]:
        """Loads, stores and atomics that, as far as is known, may touch all of shared or local memory."""
        return frozenset(
            step.pc for step, state in self._states()
            if step.kind in ("load", "store", "atomic") and self._program.code[step.pc, 0] < N_ATOMIC
            and self._regions.is_anywhere(self._arrays(step, state))
        )  # fmt: skip

    def beside(self, pcs: Sequence[int]) -> list[int]:
        """Return the accesses that may touch an array that one of the accesses `pcs` may touch."""
        touched = {
            step.pc: self._arrays(step, state)
            for step, state in self._states()
            if step.kind in ("load", "store", "atomic")
        }
        arrays = 0
        for pc in pcs:
            arrays |= touched.get(pc, 0)
        return sorted({*pcs, *(pc for pc, own in touched.items() if own & arrays)})

    def find_stored(self, pcs: Iterable[int]) -> dict[int, int]:
        """Return those of the stores `pcs` that may write another value in another order or another run, each with the
        first source on which the value depends."""
        wanted = frozenset(pcs)
        stored = {
            step.pc: _union(state, step.reads) & self._taint
            for step, state in (self._states() if wanted else ())
            if step.pc in wanted and step.kind in ("store", "atomic")
        }
        return {pc: self._sources[(bits & -bits).bit_length() - 1] for pc, bits in stored.items() if bits}

    @cached_property
    def order_dependent(self) -> list[tuple[int, str]]:
        """Atomics that leave other values in arrays of the caller in another order, with the reasons.  The result of a
        wait must not be stored in any memory: later code has acquired from the phase only if the wait succeeded."""
        written = self._regions.all_of("global")
        answers = sum(bit for pc, bit in self._bit.items() if pc >= 0 and self._program.code[pc, 0] in WAITS)
        left: dict[int, set[str]] = {}
        for step, state in self._states():
            if step.kind in ("store", "atomic"):
                bits = _union(state, step.reads) & self._taint & ~self._settled.get(step.pc, 0)
                outlasts = bool(self._arrays(step, state) & written)
                kept = bits if outlasts else bits & answers
                reached = [pc for n, pc in enumerate(self._sources) if kept >> n & 1]
                for pc in reached + [step.pc] * (outlasts and step.pc in self._reasons):
                    left.setdefault(pc, set()).add(self._name_array(step.pc))
        return [
            (pc, f"{self._why(pc)} what is left in {', '.join(sorted(names))}") for pc, names in sorted(left.items())
        ]

    def _name_array(self, pc: int) -> str:
        name = self._program.array_of[pc]
        return f"`{name}`" if name else "unnamed memory"

    def _why(self, pc: int) -> str:
        if self._program.code[pc, 0] == ACTIVE:
            return "which lanes are active together here is not decided, nor is"
        if self._program.code[pc, 0] in (*WAITS, *TOKENS):
            return "the answer of a wait, or the token of an arrival, differs by schedule, and so does"
        if pc not in self._targets:
            clock = NAMES[int(self._program.code[pc, 0])] == CLOCK
            read = "a clock" if clock else "the number of a multiprocessor, or of a place for a warp there"
            return f"{read}, which is not that of a GPU, nor is"
        return f"{self._reasons.get(pc, 'the old values that it returns depend on the order')}, and so does"

    # -- fixed point ----------------------------------------------------------------------------------------------
    def _settle(self) -> None:
        self._blocks[0].state = dict(self._regions.entry)
        work = {0}
        while work:
            merged, self._grown = (self._regions.merged, self._regions.escaped), False
            self._flow(work)
            self._mix()
            wider = merged != (self._regions.merged, self._regions.escaped)
            work = {
                start for start, block in self._blocks.items()
                if block.state is not None and (wider or (self._grown and block.reads_memory))
            }  # fmt: skip

    def _flow(self, work: set[int]) -> None:
        """Run blocks, and successors whose state grows, until no state grows."""
        heap = sorted(work)
        while heap:
            start = heapq.heappop(heap)
            work.discard(start)
            block = self._blocks[start]
            state = dict(block.state or {})
            for step in block.steps:
                self._run(step, state)
            for target in block.successors:
                if self._arrive(self._blocks[target], state) and target not in work:
                    work.add(target)
                    heapq.heappush(heap, target)

    def _arrive(self, block: Block, state: State) -> bool:
        """Add the contents of rows to the state of a block; return whether the state has grown."""
        known = block.state
        if known is None:
            block.state = dict(state)
            return True
        more = [(row, bits | known.get(row, 0)) for row, bits in state.items() if bits & ~known.get(row, 0)]
        known.update(more)
        return bool(more)

    def _run(self, step: Step, state: State) -> None:
        """Apply the effect of one instruction to the rows of a lane, and to memory."""
        bits = 0
        for row in step.reads:
            bits |= state.get(row, 0)
        if step.kind == "alu":
            bits = self._regions.result_bits(step, state, bits | step.array)
            if step.reach:
                self._regions.check(bits, step.reach, 1)
        else:
            if step.kind in ("store", "atomic", "warp"):
                values = step.reads[step.reads[:1] == (step.address,) :]
                self._regions.escape(_union(state, values))
            bits = self._exchange(step, bits & self._taint, self._arrays(step, state))
        bits = (bits | self._inside.get(step.pc, 0)) & step.keeps
        number = bits if bits > self._taint else bits | self._regions.unknown
        for row in step.writes:
            value = number if row in self._addressing else bits & ~self._regions.unknown
            value = value | state.get(row, 0) if step.guard else value
            if value:
                state[row] = value
            else:
                state.pop(row, None)

    def _arrays(self, step: Step, state: State) -> Bits:
        """Return the arrays that an access may touch."""
        if step.address < 0:  # no access to memory: only the reduction of a barrier has an array
            return step.array
        arrays = self._places.get(step.pc)
        if arrays is None and self._found is not None:
            return self._found.get(step.pc, 0)
        if arrays is None:
            arrays = self._regions.touched_regions(step.array or state.get(step.address, 0), step.window)
        self._regions.check(arrays, step.reach, step.unit)
        return arrays & ~self._regions.constant if step.kind in ("store", "atomic") else arrays

    def _exchange(self, step: Step, bits: Bits, arrays: Bits) -> Bits:
        """Return the bits of the result of an instruction other than arithmetic; `bits` are those of its operands."""
        if self._racing and step.kind in ("store", "load"):
            bits |= self._bit.get(step.pc, 0)
        if step.kind == "atomic" and (self._found is not None or step.pc not in self._bit):
            bits |= self._content_bits(arrays if self._found is None else self._found.get(step.pc, 0))
        if step.kind in ("store", "atomic") or (step.kind == "barrier" and step.writes):
            self._put(arrays, bits & ~self._settled.get(step.pc, 0))
        if step.kind == "atomic":
            self._targets[step.pc] = self._targets.get(step.pc, 0) | arrays
            bits |= self._bit.get(step.pc, 0)
        elif step.kind in ("load", "barrier"):
            bits |= self._content_bits(arrays)
        return bits

    def _content_bits(self, arrays: Bits) -> Bits:
        """Return the sources on which the contents of some arrays depend."""
        bits = 0
        for n, contents in enumerate(self._memory, self._regions.first):
            if arrays >> n & 1:
                bits |= contents
        return bits

    def _put(self, arrays: Bits, bits: Bits) -> None:
        """Record that values that depend on the sources in `bits` are stored in arrays."""
        for n, contents in enumerate(self._memory):
            if bits & ~contents and arrays >> self._regions.first + n & 1:
                self._memory[n] = contents | bits
                self._grown = True

    def _mix(self) -> None:
        """Let arrays depend on their atomics if these atomics do not commute."""
        for n in range(len(self._memory)):
            array = 1 << self._regions.first + n
            group = [pc for pc, arrays in self._targets.items() if arrays & array]
            reasons = _why_order_matters(self._program, group)
            self._reasons.update(reasons)
            self._put(array, sum(self._bit.get(pc, 0) for pc in reasons))

    def _states(self) -> Iterator[tuple[Step, State]]:
        """Yield every executed instruction, with the contents of the rows before the instruction."""
        for block in self._blocks.values():
            state = dict(block.state or {})
            for step in block.steps:
                yield step, state
                self._run(step, state)


def _watching(program: Program) -> Iterator[int]:
    """Yield the branches with a side that always leads to a trap.  If a clock decides such a branch, it belongs to a
    watchdog, and the side with the trap counts as never reached."""
    code = program.code.tolist()
    ways = [successors(pc, row) for pc, row in enumerate(code)]
    before: dict[int, list[int]] = {}
    for pc, following in enumerate(ways):
        for way in following:
            before.setdefault(way, []).append(pc)
    found = {pc for pc, row in enumerate(code) if row[0] == TRAP and GIVES_UP in program.traps[row[6]]}
    pending = [*found]
    while pending:
        for pc in before.get(pending.pop(), ()):
            if pc not in found and found.issuperset(ways[pc]) and code[pc][0] != EXIT:
                found.add(pc)
                pending.append(pc)
    yield from (pc for pc, row in enumerate(code) if row[0] == BRA and not found.isdisjoint(ways[pc]))


def _union(state: State, rows: Sequence[int]) -> Bits:
    bits = 0
    for row in rows:
        bits |= state.get(row, 0)
    return bits


def _influenced_rows(step: Step) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the uses in an instruction that must not depend on the order, with their rows."""
    if step.kind in STEERS:
        yield STEERS[step.kind], (step.guard,)
    elif step.guard and step.kind in GUARDED:
        yield GUARDED[step.kind], (step.guard,)
    if step.address >= 0:
        yield "address", (step.address,)
    if step.operands:
        yield _OPERANDS[step.kind], step.operands


def _why_order_matters(program: Program, group: Sequence[int]) -> dict[int, str]:
    """Return, for each atomic on one array, why the contents depend on the order; empty if the atomics commute."""
    code = program.code
    kinds = {pc: _combines(program, pc) for pc in group}
    operations = {(int(code[pc, 0]), int(code[pc, 7]) if code[pc, 0] in REDUCES else 0) for pc in group}
    if len(operations) == 1 and kinds[group[0]] in COMMUTING:
        return {}
    fixed = {row for row, *_ in program.constants} | {p.row for p in program.parameters}
    functions = {(int(code[pc, 4]), int(code[pc, 5])) for pc in group}
    bulk = any(code[pc, 0] in REDUCES for pc in group)
    if len(operations) == len(functions) == 1 and not bulk and {row for row in functions.pop() if row} <= fixed:
        return {}  # all atomics apply one function
    names = {pc: atomic_source_name(program, pc) for pc in group}
    distinct = sorted({name for name in names.values() if name != LOAD})
    mixed = f"what {' and '.join(distinct)} on one array make of it depends on the order"
    if len(distinct) == 1:
        mixed = f"what {distinct[0]} of different types on one array make of it depends on the order"
    if len(distinct) <= 1 and LOAD in names.values():
        mixed = f"what a {LOAD} sees depends on the order"
    own = len(operations) == 1
    return {
        pc: REASONS[kind].format(names[pc]) if own or kind in ("exch", "cas") else mixed for pc, kind in kinds.items()
    }


def atomic_source_name(program: Program, pc: int) -> str:
    """Return the Python name of an atomic, or of a strong access, which the bytecode represents as an atomic."""
    what, auxiliary = _combines(program, pc).partition(".")[0], int(program.code[pc, 7])
    if int(program.code[pc, 0]) in REDUCES:
        return f"`{what}`"
    if what == "or" and auxiliary & SERVED == AS_LOAD and auxiliary & NO_STORE:
        return LOAD
    if auxiliary & SERVED == AS_STORE:
        return STORE
    return f"`cuda.atomic.{what}{'_' * (what in ('and', 'or'))}`"


def _is_atomic(opcode: int) -> bool:
    return N_MEMORY <= opcode < N_ATOMIC or opcode in REDUCES


def _combines(program: Program, pc: int) -> str:
    """Return how an atomic combines with memory, in the words of `COMMUTING`; a bulk reduction does so for each
    element."""
    opcode, auxiliary = int(program.code[pc, 0]), int(program.code[pc, 7])
    if EFFECTS[NAMES[opcode]].moves.unit == "tile":  # the type is in the tensor map, so assume floats
        what = TENSOR_REDUCTIONS[auxiliary >> 3 & 7]
        return f"{what}.f" if what in ("add", "min", "max") else what
    if opcode not in REDUCES:
        return ATOMICS[NAMES[opcode]][0]
    what, type_ = BULK_REDUCTIONS[auxiliary]
    if what in ("min", "max"):
        return f"{what}.{'f' if 'f' in type_ else type_[0]}"
    return "add.f" if what == "add" and "f" in type_ else what
