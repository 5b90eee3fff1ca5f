"""Edits of kernels in PTX: tried like those of Python, told by the line of C++."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wsemu
from tests.commands import wsemu as command
from wsemu.repair.ptx import candidates, instruction_text
from wsemu.repair.ptx_text import Text
from wsemu.report.terminal import render

PTX = Path(__file__).resolve().parents[1] / "ptx"
PLENTY = 60.0
"""seconds: so that it is the number of edits that ends a search, on any machine"""


def checked(file: str, kernel: str, block: int, *sizes: int) -> wsemu.Report:
    module = wsemu.load_ptx(PTX / f"{file}.sm_90.ptx")
    return wsemu.check(module[kernel], 1, block, tuple(np.zeros(n, np.int32) for n in sizes))


@pytest.mark.parametrize(("file", "kernel", "block", "sizes", "cure"), [
    ("launching", "reverse", 64, (64,), "insert `__syncthreads()` before line 61"),
    ("broken_memory", "warp_without_sync", 32, (64, 64), "insert `__syncwarp()` before line 19"),
    ("broken_barriers", "other_count", 64, (64, 64),
     "write `bar.arrive 1, 64` in place of `bar.arrive 1, 96` in line 49"),
    ("broken_barriers", "both_wait", 64, (64, 64), "move `bar.arrive 2, 64` from line 60 to before line 58"),
])  # fmt: skip
def test_an_edit_of_ptx_is_proven_and_told_by_its_line(file, kernel, block, sizes, cure):
    report = checked(file, kernel, block, *sizes)
    found = report.cures(budget=PLENTY)
    assert found[0].says == cure
    assert found[0].changes == []
    assert f"help: proven: {cure}"[:40] in " ".join(render(report.helped()).split())


def zeros(*sizes: int) -> tuple[np.ndarray, ...]:
    return tuple(np.zeros(n, np.int32) for n in sizes)


SLIPS: dict[str, tuple[Any, tuple[Any, ...], str, str]] = {
    "one_round_more": (64, (*zeros(128, 128), 4), "deadlock", "`bar.arrive 1, 64`"),
    "stencil": (32, (*zeros(32, 32), 32), "out-of-bounds", ""),
    "warp_for_block": (64, zeros(64, 64), "race", "write `__syncthreads()` in place of `__syncwarp()` in line 34"),
    "barrier_in_a_branch": (64, (*zeros(64, 64), 40), "barrier-divergence", "move `__syncthreads()` from line 44"),
    "count_of_a_ring": (64, zeros(64, 64), "count-mismatch", "write the count `64` in place of `96`"),
    "swapped": ((4, 8), (*zeros(32, 32), 4, 8), "out-of-bounds", ""),
    "shuffle_behind_a_return": (32, (*zeros(32, 32), 20), "undefined-shuffle", ""),
    "drained_at_once": (64, zeros(64, 1), "race", "insert `__syncthreads()`"),
    "odd_word": (32, zeros(66, 64), "misaligned", ""),
    "wait_behind_the_use": (32, zeros(32, 32), "race", "move `cp.async.wait_all` from line 103 to before line 102"),
    "rounds_without_a_barrier": (128, zeros(128, 1), "race", "insert `__syncthreads()` before the `if` of line 113"),
    "scan_in_place": (
        64,
        zeros(64, 64),
        "race",
        "load before you store in line 125, with `__syncthreads()` in between, outside of the `if`",
    ),
    "scan_without_barriers": (64, zeros(64, 64), "race", "outside of the `if`, and `__syncthreads()` after it"),
    "two_of_three_warps": (
        96,
        (*zeros(480, 160), 5),
        "barrier-recycling",
        "write the count `96` in place of `64` of barrier 5 in line ",
    ),
    "commit_under_a_condition": (32, (*zeros(160, 160), 5), "race", "move `cp.async.commit_group` in line "),
    "shift_in_place": (
        32,
        zeros(32),
        "intra-warp-race",
        "load before you store in line 153, with `__syncwarp()` in between",
    ),
}
"""kernel of slips.cu -> its block, its arguments, the code that is told first, and what its cure says"""


@pytest.mark.parametrize("kernel", SLIPS)
def test_a_slip_in_cuda_is_named_first_and_mended_where_barriers_mend_it(kernel):
    block, arguments, code, cure = SLIPS[kernel]
    report = wsemu.check(wsemu.load_ptx(PTX / "slips.sm_90.ptx")[kernel], 1, block, arguments)
    cures = report.cures(budget=PLENTY)
    first = report.helped().findings[0]
    lines = (PTX / "slips.cu").read_text(encoding="utf-8").splitlines()
    assert first.code == code
    assert any(f"expect: {code}" in lines[site.line - 1] for site in first.sites)
    assert [cure in found.says for found in cures[:1]] == ([True] if cure else [])


def test_an_edit_of_a_line_is_one_of_all_its_copies():
    """nvcc unrolls loops: what is said of a line is tried in each of the instructions that are of it."""
    path = PTX / "slips.sm_90.ptx"
    text = path.read_text(encoding="utf-8")
    kernel = wsemu.load_ptx(path)["one_round_more"]
    _, first, last = kernel.source()
    places = Text.of(text, str(path), first, last, {1: "slips.cu"})
    arrives = [p for p in places.places if p.text == "bar.arrive 2, 64;"]
    assert len(arrives) > 1
    report = wsemu.check(kernel, 1, 64, (*zeros(128, 128), 4))
    edits = [changed for _, c, changed in candidates(places, report) if "in place of `bar.arrive 2, 64`" in c.edit.says]
    assert edits
    assert all({*changed} == {p.at for p in arrives} for changed in edits)


@pytest.mark.parametrize(("name", "cure"), [
    ("wgmma-register/read_before_the_wait", "insert `wgmma.wait_group.sync.aligned 0` before line 36"),
    ("wgmma-unfenced/scaled_without_a_fence", "insert `wgmma.fence.sync.aligned` before line 38"),
])  # fmt: skip
def test_registers_of_a_wgmma_get_the_wait_or_fence_that_they_lack(name, cure):
    module = wsemu.load_ptx(PTX.parent / "fail" / f"{name}.ptx")
    report = wsemu.check(module[name.partition("/")[2]], 1, 128, (np.ones(1024, np.float16), np.zeros(512, np.float32)))
    assert report.cures(budget=PLENTY)[0].says == cure


def test_what_a_search_leaves_in_the_arrays():
    out = np.zeros(64, np.int32)
    report = wsemu.check(wsemu.load_ptx(PTX / "launching.sm_90.ptx")["reverse"], 1, 64, (out,))
    left = out.copy()
    assert report.cures(budget=PLENTY)
    assert (out == left).all()
    assert report.is_cured_by(report.cures()[0])
    other = wsemu.check(wsemu.load_ptx(PTX / "slips.sm_90.ptx")["warp_for_block"], 1, 64, zeros(64, 64))
    assert not other.is_cured_by(report.cures()[0])  # of another file


def test_fix_says_what_to_write_and_writes_nothing(tmp_path):
    file = tmp_path / "launching.sm_90.ptx"
    file.write_text((PTX / "launching.sm_90.ptx").read_text(encoding="utf-8"), encoding="utf-8")
    launch = ("--entry", "reverse", "--grid", 1, "--block", 64, "--arg", "i32[64]:empty")
    done = command("check", "--fix-budget", PLENTY, "--fix", "--write", file.name, *launch, cwd=tmp_path)
    said = " ".join(done.stdout.split())
    assert "no patch of `launching.sm_90.ptx`, which a compiler wrote: edit its source: insert `__syncth" in said
    assert file.read_text(encoding="utf-8") == (PTX / "launching.sm_90.ptx").read_text(encoding="utf-8")


@pytest.mark.parametrize("form", ["json", "sarif", "github"])
def test_other_forms_take_an_edit_without_changes(tmp_path, form):
    launch = ("--entry", "reverse", "--grid", 1, "--block", 64, "--arg", "i32[64]:empty")
    options = ("--fix-budget", PLENTY, "--format", form)
    done = command("check", *options, PTX / "launching.sm_90.ptx", *launch, cwd=tmp_path)
    assert done.returncode == 1
    assert "__syncthreads()" in done.stdout
    assert '"fixes"' not in done.stdout  # one of SARIF has replacements


def test_an_instruction_stands_where_its_function_is_called():
    text = ".loc 1 5 3\n\tmov.b32 %r1, 64;\n.loc 2 9 3, function_name $L1, inlined_at 1 7 3\n\t@%p1 bar.sync 1, %r1;\n"
    places = Text.of(text, "k.ptx", 1, 4, {1: "k.cu", 2: "barrier.h"}).places
    assert [(p.file, p.line, p.text) for p in places] == [
        ("k.cu", 5, "mov.b32 %r1, 64;"), ("k.cu", 7, "bar.sync 1, 64;"),
    ]  # fmt: skip
    assert instruction_text("bar.sync 	0;") == "`__syncthreads()`"
    assert instruction_text("membar.gl;") == "`__threadfence()`"  # as nvcc writes it


CROWDED = """\
extern "C" __global__ void k(const int *x, int *y) {
  __shared__ int s[64]; int t = threadIdx.x;
  if (t < 64) { s[t] = x[t]; y[t] = s[63 - t]; }
}
"""
OF_CROWDED = """\
.version 8.8
.target sm_90
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 y)
{
.reg .b32 %r<8>; .reg .b64 %rd<8>; .shared .align 4 .b8 s[256];
.loc 1 2 3
ld.param.u64 %rd1, [x];
ld.param.u64 %rd2, [y];
mov.u32 %r1, %tid.x;
.loc 1 3 3
mul.wide.u32 %rd3, %r1, 4;
add.u64 %rd4, %rd1, %rd3;
add.u64 %rd5, %rd2, %rd3;
ld.global.u32 %r2, [%rd4];
mov.u32 %r3, s;
shl.b32 %r4, %r1, 2;
add.u32 %r5, %r3, %r4;
st.shared.u32 [%r5], %r2;
sub.u32 %r6, %r3, %r4;
ld.shared.u32 %r7, [%r6+252];
st.global.u32 [%rd5], %r7;
ret;
}
.file 1 "FILE"
"""


def test_an_edit_amid_a_line_of_several_statements_is_told_by_the_line_of_ptx_and_can_be_made_there(tmp_path):
    (tmp_path / "k.cu").write_text(CROWDED)
    file = tmp_path / "k.ptx"
    file.write_text(OF_CROWDED.replace("FILE", str(tmp_path / "k.cu")))
    found = wsemu.check(wsemu.load_ptx(file)["k"], 1, 64, zeros(64, 64)).cures(budget=PLENTY)
    assert found[0].says == "insert `bar.sync 0` before line 21 of k.ptx, which is of line 3"
    lines = file.read_text().splitlines()
    lines.insert(21 - 1, "bar.sync 0;")
    file.write_text("\n".join(lines) + "\n")
    assert wsemu.check(wsemu.load_ptx(file)["k"], 1, 64, zeros(64, 64)).verdict == "verified"


TOO_MANY_UNDER_WAY = """\
.version 9.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 y)
{
.reg .b32 %r<6>;
.reg .b64 %rd<8>;
.shared .align 16 .b8 s[256];
.loc 1 1 1
ld.param.u64 %rd1, [x];
ld.param.u64 %rd2, [y];
mov.u32 %r1, %tid.x;
mul.wide.u32 %rd3, %r1, 4;
add.u64 %rd4, %rd1, %rd3;
add.u64 %rd5, %rd2, %rd3;
mov.u32 %r2, s;
shl.b32 %r3, %r1, 2;
add.u32 %r4, %r2, %r3;
.loc 1 2 1
cp.async.ca.shared.global [%r4], [%rd4], 4;
.loc 1 3 1
cp.async.commit_group;
.loc 1 4 1
cp.async.ca.shared.global [%r4+128], [%rd4+128], 4;
.loc 1 5 1
cp.async.commit_group;
.loc 2 7 3, function_name $L__info_string1, inlined_at 1 6 1
.loc 3 9 3, function_name $L__info_string0, inlined_at 2 7 3
cp.async.wait_group 2;
.loc 1 7 1
ld.shared.u32 %r5, [%r4];
st.global.u32 [%rd5], %r5;
.loc 1 8 1
cp.async.wait_all;
ret;
}
.file 1 "copies.cu"
.file 2 "outer.h"
.file 3 "inner.h"
"""


def test_fewer_groups_may_stay_under_way_and_the_line_is_the_kernels_own(tmp_path):
    text = TOO_MANY_UNDER_WAY
    for name in ("copies.cu", "outer.h", "inner.h"):
        (tmp_path / name).write_text("x;\n" * 9)
        text = text.replace(f'"{name}"', f'"{(tmp_path / name).as_posix()}"')
    (tmp_path / "copies.ptx").write_text(text)
    kernel = wsemu.load_ptx(tmp_path / "copies.ptx")["k"]
    report = wsemu.check(kernel, 1, 32, (np.ones(64, np.uint32), np.zeros(32, np.uint32)))
    assert {finding.code for finding in report.errors} == {"race"}
    _, first, last = kernel.source()
    files = {n: str(tmp_path / name) for n, name in enumerate(("copies.cu", "outer.h", "inner.h"), 1)}
    edits = candidates(Text.of(text, str(tmp_path / "copies.ptx"), first, last, files), report)
    wanted = "write `cp.async.wait_group 1` in place of `cp.async.wait_group 2` in line 6"
    ((changed, new),) = next(lines for _, c, lines in edits if c.edit.says == wanted).items()
    lines = text.splitlines(keepends=True)
    mended = wsemu.load_ptx("".join([*lines[:changed], new, *lines[changed + 1 :]]))["k"]
    assert wsemu.check(mended, 1, 32, (np.ones(64, np.uint32), np.zeros(32, np.uint32))).verdict == "verified"


STORED = """.version 8.8
.target sm_90
.address_size 64
.visible .entry stored(.param .u64 stored_param_0)
{
.reg .pred %p;
.reg .b32 %r<4>;
.reg .b64 %rd<2>;
.shared .align 16 .b8 tile[128];
ld.param.u64 %rd1, [stored_param_0];
mov.u32 %r1, %tid.x;
mov.u32 %r2, tile;
mad.lo.u32 %r3, %r1, 4, %r2;
st.shared.u32 [%r3], %r1;
fence.proxy.async;
bar.warp.sync -1;
setp.ne.u32 %p, %r1, 0;
@%p bra END;
cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r2], 128;
cp.async.bulk.commit_group;
END:
ret;
}
"""


def test_a_store_that_outlives_its_cta_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / "stored.ptx").write_text(STORED, encoding="utf-8")
    report = wsemu.check(wsemu.load_ptx(tmp_path / "stored.ptx")["stored"], 1, 32, zeros(32))
    assert [finding.code for finding in report.findings] == ["store-outlives-cta"]
    found = report.cures(budget=PLENTY)
    assert found[0].says == "insert `cp.async.bulk.wait_group.read 0` before line 22"


VARIABLE = """.version 8.0
.target sm_90
.address_size 64
.visible .global .align 4 .b32 result[64];
.visible .entry turn(.param .u64 turn_param_0)
{
    .shared .align 4 .b32 tile[64];
    .reg .b32 %r<4>;
    .reg .b64 %rd<9>;
    ld.param.u64 %rd1, [turn_param_0];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    mov.u64 %rd3, tile;
    add.s64 %rd4, %rd3, %rd2;
    st.shared.u32 [%rd4], %r1;
    sub.s64 %rd5, %rd3, %rd2;
    ld.shared.u32 %r2, [%rd5+252];
    add.s64 %rd6, %rd1, %rd2;
    st.global.u32 [%rd6], %r2;
    mov.u64 %rd7, result;
    add.s64 %rd8, %rd7, %rd2;
    st.global.u32 [%rd8], %r2;
    ret;
}
"""
"""a race on `tile`, whose loads go to an argument and to a variable"""


@pytest.mark.parametrize("arena", [False, True])
def test_a_launch_in_a_device_memory_gets_the_cure_that_one_of_arrays_gets(tmp_path, arena):
    path = tmp_path / "turn.ptx"
    path.write_text(VARIABLE, encoding="utf-8")
    plain = wsemu.check(wsemu.load_ptx(path)["turn"], 1, 64, zeros(64)).cures(budget=PLENTY)
    memory, module = wsemu.DeviceMemory(), wsemu.load_ptx(path)
    space = memory.add_arena(1 << 50, np.zeros(1 << 12, np.uint8)) if arena else 0
    given, result = memory.allocate(256, arena=space), module.place_variables(memory)["result"]
    report = wsemu.check(module["turn"], 1, 64, (given,), memory=memory)
    for address in (given, result):  # the client goes on before edits are tried
        memory.write(address, np.full(64, 7, "i4"))
    found = report.cures(budget=PLENTY)
    assert plain
    assert [cure.says for cure in found] == [cure.says for cure in plain]
    assert (memory.read(given, "i4", 64) == 7).all()
    assert (memory.read(result, "i4", 64) == 7).all()


def test_edits_of_a_launch_in_a_device_memory_begin_with_what_was_unwritten():
    """What the launch wrote by mistake does not count as written when it is made again."""
    memory = wsemu.DeviceMemory()
    out, sums = memory.allocate(256), memory.allocate(256)
    report = wsemu.check(wsemu.load_ptx(PTX / "slips.sm_90.ptx")["warp_for_block"], 1, 64, (out, sums), memory=memory)
    again = report._launched
    assert again is not None
    with again.again():
        same = again.rerun_unchanged()
    assert same is not None
    assert [f.code for f in same.report.findings] == [f.code for f in report.findings]


def test_launches_of_one_kernel_in_ptx_get_one_cure(tmp_path):
    """A program saves each of its launches: `--fix` names the edit that cures them all."""
    path = tmp_path / "turn.ptx"
    path.write_text(VARIABLE, encoding="utf-8")
    for number in range(2):
        wsemu.save_launch(tmp_path / f"{number}.json", path, "turn", 1, 64, zeros(64))
    ended = command("check", "--fix", "--fix-budget", "20", str(tmp_path))
    assert "edit its source: insert `__syncthreads()`" in " ".join((ended.stdout + ended.stderr).split())


ROUNDS = """.version 8.0
.target sm_90
.address_size 64
.file 1 "rounds.cu"
.visible .entry rounds(.param .u64 rounds_param_0)
{
    .shared .align 4 .b32 tile[64];
    .reg .pred %p<2>;
    .reg .b32 %r<6>;
    .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [rounds_param_0];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    mov.u64 %rd3, tile;
    add.s64 %rd4, %rd3, %rd2;
    sub.s64 %rd5, %rd3, %rd2;
    add.s64 %rd6, %rd1, %rd2;
    mov.u32 %r2, 0;
$AGAIN:
    .loc 1 4 9
    st.shared.u32 [%rd4], %r1;
    .loc 1 5 9
    bar.sync 0;
    .loc 1 6 9
    ld.shared.u32 %r3, [%rd5+252];
    .loc 1 4 9
    st.shared.u32 [%rd4], %r3;
    .loc 1 5 9
    bar.sync 0;
    .loc 1 6 9
    ld.shared.u32 %r4, [%rd5+252];
    st.global.u32 [%rd6], %r4;
    .loc 1 3 5
    add.s32 %r2, %r2, 2;
    setp.lt.s32 %p1, %r2, 2;
    @%p1 bra $AGAIN;
    ret;
}
"""
"""a loop that is unrolled twice: store, barrier, load"""
SOURCE = """__global__ void rounds(int *y) {
    __shared__ int tile[64];
    for (int n = 0; n < 2; ++n) {
        tile[threadIdx.x] = value;
        __syncthreads();
        value = tile[63 - threadIdx.x];
    }
}
"""


def test_a_barrier_that_is_there_is_not_the_advice_for_an_unrolled_loop(tmp_path):
    """Copies of a loop's body run once each: their executions do not count its iterations."""
    (tmp_path / "rounds.cu").write_text(SOURCE, encoding="utf-8")
    path = tmp_path / "rounds.ptx"
    path.write_text(ROUNDS.replace("rounds.cu", str(tmp_path / "rounds.cu")), encoding="utf-8")
    report = wsemu.check(wsemu.load_ptx(path)["rounds"], 1, 64, zeros(64))
    helps = [finding.help for finding in report.findings]
    assert helps
    wanted = "after line 6, where every thread passes, before line 4 runs again"
    assert all(wanted in str(text) for text in helps), helps


POLLS_IN_A_CLUSTER = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k() .reqnctapercluster 2, 1, 1 {
  .reg .pred %p<3>; .reg .b32 %r<5>;
  .shared .align 8 .b64 full;
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, full;
  setp.ne.u32 %p1, %r1, 0;
  @!%p1 mbarrier.init.shared.b64 [%r2], 1;
  mapa.shared::cluster.u32 %r3, %r2, 0;
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  @!%p1 mbarrier.arrive.shared.b64 _, [%r2];
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;
  @!%p2 bra WAIT;
  @!%p1 mbarrier.arrive.shared.b64 _, [%r2];
  ret;
}
"""


def test_edits_before_a_loop_that_begins_with_a_label_are_tried():
    report = wsemu.check(wsemu.load_ptx(POLLS_IN_A_CLUSTER)["k"], 2, 64)
    assert "phase-alias" in {finding.code for finding in report.errors}
    report.cures(budget=PLENTY)
