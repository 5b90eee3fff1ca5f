"""Misuse of mbarriers.

Detects: operations on memory that is not an mbarrier, or may not be one yet; a second initialization; lanes of one
instruction that initialize it with one count; accesses to its bytes.  Also detects: its invalidation while others may
use it; counts out of range; more arrivals than its phase expects.
Does not detect: what a phase means; that is `phase`.
Reference: PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier"; measured rules M1-M22.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.checkers import words
from wsemu.evidence.places import lanes_text
from wsemu.model.isa import MOST_COUNT, READ
from wsemu.model.outcome import Detail
from wsemu.model.remedy import Cures

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.evidence.places import Places
    from wsemu.model.finding import Finding
    from wsemu.model.outcome import RawFinding

DETAIL = {
    "mbarrier-uninitialized": Detail({
        "address": "of the mbarrier",
        "ordered": "1: it is one in this run, at other_pc, but nothing orders that before",
        "dead": "1: it was one until other_pc",
    }),
    "mbarrier-reinit": Detail({"address": "of the mbarrier"}),
    "same-value-init": Detail({"address": "of the mbarrier"}),
    "mbarrier-clobber": Detail({
        "address": "of the mbarrier", "at": "byte that is accessed", "kind": "of the access", "size": "bytes",
        "asynchronous": "1: by an asynchronous copy",
    }),
    "mbarrier-lifetime": Detail({
        "address": "of the mbarrier", "phase": "that is open, from 0",
        "what": "0: no order after the use at other_pc, 1: bytes or arrivals are outstanding",
    }, {"other_lane": "lane of that use; -1: there is none"}),
    "commit-order": Detail(
        {"address": "of the mbarrier", "phase": "that is open, from 0"}, {"other_lane": "lane of the commit"}
    ),
    "mbarrier-range": Detail({
        "address": "of the mbarrier", "value": "that it cannot hold",
        "what": "0: count of init, 1: arrivals, 2: bytes of an operation, 3: bytes in all, 4: an arrival that must not "
        "complete its phase can, 5: bytes of the phase in some order, 6: arrivals of it that are added to the count",
    }),
    "over-arrival": Detail({
        "address": "of the mbarrier", "phase": "that is open, from 0", "pending": "arrivals that were missing",
        "count": "that came",
    }),
}  # fmt: skip
CODES = tuple(DETAIL)
CURES = {
    "mbarrier-uninitialized": Cures(
        40,
        "insert move argument compare unguard call",
        inserts=("syncthreads", "fence_mbarrier_init", "cluster_sync"),
        ptx=("bar.sync 0;",),
    ),
    "mbarrier-reinit": Cures(50, "compare insert move guard delete", inserts=("syncthreads",), ptx=("bar.sync 0;",)),
    "same-value-init": Cures(550, "guard"),
    "mbarrier-clobber": Cures(280, "index size constant bound argument move compare"),
    "mbarrier-lifetime": Cures(290, "insert move delete compare", inserts=("syncthreads",)),
    "commit-order": Cures(457),
    "mbarrier-range": Cures(60, "argument constant"),
    "over-arrival": Cures(270, "argument constant guard compare delete bound move", inserts=("syncthreads",)),
}
_STOPPED = "the launch was stopped here"
_SPLIT = f"keep the bytes of a phase at or below {MOST_COUNT:,}: split the copies over several mbarriers"


def explain(raw: RawFinding, places: Places) -> Finding:
    """Return the finding of an operation on an mbarrier, or on memory that should hold an mbarrier."""
    return _EXPLAIN[raw.code](raw, places)


def _explain_uninitialized(raw: RawFinding, places: Places) -> Finding:
    name, does = words.mbarrier(raw, places), words.does(places, raw.pc)
    who = words.who(raw, places)
    label = f"{who} {words.does(places, raw.pc, 1 + (', lanes' in who))} {name}"
    if raw.detail["ordered"]:
        return words.finding(
            raw, places, f"{name} may be no mbarrier yet when {places.who(raw.cta, raw.warp)} {does} it", label,
            ["in this run (1) came first; nothing orders it before (2)"],
            f"add {_meet(raw, places)} {places.after(raw.other_pc, raw.pc)}, where every thread passes",
            f"{words.other(raw, places)} initialises it",
        )  # fmt: skip
    if raw.detail["dead"]:
        inval = words.spell_instruction(places, raw.pc, "mbarrier.inval")
        return words.finding(
            raw, places, f"{name} is no mbarrier any more when {places.who(raw.cta, raw.warp)} {does} it", label,
            [f"an H100 goes on working with what is left of it; {_STOPPED}"],
            f"move the {inval} on {places.near(raw.other_pc, raw.pc)} after the last use, with a barrier between, or "
            "initialise it again before this",
            f"{words.other(raw, places)} ends it",
        )  # fmt: skip
    return words.finding(
        raw, places, f"{name} is no mbarrier when {places.who(raw.cta, raw.warp)} {does} it", label,
        [f"nothing has initialised it so far in this CTA; {_STOPPED}"], _initialise(raw, places),
    )  # fmt: skip


def _meet(raw: RawFinding, places: Places) -> str:
    """Return the barrier of the CTA, or of the cluster if two CTAs have to meet, as the file spells it."""
    apart = raw.detail.get("other_cta", raw.cta) != raw.cta
    return words.spell_instruction(places, raw.pc, "barrier.cluster" if apart else "bar.sync 0")


def _initialise(raw: RawFinding, places: Places) -> str:
    init = words.spell_instruction(places, raw.pc, "mbarrier.init")
    known = words.executed_instructions(places, "mbarrier.init")
    if not known:
        return f"initialise it first: one thread executes {init}, then all meet at {_meet(raw, places)}"
    there = words.lines(places, known, raw.pc)
    return (
        f"look at the {init} on {there}: is this one of the mbarriers that it initialises, and does "
        f"{_meet(raw, places)} stand between it and this?"
    )


def _reinit(raw: RawFinding, places: Places) -> Finding:
    name, who = words.mbarrier(raw, places), words.other(raw, places)
    label = f"{words.who(raw, places)} initialises it"
    if raw.other_pc >= 0 and words.operation(places, raw.other_pc) == "mbarrier.inval":
        return words.finding(
            raw, places, f"{name} may be initialised again before it has ended", label,
            ["in this run (1) came first; nothing orders it before (2)"],
            f"add {_meet(raw, places)} {places.after(raw.other_pc, raw.pc)}, where every thread passes",
            f"{who} ends it",
        )  # fmt: skip
    once = f"initialise it once: `if` one thread of the CTA, then {_meet(raw, places)}"
    inval = words.spell_instruction(places, raw.pc, "mbarrier.inval")
    anew = f"end it first, with {inval} and a barrier, or use another word"
    return words.finding(
        raw, places, f"{name} is initialised while it is an mbarrier", label,
        ["arrivals and bytes of its open phase are lost; PTX leaves it undefined, the launch goes on with a new one"],
        once if raw.other_pc in (-1, raw.pc) else anew, f"{who} made it",
    )  # fmt: skip


def _same_value(raw: RawFinding, places: Places) -> Finding:
    name, who = words.mbarrier(raw, places), places.who(raw.cta, raw.warp)
    return words.finding(
        raw, places, f"lanes of {who} initialize {name} with the same count",
        f"{words.who(raw, places)} initialize it again",
        [
            (
                "PTX leaves a second initialization undefined; every order of these leaves the same mbarrier, and each "
                "use comes after all of them"
            ),
        ],
        f"let one lane initialize each mbarrier: {_one_lane_condition(raw, places)}",
        f"the first lane of {who} initializes it",
    )  # fmt: skip


def _clobber(raw: RawFinding, places: Places) -> Finding:
    d, name = raw.detail, words.mbarrier(raw, places)
    verb = words.noun(places, raw.pc) if d["asynchronous"] else places.verb(raw.pc)
    does = "reads" if d["kind"] == READ else "writes"
    seen = (
        "a load sees what memory held before the mbarrier was made"
        if d["kind"] == READ
        else "a store is lost, or changes the mbarrier when it ends"
    )
    inval = words.spell_instruction(places, raw.pc, "mbarrier.inval")
    return words.finding(
        raw, places, f"{words.with_article(verb)} {does} the bytes of the mbarrier {name}",
        f"{verb} of {words.amount(d['size'])} at {words.quote_element(places, d['at'], raw.pc)} by "
        f"{words.who(raw, places)}",
        [f"PTX leaves it undefined; on an H100 {seen}"],
        f"keep data off the 8 bytes of an mbarrier, or end it first with {inval}",
    )  # fmt: skip


def _lifetime(raw: RawFinding, places: Places) -> Finding:
    d, name = raw.detail, words.mbarrier(raw, places)
    label = f"{words.who(raw, places)} ends it in phase {d['phase']}"
    if d["what"] == 0:
        noun = words.noun(places, raw.other_pc) if raw.other_pc >= 0 else "use"
        return words.finding(
            raw, places, f"{name} ends while {words.other(raw, places)} may still use it", label,
            [f"nothing orders the {noun} (1) before the end (2)"],
            f"add {_meet(raw, places)} {places.after(raw.other_pc, raw.pc)}, before "
            f"{places.near(raw.pc, raw.other_pc)}",
            f"{words.other(raw, places)} {words.does(places, raw.other_pc)} it",
        )  # fmt: skip
    return words.finding(
        raw, places, f"{name} ends in phase {d['phase']} while something is outstanding on it", label,
        ["bytes, arrivals of asynchronous copies, or threads that wait are left without an mbarrier"],
        f"wait for phase {d['phase']} before this, or leave the end out: shared memory ends with the CTA",
    )  # fmt: skip


def _explain_order(raw: RawFinding, places: Places) -> Finding:
    name = words.mbarrier(raw, places)
    return words.finding(
        raw, places, f"{name} ends, and only a later `tcgen05.commit` shows that (1) has arrived on it",
        f"{words.who(raw, places)} ends it in phase {raw.detail['phase']}",
        ["commits of a thread arrive in their order on hardware; PTX does not promise it"],
        f"wait for phase {raw.detail['phase'] - 1} of it before this, or leave the end out: shared memory ends with "
        "the CTA",
        f"{words.other(raw, places)} {words.does(places, raw.other_pc)} it",
    )  # fmt: skip


def _range(raw: RawFinding, places: Places) -> Finding:
    value, what, name = raw.detail["value"], raw.detail["what"], words.mbarrier(raw, places)
    if what == 4:
        return words.finding(
            raw, places, f"{name}: an arrival that must not complete its phase can be the last of it",
            f"{words.who(raw, places)} arrives with `.noComplete`",
            [f"nothing in phase {value} comes after it in every schedule",
             "PTX leaves it undefined; an H100 completes the phase, and so does this launch"],
            f"use {words.spell_instruction(places, raw.pc, 'mbarrier.arrive')}, or let another arrival follow in every "
            "phase",
        )  # fmt: skip
    if what in (5, 6):
        amount = words.amount(abs(value), "byte" if what == 5 else "arrival")
        return words.finding(
            raw, places, f"{name}: in some schedule its phase has {amount} outstanding at once",
            f"executed by {words.who(raw, places)}",
            [f"an mbarrier holds counts up to {MOST_COUNT:,}; in this run some had come before others were expected"],
            _SPLIT,
        )  # fmt: skip
    message, remedy = {
        0: (f"{name} is initialised with a count of {value:,}", f"give the arrivals of a phase: 1 to {MOST_COUNT:,}"),
        1: (f"{name}: {words.amount(value, 'arrival')} in one operation", f"arrive with at most {MOST_COUNT:,}"),
        2: (f"{name}: an operation names {words.amount(value)}", _SPLIT),
        3: (f"{name}: its phase has {words.amount(abs(value))} {'outstanding' if value > 0 else 'more than expected'}",
            _SPLIT),
    }[what]  # fmt: skip
    return words.finding(
        raw, places, message, f"executed by {words.who(raw, places)}",
        [f"an mbarrier holds counts up to {MOST_COUNT:,}; an H100 traps; {_STOPPED}"], remedy,
    )  # fmt: skip


def _over_arrival(raw: RawFinding, places: Places) -> Finding:
    d, name, lanes = raw.detail, words.mbarrier(raw, places), raw.lanes.bit_count()
    came, pending = words.amount(d["count"], "arrival"), d["pending"]
    verb = "comes" if d["count"] == 1 else "come"
    awaits = f"waits for {pending:,}" if pending else "has all its arrivals"
    who = words.who(raw, places) if lanes < 2 else f"{lanes} lanes of {places.who(raw.cta, raw.warp)}"
    label = f"{who} {'arrives' if lanes < 2 else 'arrive, each by itself'}"
    return words.finding(
        raw, places, f"{name}, phase {d['phase']}: {came} {verb} where the phase {awaits}",
        f"{label}: {d['count']:,} of {pending:,}",
        f"an H100 traps, and adds up the lanes of an instruction first (M4, M6); {_STOPPED}",
        _fewer(raw, places),
    )  # fmt: skip


def _one_lane_condition(raw: RawFinding, places: Places) -> str:
    """Spell what lets one lane of a warp execute something."""
    return f"{words.spell_instruction(places, raw.pc, 'elect.sync', '0xffffffff')} or `if lane == 0`"


def _fewer(raw: RawFinding, places: Places) -> str:
    count, lanes = raw.detail["count"], raw.lanes.bit_count()
    if lanes > 1 and count > raw.detail["pending"]:
        return (
            f"{lanes} lanes arrive: let one of them do it, with {_one_lane_condition(raw, places)}; or make the "
            f"mbarrier with the number of threads that arrive ({lanes_text(raw.lanes)}: {lanes})"
        )
    return (
        "look for a thread that arrives twice in a phase: let it wait for the phase before it arrives again, or count "
        "it in the initialisation"
    )


_EXPLAIN: dict[str, Callable[[RawFinding, Places], Finding]] = {
    "mbarrier-uninitialized": _explain_uninitialized,
    "mbarrier-reinit": _reinit,
    "same-value-init": _same_value,
    "mbarrier-clobber": _clobber,
    "mbarrier-lifetime": _lifetime,
    "commit-order": _explain_order,
    "mbarrier-range": _range,
    "over-arrival": _over_arrival,
}
