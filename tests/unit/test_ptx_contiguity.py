"""Arrays given to PTX: a note if their elements do not lie in memory in the order of their indices."""

from __future__ import annotations

import numpy as np
import pytest

import wsemu

TWICE = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry twice(.param .u64 x)
{
    .reg .b32 %r<2>; .reg .b64 %rd<4>; .reg .f32 %f<2>;
    ld.param.u64 %rd1, [x];
    cvta.to.global.u64 %rd1, %rd1;
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.f32 %f1, [%rd3];
    add.f32 %f1, %f1, %f1;
    st.global.f32 [%rd3], %f1;
    ret;
}
"""
MATRIX = np.arange(64, dtype=np.float32).reshape(8, 8)


@pytest.mark.parametrize(
    ("array", "strides"),
    [(MATRIX, ""), (MATRIX[:1], ""), (MATRIX[:, :1].T, "4, 32"), (MATRIX.T, "4, 32"), (MATRIX[0, ::-1], "-4")],
    ids=("contiguous", "row", "column as row", "transposed", "reversed"),
)
def test_an_array_out_of_order_has_a_note(array: np.ndarray, strides: str) -> None:
    report = wsemu.check(wsemu.load_ptx(TWICE)["twice"], 1, 1, [array])
    note = (
        f"`x` is not contiguous in C order (strides {strides}); the kernel gets its address and sees the elements in "
        "the order of memory"
    )
    assert [one for one in report.notes if "not contiguous" in one] == ([note] if strides else [])
