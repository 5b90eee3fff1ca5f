"""What type checkers and editors know of wsemu: kernels, launches and reports have types, and so have its programs."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.stubs import stubs

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "docs" / "programs"
STRICT = ["--strict", "--allow-untyped-defs", "--allow-untyped-calls", "--config-file="]
"""kernels carry no annotations: their types are those of each launch"""

USER = """
from typing import assert_type

import numpy as np

import wsemu
from wsemu import cuda, ptx
from wsemu.cuda import Kernel
from wsemu.host.driver import DeviceArray, Stream
from wsemu.patterns import CudaDMAStrided


@cuda.jit
def plain(x, y):
    y[cuda.grid(1)] = x[cuda.threadIdx.x]
    ptx.bar_sync(1, 64)


@cuda.jit("void(float32[:], float32[:])", fastmath=True)
def declared(x, y):
    cuda.atomic.add(y, 0, x[0])


@cuda.jit(device=True)
def helper(a):
    return a + 1


x = np.zeros(32, np.float32)
report = wsemu.check(plain, 1, (32, 1), (x, x))
assert_type(plain, Kernel)
assert_type(declared, Kernel)
assert_type(helper, Kernel)
assert_type(plain[1, 64](x, x), None)
assert_type(plain[(1, 2), 64, cuda.stream(), 128](x, x), None)
assert_type(cuda.to_device(x), DeviceArray)
assert_type(cuda.to_device(x).reshape(4, 8), DeviceArray)
assert_type(cuda.stream(), Stream)
assert_type(report, wsemu.Report)
assert_type([finding.code for finding in report.findings], list[str])
assert_type(report.assert_clean(bank_ways=1), None)
assert_type(wsemu.load_ptx("x.ptx")["name"][1, 32](x), None)
assert_type(CudaDMAStrided(1, 64, 128, 128, 256, 32, 4096, 256, alignment=16), CudaDMAStrided)
"""
WRONG = """
from wsemu import check, cuda, ptx


@cuda.jit
def kernel(x):
    cuda.syncthread()
    ptx.bar_arrive(1)


kernel[1]
check(kernel, "1", 32)
"""
MISTAKES = {7, 8, 11, 12}
"""the lines of WRONG of which something is said"""


def mypy(*arguments: str) -> str:
    api = pytest.importorskip("mypy.api")
    cache = f"--cache-dir={ROOT / '.mypy_cache' / 'programs'}"
    out, problems, _ = api.run([*STRICT, cache, *arguments])
    assert not problems
    return str(out)


def pyright(*arguments: str) -> str:
    command = shutil.which("pyright", path=str(Path(sys.executable).parent)) or shutil.which("pyright")
    if not command or subprocess.run([command, "--version"], check=False, capture_output=True).returncode:
        pytest.skip("pyright is not installed")
    done = subprocess.run(
        [command, "--pythonpath", sys.executable, *arguments], check=False, capture_output=True, text=True
    )
    return done.stdout


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A user's folder: no configuration, no source of wsemu."""
    monkeypatch.chdir(tmp_path)
    Path("user.py").write_text(USER, encoding="utf-8")
    Path("wrong.py").write_text(WRONG, encoding="utf-8")
    return tmp_path


def test_mypy_knows_the_types_of_kernels_launches_and_reports(elsewhere):
    assert mypy("user.py").startswith("Success")


def test_mypy_finds_misspelled_names_and_wrong_launches(elsewhere):
    said = dict(re.findall(r"(?m)^wrong\.py:(\d+): error: (.*)$", mypy("wrong.py")))
    assert {int(line) for line in said} == MISTAKES


def test_mypy_takes_the_programs_of_the_documentation(monkeypatch):
    monkeypatch.chdir(PROGRAMS)
    assert mypy(*(path.name for path in PROGRAMS.glob("*.py"))).startswith("Success")


def test_pyright_knows_the_types_and_finds_the_mistakes(elsewhere):
    assert pyright("user.py").startswith("0 errors")
    said = re.findall(r"wrong\.py:(\d+):\d+ - error", pyright("wrong.py"))
    assert {int(line) for line in said} == MISTAKES


def test_pyright_takes_the_programs_of_the_documentation(monkeypatch):
    """All but those of clients, whose packages are not installed here."""
    monkeypatch.chdir(PROGRAMS)
    assert pyright(*(path.name for path in PROGRAMS.glob("*.py"))).startswith("0 errors")


def test_names_that_type_checkers_know_are_there_when_a_program_runs():
    """What the signatures define, and the class of kernels."""
    from wsemu import cuda, ptx

    for module, name in ((cuda, "cuda_signatures.pyi"), (ptx, "ptx_signatures.pyi")):
        defined = re.findall(r"(?m)^(?:def|class) (\w+)|^(\w+)(?:: | = )|^from .* as (\w+)$", stubs()[name])
        for parts in (*defined, ("Kernel",) if module is cuda else ("bar_sync",)):
            assert getattr(module, "".join(parts)) is not None


@pytest.mark.parametrize("name", sorted(stubs()))
def test_editors_know_every_name_of_kernels(name, bless):
    path = ROOT / "wsemu" / "language" / name
    made = stubs()[name]
    if bless:
        path.write_text(made, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == made, "run `pytest --bless tests/unit/test_typing.py`"
