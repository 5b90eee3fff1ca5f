"""A few kernels of benchmarks/levels.py: nvcc's level changes neither verdict nor values."""

from __future__ import annotations

import random
import shutil

import pytest

from tests.properties.level_programs import compare_levels, level_program, pointer_program


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc here")
def test_levels_agree() -> None:
    assert not compare_levels([level_program(random.Random(f"levels {k}"), f"k{k}") for k in range(6)])


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc here")
def test_levels_agree_on_a_race_whose_loaded_number_is_overwritten() -> None:
    kernel = level_program(random.Random("77 44"), "k")
    assert kernel.racy
    assert not compare_levels([kernel])


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc here")
def test_levels_agree_on_pointers() -> None:
    assert not compare_levels([pointer_program(random.Random(f"pointers {k}"), f"k{k}") for k in range(12)])
