"""PTX of two f32 in a register, of three operands, and atomics of vectors: on both engines, and by NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wsemu

HEAD = """
.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 y)
{
.reg .b16 %h<9>; .reg .b32 %t, %r<9>; .reg .f32 %f<9>; .reg .b64 %at, %x, %y, %d<9>; .reg .pred %p;
mov.u32 %t, %tid.x; mul.wide.u32 %at, %t, 16; ld.param.u64 %x, [x]; ld.param.u64 %y, [y];
add.u64 %x, %x, %at; add.u64 %y, %y, %at;
"""


def run(body: str, x: Any, y: Any) -> wsemu.Report:
    """The report of both engines; arrays are left as they leave them."""
    kernel = wsemu.load_ptx(f"{HEAD}{body}\nret;\n}}")["k"]
    given = x.copy(), y.copy()
    report = wsemu.check(kernel, 1, 32, (x, y))
    other = wsemu.check(kernel, 1, 32, given, engine="reference")
    assert report.model_dump(exclude={"seconds"}) == other.model_dump(exclude={"seconds"})
    assert np.array_equal(x.view(np.uint8), given[0].view(np.uint8))
    assert np.array_equal(y.view(np.uint8), given[1].view(np.uint8))
    return report


def numbers(seed: int) -> Any:
    return np.random.default_rng(seed).standard_normal(128).astype(np.float32)


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("add.rn.f32x2 %d4, %d0, %d1;", lambda a, b: a + b),
        ("sub.rn.f32x2 %d4, %d0, %d1;", lambda a, b: a - b),
        ("mul.rn.ftz.f32x2 %d4, %d0, %d1;", lambda a, b: a * b),
        ("fma.rn.f32x2 %d4, %d0, %d1, %d0;", lambda a, b: (a.astype(np.float64) * b + a).astype(np.float32)),
    ],
)
def test_two_numbers_at_once(instruction: str, expected: Any) -> None:
    x, y = numbers(0), numbers(1)
    report = run(f"ld.global.v2.b64 {{%d0, %d1}}, [%x];\n{instruction}\nst.global.b64 [%y], %d4;", x, y)
    assert report.verdict == "verified"
    a, b = x.reshape(32, 2, 2).transpose(1, 0, 2)
    assert np.array_equal(y.reshape(32, 4)[:, :2], expected(a, b))


@pytest.mark.parametrize("what", ["min", "max"])
def test_the_least_and_largest_of_three(what: str) -> None:
    x, y = numbers(2), np.zeros(128, np.float32)
    x[5] = np.nan
    run(f"ld.global.v4.f32 {{%f0, %f1, %f2, %f3}}, [%x];\n{what}.f32 %f4, %f0, %f1, %f2;\nst.global.f32 [%y], %f4;"
        f"{what}.NaN.f32 %f4, %f0, %f1, %f2;\nst.global.f32 [%y+4], %f4;", x, y)  # fmt: skip
    three = x.reshape(32, 4)[:, :3]
    ignoring, keeping = (np.fmin, np.minimum) if what == "min" else (np.fmax, np.maximum)
    assert np.array_equal(y.reshape(32, 4)[:, 0], ignoring.reduce(three, axis=1))
    assert np.array_equal(y.reshape(32, 4)[:, 1], keeping.reduce(three, axis=1), equal_nan=True)


def test_a_vector_of_atomics_is_each_of_its_elements() -> None:
    x, y = numbers(3), numbers(4)
    wanted = x.reshape(32, 4)[:, :2] + y.reshape(32, 4)[:, :2]
    report = run("ld.global.v2.f32 {%f0, %f1}, [%y];\nred.global.add.v2.f32 [%x], {%f0, %f1};", x, y)
    assert report.verdict == "verified"
    assert np.array_equal(x.reshape(32, 4)[:, :2], wanted)


def test_a_vector_of_atomics_lies_at_a_multiple_of_its_size() -> None:
    report = run("mov.f32 %f0, 0f3F800000;\nred.global.add.v2.f32 [%x+4], {%f0, %f0};", numbers(0), numbers(1))
    assert report.verdict == "incomplete"
    assert "at no multiple of 8 bytes" in report.notes[0]


def test_halves_add_up_over_all_threads() -> None:
    x, y = np.zeros(128, np.float32), numbers(0)
    body = "mov.b32 %r0, 0x3C003C00;\nsub.u64 %x, %x, %at;\nred.global.add.noftz.f16x2 [%x], %r0;"
    run(body + "\nmov.b16 %h0, 0x3F80;\nred.global.add.noftz.bf16 [%x+8], %h0;", x, y)
    assert x.view(np.float16)[:2].tolist() == [32, 32]
    assert x.view(np.uint16)[4] == 0x4200


@pytest.mark.parametrize("rounding", ["", ".ftz"])
def test_a_product_and_a_sum_of_two_numbers_are_contracted(rounding: str) -> None:
    """ptxas 13 makes one `FFMA2` of them."""
    x, y = numbers(0), numbers(1)
    body = f"mul{rounding}.f32x2 %d4, %d0, %d1;\nadd{rounding}.f32x2 %d4, %d4, %d0;"
    run(f"ld.global.v2.b64 {{%d0, %d1}}, [%x];\n{body}\nst.global.b64 [%y], %d4;", x, y)
    a, b = x.reshape(32, 2, 2).transpose(1, 0, 2)
    assert np.array_equal(y.reshape(32, 4)[:, :2], (a.astype(np.float64) * b + a).astype(np.float32))
