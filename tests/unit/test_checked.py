"""The build of the VM that checks its own loads and stores: `WSEMU_CHECKED=1`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import ctypes
import numpy as np
from wsemu.machine import build
from wsemu.machine.scalars import load_i64, store_i64
from wsemu.machine.state import address_of

def load(address):
    return load_i64(address)

def store(address):
    store_i64(address, np.int64(7))
    return np.int64(0)

load.__globals__.update(load_i64=load_i64, store_i64=store_i64)
numbers = np.arange(4, dtype=np.int64)
if KIND == "read-only":
    numbers.flags.writeable = False
known = address_of(numbers)
other = np.arange(4, dtype=np.int64)
place = {"inside": known + 24, "read-only": known, "beyond": known + 32, "before": known - 8,
         "another": other.ctypes.data}[KIND]
made = build.from_outside("test", store if KIND == "read-only" else load)
print(ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(made)(place))
"""
KERNEL = """
import numpy as np
import wsemu
from wsemu import cuda

@cuda.jit
def k(x, y):
    tile = cuda.shared.array(64, np.float32)
    own = cuda.local.array(4, np.float32)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    own[t % 4] = x[t]
    cuda.syncthreads()
    y[t] = tile[63 - t] + own[t % 4]

x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
print(wsemu.check(k, 1, 64, (x, y)).verdict)
"""


def _run(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    file = folder / "program.py"  # compiled code has its source in a file
    file.write_text(text)
    environment = {**os.environ, "WSEMU_CHECKED": "1"}
    return subprocess.run([sys.executable, str(file)], env=environment, capture_output=True, text=True, check=False)


@pytest.mark.skipif(sys.platform != "linux", reason="the tables have a fixed place")
def test_an_access_to_other_memory_ends_the_process(tmp_path: Path) -> None:
    done = {
        kind: _run(tmp_path, f"KIND = {kind!r}\n{PROGRAM}")
        for kind in ("inside", "beyond", "before", "read-only", "another")
    }
    assert done.pop("inside").stdout.split() == ["3"]
    for kind, one in done.items():
        assert one.returncode != 0, kind
        assert "compiled code accesses memory that it was not given" in one.stderr, kind


@pytest.mark.skipif(sys.platform != "linux", reason="the tables have a fixed place")
def test_a_launch_passes_its_own_checks(tmp_path: Path) -> None:
    done = _run(tmp_path, KERNEL)
    assert (done.stdout, done.returncode) == ("verified\n", 0), done.stderr
