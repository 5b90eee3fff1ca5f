"""A change of a kernel's source with which a launch was run and verified."""

from __future__ import annotations

from typing import Literal

from wsemu.model.finding import Record

Kind = Literal[
    "insert", "call", "move", "argument", "delete", "pair", "split", "unguard", "return", "stage", "bound", "compare",
    "index", "swap", "size", "pad", "atomic", "fill", "guard", "store",
]  # fmt: skip
"""insert      a statement that synchronises
call        another function with the same arguments
move        a statement to another place
argument    an id, count, parity or number of bytes
delete      a statement that synchronises, or that leaves early
pair        one statement here, another one there
split       a statement moved out of an `if`, in two
unguard     a statement out of its condition
return      an early return behind the barriers: a condition around what follows
stage       the stage or parity of a ring
bound       a loop's bound by one
compare     a comparison by one
index       an index by one
swap        two indices in the other order
size        the size of a shared array
pad         a column more, against bank conflicts
atomic      an update that is atomic
fill        zeros in an array before it is read
guard       a condition around an access
store       an access left out"""


class Change(Record):
    """Text that is replaced; lines and columns as of `Site`, from 1, columns in bytes of UTF-8."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    """the first one after it; the same place as the start: text is put in"""
    text: str


class Edit(Record):
    """One small change of the source."""

    kind: Kind
    says: str
    """`insert `cuda.syncthreads()` after line 18`"""
    changes: list[Change]


class Cure(Record):
    """Edits with which the launch is verified: it was run."""

    edits: list[Edit]
    diff: list[str]
    """lines of a unified diff, file names included; no line ends"""
    lines: list[tuple[str, int, str]]
    """the same to be shown: (` `, `+` or `-`; number of the line, in the new file where it stays; its text)"""
    proof: str
    """what it was shown to be: `deadlock-free and race-free in every schedule`"""
    findings: list[int] = []
    """which of the report's findings it makes vanish, counted from 0"""
    drops: bool = False
    """it leaves out stores that another cure keeps"""
    results: int = 0
    """cures of a report with the same number leave the same results"""
    differs: str = ""
    """how its results differ from those of the first cure"""
    expected: bool | None = None
    """whether they are those that were given as right; None: none were given"""

    @property
    def says(self) -> str:
        """The edits in words."""
        return ", and ".join(edit.says for edit in self.edits)


class Trials(Record):
    """What a search for cures did."""

    cures: list[Cure] = []
    """the best one first"""
    groups: list[list[int]] = []
    """findings, counted from 0, with the same cause; the one nearest to the cause comes first in each, and the groups
    in the order of causes"""
    tried: int = 0
    """edits"""
    stopped: str = ""
    """why the search ended before all edits were tried, or empty"""
