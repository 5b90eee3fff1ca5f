"""Edits of the form of a kernel: conditions around statements and out of them, early returns, atomics, arrays."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from wsemu.model.cure import lines_of
from wsemu.repair import conditions
from wsemu.repair.scene import GIVES, argument, last_name, leaves, synchronises
from wsemu.repair.text import Piece

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.repair.scene import Candidate, Scene

_STEP = "    "
_INVERSE: dict[type[ast.cmpop], str] = {
    ast.Lt: ">=", ast.LtE: ">", ast.Gt: "<=", ast.GtE: "<", ast.Eq: "!=", ast.NotEq: "==",
}  # fmt: skip


def edits(scene: Scene) -> Iterator[Candidate]:
    """Yield all edits of this module."""
    yield from split(scene)
    yield from unguarding_edits(scene)
    yield from apart(scene)
    yield from loads(scene)
    yield from returns(scene)
    yield from atomics(scene)
    yield from arrays(scene)
    yield from zero_fill_edits(scene)
    yield from guards(scene)
    yield from all_inside(scene)


def _block(scene: Scene, statements: list[ast.stmt], by: int) -> str:
    """Return the lines of statements, indented by one step more (1) or less (-1)."""
    start, _ = scene.text.lines(statements[0])
    _, end = scene.text.lines(statements[-1])
    lines = lines_of(scene.text.data[start:end].decode())
    if by > 0:
        return "".join(_STEP + line if line.strip() else line for line in lines)
    return "".join(line.removeprefix(_STEP) if by < 0 else line for line in lines)


def _clean(scene: Scene, statements: list[ast.stmt]) -> bool:
    return all(scene.text.alone(statement) for statement in statements)


# -- barriers out of conditions ----------------------------------------------------------------------------------------
def split(scene: Scene) -> Iterator[Candidate]:
    """Yield edits that move a barrier out of the `if` around it.  The statements before and after the barrier keep the
    condition."""
    for statement in scene.statements:
        if not (isinstance(statement, ast.If) and _clean(scene, [statement, *statement.body])):
            continue
        places = [n for n, part in enumerate(statement.body) if _is_collective_call(part)]
        if not places:
            continue
        yield from _same_in_both(scene, statement)
        if statement.orelse:
            continue
        head, indent = scene.text.of(statement.test), scene.text.indent(statement)
        parts: list[str] = []
        run: list[ast.stmt] = []
        for n, part in enumerate([*statement.body, None]):
            if part is None or n in places:
                if run:
                    parts.append(f"{indent}if {head}:\n" + _block(scene, run, 0).rstrip("\n"))
                run = []
                if part is not None:
                    parts.append(_block(scene, [part], -1).rstrip("\n"))
            else:
                run.append(part)
        barrier = scene.text.of(statement.body[places[0]])
        says = f"take `{barrier}` in line {statement.body[places[0]].lineno} out of the `if` of line {statement.lineno}"
        says += ", which what follows it keeps" if places[0] + 1 < len(statement.body) else ""
        piece = Piece(*scene.text.lines(statement), "\n".join(parts) + "\n")
        yield scene.candidate("split", says, [piece], min(scene.distance(statement.body[n]) for n in places))


def _is_collective_call(statement: ast.stmt) -> bool:
    """Return whether a statement is a call that the threads of a warp or CTA execute together."""
    names = ("syncthreads", "syncwarp", "bar_sync", "bar_arrive", "barrier_sync", "start_async_dma",
             "wait_for_dma_finish", "fence_proxy_async")  # fmt: skip
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return last_name(statement.value) in names
    return _shuffles(statement) is not None


def _shuffles(statement: ast.stmt) -> ast.Call | None:
    """Return the shuffle or vote whose result a statement only assigns to a variable."""
    match statement:
        case ast.Assign(targets=[ast.Name()], value=ast.Call() as call) if last_name(call).endswith("_sync"):
            return call
    return None


def _same_in_both(scene: Scene, statement: ast.If) -> Iterator[Candidate]:
    """Yield edits that move a barrier out of both branches if both begin or end with it."""
    if not statement.orelse:
        return
    for at, says in ((-1, "after"), (0, "before")):
        one, other = statement.body[at], statement.orelse[at]
        if scene.text.of(one) != scene.text.of(other) or not synchronises(one) or not _clean(scene, [one, other]):
            continue
        call = scene.text.of(one)
        start, end = scene.text.lines(statement)
        whole = Piece(end, end, f"{scene.text.indent(statement)}{call}\n")
        if says == "before":
            whole = Piece(start, start, whole.text)
        text = f"move `{call}` of lines {one.lineno} and {other.lineno} {says} the `if` of line {statement.lineno}"
        yield scene.candidate("split", text, [scene.cut(one), scene.cut(other), whole], scene.distance(one))


def unguarding_edits(scene: Scene) -> Iterator[Candidate]:
    """Yield edits that drop the condition of an `if`, or compute the value of a shuffle before the `if`."""
    for statement in scene.statements:
        if not isinstance(statement, (ast.If, ast.For)) or not _clean(scene, [statement, *statement.body]):
            continue
        if isinstance(statement, ast.If) and not statement.orelse and not leaves(statement):
            says = f"drop the `if {scene.text.of(statement.test)}:` of line {statement.lineno}, and keep what is in it"
            piece = Piece(*scene.text.lines(statement), _block(scene, statement.body, -1))
            yield scene.candidate("unguard", says, [piece], scene.distance(statement) + 0.5)
        if isinstance(statement, ast.If):
            yield from _hoisting_edits(scene, statement)


def _hoisting_edits(scene: Scene, statement: ast.If) -> Iterator[Candidate]:
    """Yield edits that compute a shuffle before the `if` that contains it, in all lanes."""
    for part in statement.body:
        for node in ast.walk(part):
            if isinstance(node, ast.Call) and last_name(node).startswith(("shfl_", "all_sync", "any_sync", "ballot")):
                start, _ = scene.text.lines(statement)
                call = scene.text.of(node)
                name = scene.fresh("shuffled")
                line = f"{scene.text.indent(statement)}{name} = {call}\n"
                pieces = [Piece(start, start, line), Piece(*scene.text.span(node), name)]
                says = f"compute `{call}` before the `if` of line {statement.lineno}, where all lanes pass"
                yield scene.candidate("split", says, pieces, scene.distance(part) + 0.2)


def apart(scene: Scene) -> Iterator[Candidate]:
    """Yield edits that split a statement that loads and stores into two, with a barrier in between, and optionally one
    after them."""
    if "cuda" not in scene.modules or not {"race", "intra-warp-race"} & {*scene.codes}:
        return
    order = ("syncwarp", "syncthreads") if scene.codes[0] == "intra-warp-race" else ("syncthreads", "syncwarp")
    for statement in scene.hot:
        match statement:
            case ast.Assign(targets=[ast.Subscript() as target], value=value) if _loads_target(scene, target, value):
                new = scene.text.of(value)
            case ast.AugAssign(target=ast.Subscript() as target, value=value) if _loads_target(scene, target, value):
                new = f"{scene.text.of(target)} {_OPERATORS.get(type(statement.op), '+')} {scene.text.of(value)}"
            case _:
                continue
        if not scene.text.alone(statement):
            continue
        for rank, name in enumerate(order):
            barrier = scene.call(name) or ""
            for owner in _with_lone_if(scene, statement):
                for behind in ("", f"{scene.text.indent(owner)}{barrier}\n"):
                    lines = _split_store(scene, owner, new, scene.text.of(target), barrier)
                    says = f"load before you store in line {statement.lineno}, with `{barrier}` in between"
                    says += f", and `{barrier}` after it" if behind else ""
                    piece = Piece(*scene.text.lines(owner), lines + behind)
                    near = scene.distance(statement) + 0.5 * rank + (0.3 if behind else 0.0)
                    yield scene.candidate("split", says, [piece], near, 1 + bool(behind))


def _with_lone_if(scene: Scene, statement: ast.stmt) -> list[ast.stmt]:
    """Return a statement, or the `if` around it if the statement is its only content."""
    owner = scene.text.parents[statement]
    if isinstance(owner, ast.If) and owner.body == [statement] and not owner.orelse and scene.text.alone(owner):
        return [owner, statement]
    return [statement]


def _split_store(scene: Scene, owner: ast.stmt, value: str, target: str, barrier: str) -> str:
    """Return the lines of a store split into its value, a barrier, and the store of the value.  If the store is under
    an `if`, both parts are, but the barrier is not."""
    indent, name = scene.text.indent(owner), scene.fresh("value", "new", "result")
    head, step = "", ""
    if isinstance(owner, ast.If):
        head, step = f"{indent}if {scene.text.of(owner.test)}:\n", _STEP
    return f"{head}{indent}{step}{name} = {value}\n{indent}{barrier}\n{head}{indent}{step}{target} = {name}\n"


def _loads_target(scene: Scene, target: ast.Subscript, value: ast.expr) -> bool:
    """Return whether an expression loads from the array that a statement stores to."""
    array = scene.text.of(target.value)
    return any(isinstance(n, ast.Subscript) and scene.text.of(n.value) == array for n in ast.walk(value))


_OPERATORS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}


def loads(scene: Scene) -> Iterator[Candidate]:
    """Yield edits of a load so that it gives 0 if its index is outside of the array."""
    if "out-of-bounds" not in scene.codes:
        return
    for statement in scene.hot:
        for node in ast.walk(statement):
            if not (
                isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load)
            ) or conditions.has_several_bounds(scene, statement):
                continue
            usual = conditions.idiom(scene, scene.text.of(node.value))
            for rank, condition in enumerate(dict.fromkeys([*_limits(scene, node), *_all_limits(scene, node)])):
                near = 0.2 * rank - 6.0 * usual
                made = scene.replacement("load", node, f"({scene.text.of(node)} if {condition} else 0)", near)
                if made:
                    yield made._replace(odd=-int(usual))


# -- early returns -----------------------------------------------------------------------------------------------------
def returns(scene: Scene) -> Iterator[Candidate]:
    """Yield edits that move an early return after the barriers: the code after it gets the opposite condition, except
    for its synchronization."""
    for statement in scene.statements:
        if not (isinstance(statement, ast.If) and leaves(statement)):
            continue
        suite = scene.text.suites[statement]
        rest = suite[suite.index(statement) + 1 :]
        if not rest or not _clean(scene, [statement, *rest]):
            continue
        condition = negate_condition(scene, statement.test)
        indent = scene.text.indent(statement)
        for keep in (_needs_all_threads, synchronises):
            parts: list[str] = []
            run: list[ast.stmt] = []
            for part in [*rest, None]:
                if part is None or keep(part) or _shared_array(part):
                    if run:
                        parts.append(f"{indent}if {condition}:\n" + _block(scene, run, 1))
                    run = []
                    if part is not None:
                        parts.append(_block(scene, [part], 0))
                else:
                    run.append(part)
            start, _ = scene.text.lines(statement)
            _, end = scene.text.lines(rest[-1])
            says = f"put `if {condition}:` around what follows line {statement.end_lineno}, but for what synchronises, "
            says += f"in place of the early `{scene.text.of(statement.body[0])}` there"
            yield scene.candidate("return", says, [Piece(start, end, "".join(parts))], scene.distance(statement))
        if any(_needs_all_threads(part) for part in rest):
            yield _early_return_edit(scene, statement, rest, condition)


def _early_return_edit(scene: Scene, statement: ast.If, rest: list[ast.stmt], condition: str) -> Candidate:
    """Return the edit that removes an early return: the threads continue with zeros, and store nothing."""
    indent, text = scene.text.indent(statement), scene.text
    parts = []
    for part in rest:
        block = _block(scene, [part], 0)
        if _needs_all_threads(part) or _shared_array(part):
            parts.append(block)
        elif isinstance(part, ast.Assign) and isinstance(part.targets[0], ast.Name):
            new = f"{text.of(part.value)} if {condition} else 0"
            parts.append(f"{indent}{text.of(part.targets[0])} = {new}\n" if _loads(part) else block)
        else:
            parts.append(f"{indent}if {condition}:\n" + _block(scene, [part], 1))
    (start, _), (_, end) = text.lines(statement), text.lines(rest[-1])
    says = f"take out the early `{text.of(statement.body[0])}` in line {statement.body[0].lineno}: threads without "
    says += f"`{condition}` go on with 0, and store nothing"
    return scene.candidate("return", says, [Piece(start, end, "".join(parts))], scene.distance(statement) + 0.3)


def _needs_all_threads(statement: ast.stmt) -> bool:
    """Return whether all threads should execute a statement: it synchronizes, or computes with a shuffle."""
    calls = (n for n in ast.walk(statement) if isinstance(n, ast.Call))
    return synchronises(statement) or any(last_name(call).startswith(("shfl_", "ballot")) for call in calls)


def _shared_array(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call) and (
        last_name(statement.value) == "array"
    )  # fmt: skip


def negate_condition(scene: Scene, test: ast.expr) -> str:
    """Return the opposite of a condition."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and type(test.ops[0]) in _INVERSE:
        sides = scene.text.of(test.left), scene.text.of(test.comparators[0])
        return f"{sides[0]} {_INVERSE[type(test.ops[0])]} {sides[1]}"
    return f"not ({scene.text.of(test)})"


# -- atomics and arrays ------------------------------------------------------------------------------------------------
def atomics(scene: Scene) -> Iterator[Candidate]:
    """Yield edits that make `x[i] += v` an atomic."""
    if "cuda" not in scene.modules:
        return
    for statement in scene.hot:
        if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Subscript):
            verb = {ast.Add: "add", ast.Sub: "sub"}.get(type(statement.op))
            if verb:
                yield _atomic(scene, statement, statement.target, verb, statement.value, [])
            for other in scene.text.suites[statement] if verb == "add" else ():
                if isinstance(other, ast.Assign) and scene.text.of(other.value) == scene.text.of(statement.target):
                    yield _fetching_edit(scene, statement, statement.target, statement.value, other)
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Subscript):
            yield from _assignment_edits(scene, statement, statement.targets[0])


def _assignment_edits(scene: Scene, statement: ast.Assign, target: ast.Subscript) -> Iterator[Candidate]:
    """Yield edits of `x[i] = x[i] + v`, or of the same with the old value in a variable."""
    value = statement.value
    if not (isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add)):
        return
    element = scene.text.of(target)
    for old, added in ((value.left, value.right), (value.right, value.left)):
        if scene.text.of(old) == element:
            yield _atomic(scene, statement, target, "add", added, [])
        elif isinstance(old, ast.Name):
            for other in scene.text.suites[statement]:
                if isinstance(other, ast.Assign) and scene.text.of(other.value) == element and (
                    scene.text.of(other.targets[0]) == old.id
                ):  # fmt: skip
                    yield _atomic(scene, statement, target, "add", added, [other])
                    yield _fetching_edit(scene, statement, target, added, other)


def _fetching_edit(
    scene: Scene, statement: ast.stmt, target: ast.Subscript, added: ast.expr, load: ast.Assign
) -> Candidate:
    """Return the edit that turns `k = x[i]` and a store of `k + v` into one atomic, which returns the old value to
    `k`."""
    call = _add(scene, "add", target, added)
    says = (
        f"write `{call}` in place of `{scene.text.of(load.value)}` in line {load.lineno}, and drop the store in line "
    )
    pieces = [Piece(*scene.text.span(load.value), call), scene.cut(statement)]
    return scene.candidate("atomic", f"{says}{statement.lineno}", pieces, scene.distance(statement))


def _add(scene: Scene, verb: str, target: ast.Subscript, value: ast.expr) -> str:
    """Return the call of an atomic."""
    index = scene.text.of(target.slice)
    index = f"({index})" if isinstance(target.slice, ast.Tuple) else index
    return f"{scene.modules['cuda']}.atomic.{verb}({scene.text.of(target.value)}, {index}, {scene.text.of(value)})"


def _atomic(
    scene: Scene, statement: ast.stmt, target: ast.Subscript, verb: str, value: ast.expr, gone: list[ast.stmt]
) -> Candidate:
    call = _add(scene, verb, target, value)
    says = f"write `{call}` in place of `{scene.text.of(statement)}` in line {statement.lineno}"
    pieces = [Piece(*scene.text.span(statement), call), *(scene.cut(other) for other in gone)]
    made = scene.candidate("atomic", says, pieces, scene.distance(statement))
    own = scene.depends_on_thread(
        target.slice, scene.thread_variables
    )  # two threads at one location: the index may be wrong
    return made._replace(odd=int(own or False))


def arrays(scene: Scene) -> Iterator[Candidate]:
    """Yield edits of the extents of a shared array: one more column, one more element, up to a number that the findings
    name."""
    for call in scene.calls_named("array"):
        shape = argument(call, 0, "shape")
        if shape is None or "shared" not in scene.text.of(call.func):
            continue
        parts = shape.elts if isinstance(shape, ast.Tuple) else [shape]
        if len(parts) > 1 and (made := _grow_extent(scene, parts[-1], 1, "pad")):
            yield made
        for rank, part in enumerate(parts):
            wanted = [1, 2, 4, 8]
            has = scene.number(part)
            for name in _larger(scene, has):
                if made := scene.replacement("size", part, name, 0.5 + rank - scene.distance(part)):
                    yield made
            if has is not None:
                wanted += [n + by - has for n in scene.numbers for by in (0, 1) if has <= n < 4 * has + 64]
                wanted += [-has % 4, -has % 8, -has % 16]
            for n, by in enumerate(sorted({w for w in wanted if w > 0})):
                made = _grow_extent(scene, part, by, "size")
                if made:
                    yield made._replace(near=made.near + rank + 0.3 * n)
        if "misaligned" in scene.codes and len(call.args) == 2:
            text = scene.text.of(call)
            made = scene.replacement("size", call, f"{text[:-1]}, 16)", -scene.distance(call))
            if made:
                yield made


def _larger(scene: Scene, than: int | None) -> Iterator[str]:
    """Yield edits that increase numbers at the top of the file that the kernel uses."""
    for name, value in scene.text.constant_values.items():
        number = scene.number(value.node)
        if than is not None and number is not None and number > than and scene.uses[name]:
            yield name


def _grow_extent(scene: Scene, part: ast.expr, by: int, kind: str) -> Candidate | None:
    if isinstance(part, ast.Constant) and type(part.value) is int:
        new = str(part.value + by)
    else:
        new = f"{scene.text.of(part)} + {by}"
    return scene.replacement("pad" if kind == "pad" else "size", part, new, 1.0 - scene.distance(part))


def zero_fill_edits(scene: Scene) -> Iterator[Candidate]:
    """Yield edits that store zeros to a shared array before the statement that reads it, followed by a barrier."""
    if "uninitialized-read" not in scene.codes or "cuda" not in scene.modules:
        return
    cuda = scene.modules["cuda"]
    for call in scene.calls_named("array"):
        statement, shape = scene.text.statement(call), argument(call, 0, "shape")
        if shape is None or "shared" not in scene.text.of(call.func) or not isinstance(statement, ast.Assign):
            continue
        name = scene.text.of(statement.targets[0])
        if f"`{name}`" not in scene.said and f"`{name}[" not in scene.said:
            continue
        barrier = f"{cuda}.syncthreads()"
        thread = f"{cuda}.threadIdx.x"
        dimensions = len(shape.elts) if isinstance(shape, ast.Tuple) else 1
        single = isinstance(shape, ast.Constant) and shape.value == 1
        k = scene.fresh("k", "at")
        index = ", ".join(["0"] * dimensions)
        if single:
            lines = [f"if {thread} == 0:", f"{_STEP}{name}[{index}] = 0", barrier]
        elif dimensions == 1:
            lines = [f"for {k} in range({thread}, {name}.size, {cuda}.blockDim.x):", f"{_STEP}{name}[{k}] = 0", barrier]
        elif dimensions == 2:
            lines = [f"for {k} in range({thread}, {name}.size, {cuda}.blockDim.x):",
                     f"{_STEP}{name}[{k} // {name}.shape[1], {k} % {name}.shape[1]] = 0", barrier]  # fmt: skip
        else:
            continue
        suite = scene.text.suites[statement]
        gap = next((g for g in scene.gaps if g.suite is suite and g.position == suite.index(statement) + 1), None)
        if gap is not None:
            says = f"fill `{name}` with zeros after line {statement.end_lineno}, and `{barrier}`"
            yield scene.candidate("fill", says, [scene.put(gap, *lines)], 2.0, 1)


# -- conditions --------------------------------------------------------------------------------------------------------
def guards(scene: Scene) -> Iterator[Candidate]:
    """Yield edits that put a condition around a statement to which findings point: bounds, or conditions that the
    kernel has elsewhere."""
    conditions = [scene.text.of(s.test) for s in scene.statements if isinstance(s, ast.If)]
    elected = list(dict.fromkeys(conditions))
    cuda = scene.modules.get("cuda", "cuda")
    for statement in scene.hot:
        if not _clean(scene, [statement]) or isinstance(statement, (ast.FunctionDef, ast.Return)):
            continue
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name) and not _loads(statement):
            continue
        gives = synchronises(statement)
        calls = {last_name(node) for node in ast.walk(statement) if isinstance(node, ast.Call)}
        first = [
            *_bounds(scene, statement),
        ]
        lanes = [f"{cuda}.threadIdx.x % 32 == 0", f"{cuda}.threadIdx.x == 0"]
        names = _thread_names(scene)
        lanes = [f"{n} % 32 == 0" for n in names] + [f"{n} == 0" for n in names] + lanes
        loops = [f"{o.target.id}" for o in scene.text.ancestors(statement)
                 if isinstance(o, ast.For) and isinstance(o.target, ast.Name)]  # fmt: skip
        shared = _same_place(statement) or _shared_by_lanes(scene, statement)
        one_may_do = gives or (shared and not _is_chosen_by_data(scene, statement))
        several = [*elected, *lanes] if one_may_do else []
        loops += _but_the_last(scene, statement) if gives else []
        for rank, condition in enumerate(dict.fromkeys([*first, *loops, *several])):
            block = f"{scene.text.indent(statement)}if {condition}:\n" + _block(scene, [statement], 1)
            says = f"put `if {condition}:` around line {statement.lineno}"
            piece = Piece(*scene.text.lines(statement), block)
            near = scene.distance(statement) + 0.3 * rank
            yield scene.candidate("guard", says, [piece], near)
            if calls & GIVES and (warp := scene.call("syncwarp")):
                indent = scene.text.indent(statement)
                both = piece._replace(text=f"{indent}{warp}\n{block}")
                yield scene.candidate("guard", f"{says}, behind a `{warp}`", [both], near + 0.1, 1)


def all_inside(scene: Scene) -> Iterator[Candidate]:
    """Yield edits that put conditions around all stores and loads that may be outside of arrays at once, or replace
    such loads by zeros."""
    hot = [s for s in scene.hot if isinstance(s, (ast.Assign, ast.AugAssign)) and _clean(scene, [s])]
    if "out-of-bounds" not in scene.codes or len(hot) < 2:
        return
    for zeros in (True, False):
        pieces = []
        for statement in hot:
            target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
            loads = [
                n for n in ast.walk(statement.value) if isinstance(n, ast.Subscript) and _is_global_array(scene, n)
            ]
            text, indent = scene.text.of(statement), scene.text.indent(statement)
            start, _ = scene.text.span(statement)
            for load in reversed(loads) if zeros else ():
                first, last = (at - start for at in scene.text.span(load))
                text = f"{text[:first]}({text[first:last]} if {_limits(scene, load)[0]} else 0){text[last:]}"
            stored = isinstance(target, ast.Subscript) and _is_global_array(scene, target)
            limits = _limits(scene, target) if stored and isinstance(target, ast.Subscript) else []
            if not zeros:
                limits += [_limits(scene, load)[0] for load in loads]
            condition = " and ".join(dict.fromkeys(limits))
            if condition:
                text = f"if {condition}:\n{indent}{_STEP}{text}"
            if text != scene.text.of(statement) and "\n" not in scene.text.of(statement):
                pieces.append(Piece(*scene.text.span(statement), text))
        if len(pieces) > 1:
            lines = ", ".join(str(statement.lineno) for statement in hot)
            how = (
                "with 0 for what is loaded outside of an array, and no store there"
                if zeros
                else "inside of arrays alone"
            )
            says = f"make the accesses of lines {lines} {how}"
            yield scene.candidate("guard", says, pieces, 0.5 + 0.2 * (not zeros) - 5.0 * (len(hot) - 2))


def _is_global_array(scene: Scene, node: ast.Subscript) -> bool:
    """Return whether a subscript belongs to a parameter, which is an array in global memory."""
    inner = (f for outer in scene.functions for f in ast.walk(outer) if isinstance(f, ast.FunctionDef))
    parameters = {a.arg for f in inner for a in f.args.args}
    return isinstance(node.value, ast.Name) and node.value.id in parameters and bool(_limits(scene, node))


def _but_the_last(scene: Scene, statement: ast.stmt) -> list[str]:
    """Return conditions that hold if another round follows, or one that uses the same stage."""
    found = []
    for owner in scene.text.ancestors(statement):
        match owner:
            case (
                ast.For(target=ast.Name(id=name), iter=ast.Call(args=[stop]))
                | ast.For(target=ast.Name(id=name), iter=ast.Call(args=[ast.Constant(value=0), stop]))
            ):
                named = (1, 2, 3, 4) if name != "_" else ()
                found += [f"{name} + {n} < {scene.text.of(stop)}" for n in named]
    return found


def _same_place(statement: ast.stmt) -> bool:
    """Return whether a statement stores to an element that a number names: then all threads store to the same one."""
    match statement:
        case ast.Assign(targets=[ast.Subscript(slice=ast.Constant())]):
            return True
        case ast.AugAssign(target=ast.Subscript(slice=ast.Constant())):
            return True
    return False


def _is_chosen_by_data(scene: Scene, statement: ast.stmt) -> bool:
    """Return whether data that each thread loads decides which threads execute a statement."""
    tests = (o.test for o in scene.text.ancestors(statement) if isinstance(o, (ast.If, ast.While)))
    return any(scene.is_loaded(test, scene.loaded_variables) for test in tests)


def _shared_by_lanes(scene: Scene, statement: ast.stmt) -> bool:
    """Return whether several lanes store to one element: its index is computed by a division, or is the same in all."""
    if not isinstance(statement, ast.Assign) or "intra-warp-race" not in scene.codes:
        return False
    target = statement.targets[0]
    return isinstance(target, ast.Subscript) and scene.depends_on_thread(target.slice, scene.thread_variables) is False


def _thread_names(scene: Scene) -> list[str]:
    """Return variables that hold `cuda.threadIdx.x` or the number of a lane."""
    found = []
    for statement in scene.statements:
        match statement:
            case ast.Assign(targets=[ast.Name() as target], value=value):
                text = scene.text.of(value)
                if "threadIdx.x" in text and "//" not in text:
                    found.append(target.id)
    return [*dict.fromkeys(found)]


def _loads(statement: ast.Assign) -> bool:
    return any(isinstance(node, ast.Subscript) for node in ast.walk(statement.value))


def _bounds(scene: Scene, statement: ast.stmt) -> list[str]:
    """Return conditions that keep the indices of a statement inside their arrays."""
    subscripts = (node for node in ast.walk(statement) if isinstance(node, ast.Subscript))
    return [*dict.fromkeys(condition for node in subscripts for condition in _limits(scene, node))]


def _all_limits(scene: Scene, node: ast.Subscript) -> list[str]:
    """Return conditions that keep all indices of a subscript inside its array at once."""
    if not isinstance(node.value, ast.Name):
        return []
    axes = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    parts = [(axis, scene.text.of(part)) for axis, part in enumerate(axes) if not isinstance(part, ast.Constant)]
    ends = [f"{text} < {node.value.id}.shape[{axis}]" for axis, text in parts]
    below = "wraps" in scene.said or "negative" in scene.said
    forms = [[f"{text} >= 0" for _, text in parts], [f"0 <= {end}" for end in ends]] if below else [ends]
    return [" and ".join(form) for form in forms if form]


def _limits(scene: Scene, node: ast.Subscript) -> list[str]:
    """Return conditions that keep the indices of a subscript inside its array."""
    found: list[str] = []
    if isinstance(node.value, ast.Name):
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        for axis, part in enumerate(parts):
            text = scene.text.of(part)
            found.append(f"{text} < {node.value.id}.shape[{axis}]")
            if "-" in text:
                found += [f"{text} >= 0", f"0 <= {text} < {node.value.id}.shape[{axis}]"]
    return found
