"""Parser for the note that Hypothesis attaches to the exception of a failing example: it has the minimal parameters,
from which an `@example(...)` line is made.  Text in, text out: Hypothesis is not imported.

    Failing test case: test_any_stride(
        transfer=TransferCase(...),
    )
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_HEAD = re.compile(r"(?:Falsifying|Failing) [a-z ]+: \w+\(\n")
_ARGUMENT = re.compile(r"^ {4}(\w+)=", re.MULTILINE)
_END = re.compile(r",?(?:\s+# [^'\"\n]*)?\n*$")
"""the comma after a value, followed by an optional comment of Hypothesis"""
_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]+")
_WIDTH = 100
"""maximum width of a decorator on one line"""


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the exceptions in a group, or the exception itself if it is not a group."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves(inner)
    else:
        yield error


def given_names(test: Any) -> tuple[str, ...] | None:
    """Return the parameters of a test function that `@given` draws; None if they are unknown."""
    drawn = getattr(getattr(test, "hypothesis", None), "_given_kwargs", None)
    return None if drawn is None else tuple(drawn)


def parameters(error: BaseException, names: Collection[str] | None = None) -> dict[str, str]:
    """Return the parameters with these names of the failing example, as source text; empty if no note has them.

    Addresses of objects are removed, because they differ between runs.
    """
    for note in getattr(error, "__notes__", ()):
        head = _HEAD.match(note)
        if head:
            body = note[head.end() :].rpartition(")")[0]
            starts = [*_ARGUMENT.finditer(body)]
            ends = [match.start() for match in starts[1:]] + [len(body)]
            values = {m[1]: _END.sub("", body[m.end() : end]) for m, end in zip(starts, ends, strict=True)}
            return {name: _ADDRESS.sub("", v) for name, v in values.items() if names is None or name in names}
    return {}


def decorator(values: dict[str, str]) -> str:
    """Return `@example(...)` with these parameters; empty if the text of one of them is not Python."""
    try:
        for value in values.values():
            ast.parse(f"({value}\n)", mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    if not values:
        return ""
    line = f"@example({', '.join(f'{name}={value}' for name, value in values.items())})"
    if "\n" not in line and len(line) <= _WIDTH:
        return line
    return "@example(\n" + "".join(f"    {name}={value},\n" for name, value in values.items()) + ")"
