"""Asynchronous operations as such.

Detects: operations that nobody waits for before the CTA ends; sizes that a copy cannot have.
Does not detect: what they do to memory; that is `race`, `bounds`, `initialised`.
Reference: PTX ISA, "cp.async.bulk", "cp.async"; measured rules T1, C1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.checkers import words
from wsemu.model.isa import CP_ASYNC, NAMES
from wsemu.model.outcome import Detail

if TYPE_CHECKING:
    from wsemu.evidence.places import Places
    from wsemu.model.finding import Finding
    from wsemu.model.outcome import RawFinding

DETAIL = {
    "async-outlives-cta": Detail({
        "address": "that it writes, or for a store reads", "bytes": "of it",
        "what": "0: it writes there, 1: it reads there",
    }),
    "copy-size": Detail({"bytes": "of it", "what": "0: no multiple of 16, 1: more than the instruction copies"}),
}  # fmt: skip
CODES = tuple(DETAIL)


def explain(raw: RawFinding, places: Places) -> Finding:
    """The finding of an asynchronous operation."""
    return _outlives(raw, places) if raw.code == "async-outlives-cta" else _size(raw, places)


def _outlives(raw: RawFinding, places: Places) -> Finding:
    d, noun = raw.detail, words.noun(places, raw.pc)
    at = words.named(places, d["address"], raw.pc)
    does = "reads" if d["what"] else "writes"
    return words.finding(
        raw, places, f"nothing waits for the {noun} that {does} {at}: it may be under way when the CTA ends",
        f"{words.amount(d['bytes'])} by {words.who(raw, places)}",
        ["shared memory belongs to the next CTA then; a thread must wait, and end after that"],
        _wait_for(raw, places),
    )  # fmt: skip


def _wait_for(raw: RawFinding, places: Places) -> str:
    """What waits for an operation: its mbarrier, or its group."""
    kind = words.operation(places, raw.pc)
    if kind == "bulk.load":
        wait = words.spelled(places, raw.pc, "mbarrier.try_wait.parity")
        return f"wait for the phase of its mbarrier that it completes ({wait}) on every path that ends the CTA"
    bulk = kind.startswith("bulk")
    commit = words.spelled(places, raw.pc, "cp.async.bulk.commit_group" if bulk else "cp.async.commit_group")
    wait = words.spelled(places, raw.pc, "cp.async.bulk.wait_group.read" if bulk else "cp.async.wait_group", "0")
    wait = wait if wait.endswith(")`") else f"{wait.removesuffix('`')} 0`"
    return f"{commit} after it, and {wait} in the same thread before it ends, on every path"


def _size(raw: RawFinding, places: Places) -> Finding:
    size, noun, name = raw.detail["bytes"], words.noun(places, raw.pc), NAMES[int(places.program.code[raw.pc, 0])]
    label = f"{words.amount(size)} by {words.who(raw, places)}"
    if raw.detail["what"]:
        most = CP_ASYNC.get(name, 16)
        return words.finding(
            raw, places, f"{words.with_article(noun)} of {most} bytes is to read {words.amount(size)}", label,
            [f"PTX leaves it undefined; an H100 reads {words.amount(size % 16)} (C1), and so does this launch"],
            f"give at most {most} bytes to read: the rest up to {most} is filled with zeros",
        )  # fmt: skip
    rest = size - size % 16
    return words.finding(
        raw, places, f"{words.with_article(noun)} of {words.amount(size)}: no multiple of 16", label,
        [f"an H100 copies and counts {words.amount(rest)}, silently (T1), and so does this launch"],
        f"copy {words.amount(rest + 16)} of padded arrays, or {rest:,} and the rest with plain stores",
    )  # fmt: skip
