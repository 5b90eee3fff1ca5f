"""Verdicts on persistent loops of cluster launch control agree with what was broken in them."""

from __future__ import annotations

import random

import pytest

from tests.properties.request_programs import WRONG, draw_requests, is_right, judge_requests


@pytest.mark.parametrize("wrong", ["", *WRONG])
def test_loops_that_request_clusters(wrong: str) -> None:
    source = random.Random(f"requests {wrong}")
    for k in range(3):
        program = draw_requests(source)._replace(wrong=wrong)
        complaint = judge_requests(program, "reference" if k == 2 else "vm")[1]
        assert not complaint, (program, is_right(program))
