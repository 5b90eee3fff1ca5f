"""Fixes: changes of a kernel's source with which a launch was run and verified."""

from __future__ import annotations

import re
from typing import Literal, Self

from wsemu.model.finding import Finding
from wsemu.model.record import Record

Kind = Literal[
    "insert", "call", "move", "argument", "constant", "delete", "pair", "split", "unguard", "return", "stage", "bound",
    "compare", "index", "swap", "size", "pad", "atomic", "fill", "load", "guard", "launch",
]  # fmt: skip
"""kinds of edits, by what each does

insert      insert a statement that synchronizes
call        call another function with the same arguments
move        move a statement
argument    change an id, count, parity or number of bytes
constant    change a number at the top of the file, or in a pattern that is constructed there
delete      delete a statement that synchronizes, or that leaves a function or loop early
pair        insert a statement on both sides of a synchronization
split       move part of a statement out of an `if`
unguard     move a statement out of an `if`
return      move an early return to the end: put the statements after it under a condition
stage       change the stage or parity of a ring
bound       change a loop's bound by one
compare     change a comparison by one
index       change an index by one
swap        exchange two indices
size        change the size of a shared array
pad         add a column to an array, against bank conflicts
atomic      make an update atomic
fill        store zeros in an array before it is read
load        let a load return 0 if its index is outside of the array
guard       put a condition around an access
launch      change the grid, the block or an argument, on the host"""


PASS = "pass"
"""value of `Cure.checks` if the program's own checks pass"""


class Change(Record):
    """A replacement of text.  Lines and columns are those of `Site`: they count from 1, columns in bytes of UTF-8."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    """the first column after the text; if it equals the start, text is inserted"""
    text: str


class Edit(Record):
    """One small change of the source."""

    kind: Kind
    says: str
    """description of the edit, such as `insert `cuda.syncthreads()` after line 18`"""
    changes: list[Change]


def lines_of(text: str) -> list[str]:
    """Return the lines with their line ends, split as Python counts lines: a form feed does not end a line."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


class Cure(Record):
    """A fix: edits with which the launch was run and is verified."""

    file: str
    """path of the edited file"""
    edits: list[Edit]
    diff: list[str]
    """hunks of a unified diff, one entry per line, without line ends and file names"""
    patch: list[str] = []
    """for a kernel in PTX, the hunks that change the PTX as verified, without context lines"""
    proof: str
    """the proven property: `deadlock-free and race-free in every schedule`"""
    findings: list[int] = []
    """indices of the report's findings that the fix removes"""
    drops: bool = False
    """true if it removes stores that another fix keeps"""
    less: str = ""
    """work that it does less often than the original launch, such as `61,440 loads of `sa` in place of 65,536`; empty:
    none"""
    results: int = 0
    """number of a group of fixes that leave the same results"""
    differs: str = ""
    """difference between its results and the results of group 0, that of the first fix"""
    expected: bool | None = None
    """true if the results are the expected results; None: no results were expected"""
    fails: int = 0
    """number of neighboring sizes at which it fails, although the kernel has no other errors there"""
    checks: str = ""
    """result of the program's own checks with the fix: `pass`, or a description of the failure; empty: not known"""

    @property
    def is_proven(self) -> bool:
        """True unless the expected results or the program's own checks contradict the fix."""
        return self.expected is not False and self.checks in ("", PASS)

    @property
    def outcome(self) -> str:
        """Return a description of the result of a run with the fix."""
        parts = [f"verified: {self.proof}"]
        if self.expected is not None:
            parts.append("with the expected results" if self.expected else "but not with the expected results")
        if self.checks:
            fails = f"but the program then fails: {self.checks}"
            parts.append("and the program's own checks pass" if self.checks == PASS else fails)
        return ", ".join(parts)

    @property
    def caution(self) -> str:
        """Return what the fix leaves out or breaks, in parentheses, to follow its description; empty if nothing."""
        parts = ["it leaves out stores"] * self.drops + [f"it computes less: {self.less}"] * bool(self.less)
        parts += ["it fails for other sizes"] * (self.fails > 0)
        return f" ({'; '.join(parts)})" if parts else ""

    def does_less(self, other: Cure) -> bool:
        """Return whether it removes stores or loads that another fix keeps."""
        return (self.drops and not other.drops) or (self.less != "" and not other.less)

    @property
    def says(self) -> str:
        """Return the descriptions of the edits."""
        return ", and ".join(edit.says for edit in self.edits)

    @property
    def changes(self) -> list[Change]:
        """Return the replacements in the current file, none of which overlap."""
        return [change for edit in self.edits for change in edit.changes]

    def lines(self) -> list[tuple[str, int, str]]:
        """Return the lines of the diff to show, each as a mark (`-`, `+` or ` `), a line number and a text.  The number
        of a removed line is that of the old file; all others are those of the new file."""
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
        """Return the hunks without context: first and last replaced line of the current file, and the new lines.  A
        pure insertion replaces the line before it by this line and the new ones."""
        found: list[tuple[int, int, list[str]]] = []
        before, old = "", 0
        removed: list[str] = []
        added: list[str] = []

        def close() -> None:
            if removed:
                found.append((old - len(removed), old - 1, [*added]))
            elif added:
                found.append((old - 1, old - 1, [before, *added]))
            removed.clear()
            added.clear()

        for line in [*self.diff, "@@ -0 +0 @@"]:
            mark, text = line[:1], line[1:]
            if mark == "-":
                removed.append(text)
                old += 1
            elif mark == "+":
                added.append(text)
            else:
                close()
                before = text
                old = old + 1 if mark == " " else int(line.split()[1].lstrip("-").partition(",")[0])
        return found

    def applied(self, source: str) -> str:
        """Return the text of the file with the edits applied.  Raise ValueError if the text is not the one to which the
        edits belong."""
        lines = lines_of(source)
        for change in sorted(self.changes, key=lambda c: (c.line, c.column), reverse=True):
            if change.end_line > len(lines) + 1:
                raise ValueError("the file has changed")
            lines.append("")
            head = lines[change.line - 1].encode()[: change.column - 1]
            tail = lines[change.end_line - 1].encode()[change.end_column - 1 :]
            text = (head + change.text.encode() + tail).decode()
            lines[change.line - 1 : change.end_line] = lines_of(text)
        return "".join(lines)

    def patch_ptx(self, text: str) -> str:
        """Return a PTX text with the patch applied.  Raise ValueError if the patch belongs to another text."""
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
                raise ValueError("the file has changed")
        return "\n".join([*made, *lines[at:]]) + "\n"


INTERRUPTED = "interrupted"
"""the reason for the end of a search that the user interrupted"""


class Trials(Record):
    """The extent and the results of a search for fixes."""

    cures: list[Cure] = []
    """fixes, the best one first"""
    groups: list[list[int]] = []
    """groups of findings with the same cause, by index.  In each group, the finding nearest to the cause comes first;
    groups are in the order of causes"""
    tried: int = 0
    """number of edits that were tried"""
    stopped: str = ""
    """the reason for ending the search before all edits were tried, or empty"""

    def sort_by_group(self, findings: list[Finding]) -> tuple[Self, list[Finding]]:
        """Return these results with the findings in the order of their groups, and the findings in this order."""
        order = [n for group in self.groups for n in group]
        place = {n: k for k, n in enumerate(order)}
        cures = [cure.model_copy(update={"findings": sorted(place[n] for n in cure.findings)}) for cure in self.cures]
        groups = [[place[n] for n in group] for group in self.groups]
        return self.model_copy(update={"cures": cures, "groups": groups}), [findings[n] for n in order]

    def select_findings(self, kept: list[int]) -> Self:
        """Return the results for only some of the findings, which are renumbered from 0."""
        place = {number: k for k, number in enumerate(kept)}
        mine = ((cure, [place[n] for n in cure.findings if n in place]) for cure in self.cures)
        cures = [cure.model_copy(update={"findings": findings}) for cure, findings in mine if findings]
        groups = [[place[n] for n in group if n in place] for group in self.groups]
        return self.model_copy(update={"cures": cures, "groups": [group for group in groups if group]})

    @property
    def cure(self) -> Cure | None:
        """Return the best fix."""
        return self.cures[0] if self.cures else None

    @property
    def other(self) -> Cure | None:
        """Return the best fix with different results, unless it does less work.  Only the user knows which of the two
        results is intended."""
        first = self.cure
        return next((c for c in self.cures if c.results and first is not None and not c.does_less(first)), None)
