"""The steps of compound operations: products and sums of f16, bf16 and pairs of them, and of f32 whose
subnormals are flushed to 0.

Numbers of 16 bits are computed in a wider type, then rounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.frontend.assemble.compound import COMPOUND
from wsemu.frontend.ptx.floats import INFINITY, NAN, SIGN, flush_subnormal, is_nan, narrow_float, number, widen_float
from wsemu.frontend.ptx.forms import PAIRS, both_words, pairwise
from wsemu.frontend.ptx.steps import Steps

if TYPE_CHECKING:
    from wsemu.frontend.assemble.graph import Graph, Instruction, Register
    from wsemu.frontend.assemble.simplify import Blocks


def expand(graph: Graph, blocks: Blocks) -> None:
    """Replace compound operations by their steps; new registers and constants are entered into `graph`."""
    steps = Steps(graph)
    for block in blocks.values():
        if any(instruction.operation in COMPOUND for instruction in block.instructions):
            steps.code = []
            for instruction in block.instructions:
                if instruction.operation in COMPOUND:
                    _expand(steps, instruction)
                else:
                    steps.code.append(instruction)
            block.instructions = steps.code


def _expand(e: Steps, instruction: Instruction) -> None:
    """Emit the steps of a compound operation; the last step writes the result."""
    what, *ftz, t = instruction.operation.split(".")
    e.span, e.stack = instruction.span, instruction.stack
    if t == "f32":
        _flushing_f32(e, what, instruction.operands)
    elif t == "f32x2":
        both_words(lambda e, *x: _emit_f32(e, what, bool(ftz), *x))(e, *instruction.operands)
    elif t in PAIRS:
        pairwise(lambda e, *x: _emit_short_float(e, what, PAIRS[t], bool(ftz), *x))(e, *instruction.operands)
    else:
        _emit_short_float(e, what, t, bool(ftz), *instruction.operands)
    last = e.code[-1]
    last.results = instruction.results
    last.guard, last.negated = instruction.guard, instruction.negated


def _flushing_f32(e: Steps, what: str, x: tuple[Register, ...]) -> None:
    """Emit an operation on f32 that flushes subnormals to 0."""
    _emit_f32(e, what, True, *x)


def _emit_f32(e: Steps, what: str, ftz: bool, *x: Register) -> Register:
    """Emit an operation on f32."""
    if not ftz:
        return e.emit(f"{what}.f32", *x)
    return e.emit("ftz.f32", e.emit(f"{what}.f32", *[e.emit("ftz.f32", v) for v in x]))


def _emit_short_float(e: Steps, what: str, t: str, ftz: bool, *x: Register) -> Register:
    """Emit an operation on f16 or bf16."""
    if ftz:
        x = tuple([flush_subnormal(e, t, v) for v in x])
    if what == "neg":
        return change_sign(e, what, t, x[0])
    if what == "fma":
        result = _fma(e, t, *x)
    else:
        result = narrow_float(e, "f32", e.emit(f"{what}.f32", *[widen_float(e, t, v, "f32") for v in x]), t)
    return flush_subnormal(e, t, result) if ftz else result


def change_sign(e: Steps, what: str, t: str, a: Register) -> Register:
    """Emit neg or abs, which change only the sign bit; a nan becomes canonical."""
    bitwise, pattern = ("xor.b16", SIGN[t]) if what == "neg" else ("and.b16", SIGN[t] - 1)
    x = e.emit(bitwise, a, e.constant("b16", pattern))
    size = e.emit("and.b16", a, e.constant("b16", SIGN[t] - 1))
    nan = e.emit("setp.gt.u16", size, number(e, t, INFINITY[t]))
    return e.emit("selp.b16", number(e, t, NAN[t]), x, nan)


def _fma(e: Steps, t: str, *x: Register) -> Register:
    if t == "bf16":
        return narrow_float(e, "f32", odd_fma(e, *[widen_float(e, t, v, "f32") for v in x]), t)
    result = e.emit("fma.f64", *[widen_float(e, t, v, "f64") for v in x])
    nan = is_nan(e, "f64", result)  # a nan keeps its sign
    return e.emit("selp.b16", number(e, t, NAN[t]), narrow_float(e, "f64", result, t), nan)


def odd_fma(e: Steps, *x: Register) -> Register:
    """Emit an f32 fma that rounds to odd."""
    low, high = e.emit("fma.rm.f32", *x), e.emit("fma.rp.f32", *x)
    inexact = e.emit("setp.neu.f32", low, high)
    sticky = e.emit("selp.b32", e.constant("b32", 1), e.constant("b32", 0), inexact)
    return e.emit("or.b32", e.emit("fma.rz.f32", *x), sticky)
