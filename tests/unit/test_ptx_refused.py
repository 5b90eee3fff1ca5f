"""PTX that is not modelled is refused by name where it is reached: never ignored, and no error of the whole file."""

from __future__ import annotations

import numpy as np
import pytest

import wsemu
from wsemu.frontend.ptx import compile_entry, parse
from wsemu.model.errors import UsageError
from wsemu.model.isa import NAMES, PROXIES

REGISTERS = """
.reg .pred %p<5>; .reg .b16 %h<9>; .reg .b32 %r<20>; .reg .f32 %f<20>; .reg .b64 %rd<20>; .reg .b128 %q<4>;
.shared .align 128 .b8 tile[1024];
"""
START = """
ld.param.u64 %rd1, [out]; ld.param.u32 %r1, [reach]; mov.u32 %r2, %tid.x; mul.wide.u32 %rd2, %r2, 4;
add.s64 %rd3, %rd1, %rd2; mov.u32 %r3, tile; cvt.u64.u32 %rd5, %r3;
setp.eq.u32 %p4, 0, 1; setp.eq.u32 %p1, %r1, 0; @%p1 bra $end;
"""


def text(body: str, directives: str = "", outside: str = "", target: str = "sm_100a") -> str:
    return (
        f".version 8.8\n.target {target}\n.address_size 64\n{outside}\n"
        f".visible .entry k(.param .u64 out, .param .u32 reach)\n{directives}\n"
        f"{{{REGISTERS}{START}{body}\n$end:\nst.global.u32 [%rd3], 7;\nret;\n}}\n"
    )


def run(source: str, reach: int = 1, grid: int = 1) -> wsemu.Report:
    """The report of a launch, the same one on both engines."""
    kernel = wsemu.load_ptx(source)["k"]
    out = np.zeros(4096, np.uint32)
    reports = [wsemu.check(kernel, grid, 32, (out.copy(), reach), engine=engine) for engine in ("vm", "reference")]
    one, other = (report.model_dump(exclude={"seconds"}) for report in reports)
    assert one == other
    return reports[0]


REFUSED = """
fma.rn.f32.f16 %f1, %h1, %h2, %f2;
add.rn.rz.f32 %f1, %f2, %f3;
ld.shared.v8.f32 {%f1,%f2,%f3,%f4,%f5,%f6,%f7,%f8}, [%rd1];
ld.global.frobnicated.u32 %r4, [%rd1];
st.release.gpu.global.b128 [%rd1], %q1;
red.async.relaxed.cluster.global.mbarrier::complete_tx::bytes.add.u32 [%rd1], %r4, [%r5];
atom.global.exch.b128 %q1, [%rd1], %q2;
atom.acquire.gpu.global.add.v4.f32 {%f1,%f2,%f3,%f4}, [%rd1], {%f5,%f6,%f7,%f8};
atom.global.add.v2.u32 {%r4,%r5}, [%rd1], {%r6,%r7};
atom.global.add.f16x2 %r4, [%rd1], %r5;
isspacep.const %p2, %rd5;
barrier.cta.sync.frobnicated 0;
bra.frobnicated $end;
vadd4.u32.u32.u32 %r4.b02, %r5, %r6, %r7;
vsub2.s32.s32.s32 %r4, %r5.b10, %r6, %r7;
vset4.u32.u32.eq %r4.b4, %r5, %r6, %r7;
vadd.s32.u32.u32.sat %r4.b1, %r5.b0, %r6.h1, %r7;
vadd.s32.u32.u32 %r4.h1, %r5.b0, %r6.h1, %r7;
vadd.u32.u32.u32.sat %r4, %r5, %r6;
vadd.u32.u32.u32.add %r4.b1, %r5, %r6, %r7;
vadd.u32.u32.u32 %r4, %r5, %r6, %r7;
vadd.u32.u32.u32 %r4, %r5.b10, %r6;
vshl.s32.u32.s32.clamp %r4, %r5, %r6;
vset.s32.u32.lt.max %r4, %r5, %r6, %r7;
vmad.s32.s32.s32 %r4, -%r5.h0, %r6.h1, -%r7;
vmad.s32.s32.s32.po %r4, %r5, %r6, -%r7;
vmad.s32.s32.s32.shr7 %r4, %r5, %r6, %r7;
fence.acquire.gpu;
fence.proxy.frobnicated;
mbarrier.try_wait.parity.frobnicated.b64 %p2, [%rd5], 0;
setmaxnreg.frobnicated.sync.aligned.u32 64;
tcgen05.shift.cta_group::1.down [%r3];
cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [8], [8, {0, 1}], [8];
clusterlaunchcontrol.query_cancel.frobnicated.b128 %p2, %r4;
cvt.rs.satfinite.e4m3x4.f32 %r4, {%f1, %f2, %f1, %f2}, %r5;
discard.global.L2 [%rd1], 128;
.frobnicate 1, 2;
""".strip().splitlines()


def name(instruction: str) -> str:
    """As a report has it: without operands, a directive with them."""
    return instruction.removesuffix(";") if instruction[0] == "." else instruction.partition(" ")[0].removesuffix(";")


@pytest.mark.parametrize("instruction", REFUSED, ids=name)
def test_an_instruction_that_is_not_modelled(instruction):
    report = run(text(f"@%p4 bra $end;\n{instruction}"))
    assert report.verdict == "incomplete"
    assert report.reasons == ["not modelled"]
    line = text(f"@%p4 bra $end;\n{instruction}").splitlines().index(instruction) + 1
    assert f"`{name(instruction)}`" in report.notes[0]
    assert f":{line})" in report.notes[0]
    assert run(text(instruction), reach=0).verdict == "verified"


def test_a_guarded_instruction_that_is_not_modelled_and_not_executed():
    assert run(text("setp.eq.u32 %p2, %r2, 99;\n@%p2 fma.rn.f32.f16 %f1, %h1, %h2, %f2;")).verdict == "verified"


def test_lanes_meet_before_what_is_not_modelled_and_all_come_to():
    body = "setp.ne.u32 %p2, %r2, 0;\n@%p2 bra $behind;\nst.shared.u32 [%r3], %r2;\n$behind: bar.sync 0;"
    report = run(text(f"{body}\nfma.rn.f32.f16 %f1, %h1, %h2, %f2;"))
    assert report.verdict == "incomplete"
    assert not report.findings


SPARSE = "mma.sp.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32"


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("tex.2d.v4.f32.s32 {%f1,%f2,%f3,%f4}, [%rd1, {%r2,%r2}];", "pass a `wsemu.Texture` of that shape and type"),
        ("suld.b.2d.b32.trap %r4, [%rd1, {%r2,%r2}];", "pass a `wsemu.Surface` of that shape"),
        ("tcgen05.shift.cta_group::1.down [%r3];", "use another form of it"),
        (SPARSE + " {%r1,%r2,%r3,%r4}, {%r1,%r2}, {%r3,%r4}, {%r1,%r2,%r3,%r4}, %r5, 0;",
         "use another type, or multiply by the dense matrix"),
    ],
)  # fmt: skip
def test_what_is_not_modelled_has_a_remedy(what, told):
    report = run(text(what))
    assert report.verdict == "incomplete"
    assert not report.findings
    assert f"is not modelled; {told}" in report.notes[0]
    assert report.notes[0].endswith(")")  # the place is named once


def test_a_function_of_the_system_that_is_not_known_is_refused_with_a_remedy():
    launches = ".extern .func (.param .b32 r) cudaLaunchDeviceV2(.param .b64 n);"
    body = "{ .param .b64 n; st.param.b64 [n], 16; .param .b32 r; call.uni (r), cudaLaunchDeviceV2, (n); }"
    report = run(text(body, outside=launches))
    assert report.verdict == "incomplete"
    told = "`cudaLaunchDeviceV2`, which is defined elsewhere, is not modelled; launch it from the host"
    assert told in report.notes[0]


# -- fences between proxies ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", PROXIES)
def test_a_fence_between_proxies_is_kept_and_says_nothing(kind):
    operands = " [%rd1], 128" if kind.startswith("tensormap::generic.acquire") else ""
    source = text(f"fence.proxy.{kind}{operands};")
    module = parse(source, "k.ptx")
    code = compile_entry(module, module.entries["k"], ("address", "value")).code
    kept = [PROXIES[fields[6]] for fields in code.tolist() if NAMES[fields[0]] == "fence.proxy"]
    assert kept == [kind]
    report = run(source)
    assert report.verdict == "verified"
    assert report.counters.instruction_mix["fence"] == 1


# -- clusters --------------------------------------------------------------------------------------------------------
def stored(register: str, type_: str = "u32") -> str:
    read = f"mov.u32 %r4, {register};"
    if type_ == "pred":
        read = f"mov.pred %p3, {register}; selp.u32 %r4, 1, 0, %p3;"
    return f"{read} add.s64 %rd9, %rd3, 1024; st.global.u32 [%rd9], %r4;"


def test_a_kernel_that_asks_for_clusters_is_launched_in_them():
    report = run(text(stored("%cluster_nctarank"), ".reqnctapercluster 2, 1, 1"), grid=2)
    assert "cluster" not in repr(report.notes)
    with pytest.raises(UsageError, match="a grid of 1 x 1 x 1 CTAs is no number of clusters of 2 x 1 x 1"):
        run(text("", ".reqnctapercluster 2, 1, 1"))
    with pytest.raises(UsageError, match="give `cluster=`"):
        run(text("", ".explicitcluster"))


def test_a_grid_that_counts_clusters_is_incomplete():
    directives = ".reqntid 32\n.blocksareclusters\n.reqnctapercluster 1"
    report = run(text("", directives))
    assert report.verdict == "incomplete"
    assert "a grid that counts clusters, `.blocksareclusters`, is not modelled" in repr(report.notes)


@pytest.mark.parametrize("directives", ["", ".maxclusterrank 1", ".reqnctapercluster 1, 1, 1", ".maxnreg 40"])
def test_without_clusters_each_cta_is_one(directives):
    for register in ("%cluster_nctarank", "%cluster_ctarank", "%cluster_nctaid.x", "%nclusterid.x", "%clusterid.y"):
        assert run(text(stored(register), directives)).verdict == "verified"
    assert run(text(stored("%is_explicit_cluster", "pred"), directives)).verdict == "verified"


def test_a_kernel_that_launches_may_put_into_clusters_is_in_those_of_its_launch():
    assert run(text(stored("%cluster_nctarank"), ".maxclusterrank 8")).verdict == "verified"


def test_directives_that_are_not_known():
    for source in (text("", ".frobnicated 3"), text("", outside=".frobnicated 3;")):
        report = run(source)
        assert report.verdict == "incomplete"
        assert "`.frobnicated 3`" in report.notes[0]
    assert run(text("", '.pragma "nounroll";', outside='.pragma "new";')).verdict == "verified"


# -- read-only loads and active lanes -------------------------------------------------------------------------------
@pytest.mark.parametrize("load", ["ld.global.nc.u32", "ld.global.nc.L1::no_allocate.L2::128B.u32", "ldu.global.u32"])
def test_a_read_only_load_of_what_is_written(load):
    report = run(text(f"{load} %r4, [%rd3];"))
    assert [finding.code for finding in report.findings] == ["read-only-written"]
    assert run(text(f"{load} %r4, [%rd3+4096];")).verdict == "verified"


def test_a_strong_load_does_not_write():
    load = "ld.global.nc.u32 %r4, [%rd3+4096];"
    assert run(text(f"{load} ld.relaxed.gpu.global.u32 %r5, [%rd3+4096];")).verdict == "verified"
    report = run(text(f"{load} red.global.or.b32 [%rd3+4096], 1;"))
    assert "read-only-written" in [finding.code for finding in report.findings]


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("setp.eq.u32 %p2, %r4, -1; @%p2 bra $end; st.global.u32 [%rd3+4096], 1;", "branch"),
        ("and.b32 %r4, %r4, 4; cvt.u64.u32 %rd6, %r4; add.s64 %rd6, %rd6, %rd3; ld.global.u32 %r5, [%rd6+4096];",
         "address"),
        ("shfl.sync.idx.b32 %r5, %r2, 0, 31, %r4;", "member mask"),
        ("bar.warp.sync %r4; st.global.u32 [%rd3+4096], %r4;", "what is left in `out`"),
        ("bar.warp.sync %r4;", ""),  # lanes that are a group by themselves do the same
        ("st.global.u32 [%rd3+4096], %r4;", "what is left in `out`"),
        ("popc.b32 %r4, %r4; red.global.add.u32 [%rd1+8192], %r4;", "what is left in `out`"),
        ("vote.sync.any.pred %p3, %p2, -1;", ""),
        ("st.shared.u32 [tile], 1; add.u32 %r4, %r4, 1;", ""),
    ],
)  # fmt: skip
def test_what_depends_on_which_lanes_are_active(body, what):
    report = run(text(f"activemask.b32 %r4; {body}"))
    assert report.verdict == ("incomplete" if what else "verified")
    assert report.reasons == (["active lanes"] if what else [])
    assert what in repr(report.notes)
    assert run(text(f"activemask.b32 %r4; {body}", target="sm_60")).verdict in ("verified", "failed")


def test_forms_without_sync_are_among_the_active_lanes():
    ballot = "vote.ballot.b32 %r4, %p2;"
    for target in ("sm_60", "sm_75"):
        assert run(text(ballot, target=target)).verdict == "verified"  # nobody uses its result
    report = run(
        text("vote.ballot.b32 %r4, %p1; popc.b32 %r4, %r4; red.global.add.u32 [%rd1+8192], %r4;", target="sm_75")
    )
    assert (report.verdict, report.reasons) == ("incomplete", ["active lanes"])
