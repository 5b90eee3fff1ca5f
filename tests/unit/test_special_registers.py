"""Special registers of PTX (PTX ISA, "Special Registers"): each is fixed by the launch, unpromised, or refused."""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np
import pytest

import wsemu
from wsemu.frontend.ptx.special import SPECIALS
from wsemu.launch.result import Report

BLOCK, GRID, DYNAMIC = (7, 3, 4), (2, 1, 3), 80
THREADS = 84

Value = Callable[[int, int], int]
"""of CTA and thread, both counted along x first"""


def _place(axis: str, size: tuple[int, int, int], *, of_cta: bool) -> Value:
    """The coordinate on an axis in a box of CTAs, or of threads."""
    n = "xyz".index(axis)
    before = int(np.prod(size[:n]))
    return lambda cta, thread: (cta if of_cta else thread) // before % size[n]


def _lanes(holds: Callable[[int, int], bool]) -> Value:
    """The mask of lanes that stand so to the thread's own."""
    return lambda cta, thread: sum(1 << lane for lane in range(32) if holds(lane, thread % 32))


def _always(value: int) -> Value:
    return lambda cta, thread: value


FIXED: dict[str, Value] = {
    **{f"%tid.{a}": _place(a, BLOCK, of_cta=False) for a in "xyz"},
    **{f"%{name}.{a}": _place(a, GRID, of_cta=True) for name in ("ctaid", "clusterid") for a in "xyz"},
    **{f"%ntid.{a}": _always(n) for a, n in zip("xyz", BLOCK, strict=True)},
    **{f"%{name}.{a}": _always(n) for name in ("nctaid", "nclusterid") for a, n in zip("xyz", GRID, strict=True)},
    **{f"%cluster_ctaid.{a}": _always(0) for a in "xyz"},
    **{f"%cluster_nctaid.{a}": _always(1) for a in "xyz"},
    **{f"%{kind}{name}.w": _always(0) for kind in ("", "n") for name in ("tid", "ctaid", "clusterid")},
    **{f"%cluster_{kind}ctaid.w": _always(0) for kind in ("", "n")},
    **{f"%lanemask_{name}": _lanes(getattr(operator, name)) for name in ("eq", "lt", "le", "ge", "gt")},
    "%laneid": lambda cta, thread: thread % 32,
    "WARP_SZ": _always(32),
    "%dynamic_smem_size": _always(DYNAMIC),
    "%is_explicit_cluster": _always(0),
    "%cluster_ctarank": _always(0),
    "%cluster_nctarank": _always(1),
}
"""what PTX fixes for a launch: a branch on it is proven"""
UNPROMISED = {
    **dict.fromkeys(("%clock", "%clock_hi", "%clock64"), "clocks"),
    **dict.fromkeys(("%globaltimer", "%globaltimer_lo", "%globaltimer_hi"), "clocks"),
    **dict.fromkeys(("%smid", "%warpid", "%nwarpid"), "placement"),
}
"""what may be another number in another run, or on another GPU -> the reason that is given where it steers a launch"""
REFUSED = frozenset({
    "%nsmid", "%gridid", "%total_smem_size", "%aggr_smem_size", "%current_graph_exec",
    *(f"%reserved_smem_offset_{part}" for part in ("begin", "end", "cap")),
    *(f"%pm{n}" for n in range(8)), *(f"%pm{n}_64" for n in range(8)),
    *(f"%envreg{n}" for n in range(32) if n not in (1, 2)),
})  # fmt: skip
ADDRESSES = frozenset({"%reserved_smem_offset_0", "%reserved_smem_offset_1", "%envreg1", "%envreg2"})
"""parts of addresses: of shared memory that the system keeps, and of the workspace of a cooperative launch"""
_WIDE = ("%clock64", "%globaltimer", "%gridid", "%current_graph_exec", *(f"%pm{n}_64" for n in range(8)))


@pytest.fixture(params=["vm", "reference"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def _kernel(name: str, body: str) -> str:
    """PTX that reads a special register into %x; %p is the address of the thread's word of `out`, %i its number."""
    bits = 64 if name in _WIDE else 32
    read = f"mov.b{bits} %x, {name};" if name != "%is_explicit_cluster" else (
        ".reg .pred %q; mov.pred %q, %is_explicit_cluster; selp.b32 %x, 1, 0, %q;"
    )  # fmt: skip
    return f"""
.version 8.6
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out)
{{
.reg .b32 %i, %a, %b, %n, %low;
.reg .b{bits} %x;
.reg .b64 %p, %at;
.reg .pred %c;
mov.u32 %i, %ctaid.z;
mov.u32 %a, %ctaid.x;
mad.lo.u32 %i, %i, 2, %a;
mov.u32 %b, %tid.z;
mov.u32 %a, %tid.y;
mad.lo.u32 %b, %b, 3, %a;
mov.u32 %a, %tid.x;
mad.lo.u32 %b, %b, 7, %a;
mad.lo.u32 %i, %i, {THREADS}, %b;
mul.wide.u32 %at, %i, 4;
ld.param.u64 %p, [out];
add.u64 %p, %p, %at;
{read}
cvt.u32.u{bits} %low, %x;
{body}
}}
"""


STORE = "st.global.u32 [%p], %low; ret;"
BRANCH = "setp.gt.u32 %c, %low, 5; @%c bra $on; st.global.u32 [%p], 7; $on: ret;"
ADDRESS = "and.b32 %low, %low, 0; cvt.u64.u32 %at, %low; add.u64 %p, %p, %at; st.global.u32 [%p], 7; ret;"


def _run(name: str, body: str, engine: str) -> tuple[Report, np.ndarray[tuple[int, int], np.dtype[np.uint32]]]:
    out = np.zeros((6, THREADS), np.uint32)
    kernel = wsemu.load_ptx(_kernel(name, body))["k"]
    report = wsemu.check(kernel, GRID, BLOCK, [out], dynamic_shared=DYNAMIC, engine=engine)  # type: ignore[arg-type]
    return report, out


def test_each_special_register_of_the_isa_has_its_row() -> None:
    assert FIXED.keys() | UNPROMISED.keys() | REFUSED | ADDRESSES == SPECIALS.keys()


@pytest.mark.parametrize("name", sorted(FIXED))
def test_what_the_launch_fixes_is_proven(engine: str, name: str) -> None:
    report, out = _run(name, STORE, engine)
    assert report.verdict == "verified", report
    assert not report.notes
    assert out.tolist() == [[FIXED[name](cta, thread) for thread in range(THREADS)] for cta in range(6)]
    assert _run(name, BRANCH, engine)[0].verdict == "verified"


@pytest.mark.parametrize("name", sorted(UNPROMISED))
@pytest.mark.parametrize("body", [BRANCH, ADDRESS])
def test_what_nobody_promises_steers_no_proven_launch(engine: str, name: str, body: str) -> None:
    report, _ = _run(name, body, engine)
    assert report.verdict == "incomplete"
    assert report.reasons == [UNPROMISED[name]]


@pytest.mark.parametrize("name", sorted(UNPROMISED))
def test_a_result_that_nobody_promises_is_noted(engine: str, name: str) -> None:
    report, _ = _run(name, STORE, engine)
    assert any("which is not that of a GPU, nor is what is left in `out`" in note for note in report.notes), report


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_is_not_modelled_ends_the_run(engine: str, name: str) -> None:
    report, _ = _run(name, STORE, engine)
    assert report.verdict == "incomplete"
    assert f"`{name}` is not modelled" in repr(report)


@pytest.mark.parametrize("name", sorted(ADDRESSES))
def test_a_part_of_an_address_is_no_number(engine: str, name: str) -> None:
    for body in (STORE, BRANCH):
        assert _run(name, body, engine)[0].reasons == ["addresses"]


def test_a_number_of_a_warp_excuses_no_trap(engine: str) -> None:
    """That a clock never reaches the end of a wait's time may be taken for granted, but not a place for a warp."""
    report, _ = _run("%warpid", "setp.gt.u32 %c, %low, 50; @%c trap; st.global.u32 [%p], 7; ret;", engine)
    assert report.verdict == "incomplete"
