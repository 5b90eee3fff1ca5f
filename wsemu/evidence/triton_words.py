"""Translate texts about kernels that Triton compiled into Triton's terms: program instead of CTA, mask instead of `if`.

In Triton, the compiler assigns work to threads.  A barrier between threads is `tl.debug_barrier()`; the compiler
generates the copies, waits and barriers of loops.
"""

from __future__ import annotations

import functools
import linecache
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_IMPORT = re.compile(r"^\s*(?:from\s+triton\b|import\s+(?:[\w.]+(?:\s+as\s+\w+)?\s*,\s*)*triton\b)", re.MULTILINE)
_ATOMICS = {"exch": "xchg", "sub": "add", "inc": "add", "dec": "add"}
"""Triton's names of atomics, by Numba's names, if they differ"""


def _name_atomic(found: re.Match[str]) -> str:
    return f"`tl.atomic_{_ATOMICS.get(found[1].lower(), found[1].lower())}`"


_BARRIER = r"`(?:cuda\.|__)sync(?:threads|warp)\(\)`"
_WORDS: dict[str, str | Callable[[re.Match[str]], str]] = {
    rf"add {_BARRIER} after (line \d+), where every thread passes, before \1 runs again":
        r"\1 loads and stores the same elements: use `tl.atomic_add` or another atomic to update them, or put "
        "`tl.debug_barrier()` between the load and the store to move them",
    rf"{_BARRIER}, or {_BARRIER} if other warps .*? as well,": "`tl.debug_barrier()`",
    _BARRIER + r"( .*?)?, where (?:every thread passes|all lanes meet)": r"`tl.debug_barrier()`\1",
    _BARRIER: "`tl.debug_barrier()`",
    r"`bar\.(?:warp\.)?sync (?:0|-1)`( before line \d+ of .*?, which is of )(line \d+)":
        r"`bar.sync 0`\1\2 (in Triton: `tl.debug_barrier()` before \2)",
    r"put a `(?:cuda\.|__)threadfence\(\)` before the first and after the second, or use (.*)":
        r'give the first `sem="release"` and the second `sem="acquire"`, or use \1',
    r"put a `(?:cuda\.|__)threadfence\(\)` (before|after) (it|the first|the second)(?:, t[o]o)?, or use (.*)":
        r'give \2 `sem="acq_rel"`, or use \3',
    r"`(?:cuda\.|__)threadfence\(\)` before and after (line \d+)": r'`sem="acq_rel"` into the atomic of \1',
    r"a named barrier": "`tl.debug_barrier()`",
    r"\(`cuda::atomic_ref`, relaxed\)": "(`tl.atomic_xchg` to store, `tl.atomic_add` of 0 to load)",
    r"`cuda\.atomic`( to update them)?, or do it in one (?:warp|lane) only": r"`tl.atomic_add` or another atomic\1",
    r"do it in one CTA only": "do it in one program only",
    r"`cuda\.atomic\.(\w+?)_?`": _name_atomic,
    r"`atomic(Add|Sub|Inc|Dec|Min|Max|And|Or|Xor|Exch|CAS)`": _name_atomic,
    r"`cuda\.atomic`": "`tl.atomic_add` or another atomic",
    r"`cuda\.blockIdx`": "`tl.program_id(0)`",
    r"`cuda\.to_device`": "`torch.zeros`",
    r"guard the access, such as with `if \(i < n\)`": "give the access a mask, such as `mask=offsets < n`",
    r"guard the access: `if (.*?):`": r"give the access a mask: `\1`",
    r"guard the access": "give the access a mask",
    r"nothing orders different CTAs within a launch: use atomics":
        'nothing orders different programs within a launch: use atomics (`sem="release"` after the stores, '
        '`sem="acquire"` before the loads)',
    r"all CTAs store to the same elements: include (.*?) in the index, or store in one CTA only; "
    r"otherwise use an atomic":
        r"all programs store to the same elements: add \1 to the offsets, or store in one program only; otherwise use "
        "`tl.atomic_add` or another atomic",
    r"give each warp its own element, store in one warp only, or use an atomic":
        "give each element of the block its own address, or use `tl.atomic_add` or another atomic",
    r"store in one lane only, give each lane its own element, or combine":
        "give each element of the block its own address, or combine",
    r"execute (.*?) in one thread only, make the stores atomic, or put a barrier between \(1\) and \(2\)":
        r"execute \1 in one program only (a mask with `tl.program_id(0) == 0`), or make the stores atomic",
    r"access neighboring elements in neighboring lanes":
        "give neighboring elements of the block neighboring addresses",
}  # fmt: skip
"""patterns in the texts of checkers and fixes, each with its replacement for Triton"""
_OF_COMPILER = re.compile(
    r"`ptx\.|\bm\Bbarrier|cp\.async|cp_async|wgmma|tcgen05|fence[._]proxy|barrier_\w+|\bbar\.(?!sync 0`)"
)
"""operations that kernels of Triton do not contain in source form"""
_COMPILER = (
    "Triton's compiler makes the copies and waits of loops: if `num_stages=1` removes this, please report it to Triton"
)


@functools.lru_cache(maxsize=256)
def is_triton(file: str) -> bool:
    """Return whether a source file has kernels of Triton, and not of its dialect Gluon, which names barriers itself."""
    text = "".join(linecache.getlines(file)) if file.endswith(".py") else ""
    return _IMPORT.search(text) is not None and "gluon" not in text


def reword_for_triton(text: str) -> str:
    """Return a text of a checker or of a fix in Triton's words."""
    for pattern, words in _WORDS.items():
        text = re.sub(pattern, words, text)
    return text


def reword_hint(text: str) -> str:
    """Return a hint in Triton's terms.  If the hint is about instructions that only the compiler generates, return a
    hint about the compiler instead."""
    return _COMPILER if _OF_COMPILER.search(text) else reword_for_triton(text)
