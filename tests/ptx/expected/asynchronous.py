"""Launches of the kernels with mbarriers and asynchronous copies."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ptx.expected.barriers import integers, random
from tests.ptx.expected.case import Out, case

MBARRIERS, BULK = "mbarriers", "bulk"
i32 = np.int32
TILES = 5


# -- copies of a thread ----------------------------------------------------------------------------------------------
def _copied(valid: int, skipped: int) -> list[Any]:
    x = integers(300, 64, 8)
    tile = x.copy()
    tile[:, 6] = (x[:, 6].view(np.uint32) & ((1 << 8 * valid) - 1)).view(i32)
    tile[:, 7] *= not skipped
    return [x, Out(tile.reshape(32, 2, 8)[:, ::-1].reshape(64, 8) + x[:, :1]), i32(valid), i32(skipped)]


@case(MBARRIERS, "copied", 1, 64)
def copied() -> list[Any]:
    return _copied(3, 0)


@case(MBARRIERS, "copied", 1, 64)
def copied_in_part() -> list[Any]:
    return _copied(0, 1)


def _rounds(count: int) -> list[Any]:
    x = integers(301, count, 64)
    return [x, Out(x[:, ::-1])]


@case(MBARRIERS, "counted_copies", 1, 64)
def counted_copies() -> list[Any]:
    return _rounds(2)


@case(MBARRIERS, "copies_in_between", 1, 64)
def copies_in_between() -> list[Any]:
    return _rounds(2)


@case(MBARRIERS, "barrier_object", 1, 64)
def barrier_object() -> list[Any]:
    return [Out(np.arange(64, dtype=i32)[::-1] + np.arange(3, dtype=i32)[:, None])]


@case(MBARRIERS, "pipeline_of_threads", 1, 64)
def pipeline_of_threads() -> list[Any]:
    return [*_rounds(TILES), i32(TILES)]


# -- bulk copies -----------------------------------------------------------------------------------------------------
def _ring() -> list[Any]:
    x = random(302, TILES, 64)
    return [x, Out(np.concatenate([2 * x[:, :32], x[:, 32:]], axis=1)), i32(TILES)]


case(BULK, "ring", 1, 64)(_ring)
case(BULK, "ring_with_peeks", 1, 64)(_ring)


@case(BULK, "polls", 1, 32, verdict="incomplete", says="the answer of the wait")
def polls() -> list[Any]:
    return [random(303, 64), Out(np.zeros(1, np.float32))]


@case(BULK, "doubled", 1, 64)
def doubled() -> list[Any]:
    x = random(304, 64)
    return [x, Out(2 * x)]


@case(BULK, "sums", 1, 64)
def sums() -> list[Any]:
    x, start = integers(305, 64), integers(306, 32)
    return [x, Out(start + x[:32] + x[32:], start)]


@case(BULK, "memcpy_to_barrier", 1, 64)
def memcpy_to_barrier() -> list[Any]:
    x = random(307, 64)
    return [x, Out(x[::-1])]


@case(BULK, "registers", 1, 256)
def registers() -> list[Any]:
    return [Out(np.arange(256, dtype=np.float32))]
