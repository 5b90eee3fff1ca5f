"""Ranks: a launch whose CTAs are divided among several GPUs of one host.

The CTAs of a grid are divided among `ranks` GPUs in the order of their numbers; each GPU gets an equal share.  The
scope `.gpu` covers the threads of one GPU, and `.sys` the threads of all GPUs.  The emulator already has such a pair of
nested scopes: `.cluster` inside `.gpu`.  So the CTAs of a GPU run as one cluster, and operations of scope `.gpu` run
with scope `.cluster`.  This requires that real clusters have one CTA, so that `.cluster` counts as `.cta`.  Programs
that read the number of their cluster, or wait for their cluster or grid, are not divided.

Reference: PTX ISA, "Scope", "Morally strong operations".
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from wsemu.model.effects import find_opcodes
from wsemu.model.errors import UnsupportedError, UsageError
from wsemu.model.isa import (
    CLUSTER_WIDE,
    NAMES,
    OF_CLUSTER,
    OF_CTA,
    OF_GPU,
    OPCODE,
    OPERATIONS,
    SCOPES,
    is_cluster_fence,
)
from wsemu.model.launch_shape import with_cluster
from wsemu.model.outcome import FENCES

if TYPE_CHECKING:
    from wsemu.model.finding import Finding
    from wsemu.model.launch_shape import LaunchConfiguration
    from wsemu.model.program import Program

_DIVIDED = "divided among GPUs"
_MULTICASTS = frozenset(number for name, number in OPCODE.items() if name.endswith(".multicast"))
_OF_GROUPS = find_opcodes(lambda row: row.meets in ("cluster", "grid")) | _MULTICASTS


def divide_grid(configuration: LaunchConfiguration, ranks: int) -> LaunchConfiguration:
    """Return a launch whose CTAs are divided among GPUs; raise UsageError for a grid that cannot be divided."""
    if configuration.cluster != (1, 1, 1):
        raise UsageError(f"ranks={ranks}: clusters cannot be divided among GPUs; launch without clusters")
    axis = max((n for n, extent in enumerate(configuration.grid) if extent > 1), default=0)
    share, rest = divmod(configuration.grid[axis], ranks)
    if rest:
        grid = " x ".join(map(str, configuration.grid))
        raise UsageError(
            f"ranks={ranks}: a grid of {grid} CTAs has no equal share for each GPU; give a multiple of {ranks}"
        )
    shape = tuple(share if n == axis else extent for n, extent in enumerate(configuration.grid))
    return configuration if shape == (1, 1, 1) else with_cluster(configuration, shape)


def divide_program(program: Program) -> Program:
    """Return a program whose operations of scope `.gpu` do not reach CTAs of other GPUs."""
    known: Program | None = program.derived.get(_DIVIDED)
    if known is None:
        _check_groups(program)
        code = program.code.copy()
        for fields in code:
            atomic = OPERATIONS[NAMES[int(fields[0])]].kind == "atomic"
            if is_cluster_fence(fields):
                fields[6] = 0
            elif fields[0] == OPCODE[FENCES[1]]:
                fields[0], fields[6] = OPCODE[FENCES[0]], CLUSTER_WIDE
            elif atomic and fields[7] & OF_CLUSTER:
                fields[7] = fields[7] & ~OF_CLUSTER | OF_CTA
            elif atomic and fields[7] & OF_GPU:
                fields[7] = fields[7] & ~OF_GPU | OF_CLUSTER
        known = program.derived[_DIVIDED] = replace(program, code=code)
    return known


def _check_groups(program: Program) -> None:
    """Raise UnsupportedError for a program that uses its cluster, or whose CTAs synchronize in a cluster or the
    grid."""
    reads = any(name.startswith(("cluster", "nclusterid")) for name in program.specials)
    meets = next((pc for pc, op in enumerate(program.code[:, 0].tolist()) if op in _OF_GROUPS), None)
    if reads or program.has_pairs or meets is not None:
        raise UnsupportedError(
            f"`{program.name}` uses its cluster or the barrier of its grid: such a launch is not divided among GPUs",
            None if meets is None else program.spans[program.span_of[meets]],
            "leave out `ranks`, or let CTAs meet by atomics of `.sys` scope",
        )


def note_python_atomics(program: Program) -> tuple[str, ...]:
    """Return the assumption of a verdict if `cuda.atomic` is used, which Numba-CUDA compiles to `.gpu` scope."""
    unscoped = (
        OPERATIONS[NAMES[int(fields[0])]].kind == "atomic" and not fields[7] & (OF_GPU | SCOPES)
        for fields in program.code
    )
    return (_OF_PYTHON,) if any(unscoped) else ()


_OF_PYTHON = (
    "`cuda.atomic` counts as `.sys` here, but Numba-CUDA compiles it to `.gpu` scope, which PTX does not extend to "
    "other GPUs: this verdict is about `.sys` atomics, as CUDA C++'s `atomicAdd_system`"
)
_WORDS = (
    (
        (
            "an atomic of `.cta` scope is atomic only with atomics of its own CTA, one of `.cluster` only within its "
            "cluster"
        ),
        "an atomic of `.gpu` scope is atomic only with atomics of its own GPU, and these CTAs are of two GPUs",
    ),
    ("`.cluster`", "`.sys`"),
    ("`.gpu`", "`.sys`"),
    ("cuda.threadfence()", "cuda.threadfence_system()"),
    ("`__threadfence()`", "`__threadfence_system()`"),
)
"""texts of findings in one GPU, and among several"""
_NARROW = "of too narrow a scope"
_CLUSTER_WORDS = ("cluster_sync", "barrier.cluster")
_BY_FLAGS = "order the two by a flag: set it after a fence of `.sys` scope after (1), wait for it and fence before (2)"
"""help that replaces one naming a cluster barrier, which several GPUs do not share"""


def name_scopes(findings: list[Finding], ranks: int) -> list[Finding]:
    """Return the findings of a launch with the scope names for several GPUs in their texts; a race that is due to too
    narrow a scope gets the code `scope`."""
    return [_name_scope(finding) for finding in findings] if ranks > 1 else findings


def _name_scope(finding: Finding) -> Finding:
    by_cluster = any(word in (finding.help or "") for word in _CLUSTER_WORDS)
    changes: dict[str, object] = {
        "notes": [_replace_words(note) for note in finding.notes],
        "help": _BY_FLAGS if by_cluster else finding.help and _replace_words(finding.help),
    }
    if finding.code == "race" and _NARROW in finding.message:
        changes["code"] = "scope"
    return finding.model_copy(update=changes)


def _replace_words(text: str) -> str:
    for one, other in _WORDS:
        if one in text:
            text = text.replace(one, other)
            if other.startswith("an atomic"):
                return text
    return text
