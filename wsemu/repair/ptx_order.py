"""Edits of barriers, cluster barriers and fences in PTX."""

from __future__ import annotations

import itertools
import linecache
import re
from typing import TYPE_CHECKING

from wsemu.repair.ptx_kernel import is_label, score_edit
from wsemu.repair.ptx_text import Patch
from wsemu.repair.rings import UNINITIALIZED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.repair.ptx_kernel import Kernel, Scored
    from wsemu.repair.ptx_text import Place

WARP = 32
_ATOMIC = re.compile(r"(?:atom|red)\.|(?:ld|st)\.(?:\w+\.)*(?:relaxed|acquire|release|volatile)|(?:ld|st)\.volatile")
_ACCESS = re.compile(r"(?:ld|st)\.|cp\.async|wgmma\.mma|ldmatrix|stmatrix")
_LOAD = re.compile(r"ld\.|ldmatrix|cp\.async\.bulk\S*bulk_group")
_LEAVES = re.compile(r"(?:bra|ret|exit)\b")
_MAX_LINES = 20
"""maximum number of lines of PTX of an update: a load, a sum and a store"""
_LATE = 2.8
"""score of an edit with barriers that are not aligned, if no branch separates the accesses; it is tried late"""
_ANY_BARRIER = "barrier.sync 0;"
_PLAIN = re.compile(r"(ld|st)\.global\.([bsuf](?:32|64)\b)")
_UPDATE = re.compile(
    r"st\.(?P<space>shared|global)\.(?P<type>[bsuf](?:32|64))\s+(?P<at>\[[^\]]+\]),\s*(?P<value>%\w+);"
)
_STATEMENT = re.compile(r"\W*(if|for|while)\b")
_MASKED = re.compile(r"(?:shfl|vote|match|redux|bar\.warp)\.sync\S*\s+(?:.*,\s*)?(?P<mask>[%\w-]+);")
"""an operation of a warp with a mask of lanes, its last operand"""
_ALL_LANES = 0xFFFFFFFF
_OF_MASKS = frozenset(("barrier-divergence", "undefined-shuffle"))
_RESULT = re.compile(r"atom\.\S+\s+%(rd|r)(\d+),")
"""an atomic whose result is used"""
_WIDTHS = {"r": 32, "rd": 64}
_EFFECT = re.compile(r"(?:st|atom|red|cp|fence|mem\w+|mb\w+)\.")
_STORE = re.compile(r"st\.|stmatrix|cp\.async\.c[ag]|red\.|atom\.")
_BRANCH = re.compile(r"bra(?:\.uni)?\s+(\S+);")
_RACES = frozenset("race intra-warp-race uninitialized-read proxy barrier-recycling phase-alias".split())
_DEADLOCKED = frozenset(("deadlock", "cluster-barrier", "proxy-war"))
_OF_CLUSTERS = frozenset(("dsmem-before-start", "dsmem-after-exit", "dsmem-relaxed-exit", UNINITIALIZED))
"""codes of accesses that a barrier of the cluster orders"""
_NEAR = 12
"""lines between an atomic and its fence"""
_MOST = 4
"""maximum number of statements that are tried"""


def order_edits(kernel: Kernel) -> Iterator[Scored]:
    """Yield all edits of this module."""
    codes = {*kernel.codes}
    if _RACES & codes:
        yield from _fence_edits(kernel)
        yield from _atomic_edits(kernel)
        yield from _outer_barrier_edits(kernel)
        yield from _line_barrier_edits(kernel)
        yield from _guard_edits(kernel)
    if _OF_MASKS & codes:
        yield from _mask_edits(kernel)
    yield from _cluster_edits(kernel)


def _mask_edits(kernel: Kernel) -> Iterator[Scored]:
    """Change the masks of operations that name only some lanes of the warp so that they name all of them."""
    groups: dict[int, list[tuple[Place, str]]] = {}
    for place in kernel.text.places:
        match = _MASKED.match(place.text)
        mask = kernel.registers.number(match["mask"]) if match else None
        if match and mask is not None and mask & _ALL_LANES != _ALL_LANES:
            groups.setdefault(mask & _ALL_LANES, []).append((place, match["mask"]))
    for mask, uses in groups.items():
        patch = Patch(kernel.text)
        for place, operand in uses:
            head, _, tail = place.text.rpartition(operand)
            patch.replace(place.at, f"{head}-1{tail}")
        lines = sorted({place.line for place, _ in uses})
        where = f"line {lines[0]}" if len(lines) == 1 else f"lines {lines[0]} to {lines[-1]}"
        says = f"write the mask `0xffffffff` in place of `{mask:#010x}` in {where}"
        yield score_edit(0.0, "argument", says, patch)


# -- fences ------------------------------------------------------------------------------------------------------------
def _fence_edits(kernel: Kernel) -> Iterator[Scored]:
    """Yield edits that put a fence before an atomic that publishes stores, after an atomic whose result
    is read before other loads, or both."""
    if "race" not in kernel.codes:
        return
    atomics = _statements([p for p in kernel.text.places if _ATOMIC.match(p.text)])
    fence = "membar.gl;"  # as nvcc compiles `__threadfence()`
    accesses = [p for p in kernel.text.places if (p.file, p.line) in kernel.hot and _ACCESS.match(p.text)]
    if not atomics or not any(".global" in p.text or "." not in p.text for p in accesses):
        return
    fenced = {p.at for p in kernel.text.places if p.text.startswith(("fence", "membar"))}
    for places in atomics[: 2 * _MOST]:
        where = _name_atomic(kernel, places[0])
        before = Patch(kernel.text)
        after = Patch(kernel.text)
        both = Patch(kernel.text)
        for place in places:
            for patch in (before, both):
                patch.before(kernel.start(place), fence)
            for patch in (after, both):
                patch.before(_follows(kernel, place), fence)
        has_before = any(places[0].at - _NEAR < at < places[0].at for at in fenced)
        has_after = any(places[-1].at < at < places[-1].at + _NEAR for at in fenced)
        late = 0.3 * (has_before or has_after)  # ranks behind barriers between the stores and the fence
        yield score_edit(0.05 + 0.3 * has_before, "insert", f"insert `__threadfence()` before {where}", before, 1)
        yield score_edit(0.1 + 0.3 * has_after, "insert", f"insert `__threadfence()` after {where}", after, 1)
        says = f"insert `__threadfence()` before and after {where}"
        yield score_edit(0.15 + late, "pair", says, both, 2)
    for one in atomics[:_MOST]:
        for other in atomics[:_MOST]:
            if one is not other:
                pair = Patch(kernel.text)
                for place in one:
                    pair.before(kernel.start(place), fence)
                for place in other:
                    pair.before(_follows(kernel, place), fence)
                lines = f"before {_name_atomic(kernel, one[0])} and after {_name_atomic(kernel, other[0])}"
                yield score_edit(0.2, "pair", f"insert `__threadfence()` {lines}", pair, 2)


def _name_atomic(kernel: Kernel, place: Place) -> str:
    """Return the line of an atomic, or the atomic itself if its line has other statements too."""
    where = kernel.source.where(place)
    return f"the atomic in {where}" if linecache.getline(place.file, place.line).count(";") > 1 else where


def _statements(places: list[Place]) -> list[list[Place]]:
    """Return the instructions of each statement."""
    found: dict[object, list[Place]] = {}
    for place in places:
        found.setdefault((place.spot, place.text.split()[0]), []).append(place)
    return [*found.values()]


def _follows(kernel: Kernel, place: Place) -> int:
    """Return the line before which code after an instruction is inserted; if a loop polls with the instruction, the
    code comes after the loop."""
    around = [loop.last for loop in kernel.loops if loop.first <= place.at <= loop.last and kernel.polls(loop)]
    after = max([place.at, *around])
    return next((p.at for p in kernel.text.places if p.at > after), kernel.text.places[-1].at)


def _block_labels(kernel: Kernel) -> dict[str, int]:
    """Return the lines of the labels of the compiler, which are unique in a kernel."""
    return {line.strip()[:-1]: at for at, line in enumerate(kernel.text.lines) if is_label(line)}


def _atomic_edits(kernel: Kernel) -> Iterator[Scored]:
    """Make a plain access to a flag strong, or an update of a number atomic."""
    hot = [p for p in kernel.text.places if (p.file, p.line) in kernel.hot]
    strong = any(_ATOMIC.match(p.text) for p in kernel.text.places)
    for n, places in enumerate(_statements([p for p in hot if _PLAIN.match(p.text)])[:_MOST] if strong else ()):
        patch = Patch(kernel.text)
        for place in places:
            patch.replace(place.at, _PLAIN.sub(r"\1.relaxed.gpu.global.\2", place.text))
        verb = "store" if places[0].text.startswith("st") else "load"
        says = f"make the {verb} of {kernel.source.where(places[0])} atomic (`cuda::atomic_ref`, relaxed)"
        yield score_edit(0.25 + 0.05 * n, "atomic", says, patch)
    for update in _updates(kernel, hot):
        patch = Patch(kernel.text)
        for load, add, store, instruction in update:
            patch.replace(load.at, "").replace(add.at, "").replace(store.at, instruction)
        says = f"write `atomicAdd` in place of the load and the store of {kernel.source.where(update[0][0])}"
        yield score_edit(0.2, "atomic", says, patch)


def _updates(kernel: Kernel, hot: list[Place]) -> list[list[tuple[Place, Place, Place, str]]]:
    """Return sums that a statement loads, changes and stores, with the instruction that adds atomically."""
    found: dict[object, list[tuple[Place, Place, Place, str]]] = {}
    for store in hot:
        match = _UPDATE.match(store.text)
        near = [p for p in kernel.text.places if store.at - _MAX_LINES < p.at < store.at]
        before = [p for p in near if p.run == store.run or p.file == kernel.text.path]
        add = next((p for p in reversed(before) if match and _sum_parts(p.text, match["value"])), None)
        if match is None or add is None:
            continue
        parts = _sum_parts(add.text, match["value"])
        loads = [
            p for p in before if re.match(rf"ld\.{match['space']}\.\w+\s+\S+,\s*{re.escape(match['at'])};", p.text)
        ]
        load = next((p for p in loads if re.search(r"\s(%\w+),", p.text)[1] in parts), None)  # type: ignore[index]
        if load is not None:
            loaded = re.search(r"\s(%\w+),", load.text)[1]  # type: ignore[index]
            (other,) = [part for part in parts if part != loaded] or [loaded]
            kind = match["type"].replace("s64", "u64").replace("b32", "u32").replace("b64", "u64")
            instruction = f"red.{match['space']}.add.{kind} {match['at']}, {other};"
            found.setdefault(store.spot, []).append((load, add, store, instruction))
    return [*found.values()]


def _sum_parts(text: str, result: str) -> list[str]:
    """Return the operands of a sum whose result is a register; none for other instructions."""
    match = re.match(rf"add(?:\.\w+)+\s+{re.escape(result)},\s*([%\w-]+),\s*([%\w-]+);", text)
    return [match[1], match[2]] if match else []


def _guard_edits(kernel: Kernel) -> Iterator[Scored]:
    """Yield edits that let only one thread execute the statements with which all threads store to one location."""
    if not {"intra-warp-race", "same-value-store"} & {*kernel.codes}:
        return
    lines = {
        (site.file, site.line)
        for finding in kernel.report.findings[:12]
        if len({site.line for site in finding.sites}) == 1 and all("stored" in site.text for site in finding.sites)
        for site in finding.sites
    }
    stores = [p for p in kernel.text.places if _STORE.match(p.text) and (p.file, p.line) in lines]
    for n, block in enumerate(_blocks(kernel, stores)[:_MOST]):
        patch = Patch(kernel.text).before(
            kernel.start(block[0]), ".reg .b32 %wsemu_t;", ".reg .pred %wsemu_o;", "mov.u32 %wsemu_t, %tid.x;",
            "setp.eq.u32 %wsemu_o, %wsemu_t, 0;",
        )  # fmt: skip
        inside = [p for p in kernel.text.places if block[0].at <= p.at <= block[-1].at and _EFFECT.match(p.text)]
        if any(p.predicate for p in inside):
            continue
        for place in inside:  # the compiler may have moved other computations there
            result = _RESULT.match(place.text)
            zero = [f"mov.b{_WIDTHS[result[1]]} %{result[1]}{result[2]}, 0;"] if result else []
            patch.delete(place.at).before(place.at, *zero, f"@%wsemu_o {place.text}")
        one, other = (place.line for place in (block[0], block[-1]))
        where = f"line {one}" if one == other else f"lines {one} to {other}"
        yield score_edit(0.12 + 0.05 * n, "guard", f"put `if (threadIdx.x == 0)` around {where}", patch)


def _blocks(kernel: Kernel, places: list[Place]) -> list[list[Place]]:
    """Return instructions by the straight piece of code that they are in."""
    found: dict[int, list[Place]] = {}
    borders = [at for at, line in enumerate(kernel.text.lines) if is_label(line)]
    borders += [p.at for p in kernel.text.places if _LEAVES.match(p.text)]
    for place in places:
        found.setdefault(sum(at < place.at for at in borders), []).append(place)
    return [*found.values()]


# -- barriers ----------------------------------------------------------------------------------------------------------
def _outer_barrier_edits(kernel: Kernel) -> Iterator[Scored]:
    """Yield edits that put a barrier before the branch around a finding's location, and at the branch's end, where all
    threads pass."""
    labels = _block_labels(kernel)
    hot = [p for p in kernel.text.places if (p.file, p.line) in kernel.hot and _ACCESS.match(p.text)]
    found: dict[int, tuple[Place, int]] = {}
    for place in hot:
        for other in reversed([p for p in kernel.text.places if p.at < place.at]):
            target = m[1] if (m := _BRANCH.match(other.text)) and other.predicate else ""
            if labels.get(target, -1) > place.at:
                found.setdefault(other.at, (other, labels[target]))
                break
    copies: dict[object, list[tuple[Place, int]]] = {}
    for branch, label in found.values():
        copies.setdefault((branch.spot, branch.text.split()[0]), []).append((branch, label))
    for n, alike in enumerate([*copies.values()][: 2 * _MOST]):
        where = _name_branch(kernel, alike[0][0])
        warp = "intra-warp-race" in kernel.codes
        for k, (what, words) in enumerate((("bar.sync 0;", "__syncthreads()"), ("bar.warp.sync -1;", "__syncwarp()"))):
            if k and not warp:
                continue
            near = 0.3 + 0.05 * n + 0.3 * k
            patch, after = Patch(kernel.text), Patch(kernel.text)
            for branch, label in alike:
                patch.before(branch.at, what)
                following = next((p.at for p in kernel.text.places if p.at > label), None)
                if following is not None:
                    after.before(following, what)
            yield score_edit(near, "insert", f"insert `{words}` before {where}", patch, 1)
            yield score_edit(near + 0.02, "insert", f"insert `{words}` after {where}", after, 1)


def _name_branch(kernel: Kernel, place: Place) -> str:
    """Return the words for a branch: the `if` or the loop of its line, if that begins with one."""
    found = _STATEMENT.match(kernel.source.statement(place))
    return (
        f"the `{found[1]}` of {kernel.source.where(place)}" if found else f"the branch of {kernel.source.where(place)}"
    )


def _line_barrier_edits(kernel: Kernel) -> Iterator[Scored]:
    """Insert a barrier after each copy of a source line, or also before each copy of a later line.

    The compiler may have copied the lines to several paths of a branch, so the barrier is not aligned.
    """
    stores, loads = (_copies_of_lines(kernel, pattern) for pattern in (_STORE, _LOAD))
    fenced = _are_fenced(kernel)
    for n, copies in enumerate(stores[:_MOST]):
        where = kernel.source.where(copies[0])
        patch = Patch(kernel.text)
        for place in copies:
            patch.after(place.at, _ANY_BARRIER)
        near = 0.05 * n + (0.1 if fenced else 0.45 if _paths_differ(kernel, copies) else _LATE)
        yield score_edit(near, "insert", f"insert `__syncthreads()` after {where}", patch, 1)
        for k, others in enumerate(loads[:_MOST]):
            if others[0].line > copies[0].line:
                patch = Patch(kernel.text)
                for place in copies:
                    patch.after(place.at, _ANY_BARRIER)
                for place in others:
                    patch.before(kernel.start(place), _ANY_BARRIER)
                says = f"insert `__syncthreads()` between {where} and {kernel.source.where(others[0])}"
                near = 0.05 * (n + k) + (0.5 if _paths_differ(kernel, [copies[-1], others[0]]) else _LATE)
                yield score_edit(near, "insert", says, patch, 1)


def _are_fenced(kernel: Kernel) -> bool:
    """Return whether each atomic has a fence near it.  If so, the synchronization that publishes a store may lack only
    a barrier."""
    atomics = [p.at for p in kernel.text.places if _ATOMIC.match(p.text)]
    fences = [p.at for p in kernel.text.places if p.text.startswith(("fence", "membar"))]
    return bool(atomics) and all(any(abs(at - other) < _NEAR for other in fences) for at in atomics)


def _paths_differ(kernel: Kernel, places: list[Place]) -> bool:
    """Return whether instructions are on different paths: an unconditional branch is between two of them."""
    ordered = sorted(places, key=lambda place: place.at)
    leaves = [p.at for p in kernel.text.places if not p.predicate and _LEAVES.match(p.text)]
    return any(one.at < at < other.at for one, other in itertools.pairwise(ordered) for at in leaves)


def _copies_of_lines(kernel: Kernel, pattern: re.Pattern[str]) -> list[list[Place]]:
    """Return the last instruction of each copy of the lines that findings name, or that have fences in loops."""
    runs: dict[tuple[str, int], dict[int, Place]] = {}
    for place in kernel.text.places:
        line = place.file, place.line
        if (line in kernel.hot and pattern.match(place.text)) or _fences_in_loop(kernel, place, pattern):
            runs.setdefault(line, {})[place.run] = place
    return [[*copies.values()] for copies in runs.values()]


def _fences_in_loop(kernel: Kernel, place: Place, pattern: re.Pattern[str]) -> bool:
    """Return whether an instruction is a fence in a loop, which may follow stores."""
    if pattern is not _STORE or not place.text.startswith("fence"):
        return False
    return any(loop.first < place.at < loop.last for loop in kernel.loops)


# -- clusters ----------------------------------------------------------------------------------------------------------
def _cluster_edits(kernel: Kernel) -> Iterator[Scored]:
    """Yield edits that add the missing arrive or wait of a cluster barrier, or a whole one."""
    if not any(p.text.startswith(("barrier.cluster", "mapa")) or "%cluster" in p.text for p in kernel.text.places):
        return
    syncs = [p for p in kernel.text.places if p.text.startswith("barrier.cluster")]
    arrive, wait = "barrier.cluster.arrive.release.aligned;", "barrier.cluster.wait.acquire.aligned;"
    lone = [p for n, p in enumerate(syncs) if ".wait" in p.text and (not n or ".arrive" not in syncs[n - 1].text)]
    for place in lone:
        patch = Patch(kernel.text).before(place.at, arrive)
        yield score_edit(
            0.0, "insert", f"insert `cluster.barrier_arrive()` before {kernel.source.where(place)}", patch, 1
        )
    for n, place in enumerate(syncs):
        if ".arrive" in place.text and (n + 1 == len(syncs) or ".wait" not in syncs[n + 1].text):
            patch = Patch(kernel.text).after(place.at, wait)
            yield score_edit(
                0.0, "insert", f"insert `cluster.barrier_wait()` after {kernel.source.where(place)}", patch, 1
            )
    if {*kernel.codes} <= _DEADLOCKED:  # another barrier cannot end a deadlock
        return
    far = 0.0 if _OF_CLUSTERS & {*kernel.codes} else 0.6
    hot = [p for p in kernel.text.places if (p.file, p.line) in kernel.hot]
    gaps = dict.fromkeys(at for p in hot for at in (_branch_start(kernel, p), _follows_line(kernel, p)))
    for n, at in enumerate([*gaps][: 3 * _MOST]):
        patch = Patch(kernel.text).before(at, arrive, wait)
        first = next(p for p in kernel.text.places if p.at >= at)  # a loop begins with a label
        says = f"insert `cluster.sync()` before {kernel.source.where(first)}"
        yield score_edit(0.2 + far + 0.05 * n, "insert", says, patch, 1)


def _branch_start(kernel: Kernel, place: Place) -> int:
    """Return the line of the branch around an instruction, or of its statement."""
    labels = _block_labels(kernel)
    for other in reversed([p for p in kernel.text.places if p.at < place.at]):
        target = m[1] if (m := _BRANCH.match(other.text)) and other.predicate else ""
        if labels.get(target, -1) > place.at:
            return other.at
    return kernel.start(place)


def _follows_line(kernel: Kernel, place: Place) -> int:
    """Return the line after the branch around an instruction, or after the instruction."""
    labels = _block_labels(kernel)
    after = place.at
    for other in reversed([p for p in kernel.text.places if p.at < place.at]):
        target = m[1] if (m := _BRANCH.match(other.text)) and other.predicate else ""
        if labels.get(target, -1) > place.at:
            after = labels[target]
            break
    return next((p.at for p in kernel.text.places if p.at > after), kernel.text.places[-1].at)
