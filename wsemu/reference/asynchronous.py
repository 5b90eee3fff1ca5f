"""Dispatch operations of kind `async`, and define at which of them lanes may wait.

Operations come in families, one for each kind of synchronization object or asynchronous operation.  `enter` adds a
family to the tables: those of this package at the end of this module, others from outside.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from wsemu.model.data import NamedTuple
from wsemu.model.isa import CHECK_RESPONSE, CP_ASYNC, REQUEST_CLUSTER, WAITS
from wsemu.model.matrix import WGMMA
from wsemu.model.tensor_memory import ALLOC, OPERATIONS
from wsemu.reference.agents import bulk_copy, cp_async, map_fences, tensor_copy
from wsemu.reference.matrix import tensor_columns, tensor_memory, warpgroup, wgmma
from wsemu.reference.sync import cancellation, cluster_barrier, grid_barrier, mbarrier, register_pool

if TYPE_CHECKING:
    from wsemu.model.outcome import ObjectWait
    from wsemu.reference.run import Cta
    from wsemu.reference.state import Group
    from wsemu.reference.warp import WarpRun

Meaning = Callable[["WarpRun", str, list[int], int], bool | None]


class Standing(NamedTuple):
    """The two functions of an operation at which lanes may wait: a test of whether they may continue now, and their
    action when they do."""

    may_go: Callable[[WarpRun, Group], bool]
    go: Callable[[WarpRun, Group], None]


class Family(NamedTuple):
    """The operations of one kind of synchronization object or asynchronous operation."""

    kind: str
    meanings: Mapping[str, Meaning]
    """operation -> function that some lanes execute; it returns true if they must wait there"""
    standing: Mapping[str, Standing] = {}
    """operations at which lanes may wait"""
    state: Callable[[Cta], Any] | None = None
    """constructor of the family's state when a CTA starts: `cta.objects[kind]`"""
    end: Callable[[Cta], None] | None = None
    """check of the remaining state when a CTA ends"""
    waits: Callable[[Cta], Iterable[ObjectWait]] | None = None
    """the lanes that wait at the family's objects when a CTA cannot continue"""


FAMILIES: dict[str, Family] = {}
STANDING: dict[str, Standing] = {}
"""operations, apart from barriers and warp-wide ones, at which part of a warp may wait"""
_MEANINGS: dict[str, Meaning] = {}


def enter(family: Family) -> None:
    """Add the operations of a family to the tables; `isa.enter` has added them to the instruction set."""
    FAMILIES[family.kind] = family
    _MEANINGS.update(family.meanings)
    STANDING.update(family.standing)


def leave(kind: str) -> None:
    """Remove a family from the tables."""
    family = FAMILIES.pop(kind)
    for name in family.meanings:
        del _MEANINGS[name]
    for name in family.standing:
        del STANDING[name]


def execute(run: WarpRun, name: str, fields: list[int], lanes: int) -> bool:
    """Execute an operation for some lanes; return whether they must wait at it."""
    if not run.launch.watch.options.converged:
        return bool(_MEANINGS[name](run, name, fields, lanes))
    order, actor, waits = run.cta.order, (run.cta.number, run.warp.number), name in WAITS
    order.converge(actor, lanes)
    if waits:  # only lanes that observe the same phase complete continue together
        order.tick(actor)
    stands = bool(_MEANINGS[name](run, name, fields, lanes))
    if not waits:
        order.converge(actor, lanes)
        order.tick(actor)
    return stands


def _name_meanings(beginning: str, *meanings: Meaning) -> dict[str, Meaning]:
    """Return each meaning under the name of its operation: `beginning`, then the name of the function."""
    return {f"{beginning}.{meaning.__name__}": meaning for meaning in meanings}


def _adapt_nameless(meaning: Callable[[WarpRun, list[int], int], None]) -> Meaning:
    """Adapt a meaning that does not use the name of its operation."""

    @functools.wraps(meaning)
    def execute_plain(run: WarpRun, name: str, fields: list[int], lanes: int) -> None:
        meaning(run, fields, lanes)

    return execute_plain


enter(
    Family(
        "mbarrier",
        {
            **_name_meanings(
                "mbarrier",
                _adapt_nameless(mbarrier.init),
                _adapt_nameless(mbarrier.inval),
                _adapt_nameless(mbarrier.arrive),
                _adapt_nameless(mbarrier.expect_tx),
                _adapt_nameless(mbarrier.complete_tx),
                _adapt_nameless(mbarrier.pending_count),
                _adapt_nameless(mbarrier.phase),
            ),
            **dict.fromkeys(WAITS, mbarrier.wait),
            "cp.async.arrive": _adapt_nameless(mbarrier.arrive_async),
        },
        dict.fromkeys(WAITS, Standing(mbarrier.may_go, mbarrier.go)),
    )
)
enter(
    Family(
        "copy",
        {
            **dict.fromkeys(CP_ASYNC, cp_async.copy),
            **_name_meanings("cp.async", cp_async.commit, cp_async.wait),
            **{f"bulk.{name}": bulk_copy.load for name in ("load", "send", "send_reduce", "multicast")},
            **_name_meanings(
                "bulk",
                bulk_copy.store,
                bulk_copy.reduce,
                bulk_copy.commit,
                bulk_copy.wait,
                bulk_copy.prefetch,
                bulk_copy.zero,
            ),
            **{f"async.{name}.b{bits}": bulk_copy.store_one for name in ("store", "reduce") for bits in (32, 64)},
            **{f"tensor.{name}": tensor_copy.load for name in ("load", "multicast")},
            **_name_meanings("tensor", tensor_copy.store, tensor_copy.reduce, tensor_copy.prefetch),
            **_name_meanings("map", map_fences.release, map_fences.acquire),
        },
    )
)
enter(
    Family(
        "registers",
        {register_pool.TAKE: register_pool.change, register_pool.GIVE: register_pool.change},
        {register_pool.TAKE: Standing(register_pool.may_go, register_pool.go)},
        end=register_pool.compare_warpgroups,
    )
)
enter(
    Family(
        "warpgroup",
        {
            **_name_meanings("wgmma", wgmma.fence, wgmma.commit, wgmma.wait, wgmma.track, wgmma.touch, wgmma.check),
            **dict.fromkeys(WGMMA, wgmma.multiply),
        },
        {warpgroup.COMMIT: Standing(warpgroup.may_go, warpgroup.go)},
        end=wgmma.compare_warps,
        waits=warpgroup.waits,
    )
)
enter(
    Family(
        "cluster",
        _name_meanings("cluster", cluster_barrier.arrive, cluster_barrier.wait),
        {cluster_barrier.WAIT: Standing(cluster_barrier.may_go, cluster_barrier.go)},
        waits=cluster_barrier.waits,
    )
)
enter(
    Family(
        "grid",
        _name_meanings("grid", grid_barrier.arrive, grid_barrier.wait),
        {grid_barrier.WAIT: Standing(grid_barrier.may_go, grid_barrier.go)},
        waits=grid_barrier.waits,
    )
)
enter(
    Family(
        cancellation.KIND,
        {REQUEST_CLUSTER: cancellation.request, CHECK_RESPONSE: cancellation.check},
    )
)


def _commit(run: WarpRun, name: str, fields: list[int], lanes: int) -> None:
    """Register arrivals that occur when the operations that a lane has issued are complete (PTX ISA,
    "tcgen05.commit")."""
    tensor_memory.check_group(run, fields, lanes)
    mbarrier.check(run, fields[3], lanes)
    for goal in tensor_memory.commit_goals(run, fields, lanes):
        mbarrier.arrive_when_over(run, *goal)
    run.cta.order.tick((run.cta.number, run.warp.number))


enter(
    Family(
        tensor_memory.KIND,
        dict(zip(OPERATIONS, (*tensor_memory.MEANINGS, _commit), strict=True)),
        {ALLOC: Standing(tensor_memory.may_go, tensor_memory.go)},
        state=tensor_columns.TensorMemory,
        end=tensor_memory.report_leaks,
        waits=tensor_memory.waits,
    )
)
