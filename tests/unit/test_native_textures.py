"""CUDA arrays, textures and surfaces of programs as they are."""

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
    """The program of `texture_client.c`."""
    libraries, program = find_libraries(), tmp_path_factory.mktemp("client") / "client"
    source, driver = str(DATA / "texture_client.c"), str(libraries / "libcuda.so.1")
    subprocess.run([str(find_compiler()), "-w", source, driver, "-o", str(program)], check=True)
    return program


def run(client, what):
    command = [sys.executable, "-m", "wsemu", "run", "--", str(client), str(DATA / "texture_client.ptx"), what]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(
    ("what", "printed"),
    [
        ("clamp", "0 0 0 0 0\n10 10 10"),
        ("linear", "0 0 0 0 0\n10.5 11.5 12.5"),
        ("wrap", "0 0 0 0 0\n11 11 11"),
        ("border", "0 0 0 0 0\n13 7 7"),
        ("bytes", "0 0 0 0 0\n0 1 0.2"),
        ("surface", "0 0 0 0 0\n100 1 2 10 100"),
    ],
)
def test_texels_are_those_of_a_gpu(client, what, printed):
    done = run(client, what)
    assert printed in done.stdout, done.stdout + done.stderr
    assert "1 kernel, 1 launch: 1 verified" in done.stdout
    assert done.returncode == 0


def test_texels_that_nothing_wrote_are_uninitialized(client):
    done = run(client, "unwritten")
    assert "error[uninitialized-read]" in done.stdout, done.stdout + done.stderr


def test_a_texture_that_is_destroyed_is_out_of_bounds(client):
    done = run(client, "destroyed")
    assert "error[out-of-bounds]" in done.stdout, done.stdout + done.stderr
    assert "0 0 0 0 700\n" in done.stdout
