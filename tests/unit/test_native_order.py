"""Streams of programs as they are: launches, copies and frees that nothing orders are found, and no others."""

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
    """The program of `stream_client.c`."""
    libraries, program = find_libraries(), tmp_path_factory.mktemp("client") / "client"
    source, driver = str(DATA / "stream_client.c"), str(libraries / "libcuda.so.1")
    subprocess.run([str(find_compiler()), "-w", source, driver, "-o", str(program)], check=True)
    return program


def run(client, what, *options):
    command = [sys.executable, "-m", "wsemu", "run", *options, "--", str(client), str(DATA / "driver_client.ptx"), what]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)


def test_a_copy_of_pageable_memory_is_ordered_as_cuda_promises_if_that_is_strict(client):
    done = run(client, "uploaded", "--strict")
    assert "error[stream-race]" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize(("what", "races"), [("met", True), ("met in order", False)])
def test_a_verified_launch_whose_run_was_cut_off_may_access_what_its_instructions_can(client, what, races):
    done = run(client, what)
    assert "2 kernels, 2 launches: 2 verified" in done.stdout, done.stdout + done.stderr
    assert ("between launches  incomplete" in done.stdout) == ("write-after-write" in done.stdout) == races, done.stdout


@pytest.mark.parametrize(
    ("what", "code"),
    [
        ("race", "stream-race"), ("nonblocking", "stream-race"), ("early", "stream-race"), ("copied", "stream-race"),
        ("filled", "stream-race"), ("freed", "freed-in-use"), ("disjoint", ""), ("synchronized", ""), ("queried", ""),
        ("waited", ""), ("legacy", ""), ("kept", ""), ("uploaded", ""), ("called", ""),
        ("first", "stream-race"), ("first filled", "stream-race"), ("first waited", ""), ("first recorded", ""),
        ("first blocking", ""), ("first disjoint", ""), ("first per thread", "stream-race"),
        ("first synchronized", ""),
    ],
)  # fmt: skip
def test_what_no_stream_or_event_orders_is_found(client, what, code):
    done = run(client, what)
    assert done.returncode == bool(code), done.stdout + done.stderr
    assert done.stdout.count("error[") == bool(code), done.stdout
    assert f"error[{code}]" in done.stdout or not code
