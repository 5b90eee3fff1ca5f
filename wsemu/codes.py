"""Every finding code: how severe it is and what it means, in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

CODES: dict[str, tuple[str, str]] = {
    "deadlock": ("error", "no warp can go on, and not all have finished"),
    "race": ("error", "conflicting accesses of two warps that nothing orders"),
    "intra-warp-race": ("error", "conflicting accesses of two lanes of a warp that nothing orders"),
    "barrier-recycling": ("error", "an operation can be counted into the wrong generation of a named barrier"),
    "count-mismatch": ("error", "operations of one barrier generation name different thread counts"),
    "oversubscribed": ("error", "a barrier generation that its participants can never complete"),
    "all-arrive": ("error", "a barrier generation completes by arrivals alone and releases nobody"),
    "barrier-divergence": ("error", "a warp-wide or aligned barrier operation reached by a part of the warp"),
    "invalid-barrier": ("error", "a barrier id outside 0-15 or a count that is no positive multiple of 32"),
    "out-of-bounds": (
        "error",
        "an access outside the array, or through a negative index, or a store to constant memory",
    ),
    "misaligned": ("error", "an address that is not a multiple of the access's size"),
    "uninitialized-read": ("error", "a read of memory that nothing has written"),
    "read-only-written": ("error", "a load through the read-only cache of bytes that the launch writes"),
    "transfer-missed": ("error", "a transfer left destination bytes unwritten"),
    "transfer-duplicated": ("error", "a transfer wrote destination bytes more than once"),
    "transfer-spilled": ("error", "a transfer touched bytes outside its destination"),
    "dangling-arrive": ("warning", "arrivals left in an open barrier generation when the CTA ends"),
    "bank-conflict": ("warning", "lanes of a shared access meet in one bank"),
    "uncoalesced": ("warning", "a global access touches more sectors than its bytes need"),
}
MARKS = ("undefined-shuffle", "failed-assertion", "same-value")
"""what an engine records besides findings: `verdict.py` makes reasons and notes of it"""
CODE_NAMES = (*CODES, *MARKS)
CODE_NUMBERS = {code: number for number, code in enumerate(CODE_NAMES)}

CHECKERS: dict[str, tuple[str, ...]] = {
    "deadlock": ("deadlock",),
    "race": ("race",),
    "intra-warp": ("intra-warp-race",),
    "recycling": ("barrier-recycling",),
    "barrier-misuse": (
        "count-mismatch",
        "oversubscribed",
        "all-arrive",
        "barrier-divergence",
        "invalid-barrier",
        "dangling-arrive",
    ),
    "bounds": ("out-of-bounds", "misaligned"),
    "initialised": ("uninitialized-read",),
    "read-only": ("read-only-written",),
    "bank-conflict": ("bank-conflict",),
    "coalescing": ("uncoalesced",),
    "transfer": ("transfer-missed", "transfer-duplicated", "transfer-spilled"),
}
"""checker (its module has this name, with underscores) -> the codes it reports"""
CHECKER_OF = {code: checker for checker, codes in CHECKERS.items() for code in codes}
SCHEDULES = ("deadlock", "race", "recycling", "barrier-misuse", "read-only")
"""the checkers whose silence proves something for every schedule"""


def _hyphenated(name: object) -> str:
    """A name as it is written here; of what is no string, nothing that is known."""
    return name.replace("_", "-") if isinstance(name, str) else ""


def checkers_named(names: Iterable[str]) -> frozenset[str]:
    """The checkers that these names or finding codes mean; UsageError for another name."""
    chosen = set()
    for name in names:
        checker = CHECKER_OF.get(name, _hyphenated(name))
        if checker not in CHECKERS:
            raise UsageError(f"no checker {name!r}: one of {', '.join(CHECKERS)}, or a finding code")
        chosen.add(checker)
    return frozenset(chosen)


def finding_codes(names: Iterable[str]) -> frozenset[str]:
    """The finding codes that these codes or checkers mean; UsageError for another name."""
    chosen: set[str] = set()
    for name in names:
        code = _hyphenated(name)
        if code not in CODES and code not in CHECKERS:
            raise UsageError(f"no finding code {name!r}: one of {', '.join(CODES)}")
        chosen.update((code,) if code in CODES else CHECKERS[code])
    return frozenset(chosen)
