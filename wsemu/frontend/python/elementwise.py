"""NumPy's functions on whole arrays: each thread executes `np.add(x, y, out)` as a loop over the elements of `out`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from wsemu.frontend.python.frames import Frame
from wsemu.frontend.python.source import Source
from wsemu.frontend.python.values import ArrayValue

if TYPE_CHECKING:
    import numpy as np

    from wsemu.frontend.python.values import Value
    from wsemu.frontend.python.walker import Walker


def is_meant(ufunc: np.ufunc, args: list[Value]) -> bool:
    """Return whether a call has an output array after the operands."""
    return len(args) == ufunc.nargs and isinstance(args[-1], ArrayValue)


def call(walker: Walker, ufunc: np.ufunc, args: list[Value], node: ast.AST) -> Value:
    """Inline the loop instead of the call; all its code has the location of the call."""
    names = [f"operand{n}" for n in range(ufunc.nin)] + ["out"]
    out = args[-1]
    assert isinstance(out, ArrayValue)
    for name, operand in zip(names, args, strict=True):
        if isinstance(operand, ArrayValue) and operand.ndim > out.ndim:
            raise walker.error(
                node, f"`{name}` of `np.{ufunc.__name__}` has {operand.ndim} dimensions, its output {out.ndim}",
                "give an output of the shape of the result",
            )  # fmt: skip
    body = _loop(names, args, out.ndim)
    for part in ast.walk(body):
        ast.copy_location(part, node)
    assigned = frozenset((*names, *(f"i{axis}" for axis in range(out.ndim))))
    frame = Frame(Source(walker.frame.source.file, body), {"ufunc": ufunc, "range": range}, {}, assigned, None)
    return walker.enter(frame, dict(zip(names, args, strict=True)), body, None)


def _loop(names: list[str], args: list[Value], ndim: int) -> ast.FunctionDef:
    """Return a function with the loop, for operands of these dimensions; extents of 1 are broadcast."""
    indices = [f"i{axis}" for axis in range(ndim)]
    lines = [f"def elementwise({', '.join(names)}):"]
    lines += [f"{'  ' * (axis + 1)}for {i} in range(out.shape[{axis}]):" for axis, i in enumerate(indices)]
    operands = ", ".join(_element(name, x, indices) for name, x in zip(names[:-1], args[:-1], strict=True))
    lines.append(f"{'  ' * (ndim + 1)}out[{', '.join(indices) or '()'}] = ufunc({operands})")
    made = ast.parse("\n".join(lines)).body[0]
    assert isinstance(made, ast.FunctionDef)
    return made


def _element(name: str, operand: Value, indices: list[str]) -> str:
    if not isinstance(operand, ArrayValue):
        return name
    own = indices[len(indices) - operand.ndim :]
    return f"{name}[{', '.join(f'{i} if {name}.shape[{n}] != 1 else 0' for n, i in enumerate(own)) or '()'}]"
