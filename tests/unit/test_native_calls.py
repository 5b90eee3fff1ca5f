"""Wrong calls of the driver API end no program by a signal, and return codes of CUDA (`benchmarks/api_calls.py`)."""

from __future__ import annotations

import pytest

from benchmarks.api_calls import build_client, run_sequences
from wsemu.native.compiler import find_compiler, find_platform_problem


@pytest.mark.skipif(
    bool(find_platform_problem()) or find_compiler() is None, reason="needs Linux on x86-64 and a C compiler"
)
def test_mutated_sequences_of_calls_end_as_programs_do(tmp_path):
    assert run_sequences(build_client(tmp_path), 7, 12) == (12, [])
