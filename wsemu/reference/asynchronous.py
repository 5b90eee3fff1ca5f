"""The operations of kind `async`: what each does, and at which of them lanes stand until they may go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from wsemu.model.isa import CP_ASYNC
from wsemu.reference.agents import bulk_copy, cp_async, tensor_copy
from wsemu.reference.sync import mbarrier, register_pool

if TYPE_CHECKING:
    from wsemu.reference.state import Group
    from wsemu.reference.warp import WarpRun

Meaning = Callable[["WarpRun", str, list[int], int], bool | None]


class Standing(NamedTuple):
    """An operation at which lanes may have to stand: whether they may go on now, and what they then do."""

    may_go: Callable[[WarpRun, Group], bool]
    go: Callable[[WarpRun, Group], None]


_AT_MBARRIER = Standing(mbarrier.may_go, mbarrier.go)
STANDING: dict[str, Standing] = {
    "mbarrier.wait": _AT_MBARRIER,
    "mbarrier.wait.parity": _AT_MBARRIER,
    "setmaxnreg.inc": Standing(register_pool.may_go, register_pool.go),
}
"""what else than barriers and warp-wide operations a part of a warp waits at"""


def _plain(meaning: Callable[[WarpRun, list[int], int], None]) -> Meaning:
    return lambda run, name, fields, lanes: meaning(run, fields, lanes)


_MEANINGS: dict[str, Meaning] = {
    "mbarrier.init": _plain(mbarrier.init),
    "mbarrier.inval": _plain(mbarrier.inval),
    "mbarrier.arrive": _plain(mbarrier.arrive),
    "mbarrier.expect_tx": lambda run, name, fields, lanes: mbarrier.change_bytes(run, fields, lanes, expects=True),
    "mbarrier.complete_tx": lambda run, name, fields, lanes: mbarrier.change_bytes(run, fields, lanes, expects=False),
    "mbarrier.wait": mbarrier.wait,
    "mbarrier.wait.parity": mbarrier.wait,
    "mbarrier.pending_count": _plain(mbarrier.pending_count),
    **dict.fromkeys(CP_ASYNC, cp_async.copy),
    "cp.async.commit": cp_async.commit,
    "cp.async.wait": cp_async.wait,
    "cp.async.arrive": _plain(mbarrier.arrive_async),
    "bulk.load": bulk_copy.load,
    "bulk.store": bulk_copy.store,
    "bulk.reduce": bulk_copy.reduce,
    "bulk.commit": bulk_copy.commit,
    "bulk.wait": bulk_copy.wait,
    "bulk.prefetch": bulk_copy.prefetch,
    "bulk.zero": bulk_copy.zero,
    "tensor.load": tensor_copy.load,
    "tensor.store": tensor_copy.store,
    "tensor.reduce": tensor_copy.reduce,
    "tensor.prefetch": tensor_copy.prefetch,
    "setmaxnreg.inc": register_pool.change,
    "setmaxnreg.dec": register_pool.change,
}


def execute(run: WarpRun, name: str, fields: list[int], lanes: int) -> bool:
    """Let some lanes execute an operation; returns whether they stand there until they may go on."""
    return bool(_MEANINGS[name](run, name, fields, lanes))
