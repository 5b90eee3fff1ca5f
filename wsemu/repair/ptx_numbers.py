"""Edits of numbers in PTX: counts of arrivals, expected bytes, parities, and groups that may stay in flight."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from wsemu.repair.ptx_kernel import WARP, score_edit
from wsemu.repair.ptx_text import Patch
from wsemu.repair.rings import PHASES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.repair.ptx_kernel import Kernel, Scored
    from wsemu.repair.ptx_text import Place
    from wsemu.repair.rings import Operation, Ring

_GROUP = 128
"""the number of threads in a warpgroup, which usually arrive together"""
_ALIASED = frozenset(("over-arrival", "phase-alias"))
_GROUPS = re.compile(r"((?:cp\.async\.(?:bulk\.)?|wgmma\.)wait_group\S*\s+)(\d+);")


def number_edits(kernel: Kernel) -> Iterator[Scored]:
    """Yield all edits of this module; the likeliest have a distance below 1."""
    if kernel.uses.operations and PHASES & {*kernel.codes}:
        yield from _count_edits(kernel)
        yield from _parity_edits(kernel)
        yield from _byte_edits(kernel)
    yield from _group_edits(kernel)


def _replaced_number(kernel: Kernel, op: Operation, old: int, new: int, what: str) -> str:
    """Return the description of an edit that changes a number: that of the source line if the line contains the
    number."""
    place = kernel.named_place(op) if op.what == "init" else op.place
    where, line = kernel.source.where(place), kernel.source.statement(place)
    is_ptx = place.file == kernel.text.path
    parts = [part.strip() + ";" for part in line.rstrip(";").split(";")] if line else []
    calls = [part for part in parts if len(re.findall(rf"(?<![\w.]){old}(?![\w.])", part)) == 1]
    if len(calls) == 1 and not is_ptx:
        call = calls[0].strip("{} ")
        now = re.sub(rf"(?<![\w.]){old}(?![\w.])", str(new), call)
        return f"write `{now}` in place of `{call}` in {where}"
    return f"write {what} `{new}` in place of `{old}` in {where}" + (f", `{line}`" if line and not is_ptx else "")


def _with_number(patch: Patch, op: Operation, new: int) -> Patch:
    """Replace the last operand of an operation by a number."""
    for place, (at, value) in zip(op.places, op.operands, strict=True):
        head, tail = place.text.split(f"[{at}]", 1)
        patch.replace(place.at, f"{head}[{at}]{tail.replace(value, str(new), 1)}")
    return patch


def _count_edits(kernel: Kernel) -> Iterator[Scored]:
    """Change the count with which a ring is initialized."""
    others = [ring.count for ring in kernel.uses.known if ring.count]
    warps = -(-kernel.threads // WARP)
    for ring in kernel.uses.known:
        inits = kernel.uses.select(ring, "init")
        if ring.count is None or not inits:
            continue
        op, old = inits[0], ring.count
        likely = [n - lack for lack, n in kernel.numbers.lacks if n == old and lack < n]
        likely += [old + kernel.numbers.surplus] if kernel.numbers.surplus else []
        likely += _cluster_counts(kernel, ring, old) if _ALIASED & {*kernel.codes} else []
        groups = [n for n in (_GROUP, kernel.threads // 2, kernel.threads - _GROUP) if n > old]
        likely += groups if kernel.numbers.surplus and kernel.threads > _GROUP else []
        less = [*others, 2 * old, old - 1, old + 1, 1, WARP, kernel.threads, warps, warps - 1, kernel.threads - WARP,
                kernel.threads - WARP + 1, WARP + 1]  # fmt: skip
        for n, new in enumerate(dict.fromkeys([*likely, *less])):
            if new in (old, 0) or new < 0:
                continue
            score = kernel.distance(op) * (ring not in kernel.hot_rings) + 0.08 * n
            too_many = new > old and bool({"over-arrival", "phase-alias"} & {*kernel.codes})
            score += 0.0 if new in likely else 0.35 if too_many else 0.8
            patch = Patch(kernel.text)
            for init in inits:
                _with_number(patch, init, new)
            says = _replaced_number(kernel, op, old, new, "the count")
            lines = {kernel.named_place(init).line for init in inits}
            more = [str(line) for line in sorted(lines - {kernel.named_place(op).line})]
            yield score_edit(score, "argument", says + (f", and in line {', '.join(more)}" if more else ""), patch)


def _cluster_counts(kernel: Kernel, ring: Ring, old: int) -> list[int]:
    """Return counts of arrivals from all CTAs of a cluster: one thread each, as now, or their warps; empty if other
    CTAs do not arrive."""
    if all(op.is_local_arrive or not op.is_of_thread for op in kernel.uses.select(ring, "arrive")):
        return []
    size, warps = kernel.cluster_size(), -(-kernel.threads // WARP)
    return [size, old * size, (warps - 1) * size, warps * size] if size > 1 else []


def _byte_edits(kernel: Kernel) -> Iterator[Scored]:
    """Write another number of expected bytes."""
    expected = kernel.uses.all("expect")
    known = [kernel.registers.number(op.operands[0][1]) for op in expected]
    numbers = kernel.numbers
    for op, old in zip(expected, known, strict=True):
        if old is None:
            continue
        likely = [*kernel.transferred] + [old - n for n in numbers.missing] + [old + n for n in numbers.too_many]
        likely += [old + n for n in numbers.copied] if "async-outlives-cta" in kernel.codes else []
        likely += [2 * old] if {"tx-mismatch", "phase-alias"} & {*kernel.codes} else []
        less = [2 * old, old // 2, *(n for n in known if n), *numbers.copied, *(2 * n for n in numbers.copied),
                4 * old, old // 4]  # fmt: skip
        for n, new in enumerate(dict.fromkeys([*likely, *less])):
            if new != old and new > 0 and not new % 16:
                score = kernel.distance(op) + 0.08 * n + (0.0 if new in likely else 0.9)
                says = _replaced_number(kernel, op, old, new, "the expected bytes")
                yield score_edit(score, "argument", says, _with_number(Patch(kernel.text), op, new))


# -- parities ----------------------------------------------------------------------------------------------------------
def _parity_edits(kernel: Kernel) -> Iterator[Scored]:
    """Yield edits that wait for the other parity, or for a parity that flips after each round of a ring."""
    waits = [op for op in kernel.uses.all("wait") if ".parity" in op.place.text]
    for op in waits:
        near = kernel.distance(op)
        line = kernel.source.statement(op.place)
        quoted = f", `{line}`" if line and op.place.file != kernel.text.path else ""
        flipped = "xor it with 1 there, or start it at the other value"
        says = f"flip the parity of the wait in {kernel.source.where(op.place)}{quoted}: {flipped}"
        yield score_edit(0.15 + near, "argument", says, _with_parity(kernel, op, None))
        stages = op.ring.stages if op.ring is not None else 0
        for first in (0, 1) if stages else ():
            after = f"every {stages} waits" if stages > 1 else "each wait"
            nested = len(kernel.loops_around(op.place)) > 1
            across = ", and do not reset it when the outer loop begins a round" if nested else ""
            says = (
                f"flip the parity of the wait in {kernel.source.where(op.place)}{quoted}, after {after}, from {first}"
            )
            says += across
            yield score_edit(0.9 + near + 0.1 * first, "argument", says, _with_parity(kernel, op, first))
    for ring in kernel.hot_rings:
        both = [op for op in waits if op.ring is ring]
        if len(both) > 1:
            lines = " and ".join(str(op.place.line) for op in both)
            patch = Patch(kernel.text)
            for op in both:
                _with_parity(kernel, op, None, patch)
            yield score_edit(0.6, "argument", f"flip the parity of the waits in lines {lines}", patch)


def _with_parity(kernel: Kernel, op: Operation, first: int | None, patch: Patch | None = None) -> Patch:
    """Return a patch that waits for the other parity, or for a parity computed from the number of waits."""
    patch = patch or Patch(kernel.text)
    if first is not None and op.ring is not None:
        patch.declare(".reg .b32 %wsemu_n;", ".reg .b32 %wsemu_q;", "mov.u32 %wsemu_n, 0;")
    for n, (place, (at, value)) in enumerate(zip(op.places, op.operands, strict=True)):
        register = f"%wsemu_f{op.place.at}_{n}"
        begin = poll_start(kernel, place)
        if first is None:
            patch.before(begin, f".reg .b32 {register};", f"xor.b32 {register}, {value}, 1;")
        else:
            assert op.ring is not None
            patch.before(begin, f".reg .b32 {register};", *parity_instructions(register, op.ring.stages, first))
        head, tail = place.text.split(f"[{at}]", 1)
        patch.replace(place.at, f"{head}[{at}]{tail.replace(value, register, 1)}")
    return patch


def parity_instructions(register: str, stages: int, first: int) -> list[str]:
    """Return instructions that compute the parity of a round, and count the round."""
    return [
        f"div.u32 {register}, %wsemu_n, {stages};",
        f"and.b32 {register}, {register}, 1;",
        f"xor.b32 {register}, {register}, {first};",
        "add.u32 %wsemu_n, %wsemu_n, 1;",
    ]


def poll_start(kernel: Kernel, place: Place) -> int:
    """Return the position before the polling loop around an instruction; if it is in no such loop, the instruction's
    own position."""
    around = [loop for loop in kernel.loops if loop.first < place.at < loop.last and kernel.polls(loop)]
    return max((loop.first for loop in around[-1:]), default=place.at)


# -- groups ------------------------------------------------------------------------------------------------------------
def _group_edits(kernel: Kernel) -> Iterator[Scored]:
    """Yield edits that let fewer groups of copies or of `wgmma` stay in flight."""
    found: dict[tuple[str, int, str], list[Place]] = {}
    for place in kernel.text.places:
        if _GROUPS.match(place.text):
            found.setdefault((place.file, place.line, place.text), []).append(place)
    for (_, _, text), places in found.items():
        match = _GROUPS.match(text)
        assert match is not None
        most = int(match[2])
        for n in dict.fromkeys((most - 1, 0)) if most else ():
            patch = Patch(kernel.text)
            for place in places:
                patch.replace(place.at, f"{match[1]}{n};")
            now = f"{match[1].strip()} {n}"
            says = f"write `{now}` in place of `{text.rstrip(';')}` in {kernel.source.where(places[0])}"
            yield score_edit(0.1 + 0.2 * (n != most - 1), "argument", says, patch, 1)
