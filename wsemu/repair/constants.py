"""Edits at the top of a file: numbers that kernels use by name, and arguments of patterns constructed there.

In `DEPTH = 3` and `RING = Pipeline(2, 32, 160)`, values computed from the edited number follow.  A name that the host
also uses, for the size of an array or a launch, is not edited, because that would change more than the kernel.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from wsemu.repair.scene import last_name
from wsemu.repair.values import PARAMETERS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from wsemu.model.cure import Kind
    from wsemu.repair.scene import Candidate, Scene
    from wsemu.repair.text import Text, Value

_WARP, _MOST_THREADS = 32, 1024
_USES: dict[str, Kind] = {"array": "size", "range": "bound"}
_MOST = 10
"""values that are tried for a number"""


def edits(scene: Scene) -> Iterator[Candidate]:
    """Yield all edits of this module."""
    made = scene.text.constant_values
    wanted = needed_names(made, {n.id for f in scene.functions for n in ast.walk(f) if isinstance(n, ast.Name)})
    near = needed_names(made, {n.id for hot in scene.hot for n in ast.walk(hot) if isinstance(n, ast.Name)})
    for name in wanted:
        if host_uses(scene.text, dependent(made, {name}), scene.functions) is not None:
            kind, far = _use(scene, name)
            yield from _value_edits(
                scene, made[name].node, kind, far if kind != "constant" else 0.5 if name in near else 1.5
            )


def names(node: ast.AST) -> set[str]:
    """Return the names that an expression loads."""
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def needed_names(made: dict[str, Value], by: set[str]) -> list[str]:
    """Return these names, and all names from which their values are computed."""
    found: dict[str, None] = {}
    pending = sorted(by & {*made})
    while pending:
        name = pending.pop()
        if name not in found:
            found[name] = None
            pending += sorted(names(made[name].node) & {*made})
    return [*found]


def dependent(made: dict[str, Value], on: set[str]) -> set[str]:
    """Return these names, and all names whose values are computed from them."""
    found = {*on}
    while True:
        more = {name for name, value in made.items() if names(value.node) & found} - found
        if not more:
            return found
        found |= more


def host_uses(text: Text, affected: set[str], functions: Collection[ast.FunctionDef] = ()) -> list[ast.expr] | None:
    """Return the host's expressions that use some names and whose values have to stay the same; None if the host uses a
    name unchanged.  Kernels are the given functions and those with `jit` among their decorators."""
    kernels = [f for f in text.functions() if f in functions or any("jit" in text.of(d) for d in f.decorator_list)]
    inside = {n for f in kernels for n in ast.walk(f)} | {
        n for value in text.constant_values.values() for n in ast.walk(value.node)
    }
    found: list[ast.expr] = []
    for node in ast.walk(text.tree):
        if isinstance(node, ast.Name) and node.id in affected and isinstance(node.ctx, ast.Load) and node not in inside:
            owner = text.parents.get(node)
            if not isinstance(owner, ast.Attribute) and not (
                isinstance(owner, ast.Call) and last_name(owner) == "block_size"
            ):
                return None
            found.append(owner)
    return found


def _use(scene: Scene, name: str) -> tuple[Kind, float]:
    """Return the use of a name in a kernel (an argument of synchronization, a size, or a limit), and its distance."""
    for call in scene.calls_named():
        kind = _USES.get(last_name(call), "argument" if last_name(call) in PARAMETERS else None)
        if kind and any(isinstance(n, ast.Name) and n.id == name for given in call.args for n in _parts(given)):
            return kind, 0.2 + scene.distance(call) - (12.0 if kind == "size" else 0.0)
    return "constant", 0.0


def _parts(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.Tuple) else [node]


def _value_edits(scene: Scene, value: ast.expr, kind: Kind, far: float) -> Iterator[Candidate]:
    """Yield the numbers of a value, the numbers in the arguments of a call, and its truth values."""
    for part in ast.walk(value):
        match part:
            case ast.BinOp(left=left, right=right):
                sides = [side for side in (right, left) if not isinstance(side, ast.Constant)]
                for side in sides:
                    if made := scene.replacement(kind, part, scene.text.of(side), far - scene.distance(part)):
                        yield made
                yield from _double_halo(scene, part, kind, far)
    for node in _literals(value):
        for rank, new in enumerate(_other_numbers(scene, node.value)):
            near = far + 0.3 * rank - scene.distance(node)
            if made := scene.replacement(kind, node, new, near):
                yield made


def _double_halo(scene: Scene, part: ast.BinOp, kind: Kind, far: float) -> Iterator[Candidate]:
    """Yield an expression with twice the smaller part of a sum, because a halo is on both sides of a tile."""
    made = scene.text.constant_values
    match part:
        case ast.BinOp(left=ast.Name(id=left), op=ast.Add(), right=ast.Name(id=right)) if {left, right} <= {*made}:
            one, other = (getattr(made[name].node, "value", None) for name in (left, right))
            if not isinstance(one, int) or not isinstance(other, int):
                return
            new = f"2 * {left} + {right}" if one < other else f"{left} + 2 * {right}"
            if edit := scene.replacement(kind, part, new, far + 0.2):
                yield edit


def _literals(node: ast.expr) -> Iterator[ast.Constant]:
    match node:
        case ast.Constant(value=int()):
            yield node
        case ast.Tuple(elts=parts):
            for part in parts:
                yield from _literals(part)
        case ast.BinOp(left=left, right=right):
            yield from _literals(left)
            yield from _literals(right)
        case ast.Call(args=given, keywords=keywords):
            for part in (*given, *(k.value for k in keywords)):
                yield from _literals(part)


def _other_numbers(scene: Scene, value: Any) -> list[str]:
    """Return replacements for a number: one more and one less, numbers in findings, sizes of warps."""
    if isinstance(value, bool):
        return [str(not value)]
    threads = [scene.threads] if value % _WARP == 0 else []
    numbers = dict.fromkeys(n + by for by in (1, 0) for n in scene.numbers)
    named = [n for n in numbers if value <= 4 * n <= 16 * value or (value >= _WARP and value % _WARP == n % _WARP)]
    by = [value + _WARP, value - _WARP] if value % _WARP == 0 else []
    made = [*(n for n in named if value % _WARP == 0 and n % _WARP == 0), value + 1, value - 1, *by, *named, *threads,
            2 * value, value // 2, 1]  # fmt: skip
    return [str(n) for n in dict.fromkeys(made) if n != value and (n > 0 or value == 1 == n + 1)][:_MOST]
