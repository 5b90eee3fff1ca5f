"""Each reason for `incomplete` names an instruction with its line, and a way around."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from wsemu import cuda
from wsemu.evidence.places import Places
from wsemu.launch import verdict
from wsemu.launch.compiled import compile_for_types
from wsemu.launch.explore import reasons
from wsemu.launch.explore.nodes import Reached, Result
from wsemu.launch.explore.session import Ask
from wsemu.model.isa import ATOMICS, NAMES
from wsemu.model.outcome import Outcome

EXPLORE = Path(reasons.__file__).parent
ENDS = frozenset(("barriers", ""))
"""values of `Result.why` that are no reasons"""
STATUSES = frozenset(("budget", "events", "fault", "room", "stack", "trap"))
"""the statuses with which a CTA cannot continue"""
AROUND = re.compile("(?:add|check|initialize|limit|move|nest|perform|put|raise|replace|store|turn|use|wait) ")
"""how a way around begins"""


@cuda.jit
def takes_a_number(counter, y):
    ticket = cuda.atomic.add(counter, 0, 1)
    y[0] = cuda.atomic.exch(counter, 1, ticket)


def find_reasons() -> Iterator[str]:
    """Yield the texts that the exploration stores in `Result.why`."""
    for path in sorted(EXPLORE.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Assign):
                yield from _assigned(node)
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("_give_up"):
                yield ast.literal_eval(node.args[1])


def _assigned(node: ast.Assign) -> Iterator[str]:
    for target in node.targets:
        several = isinstance(target, ast.Tuple)
        names = target.elts if isinstance(target, ast.Tuple) else [target]
        values = node.value.elts if several and isinstance(node.value, ast.Tuple) else [node.value]
        for name, value in zip(names, values, strict=False):
            if ast.unparse(name).endswith(".why"):
                yield from (
                    n.value for n in ast.walk(value) if isinstance(n, ast.Constant) and isinstance(n.value, str)
                )


def test_each_reason_of_the_exploration_has_a_text() -> None:
    assert {*find_reasons(), *STATUSES} - ENDS == {*reasons.UNDECIDED}


@pytest.mark.parametrize("why", reasons.UNDECIDED)
@pytest.mark.parametrize("reached", [True, False])
def test_a_reason_names_the_access_its_line_and_a_way_around(why: str, reached: bool) -> None:
    """A search may end before a lane performs an ordered access."""
    program, _, _ = compile_for_types(takes_a_number, (np.zeros(2, np.int32), np.zeros(1, np.int32)), True)
    atomics = [pc for pc, row in enumerate(program.code.tolist()) if NAMES[row[0]] in ATOMICS]
    asks = tuple(Ask(0, 0, 0, pc, (-1, 0)) for pc in atomics if reached)
    places = Places(program, (1, 1, 1), (1, 1, 1), Outcome("done"))
    text = reasons.describe_undecided(Result(why=why, reached=Reached(asks, ())), places, atomics, 1)
    first = takes_a_number.py_func.__code__.co_firstlineno + 2
    where, _, around = text.rpartition(": ")
    assert re.match(rf"test_ways_around\.py:({first}|{first + 1}): ", text), text
    assert re.search(rf"`cuda\.atomic\.\w+` on line ({first}|{first + 1})", where), text
    assert AROUND.match(around), text


@pytest.mark.parametrize("word", verdict.AROUND)
def test_each_influence_has_a_way_around(word: str) -> None:
    assert AROUND.match(verdict.AROUND[word])


def test_the_influences_are_those_of_reports() -> None:
    assert {*verdict.AROUND} == {"atomics", *verdict.STEERING}
