"""Name mbarriers, asynchronous operations and their issuers in findings; a helper, not a checker of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.evidence.places import lanes_text
from wsemu.evidence.readings import culprit
from wsemu.evidence.source_view import CUDA
from wsemu.model.effects import effects_of
from wsemu.model.finding import Finding
from wsemu.model.isa import EXPECT, FIELDS, NAMES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wsemu.evidence.places import Places
    from wsemu.model.finding import Site
    from wsemu.model.outcome import RawFinding

_AUX = FIELDS.index("aux")
_EXPECTING = ("mbarrier.expect_tx", "mbarrier.arrive")
"""operations that expect bytes: the first always, the second with `expect_tx`"""
_PYTHON = {
    "fence.proxy.async": "fence_proxy_async",
    "fence.proxy.async.global": "fence_proxy_async_global",
    "fence.proxy.async.shared::cta": "fence_proxy_async_shared_cta",
    "fence.mbarrier_init": "fence_mbarrier_init",
    "mbarrier.init": "mbarrier_init",
    "mbarrier.inval": "mbarrier_inval",
    "mbarrier.arrive": "mbarrier_arrive",
    "mbarrier.arrive.expect_tx": "mbarrier_arrive_expect_tx",
    "mbarrier.arrive.shared::cluster": "mbarrier_arrive_cluster",
    "barrier.cluster": "cluster_sync",
    "mbarrier.arrive_drop": "mbarrier_arrive_drop",
    "mbarrier.expect_tx": "mbarrier_expect_tx",
    "mbarrier.try_wait": "mbarrier_wait",
    "mbarrier.try_wait.parity": "mbarrier_wait_parity",
    "cp.async.wait_all": "cp_async_wait_all",
    "cp.async.commit_group": "cp_async_commit_group",
    "cp.async.wait_group": "cp_async_wait_group",
    "cp.async.bulk.commit_group": "cp_async_bulk_commit_group",
    "cp.async.bulk.wait_group": "cp_async_bulk_wait_group",
    "cp.async.bulk.wait_group.read": "cp_async_bulk_wait_group_read",
    "cp.async.mbarrier.arrive": "cp_async_mbarrier_arrive",
    "cp.async.mbarrier.arrive.noinc": "cp_async_mbarrier_arrive_noinc",
    "setmaxnreg.inc": "setmaxnreg_inc",
    "setmaxnreg.dec": "setmaxnreg_dec",
    "elect.sync": "elect_sync",
    "bar.sync 0": "cuda.syncthreads",
    "grid.sync": "cuda.cg.this_grid().sync",
    "bar.warp.sync": "cuda.syncwarp",
}
"""PTX instruction -> function of Python kernels"""
_CUDA = {
    "bar.sync 0": "__syncthreads()",
    "barrier.cluster": "cooperative_groups::this_cluster().sync()",
    "grid.sync": "cooperative_groups::this_grid().sync()",
    "bar.warp.sync": "__syncwarp()",
}
"""PTX instruction -> function of CUDA C++; all others need `asm`"""


def operation(places: Places, pc: int) -> str:
    """Return an instruction's operation without its type: `mbarrier.wait`, `cp.async`."""
    return places.operation(pc)


def full_name(places: Places, pc: int) -> str:
    """Return an instruction's operation with its type: `mbarrier.wait.parity`."""
    return NAMES[int(places.program.code[pc, 0])]


def noun(places: Places, pc: int) -> str:
    """Return the noun for an instruction: `bulk copy`, `arrive`."""
    return effects_of(operation(places, pc)).noun or places.verb(pc)


def with_article(words: str) -> str:
    return f"{'an' if words[:1] in 'aeiou8' else 'a'} {words}"


def spell_instruction(places: Places, pc: int, instruction: str, arguments: str = "") -> str:
    """Return an instruction as the source language at `pc` spells it: `ptx.fence_proxy_async()`, `__syncwarp()` or
    `fence.proxy.async`."""
    if places.span(pc).file.endswith(CUDA):
        return f"`{_CUDA.get(instruction, instruction)}`"
    if not places.span(pc).file.endswith(".py") or instruction not in _PYTHON:
        return f"`{instruction}`"
    name = _PYTHON[instruction]
    return f"`{name if name.startswith('cuda.') else f'ptx.{name}'}({arguments})`"


def mbarrier(raw: RawFinding, places: Places) -> str:
    """Return the mbarrier of a finding as the user's array and index: `full[1]`."""
    return quote_element(places, raw.detail["address"], raw.pc)


def quote_element(places: Places, address: int, pc: int) -> str:
    return f"`{places.element(address, pc)}`"


def who(raw: RawFinding, places: Places) -> str:
    """Return the executing threads of a finding, such as `warp 3, lane 0`."""
    return executes(places, raw.cta, raw.warp, raw.lanes)


def executes(places: Places, cta: int, warp: int, lanes: int) -> str:
    """Return the text for executing threads, such as `warp 3, lane 0`, or only the warp if all its lanes execute."""
    text = places.who(cta, warp)
    return text if lanes in (0, (1 << 32) - 1) else f"{text}, {lanes_text(lanes)}"


def does(places: Places, pc: int, count: int = 1) -> str:
    """Return the verb of an operation on its mbarrier, such as `arrives on` or `waits on`; for several, `arrive on`."""
    text = effects_of(operation(places, pc)).verb
    if count == 1:
        return text
    verb, _, rest = text.partition(" ")
    return f"{'let' if verb == 'lets' else verb[:-1]} {rest}".strip()


def acts(raw: RawFinding, places: Places, verb: str) -> str:
    """Return `warp 3, lane 0 arrives` or `warp 3, lanes 0-3 arrive`; `verb` ends in an s."""
    text = who(raw, places)
    return f"{text} {verb.removesuffix('s')}" if ", lanes" in text else f"{text} {verb}"


def amount(number: int, what: str = "byte") -> str:
    """Return a number with its noun: `4,096 bytes`, `1 arrival`."""
    return f"{number:,} {what}{'s' * (number != 1)}"


def lacking(bytes_: int, arrivals: int) -> str:
    """Return what a phase lacks or has in excess, such as `4,096 bytes and 1 arrival are missing` or `64 bytes too many
    have come`; empty if the phase is complete."""
    missing = [amount(bytes_)] * (bytes_ > 0) + [amount(arrivals, "arrival")] * (arrivals > 0)
    one = len(missing) == 1 and 1 in (bytes_, arrivals)
    texts = [f"{' and '.join(missing)} {'is' if one else 'are'} missing"] if missing else []
    return ", and ".join([*texts, *([f"{amount(-bytes_)} too many were transferred"] if bytes_ < 0 else [])])


def executed_instructions(places: Places, *operations: str) -> list[int]:
    """Return the instructions of a program that were executed and have one of these operations."""
    counts = places.outcome.executions
    return [
        pc
        for pc in range(len(places.program.code))
        if (not counts or counts[pc]) and operation(places, pc) in operations
    ]


def lines(places: Places, pcs: Sequence[int], other: int) -> str:
    """Return `line 12` or `lines 12 and 14`, with at most three lines, of one file."""
    texts = list(dict.fromkeys(places.near(pc, other) for pc in pcs))[:3]
    numbers = [text.removeprefix("line ") for text in texts]
    if len(texts) > 1 and all(text.startswith("line ") for text in texts):
        return f"lines {', '.join(numbers[:-1])} and {numbers[-1]}"
    return " and ".join(texts)


def finding(
    raw: RawFinding,
    places: Places,
    message: str,
    label: str,
    notes: str | Iterable[str],
    help_: str,
    earlier: str = "",
) -> Finding:
    """Return a finding about one operation, or about two.  With two, `label` belongs to (2), and `earlier` is the label
    of (1)."""
    notes = [notes] if isinstance(notes, str) else notes
    two = bool(earlier) and raw.other_pc >= 0
    sites: list[Site] = [
        places.site(raw.pc, f"(2) {label}" if two else label, cta=raw.cta, warp=raw.warp),
    ]
    if two:
        text = f"(1) {earlier}"
        cta = raw.detail.get("other_cta", raw.cta)
        sites.append(places.site(raw.other_pc, text, cta=cta, warp=raw.other_warp, primary=False))
    for pc in (raw.pc, raw.other_pc) if two else (raw.pc,):
        sites += [call for call in places.callers(pc) if call not in sites]
    texts = [note for note in notes if note]
    if "address" in raw.detail:
        texts += origin_notes(places, raw.detail["address"], raw.pc, {site.line for site in sites}, message)
    return Finding(
        code=raw.code, message=message, sites=sites, notes=texts, help=help_,
        count=raw.count, steps=[culprit(raw, places)],
    )  # fmt: skip


def origin_notes(places: Places, address: int, pc: int, shown: Iterable[int] = (), title: str = "") -> list[str]:
    """Return a note on where an mbarrier was initialized and where it expects bytes, or none if these lines are `shown`
    already."""
    made = places.initialization(address)
    if made is None:
        return []
    init, count = made
    texts, lines_ = [], {*shown}
    if places.line(init) not in lines_ and effects_of(operation(places, pc)).event != "init":
        texts.append(f"is initialized {_at(places, init, pc)}, with {amount(count, 'arrival')} a phase")
    expects = [p for p in executed_instructions(places, *_EXPECTING) if _expects(places, p, address)]
    expects = [p for p in expects if places.line(p) not in lines_]
    if expects:
        texts.append(f"expects bytes on {lines(places, expects, pc)}")
    return [f"{quote_element(places, address, pc)} {' and '.join(texts)}"] if texts else []


def _at(places: Places, pc: int, other: int) -> str:
    """Return `on line 12`, or `at ring.cuh:12` in another file."""
    text = places.near(pc, other)
    return f"on {text}" if text.startswith("line ") else f"at {text}"


def _expects(places: Places, pc: int, address: int) -> bool:
    """Return whether an operation is an expect-tx on an mbarrier or on one in the same array."""
    expects = operation(places, pc) == _EXPECTING[0] or int(places.program.code[pc, _AUX]) & EXPECT
    return bool(expects) and places.may_use(pc, address)


def other(raw: RawFinding, places: Places) -> str:
    """Return the warp that executed (1): `warp 1`."""
    return places.who(raw.detail.get("other_cta", raw.cta), raw.other_warp)
