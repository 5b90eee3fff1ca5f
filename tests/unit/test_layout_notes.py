"""Notes on data that a kernel in PTX may take for another layout: arrays with strides, tiles beside their swizzle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wsemu

PTX = Path(__file__).parents[1] / "ptx"
COPY = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry copy(.param .u64 x, .param .u64 y) {
.reg .b64 %x, %y; .reg .b32 %t, %v;
ld.param.u64 %x, [x];
ld.param.u64 %y, [y];
mov.u32 %t, %tid.x;
mad.wide.u32 %x, %t, 4, %x;
mad.wide.u32 %y, %t, 4, %y;
ld.global.u32 %v, [%x];
st.global.u32 [%y], %v;
ret;
}
"""


def check_copy(x: np.ndarray[Any, Any]) -> list[str]:
    report = wsemu.check(wsemu.load_ptx(COPY)["copy"], 1, 8, (x, np.zeros(8, np.uint32)))
    assert report.verdict == "verified"
    return report.notes


WHOLE = np.arange(64, dtype=np.uint32).reshape(8, 8)


@pytest.mark.parametrize(("array", "strides"), [(WHOLE.T, "(4, 32)"), (WHOLE[:, 0], "(32,)"), (WHOLE[::2], "(64, 4)")])
def test_an_array_with_strides_has_a_note(array: np.ndarray[Any, Any], strides: str) -> None:
    (note,) = check_copy(array)
    assert note.startswith(f"`x` is not contiguous in C order (strides {strides})")


@pytest.mark.parametrize(("pitch", "notes"), [(np.int32(64), 0), (np.int64(16), 0), (np.int32(12), 1)])
def test_a_stride_that_is_passed_as_well_needs_no_note(pitch: Any, notes: int) -> None:
    """In bytes or in elements."""
    text = COPY.replace(".param .u64 y)", f".param .u64 y, .param .u{8 * pitch.nbytes} pitch)")
    report = wsemu.check(wsemu.load_ptx(text)["copy"], 1, 8, (WHOLE[::2], np.zeros(8, np.uint32), pitch))
    assert len(report.notes) == notes


@pytest.mark.parametrize("array", [WHOLE, WHOLE[2:], WHOLE[:1].T, WHOLE.reshape(1, 64, 1)])
def test_an_array_whose_elements_follow_each_other_has_none(array: np.ndarray[Any, Any]) -> None:
    assert check_copy(array) == []


@pytest.mark.parametrize(("kernel", "rest"), [("aligned", 0), ("shifted", 128)])
def test_a_tile_that_begins_beside_its_swizzle_has_a_note(kernel: str, rest: int) -> None:
    x, out = np.arange(512, dtype=np.uint16).reshape(8, 64), np.zeros(512, np.uint16)
    map_ = wsemu.TensorMap(x, [8, 64], swizzle="128B")
    report = wsemu.check(wsemu.load_ptx(PTX / "swizzled.sm_90a.ptx")[kernel], 1, 32, (map_, out))
    assert report.verdict == "verified"
    assert np.array_equal(out, x.ravel()) == (not rest)
    assert len(report.notes) == bool(rest)
    if rest:
        assert "swizzled.cu:19: the tile begins 128 bytes after a multiple of 1,024" in report.notes[0]
