"""Launches inside examples of Hypothesis: its deadline leaves them out, and it traces none of their lines."""

from __future__ import annotations

import sys
import time

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.internal import scrutineer

import wsemu
from wsemu import CheckFailed, cuda
from wsemu.launch.hooks import starting
from wsemu.launch.hypothesis_example import leaving_out_launch


@cuda.jit
def store_behind(x):
    i = cuda.grid(1)
    if i <= x.size:
        x[i] = 1


def is_traced() -> bool:
    """Return whether Hypothesis traces lines here."""
    if hasattr(sys, "monitoring"):
        return bool(sys.monitoring.get_events(scrutineer.MONITORING_TOOL_ID))
    return sys.gettrace() is not None


@pytest.mark.skipif(not scrutineer.Tracer.can_trace(), reason="another tool, such as coverage, traces this process")
def test_explaining_a_failure_traces_the_test_and_no_launch():
    outside: list[bool] = []
    inside: list[bool] = []

    @settings(database=None, max_examples=20, phases=(Phase.generate, Phase.shrink, Phase.explain))
    @given(n=st.integers(1, 40))
    def fails(n):
        outside.append(is_traced())
        try:
            store_behind[2, 32](np.zeros(n, np.float32))
        finally:
            outside.append(is_traced())

    def note(_: object) -> None:
        inside.append(is_traced())

    starting.append(note)
    try:
        with pytest.raises(CheckFailed):
            fails()
    finally:
        starting.remove(note)
    assert True in outside
    assert outside[::2] == outside[1::2]
    assert set(inside) == {False}


def test_the_deadline_leaves_out_launches():
    slow = 1.0

    @settings(database=None, max_examples=1, deadline=600 * slow, suppress_health_check=list(HealthCheck))
    @given(n=st.integers(33, 40))
    def passes(n):
        wsemu.check(store_behind, 1, 32, (np.zeros(n, np.float32),)).assert_clean()

    def wait(_: object) -> None:
        time.sleep(slow)

    starting.append(wait)
    try:
        passes()
    finally:
        starting.remove(wait)


def test_other_trace_functions_stay():
    seen: list[str] = []

    def trace(frame: object, event: str, argument: object) -> None:
        seen.append(event)

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        with leaving_out_launch():
            assert sys.gettrace() is trace
        assert sys.gettrace() is trace
    finally:
        sys.settrace(before)
    assert seen
