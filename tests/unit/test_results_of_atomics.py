"""What an atomic returns may go into any operation of arithmetic: what is followed of it is never a crash."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import wsemu
from wsemu import cuda
from wsemu.model.isa import OPERATIONS
from wsemu.proof.linear import MIXED, Compared, Grown, Held, Small, _compute_held

ARITHMETIC = [name for name, operation in OPERATIONS.items() if operation.kind == "alu"]
HELD: list[Held | None] = [Grown(3, 1), Compared("lt", Grown(3, 1), 4), Small(0, 9), MIXED, 5, 1 << 31, -1, None]


@pytest.mark.parametrize("name", ARITHMETIC)
def test_an_operation_takes_whatever_its_operands_hold(name: str) -> None:
    count = len(OPERATIONS[name].operands)
    for held in itertools.product(HELD, repeat=min(count, 3)):
        operands = [*held, *[None] * (count - len(held))]
        made = _compute_held(name, operands, [0] * 8)
        assert made is None or isinstance(made, (int, Grown, Compared, Small, type(MIXED)))


def test_a_float_made_of_it_is_not_followed() -> None:
    assert _compute_held("cvt.rn.f32.s32", [Grown(3, 1)], [0] * 8) == MIXED
    assert _compute_held("cvt.b64.s32", [Grown(3, 1)], [0] * 8) == Grown(3, 1)
    assert _compute_held("cvt.b16.s32", [Grown(3, 1)], [0] * 8) == MIXED


def test_a_complex_number_of_it_is_undecided() -> None:
    @cuda.jit
    def kernel(a, s):
        t = cuda.threadIdx.x
        v = complex(0, cuda.atomic.add(a, 0, 1)) * complex(0, cuda.atomic.add(a, 1, 1))
        if v.real < -5:
            s[t] = v

    report = wsemu.check(kernel, 1, 16, (np.zeros(4, np.int32), np.zeros(64, np.complex64)))
    assert report.verdict == "incomplete"
