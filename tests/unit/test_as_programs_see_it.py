"""How Numba-CUDA behaves towards a program: warnings, types of errors, dtypes of signatures, events and streams, what
`print` writes.  Each is asked for by its name."""

from __future__ import annotations

import asyncio
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from numba import types
from numba.core.errors import NumbaInvalidConfigWarning, NumbaPerformanceWarning

import wsemu
from wsemu import cuda
from wsemu.host import takeover
from wsemu.launch.check import check
from wsemu.model.errors import KernelError, UnsupportedError
from wsemu.model.settings import Settings, using

if TYPE_CHECKING:
    from collections.abc import Iterator

ENGINES = pytest.mark.parametrize("engine", ["vm", "reference"])


def kernel(x):
    x[cuda.grid(1)] = 1


@pytest.fixture
def numba_cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """`numba.cuda` as a program that wsemu runs sees it, with warnings of performance asked for."""
    with takeover.numba_cuda():
        monkeypatch.setattr(cuda.config, "CUDA_LOW_OCCUPANCY_WARNINGS", 1)
        monkeypatch.setattr(cuda.config, "CUDA_WARN_ON_IMPLICIT_COPY", 1)
        yield cuda


# -- warnings ---------------------------------------------------------------------------------------------------------
def test_a_small_grid_is_warned_of(numba_cuda: Any) -> None:
    made = numba_cuda.jit(kernel)
    with pytest.warns(NumbaPerformanceWarning, match="Grid size 127 will likely result .* low occupancy") as seen:
        made[127, 1]
    assert seen[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made[128, 1]


def test_an_array_of_the_host_is_warned_of_and_a_device_array_is_not(numba_cuda: Any) -> None:
    launch = numba_cuda.jit(kernel)[128, 1]
    with pytest.warns(NumbaPerformanceWarning, match="Host array used in CUDA kernel will incur copy overhead"):
        launch(np.zeros(128))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for made in (numba_cuda.to_device, numba_cuda.mapped_array_like):
            launch(made(np.zeros(128)))
        launch(numba_cuda.managed_array(128))


def test_performance_is_not_warned_of_unless_somebody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    with takeover.numba_cuda(), warnings.catch_warnings():
        warnings.simplefilter("error")
        cuda.jit(kernel)[1, 32](np.zeros(32))
    monkeypatch.setenv("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", "1")
    assert type(cuda.config)().CUDA_LOW_OCCUPANCY_WARNINGS == 1


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"debug": True}, "debug=True with opt=True is not supported by CUDA"),
        ({"debug": True, "opt": True}, "debug=True with opt=True is not supported by CUDA"),
        ({"debug": True, "opt": False, "lineinfo": True}, "debug and lineinfo are mutually exclusive"),
    ],
)
def test_options_that_do_not_go_together_are_warned_of(numba_cuda: Any, options: dict[str, Any], text: str) -> None:
    with pytest.warns(NumbaInvalidConfigWarning, match=text):
        numba_cuda.jit(**options)(kernel)


@pytest.mark.parametrize("options", [{}, {"debug": True, "opt": False}, {"lineinfo": True}, {"opt": True}])
def test_options_that_go_together_are_not(numba_cuda: Any, options: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        numba_cuda.jit(**options)(kernel)


# -- errors -----------------------------------------------------------------------------------------------------------
def two(x, n):
    x[0] = n


WRONG: dict[str, tuple[Any, type[Exception]]] = {
    "no brackets": (lambda k: k(np.zeros(1), 1), ValueError),
    "too few arguments": (lambda k: k[1, 1](np.zeros(1)), TypeError),
    "too many arguments": (lambda k: k[1, 1](np.zeros(1), 1, 2), TypeError),
    "a grid of floats": (lambda k: k[1.5, 1](np.zeros(1), 1), TypeError),
    "a negative forall": (lambda k: k.forall(-1), ValueError),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_launch_is_an_error_of_pythons_type(what: str) -> None:
    launch, kind = WRONG[what]
    with pytest.raises(kind) as found:
        launch(cuda.jit(two))
    assert isinstance(found.value, wsemu.UsageError)


def test_handles_for_other_processes_are_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match="IPC handle"):
        cuda.to_device(np.zeros(1)).get_ipc_handle()


# -- signatures -------------------------------------------------------------------------------------------------------
def first(x, t):
    x[0] = t[0] / t[1]


def test_a_signature_declares_tuples() -> None:
    made = cuda.jit(types.void(types.float64[:], types.Tuple((types.float64, types.int32))))(first)
    x = np.zeros(1)
    made[1, 1](x, (3, 2.9))
    assert x[0] == 1.5
    pairs = cuda.jit(types.void(types.float64[:], types.UniTuple(types.int64, 2)))(first)
    pairs[1, 1](x, (7.9, 2))
    assert x[0] == 3.5
    for wrong in ((1, 2, 3), 5, (1, "a")):
        with pytest.raises(TypeError, match="`t"):
            pairs[1, 1](x, wrong)


def test_a_device_function_declares_tuples() -> None:
    half = cuda.jit(types.float64(types.UniTuple(types.int32, 2)), device=True)(lambda t: t[0] / t[1])

    @cuda.jit
    def calls(x):
        x[0] = half((7.9, 2.9))

    x = np.zeros(1)
    calls[1, 1](x)
    assert x[0] == 3.5


@pytest.mark.parametrize("dtype", ["int32", "uint8", "float32", "complex128", "bool"])
def test_an_array_of_another_dtype_fits_no_signature(dtype: str) -> None:
    made = cuda.jit([types.void(types.float64[:]), types.void(types.int64[:])])(kernel)
    with pytest.raises(TypeError, match=rf"array of {dtype}"):
        made[1, 1](np.zeros(1, dtype))


def test_a_ufunc_takes_the_signature_of_the_dtypes_and_no_other() -> None:
    declared = ["float32(float32, float32)", "int32(int32, int32)", "float64(float64, float64)"]
    add = cuda.vectorize(declared)(lambda a, b: a + b)
    for name in ("float32", "int32", "float64"):
        x = np.arange(3, dtype=name)
        assert add(x, x).dtype == name
        assert add(x, x[0]).dtype == name
        assert add(x, 2).dtype == name
    for other in ("int64", "uint8", "float16", "complex64"):
        with pytest.raises(TypeError, match="no matching version"):
            add(np.zeros(3, other), np.zeros(3, other))
    with pytest.raises(TypeError, match="ambiguous signature"):
        add(1, 2)


def test_a_generalized_ufunc_is_chosen_as_numba_cuda_chooses() -> None:
    declared = [(types.float32[:], types.float32[:]), (types.int64[:], types.int64[:])]

    @cuda.guvectorize(declared, "(n)->()")
    def total(x, result):
        result[0] = 0
        for value in x:
            result[0] += value

    assert total(np.arange(4, dtype=np.float32)).dtype == np.float32
    assert total(np.arange(4)).dtype == np.int64
    assert total(np.arange(4.0)) == 6  # float32 casts to float64, so that is the signature
    with pytest.raises(TypeError, match="no matching signature"):
        total(np.arange(4, dtype=np.int32))


def test_loop_dimensions_of_a_generalized_ufunc_have_to_match() -> None:
    add = cuda.guvectorize([(types.int64[:], types.int64, types.int64[:])], "(n),()->(n)")(_plus)
    assert add(np.zeros((2, 3), int), np.array([1, 2])).tolist() == [[1] * 3, [2] * 3]
    assert add(np.zeros((2, 3), int), 4).tolist() == [[4] * 3] * 2
    with pytest.raises(ValueError, match="outer dimension mismatch"):
        add(np.zeros((2, 3), int), np.zeros(3, int))


def _plus(x, y, result):
    for n in range(x.shape[0]):
        result[n] = x[n] + y


# -- events and streams -----------------------------------------------------------------------------------------------
def test_events_are_over_and_in_order() -> None:
    begin, end = cuda.event(), cuda.event(timing=False)
    stream = cuda.stream()
    begin.record(stream)
    cuda.jit(kernel)[1, 8, stream](np.zeros(8))
    end.record(stream=stream)
    for event in (begin, end):
        event.wait(stream)
        event.synchronize()
        assert event.query()
    assert begin.elapsed_time(end) > 0
    assert cuda.event_elapsed_time(begin, end) == begin.elapsed_time(end)


@pytest.mark.parametrize(
    "name", ["stream", "default_stream", "legacy_default_stream", "per_thread_default_stream", "external_stream"]
)
def test_a_stream_of_each_kind_takes_copies_launches_and_callbacks(name: str) -> None:
    stream: Any = getattr(cuda, name)(*[0] * (name == "external_stream"))
    seen: list[object] = []
    with stream.auto_synchronize():
        there = cuda.to_device(np.zeros(8), stream=stream)
        cuda.jit(kernel)[1, 8, stream](there)
        stream.add_callback(lambda of, status, arg: seen.append((of, status, arg)), 5)
    stream.synchronize()
    assert seen == [(stream, 0, 5)]
    assert there.copy_to_host(stream=stream).tolist() == [1] * 8

    async def wait() -> None:
        await stream.async_done()

    asyncio.run(wait())


# -- print ------------------------------------------------------------------------------------------------------------
PRINTED = {
    "1": "1", "-5": "-5", "np.uint8(200)": "200", "np.uint64(18446744073709551615)": "18446744073709551615",
    "True": "True", "1 > 2": "False", "0.1": "0.100000", "np.float32(1e10)": "10000000000.000000", "-0.0": "-0.000000",
    "1e300 * 1e300": "inf", "'text'": "text", "'a', 1, 'b'": "a 1 b", "": "", "(1, 2.5)": "(1, 2.500000)",
    "(1,)": "(1,)", "cuda.threadIdx": "(0, 0, 0)", "np.int8(-3), 7": "-3 7",
}  # fmt: skip
"""arguments of `print` -> the line: `printf`'s `%d`, `%u` and `%f`, as Numba-CUDA asks for them"""


@ENGINES
def test_print_writes_each_type_in_the_gpus_format(engine: Any, capsys: pytest.CaptureFixture[str]) -> None:
    text = "def prints(x):\n" + "".join(f"    print({arguments})\n" for arguments in PRINTED)
    space: dict[str, Any] = {"cuda": cuda, "np": np}
    exec(text, space)
    space["prints"].__source__ = text
    with using(Settings(engine=engine)):
        cuda.jit(space["prints"])[1, 1](np.zeros(1))
    assert capsys.readouterr().out.splitlines() == list(PRINTED.values())


def test_print_comes_cta_after_cta_and_thread_after_thread(capsys: pytest.CaptureFixture[str]) -> None:
    @cuda.jit
    def tells(x):
        print(cuda.blockIdx.x, cuda.threadIdx.x)

    tells[2, 3](np.zeros(1))
    assert capsys.readouterr().out.split("\n") == ["0 0", "0 1", "0 2", "1 0", "1 1", "1 2", ""]


# -- variables that not all paths assign ------------------------------------------------------------------------------
def after_while(x, n):
    while n > 0:
        last = n
        total = x[0] * n
        n -= 1
    x[0] = last
    x[1] = total


def in_the_other_arm(x, n):
    if n > 3:
        v = x[1]
        x[0] = v
    else:
        x[1] = (v + 1) / 2  # type: ignore[used-before-def]


def around_and_around(x, n):
    while n > 0:
        k = 0
        while k < 2:
            inner = k + n
            k += 1
        x[n % 4] = inner
        n -= 2


@ENGINES
@pytest.mark.parametrize(
    ("function", "n", "wanted"),
    [
        (after_while, 0, [0, 0, 3, 4]),
        (after_while, 3, [1, 1, 3, 4]),
        (in_the_other_arm, 4, [2, 2, 3, 4]),
        (in_the_other_arm, 3, [1, 0.5, 3, 4]),
        (around_and_around, 3, [1, 2, 3, 4]),
        (around_and_around, 2, [1, 2, 3, 4]),
    ],
)
def test_a_variable_that_a_path_does_not_assign_is_zero_there(function: Any, n: int, wanted: Any, engine: Any) -> None:
    x = np.arange(4.0) + 1
    if function is around_and_around:
        wanted = list(wanted)
        for m in range(n, 0, -2):
            wanted[m % 4] = m + 1
    check(cuda.jit(function), 1, 1, (x, n), engine=engine).assert_clean()
    assert x.tolist() == wanted


@pytest.mark.parametrize(("function", "line", "name"), [(after_while, 5, "last"), (in_the_other_arm, 5, "v")])
def test_strict_notes_where_such_a_variable_is_used(function: Any, line: int, name: str) -> None:
    place = function.__code__.co_firstlineno + line
    what = f"test_as_programs_see_it.py:{place}: not all paths to this use of `{name}` assign it"
    given = np.ones(4), 4
    assert any(what in note for note in check(cuda.jit(function), 1, 1, given, strict=True).notes)
    assert not check(cuda.jit(function), 1, 1, given).notes


def test_a_variable_that_is_assigned_further_down_alone_is_an_error() -> None:
    def too_early(x, n):
        if n > 3:
            x[0] = v  # type: ignore[has-type, used-before-def]  # noqa: F821
        v = x[1]
        x[2] = v

    with pytest.raises(KernelError, match="`v` is used before it is assigned"):
        check(cuda.jit(too_early), 1, 1, (np.ones(4), 1))
