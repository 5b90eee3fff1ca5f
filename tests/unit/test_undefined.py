"""The table of what PTX leaves undefined, row by row on both engines, and the page that is made of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wsemu
from tests.unit.undefined_rows import KINDS, ROOT, Row, rows, text_of
from wsemu.model.codes import CODES
from wsemu.model.errors import WsemuError

ROWS = rows()
WORDS = ("verified", "incomplete", "rejected")
RUN = [row for row in ROWS if row.body]


def answer(row: Row, engine: str, *, strict: bool = False) -> tuple[str, tuple[str, ...], int]:
    """The verdict of a row's launch, its finding codes and what it leaves in out[0]."""
    out = np.zeros(1024, np.uint32)
    cluster = row.cluster if row.cluster > 1 else None
    try:
        kernel = wsemu.load_ptx(text_of(row))["k"]
        report = wsemu.check(
            kernel, row.grid or row.cluster, row.block, (out, np.uint32(row.n)),
            engine=engine, cluster=cluster, budget=200_000, strict=strict,  # type: ignore[arg-type]
        )  # fmt: skip
    except WsemuError:
        return "rejected", (), 0
    return report.verdict, tuple(sorted({finding.code for finding in report.findings})), int(out[0])


@pytest.mark.parametrize("row", RUN, ids=[row.name for row in RUN])
def test_a_row_has_its_answer(row: Row) -> None:
    fast, slow = answer(row, "vm"), answer(row, "reference")
    assert fast == slow
    verdict, codes, left = fast
    if row.answer in WORDS:
        assert verdict == row.answer
    else:
        assert row.answer in codes
        assert (verdict == "verified") == CODES[row.answer].strict
        if CODES[row.answer].strict:
            assert answer(row, "vm", strict=True)[0] == "failed"
    if row.value is not None:
        assert left == row.value


@pytest.mark.parametrize("row", [row for row in ROWS if row.shown_by], ids=lambda row: row.name)
def test_a_row_without_a_program_names_one(row: Row) -> None:
    path = ROOT / row.shown_by
    assert path.exists()
    if row.shown_by.startswith("tests/fail/"):
        assert path.parent.name == row.answer
        assert f"expect: {row.answer}" in "".join(p.read_text() for p in path.parent.glob(f"{path.stem}.*"))


_WMMA = "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}, [%o]"
DEFINED = {
    "brx.idx": "LIST: .branchtargets ONE, TWO; brx.idx %n, LIST; ONE: TWO: ret;",
    "bra.uni": "setp.eq.u32 %p, %n, 0; @%p bra.uni ONE; st.global.u32 [%a], 1; ONE: ret;",
    "bra.uni of a warp": "setp.lt.u32 %p, %t, 32; @%p bra.uni ONE; st.global.u32 [%a], 1; ONE: bar.sync 0; ret;",
    "bra.uni in a wait": "setp.ne.u32 %q, %t, 0; @%q bra END; mbarrier.init.shared.b64 [%m], 1;"
    " mbarrier.arrive.shared.b64 %x1, [%m]; W: mbarrier.try_wait.shared.b64 %p, [%m], %x1; @!%p bra.uni W; END: ret;",
    "ret.uni": "setp.eq.u32 %p, %n, 0; @%p ret.uni; st.global.u32 [%a], 1; ret;",
    "atom": "setp.ne.u32 %q, %t, 0; @%q bra END; atom.add.u32 %r1, [%o], 1; END: ret;",
    "cvta.to.shared": "mov.u64 %x1, tile; cvta.shared.u64 %x1, %x1; cvta.to.shared.u64 %x1, %x1;"
    " st.shared.u32 [%x1], %n;",
    "wmma.load": f"{_WMMA};",
    "wmma.load with a stride": f"add.u32 %n, %n, 16; {_WMMA}, %n;",
    "applypriority": "applypriority.global.L2::evict_normal [%o], 128; applypriority.L2::evict_normal [%o+128], 128;",
    "createpolicy": "createpolicy.range.global.L2::evict_last.L2::evict_unchanged.b64 %x1, [%o], %n, 64;"
    " createpolicy.range.L2::evict_last.b64 %x1, [%o+4], %n, 64;",
    "createpolicy of a fraction": "createpolicy.fractional.L2::evict_last.b64 %x1, 0f3F800000;",
    "createpolicy of a fraction in a register": ".reg .f32 %share; mov.f32 %share, 0f3F000000;"
    " createpolicy.fractional.L2::evict_last.b64 %x1, %share;",
    "fns": "fns.b32 %r1, %t, %n, 1; st.global.u32 [%a], %r1;",
    "ld.v2": "ld.global.v2.u32 {%r1, _}, [%o];",
    "mapa": "setp.ne.u32 %q, %t, 0; @%q exit; st.shared.u32 [%s], 1; mapa.shared::cluster.u32 %r1, %s, %n;"
    " ld.shared::cluster.u32 %r1, [%r1];",
    "setmaxnreg": "setmaxnreg.dec.sync.aligned.u32 24;",
    "mov": "mov.b32 {%h1, %h2}, %t; mov.b32 {_, %h2}, %t; mov.b32 %r1, {%h1, %h1}; st.global.u32 [%a], %r1;",
    "getctarank": "mov.u64 %x1, tile; cvta.shared.u64 %x1, %x1; getctarank.u64 %r1, %x1;"
    " getctarank.shared::cluster.u32 %r1, %s; st.global.u32 [%a], %r1;",
    "isspacep": "isspacep.global %p, %o; selp.u32 %r1, 1, 2, %p; st.global.u32 [%a], %r1;",
    "null": "mov.u64 %x1, tile; cvta.shared.u64 %x1, %x1; setp.eq.u64 %p, %x1, 0; selp.u32 %r1, 1, 2, %p;"
    " st.global.u32 [%a], %r1;",
    "fence.proxy.tensormap": "fence.proxy.tensormap::generic.acquire.gpu [%o], 128;",
    "tensormap.cp_fenceproxy": "shl.b32 %r1, %t, 2; add.u32 %r1, %r1, %s; st.shared.u32 [%r1], %n; bar.sync 0;"
    " tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%o], [%s], 128;",
    "red.f16x2": "mov.b32 %r1, 0; red.global.add.noftz.f16x2 [%o], %r1;",
    "atom.f16x2 without a result": "mov.b32 %r1, 0; atom.global.add.noftz.f16x2 %r2, [%o], %r1;",
    "ld.volatile": "mov.u64 %x1, own; cvta.local.u64 %x1, %x1; st.volatile.u32 [%x1], 1; ld.volatile.u32 %r1, [%x1];"
    " ld.relaxed.mmio.sys.global.u32 %r2, [%o]; ld.weak.global.cg.u32 %r3, [%o];",
    "stackrestore": "stacksave.u64 %x1; mov.u64 %x5, %x1; alloca.u64 %x2, 64; st.local.u32 [%x2], 3;"
    " stackrestore.u64 %x5; alloca.u64 %x3, 64; st.local.u32 [%x3], 5; ld.local.u32 %r1, [%x3];"
    " st.global.u32 [%a], %r1;",
    "stackrestore of the inner memory": "alloca.u64 %x4, 16; st.local.u32 [%x4], 9; stacksave.u64 %x1;"
    " alloca.u64 %x2, 64; alloca.u64 %x3, 16; stackrestore.u64 %x1; ld.local.u32 %r1, [%x4]; st.global.u32 [%a], %r1;",
    "mbarrier.try_wait of states in memory": "setp.ne.u32 %q, %t, 0; @%q bra END; mbarrier.init.shared.b64 [%m], 1;"
    " mbarrier.init.shared.b64 [%m+8], 1; mbarrier.arrive.shared.b64 %x1, [%m]; mbarrier.arrive.shared.b64 %x2, [%m+8];"
    " st.local.v2.u64 [own], {%x2, %x1}; ld.local.v2.u64 {%x4, %x3}, [own];"
    " V: mbarrier.try_wait.shared.b64 %p, [%m], %x3; @!%p bra V; W: mbarrier.try_wait.shared.b64 %p, [%m+8], %x4;"
    " @!%p bra W; END: ret;",
    "stackrestore with a guard": "setp.lt.u32 %p, %t, 5; stacksave.u64 %x1; @%p alloca.u64 %x2, 64;"
    " @%p st.local.u32 [%x2], 1; @%p stackrestore.u64 %x1; st.global.u32 [%a], 1;",
}


_OWN = ".func f (.reg .b64 %in) { .reg .b64 %p; .local .b64 x[2]; mov.u64 %p, x; st.local.u64 [%in], %p;"
_SEVEN = ".func g (.reg .b64 %q) { st.u32 [%q], 7; ret; }"
FUNCTIONS = {
    "an address stored while the function runs": (
        f"{_OWN} ld.local.u64 %p, [%in]; st.local.u64 [%p+8], %in; ld.local.u64 %p, [x+8]; ret; }}",
        "mov.u64 %x1, own; AGAIN: call f, (%x1); add.u32 %n, %n, 1; setp.lt.u32 %p, %n, 3; @%p bra AGAIN;",
    ),
    "an address that another function stores": (
        f"{_SEVEN} {_OWN} cvta.local.u64 %p, %p; st.u64 [%p], %p; ld.u64 %p, [%p]; call g, (%p); }}",
        "mov.u64 %x1, own; @%p bra END; call f, (%x1); call f, (%x1); END: st.global.u32 [%a], %n; ret;",
    ),
    "an address in the variable itself, in many calls": (
        ".func f () { .reg .b64 %p; .local .b64 x[2]; mov.u64 %p, x; st.local.u64 [x], %p; ld.local.u64 %p, [%p]; }",
        "mov.u32 %r2, 0; AGAIN: call f; add.u32 %r2, %r2, 1; setp.lt.u32 %p, %r2, 3000; @%p bra AGAIN;",
    ),
    "addresses in memory in each of many calls": (
        f"{_OWN} ld.local.u64 %p, [%in]; st.local.u64 [%p+8], 7; ret; }}",
        "mov.u64 %x1, own; AGAIN: call f, (%x1); add.u32 %n, %n, 1; setp.lt.u32 %p, %n, 2000; @%p bra AGAIN;",
    ),
    "a recursive function that stores addresses": (
        (
            ".func f (.reg .b64 %in, .reg .b32 %n) { .reg .b64 %p; .reg .b32 %m; .reg .pred %c; .local .b64 x[2];"
            "mov.u64 %p, x; st.local.u64 [%p], 3; setp.eq.u32 %c, %n, 0; @%c bra LAST; sub.u32 %m, %n, 1;"
            "call f, (%p, %m); call f, (%p, %m); LAST: st.local.u64 [%in+8], %p; ld.local.u64 %p, [%in+8];"
            "st.local.u64 [%p], 5; ret; }"
        ),
        "mov.u64 %x1, own; call f, (%x1, 6); st.global.u32 [%a], 1;",
    ),
    "a distance of two addresses": (
        ".func (.reg.b64 %v) f { .reg .b64 %p; .local.b32 x[4]; mov.u64 %p, x; sub.u64 %v, %p, %p; }",
        "call (%x1), f; add.u64 %a, %a, %x1; st.global.u32 [%a], %n;",
    ),
}
_PRODUCT = (
    "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r0,%r1,%r2,%r3,%r4,%r5,%r6,%r7}, [%o];"
    "wmma.load.b.sync.aligned.col.m16n16k16.global.f16 {%r8,%r9,%r10,%r11,%r12,%r13,%r14,%r15}, [%o];"
    "wmma.load.c.sync.aligned.row.m16n16k16.global.f32 {%f0,%f1,%f2,%f3,%f4,%f5,%f6,%f7}, [%o]; mov.u32 %r18, 0;"
    "AGAIN: wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%f0,%f1,%f2,%f3,%f4,%f5,%f6,%f7},"
    "{%r0,%r1,%r2,%r3,%r4,%r5,%r6,%r7}, {%r8,%r9,%r10,%r11,%r12,%r13,%r14,%r15}, {%f0,%f1,%f2,%f3,%f4,%f5,%f6,%f7};"
    "add.u32 %r18, %r18, 1; setp.lt.u32 %p, %r18, 3; @%p bra AGAIN;"
    "wmma.store.d.sync.aligned.col.m16n16k16.global.f32 [%o+1024], {%f0,%f1,%f2,%f3,%f4,%f5,%f6,%f7};"
)
_SUM = " ".join(f"add.f32 %f16, %f16, %f{number};" for number in range(8))
_SCALE = " ".join(f"mul.f32 %f{number}, %f{number}, %f16;" for number in range(8))
_FILLED = ",".join(["%f16"] * 8)
_OTHER = (
    "wmma.load.c.sync.aligned.row.m32n8k16.global.f32 {%f8,%f9,%f10,%f11,%f12,%f13,%f14,%f15}, [%o];",
    "wmma.store.d.sync.aligned.row.m32n8k16.global.f32 [%o+2048], {%f8,%f9,%f10,%f11,%f12,%f13,%f14,%f15};",
)
"""a load and a store of a fragment of another shape"""
_SQUARES = " ".join(f"sub.f32 %f18, %f{number}, %f16; fma.rn.f32 %f17, %f18, %f18, %f17;" for number in range(8))
_NEXT = "add.u32 %r18, %r18, 1; setp.lt.u32 %p, %r18, 3; @%p bra"
_TILE = "wmma.load.c.sync.aligned.row.m16n16k16.global.f32 {%f0,%f1,%f2,%f3,%f4,%f5,%f6,%f7}, [%o];"
_SCALE_OTHER = " ".join(f"mul.f32 %f{number}, %f{number}, %f16;" for number in range(8, 16))
_DEVIATIONS = " ".join(f"sub.f32 %f{n}, %f{n}, %f16; mul.f32 %f{n}, %f{n}, %f17;" for n in range(8, 16))
_ALLOCATE = "alloca.u64 %x2, 64; st.local.u32 [%x2], 5; ld.local.u32 %r1, [%x2]; st.global.u32 [%a], %r1;"
DEFINED |= {
    "wgmma with descriptors of a variable": (
        ".shared .align 1024 .b8 big[4096]; .reg .b32 %big; mov.u32 %big, big; mov.u32 %r7, %t;"
        " FILL: shl.b32 %r8, %r7, 2; add.u32 %r8, %r8, %big; st.shared.u32 [%r8], 0; add.u32 %r7, %r7, 128;"
        "setp.lt.u32 %p, %r7, 1024; @%p bra FILL; fence.proxy.async; bar.sync 0;"
        " cvt.u64.u32 %x5, %big; shr.u64 %x5, %x5, 4; or.b64 %x5, %x5, 0x0000000800080000; mov.u64 %x6, %x5;"
        "wgmma.fence.sync.aligned;"
        " wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1,%f2,%f3,%f4}, %x5, %x6, 0, 1, 1, 0, 0;"
        "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; st.global.f32 [%a], %f1;"
    ),
    "wmma": _PRODUCT,
    "a fragment of another shape that holds the sum of a fragment": (
        f"{_PRODUCT} mov.f32 %f16, 0f00000000; {_SUM}"
        f"wmma.store.d.sync.aligned.row.m32n8k16.global.f32 [%o+2048], {{{_FILLED}}};"
    ),
    "a fragment of another shape that the sum of a fragment scales": (
        f"{_PRODUCT} mov.f32 %f16, 0f00000000; {_SUM}"
        "wmma.load.c.sync.aligned.row.m32n8k16.global.f32 {%f0,%f1,%f2,%f3,%f4,%f5,%f6,%f7}, [%o]; "
        + _SCALE
        + "wmma.store.d.sync.aligned.row.m32n8k16.global.f32 [%o+2048], {%f0,%f1,%f2,%f3,%f4,%f5,%f6,%f7};"
    ),
    "a fragment of another shape scaled by the mean and the deviation of a fragment": (
        f"{_PRODUCT} mov.f32 %f16, 0f00000000; mov.f32 %f17, %f16; {_SUM} {_SQUARES} {_OTHER[0]} {_DEVIATIONS}"
        f"{_OTHER[1]}"
    ),
    "a fragment of another shape scaled by one of two sums of a fragment": (
        f"{_PRODUCT} mov.f32 %f16, 0f00000000; mov.f32 %f17, %f16; {_SUM} {_SQUARES} {_OTHER[0]} "
        "setp.lt.u32 %p, %n, 5; "
        + " ".join(f"selp.f32 %f18, %f16, %f17, %p; mul.f32 %f{n}, %f{n}, %f18;" for n in range(8, 16))
        + _OTHER[1]
    ),
    "a fragment of another shape that the sum of several fragments scales": (
        f"mov.f32 %f16, 0f00000000; mov.u32 %r18, 0; TILES: {_TILE} {_SUM} {_NEXT} TILES;"
        f"{_OTHER[0]} {_SCALE_OTHER} {_OTHER[1]}"
    ),
    "fragments of another shape that the sum of fragments until then scales": (
        f"mov.f32 %f17, 0f00000000; mov.u32 %r18, 0; TILES: {_TILE} mov.f32 %f16, 0f00000000; {_SUM}"
        f"max.f32 %f17, %f17, %f16; mov.f32 %f16, %f17; {_OTHER[0]} {_SCALE_OTHER} {_OTHER[1]} {_NEXT} TILES;"
    ),
    "a shared address that was stored": (
        "setp.ne.u32 %q, %t, 0; @%q bra END; st.local.u32 [own], %s; ld.local.u32 %r3, [own]; st.shared.u32 [%r3], 6;"
        "END: ret;"
    ),
    "a null address, and a shared one that is used": (
        "setp.ne.u32 %q, %t, 0; @%q bra END; st.local.u32 [own], 0; setp.eq.u32 %p, %n, 0; @%p st.local.u32 [own], %s;"
        "ld.local.u32 %r3, [own]; st.shared.u32 [%r3], 6; END: ret;"
    ),
    "memory of alloca that is used again in a loop": (
        f"mov.u32 %r2, 0; stacksave.u64 %x1; AGAIN: {_ALLOCATE} stackrestore.u64 %x1; add.u32 %r2, %r2, 1; "
        "setp.lt.u32 %p, %r2, 400; @%p bra AGAIN; ret;"
    ),
    "an address of shared memory that goes through memory": (
        "st.local.u32 [own], %s; ld.local.u32 %r1, [own]; setp.eq.u32 %p, %t, 0; @%p st.shared.u32 [%r1], 5;"
    ),
    "an index of shared memory that was loaded": (
        "ld.global.u32 %r1, [%a]; add.u32 %r1, %r1, %s; setp.eq.u32 %p, %t, 0; @%p st.shared.u32 [%r1], 5;"
    ),
    "a generic address of local memory that is compared with 0": (
        "mov.u64 %x1, own; cvta.local.u64 %x1, %x1; setp.ne.u64 %p, %x1, 0; @%p st.u32 [%x1], 5;"
    ),
    "addresses in two variables that are no end": (
        "mov.u64 %x1, tile; add.u32 %r2, %n, 255; mul.wide.u32 %x3, %r2, 4; add.u64 %x1, %x1, %x3; mov.u64 %x2, bar;"
        "setp.eq.u64 %p, %x1, %x2; selp.u32 %r1, 1, 2, %p; st.global.u32 [%a], %r1;"
    ),
    "distances in two variables that are the size of one": (
        "mov.u64 %x1, tile; add.u32 %r2, %n, 256; mul.wide.u32 %x3, %r2, 4; add.u64 %x3, %x1, %x3; "
        "sub.u64 %x1, %x3, %x1; mov.u64 %x2, bar; add.u64 %x4, %x2, 0; sub.u64 %x2, %x4, %x2;"
        "setp.eq.u64 %p, %x1, %x2; selp.u32 %r1, 1, 2, %p; st.global.u32 [%a], %r1;"
    ),
    "starts of variables that are selected": (
        "mov.u64 %x1, tile; mov.u64 %x2, bar; setp.lt.u32 %q, %n, 5; selp.u64 %x3, %x1, %x2, %q; mov.u64 %x4, %x2;"
        "@%q bra NEXT; mov.u64 %x4, %x1; NEXT: setp.eq.u64 %p, %x3, %x4; selp.u32 %r1, 1, 2, %p;"
        "st.global.u32 [%a], %r1;"
    ),
    "the end of a variable that is selected": (
        "mov.u64 %x1, tile; mov.u64 %x2, bar; setp.lt.u32 %q, %n, 5; selp.u64 %x1, %x1, %x2, %q; add.u32 %r2, %n, 256;"
        "mul.wide.u32 %x3, %r2, 4; add.u64 %x2, %x1, %x3;"
        "AGAIN: add.u64 %x1, %x1, 4; setp.ne.u64 %p, %x1, %x2; @%p bra AGAIN; ret;"
    ),
    "starts of variables in memory": (
        "mov.u64 %x1, tile; mov.u64 %x2, bar; st.local.u64 [own], %x1; st.local.u64 [own+8], %x2;"
        "ld.local.u64 %x3, [own]; setp.eq.u64 %p, %x3, %x2; selp.u32 %r1, 1, 2, %p; st.global.u32 [%a], %r1;"
    ),
    "the end of an array of shared memory": (
        "mov.u64 %x1, tile; add.u32 %r2, %n, 256; mul.wide.u32 %x3, %r2, 4; add.u64 %x2, %x1, %x3; "
        "AGAIN: add.u64 %x1, %x1, 4; setp.ne.u64 %p, %x1, %x2; @%p bra AGAIN; ret;"
    ),
    "the end of an array of local memory": (
        "mov.u64 %x1, own; add.u64 %x2, %x1, 64; "
        "AGAIN: st.local.u32 [%x1], 0; add.u64 %x1, %x1, 4; setp.ne.u64 %p, %x1, %x2; @%p bra AGAIN; ret;"
    ),
    "a generic address of a parameter": (
        "mov.u64 %x1, n; cvta.param.u64 %x1, %x1; ld.u32 %r1, [%x1]; st.global.u32 [%a], %r1;"
    ),
}


@pytest.mark.parametrize(("outside", "body"), FUNCTIONS.values(), ids=FUNCTIONS)
def test_variables_of_functions_are_used_while_they_run(outside: str, body: str) -> None:
    body = f"setp.ne.u32 %p, %n, 0; {body}"
    row = Row("", "", "", "error", "verified", body=body, outside=outside)
    fast, slow = answer(row, "vm"), answer(row, "reference")
    assert fast == slow
    assert fast[:2] == ("verified", ())


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_a_register_with_a_number_or_an_address_is_an_address_where_it_holds_one(engine: str) -> None:
    body = (
        "mov.u64 %x1, 0; setp.ne.u32 %p, %n, 0; @%p mov.u64 %x1, tile; setp.ne.u32 %q, %t, 0; @%q bra END;"
        "st.shared.u32 [%x1], 5; END: ret;"
    )
    assert answer(Row("", "", "", "error", "verified", body=body, n=1), engine)[:2] == ("verified", ())
    assert answer(Row("", "", "", "error", "failed", body=body), engine)[:2] == ("failed", ("out-of-bounds",))


def test_a_fragment_that_its_own_sum_scales_keeps_its_shape() -> None:
    body = (
        f"{_PRODUCT} mov.f32 %f16, 0f00000000; {_SUM} {_SCALE}"
        "wmma.store.d.sync.aligned.row.m32n8k16.global.f32 [%o+2048], {%f0,%f1,%f2,%f3,%f4,%f5,%f6,%f7};"
    )
    assert answer(Row("", "", "", "error", "incomplete", body=body), "vm")[0] == "incomplete"


_ZIP = " ".join(f"mul.f32 %f{n}, %f{n}, %f{n - 8};" for n in range(8, 16))
_TURNED = " ".join(f"fma.rn.f32 %f{n}, %f{n}, %f16, %f{n - 8};" for n in range(8, 16))
_EXCLUDED = " ".join(
    f"sub.f32 %f17, %f{n - 8}, %f{(n + 1) % 8};"
    + " ".join(f"add.f32 %f17, %f17, %f{(n + k) % 8};" for k in range(2, 8))
    + f"mul.f32 %f{n}, %f{n}, %f17;"
    for n in range(8, 16)
)
_ROWS = " ".join(
    f"add.f32 %f{16 + n}, %f{2 * n}, %f{2 * n + 1}; add.f32 %f{16 + n}, %f{16 + n}, %f{2 * n + 4};" for n in range(2)
)
_BY_TWO = " ".join(f"mul.f32 %f{n}, %f{n}, %f{17 + n % 2};" for n in range(8, 16))
_ROTATE = " ".join(f"mov.f32 %f{n}, %f{n + 1};" for n in range(7)) + "mov.f32 %f7, %f16;"
_TWO_SUMS = f"{_SUM} mul.f32 %f17, %f4, %f5; add.f32 %f17, %f17, %f6; add.f32 %f17, %f17, %f7; setp.lt.u32 %p, %n, 5;"
_BY_TWO_LATER = " ".join(f"mul.f32 %f{n}, %f{n}, %f{18 + n % 2};" for n in range(8, 16))
ELEMENTWISE = {
    "normalized elements": f"{_SUM} {_SCALE} {_ZIP}",
    "a sum and elements": f"{_SUM} {_TURNED}",
    "all elements, one of them with another sign": _EXCLUDED,
    "sums of rows": _ROWS + " ".join(f"mul.f32 %f{n}, %f{n}, %f{16 + n // 2 % 2};" for n in range(8, 16)),
    "sums of two iterations": (
        "mov.u32 %r18, 0; mov.f32 %f17, 0f00000000; TWICE: mov.f32 %f18, %f17; mov.f32 %f17, %f16;"
        f"{_SUM} add.u32 %r18, %r18, 1; setp.lt.u32 %p, %r18, 3; @%p bra TWICE;"
        f"{_BY_TWO}"
    ),
    "sums of the last two fragments": (
        f"mov.u32 %r18, 0; mov.f32 %f17, 0f00000000; TWICE: mov.f32 %f18, %f17; {_TILE} mov.f32 %f16, 0f00000000;"
        f"{_SUM} mov.f32 %f17, %f16; {_NEXT} TWICE; {_BY_TWO}"
    ),
    "one element of several fragments": (
        f"mov.u32 %r18, 0; TILES: {_TILE} add.f32 %f16, %f16, %f0; {_NEXT} TILES; {_SCALE_OTHER}"
    ),
    "one element of a fragment whose elements rotate": (
        f"mov.u32 %r18, 0; TURN: mov.f32 %f16, %f0; {_ROTATE} {_NEXT} TURN; {_SCALE_OTHER}"
    ),
    "two sums that are selected in opposite order": (
        f"{_TWO_SUMS} selp.f32 %f18, %f16, %f17, %p; selp.f32 %f19, %f17, %f16, %p; {_BY_TWO_LATER}"
    ),
    "two sums that opposite predicates select": (
        f"{_TWO_SUMS} setp.ge.u32 %q, %n, 5; selp.f32 %f18, %f16, %f17, %p; selp.f32 %f19, %f16, %f17, %q;"
        f"{_BY_TWO_LATER}"
    ),
    "two sums that are exchanged on a path": (
        f"{_TWO_SUMS} mov.f32 %f18, %f16; mov.f32 %f19, %f17; @%p bra NEXT; mov.f32 %f18, %f17; mov.f32 %f19, %f16;"
        f"NEXT: {_BY_TWO_LATER}"
    ),
    "two sums that are exchanged under a guard": (
        f"{_TWO_SUMS} mov.f32 %f18, %f16; mov.f32 %f19, %f17; @%p mov.f32 %f18, %f17; @%p mov.f32 %f19, %f16;"
        f"{_BY_TWO_LATER}"
    ),
    "sums of elements that rotate": (f"mov.u32 %r18, 0; TURN: {_SUM} {_ROTATE} {_NEXT} TURN; {_ZIP}"),
}


@pytest.mark.parametrize("body", ELEMENTWISE.values(), ids=ELEMENTWISE)
def test_elements_of_a_fragment_do_not_scale_one_of_another_shape(body: str) -> None:
    body = f"{_PRODUCT} mov.f32 %f16, 0f00000000; {_OTHER[0]} {body} {_OTHER[1]}"
    assert answer(Row("", "", "", "error", "incomplete", body=body), "vm")[0] == "incomplete"


@pytest.mark.parametrize("body", DEFINED.values(), ids=DEFINED)
def test_what_is_defined_is_verified(body: str) -> None:
    row = Row("", "", "", "error", "verified", body=body, block=128 if "setmaxnreg" in body or "wgmma" in body else 32)
    fast, slow = answer(row, "vm"), answer(row, "reference")
    assert fast == slow
    assert fast[:2] in (("verified", ()), ("verified", ("bank-conflict",)), ("verified", ("uncoalesced",)))


COMPARED = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 one, .param .u64 other, .param .u64 bytes)
{
    .reg .b64 %a, %b, %n;
    .reg .pred %p;
    ld.param.u64 %a, [one];
    ld.param.u64 %b, [other];
    ld.param.u64 %n, [bytes];
    add.u64 %a, %a, %n;
    setp.eq.u64 %p, %a, %b;
    @%p st.global.u32 [%b], 1;
    ret;
}
"""


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_an_empty_array_and_one_array_in_two_arguments_may_be_compared(engine: Any) -> None:
    """The end of one array may not be compared with the start of another one, which may follow it on a GPU."""
    kernel, x, y = wsemu.load_ptx(COMPARED)["k"], np.zeros(32, np.uint32), np.zeros(32, np.uint32)

    def find_verdict(one: Any, other: Any, size: int) -> str:
        return wsemu.check(kernel, 1, 1, (one, other, size), engine=engine).verdict

    assert find_verdict(x, y, x.nbytes) == "incomplete"
    assert find_verdict(x[:0], y, 0) == "verified"
    assert find_verdict(x, x, x.nbytes) == "verified"


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize(
    "moves",
    [
        "st.local.u64 [slot], %a; ld.local.u64 %w, [slot];",
        (
            ".reg .b32 %l, %h, %l0, %h0; mov.b64 {%l, %h}, %a; shfl.sync.idx.b32 %l0, %l, 0, 31, 1;"
            "shfl.sync.idx.b32 %h0, %h, 0, 31, 1; mov.b64 %w, {%l0, %h0};"
        ),
    ],
    ids=["loaded", "shuffled"],
)
def test_a_received_address_is_compared_with_the_sizes_of_arrays(moves: str, engine: Any) -> None:
    """The value of an address shows which array it is in, also after a load or a shuffle."""
    loaded = COMPARED.replace("{\n", "{\n.local .b64 slot;\n").replace(
        "setp.eq.u64 %p, %a", f".reg .b64 %w; {moves} setp.eq.u64 %p, %w"
    )
    kernel, x, y = wsemu.load_ptx(loaded)["k"], np.zeros(32, np.uint32), np.zeros(32, np.uint32)

    def find_verdict(one: Any, other: Any, size: int) -> str:
        return wsemu.check(kernel, 1, 1, (one, other, size), engine=engine).verdict

    assert find_verdict(x, y, x.nbytes) == "incomplete"
    assert find_verdict(x, y, x.nbytes - 4) == "verified"
    assert find_verdict(x, x, x.nbytes) == "verified"


def test_the_table_is_whole() -> None:
    for row in ROWS:
        assert row.kind in KINDS
        assert row.answer in (*WORDS, *CODES)
        assert bool(row.body) != bool(row.shown_by)
        # what is undefined behavior, and is run all the same, is said to be
        assert row.here or row.answer != "verified", row.name
    names = [row.name for row in ROWS]
    assert sorted(names) == sorted(set(names))


def page() -> str:
    """`docs/undefined.md`."""
    head = (ROOT / "docs" / "undefined.md").read_text(encoding="utf-8").partition("<!-- rows -->")[0]
    parts = [head + "<!-- rows -->\n\n| section | instruction | if | PTX | wsemu |\n|---|---|---|---|---|\n"]
    for row in sorted(ROWS, key=lambda row: row.section.lower()):
        parts.append(f"| {row.section} | `{row.instruction}` | {row.condition} | {row.kind} | {_said(row)} |\n")
    return "".join(parts)


def _said(row: Row) -> str:
    answer = f"[`{row.answer}`](codes/{row.answer}.md)" if row.answer in CODES else row.answer
    return f"{answer}: {row.here}" if row.here else answer


def test_the_page_is_made_of_the_table(bless: bool) -> None:
    file = ROOT / "docs" / "undefined.md"
    if bless:
        file.write_text(page(), encoding="utf-8")
    assert file.read_text(encoding="utf-8") == page(), "pytest --bless writes it"
