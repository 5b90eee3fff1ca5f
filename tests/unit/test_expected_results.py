"""Launch files with expected results, arguments by name, and arrays of `bf16` and of floats of 8 bits."""

from __future__ import annotations

import json

import numpy as np
import pytest

import wsemu
from tests.commands import wsemu as typed
from wsemu.app.ptx_launch import argument
from wsemu.app.small_floats import decode, encode
from wsemu.model.errors import ResultError, UsageError

DOUBLE = """.version 8.0
.target sm_90
.address_size 64
.visible .entry scale(.param .u64 x, .param .u64 out, .param .f32 factor) {
    .reg .u64 %a<6>; .reg .u32 %r; .reg .f32 %f<4>;
    ld.param.u64 %a1, [x];
    ld.param.u64 %a2, [out];
    ld.param.f32 %f1, [factor];
    mov.u32 %r, %tid.x;
    mul.wide.u32 %a3, %r, 4;
    add.u64 %a4, %a1, %a3;
    add.u64 %a5, %a2, %a3;
    ld.global.f32 %f2, [%a4];
    mul.f32 %f3, %f2, %f1;
    st.global.f32 [%a5], %f3;
    ret;
}
"""


@pytest.fixture
def file(tmp_path):
    (tmp_path / "scale.ptx").write_text(DOUBLE)

    def write(**changes):
        launch = {"ptx": "scale.ptx", "grid": [1], "block": [32], "args": ["f32[32]:arange", "f32[32]:zeros", "f32:2"]}
        path = tmp_path / "launch.json"
        path.write_text(json.dumps(launch | changes))
        return path

    return write


def test_results_are_compared_within_the_tolerance(file, tmp_path):
    wanted = np.arange(32, dtype=np.float32) * 2
    np.save(tmp_path / "out.npy", wanted)
    assert typed("check", str(file(expect={"out": "out.npy"}))).returncode == 0
    wanted[5] += 0.01
    np.save(tmp_path / "out.npy", wanted)
    path = file(expect={"out": "out.npy"})
    done = typed("check", str(path))
    assert done.returncode == 1
    text = " ".join(done.stdout.split())
    assert (
        "`out` differs from what is expected in 1 of 32 elements: the first is `out[5]`, 10.0, expected 10.01" in text
    )
    with pytest.raises(ResultError, match="differs"):
        wsemu.check_like(path)
    assert typed("check", str(file(expect={"1": {"value": "out.npy", "atol": 0.1}}))).returncode == 0


def test_a_function_computes_what_is_expected(file):
    assert wsemu.check_like(file(), expected=lambda x, out, factor: {"out": x * factor}).verdict == "verified"
    with pytest.raises(ResultError, match="`x` differs"):
        wsemu.check_like(file(), expected=lambda x, out, factor: {"x": x + 1})


def test_arguments_have_the_names_of_parameters(file):
    args = {"factor": "f32:2", "out": "f32[32]:zeros", "x": "f32[32]:ones"}
    assert typed("check", str(file(args=args, expect={"out": "f32[32]:2"}))).returncode == 0
    done = typed("check", str(file(args={"factor": "f32:2", "out": "f32[32]:zeros"})))
    assert done.returncode == 2
    assert "`args` lacks `x`" in done.stdout
    done = typed("check", str(file(args=args | {"y": "f32:1"})))
    assert "names the parameter `y`: the parameters are x, out, factor" in " ".join(done.stdout.split())
    with pytest.raises(UsageError, match="names the parameter `z`"):
        wsemu.check_like(file(expect={"z": "f32[32]:2"}))


def test_bf16_rounds_to_the_nearest_even_number():
    words = np.array([0x3F800000, 0x3F808000, 0x3F818000, 0x3F808001, 0x7F7FFFFF, 0x7FC00001], np.uint32)
    wanted = [0x3F80, 0x3F80, 0x3F82, 0x3F81, 0x7F80, 0x7FFF]
    assert encode("bf16", words.view(np.float32)).tolist() == wanted
    assert argument("bf16[3]:1.5").tolist() == [0x3FC0] * 3


@pytest.mark.parametrize("name", ["bf16", "e4m3", "e5m2"])
def test_numbers_of_a_format_keep_their_bits(name):
    bits = np.arange(1 << 16, dtype=np.uint16) if name == "bf16" else np.arange(256).astype(np.uint8)
    numbers = decode(name, bits)
    exact = np.isfinite(numbers)
    assert np.array_equal(encode(name, numbers)[exact], bits[exact])


def test_floats_of_8_bits_are_those_of_the_manual():
    assert decode("e4m3", np.array([0x7E, 0x01, 0x38], np.uint8)).tolist() == [448, 2**-9, 1]
    assert decode("e5m2", np.array([0x7B, 0x01, 0x3C, 0x7C], np.uint8)).tolist() == [57344, 2**-16, 1, np.inf]
    assert np.isnan(decode("e4m3", np.array([0x7F], np.uint8))).all()
    assert encode("e4m3", np.array([1e6, -1e6, 1.0625, 1.1875, np.nan], np.float32)).tolist() == [
        0x7E, 0xFE, 0x38, 0x3A, 0x7F
    ]  # fmt: skip
    assert encode("e5m2", np.array([1e6], np.float32)).tolist() == [0x7B]


def test_files_hold_numbers_or_bits(tmp_path):
    np.save(tmp_path / "numbers.npy", np.array([1, 2], np.float32))
    np.save(tmp_path / "bits.npy", np.array([0x38, 0x40], np.uint8))
    for file in ("numbers.npy", "bits.npy"):
        assert argument(f"e4m3[2]:{tmp_path / file}").tolist() == [0x38, 0x40]
    with pytest.raises(UsageError, match=r"float32\[2\]"):
        argument(f"e4m3[3]:{tmp_path / 'numbers.npy'}")
    assert argument("tmap(bf16[64,64], box=[64,8])").fields.type == "bf16"


def test_expected_results_in_memory_are_refused(file, tmp_path):
    form = json.loads(file(expect={"out": "out.npy"}).read_text())
    np.save(tmp_path / "part.npy", np.zeros(256, np.uint8))
    form["memory"] = [{"address": 1 << 44, "bytes": 256, "data": "part.npy"}]
    (tmp_path / "launch.json").write_text(json.dumps(form))
    done = typed("check", str(tmp_path / "launch.json"))
    assert done.returncode == 2
    assert "`expect` does not work with `memory`" in " ".join((done.stdout + done.stderr).split())
