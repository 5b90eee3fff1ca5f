"""A `cas` that fails writes nothing: beside a read it is a race where some order lets it write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wsemu
from tests.properties.memory_model import ATOMIC, READ, WRITE, Operation, Thread, parse
from tests.properties.strong_programs import judged_strong
from tests.properties.strong_programs import ptx as write_ptx
from wsemu import cuda, ptx
from wsemu.cuda import uint32

if TYPE_CHECKING:
    from wsemu.model.settings import Engine

_RACES = [("failed", {"race"}), ("failed", {"race", "intra-warp-race"}), ("failed", {"intra-warp-race"})]
ENGINES = pytest.mark.parametrize("engine", ["vm", "reference"])


@cuda.jit
def fails(flag: Any, out: Any) -> None:
    """One thread's `cas` never finds what it compares with."""
    t = cuda.threadIdx.x
    if t == 0:
        cuda.atomic.cas(flag, 0, uint32(5), uint32(1))
    if t == 32:
        out[0] = flag[0]


@cuda.jit
def writes(flag: Any, out: Any) -> None:
    """One thread's `cas` writes."""
    t = cuda.threadIdx.x
    if t == 0:
        cuda.atomic.cas(flag, 0, uint32(0), uint32(1))
    if t == 32:
        out[0] = flag[0]


@cuda.jit
def writes_in_another_order(flag: Any, out: Any) -> None:
    """The `cas` of the first warp fails here, and writes if the second one's exchange comes first."""
    t = cuda.threadIdx.x
    if t == 0:
        cuda.atomic.cas(flag, 0, uint32(1), uint32(2))
    if t == 32:
        cuda.atomic.exch(flag, 0, uint32(1))
    if t >= 32:
        ptx.bar_sync(1, 64)
    if t == 64:
        out[0] = flag[0]


@cuda.jit
def observes_what_writes(flag: Any, out: Any) -> None:
    """The `cas` of the second warp fails here; if it is first, the other `cas` observes it before the read."""
    t = cuda.threadIdx.x
    if t == 0:
        cuda.atomic.cas(flag, 0, uint32(0), uint32(1))
        out[0] = flag[0]
    if t == 32:
        cuda.atomic.cas(flag, 0, uint32(0), uint32(1))


@cuda.jit
def lanes_observe_what_writes(flag: Any, out: Any) -> None:
    """Each lane reads after its own `cas`, which has written or observes the one that wrote."""
    t = cuda.threadIdx.x
    cuda.atomic.cas(flag, 0, uint32(0), uint32(1))
    if t >= 32:
        out[t] = flag[0]


@cuda.jit
def fails_beside_lanes(flag: Any, out: Any) -> None:
    """The first lane's `cas` lets those of the others fail; the lanes that read observe none of them."""
    t = cuda.threadIdx.x
    if t < 64:
        cuda.atomic.cas(flag, 0, uint32(0), uint32(1))
    if t >= 64:
        out[t] = flag[0]


HELD = """.version 8.8
.target sm_90
.address_size 64
.visible .entry k(.param .u64 flag)
{
.reg .pred %p1; .reg .b32 %r<5>; .reg .b64 %rd<3>;
mov.u32 %r1, %tid.x;
ld.param.u64 %rd1, [flag];
setp.eq.u32 %p1, %r1, 0;
@%p1 bra OWNER;
setp.eq.u32 %p1, %r1, OTHER;
@!%p1 bra END;
atom.acquire.gpu.global.cas.b32 %r2, [%rd1], 0, 1;
st.release.gpu.global.u32 [%rd1+4], 1;
TAKE:
// take
setp.ne.u32 %p1, %r2, 0;
@%p1 bra TAKE;
st.global.u32 [%rd1+8], 2;
bra END;
OWNER:
ld.acquire.gpu.global.u32 %r2, [%rd1+4];
setp.eq.u32 %p1, %r2, 0;
@%p1 bra OWNER;
ld.global.u32 %r3, [%rd1];
st.global.u32 [%rd1+8], %r3;
// leave
END:
ret;
}
"""
"""a thread owns the lock from the start, and reads its word; another one fails to take it once, and takes it then"""
TAKES = "atom.acquire.gpu.global.cas.b32 %r2, [%rd1], 0, 1;"
LEAVES = "atom.release.gpu.global.exch.b32 %r4, [%rd1], 0;"


def check(kernel: Any, threads: int, engine: Engine) -> Any:
    return wsemu.check(kernel, 1, threads, (np.zeros(1, np.uint32), np.zeros(96, np.uint32)), engine=engine)


@ENGINES
@pytest.mark.parametrize("kernel", [fails, observes_what_writes])
def test_read_beside_a_cas_that_fails_or_is_observed_is_no_race(kernel: Any, engine: Engine) -> None:
    assert check(kernel, 64, engine).verdict == "verified"


@ENGINES
@pytest.mark.parametrize("kernel", [writes, fails_beside_lanes])
def test_read_beside_a_cas_that_writes_in_some_order_is_a_race(kernel: Any, engine: Engine) -> None:
    report = check(kernel, 96, engine)
    assert (report.verdict, {finding.code for finding in report.errors}) in _RACES


@ENGINES
def test_lanes_that_observe_the_cas_that_wrote_race_with_none(engine: Engine) -> None:
    report = check(lanes_observe_what_writes, 96, engine)
    assert (report.verdict, report.errors) == ("incomplete", [])


@ENGINES
def test_cas_that_fails_in_this_order_alone_proves_nothing(engine: Engine) -> None:
    assert check(writes_in_another_order, 96, engine).verdict == "incomplete"


@ENGINES
def test_lock_word_read_in_its_critical_section_by_a_vector(engine: Engine) -> None:
    """The owner of a lock loads it with its data; the other thread's `cas` fails meanwhile.  A strong store of a vector
    meets one of an element, which is not modelled."""
    taken = Operation(ATOMIC, "f", 1, "acquire", "gpu", "l", "cas")
    held, lost = ("l", 0, True), ("l", 0, False)
    whole = [Operation(READ, place, guard=held, joined=place != "g") for place in ("x", "y", "f", "g")]
    left = [
        Operation(WRITE, "f", 0, "release", "gpu", guard=lost, joined=True),
        Operation(WRITE, "g", 2, "release", "gpu", guard=lost),
    ]
    rest = [Operation(READ, "x", guard=held), Operation(WRITE, "f", 0, "release", "gpu", guard=held)]
    source, grid, warps = write_ptx((Thread(0, (taken, *whole, *left)), Thread(1, (taken, *rest))))
    kernel = wsemu.load_ptx(source)["k"]
    report = wsemu.check(kernel, grid, 32 * warps, (np.zeros(16, np.uint32),), engine=engine)
    assert (report.verdict, report.errors) == ("incomplete", [])


@ENGINES
@pytest.mark.parametrize("line", [
    "A cas f 1 acquire gpu until 0; W x 1; R f; A exch f 0 release gpu",
    "A cas f 1 acquire gpu until 0; R x; W x 1; R f; A exch f 0 release gpu",
])  # fmt: skip
@pytest.mark.parametrize("space", ["shared", "global"])
def test_lock_word_read_in_its_critical_section_by_lanes_of_a_warp(space: str, line: str, engine: Engine) -> None:
    """The read of its last owner comes before a `cas` that takes the lock, and beside one that fails."""
    judged = judged_strong(parse(f"P0@0: {line} | P1@0: {line}"), engine, space, together=True)
    assert not judged.found.wrong
    assert (judged.verdict != "failed", judged.codes) == (True, ())


@ENGINES
@pytest.mark.parametrize(("take", "leave", "right"), [
    (TAKES, LEAVES, True),
    (TAKES.replace("acquire", "relaxed") + " fence.acq_rel.gpu;", LEAVES, False),  # the `cas` is before the fence
    (TAKES, LEAVES.replace("release", "relaxed"), False),
])  # fmt: skip
@pytest.mark.parametrize("other", [1, 32])
def test_cas_that_fails_once_and_then_takes_the_lock(
    other: int, take: str, leave: str, right: bool, engine: Engine
) -> None:
    text = HELD.replace("OTHER", str(other)).replace("// take", take).replace("// leave", leave)
    report = wsemu.check(wsemu.load_ptx(text)["k"], 1, 64, (np.array([1, 0, 0], np.uint32),), engine=engine)
    assert (report.verdict == "failed") != right
    assert right or {finding.code for finding in report.errors} <= {"race", "intra-warp-race"}


@ENGINES
@pytest.mark.parametrize(("line", "verdict", "codes"), [
    ("W y 1; A cas g 1 | P1@1: W y 1; A exch g 1; R g -> b", "verified", {"same-value-store"}),
    ("W y 1; A cas g 1 | P1@1: W y 1; A exch g 1; R g relaxed cta -> b", "verified", {"same-value-store"}),
    ("W y 1; A cas g 1 acq_rel gpu | P1@1: W y 1; A exch g 1 acq_rel gpu; R g -> b; R y", "failed", {"race"}),
    ("W y 1; A cas g 1 | P1@1: W y 2; A exch g 1; R g -> b", "failed", {"race"}),
    ("W y 1; A cas g 1 | P1@1: W y 1; R g -> b", "failed", {"race", "same-value-store"}),
    ("W y 1; W y 1; A cas g 1 | P1@1: W y 1; A exch g 1; R g -> b | P2@2: W y 1", "verified", {"same-value-store"}),
    ("W y 2; W y 1; A cas g 1 | P1@1: W y 1; A exch g 1; R g -> b | P2@2: W y 1", "failed", {"race"}),
])  # fmt: skip
def test_stores_of_one_value_beside_a_cas_that_an_exchange_observes(
    line: str, verdict: str, codes: set[str], engine: Engine
) -> None:
    """The read comes after the `cas` if that writes.  The stores of one value are then the only unordered accesses."""
    judged = judged_strong(parse(f"P0@0: {line}"), engine)
    assert judged.found.wrong == (verdict == "failed")
    assert (judged.verdict, {*judged.codes} >= codes, judged.complaint) == (verdict, True, "")


@ENGINES
def test_stores_of_one_value_beside_atomics_whose_executions_are_not_all_tried(engine: Engine) -> None:
    own = "W y 1; W x 2; F sc cta; W f 2 relaxed gpu; A cas g 1 relaxed gpu"
    other = "W y 1; A exch g 1 release gpu; R g relaxed cta -> b; A exch f 1 acquire sys -> c"
    judged = judged_strong(parse(f"P0@0/0: {own} | P1@1/0: {other}"), engine)
    assert (judged.verdict, judged.codes, judged.complaint) == ("incomplete", ("same-value-store",), "")
