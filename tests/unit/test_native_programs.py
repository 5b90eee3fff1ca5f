"""Programs as they are, on the driver of wsemu: memory, errors, and how the command ends."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from wsemu.app.program_kind import find_command
from wsemu.model.errors import UsageError
from wsemu.native import fat_binary
from wsemu.native.build import find_libraries
from wsemu.native.compiler import find_compiler, find_platform_problem
from wsemu.native.images import Images

DATA = Path(__file__).resolve().parents[1] / "data"
PTX = DATA / "driver_client.ptx"
needs_driver = pytest.mark.skipif(
    bool(find_platform_problem()) or find_compiler() is None, reason="needs Linux on x86-64 and a C compiler"
)


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """The program of `driver_client.c`."""
    libraries, program = find_libraries(), tmp_path_factory.mktemp("client") / "client"
    source, driver = str(DATA / "driver_client.c"), str(libraries / "libcuda.so.1")
    subprocess.run([str(find_compiler()), "-w", source, driver, "-o", str(program)], check=True)
    return program


def run(client, *words):
    command = [sys.executable, "-m", "wsemu", "run", str(client), *words]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)


@needs_driver
@pytest.mark.parametrize(
    ("what", "printed"),
    [
        ("sums", "0 528"),
        ("managed", "0 32"),
        ("registered", "0 0\n0 32"),
        ("table", "0 7"),
        ("constant", "0 4 21"),
    ],
)
def test_a_program_computes_what_a_gpu_does(client, what, printed):
    done = run(client, str(PTX), what)
    assert f"load 0\n{printed}\n" in done.stdout
    assert "1 kernel, 1 launch: 1 verified" in done.stdout
    assert done.returncode == 0, done.stdout + done.stderr


@needs_driver
def test_freed_memory_is_reported_and_every_later_call_fails(client):
    done = run(client, str(PTX), "freed")
    assert "error[out-of-bounds]" in done.stdout
    assert "0 700\n" in done.stdout
    assert done.returncode == 1


@needs_driver
def test_memory_that_nothing_wrote_is_uninitialized(client):
    done = run(client, str(PTX), "unwritten")
    assert "error[uninitialized-read]" in done.stdout
    assert done.returncode == 1


@needs_driver
def test_wrong_calls_get_errors_of_cuda_and_the_program_continues(client):
    done = run(client, str(PTX), "errors")
    assert "1 1 1 1 1 1 400 400 0 1\n0 528\n" in done.stdout
    assert done.returncode == 0, done.stdout + done.stderr


@needs_driver
def test_a_crash_of_the_program_fails(client):
    done = run(client, str(PTX), "crash")
    assert "the program was ended by SIGSEGV" in done.stdout
    assert done.returncode == 1


@needs_driver
def test_nothing_stays_behind(client, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    tempfile.tempdir = None
    assert run(client, str(PTX), "sums").returncode == 0
    assert not list(tmp_path.glob("wsemu-*"))


@needs_driver
def test_json_has_every_launch(client):
    import json

    command = [sys.executable, "-m", "wsemu", "check", "--format", "json", str(client), str(PTX), "sums"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert json.loads(done.stdout)["verdicts"]["verified"] == 1
    assert "0 528" in done.stderr


def container(*entries):
    """A fat binary of (kind, target, flags, data)."""
    body = b""
    for kind, target, flags, data in entries:
        padded = data + bytes(-len(data) % 8)
        head = struct.pack(
            "<HHIQIIIIIIQQQ", kind, 0x101, 64, len(padded), 0, 0, 0x80000, target, 64, 0, flags, 0, len(data)
        )
        body += head + padded
    return struct.pack("<IHHQ", fat_binary.MAGIC, 1, 16, len(body)) + body


def ptx(target):
    return f".version 8.0\n.target sm_{target}\n.address_size 64\n".encode()


def test_a_fat_binary_gives_the_newest_ptx_that_the_device_runs(tmp_path):
    image = container((1, 75, 0, ptx(75)), (2, 90, 0, b"\x7fELF"), (1, 80, 0, ptx(80)), (1, 120, 0, ptx(120)))
    (text,) = Images(os.getpid(), tmp_path, 90).find_ptx(image)
    assert ".target sm_80" in text


def test_machine_code_alone_is_refused_with_the_line_that_mends_it(tmp_path):
    image = container((2, 90, 0, b"\x7fELF" + bytes(60)))
    with pytest.raises(UsageError, match="NVCC_APPEND_FLAGS"):
        Images(os.getpid(), tmp_path, 90).find_ptx(image)


def test_damaged_fat_binaries_end_in_an_error(tmp_path):
    image = container((1, 90, 0x8000, b"no zstd at all"))
    for end in range(16, len(image), 7):
        with pytest.raises(UsageError):
            Images(os.getpid(), tmp_path, 90).find_ptx(image[:end])


def test_what_runs_as_it_is(tmp_path):
    def kind(name, data):
        path = tmp_path / name
        path.write_bytes(data)
        return find_command(path, ["a"])

    assert kind("app", b"\x7fELF....") == [str(tmp_path / "app"), "a"]
    assert kind("script", b"#!/bin/sh\n") == [str(tmp_path / "script"), "a"]
    assert kind("train.py", b"import torch\nimport triton\n") == [sys.executable, str(tmp_path / "train.py"), "a"]
    assert kind("numba.py", b"import cupy\nfrom numba import cuda\n") is None
    assert kind("plain.py", b"from wsemu import cuda\n") is None
    assert kind("kernel.ptx", b".version 8.0\n") is None
