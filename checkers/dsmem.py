"""Accesses to shared memory of other CTAs of a cluster, which are allowed only while these CTAs run.

Detects: loads, stores, atomics, copies and synchronization in the shared memory of a CTA that may not have started, or
may have exited, in some schedule.  This includes operations whose completion is signaled by a relaxed arrive only.
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
            ["no operation of that CTA happens before this access, so the CTA may not have started"],
            f"add {sync} before it, where every thread of the cluster passes",
        )  # fmt: skip
    if raw.code == "dsmem-relaxed-exit":
        return words.finding(
            raw, places, (
                f"{words.with_article(noun)} in the shared memory of rank {rank}, which may exit while it is in "
                "flight"
                ),
            label,
            "(2) does not happen before an exit (1) of that CTA: a relaxed arrive, or an arrive of CTA scope, signals "
            "that (2) was issued, but not that it is complete",
            f"arrive without `.relaxed` after (2), such as by {sync}",
            f"{words.other(raw, places)} ends",
        )  # fmt: skip
    return words.finding(
        raw, places, f"{words.with_article(noun)} in the shared memory of rank {rank}, which may have exited",
        label,
        [
            "(2) does not happen before an exit (1) of that CTA, whose shared memory ends with its last thread",
            "on an H100, the launch fails if the access comes too late (L4)",
        ],
        f"add {sync} between (2) and the end of the kernel, where every thread of the cluster passes",
        f"{words.other(raw, places)} ends",
    )  # fmt: skip
