"""Operations that an mbarrier of another CTA of the cluster does not allow.

Detects: its initialisation, its end, waits, and arrives that return a token.
Does not detect: operations of CTA scope on it; that is `scope`.
Reference: PTX ISA, "Performing operations on mbarrier objects in .shared::cluster"; measured rule M20.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.checkers import words
from wsemu.model.outcome import Detail

if TYPE_CHECKING:
    from wsemu.evidence.places import Places
    from wsemu.model.finding import Finding
    from wsemu.model.outcome import RawFinding

DETAIL = {"remote-mbarrier": Detail({"address": "of the mbarrier", "rank": "of the CTA that it is of"})}
CODES = tuple(DETAIL)


def explain(raw: RawFinding, places: Places) -> Finding:
    """The finding of an operation that only the mbarrier's own CTA may execute."""
    name, noun = words.mbarrier(raw, places), words.noun(places, raw.pc)
    return words.finding(
        raw, places, f"{words.with_article(noun)} on {name} of another CTA, of rank {raw.detail['rank']}",
        f"{words.who(raw, places)} {words.does(places, raw.pc)} it",
        ["an H100 raises an illegal instruction (M20); the launch was stopped here"],
        "let that CTA do it itself; others may arrive there without a token, and name bytes: "
        f"{words.spelled(places, raw.pc, 'mbarrier.arrive.shared::cluster')}",
    )  # fmt: skip
