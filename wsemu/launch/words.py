"""Translate the texts of findings for PTX kernels from the names of Python to those of CUDA C++ or Triton."""

from __future__ import annotations

import linecache
import re
from typing import TYPE_CHECKING, Any

from wsemu.evidence.triton_words import is_triton, reword_for_triton, reword_hint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from wsemu.launch.result import Report
    from wsemu.model.finding import Finding

_WORDS: dict[str, str | Callable[[re.Match[str]], str]] = {
    r"cuda\.(syncthreads|syncwarp|threadfence)\(\)": r"__\1()",
    r"`cuda\.shfl_sync`": "`__shfl_sync`",
    r"`ballot_sync`": "`__ballot_sync(0xffffffff, condition)`",
    r"`alignment=(\d+)`": r"`__align__(\1)`",
    r"`cuda\.atomic`": "`atomicAdd` or another atomic",
    r"`cuda\.atomic\.(add|sub|inc|dec|min|max|and|or|xor|exch|cas)_?`": lambda found: f"`{_atomic(found[1])}`",
    r"`cuda\.blockIdx`": "`blockIdx`",
    r"`cuda\.to_device`": "`cudaMemcpy`",
    r"`cuda\.shared\.array\(0, dtype\)`": "`extern __shared__`",
    r"`ptx\.ld_nc`": "`__ldg`, `const __restrict__` or `ld.global.nc`",
    r"`ptx\.ld_v(\d)`": r"a type of \1 elements, such as `float\1`",
    r"`(?:ptx\.)?(bar|barrier)_(\w+)_(\w+)`": r"`\1.\2.\3`",
    r"`(?:ptx\.)?(bar|barrier)_(\w+)`": r"`\1.\2`",
}
"""patterns in the texts of checkers, each with its replacement for CUDA C++ and PTX"""


_BARRIER_0 = re.compile(r"^(only part of a warp executes )?(?:aligned )?barrier 0\b")
"""the barrier of `__syncthreads()` at the start of a message"""


def reword_for_cuda(report: Report, files: Iterable[str]) -> Report:
    """Return the report of a kernel in PTX with its texts translated, unless its source, in these files, is Python."""
    changes: dict[str, Any] = {
        name: [finding.then(_finding) for finding in getattr(report, name)] for name in ("findings", "costliest")
    }
    files = [*files]
    if any(map(is_triton, files)):
        changes["notes"] = [*map(reword_for_triton, report.notes)]
    elif not any(file.endswith(".py") for file in files):
        changes["notes"] = [*map(text, report.notes)]
    return report.model_copy(update=changes)


def _finding(finding: Finding) -> Finding:
    if finding.sites and is_triton(finding.sites[0].file):
        return _reword_for_triton(finding)
    if finding.sites and finding.sites[0].file.endswith(".py"):  # compiled by Numba
        return finding
    message = text(finding.message)
    if any("__syncthreads" in linecache.getline(site.file, site.line) for site in finding.places):
        message = re.sub(
            r"^(only part of a warp executes )?(?:aligned )?barrier 0\b", r"\1`__syncthreads()` (barrier 0)", message
        )
    changes: dict[str, Any] = {"message": message, "help": finding.help and text(finding.help)}
    changes["notes"] = [*map(text, finding.notes)]
    return finding.model_copy(update=changes)


def _reword_for_triton(finding: Finding) -> Finding:
    changes: dict[str, Any] = {"help": finding.help and reword_hint(finding.help)}
    changes["notes"] = [*map(reword_for_triton, finding.notes)]
    return finding.model_copy(update=changes)


def _atomic(name: str) -> str:
    """Return the name in CUDA C++ of an atomic in Python: `atomicAdd`, `atomicCAS`."""
    return f"atomic{name.upper() if name == 'cas' else name.capitalize()}"


def text(said: str) -> str:
    """Return a text with the names of CUDA C++."""
    for pattern, words in _WORDS.items():
        said = re.sub(pattern, words, said)
    return said
