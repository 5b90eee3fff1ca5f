"""Warnings of Numba-CUDA: options that do not go together, small grids, host arrays that a launch would copy.

They are issued while `wsemu.cuda` replaces `numba.cuda`, with Numba's classes and texts.
"""

from __future__ import annotations

import contextlib
import math
import sys
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.host.driver import config, is_cuda_ndarray
from wsemu.launch import hooks
from wsemu.model.own import is_own

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wsemu.model.launch_shape import LaunchConfiguration

FEW = 128
"""number of CTAs that Numba-CUDA considers too few for a GPU"""


@contextlib.contextmanager
def watching() -> Iterator[None]:
    """Enable the warnings inside the `with` block."""
    pairs: tuple[tuple[hooks.Hooks[Any], Any], ...] = (
        (hooks.declaring, warn_of_options), (hooks.configuring, warn_of_grid), (hooks.passing, warn_of_arguments),
    )  # fmt: skip
    with contextlib.ExitStack() as stack:
        for place, watch in pairs:
            stack.enter_context(hooks.adding_hook(place, watch))
        yield


def warn_of_options(options: dict[str, Any]) -> None:
    """Warn about `jit` with both debug code and optimization, or with both kinds of line information."""
    debug = options.get("debug")
    debug = config.CUDA_DEBUGINFO_DEFAULT if debug is None else debug
    if not debug:
        return
    opt = options.get("opt")
    if config.OPT != 0 if opt is None else opt:
        _warn(
            "NumbaInvalidConfigWarning",
            "debug=True with opt=True is not supported by CUDA. This may result in a crash - set debug=False or "
            "opt=False.",
        )
    if options.get("lineinfo"):
        _warn(
            "NumbaInvalidConfigWarning",
            "debug and lineinfo are mutually exclusive. Use debug to get full debug info (this disables some "
            "optimizations), or lineinfo for line info only with code generation unaffected.",
        )


def warn_of_grid(configuration: LaunchConfiguration) -> None:
    """Warn about a grid of few CTAs if `CUDA_LOW_OCCUPANCY_WARNINGS` is set."""
    if config.CUDA_LOW_OCCUPANCY_WARNINGS and not config.DISABLE_PERFORMANCE_WARNINGS:
        size = math.prod(configuration.grid)
        if size < FEW:
            _performance(f"Grid size {size} will likely result in GPU under-utilization due to low occupancy.")


def warn_of_arguments(arguments: Sequence[Any]) -> None:
    """Warn about host arrays among the arguments if `CUDA_WARN_ON_IMPLICIT_COPY` is set."""
    if config.CUDA_WARN_ON_IMPLICIT_COPY and not config.DISABLE_PERFORMANCE_WARNINGS:
        for value in arguments:
            if isinstance(value, np.ndarray) and not is_cuda_ndarray(value):
                _performance("Host array used in CUDA kernel will incur copy overhead to/from device.")


def _performance(message: str) -> None:
    _warn("NumbaPerformanceWarning", message)


def _warn(category: str, message: str) -> None:
    """Issue a warning at the innermost line outside of `wsemu`."""
    from numba.core import errors  # on demand: a program that is warned has Numba

    depth, frame = 2, sys._getframe(1)
    while frame.f_back is not None and is_own(frame.f_code.co_filename):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(getattr(errors, category)(message), stacklevel=depth)
