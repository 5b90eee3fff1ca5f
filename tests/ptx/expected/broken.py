"""Launches of the kernels with a bug; where it must be found is marked in their source."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tests.ptx.expected.barriers import integers, random
from tests.ptx.expected.case import Case

HERE = Path(__file__).parents[1]
EXPECT = re.compile(r"// expect: ([a-z\-, ]+)$")
START = re.compile(r"^(?:template.*>\s*)?__global__ void (\w+)\(", re.MULTILINE)

HARMLESS = {"arrive_left_over", "column_walk", "strided_loads"}
"""what gives warnings only"""


def marks(source: str, kernel: str) -> set[tuple[int, str]]:
    """The lines of a kernel that carry an expectation, with the codes expected there."""
    text = (HERE / f"{source}.cu").read_text(encoding="utf-8")
    start = next(match.start() for match in START.finditer(text) if match[1] == kernel)
    first = text.count("\n", 0, start) + 1
    lines = text[start : text.index("\n}", start)].splitlines()
    found = ((n, EXPECT.search(line)) for n, line in enumerate(lines, first))
    return {(n, code.strip()) for n, match in found if match for code in match[1].split(",")}


def zeros(*shape: int, dtype: Any = np.int32) -> Any:
    return np.zeros(shape, dtype)


def _barriers() -> list[Case]:
    x, three = integers(200, 96), np.int32(3)
    f32 = np.float32
    launches: list[tuple[str, int, list[Any]]] = [
        ("no_empty_wait", 64, [random(201, 3, 32), zeros(32, dtype=f32), three]),
        ("no_full_wait", 96, [x, zeros(64)]),
        ("other_count", 64, [x, zeros(32)]),
        ("both_wait", 64, [x, zeros(32)]),
        ("early_return", 96, [x, zeros(96), np.int32(64)]),
        ("arrive_left_over", 64, [x, zeros(96), three]),
        ("one_producer_too_many", 128, [x, zeros(64)]),
        ("nobody_waits", 64, [zeros(64)]),
        ("in_a_branch", 64, [np.arange(64, dtype=np.int32), zeros(64)]),
        ("too_many_buffers", 64, [zeros(64), np.int32(16)]),
        ("count_in_warps", 64, [zeros(64), np.int32(2)]),
        ("one_barrier_for_two", 96, [x, zeros(32)]),
    ]
    return [
        Case("broken_barriers", name, partial(list, a), 1, block, 0, "verified" if name in HARMLESS else "failed")
        for name, block, a in launches
    ]


def _memory() -> list[Case]:
    x, f = integers(210, 64), random(211, 2100)
    f32 = np.float32
    launches: list[tuple[str, int, int, int, list[Any]]] = [
        ("tree_without_barrier", 1, 128, 0, [f, zeros(1, dtype=f32)]),
        ("warp_without_sync", 1, 32, 0, [x, zeros(32)]),
        ("scan_in_place", 1, 64, 0, [x, zeros(64)]),
        ("plain_histogram", 2, 32, 0, [integers(212, 64, high=256, dtype=np.uint8), zeros(8)]),
        ("neighbours", 2, 32, 0, [x, zeros(64)]),
        ("no_bound", 4, 32, 0, [f, zeros(100, dtype=f32)]),
        ("shared_overrun", 1, 32, 0, [x, zeros(32), np.int32(32)]),
        ("dynamic_overrun", 1, 64, 32 * 4, [x, zeros(64)]),
        ("odd_vector", 1, 32, 0, [f, zeros(32, 4, dtype=f32), np.int32(1)]),
        ("half_filled", 1, 64, 0, [x, zeros(64)]),
        ("divergent_barrier", 1, 32, 0, [x, zeros(32)]),
        ("column_walk", 1, 32, 0, [f, zeros(32, dtype=f32)]),
        ("strided_loads", 1, 32, 0, [f, zeros(32, dtype=f32)]),
        ("wrong_mask", 1, 32, 0, [x, zeros(32)]),
    ]
    return [
        Case("broken_memory", name, partial(list, a), grid, block, shared, "verified" if name in HARMLESS else "failed")
        for name, grid, block, shared, a in launches
    ]


def _async() -> list[Case]:
    x = integers(220, 4, 64)
    launches: list[tuple[str, int, list[Any]]] = [
        ("copy_not_waited_for", 32, [x, zeros(32)]),
        ("wait_after_barrier", 64, [x, zeros(64)]),
        ("left_alone", 32, [x, zeros(32)]),
        ("store_left_alone", 32, [x, zeros(32)]),
        ("store_without_fence", 64, [x, zeros(64)]),
        ("source_written_again", 32, [x, zeros(32)]),
        ("no_barrier_after_init", 64, [zeros(64)]),
        ("all_lanes_arrive", 32, [zeros(32)]),
        ("bytes_that_never_come", 32, [x, zeros(32)]),
        ("stage_not_free", 64, [x, zeros(4, 32), np.int32(4)]),
    ]
    return [
        Case(
            "broken_async", name, partial(list, a), 1, block, 0, "verified" if name == "store_left_alone" else "failed"
        )
        for name, block, a in launches
    ]


BROKEN = _barriers() + _memory() + _async()
