"""Branches at which lanes of a block part and meet again: a launch still says what the VM alone says, and the block
makes both sides by itself."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wsemu
from tests.unit.test_blocks import counted, in_all_tiers, said
from wsemu import cuda
from wsemu.machine import vm, workers
from wsemu.machine.tier import hot
from wsemu.machine.tier.shapes import Parting, Rows, Side, given_shapes, parting
from wsemu.model.isa import LANES, OPCODE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from wsemu.machine.vm import Machine


@pytest.fixture(autouse=True)
def _none_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_kept", {})


# -- which branches ----------------------------------------------------------------------------------------------------
ADD, LOAD, SYNC = OPCODE["add.b32"], OPCODE["ld.b32"], OPCODE["bar.sync"]
BRA, JUMP, JOIN, EXIT = (OPCODE[name] for name in ("bra", "jump", "join", "exit"))
GUARD = 4 << 1


def code(*rows: tuple[int, ...]) -> list[list[int]]:
    """Instructions: operation, guard, where lanes join, where it leads."""
    return [[op, guard, 0, 0, 0, join, target, 0] for op, guard, join, target in rows]


def plain(op: int) -> tuple[int, ...]:
    return op, 0, 0, 0


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([(BRA, GUARD, 3, 3), plain(ADD), plain(LOAD), plain(JOIN)], Parting(3, (Side(1, 3),))),
        (
            [(BRA, GUARD, 5, 3), plain(ADD), (JUMP, 0, 0, 5), plain(LOAD), plain(ADD), plain(JOIN)],
            Parting(5, (Side(1, 2), Side(3, 5))),
        ),
        ([(BRA, GUARD, 3, 3), plain(ADD), plain(SYNC), plain(JOIN)], None),
        ([(BRA, GUARD, 4, 3), plain(ADD), plain(EXIT), plain(ADD), plain(JOIN)], None),
        ([(BRA, GUARD, 3, 3), plain(ADD), (JUMP, 0, 0, 0), plain(JOIN)], None),
        ([(BRA, GUARD, -1, 3), plain(ADD), plain(LOAD), plain(JOIN)], None),
        ([(BRA, GUARD, 3, 1), plain(ADD), plain(LOAD), plain(JOIN)], None),
        ([(BRA, 0, 3, 3), plain(ADD), plain(LOAD), plain(JOIN)], None),
    ],
)
def test_sides_have_nothing_but_arithmetic_and_accesses(rows: Any, expected: Parting | None) -> None:
    assert parting(code(*rows), 0) == expected


# -- launches ----------------------------------------------------------------------------------------------------------
@cuda.jit
def margins(x: Any, y: Any, n: Any, first: Any, past: Any) -> None:
    """Some lanes bring what lies beside a row."""
    row = cuda.shared.array(48, np.float32)
    t, w = cuda.threadIdx.x % 32, cuda.threadIdx.x // 32
    total = np.float32(0)
    for k in range(n):
        if w == k % 2:
            row[t + 8] = x[k, t + 8]
        if first <= t < past and w == k % 2:
            row[t] = x[k, t]
            row[t + 40] = x[k, t + 40]
        cuda.syncthreads()
        total += row[t + 5] - row[t + 11]
        cuda.syncthreads()
    y[cuda.threadIdx.x] = total


@cuda.jit
def margin(x: Any, y: Any, n: Any, lanes: Any, far: Any) -> None:
    """The same by one warp, without a branch between; `far` is 40, or leads to what others have or nobody."""
    row = cuda.shared.array(48, np.float32)
    t = cuda.threadIdx.x
    total = np.float32(0)
    for k in range(n):
        row[t + 8] = x[k, t + 8]
        if t < lanes:
            row[t] = x[k, t]
            row[t + far] = x[k, t + 40]
        cuda.syncwarp()
        total += row[t + 5] - row[t + 11]
        cuda.syncwarp()
    y[t] = total


@cuda.jit
def both_sides(x: Any, y: Any, n: Any) -> None:
    """What the lanes of each side leave in rows that the others need, too."""
    t = cuda.threadIdx.x
    place, total, step = t, x[t], np.float32(1)
    for k in range(n):
        if x[t] > k:
            place = (t + k) % 64
            total += x[place]
        else:
            step = total - k
            y[64 + t] = step
        total += step
    y[t] = total + place


@cuda.jit
def last_round(x: Any, y: Any, n: Any, wrong: Any) -> None:
    """In the last round lanes of two warps access what they must not: `wrong` 0: nothing, 1: the other warp's, 2: what
    is unwritten, 3: what lies outside."""
    s = cuda.shared.array(160, np.float32)
    t = cuda.threadIdx.x
    s[t] = t
    total = np.float32(0)
    cuda.syncthreads()
    for k in range(n):
        place = t
        if k == n - 1 and wrong > 0:
            place = (t + 32) % 64 if wrong == 1 else 96 + t if wrong == 2 else t + 500
        if t % 32 < 12:
            total += s[place]
            if wrong == 1:
                s[t] = total
        total += x[t]
    y[t] = total


@cuda.jit
def sectors(x: Any, y: Any, n: Any, lanes: Any, gap: Any) -> None:
    """Some lanes' accesses to arrays, at any place of a sector, with and without gaps."""
    t = cuda.grid(1)
    total = np.float32(0)
    for k in range(n):
        if t % 32 < lanes:
            total += x[gap * t + k]
            y[64 + 161 * k + gap * t] = total
    y[t] = total


@cuda.jit
def unset(x: Any, y: Any, n: Any, lanes: Any, read: Any) -> None:
    """Some lanes write what nobody has written; some read it."""
    s = cuda.shared.array(1024, np.float32)
    t = cuda.threadIdx.x
    total = np.float32(0)
    for k in range(n):
        if t < lanes:
            s[32 * k + t] = x[t]
        cuda.syncwarp()
        if t < read:
            total += s[32 * k + t]
    y[t] = total


def numbers(*shape: int) -> Any:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def zeros() -> Any:
    return np.zeros(2048, np.float32)


LAUNCHES: dict[str, tuple[Any, int, Callable[[], tuple[Any, ...]], str]] = {
    "margins": (margins, 64, lambda: (numbers(12, 80), zeros(), 12, 0, 8), "verified"),
    "margins in the midst": (margins, 64, lambda: (numbers(12, 80), zeros(), 12, 2, 7), "failed"),
    "margin": (margin, 32, lambda: (numbers(12, 80), zeros(), 12, 8, 40), "verified"),
    "margin of others": (margin, 32, lambda: (numbers(12, 80), zeros(), 12, 8, 39), "failed"),
    "margin outside": (margin, 32, lambda: (numbers(12, 80), zeros(), 12, 8, 44), "failed"),
    "less than a margin": (margin, 32, lambda: (numbers(12, 80), zeros(), 12, 5, 40), "failed"),
    "both sides": (both_sides, 64, lambda: (numbers(64) % 9, zeros(), 9), "verified"),
    "right": (last_round, 64, lambda: (numbers(64), zeros(), 9, 0), "verified"),
    "race": (last_round, 64, lambda: (numbers(64), zeros(), 9, 1), "failed"),
    "unwritten": (last_round, 64, lambda: (numbers(64), zeros(), 9, 2), "failed"),
    "outside": (last_round, 64, lambda: (numbers(64), zeros(), 9, 3), "failed"),
    "sectors": (sectors, 64, lambda: (numbers(256), zeros(), 9, 12, 1), "verified"),
    "gaps": (sectors, 64, lambda: (numbers(256), zeros(), 9, 12, 2), "verified"),
    "written by more": (unset, 32, lambda: (numbers(32), zeros(), 9, 20, 11), "verified"),
    "read by more": (unset, 32, lambda: (numbers(32), zeros(), 9, 11, 20), "failed"),
}


@pytest.mark.parametrize("name", LAUNCHES)
def test_lanes_that_part_do_in_blocks_what_they_do_in_the_vm(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, threads, arguments, verdict = LAUNCHES[name]
    found = in_all_tiers(monkeypatch, lambda: said(kernel, 1, threads, arguments()))
    assert found[0]["verdict"] == verdict


@pytest.mark.parametrize("name", LAUNCHES)
def test_and_in_the_reference(name: str) -> None:
    kernel, threads, arguments, verdict = LAUNCHES[name]
    assert wsemu.check(kernel, 1, threads, arguments(), engine="reference").verdict == verdict


HALVES = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 y, .param .u64 z, .param .u32 n)
{
  .reg .b32 %t, %l, %v, %k, %n, %s;
  .reg .b64 %x, %y, %z, %a, %o;
  .reg .pred %p, %q, %e;
  ld.param.u64 %x, [x];
  ld.param.u64 %y, [y];
  ld.param.u64 %z, [z];
  ld.param.u32 %n, [n];
  mov.u32 %t, %tid.x;
  and.b32 %l, %t, 1;
  setp.eq.u32 %p, %l, 0;
  setp.lt.u32 %q, %t, 20;
  mul.wide.u32 %o, %t, 4;
  add.s64 %a, %x, %o;
  add.s64 %z, %z, %o;
  ld.global.u32 %s, [%a];
  add.s64 %y, %y, ODD;
  selp.b64 %a, %a, %y, %p;
  mov.u32 %s, 0;
  mov.u32 %k, 0;
  bar.sync 0;
$top:
  add.s32 %v, %k, 1000;
  BODY
  add.s32 %s, %s, %v;
  add.s32 %k, %k, 1;
  setp.lt.s32 %e, %k, %n;
  @%e bra $top;
  st.global.u32 [%z], %s;
  st.global.u32 [%a], %s;
  ret;
}
"""
"""A load into a row that all lanes have alike: the even ones' of x, whose cells there are, and the odd ones' of y."""


@pytest.mark.parametrize("odd", ["%o", "100000"], ids=["host needed", "outside"])
@pytest.mark.parametrize(
    "body",
    [
        "@%q ld.global.u32 %v, [%a];",
        "@!%q bra $j;\n  ld.global.u32 %v, [%a];\n$j:",
        "@!%q bra $m;\n  ld.global.u32 %v, [%a];\n  bra $j;\n$m:\n  add.s32 %v, %v, 5;\n$j:",
    ],
    ids=["guard", "side", "two sides"],
)
def test_lanes_that_have_loaded_when_the_host_is_needed_keep_it(
    body: str, odd: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "halves.ptx"
    file.write_text(HALVES.replace("BODY", body).replace("ODD", odd), encoding="utf-8")
    x, y = np.arange(32, dtype=np.int32), np.arange(100, 132, dtype=np.int32)

    def launch() -> tuple[Any, ...]:
        return said(wsemu.load_ptx(file)["k"], 1, 32, (x.copy(), y.copy(), np.zeros(32, np.int32), 3))

    found = in_all_tiers(monkeypatch, launch)
    z = np.zeros(32, np.int32)
    wsemu.check(wsemu.load_ptx(file)["k"], 1, 32, (x.copy(), y.copy(), z, 3), engine="reference")
    assert found[-1] == z.tobytes()


@cuda.jit
def leader(x: Any, y: Any, n: Any) -> None:
    """One lane reads a place twice, and writes it."""
    s = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    s[t] = t
    total = np.float32(0)
    cuda.syncwarp()
    for _ in range(n):
        if t == 5:
            total += s[t]
            total += s[t] * 2
            s[t] = total
        total += x[t]
        cuda.syncwarp()
    y[t] = total


def test_one_lanes_cells_are_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the launch is made a second time, lane by lane."""
    suspects: list[int] = []
    before = vm.Machine.run

    def run_and_look(machine: Any, *arguments: Any, **options: Any) -> int:
        status = before(machine, *arguments, **options)
        suspects.append(int(machine.state[0]["suspects"]))
        return status

    monkeypatch.setattr(vm.Machine, "run", run_and_look)
    in_all_tiers(monkeypatch, lambda: said(leader, 1, 32, (numbers(32), zeros(), 40)))
    assert suspects == [0, 0, 0]


def by_the_vm(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lanes of each access that a machine with a block makes as the VM does, from now on."""
    lanes: list[int] = []
    take_up, kept = hot._take_up, []
    signature = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 5)

    def take_up_and_count(machine: Any, block: Any) -> None:
        take_up(machine, block)
        entry = signature(int(machine.state[0]["access_entry"]))

        def access(address: int, w: int, pc: int, registers: int, mask: int) -> int:
            lanes.append((mask & ((1 << LANES) - 1)).bit_count())
            made: int = entry(address, w, pc, registers, mask)
            return made

        kept.append(signature(access))
        machine.state[0]["access_entry"] = ctypes.cast(kept[-1], ctypes.c_void_p).value

    monkeypatch.setattr(hot, "_take_up", take_up_and_count)
    return lanes


@pytest.mark.parametrize("name", ["sectors", "written by more"])
def test_a_block_makes_the_accesses_of_both_sides(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, threads, arguments, _ = LAUNCHES[name]
    taken, lanes = counted(monkeypatch), by_the_vm(monkeypatch)
    monkeypatch.setenv("WSEMU_TIER", "always")
    said(kernel, 1, threads, arguments())
    assert taken
    assert sum(n < LANES for n in lanes) < 2 * 9 * threads // 32 // 4


def test_what_meets_again_has_no_shape_that_one_side_wrote(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each lane's number is that of its own side."""
    known: list[Rows] = []

    def look(machine: Machine) -> None:
        known.append(Rows(machine.program, given_shapes(machine.program, machine.registers)))

    monkeypatch.setattr(hot, "look", look)
    said(both_sides, 1, 64, LAUNCHES["both sides"][2]())
    rows = known[0]
    found = [one for one in rows.partings.values() if len(one.sides) == 2]
    assert found
    for one in found:
        state = rows.before[one.join + 1]
        assert state is not None
        written = {row for side in one.sides for at in range(side.start, side.end) for row, _ in rows.uses[at].writes}
        assert not any(state.get(row) for row in written)
