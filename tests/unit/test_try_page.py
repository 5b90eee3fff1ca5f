"""The page to try wsemu: what it needs of the package is there without the packages that a browser lacks."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = runpy.run_path(str(ROOT / "docs" / "try" / "build.py"))
MISSING = ("numba", "llvmlite", "pydantic", "pydantic_core", "rich", "typer", "platformdirs", "pygments")
"""packages that the page does not load"""
PROGRAM = """
import json, sys
for name in sys.argv[3:]:
    sys.modules[name] = None
sys.path.insert(0, sys.argv[1])
import wsemu
assert wsemu.__file__.startswith(sys.argv[1]), wsemu.__file__
scope = {"__name__": "page"}
exec(open("run.py", encoding="utf-8").read(), scope)
shown = []
print(json.dumps([scope["run"](sys.argv[2], shown.append), shown]))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the page."""
    place = tmp_path_factory.mktemp("try")
    BUILD["build"](place)
    return place


def in_a_browser(folder: Path, source: str) -> tuple[str, list[str]]:
    """Return what the page shows of a program, with Python and NumPy alone."""
    archive = folder / "unpacked"
    if not archive.exists():
        with zipfile.ZipFile(folder / "wsemu.zip") as packed:
            packed.extractall(archive)
    command = [sys.executable, "-c", PROGRAM, str(archive), source, *MISSING]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    summary, shown = json.loads(done.stdout.splitlines()[-1])
    return summary, shown


def test_a_failing_program_gets_a_proven_fix_and_a_time_line(folder: Path) -> None:
    source = (ROOT / "docs" / "programs" / "too_soon.py").read_text(encoding="utf-8")
    summary, (report, line) = in_a_browser(folder, source)
    assert summary == "1 launch: 1 failed"
    assert "proven: insert `cuda.syncthreads()` before line 13" in report
    assert "program.py:13" in report
    assert "2 race (1)" in line


def test_errors_are_messages(folder: Path) -> None:
    source = "from wsemu import cuda\n@cuda.jit\ndef k(x):\n    x[0] = undefined_name\nk[1, 32]([1.0])\n"
    summary, shown = in_a_browser(folder, source)
    assert (summary, shown) == ("the program ended with an error", [])


def test_the_page_names_what_it_loads(folder: Path) -> None:
    page = (folder / "index.html").read_text(encoding="utf-8")
    worker = (folder / "worker.js").read_text(encoding="utf-8")
    assert "connect-src 'self' https://cdn.jsdelivr.net;" in page
    assert f"const PYODIDE = '{BUILD['PYODIDE']}';" in worker
    assert "{" not in page.partition("<body>")[2]
    examples: list[dict[str, Any]] = json.loads((folder / "examples.json").read_text(encoding="utf-8"))
    assert len(examples) == 6
    assert all("cuda.jit" in example["text"] for example in examples)


def test_the_archive_is_the_same_from_the_same_sources(folder: Path, tmp_path: Path) -> None:
    BUILD["build"](tmp_path)
    assert (tmp_path / "wsemu.zip").read_bytes() == (folder / "wsemu.zip").read_bytes()
