"""Launch files: `wsemu check kernel.ptx --like launch.json`, a folder of them, and launches that are recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import wsemu
from wsemu.app.command_line import app
from wsemu.app.launch_file import LaunchFile
from wsemu.model.errors import UsageError

PTX = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry add(.param .u64 x, .param .u32 n, .param .f32 a)
{
.reg .b32 %r<4>; .reg .b64 %d<4>; .reg .f32 %f<4>; .reg .pred %p;
mov.u32 %r0, %tid.x; ld.param.u32 %r1, [n]; setp.ge.u32 %p, %r0, %r1; @%p exit;
ld.param.u64 %d0, [x]; mul.wide.u32 %d1, %r0, 4; add.u64 %d0, %d0, %d1; ld.param.f32 %f1, [a];
ld.global.f32 %f0, [%d0]; add.rn.f32 %f0, %f0, %f1; st.global.f32 [%d0], %f0;
ret;
}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "add.ptx").write_text(PTX, encoding="utf-8")
    np.save(tmp_path / "x.npy", np.arange(32, dtype=np.float32))
    launch(tmp_path, "right", n=32)
    return tmp_path


def launch(folder: Path, name: str, n: int, **more: Any) -> Path:
    file = folder / f"{name}.json"
    said = {"ptx": "add.ptx", "entry": "add", "grid": [1], "block": [64], "args": ["x.npy", f"u32:{n}", "f32:2"]}
    file.write_text(json.dumps(said | more), encoding="utf-8")
    return file


def run(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["check", *map(str, words)])
    return done.exit_code, done.output


def test_a_launch_like_that_of_a_file(folder: Path) -> None:
    code, said = run(folder / "add.ptx", "--like", folder / "right.json", "--out", folder / "out.npz")
    assert code == 0, said
    with np.load(folder / "out.npz") as out:
        assert np.array_equal(out["arg0"], np.arange(32, dtype=np.float32) + 2)
    assert run(folder / "add.ptx", "--like", folder / "right.json", "--block", "32")[0] == 0
    assert run(folder / "right.json")[0] == 0


def test_the_block_is_that_of_the_ptx_where_none_is_given(folder: Path) -> None:
    words = ["--grid", "1", "--arg", folder / "x.npy", "--arg", "u32:32", "--arg", "f32:2"]
    assert run(folder / "add.ptx", *words)[0] == 2
    for name in ("maxntid", "reqntid"):
        bounded = PTX.replace(".param .f32 a)\n", f".param .f32 a)\n.{name} 32, 1, 1\n")
        (folder / f"{name}.ptx").write_text(bounded, encoding="utf-8")
        code, said = run(folder / f"{name}.ptx", *words)
        assert code == 0, said
        assert "block 32" in said


def test_a_folder_is_checked_whole(folder: Path) -> None:
    launch(folder, "too_far", n=48)
    code, said = run(folder)
    assert code == 1
    assert "out-of-bounds" in said
    assert "verified" in said
    code, said = run("--format", "sarif", folder)
    assert code == 1
    assert {result["ruleId"] for result in json.loads(said)["runs"][0]["results"]} == {"out-of-bounds"}


def test_from_python(folder: Path) -> None:
    assert wsemu.check_like(folder / "right.json").verdict == "verified"
    without = launch(folder, "without", n=32, ptx="")
    assert wsemu.check_like(without, folder / "add.ptx", engine="reference").verdict == "verified"


def test_a_recorded_launch_is_made_again(tmp_path: Path) -> None:
    given = np.ones(32, np.float32), np.uint32(32), np.float32(3)
    wsemu.save_launch(tmp_path / "again.json", PTX, "add", 1, (32,), given)
    assert run(tmp_path / "again.json")[0] == 0
    assert LaunchFile.read(tmp_path / "again.json").args == ("again.0.npy", "u32:32", "f32:3.0")


def test_a_recorded_tensor_map(tmp_path: Path) -> None:
    x = np.zeros((64, 64), np.float16)
    map_ = wsemu.TensorMap(x, [8, 64], swizzle="128B", fill="nan")
    wsemu.save_launch(tmp_path / "m.json", PTX, "add", 1, 32, [map_, (np.int32(1), x, None), b"\1"])
    from wsemu.app.ptx_launch import argument

    (text, structure, raw) = LaunchFile.read(tmp_path / "m.json").args
    again = argument(text.replace("m.0.npy", str(tmp_path / "m.0.npy")))
    assert again.fields == map_.fields
    assert structure == "{i32:1, m.1.npy, null}"
    assert raw == "bytes:01"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"gird": [1]}, "`gird`: Extra inputs"),
        ({"grid": []}, "`grid`"),
        ({"block": "x"}, "`block`"),
        ({"ptx": ""}, "names no PTX"),
        ({"args": ["x.npy", "u33:1", "f32:1"]}, "the type `u33`"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(folder: Path, more: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        wsemu.check_like(launch(folder, "bad", n=1, **more))
    assert run(folder / "bad.json")[0] == 2


def test_the_schema_describes_each_field() -> None:
    schema = LaunchFile.model_json_schema()
    assert set(schema["properties"]) == {"ptx", "entry", "grid", "block", "dynamic_shared", "args"}
    assert all("description" in field for field in schema["properties"].values())
