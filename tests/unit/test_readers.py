"""Places that several warps read: cells that hold these warps as bits (`machine/memory/readers.py`) say what sets of
named reads say, and what the reference interpreter says."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

import wsemu
from wsemu import cuda, ptx
from wsemu.launch.binding import bind
from wsemu.launch.compiled import compile_for_types
from wsemu.machine import run, tables, vm
from wsemu.machine.memory import shadow_planes
from wsemu.model.outcome import Outcome
from wsemu.reference import run as reference

WARPS = 5
STEPS = 24
NOTHING, READ, STEP, FEW, WRITE, FEW_WRITE, SYNC, ARRIVE, ADD, ARRAY, STORE, WIDE, MEET, COPY, HALF = range(15)
"""what a warp does in a step, in places that the step names"""


@cuda.jit
def _driven(plan, array, out):
    _drive(plan, array, out, False)


@cuda.jit
def _copying(plan, array, out):
    """The same with asynchronous copies, where each lane has a clock of its own."""
    _drive(plan, array, out, True)


@cuda.jit(device=True)
def _copy(op, tile, array, i):
    if op == COPY:
        ptx.cp_async_ca(tile, i, array, i, 4)
        ptx.cp_async_wait_all()


@cuda.jit(device=True)
def _drive(plan, array, out, copies):
    tile = cuda.shared.array(160, np.int32)
    lane, w = cuda.threadIdx.x % 32, cuda.threadIdx.x // 32
    tile[32 * w + lane] = lane
    cuda.syncthreads()
    total = 0
    for s in range(STEPS):
        op, a, b = plan[cuda.blockIdx.x, w, s, 0], plan[cuda.blockIdx.x, w, s, 1], plan[cuda.blockIdx.x, w, s, 2]
        if op == READ:
            total += tile[a + lane]
            if b:
                total += tile[a + b + lane]
        elif op == STEP:
            total += tile[a + lane * b]
        elif op == FEW:
            if lane >= b:
                total += tile[a + lane]
        elif op == WRITE:
            tile[a + lane] = s
        elif op == FEW_WRITE:
            if lane < b:
                tile[a + lane] = s
        elif op == SYNC:
            ptx.bar_sync(a, b)
        elif op == ARRIVE:
            ptx.bar_arrive(a, b)
        elif op == ADD:
            cuda.atomic.add(tile, a + lane, 1)
        elif op == ARRAY:
            total += array[a + lane]
        elif op == STORE:
            array[a + lane] = s
        elif op == WIDE:
            x, y = ptx.ld_v2(tile, 2 * (a // 2 + lane % 16))
            total += x + y
        elif op == MEET:
            cuda.syncwarp()
        elif op == HALF:
            if lane < 16:
                ptx.bar_sync(a, b)
            else:
                ptx.bar_arrive(a, b)
        if copies:
            _copy(op, tile, array, a + lane)
    out[cuda.grid(1)] = total


def _plan(seed: int) -> npt.NDArray[np.int32]:
    """Two CTAs' steps: warps, or halves of them, meet in some number now and then, and read more often than they write.
    Most plans are orderly: who writes comes after all readers, and before the next ones."""
    source = random.Random(seed)
    plan = np.zeros((2, WARPS, STEPS, 3), np.int32)
    orderly = seed % 3 > 0
    halves = seed % 4 > 1
    stores = [WRITE, FEW_WRITE, STORE] + [COPY] * (seed % 4 == 3)
    reads = [READ] * 6 + [STEP, FEW, WIDE, ARRAY] + ([ADD, MEET] if seed % 5 == 0 else [])
    for cta in range(2):
        s = 0
        while s < STEPS - 3:
            if orderly and source.random() < 0.15:
                plan[cta, :, s] = plan[cta, :, s + 2] = SYNC, 0, 32 * WARPS
                for w in source.sample(range(WARPS), 2)[: source.randrange(1, 3)]:
                    plan[cta, w, s + 1] = _step(source, cta, stores, 32 * w)
                s += 3
                continue
            if source.random() < 0.2:
                who = source.sample(range(WARPS), source.randrange(2, WARPS + 1))
                giving = source.randrange(len(who)) if source.random() < 0.4 else 0
                for k, w in enumerate(who):
                    meets = HALF if halves and source.random() < 0.3 else SYNC
                    plan[cta, w, s] = ARRIVE if k < giving else meets, 1 + s % 15, 32 * len(who)
            else:
                for w in range(WARPS):
                    plan[cta, w, s] = _step(source, cta * orderly, reads + stores * (not orderly), -1)
            s += 1
    return plan


def _step(source: random.Random, cta: int, kinds: list[int], place: int) -> tuple[int, int, int]:
    op = source.choice(kinds)
    place = source.choice((0, 0, 0, 1, 4, 32, 36, 64)) if place < 0 else place
    place += 160 * cta if op in (ARRAY, STORE) else 0
    return op, place, source.choice((0, 1, 2) if op in (READ, STEP) else (3, 8, 16, 31))


class Made(NamedTuple):
    """What a launch leaves."""

    outcome: str
    arrays: list[bytes]
    moments: int
    again: bool


def _bound(seed: int) -> tuple[Any, Any, Any, Any, Any]:
    arguments = _plan(seed), np.arange(320, dtype=np.int32), np.zeros(2 * 32 * WARPS, np.int32)
    program, names, _ = compile_for_types(_copying if seed % 4 == 3 else _driven, arguments, True)
    rows, memory, _ = bind(program, arguments, names)
    return program, (2, 1, 1), (32 * WARPS, 1, 1), rows, memory.segments


def _told(outcome: Outcome) -> str:
    for finding in outcome.findings:
        finding.detail = dict(sorted(finding.detail.items()))
    accesses = sorted(outcome.accesses.items())
    return repr((outcome.status, outcome.findings, accesses, outcome.executions, outcome.thread_operations))


def _made(seed: int, *, named: bool) -> Made:
    program, grid, block, rows, segments = _bound(seed)
    launch = run.Launch(program, grid, block, rows, segments, watch=tables.Watch(named=named), workers=1)
    moments: list[int] = []
    machine = vm.Machine.run

    def counted(own: Any, *arguments: Any, **options: Any) -> int:
        own.plans_due["misses"] = 1 << 40 if seed % 2 else 0  # a plan is made at once
        status = machine(own, *arguments, **options)
        moments.append(int(own.state[0]["moment_count"]))
        return status

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vm.Machine, "run", counted)
        patch.setattr(run, "take_machine", lambda *_: None)
        outcome = _told(launch.run())
    return Made(outcome, [bytes(data) for data, _ in segments], max(moments), launch.watch.named)


def test_readers_as_bits_say_what_named_reads_say() -> None:
    moments = again = 0
    for seed in range(24):
        found, expected = (_made(seed, named=named) for named in (False, True))
        assert found[:2] == expected[:2], seed
        assert not expected.moments
        moments, again = moments + (found.moments > 0), again + found.again
    assert moments > 18
    assert 2 < again < 20


@pytest.mark.parametrize("seed", [1, 3])
def test_readers_as_bits_say_what_the_reference_says(seed: int) -> None:
    program, grid, block, rows, segments = _bound(seed)
    outcome = reference.run(program, grid, block, rows, segments)
    found = _made(seed, named=False)
    assert found.arrays == [bytes(data) for data, _ in segments]
    assert found.outcome == _told(outcome)


def test_moments_that_no_cell_has_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [_made(seed, named=False)[:2] for seed in range(16)]
    swept: list[None] = []
    sweep = shadow_planes.Planes._sweep_moments
    monkeypatch.setattr(shadow_planes, "FIRST_MOMENTS", 2)
    monkeypatch.setattr(shadow_planes, "MANY_MOMENTS", 4)
    monkeypatch.setattr(shadow_planes.Planes, "_sweep_moments", lambda planes: swept.append(sweep(planes)))
    assert [_made(seed, named=False)[:2] for seed in range(16)] == expected
    assert len(swept) > 8


@cuda.jit
def sums_of_rows(a, c):
    tile = cuda.shared.array((8, 8), np.float32)
    row, column = cuda.grid(2)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    total = np.float32(0)
    for k in range(0, 64, 8):
        tile[x, y] = a[row, k + y]
        cuda.syncthreads()
        for j in range(8):
            total += tile[x, j]
        cuda.syncthreads()
    c[row, column] = total


def test_memory_that_later_launches_get_is_zero():
    """Moments that were swept leave nothing behind their number: a plane in that memory would tell of accesses that
    nobody made."""
    for side in (512, 256, 512):
        a, c = np.ones((side, side), np.float32), np.zeros((side, side), np.float32)
        assert wsemu.check(sums_of_rows, (side // 8, side // 8), (8, 8), (a, c)).verdict == "verified"
    assert not [len(cells) for free in shadow_planes.POOL._free.values() for cells in free if cells.any()]
