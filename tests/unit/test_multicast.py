"""`multimem` accesses all replicas of a multicast address, with the order and scope of the instruction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wsemu
from wsemu.model.settings import Engine

MODULE = Path(__file__).parents[1] / "ptx" / "multicast.sm_90.ptx"
ENGINES: tuple[Engine, ...] = ("vm", "reference")
engines = pytest.mark.parametrize("engine", ENGINES)


def pair(n: int, dtype: Any = np.float32, factor: int = 1) -> list[np.ndarray[Any, Any]]:
    return [(np.arange(n) * factor * (rank + 1)).astype(dtype) for rank in range(2)]


def check_all_reduce(kernel: Any, engine: Engine) -> tuple[Any, list[Any]]:
    """Return the report of an all-reduce of two GPUs, and its results; a kernel of the module may be given by name."""
    n = 128 if "two_shot" in str(kernel) else 16
    kernel = wsemu.load_ptx(MODULE)[kernel] if isinstance(kernel, str) else kernel
    x, flags, out = pair(n), pair(2, np.uint32, 0), pair(n, factor=0)
    given = (wsemu.Multicast(*x), *x, wsemu.Multicast(*flags), *flags, *out, 0)
    return wsemu.check(kernel, 2, 16, given, ranks=2, engine=engine), out


@engines
@pytest.mark.parametrize(("kernel", "added"), [("one_shot", 2), ("two_shot", 0)])
def test_an_all_reduce_is_verified_and_adds_the_replicas(kernel: str, added: int, engine: Engine) -> None:
    report, out = check_all_reduce(kernel, engine)
    assert (report.verdict, report.findings) == ("verified", [])
    assert all(np.array_equal(one, 3 * np.arange(one.size) + added) for one in out)


@engines
@pytest.mark.parametrize(
    ("kernel", "lines"),
    [("one_shot_relaxed_wrong", {33, 35}), ("one_shot_refill_wrong", {35, 37}), ("two_shot_wrong", {57, 61})],
)
def test_a_broken_all_reduce_races(kernel: str, lines: set[int], engine: Engine) -> None:
    report, _ = check_all_reduce(kernel, engine)
    assert [finding.code for finding in report.findings] == ["race"]
    assert lines <= {site.line for site in report.findings[0].sites}  # besides those of calls


@engines
@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("", "", "verified"),
        ("red.release.sys", "red.relaxed.sys", "incomplete"),
        ("red.release.sys", "red.release.gpu", "failed"),
        ("ld.acquire.sys", "ld.acquire.gpu", "failed"),
        ("ld.acquire.sys", "ld.relaxed.sys", "incomplete"),
        ("%r5, 2;", "%r5, 1;", "failed"),
        ("[%rd4], 1;", "[%rd4], 2;", "failed"),
        ("bar.sync", "// bar.sync", "incomplete"),
    ],
)
def test_counters_to_which_all_ranks_add_are_a_barrier(old: str, new: str, expected: str, engine: Engine) -> None:
    before, entry, counted = MODULE.read_text(encoding="utf-8").partition(".entry counted")
    assert old in counted
    kernel = wsemu.load_ptx(before + entry + counted.replace(old, new, 1))["counted"]
    report, out = check_all_reduce(kernel, engine)
    assert report.verdict == expected
    if expected == "verified":
        assert all(np.array_equal(one, 3 * np.arange(one.size) + 2) for one in out)


@engines
def test_a_weak_store_goes_to_all_replicas(engine: Engine) -> None:
    kernels, x = wsemu.load_ptx(MODULE), np.arange(16, dtype=np.float32)
    y = pair(16)
    assert (
        wsemu.check(kernels["broadcast"], 2, 16, (wsemu.Multicast(*y), x), ranks=2, engine=engine).verdict == "verified"
    )
    assert all(np.array_equal(one, x) for one in y)
    report = wsemu.check(kernels["broadcast_wrong"], 2, 16, (wsemu.Multicast(*y), x), ranks=2, engine=engine)
    assert [finding.code for finding in report.findings] == ["race"]


@engines
def test_an_address_chosen_at_run_time_leads_to_the_replicas_of_its_argument(engine: Engine) -> None:
    a, b, y = pair(32, np.uint32), pair(32, np.uint32, 5), np.zeros(32, np.uint32)
    given = (wsemu.Multicast(*a), wsemu.Multicast(*b), y)
    assert wsemu.check(wsemu.load_ptx(MODULE)["reduce_chosen"], 1, 32, given, engine=engine).verdict == "verified"
    n = np.arange(32)
    assert np.array_equal(y, np.where(n % 2, 2 * n, 10 * n))


@engines
def test_a_multicast_address_may_be_in_a_structure(engine: Engine) -> None:
    all_, x = pair(4, np.uint32, 0), np.arange(64, dtype=np.uint32)
    given = ((x, np.int32(50), wsemu.Multicast(*all_)),)
    report = wsemu.check(wsemu.load_ptx(MODULE)["add_to_all"], 2, 32, given, ranks=2, engine=engine)
    assert report.verdict == "verified"
    assert all(one.tolist() == [x[k:50:4].sum() for k in range(4)] for one in all_)


@engines
@pytest.mark.parametrize(
    ("kernel", "code", "first"),
    [("loads_multicast_wrong", "out-of-bounds", True), ("reduces_array_wrong", "undefined-behavior", False)],
)
def test_only_multimem_uses_multicast_addresses_and_it_uses_no_others(
    kernel: str, code: str, first: bool, engine: Engine
) -> None:
    several, single = wsemu.Multicast(*pair(16)), np.zeros(16, np.float32)
    given = (several, single) if first else (single, several)
    report = wsemu.check(wsemu.load_ptx(MODULE)[kernel], 1, 16, given, engine=engine)
    assert [finding.code for finding in report.findings] == [code]


FORM = """
.version 8.6
.target sm_90
.address_size 64
.visible .entry k(.param .u64 all, .param .u64 out) {{
.reg .b64 %a, %o; .reg .b32 %r<8>; .reg .f32 %f<8>; .reg .b64 %w<8>;
ld.param.u64 %a, [all];
ld.param.u64 %o, [out];
{text}
ret;
}}
"""


def run_form(text: str, values: list[Any], out: np.ndarray[Any, Any], engine: Engine) -> Any:
    kernel = wsemu.load_ptx(FORM.format(text=text))["k"]
    return wsemu.check(kernel, 1, 1, (wsemu.Multicast(*values), out), engine=engine)


@engines
@pytest.mark.parametrize(
    ("form", "stored", "dtype", "expected"),
    [
        ("min.s32 %r1", "b32 [%o], %r1", np.int32, -7),
        ("max.u32 %r1", "b32 [%o], %r1", np.uint32, 12),
        ("and.b32 %r1", "b32 [%o], %r1", np.uint32, 8),
        ("or.b32 %r1", "b32 [%o], %r1", np.uint32, 13),
        ("xor.b64 %w1", "b64 [%o], %w1", np.uint64, 5),
        ("add.u64 %w1", "b64 [%o], %w1", np.uint64, 21),
    ],
)
def test_integers_are_reduced(form: str, stored: str, dtype: Any, expected: int, engine: Engine) -> None:
    first, second = (-7, 5) if form.startswith("min") else (9, 12)
    out = np.zeros(1, dtype)
    text = f"multimem.ld_reduce.acquire.sys.global.{form}, [%a+{out.itemsize}];\nst.global.{stored};"
    values = [np.array([0, value, 0], dtype) for value in (first, second)]
    assert run_form(text, values, out, engine).verdict == "verified"
    assert out[0] == expected


@engines
def test_vectors_of_halves_are_added(engine: Engine) -> None:
    values = [np.arange(8, dtype=np.float16) * (1 + rank) for rank in range(2)]
    out = np.zeros(8, np.float16)
    text = """multimem.ld_reduce.relaxed.sys.global.add.acc::f32.v4.f16x2 {%r1, %r2, %r3, %r4}, [%a];
    multimem.red.release.sys.global.add.v2.f16x2 [%a+8], {%r1, %r2};
    st.global.v4.b32 [%o], {%r1, %r2, %r3, %r4};"""
    assert run_form(text, values, out, engine).verdict == "verified"
    assert out.tolist() == [3 * n for n in range(8)]
    assert values[1].tolist() == [0, 2, 4, 6, 8, 13, 18, 23]


@pytest.mark.parametrize(
    "text",
    [
        "multimem.ld_reduce.relaxed.sys.global.min.f32 %f1, [%a];",  # no operation of the bytecode
        "multimem.st.relaxed.sys.global.v2.u32 [%a], {%r1, %r2};",  # integers have no vectors
        "multimem.st.weak.sys.global.u32 [%a], 1;",  # a weak access has no scope
        "multimem.red.acquire.sys.global.add.u32 [%a], 1;",
    ],
)
def test_other_forms_are_not_modelled(text: str) -> None:
    assert run_form(text, pair(4), np.zeros(4, np.float32), "vm").verdict == "incomplete"


def test_an_offset_beyond_the_replicas_is_out_of_bounds() -> None:
    report = run_form("multimem.st.weak.global.u32 [%a+16], 1;", pair(4), np.zeros(4), "vm")
    assert {finding.code for finding in report.findings} == {"out-of-bounds"}
    report = run_form("multimem.st.weak.global.u32 [%a+2], 1;", pair(4), np.zeros(4), "vm")
    assert {finding.code for finding in report.findings} == {"undefined-behavior"}


TWELVE = np.zeros(12)


@pytest.mark.parametrize(
    ("replicas", "said"),
    [
        ([], "of 0 arrays"),
        ([np.zeros(4)] * 9, "of 9 arrays"),
        ([np.zeros(4), [1.0]], "replica 1 is a list"),
        ([np.zeros(8)[::2]], "not contiguous"),
        ([np.zeros(4), np.zeros(5)], "replica 1 has 5 float64"),
        ([np.zeros(4), np.zeros(4, np.float32)], "replica 1 has 4 float32"),
        ([TWELVE[:8], TWELVE[4:]], "replicas 0 and 1 share memory"),
        ([np.zeros(12), TWELVE, TWELVE], "replicas 1 and 2 share memory"),
    ],
)
def test_replicas_are_separate_contiguous_arrays_of_one_size(replicas: list[Any], said: str) -> None:
    with pytest.raises(wsemu.UsageError, match=said):
        wsemu.Multicast(*replicas)


def test_a_launch_has_multicast_addresses_of_one_number_of_replicas() -> None:
    several = wsemu.Multicast(*pair(32, np.uint32)), wsemu.Multicast(np.zeros(32, np.uint32))
    with pytest.raises(wsemu.UsageError, match="of 1 and of 2 replicas"):
        wsemu.check(wsemu.load_ptx(MODULE)["reduce_chosen"], 1, 32, (*several, np.zeros(32, np.uint32)))
    with pytest.raises(wsemu.UsageError, match="a list with a multicast address"):
        wsemu.check(wsemu.load_ptx(MODULE)["broadcast"], 1, 16, ([several[0]], np.zeros(16, np.float32)))
