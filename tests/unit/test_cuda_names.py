"""Findings of CUDA C++: mbarriers have the names of their calls, and the call is shown before the helper."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import wsemu

RING = Path(__file__).parents[1] / "data" / "ring"


def check(variant: str) -> wsemu.Report:
    """Return the report of a variant of the ring."""
    kernel = wsemu.load_ptx(RING / f"ring.{variant}.ptx").only()
    arguments = [np.arange(192, dtype=np.float32), np.zeros(192, np.float32), np.int32(6)]
    return wsemu.check(kernel, 1, 64, arguments, dynamic_shared=288)


def test_the_right_ring_is_verified() -> None:
    assert check("right").verdict == "verified"


def test_a_deadlock_names_barriers_as_the_calls_do_and_says_how_many_arrive() -> None:
    (found,) = check("count").errors
    assert found.message.startswith("warp 0 waits on `s.empty[0]` phase 0 for warp 1, which waits on `s.full[0]`")
    assert (found.help or "").startswith("`s.empty[0]` expects 64 arrivals per phase, but receives 32: ")
    assert any("`s.empty[0]` is initialized on line 36" in note for note in found.notes)


@pytest.mark.parametrize("variant", ["count", "no_wait", "no_sync"])
def test_the_call_in_the_kernel_is_shown_first_and_the_helper_as_a_note(variant: str) -> None:
    found = check(variant).errors[0]
    assert {Path(site.file).name for site in found.sites if site.primary} == {"ring.cu"}
    inside = [site for site in found.sites if site.text == "the instruction itself"]
    assert {Path(site.file).name for site in inside} == {"barriers.h"}
    assert all(site.line for site in found.sites)
    assert any(Path(site.file).name == "entry.h" for site in found.sites)


def test_the_advice_names_the_function_of_cuda() -> None:
    found = check("no_sync").errors[0]
    assert "`s.full[0]` before it is initialized" in found.message
    assert "`__syncthreads()`" in (found.help or "")
