"""Edits of numbers and expressions: arguments of what synchronises, bounds, comparisons, indices, stages, sizes."""

from __future__ import annotations

import ast
import re
from itertools import pairwise
from typing import TYPE_CHECKING

from wsemu.repair.scene import last_name, synchronises
from wsemu.repair.text import Piece

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.model.cure import Kind
    from wsemu.repair.scene import Candidate, Scene

_BARRIERS = ("bar_sync", "bar_arrive", "barrier_sync", "barrier_arrive")
PARAMETERS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_BARRIERS, ("id", "count")),
    "mbarrier_init": ("bar", "index", "count"),
    "mbarrier_arrive": ("bar", "index", "count"),
    "mbarrier_arrive_expect_tx": ("bar", "index", "bytes"),
    "mbarrier_expect_tx": ("", "index", "bytes"),
    "mbarrier_wait_parity": ("bar", "index", "parity"),
    "mbarrier_arrive_cluster": ("bar", "index", "count", "scope"),
    "mbarrier_arrive_expect_tx_cluster": ("bar", "index", "bytes"),
    "mbarrier_try_wait_parity": ("", "index", "parity"),
    "mbarrier_test_wait_parity": ("", "index", "parity"),
    "cp_async_mbarrier_arrive": ("", "index"),
    "cp_async_mbarrier_arrive_noinc": ("", "index"),
    "cp_async_wait_group": ("groups",),
    "cp_async_bulk_wait_group": ("groups",),
    "cp_async_bulk_wait_group_read": ("groups",),
    "cp_async_bulk_global_to_shared": ("", "place", "", "place", "bytes", "", "index"),
    "cp_async_bulk_shared_to_global": ("", "place", "", "place", "bytes"),
    "cp_async_bulk_tensor_global_to_shared": ("", "place", "", "coordinates", "", "index"),
    "cp_async_ca": ("", "place", "", "place", "size"),
    "cp_async_cg": ("", "place", "", "place", "size"),
    **dict.fromkeys(("ld_v2", "ld_v4", "st_v2", "st_v4"), ("", "place")),
    "setmaxnreg_inc": ("registers",),
    "setmaxnreg_dec": ("registers",),
    "producer_acquire": ("", "round"),
    "producer_commit": ("", "round", "bytes"),
    "consumer_wait": ("", "round"),
    "consumer_release": ("", "round"),
    "start_async_dma": ("round", "round"),
    "wait_for_dma_finish": ("round",),
    "wait_for_dma_start": ("round",),
    "finish_async_dma": ("round", "round"),
}
"""call -> what its arguments are; what is `` is not edited"""
_WARP, _GROUP = 32, 8
_BOUNDARY: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
}  # fmt: skip
_SYMBOLS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip
_SIMPLE = (ast.Name, ast.Constant, ast.Attribute, ast.Call, ast.Subscript)


def edits(scene: Scene) -> Iterator[Candidate]:
    """All edits of this module."""
    yield from arguments(scene)
    yield from whole_counts(scene)
    yield from whole_rings(scene)
    yield from bounds(scene)
    yield from comparisons(scene)
    yield from indices(scene)
    yield from assignments(scene)
    yield from identities(scene)


# -- arguments of what synchronises ------------------------------------------------------------------------------------
def arguments(scene: Scene) -> Iterator[Candidate]:
    """An id, count, parity, stage, number of bytes or of groups."""
    used = _used(scene)
    once = {name for name, count in scene.uses.items() if count == 1} & scene.text.assigned.keys()
    for call in scene.called(*PARAMETERS):
        for argument, what in zip(call.args, PARAMETERS[last_name(call)], strict=False):
            if not what:
                continue
            for rank, new in enumerate(_others(scene, argument, what, used)):
                if isinstance(argument, ast.Name) and new.startswith(f"{argument.id} ") and argument.id in once:
                    continue  # the number at the top of the file is edited
                kind: Kind = "index" if what in ("place", "coordinates") else "argument"
                near = 0.3 * rank + (_of_the_same(scene, call) if what == "count" else 0.0)
                near -= 4.0 * (what == "id" and "barrier-recycling" in scene.codes)  # two groups with one barrier
                made = scene.replacement(kind, argument, new, near)
                if made:
                    alone = what == "count" and last_name(call) in _BARRIERS and new.isdigit() and int(new) <= _WARP
                    round_ = what == "round" and new not in used.get(what, [])
                    yield made._replace(odd=int(alone or round_ or (what == "parity" and new in ("0", "1"))))


def _of_the_same(scene: Scene, call: ast.Call) -> float:
    """How much nearer than its lines is where an mbarrier is made that findings name."""
    far = scene.distance(call)
    if last_name(call) == "mbarrier_init" and call.args and f"`{scene.text.of(call.args[0])}[" in scene.said:
        return min(far, 1.0) - far
    return 0.0


def _used(scene: Scene) -> dict[str, list[str]]:
    """What calls of this file give for each kind of argument."""
    found: dict[str, dict[str, None]] = {}
    for call in scene.called(*PARAMETERS):
        for argument, what in zip(call.args, PARAMETERS[last_name(call)], strict=False):
            found.setdefault(what, {})[scene.text.of(argument)] = None
    return {what: [*texts] for what, texts in found.items()}


def _others(scene: Scene, node: ast.expr, what: str, used: dict[str, list[str]]) -> list[str]:
    """What may stand in the place of an argument."""
    old = scene.text.of(node)
    wrapped = _wrapped(scene, node)
    near = used.get(what, [])
    made: list[str] = []
    if what == "parity":
        flipped = old.removesuffix(" ^ 1") if old.endswith(" ^ 1") else f"{wrapped} ^ 1"
        flipped = {"0": "1", "1": "0"}.get(old, flipped)
        loops = _loop_names(scene, node)
        made = [flipped, *(f"{i} & 1" for i in loops), *near, *(f"{i} // {n} & 1" for i in loops for n in (2, 3, 4)),
                *(f"{i} // {n} & 1 ^ 1" for i in loops for n in (2, 3, 4))]  # fmt: skip
    elif what == "count":
        wanted = [n for n in scene.numbers if 0 < n <= 1024]
        made = [*near, *map(str, sorted(wanted, key=lambda n: n % _WARP != 0)), str(scene.threads), "1", str(_WARP)]
        made += _by(scene, node, _WARP) + _by(scene, node, 1)
        if isinstance(node, ast.Constant) and type(node.value) is int:
            made += [str(2 * node.value), str(4 * node.value)]  # of two CTAs, of four
    elif what == "bar":
        made = near
    elif what == "scope":
        made = ['"cluster"', '"gpu"']
    elif what == "bytes":
        whole = node.value if isinstance(node, ast.Constant) and type(node.value) is int else None
        times = [f"{n} * {wrapped}" if whole is None else str(n * whole) for n in (2, 4)]
        made = [*near, *(str(n) for n in scene.numbers if n % 16 == 0), *times, f"({old} + 15) // 16 * 16"]
    elif what == "groups":
        made = [*_by(scene, node, 1), "0"]
    elif what == "registers":
        made = _by(scene, node, _GROUP) + [str(n) for n in scene.numbers if n % _GROUP == 0 and 24 <= n <= 256] + ["40"]
    elif what == "id":
        stages = _stages(scene, node)
        made = [*near, *_by(scene, node, 1), *(f"{wrapped} + {stage}" for stage in stages), "1", "2"]
    elif what in ("index", "round"):
        made = [*near, *_by(scene, node, 1), *_stages(scene, node), *_loop_names(scene, node)]
    elif what == "coordinates" and isinstance(node, ast.Tuple):
        options = [(n, new) for n, part in enumerate(node.elts) for new in [*_near(scene, part), *_whole(scene, part)]]
        return [_with(scene, node, n, new) for n, new in options]
    elif what == "place":
        parts = node.elts if isinstance(node, ast.Tuple) else []
        changed = [_with(scene, node, n, new) for n, part in enumerate(parts) for new in _near(scene, part)]
        made = [*changed, *(_near(scene, node) if not parts else []), *near]
    elif what == "size":
        made = ["4", "8", "16"]
    return [new for new in dict.fromkeys(made) if new not in (old, "0" if what in ("bytes", "count") else old)]


def _with(scene: Scene, node: ast.expr, n: int, new: str) -> str:
    """A tuple with another element."""
    assert isinstance(node, ast.Tuple)
    return f"({', '.join(new if k == n else scene.text.of(part) for k, part in enumerate(node.elts))})"


def _whole(scene: Scene, node: ast.expr) -> list[str]:
    """A number, or one in an expression, as multiples of what 16 bytes hold."""
    old, (start, _) = scene.text.of(node), scene.text.span(node)
    found: dict[str, None] = {}
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and type(part.value) is int and part.value > 1:
            first, last = (at - start for at in scene.text.span(part))
            for unit in (4, 8, 16):
                for n in (-(-part.value // unit) * unit, part.value // unit * unit):
                    found[old[:first] + str(n) + old[last:]] = None
    return [new for new in found if new != old]


def _near(scene: Scene, node: ast.expr) -> list[str]:
    """An index by one, and another stage."""
    return [*_by(scene, node, 1), *_stages(scene, node)]


def _by(scene: Scene, node: ast.expr, step: int) -> list[str]:
    """An expression more and less by a step."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return [str(n) for n in (node.value + step, node.value - step) if n >= 0]
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)) and isinstance(node.right, ast.Constant):
        left, by = scene.text.of(node.left), node.right.value
        if type(by) is int:
            by = by if isinstance(node.op, ast.Add) else -by
            return [
                left if by + s == 0 else f"{left} {'+' if by + s > 0 else '-'} {abs(by + s)}" for s in (step, -step)
            ]
    simple = _wrapped(scene, node, sums=True)
    return [f"{simple} + {step}", f"{simple} - {step}"]


def _wrapped(scene: Scene, node: ast.expr, *, sums: bool = False) -> str:
    """The text of an operand, in brackets where it needs them."""
    text = scene.text.of(node)
    if isinstance(node, _SIMPLE):
        return text
    if (
        sums
        and isinstance(node, ast.BinOp)
        and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod))
    ):
        return text
    return f"({text})"


def _loop_names(scene: Scene, node: ast.AST) -> list[str]:
    """The variables of the loops around a node, the innermost one first."""
    return [
        owner.target.id
        for owner in scene.text.ancestors(node)
        if isinstance(owner, ast.For) and isinstance(owner.target, ast.Name) and owner.target.id != "_"
    ]


def _stages(scene: Scene, node: ast.AST) -> list[str]:
    """What selects a stage near a node: names such as `s` or `stage`, `i % 2` of the loops around, `RING.stage(i)`."""
    function = next((o for o in scene.text.ancestors(node) if isinstance(o, ast.FunctionDef)), None)
    found: dict[str, None] = {}
    for part in ast.walk(function) if function else ():
        if isinstance(part, ast.Assign) and isinstance(part.targets[0], ast.Name) and _selects(part.value):
            found[part.targets[0].id] = None
        if isinstance(part, ast.expr) and _selects(part):
            found[scene.text.of(part)] = None
    loops = _loop_names(scene, node)
    inside = [text for text in found if not loops or "%" not in text or any(name in text for name in loops)]
    return [*inside, *(f"{i} % 2" for i in loops)][:5]


def _selects(node: ast.AST) -> bool:
    """Whether an expression is of the form `i % 2` or `1 - s`, or asks a pattern for its stage."""
    match node:
        case ast.BinOp(op=ast.Mod()):
            return not isinstance(node.left, ast.Attribute)
        case ast.BinOp(left=ast.Name(id=("warp" | "pair" | "stage" | "s"))):
            return True
        case ast.Call(func=ast.Attribute(attr=("stage" | "buffer"))):
            return True
    return False


def _is_stage(scene: Scene, node: ast.AST) -> bool:
    """Whether an index says which stage of a ring, or is a number."""
    text = scene.text.of(node)
    return isinstance(node, ast.Constant) or any(part.strip("()") in text.split() for part in _stages(scene, node)) or (
        _selects(node) or text in ("s", "stage", "slot", "buffer")
    )  # fmt: skip


def whole_counts(scene: Scene) -> Iterator[Candidate]:
    """The count of all barriers that have the same one, or the id of all, in one edit."""
    calls = [call for call in scene.called(*_BARRIERS) if len(call.args) > 1]
    for n, what in enumerate(("id", "count")):
        for old in dict.fromkeys(scene.text.of(call.args[n]) for call in calls):
            alike = [call for call in calls if scene.text.of(call.args[n]) == old]
            if len(alike) < 2:
                continue
            others = [str(free_id(scene))] if what == "id" else _others(scene, alike[0].args[1], what, {})
            for rank, new in enumerate(others):
                pieces = [Piece(*scene.text.span(call.args[n]), new) for call in alike]
                lines = ", ".join(str(call.lineno) for call in alike)
                says = f"write `{new}` in place of the {what} `{old}` in lines {lines}"
                near = min(map(scene.distance, alike)) + 0.5 + 0.3 * rank
                yield scene.candidate("argument", says, pieces, near)._replace(odd=int(what == "count"))


def free_id(scene: Scene) -> int:
    """The id of a barrier that this file names nowhere; the highest one where patterns have some of their own."""
    used = {n.value for n in ast.walk(scene.text.tree) if isinstance(n, ast.Constant) and type(n.value) is int}
    upwards = range(3, 16)
    return next(
        (n for n in (reversed(upwards) if "patterns import" in scene.text.source else upwards) if n not in used), 15
    )


def whole_rings(scene: Scene) -> Iterator[Candidate]:
    """All barriers of one id, or of two, by stage or by pair: one for each in the place of one for all."""
    calls = [call for call in scene.called(*_BARRIERS) if call.args]
    ids = [*dict.fromkeys(scene.text.of(call.args[0]) for call in calls)]
    names = [name for name in ("stage", "s", "pair", "group") if any(_assigns(f, name) for f in scene.functions)]
    for chosen in ([ids] if len(ids) > 1 else []) + [[one] for one in ids]:
        wanted = [call for call in calls if scene.text.of(call.args[0]) in chosen]
        for step in (1, 2):
            for stage in [*names, "{} % 2"]:
                made = _staged(scene, wanted, stage, step)
                if made:
                    yield made


def _assigns(function: ast.FunctionDef, name: str) -> bool:
    return any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store) for n in ast.walk(function))


def _staged(scene: Scene, calls: list[ast.Call], stage: str, step: int) -> Candidate | None:
    pieces, texts = [], []
    for call in calls:
        loops = _loop_names(scene, call)
        if "{}" in stage and not loops:
            return None
        by = stage.format(loops[0]) if "{}" in stage else stage
        new = f"{_wrapped(scene, call.args[0], sums=True)} + {by if step == 1 else f'{step} * ({by})'}"
        texts.append(new)
        pieces.append(Piece(*scene.text.span(call.args[0]), new))
    lines = ", ".join(str(call.lineno) for call in calls)
    says = f"write the ids of the barriers in lines {lines} as {', '.join(f'`{t}`' for t in dict.fromkeys(texts))}"
    return scene.candidate("stage", says, pieces, 3.0 + step) if len(pieces) > 1 else None


# -- bounds and comparisons --------------------------------------------------------------------------------------------
def bounds(scene: Scene) -> Iterator[Candidate]:
    """The limits of a `range` by one, and those of other loops."""
    ranges = list(scene.called("range"))
    for call in ranges:
        far = _loop_distance(scene, call)
        stop = call.args[min(1, len(call.args) - 1)]
        others = [scene.text.of(other.args[min(1, len(other.args) - 1)]) for other in ranges if other is not call]
        for n, argument in enumerate(call.args[:2]):
            options = [*(others if argument is stop else []), *_by(scene, argument, 1), *_rounded(scene, argument)]
            if isinstance(argument, ast.BinOp) and isinstance(argument.op, (ast.Add, ast.Sub)):
                options.append(scene.text.of(argument.left))
            for rank, new in enumerate(dict.fromkeys(options)):
                simpler = new in others and _step_from(scene, argument) == new
                near = far + 0.3 * rank + 0.5 * n
                if simpler:
                    near = -5.0 - scene.distance(argument)
                made = scene.replacement("bound", argument, new, near)
                if made:
                    yield made._replace(odd=-1 if simpler else 0)
        if len(call.args) == 1 and (made := scene.replacement("bound", stop, f"1, {scene.text.of(stop)}", far + 1)):
            yield made


def _step_from(scene: Scene, node: ast.expr) -> str:
    """What a number is added to, or taken from."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)) and isinstance(node.right, ast.Constant):
        return scene.text.of(node.left)
    return ""


def _loop_distance(scene: Scene, call: ast.Call) -> float:
    """0 for loops around what findings point to."""
    loop = scene.text.statement(call)
    inside = any(loop is owner for hot in scene.hot for owner in scene.text.ancestors(hot))
    return -scene.distance(call) + (0.0 if inside else min(scene.distance(call), 3.0))


def _rounded(scene: Scene, node: ast.expr) -> list[str]:
    """`n // 32` rounded up."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv) and isinstance(node.right, ast.Constant):
        left, by = scene.text.of(node.left), node.right.value
        return [f"({left} + {by - 1}) // {by}"] if type(by) is int else []
    return []


def comparisons(scene: Scene) -> Iterator[Candidate]:
    """A comparison by one; a condition that another `if` of the kernel has."""
    tests = [s.test for s in scene.statements if isinstance(s, (ast.If, ast.While))]
    texts = [*dict.fromkeys(scene.text.of(test) for test in tests)]
    for test in tests:
        for node in ast.walk(test):
            if isinstance(node, ast.Compare):
                yield from _comparison(scene, node)
        for rank, other in enumerate(texts):
            made = scene.replacement("compare", test, other, 1.0 + 0.3 * rank)
            if made:
                yield made
        if isinstance(test, ast.Compare) and "%" in scene.text.of(test.left) and isinstance(test.left, ast.BinOp):
            new = f"{scene.text.of(test.left.left)} {_SYMBOLS.get(type(test.ops[0]), '==')} "
            made = scene.replacement("compare", test, new + scene.text.of(test.comparators[0]), 1.0)
            if made:
                yield made
        if isinstance(test, ast.BoolOp):
            for rank, value in enumerate(test.values):
                made = scene.replacement("compare", test, scene.text.of(value), 1.0 + rank)
                if made:
                    yield made


def _comparison(scene: Scene, node: ast.Compare) -> Iterator[Candidate]:
    operands = [node.left, *node.comparators]
    for n, (one, other) in enumerate(pairwise(operands)):
        symbol, changed = _SYMBOLS.get(type(node.ops[n])), _BOUNDARY.get(type(node.ops[n]))
        if symbol and changed:
            parts = [scene.text.of(part) for part in operands]
            before = scene.text.of(node)
            at = before.find(symbol, len(parts[0]) if n == 0 else 0)
            new = before[:at] + changed + before[at + len(symbol) :]
            number = isinstance(other, ast.Constant) and symbol in ("<", ">")  # `t < 3`, not `t <= 2`
            made = scene.replacement("compare", node, new, 1.0 if number else 0.5)
            if made:
                yield made
        for rank, new in enumerate(_by(scene, other, 1)):
            made = scene.replacement("compare", other, new, 0.7 + 0.2 * rank)
            if made:
                yield made
        del one


# -- indices -----------------------------------------------------------------------------------------------------------
def indices(scene: Scene) -> Iterator[Candidate]:
    """An index by one, of another dimension, of another stage; what other accesses of the array have there."""
    yield from _unused(scene)
    for statement in scene.hot:
        head = statement if not isinstance(statement, (ast.If, ast.For, ast.While)) else ast.Pass()
        for node in ast.walk(head):
            if isinstance(node, ast.Subscript):
                yield from _index(scene, node)


def _unused(scene: Scene) -> Iterator[Candidate]:
    """A store to a parameter that the kernel never names, in the place of one that is read, too."""
    for function in scene.functions:
        names = {n.id for n in ast.walk(function) if isinstance(n, ast.Name)}
        unused = [argument.arg for argument in function.args.args if argument.arg not in names]
        for statement in scene.hot if unused else ():
            match statement:
                case ast.Assign(targets=[ast.Subscript(value=ast.Name() as target)]):
                    for name in unused:
                        made = scene.replacement("index", target, name, -6.0 - scene.distance(target))
                        if made and function in scene.text.ancestors(statement):
                            yield made


def _index(scene: Scene, node: ast.Subscript) -> Iterator[Candidate]:
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    texts = [scene.text.of(part) for part in parts]
    if len(parts) == 2 and (made := scene.replacement("swap", node.slice, f"{texts[1]}, {texts[0]}")):
        yield made
    elsewhere = _indices_of(scene, scene.text.of(node.value), len(parts))
    for n, part in enumerate(parts):
        own, is_stage = _names(texts[n]), _is_stage(scene, part)
        stages = [
            text for text in _stages(scene, node) if is_stage or _names(text) >= own
        ]  # else `i % 2` for `i` alone
        options: list[tuple[Kind, list[str]]] = [
            ("stage", [*elsewhere[n], *stages] if is_stage or not scene.ordering else []),
            ("index", [*_by(scene, part, 1), *_smaller(scene, part)]),
        ]
        for kind, texts_ in options:
            for rank, new in enumerate(dict.fromkeys(texts_)):
                made = scene.replacement(kind, part, new, 0.4 * rank)
                if made:
                    yield made._replace(odd=int(not _names(new) >= _names(scene.text.of(part))))
    if isinstance(node.ctx, ast.Load):
        return
    for rank, whole in enumerate(("cuda.grid(1)",)):
        made = scene.replacement(
            "index", node.slice, whole.replace("cuda", scene.modules.get("cuda", "cuda")), 3 + rank
        )
        if made and len(parts) == 1:
            yield made


def _names(text: str) -> set[str]:
    """The names of an expression."""
    return {*re.findall(r"\b[A-Za-z_]\w*", text)}


def _smaller(scene: Scene, node: ast.expr) -> list[str]:
    """The expression with a number or an operand in it changed by one, or a part of it alone."""
    found = []
    old = scene.text.of(node)
    start, _ = scene.text.span(node)
    for part in ast.walk(node):
        if part is node or not isinstance(part, ast.expr):
            continue
        first, last = (at - start for at in scene.text.span(part))
        options: list[str] = []
        if isinstance(part, ast.Constant) and type(part.value) is int:
            options = [str(part.value + 1), str(max(part.value - 1, 0))]
        if isinstance(part, ast.BinOp) and isinstance(part.op, (ast.Add, ast.Sub)):
            symbol, other = ("+", "-") if isinstance(part.op, ast.Add) else ("-", "+")
            options = [f"{scene.text.of(part.left)} {other} {scene.text.of(part.right)}"]
            del symbol
        found += [old[:first] + new + old[last:] for new in options]
    if isinstance(node, ast.BinOp):
        if isinstance(node.op, ast.Sub):
            found.append(f"{scene.text.of(node.left)} + {_wrapped(scene, node.right)}")
        if isinstance(node.op, ast.Add):
            found.append(f"{scene.text.of(node.left)} - {_wrapped(scene, node.right)}")
    return found


def _indices_of(scene: Scene, array: str, dimensions: int) -> list[list[str]]:
    """What stands in each dimension of an array's other subscripts."""
    found: list[dict[str, None]] = [{} for _ in range(dimensions)]
    for function in scene.functions:
        for node in ast.walk(function):
            if isinstance(node, ast.Subscript) and scene.text.of(node.value) == array:
                parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
                if len(parts) == dimensions:
                    for place, part in zip(found, parts, strict=True):
                        place[scene.text.of(part)] = None
    return [[*place] for place in found]


def assignments(scene: Scene) -> Iterator[Candidate]:
    """The number that a variable is computed from, by one: of those that the places of the findings use."""
    names = {n.id for hot in scene.hot for n in ast.walk(hot) if isinstance(n, ast.Name)}
    for statement in scene.statements:
        if isinstance(statement, ast.Assign) and (made := _exchanged(scene, statement, names)):
            yield made
        if isinstance(statement, (ast.Assign, ast.AugAssign)) and not synchronises(statement):
            target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
            if isinstance(target, ast.Name) and target.id in names and not isinstance(statement.value, ast.Call):
                far = -scene.distance(statement.value) + 2.0
                for rank, new in enumerate([*_by(scene, statement.value, 1), *_smaller(scene, statement.value)]):
                    made = scene.replacement("index", statement.value, new, far + 0.3 * rank)
                    if made:
                        yield made


def _exchanged(scene: Scene, statement: ast.Assign, names: set[str]) -> Candidate | None:
    """`i, j = cuda.grid(2)` as `j, i = cuda.grid(2)`."""
    match statement.targets[0]:
        case ast.Tuple(elts=[ast.Name(id=one), ast.Name(id=other)]) if {one, other} & names:
            near = 0.5 - scene.distance(statement.targets[0])
            return scene.replacement("swap", statement.targets[0], f"{other}, {one}", near)
    return None


_OF_A_GRID = {
    "threadIdx.x": "grid(1)",
    "blockDim.x": "gridsize(1)",
    "grid(1)": "threadIdx.x",
    "gridsize(1)": "blockDim.x",
}
"""a thread of a CTA, or the number of them -> the same of the grid"""


def identities(scene: Scene) -> Iterator[Candidate]:
    """Which thread of the CTA in the place of which one of the grid, where CTAs meet at one place."""
    if "CTA (" not in scene.said:
        return
    cuda = scene.modules.get("cuda", "cuda")
    exchanged = {f"{cuda}.{one}": f"{cuda}.{other}" for one, other in _OF_A_GRID.items()}
    for statement in scene.statements:
        head = statement.iter if isinstance(statement, ast.For) else statement
        if isinstance(head, (ast.If, ast.While, ast.FunctionDef)):
            continue
        for node in ast.walk(head):
            new = exchanged.get(scene.text.of(node)) if isinstance(node, (ast.Attribute, ast.Call)) else None
            if new and (made := scene.replacement("index", node, new, -6.0 - scene.distance(node))):
                yield made
