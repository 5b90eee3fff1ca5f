"""The functions of `cuda.libdevice` as a table: name, operand types, and the operation of the bytecode that implements
it.

The emulator's library functions are evaluated in double and rounded; the hardware's fast ones are less accurate.
"""

from __future__ import annotations

from wsemu.model.data import NamedTuple


class Function(NamedTuple):
    """One function: its types by Numba's names, and the `operation` of the bytecode.

    An `operation` that starts with `=` names a function of `frontend.python.library.device`, with `math.` a function of
    that module, and with `@` one of `frontend.python.library.written.libdevice`.  `result` has two types if the C
    function also writes through a pointer: the call then returns a tuple.
    """

    operands: tuple[str, ...]
    result: str
    operation: str
    uncontracted: bool = False
    """true if its product or sum is never fused with another operation"""

    @property
    def parameters(self) -> str:
        return ", ".join("xyz"[: len(self.operands)])


TABLE: dict[str, Function] = {}
_FLOATS = (("f", "float32", "f32"), ("", "float64", "f64"))


_PLAIN = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "cos", "cosh", "erf", "erfc", "exp", "exp2", "expm1",
    "lgamma", "log", "log10", "log1p", "log2", "rsqrt", "sin", "sinh", "sqrt", "tan", "tanh", "tgamma",
)  # fmt: skip
"""functions of one float that have an operation of the same name in the bytecode"""


def _unary() -> None:
    """Add sinf, sin, ...; `{f}` is replaced by f32 or f64."""
    names = {n: n + ".{f}" for n in _PLAIN}
    names |= {"fabs": "abs.{f}", "ceil": "cvt.rpi.{f}.{f}", "floor": "cvt.rmi.{f}.{f}", "trunc": "cvt.rzi.{f}.{f}"}
    names |= {"rint": "cvt.rni.{f}.{f}", "nearbyint": "cvt.rni.{f}.{f}"}
    names |= {n: f"={n}" for n in ("round", "cospi", "sinpi", "exp10", "rcbrt")}
    names |= {n: f"@{n}" for n in "erfinv erfcinv erfcx normcdf normcdfinv j0 j1 y0 y1 logb".split()}
    for name, operation in names.items():
        for suffix, type_, f in _FLOATS:
            TABLE[name + suffix] = Function((type_,), type_, operation.format(f=f))
    for name in ["cos", "exp", "log", "log10", "log2", "sin", "tan"]:
        TABLE[f"fast_{name}f"] = Function(("float32",), "float32", f"{name}.f32")
    TABLE["fast_exp10f"] = Function(("float32",), "float32", "=exp10")


def _binary() -> None:
    names = {n: n + ".{f}" for n in ["atan2", "copysign", "fmod", "hypot", "pow"]}
    names |= {"fmax": "max.{f}", "fmin": "min.{f}", "fdim": "=fdim"}
    for name, operation in names.items():
        for suffix, type_, f in _FLOATS:
            TABLE[name + suffix] = Function((type_, type_), type_, operation.format(f=f))
    TABLE["fast_powf"] = Function(("float32",) * 2, "float32", "pow.f32")
    TABLE["fast_fdividef"] = Function(("float32",) * 2, "float32", "div.f32")


def _add_rounded_operations() -> None:
    """Add operations with an explicit rounding mode."""
    for letter, type_, f in (("f", "float32", "f32"), ("d", "float64", "f64")):
        for name in ("add", "sub", "mul", "div"):
            if (letter, name) != ("d", "sub"):
                TABLE[f"{letter}{name}_rn"] = Function((type_, type_), type_, f"{name}.{f}", name != "div")
        for name in ("sqrt", "rcp"):
            TABLE[f"{letter}{name}_rn"] = Function((type_,), type_, f"{name}.{f}")
    directed = {"rz": "rz", "rd": "rm", "ru": "rp"}
    for letter, type_ in (("f", "float32"), ("d", "float64")):
        for suffix, rounding in directed.items():
            for name, count in {"add": 2, "sub": 2, "mul": 2, "div": 2, "sqrt": 1, "rcp": 1}.items():
                if (letter, name) != ("d", "sub"):
                    TABLE[f"{letter}{name}_{suffix}"] = Function((type_,) * count, type_, f"={name}.{rounding}")
            name = "fmaf" if letter == "f" else "fma"
            TABLE[f"{name}_{suffix}"] = Function((type_,) * 3, type_, f"=fma.{rounding}")
    TABLE["frsqrt_rn"] = Function(("float32",), "float32", "rsqrt.f32")
    for name, type_, f in (("fmaf", "float32", "f32"), ("fma", "float64", "f64")):
        TABLE[name] = TABLE[f"{name}_rn"] = Function((type_,) * 3, type_, f"fma.{f}")
    TABLE["saturatef"] = Function(("float32",), "float32", "=saturate")
    for name, type_ in (("isnanf", "float32"), ("isnand", "float64"), ("isinff", "float32"), ("isinfd", "float64")):
        TABLE[name] = Function((type_,), "int32", f"={name[:5]}")
    for name, type_ in (("finitef", "float32"), ("isfinited", "float64")):
        TABLE[name] = Function((type_,), "int32", "=isfinite")


def _integers() -> None:
    for prefix, s, bits in (("", "s", 32), ("u", "u", 32), ("ll", "s", 64), ("ull", "u", 64)):
        type_ = f"int{bits}"
        for name in ("min", "max"):
            TABLE[prefix + name] = Function((type_, type_), type_, f"{name}.{s}{bits}")
    TABLE["abs"], TABLE["llabs"] = Function(("int32",), "int32", "abs.s32"), Function(("int64",), "int64", "abs.s64")
    for name in ("popc", "clz", "ffs", "brev"):
        for suffix, bits in (("", 32), ("ll", 64)):
            result = f"int{bits}" if name == "brev" else "int32"
            TABLE[name + suffix] = Function((f"int{bits}",), result, f"{name}.b{bits}")
    for name, operation, bits in (
        ("mulhi", "mulhi.s32", 32), ("umulhi", "mulhi.u32", 32), ("mul64hi", "mulhi.s64", 64),
        ("umul64hi", "mulhi.u64", 64), ("mul24", "=mul24", 32), ("umul24", "=umul24", 32),
    ):  # fmt: skip
        TABLE[name] = Function((f"int{bits}",) * 2, f"int{bits}", operation)


def _conversions() -> None:
    integers = {"int": ("int32", "s32"), "uint": ("uint32", "u32"), "ll": ("int64", "s64"), "ull": ("uint64", "u64")}
    roundings = {"rn": "rni", "rz": "rzi", "rd": "rmi", "ru": "rpi"}
    for c_name, type_, f in (("float", "float32", "f32"), ("double", "float64", "f64")):
        for name, (integer, i) in integers.items():
            for suffix, rounding in roundings.items():
                signed = integer.removeprefix("u")  # Numba-CUDA also declares unsigned ones as signed
                TABLE[f"{c_name}2{name}_{suffix}"] = Function((type_,), signed, f"cvt.{rounding}.{i}.{f}")
                if suffix != "rn" and f"{name}2{c_name}" not in ("int2double", "uint2double"):  # those two are exact
                    TABLE[f"{name}2{c_name}_{suffix}"] = Function((signed,), type_, f"@to_{c_name}_{suffix}:{integer}")
            TABLE[f"{name}2{c_name}_rn"] = Function((signed,), type_, f"cvt.rn.{f}.{i}")
    TABLE["double2float_rn"] = Function(("float64",), "float32", "cvt.f32.f64")
    for suffix in ("rz", "rd", "ru"):
        TABLE[f"double2float_{suffix}"] = Function(("float64",), "float32", f"@double2float_{suffix}")
    for name, source, target in (
        ("float_as_int", "float32", "int32"), ("int_as_float", "int32", "float32"),
        ("double_as_longlong", "float64", "int64"), ("longlong_as_double", "int64", "float64"),
    ):  # fmt: skip
        TABLE[name] = Function((source,), target, "=bits")


def _parts() -> None:
    """Add the functions that split numbers into parts or compose them, and those with two results."""
    for suffix, type_, _ in _FLOATS:
        one, two = (type_,), (type_, type_)
        for name in ("sincos", "sincospi"):
            TABLE[name + suffix] = Function(one, f"{type_} {type_}", f"@{name}")
        TABLE[f"frexp{suffix}"] = Function(one, f"{type_} int32", "=math.frexp")
        TABLE[f"modf{suffix}"] = Function(one, f"{type_} {type_}", "=math.modf")
        TABLE[f"remquo{suffix}"] = Function(two, f"{type_} int32", "@remquo")
        for name in ("nextafter", "remainder"):
            TABLE[name + suffix] = Function(two, type_, f"=math.{name}")
        for name in ("ldexp", "scalbn"):
            TABLE[name + suffix] = Function((type_, "int32"), type_, "=math.ldexp")
        TABLE[f"powi{suffix}"] = Function((type_, "int32"), type_, "@powi")
        TABLE[f"ilogb{suffix}"] = Function(one, "int32", "@ilogb")
        for name in ("jn", "yn"):
            TABLE[name + suffix] = Function(("int32", type_), type_, f"@{name}")
        for name in ("llrint", "llround"):
            TABLE[name + suffix] = Function(one, "int64", f"@{name}")
        TABLE[f"signbit{suffix or 'd'}"] = Function(one, "int32", "@signbit")
    TABLE["fast_sincosf"] = Function(("float32",), "float32 float32", "@sincos")
    TABLE["float2half_rn"] = Function(("float32",), "int16", "@float2half")
    TABLE["half2float"] = Function(("int16",), "float32", "@half2float")
    TABLE["hiloint2double"] = Function(("int32", "int32"), "float64", "@hiloint2double")
    TABLE["double2hiint"] = Function(("float64",), "int32", "@double2hiint")
    TABLE["double2loint"] = Function(("float64",), "int32", "@double2loint")
    for prefix in ("", "u"):
        for name, count in {"hadd": 2, "rhadd": 2, "sad": 3}.items():
            full = f"u{name}" if prefix else name
            TABLE[full] = Function(("int32",) * count, "int32", f"@{name}:{prefix}int32")
    TABLE["byte_perm"] = Function(("int32",) * 3, "int32", "@byte_perm")


_unary()
_binary()
_add_rounded_operations()
_integers()
_conversions()
_parts()
