"""Edits of waits and arrives in PTX: missing, misplaced, on the wrong ring, or executed by the wrong threads."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from wsemu.repair.ptx_kernel import WARP, is_label, score_edit
from wsemu.repair.ptx_numbers import parity_instructions, poll_start
from wsemu.repair.ptx_text import Patch
from wsemu.repair.rings import PHASES, UNINITIALIZED, arrive_instruction, remote_arrive_instruction, wait_instructions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wsemu.repair.ptx_kernel import Kernel, Scored
    from wsemu.repair.ptx_text import Place
    from wsemu.repair.rings import Operation, Ring

_READS = re.compile(r"(?:ld\.|wgmma\.mma|ldmatrix|tcgen05\.mma)")
_BRANCH = re.compile(r"bra\b")
_BARRIER = re.compile(r"bar(?:rier)?\.(?:cta\.)?sync|bar\.warp")
_OF_ARRIVERS = frozenset("over-arrival phase-alias phase-unobserved deadlock dangling-phase".split())
"""codes of arrivals by too many threads, or too few"""
_MAX_GAPS = 6
"""maximum number of positions at which a wait is inserted"""
_MAPS = re.compile(r"mapa\S*\s+(?P<there>[%\w]+),\s*(?P<local>[%\w]+),\s*[%\w]+;")
_RANKS = {1: "the next CTA of the cluster", -1: "the CTA before in the cluster", 0: "its own CTA"}
"""distance of a CTA in a cluster -> words"""
_STARTS = re.compile(r"(?:wgmma\.mma|cp\.async\.(?:ca|cg)|cp\.async\.bulk\S*bulk_group)")


def wait_edits(kernel: Kernel) -> Iterator[Scored]:
    """Yield all edits of this module; the likeliest have a distance below 1."""
    if kernel.uses.operations and PHASES & {*kernel.codes}:
        yield from _single_arrive_edits(kernel)
        yield from _missing_wait_edits(kernel)
        yield from _missing_arrive_edits(kernel)
        yield from _start_edits(kernel)
        yield from _release_edits(kernel)
        yield from _address_edits(kernel)
        yield from _init_barrier_edits(kernel)
        yield from _remote_arrive_edits(kernel)
        yield from _rank_edits(kernel)
    yield from _drain_edits(kernel)


def _shift_address(kernel: Kernel, at: str, source: Ring, target: Ring, name: str) -> tuple[list[str], str] | None:
    """Return instructions and the operand that they compute: the same stage of another ring."""
    wide = at.lstrip("[").startswith("%rd")
    kind, size = ("u64", "b64") if wide else ("u32", "b32")
    if source.symbol == target.symbol:
        steps = [f"add.{kind} {name}, {_base(at)}, {target.first - source.first + _offset(at)};"]
    elif wide:
        return None
    else:
        steps = [
            f"mov.u32 {name}, {source.symbol};",
            f"sub.u32 {name}, {_base(at)}, {name};",
            f"add.u32 {name}, {name}, {target.first - source.first + _offset(at)};",
            f".reg .b32 {name}_b;",
            f"mov.u32 {name}_b, {target.symbol};",
            f"add.u32 {name}, {name}, {name}_b;",
        ]
    return [f".reg .{size} {name};", *steps], name


def _base(at: str) -> str:
    return at.partition("+")[0].strip()


def _offset(at: str) -> int:
    return int(at.partition("+")[2] or 0)


def _guard_lines(place: Place, label: str, lines: Iterable[str]) -> list[str]:
    """Return instructions with the predicate of another one."""
    if not place.predicate:
        return [*lines]
    guard = place.predicate
    opposite = "@" + guard[2:] if guard.startswith("@!") else "@!" + guard[1:]
    return [f"{opposite} bra {label};", *lines, f"{label}:"]


def _missing_wait_edits(kernel: Kernel) -> Iterator[Scored]:
    """Insert a wait on a ring that has no wait, or none near a finding.  It goes before operations on another ring of
    equal length, to the start of their rounds, or before reads that a finding names."""
    waited = {op.ring for op in kernel.uses.all("wait")}
    for target in kernel.uses.known:
        if not target.stages:
            continue
        for op in kernel.uses.all("expect", "copy", "arrive"):
            source = op.ring
            if source is None or source.stages != target.stages or (source is target and target in waited):
                continue
            far = 0.0 if target not in waited or not _has_wait_in_loop(kernel, target, op) else 1.2
            near = far + kernel.distance(op) + 0.15 * (op.what != "expect") + 0.1 * (source is target)
            gaps = [place.at for place in op.places], round_starts(kernel, op.places)
            for n, places in enumerate(gaps):
                if n and op.what != "arrive":
                    continue
                begin = "in the loop around" if n else "before"
                yield from _insert_waits(
                    kernel, target, places, f"{begin} {kernel.source.where(op.place)}", near - 0.1 * n
                )
        for read in _hot_reads(kernel) if target not in waited else ():
            yield from _insert_waits(
                kernel, target, [p.at for p in read], f"before {kernel.source.where(read[0])}", -0.1
            )


def _has_wait_in_loop(kernel: Kernel, target: Ring, op: Operation) -> bool:
    """Return whether the loop around an operation waits on a ring; also true without a loop around it."""
    loops = kernel.loops_around(op.place)
    waits = [place.at for wait in kernel.uses.select(target, "wait") for place in wait.places]
    return not loops or any(loops[0].first < at < loops[0].last for at in waits)


def _insert_waits(kernel: Kernel, target: Ring, gaps: list[int], where: str, near: float) -> Iterator[Scored]:
    """Insert waits for each stage of a ring in turn, with either parity in the first round."""
    owned = {place.at: place for place in kernel.text.places}
    guess = 1 if any(op.what == "expect" and op.ring is not target for op in kernel.uses.all("expect")) else 0
    guess = guess if target not in {op.ring for op in kernel.uses.all("copy")} else 0
    for first in (guess, 1 - guess):
        patch = Patch(kernel.text).declare(".reg .b32 %wsemu_n;", "mov.u32 %wsemu_n, 0;")
        for n, at in enumerate(gaps):
            stage, parity, done = f"%wsemu_a{n}", f"%wsemu_r{n}", f"%wsemu_p{n}"
            lines = [
                f".reg .b32 {stage};", f".reg .b32 {parity};", f".reg .pred {done};",
                f"rem.u32 {stage}, %wsemu_n, {target.stages};", f"shl.b32 {stage}, {stage}, 3;",
                f"mov.u32 {parity}, {target.symbol};", f"add.u32 {stage}, {stage}, {parity};",
                f"add.u32 {stage}, {stage}, {target.first};", *parity_instructions(parity, target.stages, first),
                *wait_instructions(stage, parity, done, f"$wsemu_wait{n}"),
            ]  # fmt: skip
            place = owned.get(at)
            patch.before(at, *(_guard_lines(place, f"$wsemu_skip{n}", lines) if place is not None else lines))
        turn = f"round of the {target.stages} stages" if target.stages > 1 else "wait"
        parities = f"{first}, {1 - first}, {first}, ..."
        says = f"insert a wait on {kernel.name(target)} {where}, with parity {parities}, alternating after each {turn}"
        yield score_edit(0.3 + near + 0.1 * (first != guess), "insert", says, patch, 1)


def _hot_reads(kernel: Kernel) -> Iterator[list[Place]]:
    """Yield the first reads of each source line that a finding names: one for each copy of the line."""
    found: dict[object, dict[int, Place]] = {}
    for place in kernel.text.places:
        if _READS.match(place.text) and (place.file, place.line) in kernel.hot:
            found.setdefault(place.spot, {}).setdefault(place.run, place)
    yield from ([*runs.values()] for runs in found.values())


def _missing_arrive_edits(kernel: Kernel) -> Iterator[Scored]:
    """Insert an arrive on a ring that has waits: at the end of each round of the threads that wait on another ring."""
    given = {op.ring for op in kernel.uses.all("arrive", "expect")}
    waits = [op for op in kernel.uses.all("wait") if op.ring is not None]
    for target in kernel.uses.known:
        lacking = target not in given
        if not lacking and not ("deadlock" in kernel.codes and target in kernel.hot_rings):
            continue
        for op in waits:
            source = op.ring
            assert source is not None
            if source is target or source.stages != target.stages or not target.stages:
                continue
            near = 0.3 + (0.1 if lacking else 1.0) * kernel.distance(op) + (0.0 if lacking else 0.9)
            for n, (guard, who) in enumerate(_arriving(kernel, target)):
                for k, (rank, whose) in enumerate(_ranks(kernel)):
                    patch = _with_arrive(kernel, op, source, target, guard, rank)
                    if patch is not None:
                        end = f"after the last use of the data that line {op.place.line} waits for"
                        says = f"insert an arrive on {kernel.name(target)}{whose} {end}, by {who}"
                        yield score_edit(near + 0.2 * n + 0.1 * k, "insert", says, patch, 1)


def _ranks(kernel: Kernel) -> Iterator[tuple[str, str]]:
    """Yield the CTAs on whose rings threads may arrive: a register with the rank, and words."""
    yield "", ""
    if kernel.ranks:
        yield kernel.ranks[0], " of the other CTA"
    if kernel.has_cluster:
        yield "%laneid", " of each CTA of the cluster"


def _arriving(kernel: Kernel, ring: Ring) -> Iterator[tuple[str, str]]:
    """Yield candidates for the threads that a count includes: a register that is 0 in them, and words."""
    count = ring.count or 0
    if count == 1:
        yield "%tid.x", "thread 0"
        yield "%laneid", "one lane"
    elif count <= WARP and count < kernel.threads and count != WARP:
        yield "%laneid", "one lane of each warp"
        yield "", "each thread"
    else:
        yield "", "each thread"
        yield "%laneid", "one lane of each warp"


def round_ends(kernel: Kernel, copies: Sequence[Place]) -> list[int]:
    """Return for each copy of a statement the line that ends its round: the next copy, the branch that leaves the loop
    after the last read, or the end of the loop or block."""
    ends = []
    for n, place in enumerate(copies):
        loops = kernel.loops_around(place)
        last = kernel.exit_branch(loops[0], place) if loops else kernel.block_end(place)
        later = [kernel.start(p) for p in copies[n + 1 :] if p.at < last]
        ends.append(later[0] if later else last)
    return ends


def round_starts(kernel: Kernel, copies: Sequence[Place]) -> list[int]:
    """Return for each copy of a statement the line that begins its round: after the previous copy, or in the loop."""
    starts: list[int] = []
    for n, place in enumerate(copies):
        loops = kernel.loops_around(place)
        first = loops[0].first if loops else kernel.block_start(place)
        earlier = [p.at for p in copies[:n] if p.at > first]
        after = max(earlier, default=first)
        run = next((p.run for p in kernel.text.places if p.at == after), -1)
        starts.append(next(p.at for p in kernel.text.places if p.at > after and p.run != run))
    return starts


def _with_arrive(kernel: Kernel, op: Operation, source: Ring, target: Ring, guard: str, rank: str) -> Patch | None:
    """Insert arrives at the ends of the rounds of a wait, in the threads whose `guard` is 0, on the ring of CTA
    `rank`."""
    patch = Patch(kernel.text)
    for n, ((at, _), end) in enumerate(zip(op.operands, round_ends(kernel, op.places), strict=True)):
        made = _shift_address(kernel, at, source, target, f"%wsemu_a{n}")
        if made is None:
            return None
        steps, operand = made
        arrive = arrive_instruction(operand, at)
        if rank == "%laneid":
            steps, arrive = _arrive_on_each(steps, operand, n)
        elif rank:
            steps = [*steps, f"mapa.shared::cluster.u32 {operand}, {operand}, {rank};"]
            arrive = remote_arrive_instruction(operand)
        if guard and rank != "%laneid":
            steps = [*steps, f".reg .b32 %wsemu_g{n};", f".reg .pred %wsemu_h{n};", f"mov.u32 %wsemu_g{n}, {guard};",
                     f"setp.eq.u32 %wsemu_h{n}, %wsemu_g{n}, 0;", "bar.warp.sync -1;"]  # fmt: skip
            arrive = f"@%wsemu_h{n} {arrive}"
        patch.before(end, *steps, arrive)
    return patch


def _arrive_on_each(steps: list[str], operand: str, number: int) -> tuple[list[str], str]:
    """Return instructions with which the first lanes of a warp arrive on a ring, each in another CTA of the cluster."""
    lane, size, few = f"%wsemu_g{number}", f"%wsemu_s{number}", f"%wsemu_h{number}"
    more = [f".reg .b32 {lane};", f".reg .b32 {size};", f".reg .pred {few};", f"mov.u32 {lane}, %laneid;",
            f"mov.u32 {size}, %cluster_nctarank;", f"setp.lt.u32 {few}, {lane}, {size};", "bar.warp.sync -1;",
            f"@{few} mapa.shared::cluster.u32 {operand}, {operand}, {lane};"]  # fmt: skip
    return [*steps, *more], f"@{few} {remote_arrive_instruction(operand)}"


def _start_edits(kernel: Kernel) -> Iterator[Scored]:
    """Insert a first arrive on each stage of a ring, before the loop of the threads that release it."""
    if "deadlock" not in kernel.codes:
        return
    for target in kernel.hot_rings:
        releases = [op for op in kernel.uses.select(target, "arrive") if kernel.is_hot(op)]
        waits = [op for op in kernel.uses.all("wait") if op.ring is not target and kernel.is_hot(op)]
        for release in releases:
            nearest = sorted(waits, key=lambda op: abs(op.place.at - release.place.at))[:1]
            for op in nearest if target.stages else ():
                loops = kernel.loops_around(op.place)
                begin = kernel.start(op.place)
                where = f"before {kernel.source.where(op.place)}"
                if loops:
                    where = f"before the loop around line {op.place.line}"
                arrives = [
                    arrive_instruction(f"{target.symbol}+{target.first + 8 * n}", target.symbol)
                    for n in range(target.stages)
                ]
                lines = ["@%wsemu_s bra $wsemu_started;", *arrives, "setp.eq.u32 %wsemu_s, 0, 0;", "$wsemu_started:"]
                declared = (".reg .pred %wsemu_s;", "setp.ne.u32 %wsemu_s, 0, 0;")
                patch = Patch(kernel.text).declare(*declared).before(begin, *lines)
                each = "each of " if target.stages > 1 else ""
                says = f"insert a first arrive on {each}{kernel.name(target)} {where}"
                yield score_edit(0.35, "insert", says, patch, 1)


def _single_arrive_edits(kernel: Kernel) -> Iterator[Scored]:
    """Make one lane arrive instead of all lanes or of one thread, or all threads instead of one lane."""
    for op in kernel.uses.all("arrive"):
        if op.place.predicate or not op.is_of_thread:
            continue
        near, where = kernel.distance(op), kernel.source.where(op.place)
        lifted = _remove_guard(kernel, op)
        if _OF_ARRIVERS & {*kernel.codes}:
            says = f"arrive in one lane of each warp in {where}, after `__syncwarp()`"
            yield score_edit(
                0.5 + near, "guard", says, _arrive_by_thread(kernel, op, Patch(kernel.text), "%laneid"), -1
            )
        if lifted is None:
            continue
        yield score_edit(0.7 + near, "unguard", f"arrive in each thread in {where}", lifted, 1)
        if "deadlock" in kernel.codes:
            says = f"arrive in one lane of each warp in {where}, not in one thread"
            patch = _remove_guard(kernel, op)
            assert patch is not None
            yield score_edit(0.2 + 0.3 * near, "unguard", says, _arrive_by_thread(kernel, op, patch, "%laneid"), 1)
        if kernel.has_cluster and (locals_ := _local_addresses(kernel, op)):
            for n, (thread, who) in enumerate((("%laneid", "lane r of each warp"), ("%tid.x", "thread r"))):
                patch = _remove_guard(kernel, op)
                assert patch is not None
                assert op.ring is not None
                says = f"in {where} arrive from {who} on {kernel.name(op.ring)} of CTA r of the cluster"
                yield score_edit(
                    0.3 + 0.1 * n + 0.3 * near,
                    "unguard",
                    says,
                    _arrive_by_thread(kernel, op, patch, thread, locals_),
                    1,
                )


def _arrive_by_thread(kernel: Kernel, op: Operation, patch: Patch, thread: str, locals_: Sequence[str] = ()) -> Patch:
    """Arrive in the thread whose number is 0; with `locals_`, in thread r on the ring of CTA r."""
    for n, place in enumerate(op.places):
        number, other, size = f"%wsemu_l{n}", f"%wsemu_q{n}", f"%wsemu_s{n}"
        patch.before(kernel.start(place), "bar.warp.sync -1;")
        compare = [f"setp.ne.u32 {other}, {number}, 0;"]
        if locals_:
            compare = [
                f".reg .b32 {size};",
                f"mov.u32 {size}, %cluster_nctarank;",
                f"setp.ge.u32 {other}, {number}, {size};",
            ]
        patch.before(place.at, f".reg .b32 {number};", f".reg .pred {other};", f"mov.u32 {number}, {thread};", *compare,
                     f"@{other} bra $wsemu_one{n};")  # fmt: skip
        if locals_:
            patch.before(place.at, f"mapa.shared::cluster.u32 {number}, {locals_[n]}, {number};")
            patch.replace(place.at, remote_arrive_instruction(number))
        patch.after(place.at, f"$wsemu_one{n}:")
    return patch


def _local_addresses(kernel: Kernel, op: Operation) -> list[str]:
    """Return, for each copy of an arrive, the address in its own CTA; empty if it is unknown."""
    if op.is_local_arrive:
        return [at for at, _ in op.operands] if op.ring is not None else []
    maps = [(place, match) for place in kernel.text.places if (match := _MAPS.match(place.text))]
    found = [
        next((m["local"] for p, m in reversed(maps) if p.at < place.at and m["there"] == at), "")
        for place, (at, _) in zip(op.places, op.operands, strict=True)
    ]
    return found if all(found) and op.ring is not None else []


def _remove_guard(kernel: Kernel, op: Operation) -> Patch | None:
    """Remove the branch around an arrive; return None if there is none in its line."""
    patch = Patch(kernel.text)
    index = {place.at: n for n, place in enumerate(kernel.text.places)}
    for place in op.places:
        before = [p for p in kernel.text.places[max(index[place.at] - 6, 0) : index[place.at]] if p.predicate]
        branch = next((p for p in reversed(before) if _BRANCH.match(p.text)), None)
        if branch is None or not _is_guard(kernel, branch, place):
            return None
        patch.delete(branch.at)
    return patch


def _is_guard(kernel: Kernel, branch: Place, place: Place) -> bool:
    """Return whether a branch is of the statement of an instruction, or in PTX without source lines leads past it."""
    if (branch.file, branch.line) == (place.file, place.line):
        return True
    after = next((line.strip() for line in kernel.text.lines[place.at + 1 :] if line.strip()), "")
    return branch.file == place.file == kernel.text.path and after == f"{branch.text.split()[-1].rstrip(';')}:"


def _release_edits(kernel: Kernel) -> Iterator[Scored]:
    """Move an arrive to the end of its round, after the reads of the buffer."""
    if not {"race", "phase-alias", "proxy-war", "proxy"} & {*kernel.codes}:
        return
    for op in kernel.uses.all("arrive"):
        waits = [w for w in kernel.uses.all("wait") if len(w.places) == len(op.places)]
        waits = [w for w in waits if all(a.at < b.at for a, b in zip(w.places, op.places, strict=True))]
        if not waits:
            continue
        wait = max(waits, key=lambda w: w.place.at)
        ends = round_ends(kernel, wait.places)
        for n, sync in enumerate((True, False)):
            patch = Patch(kernel.text)
            for k, (place, end) in enumerate(zip(op.places, ends, strict=True)):
                flag = f"%wsemu_m{k}"
                patch.declare(f".reg .pred {flag};", f"setp.ne.u32 {flag}, 0, 0;")
                patch.before(place.at, f"{place.predicate} setp.eq.u32 {flag}, 0, 0;".strip())
                patch.delete(place.at)
                patch.before(end, *["bar.warp.sync -1;"] * sync, f"@{flag} {place.text}", f"setp.ne.u32 {flag}, 0, 0;")
            words = "`__syncwarp()` and " if sync else ""
            says = f"move {words}the arrive of {kernel.source.where(op.place)} to the end of the loop around it"
            near = 0.0 if has_hot_reads(kernel, op.places, ends) else kernel.distance(op)
            yield score_edit(0.25 + near + 0.1 * n, "move", says, patch)


def has_hot_reads(kernel: Kernel, places: Sequence[Place], ends: Sequence[int]) -> bool:
    """Return whether a finding names a read between a statement and the end of its round."""
    reads = [p.at for p in kernel.text.places if _READS.match(p.text) and (p.file, p.line) in kernel.hot]
    return any(place.at < at < end for place, end in zip(places, ends, strict=True) for at in reads)


def _address_edits(kernel: Kernel) -> Iterator[Scored]:
    """Change the ring on which an operation arrives, expects bytes, completes a copy or waits to another ring of equal
    length."""
    for op in kernel.uses.all("arrive", "expect", "copy", "wait"):
        source = op.ring
        for target in kernel.uses.known if source is not None else ():
            assert source is not None
            if target is source or target.stages != source.stages or not target.stages:
                continue
            patch = Patch(kernel.text)
            for n, (place, (at, _)) in enumerate(zip(op.places, op.operands, strict=True)):
                made = _shift_address(kernel, at, source, target, f"%wsemu_a{n}")
                if made is None:
                    break
                steps, operand = made
                patch.before(poll_start(kernel, place), *steps)
                head, _, tail = place.text.rpartition(f"[{at}]")
                patch.replace(place.at, f"{head}[{operand}]{tail}")
            else:
                verb = {"arrive": "arrive on", "expect": "expect bytes on", "copy": "complete the copy on"}
                what = verb.get(op.what, "wait on")
                instead = f"in place of {kernel.name(source)}"
                says = f"{what} {kernel.name(target)} {instead} in {kernel.source.where(op.place)}"
                yield score_edit(0.75 + kernel.distance(op), "argument", says, patch)


def _init_barrier_edits(kernel: Kernel) -> Iterator[Scored]:
    """Insert a barrier of the CTA or of the cluster after the branch that initializes the rings."""
    inits = [place for op in kernel.uses.all("init") for place in op.places]
    if not inits or UNINITIALIZED not in kernel.codes:
        return
    last = max(place.at for place in inits)
    label = next((at for at in range(last, kernel.text.places[-1].at) if is_label(kernel.text.lines[at])), None)
    if label is None:
        return
    following = next(place for place in kernel.text.places if place.at > label)
    before = [place for place in kernel.text.places if inits[0].at <= place.at < label and place.line]
    latest = max(before, key=lambda place: (place.file == inits[0].file, place.line))
    for n, what in enumerate(("bar.sync 0;", "barrier.cluster.arrive.aligned;")):
        lines = [what, "barrier.cluster.wait.aligned;"] if n else [what]
        words = "`cluster.sync()`" if n else "`__syncthreads()`"
        says = f"insert {words} after {kernel.source.where(latest)}, where every thread passes"
        yield score_edit(0.0 + 0.5 * n, "insert", says, Patch(kernel.text).before(following.at, *lines), 1)


def _remote_arrive_edits(kernel: Kernel) -> Iterator[Scored]:
    """Arrive on the ring of another CTA of the cluster, whose rank the kernel computes elsewhere."""
    for op in kernel.uses.all("arrive") if kernel.ranks or kernel.has_cluster else ():
        if op.ring is None or not op.is_local_arrive:
            continue
        patch = Patch(kernel.text)
        for n, (place, (at, _)) in enumerate(zip(op.places, op.operands, strict=True)):
            rank = kernel.ranks[0] if kernel.ranks else "0"
            steps = (f".reg .b32 %wsemu_c{n};", f"mapa.shared::cluster.u32 %wsemu_c{n}, {at}, {rank};")
            patch.before(place.at, *steps)
            patch.replace(place.at, remote_arrive_instruction(f"%wsemu_c{n}"))
        says = f"arrive on {kernel.name(op.ring)} of the other CTA in {kernel.source.where(op.place)}"
        if kernel.ranks:
            yield score_edit(0.1 + kernel.distance(op), "argument", says, patch)
        patch = Patch(kernel.text)
        for n, (place, (at, _)) in enumerate(zip(op.places, op.operands, strict=True)):
            lane = f"%wsemu_c{n}"
            mapped = f"mapa.shared::cluster.u32 {lane}, {at}, {lane};"
            patch.before(place.at, f".reg .b32 {lane};", f"mov.u32 {lane}, %laneid;", mapped)
            patch.replace(place.at, remote_arrive_instruction(lane))
        says = (
            f"in {kernel.source.where(op.place)} arrive from lane r on {kernel.name(op.ring)} of CTA r: now all these "
            "arrivals go to their own CTA"
        )
        yield score_edit(0.2 + kernel.distance(op), "argument", says, patch)


def _rank_edits(kernel: Kernel) -> Iterator[Scored]:
    """Arrive on the ring of another CTA of the cluster: of a neighbor, or its own."""
    for op in kernel.uses.all("arrive"):
        if op.is_local_arrive or not op.is_of_thread or not (locals_ := _local_addresses(kernel, op)):
            continue
        for n, (step, words) in enumerate(_RANKS.items()):
            patch = Patch(kernel.text)
            for k, (place, (at, _), local) in enumerate(zip(op.places, op.operands, locals_, strict=True)):
                rank, size, there = f"%wsemu_k{k}", f"%wsemu_s{k}", f"%wsemu_c{k}"
                patch.before(
                    place.at, *(f".reg .b32 {name};" for name in (rank, size, there)),
                    f"mov.u32 {rank}, %cluster_ctarank;", f"mov.u32 {size}, %cluster_nctarank;",
                    f"add.u32 {rank}, {rank}, {size};", f"add.u32 {rank}, {rank}, {step};",
                    f"rem.u32 {rank}, {rank}, {size};", f"mapa.shared::cluster.u32 {there}, {local}, {rank};",
                )  # fmt: skip
                patch.replace(place.at, place.text.replace(f"[{at}]", f"[{there}]"))
            assert op.ring is not None
            says = f"arrive on {kernel.name(op.ring)} of {words} in {kernel.source.where(op.place)}"
            yield score_edit(0.12 + 0.3 * kernel.distance(op) + 0.01 * n, "argument", says, patch)


# -- drains ------------------------------------------------------------------------------------------------------------
def _drain_edits(kernel: Kernel) -> Iterator[Scored]:
    """Insert a wait for copies or `wgmma` before a barrier, an arrive or a read, if a finding names one of them."""
    if not {"race", "async-outlives-cta", "store-outlives-cta", "wgmma-register", "proxy"} & {*kernel.codes}:
        return
    hot = [p for p in kernel.text.places if (p.file, p.line) in kernel.hot and _STARTS.match(p.text)]
    for drain in dict.fromkeys(_drain_instruction(p.text) for p in hot):
        starts = [p.at for p in kernel.text.places if _STARTS.match(p.text) and _drain_instruction(p.text) == drain]
        for n, places in enumerate(_gaps_after(kernel, starts[0])):
            patch = Patch(kernel.text)
            for place in places:
                patch.before(kernel.start(place), drain)
            words, where = f"`{drain.rstrip(';')}`", kernel.source.where(places[0])
            yield score_edit(0.2 + 0.1 * n, "insert", f"insert {words} before {where}", patch, 1)
            late = [p for p in kernel.text.places if p.text == drain and p.run > places[-1].run]
            if len(late) == len(places) == 1 and kernel.loops_around(late[0]) == kernel.loops_around(places[0]):
                patch = Patch(kernel.text).before(kernel.start(places[0]), drain).replace(late[0].at, "")
                says = f"move {words} from {kernel.source.where(late[0])} to before {where}"
                yield score_edit(0.15 + 0.1 * n, "move", says, patch)


def _drain_instruction(text: str) -> str:
    """Return the wait for all asynchronous operations of an instruction's kind."""
    if text.startswith("wgmma"):
        return "wgmma.wait_group.sync.aligned 0;"
    return "cp.async.bulk.wait_group 0;" if text.startswith("cp.async.bulk") else "cp.async.wait_all;"


def _gaps_after(kernel: Kernel, first: int) -> list[list[Place]]:
    """Return barriers, arrives and reads after the first asynchronous operation, each with its copies."""
    found: dict[tuple[str, int, str], list[Place]] = {}
    arrives = {place.at for op in kernel.uses.all("arrive") if op.is_of_thread for place in op.places}
    for place in kernel.text.places:
        kind = place.text.split()[0]
        waits = _BARRIER.match(kind) or place.at in arrives
        if place.at > first and (waits or (_READS.match(place.text) and (place.file, place.line) in kernel.hot)):
            found.setdefault((place.file, place.line, kind), []).append(place)
    return [*found.values()][:_MAX_GAPS]
