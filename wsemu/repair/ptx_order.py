"""Edits of barriers, named barriers, cluster barriers and fences in PTX."""

from __future__ import annotations

import linecache
import re
from typing import TYPE_CHECKING

from wsemu.repair.ptx_kernel import score_edit
from wsemu.repair.ptx_text import Patch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.repair.ptx_kernel import Kernel, Scored
    from wsemu.repair.ptx_text import Place

WARP = 32
_ATOMIC = re.compile(r"(?:atom|red)\.|(?:ld|st)\.(?:\w+\.)*(?:relaxed|acquire|release|volatile)|(?:ld|st)\.volatile")
_ACCESS = re.compile(r"(?:ld|st)\.|cp\.async|wgmma\.mma|ldmatrix|stmatrix")
_NAMED = re.compile(r"((?:bar|barrier)(?:\.cta)?\.(?:sync|arrive|red)\S*)\s+([%\w]+),\s*([%\w]+);")
_BRANCH = re.compile(r"bra(?:\.uni)?\s+(\S+);")
_IDS = re.compile(r"\bbarrier (\d+)")
_COUNTS = re.compile(r"\b(\d[\d,]*)\b")
_RACES = frozenset("race intra-warp-race uninitialized-read proxy barrier-recycling phase-alias".split())
_OF_NAMED = frozenset(
    "count-mismatch oversubscribed barrier-recycling all-arrive deadlock dangling-arrive race".split()
)
_MOST = 4
"""maximum number of statements that are tried"""


def order_edits(kernel: Kernel) -> Iterator[Scored]:
    """Yield all edits of this module."""
    codes = {*kernel.codes}
    if _RACES & codes:
        yield from _fence_edits(kernel)
        yield from _outer_barrier_edits(kernel)
    if _OF_NAMED & codes:
        yield from _named_edits(kernel)
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
        lacks = not any(places[0].at - 12 < at < places[-1].at + 12 for at in fenced)
        yield score_edit(0.05 + 0.2 * (not lacks), "insert", f"insert `__threadfence()` before {where}", before, 1)
        yield score_edit(0.1 + 0.2 * (not lacks), "insert", f"insert `__threadfence()` after {where}", after, 1)
        says = f"insert `__threadfence()` before and after {where}"
        yield score_edit(0.15 + 0.2 * (not lacks), "pair", says, both, 2)
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


# -- barriers ----------------------------------------------------------------------------------------------------------
def _outer_barrier_edits(kernel: Kernel) -> Iterator[Scored]:
    """A barrier before the branch around what a finding names, and at the end of it, for all threads pass there."""
    labels = {line.strip()[:-1]: at for at, line in enumerate(kernel.text.lines) if line.strip().endswith(":")}
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
    hot = [p for p in kernel.text.places if (p.file, p.line) in kernel.hot]
    gaps = dict.fromkeys(at for p in hot for at in (_branch_start(kernel, p), _follows_line(kernel, p)))
    owned = {p.at: p for p in kernel.text.places}
    for n, at in enumerate([*gaps][: 3 * _MOST]):
        patch = Patch(kernel.text).before(at, arrive, wait)
        says = f"insert `cluster.sync()` before {kernel.source.where(owned[at])}"
        yield score_edit(0.2 + 0.05 * n, "insert", says, patch, 1)


def _branch_start(kernel: Kernel, place: Place) -> int:
    """Return the line of the branch around an instruction, or of its statement."""
    labels = {line.strip()[:-1]: at for at, line in enumerate(kernel.text.lines) if line.strip().endswith(":")}
    for other in reversed([p for p in kernel.text.places if p.at < place.at]):
        target = m[1] if (m := _BRANCH.match(other.text)) and other.predicate else ""
        if labels.get(target, -1) > place.at:
            return other.at
    return kernel.start(place)


def _follows_line(kernel: Kernel, place: Place) -> int:
    """Return the line after the branch around an instruction, or after the instruction."""
    labels = {line.strip()[:-1]: at for at, line in enumerate(kernel.text.lines) if line.strip().endswith(":")}
    after = place.at
    for other in reversed([p for p in kernel.text.places if p.at < place.at]):
        target = m[1] if (m := _BRANCH.match(other.text)) and other.predicate else ""
        if labels.get(target, -1) > place.at:
            after = labels[target]
            break
    return next((p.at for p in kernel.text.places if p.at > after), kernel.text.places[-1].at)
