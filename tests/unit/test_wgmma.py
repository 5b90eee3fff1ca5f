"""`wgmma`: values by records of hardware, where operands lie, what its reads race with, and its registers."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wsemu
from wsemu.model.matrix import WGMMA, Descriptor, Wgmma
from wsemu.reference.matrix.wgmma import offset_of

TESTS = Path(__file__).parents[1]
TEXT = (TESTS / "ptx" / "wgmma.sm_90a.ptx").read_text(encoding="utf-8")
RECORDS = TESTS / "data" / "wgmma.npz"
"""of an H100: for each type a few tiles a, b, c, and what wgmma gave"""
DESCRIPTORS = TESTS / "data" / "wgmma_descriptors.csv"
"""of an H100: of which element of shared memory each element of an operand is"""


def checked(text: str, name: str, arguments: tuple[Any, ...], grid: int = 1, engine: str = "vm") -> Any:
    return wsemu.check(wsemu.load_ptx(text)[name], grid, 128, arguments, engine=engine)  # type: ignore[arg-type]


def errors(report: Any) -> set[str]:
    return {finding.code for finding in report.findings if finding.severity == "error"}


# -- values ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("in_registers", [0, 1])
@pytest.mark.parametrize("type_", ["f16", "tf32", "e4m3"])
@pytest.mark.parametrize(("engine", "tiles"), [("vm", 18), ("reference", 1)])
def test_w1_w2_w5_sums_are_those_of_an_h100(engine: str, tiles: int, type_: str, in_registers: int) -> None:
    with np.load(RECORDS) as file:
        a, b, c, wanted = (file[f"{type_}/{x}"][:tiles] for x in "abcd")
    d = np.zeros_like(c)
    bytes_ = a.view(np.uint8), b.view(np.uint8)
    report = checked(TEXT, type_, (*bytes_, c.view(np.float32), d.view(np.float32), in_registers), tiles, engine)
    assert report.verdict == "verified", report
    assert np.array_equal(d, wanted)


def product(mode: int, text: str = TEXT) -> tuple[Any, Any, Any]:
    """The kernel `swizzled`: (report, what it gave, what that should be)."""
    generator = np.random.default_rng(1)
    a, b = (generator.integers(-8, 9, (64, 64)).astype(np.float16) for _ in range(2))
    d = np.zeros((64, 64), np.float32)
    report = checked(text, "swizzled", (a.view(np.uint8), b.view(np.uint8), d, mode))
    return report, d, 2 * a.astype(np.float32) @ b.astype(np.float32).T


def test_w10_a_chain_of_them_with_the_swizzle_of_128_bytes() -> None:
    report, d, wanted = product(0)
    assert report.verdict == "verified", report
    assert np.array_equal(d, wanted)


# -- descriptors -------------------------------------------------------------------------------------------------------
def test_w12_elements_lie_where_an_h100_has_them() -> None:
    with DESCRIPTORS.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            numbers = {k: int(row[k]) for k in ("swizzle", "lbo", "sbo", "start", "base_offset")}
            swizzle = 256 >> numbers["swizzle"] if numbers["swizzle"] else 16
            d = Descriptor(numbers["start"], numbers["lbo"], numbers["sbo"], numbers["base_offset"], swizzle)
            rows = 64 if row["operand"] == "A" else 8
            places = [offset_of(d, m, k, 2, turned=row["major"] != "K") for m in range(rows) for k in range(16)]
            assert [place // 2 % 16384 for place in places] == [int(n) for n in row["elements"].split()]


MADE = [
    (0x100, 0x40, 0, 0), (0x80, 0x20, 1, 0), (0x100, 0x40, 2, 0), (0x40, 0x80, 3, 0), (0x80, 0x40, 1, 1),
]  # fmt: skip
"""leading and stride offsets, swizzle, base offset"""


@pytest.mark.parametrize("fields", MADE)
@pytest.mark.parametrize("name", ["rows", "columns"])
def test_w12_both_engines_find_the_same_elements(name: str, fields: tuple[int, ...]) -> None:
    leading, stride, swizzle, base = (min(n, 0x20) if name == "columns" and k < 2 else n for k, n in enumerate(fields))
    high = leading << 16 | stride << 32 | base << 49 | swizzle << 62
    b = high | 0x40
    x = np.random.default_rng(3).standard_normal(8192).astype(np.float16).view(np.uint32)
    results = []
    for engine in ("vm", "reference"):
        d = np.zeros((64, 8), np.float32)
        report = checked(TEXT, name, (x, d, high, b, 4), engine=engine)
        results.append((report.verdict, errors(report), d.view(np.uint32).tolist()))
    assert results[0] == results[1]


def test_an_operand_outside_shared_memory() -> None:
    x, d = np.zeros(4096, np.uint32), np.zeros((64, 8), np.float32)
    for engine in ("vm", "reference"):
        report = checked(TEXT, "rows", (x, d, 0x3F00 | 0x10 << 32, 0x10 << 32, 4), engine=engine)
        assert errors(report) == {"out-of-bounds"}


# -- order -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("mode", "code"),
    [
        (1, "proxy"),  # no proxy fence before
        (2, "race"),  # no barrier before
        (3, "race"),  # written before the wait
        (4, "race"),  # written after a wait, while other warps may still read
    ],
)
def test_reads_are_live_from_issue_to_wait(mode: int, code: str) -> None:
    report, _, _ = product(mode)
    assert errors(report) == {code}
    assert "wgmma" in "".join(finding.message for finding in report.findings)


def test_what_all_have_waited_for_may_be_written() -> None:
    report, _, _ = product(5)
    assert report.verdict == "verified", report


def test_a_wgmma_that_nobody_waits_for() -> None:
    report, _, _ = product(0, re.sub(r"wgmma\.wait_group\.sync\.aligned \d+;", "", TEXT))
    found = next(finding for finding in report.findings if finding.code == "async-outlives-cta")
    assert "`wgmma` that reads `of_b[0]`" in found.message
    assert "wgmma.wait_group" in found.help


@pytest.mark.parametrize(("mode", "found"), [(0, set()), (1, {"race"}), (2, set())])
def test_a_stage_is_given_back_after_the_wait_that_covers_it(mode: int, found: set[str]) -> None:
    x = np.random.default_rng(0).integers(-4, 5, (4, 64, 64)).astype(np.float16)
    d = np.zeros(4096, np.float32)
    ring = wsemu.load_ptx(TESTS / "ptx" / "wgmma_ring.sm_90a.ptx")["ring"]
    report = wsemu.check(ring, 1, 160, (x.view(np.uint8), d, 4, mode))
    assert errors(report) == found
    assert report.verdict == ("failed" if found else "verified"), report


# -- registers ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (r"wgmma\.fence\.sync\.aligned;", "", "no `wgmma.fence`"),
        (r"wgmma\.wait_group\.sync\.aligned 0;", "wgmma.wait_group.sync.aligned 1;", "under way"),
        (r"wgmma\.commit_group\.sync\.aligned;", "", "under way"),
    ],
)
def test_registers_of_a_wgmma_under_way(old: str, new: str, said: str) -> None:
    report, _, _ = product(0, re.sub(old, new, TEXT))
    assert report.verdict != "verified"
    assert any(said in note for note in report.notes)


@pytest.mark.parametrize("warps", [1, 2, 3])
def test_the_warps_of_a_warpgroup_execute_the_same(warps: int) -> None:
    x, d = np.zeros(4096, np.uint32), np.zeros((64, 8), np.float32)
    for engine in ("vm", "reference"):
        report = checked(TEXT, "rows", (x, d, 0x10 << 32, 0x10 << 32, warps), engine=engine)
        assert report.verdict == "incomplete"
        assert any("warpgroup" in note for note in report.notes)


@pytest.mark.parametrize(
    "text",
    [
        "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {%f1,%f2,%f3,%f4}, %rd1, %rd2, %r1, 0, 1, 1, 1, 0, 0;",
        "wgmma.mma_async.sync.aligned.m64n12k16.f32.f16.f16 {%f1,%f2,%f3,%f4}, %rd1, %rd2, 1, 1, 1, 0, 0;",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1,%f2,%f3,%f4}, %rd1, %rd2, 1, 2, 1, 0, 0;",
        "wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 {%f1,%f2,%f3,%f4}, %rd1, %rd2, 1, 1, 1, 0, 1;",
    ],
)
def test_other_forms_are_refused_by_name(text: str) -> None:
    report, _, _ = product(0, re.sub(r"wgmma\.fence\.sync\.aligned;", text, TEXT))
    assert report.verdict == "incomplete"
    assert any("wgmma.mma_async" in note for note in report.notes)


# -- every form --------------------------------------------------------------------------------------------------------
def form(found: Wgmma, n: int) -> str:
    """A kernel `k(x, d)` with one of them, on 4 KiB of x: operands without a swizzle, registers from x too."""
    part = found.part
    count = part.accumulators * n // 8
    types = f"{part.d}.{part.a}.{part.b}" + (".and.popc" if part.combine == "and" else "")
    clamps = ".satfinite" if part.a == "s8" else ""
    scales = {"s32": "", "f32": ", -1, 1", "f16": ", 1, -1"}[part.d]
    turns = (", 0, 0" if found.shared else ", 0") if part.a in ("f16", "bf16") else ""
    sums = ", ".join(f"%d{i}" for i in range(count))
    a = "%da" if found.shared else "{%a0, %a1, %a2, %a3}"
    return f"""
.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 d)
{{
.shared .align 1024 .b8 tile[4096];
.reg .b32 %t, %s, %v<4>, %a<4>, %d<{count}>; .reg .b64 %x, %p, %at, %da, %db; .reg .pred %q;
mov.u32 %t, %tid.x; ld.param.u64 %x, [x]; mul.wide.u32 %at, %t, 16; add.u64 %p, %x, %at; mov.u32 %s, tile;
cvt.u64.u32 %da, %s; shl.b32 %t, %t, 4; add.u32 %s, %s, %t;
ld.global.v4.b32 {{%v0, %v1, %v2, %v3}}, [%p]; st.shared.v4.b32 [%s], {{%v0, %v1, %v2, %v3}};
ld.global.v4.b32 {{%a0, %a1, %a2, %a3}}, [%p+2048]; st.shared.v4.b32 [%s+2048], {{%a0, %a1, %a2, %a3}};
{" ".join(f"ld.global.b32 %d{i}, [%p+{4 * i}];" for i in range(count))}
fence.proxy.async; bar.sync 0;
shr.u64 %da, %da, 4; or.b64 %da, %da, {0x8 << 16 | 0x10 << 32}; add.u64 %db, %da, 16; setp.ne.u32 %q, %t, 99;
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n{n}k{part.k}{clamps}.{types} {{{sums}}}, {a}, %db, %q{scales}{turns};
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
mov.u32 %t, %tid.x; ld.param.u64 %p, [d]; mul.wide.u32 %at, %t, {4 * count}; add.u64 %p, %p, %at;
{" ".join(f"st.global.b32 [%p+{4 * i}], %d{i};" for i in range(count))}
ret;
}}
"""


@pytest.mark.parametrize("name", WGMMA)
def test_both_engines_give_the_same_bits(name: str) -> None:
    found = WGMMA[name]
    x = np.random.default_rng(len(name)).integers(0, 1 << 32, 2048, np.uint32)
    if found.part.a in ("f16", "bf16", "tf32"):
        x &= np.uint32(0xBFFFBFFF)  # few infinities and nans
    if "e5m2" in name:
        x &= np.uint32(0xBFBFBFBF)
    n = 16 if name == "wgmma.s.f32.f16.f16" else 8
    results = []
    for engine in ("vm", "reference"):
        d = np.zeros((128, found.part.accumulators * n // 8), np.uint32)
        report = checked(form(found, n), "k", (x, d), engine=engine)
        assert report.verdict == "verified", report
        results.append(d)
    assert np.array_equal(results[0], results[1])
    assert len(np.unique(results[0])) > 20
