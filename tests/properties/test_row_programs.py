"""Random accesses by whole warps, and whatever may stand in cells beside them, do in the VM, with blocks and without,
what they do in the reference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pytest

import wsemu
from tests.properties import (
    cell_programs,
    clobber_programs,
    period_programs,
    read_only_programs,
    row_programs,
    section_programs,
    side_programs,
)
from tests.properties.loop_programs import LoopProgram
from tests.ptx_mutants import FOLLOWED, PAIRED
from wsemu.machine import workers
from wsemu.machine.tier import hot

if TYPE_CHECKING:
    from pathlib import Path

COUNT, IN_BLOCKS = 24, 4
ROUNDS = 3
KINDS = {
    "rows": row_programs,
    "cells": cell_programs,
    "read_only": read_only_programs,
    "clobber": clobber_programs,
    "sides": side_programs,
    "sections": section_programs,
    "periods": period_programs,
}


def said(kernel: Any, one: LoopProgram, engine: Literal["vm", "reference"]) -> tuple[Any, ...]:
    """What a launch shows, whoever runs it."""
    workers._kept.clear()
    arguments = one.arguments(ROUNDS, 1)
    report = wsemu.check(
        kernel, one.grid, one.threads, arguments, engine=engine, cluster=one.cluster, dynamic_shared=one.dynamic_shared
    )
    left = (a.tobytes() for a in arguments if isinstance(a, np.ndarray))
    found = [(f.code, f.message) for f in report.findings if f.code not in FOLLOWED | PAIRED]
    codes = {f.code for f in report.findings}
    return report.verdict, found, codes, report.counters, *left


@pytest.mark.parametrize("kind", KINDS)
def test_random_accesses_do_what_the_reference_does(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    made = [KINDS[kind].program(seed) for seed in range(COUNT)]
    verdicts = set()
    for n, (one, kernel) in enumerate(zip(made, KINDS[kind].loaded(made, tmp_path, kind), strict=True)):
        expected = said(kernel, one, "reference")
        verdicts.add(expected[0])
        for tier in ("off", "restless") if n < IN_BLOCKS else ("off",):
            monkeypatch.setenv(hot.VARIABLE, tier)
            assert said(kernel, one, "vm") == expected, f"seed {n}, {tier}"
    assert verdicts >= {"verified", "failed"}
