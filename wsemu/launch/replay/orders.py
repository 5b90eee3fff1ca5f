"""Replay of an order of atomics: all CTAs are alive, and lanes perform their ordered accesses as the schedule has them.

Between two of these everything runs that can, as in the search that found the order (`explore/search.py`), on the
reference interpreter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wsemu.evidence.places import Places
from wsemu.launch.replay.access import AccessRecord, conflicting_sides, exchange_accesses, look, shared_elements
from wsemu.launch.replay.machine import ReplayError, linear
from wsemu.model.data import NamedTuple, replace
from wsemu.model.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from wsemu.launch.explore.session import Ask, Session
    from wsemu.model.bound import Bound
    from wsemu.model.finding import Step
    from wsemu.model.outcome import RawFinding

_ACCESSES = ("load", "store", "atomic")
_Key = tuple[int, int, int]
"""CTA, warp, instruction"""


class Followed(NamedTuple):
    """A launch after an order of its atomics."""

    session: Session
    places: Places
    findings: list[RawFinding]
    """findings of all CTAs of the launch"""
    records: list[tuple[_Key, AccessRecord]]
    """accesses of the examined instructions, in order"""

    def stuck_warps(self) -> list[tuple[int, int, str]] | None:
        """Return (warp, instruction, what it waits for) of all warps that have not ended; None if one of them can
        continue."""
        session, found = self.session, list[tuple[int, int, str]]()
        before = [session.digest(cta) for cta in range(session.ctas)]
        memory, saved = session.digest_memory(), session.save_memory()
        for cta in range(session.ctas):
            kept, asks = session.save(cta), session.asks(cta)
            for ask in asks:
                session.go(ask)
                if session.digest_memory() != memory:
                    return None
                found.append((ask.warp, ask.pc, f"`{self.places.element(ask.place[1], ask.pc)}` to change"))
            if asks and session.digest(cta) != before[cta]:
                return None
            session.load(cta, kept)
            session.load_memory(saved)
            found += [(warp, pc, "others, at a barrier, a phase or a join") for warp, pc in session.waiting_warps(cta)]
        return found


def follow_order(
    bound: Bound, steps: Sequence[Step], budget: int, shows: Callable[[Followed], Any | None]
) -> tuple[Any, Followed]:
    """Perform the accesses of a schedule in order.  Return the launch, and the result of `shows` for its final state.

    Raise ReplayError if the launch does not follow the order, or `shows` finds nothing.
    """
    from wsemu.launch.binding import address_rows
    from wsemu.launch.explore.decide import replay_sessions

    copies = [(data.copy(), writable) for data, writable in bound.segments]
    chosen = replace(bound.settings, engine="reference", budget=budget)
    bound = bound._replace(segments=copies, settings=chosen)
    configuration, program = bound.configuration, bound.program
    rows = address_rows(program, bound.rows, bound.names, bound.arrays)
    places = Places(program, configuration.grid, configuration.block, Outcome("done"), bound.arrays, rows)
    why = ReplayError("the launch has no atomics whose order matters")
    for session in replay_sessions(bound, places):
        try:
            followed = _follow(session, places, steps, configuration.grid)
        except ReplayError as error:
            why = error
            continue
        found = shows(followed)
        if found is not None:
            return found, followed
        why = ReplayError("the order of atomics does not show what the witness is of: check the program anew")
    raise why


def _follow(session: Any, places: Places, steps: Sequence[Step], grid: tuple[int, int, int]) -> Followed:
    looked_at = {
        (linear(step, grid), step.warp, step.instruction) for step in steps if step.does in _ACCESSES and step.mark
    }
    records: list[tuple[_Key, AccessRecord]] = []

    def see(run: Any, lanes: int) -> Callable[[], None] | None:
        key = run.own.number, run.warp.number, run.warp.ready[-1].pc
        after = look(run, lanes) if key in looked_at else None
        return None if after is None else lambda: records.append((key, after()))

    session.run.look = see
    moved = session.start()
    findings = {(cta, raw.code, raw.pc): raw for cta, one in enumerate(moved) for raw in one.findings}
    for number, step in enumerate(steps, 1):
        if step.lane is None or step.mark:
            continue
        ask = _ask(session, step, grid)
        if ask is None:
            where = f"lane {step.lane} of warp {step.warp} does not wait at line {places.line(step.instruction)}"
            raise ReplayError(f"step {number} of {len(steps)}: {where}")
        findings |= {(ask.cta, raw.code, raw.pc): raw for raw in session.go(ask).findings}
    return Followed(session, places, [*findings.values()], records)


def _ask(session: Any, step: Step, grid: tuple[int, int, int]) -> Ask | None:
    """Return the access before which the lane of a step waits."""
    wanted = linear(step, grid), step.warp, step.lane, step.instruction
    threads = getattr(session, "threads", None)
    for number in (wanted[0],) if threads is None else range(session.ctas):
        for ask in session.asks(number):
            cta, warp = (number, ask.warp) if threads is None else threads[number][:2]
            if (cta, warp, ask.lane, ask.pc) == wanted:
                found: Ask = ask
                return found
    return None


def racing_accesses(followed: Followed, marked: Sequence[Step], grid: tuple[int, int, int]) -> Any | None:
    """Return the two accesses of a race, and both as they would be in the opposite order; None if there are none."""
    one, two = ((linear(step, grid), step.warp, step.instruction) for step in marked)
    apart, program = one[:2] == two[:2], followed.places.program
    for first, second in _pairs(followed.records, one, two):
        if any(shared_elements(first, second, program, apart)):
            pair = conflicting_sides(first, second, program)
            return pair, exchange_accesses(*pair)
    return None


def _pairs(
    records: Sequence[tuple[_Key, AccessRecord]], one: _Key, two: _Key
) -> Iterator[tuple[AccessRecord, AccessRecord]]:
    """Yield the executions of two instructions in their order, the last ones first."""
    for n in range(len(records) - 1, -1, -1):
        if records[n][0] == two:
            yield from ((seen, records[n][1]) for key, seen in reversed(records[:n]) if key == one)
