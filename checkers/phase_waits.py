"""Describe lanes that wait forever for a phase of an mbarrier: how many arrivals and bytes the phase lacks, which warps
could supply them, and which mbarriers received them instead.  A helper of `deadlock`, not a checker of its own."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from wsemu.checkers import words
from wsemu.model.control_flow import reachable
from wsemu.model.data import dataclass, field
from wsemu.model.effects import BRINGS, find_words
from wsemu.model.isa import NOINC

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wsemu.evidence.places import Places
    from wsemu.model.outcome import PhaseState, Trace

_ARRIVES = find_words(lambda row: row.meets == "mbarrier" and row.event == "arrive_on")
_BRINGS = BRINGS | find_words(lambda row: row.event == "credit")
_COPIES = BRINGS | {"cp.async", "cp.async.arrive"}
_EXPECTS = ("mbarrier.expect_tx", "mbarrier.arrive")
_AUX = 7
"""position of `aux` in an instruction"""
_MOST_TOLD = 3
"""operations of a phase that a note names"""


@dataclass(slots=True)
class _Phase:
    """The operations in a phase: (warp, instruction) -> arrivals or bytes."""

    arrived: Counter[tuple[int, int]] = field(default_factory=Counter)
    expected: Counter[tuple[int, int]] = field(default_factory=Counter)
    brought: Counter[tuple[int, int]] = field(default_factory=Counter)


class Ledger:
    """The operations of a CTA's warps on its mbarriers, by phase; empty without a trace."""

    def __init__(self, places: Places, trace: Trace | None, cta: int) -> None:
        self.places, self.cta = places, cta
        self.complete = trace is not None and trace.complete
        self.phases: defaultdict[tuple[int, int], _Phase] = defaultdict(_Phase)
        self.addresses: defaultdict[int, set[int]] = defaultdict(set)
        """mbarriers on which an instruction was executed, by instruction"""
        self.seen: dict[tuple[int, int], int] = {}
        """last phase that a warp has observed complete, by mbarrier and warp"""
        for event in trace.events if trace is not None else ():
            if event.cta != cta:
                continue
            kinds = {"arrive_on": "arrived", "expect": "expected", "credit": "brought"}
            if event.kind == "init":
                for key in [key for key in self.phases if key[0] == event.place]:
                    del self.phases[key]
                self.seen = {key: phase for key, phase in self.seen.items() if key[0] != event.place}
            elif event.kind == "await":
                self.seen[event.place, event.warp] = event.generation
            elif event.kind in kinds:
                done = getattr(self.phases[event.place, event.generation], kinds[event.kind])
                done[event.warp, event.pc] += event.amount
                self.addresses[event.pc].add(event.place)

    def state(self, address: int) -> PhaseState | None:
        return next((state for state in self.places.outcome.phases if state.address == address), None)

    # -- who could bring it -------------------------------------------------------------------------------------------

    def supplies(self, pc: int, address: int) -> bool:
        """Return whether an instruction may deliver arrivals or bytes that the current phase of an mbarrier lacks."""
        state, kind = self.state(address), words.operation(self.places, pc)
        if state is None:
            return False
        wanted = _ARRIVES if state.pending else _BRINGS if state.tx > 0 else _EXPECTS
        known = self.addresses.get(pc, set())
        if kind not in wanted or len(known - {address}) == 1 == len(known):
            return False
        return not kind.startswith("mbarrier") or self.places.may_use(pc, address)

    def counted_by_itself(self, address: int) -> int | None:
        """Return an arrive of asynchronous copies that raises the count of its own phase, if the mbarrier has no other
        arrives; otherwise None."""
        program, executed = self.places.program, self.places.outcome.executions
        own = (p for p, places in self.addresses.items() if address in places)
        if any(words.operation(self.places, p) == "mbarrier.arrive" for p in own):
            return None
        name = self.places.element(address, 0).partition("[")[0]
        arrives = (
            p
            for p in range(len(program.code))
            if executed[p] and words.operation(self.places, p) == "cp.async.arrive"
            if not int(program.code[p, _AUX]) & NOINC
        )
        return next((p for p in arrives if self.places.element(address, p).partition("[")[0] == name), None)

    def next_supply(self, pc: int, address: int) -> int | None:
        """Return the nearest instruction that supplies the mbarrier and may run after `pc`."""
        return next((p for p in reachable(self.places.program, pc) if p != pc and self.supplies(p, address)), None)

    def users(self, address: int) -> set[int]:
        """Return the warps that have arrived on an mbarrier, or delivered bytes, in any phase so far."""
        done = (phase for (place, _), phase in self.phases.items() if place == address)
        return {warp for phase in done for warp, _ in (*phase.arrived, *phase.brought)}

    def supply_verb(self, address: int) -> str:
        """Return the text for an action that would complete the current phase of an mbarrier: `arrive on it`."""
        state = self.state(address)
        if state is None or state.pending:
            return "arrive on it"
        return "write the bytes" if state.tx > 0 else "expect the bytes"

    def use_text(self, address: int, warps: Sequence[int]) -> str:
        """Return how warps have used an mbarrier: `arrived on it` if each of them did."""
        done = [phase for (place, _), phase in self.phases.items() if place == address]
        state, uses = self.state(address), [("arrived on it", "arrived"), ("copied to it", "brought")]
        for text, name in uses if state is None or state.pending else reversed(uses):
            if {*warps} <= {warp for phase in done for warp, _ in getattr(phase, name)}:
                return text
        return "arrived on it or copied to it"

    # -- what it lacks, in words --------------------------------------------------------------------------------------

    def lacks(self, address: int, phase: int) -> str:
        """Return what the phase still needs, such as `4,096 bytes missing, 0 of 1 arrivals missing`."""
        state = self.state(address)
        if state is None:
            return "it is no longer an mbarrier"
        if phase < state.phase:
            return f"the current phase is {state.phase}: the wait is for an earlier phase, or has an old token"
        bytes_ = f"{words.amount(abs(state.tx))} {'missing' if state.tx >= 0 else 'too many'}"
        arrivals = f"{state.pending:,} of {words.amount(state.expected, 'arrival')} missing"
        texts = [bytes_] * (state.tx != 0) + [arrivals] if state.pending else [bytes_, "0 arrivals missing"]
        return ", ".join(texts)

    def account(self, address: int, phase: int, near: int) -> str:
        """Return what warps did in a phase, such as `warp 3 expected 8,192 bytes at line 40, copies brought 4,096`."""
        done, state = self.phases.get((address, phase), _Phase()), self.state(address)
        texts = []
        if done.expected:
            texts += [
                f"{who} expected {words.amount(n)} at {line}"
                for who, n, line in self._contributions(done.expected, near)
            ]
        if done.brought:
            texts.append(f"copies wrote {sum(done.brought.values()):,}{self._at(done.brought, near)}")
        elif done.expected:
            texts.append("no copy wrote any")
        if state is not None and (state.pending or not texts):
            came = [f"{who} arrived at {line}" for who, _, line in self._contributions(done.arrived, near)]
            more = len(done.arrived) - len(came)
            texts += [*came, *[f"and {more:,} more"] * (more > 0)] or [self._absence_text(address)]
        return ", ".join(texts)

    def _absence_text(self, address: int) -> str:
        """Return the text for a phase without arrivals; it names the array if none of its mbarriers was ever used."""
        name = self.places.element(address, 0).partition("[")[0]
        used = {self.places.element(place, 0).partition("[")[0] for own in self.addresses.values() for place in own}
        is_alone = self.places.outcome.group == (1, 1, 1) and name not in used
        return f"no arrive on `{name}` was executed" if is_alone else "nobody arrived"

    def elsewhere(self, address: int, near: int) -> str:
        """Return which mbarriers received the bytes instead, such as `copies brought `full[0]` 4,096 bytes that it does
        not expect (line 41)`."""
        for state in self.places.outcome.phases:
            if state.address != address and state.tx < 0:
                brought = self.phases.get((state.address, state.phase), _Phase()).brought
                name = words.quote_element(self.places, state.address, near)
                return f"{name} received {words.amount(-state.tx)} that it does not expect{self._at(brought, near)}"
        return ""

    def arrivals_elsewhere(self, address: int, near: int) -> str:
        """Return where warps arrived instead, such as `warp 1 arrived on `full[0]` at line 24, where nobody waits`, if
        an mbarrier has no arrivals at all."""
        if self.users(address):
            return ""
        waited = {wait.address for wait in self.places.outcome.phase_waits} | {place for place, _ in self.seen}
        for (place, _), phase in self.phases.items():
            if place not in waited and phase.arrived:
                warp, pc = min(phase.arrived)
                who, name = self.places.who(self.cta, warp), words.quote_element(self.places, place, near)
                return f"{who} arrived on {name} at {self.places.near(pc, near)}, where no thread waits now"
        return ""

    def history(self, address: int, phase: int, near: int, exited: Iterable[int]) -> str:
        """Return which warps completed the previous phase: `in phase 1 warp 1 arrived at line 52; it has exited`."""
        before, now = (self.phases.get((address, number), _Phase()) for number in (phase - 1, phase))
        came = {warp for warp, _ in (*now.arrived, *now.brought)}
        old = Counter({key: n for key, n in (before.arrived + before.brought).items() if key[0] not in came})
        texts = []
        for warp, pc in sorted(old)[:_MOST_TOLD]:
            does = "arrived" if (warp, pc) in before.arrived else "copied"
            gone = ", and has exited" if warp in exited else ""
            texts.append(f"{self.places.who(self.cta, warp)} {does} at {self.places.near(pc, near)}{gone}")
        if len(old) > _MOST_TOLD:
            texts.append(f"and {len(old) - _MOST_TOLD:,} more")
        return f"in phase {phase - 1} {'; '.join(texts)}" if texts else ""

    def too_late(self, address: int, phase: int, pc: int, warps: Iterable[int]) -> list[int]:
        """Return the warps that may have missed the phase for whose parity they wait: they have not observed the last
        phase of that parity, and the phase after it has completed as well."""
        if not (self.complete and self.seen) or phase < 2 or "parity" not in words.full_name(self.places, pc):
            return []
        return [warp for warp in warps if self.seen.get((address, warp), -1) < phase - 2]

    def out_of_balance(self, address: int) -> bool:
        """Return whether a phase has all its arrivals, but the wrong number of bytes, which is not zero."""
        state = self.state(address)
        if state is None or state.pending or not state.tx:
            return False
        return state.tx < 0 or bool(self.phases.get((address, state.phase), _Phase()).brought)

    def balance(self, address: int, near: int) -> str:
        """Return the number of bytes to expect in a phase, if it is equal for all phases of an mbarrier; otherwise an
        empty text."""
        own = [phase for (place, _), phase in self.phases.items() if place == address]
        times = sum(phase.arrived[key] for phase in own for key in phase.expected)
        come, wanted = (sum(sum(getattr(p, name).values()) for p in own) for name in ("brought", "expected"))
        if not (times and come and self.complete) or come % times or wanted % times or come == wanted:
            return ""
        name, where = words.quote_element(self.places, address, near), sorted({pc for p in own for _, pc in p.expected})
        lines = words.lines(self.places, where, near)
        return (
            f"expect {words.amount(come // times)} on {name}, not {wanted // times:,} ({lines}): the copies of a phase "
            f"write {come // times:,}"
        )

    def fresh(self, address: int) -> bool:
        """Return whether an mbarrier is in its first phase, and nothing has happened in it."""
        state = self.state(address)
        return state is not None and (state.phase, state.tx) == (0, 0) and state.pending == state.expected

    def _contributions(self, done: Counter[tuple[int, int]], near: int) -> Iterator[tuple[str, int, str]]:
        for (warp, pc), number in sorted(done.items())[:_MOST_TOLD]:
            yield self.places.who(self.cta, warp), number, self.places.near(pc, near)

    def _at(self, done: Counter[tuple[int, int]], near: int) -> str:
        return f" ({words.lines(self.places, sorted({pc for _, pc in done}), near)})" if done else ""


def phase_help(ledger: Ledger, address: int, phase: int, pc: int) -> str:
    """Return the help that completes a phase."""
    places, state = ledger.places, ledger.state(address)
    name = words.quote_element(places, address, pc)
    if state is None or phase < state.phase:
        return f"check the phase or token that {places.near(pc, pc)} waits for"
    done = ledger.phases.get((address, phase), _Phase())
    counted = ledger.counted_by_itself(address) if state.pending else None
    if counted is not None:
        noinc = words.spell_instruction(places, counted, "cp.async.mbarrier.arrive.noinc")
        return (
            f"{places.near(counted, pc)} raises the count by the arrival that it performs later, so that {name} still "
            f"lacks an arrival: use {noinc}, or arrive in the same thread after it"
        )
    if state.pending and done.arrived:
        return (
            f"make the arrivals per phase match the count of {name}, {state.expected:,} "
            f"({places.near(state.init_pc, pc)}): look for a missing arrive, a loop with fewer iterations, or an early "
            "return"
        )
    if state.pending and (elsewhere := ledger.arrivals_elsewhere(address, pc)):
        return f"use the same mbarrier on both sides if {name} is meant: {elsewhere}"
    if state.pending:
        return (
            f"every phase of {name} needs {words.amount(state.expected, 'arrival')}: look for a missing arrive, a loop "
            "with fewer iterations, or an early return"
        )
    if (elsewhere := ledger.elsewhere(address, pc)) and state.tx > 0:
        return f"check the mbarrier that the copies name: {elsewhere}"
    if balance := ledger.balance(address, pc):
        return balance
    if state.tx > 0:
        return f"make the bytes expected on {name} equal the bytes that its copies write"
    return f"expect {words.amount(-state.tx)} more on {name}, as many as its copies write"


def too_few(ledger: Ledger, waits: Iterable[tuple[int, int, int, set[int]]]) -> str:
    """Return the edit for an mbarrier whose count exceeds the arrivals that its warps perform in a phase.  Return an
    empty text if other warps may arrive.  A wait is (instruction, mbarrier, phase, warps that may arrive later)."""
    places = ledger.places
    for pc, address, phase, users in waits:
        state, done = ledger.state(address), ledger.phases.get((address, phase), _Phase())
        if state is None or not (ledger.complete and state.pending and done.arrived) or state.phase != phase:
            continue
        if users <= {warp for warp, _ in done.arrived}:
            name, came = words.quote_element(places, address, pc), state.expected - state.pending
            arrive = words.lines(places, sorted({p for _, p in done.arrived}), pc)
            return (
                f"{name} expects {words.amount(state.expected, 'arrival')} per phase, but receives {came:,}: "
                f"initialize it with {came:,} on {places.near(state.init_pc, pc)}, or arrive in {state.expected:,} "
                f"threads on {arrive}"
            )
    return ""


def missed_phase_help(ledger: Ledger, address: int, phase: int, pc: int, warps: Sequence[int]) -> str:
    """Return a hint if the waiting warp may have waited too late for the phase that was meant."""
    late = ledger.too_late(address, phase, pc, warps)
    if not late:
        return ""
    who, name = ledger.places.who(ledger.cta, late[0]), words.quote_element(ledger.places, address, pc)
    return (
        f"{who} has not observed phase {phase - 2} of {name}, which has the parity that it waits for: if it means that "
        f"phase, the wait on {ledger.places.near(pc, pc)} comes too late; make phase {phase - 1} wait for {who}, with "
        "an arrive after each of its waits, or use the parity of the current phase"
    )


def buffer(places: Places, address: int) -> str:
    """Return the role of an mbarrier in the only array of a `Pipeline`, such as ` (buffer 1 empty)`; an empty text for
    other mbarriers."""
    name = places.element(address, 0).partition("[")[0]
    made = (state for state in places.outcome.phases if "pipeline" in places.patterns(state.init_pc))
    own = sorted(state.address for state in made if places.element(state.address, 0).partition("[")[0] == name)
    if address not in own or len(own) % 2:
        return ""
    stage, stages = own.index(address), len(own) // 2
    return f" (buffer {stage % stages} {'full' if stage < stages else 'empty'})"


def skipped_phase_help(ledger: Ledger, waits: Iterable[tuple[int, int, int, Sequence[int]]]) -> str:
    """Return a hint if threads wait for a phase without having observed the previous one, which is complete.  A wait is
    (instruction, mbarrier, phase, warps)."""
    places = ledger.places
    for pc, address, phase, warps in waits:
        state, told = ledger.state(address), {warp for _, warp in ledger.seen}
        begun = state is None or state.pending < state.expected or state.tx
        if begun or not (ledger.complete and phase > 0 and "parity" in words.full_name(places, pc)):
            continue
        for warp in told & {*warps}:
            seen, name = ledger.seen.get((address, warp), -1), words.quote_element(places, address, pc)
            if seen < phase - 1:
                return (
                    f"{places.who(ledger.cta, warp)} waits on {places.near(pc, pc)} for phase {phase} of {name}, and "
                    f"has not waited for phase {phase - 1}, which is complete: make it wait for the parity of that "
                    "phase first; in a ring of n buffers the parity changes every n iterations, `i // n & 1`"
                )
    return ""


def precedes_copies(places: Places, pc: int) -> bool:
    """Return whether copies may follow a wait, which is then a producer's wait for a free buffer."""
    return any(words.operation(places, p) in _COPIES for p in reachable(places.program, pc))


def first_parity(ledger: Ledger, waits: Iterable[tuple[int, int]]) -> str:
    """Return a hint if threads wait for the first phase of an unused mbarrier although they should themselves start a
    pipeline.  A wait is (instruction, mbarrier)."""
    waits = list(waits)
    if not all(ledger.fresh(address) for _, address in waits):
        return ""
    fresh = [(pc, address) for pc, address in waits if "parity" in words.full_name(ledger.places, pc)]
    places = ledger.places
    producers = [(pc, address) for pc, address in fresh if precedes_copies(places, pc)]
    pc, address = next(iter(producers or fresh), (-1, 0))
    if pc < 0:
        return ""
    return (
        f"if the buffer of {words.quote_element(places, address, pc)} is initially free, use parity 1 for the first "
        f"wait on {places.near(pc, pc)}: it returns immediately"
    )
