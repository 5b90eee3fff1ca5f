"""Edits of synchronization: calls that are inserted, removed, moved or exchanged, and their arguments."""

from __future__ import annotations

import ast
import functools
import re
from typing import TYPE_CHECKING

from wsemu.checkers.registry import cures_of
from wsemu.repair.scene import FENCES, GIVES, SYNCHRONISES, WAITS, last_name, leaves
from wsemu.repair.values import free_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.repair.scene import Candidate, Gap, Scene

_OF_CLUSTERS = frozenset(("cluster_sync", "fence_mbarrier_init"))
"""calls that are inserted if the kernel uses clusters"""
_COPY_WAITS = {
    "cp_async_bulk_wait_group": ("shared_to_global", "cp_reduce"),
    "cp_async_bulk_wait_group_read": ("shared_to_global", "cp_reduce"),
    "cp_async_wait_group": ("cp_async_c",),
}
"""for each wait for copies, a substring of the names of these copies"""
_EXCHANGED: dict[str, tuple[str, ...]] = {
    "syncwarp": ("syncthreads",),
    "bar_sync": ("bar_arrive", "barrier_sync"),
    "bar_arrive": ("bar_sync", "barrier_arrive"),
    "barrier_sync": ("barrier_arrive",),
    "barrier_arrive": ("barrier_sync",),
    "threadfence": ("syncthreads", "syncwarp", "fence_proxy_async"),
    "threadfence_block": ("syncthreads", "syncwarp", "fence_proxy_async"),
    "nanosleep": ("syncthreads", "syncwarp", "fence_proxy_async"),
    "cp_async_bulk_wait_group_read": ("cp_async_bulk_wait_group",),
    "mbarrier_expect_tx": ("mbarrier_arrive_expect_tx",),
    "mbarrier_arrive_expect_tx": ("mbarrier_expect_tx",),
    "mbarrier_arrive_relaxed": ("mbarrier_arrive",),
    "mbarrier_arrive": ("cp_async_mbarrier_arrive_noinc",),
    "cp_async_mbarrier_arrive": ("cp_async_mbarrier_arrive_noinc",),
    "cp_async_mbarrier_arrive_noinc": ("cp_async_mbarrier_arrive",),
    "start_async_dma": ("wait_for_dma_start", "wait_for_dma_finish", "finish_async_dma"),
    "wait_for_dma_finish": ("wait_for_dma_start", "start_async_dma"),
    "wait_for_dma_start": ("wait_for_dma_finish", "finish_async_dma"),
    "finish_async_dma": ("start_async_dma", "wait_for_dma_start"),
    "consumer_wait": ("producer_acquire",),
    "producer_acquire": ("consumer_wait",),
    "consumer_release": ("producer_commit",),
    "cluster_arrive_relaxed": ("cluster_arrive",),
    "cluster_arrive": ("cluster_sync", "cluster_wait"),
    "syncthreads": ("cluster_sync",),
    "setmaxnreg_inc": ("setmaxnreg_dec",),
    "setmaxnreg_dec": ("setmaxnreg_inc",),
}
_OF_PATTERNS = frozenset(
    "start_async_dma wait_for_dma_finish wait_for_dma_start finish_async_dma consumer_wait producer_acquire "
    "consumer_release".split()
)
_NO_ARGUMENTS = ("syncthreads", "syncwarp", "fence_proxy_async", "cluster_sync", "cluster_wait", "cluster_arrive")
_SIBLINGS = {
    "start_async_dma": ("wait_for_dma_finish",),
    "wait_for_dma_finish": ("start_async_dma",),
    "wait_for_dma_start": ("finish_async_dma",),
    "finish_async_dma": ("wait_for_dma_start",),
    "producer_commit": ("producer_acquire",),
    "consumer_wait": ("consumer_release",),
    "consumer_release": ("consumer_wait",),
}
"""for each call of a pattern, other calls with the same or fewer arguments that may be missing near it"""
_ARRIVE, _WAIT = "mbarrier_arrive", "mbarrier_wait_parity"
_PAIRS = ("bar_arrive", "bar_sync"), ("bar_sync", "bar_arrive"), ("bar_sync", "bar_sync")
_NEAREST = 30
"""gaps that a statement is tried at"""


def edits(scene: Scene) -> Iterator[Candidate]:
    """Yield all edits of this module."""
    yield from answering_edits(scene)
    yield from insertion_edits(scene)
    yield from fence_edits(scene)
    yield from call_edits(scene)
    yield from moving_edits(scene)
    yield from deletion_edits(scene)
    yield from pairing_edits(scene)


# -- put in ------------------------------------------------------------------------------------------------------------
def insertion_edits(scene: Scene) -> Iterator[Candidate]:
    """Yield edits that insert a synchronizing call at the gaps around the findings."""
    yield from counterparts(scene)
    gaps = sorted(scene.gaps, key=functools.partial(_gap_distance, scene))[:_NEAREST]
    lacking = dict.fromkeys(lines for lines in _lacking(scene) if lines[-1])
    others = [lines for lines in _statements(scene) if lines not in lacking]
    for rank, lines in [*((0, lines) for lines in lacking), *enumerate(others)]:
        for gap in gaps:
            if not _has_repetition(scene, gap, lines[-1]):
                says = f"insert `{lines[-1].strip()}`{' under `' + lines[0] + '`' if len(lines) > 1 else ''} {gap.says}"
                odd = int("syncthreads()" in lines[-1] and _under_a_condition(scene, gap))
                near = _gap_distance(scene, gap) + 1.5 * rank + 2.0 * odd
                made = scene.candidate("insert", says, [scene.put(gap, *lines)], near, 1)
                yield made._replace(odd=odd)


def counterparts(scene: Scene) -> Iterator[Candidate]:
    """Yield edits that add a missing method of a pattern, a call that another object has, or the wait for an arrive
    that has none."""
    twins = [(statement, lines, -6.0) for statement, lines in _missing_twin_calls(scene)]
    others = [
        (statement, lines, -5.0) for statement, lines in (*_missing_pattern_calls(scene), *_missing_last_waits(scene))
    ]
    for statement, lines, near in [*twins, *others]:
        suite = scene.text.suites[statement]
        at = suite.index(statement)
        for gap in scene.gaps:
            if gap.suite is suite and not _has_repetition(scene, gap, lines[-1].strip()):
                steps = min(abs(gap.position - at), abs(gap.position - at - 1))
                says = f"insert `{lines[-1].strip()}`{' under `' + lines[0] + '`' if len(lines) > 1 else ''} {gap.says}"
                yield scene.candidate("insert", says, [scene.put(gap, *lines)], near + 0.5 * steps, 1)


def _calls(scene: Scene) -> Iterator[tuple[ast.Expr, str, str]]:
    """Yield the statements that call a method of a pattern's object, with the object and the method."""
    methods = {*_SIBLINGS, "producer_acquire"}
    for statement in scene.synchronising:
        call = statement.value
        assert isinstance(call, ast.Call)
        if last_name(call) in methods:
            yield statement, scene.text.of(call.func).rpartition(".")[0], last_name(call)


def _missing_pattern_calls(scene: Scene) -> Iterator[tuple[ast.stmt, tuple[str, ...]]]:
    """Yield the methods that an object needs and that the kernel calls nowhere."""
    called = {(receiver, name) for _, receiver, name in _calls(scene)}
    for statement, receiver, name in _calls(scene):
        for other in _SIBLINGS.get(name, ()):
            if (receiver, other) not in called:
                assert isinstance(statement.value, ast.Call)
                yield statement, (_sibling(scene, statement.value, other),)


def _missing_twin_calls(scene: Scene) -> Iterator[tuple[ast.stmt, tuple[str, ...]]]:
    """Yield the calls that one object has and another object with the same methods lacks, in the same block of
    statements."""
    calls = [*_calls(scene)]
    methods: dict[str, set[str]] = {}
    for _, receiver, name in calls:
        methods.setdefault(receiver, set()).add(name)
    for statement, receiver, name in calls:
        suite = scene.text.suites[statement]
        inside = {node for part in suite for node in ast.walk(part)}
        there = {(one, what) for other, one, what in calls if scene.text.suites[other] is suite}
        near = {one for other, one, _ in calls if other in inside}  # a call of another role does not belong here
        for twin in near:
            if twin != receiver and {name, *_SIBLINGS.get(name, ())} & methods[twin] and (twin, name) not in there:
                call = scene.text.of(statement)
                yield statement, (twin + call[len(receiver) :],)


def _missing_last_waits(scene: Scene) -> Iterator[tuple[ast.stmt, tuple[str, ...]]]:
    """Yield the wait that is missing before the code of another role, for an arrive on a barrier without waits.  A
    condition `i + n < stop` of the arriving role becomes `i >= n` in the waiting one."""
    waited = {scene.text.of(call.args[0]) for call in scene.calls_named("bar_sync", "barrier_sync") if call.args}
    for call in scene.calls_named("bar_arrive", "barrier_arrive"):
        if len(call.args) < 2 or scene.text.of(call.args[0]) in waited:
            continue
        name = last_name(call).replace("arrive", "sync")
        line = scene.call(name, *map(scene.text.of, call.args[:2])) or ""
        owner = next((o for o in scene.text.ancestors(call) if isinstance(o, ast.If)), None)
        for other in scene.synchronising:
            loop = next((o for o in scene.text.ancestors(other) if isinstance(o, ast.For)), None)
            assert isinstance(other.value, ast.Call)
            if loop is None or call in ast.walk(loop) or last_name(other.value) != last_name(call):
                continue
            match owner.test if owner is not None else None:
                case ast.Compare(left=ast.BinOp(left=left, op=ast.Add(), right=by), ops=[ast.Lt()]):
                    yield other, (f"if {scene.text.of(left)} >= {scene.text.of(by)}:", f"    {line}")
            yield other, (line,)


def fence_edits(scene: Scene) -> Iterator[Candidate]:
    """Yield edits that put fences around an atomic that publishes stores: before it for the storing threads, after it
    for the loading threads."""
    if "race" not in scene.codes or "global" not in scene.said:
        return
    fence, none = scene.call("threadfence") or "", not any(scene.calls_named("threadfence"))
    for statement in scene.statements if fence else ():
        if isinstance(statement, (ast.Assign, ast.Expr)) and ".atomic." in scene.text.of(statement):
            suite = scene.text.suites[statement]
            at = suite.index(statement)
            around = [gap for gap in scene.gaps if gap.suite is suite and gap.position in (at, at + 1)]
            if len(around) == 2 and not any(_has_repetition(scene, gap, fence) for gap in around):
                says = f"insert `{fence}` before line {statement.lineno} and after line {statement.end_lineno}"
                pieces = [scene.put(gap, fence) for gap in around]
                far = min(scene.distance(statement), 4.0) + (-6.0 if none else 0.5)
                yield scene.candidate("insert", says, pieces, far, 2)


def _gap_distance(scene: Scene, gap: Gap) -> float:
    """Return the distance of a gap from the findings: 0 next to the statement itself, or next to a loop or branch
    around it."""
    beside = list(gap.suite[gap.position - 1 : gap.position] + gap.suite[gap.position : gap.position + 1])
    around: dict[object, float] = {}
    for n, hot in enumerate(scene.hot):
        around.setdefault(hot, 0.25 * min(n, 4))
        for depth, owner in enumerate(scene.text.ancestors(hot), 1):
            around.setdefault(owner, 0.25 * min(n, 4) + 0.5 * depth)
    nearest = min((around[s] for s in beside if s in around), default=9.0)
    ends = 0.25 if gap.position == len(gap.suite) else 0.0
    return min(nearest + ends, 1.0 + scene.line_distance(gap.line, gap.line + 1))


def _under_a_condition(scene: Scene, gap: Gap) -> bool:
    """Return whether not all threads need pass a gap."""
    owners = scene.text.ancestors(gap.suite[0])
    return any(isinstance(owner, (ast.If, ast.While)) for owner in owners)


def _has_repetition(scene: Scene, gap: Gap, line: str) -> bool:
    """Return whether the same statement is already at this gap."""
    return any(scene.text.of(statement) == line for statement in gap.suite[max(gap.position - 1, 0) : gap.position + 1])


def _statements(scene: Scene) -> list[tuple[str, ...]]:
    """Return the statements that may be missing, the likeliest first, each as lines."""
    found: dict[tuple[str, ...], None] = {}
    for code in scene.codes:
        for name in cures_of(code).inserts:
            if name not in _OF_CLUSTERS or scene.uses_cluster:
                found[(scene.call(name) or "",)] = None
    if scene.uses_cluster and "race" in scene.codes:
        found[(scene.call("cluster_sync") or "",)] = None
    found |= dict.fromkeys(_waits_for_copies(scene))
    if {"phase-alias", "phase-unobserved", "async-outlives-cta"} & {*scene.codes}:
        found |= {(line,): None for line in _missing_waits(scene)}
    found |= dict.fromkeys(_missing_invalidations(scene))
    named = [*scene.calls_named("bar_sync", "barrier_sync")]
    parts = named or any(count for hot in scene.hot for count in _branch_thread_counts(scene, hot))
    if parts and {"race", "barrier-recycling", "uninitialized-read"} & {*scene.codes}:
        free, name = str(free_id(scene)), last_name(named[0]) if named else "bar_sync"
        found |= {(scene.call(name, free, count) or "",): None for count in _counts(scene)}
    present: dict[str, None] = {}
    for statement in sorted(scene.synchronising, key=scene.distance):
        call = statement.value
        assert isinstance(call, ast.Call)
        present[scene.text.of(call)] = None
        for name in _SIBLINGS.get(last_name(call), ()):
            present[_sibling(scene, call, name)] = None
    found |= {(line,): None for line in present}
    found |= {(line,): None for line in _missing_waits(scene)}
    guards = [scene.text.of(s.test) for s in scene.statements if isinstance(s, ast.If) and _elects(s.test)]
    for line in present:
        if guards and line.partition("(")[0].rpartition(".")[2] in GIVES:
            found[f"if {guards[0]}:", "    " + line] = None
    if not found and "syncthreads" not in str(found):
        found[(scene.call("syncthreads") or "",)] = None
    found.pop(("",), None)
    return [*found]


def _lacking(scene: Scene) -> Iterator[tuple[str, ...]]:
    """Yield calls that the kernel lacks and that belong to calls that it has: the other method of a pattern, an arrive
    for a wait, a fence before an atomic that publishes a store."""
    for call in scene.calls_named(*_SIBLINGS):
        for name in _SIBLINGS[last_name(call)]:
            line = _sibling(scene, call, name)
            receiver = line.rpartition(f".{name}(")[0]
            if not any(scene.text.of(other.func) == f"{receiver}.{name}" for other in scene.calls_named(name)):
                yield (line,)
    given = {tuple(map(scene.text.of, call.args[:2])) for call in scene.calls_named() if last_name(call) in GIVES}
    given |= {
        tuple(map(scene.text.of, call.args[-2:])) for call in scene.calls_named() if "_to_shared" in last_name(call)
    }
    for call in scene.calls_named("mbarrier_wait_parity", "mbarrier_wait", "mbarrier_try_wait_parity"):
        where = tuple(map(scene.text.of, call.args[:2]))
        if where not in given:
            yield (scene.call("mbarrier_arrive", *where) or "",)
    arrives = "deadlock" in scene.codes or any(scene.calls_named("bar_arrive", "barrier_arrive"))
    for call in scene.calls_named("bar_sync", "barrier_sync") if arrives else ():
        which = tuple(map(scene.text.of, call.args[:2]))
        if len(which) > 1 and which not in given:
            yield (scene.call(last_name(call).replace("sync", "arrive"), *which) or "",)
    yield from _missing_copy_waits(scene)
    yield from _not_started(scene)
    told = {"race", "scope"} & {*scene.codes} and "global" in scene.said
    if told and any("atomic" in scene.text.of(call.func) for call in scene.calls_named()):
        yield (scene.call("threadfence") or "",)


def _not_started(scene: Scene) -> Iterator[tuple[str, ...]]:
    """Yield the missing start of a pattern's barriers."""
    for call in (
        scene.calls_named("producer_acquire", "consumer_wait") if "mbarrier-uninitialized" in scene.codes else ()
    ):
        receiver = scene.text.of(call.func).rpartition(".")[0]
        if call.args and not any(
            scene.text.of(other.func) == f"{receiver}.start" for other in scene.calls_named("start")
        ):
            yield (f"{receiver}.start({scene.text.of(call.args[0])})",)


def _missing_copy_waits(scene: Scene) -> Iterator[tuple[str, ...]]:
    """Yield waits for the mbarriers of copies for which no thread waits, with the parities that a loop can provide."""
    waited = {scene.text.of(call.args[0]) for call in scene.calls_named() if "_wait" in last_name(call) and call.args}
    for call in scene.calls_named("mbarrier_arrive_expect_tx"):
        if len(call.args) > 1 and scene.text.of(call.args[0]) not in waited:
            where = [scene.text.of(argument) for argument in call.args[:2]]
            loops = [o.target.id for o in scene.text.ancestors(call)
                     if isinstance(o, ast.For) and isinstance(o.target, ast.Name)]  # fmt: skip
            rounds = [f"{i} // {n} & 1" if n > 1 else f"{i} & 1" for i in loops[:1] for n in (1, 2, 3, 4)]
            for parity in rounds or ["0"]:
                yield (scene.call("mbarrier_wait_parity", *where, parity) or "",)


def _missing_waits(scene: Scene) -> Iterator[str]:
    """Yield waits for mbarriers that have arrives but no waits, and invalidations of mbarriers that are initialized
    twice."""
    waits = [*scene.calls_named("mbarrier_wait_parity")]
    waited = {scene.text.of(call.args[0]) for call in waits if call.args}
    parities = [*dict.fromkeys(scene.text.of(call.args[2]) for call in waits if len(call.args) > 2)] or ["0", "1"]
    flipped = [{"0": "1", "1": "0"}.get(p, f"{p} ^ 1".removesuffix(" ^ 1 ^ 1")) for p in parities]
    for call in scene.calls_named("mbarrier_arrive"):
        if len(call.args) > 1 and scene.text.of(call.args[0]) not in waited:
            where = ", ".join(map(scene.text.of, call.args[:2]))
            for parity in dict.fromkeys([*flipped, *parities]):
                yield scene.call("mbarrier_wait_parity", where, parity) or ""


def _missing_invalidations(scene: Scene) -> Iterator[tuple[str, ...]]:
    """Yield the invalidation of an mbarrier that is initialized while another one is live, by the initializing
    thread."""
    for call in scene.calls_named("mbarrier_init") if "mbarrier-reinit" in scene.codes else ():
        where = ", ".join(map(scene.text.of, call.args[:2]))
        owner = next((o for o in scene.text.ancestors(call) if isinstance(o, ast.If)), None)
        line = scene.call("mbarrier_inval", where) or ""
        yield (line,) if owner is None else (f"if {scene.text.of(owner.test)}:", "    " + line)


def _waits_for_copies(scene: Scene) -> Iterator[tuple[str, ...]]:
    """Yield waits for asynchronous copies, in the threads that issue them."""
    for name, marks in _COPY_WAITS.items():
        for call in scene.calls_named():
            if any(mark in last_name(call) for mark in marks) and (line := scene.call(name, "0")):
                yield (line,)
                owner = next((o for o in scene.text.ancestors(call) if isinstance(o, ast.If)), None)
                if owner is not None:
                    yield f"if {scene.text.of(owner.test)}:", "    " + line
                break


def _elects(test: ast.expr) -> bool:
    """Return whether a condition is of the form `lane == 0`."""
    return isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq)


def _sibling(scene: Scene, call: ast.Call, name: str) -> str:
    """Return the text of a call of another method of the same pattern object."""
    assert isinstance(call.func, ast.Attribute) or last_name(call)
    arguments = [scene.text.of(argument) for argument in call.args]
    if last_name(call) == "producer_commit":
        arguments = arguments[:2]
    receiver = scene.text.of(call.func).rpartition(".")[0]
    return f"{receiver}.{name}({', '.join(arguments)})"


# -- exchanged, deleted, moved -----------------------------------------------------------------------------------------
def call_edits(scene: Scene) -> Iterator[Candidate]:
    """Yield edits that call another function with the same arguments."""
    for call in scene.calls_named(*_EXCHANGED):
        name = last_name(call)
        for rank, other in enumerate(_EXCHANGED[name]):
            if other in _NO_ARGUMENTS:
                new = scene.call(other)
            else:
                new = scene.text.of(call).replace(name, other, 1)
            in_lanes = name == "syncwarp" and other == "syncthreads" and "intra-warp-race" in scene.codes[:1]
            if new is None or in_lanes or (other in _OF_CLUSTERS and not scene.uses_cluster):
                continue
            waits = (other in WAITS) - (name in WAITS)
            made = scene.replacement("call", call, new, 0.5 * rank, waits)
            if made:
                yield made._replace(odd=int(name in _OF_PATTERNS))
    for call in scene.calls_named("ld_nc"):
        if len(call.args) == 2:
            index = scene.text.of(call.args[1])
            index = index[1:-1] if isinstance(call.args[1], ast.Tuple) and index.startswith("(") else index
            if made := scene.replacement("call", call, f"{scene.text.of(call.args[0])}[{index}]"):
                yield made
    for call in scene.calls_named("syncwarp"):
        if call.args and (made := scene.replacement("argument", call.args[0], "0xFFFFFFFF")):
            yield made


def deletion_edits(scene: Scene) -> Iterator[Candidate]:
    """Yield edits that remove a statement that synchronizes or leaves early."""
    for statement in scene.statements:
        if (leaves(statement) and not isinstance(scene.text.parents[statement], ast.FunctionDef)) or (
            isinstance(statement, ast.If) and leaves(statement)
        ) or statement in scene.synchronising:  # fmt: skip
            target = statement
        else:
            continue
        first = scene.text.of(target).splitlines()[0]
        says = f"delete `{first}` in line {target.lineno}"
        far = min(scene.distance(target), 3.0) if leaves(target) else scene.distance(target) + 1
        gives = isinstance(target, ast.Expr) and isinstance(target.value, ast.Call) and last_name(target.value) in GIVES
        yield scene.candidate("delete", says, [scene.cut(target)], far, -1)._replace(odd=int(gives))


def moving_edits(scene: Scene) -> Iterator[Candidate]:
    """Yield edits that move a synchronizing statement nearby, into or out of loops and branches."""
    copies = [s for s in scene.hot if isinstance(s, ast.Expr) and _copies(s) and s not in scene.synchronising]
    for statement in [*scene.synchronising, *copies]:
        if not scene.text.alone(statement):
            continue
        here = scene.text.suites[statement]
        position = here.index(statement)
        for gap in scene.gaps:
            if gap.suite is here and gap.position in (position, position + 1):
                continue
            steps = abs(gap.line - statement.lineno)
            if steps > 6 or not _same_function(scene, statement, gap):
                continue
            line = scene.text.of(statement)
            pieces = [scene.cut(statement), scene.put(gap, *line.splitlines())]
            says = (
                f"move `{line.splitlines()[0]}` from line {statement.lineno} to {gap.says.replace('after', 'behind')}"
            )
            says = says.replace(" to before", " to before").replace(" to behind", " to after")
            odd = int("syncthreads()" in line and _under_a_condition(scene, gap))
            made = scene.candidate("move", says, pieces, scene.distance(statement) + 0.3 * steps + 2.0 * odd)
            yield made._replace(odd=odd)


def _copies(statement: ast.Expr) -> bool:
    """Return whether a statement starts an asynchronous copy."""
    return isinstance(statement.value, ast.Call) and last_name(statement.value).startswith(("cp_async", "cp_reduce"))


def _same_function(scene: Scene, statement: ast.stmt, gap: Gap) -> bool:
    def owner(node: ast.AST) -> ast.AST | None:
        return next((o for o in scene.text.ancestors(node) if isinstance(o, ast.FunctionDef)), None)

    return owner(statement) is owner(gap.suite[0])


# -- answers -----------------------------------------------------------------------------------------------------------
def answering_edits(scene: Scene) -> Iterator[Candidate]:
    """Insert a wait and an arrive on an unused mbarrier into the loops around an existing arrive and the wait for
    it."""
    calls = [*scene.calls_named("mbarrier_init", _ARRIVE, _WAIT)]
    uses = {name: [call for call in calls if last_name(call) == name and call.args] for name in (_ARRIVE, _WAIT)}
    used = {scene.text.of(call.args[0]) for found in uses.values() for call in found}
    inits = (call for call in calls if last_name(call) == "mbarrier_init" and call.args)
    for array in dict.fromkeys(scene.text.of(call.args[0]) for call in inits):
        for arrive in uses[_ARRIVE] if array not in used else ():
            for wait in uses[_WAIT]:
                made = _answer(scene, array, arrive, wait)
                if made is not None:
                    yield made


def _answer(scene: Scene, array: str, arrive: ast.Call, wait: ast.Call) -> Candidate | None:
    """Return the edit for an arrive and a wait of one mbarrier in two loops."""
    loops = [_loop_around(scene, call) for call in (arrive, wait)]
    if scene.text.of(arrive.args[0]) != scene.text.of(wait.args[0]) or len(wait.args) < 3 or None in loops:
        return None
    giver, taker = loops
    assert giver is not None
    assert taker is not None
    if giver is taker:
        return None
    index, parity = (scene.text.of(wait.args[n]) for n in (1, 2))
    there = re.sub(rf"\b{taker.target.id}\b", giver.target.id, f"{index}|{parity}").split("|")  # type: ignore[attr-defined]
    starts = [gap for gap in scene.gaps if gap.suite is giver.body and not gap.position]
    ends = [gap for gap in scene.gaps if gap.suite is taker.body and gap.position == len(taker.body)]
    if not starts or not ends:
        return None
    first = scene.call(_WAIT, array, there[0], f"{there[1]} ^ 1") or ""
    last = scene.call(_ARRIVE, array, index) or ""
    says = f"insert `{first}` {starts[0].says} and `{last}` {ends[0].says}"
    return scene.candidate("pair", says, [scene.put(starts[0], first), scene.put(ends[0], last)], -3.0, 2)


def _loop_around(scene: Scene, call: ast.Call) -> ast.For | None:
    """Return the innermost loop over a variable around a call."""
    owners = scene.text.ancestors(call)
    return next((o for o in owners if isinstance(o, ast.For) and isinstance(o.target, ast.Name)), None)


# -- pairs -------------------------------------------------------------------------------------------------------------
def pairing_edits(scene: Scene) -> Iterator[Candidate]:
    """Yield edits that insert a separate barrier at both ends of a synchronization edge: one side arrives or waits at
    one end, the other side waits at the other end."""
    ends = scene.hot[:2]
    if len(ends) < 2 or "ptx" not in scene.modules:
        return
    sides = [sorted(scene.gaps, key=functools.partial(_end, scene, end))[:6] for end in ends]
    for count in _counts(scene):
        free = str(free_id(scene))
        for one in sides[0]:
            for other in sides[1]:
                if one.suite is other.suite:
                    continue
                for verbs in _PAIRS:
                    calls = [scene.call(verb, free, count) or "" for verb in verbs]
                    far = _end(scene, ends[0], one) + _end(scene, ends[1], other)
                    says = f"insert `{calls[0]}` {one.says} and `{calls[1]}` {other.says}"
                    pieces = [scene.put(one, calls[0]), scene.put(other, calls[1])]
                    yield scene.candidate("pair", says, pieces, far + (verbs == _PAIRS[-1]), 2)


def _end(scene: Scene, end: ast.stmt, gap: Gap) -> float:
    """Return the distance of a gap from one end of a missing edge: next to it, or at the ends of the loop around it."""
    beside = gap.suite[max(gap.position - 1, 0) : gap.position + 1]
    if end in beside:
        return 0.0
    if end in gap.suite:
        return 0.5 if gap.position in (0, len(gap.suite)) else 1.0 + 0.5 * abs(gap.suite.index(end) - gap.position)
    owners = [*scene.text.ancestors(end)]
    if any(owner in beside for owner in owners):
        return 1.0
    return 20.0


def _counts(scene: Scene) -> list[str]:
    """Return thread counts for a barrier of some threads: counts in the kernel, the count of the branch around a
    finding's location, and that of the CTA."""
    calls = scene.calls_named("bar_sync", "bar_arrive", "barrier_sync", "barrier_arrive")
    named = {scene.text.of(call.args[1]): None for call in calls if len(call.args) > 1}
    own = [*dict.fromkeys(count for hot in scene.hot for count in _branch_thread_counts(scene, hot))]
    return [*dict.fromkeys([*own[:1], *named, str(scene.threads)])][: 2 + bool(own)]


def _branch_thread_counts(scene: Scene, statement: ast.stmt) -> Iterator[str]:
    """Yield the thread counts of the branches around a statement, of the form `cuda.threadIdx.x < count`."""
    inner: ast.AST = statement
    for owner in scene.text.ancestors(statement):
        if isinstance(owner, ast.If) and inner in owner.body:
            match owner.test:
                case ast.Compare(left=left, ops=[ast.Lt()], comparators=[count]) if scene.text.of(left).endswith(
                    "threadIdx.x"
                ) or scene.thread_variables.get(scene.text.of(left)):
                    yield scene.text.of(count)
        inner = owner


assert FENCES <= SYNCHRONISES
