"""The operations of kind `async`: what each does, and at which of them lanes stand until they may go on.

They come in families, one for each kind of synchronisation object or asynchronous operation, which `enter` puts into
the tables: those of this package at the end of this module, any others from outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from wsemu.model.data import NamedTuple
from wsemu.model.isa import CP_ASYNC, WAITS
from wsemu.model.matrix import WGMMA
from wsemu.model.tensor_memory import ALLOC, OPERATIONS
from wsemu.reference.agents import bulk_copy, cp_async, map_fences, tensor_copy
from wsemu.reference.matrix import tensor_columns, tensor_memory, warpgroup, wgmma
from wsemu.reference.sync import cluster_barrier, grid_barrier, mbarrier, register_pool

if TYPE_CHECKING:
    from wsemu.model.outcome import ObjectWait
    from wsemu.reference.run import Cta
    from wsemu.reference.state import Group
    from wsemu.reference.warp import WarpRun

Meaning = Callable[["WarpRun", str, list[int], int], bool | None]


class Standing(NamedTuple):
    """An operation at which lanes may have to stand: whether they may go on now, and what they then do."""

    may_go: Callable[[WarpRun, Group], bool]
    go: Callable[[WarpRun, Group], None]


class Family(NamedTuple):
    """The operations of one kind of object."""

    kind: str
    meanings: Mapping[str, Meaning]
    """operation -> what some lanes do that execute it; true: they stand there"""
    standing: Mapping[str, Standing] = {}
    """of the operations at which lanes may have to stand"""
    state: Callable[[Cta], Any] | None = None
    """what a CTA has of it at its start: `cta.objects[kind]`"""
    end: Callable[[Cta], None] | None = None
    """judges what is left when a CTA ends"""
    waits: Callable[[Cta], Iterable[ObjectWait]] | None = None
    """who stands at its objects when a CTA can do no more"""


FAMILIES: dict[str, Family] = {}
STANDING: dict[str, Standing] = {}
"""what else than barriers and warp-wide operations a part of a warp waits at"""
_MEANINGS: dict[str, Meaning] = {}


def enter(family: Family) -> None:
    """Let the operations of a family be executed; `isa.enter` has entered them."""
    FAMILIES[family.kind] = family
    _MEANINGS.update(family.meanings)
    STANDING.update(family.standing)


def leave(kind: str) -> None:
    """Take a family out again."""
    family = FAMILIES.pop(kind)
    for name in family.meanings:
        del _MEANINGS[name]
    for name in family.standing:
        del STANDING[name]


def execute(run: WarpRun, name: str, fields: list[int], lanes: int) -> bool:
    """Let some lanes execute an operation; returns whether they stand there until they may go on."""
    if not run.launch.watch.options.converged:
        return bool(_MEANINGS[name](run, name, fields, lanes))
    order, actor, waits = run.cta.order, (run.cta.number, run.warp.number), name in WAITS
    order.converge(actor, lanes)
    if waits:  # only lanes that see one phase complete go on together
        order.tick(actor)
    stands = bool(_MEANINGS[name](run, name, fields, lanes))
    if not waits:
        order.converge(actor, lanes)
        order.tick(actor)
    return stands


def _plain(meaning: Callable[[WarpRun, list[int], int], None]) -> Meaning:
    return lambda run, name, fields, lanes: meaning(run, fields, lanes)


enter(
    Family(
        "mbarrier",
        {
            "mbarrier.init": _plain(mbarrier.init),
            "mbarrier.inval": _plain(mbarrier.inval),
            "mbarrier.arrive": _plain(mbarrier.arrive),
            "mbarrier.expect_tx": lambda run, name, fields, lanes: mbarrier.change_bytes(
                run, fields, lanes, expects=True
            ),
            "mbarrier.complete_tx": lambda run, name, fields, lanes: mbarrier.change_bytes(
                run, fields, lanes, expects=False
            ),
            **dict.fromkeys(WAITS, mbarrier.wait),
            "mbarrier.pending_count": _plain(mbarrier.pending_count),
            "cp.async.arrive": _plain(mbarrier.arrive_async),
        },
        dict.fromkeys(WAITS, Standing(mbarrier.may_go, mbarrier.go)),
    )
)
enter(
    Family(
        "copy",
        {
            **dict.fromkeys(CP_ASYNC, cp_async.copy),
            "cp.async.commit": cp_async.commit,
            "cp.async.wait": cp_async.wait,
            **dict.fromkeys(("bulk.load", "bulk.send", "bulk.send_reduce", "bulk.multicast"), bulk_copy.load),
            **dict.fromkeys(
                (f"async.{name}.b{bits}" for name in ("store", "reduce") for bits in (32, 64)), bulk_copy.store_one
            ),
            "bulk.store": bulk_copy.store,
            "bulk.reduce": bulk_copy.reduce,
            "bulk.commit": bulk_copy.commit,
            "bulk.wait": bulk_copy.wait,
            "bulk.prefetch": bulk_copy.prefetch,
            "bulk.zero": bulk_copy.zero,
            "tensor.load": tensor_copy.load,
            "tensor.multicast": tensor_copy.load,
            "tensor.store": tensor_copy.store,
            "tensor.reduce": tensor_copy.reduce,
            "tensor.prefetch": tensor_copy.prefetch,
            "map.release": map_fences.release,
            "map.acquire": map_fences.acquire,
        },
    )
)
enter(
    Family(
        "registers",
        {"setmaxnreg.inc": register_pool.change, "setmaxnreg.dec": register_pool.change},
        {"setmaxnreg.inc": Standing(register_pool.may_go, register_pool.go)},
        end=register_pool.compare_warpgroups,
    )
)
enter(
    Family(
        "warpgroup",
        {
            "wgmma.fence": wgmma.fence,
            "wgmma.commit": wgmma.commit,
            "wgmma.wait": wgmma.wait,
            "wgmma.track": wgmma.track,
            "wgmma.touch": wgmma.touch,
            "wgmma.check": wgmma.check,
            **dict.fromkeys(WGMMA, wgmma.multiply),
        },
        {"wgmma.commit": Standing(warpgroup.may_go, warpgroup.go)},
        end=wgmma.compare_warps,
        waits=warpgroup.waits,
    )
)
enter(
    Family(
        "cluster",
        {"cluster.arrive": cluster_barrier.arrive, "cluster.wait": cluster_barrier.wait},
        {"cluster.wait": Standing(cluster_barrier.may_go, cluster_barrier.go)},
        waits=cluster_barrier.waits,
    )
)
enter(
    Family(
        "grid",
        {"grid.arrive": grid_barrier.arrive, "grid.wait": grid_barrier.wait},
        {"grid.wait": Standing(grid_barrier.may_go, grid_barrier.go)},
        waits=grid_barrier.waits,
    )
)


def _commit(run: WarpRun, name: str, fields: list[int], lanes: int) -> None:
    """PTX ISA, "tcgen05.commit": arrivals that come when what a lane has issued is over."""
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
