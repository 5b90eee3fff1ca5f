"""Misuse of asynchronous operations.

Detects: operations that the CTA does not wait for before it ends (bulk stores to global memory as a warning); sizes
that a copy cannot have; tensor copies that their maps do not allow.
Does not detect: errors of their memory accesses, which `race`, `bounds` and `initialised` report.
Reference: PTX ISA, "cp.async.bulk", "cp.async", "cp.async.bulk.tensor"; measured rules T1, T21, T27, T29, C1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.checkers import words
from wsemu.model.effects import BRINGS, effects_of
from wsemu.model.isa import CP_ASYNC, NAMES
from wsemu.model.outcome import Detail
from wsemu.model.remedy import Cures
from wsemu.model.tensor_map import ELEMENT_TYPES

if TYPE_CHECKING:
    from wsemu.evidence.places import Places
    from wsemu.model.finding import Finding
    from wsemu.model.outcome import RawFinding

DETAIL = {
    "async-outlives-cta": Detail({
        "address": "that it writes, or for a store reads", "bytes": "of it",
        "what": "0: it writes there, 1: it reads there",
    }),
    "store-outlives-cta": Detail({"address": "that it reads", "bytes": "of it"}),
    "tensor-map": Detail({
        "address": "of the map", "what": ("0: no map there, 1: of other rank, 2: the inner coordinate, 3: a negative "
        "coordinate, 4: no such reduction of its elements"), "value": "the map's rank, the coordinate, the type's code",
    }),
    "copy-size": Detail({
        "bytes": "of it", "what": "0: no multiple of 16, 1: more than the instruction copies, 2: no multiple of 8",
    }),
}  # fmt: skip
CODES = tuple(DETAIL)
CURES = {
    "async-outlives-cta": Cures(430, "insert move unguard argument constant bound call", inserts=("cluster_sync",)),
    "store-outlives-cta": Cures(
        540, "insert move unguard argument constant call", ptx=("cp.async.bulk.wait_group.read 0;",)
    ),
    "copy-size": Cures(90, "argument index constant"),
    "tensor-map": Cures(100, "index constant argument"),
}


def explain(raw: RawFinding, places: Places) -> Finding:
    """Return the finding of a misused asynchronous operation."""
    explained = {
        "async-outlives-cta": _outlives, "store-outlives-cta": _store_outlives, "copy-size": _size, "tensor-map": _map,
    }  # fmt: skip
    return explained[raw.code](raw, places)


def _outlives(raw: RawFinding, places: Places) -> Finding:
    d, noun = raw.detail, words.noun(places, raw.pc)
    at = words.quote_element(places, d["address"], raw.pc)
    kind = words.operation(places, raw.pc)
    does = "reads" if d["what"] or kind == "wgmma" else "writes"
    nobody = f"nothing in CTA {places.cta(raw.cta)} waits" if kind.startswith("bulk.send") else "nothing waits"
    return words.finding(
        raw, places, f"{nobody} for the {noun} that {does} {at}: it may be in flight when the CTA exits",
        f"{words.amount(d['bytes'])} by {words.who(raw, places)}",
        ["another CTA may then use the shared memory; a thread must wait for the operation before it exits"],
        _wait_text(raw, places),
    )  # fmt: skip


def _store_outlives(raw: RawFinding, places: Places) -> Finding:
    noun, at = words.noun(places, raw.pc), words.quote_element(places, raw.detail["address"], raw.pc)
    return words.finding(
        raw, places, f"nothing waits for the {noun} that reads {at} before the CTA ends",
        f"{words.amount(raw.detail['bytes'])} by {words.who(raw, places)}",
        ["PTX leaves the read of shared memory undefined after the end of its CTA; an H100 finished each store (T9)"],
        _wait_text(raw, places),
    )  # fmt: skip


def _wait_text(raw: RawFinding, places: Places) -> str:
    """Return the edit that waits for an operation: a wait for the phase of its mbarrier, or for its group."""
    kind = words.operation(places, raw.pc)
    if kind.startswith("bulk.send"):
        sync = words.spell_instruction(places, raw.pc, "barrier.cluster")
        return (
            f"add {sync} after the wait for its mbarrier, in both CTAs; or arrive on an mbarrier of this CTA after "
            "that wait"
        )
    if kind in BRINGS:
        wait = words.spell_instruction(places, raw.pc, "mbarrier.try_wait.parity")
        return f"wait for the phase of its mbarrier that it completes ({wait}) on every path to the end of the CTA"
    bulk = effects_of(kind).group == "bulk"
    family = "wgmma" if kind == "wgmma" else "cp.async.bulk" if bulk else "cp.async"
    commit = words.spell_instruction(places, raw.pc, f"{family}.commit_group")
    wait = words.spell_instruction(places, raw.pc, f"{family}.wait_group{'.read' * bulk}", "0")
    wait = wait if wait.endswith(")`") else f"{wait.removesuffix('`')} 0`"
    return f"add {commit} after it, and {wait} on every path to the end of the same thread"


def _size(raw: RawFinding, places: Places) -> Finding:
    size, noun, name = raw.detail["bytes"], words.noun(places, raw.pc), NAMES[int(places.program.code[raw.pc, 0])]
    label = f"{words.amount(size)} by {words.who(raw, places)}"
    if raw.detail["what"] == 2:
        return words.finding(
            raw, places, f"{words.with_article(noun)} of {words.amount(size)}, which is not a multiple of 8", label,
            ["undefined in PTX; this run stores all of them"], "give a multiple of 8 bytes",
        )  # fmt: skip
    if raw.detail["what"]:
        most = CP_ASYNC.get(name, 16)
        return words.finding(
            raw, places, f"{words.with_article(noun)} of {most} bytes has a source size of {words.amount(size)}", label,
            [f"undefined in PTX; an H100 reads {words.amount(size % 16)} (C1), and so does this run"],
            f"use a source size of at most {most} bytes: the rest up to {most} is filled with zeros",
        )  # fmt: skip
    rest = size - size % 16
    return words.finding(
        raw, places, f"{words.with_article(noun)} of {words.amount(size)}, which is not a multiple of 16", label,
        [f"an H100 silently copies and counts {words.amount(rest)} (T1), and so does this run"],
        f"pad the arrays and copy {words.amount(rest + 16)}, or copy {rest:,} and move the rest with plain stores",
    )  # fmt: skip


def _map(raw: RawFinding, places: Places) -> Finding:
    value, noun = raw.detail["value"], words.with_article(words.noun(places, raw.pc))
    name = TYPE_OF_CODE.get(value, "")
    said = {
        0: (f"{noun} whose tensor map is invalid", "no driver creates a map with these bytes", _NO_MAP),
        1: (
            f"{noun} whose number of dimensions differs from that of its tensor map, {value}",
            "the instruction and its map must agree",
            f"use the {value}-dimensional form, with {words.amount(value, 'coordinate')}",
        ),
        2: (
            f"{noun} that begins at element {value} of the innermost dimension, not at a multiple of 16 bytes",
            "no manual documents this limit",
            "begin at a multiple of 16 bytes, and skip the extra elements when using the tile",
        ),
        3: (
            f"{noun} at a negative coordinate, {value}: only loads may begin outside",
            "",
            "use coordinates of at least 0; elements beyond the end are skipped",
        ),
        4: (f"{noun} of {name} elements, for which this reduction does not exist", "", "use another operation or type"),
        5: (
            f"{noun} that begins at element {value} of the innermost dimension, not at a multiple of 128 elements",
            "PTX requires it for elements with padding",
            "begin at a multiple of 128 elements",
        ),
    }
    message, why, remedy = said[raw.detail["what"]]
    rule = _RULES[raw.detail["what"]]
    stops = f"an H100 stops with an illegal instruction ({rule})" if rule else ""
    note = "; ".join(filter(None, (why, stops)))
    return words.finding(raw, places, message, f"tensor map used by {words.who(raw, places)}", [note], remedy)


_RULES = ("T29", "T29", "T21", "T21", "T27", "")
"""measured rule for each kind of misuse, by the finding's `what`; empty if the misuse was not measured"""
_NO_MAP = "pass `wsemu.TensorMap(...)`, `--arg 'tmap(...)'`, or the bytes that `cuTensorMapEncodeTiled` wrote"
TYPE_OF_CODE = {type_.code: name for name, type_ in reversed(ELEMENT_TYPES.items())}
