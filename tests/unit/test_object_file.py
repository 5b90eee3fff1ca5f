"""Object code is put into the process without LLVM: it does the same, and what only LLVM can place is left to it."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import pytest

from wsemu.machine import build, cache, object_file
from wsemu.machine.lowering import compile_function

pytestmark = pytest.mark.skipif(not object_file.is_known_here(), reason="another kind of object files")


def collatz(n: int, most: int) -> int:
    steps = 0
    while n != 1:
        if steps >= most:
            return -1
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


def called(address: int) -> Any:
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(address)


@pytest.fixture(scope="module")
def made() -> tuple[str, str, bytes]:
    return compile_function(collatz, "collatz")


def test_what_is_placed_here_does_what_llvm_makes_of_it(made: tuple[str, str, bytes]) -> None:
    symbol, needed, code = made
    ours, theirs = object_file.load(code, symbol), build._load_by_llvm(symbol, needed, code)
    assert ours
    for n in (1, 2, 7, 27, 97):
        assert called(ours)(n, 1000) == called(theirs)(n, 1000) == collatz(n, 1000)


def test_all_parts_that_were_compiled_are_placed_here() -> None:
    parts = {name: part for name in cache.cached_files() if (part := cache.read(name))}
    assert [name for name, (symbol, _, code) in parts.items() if not object_file.load(code, symbol)] == []


def test_other_object_files_are_left_to_llvm(made: tuple[str, str, bytes]) -> None:
    symbol, _, code = made
    other_machine = code[:18] + struct.pack("<H", 183) + code[20:]
    assert object_file.load(b"\xcf\xfa\xed\xfe" + code[4:], symbol) is None
    assert object_file.load(other_machine, symbol) is None
    assert object_file.load(code, "no such function") is None


def test_a_relocation_of_another_kind_is_left_to_llvm(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [part for name in cache.cached_files() if (part := cache.read(name))]
    referring = [
        part for part in parts if any(s.type == object_file._RELOCATIONS for s in object_file._sections(part[2]))
    ]
    monkeypatch.setattr(object_file, "_ADDRESS", 2)
    assert not any(object_file.load(code, symbol) for symbol, _, code in referring[:3])


def test_memory_that_may_not_be_run_is_left_to_llvm(
    made: tuple[str, str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_file, "_made_executable", lambda memory: False)
    assert object_file.load(made[2], made[0]) is None
