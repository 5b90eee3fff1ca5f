"""Interface of the exploration of atomics: the part that `check` needs, without importing the rest."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.evidence.places import Places
from wsemu.launch.explore.arrays import put_back
from wsemu.model.bound import Account
from wsemu.model.codes import CODES, SCHEDULES
from wsemu.model.control_flow import STEERS
from wsemu.model.data import replace
from wsemu.model.isa import ATOMICS, NAMES, OPCODE
from wsemu.proof.numbered import find_numbered

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.launch.explore.decided import Decided
    from wsemu.model.bound import Bound
    from wsemu.model.finding import Residency
    from wsemu.model.outcome import Outcome, Tracer
    from wsemu.model.program import Program
    from wsemu.proof.taint import Influence

ACCOUNT, MOST_OF_ORDERS = 1.5, 2 / 3
"""for one unit of effort: what all methods together may use to decide a launch, which takes about 2 seconds; and the
part of it that the interleavings may use, because other programs may follow"""
PATIENCE = 100_000
"""warp instructions of a run after which a launch that atomics may keep in a loop is examined"""
SLOW_PATIENCE = 5_000
"""maximum patience of the reference interpreter, which executes some thousand warp instructions in a second"""
MORE = 20
"""factor of the patience with a run that is not known to stay in loops that wait"""
_ATOMIC = frozenset(OPCODE[name] for name in ATOMICS)


class Orders:
    """The orders of one launch's atomics."""

    def __init__(self, bound: Bound, segment_of: dict[int, int], *, first: bool = False) -> None:
        """With `first`, one failing interleaving is enough; whether all fail need not be determined."""
        if not bound.is_other:
            bound = bound._replace(account=Account(ACCOUNT * bound.settings.effort))
        self.bound, self.segment_of, self.first = bound, segment_of, first
        self.known: Decided | None = None
        self.needed: Residency | None = None
        """residency that CTAs which wait for each other need, if that was found"""
        self.tried = False
        """true if interleavings of the atomics were explored: one run then does not cover all that threads may do"""
        self.stays = False
        """true if the launch waits forever if CTAs run one after another"""
        self.few = min(PATIENCE, SLOW_PATIENCE) if bound.settings.engine == "reference" else PATIENCE
        """patience with this launch, in warp instructions"""

    def patience(self) -> int | None:
        """Return a smaller step budget than the requested one, if a launch may wait for memory to change."""
        return self.few if self.bound.settings.budget > self.few and self.influences_control() else None

    def influences_control(self) -> bool:
        """Return whether concurrent stores may influence it: then one run does not determine its errors."""
        return _may_wait(self.bound.program) or _may_look(self.bound.program)

    def may_decide(self) -> bool:
        """Return whether there are any: a launch without speaks for itself."""
        return not _ATOMIC.isdisjoint(self.bound.program.opcodes)

    def needs_full_budget(self, outcome: Outcome, initial: Callable[[], list[Any]]) -> bool:
        """Return whether a run that exhausted its patience must be repeated with its whole budget."""
        if outcome.status != "budget" or self.patience() is None:
            return False
        has_errors = any(raw.code in CODES and CODES[raw.code].severity == "error" for raw in outcome.findings)
        if has_errors:
            return not self.first and self._may_finish(outcome, initial)
        shape = self.bound.configuration
        places = Places(
            self.bound.program, shape.grid, shape.block, outcome, self.bound.arrays, self.segment_of
        )  # fmt: skip
        before = initial()
        put_back(self.bound, before)
        outcome.waits = self.stays = self._stays(outcome, before)
        if not self.stays and self._ends(before):
            return True
        if _may_wait(self.bound.program):
            self.known = self.decide(places, initial)
        if self.known is not None and (self.known.proven or self.known.findings):
            return False
        put_back(self.bound, before)
        return True

    def _may_finish(self, outcome: Outcome, initial: Callable[[], list[Any]]) -> bool:
        """Return whether a run with errors needs its whole budget because its program continues with the arrays.

        A run that only waits never ends: its arrays already hold what they will hold.
        """
        before = initial()
        if any(kept is None for kept in before):
            return False
        left = [data.copy() if writable else None for data, writable in self.bound.segments]
        put_back(self.bound, before)
        if self._stays(outcome, before):
            put_back(self.bound, left)
            return False
        return True

    def _ends(self, before: list[Any]) -> bool:
        """Return whether the launch ends if it runs longer."""
        from wsemu.launch.running import ran

        if self.bound.settings.budget <= MORE * self.few or any(kept is None for kept in before):
            return False
        outcome = ran(self.bound, 1, MORE * self.few)[0]
        put_back(self.bound, before)
        return outcome.status == "done"

    def _stays(self, first: Outcome, before: list[Any]) -> bool:
        """Return whether only waiting loops run, and no other thread could write: more steps would repeat. `first`
        ended with its patience."""
        from wsemu.launch.running import ran
        from wsemu.proof.idle import has_no_end, waits

        def run_alone(steps: int) -> Outcome:
            outcome = ran(self.bound, 1, steps)[0]
            put_back(self.bound, before)
            return outcome

        outcome = run_alone(2 * self.few)
        if outcome.status != "budget":
            return False
        more = np.array(outcome.executions) - np.array(first.executions)
        if int(more.min()) < 0:  # on several cores other CTAs ran as well
            more = np.array(outcome.executions) - np.array(run_alone(self.few).executions)
        running = np.flatnonzero(more).tolist()
        warps = self.bound.configuration.warps * math.prod(self.bound.configuration.cluster)
        again = bool(running) and int(more[running].min()) > 2 * warps
        return again and (waits(self.bound.program, running) or has_no_end(self.bound.program, running))

    def gives_places(
        self, places: Places, trace: Tracer, initial: Callable[[], list[Any]], analysis: Influence
    ) -> bool:
        """Return whether atomics only influence at which of their own locations threads store, so that one run of the
        launch covers all."""
        from wsemu.launch.explore.given import Given

        return Given(self.bound, places, trace, initial, analysis).right()

    def decide(self, places: Places, initial: Callable[[], list[Any]]) -> Decided | None:
        """Return the decision from all interleavings, or None if they cannot be explored."""
        from wsemu.launch.explore.decide import decide, decide_large, feasible, small
        from wsemu.launch.explore.given import known_rows
        from wsemu.launch.explore.methods import decide_by_arrivals

        if self.known is not None or not self.may_decide():
            return self.known
        chosen = self.bound.settings
        if not chosen.checkers & {*SCHEDULES}:
            return None
        # influence is computed for all arrays; later code decides which findings are reported
        budget = min(chosen.budget, 2 * self.few) if self.stays else chosen.budget
        account = self.bound.account
        if not self.bound.is_other:
            account = account.part(MOST_OF_ORDERS * account.left)
        wanted = replace(chosen, checkers=chosen.checkers | {*SCHEDULES}, budget=budget)
        bound = self.bound._replace(settings=wanted, account=account)
        before = initial()
        kept = all(data is not None for data in before)
        if not kept or not feasible(bound, places):
            return None
        left = [data.copy() for data, _ in bound.segments]
        put_back(bound, before)
        stays = left if places.outcome.status == "done" else None
        if stays is not None and (found := self._decide_by_values(bound, places, before)):
            put_back(bound, left)
            return found  # whatever any memory model lets loads return was tried
        if find_numbered(bound.program):  # that orders end well numbers no CTAs
            put_back(bound, left)
            return None
        found = decide_by_arrivals(bound, places, known_rows(bound), left=stays)
        if found is None and small(bound):
            found = decide(bound, places, left=stays, first=self.first)
        elif found is None:
            found = decide_large(bound, places, left=left)
        if found is not None and found.proven:
            found = self._doubt_guarded_release(found, places)
        self.tried = found is not None
        self.needed = found.needed if found is not None else None
        return found

    def _decide_by_values(self, bound: Bound, places: Places, before: list[Any]) -> Decided | None:
        """Return the proof from all values that strong loads and `cas` may return, or None."""
        from wsemu.launch.explore.decide import may_publish
        from wsemu.launch.explore.methods import decide_by_claims, decide_by_numbers, decide_by_windows

        found = decide_by_windows(bound, places) if may_publish(bound) else None
        put_back(bound, before)
        for method in (decide_by_claims, decide_by_numbers):
            if found is None:
                found = method(bound, places)
                put_back(bound, before)
        self.tried = found is not None
        return found

    def _doubt_guarded_release(self, found: Decided, places: Places) -> Decided:
        """Return a proof, or the reason why there is none: interleavings do not cover all executions if a read decides
        whether a fence is executed."""
        from wsemu.proof.guarded_releases import find_guarded_release

        guarded = find_guarded_release(self.bound.program, self.segment_of.get)
        if guarded is None:
            return found
        why = (
            f"{places.where(guarded.fence)}: the read on line {places.line(guarded.read)} decides whether this fence "
            f"comes before the strong write on line {places.line(guarded.write)}, and may see a store that is made "
            "after that write: put the fence where each result leads to it"
        )
        return found._replace(proven=False, reasons=(why,), how="")


def _may_wait(program: Program) -> bool:
    """Return whether the result of an atomic may decide a branch."""
    if "atomics branch" not in program.derived:
        program.derived["atomics branch"] = not _ATOMIC.isdisjoint(program.opcodes) and _atomics_branch(program)
    found: bool = program.derived["atomics branch"]
    return found


def _atomics_branch(program: Program) -> bool:
    from wsemu.proof.taint import find_tainted

    code = program.code
    steered = find_tainted(program, [1] * len(code))
    return any(t.what in STEERS.values() and NAMES[int(code[t.source, 0])] in ATOMICS for t in steered)


def _may_look(program: Program) -> bool:
    """Return whether a loop may wait for memory to change, or has no end."""
    if "loops wait" not in program.derived:
        from wsemu.proof.idle import may_wait

        program.derived["loops wait"] = may_wait(program)
    found: bool = program.derived["loops wait"]
    return found
