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
    assert tuple(launch.args)[3:] == ("i32:500", "null", "null")
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
    assert tuple(launch.args)[1:] == ("i32:32", "f32:2.0")
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


COPIED = """
.version 8.6
.target sm_90a
.address_size 64
.extern .shared .align 16 .b8 global_smem[];
.visible .entry copied(
    .param .align 64 .b8 copied_param_0[128], .param .u32 copied_param_1, .param .u32 copied_param_2,
    .param .u64 copied_param_3, .param .u64 copied_param_4, .param .u64 .ptr .global .align 16 copied_param_5,
    .param .u64 .ptr .global .align 1 copied_param_6, .param .u64 .ptr .global .align 1 copied_param_7)
.reqntid 32
{
.reg .pred %p<3>; .reg .b32 %r<8>; .reg .b64 %rd<8>;
mov.b32 %r1, copied_param_0; cvt.u64.u32 %rd1, %r1; cvta.param.u64 %rd2, %rd1; mov.b32 %r2, global_smem;
mov.u32 %r3, %tid.x; setp.ne.b32 %p1, %r3, 0; add.s32 %r4, %r2, 1024; @%p1 bra WAIT;
mbarrier.init.shared::cta.b64 [%r4], 1; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], 128; mov.b32 %r5, 0;
cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r2], [%rd2, {%r5, %r5}], [%r4];
WAIT: bar.sync 0;
TRY: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r4], 0; @!%p2 bra TRY;
shl.b32 %r6, %r3, 2; add.s32 %r2, %r2, %r6; ld.shared.b32 %r7, [%r2]; ld.param.u64 %rd3, [copied_param_5];
mul.wide.u32 %rd4, %r3, 4; add.u64 %rd3, %rd3, %rd4; st.global.b32 [%rd3], %r7; ld.param.u64 %rd5, [copied_param_6];
add.u64 %rd5, %rd5, %rd4; st.global.b32 [%rd5], %r7;
ret;
}
"""


def test_a_descriptor_of_triton_is_a_tensor_map_with_its_shape_and_strides(tmp_path: Path) -> None:
    """Its base may have another shape; the memory that the runtime brings for each CTA is there."""
    told = {"swizzle": 0, "elem_size": 4, "elem_type": 7, "block_size": [2, 16], "fp4_padded": False}
    metadata = {"name": "copied", "num_warps": 4, "shared": 1032, "num_ctas": 1, "tensordesc_meta": [told]}
    signature = {"x": "tensordesc<fp32[2, 16]>", "out": "*fp32", "N": "constexpr"}
    made = SimpleNamespace(
        asm={"ptx": COPIED}, metadata=SimpleNamespace(**metadata, global_scratch_size=128),
        src=SimpleNamespace(signature=signature),
    )  # fmt: skip
    described = SimpleNamespace(
        base=floats(64).reshape(2, 2, 16), shape=[4, 16], strides=[16, 1], block_shape=[2, 16], padding="zero"
    )
    wsemu.record_launch(tmp_path / "copied.json", made, 1, {"x": described, "out": floats(32), "N": 16})
    launch = LaunchFile.read(tmp_path / "copied.json")
    assert launch.block == (32,)
    assert tuple(launch.args)[1:5] == ("i32:4", "i32:16", "i64:16", "i64:1")
    assert np.load(tmp_path / tuple(launch.args)[6]).nbytes == 128
    report = wsemu.check_like(tmp_path / "copied.json")
    assert report.verdict == "verified", report


def test_a_descriptor_without_a_map_is_a_pointer_with_shape_and_strides() -> None:
    from wsemu.app.recording import _flat

    x = floats(32).reshape(2, 16)
    described = SimpleNamespace(base=x, shape=[2, 16], strides=[16, 1], padding="nan", round_f32_to_tf32=False)
    assert _flat(described, "tensordesc<fp32[2, 16]>", iter(())) == [x, 2, 16, 16, 1, True, False, 2, 16, 16, 1]
    assert _flat((1, 2, (x, 3)), ("i32", "constexpr", ("*fp32", "i32")), iter(())) == [1, x, 3]
