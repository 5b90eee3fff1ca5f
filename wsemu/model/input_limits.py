"""Limits on the size of inputs, in one table: each row is a limit on a file, a text or an option.

A limit prevents an input of some hundred kilobytes from taking minutes or gigabytes.  Each limit is far above what
compilers generate, and low enough to keep resource use small.  `docs/limits.md` shows the table, and
`tests/unit/test_input_limits.py` has an input beyond each row.
"""

from __future__ import annotations

from wsemu.model.data import NamedTuple

MIB = 1 << 20


class InputLimit(NamedTuple):
    """One row of the table."""

    most: int
    unit: str
    """unit in which the input is counted"""
    of: str
    """the input that is measured"""
    remedy: str
    """advice for an input beyond the limit"""

    def excess(self, count: int) -> str:
        """Return the error text for an input with `count` of the unit, or an empty text if it is within the limit."""
        return f"{count:,} {self.unit} in {self.of}: at most {self.most:,}"


INPUT_LIMITS: dict[str, InputLimit] = {
    "ptx-bytes": InputLimit(64 * MIB, "bytes", "a PTX file", "give one module at a time"),
    "ptx-digits": InputLimit(128, "digits", "a number", "write a number of 64 bits"),
    "ptx-nesting": InputLimit(128, "levels", "braces, parentheses or signs", "split the expression or block"),
    "ptx-extents": InputLimit(16, "extents", "an array", "declare it with fewer dimensions"),
    "ptx-initial": InputLimit(1 << 24, "elements", "an array with an initial value", "initialize a smaller array"),
    "ptx-registers": InputLimit(
        1 << 20, "registers", "a kernel with the functions that it calls", "declare only registers that are used"
    ),
    "ptx-targets": InputLimit(
        4096, "targets", "`.branchtargets` or `.calltargets`", "split the table into several branches"
    ),
    "ptx-calls": InputLimit(
        1 << 14, "calls", "a kernel with the functions that it calls", "call fewer functions, or write loops"
    ),
    "ptx-call-depth": InputLimit(256, "calls", "a chain of calls", "let the compiler inline some of them"),
    "ptx-recursion": InputLimit(
        128, "functions", "a group of functions that call each other", "write loops in place of recursion"
    ),
    "ptx-inlined-at": InputLimit(256, "calls", "a chain of `inlined_at`", "compile it without `-lineinfo`"),
    "ptx-variables-bytes": InputLimit(1 << 30, "bytes", "the variables of a module", "pass large arrays as arguments"),
    "heap-bytes": InputLimit(
        1 << 40, "bytes", "the heap of the device", "give the program's own size, such as `heap=8 << 20`"
    ),
    "arg-bytes": InputLimit(4 << 30, "bytes", "an array that `--arg` makes", "give a smaller shape"),
    "arg-text": InputLimit(100_000, "characters", "the text of `--arg`", "put long lists into a file, FILE.npy"),
    "arg-nesting": InputLimit(32, "levels", "nested brackets of `--arg`", "give nested structures as `bytes:`"),
    "arg-digits": InputLimit(100, "digits", "a number of an option", "write a number of 64 bits"),
}
