"""The phases of mbarriers.

Detects: operations that belong to a different phase in another schedule (rules R1-R3); tokens of an older phase, or of
another mbarrier; arrivals before any thread has observed the completion of the previous phase.
Also detects: expect-tx operations that nothing waits for (R5), and bytes that are missing or surplus at the end (R6).
Does not detect: values that depend on the result of a poll; the verdict is `incomplete` there.
Reference: PTX ISA, "Phase of the mbarrier object"; the one-run theorem in docs/semantics.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.checkers import words
from wsemu.model.effects import BRINGS
from wsemu.model.outcome import Detail
from wsemu.model.remedy import Cures

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.evidence.places import Places
    from wsemu.model.finding import Finding
    from wsemu.model.outcome import Event, RawFinding, Trace

_PHASE = {"address": "of the mbarrier", "phase": "that is open, from 0"}
_OTHER = {"other_lane": "lane of (1), or of an expectation; -1: there is none"}
DETAIL = {
    "phase-alias": Detail({
        **_PHASE,
        "rule": "1: an arrival, expectation or copy that can come early, 2: a wait that can, 3: a wait that can come "
        "late, 4: a token of an older phase, 5: a token of another mbarrier",
    }, _OTHER),
    "phase-unobserved": Detail(_PHASE),
    "uncovered-expectation": Detail(
        {**_PHASE, "what": "0: bytes, 1: the arrival of asynchronous copies, 3: of size 0"}, _OTHER
    ),
    "tx-mismatch": Detail({
        **_PHASE, "bytes": "that are missing; below 0: too many", "pending": "arrivals that are missing",
    }),
    "dangling-phase": Detail({**_PHASE, "pending": "arrivals that are missing", "expected": "arrivals of a phase"}),
}  # fmt: skip
CODES = tuple(DETAIL)
CURES = {
    "phase-alias": Cures(
        330,
        "argument constant insert move stage unguard call split index guard delete pair",
        inserts=("syncthreads", "syncwarp"),
    ),
    "phase-unobserved": Cures(340, "insert argument constant move unguard pair call", inserts=("syncthreads",)),
    "uncovered-expectation": Cures(250, "call argument constant move insert"),
    "tx-mismatch": Cures(260, "argument constant insert call move delete bound compare"),
    "dangling-phase": Cures(466, "insert argument constant bound delete guard move unguard compare call split"),
}


TRACED = True


def explain(raw: RawFinding, places: Places, trace: Trace | None = None) -> Finding:
    """Return the finding about an operation on a phase.  With a trace, the finding may name a wait that waits for the
    same phase twice."""
    found = _EXPLAIN[raw.code](raw, places)
    repeated = _find_repeated_wait(raw, trace) if trace is not None and raw.code in _MISSED else None
    if repeated is None:
        return found
    line, name = places.near(repeated.pc, raw.pc), words.quote_element(places, repeated.place, repeated.pc)
    phase = f"phase {repeated.generation}" if repeated.generation >= 0 else "the phase before the first"
    who = places.who(repeated.cta, repeated.warp)
    again = f"{who} has already observed {phase} of {name}, so its next wait for it on {line} returns immediately"
    divides = "//" if places.span(repeated.pc).file.endswith(".py") else "/"
    parity = f"`(k {divides} stages) & 1`"
    help_ = f"change the parity of the wait on {line} each time that the mbarrier is used again, as {parity} does"
    return found.model_copy(update={"notes": [again, *found.notes], "help": help_})


_MISSED = ("phase-alias", "phase-unobserved")
"""codes that a second wait for the same phase may cause"""


def _find_repeated_wait(raw: RawFinding, trace: Trace) -> Event | None:
    """Return the first wait, by a warp of the finding, for a phase for which the same instruction has already
    waited."""
    seen: set[tuple[int, int, int, int, int, int]] = set()
    for event in trace.events:
        if event.kind == "await" and event.cta == raw.cta and event.warp in (raw.warp, raw.other_warp):
            key = event.warp, event.pc, event.place, event.generation, event.lanes & -event.lanes, event.cta
            if key in seen:
                return event
            seen.add(key)
    return None


def _alias(raw: RawFinding, places: Places) -> Finding:
    return {1: _early, 2: _early_wait, 3: _late_wait, 4: _old_token, 5: _foreign_token}[raw.detail["rule"]](raw, places)


def _two(raw: RawFinding, places: Places) -> tuple[str, str]:
    """Return the subjects of (1) and (2) for a message: warps, lanes of one warp, or for (1) an asynchronous copy."""
    one, two = words.other(raw, places), places.who(raw.cta, raw.warp)
    if words.operation(places, raw.other_pc) in (*BRINGS, "cp.async.arrive"):
        noun = words.noun(places, raw.other_pc)
        return f"its own {noun}" if one == two else f"the {noun} of {one}", two
    return ("another lane", f"a lane of {two}") if one == two else (one, two)


def _early(raw: RawFinding, places: Places) -> Finding:
    name, phase = words.mbarrier(raw, places), raw.detail["phase"]
    noun, (first, second) = words.noun(places, raw.pc), _two(raw, places)
    there = places.near(raw.pc, raw.other_pc)
    counts = words.operation(places, raw.pc) == "cp.async.arrive" and raw.other_pc >= 0 and first == "another lane"
    swap = (
        f"put {there} before the arrive on {places.near(raw.other_pc, raw.pc)}: it raises the count of its phase, "
        "which is too late once that arrive has completed the phase"
    )
    return words.finding(
        raw, places,
        f"{name}: the {noun} of phase {phase} can be counted into phase {phase - 1}: {second} does not wait until "
        f"phase {phase - 1} is complete",
        f"{noun} by {words.who(raw, places)}, phase {phase}",
        [f"if (1) is late, (2) is counted into phase {phase - 1}, which needs (1): nothing orders (1) before (2)"],
        swap if counts else
        f"before {there}, make the threads of (2) wait for phase {phase - 1} of {name}, or for an mbarrier on which "
        "threads arrive after (1) is complete (full and empty)",
        f"{words.noun(places, raw.other_pc)} by {words.other(raw, places)}, phase {phase - 1}",
    )  # fmt: skip


def _early_wait(raw: RawFinding, places: Places) -> Finding:
    name, second = words.mbarrier(raw, places), _two(raw, places)[1]
    noun, there = words.noun(places, raw.other_pc), places.near(raw.pc, raw.other_pc)
    return words.finding(
        raw, places,
        f"{name}: the wait of {second} can come one phase early, and then succeeds for the phase two earlier",
        words.acts(raw, places, "waits"),
        f"nothing orders the {noun} (1), which belongs to the phase before the one waited for, before (2); every "
        "second phase has the same parity",
        f"make {second} wait for every phase of {name} in turn: check the parity or token on {there}, and whether "
        "another path skips a wait",
        f"{noun} by {words.other(raw, places)}",
    )  # fmt: skip


def _late_wait(raw: RawFinding, places: Places) -> Finding:
    name, phase, first = words.mbarrier(raw, places), raw.detail["phase"], _two(raw, places)[0]
    noun, before = words.noun(places, raw.pc), f"phase {phase - 1}" if phase else "that it is new"
    meet = words.spell_instruction(places, raw.pc, "bar.warp.sync")
    return words.finding(
        raw, places,
        f"{name}: phase {phase} can complete before {first} has observed {before}, which it waits for",
        f"{noun} by {words.who(raw, places)} completes phase {phase}",
        f"phase {phase} completes without (1): if {first} is late, the parity has flipped again, and it waits one "
        "phase too long, or forever",
        f"add {meet} {places.after(raw.other_pc, raw.pc)}, before a lane continues"
        if first == "another lane"
        else f"make phase {phase} wait for {first}: count an arrive of it after (1), or make (2) wait for one",
        f"{words.other(raw, places)} waits" + f" for phase {phase - 1}" * (phase > 0),
    )  # fmt: skip


def _old_token(raw: RawFinding, places: Places) -> Finding:
    name, phase = words.mbarrier(raw, places), raw.detail["phase"]
    return words.finding(
        raw, places, f"{name}: a wait uses a token older than phase {phase - 1}",
        f"{words.acts(raw, places, 'waits')} in phase {phase}",
        "a token is valid for the current phase and the previous one; an H100 compares only the lowest bit of their "
        "numbers (M13)",
        "use the token of the latest arrive, and wait once after each arrive",
    )  # fmt: skip


def _foreign_token(raw: RawFinding, places: Places) -> Finding:
    name = words.mbarrier(raw, places)
    return words.finding(
        raw, places, f"{name}: a wait uses a token that {name} has not given",
        words.acts(raw, places, "waits"),
        "a token is the result of an arrive at the mbarrier that the wait names; of any other number, an H100 compares "
        "the highest bit with the phase (M13)",
        f"use the token of an arrive at {name}, or wait with the parity of the phase",
    )  # fmt: skip


def _explain_unobserved(raw: RawFinding, places: Places) -> Finding:
    name, phase = words.mbarrier(raw, places), raw.detail["phase"]
    wait = words.spell_instruction(places, raw.pc, "mbarrier.try_wait.parity")
    parity = f"with parity {(phase - 1) & 1}"
    return words.finding(
        raw, places, f"{name}: arrive in phase {phase} before any thread observed phase {phase - 1} complete",
        words.acts(raw, places, "arrives"),
        [f"no successful wait for phase {phase - 1} happens before this arrive; PTX requires one in each phase"],
        f"wait for phase {phase - 1} before this arrive ({wait} {parity}), in this thread or in one that it waits for",
    )  # fmt: skip


_OF_SIZE_0 = 3


def _explain_uncovered(raw: RawFinding, places: Places) -> Finding:
    name, phase = words.mbarrier(raw, places), raw.detail["phase"]
    if raw.detail["what"] == _OF_SIZE_0:
        return words.finding(
            raw, places, f"{name}: phase {phase} can complete before this operation of size 0",
            f"executed by {words.who(raw, places)}",
            "no arrive comes after it: in another schedule all threads have left the mbarrier with arrive_drop before, "
            "and the operation completes a phase of its own",
            "leave out operations of size 0, or execute this one before the last arrive_drop",
        )  # fmt: skip
    if raw.detail["what"]:
        noinc = words.spell_instruction(places, raw.pc, "cp.async.mbarrier.arrive.noinc")
        return words.finding(
            raw, places, f"{name}: phase {phase} can complete before the copies of this arrive",
            f"executed by {words.who(raw, places)}",
            "it raises the count of the phase, and arrives when its copies are complete; in another schedule the phase "
            "completes first, because no other arrive of the phase comes after it",
            f"use {noinc} and include it in the initial count, or arrive in the same thread after it",
        )  # fmt: skip
    both = words.spell_instruction(places, raw.pc, "mbarrier.arrive.expect_tx")
    return words.finding(
        raw, places, f"{name}: phase {phase} can complete before these bytes are expected",
        f"expected by {words.who(raw, places)}",
        "no arrive of the phase comes after this expect-tx operation: in another schedule the phase completes first, "
        "and the bytes count in the next phase",
        f"expect and arrive in one operation, {both}, or arrive in the same thread after it",
    )  # fmt: skip


def _mismatch(raw: RawFinding, places: Places) -> Finding:
    d, name = raw.detail, words.mbarrier(raw, places)
    missing = d["bytes"] > 0
    which = (
        "look for a copy that is smaller than expected, is missing, or names another mbarrier"
        if missing
        else "look for a copy that is larger than expected, or a path that copies without expecting bytes"
    )
    told = (
        "no thread waits for this phase"
        if missing
        else "in another schedule the phase completes before all bytes are transferred"
    )
    return words.finding(
        raw, places,
        f"{name} is in phase {d['phase']} when the CTA exits: {words.lacking(d['bytes'], d['pending'])}",
        f"{words.noun(places, raw.pc)} by {words.who(raw, places)}", [told],
        f"make the bytes expected in a phase equal the bytes that its copies write: {which}",
    )  # fmt: skip


def _dangling(raw: RawFinding, places: Places) -> Finding:
    d, name = raw.detail, words.mbarrier(raw, places)
    came = d["expected"] - d["pending"]
    return words.finding(
        raw, places,
        f"{name} has {came:,} of {words.amount(d['expected'], 'arrival')} in phase {d['phase']} when the CTA exits",
        words.acts(raw, places, "arrives"), ["harmless on the hardware (M21)"],
        (
        "remove the last arrive, or make the other threads arrive as often: one side executes one more iteration than "
        "the other"
        ),
    )  # fmt: skip


_EXPLAIN: dict[str, Callable[[RawFinding, Places], Finding]] = {
    "phase-alias": _alias,
    "phase-unobserved": _explain_unobserved,
    "uncovered-expectation": _explain_uncovered,
    "tx-mismatch": _mismatch,
    "dangling-phase": _dangling,
}
