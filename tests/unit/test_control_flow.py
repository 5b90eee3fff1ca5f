"""Loops of a program: where control can go and come back."""

from __future__ import annotations

import random

import numpy as np

from wsemu.model.control_flow import loop_numbers, successors
from wsemu.model.isa import OPCODE
from wsemu.model.program import Program


def drawn(seed: int) -> Program:
    """A program of jumps, branches and ends at random."""
    source = random.Random(seed)
    code = np.zeros((source.randint(1, 14), 8), np.int64)
    for row in code:
        row[0] = OPCODE[source.choice(["jump", "bra", "bra", "exit", "trap", "syncwarp", "syncwarp"])]
        row[1], row[6] = source.choice([0, 2]), source.randrange(len(code))
    code[-1, :2] = OPCODE["exit"], 0
    return Program("drawn", code, 0)


def reached(program: Program, start: int) -> set[int]:
    """The instructions to which control can go on from one."""
    found: set[int] = set()
    ways = [start]
    while ways:
        pc = ways.pop()
        row = program.code[pc].tolist()
        new = set(successors(pc, row)) - found
        found |= new
        ways += new
    return found


def test_two_instructions_have_one_loop_where_control_goes_there_and_back():
    for seed in range(300):
        program = drawn(seed)
        numbers, n = loop_numbers(program), len(program.code)
        ways = [reached(program, pc) for pc in range(n)]
        for one in range(n):
            for two in range(n):
                together = numbers[one] >= 0 and numbers[one] == numbers[two]
                assert together == (two in ways[one] and one in ways[two]), (seed, one, two)
