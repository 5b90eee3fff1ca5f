"""Write the gallery: `python docs/gallery/build.py`.

The program, the report and the cure of a page are taken from `tests/fail` and `tests/pass`. The tests of these folders
check that the three are still true.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
INTRODUCTION = """\
# Gallery of bugs

These are bugs that people had in published kernels. Each page describes what they saw, and shows a small program of
ours with the same bug, the report of `wsemu` and the cure. Some of the kernels hang, and others give wrong results in a
few runs. `wsemu` finds each of the bugs in one launch, without a GPU.

| bug | code | public report |
|---|---|---|
"""


def pages() -> dict[str, str]:
    """Return the text of each page by the name of its file."""
    rows = tomllib.loads((HERE / "rows.toml").read_text(encoding="utf-8"))
    made = {f"{name}.md": _page(name, row) for name, row in rows.items()}
    table = [f"| [{row['title']}]({name}.md) | {_code(name)} | {_links(row)} |" for name, row in rows.items()]
    listed = "\n".join(rows)
    made["index.md"] = f"{INTRODUCTION}{chr(10).join(table)}\n\n```{{toctree}}\n:hidden:\n\n{listed}\n```\n"
    return made


def _page(name: str, row: dict[str, str]) -> str:
    program = _program(name)
    folder = f"../../tests/fail/{program.parent.name}/{name}"
    return f"""# {row["title"]}

{row["symptom"]} {row["cause"]}

Public report: {_links(row)}. Code of the finding: [`{_code(name)}`](../codes/{_code(name)}.md).

## The program

```{{literalinclude}} {folder}.py
:language: python
:lines: {_first_line(program)}-
```

## The report

```{{literalinclude}} {folder}.expected
:language: text
```

## The cure

{row["cure"]}

```diff
{_difference(program, ROOT / "tests" / "pass" / f"{name}.py")}
```
"""


def _program(name: str) -> Path:
    (found,) = (ROOT / "tests" / "fail").glob(f"*/{name}.py")
    return found


def _code(name: str) -> str:
    return _program(name).parent.name


def _links(row: dict[str, str]) -> str:
    pairs = (source.split("#") for source in row["sources"])
    return ", ".join(f"[{repo} #{number}](https://github.com/{repo}/issues/{number})" for repo, number in pairs)


def _first_line(program: Path) -> int:
    """Return the line of the first import. The docstring before it would repeat the page."""
    lines = program.read_text(encoding="utf-8").splitlines()
    return next(n for n, line in enumerate(lines, 1) if line.startswith(("import", "from")))


def _code_lines(program: Path) -> list[str]:
    text = re.sub(r"(?m)  # expect: .*$", "", program.read_text(encoding="utf-8"))
    return text.splitlines()[_first_line(program) - 1 :]


def _difference(wrong: Path, right: Path) -> str:
    changed = list(difflib.unified_diff(_code_lines(wrong), _code_lines(right), lineterm="", n=2))[2:]
    hunks = ("..." if line.startswith("@@") else line.rstrip() for line in changed)
    return "\n".join(hunks).removeprefix("...\n").rstrip()


def write() -> None:
    """Write all pages, and remove pages that have no row."""
    made = pages()
    for file in HERE.glob("*.md"):
        if file.name not in made:
            file.unlink()
    for name, text in made.items():
        (HERE / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
