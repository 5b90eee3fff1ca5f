"""Accesses to shared memory of other CTAs of a cluster, which are allowed only while these CTAs run.

Detects: loads, stores, atomics, copies and synchronization in the shared memory of a CTA that may not have started, or
may have exited, in some schedule.  This includes operations whose completion only a relaxed arrive reports.
Does not detect: accesses to a rank that the cluster does not have; that is `bounds`.
Reference: CUDA C++ Programming Guide, "Distributed Shared Memory"; PTX ISA, "barrier.cluster"; measured rule L4.
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
    "dsmem-before-start": Detail({"rank": "of the CTA whose memory it is"}),
    "dsmem-after-exit": Detail({"rank": "of the CTA whose memory it is"}),
    "dsmem-relaxed-exit": Detail({"rank": "of the CTA whose memory it is"}),
}
CODES = tuple(DETAIL)
CURES = {
    "dsmem-before-start": Cures(440, "insert move call", inserts=("cluster_sync",)),
    "dsmem-after-exit": Cures(450, "insert move delete call return", inserts=("cluster_sync",)),
    "dsmem-relaxed-exit": Cures(510, "call insert move", inserts=("cluster_sync",)),
}


def explain(raw: RawFinding, places: Places) -> Finding:
    """Return the finding about an access to memory of another CTA."""
    rank, noun, sync = (
        raw.detail["rank"],
        words.noun(places, raw.pc),
        words.spell_instruction(places, raw.pc, "barrier.cluster"),
    )
    label = f"{noun} in the shared memory of rank {rank} by {words.who(raw, places)}"
    if raw.code == "dsmem-before-start":
        return words.finding(
            raw, places, f"{words.with_article(noun)} in the shared memory of rank {rank}, which may not have started",
            label,
            ["nothing that a thread of that CTA did comes before it; its memory is there once it runs"],
            f"add {sync} before it, where every thread of the cluster passes",
        )  # fmt: skip
    if raw.code == "dsmem-relaxed-exit":
        return words.finding(
            raw, places, f"{words.with_article(noun)} in the shared memory of rank {rank}, under way when it may exit",
            label,
            "nothing releases (2) before an exit (1) of that CTA: a relaxed arrive, or one of CTA scope, tells that "
            "(2) was requested, and not that it is over",
            f"arrive without `.relaxed` after (2), as {sync} does",
            f"{words.other(raw, places)} ends",
        )  # fmt: skip
    return words.finding(
        raw, places, f"{words.with_article(noun)} in the shared memory of rank {rank}, which may have exited",
        label,
        [
            "nothing orders (2) before an exit (1) of that CTA, and its memory ends with its last thread",
            "an H100 ends the launch with a failure where it comes too late (L4)",
        ],
        f"add {sync} between (2) and the end of the kernel, where every thread of the cluster passes",
        f"{words.other(raw, places)} ends",
    )  # fmt: skip
