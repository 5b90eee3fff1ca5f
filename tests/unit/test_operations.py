"""Every arithmetic operation of the table, as the VM runs it, against exact arithmetic on random and edge values.

The oracle is `reference.arithmetic.semantics` (Python integers, fractions, correctly rounded floats); it shares no
code with the VM.  Full and partial masks: lanes that are off keep their old value.
"""

from __future__ import annotations

import math
import random
import struct

import numpy as np
import pytest

from wsemu.machine import state as layout
from wsemu.machine.vm import Machine
from wsemu.model.isa import FIELDS, LANES, OPCODE, OPERATIONS, ROW, SIZE
from wsemu.model.program import Program
from wsemu.reference.arithmetic import semantics

BATCHES = 8
OPERANDS = ("a", "b", "c", "imm")
UINT = {1: "u1", 2: "u2", 4: "u4", 8: "u8"}
FORMAT = {"f16": "<e", "f32": "<f", "f64": "<d"}
FLOAT_EDGES = (
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, 127.5, 128.0, 255.0, 256.5, 32767.5, 65504.0, 65520.0,
    2.0**31, -(2.0**31), 2.0**32, 2.0**53, 2.0**63, -(2.0**63), 2.0**64, 1e-8, 5.96e-8, 2.0**-24, 2.0**-25,
    2.0**-126, 2.0**-149, 1e-45, 3.4028234e38, math.inf, -math.inf, math.nan, math.pi, 1 + 2.0**-11,
    1 + 2.0**-11 + 2.0**-30, 2.0**-1074, 1.7976931348623157e308,
)  # fmt: skip
# Python's gamma functions are not the C library's: relative, and absolute below 1
GAMMA_TOLERANCE = 1e-14


def encode(value: float, type_: str) -> int:
    try:
        packed = struct.pack(FORMAT[type_], value)
    except OverflowError:
        packed = struct.pack(FORMAT[type_], math.copysign(math.inf, value))
    return int.from_bytes(packed, "little")


def decode(bits: int, type_: str) -> float:
    return float(struct.unpack(FORMAT[type_], bits.to_bytes(SIZE[type_], "little"))[0])


def sample(type_: str, rng: random.Random, small: bool) -> int:
    """One operand: an edge value or a random one; `small` for shift counts, field positions and the like."""
    if type_[0] == "f":
        kind = rng.random()
        if kind < 0.5:
            return encode(rng.choice(FLOAT_EDGES), type_)
        if kind < 0.75:
            return encode(rng.uniform(-10, 10), type_)
        return rng.getrandbits(8 * SIZE[type_])
    width = 8 * SIZE[type_]
    if small and rng.random() < 0.7:
        return rng.randrange(0, width + 4)
    edges = (
        0,
        1,
        2,
        3,
        7,
        31,
        32,
        33,
        63,
        64,
        (1 << width) - 1,
        (1 << width) - 2,
        1 << (width - 1),
        (1 << (width - 1)) - 1,
    )
    return rng.choice(edges) % (1 << width) if rng.random() < 0.5 else rng.getrandbits(width)


def run(name: str, operands: list[list[int]], old: list[int], mask: int) -> list[int]:
    """32 results of one operation under an execution mask."""
    operation = OPERATIONS[name]
    code = np.zeros((2, len(FIELDS)), np.int64)
    rows = {"d": ROW} | {field: ROW * (2 + k) for k, field in enumerate(OPERANDS)}
    code[0, 0], code[0, FIELDS.index("guard")] = OPCODE[name], 8  # guarded by the predicate in slot 1
    code[0, FIELDS.index("d")] = rows["d"]
    for field, _ in zip(OPERANDS, operation.operands, strict=False):
        code[0, FIELDS.index(field)] = rows[field]
    code[1, 0] = OPCODE["exit"]
    machine = Machine(Program("one", code, 7 * ROW), (1, 1, 1), (LANES, 1, 1), {}, [], 0)
    block = machine.registers[0]
    block[4:8].view("u4")[:] = mask
    write_row(block, rows["d"], operation.result, old)
    for field, type_, values in zip(OPERANDS, operation.operands, operands, strict=False):
        write_row(block, rows[field], type_, values)
    assert machine.run(0, 1, 1000) == layout.DONE
    return read_row(block, rows["d"], operation.result)


def write_row(block: np.ndarray, row: int, type_: str, values: list[int]) -> None:
    if type_ == "p":
        block[row : row + 4].view("u4")[:] = sum(bool(v) << lane for lane, v in enumerate(values))
    else:
        block[row : row + LANES * SIZE[type_]].view(UINT[SIZE[type_]])[:] = values


def read_row(block: np.ndarray, row: int, type_: str) -> list[int]:
    if type_ == "p":
        mask = int(block[row : row + 4].view("u4")[0])
        return [mask >> lane & 1 for lane in range(LANES)]
    return [int(v) for v in block[row : row + LANES * SIZE[type_]].view(UINT[SIZE[type_]])]


def same(name: str, type_: str, got: int, want: int) -> bool:
    if got == want:
        return True
    if type_[0] != "f":
        return False
    a, b = decode(got, type_), decode(want, type_)
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b) and want != 0x7FFFFFFF  # the one nan of f32 arithmetic
    return "gamma" in name and abs(a - b) <= GAMMA_TOLERANCE * max(1, abs(b))


ALU = [name for name, operation in OPERATIONS.items() if operation.kind == "alu"]


@pytest.mark.parametrize("name", ALU)
def test_operation_matches_exact_arithmetic(name: str) -> None:
    operation, meaning = OPERATIONS[name], semantics[name]
    rng = random.Random(name)
    small = name.startswith(("shl", "shr", "bfe", "bfi"))
    for batch in range(BATCHES):
        mask = 0xFFFFFFFF if batch % 2 == 0 else rng.getrandbits(32) | 1
        operands = [
            [rng.getrandbits(1) if t == "p" else sample(t, rng, small and k > 0) for _ in range(LANES)]
            for k, t in enumerate(operation.operands)
        ]
        if name.startswith("index") and batch < 4:  # extents and strides as programs have them
            operands[0] = [rng.randrange(-20, 20) % (1 << 8 * SIZE[operation.operands[0]]) for _ in range(LANES)]
            operands[1] = [rng.randrange(0, 16)] * LANES
            operands[2], operands[3] = [rng.choice((1, 4, 12, 512))] * LANES, [3 << 40] * LANES
        old = [
            rng.getrandbits(1) if operation.result == "p" else sample(operation.result, rng, False)
            for _ in range(LANES)
        ]
        got = run(name, operands, old, mask)
        for lane in range(LANES):
            values = [column[lane] for column in operands]
            want = int(meaning(*values)) if mask >> lane & 1 else old[lane]
            assert same(name, operation.result, got[lane], want), (
                lane,
                [hex(v) for v in values],
                hex(got[lane]),
                hex(want),
            )
