"""Findings between launches: of streams, copies, host accesses, lifetimes, graphs and dependent launches.

Detects: unordered operations on common bytes, one of which writes; memory whose life ends or begins while it is in use;
bytes that nothing wrote; accesses of a dependent launch before its wait; forbidden captures.
Does not detect: accesses of libraries to host memory that no line of the program names; order by locks between host
threads, which count as one.
Reference: CUDA programming guide, "Asynchronous Concurrent Execution"; CUDA Runtime API, "API synchronization
behavior"; PTX ISA, "griddepcontrol".  `wsemu.between` decides; `wsemu.between.findings` describes.
"""

from __future__ import annotations

from wsemu.model.codes import CHECKERS
from wsemu.model.remedy import Cures

CODES = CHECKERS["between"]
_RANKS = {
    "use-before-alloc": 301, "freed-in-use": 302, "capture-violation": 304, "stale-capture": 306,
    "missing-pdl-wait": 312, "pdl-transitive": 314, "pdl-nc": 316, "stream-race": 322, "host-race": 324,
    "managed-access": 326, "uninitialised-device-read": 462,
}  # fmt: skip
CURES = {code: Cures(_RANKS[code]) for code in CODES}
