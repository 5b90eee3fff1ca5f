"""Access to modules of Numba, which is an optional dependency: types, signatures and settings, which few kernels
need."""

from __future__ import annotations

import importlib
from typing import Any

from wsemu.model.errors import UsageError

MISSING = "Numba is not installed, and this needs its types or settings: pip install 'wsemu[numba]'"


def load_numba(module: str) -> Any:
    """Return a module of Numba, such as `numba.core.types`; raise UsageError if Numba is not installed."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "numba":
            raise
        raise UsageError(MISSING) from error
