"""Random programs that change tensor maps, with fences of the tensormap proxy here and there, and what PTX says of it.

A program has rounds, which barriers of all threads end; in each, each warp has steps by one of its first two lanes, or
by all of it.  In a round a map is either changed, by one thread alone, or used: nothing races.  What is said is
computed from the text (PTX ISA, "membar, fence", "Causality order") as reachability among the steps, without clocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

import wsemu

if TYPE_CHECKING:
    from random import Random

Engine = Literal["vm", "reference"]
SCOPES = ("cta", "cluster", "gpu", "sys")
MAPS = 2


class Step(NamedTuple):
    """What a lane of a warp does, or all of the warp does (lane -1)."""

    what: str
    lane: int = -1
    map: int = 0
    scope: str = "gpu"


class At(NamedTuple):
    """The position of a step: of two steps of a thread, the later one is greater."""

    round: int
    cta: int
    warp: int
    step: int


Program = list[list[list[list[Step]]]]
"""round, CTA, warp -> its steps"""


def map_program(r: Random) -> Program:
    """Return a program of one CTA, or of two that are a cluster."""
    ctas, warps = r.choice((1, 1, 2)), r.choice((1, 2))
    program: Program = []
    careful = r.choice((0, 0.5, 0.95, 1))
    for n in range(r.randint(2, 4)):
        changed = {
            m: (r.randrange(ctas), r.randrange(warps), r.randrange(2)) for m in range(MAPS) if not n or r.random() < 0.4
        }
        if not n:
            changed = dict.fromkeys(changed, (0, 0, 0))
        of_round: list[list[list[Step]]] = [[[] for _ in range(warps)] for _ in range(ctas)]
        for c in range(ctas):
            for w in range(warps):
                steps = of_round[c][w]
                if not n and c == w == 0:
                    steps += [Step("whole", 0, m) for m in range(MAPS)]
                    steps += [Step("release", 0, 0, r.choice(("cta", "gpu", "gpu")))] * (r.random() < 0.7)
                for _ in range(r.randint(1, 5)):
                    step = _step(r, c, w, changed, first=not n)
                    steps += [Step("syncwarp")] * (step.what == "publish")
                    steps += [step._replace(what="acquire")] * (step.what == "copy" and r.random() < careful)
                    steps.append(step)
                    steps += [step._replace(what="release")] * (
                        step.what in ("replace", "whole") and r.random() < careful
                    )
        program.append(of_round)
    return program


def _step(r: Random, c: int, w: int, changed: dict[int, tuple[int, int, int]], *, first: bool) -> Step:
    lane, m, scope = r.randrange(2), r.randrange(MAPS), r.choice(("cta", "gpu", "gpu", r.choice(SCOPES)))
    what = r.choice(("release", "release", "acquire", "acquire", "acquire", "copy", "copy", "copy", "change", "warp"))
    if what in ("acquire", "copy", "change"):
        if what == "change" and m not in changed:
            what = "copy"
        if m in changed:
            if changed[m][:2] != (c, w):
                return Step("release", lane, 0, scope)
            lane = changed[m][2]
    if what == "change":
        return Step(r.choice(("replace", "whole")), lane, m, scope)
    if what == "warp":
        if first and not (c == w == 0):
            return Step("syncwarp")
        if m in changed and changed[m][:2] == (c, w):
            return Step("publish", -1, m, scope)
        return Step("syncwarp")
    return Step(what, lane, m, scope)


# -- what PTX says -----------------------------------------------------------------------------------------------------


def precedes(program: Program, one: At, lane: int, other: At, other_lane: int) -> bool:
    """Return whether a step of a lane precedes one of a lane in base causality order."""
    if one.round != other.round:
        return one.round < other.round
    if one[:3] != other[:3] or one.step >= other.step:
        return False
    steps = program[one.round][one.cta][one.warp][one.step : other.step]
    return lane == other_lane or any(step.what in ("syncwarp", "publish") for step in steps)


def all_steps(program: Program) -> list[tuple[At, Step]]:
    return [
        (At(n, c, w, i), step)
        for n, of_round in enumerate(program)
        for c, of_cta in enumerate(of_round)
        for w, steps in enumerate(of_cta)
        for i, step in enumerate(steps)
    ]


def expected(program: Program) -> dict[At, str]:
    """Return the copies that need not see the change of their map -> whether a release is missing, or an acquire."""
    steps = all_steps(program)
    found = {}
    for at, copy in steps:
        if copy.what != "copy":
            continue
        lacks = [_lacks(program, steps, at, copy, word) for word in range(2)]
        missing = [what for what in reversed(lacks) if what]  # word 1 precedes word 0
        if missing:
            found[at] = missing[0]
    return found


_BY = {"replace": (0,), "whole": (0, 1), "publish": (0, 1)}
"""operation that changes a map -> the part that it changes: 0 for an extent, 1 for everything else"""


def _lacks(program: Program, steps: list[tuple[At, Step]], at: At, copy: Step, part: int) -> str:
    """Return what a part of a map lacks for a copy."""
    changes = [
        (by, step)
        for by, step in steps
        if part in _BY.get(step.what, ()) and step.map == copy.map
        and (by.round < at.round or (by[:3] == at[:3] and by.step < at.step))
    ]  # fmt: skip
    by, change = max(changes, key=lambda item: (item[0].round, item[0].step))
    lane = change.lane if change.what != "publish" else 8 * (1 - part)  # the lane that wrote its first byte

    def given(to: At, to_lane: int, scope: str) -> bool:
        """Return whether a release of the change precedes a thread of a CTA that acquires at a scope."""
        if change.what == "publish":
            fits = to.cta == by.cta or "cta" not in (scope, change.scope)
            if fits and precedes(program, by, lane, to, to_lane):
                return True
        return any(
            step.what == "release"
            and (where.cta == to.cta or "cta" not in (scope, step.scope))
            and precedes(program, by, lane, where, step.lane)
            and precedes(program, where, step.lane, to, to_lane)
            for where, step in steps
        )

    for where, step in steps:
        acquires = step.what == "acquire" and step.map == copy.map and where.cta == at.cta
        known = acquires and precedes(program, where, step.lane, at, copy.lane)
        if known and given(where, step.lane, step.scope):
            return ""
    return "acquired" if given(at, copy.lane, "gpu") else "released"


# -- as PTX ------------------------------------------------------------------------------------------------------------


def text(program: Program) -> tuple[str, dict[int, At]]:
    """Return the kernel, and line -> copy."""
    ctas, warps = len(program[0]), len(program[0][0])
    lines = [
        ".version 8.6", ".target sm_90a", ".address_size 64",
        ".visible .entry k(.param .align 64 .b8 map[128], .param .u64 room)",
        f".reqnctapercluster {ctas}, 1, 1", "{",
        ".reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>;",
        ".shared .align 128 .b8 own[128]; .shared .align 128 .b8 tile[128];",
        "mov.u64 %rd2, map; cvta.param.u64 %rd2, %rd2; ld.param.u64 %rd1, [room]; add.u64 %rd4, %rd1, 128;",
        "mov.u32 %r1, own; mov.u32 %r2, tile; mov.u32 %r3, %tid.x; shr.u32 %r4, %r3, 5; and.b32 %r3, %r3, 31;",
        "setp.eq.u32 %p0, %r3, 0; setp.eq.u32 %p1, %r3, 1; setp.ne.u32 %p3, %r4, 0; shl.b32 %r5, %r3, 2;",
        "cvt.u64.u32 %rd3, %r5; add.u64 %rd3, %rd3, %rd2; add.u32 %r6, %r1, %r5; add.u32 %r7, %r2, %r5;",
        "@%p3 bra MADE; ld.u32 %r8, [%rd3]; st.shared.u32 [%r6], %r8; st.shared.u32 [%r7], %r8; fence.proxy.async;",
        "MADE: bar.sync 0; mov.u32 %r8, %cluster_ctarank; mad.lo.u32 %r8, %r8, COUNT, %r4;",
    ]  # fmt: skip
    lines[-1] = lines[-1].replace("COUNT", str(warps))
    lines += [f"setp.eq.u32 %p4, %r8, {n}; @%p4 bra W{n};" for n in range(ctas * warps)]
    copies: dict[int, At] = {}
    row = 0
    for c in range(ctas):
        for w in range(warps):
            lines.append(f"W{c * warps + w}:")
            for n, of_round in enumerate(program):
                for i, step in enumerate(of_round[c][w]):
                    if step.what == "copy":
                        copies[len(lines) + 1] = At(n, c, w, i)
                        row += 1
                    lines += _instructions(step, row)
                lines.append(_BARRIER if ctas > 1 else "bar.sync 0;")
            lines.append("bra END;")
    return "\n".join([*lines, "END: ret;", "}", ""]), copies


_BARRIER = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"


def _instructions(step: Step, row: int) -> list[str]:
    map_ = f"[%rd{4 if step.map else 1}]"
    guard = f"@%p{step.lane} "
    if step.what == "release":
        return [f"{guard}fence.proxy.tensormap::generic.release.{step.scope};"]
    if step.what == "acquire":
        return [f"{guard}fence.proxy.tensormap::generic.acquire.{step.scope} {map_}, 128;"]
    if step.what == "replace":
        return [f"{guard}tensormap.replace.tile.global_dim.global.b1024.b32 {map_}, 1, 200;"]
    if step.what == "publish":
        kind = f"tensormap::generic.release.{step.scope}.sync.aligned"
        return [f"tensormap.cp_fenceproxy.global.shared::cta.{kind} {map_}, [%r1], 128;"]
    if step.what == "whole":
        words = [f"{guard}ld.b64 %rd5, [%rd2+{8 * q}]; {guard}st.b64 {map_[:-1]}+{8 * q}], %rd5;" for q in range(16)]
        return [" ".join(words)]
    if step.what == "copy":
        ends = f"{guard}cp.async.bulk.commit_group; {guard}cp.async.bulk.wait_group 0;"
        return [
            f"{guard}cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [{map_[1:-1]}, {{0, {row}}}], [%r2];",
            ends,
        ]
    return ["bar.warp.sync -1;"]


def check_maps(program: Program, engine: Engine) -> wsemu.Report:
    """Return wsemu's report on a program."""
    kernel = wsemu.load_ptx(text(program)[0]).only()
    goal, room = np.zeros((200, 4), np.float32), np.zeros(16 * MAPS, np.uint64)
    map_ = wsemu.TensorMap(goal, [1, 4])
    return wsemu.check(kernel, len(program[0]), 32 * len(program[0][0]), (map_, room), engine=engine)


class JudgedMaps(NamedTuple):
    """A program, the verdict, what is missing in it, and a complaint if wsemu disagrees with PTX."""

    program: Program
    verdict: str
    lacks: list[str]
    complaint: str


def judged_maps(program: Program, engine: Engine) -> JudgedMaps:
    """Compare a report with PTX: it must name exactly the copies that lack something."""
    wanted, report = expected(program), check_maps(program, engine)
    _, copies = text(program)
    told = {
        copies[next(site.line for site in finding.places if site.primary)]: (
            "released" if "not released" in finding.message else "acquired"
        )
        for finding in report.findings
        if finding.code == "tensormap-proxy"
    }
    others = {finding.code for finding in report.findings} - {"tensormap-proxy"}
    right = told == wanted and not others and report.verdict == ("failed" if wanted else "verified")
    complaint = "" if right else f"{engine}: {report.verdict}, {told}, {others}; PTX: {wanted}"
    return JudgedMaps(program, report.verdict, [*wanted.values()], complaint)
