"""`cuda.fp16` and `cuda.bf16` in kernels: floats of 16 bits.

Sums, products and quotients are computed in float32 and rounded, which gives the correctly rounded result. The
functions of the C library are computed likewise, so a GPU's result may differ in the last bit.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from wsemu.frontend.python import eights
from wsemu.frontend.python.arithmetic import binary, compare, unary
from wsemu.frontend.python.library import math as library_math
from wsemu.frontend.python.library.builtins import magnitude
from wsemu.frontend.python.library.calls import convert_arguments, means
from wsemu.frontend.python.library.device import exp10
from wsemu.frontend.python.scalars import (
    both,
    choose,
    compute,
    constant,
    either,
    negate,
    reinterpret,
    scalar_cast,
    to_bfloat16,
    widen_half,
)
from wsemu.frontend.python.values import Scalar, Value
from wsemu.language import cuda_names as cuda
from wsemu.language.numbers import (
    HALVES,
    NUMBERS,
    NumberType,
    bfloat16,
    boolean,
    float16,
    float32,
    float64,
    int32,
    int64,
)
from wsemu.language.promotion import Signature

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.language.markers import KernelFunction

    Meaning = Callable[..., Scalar]


def _enter(marker: KernelFunction, types: tuple[NumberType, ...], meaning: Meaning) -> None:
    cases = (Signature(types[0], types),)

    @means(marker)
    def function(call: Any, *values: Value) -> Value:
        _, operands = convert_arguments(call, marker.name, cases, *values)
        return meaning(call.b, *operands)


def _enter_half_function(name: str, count: int, meaning: Meaning, of: tuple[NumberType, ...] = HALVES) -> None:
    """Enter a function of `cuda.fp16` and of `cuda.bf16`."""
    for type_ in of:
        _enter(getattr(cuda.fp16 if type_ is float16 else cuda.bf16, name), (type_,) * count, meaning)


def _narrow(operation: Meaning) -> Meaning:
    """Compute in float32 and round to the type of the operands."""
    return lambda b, *operands: scalar_cast(b, operation(b, *(widen_half(b, x) for x in operands)), operands[0].type)


def _fused_multiply_add(b: Any, *operands: Scalar) -> Scalar:
    """Return a * b + c, rounded once.

    The product is exact in float64. An inexact sum is rounded to odd, so that the later rounding knows the side of the
    exact value (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
    """
    x, y, z = (scalar_cast(b, value, float64) for value in operands)
    product = compute(b, "mul.f64", float64, x, y)
    total = compute(b, "add.f64", float64, product, z)
    added = compute(b, "sub.f64", float64, total, product)
    lost = (
        compute(b, "sub.f64", float64, product, compute(b, "sub.f64", float64, total, added)),
        compute(b, "sub.f64", float64, z, added),
    )
    return scalar_cast(b, _to_odd(b, total, compute(b, "add.f64", float64, *lost)), operands[0].type)


def _to_odd(b: Any, total: Scalar, error: Scalar) -> Scalar:
    """Return `total + error` rounded to odd; `total` is the nearest float64."""
    zero, one = constant(float64, 0.0), constant(int64, 1)
    bits = reinterpret(total, int64)
    inexact = either(b, *(compute(b, f"setp.{relation}.f64", boolean, error, zero) for relation in ("lt", "gt")))
    even = compute(b, "setp.eq.b64", boolean, compute(b, "and.b64", int64, bits, one), constant(int64, 0))
    signs = compute(b, "xor.b64", int64, bits, reinterpret(error, int64))
    outward = compute(b, "setp.ge.s64", boolean, signs, constant(int64, 0))
    moved = compute(b, "add.b64", int64, bits, choose(b, outward, one, constant(int64, -1)))
    return choose(b, both(b, inexact, even), reinterpret(moved, float64), total)


def _nan_test(b: Any, x: Scalar) -> Scalar:
    return compare(b, "!=", x, x)


def _larger(relation: str) -> Meaning:
    """Return the lowering of a minimum or maximum: the operand for which the relation holds.  If one operand is nan,
    the result is the other one."""

    def pick(b: Any, x: Scalar, y: Scalar) -> Scalar:
        takes_x = either(b, compare(b, relation, x, y), _nan_test(b, y))
        return choose(b, takes_x, x, y)

    return pick


def _larger_or_nan(relation: str) -> Meaning:
    """Return the lowering of a minimum or maximum: the operand for which the relation holds, or nan if an operand is
    nan."""

    def pick(b: Any, x: Scalar, y: Scalar) -> Scalar:
        unordered = either(b, _nan_test(b, x), _nan_test(b, y))
        chosen = choose(b, compare(b, relation, x, y), x, y)
        return choose(b, unordered, constant(x.type, math.nan), chosen)

    return pick


def _saturate_operation(operation: Meaning) -> Meaning:
    """Return the lowering of an operation whose result is clamped to the range from 0 to 1; a nan becomes 0."""

    def compute_it(b: Any, *operands: Scalar) -> Scalar:
        x = operation(b, *operands)
        zero, one = constant(x.type, 0.0), constant(x.type, 1.0)
        return choose(b, compare(b, ">", x, zero), choose(b, compare(b, "<", x, one), x, one), zero)

    return compute_it


def _positive(operation: Meaning) -> Meaning:
    """Return the lowering of an operation whose negative results become 0."""

    def compute_it(b: Any, *operands: Scalar) -> Scalar:
        x = operation(b, *operands)
        return choose(b, compare(b, "<=", x, constant(x.type, 0.0)), constant(x.type, 0.0), x)

    return compute_it


def _operator(op: str) -> Meaning:
    return lambda b, x, y: binary(b, op, x, y)  # type: ignore[return-value]


def _relation(op: str) -> Meaning:
    return lambda b, x, y: compare(b, op, x, y)


def _ordered_difference(b: Any, x: Scalar, y: Scalar) -> Scalar:
    return either(b, compare(b, "<", x, y), compare(b, ">", x, y))


def _negate_operation(operation: Meaning) -> Meaning:
    return lambda b, x, y: negate(b, operation(b, x, y))


def _infinity(b: Any, x: Scalar) -> Scalar:
    """Return 1 or -1 for an infinity, 0 for any other number."""
    wide, infinite = widen_half(b, x), constant(float32, math.inf)
    sign = choose(b, compare(b, "<", wide, constant(float32, 0.0)), constant(int32, -1), constant(int32, 1))
    return choose(b, compare(b, "==", magnitude(b, wide), infinite), sign, constant(int32, 0))


for _name, _op in {"hadd": "+", "hsub": "-", "hmul": "*", "hdiv": "/"}.items():
    _enter_half_function(_name, 2, _operator(_op))
for _name in ("hadd", "hsub", "hmul"):
    _enter_half_function(f"{_name}_rn", 2, _operator({"hadd": "+", "hsub": "-", "hmul": "*"}[_name]), (bfloat16,))
    _enter_half_function(
        f"{_name}_sat", 2, _saturate_operation(_operator({"hadd": "+", "hsub": "-", "hmul": "*"}[_name])), (bfloat16,)
    )
for _name, _op in {"heq": "==", "hlt": "<", "hle": "<=", "hgt": ">", "hge": ">="}.items():
    _enter_half_function(_name, 2, _relation(_op))
for _name, _op in {"hltu": ">=", "hleu": ">", "hgtu": "<=", "hgeu": "<"}.items():  # true for a nan
    _enter_half_function(_name, 2, _negate_operation(_relation(_op)), (bfloat16,))
_enter_half_function("hne", 2, _relation("!="), (float16,))
_enter_half_function("hne", 2, _ordered_difference, (bfloat16,))
_enter_half_function("hneu", 2, _relation("!="), (bfloat16,))
_enter_half_function("hequ", 2, _negate_operation(_ordered_difference), (bfloat16,))
for _name, _op in {
    "hsin": "sin", "hcos": "cos", "hlog": "log", "hlog2": "log2", "hlog10": "log10", "hexp": "exp", "hexp2": "exp2",
    "hsqrt": "sqrt", "hrsqrt": "rsqrt", "hrcp": "rcp", "hfloor": "cvt.rmi", "hceil": "cvt.rpi", "htrunc": "cvt.rzi",
    "hrint": "cvt.rni",
}.items():  # fmt: skip
    _enter_half_function(_name, 1, lambda b, x, op=_op: library_math.apply(b, op, x))
_enter_half_function("htanh", 1, lambda b, x: library_math.apply(b, "tanh", x), (bfloat16,))
_enter_half_function("htanh_approx", 1, lambda b, x: library_math.apply(b, "tanh", x), (bfloat16,))
_enter_half_function("hexp10", 1, _narrow(exp10))
_enter_half_function("hneg", 1, lambda b, x: unary(b, "-", x))  # type: ignore[arg-type,return-value]
_enter_half_function("habs", 1, magnitude)
_enter_half_function("hmax", 2, _larger(">="))
_enter_half_function("hmin", 2, _larger("<="))
_enter_half_function("hmax_nan", 2, _larger_or_nan(">="), (bfloat16,))
_enter_half_function("hmin_nan", 2, _larger_or_nan("<="), (bfloat16,))
_enter_half_function("hfma", 3, _fused_multiply_add)
_enter_half_function("hfma_sat", 3, _saturate_operation(_fused_multiply_add), (bfloat16,))
_enter_half_function("hfma_relu", 3, _positive(_fused_multiply_add), (bfloat16,))
_enter_half_function("hisnan", 1, _nan_test, (bfloat16,))
_enter_half_function("hisinf", 1, _infinity, (bfloat16,))


# -- conversions of bfloat16, by Numba-CUDA's names --------------------------------------------------------------------

_TO_WHOLE = {"rn": "rni", "rz": "rzi", "rd": "rmi", "ru": "rpi"}


def _enter_conversions() -> None:
    for name in cuda.INTEGERS_OF_BFLOAT16:
        type_ = NUMBERS[name]
        for mode, whole in _TO_WHOLE.items():
            if type_.bits == 8 and mode != "rz":
                continue
            _enter(getattr(cuda.bf16, f"bfloat16_to_{name}_{mode}"), (bfloat16,), _to_integer(type_, whole))
            if type_.bits > 8:
                _enter(getattr(cuda.bf16, f"{name}_to_bfloat16_{mode}"), (type_,), _bfloat16_rounding(mode))
        if type_.bits == 16:
            _enter(getattr(cuda.bf16, f"bfloat16_as_{name}"), (bfloat16,), lambda b, x, to=type_: reinterpret(x, to))
            _enter(getattr(cuda.bf16, f"{name}_as_bfloat16"), (type_,), lambda b, x: reinterpret(x, bfloat16))
    for mode in _TO_WHOLE:
        _enter(getattr(cuda.bf16, f"float32_to_bfloat16_{mode}"), (float32,), _bfloat16_rounding(mode))
    _enter(cuda.bf16.float32_to_bfloat16, (float32,), _bfloat16_rounding("rn"))
    _enter(cuda.bf16.float64_to_bfloat16, (float64,), _bfloat16_rounding("rn"))
    _enter(cuda.bf16.bfloat16_to_float32, (bfloat16,), widen_half)


def _to_integer(to: NumberType, whole: str) -> Meaning:
    def convert(b: Any, x: Scalar) -> Scalar:
        if to.bits == 8:
            return scalar_cast(b, x, to)
        return scalar_cast(b, compute(b, f"cvt.{whole}.f32.f32", float32, widen_half(b, x)), to)

    return convert


def _bfloat16_rounding(mode: str) -> Meaning:
    return lambda b, x: to_bfloat16(b, x, mode)


_enter_conversions()

_enter(cuda.cuda_fp8.cvt_float_to_fp8, (float32, int64, int64), eights.store_float8)
_enter(cuda.cuda_fp8.cvt_double_to_fp8, (float64, int64, int64), eights.store_float8)
