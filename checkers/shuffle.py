"""`undefined-shuffle`: a shuffle that reads the register of a lane which takes no part in it.

Detects: by the lanes that execute a shuffle together, one whose source lane is not among them, or not named by their
mask.  Where the mask names a live lane that is elsewhere, that is `barrier-divergence` already.
Does not detect: whether the value that is read so is ever used.  So it is a warning, and the launch `incomplete`.
Reference: PTX ISA, "shfl.sync": reading from an inactive thread, or one that is not in the mask, is undefined.  The
compiled test is in `warp_operations`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.evidence.places import lanes_text
from wsemu.evidence.readings import culprit
from wsemu.model.finding import Finding
from wsemu.model.outcome import Detail

if TYPE_CHECKING:
    from wsemu.evidence.places import Places
    from wsemu.model.outcome import RawFinding

CODES = ("undefined-shuffle",)
DETAIL = {"undefined-shuffle": Detail({"source": "lane that the lowest of `lanes` reads"})}
"""`lanes` are those that read lanes which take no part"""


def explain(raw: RawFinding, places: Places) -> Finding:
    """The finding of a shuffle and of the lanes that read what is not there."""
    source, who = raw.detail["source"], places.who(raw.cta, raw.warp)
    first = (raw.lanes & -raw.lanes).bit_length() - 1
    label = f"executed by {who}; {lanes_text(raw.lanes)}: lane {first} reads lane {source}"
    return Finding(
        code=raw.code,
        message=f"a shuffle reads lane {source}, which takes no part in it",
        sites=[places.site(raw.pc, label, cta=raw.cta, warp=raw.warp), *places.callers(raw.pc)],
        notes=["on a GPU the value is undefined; here it is the reader's own"],
        help=f"let lane {source} execute the shuffle, too: no early return and no condition before it, and a mask that "
        "names the lane; or read no lane beyond those that take part",
        count=raw.count,
        steps=[culprit(raw, places)],
    )
