"""Misuse of the control of the launch of clusters (`clusterlaunchcontrol`).

Detects: a request that follows an observed failure of an earlier request of the CTA; reading the CTA index from a
response that names no CTA.
Does not detect: responses that are read before they are written, or overwritten too early: `race` and `proxy` report
these.
Reference: PTX ISA, "clusterlaunchcontrol.try_cancel", "clusterlaunchcontrol.query_cancel".
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

DETAIL = {"clc-after-failure": Detail({}), "clc-no-ctaid": Detail({})}
CODES = tuple(DETAIL)
CURES = {"clc-after-failure": Cures(195), "clc-no-ctaid": Cures(458)}


def explain(raw: RawFinding, places: Places) -> Finding:
    """Return the finding of an undefined request, or of a response that names no CTA."""
    if raw.code == "clc-after-failure":
        return words.finding(
            raw, places, "a request for another cluster after the CTA observed that one had failed",
            f"{words.who(raw, places)} requests one",
            ["PTX leaves it undefined; here the request fails again"],
            "leave the loop when `is_canceled` is false",
        )  # fmt: skip
    return words.finding(
        raw, places, "`get_first_ctaid` of a response that names no cluster",
        f"{words.who(raw, places)} decodes it",
        ["PTX: if the request failed, the behavior of `get_first_ctaid` is undefined"],
        "execute it under the predicate of `is_canceled`",
    )  # fmt: skip
