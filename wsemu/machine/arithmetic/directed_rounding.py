"""Arithmetic rounded toward zero, down or up (PTX `.rz`, `.rm`, `.rp`), by the rounding mode of the CPU.

Each operation is a separate LLVM function that sets the mode, computes and restores the old mode. It is not inlined and
calls LLVM's constrained intrinsics, because any other operation may be moved across the change of mode (LLVM Language
Reference, "Constrained Floating-Point Intrinsics").
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

from llvmlite import ir

from wsemu.machine.arithmetic.codegen import declare_function
from wsemu.machine.checked_code import builder_at_end

Value = Any

_ARM = {"rm": 0x800000, "rp": 0x400000, "rz": 0xC00000}
_X86 = {"rm": 0x400, "rp": 0x800, "rz": 0xC00}
MODES = _ARM if platform.machine().lower() in ("aarch64", "arm64") else _X86
"""direction -> the C library's FE_DOWNWARD, FE_UPWARD or FE_TOWARDZERO"""
CONSTRAINED = {"fma": 3, "fdiv": 2, "sqrt": 1}
"""LLVM intrinsic -> number of operands"""

_INT = ir.IntType(32)


def round_directed(what: str, direction: str) -> Callable[..., Value]:
    """Return the body of an operation: `what` of CONSTRAINED on vectors or numbers, rounded in `direction` of MODES."""

    def body(b: Any, *operands: Value) -> Value:
        t = operands[0].type
        name = f"wsemu.{what}.{direction}.{_mangle_type(t)}"
        function = b.module.globals.get(name) or _define(b.module, name, what, MODES[direction], t)
        return b.call(function, operands)

    return body


def _mangle_type(t: Any) -> str:
    if isinstance(t, ir.VectorType):
        return f"v{t.count}{_mangle_type(t.element)}"
    return {"float": "f32", "double": "f64"}[str(t)]


def _define(module: Any, name: str, what: str, mode: int, t: Any) -> Any:
    """Add a function to the module that sets the mode, computes, and restores the mode."""
    function = ir.Function(module, ir.FunctionType(t, [t] * CONSTRAINED[what]), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    b = builder_at_end(function.append_basic_block())
    set_mode = declare_function(module, ir.FunctionType(_INT, [_INT]), "fesetround")
    get_mode = declare_function(module, ir.FunctionType(_INT, []), "fegetround")
    text = ir.MetaDataType()
    signature = ir.FunctionType(t, [*(a.type for a in function.args), text, text])
    intrinsic = f"llvm.experimental.constrained.{what}.{_mangle_type(t)}"
    compute = declare_function(module, signature, intrinsic)
    how = [ir.MetaDataString(module, s) for s in ("round.dynamic", "fpexcept.strict")]
    before = b.call(get_mode, [])
    b.call(set_mode, [_INT(mode)])
    result = b.call(compute, [*function.args, *how])
    b.call(set_mode, [before])
    b.ret(result)
    return function
