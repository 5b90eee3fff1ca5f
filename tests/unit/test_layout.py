"""The project's layout: who may import whom, public names, packages, versions."""

from __future__ import annotations

import ast
import functools
import re
import runpy
import subprocess
import sys
import tomllib
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import wsemu

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PAGE = ROOT / "docs" / "architecture.md"
FOLDERS = {"wsemu": "wsemu", "patterns": "wsemu.patterns", "checkers": "wsemu.checkers"}


def modules() -> dict[str, Path]:
    """Dotted name -> file of every module."""
    found = {}
    for folder, package in FOLDERS.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            if folder == "wsemu" and parts[0] in ("patterns", "checkers"):
                continue  # links
            found[".".join([package, *parts]).removesuffix(".__init__")] = path
    return found


MODULES = modules()


Import = tuple[str, bool, bool]
"""what is imported, whether for types alone, whether inside a function"""


def imports(name: str, *, typing: bool = True, in_functions: bool = True) -> set[str]:
    """What a module imports: modules of ours, and the names of others."""
    return {
        imported for imported, for_types, inner in all_imports(name)
        if (typing or not for_types) and (in_functions or not inner)
    }  # fmt: skip


@functools.cache
def all_imports(name: str) -> frozenset[Import]:
    found: set[Import] = set()
    pending: list[tuple[ast.AST, bool, bool]] = [(ast.parse(MODULES[name].read_text(encoding="utf-8")), False, False)]
    while pending:
        node, for_types, inner = pending.pop()
        if isinstance(node, ast.expr):  # no statement lies in one
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            pending += [(child, True, inner) for child in node.body]
            pending += [(child, for_types, inner) for child in node.orelse]
            continue
        if isinstance(node, ast.Import):
            found |= {(alias.name, for_types, inner) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{name}:{node.lineno}: a relative import"
            assert node.module
            names = (_module(f"{node.module}.{alias.name}", node.module) for alias in node.names)
            found |= {(imported, for_types, inner) for imported in names}
        inner = inner or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        pending += [(child, for_types, inner) for child in ast.iter_child_nodes(node)]
    return frozenset(found)


def _module(name: str, parent: str) -> str:
    return name if name in MODULES else parent


def inside(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def folder(name: str) -> str:
    """The floor that a module belongs to: `model`, `checkers`; `door` for what lies at the top."""
    parts = name.split(".")
    is_package = name in MODULES and MODULES[name].name == "__init__.py"
    return parts[1] if len(parts) > 2 or (len(parts) == 2 and is_package) else "door"


def table(heading: str) -> list[list[str]]:
    """The rows of the first table of the page that has this first column: what stands in backquotes, cell by cell."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith(f"| {heading} |")) + 2
    rows = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


RULES = {row[0].strip("`"): set(re.findall(r"`([^`]+)`", row[1])) for row in table("folder | may import")}
"""folder -> folders that its modules may import, from the documentation"""
EXCEPTIONS = {
    (f"wsemu.{row[0].strip('`')}", f"wsemu.{target}")
    for row in table("module | imports") for target in re.findall(r"`([^`]+)`", row[1])
}  # fmt: skip


def test_every_folder_has_a_rule():
    floors = {folder(name) for name in MODULES} - {"door", "patterns"}
    assert floors == set(RULES)


@pytest.mark.parametrize("floor", RULES)
def test_a_folder_imports_only_what_its_rule_names(floor):
    allowed = {floor, *RULES[floor]}
    found = [
        f"{name} imports {other}"
        for name in MODULES if folder(name) == floor
        for other in imports(name) if inside(other, "wsemu")
        if "*" not in allowed and folder(other) not in allowed and (name, other) not in EXCEPTIONS
    ]  # fmt: skip
    assert not found


def test_every_exception_is_needed():
    assert [(a, b) for a, b in EXCEPTIONS if b not in imports(a)] == []


def test_no_modules_import_each_other_in_a_circle():
    """Imports in functions count; those for types do not, since they never run."""
    graph = {name: {i for i in imports(name, typing=False) if i in MODULES and i != name} for name in MODULES}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"a circle of imports: {' <- '.join(error.args[1])}")


def test_few_modules_lie_at_the_top():
    assert sum(folder(name) == "door" for name in MODULES) <= 14


@pytest.mark.parametrize("name", [n for n in MODULES if inside(n, "wsemu.patterns")])
def test_patterns_import_only_what_kernels_and_their_objects_need(name):
    found = imports(name, typing=False, in_functions=False)  # `plan()` runs the emulator when it is called
    ours = {i for i in found if inside(i, "wsemu") and not inside(i, "wsemu.patterns")}
    assert ours <= {"wsemu.cuda", "wsemu.ptx", "wsemu.model.errors"}


@pytest.mark.parametrize(
    ("library", "users"),
    [
        ("rich", {"wsemu.report.terminal"}),
        ("typer", {"wsemu.app.command_line", "wsemu.app.declared", "wsemu.app.options"}),
        ("hypothesis", {"wsemu.strategies", "wsemu.campaign.strategies", "wsemu.campaign.worker"}),
    ],
)
def test_one_place_uses_the_library(library, users):
    found = {name for name in MODULES if any(inside(i, library) for i in imports(name, typing=False))}
    assert all(any(inside(name, user) for user in users) for name in found)


def test_only_backends_use_numba_cuda():
    found = {name for name in MODULES if any(inside(i, "numba.cuda") for i in imports(name))}
    assert all(inside(name, "wsemu.backends") for name in found)


def test_the_reference_interpreter_needs_no_compiler():
    assert not [n for n in MODULES if inside(n, "wsemu.reference") for i in imports(n) if inside(i, "numba")]


def test_the_picture_is_that_of_the_imports():
    house = runpy.run_path(str(PAGE.parent / "pictures" / "house.py"))
    assert {*house["centres"]()} == {"doors", *RULES}
    for theme in house["COLOURS"]:
        drawn = (house["HERE"] / f"house-{theme}.svg").read_text(encoding="utf-8")
        assert drawn == house["picture"](theme), "run `python docs/pictures/house.py`"


def test_public_names():
    assert sorted(wsemu.__all__) == sorted([
        "CheckFailed", "DeviceMemory", "Finding", "KernelError", "Multicast", "Prediction", "Report", "Sequence",
        "SweepFailed",
        "UnsupportedError",
        "UsageError", "__version__", "check", "sweep",
        "Surface", "TensorMap", "Texture", "TransferCase", "check_transfer", "crosscheck", "cuda", "load_ptx", "ptx",
        "replay",
        "strategies", "time", "trace", "check_like", "save_launch", "record_launch",
    ])  # fmt: skip
    for name in wsemu.__all__:
        assert getattr(wsemu, name) is not None
        assert name in dir(wsemu)
    with pytest.raises(AttributeError, match="has no attribute `chek`"):
        wsemu.chek  # noqa: B018 # type: ignore[attr-defined]


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_importing_wsemu_imports_nothing_heavy():
    heavy = ["numba", "numpy", "pydantic", "rich", "typer"]
    code = "import sys, wsemu; from wsemu import cuda, ptx"
    assert run(f"{code}\nprint([m for m in {heavy} if m in sys.modules])").strip() == "[]"


def test_every_package_is_listed():
    folders = {package for package, path in ((n, p) for n, p in MODULES.items()) if path.name == "__init__.py"}
    assert folders == set(PROJECT["tool"]["setuptools"]["packages"])


def test_a_source_folder_is_no_package():
    code = "import sys; sys.path.insert(0, {root!r}); import {folder}"
    for folder in ("patterns", "checkers"):
        command = [sys.executable, "-c", code.format(root=str(ROOT), folder=folder)]
        failed = subprocess.run(command, check=False, capture_output=True, text=True)
        assert f"import `wsemu.{folder}`" in failed.stderr


def test_the_readme_has_the_two_commands():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "\n    pip install -e . && wsemu check examples/sgemv.py\n" in readme
    assert "\n    pip install -e '.[test]' && pytest\n" in readme


def test_documents_link_to_files_that_exist():
    for document in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([\w./]+)\)", document.read_text(encoding="utf-8")):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_the_limits_page_shows_the_table():
    from wsemu.model.arch import ARCHS

    page = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8")
    for arch, row in ARCHS.items():
        limit = row.limits
        assert arch in page
        for number in (limit.threads, limit.grid[0], limit.static_shared, limit.shared):
            assert f"{number:,}" in page, (arch, number)
