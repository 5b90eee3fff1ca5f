"""`wsemu check`, `run` and `trace` of a PTX file, as a user runs them; how arguments are written."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests import commands
from wsemu.app.ptx_launch import Options, argument
from wsemu.model.errors import UsageError

FILE = Path(__file__).resolve().parents[1] / "ptx" / "launching.sm_90.ptx"
SAXPY = ("--entry", "saxpy", "--grid", "4", "--block", "32")
ARGUMENTS = ("--arg", "f32[128]:random", "--arg", "f32[128]:arange", "--arg", "f32:2", "--arg", "i32:128")


def wsemu(*arguments: object, cwd: Path | None = None, **environment: str) -> commands.Done:
    done = commands.wsemu(*arguments, cwd=cwd, **environment)
    assert "Traceback" not in done.stdout + done.stderr
    return done


def test_a_verified_launch_and_its_results(tmp_path):
    out = tmp_path / "results.npz"
    done = wsemu("check", FILE, *SAXPY, *ARGUMENTS, "--out", out)
    assert done.returncode == 0, done.stdout
    assert "saxpy[grid 4, block 32]  verified: deadlock-free and race-free in every schedule" in done.stdout
    assert done.stderr == ""
    with np.load(out) as results:
        assert results.files == ["arg0", "arg1"]
        assert np.array_equal(results["arg1"], 2 * results["arg0"] + np.arange(128, dtype=np.float32))
    again = tmp_path / "again.npz"
    assert wsemu("run", "--out", again, *SAXPY, *ARGUMENTS, FILE).stdout == "1 kernel, 1 launch: 1 verified\n"
    assert again.read_bytes() == out.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again.npz", "results.npz"]


def test_a_failed_launch(tmp_path):
    launch = ("--entry", "reverse", "--grid", 1, "--block", 64, "--arg", "i32[64]:empty")
    done = wsemu("check", FILE, *launch, "--save-witness", tmp_path)
    assert done.returncode == 1
    assert "error[race]: " in done.stdout
    assert "launching.cu:" in done.stdout
    assert "deep::inner::reverse[grid 1, block 64]  failed" in done.stdout
    witness = next(tmp_path.glob("*-race.wsemu.json"))
    assert json.loads(witness.read_text())["arguments"][:2] == ["--entry", "reverse"]
    replayed = wsemu("replay", "--program", FILE, witness)
    assert replayed.returncode == 1
    assert "before (1): " in replayed.stdout
    changed = tmp_path / "launching.sm_90.ptx"
    changed.write_text(FILE.read_text().replace("mov.u32 	%r5, 63;", "mov.u32 	%r5, 62;"))
    refused = wsemu("replay", "--program", changed, witness)
    assert refused.returncode == 2
    said = " ".join(refused.stdout.split())
    assert "not the launch of the witness: launching.sm_90.ptx:447 in `deep::inner::reverse` has changed" in said


def test_a_trace():
    launch = ("--entry", "reverse", "--grid", 1, "--block", 64, "--arg", "i32[64]:empty")
    done = wsemu("trace", FILE, *launch)
    assert done.returncode == 1
    assert "CTA 0, steps" in done.stdout


def test_an_incomplete_launch():
    launch = ("--entry", "turned", "--grid", 1, "--block", 32, "--dynamic-shared", 128, "--arg", "f32[32]:random")
    done = wsemu("check", FILE, *launch, "--arg", "i32:1")
    assert done.returncode == 3
    assert "`discard.global.L2`" in done.stdout
    assert wsemu("check", FILE, *launch, "--arg", "i32:0").returncode == 0


def test_formats():
    done = wsemu("check", FILE, *SAXPY, *ARGUMENTS, "--format", "json")
    assert json.loads(done.stdout)["reports"][0]["kernel"] == "saxpy"
    done = wsemu("check", "--format", "sarif", FILE, "--entry", "saxpy")
    assert done.returncode == 2
    assert "needs `--grid`" in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((FILE,), "has 11 kernels: `saxpy`"),
        ((FILE,), "; name one, on the command line with `--entry`"),
        ((FILE, "--entry", "saxpi"), "did you mean `saxpy`?"),
        ((FILE, "--entry", "saxpy"), "`saxpy` needs `--grid`, how many CTAs: `--grid 4` or `--grid 8,4`"),
        ((FILE, "--entry", "saxpy", "--grid", "4"), "needs `--block`, how many threads of a CTA: `--block 128`"),
        ((FILE, "--entry", "saxpy", "--grid", "x", "--block", "4"), "`--grid x` is no extent"),
        ((FILE, "--entry", "saxpy", "--grid", "1,2,3,4", "--block", "4"), "`--grid 1,2,3,4` is no extent"),
        ((FILE, "--entry", "saxpy", "--grid", "0", "--block", "4"), "is empty: every dimension needs 1 or more"),
        ((FILE, "--entry", "saxpy", "--grid", "1", "--block", "9999"), "block of 9,999 threads: at most 1,024"),
        ((FILE, *SAXPY, "--dynamic-shared", "1k"), "`--dynamic-shared 1k` is no number of bytes"),
        ((FILE, *SAXPY, "--dynamic-shared", "99999999"), "bytes of dynamic shared memory: at most"),
        ((FILE, *SAXPY, "--arg", "f32[8]"), "takes 4 arguments, not 1"),
        ((FILE, *SAXPY, *ARGUMENTS[:-1], "f64:3"), "argument `n`, .u32 in PTX, is np.float64(3.0)"),
        ((FILE, *SAXPY, "--out", "a.txt"), "`--out a.txt` is no .npz"),
        ((FILE, *SAXPY, "--out", "no/such/a.npz"), "cannot be written: no such folder"),
        ((FILE, "more", *SAXPY), "which is PTX and takes no words: give an argument as `--arg more`"),
        ((FILE, "--", *SAXPY), "which is PTX and takes no words: give options without a `--` before them"),
        ((FILE, "--arch", "sm_1", *SAXPY), "unknown arch 'sm_1'"),
        (
            ("none.ptx", *SAXPY),
            "`none.ptx` does not exist: give a Python file that launches kernels, CUDA C++ (.cu), PTX, an executable",
        ),
    ],
)
def test_wrong_usage(words, message, tmp_path):
    done = wsemu("check", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert message in " ".join(done.stdout.split())


def test_options_of_a_launch_are_for_ptx(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("import sys; print(sys.argv[1:])\n")
    done = wsemu("check", "--grid", 4, program)
    assert done.returncode == 2
    assert "`--grid` is for PTX and CUDA C++" in done.stdout
    done = wsemu("trace", "--entry", "k", program)
    assert done.returncode == 2
    assert "`--entry` is for PTX and CUDA C++" in done.stdout
    done = wsemu("check", program, "--grid", 4, "--out", "x")  # the program's own
    assert "['--grid', '4', '--out', 'x']" in done.stdout
    assert "warning" not in done.stdout
    assert wsemu("check", FILE, "--no-such-option").returncode == 2
    (tmp_path / "k.cuh").write_text("__global__ void k() {}\n")
    done = wsemu("check", tmp_path / "k.cuh")
    assert done.returncode == 2
    assert "give a Python file, CUDA C++ (.cu) or PTX (.ptx)" in " ".join(done.stdout.split())


def test_the_configuration_of_the_folder_holds(tmp_path):
    (tmp_path / "launching.ptx").write_text(FILE.read_text())
    (tmp_path / "pyproject.toml").write_text('[tool.wsemu]\nonly = ["deadlock"]\n')
    launch = ("--entry", "reverse", "--grid", 1, "--block", 64, "--arg", "i32[64]:zeros")
    done = wsemu("check", "launching.ptx", *launch, cwd=tmp_path)
    assert done.returncode == 0
    assert "looked for deadlock alone" in " ".join(done.stdout.split())


# -- the grammar of arguments ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("i32:7", np.int32(7)),
        ("s32:-7", np.int32(-7)),
        ("u64:0xff", np.uint64(255)),
        ("f32:1.5", np.float32(1.5)),
        ("f64:-1e-3", np.float64(-0.001)),
        ("f16:inf", np.float16(np.inf)),
        ("float32:2", np.float32(2)),
        ("bool:true", np.bool_(True)),
        ("u8:255", np.uint8(255)),
    ],
)
def test_numbers(text, value):
    made = argument(text)
    assert type(made) is type(value)
    assert made == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("f32[4]", np.zeros(4, np.float32)),
        ("f32[4]:zeros", np.zeros(4, np.float32)),
        ("i8[2,3]:ones", np.ones((2, 3), np.int8)),
        ("u16[2, 2]:arange", np.arange(4, dtype=np.uint16).reshape(2, 2)),
        ("f64[3]:0.25", np.full(3, 0.25)),
        ("i32[2]:-1", np.full(2, -1, np.int32)),
        ("i32[0]:ones", np.zeros(0, np.int32)),
        ("f32[5]:random:3", np.random.default_rng(3).random(5, np.float32)),
        ("i64[5]:random", np.random.default_rng(2).integers(0, 100, 5)),
    ],
)
def test_arrays(text, value):
    made = argument(text, 2)
    assert made.dtype == value.dtype
    assert np.array_equal(made, value)


def test_other_arguments(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.arange(6.0).reshape(2, 3))
    assert np.array_equal(argument("x.npy"), np.arange(6.0).reshape(2, 3))
    assert argument("f64[2,3]:x.npy").shape == (2, 3)
    assert argument("null") is None
    assert argument("bytes:00ff") == b"\0\xff"
    assert argument("f32[4]:empty").blank
    made = argument("{i32:7, {f32[2]:ones, u8:1}}")
    assert made[0] == 7
    assert made[1][0].tolist() == [1, 1]
    assert not np.array_equal(argument("f32[9]:random", 0), argument("f32[9]:random", 1))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is not understood: write TYPE:VALUE, TYPE[SHAPE]:FILL or FILE.npy"),
        ("7", "is not understood"),
        ("i32", "is not understood"),
        ("i32:", "`` is no int32"),
        ("i32:1.5", "`1.5` is no int32"),
        ("i32:4294967296", "an int32 is -2147483648 to 2147483647"),
        ("u8:-1", "an uint8 is 0 to 255"),
        ("int:7", "has the type `int`: the types are i8"),
        ("f32[]:zeros", "has the shape ``: give extents"),
        ("f32[-4]", "has the shape `-4`"),
        ("f32[4]:many", "no fill `many`; the fills are zeros, ones, arange, random"),
        ("f32[4]:random:x", "the seed `x` is no number"),
        ("f32[999999999999]", "bytes: at most 4,294,967,296"),
        ("f32[4]:none.npy", "`none.npy` cannot be read: No such file"),
        ("none.npy", "`none.npy` cannot be read"),
        ("bytes:0", "pairs of hexadecimal digits"),
        ("{i32:7", "lacks `}` at its end"),
        ("{i32:7]}", "its brackets do not match"),
        ("{}", "is not understood"),
        ("{" * 60 + "}" * 60, "at most 32"),
    ],
)
def test_arguments_that_are_refused(text, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as caught:
        argument(text)
    assert words in str(caught.value)


def test_files_that_hold_no_array(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("x.npy").write_bytes(b"\x93NUMPY\x01\x00v\x00{'descr'")
    with pytest.raises(UsageError, match=r"`x\.npy` is no array of numbers"):
        argument("x.npy")
    np.save("x.npy", np.zeros(3))
    with pytest.raises(UsageError, match=r"the file has an array float64\[3\]"):
        argument("f32[3]:x.npy")
    np.save("x.npy", np.array([{}]), allow_pickle=True)
    with pytest.raises(UsageError, match=r"`x\.npy` is no array of numbers"):
        argument("x.npy")


def test_options_are_written_and_read():
    options = Options("k", "4", "8,2", ("i32:1", "f32[4]"), "64", "r.npz")
    assert Options.read(options.words()) == options
    assert Options().words() == []
    with pytest.raises(UsageError, match="`--bad` is no option of a launch"):
        Options.read(["--bad", "1"])


def test_a_page_has_the_values_of_arguments_in_their_types(tmp_path):
    """`a` is declared as f32: the page has its value, and not its bits."""
    page = tmp_path / "page.html"
    assert wsemu("trace", FILE, *SAXPY, *ARGUMENTS, "-o", page).returncode == 0
    text = page.read_text(encoding="utf-8")
    assert "(f32)</dt><dd><code>2.0</code>" in text
    assert "1073741824" not in text
