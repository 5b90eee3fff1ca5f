"""Edits of barriers, named barriers, cluster barriers and fences in PTX."""

from __future__ import annotations

import itertools
import linecache
import re
from typing import TYPE_CHECKING

from wsemu.repair.ptx_kernel import is_label, score_edit
from wsemu.repair.ptx_text import Patch
from wsemu.repair.ptx_waits import round_starts

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
"""distance of barriers that are not aligned, if no branch separates the accesses"""
_ANY_BARRIER = "barrier.sync 0;"
_PLAIN = re.compile(r"(ld|st)\.global\.([bsuf](?:32|64)\b)")
_UPDATE = re.compile(
    r"st\.(?P<space>shared|global)\.(?P<type>[bsuf](?:32|64))\s+(?P<at>\[[^\]]+\]),\s*(?P<value>%\w+);"
)
_STORE = re.compile(r"st\.|stmatrix|cp\.async\.c[ag]|red\.|atom\.")
_NAMED = re.compile(r"((?:bar|barrier)(?:\.cta)?\.(?:sync|arrive|red)\S*)\s+([%\w]+),\s*([%\w]+);")
_BRANCH = re.compile(r"bra(?:\.uni)?\s+(\S+);")
_FIRST_WAIT = re.compile(
    r"warps? (?P<first>\d+)(?:[ -]+(?:to )?(?P<last>\d+))? waits?: "
    r"barrier (?P<id>\d+) generation 0 has \d+ of (?P<count>\d+)"
)
"""a wait for the first generation of a named barrier"""
_IDS = re.compile(r"\bbarrier (\d+)")
_COUNTS = re.compile(r"\b(\d[\d,]*)\b")
_RACES = frozenset("race intra-warp-race uninitialized-read proxy barrier-recycling phase-alias".split())
_OF_NAMED = frozenset(
    "count-mismatch oversubscribed barrier-recycling all-arrive deadlock dangling-arrive race".split()
)
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
    if _OF_NAMED & codes:
        yield from _named_edits(kernel)
        yield from _lone_barrier_edits(kernel)
        yield from _first_arrive_edits(kernel)
    yield from _cluster_edits(kernel)


# -- fences ------------------------------------------------------------------------------------------------------------
def _fence_edits(kernel: Kernel) -> Iterator[Scored]:
    """A fence before an atomic that publishes stores, one after an atomic that is read before loads, or both."""
    if "race" not in kernel.codes:
        return
    atomics = _statements([p for p in kernel.text.places if _ATOMIC.match(p.text)])
    fence = "fence.acq_rel.gpu;"
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
        lacks = not any(places[0].at - _NEAR < at < places[-1].at + _NEAR for at in fenced)
        late = 0.3 * (not lacks)  # behind the barriers between the stores and the fence
        yield score_edit(0.05 + late, "insert", f"insert `__threadfence()` before {where}", before, 1)
        yield score_edit(0.1 + late, "insert", f"insert `__threadfence()` after {where}", after, 1)
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
    """Instructions by the statement that they are of."""
    found: dict[object, list[Place]] = {}
    for place in places:
        found.setdefault((place.spot, place.text.split()[0]), []).append(place)
    return [*found.values()]


def _follows(kernel: Kernel, place: Place) -> int:
    """The line before which something is put that comes after an instruction, and after a loop that polls with it."""
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


# -- barriers ----------------------------------------------------------------------------------------------------------
def _outer_barrier_edits(kernel: Kernel) -> Iterator[Scored]:
    """A barrier before the branch around what a finding names, and at the end of it, for all threads pass there."""
    labels = _block_labels(kernel)
    hot = [p for p in kernel.text.places if (p.file, p.line) in kernel.hot and _ACCESS.match(p.text)]
    found: dict[int, tuple[Place, int]] = {}
    for place in hot:
        for other in reversed([p for p in kernel.text.places if p.at < place.at]):
            target = m[1] if (m := _BRANCH.match(other.text)) and other.predicate else ""
            if labels.get(target, -1) > place.at:
                found.setdefault(other.at, (other, labels[target]))
                break
    for n, (branch, label) in enumerate([*found.values()][: 2 * _MOST]):
        where = kernel.source.where(branch)
        warp = "intra-warp-race" in kernel.codes
        for k, (what, words) in enumerate((("bar.sync 0;", "__syncthreads()"), ("bar.warp.sync -1;", "__syncwarp()"))):
            if k and not warp:
                continue
            near = 0.3 + 0.05 * n + 0.3 * k
            patch = Patch(kernel.text).before(branch.at, what)
            yield score_edit(near, "insert", f"insert `{words}` before the branch of {where}", patch, 1)
            following = next((p for p in kernel.text.places if p.at > label), None)
            if following is not None:
                patch = Patch(kernel.text).before(following.at, what)
                says = f"insert `{words}` after the branch of {where}"
                yield score_edit(near + 0.02, "insert", says, patch, 1)


def _line_barrier_edits(kernel: Kernel) -> Iterator[Scored]:
    """Insert a barrier after each copy of a source line, or also before each copy of a later line.

    The compiler may have copied the lines to the paths of a branch, so the barrier is not an aligned one.
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
    """Return whether each atomic has a fence near it: what publishes a store may then lack a barrier."""
    atomics = [p.at for p in kernel.text.places if _ATOMIC.match(p.text)]
    fences = [p.at for p in kernel.text.places if p.text.startswith(("fence", "membar"))]
    return bool(atomics) and all(any(abs(at - other) < _NEAR for other in fences) for at in atomics)


def _paths_differ(kernel: Kernel, places: list[Place]) -> bool:
    """Return whether instructions are on different paths of a branch: an unconditional one separates two of them."""
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


def _named_edits(kernel: Kernel) -> Iterator[Scored]:
    """Another count or number of a named barrier, whose operands may be registers."""
    uses = [(p, m) for p in kernel.text.places if (m := _NAMED.match(p.text))]
    groups: dict[object, list[tuple[Place, re.Match[str]]]] = {}
    for place, match in uses:
        groups.setdefault((place.spot, match[1], match[3]), []).append((place, match))
    counts = [kernel.registers.number(match[3]) for _, match in uses]
    said = "\n".join(f.message for f in kernel.report.findings[:12])
    numbers = [int(n.replace(",", "")) for n in _COUNTS.findall(said)]
    ids = sorted({int(n) for n in _IDS.findall(said)})
    for group in groups.values():
        (place, match), where = group[0], kernel.source.where(group[0][0])
        old = kernel.registers.number(match[3])
        near = 0.0 if (place.file, place.line) in kernel.hot else 0.4
        usual = [n for n in counts if n and n != old]
        others = dict.fromkeys([*usual, *(n for n in numbers if n and not n % WARP), kernel.threads])
        for n, new in enumerate(m for m in others if m != old and old is not None):
            patch = Patch(kernel.text)
            for p, m in group:
                patch.replace(p.at, f"{m[1]} {m[2]}, {new};")
            says = f"write the count `{new}` in place of `{old}` of `{match[1]}` in {where}"
            if len({m[2] for _, m in group}) == 1 and not match[2].startswith("%"):
                instead = f"in place of `{match[1]} {match[2]}, {old}`"
                says = f"write `{match[1]} {match[2]}, {new}` {instead} in {where}"
            yield score_edit(0.1 + near + 0.1 * n, "argument", says, patch)
        for total in dict.fromkeys([ids[0] + ids[-1], 2 * ids[0] + 1, 2 * ids[0] - 1] if ids else []):
            patch = Patch(kernel.text)
            for n, (p, m) in enumerate(group):
                patch.before(p.at, f".reg .b32 %wsemu_i{n};", f"sub.u32 %wsemu_i{n}, {total}, {m[2]};")
                patch.replace(p.at, f"{m[1]} %wsemu_i{n}, {m[3]};")
            low, high = sorted((total // 2, total - total // 2))
            says = f"use barrier {low} in place of {high}, and {high} in place of {low}, for `{match[1]}` in {where}"
            yield score_edit(0.4 + near, "argument", says, patch)


def _lone_barrier_edits(kernel: Kernel) -> Iterator[Scored]:
    """Insert the syncs or arrives that named barriers lack: in the rounds of threads that use other barriers, once all
    barriers of a ring have been used."""
    groups: dict[tuple[object, bool], list[tuple[Place, re.Match[str]]]] = {}
    for place in kernel.text.places:
        if match := _NAMED.match(place.text):
            groups.setdefault((place.spot, ".arrive" in match[1]), []).append((place, match))
    known = {key: _barrier_numbers(kernel, group) for key, group in groups.items()}
    for (spot, arrives), lone in groups.items():
        numbers, count = known[spot, arrives], kernel.registers.number(lone[0][1][3])
        matched = any(numbers & known[key] for key in groups if key[1] != arrives)
        if count is None or not numbers or matched:
            continue
        for (_, others_arrive), host in groups.items():
            if host is lone or arrives != others_arrive:
                continue
            for stages in dict.fromkeys((len(numbers), 2, 1, 3, 4)):
                first = min(numbers)
                patch = _lone_barrier_patch(kernel, [p for p, _ in host], not arrives, first, stages, count)
                what = "sync" if arrives else "arrive"
                names = f"barriers {first} to {first + stages - 1}" if stages > 1 else f"barrier {first}"
                where = kernel.source.where(host[0][0])
                turn = f"from round {stages} on" + (", in turn" if stages > 1 else "")
                says = f"insert `bar.{what}` on {names} for {count} threads in the loop around {where}, {turn}"
                yield score_edit(0.5 + 0.1 * (stages != len(numbers)), "insert", says, patch, 1)


def _first_arrive_edits(kernel: Kernel) -> Iterator[Scored]:
    """Insert a first arrive on a named barrier: by warps that wait on another one, so that a turn begins."""
    if "deadlock" not in kernel.codes:
        return
    waits = {
        (match["first"], match["last"] or match["first"], match["id"], match["count"]): site
        for finding in kernel.report.findings[:12]
        for site in finding.sites
        if (match := _FIRST_WAIT.search(site.text))
    }
    syncs = {p.spot: p for p in reversed(kernel.text.places) if (m := _NAMED.match(p.text)) and ".sync" in m[1]}
    for n, ((first, last, own, _), site) in enumerate(waits.items()):
        hosts = [p for p in syncs.values() if (p.file, p.line) == (site.file, site.line)]
        others = dict.fromkeys((other, count) for _, _, other, count in waits if other != own)
        for host in hosts:
            copies = [p for p in kernel.text.places if p.spot == host.spot and p.text == host.text]
            for k, (other, count) in enumerate(others):
                patch = Patch(kernel.text).declare(".reg .pred %wsemu_s;", "setp.ne.u32 %wsemu_s, 0, 0;")
                for number, place in enumerate(copies):
                    warp, far, label = f"%wsemu_w{number}", f"%wsemu_x{number}", f"$wsemu_begun{number}"
                    patch.before(
                        kernel.start(place), f".reg .b32 {warp};", f".reg .pred {far};", f"@%wsemu_s bra {label};",
                        "setp.eq.u32 %wsemu_s, 0, 0;", f"mov.u32 {warp}, %tid.x;", f"shr.u32 {warp}, {warp}, 5;",
                        f"sub.u32 {warp}, {warp}, {first};", f"setp.gt.u32 {far}, {warp}, {int(last) - int(first)};",
                        f"@{far} bra {label};", f"bar.arrive {other}, {count};", f"{label}:",
                    )  # fmt: skip
                who = f"warp {first}" if first == last else f"warps {first} to {last}"
                loops = kernel.loops_around(host)
                where = f"the loop around line {host.line}" if loops else kernel.source.where(host)
                says = f"insert `bar.arrive {other}, {count}` before {where}, by {who}"
                rounds = bool(loops) or len(copies) > 1  # else an arrive is more likely to come too late
                yield score_edit((0.3 if rounds else _LATE) + 0.02 * (n + k), "insert", says, patch, 1)


def _barrier_numbers(kernel: Kernel, group: list[tuple[Place, re.Match[str]]]) -> set[int]:
    """Return the known numbers of the barriers of a statement: constants, those that findings report for its lines, or
    the constant part of a computed number."""
    addresses = [kernel.registers.address(match[2]) for _, match in group]
    constants = {address.offset for address in addresses if not address.varies and not address.symbol}
    lines = {(place.file, place.line) for place, _ in group}
    sites = [
        site for finding in kernel.report.findings[:12] for site in finding.sites if (site.file, site.line) in lines
    ]
    reported = {int(number) for site in sites for number in _IDS.findall(site.text)}
    return constants or reported or {address.offset for address in addresses if address.offset}


def _lone_barrier_patch(kernel: Kernel, host: list[Place], arrives: bool, first: int, stages: int, count: int) -> Patch:
    """Return a sync or an arrive at the start of each round of a statement, except in the first rounds."""
    patch = Patch(kernel.text).declare(".reg .b32 %wsemu_n;", "mov.u32 %wsemu_n, 0;")
    for n, at in enumerate(round_starts(kernel, host)):
        number, early = f"%wsemu_i{n}", f"%wsemu_k{n}"
        patch.before(
            at, f".reg .b32 {number};", f".reg .pred {early};", f"rem.u32 {number}, %wsemu_n, {stages};",
            f"add.u32 {number}, {number}, {first};", f"setp.lt.u32 {early}, %wsemu_n, {stages};",
            "add.u32 %wsemu_n, %wsemu_n, 1;", f"@{early} bra $wsemu_early{n};",
            f"bar.{'arrive' if arrives else 'sync'} {number}, {count};", f"$wsemu_early{n}:",
        )  # fmt: skip
    return patch


# -- clusters ----------------------------------------------------------------------------------------------------------
def _cluster_edits(kernel: Kernel) -> Iterator[Scored]:
    """An arrive or a wait of the cluster's barrier that lacks the other one, and a whole one."""
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
    if {*kernel.codes} <= {"deadlock"}:  # a barrier more ends none
        return
    hot = [p for p in kernel.text.places if (p.file, p.line) in kernel.hot]
    gaps = dict.fromkeys(at for p in hot for at in (_branch_start(kernel, p), _follows_line(kernel, p)))
    owned = {p.at: p for p in kernel.text.places}
    for n, at in enumerate([*gaps][: 3 * _MOST]):
        patch = Patch(kernel.text).before(at, arrive, wait)
        says = f"insert `cluster.sync()` before {kernel.source.where(owned[at])}"
        yield score_edit(0.2 + 0.05 * n, "insert", says, patch, 1)


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
