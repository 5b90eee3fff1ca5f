"""A number that changes whenever compiled code would: Numba's cache does not notice a change in another file."""

from __future__ import annotations

import hashlib
from pathlib import Path

COMPILED = ("bytecode", "operations", "machine", "memory", "named_barrier", "warp_operations", "codes", "vm")
"""modules whose text ends up in the compiled VM"""


def source_hash() -> int:
    """63 bits over the text of the COMPILED modules."""
    digest = hashlib.sha256()
    folder = Path(__file__).parent
    for name in COMPILED:
        digest.update((folder / f"{name}.py").read_bytes())
    return int.from_bytes(digest.digest()[:8], "little") >> 1


SOURCE_HASH = source_hash()
