"""Graphs of programs as they are, made node by node: conditions, memory, changes after they are instantiated."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from wsemu.native.build import find_libraries
from wsemu.native.compiler import find_compiler, find_platform_problem

DATA = Path(__file__).resolve().parents[1] / "data"
pytestmark = pytest.mark.skipif(
    bool(find_platform_problem()) or find_compiler() is None, reason="needs Linux on x86-64 and a C compiler"
)


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """The program of `graph_client.c`."""
    libraries, program = find_libraries(), tmp_path_factory.mktemp("client") / "client"
    source, driver = str(DATA / "graph_client.c"), str(libraries / "libcuda.so.1")
    subprocess.run([str(find_compiler()), "-w", source, driver, "-o", str(program)], check=True)
    return program


@pytest.mark.parametrize(
    ("what", "x", "launches"),
    [
        ("while", 4, 4),  # 3 rounds, and one more in the second launch, in which the limit is reached at once
        ("captured", 4, 4),
        ("switch", 2, 2),
        ("plain", 2, 2),
        ("parameters", 3, 2),
        ("disabled", 1, 1),
        ("update", 3, 2),
    ],
)
def test_nodes_run_as_on_a_gpu(client, what, x, launches):
    command = [sys.executable, "-m", "wsemu", "run", "--", str(client), str(DATA / "graph_client.ptx"), what]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert f"x = {x}\n" in done.stdout, done.stdout + done.stderr
    assert f"1 kernel, {launches} launch{'es' * (launches > 1)}: {launches} verified" in done.stdout
    assert done.returncode == 0


def test_memory_of_a_graph_is_uninitialized(client):
    command = [sys.executable, "-m", "wsemu", "run", "--", str(client), str(DATA / "graph_client.ptx"), "memory"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert "error[uninitialized-read]" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize(("what", "races"), [("per thread", 1), ("legacy", 0)])
def test_the_default_stream_of_a_thread_is_no_legacy_stream(client, what, races):
    command = [sys.executable, "-m", "wsemu", "run", "--", str(client), str(DATA / "graph_client.ptx"), what]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.stdout.count("error[stream-race]") == races, done.stdout + done.stderr
