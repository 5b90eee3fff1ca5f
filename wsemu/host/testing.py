"""`numba.cuda.testing`: names that test suites of Numba-CUDA programs import.  wsemu counts as a GPU, not as a
simulator."""

from __future__ import annotations

import unittest as unittest
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def __getattr__(name: str) -> Any:
    if name in ("CUDATestCase", "ContextResettingTestCase"):
        from numba.tests.support import TestCase  # imported on demand, because it is large

        globals()[name] = type(name, (TestCase,), {"__module__": __name__})
        return globals()[name]
    if name.startswith("skip_"):
        return _runs
    raise AttributeError(f"module `numba.cuda.testing` has no attribute `{name}` here")


def _runs(given: Any = None, *_: Any) -> Any:
    """Decorate a test that always runs, with or without a reason."""
    return given if callable(given) else lambda test: test


def skip_unless_cudasim(reason: str) -> Callable[[Any], Any]:
    """Skip a test that requires the simulator."""
    return unittest.skip(reason)


def xfail_unless_cudasim(test: Any) -> Any:
    """Mark a test as one that fails on a GPU."""
    return unittest.expectedFailure(test)


class ForeignArray:
    """An array that has the CUDA array interface and nothing else."""

    def __init__(self, arr: Any) -> None:
        self._arr = arr
        self.__cuda_array_interface__ = arr.__cuda_array_interface__
