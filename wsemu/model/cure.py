"""A change of a kernel's source with which a launch was run and verified."""

from __future__ import annotations

import re
from typing import Literal, Self

from wsemu.model.finding import Finding
from wsemu.model.record import Record

Kind = Literal[
    "insert", "call", "move", "argument", "constant", "delete", "pair", "split", "unguard", "return", "stage", "bound",
    "compare", "index", "swap", "size", "pad", "atomic", "fill", "load", "guard", "launch",
]  # fmt: skip
"""insert      a statement that synchronises
call        another function with the same arguments
move        a statement to another place
argument    an id, count, parity or number of bytes
constant    a number at the top of the file, or of a pattern that is made there
delete      a statement that synchronises, or that leaves early
pair        one statement here, another one there
split       a statement moved out of an `if`, in two
unguard     a statement out of its condition
return      an early return after the barriers: a condition around what follows
stage       the stage or parity of a ring
bound       a loop's bound by one
compare     a comparison by one
index       an index by one
swap        two indices in the other order
size        the size of a shared array
pad         a column more, against bank conflicts
atomic      an update that is atomic
fill        zeros in an array before it is read
load        a load that gives 0 where it would lie outside
guard       a condition around an access
launch      the grid, the block or an argument, on the host"""


PASS = "pass"
"""the value of `Cure.checks` if they pass"""


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


def lines_of(text: str) -> list[str]:
    """Return the lines with their ends, as Python counts them: a form feed ends no line."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


class Cure(Record):
    """Edits with which the launch is verified: it was run."""

    file: str
    """path of the edited file"""
    edits: list[Edit]
    diff: list[str]
    """hunks of a unified diff, line by line, without line ends and without file names"""
    patch: list[str] = []
    """for a kernel in PTX, the hunks that make the verified PTX, without context lines"""
    proof: str
    """proven property: `deadlock-free and race-free in every schedule`"""
    findings: list[int] = []
    """findings of the report that it removes, counted from 0"""
    drops: bool = False
    """it leaves out stores that another cure keeps"""
    less: str = ""
    """work that it does less often than the original launch: `61,440 loads of `sa` in place of 65,536`; empty: none"""
    results: int = 0
    """cures of a report with the same number leave the same results"""
    differs: str = ""
    """difference of its results from the results of the first fix, which has number 0"""
    expected: bool | None = None
    """true if the results are the expected results; None: no results were expected"""
    fails: int = 0
    """number of neighboring sizes at which it fails, though the kernel has no other errors there"""
    checks: str = ""
    """result of the program's own checks with it: `pass`, or how they fail; empty: unknown"""

    @property
    def is_proven(self) -> bool:
        """True if neither the expected results nor the program's own checks object."""
        return self.expected is not False and self.checks in ("", PASS)

    @property
    def outcome(self) -> str:
        """The result of a run with it, in words."""
        parts = [f"verified: {self.proof}"]
        if self.expected is not None:
            parts.append("with the expected results" if self.expected else "but not with the expected results")
        if self.checks:
            fails = f"but the program then fails: {self.checks}"
            parts.append("and the program's own checks pass" if self.checks == PASS else fails)
        return ", ".join(parts)

    @property
    def caution(self) -> str:
        """The result that the fix reduces, in parentheses after its description, or nothing."""
        parts = ["it leaves out stores"] * self.drops + [f"it computes less: {self.less}"] * bool(self.less)
        parts += ["it fails for other sizes"] * (self.fails > 0)
        return f" ({'; '.join(parts)})" if parts else ""

    def does_less(self, other: Cure) -> bool:
        """Return whether it leaves out stores or loads that another cure keeps."""
        return (self.drops and not other.drops) or (self.less != "" and not other.less)

    @property
    def says(self) -> str:
        """The edits in words."""
        return ", and ".join(edit.says for edit in self.edits)

    @property
    def changes(self) -> list[Change]:
        """The replacements in the present file; no two of them overlap."""
        return [change for edit in self.edits for change in edit.changes]

    def lines(self) -> list[tuple[str, int, str]]:
        """The diff to be shown: (`-`, `+` or ` `; the number of the line, in the new file but where it goes; text)."""
        found: list[tuple[str, int, str]] = []
        old = new = 0
        for line in self.diff:
            if line.startswith("@@"):
                old, new = (int(part.lstrip("-+").partition(",")[0]) for part in line.split()[1:3])
                continue
            mark, text = line[:1], line[1:]
            found.append((mark, old if mark == "-" else new, text))
            old, new = old + (mark != "+"), new + (mark != "-")
        while found and found[-1][0] == " " and not found[-1][2].strip():
            found.pop()
        return found

    def blocks(self) -> list[tuple[int, int, list[str]]]:
        """Its hunks without context: first and last line of the file as it is, and the lines in their place.  Where
        lines only come, the one before them is replaced by itself."""
        found: list[tuple[int, int, list[str]]] = []
        before, old = "", 0
        gone: list[str] = []
        come: list[str] = []

        def close() -> None:
            if gone:
                found.append((old - len(gone), old - 1, [*come]))
            elif come:
                found.append((old - 1, old - 1, [before, *come]))
            gone.clear()
            come.clear()

        for line in [*self.diff, "@@ -0 +0 @@"]:
            mark, text = line[:1], line[1:]
            if mark == "-":
                gone.append(text)
                old += 1
            elif mark == "+":
                come.append(text)
            else:
                close()
                before = text
                old = old + 1 if mark == " " else int(line.split()[1].lstrip("-").partition(",")[0])
        return found

    def applied(self, source: str) -> str:
        """The text of the file with the edits.  ValueError where it is not the text that they are of."""
        lines = lines_of(source)
        for change in sorted(self.changes, key=lambda c: (c.line, c.column), reverse=True):
            if change.end_line > len(lines) + 1:
                raise ValueError("the file is another one now")
            lines.append("")
            head = lines[change.line - 1].encode()[: change.column - 1]
            tail = lines[change.end_line - 1].encode()[change.end_column - 1 :]
            text = (head + change.text.encode() + tail).decode()
            lines[change.line - 1 : change.end_line] = lines_of(text)
        return "".join(lines)

    def patch_ptx(self, text: str) -> str:
        """Return a PTX text with the patch.  Raise ValueError if the patch belongs to another text."""
        lines, made = [line.rstrip("\n") for line in lines_of(text)], []
        at = 0
        for line in self.patch:
            mark, rest = line[:1], line[1:]
            if line.startswith("@@"):
                start, _, count = line.split()[1].lstrip("-").partition(",")
                begin = int(start) - (count != "0")
                made += lines[at:begin]
                at = begin
            elif mark == "+":
                made.append(rest)
            elif lines[at : at + 1] == [rest]:
                at += 1
            else:
                raise ValueError("the file is another one now")
        return "\n".join([*made, *lines[at:]]) + "\n"


INTERRUPTED = "interrupted"
"""why a search ended that the user stopped"""


class Trials(Record):
    """The extent of a search for fixes."""

    cures: list[Cure] = []
    """fixes, the best one first"""
    groups: list[list[int]] = []
    """findings, counted from 0, with the same cause; the one nearest to the cause comes first in each, and the groups
    in the order of causes"""
    tried: int = 0
    """number of edits that were tried"""
    stopped: str = ""
    """why the search ended before all edits were tried, or empty"""

    def sort_by_group(self, findings: list[Finding]) -> tuple[Self, list[Finding]]:
        """Return these results for findings in the order of their groups, and those findings."""
        order = [n for group in self.groups for n in group]
        place = {n: k for k, n in enumerate(order)}
        cures = [cure.model_copy(update={"findings": sorted(place[n] for n in cure.findings)}) for cure in self.cures]
        groups = [[place[n] for n in group] for group in self.groups]
        return self.model_copy(update={"cures": cures, "groups": groups}), [findings[n] for n in order]

    def select_findings(self, kept: list[int]) -> Self:
        """Return what was tried for only some of the findings, which are counted from 0 again."""
        place = {number: k for k, number in enumerate(kept)}
        mine = ((cure, [place[n] for n in cure.findings if n in place]) for cure in self.cures)
        cures = [cure.model_copy(update={"findings": findings}) for cure, findings in mine if findings]
        groups = [[place[n] for n in group if n in place] for group in self.groups]
        return self.model_copy(update={"cures": cures, "groups": [group for group in groups if group]})

    @property
    def cure(self) -> Cure | None:
        """The best one."""
        return self.cures[0] if self.cures else None

    @property
    def other(self) -> Cure | None:
        """The best one of those with other results, unless it does less: which of the two is meant, only the user can
        say."""
        first = self.cure
        return next((c for c in self.cures if c.results and first is not None and not c.does_less(first)), None)
