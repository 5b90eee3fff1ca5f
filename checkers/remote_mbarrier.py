"""Operations that an mbarrier of another CTA of the cluster does not allow.

Detects: initialization and invalidation of such an mbarrier, waits for it, and arrives that return a token; copies to
one CTA that name an mbarrier of another.
Does not detect: operations of CTA scope on it; `scope` reports these.
Reference: PTX ISA, "Performing operations on mbarrier objects in .shared::cluster", "cp.async.bulk.tensor", "st.async";
measured rule M20.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.checkers import words
from wsemu.model.outcome import Detail
from wsemu.model.remedy import Cures

if TYPE_CHECKING:
    from wsemu.evidence.places import Places
    from wsemu.model.finding import Finding
    from wsemu.model.outcome import RawFinding

DETAIL = {
    "remote-mbarrier": Detail({
        "address": "of the mbarrier", "rank": "of the CTA that it is of",
        "goal": "of the CTA that a copy goes to; -1 for other operations",
    })
}  # fmt: skip
CODES = tuple(DETAIL)
CURES = {
    "remote-mbarrier": Cures(70, "argument call"),
}


def explain(raw: RawFinding, places: Places) -> Finding:
    """Return the finding of an operation that only threads of the mbarrier's own CTA may execute."""
    name, noun = words.mbarrier(raw, places), words.noun(places, raw.pc)
    if raw.detail["goal"] >= 0:
        return _explain_copy(raw, places, name, noun)
    return words.finding(
        raw, places, f"{words.with_article(noun)} on {name} of another CTA, of rank {raw.detail['rank']}",
        f"{words.who(raw, places)} {words.does(places, raw.pc)} it",
        ["an H100 raises an illegal instruction (M20); the launch was stopped here"],
        "let that CTA do it itself; others may arrive there without a token, and name bytes: "
        f"{words.spell_instruction(places, raw.pc, 'mbarrier.arrive.shared::cluster')}",
    )  # fmt: skip


def _explain_copy(raw: RawFinding, places: Places, name: str, noun: str) -> Finding:
    """Return the finding of a copy that credits an mbarrier of another CTA than its destination."""
    rank, goal = raw.detail["rank"], raw.detail["goal"]
    return words.finding(
        raw, places, f"{words.with_article(noun)} to the CTA of rank {goal} names {name} of the CTA of rank {rank}",
        f"{words.who(raw, places)} issues it",
        ["PTX wants its mbarrier in the shared memory of the CTA that it goes to; the launch was stopped here"],
        f"name the mbarrier of the CTA of rank {goal}: `mapa` gives its address, from that of one's own",
    )  # fmt: skip
