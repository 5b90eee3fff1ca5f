"""Misuse of mbarriers.

Detects: operations on memory that is not an mbarrier, or may not be one yet; a second initialization; lanes of one
instruction that all initialize the same mbarrier; accesses to the bytes of an mbarrier.
Also detects: the invalidation of an mbarrier while other threads may use it; counts out of range; more arrivals than a
phase expects.
Does not detect: waits for the wrong phase; `phase` reports these.
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
            raw, places, (
                f"{places.who(raw.cta, raw.warp)} may {words.does(places, raw.pc, 2)} {name} before it is "
                "initialized"
                ), label,
            ["in this run (1) came first; nothing orders it before (2)"],
            f"add {_meet(raw, places)} {places.after(raw.other_pc, raw.pc)}, where every thread passes",
            f"{words.other(raw, places)} initializes it",
        )  # fmt: skip
    if raw.detail["dead"]:
        inval = words.spell_instruction(places, raw.pc, "mbarrier.inval")
        return words.finding(
            raw, places, f"{places.who(raw.cta, raw.warp)} {does} {name} after it was invalidated", label,
            [f"an H100 continues to use what is left of it; {_STOPPED}"],
            f"move the {inval} on {places.near(raw.other_pc, raw.pc)} after the last use, with a barrier in between, "
            "or initialize it again before this",
            f"{words.other(raw, places)} ends it",
        )  # fmt: skip
    return words.finding(
        raw, places, f"{places.who(raw.cta, raw.warp)} {does} {name}, which is not an mbarrier", label,
        [f"nothing has initialized it so far in this CTA; {_STOPPED}"], _initialise(raw, places),
    )  # fmt: skip


def _meet(raw: RawFinding, places: Places) -> str:
    """Return the barrier of the CTA, or of the cluster if two CTAs have to synchronize, in the spelling of the file."""
    apart = raw.detail.get("other_cta", raw.cta) != raw.cta
    return words.spell_instruction(places, raw.pc, "barrier.cluster" if apart else "bar.sync 0")


def _initialise(raw: RawFinding, places: Places) -> str:
    init = words.spell_instruction(places, raw.pc, "mbarrier.init")
    known = words.executed_instructions(places, "mbarrier.init")
    if not known:
        return f"initialize it first: execute {init} in one thread, then {_meet(raw, places)} in all"
    there = words.lines(places, known, raw.pc)
    return (
        f"check the {init} on {there}: it must initialize this mbarrier too, with {_meet(raw, places)} before this use"
    )


def _reinit(raw: RawFinding, places: Places) -> Finding:
    name, who = words.mbarrier(raw, places), words.other(raw, places)
    label = f"{words.who(raw, places)} initializes it"
    if raw.other_pc >= 0 and words.operation(places, raw.other_pc) == "mbarrier.inval":
        return words.finding(
            raw, places, f"{name} may be initialized again before it is invalidated", label,
            ["in this run (1) came first; nothing orders it before (2)"],
            f"add {_meet(raw, places)} {places.after(raw.other_pc, raw.pc)}, where every thread passes",
            f"{who} invalidates it",
        )  # fmt: skip
    once = f"initialize it once: in one thread of the CTA, then {_meet(raw, places)}"
    inval = words.spell_instruction(places, raw.pc, "mbarrier.inval")
    anew = f"invalidate it first, with {inval} and a barrier, or use another word"
    return words.finding(
        raw, places, f"{name} is initialized again without being invalidated", label,
        [(
            "undefined in PTX; this run continues with a new mbarrier, and arrivals and bytes of the current phase "
            "are lost"
            )],
        once if raw.other_pc in (-1, raw.pc) else anew, f"{who} initialized it",
    )  # fmt: skip


def _same_value(raw: RawFinding, places: Places) -> Finding:
    name, who = words.mbarrier(raw, places), places.who(raw.cta, raw.warp)
    return words.finding(
        raw, places, f"lanes of {who} initialize {name} with the same count",
        f"{words.who(raw, places)} initialize it again",
        [
            (
                "a second initialization is undefined in PTX; here every order leaves the same mbarrier, and each use "
                "comes after all initializations"
            ),
        ],
        f"initialize each mbarrier in one lane: {_one_lane_condition(raw, places)}",
        f"the first lane of {who} initializes it",
    )  # fmt: skip


def _clobber(raw: RawFinding, places: Places) -> Finding:
    d, name = raw.detail, words.mbarrier(raw, places)
    verb = words.noun(places, raw.pc) if d["asynchronous"] else places.verb(raw.pc)
    does = "reads" if d["kind"] == READ else "writes"
    seen = (
        "a load returns the contents from before the initialization"
        if d["kind"] == READ
        else "a store is lost, or changes the mbarrier when it is invalidated"
    )
    inval = words.spell_instruction(places, raw.pc, "mbarrier.inval")
    return words.finding(
        raw, places, f"{words.with_article(verb)} {does} the bytes of the mbarrier {name}",
        f"{verb} of {words.amount(d['size'])} at {words.quote_element(places, d['at'], raw.pc)} by "
        f"{words.who(raw, places)}",
        [f"undefined in PTX; on an H100 {seen}"],
        f"keep data out of the 8 bytes of an mbarrier, or invalidate it first with {inval}",
    )  # fmt: skip


def _lifetime(raw: RawFinding, places: Places) -> Finding:
    d, name = raw.detail, words.mbarrier(raw, places)
    label = f"{words.who(raw, places)} invalidates it in phase {d['phase']}"
    if d["what"] == 0:
        noun = words.noun(places, raw.other_pc) if raw.other_pc >= 0 else "use"
        return words.finding(
            raw, places, f"{name} is invalidated while {words.other(raw, places)} may still use it", label,
            [f"nothing orders the {noun} (1) before the invalidation (2)"],
            f"add {_meet(raw, places)} {places.after(raw.other_pc, raw.pc)}, before "
            f"{places.near(raw.pc, raw.other_pc)}",
            f"{words.other(raw, places)} {words.does(places, raw.other_pc)} it",
        )  # fmt: skip
    return words.finding(
        raw, places, f"{name} is invalidated in phase {d['phase']} with operations pending", label,
        ["pending bytes, pending arrivals of asynchronous copies, or waiting threads lose their mbarrier"],
        f"wait for phase {d['phase']} first, or remove the invalidation: shared memory ends with the CTA",
    )  # fmt: skip


def _explain_order(raw: RawFinding, places: Places) -> Finding:
    name = words.mbarrier(raw, places)
    return words.finding(
        raw, places, f"{name} is invalidated, and only a later `tcgen05.commit` shows that (1) has arrived on it",
        f"{words.who(raw, places)} invalidates it in phase {raw.detail['phase']}",
        ["on hardware the commits of a thread arrive in program order; PTX does not guarantee it"],
        f"wait for its phase {raw.detail['phase'] - 1} first, or remove the invalidation: shared memory ends with the "
        "CTA",
        f"{words.other(raw, places)} {words.does(places, raw.other_pc)} it",
    )  # fmt: skip


def _range(raw: RawFinding, places: Places) -> Finding:
    value, what, name = raw.detail["value"], raw.detail["what"], words.mbarrier(raw, places)
    if what == 4:
        return words.finding(
            raw, places, f"{name}: an arrive that must not complete its phase can be the last one",
            f"{words.who(raw, places)} arrives with `.noComplete`",
            [f"no arrive in phase {value} comes after it in every schedule",
             "undefined in PTX; an H100 completes the phase, and so does this run"],
            f"use {words.spell_instruction(places, raw.pc, 'mbarrier.arrive')}, or add another arrive after it in "
            "every phase",
        )  # fmt: skip
    if what in (5, 6):
        amount = words.amount(abs(value), "byte" if what == 5 else "arrival")
        return words.finding(
            raw, places, f"{name}: in some schedule its phase has {amount} pending at once",
            f"executed by {words.who(raw, places)}",
            [f"an mbarrier holds counts up to {MOST_COUNT:,}; in this run, some arrived before others were expected"],
            _SPLIT,
        )  # fmt: skip
    message, remedy = {
        0: (
            f"{name} is initialized with a count of {value:,}",
            f"use the number of arrivals per phase, from 1 to {MOST_COUNT:,}",
        ),
        1: (f"{name}: {words.amount(value, 'arrival')} in one operation", f"arrive with at most {MOST_COUNT:,}"),
        2: (f"{name}: an operation names {words.amount(value)}", _SPLIT),
        3: (f"{name}: its phase has {words.amount(abs(value))} {'pending' if value > 0 else 'more than expected'}",
            _SPLIT),
    }[what]  # fmt: skip
    return words.finding(
        raw, places, message, f"executed by {words.who(raw, places)}",
        [f"an mbarrier holds counts up to {MOST_COUNT:,}; an H100 traps; {_STOPPED}"], remedy,
    )  # fmt: skip


def _over_arrival(raw: RawFinding, places: Places) -> Finding:
    d, name, lanes = raw.detail, words.mbarrier(raw, places), raw.lanes.bit_count()
    came, pending = words.amount(d["count"], "arrival"), d["pending"]
    awaits = f"expects {pending:,}" if pending else "has all its arrivals"
    who = words.who(raw, places) if lanes < 2 else f"{lanes} lanes of {places.who(raw.cta, raw.warp)}"
    label = f"{who} {'arrives' if lanes < 2 else 'arrive separately'}"
    return words.finding(
        raw, places, f"{came} on {name} in phase {d['phase']}, which {awaits}",
        f"{label}: {d['count']:,} of {pending:,}",
        f"an H100 adds the lanes of one instruction, then traps (M4, M6); {_STOPPED}",
        _fewer(raw, places),
    )  # fmt: skip


def _one_lane_condition(raw: RawFinding, places: Places) -> str:
    """Return the condition under which one lane of a warp executes something."""
    return f"{words.spell_instruction(places, raw.pc, 'elect.sync', '0xffffffff')} or `if lane == 0`"


def _fewer(raw: RawFinding, places: Places) -> str:
    count, lanes = raw.detail["count"], raw.lanes.bit_count()
    if lanes > 1 and count > raw.detail["pending"]:
        return (
            f"arrive in only one of the {lanes} lanes, with {_one_lane_condition(raw, places)}; or initialize the "
            f"mbarrier with the number of threads that arrive ({lanes_text(raw.lanes)}: {lanes})"
        )
    return (
        "look for a thread that arrives twice in a phase: it must wait for the phase before it arrives again, or both "
        "arrivals must be counted in the initialization"
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
