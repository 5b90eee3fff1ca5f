"""The message that the VM is being compiled, printed by whatever piece of it is compiled first."""

from __future__ import annotations

import sys

_announced = False


def announce() -> None:
    """Say once per process, on standard error, that the VM is being compiled.

    Called from code generation, so that it speaks exactly when the cache has missed.
    """
    global _announced
    if not _announced:
        _announced = True
        print("wsemu: compiling the VM, once per installation (about 6 s)", file=sys.stderr, flush=True)
