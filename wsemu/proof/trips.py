"""Generalize a launch to every trip count of a loop: find the launches to run, and prove that they represent all
others.

One integer argument n ends the loops. `affine.Machine` follows all threads symbolically through the launches with n =
n_0 + g N. Such a launch has a beginning, which is equal for all N; then rounds of P iterations each; then an end. The
proof is an induction over the rounds. After t rounds, with u rounds left, the registers at the head of the loop are A +
B t + C u. One round, in which every branch has one direction for all t and u, changes them to A + B (t+1) + C (u-1). It
follows:

synchronization  The barriers of a round, with their counts, mbarriers and parities, are the same in all rounds. Let a
                 barrier of count c receive the arrivals of `a` threads a round. It returns to its state after c /
                 gcd(a, c) rounds, and an mbarrier after twice this number if it completes an odd number of phases in
                 these rounds. Let k be the least common multiple of all these numbers. Runs of 0 to 3k rounds prove all
                 launches (Sharma, Bauer, Aiken, PLDI 2015; formalized in Lean as `rohany/weft-formalization`).
accesses         Every round accesses the same locations of shared and local memory.  If two accesses, in rounds t and
                 t', conflict for one distance t - t', they conflict for every distance.  If they are ordered at one
                 distance, they are ordered at larger ones, by the program order of their threads.  In global memory,
                 two locations that both advance by a stride B per round meet at one distance only, and some run must
                 have this distance.  Locations that advance by different strides must not meet later.

Does not follow: loops that end by data, by the extent of an array or by several arguments; two such loops of one thread
in sequence. Nor does it follow tensor copies, `wgmma`, or values from other lanes, except `elect` and `shfl` from one
lane. `Unfit` has the reason and the instruction.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from wsemu.model.control_flow import STEERS, inner_loop_numbers, loop_numbers, successors
from wsemu.model.data import NamedTuple, dataclass
from wsemu.model.isa import DROP, LANES, LOCAL, NAMES, NOINC, SEGMENT_SHIFT, SHARED
from wsemu.model.program import Program
from wsemu.proof.affine import (
    COMPUTED,
    FAR,
    LOADED,
    PARITY,
    PROMISE,
    SHUFFLED,
    TOKEN,
    Event,
    Geometry,
    Machine,
    Path,
    State,
    Unfit,
    Unknown,
    Value,
)  # fmt: skip

LOOKED_AT = (10, 40)
"""numbers of iterations in which to look for periods; the second is used if some register shows no period in the first
"""
MOST_PERIOD = 24
"""maximum number of iterations in a round"""
MOST_STEP = 1 << 20
"""maximum growth of the argument per additional iteration"""
MOST_LAUNCHES = 400
STEPS = 150_000
"""maximum number of instructions on all followed paths together"""
_FAR = 1 << 20
"""iterations of the loop while periods are determined; the loop does not end before"""
_APART = ((0, 1), (1, 1), (0, 2), (1, 2), (2, 2), (4, 2), (4, 3), (8, 3), (16, 3))
"""pairs (iterations at the beginning, rounds at the end) that may differ from the other rounds, in the order of trial
"""


class Proof(NamedTuple):
    """The result for all trip counts of some loops."""

    ends: tuple[int, ...]
    """instructions of the branches that end the loops"""
    launches: range
    """values of the argument whose launches must be verified"""
    moves: bool
    """true if the loop advances through an array, so that the array must be large enough"""


def loop_ends(program: Program, steered: Iterable[int]) -> dict[int, int]:
    """Return the branches that an argument influences and that end a loop.

    The key of each branch is the instruction at which its loop continues.
    """
    return _ends(program, steered, loop_numbers(program))


def inner_ends(program: Program, steered: Iterable[int]) -> dict[int, int]:
    """Return the branches of `loop_ends`, but for inner loops: these are not analyzed by themselves."""
    return _ends(program, steered, inner_loop_numbers(program))


def _ends(program: Program, steered: Iterable[int], loops: Sequence[int]) -> dict[int, int]:
    code = program.code.tolist()
    found = {}
    for pc in steered:
        inside = [after for after in successors(pc, code[pc]) if after < len(loops) and loops[after] == loops[pc]]
        if loops[pc] >= 0 and len(inside) == 1 and NAMES[code[pc][0]] in STEERS and code[pc][1]:
            found[inside[0]] = pc
    return found


def prove(
    program: Program, geometry: Geometry, rows: Mapping[int, tuple[str, Any]], argument: Sequence[int],
    ends: Mapping[int, int],
) -> Proof:  # fmt: skip
    """Return the proof for an argument of the loops that end at `ends` (see `loop_ends`); raise Unfit if it fails."""
    heads = frozenset(ends)
    machine = Machine(program, geometry, rows, STEPS)
    now = int(rows[argument[0]][1])
    at, first, steps = _periods(machine, argument, heads)
    reasons: Counter[tuple[int, str]] = Counter()
    for period, step in _candidates(first, steps, _moduli(program)):
        for n, (later, margin) in enumerate(_APART):
            try:
                found = _Family(machine, argument, heads, at + later, period, step, margin).proof(now)
                return found._replace(ends=tuple(sorted({ends[head] for head in found.ends})))
            except Unfit as unfit:
                if unfit.final or LOADED.why in unfit.why or SHUFFLED.why in unfit.why:
                    raise  # every other candidate would fail in the same way
                reasons[unfit.pc, unfit.why] += 1
                if FAR not in unfit.why or (unfit.pc in ends.values() and n > 1):
                    break
    raise Unfit(*reasons.most_common(1)[0][0]) if reasons else Unfit(min(heads), "its iterations do not repeat")


def _moduli(program: Program) -> int:
    """Return the least common multiple of a program's constant divisors that are at most MOST_PERIOD."""
    constants = {row: int(value) for row, type_, value in program.constants if type_ in ("b32", "b64")}
    found = 1
    for fields in program.code.tolist():
        word = NAMES[fields[0]].partition(".")[0]
        by = constants.get(fields[4], 0) + (word == "and")
        if word in ("rem", "div", "floormod", "floordiv", "and") and 1 < by <= MOST_PERIOD:
            found = math.lcm(found, by)
    return found


def _candidates(period: int, steps: Sequence[int], moduli: int) -> Iterator[tuple[int, int]]:
    """Yield pairs (iterations of a round, growth of the argument per iteration), the likely ones first."""
    periods = [period * factor for factor in range(1, MOST_PERIOD // period + 1)]
    likely = [period for period in periods if 2 * moduli % period == 0]
    for step in steps:
        yield from ((period, step) for period in likely)
    yield from ((period, 1) for period in periods if period not in likely)


# -- periods of the loop -----------------------------------------------------------------------------------------------
def _periods(machine: Machine, argument: Sequence[int], heads: frozenset[int]) -> tuple[int, int, list[int]]:
    """Return the iterations before the first round, the iterations of a round, and the growths of the argument to
    try."""
    paths = [machine.start({row: Value(_FAR) for row in argument})]
    begun = 0
    for rounds in LOOKED_AT:
        paths = _look(machine, paths, heads, range(begun, rounds + 1))
        begun = rounds + 1
        found, complete = _find_periods(paths)
        if complete:
            break
    return found


def _look(machine: Machine, paths: list[Path], heads: frozenset[int], iterations: range) -> list[Path]:
    """Follow the paths of a loop that does not end, and record the registers at its head in each iteration."""
    for rounds in iterations:
        paths = [other for path in paths for other in (machine.run(path, heads, rounds) if not path.ended else [path])]
        for path in paths:
            path.history.append((path.threads, path.state.copy()))
    looping = [path for path in paths if not path.ended]
    if not looping:
        raise Unfit(min(heads), "no thread comes to its loop")
    return looping


def _find_periods(paths: Sequence[Path]) -> tuple[tuple[int, int, list[int]], bool]:
    """Return the periods of the recorded iterations, as `_periods` does, and whether every register shows one."""
    complete = True
    start, period = 1, 1
    steps: Counter[int] = Counter()
    for path in paths:
        for row in path.state:
            if not isinstance(path.state[row], Value):
                continue
            found = _row_period(path, row)
            if found is None:
                complete = False
            else:
                start, period = max(start, found[0]), math.lcm(period, found[1])
                if found[2] and found[2] % found[1] == 0:
                    steps[abs(found[2] // found[1])] += 1
    if period > MOST_PERIOD:
        raise Unfit(paths[0].head, f"its iterations repeat after {period}")
    small = sorted(step for step in steps if step <= MOST_STEP)[:6]
    return (start, period, list(dict.fromkeys([1, *small, 2, 4, 8, 16, 32]))), complete


def _row_period(path: Path, row: int) -> tuple[int, int, int] | None:
    """Return (first iteration, period, growth per period) of a register at the head of a loop; None if it has no
    period.
    """
    columns = []
    for threads, state in path.history:
        value = state.get(row)
        if not isinstance(value, Value):
            return None
        whole = np.broadcast_to(np.asarray(value.a), threads.shape)
        columns.append(whole[np.searchsorted(threads, path.threads)] if len(threads) != len(path.threads) else whole)
    table = np.array(columns)
    for period in range(1, min(MOST_PERIOD, len(table) - 1) + 1):
        added = table[period:] - table[:-period]
        same = (added == added[-1]).all(axis=1)
        start = len(same) - int(np.argmin(same[::-1])) if not same.all() else 0
        if len(same) - start >= max(period, 4):
            return start, period, int(added[-1].flat[0])
    return None


# -- one family of launches ------------------------------------------------------------------------------------------
@dataclass(slots=True)
class _Trace:
    """The events of the threads of a path."""

    before: list[Event]
    round: list[Event]
    after: list[Event]


class _Family:
    """The launches whose argument is n_0 + growth * N, for each n_0 within one growth."""

    def __init__(
        self, machine: Machine, argument: Sequence[int], heads: frozenset[int], at: int, period: int, step: int,
        margin: int,
    ) -> None:  # fmt: skip
        self.machine, self.argument, self.heads = machine, argument, heads
        self.at, self.period, self.step, self.margin = at, period, step, margin
        self.growth = step * period
        self.ends: set[int] = set()

    def proof(self, now: int) -> Proof:
        """Return the proof for `now` and all arguments that differ from it by a multiple of the step."""
        rest = now % self.step
        first = (self.at + 1) * self.step + rest
        last, moves = 0, False
        for n in range(first, first + self.growth, self.step):
            traces = self._traces(n)
            rounds = self.margin + 3 * _factor(traces, self.machine.geometry)
            last = max(last, n + self.growth * rounds)
            if last // self.step > MOST_LAUNCHES:
                why = f"{last // self.step:,} launches would show it: too many"
                raise Unfit(min(self.heads), why, final=True)
            moves |= _Places(traces, rounds - self.margin, self.machine.geometry).check()
        return Proof(tuple(sorted(self.ends)), range(rest, last + 1, self.step), moves)

    def _traces(self, n: int) -> list[_Trace]:
        machine, g = self.machine, self.growth
        machine.margin = self.margin
        start = machine.start({row: Value(n, g, g) for row in self.argument})
        traces = []
        for path in machine.run(start, self.heads, self.at):
            if path.ended:
                traces.append(_Trace(path.events, [], []))
                continue
            self.ends.add(path.head)
            before, path.events = path.events, []
            state = self._one_round(path)
            round_, state = self._any_round(path, state)
            traces.append(_Trace(before, round_, self._end(path, state)))
        return traces

    def _round(self, path: Path, state: State) -> Path:
        """Follow one round from a state at the head of the loop."""
        begin = Path(path.pc, path.threads, dict(state), [], 0, path.head)
        ends = self.machine.run(begin, frozenset({path.head}), self.period)
        if len(ends) != 1 or ends[0].ended:
            raise Unfit(path.pc, "its threads part in the midst of the loop")
        return ends[0]

    def _one_round(self, path: Path) -> State:
        """Return the registers after t rounds with u rounds left, as a guess from the first round: t is 0 before it."""
        after = self._round(path, path.state).state
        guess: State = {}
        for row, value in path.state.items():
            then = after.get(row)
            if isinstance(value, Value) and isinstance(then, Value) and np.array_equal(then.c, value.c):
                guess[row] = Value(value.a, then.a - value.a + value.c, value.c)
            else:
                guess[row] = _keep_value(value, then)
        return guess

    def _any_round(self, path: Path, state: State) -> tuple[list[Event], State]:
        """Return the events of a round, and the registers whose guess it preserves: the induction step."""
        while True:
            end = self._round(path, state)
            wrong = [row for row, value in state.items() if not _continues(value, end.state.get(row))]
            if not wrong:
                return end.events, state
            state = {**state, **dict.fromkeys(wrong, COMPUTED)}

    def _end(self, path: Path, state: State) -> list[Event]:
        """Return the events of the end of the launch, when fewer than `margin` rounds are left."""
        left = self.margin - 1
        state = {
            row: Value(value.a + value.c * left, value.b, 0) if isinstance(value, Value) else value
            for row, value in state.items()
        }
        begin = Path(path.pc, path.threads, state, [], 0, path.head)
        ends = self.machine.run(begin, frozenset(), 0)
        return [event for end in ends for event in end.events]


def _keep_value(value: Any, then: Any) -> Any:
    """Return the value of a register without affine form: a token or a predicate that the round does not change."""
    if value is TOKEN and then is TOKEN:
        return TOKEN
    same = not isinstance(value, (Value, Unknown)) and not isinstance(then, (Value, Unknown)) and then is not None
    return value if same and np.array_equal(value, then) else COMPUTED


def _continues(value: Any, then: Any) -> bool:
    """Return whether a round changes a register as the induction requires: t to t + 1, and u to u - 1."""
    if isinstance(value, Value):
        return (
            isinstance(then, Value)
            and bool(np.all(then.a == value.a + value.b - value.c))
            and bool(np.all(then.b == value.b)) and bool(np.all(then.c == value.c))
        )  # fmt: skip
    if value is TOKEN:
        return then is TOKEN
    return isinstance(value, Unknown) or _keep_value(value, then) is not COMPUTED


# -- synchronization ---------------------------------------------------------------------------------------------------
def _factor(traces: Sequence[_Trace], geometry: Geometry) -> int:
    """Return k, the number of rounds after which every barrier is in its initial state again."""
    for trace in traces:
        for event in (*trace.before, *trace.round, *trace.after):
            _check_operands(event)
    return math.lcm(_barrier_period(traces, geometry), _mbarrier_period(traces, geometry))


def _check_operands(event: Event) -> None:
    for operand in event.operands:
        parity = event.kind == PARITY
        if parity and not (np.any(np.asarray(operand.b) % 2) or np.any(np.asarray(operand.c) % 2)):
            continue
        if not operand.constant:
            raise Unfit(event.pc, "the operand differs from round to round", final=not parity)
    if event.address is not None and np.any(event.address.c):
        raise Unfit(event.pc, "the address counts from the end of the loop", final=True)
    if event.kind in _OF_MBARRIERS and event.address is not None and not event.address.constant:
        raise Unfit(event.pc, "the mbarrier differs from round to round")


def _barrier_period(traces: Sequence[_Trace], geometry: Geometry) -> int:
    warps_of = -(-geometry.threads // LANES)
    met: defaultdict[tuple[int, int], list[Any]] = defaultdict(list)
    """(instruction, number of its execution in the round) -> rows of warps, barriers and counts"""
    for trace in traces:
        seen: Counter[int] = Counter()
        for event in trace.round:
            if event.kind == "barrier":
                barrier, count = (np.broadcast_to(np.asarray(o.a), event.threads.shape) for o in event.operands)
                warp = event.threads // geometry.threads * warps_of + event.threads % geometry.threads // LANES
                met[event.pc, seen[event.pc]].append(np.stack([warp, barrier, count]))
                seen[event.pc] += 1
    got: Counter[tuple[int, int, int]] = Counter()
    for parts in met.values():
        for warp, barrier, count in np.unique(np.concatenate(parts, axis=1), axis=1).T.tolist():
            got[warp // warps_of, barrier, count or warps_of * LANES] += LANES
    return math.lcm(1, *(count // math.gcd(arrived, count) for (_, _, count), arrived in got.items()))


_NAMES_BYTES = ("expect", "credit", PROMISE)
_OF_MBARRIERS = ("init", "inval", "arrive_on", "expect", "credit", "await", PARITY)


def _mbarrier_period(traces: Sequence[_Trace], geometry: Geometry) -> int:
    expected: dict[tuple[int, int], int] = {}
    got: Counter[tuple[int, int]] = Counter()
    named: dict[tuple[int, int], int] = {}
    """mbarrier -> an operation of the loop that expects or completes bytes on it"""
    for trace in traces:
        for event in (*trace.before, *trace.round, *trace.after):
            if event.kind == "init":
                for place, count in zip(_places(event, geometry), _each(event, 0), strict=True):
                    expected[place] = count
        if any(event.kind in ("init", "inval") for event in trace.round):
            raise Unfit(trace.round[0].pc, "mbarriers begin or end in the loop")
        for event in trace.round:
            if event.kind == "arrive_on" and event.size & DROP:
                raise Unfit(event.pc, "threads leave the mbarrier")
            arrives = event.kind == "arrive_on"
            if arrives or (event.kind == PROMISE and event.size & NOINC):
                counts = _each(event, 0) if arrives else [1] * len(event.threads)
                for place, count in zip(_places(event, geometry), counts, strict=True):
                    got[place] += count
            elif event.kind in _NAMES_BYTES:
                named |= dict.fromkeys(_places(event, geometry), event.pc)
    for place, pc in named.items():
        if not got[place]:  # each round adds pending bytes to the same phase
            raise Unfit(pc, "a phase of an mbarrier stays open over all rounds")
    k = 1
    for place, arrived in got.items():
        if not expected.get(place):
            raise Unfit(traces[0].before[0].pc if traces[0].before else 0, "an mbarrier's count is not known")
        count = expected[place]
        factor = count // math.gcd(arrived, count)
        k = math.lcm(k, factor * (1 + arrived * factor // count % 2))
    return k


def _places(event: Event, geometry: Geometry) -> list[tuple[int, int]]:
    """Return the location, as (CTA, address), that each thread accesses."""
    assert event.address is not None
    address = np.broadcast_to(np.asarray(event.address.a), event.threads.shape)
    return list(zip((event.threads // geometry.threads).tolist(), address.tolist(), strict=True))


def _each(event: Event, n: int) -> list[int]:
    found: list[int] = np.broadcast_to(np.asarray(event.operands[n].a), event.threads.shape).tolist()
    return found


# -- accesses --------------------------------------------------------------------------------------------------------
_ACCESSES = ("read", "write", "atomic")
_OWN = {SHARED: "shared", LOCAL: "local"}
"""spaces of a size that the kernel declares, so that it does not grow with the argument"""


class _Places:
    """The accesses of a family of launches, and whether two accesses that no run covers may overlap."""

    def __init__(self, traces: Sequence[_Trace], rounds: int, geometry: Geometry) -> None:
        self.rounds = rounds
        """largest distance in rounds that the runs cover"""
        self.moves = False
        self.found: defaultdict[int, list[tuple[Event, Any, Any]]] = defaultdict(list)
        """segment -> (access, addresses of its threads, strides per round)"""
        for trace in traces:
            for event in (*trace.before, *trace.round, *trace.after):
                if event.kind in _ACCESSES and event.address is not None:
                    self._enter(event, event.address)

    def _enter(self, event: Event, address: Value) -> None:
        places = np.broadcast_to(np.asarray(address.a), event.threads.shape)
        strides = np.broadcast_to(np.asarray(address.b), event.threads.shape)
        segments = places >> SEGMENT_SHIFT
        for segment in np.unique(segments).tolist():
            inside = segments == segment
            if np.any(strides[inside]):
                self.moves = True
                if segment in _OWN:
                    raise Unfit(event.pc, f"the address walks through {_OWN[segment]} memory", final=True)
                if np.any(strides[inside] < 0):
                    raise Unfit(event.pc, "the address walks backwards", final=True)
            self.found[segment].append((event, places[inside], strides[inside]))

    def check(self) -> bool:
        """Return whether any location advances; raise Unfit if accesses meet at a distance that no run covers."""
        for segment, accesses in self.found.items():
            written = any(event.kind != "read" for event, _, _ in accesses)
            if segment != SHARED and written and any(np.any(strides) for _, _, strides in accesses):
                self._segment(accesses)
        return self.moves

    def _segment(self, accesses: list[tuple[Event, Any, Any]]) -> None:
        unit = math.gcd(*(event.size for event, _, _ in accesses if event.size)) or 1
        for _, places, strides in accesses:
            unit = math.gcd(unit, *np.unique(places % unit).tolist(), *np.unique(strides % unit).tolist())
        cells = [self._cells(event, places, strides, unit) for event, places, strides in accesses]
        place, stride, writes = (np.concatenate(part) for part in zip(*cells, strict=True))
        moving = np.unique(stride[stride != 0]).tolist()
        if len(moving) > 1:
            raise Unfit(accesses[0][0].pc, "accesses to one array move by different strides", final=True)
        for by in moving:
            self._meet(accesses, place, stride, writes, by)

    @staticmethod
    def _cells(event: Event, places: Any, strides: Any, unit: int) -> tuple[Any, Any, Any]:
        """Return the memory units of an access, their strides, and whether the access writes them."""
        count = event.size // unit
        cells = (places[:, None] // unit + np.arange(count)).ravel()
        return cells, np.repeat(strides // unit, count), np.full(len(cells), event.kind != "read")

    def _meet(self, accesses: list[tuple[Event, Any, Any]], place: Any, stride: Any, writes: Any, by: int) -> None:
        """Raise Unfit if locations that advance by one stride, or stay, may meet at a distance that no run covers."""
        mine = (stride == by) | (stride == 0)
        where, turn, moves, written = place[mine] % by, place[mine] // by, stride[mine] != 0, writes[mine]
        order = np.lexsort((turn, where))
        where, turn, moves, written = where[order], turn[order], moves[order], written[order]
        starts = np.flatnonzero(np.r_[True, where[1:] != where[:-1]])
        for first, last in zip(starts.tolist(), [*starts[1:].tolist(), len(where)], strict=True):
            if not written[first:last].any() or not moves[first:last].any():
                continue
            turns, moving = turn[first:last], moves[first:last]
            low = turns[moving].min()
            far = max(turns[moving].max() - low, (turns[~moving].max(initial=low) - low))
            if far > self.rounds:
                why = f"accesses to one place are up to {far:,} rounds apart"
                raise Unfit(accesses[0][0].pc, why, final=True)
