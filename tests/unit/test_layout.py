"""The project's layout: who may import whom, public names, packages, versions."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import wsemu

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
FOLDERS = {"wsemu": "wsemu", "patterns": "wsemu.patterns", "checkers": "wsemu.checkers"}
COMPOSITION = {
    "wsemu.cli",
    "wsemu.app.commands",
    "wsemu.program",
    "wsemu.campaign.fuzz",
    "wsemu.pytest_plugin",
    "wsemu.app.replay_program",
    "wsemu.app.trace_program",
}
"""modules that put core and reports together"""


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


def imports(path: Path, *, top_level: bool = False) -> set[str]:
    """Modules that a file imports, without those only for types; `top_level`: without those inside functions."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found: set[str] = set()
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            pending += node.orelse
            continue
        if top_level and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}:{node.lineno}: a relative import"
            assert node.module
            found |= {_module(f"{node.module}.{alias.name}", node.module) for alias in node.names}
        pending += ast.iter_child_nodes(node)
    return found


def _module(name: str, parent: str) -> str:
    return name if name in MODULES else parent


def inside(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


@pytest.mark.parametrize("name", [n for n in MODULES if inside(n, "wsemu.patterns")])
def test_patterns_import_only_what_kernels_and_their_objects_need(name):
    found = imports(MODULES[name], top_level=True)  # `plan()` runs the emulator when it is called
    ours = {i for i in found if inside(i, "wsemu") and not inside(i, "wsemu.patterns")}
    assert ours <= {"wsemu.cuda", "wsemu.ptx", "wsemu.model.errors"}


@pytest.mark.parametrize("name", [n for n in MODULES if inside(n, "wsemu.checkers")])
def test_checkers_import_only_data(name):
    ours = {i for i in imports(MODULES[name]) if inside(i, "wsemu") and not inside(i, "wsemu.checkers")}
    data = "bytecode finding happens_before limits memory outcome places settings".split()
    data += ["reference_costs", "source_view", "witness"]
    assert ours <= {f"wsemu.{module}" for module in data}


OUTSIDE = ("wsemu.report", "wsemu.backends")
ON_DEMAND = {
    "wsemu.model.errors",
    "wsemu.launch.kernel",
    "wsemu.crosscheck",
    "wsemu.model.finding",
    "wsemu.launch.timeline",
}
"""a failed check as text, a kernel on the GPU, a report in a notebook: imported when they are asked for"""


@pytest.mark.parametrize("name", [n for n in MODULES if n not in COMPOSITION])
def test_the_core_imports_neither_report_nor_backends(name):
    found = imports(MODULES[name], top_level=name in ON_DEMAND)
    others = [package for package in OUTSIDE if not inside(name, package)]
    assert not {i for i in found if any(inside(i, package) for package in others)}


@pytest.mark.parametrize(
    ("library", "users"),
    [
        ("rich", {"wsemu.report.terminal"}),
        ("typer", {"wsemu.cli"}),
        ("hypothesis", {"wsemu.strategies", "wsemu.campaign.worker"}),
    ],
)
def test_one_module_uses_the_library(library, users):
    assert {n for n, path in MODULES.items() if any(inside(i, library) for i in imports(path))} <= users


def test_only_backends_use_numba_cuda():
    found = {n for n, path in MODULES.items() if any(inside(i, "numba.cuda") for i in imports(path))}
    assert all(inside(name, "wsemu.backends") for name in found)


def test_the_front_end_knows_no_engine():
    engines = {
        "wsemu.machine.scheduler",
        "wsemu.machine.arithmetic.operations",
        "wsemu.machine.run",
        "wsemu.check",
        "wsemu.reference",
    }
    for name, path in MODULES.items():
        if inside(name, "wsemu.frontend"):
            assert not imports(path) & engines, name


def test_the_reference_interpreter_shares_no_code_with_the_vm():
    fast = {
        "wsemu.machine.scheduler",
        "wsemu.machine.arithmetic.operations",
        "wsemu.machine.run",
        "wsemu.machine.records",
        "wsemu.machine.sync.named_barrier",
        "wsemu.machine.memory.bounds",
    }
    for name, path in MODULES.items():
        if name.startswith("wsemu.reference"):
            found = imports(path)
            assert not found & fast, name
            assert not any(inside(i, "numba") for i in found), name


def test_public_names():
    assert sorted(wsemu.__all__) == sorted([
        "CheckFailed", "Finding", "KernelError", "Report", "UnsupportedError", "UsageError", "__version__", "check",
        "TransferCase", "check_transfer", "crosscheck", "cuda", "load_ptx", "ptx", "replay", "strategies", "trace",
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


def test_check_stays_the_function():
    code = "import wsemu.check, wsemu; from wsemu.check import observers; print(type(wsemu.check).__name__, observers)"
    assert run(code).strip() == "function []"


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
    from wsemu.model.limits import LIMITS

    page = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8")
    for arch, limit in LIMITS.items():
        assert arch in page
        for number in (limit.threads, limit.grid[0], limit.static_shared, limit.shared):
            assert f"{number:,}" in page, (arch, number)
