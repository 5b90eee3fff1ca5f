"""Every kernel of the project, compiled for an sm_90 by Numba-CUDA without a GPU.

It compiles, has the instructions that the emulator executes, and Numba gives every variable wsemu's type.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import re
import runpy
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wsemu import cuda, ptx
from wsemu.backends import numba_cuda
from wsemu.frontend.python.compile import argument_type, compile_kernel
from wsemu.language import async_names, matrix_names, tensor_names
from wsemu.launch import transfer
from wsemu.launch.compiled import compile_for_types
from wsemu.launch.crosscheck import Recorder
from wsemu.launch.hooks import around
from wsemu.model.errors import UsageError
from wsemu.model.isa import NAMES
from wsemu.model.tensor_map import TensorMap
from wsemu.patterns import (
    Buffers,
    CudaDMAHalo,
    CudaDMAIndirect,
    CudaDMASequential,
    CudaDMAStrided,
    Pipeline,
)

try:
    numba_cuda.numba_cuda()
except UsageError as error:
    pytest.skip(str(error), allow_module_level=True)

from numba.cuda.core.errors import TypingError

from wsemu.backends import offline
from wsemu.backends.async_intrinsics import FORMS, TENSOR_FORMS

ROOT = Path(__file__).parents[2]
PROGRAMS = [
    path
    for folder in ("examples", "tests/pass")
    for path in sorted(ROOT.glob(f"{folder}/*.py"))
    if "load_ptx" not in path.read_text(encoding="utf-8")
]
"""without those whose kernels are PTX already"""
SMALL = {
    "dgemm": ["64", "64", "16"],
    "sgemv": ["256", "all"],
    "sgemv_both_single": ["128"],
    "saxpy": ["2048"],
    "stencil": ["32", "16", "2"],
    "fft": ["16384"],
    "hgemm": ["64", "64", "64"],
}
"""arguments of programs that take longer"""
ROLES = (1, 64, 64, 64)
TRANSFERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "sequential": (CudaDMASequential(*ROLES, 1004, alignment=16), {}),
    "split": (CudaDMAStrided(*ROLES, 52, 9, 64, 80, alignment=16, load="cs", store="cg"), {}),
    "full": (CudaDMAStrided(*ROLES, 1000, 5, 1024, 1008, alignment=8), {}),
    "big": (CudaDMAStrided(*ROLES, 4000, 3, 4000, 4000, bytes_per_thread=4), {}),
    "gather": (CudaDMAIndirect(*ROLES, 64, 5, alignment=16), {"index": [4, 2, 4, 0, 1]}),
    "scatter": (CudaDMAIndirect(*ROLES, 64, 3, scatter=True), {"index": [4, 2, 0]}),
    "halo": (CudaDMAHalo(*ROLES, 4, 9, 8, 4, 100, corners=True), {}),
    "not specialized": (CudaDMAStrided.unspecialized(128, 52, 9, 64, 80, alignment=16), {}),
}
COPIED: dict[str, tuple[Any, dict[str, Any]]] = {
    "copied": (CudaDMAStrided(*ROLES, 52, 9, 64, 80, alignment=16, engine="cp.async", load="cg"), {}),
    "copied in words": (CudaDMAHalo(*ROLES, 4, 9, 8, 4, 100, corners=True, engine="cp.async"), {}),
    "in bulk": (CudaDMAStrided(*ROLES, 64, 9, 64, 80, engine="bulk"), {}),
    "gathered in bulk": (CudaDMAIndirect(*ROLES, 64, 5, engine="bulk"), {"index": [4, 2, 4, 0, 1]}),
    "scattered in bulk": (CudaDMAIndirect(*ROLES, 64, 3, scatter=True, engine="bulk"), {"index": [4, 2, 0]}),
    "halo in bulk": (CudaDMAHalo(*ROLES, 4, 8, 8, 4, 112, corners=True, engine="bulk"), {}),
}
SEEN = {
    r"bar\.sync": r"\bbar(rier)?(\.cta)?\.sync|cudaCGSynchronize",  # the barrier of a grid has two of them
    r"bar\.arrive": r"\bbar(rier)?(\.cta)?\.arrive",
    r"bar\.red": r"\bbarrier\.cta\.red",
    r"ld\.v4\.b32": r"\bld\.\S*v4\.",
    r"st\.v4\.b32": r"\bst\.\S*v4\.",
    r"ld\.v2\.b(32|64)": r"\bld\.\S*v2\.",
    r"st\.v2\.b(32|64)": r"\bst\.\S*v2\.",
    r"atom\.": r"\b(atom|red)\.",
    r"shfl\.": r"\bshfl\.sync",
    r"vote\.": r"\bvote\.sync",
    r"fma\.f32": r"\bfma\.rn\.f32",
    r"fma\.f64": r"\bfma\.rn\.f64",
}
"""operation of the emulator -> what the PTX must have"""


def launches_of(path: Path) -> list[Any]:
    """The launches that a program makes, run with the folder of its own on the path."""
    recorder = Recorder()
    around.append(recorder)
    kept = sys.argv, list(sys.path)
    sys.argv, sys.path[:0] = [str(path), *SMALL.get(path.stem, [])], [str(path.parent)]
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            runpy.run_path(str(path), run_name="__main__")
    finally:
        around.remove(recorder)
        sys.argv, sys.path[:] = kept
    first = {id(launch.kernel): launch for launch in reversed(recorder.emulated)}
    return list(reversed(first.values()))


def named_types(types: dict[str, str]) -> dict[str, set[str]]:
    """Numba's types of the source's variables, over their versions."""
    found: dict[str, set[str]] = {}
    for name, type_ in types.items():
        if not name.startswith(("$", "arg.")):
            literal = re.sub(r"Literal\[(int|bool)\]\(.*?\)", lambda m: {"int": "int64", "bool": "bool"}[m[1]], type_)
            found.setdefault(name.partition(".")[0], set()).add(literal)
    return found


def check_kernel(kernel: Any, arguments: tuple[Any, ...]) -> None:
    """The kernel's PTX has what the emulator executes, and the variables have the same types."""
    made = offline.compile_kernel(kernel, arguments)
    program = compile_for_types(kernel, arguments, True).program
    operations = {NAMES[op] for op in program.code[:, 0].tolist()}
    for ours, theirs in SEEN.items():
        by_matrices = "spread" in str(operations) and re.search(theirs, made.ptx) is None and "ldmatrix" in made.ptx
        if any(re.match(ours, name) for name in operations) and not by_matrices:
            assert re.search(theirs, made.ptx), f"{kernel}: {ours} is not in the PTX"
    walked = compile_kernel(kernel.py_func, tuple(argument_type(value) for value in arguments))
    source = kernel.py_func.__code__
    own = set(source.co_varnames) - set(source.co_varnames[: source.co_argcount])
    types = named_types(made.types)
    for name in own & set(types):
        ours_ = {v.type for v in walked.variables if v.name == name and v.line >= source.co_firstlineno}
        if ours_ and name != "_":
            assert ours_ <= types[name], f"{kernel}: variable `{name}`"


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_the_kernels_of_a_program_compile_for_a_gpu(path):
    for launch in launches_of(path):
        check_kernel(launch.kernel, launch.before)


@pytest.mark.parametrize("name", TRANSFERS)
@pytest.mark.parametrize("two_phase", [False, True])
@pytest.mark.parametrize("constants", [False, True])
def test_a_transfer_compiles_for_a_gpu(name, two_phase, constants):
    pattern, options = TRANSFERS[name]
    case = transfer.TransferCase(pattern, two_phase=two_phase, constants=constants, **options)
    run = transfer.fill(transfer.job(case))
    made = offline.compile_kernel(run.job.kernel, run.arguments())
    if pattern.specialized:
        assert "bar.arrive" in made.ptx
    if pattern.alignment == 16:
        assert re.search(r"\bst\.\S*v4", made.ptx)


@pytest.mark.parametrize("name", COPIED)
def test_a_transfer_past_the_registers_compiles_for_a_gpu(name):
    pattern, options = COPIED[name]
    run = transfer.fill(transfer.job(transfer.TransferCase(pattern, **options)))
    made = offline.compile_kernel(run.job.kernel, run.arguments())
    how = "bulk" if pattern.bulk else "cg" if pattern.past_l1 else "ca"
    assert re.search(rf"\bcp\.async\.{how}\b", made.ptx)


def test_constant_barriers_are_immediates_in_machine_code():
    if shutil.which("nvdisasm") is None:
        pytest.skip("nvdisasm is not installed: pip install nvidia-cuda-nvdisasm")
    run = transfer.fill(transfer.job(transfer.TransferCase(TRANSFERS["sequential"][0], constants=True)))
    text = offline.compile_kernel(run.job.kernel, run.arguments()).machine_code()
    assert "BAR.ARV 0x3, 0x80" in text
    assert "LDG.E.128" in text
    assert "LDL" not in text  # the registers between loads and stores are registers


@pytest.mark.parametrize(
    ("barrier", "count", "message"),
    [(16, 64, "barrier 16: give 0 to 15"), (1, 48, "a count of 48: give a positive multiple of 32")],
)
def test_what_the_hardware_takes_silently_is_refused(barrier, count, message):
    @cuda.jit
    def kernel(x):
        ptx.bar_sync(barrier, count)
        x[0] = 1

    with pytest.raises(UsageError, match=message):
        offline.compile_kernel(kernel, (np.zeros(1, np.float32),))


def test_numba_refuses_a_returned_local_array_unless_it_is_in_a_tuple_or_inlined():
    def make(value):
        own = cuda.local.array(4, np.float32)
        own[0] = value
        return own

    alone, inlined = cuda.jit(device=True)(make), cuda.jit(device=True, inline="always")(make)

    @cuda.jit(device=True)
    def make_in_tuple(value):
        own = cuda.local.array(4, np.float32)
        own[0] = value
        return own, 1

    @cuda.jit
    def use(x):
        x[0] = alone(x[1])[0]

    @cuda.jit
    def use_others(x):
        x[0] = inlined(x[1])[0] + make_in_tuple(x[1])[0][0]

    with pytest.raises(TypingError, match="Only accept returning of array passed into the function as argument"):
        offline.compile_kernel(use, (np.zeros(2, np.float32),))
    assert offline.compile_kernel(use_others, (np.zeros(2, np.float32),)).ptx


SIDE_BY_SIDE = CudaDMASequential(*ROLES, 256)


@cuda.jit
def by_class_methods(x, y):
    tile = cuda.shared.array((2, 64), np.float32, 16)
    if cuda.threadIdx.x < 64:
        dma = CudaDMASequential.unspecialized(64, 256, alignment=16)
        dma.execute_dma_no_sync(x, tile)
        Buffers.manual_double(SIDE_BY_SIDE).start()
    y[cuda.threadIdx.x] = tile[0, cuda.threadIdx.x]


def test_class_methods_of_patterns_compile_for_a_gpu():
    x = np.zeros(64, np.float32)
    made = offline.compile_kernel(by_class_methods, (x, x))
    assert len(re.findall(r"bar(?:rier\.cta)?\.arrive", made.ptx)) >= 2
    assert re.search(r"\bst\.\S*v4", made.ptx)


# -- asynchronous instructions ---------------------------------------------------------------------------------------
@cuda.jit
def with_constants(x, y):
    bar = cuda.shared.array(4, np.uint64)
    tile = cuda.shared.array((2, 64), np.float32, 16)
    if ptx.elect_sync(0xFFFFFFFF):
        ptx.mbarrier_init(bar, 1, 7)
        ptx.fence_mbarrier_init()
    cuda.syncthreads()
    ptx.setmaxnreg_dec(24)
    ptx.setmaxnreg_inc(40)
    ptx.griddepcontrol_wait()
    token = ptx.mbarrier_arrive(bar, 1)
    ptx.mbarrier_arrive_relaxed(bar, 1)
    ptx.mbarrier_arrive_drop(bar, 1)
    ptx.mbarrier_arrive_expect_tx(bar, 1, 96)
    ptx.mbarrier_arrive_drop_expect_tx(bar, 1, 16)
    y[1] = ptx.mbarrier_pending_count(ptx.mbarrier_arrive_no_complete(bar, 1, 2))
    ptx.mbarrier_expect_tx(bar, 1, 16)
    ptx.mbarrier_complete_tx(bar, 1, 16)
    ptx.cp_async_ca(tile, (1, 0), x, 0, 4)
    ptx.cp_async_cg(tile, (1, 4), x, 4, 16, 12)
    ptx.cp_async_ca_bytes(tile, 16, x, 16, 4)
    ptx.cp_async_cg_bytes(tile, 32, x, 32, 16, 12)
    ptx.cp_async_commit_group()
    ptx.cp_async_mbarrier_arrive(bar, 1)
    ptx.cp_async_mbarrier_arrive_noinc(bar, 1)
    ptx.cp_async_wait_group(1)
    ptx.cp_async_wait_all()
    ptx.cp_async_bulk_prefetch_l2(x, 0, 64)
    ptx.cp_async_bulk_global_to_shared(tile, (0, 0), x, 0, 64, bar, 1)
    if not ptx.mbarrier_try_wait(bar, 1, token) and not ptx.mbarrier_test_wait(bar, 1, token):
        ptx.mbarrier_wait(bar, 1, token)
    if not ptx.mbarrier_try_wait_parity(bar, 1, 0, 1000) and not ptx.mbarrier_test_wait_parity(bar, 1, 0):
        ptx.mbarrier_wait_parity(bar, 1, 0)
    ptx.fence_proxy_async()
    ptx.fence_proxy_async_shared_cta()
    ptx.fence_proxy_async_global()
    ptx.cp_async_bulk_shared_to_global(y, 0, tile, (0, 0), 64)
    ptx.cp_async_bulk_commit_group()
    ptx.cp_async_bulk_wait_group_read(0)
    ptx.cp_async_bulk_wait_group(0)
    ptx.griddepcontrol_launch_dependents()
    ptx.mbarrier_inval(bar, 1)


@cuda.jit
def with_values(x, y, n, token):
    bar = cuda.shared.array((2, 2), np.int64)
    tile = cuda.shared.array(64, np.float32, 16)
    if ptx.elect_sync(mask=n):
        ptx.mbarrier_init(bar, (0, n), n)
    ptx.mbarrier_arrive(bar, (0, n), count=n)
    ptx.mbarrier_arrive_no_complete(bar, (0, n), n)
    ptx.mbarrier_arrive_expect_tx(bar, (0, n), n)
    ptx.mbarrier_expect_tx(bar, (0, n), n)
    ptx.cp_async_ca(tile, n, x, n, 8, src_bytes=n)
    ptx.cp_async_bulk_global_to_shared(tile, n, x, n, n, bar, (n, 1))
    if not ptx.mbarrier_try_wait(bar, (0, n), token, hint=n):
        ptx.mbarrier_wait(bar, (0, n), token)
    ptx.mbarrier_wait_parity(bar, (0, n), n & 1)
    ptx.mbarrier_wait_parity(bar, (1, n), n & 1)
    ptx.cp_async_bulk_shared_to_global(y, n, tile, n, n)
    ptx.cp_async_bulk_shared_to_global_bytes(y, n, tile, n, n)
    ptx.cp_async_bulk_global_to_shared_bytes(tile, n, x, n, n, bar, (n, 1))
    y[1] = ptx.mbarrier_pending_count(token)


def of_reductions(dtype: str) -> Any:
    names = [name for name, found in async_names.REDUCTIONS.items() if dtype in found.types]
    lines = [f"    ptx.cp_reduce_async_bulk_{name}(y, 0, tile, 4, n)" for name in names]
    text = "\n".join(["def reductions(y, n):", "    tile = cuda.shared.array(64, y.dtype, 16)", *lines])
    space: dict[str, Any] = {"cuda": cuda, "ptx": ptx}
    exec(text, space)
    return cuda.jit(space["reductions"])


def of_zeros(ints: Any) -> None:
    tile = cuda.shared.array(64, np.uint32, 16)
    ptx.st_bulk(tile, 2, 24)
    ptx.st_bulk(tile, 2, ints[0])
    ints[1] = tile[3]


@cuda.jit
def to_others(tmap, x, y, n):
    bar, tile = cuda.shared.array(1, np.uint64), cuda.shared.array(64, np.int32, 128)
    wide, counts = cuda.shared.array(64, np.float64), cuda.shared.array(64, np.uint32)
    ptx.cluster_arrive_relaxed()
    ptx.cluster_wait()
    rank = ptx.cluster_ctarank() ^ ptx.cluster_nctarank()
    there, told = ptx.mapa(tile, rank), ptx.mapa(bar, rank)
    ptx.mbarrier_arrive_cluster(told, 0)
    ptx.mbarrier_arrive_cluster(told, 0, rank, scope="cta")
    ptx.mbarrier_arrive_drop_cluster(told, 0, 2)
    ptx.mbarrier_arrive_expect_tx_cluster(told, 0, 16)
    ptx.mbarrier_expect_tx_cluster(told, 0, n)
    ptx.mbarrier_complete_tx_cluster(told, 0, 16)
    ptx.cp_async_bulk_global_to_shared_multicast(tile, 0, x, 0, 16, bar, 0, 3)
    ptx.cp_async_bulk_global_to_shared_multicast(tile, 0, x, 0, n, bar, 0, rank)
    ptx.cp_async_bulk_tensor_global_to_shared_multicast(tile, 0, tmap, (n, 0), bar, 0, 3)
    ptx.cp_async_bulk_shared_to_cluster(there, 0, tile, 0, 16, told, 0)
    ptx.st_async(there, n, 2.5, told, 0)
    ptx.st_async(ptx.mapa(wide, rank), 0, n, told, 0)
    ptx.red_async_add(there, 0, n, told, 0)
    ptx.red_async_min(there, 0, n, told, 0)
    ptx.red_async_max(there, 0, n, told, 0)
    ptx.red_async_and(there, 0, n, told, 0)
    ptx.red_async_or(there, 0, n, told, 0)
    ptx.red_async_xor(there, 0, n, told, 0)
    ptx.red_async_inc(ptx.mapa(counts, rank), 0, n, told, 0)
    ptx.red_async_dec(ptx.mapa(counts, rank), 0, n, told, 0)
    cuda.atomic.add(there, 1, ptx.cluster_ctaid_y() + ptx.cluster_nctaid_x() + ptx.clusterid_z() + ptx.nclusterid_x())
    ptx.cluster_arrive()
    ptx.cluster_wait()
    ptx.cluster_sync()
    y[0] = there[n] + wide[0] + counts[0]


def test_what_goes_to_other_ctas_assembles_for_an_sm_90a() -> None:
    x = np.zeros(64, np.int32)
    made = offline.compile_kernel(to_others, (TensorMap(np.zeros((4, 32), np.int32), (4, 32)), x, x, 3), lto=False)
    assert made.cubin()
    forms = [FORMS[n].text for n in async_names.CLUSTER_NAMES if n in FORMS and n not in async_names.CLUSTER_REGISTERS]
    heads_of = (head for text in forms for head in re.findall(r"[\w.:<>]+(?= \[| _|;)", text) if "." in head)
    wanted = {re.sub(r"<\w+>", r"\\w+", head) for head in heads_of}
    assert not {head for head in wanted if not re.search(rf"\b{head}[ ;]", made.ptx)}
    for name in ("mapa.u64", "%cluster_ctarank", "%cluster_ctaid.y", "%clusterid.z", "%nclusterid.x", "atom.add.u32"):
        assert name in made.ptx


HEAD = r"\w[\w.]*(?:::[\w.]+)*"
"""an instruction's name, with its qualifiers"""


def heads(text: str) -> set[str]:
    """The asynchronous instructions of PTX."""
    found = re.findall(rf"(?m)(?:^|[{{;:])\s*({HEAD})(?= [^;\n]*;|;)", text)
    kept = ("mbarrier", "cp.", "st.bulk", "fence.", "elect", "setmaxnreg", "griddep")
    return {name for name in found if name.startswith(kept)}


def test_asynchronous_instructions_assemble_for_an_sm_90a():
    x, found = np.zeros(64, np.float32), set()
    pairs = [(with_constants, (x, x)), (with_values, (x, x, 3, np.uint64(9)))]
    types = {name for reduction in async_names.REDUCTIONS.values() for name in reduction.types}
    pairs += [(of_reductions(name), (np.zeros(64, name), 32)) for name in sorted(types)]
    for kernel, arguments in pairs:
        made = offline.compile_kernel(kernel, arguments, lto=False)
        assert made.cubin()
        found |= heads(made.ptx)
    made = offline.compile_kernel(cuda.jit(of_zeros), (np.zeros(2, np.uint32),), lto=False)
    assert made.library.get_cubin(cc=(10, 0, "a"))
    elsewhere = (*TENSOR_FORMS, *async_names.CLUSTER_NAMES)
    plain = [form for n, form in FORMS.items() if "tensor" not in n and n not in elsewhere]
    wanted = {re.findall(HEAD, re.sub(r"again: |<type>", "", form.text))[0] for form in plain}
    spelled = {
        re.sub(r"(?<=\.)(noftz\.)?[usbf]\d+$", "", name) if "reduce" in name else name
        for name in found | heads(made.ptx)
    }
    assert spelled == wanted


def of_matrices() -> Any:
    """A kernel that calls every matrix instruction."""
    lines = ["def matrices(x, y, z):", "    tile = cuda.shared.array((8, 8), np.float16, 16)", "    i = cuda.laneid"]
    for name, (shape, _, _) in matrix_names.MULTIPLICATIONS.items():
        of_d, *counts = shape.counts
        wide = shape.a == "f64"
        kinds = ["z[i]" if wide else "np.uint32(i)"] * 2 + [f"np.{matrix_names.REGISTER[shape.c]}(z[i])"]
        given = ", ".join("(" + f"{kind}, " * count + ")" for kind, count in zip(kinds, counts, strict=True))
        lines.append(f"    y[i] = ptx.{name}({given})[{of_d - 1}]")
    for n in (1, 2, 4):
        for trans in ("", "_trans"):
            lines.append(f"    x[i] = ptx.ldmatrix_x{n}{trans}(tile, (i % 8, 0))[{n - 1}]")
            lines.append(f"    ptx.stmatrix_x{n}{trans}(tile, (i % 8, 0), ({'x[i], ' * n}))")
    lines.append("    x[i] = ptx.movmatrix_trans(x[i])")
    space: dict[str, Any] = {"cuda": cuda, "ptx": ptx, "np": np}
    exec("\n".join(lines), space)
    return cuda.jit(space["matrices"])


def test_matrix_instructions_assemble_for_an_sm_90a() -> None:
    arguments = (np.zeros(32, np.uint32), np.zeros(32), np.ones(32))
    made = offline.compile_kernel(of_matrices(), arguments, lto=False)
    assert made.cubin()
    for _, _, text in matrix_names.MULTIPLICATIONS.values():
        assert f"{text} {{" in made.ptx
    for what, name in itertools.product(("ld", "st"), ("x1", "x2", "x4", "x1.trans", "x2.trans", "x4.trans")):
        assert f"{what}matrix.sync.aligned.m8n8.{name}.shared.b16" in made.ptx
    assert "movmatrix.sync.aligned.m8n8.trans.b16" in made.ptx


def of_tensor_memory() -> Any:
    """A kernel that calls every instruction on tensor memory."""
    lines = [
        "def columns(x):", "    words = cuda.shared.array(1, np.uint32)", "    bars = cuda.shared.array(1, np.uint64)",
        "    a = cuda.shared.array((128, 64), np.float16, 1024)", "    ptx.tcgen05_alloc(words, 0, x[1])",
        "    at = words[0]", "    of_a = ptx.matrix_descriptor(a, x[0], 16, 1024, 128)",
    ]  # fmt: skip
    lines += [f"    ptx.{name}()" for name in tensor_names.PLAIN]
    for repeat, count in tensor_names.MOVES.items():
        lines.append(f"    x[2] = ptx.tcgen05_ld_32x32b_{repeat}(at)[{count - 1}]")
        lines.append(f"    ptx.tcgen05_st_32x32b_{repeat}(at + x[2], ({'x[2], ' * count}))")
    for kind in tensor_names.KINDS:
        lines.append(f"    ptx.tcgen05_mma_{kind}(at, of_a, of_a, x[3], x[4] > 0)")
        lines.append(f"    ptx.tcgen05_mma_{kind}_tmem(at, at + 64, of_a, x[3], False)")
    lines += ["    ptx.tcgen05_commit(bars, 0)", "    ptx.tcgen05_dealloc(at, 32)"]
    space: dict[str, Any] = {"cuda": cuda, "ptx": ptx, "np": np}
    exec("\n".join(lines), space)
    return cuda.jit(space["columns"])


def test_instructions_on_tensor_memory_assemble_for_an_sm_100a() -> None:
    made = offline.compile_kernel(of_tensor_memory(), (np.zeros(8, np.uint32),), lto=False)
    assert made.library.get_cubin(cc=(10, 0, "a"))
    found = set(re.findall(r"\btcgen05[\w.:]+", made.ptx))
    wanted = {name for form in TENSOR_FORMS.values() for name in re.findall(r"\btcgen05[\w.:]+", form.text)}
    wanted |= {f"tcgen05.{what}.sync.aligned.32x32b.{n}.b32" for what in ("ld", "st") for n in tensor_names.MOVES}
    assert found == wanted


def of_tiles(rank: int) -> Any:
    at = f"({', '.join(['n', '0', 'np.int64(n)', '4', 'n'][:rank])})" if rank > 1 else "n"
    reductions = [
        f"    ptx.cp_reduce_async_bulk_tensor_{name}(tmap, {at}, tile, 32)" for name in async_names.REDUCTIONS
    ]
    lines = [
        "def tiles(tmap, n):", "    tile = cuda.shared.array(64, np.float32, 128)",
        "    bar = cuda.shared.array(1, np.uint64)", "    ptx.prefetch_tensormap(tmap)",
        f"    ptx.cp_async_bulk_prefetch_tensor(tmap, {at})",
        f"    ptx.cp_async_bulk_tensor_global_to_shared(tile, 0, tmap, {at}, bar, 0)",
        f"    ptx.cp_async_bulk_tensor_global_to_shared_bytes(tile, 0, tmap, {at}, bar, 0)",
        f"    ptx.cp_async_bulk_tensor_shared_to_global(tmap, {at}, tile, 0)", *reductions,
    ]  # fmt: skip
    space: dict[str, Any] = {"cuda": cuda, "ptx": ptx, "np": np}
    exec("\n".join(lines), space)
    return cuda.jit(space["tiles"])


@pytest.mark.parametrize("rank", range(1, 6))
def test_copies_of_tiles_assemble_for_an_sm_90a(rank):
    map_ = TensorMap(np.zeros((1, 1, 1, 1, 32)[-rank:], np.float32), (1, 1, 1, 1, 32)[-rank:])
    made = offline.compile_kernel(of_tiles(rank), (map_, 7), lto=False)
    assert made.cubin()
    own = [form.text for n, form in FORMS.items() if "tensor" in n and n not in async_names.CLUSTER_NAMES]
    wanted = {text.partition(" ")[0].replace("<rank>", f"{rank}d") for text in own}
    assert {name for name in heads(made.ptx) | {"prefetch.tensormap"} if "tensor" in name} == wanted


@cuda.jit
def too_many(x):
    bar = cuda.shared.array(1, np.uint64)
    ptx.mbarrier_init(bar, 0, 1 << 20)


@cuda.jit
def not_known(x):
    ptx.cp_async_wait_group(x[0])


@cuda.jit
def of_floats(x):
    ptx.mbarrier_arrive(x, 0)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (too_many, "the count of `ptx.mbarrier_init` is 1048576: give 1 to 1048575"),
        (not_known, "the number of groups of `ptx.cp_async_wait_group` must be a constant integer"),
        (of_floats, "give a shared array of uint64"),
    ],
)
def test_what_an_asynchronous_instruction_cannot_have_is_refused(kernel, message):
    array = np.zeros(1, np.float32 if kernel is of_floats else np.int32)
    with pytest.raises(Exception, match=re.escape(message)):
        offline.compile_kernel(kernel, (array,))


@pytest.mark.parametrize("engine", ["warps", "cp.async", "bulk"])
def test_a_pipeline_compiles_for_a_gpu(engine):
    pattern = CudaDMASequential(1, 32, 64, 64, 256, engine=engine)
    ring = Pipeline.of(pattern, 3)

    @cuda.jit
    def kernel(x, y):
        bars = cuda.shared.array(ring.barriers, np.uint64)
        tile = cuda.shared.array((ring.stages, 64), np.float32, 16)
        ring.start(bars)
        if cuda.threadIdx.x < 64:
            ring.consumer_wait(bars, 0)
            y[cuda.threadIdx.x] = tile[ring.stage(0), cuda.threadIdx.x]
            ring.consumer_release(bars, 0)
        elif pattern.owns_this_thread():
            ring.execute_dma(bars, 0, pattern, x, tile[ring.stage(0)])

    made = offline.compile_kernel(kernel, (np.zeros(64, np.float32), np.zeros(64, np.float32)), lto=False)
    found = heads(made.ptx)
    assert {"mbarrier.init.shared::cta.b64", "mbarrier.try_wait.parity.shared::cta.b64"} <= found
    wanted = {"warps": "mbarrier.arrive.", "cp.async": "cp.async.mbarrier.arrive.", "bulk": "cp.async.bulk."}[engine]
    assert any(name.startswith(wanted) for name in found)
    assert made.cubin()
