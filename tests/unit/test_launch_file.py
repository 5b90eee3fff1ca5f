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


def test_numbers_of_python_are_written_as_the_kernel_takes_them(tmp_path: Path) -> None:
    wsemu.save_launch(tmp_path / "again.json", PTX, "add", 1, (32,), (np.ones(32, np.float32), 32, 3))
    assert run(tmp_path / "again.json")[0] == 0
    assert LaunchFile.read(tmp_path / "again.json").args == ("again.0.npy", "u32:32", "f32:3.0")


def test_no_number_is_cut_where_it_is_written(tmp_path: Path) -> None:
    wsemu.save_launch(tmp_path / "again.json", PTX, "add", 1, (32,), (np.ones(32, np.float32), 32.5, -1))
    assert LaunchFile.read(tmp_path / "again.json").args == ("again.0.npy", "f64:32.5", "f32:-1.0")
    code, said = run(tmp_path / "again.json")
    assert code == 2
    assert "argument `n`, .u32 in PTX" in said


def test_a_recorded_tensor_map(tmp_path: Path) -> None:
    x = np.zeros((64, 64), np.float16)
    map_ = wsemu.TensorMap(x, [8, 64], swizzle="128B", fill="nan")
    wsemu.save_launch(tmp_path / "m.json", PTX, "add", 1, 32, [map_, (np.int32(1), x, None), b"\1"])
    from wsemu.app.ptx_launch import argument

    (text, structure, raw) = LaunchFile.read(tmp_path / "m.json").args
    again = argument(text.replace("m.0.npy", str(tmp_path / "m.0.npy")))
    assert again.fields == map_.fields
    assert structure == "{i32:1, same:0, null}"
    assert raw == "bytes:01"


def test_a_recorded_texture(tmp_path: Path) -> None:
    x = np.zeros((8, 8, 4), np.float32)
    made = wsemu.Texture(
        x, channels=4, filter="linear", address=("wrap", "clamp"), normalized=True, border=(0, 0, 0, 1)
    )
    wsemu.save_launch(tmp_path / "t.json", PTX, "add", 1, 32, [made, wsemu.Surface(x, channels=4), (x, np.int32(1))])
    texts = LaunchFile.read(tmp_path / "t.json").args
    from wsemu.app.ptx_launch import parse_arguments

    again, surface, structure = parse_arguments(text.replace("t.0.npy", str(tmp_path / "t.0.npy")) for text in texts)
    assert [str(word) for word in again.held()[1:]] == [str(word) for word in made.held()[1:]]
    assert surface.array is again.array is structure[0]


@pytest.mark.parametrize("text", ["tex(f32[8,8], filter=cubic)", "tex(f32[8,8]", "surf(i32:1)", "tex(f32[8], border=1)",
                                  "tex(f32[8], normalized=yes)", "surf(f32[8], filter=linear)"])  # fmt: skip
def test_what_is_wrong_with_a_texture_is_said(text: str) -> None:
    from wsemu.app.ptx_launch import argument

    with pytest.raises(UsageError, match=r"write `(tex|surf)\(|one of point, linear"):
        argument(text)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"gird": [1]}, r"bad\.json` has no key `gird`: did you mean `grid`\?$"),
        ({"grid": []}, "`grid` has 0 items: give 1 or more$"),
        ({"grid": [1, 2, 3, 4]}, "`grid` has 4 items: give 3 or fewer$"),
        ({"grid": [1, "x"]}, r'`grid\[1\]` is "x": give an integer$'),
        ({"grid": [1.5]}, r"`grid\[0\]` is 1\.5: give an integer$"),
        ({"block": "x"}, '`block` is "x": give a list$'),
        ({"args": [3]}, r"`args\[0\]` is 3: give a string$"),
        ({"set": {"a": None}}, "`set.a` is null: give a string$"),
        ({"dynamic_shared": -1}, "`dynamic_shared` is -1: give 0 or more$"),
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
    names = {"$schema", "ptx", "entry", "grid", "block", "dynamic_shared", "cluster", "args", "set", "link"}
    names |= {"memory", "variables", "nvcc", "expect"}
    assert set(schema["properties"]) == names
    assert all("description" in field for field in schema["properties"].values())


SCALED = """
.version 8.0
.target sm_90
.address_size 64
.extern .const .align 4 .b8 scales[];
.visible .global .align 4 .u32 launches = 3;
.extern .func (.param .b32 r) twice(.param .b32 x);
.visible .entry scaled(.param .u64 x)
.explicitcluster
.reqntid 32
{
.reg .b32 %r<9>; .reg .b64 %d<4>; .reg .f32 %f<4>;
mov.u32 %r0, %tid.x; ld.param.u64 %d0, [x]; mul.wide.u32 %d1, %r0, 4; add.u64 %d0, %d0, %d1;
mov.u64 %d2, scales; add.u64 %d2, %d2, %d1; ld.const.f32 %f0, [%d2];
ld.global.u32 %r1, [launches]; cvt.rn.f32.u32 %f1, %r1; add.rn.f32 %f0, %f0, %f1;
{ .param .b32 a; .param .b32 r; st.param.f32 [a], %f0; call (r), twice, (a); ld.param.f32 %f0, [r]; }
mov.u32 %r2, %cluster_nctaid.x; mov.u32 %r3, %ctaid.x;
{ .reg .pred %p; setp.ne.u32 %p, %r3, 0; @%p exit; }
cvt.rn.f32.u32 %f2, %r2; add.rn.f32 %f0, %f0, %f2;
st.global.f32 [%d0], %f0;
ret;
}
"""
MORE = """
.version 8.0
.target sm_90
.address_size 64
.visible .const .align 4 .b8 scales[128];
.weak .func (.param .b32 r) twice(.param .b32 x)
{ .reg .f32 %f; ld.param.f32 %f, [x]; add.rn.f32 %f, %f, %f; st.param.f32 [r], %f; ret; }
"""


def scaled(folder: Path, **more: Any) -> Path:
    (folder / "scaled.ptx").write_text(SCALED, encoding="utf-8")
    (folder / "more.ptx").write_text(MORE, encoding="utf-8")
    np.save(folder / "scales.npy", np.arange(32, dtype=np.float32))
    said: dict[str, Any] = {"ptx": "scaled.ptx", "grid": [2], "args": ["f32[32]:0"], "link": ["more.ptx"]}
    said |= {"cluster": [2], "set": {"scales": "scales.npy", "launches": "u32:7"}}
    file = folder / "scaled.json"
    file.write_text(json.dumps(said | more), encoding="utf-8")
    return file


def test_values_of_variables_clusters_and_several_files(tmp_path: Path) -> None:
    file = scaled(tmp_path)
    code, said = run(tmp_path / "scaled.ptx", "--like", file, "--out", tmp_path / "out.npz")
    assert code == 0, said
    with np.load(tmp_path / "out.npz") as out:
        assert np.array_equal(out["arg0"], 2 * (np.arange(32, dtype=np.float32) + 7) + 2)
    assert wsemu.check_like(file).verdict == "verified"
    assert wsemu.check_like(file, engine="reference").verdict == "verified"
    words = ["--grid", "2", "--cluster", "2", "--arg", "f32[32]:0", "--link", tmp_path / "more.ptx"]
    assert run(tmp_path / "scaled.ptx", *words, "--set", "scales=f32[32]:1", "--set", "launches=u32:1")[0] == 0


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"set": {"scale": "f32:1"}}, "no variable `scale` to set: did you mean `scales`"),
        ({"set": {"scales": "f32[3]:1"}}, "`scales`, a variable of 128 bytes, is set to float32.3., of 12"),
        ({"set": {"launches": "u33:1"}}, "`--set launches=u33:1` has the type `u33`"),
        ({"set": {"launches": "f32:1"}}, "`launches`, a variable of 4 bytes, is"),
        ({"link": ["nowhere.ptx"]}, "nowhere.ptx` cannot be read"),
        ({"cluster": [3]}, "cluster"),
        ({"cluster": []}, "explicitcluster"),
        ({"link": ["more.ptx", "scaled.ptx"]}, "`scaled` is defined in scaled.ptx:8, too"),
    ],
)
def test_what_is_wrong_with_values_and_files_is_said(tmp_path: Path, more: dict[str, Any], said: str) -> None:
    with pytest.raises((UsageError, wsemu.KernelError), match=said):
        wsemu.check_like(scaled(tmp_path, **more))


def test_what_no_file_defines_is_named(tmp_path: Path) -> None:
    report = wsemu.check_like(scaled(tmp_path, link=[], set={}))
    assert report.verdict == "incomplete"
    assert "`scales`, which is defined elsewhere, is not modelled" in str(report.notes)


def test_an_array_that_is_a_variable_is_used_in_place() -> None:
    kernel = wsemu.load_ptx(SCALED, MORE)["scaled"]
    scales, launches, x = np.ones(32, np.float32), np.array(1, np.uint32), np.zeros(32, np.float32)
    kernel.set(scales=scales, launches=launches)
    for n in range(2):
        scales[:] = n
        assert wsemu.check(kernel, 2, 32, (x,), cluster=2).verdict == "verified"
        assert (x == 2 * (n + 1) + 2).all()


POINTERS = """
.version 8.0
.target sm_90
.address_size 64
.visible .global .align 8 .u64 from;
.visible .const .align 8 .b8 both[16];
.visible .entry k()
{
.reg .b32 %r<3>; .reg .b64 %d<6>;
mov.u32 %r0, %tid.x; mul.wide.u32 %d1, %r0, 4;
ld.global.u64 %d0, [from]; add.u64 %d0, %d0, %d1; ld.u32 %r1, [%d0];
ld.const.u32 %r2, [both+8]; add.u32 %r1, %r1, %r2;
ld.const.u64 %d3, [both]; add.u64 %d3, %d3, %d1; st.u32 [%d3], %r1;
ret;
}
"""


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_a_pointer_is_set_to_an_array(engine: Any) -> None:
    module = wsemu.load_ptx(POINTERS)
    x, y = np.arange(32, dtype=np.uint32), np.zeros(32, np.uint32)
    module.set({"from": x}, both=(y, np.uint32(5)))
    assert wsemu.check(module.only(), 1, 32, (), engine=engine).verdict == "verified"
    assert np.array_equal(y, x + 5)
    module.set({"from": x[:20]})
    report = wsemu.check(module.only(), 1, 32, (), engine=engine)
    assert {finding.code for finding in report.errors} == {"out-of-bounds"}
    module.set({"from": y})  # which the launch writes
    assert wsemu.check(module.only(), 1, 32, (), engine=engine).verdict == "verified"


GATHER = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry gather(.param .u64 tables, .param .u64 out)
{
.reg .b32 %r<4>; .reg .b64 %d<9>; .reg .f32 %f<4>;
ld.param.u64 %d1, [tables]; ld.param.u64 %d2, [out]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x;
mul.wide.u32 %d3, %r2, 8; add.u64 %d1, %d1, %d3; ld.global.u64 %d5, [%d1];
mul.wide.u32 %d6, %r1, 4; add.u64 %d5, %d5, %d6; ld.global.f32 %f1, [%d5];
mul.wide.u32 %d3, %r2, 128; add.u64 %d2, %d2, %d3; add.u64 %d2, %d2, %d6; st.global.f32 [%d2], %f1;
ret;
}
"""
"""row i of `out` is what pointer i of a table points to: an argument of grouped GEMMs"""


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_a_list_is_memory_with_pointers(engine: Any) -> None:
    kernel = wsemu.load_ptx(GATHER).only()
    a, b, out = np.arange(32, dtype=np.float32), np.ones(32, np.float32), np.zeros((3, 32), np.float32)
    assert wsemu.check(kernel, 3, 32, ([a, b, a], out), engine=engine).verdict == "verified"
    assert np.array_equal(out, [a, b, a])
    outside = wsemu.check(kernel, 3, 32, ([a, b[:16], a], out), engine=engine)
    assert [finding.message for finding in outside.findings] == ["load of 4 bytes outside `tables[1]`"]
    racing = wsemu.check(kernel, 3, 32, ([a, out[0], a], out), engine=engine)
    assert "race" in {finding.code for finding in racing.findings}
    short = wsemu.check(kernel, 3, 32, ([a, b], out), engine=engine)
    assert short.findings[0].message == "load of 8 bytes outside `tables`"


def test_lists_hold_structures_numbers_and_maps() -> None:
    kernel = wsemu.load_ptx(GATHER).only()
    a, out = np.arange(32, dtype=np.float32), np.zeros((2, 32), np.float32)
    assert wsemu.check(kernel, 2, 32, ([(a,), (a, np.int32(3))], out)).verdict == "verified"
    map_ = wsemu.TensorMap(np.zeros((8, 32), np.float32), [8, 32])
    assert wsemu.check(kernel, 1, 32, ([a, map_, np.int32(7), None, [a, a]], out)).verdict == "verified"
    with pytest.raises(UsageError, match="an empty list"):
        wsemu.check(kernel, 1, 32, ([], out))
    with pytest.raises(UsageError, match="has a field"):
        wsemu.check(kernel, 1, 32, ([7], out))


def test_arrays_share_memory_in_a_launch_file_as_they_did(tmp_path: Path) -> None:
    x = np.arange(96, dtype=np.float32).reshape(3, 32)
    wsemu.save_launch(tmp_path / "t.json", GATHER, "gather", 3, 32, [[x, x, x.copy()], np.zeros((3, 32), np.float32)])
    assert LaunchFile.read(tmp_path / "t.json").args == ("[t.0.npy, same:0.0, t.1.npy]", "t.2.npy")
    assert wsemu.check_like(tmp_path / "t.json").verdict == "verified"
    wsemu.save_launch(tmp_path / "t.json", GATHER, "gather", 2, 32, [[x[1], x[2]], x])
    given = tuple(LaunchFile.read(tmp_path / "t.json").args)
    assert (
        given[0]
        == "[view(t.0.npy, f32[32], offset=128, strides=[4]), view(same:0.0, f32[32], offset=256, strides=[4])]"
    )
    assert {finding.code for finding in wsemu.check_like(tmp_path / "t.json").findings} == {"race"}


def test_a_map_of_a_part_of_an_array_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from wsemu.app.ptx_launch import parse_arguments

    monkeypatch.chdir(tmp_path)
    part = np.zeros((8, 64), np.float32)[2::2, 16:48]
    map_ = wsemu.TensorMap(part, [2, 32])
    wsemu.save_launch("m.json", PTX, "add", 1, 32, [map_, np.uint32(1), part])
    again, _, other = parse_arguments(LaunchFile.read(Path("m.json")).args)
    assert (again.fields, again.array.strides) == (map_.fields, part.strides)
    assert np.shares_memory(again.array, other)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("same:3", "no such array was given before; there is same:0"),
        ("view(same:0)", "a view has an array, and a type with a shape"),
        ("view(same:0, f32[33])", "does not lie in the 128 bytes"),
        ("view(same:0, f32[2,4], offset=96, strides=[32,4])", "does not lie in the 128 bytes"),
        ("view(same:0, f32[4], start=3)", "no option `start=3`"),
        ("[f32[4]:ones", "lacks `]` at its end"),
    ],
)
def test_what_is_wrong_with_a_part_of_memory_is_said(text: str, said: str) -> None:
    from wsemu.app.ptx_launch import parse_arguments

    with pytest.raises(UsageError) as caught:
        parse_arguments(["f32[32]:ones", text])
    assert said in str(caught.value)
