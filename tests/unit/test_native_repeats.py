"""Launches that repeat an earlier one get its outcome, and only those on the same memory do."""

from __future__ import annotations

import os
import struct
from typing import Any

import numpy as np
import pytest

from wsemu.launch import hooks
from wsemu.launch.check import launch
from wsemu.native import repeats
from wsemu.native import session as native
from wsemu.native.messages import ACTION, ALLOCATE, HEAD, LAUNCH, ActionKind, Kind, Operation
from wsemu.proof import addresses

KERNELS = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry add(.param .u64 x, .param .u64 y) {
    .reg .b64 %a<5>; .reg .b32 %r<5>;
    ld.param.u64 %a1, [x];
    ld.param.u64 %a2, [y];
    mov.u32 %r1, %tid.x;
    mad.wide.u32 %a3, %r1, 4, %a1;
    mad.wide.u32 %a4, %r1, 4, %a2;
    ld.global.u32 %r2, [%a3];
    ld.global.u32 %r3, [%a4];
    add.u32 %r4, %r2, %r3;
    st.global.u32 [%a4], %r4;
    ret;
}
.visible .entry race(.param .u64 x, .param .u64 y) {
    .reg .b64 %a<3>; .reg .b32 %r<2>;
    ld.param.u64 %a1, [y];
    mov.u32 %r1, %tid.x;
    st.global.u32 [%a1], %r1;
    ret;
}
"""
X, Y = 16 << 40, 17 << 40
BYTES = 256


class Process:
    """A process that launches kernels on two arrays of 64 words."""

    def __init__(self, folder: Any, monkeypatch: Any) -> None:
        self.runs = 0
        self.verdicts: list[str] = []
        self._session = native.Session(folder, native.Watch())
        file = os.memfd_create("memory")
        os.truncate(file, 1 << 16)
        self._session.begin(struct.pack("<Q", os.getpid()), file)
        for number, address in enumerate((X, Y)):
            self._session.handle(Operation.ALLOCATE, ALLOCATE.pack(address, BYTES, 4096 * number, Kind.DEVICE, 0))
        self._session.handle(Operation.MODULE, struct.pack("<I", 1) + KERNELS.encode())

        def count(*arguments: Any) -> None:
            self.runs += 1
            launch(*arguments)

        monkeypatch.setattr(native, "launch", count)
        monkeypatch.setattr(repeats, "MIN_SECONDS", 0)
        monkeypatch.setattr(repeats, "BYTES_PER_SECOND", 1 << 40)

    def write(self, address: int, value: int) -> None:
        """Write a value to all words of an array."""
        self._session.memory.view(address, np.uint32)[:] = value
        data = ACTION.pack(ActionKind.FILL, 0, 0, address, 0, BYTES, 0)
        self._session.handle(Operation.ACTION, data)

    def read(self, address: int) -> set[int]:
        """Return the words of an array."""
        return {*self._session.memory.read(address, np.uint32, BYTES // 4).tolist()}

    def allocate_again(self, address: int) -> None:
        """Free an array and allocate it again."""
        self._session.handle(Operation.FREE, struct.pack("<Q", address))
        number = (address - X) >> 40
        self._session.handle(Operation.ALLOCATE, ALLOCATE.pack(address, BYTES, 4096 * number, Kind.DEVICE, 0))

    def launch(self, kernel: int = 0, threads: int = 64, source: int = X) -> int:
        """Launch a kernel; return the error of CUDA."""
        parameters = struct.pack("<QQ", source, Y)
        shape = (1, 1, 1, threads, 1, 1, 0, 0, 0, 0, 0, len(parameters), 0)
        with hooks.adding_hook(hooks.observers, lambda report: self.verdicts.append(report.verdict)):
            reply = self._session.handle(Operation.LAUNCH, LAUNCH.pack(1, kernel, *shape) + parameters)
        return int(HEAD.unpack_from(reply)[0])


@pytest.fixture
def process(tmp_path, monkeypatch):
    made = Process(tmp_path, monkeypatch)
    made.write(X, 1)
    made.write(Y, 0)
    return made


def test_an_equal_launch_on_equal_memory_runs_no_third_time(process):
    for _ in range(5):
        process.write(Y, 7)
        assert process.launch() == 0
        assert process.read(Y) == {8}
    assert process.runs == 2
    assert process.verdicts == ["verified"] * 5


def test_a_launch_on_other_memory_runs(process):
    for n in range(5):
        assert process.launch() == 0
        assert process.read(Y) == {n + 1}
    assert process.runs == 5


def test_a_change_of_any_allocation_is_seen(process):
    for _ in range(3):
        process.write(Y, 7)
        process.launch()
    process.write(X, 2)
    process.write(Y, 7)
    process.launch()
    assert process.read(Y) == {9}
    assert process.runs == 3


def test_a_launch_of_another_shape_or_with_other_arguments_runs(process):
    for _ in range(3):
        process.write(Y, 7)
        process.launch()
    process.write(Y, 7)
    process.launch(threads=32)
    assert process.read(Y) == {7, 8}
    process.write(Y, 7)
    process.launch(source=Y)
    assert process.read(Y) == {14}
    assert process.runs == 4


def test_memory_that_was_allocated_again_is_uninitialized(process):
    for _ in range(3):
        process.write(Y, 0)
        process.launch()
    process.allocate_again(Y)
    process.launch()
    assert process.verdicts == ["verified"] * 3 + ["failed"]


def test_a_failed_launch_fails_again(process):
    for _ in range(4):
        process.launch(kernel=1)
    assert process.runs == 2
    assert process.verdicts == ["failed"] * 4


def test_a_launch_that_is_not_admitted_has_its_effect_and_no_report(process):
    for _ in range(2):
        process.write(Y, 7)
        process.launch()
    process.write(Y, 7)
    with hooks.adding_hook(hooks.admitting, lambda _: False):
        process.launch()
    assert process.read(Y) == {8}
    assert (process.runs, process.verdicts) == (2, ["verified"] * 2)


def test_a_launch_that_is_not_admitted_does_not_enter_the_order_of_launches(process, monkeypatch):
    entered = []
    monkeypatch.setattr(process._session._order, "note_launch", lambda *launch: entered.append(launch))
    for admitted in (True, True, True, False):
        process.write(Y, 7)
        with hooks.adding_hook(hooks.admitting, lambda _, answer=admitted: answer):
            process.launch()
    assert (process.runs, len(entered)) == (2, 3)


def test_a_launch_that_finds_other_memory_twice_is_no_longer_kept(process):
    for value in (1, 2, 3, 4, 4, 4, 4):
        process.write(Y, value)
        process.launch()
        assert process.read(Y) == {value + 1}
    assert process.runs == 7


def test_arrays_by_turns_are_analyzed_once_each(process, monkeypatch):
    made = []
    analysis = addresses._Analysis

    def count(*arguments: Any) -> Any:
        made.append(arguments)
        return analysis(*arguments)

    monkeypatch.setattr(addresses, "_Analysis", count)
    for n in range(6):
        process.write(Y, n)
        process.launch(source=(X, Y)[n % 2])
    assert process.runs == 6
    assert len(made) == 2
