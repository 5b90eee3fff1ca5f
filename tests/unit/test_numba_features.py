"""What Numba-CUDA programs use, feature by feature: values are those of NumPy, `math`, `cmath`, or of Python itself."""

from __future__ import annotations

import cmath
import enum
import math
import operator
import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numba.core import types
from numba.extending import overload as generic_overload

import wsemu
from wsemu import cuda
from wsemu.host import takeover
from wsemu.host.extending import overload
from wsemu.launch.check import check
from wsemu.model import remembered
from wsemu.model.errors import KernelError, UsageError
from wsemu.model.settings import Settings, using

REFERENCE = Settings(engine="reference")


def launched(body: str, *arguments: Any, **names: Any) -> None:
    """Launch a kernel of one thread that is made of text; its parameters are a, b, c, ..."""
    parameters = ", ".join("abcdefg"[: len(arguments)])
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    text = f"def made({parameters}):\n{lines}\n"
    space: dict[str, Any] = {"cuda": cuda, "np": np, "math": math, "cmath": cmath, "operator": operator, **names}
    exec(text, space)
    space["made"].__source__ = text
    wsemu.check(cuda.jit(space["made"]), 1, 1, arguments).assert_clean()


# -- sources ----------------------------------------------------------------------------------------------------------
KERNEL = """
@cuda.jit
def double(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= 2
"""


def test_a_kernel_of_exec_has_its_source_while_a_program_runs() -> None:
    space: dict[str, Any] = {"cuda": cuda}
    with remembered.remembering():
        exec(KERNEL, space)
    x = np.arange(40.0)
    space["double"][1, 64](x)
    assert (x == 2 * np.arange(40.0)).all()


def test_compile_keeps_a_source_that_has_no_file() -> None:
    space: dict[str, Any] = {"cuda": cuda}
    with remembered.remembering():
        exec(compile(KERNEL, "<made up>", "exec"), space)
    report = wsemu.check(space["double"], 1, 1, (np.ones(4),))
    assert report.verdict == "verified"


def test_exec_uses_the_names_of_its_caller() -> None:
    with remembered.remembering():
        exec("made = [1]\nmade.append(2)")
        assert eval("made") == [1, 2]


def test_a_lambda_of_eval_has_its_source() -> None:
    with remembered.remembering():
        twice = eval("lambda v: 2 * v")
        assert eval("twice(4)") == 8
    x = np.full(1, 3.0)
    launched("a[0] = twice(a[0])", x, twice=twice)
    assert x[0] == 6


def test_a_function_may_carry_its_source() -> None:
    x = np.zeros(1)
    launched("a[0] = 5", x)
    assert x[0] == 5


def test_a_finding_in_a_kernel_of_exec_shows_its_line() -> None:
    space: dict[str, Any] = {"cuda": cuda}
    with remembered.remembering():
        exec("@cuda.jit\ndef racy(x):\n    x[0] = cuda.threadIdx.x\n", space)
    report = wsemu.check(space["racy"], 1, 64, (np.zeros(1),))
    assert report.verdict == "failed"
    assert report.errors[0].sites[0].file.startswith("<string ")
    assert report.errors[0].sites[0].line == 3


# -- names and types --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", "void double intp uintp int_ intc short byte char long_ f4 i8 u1 b1 c16".split())
def test_types_have_all_of_numbas_names(name: str) -> None:
    from numba.core import types

    assert getattr(cuda, name) is getattr(cuda.types, name) is getattr(types, name)


def test_parts_of_numba_cuda_are_imported_by_name() -> None:
    with takeover.numba_cuda():
        from numba.cuda import errors
        from numba.cuda.compiler import compile_ptx
        from numba.cuda.core.errors import TypingError
        from numba.cuda.cudadrv.devices import get_context, gpus
    assert issubclass(errors.KernelRuntimeError, RuntimeError)
    assert errors.TypingError is TypingError
    assert callable(compile_ptx)
    assert get_context is cuda.current_context
    assert len(gpus) == 1


def test_a_kernel_tells_its_signatures() -> None:
    kernel = cuda.jit(["void(float32[:])", "void(float64[:])"])(lambda x: None)
    assert [str(types[0]) for types in kernel.signatures] == ["array(float32, 1d, A)", "array(float64, 1d, A)"]


def test_an_array_is_unpacked_into_as_many_names_as_it_has_items() -> None:
    x = np.zeros(2)
    launched("p, q, r = b\na[0] = p + q + r\na[1] = 1", x, np.arange(3.0))
    assert x.tolist() == [3, 1]
    launched("p, q = b\na[0] = 9", x, np.arange(3.0))  # the thread raises, and ends
    assert x.tolist() == [3, 1]


def test_a_type_of_isinstance_is_the_values_own() -> None:
    x = np.zeros(4)
    launched("a[0] = isinstance(b, float)\na[1] = isinstance(b, np.float32)\na[2] = isinstance(c, int)\n"
             "a[3] = isinstance(1.5, (int, float))", x, np.float32(1), np.int32(1))  # fmt: skip
    assert x.tolist() == [0, 1, 0, 1]


def test_signatures_take_types_of_every_path() -> None:
    from numba import float64, void

    with takeover.numba_cuda():
        from numba.cuda.types import int32 as other
    for signature in (
        cuda.void(cuda.double[:], cuda.int32),
        void(float64[:], other),
        "void(double[:], intc)",
        (float64[:], cuda.intp),
    ):
        x = np.zeros(2)

        @cuda.jit(signature)
        def fill(x, n):
            x[0] = n
            x[1] = cuda.double(n) / 2

        fill[1, 1](x, 3)
        assert x.tolist() == [3, 1.5]


def test_a_signature_reads_integers_of_the_other_sign_as_numba_cuda_does() -> None:
    x = np.array([2**32 - 1, 1], np.uint32)

    @cuda.jit("void(int32[:], int64[:])")
    def copy(x, y):
        y[0] = x[0]

    y = np.zeros(1, np.int64)
    copy[1, 1](x, y)
    assert y[0] == -1


def test_config_has_numba_cudas_settings() -> None:
    assert cuda.HAS_NUMBA
    assert cuda.config.CUDA_LOW_OCCUPANCY_WARNINGS == 0
    assert isinstance(cuda.config.DEBUG, int)
    with takeover.numba_cuda():
        from numba.cuda.core import config

        assert config is cuda.config


def test_auto_device_copies_what_is_on_the_host() -> None:
    host = np.arange(3)
    device, made = cuda.devicearray.auto_device(host)
    assert made
    assert cuda.devicearray.auto_device(device)[1] is False
    with pytest.raises(ValueError, match="has gaps"):
        cuda.devicearray.auto_device(np.arange(10)[::2])


# -- functions --------------------------------------------------------------------------------------------------------
POINTS = (1 + 2j, -1.5 + 0.25j, 0.5 - 3j, -2 - 0.125j, complex(0.0, -0.0), complex(math.inf, 1), complex(-0.0, 2))


@pytest.mark.parametrize(
    "name", "exp sqrt sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh log log10 phase".split()
)
def test_cmath(name: str) -> None:
    points = [z for z in POINTS if abs(z) < 1e9 and (z or "log" not in name)]
    result = np.zeros(len(points), complex)
    launched(f"for i in range(a.size):\n    b[i] = cmath.{name}(a[i])", np.array(points), result)
    for got, z in zip(result, points, strict=True):
        wanted = complex(getattr(cmath, name)(z))
        assert cmath.isclose(got, wanted, rel_tol=1e-13, abs_tol=1e-15), (z, got, wanted)


@pytest.mark.parametrize("z", [complex(math.inf, 0), complex(-math.inf, 2), complex(1, math.inf), complex(math.nan, 0)])
@pytest.mark.parametrize("name", ["sqrt", "exp", "sinh", "cosh", "tanh", "atan", "atanh"])
def test_cmath_at_infinity(name: str, z: complex) -> None:
    result = np.zeros(1, complex)
    launched(f"b[0] = cmath.{name}(a[0])", np.array([z]), result)
    try:
        wanted = getattr(cmath, name)(z)
    except ValueError:
        return
    for got, part in ((result[0].real, wanted.real), (result[0].imag, wanted.imag)):
        assert (math.isnan(got) and math.isnan(part)) or got == pytest.approx(part, abs=1e-300)


def test_cmath_of_two_and_of_parts() -> None:
    result = np.zeros(3, complex)
    launched("b[0] = cmath.log(a[0], a[1])\nb[1] = cmath.rect(2.0, 0.5)", np.array(POINTS[:2]), result)
    launched("r, p = cmath.polar(a[0])\nb[2] = complex(r, p)", np.array(POINTS[:2]), result)
    assert np.allclose(result, [cmath.log(*POINTS[:2]), cmath.rect(2, 0.5), complex(*cmath.polar(POINTS[0]))])


@pytest.mark.parametrize("name", "sin cos tan arcsin arctan sinh tanh arcsinh log log2 log10".split())
def test_complex_ufuncs(name: str) -> None:
    for dtype in (np.complex64, np.complex128):
        points = np.array(POINTS[:4], dtype)
        result = np.zeros(4, dtype)
        launched(f"for i in range(a.size):\n    b[i] = np.{name}(a[i])", points, result)
        assert np.allclose(result, getattr(np, name)(points), rtol=1e-5 if dtype is np.complex64 else 1e-13)


@pytest.mark.parametrize("name", ["maximum", "minimum", "fmax", "less", "greater_equal", "equal"])
def test_complex_ufuncs_of_two(name: str) -> None:
    x, y = np.array(POINTS[:4]), np.array(POINTS[3::-1])
    ufunc = getattr(np, name)
    result = np.zeros(4, ufunc(x, y).dtype)
    launched(f"for i in range(a.size):\n    c[i] = np.{name}(a[i], b[i])", x, y, result)
    assert (result == ufunc(x, y)).all()


REDUCTIONS = "sum prod mean var std min max all any argmin argmax count_nonzero".split()
REDUCTIONS += "nansum nanprod nanmean nanvar nanstd nanmin nanmax".split()


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_of_arrays(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for x in (np.array([[1.5, -2, 3], [4, 0.5, 2]]), np.arange(1, 7, dtype=np.int32), np.array([1, np.nan, 3])):
            if name in ("argmin", "argmax") or not np.isnan(x).any() or name.startswith("nan"):
                wanted = getattr(np, name)(x)
                result = np.zeros(1, np.asarray(wanted).dtype)
                launched(f"b[0] = np.{name}(a)", x, result)
                assert np.allclose(result[0], wanted, rtol=1e-14), x


def test_reductions_as_methods() -> None:
    x, y = np.arange(5.0), np.zeros(3)
    launched("b[0] = a.sum()\nb[1] = a[1:].min()\nb[2] = a.std()", x, y)
    assert np.allclose(y, [10, 1, x.std()])


def test_round_to_digits_that_the_launch_knows() -> None:
    values, digits = [2.125, -1.005, 12345.678, 0.5, math.inf], [2, -2, 0, 1, 5]
    result = np.zeros((len(values), len(digits)))
    launched("for i in range(a.size):\n    for j in range(b.size):\n        c[i, j] = round(a[i], b[j])",
             np.array(values), np.array(digits), result)  # fmt: skip
    wanted = [[round(v, d) if math.isfinite(v) else v for d in digits] for v in values]
    assert np.allclose(result, wanted, rtol=1e-15)


@pytest.mark.parametrize("name", "add sub mul truediv floordiv mod pow lt ge eq and_ lshift iadd imul".split())
def test_operator_functions(name: str) -> None:
    result = np.zeros(1)
    launched(f"a[0] = operator.{name}(b, c)", result, 7, 3)
    assert result[0] == float(getattr(operator, name)(7, 3))


def test_a_tuple_is_indexed_from_its_end_at_run_time_too() -> None:
    x = np.zeros(1)
    launched("a[0] = b[c]", x, (1, 2, 3), -2)
    assert x[0] == 2


def test_is_compares_numbers_of_one_type() -> None:
    x = np.zeros(2, bool)
    launched("a[0] = b is c\na[1] = b is not c", x, 3, 3)
    assert x.tolist() == [True, False]


# -- records, text, enumerations, parts of arrays ---------------------------------------------------------------------
RECORD = np.dtype([("a", "f8"), ("n", "i4", (3,)), ("s", "S4")], align=True)


def test_a_record_is_an_argument_and_launches_write_to_it() -> None:
    records = np.zeros(2, RECORD)
    launched('a.a = 2.5\na["n"][1] = 7\na.s = b"abc"', records[1])
    assert str(records[1]) == str(np.array((2.5, (0, 7, 0), b"abc"), RECORD))


def test_whole_records_are_assigned() -> None:
    records = np.zeros(2, RECORD)
    records[0] = (1.5, (1, 2, 3), b"wxyz")
    launched("a[1] = a[0]\na[1].n[2] = 9", records)
    assert str(records[1]) == str(np.array((1.5, (1, 2, 9), b"wxyz"), RECORD))


def test_fields_of_arrays_of_records_are_views() -> None:
    records, x = np.zeros(3, RECORD), np.zeros(1)
    records["n"][2, 1] = 4
    launched('a.a[1] = 6\nb[0] = a["n"][2, 1] + a.n[:, 1].sum()', records, x)
    assert records["a"].tolist() == [0, 6, 0]
    assert x[0] == 8


@pytest.mark.parametrize(("dtype", "value"), [("S5", b"XYZ"), ("U3", "hé"), ("S2", b"long")])
def test_text_is_stored_and_compared(dtype: str, value: Any) -> None:
    array, x = np.zeros(2, dtype), np.zeros(3)
    launched(
        f"a[0] = {value!r}\na[1] = a[0]\nb[0] = a[1] == {value!r}\nb[1] = a[0] == a[1]\nb[2] = len(a[1])", array, x
    )
    wanted = np.array([value, value], dtype)
    assert (array == wanted).all()
    assert x.tolist() == [wanted[0] == value, 1, len(wanted[0])]


class Color(enum.Enum):
    RED = 3
    GREEN = 7


def test_members_of_enumerations_are_chosen_and_compared() -> None:
    x = np.zeros(4)
    launched(
        "c = Color.RED if b > 1 else Color.GREEN\na[0] = c.value\na[1] = c is Color.RED\na[2] = c != Color.GREEN\n"
        'a[3] = Color["GREEN"] == Color.GREEN',
        x, 5, Color=Color,
    )  # fmt: skip
    assert x.tolist() == [3, 1, 1, 1]


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Size(enum.IntEnum):
    SMALL = 1


@pytest.mark.parametrize(
    ("left", "right", "is_one", "equal"),
    [
        (Level.LOW, Level.LOW, 1, 1),
        (Level.LOW, Level.HIGH, 0, 0),
        (Level.LOW, Size.SMALL, 0, 1),
        (Level.LOW, 1, 0, 1),
        (1, Level.LOW, 0, 1),
        (Level.LOW, np.int32(1), 0, 1),
    ],
)
def test_members_of_integers_are_one_in_their_own_class_alone(left: Any, right: Any, is_one: int, equal: int) -> None:
    x = np.zeros(6)
    launched(
        "a[0] = b is c\na[1] = b == c\na[2] = b is not c\na[3] = b != c\na[4] = LEFT is RIGHT\na[5] = b is RIGHT",
        x, left, right, LEFT=left, RIGHT=right,
    )  # fmt: skip
    assert x.tolist() == [is_one, equal, 1 - is_one, 1 - equal, is_one, is_one]


def test_a_member_of_integers_stays_one_where_paths_and_loops_meet() -> None:
    x = np.zeros(4)
    launched(
        "s = Level.LOW\nfor i in range(b):\n    a[0] += s is Level.HIGH\n"
        "    s = Level.HIGH if s is Level.LOW else Level.LOW\n"
        "a[1] = s is Level.HIGH\na[2] = s is c\nn = s\nfor i in range(b):\n    n = n + 1\na[3] = n is Level.LOW",
        x, 5, 2, Level=Level,
    )  # fmt: skip
    assert x.tolist() == [2, 1, 0, 0]


def test_the_parts_of_a_complex_array_are_views() -> None:
    x = np.array([1 + 2j, 3 + 4j])
    launched("a.real[0] = 9\ncuda.atomic.add(a.imag, 1, 0.5)", x)
    assert x.tolist() == [9 + 2j, 3 + 4.5j]


# -- print and exceptions ---------------------------------------------------------------------------------------------
@cuda.jit
def talks(x, pair):
    i = cuda.grid(1)
    if i % 2:
        print("i", i, x[i], x[i] > 1.0, pair, cuda.threadIdx)
    print(-42, np.uint64(2**63))


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_print_prints_as_the_gpu_formats_it(engine: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with using(Settings(engine=engine)):
        talks[2, 2](np.array([0, 0.5, 1, 1.5]), (1, (2, 3.0), (4,)))
    line = "-42 9223372036854775808\n"
    first = "i 1 0.500000 False (1, (2, 3.000000), (4,)) (1, 0, 0)\n"
    assert (
        capsys.readouterr().out
        == first + 2 * line + first.replace("1 0.5", "3 1.5").replace("False", "True") + 2 * line
    )


def test_a_print_of_more_than_32_values_shows_its_format(capsys: pytest.CaptureFixture[str]) -> None:
    launched(f"print({', '.join(['b'] * 33)})", np.zeros(1), 1)
    assert capsys.readouterr().out == " ".join(["%lld"] * 33) + "\n"


@cuda.jit(debug=True, opt=False)
def raises(x, how):
    i = cuda.grid(1)
    if how == 0 and i == 5:
        raise ValueError("bad", 7)
    if how == 1:
        assert i < 3, "too many"
    if how == 2:
        x[i] = 1 // (i - 6)
    if how == 3:
        x[i] = (1, 2)[i]
    if how == 4:
        raise KeyError
    x[i] += 1


@pytest.mark.parametrize(
    ("how", "kind", "text"),
    [
        (0, ValueError, r"tid=\[0, 0, 1\] ctaid=\[0, 0, 1\]: bad"),
        (1, AssertionError, r"tid=\[0, 0, 3\] ctaid=\[0, 0, 0\]: too many"),
        (2, ZeroDivisionError, "division by zero"),
        (3, IndexError, "tuple index out of range"),
        (4, KeyError, r"tid=\[0, 0, 0\]"),
    ],
)
@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_with_debug_exceptions_reach_the_host(how: int, kind: type[Exception], text: str, engine: Any) -> None:
    x = np.zeros(8)
    with using(Settings(engine=engine)), pytest.raises(kind, match=text) as found:
        raises[2, 4](x, how)
    assert "In function 'raises'" in str(found.value)
    if how == 0:
        assert x.tolist() == [1, 1, 1, 1, 1, 0, 1, 1]
        assert found.value.args[1:] == (7,)


def test_without_debug_a_thread_that_raises_ends_and_nothing_else() -> None:
    x = np.zeros(8)
    cuda.jit(raises.py_func)[2, 4](x, 0)
    assert x.tolist() == [1, 1, 1, 1, 1, 0, 1, 1]


# -- vectorize, extensions --------------------------------------------------------------------------------------------
def test_vectorize_computes_on_arrays() -> None:
    @cuda.vectorize(["float32(float32, float32)", "float64(float64, float64)"])
    def length(a, b):
        return math.sqrt(a * a + b * b)

    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.allclose(length(x, 2.0), np.hypot(x, 2))
    assert length(x, x).dtype == np.float32
    assert length(3.0, 4.0) == 5
    with pytest.raises(TypeError, match="ambiguous signature"):
        length(3, 4)
    out = np.zeros((2, 3))
    assert length(x.astype(float), x.astype(float), out=out) is out
    assert cuda.is_cuda_array(length(cuda.to_device(x), x))
    with pytest.raises(TypeError, match=r"no matching version: .* for complex128, float32"):
        length(x.astype(complex), x)


def test_vectorize_reduces() -> None:
    add = cuda.vectorize(["int64(int64, int64)"])(lambda a, b: a + b)
    assert add.reduce(np.arange(11)) == 55


def test_guvectorize_multiplies_matrices() -> None:
    @cuda.guvectorize(["void(float64[:,:], float64[:,:], float64[:,:])"], "(m,n),(n,p)->(m,p)")
    def product(a, b, c):
        for i in range(c.shape[0]):
            for j in range(c.shape[1]):
                c[i, j] = 0
                for k in range(a.shape[1]):
                    c[i, j] += a[i, k] * b[k, j]

    a, b = np.arange(24.0).reshape(4, 2, 3), np.arange(6.0).reshape(3, 2)
    assert np.allclose(product(a, b), a @ b)
    with pytest.raises(wsemu.UsageError, match="dimension `n` is 3 and 2"):
        product(a, b.T)


def test_guvectorize_takes_numbers_and_gives_them() -> None:
    weighted = cuda.guvectorize([(cuda.float64[:], cuda.float64, cuda.float64[:])], "(n),()->()")(_weighted)
    assert weighted(np.ones((3, 4)), 2.0).tolist() == [8, 8, 8]


def _weighted(x, w, out):
    out[0] = 0
    for v in x:
        out[0] += v * w


def area(x):
    raise NotImplementedError


@overload(area)
def _area(x):
    if isinstance(x, types.Float):
        return lambda x: x * x
    if isinstance(x, types.Array):
        return lambda x: x.sum()
    return None


def difference(x, y):
    """Means something in kernels alone."""


@generic_overload(difference)
def _difference(x, y):
    return lambda x, y: x - y


@cuda.jit
def overloads(x):
    x[0] = area(x[1])
    x[2] = area(x[3:])
    x[1] = difference(x[3], 1)


def test_overloads_are_chosen_by_type() -> None:
    x = np.arange(6.0)
    overloads[1, 1](x)
    assert x.tolist() == [1, 2, 12, 3, 4, 5]


def test_names_that_only_numbas_compiler_knows_do_not_end_a_program() -> None:
    with takeover.numba_cuda():
        from numba.cuda.extending import intrinsic
        from numba.cuda.fp8 import fp8_e4m3
    source = cuda.CUSource("some C++")
    assert "which wsemu does not model" in repr(source)
    assert "extending.intrinsic" in repr(intrinsic)
    x = np.zeros(1)
    text = "def made(a):\n    a[0] = fp8_e4m3(a[0])\n"
    space: dict[str, Any] = {"fp8_e4m3": fp8_e4m3}
    exec(text, space)
    space["made"].__source__ = text
    with using(Settings(numba_ptx=False)):
        report = wsemu.check(cuda.jit(space["made"]), 1, 1, (x,))
    assert report.reasons == ["cuda.fp8.fp8_e4m3"]


def test_extensions_prepare_arguments() -> None:
    class Doubles:
        def prepare_args(self, type_: Any, value: Any, **_: Any) -> Any:
            return type_, 2 * value if isinstance(value, int) else value

    @cuda.jit(extensions=[Doubles()])
    def store(x, n):
        x[0] = n

    x = np.zeros(1)
    store[1, 1](x, 21)
    assert x[0] == 42


# -- bfloat16 ----------------------------------------------------------------------------------------------------------


@cuda.jit
def to_bfloat16(integers, floats, out):
    i = cuda.grid(1)
    if i < integers.size:
        out[i, 0] = cuda.types.float64(cuda.bf16.bfloat16(integers[i]))
        out[i, 1] = cuda.types.float64(cuda.bf16.int64_to_bfloat16_rd(integers[i]))
        out[i, 2] = cuda.types.float64(cuda.bf16.int64_to_bfloat16_ru(integers[i]))
        out[i, 3] = cuda.types.float64(cuda.bf16.int64_to_bfloat16_rz(integers[i]))
        out[i, 4] = cuda.types.float64(cuda.bf16.bfloat16(floats[i]))


def _as_bfloat16(value: int | float, mode: str) -> float:
    """`value` as a bfloat16, by exact arithmetic: 8 bits, exponents from -126 on."""
    size = abs(Fraction(value))
    if not size:
        return 0.0
    exponent = max(math.frexp(float(size))[1] - 1, -126)
    exponent -= Fraction(2) ** exponent > size and exponent > -126
    unit = Fraction(2) ** (exponent - 7)
    whole, rest = divmod(size, unit)
    away = {
        "rn": rest * 2 > unit or (rest * 2 == unit and whole & 1),
        "rz": False,
        "rd": rest and value < 0,
        "ru": rest and value > 0,
    }[mode]
    rounded = (whole + bool(away)) * unit
    return math.copysign(float(rounded) if rounded < Fraction(2) ** 128 else math.inf, value)


def test_bfloat16_rounds_once() -> None:
    rng = np.random.default_rng(4)
    edges = [0, *(s * ((1 << 62) + (1 << 54) + d) for s in (1, -1) for d in (-1, 0, 1)), (1 << 63) - 1, -1 << 63]
    integers = np.concatenate(
        [np.array(edges), rng.integers(-1 << 63, (1 << 63) - 1, 100), rng.integers(-999, 999, 19)]
    )
    close = [1 + 2**-8, 1 + 2**-8 + 2**-50, 1 + 2**-8 - 2**-50, 1e300, -3.4e38, 1e-40, 2.0**-134, 3 * 2.0**-135, 0.0]
    floats = np.concatenate([np.array(close), rng.normal(size=119) * 10.0 ** rng.integers(-44, 39, 119)])
    out = np.zeros((len(integers), 5))
    check(to_bfloat16, 2, 64, (integers, floats, out)).assert_clean()
    for n, mode in enumerate(("rn", "rd", "ru", "rz")):
        assert out[:, n].tolist() == [_as_bfloat16(int(x), mode) for x in integers]
    assert out[:, 4].tolist() == [_as_bfloat16(float(x), "rn") for x in floats]


@cuda.jit
def brain_arithmetic(x, n, single, out):
    a = cuda.bf16.bfloat16(x[0])
    out[0] = (a + n) / 2
    out[1] = a * single
    out[2] = a == a
    out[3] = cuda.bf16.hltu(a, cuda.bf16.uint16_as_bfloat16(np.uint16(0x7FC0)))
    out[4] = cuda.bf16.hisinf(cuda.bf16.bfloat16(-math.inf))
    out[5] = cuda.bf16.bfloat16_as_int16(cuda.bf16.hadd_sat(a, a))
    out[6] = a if n > 1 else cuda.bf16.bfloat16(1)
    a += cuda.bf16.bfloat16(2.0**-8)
    out[7] = a


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_bfloat16_beside_other_numbers(engine: Any) -> None:
    """With an int it becomes a float64, with a float32 one; with another bfloat16 it is rounded."""
    out = np.ones(8)
    check(brain_arithmetic, 1, 1, (np.full(1, 3.0), 4, np.float32(0.1), out), engine=engine).assert_clean()
    assert out.tolist() == [3.5, float(np.float32(3) * np.float32(0.1)), 1, 1, -1, 0x3F80, 3, 3]


class Lent:
    """An array of a library that speaks DLPack alone, with or without versions."""

    def __init__(self, array: Any, versioned: bool) -> None:
        self.array, self.versioned = array, versioned

    def __dlpack__(self, **options: Any) -> Any:
        if not self.versioned and options:
            raise TypeError("of before versions")
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


@cuda.jit
def add_one(x):
    x[cuda.threadIdx.x] += 1


@pytest.mark.parametrize("versioned", [True, False])
def test_an_array_that_another_library_lends_is_written_to(versioned: bool) -> None:
    x = np.arange(32)
    add_one[1, 32](Lent(x, versioned))
    assert x.tolist() == list(range(1, 33))
    assert cuda.to_device(Lent(x, versioned)).copy_to_host().tolist() == x.tolist()
    assert cuda.as_cuda_array(Lent(x, versioned)).ctypes.data == x.ctypes.data


def test_what_another_library_keeps_from_us_says_so() -> None:
    class OnAnotherDevice(Lent):
        def __dlpack__(self, **options: Any) -> Any:
            raise BufferError("on a device")

    with pytest.raises(UsageError, match=r"a OnAnotherDevice does not lend its elements: on a device"):
        add_one[1, 32](OnAnotherDevice(np.arange(32), True))
    frozen = np.arange(32)
    frozen.flags.writeable = False
    with pytest.raises(KernelError, match="read-only"):
        add_one[1, 32](Lent(frozen, True))


@cuda.jit((types.Array(types.int32, 2, "C"), types.float32))
def numbered_rows(rows, unused):
    column, grid = cuda.grid(1), cuda.cg.this_grid()
    for row in range(1, rows.shape[0]):
        rows[row, column] = rows[row - 1, rows.shape[1] - 1 - column] + 1
        grid.sync()


def test_a_kernel_of_declared_types_says_how_many_of_its_ctas_run_at_once() -> None:
    ((key, overload),) = numbered_rows.overloads.items()
    assert numbered_rows.overloads[key].cooperative
    most = overload.max_cooperative_grid_blocks(256)
    assert most == overload.max_cooperative_grid_blocks((16, 4, 4)) == 8 * 132
    with using(Settings(sms=2)):
        assert overload.max_cooperative_grid_blocks(256, dynsmemsize=100_000) == 4
    rows = np.zeros((4, 64), np.int32)
    numbered_rows[2, 32](rows, np.float32(1))
    assert (rows == np.arange(4)[:, None]).all()
