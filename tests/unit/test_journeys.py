"""What people do with the tool from end to end: files as they write them, commands as they type them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import wsemu

ROOT = Path(__file__).parents[2]

COPY = """\
import numpy as np
from hypothesis import given, settings
from wsemu import check_transfer, cuda
from wsemu.strategies import strided_transfers

@cuda.jit
def copy_tile(src, dst):
    tile = cuda.shared.array(64, np.float32)
    i = cuda.threadIdx.x
    tile[i] = src[i]
    cuda.syncthreads()
    dst[i] = tile[63 - i]

def test_copy(wsemu):
    src, dst = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    wsemu.check(copy_tile, 1, 64, (src, dst)).assert_clean(bank_ways=1)
    assert (dst == src[::-1]).all()

@settings(max_examples=20, deadline=None)
@given(transfer=strided_transfers())
def test_any_stride(transfer):
    check_transfer(transfer).assert_clean()
"""
NUMBA = """\
import numpy as np
from numba import cuda

@cuda.jit
def scale(x, a):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= a

@cuda.jit
def shift(x, b):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += b

@cuda.jit
def last_cta(x, count, total):
    ticket = cuda.atomic.add(count, 0, 1)
    if ticket == cuda.gridDim.x - 1:
        total[0] = 1

x = cuda.to_device(np.ones(256, np.float32))
for _ in range(3):
    scale[4, 64](x, 2.0)
    shift[4, 64](x, 1.0)
last_cta[4, 1](x, np.zeros(1, np.int32), np.zeros(1, np.int32))
assert (x.copy_to_host() == 15).all()
"""


def test_a_broken_program_is_shown_with_both_sites_and_a_remedy(tmp_path: Path) -> None:
    done = wsemu("check", ROOT / "examples" / "broken" / "no_empty_wait.py", cwd=tmp_path)
    assert done.returncode == 1
    assert "error[race]: write-after-read hazard on shared `tile[lane]`" in done.stdout
    assert "= hint: warp 0: arrive on an empty-buffer barrier after line 16; warp 1: sync" in done.stdout


def test_a_right_program_is_proven_in_a_line(tmp_path: Path) -> None:
    done = wsemu("check", ROOT / "examples" / "sgemv.py", cwd=tmp_path)
    assert done.returncode == 0
    said = " ".join(done.stdout.split())
    assert "sgemv[grid 16, block 224] verified: deadlock-free and race-free in every schedule" in said
    assert "accesses, 0 bank conflicts, 100% coalesced" in said


def test_kernels_and_transfers_are_tested_with_pytest(tmp_path: Path) -> None:
    (tmp_path / "test_copy.py").write_text(COPY)
    plugin = [] if _installed() else ["-p", "wsemu.pytest_plugin"]
    command = [sys.executable, "-m", "pytest", "-q", *plugin]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment)
    assert "2 passed" in done.stdout, done.stdout + done.stderr


def _installed() -> bool:
    from importlib.metadata import entry_points

    return any(entry.value == "wsemu.pytest_plugin" for entry in entry_points(group="pytest11"))


def test_a_numba_program_runs_unmodified_and_without_a_gpu(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    (tmp_path / "my_script.py").write_text(NUMBA)
    done = wsemu("run", "my_script.py", cwd=tmp_path)
    assert done.returncode == 0
    assert "3 kernels, 7 launches: 7 verified" in done.stdout


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="there is a GPU: tests/device compares with it")
def test_without_a_gpu_a_crosscheck_says_what_is_missing(tmp_path: Path) -> None:
    done = wsemu("crosscheck", ROOT / "examples" / "sgemv.py", cwd=tmp_path)
    assert done.returncode == 2
    assert "sgemv[grid 16, block 224]  verified" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
