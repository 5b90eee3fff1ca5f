"""`wsemu.load_ptx`: kernels by name, arguments by number, size and type, launches, findings in the CUDA source."""

from __future__ import annotations

import ctypes
import linecache
import struct
from pathlib import Path

import numpy as np
import pytest

import wsemu
from wsemu import cuda
from wsemu.frontend.ptx.excerpt import loc_span
from wsemu.launch.ptx.demangle import demangle
from wsemu.launch.ptx.module import EntryError, PtxKernel
from wsemu.launch.words import text as in_cuda
from wsemu.model.errors import KernelError, UsageError

FOLDER = Path(__file__).resolve().parents[1] / "ptx"
FILE = FOLDER / "launching.sm_90.ptx"
SOURCE = FOLDER / "launching.cu"


@pytest.fixture(scope="module")
def module():
    return wsemu.load_ptx(FILE)


def line_of(text: str) -> int:
    return next(n for n, line in enumerate(SOURCE.read_text().splitlines(), 1) if text in line)


# -- names -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("saxpy", "saxpy"),
        ("_Z5scaleIfLi64EEvPT_4Pair", "scale<float, 64>"),
        ("scale<float, 64>", "scale<float, 64>"),
        ("scale<float,64>(float *, Pair)", "scale<float, 64>"),
        ("scale<d", "scale<double, 32>"),
        ("fill(int*)", "fill(int*)"),
        ("deep::inner::reverse", "deep::inner::reverse"),
        ("reverse", "deep::inner::reverse"),
        ("rev", "deep::inner::reverse"),
        ("_ZN4deep", "deep::inner::reverse"),
    ],
)
def test_a_kernel_is_found_by_each_of_its_names(module, name, kernel):
    assert module[name].__name__ == kernel


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("scale", "`scale` is the name of 2 kernels: `scale<float, 64>`, `scale<double, 32>`; give more of the name"),
        ("fill", "`fill` is the name of 2 kernels: `fill(float*)`, `fill(int*)`"),
        ("saxpi", "no kernel `saxpi` in `launching.sm_90.ptx`: did you mean `saxpy`?"),
        ("nothing", "no kernel `nothing` in `launching.sm_90.ptx`: it has `saxpy`, `scale<float, 64>`"),
        ("", "no kernel ``"),
    ],
)
def test_a_name_that_is_none_or_not_one(module, name, words):
    with pytest.raises(EntryError) as caught:
        module[name]
    assert words in str(caught.value)
    assert isinstance(caught.value, (KeyError, UsageError))
    assert name not in module
    assert module.get(name) is None


def test_a_module_is_a_mapping(module):
    assert len(module) == 11
    assert list(module)[:2] == ["saxpy", "_Z5scaleIfLi64EEvPT_4Pair"]
    assert all(isinstance(kernel, PtxKernel) for kernel in module.values())
    assert repr(module).startswith("<PTX launching.sm_90.ptx: `saxpy`, `scale<float, 64>`")
    assert repr(module["saxpy"]) == "<kernel saxpy>"
    with pytest.raises(EntryError, match="has 11 kernels: `saxpy`"):
        module.only()


@pytest.mark.parametrize(
    ("mangled", "name"),
    [
        ("saxpy", "saxpy"),
        ("_Z5scaleIfLi64EEvPT_4Pair", "scale<float, 64>(float*, Pair)"),
        ("_ZN4deep5inner7reverseEPi", "deep::inner::reverse(int*)"),
        ("_Z1fPKfRi", "f(float const*, int&)"),
        ("_Z1fPFivEPA3_d", "f(int (*)(), double (*)[3])"),
        ("_Z1fIJifEEvDpT_", "f<int, float>(int, float)"),
        ("_Z1fIJifEEvDpPT_", "f<int, float>(int*, float*)"),
        ("_Z1fILb1ELin3ELj7EEvv", "f<true, -3, 7u>()"),
        ("_Z1fN1a1bES0_RKS0_", "f(a::b, a::b, a::b const&)"),
        ("_ZN31_GLOBAL__N__4d1c1aab_4_x_cu_0e41kEv", "(anonymous namespace)::k()"),
        ("_Z6kernelIZ4mainEUliE_EvT_", "kernel<main::{lambda(int)#1}>(main::{lambda(int)#1})"),
        ("_ZZ5scaleIfLi64EEvPT_4PairE4tile", "scale<float, 64>(float*, Pair)::tile"),
        (
            "_ZN8__main__5saxpyB2v1E5ArrayIfLi1E1C7mutable7alignedE",
            "__main__::saxpy(Array<float, 1, C, mutable, aligned>)",
        ),
        ("_Z1fDhDF16b", "f(half, std::bfloat16_t)"),
        ("_Z1fSt6vectorIiSaIiEE", "f(std::vector<int, std::allocator<int>>)"),
        ("_Z1fDTfp_E", "_Z1fDTfp_E"),
        ("_Z", "_Z"),
        ("_Z9x", "_Z9x"),
        ("_Z1fI", "_Z1fI"),
        ("_Z1fS_", "_Z1fS_"),
        ("_Z1f" + "P" * 5000 + "i", "_Z1f" + "P" * 5000 + "i"),
        ("_Z1fPFvPFvPFvS0_S0_ES1_S1_E" + "".join(f"PFvS{n}_S{n}_E" for n in range(3, 9)) * 9, None),
    ],
)
def test_demangling(mangled, name):
    made = str(demangle(mangled))
    assert made == (name or mangled) or (name is None and len(made) < 1 << 20)


# -- files -------------------------------------------------------------------------------------------------------------


def test_text_and_files_are_taken_alike(tmp_path):
    text = FILE.read_text()
    from_text = wsemu.load_ptx(text)
    x = np.arange(32, dtype=np.float32)
    y = np.ones_like(x)
    report = wsemu.check(from_text["saxpy"], 1, 32, (x, y, 2, 32))
    assert report.verdict == "verified"
    assert np.array_equal(y, 2 * x + 1)
    assert list(wsemu.load_ptx(str(FILE))) == list(from_text)
    assert from_text.name.startswith("<ptx ")
    assert linecache.getline(from_text.name, 20).startswith(".visible .entry saxpy(")


def test_what_cannot_be_read(tmp_path):
    for source, words in (
        (tmp_path / "none.ptx", "none.ptx` cannot be read: No such file"),
        (tmp_path, "cannot be read: Is a directory"),
        (7, "load_ptx got a int: give PTX text"),
        ("no such file", "`no such file` cannot be read"),
        ("a\0b", "cannot be read"),
    ):
        with pytest.raises(UsageError) as caught:
            wsemu.load_ptx(source)  # type: ignore[arg-type]
        assert words in str(caught.value)
    (tmp_path / "k.ptx").write_bytes(b"\x7fELF\x02\x01\x00")
    with pytest.raises(UsageError, match=r"k.ptx` is a cubin or an object file: give PTX text, as `nvcc -ptx`"):
        wsemu.load_ptx(tmp_path / "k.ptx")
    (tmp_path / "k.ptx").write_text("")
    with pytest.raises((UsageError, KernelError)):
        wsemu.load_ptx(tmp_path / "k.ptx").only()


def test_what_is_no_ptx_names_its_place():
    with pytest.raises(KernelError) as caught:
        wsemu.load_ptx(
            ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k(\n  .param .u64 = )\n{ ret; }\n"
        )
    assert caught.value.span is not None
    assert caught.value.span.line == 5


# -- arguments ---------------------------------------------------------------------------------------------------------

X = np.zeros(32, np.float32)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((X, X, 1.0), "`saxpy` takes 4 arguments, not 3: x .u64, y .u64, a .f32, n .u32"),
        ((X, X, 1.0, 1, 2), "`saxpy` takes 4 arguments, not 5"),
        ((), "`saxpy` takes 4 arguments, not 0"),
        ((1.5, X, 1.0, 1), "argument `x`, .u64 in PTX, is 1.5: give an int"),
        ((X, X, X, 1), "argument `a`, .f32 in PTX, is an array float32[32]: give a number, or `np.float32(...)`"),
        ((X, X, 1.0, X), "argument `n`, .u32 in PTX, is an array float32[32]: give an int"),
        ((X, X, "2", 1), "argument `a`, .f32 in PTX, is a str"),
        ((X, X, np.float64(2), 1), "argument `a`, .f32 in PTX, is np.float64(2.0), of 64 bits, not of 32"),
        ((X, X, np.int32(2), 1), "argument `a`, .f32 in PTX, is np.int32(2): give a number"),
        ((X, X, 1.0, 2.0), "argument `n`, .u32 in PTX, is 2.0: write 2"),
        ((X, X, 1.0, 1 << 32), "argument `n`, .u32 in PTX, is 4294967296, which does not fit into 32 bits"),
        ((X, X, 1.0, -(1 << 31) - 1), "does not fit into 32 bits"),
        ((X, X, 1.0, np.int64(3)), "argument `n`, .u32 in PTX, is np.int64(3), of 64 bits, not of 32: give an int"),
        ((X, X, 1.0, np.float32(3)), "argument `n`, .u32 in PTX, is np.float32(3.0): give an int"),
        ((X, X, 1.0, None), "argument `n`, .u32 in PTX, is None: give an int"),
        ((X, X, 10**400, 1), "more than 1,024 bits"),
        (([0.0], X, 1.0, 1), "argument `x`, .u64 in PTX, has a field [0] 0.0, of type float: give fields as NumPy"),
        ((np.array([None]), X, 1.0, 1), "argument `x`, .u64 in PTX, is an array of Python objects"),
        ((X.astype(">f4"), X, 1.0, 1), "is an array >f4: a GPU has its bytes in the other order; give float32"),
        ((X, X, b"123", 1), "argument `a`, .f32 in PTX, got 3 bytes: it has 4, aligned to 4"),
    ],
)
def test_an_argument_that_does_not_fit(module, arguments, words):
    with pytest.raises(UsageError) as caught:
        wsemu.check(module["saxpy"], 1, 32, arguments)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (5, "argument `p`, .b8[8] in PTX, is 5: give the structure's 8 bytes, a NumPy record, or a tuple"),
        (bytes(7), "argument `p`, .b8[8] in PTX, got 7 bytes: it has 8, aligned to 4"),
        ((np.float32(1),), "got 4 bytes: it has 8"),
        ((1.0, 2), "has a field [0] 1.0, of type float: give fields as NumPy numbers, `np.int32(7)`"),
        ((np.float32(1), (np.int16(1), "x")), "has a field [1][1] 'x', of type str"),
        (np.float32(1), "is np.float32(1.0), of 32 bits, not of 64"),
        (np.zeros(3, np.float32), "is an array float32[3]"),
        ([1, 2], "has a field [0] 1, of type int: give fields as NumPy numbers"),
    ],
)
def test_a_structure_that_does_not_fit(module, value, words):
    with pytest.raises(UsageError) as caught:
        wsemu.check(module["scale<float"], 1, 64, (np.zeros(64, np.float32), value))
    assert words in str(caught.value)


class Pair(ctypes.Structure):
    _fields_ = (("a", ctypes.c_float), ("n", ctypes.c_int))


@pytest.mark.parametrize(
    "pair",
    [
        (np.float32(2), np.int32(64)),
        struct.pack("<fi", 2, 64),
        np.array((2, 64), [("a", "f4"), ("n", "i4")])[()],
        np.array((2, 64), [("a", "f4"), ("n", "i4")]),
        bytes(Pair(2, 64)),
    ],
)
def test_a_structure_by_value(module, pair):
    x = np.arange(64, dtype=np.float32)
    report = wsemu.check(module["scale<float"], 1, 64, (x, pair))
    assert report.verdict == "verified"
    assert np.array_equal(x, 2 * np.arange(64)[::-1] + np.arange(64) % 4 + 1)


def test_numbers_of_each_type(module):
    given = (-3, 200, -30000, 4_000_000_000, -(1 << 40), 0.5, -1.25, True)
    types = (np.int8, np.uint8, np.int16, np.uint32, np.int64, np.float32, np.float64, np.bool_)
    for arguments in (given, tuple(t(v) for t, v in zip(types, given, strict=True))):
        out = np.zeros(8)
        assert wsemu.check(module["numbers"], 1, 1, (out, *arguments)).verdict == "verified"
        assert out.tolist() == [float(v) for v in given]


def test_fields_of_a_structure_lie_where_c_has_them(module):
    counts = np.array([5, 6], np.int32)
    cells = tuple((np.int8(-n), np.float64(n / 2)) for n in (1, 2))
    out = np.zeros(7)
    report = wsemu.check(module["record"], 1, 1, (out, (np.int16(-7), cells, counts, np.uint8(9))))
    assert report.verdict == "verified"
    assert out.tolist() == [-7, -1, 0.5, -2, 1, 6, 9]


def test_records_in_a_structure_lie_where_c_has_them(module):
    counts = np.array([5, 6], np.int32)
    for cell in (np.dtype("i1, f8", align=True), np.dtype("i1, V7, f8")):
        assert cell.names
        cells = np.zeros(2, cell)
        cells[cell.names[0]], cells[cell.names[-1]] = (-1, -2), (0.5, 1)
        out = np.zeros(7)
        arguments = out, (np.int16(-7), tuple(cells), counts, np.uint8(9))
        assert wsemu.check(module["record"], 1, 1, arguments).verdict == "verified"
        assert out.tolist() == [-7, -1, 0.5, -2, 1, 6, 9]


def test_a_pointer_in_a_structure(module):
    x = np.ones(40, np.float32)
    assert wsemu.check(module["viewed"], 1, 64, ((x, np.int32(40)),)).verdict == "verified"
    assert (x == 2).all()
    report = wsemu.check(module["viewed"], 1, 64, ((x, np.int32(41)),))
    assert [finding.code for finding in report.errors] == ["out-of-bounds"]
    assert report.errors[0].message == "load of 4 bytes outside `v[0]`"
    assert "the address is byte 160 of `v[0]`, which has 160; the load was left out" in report.errors[0].notes[0]


def test_a_null_pointer_is_out_of_bounds(module):
    report = wsemu.check(module["saxpy"], 1, 32, (None, X, 1, 32))
    found = next(finding for finding in report.errors if finding.code == "out-of-bounds")
    assert "the address is 0x0: a null pointer" in found.notes[0]


def test_arrays_are_used_in_place_whatever_their_layout(module):
    base = np.zeros((32, 2), np.float32)
    y = base[:, 0]
    wsemu.check(module["fill(float*)"], 1, 8, (y,))
    assert (base[:4] == 1.5).all()  # the address alone is passed
    assert not base[4:].any()


def test_a_read_only_array_is_not_written(module):
    y = np.zeros(32, np.float32)
    y.flags.writeable = False
    report = wsemu.check(module["fill(float*)"], 1, 32, (y,))
    assert report.verdict == "failed"
    assert not y.any()


# -- launches ----------------------------------------------------------------------------------------------------------


def test_a_launch_in_brackets(module):
    x = np.arange(128, dtype=np.float32)
    y = np.ones_like(x)
    module["saxpy"][4, 32](x, y, 2, 100)
    assert np.array_equal(y, np.where(x < 100, 2 * x + 1, 1))
    with pytest.raises(wsemu.CheckFailed, match="error\\[race\\]"):
        module["reverse"][1, 64](np.zeros(64, np.int32))
    with pytest.raises(UsageError, match=r"`saxpy\[\.\.\.\]` has 1 launch parameter:"):
        module["saxpy"][4]
    with pytest.raises(UsageError, match="kernel `saxpy` was called without a launch configuration"):
        module["saxpy"](x, y, 2, 100)
    module["saxpy"].forall(100, 32)(x, y, 2, 100)


def test_bounds_of_the_cta(module):
    out = np.zeros(64, np.float32)
    with pytest.raises(UsageError, match=r"block of 192 threads: `scale<float, 64>` was compiled for at most 128"):
        wsemu.check(module["scale<float"], 1, 192, (out, (np.float32(1), np.int32(64))))
    text = FILE.read_text().replace(".maxntid 128, 1, 1", ".reqntid 64, 1, 1")
    with pytest.raises(UsageError, match=r"block of 32 x 1 x 1 threads: `scale<float, 64>` has `\.reqntid 64, 1, 1`"):
        wsemu.check(wsemu.load_ptx(text)["scale<float"], 1, 32, (out, (np.float32(1), np.int32(64))))


def test_dynamic_shared_memory(module):
    x = np.arange(32, dtype=np.float32)
    report = wsemu.check(module["turned"], 1, 32, (x, 0), dynamic_shared=128)
    assert report.verdict == "verified"
    assert x.tolist() == [n ^ 1 for n in range(32)]
    report = wsemu.check(module["turned"], 1, 32, (x, 0), dynamic_shared=64)
    assert "out-of-bounds" in [finding.code for finding in report.errors]


def test_what_is_not_modelled_counts_where_it_is_reached(module):
    x = np.arange(32, dtype=np.float32)
    report = wsemu.check(module["turned"], 1, 32, (x, 1), dynamic_shared=128)
    assert report.verdict == "incomplete"
    assert "`discard.global.L2`" in report.notes[0]
    assert "launching.sm_90.ptx:" in report.notes[0]


def test_findings_show_the_cuda_source(module):
    out = np.zeros(64, np.int32)
    report = wsemu.check(module["reverse"], 1, 64, (out,))
    race = next(finding for finding in report.errors if finding.code == "race")
    assert {site.line for site in race.sites} >= {line_of("tile[threadIdx.x] = "), line_of("= tile[63 - ")}
    assert all(Path(site.file) == SOURCE for site in race.sites)
    assert "`tile[" in str(race) + " ".join(race.notes)
    assert report.kernel == "deep::inner::reverse"
    assert "add `__syncthreads()` after line" in str([finding.help for finding in report.errors])
    assert (race.sites[0].column, race.sites[0].end_column) != (1, 1)


def test_without_the_source_findings_show_the_ptx():
    text = FILE.read_text().replace('"launching.cu"', '"gone.cu"')
    module = wsemu.load_ptx(text)
    report = wsemu.check(module["reverse"], 1, 64, (np.zeros(64, np.int32),))
    race = next(finding for finding in report.errors if finding.code == "race")
    shown = {linecache.getline(site.file, site.line).split()[0] for site in race.sites}
    assert shown == {"st.shared.u32", "ld.shared.u32"}
    assert module["reverse"].names(()) == ("param_0",)


def test_both_engines_agree(module):
    for engine in ("vm", "reference"):
        x, y = np.arange(64, dtype=np.float32), np.ones(64, np.float32)
        report = wsemu.check(module["saxpy"], 2, 32, (x, y, 0.1, 64), engine=engine)
        assert report.verdict == "verified"
        assert report.counters.accesses == 64 * 3
        assert np.array_equal(y, (np.float64(np.float32(0.1)) * x + 1).astype(np.float32))


def test_unwritten_arrays_are_found(module):
    y = cuda.device_array(32, np.float32)
    report = wsemu.check(module["saxpy"], 1, 32, (X, y, 1, 32))
    assert [finding.code for finding in report.errors] == ["uninitialized-read"]
    report = wsemu.check(module["saxpy"], 1, 32, (X, X.copy(), 1, 32), uninitialized=["x"])
    assert [finding.code for finding in report.errors] == ["uninitialized-read"]
    with pytest.raises(UsageError, match="uninitialized names 'q': the kernel's arrays are x, y"):
        wsemu.check(module["saxpy"], 1, 32, (X, X.copy(), 1, 32), uninitialized=["q"])


def test_a_launch_is_traced_and_replayed(module, tmp_path):
    from wsemu.launch.replay.witness_file import Witness

    out = np.zeros(64, np.int32)
    timeline = wsemu.trace(module["reverse"], 1, 64, (out,))
    assert len(timeline.warps) == 2
    report = timeline.report
    race = next(finding for finding in report.errors if finding.code == "race")
    witness = Witness.of(report, race)
    replayed = wsemu.replay(witness, module["reverse"], (np.zeros(64, np.int32),))
    assert len(replayed.orders) == 2
    file = tmp_path / FILE.name
    file.write_text(FILE.read_text().replace("63;", "62;"))
    (tmp_path / SOURCE.name).write_text(SOURCE.read_text())
    changed = wsemu.load_ptx(file)
    with pytest.raises(UsageError, match=r"witness: launching.sm_90.ptx:\d+ in `deep::inner::reverse` has changed"):
        wsemu.replay(witness, changed["reverse"], (np.zeros(64, np.int32),))
    with pytest.raises(UsageError, match="argument `out` was int32"):
        wsemu.replay(witness, module["reverse"], (np.zeros(65, np.int32),))


def test_a_kernel_runs_on_the_emulator_or_a_gpu(module):
    assert module["saxpy"].on("emulator") is module["saxpy"]
    with pytest.raises(UsageError, match='no target \'cpu\': "emulator" or "gpu"'):
        module["saxpy"].on("cpu")


# -- the CUDA source ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "column", "text"),
    [
        ("    y[i] = a * x[i];  // all of it", 5, "y[i] = a * x[i]"),
        ("    for (int i = 0; i < n; ++i) {", 5, "for (int i = 0; i < n; ++i)"),
        ("    for (int i = 0; i < n; ++i) {", 21, "i < n"),
        ("    for (int i = 0; i < n; ++i) {", 28, "++i"),
        ("    if (i < n) x[i] = 1;", 5, "if (i < n) x[i] = 1"),
        ('    asm volatile("bar.sync 1, 64;" ::: "memory");', 5, 'asm volatile("bar.sync 1, 64;" ::: "memory")'),
        ("__global__ void k(int *x) {", 0, "__global__ void k(int *x)"),
        ("__device__ void s(int id) { bar(id); }", 22, "bar(id)"),  # nvcc counts without `__device__`
        ("    x[i] = 1;", 99, "x[i] = 1"),
        ("        y[t] = x[t]  # Python", 1, "y[t] = x[t]"),
        ("        tile[i] = x[i]", 1, "tile[i] = x[i]"),  # Numba
        ("", 5, ""),
    ],
)
def test_the_text_that_a_loc_means(line, column, text, tmp_path):
    file = tmp_path / "k.cu"
    file.write_text(f"{line}\n")
    span = loc_span(str(file), 1, column)
    assert line[span.column : span.end_column] == text
    assert span.column < span.end_column


LOOP = """.version 8.4
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out)
{{
.reg .pred %p<2>; .reg .b32 %r<9>; .reg .b64 %rd<3>; .shared .align 4 .b8 tile[256];
.loc 1 1 1
ld.param.u64 %rd1, [out];
mov.u32 %r1, %tid.x;
shl.b32 %r2, %r1, 2;
mov.u32 %r3, tile;
add.s32 %r4, %r3, %r2;
sub.s32 %r5, 252, %r2;
add.s32 %r5, %r3, %r5;
mov.u32 %r6, 0;
mov.u32 %r8, 0;
$again:
.loc 1 2 1
st.shared.u32 [%r4], %r6;
{}
.loc 1 4 1
ld.shared.u32 %r7, [%r5];
add.s32 %r8, %r8, %r7;
{}
.loc 1 6 1
add.s32 %r6, %r6, 1;
setp.lt.u32 %p1, %r6, 3;
@%p1 bra $again;
ret;
}}
.file 1 "{}"
"""
"""a loop: a store on line 2, a barrier on line 3, a load on line 4, a barrier on line 5"""


@pytest.mark.parametrize(
    ("between", "behind", "remedies"),
    [
        ("", ".loc 1 5 1\nbar.sync 0;", {"after line 2, where every thread passes, before line 4"}),
        (".loc 1 3 1\nbar.sync 0;", "", {"after line 4, where every thread passes, before line 2 runs again"}),
    ],
)
def test_the_barrier_that_a_loop_needs(tmp_path, monkeypatch, between, behind, remedies):
    monkeypatch.chdir(tmp_path)  # PTX text may name sources below the working folder
    file = tmp_path / "k.cu"
    file.write_text("".join(f"statement({n});\n" for n in range(1, 8)))
    kernel = wsemu.load_ptx(LOOP.format(between, behind, file))["k"]
    report = wsemu.check(kernel, 1, 64, (np.zeros(1, np.int32),))
    assert {finding.help for finding in report.errors if finding.code == "race"} == {
        f"add `__syncthreads()` {text}" for text in remedies
    }


def test_costs_of_an_unrolled_loop_are_told_once():
    module = wsemu.load_ptx(FOLDER / "transpose.sm_90.ptx")
    x = np.zeros((64, 64), np.float32)
    report = wsemu.check(module["transpose_tile<float, 0>"], (2, 2), (32, 8), (x, x.copy(), 64, 64))
    (found,) = report.warnings
    assert found.code == "bank-conflict"
    source = (FOLDER / "transpose.cu").read_text().splitlines()
    site, declared = found.sites
    assert source[site.line - 1][site.column - 1 : site.end_column - 1] == "tile[threadIdx.x][threadIdx.y + k]"
    shown = source[declared.line - 1]
    assert shown[declared.column - 1 : declared.end_column - 1] == "tile[TILE][TILE + PAD]"


def test_accesses_of_one_statement_are_told_apart(module):
    y = np.zeros(8, np.float32)
    report = wsemu.check(module["saxpy"], 1, 32, (y.copy(), y, 1, 32))
    line = SOURCE.read_text().splitlines()[line_of("y[i] = a * x[i] + y[i];") - 1]
    shown = [(f.sites[0].text[:5], line[f.sites[0].column - 1 : f.sites[0].end_column - 1]) for f in report.errors]
    assert shown == [("load ", "x[i]"), ("load ", "y[i]"), ("store", "y[i]")]


def test_a_finding_is_accepted_in_the_cuda_source(tmp_path):
    source = SOURCE.read_text().replace("63 - threadIdx.x];", "63 - threadIdx.x]; // wsemu: ignore[race] on purpose")
    (tmp_path / SOURCE.name).write_text(source)
    (tmp_path / FILE.name).write_text(FILE.read_text())
    module = wsemu.load_ptx(tmp_path / FILE.name)
    report = wsemu.check(module["reverse"], 1, 64, (np.zeros(64, np.int32),))
    assert {entry.finding.code for entry in report.suppressed} == {"race"}
    assert {finding.code for finding in report.errors} == {"uninitialized-read"}  # of bytes that nobody stores


def test_advice_is_in_words_of_cuda():
    assert (
        in_cuda("use `cuda.atomic`, or `cuda.syncthreads()`")
        == "use `atomicAdd` or another atomic, or `__syncthreads()`"
    )
    assert in_cuda("`ptx.barrier_sync` is for lanes") == "`barrier.sync` is for lanes"
    assert in_cuda("load 4 at once: `ptx.ld_v4`") == "load 4 at once: a type of 4 elements, such as `float4`"
