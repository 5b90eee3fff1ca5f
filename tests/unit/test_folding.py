"""Constant folding against the reference interpreter's exact meaning of each operation: no code is shared."""

from __future__ import annotations

import math
import random
import struct
from typing import Any

import pytest

from wsemu.frontend.python import folding
from wsemu.model.isa import OPERATIONS, SIZE
from wsemu.reference.arithmetic import semantics

FORMAT = {"f16": "<e", "f32": "<f", "f64": "<d"}
FOLDED = [name for name, operation in OPERATIONS.items() if operation.kind == "alu" and folding.foldable(name)]
SAMPLES = 60


def encode(value: Any, type_: str) -> int:
    """The bits of a folded result in a register of this type."""
    if type_ == "p":
        return int(value)
    if type_[0] == "b":
        return int(value) % (1 << 8 * SIZE[type_])
    return int.from_bytes(struct.pack(FORMAT[type_], value), "little")


def decode(bits: int, type_: str) -> Any:
    if type_ == "p":
        return bool(bits)
    return bits if type_[0] == "b" else struct.unpack(FORMAT[type_], bits.to_bytes(SIZE[type_], "little"))[0]


def sample(type_: str, rng: random.Random) -> int:
    """An edge value, a small number or random bits."""
    if type_ == "p":
        return rng.getrandbits(1)
    width = 8 * SIZE[type_]
    kind = rng.random()
    if type_[0] == "f" and kind < 0.6:
        edges = (0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 300.0, 65504.0, math.inf, -math.inf, math.nan)
        return encode(rng.choice(edges), type_)
    edge = (0, 1, 2, 7, 31, 32, 63, 64, (1 << width) - 1, 1 << (width - 1), (1 << (width - 1)) - 1)
    return rng.choice(edge) % (1 << width) if kind < 0.5 else rng.getrandbits(width)


@pytest.mark.parametrize("name", FOLDED)
def test_folding_is_what_the_reference_computes(name: str) -> None:
    operation, meaning, rng = OPERATIONS[name], semantics[name], random.Random(name)
    for _ in range(SAMPLES):
        bits = [sample(t, rng) for t in operation.operands]
        value = folding.evaluate(name, tuple(decode(x, t) for x, t in zip(bits, operation.operands, strict=True)))
        assert value is not None
        got, want = encode(value, operation.result), int(meaning(*bits))
        if operation.result[0] == "f" and decode(want, operation.result) != decode(want, operation.result):
            assert value != value, (bits, value)
        else:
            assert got == want, (bits, value, decode(want, operation.result))


def test_library_functions_are_not_folded() -> None:
    assert not folding.foldable("sin.f32")
    assert not folding.foldable("fma.f64")
    assert folding.evaluate("pow.f64", (2.0, 3.0)) is None
