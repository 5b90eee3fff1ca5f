"""What is not modelled: right where it is not reached, `incomplete` with its name where it is."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tests.ptx.expected.barriers import integers
from tests.ptx.expected.case import Out, case

SOURCE = "unsupported"
i32 = np.int32
LANES = np.arange(32, dtype=i32)
X = integers(240, 32)

CONSTRUCTS: list[tuple[str, list[Any], Any, str]] = [
    ("tensor_cores", [np.arange(3, dtype=np.uint32)], np.full(32, 5, np.float32), "mma.sp.sync"),
]
"""kernel, arguments before the array that it writes, what is there if `use` is 0, and what is named if it is 1"""


def _arguments(before: list[Any], expected: Any, use: int) -> list[Any]:
    return [*before, Out(expected), i32(use)]


for _kernel, _before, _expected, _says in CONSTRUCTS:
    case(SOURCE, _kernel, 1, 32)(partial(_arguments, _before, _expected, 0))
    case(SOURCE, _kernel, 1, 32, verdict="incomplete", says=_says)(partial(_arguments, _before, _expected, 1))


@case(SOURCE, "texture", 1, 32)
def texture() -> list[Any]:
    """It was not modelled once; here nothing is fetched."""
    return [np.uint64(0), Out(np.full(32, -1, np.float32)), i32(0)]


@case(SOURCE, "narrow_atomic", 1, 32)
def narrow_atomic() -> list[Any]:
    """It was not modelled once."""
    return [Out(np.where(LANES == 3, 300, LANES).astype(np.uint16)), i32(1)]


@case(SOURCE, "printing", 1, 32)
def printing() -> list[Any]:
    return [X, Out(X + 1)]


@case(SOURCE, "asserting", 1, 32)
def asserting() -> list[Any]:
    return [X, Out(X), i32(1000)]


@case(SOURCE, "asserting", 1, 32, verdict="failed", says="on a GPU the launch ends with an error here")
def asserted() -> list[Any]:
    return [X, Out(np.where(X < 500, X, 0)), i32(500)]


@case(SOURCE, "trapping", 1, 32)
def trapping() -> list[Any]:
    return [X, Out(X), i32(1000)]


@case(SOURCE, "trapping", 1, 32, verdict="failed", says="on a GPU the launch ends with an error here")
def trapped() -> list[Any]:
    return [X, Out(X), i32(500)]


@case(SOURCE, "clocks", 1, 64, says="which is not that of a GPU")
def clocks() -> list[Any]:
    return [Out(np.full(64, 7, i32))]
