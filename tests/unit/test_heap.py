"""The heap of the device: `malloc` and `free` in PTX, on both engines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import wsemu

PTX = Path(__file__).parents[1] / "ptx" / "heap.sm_90.ptx"
ENGINES = ("vm", "reference")


@pytest.fixture(scope="module")
def kernels():
    return wsemu.load_ptx(PTX)


def out(threads: int = 64):
    return np.full(threads, -9, np.int32)


def run(kernels, name, *more, grid=1, block=64, engine="vm", array=None, **options):
    array = out(grid * block) if array is None else array
    report = wsemu.check(kernels[name], grid, block, (array, *more), engine=engine, **options)
    return report, array


@pytest.mark.parametrize("name", ["used_after_free", "freed_twice", "before", "unset", "freed_inside", "raced"])
def test_a_report_is_the_same_whatever_was_launched_before(kernels, name):
    """Addresses of blocks are numbered launch by launch, which no report shows."""
    reports = [run(kernels, name)[0] for _ in range(3)]
    texts = {report.model_dump_json(exclude={"seconds"}) for report in reports}
    assert len(texts) == 1
    assert reports[0].errors


t = np.arange(128)
RIGHT = {
    "each": ((np.int32(10),), 2, 64, 10 * t + 45),
    "of_block": ((), 1, 32, t[:32] // 2 * 0 + np.array([sum((16 * k + i) % 32 for i in range(16)) for k in range(32)])),
    "list": ((np.int32(5),), 2, 64, 10 * t),
    "objects": ((), 1, 32, np.where(t[:32] % 2, 10, 10 + t[:32])),
    "recursive": ((), 1, 8, np.array([0, 1, 3, 6] * 2)),
    "shared_by_lanes": ((), 1, 32, 31 - t[:32]),
    "counted": ((), 2, 32, np.full(64, 496)),
    "aligned": ((), 1, 32, np.full(32, 5)),
    "end": ((), 1, 32, np.full(32, 120)),
    "huge": ((), 1, 32, np.ones(32)),
    "many": ((np.int32(10), np.int32(1000)), 1, 4, np.full(4, 10)),
    "again": ((np.int32(40), np.int32(1000)), 1, 1, np.full(1, 40)),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", RIGHT)
def test_what_allocates_and_frees_in_order_is_verified(kernels, name, engine):
    more, grid, block, wanted = RIGHT[name]
    report, array = run(kernels, name, *more, grid=grid, block=block, engine=engine)
    assert report.verdict == "verified", (report.findings, report.notes)
    assert array.tolist() == wanted.tolist()
    assert not [f for f in report.findings if f.code != "uncoalesced" or "heap" in f.message]


WRONG = {
    "used_after_free": ("out-of-bounds", "load of 4 bytes in a freed heap block"),
    "freed_twice": ("out-of-bounds", "`free` of a block that was freed"),
    "before": ("out-of-bounds", "store of 4 bytes outside of all heap blocks"),
    "unset": ("uninitialized-read", "global `heap` is read before it is written"),
    "freed_inside": ("out-of-bounds", "`free` of an address that is not a heap block"),
    "freed_array": ("out-of-bounds", "`free` of an address that is not a heap block"),
    "freed_early": ("race", "write-after-read hazard on global `byte "),
    "raced": ("race", "write-after-write hazard on global `byte "),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", WRONG)
def test_misuse_of_a_block_is_an_error(kernels, name, engine):
    report, _ = run(kernels, name, engine=engine)
    assert report.verdict == "failed"
    code, message = WRONG[name]
    assert any(f.code == code and f.message.startswith(message) for f in report.findings), report.findings


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("elements", [3, 4, 15, 16, 17])
def test_a_block_ends_with_its_last_byte(kernels, elements, engine):
    report, _ = run(kernels, "beyond", np.int32(elements), engine=engine, block=1)
    (finding,) = [f for f in report.findings if f.severity == "error"]
    assert finding.message == "store of 4 bytes outside of all heap blocks"
    assert finding.count == 1


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["lower", "apart", "hashed"])
def test_what_hangs_on_where_blocks_lie_is_incomplete(kernels, name, engine):
    array = np.zeros(64, np.int64 if name != "lower" else np.int32)
    report, _ = run(kernels, name, engine=engine, array=array)
    assert report.verdict == "incomplete"
    assert any("where in memory blocks of the heap lie" in note for note in report.notes)


@pytest.mark.parametrize("engine", ENGINES)
def test_addresses_that_atomics_hand_on_depend_on_no_schedule(kernels, engine):
    head = np.zeros(1, np.uint64)
    report = wsemu.check(kernels["push"], 2, 1, (head,), engine=engine)
    assert report.verdict == "verified", report.notes
    again = np.zeros(1, np.uint64)
    wsemu.check(kernels["push"], 2, 1, (again,), engine=engine)
    assert int(head[0]) & 0xFFFFFFFF == int(again[0]) & 0xFFFFFFFF


@pytest.mark.parametrize("engine", ENGINES)
def test_a_heap_that_one_thread_uses_up_decides_nothing(kernels, engine):
    report, _ = run(kernels, "many", np.int32(10), np.int32(1000), block=1, engine=engine, heap=5000)
    assert report.verdict == "incomplete"
    assert any("the heap is used up" in note for note in report.notes)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_heap_that_all_threads_together_may_use_up_decides_nothing(kernels, engine):
    more = np.int32(2), np.int32(1000)
    report, _ = run(kernels, "many", *more, block=32, engine=engine, heap=50_000)
    assert report.verdict == "incomplete"
    assert report.reasons == ["heap"]
    assert run(kernels, "many", *more, block=32, engine=engine, heap=80_000)[0].verdict == "verified"
    assert run(kernels, "again", *more, block=32, engine=engine, heap=50_000)[0].verdict == "verified"


@pytest.mark.parametrize("engine", ENGINES)
def test_bytes_that_are_not_freed_are_a_note(kernels, engine):
    report, _ = run(kernels, "counted", grid=3, engine=engine)
    assert "48 bytes of the heap were not freed" in report.notes


@pytest.mark.parametrize("engine", ENGINES)
def test_a_block_of_another_launch_is_not_modelled(kernels, engine):
    slot, value = np.zeros(1, np.uint64), np.zeros(1, np.int32)
    assert wsemu.check(kernels["keep"], 1, 1, (slot,), engine=engine).verdict == "verified"
    report = wsemu.check(kernels["take"], 1, 1, (slot, value), engine=engine)
    assert report.verdict == "incomplete"
    assert any("another launch allocated" in note for note in report.notes)


def test_what_malloc_of_nothing_gives_is_not_said(kernels):
    report, _ = run(kernels, "nothing", block=1)
    assert report.verdict == "incomplete"


def test_nothing_is_said_of_other_launches_of_a_kernel_that_allocates(kernels):
    report, _ = run(kernels, "each", np.int32(3), every=True)
    assert report.verdict == "verified"
    assert report.scope is None


BESIDE = """\
.version 8.0
.target sm_90
.address_size 64
.extern .func (.param .b64 func_retval0) malloc(.param .b64 malloc_param_0);
.visible .entry raced(.param .u64 x)
{
	.reg .b32 %r<2>;
	.reg .b64 %rd<2>;
	ld.param.u64 %rd1, [x];
	mov.u32 %r1, %tid.x;
	st.global.u32 [%rd1], %r1;
	ret;
}
"""


def test_an_array_is_named_where_another_kernel_of_the_file_allocates(tmp_path):
    file = tmp_path / "beside.ptx"
    file.write_text(BESIDE, encoding="utf-8")
    report = wsemu.check(wsemu.load_ptx(file)["raced"], 1, 64, (np.zeros(1, np.int32),))
    assert report.verdict == "failed"
    assert any("on global `x[0]`" in f.message for f in report.errors), [f.message for f in report.findings]


@pytest.mark.parametrize("name", ["freed_twice", "freed_inside"])
def test_a_free_that_is_wrong_is_called_so(kernels, name):
    report, _ = run(kernels, name)
    (finding,) = report.errors
    assert finding.sites[0].text.startswith("free by warp 0")


TEXT = """
.version 8.8
.target sm_90
.address_size 64
.extern .func (.param .b64 given) malloc (.param .b64 size);
.extern .func free (.param .b64 address);
.visible .entry k(.param .u64 x)
{
.reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<16>; .reg .f32 %f<2>;
ld.param.u64 %rd1, [x]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd3, %rd1, %rd2;
{ .param .b64 a; .param .b64 b; st.param.b64 [a], 64; call.uni (b), malloc, (a); ld.param.b64 %rd4, [b]; }
{ .param .b64 a; .param .b64 b; st.param.b64 [a], 64; call.uni (b), malloc, (a); ld.param.b64 %rd5, [b]; }
BODY
st.global.u32 [%rd3], %r2; ret;
}
"""
FREE = "{ .param .b64 a; st.param.b64 [a], %rd4; call.uni free, (a); }\n"
WITH_SHARED = ".shared .b64 word; st.shared.b64 [word], %rd4;\n"
HALVES = {
    "cvt.u32.u64 %r3, %rd4; and.b32 %r2, %r3, 15;": True,
    "cvt.u32.u64 %r3, %rd4; cvt.u32.u64 %r4, %rd5; or.b32 %r3, %r3, %r4; and.b32 %r2, %r3, 7;": True,
    "cvt.u32.u64 %r2, %rd4;": False,
    "cvt.u32.u64 %r3, %rd4; shr.u32 %r3, %r3, 8; and.b32 %r2, %r3, 1;": False,
    "cvt.u32.u64 %r3, %rd4; and.b32 %r2, %r3, 31;": False,
    "cvt.u32.u64 %r3, %rd4; and.b32 %r2, %r3, 15; setp.lt.u32 %p1, %r3, 100; @%p1 mov.u32 %r2, 1;": False,
    "cvt.rn.f32.u64 %f1, %rd4; mov.b32 %r2, %f1;": False,
    "mov.b64 {%r3, %r4}, %rd4; shr.u32 %r3, %r3, 8; and.b32 %r2, %r3, 1;": False,
    "mov.b64 {%r3, %r4}, 4096; mov.u32 %r2, %r3;": True,
    # which addresses are equal is known, but for those that may be given again
    "setp.eq.u64 %p1, %rd4, %rd5; selp.u32 %r2, 1, 0, %p1;": True,
    FREE + "setp.eq.u64 %p1, %rd4, %rd5; selp.u32 %r2, 1, 0, %p1;": False,
    FREE + "setp.ne.u64 %p1, %rd4, %rd4; selp.u32 %r2, 1, 0, %p1;": True,
    FREE + "setp.eq.u64 %p1, %rd4, 0; selp.u32 %r2, 1, 0, %p1;": True,
    WITH_SHARED + "atom.shared.cas.b64 %rd6, [word], %rd4, %rd5; mov.u32 %r2, 0;": True,
    WITH_SHARED + FREE + "atom.shared.cas.b64 %rd6, [word], %rd4, %rd5; mov.u32 %r2, 0;": False,
}
"""body -> whether it does the same wherever blocks lie"""


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("body", HALVES)
def test_no_number_is_made_of_an_address_and_no_freed_one_compared(body, engine):
    kernel = wsemu.load_ptx(TEXT.replace("BODY", body))["k"]
    report = wsemu.check(kernel, 1, 1, (np.zeros(1, np.uint32),), engine=engine)
    assert report.verdict == ("verified" if HALVES[body] else "incomplete"), (report.findings, report.notes)


@pytest.mark.parametrize("engine", ENGINES)
def test_what_another_thread_freed_was_freed(kernels, engine):
    """Whose blocks are counted that are left."""
    body = (
        """.shared .b64 word; setp.eq.u32 %p1, %r1, 0; mov.u32 %r2, 0; @%p1 st.shared.b64 [word], %rd4; bar.sync 0;
    ld.shared.b64 %rd4, [word]; setp.eq.u32 %p1, %r1, 1; @!%p1 bra L;\n"""
        + FREE
        + "L:"
    )
    kernel = wsemu.load_ptx(TEXT.replace("BODY", body))["k"]
    report = wsemu.check(kernel, 1, 32, (np.zeros(32, np.uint32),), engine=engine)
    assert report.verdict == "verified", report.findings
    assert f"{63 * 64:,} bytes of the heap were not freed" in report.notes


SPINS = """\
.version 8.0
.target sm_90
.address_size 64
.extern .func (.param .b64 given) malloc(.param .b64 size);
.func own(.param .b64 x) {
	{ .param .b64 a; .param .b64 b; st.param.b64 [a], 64; call.uni (b), malloc, (a); }
	ret;
}
.visible .entry allocates(.param .u64 x) { .param .b64 a; call.uni own, (a); ret; }
.visible .entry spins(.param .u64 x)
{
	.reg .b32 %r<4>; .reg .b64 %rd<2>; .reg .pred %p<3>;
	ld.param.u64 %rd1, [x];
	mov.u32 %r1, %ctaid.x;
	setp.ne.u32 %p1, %r1, 0;
	@%p1 bra waits;
	st.global.u32 [%rd1+4], 7;
	st.release.gpu.global.u32 [%rd1], 1;
	ret;
waits:
	ld.acquire.gpu.global.u32 %r2, [%rd1];
	setp.eq.u32 %p2, %r2, 0;
	@%p2 bra waits;
	ld.global.u32 %r3, [%rd1+4];
	st.global.u32 [%rd1+8], %r3;
	ret;
}
.visible .entry halves(.param .u64 x)
{
	.reg .b64 %rd<4>;
	ld.param.u64 %rd1, [x];
	ld.global.u64 %rd2, [%rd1];
	shr.u64 %rd3, %rd2, 8;
	st.global.u64 [%rd1+8], %rd3;
	ret;
}
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_a_kernel_waits_whatever_others_of_the_file_allocate(engine):
    module = wsemu.load_ptx(SPINS)
    array = np.zeros(3, np.uint32)
    report = wsemu.check(module["spins"], 2, 1, (array,), engine=engine)
    assert (report.verdict, array.tolist()) == ("verified", [1, 7, 7]), report.notes
    left = wsemu.check(module["allocates"], 1, 1, (array,), engine=engine).notes
    assert "64 bytes of the heap were not freed" in left


@pytest.mark.parametrize("engine", ENGINES)
def test_blocks_of_other_launches_are_known_where_nothing_is_allocated(kernels, engine):
    module = wsemu.load_ptx(SPINS)
    slot = np.zeros(2, np.uint64)
    wsemu.check(kernels["keep"], 1, 1, (slot,), engine=engine)
    report = wsemu.check(module["halves"], 1, 1, (slot,), engine=engine)
    assert report.verdict == "incomplete"
    assert any("where in memory blocks of the heap lie" in note for note in report.notes)
    slot[0] = 1 << 40
    assert wsemu.check(module["halves"], 1, 1, (slot,), engine=engine).verdict == "verified"


COPIES = """
.version 8.6
.target sm_90
.address_size 64
.extern .func (.param .b64 r) malloc (.param .b64 n);
.extern .func free (.param .b64 p);
.visible .entry k(.param .u64 y_)
{
  .shared .align 128 .b8 tile[256]; .shared .align 8 .b64 bar;
  .reg .b64 %p, %q, %y; .reg .b32 %t, %b, %v; .reg .pred %w;
  ld.param.u64 %y, [y_]; mov.u32 %t, tile; mov.u32 %b, bar;
  { .param .b64 n; .param .b64 r; st.param.b64 [n], SIZE; call (r), malloc, (n); ld.param.b64 %p, [r]; }
  mov.b64 %q, 0;
FILL:
  add.u64 %y, %p, %q; st.b8 [%y], 1; add.u64 %q, %q, 1; setp.lt.u64 %w, %q, SIZE; @%w bra FILL;
  mov.u32 %v, 0;
CLEAR:
  add.u32 %b, %t, %v; st.shared.b32 [%b], 0; add.u32 %v, %v, 4; setp.lt.u32 %w, %v, 256; @%w bra CLEAR;
  mov.u32 %b, bar; mov.u32 %v, BYTES;
  mbarrier.init.shared.b64 [%b], 1; fence.mbarrier_init.release.cluster; fence.proxy.async;
  COPY
  { .param .b64 p; st.param.b64 [p], %p; call free, (p); }
  ret;
}
"""
WAITS = "WAIT: mbarrier.try_wait.parity.shared.b64 %w, [%b], 0; @!%w bra WAIT;"
STORED = "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
FORMS = {
    "load": f"mbarrier.arrive.expect_tx.shared.b64 _, [%b], %v;"
    f" cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%t], [%p], %v, [%b]; {WAITS}",
    "store": f"cp.async.bulk.global.shared::cta.bulk_group [%p], [%t], %v; {STORED}",
    "reduce": f"cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%p], [%t], %v; {STORED}",
    "thread": "cp.async.cg.shared.global [%t], [%p], 16, %v; cp.async.wait_all;",
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("form", "size", "bytes_", "verdict"), [
    ("load", 64, 64, "verified"), ("load", 64, 80, "failed"), ("load", 100, 112, "failed"),
    ("store", 64, 64, "verified"), ("store", 64, 80, "failed"),
    ("reduce", 64, 64, "verified"), ("reduce", 64, 80, "failed"),
    ("thread", 16, 16, "verified"), ("thread", 8, 8, "verified"), ("thread", 8, 16, "failed"),
])  # fmt: skip
def test_a_copy_ends_with_its_block(form, size, bytes_, verdict, engine):
    """All bytes of a copy lie in the block of its first byte."""
    text = COPIES.replace("SIZE", str(size)).replace("BYTES", str(bytes_)).replace("COPY", FORMS[form])
    report = wsemu.check(wsemu.load_ptx(text)["k"], 1, 1, (out(),), engine=engine)
    assert report.verdict == verdict, (report.findings, report.notes)
    assert {f.code for f in report.errors} == (set() if verdict == "verified" else {"out-of-bounds"})
    assert all("outside its heap block" in f.message for f in report.errors)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_copy_of_a_freed_block_is_an_error(engine):
    freed = "{ .param .b64 p; st.param.b64 [p], %p; call free, (p); }"
    copy = FORMS["store"]
    text = COPIES.replace("SIZE", "64").replace("BYTES", "64").replace(freed, "").replace("COPY", f"{freed} {copy}")
    report = wsemu.check(wsemu.load_ptx(text)["k"], 1, 1, (out(),), engine=engine)
    assert [f.message for f in report.errors] == ["the bulk store of 64 bytes names a freed heap block"]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_matrix_fragment_in_a_block_is_not_modelled(engine):
    fragment = (
        ".reg .b32 %f<8>; wmma.load.a.sync.aligned.row.m16n16k16.global.f16"
        " {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7}, [%p], 16;"
    )
    text = COPIES.replace("SIZE", "512").replace("BYTES", "64").replace("COPY", fragment)
    report = wsemu.check(wsemu.load_ptx(text)["k"], 1, 32, (out(),), engine=engine)
    assert report.verdict == "incomplete"
    assert any("a matrix fragment in a block of the heap" in note for note in report.notes), report.notes
