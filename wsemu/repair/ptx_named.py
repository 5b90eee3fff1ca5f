"""Edits of named barriers in PTX: numbers, counts, missing syncs and arrives, and barriers of some of the warps."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from wsemu.repair.ptx_kernel import score_edit
from wsemu.repair.ptx_text import Patch
from wsemu.repair.ptx_waits import has_hot_reads, round_ends, round_starts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.repair.ptx_kernel import Kernel, Scored
    from wsemu.repair.ptx_text import Place

WARP = 32
_LATE = 2.8
"""distance of edits that seldom help"""
_NAMED = re.compile(r"((?:bar|barrier)(?:\.cta)?\.(?:sync|arrive|red)\S*)\s+([%\w]+),\s*([%\w]+);")
_FIRST_WAIT = re.compile(
    r"warps? (?P<first>\d+)(?:[ -]+(?:to )?(?P<last>\d+))? waits?: "
    r"barrier (?P<id>\d+) generation 0 has \d+ of (?P<count>\d+)"
)
"""a wait for the first generation of a named barrier"""
_IDS = re.compile(r"\bbarrier (\d+)")
_COUNTS = re.compile(r"\b(\d[\d,]*)\b")
_WHOLE = re.compile(r"bar(?:rier)?(?:\.cta)?\.sync(?:\.aligned)?\s+0;")
_BARRIERS, _GROUP = 16, 128
_COUNTS_TRIED = 4
"""maximum number of counts that are tried for a barrier"""
_STUCK = frozenset("deadlock barrier-divergence count-mismatch".split())
_EARLY = frozenset("race phase-alias proxy phase-unobserved".split())
"""codes of an arrive that speaks for threads which have not read yet"""
_MISCOUNTED = frozenset("deadlock count-mismatch oversubscribed all-arrive dangling-arrive".split())
_MISSING = frozenset("deadlock barrier-recycling all-arrive dangling-arrive".split())
_OF_NAMED = frozenset(
    "count-mismatch oversubscribed barrier-recycling all-arrive deadlock dangling-arrive race".split()
)


def named_edits(kernel: Kernel) -> Iterator[Scored]:
    """Yield all edits of this module."""
    if _OF_NAMED & {*kernel.codes}:
        yield from _number_edits(kernel)
        yield from _count_edits(kernel)
        yield from _lone_barrier_edits(kernel)
        yield from _first_arrive_edits(kernel)
        yield from _other_barrier_edits(kernel)
        yield from _late_arrive_edits(kernel)
    yield from _group_barrier_edits(kernel)


def _number_edits(kernel: Kernel) -> Iterator[Scored]:
    """Yield edits with another count or number of a named barrier, whose operands may be registers."""
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
        near += 0.0 if _MISCOUNTED & {*kernel.codes} else 0.4
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
        totals = [ids[0] + ids[-1]] if len(ids) > 1 else [2 * n + by for n in ids for by in (1, -1)]
        for total in (total for total in totals if total > 2):
            patch = Patch(kernel.text)
            for n, (p, m) in enumerate(group):
                patch.before(p.at, f".reg .b32 %wsemu_i{n};", f"sub.u32 %wsemu_i{n}, {total}, {m[2]};")
                patch.replace(p.at, f"{m[1]} %wsemu_i{n}, {m[3]};")
            low, high = sorted((total // 2, total - total // 2))
            says = f"use barrier {low} in place of {high}, and {high} in place of {low}, for `{match[1]}` in {where}"
            yield score_edit(0.4 + near, "argument", says, patch)


def _count_edits(kernel: Kernel) -> Iterator[Scored]:
    """Write another count wherever a barrier is used: all statements that use it may have the same mistake."""
    groups: dict[tuple[int, int], list[tuple[Place, re.Match[str]]]] = {}
    for place in kernel.text.places:
        if match := _NAMED.match(place.text):
            number, count = (kernel.registers.number(match[n]) for n in (2, 3))
            if number is not None and count is not None:
                groups.setdefault((number, count), []).append((place, match))
    for (number, old), group in groups.items():
        if len({place.spot for place, _ in group}) < 2:
            continue
        near = 0.0 if any((place.file, place.line) in kernel.hot for place, _ in group) else 0.4
        warps = range(WARP, kernel.threads + 1, WARP)
        for n, new in enumerate(sorted({*warps} - {old}, key=lambda new: abs(new - old))[:_COUNTS_TRIED]):
            patch = Patch(kernel.text)
            for place, match in group:
                patch.replace(place.at, f"{match[1]} {match[2]}, {new};")
            where = " and ".join(dict.fromkeys(kernel.source.where(place) for place, _ in group))
            says = f"write the count `{new}` in place of `{old}` of barrier {number} in {where}"
            yield score_edit(0.2 + near + 0.1 * n, "argument", says, patch)


def _lone_barrier_edits(kernel: Kernel) -> Iterator[Scored]:
    """Insert syncs or arrives that named barriers lack: in the rounds of threads that use other barriers, after they
    have used all barriers of a ring."""
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
                far = 0.5 if _MISSING & {*kernel.codes} else 0.9
                yield score_edit(far + 0.1 * (stages != len(numbers)), "insert", says, patch, 1)


def _first_arrive_edits(kernel: Kernel) -> Iterator[Scored]:
    """Insert a first arrive on a named barrier, in warps that wait on another one, so that a round can begin."""
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
                rounds = bool(loops) or len(copies) > 1  # otherwise the arrive is more likely to be too late
                yield score_edit((0.3 if rounds else _LATE) + 0.02 * (n + k), "insert", says, patch, 1)


def _barrier_numbers(kernel: Kernel, group: list[tuple[Place, re.Match[str]]]) -> set[int]:
    """Return the known numbers of the barriers of a statement: constants, numbers in findings on its lines, or the
    constant part of a computed number."""
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


def _other_barrier_edits(kernel: Kernel) -> Iterator[Scored]:
    """Use the barriers of another statement, whose numbers may be computed."""
    groups: dict[tuple[object, str, str], list[tuple[Place, re.Match[str]]]] = {}
    for place in kernel.text.places:
        if match := _NAMED.match(place.text):
            groups.setdefault((place.spot, match[1], match[3]), []).append((place, match))
    known = {key: _barrier_numbers(kernel, group) for key, group in groups.items()}
    for key, group in groups.items():
        bases = [min(numbers) for other, numbers in known.items() if other != key and numbers]
        first = min(known[key], default=0)
        far = 0.0 if any((p.file, p.line) in kernel.hot for p, _ in group) else 0.4
        arrives = ".arrive" in group[0][1][1]
        other_side = {min(v) for k, v in known.items() if v and (".arrive" in str(k[1])) != arrives}
        own_side = {min(v) for k, v in known.items() if v and (".arrive" in str(k[1])) == arrives}
        for n, base in enumerate(dict.fromkeys(b for b in bases if first and b != first)):
            near = far - 0.25 * (base in other_side - own_side)
            patch = Patch(kernel.text)
            for k, (place, match) in enumerate(group):
                number = f"%wsemu_i{k}"
                patch.before(place.at, f".reg .b32 {number};", f"add.u32 {number}, {match[2]}, {base - first};")
                patch.replace(place.at, f"{match[1]} {number}, {match[3]};")
            several = len(known[key]) > 1 or kernel.registers.address(group[0][1][2]).varies
            now, was = (
                f"the barriers from {number} on" if several else f"barrier {number}" for number in (base, first)
            )
            says = f"use {now} in place of {was} for `{group[0][1][1]}` in {kernel.source.where(group[0][0])}"
            yield score_edit(0.3 + near + 0.02 * n, "argument", says, patch)


def _late_arrive_edits(kernel: Kernel) -> Iterator[Scored]:
    """Move an arrive on a named barrier to the end of its round, after the reads that the barrier protects."""
    if not {"race", "barrier-recycling"} & {*kernel.codes}:
        return
    groups: dict[object, list[tuple[Place, re.Match[str]]]] = {}
    for place in kernel.text.places:
        if (match := _NAMED.match(place.text)) and ".arrive" in match[1]:
            groups.setdefault((place.spot, match[3]), []).append((place, match))
    for group in groups.values():
        places = [place for place, _ in group]
        patch = Patch(kernel.text)
        for n, ((place, match), end) in enumerate(zip(group, round_ends(kernel, places), strict=True)):
            flag, number = f"%wsemu_m{n}", f"%wsemu_i{n}"
            patch.declare(f".reg .pred {flag};", f".reg .b32 {number};", f"setp.ne.u32 {flag}, 0, 0;")
            patch.before(place.at, f"mov.u32 {number}, {match[2]};")
            patch.before(place.at, f"{place.predicate} setp.eq.u32 {flag}, 0, 0;".strip())
            patch.delete(place.at)
            patch.before(end, f"@{flag} {match[1]} {number}, {match[3]};", f"setp.ne.u32 {flag}, 0, 0;")
        near = 0.0 if has_hot_reads(kernel, places, round_ends(kernel, places)) else 0.3
        says = f"move `bar.arrive` of {kernel.source.where(places[0])} to the end of its round, after the last read"
        yield score_edit(0.2 + near, "move", says, patch)


def _group_barrier_edits(kernel: Kernel) -> Iterator[Scored]:
    """Yield edits that use a barrier of only some warps: instead of a barrier of the whole CTA, or before an arrive
    that represents these warps."""
    uses = [(m[2], kernel.registers.number(m[3])) for p in kernel.text.places if (m := _NAMED.match(p.text))]
    numbers = {kernel.registers.number(number) for number, _ in uses}
    unused = next((n for n in range(1, _BARRIERS) if n not in numbers), 1)
    arrived = {m[2] for p in kernel.text.places if (m := _NAMED.match(p.text)) and ".arrive" in m[1]}
    existing = [(kernel.registers.number(number), n) for number, n in uses if number not in arrived]
    sizes = (kernel.threads - WARP, kernel.threads // 2, kernel.threads - _GROUP, _GROUP)
    fresh = [(unused, n) for n in sizes if WARP < n < kernel.threads and n % WARP == 0]
    barriers = [*dict.fromkeys((n, count) for n, count in [*existing, *fresh] if n and count)]
    if _STUCK & {*kernel.codes}:
        whole = [p for p in kernel.text.places if _WHOLE.match(p.text)]
        for spot in dict.fromkeys(p.spot for p in whole):
            copies = [p for p in whole if p.spot == spot]
            near = 0.0 if any((p.file, p.line) in kernel.hot for p in copies) else 0.5
            for n, (number, count) in enumerate(barriers):
                patch = Patch(kernel.text)
                for place in copies:
                    patch.replace(place.at, f"bar.sync {number}, {count};")
                where = kernel.source.where(copies[0])
                says = f"write `bar.sync {number}, {count}` in place of `__syncthreads()` in {where}"
                yield score_edit(0.25 + near + 0.05 * n, "argument", says, patch)
    if _EARLY & {*kernel.codes}:
        for op in kernel.uses.all("arrive"):
            if not op.is_of_thread:
                continue
            for n, (number, count) in enumerate(fresh):
                patch = Patch(kernel.text)
                for place in op.places:
                    patch.before(kernel.statement_start(place), f"bar.sync {number}, {count};")
                where = f"{kernel.source.where(op.place)}, by all {count} threads that pass there"
                yield score_edit(
                    0.4 + 0.05 * n, "insert", f"insert `bar.sync {number}, {count}` before {where}", patch, 1
                )
