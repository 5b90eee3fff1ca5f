"""A fence that is missing behind the atomic that tells of data: plain loads of these race, others are warned of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wsemu
from tests.unit.steering_kernels import ints, variant
from wsemu import cuda

FENCE_BEFORE, FENCE_AFTER = True, False
LOAD = cuda.ldcg


def last_reads(x: Any, part: Any, count: Any, y: Any) -> None:
    last = cuda.shared.array(1, np.int32)
    t = cuda.threadIdx.x
    if t == 0:
        part[cuda.blockIdx.x] = x[cuda.blockIdx.x]
        if FENCE_BEFORE:
            cuda.threadfence()
        last[0] = cuda.atomic.add(count, 0, 1) == cuda.gridDim.x - 1
        if FENCE_AFTER:
            cuda.threadfence()
    cuda.syncthreads()
    if last[0] and t < cuda.gridDim.x:
        cuda.atomic.add(y, 0, LOAD(part, t))


def waits(x: Any, part: Any, count: Any, y: Any) -> None:
    if cuda.threadIdx.x == 0:
        if cuda.blockIdx.x == 0:
            part[0] = 42
            if FENCE_BEFORE:
                cuda.threadfence()
            cuda.atomic.exch(count, 0, 1)
        else:
            while cuda.atomic.add(count, 0, 0) == 0:
                pass
            if FENCE_AFTER:
                cuda.threadfence()
            y[cuda.blockIdx.x] = LOAD(part, 0)


def report(kernel: Any, ctas: int = 3, parts: Any = None, **options: Any) -> wsemu.Report:
    arguments = np.arange(ctas, dtype=np.int32), ints(ctas), ints(1), ints(ctas)
    return wsemu.check(variant(kernel, **(parts or {})), ctas, 128, arguments, **options)


@pytest.mark.parametrize("kernel", [last_reads, waits])
@pytest.mark.parametrize("load", ["ldcg", "ldcv"])
def test_loads_that_pass_by_the_cache_are_warned_of(kernel: Any, load: str) -> None:
    found = report(kernel, parts={"LOAD": getattr(cuda, load)})
    assert found.verdict == "verified", found.notes
    (finding,) = found.findings
    assert (finding.code, finding.severity) == ("missing-fence", "warning")
    assert found.proof.endswith("but 1 missing-fence")
    assert report(kernel, parts={"LOAD": getattr(cuda, load)}, strict=True).verdict == "failed"
    assert not report(kernel, parts={"FENCE_AFTER": True}, strict=True).findings


@pytest.mark.parametrize("kernel", [last_reads, waits])
@pytest.mark.parametrize("parts", [{"LOAD": cuda.ldca}, {"FENCE_BEFORE": False}])
def test_loads_that_may_hit_the_cache_and_writes_without_a_fence_race(kernel: Any, parts: Any) -> None:
    found = report(kernel, parts=parts)
    assert found.verdict == "failed"
    assert {finding.code for finding in found.findings} == {"race"}


def twice(part: Any, i: Any) -> Any:
    return cuda.ldcg(part, i) + cuda.ldcg(part, i)


@pytest.mark.parametrize("kernel", [last_reads, waits])
def test_a_fence_is_asked_for_once_however_often_a_loop_is_unrolled(kernel: Any) -> None:
    found = report(kernel, parts={"LOAD": cuda.jit(device=True)(twice)})
    assert [finding.code for finding in found.findings] == ["missing-fence"]


def test_what_a_warning_speaks_of_is_marked() -> None:
    (finding,) = report(waits).findings
    assert [site.text[:3] for site in finding.sites] == ["(2)", "(1)"]


@pytest.mark.parametrize("name", ["missing-fence", "race"])
def test_orders_are_tried_too_where_one_checker_is_asked_for(name: str) -> None:
    """What one run takes for a race is none in any order."""
    found = report(last_reads, checkers=[name])
    assert found.verdict == "verified", found.notes
    assert [finding.code for finding in found.findings] == ["missing-fence"]
    assert report(last_reads, parts={"FENCE_BEFORE": False}, checkers=["race"]).verdict == "failed"


def test_the_finding_names_the_line_behind_which_the_fence_belongs() -> None:
    atomic = waits.__code__.co_firstlineno + 8
    (finding,) = report(waits).findings
    assert (finding.help or "").startswith(f"a `cuda.threadfence()` is missing after line {atomic},"), finding.help
    (finding,) = report(waits, parts={"LOAD": cuda.ldca}).findings
    assert f"line {atomic}" in (finding.help or "")
    assert "cuda.threadfence()" in (finding.help or "")


def test_both_engines_say_the_same() -> None:
    untold = {"seconds", "counters"}
    for kernel in (last_reads, waits):
        one, other = (report(kernel, 2, engine=engine).model_dump(exclude=untold) for engine in ("vm", "reference"))
        assert one == other


def test_whoever_comes_last_of_many_is_warned() -> None:
    found = report(last_reads, 20)
    assert found.verdict == "verified"
    assert [finding.code for finding in found.findings] == ["missing-fence"]
    assert (found.findings[0].help or "").startswith("a `cuda.threadfence()` is missing after line")


GUIDE = """
.version 8.8
.target sm_90
.address_size 64
.visible .entry guide(.param .u64 part, .param .u64 count, .param .u64 out)
{{
.reg .pred %p<4>;
.reg .b16 %rs<4>;
.reg .b32 %r<8>;
.reg .b64 %rd<8>;
.shared .align 1 .u8 last;
ld.param.u64 %rd1, [part];
ld.param.u64 %rd2, [count];
ld.param.u64 %rd3, [out];
mov.u32 %r1, %ctaid.x;
mov.u32 %r2, %tid.x;
mov.u32 %r3, %nctaid.x;
setp.ne.u32 %p1, %r2, 0;
@%p1 bra $meet;
mul.wide.u32 %rd4, %r1, 4;
add.u64 %rd5, %rd1, %rd4;
st{store}.global.u32 [%rd5], %r1;
{release}
atom.global.inc.u32 %r4, [%rd2], %r3;
add.s32 %r5, %r3, -1;
setp.eq.u32 %p2, %r4, %r5;
selp.u16 %rs1, 1, 0, %p2;
st.shared.u8 [last], %rs1;
$meet:
bar.sync 0;
ld.shared.u8 %rs2, [last];
setp.eq.s16 %p3, %rs2, 0;
@%p3 bra $end;
{acquire}
setp.ge.u32 %p3, %r2, %r3;
@%p3 bra $end;
mul.wide.u32 %rd4, %r2, 4;
add.u64 %rd5, %rd1, %rd4;
ld{load}.global.u32 %r6, [%rd5];
red.global.add.u32 [%rd3], %r6;
@%p1 bra $end;
st.global.u32 [%rd2], 0;
$end:
ret;
}}
"""
"""the sample of CUDA's programming guide"""


def guide(ctas: int, release: str = "membar.gl;", acquire: str = "", store: str = "", load: str = "") -> wsemu.Report:
    source = GUIDE.format(release=release, acquire=acquire, store=store, load=load)
    return wsemu.check(wsemu.load_ptx(source)["guide"], ctas, 64, (ints(ctas), ints(1), ints(1)))


@pytest.mark.parametrize(
    ("parts", "verdict", "codes"),
    [
        ({"store": ".volatile", "load": ".volatile", "acquire": "membar.gl;"}, "verified", []),
        ({"store": ".volatile", "load": ".volatile"}, "verified", ["missing-fence"]),
        ({"load": ".volatile"}, "verified", ["missing-fence"]),
        ({"load": ".relaxed.gpu"}, "verified", ["missing-fence"]),
        ({"load": ".cg"}, "verified", ["missing-fence"]),
        ({"load": ".cv"}, "verified", ["missing-fence"]),
        ({}, "failed", ["race"]),
        ({"load": ".volatile", "release": ""}, "failed", ["race"]),
    ],
)
def test_the_sample_of_the_programming_guide(parts: Any, verdict: str, codes: list[str]) -> None:
    found = guide(2, **parts)
    assert found.verdict == verdict, found.notes
    assert sorted({finding.code for finding in found.findings}) == codes


def test_the_sample_on_more_ctas_than_orders_are_tried_of() -> None:
    parts = {"store": ".volatile", "load": ".volatile"}
    assert [finding.code for finding in guide(36, **parts).findings] == ["missing-fence"]
    assert guide(36, **parts, acquire="membar.gl;").verdict == "verified"


def test_an_atomic_beside_bytes_is_observed_as_a_whole() -> None:
    """The flag in shared memory is a byte: the last CTA may reset the counter all the same."""
    assert guide(3, acquire="membar.gl;").verdict == "verified"


def test_volatile_data_without_the_writers_fence_is_not_proven() -> None:
    found = guide(3, release="", store=".volatile", load=".volatile")
    assert found.verdict == "incomplete"
    assert [finding.code for finding in found.findings] == ["missing-fence"]
