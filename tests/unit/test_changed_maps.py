"""Tensor maps that a kernel changes: the bits of each field are those that the driver writes, and copies go by them."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

import wsemu
from wsemu.machine.agents import map_fences
from wsemu.machine.memory.cell_bits import GENERIC, WARP_SHIFT
from wsemu.model.tensor_map import decode, encode

Engine = Literal["vm", "reference"]
ENGINES: tuple[Engine, ...] = ("vm", "reference")

TEXT = """.version VERSION
.target sm_90a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 room, .param .u64 other, .param .u64 out)
{
.reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<12>;
.shared .align 128 .b8 own[128]; .shared .align 128 .b8 tile[1024]; .shared .align 8 .b64 bar[1];
ld.param.u64 %rd1, [room]; ld.param.u64 %rd6, [other]; ld.param.u64 %rd7, [out];
mov.u64 %rd2, map; cvta.param.u64 %rd2, %rd2; mov.u32 %r1, bar; mov.u32 %r2, tile; mov.u32 %r5, own;
mov.u32 %r3, %tid.x; mul.wide.u32 %rd3, %r3, 4; add.u64 %rd4, %rd2, %rd3; shl.b32 %r6, %r3, 2; add.u32 %r6, %r6, %r5;
ld.u32 %r4, [%rd4]; st.shared.u32 [%r6], %r4; setp.ne.u32 %p1, %r3, 0; bar.sync 0;
@%p1 bra CHANGED;
tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%r5], %rd6;
CHANGES
CHANGED: bar.sync 0;
tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd1], [%r5], 128;
fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;
@!%p1 mbarrier.init.shared.b64 [%r1], 1; @!%p1 fence.mbarrier_init.release.cluster;
bar.sync 0;
@%p1 bra WAIT; mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 1024;
cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd1, {0, 0}], [%r1];
WAIT: mbarrier.try_wait.parity.shared.b64 %p3, [%r1], 0; @!%p3 bra WAIT;
mov.u32 %r7, 0;
ROWS: add.u32 %r6, %r2, %r7; shl.b32 %r4, %r3, 2; add.u32 %r6, %r6, %r4; ld.shared.u32 %r8, [%r6];
cvt.u64.u32 %rd8, %r7; add.u64 %rd9, %rd7, %rd8; add.u64 %rd9, %rd9, %rd3; st.global.u32 [%rd9], %r8;
add.u32 %r7, %r7, 128; setp.lt.u32 %p2, %r7, 1024; @%p2 bra ROWS;
ret;
}
"""


def replaced(field: str, *operands: object) -> str:
    bits = 64 if field == "global_stride" else 32
    listed = ", ".join(map(str, operands))
    return f"tensormap.replace.tile.{field}.shared::cta.b1024.b{bits} [%r5], {listed};"


def launched(
    changes: str, engine: Engine, version: str = "8.6", block: int = 32
) -> tuple[wsemu.Report, bytes, bytes, np.ndarray, np.ndarray]:
    """The report, the map that was passed and the one that was made, the other array, the tile."""
    one, other = np.zeros((16, 32), np.float32), np.arange(20 * 64, dtype=np.float32).reshape(20, 64) + 1
    map_ = wsemu.TensorMap(one, [8, 32])
    room, out = np.zeros(16, np.uint64), np.zeros((8, 32), np.float32)
    kernel = wsemu.load_ptx(TEXT.replace("CHANGES", changes).replace("VERSION", version)).only()
    report = wsemu.check(kernel, 1, block, (map_, room, other, out), engine=engine)
    return report, encode(map_.fields), room.tobytes(), other, out


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("version", ["8.4", "8.6"])
def test_a_map_is_changed_and_used(engine: Engine, version: str) -> None:
    stride = 256 if version == "8.6" else 16
    words = [replaced("global_dim", 0, 20), replaced("global_dim", 1, 5), replaced("global_stride", 0, stride)]
    report, before, after, other, out = launched("\n".join(words), engine, version)
    assert report.verdict == "verified", report
    old, new = decode(before), decode(after)
    assert old is not None
    assert new is not None
    assert new == old._replace(address=new.address, extents=(20, 5), strides=(256,))
    expected = np.zeros((8, 32), np.float32)
    expected[:5, :20] = other[:5, :20]
    assert np.array_equal(out, expected)


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_said_of_dimensions_beyond_the_rank_means_nothing(engine: Engine) -> None:
    beyond = [replaced("global_dim", n, 7) for n in (2, 3, 4)]
    beyond += [replaced("global_stride", n, 230_912) for n in (1, 2, 3)]
    beyond += [replaced("element_stride", n, 2) for n in (2, 3, 4)]
    words = [replaced("global_dim", 0, 20), replaced("global_dim", 1, 5), replaced("global_stride", 0, 256)]
    report, before, after, other, out = launched("\n".join([*words, *beyond]), engine)
    assert report.verdict == "verified", report
    old, new = decode(before), decode(after)
    assert old is not None
    assert new is not None
    assert new == old._replace(address=new.address, extents=(20, 5), strides=(256,))
    expected = np.zeros((8, 32), np.float32)
    expected[:5, :20] = other[:5, :20]
    assert np.array_equal(out, expected)


@pytest.mark.parametrize(
    ("field", "value", "name", "wanted"),
    [
        ("swizzle_mode", (3,), "swizzle", 3), ("fill_mode", (1,), "nan", True), ("swizzle_mode", (0,), "swizzle", 0),
        ("box_dim", (0, 16), "box", (16, 8)), ("box_dim", (1, 5), "box", (32, 5)),
        ("element_stride", (1, 3), "steps", (1, 3)), ("element_stride", (0, 8), "steps", (8, 1)),
        ("elemtype", (2,), "type", "u32"), ("elemtype", (8,), "type", "f32_ftz"), ("elemtype", (9,), "type", "f64"),
        ("elemtype", (10,), "type", "bf16"), ("elemtype", (11,), "type", "tf32"),
        ("elemtype", (12,), "type", "tf32_ftz"),
    ],
)  # fmt: skip
def test_fields_are_where_the_driver_has_them(field: str, value: tuple[int, ...], name: str, wanted: Any) -> None:
    for engine in ENGINES:
        _, before, after, _, _ = launched(replaced(field, *value), engine)
        old, new = decode(before), decode(after)
        assert old is not None
        assert new is not None
        changed: dict[str, Any] = {"address": new.address, name: wanted}
        assert new == old._replace(**changed)


@pytest.mark.parametrize(
    ("word", "named"),
    [
        (replaced("box_dim", 5, 16), "`tensormap.replace.tile.box_dim.shared::cta.b1024.b32`"),
        (replaced("elemtype", 13), "`tensormap.replace.tile.elemtype.shared::cta.b1024.b32`"),
        (replaced("global_dim", 5, 16), "`tensormap.replace.tile.global_dim.shared::cta.b1024.b32`"),
        (replaced("swizzle_mode", 9), "`tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32`"),
    ],
)
def test_other_fields_are_refused_by_name(word: str, named: str) -> None:
    report, *_ = launched(word, "vm")
    assert report.verdict == "incomplete"
    assert f"{named}" in str(report.notes)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_map_that_another_warp_writes_meanwhile_races(engine: Engine) -> None:
    report, *_ = launched(replaced("global_dim", 0, 20), engine, block=64)
    assert "race" in {finding.code for finding in report.errors}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_box_of_another_shape_is_copied(engine: Engine) -> None:
    """Words 16 and 18, which the driver derives of the box and the swizzle, are still those of the map before."""
    words = [replaced("box_dim", 0, 16), replaced("box_dim", 1, 16), replaced("global_dim", 0, 1280)]
    report, _, after, other, out = launched("\n".join(words), engine)
    assert not report.errors
    assert decode(after) is not None
    assert np.array_equal(out.reshape(16, 16)[0], other.reshape(-1)[:16])


FENCES = """fence.proxy.tensormap::generic.release.gpu; bar.sync 0;
@!%p1 fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;"""
WRITES = {
    "plain": "ld.u32 %r4, [%rd4]; add.u64 %rd10, %rd1, %rd3; st.global.u32 [%rd10], %r4;",
    "strong": "ld.u32 %r4, [%rd4]; add.u64 %rd10, %rd1, %rd3; st.relaxed.gpu.global.u32 [%rd10], %r4;",
    "atomic": "ld.u32 %r4, [%rd4]; add.u64 %rd10, %rd1, %rd3; atom.global.exch.b32 %r4, [%rd10], %r4;",
    "copied": """fence.proxy.async; bar.sync 0; @%p1 bra DONE;
        cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r5], 128; cp.async.bulk.commit_group;
        cp.async.bulk.wait_group 0; DONE: bar.sync 0;""",
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("written", "fenced", "verdict"),
    [
        ("plain", True, "verified"), ("plain", False, "failed"), ("strong", True, "incomplete"),
        ("atomic", True, "incomplete"), ("copied", True, "incomplete"),
    ],
)  # fmt: skip
def test_a_map_of_a_kernel_that_stores_it_is_released_and_acquired(
    written: str, fenced: bool, verdict: str, engine: Engine
) -> None:
    first, _, rest = TEXT.replace("VERSION", "8.6").partition("@%p1 bra CHANGED;")
    rest = rest[rest.index("@!%p1 mbarrier.init") :]
    text = f"{first}\n{WRITES[written]}\n{FENCES if fenced else ''}\n{rest}"
    one = np.zeros((16, 32), np.float32)
    out = np.zeros((8, 32), np.float32)
    arguments = (wsemu.TensorMap(one, [8, 32]), np.zeros(16, np.uint64), one, out)
    report = wsemu.check(wsemu.load_ptx(text).only(), 1, 32, arguments, engine=engine)
    assert report.verdict == verdict, report
    assert [finding.code for finding in report.findings] == ["tensormap-proxy"] * (verdict == "failed")
    if verdict == "incomplete":
        assert "written by an atomic or a copy of the launch" in str(report.notes)


def test_what_a_copy_wrote_is_looked_up_in_no_table_of_warps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(map_fences, "writer", map_fences.writer.function)
    agent = GENERIC << WARP_SHIFT
    assert not map_fences.is_released.function(None, 0, 0, agent, 1)


@pytest.mark.parametrize("operands", ["", " [%rd1]", " [%rd1], 64"])
def test_an_acquisition_is_of_the_128_bytes_of_a_map(operands: str) -> None:
    acquires = "fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;"
    text = TEXT.replace("VERSION", "8.6").replace("CHANGES", "").replace(acquires, acquires[:-13] + operands + ";")
    one, other, out = (np.zeros(2048, np.float32) for _ in range(3))
    arguments = (wsemu.TensorMap(one.reshape(64, 32), [8, 32]), np.zeros(16, np.uint64), other, out)
    report = wsemu.check(wsemu.load_ptx(text).only(), 1, 32, arguments)
    assert report.verdict == "incomplete"
    assert "`fence.proxy.tensormap::generic.acquire.gpu`" in str(report.notes)
