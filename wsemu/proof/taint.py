"""Find values that depend on the order of atomics, by a data-flow analysis of the bytecode.

The proof of a launch rests on warps that execute the same instructions at the same addresses in every schedule.  Races
are reported, so only an atomic's result can bring the order of threads into a register: a plain load that sees another
thread's store is either ordered by a barrier, or a race.  The analysis follows those results to where they would steer
the launch (`find_tainted`), and names the atomics that leave other values behind in another order (`order_dependent`).

**Registers.** Rows are used again for unrelated values, so each program point has its own map of rows to what they may
hold.  Every write of a row is masked by the lanes that execute it.  A lane's part of a row changes on that lane's own
path only, although the machine runs the sides of a branch one after another over the same rows.  The paths of a lane
are those of the control-flow graph, so an unguarded write replaces, a guarded one adds, and joins take the union.  What
lanes exchange, they exchange at one instruction, where the union over all lanes already stands.

**Memory.** Other threads may be anywhere, so memory has one state for the whole launch, array by array.  Which arrays
an access may touch is found by the same analysis: addresses carry the arrays they were computed from.  An array is
order-dependent when a value that depends on the order, or any value at such an address, goes into it, or when the
atomics on it do not commute.  Atomics commute when all are the same integer operation (add, min, max, and, or, xor) or
floating-point minimum or maximum (up to the sign of a zero), or all apply one function with constant operands.

**Control.** A branch that depends on the order is reported itself, so what it decides needs no further tracking; for
the same reason only executed instructions count.

**Phases.** The analysis follows two more results.  One is that of a wait for an mbarrier that neither blocks nor only
guards one that does.  The other is the token of an arrival if it is used for anything but a wait, because it contains
the number of pending arrivals.

**Clocks.** A `varying` value, such as that of a clock in PTX, is followed like the result of an atomic.

**Active lanes.** So is the mask that `activemask` returns: lanes that could run together need not (CUDA C++ Programming
Guide, "Warp Vote Functions").  It may contain any subset of the lanes that reach it, with the lane itself.  Only if the
lanes of a warp run in lockstep is there one such mask.  What one lane adds for all active ones is the same sum for all
masks (`election.py`); which lane that is decides nothing, where nothing but atomics touches its array.

Detects: branches, exits, guards, addresses, barrier operands and member masks that may depend on the order of atomics;
what is stored because of it.  An address without known origin, or one that may be a number on some path, leads to any
array of the caller.  It also leads to shared or local arrays if an address of one was stored or went to other lanes.
An offset in shared or local memory, and a sum that need not stay in its array there, leads to all of that space.
Does not detect: values that only look as if they depended on the order (`x ^ x`) or elements of one array apart from
each other; both err on the side of a report.
Reference: A.  Sabelfeld, A.  Myers, "Language-based information-flow security", IEEE JSAC 21(1), 2003 (explicit flows).
"""

from __future__ import annotations

import functools
import heapq
import operator
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

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
)
from wsemu.model.program import GIVES_UP, Program
from wsemu.proof.election import Election, elections
from wsemu.proof.liveness import live_rows
from wsemu.proof.taint_steps import Bits, Decoder, Reached, Regions, SegmentOf, State, Step

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
"""kinds of atomics that leave the same value in any order, when alone on an array"""
REASONS = {
    "exch": "which thread's {} comes last depends on the order",
    "cas": "which thread's {} succeeds depends on the order",
    "add.f": "floating-point additions round, so their sum depends on the order",
    "inc": "where {} with different limits wraps depends on the order",
    "dec": "where {} with different limits wraps depends on the order",
}
LOAD, STORE = "volatile or atomic load", "volatile or atomic store"

CLOCK, PLACEMENT = "varying.b64", "varying.b32"
"""sources with other values in another run: a clock, and the hardware's placement of a warp"""
VARYING = (CLOCK, PLACEMENT)
WAITS = tuple(find_opcodes(lambda row: row.waits == "phase"))
ARRIVE, REDUCES = OPCODE["mbarrier.arrive"], COMBINES
_OPERANDS = {
    "barrier": "barrier operand", "warp": "member mask", "async": "operand of an mbarrier operation or wait",
    "load": "coordinate of a tensor copy", "store": "size of an asynchronous copy",
    "atomic": "size of an asynchronous copy",
}  # fmt: skip
_SOURCE = np.array([
    N_MEMORY <= op < N_ATOMIC or name in VARYING or op in (ARRIVE, *REDUCES) for op, name in enumerate(NAMES)
])  # fmt: skip
"""by opcode: whether what it gives may depend on the order of threads"""
ACTIVE = OPCODE["activemask"]


@dataclass(frozen=True, slots=True)
class Tainted:
    """An executed instruction that may do something else in another schedule."""

    pc: int
    source: int
    """pc of an atomic, or of what varies, that it depends on: the first of them"""
    what: str
    """dependent use: branch, exit, address, barrier operand, member mask, or a `GUARDED`"""


def find_tainted(program: Program, executions: Sequence[int], segment_of: SegmentOf | None = None) -> list[Tainted]:
    """Executed instructions whose flow, address or operands depend on an executed atomic, in the order of their pc.

    `executions` counts per instruction.  `segment_of` gives the memory segment bound to the row of an array argument's
    address (`Parameter.part == "address"`); without it all array arguments may be one memory.
    """
    found = examine(program, executions, segment_of)
    return [] if found is None else found.find_tainted


def order_dependent(
    program: Program, executions: Sequence[int], segment_of: SegmentOf | None = None
) -> list[tuple[int, str]]:
    """(pc, why) of executed atomics that may leave other values in memory in another order, by pc.

    That includes an atomic whose result is stored: the old value tells the order of the threads.
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
    settled: Container[int] = (),
) -> Analysis | None:
    """The analysis behind both questions; None when no source was executed.  `settled` are atomics that return the same
    in all schedules.

    `lockstep` says that the lanes of a warp run together, `lanes_by_x` that a lane is tid.x modulo 32.  `reached` are
    accesses of which it is known where in shared and local memory they went: that holds in all schedules if nothing is
    steered.
    """
    sources = _written_sources(program, segment_of, [pc for pc in _sources(program, lockstep) if executions[pc]])
    sources = [pc for pc in sources if pc not in settled]
    if not sources:
        return None
    elected = {
        pc: made for pc in sources if program.code[pc, 0] == ACTIVE
        if (made := elections(program, pc, lanes_by_x=lanes_by_x))
    }  # fmt: skip
    analysis = Analysis(program, executions, sources, segment_of, elected, reached=reached)
    if analysis.elections_hold:
        return analysis
    return Analysis(program, executions, sources, segment_of, reached=reached)


def _written_sources(program: Program, segment_of: SegmentOf | None, sources: list[int]) -> list[int]:
    """These, without strong loads of arrays that nothing writes, executed or not: they find the same in any order."""
    loads = {pc for pc in sources if is_strong_load(program, pc)}
    unwritten = read_only(program, segment_of, sources) if loads else set()
    return [pc for pc in sources if pc not in unwritten]


def is_strong_load(program: Program, pc: int) -> bool:
    """Return whether an instruction is an atomic that writes nothing."""
    return bool(N_MEMORY <= program.code[pc, 0] < N_ATOMIC and program.code[pc, 7] & NO_STORE)


def read_only(program: Program, segment_of: SegmentOf | None, atomics: Iterable[int]) -> set[int]:
    """Return those of the atomics that access arrays which no instruction writes."""
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
    """Return those of the atomics that are strong loads and stores in arrays without other atomics, and that influence
    no control."""
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
    """Return whether an atomic is a strong load or store, which names no scope that leaves others out."""
    auxiliary = int(program.code[pc, 7])
    return bool((auxiliary & NO_STORE or auxiliary & SERVED == AS_STORE) and not auxiliary & SCOPES)


def _sources(program: Program, lockstep: bool) -> list[int]:
    """The instructions whose results may depend on the order of threads."""
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
    """Return those of the atomics, by their pcs, whose order is unobservable: their results are unused, and all atomics
    that may touch their arrays are of one kind that commutes, unused as well. The order of a `cas` shows in which of
    them write."""
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
    """Return whether what racing accesses load or leave, by their pcs, may decide what the launch does: in another
    order of the races warps may go other ways."""
    sources = sorted(set(racing))
    return bool(sources) and bool(Analysis(program, executions, sources, segment_of, racing=True).find_tainted)


def may_be_influenced(
    program: Program, executions: Sequence[int], racing: Iterable[int], segment_of: SegmentOf | None = None
) -> bool:
    """Return whether values that any access to the arrays of racing accesses loads or stores may influence the launch.
    Shadow memory names one race of a byte, but another access to the array may be in one, too."""
    sources = sorted(set(racing))
    if not sources:
        return False
    beside = Analysis(program, executions, sources, segment_of, racing=True).beside(sources)
    return bool(Analysis(program, executions, beside, segment_of, racing=True).find_tainted)


# -- flow ------------------------------------------------------------------------------------------------------------
class Block:
    """Instructions that run one after another."""

    __slots__ = ("reads_memory", "start", "state", "steps", "successors")

    def __init__(self, start: int, steps: list[Step], successors: list[int]) -> None:
        self.start = start
        self.steps = steps
        self.successors = successors
        self.state: State | None = None
        """at its start; None until control comes there"""
        self.reads_memory = any(step.kind in ("load", "atomic", "barrier") and step.writes for step in steps)


def blocks_of(program: Program, executions: Sequence[int], decoder: Decoder) -> dict[int, Block]:
    """Executed blocks by their first pc.  Lanes that wait at a join go on after it, as if they had run through it."""
    length = len(decoder.code)
    ran = [bool(count) for count in executions]
    following: dict[int, tuple[int, ...]] = {}
    for pc in reversed(range(length)):
        op = decoder.code[pc][0]
        if op in JUMPS or op in ENDS:
            following[pc] = successors(pc, decoder.code[pc])
        elif op == JOIN:  # not counted where all lanes that did not wait for others have exited
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
    """The rows from which addresses of accesses may be computed."""
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


class Analysis:
    """The influence of executed atomics; `sources` are their pcs."""

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
    ) -> None:
        """`elected` are the additions, by their pc, that masks of active lanes do not influence.  `racing` means that
        the sources are accesses, whose loaded and stored values depend on the schedule; `reached` has the locations
        that accesses go to."""
        self._program = program
        self._racing = racing
        self._sources = sources
        self._bit = {pc: 1 << n for n, pc in enumerate(sources)}
        self._taint: Bits = (1 << len(sources)) - 1
        self._regions = Regions(program, len(sources), segment_of)
        self._places = {pc: self._regions.regions_at(places) for pc, places in (reached or {}).items()}
        """access -> the arrays that it is known to go to"""
        self._memory: list[Bits] = [0] * len(self._regions.list)
        """per array: the atomics on which its contents depend"""
        self._targets: dict[int, Bits] = {pc: 0 for pc in sources if pc >= 0 and _is_atomic(int(program.code[pc, 0]))}
        """atomic -> arrays that it works on"""
        self._reasons: dict[int, str] = {}
        """atomic that does not commute with those on its array -> why"""
        self._settled: dict[int, Bits] = {}
        """atomic of an election -> the masks that do not change what it adds"""
        self._passed: dict[int, Bits] = {}
        """branch or atomic -> the masks of which one lane passes it for all"""
        self._inside: dict[int, Bits] = {}
        """instruction -> the masks of which only one lane executes it: what it assigns depends on them"""
        for source, found in (elected or {}).items():
            for election in found:
                self._settled[election.atomic] = self._passed[election.steered] = self._bit[source]
                self._inside.update(dict.fromkeys(election.region, self._bit[source]))
        clocks = sum(bit for pc, bit in self._bit.items() if pc >= 0 and NAMES[int(program.code[pc, 0])] == CLOCK)
        for pc in _watching(program) if clocks else ():
            self._passed[pc] = self._passed.get(pc, 0) | clocks
        self._grown = False
        """true if an array depends on more since the blocks that read memory were processed"""
        self._seed()
        self._blocks = blocks_of(program, executions, Decoder(program, self._regions, self._bit))
        self._addressing = _addressing([step for block in self._blocks.values() for step in block.steps])
        """rows of which it matters whether they hold a number"""
        self._settle()

    def _seed(self) -> None:
        """Set rows and arrays before the first instruction."""

    @cached_property
    def find_tainted(self) -> list[Tainted]:
        """Instructions that may do something else in another order."""
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
        """The masks that may steer this of an instruction; the address of an addition is the same for all lanes."""
        steers = self._settled if what == "address" else self._passed if what in ("branch", GUARDED["atomic"]) else {}
        return steers.get(pc, 0)

    def meeting(self) -> dict[frozenset[int], list[int]]:
        """Atomics that may touch an array in common, of each atomic all of them -> those of which it is so."""
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
        """The loads, stores and atomics that may go to all of shared or local memory, for all that is known."""
        return frozenset(
            step.pc for step, state in self._states()
            if step.kind in ("load", "store", "atomic") and self._program.code[step.pc, 0] < N_ATOMIC
            and self._regions.is_anywhere(self._arrays(step, state))
        )  # fmt: skip

    def beside(self, pcs: Sequence[int]) -> list[int]:
        """The accesses that may touch an array which one of these may touch."""
        touched = {
            step.pc: self._arrays(step, state)
            for step, state in self._states()
            if step.kind in ("load", "store", "atomic")
        }
        arrays = 0
        for pc in pcs:
            arrays |= touched.get(pc, 0)
        return sorted({*pcs, *(pc for pc, own in touched.items() if own & arrays)})

    def stores_other_values(self, pcs: Iterable[int]) -> bool:
        """Return whether one of these stores may write another value in another order, or run."""
        wanted = frozenset(pcs)
        return any(
            _union(state, step.reads) & self._taint
            for step, state in self._states()
            if step.pc in wanted and step.kind in ("store", "atomic")
        )

    @cached_property
    def order_dependent(self) -> list[tuple[int, str]]:
        """Atomics that leave other values in arrays of the caller in another order, and why.  The answer of a wait must
        not be kept in any memory: what follows it has taken something from a phase only where the answer was yes."""
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
        if self._program.code[pc, 0] in (*WAITS, ARRIVE):
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
        """Run blocks, and those after them whose state grows, until none does."""
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
        """Control comes to a block with these rows; whether that is news."""
        known = block.state
        if known is None:
            block.state = dict(state)
            return True
        more = [(row, bits | known.get(row, 0)) for row, bits in state.items() if bits & ~known.get(row, 0)]
        known.update(more)
        return bool(more)

    def _run(self, step: Step, state: State) -> None:
        """The effect of one instruction on the rows of a lane, and on memory."""
        bits = step.array if step.kind == "alu" else 0
        for row in step.reads:
            bits |= state.get(row, 0)
        if step.kind in ("store", "atomic", "warp"):
            values = step.reads[step.reads[:1] == (step.address,) :]
            self._regions.escape(_union(state, values))
        if step.kind != "alu":
            bits = self._exchange(step, bits & self._taint, self._arrays(step, state))
        else:
            bits = self._regions.result_bits(step, state, bits)
            if step.reach:
                self._regions.check(bits, step.reach, 1)
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
        """The arrays that an access may touch."""
        if step.address < 0:  # of what is no access to memory, only a barrier's reduction has one
            return step.array
        arrays = self._places.get(step.pc)
        if arrays is None:
            arrays = self._regions.touched_regions(step.array or state.get(step.address, 0), step.window)
        self._regions.check(arrays, step.reach, step.unit)
        return arrays & ~self._regions.constant if step.kind in ("store", "atomic") else arrays

    def _exchange(self, step: Step, bits: Bits, arrays: Bits) -> Bits:
        """The result of an instruction other than arithmetic, whose operands come from `bits`."""
        if self._racing and step.kind in ("store", "load"):
            bits |= self._bit.get(step.pc, 0)
        if step.kind in ("store", "atomic") or (step.kind == "barrier" and step.writes):
            self._put(arrays, bits & ~self._settled.get(step.pc, 0))
        if step.kind == "atomic":
            self._targets[step.pc] = self._targets.get(step.pc, 0) | arrays
            bits |= self._bit.get(step.pc, 0)
        elif step.kind in ("load", "barrier"):
            for n, contents in enumerate(self._memory, self._regions.first):
                if arrays >> n & 1:
                    bits |= contents
        return bits

    def _put(self, arrays: Bits, bits: Bits) -> None:
        """Values that depend on these atomics go into arrays."""
        for n, contents in enumerate(self._memory):
            if bits & ~contents and arrays >> self._regions.first + n & 1:
                self._memory[n] = contents | bits
                self._grown = True

    def _mix(self) -> None:
        """Arrays whose atomics do not commute depend on them."""
        for n in range(len(self._memory)):
            array = 1 << self._regions.first + n
            group = [pc for pc, arrays in self._targets.items() if arrays & array]
            reasons = _why_order_matters(self._program, group)
            self._reasons.update(reasons)
            self._put(array, sum(self._bit.get(pc, 0) for pc in reasons))

    def _states(self) -> Iterator[tuple[Step, State]]:
        """Every executed instruction with what the rows hold before it."""
        for block in self._blocks.values():
            state = dict(block.state or {})
            for step in block.steps:
                yield step, state
                self._run(step, state)


def _watching(program: Program) -> Iterator[int]:
    """The branches of which one way leads to a trap, whatever is done before: those of a watchdog, if a clock decides
    them.  That it bites counts as never reached."""
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
    """Atomic of one array -> why the order of all of them shows in the array; empty when they commute."""
    code = program.code
    kinds = {pc: _combines(program, pc) for pc in group}
    operations = {(int(code[pc, 0]), int(code[pc, 7]) if code[pc, 0] in REDUCES else 0) for pc in group}
    if len(operations) == 1 and kinds[group[0]] in COMMUTING:
        return {}
    fixed = {row for row, *_ in program.constants} | {p.row for p in program.parameters}
    functions = {(int(code[pc, 4]), int(code[pc, 5])) for pc in group}
    bulk = any(code[pc, 0] in REDUCES for pc in group)
    if len(operations) == len(functions) == 1 and not bulk and {row for row in functions.pop() if row} <= fixed:
        return {}  # one function, applied by all
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
    """Return the Python name of an atomic, or of a strong access that is one here."""
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
    if EFFECTS[NAMES[opcode]].moves.unit == "tile":  # its map says of what, and floats are the worst
        what = TENSOR_REDUCTIONS[auxiliary >> 3 & 7]
        return f"{what}.f" if what in ("add", "min", "max") else what
    if opcode not in REDUCES:
        return ATOMICS[NAMES[opcode]][0]
    what, type_ = BULK_REDUCTIONS[auxiliary]
    if what in ("min", "max"):
        return f"{what}.{'f' if 'f' in type_ else type_[0]}"
    return "add.f" if what == "add" and "f" in type_ else what
