"""Findings between launches: of streams, copies, host accesses, lifetimes, graphs and dependent launches.

Detects: two unordered operations on the same bytes, at least one of which writes; memory that is allocated or freed
while an operation may use it; reads of uninitialized bytes.
Also detects: accesses of a dependent launch before its wait; operations that a stream capture forbids.
Does not detect: accesses to host memory inside a library, which the program's lines do not show; missing order between
host threads, which all count as one thread.
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
