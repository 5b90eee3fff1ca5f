"""PTX instructions to bytecode: memory, control flow, calls, barriers, variables, line information."""

from __future__ import annotations

import numpy as np
import pytest

import wsemu
from wsemu.frontend.ptx import compile_entry, parse
from wsemu.model.errors import KernelError

HEADER = ".version 8.4\n.target sm_90\n.address_size 64\n"
REGISTERS = (
    ".reg .pred %p<9>;\n.reg .b16 %rs<9>;\n.reg .b32 %r<20>;\n.reg .f32 %f<9>;\n.reg .b64 %rd<20>;\n.reg .f64 %fd<9>;\n"
)
INDEX = """
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd1, %r1, 4;
    ld.param.u64 %rd2, [out];
    cvta.to.global.u64 %rd2, %rd2;
    add.s64 %rd3, %rd2, %rd1;
"""
"""%r1 is the thread, %rd3 the address of its element of `out`"""
PARAMETERS = ".param .u64 out"


def text(body: str, parameters: str = PARAMETERS, outside: str = "") -> str:
    return f"{HEADER}{outside}\n.visible .entry k({parameters})\n{{\n{REGISTERS}{body}\n}}\n"


def run(body: str, *args, parameters: str = PARAMETERS, outside: str = "", block=32, grid=1, **options):
    """The report of a kernel with this body."""
    kernel = wsemu.load_ptx(text(body, parameters, outside))["k"]
    return wsemu.check(kernel, grid, block, args, **options)


def result(body: str, *args, outside: str = "", parameters: str = PARAMETERS, dtype=np.int32, block=32, **options):
    """What a verified kernel leaves in `out`, an element for each thread; the same from both engines."""
    found = []
    for engine in ("vm", "reference"):
        out = np.zeros(block, dtype)
        report = run(
            INDEX + body, out, *args, outside=outside, parameters=parameters, block=block, engine=engine, **options
        )
        assert report.verdict == "verified", (report.findings, report.notes)
        found.append(out)
    assert found[0].tobytes() == found[1].tobytes()
    return found[0].tolist()


def program(body: str, kinds=("address",), **options):
    module = parse(text(body, **options), "k.ptx")
    return compile_entry(module, module.entries["k"], kinds)


def codes(report) -> set[str]:
    return {finding.code for finding in report.findings}


SAXPY = """
    ld.param.f32 %f1, [a];
    ld.param.u64 %rd1, [x];
    ld.param.u64 %rd2, [out];
    ld.param.u32 %r2, [n];
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %ntid.x;
    mov.u32 %r5, %tid.x;
    mad.lo.s32 %r1, %r3, %r4, %r5;
    setp.ge.s32 %p1, %r1, %r2;
    @%p1 bra $L_end;
    cvta.to.global.u64 %rd3, %rd2;
    cvta.to.global.u64 %rd4, %rd1;
    mul.wide.s32 %rd5, %r1, 4;
    add.s64 %rd6, %rd4, %rd5;
    ld.global.f32 %f2, [%rd6];
    add.s64 %rd7, %rd3, %rd5;
    ld.global.f32 %f3, [%rd7];
    fma.rn.f32 %f4, %f2, %f1, %f3;
    st.global.f32 [%rd7], %f4;
$L_end:
    ret;
"""


def test_saxpy():
    x, y = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
    parameters = ".param .f32 a, .param .u64 x, .param .u64 out, .param .u32 n"
    report = run(SAXPY, 2.0, x, y, 1000, parameters=parameters, grid=8, block=128)
    assert report.verdict == "verified"
    assert y.tolist() == (2 * x + 1).tolist()
    assert report.counters.accesses == 3000
    assert (report.counters.global_load_sectors, report.counters.global_store_sectors) == (250, 125)


@pytest.mark.parametrize(
    ("rounding", "fma", "expected"),
    [("", True, 2.0**-24), ("", False, 0.0), (".rn", True, 0.0)],
)
def test_products_without_a_rounding_are_contracted(rounding, fma, expected):
    # (1 + 2**-12)**2 - (1 + 2**-11) is 2**-24, which the rounded product loses
    body = f"""
    ld.global.f32 %f1, [%rd3];
    mul{rounding}.f32 %f2, %f1, %f1;
    sub{rounding}.f32 %f3, %f2, 0f3F801000;
    st.global.f32 [%rd3], %f3;
    """
    out = np.full(32, 1 + 2.0**-12, np.float32)
    assert run(INDEX + body, out, fma=fma).verdict == "verified"
    assert out.tolist() == [expected] * 32


SMALL = {
    "f32": (np.float32, 1 + 2.0**-12, "0f3F801000", 2.0**-24),
    "f16": (np.float16, 1 + 2.0**-6, "0x3C20", 2.0**-12),
    "bf16": (np.uint16, 0x3F88, "0x3F90", 0x3B80),
    "f16x2": (np.uint32, 0x3C103C10, "0x3C203C20", 0x0C000C00),
    "bf16x2": (np.uint32, 0x3F883F88, "0x3F903F90", 0x3B803B80),
}
"""type -> a number x of few bits after 1, x * x rounded as a literal, what rounding lost"""


@pytest.mark.parametrize(
    ("product", "sum_", "fused"),
    [
        *((f"mul.{t}", f"sub.{t}", True) for t in SMALL),
        *((f"mul.rn.{t}", f"sub.{t}", False) for t in SMALL),
        *((f"mul.{t}", f"sub.rn.{t}", False) for t in SMALL),
        *((f"mul.ftz.{t}", f"sub.ftz.{t}", True) for t in ("f32", "f16", "f16x2")),
        *((f"mul.ftz.{t}", f"sub.{t}", False) for t in ("f32", "f16", "f16x2")),
        *((f"mul.{t}", f"sub.ftz.{t}", False) for t in ("f32", "f16", "f16x2")),
        *((f"mul.{t}", f"sub.sat.{t}", True) for t in ("f32", "f16", "f16x2")),
        *((f"mul.sat.{t}", f"sub.{t}", None) for t in ("f32", "f16", "f16x2")),
        ("mul.ftz.f32", "sub.ftz.sat.f32", True),
        ("mul.f32", "sub.ftz.sat.f32", False),
    ],
)
@pytest.mark.parametrize("negated", [False, True])
def test_what_is_contracted(product, sum_, fused, negated):
    # as ptxas 13.0 does it
    t = sum_.rpartition(".")[2]
    dtype, x, square, lost = SMALL[t]
    fused = fused and not (negated and t == "bf16x2")  # whose negation stays
    bits = 8 * np.dtype(dtype).itemsize
    row = f"b{bits}"
    if fused is None:  # a product that is limited to 1 stays so
        lost = {"f32": -(2.0**-11), "f16": -(2.0**-5), "f16x2": 0xA800A800}[t]
    minus = f"neg.{'ftz.' if '.ftz' in sum_ else ''}{t} %y, %y; neg.{'ftz.' if '.ftz' in sum_ else ''}{t} %y, %y;"
    body = f"""
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd1, %r1, {bits // 8};
    ld.param.u64 %rd2, [out];
    cvta.to.global.u64 %rd2, %rd2;
    add.s64 %rd3, %rd2, %rd1;
    .reg .{row} %x, %y, %z;
    ld.global.{row} %x, [%rd3];
    mov.{row} %z, {square};
    {product} %y, %x, %x;
    {minus if negated else ""}
    {sum_} %y, %y, %z;
    st.global.{row} [%rd3], %y;
    """
    out = np.full(32, x, dtype)
    assert run(body, out).verdict == "verified"
    assert out.tolist() == [lost if fused is not False else 0] * 32
    out = np.full(32, x, dtype)
    assert run(body, out, fma=False).verdict == "verified"
    assert out.tolist() == [lost if fused is None else 0] * 32


def test_code_for_a_debugger_is_not_contracted():
    body = "ld.global.f32 %f1, [%rd3]; mul.f32 %f2, %f1, %f1; sub.f32 %f3, %f2, 0f3F801000; st.global.f32 [%rd3], %f3;"
    written = text(INDEX + body).replace(".target sm_90", ".target sm_90, debug")
    out = np.full(32, 1 + 2.0**-12, np.float32)
    assert wsemu.check(wsemu.load_ptx(written)["k"], 1, 32, [out]).verdict == "verified"
    assert out.tolist() == [0.0] * 32


# -- memory ----------------------------------------------------------------------------------------------------------
def test_loads_extend_by_the_type_they_name():
    data = np.array([0x80, 0xFF, 0x01, 0x90], np.uint8)
    body = """
    ld.param.u64 %rd4, [data];
    ld.global.s8 %r2, [%rd4];
    ld.global.u8 %rs1, [%rd4+1];
    ld.global.s16 %r3, [%rd4+2];
    cvt.u32.u16 %r4, %rs1;
    add.s32 %r5, %r2, %r3;
    add.s32 %r5, %r5, %r4;
    st.global.u32 [%rd3], %r5;
    """
    expected = -128 + 255 + int(np.int16(np.uint16(0x9001)))
    assert result(body, data, parameters=".param .u64 out, .param .u64 data") == [expected] * 32


def test_vectors():
    data = np.arange(4, dtype=np.float32)
    body = """
    ld.param.u64 %rd4, [data];
    ld.global.v4.f32 {%f1, %f2, _, %f4}, [%rd4];
    add.f32 %f1, %f1, %f2;
    add.f32 %f1, %f1, %f4;
    st.global.f32 [%rd3], %f1;
    """
    assert result(body, data, parameters=".param .u64 out, .param .u64 data", dtype=np.float32) == [4.0] * 32


def test_elements_of_a_vector_have_two_names() -> None:
    body = """
    .reg .v4 .u32 %v;
    mov.u32 %v.r, 1; mov.u32 %v.y, 2; mov.u32 %v.b, 4; mov.u32 %v.w, 8;
    add.u32 %r2, %v.x, %v.g; add.u32 %r2, %r2, %v.z; add.u32 %r2, %r2, %v.a; mad.lo.u32 %r2, %r1, WARP_SZ / 2, %r2;
    st.global.u32 [%rd3 + 4 * (2 - 2)], %r2;
"""
    assert result(body) == [15 + 16 * t for t in range(32)]


def test_vector_of_one_register_twice():
    body = "shl.b32 %r2, %r1, 1;\nand.b32 %r3, %r1, 1;\nsetp.eq.u32 %p1, %r3, 0;\n"
    body += "@%p1 st.global.v2.u32 [%rd3], {%r2, %r2};"
    assert result(body) == [2 * (n - n % 2) for n in range(32)]


def test_shared_memory_by_offset_and_by_generic_address():
    body = """
    .shared .align 4 .b8 pad[12];
    .shared .align 16 .b8 tile[128];
    mov.u32 %r2, tile;
    shl.b32 %r3, %r1, 2;
    add.s32 %r4, %r2, %r3;
    st.shared.u32 [%r4], %r1;
    mov.u64 %rd4, pad;
    st.shared.u32 [%rd4+8], 7;
    bar.warp.sync -1;
    cvt.u64.u32 %rd5, %r4;
    cvta.shared.u64 %rd6, %rd5;
    ld.u32 %r5, [%rd6];
    cvta.to.shared.u64 %rd7, %rd6;
    cvt.u32.u64 %r6, %rd7;
    ld.shared.u32 %r7, [%r6];
    ld.shared.u32 %r8, [pad+8];
    add.s32 %r9, %r5, %r7;
    add.s32 %r9, %r9, %r8;
    st.global.u32 [%rd3], %r9;
    """
    assert result(body) == [2 * n + 7 for n in range(32)]


def test_a_negative_offset_from_a_shared_address():
    body = """
    .shared .align 4 .b8 tile[128];
    mov.u32 %r2, tile;
    shl.b32 %r3, %r1, 2;
    add.s32 %r4, %r2, %r3;
    st.shared.u32 [%r4], %r1;
    bar.sync 0;
    add.s32 %r5, %r4, -128;
    ld.shared.u32 %r6, [%r5+128];
    st.global.u32 [%rd3], %r6;
    """
    assert result(body) == list(range(32))


def test_dynamic_shared_memory_begins_after_the_static_one():
    body = """
    .shared .align 4 .b32 one;
    mov.u32 %r2, dynamic;
    shl.b32 %r3, %r1, 2;
    add.s32 %r4, %r2, %r3;
    st.shared.u32 [%r4], %r1;
    st.shared.u32 [one], 5;
    ld.shared.u32 %r5, [%r4];
    mov.u32 %r6, same;
    sub.s32 %r6, %r6, %r2;
    add.s32 %r5, %r5, %r6;
    st.global.u32 [%rd3], %r5;
    """
    outside = ".extern .shared .align 16 .b8 dynamic[];\n.extern .shared .align 4 .b8 same[];"
    assert result(body, outside=outside, dynamic_shared=128) == list(range(32))


def test_local_memory_belongs_to_the_thread():
    body = """
    .local .align 8 .b8 depot[16];
    mov.u64 %rd4, depot;
    cvta.local.u64 %rd5, %rd4;
    st.u32 [%rd5+4], %r1;
    st.local.u32 [%rd4+8], 3;
    ld.local.u32 %r2, [depot+4];
    ld.local.u32 %r3, [%rd4+8];
    add.s32 %r2, %r2, %r3;
    st.global.u32 [%rd3], %r2;
    """
    assert result(body) == [n + 3 for n in range(32)]


PADDED = """
    .local .align 8 .b8 depot[16];
    st.local.u32 [depot], %r1;
    {}
    ld.local.v2.u32 {{%r2, %r3}}, [depot];
    st.global.u32 [%rd3], %r2;
    """
BOTH = PADDED + "st.global.u32 [%rd3], %r3;"


@pytest.mark.parametrize("mask", ["15", "0xF", "1"])
def test_bytes_that_are_not_used_may_be_unwritten(mask):
    assert result(PADDED.format(f'.pragma "used_bytes_mask {mask}";')) == list(range(32))


@pytest.mark.parametrize("pragma", ["", '.pragma "used_bytes_mask 31";', '.pragma "nounroll", "used_bytes_mask 0xF0";'])
def test_bytes_that_reach_memory_must_be_written(pragma):
    for engine in ("vm", "reference"):
        assert codes(run(INDEX + BOTH.format(pragma), np.zeros(32, np.int32), engine=engine)) == {"uninitialized-read"}
        assert result(PADDED.format(pragma)) == list(range(32))  # nothing uses what it loads


def test_used_bytes_are_those_of_the_next_instruction():
    body = PADDED.format('.pragma "used_bytes_mask 15";') + "ld.local.u32 %r4, [depot+4];st.global.u32 [%rd3], %r4;"
    assert codes(run(INDEX + body, np.zeros(32, np.int32))) == {"uninitialized-read"}


def test_a_bank_conflict_of_accesses_through_pointers_is_explained():
    body = """
    .shared .align 4 .b8 tile[2048];
    mov.u32 %r2, tile;
    cvt.u64.u32 %rd4, %r2;
    cvta.shared.u64 %rd4, %rd4;
    shl.b32 %r3, %r1, 6;
    cvt.u64.u32 %rd5, %r3;
    add.s64 %rd4, %rd4, %rd5;
    setp.ge.u32 %p1, %r1, 32;
    {.reg .b64 %other; selp.b64 %other, %rd3, %rd4, 0; st.u32 [%other], %r1;}
    """
    (found,) = run(INDEX + body.replace(", 0;", ", %p1;"), np.zeros(32, np.int32)).findings
    assert (found.code, found.factor) == ("bank-conflict", 16)


def test_unwritten_and_outside():
    body = ".shared .align 4 .b8 tile[64];\nmov.u32 %r2, tile;\nld.shared.u32 %r3, [%r2{}];\nst.global.u32 [%rd3], %r3;"
    out = np.zeros(32, np.int32)
    assert "uninitialized-read" in codes(run(INDEX + body.format(""), out))
    assert "out-of-bounds" in codes(run(INDEX + body.format("+64"), out))
    assert "out-of-bounds" in codes(run(INDEX + body.format("+-4"), out))
    assert "misaligned" in codes(run(INDEX + body.format("+2"), out))


def test_constants_and_variables_of_the_module():
    outside = """
    .visible .const .align 4 .b8 table[16] = {1, 0, 0, 0, 2, 0, 0, 0, 3};
    .visible .global .align 4 .u32 counter = 5;
    .global .align 4 .f32 half = 0f3F000000;
    """
    body = """
    ld.const.u32 %r2, [table+8];
    mov.u64 %rd4, table;
    ld.const.u32 %r3, [%rd4+4];
    add.s32 %r2, %r2, %r3;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra $end;
    ld.global.u32 %r4, [counter];
    add.s32 %r4, %r4, %r2;
    st.global.u32 [counter], %r4;
    ld.global.u32 %r2, [counter];
    $end:
    st.global.u32 [%rd3], %r2;
    """
    kernel = wsemu.load_ptx(text(INDEX + body, outside=outside))["k"]
    for _ in range(2):  # every launch begins with the initial value
        out = np.zeros(32, np.int32)
        assert wsemu.check(kernel, 1, 32, (out,)).verdict == "verified"
        assert out.tolist() == [10] + [5] * 31


def test_findings_name_variables_of_the_module():
    outside = ".global .align 4 .b8 total[8];\n.const .align 4 .b8 fixed[4];"
    report = run("mov.u32 %r1, %tid.x;\nst.global.u32 [total+4], %r1;", parameters="", outside=outside)
    (finding,) = report.findings
    assert "total[1]" in finding.message
    report = run("st.global.u32 [fixed], 1;", parameters="", outside=outside)
    assert report.verdict == "failed"


def test_state_spaces_of_generic_addresses():
    body = """
    .shared .align 4 .b32 one;
    .local .align 4 .b32 mine;
    mov.u64 %rd4, one;
    cvta.shared.u64 %rd4, %rd4;
    mov.u64 %rd5, mine;
    cvta.local.u64 %rd5, %rd5;
    isspacep.shared %p1, %rd4;
    isspacep.local %p2, %rd5;
    isspacep.global %p3, %rd2;
    isspacep.global %p4, %rd4;
    selp.u32 %r2, 1, 0, %p1;
    selp.u32 %r3, 2, 0, %p2;
    selp.u32 %r4, 4, 0, %p3;
    selp.u32 %r5, 8, 0, %p4;
    add.s32 %r2, %r2, %r3;
    add.s32 %r2, %r2, %r4;
    add.s32 %r2, %r2, %r5;
    st.global.u32 [%rd3], %r2;
    """
    assert result(body) == [7] * 32


def test_structures_by_value():
    body = """
    ld.param.f32 %f1, [s+4];
    ld.param.v2.u8 {%rs1, %rs2}, [s+8];
    ld.param.s16 %r2, [s+10];
    cvt.rzi.s32.f32 %r3, %f1;
    cvt.u32.u16 %r4, %rs2;
    add.s32 %r3, %r3, %r4;
    add.s32 %r3, %r3, %r2;
    mov.b64 %rd4, s;
    ld.param.u32 %r5, [%rd4];
    add.s32 %r3, %r3, %r5;
    st.global.u32 [%rd3], %r3;
    """
    value = np.zeros((), np.dtype([("i", "i4"), ("f", "f4"), ("b", "u1", 2), ("h", "i2")]))
    value["i"], value["f"], value["b"], value["h"] = 1000, 7.0, (3, 5), -2
    assert result(body, value[()], parameters=".param .u64 out, .param .align 4 .b8 s[12]") == [1010] * 32


# -- atomics, fences -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text_", "expected"),
    [
        ("red.global.add.u32 [%rd2], 2;", 64),
        ("red.global.add.s32 [%rd2], %r1;", 496),
        ("atom.global.max.s32 %r2, [%rd2], %r1;", 31),
        ("atom.global.gpu.relaxed.or.b32 %r2, [%rd2], %r1;", 31),
        ("atom.acq_rel.gpu.global.add.u32 _, [%rd2], 1;", 32),
        ("@%p1 red.add.u32 [%rd2], 1;", 16),
    ],
)
def test_atomics(text_, expected):
    out = np.zeros(32, np.int32)
    report = run(INDEX + "setp.lt.u32 %p1, %r1, 16;\n" + text_, out)
    assert report.verdict == "verified", report.findings
    assert out[0] == expected


def test_exchange_and_swap():
    body = "atom.global.cas.b32 %r2, [%rd3], 0, 9;\natom.global.exch.b32 %r3, [%rd3], 4;\nadd.s32 %r3, %r3, %r2;\n"
    out = np.zeros(32, np.int32)
    assert run(INDEX + body + "st.global.u32 [%rd3], %r3;", out).verdict != "failed"
    assert out.tolist() == [9] * 32


def test_strong_accesses_are_atomics():
    body = """
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra $end;
    mov.u32 %r2, %ctaid.x;
    setp.ne.u32 %p2, %r2, 0;
    @%p2 bra $reader;
    st.global.u32 [%rd2], 42;
    st.release.gpu.global.u32 [%rd2+4], 1;
    bra $end;
    $reader:
    ld.acquire.gpu.global.u32 %r3, [%rd2+4];
    setp.eq.u32 %p3, %r3, 0;
    @%p3 bra $end;
    ld.global.u32 %r4, [%rd2];
    st.global.u32 [%rd2+8], %r4;
    $end:
    """
    out = np.zeros(32, np.int32)
    report = run(INDEX + body, out, grid=2)
    assert report.verdict == "verified"  # whether the reader sees the flag is up to the schedule: all orders are tried
    assert not report.errors
    assert out[:3].tolist() == [42, 1, 42]


HISTOGRAM = """
    .shared .align 4 .b8 bins[64];
    .shared .align 4 .b8 keys[128];
    mov.u32 %r2, bins;
    mov.u32 %r3, keys;
    shl.b32 %r4, %r1, 2;
    add.s32 %r5, %r3, %r4;
    and.b32 %r6, %r4, 63;
    st.shared.u32 [%r5], %r6;
    setp.gt.u32 %p1, %r1, 15;
    @%p1 bra $filled;
    add.s32 %r7, %r2, %r4;
    st.shared.u32 [%r7], 0;
    $filled:
    bar.sync 0;
    ld.shared.u32 %r8, [{steers}];
    and.b32 %r8, %r8, 60;
    add.s32 %r9, %r2, %r8;
    atom.shared.add.u32 %r10, [%r9], 1;
    st.global.u32 [%rd3], {stored};
"""


@pytest.mark.parametrize(
    ("steers", "stored", "verdict"),
    [
        ("%r5", "%r8", "verified"),  # the keys say where, and no atomic is on them
        ("%r7", "%r8", "failed"),  # the counts say where
        ("%r5", "%r10", "verified"),
    ],
)
def test_atomics_that_steer(steers, stored, verdict):
    report = run(INDEX + HISTOGRAM.format(steers=steers, stored=stored), np.zeros(32, np.int32))
    assert report.verdict == verdict, (report.findings, report.notes)


@pytest.mark.usefixtures("few_samples")
@pytest.mark.parametrize(("made", "verdict"), [("", "verified"), ("xor.b32 %r2, %r2, 1;", "verified")])
def test_an_address_from_an_atomic_is_decided_where_it_is_a_place_of_its_own(made, verdict):
    body = f"""
    atom.global.add.u32 %r2, [%rd2], 1;
    bar.sync 0;
    {made}
    mul.wide.u32 %rd4, %r2, 4;
    add.s64 %rd5, %rd2, %rd4;
    st.global.u32 [%rd5+4], %r1;
    """
    report = run(INDEX + body, np.zeros(33, np.int32))
    assert report.verdict == verdict
    assert not report.errors


# -- control flow ----------------------------------------------------------------------------------------------------
def test_guards_keep_the_old_value():
    body = "mov.u32 %r2, 5;\nsetp.lt.u32 %p1, %r1, 8;\n@!%p1 add.s32 %r2, %r1, 1;\nst.global.u32 [%rd3], %r2;"
    assert result(body) == [5 if n < 8 else n + 1 for n in range(32)]


def test_guarded_stores_and_exits():
    body = "setp.lt.u32 %p1, %r1, 8;\n@%p1 exit;\nst.global.u32 [%rd3], 1;\nsetp.lt.u32 %p1, %r1, 16;\n@!%p1 ret;\n"
    assert result(body + "st.global.u32 [%rd3], 2;") == [0] * 8 + [2] * 8 + [1] * 16


def test_loops():
    body = """
    mov.u32 %r2, 0;
    mov.u32 %r3, 0;
    $loop:
    setp.ge.u32 %p1, %r3, %r1;
    @%p1 bra $done;
    add.s32 %r2, %r2, %r3;
    add.s32 %r3, %r3, 1;
    bra.uni $loop;
    $done:
    st.global.u32 [%rd3], %r2;
    """
    assert result(body) == [n * (n - 1) // 2 for n in range(32)]


def test_a_jump_into_a_loop():
    body = """
    mov.u32 %r2, 0;
    mov.u32 %r3, 0;
    and.b32 %r4, %r1, 1;
    setp.eq.u32 %p1, %r4, 0;
    @%p1 bra $middle;
    $top:
    add.s32 %r2, %r2, 10;
    $middle:
    add.s32 %r2, %r2, 1;
    add.s32 %r3, %r3, 1;
    setp.lt.u32 %p2, %r3, 3;
    @%p2 bra $top;
    st.global.u32 [%rd3], %r2;
    """
    assert result(body) == [23 if n % 2 == 0 else 33 for n in range(32)]


def test_a_value_of_the_iteration_before():
    # %r4 is assigned once, but not before each of its uses
    body = """
    mov.u32 %r2, 0;
    mov.u32 %r5, 0;
    $top:
    add.s32 %r3, %r5, 100;
    setp.eq.u32 %p1, %r5, 0;
    @%p1 bra $first;
    add.s32 %r2, %r2, %r4;
    $first:
    mov.u32 %r4, %r3;
    add.s32 %r5, %r5, 1;
    setp.lt.u32 %p2, %r5, 4;
    @%p2 bra $top;
    st.global.u32 [%rd3], %r2;
    """
    assert result(body) == [100 + 101 + 102] * 32


def test_a_table_of_branches():
    body = """
    and.b32 %r2, %r1, 3;
    $table: .branchtargets $a, $b, $c, $c;
    brx.idx %r2, $table;
    $a: mov.u32 %r3, 10;
    bra $end;
    $b: mov.u32 %r3, 20;
    bra $end;
    $c: mov.u32 %r3, 30;
    $end:
    st.global.u32 [%rd3], %r3;
    """
    assert result(body) == [(10, 20, 30, 30)[n % 4] for n in range(32)]


def test_labels_belong_to_their_block():
    part = "{ .reg .b32 %t; setp.eq.u32 %p1, %r1, 0; @%p1 bra L; mov.u32 %t, 1; add.s32 %r2, %r2, %t; L: }\n"
    assert result("mov.u32 %r2, 0;\n" + part + part + "st.global.u32 [%rd3], %r2;") == [0] + [2] * 31


# -- barriers --------------------------------------------------------------------------------------------------------
def test_barriers_and_reductions():
    body = """
    setp.lt.u32 %p1, %r1, 40;
    bar.red.popc.u32 %r2, 0, %p1;
    barrier.red.popc.aligned.u32 %r3, 1, 64, !%p1;
    bar.red.or.pred %p2, 0, %p1;
    bar.cta.red.and.pred %p3, 0, %p1;
    selp.u32 %r4, 1000, 0, %p2;
    selp.u32 %r5, 10000, 0, %p3;
    mad.lo.s32 %r2, %r3, 100, %r2;
    add.s32 %r2, %r2, %r4;
    add.s32 %r2, %r2, %r5;
    st.global.u32 [%rd3], %r2;
    """
    assert result(body, block=64) == [40 + 2400 + 1000] * 64


HANDOVER = """
    .shared .align 4 .b8 tile[128];
    and.b32 %r2, %r1, 31;
    shl.b32 %r3, %r2, 2;
    mov.u32 %r4, tile;
    add.s32 %r4, %r4, %r3;
    setp.lt.u32 %p1, %r1, 32;
    @%p1 bra $consumer;
    st.shared.u32 [%r4], %r2;
    bar.arrive 1, {count};
    bra $end;
    $consumer:
    bar.sync 1, 64;
    ld.shared.u32 %r5, [%r4];
    st.global.u32 [%rd3], %r5;
    $end:
    ret;
"""


def test_producer_and_consumer():
    assert result(HANDOVER.replace("{count}", "64"), block=64) == [*range(32), *[0] * 32]


def test_wrong_counts_are_found():
    report = run(INDEX + HANDOVER.replace("{count}", "96"), np.zeros(64, np.int32), block=64)
    assert "count-mismatch" in codes(report)


def test_a_missing_barrier_is_a_race_by_name_and_element():
    body = HANDOVER.replace("bar.arrive 1, {count};", "").replace("bar.sync 1, 64;", "")
    found = {finding.code: finding.message for finding in run(INDEX + body, np.zeros(64, np.int32), block=64).errors}
    assert "race" in found
    assert "`tile[0]`" in found["race"]


# -- calls -----------------------------------------------------------------------------------------------------------
CALLEE = """
.func (.param .b32 result) twice(.param .b32 a, .param .align 4 .b8 s[8])
{
    .reg .b32 %r<9>;
    .reg .pred %p<2>;
    .reg .b16 %rs<3>;
    ld.param.u32 %r1, [a];
    ld.param.u16 %rs1, [s+6];
    ld.param.b32 %r3, [s];
    cvt.u32.u16 %r2, %rs1;
    setp.lt.s32 %p1, %r1, 4;
    @%p1 bra $small;
    add.s32 %r1, %r1, %r2;
    add.s32 %r1, %r1, %r3;
    st.param.b32 [result+0], %r1;
    ret;
    $small:
    mov.u32 %r1, -1;
    st.param.b32 [result], %r1;
    ret;
}
"""
CALL = """
    mov.u32 %r5, 0;
    setp.ge.u32 %p2, %r1, 2;
    {
    .param .b32 p0;
    st.param.b32 [p0+0], %r1;
    .param .align 4 .b8 p1[8];
    st.param.v2.b16 [p1], {%rs1, %rs1};
    st.param.b32 [p1+4], 0x00640007;
    .param .b32 r0;
    GUARD call.uni (r0), twice, (p0, p1);
    ld.param.b32 %r6, [r0+0];
    }
    GUARD mov.b32 %r5, %r6;
    st.global.u32 [%rd3], %r5;
"""


def test_calls_pass_bytes():
    body = "mov.u16 %rs1, 1;\n" + CALL.replace("GUARD", "")
    assert result(body, outside=CALLEE) == [-1 if n < 4 else n + 100 + 0x10001 for n in range(32)]


def test_guarded_calls():
    body = "mov.u16 %rs1, 0;\n" + CALL.replace("GUARD", "@%p2")
    expected = [0 if n < 2 else -1 if n < 4 else n + 100 for n in range(32)]
    assert result(body, outside=CALLEE) == expected


def test_functions_with_registers_as_parameters():
    outside = ".func (.reg .b32 %q) half(.reg .b32 %a) { shr.u32 %q, %a, 1; ret; }"
    assert result("call (%r2), half, (%r1);\nst.global.u32 [%rd3], %r2;", outside=outside) == [
        n // 2 for n in range(32)
    ]


def test_calls_in_findings():
    outside = ".func f(.param .b64 p) { .reg .b64 %rd<2>; ld.param.u64 %rd1, [p]; st.global.u32 [%rd1], 1; ret; }"
    body = "{ .param .b64 p; add.s64 %rd3, %rd2, 4096; st.param.b64 [p], %rd3; call f, (p); }"
    report = run(INDEX + body, np.zeros(32, np.int32), outside=outside)
    (finding,) = report.errors
    assert finding.code == "out-of-bounds"
    assert any(site.text == "called from here" for site in finding.sites)


EXTERNAL = """
.extern .func (.param .b32 result) vprintf(.param .b64 a, .param .b64 b);
.extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e) .noreturn;
.extern .func elsewhere();
.func forever() { call forever; ret; }
.global .align 1 .b8 message[4] = {37, 100, 10, 0};
"""


FORMATS = """
.extern .func (.param .b32 result) vprintf(.param .b64 a, .param .b64 b);
.global .align 1 .b8 odd[12] = {111, 100, 100, 32, 37, 100, 32, 37, 46, 49, 102, 10};
.global .align 1 .b8 end[1];
.global .align 1 .b8 even[6] = {101, 118, 101, 110, 10};
"""


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_threads_print_by_the_format_that_each_passes(engine, capsys):
    body = """
    .local .align 8 .b8 values[16];
    .reg .f64 %d;
    setp.gt.u32 %p1, %r1, 2;
    @%p1 bra $done;
    mov.u64 %rd4, odd;
    cvta.global.u64 %rd4, %rd4;
    mov.u64 %rd5, even;
    cvta.global.u64 %rd5, %rd5;
    and.b32 %r2, %r1, 1;
    setp.ne.u32 %p1, %r2, 0;
    selp.b64 %rd7, %rd4, %rd5, %p1;
    st.local.u32 [values], %r1;
    mov.f64 %d, 0d3FF8000000000000;
    st.local.f64 [values+8], %d;
    mov.u64 %rd6, values;
    cvta.local.u64 %rd6, %rd6;
    { .param .b64 p0; st.param.b64 [p0+0], %rd7; .param .b64 p1; st.param.b64 [p1+0], %rd6; .param .b32 r;
    call.uni (r), vprintf, (p0, p1);
    ld.param.b32 %r2, [r]; }
    st.global.u32 [%rd3], %r2;
    $done:
    """
    out = np.full(32, -1, np.int32)
    report = run(INDEX + body, out, outside=FORMATS.replace("[12]", "[13]"), engine=engine)
    assert report.verdict == "verified", str(report)
    assert out.tolist() == [0, 2, 0] + [-1] * 29
    assert sorted(capsys.readouterr().out.splitlines()) == ["even", "even", "odd 1 1.5"]


def test_a_failed_assertion_ends_the_thread():
    body = """
    setp.lt.u32 %p1, %r1, 30;
    @%p1 bra $good;
    { .param .b64 a; st.param.b64 [a], 0; .param .b32 c; st.param.b32 [c], 1;
    call.uni __assertfail, (a, a, c, a, a); }
    $good:
    st.global.u32 [%rd3], 1;
    """
    for engine in ("vm", "reference"):
        out = np.zeros(32, np.int32)
        report = run(INDEX + body, out, outside=EXTERNAL, engine=engine)
        assert (report.verdict, [finding.code for finding in report.errors]) == ("failed", ["failed-assertion"])
        assert report.errors[0].sites[0].text == "failed by warp 0, lanes 30-31"
        assert report.errors[0].notes == ["on a GPU the launch ends with an error here"]
        assert out.tolist() == [1] * 30 + [0] * 2


def test_a_failed_assertion_where_the_kernel_ends_is_told():
    body = """
    setp.lt.u32 %p1, %r1, 30;
    @%p1 bra $good;
    { .param .b64 a; st.param.b64 [a], 0; .param .b32 c; st.param.b32 [c], 1;
    call.uni __assertfail, (a, a, c, a, a); }
    $good:
    ret;
    """
    (finding,) = run(INDEX + body, np.zeros(32, np.int32), outside=EXTERNAL).errors
    assert finding.code == "failed-assertion"


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_a_trap_ends_the_launch_with_an_error(engine):
    body = "setp.lt.u32 %p1, %r1, 30; @%p1 bra $good; trap; $good: st.global.u32 [%rd3], 1;"
    report = run(INDEX + body, np.zeros(32, np.int32), engine=engine)
    (finding,) = report.errors
    assert (report.verdict, finding.code) == ("failed", "failed-assertion")
    assert (finding.message, finding.sites[0].text) == ("warp 0 executes `trap`", "executed by warp 0, lanes 30-31")


ADDRESSES = """
.const .u32 first[2] = {10, 20};
.global .u32 second[2] = {30, 40};
.global .u64 table[3] = {generic(first)+4, second, 7};
.const .u64 tables[2] = {table, generic(tables)};
"""


def test_initial_values_that_are_addresses():
    body = """
    ld.const.u64 %rd4, [tables+8];
    ld.u64 %rd4, [%rd4];
    ld.u64 %rd5, [%rd4];
    ld.u64 %rd6, [%rd4+8];
    ld.u64 %rd7, [%rd4+16];
    ld.u32 %r2, [%rd5];
    ld.u32 %r3, [%rd6];
    cvt.u32.u64 %r4, %rd7;
    add.u32 %r2, %r2, %r3;
    add.u32 %r2, %r2, %r4;
    st.global.u32 [%rd3], %r2;
    """
    assert result(body, outside=ADDRESSES) == [20 + 30 + 7] * 32


def test_an_access_beyond_a_variable_whose_address_was_loaded():
    body = "ld.global.u64 %rd4, [table+8]; ld.u32 %r2, [%rd4+8]; st.global.u32 [%rd3], %r2;"
    report = run(INDEX + body, np.zeros(32, np.int32), outside=ADDRESSES)
    assert codes(report) == {"out-of-bounds"}
    assert "second" in repr(report.findings)


def test_registers_of_vector_type():
    body = """
    .reg .v4 .u32 %v, %w;
    mov.v4.u32 %v, %tid;
    mov.v4.u32 {%r2, %r3, %r4, %r5}, %ntid;
    mov.v4.u32 %w, %v;
    mov.u32 %w.y, %r2;
    .local .align 16 .b8 room[16];
    st.local.v4.u32 [room], %w;
    ld.local.v4.u32 %v, [room];
    add.u32 %r6, %v.x, %v.y;
    mov.u32 %r7, %tid.w;
    add.u32 %r6, %r6, %r7;
    st.global.u32 [%rd3], %r6;
    """
    assert result(body) == [t + 32 for t in range(32)]


# -- clocks ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["%clock", "%clock64", "%globaltimer", "%globaltimer_lo", "%smid"])
def test_a_clock_may_be_stored(name):
    type_ = "b64" if name in ("%clock64", "%globaltimer") else "b32"
    body = f"""
    .reg .{type_} %x;
    mov.{type_} %x, {name};
    st.global.{type_} [%rd2], %x;
    """
    for engine in ("vm", "reference"):
        report = run(INDEX + "setp.ne.u32 %p1, %r1, 0; @%p1 ret;" + body, np.zeros(2, np.int32), engine=engine)
        assert report.verdict == "verified"
        what = "multiprocessor" if name == "%smid" else "clock"
        (note,) = [note for note in report.notes if what in note]
        assert "which is not that of a GPU, nor is what is left in `out`" in note


def test_a_clock_rises():
    assert result("mov.u32 %r2, %clock; mov.u32 %r3, %clock; setp.gt.u32 %p1, %r3, %r2; selp.u32 %r4, 1, 0, %p1;"
                  "st.global.u32 [%rd3], %r4;") == [1] * 32  # fmt: skip


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("setp.gt.u32 %p1, %r2, 5; @%p1 bra $on; st.global.u32 [%rd3], 1; $on:", "exit"),
        ("and.b32 %r2, %r2, 0; cvt.u64.u32 %rd4, %r2; add.s64 %rd3, %rd3, %rd4; st.global.u32 [%rd3], 1;", "address"),
        ("$on: mov.u32 %r3, %clock; sub.u32 %r3, %r3, %r2; setp.lt.u32 %p1, %r3, 90000; @%p1 bra $on;", "exit"),
    ],
)
def test_what_a_clock_steers_is_not_decided(body, what):
    for engine in ("vm", "reference"):
        report = run(INDEX + "mov.u32 %r2, %clock;" + body, np.zeros(32, np.int32), engine=engine, budget=100_000)
        assert report.verdict == "incomplete"
        assert report.reasons == ["clocks"]
        assert f"the {what} depends on the clock read on line" in repr(report.notes)


# -- what is not modelled --------------------------------------------------------------------------------------------
UNSUPPORTED = [
    ("call elsewhere;", "the call of `elsewhere`, which is defined elsewhere,"),
    ("call %rd1, ();", "a call through a register without `.callprototype` or `.calltargets`"),
    ("cp.async.bulk.tensor.3d.global.shared::cta.im2col_no_offs::w.bulk_group [%rd1, {%r1, %r1, %r1}], [%r1];",
     "`cp.async.bulk.tensor.3d.global.shared::cta.im2col_no_offs::w.bulk_group`"),
    ("tcgen05.shift.cta_group::1.down [%r1];", "`tcgen05.shift.cta_group::1.down`"),
    ("tex.cube.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f5, %f6, %f7, %f8}];",
     "`tex.cube.v4.f32.f32` with these operands"),
    ("atom.global.add.f16x2 %r2, [%rd3], %r1;", "`atom.global.add.f16x2`"),
    ("barrier.cluster.sync;", "`barrier.cluster.sync`"),
    ("mov.u64 %rd4, table;", "the initial value of `table`, which holds an address,"),
    ("ld.global.u32 %r2, [far];", "`far`, which is defined elsewhere,"),
    ("frobnicate.f32 %f1;", "`frobnicate.f32`"),
]  # fmt: skip
TABLE = ".extern .global .u32 far;\n.global .u64 table[2] = {far, 0};\n"


@pytest.mark.parametrize(("instruction", "name"), UNSUPPORTED)
def test_reached(instruction, name):
    report = run(
        INDEX + f"setp.eq.u32 %p1, %r1, 0;\n@%p1 {instruction}\n", np.zeros(32, np.int32), outside=EXTERNAL + TABLE
    )
    assert report.verdict == "incomplete"
    assert any(f"{name} is not modelled" in note for note in report.notes), report.notes


@pytest.mark.parametrize(("instruction", "name"), UNSUPPORTED)
def test_not_reached(instruction, name):
    body = f"setp.gt.u32 %p1, %r1, 99;\n@%p1 {instruction}\nst.global.u32 [%rd3], 1;"
    assert result(body, outside=EXTERNAL + TABLE) == [1] * 32


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("mov.u32 %r99, 1;", "`%r99` is not declared"),
        ("mov.u32 %r1, %nope;", "`%nope` is not declared"),
        ("bra $nowhere;", "there is no label `$nowhere` in this function"),
        ("ld.global.u32 %r1, %rd1;", "an address belongs here"),
        ("ld.nc.u32 %r1, [%rd1];", "`.nc` requires `.global`"),
        ("ld.shared.nc.u32 %r1, [%rd1];", "`.nc` requires `.global`"),
        ("ld.global %r1, [%rd1];", "names no type"),
        ("ld.global.u32 %r1, [%r2];", "`%r2` has 32 bits: no address of this space"),
        ("ld.global.v2.u32 %r1, [%rd1];", "a vector of 2 belongs here"),
        ("ld.global.v2.u32 {%r1}, [%rd1];", "1 elements where 2 belong"),
        ("st.param.u32 [out], %r1;", "`out` is read-only"),
        ("atom.global.add.u32 %r1, [%rd1];", "has too few operands"),
        ("bar.sync;", "`bar.sync` has too few operands"),
        ("call f, (%r1);", "`f` has 0 arguments, not 1"),
        ("call;", "`call` names no function"),
        (".reg .b32 %many<99999999>;", "registers in a kernel with the functions that it calls: at most 1,048,576"),
        (".local .b8 depot[999999];", "`depot` needs 999,999 bytes of .local: at most 524,288"),
        (".param .b8 s[99999];", "`s` needs 99,999 bytes of .param"),
    ],
)
def test_errors(body, message):
    with pytest.raises(KernelError) as caught:
        program(body, outside=".func f() { ret; }")
    assert message in caught.value.message
    span = caught.value.span
    assert span is not None
    assert span.file == "k.ptx"
    line = text(body, outside=".func f() { ret; }").splitlines()[span.line - 1]
    assert line == body


def test_addresses_of_32_bits():
    module = parse(".version 8.4\n.target sm_50\n.address_size 32\n.entry k() { ret; }", "k.ptx")
    with pytest.raises(KernelError, match="addresses of 32 bits"):
        compile_entry(module, module.entries["k"], ())


# -- what instructions carry for reports -----------------------------------------------------------------------------
def test_accesses_carry_the_array_they_go_to():
    body = INDEX + (
        ".shared .align 4 .b8 tile[128];\nmov.u32 %r2, tile;\nshl.b32 %r3, %r1, 2;\nadd.s32 %r4, %r2, %r3;\n"
        "ld.global.f32 %f1, [%rd3];\nst.shared.f32 [%r4], %f1;\n"
        "selp.b64 %rd5, %rd3, %rd9, %p1;\nld.u32 %r5, [%rd5];\nst.global.u32 [%rd9], %r5;\n"
    )
    found = program(body)
    named = [(found.array_of[pc], found.element_of[pc]) for pc in range(len(found.code)) if found.element_of[pc]]
    assert named == [("out", "float32"), ("tile", "float32"), ("out", "uint32"), (None, "uint32")]
    (tile,) = found.shared
    assert (tile.name, tile.shape, str(tile.dtype)) == ("tile", (32,), "float32")


def test_spans_are_lines_of_the_ptx_without_line_information():
    found = program("mov.u32 %r1, 1;\nbar.sync 0;  // all")
    (span,) = {found.spans[number] for pc, number in enumerate(found.span_of) if pc == 0}
    line = text("mov.u32 %r1, 1;\nbar.sync 0;  // all").splitlines()[span.line - 1]
    assert line[span.column : span.end_column] == "bar.sync 0;"


def test_spans_are_lines_of_the_source_where_it_is_there(tmp_path):
    (tmp_path / "k.cu").write_text("a\nb\n  tile[i] = 1;\nd\n  f(x);\n")
    body = (
        ".loc 1 3 3\nbar.sync 0;\n.loc 1 0 3\nbar.sync 1;\n.loc 2 9 9\nbar.sync 2;\n"
        ".loc 1 3 3, function_name $s, inlined_at 1 5 3\nbar.sync 3;\n"
    )
    module = parse(text(body, parameters="") + '.file 1 "k.cu"\n.file 2 "gone.cu"\n', str(tmp_path / "k.ptx"))
    found = compile_entry(module, module.entries["k"], ())
    places = [(found.spans[number].file.rpartition("/")[2], found.spans[number].line) for number in found.span_of]
    assert places[:2] == [("k.cu", 3)] * 2
    assert places[2][0] == "k.ptx"
    assert places[3] == ("k.cu", 3)
    assert [found.spans[number].line for number in found.stack_of[3]] == [5]


def test_unused_variables_take_no_room():
    found = program("bar.sync 0;", outside=".shared .align 4 .b8 huge[99999999];\n.global .b8 big[99];")
    assert (found.shared_bytes, found.constant_arrays) == (0, [])


def test_lowering_leaves_the_module_as_it_was():
    module = parse(text(INDEX + "st.global.u32 [%rd3], 1;"), "k.ptx")
    first, second = (compile_entry(module, module.entries["k"], ("address",)) for _ in range(2))
    assert first.listing() == second.listing()


def test_a_float_converted_into_a_wider_register_is_extended_with_zeros() -> None:
    text = (
        ".version 8.4\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 out)\n{\n"
        ".reg .b64 %rd<3>, %w;\n"
        "ld.param.u64 %rd1, [out];\ncvta.to.global.u64 %rd1, %rd1;\n"
        "cvt.rn.f16.f32 %w, 0fBF800000;\nmov.b64 %rd2, %w;\nst.global.b64 [%rd1], %rd2;\nret;\n}\n"
    )
    for engine in ("vm", "reference"):
        out = np.full(1, -1, np.int64)
        assert wsemu.check(wsemu.load_ptx(text)["k"], 1, 1, (out,), engine=engine).verdict == "verified"
        assert out[0] == 0xBC00


def test_a_call_passes_as_many_bytes_as_the_function_takes() -> None:
    text = (
        ".version 8.4\n.target sm_90\n.address_size 64\n.func f(.param .b32 a)\n{ ret; }\n"
        ".visible .entry k()\n{\n.param .b16 x;\n.reg .b16 %h;\nmov.b16 %h, 1;\nst.param.b16 [x], %h;\n"
        "call.uni f, (x);\nret;\n}\n"
    )
    with pytest.raises(wsemu.KernelError, match="`x` has 2 bytes, `a` of `f` 4"):
        wsemu.check(wsemu.load_ptx(text)["k"], 1, 1, ())
