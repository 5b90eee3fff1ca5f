"""Count what is said of operations outside the rooms that are theirs: `python -m tests.counts`.

literals        strings that are the name of an operation, outside front ends and `model/`; those of `checkers/` count
mbarrier files  files there that have the word mbarrier
side tables     collections there with two or more names of asynchronous operations, or beginnings of them: what such a
                table says of an operation belongs in its row of `model/effects.py`

The front ends and `model/` are where operations come from; nobody can add one without them.  `proof/shadow_program.py`,
`proof/lanes_alone.py`, `proof/numbered.py` and `proof/path_checks.py` make programs, as front ends do.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from wsemu.model.isa import OPERATIONS, step_word

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
APART = (
    "wsemu/frontend/", "wsemu/model/", "wsemu/proof/shadow_program.py", "wsemu/proof/lanes_alone.py",
    "wsemu/proof/numbered.py", "wsemu/proof/path_checks.py",
    "wsemu/checkers/", "wsemu/patterns/",
)  # fmt: skip
"""the packages of operations, other packages that generate programs, and links to folders that are counted elsewhere"""
_COLLECTIONS = (ast.Dict, ast.Tuple, ast.Set, ast.List)


class Counts(NamedTuple):
    """How often each thing was found, by file."""

    literals: dict[str, int]
    mbarrier_files: list[str]
    side_tables: list[str]
    """file:line"""


def count() -> Counts:
    """Count in all files of the package and its checkers."""
    literals: dict[str, int] = {}
    files: list[str] = []
    tables: list[str] = []
    beginnings = _beginnings()
    for name, text in _sources():
        tree = ast.parse(text)
        found = sum(node.value in OPERATIONS for node in _strings(tree))
        if found:
            literals[name] = found
        if "mbarrier" in text:
            files.append(name)
        tables += [f"{name}:{line}" for line in _tables(tree, beginnings)]
    return Counts(literals, files, tables)


def _sources() -> Iterator[tuple[str, str]]:
    for path in sorted([*ROOT.glob("wsemu/**/*.py"), *ROOT.glob("checkers/**/*.py")]):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(APART):
            yield name, path.read_text(encoding="utf-8")


def _strings(tree: ast.AST) -> Iterator[ast.Constant]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node


def _beginnings() -> frozenset[str]:
    """Return the names of asynchronous operations, also without their types, and the beginnings of these names."""
    names = {name for name, operation in OPERATIONS.items() if operation.kind == "async"}
    names |= {step_word(name) for name in names}
    return frozenset(names | {name[: at + 1] for name in names for at, c in enumerate(name) if c == "."})


def _tables(tree: ast.AST, names: frozenset[str], *, inside: bool = False) -> Iterator[int]:
    """Yield the lines of the outermost collections that have two names or more."""
    for node in ast.iter_child_nodes(tree):
        collection = isinstance(node, _COLLECTIONS)
        if collection and not inside and sum(string.value in names for string in _strings(node)) > 1:
            yield node.lineno  # type: ignore[attr-defined]
        yield from _tables(node, names, inside=inside or collection)


if __name__ == "__main__":
    counted = count()
    for name, number in sorted(counted.literals.items(), key=lambda entry: -entry[1]):
        print(f"{number:4} {name}")
    print("\n".join(counted.side_tables))
    print(
        f"literals {sum(counted.literals.values())} in {len(counted.literals)} files, "
        f"mbarrier files {len(counted.mbarrier_files)}, side tables {len(counted.side_tables)}"
    )
