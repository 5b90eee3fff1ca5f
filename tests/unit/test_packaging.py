"""What is installed: a checkout without links, the hook that makes them, wheels and source distributions."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import types
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
FOLDERS = ("wsemu", "patterns", "checkers")


def hook() -> Any:
    pytest.importorskip("setuptools.command.editable_wheel")
    spec = importlib.util.spec_from_file_location("setup_hook", ROOT / "setup.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def checkout(tmp_path):
    """The files that git and source distributions have, as far as they make the package."""
    caches = shutil.ignore_patterns("__pycache__")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, tmp_path / name, ignore=_without_links(caches, ROOT / "wsemu"))
    for name in (
        "pyproject.toml",
        "setup.py",
        "build_backend.py",
        "MANIFEST.in",
        "README.md",
        "LICENSE",
        "CHANGELOG.md",
    ):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def _without_links(ignore: Any, package: Path) -> Any:
    def ignored(folder: str, names: list[str]) -> set[str]:
        return {*ignore(folder, names), *({"patterns", "checkers"} if Path(folder) == package else set())}

    return ignored


def python(code: str, cwd: Path) -> str:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=cwd).stdout.strip()


def test_git_has_no_link():
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout")
    listed = subprocess.run(["git", "ls-files", "-s"], check=True, capture_output=True, text=True, cwd=ROOT).stdout
    assert [line for line in listed.splitlines() if line.startswith("120000")] == []


def test_no_file_has_a_name_that_windows_refuses_or_takes_for_another():
    files = [path.relative_to(ROOT) for name in (*FOLDERS, "docs", "tests") for path in (ROOT / name).rglob("*")]
    reserved = {"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))}
    wrong = [f for f in files if set(f.name) & set('<>:"|?*\\') or f.stem.lower() in reserved or f.name[-1] in " ."]
    assert wrong == []
    assert len({str(file).lower() for file in files}) == len(files)


def test_a_checkout_runs_without_links_and_without_an_installation(checkout):
    code = "import wsemu.checkers, wsemu.patterns; print(wsemu.patterns.__file__)"
    assert python(code, checkout) == str(checkout / "patterns" / "__init__.py")


def test_an_editable_installation_makes_the_links_and_mends_them(checkout):
    module = hook()
    (checkout / "wsemu" / "patterns").write_text("../patterns")  # as git writes a link on Windows
    for _ in range(2):
        module.link(checkout)
        for name in ("patterns", "checkers"):
            assert (checkout / "wsemu" / name / "__init__.py").samefile(checkout / name / "__init__.py")
    assert python("import wsemu.patterns as p; print(p.__file__)", checkout) == str(
        checkout / "wsemu" / "patterns" / "__init__.py"
    )


def test_on_windows_the_links_are_junctions(checkout, monkeypatch):
    module, made = hook(), []
    junctions = types.SimpleNamespace(CreateJunction=lambda target, place: made.append((target, place)))
    monkeypatch.setitem(sys.modules, "_winapi", junctions)
    monkeypatch.setattr(sys, "platform", "win32")
    module.link(checkout)
    assert made == [(str(checkout / n), str(checkout / "wsemu" / n)) for n in ("patterns", "checkers")]


def test_every_python_version_that_is_promised_is_named():
    assert PROJECT["requires-python"] == ">=3.11"
    named = {line.rsplit(" ", 1)[1] for line in PROJECT["classifiers"] if ":: 3." in line}
    assert named == {"3.11", "3.12", "3.13", "3.14"}
    assert {"Documentation", "Repository", "Issues", "Changelog"} <= PROJECT["urls"].keys()


BUILD = """
import os, sys
from setuptools import build_meta
os.chdir(sys.argv[1])
sys.modules["llvmlite"] = None  # nothing compiles the VM, which takes a minute
build_meta.build_wheel("dist")
build_meta.build_sdist("dist")
"""


def test_wheel_and_source_distribution_have_what_belongs_there(checkout):
    pytest.importorskip("setuptools", minversion="77")
    for name in ("tests/fail/race", "docs/programs", "examples", ".ci"):
        shutil.copytree(ROOT / name, checkout / name)
    hook().link(checkout)  # links of an editable installation double nothing
    command = [sys.executable, "-c", BUILD, str(checkout)]
    environment = {**os.environ, "PYTHONPATH": ""}
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=checkout.parent, env=environment)
    assert not done.returncode, done.stderr
    wheel = set(zipfile.ZipFile(*(checkout / "dist").glob("*.whl")).namelist())
    assert {name.partition("/")[0] for name in wheel if ".dist-info/" not in name} == {"wsemu"}
    ours = {
        f"{prefix}{path.relative_to(checkout / folder).as_posix()}"
        for folder, prefix in (("wsemu", "wsemu/"), ("patterns", "wsemu/patterns/"), ("checkers", "wsemu/checkers/"))
        for path in (checkout / folder).rglob("*")
        if path.suffix in (".py", ".pyi", ".md") and not path.is_relative_to(checkout / "wsemu" / "checkers")
    }
    compiled = {
        path.relative_to(checkout).as_posix()
        for folder in ("c", "torch")
        for path in (checkout / "wsemu/native" / folder).rglob("*")
        if path.is_file()
    }
    libraries = {name for name in wheel if name.startswith("wsemu/native/lib/")}
    assert {name for name in wheel if ".dist-info/" not in name} == {*ours, *compiled, *libraries, "wsemu/py.typed"}
    assert bool(libraries) == hook().has_driver()
    (source,) = (checkout / "dist").glob("*.tar.gz")
    with tarfile.open(source) as archive:
        members = {member.name.partition("/")[2]: member for member in archive.getmembers()}
    assert {
        "setup.py",
        "build_backend.py",
        "patterns/base.py",
        "checkers/pages/race.md",
        "wsemu/py.typed",
        ".ci/run",
    } <= members.keys()
    assert {"docs/programs/plain.py", "examples/sgemv.py", "build_backend.py"} <= members.keys()
    assert not [name for name, member in members.items() if member.issym() or name.startswith("wsemu/patterns")]
