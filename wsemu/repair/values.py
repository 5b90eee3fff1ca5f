"""Edits of numbers and expressions: arguments of synchronizing calls, bounds, comparisons, indices, stages, sizes."""

from __future__ import annotations

import ast
import re
from collections import Counter
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
    **dict.fromkeys(
        "shfl_sync shfl_up_sync shfl_down_sync shfl_xor_sync all_sync any_sync ballot_sync eq_sync match_any_sync "
        "match_all_sync syncwarp".split(),
        ("mask",),
    ),
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
"""meaning of the arguments of each call; arguments with an empty meaning are not edited"""
_WITHOUT_AGAIN = frozenset(("out-of-bounds", "race", "intra-warp-race"))
"""codes for which no edit may make a statement load one element twice, because the thread would then no longer load a
value that it needs from others"""
_WARP, _GROUP = 32, 8
_FULL = "0xFFFFFFFF"
"""the mask of a whole warp"""
_SIMPLE = (ast.Name, ast.Constant, ast.Attribute, ast.Call, ast.Subscript)


def edits(scene: Scene) -> Iterator[Candidate]:
    """Yield all edits of this module."""
    yield from arguments(scene)
    yield from whole_counts(scene)
    yield from whole_rings(scene)
    yield from bounds(scene)
    yield from indices(scene)
    yield from assignments(scene)
    yield from identities(scene)


# -- arguments of what synchronises ------------------------------------------------------------------------------------
def arguments(scene: Scene) -> Iterator[Candidate]:
    """Yield edits of an id, count, parity, stage, number of bytes or number of groups."""
    used = _used(scene)
    once = {name for name, count in scene.uses.items() if count == 1} & scene.text.constant_values.keys()
    for call in scene.calls_named(*PARAMETERS):
        for argument, what in zip(call.args, PARAMETERS[last_name(call)], strict=False):
            if not what:
                continue
            for rank, new in enumerate(_other_values(scene, argument, what, used)):
                if isinstance(argument, ast.Name) and new.startswith(f"{argument.id} ") and argument.id in once:
                    continue  # the number at the top of the file is edited
                kind: Kind = "index" if what in ("place", "coordinates") else "argument"
                near = 0.3 * rank + (_same_object_bonus(scene, call) if what == "count" else 0.0)
                near -= 4.0 * (what == "id" and "barrier-recycling" in scene.codes)  # two groups with one barrier
                near -= 4.0 * (what == "mask")
                near -= 4.0 * (what == "groups" and rank < 2 and "cp_async" in scene.said)
                if what == "count" and last_name(call) in _BARRIERS and new.isdigit() and int(new) % _WARP:
                    continue  # warps arrive, not threads
                made = scene.replacement(kind, argument, new, near)
                if made:
                    alone = what == "count" and last_name(call) in _BARRIERS and new.isdigit() and int(new) <= _WARP
                    round_ = what == "round" and new not in used.get(what, [])
                    yield made._replace(odd=int(alone or round_ or (what == "parity" and new in ("0", "1"))))


def _same_object_bonus(scene: Scene, call: ast.Call) -> float:
    """Return how much nearer than its lines the initialization of an mbarrier is, if findings name that mbarrier."""
    far = scene.distance(call)
    if last_name(call) == "mbarrier_init" and call.args and f"`{scene.text.of(call.args[0])}[" in scene.said:
        return min(far, 1.0) - far
    return 0.0


def _used(scene: Scene) -> dict[str, list[str]]:
    """Return the arguments that calls of this file pass, by kind."""
    found: dict[str, dict[str, None]] = {}
    for call in scene.calls_named(*PARAMETERS):
        for argument, what in zip(call.args, PARAMETERS[last_name(call)], strict=False):
            found.setdefault(what, {})[scene.text.of(argument)] = None
    return {what: [*texts] for what, texts in found.items()}


def _other_values(scene: Scene, node: ast.expr, what: str, used: dict[str, list[str]]) -> list[str]:
    """Return replacements for an argument."""
    old = scene.text.of(node)
    wrapped = parenthesize(scene, node)
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
        made += step_expressions(scene, node, _WARP) + step_expressions(scene, node, 1)
        if isinstance(node, ast.Constant) and type(node.value) is int:
            made += [str(2 * node.value), str(4 * node.value)]  # of two CTAs, of four
    elif what == "bar":
        made = near
    elif what == "mask":
        made = [_FULL] if isinstance(node, ast.Constant) and node.value != int(_FULL, 16) else []
    elif what == "scope":
        made = ['"cluster"', '"gpu"']
    elif what == "bytes":
        whole = node.value if isinstance(node, ast.Constant) and type(node.value) is int else None
        times = [f"{n} * {wrapped}" if whole is None else str(n * whole) for n in (2, 4)]
        made = [*near, *(str(n) for n in scene.numbers if n % 16 == 0), *times, f"({old} + 15) // 16 * 16"]
    elif what == "groups":
        made = [*step_expressions(scene, node, 1), "0"]
    elif what == "registers":
        named_ = [str(n) for n in scene.numbers if n % _GROUP == 0 and 24 <= n <= 256]
        made = [*step_expressions(scene, node, _GROUP), *named_, "40"]
    elif what == "id":
        stages = _stages(scene, node)
        made = [*near, *step_expressions(scene, node, 1), *(f"{wrapped} + {stage}" for stage in stages), "1", "2"]
    elif what in ("index", "round"):
        made = [*near, *step_expressions(scene, node, 1), *_stages(scene, node), *_loop_names(scene, node)]
    elif what == "coordinates" and isinstance(node, ast.Tuple):
        options = [
            (n, new)
            for n, part in enumerate(node.elts)
            for new in [*_neighbor_texts(scene, part), *_multiples_texts(scene, part)]
        ]
        return [_replace_element(scene, node, n, new) for n, new in options]
    elif what == "place":
        parts = node.elts if isinstance(node, ast.Tuple) else []
        changed = [
            _replace_element(scene, node, n, new)
            for n, part in enumerate(parts)
            for new in _neighbor_texts(scene, part)
        ]
        made = [*changed, *(_neighbor_texts(scene, node) if not parts else []), *near]
    elif what == "size":
        made = ["4", "8", "16"]
    return [new for new in dict.fromkeys(made) if new not in (old, "0" if what in ("bytes", "count") else old)]


def _replace_element(scene: Scene, node: ast.expr, n: int, new: str) -> str:
    """Return a tuple with one element replaced."""
    assert isinstance(node, ast.Tuple)
    return f"({', '.join(new if k == n else scene.text.of(part) for k, part in enumerate(node.elts))})"


def _multiples_texts(scene: Scene, node: ast.expr) -> list[str]:
    """Return the texts of a number, or of one in an expression, changed to multiples of the elements in 16 bytes."""
    old, (start, _) = scene.text.of(node), scene.text.span(node)
    found: dict[str, None] = {}
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and type(part.value) is int and part.value > 1:
            first, last = (at - start for at in scene.text.span(part))
            for unit in (4, 8, 16):
                for n in (-(-part.value // unit) * unit, part.value // unit * unit):
                    found[old[:first] + str(n) + old[last:]] = None
    return [new for new in found if new != old]


def _neighbor_texts(scene: Scene, node: ast.expr) -> list[str]:
    """Return the texts of an index changed by one, and of another stage."""
    return [*step_expressions(scene, node, 1), *_stages(scene, node)]


def step_expressions(scene: Scene, node: ast.expr, step: int) -> list[str]:
    """Return an expression increased and decreased by a step."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return [str(n) for n in (node.value + step, node.value - step) if n >= 0]
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)) and isinstance(node.right, ast.Constant):
        left, by = scene.text.of(node.left), node.right.value
        if type(by) is int:
            by = by if isinstance(node.op, ast.Add) else -by
            return [
                left if by + s == 0 else f"{left} {'+' if by + s > 0 else '-'} {abs(by + s)}" for s in (step, -step)
            ]
    simple = parenthesize(scene, node, sums=True)
    return [f"{simple} + {step}", f"{simple} - {step}"]


def parenthesize(scene: Scene, node: ast.expr, *, sums: bool = False) -> str:
    """Return the text of an operand, in parentheses if it needs them."""
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
    """Return the variables of the loops around a node, innermost first."""
    return [
        owner.target.id
        for owner in scene.text.ancestors(node)
        if isinstance(owner, ast.For) and isinstance(owner.target, ast.Name) and owner.target.id != "_"
    ]


def _stages(scene: Scene, node: ast.AST) -> list[str]:
    """Return the expressions that select a stage near a node: names such as `s` or `stage`, `i % 2` of the loops
    around, `RING.stage(i)`."""
    function = next((o for o in scene.text.ancestors(node) if isinstance(o, ast.FunctionDef)), None)
    found: dict[str, None] = {}
    for part in ast.walk(function) if function else ():
        value = part.value if isinstance(part, ast.Assign) else part
        if not (isinstance(value, ast.expr) and _selects(value)) or _is_lane_number(scene, value):
            continue
        if isinstance(part, ast.Assign) and isinstance(part.targets[0], ast.Name):
            found[part.targets[0].id] = None
        if isinstance(part, ast.expr):
            found[scene.text.of(part)] = None
    loops = _loop_names(scene, node)
    inside = [text for text in found if not loops or "%" not in text or any(name in text for name in loops)]
    return [*inside, *(f"{i} % 2" for i in loops)][:5]


def _is_lane_number(scene: Scene, node: ast.expr) -> bool:
    """Return whether an expression is of the form `t % 32`: a lane, and no stage."""
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and (
        scene.depends_on_thread(node, scene.thread_variables) is not None
    )  # fmt: skip


def _selects(node: ast.AST) -> bool:
    """Return whether an expression has the form `i % 2` or `1 - s`, or calls a pattern for its stage."""
    match node:
        case ast.BinOp(op=ast.Mod()):
            return not isinstance(node.left, ast.Attribute)
        case ast.BinOp(left=ast.Name(id=("warp" | "pair" | "stage" | "s"))):
            return True
        case ast.Call(func=ast.Attribute(attr=("stage" | "buffer"))):
            return True
    return False


def _is_stage(scene: Scene, node: ast.AST) -> bool:
    """Return whether an index selects the stage of a ring, or is a number."""
    text = scene.text.of(node)
    return isinstance(node, ast.Constant) or any(part.strip("()") in text.split() for part in _stages(scene, node)) or (
        _selects(node) or text in ("s", "stage", "slot", "buffer")
    )  # fmt: skip


def whole_counts(scene: Scene) -> Iterator[Candidate]:
    """Yield edits that change the count of all barriers with the same count, or the id of all with the same id, at
    once."""
    calls = [call for call in scene.calls_named(*_BARRIERS) if len(call.args) > 1]
    for n, what in enumerate(("id", "count")):
        for old in dict.fromkeys(scene.text.of(call.args[n]) for call in calls):
            alike = [call for call in calls if scene.text.of(call.args[n]) == old]
            if len(alike) < 2:
                continue
            others = [str(free_id(scene))] if what == "id" else _other_values(scene, alike[0].args[1], what, {})
            for rank, new in enumerate(others):
                if what == "count" and new.isdigit() and int(new) % _WARP:
                    continue
                pieces = [Piece(*scene.text.span(call.args[n]), new) for call in alike]
                lines = ", ".join(str(call.lineno) for call in alike)
                says = f"write `{new}` in place of the {what} `{old}` in lines {lines}"
                near = min(map(scene.distance, alike)) + 0.5 + 0.3 * rank
                yield scene.candidate("argument", says, pieces, near)._replace(odd=int(what == "count"))


def free_id(scene: Scene) -> int:
    """Return an id of a barrier that this file does not use; the highest one if patterns use some ids."""
    used = {n.value for n in ast.walk(scene.text.tree) if isinstance(n, ast.Constant) and type(n.value) is int}
    upwards = range(3, 16)
    return next(
        (n for n in (reversed(upwards) if "patterns import" in scene.text.source else upwards) if n not in used), 15
    )


def whole_rings(scene: Scene) -> Iterator[Candidate]:
    """Yield edits that replace the barriers of one id, or of two, by one barrier for each stage or pair."""
    calls = [call for call in scene.calls_named(*_BARRIERS) if call.args]
    ids = [*dict.fromkeys(scene.text.of(call.args[0]) for call in calls)]
    names = [name for name in ("stage", "s", "pair", "group") if any(_assigns(f, name) for f in scene.functions)]
    for chosen in ([ids] if len(ids) > 1 else []) + [[one] for one in ids]:
        wanted = [call for call in calls if scene.text.of(call.args[0]) in chosen]
        for step in (1, 2):
            for stage in [*names, "{} % 2"]:
                made = _stage_edit(scene, wanted, stage, step)
                if made:
                    yield made


def _assigns(function: ast.FunctionDef, name: str) -> bool:
    return any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store) for n in ast.walk(function))


def _stage_edit(scene: Scene, calls: list[ast.Call], stage: str, step: int) -> Candidate | None:
    pieces, texts = [], []
    for call in calls:
        loops = _loop_names(scene, call)
        if "{}" in stage and not loops:
            return None
        by = stage.format(loops[0]) if "{}" in stage else stage
        new = f"{parenthesize(scene, call.args[0], sums=True)} + {by if step == 1 else f'{step} * ({by})'}"
        texts.append(new)
        pieces.append(Piece(*scene.text.span(call.args[0]), new))
    lines = ", ".join(str(call.lineno) for call in calls)
    says = f"write the ids of the barriers in lines {lines} as {', '.join(f'`{t}`' for t in dict.fromkeys(texts))}"
    return scene.candidate("stage", says, pieces, 3.0 + step) if len(pieces) > 1 else None


# -- bounds --------------------------------------------------------------------------------------------
def bounds(scene: Scene) -> Iterator[Candidate]:
    """Yield edits that change the limits of a `range` by one, or to those of other loops."""
    ranges = list(scene.calls_named("range"))
    for call in ranges:
        far = _loop_distance(scene, call)
        loop = scene.text.statement(call)
        reads = any(loop is owner for hot in scene.hot[:1] for owner in scene.text.ancestors(hot))
        unread = reads and "uninitialized-read" in scene.codes  # reading less does not fix anything
        stop = call.args[min(1, len(call.args) - 1)]
        others = [scene.text.of(other.args[min(1, len(other.args) - 1)]) for other in ranges if other is not call]
        for n, argument in enumerate(call.args[:2]):
            options = [
                *(others if argument is stop else []),
                *step_expressions(scene, argument, 1),
                *_round_up_edits(scene, argument),
            ]
            if isinstance(argument, ast.BinOp) and isinstance(argument.op, (ast.Add, ast.Sub)):
                options.append(scene.text.of(argument.left))
            for rank, new in enumerate(dict.fromkeys(options)):
                simpler = new in others and _step_from(scene, argument) == new
                near = far + 0.3 * rank + 0.5 * n
                if simpler:
                    near = -5.0 - scene.distance(argument)
                made = scene.replacement("bound", argument, new, near)
                if made:
                    strange = new in others and not names_in_text(new) >= names_in_text(scene.text.of(argument))
                    less = unread and argument is stop and new in step_expressions(scene, argument, 1)
                    if simpler or not less or new in smaller(scene, argument, only_less=True):
                        yield made._replace(odd=-1 if simpler else int(strange))
        if len(call.args) == 1 and (made := scene.replacement("bound", stop, f"1, {scene.text.of(stop)}", far + 1)):
            yield made


def _step_from(scene: Scene, node: ast.expr) -> str:
    """Return the term to which a constant is added, or from which it is subtracted; an empty text if there is none."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)) and isinstance(node.right, ast.Constant):
        return scene.text.of(node.left)
    return ""


def _loop_distance(scene: Scene, call: ast.Call) -> float:
    """Return the distance of a loop from the findings; 0 if it is around a finding's location."""
    loop = scene.text.statement(call)
    inside = any(loop is owner for hot in scene.hot for owner in scene.text.ancestors(hot))
    return -scene.distance(call) + (0.0 if inside else min(scene.distance(call), 3.0))


def _round_up_edits(scene: Scene, node: ast.expr) -> list[str]:
    """Return the texts of `n // 32` rounded up."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv) and isinstance(node.right, ast.Constant):
        left, by = scene.text.of(node.left), node.right.value
        return [f"({left} + {by - 1}) // {by}"] if type(by) is int else []
    return []


# -- indices -----------------------------------------------------------------------------------------------------------
def indices(scene: Scene) -> Iterator[Candidate]:
    """Yield edits of an index: by one, to that of another dimension, to another stage, or to the index of another
    access to the array."""
    yield from _unused_parameter_edits(scene)
    for statement in scene.hot:
        head = statement if not isinstance(statement, (ast.If, ast.For, ast.While)) else ast.Pass()
        loaded = _loaded_elements(scene, head)
        for node in ast.walk(head):
            if isinstance(node, ast.Subscript):
                for made in _index(scene, node):
                    again = _loads_twice(scene, node, made, loaded)
                    if not (again and _WITHOUT_AGAIN & {*scene.codes}):
                        yield made._replace(odd=1) if again else made
            elif isinstance(node, ast.Call) and ".atomic." in scene.text.of(node.func) and len(node.args) > 1:
                parts = node.args[1].elts if isinstance(node.args[1], ast.Tuple) else [node.args[1]]
                for part in parts:
                    yield from _off_by_one_edits(scene, part)


def _loaded_elements(scene: Scene, statement: ast.AST) -> Counter[str]:
    """Return the elements that a statement loads."""
    nodes = (n for n in ast.walk(statement) if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Load))
    return Counter(map(scene.text.of, nodes))


def _loads_twice(scene: Scene, node: ast.Subscript, made: Candidate, loaded: Counter[str]) -> bool:
    """Return whether an edit of a load's index makes it load an element that the same statement already loads."""
    (piece,) = made.pieces
    start, end = scene.text.span(node)
    data = scene.text.data
    new = data[start : piece.start].decode() + piece.text + data[piece.end : end].decode()
    return isinstance(node.ctx, ast.Load) and loaded[new] > 0


def _off_by_one_edits(scene: Scene, part: ast.expr) -> Iterator[Candidate]:
    """Yield edits that add one to an index without an added number, or change the added number."""
    less, mirrored = smaller(scene, part, only_less=True), _has_mirror_index(scene, part)
    for rank, new in enumerate(dict.fromkeys([*less, *step_expressions(scene, part, 1), *smaller(scene, part)])):
        made = scene.replacement("index", part, new, 0.4 * rank)
        if made:
            yield made._replace(odd=int(mirrored))


_MIRROR = str.maketrans("+-", "-+")


def _has_mirror_index(scene: Scene, part: ast.expr) -> bool:
    """Return whether the statement also has the mirrored index, such as `i - 1` besides `i + 1`, so that the index is
    intended."""
    text, statement = scene.text.of(part), scene.text.statement(part)
    other = text.translate(_MIRROR)
    nodes = ast.walk(statement) if statement is not None else ()
    return other != text and any(isinstance(n, ast.BinOp) and scene.text.of(n) == other for n in nodes)


def _unused_parameter_edits(scene: Scene) -> Iterator[Candidate]:
    """Yield edits that store to a parameter that the kernel never names, instead of one that it also reads."""
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
    elsewhere = _index_texts(scene, scene.text.of(node.value), len(parts))
    for n, part in enumerate(parts):
        if isinstance(part, ast.Slice):
            yield from _off_by_one_edits(scene, part.lower) if part.lower is not None else ()
            continue
        is_stage = _is_stage(scene, part)
        stages = _stages(scene, node) if is_stage else []
        rounds = {*_loop_names(scene, node)} & names_in_text(texts[n])  # values that rotate continue in this one
        others = (
            [text for text in elsewhere[n] if names_in_text(text) >= rounds] if is_stage or not scene.ordering else []
        )
        for rank, new in enumerate(dict.fromkeys([*others, *stages])):
            if made := scene.replacement("stage", part, new, 0.4 * rank):
                fixed = isinstance(part, ast.Constant) and scene.ordering  # its place is meant
                yield made._replace(odd=int(fixed or not names_in_text(new) >= names_in_text(scene.text.of(part))))
        yield from _off_by_one_edits(scene, part)
        for rank, new in enumerate(_index_by_names(scene, node, part)):
            if made := scene.replacement("index", part, new, 1.0 + 0.3 * rank):
                yield made
    if isinstance(node.ctx, ast.Load) or len(parts) > 1:
        return
    cuda = scene.modules.get("cuda", "cuda")
    between = isinstance(parts[0], ast.Constant) and "CTA (" in scene.said
    for rank, new in enumerate((f"{cuda}.blockIdx.x", f"{cuda}.grid(1)")):
        if made := scene.replacement("index", node.slice, new, -2.0 if between and not rank else 3.0):
            yield made


def _index_by_names(scene: Scene, node: ast.Subscript, part: ast.expr) -> Iterator[str]:
    """Yield edits that add a name to an index, if the array's extent or other indices contain the name, or that
    exchange a name for another one of the same kind."""
    text, own = scene.text.of(part), names_in_text(scene.text.of(part))
    array = scene.text.of(node.value)
    if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Add):
        near = [other for place in _index_texts(scene, array, 1) for other in place]
        for name in sorted({n for other in [*near, _extent_text(scene, array)] for n in names_in_text(other)} - own):
            if name in scene.text.constant_values:
                yield f"{text} + {name}"
    if isinstance(part, ast.Name) and part.id in scene.thread_variables and array in _shared_array_names(scene):
        yield from (name for name in scene.thread_variables if name != part.id)


def _shared_array_names(scene: Scene) -> Iterator[str]:
    """Yield the names of shared arrays."""
    for call in scene.calls_named("array"):
        owner = scene.text.statement(call)
        if "shared" in scene.text.of(call.func) and isinstance(owner, ast.Assign):
            yield scene.text.of(owner.targets[0])


def _extent_text(scene: Scene, array: str) -> str:
    """Return the text of the extents of a shared array."""
    for statement in scene.statements:
        if isinstance(statement, ast.Assign) and scene.text.of(statement.targets[0]) == array:
            return scene.text.of(statement.value)
    return ""


def names_in_text(text: str) -> set[str]:
    """Return the names of an expression."""
    return {*re.findall(r"\b[A-Za-z_]\w*", text)}


def smaller(scene: Scene, node: ast.expr, *, only_less: bool = False) -> list[str]:
    """Return the expression without an added number, with a number changed by one, or with a sign changed."""
    less, other = [], []
    old = scene.text.of(node)
    start, _ = scene.text.span(node)
    for part in ast.walk(node):
        if not isinstance(part, ast.expr):
            continue
        first, last = (at - start for at in scene.text.span(part))
        if isinstance(part, ast.Constant) and type(part.value) is int and part is not node:
            numbers = (n for n in (part.value + 1, part.value - 1) if n > 0)
            other += [_drop_ones(f"{old[:first]}{n}{old[last:]}") for n in numbers]
        if isinstance(part, ast.BinOp) and isinstance(part.op, (ast.Add, ast.Sub)):
            symbol = "-" if isinstance(part.op, ast.Add) else "+"
            left, right = scene.text.of(part.left), scene.text.of(part.right)
            if isinstance(part.right, ast.Constant):
                less.append(_drop_parentheses(old[:first], left, old[last:]))
            other.append(f"{old[:first]}{left} {symbol} {right}{old[last:]}")
    return less if only_less else [*less, *other]


def _drop_ones(text: str) -> str:
    """Return an expression without a product with 1 or a division by 1 at its end."""
    return re.sub(r"\s*(?://|\*)\s*1$", "", text)


def _drop_parentheses(before: str, operand: str, after: str) -> str:
    """Return a name without the parentheses of the sum that it replaces."""
    if operand.isidentifier() and re.search(r"(^|[^\w\])])\($", before) and after.startswith(")"):
        return before[:-1] + operand + after[1:]
    return before + operand + after


def _index_texts(scene: Scene, array: str, dimensions: int) -> list[list[str]]:
    """Return the indices of an array's other subscripts, for each dimension."""
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
    """Yield edits that change by one a number from which a variable at a finding's location is computed."""
    hot = [*scene.hot, *(writers(scene) if "uninitialized-read" in scene.codes else ())]
    names = {n.id for statement in hot for n in ast.walk(statement) if isinstance(n, ast.Name)}
    for statement in scene.statements:
        if isinstance(statement, ast.Assign) and (made := _exchange_targets(scene, statement, names)):
            yield made
        if isinstance(statement, (ast.Assign, ast.AugAssign)) and not synchronises(statement):
            target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
            if isinstance(target, ast.Name) and target.id in names and not isinstance(statement.value, ast.Call):
                far = -scene.distance(statement.value) + 2.0
                options = [*step_expressions(scene, statement.value, 1), *smaller(scene, statement.value)]
                options += _other_stages(scene, statement.value)
                for rank, new in enumerate(dict.fromkeys(options)):
                    made = scene.replacement("index", statement.value, new, far + 0.3 * rank)
                    if made:
                        yield made._replace(odd=int(isinstance(statement.value, ast.Name)))


def writers(scene: Scene) -> Iterator[ast.stmt]:
    """Yield the statements that store to arrays which findings name."""
    for statement in scene.statements:
        match statement:
            case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name))]) if f"`{name}" in scene.said:
                yield statement


def _other_stages(scene: Scene, node: ast.expr) -> Iterator[str]:
    """Yield edits that replace the number in `i % 2` by another number from the top of the file, or by that of a
    pattern with stages."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Name):
        left = scene.text.of(node.left)
        for name, value in scene.text.constant_values.items():
            if scene.number(value.node) is not None and scene.uses[name]:
                yield f"{left} % {name}"
            elif isinstance(value.node, ast.Call) and "Pipeline" in scene.text.of(value.node.func):
                yield f"{name}.stage({left})"


def _exchange_targets(scene: Scene, statement: ast.Assign, names: set[str]) -> Candidate | None:
    """Return the edit that changes `i, j = cuda.grid(2)` to `j, i = cuda.grid(2)`."""
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
"""the counterpart in the grid of a thread of a CTA, and of the number of threads"""


def identities(scene: Scene) -> Iterator[Candidate]:
    """Yield edits that exchange the thread index in the CTA with that in the grid: if CTAs access one location, or if
    an array of the CTA is too small."""
    cuda = scene.modules.get("cuda", "cuda")
    meet = "CTA (" in scene.said and "race" in scene.codes
    own = "out-of-bounds" in scene.codes and any(f"`{name}`" in scene.said for name in _shared_array_names(scene))
    exchanged = {
        f"{cuda}.{one}": f"{cuda}.{other}"
        for one, other in _OF_A_GRID.items()
        if (meet if other.startswith("grid") else own)
    }
    for statement in scene.statements if exchanged else ():
        head = statement.iter if isinstance(statement, ast.For) else statement
        if isinstance(head, (ast.If, ast.While, ast.FunctionDef)):
            continue
        for node in ast.walk(head):
            new = exchanged.get(scene.text.of(node)) if isinstance(node, (ast.Attribute, ast.Call)) else None
            if new and (made := scene.replacement("index", node, new, -6.0 - scene.distance(node))):
                yield made
