"""Numba-CUDA programs, as they are: `tests/numba`, and the names that `numba.cuda` has while a program runs."""

from __future__ import annotations

import importlib
import io
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba.core import types as numba_types

from tests.commands import wsemu
from wsemu import cuda
from wsemu.app import program
from wsemu.host import takeover
from wsemu.launch import second_way
from wsemu.launch.check import check
from wsemu.model.errors import UnsupportedError, UsageError
from wsemu.model.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = sorted(path for path in (ROOT / "tests" / "numba").rglob("*.py") if path.stem != "neighbour")


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """run(file or source, *arguments): (exit code, lines that were printed) of `wsemu run`, or of `wsemu check`."""
    monkeypatch.delitem(sys.modules, "neighbour", raising=False)

    def call(what: Path | str, *arguments: str, quiet: bool = True) -> tuple[int, list[str]]:
        file = tmp_path / "program.py" if isinstance(what, str) else what
        if isinstance(what, str):
            file.write_text(what, encoding="utf-8")
        code = program.run(file, arguments, Settings(), quiet=quiet)
        return code, capsys.readouterr().out.splitlines()

    return call


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_an_unmodified_program_runs(run, path):
    *_, expected = path.read_text(encoding="utf-8").splitlines()
    code, lines = run(path)
    assert f"# expect: {lines[-1].partition(';')[0]}" == expected, "\n".join(lines)
    assert code == (1 if "failed" in expected else 3 if "incomplete" in expected else 0)


def test_programs_import_only_what_users_have():
    for path in PROGRAMS:
        assert "wsemu" not in path.read_text(encoding="utf-8")


# -- what `run` and `check` say ----------------------------------------------------------------------------------------


def test_run_says_little_and_check_everything(run):
    _, quiet = run(ROOT / "tests" / "numba" / "transpose.py")
    assert quiet == ["2 kernels, 3 launches: 3 verified; 2 warnings, shown by `wsemu check`"]
    _, full = run(ROOT / "tests" / "numba" / "transpose.py", quiet=False)
    assert full[-1] == "2 kernels, 3 launches: 3 verified"
    assert any("32-way bank conflict" in line for line in full)


def test_an_error_that_is_seen_again_is_told_once(run):
    _, lines = run(ROOT / "tests" / "numba" / "matmul_no_second_barrier.py")
    assert sum(line.startswith("racy_matmul[") for line in lines) == 1
    assert lines[-1] == "1 kernel, 3 launches: 3 failed"


def test_arguments_are_the_programs(run):
    code, lines = run(ROOT / "tests" / "numba" / "game_of_life.py", "--generations", "8")
    assert code == 0
    assert "8 launches: 8 verified" in lines[-1]


HEADER = """\
import numpy as np
from numba import cuda

@cuda.jit
def fill(x):
    x[cuda.grid(1)] = 1

@cuda.jit
def looked_up(x):
    x[0] = {0: 1}[0]

x = np.zeros(32, np.float32)
"""


def test_a_program_that_fails_for_want_of_a_launch_is_incomplete(run):
    code, lines = run(HEADER + "looked_up[1, 32](x)\nassert x[0] == 1\n")
    assert code == 3
    assert "unsupported: a dict in a kernel" in lines
    assert "looked_up was not run: its arrays are as they were" in lines
    told = "the program raised an exception after 1 launch that did not run: their results are missing:"
    assert told in " ".join(line.strip() for line in lines)
    assert lines[-1] == "1 kernel, 1 launch: 1 incomplete (a dict in a kernel)"


def test_an_error_that_the_program_catches_is_not_clean(run):
    body = "@cuda.jit\ndef wrong(x):\n    x[0] = nothing\n\ntry:\n    wrong[1, 32](x)\nexcept Exception:\n    pass\n"
    code, lines = run(HEADER + body + "fill[1, 32](x)\n")
    assert code == 2
    assert "error: unknown name `nothing`" in lines
    assert "the program caught this error of a launch and went on" in lines
    assert lines[-1] == "1 kernel, 1 launch: 1 verified"


def test_a_launch_that_a_gpu_refuses_too_may_be_caught(run):
    code, lines = run(HEADER + "try:\n    fill[1, 2000](x)\nexcept ValueError:\n    fill[1, 32](x)\n")
    assert (code, lines) == (0, ["1 kernel, 1 launch: 1 verified"])
    code, lines = run(HEADER + "try:\n    fill[1, 32](x, 1, 2, 3)\nexcept TypeError:\n    fill[1, 32](x)\n")
    assert (code, lines) == (0, ["1 kernel, 1 launch: 1 verified"])


def test_why_launches_are_incomplete_is_said_in_a_word(run):
    body = "@cuda.jit\ndef first(x, n):\n    if cuda.atomic.add(n, 0, 1) == 0:\n        x[0] = 1\n\n"
    code, lines = run(HEADER + body + "first[1, 32](x, np.zeros(1, np.int32))\nlooked_up[1, 32](x)\n")
    assert code == 3
    assert lines[-1] == "2 kernels, 2 launches: 2 incomplete (atomics, a dict in a kernel)"


def test_wrong_use_of_a_host_function_is_told_with_its_line(run):
    code, lines = run(HEADER + "cuda.to_device(x).copy_to_host(np.zeros(3, np.float32))\n")
    assert code == 2
    assert lines[0].startswith("error: copy_to_host: an array of shape (32,) does not fit into one of shape (3,)")
    assert lines[1].strip().startswith("--> ")
    assert "program.py:13:" in lines[1]
    code, lines = run(HEADER + "cuda.device_array(3, 'number')\n")
    assert code == 2
    assert lines[-1] == "TypeError: data type 'number' not understood"


@pytest.mark.parametrize("decorator", ["vectorize(['float32(float32)'], target='cuda')", "cuda.vectorize(['f4(f4)'])"])
def test_vectorize_makes_launches(run, decorator):
    code, _ = run(
        "import numba\nimport numpy as np\nfrom numba import cuda, vectorize\n"
        f"@{decorator}\ndef double(x):\n    return 2 * x\n"
        "assert (double(np.arange(5, dtype=np.float32)) == 2 * np.arange(5)).all()\n"
    )
    assert code == 0


@pytest.mark.parametrize(("command", "exit_code", "lines"), [("run", 3, 9), ("check", 3, 13)])
def test_the_commands(command, exit_code, lines):
    done = wsemu(command, ROOT / "tests" / "numba" / "not_modelled.py")
    said = done.stdout.splitlines()
    assert (done.returncode, len(said)) == (exit_code, lines)
    assert said[-1] == "2 kernels, 3 launches: 2 verified, 1 incomplete (a dict in a kernel)"


# -- imports -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "from numba import cuda as c",
        "import numba.cuda as c",
        "import numba.cuda; import numba; c = numba.cuda",
        "import importlib; c = importlib.import_module('numba.cuda')",
        "from numba_cuda_mlir import cuda as c",
        "import numba_cuda_mlir.cuda as c",
        "from numba.cuda import jit; import sys; c = sys.modules['numba.cuda']",
    ],
)
def test_every_import_gets_the_module(statement):
    space: dict[str, object] = {}
    with takeover.numba_cuda():
        exec(statement, space)
    assert space["c"] is cuda


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("numba.cuda", "jit grid to_device reduce float32 libdevice random synchronize In Out cg"),
        ("numba.cuda.libdevice", "fast_sinf"),
        ("numba.cuda.random", "create_xoroshiro128p_states xoroshiro128p_normal_float64 xoroshiro128p_dtype"),
        ("numba.cuda.types", "float32 Array void"),
        ("numba.cuda.cudadrv.driver", "CudaAPIError"),
        ("numba.cuda.cudadrv.devicearray", "DeviceNDArray"),
        ("numba.cuda.kernels.reduction", "Reduce"),
        ("numba_cuda_mlir.types", "float32"),
    ],
)
def test_parts_of_numba_cuda(module, names):
    with takeover.numba_cuda():
        exec(f"from {module} import {', '.join(names.split())}", {})


def test_a_part_that_is_not_there_is_named():
    with (
        takeover.numba_cuda(),
        pytest.raises(ImportError, match=r"has nothing for `numba.cuda.codegen` .*import names"),
    ):
        exec("import numba.cuda.codegen")


def test_afterwards_all_is_as_before():
    def state() -> tuple[dict[str, object], dict[str, object], list[object]]:
        names = ("numba.cuda", "numba_cuda_mlir")
        return {n: m for n, m in sys.modules.items() if n.startswith(names)}, dict(vars(cuda)), list(sys.meta_path)

    before = state()
    with takeover.numba_cuda():
        exec("import numba.cuda.cudadrv.driver, numba.cuda.random, numba.cuda.types, numba_cuda_mlir.cuda")
    assert state() == before
    assert "__path__" not in vars(cuda)


def test_names_that_numba_cuda_takes_bare(run):
    source = """\
import numpy as np
from numba.cuda import grid, jit, shfl_sync, syncthreads
from numba.cuda.libdevice import fast_sinf

@jit
def kernel(x):
    i = grid(1)
    syncthreads()
    x[i] = shfl_sync(-1, i, 3) + fast_sinf(np.float32(0))

x = np.zeros(32)
kernel[1, 32](x)
assert (x == 3).all()
"""
    assert run(source)[0] == 0
    code, lines = run(source.replace("grid, jit", "grid, jit, threadIdx").replace("grid(1)", "threadIdx.x"))
    assert code == 2
    assert lines[0] == "error: `threadIdx` is `cuda.threadIdx` under a name that Numba-CUDA lacks"


# -- signatures --------------------------------------------------------------------------------------------------------


def thirds(x, y, a):
    """Whether `a` is float32 shows in the product."""
    y[0] = a * x[0]


@pytest.mark.parametrize("quoted", [True, False])
def test_a_signature_converts_the_numbers_of_a_launch(quoted):
    from numba import float32, float64, void

    declared = void(float32[:], float64[:], float32)
    x, y = np.ones(1, np.float32), np.zeros(1)
    check(cuda.jit(str(declared.return_type) + "(f4[:], f8[:], f4)" if quoted else declared)(thirds), 1, 1, (x, y, 0.1))
    assert y[0] == np.float32(0.1)
    check(cuda.jit(thirds), 1, 1, (x, y, 0.1))
    assert y[0] == 0.1


def test_of_several_signatures_the_best_is_taken():
    kernel = cuda.jit(["(f4[:], f8[:], f4)", "(f4[:], f8[:], i8)"])(thirds)
    x, y = np.full(1, 2, np.float32), np.zeros(1)
    for a, product in ((3, 6.0), (0.1, 2 * float(np.float32(0.1))), (True, 2.0)):
        check(kernel, 1, 1, (x, y, a))
        assert y[0] == product


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.ones(1), np.ones(1), 1), "`x` is an array of float64 with 1 dimensions: make it one of float32"),
        ((np.ones((1, 1), np.float32), np.ones(1), 1), "`x` is an array of float32 with 2 dimensions"),
        ((np.ones(2, np.float32)[::2], np.ones(1), np.ones(1)), "`a` is an array of float64"),
        ((3, np.ones(1), 1), "`x` is 3 of type int, not an array"),
        ((np.ones(4, np.float32)[::2], np.ones(1), 1), "`x` is not contiguous in the declared order C"),
    ],
)
def test_arrays_are_not_converted(arguments, message):
    with pytest.raises(UsageError) as caught:
        check(cuda.jit("(f4[::1], f8[:], f4)")(thirds), 1, 1, arguments)
    assert message in str(caught.value)


def test_a_signature_that_is_none_is_shown():
    with pytest.raises(UsageError, match=r"`jit` of `thirds` has the signature 'void\(flat32\)', which is none"):
        cuda.jit("void(flat32)")(thirds)


def test_a_device_function_converts_to_its_signature():
    @cuda.jit("float32(float32)", device=True)
    def same(v):
        return v

    @cuda.jit(cuda.types.int32(cuda.types.int32), device=True)
    def double(v):
        return v * 2

    @cuda.jit
    def kernel(x):
        x[0] = same(0.1)
        x[1] = double(1 << 31)
        x[2] = double(2.9)

    x = np.zeros(3)
    check(kernel, 1, 1, (x,))
    assert x.tolist() == [float(np.float32(0.1)), 0.0, 4.0]


# -- the host's side ---------------------------------------------------------------------------------------------------


@cuda.jit
def count(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += 1


def test_forall_launches_enough_threads():
    x = np.zeros(2000, np.int32)
    count.forall(x.size)(x)
    count.forall(x.size, tpb=96)(x)
    count.forall(0)(x)
    assert (x == 2).all()
    with pytest.raises(UsageError, match=r"`count.forall\(-1\)`: give 0 or more"):
        count.forall(-1)
    count.specialize(x).configure(1, 32)(x)
    assert x[0] == 3


CONSTANT = np.zeros(3, np.int64)


@cuda.jit(max_registers=40, launch_bounds=256)
def with_figures(x):
    tile = cuda.shared.array(64, np.float32)
    own = cuda.local.array(4, np.int32)
    first = CONSTANT[0]
    own[0] = first
    tile[cuda.threadIdx.x] = own[0]
    x[0] = tile[0]


def test_a_kernel_tells_its_figures_for_each_combination_of_types_that_was_launched():
    asked: Any = with_figures
    assert asked.get_shared_mem_per_block() == {}
    asked[1, 1](np.zeros(1))
    asked[1, 1](np.zeros(4, np.float32)[::2])
    launched = [(numba_types.float64[::1],), (numba_types.float32[:],)]
    assert asked.signatures == list(asked.overloads) == launched
    figures = "shared_mem_per_block local_mem_per_thread const_mem_size max_threads_per_block regs_per_thread".split()
    assert [getattr(asked, f"get_{name}")(launched[0]) for name in figures] == [256, 16, 24, 256, 40]
    assert asked.get_regs_per_thread() == dict.fromkeys(launched, 40)
    assert asked.specialize(np.zeros(1)).get_regs_per_thread() == 40
    said = io.StringIO()
    asked.inspect_types(said)
    assert "with_figures (array(float64, 1d, C))" in said.getvalue()
    assert "first :: int64" in said.getvalue()
    assert asked.stats.cache_hits == {}
    asked.recompile()
    assert asked.get_shared_mem_per_block() == {}


def test_a_kernel_is_compiled_for_types_without_a_launch():
    asked: Any = count
    assert asked.compile("void(int32[::1])").argument_types == (numba_types.int32[::1],)


NAMES_OF_THE_DISPATCHER = """
    add_overload compile_device disable_compile fold_argument_types get_annotation_info get_call_template get_metadata
    get_overload inspect_cfg inspect_disasm_cfg
""".split()


@pytest.mark.parametrize("name", NAMES_OF_THE_DISPATCHER)
def test_what_only_numbas_compiler_does_is_told_to_be_missing(name):
    with pytest.raises(UnsupportedError, match=rf"`count.{name}` is not modelled"):
        getattr(count, name)()


@pytest.mark.parametrize("name", ["asm", "llvm", "lto_ptx", "sass", "sass_cfg"])
def test_code_is_shown_where_numba_cuda_compiles_it(name, monkeypatch):
    def refuse(*_: Any) -> None:
        raise UsageError("no compiler")

    monkeypatch.setattr(second_way, "ask_compiled", refuse)
    asked: Any = count
    asked[1, 32](np.zeros(32, np.int32))
    with pytest.raises(UnsupportedError, match=rf"`count.inspect_{name}` is not modelled: no compiler"):
        getattr(asked, f"inspect_{name}")()
    assert not hasattr(count, "anything")


NAMES_WITHOUT = "HostOnlyCUDAMemoryManager IpcHandle MemoryPointer codegen nvvm set_memory_manager target".split()


@pytest.mark.parametrize("name", NAMES_WITHOUT)
def test_a_name_that_is_not_modelled_is_imported_and_refused_when_it_is_used(name):
    found = getattr(cuda, name)
    assert not isinstance(3, found)
    for used in (found, found.anything, types.new_class("derived", (found,))):
        with pytest.raises(UnsupportedError, match=rf"`cuda.{name}.* is not modelled"):
            used()


def test_the_context_makes_streams_and_events_and_says_what_it_has_not():
    context: Any = cuda.current_context()
    assert context.create_event().query()
    assert bool(context.get_default_stream())
    with context.defer_cleanup(), pytest.raises(UnsupportedError, match=r"`device.memalloc` is not modelled"):
        context.memalloc(8)
    assert not hasattr(context, "anything")


def test_modules_of_numba_cuda_are_there_without_an_import():
    module: Any = cuda
    assert module.cudadrv.driver.CudaAPIError is module.CudaAPIError
    assert module.devices.get_context() is module.current_context()
    assert issubclass(module.errors.KernelRuntimeError, RuntimeError)


def test_hints_of_arguments():
    x, y = np.zeros(32, np.int32), np.zeros(32, np.int32)
    count[1, 32](cuda.In(x))
    count[1, 32](cuda.InOut(y))
    assert (x.sum(), y.sum()) == (0, 32)


def test_device_arrays_do_as_numbas():
    host = np.arange(6, dtype=np.float32)
    device = cuda.to_device(host)
    host[:] = 0
    assert device[2] == 2
    assert [part.copy_to_host().tolist() for part in device.split(4)] == [[0, 1, 2, 3], [4, 5]]
    device[1:3] = 7
    device.reshape(2, 3).T[0].copy_to_device(np.array([5, 6], np.float32))
    assert device.copy_to_host().tolist() == [5, 7, 7, 6, 4, 5]
    assert type(np.add(device, 1)) is np.ndarray
    assert cuda.is_cuda_array(device)
    assert not cuda.is_cuda_array(cuda.pinned_array(3))
    assert type(cuda.pinned_array_like(device)) is np.ndarray
    with cuda.mapped(host) as view:
        count[1, 32](view)
        cuda.synchronize()
    assert host.sum() == 6
    with pytest.raises(UsageError, match="float32 does not fit into one of float64: convert it with `astype`"):
        device.copy_to_host(np.zeros(6))
    device.reshape(1, 6).copy_to_host(host)  # extents of 1 do not count
    assert host[0] == 5


@cuda.jit
def half_and_sum(x, y):
    i = cuda.grid(1)
    if i < x.size // 2:
        x[i] = 1
    y[i] = x[i]


def test_what_nobody_wrote_to_a_device_array_is_not_read():
    x, y = cuda.device_array(64, np.int32), cuda.device_array(64, np.int32)
    report = check(half_and_sum, 2, 32, (x, y))
    assert [finding.code for finding in report.errors] == ["uninitialized-read"]
    assert "`cuda.to_device`" in (report.errors[0].help or "")
    assert check(half_and_sum, 2, 32, (x, y)).verdict == "verified"  # told once


@pytest.mark.parametrize(
    "fill",
    [
        lambda x: x.copy_to_device(np.zeros(64, np.int32)),
        lambda x: x.__setitem__(slice(None), 0),
        lambda x: cuda.to_device(np.zeros(64, np.int32), to=x),
        lambda x: x[:32].copy_to_device(np.zeros(32, np.int32)),
        lambda x: check(count, 2, 32, (x,)),
    ],
)
def test_a_device_array_that_was_written_may_be_read(fill):
    x, y = cuda.device_array(64, np.int32), cuda.device_array(64, np.int32)
    fill(x)
    assert check(half_and_sum, 2, 32, (x, y)).verdict == "verified"


def test_the_device_has_sensible_numbers():
    device = cuda.get_current_device()
    assert (device.WARP_SIZE, device.MAX_THREADS_PER_BLOCK, device.MAX_GRID_DIM_Y) == (32, 1024, 65535)
    assert device.compute_capability == (9, 0)
    assert [gpu.id for gpu in cuda.gpus] == [0]
    assert cuda.current_context().get_memory_info().free > 0
    with pytest.raises(AttributeError, match="did you mean `MAX_THREADS_PER_BLOCK`"):
        device.MAX_THREADS_PER_BLOK  # noqa: B018


def test_streams_and_events():
    seen: list[object] = []
    stream = cuda.stream()
    stream.add_callback(lambda *arguments: seen.append(arguments[2]), "done")
    assert seen == ["done"]
    event = cuda.event()
    event.record(stream)
    assert event.query()


@pytest.mark.parametrize("size", [1, 31, 32, 33, 64, 100, 127, 128, 129, 1000, 9000])
def test_reduce_combines_every_element_once(size):
    total = cuda.reduce(lambda a, b: a + b)
    numbers = np.random.default_rng(size).integers(-1000, 1000, size)
    assert total(numbers) == numbers.sum()
    result = cuda.device_array(1, np.int64)
    assert total(cuda.to_device(numbers), res=result, init=7) is None
    assert result[0] == numbers.sum() + 7


def test_reduce_sums_floats_in_the_order_of_the_gpu():
    parts = np.random.default_rng(0).random(100).astype(np.float32)
    warps = [np.add.reduce(parts[:0])] * 0
    for first in (0, 32, 64):
        row = parts[first : first + 32].copy()
        for width in (16, 8, 4, 2, 1):
            row[:width] += row[width : 2 * width]
        warps.append(row[0])
    last = parts[96]
    for value in parts[97:]:
        last = np.float32(last + value)
    expected = np.float32(np.float32(np.float32(warps[0] + warps[1]) + warps[2]) + last)
    assert cuda.reduce(lambda a, b: a + b)(parts) == expected


DTYPES = "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float32 float64 complex64 complex128".split()


@pytest.mark.parametrize("dtype", DTYPES)
def test_reduce_takes_every_dtype(dtype):
    x = (np.arange(300) % 3 != 1).astype(dtype)
    assert cuda.reduce(lambda a, b: a if a != b else b)(x) == x.dtype.type(x[-1])
    if dtype != "bool":
        assert cuda.reduce(lambda a, b: a + b)(x) == x.sum(dtype=x.dtype)


IMPORTS = ["numba", "numba.types", "numba.core.types", "numba.cuda", "numba.cuda.types", "numba.cuda.core.types"]


@pytest.mark.parametrize("name", "int8 uint64 float32 float64 complex64 void boolean intp".split())
@pytest.mark.parametrize("module", IMPORTS)
def test_types_of_every_path_make_signatures(module, name):
    with takeover.numba_cuda():
        found = getattr(importlib.import_module(module), name)
        void = importlib.import_module("numba").void
        made = cuda.jit(void(found[:]) if name != "void" else found(numba_types.int32))(count.py_func)
    assert len(made.declared[0].arguments) == 1


def test_reduce_of_two_dimensions_is_refused():
    with pytest.raises(UsageError, match="array of 2 dimensions: give it `ravel"):
        cuda.reduce(max)(np.zeros((2, 2)))


def test_random_numbers_are_numbas():
    """The states and numbers of numba-cuda 0.30.4 for these seeds."""
    states = cuda.random.create_xoroshiro128p_states(3, seed=1, subsequence_start=2)
    assert [tuple(map(int, state)) for state in states] == STATES

    @cuda.jit
    def draw(states, uniform, normal):
        i = cuda.grid(1)
        uniform[i] = cuda.random.xoroshiro128p_uniform_float64(states, i)
        normal[i] = cuda.random.xoroshiro128p_normal_float32(states, i)

    uniform, normal = np.zeros(3), np.zeros(3, np.float32)
    check(draw, 1, 3, (states, uniform, normal)).assert_clean()
    assert uniform.tolist() == UNIFORM
    np.testing.assert_allclose(normal, NORMAL, rtol=1e-5)


STATES = [
    (809817624983272012, 15258973161149853818),
    (4287641842676342503, 12987378992932203451),
    (1720621703753190264, 9457973938255393670),
]
UNIFORM = [0.8710908939770295, 0.936480755984957, 0.6059928840201348]
NORMAL = [0.8404563, 0.1622026, -0.9067513]


def test_a_foreign_function_is_not_modelled():
    foreign = cuda.declare_device("f", "float32(float32)", link="f.cu")

    @cuda.jit
    def kernel(x):
        x[0] = foreign(x[0])

    with pytest.raises(UnsupportedError, match=r"`cuda.declare_device` is not modelled"):
        kernel[1, 1](np.zeros(1, np.float32))


def test_an_exception_in_a_text_of_exec_is_the_programs(run):
    code, lines = run(f'{HEADER}\nfill[1, 4](np.zeros(4))\nexec("def f(x):\\n    return x.foo\\nf(3)")\n')
    assert code == 1
    assert lines[0] == "the program raised an exception:"
    assert "AttributeError: 'int' object has no attribute 'foo'" in lines
