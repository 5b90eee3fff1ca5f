"""`record_launch`: launch files of what compilers made, and a folder of them as a gate."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import wsemu
from wsemu.app.command_line import app
from wsemu.app.launch_file import LaunchFile
from wsemu.model.errors import UsageError

PTX = Path(__file__).parents[1] / "ptx"
ADD = (PTX / "triton_add.sm_90.ptx").read_text(encoding="utf-8")
SCALE = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry scale(.param .u64 x, .param .u32 n, .param .f32 a) .maxntid 64
{
.reg .b32 %r<4>; .reg .b64 %d<4>; .reg .f32 %f<4>; .reg .pred %p;
mov.u32 %r0, %tid.x; ld.param.u32 %r1, [n]; setp.ge.u32 %p, %r0, %r1; @%p exit;
ld.param.u64 %d0, [x]; mul.wide.u32 %d1, %r0, 4; add.u64 %d0, %d0, %d1; ld.param.f32 %f1, [a];
ld.global.f32 %f0, [%d0]; mul.rn.f32 %f0, %f0, %f1; st.global.f32 [%d0], %f0;
ret;
}
"""


def triton_add(**told: Any) -> Any:
    """What `triton.compile` gives of `tests/ptx/triton_kernels.py`."""
    signature = {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"}
    metadata = SimpleNamespace(**{"name": "add", "num_warps": 4, "shared": 0, "num_ctas": 1} | told)
    return SimpleNamespace(asm={"ptx": ADD}, metadata=metadata, src=SimpleNamespace(signature=signature))


def floats(n: int) -> Any:
    return np.arange(n, dtype=np.float32)


@pytest.mark.parametrize("by_name", [True, False])
def test_triton_drops_constants_and_passes_what_its_runtime_would(tmp_path: Path, by_name: bool) -> None:
    given = {"x": floats(512), "y": floats(512), "out": np.zeros(512, np.float32), "n": 500, "BLOCK": 256}
    wsemu.record_launch(tmp_path / "add.json", triton_add(), 2, given if by_name else list(given.values()))
    launch = LaunchFile.read(tmp_path / "add.json")
    assert (launch.entry, launch.grid, launch.block) == ("add", (2,), (128,))
    assert launch.args[3:] == ("i32:500", "null", "null")
    report = wsemu.check_like(tmp_path / "add.json")
    assert (report.verdict, report.findings) == ("verified", [])


def test_triton_counts_clusters_and_a_file_has_their_size(tmp_path: Path) -> None:
    given = {"x": floats(512), "y": floats(512), "out": floats(512), "n": 512}
    wsemu.record_launch(tmp_path / "add.json", triton_add(num_ctas=2), (1, 1, 1), given)
    launch = LaunchFile.read(tmp_path / "add.json")
    assert (launch.grid, launch.cluster) == ((2, 1, 1), (2, 1, 1))
    assert wsemu.check_like(tmp_path / "add.json").verdict == "verified"
    done = CliRunner().invoke(app, ["check", str(tmp_path / "add.json")])
    assert done.exit_code == 0, done.output


def test_an_object_of_cuda_core_and_its_launch_configuration(tmp_path: Path) -> None:
    core = pytest.importorskip("cuda.core")
    made = core.ObjectCode.from_ptx(SCALE.encode(), name="scale")
    config = core.LaunchConfig(grid=1, block=32, shmem_size=16)
    wsemu.record_launch(tmp_path / "scale.json", made, config, [floats(32), 32, 2.0], entry="scale")
    launch = LaunchFile.read(tmp_path / "scale.json")
    assert (launch.grid, launch.block, launch.dynamic_shared) == ((1, 1, 1), (32, 1, 1), 16)
    assert launch.args[1:] == ("i32:32", "f32:2.0")
    assert wsemu.check_like(tmp_path / "scale.json").verdict == "verified"


@pytest.mark.parametrize(
    "made",
    [SimpleNamespace(__ptx__=SCALE), SimpleNamespace(_get_ptx=lambda: SCALE), SCALE],
    ids=["cute", "tile", "text"],
)
def test_ptx_of_other_compilers_takes_its_block_from_the_ptx(tmp_path: Path, made: Any) -> None:
    wsemu.record_launch(tmp_path / "scale.json", made, 1, [floats(64), 64, 2.0])
    assert LaunchFile.read(tmp_path / "scale.json").block[0] == 64
    assert wsemu.check_like(tmp_path / "scale.json").verdict == "verified"


def test_arrays_of_other_libraries_are_copied(tmp_path: Path) -> None:
    tensor = SimpleNamespace(dtype="torch.float32", numpy=lambda: floats(8))
    tensor.detach = lambda: SimpleNamespace(cpu=lambda: tensor)
    for n, array in enumerate([tensor, SimpleNamespace(get=lambda: floats(8)), [float(x) for x in range(8)]]):
        wsemu.record_launch(tmp_path / f"{n}.json", SCALE, 1, [array, 8, 2.0])
        assert np.array_equal(np.load(tmp_path / f"{n}.0.npy"), floats(8))


@pytest.mark.parametrize(
    ("made", "given", "message"),
    [
        (SimpleNamespace(code_type="cubin"), [], "a SimpleNamespace has no PTX: give a compiled kernel"),
        (SCALE, [1, 2], "2 arguments for 3 parameters: give one for each"),
        (SCALE, {"x": 1}, "does not say how parameters are called"),
        (SCALE, [1, 2, 3, 4], "4 arguments for 3 parameters"),
        (SCALE.replace(".maxntid 64", ""), [floats(1), 1, 1.0], "`scale` does not say how many threads"),
        (SCALE, [object(), 1, 1.0], "an argument of type object is no array"),
        (triton_add(), {"x": floats(8)}, "args has no `y`: the kernel takes x, y, out, n"),
    ],
)
def test_what_is_missing_is_said(tmp_path: Path, made: Any, given: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        wsemu.record_launch(tmp_path / "scale.json", made, 1, given)


def test_a_folder_of_recorded_launches_is_a_gate(tmp_path: Path) -> None:
    given = {"x": floats(256), "y": floats(256), "out": floats(256), "n": 256}
    wsemu.record_launch(tmp_path / "right.json", triton_add(), 1, given)
    gate = ["check", "--format", "sarif", str(tmp_path)]
    assert CliRunner().invoke(app, gate).exit_code == 0
    wsemu.record_launch(tmp_path / "short.json", triton_add(), 1, {**given, "y": floats(200)})
    done = CliRunner().invoke(app, gate)
    assert done.exit_code == 1
    said = json.loads(done.output)
    assert {result["ruleId"] for run in said["runs"] for result in run["results"]} == {"out-of-bounds"}
