"""Edits of PTX move an instruction out of the branch around it only if it means the same there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from wsemu.repair.ptx_branches import branch_edits
from wsemu.repair.ptx_text import Text

KERNEL = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 y_)
{
  .shared .align 16 .b8 x[512];
  .reg .b32 %t, %s, %a, %v, %w, %m; .reg .b64 %y, %d; .reg .pred %p, %q;
  ld.param.u64 %y, [y_]; mov.u32 %t, %tid.x; mov.u32 %s, x;
  shl.b32 %a, %t, 2; add.u32 %a, %a, %s;
  st.shared.u32 [%a], %t;
  setp.eq.u32 %q, %t, 0;
  bar.sync 0;
  BEFORE
  setp.lt.u32 %p, %t, 3;
  @%p bra $L__BB0_1;
  ld.shared.u32 %v, [%a+-12];
  ld.shared.u32 %w, [%a];
  add.u32 %v, %v, %w;
  STORE st.shared.u32 [%a], %v;
  AFTER
$L__BB0_1:
  bar.sync 0;
  ld.shared.u32 %v, [%a];
  mul.wide.u32 %d, %t, 4; add.u64 %d, %d, %y;
  st.global.u32 [%d], %v;
$L__BB0_2:
  ret;
}
"""


def kernel_with(before: str = "", store: str = "", after: str = "") -> str:
    return KERNEL.replace("BEFORE", before).replace("STORE", store).replace("AFTER", after)


def moves(text: str) -> list[str]:
    """Return the words of the edits that move a store out of its branch."""
    seen = Text.of(text, "k.ptx", 1, text.count("\n"), {})
    source = SimpleNamespace(where=lambda place: f"line {place.line}")
    kernel: Any = SimpleNamespace(
        text=seen, source=source, codes=["race"], hot={(place.file, place.line) for place in seen.places}
    )
    return [candidate.edit.says for _, candidate, _ in branch_edits(kernel) if "outside" in candidate.edit.says]


def test_a_store_moves_to_the_end_of_the_branch_around_it() -> None:
    assert moves(kernel_with())


@pytest.mark.parametrize(
    "parts",
    [
        ("@%q bra $L__BB0_1;", "", ""),
        ("", "@%q", ""),
        ("", "", "bra.uni $L__BB0_2;"),
        ("", "", "@%q bra $L__BB0_2;"),
        ("", "", "@%q ret;"),
        ("", "", "mov.u32 %v, 5;"),
        ("", "", "add.u32 %a, %a, 4;"),
        ("", "", "setp.eq.u32 %p, %t, 5;"),
        ("", "", "ld.shared.u32 %m, [%a];"),
    ],
)
def test_a_store_stays_where_it_would_do_something_else(parts: tuple[str, str, str]) -> None:
    """Other threads would store, or none, or other values."""
    assert not moves(kernel_with(*parts))
