"""Random programs of assignments, guards and jumps of any shape, against a few lines that execute them thread by
thread."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

import wsemu

THREADS, REGISTERS, FUEL = 64, 6, 30
HEADER = ".version 8.4\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 out)\n{\n.reg .pred %p<4>;\n"
BINARY: dict[str, Callable[[int, int], int]] = {
    "add.u32": lambda a, b: a + b,
    "sub.u32": lambda a, b: a - b,
    "xor.b32": lambda a, b: a ^ b,
    "mul.lo.u32": lambda a, b: a * b,
    "max.u32": max,
}
Step = tuple[str, int, int, int, int]
"""operation, destination, two sources, and a guard: 0 for none, 1 and 2 for the predicate and its opposite"""


def program(draw: random.Random) -> list[tuple[list[Step], int, int, bool]]:
    """Blocks of steps, each with a bit that is tested, the block that it goes to if that is set, and whether it tests
    at all."""
    count = draw.randint(2, 9)
    blocks: list[tuple[list[Step], int, int, bool]] = []
    for _ in range(count):
        steps: list[Step] = []
        for _ in range(draw.randint(0, 4)):
            operation = draw.choice([*BINARY, "mov.u32", "mov.u32", "setp.lt.u32"])
            d, a, b = (draw.randrange(REGISTERS) for _ in range(3))
            steps.append((operation, d, a, b, draw.choice((0, 0, 0, 1, 2))))
        blocks.append((steps, draw.randrange(5), draw.randrange(count), draw.random() < 0.8))
    return blocks


def written(blocks: list[tuple[list[Step], int, int, bool]]) -> str:
    """The program as PTX; every thread ends when it has run out of fuel."""
    lines = [
        HEADER,
        f".reg .b32 %r<{REGISTERS + 4}>;\n.reg .b64 %rd<5>;\nmov.u32 %r0, %tid.x;",
        *(f"mov.u32 %r{n}, 0;" for n in range(1, REGISTERS + 1)),
        "setp.eq.u32 %p0, 0, 1;",
    ]
    for n, (steps, bit, target, tests) in enumerate(blocks):
        fuel = f"%r{REGISTERS}"
        lines.append(f"$B{n}:\nadd.u32 {fuel}, {fuel}, 1;\nsetp.gt.u32 %p1, {fuel}, {FUEL};\n@%p1 bra $end;")
        for operation, d, a, b, guard in steps:
            guarded = ("", "@%p0 ", "@!%p0 ")[guard]
            target_ = "%p0" if operation.startswith("setp") else f"%r{d}"
            sources = f"%r{a}" if operation == "mov.u32" else f"%r{a}, %r{b}"
            lines.append(f"{guarded}{operation} {target_}, {sources};")
        register = f"%r{REGISTERS + 1}"
        condition = f"@%p2 bra $B{target};" if tests else ""
        lines.append(f"and.b32 {register}, %r{bit}, {1 << bit};\nsetp.ne.u32 %p2, {register}, 0;\n{condition}")
    lines.append("$end:\nmov.u32 %r9, %tid.x;\nmul.wide.u32 %rd1, %r9, " + str(4 * REGISTERS) + ";")
    lines.append("ld.param.u64 %rd2, [out];\nadd.s64 %rd3, %rd2, %rd1;")
    lines += [f"st.global.u32 [%rd3+{4 * n}], %r{n};" for n in range(REGISTERS)]
    return "\n".join([*lines, "ret;\n}\n"])


def executed(blocks: list[tuple[list[Step], int, int, bool]], thread: int) -> list[int]:
    """What a thread's registers hold in the end; all but the first begin as 0."""
    r, holds = [thread] + [0] * (REGISTERS - 1), False
    at = fuel = 0
    while at < len(blocks):
        fuel += 1
        if fuel > FUEL:
            break
        steps, bit, target, tests = blocks[at]
        for operation, d, a, b, guard in steps:
            if guard and holds != (guard == 1):
                continue
            if operation.startswith("setp"):
                holds = r[a] < r[b]
            else:
                r[d] = (r[a] if operation == "mov.u32" else BINARY[operation](r[a], r[b])) & 0xFFFFFFFF
        at = target if tests and r[bit] & 1 << bit else at + 1
    return r


@pytest.mark.parametrize("seed", range(60))
def test_random_programs(seed):
    blocks = program(random.Random(seed))
    out = np.zeros((THREADS, REGISTERS), np.uint32)
    report = wsemu.check(wsemu.load_ptx(written(blocks)).only(), 1, THREADS, (out,))
    assert report.verdict == "verified", report.notes
    assert out.tolist() == [executed(blocks, thread) for thread in range(THREADS)]
