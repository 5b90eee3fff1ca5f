"""`undefined-shuffle`: a shuffle that reads the register of a lane which does not participate in it.

Detects: a shuffle whose source lane is not among the lanes that execute it together, or not named by their mask.  If
the mask names a live lane that is elsewhere, the finding is `barrier-divergence` instead.  A second run follows the
value.  The finding is an error if the value reaches something observable, and a warning if all uses discard it.
Does not detect: what the value reaches in a launch that is too long to be followed; then the launch is `incomplete`.
Reference: PTX ISA, "shfl.sync": reading from an inactive thread, or one that is not in the mask, is undefined.  The
compiled test is in `warp_operations`; what the value reaches is found by `reference.undefined`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.checkers import observed
from wsemu.evidence.places import lanes_text
from wsemu.evidence.readings import culprit
from wsemu.model.finding import Finding
from wsemu.model.outcome import Detail
from wsemu.model.remedy import Cures

if TYPE_CHECKING:
    from wsemu.evidence.places import Places
    from wsemu.model.finding import Severity
    from wsemu.model.outcome import RawFinding

CODES = ("undefined-shuffle",)
CURES = {
    "undefined-shuffle": Cures(150, "return split unguard move argument"),
}
DETAIL = {"undefined-shuffle": Detail({"source": "lane that the lowest of `lanes` reads"}, observed.FIELDS)}
"""`lanes` are the lanes that read from lanes that do not participate"""


def severity(raw: RawFinding, places: Places) -> Severity | None:
    """Return `error` for a value that reaches something observable."""
    return "error" if observed.is_reached(raw) else None


def explain(raw: RawFinding, places: Places) -> Finding:
    """Return the finding of a shuffle whose lanes read a lane that does not participate."""
    source, who = raw.detail["source"], places.who(raw.cta, raw.warp)
    first = (raw.lanes & -raw.lanes).bit_length() - 1
    label = f"executed by {who}; {lanes_text(raw.lanes)}: lane {first} reads lane {source}"
    return Finding(
        code=raw.code,
        severity=severity(raw, places) or "warning",
        message=f"a shuffle reads lane {source}, which does not participate",
        sites=[
            places.site(raw.pc, label, cta=raw.cta, warp=raw.warp),
            *observed.sites(raw, places),
            *places.callers(raw.pc),
        ],
        notes=["on a GPU the value is undefined; here it is the reader's own"],
        help=f"let lane {source} execute the shuffle: no early return and no condition before it, and a mask that "
        "names the lane; or use no value of a lane that does not participate",
        count=raw.count,
        steps=[culprit(raw, places)],
    )
