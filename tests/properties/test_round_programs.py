"""Waits whose rounds access other memory have the verdicts of the same waits with their first rounds unrolled."""

from __future__ import annotations

import random
import runpy
from pathlib import Path

import numpy as np
import pytest

import wsemu
from tests.properties.round_programs import draw_program


def judge(text: str, threads: int, file: Path) -> str:
    file.write_text(text, encoding="utf-8")
    kernel = runpy.run_path(str(file))["kernel"]
    arrays = tuple(np.zeros(n, np.int32) for n in (1, 128, 192))
    return wsemu.check(kernel, 2, threads, arrays).verdict


@pytest.mark.parametrize("seed", range(24))
def test_rounds_that_access_other_memory_are_steps(seed: int, tmp_path: Path) -> None:
    program = draw_program(random.Random(seed))
    looping = judge(program.looping, program.threads, tmp_path / "looping.py")
    assert looping == judge(program.unrolled, program.threads, tmp_path / "unrolled.py")
