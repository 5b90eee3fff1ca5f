"""A share of `benchmarks/ptx_mutants.py`: changed PTX ends with a report or an error, the same on all engines."""

from __future__ import annotations

import itertools
import os
import random
import signal
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wsemu
from tests import ptx_mutants
from tests.ptx_mutants import (
    GUARD,
    Ending,
    GuardChanged,
    check_guards,
    launched_text,
    mutants,
    run_apart,
    run_in_turn,
    with_guards,
)

if TYPE_CHECKING:
    from collections.abc import Callable

IN_BLOCKS = (0, 1, 2)
"""seeds of which some mutant runs as compiled blocks, too"""


@pytest.mark.parametrize("seed", range(4))
def test_changed_ptx_ends_as_it_must(seed: int) -> None:
    tiers = set[str]()
    for mutant in itertools.islice(mutants(random.Random(f"share:{seed}")), 4):
        ending = run_apart(mutant)
        assert not ending.wrong, mutant.what
        tiers.update(ending.verdicts)
    assert tiers >= {"off", "reference"}
    assert "always" in tiers or seed not in IN_BLOCKS


def test_mutants_depend_on_the_seed_alone() -> None:
    one, other = ([mutant.what for mutant in itertools.islice(mutants(random.Random("again")), 50)] for _ in range(2))
    assert one == other
    assert len(set(one)) > 40


def test_a_byte_beside_an_array_is_noticed() -> None:
    array, whole = with_guards(np.arange(4))
    check_guards(whole)
    assert array.tolist() == [0, 1, 2, 3]
    whole[GUARD - 1] += 1
    with pytest.raises(GuardChanged):
        check_guards(whole)


def test_a_mutant_that_ends_its_process_costs_no_other_one(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = list(itertools.islice(mutants(random.Random("in turn")), 4))
    ends: list[Callable[[], Any]] = [
        lambda: Ending({"off": "verified"}, ""),
        lambda: os.kill(os.getpid(), signal.SIGKILL),
        lambda: os._exit(3),
        lambda: Ending({"off": "failed"}, ""),
    ]
    monkeypatch.setattr(ptx_mutants, "_run_or_traceback", lambda mutant, _: ends[drawn.index(mutant)]())
    endings = list(run_in_turn(drawn))
    assert [ending.wrong for ending in endings] == ["", "ended by SIGKILL", "ended with exit code 3", ""]
    assert endings[3].verdicts == {"off": "failed"}


def test_a_mutant_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = list(itertools.islice(mutants(random.Random("in turn")), 2))
    monkeypatch.setattr(ptx_mutants, "SILENT", 0.2)
    monkeypatch.setattr(ptx_mutants, "_run_or_traceback", lambda *_: time.sleep(60))
    assert [ending.wrong for ending in run_in_turn(drawn)] == ["ended by SIGALRM (time)"] * 2


@pytest.mark.parametrize("kernel", ["copied", "pipeline_of_threads"])
def test_a_mutant_is_of_the_kernel_that_is_launched(kernel: str) -> None:
    text = launched_text("mbarriers.sm_90.ptx", kernel)
    (name,) = wsemu.load_ptx(text)
    assert kernel in name
