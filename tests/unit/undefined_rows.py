"""All that the PTX ISA leaves undefined or unspecified, or calls an error: a row each, with a program.

The rows are in `tests/data/undefined.toml`; `docs/undefined.md` is made of them, and `test_undefined.py` runs each on
both engines.  A program is the body of a kernel after `PROLOGUE`: %t is the thread, %n a number that the launch passes,
%s the address of `tile` and %m of `bar` in shared memory, %o the address of the array `out` and %a that of the thread's
own element.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Literal, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
Kind = Literal["undefined behavior", "undefined value", "unspecified", "error"]
KINDS: tuple[Kind, ...] = ("undefined behavior", "undefined value", "unspecified", "error")
PROLOGUE = """
.visible .entry k(.param .u64 out, .param .u32 n)
{
.reg .pred %p, %q; .reg .b16 %h<9>; .reg .b32 %t, %n, %s, %m, %r<20>; .reg .f32 %f<20>; .reg .f64 %d<9>;
.reg .b64 %o, %a, %x<20>;
.shared .align 128 .b8 tile[1024]; .shared .align 8 .b64 bar[4]; .local .align 16 .b8 own[64];
mov.u32 %t, %tid.x; ld.param.u32 %n, [n]; ld.param.u64 %o, [out]; cvta.to.global.u64 %o, %o; mov.u32 %s, tile;
mov.u32 %m, bar; mul.wide.u32 %a, %t, 4; add.u64 %a, %a, %o;
"""


class Row(NamedTuple):
    """What PTX leaves open of an instruction under a condition, and what wsemu makes of it."""

    instruction: str
    section: str
    """of the PTX ISA 9.0, by its name"""
    condition: str
    kind: Kind
    answer: str
    """a finding code, or `verified`, `incomplete`, `rejected` (a KernelError or UsageError)"""
    here: str = ""
    """what wsemu does, in a few words; nothing where the answer says it"""
    body: str = ""
    shown_by: str = ""
    """the program of `tests/fail` that has it, or the test, in place of a body"""
    n: int = 0
    value: int | None = None
    """what out[0] holds afterwards"""
    block: int = 32
    cluster: int = 1
    grid: int = 0
    """CTAs; 0: those of one cluster"""
    outside: str = ""
    """functions and variables before the kernel"""
    target: str = "sm_90a"

    @property
    def name(self) -> str:
        return f"{self.instruction}: {self.condition}"


def rows() -> list[Row]:
    """The table, in the order of its file."""
    text = (ROOT / "tests" / "data" / "undefined.toml").read_text(encoding="utf-8")
    return [Row(**row) for row in tomllib.loads(text)["row"]]


def text_of(row: Row) -> str:
    """The PTX of a row."""
    ends = row.body.rstrip().endswith(("ret;", "exit;"))
    head = f".version 8.8\n.target {row.target}\n.address_size 64\n{row.outside}{PROLOGUE}"
    return f"{head}{row.body}{'' if ends else 'ret;'}\n}}\n"
