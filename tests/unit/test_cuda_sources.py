"""`wsemu check kernel.cu`: the compiler, its flags, the cache, and launches in comments and files beside the kernel."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import wsemu
from tests import commands
from wsemu.app.own_launch import find_own
from wsemu.app.targets import find_targets
from wsemu.launch.ptx import nvcc
from wsemu.machine import cache
from wsemu.model.errors import UsageError

PTX = Path(__file__).resolve().parents[1] / "ptx" / "launching.sm_90.ptx"
ARGUMENTS = ("--arg", "f32[32]:ones", "--arg", "f32[32]:empty")
SOURCE = """\
// wsemu: launch --entry 'copied<2>' --grid 1 --block 32
//   --arg f32[32]:ones
//   --arg 'f32[32]:empty'
/* wsemu: launch --entry 'copied<3>' --grid=1 --block 64
 *   --arg f32[64]:ones --arg f32[64]:empty --nvcc -DREVERSED=1 */
#ifndef REVERSED
#define REVERSED 0
#endif
template <int K> __global__ void copied(const float *x, float *y)
{
    __shared__ float t[64];
    t[threadIdx.x] = x[threadIdx.x];
    y[threadIdx.x] = K * t[REVERSED ? 63 - threadIdx.x : threadIdx.x];
}
"""
needs_nvcc = pytest.mark.skipif(nvcc.find_nvcc() is None, reason="needs nvcc")


@pytest.fixture
def source(tmp_path, monkeypatch):
    """A file of a kernel template with two launches, and a cache of its own for PTX."""
    monkeypatch.setattr(cache, "folder", lambda: tmp_path / "cache")
    file = tmp_path / "copied.cu"
    file.write_text(SOURCE)
    return file


@pytest.fixture
def compiler(tmp_path, monkeypatch):
    """A stand-in for `nvcc`: it notes its words, writes the same PTX always, and depends on its input alone."""
    script, notes = tmp_path / "bin" / "nvcc", tmp_path / "notes"
    script.parent.mkdir()
    script.write_text(
        f"#!{sys.executable}\n"
        "import shutil, sys\n"
        "words = sys.argv[1:]\n"
        f"open({str(notes)!r}, 'a').write(' '.join(words) + chr(10))\n"
        f"shutil.copyfile({str(PTX)!r}, words[words.index('-o') + 1])\n"
        "open(words[words.index('-MF') + 1], 'w').write(f'made.ptx : {words[-1]}')\n"
    )
    script.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda name: str(script))
    return notes


def words(*arguments: object) -> str:
    """Return what a command that is wrong prints, on one line."""
    done = commands.wsemu(*arguments)
    assert done.returncode == 2
    return " ".join(done.stdout.split())


# -- the launches that a file describes --------------------------------------------------------------------------------
def test_comments_describe_launches(source):
    first, second = find_own(source, {})
    assert (first.entry, first.grid, first.block, first.arg) == ("copied<2>", "1", "32", ARGUMENTS[1::2])
    assert (second.entry, second.block, second.nvcc) == ("copied<3>", "64", ("-DREVERSED=1",))
    targets = find_targets(source.parent, [], {})
    assert [target.file for target in targets] == [source, source]
    (chosen,) = find_own(source, {"entry": "copied<3>", "grid": "2", "nvcc": ("-O1",)})
    assert (chosen.grid, chosen.nvcc) == ("2", ("-DREVERSED=1", "-O1"))
    assert find_own(source, {"entry": "another"}) == []


def test_a_file_beside_the_kernel(source):
    source.write_text("__global__ void alone() {}\n")
    assert find_own(source, {}) == []
    source.with_name("copied.launch.json").write_text(json.dumps({"grid": [3], "block": [32], "nvcc": "-I../include"}))
    (launch,) = find_own(source, {})
    assert launch.grid == "3"
    assert launch.nvcc == (f"-isystem {os.path.normpath(source.parent / '../include')}",)


@pytest.mark.parametrize(
    ("comment", "message"),
    [
        ("--grid x", "copied.cu:1: the launch in this comment: it cannot be read"),
        ("--gird 1", "`--gird` is no option of a launch"),
        ("--grid 1 --out o.npz", "`--out` is for the command line"),
        ("--grid 1 --arg 'f32", "its words cannot be split: no closing quotation"),
        ("--block 1", "`grid`"),
        ("--grid 1 --nvcc '-ccbin x'", "gives `nvcc` the flag `-ccbin`: give that on the command line"),
        ("--grid 1 --link ../a.ptx", "names a file outside of its folder"),
    ],
)
def test_wrong_comments(source, comment, message):
    source.write_text(f"// wsemu: launch {comment}\n")
    with pytest.raises(UsageError, match=re.escape(message)):
        find_own(source, {})


# -- the compiler ------------------------------------------------------------------------------------------------------
def test_without_a_compiler(source, monkeypatch):
    monkeypatch.setattr(nvcc, "find_nvcc", lambda: None)
    assert "`pip install nvidia-cuda-nvcc nvidia-cuda-cccl`" in words("check", source, "--entry", "copied<2>")


def test_the_compiler_of_a_toolkit_and_of_packages(tmp_path, monkeypatch):
    for place in ("toolkit/bin", "packages/nvidia/cu13/bin"):
        (tmp_path / place).mkdir(parents=True)
        shutil.copyfile(__file__, tmp_path / place / "nvcc")
        (tmp_path / place / "nvcc").chmod(0o755)
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path / "packages"))
    monkeypatch.delitem(sys.modules, "nvidia", raising=False)
    assert nvcc.find_nvcc() == str(tmp_path / "packages/nvidia/cu13/bin/nvcc")
    monkeypatch.setenv("CUDA_PATH", str(tmp_path / "toolkit"))
    assert nvcc.find_nvcc() == str(tmp_path / "toolkit/bin/nvcc")


def test_flags_and_the_cache(source, compiler):
    launch: tuple[object, ...] = ("--grid", 4, "--block", 32, "--arg", "f32[128]:random", "--arg", "f32[128]:arange")
    launch += ("--arg", "f32:2", "--arg", "i32:128", "--entry", "saxpy")
    for _ in range(2):
        assert commands.wsemu("check", source, *launch, "--nvcc", "-DA -DB=1").returncode == 0
    assert commands.wsemu("run", source, *launch, "--arch", "sm_80").returncode == 2
    assert commands.wsemu("run", source, *launch, "--nvcc", "-arch=sm_90").returncode == 0
    source.write_text(SOURCE + "// changed\n")
    assert commands.wsemu("check", source, *launch, "--nvcc", "-DA -DB=1").returncode == 0
    given = [line.split(" -MD ")[0] for line in compiler.read_text().splitlines()]
    first = "-ptx -lineinfo -arch=sm_90a -DA -DB=1"
    assert given == [first, "-ptx -lineinfo -arch=sm_80", "-ptx -lineinfo -arch=sm_90", first]


def test_names_of_templates(source):
    assert nvcc.find_templates(str(source)) == ["copied"]
    templates = "// template <int A> __global__ void no();\ntemplate <class T, int N>\n__global__ void\n"
    source.write_text(f"{templates}__launch_bounds__(64) yes(T *x) {{}}\n__global__ void plain() {{}}")
    assert nvcc.find_templates(str(source)) == ["yes"]


# -- nvcc itself -------------------------------------------------------------------------------------------------------
@needs_nvcc
def test_both_launches_of_a_file(source):
    done = commands.wsemu("check", source, "--fix-budget", 0)
    assert done.returncode == 1
    assert "copied<2>[grid 1, block 32]  verified" in done.stdout
    assert "copied.cu:13" in done.stdout
    assert "copied<3>[grid 1, block 64]  failed" in done.stdout
    traced = commands.wsemu("trace", source, "--entry", "copied<3>")
    assert "CTA 0, steps" in traced.stdout
    assert "has 2 launches: choose one by `--entry`" in words("trace", source)


@needs_nvcc
def test_a_witness_of_a_source(source, tmp_path):
    launch = ("--entry", "copied<3>", "--fix-budget", 0)
    assert commands.wsemu("check", source, *launch, "--save-witness", tmp_path).returncode == 1
    witness = next(tmp_path.glob("*-race.wsemu.json"))
    replayed = commands.wsemu("replay", witness, cwd=tmp_path)
    assert replayed.returncode == 1, replayed.stdout
    assert "before (1): " in replayed.stdout


@needs_nvcc
def test_errors_of_the_compiler(source):
    launch = ("--grid", 1, "--block", 32, *ARGUMENTS)
    done = commands.wsemu("check", source, *launch, "--entry", "copied<two>", cwd=source.parent)
    assert done.returncode == 2
    assert '--entry(1): error: identifier "two" is undefined' in done.stdout
    assert "`copied` is a template: give its arguments" in words("run", source, "--entry", "copied")
    source.write_text("__global__ void f(int *x) { x[0] = y; }\n")
    done = commands.wsemu("check", source, *launch, cwd=source.parent)
    assert done.returncode == 2
    assert 'copied.cu(1): error: identifier "y" is undefined' in done.stdout


@needs_nvcc
def test_from_python(source):
    module = wsemu.load_ptx(source, nvcc="-DREVERSED=0", entries=["copied<5>"])
    y = np.zeros(32, np.float32)
    assert wsemu.check(module["copied<5>"], 1, 32, (np.ones(32, np.float32), y)).verdict == "verified"
    assert (y == 5).all()
    with pytest.raises(wsemu.UsageError, match="`copied` is a template"):
        wsemu.load_ptx(source)["copied<4>"]


@needs_nvcc
def test_files_that_are_linked(source):
    source.write_text("extern __device__ float twice(float);\n__global__ void f(float *x) { *x = twice(*x); }\n")
    other = source.with_name("other.cu")
    other.write_text("__device__ float twice(float x) { return 2 * x; }\n")
    done = commands.wsemu("check", source, "--link", other, "--grid", 1, "--block", 1, "--arg", "f32[1]:ones")
    assert done.returncode == 0, done.stdout


HOST_PROGRAM = """\
// int main() in a comment does not count
#include <cstdio>
#include <cstdlib>
#ifndef FACTOR
#define FACTOR 2
#endif
__global__ void scale(float *x, int n) { if (threadIdx.x < n) x[threadIdx.x] *= FACTOR; }
int main(int count, char **words)
{
    float *d, h[32] = {1, 2, 3};
    cudaMalloc(&d, sizeof h);
    cudaMemcpy(d, h, sizeof h, cudaMemcpyHostToDevice);
    scale<<<1, 32>>>(d, count > 1 ? atoi(words[1]) : 32);
    cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost);
    printf("%g %g %g\\n", h[0], h[1], h[2]);
}
"""


@needs_nvcc
@pytest.mark.parametrize(
    ("words", "printed"),
    [
        ((), "2 4 6"),
        (("2",), "2 4 3"),
        (("2", "--nvcc", "-DFACTOR=5"), "5 10 3"),
        (("2", "--nvcc", "-arch=sm_90 -DFACTOR=5"), "5 10 3"),
        (("--", "1"), "2 2 3"),
    ],
)
def test_a_file_with_a_main_is_compiled_and_run_as_a_program(tmp_path, capfd, words, printed):
    file = tmp_path / "app.cu"
    file.write_text(HOST_PROGRAM)
    done = commands.wsemu("run", str(file), *words)
    assert done.returncode == 0, done.stdout
    assert "1 kernel, 1 launch: 1 verified" in done.stdout
    assert printed in capfd.readouterr().out


@needs_nvcc
def test_options_of_a_launch_run_one_kernel_of_a_file_with_a_main(tmp_path):
    file = tmp_path / "app.cu"
    file.write_text(HOST_PROGRAM)
    words = ("--grid", "1", "--block", "32", "--arg", "f32[32]:ones", "--arg", "i32:32")
    done = commands.wsemu("check", str(file), *words)
    assert "scale[grid 1, block 32]  verified" in done.stdout


@needs_nvcc
def test_a_program_that_does_not_compile_is_wrong_usage(tmp_path):
    file = tmp_path / "app.cu"
    file.write_text("int main() { syntax }")
    done = commands.wsemu("run", str(file))
    assert done.returncode == 2
    assert "`app.cu` does not compile" in done.stdout
